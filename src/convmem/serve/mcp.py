"""ConvMem as tools of an agent, over the Model Context Protocol: plan, ask, and read around a citation.

Knows runs and the protocol's library. Files are read only in folders that the user or the client named (``roots``).
"""

from __future__ import annotations

import asyncio
import functools
import secrets
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ParamSpec, TypeVar

from mcp.server.mcpserver import Context, ListRoots, MCPServer, Resolve
from mcp.server.mcpserver.exceptions import ResourceNotFoundError
from mcp_types import CallToolResult, ListRootsResult, TextContent, ToolAnnotations
from pydantic import BaseModel, Field

from convmem import __version__
from convmem.api import answer_json, connected, facts_at_hand, plan_json
from convmem.core import CallEnded, ConvMemError, Event, EvidenceFound, InputError, Model, Planned, in_thread
from convmem.document import Document
from convmem.engine.local import share
from convmem.model import Cache
from convmem.run import export
from convmem.serve.roots import folders_of, located, named
from convmem.settings import resolve
from convmem.trace import Trace, encode, to_html

RUNS_KEPT = 16
"""Runs whose passages and traces can be read: each holds its document."""
LONGEST_PASSAGE = 20_000
"""Characters that ``read_passage`` gives at most."""

_INSTRUCTIONS = (
    "Answers questions over files that are too long to read: books, years of minutes, whole folders. plan says what a "
    "question would cost, ask answers it with citations, read_passage gives what stands around a citation."
)
_READS = ToolAnnotations(read_only_hint=True, open_world_hint=False)

P = ParamSpec("P")
T = TypeVar("T")

Files = Annotated[
    list[str],
    Field(min_length=1, description="Files or folders: absolute paths, or relative to one of the client's roots."),
]
Preset = Annotated[
    str | None, Field(description="lean (the default) reads about once; paper as published, about 30 times.")
]


class Estimate(BaseModel):
    """What asking would cost; ``tokens`` are the document's, ``seconds`` and ``cost`` (money) None where not known."""

    tokens: int
    windows: int
    channels: int
    layers: list[dict[str, int]]
    calls: int
    prompt_tokens: int
    completion_tokens: int
    depth: int
    seconds: float | None
    cost: float | None
    assumptions: list[str]


class Cited(BaseModel):
    """A passage that supports the answer; ``start`` and ``end`` are characters of the source."""

    source: str
    page: int | None
    line: int
    start: int
    end: int
    quote: str


class Asked(BaseModel):
    """An answer. ``run`` is what read_passage takes; ``trace`` and ``page`` are resources that show every call.

    ``claims`` are there where answers are verified.
    """

    answer: str
    citations: list[Cited]
    sub_questions: list[dict[str, str]]
    coverage: dict[str, Any]
    usage: dict[str, Any]
    warnings: list[str]
    claims: list[dict[str, Any]] | None = None
    run: str
    trace: str
    page: str


class Passage(BaseModel):
    """Text of a source, from character ``start`` to ``end``."""

    source: str
    page: int | None
    line: int
    start: int
    end: int
    text: str


@dataclass(frozen=True, slots=True)
class _Run:
    """What was asked about, and every call that was made."""

    document: Document
    trace: Trace


class Desk:
    """Where calls arrive: ``given`` settings, the ``roots`` that the user named, and the runs made so far."""

    def __init__(self, given: Mapping[str, Any], roots: Sequence[Path], cache: Cache) -> None:
        self.given, self.roots, self.cache = given, roots, cache
        self.models: dict[str, Model] = {}
        self._runs: OrderedDict[str, _Run] = OrderedDict()

    async def plan(self, document: Document, question: str, preset: str | None) -> Estimate:
        """What asking would cost."""
        settings = resolve(self._with(preset=preset))
        plan = await in_thread(settings.method.plan, document, await facts_at_hand(settings), question)
        price = settings.general.price
        cost = price.of(plan.prompt_tokens, plan.completion_tokens) if price else None
        return Estimate(**plan_json(plan) | {"cost": cost})

    async def ask(
        self, document: Document, question: str, preset: str | None, budget: int | None, heard: Callable[[Event], None]
    ) -> Asked:
        """The answer, of a run that is kept."""
        settings = resolve(self._with(preset=preset, budget=budget))
        answer = await settings.method.answer(
            document, question, model=self.models, settings=settings.run, cache=self.cache, on_event=heard
        )
        run = secrets.token_hex(8)
        self._runs[run] = _Run(document, answer.trace)
        if len(self._runs) > RUNS_KEPT:
            self._runs.popitem(last=False)
        where = f"convmem://runs/{run}"
        return Asked(**answer_json(answer), run=run, trace=f"{where}/trace", page=f"{where}/page")

    def passage(self, run: str, source: str, start: int, end: int) -> Passage:
        """A source's text, cut to its ends and to the longest passage."""
        document = self._kept(run).document
        found = next((each for each in document.sources if each.name == source), None)
        if found is None:
            raise InputError(f"The run has no source '{source}': take one of its citations.")
        start = min(max(start, 0), len(found.text))
        end = min(max(end, start), len(found.text), start + LONGEST_PASSAGE)
        return Passage(
            source=source, page=found.page(start), line=found.line(start), start=start, end=end,
            text=found.text[start:end],
        )  # fmt: skip

    def exported(self, run: str) -> dict[str, Any]:
        """A run's trace with all that it refers to."""
        kept = self._kept(run)
        return export(kept.trace, kept.document, self.cache)

    def _kept(self, run: str) -> _Run:
        if run not in self._runs:
            raise InputError(f"There is no run '{run}' (the last {RUNS_KEPT} are kept): ask again.")
        return self._runs[run]

    def _with(self, **more: Any) -> dict[str, Any]:
        return {**self.given, **{name: value for name, value in more.items() if value is not None}}


