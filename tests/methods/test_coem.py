"""CoEM: the paper's two cases with invented people, the ablations, and controllers that say anything at all."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from convmem.core import Answer, Call, ConvMemError, Span, Transient
from convmem.document import Document, stride_windows
from convmem.memory.commitment import Section, listed
from convmem.memory.extraction import extract
from convmem.methods.coem import NONE, CoemPolicy, Config
from tests.support.agents import model, shown, solve
from tests.support.reading import Words
from tests.support.scripted import ScriptedModel, prompt_tokens

WORDS = 24
CONTROLLER = ("commit", "reconsider", "resolve")


def document(*sections: str) -> str:
    """Sections of so many words each, with sentences on the weather behind what they are given to say."""
    return " ".join(" ".join((text.split() + ["Rain.", "Fog."] * WORDS)[:WORDS]) for text in sections)


def promotion(*facts: tuple[str, Sequence[int], Sequence[int]], delete: Sequence[int] = ()) -> dict[str, Any]:
    """Facts as (text, records, sentences)."""
    said = [{"text": text, "records": [*records], "sentences": [*sentences]} for text, records, sentences in facts]
    return {"facts": said, "delete": [*delete]}


def admission(first: int, last: int) -> dict[str, int]:
    return {"first": first, "last": last}


def controlled(
    *steps: Mapping[str, Any], verdict: Callable[[dict[str, str]], str] | str = "True", answer: str = "", **others: Any
) -> ScriptedModel:
    """A model that replies to the section of each step as told, to the roles ``others`` likewise, and answers."""
    left = list(steps)

    def say(call: Call) -> str:
        match call.role:
            case "commit":
                return json.dumps(left.pop(0))
            case "verify":
                return verdict if isinstance(verdict, str) else verdict(shown(call))
            case "memory_answer":
                return rf"\boxed{{{answer}}}"
            case role:
                reply = others[role].pop(0)
                return reply if isinstance(reply, str) else json.dumps(reply)

    return model(say)


def asked(reader: ScriptedModel, role: str) -> list[dict[str, str]]:
    """What every prompt of a role showed."""
    return [shown(call) for call in reader.calls if call.role == role]


def totals(answer: Answer) -> dict[str, int]:
    return dict(answer.diagnostics["totals"])


# ------------------------------------------------------------------------------------------------ the paper's cases

BIOGRAPHY = "Jorun Vael was a Tormish engraver. She married the painter Edric Moll in 1904."
ALIAS = "The painter Edric Moll was known as the Heron of Ost."
WIFE = "What nationality was the wife of the Heron of Ost?"


def test_a_biography_stays_until_an_alias_says_whom_it_is_about():
    """Appendix C.1: both claims of the biography are one transaction, and the alias is committed from its own page."""
    reader = controlled(
        {"promote": [], "drop": [], "admit": [admission(1, 2)]},
        {"promote": [], "drop": [], "admit": []},
        {
            "promote": [
                promotion(("Jorun Vael was Tormish.", [1], []), ("Edric Moll was the husband of Jorun Vael.", [1], [])),
                promotion(("Edric Moll was the Heron of Ost.", [], [1])),
            ],
            "drop": [], "admit": [],
        },
        answer="Tormish",
    )  # fmt: skip
    answer = solve("coem", reader, document(BIOGRAPHY, "It rained.", ALIAS), WIFE, config={"chunk_tokens": WORDS})
    assert [each["pending"] for each in asked(reader, "commit")] == [NONE, f"[1] {BIOGRAPHY}", f"[1] {BIOGRAPHY}"]
    assert {each["passages"] for each in asked(reader, "verify")} == {BIOGRAPHY, ALIAS}
    assert answer.text == "Tormish"
    assert "Jorun Vael was a Tormish engraver." in [citation.quote for citation in answer.citations]
    assert asked(reader, "memory_answer")[0]["memory"].splitlines() == [
        "[2] Jorun Vael was Tormish.",
        "[3] Edric Moll was the husband of Jorun Vael.",
        "[4] Edric Moll was the Heron of Ost.",
    ]
    assert totals(answer) == {"admitted": 1, "proposed": 3, "verified": 3, "promoted": 1}


def test_a_reply_can_name_only_what_is_there():
    def sources(call: Call) -> Any:
        return call.schema["properties"]["promote"]["items"]["properties"]["facts"]["items"]["properties"]

    kept = {"promote": [], "drop": [], "admit": [admission(1, 2)]}
    reader = controlled(kept, {"promote": [], "drop": [], "admit": []}, resolve=[{"drop": [1]}])
    solve("coem", reader, document(BIOGRAPHY, ALIAS), WIFE, config={"chunk_tokens": WORDS})
    first, second = (call for call in reader.calls if call.role == "commit")
    assert "records" not in sources(first) and "drop" not in first.schema["properties"]
    sentences = len(shown(first)["section"].splitlines())
    assert sources(first)["sentences"]["items"] == {"type": "integer", "minimum": 1, "maximum": sentences}
    assert sources(second)["records"]["items"]["enum"] == [1] == second.schema["properties"]["drop"]["items"]["enum"]
    (resolved,) = (call for call in reader.calls if call.role == "resolve")
    assert list(sources(resolved)) == ["text", "records"]


def test_one_claim_that_the_biography_does_not_make_keeps_both_out_and_uses_it_up():
    def verdict(pair: dict[str, str]) -> str:
        return "Unknown" if "husband" in pair["claim"] else "True"

    both = promotion(("Jorun Vael was Tormish.", [1], []), ("Edric Moll was her first husband.", [1], []))
    reader = controlled(
        {"admit": [admission(1, 2)]}, {"promote": [both]}, {"promote": [both]}, verdict=verdict, answer="Tormish"
    )
    answer = solve("coem", reader, document(BIOGRAPHY, "Rain.", ALIAS), WIFE, config={"chunk_tokens": WORDS})
    assert answer.text == "not found" and not asked(reader, "memory_answer")
    assert totals(answer) == {
        "admitted": 1, "proposed": 4, "verified": 1, "rejected entailment": 1, "dropped attempts": 1,
        "rejected available": 2,
    }  # fmt: skip


PIANIST = "Ilse Marn, a pianist, was born on 3 May 1891."
SINGER = "Otto Brandt sang at the opera of Kell."
DANCER = "Vera Lund danced in the harbour of Ost."
CAST = "The film The Salt Road had Ilse Marn in its cast."
BORN = "When was the pianist in The Salt Road born?"
TIGHT = {"chunk_tokens": WORDS, "memory_tokens": 31, "pending_tokens": 22}
"""Room for two excerpts, and for one fact."""


def pressed(resolution: Any, last: Sequence[Any], answer: str) -> tuple[ScriptedModel, Answer]:
    """Three excerpts where two fit; then the page that links the first one's person to the film."""
    reader = controlled(
        {"promote": [promotion(("The Salt Road is a film.", [], [1]))], "admit": []},
        {"admit": [admission(1, 1)]},
        {"admit": [admission(1, 1)]},
        {"admit": [admission(1, 1)]},
        {"promote": [*last]},
        reconsider=[{"promote": [], "drop": []}],
        resolve=[resolution, {"drop": [3]}, {"drop": [4]}],
        answer=answer,
    )
    text = document("The Salt Road is a film.", PIANIST, SINGER, DANCER, CAST)
    return reader, solve("coem", reader, text, BORN, config=TIGHT)


