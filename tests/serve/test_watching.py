"""What an operator sees: whether the server lives, metrics, spans, its description."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from tests.serve.conftest import ANSWER, BOOK, QUESTION
from tests.support.server import ScriptedServer
from tests.support.serving import Client, Serving

LONG = [{"role": "user", "content": BOOK}, {"role": "user", "content": QUESTION}]


def metric(client: Client, name: str) -> float:
    """The value of a metric, 0 where nothing was counted."""
    found = re.search(rf"^{re.escape(name)} (\S+)$", client.get("/metrics").body.decode(), re.MULTILINE)
    return float(found[1]) if found else 0.0


def test_metrics_count_questions_calls_and_tokens(client: Client, upstream: ScriptedServer) -> None:
    used = client.chat(LONG).ok["usage"]
    client.chat("Hello").ok  # noqa: B018
    client.chat([{"role": "user", "content": "x" * 90_000}])
    assert metric(client, 'convmem_runs_total{status="done"}') == 1
    assert metric(client, "convmem_runs_running") == 0
    assert metric(client, 'convmem_model_calls_total{outcome="answered",role="chat"}') == 1
    calls = re.findall(
        r'^convmem_model_calls_total{outcome="answered".*} (\S+)$', client.get("/metrics").body.decode(), re.MULTILINE
    )
    assert sum(map(float, calls)) == len(upstream.answered)
    assert metric(client, 'convmem_model_tokens_total{kind="prompt"}') >= used["prompt_tokens"]
    assert metric(client, 'convmem_http_requests_total{method="POST",status="200"}') == 2
    assert metric(client, 'convmem_http_requests_total{method="POST",status="400"}') == 1


def test_metrics_name_nobody_and_nothing(serve: Callable[..., Serving], add_key: Callable[..., str]) -> None:
    key = add_key("annabel")
    client = serve().client(key)
    client.chat(LONG).ok  # noqa: B018
    text = client.get("/metrics").body.decode()
    assert not any(word in text for word in ("annabel", key, "lighthouse", "Keeper"))


def test_the_server_lives_and_is_ready(client: Client) -> None:
    assert client.get("/healthz").ok == {"status": "ok"}
    assert client.get("/readyz").ok == {"status": "ready"}


def test_every_path_is_described_with_its_errors(client: Client) -> None:
    said = client.get("/openapi.json").ok
    assert said["openapi"].startswith("3.")
    for path, methods in said["paths"].items():
        for method, operation in methods.items():
            assert operation["description"] and "4XX" in operation["responses"], (method, path)
    assert {"/v1/chat/completions", "/v1/models", "/v1/runs", "/v1/runs/{run}/events", "/v1/documents"} <= set(
        said["paths"]
    )


def test_runs_and_calls_are_spans_that_hold_no_text(serve: Callable[..., Serving]) -> None:
    sdk = pytest.importorskip("opentelemetry.sdk.trace")
    from opentelemetry import trace
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    spans = InMemorySpanExporter()
    provider = sdk.TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(spans))
    trace.set_tracer_provider(provider)
    serving = serve()
    client = serving.client()
    used = client.chat(LONG, convmem={"window": 500, "one_call_tokens": 0}).ok["usage"]
    serving.stop()
    ended = spans.get_finished_spans()
    (run,) = [span for span in ended if span.name.startswith("invoke_agent")]
    calls = [span for span in ended if span.name == "chat scripted"]
    assert all(span.parent and span.parent.span_id == run.context.span_id for span in calls) and len(calls) > 5
    assert sum(span.attributes["gen_ai.usage.input_tokens"] for span in calls) == used["prompt_tokens"]
    assert {span.attributes["gen_ai.operation.name"] for span in calls} == {"chat"}
    assert not any(word in span.to_json() for span in ended for word in ("Keeper", "lighthouse", ANSWER, QUESTION))
