"""The server's own file: keys, documents, runs and their events in SQLite. Knows tables, and nothing of what they mean.

Replies of models are not here: they are in the store that all runs share.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from convmem.core import ConvMemError

_TABLES = """
PRAGMA journal_mode = WAL;
PRAGMA synchronous = NORMAL;
PRAGMA secure_delete = ON;
CREATE TABLE IF NOT EXISTS keys (
    name TEXT PRIMARY KEY, hash TEXT NOT NULL, limits TEXT NOT NULL, created REAL NOT NULL
);
CREATE TABLE IF NOT EXISTS documents (
    tenant TEXT, id TEXT, name TEXT NOT NULL, characters INTEGER NOT NULL, warnings TEXT NOT NULL,
    uploaded INTEGER NOT NULL, created REAL NOT NULL, used REAL NOT NULL, PRIMARY KEY (tenant, id)
);
CREATE TABLE IF NOT EXISTS sources (
    tenant TEXT, document TEXT, number INTEGER, name TEXT NOT NULL, text TEXT NOT NULL, pages TEXT NOT NULL,
    PRIMARY KEY (tenant, document, number)
);
CREATE TABLE IF NOT EXISTS runs (
    id TEXT PRIMARY KEY, tenant TEXT NOT NULL, document TEXT NOT NULL, ordered TEXT NOT NULL, status TEXT NOT NULL,
    created REAL NOT NULL, ended REAL, answer TEXT, error TEXT, trace BLOB
);
CREATE INDEX IF NOT EXISTS runs_of_tenants ON runs (tenant, created);
CREATE TABLE IF NOT EXISTS events (
    run TEXT, number INTEGER, data TEXT NOT NULL, PRIMARY KEY (run, number)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS spending (tenant TEXT, day TEXT, tokens INTEGER NOT NULL, PRIMARY KEY (tenant, day));
"""

Row = sqlite3.Row


class Unkept(ConvMemError):
    """The file can't be read or written: the disk is full, or it is damaged."""


class Database:
    """The file at ``path``, made where there is none; usable from any thread.

    Raises ConvMemError where it can't be opened, and Unkept, from whatever needs it, where it can't be used later.
    """

    def __init__(self, path: Path) -> None:
        self._lock = threading.RLock()
        try:
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._db = sqlite3.connect(path, timeout=10, isolation_level=None, check_same_thread=False)
            self._db.executescript(_TABLES)
            path.chmod(0o600)
        except (sqlite3.Error, OSError) as error:
            raise ConvMemError(
                f"The server's data can't be kept in {path} ({error}): CONVMEM_DATA_DIR names another folder."
            ) from error
        self._db.row_factory = sqlite3.Row

    def rows(self, statement: str, values: Sequence[Any] = ()) -> list[Row]:
        """What a query gives, or a change returns; a change is committed when this returns."""
        with self._held():
            return self._db.execute(statement, values).fetchall()

    def row(self, statement: str, values: Sequence[Any] = ()) -> Row | None:
        """The first row of what a query gives."""
        return next(iter(self.rows(statement, values)), None)

    def many(self, statement: str, values: Iterable[Sequence[Any]]) -> None:
        """One change for each of ``values``."""
        with self._held():
            self._db.executemany(statement, values)

    @contextmanager
    def together(self) -> Iterator[None]:
        """All changes in the block, or none of them."""
        with self._held():
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield
                self._db.execute("COMMIT")
            except BaseException:
                if self._db.in_transaction:  # a full disk may have ended it
                    self._db.execute("ROLLBACK")
                raise

    @contextmanager
    def _held(self) -> Iterator[None]:
        with self._lock:
            try:
                yield
            except sqlite3.Error as error:
                raise Unkept(
                    f"The server can't use its data ({error}): its disk may be full, or its file damaged."
                ) from error

    def close(self) -> None:
        """Release the file."""
        self._db.close()
