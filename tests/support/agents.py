"""Methods at work on a document without a server: scripted replies, and what their prompts showed."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

from convmem.core import Answer, Call, Event
from convmem.document import Document
from convmem.memory.agent import OneReply
from convmem.methods import method
from convmem.methods.gru_mem import GruMemPolicy
from convmem.methods.mem_alpha import MemAlphaPolicy
from convmem.methods.memagent import MemAgentPolicy
from convmem.methods.rememr1 import ReMemR1Policy
from convmem.model import Cache
from convmem.run import RunSettings, simulate
from tests.support.reading import Words
from tests.support.scripted import ScriptedModel

POLICIES: Mapping[str, Callable[..., OneReply[Any]]] = {
    "memagent": MemAgentPolicy,
    "rememr1": ReMemR1Policy,
    "gru-mem": GruMemPolicy,
    "mem-alpha": MemAlphaPolicy,
}
QUESTION = "Who kept the lighthouse?"
_TAGGED = re.compile(r"^<([a-z_]+)((?:-\d+)?)>\n(.*?)\n</\1\2>$", re.DOTALL | re.MULTILINE)


def shown(call: Call) -> dict[str, str]:
    """What stands between the tags of a prompt, by tag."""
    return {tag: text for tag, _, text in _TAGGED.findall(call.messages[-1].content)}


def reply(name: str, memory: str) -> str:
    """A reply in the form of that method, by which the memory holds ``memory``."""
    match name:
        case "rememr1":
            return f"<update>{memory}</update>"
        case "gru-mem":
            return f"<check>yes</check><update>{memory}</update><next>continue</next>"
        case "mem-alpha":
            return json.dumps({"operations": [operation("update", "core", content=memory)]})
        case _:
            return memory


def operation(tool: str, memory: str, id_: str = "", content: str = "") -> dict[str, str]:
    """One of Mem-α's operations."""
    return {"tool": tool, "memory": memory, "id": id_, "content": content}


def remembering(say: Callable[[Call], Any] | str, answer: Any = r"\boxed{Ann}") -> Callable[[Call], Any]:
    """A reply function: ``say`` for sections, ``answer`` at the end, each a reply or a function of the call."""

    def made(call: Call) -> Any:
        chosen = answer if call.role.endswith("_answer") else say
        return chosen(call) if callable(chosen) else chosen

    return made


def model(say: Callable[[Call], Any], **more: Any) -> ScriptedModel:
    """A scripted model that counts a word as a token."""
    made = ScriptedModel(say, **more)
    made.tokenizer = Words()  # type: ignore[assignment]
    return made


def solve(
    name: str,
    reader: ScriptedModel,
    document: Document | str,
    question: str = QUESTION,
    *,
    preset: str = "lean",
    cache: Cache | None = None,
    on_event: Callable[[Event], None] | None = None,
    config: Mapping[str, Any] | None = None,
    **settings: Any,
) -> Answer:
    """The answer of the method of that name, in simulated time."""
    kind = method(name)
    return simulate(
        kind(kind.Config.preset(preset, **(config or {}))).answer(
            Document.from_text(document) if isinstance(document, str) else document,
            question,
            model=reader,
            settings=RunSettings(**settings),
            cache=cache or Cache.temporary(),
            on_event=on_event,
        )
    )


def lines(count: int, *, first: int = 0) -> str:
    """A text of ``count`` sentences, ten words each, no two alike."""
    return "\n".join(f"At pier {n} it rained and rained and rained again." for n in range(first, first + count))
