"""The whole system against real servers: a folder of one's own, the command as a process, and runs in this one."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import convmem
from convmem import Document
from convmem.core import Answer
from convmem.model import Cache
from tests.support.home import move_in
from tests.support.server import ScriptedServer

TEXT = "\n\n".join(
    f"Chapter {n}. The keeper of lighthouse {n} was called Keeper{n}. It burned {n + 700} litres of oil a night."
    for n in range(1, 61)
)
QUESTION = "What was the keeper of lighthouse 7 called and who was the keeper of lighthouse 41 called?"
SETTINGS: dict[str, dict[str, Any]] = {
    "paper": {"preset": "paper", "window": 200, "stride": 100, "one_call_tokens": 0},
    "lean": {"preset": "lean", "window": 120, "one_call_tokens": 0},
}
PRESETS = list(SETTINGS)


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder to work in, with no setting from outside, and no waits between tries."""
    move_in(tmp_path, monkeypatch)
    (tmp_path / "archive.txt").write_text(TEXT, "utf-8")
    return tmp_path


def ask(
    server: ScriptedServer, preset: str, document: Document | str = TEXT, question: str = QUESTION, **more: Any
) -> Answer:
    """An answer by a preset, scaled down so that a short document has many windows."""
    document = Document.from_text(document) if isinstance(document, str) else document
    return convmem.ask(document, question, model=server.url, **{"cache": False, **SETTINGS[preset], **more})


def replies(answer: Answer, cache: Cache) -> Counter[Any]:
    """What every call was answered, whatever the order of the calls."""
    stored = ((node, cache.get(node.key) if node.key else None) for node in answer.trace)
    return Counter((n.role, n.layer, n.channel, n.window, n.status, reply and reply.text) for n, reply in stored)


def options(preset: str) -> list[str]:
    """The settings of a preset as the command takes them."""
    settings = dict(SETTINGS[preset])
    return ["--preset", settings.pop("preset"), *(word for k, v in settings.items() for word in ("--set", f"{k}={v}"))]


def command(*arguments: str, **more: Any) -> subprocess.CompletedProcess[str]:
    """The command as a process of its own, run to its end."""
    given = {"capture_output": True, "text": True, "errors": "replace", "timeout": 120, **more}
    return subprocess.run([sys.executable, "-m", "convmem", *arguments], check=False, **given)


def printed(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    """What ``--json`` printed."""
    assert done.returncode == 0, done.stderr
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer
