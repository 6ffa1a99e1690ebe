"""Questions on an indexed document: what is asked of the model, what is read again, and what is said of it."""

import re
from contextlib import closing

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from convmem.core import ContextExceeded, ConvMemError, Transient
from convmem.document import Document
from convmem.methods.convmem import Config, ConvMem
from convmem.methods.convmem.index import index
from convmem.model import Cache
from convmem.run import RunSettings, simulate
from tests.support.reading import answer, by_role, fenced
from tests.support.scripted import ScriptedModel

ISLES = [f"Isle{first}{second}" for first in "abcdef" for second in "klmnopqrst"]
TEXT = "\n\n".join(
    f"At {isle} the keeper was {isle[4:].upper()}ander. It rained for {n} days. The mole is of grey stone."
    for n, isle in enumerate(ISLES)
)
INDEXED = {"index": "records", "index_window": 300, "lookup_tokens": 450}


def taken_down(call):
    """A row for each keeper."""
    found = re.findall(r"At (\w+) the keeper was (\w+)\.", fenced(call))
    return "\n".join(f"{isle} | keeper | {name}" for isle, name in found) or "NONE"


def passages(call):
    """The numbered passages of a prompt."""
    parts = re.split(r"^\[(\d+)\] ", fenced(call), flags=re.MULTILINE)
    return [(int(number), body) for number, body in zip(parts[1::2], parts[2::2], strict=True)]


def looked_up(call):
    """The keeper of the isle that the question names, where a passage has it."""
    isle = re.search(r"Isle\w\w", call.messages[-1].content.rpartition("Question:")[2])[0]
    for number, body in passages(call):
        if isle in body and (name := re.search(rf"{isle}(?: the keeper was| \| keeper \|) (\w+)", body)):
            return {"answer": name[1], "passages": [number], "missing": ""}
    return {"answer": "not found", "passages": [], "missing": f"keeper of {isle}"}


def model(**roles):
    return ScriptedModel(by_role(**{"records": taken_down, "lookup": looked_up} | roles))


def roles(asked):
    return [call.role for call in asked.calls]


def test_the_second_question_costs_one_call_and_reads_nothing_again(tmp_path):
    asked = model()
    with closing(Cache(tmp_path / "calls.sqlite")) as cache:
        first = answer(asked, TEXT, "Who was the keeper of Isleap?", config=INDEXED, cache=cache)
        reading = len(asked.calls) - 1
        second = answer(asked, TEXT, "Who was the keeper of Isleck?", config=INDEXED, cache=cache)
    assert (first.text, second.text) == ("APander", "CKander")
    assert roles(asked) == ["records"] * reading + ["lookup"] * 2 and reading == first.coverage.windows > 4
    assert second.coverage.indexed_tokens == second.coverage.tokens and second.coverage.read_tokens == 0
    assert [citation.quote for citation in second.citations] == ["At Isleck the keeper was CKander."]


def test_where_the_records_are_not_enough_the_passages_that_match_are_read(tmp_path):
    asked = model(records="NONE")
    with closing(Cache(tmp_path / "calls.sqlite")) as cache:
        answer(asked, TEXT, "Who was the keeper of Isleap?", config=INDEXED, cache=cache)
        found = answer(asked, TEXT, "Who was the keeper of Isleck?", config=INDEXED, cache=cache)
    assert found.text == "CKander" and 0 < found.coverage.read_tokens < found.coverage.tokens / 2
    assert roles(asked).count("lookup") == 2


def test_what_a_call_misses_is_looked_up_next_and_what_helped_stays():
    def looked(call):
        text = fenced(call)
        known = re.search(r"lives with (\w+)", text)
        if known and (owner := re.search(rf"{known[1]} holds the (\w+)", text)):
            return {"answer": owner[1], "passages": [], "missing": ""}
        helped = [number for number, body in passages(call) if "lives with" in body]
        return {"answer": "not found", "passages": helped, "missing": known[1] if known else ""}

    rain = "\n\n".join(f"It rained for {n} days upon the grey harbour of the north." for n in range(60))
    text = f"Ann lives with Zebulon.\n\n{rain}\n\nZebulon holds the windmill.\n\n{rain}"
    asked = ScriptedModel(by_role(records="NONE", lookup=looked))
    found = answer(asked, text, "Ann lives: belongings?", config=INDEXED)
    assert found.text == "windmill" and roles(asked).count("lookup") == 2
    assert "lives with" in fenced(asked.calls[-1]) and "holds the windmill" in fenced(asked.calls[-1])


def test_the_passages_of_named_records_are_read_first():
    def looked(call):
        named = [number for number, body in passages(call) if "Isleck |" in body]
        return {"answer": "not found", "passages": named, "missing": ""}

    asked = ScriptedModel(by_role(records=taken_down, lookup=looked))
    answer(asked, TEXT, "Where does rain fall, at Isleck?", config=INDEXED | {"lookups": 2})
    assert "At Isleck the keeper was" in fenced(asked.calls[-1])


def test_values_that_disagree_are_said_side_by_side_with_their_places():
    text = TEXT + "\n\nAt Isleck the keeper was Zoe."
    asked = model()
    found = answer(asked, text, "Who was the keeper of Isleck?", config=INDEXED)
    [conflict] = [warning for warning in found.warnings if "several values" in warning]
    assert "“CKander” (text, line 41)" in conflict and "“Zoe” (text, line 121)" in conflict
    assert re.findall(r"Isleck \| keeper \| (\w+)", fenced(asked.calls[-1])) == ["CKander", "Zoe"]


