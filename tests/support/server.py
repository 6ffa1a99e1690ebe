"""A real HTTP server that speaks the OpenAI chat protocol and does what a test tells it to.

It knows nothing of the code under test. A reply function turns each request's JSON into a reply; a ``Faults`` makes
some calls fail first, by seed. Four characters are one token here, everywhere: in usage, limits and ``/tokenize``.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import random
import threading
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, Self

CHARACTERS_PER_TOKEN = 4

Json = dict[str, Any]
Kind = Literal["rate_limit", "error", "drop", "stall", "garbage", "error_body", "broken_json", "half", "wrong_schema"]
KINDS: tuple[Kind, ...] = (
    "rate_limit", "error", "drop", "stall", "garbage", "error_body", "broken_json", "half", "wrong_schema",
)  # fmt: skip


class Fault(NamedTuple):
    """A failure instead of a reply; ``retry_after`` is the header's value for ``rate_limit``."""

    kind: Kind
    retry_after: str = "0"


class Answer(NamedTuple):
    """An HTTP answer word for word; a ``str`` body is sent as HTML, anything else as JSON."""

    status: int = 200
    body: Any = None
    headers: Mapping[str, str] = {}


class Raw(NamedTuple):
    """Bytes on the wire, the head included, after which the server hangs up."""

    data: bytes


@dataclass(frozen=True)
class Chat:
    """A chat reply with everything said; ``message`` and ``top`` add fields to the message and to the whole."""

    text: str | None
    finish: str = "stop"
    logprobs: Sequence[Json] | None = None
    message: Json = field(default_factory=dict)
    top: Json = field(default_factory=dict)


Reply = str | Json | Chat | Fault | Answer | Raw
"""``str`` is the reply's text; a ``dict`` is sent as the text that is its JSON."""


class Faults:
    """Which calls fail, and how: by ``seed``, a ``share`` of all calls, each failing once to ``at_most`` times.

    Calls are told apart by their messages. ``always`` names calls that never succeed.
    """

    def __init__(
        self,
        seed: int,
        *,
        share: float = 0.3,
        at_most: int = 3,
        kinds: Sequence[Kind] = KINDS,
        always: Callable[[Json], bool] = lambda _: False,
    ) -> None:
        self.seed, self.share, self.at_most, self.kinds, self.always = seed, share, at_most, kinds, always
        self._tries: Counter[str] = Counter()

    def next(self, request: Json) -> Fault | None:
        """The failure that this try of the call meets, if any."""
        identity = hashlib.sha256(json.dumps(request["messages"]).encode()).hexdigest()
        rng = random.Random(f"{self.seed}:{identity}")
        failures = rng.randint(1, self.at_most) if rng.random() < self.share else 0
        kinds = rng.choices(self.kinds, k=failures)
        tries = self._tries[identity]
        self._tries[identity] += 1
        if self.always(request):
            return Fault(self.kinds[tries % len(self.kinds)])
        return Fault(kinds[tries]) if tries < failures else None


