"""Where sentences and paragraphs end, by offset. Knows punctuation and layout; knows nothing of documents and tokens.

A boundary is the position after a sentence's last mark, or after a line of a list, a table or code; the white space
that follows is in neither sentence. Whether a position is one depends on the characters near it alone, so every
function looks at a part of the text, and a single line of 50 MB costs no more than many short ones.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import chain

from convmem.core import Span

REACH = 1_000
"""Characters within which the start or end of a sentence is looked for; a longer one is cut at a word."""

_CLOSING = r"""["'”’»)\]*_]{0,4}"""
_SENTENCE = re.compile(
    rf"""
    [.!?…。！？｡।॥؟۔\n\ ]  # one set first, which is what the engine searches fast for
    (?: (?<= [.!?…] ) [.!?…]{{0,7}} {_CLOSING} (?= \s | \Z )
      | (?<= [。！？｡] ) [。！？｡]{{0,7}} [”’」』）】〉》)"]{{0,4}}
      | (?<= [।॥؟۔] ) {_CLOSING}
      | (?<= \n )
      | (?<= [\u0e01-\u0e4e]\  ) (?= \ {{0,3}} [\u0e01-\u0e4e] )  # Thai: a space ends a phrase or sentence
    )""",
    re.VERBOSE,
)
_PARAGRAPH = re.compile(r"\n[ \t\r]*\n\s{0,64}")
_SPACE = re.compile(r"\s*")
_LOOKAHEAD = 16


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_NEVER_LAST = _words(
    "adm approx capt cf col dr e.g eds esp fig figs gen gov hon i.e lt maj messrs mr mrs ms mt nr pres prof rep rev"
    " sen sgt st viz vs bzw d.h z.b"
)
_RARELY_LAST = _words("al assn ave bros co corp dept ed est etc inc jr ltd sr univ usw")
_BEFORE_A_NUMBER = _words("art ca ch chap eq no nos op p pp sec vol vols")
_OPENERS = _words("A After All An As At But For He Her His I In It Its No On She That The Then There They We")
_WORD_BEFORE = re.compile(r"[^\W\d_](?:[\w.]*[^\W_])?\Z")
_WORD_AFTER = re.compile(r"\s*[\"'“‘«(\[*_]*(\w*)")
_LIST_NUMBER = re.compile(r"(?:\A|\n)[ \t>]*\d{1,3}\Z")

_LAYOUT = re.compile(r"[ \t]*(?:[-*+•>|#{}\[\]<@]|\d{1,3}[.)]\s|```|~~~|//)|\t| {4}|[ \t\r]*(?:\n|\Z)")
_WHOLE_LINE = re.compile(r"[ \t]*[#|]")
_WRAPPED = 40
"""Characters from which a line may have been broken to a width, so that its sentence goes on in the next line."""
_LONG_LINE = 400


def sentences(text: str, start: int, end: int) -> Iterator[Span]:
    """The sentences of ``text[start:end]``, without the white space around them."""
    for boundary in chain(boundaries(text, start, end), (end,)):
        first = _after_space(text, start, boundary)
        last = first + len(text[first:boundary].rstrip())
        if first < last:
            yield Span(first, last)
        start = boundary


def boundaries(text: str, start: int, end: int) -> Iterator[int]:
    """The boundaries in ``(start, end)``, rising."""
    for match in _SENTENCE.finditer(text, start, min(end + _LOOKAHEAD, len(text))):
        at, mark = match.end(), text[match.start()]
        if at >= end:
            return
        if mark == "\n":
            last = _line_is_last(text, match.start())
        else:
            last = mark not in ".!?…" or _stop_is_last(text, match.start(), at)
        if last and at > start:
            yield at


def sentence_start(text: str, at: int) -> int:
    """The start of the sentence that holds the character at ``at``; ``at`` itself where that is white space."""
    low = max(at - REACH, 0)
    start = max(boundaries(text, low, at + 1), default=low)
    if start == low > 0:
        start = max(text.find(" ", low, at) + 1, low)
    return _after_space(text, start, at)


def sentence_end(text: str, at: int) -> int:
    """The end of the sentence that holds the character before ``at``; ``at`` itself where that is white space."""
    if at == 0 or text[at - 1].isspace():
        return at
    high = min(at + REACH, len(text))
    for boundary in boundaries(text, at - 1, high + 1):
        if boundary >= at:
            return at + len(text[at:boundary].rstrip())
    return high if high == len(text) else max(text.rfind(" ", at, high), at)


def paragraph_ends(text: str, start: int, end: int) -> Iterator[int]:
    """Where the next paragraph begins, behind each blank line within ``text[start:end]``."""
    return (paragraph.end() for paragraph in _PARAGRAPH.finditer(text, start, end))


def cut(text: str, low: int, high: int) -> tuple[int, bool]:
    """The best place in ``(low, high]`` to end a piece of ``text``, and whether a sentence ends there.

    The last end of a paragraph in the upper half, else of a sentence, a line, a word; ``high`` where there is none.
    """
    if high >= len(text):
        return len(text), True
    for paragraph in reversed(list(paragraph_ends(text, (low + high) // 2, high))):
        return paragraph, True
    for start in (max(high - REACH, low), low):  # it is seldom further away
        if sentence := max(boundaries(text, start, high + 1), default=0):
            return _after_space(text, sentence, high), True
    for gap in "\n ":
        if (found := text.rfind(gap, low, high)) >= low:
            return found + 1, False
    return high, False


def _stop_is_last(text: str, start: int, end: int) -> bool:
    """Whether the full stop (or other mark) at ``start`` ends a sentence rather than an abbreviation or a number."""
    after = _WORD_AFTER.match(text, end, end + 64)
    following = after[1] if after else ""
    if following[:1].islower():
        return False
    before = text[max(start - _LOOKAHEAD, 0) : start]
    if text[start] != "." or text[start : start + 2] == "..":
        return True
    word = _WORD_BEFORE.search(before)
    if word is None:
        return _LIST_NUMBER.search(before) is None
    name = word[0].lower()
    if name in _BEFORE_A_NUMBER:
        return not following[:1].isdigit()
    if len(name) == 1 and word[0].isupper():
        return False
    if name in _NEVER_LAST:
        return False
    return following in _OPENERS if "." in name or name in _RARELY_LAST else True


def _line_is_last(text: str, newline: int) -> bool:
    """Whether the line that ends at ``newline`` ends a sentence rather than having been broken to a width."""
    if _LAYOUT.match(text, newline + 1):
        return True
    start = text.rfind("\n", max(newline - _LONG_LINE, 0), newline) + 1 or max(newline - _LONG_LINE, 0)
    line = text[start:newline].rstrip()
    if len(line) < _WRAPPED and line.isascii():
        return True
    spaced = line.count(" ") * 12 >= len(line)
    return not (spaced or not line.isascii()) or line[-1:] in ":;{}|>" or _WHOLE_LINE.match(line) is not None


def _after_space(text: str, start: int, end: int) -> int:
    """The first position from ``start`` on that isn't white space; ``end`` where there is none before it."""
    gap = _SPACE.match(text, start, end)
    return gap.end() if gap else start
