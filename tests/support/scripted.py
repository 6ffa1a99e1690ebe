"""A model that does what a test tells it to, in simulated or real time, and a run around it.

Four characters are one token, as for the scripted server.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from convmem.core import Call, Completion, Model, ModelError, Piece, Span, Usage
from convmem.document import Document
from convmem.model.cache import Cache
from convmem.prompts import Template
from convmem.run import Ask, Run, RunSettings
from convmem.trace import Trace

TEXT = "".join(f"{n:04} " for n in range(2_000))
FIRST = Span(0, 400)
TEMPLATE = Template("kernel", 1, "You read.", "{{<window>}}\n{{question}}")


class FourCharacters:
    """A tokenizer whose tokens are four characters long; ``exact`` is what it claims."""

    remote = False

    def __init__(self, *, exact: bool = True) -> None:
        self.exact = exact
        self.identity = f"four-characters-{exact}"

    def count(self, text: str) -> int:
        return -(-len(text) // 4)

    def offsets(self, text: str) -> NDArray[np.uint32]:
        return np.arange(0, len(text), 4, dtype=np.uint32)


def prompt_tokens(call: Call) -> int:
    return sum(-(-len(message.content) // 4) for message in call.messages)


class ScriptedModel:
    """Replies as ``reply`` says, which may return a text, a whole completion, or an error to raise.

    ``latency`` in seconds of the event loop, for each call. ``calls`` are those received, in order; ``pending`` is how
    many are being answered, ``peak`` the most that were at once.
    """

    identity = "scripted"
    logprobs: bool | None = True
    tokens_per_second: tuple[float, float] | None = None

    def __init__(
        self,
        reply: Callable[[Call], str | Completion | ModelError] = lambda call: f"read {prompt_tokens(call)}",
        *,
        latency: Callable[[Call], float] | float = 1.0,
        context: int | None = 1_000_000,
        slots: int = 4,
        exact: bool = True,
    ) -> None:
        self.context, self.slots = context, slots
        self.tokenizer = FourCharacters(exact=exact)
        self.calls: list[Call] = []
        self.pending = 0
        self.peak = 0
        self._reply, self._latency = reply, latency

    async def prepare(self) -> None:
        pass

    async def close(self) -> None:
        pass

    async def complete(self, call: Call) -> Completion:
        self.calls.append(call)
        self.pending += 1
        self.peak = max(self.peak, self.pending)
        try:
            await asyncio.sleep(self._latency(call) if callable(self._latency) else self._latency)
            said = self._reply(call)
        finally:
            self.pending -= 1
        if isinstance(said, ModelError):
            raise said
        return said if isinstance(said, Completion) else completion(call, said)


def completion(call: Call, text: str, *, read: int | None = None, **more: Any) -> Completion:
    """A reply with the usage that an honest server reports; ``read`` prompt tokens where it is not honest."""
    usage = Usage(prompt_tokens(call) if read is None else read, 0, -(-len(text) // 4))
    return Completion(text, **{"usage": usage, **more})


def make_run(
    model: Model | Mapping[str, Model], document: Document | str = TEXT, *, cache: Cache | None = None, **settings: Any
) -> Run:
    """A run over ``document``; call it inside the event loop."""
    models = model if isinstance(model, Mapping) else {"": model}
    return Run(
        Document.from_text(document) if isinstance(document, str) else document,
        models,
        tokenizer=models[""].tokenizer or FourCharacters(exact=False),
        trace=Trace("Who?"),
        cache=cache or Cache.temporary(),
        settings=RunSettings(**settings),
    )


def ask(window: Piece = FIRST, question: str = "Who?", **more: Any) -> Ask[str]:
    """A question on a window."""
    given: dict[str, Any] = {"parse": str, "max_tokens": 20, **more}
    return Ask(template=TEMPLATE, variables={"window": (window,), "question": question}, **given)
