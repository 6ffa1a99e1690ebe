"""What is known of texts whatever the question: what a model took down of each window, and the vectors of passages.

An SQLite file beside the cache, which outlives it: `convmem cache clear` forgets replies, not what was indexed. A
window is known by its text alone, so that one that several documents or two versions of one share is read once. Knows
keys, notes as plain text, and which windows a document has; knows no document and no question.
"""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, NamedTuple, Self, TypeVar

import numpy as np
from numpy.typing import NDArray
from pydantic_core import to_json

from convmem.core import ConvMemError
from convmem.model.cache import Cache
from convmem.model.database import Database
from convmem.model.places import calls_file

_NAME = "index.sqlite"
_AT_ONCE = 500
"""Keys of one query."""

T = TypeVar("T")
Vector = NDArray[np.float32]


class Indexed(NamedTuple):
    """A document that was indexed: ``kind`` is what of its windows is kept, ``model`` whose words that is.

    ``tokens`` and ``windows`` are the document's; ``read`` of its windows are there. ``made`` is when, in UTC.
    """

    name: str
    kind: str
    model: str
    tokens: int
    windows: int
    read: int
    made: str


class Index(Database):
    """Readings of windows and vectors of texts by their keys, and the documents that they belong to.

    Where the file fails, what a run needs is kept in memory.
    """

    tables = """
        CREATE TABLE IF NOT EXISTS readings (key TEXT PRIMARY KEY, notes TEXT NOT NULL) WITHOUT ROWID;
        CREATE TABLE IF NOT EXISTS vectors (key TEXT PRIMARY KEY, vector BLOB NOT NULL) WITHOUT ROWID;
        CREATE TABLE IF NOT EXISTS documents (
            id TEXT PRIMARY KEY, namespace TEXT NOT NULL, name TEXT NOT NULL, kind TEXT NOT NULL, model TEXT NOT NULL,
            tokens INTEGER NOT NULL, made TEXT NOT NULL DEFAULT CURRENT_TIMESTAMP
        ) WITHOUT ROWID;
        CREATE TABLE IF NOT EXISTS windows (
            document TEXT NOT NULL, number INTEGER NOT NULL, key TEXT NOT NULL, PRIMARY KEY (document, number)
        ) WITHOUT ROWID;
        CREATE INDEX IF NOT EXISTS windows_by_key ON windows (key);
    """
    called, content, renewal = "index", "What this run indexes is", "the next run begins a new one"

    @classmethod
    def shared(cls, warn: Callable[[str], None] = lambda _: None) -> Self:
        """The index that all runs of this user share. Raises InputError where there is no place for it."""
        return cls(calls_file().with_name(_NAME), warn=warn)

    @classmethod
    def beside(cls, cache: Cache, **settings: Any) -> Self:
        """The index that goes with ``cache``, private where that is."""
        return cls(cache.path and cache.path.with_name(_NAME), **settings)

    @staticmethod
    def key(*what: Any) -> str:
        """SHA-256 of plain values."""
        return hashlib.sha256(to_json(what)).hexdigest()

    def readings(self, keys: Iterable[str]) -> dict[str, str]:
        """The notes that are stored under ``keys``."""
        return dict(self._stored("SELECT key, notes FROM readings WHERE key IN", keys))

    def put(self, key: str, notes: str) -> None:
        """Store the notes of a window: committed when this returns."""
        self._write(("INSERT OR REPLACE INTO readings VALUES (?, ?)", [(key, notes)]))

    def vectors(self, keys: Iterable[str]) -> dict[str, Vector]:
        """The vectors that are stored under ``keys``."""
        found = self._stored("SELECT key, vector FROM vectors WHERE key IN", keys)
        return {key: np.frombuffer(vector, np.float32) for key, vector in found}

    def put_vectors(self, vectors: Mapping[str, Vector]) -> None:
        """Store vectors by key: committed when this returns."""
        rows = [(key, vector.astype(np.float32).tobytes()) for key, vector in vectors.items()]
        self._write(("INSERT OR REPLACE INTO vectors VALUES (?, ?)", rows))

    def own(self, namespace: str, document: Indexed, keys: Sequence[str]) -> None:
        """Note that a document has the windows of these ``keys``, in place of those that it had."""
        identity = Index.key(namespace, document.name, document.kind, document.model)
        described = (identity, namespace, document.name, document.kind, document.model, document.tokens)
        self._write(
            ("DELETE FROM windows WHERE document = ?", [(identity,)]),
            ("DELETE FROM documents WHERE id = ?", [(identity,)]),
            ("INSERT INTO documents (id, namespace, name, kind, model, tokens) VALUES (?, ?, ?, ?, ?, ?)", [described]),
            ("INSERT INTO windows VALUES (?, ?, ?)", [(identity, number, key) for number, key in enumerate(keys)]),
            _TIDY,
        )

    def documents(self, namespace: str = "") -> list[Indexed]:
        """The documents of a namespace, by name. Raises ConvMemError where the file can't be read."""
        try:
            rows = self._file().execute(
                "SELECT name, kind, model, tokens, count(windows.key), count(readings.key), made FROM documents"
                " LEFT JOIN windows ON document = id LEFT JOIN readings USING (key)"
                " WHERE namespace = ? GROUP BY id ORDER BY name, kind, model",
                (namespace,),
            )
            return [Indexed(*row) for row in rows]
        except sqlite3.Error as error:
            raise ConvMemError(f"The index {self.path} can't be read ({error}).") from error

    def remove(self, name: str, namespace: str = "") -> int:
        """Forget the documents of that name, and what no other document has; how many there were."""
        found = [(d.name, d.kind, d.model) for d in self.documents(namespace) if d.name == name]
        identities = [(Index.key(namespace, *each),) for each in found]
        self._write(
            ("DELETE FROM documents WHERE id = ?", identities),
            ("DELETE FROM windows WHERE document = ?", identities),
            _TIDY,
        )
        return len(found)

    def _stored(self, query: str, keys: Iterable[str]) -> Iterator[tuple[str, Any]]:
        for some in batches(dict.fromkeys(keys), _AT_ONCE):
            if self._db:
                try:
                    yield from self._db.execute(f"{query} ({','.join('?' * len(some))})", some).fetchall()
                except sqlite3.Error as error:
                    self._give_up(error)

    def _write(self, *statements: tuple[str, Sequence[Sequence[Any]]]) -> None:
        """Run the statements in one transaction; where the file can't be written, in memory."""
        if not self._db:
            return
        try:
            self._db.execute("BEGIN IMMEDIATE")
            for sql, rows in statements:
                self._db.executemany(sql, rows)
            self._db.execute("COMMIT")
        except sqlite3.Error as error:
            self._give_up(error)
            self._write(*statements)

    def _give_up(self, error: Exception) -> None:
        """Go on with what is in memory alone."""
        super()._give_up(error)
        self.close()
        self._db = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
        self._db.executescript(self.tables)


_TIDY = ("DELETE FROM readings WHERE key NOT IN (SELECT key FROM windows)", [()])
"""Forgets what no document has."""


def batches(items: Iterable[T], size: int) -> Iterator[list[T]]:
    """The items in lists of at most ``size``."""
    left = iter(items)
    while batch := list(islice(left, size)):
        yield batch
