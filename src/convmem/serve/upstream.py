"""The models that the server puts its name before, and each of them as one tenant's runs see it.

Knows endpoints and turns; knows nothing of what is asked.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp

from convmem.core import Call, Completion, Model, ModelError, Tokenizer, Usage
from convmem.document import JsonTokenizer
from convmem.methods.convmem import Config
from convmem.model import connect, endpoints
from convmem.model.discover import names
from convmem.model.pool import Relays
from convmem.serve.accounts import Account
from convmem.serve.errors import Refusal
from convmem.serve.metrics import Metrics
from convmem.serve.telemetry import model_call
from convmem.serve.turns import Turns
from convmem.settings import Settings

_FRESH_SECONDS = 30.0


class Upstream:
    """One model, and the turns that tenants take at it. ``slots``: calls at once, None for as many as it serves."""

    def __init__(self, name: str, model: Model, slots: int | None) -> None:
        self.name, self.model = name, model
        self._slots = slots
        self._seen_logprobs: bool | None = None
        self._turns: Turns | None = None

    async def prepare(self) -> Turns:
        """Connect, and the turns to take. Raises Fatal where the model can't be had."""
        if self._turns is None:
            await self.model.prepare()
            self._turns = self._turns or Turns(self._slots or self.model.slots)
        return self._turns

    @property
    def logprobs(self) -> bool | None:
        """Whether replies carry log-probabilities: as the model says, else as its replies so far; None: not known."""
        return self._seen_logprobs if self.model.logprobs is None else self.model.logprobs

    def answered(self, call: Call, completion: Completion) -> None:
        """Learn from a reply, so that one tenant's run needs no call for what another's has shown."""
        if call.sampling.top_logprobs:
            self._seen_logprobs = bool(completion.logprobs)


class Upstreams:
    """Every model of the server, by the name that clients use. ``specs`` are what ``--model`` takes."""

    def __init__(self, specs: Sequence[str], settings: Settings, metrics: Metrics) -> None:
        self._specs, self._settings, self._metrics = specs, settings, metrics
        self._known: dict[str, Upstream] = {}
        self._by_spec: dict[str, Upstream] = {}
        self._asked = -_FRESH_SECONDS
        self._asking = asyncio.Lock()
        self.problem = ""
        """Why a server of models could not be asked for their names, the last time."""

    async def names(self) -> list[str]:
        """The models' names; servers are asked again after half a minute."""
        async with self._asking:
            if time.monotonic() - self._asked >= _FRESH_SECONDS:
                self.problem = ""
                for spec in self._specs:
                    await self._list(spec)
                self._asked = time.monotonic()
        return list(self._known)

    async def find(self, name: str) -> tuple[Upstream, str | None]:
        """The model of that name, and the preset where the name ends in one. Raises Refusal (404, or 503)."""
        bare, _, preset = name.rpartition(":")
        if name not in self._known and bare not in self._known:
            await self.names()
        if upstream := self._known.get(name):
            return upstream, None
        if preset in Config.presets and (upstream := self._known.get(bare)):
            return upstream, preset
        if not self._known:
            raise Refusal(503, self.problem or "No model is there.", kind="upstream_error", code="upstream_error")
        said = f"There is no model '{name}': /v1/models lists those there are."
        raise Refusal(404, said, param="model", code="model_not_found")

    def seen_by(self, account: Account, upstream: Upstream) -> dict[str, Model]:
        """The models of a run, by role."""
        models: dict[str, Model] = {"": Metered(upstream, account, self._metrics)}
        for role, spec in self._settings.general.models.items():
            models[role] = Metered(self._connected(spec, spec), account, self._metrics)
        return models

    async def close(self) -> None:
        """Close every connection."""
        for upstream in self._by_spec.values():
            await upstream.model.close()

    async def _list(self, spec: str) -> None:
        """Know the models that ``spec`` stands for; those of a server that can't be reached now stay known."""
        if "://" not in spec:
            self._know(Path(spec).stem if spec.lower().endswith(".gguf") else spec, spec)
            return
        members = [each.partition("#") for each in endpoints(spec)]
        if name := members[0][2]:
            self._know(name, spec)
            return
        try:
            listed = await names(members[0][0])
        except ModelError as error:
            self.problem = str(error)
            return
        for each in listed:
            self._know(each, ",".join(f"{url}#{each}" for url, _, _ in members))

    def _know(self, name: str, spec: str) -> None:
        if name not in self._known:  # the first server that has it
            self._known[name] = self._connected(name, spec)

    def _connected(self, name: str, spec: str) -> Upstream:
        if spec not in self._by_spec:
            general, run = self._settings.general, self._settings.run
            tokenizer = JsonTokenizer(general.tokenizer) if general.tokenizer else None
            model = connect(spec, context=run.context, timeout=general.timeout, tokenizer=tokenizer)
            self._by_spec[spec] = Upstream(name, model, run.concurrency)
        return self._by_spec[spec]


class Metered:
    """A model as one tenant's runs see it: its calls wait for the tenant's turn, and are counted."""

    def __init__(self, upstream: Upstream, account: Account, metrics: Metrics) -> None:
        self._upstream, self._model = upstream, upstream.model
        self._account, self._metrics = account, metrics

    @property
    def identity(self) -> str:
        return self._model.identity

    @property
    def context(self) -> int | None:
        return self._model.context

    @property
    def slots(self) -> int:
        return self._model.slots

    @property
    def logprobs(self) -> bool | None:
        return self._upstream.logprobs

    @property
    def tokens_per_second(self) -> tuple[float, float] | None:
        return self._model.tokens_per_second

    @property
    def tokenizer(self) -> Tokenizer | None:
        return self._model.tokenizer

    async def prepare(self) -> None:
        await self._upstream.prepare()

    async def complete(self, call: Call) -> Completion:
        """As the model does. Raises QuotaExhausted too, where the tenant has no token left."""
        turns = await self._upstream.prepare()
        async with turns.turn(self._account.tenant.name):
            self._account.check()
            with self._metrics.call(call.role), model_call(call, self._upstream.name) as answered:
                completion = await self._model.complete(call)
                answered(completion)
        self._upstream.answered(call, completion)
        self.used(completion.usage or Usage())
        return completion

    @asynccontextmanager
    async def relay(self, request: Mapping[str, Any]) -> AsyncIterator[aiohttp.ClientResponse]:
        """Send a chat request as it is, in the tenant's turn. Raises Refusal (400) where the model takes none."""
        if not isinstance(self._model, Relays):
            raise Refusal(400, f"The model '{self._upstream.name}' only answers questions about documents: send one.")
        turns = await self._upstream.prepare()
        async with turns.turn(self._account.tenant.name):
            self._account.check()
            with self._metrics.call("chat"):
                async with self._model.relay(request) as response:
                    yield response

    def used(self, usage: Usage) -> None:
        """Count what a call used."""
        self._account.spend(usage)
        self._metrics.used(usage)

    async def close(self) -> None:
        """The model stays open for others."""
