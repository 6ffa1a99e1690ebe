"""A model inside this process: a llama.cpp server on this machine alone, spoken to as any other endpoint."""

from __future__ import annotations

import asyncio
import contextlib
import json
import secrets
import threading
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp

from convmem.core import Call, Completion, Fatal, InputError, Tokenizer, extra
from convmem.model import download
from convmem.model.download import Progress
from convmem.model.endpoint import Endpoint
from convmem.model.places import cache_directory

DEFAULT_CONTEXT = 16_384
"""Tokens that prompt and reply have together: room for the windows of preset `paper`, at half a gigabyte of memory."""
TOKENS_PER_SECOND = (35.0, 10.0)
"""Prompt and reply on two CPU cores: the least that a laptop has."""

_SILENT = -1
_STEP = 256
"""Tokens read between two looks at whether the call still matters: an interruption waits for one step, some seconds."""
_PROMPT_CACHE_MIB = 1024
_LONGEST_CALL = 3600.0


class Embedded:
    """The GGUF model at ``path``; None: the default one, downloaded if need be, which ``progress`` hears of.

    ``context`` in tokens, for prompt and reply. It is loaded by ``prepare`` and freed by ``close``.
    """

    slots = 1
    logprobs = True
    tokens_per_second = TOKENS_PER_SECOND

    def __init__(
        self,
        path: Path | None = None,
        *,
        context: int = DEFAULT_CONTEXT,
        progress: Progress = lambda _done, _total: None,
    ) -> None:
        self._path, self._wanted_context, self._progress = path, context, progress
        self._identity = path.name if path else "local"
        self._server: Any = None
        self._endpoint: Endpoint | None = None
        self._loading = threading.Lock()
        self._abandoned = False

    @property
    def identity(self) -> str:
        return self._identity

    @property
    def context(self) -> int | None:
        return (self._endpoint and self._endpoint.context) or self._wanted_context

    @property
    def tokenizer(self) -> Tokenizer | None:
        return self._endpoint.tokenizer if self._endpoint else None

    def identify(self) -> None:
        """Settle the identity where the file is here already, without loading it: reads it once."""
        if path := self._path or download.find():
            self._identity = f"sha256:{_hash(path)}"

    async def prepare(self) -> None:
        """Download the file if need be, load it, and start to listen. Raises Fatal."""
        try:
            endpoint = await asyncio.to_thread(self._load)
        except asyncio.CancelledError:
            self._abandoned = True  # ends a download after the part that it is at
            raise
        await endpoint.prepare()

    async def complete(self, call: Call) -> Completion:
        """Answer ``call``."""
        return await (await self._loaded()).complete(call)

    @asynccontextmanager
    async def relay(self, request: Mapping[str, Any]) -> AsyncIterator[aiohttp.ClientResponse]:
        """Send a chat request as it is; the answer is read in the block. Raises Fatal, TimedOut or Transient."""
        async with (await self._loaded()).relay(request) as response:
            yield response

    async def close(self) -> None:
        """Stop the server and free its memory."""
        if self._endpoint:
            await self._endpoint.close()
        await asyncio.to_thread(self._unload)

    async def _loaded(self) -> Endpoint:
        if self._endpoint is None:
            await self.prepare()
        assert self._endpoint
        return self._endpoint

    def _load(self) -> Endpoint:
        with self._loading:
            if self._endpoint is None:
                self._abandoned = False
                runtime()  # before a download that would be for nothing
                path = self._path or download.find() or download.fetch(self._report)
                key = secrets.token_urlsafe(32)
                self._server = _serve(path, self._wanted_context, key)
                self._identity = f"sha256:{_hash(path)}"
                self._endpoint = Endpoint(
                    self._server.listening_address + "/v1", key=key, slots=self.slots, timeout=_LONGEST_CALL
                )
            return self._endpoint

    def _unload(self) -> None:
        with self._loading:
            self._server = self._endpoint = None

    def _report(self, done: int, total: int) -> None:
        if self._abandoned:
            raise Fatal("The download was cancelled; it goes on where it stopped when it is asked for again.")
        self._progress(done, total)


def runtime() -> Any:
    """The package that runs a model in this process. Raises Fatal where it is not installed."""
    try:
        import xllamacpp
    except ImportError as error:
        raise Fatal(
            f"The embedded model needs xllamacpp: {extra('local')}, or name an endpoint with --model."
        ) from error
    return xllamacpp


def _serve(path: Path, context: int, key: str) -> Any:
    """A running llama.cpp server that stops when the last reference to it goes."""
    xllamacpp = runtime()
    params = xllamacpp.CommonParams()
    params.model.path = str(path)
    params.n_ctx = context
    params.n_parallel = 1
    params.n_batch = params.n_ubatch = _STEP
    params.cache_ram_mib = _PROMPT_CACHE_MIB
    params.hostnames = ["127.0.0.1"]
    params.port = 0
    params.api_keys = [key]  # other users of this machine can reach the port
    params.endpoint_slots = params.ui = params.warmup = False
    params.verbosity = _SILENT
    try:
        return xllamacpp.Server(params)
    except RuntimeError as error:
        raise Fatal(f"{path} can't be loaded as a GGUF model, or there is not enough memory for it.") from error


def _hash(path: Path) -> str:
    """The first 16 digits of the file's SHA-256, remembered while its size and time of change stay the same."""
    try:
        notes = cache_directory() / "hashes.json"
    except InputError:
        return download.sha256(path)[:16]
    stat = path.stat()
    key = f"{path.resolve()}:{stat.st_size}:{stat.st_mtime_ns}"
    known: dict[str, str] = {}
    with contextlib.suppress(OSError, ValueError, TypeError):
        known = dict(json.loads(notes.read_text()))
    if key not in known:
        known[key] = download.sha256(path)[:16]
        with contextlib.suppress(OSError):
            notes.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            unfinished = notes.with_name(f"hashes.{secrets.token_hex(4)}.json")
            unfinished.write_text(json.dumps(known))
            unfinished.replace(notes)
    return known[key]
