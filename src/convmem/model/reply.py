"""Reads what a model wrote: its reasoning apart from its reply, and JSON however it is wrapped.

Knows no schema and no transport. Whatever the text, nothing but ``Malformed`` is raised.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from itertools import accumulate
from typing import Any

import json_repair

from convmem.core import Malformed, TokenLogprobs

_OPEN = re.compile(r"\s*<(think|thinking)>", re.IGNORECASE)
_CLOSE = re.compile(r"</(?:think|thinking)>", re.IGNORECASE)
_FENCE = re.compile(r"```[\w+-]*[ \t]*\r?\n(.*?)```", re.DOTALL)
_TRIES = 64
"""How many opening braces are tried: each try may scan the whole text."""
_LONGEST_REPAIR = 16_384
"""Characters that are repaired: the time that it takes grows with their square."""
_DEEPEST_REPAIR = 32
"""Brackets open at once: the time grows with the square of these, too."""


def split_reasoning(text: str) -> tuple[str, str]:
    """``text`` as (reasoning, reply).

    Reasoning is what stands between leading think tags; all of the text where the tag is never closed; and what stands
    before a lone closing tag, since some chat templates open the tag in the prompt.
    """
    opened, closed = _OPEN.match(text), _CLOSE.search(text)
    start = opened.end() if opened else 0
    if closed:
        return text[start : closed.start()].strip(), text[closed.end() :].strip()
    return (text[start:].strip(), "") if opened else ("", text)


def read_json(text: str) -> Any:
    """The JSON value that ``text`` is, or that it holds in a fenced block, or the first whole object in its prose.

    Raises Malformed where there is none.
    """
    for candidate in (text, *(match[1] for match in _FENCE.finditer(text))):
        try:
            return json.loads(candidate.strip("\ufeff \t\r\n"))
        except (ValueError, RecursionError):
            continue
    decoder = json.JSONDecoder()
    start = -1
    for _ in range(_TRIES):
        start = text.find("{", start + 1)
        if start < 0:
            break
        try:
            return decoder.raw_decode(text, start)[0]
        except (ValueError, RecursionError):
            continue
    raise Malformed("The reply holds no JSON.")


def repair_json(text: str) -> dict[str, Any]:
    """The object that almost-JSON was meant to be: cut off, unquoted, with stray commas or prose around it.

    Reads at most 16,384 characters from the first brace on. Raises Malformed where no object comes out.
    """
    start = text.find("{")
    almost = text[start : start + _LONGEST_REPAIR] if start >= 0 else ""
    if max(accumulate((character in "{[") - (character in "}]") for character in almost), default=0) > _DEEPEST_REPAIR:
        raise Malformed("The reply nests too deeply to be repaired.")
    try:
        value = json_repair.loads(almost)
    except Exception as error:  # the library promises nothing for hostile text
        raise Malformed("The reply can't be read as JSON, even repaired.") from error
    found = next((item for item in (value if isinstance(value, list) else [value]) if isinstance(item, dict)), None)
    if found is None:
        raise Malformed("The reply holds no JSON object, even repaired.")
    return found


def read_choice(text: str, choices: Sequence[str]) -> str:
    """Which of the words ``choices``, in lower case, the reply begins with. Raises Malformed where it is none."""
    said = text.strip().strip("*\"'`.").casefold()
    for choice in choices:
        if said.startswith(choice):
            return choice
    raise Malformed(f"The reply is none of {', '.join(choices)}.")


def choice_probabilities(logprobs: Sequence[TokenLogprobs], choices: Sequence[str]) -> dict[str, float]:
    """How the reply's first token divides its probability among ``choices``; empty where it gives none to any.

    A token may be the beginning of a choice, where that tells it from the others.
    """
    mass = dict.fromkeys(choices, 0.0)
    for token, logprob in logprobs[0].top if logprobs else ():
        word = token.strip().casefold()
        if word and len(begun := [choice for choice in choices if choice.startswith(word)]) == 1:
            mass[begun[0]] += math.exp(logprob)
    total = sum(mass.values())
    return {choice: share / total for choice, share in mass.items()} if total else {}
