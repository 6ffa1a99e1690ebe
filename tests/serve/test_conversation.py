"""The rules by which a chat becomes a document and a question."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from convmem.serve.conversation import LONG, Reading, Text, understand
from convmem.serve.errors import Refusal
from convmem.serve.intake import File

SHORT = 100
BOOK = "\n\n".join(f"Paragraph {n} says something of a length that is usual." for n in range(200))
QUESTION = "What does paragraph 7 say?"


def user(content: Any) -> dict[str, Any]:
    return {"role": "user", "content": content}


def assistant(content: str) -> dict[str, Any]:
    return {"role": "assistant", "content": content}


def read(*messages: dict[str, Any]) -> Reading:
    found = understand(messages, SHORT)
    assert found
    return found


def document(reading: Reading) -> str:
    return "\n".join(part.text for part in reading.parts if isinstance(part, Text))


@pytest.mark.parametrize(
    "text",
    [
        f"{BOOK}\n\n{QUESTION}",
        f"{QUESTION}\n\n{BOOK}",
        f"{BOOK}\n \n  {QUESTION}\n",
        BOOK.replace("\n\n", "\n") + "\n" + QUESTION,
        f"{QUESTION}\n{BOOK.replace(chr(10), ' ')}",
        f"{BOOK}\n {QUESTION}",
    ],
)
def test_a_question_is_found_in_the_text_it_comes_with(text: str) -> None:
    reading = read(user(text))
    assert reading.question == QUESTION
    assert "paragraph 7 say?" not in document(reading) and "Paragraph 199 says" in document(reading)


def test_a_question_may_go_over_several_lines() -> None:
    assert read(user(f"{BOOK}\n\nWhat does\nparagraph 7 say?")).question == "What does\nparagraph 7 say?"
    assert read(user(f"{BOOK}\n\nQuestion: {QUESTION}\nAnswer:")).question == f"Question: {QUESTION}\nAnswer:"


def test_system_and_tool_messages_that_are_long_are_read_and_short_ones_are_not() -> None:
    reading = read(
        {"role": "system", "content": BOOK},
        {"role": "system", "content": "Be brief."},
        {"role": "tool", "content": BOOK.replace("Paragraph", "Row")},
        user(QUESTION),
    )
    assert [part.name for part in reading.parts if isinstance(part, Text)] == ["message 1 (system)", "message 3 (tool)"]
    assert (reading.question, reading.turns) == (QUESTION, ())
    assert "Be brief" not in document(reading)


def test_a_conversation_goes_on_over_the_same_document() -> None:
    first = user(f"{BOOK}\n\n{QUESTION}")
    later = read(first, assistant("It says something."), user("And the one after it?"))
    assert later.parts == read(first).parts
    assert [(turn.text, turn.answer) for turn in later.turns] == [(QUESTION, False), ("It says something.", True)]


def test_a_text_that_nobody_answered_is_whole() -> None:
    reading = read(user(BOOK), user(QUESTION))
    assert document(reading) == BOOK and reading.turns == ()


def test_an_answer_is_never_the_document() -> None:
    reading = read(user(BOOK), assistant("word " * LONG), user(QUESTION))
    assert "word word" not in document(reading)


def test_files_stand_in_the_order_of_the_chat() -> None:
    file = {"type": "file", "file": {"file_data": "aGVsbG8=", "filename": "a.txt"}}
    reading = read(user([{"type": "text", "text": BOOK}, file, {"type": "text", "text": QUESTION}]))
    assert [type(part) for part in reading.parts] == [Text, File] and reading.question == QUESTION
    assert reading.parts[1] == File("a.txt", b"hello")


def test_a_long_chat_of_short_messages_is_the_document_itself() -> None:
    turns = [message for n in range(100) for message in (user(f"What about {n}?"), assistant(f"It is {n * n}."))]
    reading = read(*turns, user(QUESTION))
    assert "User: What about 99?\n\nAssistant: It is 9801." in document(reading)
    assert (reading.question, reading.turns) == (QUESTION, ())


@pytest.mark.parametrize(
    "part",
    [
        {"type": "image_url", "image_url": {"url": "http://127.0.0.1/secret"}},
        {"type": "file", "file": {"file_url": "http://127.0.0.1/secret"}},
        {"type": "file", "file": {"path": "/etc/passwd"}},
        {"type": "file", "file": {"file_data": "file:///etc/passwd"}},
        {"type": "file", "file": {"file_data": "data:text/plain,hello"}},
        {"type": "file", "file": {"file_data": 7}},
        {"type": "file"},
        {"type": ["text"]},
        "text",
        None,
    ],
)
def test_nothing_but_what_is_sent_is_read(part: Any) -> None:
    with pytest.raises(Refusal) as refused:
        read(user([{"type": "file", "file": {"file_data": "aGVsbG8="}}, part, {"type": "text", "text": BOOK}]))
    assert refused.value.status_code == 400


TEXTS = st.sampled_from(["", "Who?", "Yes.", QUESTION, BOOK, f"{BOOK}\n\nWhy?", "x" * 6_000, "line\n" * 2_000])
PARTS = st.lists(
    st.builds(lambda text: {"type": "text", "text": text}, TEXTS)
    | st.just({"type": "file", "file": {"file_data": "aGVsbG8=", "filename": "a.txt"}})
    | st.just({"type": "file", "file": {"file_id": "doc_1"}}),
    max_size=3,
)
MESSAGES = st.lists(
    st.fixed_dictionaries(
        {"role": st.sampled_from(["user", "assistant", "system", "tool"]), "content": TEXTS | PARTS | st.none()}
    ),
    max_size=6,
)


@settings(max_examples=100, deadline=None)
@given(MESSAGES)
def test_every_chat_is_passed_on_read_or_refused(messages: list[dict[str, Any]]) -> None:
    try:
        reading = understand(messages, SHORT)
    except Refusal as refused:
        assert refused.status_code == 400
        return
    if reading is None:
        return
    assert reading.question.strip() and reading.parts
    said = str(messages)
    for part in reading.parts:
        if isinstance(part, Text) and part.name != "conversation":
            assert repr(part.text)[1:-1] in said, "what is read is what was sent"
