"""Runs as they are stored: what was asked, what came of it, and every event by its number. Each tenant's apart."""

from __future__ import annotations

import gzip
import json
import secrets
import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from convmem.serve.database import Database, Row
from convmem.serve.errors import Refusal
from convmem.serve.followup import Turn
from convmem.trace import Trace, from_json, outline

Status = Literal["running", "done", "failed", "cancelled", "interrupted"]
"""``interrupted``: the server stopped before the run did."""

LONGEST_QUESTION = 20_000
"""Characters."""
_MOST_LISTED = 200


class Order(BaseModel):
    """What is to be done: a question on a stored document."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    document: str = Field(description="The id of a document.")
    question: str = Field(min_length=1, max_length=LONGEST_QUESTION)
    model: str = Field(
        default="", description="A name that /v1/models lists, also with a preset: `name:paper`. Empty: the first."
    )
    method: str = Field(default="", description="A name that `convmem methods` lists. Empty: the server's own setting.")
    preset: str = Field(default="", description="`lean` or `paper`, where the method has presets.")
    settings: dict[str, Any] = Field(
        default={}, description="Settings of the method, and `budget`, `deadline`, `seed`."
    )


class Request(Order):
    """An order as it is carried out. ``turns`` are what was said before; ``lasting`` runs outlive their client."""

    turns: tuple[Turn, ...] = ()
    lasting: bool = True


@dataclass(frozen=True, slots=True)
class Record:
    """A stored run. Times in seconds since the epoch; ``error`` is OpenAI's error object."""

    id: str
    tenant: str
    order: Request
    status: Status
    created: float
    ended: float | None
    answer: dict[str, Any] | None
    error: dict[str, Any] | None


class Runs:
    """The runs in a server's file."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def create(self, tenant: str, order: Request) -> Record:
        """Store that a run begins."""
        id_ = f"run_{secrets.token_hex(12)}"
        self._database.rows(
            "INSERT INTO runs (id, tenant, document, ordered, status, created) VALUES (?, ?, ?, ?, 'running', ?)",
            (id_, tenant, order.document, order.model_dump_json(), time.time()),
        )
        return self.get(tenant, id_)

    def get(self, tenant: str, id_: str) -> Record:
        """The run. Raises Refusal (404) where the tenant has none of that id."""
        row = self._database.row("SELECT * FROM runs WHERE id = ? AND tenant = ?", (id_, tenant))
        if row is None:
            raise Refusal(404, f"There is no run '{id_}'.")
        return _record(row)

    def latest(self, tenant: str) -> list[Record]:
        """The tenant's latest runs, the newest first."""
        query = "SELECT * FROM runs WHERE tenant = ? ORDER BY created DESC LIMIT ?"
        return [_record(row) for row in self._database.rows(query, (tenant, _MOST_LISTED))]

    def unfinished(self) -> list[Record]:
        """Runs of all tenants that a server began and did not end, the oldest first."""
        query = "SELECT * FROM runs WHERE status IN ('running', 'interrupted') ORDER BY created"
        return [_record(row) for row in self._database.rows(query)]

    def status(self, id_: str, status: Status) -> None:
        """Store where a run that has no result stands."""
        self._database.rows(
            "UPDATE runs SET status = ?, ended = NULL, answer = NULL, error = NULL WHERE id = ?", (status, id_)
        )

    def end(
        self, id_: str, status: Status, events: Iterable[tuple[str, int, str]], *,
        answer: dict[str, Any] | None, error: dict[str, Any] | None, trace: bytes | None,
    ) -> None:  # fmt: skip
        """Store what a run led to, together with the ``events`` that say so; ``trace`` is `packed`."""
        with self._database.together():
            self.add_events(events)
            self._database.rows(
                "UPDATE runs SET status = ?, ended = ?, answer = ?, error = ?, trace = ? WHERE id = ?",
                (status, time.time(), answer and json.dumps(answer), error and json.dumps(error), trace, id_),
            )

    def remove(self, tenant: str, id_: str) -> None:
        """Forget a run with its events. Raises Refusal (404)."""
        self.get(tenant, id_)
        with self._database.together():
            self._database.rows("DELETE FROM events WHERE run = ?", (id_,))
            self._database.rows("DELETE FROM runs WHERE id = ?", (id_,))

    def trace(self, id_: str) -> Trace | None:
        """The calls of a run that has ended; None where it made none."""
        row = self._database.row("SELECT trace FROM runs WHERE id = ?", (id_,))
        return from_json(json.loads(gzip.decompress(row["trace"]))) if row and row["trace"] else None

    def add_events(self, events: Iterable[tuple[str, int, str]]) -> None:
        """Store events: run, number, JSON."""
        self._database.many("INSERT OR REPLACE INTO events VALUES (?, ?, ?)", events)

    def events(self, id_: str, after: int) -> list[tuple[int, str]]:
        """The events of a run with higher numbers than ``after``: number, JSON."""
        rows = self._database.rows(
            "SELECT number, data FROM events WHERE run = ? AND number > ? ORDER BY number LIMIT 1000", (id_, after)
        )
        return [(row["number"], row["data"]) for row in rows]

    def last_event(self, id_: str) -> int:
        """The number of a run's last event, 0 where it has none."""
        row = self._database.row("SELECT max(number) AS last FROM events WHERE run = ?", (id_,))
        return (row and row["last"]) or 0


def packed(trace: Trace | None) -> bytes | None:
    """A trace as it is stored."""
    return gzip.compress(json.dumps(outline(trace)).encode(), 1) if trace else None


def _record(row: Row) -> Record:
    return Record(
        id=row["id"],
        tenant=row["tenant"],
        order=Request.model_validate_json(row["ordered"]),
        status=row["status"],
        created=row["created"],
        ended=row["ended"],
        answer=json.loads(row["answer"]) if row["answer"] else None,
        error=json.loads(row["error"]) if row["error"] else None,
    )
