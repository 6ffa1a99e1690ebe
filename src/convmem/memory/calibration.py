"""How a model's score of a window and the window's place in a ranking become a probability that it holds evidence.

Two witnesses whose log-odds add up: the place k in a ranking by words, before the window is read, and what the model
said of it. ``convmem calibrate`` learns the numbers for a model, and they are stored by its identity; without them the
model is taken at its word.

Knows numbers and one file; knows no text and no model.
"""

from __future__ import annotations

import secrets
from contextlib import suppress
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from pydantic import TypeAdapter, ValidationError

from convmem.core import InputError, Relevance
from convmem.model import cache_directory

EXPECTED = 3.0
"""Windows of a document that are taken to hold evidence."""
LOUDEST = 3.0
"""The most log-odds that a score counts: a model's certainty beyond that says nothing more."""

Numbers = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Calibration:
    """What is made of scores and places. The defaults take the model at its word.

    A score (the probability of Yes) counts ``bias`` + ``scale`` times its log-odds. The prior falls with the place k
    as k to the power of −``fall``. r is 0 for scores below ``background``, from ``direct`` on 2, else 1.
    """

    scale: float = 1.0
    bias: float = 0.0
    fall: float = 1.0
    background: float = 0.5
    direct: float = 0.6

    def prior(self, places: Numbers) -> Numbers:
        """The log-odds of each of a document's windows before it is read, by its place from 1; shape (windows,)."""
        weights = places**-self.fall
        odds: Numbers = np.log(EXPECTED * weights / weights.sum())
        return odds

    def said(self, scores: Numbers) -> Numbers:
        """What scores count in log-odds."""
        return self.bias + self.scale * evident(scores)

    def r(self, score: float) -> Relevance:
        """The relevance that a score stands for."""
        return 0 if score < self.background else 1 if score < self.direct else 2


def evident(scores: Numbers) -> Numbers:
    """The log-odds of scores, as far as they count."""
    inner = np.clip(scores, 1e-6, 1 - 1e-6)
    return np.clip(np.log(inner / (1 - inner)), -LOUDEST, LOUDEST)


def places(scores: Numbers) -> Numbers:
    """The place of each text by its score, from 1, ties in their order; the last place for a score of 0."""
    place = np.empty(len(scores))
    place[np.argsort(-scores, kind="stable")] = np.arange(1, len(scores) + 1)
    place[scores <= 0] = len(scores)
    return place


_STORED = TypeAdapter(dict[str, Calibration])


def stored() -> dict[str, Calibration]:
    """The calibrations of this user's models, by identity; none where they can't be read."""
    with suppress(OSError, ValidationError, InputError):
        return _STORED.validate_json((cache_directory() / "calibrations.json").read_bytes())
    return {}


def calibrated(identity: str) -> Calibration:
    """A model's calibration, the default one where it has none."""
    return stored().get(identity, Calibration())


def store(identity: str, calibration: Calibration) -> None:
    """Store a model's calibration in place of an earlier one. Raises OSError or InputError where that can't be done."""
    path = cache_directory() / "calibrations.json"
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    unfinished = path.with_name(f"calibrations.{secrets.token_hex(4)}.json")
    unfinished.write_bytes(_STORED.dump_json({**stored(), identity: calibration}, indent=2))
    unfinished.replace(path)
