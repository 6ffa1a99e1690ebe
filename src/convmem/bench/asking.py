"""Single questions to a model, beside any document: what it knows without a context, and how a judge rates an answer.

Knows prompts, models and the cache of their replies; knows no method.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from convmem import prompts
from convmem.bench.metrics import judged, score
from convmem.core import Call, Malformed, Model, Sampling, Usage
from convmem.memory.extraction import extract
from convmem.model import Cache
from convmem.run.retry import persist

ANSWER_TOKENS = 64
RATING_TOKENS = 64
RATINGS = 2
"""How often a judge rates an answer, so that its agreement with itself can be reported."""
RETRIES = 3


@dataclass(frozen=True, slots=True)
class Asking:
    """A prepared model and where its replies are kept. ``usage`` gets what every reply took, stored or new."""

    model: Model
    cache: Cache
    temperature: float = 0.0
    usage: list[Usage] = field(default_factory=list)

    async def without_context(self, question: str, *, seed: int = 0, sample: int = 0) -> str:
        """The answer that the model gives to ``question`` alone. Raises CallFailed or Fatal."""
        reply = await self._ask("closed_book", {"question": question}, ANSWER_TOKENS, seed=seed, sample=sample)
        return extract(reply)

    async def knows(self, question: str, references: Sequence[str]) -> bool:
        """Best of two: whether both of two answers without any context hold a reference."""
        answers = [await self.without_context(question, sample=sample) for sample in range(2)]
        return all(score(answer, references).sub_em_strict for answer in answers)

    async def rate(self, question: str, references: Sequence[str], answer: str) -> tuple[float, ...]:
        """ACC_L of ``answer``, from 0 to 1, ``RATINGS`` times; a reply without a rating is asked for again.

        Raises CallFailed or Fatal, and Malformed where no try gave a rating.
        """
        variables = {"question": question, "references": " | ".join(references), "answer": answer}
        return tuple([await self._rating(variables, sample) for sample in range(RATINGS)])

    async def _rating(self, variables: Mapping[str, str], sample: int) -> float:
        for attempt in range(RETRIES):
            reply = await self._ask("judge", variables, RATING_TOKENS, sample=sample, attempt=attempt)
            try:
                return judged(reply)
            except Malformed as error:
                last = error
        raise last

    async def _ask(
        self, role: str, variables: Mapping[str, str], most: int, *, seed: int = 0, sample: int = 0, attempt: int = 0
    ) -> str:
        call = Call(
            role, prompts.load(role).render(variables), Sampling(most, self.temperature), seed=seed, sample=sample,
            attempt=attempt,
        )  # fmt: skip
        key = self.cache.key("", self.model.identity, call)
        completion = self.cache.get(key)
        if completion is None:
            completion = await persist(lambda: self.model.complete(call), RETRIES, key)
            self.cache.put(key, completion)
        self.usage.append(completion.usage or Usage())
        return completion.text
