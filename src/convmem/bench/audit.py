"""Questions whose label is not in their support: a faithful reader of it could not give that answer.

Knows questions only. Yes and no are never in the text, and are not looked for.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from convmem.bench.metrics import CLOSED, normalize
from convmem.bench.questions import Question


@dataclass(frozen=True, slots=True)
class Finding:
    """``elsewhere``: the label or an alias is in another sentence or paragraph that comes with the question."""

    id: str
    answers: tuple[str, ...]
    elsewhere: bool


def audit(questions: Iterable[Question]) -> tuple[Finding, ...]:
    """Neither label nor alias is in a supporting unit or in the title over it, all normalized.

    A question without known support (MemAgent's files) is not judged.
    """
    findings: list[Finding] = []
    for question in questions:
        answers = {answer for answer in map(normalize, question.answers) if answer}
        if not question.support or answers & CLOSED:
            continue
        support = [question.unit_text(unit) for unit in question.support]
        support += [question.paragraphs[number].title for number in question.supporting]
        if not _any_in(answers, support):
            everything = [text for paragraph in question.paragraphs for text in paragraph.passage]
            findings.append(Finding(question.id, question.answers, _any_in(answers, everything)))
    return tuple(findings)


def _any_in(answers: Iterable[str], texts: Iterable[str]) -> bool:
    padded = [f" {normalize(text)} " for text in texts]
    return any(f" {answer} " in text for answer in answers for text in padded)
