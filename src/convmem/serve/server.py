"""The server as a process: where it listens, and how it stops. Knows sockets and signals.

Told to stop (SIGTERM, Ctrl-C) it takes no further question, lets those that run end for some seconds, stores what has
not ended, and goes on with that when it is started again.
"""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Sequence
from pathlib import Path

import uvicorn

from convmem.core import InputError
from convmem.serve.app import create_app
from convmem.serve.limits import Limits
from convmem.serve.services import Services, open_services
from convmem.settings import Settings

_BACKLOG = 2048
_IDLE_SECONDS = 75
"""For so long a connection is kept for the next request: longer than clients keep theirs, which would meet its end."""
_LAST_SECONDS = 5
"""For what is still being sent when every run has ended."""


class Server:
    """Serves ``models``, as ``--model`` takes them, with its file in ``data``. Made, it listens; ``run``, it answers.

    Raises InputError where it may not, or can't, listen there, and ConvMemError where ``data`` can't be used.
    """

    def __init__(
        self,
        host: str,
        port: int,
        *,
        data: Path,
        models: Sequence[str],
        settings: Settings,
        limits: Limits | None = None,
    ) -> None:
        limits, local = limits or Limits(), is_loopback(host)
        services = open_services(data, models, settings, limits)
        if not local and not services.keys.exist():
            raise InputError(
                f"Whoever reaches {host} could ask at your cost: make a key first (`convmem serve keys add NAME`), or "
                "leave --host at 127.0.0.1."
            )
        self._listener = _listen(host, port)
        self.address = f"http://{f'[{host}]' if ':' in host else host}:{self._listener.getsockname()[1]}"
        config = uvicorn.Config(
            create_app(services, local=local),
            log_level="warning",
            access_log=False,
            server_header=False,
            timeout_graceful_shutdown=_LAST_SECONDS,
            timeout_keep_alive=_IDLE_SECONDS,
            backlog=_BACKLOG,
        )
        self._uvicorn = _Uvicorn(config, services, limits.grace_seconds)

    def run(self) -> None:
        """Answer until told to stop, by ``stop`` or a signal."""
        self._uvicorn.run(sockets=[self._listener])

    def stop(self) -> None:
        """Let runs end for some seconds, store what has not ended, and return from ``run``. For other threads."""
        self._uvicorn.should_exit = True


def is_loopback(host: str) -> bool:
    """Whether ``host`` is reached from this machine alone."""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


class _Uvicorn(uvicorn.Server):
    """Lets runs end before it closes connections: clients wait for their answers on them."""

    def __init__(self, config: uvicorn.Config, services: Services, grace_seconds: float) -> None:
        super().__init__(config)
        self._services, self._grace = services, grace_seconds

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        await self._services.jobs.drain(0 if self.force_exit else self._grace)
        await super().shutdown(sockets)


def _listen(host: str, port: int) -> socket.socket:
    """A socket that listens. Raises InputError."""
    listener = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(_BACKLOG)
    except OSError as error:
        listener.close()
        raise InputError(
            f"The server can't listen on {host}, port {port}: {error.strerror}; --port sets another."
        ) from None
    return listener
