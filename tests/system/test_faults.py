"""A server that fails: where calls succeed in the end nothing of it shows, and what was lost is named where not."""

from __future__ import annotations

import re
import threading
from collections import Counter
from contextlib import closing
from typing import Any

import pytest

from convmem import ConvMemError, Document
from convmem.core import Answer, Fatal
from convmem.model import Cache
from tests.support.reader import read
from tests.support.server import KINDS, Fault, Faults, Json, Reply, Request, ScriptedServer
from tests.support.server import Answer as Http
from tests.system.conftest import PRESETS, TEXT, ask, replies

PASSING = [kind for kind in KINDS if kind != "stall"]
"""A stall takes as long as its limit, and has a test of its own."""
BROAD = "How was the keeper of every lighthouse called?"
"""Each window has notes for this one, so that there are layers of merges."""
SMALL = {"paper": {"window": 100, "stride": 50, "summary_tokens": 60}, "lean": {}}


def window_of(request: Json) -> str:
    """The text of the window that a request is about, empty where it is about none."""
    found = re.match(r"<window>\n(.*)\n</window>", request["messages"][-1]["content"], re.DOTALL)
    return found[1] if found else ""


def run(preset: str, faults: Faults | None = None, **more: Any) -> tuple[Answer, Counter[Any]]:
    with ScriptedServer(read, faults=faults, slots=8) as server, closing(Cache.temporary()) as cache:
        answer = ask(server, preset, cache=cache, **more)
        return answer, replies(answer, cache)


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("question", [BROAD, "What was the keeper of lighthouse 7 called?"])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_an_answer_and_every_call_are_those_of_a_clean_run(preset: str, question: str, seed: int) -> None:
    given = {"question": question, **SMALL[preset]}
    clean, clean_said = run(preset, **given)
    answer, said = run(preset, Faults(seed, kinds=PASSING), **given)
    assert (answer.text, answer.citations, answer.sub_questions) == (clean.text, clean.citations, clean.sub_questions)
    assert said == clean_said and {status for *_, status, _ in said} == {"ok"}
    assert answer.coverage == clean.coverage and not answer.coverage.failed_windows
    assert answer.config == clean.config and answer.warnings == clean.warnings


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("kinds", [["error", "drop", "garbage"], ["rate_limit"], ["error_body"]])
def test_windows_that_can_never_be_read_are_named_and_only_those(preset: str, kinds: Any) -> None:
    def never(request: Json) -> bool:
        return "Keeper23." in window_of(request)

    answer, _ = run(
        preset, Faults(4, kinds=kinds, always=never), question="What was the keeper of lighthouse 7 called?"
    )
    failed = {window.span for window in answer.coverage.failed_windows}
    read_ = {node.window for node in answer.trace if node.window and node.status == "ok"}
    assert failed and all("Keeper23." in TEXT[slice(*span)] for span in failed)
    assert read_ and not any("Keeper23." in TEXT[slice(*span)] for span in read_)
    assert failed | read_ == {node.window for node in answer.trace if node.window}
    assert "Keeper7" in answer.text


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize(
    "refusal",
    [
        Http(403, "<html>Forbidden by the firewall</html>"),
        Http(400, {"error": {"message": "unsupported character"}}),
        Http(422, {"detail": "no"}),
        Http(400, {"error": {"message": "no", "code": "content_filter"}}),
    ],
    ids=["403", "400", "422", "filter"],
)
def test_a_window_that_is_refused_is_lost_alone_also_when_the_run_is_resumed(preset: str, refusal: Http) -> None:
    def reply(request: Json) -> Reply:
        return refusal if "Keeper23." in window_of(request) else read(request)

    with ScriptedServer(reply) as server, closing(Cache.temporary()) as cache:
        first, second = (ask(server, preset, cache=cache) for _ in range(2))
    assert "Keeper7" in first.text and first.text == second.text
    assert first.coverage == second.coverage
    assert all("Keeper23." in TEXT[slice(*window.span)] for window in first.coverage.failed_windows)
    assert second.usage.total.calls == 0


class After:
    """Reads until ``healthy`` calls were answered, then fails as it is told, for ``ill`` calls."""

    def __init__(self, healthy: int, failure: Reply, ill: float = float("inf")) -> None:
        self.healthy, self.failure, self.ill, self.asked = healthy, failure, ill, 0

    def __call__(self, request: Json) -> Reply:
        self.asked += 1
        return self.failure if self.healthy < self.asked <= self.healthy + self.ill else read(request)


