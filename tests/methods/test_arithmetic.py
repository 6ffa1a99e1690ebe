"""The paper's arithmetic: windows, calls and tokens, as planned and as made."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from convmem.document import Document
from convmem.methods import Facts
from convmem.methods.convmem import Config, ConvMem
from tests.support.reading import Words, answer, by_role
from tests.support.scripted import ScriptedModel

THREE = {"sub_questions": ["Who?", "Where?", "When?"], "keywords": []}


def words(count):
    return Document.from_text(" ".join(f"w{n}" for n in range(count)))


def planned(document, **settings):
    return ConvMem(Config.preset("paper", **settings)).plan(document, Facts(Words()), "Who was it?")


def in_words(calls):
    return sum(Words().count(message.content) for call in calls for message in call.messages)


def test_the_papers_longest_context():
    plan = planned(words(896_000))
    assert (plan.tokens, plan.windows, plan.channels, plan.layers[0].calls) == (896_000, 556, 3, 3_336)
    assert plan.layers[0].prompt_tokens == pytest.approx(27_000_000, rel=0.01)


@settings(max_examples=15, deadline=None)
@given(st.integers(1, 2_500), st.integers(50, 400), st.sampled_from([1, 3, 5, 10]))
def test_layer_0_costs_what_was_planned(tokens, window, over_scanning):
    document, config = words(tokens), {"window": window, "stride": max(1, window // over_scanning)}
    model = ScriptedModel(by_role(decompose=THREE))
    model.tokenizer = Words()
    made = answer(model, document, "Who was it?", config=config)
    layer0 = [call for call in model.calls if call.role in ("relevance", "summarize")]
    plan = planned(document, **config)
    assert made.coverage.windows == plan.windows == -(-max(tokens - window, 0) // config["stride"]) + 1
    assert len(layer0) == plan.layers[0].calls == plan.windows * 3 * 2
    assert plan.layers[0].prompt_tokens == pytest.approx(in_words(layer0), rel=0.05)
    assert made.coverage.read_tokens == made.coverage.tokens == tokens


@pytest.mark.parametrize(("h", "layers"), [(20, 1), (40, 2)])
def test_notes_shrink_by_h_over_s_at_each_layer(h, layers):
    """N₁ ≈ N₀ · h/S, where every window gives h tokens, and layers follow while that exceeds W."""
    note = " ".join(["fact"] * (h - 1))
    model = ScriptedModel(
        by_role(decompose=THREE, relevance={"relevance": 1}, summarize=f"- {note}", merge=f"- {note}")
    )
    model.tokenizer = Words()
    made = answer(model, words(10_000), config={"window": 500})
    assert 1 + max(node.layer for node in made.trace) == layers + 1
    merged = [node for node in made.trace if node.role == "merge" and node.layer == 1 and node.channel == "1"]
    windows = made.coverage.windows
    assert len(merged) == pytest.approx(-(-(windows * h - 500) // 100) + 1, abs=1)


def test_depth_is_decompose_kernel_layers_sub_answer_answer():
    ann = {"passages": [1], "findings": [1], "answer": "Ann"}
    joint = {"readings": [{"question": 1, "relevance": 1, "notes": ["one fact here"]}]}
    notes = {"relevance": {"relevance": 1}, "summarize": "- one fact here", "kernel_notes": joint, "merge": "- x"}
    model = ScriptedModel(by_role(decompose=THREE, sub_answer=ann, answer=ann, **notes))
    model.tokenizer = Words()
    for config, extra in (({}, 0), ({"filter": True}, 1), ({"kernel": "fused"}, 0), ({"decompose": "off"}, -1)):
        made = answer(model, words(10_000), config={"window": 200, **config})
        layers = 1 + max(node.layer for node in made.trace)
        assert layers > 1
        assert made.usage.depth == 1 + layers + 1 + 1 + extra, config


def test_a_document_of_one_window_has_one_layer():
    plan = planned(words(8_000))
    assert (plan.windows, len(plan.layers), plan.depth) == (1, 1, 4)
    assert planned(words(8_001)).windows == 2
