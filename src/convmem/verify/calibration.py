"""How good a verifier is on pairs whose answer is known, and from which probability on its word counts.

METHODS section 10: the threshold with the highest recall at a false acceptance of at most 5%, picked on one half of the
pairs and reported on the other. Knows judgements and labels; a verifier's own threshold is stored under its identity.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import chain, groupby, islice, zip_longest
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from convmem.core import ConvMemError, Event, InputError, Model
from convmem.document import Document, EstimateTokenizer
from convmem.model import Cache, cache_directory
from convmem.run import Run, RunSettings
from convmem.trace import Trace
from convmem.verify.verifier import Judgement, Pair, Verifier

FALSE_ACCEPTANCE = 0.05
Z = 1.959964
"""Standard normal deviate of a two-sided 95% interval."""


class Labelled(BaseModel):
    """A pair and what its premises do to its hypothesis. ``kind`` groups pairs in a report."""

    model_config = ConfigDict(frozen=True)

    premises: tuple[str, ...] = Field(min_length=1)
    hypothesis: str = Field(min_length=1)
    label: Literal["entailment", "contradiction", "neutral"]
    kind: str = ""

    @property
    def pair(self) -> Pair:
        return Pair(self.premises, self.hypothesis)

    @property
    def entailed(self) -> bool:
        return self.label == "entailment"


@dataclass(frozen=True, slots=True)
class Judged:
    """What a verifier said of labelled pairs. ``threshold`` is the one that it is used with, ``milliseconds`` the time
    that a pair took, of as many as it judges at once.
    """

    verifier: str
    threshold: float
    judgements: tuple[Judgement, ...]
    milliseconds: float


@dataclass(frozen=True, slots=True)
class Rate:
    """``hits`` of ``of`` cases."""

    hits: int
    of: int

    @property
    def share(self) -> float:
        """From 0 to 1; NaN where there is no case."""
        return self.hits / self.of if self.of else math.nan

    @property
    def interval(self) -> tuple[float, float]:
        """Wilson's 95% interval of the share."""
        if not self.of:
            return 0.0, 1.0
        centre = (self.hits + Z**2 / 2) / (self.of + Z**2)
        reach = Z / (self.of + Z**2) * math.sqrt(self.hits * (self.of - self.hits) / self.of + Z**2 / 4)
        return max(0.0, centre - reach), min(1.0, centre + reach)


@dataclass(frozen=True, slots=True)
class Audit:
    """What a verifier does at a threshold.

    ``faithfulness``: of the accepted, those that are entailed. ``false_acceptance``: of those that are not entailed,
    the accepted. ``false_rejection``: of the entailed, those not accepted. ``accepted`` is by kind.
    """

    threshold: float
    faithfulness: Rate
    false_acceptance: Rate
    false_rejection: Rate
    accepted: dict[str, Rate]


@dataclass(frozen=True, slots=True)
class Calibration:
    """A threshold as it was picked: ``selection`` is the audit of the half that it was picked on, ``report`` of the
    other one.
    """

    verifier: str
    threshold: float
    selection: Audit
    report: Audit


def read_pairs(path: Path) -> list[Labelled]:
    """The labelled pairs in a file of JSON lines: ``premises`` (a list), ``hypothesis``, ``label``, perhaps ``kind``.

    Raises InputError that names the line.
    """
    found = []
    try:
        lines = path.read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"The pairs in '{path}' can't be read: {error}.") from None
    for number, line in enumerate(lines, 1):
        if line.strip():
            try:
                found.append(Labelled.model_validate_json(line))
            except ValidationError as error:
                first = error.errors()[0]
                field = ".".join(map(str, first["loc"])) or "the line"
                raise InputError(f"'{path}', line {number}: {field}: {first['msg']}.") from None
    if not found:
        raise InputError(f"'{path}' holds no pairs; write one JSON object a line.")
    return found


async def judge_all(
    labelled: Sequence[Labelled],
    verifier: Verifier,
    models: Mapping[str, Model],
    *,
    settings: RunSettings,
    cache: Cache,
    on_event: Callable[[Event], None] = lambda _: None,
) -> Judged:
    """Have every pair judged, by prepared models. Raises what judging raises, Fatal above all."""
    document = Document.from_text("\n".join(premise for each in labelled for premise in each.premises))
    counter = models[""].tokenizer or EstimateTokenizer()
    run = Run(document, models, tokenizer=counter, trace=Trace(""), cache=cache, settings=settings)
    run.subscribe(on_event)
    await verifier.prepare()
    started = time.perf_counter()
    judgements = await verifier.judge([each.pair for each in labelled], run)
    took = time.perf_counter() - started
    return Judged(
        verifier.identity(run), threshold(verifier, run), tuple(judgements), 1_000 * took / len(labelled)
    )  # fmt: skip


