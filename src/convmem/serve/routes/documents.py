"""Documents: uploaded once, asked about often; their text, for whoever shows a citation in its place."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Annotated, Any

from fastapi import APIRouter, Query, UploadFile
from pydantic import BaseModel
from starlette.requests import Request

from convmem.document import Document
from convmem.serve.accounts import Account
from convmem.serve.documents import Entry
from convmem.serve.errors import Refusal
from convmem.serve.intake import File
from convmem.serve.routes.waiting import unless_gone
from convmem.serve.services import Parts, Services, Who

router = APIRouter(prefix="/v1/documents", tags=["documents"])

_LONGEST_TEXT = 1_000_000


class DocumentBody(BaseModel):
    """A document. ``created`` in seconds since the epoch."""

    id: str
    object: str = "document"
    name: str
    characters: int
    created: float
    warnings: tuple[str, ...]


class SourceBody(BaseModel):
    """One file of a document. ``pages`` holds the character at which each page starts."""

    name: str
    characters: int
    lines: int
    pages: tuple[int, ...] | None


class WholeBody(DocumentBody):
    """A document with its files."""

    sources: list[SourceBody]


class TextBody(BaseModel):
    """A slice of a file's text, in characters from its start; ``line`` and ``page`` are those of its first one."""

    source: str
    start: int
    end: int
    line: int
    page: int | None
    text: str


class DocumentList(BaseModel):
    """The uploaded documents."""

    object: str = "list"
    data: list[DocumentBody]


class Deleted(BaseModel):
    """That something is gone."""

    id: str
    deleted: bool = True


@router.post("", status_code=201)
async def upload(files: list[UploadFile], request: Request, parts: Parts, who: Who) -> WholeBody:
    """Upload a document of one or more files: text, Markdown, HTML, PDF, DOCX, EPUB, CSV, JSON, code.

    The same files again give the same document.
    """
    return _whole(*await keep(files, request, parts, who))


@router.get("")
async def list_documents(parts: Parts, who: Who) -> DocumentList:
    """Your documents, the newest first."""
    return DocumentList(data=[DocumentBody(**_fields(entry)) for entry in parts.documents.uploaded(who.tenant.name)])


@router.get("/{document}")
async def get_document(document: str, parts: Parts, who: Who) -> WholeBody:
    """One document, with its files."""
    entry = parts.documents.entry(who.tenant.name, document)
    return _whole(entry, await asyncio.to_thread(parts.documents.get, who.tenant.name, document))


@router.get("/{document}/text")
async def get_text(
    document: str,
    parts: Parts,
    who: Who,
    source: Annotated[str, Query(description="The name of a file of it. Empty: the first.")] = "",
    start: Annotated[int, Query(ge=0, le=2**32)] = 0,
    end: Annotated[int | None, Query(ge=0, le=2**32, description="At most a million characters on.")] = None,
) -> TextBody:
    """The text of a file of the document, or a slice of it: citations give its ``start`` and ``end``."""
    whole = await asyncio.to_thread(parts.documents.get, who.tenant.name, document)
    found = next((each for each in whole.sources if source in ("", each.name)), None)
    if found is None:
        raise Refusal(404, f"The document has no file '{source}'.", param="source")
    start = min(start, len(found.text))
    end = max(start, min(end if end is not None else len(found.text), start + _LONGEST_TEXT, len(found.text)))
    return TextBody(
        source=found.name, start=start, end=end, line=found.line(start), page=found.page(start),
        text=found.text[start:end],
    )  # fmt: skip


@router.delete("/{document}")
async def delete_document(document: str, parts: Parts, who: Who) -> Deleted:
    """Delete a document with its runs."""
    await parts.jobs.forget_document(who.tenant, document)
    return Deleted(id=document)


async def keep(files: Sequence[UploadFile], request: Request, parts: Services, who: Account) -> tuple[Entry, Document]:
    """Read the files and store them as one document. Raises Refusal."""
    parts.intake.check_number(len(files))
    read = [File(file.filename or "file", await file.read()) for file in files]
    document = Document(*await unless_gone(request, parts.intake.read(read, who.tenant.name)))
    return await parts.store(who.tenant, document, uploaded=True), document


def _fields(entry: Entry) -> dict[str, Any]:
    return {name: getattr(entry, name) for name in ("id", "name", "characters", "created", "warnings")}


def _whole(entry: Entry, document: Document) -> WholeBody:
    sources = [
        SourceBody(name=s.name, characters=len(s.text), lines=s.line(len(s.text)), pages=s.pages)
        for s in document.sources
    ]
    return WholeBody(**_fields(entry), sources=sources)
