"""A reply function that reads: it answers every prompt of this project by the words that a sentence shares with the
question. Deterministic, and no judge of quality: it is there so that whole runs can be made in milliseconds.
"""

from __future__ import annotations

import re

from tests.support.server import Chat, Json, Reply

_FENCED = re.compile(r"<(window|passages|findings|notes)(?:-\d+)?>\n(.*)\n</\1(?:-\d+)?>\n", re.DOTALL)


def read(request: Json) -> Reply:
    """The reply to one request."""
    prompt: str = request["messages"][-1]["content"]
    fenced = _FENCED.match(prompt)
    text, asked = (fenced[2], prompt[fenced.end() :]) if fenced else ("", prompt)
    question, _, task = asked.strip().partition("\n\n")
    question = question.removeprefix("Question: ").removeprefix("Questions:\n")
    if '{"sub_questions"' in task:
        return {"sub_questions": _parts(question), "keywords": sorted(_words(question))}
    if '{"readings"' in task:
        return {"readings": [_reading(n, text, q) for n, q in enumerate(_numbered(question), 1)]}
    if '{"relevance"' in task:
        return {"relevance": _reading(1, text, question)["relevance"]}
    if "which of its properties" in asked:
        return "\n".join(_record(sentence) for sentence in _sentences(text))
    if '"passages": [' in task:
        said = [(number, sentence) for number, passage in _passages(text) for sentence in _sentences(passage)]
        number, sentence = max(said, key=lambda each: _shared(each[1], question))
        return {"passages": [number], "answer": sentence}
    if '"findings": [' in task:
        return {"findings": [1], "answer": text.partition("Answer: ")[2].partition("\n")[0]}
    if "Reply with one word" in task:
        claim = re.sub(r"</?claim>", "", question)
        return "True" if 2 * _shared(text, claim) > len(_words(claim)) else "Unknown"
    if "Reply Yes or No" in task:
        yes = any(_reading(n, text, q)["relevance"] for n, q in enumerate(_numbered(question), 1))
        return _yes_or_no(yes)
    notes = _notes(text, question)
    return "\n".join(f"- {note}" for note in notes) or "NONE"


def _record(sentence: str) -> str:
    """A sentence as a record, by its verb."""
    subject, _, value = sentence.partition(" was called ")
    return f"{subject} | was called | {value}" if value else f"it | says | {sentence}"


def _reading(number: int, text: str, question: str) -> Json:
    notes = _notes(text, question)
    return {"question": number, "relevance": 2 if notes else 0, "notes": notes}


def _notes(text: str, question: str) -> list[str]:
    enough = 0.7 * len(_words(question))
    return [sentence for sentence in _sentences(text) if _shared(sentence, question) > enough][:5]


def _yes_or_no(yes: bool) -> Chat:
    top = [{"token": "Yes", "logprob": -0.05 if yes else -5.0}, {"token": "No", "logprob": -5.0 if yes else -0.05}]
    said = "Yes" if yes else "No"
    return Chat(said, logprobs=[{"token": said, "logprob": -0.05, "top_logprobs": top}])


def _parts(question: str) -> list[str]:
    return [part.strip() for part in question.split(" and ") if part.strip()]


def _numbered(question: str) -> list[str]:
    return [re.sub(r"^\d+\. ", "", line) for line in question.splitlines()]


def _passages(text: str) -> list[tuple[int, str]]:
    parts = re.split(r"^\[(\d+)\] ", text, flags=re.MULTILINE)
    return [(int(number), body) for number, body in zip(parts[1::2], parts[2::2], strict=True)] or [(1, text)]


def _sentences(text: str) -> list[str]:
    return [s.strip("- \n") for s in re.split(r"(?<=[.!?])\s+|\n+", text) if s.strip("- \n")] or [text]


def _shared(text: str, question: str) -> int:
    return len(_words(text) & _words(question))


def _words(text: str) -> set[str]:
    return {word for word in re.findall(r"\w+", text.casefold()) if len(word) > 3 or word.isdigit()}
