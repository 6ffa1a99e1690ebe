"""Files in, text with spans out; tokenizers; windows. Knows no model."""

from convmem.document.content import content_windows
from convmem.document.document import Document
from convmem.document.estimate import EstimateTokenizer
from convmem.document.source import Source
from convmem.document.tokens import GgufTokenizer, JsonTokenizer, UnknownVocabulary
from convmem.document.windows import (
    Window,
    Windows,
    boundary_windows,
    split,
    stride_starts,
    stride_windows,
    widened,
)

__all__ = [
    "Document", "EstimateTokenizer", "GgufTokenizer", "JsonTokenizer", "Source", "UnknownVocabulary", "Window",
    "Windows", "boundary_windows", "content_windows", "split", "stride_starts", "stride_windows", "widened",
]  # fmt: skip
