"""What an operator watches, in Prometheus' form. Knows counts and times; nothing of whose they are."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from convmem.core import Usage

_SECONDS = (0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 900)


class Metrics:
    """The metrics of one server."""

    def __init__(self) -> None:
        self._registry = registry = CollectorRegistry()
        self._requests = Counter("convmem_http_requests", "HTTP requests", ("method", "status"), registry=registry)
        self._latency = Histogram(
            "convmem_http_response_start_seconds",
            "From a request to the head of its answer",
            buckets=_SECONDS,
            registry=registry,
        )
        self._runs = Counter("convmem_runs", "Questions that ended", ("status",), registry=registry)
        self._running = Gauge("convmem_runs_running", "Questions being answered", registry=registry)
        self._run_seconds = Histogram(
            "convmem_run_seconds", "From a question to its answer", buckets=_SECONDS, registry=registry
        )
        self._calls = Counter("convmem_model_calls", "Calls to models", ("role", "outcome"), registry=registry)
        self._call_seconds = Histogram(
            "convmem_model_call_seconds", "Time of a call", buckets=_SECONDS, registry=registry
        )
        self._tokens = Counter("convmem_model_tokens", "Tokens of models", ("kind",), registry=registry)

    def answered(self, method: str, status: int, seconds: float) -> None:
        """The head of an answer was sent."""
        self._requests.labels(method if method in _METHODS else "other", str(status)).inc()
        self._latency.observe(seconds)

    def started(self) -> None:
        """A question begins."""
        self._running.inc()

    def ended(self, status: str, seconds: float) -> None:
        """A question has ended."""
        self._running.dec()
        self._runs.labels(status).inc()
        self._run_seconds.observe(seconds)

    @contextmanager
    def call(self, role: str) -> Iterator[None]:
        """A call to a model goes on in the block."""
        started, outcome = time.perf_counter(), "failed"
        try:
            yield
            outcome = "answered"
        finally:
            self._calls.labels(role, outcome).inc()
            self._call_seconds.observe(time.perf_counter() - started)

    def used(self, usage: Usage) -> None:
        """Tokens of a call."""
        self._tokens.labels("prompt").inc(usage.prompt_tokens)
        self._tokens.labels("cached").inc(usage.cached_tokens)
        self._tokens.labels("completion").inc(usage.completion_tokens)

    def text(self) -> bytes:
        """All of them, as Prometheus reads them."""
        return generate_latest(self._registry)


_METHODS = {"GET", "POST", "DELETE", "PUT", "PATCH", "HEAD", "OPTIONS"}
