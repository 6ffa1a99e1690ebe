"""What was paid for survives: an interruption, a kill at any moment, a reader that goes away."""

import os
import pty
import random
import re
import signal
import subprocess
import sys
import threading

import pytest
from tests.cli.conftest import QUESTION
from tests.support.reader import read
from tests.support.server import ScriptedServer

KILLS = 10


class Meddler:
    """A reply function that, at the request that was chosen, first does something to the process that asks."""

    def __init__(self):
        self.process = self.at = self.signal = None
        self.asked = 0
        self._started = threading.Event()

    def arm(self, process, at, signal):
        self.asked, self.at, self.signal, self.process = 0, at, signal, process
        self._started.set()

    def disarm(self):
        self._started.clear()

    def __call__(self, request):
        self._started.wait()
        self.asked += 1
        if self.asked == self.at:
            self.process.send_signal(self.signal)
            self.process.wait()
        return read(request)


def command(*arguments, **streams):
    return subprocess.Popen([sys.executable, "-m", "convmem", *arguments], text=True, **streams)


def ask(url, *more):
    small = ("--set", "window=300", "--set", "one_call_tokens=0", "--set", "concurrency=1")
    return ("ask", "archive.txt", QUESTION, "--model", url, *small, *more)


def finish(meddler, server, at=None, signal=None):
    """One run, ended by ``signal`` at its request number ``at``: its process, and what it printed."""
    meddler.disarm()
    process = command(*ask(server.url), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    meddler.arm(process, at, signal)
    out, err = process.communicate()
    return process.returncode, out, err


def test_a_kill_at_ten_random_moments_costs_only_the_calls_in_flight(home):
    rng = random.Random(20)
    meddler = Meddler()
    with ScriptedServer(meddler) as server:
        code, clean, _ = finish(meddler, server)
        assert code == 0
        bodies = [str(request) for request in server.requests]
        calls = len(bodies)
        assert calls > 2 * KILLS and len(set(bodies)) == calls
        (home / "cache").rename(home / "clean")
        moments = sorted(rng.sample(range(1, calls + 1), KILLS))
        for before, moment in zip([1, *moments], moments, strict=False):
            at = max(moment - before + 1, 1)
            assert finish(meddler, server, at, signal.SIGKILL)[0] == -signal.SIGKILL
        code, answer, _ = finish(meddler, server)
    assert (code, answer) == (0, clean)
    again = [str(request) for request in server.requests[calls:]]
    assert len(again) == calls + KILLS and set(again) == set(bodies)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interruption_says_how_to_resume(number):
    meddler = Meddler()
    with ScriptedServer(meddler) as server:
        code, out, err = finish(meddler, server, 8, number)
        assert (code, out) == (130, "") and "run the same command to resume" in err and "Traceback" not in err
        asked = len(server.requests)
        assert finish(meddler, server)[0] == 0
        bodies = [str(request) for request in server.requests]
    assert len(bodies) == len(set(bodies)) + 1 and bodies[asked] == bodies[asked - 1]


def test_a_reader_that_goes_away_is_no_error():
    with ScriptedServer(read) as server:
        process = command(*ask(server.url, "-q"), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        process.stdout.close()
        err = process.stderr.read()
        process.stderr.close()
        assert process.wait() == 141 and err == ""


def test_on_a_terminal_the_plan_comes_first_then_progress_then_sources():
    with ScriptedServer(read) as server:
        ours, theirs = pty.openpty()
        process = command(*ask(server.url), stdout=subprocess.PIPE, stderr=theirs, env={**os.environ, "TERM": "xterm"})
        os.close(theirs)
        shown = "".join(iter(lambda: _read(ours), ""))
        out = process.stdout.read()
        process.stdout.close()
        assert process.wait() == 0
        os.close(ours)
    assert out.startswith("Keeper77") or "Keeper77" in out
    plain = re.sub(r"\x1b\[[0-?]*[ -/]*[@-~]", "", shown)
    places = [plain.index(part) for part in ("windows: about", "layer 0", "in flight", "archive.txt, line")]
    assert places == sorted(places) and out.strip() not in plain.partition("layer 0")[0]


def _read(terminal):
    try:
        return os.read(terminal, 65536).decode("utf-8", "replace")
    except OSError:  # the other end is closed
        return ""
