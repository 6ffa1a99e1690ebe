"""Where files are kept, also for a user who has no home directory, as in some containers."""

from __future__ import annotations

import pwd
from pathlib import Path

import pytest

from convmem.core import InputError
from convmem.model import Cache, cache_directory, connect, expand


@pytest.fixture
def homeless(monkeypatch: pytest.MonkeyPatch) -> None:
    def nobody(_: object) -> object:
        raise KeyError

    for name in ("HOME", "XDG_CACHE_HOME", "CONVMEM_CACHE_DIR", "CONVMEM_GGUF"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(pwd, "getpwuid", nobody)
    monkeypatch.setattr(pwd, "getpwnam", nobody)


def test_the_environment_moves_the_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("CONVMEM_CACHE_DIR", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache_directory() == tmp_path / "xdg" / "convmem"
    monkeypatch.setenv("CONVMEM_CACHE_DIR", "~/ours")
    assert cache_directory() == tmp_path / "ours"


@pytest.mark.usefixtures("homeless")
def test_without_a_home_one_is_told_what_to_set() -> None:
    with pytest.raises(InputError, match="CONVMEM_CACHE_DIR"):
        cache_directory()
    with pytest.raises(InputError):
        connect("~/none.gguf")
    assert expand("~/x") == Path("~/x")


@pytest.mark.usefixtures("homeless")
def test_without_a_home_replies_are_kept_for_the_run_alone() -> None:
    said: list[str] = []
    cache = Cache.shared(said.append)
    assert cache.path is None and len(said) == 1 and "CONVMEM_CACHE_DIR" in said[0]
    cache.close()
