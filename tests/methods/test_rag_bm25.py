"""RAG-BM25: which chunks are retrieved, in what order they are read, and rounds of what is missing."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from convmem.core import ContextExceeded, ConvMemError, EvidenceFound, Transient
from convmem.document import Document
from convmem.methods import Facts
from convmem.methods.rag_bm25 import Config, RagBm25
from tests.support.agents import lines, model, shown, solve
from tests.support.reading import Words
from tests.support.scripted import ScriptedModel

PLACES = {
    40: "Ann Berg kept the light at Nordhavn for many years.",
    160: "Ann Berg was born at Sandvik, as the register says.",
}
DOCUMENT = "\n".join(PLACES.get(n, line) for n, line in enumerate(lines(200).splitlines()))
ANSWER = {"answer": "Ann Berg", "passages": [1]}
SMALL = {"chunk_tokens": 50}


def reading(*missing, answer=ANSWER):
    """Replies: what is missing after each round (None: enough), then the answer."""
    said = iter(missing)

    def say(call):
        if call.role != "missing":
            return json.dumps(answer) if isinstance(answer, dict) else answer
        lacking = next(said)
        if isinstance(lacking, str | None):
            return json.dumps({"enough": lacking is None, "missing": lacking or ""})
        return lacking

    return say


def chunks(call):
    return shown(call)["passages"].split("\n[")


def test_the_papers_numbers():
    assert (Config.preset("paper").chunk_tokens, Config.preset("paper").rounds) == (1_000, 1)


def test_the_chunk_that_the_question_names_is_read_and_cited():
    reader = model(reading())
    answer = solve(
        "rag-bm25", reader, DOCUMENT, "Who kept the light at Nordhavn?", config={**SMALL, "retrieved_tokens": 60}
    )
    assert [call.role for call in reader.calls] == ["direct"]
    assert answer.text == "Ann Berg" and [c.quote for c in answer.citations] == [PLACES[40]]
    assert answer.coverage.read_tokens == 50 and answer.coverage.windows == 40
    assert answer.usage.depth == 1


def test_as_many_chunks_as_fill_the_context_in_the_documents_order():
    reader = model(reading(), context=900)
    events = []
    answer = solve("rag-bm25", reader, DOCUMENT, "light at Nordhavn born Sandvik", config=SMALL, on_event=events.append)
    (call,) = reader.calls
    assert 6 <= len(chunks(call)) == len([e for e in events if isinstance(e, EvidenceFound)]) < 40
    text = shown(call)["passages"]
    assert text.index(PLACES[40]) < text.index(PLACES[160])
    words = sum(len(message.content.split()) for message in call.messages)
    assert 900 - 300 - 150 < words <= 900 - 300
    assert answer.coverage.read_tokens == 50 * len(chunks(call))


def test_what_is_missing_is_searched_for_until_enough():
    reader = model(reading("Berg born register", None))
    answer = solve(
        "rag-bm25",
        reader,
        DOCUMENT,
        "Who kept the light at Nordhavn?",
        config={**SMALL, "rounds": 4, "retrieved_tokens": 240},
    )
    assert [call.role for call in reader.calls] == ["missing", "missing", "direct"]
    first, second, last = reader.calls
    assert PLACES[40] in shown(first)["passages"] and PLACES[160] not in shown(first)["passages"]
    assert PLACES[160] in shown(second)["passages"]
    assert shown(second)["passages"] == shown(last)["passages"]
    assert answer.usage.depth == 3 and answer.coverage.read_tokens == 100


def test_rounds_end_when_they_are_used_up():
    reader = model(reading("born", "register", "Sandvik"))
    solve("rag-bm25", reader, DOCUMENT, config={**SMALL, "rounds": 3, "retrieved_tokens": 200})
    assert [call.role for call in reader.calls] == ["missing", "missing", "direct"]


@pytest.mark.parametrize("said", ["gibberish", "", '{"enough": 3}', Transient("no"), ContextExceeded("no")])
def test_a_round_that_fails_ends_the_search_and_not_the_run(said):
    answer = solve("rag-bm25", model(reading(*[said] * 4)), DOCUMENT, config={**SMALL, "rounds": 3}, retries=0)
    assert answer.text == "Ann Berg"


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 6_000), st.integers(1, 4), st.booleans())
def test_a_budget_is_never_exceeded(budget, rounds, exact):
    reader = ScriptedModel(reading("born", "register", "Sandvik", "light"), exact=exact)
    try:
        answer = solve(
            "rag-bm25", reader, DOCUMENT, config={**SMALL, "rounds": rounds, "answer_tokens": 40}, budget=budget
        )
    except ConvMemError as error:
        assert "too small" in str(error) and not reader.calls
        return
    used = answer.usage.total
    assert used.prompt_tokens + used.completion_tokens <= budget
    assert reader.calls[-1].role == "direct" and answer.text == "Ann Berg"


def test_a_server_that_takes_less_gets_the_best_chunks():
    def say(call):
        too_long = len(call.messages[-1].content.split()) > 300
        return ContextExceeded("too long", 500) if too_long else json.dumps(ANSWER)

    reader = model(say, context=None)
    answer = solve("rag-bm25", reader, DOCUMENT, "Who kept the light?", config={**SMALL, "answer_tokens": 40})
    assert answer.text == "Ann Berg" and PLACES[40] in shown(reader.calls[-1])["passages"]
    assert 0 < answer.coverage.read_tokens < answer.coverage.tokens


def test_a_document_without_a_word_in_common_is_read_from_the_start():
    reader = model(reading(), context=900)
    solve("rag-bm25", reader, DOCUMENT, "Zeppelin?", config=SMALL)
    assert shown(reader.calls[0])["passages"].startswith("[1] At pier 0 ")


@pytest.mark.parametrize("rounds", [1, 3])
def test_a_plan_is_what_a_run_costs(rounds):
    config = {**SMALL, "rounds": rounds}
    reader = model(reading("born", "register"), context=1_500)
    solve("rag-bm25", reader, DOCUMENT, "Who kept the light?", config=config)
    plan = RagBm25(Config.preset("lean", **config)).plan(
        Document.from_text(DOCUMENT), Facts(Words(), context=1_500), "Who kept the light?"
    )
    sent = sum(len(message.content.split()) for call in reader.calls for message in call.messages)
    assert (plan.calls, plan.depth, plan.windows) == (len(reader.calls), rounds, 40)
    assert sent == pytest.approx(plan.prompt_tokens, rel=0.35)
