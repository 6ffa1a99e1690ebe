"""RAPTOR: the tree, what is retrieved from it, and what a second question costs."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from convmem.core import ConvMemError, Transient, union
from convmem.document import Document
from convmem.methods import Facts
from convmem.methods.raptor import Config, Raptor
from convmem.model import Cache
from tests.support.agents import lines, model, shown, solve
from tests.support.reading import Words
from tests.support.scripted import ScriptedModel

PLACE = "Ann Berg kept the light at Nordhavn."
DOCUMENT = "\n".join(PLACE if n == 70 else line for n, line in enumerate(lines(200).splitlines()))
LEAVES = {"leaf_tokens": 20, "cluster_size": 5, "retrieved_tokens": 120}
QUESTION = "Who kept the light at Nordhavn?"


def reading(call):
    if call.role == "direct":
        return json.dumps({"answer": "Ann Berg", "passages": [1]})
    return "Summary: " + " ".join(shown(call)["passages"].split()[1:9])


def test_the_papers_numbers():
    paper = Config.preset("paper")
    assert (paper.leaf_tokens, paper.retrieved_tokens, paper.threshold) == (100, 2_000, 0.1)


def test_every_leaf_is_summarized_and_summaries_in_their_turn():
    reader = model(reading)
    answer = solve("raptor", reader, DOCUMENT, QUESTION, config=LEAVES)
    layers = sorted({node.layer for node in answer.trace if node.role == "summarize_cluster"})
    assert layers == list(range(len(layers))) and len(layers) >= 2
    assert answer.coverage.read_tokens == answer.coverage.tokens
    assert answer.usage.depth == len(layers) + 1
    counts = [sum(node.role == "summarize_cluster" and node.layer == n for node in answer.trace) for n in layers]
    assert counts == sorted(counts, reverse=True) and counts[-1] <= 5 < counts[0]
    assert reader.calls[-1].role == "direct"
    assert not any(QUESTION in m.content for call in reader.calls[:-1] for m in call.messages)


def test_the_nearest_nodes_of_all_layers_answer_and_a_leaf_is_cited():
    reader = model(reading)
    answer = solve("raptor", reader, DOCUMENT, QUESTION, config=LEAVES)
    passages = shown(reader.calls[-1])["passages"]
    assert passages.splitlines()[0].startswith("[1] ") and PLACE in passages
    assert len(passages.split()) <= 120
    assert answer.text == "Ann Berg" and PLACE in [citation.quote for citation in answer.citations]


def test_a_summary_stands_for_all_it_was_made_from_and_is_never_quoted():
    def say(call):
        about = "Nordhavn" in shown(call).get("passages", "")
        return (
            reading(call)
            if call.role == "direct" or not about
            else "Nordhavn, the light: kept by Ann Berg, who kept it."
        )

    reader = model(say)
    answer = solve("raptor", reader, DOCUMENT, QUESTION, config=LEAVES)
    document = Document.from_text(DOCUMENT)
    assert "kept by Ann Berg" in shown(reader.calls[-1])["passages"].splitlines()[0]
    assert PLACE in [citation.quote for citation in answer.citations]
    assert all(document.text(citation.span) == citation.quote for citation in answer.citations)


def test_a_second_question_finds_the_tree_stored():
    cache = Cache.temporary()
    first, second = model(reading), model(reading)
    solve("raptor", first, DOCUMENT, QUESTION, config=LEAVES, cache=cache)
    answer = solve("raptor", second, DOCUMENT, "What happened at pier 12?", config=LEAVES, cache=cache)
    assert [call.role for call in second.calls] == ["direct"]
    assert answer.usage.total.cache_hits == len(first.calls) - 1


def test_concurrency_changes_nothing():
    made = []
    for slots, latency in ((1, 1.0), (16, lambda call: 1.0 + len(call.messages[-1].content) % 7)):
        reader = model(reading, slots=slots, latency=latency)
        answer = solve("raptor", reader, DOCUMENT, QUESTION, config=LEAVES)
        made.append((answer.text, answer.citations, sorted(call.messages[-1].content for call in reader.calls)))
    assert made[0] == made[1]


def test_a_short_document_has_no_tree():
    reader = model(reading)
    answer = solve("raptor", reader, f"{PLACE} It rained.", QUESTION)
    assert [call.role for call in reader.calls] == ["direct"] and answer.text == "Ann Berg"
    assert answer.coverage.read_tokens == answer.coverage.tokens


@pytest.mark.parametrize("said", ["", Transient("no")])
def test_where_a_summary_cannot_be_had_its_leaves_can_still_be_found(said):
    def say(call):
        return said if call.role != "direct" and "Nordhavn" in call.messages[-1].content else reading(call)

    reader = model(say)
    answer = solve("raptor", reader, DOCUMENT, QUESTION, config=LEAVES, retries=0)
    assert answer.text == "Ann Berg" and PLACE in [citation.quote for citation in answer.citations]
    failed = union(window.span for window in answer.coverage.failed_windows)
    assert bool(failed) == isinstance(said, Transient)


def test_clusters_longer_than_a_call_reads_are_parted():
    reader = model(reading, context=700)
    answer = solve("raptor", reader, DOCUMENT, QUESTION, config={**LEAVES, "summary_tokens": 100, "answer_tokens": 100})
    assert answer.coverage.read_tokens == answer.coverage.tokens and not answer.coverage.failed_windows
    assert all(len(call.messages[-1].content.split()) <= 600 for call in reader.calls)


@settings(max_examples=10, deadline=None)
@given(st.integers(1, 20_000), st.booleans())
def test_a_budget_is_never_exceeded_and_what_there_is_of_the_tree_is_used(budget, exact):
    reader = ScriptedModel(reading, exact=exact)
    config = {**LEAVES, "summary_tokens": 40, "answer_tokens": 40}
    try:
        answer = solve("raptor", reader, DOCUMENT, QUESTION, config=config, budget=budget)
    except ConvMemError as error:
        assert "too small" in str(error)
        return
    used = answer.usage.total
    assert used.prompt_tokens + used.completion_tokens <= budget
    assert reader.calls[-1].role == "direct" and answer.text == "Ann Berg"


@pytest.mark.parametrize("text", ["word " * 3_000, "a", "。" * 500, "Ann kept it. " * 300])
def test_any_text_ends_in_an_answer(text):
    answer = solve("raptor", model(reading), text, QUESTION, config=LEAVES)
    assert answer.text == "Ann Berg"


def test_a_plan_is_near_what_a_run_costs():
    reader = model(lambda call: reading(call) if call.role == "direct" else " ".join(["word"] * 20))
    config = {**LEAVES, "summary_tokens": 20}
    answer = solve("raptor", reader, DOCUMENT, QUESTION, config=config)
    plan = Raptor(Config.preset("lean", **config)).plan(Document.from_text(DOCUMENT), Facts(Words()), QUESTION)
    assert plan.windows == answer.coverage.windows
    assert len(reader.calls) == pytest.approx(plan.calls, rel=0.25)
    sent = sum(len(message.content.split()) for call in reader.calls for message in call.messages)
    assert sent == pytest.approx(plan.prompt_tokens, rel=0.3)
