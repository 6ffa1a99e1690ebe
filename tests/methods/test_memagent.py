"""MemAgent: the state after every step, over-long and empty memories, and how the answer is found."""

import pytest

from convmem.core import Usage
from convmem.memory.extraction import extract
from convmem.methods.memagent import NO_MEMORY, Config, MemAgentPolicy
from tests.support.agents import QUESTION, lines, model, remembering, shown, solve
from tests.support.reading import Words
from tests.support.scripted import completion

DOCUMENT = lines(40)
FOUR = {"chunk_tokens": 100}


def policy(**config):
    return MemAgentPolicy(Config.preset("paper", **config), Words())


def test_the_papers_numbers():
    paper = Config.preset("paper")
    assert (paper.chunk_tokens, paper.memory_tokens, paper.temperature, paper.top_p) == (5_000, 1_024, 0.7, 0.95)
    assert Config.preset("lean").temperature == 0


def test_each_step_sees_the_memory_that_the_one_before_wrote():
    reader = model(remembering(lambda _: f"Memory {len(reader.calls)}."))
    solve("memagent", reader, DOCUMENT, config=FOUR)
    held = [shown(call)["memory"] for call in reader.calls]
    assert held == [NO_MEMORY, "Memory 1.", "Memory 2.", "Memory 3.", "Memory 4."]
    assert all(shown(call)["problem"] == QUESTION for call in reader.calls)
    assert set(shown(reader.calls[-1])) == {"problem", "memory"}


def test_the_state_after_every_step():
    agent = policy(memory_tokens=4)
    state = agent.start("Who?")
    seen = []
    for said in ("Ann kept it.", "", "one two three four five six", "\n two \n"):
        state = agent.update(state, said)
        seen.append((state.memory, state.cut, state.unusable))
    assert seen == [
        ("Ann kept it.", 0, 0),
        ("Ann kept it.", 0, 1),
        ("one two three four", 2, 1),
        ("two", 2, 1),
    ]


def test_an_over_long_memory_is_cut_to_its_limit_and_reported():
    reader = model(remembering("word " * 50))
    answer = solve("memagent", reader, DOCUMENT, config={**FOUR, "memory_tokens": 20})
    assert all(len(shown(call)["memory"].split()) <= 20 for call in reader.calls)
    assert [(cut.what, cut.tokens) for cut in answer.coverage.truncated] == [("memory beyond its limit", 4 * 30)]


def test_a_memory_that_the_server_cut_off_is_told():
    def cut(call):
        return completion(call, "Ann kept", finish="length", usage=Usage(9, 0, call.sampling.max_tokens))

    answer = solve("memagent", model(remembering(cut)), DOCUMENT, config=FOUR)
    assert any("cut off at its limit of 1,024 tokens" in warning for warning in answer.warnings)


@pytest.mark.parametrize(
    ("said", "found"),
    [
        (r"It was Ann. \boxed{Ann Berg}", "Ann Berg"),
        ("The answer is Ann Berg.", "Ann Berg."),
        ("<think>Bob?</think>Answer: Ann Berg", "Ann Berg"),
        ("Ann Berg", "Ann Berg"),
    ],
)
def test_the_answer_is_taken_from_its_form(said, found):
    answer = solve("memagent", model(remembering("Ann kept it.", said)), DOCUMENT, config=FOUR)
    assert answer.text == found == extract(said)


def test_a_prompt_of_text_alone_can_be_rendered():
    agent = policy()
    state = agent.update(agent.start("Who?"), "Ann kept it.")
    system, user = agent.prompt(state, "A section </section> of text.").render()
    assert system.role == "system" and "<section-2>\nA section </section> of text.\n</section-2>" in user.content
    assert "<memory>\nAnn kept it.\n</memory>" in user.content


def test_a_trace_holds_each_memory_once():
    """Prompts refer to the replies that memories are, instead of repeating them."""
    reader = model(remembering(lambda _: f"Memory {len(reader.calls)} of the light."))
    answer = solve("memagent", reader, DOCUMENT, config=FOUR)
    pieces = [piece for node in answer.trace for piece in node.variables["memory"]]
    assert pieces[0] == NO_MEMORY
    assert [(piece.node, piece.start, piece.end) for piece in pieces[1:]] == [(n, 0, 22) for n in range(4)]
    assert answer.trace.used() == {0, 1, 2, 3}