def test_what_is_removed_under_pressure_can_not_be_cited_later():
    """Appendix C.2: the replacement doesn't fit, so the oldest is removed unjudged; the date is gone for good."""
    born = ("Ilse Marn was born on 3 May 1891.", [2], [])
    reader, answer = pressed({"promote": [promotion(born)]}, [promotion(born)], "not found")
    seen = [each["pending"] for each in asked(reader, "commit")]
    assert seen[3:] == [f"[2] {PIANIST}\n[3] {SINGER}", f"[3] {SINGER}\n[4] {DANCER}"]
    assert asked(reader, "reconsider")[0]["new_excerpt"] == DANCER
    assert answer.text == "not found" and not any("1891" in each["claim"] for each in asked(reader, "verify"))
    assert totals(answer) == {
        "admitted": 3, "proposed": 3, "verified": 1, "rejected capacity": 1, "dropped capacity": 1,
        "rejected available": 1, "dropped end": 2,
    }  # fmt: skip


def test_deleting_a_committed_fact_would_have_saved_it():
    born = promotion(("Ilse Marn was born on 3 May 1891.", [2], []), delete=[1])
    _, answer = pressed({"promote": [born]}, [], "3 May 1891")
    assert answer.text == "3 May 1891" and [citation.quote for citation in answer.citations] == [PIANIST]
    assert totals(answer)["promoted"] == 1 and "dropped capacity" not in totals(answer)


