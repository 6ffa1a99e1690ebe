"""From a chat request to a document and a question: the rules, which docs/server.md states for users.

1. A request is *short* where all its text has at most ``short_tokens`` tokens, as estimated, and it brings no file. It
   is passed to the model as it is.
2. Otherwise its files, and every long message or part of one that is not the assistant's, are the document, in their
   order. Long is what has more than ``LONG`` characters. A question that stands in a long text, as its last paragraph
   (or its last line, after a sentence), or else its first, is taken out of it.
3. The last user message is the question; the short messages before it, and the questions taken out, are the
   conversation that it goes on from. System messages that are short say nothing about a document and are left out.
4. Where nothing is long, and there are no files, the conversation itself is the document.

Knows the shape of OpenAI's messages; opens no path and no address, whatever they say.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from convmem.document import EstimateTokenizer
from convmem.serve.errors import Refusal
from convmem.serve.followup import Turn, recent
from convmem.serve.intake import File
from convmem.serve.runs import LONGEST_QUESTION

LONG = 4_000
"""Characters beyond which a text in a chat is something to read."""
LONGEST_PARAGRAPH = 2_000
"""Characters of a paragraph, or a line, that is taken for a question."""
_COUNTED = 16_384
"""Characters that are counted at a time, since the start of a long text tells that it is not short."""

_PARAGRAPH = re.compile(r"\n[ \t]*\n")
_LINE = re.compile("\n")
_MARKS = ("?", "\uff1f")
_ENDS = tuple('.!?:"”)')
_OTHERS = ("system", "developer", "tool", "function")
"""Whose messages these are, apart from the user's and the assistant's."""
_DATA_URL = re.compile(r"data:[\w.+/-]*(?:;[\w=.+-]+)*;base64,", re.ASCII)


@dataclass(frozen=True, slots=True)
class Text:
    """A part of the document that came as a message."""

    name: str
    text: str


@dataclass(frozen=True, slots=True)
class Stored:
    """A document that was uploaded before, by its id."""

    id: str


@dataclass(frozen=True, slots=True)
class Reading:
    """What a chat asks for: ``parts`` are the document, ``turns`` the conversation before ``question``."""

    parts: tuple[Text | File | Stored, ...]
    question: str
    turns: tuple[Turn, ...]


def understand(messages: Sequence[Mapping[str, Any]], short_tokens: int) -> Reading | None:
    """What a chat asks to be read, None where it is short. Raises Refusal (400) where it can't be told.

    ``messages`` are as OpenAI's clients send them.
    """
    if _is_short(messages, short_tokens):
        return None
    last = max((n for n, message in enumerate(messages) if message.get("role") == "user"), default=-1)
    if last < 0:
        raise Refusal(400, "There is no user message to take the question from: end with one.", param="messages")
    documents: list[Text | File | Stored] = []
    turns: list[Turn] = []
    question = ""
    for number, message in enumerate(messages[: last + 1]):
        asks = number == last or messages[number + 1].get("role") == "assistant"
        parts, said = _parted(number, message, asks=asks)
        documents += parts
        if number == last:
            question = said
        elif said and message.get("role") in ("user", "assistant"):
            turns.append(Turn(text=said, answer=message["role"] == "assistant"))
    if not question:
        raise Refusal(
            400, "There is no question in the last user message: write it there, or as the last paragraph of its text.",
            param="messages",
        )  # fmt: skip
    if len(question) > LONGEST_QUESTION:
        said = f"The question may have {LONGEST_QUESTION:,} characters: send what is to be read as one text, or a file."
        raise Refusal(400, said, param="messages")
    if not documents:
        whole = "\n\n".join(f"{'Assistant' if turn.answer else 'User'}: {turn.text}" for turn in turns)
        if not whole:
            raise Refusal(400, "There is no document: send it in a message, or as a file.", param="messages")
        return Reading((Text("conversation", whole),), question, ())
    return Reading(tuple(documents), question, recent(turns))


def _parted(number: int, message: Mapping[str, Any], *, asks: bool) -> tuple[list[Text | File | Stored], str]:
    """What of a message is document, and what is said in it; ``asks``: there should be a question."""
    documents: list[Text | File | Stored] = []
    said: list[str] = []
    lengthy: list[int] = []
    for part in _parts(message):
        match part:
            case str() as text if len(text) <= LONG or message.get("role") == "assistant":
                said.append(text.strip())
            case str() as text:
                lengthy.append(len(documents))
                documents.append(Text(_name(message, number), text))
            case _:
                documents.append(part)
    spoken = "\n".join(filter(None, said))
    if lengthy and not spoken and asks and message.get("role") == "user":
        at = lengthy[-1]
        long = documents[at]
        assert isinstance(long, Text)
        rest, spoken = _split(long.text)
        documents[at] = Text(long.name, rest)
    return documents, spoken


def _split(text: str) -> tuple[str, str]:
    """A long text without the question in it, and the question; all of the text where there is none."""
    body = text.strip()
    before, _, line = body.rpartition("\n")
    # A question on a line of its own after the end of a sentence, as commands append it to what a pipe gives them.
    if before.rstrip().endswith(_ENDS) and line.endswith(_MARKS) and len(line) <= LONGEST_PARAGRAPH:
        return before.strip(), line.strip()
    for separator in (_PARAGRAPH, _LINE):
        found, backwards = separator.search(body), separator.search(body[::-1])
        if not found or not backwards:
            continue
        after_first, after_last = found.end(), len(body) - backwards.start()
        first, last = body[:after_first].strip(), body[after_last:].strip()
        from_first, from_last = (body[after_first:].strip(), first), (body[:after_last].strip(), last)
        asked_first = first.endswith(_MARKS) and not last.endswith(_MARKS)
        for rest, question in (from_first, from_last) if asked_first else (from_last, from_first):
            if 0 < len(question) <= LONGEST_PARAGRAPH:
                return rest, question
    return text, ""


def _parts(message: Mapping[str, Any]) -> Iterator[str | File | Stored]:
    """The texts and files of a message. Raises Refusal (400) for what can't be read here."""
    content = message.get("content")
    if isinstance(content, str):
        yield content
    for part in content if isinstance(content, list) else ():
        kind = part.get("type") if isinstance(part, Mapping) else None
        if kind in ("text", "input_text"):
            yield str(part.get("text", ""))
        elif kind in ("file", "input_file"):
            yield _file(part.get("file") if isinstance(part.get("file"), Mapping) else part)
        else:
            raise Refusal(400, f"A part of type '{kind}' can't be read: send text or files.", param="messages")


