"""CPU time and memory of `convmem:paper` over 6,400 documents, the simulated model's own time left out.

    python -m benchmarks.simulated_pipeline [--docs 6400]

A synthetic question of three hops, so three channels and about 2,700 calls at layer 0. Target: under 20 s of CPU and
1 GB of memory on two cores.
"""

from __future__ import annotations

import argparse
import resource
import tempfile
import time
from pathlib import Path

from convmem.bench import prepare
from convmem.bench.contexts import Recipe
from convmem.bench.simulation import knowledge_of
from convmem.core import Call
from convmem.document import Document, EstimateTokenizer
from convmem.methods import method
from convmem.model import Cache, SimulatedReader
from convmem.model.simulated import Behaviour
from convmem.model.simulated.replies import Said
from convmem.run import simulate


class Timed(SimulatedReader):
    """Counts the CPU seconds that its replies take."""

    spent = 0.0

    def answer(self, call: Call, size: int) -> Said | None:
        started = time.process_time()
        try:
            return super().answer(call, size)
        finally:
            self.spent += time.process_time() - started


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--docs", type=int, default=6_400)
    docs = parser.parse_args().docs
    recipe = Recipe((docs,), seed=4)
    with tempfile.TemporaryDirectory() as directory:
        source = prepare.read("synthetic:hops=3", "auto", None, recipe, 1)
        benchmark = prepare.write(source, recipe, 1, Path(directory, "built"), EstimateTokenizer())
        case = benchmark.cases[0]
        document = Document.from_text(benchmark.text(case))
    del source
    model = Timed(Behaviour(), knowledge_of(case, document))
    paper = method("convmem")
    started = time.process_time()
    answer = simulate(
        paper(paper.Config.preset("paper")).answer(document, case.question, model=model, cache=Cache.temporary())
    )
    spent = time.process_time() - started - model.spent
    usage = answer.usage
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1_000_000
    print(f"{docs:,} documents, {answer.coverage.tokens:,} tokens, {len(answer.sub_questions)} channels")
    print("  by role: " + ", ".join(f"{role} {totals.calls:,}" for role, totals in usage.by_role.items()))
    print(f"  {usage.total.prompt_tokens:,} prompt tokens; simulated {usage.seconds:,.0f} s on {model.slots} slots")
    print(f"{spent:.1f} s CPU (target 20) beside {model.spent:.1f} s of the reader; {memory:.2f} GB at most (target 1)")


if __name__ == "__main__":
    main()
