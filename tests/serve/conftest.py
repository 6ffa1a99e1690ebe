"""A server over a model that reads, in a folder of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from convmem.serve.database import Database
from convmem.serve.keys import Keys, Quota
from convmem.serve.services import FILE
from tests.support.home import move_in
from tests.support.reader import read
from tests.support.server import Json, Reply, ScriptedServer
from tests.support.serving import Client, Serving

BOOK = "\n\n".join(
    f"Chapter {n}. The keeper of lighthouse {n} was called Keeper{n}. It burned {n + 700} litres of oil a night."
    for n in range(1, 401)
)
QUESTION = "What was the keeper of lighthouse 77 called?"
ANSWER = "The keeper of lighthouse 77 was called Keeper77."


def reads(request: Json) -> Reply:
    """A model that reads, and takes a question that follows another as it stands."""
    prompt = request["messages"][-1]["content"]
    if '{"question": "...", "document": true}' in prompt:
        question = prompt.rpartition("Question: ")[2].partition("\n\n")[0]
        return {"question": question, "document": "thank" not in question}
    if "from the conversation alone" in prompt:
        return "You are welcome."
    return read(request) if prompt.startswith("<") or "sub_questions" in prompt else "Hello to you."


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    move_in(tmp_path, monkeypatch)
    return tmp_path


@pytest.fixture
def upstream() -> Iterator[ScriptedServer]:
    with ScriptedServer(reads) as running:
        yield running


@pytest.fixture
def serve(upstream: ScriptedServer, home: Path) -> Iterator[Callable[..., Serving]]:
    """Starts servers that share a data folder, over the scripted one where no model is named."""
    with ExitStack() as stack:

        def start(*models: str, **more: Any) -> Serving:
            return stack.enter_context(Serving(*(models or [upstream.url]), data=home / "data", **more))

        yield start


@pytest.fixture
def client(serve: Callable[..., Serving]) -> Client:
    return serve().client()


@pytest.fixture
def add_key(home: Path) -> Callable[..., str]:
    """Makes keys as ``convmem serve keys add`` does."""

    def add(name: str, **quota: Any) -> str:
        database = Database(home / "data" / FILE)
        try:
            return Keys(database).add(name, Quota(**quota))
        finally:
            database.close()

    return add
