"""A document: sources behind one another in one character space, and where their tokens are.

Knows characters, tokens, lines and pages; knows nothing of file formats (``read``) and of models.
"""
# CONTRACT STUB: the document room fills this in.

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from convmem.core import Location, Span, Tokenizer


class Document:
    """Immutable. ``size`` in characters."""

    @classmethod
    def from_paths(cls, paths: Sequence[str | Path], *, skipped=None) -> Document: ...
    @classmethod
    def from_text(cls, text: str, name: str = "text") -> Document: ...

    @property
    def sources(self): ...  # tuple[Source, ...]
    @property
    def warnings(self) -> tuple[str, ...]: ...  # encoding fallbacks, files of a directory that were skipped
    @property
    def size(self) -> int: ...
    @property
    def hash(self) -> str: ...  # SHA-256 of names and texts
    def text(self, span: Span) -> str: ...  # the document's slice
    def locate(self, span: Span) -> Location: ...
    def token_offsets(self, tokenizer: Tokenizer) -> NDArray[np.uint32]: ...  # computed once per tokenizer identity
    def count(self, span: Span, tokenizer: Tokenizer) -> int: ...  # tokens that start inside span, from the offsets
