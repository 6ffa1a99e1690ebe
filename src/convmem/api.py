"""The Python API: one function to ask, one to plan, an answer as JSON, and a run as a page.

Knows how settings, models and documents are brought together for a run; a method does the rest.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import AsyncExitStack, ExitStack, closing, nullcontext, suppress
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from anyio.from_thread import start_blocking_portal

from convmem.core import (
    Answer,
    Citation,
    Claim,
    Downloading,
    Event,
    InputError,
    Location,
    Model,
    ModelError,
    Plan,
    Planned,
    Tokenizer,
    in_thread,
)
from convmem.document import Document, EstimateTokenizer, GgufTokenizer, JsonTokenizer, UnknownVocabulary
from convmem.methods.base import Facts, facts_of
from convmem.methods.convmem import ConvMem
from convmem.methods.convmem.alternatives import alternatives
from convmem.methods.convmem.index import Indexing
from convmem.methods.convmem.index import index as index_document
from convmem.methods.convmem.probe import probe_speed
from convmem.model import Cache, Embedded, connect, expand, find_local
from convmem.model.index import Index
from convmem.prompts import roles
from convmem.run import export
from convmem.settings import General, Settings, resolve
from convmem.trace import Trace, encode, to_html

_DISCOVERY_SECONDS = 3.0

T = TypeVar("T")

Files = str | Path | Sequence[str | Path] | Document
"""What is asked about: a path (a file, a directory, a glob, ``-`` for standard input), several, or a document."""

Models = str | Model | Mapping[str, str | Model]
"""A model, or one for each role, with the one for all other roles under ``""``."""


def ask(
    document: Files,
    question: str,
    *,
    model: Models | None = None,
    method: str | None = None,
    preset: str | None = None,
    budget: int | str | None = None,
    seed: int | None = None,
    on_event: Callable[[Event], None] | None = None,
    cache: Cache | bool = True,
    **settings: Any,
) -> Answer:
    """Answer ``question`` over ``document``.

    What is not given comes from ``CONVMEM_*`` variables, the configuration file, then the preset (``lean``).
    ``budget`` is in tokens of prompts and replies together, or ``"5%"`` of the document.
    ``settings`` are any others that docs/configuration.md lists, as ``window=4000`` or
    ``verify=True``, which gives the answer ``claims`` with a verdict each. ``on_event`` is called with every event of
    the run, from its thread. ``cache`` False makes every call anew and stores none.

    Works inside a running event loop too (a notebook), which it blocks. Ctrl-C cancels the calls in flight. Raises
    InputError for a wrong setting or an unreadable document, and ConvMemError where the run failed.
    """
    given = {"method": method, "preset": preset, "budget": budget, "seed": seed}
    return _in_own_loop(_asking(document, question, model, given, settings, on_event, cache))


async def ask_async(
    document: Files,
    question: str,
    *,
    model: Models | None = None,
    method: str | None = None,
    preset: str | None = None,
    budget: int | str | None = None,
    seed: int | None = None,
    on_event: Callable[[Event], None] | None = None,
    cache: Cache | bool = True,
    **settings: Any,
) -> Answer:
    """As ``ask``, for a program that has an event loop. Cancelling it leaves no call pending."""
    given = {"method": method, "preset": preset, "budget": budget, "seed": seed}
    asking = await asyncio.to_thread(_asking, document, question, model, given, settings, on_event, cache)
    return await asking()


def plan(
    document: Files,
    question: str = "",
    *,
    model: Models | None = None,
    method: str | None = None,
    preset: str | None = None,
    budget: int | str | None = None,
    probe: bool = False,
    **settings: Any,
) -> Plan:
    """Estimate what ``ask`` would cost, beside other ways to read. Makes no model call and downloads nothing.

    A server that answers within a few seconds is asked for its context and tokens; without one tokens are estimated,
    and ``assumptions`` says so. ``probe`` has the model read a few windows of the document first, so that its speed is
    known. Raises ConvMemError where that fails.
    """
    chosen = _resolve({"method": method, "preset": preset, "budget": budget}, settings)
    models = _by_role(model, chosen.general)
    return _in_own_loop(partial(_plan, chosen, _document(document), question, models[""], probe))


def index(
    document: Files,
    *,
    model: Models | None = None,
    on_event: Callable[[Event], None] | None = None,
    **settings: Any,
) -> Indexing:
    """Take down what every window of ``document`` states, so that ``ask`` with ``index="records"`` looks it up.

    What the index has is not read again: after a change, the windows around it are. Raises as ``ask`` does.
    """
    chosen = _resolve({}, settings)
    if not isinstance(chosen.method, ConvMem):
        raise InputError(f"Method {chosen.method.name} has no index; leave out the method, or set it to convmem.")
    models = _by_role(model, chosen.general)
    return _in_own_loop(partial(_index, chosen, chosen.method, models, _document(document), on_event))


def index_json(made: Indexing) -> dict[str, Any]:
    """What ``convmem index --json`` prints."""
    held, coverage = made.contents, made.coverage
    return {
        "name": made.name,
        "windows": len(held.windows),
        "stored": held.stored,
        "added": held.added,
        "missing": held.missing,
        "notes": len(held.notes),
        "tokens": coverage.tokens,
        "usage": asdict(made.usage.total) | {"seconds": made.usage.seconds},
        "failed_windows": [place_json(f.location) | {"reason": f.reason} for f in coverage.failed_windows],
        "warnings": list(made.warnings),
    }


def answer_json(answer: Answer) -> dict[str, Any]:
    """What ``convmem ask --json`` prints: plain values, whose keys stay as they are."""
    coverage = answer.coverage
    return {
        "answer": answer.text,
        "citations": [_citation(citation) for citation in answer.citations],
        **({} if answer.claims is None else {"claims": [_claim(claim) for claim in answer.claims]}),
        "sub_questions": [{"question": s.question, "answer": s.answer} for s in answer.sub_questions],
        "coverage": {
            "tokens": coverage.tokens,
            "read_tokens": coverage.read_tokens,
            "indexed_tokens": coverage.indexed_tokens,
            "windows": coverage.windows,
            "failed_windows": [
                place_json(f.location) | {"role": f.role, "channel": f.channel, "reason": f.reason}
                for f in coverage.failed_windows
            ],
            "truncated": [asdict(t) for t in coverage.truncated],
        },
        "usage": {
            **asdict(answer.usage.total),
            "depth": answer.usage.depth,
            "seconds": answer.usage.seconds,
            "by_role": {role: asdict(totals) for role, totals in answer.usage.by_role.items()},
        },
        "method": answer.method,
        "config": dict(answer.config),
        "model": answer.model,
        "seed": answer.seed,
        "warnings": list(answer.warnings),
        "plan": answer.plan and plan_json(answer.plan),
    }


def _citation(citation: Citation) -> dict[str, Any]:
    return place_json(citation.location) | {"quote": citation.quote}


def _claim(claim: Claim) -> dict[str, Any]:
    return {
        "text": claim.text,
        "verdict": claim.verdict,
        "probability": claim.probability,
        "citations": [_citation(citation) for citation in claim.citations],
        "against": [_citation(citation) for citation in claim.against],
    }


def plan_json(plan: Plan) -> dict[str, Any]:
    """What ``convmem plan --json`` prints."""
    return {
        **asdict(plan),
        "layers": [asdict(layer) for layer in plan.layers],
        "assumptions": list(plan.assumptions),
        "alternatives": [asdict(way) for way in plan.alternatives],
    }


def write_trace(path: str | Path, trace: Trace, document: Document, *, cache: Cache | None = None) -> None:
    """Write the evidence page of a run (``.html``) or all of it as JSON (``.json``), whole or not at all.

    ``trace`` is an answer's, or the one that the event ``Planned`` brings. ``cache`` has the run's replies; unset: the
    user's. Raises InputError for another ending, and OSError where the file can't be written.
    """
    path = Path(path)
    encoded = trace_format(path)
    with nullcontext(cache) if cache else closing(Cache.shared()) as replies:
        content = encoded(export(trace, document, replies))
    partial_file = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        partial_file.write_bytes(content)
        partial_file.replace(path)
    finally:
        partial_file.unlink(missing_ok=True)


def trace_format(path: Path) -> Callable[[Mapping[str, Any]], bytes]:
    """How an exported trace is written to ``path``. Raises InputError for an ending that stands for no format."""
    match path.suffix.lower():
        case ".html":
            return to_html
        case ".json":
            return encode
        case _:
            raise InputError(f"A trace is written as .html or .json, and '{path}' is neither.")


def place_json(location: Location) -> dict[str, Any]:
    """A location as plain values; ``start`` and ``end`` in characters of the source's text."""
    return {
        "source": location.source,
        "page": location.page,
        "line": location.line,
        "start": location.start,
        "end": location.end,
    }


