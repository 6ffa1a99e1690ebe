"""Small benchmarks of the synthetic world, and runs of methods over them by a simulated reader."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from convmem.bench import prepare
from convmem.bench.contexts import Benchmark, Recipe
from convmem.bench.entries import entries
from convmem.bench.results import Results, Row
from convmem.bench.runner import Runner
from convmem.core import Model
from convmem.document import EstimateTokenizer
from convmem.model import Cache, connect

PERFECT = "sim:recall=1,foresight=1,blind=1,dilution=0,noise=0"


def built(directory: Path, *, docs: Sequence[int] = (12,), count: int = 3, hops: str = "2,3") -> Benchmark:
    """``count`` synthetic questions at each length."""
    recipe = Recipe(tuple(docs), seed=4)
    source = prepare.read(f"synthetic:hops={hops}", "auto", None, recipe, count)
    return prepare.write(source, recipe, count, directory, EstimateTokenizer())


def rows(
    benchmark: Benchmark,
    results: Path,
    methods: str,
    *models: str | Model,
    cache: Cache | None = None,
    seeds: Sequence[int] = (0,),
    budget: int | None = None,
    judge: Model | None = None,
    traces: bool = False,
) -> list[Row]:
    """The rows that a run adds to ``results``."""
    made: list[Row] = []
    connected = [connect(model) if isinstance(model, str) else model for model in models or [PERFECT]]
    Runner(
        benchmark, Results(results), entries(methods.split(","), {}, budget), connected, seeds,
        cache or Cache.temporary(), judge=judge, traces=traces,
    ).run(lambda _: None, made.append)  # fmt: skip
    return made
