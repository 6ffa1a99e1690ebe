"""GRU-Mem: MemAgent with an update gate and an exit gate (METHODS section 8).

Each step says whether the memory is to change (u_t) and whether reading may end (e_t)::

    u_t, m̂_t, e_t = model(question, m_{t−1}, c_t)
    m_t = m̂_t if u_t else m_{t−1}
    stop if e_t

While the update gate is closed the memory stays as it is, to the byte, and the reply is short.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar, NamedTuple

from convmem.core import Malformed, Piece, Tokenizer
from convmem.memory.agent import Prompt, tagged
from convmem.methods import memagent
from convmem.methods.memagent import MemAgent, Memory, Overwriting

GATE_TOKENS = 48
"""What both gates and the tags of a reply take, in tokens."""
OPEN_SHARE = 0.25
"""The share of steps whose update gate estimates take to be open."""


class Config(memagent.Config):
    """Settings of GRU-Mem. Preset `matched`: as the comparison in CoEM has it, without early exit."""

    presets: ClassVar[dict[str, dict[str, Any]]] = {
        **memagent.Config.presets,
        "matched": {**memagent.GREEDY, "exit_gate": False},
    }

    exit_gate: bool = True
    """Whether the exit gate e_t ends the reading; off, everything is read."""

    @property
    def beside(self) -> int:
        return GATE_TOKENS


class Gated(NamedTuple):
    """m̂_t, None where the update gate u_t is closed; and the exit gate e_t."""

    candidate: str | None
    exit: bool


class GruMemPolicy(Overwriting[Memory]):
    """The reply has the gates between check and next tags, the memory between update tags.

    One without an update gate, or with an open one and no memory, can't be read and leaves everything as it was. The
    exit gate is closed unless it says otherwise.
    """

    config: Config

    def __init__(self, config: Config, tokenizer: Tokenizer) -> None:
        super().__init__(config, tokenizer)
        self.expected_tokens = GATE_TOKENS + round(OPEN_SHARE * config.memory_tokens)

    def start(self, question: str) -> Memory:
        return Memory(question=question)

    def prompt(self, state: Memory, section: str | Sequence[Piece]) -> Prompt:
        return self.asking("memorize_gated", state, section)

    def parse(self, reply: str) -> Gated:
        check, candidate = _said(reply, "check"), tagged(reply, "update")
        if check not in ("yes", "no"):
            raise Malformed("the reply has no update gate")
        if check == "yes" and not candidate:
            raise Malformed("the update gate is open, but there is no memory")
        return Gated(candidate if check == "yes" else None, _said(reply, "next") == "end")

    def apply(self, state: Memory, wanted: Gated) -> Memory:
        if wanted.candidate is not None:
            state = self.overwritten(state, wanted.candidate)
        return replace(state, finished=self.config.exit_gate and wanted.exit)

    def answer_prompt(self, state: Memory) -> Prompt:
        return self.answering("memory_answer", state)


def _said(reply: str, gate: str) -> str:
    return (tagged(reply, gate) or "").strip(" .\"'").casefold()


class GruMem(MemAgent):
    """MemAgent that may leave its memory alone, and may stop."""

    name = "gru-mem"
    summary = "memagent with a gate that leaves the memory as it is and a gate that ends the reading"
    Config = Config
    Policy = GruMemPolicy