FAILURES: list[Reply] = [
    Http(500, ""),
    Fault("drop"),
    Fault("rate_limit"),
    Http(200, "<html>"),
    Http(200, {"choices": []}),
]


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("failure", FAILURES, ids=str)
def test_a_server_that_comes_back_is_waited_for(preset: str, failure: Reply) -> None:
    clean, _ = run(preset)
    with ScriptedServer(After(9, failure, ill=12)) as server:
        answer = ask(server, preset, concurrency=4)
    assert (answer.text, answer.citations, answer.coverage) == (clean.text, clean.citations, clean.coverage)


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("failure", FAILURES, ids=str)
def test_a_server_that_does_not_is_no_answer_and_costs_nothing_twice(preset: str, failure: Reply) -> None:
    with closing(Cache.temporary()) as cache:
        with ScriptedServer(After(9, failure)) as server, pytest.raises(ConvMemError, match="could not be answered"):
            ask(server, preset, cache=cache, retries=1)
        answered = {str(body) for body in server.answered[:9]}
        with ScriptedServer(read) as server:
            answer = ask(server, preset, cache=cache)
        assert not answered & {str(body) for body in server.requests}
    assert answer.coverage.read_tokens == answer.coverage.tokens and not answer.coverage.failed_windows
    assert "Keeper" in answer.text


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("healthy", [0, 9])
@pytest.mark.parametrize(
    ("failure", "said"),
    [
        (Http(401, {"error": {"message": "revoked"}}), "CONVMEM_API_KEY"),
        (Http(404, {"error": {"message": "no such model"}}), "no such model"),
        (Http(402, {"error": {"message": "pay"}}), "credit"),
        (Http(429, {"error": {"message": "pay", "code": "insufficient_quota"}}), "credit"),
    ],
    ids=["401", "404", "402", "quota"],
)
def test_what_no_further_call_can_mend_ends_the_run_at_once(
    preset: str, healthy: int, failure: Http, said: str
) -> None:
    with ScriptedServer(After(healthy, failure)) as server:
        with pytest.raises(Fatal, match=said):
            ask(server, preset, concurrency=2)
        assert len(server.requests) <= healthy + 2


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("failure", FAILURES, ids=str)
def test_where_every_call_fails_so_does_the_run(preset: str, failure: Reply) -> None:
    with ScriptedServer(lambda _: failure) as server, pytest.raises(ConvMemError) as failed:
        ask(server, preset, retries=1)
    assert "\n" not in str(failed.value) and len(str(failed.value)) < 600


@pytest.mark.parametrize("preset", PRESETS)
def test_silence_on_one_call_costs_its_limit_and_no_more(preset: str) -> None:
    stalled = threading.Event()

    def reply(request: Json) -> Reply:
        if "Keeper23." in window_of(request) and not stalled.is_set():
            stalled.set()
            return Fault("stall")
        return read(request)

    clean, _ = run(preset)
    with ScriptedServer(reply) as server:
        answer = ask(server, preset, timeout=1.0)
    assert stalled.is_set() and (answer.text, answer.coverage) == (clean.text, clean.coverage)


@pytest.mark.parametrize("preset", PRESETS)
def test_a_tokenizer_that_fails_now_and_then_changes_nothing(preset: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("convmem.model.tokenize._WAITS", (0, 0))
    failed: set[str] = set()

    def tokenize(request: Request) -> Http:
        text = request.body["content"]
        if len(text) % 3 == 0 and text not in failed:
            failed.add(text)
            return Http(503, "busy")
        return steady._tokenize(request)

    steady = ScriptedServer(read, dialect="llama.cpp")
    with steady as server:
        clean = ask(server, preset)
    with ScriptedServer(read, dialect="llama.cpp", routes={"/tokenize": tokenize}) as server:
        answer = ask(server, preset)
    assert len(failed) > 3
    assert (answer.text, answer.citations, answer.coverage) == (clean.text, clean.citations, clean.coverage)


@pytest.mark.parametrize("preset", PRESETS)
def test_a_model_that_vanishes_from_the_list_is_still_asked_by_its_name(preset: str) -> None:
    listings = iter([["scripted"]])

    def listing(_: Any) -> Http:
        return Http(200, {"data": [{"id": name} for name in next(listings, ["another"])]})

    with ScriptedServer(read, routes={"/v1/models": listing}) as server:
        answer = ask(server, preset, Document.from_text(TEXT))
        assert {body["model"] for body in server.requests} == {answer.model} == {"scripted"}
