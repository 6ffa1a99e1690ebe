"""The simulated reader: what can come out of it, how often, and when."""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from convmem import prompts
from convmem.core import Call, Completion, ContextExceeded, InputError, Sampling, Transient
from convmem.model import connect
from convmem.model.simulated import Behaviour, Fact, Knowledge, SimulatedReader
from convmem.run import simulate

FOUNDER = Fact(("Ost was founded by Ida Venn.",), 1, "Ida Venn")
BORN = Fact(("Ida Venn was born in Brell.", "She drew maps."), 2, "Brell", (0,))
OST = Knowledge("Where was the founder of Ost born?", "Brell", ("Who founded Ost?", "Where was that person born?"),
                (FOUNDER, BORN))  # fmt: skip
BOTH = " ".join((*FOUNDER.sentences, *BORN.sentences))
PERFECT = {"recall": 1, "dilution": 0, "noise": 0, "foresight": 1, "blind": 1}
BESIDE = {"judge", "closed_book"}
"""Roles of the benchmark itself, which asks no simulated model about them."""


def call(role: str, text: str, question: str = OST.question, channel: str = "", **more: Any) -> Call:
    template = prompts.load(role)
    names = {name: text if fenced else question for fenced, name in _variables(template)}
    names |= {"c_max": "5", "words": "700"} | ({"problem": question} if "problem" in names else {})
    sampling = Sampling(2_000, top_logprobs=5 if role == "score" else 0)
    return Call(role, template.render(names), sampling, channel=channel, **more)


def _variables(template: prompts.Template) -> Iterator[tuple[bool, str]]:
    for part in (template.system + template.user).split("{{")[1:]:
        name = part.partition("}}")[0]
        yield name.startswith("<"), name.strip("<>")


def reader(knowledge: Knowledge = OST, **behaviour: Any) -> SimulatedReader:
    return SimulatedReader(Behaviour.model_validate({**PERFECT, **behaviour}), knowledge)


def replied(model: SimulatedReader, *calls: Call) -> list[Completion]:
    async def ask() -> list[Completion]:
        return [await model.complete(each) for each in calls]

    return simulate(ask())


def said(model: SimulatedReader, *calls: Call) -> list[str]:
    return [completion.text for completion in replied(model, *calls)]


def close(hits: list[bool], chance: float) -> bool:
    """Whether a share is within five standard errors of what it should be."""
    return abs(sum(hits) / len(hits) - chance) < 5 * math.sqrt(chance * (1 - chance) / len(hits)) + 1e-9


def facts(count: int) -> Knowledge:
    """A question that needs many facts, each independent of the others."""
    return Knowledge("What?", "All of it", (), tuple(Fact((f"Fact {n} is that {n} holds.",)) for n in range(count)))


ROLES = sorted(prompts.roles() - BESIDE)


@pytest.mark.parametrize("role", ROLES)
def test_every_role_is_spoken(role: str) -> None:
    assert all(said(reader(), call(role, BOTH), call(role, "Nothing of the kind."), call(role, "")))


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(ROLES), st.text(max_size=200), st.sampled_from([(), (0,), (1,)]), st.integers(0, 9))
def test_a_fact_comes_out_only_where_it_is_in_the_prompt(
    role: str, other: str, present: tuple[int, ...], seed: int
) -> None:
    text = other + "\n" + " ".join(s for n in present for s in OST.facts[n].sentences)
    (reply,) = said(reader(noise=0.5), call(role, text, seed=seed))
    for number, fact in enumerate(OST.facts):
        if number not in present:
            assert fact.marker not in reply
            assert not fact.stated(reply)
    assert "Brell" not in reply or 1 in present


def test_half_of_a_fact_is_none() -> None:
    assert said(reader(), call("summarize", "Ida Venn was born in Brell. She drew")) == ["NONE"]


def test_a_marker_stands_for_the_sentences() -> None:
    model = reader()
    (notes,) = said(model, call("summarize", BOTH))
    assert not any(fact.stated(notes) for fact in OST.facts)
    (merged,) = said(model, call("merge", notes))
    assert all(fact.marker in merged for fact in OST.facts)
    (direct,) = said(model, call("direct", f"[1] {merged}"))
    assert json.loads(direct) == {"answer": "Brell", "passages": [1]}


@pytest.mark.parametrize("role", ["direct", "memory_answer", "recall_answer", "entries_answer"])
def test_the_answer_is_right_only_with_every_fact(role: str) -> None:
    whole, half = said(reader(), call(role, BOTH), call(role, BORN.sentences[0] + BORN.sentences[1]))
    assert "Brell" in whole
    assert "not found" in half


def test_sub_questions_seek_their_own_facts() -> None:
    model = reader()
    first, second = json.loads(said(model, call("decompose", ""))[0])["sub_questions"]
    notes = said(model, call("summarize", BOTH, first), call("summarize", BOTH, second))
    assert [[fact.marker in note for fact in OST.facts] for note in notes] == [[True, False], [True, True]]
    joint = call("kernel_notes", FOUNDER.sentences[0], f"1. {first}\n2. {second}", channel="1,2")
    assert [r["relevance"] for r in json.loads(said(model, joint)[0])["readings"]] == [2, 2]
    limited = call("decompose", "")
    one = Call(
        "decompose", prompts.load("decompose").render({"question": OST.question, "c_max": "1"}), limited.sampling
    )
    assert json.loads(said(model, one)[0])["sub_questions"] == [OST.question]


