"""What a question costs on an indexed document, and how often it is answered: beside it, the same without an index.

    python -m benchmarks.second_question DIR --model sim:recall=0.9,foresight=0.3 --first 25 --count 25 [--lean]

For each question of a built benchmark, its context is indexed by a simulated reader, which does not know what will be
asked; then the question is asked twice with an empty store of replies: looked up, and with ``--lean`` read for by the
preset. Printed are F1, the prompt tokens of the question for each token of the document, calls, and how many questions
the index alone answered; last the difference of F1, with its 95% interval by the paired bootstrap.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import numpy as np

from convmem.bench.contexts import Benchmark, Case
from convmem.bench.metrics import score
from convmem.bench.simulation import focused, knowledge_of
from convmem.core import Answer
from convmem.document import Document
from convmem.methods.convmem import Config, ConvMem
from convmem.methods.convmem.index import index
from convmem.model import Cache, SimulatedReader, connect
from convmem.run import RunSettings, simulate

RESAMPLES = 10_000


def main() -> None:
    """Ask, and print a line for each way."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--model", default="sim:recall=0.9")
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--count", type=int, default=1_000)
    parser.add_argument("--kind", choices=["records", "summary"], default="records")
    parser.add_argument("--lean", action="store_true", help="ask without an index too")
    given = parser.parse_args()
    benchmark, reader = Benchmark.load(given.directory), connect(given.model)
    assert isinstance(reader, SimulatedReader)
    cases = benchmark.cases[given.first : given.first + given.count]
    ways: dict[str, list[tuple[float, Answer]]] = {"indexed": []} | ({"lean": []} if given.lean else {})
    for case in cases:
        for way, answer in _answers(case, benchmark, reader, given.kind, given.lean):
            ways[way].append((100 * score(answer.text, case.answers).f1, answer))
    for way, rows in ways.items():
        shares = [answer.usage.total.prompt_tokens / answer.coverage.tokens for _, answer in rows]
        print(
            f"{way:<8} F1 {np.mean([f1 for f1, _ in rows]):.1f}, {np.mean(shares):.4f} prompt tokens a token (at most "
            f"{max(shares):.4f}), {np.mean([answer.usage.total.calls for _, answer in rows]):,.1f} calls; "
            f"{sum(not answer.coverage.read_tokens for _, answer in rows)} of {len(rows)} by the index alone"
        )
    if given.lean:
        difference = np.array([a - b for (a, _), (b, _) in zip(*ways.values(), strict=True)])
        drawn = np.random.default_rng(0).integers(len(difference), size=(RESAMPLES, len(difference)))
        low, high = np.percentile(difference[drawn].mean(axis=1), [2.5, 97.5])
        print(f"indexed − lean: {difference.mean():+.1f} [{low:+.1f}, {high:+.1f}]")


def _answers(
    case: Case, benchmark: Benchmark, reader: SimulatedReader, kind: str, lean: bool
) -> Iterator[tuple[str, Answer]]:
    document = Document.from_text(benchmark.text(case))
    case = focused(case, document)
    knowing = reader.knowing(knowledge_of(case, document))
    method = ConvMem(Config.preset("lean", index=kind))
    with tempfile.TemporaryDirectory() as folder, closing(Cache(Path(folder, "calls.sqlite"))) as cache:
        simulate(index(method, document, model=knowing, settings=RunSettings(), cache=cache))
        yield "indexed", simulate(method.answer(document, case.question, model=knowing, cache=cache))
        if lean:
            preset = ConvMem(Config.preset("lean"))
            yield "lean", simulate(preset.answer(document, case.question, model=knowing, cache=cache))


if __name__ == "__main__":
    main()
