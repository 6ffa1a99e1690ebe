"""How ConvMem slides over a document (METHODS section 1, step 2; section 2, ``overlap``)."""

from __future__ import annotations

from convmem.core import Tokenizer
from convmem.document import Document, Windows, boundary_windows, stride_windows
from convmem.methods.convmem.config import Settled


def slide(document: Document, tokenizer: Tokenizer, config: Settled) -> Windows:
    """The windows of layer 0."""
    if config.overlap == "boundary":
        return boundary_windows(document, tokenizer, config.window)
    return stride_windows(document, tokenizer, config.window, config.stride)