def _asking(
    document: Files,
    question: str,
    model: Models | None,
    named: Mapping[str, Any],
    others: Mapping[str, Any],
    on_event: Callable[[Event], None] | None,
    cache: Cache | bool,
) -> Callable[[], Coroutine[Any, Any, Answer]]:
    """A run that is ready to start: its settings resolved first, then its document read."""
    settings = _resolve(named, others)
    models = _by_role(model, settings.general)
    if not question.strip():
        raise InputError("The question is empty: write what you want to know.")
    return partial(_ask, settings, models, _document(document), question, on_event, cache)


async def _ask(
    settings: Settings,
    models: Mapping[str, str | Model],
    document: Document,
    question: str,
    on_event: Callable[[Event], None] | None,
    cache: Cache | bool,
) -> Answer:
    async with AsyncExitStack() as stack:
        if cache is False:
            cache = stack.enter_context(closing(Cache.temporary()))
        if on_event and models[""] == "local" and not find_local():  # what it costs is said before it is downloaded
            facts = await facts_at_hand(settings, "local")
            on_event(Planned(await in_thread(settings.method.plan, document, facts, question)))
        return await settings.method.answer(
            document,
            question,
            model=_connect(models, settings, stack, on_event),
            settings=settings.run,
            cache=None if cache is True else cache,
            on_event=on_event,
        )


