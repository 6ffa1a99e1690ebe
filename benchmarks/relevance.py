"""How well the embedded model's one-token score, shared words, and both together rank paragraphs by relevance.

    python -m benchmarks.relevance HOTPOTQA.json [FIRST [COUNT]]

For questions in HotpotQA's format, from number FIRST (0) on, COUNT (5) of them: the area under the curve (AUC), the
probability that a supporting paragraph is ranked above one of the question's own distractors. Lean's prompt and its
lexical weight were chosen on the questions 0 to 24 of a file of 50; report on the others.
"""

from __future__ import annotations

import asyncio
import json
import math
import sys
from itertools import product
from pathlib import Path
from statistics import mean
from typing import Any

from convmem import prompts
from convmem.core import Call, Sampling
from convmem.memory.quoting import Overlap
from convmem.methods.convmem import Config
from convmem.model import Embedded, find_local
from convmem.model.download import fetch


def auc(relevant: list[float], others: list[float]) -> float:
    return mean((a > b) + (a == b) / 2 for a, b in product(relevant, others))


async def log_odds(model: Embedded, text: str, question: str) -> float:
    """Of Yes against No at the first token of the reply."""
    messages = prompts.load("score").render({"window": text, "question": question})
    reply = await model.complete(Call("score", messages, Sampling(1, top_logprobs=10)))
    mass = {"yes": 1e-9, "no": 1e-9}
    for token, logprob in reply.logprobs[0].top:
        if (word := token.strip().casefold()) in mass:
            mass[word] += math.exp(logprob)
    return math.log(mass["yes"] / mass["no"])


async def main(questions: list[dict[str, Any]]) -> None:
    model = Embedded(find_local() or fetch())
    await model.prepare()
    weight = Config.preset("lean").lexical_weight
    found: dict[str, list[float]] = {"model": [], "words": [], "both": []}
    for asked in questions:
        texts = [f"{title}\n{''.join(sentences)}" for title, sentences in asked["context"]]
        titles = {title for title, _ in asked["supporting_facts"]}
        support = [title in titles for title, _ in asked["context"]]
        words = Overlap(texts).shares(asked["question"])
        scores = [await log_odds(model, text, asked["question"]) for text in texts]
        both = [score + weight * share for score, share in zip(scores, words, strict=True)]
        for name, ranked in (("model", scores), ("words", words), ("both", both)):
            found[name].append(
                auc(
                    [s for s, supports in zip(ranked, support, strict=True) if supports],
                    [s for s, supports in zip(ranked, support, strict=True) if not supports],
                )
            )
        print({name: round(mean(values), 3) for name, values in found.items()}, len(found["model"]), flush=True)
    await model.close()


if __name__ == "__main__":
    file, first, count = (*sys.argv[1:], *("0", "5")[len(sys.argv) - 2 :])
    asked = json.loads(Path(file).read_text("utf-8"))
    asyncio.run(main(asked[int(first) : int(first) + int(count)]))
