"""A copy of a dataset in which answer entities have invented names, everywhere the same: what it answers, was read.

The difference to the original's score measures how far a model relies on what it knew (METHODS section 11). Knows
questions and passages. The pool must be renamed by the same ``Renaming``.
"""

from __future__ import annotations

import calendar
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import count
from random import Random

from convmem.bench.metrics import CLOSED, normalize
from convmem.bench.names import WORDS, word
from convmem.bench.questions import Hop, Paragraph, Passage, Question
from convmem.core import Span

_WORD = re.compile(r"[^\W\d_]+")
_ARTICLE = re.compile(r"\A(?:the|an?)\s+", re.IGNORECASE)
_MONTHS = frozenset(calendar.month_name[1:])
_SHORTEST = 3
"""Letters of a word that is replaced by itself: initials and abbreviations are ambiguous."""


@dataclass(frozen=True)
class Renaming:
    """``words`` maps words of answers to invented ones; ``phrases`` maps answers that consist of common words, whole.

    Phrases of several words are in lower case, since titles differ in it, and are replaced whatever their case.
    ``unchanged`` are the ids of questions whose answers hold no name: numbers, dates, yes and no, common words.
    """

    words: Mapping[str, str]
    phrases: Mapping[str, str]
    unchanged: tuple[str, ...]

    @classmethod
    def of(cls, questions: Sequence[Question], pool: Iterable[Passage] = (), *, seed: int = 0) -> Renaming:
        """For the answers of ``questions`` and their aliases.

        A word with a capital that never stands in lower case, in the questions or ``pool``, is taken for a name, and is
        replaced wherever it stands alone or in a longer name (surnames, "York" in "New York City"); inflected forms
        ("Americans") are not.
        """
        known = {word for text in _texts(questions, pool) for word in _WORD.findall(text)}
        start = Random(f"{seed}/rename").randrange(WORDS)
        invented = (name for name in map(word, count(start)) if name not in known)
        words: dict[str, str] = {}
        phrases: dict[str, str] = {}
        unchanged: list[str] = []
        for question in questions:
            named = [answer for answer in question.answers if _is_name(answer)]
            if not named:
                unchanged.append(question.id)
            for answer in named:
                proper = [w for w in _WORD.findall(answer) if _is_proper(w, known)]
                for key, target in [(w, words) for w in proper] or [(_phrase(answer), phrases)]:
                    if key not in target:
                        target[key] = next(invented).upper() if key.isupper() else next(invented)
        return cls(words, phrases, tuple(unchanged))

    def text(self, text: str) -> str:
        """``text`` with every name replaced."""
        return self._pattern.sub(self._new, text)

    def passage(self, passage: Passage) -> Passage:
        return Passage(self.text(passage.title), self.text(passage.text))

    def question(self, question: Question) -> Question:
        """The question with its paragraphs and hops; spans follow their text."""
        renamed = [self._paragraph(paragraph) for paragraph in question.paragraphs]
        return replace(
            question,
            question=self.text(question.question),
            answers=tuple(self.text(answer) for answer in question.answers),
            paragraphs=tuple(renamed),
            support=tuple(
                replace(unit, span=self._span(unit.span, question.paragraphs[unit.paragraph].text))
                for unit in question.support
            ),
            hops=tuple(Hop(self.text(hop.question), self.text(hop.answer), hop.needs) for hop in question.hops),
            context=None if question.context is None else self.text(question.context),
        )

    def _new(self, match: re.Match[str]) -> str:
        old = match[0]
        return self.words.get(old) or self.phrases.get(old) or self.phrases.get(old.lower(), old)

    @cached_property
    def _pattern(self) -> re.Pattern[str]:
        phrases = sorted(self.phrases, key=len, reverse=True)
        whole = "|".join(f"(?i:{re.escape(p)})" if " " in p else re.escape(p) for p in phrases)
        return re.compile((rf"(?<!\w)(?:{whole})(?!\w)|" if whole else "") + _WORD.pattern)

    def _paragraph(self, paragraph: Paragraph) -> Paragraph:
        spans = tuple(self._span(span, paragraph.text) for span in paragraph.sentences)
        return Paragraph(self.text(paragraph.title), self.text(paragraph.text), spans)

    def _span(self, span: Span, text: str) -> Span:
        """Where ``span`` of ``text`` is after renaming; a boundary inside a name stays in it or moves to its end."""
        return Span(self._offset(span.start, text), self._offset(span.end, text))

    def _offset(self, offset: int, text: str) -> int:
        moved = offset
        for match in self._pattern.finditer(text):
            if match.start() >= offset:
                break
            size = len(self._new(match))
            moved += size - len(match[0]) if match.end() <= offset else min(0, match.start() + size - offset)
        return moved


def _texts(questions: Iterable[Question], pool: Iterable[Passage]) -> Iterator[str]:
    for question in questions:
        yield question.question
        yield question.context or ""
        for paragraph in question.paragraphs:
            yield from paragraph.passage
    for passage in pool:
        yield from passage


def _is_name(answer: str) -> bool:
    words = _WORD.findall(_ARTICLE.sub("", answer))
    dated = any(character.isdigit() for character in answer) or _MONTHS.intersection(words)
    return not dated and normalize(answer) not in CLOSED and any(word[0].isupper() for word in words)


def _is_proper(word: str, known: set[str]) -> bool:
    return len(word) >= _SHORTEST and word[0].isupper() and word.lower() not in known


def _phrase(answer: str) -> str:
    bare = _ARTICLE.sub("", answer)
    return bare.lower() if " " in bare else bare
