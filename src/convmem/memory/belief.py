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

from convmem.memory.calibration import Calibration, Numbers, places
from convmem.memory.kernel import Reading

SAID = {0: -2.5, 1: 0.5, 2: 2.5}
"""What a view counts that gives r alone."""
DOUBT = 0.5
"""What a window loses by a prompt that held it, beside others, and did not hold the answer."""


class Beliefs:
    """About ``count`` windows, by their index, for questions by their text.

    ``calibration`` says what places and scores count.
    """

    def __init__(self, count: int, calibration: Calibration) -> None:
        self._calibration = calibration
        self._count = count
        self._prior: dict[str, Numbers] = {}
        self._said: defaultdict[str, Numbers] = defaultdict(lambda: np.zeros(count))
        self._views = np.zeros(count, int)
        self._yes = np.zeros(count, int)

    def rank(self, question: str, scores: Numbers) -> None:
        """How near each window is to a question, shape (count,): only the order matters, and that 0 is nothing."""
        self._prior[question] = self._calibration.prior(places(scores))

    def saw(self, index: int, question: str, view: list[Reading]) -> None:
        """What a view of a window said: its parts, one or several."""
        said = max(map(self._weight, view))
        self._said[question][index] += said
        self._views[index] += 1
        self._yes[index] += said > 0

    def doubt(self, index: int, question: str) -> None:
        """A prompt that held a window did not hold the answer to a question."""
        self._said[question][index] -= DOUBT

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

    def _weight(self, reading: Reading) -> float:
        """What a reading counts, in log-odds."""
        if reading.score is None:
            return SAID[reading.r]
        return float(self._calibration.said(np.array(reading.score)))