def server(given: Mapping[str, Any], roots: Sequence[Path] = ()) -> MCPServer[Desk]:
    """The server, whose runs have the ``given`` settings. Raises InputError where they are wrong.

    ``roots`` are the folders that may be read; none: those that each client names.
    """
    settings = resolve(given)

    @asynccontextmanager
    async def opened(_: MCPServer[Desk]) -> AsyncIterator[Desk]:
        async with AsyncExitStack() as stack:
            desk = Desk(given, roots, stack.enter_context(closing(Cache.shared())))
            desk.models = connected(settings, stack, share)
            yield desk

    made = MCPServer(
        "convmem",
        title="ConvMem",
        version=__version__,
        instructions=_INSTRUCTIONS,
        lifespan=opened,
        log_level="WARNING",
    )
    for tool in (plan, ask, read_passage):
        made.tool(annotations=_READS)(tool)
    made.resource("convmem://runs/{run}/trace", title="Every call of a run", mime_type="application/json")(trace)
    made.resource("convmem://runs/{run}/page", title="The evidence page of a run", mime_type="text/html")(page)
    return made


# ------------------------------------------------------------------------------------------- what clients may call


def _desk(context: Context[Desk]) -> Desk:
    return context.request_context.lifespan_context


async def allowed(context: Context[Desk]) -> ListRoots | ListRootsResult:
    """The folders that may be read: the user's, else the client's."""
    roots, capabilities = _desk(context).roots, context.client_capabilities
    return ListRoots() if not roots and capabilities and capabilities.roots else named(roots)


Roots = Annotated[ListRootsResult, Resolve(allowed)]


def _in_one_sentence(tool: Callable[P, Awaitable[T]]) -> Callable[P, Awaitable[T]]:
    """The tool, whose errors are their sentence alone."""

    @functools.wraps(tool)
    async def guarded(*args: P.args, **kwargs: P.kwargs) -> Any:
        try:
            return await tool(*args, **kwargs)
        except ConvMemError as error:
            return CallToolResult(content=[TextContent(type="text", text=str(error))], is_error=True)

    return guarded


@_in_one_sentence
async def plan(
    files: Files, context: Context[Desk], roots: Roots, question: str = "", preset: Preset = None
) -> Estimate:
    """Estimate what a question over files would cost: windows, calls, tokens, seconds. Makes no model call."""
    return await _desk(context).plan(await _document(files, roots), question, preset)


@_in_one_sentence
async def ask(
    files: Files,
    question: Annotated[str, Field(description="What to find out, in one sentence that needs no other.")],
    context: Context[Desk],
    roots: Roots,
    preset: Preset = None,
    budget: Annotated[int | None, Field(gt=0, description="Most tokens of all prompts and replies.")] = None,
) -> Asked:
    """Answer a question over files of any length, with the passages behind the answer. May take minutes."""
    async with _reported(context) as heard:
        return await _desk(context).ask(await _document(files, roots), question, preset, budget, heard)


@_in_one_sentence
async def read_passage(
    context: Context[Desk],
    run: Annotated[str, Field(description="As ask gave it.")],
    source: Annotated[str, Field(description="A citation's source.")],
    start: Annotated[int, Field(description="The first character: a citation's start, or one before it.")],
    end: Annotated[int, Field(description=f"The character to stop before, at most {LONGEST_PASSAGE:,} further on.")],
) -> Passage:
    """Read the text of a source, at or around a citation."""
    return _desk(context).passage(run, source, start, end)


def trace(run: str, context: Context[Desk]) -> str:
    """Every call of a run as JSON: prompts, replies, windows, scores."""
    return encode(_exported(context, run)).decode()


def page(run: str, context: Context[Desk]) -> str:
    """A page on which every call and citation of a run can be looked at."""
    return to_html(_exported(context, run)).decode()


async def _document(files: Sequence[str], roots: ListRootsResult) -> Document:
    folders = folders_of(roots)
    return await in_thread(Document.from_paths, [located(file, folders) for file in files], within=folders)


def _exported(context: Context[Desk], run: str) -> dict[str, Any]:
    try:
        return _desk(context).exported(run)
    except InputError as error:
        raise ResourceNotFoundError(str(error)) from None


@asynccontextmanager
async def _reported(context: Context[Desk]) -> AsyncIterator[Callable[[Event], None]]:
    """Takes in a run's events, and tells the client of progress for as long as the block lasts."""
    state = {"done": 0, "expected": 0, "found": 0}
    changed = asyncio.Event()

    def heard(event: Event) -> None:
        match event:
            case Planned(plan):
                state["expected"] = plan.calls
            case CallEnded():
                state["done"] += 1
            case EvidenceFound():
                state["found"] += 1
            case _:
                return
        changed.set()

    async def tell() -> None:
        while True:
            await changed.wait()
            changed.clear()
            done, found = state["done"], state["found"]
            total = max(state["expected"], done)
            await context.report_progress(done, total, f"{done} of about {total} calls, {found} passages found")

    telling = asyncio.create_task(tell())
    try:
        yield heard
    finally:
        telling.cancel()
        with suppress(asyncio.CancelledError):
            await telling
