"""What is believed of each window: the log-odds that it holds evidence, before it is read and after each view of it.

Before it is read, its place in a ranking tells: the probability falls with the place k as 1/k does, whatever the length
of the document, so that a first place among thousands means much and one among ten little. What each view says then
counts as one more witness (naive Bayes). A view for one question that says yes speaks for the window on another one
too; one that says no does not speak against it, since a later hop can't be known before the earlier one is.

Knows places and numbers; knows no text and no model.
"""

from __future__ import annotations

from collections import defaultdict

import numpy as np
from numpy.typing import NDArray

from convmem.memory.kernel import Reading

EXPECTED = 3.0
"""Windows of a document that are taken to hold evidence."""
LOUDEST = 3.0
"""The most log-odds that one view counts: a model's certainty beyond that says nothing more."""
SAID = {0: -2.5, 1: 0.5, 2: 2.5}
"""What a view counts that gives r alone."""

Numbers = NDArray[np.float64]


class Beliefs:
    """About ``count`` windows, by their index, for questions by their text.

    ``fall`` is how much the log-odds fall with the logarithm of the place in a ranking, 0 where it says nothing.
    """

    def __init__(self, count: int, *, fall: float) -> None:
        self._fall = fall
        self._count = count
        self._prior: dict[str, Numbers] = {}
        self._said: defaultdict[str, Numbers] = defaultdict(lambda: np.zeros(count))
        self._views = np.zeros(count, int)
        self._yes = np.zeros(count, int)

    def rank(self, question: str, scores: Numbers) -> None:
        """How near each window is to a question, shape (count,): only the order matters, and that 0 is nothing."""
        place = np.empty(self._count)
        place[np.argsort(-scores, kind="stable")] = np.arange(1, self._count + 1)
        place[scores <= 0] = self._count
        weights = place**-self._fall
        self._prior[question] = np.log(EXPECTED * weights / weights.sum())

    def saw(self, index: int, question: str, view: list[Reading]) -> None:
        """What a view of a window said: its parts, one or several."""
        said = max(weight(reading) for reading in view)
        self._said[question][index] += said
        self._views[index] += 1
        self._yes[index] += said > 0

    def log_odds(self, question: str) -> Numbers:
        """Of each window holding evidence for a ranked question, shape (count,)."""
        others = [said for other, said in self._said.items() if other != question]
        heard = np.maximum.reduce([np.zeros(self._count), *others])
        believed: Numbers = self._prior[question] + self._said[question] + heard
        return believed

    def probability(self, index: int, question: str) -> float:
        """That a window holds evidence for a ranked question."""
        return float(1 / (1 + np.exp(-self.log_odds(question)[index])))

    def settled(self, index: int) -> bool:
        """Whether a window was seen more than once, and its views agree."""
        return bool(self._views[index] > 1 and self._yes[index] in (0, self._views[index]))

    def agreed(self) -> int:
        """How many windows were seen more than once, and were relevant each time."""
        return int(((self._views > 1) & (self._yes == self._views)).sum())

    def order(self, question: str) -> list[int]:
        """All windows, the likeliest for a question first, ties in the document's order."""
        ordered: list[int] = np.argsort(-self.log_odds(question), kind="stable").tolist()
        return ordered

    def leading(self, questions: list[str]) -> list[int]:
        """All windows by their best place for any of ``questions``, so that each of these has its best in front."""
        orders = [self.order(question) for question in questions]
        taken = (index for places in zip(*orders, strict=True) for index in places)
        return list(dict.fromkeys(taken))


def weight(reading: Reading) -> float:
    """What a reading counts, in log-odds."""
    if reading.score is None:
        return SAID[reading.r]
    score = min(max(reading.score, 1e-6), 1 - 1e-6)
    return float(np.clip(np.log(score / (1 - score)), -LOUDEST, LOUDEST))
