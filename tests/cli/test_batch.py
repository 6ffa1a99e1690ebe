"""Many questions as a person asks them: rows once, whatever is killed, refused, missing or changed on the way."""

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.cli.conftest import ARCHIVE
from tests.support.reader import read
from tests.support.server import Answer, Fault, Faults, ScriptedServer

SMALL = ("--set", "window=300", "--set", "stride=300", "--set", "one_call_tokens=0")
COUNT = 12


@pytest.fixture(autouse=True)
def no_waits(monkeypatch):
    monkeypatch.setattr("convmem.run.retry._FIRST_WAIT", 0.0)


def asked(number):
    return {
        "id": f"q{number}",
        "question": f"What was the keeper of lighthouse {number} called?",
        "document": "archive.txt",
    }


def written(lines, name="q.jsonl"):
    Path(name).write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")


def rows(name="out.jsonl"):
    return [json.loads(line) for line in Path(name).read_text("utf-8").splitlines()]


def answered(made, lines):
    """Whether each question has its right answer, once and in order."""
    return [(row["id"], row["status"]) for row in made] == [(line["id"], "answered") for line in lines] and all(
        f"Keeper{row['id'][1:]}" in row["answer"] for row in made
    )


LINES = [asked(number) for number in range(1, COUNT + 1)]
BATCH = ("batch", "q.jsonl", "--out", "out.jsonl", *SMALL)


def test_every_question_is_a_row_and_is_not_asked_again(convmem, server):
    written(LINES)
    done = convmem(*BATCH)
    assert (done.code, done.out) == (0, "")
    assert "12 questions: about" in done.err and "12 answered" in done.err
    assert answered(rows(), LINES)
    assert {"citations", "coverage", "usage", "model", "config"} <= rows()[0].keys()
    calls, before = len(server.requests), rows()
    again = convmem(*BATCH)
    assert again.code == 0 and "12 of 12 questions answered already" in again.err
    assert len(server.requests) == calls and rows() == before


def test_what_is_new_or_changed_is_asked_and_no_other(convmem, server):
    written(LINES[:3])
    convmem(*BATCH)
    changed = [{**LINES[1], "question": "Who kept lighthouse 2, the keeper called?"}, LINES[0], LINES[4]]
    written(changed)
    calls = len(server.requests)
    assert convmem(*BATCH).code == 0
    assert [row["id"] for row in rows()] == ["q3", "q2", "q1", "q5"]  # q3 is not in the file any more, and is kept
    assert not any("lighthouse 1 called" in str(request) for request in server.requests[calls:])
    assert convmem(*BATCH, "--preset", "paper").code == 0
    assert {row["config"]["kernel"] for row in rows()[1:]} == {"split"}


def test_a_failure_is_a_row_and_is_asked_again(convmem, server, home):
    lines = [LINES[0], {**LINES[1], "document": "later.txt"}, {**LINES[2], "document": ["archive.txt"]}]
    written(lines)
    done = convmem(*BATCH)
    assert done.code == 1 and "later.txt" in done.err and "Traceback" not in done.err
    assert [row["status"] for row in rows()] == ["answered", "failed", "answered"]
    assert "later.txt" in rows()[1]["error"]
    calls = len(server.requests)
    (home / "later.txt").write_text(ARCHIVE)
    assert convmem(*BATCH).code == 0
    assert answered(rows(), lines)
    assert not any("lighthouse 1 called" in str(request) for request in server.requests[calls:])


def test_paths_are_beside_the_questions_and_lines_have_settings(convmem, server, home):
    folder = home / "a [b]"
    folder.mkdir()
    (folder / "own.txt").write_text(ARCHIVE)
    written([{**LINES[0], "document": "own.txt", "settings": {"preset": "paper", "seed": 7}}], folder / "q.jsonl")
    done = convmem("batch", str(folder / "q.jsonl"), "--out", "made/out.jsonl", *SMALL)
    assert done.code == 0, done.err
    [row] = rows("made/out.jsonl")
    assert (row["seed"], row["config"]["kernel"]) == (7, "split")


def test_the_cost_alone(convmem, server):
    written(LINES)
    done = convmem(*BATCH, "--plan", "--set", 'price={"prompt": 1000, "completion": 0}')
    assert done.code == 0 and "12 questions: about" in done.err and "in money" in done.err
    assert not server.requests and not Path("out.jsonl").exists()


