"""A trace with the texts that it points to, as JSON and as one self-contained page.

Knows the export's format and nothing of where documents, replies and prompts come from: they are handed in.

The JSON object has these keys; offsets are in characters (Unicode code points):

``format``, ``version``
    ``"convmem-trace"`` and 1.
``question``, ``method``, ``config``, ``model``, ``seed``
    What was asked, and how.
``answer``
    The fields of ``convmem.Answer``, or null for a run that has not ended.
``sources``, ``joint``
    ``[{name, text, pages}]``. The document is their texts, one behind another, with ``joint`` between them; ``pages``
    holds the character of the source at which each page starts, or is null.
``templates``
    By id, ``{system, user}``, where ``{{name}}`` stands for a variable and ``{{<name>}}`` for one that is fenced.
``nodes``
    The fields of ``convmem.trace.Node``, without those at their defaults. A variable is a list of pieces: text, or
    ``[start, end]`` for a slice of the document, or ``[node, start, end]`` for a slice of that node's reply.
``replies``
    The replies' texts, by the nodes' ``key``.
``fences``
    How fenced variables were written where they were not simply set between ``<name>`` and ``</name>``:
    ``[tag, gaps]``, with a space put in after each gap, which counts the text's characters since the one before. A
    node's own ``fences`` say which variable is written by which entry.
``used``
    The nodes that hold evidence used in the final prompt.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import html
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import resources
from typing import Any, Protocol

from pydantic import TypeAdapter

from convmem.core import Answer, Piece, Plan, Span
from convmem.trace.trace import Node, Trace

_NODES = TypeAdapter(list[Node])
_ANSWER = TypeAdapter(Answer | None)
_ANSWER.rebuild(_types_namespace={"Plan": Plan})
_SCRIPTS = ("text.js", "data.js", "document.js", "tree.js", "call.js", "report.js")
_FENCED = re.compile(r"\{\{<(\w+)>\}\}")


class Source(Protocol):
    """A named text; ``pages`` holds the character at which each page starts."""

    @property
    def name(self) -> str: ...
    @property
    def text(self) -> str: ...
    @property
    def pages(self) -> Sequence[int] | None: ...


class Document(Protocol):
    """Sources, one behind another, with ``joint`` between them."""

    @property
    def joint(self) -> str: ...
    @property
    def sources(self) -> Sequence[Source]: ...
    def text(self, span: Span, /) -> str: ...


class Template(Protocol):
    """A prompt's text, with ``{{name}}`` and ``{{<name>}}`` for its variables."""

    @property
    def system(self) -> str: ...
    @property
    def user(self) -> str: ...


def to_json(
    trace: Trace,
    document: Document,
    *,
    replies: Callable[[str], str | None],
    templates: Mapping[str, Template],
    fence: Callable[[str, str], str],
) -> dict[str, Any]:
    """The export, as described above.

    ``replies`` gives the text of a reply by its key, None where it is no longer known; ``templates`` are by id;
    ``fence`` is what the prompts set between tags with, by tag and text. Raises KeyError for an unknown template.
    """
    texts = {key: text for key in {node.key for node in trace if node.key} if (text := replies(key)) is not None}
    known = outline(trace)
    fences = _Fences(trace, document, texts, fence)
    used = {node.template: templates[node.template] for node in trace}
    fenced = {id_: set(_FENCED.findall(t.system + t.user)) for id_, t in used.items()}
    for node, entry in zip(trace, known["nodes"], strict=True):
        variables = {n: p for n, p in node.variables.items() if n in fenced[node.template]}
        if written := {n: i for n, p in variables.items() if (i := fences.index(n, p)) is not None}:
            entry["fences"] = written
    return {
        **known,
        "sources": [
            {"name": s.name, "text": s.text, "pages": None if s.pages is None else [int(page) for page in s.pages]}
            for s in document.sources
        ],
        "joint": document.joint,
        "templates": {id_: {"system": t.system, "user": t.user} for id_, t in used.items()},
        "replies": texts,
        "fences": fences.written,
        "used": sorted(trace.used()),
    }


