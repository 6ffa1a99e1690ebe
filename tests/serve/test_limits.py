"""What a request sets that can't work is its own mistake, and is refused before it costs anything."""

from __future__ import annotations

from typing import Any

import pytest

from tests.serve.conftest import BOOK, QUESTION
from tests.support.serving import Client

LONG = [{"role": "user", "content": BOOK}, {"role": "user", "content": QUESTION}]
READ = {"window": 500, "one_call_tokens": 0}


@pytest.mark.parametrize("budget", [1, 900, 2_500])
@pytest.mark.parametrize(
    "more",
    [READ, {**READ, "kernel": "joint"}, {"preset": "paper"}, {"method": "rag-bm25"}, {"method": "memagent"}],
    ids=str,
)
def test_a_budget_that_is_too_small_is_the_clients_mistake(client: Client, budget: int, more: dict[str, Any]) -> None:
    settings = {**more, "budget": budget}
    document = client.upload(book__txt=BOOK.encode()).ok["id"]
    named = {name: settings.pop(name) for name in ("method", "preset") if name in settings}
    run = client.post("/v1/runs", {"document": document, "question": QUESTION, "settings": settings, **named}).ok["id"]
    last = client.events(f"/v1/runs/{run}/events")[-1][1]
    if last["type"] == "done":
        assert sum(last["answer"]["usage"][f"{kind}_tokens"] for kind in ("prompt", "completion")) <= budget
        return
    assert (last["error"]["type"], last["error"]["code"]) == ("invalid_request_error", "budget_exhausted")
    assert last["error"]["param"] == "budget" and f"{budget:,}" in last["error"]["message"]
    if not named:
        said = client.chat(LONG, convmem=settings)
        assert (said.status, said.error["code"]) == (400, "budget_exhausted")
        assert client.stream(LONG, convmem=settings)[-1]["error"] == said.error
