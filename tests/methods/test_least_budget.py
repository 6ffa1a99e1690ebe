"""A budget that is too small says how much would do, and that much does."""

import re

import pytest

from convmem.core import ConvMemError
from tests.support.reading import QUESTION, TEXT, Words, answer, reader
from tests.support.scripted import ScriptedModel

WAYS = {
    "lean": ("lean", {"one_call_tokens": 0}),
    "lean without log-probabilities": ("lean", {"one_call_tokens": 0, "kernel": "joint", "window": 100}),
    "paper": ("paper", {"window": 100}),
}


def asked(budget, way):
    preset, config = WAYS[way]
    model = ScriptedModel(reader)
    model.tokenizer = Words()
    return answer(model, TEXT, QUESTION, preset=preset, config=config, budget=budget)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("budget", [1, 900])
def test_what_would_do_does(way, budget):
    with pytest.raises(ConvMemError, match="would do") as refused:
        asked(budget, way)
    enough = int(re.findall(r"([\d,]+) would do", str(refused.value))[0].replace(",", ""))
    made = asked(enough, way)
    assert made.usage.total.prompt_tokens + made.usage.total.completion_tokens <= enough
    assert made.coverage.read_tokens > 0
