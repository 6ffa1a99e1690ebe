"""What holds for the benchmark's tests: each has a store of its own, and nobody's settings."""

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CONVMEM_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("CONVMEM_CONFIG", "/dev/null")
