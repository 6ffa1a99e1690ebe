"""An NLI cross-encoder as verifier: small, fast, and made for telling entailed from merely related.

Knows pairs and where their judgements are kept; the model computes in a thread, beside the event loop.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Sequence
from pathlib import Path

from convmem.core import Call, Completion, InputError, Message, Sampling, in_thread
from convmem.model import expand
from convmem.run import Run
from convmem.verify.cross_encoder import CrossEncoder
from convmem.verify.hub import fetch
from convmem.verify.verifier import Judgement, Pair, premises

ROLE = "verify"


class Nli:
    """The verifier that ``source`` names: a folder, or ``owner/name`` on the Hugging Face hub."""

    default_threshold = 0.9
    reserve = 0

    def __init__(self, source: str) -> None:
        self._source = source
        self._model: CrossEncoder | None = None
        self._loading = threading.Lock()

    async def prepare(self) -> None:
        if self._model is None:
            folder = expand(self._source)
            if not folder.is_dir():
                if self._source.count("/") != 1 or self._source.startswith((".", "~", "/")):
                    raise InputError(f"There is no folder '{self._source}' with an NLI model.")
                folder = await fetch(self._source)
            await in_thread(self._load, folder)

    def identity(self, run: Run) -> str:
        return self._loaded.identity

    async def judge(
        self, pairs: Sequence[Pair], run: Run, *, answering: bool = False, parents: tuple[int, ...] = ()
    ) -> list[Judgement]:
        await self.prepare()
        texts = [("\n".join(premises(pair, run)), pair.hypothesis) for pair in pairs]
        keys = [self._key(text, run) for text in texts]
        known = {key: _read(stored.text) for key in dict.fromkeys(keys) if (stored := run.cache.get(key))}
        missing = {key: text for key, text in zip(keys, texts, strict=True) if key not in known}
        for key, judgement in zip(missing, await in_thread(self._judge, list(missing.values())), strict=True):
            run.cache.put(key, Completion(json.dumps(judgement)))
            known[key] = judgement
        return [known[key] for key in keys]

    @property
    def _loaded(self) -> CrossEncoder:
        assert self._model, "prepare comes first"
        return self._model

    def _load(self, folder: Path) -> None:
        with self._loading:
            self._model = self._model or CrossEncoder(folder)

    def _judge(self, texts: Sequence[tuple[str, str]]) -> list[Judgement]:
        return self._loaded.judge(texts)

    def _key(self, text: tuple[str, str], run: Run) -> str:
        messages = tuple(Message("user", part) for part in text)
        return run.cache.key(run.settings.namespace, self._loaded.identity, Call(ROLE, messages, Sampling(1)))


def _read(stored: str) -> Judgement:
    return Judgement(*json.loads(stored))
