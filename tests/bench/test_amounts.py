"""|H_l| and |B| of traces whose pieces are counted by hand: one character is one token here."""

from __future__ import annotations

from convmem.bench.amounts import Amounts, amounts
from convmem.core import ReplySlice, Span
from tests.support.story import FIRST, SECOND, TEXT, WHOLE, Story


def held(story: Story) -> Amounts:
    return amounts(story.trace, len(TEXT), len(TEXT))


def test_a_layer_hands_on_what_the_next_one_reads_and_the_buffer_stands_beside() -> None:
    story = Story(skip="on", evidence="summary")
    one = story.call("summarize", "- Ost was founded by Ida Venn", window=FIRST, relevance=2)
    two = story.call("summarize", "- Rain fell", window=SECOND, relevance=1)
    notes = (ReplySlice(one, 2, 29), ReplySlice(two, 2, 11))
    merged = story.call("merge", "- Ida Venn founded Ost", layer=1, notes=notes)
    again = story.call("merge", "- Ost", layer=1, notes=notes[1:])  # slices overlap: a note is counted once
    story.call("sub_answer", "{}", passages=(ReplySlice(merged, 2, 22), ReplySlice(again, 2, 5), Span(0, 28)))
    story.call("answer", "{}", findings=("[1] Ost",))
    assert held(story) == Amounts((27 + 9, 20 + 3), 28)


def test_overlapping_windows_are_in_the_buffer_once() -> None:
    story = Story(skip="on", evidence="quotes")
    story.call("kernel_quotes", "{}", window=WHOLE)
    story.call("sub_answer", "{}", passages=(Span(0, 30), Span(20, 40)))
    assert held(story) == Amounts((0,), 40)


def test_windows_that_travel_verbatim_are_what_layer_0_hands_on() -> None:
    story = Story(skip="on", evidence="windows")
    story.call("score", "Yes", window=FIRST, relevance=2)
    story.call("direct", "{}", passages=("[1] ", FIRST))
    assert held(story) == Amounts((FIRST.size,), None)


def test_a_sequential_method_hands_on_its_last_memory() -> None:
    story = Story()
    one = story.call("memorize", "Ost was founded.", window=FIRST, memory=("none",), section=(FIRST,))
    two = story.call("memorize", "Venn.", window=SECOND, memory=(ReplySlice(one, 0, 16),), section=(SECOND,))
    story.call("memory_answer", "Brell", memory=(ReplySlice(two, 0, 5),))
    assert held(story) == Amounts((5,), None)


def test_one_call_that_reads_and_answers_hands_nothing_on() -> None:
    story = Story()
    story.call("direct", "{}", passages=("[1] ", WHOLE))
    assert held(story) == Amounts((), None)


def test_tokens_are_estimated_from_characters() -> None:
    story = Story(evidence="windows")
    story.call("score", "Yes", window=FIRST)
    story.call("direct", "{}", passages=(FIRST,))
    assert amounts(story.trace, 4 * len(TEXT), len(TEXT)).layers == (FIRST.size // 4,)