# ------------------------------------------------------------------------------------------------ single steps


def run(reader: ScriptedModel, *sections: str, **config: Any) -> Answer:
    return solve("coem", reader, document(*sections), WIFE, config={"chunk_tokens": WORDS, **config})


def test_the_papers_numbers():
    paper = Config.preset("paper")
    assert paper.memory_tokens - paper.pending_tokens == 768 and paper.pending_tokens == 256
    assert (paper.chunk_tokens, paper.input_tokens) == (5_000, 8_192)
    assert (paper.operations, paper.reconsiderations, paper.attempts, paper.threshold) == (8, 1, 2, 0.9)


def test_a_quotation_needs_no_verifier():
    reader = controlled({"promote": [promotion(("Jorun Vael was a Tormish engraver.", [], [1]))]}, answer="Tormish")
    assert run(reader, BIOGRAPHY).text == "Tormish" and not asked(reader, "verify")


def test_without_a_verifier_everything_proposed_is_committed():
    wrong = {"promote": [promotion(("Jorun Vael was Ostish.", [], [1]))]}
    assert run(controlled(wrong, verdict="False", answer="Ostish"), BIOGRAPHY).text == "not found"
    reader = controlled(wrong, verdict="False", answer="Ostish")
    assert run(reader, BIOGRAPHY, verified=False).text == "Ostish" and not asked(reader, "verify")


def test_without_a_pending_set_nothing_is_admitted():
    answer = run(controlled({"admit": [admission(1, 1)]}), BIOGRAPHY, pending_tokens=0)
    assert totals(answer) == {"invalid excerpt": 1}


def test_a_fixed_delay_decides_after_so_many_sections_and_not_before():
    early = {"promote": [promotion(("Jorun Vael was Tormish.", [1], []))]}
    steps = [{"admit": [admission(1, 2)]}, early, {"drop": []}, {"drop": []}]
    reader = controlled(*steps, resolve=[early], answer="Tormish")
    answer = run(reader, BIOGRAPHY, "Rain.", "Rain.", "Rain.", delay=2)
    steps = [step["events"] for step in answer.diagnostics["steps"]]
    assert steps[1] == {"proposed": 1, "rejected early": 1}
    assert steps[2] == {"proposed": 1, "verified": 1, "promoted": 1} and answer.text == "Tormish"


def test_operations_beyond_the_limit_are_ignored():
    many = {"promote": [promotion((f"Fact {n}.", [], [1])) for n in range(5)], "admit": [admission(1, 1)]}
    answer = run(controlled(many, answer="x"), BIOGRAPHY, operations=3)
    assert totals(answer) == {"proposed": 3, "verified": 3, "invalid limit": 3}


def test_a_prompt_longer_than_its_limit_is_read_in_halves():
    texts = [" ".join(["Ann kept it."] * 40)]
    reader = model(lambda call: '{"admit": []}')
    answer = solve("coem", reader, texts[0], WIFE, config={"input_tokens": 400, "chunk_tokens": 120})
    assert all(prompt_words(call) <= 400 for call in reader.calls if call.role == "commit")
    assert answer.coverage.read_tokens == answer.coverage.tokens and len(asked(reader, "commit")) > 1


def test_where_no_prompt_is_short_enough_it_says_so():
    with pytest.raises(ConvMemError, match="makes a prompt of"):
        solve("coem", model(lambda call: "{}"), "Ann kept it.", WIFE, config={"input_tokens": 10})


