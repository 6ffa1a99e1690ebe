"""The trace as data, and its export as JSON."""

from __future__ import annotations

import json
from math import nan

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from convmem.core import Piece, ReplySlice, Span, Usage
from convmem.prompts import Template, fence, load
from convmem.trace import Trace, encode, from_json, to_json
from tests.support.traces import Recorded, Source, Text, read

WORDS = "The tariff was proposed by Ardent. Nobody objected. The bell was cast at Ostermere. It rang. " * 40


def bell(**options: object) -> Recorded:
    document = Text([Source("a.txt", WORDS[:2000]), Source("b.pdf", "Bells of the coast.\n" + WORDS, (0, 500, 900))])
    parts = [("Who proposed it?", "Ardent", ["proposed by Ardent"]), ("Where?", "Ostermere", ["Bells of the coast."])]
    return read(document, "Who, and where?", parts, "Ardent", window=800, stride=400, fan_in=500, **options)  # type: ignore[arg-type]


TEXTS = st.text(st.characters(codec="utf-8") | st.sampled_from('<>/"\\\n{}|[]\u2028😀'), max_size=40)


@st.composite
def recorded(draw: st.DrawFn) -> tuple[Trace, Text, dict[str, str]]:
    document = Text(
        [Source(draw(TEXTS), draw(TEXTS), draw(st.none() | st.just((0,)))) for _ in range(draw(st.integers(0, 3)))]
    )
    size = len(document.all)
    trace = Trace(
        draw(TEXTS), method=draw(TEXTS), config={"W": draw(TEXTS)}, model=draw(TEXTS), seed=draw(st.integers())
    )
    replies: dict[str, str] = {}
    for node in range(draw(st.integers(0, 5))):
        start = draw(st.integers(0, size))
        piece: st.SearchStrategy[Piece] = TEXTS | st.just(Span(start, draw(st.integers(start, size))))
        earlier = [i for i in range(node) if trace[i].key]
        if earlier:
            piece |= st.tuples(st.sampled_from(earlier), st.just(0), st.integers(0, 9)).map(ReplySlice._make)
        trace.open(
            draw(TEXTS),
            layer=draw(st.integers(0, 4)),
            channel=draw(TEXTS),
            window=draw(st.none() | st.just(Span(start, size))),
            template_id="read@1",
            variables={"window": draw(st.lists(piece, max_size=3)), "question": draw(TEXTS)},
            parents=earlier,
        )
        answered = draw(st.booleans())
        if answered:
            replies[str(node)] = draw(TEXTS)
        trace.close(
            node,
            key=str(node) if answered else None,
            usage=draw(st.none() | st.builds(Usage, *[st.integers(0, 9_999)] * 3)),
            start=draw(st.floats(0, 1e6)),
            end=draw(st.floats(0, 1e6)),
            status="ok" if answered else draw(st.sampled_from(["failed", "refused"])),
            cached=draw(st.booleans()),
            relevance=draw(st.sampled_from([None, 0, 1, 2])),
            score=draw(st.none() | st.floats(0, 1)),
        )
    return trace, document, replies


@settings(max_examples=60, deadline=None)
@given(recorded())
def test_json_gives_the_trace_back_and_exports_the_same_again(case: tuple[Trace, Text, dict[str, str]]) -> None:
    trace, document, replies = case
    templates = {"read@1": Template("read", 1, "", "{{<window>}}\n{{question}}")}
    data = to_json(trace, document, replies=replies.get, templates=templates, fence=fence)
    stored = json.loads(encode(data))
    again = from_json(stored)
    assert list(again) == list(trace)
    assert (again.question, again.config, again.seed) == (trace.question, trace.config, trace.seed)
    text = Text([Source(s["name"], s["text"], s["pages"]) for s in stored["sources"]])
    export = to_json(again, text, replies=stored["replies"].get, templates=templates, fence=fence)
    assert encode(export) == encode(data)


