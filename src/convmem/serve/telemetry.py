"""OpenTelemetry spans with the conventions for generative AI, where its packages are there (extra ``otel``).

No text of a document, a question or a reply is in a span.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from convmem.core import Call, Completion, InputError, extra

try:
    from opentelemetry import trace
    from opentelemetry.trace import SpanKind
except ImportError:
    trace = None  # type: ignore[assignment]


def export_spans() -> None:
    """Send spans to where ``OTEL_EXPORTER_OTLP_ENDPOINT`` says; nothing where it is not set.

    Raises InputError where it is, and the packages are not there.
    """
    if not (os.environ.get("OTEL_EXPORTER_OTLP_ENDPOINT") or os.environ.get("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")):
        return
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError:
        raise InputError(f"Sending spans needs more packages: {extra('otel')}.") from None
    provider = TracerProvider(resource=Resource.create({"service.name": "convmem"}))
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    trace.set_tracer_provider(provider)


@contextmanager
def run_span(run: str, method: str, model: str) -> Iterator[None]:
    """One question's work goes on in the block."""
    attributes = {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.agent.name": method,
        "gen_ai.request.model": model,
        "convmem.run": run,
    }
    with _span(f"invoke_agent {method}", attributes, "INTERNAL"):
        yield


@contextmanager
def model_call(call: Call, model: str) -> Iterator[Callable[[Completion], None]]:
    """One call to ``model`` goes on in the block, which hands over the reply that came."""
    attributes = {
        "gen_ai.operation.name": "chat",
        "gen_ai.request.model": model,
        "gen_ai.request.max_tokens": call.sampling.max_tokens,
        "gen_ai.request.temperature": call.sampling.temperature,
        "gen_ai.request.top_p": call.sampling.top_p,
        "gen_ai.request.seed": call.seed,
        "convmem.role": call.role,
    }
    with _span(f"chat {model}", attributes, "CLIENT") as span:

        def answered(completion: Completion) -> None:
            if span is None:
                return
            span.set_attribute("gen_ai.response.finish_reasons", [completion.finish])
            if usage := completion.usage:
                span.set_attribute("gen_ai.usage.input_tokens", usage.prompt_tokens)
                span.set_attribute("gen_ai.usage.output_tokens", usage.completion_tokens)

        yield answered


@contextmanager
def _span(name: str, attributes: dict[str, Any], kind: str) -> Iterator[Any]:
    if trace is None:
        yield None
        return
    tracer = trace.get_tracer("convmem")
    # What an error says may quote a document: its kind alone is recorded.
    with tracer.start_as_current_span(
        name, kind=SpanKind[kind], attributes=attributes, record_exception=False, set_status_on_exception=False
    ) as span:
        try:
            yield span
        except BaseException as error:
            span.set_attribute("error.type", type(error).__name__)
            span.set_status(trace.StatusCode.ERROR)
            raise
