"""The examples of README.md and docs/ run as they stand.

Every ```python block is executed, and every line of a ```console or ```bash block that starts with ``$ convmem``. Each
page has a folder of its own with the samples in it, and its blocks build on one another. A scripted model answers at
the address that the pages use, so what is shown as output is not compared, only that nothing fails. A block after
``<!-- not run: reason -->`` is left alone.
"""

from __future__ import annotations

import re
import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from convmem.cli.main import main
from tests.support.reader import read
from tests.support.server import ScriptedServer

ROOT = Path(__file__).parents[2]
ADDRESS = "http://localhost:8000/v1"
_BLOCK = re.compile(r"(<!-- not run: [^>]+-->\n+)?^```(python|console|bash)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


class Block(NamedTuple):
    """A runnable block: its language, its text, and the line of the page where it starts."""

    language: str
    text: str
    line: int


def pages() -> list[Path]:
    return sorted(page for page in [ROOT / "README.md", *(ROOT / "docs").glob("*.md")] if blocks(page))


def blocks(page: Path) -> list[Block]:
    content = page.read_text("utf-8")
    return [
        Block(found[2], found[3], content.count("\n", 0, found.start(3)) + 1)
        for found in _BLOCK.finditer(content)
        if not found[1]
    ]


@pytest.fixture
def address(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("CONVMEM_CACHE_DIR", str(tmp_path / "cache"))
    shutil.copytree(ROOT / "samples", tmp_path / "samples")
    monkeypatch.chdir(tmp_path)
    with ScriptedServer(read) as server:
        monkeypatch.setenv("CONVMEM_MODEL", server.url)
        yield server.url


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.name)
def test_the_examples_of_a_page_run(page: Path, address: str, capsys: pytest.CaptureFixture[str]) -> None:
    names: dict[str, object] = {"__name__": "__main__"}
    for block in blocks(page):
        text = block.text.replace(ADDRESS, address)
        if block.language == "python":
            exec(compile("\n" * block.line + text, str(page), "exec"), names)
            continue
        for command in re.findall(r"^\$ convmem (.*)", text.replace("\\\n", " "), re.MULTILINE):
            with pytest.raises(SystemExit) as ended:
                main(shlex.split(command, comments=True))
            assert not ended.value.code, f"{page.name}, line {block.line}: {command}\n{capsys.readouterr().err}"
