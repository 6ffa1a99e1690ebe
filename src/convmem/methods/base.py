"""What every method is: a configuration, an estimate of its cost, and `solve`.

A method file holds one published system and reads like its paper's pseudocode. To add one, put a module with a
`Method` subclass into this package: the registry finds it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, closing, nullcontext
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Generic, Self, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from convmem.core import (
    NOT_FOUND,
    Answer,
    BestAnswer,
    BudgetExhausted,
    ConvMemError,
    Coverage,
    DeadlinePassed,
    Done,
    Event,
    InputError,
    Model,
    Plan,
    Planned,
    Span,
    Stopped,
    SubAnswer,
    Tokenizer,
    first_of,
    in_thread,
)
from convmem.document import Document, EstimateTokenizer
from convmem.memory.aggregation import Finding
from convmem.model import Cache, Experience
from convmem.model.index import Index
from convmem.run import Run, RunSettings
from convmem.trace import Trace
from convmem.verify import Verifier, check, strictly, supported_share, threshold, verifier

C = TypeVar("C", bound="MethodConfig")

CHECKING_SHARE = 0.125
"""Of the budget, the most that is kept for checking the answer."""


class MethodConfig(BaseModel):
    """Settings of one method; each field is one mechanism or number of its paper."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {}

    temperature: float = Field(0.7, ge=0, allow_inf_nan=False)
    """Sampling temperature; 0 is greedy."""
    top_p: float = Field(0.95, gt=0, le=1)
    """Nucleus sampling: the share of probability that tokens are drawn from."""

    @classmethod
    def preset(cls, name: str, **overrides: Any) -> Self:
        """The named preset with ``overrides``. Raises InputError for an unknown preset, field or value."""
        if name not in cls.presets:
            raise InputError(f"There is no preset {name!r}; choose from {', '.join(cls.presets) or 'none'}.")
        return cls.of({**cls.presets[name], **overrides})

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> Self:
        """A configuration from plain values. Raises InputError that names the field and what is wrong."""
        try:
            return cls.model_validate(dict(values))
        except ValidationError as error:
            first = error.errors()[0]
            field = ".".join(str(part) for part in first["loc"])
            if first["type"] == "extra_forbidden":
                raise InputError(f"There is no setting {field!r}; see docs/configuration.md.") from None
            said = first["msg"].removeprefix("Value error, ")
            raise InputError(f"{field}: {said}." if field else f"{said[:1].upper()}{said[1:]}.") from None


@dataclass(frozen=True, slots=True)
class Facts:
    """What an estimate may know of the model before any call.

    ``context`` in tokens; ``logprobs`` None where it is not known; ``tokens_per_second`` (prompt, reply); ``slots``
    calls served at once; ``limits`` are the run's. ``index`` opens what is known of texts of ``namespace`` from the
    model of that ``identity``. ``replies`` are mean lengths in tokens, by role, where enough calls are known of;
    ``usual`` is how many its runs had on average of what can't be known before a run, by name.
    """

    tokenizer: Tokenizer
    context: int | None = None
    logprobs: bool | None = None
    tokens_per_second: tuple[float, float] | None = None
    slots: int = 1
    identity: str = ""
    namespace: str = ""
    index: Callable[[], Index] | None = None
    limits: RunSettings = field(default_factory=RunSettings)
    replies: Mapping[str, float] = field(default_factory=dict)
    usual: Mapping[str, float] = field(default_factory=dict)


