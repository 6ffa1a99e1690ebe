"""ReMemR1: MemAgent with recall of its earlier memories (METHODS section 7).

Beside the memory m_t a step may write one query q_t. The earlier memory that matches it best (TF-IDF, top 1 among
m_1 … m_{t−1}) is shown with the next section, and the last one with the answer::

    m_t, q_t = model(question, recall(q_{t−1}), m_{t−1}, c_t)
    answer   = model(question, recall(q_T), m_T)

A step without a query recalls nothing. At a matched budget (the comparison in CoEM) what is carried on is bounded:
480 tokens of memory, 64 of query, and one archived memory of 480 that a newer one replaces for good.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

from pydantic import Field

from convmem.core import Malformed, Piece, Tokenizer
from convmem.memory.agent import Prompt, tagged
from convmem.memory.lexical import best_match
from convmem.methods import memagent
from convmem.methods.memagent import MemAgent, Memory, Overwriting

NOTHING_RECALLED = "Nothing was recalled."
TAG_TOKENS = 32
"""What the tags of a reply take, in tokens."""


class Config(memagent.Config):
    """Settings of ReMemR1. Preset `matched`: what is carried on fits 1,024 tokens."""

    presets: ClassVar[dict[str, dict[str, Any]]] = {
        **memagent.Config.presets,
        "matched": {**memagent.GREEDY, "memory_tokens": 480, "query_tokens": 64, "archive": "one"},
    }

    query_tokens: int = Field(64, ge=1)
    """The longest recall query q_t, in tokens."""
    archive: Literal["all", "one"] = "all"
    """Which earlier memories can be recalled: all, or only the last one that was overwritten."""

    texts: ClassVar[int] = 3

    @property
    def beside(self) -> int:
        return self.query_tokens + TAG_TOKENS


@dataclass(frozen=True, slots=True, kw_only=True)
class Recalling(Memory):
    """m_t, the query q_t (empty for none), and the memories before m_t that can still be recalled."""

    query: str = ""
    earlier: tuple[str, ...] = ()

    @property
    def recalled(self) -> str:
        """The earlier memory that matches the query best; empty for none."""
        best = best_match(self.query, self.earlier)
        return "" if best is None else self.earlier[best]


class ReMemR1Policy(Overwriting[Recalling]):
    """The reply has the memory between update tags, and may have a query between recall tags.

    One without a memory can't be read, and leaves memory, query and archive as they were.
    """

    config: Config

    def __init__(self, config: Config, tokenizer: Tokenizer) -> None:
        super().__init__(config, tokenizer)
        self.memory_tokens = 2 * config.memory_tokens
        self.expected_tokens = config.memory_tokens + config.query_tokens

    def start(self, question: str) -> Recalling:
        return Recalling(question=question)

    def prompt(self, state: Recalling, section: str | Sequence[Piece]) -> Prompt:
        return self.asking("memorize_recall", state, section)

    def parse(self, reply: str) -> tuple[str, str]:
        """(m_t, q_t)."""
        if not (memory := tagged(reply, "update")):
            raise Malformed("the reply has no memory")
        return memory, tagged(reply, "recall") or ""

    def apply(self, state: Recalling, wanted: tuple[str, str]) -> Recalling:
        memory, query = wanted
        query, cut = self.limited(query, self.config.query_tokens)
        after = self.overwritten(state, memory)
        earlier = state.earlier if after.memory == state.memory else self._archived(state)
        return replace(after, query=query, earlier=earlier, cut=after.cut + cut)

    def _archived(self, state: Recalling) -> tuple[str, ...]:
        """m_1 … m_{t−1}, each once, the newest last; or that alone."""
        kept = [] if self.config.archive == "one" else [m for m in state.earlier if m != state.memory]
        return (*kept, state.memory) if state.memory else ()

    def shown(self, state: Recalling) -> dict[str, str]:
        return {**super().shown(state), "recalled_memory": state.recalled or NOTHING_RECALLED}

    def answer_prompt(self, state: Recalling) -> Prompt:
        return self.answering("recall_answer", state)


class ReMemR1(MemAgent):
    """MemAgent that can look back."""

    name = "rememr1"
    summary = "memagent that recalls one of its earlier memories by a query of its own"
    Config = Config
    Policy = ReMemR1Policy
