"""What happened in a run: every call as a node of the evidence tree, in the order of issue.

Knows who asked what of which part of the document, and what came of it. Holds no text of the document or of a reply:
prompts are kept as pieces that point into the document and into earlier replies, and replies live in the cache, under
the node's key.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any, Literal

from convmem.core import Answer, Piece, Relevance, ReplySlice, Span, Usage

Status = Literal["open", "ok", "malformed", "failed", "refused", "cancelled"]
"""``open``: not (yet) answered; ``malformed``: answered, unreadable; ``failed``: given up; ``refused``: not allowed;
``cancelled``: no longer wanted."""

CHECKING = "verify"
"""The role of calls that check what is written already."""


@dataclass(slots=True)
class Node:
    """One call. ``start`` and ``end`` are in seconds of the run's clock; ``key`` is where the cache has the reply.

    ``window`` is the part of the document that the call reads, None where it reads only replies. ``variables`` are the
    template's, as pieces; ``parents`` the nodes whose replies it waited for. ``unreadable`` is how many replies could
    not be read as they should, those that were asked for again among them.
    """

    role: str
    layer: int
    channel: str
    window: Span | None
    template: str
    variables: dict[str, tuple[Piece, ...]]
    parents: tuple[int, ...]
    status: Status = "open"
    key: str | None = None
    usage: Usage | None = None
    start: float | None = None
    end: float | None = None
    cached: bool = False
    relevance: Relevance | None = None
    score: float | None = None
    unreadable: int = 0


class Trace:
    """The nodes of one run, numbered from 0 as they are issued, and what they led to.

    ``answer`` is None until the run has ended.
    """

    def __init__(
        self,
        question: str,
        *,
        method: str = "",
        config: Mapping[str, Any] | None = None,
        model: str = "",
        seed: int = 0,
        nodes: Iterable[Node] = (),
    ) -> None:
        self.question = question
        self.method = method
        self.config = dict(config or {})
        self.model = model
        self.seed = seed
        self.answer: Answer | None = None
        self._nodes = list(nodes)

    def __len__(self) -> int:
        return len(self._nodes)

    def __getitem__(self, node: int) -> Node:
        return self._nodes[node]

    def __iter__(self) -> Iterator[Node]:
        return iter(self._nodes)

    def open(
        self,
        role: str,
        *,
        layer: int,
        channel: str,
        window: Span | None,
        template_id: str,
        variables: Mapping[str, str | Sequence[Piece]],
        parents: Sequence[int] = (),
    ) -> int:
        """Record that a call is issued, and return its node.

        Raises ValueError for a parent, or a slice of a reply, that is not an earlier node.
        """
        pieces = {name: (value,) if isinstance(value, str) else tuple(value) for name, value in variables.items()}
        node = len(self._nodes)
        for earlier in (*parents, *(p.node for value in pieces.values() for p in value if isinstance(p, ReplySlice))):
            if not 0 <= earlier < node:
                raise ValueError(f"node {node} can't depend on node {earlier}, which is not before it")
        self._nodes.append(Node(role, layer, channel, window, template_id, pieces, tuple(parents)))
        return node

    def close(
        self,
        node: int,
        *,
        key: str | None,
        usage: Usage | None,
        start: float,
        end: float,
        status: Status,
        cached: bool = False,
        relevance: Relevance | None = None,
        score: float | None = None,
        unreadable: int = 0,
    ) -> None:
        """Record how a call ended; ``key`` and ``usage`` are None where no reply came (or no usage with it)."""
        entry = self._nodes[node]
        entry.key, entry.usage, entry.start, entry.end = key, usage, start, end
        entry.status, entry.cached, entry.unreadable = status, cached, unreadable
        if relevance is not None or score is not None:
            self.mark(node, relevance, score)

    def mark(self, node: int, relevance: Relevance | None, score: float | None = None) -> None:
        """Record what the method took from the reply: r of eq. (1), and the continuous score where there is one.

        A score that is not a finite number is no score.
        """
        entry = self._nodes[node]
        entry.relevance, entry.score = relevance, score if score is not None and isfinite(score) else None

    def finish(self, answer: Answer) -> None:
        """Record what the run led to."""
        self.answer = answer

    @property
    def final(self) -> int | None:
        """The node of the final prompt: the last one answered that does not check the answer, None without any."""
        ended = (i for i in reversed(range(len(self))) if self._nodes[i].status == "ok")
        return next((i for i in ended if self._nodes[i].role != CHECKING), None)

    def used(self) -> frozenset[int]:
        """The nodes that hold evidence used in the final prompt.

        A node is used where a slice of its reply reached that prompt, directly or through other replies; a prompt
        that is text alone is taken to hold what its parents replied. A node is also used where its window was found
        relevant (r > 0) and shares text with a slice of the document in a prompt that combines evidence (one that reads
        no window of its own).
        """
        if self.final is None:
            return frozenset()
        used: set[int] = set()
        slices: list[Span] = []
        pending = [self.final]
        while pending:
            entry = self._nodes[pending.pop()]
            pieces = [piece for value in entry.variables.values() for piece in value]
            drawn = [piece.node for piece in pieces if isinstance(piece, ReplySlice)]
            if all(isinstance(piece, str) for piece in pieces):
                drawn += entry.parents
            pending += dict.fromkeys(node for node in drawn if node not in used)
            used.update(drawn)
            if entry.window is None:
                slices += [piece for piece in pieces if isinstance(piece, Span)]
        for i, entry in enumerate(self._nodes):
            if entry.relevance and entry.window and any(entry.window.overlaps(s) for s in slices):
                used.add(i)
        return frozenset(used)
