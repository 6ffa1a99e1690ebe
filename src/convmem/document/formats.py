"""File formats: from a file's bytes to its text, with page starts where the format has pages.

Knows formats by their names and signatures; knows nothing of paths. Text formats (plain, Markdown, CSV, JSON, source
code) stay as they are; PDF is read by pypdfium2; HTML, DOCX and EPUB become Markdown by markitdown.
"""

from __future__ import annotations

import io
import re
import threading
import warnings as python_warnings
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import PurePath

from convmem.core import InputError
from convmem.document.encoding import NotText, decode, replace_surrogates

_LARGEST_UNPACKED = 1 << 30
"""Bytes that the parts of a zipped format may have together."""

_DECLARED_CHARSET = re.compile(rb"""(?i)<(?:meta|\?xml)\b[^>]{0,200}?(?:charset|encoding)\s*=\s*["']?([\w.:-]+)""")
_HEAD = 2_048

_PDFIUM = threading.Lock()
"""PDFium is not thread-safe."""

_HYPHEN = re.compile("[\x02\ufffe]\\s?")
"""What PDFium puts for the hyphen of a word that is broken over two lines."""


@dataclass(frozen=True, slots=True)
class Extracted:
    """A file's text; ``pages`` as in ``Source``."""

    text: str
    pages: tuple[int, ...] | None = None
    warnings: tuple[str, ...] = ()


def extract(name: str, data: bytes) -> Extracted:
    """The text of a file's ``data``, its format told by ``name``'s ending, else by its first bytes.

    Raises InputError, one sentence that names the file, for everything that gives no text.
    """
    if not data:
        raise InputError(f"{name} is empty: give a file with text.")
    extracted = _format(name, data)(name, data)
    if not extracted.text.strip():
        raise InputError(f"{name} has no text in it: give a file with text.")
    return extracted


def is_plain(name: str, data: bytes) -> bool:
    """Whether ``extract`` only decodes ``data``, which no hostile bytes can turn into work."""
    return _format(name, data) is _plain


def _format(name: str, data: bytes) -> Callable[[str, bytes], Extracted]:
    return _BY_SUFFIX.get(PurePath(name).suffix.lower()) or _sniff(data)


def _plain(name: str, data: bytes) -> Extracted:
    try:
        text, encoding = decode(data)
    except NotText:
        raise InputError(
            f"{name} is binary, not text: convert it to text, Markdown, HTML, PDF, DOCX or EPUB."
        ) from None
    guessed = encoding in ("cp1252", "latin-1")
    return Extracted(text, warnings=(f"{name} is not valid UTF-8 and was read as Latin-1.",) if guessed else ())


def _html(name: str, data: bytes) -> Extracted:
    plain = _declared(data) or _plain(name, data)

    def convert() -> str:
        from markitdown.converters import HtmlConverter  # here: the import takes more than a second

        return str(HtmlConverter().convert_string(plain.text).markdown)

    return Extracted(_converted(name, "an HTML page", convert), warnings=plain.warnings)


def _declared(data: bytes) -> Extracted | None:
    """The text by the encoding that the page itself declares; None where it declares none that decodes it."""
    declared = _DECLARED_CHARSET.search(data, 0, _HEAD)
    if declared is None or b"\0" in data[:_HEAD]:
        return None
    try:
        return Extracted(data.decode(declared[1].decode("ascii")))
    except (LookupError, ValueError):
        return None


def _docx(name: str, data: bytes) -> Extracted:
    def convert() -> str:
        from markitdown import StreamInfo
        from markitdown.converters import DocxConverter

        _check_size(name, data)
        return str(DocxConverter().convert(io.BytesIO(data), StreamInfo()).markdown)  # type: ignore[no-untyped-call]

    return Extracted(_converted(name, "a DOCX file", convert))


def _epub(name: str, data: bytes) -> Extracted:
    def convert() -> str:
        from markitdown import StreamInfo
        from markitdown.converters import EpubConverter

        _check_size(name, data)
        return str(EpubConverter().convert(io.BytesIO(data), StreamInfo()).markdown)  # type: ignore[no-untyped-call]

    return Extracted(_converted(name, "an EPUB file", convert))


def _converted(name: str, kind: str, convert: Callable[[], str]) -> str:
    """What ``convert`` gives; InputError for whatever the parsers under it raise."""
    try:
        with python_warnings.catch_warnings():
            python_warnings.simplefilter("ignore")
            return replace_surrogates(convert())
    except InputError:
        raise
    except Exception as error:  # parsers raise whatever broken input leads them to
        raise InputError(f"{name} can't be read as {kind}: it is damaged, or of another format.") from error


def _check_size(name: str, data: bytes) -> None:
    """Raises InputError for a zip bomb, before anything is unpacked."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        if sum(part.file_size for part in archive.infolist()) > _LARGEST_UNPACKED:
            raise InputError(f"{name} is larger than 1 GiB when unpacked: split it into smaller files.")


def _pdf(name: str, data: bytes) -> Extracted:
    import pypdfium2

    with _PDFIUM:
        try:
            texts = _pdf_pages(data)
        except pypdfium2.PdfiumError as error:
            if "password" in str(error).lower():
                raise InputError(f"{name} is encrypted: save a copy of it without a password.") from None
            raise InputError(f"{name} can't be read as a PDF: it is damaged, or of another format.") from error
    blank = sum(not text.strip() for text in texts)
    if blank == len(texts):
        raise InputError(f"{name} has no text layer, as scans have none: run it through OCR first.")
    starts, position = [], 0
    for text in texts:
        starts.append(position)
        position += len(text) + 1
    notes = (f"{name} has {blank} of {len(texts)} pages without text; scanned pages need OCR.",) if blank else ()
    return Extracted("\n".join(texts), tuple(starts), notes)


def _pdf_pages(data: bytes) -> list[str]:
    """The text of each page."""
    import pypdfium2

    texts = []
    document = pypdfium2.PdfDocument(data)
    try:
        for page in document:
            layer = page.get_textpage()
            texts.append(_HYPHEN.sub("", replace_surrogates(layer.get_text_bounded())).replace("\r\n", "\n"))
            layer.close()
            page.close()
    finally:
        document.close()
    return texts


def _sniff(data: bytes) -> Callable[[str, bytes], Extracted]:
    """The format by the first bytes, for names that don't tell, as standard input's."""
    if data.startswith(b"%PDF-"):
        return _pdf
    if data.startswith(b"PK\x03\x04"):
        return _epub if b"application/epub+zip" in data[:_HEAD] else _docx if b"word/document.xml" in data else _plain
    if re.match(rb"\s*(?:<!doctype html|<html)\b", data[:_HEAD], re.IGNORECASE):
        return _html
    return _plain


_BY_SUFFIX: dict[str, Callable[[str, bytes], Extracted]] = {
    ".pdf": _pdf,
    ".html": _html,
    ".htm": _html,
    ".xhtml": _html,
    ".docx": _docx,
    ".epub": _epub,
}
