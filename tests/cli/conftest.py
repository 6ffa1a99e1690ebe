"""The command as a person has it: a folder of their own, a model over HTTP, an exit code and two streams."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from convmem.cli.main import main
from tests.support.reader import read
from tests.support.server import ScriptedServer

ARCHIVE = "\n\n".join(
    f"Chapter {n}. The keeper of lighthouse {n} was called Keeper{n}. It burned {n + 7} litres of oil a night."
    for n in range(1, 121)
)
QUESTION = "What was the keeper of lighthouse 77 called?"


@dataclass(frozen=True)
class Outcome:
    """What a command left: its exit code, standard output and standard error."""

    code: int
    out: str
    err: str


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty folder to work in, with one long document, and no setting from outside."""
    for name in [name for name in os.environ if name.startswith("CONVMEM_") or name == "OPENAI_API_KEY"]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("CONVMEM_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "archive.txt").write_text(ARCHIVE, "utf-8")
    on_terminate = signal.getsignal(signal.SIGTERM)
    yield tmp_path
    signal.signal(signal.SIGTERM, on_terminate)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[ScriptedServer]:
    """A model that reads, which is the one that is asked where none is named."""
    with ScriptedServer(read) as running:
        monkeypatch.setenv("CONVMEM_MODEL", running.url)
        yield running


@pytest.fixture
def convmem(capsys: pytest.CaptureFixture[str]) -> Callable[..., Outcome]:
    """Runs the command in this process."""

    def run(*arguments: str) -> Outcome:
        with pytest.raises(SystemExit) as ended:
            main(arguments)
        code = ended.value.code
        return Outcome(int(code or 0), *capsys.readouterr())

    return run
