import json
import subprocess
import sys

import pytest

from convmem import __version__
from tests.cli.conftest import ARCHIVE, QUESTION
from tests.support.reader import read
from tests.support.server import Answer, ScriptedServer


def test_a_plan_in_json_has_the_keys_that_programs_rely_on(convmem, server):
    done = convmem("plan", "archive.txt", QUESTION, "--json", "--set", "window=300", "--set", "one_call_tokens=0")
    plan = json.loads(done.out)
    assert (done.code, done.err) == (0, "")
    assert set(plan) == {
        "tokens", "windows", "channels", "layers", "calls", "prompt_tokens", "completion_tokens", "depth", "seconds",
        "assumptions", "cost", "alternatives", "reason",
    }  # fmt: skip
    assert set(plan["layers"][0]) == {"calls", "prompt_tokens"}
    assert plan["seconds"] is None and plan["channels"] == 3 and server.requests == []


def test_a_plan_in_words(convmem, server):
    done = convmem("plan", "archive.txt")
    assert done.code == 0 and "windows" in done.out and "not known for this model" in done.out


@pytest.mark.parametrize("question", ["Who kept it", "Who?", "谁？"])
def test_a_plan_takes_the_command_line_of_ask(convmem, server, question):
    alone, with_question = (convmem("plan", "archive.txt", *more, "--json").out for more in ([], [question]))
    assert json.loads(with_question)["tokens"] == json.loads(alone)["tokens"]


def test_a_file_whose_name_looks_like_a_question_is_a_file(convmem, server, home):
    (home / "who kept it?").write_text(ARCHIVE)
    alone, both = (json.loads(convmem("plan", "archive.txt", *more, "--json").out) for more in ([], ["who kept it?"]))
    assert both["tokens"] >= 2 * alone["tokens"]


def test_a_plan_for_the_embedded_model_downloads_nothing(convmem, home):
    done = convmem("plan", "archive.txt", "--json")
    assert any("estimate" in each for each in json.loads(done.out)["assumptions"])
    assert not list(home.rglob("*.gguf*"))


def test_methods(convmem):
    listed = {entry["name"]: entry for entry in json.loads(convmem("methods", "--json").out)}
    assert {"convmem", "full-context"} <= set(listed) and set(listed["convmem"]["presets"]) == {"lean", "paper"}
    assert all(name in convmem("methods").out for name in listed)


def test_models_says_what_is_at_hand(convmem, server, home, monkeypatch):
    local, endpoint = json.loads(convmem("models", "--json").out)
    assert (local["model"], local["downloaded"]) == ("local", False)
    assert (endpoint["model"], endpoint["serves"], endpoint["problem"]) == (server.url, ["scripted"], None)
    (home / "here.gguf").write_bytes(b"GGUF")
    monkeypatch.setenv("CONVMEM_GGUF", str(home / "here.gguf"))
    assert "here.gguf" in convmem("models").out and "scripted" in convmem("models").out


@pytest.mark.parametrize("listing", [Answer(503, "<html>"), Answer(200, "<html>"), Answer(200, {"data": [{}]})])
def test_models_never_fails(convmem, monkeypatch, listing):
    monkeypatch.setenv("CONVMEM_GGUF", "gone.gguf")
    with ScriptedServer(read, routes={"/v1/models": lambda _: listing}) as server:
        monkeypatch.setenv("CONVMEM_MODEL", server.url)
        done = convmem("models")
    assert done.code == 0 and "does not list its models" in done.out and "gone.gguf" in done.out
    assert convmem("models").code == 0  # nothing listens any more


def test_the_cache_can_be_looked_at_and_cleared(convmem, server, home):
    convmem("ask", "archive.txt", QUESTION)
    info = json.loads(convmem("cache", "info", "--json").out)
    assert info["entries"] == len(server.answered) > 0 and info["bytes"] > 0
    assert info["path"].startswith(str(home / "cache")) and info["path"] in convmem("cache", "info").out
    assert f"{info['entries']} repl" in convmem("cache", "clear").out
    assert json.loads(convmem("cache", "info", "--json").out)["entries"] == 0


@pytest.mark.parametrize("arguments", [(), ("--help",), ("ask", "--help"), ("plan", "-h"), ("cache", "--help")])
def test_help(convmem, arguments):
    done = convmem(*arguments)
    assert done.code == 0 and done.out.startswith("Usage: convmem") and done.err == ""


def test_the_version_is_the_packages(convmem):
    assert convmem("--version").out == f"convmem {__version__}\n"


def test_help_loads_nothing_that_a_run_needs():
    show = "import sys; from convmem.cli.main import main\ntry: main(['ask', '--help'])\nfinally: print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", show], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("Usage: convmem ask")
    assert not set(done.stdout.split()) & {"numpy", "aiohttp", "rich.console", "convmem.methods"}
