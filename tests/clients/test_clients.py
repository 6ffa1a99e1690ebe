"""The clients that people use, as they come from the package index, against a server of ours.

They live in an environment of their own, which ``scripts/clients`` makes; ``CONVMEM_CLIENTS`` is its folder.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.serve.conftest import ANSWER, BOOK, QUESTION, reads
from tests.support.server import Chat, Json, Raw, Reply, ScriptedServer
from tests.support.serving import Client, Serving

pytestmark = pytest.mark.clients

PROGRAMS = Path(__file__).parent / "programs"


def talks(request: Json) -> Reply:
    """A model that streams when it is asked to, as a real one does."""
    reply = reads(request)
    if not request.get("stream"):
        return reply
    text = reply if isinstance(reply, str) else str(reply.text if isinstance(reply, Chat) else reply)
    head = {"id": "c", "object": "chat.completion.chunk", "created": 0, "model": "scripted"}
    chunks = [
        *({**head, "choices": [{"index": 0, "delta": {"content": word}}]} for word in text.split(" ")),
        {**head, "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]},
    ]
    body = "".join(f"data: {json.dumps(chunk)}\n\n" for chunk in chunks) + "data: [DONE]\n\n"
    return Raw(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n" + body.encode())


@pytest.fixture
def address(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    for name in [name for name in os.environ if name.startswith(("CONVMEM_", "OPENAI_")) and name != "CONVMEM_CLIENTS"]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("CONVMEM_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    (tmp_path / "book.txt").write_text(BOOK, "utf-8")
    with ScriptedServer(talks) as upstream, Serving(upstream.url, data=tmp_path / "data") as serving:
        yield serving.url


@pytest.fixture
def run(tmp_path: Path) -> Callable[..., str]:
    """Runs a command of the clients' environment, and gives what it printed."""
    folder = Path(os.environ.get("CONVMEM_CLIENTS", ".venv-clients")).absolute() / "bin"

    def command(name: str, *arguments: str, **more: Any) -> str:
        environment = {"PATH": f"{folder}:/usr/bin:/bin", "HOME": str(tmp_path), "NO_PROXY": "*", **more.pop("env", {})}
        done = subprocess.run(
            [folder / name, *arguments], env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=300,
            check=False, **more,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    return command


def program(run: Callable[..., str], name: str, address: str) -> Json:
    said: Json = json.loads(run("python", str(PROGRAMS / name), f"{address}/v1", "book.txt", QUESTION))
    return said


def test_the_official_client(run: Callable[..., str], address: str) -> None:
    said = program(run, "with_openai.py", address)
    assert said["models"] == ["scripted", "scripted:lean", "scripted:paper"]
    assert said["short"] == "Hello to you."
    assert said["whole"].startswith(ANSWER) and said["tokens"] > 0
    assert said["cited"][0].startswith(f"{address}/#document=doc_")
    assert said["streamed"] == said["whole"] and "windows" in said["reasoning"]
    assert [each["url_citation"]["url"] for each in said["annotations"]] == said["cited"] and said["stream_usage"]
    assert said["uploaded"] == said["whole"] or said["uploaded"].startswith(ANSWER)
    assert said["file"] == [said["listed"][0], "processed", True] and said["deleted"]
    assert (said["error"]["code"], said["error"]["param"]) == ("model_not_found", "model")


def test_langchain(run: Callable[..., str], address: str) -> None:
    said = program(run, "with_langchain.py", address)
    assert said["short"] == "Hello to you." and said["tokens"] > 0
    assert said["whole"].startswith(ANSWER) and said["streamed"] == said["whole"]


def test_llama_index(run: Callable[..., str], address: str) -> None:
    said = program(run, "with_llama_index.py", address)
    assert said["short"] == "Hello to you."
    assert said["whole"].startswith(ANSWER) and said["streamed"] == said["whole"]


@pytest.mark.parametrize("stream", [(), ("--no-stream",)])
def test_the_llm_command(stream: tuple[str, ...], run: Callable[..., str], address: str, tmp_path: Path) -> None:
    models = f'- model_id: ours\n  model_name: scripted\n  api_base: "{address}/v1"\n'
    (tmp_path / "extra-openai-models.yaml").write_text(models)
    own = {"LLM_USER_PATH": str(tmp_path)}
    said = run("llm", "-m", "ours", *stream, QUESTION, env=own, input=BOOK + "\n")
    assert said.startswith(ANSWER)


def test_no_request_that_the_description_allows_fails_the_server(
    run: Callable[..., str], address: str, tmp_path: Path
) -> None:
    client = Client(address)
    document = client.upload(book__txt=BOOK.encode()).ok["id"]
    order = {"document": document, "question": QUESTION}
    started = client.post("/v1/runs", order).ok["id"]
    (tmp_path / "schemathesis.toml").write_text(f'[parameters]\ndocument = "{document}"\nrun = "{started}"\n')
    said = run(
        "schemathesis", "run", f"{address}/openapi.json", "--checks", "not_a_server_error", "--max-examples", "5",
        "--phases", "examples,coverage,fuzzing", "--seed", "1", "--exclude-method", "DELETE", "--no-color",
    )  # fmt: skip
    assert re.search(r"(\d+) generated, \1 passed", said), said
