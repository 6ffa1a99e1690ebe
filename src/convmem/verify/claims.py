"""An answer checked against its sources: are its citations in them, and does what it claims follow from its citations.

Knows answers and verifiers; knows nothing of how the answer was found.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from convmem.core import NOT_FOUND, Answer, Citation, Claim, Span
from convmem.document import segment
from convmem.memory.quoting import Overlap, terms
from convmem.run import Run
from convmem.verify.quotation import normalized
from convmem.verify.verifier import Judgement, Pair, Verifier

DECLARED = 0.5
"""A sentence that has so much of the question's words says what it answers; a shorter answer needs the question."""
MOST_RIVALS = 2
"""Passages that the answer was made from and doesn't cite, compared with a claim to see whether sources conflict."""
NEAR = 0.5
"""A passage that shares less than this of what the nearest citation shares with a claim says nothing about it."""

_MARKER = re.compile(r"^(?:[-*•‣–—·]|\d{1,3}[.)])\s+")
_FAULTS = {"contradicted": "say otherwise", "unsupported": "don't say so"}


async def check(answer: Answer, question: str, verifier: Verifier, threshold: float, run: Run) -> Answer:
    """The answer with its claims, each with a verdict; citations whose quote is not in the source are left out.

    A claim is judged by all that the answer cites together and by each passage alone, which tells which of them say so
    and whether one says otherwise. ``threshold``: the probability from which a claim is entailed.
    """
    citations = tuple(citation for citation in answer.citations if is_quoted(citation, run))
    if lost := len(answer.citations) - len(citations):
        run.warn(f"{lost} of {len(answer.citations)} citations are not in the source where they should be: left out.")
    node = run.trace.final
    looks = []
    for at in claims_in(answer.text):
        text = answer.text[at.start : at.end]
        stated = statement(question, text)
        looks.append(_Look(text, stated, citations, _rivals(f"{question} {text}", citations, node, run)))
    pairs = [pair for look in looks for pair in look.pairs]
    judged = iter(await verifier.judge(pairs, run, answering=True, parents=() if node is None else (node,)))
    claims = tuple(look.claim([next(judged) for _ in look.pairs], threshold) for look in looks)
    return replace(answer, citations=citations, claims=claims, warnings=run.warnings)


def strictly(answer: Answer, run: Run) -> Answer:
    """A checked answer without what is not supported, of which the run is warned; "not found" where nothing is left."""
    places = claims_in(answer.text)
    ends = [*(place.start for place in places[1:]), len(answer.text)]
    kept: list[str] = []
    cited: set[Citation] = set()
    for claim, place, end in zip(answer.claims or (), places, ends, strict=True):
        if claim.verdict == "supported":
            kept.append(answer.text[place.start : end])
            cited.update(claim.citations, claim.against)
        else:
            run.warn(f"Left out, since its sources {_FAULTS[claim.verdict]}: “{claim.text}”")
    return replace(
        answer,
        text="".join(kept).strip() or NOT_FOUND,
        citations=tuple(citation for citation in answer.citations if citation in cited),
        warnings=run.warnings,
    )


def supported_share(answer: Answer) -> float:
    """The share of a checked answer's claims that are supported; 1 where it claims nothing."""
    claims = answer.claims or ()
    return sum(claim.verdict == "supported" for claim in claims) / len(claims) if claims else 1.0


def is_quoted(citation: Citation, run: Run) -> bool:
    """Whether the citation's quote stands at its span of the document, and its location is where that is."""
    document, span = run.document, citation.span
    return (
        0 <= span.start < span.end <= document.size
        and normalized(document.text(span)) == normalized(citation.quote)
        and document.locate(span) == citation.location
    )


def claims_in(text: str) -> list[Span]:
    """Where the claims of an answer stand in its text: its sentences, or the entries of its list."""
    return [] if text == NOT_FOUND else list(segment.sentences(text, 0, len(text)))


def statement(question: str, claim: str) -> str:
    """A claim as a verifier is asked about it: behind the question, unless it repeats what was asked."""
    bare = _MARKER.sub("", claim)
    asked = set(terms(question))
    declared = len(asked & set(terms(bare))) >= DECLARED * len(asked)
    return bare if declared else f"{question.strip()} {bare}"


@dataclass(frozen=True, slots=True)
class _Look:
    """What is asked about one claim: whether all ``citations`` together say so, each alone, and each of the ``rivals``,
    which are not cited.
    """

    text: str
    stated: str
    citations: Sequence[Citation]
    rivals: Sequence[Citation]

    @property
    def pairs(self) -> list[Pair]:
        together = [self.citations] if len(self.citations) > 1 else []
        alone = [[passage] for passage in (*self.citations, *self.rivals)]
        return [Pair(tuple(each.span for each in passages), self.stated) for passages in (*together, *alone)]

    def claim(self, judgements: Sequence[Judgement], threshold: float) -> Claim:
        """The claim by the judgements of its pairs."""
        passages = (*self.citations, *self.rivals)
        alone = dict(zip(passages, judgements[-len(passages) :] if passages else (), strict=True))
        of_cited = [*judgements[: len(judgements) - len(passages)], *(alone[citation] for citation in self.citations)]
        entailed = max((judgement.entailment for judgement in of_cited), default=0.0)
        for_it = tuple(each for each in self.citations if alone[each].entailment >= threshold)
        against = tuple(each for each, found in alone.items() if each not in for_it and found.contradicts)
        every = tuple(self.citations)
        if entailed >= threshold:
            return Claim(self.text, "supported", for_it or every, against, entailed)
        if against or any(judgement.contradicts for judgement in of_cited):
            return Claim(self.text, "contradicted", against or every, (), entailed)
        return Claim(self.text, "unsupported", every, (), entailed)


def _rivals(claim: str, citations: Sequence[Citation], node: int | None, run: Run) -> list[Citation]:
    """Sentences in the prompt of the answer that are as near to the claim as its citations, and not cited."""
    pieces = (piece for value in run.trace[node].variables.values() for piece in value) if node is not None else ()
    read = [sentence for piece in pieces if isinstance(piece, Span) for sentence in run.document.sentences(piece)]
    cited = [citation.span for citation in citations]
    others = [span for span in dict.fromkeys(read) if not any(span.overlaps(other) for other in cited)]
    shares = Overlap(run.document.text(span) for span in (*cited, *others)).shares(claim)
    nearest = max(shares[: len(cited)], default=0.0)
    ranked = sorted(zip(shares[len(cited) :], others, strict=True), key=lambda found: (-found[0], found[1]))
    return [
        Citation(span, run.document.text(span), run.document.locate(span))
        for share, span in ranked[:MOST_RIVALS]
        if share and share >= NEAR * nearest
    ]
