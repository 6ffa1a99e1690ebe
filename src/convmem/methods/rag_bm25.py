"""RAG-BM25: the chunks that BM25 ranks highest, as many as fill the context, in one call (METHODS section 4).

With ``rounds`` > 1, iterative retrieval: after each round the model names what is still missing, that is searched for,
until it says enough or the budget ends::

    found = top(Q)
    repeat at most rounds − 1 times:
        missing = model(Q, found);  stop if there is none
        found = found ∪ top(missing)
    answer = model(Q, found in the document's order)

The context is divided among the rounds, so that everything that was found is there when the answer is made.
"""

from __future__ import annotations

import asyncio
from collections.abc import Container, Iterator, Mapping, Sequence
from typing import Any, ClassVar

from pydantic import Field

from convmem import prompts
from convmem.core import (
    Answer,
    CallFailed,
    ContextExceeded,
    Evidence,
    EvidenceFound,
    LayerPlan,
    LayerStarted,
    Malformed,
    Plan,
    Span,
    Stopped,
)
from convmem.document import Document, Window, Windows, stride_starts, stride_windows
from convmem.memory.aggregation import FRAME_TOKENS, NUMBER_TOKENS, answer_from, numbered
from convmem.memory.convolution import Note
from convmem.memory.decomposition import SubQuestion
from convmem.memory.kernel import LEAST_WINDOW
from convmem.memory.lexical import BM25
from convmem.memory.passages import read_in
from convmem.memory.quoting import says_nothing
from convmem.methods.base import Facts, Method, MethodConfig
from convmem.methods.estimate import PROMPT_TOKENS, QUESTION, plan_of_calls
from convmem.model.reply import read_json, repair_json
from convmem.run import Ask, Run

MISSING_TOKENS = 100
"""The longest reply that names what is missing, in tokens."""
MISSING_EXPECTED = 30
"""What such a reply is taken to have in estimates."""


class Config(MethodConfig):
    """Settings of RAG-BM25. Its iterative form has more ``rounds``."""

    presets: ClassVar[dict[str, dict[str, Any]]] = {"paper": {}, "lean": {"temperature": 0.0, "top_p": 1.0}}

    chunk_tokens: int = Field(1_000, ge=1)
    """Length of a chunk, in tokens."""
    rounds: int = Field(1, ge=1)
    """How often is searched at most: first with Q, then with what the model says is missing."""
    retrieved_tokens: int | None = Field(None, ge=1)
    """The most text of chunks in the answering prompt, in tokens. None: what the model's context and the budget have
    room for."""
    k1: float = Field(1.5, ge=0)
    """k₁ of BM25: how soon a term that comes again counts for no more."""
    b: float = Field(0.75, ge=0, le=1)
    """b of BM25: how much a chunk's length counts."""
    answer_tokens: int = Field(300, ge=1)
    """The longest answer, in tokens."""


