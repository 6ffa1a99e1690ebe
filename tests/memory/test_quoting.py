import re
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from convmem.memory.quoting import Overlap, bullets, locate, says_nothing, terms


@given(st.text(max_size=400))
def test_bullets_are_disjoint_parts_of_any_reply_that_say_something(reply):
    found = bullets(reply)
    assert all(0 <= start < end <= len(reply) for start, end in found)
    assert all(a[1] <= b[0] for a, b in pairwise(found))
    notes = [reply[start:end] for start, end in found]
    assert all(note == note.strip() and not says_nothing(note) for note in notes)


@pytest.mark.parametrize(
    ("reply", "notes"),
    [
        ("- a fact\n- another\n  goes on\n* third", ["a fact", "another\n  goes on", "third"]),
        ("1. one\n2) two", ["one", "two"]),
        ("Here they are:\n- a fact", ["Here they are:", "a fact"]),
        ("first line\nsecond line", ["first line", "second line"]),
        ("NONE", []),
        ("- NONE\n- \n", []),
        ("", []),
        ("- 1990-2000 -3 degrees", ["1990-2000 -3 degrees"]),
    ],
)
def test_bullet_lists(reply, notes):
    assert [reply[start:end] for start, end in bullets(reply)] == notes


@pytest.mark.parametrize(
    "text", ["", " \n", "NONE", "none.", "**None**", "N/A", "Not found", "nothing relevant", "---" * 30_000]
)
def test_what_says_nothing(text):
    assert says_nothing(text)


@pytest.mark.parametrize("text", ["No", "none of them left", "Nothing Else Matters", "0", "noone", "-" * 30_000 + "x"])
def test_what_says_something(text):
    assert not says_nothing(text)


@given(st.text(max_size=200), st.text(min_size=1, max_size=40), st.text(max_size=200))
def test_a_verbatim_quote_is_found(before, quote, after):
    place = locate(quote, before + quote + after)
    outer = "\"'“”‘’«»…."
    words = quote.strip().strip(outer).split()
    if words:
        assert place
        found = "".join((before + quote + after)[slice(*place)].strip(outer).split())
        assert found.lower() == "".join(words).lower()


@pytest.mark.parametrize(
    ("quote", "place"),
    [
        ("It ended.", "It ended."),
        ("It ended", "It ended"),
        ("“It ended.”", "It ended."),
        ("it  ENDED.", "It ended."),
        ('"Then, "', "Then,"),
        ("...", None),
        ("(now) it rose…", None),
        ("The peak is at .", "The peak is at ."),
    ],
)
def test_a_quote_keeps_the_punctuation_that_the_text_has(quote, place):
    text = "Then, in May. It ended. It rose again. The peak is at ."
    found = locate(quote, text)
    assert (text[slice(*found)] if found else None) == place


@given(st.text(alphabet="ab \n.ẞİ", max_size=60), st.text(alphabet="AB ẞİ\t", min_size=1, max_size=8))
def test_case_and_white_space_may_differ_and_nothing_else(text, quote):
    def plain(value):
        return "".join(c.lower() if len(c.lower()) == 1 else c for c in value if not c.isspace())

    place = locate(quote, text)
    assert bool(place) == (bool(plain(quote)) and plain(quote) in plain(text))
    if place:
        assert plain(text[slice(*place)]) == plain(quote)


def test_a_hostile_quote_takes_no_long_look():
    assert locate("a" * 50_000 + "b", "a" * 200_000) is None


@given(st.text(max_size=60), st.lists(st.text(max_size=60), max_size=5))
def test_overlaps_are_shares(claim, texts):
    shares = Overlap(texts).shares(claim)
    assert len(shares) == len(texts) and all(0 <= share <= 1 + 1e-9 for share in shares)
    if terms(claim):
        assert Overlap([claim]).shares(claim)[0] == pytest.approx(1)


def test_rare_words_count_for_more():
    shares = Overlap(["the keeper of storms", "the light of Isleap", "the keeper of goats"]).shares(
        "the keeper of Isleap"
    )
    assert max(shares) == shares[1]


def test_languages_without_spaces_share_terms():
    first, second = Overlap(["海は静かだった。", "灯台守は田中という男だった。"]).shares("灯台守の名前は田中です")
    assert second > first
    assert re.fullmatch(r"\w\w", terms("灯台守")[0])
