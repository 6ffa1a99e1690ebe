"""Where files that outlive a run are kept. Knows nothing of what is in them."""

from __future__ import annotations

import os
import sys
from pathlib import Path


def cache_directory() -> Path:
    """``CONVMEM_CACHE_DIR``, or ``convmem`` under the directory that the platform has for caches."""
    if chosen := os.environ.get("CONVMEM_CACHE_DIR"):
        return Path(chosen).expanduser()
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local") / "convmem" / "Cache"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "convmem"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "convmem"
