"""Where files that outlive a run are kept. Knows nothing of what is in them."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from convmem.core import InputError


def cache_directory() -> Path:
    """``CONVMEM_CACHE_DIR``, or ``convmem`` under the directory that the platform has for caches.

    Raises InputError where that is under a home directory, and there is none.
    """
    try:
        if chosen := os.environ.get("CONVMEM_CACHE_DIR"):
            return Path(chosen).expanduser()
        if sys.platform == "win32":
            return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local") / "convmem" / "Cache"
        if sys.platform == "darwin":
            return Path.home() / "Library" / "Caches" / "convmem"
        return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "convmem"
    except RuntimeError:
        raise InputError("There is no home directory to keep a cache in; CONVMEM_CACHE_DIR names another.") from None


def calls_file() -> Path:
    """The store of replies that all runs of this user share. Raises InputError as `cache_directory` does."""
    return cache_directory() / "calls.sqlite"


def expand(path: str) -> Path:
    """``path`` with the home directory for a leading ``~``, where there is one to be found."""
    try:
        return Path(path).expanduser()
    except RuntimeError:
        return Path(path)
