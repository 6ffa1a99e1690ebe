"""The libraries themselves against a scripted server, where ``benchmarks/peers/setup`` has made their environment."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from convmem.bench.results import Results, Row
from tests.support.server import Json, Reply, ScriptedServer
from tests.support.simulated import built

ROOT = Path(__file__).parents[2]
PYTHON = ROOT / "benchmarks" / "peers" / ".venv" / "bin" / "python"

pytestmark = pytest.mark.skipif(not PYTHON.exists(), reason="benchmarks/peers/setup was not run")

READ = """
parts = [context[:3000], context[-3000:]]
found = llm_query_batched([f"{part} {question}" for part in parts])
print(found)
"""
SUBMIT = "SUBMIT(found[0])"


def program(code: str) -> str:
    """A reply of RLM's form."""
    return f"[[ ## reasoning ## ]]\nOn.\n\n[[ ## code ## ]]\n```python\n{code}\n```\n\n[[ ## completed ## ]]"


def reply(request: Json) -> Reply:
    """Writes RLM a program that asks twice and then one that submits, and answers everything else in a word."""
    text = "\n".join(str(message["content"]) for message in request["messages"])
    if "REPL" not in text:
        return "Answer: Brell"
    return program(SUBMIT if "['Answer: Brell', 'Answer: Brell']" in text else READ)


def row(directory: Path, peer: str) -> Row:
    built(directory / "b", docs=(60,), count=1)
    with ScriptedServer(reply) as server:
        given = ["--model", server.url, "--out", directory / "r", "--peers", peer, "--window", "2000"]
        subprocess.run([PYTHON, "-m", "benchmarks.peers", directory / "b", *map(str, given)], cwd=ROOT, check=True)
        chats = len(server.requests)
    (made,) = Results(directory / "r").rows()
    assert made.status == "answered", made.error
    assert made.prediction == "Brell"
    assert made.calls == chats
    return made


def test_tree_summarize_reads_every_chunk_and_then_the_answers(tmp_path: Path) -> None:
    made = row(tmp_path, "llamaindex")
    assert made.calls >= 5
    assert 1 < made.prompt_tokens / made.document_tokens < 1.6


def test_map_reduce_reads_every_chunk_and_then_what_was_found(tmp_path: Path) -> None:
    made = row(tmp_path, "langchain")
    assert made.calls >= 5
    assert 1 < made.prompt_tokens / made.document_tokens < 1.4


def test_rlm_runs_the_models_programs_in_the_sandbox(tmp_path: Path) -> None:
    assert row(tmp_path, "dspy-rlm").calls == 4
