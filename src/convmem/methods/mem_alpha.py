"""Mem-α: three memories that the model keeps with tools (METHODS section 6).

Core is one short text, semantic holds facts and episodic events, each entry with an id. The memory is kept without
knowing the question, so a second question on the same document finds every reading call stored::

    for t in 1 … T:  M_t = M_{t−1} after the operations that model(M_{t−1}, c_t) calls
    answer = model(question, core, BM25_20(semantic, question), BM25_20(episodic, question))

A step sees core whole and the newest entries of the other two.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self

from pydantic import Field

from convmem import prompts
from convmem.core import Answer, Malformed, Piece, Plan, Tokenizer
from convmem.document import Document, stride_windows
from convmem.memory.agent import Agent, OneReply, Prompt, State
from convmem.memory.kernel import LEAST_WINDOW
from convmem.memory.lexical import BM25
from convmem.methods.base import Facts, Method, MethodConfig
from convmem.methods.estimate import PROMPT_TOKENS, plan_of_sections
from convmem.model.reply import read_json, repair_json
from convmem.run import Run

EMPTY = "(empty)"
ID_TOKENS = 6
"""What the id of an entry takes in a prompt, in tokens."""
OPERATIONS_TOKENS = 400
"""What a step's operations are taken to have in estimates, in tokens."""

_CALL = re.compile(r"<tool_call>(.*?)(?:</tool_call>|\Z)", re.DOTALL)
_TOOL = re.compile(r"insert|update|delete")
_NAMES = {"memory": "memory_type", "id": "memory_id", "content": "new_content", "tool": "name"}
"""Our names of an operation's parts, and those that trained checkpoints know."""


