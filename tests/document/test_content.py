"""Windows by content cover any document once, and a change moves only those around it."""

import random
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from convmem.core import InputError, Span
from convmem.document import Document, Source
from convmem.document.content import content_windows
from tests.support.reading import Words

WORDS = [f"{first}{second}" for first in "bdfgklmnprst" for second in ("ano", "eri", "ilo", "otu", "una")]


def prose(seed, paragraphs):
    """Paragraphs of a few sentences each."""
    draw = random.Random(seed)
    sentence = lambda: " ".join(draw.choices(WORDS, k=draw.randint(4, 14))).capitalize() + "."  # noqa: E731
    return [" ".join(sentence() for _ in range(draw.randint(1, 6))) for _ in range(paragraphs)]


def texts(*paragraphs_of, window=120):
    document = Document(tuple(Source(str(n), "\n\n".join(p)) for n, p in enumerate(paragraphs_of)))
    return [document.text(each.span) for each in content_windows(document, Words(), window)]


@settings(max_examples=60, deadline=None)
@given(st.lists(st.text(alphabet="ab. \n", max_size=200), min_size=1, max_size=3), st.integers(2, 30))
def test_every_character_of_a_source_is_in_one_window_that_is_not_too_long(parts, window):
    document = Document(tuple(Source(str(n), f"x{part}") for n, part in enumerate(parts)))
    windows = content_windows(document, Words(), window)
    covered = [window.span for window in windows]
    assert all(a.end <= b.start for a, b in pairwise(covered))
    left = {at for span in document.spans for at in range(*span)} - {at for span in covered for at in range(*span)}
    assert not document_text(document, left).strip()
    for each in windows:
        assert each.tokens[1] - each.tokens[0] == document.count(each.span, Words()) <= window + 1


def document_text(document, places):
    return "".join(document.text(Span(at, at + 1)) for at in places)


def changed(seed, at, added, removed):
    """The windows of a text before and after a change of paragraphs, and how many of the latter are new."""
    before = prose(seed, 150)
    old, new = texts(before), texts(before[:at] + prose(f"{seed}/new", added) + before[at + removed :])
    return old, new, len(set(new) - set(old))


def left(windows):
    """Characters from each window's start to the text's end."""
    return [sum(map(len, windows[at:])) for at in range(len(windows))]


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 999), st.integers(0, 149), st.integers(0, 3), st.integers(0, 3))
def test_windows_that_meet_behind_a_change_agree_from_there_on(seed, at, added, removed):
    old, new, _ = changed(seed, at, added, removed)
    behind = len("\n\n".join(prose(seed, 150)[at + removed :]))
    for place in {each for each in left(old) if each <= behind} & set(left(new)):
        assert old[left(old).index(place) :] == new[left(new).index(place) :]


def test_a_change_moves_few_windows():
    moved = []
    for seed in range(60):
        draw = random.Random(seed)
        _, new, count = changed(seed, draw.randrange(150), draw.randrange(4), draw.randrange(4))
        moved.append(count)
        assert count < len(new) / 2
    moved.sort()
    assert moved[30] <= 2 and moved[54] <= 6


def test_another_file_leaves_the_windows_of_the_others_alone():
    one, other, new = prose(1, 40), prose(2, 40), prose(3, 40)
    assert texts(one, other) == [text for text in texts(one, new, other) if text not in texts(new)]


def test_a_window_must_hold_something():
    with pytest.raises(InputError, match="index_window"):
        texts(prose(1, 3), window=1)
