"""Full context: the whole document and the question in one call, as long as the model takes it (METHODS section 3)."""

from __future__ import annotations

from functools import partial
from typing import Any, ClassVar, Literal

from pydantic import Field

from convmem import prompts
from convmem.core import Answer, ContextExceeded, ConvMemError, LayerPlan, Plan, Span
from convmem.document import Document
from convmem.memory.aggregation import answer_from, numbered_tokens
from convmem.memory.convolution import Note
from convmem.memory.decomposition import SubQuestion
from convmem.memory.passages import passages
from convmem.methods.base import Facts, Method, MethodConfig
from convmem.run import Run

PROMPT_TOKENS = 400
ANSWER_TOKENS = 40


class Config(MethodConfig):
    """Settings of the full-context method."""

    presets: ClassVar[dict[str, dict[str, Any]]] = {"paper": {}, "lean": {"temperature": 0.0, "top_p": 1.0}}

    truncate: Literal["never", "middle"] = "never"
    """What happens to a document that exceeds the context: the method is unavailable, or the middle is left out, as
    some harnesses do."""
    answer_tokens: int = Field(300, ge=1)
    """The longest answer, in tokens."""


class FullContext(Method[Config]):
    """One call that reads everything."""

    name = "full-context"
    summary = "the whole document in one call; unavailable where it exceeds the model's context"
    Config = Config

    async def solve(self, document: Document, question: str, run: Run) -> Answer:
        everything = Span(0, document.size)
        whole = passages(document, everything, run.tokenizer)
        answer = partial(
            answer_from, direct=[], question=SubQuestion("", question), run=run, role="direct",
            reply_tokens=self.config.answer_tokens,
        )  # fmt: skip
        if self.config.truncate == "never":
            try:
                return self.conclude(run, self.config, await answer(whole, window=everything), windows=1)
            except ContextExceeded as exceeded:
                raise Unavailable(
                    f"The document of {run.size:,} tokens is longer than what the model takes at once; "
                    "use method convmem, or truncate=middle."
                ) from exceeded
        ends = _within(whole, run.room(self.config.answer_tokens, "direct") - PROMPT_TOKENS)
        final = await answer(ends)
        if final.node is not None:
            for note in ends:
                run.read(*note.evidence.spans)
        if left_out := sum(note.tokens for note in whole) - sum(note.tokens for note in ends):
            run.cut("the middle of the document", left_out)
        return self.conclude(run, self.config, final, windows=1)

    def plan(self, document: Document, facts: Facts, question: str = "") -> Plan:
        tokens = document.count(Span(0, document.size), facts.tokenizer)
        template = prompts.load("direct")
        prompt = tokens + facts.tokenizer.count(template.system + template.user + question)
        speed = facts.tokens_per_second
        return Plan(
            tokens, 1, 1, (LayerPlan(1, prompt),), 1, prompt, ANSWER_TOKENS, 1,
            round(prompt / speed[0] + ANSWER_TOKENS / speed[1], 1) if speed else None,
            () if facts.tokenizer.exact else ("Tokens are estimated, not counted.",),
        )  # fmt: skip


class Unavailable(ConvMemError):
    """The method can't read a document of this length with this model."""


def _within(whole: list[Note], room: int) -> list[Note]:
    """Passages from both ends inwards, as many as ``room`` tokens hold."""
    kept: set[int] = set()
    for turn in range(len(whole)):
        at = turn // 2 if turn % 2 == 0 else len(whole) - 1 - turn // 2
        room -= numbered_tokens([whole[at]])
        if room < 0:
            break
        kept.add(at)
    return [note for at, note in enumerate(whole) if at in kept]
