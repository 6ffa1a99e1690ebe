import json
import socket

import pytest

from tests.cli.conftest import QUESTION
from tests.support.server import Answer, ScriptedServer


def one_sentence(done, code):
    assert (done.code, done.out) == (code, ""), done
    lines = done.err.strip().splitlines()
    assert len(lines) == 1 and lines[0].endswith((".", "?")) and "Traceback" not in done.err, done.err
    return lines[0]


@pytest.mark.parametrize(
    "arguments, named",
    [
        (["ask"], "file"),
        (["plan"], "FILE"),
        (["cache"], "command"),
        (["ask", QUESTION], "file"),
        (["ask", "archive.txt"], "question"),
        (["ask", "archive.txt", "archive.txt"], "question"),
        (["ask", "archive.txt", "  "], "question"),
        (["ask", "missing.txt", QUESTION], "missing.txt"),
        (["ask", "*.pdf", QUESTION], "*.pdf"),
        (["ask", "empty.txt", QUESTION], "empty.txt"),
        (["ask", "blank.txt", QUESTION], "text"),
        (["ask", "binary.bin", QUESTION], "binary.bin"),
        (["ask", "broken.pdf", QUESTION], "broken.pdf"),
        (["ask", "hollow", QUESTION], "hollow"),
        (["ask", "archive.txt", QUESTION, "--set", "windw=5"], "window"),
        (["ask", "archive.txt", QUESTION, "--set", "window"], "window"),
        (["ask", "archive.txt", QUESTION, "--set", "window=large"], "window"),
        (["ask", "archive.txt", QUESTION, "--set", "window=100", "--set", "stride=200"], "stride"),
        (["ask", "archive.txt", QUESTION, "--set", "budget=-1"], "budget"),
        (["ask", "archive.txt", QUESTION, "--budget", "many"], "50k"),
        (["ask", "archive.txt", QUESTION, "--deadline", "soon"], "30s"),
        (["ask", "archive.txt", QUESTION, "--preset", "fat"], "lean"),
        (["ask", "archive.txt", QUESTION, "--method", "magic"], "full-context"),
        (["ask", "archive.txt", QUESTION, "--model", "ftp://x"], "ftp://x"),
        (["ask", "archive.txt", QUESTION, "--model", "missing.gguf"], "missing.gguf"),
        (["ask", "archive.txt", QUESTION, "--model", "a", "--model", "b"], "--model"),
        (["ask", "archive.txt", QUESTION, "--model", "scor=http://localhost:1/v1"], "score"),
        (["ask", "archive.txt", QUESTION, "--trace", "out.txt"], "out.txt"),
        (["ask", "archive.txt", QUESTION, "--trace", "no/where/out.html"], "out.html"),
        (["ask", "archive.txt", QUESTION, "--trace", "folder.html"], "folder.html"),
        (["ask", "archive.txt", QUESTION, "--colour"], "--colour"),
        (["plan", "missing.txt"], "missing.txt"),
        (["plan", "archive.txt", "missing.txt"], "missing.txt"),
        (["answer", "archive.txt"], "answer"),
    ],
)
def test_a_wrong_command_or_input_is_one_sentence_and_exit_code_2(convmem, server, home, arguments, named):
    (home / "empty.txt").touch()
    (home / "blank.txt").write_text(" \n\n ")
    (home / "binary.bin").write_bytes(bytes(range(256)) * 20)
    (home / "broken.pdf").write_bytes(b"%PDF-1.7 no more")
    (home / "hollow").mkdir()
    (home / "folder.html").mkdir()
    assert named in one_sentence(convmem(*arguments), 2)
    assert server.requests == []


def test_nothing_listens(convmem):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}/v1"
        said = one_sentence(convmem("ask", "archive.txt", QUESTION, "-q", "--model", url), 1)
    assert url in said and "--model" in said


def test_a_refused_key_is_never_printed(convmem, monkeypatch):
    monkeypatch.setenv("CONVMEM_API_KEY", "sk-secret")
    refused = Answer(401, {"error": {"message": "invalid key"}})
    with ScriptedServer(lambda _: refused) as server:
        done = convmem("ask", "archive.txt", QUESTION, "-q", "--model", server.url)
    assert "CONVMEM_API_KEY" in one_sentence(done, 1) and "sk-secret" not in done.err


def test_a_budget_too_small_to_read_anything(convmem, server):
    assert "budget" in one_sentence(convmem("ask", "archive.txt", QUESTION, "-q", "--budget", "10"), 1)
    assert server.requests == []


def test_debug_shows_the_traceback(convmem):
    done = convmem("ask", "missing.txt", QUESTION, "--debug")
    assert done.code == 2 and "Traceback" in done.err


def test_a_trace_that_may_not_be_written_costs_nothing(convmem, server):
    # in a place where root, too, makes no file
    assert "out.html" in one_sentence(convmem("ask", "archive.txt", QUESTION, "--trace", "/proc/out.html"), 2)
    assert server.requests == []


def test_a_file_that_vanishes_from_a_folder_is_skipped_and_named(convmem, server, home):
    (home / "folder").mkdir()
    (home / "folder" / "good.txt").write_text("The keeper of lighthouse 77 was called Ann. " * 5)
    (home / "folder" / "bad.bin").write_bytes(bytes(range(256)))
    done = convmem("ask", "folder", QUESTION, "--json")
    assert done.code == 0 and any("bad.bin" in warning for warning in json.loads(done.out)["warnings"])
