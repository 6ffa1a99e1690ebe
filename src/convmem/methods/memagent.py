"""MemAgent: an overwritten memory of fixed length (METHODS section 5).

Sections c_1 … c_T of the document are read in order, each in one call with the question and the memory m_{t−1}, whose
reply is the memory m_t. The answer is made from the question and m_T alone::

    m_0 = none
    for t in 1 … T:  m_t = model(question, m_{t−1}, c_t)
    answer = model(question, m_T)

Prompts keep the paper's order (question, memory, section): that is what trained checkpoints know, and calls of
different questions share little anyway, since their memories differ.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Generic, Self, TypeVar

from pydantic import Field

from convmem import prompts
from convmem.core import Answer, Malformed, Piece, Plan, Tokenizer
from convmem.document import Document, stride_windows
from convmem.memory.agent import Agent, OneReply, Prompt, State
from convmem.memory.kernel import LEAST_WINDOW
from convmem.methods.base import Facts, Method, MethodConfig
from convmem.methods.estimate import PROMPT_TOKENS, plan_of_sections
from convmem.run import Run

NO_MEMORY = "No memory yet."
GREEDY: dict[str, Any] = {"temperature": 0.0, "top_p": 1.0}

M = TypeVar("M", bound="Memory")


class Config(MethodConfig):
    """Settings of MemAgent. Its greedy form is preset `lean`, and `matched`: as the comparison in CoEM has it."""

    presets: ClassVar[dict[str, dict[str, Any]]] = {"paper": {}, "lean": GREEDY, "matched": GREEDY}

    chunk_tokens: int = Field(5_000, ge=1)
    """Length of a section c_t, in tokens; less where the model's context has no room for it."""
    memory_tokens: int = Field(1_024, ge=1)
    """The longest memory m_t, in tokens: what goes beyond is cut off and reported. Less in a small context."""
    answer_tokens: int = Field(1_024, ge=1)
    """The longest reply from which the answer is taken, in tokens."""

    texts: ClassVar[int] = 2
    """How many memories a step's prompt and reply have room for."""

    @property
    def beside(self) -> int:
        """What a step's reply has beside the memory, in tokens."""
        return 0

    def fitted(self, context: int | None) -> Self:
        """What a context of so many tokens has room for: memories get at most half of it, the section what is left."""
        if context is None:
            return self
        memory = max(1, min(self.memory_tokens, context // (2 * self.texts)))
        room = context - self.texts * memory - self.beside - PROMPT_TOKENS
        return self.model_copy(
            update={
                "memory_tokens": memory,
                "chunk_tokens": min(self.chunk_tokens, max(LEAST_WINDOW, room)),
                "answer_tokens": max(1, min(self.answer_tokens, context // 4)),
            }
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory(State):
    """m_t; empty before anything was kept."""

    memory: str = ""

    @property
    def texts(self) -> Mapping[str, str]:
        return {"memory": self.memory}


class Overwriting(OneReply[M], Generic[M]):
    """What all agents do that overwrite one memory; the rest is their own form of prompt and reply."""

    def __init__(self, config: Config, tokenizer: Tokenizer) -> None:
        super().__init__(tokenizer)
        self.config = config
        self.memory_tokens = config.memory_tokens
        self.expected_tokens = config.memory_tokens

    def overwritten(self, state: M, memory: str) -> M:
        """The state with ``memory`` as m_t, at most ``memory_tokens`` of it."""
        kept, cut = self.limited(memory, self.config.memory_tokens)
        return replace(state, memory=kept, cut=state.cut + cut)

    def shown(self, state: M) -> dict[str, str]:
        """Question and memory, as every prompt has them."""
        return {"problem": state.question, "memory": state.memory or NO_MEMORY}

    def asking(self, name: str, state: M, section: str | Sequence[Piece]) -> Prompt:
        """The prompt of a step: question, memory and section in the template of that name."""
        words = str(max(1, self.config.memory_tokens * 3 // 4))
        variables = {**self.shown(state), "section": section, "words": words}
        return Prompt(prompts.load(name), variables, self.config.memory_tokens + self.config.beside)

    def answering(self, name: str, state: M) -> Prompt:
        """The prompt of the answer."""
        return Prompt(prompts.load(name), self.shown(state), self.config.answer_tokens)


class MemAgentPolicy(Overwriting[Memory]):
    """The reply is the new memory, whatever its form; an empty one can't be read and leaves the memory as it was."""

    def start(self, question: str) -> Memory:
        return Memory(question=question)

    def prompt(self, state: Memory, section: str | Sequence[Piece]) -> Prompt:
        return self.asking("memorize", state, section)

    def parse(self, reply: str) -> str:
        if not reply.strip():
            raise Malformed("the reply is empty")
        return reply.strip()

    def apply(self, state: Memory, wanted: str) -> Memory:
        return self.overwritten(state, wanted)

    def answer_prompt(self, state: Memory) -> Prompt:
        return self.answering("memory_answer", state)


class MemAgent(Method[Config]):
    """Reads in order and overwrites one memory."""

    name = "memagent"
    summary = "sections read one after the other, each rewriting a memory of fixed length; the answer from that alone"
    Config: ClassVar[type[MethodConfig]] = Config
    Policy: ClassVar[type[Overwriting[Any]]] = MemAgentPolicy

    async def solve(self, document: Document, question: str, run: Run) -> Answer:
        config = self.config.fitted(run.room(0))
        sections = stride_windows(document, run.tokenizer, config.chunk_tokens, config.chunk_tokens)
        agent = Agent(self.Policy(config, run.tokenizer), question, run)
        await agent.read(sections)
        return self.conclude(run, config, await agent.answer(), windows=len(sections))

    def plan(self, document: Document, facts: Facts, question: str = "") -> Plan:
        config = self.config.fitted(facts.context)
        sections = stride_windows(document, facts.tokenizer, config.chunk_tokens, config.chunk_tokens)
        return plan_of_sections(self.Policy(config, facts.tokenizer), sections, document, facts, question)
