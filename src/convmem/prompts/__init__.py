"""The prompts: one template a file, named by the role it plays, with a version.

A template file has a first line ``version: N`` and then the sections ``[system]`` and ``[user]``. ``{{name}}`` stands
for text that we or the user wrote; ``{{<name>}}`` for text that comes from a document or from a model's reply, which is
set between tags that it can't close. The tags follow from the text alone, so that equal texts give equal prompts.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources

from convmem.core import Message

_VARIABLE = re.compile(r"\{\{(<?)(\w+)>?\}\}")

_CONTROL_NAMES = "s|bos|eos|pad|unk|mask|think|tool_call|tool_response|start_of_turn|end_of_turn|image|audio|<SYS"
_CONTROL_TOKENS = {
    "<": re.compile(rf"<(?=/?[|｜]|/?(?:{_CONTROL_NAMES})>)"),
    "[": re.compile(r"\[(?=/?(?:INST|[A-Z]+_[A-Z]+)\])"),
    "|": re.compile(r"\|(?=>)"),
    "｜": re.compile("｜(?=>)"),
}
"""What some model's tokenizer takes for a control token, ``<|im_end|>``, ``</s>``, ``[INST]``, by its first character.

Apart, since looking for one character costs next to nothing, and most texts hold none of them.
"""


@dataclass(frozen=True, slots=True)
class Template:
    """A prompt by role. ``id`` is ``name@version``; ``system`` may be empty."""

    name: str
    version: int
    system: str
    user: str

    @property
    def id(self) -> str:
        return f"{self.name}@{self.version}"

    def render(self, variables: Mapping[str, str]) -> tuple[Message, ...]:
        """The messages with every variable filled in. Raises KeyError for a variable that is not given."""

        def fill(part: str) -> str:
            return _VARIABLE.sub(lambda m: fence(m[2], variables[m[2]]) if m[1] else variables[m[2]], part)

        system = (Message("system", fill(self.system)),) if self.system else ()
        return (*system, Message("user", fill(self.user)))


def fence(tag: str, text: str) -> str:
    """``text`` between ``<tag>`` and ``</tag>``, so that it can neither close the tag nor form a control token.

    Where the text holds the tag, the tag gets the lowest number that the text doesn't hold.
    """
    text = neutralize(text)
    name, number = tag, 1
    while "<" in text and re.search(rf"<\s*/?\s*{name}\b", text, re.IGNORECASE):
        number += 1
        name = f"{tag}-{number}"
    return f"<{name}>\n{text}\n</{name}>"


def neutralize(text: str) -> str:
    """``text`` with a space after the first character of anything that a model may take for a control token."""
    for first, token in _CONTROL_TOKENS.items():
        if first in text:
            text = token.sub(f"{first} ", text)
    return text


@cache
def load(name: str) -> Template:
    """The template of that name. Raises FileNotFoundError where there is none."""
    content = resources.files(__package__).joinpath(f"{name}.txt").read_text("utf-8")
    head, _, rest = content.partition("\n")
    system, user = re.fullmatch(r"\s*(?:\[system\]\n(.*?)\n)?\[user\]\n(.*)", rest, re.DOTALL).groups("")  # type: ignore[union-attr]
    return Template(name, int(head.removeprefix("version:")), system.strip(), user.strip())


@cache
def roles() -> frozenset[str]:
    """The names of all templates."""
    files = (file.name for file in resources.files(__package__).iterdir())
    return frozenset(name.removesuffix(".txt") for name in files if name.endswith(".txt"))