def prompt_words(call: Call) -> int:
    return sum(Words().count(message.content) for message in call.messages)


def test_what_is_pending_when_the_budget_ends_is_dropped_and_the_rest_answers():
    first = {"promote": [promotion(("Jorun Vael was a Tormish engraver.", [], [1]))], "admit": [admission(2, 2)]}

    def read(**limits: Any) -> Answer:
        reader = controlled(first, *[{"admit": []}] * 9, answer="Tormish", resolve=[{"drop": [2]}])
        text = document(BIOGRAPHY, *(f"Rain {n}." for n in range(9)))
        config = {"chunk_tokens": WORDS, "memory_tokens": 60, "pending_tokens": 20}
        few = {"reply_tokens": 100, "answer_tokens": 100}
        return solve("coem", reader, text, WIFE, config={**config, **few}, retries=0, **limits)

    budget = read().usage.total.prompt_tokens // 2
    answer = read(budget=budget)
    used = answer.usage.total
    assert answer.text == "Tormish" and used.prompt_tokens + used.completion_tokens <= budget
    assert any("budget ended reading" in warning for warning in answer.warnings)
    assert answer.diagnostics["steps"][-1]["pending"] == 0


def test_a_call_that_fails_while_room_is_made_counts_as_no_decision():
    def say(call: Call) -> Any:
        if call.role in ("reconsider", "resolve"):
            return Transient("down")
        return json.dumps({"admit": [admission(1, 1)]})

    reader = model(say)
    text = document("One two three four five six.", "Six five four three two one.", "Two two two two two two.")
    answer = solve("coem", reader, text, WIFE, retries=0,
                   config={"chunk_tokens": WORDS, "memory_tokens": 30, "pending_tokens": 8})  # fmt: skip
    assert totals(answer)["dropped capacity"] == 2 and totals(answer)["dropped end"] == 1
    assert answer.coverage.read_tokens == answer.coverage.tokens


# ------------------------------------------------------------------------------------------------ whatever is replied

NUMBERS = st.integers(-2, 9) | st.sampled_from([True, None, 1.0, "[2]", "two", 10**30, [1], {}])
LISTS = st.lists(NUMBERS, max_size=3) | NUMBERS
FACT = st.fixed_dictionaries(
    {},
    optional={
        "text": st.sampled_from(["Ann kept it.", "", " ", 7, None, "\ud800", "word " * 60, "Bea\nwept."]),
        "records": LISTS, "sentences": LISTS,
    },
)  # fmt: skip
FACTS = st.lists(FACT | st.none() | st.just("Ann kept it."), max_size=3) | FACT
PROMOTION = st.fixed_dictionaries({}, optional={"facts": FACTS, "delete": LISTS})
ADMISSION = st.fixed_dictionaries({}, optional={"first": NUMBERS, "last": NUMBERS})
OPERATIONS = st.fixed_dictionaries(
    {},
    optional={
        "promote": st.lists(PROMOTION | st.none(), max_size=4) | PROMOTION,
        "drop": LISTS,
        "admit": st.lists(ADMISSION | NUMBERS, max_size=12) | ADMISSION,
    },
).map(json.dumps)
ADMITTING = st.builds(lambda n: json.dumps({"admit": [admission(n, n), admission(n + 1, n + 1)]}), st.integers(1, 4))
PROMOTING = st.builds(
    lambda r, s: json.dumps({"promote": [promotion(("Ann kept it.", [r], [s]))]}), st.integers(1, 4), st.integers(1, 4)
)
JUNK = st.sampled_from(
    ["", " ", "NONE", "{", "[]", '{"promote": 3}', "```json\n{}\n```", '{"admit": [{"first": 1', "🙂"]
)
REPLIES = st.one_of(OPERATIONS, ADMITTING, PROMOTING, JUNK, st.text(max_size=40))
SMALL = {"chunk_tokens": 20, "memory_tokens": 24, "pending_tokens": 12}
TEXT = " ".join(f"Ann kept the light of pier {n}. Bea wept." for n in range(12))


