"""From a run's trace to the stages of its evidence: which supporting units each stage still holds.

Text that a prompt or a layer has verbatim counts by its spans. A reply in a model's words counts for the units that it
says: by the simulated reader's markers this is exact. For a real model it is approximated: a reply says a unit where it
repeats it word for word, or where a line of it, on a window that held the unit, shares at least 60% of its terms (three
at least) with the unit and its title. That overstates a line on another fact of the same paragraph, and misses one that
says the fact in other words.

Knows traces and cases; knows no method, but for the roles and settings that say what a call was for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from convmem.bench.contexts import PlacedUnit
from convmem.bench.evidence import Stages, follow, survival
from convmem.core import Piece, ReplySlice, Span
from convmem.document import Document
from convmem.memory.quoting import Overlap, bullets, terms
from convmem.model.simulated import Fact
from convmem.trace import Node, Trace

ALIKE = 0.6
FEWEST_TERMS = 3

Says = Callable[[str, int], bool]
"""Whether a text says the unit of that number."""


def says_marked(facts: Sequence[Fact]) -> Says:
    """For replies of the simulated reader, whose ``facts`` are the units in their order."""
    return lambda text, unit: facts[unit].marker in text or facts[unit].stated(text)


def says_alike(units: Sequence[PlacedUnit], document: Document) -> Says:
    """For replies of a real model, by shared terms."""
    texts = [f"{unit.title} {document.text(unit.span)}" for unit in units]
    flat = [" ".join(document.text(unit.span).split()) for unit in units]

    def says(text: str, unit: int) -> bool:
        if flat[unit] in " ".join(text.split()):
            return True
        lines = [text[start:end] for start, end in bullets(text)]
        return any(
            len(set(terms(line))) >= FEWEST_TERMS and Overlap([texts[unit]]).shares(line)[0] >= ALIKE for line in lines
        )

    return says


@dataclass(frozen=True, slots=True)
class Follower:
    """Follows ``units`` through a finished run; ``reply`` gives the text of a node's stored reply."""

    units: Sequence[PlacedUnit]
    says: Says
    reply: Callable[[Node], str]

    def evidence(self, trace: Trace) -> dict[str, Any]:
        """Shares of the units from 0 to 1, as a result's row has them; ``buffer`` is None where there is none.

        ``distances``: for each unit, how many windows begin after the last one that holds it, and whether it is in the
        answering prompts.
        """
        stages = self.stages(trace)
        spans = [unit.span for unit in self.units]
        fates = follow(spans, stages)
        total = survival(fates)
        return {
            "units": total.units,
            "window": total.window,
            "kept": total.kept,
            "layers": list(total.layers),
            "buffer": total.buffer if buffers(trace) else None,
            "final": total.final,
            "distances": [
                {"windows": _after(span, stages.windows), "survived": fate.final}
                for span, fate in zip(spans, fates, strict=True)
            ],
        }

    def stages(self, trace: Trace) -> Stages:
        """What was read and kept in the run, as spans: of windows and quotations whole, of replies the units they say.

        ``layers`` begins with what layer 0 put out; it is empty where the calls that read are those that answer.
        """
        final = [node for node in trace if answers(node)]
        slices = [span for node in final for span in verbatim(node)]
        read = [node for node in trace if node.window and node.status in ("ok", "malformed")]
        at_once = [node.window for node in final if node.window] if read else slices
        windows = [node.window for node in read if node.window] or slices
        filtered, whole = _setting(trace, "filter"), _setting(trace, "evidence") == "windows"
        said = [s for node in read if not (filtered and node.relevance == 0) for s in self._said(node)]
        raw = [node.window for node in read if node.window and node.relevance and whole]
        raw += [piece for node in read for piece in node.variables.get("pending", ()) if isinstance(piece, Span)]
        skipped = [node.window for node in read if node.window and node.relevance == 2 and buffers(trace)]
        upper = range(1, 1 + max((node.layer for node in trace), default=0))
        merged = [[span for node in trace if node.layer == layer for span in self._said(node)] for layer in upper]
        held = [span for node in final for span in self._held(node, trace)]
        return Stages(
            windows=list(dict.fromkeys(windows)),
            kept=[*said, *raw, *skipped, *at_once],
            layers=[[*said, *raw], *merged] if any(not answers(node) for node in read) else [],
            buffer=slices if buffers(trace) else (),
            final=[*slices, *held, *at_once],
        )

    def _said(self, node: Node) -> list[Span]:
        """The units that a node's reply says; one on a window alone says none that the window doesn't hold."""
        alone = node.window if not _reads_replies(node) else None
        possible = [n for n, unit in enumerate(self.units) if alone is None or _holds(alone, unit.span)]
        if not node.key or not possible:
            return []
        text = self.reply(node)
        return [self.units[n].span for n in possible if self.says(text, n)]

    def _held(self, node: Node, trace: Trace) -> Iterator[Span]:
        """The units that the texts of a prompt say beside its verbatim slices."""
        text = "".join(self._text(p, trace) for value in node.variables.values() for p in value)
        return (unit.span for number, unit in enumerate(self.units) if self.says(text, number))

    def _text(self, piece: Piece, trace: Trace) -> str:
        if isinstance(piece, ReplySlice):
            return self.reply(trace[piece.node])[piece.start : piece.end]
        return piece if isinstance(piece, str) else "\n"


def answers(node: Node) -> bool:
    """Whether an answered call answers from evidence: every method's answering roles are so named."""
    return node.status in ("ok", "malformed") and (node.role == "direct" or node.role.endswith("answer"))


def _reads_replies(node: Node) -> bool:
    """Whether a call reads earlier replies, as one that rewrites a memory does."""
    return any(isinstance(piece, ReplySlice) for value in node.variables.values() for piece in value)


def verbatim(node: Node) -> list[Span]:
    """What of the document a prompt has word for word."""
    return [piece for value in node.variables.values() for piece in value if isinstance(piece, Span)]


def _holds(window: Span, unit: Span) -> bool:
    return window.start <= unit.start and unit.end <= window.end


def _after(unit: Span, windows: Iterable[Span]) -> int | None:
    """How many windows begin after the last one that holds ``unit``; None where none does."""
    windows = list(windows)
    last = max((window.start for window in windows if _holds(window, unit)), default=None)
    return None if last is None else sum(window.start > last for window in windows)


def _setting(trace: Trace, name: str) -> Any:
    """A setting of the run as it was settled."""
    return (trace.answer.config if trace.answer else trace.config).get(name)


def buffers(trace: Trace) -> bool:
    """Whether the method has a residual buffer; its windows and quoted sentences are not told apart."""
    return _setting(trace, "skip") == "on" and _setting(trace, "evidence") in ("summary", "quotes")
