"""The recurrent memory agent: section by section a model rewrites a bounded memory, and answers from it alone.

MemAgent is one, and so is everything made of it. A `Policy` is an agent as pure functions of a state: it knows no run,
no document and no model, so that a trainer can drive it step by step. An `Agent` drives one over a document in a run.
A step is a conversation: the policy yields what it wants to know, and is sent the replies.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, ParamSpec, TypeVar

from convmem.core import (
    NOT_FOUND,
    BudgetExhausted,
    CallFailed,
    Citation,
    ContextExceeded,
    Evidence,
    EvidenceFound,
    LayerStarted,
    Malformed,
    Message,
    Piece,
    Relevance,
    ReplySlice,
    Span,
    Stopped,
    Tokenizer,
    WindowRead,
    in_thread,
)
from convmem.document import Window, Windows, split
from convmem.memory.aggregation import Finding, unanswered
from convmem.memory.extraction import extract
from convmem.memory.kernel import LEAST_WINDOW
from convmem.memory.provenance import Provenance
from convmem.memory.quoting import says_nothing
from convmem.prompts import Template
from convmem.run import Ask, Reply, Run

S = TypeVar("S", bound="State")
T = TypeVar("T")
P = ParamSpec("P")


# ------------------------------------------------------------------------------------------------ the agent, pure


@dataclass(frozen=True, slots=True, kw_only=True)
class State(ABC):
    """What an agent carries from one section to the next.

    ``cut`` is the tokens beyond a limit that were left out so far, ``unusable`` the replies so far that could not be
    read and left the state as it was, ``finished`` whether the agent wants to read no further.
    """

    question: str
    cut: int = 0
    unusable: int = 0
    finished: bool = False

    @property
    @abstractmethod
    def texts(self) -> Mapping[str, str]:
        """What the memory holds, each text under a key that stays its own when it is rewritten."""


@dataclass(frozen=True, slots=True)
class Prompt:
    """A template with its variables, each a text or parts of one; ``reply_tokens`` bounds the reply."""

    template: Template
    variables: Mapping[str, str | Sequence[Piece]]
    reply_tokens: int
    schema: Mapping[str, Any] | None = None

    def render(self) -> tuple[Message, ...]:
        """The messages of a prompt that has no part but text."""
        return self.template.render({name: "".join(map(str, value)) for name, value in self.variables.items()})


Steps = Generator[Any, Any, S]
"""One step: yields prompts, and whatever else the agent knows how to answer, is sent the answers, returns a state."""


class Policy(ABC, Generic[S]):
    """An agent as pure functions.

    ``tokenizer`` counts what a state may hold. ``memory_tokens`` is the most that a state takes in a prompt, and
    ``expected_tokens`` what estimates take a step's reply to have.
    """

    memory_tokens: int
    expected_tokens: int

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.tokenizer = tokenizer

    @abstractmethod
    def start(self, question: str) -> S:
        """The state before anything was read."""

    @abstractmethod
    def step(self, state: S, section: Any) -> Steps[S]:
        """The state after the next section, whatever the replies say."""

    @abstractmethod
    def parse(self, reply: str) -> Any:
        """What a reply wants done. Raises Malformed where it can't be read."""

    def repair(self, reply: str) -> Any:
        """`parse`, more tolerant."""
        return self.parse(reply)

    def read(self, reply: str) -> Any | None:
        """What a reply wants done, however it is written; None where it can't be read."""
        for read in (self.parse, self.repair):
            try:
                return read(reply)
            except Malformed:
                continue
        return None

    @abstractmethod
    def answer_prompt(self, state: S) -> Prompt:
        """What is asked at the end; `extraction.extract` finds the answer in the reply."""

    def limited(self, text: str, limit: int) -> tuple[str, int]:
        """The first ``limit`` tokens of ``text``, and how many tokens that leaves out."""
        offsets = self.tokenizer.offsets(text)
        beyond = len(offsets) - limit
        return (text[: int(offsets[limit])].rstrip(), beyond) if beyond > 0 else (text, 0)


