"""Draws docs/images/server-*.png: the server's page over samples/archive.md, with two ways of reading side by side.

What answers is a script and no language model: it finds the sentences of a prompt that hold the question's words. Needs
Chromium, and the packages of `scripts/setup test`:

    PYTHONPATH=. .venv/bin/python scripts/server_picture.py
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from playwright.sync_api import Page, expect

from tests.support.chromium import chromium
from tests.support.reader import read
from tests.support.server import ScriptedServer
from tests.support.serving import Serving

ROOT = Path(__file__).parents[1]
IMAGES = ROOT / "docs" / "images"
QUESTION = "Who found the lost seal of the valley in 1884?"


def ask(page: Page) -> None:
    """Upload the archive, and ask in two ways."""
    page.set_input_files("#files", ROOT / "samples" / "archive.md")
    expect(page.locator(".book input")).to_be_checked()
    page.get_by_label("convmem · paper").check()
    page.fill("#question", QUESTION)
    expect(page.locator(".estimate").nth(1)).to_contain_text("tokens")
    page.press("#question", "Enter")
    expect(page.locator(".final")).to_have_count(2, timeout=120_000)


def main() -> None:
    """Draw the pictures."""
    with tempfile.TemporaryDirectory() as folder, ScriptedServer(read) as model, chromium() as browser:
        os.environ["CONVMEM_CACHE_DIR"] = f"{folder}/cache"
        with Serving(model.url, data=Path(folder)) as server:
            page = browser.new_page(viewport={"width": 1200, "height": 900})
            page.goto(server.url)
            ask(page)
            page.screenshot(path=IMAGES / "server-page.png", full_page=True)
            page.locator(".citation").first.click()
            expect(page.locator("#reader mark")).to_be_visible()
            page.screenshot(path=IMAGES / "server-citation.png")
            phone = browser.new_page(viewport={"width": 400, "height": 800}, color_scheme="dark")
            phone.goto(page.url)
            expect(phone.locator(".final")).to_have_count(2)
            phone.locator(".run").first.scroll_into_view_if_needed()
            phone.screenshot(path=IMAGES / "server-phone.png")


if __name__ == "__main__":
    main()