async def _index(
    settings: Settings,
    method: ConvMem,
    models: Mapping[str, str | Model],
    document: Document,
    on_event: Callable[[Event], None] | None,
) -> Indexing:
    async with AsyncExitStack() as stack:
        connected = _connect(models, settings, stack, on_event)
        return await index_document(method, document, model=connected, settings=settings.run, on_event=on_event)


def _resolve(named: Mapping[str, Any], others: Mapping[str, Any]) -> Settings:
    return resolve({**others, **{name: value for name, value in named.items() if value is not None}})


def _document(files: Files) -> Document:
    if isinstance(files, Document):
        return files
    return Document.from_paths([files] if isinstance(files, str | Path) else files)


def _by_role(model: Models | None, general: General) -> dict[str, str | Model]:
    """Every model of a run, the one for roles that have none of their own under ``""``."""
    given = model if isinstance(model, Mapping) else {} if model is None else {"": model}
    models = {"": general.model, **general.models, **given}
    for role in models.keys() - roles() - {""}:
        raise InputError(f"There is no role '{role}' to set a model for; choose from {', '.join(sorted(roles()))}.")
    return models


def _connect(
    models: Mapping[str, str | Model],
    settings: Settings,
    stack: AsyncExitStack,
    on_event: Callable[[Event], None] | None,
) -> dict[str, Model]:
    """The models themselves; those that are made here are closed with ``stack``, those that were given are not."""
    loop = asyncio.get_running_loop()

    def progress(done: int, total: int) -> None:  # called from the thread that downloads
        if on_event:
            loop.call_soon_threadsafe(on_event, Downloading(done, total))

    made = {spec: _model(spec, settings, progress) for spec in models.values() if isinstance(spec, str)}
    for one in made.values():
        stack.push_async_callback(one.close)
    return {role: made[one] if isinstance(one, str) else one for role, one in models.items()}


