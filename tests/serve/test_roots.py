"""Roots as clients write them: each is the folder of that name, on this machine, and no other."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("mcp")

from mcp_types import ListRootsResult, Root

from convmem.core import InputError
from convmem.serve.roots import folders_of, located, named


def listed(*addresses: str) -> ListRootsResult:
    return ListRootsResult(roots=[Root(uri=each) for each in addresses])  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["plain", "a b#c?d", "é", "50%2Foff", "%2e%2e", "a%252Fb"])
def test_a_folder_of_any_name_is_itself(tmp_path: Path, name: str) -> None:
    folder = tmp_path / name
    folder.mkdir()
    assert folders_of(named([folder])) == folders_of(listed(folder.as_uri())) == [folder.resolve()]


@pytest.mark.parametrize("address", ["file://elsewhere.example/etc", "file:///etc/%00"])
def test_a_folder_that_is_not_on_this_machine_is_none(address: str) -> None:
    with pytest.raises(InputError, match="No folder may be read"):
        folders_of(listed(address))


@pytest.mark.parametrize("file", ["../beside/s", "%2e%2e/beside/s", "link/s", "s", "../in-x/s", "a\0", "x" * 5_000])
def test_nothing_outside_is_there(tmp_path: Path, file: str) -> None:
    for folder in ("in", "beside", "in-x"):
        (tmp_path / folder).mkdir()
    for outside in ("beside/s", "in-x/s"):
        (tmp_path / outside).write_text("secret")
    (tmp_path / "in/link").symlink_to(tmp_path / "beside")
    (tmp_path / "in/s").symlink_to("link/s")
    with pytest.raises(InputError, match="There is no file"):
        located(file, [tmp_path / "in"])
