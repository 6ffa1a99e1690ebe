"""Keys: who may use the server, and how much. A key is shown once, when it is made; only its hash is kept.

A key is 256 random bits, so one round of SHA-256 hides it as well as any slow hash would.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
import time
from dataclasses import dataclass

from pydantic import BaseModel, ConfigDict, Field

from convmem.core import InputError
from convmem.serve.database import Database

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


class Quota(BaseModel):
    """What one key may use; None is no limit."""

    model_config = ConfigDict(frozen=True)

    runs: int | None = Field(default=8, gt=0)
    """Questions answered at once."""
    requests: int | None = Field(default=600, gt=0)
    """Requests a minute."""
    tokens: int | None = Field(default=None, gt=0)
    """Prompt and completion tokens of models a day (UTC)."""


@dataclass(frozen=True, slots=True)
class Tenant:
    """Whose request it is: documents, runs and stored replies are apart for each name."""

    name: str
    quota: Quota

    @property
    def namespace(self) -> str:
        """Whose stored replies its runs use: the user's own where the server has no keys."""
        return f"tenant:{self.name}" if self.name else ""


LOCAL = Tenant("", Quota(runs=None, requests=None))
"""Whoever asks a server without keys, which listens to this machine alone."""


class Keys:
    """The keys in a server's file."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def add(self, name: str, quota: Quota) -> str:
        """Make a key for ``name`` and return it. Raises InputError for a name that is taken or no name."""
        if not _NAME.fullmatch(name):
            raise InputError(f"'{name}' is no name for a key: use letters, digits, dots and dashes, 64 at most.")
        if self._database.row("SELECT 1 FROM keys WHERE name = ?", (name,)):
            raise InputError(f"There is a key for '{name}': remove it first, or choose another name.")
        key = f"cm-{secrets.token_urlsafe(32)}"
        stored = (name, _hash(key), quota.model_dump_json(), time.time())
        self._database.rows("INSERT INTO keys VALUES (?, ?, ?, ?)", stored)
        return key

    def remove(self, name: str) -> None:
        """Refuse the key of ``name`` from now on. Raises InputError where there is none."""
        if not self._database.rows("DELETE FROM keys WHERE name = ? RETURNING name", (name,)):
            raise InputError(f"There is no key for '{name}': `convmem serve keys list` names those there are.")

    def tenants(self) -> list[Tenant]:
        """Who has a key, by name."""
        rows = self._database.rows("SELECT name, limits FROM keys ORDER BY name")
        return [Tenant(row["name"], Quota.model_validate_json(row["limits"])) for row in rows]

    def exist(self) -> bool:
        """Whether anyone has a key, so that everyone needs one."""
        return self._database.row("SELECT 1 FROM keys") is not None

    def identify(self, key: str) -> Tenant | None:
        """Whose ``key`` it is. Takes the same time for every wrong key."""
        given, found = _hash(key), None
        for row in self._database.rows("SELECT name, hash, limits FROM keys"):
            if hmac.compare_digest(row["hash"], given):
                found = row
        return Tenant(found["name"], Quota.model_validate_json(found["limits"])) if found else None


def _hash(key: str) -> str:
    return hashlib.sha256(key.encode("utf-8", "replace")).hexdigest()
