"""The index from the command line: made once, resumed, listed, removed, and asked."""

import json

import pytest

from tests.cli.conftest import ARCHIVE, QUESTION
from tests.support.reader import read
from tests.support.server import Answer, ScriptedServer

SMALL = ("--set", "index_window=300")


def test_a_second_question_makes_one_call_and_reads_nothing_again(convmem, server):
    made = json.loads(convmem("index", "archive.txt", "--json", *SMALL).out)
    assert made["added"] == made["windows"] == len(server.answered) > 5 and not made["missing"]
    for number in (77, 30):
        before = len(server.answered)
        done = convmem("ask", "archive.txt", f"How was the keeper of lighthouse {number} called?", "--index", *SMALL)
        assert f"Keeper{number}" in done.out and "from the index alone" in done.err
        assert f"archive.txt, line {2 * number - 1}" in done.err and len(server.answered) == before + 1


def test_only_what_changed_is_read_again(convmem, server, home):
    convmem("index", "archive.txt", *SMALL)
    first = len(server.answered)
    changed = ARCHIVE.replace("called Keeper77.", "called Ann.")
    (home / "archive.txt").write_text(changed, "utf-8")
    done = convmem("ask", "archive.txt", QUESTION, "--index", *SMALL)
    assert done.out.strip().endswith("Ann") or "Ann" in done.out
    assert len(server.answered) - first <= 3 < first and "were not in the index" in done.err


def test_what_failed_is_read_when_the_command_is_repeated(convmem, server, monkeypatch):
    def lost(request):
        return Answer(500, {"error": {"message": "no"}}) if "Keeper5." in str(request["messages"]) else read(request)

    with ScriptedServer(lost) as failing:
        monkeypatch.setenv("CONVMEM_MODEL", failing.url)
        some = convmem("index", "archive.txt", "--set", "retries=0", *SMALL)
    assert some.code == 0 and "missing" in some.out and "Not indexed: archive.txt, line" in some.err
    monkeypatch.setenv("CONVMEM_MODEL", server.url)
    rest = json.loads(convmem("index", "archive.txt", "--json", *SMALL).out)
    assert (rest["added"], rest["missing"]) == (len(server.answered), 0) and rest["stored"] > rest["added"] > 0


def test_documents_are_listed_and_forgotten(convmem, server):
    assert convmem("index", "--list").out == "Nothing is indexed.\n"
    convmem("index", "archive.txt", *SMALL)
    [listed] = json.loads(convmem("index", "--list", "--json").out)
    assert (listed["name"], listed["kind"]) == ("archive.txt", "records") and listed["read"] == listed["windows"]
    assert "archive.txt" in convmem("index", "--list").out
    assert convmem("index", "--remove", "archive.txt").code == 0
    assert convmem("index", "--list").out == "Nothing is indexed.\n"
    assert "not in the index" in convmem("index", "--remove", "archive.txt").err


def test_a_plan_knows_what_is_indexed(convmem, server):
    def calls():
        return json.loads(convmem("plan", "archive.txt", "--json", "--set", "index=records", *SMALL).out)["calls"]

    before, made = calls(), json.loads(convmem("index", "archive.txt", "--json", *SMALL).out)
    assert calls() == before - made["windows"] == 2


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("index",), "at least one file"),
        (("index", "--list", "archive.txt"), "leave out"),
        (("ask", "archive.txt", QUESTION, "--index", "--no-cache"), "leave one out"),
        (("index", "archive.txt", "--set", "index_window=1"), "index_window"),
        (("index", "archive.txt", "--set", "method=memagent"), "no index"),
    ],
)
def test_what_is_wrong_is_said_in_one_sentence(convmem, server, arguments, said):
    done = convmem(*arguments)
    assert (done.code, done.out) == (2, "") and said in done.err and not server.answered
