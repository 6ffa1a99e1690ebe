"""A server of ours on a port of its own, over a scripted model's server, and a client that reads what it says."""

from __future__ import annotations

import http.client
import json
import socket
import threading
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from convmem.serve.limits import Limits
from convmem.serve.server import Server
from convmem.settings import resolve

Json = dict[str, Any]


@dataclass(frozen=True)
class Said:
    """An answer of the server."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def error(self) -> Any:
        """The error object; the status is one of an error."""
        assert self.status >= 400, self.body
        return self.json["error"]

    @property
    def ok(self) -> Any:
        """The body; the status is one of success."""
        assert self.status < 300, self.body
        return self.json


@dataclass
class Client:
    """Talks to the server at ``url``, with ``key`` where there is one."""

    url: str
    key: str = ""
    headers: dict[str, str] = field(default_factory=dict)

    def get(self, path: str, **headers: str) -> Said:
        return self.ask("GET", path, headers=headers)

    def post(self, path: str, body: Any = None, **headers: str) -> Said:
        data = json.dumps(body).encode() if body is not None else b""
        return self.ask("POST", path, data, {"content-type": "application/json", **headers})

    def delete(self, path: str) -> Said:
        return self.ask("DELETE", path)

    def upload(self, **files: bytes) -> Said:
        """Upload a document; a file's name has a double underscore for its dot."""
        return self.upload_named(*((name.replace("__", "."), data) for name, data in files.items()))

    def upload_named(self, *files: tuple[str, bytes]) -> Said:
        mark = uuid.uuid4().hex
        parts = [
            f'--{mark}\r\ncontent-disposition: form-data; name="files"; filename="{name}"\r\n\r\n'.encode()
            + data
            + b"\r\n"
            for name, data in files
        ]
        body = b"".join(parts) + f"--{mark}--\r\n".encode()
        return self.ask("POST", "/v1/documents", body, {"content-type": f"multipart/form-data; boundary={mark}"})

    def ask(self, method: str, path: str, body: bytes | None = None, headers: Mapping[str, str] = {}) -> Said:
        with self.open(method, path, body, headers) as response:
            return Said(response.status, {k.lower(): v for k, v in response.getheaders()}, response.read())

    @contextmanager
    def open(
        self, method: str, path: str, body: bytes | None = None, headers: Mapping[str, str] = {}
    ) -> Iterator[http.client.HTTPResponse]:
        """An answer that is read as it comes; the client hangs up at the end of the block."""
        connection = http.client.HTTPConnection(urlsplit(self.url).netloc, timeout=60)
        own = {"authorization": f"Bearer {self.key}"} if self.key else {}
        try:
            connection.request(method, path, body, {**own, **self.headers, **headers})
            yield connection.getresponse()
        finally:
            connection.close()

    def hang_up_after(self, event: threading.Event, method: str, path: str, body: bytes) -> None:
        """Send a request, and go away when ``event`` is set."""
        with socket.create_connection((urlsplit(self.url).hostname, urlsplit(self.url).port)) as connection:
            own = f"authorization: Bearer {self.key}\r\n" if self.key else ""
            head = f"{method} {path} HTTP/1.1\r\nhost: localhost\r\n{own}content-type: application/json\r\n"
            connection.sendall(f"{head}content-length: {len(body)}\r\n\r\n".encode() + body)
            assert event.wait(60)

    def events(self, path: str, **headers: str) -> list[tuple[int, Json]]:
        """All events of a run, to the end of the stream: number and event."""
        with self.open("GET", path, headers={name.replace("_", "-"): value for name, value in headers.items()}) as said:
            assert said.status == 200, said.read()
            return [(int(each["id"]), json.loads(each["data"])) for each in blocks(said) if "data" in each]

    def chat(self, content: Any, model: str = "scripted", **more: Any) -> Said:
        messages = [{"role": "user", "content": content}] if isinstance(content, str) else content
        return self.post("/v1/chat/completions", {"model": model, "messages": messages, **more})

    def stream(self, content: Any, model: str = "scripted", **more: Any) -> list[Json]:
        """The chunks of a streamed chat."""
        messages = [{"role": "user", "content": content}] if isinstance(content, str) else content
        body = json.dumps({"model": model, "messages": messages, "stream": True, **more}).encode()
        with self.open("POST", "/v1/chat/completions", body, {"content-type": "application/json"}) as said:
            assert said.status == 200, said.read()
            data = [each["data"] for each in blocks(said) if "data" in each]
        return [json.loads(each) for each in data if each != "[DONE]"]


def blocks(response: Any) -> Iterator[dict[str, str]]:
    """The fields of each server-sent event."""
    fields: dict[str, str] = {}
    for line in response:
        text = line.decode().rstrip("\r\n")
        if text:
            name, _, value = text.partition(":")
            fields[name] = value.removeprefix(" ")
        else:
            yield fields
            fields = {}


class Serving:
    """``with Serving(upstream.url, data=…) as serving``: listens at ``serving.url`` until the block ends."""

    def __init__(
        self, *models: str, data: Path, host: str = "127.0.0.1", limits: Limits | None = None, **settings: Any
    ):
        self._server = Server(host, 0, data=data, models=models, settings=resolve(settings), limits=limits)
        self.url = self._server.address
        self._thread = threading.Thread(target=self._server.run, daemon=True)

    def client(self, key: str = "") -> Client:
        return Client(self.url, key)

    def stop(self) -> None:
        self._server.stop()
        self._thread.join()

    def __enter__(self) -> Serving:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