class Method(ABC, Generic[C]):
    """A system that answers questions over documents longer than its model's context."""

    name: ClassVar[str]
    summary: ClassVar[str]
    Config: ClassVar[type[MethodConfig]]

    def __init__(self, config: C) -> None:
        self.config = config

    @abstractmethod
    async def solve(self, document: Document, question: str, run: Run) -> Answer:
        """Answer ``question``; every call goes through ``run``.

        Raises Fatal where the model can't be had, and ConvMemError where nothing could be read.
        """

    async def answer(
        self,
        document: Document,
        question: str,
        *,
        model: Model | Mapping[str, Model],
        settings: RunSettings | None = None,
        tokenizer: Tokenizer | None = None,
        cache: Cache | None = None,
        on_event: Callable[[Event], None] | None = None,
    ) -> Answer:
        """Answer ``question`` over ``document`` in a run of its own.

        ``model`` may be one for each role, with the default under ``""``. ``tokenizer`` counts the document: by default
        the model's own, else an estimate. Without ``cache``, the user's is used. Cancelling leaves no call pending.

        Raises InputError for an empty question, and ConvMemError where the run fails; each says why in one sentence.
        """
        if not question.strip():
            raise InputError("The question is empty; ask something.")
        settings = settings or RunSettings()
        checks = verifier(settings.verifier) if settings.verify or settings.strict else None
        begun = self.running(
            document, question, self.plan, model=model, settings=settings, tokenizer=tokenizer, cache=cache,
            on_event=on_event,
        )  # fmt: skip
        async with begun as (run, plan):
            if checks:
                await checks.prepare()
            if checks and run.settings.budget:
                run.keep(min(checks.reserve, round(CHECKING_SHARE * run.settings.budget)))
            answer = await self.solve(document, question, run)
            if checks:
                run.keep(0)
                answer = await self._checked(document, question, answer, checks, run)
            warnings = dict.fromkeys((*answer.warnings, *run.cache.troubles))  # the cache may have met trouble late
            answer = replace(answer, plan=plan, warnings=tuple(warnings))
            run.trace.finish(answer)
            run.emit(Done(answer))
        return answer

    @asynccontextmanager
    async def running(
        self,
        document: Document,
        question: str,
        planned: Callable[[Document, Facts, str], Plan],
        *,
        model: Model | Mapping[str, Model],
        settings: RunSettings,
        tokenizer: Tokenizer | None,
        cache: Cache | None,
        on_event: Callable[[Event], None] | None,
    ) -> AsyncIterator[tuple[Run, Plan]]:
        """A run that is ready to begin, and what it is expected to cost: its listener has heard that.

        Of the errors in it, the first is raised.
        """
        models = dict(model) if isinstance(model, Mapping) else {"": model}
        for each in {id(each): each for each in models.values()}.values():
            await each.prepare()
        counter = tokenizer or models[""].tokenizer or EstimateTokenizer()
        await in_thread(document.token_offsets, counter)
        settings = settings.of(document.count(Span(0, document.size), counter))
        trace = Trace(
            question, method=self.name, config=self.config.model_dump(), model=models[""].identity, seed=settings.seed
        )
        with nullcontext(cache) if cache else closing(Cache.shared()) as kept:
            run = Run(
                document, models, tokenizer=counter, trace=trace, cache=kept, settings=settings,
                temperature=self.config.temperature, top_p=self.config.top_p,
            )  # fmt: skip
            if on_event:
                run.subscribe(on_event)
            try:
                facts = replace(facts_of(models[""], counter, settings, kept), index=lambda: run.index)
                plan = await in_thread(planned, document, facts, question)
                run.emit(Planned(plan, trace))
                for warning in (*document.warnings, *kept.troubles):
                    run.warn(warning)
                yield run, plan
            except BaseExceptionGroup as group:
                raise first_of(group, ConvMemError) from None
            finally:
                run.close()

    async def reconsider(self, document: Document, question: str, answer: Answer, run: Run) -> Answer | None:
        """Another answer in place of one that its sources don't support, from what it was not made from.

        None where there is nothing else to look at.
        """
        return None

    async def _checked(self, document: Document, question: str, answer: Answer, checks: Verifier, run: Run) -> Answer:
        """The answer with its claims; where they aren't supported, after a second look at the document."""
        least = threshold(checks, run)
        checked = await check(answer, question, checks, least, run)
        if supported_share(checked) < 1 and (other := await self.reconsider(document, question, checked, run)):
            again = await check(other, question, checks, least, run)
            if supported_share(again) > supported_share(checked):
                run.warn(f"A first answer, “{checked.text}”, was not supported; this one is from other passages.")
                checked = replace(again, warnings=run.warnings)
        return strictly(checked, run) if run.settings.strict else checked

    def conclude(
        self,
        run: Run,
        config: MethodConfig,
        final: Finding,
        findings: Sequence[Finding] = (),
        *,
        windows: int,
    ) -> Answer:
        """The answer of a run: ``final`` with its citations, the sub-answers, and what the run knows of itself.

        Raises ConvMemError where nothing of the document was read, or what was read could not be asked: Stopped where
        a limit of the run is why.
        """
        coverage = run.coverage(windows)
        if not coverage.read_tokens and not coverage.indexed_tokens:
            raise _nothing_read(final.failure, coverage, run)
        if final.failure:
            kind = type(final.failure) if isinstance(final.failure, Stopped) else ConvMemError
            raise kind(f"The question could not be answered from what was read: {final.failure}")
        run.emit(BestAnswer(final.text, final.citations))
        return Answer(
            text=final.text if final.found else NOT_FOUND,
            citations=final.citations,
            sub_questions=tuple(SubAnswer(f.question, f.text, f.found) for f in findings),
            coverage=coverage,
            usage=run.ledger,
            config=config.model_dump(),
            model=run.model("").identity,
            seed=run.settings.seed,
            warnings=run.warnings,
            method=self.name,
            trace=run.trace,
        )

    @abstractmethod
    def plan(self, document: Document, facts: Facts, question: str = "") -> Plan:
        """Estimate what ``solve`` would cost. Makes no model call."""


def facts_of(model: Model, tokenizer: Tokenizer, settings: RunSettings, cache: Cache | None = None) -> Facts:
    """What is known of a prepared model before any call; ``cache`` knows earlier ones."""
    seen = cache.experience(model.identity) if cache else Experience()
    logprobs = seen.logprobs if model.logprobs is None else model.logprobs
    return Facts(
        tokenizer, settings.context or model.context, logprobs, seen.speed or model.tokens_per_second,
        settings.concurrency or model.slots, model.identity, settings.namespace, limits=settings,
        replies=seen.replies, usual=seen.usual,
    )  # fmt: skip


def _nothing_read(failure: ConvMemError | None, coverage: Coverage, run: Run) -> ConvMemError:
    """Why a run read nothing, and what to do; ``failure`` is why it could not be asked for the answer."""
    if coverage.failed_windows:
        return ConvMemError(f"Nothing of the document could be read: {coverage.failed_windows[0].reason}")
    if failure and not isinstance(failure, Stopped):
        return ConvMemError(f"Nothing of the document could be read: {failure}")
    budget, deadline = run.settings.budget, run.settings.deadline
    if budget is not None and not isinstance(run.stopped, DeadlinePassed):
        return BudgetExhausted(f"The budget of {budget:,} tokens is too small to read anything; raise it.")
    if deadline is not None:
        return DeadlinePassed(f"The deadline of {deadline:g} seconds leaves no time to read anything; raise it.")
    return ConvMemError("Nothing of the document was read; " + " ".join(run.warnings))
