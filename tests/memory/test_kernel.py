import asyncio
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from convmem.core import Span, TokenLogprobs, Transient, union
from convmem.document import Document, Window, stride_windows
from convmem.memory.decomposition import SubQuestion
from convmem.memory.kernel import (
    JointKernel,
    ScoreKernel,
    SplitKernel,
    Thresholds,
    judge_by_json,
    judge_by_logprob,
    read,
)
from tests.support.reading import by_role, reader, within
from tests.support.scripted import FourCharacters, ScriptedModel, completion

PARAGRAPH = "Ann kept the light at Isleap. It rained. The keeper left in May.\n\n"
DOCUMENT = Document.from_text(PARAGRAPH * 1_000)
QUESTIONS = [SubQuestion(str(n), f"Question {n}?") for n in range(1, 4)]
THRESHOLDS = Thresholds(0.1, 0.5)
WINDOW = stride_windows(DOCUMENT, FourCharacters(), 160, 80)[150]


def split(run, **more):
    return SplitKernel(
        run, **{"judge": judge_by_json, "extract": "summary", "filtered": False, "summary_tokens": 100} | more
    )


def readings(model, kernel, questions=QUESTIONS[:1], window=WINDOW, document=DOCUMENT, **run_settings):
    """(readings, run)"""

    async def work(run):
        return await read(kernel(run), window, questions, run), run

    return within(model, document, work, **run_settings)


def test_relevance_and_summary_are_two_calls_at_once():
    model = ScriptedModel(by_role(relevance={"relevance": 2}, summarize="- Ann kept it\n- since May"))
    (found,), run = readings(model, split)
    assert [call.role for call in model.calls] == ["relevance", "summarize"]
    assert found.r == 2 and [h.text for h in found.h] == ["Ann kept it", "since May"]
    assert all((h.origin, h.spans, h.relevance) == ("paraphrase", (WINDOW.span,), 2) for h in found.h)
    assert run.ledger.depth == 1 and {node.relevance for node in run.trace} == {2}


@pytest.mark.parametrize(("r", "asked"), [(0, 1), (1, 2), (2, 2)])
def test_filtered_windows_are_not_summarized(r, asked):
    model = ScriptedModel(by_role(relevance={"relevance": r}, summarize="- Ann"))
    (found,), run = readings(model, lambda run: split(run, filtered=True))
    assert len(model.calls) == run.ledger.depth == asked
    assert (found.r, len(found.h)) == (r, asked - 1)


@pytest.mark.parametrize("reply", ["", "very", "{}", '{"relevance": 7}', '{"relevance": null}', "[]", "[" * 3_000])
def test_relevance_that_can_not_be_read_is_1_and_keeps_the_summary(reply):
    (found,), _ = readings(ScriptedModel(by_role(relevance=reply, summarize="- Ann")), split, retries=0)
    assert found.r == 1 and [h.text for h in found.h] == ["Ann"]


@pytest.mark.parametrize(
    "reply", ["2", '{"relevance": "2"}', '```json\n{"relevance": 2}\n```', 'It is {"relevance": 2}.']
)
def test_relevance_is_read_however_it_is_wrapped(reply):
    assert readings(ScriptedModel(by_role(relevance=reply, summarize="NONE")), split)[0][0].r == 2


@pytest.mark.parametrize(("role", "r", "notes"), [("relevance", 1, 1), ("summarize", 2, 0)])
def test_half_of_a_reading_is_better_than_none(role, r, notes):
    model = ScriptedModel(by_role(**{"relevance": {"relevance": 2}, "summarize": "- Ann", role: Transient("no")}))
    (found,), run = readings(model, split, retries=0)
    assert (found.r, len(found.h)) == (r, notes)
    assert [(f.span, f.role) for f in run.coverage(1).failed_windows] == [(WINDOW.span, role)]


def test_a_window_that_can_not_be_read_gives_nothing_and_is_named():
    found, run = readings(ScriptedModel(lambda _: Transient("no")), split, retries=0)
    assert found == [] and {f.span for f in run.coverage(1).failed_windows} == {WINDOW.span}


def test_one_call_for_all_sub_questions():
    shuffled = [{"question": n, "relevance": n - 1, "notes": [f"note {n}"]} for n in (3, 1, 2)]
    model = ScriptedModel(lambda _: json.dumps({"readings": shuffled}))
    found, _ = readings(model, lambda run: JointKernel(run, extract="summary", summary_tokens=50), QUESTIONS)
    assert [(f.channel, f.r, f.h[0].text) for f in found] == [
        ("1", 0, "note 1"),
        ("2", 1, "note 2"),
        ("3", 2, "note 3"),
    ]
    assert len(model.calls) == 1 and all(q.text in model.calls[0].messages[-1].content for q in QUESTIONS)


@pytest.mark.parametrize(
    "value",
    [
        {"readings": [{"question": 1, "relevance": 2, "notes": ["a"]}]},
        {"readings": [{"question": n, "relevance": 2, "notes": ["a"]} for n in (0, 1, 2)]},
        {"readings": [{"relevance": 2, "notes": ["a"]}] * 3},
        {"readings": [{"question": n, "relevance": "high", "notes": []} for n in (1, 2, 3)]},
        {"readings": {"1": 2}},
        [1, 2, 3],
    ],
)
def test_a_joint_reply_with_a_question_missing_is_asked_for_again_then_relevant_with_its_text(value):
    model = ScriptedModel(lambda _: json.dumps(value))
    found, _ = readings(model, lambda run: JointKernel(run, extract="summary", summary_tokens=50), QUESTIONS)
    assert len(model.calls) == 4
    assert [(f.channel, f.r, f.h[0].text) for f in found] == [(q.id, 1, json.dumps(value)) for q in QUESTIONS]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.sampled_from(["question", "relevance", "notes", "readings"]), inner, max_size=4)
    ),
    max_leaves=12,
)