def test_a_later_hop_is_recognised_once_its_bridge_is_known() -> None:
    model = reader(foresight=0)
    born = " ".join(BORN.sentences)
    alone, beside, named = said(
        model, call("summarize", born), call("summarize", BOTH), call("summarize", born, "Where was Ida Venn born?")
    )
    assert alone == "NONE"
    assert BORN.marker in beside
    assert BORN.marker in named


def test_quotes_are_the_sentences_themselves() -> None:
    (quoted,) = said(reader(), call("quote", f"Before. {BOTH} After."))
    assert quoted.split("\n") == [f"- {s}" for fact in OST.facts for s in fact.sentences]


def test_gates_are_open_for_what_is_new() -> None:
    model = reader()
    (first,) = said(model, call("memorize_gated", FOUNDER.sentences[0]))
    assert "<check>yes</check>" in first
    assert "<next>continue</next>" in first
    again, whole = said(
        model, call("memorize_gated", FOUNDER.marker), call("memorize_gated", f"{FOUNDER.marker} {BOTH}")
    )
    assert again.startswith("<check>no</check>")
    assert "<next>end</next>" in whole


# ------------------------------------------------------------------------------------------------ how often


def test_reads_are_draws_by_recall_and_the_seed() -> None:
    known = facts(2_000)
    text = " ".join(fact.sentences[0] for fact in known.facts)
    model = reader(known, recall=0.7, note=1, context=10**9)
    calls = [call("memorize", text, seed=seed) for seed in (1, 1, 2)]
    completions = said(model, *(Call(c.role, c.messages, Sampling(10**6), seed=c.seed) for c in calls))
    hits = [[fact.marker in text for fact in known.facts] for text in completions]
    assert completions[0] == completions[1]
    assert close(hits[0], 0.7)
    assert close([a and b for a, b in zip(hits[0], hits[2], strict=True)], 0.49)


@pytest.mark.parametrize("depth", [1, 3, 8])
def test_rewrites_lose_geometrically(depth: int) -> None:
    """p^d for d rewrites."""
    known = facts(2_000)
    model = reader(known, recall=0.95, note=1, context=10**9)
    memory = " ".join(fact.marker for fact in known.facts)
    for step in range(depth):
        prompt = call("memorize", f"Section {step}.\n{memory}")
        (memory,) = said(model, Call("memorize", prompt.messages, Sampling(10**6)))
    assert close([fact.marker in memory for fact in known.facts], 0.95**depth)


@pytest.mark.parametrize(("views", "correlation", "chance"), [(2, 0.0, 0.75), (5, 0.0, 1 - 0.5**5), (2, 1.0, 0.5)])
def test_overlapping_reads_find_what_one_misses(views: int, correlation: float, chance: float) -> None:
    """1 − (1 − p)^(W/S) for independent reads; reads that agree find no more than one does."""
    hits = []
    for number in range(600):
        known = Knowledge("What?", "It", (), (Fact((f"Thing {number} is it.",)),))
        model = reader(known, recall=0.5, correlation=correlation)
        replies = said(model, *(call("summarize", f"{view} {known.facts[0].sentences[0]}") for view in range(views)))
        hits.append(any(reply != "NONE" for reply in replies))
    assert close(hits, chance)


def test_correlation_is_that_of_two_reads() -> None:
    known = facts(4_000)
    text = " ".join(fact.sentences[0] for fact in known.facts)
    model = reader(known, recall=0.5, correlation=0.36, note=1, context=10**9)
    calls = [Call("memorize", call("memorize", text + end).messages, Sampling(10**6)) for end in ("", " More.")]
    a, b = ([fact.marker in reply for fact in known.facts] for reply in said(model, *calls))
    assert close([x and y for x, y in zip(a, b, strict=True)], 0.25 + 0.36 * 0.25)


@pytest.mark.parametrize(
    ("behaviour", "role", "chance"),
    [
        ({"dilution": 2.0}, "summarize", math.exp(-2.0 * 20_000 / 100_000)),
        ({"blind": 0.6}, "summarize_cluster", 0.6),
        ({"blind": 0.6}, "summarize", 1.0),
        ({"foresight": 0.3}, "summarize", 1.0),
    ],
)
def test_parameters_are_probabilities(behaviour: dict[str, Any], role: str, chance: float) -> None:
    known = facts(1)
    text = known.facts[0].sentences[0] + "\n" + "word " * 15_700
    calls = [call(role, text, seed=seed) for seed in range(300)]
    hits = [reply != "NONE" for reply in said(reader(known, **behaviour), *calls)]
    assert close(hits, chance)


