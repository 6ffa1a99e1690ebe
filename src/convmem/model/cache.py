"""Keeps every reply that was paid for, so that the same call is never paid for twice.

An SQLite file that processes share. Knows calls and completions as data, and nothing of runs or models. Where the file
can't be used (disk full, locked, corrupt, no permission), the cache goes on in memory and says so once.
"""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple, Self

from pydantic import TypeAdapter, ValidationError
from pydantic_core import to_json

from convmem.core import Call, Completion, ConvMemError, InputError
from convmem.model.places import calls_file

_SETTINGS = """
PRAGMA journal_mode = WAL;
PRAGMA synchronous = NORMAL;
CREATE TABLE IF NOT EXISTS replies (key TEXT PRIMARY KEY, completion TEXT NOT NULL) WITHOUT ROWID;
"""
# A commit is then with the operating system: safe from a kill of the process, and thousands a second.

_BROKEN = {"SQLITE_CORRUPT", "SQLITE_NOTADB"}

_COMPLETION = TypeAdapter(Completion)


class CacheInfo(NamedTuple):
    """What a cache holds: replies, and bytes on disk; ``path`` is None for a private one."""

    path: Path | None
    entries: int
    bytes: int


class Cache:
    """Completions by the call that asked for them.

    ``path`` None: a private file that vanishes with the process. ``warn`` hears, at most once, why the file is not
    used, and ``troubles`` keeps it. ``patience``: the seconds to wait for a process that is writing.
    """

    def __init__(
        self, path: Path | None, *, warn: Callable[[str], None] = lambda _: None, patience: float = 5.0
    ) -> None:
        self.path = path
        self.troubles: list[str] = []
        self._warn, self._patience = warn, patience
        self._memory: dict[str, str] = {}
        self._writable = True
        self._db: sqlite3.Connection | None = None
        try:
            if path:
                path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._db = self._open()
        except (sqlite3.Error, OSError) as error:
            if path and _is_broken(error):
                self._begin_anew(path)
            else:
                self._give_up(error)

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

    def info(self) -> CacheInfo:
        """How much is kept. Raises ConvMemError where the file can't be read."""
        try:
            entries = self._file().execute("SELECT count(*) FROM replies").fetchone()[0]
            size = sum(file.stat().st_size for file in _files(self.path))
        except (sqlite3.Error, OSError) as error:
            raise ConvMemError(f"The cache {self.path} can't be read ({error}).") from error
        return CacheInfo(self.path, entries, size)

    def clear(self) -> None:
        """Forget everything. Raises ConvMemError where the file can't be written."""
        self._memory.clear()
        try:
            db = self._file()
            db.execute("DELETE FROM replies")
            db.execute("VACUUM")
            db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        except sqlite3.Error as error:
            if not (self.path and _is_broken(error)):
                raise ConvMemError(f"The cache {self.path} can't be cleared ({error}); is a run using it?") from error
            self.close()
            self._begin_anew(self.path)

    def close(self) -> None:
        """Release the file."""
        if self._db:
            self._db.close()
            self._db = None

    def _open(self) -> sqlite3.Connection:
        db = sqlite3.connect(self.path or "", timeout=self._patience, isolation_level=None, check_same_thread=False)
        try:
            db.executescript(_SETTINGS)
        except sqlite3.Error:
            db.close()
            raise
        return db

    def _file(self) -> sqlite3.Connection:
        if not self._db:
            raise ConvMemError(f"The cache {self.path} can't be used; CONVMEM_CACHE_DIR moves it.")
        return self._db

    def _begin_anew(self, path: Path) -> None:
        """Rename a corrupt file, with its journals, and open a new one."""
        number = 1
        while (aside := path.with_name(f"{path.name}.corrupt-{number}")).exists():
            number += 1
        try:
            for file in _files(path):
                file.rename(aside.with_name(aside.name + file.name.removeprefix(path.name)))
            self._db = self._open()
        except (sqlite3.Error, OSError) as error:
            self._give_up(error)
        else:
            self._trouble(f"The cache {path} was corrupt: it is now called {aside.name}, and a new one begins.")

    def _give_up(self, error: Exception) -> None:
        """Write no more to the file; read it no more either, if it is corrupt."""
        remedy = "CONVMEM_CACHE_DIR moves it"
        if _is_broken(error):
            self.close()
            remedy = "`convmem cache clear` begins a new one"
        if self._writable:
            self._writable = False
            self._trouble(f"Replies of this run are not kept: the cache {self.path} fails ({error}); {remedy}.")

    def _trouble(self, text: str) -> None:
        self.troubles.append(text)
        self._warn(text)


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _files(path: Path | None) -> list[Path]:
    names = [path.with_name(path.name + suffix) for suffix in ("", "-wal", "-shm")] if path else []
    return [file for file in names if file.exists()]


def _is_broken(error: Exception) -> bool:
    return getattr(error, "sqlite_errorname", "") in _BROKEN


def _decode(stored: str) -> Completion | None:
    try:
        return _COMPLETION.validate_json(stored)
    except ValidationError:
        return None
