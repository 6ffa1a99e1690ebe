from __future__ import annotations

import asyncio
import builtins
from pathlib import Path
from typing import Any

import pytest

from convmem.core import Fatal, InputError
from convmem.model import Embedded, Endpoint, connect


def test_an_address_is_an_endpoint() -> None:
    model = connect("https://host:8000/v1#org/name", context=4096)
    assert isinstance(model, Endpoint)
    assert (model.identity, model.context) == ("org/name", 4096)


def test_local_and_files_are_embedded(tmp_path: Path) -> None:
    path = tmp_path / "Some Model.GGUF"
    path.write_text("")
    assert isinstance(connect("local"), Embedded)
    model = connect(str(path), context=2048)
    assert isinstance(model, Embedded)
    assert (model.context, model.slots, model.logprobs) == (2048, 1, True)


@pytest.mark.parametrize(
    "spec",
    [
        "",
        "gpt-4",
        "ftp://host",
        "http://",
        "https:///v1",
        "http://host:port/v1",
        "./none.gguf",
        "~nobody-here/none.gguf",
        "sim:reader",
    ],
)
def test_anything_else_is_said_to_be_none(spec: str) -> None:
    with pytest.raises(InputError):
        connect(spec)


def test_a_file_that_is_no_model_is_fatal_in_one_sentence(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("xllamacpp")
    path = tmp_path / "m.gguf"
    path.write_text("not a model")
    with pytest.raises(Fatal, match=f"{path} can't be loaded"):
        asyncio.run(Embedded(path).prepare())
    assert capfd.readouterr() == ("", "")


def test_without_llama_cpp_one_is_told_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str, *rest: Any, **named: Any) -> Any:
        if name == "xllamacpp":
            raise ImportError(name)
        return imported(name, *rest, **named)

    imported = builtins.__import__
    monkeypatch.setattr(builtins, "__import__", missing)
    with pytest.raises(Fatal, match=r"pip install '\.\[local\]'"):
        asyncio.run(Embedded(tmp_path / "m.gguf").prepare())
    monkeypatch.setattr("convmem.model.download.fetch", lambda _: pytest.fail("a download that is for nothing"))
    monkeypatch.setattr("convmem.model.download.find", lambda: None)
    with pytest.raises(Fatal, match=r"pip install '\.\[local\]'"):
        asyncio.run(Embedded().prepare())