def connected(
    settings: Settings, stack: AsyncExitStack, share: Callable[[str, Model], Model] = lambda _spec, model: model
) -> dict[str, Model]:
    """The models of ``settings`` by role, closed with ``stack``; ``share`` is given each, with what names it.

    Raises InputError where one of them is for a role that there is not.
    """
    specs = {role: spec for role, spec in _by_role(None, settings.general).items() if isinstance(spec, str)}
    made = {spec: share(spec, _model(spec, settings)) for spec in specs.values()}
    for one in made.values():
        stack.push_async_callback(one.close)
    return {role: made[spec] for role, spec in specs.items()}


def _model(spec: str, settings: Settings, progress: Callable[[int, int], None] = lambda _done, _total: None) -> Model:
    general = settings.general
    return connect(
        spec,
        context=settings.run.context,
        timeout=general.timeout,
        slots=settings.run.concurrency,
        tokenizer=JsonTokenizer(general.tokenizer) if general.tokenizer else None,
        progress=progress,
    )


async def _plan(settings: Settings, document: Document, question: str, model: str | Model, probe: bool) -> Plan:
    if probe:
        await _probe(settings, document, model)
    with ExitStack() as stack:
        facts = replace(
            await facts_at_hand(settings, model), index=lambda: stack.enter_context(closing(Index.shared()))
        )
        plan = await in_thread(settings.method.plan, document, facts, question)
        ways, reason = (
            await in_thread(alternatives, document, facts, question)
            if isinstance(settings.method, ConvMem)
            else ((), "")
        )
    if price := settings.general.price:
        plan = replace(plan, cost=price.of(plan.prompt_tokens, plan.completion_tokens))
        ways = [replace(way, cost=price.of(way.prompt_tokens, way.completion_tokens)) for way in ways]
    return replace(plan, alternatives=tuple(ways), reason=reason)


async def _probe(settings: Settings, document: Document, model: str | Model) -> None:
    """Have ``model`` read a few windows, so that its speed is known from then on."""
    async with AsyncExitStack() as stack:
        connected = _connect({"": model}, settings, stack, None)[""]
        await connected.prepare()
        with closing(Cache.shared()) as cache:
            await probe_speed(document, connected, settings.run, cache)


async def facts_at_hand(settings: Settings, model: str | Model | None = None) -> Facts:
    """What an estimate may know of ``model``, by default that of ``settings``, without any call or download."""
    model = model or settings.general.model
    connected = _model(model, settings) if isinstance(model, str) else model
    vocabulary = None
    try:
        if isinstance(connected, Embedded):
            vocabulary = _vocabulary(model)
            await in_thread(connected.identify)
        else:
            with suppress(ModelError, TimeoutError):
                async with asyncio.timeout(_DISCOVERY_SECONDS):
                    await connected.prepare()
    finally:
        if connected is not model:
            await connected.close()
    with closing(Cache.shared()) as cache:
        return facts_of(connected, connected.tokenizer or vocabulary or EstimateTokenizer(), settings.run, cache)


def _vocabulary(spec: str | Model) -> Tokenizer | None:
    """What a model file that is here already counts by; None where it is not here, or is a model that was given."""
    path = find_local() if spec == "local" else expand(spec) if isinstance(spec, str) else None
    with suppress(UnknownVocabulary):
        return GgufTokenizer(path) if path else None
    return None


def _in_own_loop(function: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """What ``function`` gives, from a loop of its own: in a thread where this one runs a loop already.

    An interruption cancels ``function`` and waits for it to end.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(function())
    with start_blocking_portal() as portal:
        answer: T = portal.call(function)
        return answer
