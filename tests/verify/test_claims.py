"""Answers of whole runs, verified: each claim gets the verdict that its passages deserve, and nothing else is answered.

The verifier is the scripted model: a claim is true where a passage holds its keeper's name beside its isle, false where
it names another keeper of that isle, and unknown otherwise.
"""

from __future__ import annotations

import math
import re
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from convmem.core import NOT_FOUND, Answer, Call, Completion, InputError, Location, TokenLogprobs, Transient
from convmem.document import Document
from convmem.methods import methods
from convmem.methods.convmem import Config, ConvMem
from convmem.model import Cache
from convmem.run import Run, RunSettings, simulate
from convmem.verify.claims import claims_in, is_quoted, statement
from tests.support.reading import by_role, reader
from tests.support.scripted import ScriptedModel, completion, make_run

TEXT = (
    "At Isleap the keeper was Aldous. The pier of Isleap is long. It rained for days. At Isleck the keeper was Corwin. "
    "There were gulls. At Islebn the keeper was Benna. A letter says that at Isleck the keeper was Dorian."
)
QUESTION = "Name the keepers of the isles"
KEEPER = re.compile(r"at (Isle\w\w) the keeper was (\w+)", re.IGNORECASE)


def word(call: Call) -> str:
    """What the scripted verifier says."""
    passages, _, claim = call.messages[-1].content.partition("</passages>")
    told, claimed = KEEPER.findall(passages), KEEPER.findall(claim)
    if claimed and all(each in told for each in claimed):
        return "True"
    return "False" if {isle for isle, _ in claimed} & {isle for isle, _ in told} else "Unknown"


def judge(call: Call) -> Completion:
    said = word(call)
    top = tuple((each, -0.05 if each == said else -4.0) for each in ("True", "False", "Unknown"))
    return completion(call, said, logprobs=(TokenLogprobs(said, -0.05, top),))


def verified(text: str, passages: list[int], document: str = TEXT, **given: Any) -> Answer:
    """The verified answer of a run in which the model, asked once, says ``text`` and names ``passages``."""
    model = ScriptedModel(by_role(direct={"answer": text, "passages": passages}, verify=given.pop("verify", judge)))
    method = ConvMem(Config.preset("lean", one_call_tokens=10_000))
    run_settings = RunSettings(**{"verify": True, **given})
    return simulate(
        method.answer(
            Document.from_text(document), QUESTION, model=model, settings=run_settings, cache=Cache.temporary()
        )
    )


ISLEAP, ISLECK, DORIAN, WRONG, UNTOLD = (
    "At Isleap the keeper was Aldous.", "At Isleck the keeper was Corwin.", "At Isleck the keeper was Dorian.",
    "At Isleap the keeper was Benna.", "At Islezz the keeper was Zoe.",
)  # fmt: skip


@pytest.mark.parametrize(("said", "verdict"), [(ISLEAP, "supported"), (WRONG, "contradicted"), (UNTOLD, "unsupported")])
def test_a_claim_has_its_verdict(said: str, verdict: str) -> None:
    answer = verified(said, [1])
    assert [(claim.text, claim.verdict) for claim in answer.claims or ()] == [(said, verdict)]
    assert answer.text == said
    assert answer.usage.by_role["verify"].calls >= 1


def test_an_answer_that_is_not_verified_has_no_claims() -> None:
    model = ScriptedModel(by_role(direct={"answer": ISLEAP, "passages": [1]}))
    plain = simulate(
        ConvMem(Config.preset("lean")).answer(Document.from_text(TEXT), QUESTION, model=model, cache=Cache.temporary())
    )
    assert plain.claims is None


def test_sources_that_conflict_are_both_shown() -> None:
    [claim] = verified(ISLECK, [1]).claims or ()
    assert claim.verdict == "supported"
    assert any("Corwin" in citation.quote for citation in claim.citations)
    assert [citation.quote for citation in claim.against] == ["A letter says that at Isleck the keeper was Dorian."]


def test_strict_answers_what_is_supported_and_says_what_it_left_out() -> None:
    answer = verified(f"{ISLEAP} {UNTOLD}", [1], strict=True, verify=judge)
    assert answer.text == ISLEAP
    assert [claim.verdict for claim in answer.claims or ()] == ["supported", "unsupported"]
    assert [warning for warning in answer.warnings if UNTOLD in warning and "Left out" in warning]
    assert all("Aldous" in citation.quote for citation in answer.citations)


def test_strict_without_anything_supported_is_not_found() -> None:
    answer = verified(UNTOLD, [1], strict=True)
    assert (answer.text, answer.citations) == (NOT_FOUND, ())


def test_not_found_claims_nothing() -> None:
    assert verified("not found", []).claims == ()


@settings(max_examples=20, deadline=None)
@given(st.lists(st.sampled_from([ISLEAP, ISLECK, DORIAN, WRONG, UNTOLD]), min_size=1, max_size=5, unique=True))
def test_strict_keeps_exactly_the_supported_claims(said: list[str]) -> None:
    loose, strict = verified(" ".join(said), [1]), verified(" ".join(said), [1], strict=True)
    kept = [claim.text for claim in loose.claims or () if claim.verdict == "supported"]
    assert strict.text == (" ".join(kept) or NOT_FOUND)
    assert [claim.text for claim in loose.claims or ()] == said


