import asyncio
import threading

import pytest

from convmem.core import checkpoint, in_thread
from convmem.document import Document, EstimateTokenizer

PATIENCE = 30.0


def test_work_in_a_thread_gives_its_result_or_its_error():
    def fails():
        checkpoint()
        raise ValueError("no")

    assert asyncio.run(in_thread(lambda a, *, b: (checkpoint(), a + b)[1], 1, b=2)) == 3
    with pytest.raises(ValueError, match="no"):
        asyncio.run(in_thread(fails))


def test_work_that_nobody_waits_for_ends_at_its_next_checkpoint():
    started, ended = threading.Event(), threading.Event()

    def work():
        started.set()
        try:
            while True:
                checkpoint()
        finally:
            ended.set()

    async def main():
        task = asyncio.create_task(in_thread(work))
        await asyncio.to_thread(started.wait, PATIENCE)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await asyncio.to_thread(ended.wait, PATIENCE)
        checkpoint()  # which is for threads alone

    asyncio.run(main())


def test_counting_a_long_document_can_be_cancelled():
    class Slow(EstimateTokenizer):
        def offsets(self, text):
            started.set()
            asked.wait(PATIENCE)
            return super().offsets(text)

    started, asked = threading.Event(), threading.Event()
    document = Document.from_text("word " * 10)

    async def main():
        task = asyncio.create_task(in_thread(document.token_offsets, Slow()))
        await asyncio.to_thread(started.wait, PATIENCE)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        asked.set()

    asyncio.run(main())
    assert not document._offsets
