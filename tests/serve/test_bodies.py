"""Bodies that are well-formed and hostile: halves of characters, deep nesting, one name or one file many times."""

from __future__ import annotations

import asyncio
import json
import threading
import tracemalloc
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from convmem.serve.body import parse
from convmem.serve.conversation import understand
from convmem.serve.database import Database
from convmem.serve.errors import Refusal
from convmem.serve.intake import File, Intake, distinct
from convmem.serve.limits import Limits
from convmem.serve.services import FILE
from tests.document.files import docx
from tests.serve.conftest import ANSWER, BOOK, QUESTION
from tests.support.server import ScriptedServer
from tests.support.serving import Client, Said, Serving

LONG = [{"role": "user", "content": BOOK}, {"role": "user", "content": QUESTION}]
HALF = "\ud800"


def send(client: Client, path: str, body: Any) -> Said:
    data = body if isinstance(body, str) else json.dumps(body)
    return client.ask("POST", path, data.encode(), {"content-type": "application/json"})


def test_half_a_character_anywhere_in_a_chat_costs_no_answer(client: Client, upstream: ScriptedServer) -> None:
    long = [{"role": HALF, "content": HALF + BOOK, HALF: [HALF]}, LONG[1]]
    said = send(client, "/v1/chat/completions", {"model": "scripted", "messages": long})
    assert said.ok["choices"][0]["message"]["content"].startswith(ANSWER)
    short = [{"role": "user", "content": f"Hello {HALF}", "name": HALF}]
    assert send(client, "/v1/chat/completions", {"model": "scripted", "messages": short, HALF: 1}).status == 200
    assert upstream.requests[-1]["messages"][0]["content"] == "Hello \ufffd"


@pytest.mark.parametrize("asked", [{HALF: 1}, {"window": {HALF: HALF}}, {"method": HALF}, {"\0": "\0"}])
def test_settings_of_any_name_and_value_are_at_most_refused(client: Client, asked: dict[str, Any]) -> None:
    document = client.upload(a__txt=BOOK.encode()).ok["id"]
    for path, body in (
        ("/v1/runs", {"document": document, "question": QUESTION, "settings": asked}),
        ("/v1/chat/completions", {"model": "scripted", "messages": LONG, "convmem": asked}),
    ):
        said = send(client, path, body)
        assert said.status == 400 and said.error["message"], said.body


@pytest.mark.parametrize("levels", [150, 400, 900])
def test_what_is_nested_too_deeply_is_refused(client: Client, levels: int) -> None:
    chat = json.dumps({"model": "scripted", "messages": [{"role": "user", "content": "Hello"}]})
    said = send(client, "/v1/chat/completions", chat[:-1] + ', "metadata": ' + "[" * levels + "]" * levels + "}")
    assert said.status == 400 and "nested too deeply" in said.error["message"], said.body


def test_what_is_nested_as_tools_are_passes() -> None:
    deep: Any = 1
    for _ in range(30):
        deep = {"items": [deep]}
    assert parse(json.dumps(deep).encode()) == deep


@settings(max_examples=60, deadline=None)
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False) | st.text(),
        lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(), inner, max_size=5),
        max_leaves=12,
    )
)
def test_a_body_is_the_value_that_it_says(value: Any) -> None:
    for ascii_ in (True, False):
        assert parse(json.dumps(value, ensure_ascii=ascii_).encode()) == value