def outline(trace: Trace) -> dict[str, Any]:
    """The part of an export that holds no text but the question and the answer: what it takes to make it again."""
    return {
        "format": "convmem-trace",
        "version": 1,
        "question": trace.question,
        "method": trace.method,
        "config": trace.config,
        "model": trace.model,
        "seed": trace.seed,
        "answer": _ANSWER.dump_python(trace.answer, mode="json", exclude={"trace"}),
        "nodes": _NODES.dump_python(list(trace), mode="json", exclude_defaults=True),
    }


def from_json(data: Mapping[str, Any]) -> Trace:
    """The trace that an export holds, or its outline. Raises ValueError where it is neither."""
    if data.get("format") != "convmem-trace" or data.get("version") != 1:
        raise ValueError("not a trace that ConvMem wrote (format convmem-trace, version 1)")
    about = {name: data[name] for name in ("question", "method", "config", "model", "seed")}
    trace = Trace(**about, nodes=_NODES.validate_python(data["nodes"]))
    trace.answer = _ANSWER.validate_python(data["answer"])
    return trace


def encode(data: Mapping[str, Any]) -> bytes:
    """An export as JSON in UTF-8; half a surrogate pair, which UTF-8 can't hold, becomes its JSON escape."""
    return json.dumps(data, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "backslashreplace")


def to_html(data: Mapping[str, Any]) -> bytes:
    """An export as one page that reads itself: no other file, no network, and nothing of the document as markup.

    The data is compressed, so that the page is smaller than what it shows; scripts and styles run by their hash alone.
    """
    page, style, script = _asset("page.html"), _asset("page.css"), "".join(map(_asset, _SCRIPTS))
    title = "".join(c if c.isprintable() else " " for c in data["question"])
    parts = {
        "title": html.escape(title),
        "policy": f"style-src {_digest(style)}; script-src {_digest(script)}",
        "style": style,
        "script": script,
        "data": base64.b64encode(gzip.compress(encode(data), 6, mtime=0)).decode("ascii"),
    }
    return re.sub(r"\{\{(\w+)\}\}", lambda m: parts[m[1]], page).encode("utf-8")


def _asset(name: str) -> str:
    return resources.files(__package__).joinpath("page", name).read_text("utf-8")


def _digest(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode('utf-8')).digest()).decode('ascii')}'"


class _Fences:
    """How each fenced variable was written, once for equal pieces. ``written`` holds the ones that are not plain."""

    def __init__(
        self, trace: Trace, document: Document, replies: Mapping[str, str], fence: Callable[[str, str], str]
    ) -> None:
        self.written: list[tuple[str, list[int]]] = []
        self._trace, self._document, self._replies, self._fence = trace, document, replies, fence
        self._known: dict[tuple[str, tuple[Piece, ...]], int | None] = {}

    def index(self, tag: str, pieces: tuple[Piece, ...]) -> int | None:
        """Where ``written`` says how ``pieces`` were fenced; None where that was plain."""
        if (tag, pieces) not in self._known:
            text = "".join(map(self._text, pieces))
            fenced = self._fence(tag, text)
            plain = fenced == f"<{tag}>\n{text}\n</{tag}>"
            self._known[tag, pieces] = None if plain else len(self.written)
            if not plain:
                name = fenced[1 : fenced.index(">")]
                body = fenced.removeprefix(f"<{name}>\n").removesuffix(f"\n</{name}>")
                self.written.append((name, list(_gaps(text, body))))
        return self._known[tag, pieces]

    def _text(self, piece: Piece) -> str:
        if isinstance(piece, str):
            return piece
        if isinstance(piece, Span):
            return self._document.text(piece)
        return self._replies.get(self._trace[piece.node].key or "", "")[piece.start : piece.end]


def _gaps(text: str, spaced: str) -> Iterator[int]:
    """How many characters of ``text`` stand before each space that ``spaced`` has beyond it, from one to the next."""
    at = last = 0
    for char in spaced:
        if at < len(text) and char == text[at]:
            at += 1
        else:
            yield at - last
            last = at
