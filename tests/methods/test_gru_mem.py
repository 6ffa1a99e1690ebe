"""GRU-Mem: both gates, open and closed, and replies that have none."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from convmem.methods.gru_mem import Config, GruMemPolicy
from tests.support.agents import lines, model, remembering, shown, solve
from tests.support.reading import Words

DOCUMENT = lines(40)
FOUR = {"chunk_tokens": 100}


def reply(check, update="", following="continue"):
    return f"<check>{check}</check><update>{update}</update><next>{following}</next>"


def policy(**config):
    return GruMemPolicy(Config.preset("paper", **config), Words())


@given(st.text(min_size=1).filter(lambda text: text.strip() and "<" not in text), st.text())
def test_a_closed_update_gate_leaves_the_memory_as_it_was_to_the_byte(memory, ignored):
    agent = policy()
    before = agent.update(agent.start("Who?"), reply("yes", memory))
    after = agent.update(before, reply("no", ignored.replace("<", "")))
    assert after.memory == before.memory == memory.strip()
    assert after == before


def test_the_state_after_every_step():
    agent = policy(memory_tokens=3)
    state, seen = agent.start("Who?"), []
    for said in (reply("no"), reply("yes", "Ann kept it."), reply("No."), reply("yes", "one two three four", "end")):
        state = agent.update(state, said)
        seen.append((state.memory, state.cut, state.finished))
    assert seen == [("", 0, False), ("Ann kept it.", 0, False), ("Ann kept it.", 0, False), ("one two three", 1, True)]


@pytest.mark.parametrize(
    "malformed",
    [
        "",
        "Ann.",
        "<update>Ann.</update>",
        "<check>maybe</check><update>Ann.</update>",
        "<check>yes</check>",
        reply("yes", " "),
    ],
)
def test_a_reply_without_its_gate_or_memory_leaves_everything_as_it_was(malformed):
    agent = policy()
    before = agent.update(agent.start("Who?"), reply("yes", "Ann kept it."))
    after = agent.update(before, malformed)
    assert (after.memory, after.finished, after.unusable) == ("Ann kept it.", False, 1)


@pytest.mark.parametrize(("exit_gate", "read"), [(True, 2), (False, 4)])
def test_the_exit_gate_ends_the_reading_where_it_is_on(exit_gate, read):
    said = [reply("yes", "Ann."), reply("no", following="end"), reply("no"), reply("no")]
    reader = model(remembering(lambda _: said[len(reader.calls) - 1]))
    answer = solve("gru-mem", reader, DOCUMENT, config={**FOUR, "exit_gate": exit_gate})
    assert len(reader.calls) == read + 1 and answer.coverage.read_tokens == read * 100
    assert shown(reader.calls[-1])["memory"] == "Ann." and answer.text == "Ann"
    assert answer.coverage.windows == 4


def test_the_papers_comparison_keeps_the_exit_gate_off():
    assert Config.preset("paper").exit_gate and not Config.preset("matched").exit_gate


def test_a_section_that_adds_nothing_counts_as_irrelevant():
    said = [reply("yes", "Ann."), reply("no"), reply("yes", "Ann. Jon."), reply("no")]
    reader = model(remembering(lambda _: said[len(reader.calls) - 1]))
    answer = solve("gru-mem", reader, DOCUMENT, config=FOUR)
    assert [node.relevance for node in answer.trace if node.window] == [1, 0, 1, 0]
