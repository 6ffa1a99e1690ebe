"""How fast a model is, found out by a few short calls on the document itself."""

from __future__ import annotations

from convmem.core import Model, in_thread
from convmem.document import Document, EstimateTokenizer, boundary_windows
from convmem.memory.decomposition import SubQuestion
from convmem.memory.kernel import on_window
from convmem.model import Cache
from convmem.run import Run, RunSettings
from convmem.trace import Trace

WINDOW = 300
REPLIES = (1, 48, 1, 48, 1)
"""The longest reply of each call: short ones tell how fast prompts are read, long ones how fast replies are written."""


async def probe_speed(document: Document, model: Model, settings: RunSettings, cache: Cache) -> None:
    """Read the beginning of ``document`` by a prepared ``model``; ``cache`` keeps what its times tell.

    Raises CallFailed or Fatal where a call fails.
    """
    tokenizer = model.tokenizer or EstimateTokenizer()
    await in_thread(document.token_offsets, tokenizer)
    windows = await in_thread(boundary_windows, document, tokenizer, WINDOW)
    run = Run(document, {"": model}, tokenizer=tokenizer, trace=Trace(""), cache=cache, settings=settings)
    try:
        for number, reply_tokens in enumerate(REPLIES):
            asked = SubQuestion("", "What is this about?", sample=number)
            window = windows[number % len(windows)]
            await run.call(on_window("summarize", window, [asked], parse=str, max_tokens=reply_tokens))
    finally:
        run.close()
