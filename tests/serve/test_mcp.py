"""The tools as the official client finds them, over standard input and HTTP, in both forms of the protocol."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("mcp")

from mcp import Client, StdioServerParameters
from mcp.shared.exceptions import MCPError
from mcp_types import ListRootsResult, Root

from convmem.serve.mcp import server
from tests.cli.conftest import ARCHIVE, QUESTION
from tests.support.reader import read
from tests.support.server import Json, Reply, ScriptedServer

SMALL = ("--set", "window=300", "--set", "stride=300", "--set", "one_call_tokens=0")
MODES = ["legacy", "auto"]


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a long document, beside one that nobody named."""
    for name in [name for name in os.environ if name.startswith("CONVMEM_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("CONVMEM_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("CONVMEM_CONFIG", "/dev/null")
    for folder in ("shared", "private"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "archive.txt").write_text(ARCHIVE, "utf-8")
    (tmp_path / "private" / "secret.txt").write_text("The password is swordfish.")
    return tmp_path


@pytest.fixture
def upstream() -> Iterator[ScriptedServer]:
    with ScriptedServer(read) as running:
        yield running


def command(upstream: ScriptedServer, *options: str) -> list[str]:
    return [sys.executable, "-m", "convmem", "mcp", "--model", upstream.url, *SMALL, *options]


def knowing(roots: list[Path] | None) -> Any:
    """How a client tells its roots; None: it knows none."""

    async def list_roots(_: Any) -> ListRootsResult:
        return ListRootsResult(roots=[Root(uri=root.as_uri()) for root in roots or ()])  # type: ignore[arg-type]

    return None if roots is None else list_roots


def over_stdio(upstream: ScriptedServer, *options: str, roots: list[Path] | None = None, mode: str = "auto") -> Client:
    """A client that starts the command."""
    executable, *arguments = command(upstream, *options)
    start = StdioServerParameters(command=executable, args=arguments, env=dict(os.environ))
    return Client(start, mode=mode, list_roots_callback=knowing(roots))


def within(upstream: ScriptedServer, *named: Path, roots: list[Path] | None = None, mode: str = "auto") -> Client:
    """A client of a server in this process, whose user ``named`` folders."""
    settings = {"model": upstream.url, "window": 300, "stride": 300, "one_call_tokens": 0}
    return Client(server(settings, named), mode=mode, list_roots_callback=knowing(roots))


def over(client: Any, use: Callable[[Client], Awaitable[None]]) -> None:
    async def main() -> None:
        async with asyncio.timeout(240), client as connected:
            await use(connected)

    asyncio.run(main())


def said(result: Any) -> str:
    """The one sentence of an error."""
    assert result.is_error
    [content] = result.content
    assert content.text.count("\n") == 0
    assert content.text.endswith(".")
    return str(content.text)


@pytest.mark.parametrize("mode", MODES)
def test_plan_ask_read_and_look_at_every_call(home: Path, upstream: ScriptedServer, mode: str) -> None:
    async def use(client: Client) -> None:
        listed = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert set(listed) == {"plan", "ask", "read_passage"}
        assert all(tool.output_schema and tool.description for tool in listed.values())
        assert "files" in listed["ask"].input_schema["properties"]
        assert "roots" not in listed["ask"].input_schema["properties"]

        plan = await client.call_tool("plan", {"files": ["archive.txt"], "question": QUESTION})
        assert plan.structured_content
        assert plan.structured_content["calls"] > 1
        assert not upstream.requests

        progress: list[tuple[float, float | None]] = []

        async def heard(done: float, total: float | None, message: str | None) -> None:
            assert message
            progress.append((done, total))

        result = await client.call_tool(
            "ask", {"files": [str(home / "shared")], "question": QUESTION}, progress_callback=heard
        )
        asked = result.structured_content
        assert asked
        assert "Keeper77" in asked["answer"]
        assert asked["usage"]["calls"] == len(upstream.answered)
        assert progress
        assert [done for done, _ in progress] == sorted({done for done, _ in progress})
        assert all(total and done <= total for done, total in progress)

        [cited, *_] = asked["citations"]
        around = {**{name: cited[name] for name in ("source", "end")}, "run": asked["run"]}
        passage = await client.call_tool("read_passage", {**around, "start": cited["start"] - 40})
        assert passage.structured_content
        assert passage.structured_content["text"].endswith(cited["quote"])
        assert passage.structured_content["text"] == ARCHIVE[cited["start"] - 40 : cited["end"]]

        trace = await client.read_resource(asked["trace"])
        assert json.loads(trace.contents[0].text)["nodes"]  # type: ignore[union-attr]
        page = await client.read_resource(asked["page"])
        assert page.contents[0].text.startswith("<!doctype html>")  # type: ignore[union-attr]

    over(over_stdio(upstream, roots=[home / "shared"], mode=mode), use)


def outside(home: Path) -> list[str]:
    """Ways to a file that was not shared."""
    shared = home / "shared"
    (shared / "link.txt").symlink_to(home / "private" / "secret.txt")
    (shared / "folder").symlink_to(home / "private")
    (shared / "loop").symlink_to(shared / "loop")
    return [
        str(home / "private" / "secret.txt"),
        str(shared / ".." / "private" / "secret.txt"),
        "../private/secret.txt",
        "link.txt",
        "folder/secret.txt",
        "folder",
        "loop",
        str(home),
        "/etc/passwd",
        "/etc/*",
        "*/secret.txt",
        "~/secret.txt",
        "-",
        "nothing\0.txt",
        "nothing.txt",
        (home / "private" / "secret.txt").as_uri(),
    ]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("named", [True, False], ids=["--root", "client"])
def test_no_file_outside_the_roots_is_read(home: Path, upstream: ScriptedServer, mode: str, named: bool) -> None:
    shared = home / "shared"
    everywhere = [Path("/")]  # what a client names does not widen what its user named

    async def use(client: Client) -> None:
        for file in outside(home):
            for tool in ("ask", "plan"):
                refused = said(await client.call_tool(tool, {"files": [file], "question": QUESTION}))
                assert "swordfish" not in refused
                assert "in the folders that may be read" in refused
        result = await client.call_tool("ask", {"files": ["."], "question": "What is the password?"})
        assert result.structured_content
        assert "swordfish" not in json.dumps(result.structured_content)
        assert any("link.txt" in warning for warning in result.structured_content["warnings"])
        assert not any("swordfish" in str(request) for request in upstream.requests)

    if named:
        over(within(upstream, shared, roots=everywhere, mode=mode), use)
    else:
        over(within(upstream, roots=[shared], mode=mode), use)


@pytest.mark.parametrize("mode", MODES)
def test_a_client_without_roots_is_told_what_to_do(home: Path, upstream: ScriptedServer, mode: str) -> None:
    async def use(client: Client) -> None:
        assert "--root" in said(await client.call_tool("plan", {"files": ["archive.txt"]}))

    over(within(upstream, mode=mode), use)


def test_errors_are_one_sentence(home: Path, upstream: ScriptedServer) -> None:
    (home / "shared" / "empty.txt").touch()

    async def use(client: Client) -> None:
        ask = {"files": ["archive.txt"], "question": QUESTION}
        assert "empty" in said(await client.call_tool("ask", {**ask, "question": " "}))
        assert "text" in said(await client.call_tool("ask", {**ask, "files": ["empty.txt"]}))
        assert "lean" in said(await client.call_tool("ask", {**ask, "preset": "fat"}))
        assert "budget" in said(await client.call_tool("ask", {**ask, "budget": 1}))
        none = {"run": "none", "source": "archive.txt", "start": 0, "end": 9}
        assert "none" in said(await client.call_tool("read_passage", none))
        with pytest.raises(MCPError, match="none"):
            await client.read_resource("convmem://runs/none/trace")

    over(within(upstream, home / "shared"), use)


def test_cancelling_ends_the_run(home: Path) -> None:
    arrived = asyncio.Event()
    loop: list[asyncio.AbstractEventLoop] = []

    def reply(request: Json) -> Reply:
        if len(upstream.requests) == 3:
            loop[0].call_soon_threadsafe(arrived.set)
        return read(request)

    with ScriptedServer(reply, latency=0.05, slots=1) as upstream:

        async def use(client: Client) -> None:
            loop.append(asyncio.get_running_loop())
            asking = asyncio.create_task(client.call_tool("ask", {"files": ["archive.txt"], "question": QUESTION}))
            await arrived.wait()
            asking.cancel()
            await asyncio.gather(asking, return_exceptions=True)
            before = len(upstream.requests)
            plan = await client.call_tool("plan", {"files": ["archive.txt"]})  # the server goes on
            assert plan.structured_content
            assert len(upstream.requests) <= before + 1
            assert len(upstream.requests) < plan.structured_content["calls"]

        over(over_stdio(upstream, "--root", str(home / "shared"), "--set", "concurrency=1"), use)


@pytest.fixture
def address(home: Path, upstream: ScriptedServer) -> Iterator[str]:
    """Where the command listens with ``--http``."""
    arguments = command(upstream, "--root", str(home / "shared"), "--http", "--port", "0")
    process = subprocess.Popen(arguments, stderr=subprocess.PIPE, text=True)
    assert process.stderr
    try:
        yield process.stderr.readline().split()[-1]
    finally:
        process.terminate()
        process.communicate()


def test_the_same_over_http(address: str, upstream: ScriptedServer) -> None:
    async def use(client: Client) -> None:
        progress: list[float] = []

        async def heard(done: float, _total: float | None, _message: str | None) -> None:
            progress.append(done)

        result = await client.call_tool(
            "ask", {"files": ["archive.txt"], "question": QUESTION}, progress_callback=heard
        )
        assert result.structured_content
        assert "Keeper77" in result.structured_content["answer"]
        assert progress
        assert "in the folders" in said(await client.call_tool("plan", {"files": ["../private/secret.txt"]}))

    over(Client(address), use)


def test_another_site_s_page_is_refused(address: str) -> None:
    """A browser that was led to this address under another name (DNS rebinding)."""
    import urllib.error
    import urllib.request

    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/list"}).encode()
    headers = {"content-type": "application/json", "accept": "application/json, text/event-stream"}
    for wrong in ({"host": "evil.example"}, {"origin": "http://evil.example"}):
        request = urllib.request.Request(address, body, headers | wrong)
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(request)
        assert refused.value.code in (403, 421)
