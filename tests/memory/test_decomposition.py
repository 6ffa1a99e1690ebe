import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from convmem.core import Transient
from convmem.memory.decomposition import as_name, decompose, in_rounds, named
from tests.support.reading import within
from tests.support.scripted import ScriptedModel

QUESTION = "Who kept the light, and when?"


def split(reply, c_max=5, **settings):
    """(sub-questions, warnings, calls)"""
    model = ScriptedModel(reply if callable(reply) else lambda _: reply)

    async def work(run):
        return await decompose(QUESTION, c_max, run), run.warnings

    return (*within(model, "Ann kept it.", work, **settings), model.calls)


def test_sub_questions_are_numbered_channels():
    found, warnings, calls = split('{"sub_questions": ["Who kept it?", "When?"], "keywords": ["light"]}')
    assert [(q.id, q.text) for q in found] == [("1", "Who kept it?"), ("2", "When?")]
    assert not warnings and len(calls) == 1
    assert all(q.parents == (0,) for q in found)


@given(st.integers(1, 8))
def test_there_are_at_most_c_max_without_duplicates(c_max):
    said = [f"Question {n // 2}?" for n in range(20)]
    found, _, calls = split(json.dumps({"sub_questions": said, "keywords": []}), c_max)
    assert [q.text for q in found] == [f"Question {n}?" for n in range(c_max)]
    assert str(c_max) in calls[0].messages[-1].content
    assert calls[0].schema["properties"]["sub_questions"]["maxItems"] == c_max


@pytest.mark.parametrize(
    "reply",
    ["", "Who kept it?", "[]", "{}", "7", "null", '{"sub_questions": []}', '{"sub_questions": [1, null, {}]}',
     '{"sub_questions": ["", "  "]}', '{"sub_questions": {"a": "b"}}', "[" * 5_000],
)  # fmt: skip
def test_what_can_not_be_read_is_one_channel_with_the_question_and_a_warning(reply):
    found, warnings, calls = split(reply)
    assert [q.text for q in found] == [QUESTION]
    assert len(warnings) == 1 and "sub-questions" in warnings[0]
    assert [call.attempt for call in calls] == [0, 1, 2, 3]


def test_a_reply_that_is_cut_off_is_asked_for_again_and_then_repaired():
    found, warnings, calls = split('Sure! {"sub_questions": ["Who kept it?", "When was')
    assert found[0].text == "Who kept it?" and not warnings
    assert len(calls) == 4


@pytest.mark.parametrize("failing", [Transient("no"), None])
def test_a_call_that_can_not_be_made_is_one_channel_and_a_warning(failing):
    found, warnings, calls = split(lambda _: failing, **({"retries": 0} if failing else {"budget": 1}))
    assert [q.text for q in found] == [QUESTION] and len(warnings) == 1
    assert found[0].parents == () and len(calls) == (1 if failing else 0)


@settings(max_examples=60, deadline=None)
@given(
    st.recursive(
        st.none() | st.text() | st.integers(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)
    )
)
def test_any_json_gives_channels_of_one_line_each(value):
    for reply in (json.dumps(value), json.dumps({"sub_questions": value})):
        found, _, _ = split(reply, retries=0)
        assert 1 <= len(found) <= 5 and len({q.text for q in found}) == len(found)
        assert all(q.text.strip() and "\n" not in q.text for q in found)


def hops(*texts, question=QUESTION, **more):
    """(sub-questions, warnings)"""
    model = ScriptedModel(lambda _: json.dumps({"sub_questions": list(texts)}))

    async def work(run):
        return await decompose(question, 5, run, hops=True), run.warnings

    found, warnings = within(model, "Ann kept it.", work)
    assert model.calls[0].role == "decompose_hops" and "keywords" not in model.calls[0].schema["properties"]
    return found, warnings


def test_a_later_hop_names_the_answer_of_an_earlier_one():
    found, warnings = hops("Who kept the light?", "Where was #1 born?", "When was #2 founded, before #1 left?")
    assert [q.needs for q in found] == [(), ("1",), ("2", "1")] and not warnings
    assert [[q.id for q in group] for group in in_rounds(found)] == [["1"], ["2"], ["3"]]
    asked = named(found[1], {"1": ("Ann Korr (the keeper).", 7)})
    assert asked.text == "Where was Ann Korr born?" and asked.names == ("Ann Korr",) and 7 in asked.parents
    assert named(found[1], {}) is None and named(found[1], {"1": ("(nothing)", 7)}) is None
    assert named(found[0], {}) is found[0]


def test_sub_questions_that_need_no_other_are_one_round():
    found, _ = hops("Who?", "Where?")
    assert in_rounds(found) == [list(found)]


@pytest.mark.parametrize(
    "texts", [("Who is #1?",), ("Who is #2?", "Who is #1?"), ("Who?", "Where is #4?"), ("Where is #0?",)]
)
def test_answers_that_can_not_be_had_fall_back_to_one_round(texts):
    found, warnings = hops(*texts)
    assert len(warnings) == 1 and "at once" in warnings[0]
    assert in_rounds(found) == [list(found)] and not any("#" in q.text for q in found)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.lists(st.integers(0, 6), max_size=3), min_size=1, max_size=5))
def test_any_graph_is_read_in_an_order_that_resolves_or_at_once(graph):
    found, warnings = hops(*(f"Part {n}: " + " ".join(f"#{need}" for need in needs) for n, needs in enumerate(graph)))
    done = set()
    for group in in_rounds(found):
        assert all(done.issuperset(q.needs) for q in group)
        done |= {q.id for q in group}
    assert done == {q.id for q in found}
    assert bool(warnings) == (any(graph) and not any(q.needs for q in found))


def test_a_question_with_a_number_sign_of_its_own_refers_to_nothing():
    found, warnings = hops("Who sang the #1 hit?", question="Who sang the #1 hit?")
    assert found[0].text == "Who sang the #1 hit?" and not found[0].needs and not warnings


@given(st.text(max_size=400))
def test_an_answer_becomes_a_short_name_without_control_tokens(answer):
    name = as_name(answer)
    assert len(name) <= 110 and "\n" not in name and "#" not in name and "<|" not in name
