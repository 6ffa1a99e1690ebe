"""Windows cover the document as METHODS says, with exact spans."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from convmem.core import InputError, Span
from convmem.document import (
    Document,
    EstimateTokenizer,
    Window,
    boundary_windows,
    content_windows,
    split,
    stride_starts,
    stride_windows,
)

sizes = st.tuples(st.integers(1, 60), st.integers(1, 60)).map(lambda pair: (max(pair), min(pair)))
prose = st.lists(
    st.sampled_from(
        ["word", " ", ". ", "Next",
         "\n", "\n\n", "港", "。", "🚢", "👩‍🔬", "\r\n", "longer-word_with_parts", "  ", "e\u0301"]
    ),
    min_size=1,
    max_size=150,
).map("".join).filter(str.strip)  # fmt: skip


class TwoPerCharacter:
    """Two tokens in every character outside ASCII, one in each other."""

    identity = "two"
    exact = True
    remote = False

    def count(self, text: str) -> int:
        return len(self.offsets(text))

    def offsets(self, text: str) -> NDArray[np.uint32]:
        return np.repeat(np.arange(len(text), dtype=np.uint32), [1 if character.isascii() else 2 for character in text])


tokenizers = st.sampled_from([EstimateTokenizer(), TwoPerCharacter()])


@given(st.integers(0, 5_000), sizes)
def test_as_many_windows_as_the_formula_says_each_a_stride_after_the_last(n: int, size: tuple[int, int]) -> None:
    window, stride = size
    windows = stride_starts(n, window, stride)
    assert len(windows) == math.ceil(max(n - window, 0) / stride) + 1
    assert windows == [(number * stride, min(number * stride + window, n)) for number in range(len(windows))]
    assert windows[-1][1] == n
    assert all(end < n for _, end in windows[:-1])


def test_the_papers_document_has_556_windows() -> None:
    assert len(stride_starts(896_000, 8_000, 1_600)) == 556


@pytest.mark.parametrize(("window", "stride"), [(5, 6), (0, 0), (5, 0), (-1, -1)])
def test_a_stride_that_skips_or_stands_still_is_refused(window: int, stride: int) -> None:
    with pytest.raises(InputError, match="stride"):
        stride_starts(100, window, stride)


@given(prose, tokenizers, sizes)
def test_a_window_holds_every_character_that_its_tokens_touch(
    text: str, tokenizer: EstimateTokenizer, size: tuple[int, int]
) -> None:
    document = Document.from_text(text)
    offsets = [*tokenizer.offsets(text).tolist(), len(text)]
    windows = stride_windows(document, tokenizer, *size)
    assert [window.tokens for window in windows] == stride_starts(len(offsets) - 1, *size)
    for number, window in enumerate(windows):
        first, last = window.tokens
        beyond = next(offset for offset in offsets[last:] if offset > offsets[last - 1])
        assert window == Window(number, (first, last), Span(offsets[first], beyond))
        assert document.text(window.span) == text[window.span.start : window.span.end] != ""


@given(prose, tokenizers, st.integers(1, 60))
def test_boundary_windows_cover_everything_and_go_forward(text: str, tokenizer: EstimateTokenizer, size: int) -> None:
    document = Document.from_text(text)
    windows = boundary_windows(document, tokenizer, size)
    assert windows[0].span.start == 0
    assert windows[-1].span.end == document.size
    for before, after in itertools.pairwise(windows):
        assert before.span.start < after.span.start <= before.span.end < after.span.end
    for window in windows:
        first, last = window.tokens
        assert last - first == document.count(window.span, tokenizer)
        assert last - first <= size or window.span.size == 1


@given(prose, tokenizers, st.integers(1, 60))
def test_the_halves_of_a_window_are_the_window(text: str, tokenizer: EstimateTokenizer, size: int) -> None:
    document = Document.from_text(text)
    for window in boundary_windows(document, tokenizer, size):
        if window.span.size == 1:
            with pytest.raises(ValueError, match="halves"):
                split(document, tokenizer, window)
            continue
        left, right = split(document, tokenizer, window)
        assert left.span.size > 0 < right.span.size
        assert (left.span.start, left.span.end, right.span.end) == (
            window.span.start,
            right.span.start,
            window.span.end,
        )
        assert (left.tokens[0], left.tokens[1], right.tokens[1]) == (
            window.tokens[0],
            right.tokens[0],
            window.tokens[1],
        )


@settings(max_examples=20)
@given(st.integers(40, 200))
def test_boundary_windows_end_with_sentences_and_repeat_nothing_where_there_are_some(size: int) -> None:
    document = Document.from_text("".join(f"The ship number {n} came in. " for n in range(300)))
    windows = boundary_windows(document, EstimateTokenizer(), size)
    texts = [document.text(window.span).rstrip() for window in windows]
    assert all(text.endswith(".") for text in texts if text)
    assert all(before.span.end == after.span.start for before, after in itertools.pairwise(windows))


def test_boundary_windows_prefer_paragraphs() -> None:
    document = Document.from_text("".join(f"The ship came in. It left on day {n}.\n\n" for n in range(100)))
    windows = boundary_windows(document, EstimateTokenizer(), 60)
    assert all(document.text(window.span).endswith(".\n\n") for window in windows)


def test_a_sentence_that_was_cut_is_begun_again_in_the_next_window() -> None:
    document = Document.from_text("word " * 2_000)
    windows = boundary_windows(document, EstimateTokenizer(), 80)
    for before, after in itertools.pairwise(windows):
        assert 1 <= document.count(Span(after.span.start, before.span.end), EstimateTokenizer()) <= 10
        assert document.text(Span(after.span.start - 1, after.span.start + 4)) == " word"


def test_a_line_of_50_million_characters_is_cut() -> None:
    document = Document.from_text("x" * 50_000_000)
    windows = boundary_windows(document, EstimateTokenizer(), 100_000)
    assert windows[-1].span.end == document.size
    assert max(window.span.size for window in windows) < 1_000_000


def test_more_windows_than_can_be_read_are_refused_before_they_are_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("convmem.document.windows.MOST_WINDOWS", 10)
    document, tokenizer = Document.from_text("The lamp was lit again. " * 100), EstimateTokenizer()
    tokens = len(document.token_offsets(tokenizer))
    enough = -(-tokens // 10)
    for cut in (boundary_windows, content_windows, lambda d, t, step: stride_windows(d, t, 2 * step, step)):
        assert cut(document, tokenizer, enough)
        with pytest.raises(InputError, match=f"for every {enough} at least"):
            cut(document, tokenizer, enough - 1)


def test_windows_are_a_sequence() -> None:
    windows = stride_windows(Document.from_text("one two three four five six"), EstimateTokenizer(), 3, 1)
    assert windows[1:3] == [windows[1], windows[2]]
    assert windows[-1] == list(windows)[-1]
    with pytest.raises(IndexError):
        windows[len(windows)]
