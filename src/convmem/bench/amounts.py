"""How much of a document is on its way to the answer: |H_l| and |B| of METHODS section 11, from a run's trace.

H_l is what layer l hands on, as it stands in the prompts of the layer above, or in the answering prompts above the last
one: parts of replies, and parts of the document that are no residual buffer. What several channels have is counted
once. Lengths are in tokens, estimated from the characters by what the document has of both. Knows no method.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from convmem.bench.stages import answers, buffers, verbatim
from convmem.core import ReplySlice, union
from convmem.trace import Node, Trace


class Amounts(NamedTuple):
    """In tokens. ``layers`` is |H_l| from layer 0 up, empty where the calls that read are those that answer.

    ``buffer`` is |B|, None where the method has none.
    """

    layers: tuple[int, ...]
    buffer: int | None


def amounts(trace: Trace, characters: int, tokens: int) -> Amounts:
    """The amounts of a finished run over a document of so many ``characters`` and ``tokens``."""
    done = [node for node in trace if node.status in ("ok", "malformed")]
    final = [node for node in done if answers(node)]
    top = max((node.layer for node in done if not answers(node)), default=None)

    def as_tokens(size: int) -> int:
        return round(size * tokens / max(1, characters))

    buffer = _quoted(final) if buffers(trace) else None
    held = _replies(final) + (_quoted(final) if buffer is None else 0)
    above = [[node for node in done if node.layer == layer] for layer in range(1, 1 + (top or 0))]
    layers = [] if top is None else [*(_replies(nodes) + _quoted(nodes) for nodes in above), held]
    return Amounts(tuple(map(as_tokens, layers)), None if buffer is None else as_tokens(buffer))


def _replies(nodes: Sequence[Node]) -> int:
    """The characters of earlier replies in prompts, each once."""
    pieces = {piece for node in nodes for value in node.variables.values() for piece in value}
    return sum(piece.end - piece.start for piece in pieces if isinstance(piece, ReplySlice))


def _quoted(nodes: Sequence[Node]) -> int:
    """The characters of the document in prompts, each once."""
    return sum(span.size for span in union(span for node in nodes for span in verbatim(node)))
