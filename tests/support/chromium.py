"""Headless Chromium, and what a page complains of."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager

from playwright.sync_api import Browser, sync_playwright

_ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"]


@contextmanager
def chromium() -> Iterator[Browser]:
    """A browser of its own for the block."""
    path = os.environ.get("CONVMEM_CHROMIUM") or shutil.which("chromium")
    assert path, "these tests need Chromium: install it, or set CONVMEM_CHROMIUM to its path"
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=path, args=_ARGUMENTS)
        yield started
        started.close()