class OneReply(Policy[S]):
    """An agent that asks once for each section. With a model of any kind it reads and answers as follows::

        state = policy.start(question)
        for section in sections:
            state = policy.update(state, model(policy.prompt(state, section).render()))
            if state.finished:
                break
        answer = extract(model(policy.answer_prompt(state).render()))

    What differs between agents is the prompt, and what is made of a reply.
    """

    @abstractmethod
    def prompt(self, state: S, section: str | Sequence[Piece]) -> Prompt:
        """What is asked about the next section, as text or as the pieces that it is made of."""

    @abstractmethod
    def apply(self, state: S, wanted: Any) -> S:
        """The state after what ``parse`` or ``repair`` gave."""

    def update(self, state: S, reply: str) -> S:
        """The state after a reply, whatever it says: one that can't be read only counts as ``unusable``."""
        wanted = self.read(reply)
        return replace(state, unusable=state.unusable + 1) if wanted is None else self.apply(state, wanted)

    def step(self, state: S, section: str | Sequence[Piece]) -> Steps[S]:
        return self.update(state, (yield self.prompt(state, section)))


def tagged(reply: str, tag: str) -> str | None:
    """What stands in the first ``<tag>`` of a reply, None without one; the next tag or the reply's end may close it."""
    found = re.search(rf"<{tag}>(.*?)(?:</{tag}>|<[a-z_]+>|\Z)", reply, re.DOTALL | re.IGNORECASE)
    return found[1].strip() if found else None


# ------------------------------------------------------------------------------------------------ the agent in a run


