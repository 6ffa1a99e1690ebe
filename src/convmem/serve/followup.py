"""A question that goes on from earlier ones: made self-contained first, and the document read only where it is needed.

A method around any method, so that what this costs is in the run's budget, ledger and trace. Knows turns of a
conversation; knows nothing of chat protocols.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel

from convmem import prompts
from convmem.core import Answer, BestAnswer, CallFailed, ContextExceeded, Malformed, Plan, Stopped
from convmem.document import Document
from convmem.methods.base import Facts, Method
from convmem.model.reply import read_json, repair_json
from convmem.run import Ask, Reply, Run

MOST_TURNS = 8
MOST_CHARACTERS = 1_500
"""Of one turn: what a question refers to is seldom further in."""
REPLY_TOKENS = 300
ANSWER_TOKENS = 1_000


class Turn(BaseModel):
    """What one side said before; ``answer`` is True for what the server answered."""

    text: str
    answer: bool = False


def recent(turns: Sequence[Turn]) -> tuple[Turn, ...]:
    """What of ``turns`` a question can refer to."""
    return tuple(Turn(text=turn.text[:MOST_CHARACTERS], answer=turn.answer) for turn in turns[-MOST_TURNS:])


@dataclass(frozen=True, slots=True)
class Asked:
    """A question that needs no conversation to be understood, and whether it needs the document."""

    question: str
    document: bool


class FollowUp(Method[Any]):
    """``method``, asked a question that follows ``turns``."""

    def __init__(self, method: Method[Any], turns: Sequence[Turn]) -> None:
        super().__init__(method.config)
        self.name = method.name  # type: ignore[misc]  # what is run is the method
        self._method = method
        self._conversation = "\n\n".join(
            f"{'Assistant' if turn.answer else 'User'}: {turn.text}" for turn in recent(turns)
        )

    async def solve(self, document: Document, question: str, run: Run) -> Answer:
        """Answer ``question`` as the method does, or from the conversation alone."""
        asked = await self._asked(question, run)
        if not asked.document and (answer := await self._reply(question, run)):
            return answer
        return await self._method.solve(document, asked.question, run)

    def plan(self, document: Document, facts: Facts, question: str = "") -> Plan:
        return self._method.plan(document, facts, question)

    async def _asked(self, question: str, run: Run) -> Asked:
        """The question, self-contained; as it is where the model does not say."""
        try:
            reply = await run.call(
                Ask(
                    template=prompts.load("follow_up"),
                    variables={"conversation": self._conversation, "question": question},
                    parse=lambda text: _parse(read_json(text)),
                    repair=lambda text: _parse(repair_json(text)),
                    max_tokens=REPLY_TOKENS,
                    schema=_SCHEMA,
                )
            )
        except (CallFailed, ContextExceeded, Stopped) as failure:
            run.warn(f"The question was taken as it stands, without the conversation before it: {failure}")
            return Asked(question, document=True)
        return reply.value or Asked(question, document=True)

    async def _reply(self, question: str, run: Run) -> Answer | None:
        """The answer from the conversation alone; None where that fails, and the document has to be read."""
        try:
            reply: Reply[str] = await run.call(
                Ask(
                    template=prompts.load("reply"),
                    variables={"conversation": self._conversation, "question": question},
                    parse=str,
                    max_tokens=ANSWER_TOKENS,
                    answering=True,
                )
            )
        except (CallFailed, ContextExceeded, Stopped):
            return None
        text = reply.text.strip()
        if not text:
            return None
        run.emit(BestAnswer(text))
        return Answer(
            text=text,
            citations=(),
            sub_questions=(),
            coverage=run.coverage(windows=0),
            usage=run.ledger,
            config=self.config.model_dump(),
            model=run.model("").identity,
            seed=run.settings.seed,
            warnings=run.warnings,
            method=self.name,
            trace=run.trace,
        )


def _parse(value: Any) -> Asked:
    if not isinstance(value, Mapping) or not isinstance(value.get("question"), str) or not value["question"].strip():
        raise Malformed("the reply has no question")
    return Asked(value["question"].strip(), value.get("document") is not False)


_SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "properties": {"question": {"type": "string"}, "document": {"type": "boolean"}},
    "required": ["question", "document"],
    "additionalProperties": False,
}
