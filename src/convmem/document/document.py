"""A document: sources behind one another in one character space, and where their tokens are.

Knows characters, tokens, lines, pages and sentences; knows nothing of file formats (``read``) and of models.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate
from pathlib import Path
from typing import BinaryIO, ClassVar

import numpy as np
from numpy.typing import NDArray

from convmem.core import InputError, Location, Span, Tokenizer
from convmem.document import segment
from convmem.document.encoding import replace_surrogates
from convmem.document.read import read_paths
from convmem.document.source import Source

JOINT = "\n\n"
"""What stands between two sources: a blank line, which belongs to neither."""

_MOST_CHARACTERS = 2**32 - 1
_HASHED_AT_ONCE = 1 << 20


@dataclass(frozen=True)
class Document:
    """One or more sources in one character space, a blank line between them. Immutable.

    ``warnings`` says what the reader of an answer should know: encodings that were guessed, files of a directory that
    were skipped. Spans are in characters of the document. Raises InputError where there is no text.
    """

    joint: ClassVar[str] = JOINT
    sources: tuple[Source, ...]
    warnings: tuple[str, ...] = ()
    _offsets: dict[str, NDArray[np.uint32]] = field(default_factory=dict, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not any(source.text.strip() for source in self.sources):
            raise InputError("The document has no text: give a text with at least one word.")
        if self.size > _MOST_CHARACTERS:
            raise InputError("The files have more than 4 billion characters together: ask about fewer of them at once.")

    @classmethod
    def from_paths(
        cls, paths: Sequence[str | Path], stdin: BinaryIO | None = None, within: Sequence[Path] = ()
    ) -> Document:
        """The text of files, directories (recursively, hidden files left out), globs and ``-`` for standard input.

        ``stdin`` stands for the process's own. ``within``: the only folders, as real paths, whose files may be read;
        none given: all. Raises InputError for a named file that can't be read; in a directory or glob such a file is
        skipped and named in ``warnings``.
        """
        return cls(*read_paths(paths, stdin, within))

    @classmethod
    def from_text(cls, text: str, name: str = "text") -> Document:
        """A document of one source. Raises InputError where ``text`` is blank."""
        return cls((Source(name, replace_surrogates(text)),))

    @cached_property
    def size(self) -> int:
        """Characters, joints included."""
        return self._starts[-1] + len(self.sources[-1].text)

    @cached_property
    def hash(self) -> str:
        """SHA-256 of the names and texts."""
        digest = hashlib.sha256()
        for source in self.sources:
            digest.update(f"{source.name!r} {len(source.text)}\n".encode())
            for start in range(0, len(source.text), _HASHED_AT_ONCE):
                digest.update(source.text[start : start + _HASHED_AT_ONCE].encode())
        return digest.hexdigest()

    @property
    def spans(self) -> tuple[Span, ...]:
        """Where each source is, without the joints."""
        starts = zip(self._starts, self.sources, strict=True)
        return tuple(Span(start, start + len(source.text)) for start, source in starts)

    def text(self, span: Span) -> str:
        """The document's slice."""
        start, end = max(span.start, 0), min(span.end, self.size)
        parts = []
        for first, source in self._touching(Span(start, end)):
            last = first + len(source.text)
            parts += [
                source.text[max(start - first, 0) : max(end - first, 0)],
                JOINT[max(start - last, 0) : max(end - last, 0)],
            ]
        return "".join(parts)

    def locate(self, span: Span) -> Location:
        """Where a person finds ``span``: in the source that holds most of it."""
        start, source = max(self._touching(span), key=lambda at: _inside(span, at).size)
        inside = _inside(span, (start, source))
        return Location(source.name, *inside, line=source.line(inside.start), page=source.page(inside.start))

    def sentences(self, span: Span) -> Iterator[Span]:
        """The sentences in ``span``, cut at its ends, without the white space around them."""
        for start, source in self._touching(span):
            for sentence in segment.sentences(source.text, *_inside(span, (start, source))):
                yield Span(start + sentence.start, start + sentence.end)

    def widen_to_sentences(self, span: Span) -> Span:
        """``span`` and the rest of the sentences that it begins and ends in (as far as ``segment`` looks for them)."""
        parts = self._touching(span)
        (first, head), (last, tail) = parts[0], parts[-1]
        start = first + segment.sentence_start(head.text, _inside(span, parts[0]).start)
        end = last + segment.sentence_end(tail.text, _inside(span, parts[-1]).end)
        return Span(min(start, span.start), max(end, span.end))

    def token_offsets(self, tokenizer: Tokenizer) -> NDArray[np.uint32]:
        """The character at which each token starts, shape (tokens,); computed once for each tokenizer identity.

        Sources and joints are tokenized each by itself, so that no token lies in two of them.
        """
        known = self._offsets.get(tokenizer.identity)
        if known is None:
            parts = [tokenizer.offsets(source.text) for source in self.sources]
            if len(parts) > 1:
                joint = tokenizer.offsets(JOINT)
                shifted = [parts[0]]
                for start, part in zip(self._starts[1:], parts[1:], strict=True):
                    shifted += [joint + np.uint32(start - len(JOINT)), part + np.uint32(start)]
                parts = [np.concatenate(shifted)]
            known = parts[0]
            known.setflags(write=False)
            self._offsets[tokenizer.identity] = known
        return known

    def count(self, span: Span, tokenizer: Tokenizer) -> int:
        """The tokens that start inside ``span``."""
        start, end = np.searchsorted(self.token_offsets(tokenizer), np.array(span, np.uint32))
        return int(end - start)

    @cached_property
    def _starts(self) -> tuple[int, ...]:
        """The document's character at which each source begins."""
        lengths = (len(source.text) + len(JOINT) for source in self.sources[:-1])
        return tuple(accumulate(lengths, initial=0))

    def _touching(self, span: Span) -> list[tuple[int, Source]]:
        """The sources that ``span`` touches, each with its start; a joint counts with the source before it."""
        first = bisect_right(self._starts, span.start) - 1
        last = max(bisect_right(self._starts, span.end - 1) - 1, first)
        return list(zip(self._starts[first : last + 1], self.sources[first : last + 1], strict=True))


def _inside(span: Span, at: tuple[int, Source]) -> Span:
    """The part of ``span`` in a source that starts at ``at[0]``, in characters of the source."""
    start, source = at
    return Span(*(min(max(position - start, 0), len(source.text)) for position in span))