def test_noise_is_how_often_nothing_is_found_relevant() -> None:
    calls = [call(role, "Nothing of it here.", seed=n) for role in ("relevance", "summarize") for n in range(400)]
    replies = said(reader(noise=0.2), *calls)
    assert close([json.loads(reply)["relevance"] > 0 for reply in replies[:400]], 0.2)
    assert close([reply != "NONE" for reply in replies[400:]], 0.2)


def test_scores_are_probabilities_where_asked_for() -> None:
    yes, no = replied(reader(), call("score", BOTH), call("score", "Nothing."))
    assert [yes.text, no.text] == ["Yes", "No"]
    assert dict(yes.logprobs[0].top)["Yes"] > math.log(0.5) > dict(no.logprobs[0].top)["Yes"]
    (silent,) = replied(reader(logprobs=False), call("score", BOTH))
    assert silent.text == "Yes"
    assert silent.logprobs == ()


# ------------------------------------------------------------------------------------------------ as a server


def test_malformed_replies_stop_halfway_and_the_next_attempt_is_another_draw() -> None:
    calls = [call("relevance", BOTH, attempt=attempt, seed=seed) for seed in range(200) for attempt in range(2)]
    bad = [not reply.endswith("}") for reply in said(reader(malformed=0.3), *calls)]
    assert close(bad, 0.3)
    assert close([a and b for a, b in zip(bad[::2], bad[1::2], strict=True)], 0.09)


def test_failures_strike_tries() -> None:
    model = reader(failed=0.4)

    def try_it(each: Call) -> bool:
        try:
            replied(model, each)
        except Transient:
            return False
        return True

    tries = [try_it(call("relevance", BOTH, seed=seed)) for seed in range(200) for _ in range(2)]
    assert close(tries, 0.6)
    assert close([a and b for a, b in zip(tries[::2], tries[1::2], strict=True)], 0.36)


def test_what_does_not_fit_is_refused_and_long_replies_are_cut() -> None:
    with pytest.raises(ContextExceeded) as refused:
        replied(reader(context=2_100), call("summarize", "word " * 1_000))
    assert refused.value.limit == 2_100
    short = call("summarize", BOTH)
    (completion,) = replied(reader(), Call("summarize", short.messages, Sampling(5)))
    assert completion.finish == "length"
    assert len(completion.text) == 20


@pytest.mark.parametrize(("slots", "rounds"), [(1, 10), (3, 4), (16, 1)])
def test_time_follows_from_speeds_and_slots(slots: int, rounds: int) -> None:
    model = reader(slots=slots, prefill=100, decode=10)

    async def together() -> float:
        await asyncio.gather(*(model.complete(call("score", BOTH, seed=n)) for n in range(10)))
        return asyncio.get_running_loop().time()

    (one,) = replied(model, call("score", BOTH))
    assert one.usage
    alone = one.usage.prompt_tokens / 100 + one.usage.completion_tokens / 10
    assert one.seconds == pytest.approx(alone)
    assert simulate(together()) == pytest.approx(rounds * alone)


def test_with_a_prefix_cache_the_start_of_a_prompt_is_read_once() -> None:
    window, other = "The first of the slots. " * 50, "Something else altogether. " * 50
    calls = [call("relevance", window), call("summarize", window), call("score", other), call("relevance", window)]
    first, sibling, apart, gone = replied(reader(prefix_cache=True, slots=1), *calls)
    assert first.usage and sibling.usage and apart.usage and gone.usage
    pairs = zip(_text(calls[0]), _text(calls[1]), strict=False)
    shared = next(at for at, (one, another) in enumerate(pairs) if one != another) // 4
    assert shared > len(window) // 4
    assert (first.usage.cached_tokens, sibling.usage.cached_tokens) == (0, shared)
    assert apart.usage.cached_tokens == gone.usage.cached_tokens < 40  # the system prompt
    saved = first.seconds - sibling.seconds - (first.usage.prompt_tokens - sibling.usage.prompt_tokens) / 4_000
    written = (first.usage.completion_tokens - sibling.usage.completion_tokens) / 50
    assert saved - written == pytest.approx(shared / 4_000)
    assert [reply.usage and reply.usage.cached_tokens for reply in replied(reader(), *calls)] == [0] * 4


def _text(call: Call) -> str:
    return "".join(message.content for message in call.messages)


def test_it_is_named_and_labelled() -> None:
    model = connect("sim:recall=0.8,noise=0,logprobs=off,slots=4", context=9_000)
    assert model.identity == "simulated:recall=0.8,noise=0,context=9000,logprobs=0,slots=4"
    assert (model.context, model.slots, model.logprobs) == (9_000, 4, False)
    assert connect("sim:").identity == "simulated:recall=0.9"


@pytest.mark.parametrize("spec", ["recal=1", "recall=2", "recall=", "slots=0", "context=many"])
def test_unknown_parameters_are_refused_by_name(spec: str) -> None:
    with pytest.raises(InputError, match=spec.partition("=")[0]):
        Behaviour.parse(spec)


def test_without_facts_nothing_is_found() -> None:
    answer, notes = said(SimulatedReader(Behaviour(noise=0)), call("direct", BOTH), call("summarize", BOTH))
    assert json.loads(answer)["answer"] == "not found"
    assert notes == "NONE"