def test_the_second_question_is_asked_of_summaries_too():
    asked = model(summarize_window=lambda call: f"- {fenced(call)[:60]}")
    found = answer(asked, TEXT, "Who was the keeper of Isleak?", config=INDEXED | {"index": "summary"})
    assert found.text == "AKander" and set(roles(asked)) == {"summarize_window", "lookup"}


# ------------------------------------------------------------------------------------------------ faults


@settings(max_examples=15, deadline=None)
@given(
    st.lists(st.sampled_from(["", "NONE", "a | b", "{", "x" * 900, "Isleck | keeper | Nobody", "| | |"]), min_size=1)
)
def test_whatever_is_taken_down_ends_in_an_answer(replies):
    def said(call):
        return replies[len(fenced(call)) % len(replies)]

    found = answer(model(records=said), TEXT, "Who was the keeper of Isleck?", config=INDEXED, retries=0)
    assert found.text and found.coverage.indexed_tokens == 0 and found.coverage.tokens


@pytest.mark.parametrize("reply", ["", "[]", "{", '{"answer": 3}', '{"passages": "x", "answer": null}', "It was Ann."])
def test_whatever_is_looked_up_ends_in_an_answer(reply):
    asked = ScriptedModel(by_role(records=taken_down, lookup=reply))
    found = answer(asked, TEXT, "Who was the keeper of Isleck?", config=INDEXED, retries=0)
    assert found.text and all(citation.quote in TEXT for citation in found.citations)


def test_windows_that_fail_are_missing_and_read_next_time():
    failing = model(records=lambda call: Transient("no") if "Isleck" in fenced(call) else taken_down(call))
    method = ConvMem(Config.preset("lean", **INDEXED))
    document = Document.from_text(TEXT)
    with closing(Cache.temporary()) as cache:
        made = simulate(index(method, document, model=failing, settings=RunSettings(retries=0), cache=cache))
        assert made.contents.missing == 1 == len(made.coverage.failed_windows)


def test_nothing_indexed_is_a_failure():
    method, settings = ConvMem(Config.preset("lean", **INDEXED)), RunSettings(budget=50)
    with closing(Cache.temporary()) as cache, pytest.raises(ConvMemError, match="could be indexed: the budget"):
        simulate(index(method, Document.from_text(TEXT), model=model(), settings=settings, cache=cache))


def test_a_window_that_is_too_long_for_the_model_is_taken_down_in_halves():
    def short(call):
        return ContextExceeded("too long") if len(fenced(call)) > 700 else taken_down(call)

    found = answer(model(records=short), TEXT, "Who was the keeper of Isleck?", config=INDEXED)
    assert found.text == "CKander" and not found.coverage.failed_windows


def test_a_budget_ends_the_reading_and_leaves_room_to_answer():
    found = answer(model(), TEXT, "Who was the keeper of Isleak?", config=INDEXED, budget=2_000)
    total = found.usage.total
    assert total.prompt_tokens + total.completion_tokens <= 2_000
    assert any("are not in the index" in warning for warning in found.warnings)
    assert 0 < found.plan.prompt_tokens + found.plan.completion_tokens <= 2_000
    assert [said for said in found.plan.assumptions if "budget has room for" in said]


def test_a_plan_is_what_indexing_costs(tmp_path):
    method, document = ConvMem(Config.preset("lean", **INDEXED)), Document.from_text(TEXT)
    heard, asked = [], model()
    with closing(Cache(tmp_path / "calls.sqlite")) as cache:
        made = simulate(
            index(method, document, model=asked, settings=RunSettings(), cache=cache, on_event=heard.append)
        )
        again = simulate(
            index(method, document, model=asked, settings=RunSettings(), cache=cache, on_event=heard.append)
        )
    first, second = [event.plan for event in heard if type(event).__name__ == "Planned"]
    assert first.calls == made.usage.total.calls == len(asked.calls)
    assert abs(first.prompt_tokens - made.usage.total.prompt_tokens) <= 0.2 * made.usage.total.prompt_tokens
    assert (second.calls, second.prompt_tokens) == (0, 0) == (again.contents.added, again.usage.total.calls)


def test_a_tenant_pays_for_a_reading_of_its_own(tmp_path):
    asked = model()
    with closing(Cache(tmp_path / "calls.sqlite")) as cache:
        for namespace in ("", "tenant"):
            answer(asked, TEXT, "Who was the keeper of Isleck?", config=INDEXED, cache=cache, namespace=namespace)
    assert roles(asked).count("lookup") == 2 and roles(asked).count("records") % 2 == 0
    read = [fenced(call) for call in asked.calls if call.role == "records"]
    assert 2 * len(set(read)) == len(read)


def test_what_was_looked_at_whole_is_not_looked_at_again():
    asked = model(records="NONE", lookup={"answer": "not found", "passages": [], "missing": ""})
    found = answer(asked, "Ann kept the light. " * 20, "Who owned the mill?", config=INDEXED)
    assert found.text == "not found" and roles(asked).count("lookup") == 1


def test_the_likeliest_passages_are_read_again_before_unlikely_ones():
    asked = model(records="NONE", lookup={"answer": "not found", "passages": [], "missing": ""})
    answer(asked, TEXT, "Who was the keeper of Isleck?", config=INDEXED | {"lookups": 8})
    views = ["Isleck" in fenced(call) for call in asked.calls if call.role == "lookup"]
    assert views[0] and 2 <= sum(views) < len(views)
