"""How near a plan comes to what its run then uses: tokens of prompts and replies, and calls.

    python -m benchmarks.plans BUILT… [--docs 200] [--n 12] [--half even] [--reader sim:recall=0.9,foresight=0.3]

BUILT are directories that ``convmem bench build`` wrote. Each question is run once, by presets ``paper`` and ``lean``
and by ``lean`` with a budget of 5%, and planned three times: *cold*, as for a model that nothing is known of; *told*,
the same with the number of its sub-questions given; and *warm*, with what three or more earlier questions of that
dataset, asked in the same way, left in the store. Printed are, over all datasets, the share of plans within 20% of what
was used, the median of planned over used, and the one farthest from 1. The estimates were developed on the questions
with odd numbers (from 1), so the even half is reported. A budget that is too small to read anything is left out. The
model is simulated; ``--each`` prints every run too.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import log
from pathlib import Path
from statistics import mean, median

from benchmarks.lean import half
from convmem.bench.contexts import Benchmark, Case
from convmem.bench.simulation import focused, knowledge_of
from convmem.core import BudgetExhausted, Plan, Totals
from convmem.document import Document
from convmem.methods.base import facts_of
from convmem.methods.convmem import Config, ConvMem
from convmem.model import Cache, SimulatedReader, connect
from convmem.run import RunSettings, simulate

WAYS = {
    "paper": ("paper", RunSettings()),
    "lean": ("lean", RunSettings()),
    "lean, budget of 5%": ("lean", RunSettings.model_validate({"budget": "5%"})),
}
NEAR = 0.2
AMOUNTS = ("tokens", "prompts", "replies", "calls")


@dataclass(frozen=True, slots=True)
class Amounts:
    """What was planned or used: tokens in all, of prompts, of replies; and calls."""

    tokens: int
    prompts: int
    replies: int
    calls: int

    @classmethod
    def of(cls, what: Plan | Totals) -> Amounts:
        return cls(
            what.prompt_tokens + what.completion_tokens, what.prompt_tokens, what.completion_tokens, what.calls
        )  # fmt: skip

    def ratio(self, used: Amounts, name: str) -> float:
        """What was planned of it over what was used."""
        return float(getattr(self, name) / max(getattr(used, name), 1))


@dataclass(frozen=True, slots=True)
class Asked:
    """A question that was run, and what each kind of plan had said of it."""

    way: str
    docs: int
    used: Amounts
    plans: Mapping[str, Amounts]


def asked(benchmark: Benchmark, cases: list[Case], reader: SimulatedReader, way: str) -> Iterator[Asked]:
    """Every case, one after the other, with the experience of those before it."""
    preset, settings = WAYS[way]
    method, store = ConvMem(Config.preset(preset)), Cache.temporary()
    for case in cases:
        document = Document.from_text(benchmark.text(case))
        model = reader.knowing(knowledge_of(focused(case, document), document))
        cache = Cache.temporary()
        try:
            made = simulate(method.answer(document, case.question, model=model, settings=settings, cache=cache))
        except BudgetExhausted:
            continue
        assert made.plan
        limits, seen = settings.of(made.coverage.tokens), cache.experience(model.identity)
        nothing, known = (facts_of(model, model.tokenizer, limits, each) for each in (None, store))
        told = ConvMem(Config.preset(preset, expected_channels=seen.counts["sub_questions"][1]))
        plans = {"cold": made.plan, "told": told.plan(document, nothing, case.question)}
        if known.usual:
            plans["warm"] = method.plan(document, known, case.question)
        store.learn(model.identity, seen)
        used = Amounts.of(made.usage.total)
        yield Asked(way, case.docs, used, {kind: Amounts.of(plan) for kind, plan in plans.items()})


def show(rows: list[Asked]) -> None:
    """One line a way, length and kind of plan."""
    groups = defaultdict(list)
    for row in rows:
        for kind, plan in row.plans.items():
            groups[row.docs, row.way, kind].append((plan, row.used))
    print(f"{'':33}" + "".join(f"{name:>24}" for name in AMOUNTS) + "   (simulated)")
    for (docs, way, kind), pairs in groups.items():
        line = f"{docs:5} {way:18} {kind} {len(pairs):3}"
        for name in AMOUNTS:
            ratios = [plan.ratio(used, name) for plan, used in pairs]
            near = mean(abs(ratio - 1) <= NEAR for ratio in ratios)
            worst = max(ratios, key=lambda ratio: abs(log(max(ratio, 1e-9))))
            line += f"{near:9.0%} {median(ratios):6.2f} {worst:7.2f}"
        print(line)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("built", nargs="+", type=Path)
    parser.add_argument("--docs", default="200")
    parser.add_argument("--n", type=int, default=12)
    parser.add_argument("--half", choices=("odd", "even"), default="even")
    parser.add_argument("--reader", default="sim:recall=0.9,foresight=0.3")
    parser.add_argument("--only", default="")
    parser.add_argument("--each", action="store_true")
    given = parser.parse_args()
    reader = connect(given.reader)
    assert isinstance(reader, SimulatedReader)
    rows = []
    for docs in map(int, given.docs.split(",")):
        for way in given.only.split(";") if given.only else WAYS:
            for path in given.built:
                benchmark = half(Benchmark.load(path), [docs], given.half, given.n)
                for row in asked(benchmark, list(benchmark.cases), reader, way):
                    rows.append(row)
                    if given.each:
                        print(benchmark.dataset, row, flush=True)
    show(rows)


if __name__ == "__main__":
    main()
