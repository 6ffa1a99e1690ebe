import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from convmem.cli.terminal import duration, one_line, printable, tokens

HOSTILE = st.text(
    st.sampled_from("ab \t\n\r\x00\x07\x08\x1b[]0;31mH\\\x7f\x85\x9b\x9c\x9d\u200e\u202e\u2066\u2069\u2028é字")
)


@given(st.text() | HOSTILE)
def test_nothing_that_talks_to_a_terminal_is_left(text):
    left = printable(text)
    assert not [c for c in left if unicodedata.category(c) in ("Cc", "Cs", "Zl", "Zp") and c not in "\t\n"]
    assert not [
        c
        for c in left
        if unicodedata.bidirectional(c) in ("LRE", "RLE", "PDF", "LRO", "RLO", "LRI", "RLI", "FSI", "PDI")
    ]
    assert printable(left) == left


@given(st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cf", "Zl", "Zp"])))
def test_harmless_text_is_left_alone(text):
    assert printable(text) == text


@pytest.mark.parametrize(
    "text, left",
    [
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x1b]0;title\x07shown", "shown"),
        ("\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("\x1b]52;unfinished", "52;unfinished"),
        ("\x9b2Jgone", "gone"),
        ("a\rb\r\nc", "a\nb\nc"),
        ("abc\u202edef", "abcdef"),
        ("👩\u200d👧 क्\u200dष", "👩\u200d👧 क्\u200dष"),
    ],
)
def test_what_becomes_of_it(text, left):
    assert printable(text) == left


@given(HOSTILE, st.integers(8, 80))
def test_one_line_is_one_line_of_its_length(text, limit):
    line = one_line(text, limit)
    assert "\n" not in line and len(line) <= limit + 2


@pytest.mark.parametrize(
    "number, said", [(0, "0"), (999, "999"), (1000, "1k"), (6234, "6.23k"), (999_999, "1M"), (26_688_000, "26.7M")]
)
def test_tokens(number, said):
    assert tokens(number) == said


@pytest.mark.parametrize("seconds, said", [(0.2, "0 s"), (59.7, "1 min 0 s"), (192, "3 min 12 s"), (7500, "2 h 5 min")])
def test_duration(seconds, said):
    assert duration(seconds) == said
