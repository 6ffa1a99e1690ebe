"""The parts of a running server, made together and closed together. What routes work with."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from fastapi import Depends
from starlette.requests import Request

from convmem.document import Document
from convmem.model import Cache
from convmem.serve.accounts import Account, Accounts
from convmem.serve.database import Database
from convmem.serve.documents import Documents, Entry
from convmem.serve.errors import Refusal
from convmem.serve.intake import Intake
from convmem.serve.jobs import Jobs
from convmem.serve.keys import LOCAL, Keys, Tenant
from convmem.serve.limits import Limits
from convmem.serve.metrics import Metrics
from convmem.serve.runs import Runs
from convmem.serve.upstream import Upstreams
from convmem.settings import Settings

FILE = "server.sqlite"
"""The server's own file, in the data directory."""


@dataclass(frozen=True)
class Services:
    """Everything that requests need. Made by ``open_services``."""

    database: Database
    keys: Keys
    accounts: Accounts
    documents: Documents
    intake: Intake
    upstreams: Upstreams
    jobs: Jobs
    cache: Cache
    metrics: Metrics
    limits: Limits

    def begin(self) -> None:
        """Go on with the runs that an earlier server left, and forget what was not used for long. Needs a loop."""
        self.documents.sweep(time.time() - self.limits.keep_seconds)
        self.jobs.resume_all({tenant.name: tenant for tenant in (LOCAL, *self.keys.tenants())})

    async def store(self, tenant: Tenant, document: Document, *, uploaded: bool) -> Entry:
        """Keep a document. Raises Refusal (413) where the tenant has no room for it."""
        if self.documents.stored(tenant.name) + document.size > self.limits.stored_characters:
            most = self.limits.stored_characters // 1_000_000
            raise Refusal(413, f"Documents may have {most:,} million characters together: delete some first.")
        return await asyncio.to_thread(self.documents.add, tenant.name, document, uploaded=uploaded)

    async def close(self) -> None:
        """Store what runs, and release everything."""
        await self.jobs.drain(0)
        self.accounts.store()
        await self.upstreams.close()
        self.cache.close()
        self.database.close()


def open_services(data: Path, models: Sequence[str], settings: Settings, limits: Limits) -> Services:
    """The parts of a server that keeps its file in ``data``, over ``models`` as ``--model`` takes them.

    Raises ConvMemError where ``data`` can't be used.
    """
    database = Database(data / FILE)
    keys, accounts, metrics = Keys(database), Accounts(database), Metrics()
    documents, runs = Documents(database), Runs(database)
    upstreams = Upstreams(models, settings, metrics)
    cache = Cache.shared()
    jobs = Jobs(runs, documents, upstreams, accounts, cache, metrics, limits)
    return Services(database, keys, accounts, documents, Intake(limits), upstreams, jobs, cache, metrics, limits)


async def _services(request: Request) -> Services:  # async, since a plain function would get a thread
    services: Services = request.app.state.services
    return services


async def _account(request: Request) -> Account:
    account: Account = request.state.account
    return account


Parts = Annotated[Services, Depends(_services)]
"""The server's parts, as a parameter of a route."""
Who = Annotated[Account, Depends(_account)]
"""Whose request it is, as a parameter of a route."""
