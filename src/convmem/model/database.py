"""An SQLite file that processes share and that outlives them: opened, set aside where it is corrupt, given up on.

Knows no table's meaning. Where the file can't be used (disk full, locked, corrupt, no permission), a run goes on
without it, and that is said once.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import ClassVar

from convmem.core import ConvMemError

_SETTINGS = """
PRAGMA journal_mode = WAL;
PRAGMA synchronous = NORMAL;
"""
# A commit is then with the operating system: safe from a kill of the process, and thousands a second.

_BROKEN = {"SQLITE_CORRUPT", "SQLITE_NOTADB"}


class Database:
    """What cache and index have in common.

    ``path`` None: a private file that vanishes with the process. ``warn`` hears, at most once, why the file is not
    used, and ``troubles`` keeps it. ``patience``: the seconds to wait for a process that is writing.
    """

    tables: ClassVar[str]
    """The SQL that makes the tables where they are not there."""
    called: ClassVar[str]
    """What the file is."""
    content: ClassVar[str]
    """What of a run is lost where the file fails, with its verb."""
    renewal: ClassVar[str]
    """What begins a new file in place of a corrupt one."""

    def __init__(
        self, path: Path | None, *, warn: Callable[[str], None] = lambda _: None, patience: float = 5.0
    ) -> None:
        self.path = path
        self.troubles: list[str] = []
        self._warn, self._patience = warn, patience
        self._writable = True
        self._db: sqlite3.Connection | None = None
        try:
            if path:
                path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._db = self._open()
        except (sqlite3.Error, OSError) as error:
            if path and is_broken(error):
                self._begin_anew(path)
            else:
                self._give_up(error)

    def close(self) -> None:
        """Release the file."""
        if self._db:
            self._db.close()
            self._db = None

    def _open(self) -> sqlite3.Connection:
        db = sqlite3.connect(self.path or "", timeout=self._patience, isolation_level=None, check_same_thread=False)
        try:
            db.executescript(_SETTINGS + self.tables)
        except sqlite3.Error:
            db.close()
            raise
        return db

    def _file(self) -> sqlite3.Connection:
        if not self._db:
            raise ConvMemError(f"The {self.called} {self.path} can't be used; CONVMEM_CACHE_DIR moves it.")
        return self._db

    def _begin_anew(self, path: Path) -> None:
        """Rename a corrupt file, with its journals, and open a new one."""
        number = 1
        while (aside := path.with_name(f"{path.name}.corrupt-{number}")).exists():
            number += 1
        try:
            for file in files(path):
                file.rename(aside.with_name(aside.name + file.name.removeprefix(path.name)))
            self._db = self._open()
        except (sqlite3.Error, OSError) as error:
            self._give_up(error)
        else:
            self._trouble(f"The {self.called} {path} was corrupt: it is now called {aside.name}, and a new one begins.")

    def _give_up(self, error: Exception) -> None:
        """Write no more to the file; read it no more either, if it is corrupt."""
        remedy = "CONVMEM_CACHE_DIR moves it"
        if is_broken(error):
            self.close()
            remedy = self.renewal
        if self._writable:
            self._writable = False
            self._trouble(f"{self.content} not kept: the {self.called} {self.path} fails ({error}); {remedy}.")

    def _trouble(self, text: str) -> None:
        self.troubles.append(text)
        self._warn(text)


def files(path: Path | None) -> list[Path]:
    """The file and its journals, as far as they are there."""
    names = [path.with_name(path.name + suffix) for suffix in ("", "-wal", "-shm")] if path else []
    return [file for file in names if file.exists()]


def is_broken(error: Exception) -> bool:
    """Whether the file is corrupt or no database."""
    return getattr(error, "sqlite_errorname", "") in _BROKEN
