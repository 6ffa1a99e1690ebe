"""The simulated reader as CoEM's controller and as a verifier: what it commits, keeps, gives up and accepts."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from convmem import prompts
from convmem.core import Call, Sampling
from convmem.model.simulated import Behaviour, Fact, Knowledge
from convmem.model.simulated.reading import UNSUPPORTED, Read
from convmem.model.simulated.replies import reply

FOUNDER = Fact(("Ost was founded by Ida Venn.",), 1, "Ida Venn")
BORN = Fact(("Ida Venn was born in Brell.",), 2, "Brell", (0,))
DECOY = Fact(("Ida Rusk was born in Torm.",), 2, "Torm", (0,))
OST = Knowledge("Where was the founder of Ost born?", "Brell", ("Who founded Ost?", "Where was that person born?"),
                (FOUNDER, BORN), (DECOY,))  # fmt: skip
CERTAIN = {"recall": 1, "dilution": 0, "noise": 0, "foresight": 0, "caution": 1, "hasty": 0}
RAIN = "It rained."


def decided(
    section: str = "", pending: str = "(none)", committed: str = "(none)", role: str = "commit", **behaviour: Any
) -> dict[str, Any]:
    """The controller's reply to sentences, each on a line."""
    sentences = "\n".join(f"[{n}] {line}" for n, line in enumerate(section.splitlines(), 1))
    shown = {"section": sentences, "problem": OST.question, "committed": committed, "pending": pending}
    more = {"operations": "8", "words": "90", "record": "1", "new_excerpt": ""}
    made: dict[str, Any] = json.loads(said(role, {**shown, **more}, **behaviour)[0])
    return made


def said(role: str, variables: dict[str, str], **behaviour: Any) -> Any:
    call = Call(role, prompts.load(role).render(variables), Sampling(500, top_logprobs=5))
    return reply(Read(Behaviour.model_validate({**CERTAIN, **behaviour}), OST, call, 100))


def sources(made: dict[str, Any]) -> list[tuple[list[int], list[int]]]:
    return [(fact["records"], fact["sentences"]) for each in made["promote"] for fact in each["facts"]]


def test_what_is_recognised_is_committed_with_its_source():
    made = decided("\n".join([RAIN, *FOUNDER.sentences]))
    assert sources(made) == [([], [2])] and FOUNDER.marker in made["promote"][0]["facts"][0]["text"]
    assert made["admit"] == made["drop"] == []


def test_what_may_be_needed_is_kept_undecided_a_decoy_as_well():
    made = decided("\n".join([*BORN.sentences, RAIN, *DECOY.sentences]))
    assert made["admit"] == [{"first": 1, "last": 1}, {"first": 3, "last": 3}] and not made["promote"]
    assert decided("\n".join(BORN.sentences), caution=0)["admit"] == []
    assert sources(decided("\n".join(BORN.sentences), foresight=1)) == [([], [1])]


def test_an_excerpt_is_promoted_when_its_bridge_is_known_and_a_decoy_is_given_up():
    pending = f"[1] {BORN.sentences[0]}\n[2] {DECOY.sentences[0]}"
    waiting = decided(RAIN, pending)
    assert waiting == {"promote": [], "drop": [], "admit": []}
    for made in (decided(FOUNDER.sentences[0], pending), decided(RAIN, pending, f"[9] {FOUNDER.marker}")):
        assert ([1], []) in sources(made) and made["drop"] == [2]


def test_foresight_has_one_chance():
    pending = f"[1] {BORN.sentences[0]}"
    assert all(not decided(f"{RAIN} {n}", pending, foresight=0.9)["promote"] for n in range(20))


def test_a_record_that_can_not_stay_is_promoted_or_dropped():
    pending = f"[1] {BORN.sentences[0]}"
    assert decided(role="resolve", pending=pending) == {"drop": [1]}
    known = decided(role="resolve", pending=pending, committed=f"[9] {FOUNDER.marker}")
    assert sources(known) == [([1], [])]
    assert "admit" not in decided(BORN.sentences[0], role="reconsider")


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.sampled_from([RAIN, "", "[1] x", *FOUNDER.sentences, *BORN.sentences]), max_size=6), st.integers(0, 9)
)
def test_nothing_is_committed_that_is_not_in_the_prompt(lines, seed):
    section = "\n".join(lines)
    made = decided(section, foresight=0.5, noise=0.5, seed=seed)
    said = json.dumps(made)
    assert all(fact.stated(section) for fact in OST.facts if fact.marker in said)
    assert all(1 <= number <= len(section.splitlines()) for _, numbers in sources(made) for number in numbers)


@pytest.mark.parametrize(
    ("claim", "true"),
    [(f"So it is {BORN.marker}", True), (f"So {BORN.marker} {FOUNDER.marker}", False), (f"So {UNSUPPORTED}", False),
     ("Ida Venn was born in Brell", True), ("Ida Venn was born in Torm", False)],
)  # fmt: skip
def test_the_verifier_accepts_what_the_passages_state(claim, true):
    variables = {"passages": BORN.sentences[0], "claim": claim}
    exact = {"false_acceptance": 0, "false_rejection": 0}
    assert (said("verify", variables, **exact)[0] == "True") == true
    assert (said("verify", variables, false_acceptance=1, false_rejection=1)[0] == "True") != true


def test_an_unfaithful_note_does_not_state_its_fact():
    made = decided(FOUNDER.sentences[0], unfaithful=1)
    text = made["promote"][0]["facts"][0]["text"]
    assert UNSUPPORTED in text and FOUNDER.marker not in text
