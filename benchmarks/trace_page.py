"""The evidence page of a run with 3,348 calls over a 4 MB document: its size, and how fast Chromium shows it.

Prints the page's size over that of the document and the replies (at most 1.5), and the time from navigation until the
page can be used and until it is painted (at most 2 seconds).
"""

from __future__ import annotations

import os
import shutil
import statistics
import tempfile
import time
from pathlib import Path

from playwright.sync_api import sync_playwright

from convmem.trace import encode, to_html
from tests.support.traces import long_run

SELECTED = "() => { const start = performance.now(); select(1500); return performance.now() - start; }"
PAINTED = "() => new Promise((done) => requestAnimationFrame(() => setTimeout(() => done(performance.now()))))"


def main() -> None:
    run = long_run()
    started = time.perf_counter()
    data = run.export()
    page = to_html(data)
    seconds = time.perf_counter() - started
    texts = len(run.document.all.encode()) + sum(len(reply.encode()) for reply in run.replies.values())
    print(f"{len(run.trace):,} calls, {texts / 1e6:.2f} MB of document and replies; exported in {seconds:.1f} s")
    print(f"size over document and replies: page {len(page) / texts:.2f}, JSON {len(encode(data)) / texts:.2f}")
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        file = Path(folder, "page.html")
        file.write_bytes(page)
        path = os.environ.get("CONVMEM_CHROMIUM") or shutil.which("chromium")
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox", "--disable-gpu"])
        ready, painted, clicks = [], [], []
        for _ in range(5):
            tab = browser.new_page(viewport={"width": 1440, "height": 900})
            tab.add_init_script(
                "new MutationObserver(() => window.ready ??= performance.now()).observe(document, "
                "{ attributes: true, subtree: true, attributeFilter: ['data-ready'] })"
            )
            tab.goto(file.as_uri())
            tab.wait_for_selector("html[data-ready]", state="attached")
            painted.append(tab.evaluate(PAINTED))
            ready.append(tab.evaluate("ready"))
            clicks.append(tab.evaluate(SELECTED))
        processes = browser.new_browser_cdp_session().send("SystemInfo.getProcessInfo")["processInfo"]
        busy = [process["cpuTime"] for process in processes if process["type"] == "renderer"]
        browser.close()
    print(f"usable after {statistics.median(ready):.0f} ms, painted after {statistics.median(painted):.0f} ms")
    print(f"CPU time of a page's process: {statistics.median(busy):.2f} s")
    print(f"selecting a call: {statistics.median(clicks):.0f} ms")


if __name__ == "__main__":
    main()
