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


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 999), st.integers(0, 149), st.integers(0, 3), st.integers(0, 3))
def test_a_change_moves_only_the_windows_around_it(seed, at, added, removed):
    before = prose(seed, 150)
    after = before[:at] + prose(f"{seed}/new", added) + before[at + removed :]
    old, new = texts(before), texts(after)
    assert len(set(new) - set(old)) <= 10 < len(new) / 3


def test_most_changes_move_one_or_two_windows():
    moved = []
    for seed in range(30):
        before = prose(seed, 150)
        after = [*before[:75], *prose(f"{seed}/new", 1), *before[75:]]
        moved.append(len(set(texts(after)) - set(texts(before))))
    assert sorted(moved)[len(moved) // 2] <= 2


def test_another_file_leaves_the_windows_of_the_others_alone():
    one, other, new = prose(1, 40), prose(2, 40), prose(3, 40)
    assert texts(one, other) == [text for text in texts(one, new, other) if text not in texts(new)]


def test_a_window_must_hold_something():
    with pytest.raises(InputError, match="index_window"):
        texts(prose(1, 3), window=1)
