"""Mem-α: what each tool does to each memory, what is ignored, what is retrieved."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from convmem.methods.mem_alpha import EMPTY, Config, MemAlphaPolicy
from convmem.model import Cache
from tests.support.agents import lines, model, operation, remembering, shown, solve
from tests.support.reading import Words

DOCUMENT = lines(40)
FOUR = {"chunk_tokens": 100}


def policy(**config):
    return MemAlphaPolicy(Config.preset("paper", **config), Words())


def reply(*operations):
    return json.dumps({"operations": operations})


def after(agent, *replies):
    state = agent.start("Who kept the light?")
    for said in replies:
        state = agent.update(state, said)
    return state


def test_the_state_after_every_step():
    agent = policy()
    state = agent.start("Who?")
    state = agent.update(state, reply(operation("insert", "semantic", content="Ann kept the light.")))
    assert state.stores == {"semantic": {"s1": "Ann kept the light."}, "episodic": {}}
    state = agent.update(
        state,
        reply(
            operation("update", "core", content="A harbour's chronicle."),
            operation("insert", "episodic", content="1901: a storm."),
            operation("update", "semantic", "s1", "Ann Berg kept the light."),
        ),
    )
    assert state.core == "A harbour's chronicle."
    assert state.stores == {"semantic": {"s1": "Ann Berg kept the light."}, "episodic": {"e2": "1901: a storm."}}
    state = agent.update(state, reply(operation("delete", "episodic", "e2"), operation("delete", "core")))
    assert (state.core, state.stores["episodic"], state.invalid) == ("", {}, 0)
    state = agent.update(state, reply(operation("insert", "episodic", content="1902: calm.")))
    assert state.stores["episodic"] == {"e3": "1902: calm."}  # an id is never given twice


@pytest.mark.parametrize(
    "invalid",
    [
        operation("insert", "core", content="x"),
        operation("insert", "semantic", content="  "),
        operation("insert", "semantic", content="Ann kept the light."),
        operation("update", "semantic", "s9", "x"),
        operation("update", "episodic", "s1", "x"),
        operation("update", "core"),
        operation("delete", "semantic", "s9"),
        operation("delete", "core"),
        operation("insert", "procedural", content="x"),
        operation("forget", "semantic", "s1"),
        {"tool": "insert", "memory": "semantic", "content": 7},
        {"tool": ["insert"], "memory": None},
        "insert", None, 3, [], {},
    ],
)  # fmt: skip
def test_an_invalid_operation_is_counted_and_ignored(invalid):
    agent = policy()
    before = after(agent, reply(operation("insert", "semantic", content="Ann kept the light.")))
    state = agent.update(before, reply(invalid, operation("insert", "episodic", content="1901: a storm.")))
    assert state.stores["semantic"] == before.stores["semantic"] and state.core == ""
    assert list(state.stores["episodic"].values()) == ["1901: a storm."]
    assert state.invalid == 1


@pytest.mark.parametrize("malformed", ["", "Done.", "7", '"insert"', '{"operations": 3}', "[1", '{"answer": "Ann"}'])
def test_a_reply_without_operations_leaves_all_memories_as_they_were(malformed):
    agent = policy()
    before = after(agent, reply(operation("insert", "semantic", content="Ann kept the light.")))
    state = agent.update(before, malformed)
    assert (state.core, state.stores, state.unusable) == (before.core, before.stores, 1)


@pytest.mark.parametrize(
    "said",
    [
        '```json\n{"operations": [{"tool": "insert", "memory": "semantic", "content": "Ann kept it."}]}\n```',
        'I add: {"tool": "insert", "memory": "semantic", "content": "Ann kept it."}',
        '[{"tool": "insert", "memory": "Semantic", "content": "Ann  kept\\nit."}]',
        '{"operations": [{"tool": "insert", "memory": "semantic", "content": "Ann kept it.',
        '<tool_call>\n{"name": "new_memory_insert", "arguments": '
        '{"memory_type": "semantic_memory", "content": "Ann kept it."}}\n</tool_call>',
    ],
)
def test_operations_are_read_in_the_forms_that_models_write(said):
    assert after(policy(), said).stores["semantic"] == {"s1": "Ann kept it."}


def test_several_tool_calls_apply_in_their_order():
    calls = [
        {"name": "new_memory_insert", "arguments": {"memory_type": "episodic_memory", "content": "1901: a storm."}},
        {
            "name": "memory_update",
            "arguments": {"memory_type": "episodic_memory", "memory_id": "e1", "new_content": "x"},
        },
        {"name": "memory_update", "arguments": {"memory_type": "core_memory", "new_content": "A chronicle."}},
    ]
    state = after(policy(), "\n".join(f"<tool_call>{json.dumps(call)}</tool_call>" for call in calls))
    assert (state.core, state.stores["episodic"], state.invalid) == ("A chronicle.", {"e1": "x"}, 0)


def test_over_long_entries_are_cut_and_reported():
    said = reply(operation("insert", "semantic", content="word " * 30), operation("update", "core", content="w " * 30))
    answer = solve("mem-alpha", model(remembering(said)), lines(5), config={"core_tokens": 10, "entry_tokens": 12})
    assert [(cut.what, cut.tokens) for cut in answer.coverage.truncated] == [("memory beyond its limit", 20 + 18)]


def test_reading_does_not_know_the_question_so_a_second_one_finds_every_step_stored():
    cache = Cache.temporary()
    said = reply(operation("insert", "semantic", content="Ann kept the light."))
    first = model(remembering(said))
    solve("mem-alpha", first, DOCUMENT, "Who kept the light?", config=FOUR, cache=cache)
    assert not any("Who kept" in message.content for call in first.calls[:-1] for message in call.messages)
    second = model(remembering(said))
    solve("mem-alpha", second, DOCUMENT, "What did Ann keep?", config=FOUR, cache=cache)
    assert [call.role for call in second.calls] == ["entries_answer"]


def test_core_is_whole_and_of_the_others_the_best_are_retrieved_in_their_order():
    entries = [f"Pier {n} was built by Jon." for n in range(30)]
    entries[3], entries[17] = "Ann Berg kept the light.", "The light burned whale oil, and it was kept by Bo."
    operations = [operation("insert", "semantic", content=entry) for entry in entries]
    said = reply(operation("update", "core", content="A chronicle."), *operations)
    reader = model(remembering(said))
    solve("mem-alpha", reader, lines(5), "Who kept the light?", config={"retrieved": 2})
    final = shown(reader.calls[-1])
    assert final["core_memory"] == "A chronicle." and final["episodic_memory"] == EMPTY
    assert final["semantic_memory"].splitlines() == [f"[s4] {entries[3]}", f"[s18] {entries[17]}"]


def test_a_step_sees_the_newest_entries():
    said = [reply(*(operation("insert", "semantic", content=f"fact {n}{m}") for m in range(3))) for n in range(4)]
    reader = model(remembering(lambda _: said[len(reader.calls) - 1]))
    solve("mem-alpha", reader, DOCUMENT, config={**FOUR, "shown": 4})
    seen = [shown(call)["semantic_memory"].split() for call in reader.calls[:4]]
    assert seen[0] == [EMPTY]
    assert seen[3][2::3] == ["12", "20", "21", "22"]


@settings(max_examples=40, deadline=None)
@given(
    st.lists(
        st.lists(
            st.builds(
                operation,
                st.sampled_from(["insert", "update", "delete", "x"]),
                st.sampled_from(["core", "semantic", "episodic", "y"]),
                st.sampled_from(["", "s1", "e2", "s3"]),
                st.sampled_from(["", "Ann kept it.", "word " * 40]),
            ),
            max_size=4,
        ),
        max_size=5,
    ),
    st.integers(8, 60),
)
def test_any_operations_keep_the_limits_and_are_all_accounted_for(steps, memory_tokens):
    agent = policy(core_tokens=4, entry_tokens=8, memory_tokens=memory_tokens)
    state = agent.start("Who kept it?")
    for operations in steps:
        state = agent.update(state, reply(*operations))
        assert len(state.core.split()) <= 4
        assert all(len(text.split()) <= 8 for store in state.stores.values() for text in store.values())
        for prompt in (agent.prompt(state, "A section."), agent.answer_prompt(state)):
            held = [prompt.variables[f"{name}_memory"] for name in ("core", "semantic", "episodic")]
            texts = ["".join(parts) for parts in held]
            assert sum(len(text.split()) for text in texts if text != EMPTY) <= memory_tokens
    ids = [id_ for store in state.stores.values() for id_ in store]
    assert len(set(ids)) == len(ids) <= state.issued
    assert state.unusable == 0 and state.invalid <= sum(map(len, steps))
