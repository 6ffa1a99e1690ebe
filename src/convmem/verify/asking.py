"""The connected model as verifier: one word, True, False or Unknown, and log-probabilities that say how sure it is.

Knows the prompt and how to read its reply; what is asked goes through the run, which counts, stores and traces it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from convmem import prompts
from convmem.core import CallFailed, ContextExceeded, Piece, Stopped
from convmem.model.reply import choice_probabilities, read_choice
from convmem.run import Ask, Run
from convmem.verify.verifier import UNJUDGED, Judgement, Pair

ROLE = "verify"
TRUE, FALSE, UNKNOWN = CHOICES = "true", "false", "unknown"
REPLY_TOKENS = 3
"""For a word that a tokenizer parts; its first token decides."""
ALTERNATIVES = 10
"""Likeliest first tokens whose log-probabilities are asked for."""


class Asking:
    """A verifier that asks the run's model of role ``verify``."""

    default_threshold = 0.5
    reserve = 3_000

    async def prepare(self) -> None:
        pass

    def identity(self, run: Run) -> str:
        return f"model {run.model(ROLE).identity} {prompts.load(ROLE).id}"

    async def judge(
        self, pairs: Sequence[Pair], run: Run, *, answering: bool = False, parents: tuple[int, ...] = ()
    ) -> list[Judgement]:
        async with asyncio.TaskGroup() as tasks:
            judging = [tasks.create_task(_judge(pair, run, answering, parents)) for pair in pairs]
        return [task.result() for task in judging]


async def _judge(pair: Pair, run: Run, answering: bool, parents: tuple[int, ...]) -> Judgement:
    ask = Ask(
        template=prompts.load(ROLE),
        variables={"passages": _listed(pair), "claim": pair.hypothesis},
        parse=lambda text: read_choice(text, CHOICES),
        max_tokens=REPLY_TOKENS,
        top_logprobs=ALTERNATIVES,
        parents=parents,
        priority=(-999,),
        affinity=pair.premises,
        answering=answering,
    )
    try:
        reply = await run.call(ask)
    except (CallFailed, ContextExceeded, Stopped) as failure:
        run.warn(f"Not everything could be verified: {failure}")
        return UNJUDGED
    shares = choice_probabilities(reply.logprobs, CHOICES) or {word: float(reply.value == word) for word in CHOICES}
    return Judgement(shares[TRUE], shares[FALSE])


def _listed(pair: Pair) -> tuple[Piece, ...]:
    """The premises, a line break between them."""
    return tuple(piece for premise in pair.premises for piece in (premise, "\n"))[:-1]
