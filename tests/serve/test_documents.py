"""Documents over HTTP: files of any format, several at once, and their text for whoever shows a citation."""

from __future__ import annotations

import pytest

from tests.document.files import docx, pdf
from tests.serve.conftest import BOOK, QUESTION
from tests.support.serving import Client

PAGES = [f"Page {n}. The keeper of lighthouse {n} was called Keeper{n}." for n in range(1, 81)]


def test_a_document_of_several_files_keeps_their_names_and_pages(client: Client) -> None:
    said = client.upload_named(("log.pdf", pdf(PAGES)), ("notes.txt", b"Nothing here."), ("notes.txt", b"Nor here."))
    document = said.ok
    assert said.status == 201 and document["name"] == "log.pdf, notes.txt, notes.txt (2)"
    assert [source["name"] for source in document["sources"]] == ["log.pdf", "notes.txt", "notes.txt (2)"]
    assert len(document["sources"][0]["pages"]) == 80 and document["sources"][1]["pages"] is None
    assert client.get(f"/v1/documents/{document['id']}").ok == document
    listed = {name: document[name] for name in ("id", "object", "name", "characters", "created", "warnings")}
    assert client.get("/v1/documents").ok["data"] == [listed]


def test_a_citation_leads_to_its_page(client: Client) -> None:
    document = client.upload(log__pdf=pdf(PAGES)).ok
    run = client.post("/v1/runs", {"document": document["id"], "question": QUESTION}).ok["id"]
    client.events(f"/v1/runs/{run}/events")
    cited = client.get(f"/v1/runs/{run}").ok["answer"]["citations"][0]
    assert cited["source"] == "log.pdf" and f"lighthouse {cited['page']} " in cited["quote"]
    place = f"/v1/documents/{document['id']}/text?source=log.pdf&start={cited['start']}&end={cited['end']}"
    text = client.get(place).ok
    assert [text[name] for name in ("text", "page", "line")] == [cited[name] for name in ("quote", "page", "line")]


def test_a_word_file_is_read(client: Client) -> None:
    document = client.upload(log__docx=docx(["The lamp was lit.", "It went out."])).ok["id"]
    text = client.get(f"/v1/documents/{document}/text").ok["text"]
    assert "The lamp was lit." in text and "It went out." in text


def test_files_of_openais_clients_are_documents(client: Client) -> None:
    mark = "a-boundary"
    fields = [('name="purpose"', b"user_data"), ('name="file"; filename="book.txt"', BOOK.encode())]
    parts = [f"--{mark}\r\ncontent-disposition: form-data; {n}\r\n\r\n".encode() + v + b"\r\n" for n, v in fields]
    body = b"".join(parts) + f"--{mark}--\r\n".encode()
    file = client.ask("POST", "/v1/files", body, {"content-type": f"multipart/form-data; boundary={mark}"}).ok
    assert (file["object"], file["filename"], file["bytes"]) == ("file", "book.txt", len(BOOK))
    assert client.get(f"/v1/files/{file['id']}").ok == file
    assert client.get("/v1/files").ok == {"object": "list", "data": [file], "has_more": False}
    assert client.get(f"/v1/documents/{file['id']}/text").ok["text"] == BOOK
    content = [{"type": "file", "file": {"file_id": file["id"]}}, {"type": "text", "text": QUESTION}]
    assert client.chat([{"role": "user", "content": content}]).status == 200
    assert client.delete(f"/v1/files/{file['id']}").ok == {"id": file["id"], "object": "file", "deleted": True}
    assert client.get(f"/v1/files/{file['id']}").status == client.delete(f"/v1/files/{file['id']}").status == 404
    assert client.ask("POST", "/v1/files", b"", {}).status == 400


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("", BOOK),
        ("?start=9", BOOK[9:]),
        ("?start=9&end=20", BOOK[9:20]),
        ("?start=20&end=9", ""),
        (f"?start={len(BOOK) + 5}", ""),
        (f"?end={len(BOOK) + 5}", BOOK),
    ],
)
def test_any_slice_can_be_had(client: Client, query: str, expected: str) -> None:
    document = client.upload(book__txt=BOOK.encode()).ok["id"]
    said = client.get(f"/v1/documents/{document}/text{query}").ok
    assert said["text"] == expected == BOOK[said["start"] : said["end"]]


def test_what_is_no_slice_is_refused(client: Client) -> None:
    document = client.upload(book__txt=BOOK.encode()).ok["id"]
    assert client.get(f"/v1/documents/{document}/text?source=other").status == 404
    for query in ("?start=-1", "?start=x", "?end=99999999999999999999"):
        assert client.get(f"/v1/documents/{document}/text{query}").status == 400


@pytest.mark.parametrize(
    ("name", "data", "said"),
    [
        ("empty.txt", b"", "empty"),
        ("blank.txt", b" \n", "no text"),
        ("image.png", bytes(range(256)) * 40, "binary"),
        ("locked.pdf", pdf(["a"], encrypted=True), "password"),
        ("broken.pdf", b"%PDF-1.7\n" + b"\xff" * 900, "damaged"),
    ],
)
def test_a_file_without_text_is_an_error_that_names_it(client: Client, name: str, data: bytes, said: str) -> None:
    refused = client.upload_named((name, data))
    assert (refused.status, refused.error["code"]) == (400, "invalid_file")
    assert name in refused.error["message"] and said in refused.error["message"]


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ("../../etc/passwd", "passwd"),
        ("/etc/shadow.txt", "shadow.txt"),
        ("C:\\\\secrets\\\\a.txt", "a.txt"),
        ("..", "file 1"),
        ("{{7*7}}.txt", "{{7*7}}.txt"),
        ("-rf.txt", "-rf.txt"),
        ("n\u00e4me.txt", "n\u00e4me.txt"),
    ],
)
def test_a_name_is_a_label_and_no_path(client: Client, given: str, name: str) -> None:
    document = client.upload_named((given, b"hello")).ok
    assert [source["name"] for source in document["sources"]] == [name]
    assert client.get(f"/v1/documents/{document['id']}/text").ok["text"] == "hello"


def test_an_upload_without_files_is_refused(client: Client) -> None:
    assert client.upload_named().status == 400
    assert client.post("/v1/documents", {"files": ["/etc/passwd"]}).status == 400