@pytest.mark.parametrize(
    "body", [b"[" + b"1," * 60 + b"1]", b'{"a": [' + b"[],[]," * 20 + b"[]]}", b'["\\\\","' + b'a","' * 60 + b'"]']
)
def test_a_body_has_so_many_values(body: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    assert parse(body)
    monkeypatch.setattr("convmem.serve.body.MOST_VALUES", 30)
    with pytest.raises(Refusal, match="may have 30 values"):
        parse(body)
    text = {"text": body.decode() * 3}
    assert parse(json.dumps(text).encode()) == text, "what is in a text is none"


def test_a_large_body_keeps_nobody_waiting(serve: Callable[..., Serving], monkeypatch: pytest.MonkeyPatch) -> None:
    begun, answered = threading.Event(), threading.Event()

    def slowly(body: bytes) -> Any:
        begun.set()
        assert answered.wait(60)
        return parse(body)

    monkeypatch.setattr("convmem.serve.body.parse", slowly)
    client = serve().client()
    with ThreadPoolExecutor() as pool:
        large = pool.submit(client.chat, [{"role": "user", "content": BOOK * 10}, LONG[1]])
        assert begun.wait(60)
        assert client.get("/healthz").status == 200
        answered.set()
        assert large.result().status == 200


def test_a_question_of_many_parts_has_its_limit(client: Client) -> None:
    parts = [{"type": "text", "text": "word " * 700} for _ in range(8)]
    said = client.chat([LONG[0], {"role": "user", "content": parts}])
    assert said.status == 400 and "20,000 characters" in said.error["message"]


@pytest.mark.parametrize("origin", ["http://[", "//", "\xff", "http://localhost@evil.example", "file://"])
def test_no_origin_but_ours_is_let_in(client: Client, origin: str) -> None:
    assert client.get("/v1/models", origin=origin).status == 403


def test_one_name_many_times_takes_no_more_than_many_names() -> None:
    names = ["a"] * 200_000 + ["a (2)", "a (2)", "b"]
    unlike = distinct(names)
    assert len(set(unlike)) == len(names) and unlike[:3] == ["a", "a (2)", "a (3)"] and unlike[-1] == "b"


def test_a_chat_has_as_many_files_as_an_upload(client: Client) -> None:
    document = client.upload(a__txt=BOOK.encode()).ok["id"]
    for file in ({"file_id": document}, {"filename": "a", "file_data": "aGk="}):
        content = [{"type": "file", "file": file}] * 101 + [{"type": "text", "text": QUESTION}]
        said = client.chat([{"role": "user", "content": content}])
        assert said.status == 400 and "100 files" in said.error["message"]
    assert client.upload_named(*[("a", b"hi")] * 101).error["message"] == said.error["message"]


@pytest.mark.parametrize(
    "text",
    ["word. " * 1_000 + "\n" + " " * 300_000 + "x", "word" + "\n" * 3_000_000 + "end", "a\n" + " \n" * 1_000_000 + "b"],
)
def test_white_space_is_no_work(text: str) -> None:
    tracemalloc.start()
    try:
        assert understand([{"role": "user", "content": text}], 100)
        assert tracemalloc.get_traced_memory()[1] < 60 * len(text)
    finally:
        tracemalloc.stop()


def test_the_files_of_a_request_have_their_room_together() -> None:
    data = docx(["Tides and harbours. " * 300])
    limits = Limits(text_bytes=10_000)
    sources, _ = asyncio.run(Intake(limits).read([File("a.docx", data)], ""))
    assert len(sources[0].text) > 5_000
    with pytest.raises(Refusal, match="within the server's limits"):
        asyncio.run(Intake(limits).read([File("a.docx", data), File("b.docx", data)], ""))


def test_files_of_one_tenant_do_not_hold_up_anothers(monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[str] = []

    async def parsed(_: Intake, file: File, *__: Any) -> Any:
        begun.append(file.name)
        await asyncio.sleep(0)
        return {"text": "text", "pages": None, "warnings": ()}

    monkeypatch.setattr(Intake, "_in_process", parsed)

    async def both() -> None:
        intake = Intake(Limits())
        many = asyncio.create_task(intake.read([File(f"{n}.pdf", b"%PDF-") for n in range(40)], "ann"))
        await asyncio.sleep(0)
        await asyncio.gather(many, intake.read([File("bob.pdf", b"%PDF-")], "bob"))

    asyncio.run(both())
    assert begun.index("bob.pdf") < 10


def test_a_conversation_is_stored_as_far_as_it_is_used(client: Client, home: Path) -> None:
    said = [{"role": role, "content": f"{n} " + "word " * 700} for n in range(60) for role in ("user", "assistant")]
    client.chat([LONG[0], {"role": "assistant", "content": "Read."}, *said, LONG[1]]).ok  # noqa: B018
    database = Database(home / "data" / FILE)
    row = database.row("SELECT ordered FROM runs")
    database.close()
    assert row and len(row["ordered"]) < 20_000
