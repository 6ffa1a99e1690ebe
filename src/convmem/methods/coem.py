"""CoEM: excerpts stay pending, word for word, until what is read later decides them (METHODS section 10).

Two bounded stores are all that is carried from chunk to chunk: committed facts M (at most B_M tokens) and pending
excerpts P of the document's own text (B_P). For chunks c_1 … c_T::

    for t in 1 … T:
        decisions, admissions = controller(question, c_t, M, P)
        for each decision:     promote (a transaction on M), keep or drop a pending excerpt
        for each admission:    until it fits into P: reconsider (at most K calls), then resolve the oldest
                               P = P + the excerpt
    for each p in P:           promote or drop
    answer = model(question, M)

A promotion is a transaction: its facts are committed only where every source that they cite is in view or pending, the
resulting M fits, and the verifier gives each fact at least η. Each reading step ends whatever the controller says: it
has at most H operations, K reconsiderations, and every resolution removes a record, of which no more leave than were
admitted. So T chunks take O(T) calls.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, ClassVar, Self, TypeVar

from pydantic import Field, model_validator

from convmem import prompts
from convmem.core import (
    NOT_FOUND,
    Answer,
    Citation,
    ContextExceeded,
    Evidence,
    LayerPlan,
    Malformed,
    Piece,
    Plan,
    Span,
    Tokenizer,
)
from convmem.document import Document, Window, stride_windows
from convmem.document.encoding import replace_surrogates
from convmem.memory.agent import Agent, Policy, Prompt, State, Steps
from convmem.memory.aggregation import Finding, cite
from convmem.memory.commitment import (
    Admit,
    Change,
    Drop,
    Event,
    Excerpt,
    Fact,
    Inference,
    Operation,
    Promote,
    Proposal,
    Reason,
    Rules,
    Section,
    Stores,
    Verdicts,
    listed,
    tally,
)
from convmem.memory.kernel import LEAST_WINDOW
from convmem.memory.provenance import saying
from convmem.memory.quoting import terms
from convmem.methods.base import Facts, Method, MethodConfig
from convmem.methods.estimate import PROMPT_TOKENS, QUESTION, plan_of_calls
from convmem.methods.memagent import GREEDY
from convmem.model.reply import read_json, repair_json
from convmem.run import Reply, Run
from convmem.verify import Pair, Verifier, quotes, threshold, verifier

NONE = "(none)"
NUMBERING = 1.25
"""What the numbers of its sentences make of a section's tokens."""
OPERATIONS_TOKENS = 80
"""What a controller's reply is taken to have in estimates, in tokens."""
WORDS_PER_TOKEN = 0.75
LONGEST_NUMBER = 10
ETA = 0.9


