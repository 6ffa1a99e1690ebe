"""What a verifier accepts of each kind of claim in ``samples/claims.jsonl``, and what the threshold does.

    python -m benchmarks.verifiers [--verifier model|nli:PATH|quotation] [--model M] [--n N]

Two tables in Markdown: accepted pairs by kind at several thresholds, with those told to be contradicted; and recall,
false acceptance and faithfulness at each threshold, with Wilson's 95% intervals. Replies are stored, so that to print
them again costs nothing.
"""

from __future__ import annotations

import argparse
import asyncio
from contextlib import AsyncExitStack, closing
from pathlib import Path

from convmem import api
from convmem.model import Cache
from convmem.settings import resolve
from convmem.verify import verifier
from convmem.verify.calibration import Judged, Labelled, Rate, audit, judge_all, read_pairs, sample

PAIRS = Path(__file__).parents[1] / "samples" / "claims.jsonl"
THRESHOLDS = (0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)


async def judged(labelled: list[Labelled], name: str, model: str | None) -> Judged:
    settings = resolve({"verifier": name} | ({"model": model} if model else {}))
    async with AsyncExitStack() as stack:
        cache = stack.enter_context(closing(Cache.shared()))
        models = api.connected(settings, stack)
        if name == "model":
            await models[""].prepare()
        return await judge_all(labelled, verifier(name), models, settings=settings.run, cache=cache)


def row(*cells: object) -> None:
    print("|", " | ".join(map(str, cells)), "|")


def share(rate: Rate) -> str:
    low, high = rate.interval
    return f"{100 * rate.share:.0f}% ({100 * low:.0f} to {100 * high:.0f})" if rate.of else "none"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--verifier", default="model")
    parser.add_argument("--model")
    parser.add_argument("--n", type=int)
    given = parser.parse_args()
    labelled = read_pairs(PAIRS)
    labelled = sample(labelled, given.n or len(labelled))
    found = asyncio.run(judged(labelled, given.verifier, given.model))
    audits = [audit(labelled, found.judgements, threshold) for threshold in THRESHOLDS]
    row("kind", "pairs", *(f"from {threshold:g}" for threshold in THRESHOLDS), "contradicted")
    row(*["---"] * (len(THRESHOLDS) + 3))
    for kind in dict.fromkeys(each.kind for each in labelled):
        against = [j.contradicts for each, j in zip(labelled, found.judgements, strict=True) if each.kind == kind]
        row(kind, len(against), *(each.accepted[kind].hits for each in audits), sum(against))
    print()
    row("threshold", "recall", "false acceptance", "faithfulness")
    row(*["---"] * 4)
    for threshold, each in zip(THRESHOLDS, audits, strict=True):
        recalled = Rate(each.false_rejection.of - each.false_rejection.hits, each.false_rejection.of)
        row(f"{threshold:g}", share(recalled), share(each.false_acceptance), share(each.faithfulness))


if __name__ == "__main__":
    main()
