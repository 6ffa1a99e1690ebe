"""What our own code loses: with a simulated reader that misses nothing, every wrong answer is a bug of ours.

    python -m benchmarks.lossless [--n 5] [--docs 50,200,…] [--methods convmem:paper,…]

Recall and foresight 1, no dilution, no noise. Target: 100 at every length, for `convmem:paper`. Real datasets are read
from ``../shared/data`` where that is there; the synthetic world always is.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections import defaultdict
from pathlib import Path

from convmem.bench import prepare
from convmem.bench.contexts import Recipe
from convmem.bench.entries import entries
from convmem.bench.results import Results, Row
from convmem.bench.runner import Runner
from convmem.document import EstimateTokenizer
from convmem.model import Cache, connect

DATA = Path(__file__).parents[2] / "shared" / "data"
DATASETS = ("hotpotqa.json", "2wikimultihopqa.json", "musique.json")
DOCS = (50, 100, 200, 400, 800, 1600, 3200, 6400)
PERFECT = "sim:recall=1,foresight=1,blind=1,dilution=0,noise=0"


def rows(dataset: str, pool: Path | None, docs: tuple[int, ...], count: int, methods: str) -> list[Row]:
    """The rows of ``methods`` by the perfect reader over ``count`` questions at each length."""
    recipe = Recipe(docs, seed=4)
    made: list[Row] = []
    with tempfile.TemporaryDirectory() as directory:
        source = prepare.read(dataset, "auto", pool, recipe, count)
        benchmark = prepare.write(source, recipe, count, Path(directory, "built"), EstimateTokenizer())
        results = Results(Path(directory, "results"))
        competing = entries(methods.split(","), {}, None)
        Runner(benchmark, results, competing, [connect(PERFECT)], [0], Cache.temporary(), count=count).run(
            lambda _: None, made.append
        )
    return made


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--n", type=int, default=5)
    parser.add_argument("--docs", default=",".join(map(str, DOCS)))
    parser.add_argument("--methods", default="convmem:paper")
    options = parser.parse_args()
    docs = tuple(map(int, options.docs.split(",")))
    datasets = [str(DATA / name) for name in DATASETS if (DATA / name).exists()]
    pool = DATA / "passages.jsonl"
    print(f"{'dataset':<18}{'method':<20}" + "".join(f"{size:>8}" for size in docs))
    for dataset in [*datasets, "synthetic:hops=2,3,4"]:
        started = time.process_time()
        scores: dict[str, dict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
        for row in rows(dataset, pool if pool.exists() else None, docs, options.n, options.methods):
            em = (row.scores or {}).get("em") or 0.0
            scores[row.label][row.docs].append(em)
            if not em:
                print(f"  lost: {row.dataset} {row.question} {row.docs} {row.label}: {row.evidence} {row.error}")
        for label, lengths in scores.items():
            means = (100 * sum(lengths[size]) / len(lengths[size]) for size in docs)
            print(f"{Path(dataset).stem[:17]:<18}{label:<20}" + "".join(f"{mean:8.1f}" for mean in means), flush=True)
        print(f"  ({time.process_time() - started:.0f} s CPU)", flush=True)


if __name__ == "__main__":
    main()
