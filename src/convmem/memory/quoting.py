"""Finding a model's words in the text that it read: bullets in a reply, quotes in a window, sentences for a claim.

Knows one text at a time; a window's span is known before anything is looked for in it.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Iterable
from functools import lru_cache
from itertools import islice, pairwise, takewhile

from convmem.core import Malformed

_BULLET = re.compile(r"^[ \t]*(?:[-*•‣–—·]|\d{1,3}[.)])[ \t]+", re.MULTILINE)
_NOTHING = re.compile(r"(?:none|nothing(?: relevant)?|n ?a|not found|no relevant \w+)?", re.IGNORECASE)
_LONGEST_NOTHING = 4
_LONGEST_KEPT = 500
_OUTER = "\"'“”‘’«»…."
_WORD = re.compile(r"[^\W_]+")
UNSPACED = re.compile(
    r"[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]"
)
"""A character of a script that puts no spaces between words."""


def says_nothing(text: str) -> bool:
    """Whether a note is the marker for "nothing here", or empty."""
    words = [match[0] for match in islice(re.finditer(r"\w+", text), _LONGEST_NOTHING)]
    return _NOTHING.fullmatch(" ".join(words)) is not None


def as_notes(text: str) -> str:
    """``text`` where it may be a bullet list. Raises Malformed for nothing at all, and for JSON, whole or broken."""
    if not text.strip() or text.lstrip().startswith(("{", "[{", "[]")):
        raise Malformed("the reply is no list of notes")
    return text


def bullets(text: str) -> list[tuple[int, int]]:
    """The intervals of the notes in a bullet list, markers and surrounding white space left out.

    A line without a marker continues the bullet before it; text that has no marker at all is one note a line.
    """
    starts = [m.start() for m in _BULLET.finditer(text)] or [m.start() for m in re.finditer("^", text, re.MULTILINE)]
    if text[: starts[0]].strip():
        starts.insert(0, 0)
    found = []
    for start, end in pairwise([*starts, len(text)]):
        marker = _BULLET.match(text, start)
        first = marker.end() if marker else start
        note = text[first:end]
        if not says_nothing(note):
            left = first + len(note) - len(note.lstrip())
            found.append((left, left + len(note.strip())))
    return found


def locate(quote: str, text: str) -> tuple[int, int] | None:
    """Where ``quote`` stands in ``text``, or None. Case, white space and outer punctuation may differ.

    Outer punctuation that the text has too belongs to the place: a sentence keeps its full stop.
    """
    quote = quote.strip()
    core = quote.strip(_OUTER)
    if not core.strip():
        return None
    if place := _find(quote, text):
        return place
    if not (place := _find(core, text)):
        return None
    start, end = place
    before, after = quote[: len(quote) - len(quote.lstrip(_OUTER))], quote[len(quote.rstrip(_OUTER)) :]
    start -= _shared(reversed(before), reversed(text[max(0, start - len(before)) : start]))
    return start, end + _shared(after, text[end : end + len(after)])


def _find(quote: str, text: str) -> tuple[int, int] | None:
    exact = " ".join(quote.split())
    if (at := text.find(exact)) >= 0:
        return at, at + len(exact)
    sought = "".join(_lower(exact).split())
    if (at := _flat(text).find(sought)) < 0:
        return None
    places = [match.start() for match in re.finditer(r"\S", text)]
    return places[at], places[at + len(sought) - 1] + 1


@lru_cache(16)
def _flat(text: str) -> str:
    """``text`` in lower case without white space; kept, since a window's notes are looked for one after another."""
    return "".join(_lower(text).split())


def _shared(a: Iterable[str], b: Iterable[str]) -> int:
    """How many characters two texts begin with alike."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(a, b, strict=False)))


def _lower(text: str) -> str:
    """``text`` in lower case, character for character: the few that would become two stay as they are."""
    lowered = text.lower()
    return lowered if len(lowered) == len(text) else "".join(c if len(c.lower()) > 1 else c.lower() for c in text)


def terms(text: str) -> list[str]:
    """Words in lower case; for scripts without spaces, pairs of neighbouring characters."""
    words: list[str] = _WORD.findall(text.casefold())
    if text.isascii() or not UNSPACED.search(text):
        return words
    found: list[str] = []
    for word in words:
        if UNSPACED.search(word):
            found.extend(word[i : i + 2] for i in range(max(1, len(word) - 1)))
        else:
            found.append(word)
    return found


class Overlap:
    """How much of a claim each of some texts says, by the terms that they share."""

    def __init__(self, texts: Iterable[str]) -> None:
        self._holders: defaultdict[str, list[int]] = defaultdict(list)
        self._count = 0
        for number, text in enumerate(texts):
            self._count += 1
            for term in _kept_terms(text) if len(text) <= _LONGEST_KEPT else set(terms(text)):
                self._holders[term].append(number)

    def shares(self, claim: str) -> list[float]:
        """For each text, the share of ``claim``'s terms that it holds, from 0 to 1; rare terms count for more."""
        held = [0.0] * self._count
        total = 0.0
        for term in dict.fromkeys(terms(claim)):  # in their order: sums of floats depend on it
            holders = self._holders.get(term, ())
            weight = math.log(1 + (self._count + 1) / (1 + len(holders)))
            total += weight
            for number in holders:
                held[number] += weight
        return [weight / total for weight in held] if total else held


@lru_cache(4_096)
def _kept_terms(text: str) -> frozenset[str]:
    """A note's terms, kept because slices overlap: it is compared in several merges."""
    return frozenset(terms(text))