class RagBm25(Method[Config]):
    """Retrieves by words, then answers in one call."""

    name = "rag-bm25"
    summary = "the chunks that BM25 ranks highest, as many as fit the model, in one call; in rounds where asked"
    Config = Config

    async def solve(self, document: Document, question: str, run: Run) -> Answer:
        config = self.config
        room = await self._room(question, run)
        chunk_tokens = self._chunk_tokens(room)
        chunks = stride_windows(document, run.tokenizer, chunk_tokens, chunk_tokens)
        texts = (document.text(chunk.span) for chunk in chunks)
        index = await asyncio.to_thread(BM25, texts, k1=config.k1, b=config.b)
        if config.rounds > 1:
            run.emit(LayerStarted(0, config.rounds - 1))
        found: dict[int, Note] = {}
        asked, query = SubQuestion("", question), question
        for number in range(1, config.rounds + 1):
            used = sum(note.tokens + NUMBER_TOKENS for note in found.values())
            for chunk, score in _top(index, query, chunks, room * number // config.rounds - used, found):
                text = Evidence(document.text(chunk.span), (chunk.span,), "raw", score=score, piece=chunk.span)
                found[chunk.index] = Note(text, chunk.tokens[1] - chunk.tokens[0], asked.parents)
                run.emit(EvidenceFound(text))
            if number == config.rounds or not (missing := await self._missing(_ordered(found), asked, run)):
                break
            query, node = missing
            asked = SubQuestion("", question, node)
            if not query:
                break
        final = await answer_from(_ordered(found), [], asked, run, role="direct", reply_tokens=config.answer_tokens)
        if final.node is not None:
            read_in(final.node, run)
        return self.conclude(run, config, final, windows=len(chunks))

    async def _missing(self, found: Sequence[Note], question: SubQuestion, run: Run) -> tuple[str, int] | None:
        """What the model says is missing (nothing where it says enough), and the call; None where it can't be asked."""
        ask = Ask(
            template=prompts.load("missing"),
            variables={"passages": numbered([note.evidence for note in found]), "question": question.text},
            parse=lambda text: _lacking(read_json(text)),
            repair=lambda text: _lacking(repair_json(text)),
            max_tokens=MISSING_TOKENS,
            schema=_SCHEMA,
            parents=question.parents,
        )
        try:
            reply = await run.call(ask)
        except (CallFailed, ContextExceeded, Stopped) as failure:
            run.warn(f"The search ended before the model said enough: {failure}")
            return None
        read_in(reply.node, run)
        return reply.value or "", reply.node

    async def _room(self, question: str, run: Run) -> int:
        """The tokens of numbered chunks that the answering prompt has room for; what it may cost is set aside.

        The context bounds it, and the budget: all of that for one round, half of it where others are paid from it.
        """
        config, template = self.config, prompts.load("direct")
        frame = await run.count(template.system + template.user + question) + FRAME_TOKENS
        room = run.room(config.answer_tokens, "direct") - frame
        if (budget := run.settings.budget) is not None:
            aside = budget if config.rounds == 1 else budget // 2
            room = min(room, run.fitting(aside - config.answer_tokens, "direct") - frame)
            run.set_aside(aside)
        return max(0, min(room, config.retrieved_tokens or room))

    def _chunk_tokens(self, room: int) -> int:
        """The length of a chunk: as configured, and so that each round has room for one."""
        return min(self.config.chunk_tokens, max(LEAST_WINDOW, room // self.config.rounds - NUMBER_TOKENS))

    def plan(self, document: Document, facts: Facts, question: str = "") -> Plan:
        config, count = self.config, facts.tokenizer.count

        def frame(name: str) -> int:
            template = prompts.load(name)
            return count(template.system + template.user + (question or QUESTION))

        tokens = document.count(Span(0, document.size), facts.tokenizer)
        room = tokens if facts.context is None else facts.context - config.answer_tokens - PROMPT_TOKENS
        room = max(0, min(room, config.retrieved_tokens or room))
        chunk_tokens = self._chunk_tokens(room)
        read = min(tokens, room)
        asking = config.rounds - 1
        growing = sum(read * number // config.rounds for number in range(1, config.rounds))
        return plan_of_calls(
            document, facts, [LayerPlan(asking, growing + asking * frame("missing"))] if asking else [],
            windows=len(stride_starts(tokens, chunk_tokens, chunk_tokens)), answering=read + frame("direct"),
            replies=asking * MISSING_EXPECTED, depth=config.rounds,
            assumptions=["Every round is taken to be needed."] if asking else [],
        )  # fmt: skip


def _top(
    index: BM25, query: str, chunks: Windows, room: int, but: Container[int]
) -> Iterator[tuple[Window, float]]:  # fmt: skip
    """The best chunks for ``query`` that ``room`` tokens hold, with their share of the highest score."""
    scores = index.scores(query)
    highest = float(scores.max(initial=0.0)) or 1.0
    for number in index.ranked(query):
        if number in but:
            continue
        chunk = chunks[number]
        room -= chunk.tokens[1] - chunk.tokens[0] + NUMBER_TOKENS
        if room < 0:
            return
        yield chunk, float(scores[number]) / highest


def _ordered(found: Mapping[int, Note]) -> list[Note]:
    """What was found, in the document's order."""
    return [found[number] for number in sorted(found)]


def _lacking(value: Any) -> str:
    """What a reply says is missing; empty where it says enough."""
    if not isinstance(value, dict) or not {"enough", "missing"} & value.keys():
        raise Malformed("the reply does not say what is missing")
    missing = value.get("missing")
    return "" if value.get("enough") is True or not isinstance(missing, str) or says_nothing(missing) else missing


_SCHEMA = {
    "type": "object",
    "properties": {"enough": {"type": "boolean"}, "missing": {"type": "string"}},
    "required": ["enough", "missing"],
    "additionalProperties": False,
}
