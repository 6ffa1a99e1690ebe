"""How one question of many is answered: its document read, a run made, and whatever comes of it put into a row."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from convmem.api import answer_json, connected
from convmem.core import ConvMemError, Fatal
from convmem.document import Document
from convmem.engine import Share
from convmem.model import Cache
from convmem.settings import Settings

_DOCUMENTS_KEPT = 8
"""Questions on one document follow one another in most files."""


@dataclass(frozen=True, slots=True)
class Task:
    """A question to ask. ``key`` stands for all that its answer depends on, the documents' contents apart."""

    id: str
    key: str
    question: str
    paths: tuple[str, ...]
    text: str | None
    settings: Settings

    def document(self, read: Callable[[tuple[str, ...]], Document] = Document.from_paths) -> Document:
        """What is asked about, where its paths are ``read``. Raises InputError where they can't be."""
        return read(self.paths) if self.text is None else Document.from_text(self.text)


@dataclass(frozen=True, slots=True)
class Asking:
    """A job that answers tasks, all by the models of ``settings``; a failure is a row, too."""

    settings: Settings

    @asynccontextmanager
    async def opened(self, cache: Cache, share: Share) -> AsyncIterator[Callable[[Task], Awaitable[Mapping[str, Any]]]]:
        """Answers a task with its row. Raises Fatal where the models can't be had."""
        read = lru_cache(_DOCUMENTS_KEPT)(Document.from_paths)
        async with AsyncExitStack() as stack:
            models = connected(self.settings, stack, share)

            async def ask(task: Task) -> Mapping[str, Any]:
                row = {"id": task.id, "key": task.key, "question": task.question}
                try:
                    answer = await task.settings.method.answer(
                        await asyncio.to_thread(task.document, read),
                        task.question,
                        model=models,
                        settings=task.settings.run,
                        cache=cache,
                    )
                except Fatal:
                    raise
                except ConvMemError as error:
                    return {**row, "status": "failed", "error": str(error)}
                except Exception as error:  # noqa: BLE001 - one document may be worse than any that was seen
                    said = f"{type(error).__name__}: {error}".rstrip(".")
                    return {**row, "status": "failed", "error": f"Something went wrong that should not ({said})."}
                return {**row, "status": "answered", "error": "", **answer_json(answer)}

            yield ask
