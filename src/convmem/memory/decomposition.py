"""Query decomposition: a complex question becomes C sub-questions, a channel each (ConvMem section 2.3.3)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from convmem import prompts
from convmem.core import CallFailed, ContextExceeded, Malformed, Stopped
from convmem.model.reply import read_json, repair_json
from convmem.run import Ask, Run

REPLY_TOKENS = 300


@dataclass(frozen=True, slots=True)
class SubQuestion:
    """q^(c): ``id`` counts from 1 and names the channel; ``node`` is the call that it came from, if any.

    ``sample`` tells channels apart that ask the same.
    """

    id: str
    text: str
    node: int | None = None
    sample: int = 0

    @property
    def parents(self) -> tuple[int, ...]:
        """The trace nodes that a call about this sub-question waits for."""
        return () if self.node is None else (self.node,)


async def decompose(question: str, c_max: int, run: Run) -> tuple[SubQuestion, ...]:
    """Split ``question`` into at most ``c_max`` sub-questions; where that fails, the question itself and a warning."""
    ask = Ask(
        template=prompts.load("decompose"),
        variables={"question": question, "c_max": str(c_max)},
        parse=lambda text: _parse(read_json(text)),
        repair=lambda text: _parse(repair_json(text)),
        max_tokens=REPLY_TOKENS,
        schema=_schema(c_max),
    )
    try:
        reply = await run.call(ask)
    except (CallFailed, ContextExceeded, Stopped) as failure:
        run.warn(f"The question was not split into sub-questions: {failure}")
        return (SubQuestion("1", question),)
    if reply.value is None:
        run.warn("The question was not split into sub-questions: the model's reply could not be read.")
        return (SubQuestion("1", question, reply.node),)
    unique = list(dict.fromkeys(reply.value))[:c_max]
    return tuple(SubQuestion(str(i), text, reply.node) for i, text in enumerate(unique, 1))


def _parse(value: Any) -> tuple[str, ...]:
    """The sub-questions of a reply, each on one line."""
    found = value.get("sub_questions") if isinstance(value, dict) else value
    texts = tuple(" ".join(v.split()) for v in found if isinstance(v, str)) if isinstance(found, list) else ()
    if not any(texts):
        raise Malformed("the reply has no sub-question")
    return tuple(text for text in texts if text)


def _schema(c_max: int) -> dict[str, Any]:
    strings = {"type": "array", "items": {"type": "string"}}
    return {
        "type": "object",
        "properties": {"sub_questions": strings | {"minItems": 1, "maxItems": c_max}, "keywords": strings},
        "required": ["sub_questions", "keywords"],
        "additionalProperties": False,
    }
