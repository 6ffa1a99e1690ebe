"""Documents as OpenAI's clients know them: files, each a document of one file, under the same id."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Form, UploadFile
from pydantic import BaseModel
from starlette.requests import Request

from convmem.serve.documents import Entry
from convmem.serve.routes.documents import keep
from convmem.serve.services import Parts, Who

router = APIRouter(prefix="/v1/files", tags=["OpenAI"])


class FileBody(BaseModel):
    """A file. ``bytes`` are the characters of its text, which is what is kept of it; ``created_at`` in seconds."""

    id: str
    object: str = "file"
    bytes: int
    created_at: int
    filename: str
    purpose: str = "user_data"
    status: str = "processed"


class FileList(BaseModel):
    """Files, the newest first."""

    object: str = "list"
    data: list[FileBody]
    has_more: bool = False


class FileDeleted(BaseModel):
    """That a file is gone."""

    id: str
    object: str = "file"
    deleted: bool = True


@router.post("")
async def create_file(
    file: UploadFile, request: Request, parts: Parts, who: Who, purpose: Annotated[str, Form()] = "user_data"
) -> FileBody:
    """Upload a file, to name its id in a chat's file part. It is a document, too; its purpose is not kept."""
    entry, _ = await keep([file], request, parts, who)
    return _body(entry).model_copy(update={"purpose": purpose})


@router.get("")
async def list_files(parts: Parts, who: Who) -> FileList:
    """Your documents as files, the newest first."""
    return FileList(data=[_body(entry) for entry in parts.documents.uploaded(who.tenant.name)])


@router.get("/{file}")
async def get_file(file: str, parts: Parts, who: Who) -> FileBody:
    """One file."""
    return _body(parts.documents.entry(who.tenant.name, file))


@router.delete("/{file}")
async def delete_file(file: str, parts: Parts, who: Who) -> FileDeleted:
    """Delete a file with its runs."""
    await parts.jobs.forget_document(who.tenant, file)
    return FileDeleted(id=file)


def _body(entry: Entry) -> FileBody:
    return FileBody(id=entry.id, bytes=entry.characters, created_at=int(entry.created), filename=entry.name)
