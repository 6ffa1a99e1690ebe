"""Scores of one answer against its reference and aliases (METHODS section 11, "Scores"), each from 0 to 1.

Normalization is that of SQuAD and HotpotQA. What is empty after it scores 0 throughout. Knows strings only.
"""

from __future__ import annotations

import json
import re
import string
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import combinations
from typing import NamedTuple

from convmem.core import Malformed

_PUNCTUATION = str.maketrans("", "", string.punctuation)
CLOSED = frozenset({"yes", "no", "noanswer"})


def normalize(text: str) -> str:
    """Lower case, without (ASCII) punctuation and the articles a, an, the; single spaces."""
    bare = text.lower().translate(_PUNCTUATION)
    return " ".join(re.sub(r"\b(a|an|the)\b", " ", bare).split())


class Scores(NamedTuple):
    """Each the best over the references."""

    f1: float
    em: float
    sub_em: float
    sub_em_strict: float
    sub_em_tokens: float


def score(prediction: str, references: Sequence[str]) -> Scores:
    """``references`` are the label and its aliases. Raises ValueError where there are none."""
    if not references:
        raise ValueError("A score needs at least one reference.")
    said = normalize(prediction)
    pairs = [(said, meant) for meant in map(normalize, references) if said and meant]
    metrics = (_f1, _em, _sub_em, _sub_em_strict, _sub_em_tokens)
    return Scores(*(max((float(metric(*pair)) for pair in pairs), default=0.0) for metric in metrics))


def _f1(said: str, meant: str) -> float:
    """Overlap of tokens; yes, no and noanswer earn it only where the two are equal (HotpotQA)."""
    if said != meant and (said in CLOSED or meant in CLOSED):
        return 0.0
    a, b = said.split(), meant.split()
    shared = (Counter(a) & Counter(b)).total()
    return 2 * shared / (len(a) + len(b))


def _em(said: str, meant: str) -> bool:
    return said == meant


def _sub_em_strict(said: str, meant: str) -> bool:
    """The reference is in the prediction, as characters: so "no" is in "unknown" too."""
    return meant in said


def _sub_em(said: str, meant: str) -> bool:
    """Either is in the other, as characters (MemAgent's harness)."""
    return meant in said or said in meant


def _sub_em_tokens(said: str, meant: str) -> bool:
    """All tokens of one are in the other in order, not necessarily next to each other: a middle name may be missing."""
    a, b = said.split(), meant.split()
    return _in_order(a, b) or _in_order(b, a)


def _in_order(tokens: Iterable[str], within: Iterable[str]) -> bool:
    rest = iter(within)
    return all(token in rest for token in tokens)


def verbosity(prediction: str, reference: str) -> float:
    """Words of the prediction for each word of the reference (both normalized): 1 is as terse as the reference."""
    return len(normalize(prediction).split()) / max(1, len(normalize(reference).split()))


_RATING = r"(10(?:\.0+)?|\d(?:\.\d+)?)(?![\d.]*\d)"
_RATINGS = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        rf"\[\[\s*{_RATING}\s*\]\]",
        rf"\b(?:score|rating|grade)\b\W{{0,4}}(?:is|of)?\W{{0,4}}{_RATING}",
        rf"(?<![\d.]){_RATING}\s*(?:/|out of)\s*10\b",
        rf"\A\W*{_RATING}\W*\Z",
    )
)


def judged(reply: str) -> float:
    """ACC_L of a judge's reply that rates from 0 to 10, here from 0 to 1.

    The rating is a JSON ``score`` or ``rating``, or stands in double brackets, after "score" or "rating", before "/10",
    or alone. The last one counts. Raises Malformed where there is none.
    """
    try:
        record = json.loads(reply)
    except ValueError:
        record = None
    if isinstance(record, dict):
        reply = str(next((record[key] for key in ("score", "rating") if key in record), ""))
    for pattern in _RATINGS:
        found = pattern.findall(reply)
        if found:
            return float(found[-1]) / 10
    raise Malformed(f"The judge's reply holds no rating from 0 to 10: {reply[:80]!r}.")


def agreement(repeats: Sequence[Sequence[float]]) -> float:
    """How often a judge rates an answer equally again: the share of equal pairs among the repeats of each answer.

    NaN where no answer was rated twice.
    """
    pairs = [a == b for ratings in repeats for a, b in combinations(ratings, 2)]
    return sum(pairs) / len(pairs) if pairs else float("nan")
