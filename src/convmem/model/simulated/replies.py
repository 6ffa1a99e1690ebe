"""What a simulated reader replies, role by role. Knows every role's form of reply; knows no time and no server."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Collection, Mapping, Sequence

from convmem.core import NOT_FOUND, InputError, TokenLogprobs
from convmem.model.simulated import committing
from convmem.model.simulated.reading import Read

NOTHING = "NONE"

Said = tuple[str, tuple[TokenLogprobs, ...]]

_LIMIT = re.compile(r"at most (\d+)")


def _asked(read: Read) -> str:
    return read.prompt.partition("Question: ")[2].partition("\n")[0]


def _decompose(read: Read) -> str:
    knowledge = read.knowledge
    limit = _LIMIT.search(read.prompt)
    parts = [f"{text} {knowledge.step(part)}".strip() for part, text in enumerate(knowledge.parts, 1)]
    if len(parts) < 2 or (limit and len(parts) > int(limit[1])):
        parts = [knowledge.question or _asked(read)]
    return json.dumps({"sub_questions": parts, "keywords": []})


def _decompose_hops(read: Read) -> str:
    """The sub-questions, each naming the answers that its facts need by their number."""
    split = json.loads(_decompose(read))["sub_questions"]
    return json.dumps({"sub_questions": split if len(split) < 2 else [_linked(read, *p) for p in enumerate(split, 1)]})


def _linked(read: Read, part: int, text: str) -> str:
    needed = {read.facts[n].part for fact in read.facts if fact.part == part for n in fact.needs} - {part}
    for number in sorted(needed):
        named = text.replace(f"the answer of step {number}", f"#{number}")
        text = f"#{number} {text}" if named == text else named
    return text


def _relevance_of(read: Read, facts: Collection[int], question: int = 1) -> int:
    if facts:
        return 2
    if read.unclear(question):
        return 1
    return (2 if read.draw("how relevant") < 0.5 else 1) if read.false_alarm(question) else 0


def _relevance(read: Read) -> str:
    return json.dumps({"relevance": _relevance_of(read, read.noticed)})


def _bullets(notes: Sequence[str]) -> str:
    return "\n".join(f"- {note}" for note in notes) or NOTHING


def _notes(read: Read, facts: Collection[int], question: int = 1) -> list[str]:
    return [*map(read.note, sorted(facts)), *([read.false_note()] if read.false_alarm(question) else [])]


def _quotes(read: Read, facts: Collection[int], question: int = 1) -> list[str]:
    found = [*map(read.facts.__getitem__, sorted(facts)), *read.unclear(question)]
    quoted = [sentence for fact in found for sentence in fact.sentences]
    return [*quoted, *([read.irrelevant()] if read.false_alarm(question) else [])]


def _rows(read: Read, facts: Collection[int], question: int = 1) -> list[str]:
    """The notes as records: what a sentence begins with, and the rest of it as what is said of that."""
    words = (note.split() for note in _notes(read, facts, question))
    return [f"{' '.join(note[:2])} | is said | {' '.join(note[2:])}" for note in words if len(note) > 2]


def _readings(read: Read, write: Callable[[Read, Collection[int], int], list[str]]) -> str:
    found = [
        {"question": n, "relevance": _relevance_of(read, facts, n), "notes": write(read, facts, n)}
        for n, facts in enumerate((needed & read.noticed for needed in read.questions), 1)
    ]
    return json.dumps({"readings": found}, ensure_ascii=False)


def _complete(read: Read) -> bool:
    """Whether every fact that the prompt's first question needs is noticed."""
    return bool(read.questions[0]) and read.questions[0] <= read.noticed


def _answer(read: Read, cited: str, *, final: bool) -> str:
    """The answer where every needed fact is noticed; what is noticed of it otherwise, which a last answer can't use."""
    needed, noticed, whole = read.questions[0], read.noticed, _complete(read)
    if final:
        text = read.knowledge.answer if whole else NOT_FOUND
    else:
        said = (
            next((f.answer for n in sorted(needed, reverse=True) if (f := read.facts[n]).answer), "") if whole else ""
        )
        text = " ".join([said, *(read.facts[n].marker for n in sorted(noticed))]).strip() or NOT_FOUND
    return json.dumps({"answer": text, cited: read.passages(noticed)}, ensure_ascii=False)


def _memory(read: Read) -> str:
    return "\n".join(_notes(read, read.noticed)) or NOTHING


def _memorize_recall(read: Read) -> str:
    """The memory, and a query for what the question still lacks."""
    query = "" if _complete(read) else f"<recall>{read.knowledge.question}</recall>"
    return f"<update>{_memory(read)}</update>{query}"


