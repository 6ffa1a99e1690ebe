"""Against a real server that fails 30% of its calls, each at most three times: nothing of that shows in the results."""

import asyncio
from contextlib import closing

import pytest

from convmem.core import Call, Message, Sampling
from convmem.document import Document
from convmem.methods.convmem import Config, ConvMem
from convmem.model import Cache, connect
from convmem.run import RunSettings
from tests.support.reading import ANSWERS, QUESTION, TEXT, fenced, served
from tests.support.server import KINDS, Faults, ScriptedServer

MALFORMED = ("broken_json", "half", "wrong_schema")
CONFIGS = {
    "fused": ({"kernel": "fused", "window": 200}, [kind for kind in KINDS if kind != "stall"]),
    "split": ({"window": 200}, [kind for kind in KINDS if kind not in ("stall", *MALFORMED)]),
}
"""A summary may be any text, so that a garbled one can't be told; a stall takes real time (tests of the model)."""


@pytest.fixture(autouse=True)
def _no_waits(monkeypatch):
    monkeypatch.setattr("convmem.run.retry._FIRST_WAIT", 0.0)


def run(config, faults=None):
    """(answer, what each call was answered)"""

    async def main():
        with ScriptedServer(served, faults=faults, slots=8) as server, closing(Cache.temporary()) as cache:
            model = connect(server.url, context=8_000)
            try:
                made = await ConvMem(Config.preset("paper", **config)).answer(
                    Document.from_text(TEXT), QUESTION, model=model, cache=cache, settings=RunSettings(concurrency=8)
                )
            finally:
                await model.close()
            said = {
                (node.role, node.layer, node.channel, node.window): node.key and cache.get(node.key).text
                for node in made.trace
            }
            return made, said

    return asyncio.run(main())


@pytest.mark.parametrize("name", CONFIGS)
@pytest.mark.parametrize("seed", [1, 2])
def test_answer_citations_and_values_are_those_of_a_clean_run(name, seed):
    config, kinds = CONFIGS[name]
    clean, clean_said = run(config)
    made, said = run(config, Faults(seed, kinds=kinds))
    assert all(answer in made.text for answer in ANSWERS)
    assert (made.text, made.citations, made.sub_questions) == (clean.text, clean.citations, clean.sub_questions)
    assert said == clean_said and None not in said.values()
    assert made.coverage == clean.coverage and not made.coverage.failed_windows


def test_calls_that_never_succeed_and_only_those_are_named():
    config, _ = CONFIGS["fused"]

    def never(body):
        messages = tuple(Message(m["role"], m["content"]) for m in body["messages"])
        text = fenced(Call("", messages, Sampling(1)))
        return "Isledk" in text and "readings" in messages[-1].content

    made, _ = run(config, Faults(3, kinds=["error", "drop"], always=never))
    failed = {window.span for window in made.coverage.failed_windows}
    read = {node.window for node in made.trace if node.layer == 0 and node.window and node.status == "ok"}
    assert failed and all("Isledk" in TEXT[span.start : span.end] for span in failed)
    assert not any("Isledk" in TEXT[span.start : span.end] for span in read)
    assert failed | read == {node.window for node in made.trace if node.window}
    assert all(answer in made.text for answer in ANSWERS)
