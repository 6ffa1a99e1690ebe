"""Keeps every reply that was paid for, so that the same call is never paid for twice.

Knows calls and completions as data, and nothing of runs or models. Where its file can't be used, the cache goes on in
memory.
"""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple, Self

from pydantic import TypeAdapter, ValidationError
from pydantic_core import to_json

from convmem.core import Call, Completion, ConvMemError, InputError
from convmem.model.database import Database, files, is_broken
from convmem.model.experience import Experience
from convmem.model.places import calls_file

_COMPLETION = TypeAdapter(Completion)
_EXPERIENCE = TypeAdapter(Experience)


_KNOWN = "SELECT sums FROM experience WHERE model = ?"


class CacheInfo(NamedTuple):
    """What a cache holds: replies, and bytes on disk; ``path`` is None for a private one."""

    path: Path | None
    entries: int
    bytes: int


class Cache(Database):
    """Completions by the call that asked for them. What the file can't take is kept in memory."""

    tables = """
        CREATE TABLE IF NOT EXISTS replies (key TEXT PRIMARY KEY, completion TEXT NOT NULL) WITHOUT ROWID;
        CREATE TABLE IF NOT EXISTS experience (model TEXT PRIMARY KEY, sums TEXT NOT NULL) WITHOUT ROWID;
    """
    called, content, renewal = "cache", "Replies of this run are", "`convmem cache clear` begins a new one"

    def __init__(
        self, path: Path | None, *, warn: Callable[[str], None] = lambda _: None, patience: float = 5.0
    ) -> None:
        self._memory: dict[str, str] = {}
        super().__init__(path, warn=warn, patience=patience)

    @classmethod
    def shared(cls, warn: Callable[[str], None] = lambda _: None) -> Self:
        """The cache that all runs of this user share."""
        try:
            return cls(calls_file(), warn=warn)
        except InputError as error:
            private = cls(None, warn=warn)
            private._trouble(f"Replies of this run are not kept: {error}")
            return private

    @classmethod
    def temporary(cls) -> Self:
        """A cache for one run, gone when it is closed or the process ends."""
        return cls(None)

    @staticmethod
    def key(namespace: str, identity: str, call: Call) -> str:
        """SHA-256 of all that the reply depends on. The order of a schema's fields counts: replies follow it."""
        asked = [
            namespace,
            identity,
            [[message.role, _digest(message.content.encode("utf-8", "surrogatepass"))] for message in call.messages],
            call.schema,
            call.sampling,
            [call.seed, call.sample, call.attempt],
        ]
        return _digest(to_json(asked))

    def get(self, key: str) -> Completion | None:
        """The completion stored under ``key``."""
        stored = self._memory.get(key)
        if stored is None and self._db:
            try:
                row = self._db.execute("SELECT completion FROM replies WHERE key = ?", (key,)).fetchone()
            except sqlite3.Error as error:
                self._give_up(error)
            else:
                stored = row and row[0]
        return _decode(stored) if stored else None

    def put(self, key: str, completion: Completion) -> None:
        """Store ``completion``: committed when this returns."""
        stored = to_json(completion, inf_nan_mode="constants").decode()
        if self._db and self._writable:
            try:
                self._db.execute("INSERT OR REPLACE INTO replies VALUES (?, ?)", (key, stored))
            except sqlite3.Error as error:
                self._give_up(error)
            else:
                return
        self._memory[key] = stored

    def experience(self, identity: str) -> Experience:
        """What the answered calls of a model tell about the next ones; empty where nothing is known."""
        with suppress(sqlite3.Error, ValidationError):
            if self._db and (row := self._db.execute(_KNOWN, (identity,)).fetchone()):
                return _EXPERIENCE.validate_json(row[0])
        return Experience()

    def learn(self, identity: str, seen: Experience) -> None:
        """Add what a run has seen of a model; where the file can't take it, it is lost."""
        if seen.roles and self._db and self._writable:
            with suppress(sqlite3.Error):
                known = self.experience(identity)
                known.merge(seen)
                sums = _EXPERIENCE.dump_json(known).decode()
                self._db.execute("INSERT OR REPLACE INTO experience VALUES (?, ?)", (identity, sums))

    def info(self) -> CacheInfo:
        """How much is kept. Raises ConvMemError where the file can't be read."""
        try:
            entries = self._file().execute("SELECT count(*) FROM replies").fetchone()[0]
            size = sum(file.stat().st_size for file in files(self.path))
        except (sqlite3.Error, OSError) as error:
            raise ConvMemError(f"The cache {self.path} can't be read ({error}).") from error
        return CacheInfo(self.path, entries, size)

    def clear(self) -> None:
        """Forget everything. Raises ConvMemError where the file can't be written."""
        self._memory.clear()
        try:
            db = self._file()
            db.execute("DELETE FROM replies")
            db.execute("DELETE FROM experience")
            db.execute("VACUUM")
            db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        except sqlite3.Error as error:
            if not (self.path and is_broken(error)):
                raise ConvMemError(f"The cache {self.path} can't be cleared ({error}); is a run using it?") from error
            self.close()
            self._begin_anew(self.path)


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _decode(stored: str) -> Completion | None:
    try:
        return _COMPLETION.validate_json(stored)
    except ValidationError:
        return None