@pytest.mark.parametrize(
    "line, options, said",
    [
        ("{", (), "line 13"),
        ({"question": "Who?"}, (), "line 13"),
        ({**LINES[0]}, (), "line 1 already"),
        ({**LINES[0], "id": "x", "settings": {"windw": 3}}, (), "window"),
        ({**LINES[0], "id": "x", "settings": {"model": "local"}}, (), "'model'"),
        ({**LINES[0], "id": "x"}, ("--workers", "2"), "--workers"),
        ({**LINES[0], "id": "x"}, ("--out", "q.jsonl"), "q.jsonl"),
        ({**LINES[0], "id": "x"}, ("--out", "."), "directory"),
    ],
)
def test_what_is_wrong_is_said_before_anything_is_asked(convmem, server, home, line, options, said):
    written(LINES)
    questions = (home / "q.jsonl").read_bytes() + (line if isinstance(line, str) else json.dumps(line)).encode()
    (home / "q.jsonl").write_bytes(questions)
    done = convmem(*BATCH, *options)
    assert done.code == 2 and said in done.err.splitlines()[-1] and "Traceback" not in done.err
    assert not server.requests
    assert (home / "q.jsonl").read_bytes() == questions


def test_a_kill_in_the_middle_costs_nothing_that_was_finished(convmem, home):
    written(LINES)
    process = []

    def reply(request):
        if len(server.requests) == 40:
            os.kill(process[0].pid, signal.SIGKILL)
            process[0].wait()
        return read(request)

    with ScriptedServer(reply, dialect="llama.cpp", slots=3) as server:
        command = [sys.executable, "-m", "convmem", *BATCH, "--model", server.url, "--parallel", "4"]
        process.append(subprocess.Popen(command, stderr=subprocess.DEVNULL))
        process[0].wait()
        finished = [json.loads(row)["question"] for row in Path("out.jsonl").read_text("utf-8").split("\n")[:-1]]
        at = len(server.requests)
        assert 0 < at < 60 and len(finished) < COUNT
        assert convmem(*BATCH, "--model", server.url).code == 0
        later = [str(request["messages"]) for request in server.requests[at:]]
        assert not any(question in call for question in finished for call in later)
        made = Counter(str(request["messages"]) for request in server.answered)
        assert sum(made.values()) - len(made) <= 3  # replies that were on their way
        assert server.peak <= 3
    assert answered(rows(), LINES)


def test_an_endpoint_that_dies_and_comes_back_and_one_that_asks_to_wait(convmem):
    written(LINES)
    refusing = Faults(3, share=0.3, at_most=2, kinds=["rate_limit", "error"])

    def reply(request):
        """Hangs up once, says for a while that it is gone, and is there again."""
        if len(weak.requests) == 10:
            return Fault("drop")
        return read(request) if not 10 < len(weak.requests) < 14 else Answer(503, {"error": {"message": "gone"}})

    with ScriptedServer(read, faults=refusing) as steady, ScriptedServer(reply) as weak:
        done = convmem(*BATCH, "--model", steady.url, "--model", weak.url)
        assert done.code == 0, done.err
        assert len(weak.answered) > 10 and steady.answered
        assert f"{steady.url}: " in done.err and f"{weak.url}: " in done.err and "set aside" in done.err
    assert answered(rows(), LINES)
    assert not any(row["coverage"]["failed_windows"] for row in rows())


def test_nothing_answers_any_more(convmem, server):
    written(LINES)
    assert convmem(*BATCH, "--model", "http://127.0.0.1:1/v1").code == 1
    assert rows() == []
    assert convmem(*BATCH).code == 0
    assert answered(rows(), LINES)


def test_parquet_in_and_out(convmem, server, home):
    arrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    parquet.write_table(arrow.Table.from_pylist(LINES[:3]), "q.parquet")
    command = ("batch", "q.parquet", "--out", "out.parquet", *SMALL)
    assert convmem(*command).code == 0
    table = parquet.read_table("out.parquet").to_pylist()
    assert answered(table, LINES[:3])
    assert ARCHIVE[table[0]["citations"][0]["start"] :].startswith(table[0]["citations"][0]["quote"])
    calls = len(server.requests)
    assert "3 of 3" in convmem(*command).err
    assert len(server.requests) == calls