def audit(labelled: Sequence[Labelled], judgements: Sequence[Judgement], threshold: float) -> Audit:
    """How the judgements of the pairs compare with their labels."""
    verdicts = [(each, found.entailment >= threshold) for each, found in zip(labelled, judgements, strict=True)]
    kinds: dict[str, list[bool]] = defaultdict(list)
    for each, accepted in verdicts:
        kinds[each.kind].append(accepted)
    return Audit(
        threshold,
        faithfulness=_rate(each.entailed for each, accepted in verdicts if accepted),
        false_acceptance=_rate(accepted for each, accepted in verdicts if not each.entailed),
        false_rejection=_rate(not accepted for each, accepted in verdicts if each.entailed),
        accepted={kind: _rate(accepted) for kind, accepted in kinds.items()},
    )


def calibrate(
    labelled: Sequence[Labelled], judgements: Sequence[Judgement], verifier: str, most: float = FALSE_ACCEPTANCE
) -> Calibration:
    """The threshold of highest recall at a false acceptance of at most ``most``.

    Raises InputError where either half lacks entailed or other pairs, ConvMemError where there is no such threshold.
    """
    selection, report = halves(labelled)

    def of(half: Sequence[int], threshold: float) -> Audit:
        return audit([labelled[i] for i in half], [judgements[i] for i in half], threshold)

    for half in (selection, report):
        if len({labelled[i].entailed for i in half}) < 2:
            raise InputError("Calibration needs at least two entailed pairs and two others; label more.")
    threshold = pick([(judgements[i].entailment, labelled[i].entailed) for i in selection], most)
    if threshold is None:
        raise ConvMemError(f"No threshold of {verifier} accepts an entailed pair and at most {most:.0%} of the others.")
    return Calibration(verifier, threshold, of(selection, threshold), of(report, threshold))


def pick(scored: Iterable[tuple[float, bool]], most: float = FALSE_ACCEPTANCE) -> float | None:
    """The threshold on (probability, whether it is entailed), half-way to the next lower probability.

    Of the thresholds whose false acceptance is at most ``most``, the highest of those with the highest recall; None
    where there is none that accepts an entailed pair.
    """
    falling = sorted(scored, reverse=True)
    others = sum(not entailed for _, entailed in falling)
    best = None
    hits = wrong = recalled = 0
    steps = [(score, [entailed for _, entailed in group]) for score, group in groupby(falling, lambda pair: pair[0])]
    for (score, at), (below, _) in zip(steps, [*steps[1:], *steps[-1:]], strict=True):
        hits, wrong = hits + sum(at), wrong + len(at) - sum(at)
        if wrong > most * others:
            break
        if hits > recalled:
            best, recalled = (score + below) / 2, hits
    return best


def halves(labelled: Sequence[Labelled]) -> tuple[list[int], list[int]]:
    """The pairs' indices in two halves with as much of each kind, by their content and not by their order."""
    ordered = [i for kind in _by_kind(labelled) for i in kind]
    return sorted(ordered[::2]), sorted(ordered[1::2])


def sample(labelled: Sequence[Labelled], count: int) -> list[Labelled]:
    """``count`` of the pairs, as many of each kind, by their content and not by their order."""
    turns = chain.from_iterable(zip_longest(*_by_kind(labelled)))
    return [labelled[i] for i in sorted(islice((i for i in turns if i is not None), count))]


def _by_kind(labelled: Sequence[Labelled]) -> list[list[int]]:
    """The pairs' indices of each kind and label, in an order that is none."""
    places: dict[tuple[str, str], list[int]] = defaultdict(list)
    for i in sorted(range(len(labelled)), key=lambda i: hashlib.sha256(repr(labelled[i].pair).encode()).digest()):
        places[labelled[i].label, labelled[i].kind].append(i)
    return [places[kind] for kind in sorted(places)]


def threshold(verifier: Verifier, run: Run) -> float:
    """From which probability on the verifier's word counts: calibrated on this machine, else its default."""
    stored = _stored().get(verifier.identity(run))
    found = stored.get("threshold") if isinstance(stored, dict) else None
    return float(found) if isinstance(found, int | float) else verifier.default_threshold


def store(calibration: Calibration) -> Path:
    """Keep a calibration for all runs of this user, in place of an earlier one; where it is kept."""
    path = _file()
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    partial.write_text(json.dumps({**_stored(), calibration.verifier: as_json(calibration)}, indent=2), "utf-8")
    partial.replace(path)
    return path


def as_json(result: Calibration | Audit) -> dict[str, Any]:
    """Plain values; a rate is ``{hits, of, share, interval}``."""
    plain: dict[str, Any] = _with_shares(asdict(result))
    return plain


def _with_shares(value: Any) -> Any:
    if isinstance(value, dict):
        if value.keys() == {"hits", "of"}:
            rate = Rate(**value)
            return value | {"share": rate.share if rate.of else None, "interval": rate.interval}
        return {name: _with_shares(inner) for name, inner in value.items()}
    return value


def _rate(hits: Iterable[bool]) -> Rate:
    listed = list(hits)
    return Rate(sum(listed), len(listed))


def _file() -> Path:
    return cache_directory() / "verifiers.json"


def _stored() -> dict[str, Any]:
    try:
        found = json.loads(_file().read_text("utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}
