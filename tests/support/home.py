"""An empty folder to work in: no setting from outside, and no wait between tries."""

from __future__ import annotations

import os
from pathlib import Path

import pytest


def move_in(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make ``folder`` the home, the cache's place and the working directory of a test."""
    for name in [name for name in os.environ if name.startswith("CONVMEM_") or name == "OPENAI_API_KEY"]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(folder / "home"))
    monkeypatch.setenv("CONVMEM_CACHE_DIR", str(folder / "cache"))
    monkeypatch.chdir(folder)
    monkeypatch.setattr("convmem.run.retry._FIRST_WAIT", 0.0)
