"""Draws docs/images: the evidence page of a run over samples/archive.md, in light and in dark.

The run is ConvMem's own, preset paper with small windows. What answers it is a script and no language model: it reads
each prompt, finds the sentences that hold the question's words, and knows no other text. Its time is simulated, so the
page and the pictures come out the same each time. Needs Chromium, and the packages of `scripts/setup test`:

    .venv/bin/python scripts/evidence_picture.py
"""

from __future__ import annotations

import json
import math
import os
import re
import shutil
import tempfile
from collections import Counter
from pathlib import Path
from typing import NamedTuple

from playwright.sync_api import sync_playwright

from convmem import Cache, Config, ConvMem, Document, write_trace
from convmem.core import Answer, Call
from convmem.memory.quoting import terms
from convmem.model.simulated import Behaviour, SimulatedReader
from convmem.run import simulate

ROOT = Path(__file__).parents[1]
IMAGES = ROOT / "docs" / "images"
QUESTION = "What was the real cause of the fire in the water mill at Brackwell in 1850?"
ANSWER = "A lamp left by a lodger, and not a spark from a passing smith's cart"
DIRECT, BACKGROUND = 0.75, 0.4
"""Shares of a question's words, weighed by how rare they are, that make a sentence direct evidence or background."""

VIEW, SCALE = {"width": 1680, "height": 1517}, 6 / 7
"""What the browser shows, in its pixels, and how many of the picture's pixels are one of them."""


class Part(NamedTuple):
    """A sub-question, the words to look for, and its answer, which is given where a passage holds it."""

    question: str
    words: str
    answer: str


PARTS = (
    Part(
        "What was said to be the cause when the water mill at Brackwell burned in 1850?",
        "water mill Brackwell burned fire 1850 said",
        "a spark from a passing smith's cart",
    ),
    Part(
        "What did an inquiry find about the burning of the water mill at Brackwell in 1850?",
        "inquiry burning water mill Brackwell 1850",
        "a lamp left by a lodger",
    ),
)


class Script(SimulatedReader):
    """Replies to the prompts of preset paper by the words that sentences share with a question."""

    identity = "a script, no model"

    def __init__(self, document: Document) -> None:
        super().__init__(Behaviour())
        sentences = [set(terms(text)) for text in _sentences(document.sources[0].text)]
        held = Counter(term for sentence in sentences for term in sentence)
        self._weights = {term: math.log(len(sentences) / count) for term, count in held.items()}

    def answer(self, call: Call, size: int) -> tuple[str, tuple[()]]:
        prompt = call.messages[-1].content
        text = re.split(r"\n</\w+>\n", prompt)[0]
        part = next((part for part in PARTS if part.question in prompt), PARTS[0])
        shares = {sentence: self._share(sentence, part.words) for sentence in _sentences(text)}
        said: object
        match call.role:
            case "decompose":
                said = {"sub_questions": [p.question for p in PARTS], "keywords": ["water mill", "Brackwell", "1850"]}
            case "relevance":
                most = max(shares.values())
                said = {"relevance": 2 if most >= DIRECT else 1 if most >= BACKGROUND else 0}
            case "sub_answer":
                passages = re.split(r"^\[\d+\] ", text, flags=re.MULTILINE)[1:]
                holding = [n for n, passage in enumerate(passages, 1) if part.answer in passage]
                best = sorted(holding, key=lambda n: self._share(passages[n - 1], part.words))[-1:]
                said = {"answer": part.answer if best else "not found", "passages": best}
            case "answer":
                said = {"answer": ANSWER, "findings": [2, 1]}
            case _:
                notes = (sentence for sentence, share in shares.items() if share >= BACKGROUND)
                return "\n".join(f"- {note}" for note in notes) or "NONE", ()
        return json.dumps(said), ()

    def _share(self, sentence: str, words: str) -> float:
        wanted = {term: self._weights.get(term, 0.0) for term in terms(words)}
        return sum(wanted[term] for term in wanted.keys() & set(terms(sentence))) / sum(wanted.values())


def _sentences(text: str) -> list[str]:
    return [line.removeprefix("- ") for line in re.split(r"(?<=[.!?])\s+|\n+", text) if line.strip()]


def main() -> None:
    """Write the pictures."""
    document = Document.from_paths([ROOT / "samples" / "archive.md"])
    document = Document.from_text(document.sources[0].text, "archive.md")
    cache = Cache.temporary()
    method = ConvMem(Config.preset("paper", window=1_600))
    answer = simulate(method.answer(document, QUESTION, model=Script(document), cache=cache))
    IMAGES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        file = Path(folder) / "evidence.html"
        write_trace(file, answer.trace, document, cache=cache)
        path = os.environ.get("CONVMEM_CHROMIUM") or shutil.which("chromium")
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox", "--disable-gpu"])
        for name, scheme in (("evidence-page.png", "light"), ("evidence-page-dark.png", "dark")):
            page = browser.new_page(viewport=VIEW, device_scale_factor=SCALE, color_scheme=scheme)
            page.goto(file.as_uri())
            page.wait_for_selector("html[data-ready]", state="attached")
            page.evaluate("node => select(node)", _found(answer))
            page.evaluate("() => scrollTo(0, 0)")
            page.wait_for_timeout(500)  # until the document has scrolled to its place
            page.screenshot(path=IMAGES / name)
        browser.close()


def _found(answer: Answer) -> int:
    """The summary of a window that holds what the inquiry found."""
    [cited] = [c.span for c in answer.citations if PARTS[1].answer in c.quote]
    return next(
        number
        for number, node in enumerate(answer.trace)
        if node.role == "summarize" and node.channel == "2" and node.relevance == 2 and node.window.overlaps(cited)
    )


if __name__ == "__main__":
    main()
