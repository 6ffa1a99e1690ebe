"""How good the embedded model's answers are: the ten questions of the short sample, right or wrong, cited or not.

    python -m benchmarks.embedded [--set KEY=VALUE]…

One process asks all ten with preset ``lean``, so that what the questions share of a prompt is read once. A reply is
right where it holds the answer or an alias of it; a supporting sentence is cited where a citation holds a part of it.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from pathlib import Path

from convmem.core import Answer
from convmem.document import Document, GgufTokenizer
from convmem.methods.convmem import Config, ConvMem
from convmem.model import Cache, Embedded, find_local
from convmem.model.download import fetch

SAMPLE = Path(__file__).parents[1] / "samples" / "harbour"


def right(said: str, answers: list[str]) -> bool:
    plain = said.casefold().replace(",", "")
    return any(answer.casefold().replace(",", "") in plain for answer in answers)


def cited(answer: Answer, support: list[dict[str, int]]) -> int:
    """How many supporting sentences a citation shares text with."""
    spans = [citation.span for citation in answer.citations]
    return sum(any(s.start < unit["end"] and unit["start"] < s.end for s in spans) for unit in support)


async def main(settings: dict[str, str]) -> None:
    path = find_local() or fetch()
    model, cache = Embedded(path), Cache.temporary()
    document = Document.from_paths([SAMPLE.with_suffix(".md")])
    method = ConvMem(Config.preset("lean", **settings))
    hits = supported = units = 0
    for asked in json.loads(SAMPLE.with_suffix(".questions.json").read_text("utf-8")):
        started = time.perf_counter()
        answer = await method.answer(
            document, asked["question"], model=model, cache=cache, tokenizer=GgufTokenizer(path)
        )
        good = right(answer.text, [asked["answer"], *asked["aliases"]])
        found, of = cited(answer, asked["support"]), len(asked["support"])
        hits, supported, units = hits + good, supported + found, units + of
        seconds = time.perf_counter() - started
        mark = "right" if good else "wrong"
        print(f"{mark}  cited {found}/{of}  {seconds:4.0f} s  {asked['question']}  {answer.text}", flush=True)
    print(f"{hits} of 10 right, {supported} of {units} supporting sentences cited")
    await model.close()


if __name__ == "__main__":
    asyncio.run(main(dict(pair.split("=", 1) for pair in sys.argv[1:] if "=" in pair)))