def _file(part: Mapping[str, Any]) -> File | Stored:
    """A file that is in the request, or that was uploaded; nothing else names one."""
    if isinstance(id_ := part.get("file_id"), str):
        return Stored(id_)
    data = part.get("file_data")
    if not isinstance(data, str):
        raise Refusal(400, "A file part needs file_data (base64), or the file_id of an upload.", param="messages")
    if head := _DATA_URL.match(data):
        data = data[head.end() :]
    try:
        content = base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError):
        raise Refusal(400, "file_data is not base64.", param="messages") from None
    return File(str(part.get("filename") or "file"), content)


def _is_short(messages: Sequence[Mapping[str, Any]], short_tokens: int) -> bool:
    texts = []
    for message in messages:
        content = message.get("content")
        if isinstance(content, str):
            texts.append(content)
        for part in content if isinstance(content, list) else ():
            if isinstance(part, Mapping) and part.get("type") in ("file", "input_file"):
                return False
            if isinstance(part, Mapping) and isinstance(part.get("text"), str):
                texts.append(part["text"])
    if sum(map(len, texts)) <= short_tokens:  # a token has a character at least
        return True
    counted, tokenizer = 0, EstimateTokenizer()
    for text in texts:
        for at in range(0, len(text), _COUNTED):
            counted += tokenizer.count(text[at : at + _COUNTED])
            if counted > short_tokens:
                return False
    return True


def _name(message: Mapping[str, Any], number: int) -> str:
    role = message.get("role")
    return f"message {number + 1} ({role})" if role in _OTHERS else f"message {number + 1}"
