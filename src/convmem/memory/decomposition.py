"""Query decomposition: a complex question becomes C sub-questions, a channel each (ConvMem section 2.3.3).

With hops (METHODS section 2, ``hops``; idea 4), a sub-question may name an earlier one's answer as ``#1``: the
sub-questions are a graph without cycles, and one round of reading follows the answers of another.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from convmem import prompts
from convmem.core import CallFailed, ContextExceeded, Malformed, Stopped
from convmem.model.reply import read_json, repair_json
from convmem.prompts import neutralize
from convmem.run import Ask, Run

REPLY_TOKENS = 300
LONGEST_NAME = 100
"""Characters of an answer that are put into another question: more would be no name."""

_REFERENCE = re.compile(r"#(\d{1,2})\b")
_ASIDE = re.compile(r"\s*\([^()]*\)")


@dataclass(frozen=True, slots=True)
class SubQuestion:
    """q^(c): ``id`` counts from 1 and names the channel; ``node`` is the call that it came from, if any.

    ``sample`` tells channels apart that ask the same. ``needs`` are the ids of those whose answers ``text`` names, as
    ``#1``; once these are filled in, they are ``names``, and ``awaited`` the calls that gave them.
    """

    id: str
    text: str
    node: int | None = None
    sample: int = 0
    needs: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    awaited: tuple[int, ...] = ()

    @property
    def parents(self) -> tuple[int, ...]:
        """The trace nodes that a call about this sub-question waits for."""
        return (*(() if self.node is None else (self.node,)), *self.awaited)


async def decompose(question: str, c_max: int, run: Run, *, hops: bool = False) -> tuple[SubQuestion, ...]:
    """Split ``question`` into at most ``c_max`` sub-questions; where that fails, the question itself and a warning.

    With ``hops``, a sub-question may name the answers of others; where these don't resolve, or go in a circle, all are
    put so that they can be asked in parallel, with a warning.
    """
    ask = Ask(
        template=prompts.load("decompose_hops" if hops else "decompose"),
        variables={"question": question, "c_max": str(c_max)},
        parse=lambda text: _parse(read_json(text)),
        repair=lambda text: _parse(repair_json(text)),
        max_tokens=REPLY_TOKENS,
        schema=_schema(c_max, keywords=not hops),
    )
    try:
        reply = await run.call(ask)
    except (CallFailed, ContextExceeded, Stopped) as failure:
        run.warn(f"The question was not split into sub-questions: {failure}")
        return (SubQuestion("1", question),)
    if reply.value is None:
        run.warn("The question was not split into sub-questions: the model's reply could not be read.")
        return (SubQuestion("1", question, reply.node),)
    texts = reply.value[:c_max] if hops else list(dict.fromkeys(reply.value))[:c_max]
    found = tuple(SubQuestion(str(i), text, reply.node) for i, text in enumerate(texts, 1))
    if not hops or _REFERENCE.search(question):  # a question that holds a "#1" of its own: it may be copied
        return found
    linked = tuple(replace(each, needs=_needs(each.text)) for each in found)
    if in_rounds(linked):
        return linked
    run.warn("The sub-questions refer to answers that none of them gives; all are asked at once.")
    return tuple(replace(each, text=unreferenced(each.text, found)) for each in found)


def in_rounds(questions: Sequence[SubQuestion]) -> list[list[SubQuestion]]:
    """The sub-questions in rounds, each of which needs answers of earlier ones only; empty where no order does that."""
    waiting, rounds = list(questions), []
    answered: set[str] = set()
    while waiting:
        ready = [each for each in waiting if answered.issuperset(each.needs)]
        if not ready:
            return []
        rounds.append(ready)
        answered |= {each.id for each in ready}
        waiting = [each for each in waiting if each.id not in answered]
    return rounds


def named(question: SubQuestion, answers: Mapping[str, tuple[str, int | None]]) -> SubQuestion | None:
    """``question`` with the answers that it names filled in; None where one of them is missing.

    ``answers`` are texts and the calls that gave them, by the id of the sub-question. An answer is a model's words: it
    goes in as one short line, without what stands in brackets and without control tokens.
    """
    if not question.needs:
        return question
    names = {each: as_name(answers[each][0]) if each in answers else "" for each in question.needs}
    if not all(names.values()):
        return None
    text = _REFERENCE.sub(lambda m: names[str(int(m[1]))], question.text)
    awaited = tuple(node for each in question.needs if (node := answers[each][1]) is not None)
    return replace(question, text=text, names=tuple(names.values()), awaited=awaited)


def _needs(text: str) -> tuple[str, ...]:
    """The ids that ``text`` refers to."""
    return tuple(dict.fromkeys(str(int(number)) for number in _REFERENCE.findall(text)))


def as_name(answer: str) -> str:
    """An answer as part of a question: short, on one line; empty where nothing of it can be a name."""
    flat = " ".join(_ASIDE.sub("", answer).split()).rstrip(".")
    if len(flat) > LONGEST_NAME:
        flat = flat[:LONGEST_NAME].rpartition(" ")[0]
    return neutralize(flat).replace("#", "")


def unreferenced(text: str, questions: Sequence[SubQuestion]) -> str:
    """``text`` with what its references stand for in words; what they refer to themselves is left open."""
    meant = {each.id: _REFERENCE.sub("that", each.text).rstrip("?") for each in questions if each.text != text}
    return _REFERENCE.sub(lambda m: f"the answer to “{meant[n]}”" if (n := str(int(m[1]))) in meant else "that", text)


def _parse(value: Any) -> tuple[str, ...]:
    """The sub-questions of a reply, each on one line."""
    found = value.get("sub_questions") if isinstance(value, dict) else value
    texts = tuple(" ".join(v.split()) for v in found if isinstance(v, str)) if isinstance(found, list) else ()
    if not any(texts):
        raise Malformed("the reply has no sub-question")
    return tuple(text for text in texts if text)


def _schema(c_max: int, *, keywords: bool) -> dict[str, Any]:
    strings = {"type": "array", "items": {"type": "string"}}
    properties: dict[str, Any] = {"sub_questions": strings | {"minItems": 1, "maxItems": c_max}}
    if keywords:
        properties["keywords"] = strings
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }
