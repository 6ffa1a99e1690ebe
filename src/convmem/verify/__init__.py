"""Does the source say so? Verifiers that judge statements against passages, and what is made of their judgements.

A judgement is two probabilities; from which one on it counts is a threshold, which is calibrated for each verifier.
"""

from __future__ import annotations

from functools import cache

from convmem.core import InputError
from convmem.verify.asking import Asking
from convmem.verify.calibration import threshold
from convmem.verify.claims import check, strictly, supported_share
from convmem.verify.nli import Nli
from convmem.verify.quotation import Quotation, quotes
from convmem.verify.verifier import UNJUDGED, Judgement, Pair, Premise, Verifier


@cache
def verifier(spec: str) -> Verifier:
    """The verifier that a setting names: ``model``, ``nli:PATH`` or ``quotation``; one for all runs of the process.

    Raises InputError where there is none of that name.
    """
    kind, _, source = spec.partition(":")
    match kind, bool(source):
        case "model", False:
            return Asking()
        case "quotation", False:
            return Quotation()
        case "nli", True:
            return Nli(source)
        case _:
            raise InputError(f"There is no verifier '{spec}'; choose model, nli:PATH or quotation.")


__all__ = [
    "UNJUDGED", "Judgement", "Pair", "Premise", "Verifier", "check", "quotes", "strictly", "supported_share",
    "threshold", "verifier",
]  # fmt: skip
