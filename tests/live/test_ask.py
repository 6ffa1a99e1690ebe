"""A question over a document with the embedded model, as a user asks it: answered, cited, resumed after a kill."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from convmem.model import find_local
from convmem.model.download import fetch

pytestmark = pytest.mark.live

SAMPLES = Path(__file__).parents[2] / "samples"
ASKED = json.loads((SAMPLES / "harbour.questions.json").read_text("utf-8"))

TELL_CALLS = """
import sys, convmem
from convmem.core import CallEnded
def tell(event):
    if isinstance(event, CallEnded):
        print(event.role, event.cached, flush=True)
answer = convmem.ask(sys.argv[1], sys.argv[2], model="local", one_call_tokens=0, decompose="off", on_event=tell)
print(answer.text, flush=True)
"""


@pytest.fixture(autouse=True)
def user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A user with the model at hand and nothing stored."""
    monkeypatch.setenv("CONVMEM_GGUF", str(find_local() or fetch()))
    monkeypatch.setenv("CONVMEM_CACHE_DIR", str(tmp_path / "cache"))


def test_the_short_sample_is_answered_and_the_support_is_cited() -> None:
    asked = next(question for question in ASKED if question["hops"] == 1)
    command = [sys.executable, "-m", "convmem", "ask", str(SAMPLES / "harbour.md"), asked["question"], "--json"]
    answer = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
    said = answer["answer"].casefold().replace(",", "")
    assert any(right.casefold() in said for right in [asked["answer"], *asked["aliases"]])
    text = (SAMPLES / "harbour.md").read_text("utf-8")
    assert all(text[cited["start"] : cited["end"]] == cited["quote"] for cited in answer["citations"])
    [support] = asked["support"]
    assert any(c["start"] <= support["start"] and support["end"] <= c["end"] for c in answer["citations"])
    assert answer["coverage"]["read_tokens"] == answer["coverage"]["tokens"]


def test_a_killed_run_makes_only_the_calls_that_had_not_ended(tmp_path: Path) -> None:
    story = (SAMPLES / "harbour.md").read_text("utf-8")
    start = story.index("## How the harbour came to be built")
    document = tmp_path / "harbour.md"
    document.write_text(story[start : start + 3_000], "utf-8")
    command = [sys.executable, "-c", TELL_CALLS, str(document), "Who was the engineer of the North Mole?"]

    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as killed:
        assert killed.stdout
        ended = [killed.stdout.readline(), killed.stdout.readline()]
        killed.kill()
    assert [line.split() for line in ended] == [["score", "False"]] * 2

    *calls, answer = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.splitlines()
    replayed = [line for line in calls if line.endswith("True")]
    assert replayed[:2] == ["score True"] * 2 and len(replayed) < len(calls)
    assert "Osk" in answer
