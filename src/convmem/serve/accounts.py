"""What each tenant uses, held against what its key allows: requests a minute, runs at once, tokens a day.

Knows quotas and time; knows nothing of what is asked.
"""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime

from convmem.core import Usage
from convmem.serve.database import Database, Unkept
from convmem.serve.errors import QuotaExhausted, Refusal
from convmem.serve.keys import Quota, Tenant

_MINUTE = 60.0
_TOGETHER_SECONDS = 0.05
"""For so long what calls use is collected, to be stored at once."""


class Account:
    """One tenant's use of the server."""

    def __init__(self, tenant: Tenant, database: Database) -> None:
        self.tenant = tenant
        self.running = 0
        """Questions being answered."""
        self.open = 0
        """Requests that are being sent or answered."""
        self.held = 0
        """Bytes of their bodies."""
        self._database = database
        self._requests = float(self.quota.requests or 0)
        self._refilled = time.monotonic()
        self._day, self._spent = "", 0
        self._unstored = 0
        self._storing: asyncio.TimerHandle | None = None

    @property
    def quota(self) -> Quota:
        return self.tenant.quota

    def request(self) -> None:
        """Count a request. Raises Refusal (429) where there were too many in the last minute."""
        if self.quota.requests is None:
            return
        now, rate = time.monotonic(), self.quota.requests / _MINUTE
        self._requests = min(self.quota.requests, self._requests + (now - self._refilled) * rate)
        self._refilled = now
        if self._requests < 1:
            said = f"This key may make {self.quota.requests} requests a minute: wait a little."
            raise Refusal(429, said, code="rate_limit_exceeded", retry_after=(1 - self._requests) / rate)
        self._requests -= 1

    def admit(self) -> None:
        """Raise Refusal (429) where no further question may be asked now."""
        if self.quota.runs is not None and self.running >= self.quota.runs:
            said = f"This key may have {self.quota.runs} questions answered at once: wait until one is."
            raise Refusal(429, said, code="rate_limit_exceeded", retry_after=1)
        if self.left == 0:
            raise Refusal(429, self._over, kind="insufficient_quota", code="insufficient_quota")

    @property
    def left(self) -> int | None:
        """Tokens that may still be used today; None where there is no limit."""
        return None if self.quota.tokens is None else max(0, self.quota.tokens - self._today())

    def check(self) -> None:
        """Raise QuotaExhausted where no token is left."""
        if self.left == 0:
            raise QuotaExhausted(self._over)

    def spend(self, usage: Usage) -> None:
        """Count what a model used; it is stored soon."""
        tokens = usage.prompt_tokens + usage.completion_tokens
        self._today()
        self._spent += tokens
        self._unstored += tokens
        if self._storing is None:
            self._storing = asyncio.get_running_loop().call_later(_TOGETHER_SECONDS, self.store)

    def store(self) -> None:
        """Store what was counted; where that can't be, it waits for the next time."""
        if self._storing:
            self._storing.cancel()
            self._storing = None
        if not self._unstored:
            return
        try:
            self._database.rows(
                "INSERT INTO spending VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET tokens = tokens + excluded.tokens",
                (self.tenant.name, self._day, self._unstored),
            )
        except Unkept:
            return
        self._unstored = 0

    @property
    def _over(self) -> str:
        return f"This key's {self.quota.tokens:,} tokens of today are used up: wait until tomorrow (UTC)."

    def _today(self) -> int:
        """Tokens used today; read once a day from what is stored, since this process alone adds to it."""
        if self._day != (day := _today()):
            self.store()
            self._day = day
            where = self.tenant.name, day
            row = self._database.row("SELECT tokens FROM spending WHERE tenant = ? AND day = ?", where)
            self._spent = row["tokens"] if row else 0
        return self._spent


class Accounts:
    """Every tenant's account, opened when it is first asked for."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._open: dict[str, Account] = {}

    def of(self, tenant: Tenant) -> Account:
        """The account of ``tenant``; its quota is the one that its key has now."""
        account = self._open.setdefault(tenant.name, Account(tenant, self._database))
        account.tenant = tenant
        return account

    def store(self) -> None:
        """Store what was counted of every tenant."""
        for account in self._open.values():
            account.store()


def _today() -> str:
    return datetime.now(UTC).date().isoformat()
