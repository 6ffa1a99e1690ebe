"""Documents as they are stored, each tenant's apart, and kept at hand while questions are asked about them.

Knows texts and tenants; how a file becomes text is ``intake``'s part.
"""

from __future__ import annotations

import json
import threading
import time
from collections import OrderedDict
from dataclasses import dataclass

from convmem.document import Document
from convmem.document.source import Source
from convmem.serve.database import Database, Row
from convmem.serve.errors import Refusal

_AT_HAND = 32_000_000
"""Characters of the documents that are kept in memory, with their token offsets, for the next question."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A stored document without its text. ``created`` in seconds since the epoch, ``characters`` in all sources."""

    id: str
    name: str
    characters: int
    created: float
    warnings: tuple[str, ...]


class Documents:
    """The documents in a server's file. A document's id follows from its text, so the same one is stored once."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._near: OrderedDict[tuple[str, str], Document] = OrderedDict()
        self._characters = 0
        self._lock = threading.Lock()

    def add(self, tenant: str, document: Document, *, uploaded: bool) -> Entry:
        """Store ``document``. One that came in a chat message (not ``uploaded``) goes when it was not used for long."""
        id_, now = f"doc_{document.hash[:32]}", time.time()
        name = ", ".join(source.name for source in document.sources[:3]) + ("…" if len(document.sources) > 3 else "")
        with self._database.together():
            self._database.rows(
                "INSERT INTO documents VALUES (?, ?, ?, ?, ?, ?, ?, ?) "
                "ON CONFLICT DO UPDATE SET used = excluded.used, uploaded = max(uploaded, excluded.uploaded)",
                (tenant, id_, name, document.size, json.dumps(document.warnings), uploaded, now, now),
            )
            self._database.many(
                "INSERT OR IGNORE INTO sources VALUES (?, ?, ?, ?, ?, ?)",
                (
                    (tenant, id_, number, source.name, source.text, json.dumps(source.pages))
                    for number, source in enumerate(document.sources)
                ),
            )
        self._keep(tenant, id_, document)
        return self.entry(tenant, id_)

    def entry(self, tenant: str, id_: str) -> Entry:
        """What is known of a document. Raises Refusal (404) where the tenant has none of that id."""
        row = self._database.row("SELECT * FROM documents WHERE tenant = ? AND id = ?", (tenant, id_))
        if row is None:
            raise Refusal(404, f"There is no document '{id_}': it was never uploaded, or was deleted.")
        return _entry(row)

    def uploaded(self, tenant: str) -> list[Entry]:
        """The tenant's uploaded documents, the newest first."""
        rows = self._database.rows(
            "SELECT * FROM documents WHERE tenant = ? AND uploaded ORDER BY created DESC, id", (tenant,)
        )
        return [_entry(row) for row in rows]

    def get(self, tenant: str, id_: str) -> Document:
        """The document. Raises Refusal (404)."""
        entry = self.entry(tenant, id_)  # first: what is at hand may have been deleted while it was read
        with self._lock:
            if near := self._near.get((tenant, id_)):
                self._near.move_to_end((tenant, id_))
                return near
        rows = self._database.rows(
            "SELECT name, text, pages FROM sources WHERE tenant = ? AND document = ? ORDER BY number", (tenant, id_)
        )
        document = Document(tuple(_source(row) for row in rows), entry.warnings)
        self._keep(tenant, id_, document)
        self._database.rows("UPDATE documents SET used = ? WHERE tenant = ? AND id = ?", (time.time(), tenant, id_))
        return document

    def remove(self, tenant: str, id_: str) -> None:
        """Forget a document with its runs. Raises Refusal (404)."""
        self.entry(tenant, id_)
        where = tenant, id_
        with self._database.together():
            runs = "SELECT id FROM runs WHERE tenant = ? AND document = ?"
            self._database.rows(f"DELETE FROM events WHERE run IN ({runs})", where)
            for table, column in (("runs", "document"), ("sources", "document"), ("documents", "id")):
                self._database.rows(f"DELETE FROM {table} WHERE tenant = ? AND {column} = ?", where)
        self._drop(where)

    def stored(self, tenant: str) -> int:
        """Characters of all documents that the tenant has here."""
        row = self._database.row("SELECT sum(characters) AS held FROM documents WHERE tenant = ?", (tenant,))
        return (row and row["held"]) or 0

    def sweep(self, before: float) -> None:
        """Forget what came in chat messages and was last used ``before`` then, in seconds since the epoch."""
        old = self._database.rows("SELECT tenant, id FROM documents WHERE NOT uploaded AND used < ?", (before,))
        for row in old:
            self.remove(row["tenant"], row["id"])

    def _keep(self, tenant: str, id_: str, document: Document) -> None:
        """Keep ``document`` in memory, in the place of those that were not asked about for longest."""
        self._drop((tenant, id_))
        with self._lock:
            self._near[tenant, id_] = document
            self._characters += document.size
            oldest = list(self._near) if self._characters > _AT_HAND else []
        for where in oldest[:-1]:
            if self._characters > _AT_HAND:
                self._drop(where)

    def _drop(self, where: tuple[str, str]) -> None:
        with self._lock:
            if dropped := self._near.pop(where, None):
                self._characters -= dropped.size


def _entry(row: Row) -> Entry:
    return Entry(row["id"], row["name"], row["characters"], row["created"], tuple(json.loads(row["warnings"])))


def _source(row: Row) -> Source:
    pages = json.loads(row["pages"])
    return Source(row["name"], row["text"], None if pages is None else tuple(pages))