def _memorize_gated(read: Read) -> str:
    """The update gate is open where a noticed fact is new, or for no reason; the exit gate where nothing is missing."""
    exit_gate = f"<next>{'end' if _complete(read) else 'continue'}</next>"
    if not any(map(read.lacks, read.noticed)) and not read.false_alarm():
        return f"<check>no</check>{exit_gate}"
    return f"<check>yes</check><update>{_memory(read)}</update>{exit_gate}"


def _memorize_entries(read: Read) -> str:
    notes = _notes(read, [n for n in read.noticed if read.lacks(n)])
    made = [{"tool": "insert", "memory": "semantic", "id": "", "content": note} for note in notes]
    return json.dumps({"operations": made}, ensure_ascii=False)


def _boxed(read: Read) -> str:
    return f"\\boxed{{{read.knowledge.answer if _complete(read) else NOT_FOUND}}}"


def _untold(read: Read) -> str:
    """For a prompt that says nothing of a form: notes on what is noticed, then the answer where that is all of it."""
    answer = read.knowledge.answer if _complete(read) else NOT_FOUND
    return "\n".join([*_notes(read, read.noticed), f"Answer: {answer}"])


def _lacking(read: Read) -> str:
    """What to search for next: what the noticed facts lead to, else the question again."""
    led_to = " ".join(read.facts[n].answer for n in sorted(read.noticed))
    return "" if _complete(read) else f"{led_to} {read.knowledge.question}".strip()


def _missing(read: Read) -> str:
    return json.dumps({"enough": _complete(read), "missing": _lacking(read)}, ensure_ascii=False)


def _lookup(read: Read) -> str:
    """The answer where every needed fact is noticed, else which passages help, and what to search for next."""
    answer = read.knowledge.answer if _complete(read) else NOT_FOUND
    found = {"answer": answer, "passages": read.passages(read.noticed), "missing": _lacking(read)}
    return json.dumps(found, ensure_ascii=False)


def _follow_up(read: Read) -> str:
    """The question as it stands, with the document needed: what went before is not the reader's to know."""
    return json.dumps({"question": _asked(read), "document": True}, ensure_ascii=False)


_ROLES: Mapping[str, Callable[[Read], str]] = {
    "decompose": _decompose,
    "decompose_hops": _decompose_hops,
    "relevance": _relevance,
    "summarize": lambda read: _bullets(_notes(read, read.noticed)),
    "quote": lambda read: _bullets(_quotes(read, read.noticed)),
    "kernel_notes": lambda read: _readings(read, _notes),
    "kernel_quotes": lambda read: _readings(read, _quotes),
    "kernel_records": lambda read: _readings(read, _rows),
    "records": lambda read: "\n".join(_rows(read, read.noticed)) or NOTHING,
    "summarize_window": lambda read: _bullets(_notes(read, read.noticed)),
    "lookup": _lookup,
    "merge": lambda read: _bullets(_notes(read, read.noticed)),
    "sub_answer": lambda read: _answer(read, "passages", final=False),
    "direct": lambda read: _answer(read, "passages", final=True),
    "answer": lambda read: _answer(read, "findings", final=True),
    "memorize": _memory,
    "memorize_recall": _memorize_recall,
    "memorize_gated": _memorize_gated,
    "memorize_entries": _memorize_entries,
    "summarize_cluster": _memory,
    "memory_answer": _boxed,
    "recall_answer": _boxed,
    "entries_answer": _boxed,
    "missing": _missing,
    "untold": _untold,
    "follow_up": _follow_up,
    "reply": _untold,
    "probe": lambda _: "Yes",
    "commit": committing.commit,
    "reconsider": committing.reconsider,
    "resolve": committing.resolve,
}
"""What each role replies; ``score`` and ``verify`` apart, whose reply is a probability."""


def reply(read: Read) -> Said:
    """The reply's text, and its log-probabilities where they were asked for."""
    if read.role == "score":
        relevant = bool(read.noticed) or read.false_alarm()
        yes = 0.5 + 0.49 * read.draw("score") if relevant else 0.01 + 0.08 * read.draw("score")
        return _either("Yes", "No", yes, read)
    if read.role == "verify":
        return _either("True", "Unknown", committing.supported(read), read)
    if read.role not in _ROLES:
        raise InputError(f"The simulated reader does not know how to reply to the role {read.role!r}.")
    text = _ROLES[read.role](read)
    if read.draw("malformed") < read.behaviour.malformed:
        text = text[: len(text) // 2]
    return text, _either("Yes", "No", 0.99, read)[1]


def _either(one: str, other: str, probability: float, read: Read) -> Said:
    """One word with that probability, or the other: the likelier."""
    top = sorted(((one, math.log(probability)), (other, math.log(1 - probability))), key=lambda each: -each[1])
    return top[0][0], ((TokenLogprobs(*top[0], tuple(top)),) if read.wants_logprobs else ())
