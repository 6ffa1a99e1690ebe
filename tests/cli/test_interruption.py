"""What was paid for survives: an interruption, a kill at any moment, a reader that goes away."""

import json
import multiprocessing
import os
import pty
import random
import re
import signal
import subprocess
import sys
import threading
from multiprocessing.connection import wait
from pathlib import Path

import pytest

from convmem.cli.main import main
from tests.cli.conftest import QUESTION
from tests.support.reader import read
from tests.support.server import ScriptedServer

KILLS = 10

processes = multiprocessing.get_context("forkserver")
processes.set_forkserver_preload([__name__])


class Meddler:
    """A reply function that, before it answers the request that was chosen, sends a signal to the process that asks."""

    def __init__(self):
        self.asked = 0
        self._armed = threading.Event()

    def run(self, server, at=None, signal=None, *more):
        """The command to its end, which comes at its request number ``at`` if that is given: code, output, errors."""
        self._armed.clear()
        process = processes.Process(target=command, args=(Path.cwd(), dict(os.environ), ask(server.url, *more)))
        process.start()
        self.asked, self.at, self.signal, self.process = 0, at, signal, process
        self._armed.set()
        process.join()
        return process.exitcode, Path("out").read_text("utf-8"), Path("err").read_text("utf-8")

    def __call__(self, request):
        self._armed.wait()
        self.asked += 1
        if self.asked == self.at:
            os.kill(self.process.pid, self.signal)
            wait([self.process.sentinel])
        return read(request)


def command(folder, environment, arguments):
    os.chdir(folder)
    os.environ |= environment
    with Path("out").open("w") as sys.stdout, Path("err").open("w") as sys.stderr:
        main(arguments)


def ask(url, *more):
    small = ("--set", "window=100", "--set", "one_call_tokens=0", "--set", "concurrency=1")
    return ("ask", "archive.txt", QUESTION, "--model", url, *small, *more)


def test_a_kill_at_ten_random_moments_costs_only_the_calls_in_flight(home):
    rng = random.Random(20)
    meddler = Meddler()
    with ScriptedServer(meddler) as server:
        code, clean, _ = meddler.run(server)
        bodies = [str(request) for request in server.requests]
        calls = len(bodies)
        assert code == 0 and len(set(bodies)) == calls > 2 * KILLS
        (home / "cache").rename(home / "clean")
        moments = sorted(rng.sample(range(1, calls + 1), KILLS))
        for before, moment in zip([1, *moments], moments, strict=False):
            assert meddler.run(server, moment - before + 1, signal.SIGKILL)[0] == -signal.SIGKILL
        code, answer, _ = meddler.run(server)
        again = [str(request) for request in server.requests[calls:]]
    assert (code, answer) == (0, clean)
    assert len(again) == calls + KILLS and set(again) == set(bodies)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interruption_says_how_to_resume_and_leaves_its_trace(number, home):
    meddler = Meddler()
    with ScriptedServer(meddler) as server:
        code, out, err = meddler.run(server, 8, number, "--trace", "out.json")
        assert (code, out) == (130, "") and "run the same command to resume" in err and "Traceback" not in err
        trace = json.loads((home / "out.json").read_text("utf-8"))
        assert trace["answer"] is None and len(trace["replies"]) == 7
        assert meddler.run(server)[0] == 0
        bodies = [str(request) for request in server.requests]
    assert len(bodies) == len(set(bodies)) + 1 and bodies[8] == bodies[7]


def test_a_reader_that_goes_away_is_no_error():
    with ScriptedServer(read) as server, start(*ask(server.url, "-q"), stderr=subprocess.PIPE) as process:
        process.stdout.close()
        assert process.stderr.read() == ""


def test_on_a_terminal_the_plan_comes_first_then_progress_then_sources():
    ours, theirs = pty.openpty()
    with ScriptedServer(read) as server, start(*ask(server.url), stderr=theirs) as process:
        os.close(theirs)
        shown = "".join(iter(lambda: _read(ours), ""))
        answer = process.stdout.read()
    os.close(ours)
    assert process.returncode == 0 and "Keeper77" in answer and "\x1b" not in answer
    plain = re.sub(r"\x1b\[[0-?]*[ -/]*[@-~]", "", shown)
    places = [plain.index(part) for part in ("windows: about", "layer 0", "in flight", "archive.txt, line", "calls ·")]
    assert places == sorted(places)


def start(*arguments, stderr):
    return subprocess.Popen(
        [sys.executable, "-m", "convmem", *arguments],
        text=True,
        stdout=subprocess.PIPE,
        stderr=stderr,
        env={**os.environ, "TERM": "xterm"},
    )


def _read(terminal):
    try:
        return os.read(terminal, 65536).decode("utf-8", "replace")
    except OSError:  # the other end is closed
        return ""
