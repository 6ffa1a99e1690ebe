"""ReMemR1: what is recalled at each step, and what is carried on at a matched budget."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from convmem.methods.rememr1 import NOTHING_RECALLED, Config, ReMemR1Policy
from tests.support.agents import lines, model, remembering, shown, solve
from tests.support.reading import Words

LIGHT, MILL, STORM = "Ann Berg kept the light.", "The mill belonged to Jon.", "A storm broke the pier."


def policy(preset="paper", **config):
    return ReMemR1Policy(Config.preset(preset, **config), Words())


def reply(memory, query=""):
    return f"<update>{memory}</update>" + (f"<recall>{query}</recall>" if query else "")


def states(agent, *replies):
    state, seen = agent.start("Who?"), []
    for said in replies:
        state = agent.update(state, said)
        seen.append(state)
    return seen


def test_the_best_of_the_earlier_memories_is_recalled():
    agent = policy()
    one, two, three, four = states(
        agent, reply(LIGHT), reply(MILL), reply(STORM, "who kept the light?"), reply("Nothing new.", "the mill and Jon")
    )
    assert (one.memory, one.earlier, one.recalled) == (LIGHT, (), "")
    assert (two.memory, two.earlier, two.recalled) == (MILL, (LIGHT,), "")
    assert (three.earlier, three.query, three.recalled) == ((LIGHT, MILL), "who kept the light?", LIGHT)
    assert (four.earlier, four.recalled) == ((LIGHT, MILL, STORM), MILL)


def test_what_is_recalled_is_shown_with_the_next_section_and_the_last_with_the_answer():
    said = [reply(LIGHT), reply(MILL, "light"), reply(STORM), reply("It rained.", "who kept the light")]
    reader = model(remembering(lambda _: said[len(reader.calls) - 1]))
    solve("rememr1", reader, lines(40), config={"chunk_tokens": 100})
    assert [shown(call)["recalled_memory"] for call in reader.calls] == [
        NOTHING_RECALLED, NOTHING_RECALLED, LIGHT, NOTHING_RECALLED, LIGHT
    ]  # fmt: skip
    assert [shown(call)["memory"] for call in reader.calls[1:]] == [LIGHT, MILL, STORM, "It rained."]


@pytest.mark.parametrize("malformed", ["", "Ann kept it.", "<recall>mill</recall>", "<update></update>", "</update>x"])
def test_a_reply_without_a_memory_leaves_memory_query_and_archive_as_they_were(malformed):
    *_, before, after = states(policy(), reply(LIGHT), reply(MILL, "light"), malformed)
    assert (after.memory, after.query, after.earlier) == (before.memory, before.query, before.earlier)
    assert after.unusable == before.unusable + 1


@pytest.mark.parametrize(
    "said", [f"<update>{LIGHT}", f"Well: <UPDATE>\n{LIGHT}\n</UPDATE>", f"<update>{LIGHT}<recall>a</recall>"]
)
def test_tags_may_be_unfinished(said):
    (state,) = states(policy(), said)
    assert state.memory == LIGHT


def test_a_query_that_matches_nothing_recalls_nothing():
    *_, state = states(policy(), reply(LIGHT), reply(MILL, "zeppelin"))
    assert state.recalled == ""


def test_a_memory_written_again_is_archived_once():
    *_, state = states(policy(), reply(LIGHT), reply(LIGHT), reply(MILL), reply(LIGHT), reply(STORM))
    assert state.earlier == (MILL, LIGHT)


def test_at_a_matched_budget_a_newer_memory_replaces_the_archived_one_for_good():
    one, two, three, four, five = states(
        policy("matched"), reply(LIGHT), reply(MILL), reply(MILL, "light"), reply(STORM, "light"), reply("x", "light")
    )
    assert (one.earlier, two.earlier, two.recalled) == ((), (LIGHT,), "")
    assert (three.earlier, three.recalled) == ((LIGHT,), LIGHT)  # nothing was overwritten
    assert (four.earlier, four.recalled) == ((MILL,), "")
    assert five.earlier == (STORM,)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 2_000), st.integers(0, 300)), min_size=1, max_size=6))
def test_at_a_matched_budget_what_is_carried_on_fits_1024_tokens(lengths):
    agent = policy("matched")
    state = agent.start("Who?")
    for number, (memory, query) in enumerate(lengths):
        state = agent.update(state, reply(f"m{number} " * memory, f"q{number} " * query))
        carried = [len(text.split()) for text in (state.memory, *state.earlier, state.query)]
        assert carried[0] <= 480 and sum(carried) <= 480 + 480 + 64