def test_nothing_passes_that_could_not_be_judged() -> None:
    answer = verified(ISLEAP, [1], verify=lambda _: Transient("no"), retries=0)
    assert [claim.verdict for claim in answer.claims or ()] == ["unsupported"]
    assert any("verified" in warning for warning in answer.warnings)


def test_a_model_without_log_probabilities_is_taken_at_its_word() -> None:
    [claim] = verified(ISLEAP, [1], verify=lambda call: completion(call, f"{word(call)}.")).claims or ()
    assert (claim.verdict, claim.probability) == ("supported", 1.0)


@pytest.mark.parametrize("name", sorted(methods()))
def test_every_method_verifies_within_its_budget(name: str) -> None:
    """Whatever the method, with a model that reads: no more is used than allowed, and every claim has a verdict."""
    kind = methods()[name]
    document = Document.from_text(TEXT * 40)
    config = kind.Config.preset("lean") if "lean" in kind.Config.presets else kind.Config()
    model = ScriptedModel(by_role(reader, verify=judge))
    asked = "Name the keeper of Isleap"
    try:
        answer = simulate(
            kind(config).answer(
                document, asked, model=model, settings=RunSettings(verify=True, budget=30_000), cache=Cache.temporary()
            )
        )
    except Exception as error:  # noqa: BLE001 - a method may have no room in this budget, and says so
        assert type(error).__module__.startswith("convmem"), error
        return
    used = answer.usage.total
    assert used.prompt_tokens + used.completion_tokens <= 30_000
    assert answer.claims is not None
    assert bool(answer.claims) == (answer.text != NOT_FOUND)


def test_a_wrong_verifier_is_said_before_anything_is_asked() -> None:
    with pytest.raises(InputError, match="verifier"):
        verified(ISLEAP, [1], verifier="oracle")


def test_a_citation_counts_where_its_quote_stands() -> None:
    citation = verified(ISLEAP, [1]).citations[0]

    def stands(**changes: Any) -> bool:
        async def inside() -> bool:
            run: Run = make_run(ScriptedModel(), TEXT)
            return is_quoted(replace(citation, **changes), run)

        return simulate(inside())

    assert stands()
    assert stands(quote=citation.quote.replace(" ", "\n "))
    assert not stands(quote=citation.quote.replace("Aldous", "Benna"))
    assert not stands(span=citation.span._replace(start=citation.span.start + 1))
    assert not stands(span=citation.span._replace(end=10_000))
    assert not stands(location=Location("another", 0, 1, 1))


@pytest.mark.parametrize(
    ("question", "claim", "asked"),
    [
        ("Who kept the light?", "Tobias Renn", "Who kept the light? Tobias Renn"),
        ("Who kept the light?", "Tobias Renn kept the light.", "Tobias Renn kept the light."),
        ("Who kept the light?", "- Tobias Renn kept the light.", "Tobias Renn kept the light."),
        ("In which year?", "1907", "In which year? 1907"),
    ],
)
def test_a_short_answer_is_stated_with_its_question(question: str, claim: str, asked: str) -> None:
    assert statement(question, claim) == asked


@settings(max_examples=50, deadline=None)
@given(st.text(max_size=200))
def test_claims_are_the_whole_answer(text: str) -> None:
    places = claims_in(text)
    said = "".join(text[place.start : place.end] for place in places)
    assert "".join(said.split()) == "".join(text.split()) or text == NOT_FOUND


def test_convmem_looks_again_where_its_sources_dont_say_so() -> None:
    """The first answer is from the windows that fit; what supports one is in a relevant window that did not."""
    filler = " ".join(f"On day {n} the gulls were loud and the sea was grey." for n in range(60))
    document = f"At Isleaa the keeper was Anna. {filler} {ISLEAP} {filler}"
    shown: list[str] = []

    def direct(call: Call) -> dict[str, Any]:
        shown.append(call.messages[-1].content)
        said = ISLEAP if ISLEAP in shown[-1] else "At Isleap the keeper was Zoe."
        return {"answer": said, "passages": [1]}

    def score(call: Call) -> Completion:
        text = call.messages[-1].content
        yes = 0.9 if "Isleaa" in text else 0.7 if ISLEAP in text else 0.01
        top = (("Yes", math.log(yes)), ("No", math.log(1 - yes)))
        return completion(call, "Yes", logprobs=(TokenLogprobs("Yes", math.log(yes), top),))

    config = {"one_call_tokens": 0, "window": 64, "buffer_tokens": 90, "decompose": "off", "lexical_weight": 0.0}
    method = ConvMem(Config.preset("lean", **config))

    def asked(**given: Any) -> Answer:
        model = ScriptedModel(by_role(direct=direct, sub_answer=direct, score=score, verify=judge))
        return simulate(
            method.answer(
                Document.from_text(document),
                "Who?",
                model=model,
                settings=RunSettings(**given),
                cache=Cache.temporary(),
            )
        )

    assert "Zoe" in asked().text
    again = asked(verify=True)
    assert again.text == ISLEAP and [claim.verdict for claim in again.claims or ()] == ["supported"]
    assert any("Zoe" in warning for warning in again.warnings)
    assert ISLEAP in shown[-1] and "Isleaa" not in shown[-1]
