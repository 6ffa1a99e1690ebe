"""The embedded model: a real llama.cpp over HTTP, through what every model is reached by."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import replace

import pytest

from convmem.core import Call, ContextExceeded, Message, Sampling
from convmem.model import Embedded, find_local
from convmem.model.download import fetch

pytestmark = pytest.mark.live

DOCUMENT = "The harbour of Velm was built in 1821 by Ada Korr. Fishing boats use it to this day. " * 3


@pytest.fixture(scope="module")
def model() -> Iterator[Embedded]:
    embedded = Embedded(find_local() or fetch(), context=1024)
    asyncio.run(embedded.prepare())
    yield embedded
    asyncio.run(embedded.close())


def ask(text: str, **sampling: int) -> Call:
    return Call("answer", (Message("user", text),), Sampling(**{"max_tokens": 20, **sampling}))


def test_says_what_it_is(model: Embedded) -> None:
    assert model.identity.startswith("sha256:")
    assert (model.context, model.slots, model.logprobs) == (1024, 1, True)


def test_answers_with_usage_and_log_probabilities(model: Embedded) -> None:
    reply = asyncio.run(
        model.complete(ask(DOCUMENT + "\nWas the harbour built by Ada Korr? Yes or No.", max_tokens=1, top_logprobs=5))
    )
    assert reply.text == "Yes"
    assert reply.finish == "length"
    assert reply.usage and reply.usage.prompt_tokens > 60 and reply.usage.completion_tokens == 1
    [first] = reply.logprobs
    assert first.token == "Yes" and len(first.top) == 5
    assert dict(first.top)["Yes"] == pytest.approx(first.logprob)


def test_a_shared_prefix_is_read_once_and_a_schema_is_kept(model: Embedded) -> None:
    schema = {"type": "object", "properties": {"builder": {"type": "string"}}, "required": ["builder"]}
    text = DOCUMENT + "\nWho built the harbour? Reply as JSON."
    first = asyncio.run(model.complete(ask(text, max_tokens=1)))
    second = asyncio.run(model.complete(replace(ask(text), schema=schema)))
    assert "Korr" in json.loads(second.text)["builder"]
    assert first.usage and second.usage
    assert second.usage.cached_tokens > 0.8 * second.usage.prompt_tokens


def test_a_prompt_over_the_context_is_refused_with_the_limit(model: Embedded) -> None:
    with pytest.raises(ContextExceeded) as caught:
        asyncio.run(model.complete(ask(DOCUMENT * 30)))
    assert caught.value.limit == 1024


def test_tokens_start_where_they_are_said_to(model: Embedded) -> None:
    text = "The wörld — 你好世界 🙂🙃 e\u0301\n\n\tdef f(x):  return x"
    tokenizer = model.tokenizer
    assert tokenizer and tokenizer.exact
    starts = [int(start) for start in tokenizer.offsets(text)]
    assert starts == sorted(starts) and starts[0] == 0 and starts[-1] < len(text)
    assert len(starts) == tokenizer.count(text)
    long = "harbour of Velm " * 20_000
    assert tokenizer.count(long) == len(tokenizer.offsets(long))


def test_strangers_are_refused(model: Embedded) -> None:
    url = model._endpoint._transport.url  # type: ignore[union-attr]
    with pytest.raises(urllib.error.HTTPError) as caught:
        urllib.request.urlopen(f"{url}/models")
    caught.value.close()
    assert caught.value.code == 401


def test_the_terminal_stays_clean() -> None:
    script = """
import asyncio, sys
from pathlib import Path
from convmem.core import Call, Message, Sampling
from convmem.model import Embedded
async def main():
    model = Embedded(Path(sys.argv[1]), context=512)
    await model.complete(Call("answer", (Message("user", "Hi"),), Sampling(1)))
    await model.close()
asyncio.run(main())
"""
    path = str(find_local() or fetch())
    ended = subprocess.run([sys.executable, "-c", script, path], capture_output=True, env=os.environ, check=True)
    assert (ended.stdout, ended.stderr) == (b"", b"")
