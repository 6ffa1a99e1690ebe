"""Ways to read a document, compared: each with the estimate that a run of it would have, one of them recommended."""

from dataclasses import replace

import pytest

from convmem.document import Document
from convmem.methods import Facts
from convmem.methods.convmem import Config, ConvMem
from convmem.methods.convmem.alternatives import alternatives
from convmem.methods.convmem.probe import probe_speed
from convmem.model import Cache, SimulatedReader
from convmem.model.simulated import Behaviour
from convmem.run import RunSettings, simulate
from tests.support.reading import Words

FACTS = Facts(Words(), context=32_000, logprobs=True)


def words(count):
    return Document.from_text(" ".join(f"w{n}" for n in range(count)))


def compared(count, **facts):
    ways, reason = alternatives(words(count), replace(FACTS, **facts), "Who was it?")
    [chosen] = [way.name for way in ways if way.recommended]
    return {way.name: way for way in ways}, chosen, reason


def test_each_way_has_the_estimate_of_a_run_of_it():
    ways, chosen, reason = compared(150_000)
    assert list(ways) == ["lean", "paper", "budget 5%", "index", "from the index"]
    for preset in ("lean", "paper"):
        plan = ConvMem(Config.preset(preset)).plan(words(150_000), FACTS, "Who was it?")
        assert (ways[preset].calls, ways[preset].prompt_tokens) == (plan.calls, plan.prompt_tokens)
    assert ways["budget 5%"].options == "--budget 7500"
    limited = ConvMem(Config.preset("lean")).plan(
        words(150_000), replace(FACTS, limits=RunSettings(budget=7_500)), "Who was it?"
    )
    assert ways["budget 5%"].prompt_tokens == limited.prompt_tokens < 7_500
    assert ways["from the index"].prompt_tokens < ways["lean"].prompt_tokens / 20
    assert chosen == "lean" and "index costs less" in reason


def test_what_takes_long_is_read_by_rank():
    slow = {"tokens_per_second": (35.0, 10.0)}
    assert compared(150_000, **slow)[1] == "budget 5%"
    assert compared(150_000, tokens_per_second=(35_000.0, 1_000.0))[1] == "lean"
    assert compared(10_000, **slow)[1] == "lean"  # no budget of 5% has room there


def test_a_short_document_is_read_in_one_call():
    ways, chosen, reason = compared(1_000)
    assert (chosen, ways["lean"].calls) == ("lean", 1) and "one call" in reason


@pytest.mark.parametrize("count", [3, 10_000])
def test_a_probe_finds_the_speed_and_is_paid_for_once(count):
    model, cache = SimulatedReader(Behaviour(prefill=500, decode=20, noise=1)), Cache.temporary()
    for _ in range(2):
        simulate(probe_speed(words(count), model, RunSettings(), cache))
    seen = cache.experience(model.identity)
    assert sum(calls for calls, _ in seen.roles.values()) == 5
    assert seen.speed == pytest.approx((500, 20), rel=0.01)
