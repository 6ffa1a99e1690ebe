"""One character space over many sources: slices, places and sentences."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from convmem.core import InputError, Span
from convmem.document import Document, EstimateTokenizer, Source

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=60) | st.text("a .\n。", max_size=60)
sources = st.lists(texts, min_size=1, max_size=5).filter(lambda found: any(text.strip() for text in found))


def document_of(found: list[str]) -> Document:
    return Document(tuple(Source(f"source-{n}", text) for n, text in enumerate(found)))


@st.composite
def documents_with_span(draw: st.DrawFn) -> tuple[Document, str, Span]:
    found = draw(sources)
    whole = "\n\n".join(found)
    start, end = sorted(draw(st.tuples(st.integers(0, len(whole)), st.integers(0, len(whole)))))
    return document_of(found), whole, Span(start, end)


@given(documents_with_span())
def test_a_span_is_a_slice_of_the_sources_joined_by_blank_lines(case: tuple[Document, str, Span]) -> None:
    document, whole, span = case
    assert document.size == len(whole)
    assert document.text(span) == whole[span.start : span.end]


@given(documents_with_span())
def test_a_place_is_in_the_source_that_holds_most_of_the_span(case: tuple[Document, str, Span]) -> None:
    document, _, span = case
    place = document.locate(span)
    source = next(source for source in document.sources if source.name == place.source)
    found = source.text[place.start : place.end]
    assert found in document.text(span)
    assert place.line == 1 + source.text[: place.start].count("\n")
    assert all(len(piece) <= len(found) for piece in _pieces(document, span))


def _pieces(document: Document, span: Span) -> list[str]:
    start, pieces = 0, []
    for source in document.sources:
        pieces.append(source.text[max(span.start - start, 0) : max(span.end - start, 0)])
        start += len(source.text) + 2
    return pieces


@given(documents_with_span())
def test_sentences_lie_in_the_span_in_order_and_hold_all_that_is_visible(case: tuple[Document, str, Span]) -> None:
    document, whole, span = case
    rest = list(document.text(span))
    end = span.start
    for sentence in document.sentences(span):
        assert end <= sentence.start < sentence.end <= span.end
        end = sentence.end
        text = whole[sentence.start : sentence.end]
        assert text == text.strip()
        rest[sentence.start - span.start : sentence.end - span.start] = " " * sentence.size
    assert "".join(rest).isspace() or not rest


@given(documents_with_span())
def test_a_widened_span_holds_the_span_and_widens_no_further(case: tuple[Document, str, Span]) -> None:
    document, _, span = case
    wide = document.widen_to_sentences(span)
    assert 0 <= wide.start <= span.start and span.end <= wide.end <= document.size
    assert document.widen_to_sentences(wide) == wide


@settings(max_examples=30)
@given(documents_with_span())
def test_tokens_are_counted_where_they_start(case: tuple[Document, str, Span]) -> None:
    document, _, span = case
    tokenizer = EstimateTokenizer()
    offsets = document.token_offsets(tokenizer)
    assert document.count(span, tokenizer) == sum(span.start <= offset < span.end for offset in offsets.tolist())
    assert document.token_offsets(tokenizer) is offsets


def test_lines_are_counted_far_into_a_source() -> None:
    document = Document.from_text("line\n" * 50_000 + "here")
    assert document.locate(Span(document.size - 4, document.size)).line == 50_001


def test_lone_surrogates_are_replaced_in_place() -> None:
    document = Document.from_text("a\ud800b🚢")
    assert document.text(Span(0, document.size)) == "a\ufffdb🚢"


def test_the_hash_follows_names_and_texts() -> None:
    given_ = [[("a", "x"), ("b", "y")], [("a", "xb"), ("", "y")], [("a", "x"), ("b", "z")], [("a", "x"), ("c", "y")]]
    documents = [Document(tuple(Source(*pair) for pair in pairs)) for pairs in given_]
    assert len({document.hash for document in documents}) == len(given_)
    assert documents[0].hash == Document(documents[0].sources).hash


@pytest.mark.parametrize("text", ["", " \n\t", "\ufeff "[1:]])
def test_a_blank_text_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="no text"):
        Document.from_text(text)


@pytest.mark.parametrize(
    "sentences",
    [
        ["Dr. Smith met Ms. Korr at 4 p.m. on Tuesday.", "They left.", "It rained (a lot)."],
        ["She lived in the U.S. Navy yard, i.e. near No. 5.", "“Go!” he said.", "He went."],
        ["It cost 3.50 crowns, approx. two days' pay.", "Why?!", "J. R. Halloran knew..."],
        ["他来了。", "“真的吗？”", "她问！", "没有人回答"],
        ["港ができるか。", "「革命だ。」", "市長は書いた。"],
        ["यह पहला वाक्य है।", "यह दूसरा है।"],
        ["ท่าเรือเวลม์ถูกขุดขึ้น", "สภาปฏิเสธสองครั้ง"],
    ],
)
def test_sentences_of_prose(sentences: list[str]) -> None:
    for gap in (" ", "\n\n", "  \n \n"):
        document = Document.from_text(gap.join(sentences))
        found = [document.text(span) for span in document.sentences(Span(0, document.size))]
        assert found == sentences


def test_lines_of_lists_tables_and_code_are_sentences_and_broken_prose_is_not() -> None:
    broken = "The harbour was dug in the spring of that year, when the river had\nmoved for the third time."
    lines = ["# Title", "- one", "- two", "1. first", "| a | b |", "    return x;", "}"]
    document = Document.from_text("\n".join([*lines, "", broken]))
    found = [document.text(span) for span in document.sentences(Span(0, document.size))]
    assert found == [*(line.strip() for line in lines), broken]


def test_a_sentence_without_end_is_widened_to_words_nearby() -> None:
    document = Document.from_text("word " * 2_000_000)
    wide = document.widen_to_sentences(Span(5_000_002, 5_000_003))
    assert document.text(wide).split() == ["word"] * len(document.text(wide).split())
    assert wide.size < 2_100
