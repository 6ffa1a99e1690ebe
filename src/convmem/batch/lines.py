"""Questions as a file has them: a JSON object a line, or a row of a Parquet table.

Knows what a line may say, and names a wrong one by its number; knows nothing of how it is answered.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from convmem.batch import parquet
from convmem.core import InputError
from convmem.document.encoding import replace_surrogates_in
from convmem.settings import plain


class Line(BaseModel):
    """A question over a document. What else its line has is left alone."""

    model_config = ConfigDict(frozen=True, extra="ignore", coerce_numbers_to_str=True)

    id: str
    """What its row is known by; unset: the line's number, from 1."""
    question: str
    document: tuple[str, ...] = ()
    """Paths as ``convmem ask`` takes them, beside the file of questions where they are relative."""
    text: str | None = None
    """The document itself, in place of paths."""
    settings: dict[str, Any] = Field(default_factory=dict)
    """Settings of this line alone, before all others."""

    @field_validator("question")
    @classmethod
    def _says_something(cls, question: str) -> str:
        if not question.strip():
            raise ValueError("the question is empty")
        return question

    @field_validator("document", mode="before")
    @classmethod
    def _as_paths(cls, given: Any) -> Any:
        return () if given is None else (given,) if isinstance(given, str) else given

    @field_validator("settings", mode="before")
    @classmethod
    def _as_table(cls, given: Any) -> Any:
        value = plain(given) or {}
        return {name: each for name, each in value.items() if each is not None} if isinstance(value, dict) else value

    @model_validator(mode="after")
    def _has_one_document(self) -> Line:
        if bool(self.document) == (self.text is not None):
            raise ValueError("give either 'document', a path or several, or 'text'")
        return self


def read(path: Path) -> list[Line]:
    """The lines of ``path``, all checked. Raises InputError that names the first wrong one by its number."""
    lines: dict[str, int] = {}
    found = []
    for number, record in _records(path):
        where = f"{path}, line {number}"
        if not isinstance(record, dict):
            raise InputError(f"{where}: this is no JSON object; write one question a line.")
        try:
            line = Line.model_validate({**record, "id": number if record.get("id") is None else record["id"]})
        except ValidationError as error:
            raise InputError(f"{where}: {_said(error)}.") from None
        if line.id in lines:
            raise InputError(f"{where}: the id '{line.id}' is that of line {lines[line.id]} already; give it another.")
        lines[line.id] = number
        found.append(line)
    if not found:
        raise InputError(f"{path} has no questions: write one JSON object a line.")
    return found


def _records(path: Path) -> Iterator[tuple[int, Any]]:
    """Every line that is not blank, with its number. Halves of characters, which no file can hold, are replaced."""
    try:
        if parquet.is_one(path):
            yield from enumerate(parquet.read(path), 1)
            return
        with path.open(encoding="utf-8-sig") as file:
            for number, text in enumerate(file, 1):
                if text.strip():
                    yield number, replace_surrogates_in(json.loads(text))
    except json.JSONDecodeError as error:
        raise InputError(f"{path}, line {number}: this is no JSON ({error.msg}, column {error.colno}).") from None
    except RecursionError:
        raise InputError(f"{path}, line {number}: this JSON nests too deeply.") from None
    except UnicodeDecodeError:
        raise InputError(f"{path} is not text in UTF-8: save it so.") from None
    except ValueError:
        raise InputError(f"{path}, line {number}: a number in it has more digits than can be read.") from None
    except FileNotFoundError:
        raise InputError(f"There is no file {path}: check the path.") from None
    except OSError as error:
        raise InputError(f"{path} can't be read ({error.strerror}): check the path.") from None


def _said(error: ValidationError) -> str:
    """What is wrong first, in words."""
    first = error.errors()[0]
    said = first["msg"].removeprefix("Value error, ")
    if first["type"] == "missing":
        return f"there is no '{first['loc'][0]}'"
    field = ".".join(map(str, first["loc"]))
    return f"'{field}': {said[:1].lower()}{said[1:]}" if field else said