class Config(MethodConfig):
    """Settings of Mem-α. Preset `matched`: what a prompt shows of the memory fits 1,024 tokens; the stores don't."""

    presets: ClassVar[dict[str, dict[str, Any]]] = {
        "paper": {},
        "lean": {"temperature": 0.0, "top_p": 1.0},
        "matched": {"temperature": 0.0, "top_p": 1.0, "memory_tokens": 1_024},
    }

    chunk_tokens: int = Field(5_000, ge=1)
    """Length of a section c_t, in tokens; less where the model's context has no room for it."""
    reply_tokens: int = Field(2_048, ge=1)
    """The longest reply with operations, in tokens."""
    core_tokens: int = Field(512, ge=1)
    """The longest core memory, in tokens: what goes beyond is cut off and reported."""
    entry_tokens: int = Field(256, ge=1)
    """The longest entry of the other two, in tokens: what goes beyond is cut off and reported."""
    shown: int = Field(20, ge=0)
    """How many of each store's newest entries a step sees."""
    retrieved: int = Field(20, ge=0)
    """How many of each store's entries the answer is made from: the best by BM25 (top 20 in the paper)."""
    memory_tokens: int = Field(4_096, ge=1)
    """The most memory that a prompt holds, in tokens. The oldest entries give way when reading, the least matching
    ones when answering."""
    answer_tokens: int = Field(1_024, ge=1)
    """The longest reply from which the answer is taken, in tokens."""

    def fitted(self, context: int | None) -> Self:
        """What a context of so many tokens has room for: memory and reply get at most a quarter of it each."""
        if context is None:
            return self
        quarter = max(1, context // 4)
        memory, reply = min(self.memory_tokens, quarter), min(self.reply_tokens, quarter)
        return self.model_copy(
            update={
                "memory_tokens": memory,
                "reply_tokens": reply,
                "core_tokens": max(1, min(self.core_tokens, memory // 2)),
                "entry_tokens": max(1, min(self.entry_tokens, memory // 8)),
                "chunk_tokens": min(self.chunk_tokens, max(LEAST_WINDOW, context - memory - reply - PROMPT_TOKENS)),
                "answer_tokens": min(self.answer_tokens, quarter),
            }
        )


Store = Mapping[str, str]
"""Entries, each on one line, by their ids, the oldest first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Memories(State):
    """M_t: core, and the stores by name. ``issued`` counts the ids given out, ``invalid`` the operations ignored."""

    core: str = ""
    stores: Mapping[str, Store] = field(default_factory=lambda: {"semantic": {}, "episodic": {}})
    issued: int = 0
    invalid: int = 0

    @property
    def texts(self) -> Mapping[str, str]:
        return {"core": self.core} | {id_: text for store in self.stores.values() for id_, text in store.items()}

    def having(self, name: str, store: Store) -> Memories:
        """The same with another store of that name."""
        return replace(self, stores={**self.stores, name: store})


@dataclass(frozen=True, slots=True)
class Operation:
    """A tool called on a memory; whatever is not given, or not known, is empty."""

    tool: str
    memory: str
    id: str
    content: str


class MemAlphaPolicy(OneReply[Memories]):
    """The reply lists operations; one without such a list can't be read and leaves all memories as they were.

    Operations apply in their order. One that names no tool or memory, an id that its memory doesn't hold, no content
    where it needs some, an insertion of what is there already or into core, is counted and ignored.
    """

    def __init__(self, config: Config, tokenizer: Tokenizer) -> None:
        super().__init__(tokenizer)
        self.config = config
        self.memory_tokens = config.memory_tokens
        self.expected_tokens = min(OPERATIONS_TOKENS, config.reply_tokens)

    def start(self, question: str) -> Memories:
        return Memories(question=question)

    def prompt(self, state: Memories, section: str | Sequence[Piece]) -> Prompt:
        def newest(store: Store) -> list[str]:
            return list(store)[::-1][: self.config.shown]

        variables = {**self._listed(state, newest), "section": section}
        return Prompt(prompts.load("memorize_entries"), variables, self.config.reply_tokens, _SCHEMA)

    def answer_prompt(self, state: Memories) -> Prompt:
        def best(store: Store) -> list[str]:
            ids = list(store)
            return [ids[n] for n in BM25(store.values()).ranked(state.question)[: self.config.retrieved]]

        variables = {**self._listed(state, best), "problem": state.question}
        return Prompt(prompts.load("entries_answer"), variables, self.config.answer_tokens)

    def parse(self, reply: str) -> list[Operation]:
        calls = _CALL.findall(reply)
        return _operations([read_json(call) for call in calls] if calls else read_json(reply))

    def repair(self, reply: str) -> list[Operation]:
        return _operations(repair_json(reply))

    def apply(self, state: Memories, wanted: Sequence[Operation]) -> Memories:
        for operation in wanted:
            state = self._done(operation, state) or replace(state, invalid=state.invalid + 1)
        return state

    def _done(self, operation: Operation, state: Memories) -> Memories | None:
        """The state after a valid operation; None for another."""
        limit = self.config.core_tokens if operation.memory == "core" else self.config.entry_tokens
        content, cut = self.limited(operation.content, limit)
        written = replace(state, cut=state.cut + cut)
        if operation.memory == "core":
            match operation.tool:
                case "update" if content:
                    return replace(written, core=content)
                case "delete" if state.core:
                    return replace(state, core="")
            return None
        store = state.stores.get(operation.memory)
        if store is None:
            return None
        match operation.tool:
            case "insert" if content and content not in store.values():
                written = replace(written, issued=state.issued + 1)
                return written.having(operation.memory, {**store, f"{operation.memory[0]}{written.issued}": content})
            case "update" if content and operation.id in store:
                return written.having(operation.memory, {**store, operation.id: content})
            case "delete" if operation.id in store:
                rest = {id_: text for id_, text in store.items() if id_ != operation.id}
                return state.having(operation.memory, rest)
        return None

    def _listed(self, state: Memories, ranked: Callable[[Store], Sequence[str]]) -> dict[str, Sequence[Piece]]:
        """Core, and the entries of each store that come first in ``ranked`` and fit, in the order of the store."""
        room = (self.config.memory_tokens - self.tokenizer.count(state.core)) // len(state.stores)
        listed: dict[str, Sequence[Piece]] = {"core_memory": [state.core or EMPTY]}
        for name, store in state.stores.items():
            kept = self._within(room, {id_: store[id_] for id_ in ranked(store)})
            parts = [part for id_, text in store.items() if id_ in kept for part in (f"[{id_}] ", text, "\n")]
            listed[f"{name}_memory"] = parts or [EMPTY]
        return listed

    def _within(self, room: int, entries: Store) -> set[str]:
        """The ids of the first entries that ``room`` tokens hold."""
        kept = set()
        for id_, text in entries.items():
            room -= self.tokenizer.count(text) + ID_TOKENS
            if room < 0:
                break
            kept.add(id_)
        return kept


class MemAlpha(Method[Config]):
    """Reads in order and keeps three memories with tools."""

    name = "mem-alpha"
    summary = "sections read one after the other into core, semantic and episodic memory; entries retrieved to answer"
    Config = Config

    async def solve(self, document: Document, question: str, run: Run) -> Answer:
        config = self.config.fitted(run.room(0))
        sections = stride_windows(document, run.tokenizer, config.chunk_tokens, config.chunk_tokens)
        agent = Agent(MemAlphaPolicy(config, run.tokenizer), question, run)
        await agent.read(sections)
        if agent.state.invalid:
            run.warn(f"Operations on the memory that were invalid and ignored: {agent.state.invalid:,}.")
        return self.conclude(run, config, await agent.answer(), windows=len(sections))

    def plan(self, document: Document, facts: Facts, question: str = "") -> Plan:
        config = self.config.fitted(facts.context)
        sections = stride_windows(document, facts.tokenizer, config.chunk_tokens, config.chunk_tokens)
        return plan_of_sections(MemAlphaPolicy(config, facts.tokenizer), sections, document, facts, question)


def _operations(value: Any) -> list[Operation]:
    """The operations that a reply lists, or is. Raises Malformed where it is neither."""
    if isinstance(value, Mapping):
        value = value.get("operations", value.get("tool_calls", [value] if {"tool", "name"} & value.keys() else None))
    if not isinstance(value, list):
        raise Malformed("the reply lists no operations")
    return [_operation(each) for each in value]


def _operation(value: Any) -> Operation:
    """One operation, by our names or those of trained checkpoints; what is missing or no text is empty."""
    given = value if isinstance(value, Mapping) else {}
    inner = given.get("arguments")
    given = {**given, **(inner if isinstance(inner, Mapping) else {})}
    said = {ours: given.get(ours, given.get(theirs)) for ours, theirs in _NAMES.items()}
    texts = {name: " ".join(text.split()) if isinstance(text, str) else "" for name, text in said.items()}
    tool = _TOOL.search(texts["tool"].casefold())
    memory = texts["memory"].casefold().removesuffix("_memory")
    return Operation(tool[0] if tool else "", memory, texts["id"], texts["content"])


_TEXT = {"type": "string"}
_PARTS = {
    "tool": {"type": "string", "enum": ["insert", "update", "delete"]},
    "memory": {"type": "string", "enum": ["core", "semantic", "episodic"]},
    "id": _TEXT,
    "content": _TEXT,
}
_SCHEMA = {
    "type": "object",
    "properties": {
        "operations": {
            "type": "array",
            "items": {
                "type": "object", "properties": _PARTS, "required": list(_PARTS), "additionalProperties": False,
            },
        }
    },
    "required": ["operations"],
    "additionalProperties": False,
}  # fmt: skip