def test_an_answer_survives_the_export() -> None:
    run = bell(failed=(2,))
    again = from_json(json.loads(encode(run.export())))
    assert again.answer is not None
    assert run.trace.answer is not None
    assert again.answer.citations == run.trace.answer.citations
    assert again.answer.coverage == run.trace.answer.coverage
    assert again.answer.usage == run.trace.answer.usage


def test_something_else_is_not_a_trace() -> None:
    with pytest.raises(ValueError, match="not a trace"):
        from_json({"format": "something else"})


def test_texts_are_stored_once() -> None:
    run = bell()
    stored = encode(run.export()).decode()
    assert stored.count("Bells of the coast.") == 1 + sum("Bells of the coast." in r for r in run.replies.values()) + 1
    instruction = json.dumps(load("relevance").user.partition("{{question}}")[2])[1:-1]
    assert stored.count(instruction) == 1


def test_half_a_surrogate_pair_does_not_stop_the_export() -> None:
    run = Recorded(Text([Source("odd.txt", "before \ud83d after")]), Trace("?"))
    assert json.loads(encode(run.export()))["sources"][0]["text"] == "before \ud83d after"


@pytest.mark.parametrize(
    "wrong", [{"parents": [0]}, {"parents": [-1]}, {"variables": {"notes": [ReplySlice(3, 0, 1)]}}]
)
def test_a_call_depends_on_earlier_calls_only(wrong: dict[str, object]) -> None:
    call = {"layer": 0, "channel": "", "window": None, "template_id": "merge@1", "variables": {}} | wrong
    with pytest.raises(ValueError, match="not before it"):
        Trace("?").open("merge", **call)  # type: ignore[arg-type]


def test_a_score_that_is_no_number_is_left_out() -> None:
    run = Recorded(Text([]), Trace("?"))
    node = run.call("answer", {"findings": "", "question": "?"}, "x", relevance=2, score=nan)
    assert run.trace[node].relevance == 2
    assert b"NaN" not in encode(run.export())


def test_used_evidence_is_what_reached_the_final_prompt() -> None:
    """Through slices of replies, and through the document's own text where it stands in a combining prompt."""
    run = Recorded(Text([Source("a", WORDS)]), Trace("?"))
    first, second, third = Span(0, 100), Span(100, 200), Span(200, 300)
    near = run.call("summarize", {"window": [first], "question": "?"}, "- a fact", window=first)
    run.call("summarize", {"window": [second], "question": "?"}, "NONE", window=second)
    run.call("relevance", {"window": [first], "question": "?"}, "0", window=first, relevance=0)
    raw = run.call("relevance", {"window": [third], "question": "?"}, "2", window=third, relevance=2)
    merged = run.call("merge", {"notes": [ReplySlice(near, 0, 8)], "question": "?"}, "- fact", parents=[near])
    run.call("merge", {"notes": [ReplySlice(raw, 0, 1)], "question": "?"}, "- other", parents=[raw])
    run.call(
        "answer", {"findings": [ReplySlice(merged, 0, 6), Span(210, 220)], "question": "?"}, "yes", parents=[merged]
    )
    assert run.trace.used() == {near, raw, merged}


def test_an_answer_from_text_alone_used_what_it_waited_for() -> None:
    run = Recorded(Text([Source("a", WORDS)]), Trace("?"))
    window = Span(0, 100)
    note = run.call("summarize", {"window": [window], "question": "?"}, "- a fact", window=window)
    unused = run.call("summarize", {"window": [window], "question": "!"}, "- another", window=window)
    part = run.call("sub_answer", {"passages": [ReplySlice(note, 0, 8)], "question": "?"}, "a", parents=[note, unused])
    run.call("answer", {"findings": "[1] ?\nAnswer: a", "question": "?"}, "a", parents=[part])
    assert run.trace.used() == {note, part}


def test_nothing_is_used_where_nothing_was_answered() -> None:
    run = Recorded(Text([]), Trace("?"))
    run.call("decompose", {"question": "?", "c_max": "5"}, None)
    assert run.trace.used() == frozenset()
