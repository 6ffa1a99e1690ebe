"""Whole runs over a document, without a server: a scripted model that reads, and what it was asked.

A call is known by its role and by the text between the tags of its prompt, which is what a model would see.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from convmem.core import Answer, Call, Completion, Message, ModelError, Sampling, TokenLogprobs
from convmem.document import Document
from convmem.methods.convmem import Config, ConvMem
from convmem.model import Cache
from convmem.prompts import load, roles
from convmem.run import Run, RunSettings, simulate
from tests.support.scripted import ScriptedModel, completion, make_run
from tests.support.server import Chat

T = TypeVar("T")
Say = str | dict[str, Any] | list[Any] | Completion | ModelError

_FENCED = re.compile(r"\A<([\w-]+)>\n(.*)\n</\1>", re.DOTALL)


class Words:
    """A tokenizer of one token a word; white space belongs to the word before it."""

    identity = "words"
    exact = True
    remote = False

    def count(self, text: str) -> int:
        return len(self.offsets(text))

    def offsets(self, text: str) -> NDArray[np.uint32]:
        starts = [match.start() for match in re.finditer(r"\S+", text)]
        return np.array([0, *starts[1:]] if starts else [0] if text else [], np.uint32)


ISLES = [f"Isle{first}{second}" for first in "abcdef" for second in "klmnopqrst"]
TEXT = "\n\n".join(
    f"At {isle} the keeper was {isle[4:].upper()}ander. It rained for {n} days." for n, isle in enumerate(ISLES)
)
QUESTION = "Name the keeper of Isleap and name the keeper of Isleck"
ANSWERS = ("APander", "CKander")


def fenced(call: Call) -> str:
    """The text that a call is about: between the tags of its prompt."""
    found = _FENCED.match(call.messages[-1].content)
    return found[2] if found else ""


def asked(call: Call) -> str:
    """The question of a call, or its numbered questions."""
    prompt = call.messages[-1].content
    found = _FENCED.match(prompt)
    _, _, rest = prompt[found.end() if found else 0 :].partition("Question")
    return rest.partition(":")[2].partition("\n\n")[0].strip()


def reader(call: Call) -> Completion:
    """A model that reads: what bears on a question is every sentence with an isle that it names. Deterministic."""
    text, question = fenced(call), asked(call)
    match call.role:
        case "decompose":
            said: Any = {"sub_questions": question.split(" and "), "keywords": []}
        case "relevance":
            said = {"relevance": 2 if _bearing(text, question) else 0}
        case "score":
            return _yes_or_no(call, bool(_bearing(text, question)))
        case "kernel_notes" | "kernel_quotes":
            found = [_bearing(text, line) for line in question.splitlines()]
            said = {"readings": [{"question": n, "relevance": 2 * bool(f), "notes": f} for n, f in enumerate(found, 1)]}
        case "sub_answer" | "direct" | "answer":
            found = [(number, note) for number, passage in _parts(text) for note in _bearing(passage, question)]
            known = dict(reversed([(note, number) for number, note in found]))
            listed = "findings" if call.role == "answer" else "passages"
            said = {"answer": " ".join(reversed(known)) or "not found", listed: sorted(known.values())}
        case _:
            said = "\n".join(f"- {note}" for note in _bearing(text, question)) or "NONE"
    return completion(call, said if isinstance(said, str) else json.dumps(said))


def served(request: Mapping[str, Any]) -> Chat:
    """What `reader` says to a request that came over HTTP; its role is that of the prompt with the longest like end."""
    messages = tuple(Message(m["role"], m["content"]) for m in request["messages"])
    ends = {name: load(name).user.rpartition("}}")[2] for name in roles()}
    role = max((name for name in ends if messages[-1].content.endswith(ends[name])), key=lambda name: len(ends[name]))
    return Chat(reader(Call(role, messages, Sampling(1))).text)


def _bearing(text: str, question: str) -> list[str]:
    isles = re.findall(r"Isle\w\w", question)
    sentences = re.split(r"(?<=[.!?])\s+|\n+(?:- )?|^- |Answer: ", text)
    return list(dict.fromkeys(s for s in sentences if " keeper was " in s and any(isle in s for isle in isles)))


def _parts(text: str) -> list[tuple[int, str]]:
    """The numbered passages of a prompt."""
    parts = re.split(r"^\[(\d+)\] ", text, flags=re.MULTILINE)
    return [(int(number), body) for number, body in zip(parts[1::2], parts[2::2], strict=True)]


def _yes_or_no(call: Call, yes: bool) -> Completion:
    said = "Yes" if yes else "No"
    return completion(
        call,
        said,
        logprobs=(TokenLogprobs(said, -0.05, (("Yes", -0.05 if yes else -5.0), ("No", -5.0 if yes else -0.05))),),
    )


def by_role(otherwise: Callable[[Call], Say] = reader, **roles: Say | Callable[[Call], Say]) -> Callable[[Call], Any]:
    """A reply function from replies by role, each a text, a value that is sent as JSON, an error, or a function."""

    def reply(call: Call) -> Any:
        said = roles.get(call.role, otherwise)
        said = said(call) if callable(said) else said
        return json.dumps(said) if isinstance(said, dict | list) else said

    return reply


def answer(
    model: ScriptedModel,
    document: Document | str,
    question: str = "Who kept the lighthouse?",
    *,
    config: Mapping[str, Any] | None = None,
    preset: str = "paper",
    cache: Cache | None = None,
    **settings: Any,
) -> Answer:
    """ConvMem's answer, in simulated time."""
    method = ConvMem(Config.preset(preset, **(config or {})))
    return simulate(
        method.answer(
            Document.from_text(document) if isinstance(document, str) else document,
            question,
            model=model,
            settings=RunSettings(**settings),
            cache=cache or Cache.temporary(),
        )
    )


def within(
    model: ScriptedModel, document: Document | str, work: Callable[[Run], Coroutine[Any, Any, T]], **settings: Any
) -> T:
    """``work`` with a run over ``document``, in simulated time."""

    async def main() -> T:
        return await work(make_run(model, document, **settings))

    return simulate(main())


async def stream(items: list[T], *, pause: Callable[[int], float] | None = None) -> Any:
    """The items one by one, each after a pause."""
    for index, item in enumerate(items):
        if pause:
            await asyncio.sleep(pause(index))
        yield item
