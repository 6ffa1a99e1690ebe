import json

import pytest

from tests.cli.conftest import ARCHIVE, QUESTION
from tests.support.reader import read
from tests.support.server import Answer, ScriptedServer

SMALL = ("--set", "window=300", "--set", "stride=300", "--set", "one_call_tokens=0")


def test_the_answer_alone_is_on_standard_output(convmem, server):
    done = convmem("ask", "archive.txt", QUESTION, *SMALL)
    assert done.code == 0
    assert "Keeper77" in done.out and "archive.txt" not in done.out
    assert "archive.txt, line" in done.err and "Keeper77" in done.err
    assert "calls" in done.err and "prompt tokens" in done.err


def test_quiet_says_nothing_beside_the_answer(convmem, server):
    done = convmem("ask", "archive.txt", QUESTION, "-q", *SMALL)
    assert (done.code, done.err) == (0, "") and "Keeper77" in done.out


def test_json_has_the_keys_that_programs_rely_on(convmem, server):
    done = convmem("ask", "archive.txt", QUESTION, "--json", "--seed", "7", *SMALL)
    answer = json.loads(done.out)
    assert done.code == 0
    assert set(answer) >= {
        "answer", "citations", "sub_questions", "coverage", "usage", "config", "model", "seed", "warnings",
    }  # fmt: skip
    assert set(answer["coverage"]) == {
        "tokens", "read_tokens", "indexed_tokens", "windows", "failed_windows", "truncated",
    }  # fmt: skip
    assert set(answer["usage"]) == {
        "calls", "prompt_tokens", "cached_tokens", "completion_tokens", "cache_hits", "depth", "seconds", "by_role",
    }  # fmt: skip
    assert (answer["model"], answer["seed"]) == ("scripted", 7)
    assert answer["usage"]["calls"] == len(server.answered)
    assert answer["coverage"]["read_tokens"] == answer["coverage"]["tokens"]
    [citation, *_] = answer["citations"]
    assert set(citation) == {"source", "page", "line", "start", "end", "quote"}
    assert (citation["source"], citation["page"]) == ("archive.txt", None)
    assert ARCHIVE[citation["start"] : citation["end"]] == citation["quote"]


def test_a_failed_window_is_named_and_the_run_goes_on(convmem, server):
    def lost(request):
        text = request["messages"][-1]["content"]
        return Answer(500, {"error": {"message": "no"}}) if "<window>" in text and "Keeper5." in text else read(request)

    with ScriptedServer(lost) as failing:
        done = convmem("ask", "archive.txt", QUESTION, "--json", "--model", failing.url, "--set", "retries=0", *SMALL)
    [failed] = json.loads(done.out)["coverage"]["failed_windows"]
    assert done.code == 0 and set(failed) == {
        "source", "page", "line", "start", "end", "role", "channel", "reason",
    }  # fmt: skip
    assert "Keeper5." in ARCHIVE[failed["start"] : failed["end"]]
    assert "Not read" in done.err and "archive.txt, line" in done.err


def test_what_was_asked_before_costs_nothing(convmem, server):
    first = convmem("ask", "archive.txt", QUESTION, *SMALL)
    calls = len(server.requests)
    second = convmem("ask", "archive.txt", QUESTION, *SMALL)
    assert second.out == first.out and len(server.requests) == calls
    third = convmem("ask", "archive.txt", QUESTION, "--no-cache", *SMALL)
    assert third.out == first.out and len(server.requests) == 2 * calls


def test_no_cache_stores_nothing(convmem, server):
    convmem("ask", "archive.txt", QUESTION, "--no-cache", *SMALL)
    assert json.loads(convmem("cache", "info", "--json").out)["entries"] == 0


def test_a_model_for_one_role(convmem, server):
    with ScriptedServer(read, models=["large"]) as large:
        done = convmem("ask", "archive.txt", QUESTION, "--model", f"sub_answer={large.url}", "--json", *SMALL)
    by_role = json.loads(done.out)["usage"]["by_role"]
    assert len(large.requests) == by_role.pop("sub_answer")["calls"] > 0
    assert len(server.requests) == sum(totals["calls"] for totals in by_role.values()) > 0


def test_a_question_may_be_long(convmem, server):
    assert convmem("ask", "archive.txt", QUESTION + " Say it well." * 400).code == 0


@pytest.mark.parametrize("suffix", ["html", "json"])
def test_trace_is_written(convmem, server, home, suffix):
    done = convmem("ask", "archive.txt", QUESTION, "--trace", f"out.{suffix}", *SMALL)
    assert done.code == 0
    content = (home / f"out.{suffix}").read_text("utf-8")
    if suffix == "json":
        trace = json.loads(content)
        assert trace["replies"] and {node["key"] for node in trace["nodes"]} == set(trace["replies"])
    else:
        assert content.startswith("<!doctype html>")
    assert [path.name for path in home.iterdir() if path.name.startswith(".")] == []


def test_a_trace_without_a_cache_has_its_replies(convmem, server, home):
    convmem("ask", "archive.txt", QUESTION, "--no-cache", "--trace", "out.json", *SMALL)
    trace = json.loads((home / "out.json").read_text("utf-8"))
    assert {node["key"] for node in trace["nodes"]} == set(trace["replies"])


def test_hostile_text_does_not_reach_the_terminal(convmem, server, home):
    (home / "bad\x1b[2J.txt").write_text("The keeper of lighthouse 77 was \x1b[31mred\x1b]0;owned\x07 \u202edlo. " * 3)
    done = convmem("ask", "bad\x1b[2J.txt", QUESTION)
    assert done.code == 0
    assert not set(done.out + done.err) & set("\x1b\x07\u202e")
    missing = convmem("ask", "gone\x1b[2J.txt", QUESTION)
    assert missing.code == 2 and "\x1b" not in missing.err


def test_standard_input_is_a_document(convmem, server, monkeypatch, home):
    with (home / "archive.txt").open() as stream:
        monkeypatch.setattr("sys.stdin", stream)
        assert "Keeper77" in convmem("ask", "-", QUESTION).out
