"""From a trace to the stages of its evidence."""

from __future__ import annotations

from typing import Any

import pytest

from convmem.bench.contexts import PlacedUnit
from convmem.bench.stages import Follower, says_alike
from convmem.core import ReplySlice, Span
from tests.support.story import DOCUMENT, FIRST, SECOND, TEXT, WHOLE, Story

UNITS = [
    PlacedUnit(Span(TEXT.index(text), TEXT.index(text) + len(text)), 6, 1, "Ost", "sentence", hop)
    for hop, text in enumerate(("Ost was founded by Ida Venn.", "Ida Venn was born in Brell."), 1)
]


def evidence(story: Story) -> dict[str, Any]:
    says = says_alike(UNITS, DOCUMENT)
    found = Follower(UNITS, says, lambda node: story.replies[str(node.key)]).evidence(story.trace)
    return {name: found[name] for name in ("window", "kept", "layers", "buffer", "final")}


def test_summaries_count_for_the_units_that_they_say() -> None:
    story = Story(skip="on", evidence="summary")
    kept = story.call("summarize", "- Ost was founded by Ida Venn", window=FIRST, relevance=1)
    story.call("summarize", "- The weather was bad", window=SECOND, relevance=2)
    merged = story.call("merge", "NONE", layer=1, notes=(ReplySlice(kept, 2, 31),))
    story.call("sub_answer", "{}", passages=("[1] ", ReplySlice(merged, 0, 4), "[2] ", SECOND))
    assert evidence(story) == {"window": 1, "kept": 1, "layers": [0.5, 0], "buffer": 0.5, "final": 0.5}


def test_what_is_filtered_goes_no_further() -> None:
    for filtered, share in ((True, 0), (False, 0.5)):
        story = Story(skip="off", evidence="summary", filter=filtered)
        story.call("kernel_notes", "- Ost was founded by Ida Venn", window=FIRST, relevance=0)
        assert evidence(story) == {"window": 0.5, "kept": share, "layers": [share], "buffer": None, "final": 0}


def test_a_reply_on_one_window_says_nothing_of_others() -> None:
    story = Story()
    story.call("summarize", "- Ida Venn was born in Brell", window=FIRST)
    assert evidence(story)["kept"] == 0


def test_a_memory_may_say_what_was_read_before() -> None:
    story = Story()
    one = story.call("memorize", "Ost was founded by Ida Venn.", window=FIRST, memory=("none",), section=(FIRST,))
    memory = (ReplySlice(one, 0, 28),)
    two = story.call("memorize", "Ida Venn was born in Brell.", window=SECOND, memory=memory, section=(SECOND,))
    story.call("memory_answer", "Brell", memory=(ReplySlice(two, 0, 27),))
    assert evidence(story) == {"window": 1, "kept": 1, "layers": [1], "buffer": None, "final": 0.5}


def test_relevant_windows_that_travel_verbatim_are_kept_whole() -> None:
    story = Story(evidence="windows")
    story.call("score", "Yes", window=FIRST, relevance=2)
    story.call("score", "No", window=SECOND, relevance=0)
    story.call("direct", "{}", passages=("[1] ", FIRST))
    assert evidence(story) == {"window": 1, "kept": 0.5, "layers": [0.5], "buffer": None, "final": 0.5}


@pytest.mark.parametrize("window", [WHOLE, None])
def test_one_call_that_reads_and_answers_has_no_layers(window: Span | None) -> None:
    story = Story()
    story.call("direct", "{}", window=window, passages=("[1] ", WHOLE))
    assert evidence(story) == {"window": 1, "kept": 1, "layers": [], "buffer": None, "final": 1}


def test_distance_is_the_windows_read_after_a_unit() -> None:
    story = Story()
    for window in (FIRST, SECOND):
        story.call("memorize", "NONE", window=window, section=(window,))
    follower = Follower(UNITS, says_alike(UNITS, DOCUMENT), lambda _: "")
    assert [d["windows"] for d in follower.evidence(story.trace)["distances"]] == [1, 0]


@pytest.mark.parametrize(
    ("said", "unit", "expected"),
    [
        ("Ida Venn  was born\nin Brell.", 1, True),
        ("- Brell is where Ida Venn was born", 1, True),
        ("- Ida Venn", 1, False),
        ("- Nobody came on that rainy day in the hills", 1, False),
        ("", 0, False),
    ],
)
def test_a_paraphrase_says_a_unit_by_its_terms(said: str, unit: int, expected: bool) -> None:
    assert says_alike(UNITS, DOCUMENT)(said, unit) is expected
