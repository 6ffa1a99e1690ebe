"""How ConvMem slides over a document (METHODS section 1, step 2; section 2, ``overlap``), and what it reads first."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, sqrt

from convmem.core import Tokenizer
from convmem.document import Document, Window, Windows, boundary_windows, stride_windows
from convmem.memory.ranking import Ranking
from convmem.methods.convmem.config import Settled
from convmem.methods.convmem.ranked import POINTED
from convmem.run import Run


def slide(document: Document, tokenizer: Tokenizer, config: Settled) -> Windows:
    """The windows of layer 0."""
    if config.overlap == "boundary":
        return boundary_windows(document, tokenizer, config.window)
    return stride_windows(document, tokenizer, config.window, config.stride)


async def rank(windows: Windows, config: Settled, run: Run) -> Ranking | None:
    """What ranks the windows for a question; None where they are read in their order."""
    if config.rank == "order":
        return None
    texts = (run.document.text(window.span) for window in windows)
    return await Ranking.of(texts, run.embedder if config.rank == "hybrid" else None)


class Order:
    """In which order windows are read. They are ranked where that decides something: not where all are read at once."""

    def __init__(self, windows: Windows, config: Settled, run: Run) -> None:
        self._windows, self._config, self._run = windows, config, run
        self._ranking: Ranking | None = None

    async def of(self, queries: Sequence[str], *, pointed: bool) -> Sequence[Window]:
        """The windows to read for ``queries``, in their order; where these are ``pointed``, what they point to."""
        if pointed or self._some_wait:
            self._ranking = self._ranking or await rank(self._windows, self._config, self._run)
        if not self._ranking:
            return self._windows
        ranked = await self._ranking.ranked(queries)
        if pointed:
            ranked = ranked[: ceil(POINTED * sqrt(len(ranked)))]
        return [self._windows[index] for index in ranked]

    @property
    def _some_wait(self) -> bool:
        """Whether some windows are read later than others, or perhaps never."""
        settings = self._run.settings
        limited = self._config.early_exit or settings.limited
        return limited or len(self._windows) > (settings.concurrency or self._run.model("").slots)
