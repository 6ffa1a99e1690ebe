"""From a dataset's name to a built benchmark: reads, renames, filters, draws, and writes where all of it came from.

Knows files and questions; what a model knows without a context is handed in.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Literal

from convmem.bench import datasets
from convmem.bench.audit import audit
from convmem.bench.contexts import Benchmark, Recipe, build, sample
from convmem.bench.datasets import Format
from convmem.bench.placement import Placement
from convmem.bench.pool import Pool
from convmem.bench.questions import Passage, Question
from convmem.bench.rename import Renaming
from convmem.bench.synthetic import World
from convmem.core import ConvMemError, Tokenizer

SYNTHETIC = "synthetic"


@dataclass(frozen=True, slots=True)
class Filter:
    """Leaves out the questions that ``model`` answers without a context, as ``knows`` says of each of some."""

    model: str
    knows: Callable[[Sequence[Question]], Sequence[bool]]


@dataclass(frozen=True, slots=True)
class Source:
    """Questions to draw from, and the passages to set around them.

    ``origin`` says what they are made from: files with their hashes, a generator's settings.
    """

    name: str
    questions: tuple[Question, ...]
    pool: Pool
    origin: dict[str, str]


def read(dataset: str, format: Format | Literal["auto"], pool: Path | None, recipe: Recipe, count: int) -> Source:  # noqa: A002
    """The source that ``dataset`` names: a file, or ``synthetic:hops=2,3,4``, of which ``count`` questions are written.

    Without ``pool``, distractors are the other questions' paragraphs, or the synthetic world's own. Raises InputError.
    """
    origin: dict[str, str] = {"dataset": dataset}
    if dataset.partition(":")[0] == SYNTHETIC:
        world = World.parse(dataset, recipe.seed)
        questions, name = world.questions(count), SYNTHETIC
        passages: Sequence[Passage] = () if pool else tuple(world.passages(max(recipe.docs)))
    else:
        path = Path(dataset)
        questions, name = datasets.read(path, format), path.stem
        origin = {"dataset": path.name, "dataset sha256": hashlib.sha256(path.read_bytes()).hexdigest()}
        passages = () if pool else [p.passage for question in questions for p in question.paragraphs]
    made = Pool.read(pool) if pool else Pool(passages)
    origin["pool"] = pool.name if pool else "the dataset's own passages"
    return Source(name, questions, made, {**origin, "pool sha256": made.hash})


def renamed(source: Source, seed: int) -> Source:
    """The source with the names in its answers replaced by invented ones, everywhere."""
    renaming = Renaming.of(source.questions, source.pool.passages, seed=seed)
    unchanged = f"all but {len(renaming.unchanged)} of {len(source.questions)} questions"
    return Source(
        f"{source.name}-renamed",
        tuple(map(renaming.question, source.questions)),
        Pool(map(renaming.passage, source.pool.passages)),
        {**source.origin, "renamed": f"names in the answers of {unchanged}, with seed {seed}"},
    )


def write(
    source: Source, recipe: Recipe, count: int, directory: Path, tokenizer: Tokenizer, unknown: Filter | None = None
) -> Benchmark:
    """Build ``count`` of the questions, drawn by the recipe's seed, those that ``unknown`` leaves out made up for.

    Questions whose label is not in their support are listed in the manifest. A placement that is not natural makes
    another dataset of it, by name. Raises InputError, and ConvMemError where
    the filter leaves none.
    """
    origin = dict(source.origin)
    if unknown:
        chosen, origin["filter"] = _filtered(source.questions, count, recipe.seed, unknown)
    else:
        chosen = sample(source.questions, count, recipe.seed)
    if doubtful := audit(chosen):
        origin["label not in its support"] = " ".join(finding.id for finding in doubtful)
    name = source.name if recipe.placement == Placement() else f"{source.name} {recipe.placement}"
    return build(chosen, source.pool, recipe, tokenizer=tokenizer, directory=directory, dataset=name, source=origin)


def _filtered(
    questions: Sequence[Question], count: int, seed: int, unknown: Filter
) -> tuple[tuple[Question, ...], str]:
    """``count`` questions that the model does not know, and what was left out. No more are asked than it takes."""
    order = Random(f"{seed}/filter").sample(range(len(questions)), len(questions))
    asked, kept = 0, list[int]()
    while asked < len(order) and len(kept) < count:
        drawn = order[asked : asked + count - len(kept)]
        asked += len(drawn)
        known = unknown.knows([questions[n] for n in drawn])
        kept += [n for n, knows in zip(drawn, known, strict=True) if not knows]
    if not kept:
        raise ConvMemError(
            f"{unknown.model} answers all {asked:,} questions without a context, so the filter leaves none: "
            "use another dataset, or --rename."
        )
    said = f"{asked - len(kept)} of {asked} questions left out, which {unknown.model} answers without a context"
    return tuple(questions[n] for n in sorted(kept)), said
