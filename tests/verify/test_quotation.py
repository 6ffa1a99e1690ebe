"""Quotation: what typesetting does makes no difference, and every change of a word, name or number does."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from convmem.verify import quotes
from convmem.verify.quotation import normalized

SAMPLES = Path(__file__).parents[2] / "samples"
HARBOUR = (SAMPLES / "harbour.md").read_text("utf-8")
CLAIMS = [json.loads(line) for line in (SAMPLES / "claims.jsonl").read_text("utf-8").splitlines()]
SENTENCES = sorted({premise for claim in CLAIMS for premise in claim["premises"]})

TYPESET = st.sampled_from(
    [("'", "’"), ('"', "“"), ("-", "–"), (" ", "\u00a0"), (" ", "\n"), ("fi", "ﬁ"), ("a", "a\u00ad")]
)


@settings(deadline=None)
@given(st.integers(0, len(HARBOUR) - 1), st.integers(1, 300), st.lists(TYPESET, max_size=4))
def test_a_slice_of_whole_words_is_a_quotation_however_it_is_set(
    start: int, length: int, changes: list[tuple[str, str]]
) -> None:
    words = list(re.finditer(r"\S+", HARBOUR[start : start + length]))[1:-1]
    assume(words)
    quote = HARBOUR[start + words[0].start() : start + words[-1].end()]
    assume(re.search(r"\w", quote))
    for plain, typeset in changes:
        quote = quote.replace(plain, typeset)
    assert quotes(quote, HARBOUR[max(0, start - 200) : start + length + 200])


@settings(deadline=None)
@given(st.sampled_from(SENTENCES), st.data())
def test_a_changed_letter_or_digit_is_no_quotation(sentence: str, data: st.DataObject) -> None:
    place = data.draw(st.sampled_from([n for n, char in enumerate(sentence) if char.isalnum()]))
    other = data.draw(st.sampled_from("0123456789" if sentence[place].isdigit() else "abcdefgXYZ"))
    assume(other != sentence[place])
    assert not quotes(sentence[:place] + other + sentence[place + 1 :], sentence)


def test_every_misquotation_of_the_sample_is_caught() -> None:
    """Each number and each name in each sentence, replaced by others of the archive."""
    archive = (SAMPLES / "archive.md").read_text("utf-8")
    names = sorted(
        {name for s in SENTENCES for name in re.findall(r"[A-Z][a-z]+ [A-Z][a-z]+", s) if not s.startswith(name)}
    )
    wrong = [
        (sentence, sentence.replace(number, str(int(number) + step)))
        for sentence in SENTENCES
        for number in set(re.findall(r"\d+", sentence))
        for step in (-10, -1, 1, 9, 100)
    ]
    wrong += [
        (sentence, sentence.replace(name, names[(n + step) % len(names)]))
        for sentence in SENTENCES
        for n, name in enumerate(names)
        for step in (1, 7)
        if name in sentence
    ]
    assert len(wrong) > 1_000
    assert all(quotes(sentence, sentence) for sentence in SENTENCES)
    assert [changed for sentence, changed in wrong if quotes(changed, sentence)] == []
    whole = normalized(archive)
    assert [changed for _, changed in wrong[::10] if normalized(changed) in whole] == []


@pytest.mark.parametrize(
    ("quote", "text"),
    [
        ("cost 3", "It cost 3.5 crowns."),
        ("cost 3", "It cost 3,500 crowns."),
        ("500 crowns", "It cost 3,500 crowns."),
        ("500 crowns", "It cost 3 500 crowns."),
        ("It cost 3", "It cost 3 500 crowns."),
        ("5 degrees", "It fell to -5 degrees."),
        ("2 cups", "Take 1/2 cups."),
        ("102 metres", "It has 10² metres."),
        ("12", "Take ½ of it."),
        ("at 10", "The train left at 10:45."),
        ("Ann", "Anna came."),
        ("one", "None came."),
        ("", "Anything."),
        ("...", "Wait... what?"),
        ("'", "It's."),
    ],
)
def test_part_of_a_number_or_word_is_no_quotation(quote: str, text: str) -> None:
    assert not quotes(quote, text)


@pytest.mark.parametrize(
    ("quote", "text"),
    [
        ("the light-house keeper", "He was the light-\nhouse keeper."),
        ("the lighthouse keeper", "He was the light-\nhouse keeper."),
        ("1914-1918", "from 1914–1918"),
        ("1918", "from 1914–1918"),
        ("“He left.”", "Then he said: He left. He left, I say."),
        ("It cost 3,500 crowns", "It cost 3,500 crowns, or more."),
        ("Ｔｏｋｙｏ 2020", "Tokyo 2020"),
        ("東京で", "彼は東京で生まれた。"),
    ],
)
def test_typesetting_makes_no_difference(quote: str, text: str) -> None:
    assert quotes(quote, text)


@settings(max_examples=50, deadline=None)
@given(st.text(max_size=40), st.text(max_size=80))
def test_any_text_is_an_answer_and_not_an_error(quote: str, text: str) -> None:
    assert quotes(quote, text) in (True, False)
    assert normalized(normalized(text)) == normalized(text)
