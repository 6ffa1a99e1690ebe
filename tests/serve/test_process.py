"""The server as a process that is killed, or whose disk is full: nothing half-written is listed or used afterwards."""

from __future__ import annotations

import os
import resource
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from convmem.serve.database import Database
from convmem.serve.services import FILE
from tests.serve.conftest import ANSWER, BOOK, QUESTION
from tests.support.server import ScriptedServer
from tests.support.serving import Client

LONG = [{"role": "user", "content": BOOK}, {"role": "user", "content": QUESTION}]
KILLED = """
import os, pathlib, signal, sys
from convmem.serve.database import Database
database = Database(pathlib.Path(sys.argv[1]))
with database.together():
    database.rows("INSERT INTO documents VALUES ('', 'd', 'd', 1, '[]', 1, 0, 0)")
    database.rows("INSERT INTO sources VALUES ('', 'd', 0, 's', ?, 'null')", ("x" * 10_000_000,))
    os.kill(os.getpid(), signal.SIGKILL)
"""
UNLIMITED = (resource.RLIM_INFINITY, resource.RLIM_INFINITY)


@contextmanager
def process(home: Path, model: str) -> Iterator[tuple[Client, int]]:
    """A server as the command starts it, with its process; killed at the end of the block."""
    command = [sys.executable, "-m", "convmem", "serve", "--port", "0", "--model", model]
    environment = {**os.environ, "CONVMEM_DATA_DIR": str(home / "data"), "TMPDIR": str(home)}
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as running:
        assert running.stdout
        try:
            yield Client(running.stdout.readline().split()[-1].decode()), running.pid
        finally:
            running.kill()


def test_a_kill_in_the_middle_of_an_upload_leaves_nothing_of_it(home: Path, upstream: ScriptedServer) -> None:
    with process(home, upstream.url) as (client, _):
        kept = client.upload(a__txt=b"A small text.").ok["id"]
        address = urlsplit(client.url)
        with socket.create_connection((address.hostname, address.port)) as half:
            head = "POST /v1/documents HTTP/1.1\r\nhost: localhost\r\ncontent-length: 9000000\r\n"
            head += "content-type: multipart/form-data; boundary=x\r\n\r\n--x\r\n"
            head += 'content-disposition: form-data; name="files"; filename="book.txt"\r\n\r\n'
            half.sendall(head.encode() + BOOK.encode() * 100)
            assert client.get("/healthz").status == 200
    with process(home, upstream.url) as (client, _):
        assert [each["id"] for each in client.get("/v1/documents").ok["data"]] == [kept]
        assert client.upload(book__txt=BOOK.encode()).status == 201


def test_a_kill_in_the_middle_of_a_change_leaves_nothing_of_it(home: Path) -> None:
    done = subprocess.run([sys.executable, "-c", KILLED, str(home / FILE)], check=False)
    assert done.returncode == -signal.SIGKILL
    database = Database(home / FILE)
    assert not database.rows("SELECT * FROM documents") and not database.rows("SELECT * FROM sources")
    database.close()


@pytest.mark.skipif(not hasattr(resource, "prlimit"), reason="sets a limit of another process")
def test_a_disk_that_fills_up_and_is_emptied_again(home: Path, upstream: ScriptedServer) -> None:
    with process(home, upstream.url) as (client, pid):
        kept = client.upload(a__txt=b"A small text.").ok["id"]
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (500_000, resource.RLIM_INFINITY))
        for refused in (
            client.upload(book__txt=BOOK.encode() * 60),
            client.chat([{"role": "user", "content": BOOK * 60}, LONG[1]]),
        ):
            assert refused.status == 503 and "disk may be full" in refused.error["message"]
        assert client.get(f"/v1/documents/{kept}/text").ok["text"] == "A small text."
        resource.prlimit(pid, resource.RLIMIT_FSIZE, UNLIMITED)
        assert client.upload(book__txt=BOOK.encode() * 60).status == 201
        assert client.chat(LONG).ok["choices"][0]["message"]["content"].startswith(ANSWER)
