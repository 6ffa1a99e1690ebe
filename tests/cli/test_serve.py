"""``convmem serve`` as a process: it says where it listens, keys are made beside it, and a signal ends it."""

from __future__ import annotations

import http.client
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.cli.conftest import Outcome
from tests.support.server import ScriptedServer

COMMAND = (sys.executable, "-m", "convmem", "serve")


def status(address: str, path: str, key: str = "") -> int:
    connection = http.client.HTTPConnection(urlsplit(address).netloc, timeout=60)
    connection.request("GET", path, headers={"authorization": f"Bearer {key}"} if key else {})
    return connection.getresponse().status


def test_it_serves_until_it_is_told_to_stop(server: ScriptedServer, convmem: Callable[..., Outcome]) -> None:
    with subprocess.Popen([*COMMAND, "--port", "0"], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        address = process.stdout.readline().split()[-1]
        assert status(address, "/v1/models") == 200
        key = subprocess.run(
            [*COMMAND, "keys", "add", "ann"], capture_output=True, text=True, check=True
        ).stdout.strip()
        assert (status(address, "/v1/models"), status(address, "/v1/models", key)) == (401, 200)
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0


def test_other_addresses_need_a_key(server: ScriptedServer, convmem: Callable[..., Outcome]) -> None:
    said = convmem("serve", "--host", "0.0.0.0", "--port", "0")
    assert (said.code, "keys add" in said.err) == (2, True)


def test_a_port_that_is_taken_is_said(server: ScriptedServer, convmem: Callable[..., Outcome]) -> None:
    said = convmem("serve", "--port", str(urlsplit(server.url).port))
    assert (said.code, "--port" in said.err) == (2, True)


def test_keys_are_made_listed_and_removed(convmem: Callable[..., Outcome], home: Path) -> None:
    key = convmem("serve", "keys", "add", "ann", "--tokens", "5000").out.strip()
    assert key.startswith("cm-") and len(key) > 40
    assert "5,000 tokens a day" in convmem("serve", "keys", "list").out
    for arguments in (("add", "ann"), ("add", "a/b"), ("add", ""), ("remove", "bob")):
        assert convmem("serve", "keys", *arguments).code == 2
    assert convmem("serve", "keys", "remove", "ann").code == 0
    assert "ann" not in convmem("serve", "keys", "list").out


@pytest.fixture(autouse=True)
def data(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CONVMEM_DATA_DIR", str(home / "data"))
