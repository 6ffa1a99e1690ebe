"""What hostile clients, pages and files try. Each ends as an error of one sentence, and the server lives."""

from __future__ import annotations

import io
import json
import logging
import re
import socket
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from convmem.serve.limits import Limits
from tests.document.files import archive, epub, pdf
from tests.serve.conftest import ANSWER, BOOK, QUESTION
from tests.support.server import ScriptedServer
from tests.support.serving import Client, Said, Serving

SMALL = Limits(body_bytes=200_000, body_seconds=0.2, parse_seconds=60, text_bytes=500_000)
LONG = [{"role": "user", "content": BOOK}, {"role": "user", "content": QUESTION}]


def lives(client: Client) -> bool:
    """Whether the server still reads what is sent to it."""
    document = client.upload(a__txt=b"hello").ok["id"]
    return bool(client.get(f"/v1/documents/{document}/text").ok["text"] == "hello")


def bomb(name: str, size: int) -> bytes:
    """A small archive with a large part."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as file, file.open(name, "w") as part:
        for _ in range(size >> 20):
            part.write(b"\0" * (1 << 20))
    return buffer.getvalue()


def laughs() -> bytes:
    """An EPUB whose book.opf defines entities that grow to gigabytes."""
    entities = '<!ENTITY a0 "ha">' + "".join(f'<!ENTITY a{n} "{f"&a{n - 1};" * 10}">' for n in range(1, 10))
    with zipfile.ZipFile(io.BytesIO(epub(["Tides."]))) as file:
        parts = {name: file.read(name).decode() for name in file.namelist()}
    parts["book.opf"] = f"<!DOCTYPE x [{entities}]>" + parts["book.opf"].replace("Tides", "&a9;")
    return archive(parts)


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("bomb.docx", lambda: bomb("word/document.xml", 150 << 20)),
        ("laughs.epub", laughs),
        ("long.html", lambda: b"<p>" + b"\xe9" * 190_000),
    ],
)
def test_a_file_that_bursts_its_parser_is_refused(
    serve: Callable[..., Serving], name: str, data: Callable[[], bytes]
) -> None:
    client = serve(limits=SMALL).client()
    said = client.upload_named((name, data()))
    assert said.status == 400 and name in said.error["message"]
    assert lives(client)


def test_a_parser_that_does_not_end_is_stopped(serve: Callable[..., Serving], monkeypatch: pytest.MonkeyPatch) -> None:
    worker = "import sys, time\nwhile True: pass"
    monkeypatch.setattr("convmem.serve.intake.WORKER", ["-c", worker])
    client = serve(limits=Limits(parse_seconds=1)).client()
    assert "longer than" in client.upload(a__pdf=b"hello").error["message"]


@settings(max_examples=6, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    changes=st.lists(st.tuples(st.integers(0, 2_000), st.binary(min_size=1, max_size=8)), max_size=30),
    length=st.integers(0, 2_000),
)
def test_no_broken_pdf_is_more_than_an_error(changes: list[tuple[int, bytes]], length: int, shared: Client) -> None:
    data = bytearray(pdf(["One.", "Two.", "Three."]))
    for at, change in changes:
        data[at : at + len(change)] = change
    said = shared.upload(a__pdf=bytes(data[: length or None]))
    assert said.status in (201, 400), said.body


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    with Serving("http://127.0.0.1:9/v1", data=tmp_path_factory.mktemp("data"), limits=SMALL) as serving:
        yield serving.client()


def raw(client: Client, *parts: bytes, wait: bool = True) -> bytes:
    """What the server answers to bytes on the wire, until it hangs up or the answer is whole."""
    address = urlsplit(client.url)
    with socket.create_connection((address.hostname, address.port), timeout=30) as connection:
        for part in parts:
            connection.sendall(part)
        said = b""
        while b"\r\n\r\n" not in said and (more := connection.recv(65_536)):
            said += more
    return said


def test_a_body_that_is_too_large_is_refused_before_it_is_read(shared: Client) -> None:
    said = shared.post("/v1/chat/completions", {"model": "m", "messages": [{"role": "user", "content": "x" * 300_000}]})
    assert (said.status, said.error["code"]) == (413, "request_too_large")
    assert shared.upload(a__txt=b"x" * 300_000).status == 413
    head = b"POST /v1/runs HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
    assert b" 413 " in raw(shared, head + b"content-length: 999999999999\r\n\r\n")
    chunked = head + b"transfer-encoding: chunked\r\n\r\n"
    assert b" 413 " in raw(shared, chunked, *[b"8000\r\n" + b"x" * 0x8000 + b"\r\n"] * 7)


def test_a_body_that_does_not_come_is_not_waited_for(shared: Client) -> None:
    head = b"POST /v1/runs HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: 10\r\n\r\n"
    assert b" 408 " in raw(shared, head + b"{")


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"\xff\xfe",
        b"[" * 100_000,
        b'{"model":' * 20_000,
        b"NaN",
        b"null",
        b"[]",
        b'{"model": "m", "messages": [null]}',
        b'{"model": "m", "messages": [{"role": "user", "content": {"a": 1}}]}',
        b'{"model": "m", "messages": "x", "stream": 7}',
        b'{"model": "\\ud800", "messages": [{}]}',
        b'{"document": "\\u0000", "question": "\\ud800"}',
        b'{"document": "d", "question": "q", "settings": {"budget": 1e999}}',
        b'{"document": "d", "question": "q", "settings": {"seed": ' + b"9" * 5_000 + b"}}",
    ],
)
def test_no_body_is_more_than_an_error(shared: Client, body: bytes) -> None:
    for path in ("/v1/chat/completions", "/v1/runs", "/v1/plan", "/v1/documents"):
        said = shared.ask("POST", path, body, {"content-type": "application/json"})
        assert 400 <= said.status < 500 or (said.status, said.error["type"]) == (503, "upstream_error"), (path, said)
        assert said.error["message"]


def test_text_that_no_encoding_can_write_costs_no_answer(client: Client) -> None:
    body = json.dumps({"model": "scripted", "messages": [{"role": "user", "content": "\ud800" + BOOK}, LONG[1]]})
    said = client.ask("POST", "/v1/chat/completions", body.encode(), {"content-type": "application/json"})
    assert said.ok["choices"][0]["message"]["content"].startswith(ANSWER)


@pytest.mark.parametrize("host", ["evil.example", "evil.example:8642", "127.0.0.1.evil.example", "[::2]", "a@b", ""])
def test_a_page_that_has_this_machine_by_another_name_is_refused(shared: Client, host: str) -> None:
    assert b" 403 " in raw(shared, f"GET /v1/models HTTP/1.1\r\nhost: {host}\r\n\r\n".encode())


def test_a_page_of_another_site_can_make_no_request(shared: Client) -> None:
    for origin in ("http://evil.example", "null", "http://localhost:1"):
        for path in ("/v1/documents", "/v1/models", "/"):
            said = shared.get(path, origin=origin)
            assert said.status == 403 and "access-control-allow-origin" not in said.headers
    assert shared.get("/v1/documents", origin=shared.url).status == 200
    assert shared.ask("OPTIONS", "/v1/runs", headers={"origin": "http://evil.example"}).status == 403


@pytest.mark.parametrize(
    "path",
    ["/page/../server.py", "/page/%2e%2e/server.py", "/page//etc/passwd", "/page/..%2fserver.py", "/page/%00", "/../x"],
)
def test_no_path_leads_out_of_the_page(shared: Client, path: str) -> None:
    assert b" 404 " in raw(shared, f"GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n".encode())


def test_every_answer_tells_browsers_to_be_strict(client: Client) -> None:
    document = client.upload(a__html=b"<script>alert(1)</script><p>Hi there", b__txt=BOOK.encode()).ok["id"]
    run = client.post("/v1/runs", {"document": document, "question": "<script>alert(1)</script> lighthouse 7?"}).ok[
        "id"
    ]
    client.events(f"/v1/runs/{run}/events")
    answers: dict[str, Said] = {
        path: client.get(path)
        for path in (
            "/", "/docs", "/page/docs.js", "/openapi.json", "/healthz", "/v1/models", "/none", "/metrics",
            f"/v1/runs/{run}", f"/v1/runs/{run}/trace", f"/v1/runs/{run}/trace.html",
        )
    }  # fmt: skip
    for path, said in answers.items():
        policy = said.headers["content-security-policy"]
        assert "sandbox" in policy or "default-src 'none'; script-src 'self'; style-src 'self'" in policy, path
        assert "unsafe" not in policy
        assert said.headers["x-content-type-options"] == "nosniff", path
        assert said.headers["referrer-policy"] == "no-referrer" and "server" not in said.headers, path
    assert b"<script>alert" not in answers[f"/v1/runs/{run}/trace.html"].body
    assert answers[f"/v1/runs/{run}"].headers["content-type"] == "application/json"


def test_the_page_asks_no_other_host_for_anything(shared: Client) -> None:
    folder = Path(__file__).parents[2] / "src/convmem/serve/page"
    for file in folder.iterdir():
        addresses = re.findall(
            r"""(?:src|href|url\(|import|fetch\()\s*=?\s*["'(]*((?:https?:)?//[^"')\s]+)""", file.read_text()
        )
        assert addresses == [], file.name
        assert shared.get(f"/page/{file.name}").status == 200
    assert not re.search(r"<script(?![^>]*\bsrc=)|<style|\son\w+=|style=", (folder / "docs.html").read_text())


def test_nothing_in_a_chat_makes_the_server_open_anything(client: Client, upstream: ScriptedServer, home: Path) -> None:
    (home / "secret.txt").write_text("The secret word is sesame. " * 40)
    with ScriptedServer() as elsewhere:
        texts = [str(home / "secret.txt"), f"file://{home}/secret.txt", f"{elsewhere.url}/x", "{{7*7}} {% include %} -"]
        for text in texts:
            client.chat([{"role": "user", "content": f"{text}\n\n{BOOK}"}, LONG[1]]).ok  # noqa: B018
            part = {"type": "file", "file": {"file_data": text, "filename": text}}
            assert client.chat([{"role": "user", "content": [part, {"type": "text", "text": "Who?"}]}]).status == 400
            assert client.post("/v1/runs", {"document": text, "question": "Who?"}).status == 404
        assert elsewhere.seen == []
    assert "sesame" not in json.dumps(upstream.requests)


def test_secrets_are_in_no_log_and_no_trace(
    serve: Callable[..., Serving], add_key: Callable[..., str], monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str], home: Path,
) -> None:  # fmt: skip
    monkeypatch.setenv("CONVMEM_API_KEY", "sk-upstream-secret")
    key = add_key("ann")
    with caplog.at_level(logging.DEBUG):
        serving = serve()
        client = serving.client(key)
        document = client.upload(book__txt=BOOK.encode()).ok["id"]
        run = client.post("/v1/runs", {"document": document, "question": QUESTION}).ok["id"]
        client.events(f"/v1/runs/{run}/events")
        said: list[Any] = [client.get(f"/v1/runs/{run}{rest}").body for rest in ("", "/trace", "/trace.html")]
        said += [client.get("/metrics").body, serving.client("cm-wrong").get("/v1/runs").body, client.chat(LONG).body]
        serving.stop()
    kept = [path.read_bytes() for path in home.rglob("*") if path.is_file()]
    written = b"".join([*said, *kept, caplog.text.encode(), "".join(capfd.readouterr()).encode()])
    for secret in (key, "sk-upstream-secret", "cm-wrong"):
        assert secret.encode() not in written
