"""The simulated reader behind an OpenAI-compatible endpoint, for programs that know nothing of roles.

    python -m benchmarks.simulated_endpoint DIR [--model sim:recall=0.9,noise=0.05] [--port 8650]

It knows the facts of the questions in the built benchmark DIR, and finds out by the prompt which question is asked. Of
any prompt it notes what it notices, and says the answer where that is all that is needed. Its speed and slots are those
of the reader, in real time. Its model's name begins with ``simulated``, and what comes of it is shown as such.
"""

from __future__ import annotations

import argparse
import asyncio
from pathlib import Path
from typing import Any

from aiohttp import web

from convmem.bench.contexts import Benchmark
from convmem.bench.simulation import focused, knowledge_of
from convmem.core import Call, ContextExceeded, InputError, Message, Sampling, Transient
from convmem.document import Document
from convmem.model import connect
from convmem.model.simulated import FourCharacters, SimulatedReader

LARGEST = 1 << 26
"""Bytes of a request."""
REPLY_TOKENS = 4_096
"""Of a call that sets no limit."""


class Front:
    """Answers requests on a benchmark's questions with readers that behave as ``reader`` does."""

    def __init__(self, reader: SimulatedReader, benchmark: Benchmark) -> None:
        self.reader, self.tokenizer = reader, FourCharacters()
        self.readers: dict[str, SimulatedReader] = {}
        for case in sorted(benchmark.cases, key=lambda case: case.docs):
            if case.question not in self.readers:
                document = Document.from_text(benchmark.text(case))
                self.readers[case.question] = reader.knowing(knowledge_of(focused(case, document), document))

    def app(self) -> web.Application:
        made = web.Application(client_max_size=LARGEST)
        made.router.add_get("/v1/models", self.models)
        made.router.add_post("/v1/chat/completions", self.chat)
        made.router.add_post("/tokenize", self.tokenize)
        return made

    async def models(self, _: web.Request) -> web.Response:
        """As vLLM lists them, so that its tokenizer is asked for."""
        model = {"id": self.reader.identity, "object": "model", "created": 0, "owned_by": "vllm"}
        return web.json_response({"object": "list", "data": [{**model, "max_model_len": self.reader.context}]})

    async def tokenize(self, request: web.Request) -> web.Response:
        text = (await request.json())["prompt"]
        parts = [text[at : at + 4] for at in self.tokenizer.offsets(text)]
        return web.json_response({"tokens": list(range(len(parts))), "count": len(parts), "token_strs": parts})

    async def chat(self, request: web.Request) -> web.Response:
        body = await request.json()
        texts = [_text(message["content"]) for message in body["messages"]]
        prompt = "\n".join(texts)
        asked = next((question for question in self.readers if question in prompt), "")
        most = body.get("max_tokens") or body.get("max_completion_tokens") or REPLY_TOKENS
        # What is between tags is what is read, and what is outside them is what is asked.
        messages = (Message("user", f"<text>\n{prompt}\n</text>"), Message("user", asked))
        call = Call("untold", messages, Sampling(most), seed=body.get("seed") or 0)
        try:
            said = await self.readers.get(asked, self.reader).complete(call)
        except ContextExceeded as error:
            return web.json_response({"error": {"message": str(error), "code": "context_length_exceeded"}}, status=400)
        except Transient as error:
            return web.json_response({"error": {"message": str(error)}}, status=500)
        read, written = sum(map(self.tokenizer.count, texts)), self.tokenizer.count(said.text)
        choice = {"index": 0, "finish_reason": said.finish, "message": {"role": "assistant", "content": said.text}}
        usage = {"prompt_tokens": read, "completion_tokens": written, "total_tokens": read + written}
        whole = {"id": "simulated", "object": "chat.completion", "created": 0, "model": self.reader.identity}
        return web.json_response({**whole, "choices": [choice], "usage": usage})


def _text(content: Any) -> str:
    """A message's text, which may come in parts."""
    return content if isinstance(content, str) else "".join(part.get("text", "") for part in content)


async def serve(front: Front, port: int) -> None:
    """Listen until cancelled, and print the address."""
    runner = web.AppRunner(front.app())
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", port).start()
    host, chosen = runner.addresses[0][:2]
    print(f"http://{host}:{chosen}/v1", flush=True)
    try:
        await asyncio.Event().wait()
    finally:
        await runner.cleanup()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("directory", type=Path, metavar="DIR")
    parser.add_argument("--model", default="sim:recall=0.9,noise=0.05")
    parser.add_argument("--port", type=int, default=8650)
    options = parser.parse_args()
    reader = connect(options.model)
    if not isinstance(reader, SimulatedReader):
        raise InputError(f"{options.model} is no simulated reader: name one as sim:recall=0.9.")
    asyncio.run(serve(Front(reader, Benchmark.load(options.directory)), options.port))


if __name__ == "__main__":
    main()
