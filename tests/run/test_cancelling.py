"""A call that no longer matters ends at once, everywhere; what it had cost by then stays known."""

import asyncio

import pytest

from convmem.core import CallEnded, Malformed, Span
from convmem.model import Cache, Endpoint
from convmem.run import simulate
from tests.support.scripted import ScriptedModel, ask, make_run, prompt_tokens


def test_its_slot_is_free_and_its_node_is_closed():
    model = ScriptedModel(latency=10, slots=1)

    async def main():
        run = make_run(model)
        ended = []
        run.subscribe(lambda event: ended.append(event) if isinstance(event, CallEnded) else None)
        wanted, other = (asyncio.create_task(run.call(ask(question=str(n)))) for n in range(2))
        await asyncio.sleep(4)
        wanted.cancel()
        await other
        assert run.seconds == 14
        assert [node.status for node in run.trace] == ["cancelled", "ok"]
        assert (run.trace[0].start, run.trace[0].end, run.trace[0].key) == (0, 4, None)
        assert [event.node for event in ended] == [0, 1]
        return run.coverage(1).failed_windows

    assert simulate(main()) == ()


def test_what_it_had_cost_is_counted_and_what_it_had_been_answered_is_stored():
    """A first reply that could not be read, and a second try that was cancelled on its way."""

    def parse(text):
        raise Malformed("never")

    model, cache = ScriptedModel(latency=10), Cache.temporary()

    async def main():
        run = make_run(model, cache=cache, budget=10_000)
        call = asyncio.create_task(run.call(ask(parse=parse)))
        await asyncio.sleep(15)
        call.cancel()
        await asyncio.gather(call, return_exceptions=True)
        return run.ledger.total, run.trace[0].usage

    used, of_node = simulate(main())
    assert used.calls == cache.info().entries == 1
    assert used.prompt_tokens >= 2 * prompt_tokens(model.calls[0])
    assert (of_node.prompt_tokens, of_node.completion_tokens) == (used.prompt_tokens, used.completion_tokens)


def test_what_it_had_reserved_is_free():
    model = ScriptedModel(latency=10)

    async def main():
        run = make_run(model, budget=2_000)
        large = asyncio.create_task(run.call(ask(max_tokens=1_000)))
        await asyncio.sleep(1)
        large.cancel()
        return await run.call(ask(max_tokens=1_000))

    assert simulate(main()).text


def test_one_that_waits_for_a_slot_was_never_sent():
    model = ScriptedModel(latency=10, slots=1)

    async def main():
        run = make_run(model)
        first, second = (asyncio.create_task(run.call(ask(question=str(n)))) for n in range(2))
        await asyncio.sleep(1)
        second.cancel()
        await first
        return run.ledger.total, [node.status for node in run.trace]

    used, statuses = simulate(main())
    assert (len(model.calls), statuses) == (1, ["ok", "cancelled"])
    assert used.prompt_tokens == prompt_tokens(model.calls[0])


def test_its_siblings_read_what_it_led_to():
    model = ScriptedModel(latency=10, slots=4)

    async def main():
        run = make_run(model)
        calls = [asyncio.create_task(run.call(ask(question=str(n), affinity=Span(0, 9)))) for n in range(3)]
        await asyncio.sleep(4)
        calls[0].cancel()
        await asyncio.gather(*calls[1:])
        return run.seconds

    assert simulate(main()) == 24  # the second leads, the third follows


def test_its_request_to_the_server_is_closed():
    async def main():
        came, hung_up = asyncio.Event(), asyncio.Event()

        async def serve(reader, writer):
            head = await reader.readuntil(b"\r\n\r\n")
            if head.startswith(b"POST"):
                came.set()
                await reader.read(-1)  # until the client hangs up
                hung_up.set()
            writer.write(b"HTTP/1.1 404 .\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
            writer.close()

        async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
            port = server.sockets[0].getsockname()[1]
            model = Endpoint(f"http://127.0.0.1:{port}/v1", "some")
            run = make_run({"": model})
            call = asyncio.create_task(run.call(ask()))
            await asyncio.wait({call, asyncio.create_task(came.wait())}, return_when=asyncio.FIRST_COMPLETED)
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call
            async with asyncio.timeout(30):  # only for a client that never hangs up
                await hung_up.wait()
            await model.close()

    asyncio.run(main())
