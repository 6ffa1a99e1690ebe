"""A chat server for benchmarks: it answers after a fixed time, in its own process.

It does not parse what it is sent, so that its own work stays small: a prompt that asks for JSON gets one object that
serves every role, with sub-questions that no other reply has; any other prompt a list of notes in words of its own, cut
from it.
"""

from __future__ import annotations

import asyncio
import json
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from subprocess import PIPE, Popen

FOUND = "The council."
"""What it quotes and answers."""
NUMBER = "number 0"
"""What stands for a number of the reply's own."""
FIELDS = {
    "relevance": 1,
    "sub_questions": [f"Who proposed {NUMBER}?", f"When was {NUMBER} passed?", f"Why was {NUMBER} passed?"],
    "keywords": [],
    "answer": FOUND,
    "passages": [1],
    "findings": [1],
    "readings": [{"question": n, "relevance": 1, "notes": [FOUND]} for n in (1, 2, 3)],
}
NOTES, NOTE_BYTES = 6, 70


@contextmanager
def server(*, latency: float = 0.0, slots: int | None = None) -> Iterator[str]:
    """The address of a server that answers after ``latency`` seconds, ``slots`` calls at once where that is given."""
    command = [sys.executable, "-m", "benchmarks.server", str(latency), *([str(slots)] if slots else [])]
    with Popen(command, stdout=PIPE, text=True) as process:
        assert process.stdout
        try:
            yield process.stdout.readline().strip()
        finally:
            process.terminate()


def notes(prompt: bytes) -> str:
    """Pieces of the prompt from places evenly apart."""
    step = len(prompt) // (NOTES + 1)
    cuts = [prompt[at : at + NOTE_BYTES].decode("ascii", "ignore") for at in range(step, step * NOTES + 1, step)]
    return "\n".join("- " + " ".join(re.findall("[a-z]+", cut)) for cut in cuts)


def chat(text: str) -> bytes:
    choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": text}}
    usage = {"prompt_tokens": 0, "completion_tokens": 100, "total_tokens": 100}
    return json.dumps({"choices": [choice], "usage": usage}).encode()


async def serve(latency: float, slots: int = sys.maxsize) -> None:
    free = asyncio.Semaphore(slots)
    fields, numbers = chat(json.dumps(FIELDS)), count(1)
    models = json.dumps({"object": "list", "data": [{"id": "benchmark", "object": "model"}]}).encode()

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while head := await reader.readuntil(b"\r\n\r\n"):
            _, _, length = head.lower().partition(b"content-length:")
            prompt = await reader.readexactly(int(length.split(b"\r\n")[0] or 0))
            if prompt:
                async with free:
                    await asyncio.sleep(latency)
            if b"Reply with JSON" in prompt:
                body = fields.replace(NUMBER.encode(), b"number %d" % next(numbers))
            else:
                body = chat(notes(prompt)) if prompt else models
            kind = b"content-type: application/json\r\n"
            writer.write(b"HTTP/1.1 200 OK\r\n%bcontent-length: %d\r\n\r\n%b" % (kind, len(body), body))

    async def client(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await connected(reader, writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    listener = await asyncio.start_server(client, "127.0.0.1", 0, limit=1 << 22)
    host, port = listener.sockets[0].getsockname()
    print(f"http://{host}:{port}/v1", flush=True)
    await listener.serve_forever()


if __name__ == "__main__":
    asyncio.run(serve(float(sys.argv[1]), *map(int, sys.argv[2:])))