class Agent(Generic[S]):
    """A policy at work on a question over the run's document: section after section, each waiting for the one before.

    What a policy's steps ask beside prompts, and how a section is shown to them, a subclass knows.
    """

    def __init__(self, policy: Policy[S], question: str, run: Run) -> None:
        self.policy, self.run = policy, run
        self.state = policy.start(question)
        self._provenance = Provenance()
        self._places: dict[str, Piece] = {}
        self._node: int | None = None

    async def read(self, sections: Windows) -> None:
        """Read in order, to the end or until the agent, the budget or the deadline ends it; answering is set aside."""
        await self._set_aside()
        self.run.emit(LayerStarted(0, len(sections)))
        for section in sections:
            try:
                await self._step(section)
            except Stopped as stopped:
                end = "budget" if isinstance(stopped, BudgetExhausted) else "deadline"
                self.run.warn(f"The {end} ended reading after {section.index:,} of {len(sections):,} sections.")
                break
            if self.state.finished:
                break
        if self.state.unusable:
            self.run.warn(f"Replies that could not be read and left the memory as it was: {self.state.unusable:,}.")

    async def answer(self) -> Finding:
        """The answer from the memory alone; not found where nothing was read."""
        question = self.state.question
        if self._node is None:
            return Finding(question, NOT_FOUND, False)
        prompt = await self._off_loop(self.policy.answer_prompt, self.state)
        try:
            reply = await self.run.call(self._ask(prompt, priority=(-1_000,), answering=True, parse=_answered))
        except (CallFailed, ContextExceeded, Stopped) as failure:
            return unanswered(question, failure, self.run)
        text = extract(reply.text)
        if says_nothing(text):
            return Finding(question, NOT_FOUND, False, node=reply.node)
        return Finding(question, text, True, self._citations(text, prompt), reply.node)

    def shown(self, section: Window) -> Any:
        """The section as the policy takes it."""
        return (section.span,)

    async def judged(self, asked: Any) -> Any:
        """The answer to what a step asks and is no prompt; here a step has nothing but prompts."""
        raise TypeError(f"a step of this method asks for {asked!r}, which is no prompt")

    async def _step(self, section: Window) -> None:
        """One section; in halves where the model takes less. One that can't be read leaves the state as it was."""
        steps = self.policy.step(self.state, self.shown(section))
        try:
            before = self.state
            replies = await self._converse(steps, window=section.span, priority=(0, section.index))
            self._changed(before, replies, section.span)
        except ContextExceeded as exceeded:
            if section.tokens[1] - section.tokens[0] < 2 * LEAST_WINDOW:
                role = self.run.trace[-1].role if len(self.run.trace) else ""
                self.run.failed(section.span, role, "", str(exceeded))
                return
            for half in split(self.run.document, self.run.tokenizer, section):
                if not self.state.finished:
                    await self._step(half)
        except CallFailed:
            return

    async def _converse(self, steps: Steps[S], *, needed: bool = True, **ask: Any) -> list[Reply[Any]]:
        """Answer all that a step asks, and return the replies; the state that it ends in becomes the agent's.

        What can't be asked counts as an empty reply; but where the first one is ``needed``, that ends the step, and
        everything stays as it was.
        """
        replies: list[Reply[Any]] = []
        answer: Any = None
        while not isinstance(asked := await self._off_loop(_advanced, steps, answer), _Ended):
            if not isinstance(asked, Prompt):
                answer = await self.judged(asked)
                continue
            try:
                reply = await self.run.call(self._ask(asked, parse=self.policy.parse, repair=self.policy.repair, **ask))
            except (CallFailed, ContextExceeded, Stopped):
                if needed and not replies:
                    raise
                answer = ""
                continue
            if reply.finish == "length":
                limit = f"{asked.reply_tokens:,} tokens"
                self.run.warn(f"A reply was cut off at its limit of {limit}, and the memory with it.")
            self._node = reply.node
            replies.append(reply)
            answer = reply.text
        self.state = asked.state
        return replies

    def _changed(self, before: S, replies: Sequence[Reply[Any]], read: Span) -> None:
        """Note and tell what a step changed."""
        if self.state.cut > before.cut:
            self.run.cut("memory beyond its limit", self.state.cut - before.cut)
        self._place(self.state.texts.values(), replies)
        new = self._provenance.rewritten(self.state.texts, read)
        self._tell(replies[0].node, read, 1 if new else 0, new)

    def _place(self, texts: Iterable[str], replies: Sequence[Reply[Any]]) -> None:
        """Note where texts of the memory stand in replies, so that a trace holds them once."""
        for text in texts:
            for reply in replies:
                if text and text not in self._places and (at := reply.text.find(text)) >= 0:
                    self._places[text] = ReplySlice(reply.node, at, at + len(text))

    def _tell(self, node: int, read: Span, relevance: Relevance, found: Sequence[Evidence]) -> None:
        """Tell what came of a section."""
        self.run.trace.mark(node, relevance)
        self.run.emit(WindowRead(0, "", read, relevance))
        for evidence in found:
            self.run.emit(EvidenceFound(evidence))

    def _citations(self, answer: str, prompt: Prompt) -> tuple[Citation, ...]:
        """What of the document stands behind an answer from ``prompt``."""
        shown = [part for value in prompt.variables.values() for part in _parts(value) if isinstance(part, str)]
        return self._provenance.cite(f"{self.state.question} {answer}", shown, self.run)

    async def _off_loop(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """What one of the policy's functions gives; in a thread, where counting asks a server."""
        if self.policy.tokenizer.remote:
            return await in_thread(function, *args, **kwargs)
        return function(*args, **kwargs)

    def _ask(
        self, prompt: Prompt, *, parse: Callable[[str], Any], repair: Callable[[str], Any] | None = None, **more: Any
    ) -> Ask[Any]:
        """The call for a prompt, with every text that an earlier reply holds given as that reply's slice."""
        return Ask(
            template=prompt.template,
            variables={name: self._placed(value) for name, value in prompt.variables.items()},
            parse=parse,
            repair=repair,
            max_tokens=prompt.reply_tokens,
            schema=prompt.schema,
            parents=() if self._node is None else (self._node,),
            **more,
        )

    def _placed(self, value: str | Sequence[Piece]) -> tuple[Piece, ...]:
        return tuple(self._places.get(part, part) if isinstance(part, str) else part for part in _parts(value))

    async def _set_aside(self) -> None:
        """Keep what answering from a full memory may cost."""
        prompt = self.policy.answer_prompt(self.state)
        measured = await self.run.measure(self._ask(prompt, parse=_answered)) + self.policy.memory_tokens
        self.run.set_aside(self.run.reserve(measured, prompt.template.name) + prompt.reply_tokens)


@dataclass(frozen=True, slots=True)
class _Ended:
    """That a step has ended, and its state: a generator's own way of saying so can't leave a thread."""

    state: Any


def _advanced(steps: Steps[S], answer: Any) -> Any:
    """What a step asks next once it has the answer to what it asked before (None at first), or that it has ended."""
    try:
        return steps.send(answer)
    except StopIteration as end:
        return _Ended(end.value)


def _parts(value: str | Sequence[Piece]) -> Sequence[Piece]:
    return (value,) if isinstance(value, str) else value


def _answered(reply: str) -> str:
    if not (answer := extract(reply)):
        raise Malformed("the reply has no answer")
    return answer