@settings(max_examples=50, deadline=None)
@given(st.lists(REPLIES, min_size=1, max_size=30), st.sampled_from(["True", "False", "maybe"]), st.integers(0, 2))
def test_whatever_is_replied_the_run_ends_within_its_budgets(replies, verdict, reconsiderations):
    told = iter(replies * 200)
    reader = model(lambda call: verdict if call.role == "verify" else next(told))
    config = {**SMALL, "reconsiderations": reconsiderations}
    answer = solve("coem", reader, TEXT, WIFE, config=config, retries=0)
    sections, admitted = answer.coverage.windows, totals(answer).get("admitted", 0)
    calls = sum(call.role in CONTROLLER for call in reader.calls)
    assert calls <= sections * (1 + reconsiderations) + admitted and admitted <= 8 * sections
    assert answer.coverage.read_tokens == answer.coverage.tokens
    for step in answer.diagnostics["steps"]:
        assert step["committed"] <= 12 and step["pending"] <= 12
    assert answer.diagnostics["steps"][-1]["pending"] == 0
    held = [shown(call) for call in reader.calls if call.role in CONTROLLER]
    assert all(Words().count(each["pending"]) <= 12 and Words().count(each["committed"]) <= 12 for each in held)
    facts = answer.diagnostics["facts"]
    assert all(fact["sources"] and all(TEXT[slice(*span)].strip() for span in fact["sources"]) for fact in facts)
    if verdict != "True":
        assert all(any(fact["text"] in TEXT[slice(*span)] for span in fact["sources"]) for fact in facts)


@settings(max_examples=20, deadline=None)
@given(st.lists(REPLIES, min_size=40, max_size=40), st.booleans())
def test_a_trainer_can_drive_the_same_steps_without_a_run(replies, entailed):
    """The policy alone makes the prompts that the run sends, and comes to the same memory."""
    told = iter(replies)
    reader = model(lambda call: next(told) if call.role in CONTROLLER else ["False", "True"][entailed])
    answer = solve("coem", reader, TEXT, WIFE, config=SMALL, retries=0)

    read = Document.from_text(TEXT)
    policy = CoemPolicy(Config.preset("lean", **SMALL).fitted(reader.context), Words())
    state, prompts, spoken = policy.start(WIFE), [], iter(replies)

    def drive(steps: Any) -> Any:
        reply = None
        while True:
            try:
                wanted = steps.send(reply)
            except StopIteration as end:
                return end.value
            if isinstance(wanted, tuple):
                reply = {each: float(entailed or _quotes(read, each)) for each in wanted}
            else:
                prompts.append(wanted.render())
                reply = next(spoken)

    for window in stride_windows(read, Words(), 20, 20):
        state = drive(policy.step(state, Section.of(read.text(window.span), window.span.start)))
    state = drive(policy.finish(state)) if state.stores.pending else state
    assert [call.messages for call in reader.calls if call.role in CONTROLLER] == prompts
    assert [fact["text"] for fact in answer.diagnostics["facts"]] == [fact.text for fact in state.stores.facts]
    if state.stores.facts:
        assert reader.calls[-1].messages == policy.answer_prompt(state).render()
        assert listed(state.stores.facts) in reader.calls[-1].messages[-1].content
        assert answer.text == extract(["False", "True"][entailed])


def _quotes(read: Document, inference: Any) -> bool:
    return any(inference.hypothesis.rstrip(".") in read.text(Span(*span)) for span in inference.premises)


@pytest.mark.parametrize("latency", [1, 5])
def test_a_trace_shows_the_section_and_the_excerpts_as_parts_of_the_document(latency):
    reader = controlled({"admit": [admission(1, 2)]}, {"admit": []}, resolve=[{"drop": [1]}])
    reader._latency = latency
    answer = run(reader, BIOGRAPHY, "Rain.")
    second = answer.trace[1].variables
    assert Span(0, len(BIOGRAPHY)) in second["pending"]
    assert not any(isinstance(piece, str) and len(piece) > 10 for piece in second["section"])
    assert [answer.trace[n].relevance for n in (0, 1)] == [1, 0]
    assert sum(map(prompt_tokens, reader.calls)) > 0