class Config(MethodConfig):
    """Settings of CoEM. Presets `lean` and `matched` are its greedy form; its budgets are those of the comparison."""

    presets: ClassVar[dict[str, dict[str, Any]]] = {
        "paper": {},
        "lean": {**GREEDY, "threshold": None},
        "matched": GREEDY,
    }

    chunk_tokens: int = Field(5_000, ge=1)
    """Length of a chunk c_t, in tokens; less where the model's context has no room for it."""
    input_tokens: int = Field(8_192, ge=1)
    """The longest prompt of the controller, in tokens: a chunk that makes a longer one is read in halves."""
    memory_tokens: int = Field(1_024, ge=1)
    """B_M + B_P, in tokens: all that is carried from chunk to chunk."""
    pending_tokens: int = Field(256, ge=0)
    """B_P, in tokens of the pending set as prompts show it; B_M is what is left. 0: there is no pending set."""
    operations: int = Field(8, ge=1)
    """H: operations that one chunk may lead to; further ones are ignored."""
    reconsiderations: int = Field(1, ge=0)
    """K: calls of one chunk that reconsider what is pending where an excerpt doesn't fit."""
    attempts: int = Field(2, ge=1)
    """J: facts that may be proposed from one pending excerpt."""
    threshold: float | None = Field(ETA, ge=0, le=1)
    """η: the probability by the run's `verifier` from which a fact counts as entailed by its sources; 0.90 is what the
    paper's was calibrated to. Unset: what this one was calibrated to on this machine, else its own."""
    verified: bool = True
    """Whether facts are verified; off, every proposed one is taken to be entailed (an ablation)."""
    delay: int = Field(0, ge=0)
    """Chunks after which an excerpt is promoted or dropped, and not before; 0: whenever the controller decides."""
    reply_tokens: int = Field(1_024, ge=1)
    """The longest reply of the controller, in tokens."""
    answer_tokens: int = Field(1_024, ge=1)
    """The longest reply from which the answer is taken, in tokens."""

    @model_validator(mode="after")
    def _room_for_facts(self) -> Self:
        if self.pending_tokens >= self.memory_tokens:
            raise ValueError("pending_tokens leaves no room for committed facts; set it below memory_tokens")
        return self

    def fitted(self, context: int | None) -> Self:
        """What a context of so many tokens has room for: the stores get at most a quarter, a reply as much."""
        if context is None:
            return self
        quarter = max(1, context // 4)
        memory, reply = min(self.memory_tokens, quarter), min(self.reply_tokens, quarter)
        pending = min(self.pending_tokens * memory // self.memory_tokens, memory - 1)
        room = min(context - reply, self.input_tokens) - memory - PROMPT_TOKENS
        return self.model_copy(
            update={
                "memory_tokens": memory,
                "pending_tokens": pending,
                "reply_tokens": reply,
                "chunk_tokens": min(self.chunk_tokens, max(LEAST_WINDOW, int(room / NUMBERING))),
                "answer_tokens": min(self.answer_tokens, quarter),
            }
        )


@dataclass(frozen=True, slots=True)
class Step:
    """What happened in one chunk, or in the final resolution.

    ``committed`` and ``pending`` are what the stores hold after it, in tokens; ``read`` is how far in the document all
    has been read, in characters.
    """

    events: Mapping[str, int]
    committed: int
    pending: int
    read: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Commitments(State):
    """M and P after some chunks, and what each of these led to."""

    stores: Stores = field(default_factory=Stores)
    steps: tuple[Step, ...] = ()

    @property
    def texts(self) -> Mapping[str, str]:
        return {str(fact.id): fact.text for fact in self.stores.facts}


class _Turn:
    """The stores while a step goes on, and what it has used up so far."""

    def __init__(self, state: Commitments, section: Section) -> None:
        self.state, self.section = state, section
        self.number = len(state.steps) + 1
        self.stores = state.stores
        self.events: list[Event] = []
        self.operations = self.reconsidered = self.unusable = 0

    def take(self, change: Change) -> None:
        self.stores, events = change
        self.events += events

    def note(self, event: Event) -> None:
        self.events.append(event)


Wanted = Sequence[Operation | None]
"""The operations of a reply; None stands for one that makes no sense."""
T = TypeVar("T")
Part = Generator[Any, Any, T]
"""Part of a step."""


class CoemPolicy(Policy[Commitments]):
    """The controller as pure functions; with a model and a verifier of any kind it reads and answers as follows::

        state = policy.start(question)
        for section in sections:  # Section.of(text, where it starts)
            state = converse(policy.step(state, section))
        state = converse(policy.finish(state))
        answer = extract(model(policy.answer_prompt(state).render()))

    A step yields prompts, to be sent the reply, and tuples of inferences, to be sent the verdicts on them.
    """

    def __init__(self, config: Config, tokenizer: Tokenizer) -> None:
        super().__init__(tokenizer)
        self.config = config
        self.memory_tokens = config.memory_tokens
        self.expected_tokens = min(OPERATIONS_TOKENS, config.reply_tokens)
        self.rules = Rules(
            committed_tokens=config.memory_tokens - config.pending_tokens,
            pending_tokens=config.pending_tokens,
            attempts=config.attempts,
            threshold=ETA if config.threshold is None else config.threshold,
            count=tokenizer.count,
            delay=config.delay,
        )

    def start(self, question: str) -> Commitments:
        return Commitments(question=question)

    # -------------------------------------------------------------------------------------------- the algorithm

    def step(self, state: Commitments, section: Section) -> Steps[Commitments]:
        """Read a chunk: decide what is pending, then admit, and make room for it where there is none."""
        turn = _Turn(state, section)
        wanted = yield from self._wanted(turn, self.reading_prompt(state, section), first=True)
        yield from self._decide(turn, wanted)
        while overdue := [each for each in turn.stores.pending if 0 < self.rules.delay <= turn.number - each.step]:
            yield from self._resolve(turn, overdue[0], "delay")
        for operation in wanted:
            if isinstance(operation, Admit):
                yield from self._admit(turn, operation)
        return self._after(turn)

    def finish(self, state: Commitments) -> Steps[Commitments]:
        """After the last chunk: what is pending is promoted or dropped, in the order of admission."""
        turn = _Turn(state, Section.of(""))
        while turn.stores.pending:
            yield from self._resolve(turn, turn.stores.pending[0], "end")
        return self._after(turn)

    def _decide(self, turn: _Turn, wanted: Wanted) -> Part[None]:
        """Promote and drop; what is not named is kept."""
        for operation in wanted:
            if isinstance(operation, Promote):
                inferences = self.rules.inferences(turn.stores, turn.section, operation, turn.number)
                verdicts = yield from self._verdicts(inferences)
                turn.take(self.rules.promote(turn.stores, turn.section, operation, verdicts, turn.number))
            elif isinstance(operation, Drop):
                turn.take(self.rules.drop(turn.stores, operation, turn.number))

    def _admit(self, turn: _Turn, wanted: Admit) -> Part[None]:
        """Add an excerpt to what is pending: reconsidered K times, then resolved from the oldest on, until it fits."""
        excerpt = self.rules.eligible(turn.stores, turn.section, wanted, turn.number)
        if excerpt is None:
            turn.note(Event("invalid", "excerpt"))
            return
        while turn.stores.pending and not self.rules.has_room(turn.stores, excerpt):
            if turn.reconsidered < self.config.reconsiderations:
                turn.reconsidered += 1
                prompt = self.reconsidering_prompt(turn.state.question, turn.stores, turn.section, excerpt)
                yield from self._decide(turn, (yield from self._wanted(turn, prompt)))
            else:
                yield from self._resolve(turn, turn.stores.pending[0], "capacity")
        turn.take(self.rules.admit(turn.stores, excerpt))

    def _resolve(self, turn: _Turn, excerpt: Excerpt, reason: Reason) -> Part[None]:
        """Promote an excerpt or remove it."""
        reply = yield from self._reply(self.resolving_prompt(turn.state.question, turn.stores, excerpt))
        wanted = next(iter(self.read(reply) or ()), None)
        verdicts: Verdicts = {}
        if isinstance(wanted, Promote):
            rules = self.rules.resolving
            verdicts = yield from self._verdicts(rules.inferences(turn.stores, turn.section, wanted, turn.number))
        turn.take(self.rules.resolve(turn.stores, excerpt.id, wanted, verdicts, turn.number, reason))

    def _after(self, turn: _Turn) -> Commitments:
        committed, pending = (self.tokenizer.count(listed(s)) for s in (turn.stores.facts, turn.stores.pending))
        state = turn.state
        before = state.steps[-1].read if state.steps else 0
        read = max(before, turn.section.start + len(turn.section.text))
        step = Step(tally(turn.events), committed, pending, read)
        return replace(state, stores=turn.stores, steps=(*state.steps, step), unusable=state.unusable + turn.unusable)

    # -------------------------------------------------------------------------------------------- what is asked

    def _wanted(self, turn: _Turn, prompt: Prompt, *, first: bool = False) -> Part[Wanted]:
        """The operations that a controller's reply has, as many as the step has left."""
        wanted: Wanted | None = self.read((yield from self._reply(prompt, first=first)))
        if wanted is None:
            turn.unusable += 1
            turn.note(Event("invalid", "reply"))
            return ()
        left = self.config.operations - turn.operations
        turn.operations += min(left, len(wanted))
        invalid = sum(operation is None for operation in wanted[:left])
        turn.events += [Event("invalid", "form")] * invalid + [Event("invalid", "limit")] * (len(wanted) - left)
        return wanted[:left]

    def _reply(self, prompt: Prompt, *, first: bool = False) -> Part[str]:
        """The reply to a prompt; none to one that is too long, unless it is the step's first."""
        size = sum(self.tokenizer.count(message.content) for message in prompt.render())
        if size > self.config.input_tokens:
            if first:
                raise ContextExceeded(f"The section makes a prompt of {size:,} tokens.", self.config.input_tokens)
            return ""
        reply: str = yield prompt
        return reply

    def _verdicts(self, inferences: tuple[Inference, ...]) -> Part[Verdicts]:
        if not (inferences and self.config.verified):
            return dict.fromkeys(inferences, 1.0)
        verdicts: Verdicts = yield inferences
        return verdicts

    def reading_prompt(self, state: Commitments, section: Section) -> Prompt:
        """What is asked about the next chunk."""
        free = self.config.pending_tokens - self.tokenizer.count(listed(state.stores.pending))
        return self._controller(
            "commit", state.question, state.stores, len(section.bounds),
            section=_numbered(section), operations=str(self.config.operations),
            words=str(max(0, int(free * WORDS_PER_TOKEN))),
        )  # fmt: skip

    def reconsidering_prompt(self, question: str, stores: Stores, section: Section, excerpt: Excerpt) -> Prompt:
        """What is asked where an excerpt has no room."""
        return self._controller(
            "reconsider", question, stores, len(section.bounds),
            section=_numbered(section), new_excerpt=excerpt.text, operations=str(self.config.operations),
        )  # fmt: skip

    def resolving_prompt(self, question: str, stores: Stores, excerpt: Excerpt) -> Prompt:
        """What is asked about an excerpt that can't stay."""
        return self._controller("resolve", question, stores, 0, record=str(excerpt.id))

    def _controller(
        self, name: str, question: str, stores: Stores, sentences: int, **more: str | Sequence[Piece]
    ) -> Prompt:
        shown = {"problem": question, "committed": _entries(stores.facts), "pending": _entries(stores.pending)}
        records, facts = ([entry.id for entry in entries] for entries in (stores.pending, stores.facts))
        most = (1, self.config.attempts) if name == "resolve" else (self.config.operations, self.config.operations)
        schema = _schema(sentences, records, facts, *most, admits=name == "commit")
        return Prompt(prompts.load(name), {**shown, **more}, self.config.reply_tokens, schema)

    def answer_prompt(self, state: Commitments) -> Prompt:
        variables = {"problem": state.question, "memory": _entries(state.stores.facts)}
        return Prompt(prompts.load("memory_answer"), variables, self.config.answer_tokens)

    def parse(self, reply: str) -> Wanted:
        return _operations(read_json(reply))

    def repair(self, reply: str) -> Wanted:
        return _operations(repair_json(reply))


class CoemAgent(Agent[Commitments]):
    """The controller at work in a run, with a verifier beside the model."""

    policy: CoemPolicy

    def __init__(self, policy: CoemPolicy, question: str, run: Run, judge: Verifier) -> None:
        super().__init__(policy, question, run)
        self._judge = judge
        self._sentences: Mapping[str, Span] = {}

    def shown(self, section: Window) -> Section:
        seen = Section.of(self.run.document.text(section.span), section.span.start)
        numbers = range(1, len(seen.bounds) + 1)
        self._sentences = {text: span for span, text in (seen.within(number, number) for number in numbers)}
        return seen

    async def judged(self, asked: tuple[Inference, ...]) -> Verdicts:
        """What quotes its premises follows from them; the verifier judges the rest."""
        verdicts = {each: 1.0 for each in asked if any(quotes(each.hypothesis, text) for text in self._premises(each))}
        rest = [each for each in asked if each not in verdicts]
        if rest:
            parents = () if self._node is None else (self._node,)
            judgements = await self._judge.judge([Pair(*each) for each in rest], self.run, parents=parents)
            verdicts |= {each: judgement.entailment for each, judgement in zip(rest, judgements, strict=True)}
        return verdicts

    async def finish(self) -> None:
        """Resolve what is pending; what can't be asked any more is dropped."""
        if self.state.stores.pending:
            self._sentences = {}
            replies = await self._converse(self.policy.finish(self.state), needed=False, priority=(-999,))
            self._place(self.state.texts.values(), replies)

    async def answer(self) -> Finding:
        """The answer from committed facts; not found where there are none."""
        return await super().answer() if self.state.stores.facts else Finding(self.state.question, NOT_FOUND, False)

    def _premises(self, inference: Inference) -> Iterable[str]:
        return map(self.run.document.text, inference.premises)

    def _changed(self, before: Commitments, replies: Sequence[Reply[Any]], read: Span) -> None:
        stores = self.state.stores
        self._place(self.state.texts.values(), replies)
        self._places |= {excerpt.text: excerpt.span for excerpt in stores.pending}
        new = [fact for fact in stores.facts if fact not in before.stores.facts]
        kept = [excerpt for excerpt in stores.pending if excerpt not in before.stores.pending]
        found = [*map(_committed, new), *(Evidence(each.text, (each.span,), "quote") for each in kept)]
        self._tell(replies[0].node, read, 2 if new else 1 if kept else 0, found)

    def _placed(self, value: str | Sequence[Piece]) -> tuple[Piece, ...]:
        found = super()._placed(value)
        return tuple(self._sentences.get(piece, piece) if isinstance(piece, str) else piece for piece in found)

    def _citations(self, answer: str, prompt: Prompt) -> tuple[Citation, ...]:
        """The verified sources of the facts that say the answer, and of those that say most of question and answer."""
        facts = {fact.text: fact for fact in self.state.stores.facts}
        said = [text for text in facts if {*terms(answer)} & {*terms(text)}]
        behind = dict.fromkeys([*saying(answer, said), *saying(f"{self.state.question} {answer}", [*facts])])
        return cite(f"{self.state.question} {answer}", [_committed(facts[text]) for text in behind], self.run)


class CoEM(Method[Config]):
    """Reads in order and commits on evidence."""

    name = "coem"
    summary = "sections read one after the other; excerpts stay pending until verified facts of them can be committed"
    Config = Config

    async def solve(self, document: Document, question: str, run: Run) -> Answer:
        config, judge = self.config.fitted(run.room(0)), verifier(run.settings.verifier)
        await judge.prepare()
        if config.threshold is None:
            config = config.model_copy(update={"threshold": threshold(judge, run)})
        sections = stride_windows(document, run.tokenizer, config.chunk_tokens, config.chunk_tokens)
        agent = CoemAgent(CoemPolicy(config, run.tokenizer), question, run, judge)
        await agent.read(sections)
        await agent.finish()
        answer = self.conclude(run, config, await agent.answer(), windows=len(sections))
        return replace(answer, diagnostics=diagnostics(agent.state))

    def plan(self, document: Document, facts: Facts, question: str = "") -> Plan:
        config = self.config.fitted(facts.context)
        sections = stride_windows(document, facts.tokenizer, config.chunk_tokens, config.chunk_tokens)
        policy, steps = CoemPolicy(config, facts.tokenizer), len(sections)

        def tokens(prompt: Prompt) -> int:
            return sum(facts.tokenizer.count(message.content) for message in prompt.render()) + policy.memory_tokens

        state = policy.start(question or QUESTION)
        read = round(NUMBERING * document.count(Span(0, document.size), facts.tokenizer))
        reading = LayerPlan(steps, read + steps * tokens(policy.reading_prompt(state, Section.of(""))))
        return plan_of_calls(
            document, facts, [reading], windows=steps, answering=tokens(policy.answer_prompt(state)),
            replies=steps * policy.expected_tokens, depth=steps + 1,
            assumptions=[
                f"Both stores are taken to be full ({policy.memory_tokens:,} tokens) from the first section on.",
                "No calls are counted that verify facts, make room for excerpts or resolve what is pending at the end.",
            ],
        )  # fmt: skip


def diagnostics(state: Commitments) -> dict[str, Any]:
    """What the memory went through: in all, step by step (the last one is the final resolution), and its facts."""
    totals: dict[str, int] = {}
    for step in state.steps:
        for name, count in step.events.items():
            totals[name] = totals.get(name, 0) + count
    facts = [
        {"text": fact.text, "sources": [[*span] for span in fact.sources], "step": fact.step}
        for fact in state.stores.facts
    ]
    return {"totals": totals, "steps": [asdict(step) for step in state.steps], "facts": facts}


# ------------------------------------------------------------------------------------------------ texts and replies


def _entries(entries: Sequence[Fact | Excerpt]) -> Sequence[Piece]:
    """Entries as `listed` gives them, part by part."""
    parts = [part for entry in entries for part in ("\n", f"[{entry.id}] ", entry.text)]
    return parts[1:] or (NONE,)


def _numbered(section: Section) -> Sequence[Piece]:
    """The sentences of a section behind their numbers, one a line."""
    numbers = range(1, len(section.bounds) + 1)
    return [part for n in numbers for part in (f"[{n}] ", section.within(n, n)[1], "\n")][:-1]


def _committed(fact: Fact) -> Evidence:
    return Evidence(fact.text, fact.sources, "paraphrase", 2)


def _operations(value: Any) -> Wanted:
    """The operations that a reply lists: promotions, then drops, then admissions. Raises Malformed without a list."""
    lists = {name: value[name] for name in ("promote", "drop", "admit") if name in value} if _is_object(value) else {}
    if not lists:
        raise Malformed("the reply lists no operations")
    return [
        *map(_promotion, _several(lists.get("promote"))),
        *(None if (record := _number(each)) is None else Drop(record) for each in _several(lists.get("drop"))),
        *map(_admission, _several(lists.get("admit"))),
    ]


def _promotion(value: Any) -> Promote | None:
    if not _is_object(value):
        return None
    facts = [_proposal(fact) for fact in _several(value.get("facts"))]
    return Promote(tuple(facts), _numbers(value.get("delete")))


def _proposal(value: Any) -> Proposal:
    """A fact as it is proposed; without its text or sources it will not be committed."""
    given = value if _is_object(value) else {}
    text = given.get("text")
    said = replace_surrogates(text) if isinstance(text, str) else ""
    return Proposal(said, _numbers(given.get("records")), _numbers(given.get("sentences")))


def _admission(value: Any) -> Admit | None:
    given = value if _is_object(value) else {"first": value}
    first = _number(given.get("first"))
    last = _number(given.get("last", first))
    return None if first is None or last is None else Admit(first, last)


def _is_object(value: Any) -> bool:
    return isinstance(value, Mapping)


def _several(value: Any) -> Sequence[Any]:
    return value if isinstance(value, list) else [] if value is None else [value]


def _numbers(value: Any) -> tuple[int, ...]:
    """The numbers in a list; 0, which is nothing's number, for what is none."""
    return tuple(dict.fromkeys(_number(each) or 0 for each in _several(value)))


def _number(value: Any) -> int | None:
    """A number, also one that is written as it is shown: ``"[3]"``."""
    if isinstance(value, str) and (digits := value.strip(" []")).isdecimal() and len(digits) < LONGEST_NUMBER:
        return int(digits)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _schema(
    sentences: int, records: Sequence[int], facts: Sequence[int], operations: int, proposals: int, *, admits: bool
) -> dict[str, Any]:
    """The form of a reply that can name only what is there, and no more than counts.

    A small model otherwise cites what it has never seen, and goes on with what nobody reads. ``operations`` is the most
    of each kind, ``proposals`` the most facts of a promotion.
    """
    sources: dict[str, Any] = {"records": _among(records)} if records else {}
    if sentences:
        sources["sentences"] = {"type": "array", "items": _up_to(sentences)}
    delete = {"delete": _among(facts)} if facts else {}
    fact = _object(text={"type": "string"}, **sources)
    form: dict[str, Any] = {"promote": _at_most(operations, _object(facts=_at_most(proposals, fact), **delete))}
    if records:
        form["drop"] = _among(records)
    if admits and sentences:
        excerpt = _object(first=_up_to(sentences), last=_up_to(sentences))
        form["admit"] = _at_most(operations, excerpt)
    return _object(**form)


def _at_most(count: int, items: dict[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": items, "maxItems": count}


def _among(numbers: Sequence[int]) -> dict[str, Any]:
    return {"type": "array", "items": {"type": "integer", "enum": [*numbers]}}


def _up_to(most: int) -> dict[str, Any]:
    return {"type": "integer", "minimum": 1, "maximum": most}


def _object(**properties: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }
