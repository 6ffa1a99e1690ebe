"""Files in: what is read, and the one sentence for each that can't be."""

import io
import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from convmem.core import InputError, Span
from convmem.document import Document
from tests.document.files import archive, docx, epub, pdf

SUFFIXES = (".txt", ".md", ".csv", ".json", ".jsonl", ".py", ".html", ".docx", ".epub", ".pdf", "")
WHOLE_FILES = [
    docx(["One.", "Two."]),
    epub(["One.", "Two."]),
    pdf(["One.", "Two."]),
    b"<p>One.</p>",
    "Zwölf.".encode("utf-16"),
]


def read(path: Path, content: bytes) -> Document:
    path.write_bytes(content)
    return Document.from_paths([path])


def only_text(document: Document) -> str:
    (source,) = document.sources
    return source.text


def broken(whole: bytes, cuts: list[tuple[float, bytes]]) -> bytes:
    for place, bytes_ in cuts:
        at = int(place * len(whole))
        whole = whole[:at] + bytes_ + whole[at + 1 + len(bytes_) :]
    return whole


any_bytes = st.binary(max_size=300) | st.builds(
    broken,
    st.sampled_from(WHOLE_FILES),
    st.lists(st.tuples(st.floats(0, 1), st.binary(max_size=40)), max_size=4),
)


@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(content=any_bytes, suffix=st.sampled_from(SUFFIXES))
def test_any_bytes_give_a_document_or_one_sentence(tmp_path: Path, content: bytes, suffix: str) -> None:
    try:
        document = read(tmp_path / f"file{suffix}", content)
    except InputError as error:
        assert f"file{suffix}" in str(error)
        assert len(str(error).splitlines()) == 1
    else:
        document.text(Span(0, document.size)).encode()  # no lone surrogates
        assert only_text(document).strip()


@pytest.mark.parametrize("suffix", [".txt", ".md", ".csv", ".json", ".jsonl", ".rs"])
def test_text_formats_stay_as_they_are(tmp_path: Path, suffix: str) -> None:
    text = 'a,"b"\r\n\r\n  {"e\u0301": 1}\t\n# no change  \n\n\n'
    assert only_text(read(tmp_path / f"x{suffix}", text.encode())) == text


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32"])
def test_unicode_encodings_are_told_apart_without_their_marks(tmp_path: Path, encoding: str) -> None:
    text = "The café had 3 “rooms” and a 🚢.\nIt was closed.\n"
    document = read(tmp_path / "x.txt", text.encode(encoding))
    assert only_text(document) == text
    assert document.warnings == ()


@pytest.mark.parametrize(
    ("content", "text"), [(b"caf\xe9 \x93rooms\x94", "café “rooms”"), (b"caf\xe9 \x81", "café \x81")]
)
def test_latin_1_is_a_guess_that_names_the_file(tmp_path: Path, content: bytes, text: str) -> None:
    document = read(tmp_path / "x.txt", content)
    assert only_text(document) == text
    (warning,) = document.warnings
    assert "x.txt" in warning and "Latin-1" in warning


def test_docx_and_epub_and_html_give_their_text(tmp_path: Path) -> None:
    assert only_text(read(tmp_path / "a.docx", docx(["Tea & salt.", "Fish."]))) == "Tea & salt.\n\nFish."
    assert only_text(read(tmp_path / "a.epub", epub(["Tea & salt.", "Fish."]))).endswith("Tea & salt.\n\nFish.")
    page = b"<title>t</title><style>p{}</style><body><h1>Tides</h1><p>High &amp; low.<script>alert(1)</script>"
    assert only_text(read(tmp_path / "a.html", page)) == "# Tides\n\nHigh & low."


def test_html_is_decoded_as_it_declares(tmp_path: Path) -> None:
    page = '<meta charset="shift_jis"><p>日本の港</p>'.encode("shift_jis")
    assert only_text(read(tmp_path / "a.html", page)) == "日本の港"


def test_deep_html_is_read(tmp_path: Path) -> None:
    assert only_text(read(tmp_path / "a.html", b"<div>" * 20_000 + b"bottom")) == "bottom"


def test_pdf_pages_are_kept(tmp_path: Path) -> None:
    document = read(tmp_path / "a.pdf", pdf(["First page.", "Second (page).", "", "Fourth."]))
    text = only_text(document)
    pages = {word: document.locate(Span(text.index(word), text.index(word) + 3)).page for word in text.split()}
    assert pages == {"First": 1, "page.": 1, "Second": 2, "(page).": 2, "Fourth.": 4}
    assert "1 of 4 pages" in document.warnings[0]


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("a.txt", b"", "is empty"),
        ("a.txt", b"\xef\xbb\xbf \n\t", "no text"),
        ("a.txt", b"text\0with\0nulls and \0 more", "binary"),
        ("a.md", bytes(range(1, 9)) * 20, "binary"),
        ("a.pdf", pdf(["secret"], encrypted=True), "encrypted"),
        ("a.pdf", pdf(["", ""]), "OCR"),
        ("a.pdf", pdf(["cut"])[:90], "damaged"),
        ("a.docx", b"PK\x03\x04 and no archive", "damaged"),
        ("a.docx", archive({"word/document.xml": "<w:document"}), "damaged"),
        ("a.epub", archive({"META-INF/container.xml": "<container/>"}), "damaged"),
        ("a.xlsx", archive({"xl/workbook.xml": "<workbook/>"}), "binary"),
        ("a.html", b"<script>only()</script>", "no text"),
    ],
)
def test_a_named_file_without_text_is_refused_in_one_sentence(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], name: str, content: bytes, reason: str
) -> None:
    with pytest.raises(InputError, match=reason) as error:
        read(tmp_path / name, content)
    assert name in str(error.value)
    assert capfd.readouterr() == ("", "")


def test_files_that_are_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "loop").symlink_to("loop")
    with (tmp_path / "huge.txt").open("wb") as huge:
        huge.truncate((1 << 30) + 1)
    for name, reason in {
        "absent.txt": "no file",
        "pipe": "regular file",
        "loop": "can't be read",
        "huge.txt": "1 GiB",
        "a\0b": "null character",
        "none-*.txt": "No file matches",
    }.items():
        with pytest.raises(InputError, match=reason):
            Document.from_paths([tmp_path / name])
    (tmp_path / "locked.txt").write_text("secret")

    def refuse(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(InputError, match="permissions"):
        Document.from_paths([tmp_path / "locked.txt"])


def test_a_zip_bomb_is_not_unpacked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("convmem.document.formats._LARGEST_UNPACKED", 1_000)
    with pytest.raises(InputError, match="when unpacked"):
        read(tmp_path / "a.docx", docx(["x" * 2_000]))


def test_a_directory_is_read_in_order_and_what_fails_is_named(tmp_path: Path) -> None:
    root = tmp_path / "docs"
    for name, content in {
        "b.txt": b"b",
        "a/z.md": b"z",
        "a/k.txt": b"k",
        ".hidden": b"no",
        ".git/x": b"no",
        "c.png": b"\x89PNG\0\0",
        "e.txt": b"",
    }.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(content)
    (root / "gone.txt").symlink_to("vanished")
    document = Document.from_paths([root])
    assert [source.name for source in document.sources] == ["docs/a/k.txt", "docs/a/z.md", "docs/b.txt"]
    assert len(document.warnings) == 3
    for warning, name in zip(document.warnings, ["docs/c.png", "docs/e.txt", "docs/gone.txt"], strict=True):
        assert name in warning


def test_nothing_readable_in_a_directory_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no files"):
        Document.from_paths([tmp_path])
    (tmp_path / "c.png").write_bytes(b"\x89PNG\0\0")
    with pytest.raises(InputError, match=r"c\.png"):
        Document.from_paths([tmp_path])
    with pytest.raises(InputError, match="at least one"):
        Document.from_paths([])


def test_globs_and_repeats_read_each_file_once(tmp_path: Path) -> None:
    for name in ("one.txt", "two.txt", "two[1].txt"):
        (tmp_path / name).write_text(name)
    document = Document.from_paths([tmp_path / "two[1].txt", tmp_path / "*.txt", tmp_path / "one.txt", tmp_path])
    assert [Path(source.name).name for source in document.sources] == ["two[1].txt", "one.txt", "two.txt"]


def test_no_two_sources_have_one_name(tmp_path: Path) -> None:
    for parent in ("x", "y"):
        (tmp_path / parent / "docs").mkdir(parents=True)
        (tmp_path / parent / "docs" / "a.txt").write_text(parent)
    document = Document.from_paths([tmp_path / "x" / "docs", tmp_path / "y" / "docs"])
    assert [source.name for source in document.sources] == ["docs/a.txt", "docs/a.txt (2)"]


@pytest.mark.parametrize("content", [b"from a pipe", pdf(["from a pipe"]), docx(["from a pipe"]), b"<html>from a pipe"])
def test_standard_input_is_told_by_its_first_bytes(content: bytes) -> None:
    document = Document.from_paths(["-"], stdin=io.BytesIO(content))
    assert only_text(document).strip() == "from a pipe"
    assert document.sources[0].name == "standard input"