@settings(max_examples=100, deadline=None)
@given(JSON, st.sampled_from(["summary", "quotes"]), st.integers(1, 3))
def test_any_json_gives_a_reading_for_each_question(value, extract, count):
    model = ScriptedModel(lambda _: json.dumps(value))
    kernel = lambda run: JointKernel(run, extract=extract, summary_tokens=50)  # noqa: E731
    found, _ = readings(model, kernel, QUESTIONS[:count], retries=0)
    assert [f.channel for f in found] == [q.id for q in QUESTIONS[:count]]
    assert all(f.r in (0, 1, 2) and all(h.text.strip() for h in f.h) for f in found)


@settings(max_examples=60, deadline=None)
@given(st.text(max_size=200), st.sampled_from(["summary", "quotes"]), st.booleans())
def test_any_text_gives_a_reading(reply, extract, filtered):
    (found,), run = readings(
        ScriptedModel(lambda _: reply), lambda run: split(run, extract=extract, filtered=filtered), retries=0
    )
    assert found.r in (0, 1, 2)
    assert all(h.origin == "paraphrase" or run.document.text(h.spans[0]) == h.text for h in found.h)


@pytest.mark.parametrize("extract", ["quote", "kernel_quotes"])
def test_quotes_are_found_in_their_own_window_and_others_dropped(extract):
    """Every paragraph is a thousand times in the document: the place is known, not searched for."""
    quotes = ["ann kept the  light at\nIsleap.", "The keeper left in June."]
    said = {"readings": [{"question": 1, "relevance": 2, "notes": quotes}]}
    model = ScriptedModel(
        by_role(
            relevance={"relevance": 2}, quote="\n".join(f"- {q.split(chr(10))[0]}" for q in quotes), kernel_quotes=said
        )
    )
    kernel = (
        (lambda run: split(run, extract="quotes"))
        if extract == "quote"
        else (lambda run: JointKernel(run, extract="quotes", summary_tokens=50))
    )
    (found,), run = readings(model, kernel)
    (quote,) = found.h
    (span,) = quote.spans
    assert WINDOW.span.start <= span.start < span.end <= WINDOW.span.end
    assert run.document.text(span) == quote.text and quote.text.startswith("Ann kept the light at")
    assert quote.origin == "quote"


def logprobs(**top):
    return (TokenLogprobs("x", -1.0, tuple(top.items())),)


@pytest.mark.parametrize(
    ("text", "said", "r", "score"),
    [
        ("Yes", logprobs(Yes=-0.105, No=-2.303), 2, 0.9),
        ("No", logprobs(Yes=-1.386, No=-0.288), 1, 0.25),
        ("No", logprobs(Yes=-5.0, No=-0.01), 0, 0.007),
        ("Sure", logprobs(**{" yes": -1.0, "YES": -1.0, "Hm": -0.5}), 2, 1.0),
        ("Yes", (), 2, 1.0),
        ("**No**.", (), 0, 0.0),
        ("Perhaps", (), 2, 0.5),
        ("Perhaps", logprobs(Maybe=-0.1), 2, 0.5),
    ],
)
def test_scores_with_and_without_log_probabilities(text, said, r, score):
    model = ScriptedModel(lambda call: completion(call, text, logprobs=said))
    found, run = readings(model, lambda run: ScoreKernel(run, thresholds=THRESHOLDS), retries=0)
    assert [(f.channel, f.r) for f in found] == [("1", r)]
    assert found[0].score == pytest.approx(score, abs=0.01)
    assert all(f.h[0].origin == "raw" and f.h[0].text == run.document.text(WINDOW.span) for f in found)
    assert len(model.calls) == 1 and model.calls[0].sampling.max_tokens == 1

    judge = lambda *given: judge_by_logprob(*given, thresholds=THRESHOLDS)  # noqa: E731
    model = ScriptedModel(lambda call: completion(call, text, logprobs=said) if call.role == "score" else "NONE")
    assert readings(model, lambda run: split(run, judge=judge), retries=0)[0][0].r == r


@settings(max_examples=20, deadline=None)
@given(st.integers(420, 900), st.integers(100, 2_000))
def test_a_window_too_long_for_the_model_is_read_in_halves_that_cover_it(context, size):
    window = Window(0, (0, size), Span(0, size * 4))
    model = ScriptedModel(reader, context=context)
    found, run = readings(model, split, window=window)
    assert union(f.window.span for f in found) == (window.span,)
    assert sum(f.window.span.size for f in found) == window.span.size
    assert run.coverage(1).read_tokens == size and not run.coverage(1).failed_windows


def test_a_model_without_room_for_any_window_is_named_and_ends():
    window = Window(0, (0, 1_000), Span(0, 4_000))
    found, run = readings(ScriptedModel(reader, context=120), split, window=window)
    failed = run.coverage(1).failed_windows
    assert found == [] and union(f.span for f in failed) == (window.span,)
    assert "context of 120" in failed[0].reason


def test_calls_on_a_window_begin_alike():
    """A server with a prefix cache reads a window once for relevance and summary, whatever is asked."""

    async def both(run):
        return await asyncio.gather(*(read(split(run), WINDOW, [q], run) for q in QUESTIONS))

    model = ScriptedModel(by_role(relevance={"relevance": 1}, summarize="NONE"))
    within(model, DOCUMENT, both)
    begun = {(call.messages[0].content, call.messages[-1].content.partition("Question")[0]) for call in model.calls}
    assert len(model.calls) == 6 and len(begun) == 1
