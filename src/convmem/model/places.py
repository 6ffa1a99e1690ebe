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
    return _directory("CONVMEM_CACHE_DIR", windows="Cache", darwin="Caches", xdg="XDG_CACHE_HOME", other=".cache")


def data_directory() -> Path:
    """``CONVMEM_DATA_DIR``, or ``convmem`` under the directory that the platform has for what users keep.

    Raises InputError as `cache_directory` does.
    """
    return _directory(
        "CONVMEM_DATA_DIR", windows="Data", darwin="Application Support", xdg="XDG_DATA_HOME", other=".local/share"
    )


def calls_file() -> Path:
    """The store of replies that all runs of this user share. Raises InputError as `cache_directory` does."""
    return cache_directory() / "calls.sqlite"


def expand(path: str) -> Path:
    """``path`` with the home directory for a leading ``~``, where there is one to be found."""
    try:
        return Path(path).expanduser()
    except RuntimeError:
        return Path(path)


def _directory(variable: str, *, windows: str, darwin: str, xdg: str, other: str) -> Path:
    """The directory that ``variable`` names, else the platform's."""
    try:
        if chosen := os.environ.get(variable):
            return Path(chosen).expanduser()
        if sys.platform == "win32":
            return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local") / "convmem" / windows
        if sys.platform == "darwin":
            return Path.home() / "Library" / darwin / "convmem"
        return Path(os.environ.get(xdg) or Path.home() / other) / "convmem"
    except RuntimeError:
        raise InputError(f"There is no home directory to keep files in; {variable} names another.") from None
