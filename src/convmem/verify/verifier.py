"""What a verifier is: it says how likely some premises entail a hypothesis, and how likely they contradict it.

Knows pairs of texts; knows nothing of answers, thresholds and checkpoints.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from convmem.core import Span
from convmem.run import Run

Premise = Span | str
"""A passage of the run's document, or any other text."""


class Pair(NamedTuple):
    """Passages, and a statement that they may entail when they are read together."""

    premises: tuple[Premise, ...]
    hypothesis: str


class Judgement(NamedTuple):
    """Probabilities that the premises entail the hypothesis, and that they contradict it; what is left is neither."""

    entailment: float
    contradiction: float = 0.0

    @property
    def contradicts(self) -> bool:
        """Whether contradiction is the likeliest of the three."""
        return self.contradiction > max(self.entailment, 1 - self.entailment - self.contradiction)


UNJUDGED = Judgement(0.0)
"""Of a pair that could not be judged: nothing passes that was not checked."""


class Verifier(Protocol):
    """Judges pairs. One serves any number of runs."""

    default_threshold: float
    """The probability from which a judgement counts, where none was calibrated."""
    reserve: int
    """Tokens of a run's budget that checking an answer of usual length may take."""

    async def prepare(self) -> None:
        """Load what judging needs. Idempotent. Raises InputError or Fatal where it can't be had."""
        ...

    def identity(self, run: Run) -> str:
        """Which weights and which prompt judge: a calibrated threshold holds for one identity. Known once prepared."""
        ...

    async def judge(
        self, pairs: Sequence[Pair], run: Run, *, answering: bool = False, parents: tuple[int, ...] = ()
    ) -> list[Judgement]:
        """A judgement for each pair, in their order; `UNJUDGED`, with a warning of the run, where it can't be had.

        ``answering``: the judging may use what the run set aside for answering. ``parents`` are the trace nodes whose
        replies the pairs are from. Raises what `prepare` does, and Fatal where no pair can be judged.
        """
        ...


def premises(pair: Pair, run: Run) -> list[str]:
    """The premises as text."""
    return [run.document.text(premise) if isinstance(premise, Span) else premise for premise in pair.premises]