class Request(NamedTuple):
    """One HTTP request as it came; ``body`` is None where there was none."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: Any


class ScriptedServer:
    """``with ScriptedServer(reply) as server``: listens at ``server.url`` (ending in ``/v1``) until the block ends.

    ``context``: longer prompts are refused, in the words of ``dialect``. ``reads``: longer prompts are cut to the last
    ``reads`` tokens without a word, as Ollama does; the reply function sees what is left. ``latency`` in seconds holds
    one of ``slots`` for a call. ``routes`` answers further paths, or the usual ones otherwise; each gets the request.
    """

    def __init__(
        self,
        reply: Callable[[Json], Reply] = lambda _: "ok",
        *,
        faults: Faults | None = None,
        models: Sequence[str] = ("scripted",),
        dialect: Literal["openai", "llama.cpp", "vllm"] = "openai",
        context: int | None = None,
        reads: int | None = None,
        latency: float = 0.0,
        slots: int = 1_000_000,
        port: int = 0,
        routes: Mapping[str, Callable[[Request], Answer | Raw]] | None = None,
    ) -> None:
        self.requests: list[Json] = []
        """Chat requests in the order in which they came."""
        self.answered: list[Json] = []
        """Chat requests whose reply, right or wrong, was sent whole with status 200."""
        self.seen: list[Request] = []
        """Every request, on any path."""
        self.peak = 0
        """The most chat requests that were open at once."""
        self._reply, self._faults, self._models, self._dialect = reply, faults, models, dialect
        self._context, self._reads, self._latency, self._slots = context, reads, latency, slots
        self._routes = routes or {}
        self._port = port
        self._open = 0
        self._broken: Exception | None = None
        self._ready = threading.Event()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}/v1"

    def __enter__(self) -> Self:
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()), daemon=True)
        self._thread.start()
        self._ready.wait()
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()
        if self._broken:
            raise self._broken

    async def _serve(self) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        self._slot = asyncio.Semaphore(self._slots)
        connections: set[asyncio.Task[None]] = set()

        async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.current_task()
            assert task
            connections.add(task)
            try:
                async for request in _requests(reader):
                    if not await self._handle(request, reader, writer):
                        break
            except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
                pass  # the client hung up, or the block ended
            except Exception as error:  # noqa: BLE001 - the test's own function failed: said when the block ends
                self._broken = error
            connections.discard(task)
            writer.close()

        listener = await asyncio.start_server(connected, "127.0.0.1", self._port, limit=1 << 26, backlog=1024)
        self._port = listener.sockets[0].getsockname()[1]
        self._ready.set()
        await self._stop.wait()
        listener.close()
        for task in connections:
            task.cancel()
        await asyncio.gather(*connections, return_exceptions=True)

    async def _handle(self, request: Request, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Answer one request; False where the connection is to be closed."""
        self.seen.append(request)
        if request.path.endswith("/chat/completions") and request.path not in self._routes:
            self.requests.append(request.body)
            self._open += 1
            self.peak = max(self.peak, self._open)
            try:
                return await self._chat(request.body, reader, writer)
            finally:
                self._open -= 1
        route = self._routes.get(request.path) or self._usual.get(request.path)
        answer = route(request) if route else Answer(404, {"error": {"message": "no such path"}})
        _send(writer, answer)
        return isinstance(answer, Answer)

    async def _chat(self, body: Json, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        prompt_tokens = sum(tokens(message["content"]) for message in body["messages"])
        if self._context is not None and prompt_tokens + (body.get("max_tokens") or 0) > self._context:
            _send(writer, self._refusal(prompt_tokens, self._context))
            return True
        async with self._slot:
            if self._latency:
                await asyncio.sleep(self._latency)
            reply: Reply = (self._faults and self._faults.next(body)) or self._reply(self._cut(body))
        if isinstance(reply, Fault) and reply.kind == "drop":
            return False
        if isinstance(reply, Fault) and reply.kind == "stall":
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 100\r\n\r\n{")
            await reader.read(1)  # nothing more is said until the client hangs up
            return False
        answer = self._answer(reply, body, min(prompt_tokens, self._reads or prompt_tokens))
        _send(writer, answer)
        await writer.drain()
        if isinstance(answer, Answer) and answer.status == 200:
            self.answered.append(body)
        return isinstance(answer, Answer)

    def _cut(self, body: Json) -> Json:
        if self._reads is None:
            return body
        room, kept = self._reads * CHARACTERS_PER_TOKEN, []
        for message in reversed(body["messages"]):
            content = message["content"][-room:] if room else ""
            room -= len(content)
            kept.append({**message, "content": content})
        return {**body, "messages": kept[::-1]}

    def _answer(self, reply: Reply, body: Json, prompt_tokens: int) -> Answer | Raw:
        if isinstance(reply, Answer | Raw):
            return reply
        if isinstance(reply, Fault):
            match reply.kind:
                case "rate_limit":
                    return Answer(429, {"error": {"message": "slow down"}}, {"retry-after": reply.retry_after})
                case "error":
                    return Answer(500, {"error": {"message": "internal error"}})
                case "garbage":
                    return Answer(200, "<html>bad gateway</html>")
                case "error_body":
                    return Answer(200, {"error": {"message": "upstream failed", "code": 502}})
                case "broken_json":
                    reply = '{"answer": "unfinished'
                case "half":
                    reply = Chat('{"answ', finish="length")
                case _:
                    reply = {"unexpected": [True]}
        if isinstance(reply, dict):
            reply = json.dumps(reply)
        chat = Chat(reply) if isinstance(reply, str) else reply
        completion_tokens = tokens(chat.text or "")
        choice: Json = {
            "index": 0,
            "finish_reason": chat.finish,
            "message": {"role": "assistant", "content": chat.text, **chat.message},
        }
        if chat.logprobs is not None:
            choice["logprobs"] = {"content": list(chat.logprobs)}
        usage = {
            "prompt_tokens": prompt_tokens,
            "completion_tokens": completion_tokens,
            "total_tokens": prompt_tokens + completion_tokens,
        }
        whole = {"id": "c", "object": "chat.completion", "created": 0, "model": body.get("model")}
        return Answer(200, {**whole, "choices": [choice], "usage": usage, **chat.top})

    def _refusal(self, asked: int, limit: int) -> Answer:
        if self._dialect == "llama.cpp":
            error = {
                "code": 400,
                "message": f"request ({asked} tokens) exceeds the available context size ({limit} tokens)",
                "type": "exceed_context_size_error",
                "n_prompt_tokens": asked,
                "n_ctx": limit,
            }
            return Answer(400, {"error": error})
        said = f"This model's maximum context length is {limit} tokens. However, you requested {asked} tokens."
        if self._dialect == "vllm":
            return Answer(400, {"object": "error", "message": said, "type": "BadRequestError", "code": 400})
        return Answer(400, {"error": {"message": said, "code": "context_length_exceeded"}})

    @property
    def _usual(self) -> dict[str, Callable[[Request], Answer]]:
        routes: dict[str, Callable[[Request], Answer]] = {"/v1/models": self._list_models}
        if self._dialect == "llama.cpp":
            return {**routes, "/props": self._props, "/tokenize": self._tokenize}
        return {**routes, "/tokenize": self._tokenize} if self._dialect == "vllm" else routes

    def _list_models(self, _: Request) -> Answer:
        extra: Json = {"max_model_len": self._context} if self._dialect == "vllm" else {}
        owner = {"openai": "someone", "llama.cpp": "llamacpp", "vllm": "vllm"}[self._dialect]
        models = [{"id": name, "object": "model", "created": 0, "owned_by": owner, **extra} for name in self._models]
        return Answer(200, {"object": "list", "data": models})

    def _props(self, _: Request) -> Answer:
        settings = {"n_ctx": self._context or 8192}
        return Answer(200, {"default_generation_settings": settings, "total_slots": min(self._slots, 4)})

    def _tokenize(self, request: Request) -> Answer:
        text = request.body["content" if self._dialect == "llama.cpp" else "prompt"]
        pieces = [text[i : i + CHARACTERS_PER_TOKEN] for i in range(0, len(text), CHARACTERS_PER_TOKEN)]
        if self._dialect == "llama.cpp":
            return Answer(200, {"tokens": [{"id": i, "piece": piece} for i, piece in enumerate(pieces)]})
        return Answer(200, {"tokens": list(range(len(pieces))), "count": len(pieces), "token_strs": pieces})


def tokens(text: str) -> int:
    """How many tokens this server counts in ``text``."""
    return -(-len(text) // CHARACTERS_PER_TOKEN)


async def _requests(reader: asyncio.StreamReader) -> AsyncIterator[Request]:
    while True:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
        except asyncio.IncompleteReadError:
            return
        start, *lines = head.decode("latin-1").rstrip().split("\r\n")
        method, target, _ = start.split(" ")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        body = await reader.readexactly(int(headers.get("content-length", 0)))
        yield Request(method, target.partition("?")[0], headers, json.loads(body) if body else None)


def _send(writer: asyncio.StreamWriter, answer: Answer | Raw) -> None:
    if isinstance(answer, Raw):
        writer.write(answer.data)
        return
    is_text = isinstance(answer.body, str)
    body = answer.body.encode() if is_text else json.dumps(answer.body).encode()
    head = [
        f"HTTP/1.1 {answer.status} .",
        f"content-type: {'text/html' if is_text else 'application/json'}",
        f"content-length: {len(body)}",
        *(f"{name}: {value}" for name, value in answer.headers.items()),
    ]
    writer.write("\r\n".join(head).encode() + b"\r\n\r\n" + body)
