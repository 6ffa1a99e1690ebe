"""The table of costs in docs/methods.md against runs on a scripted model: what it says is what is sent."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from pathlib import Path

import pytest

from convmem.core import Answer, Call
from convmem.methods import method, methods
from tests.support.agents import lines, model, operation, shown, solve

PAGE = (Path(__file__).parents[2] / "docs" / "methods.md").read_text("utf-8")
ROWS = {
    row[1]: row.groups()[1:]
    for row in re.finditer(r"^\| `([\w-]+)`[^|]*\| ([^|]+) \| ([^|]+) \| ([^|]+) \|$", PAGE, re.MULTILINE)
    if "+" in row[0] or "N" in row[0]
}
QUESTION = "Who kept the light at Nordhavn for many years?"
DOCUMENT = lines(600)
N, SECTION, MEMORY, WINDOW = 6_000, 250, 40, 250
REMEMBERED = " ".join(["word"] * MEMORY)


def value(formula: str, symbols: Mapping[str, float]) -> float:
    """A formula of the page with numbers in place of its symbols."""
    formula = formula.replace("·", "*").replace("−", "-").strip()
    return float(eval(formula, {"__builtins__": {}, "log": math.log}, dict(symbols)))


def say(call: Call) -> str:
    """Replies that leave every memory full from the first section on."""
    match call.role:
        case "decompose":
            return json.dumps({"sub_questions": ["Who?", "Where?"], "keywords": []})
        case "relevance":
            return json.dumps({"relevance": 1})
        case "summarize":
            return "- rain"
        case "missing":
            return json.dumps({"enough": False, "missing": f"pier {len(call.messages[-1].content)}"})
        case "memorize":
            return REMEMBERED
        case "memorize_recall":
            newest = shown(call)["section"].split()[2]
            return f"<update>{newest} {REMEMBERED}</update><recall>word</recall>"
        case "memorize_gated":
            return f"<check>yes</check><update>{REMEMBERED}</update><next>continue</next>"
        case "memorize_entries":
            return json.dumps({"operations": [operation("update", "core", content=REMEMBERED)]})
        case "commit":
            return json.dumps({"promote": [] if "rained" in shown(call)["committed"] else [filling(call)]})
        case "summarize_cluster":
            return " ".join(shown(call)["passages"].split()[:20])
        case "direct" | "sub_answer" | "answer":
            return json.dumps({"answer": "Ann", "passages": [1], "findings": [1]})
        case _:
            return r"\boxed{Ann}"


def filling(call: Call) -> dict[str, object]:
    """A promotion of the first four sentences of a section."""
    text = " ".join(" ".join(shown(call)["section"].split("[")[1:5]).split())
    quoted = " ".join(part for part in text.split() if not part.endswith("]"))
    return {"facts": [{"text": quoted, "sentences": [1, 2, 3, 4]}]}


def cost(name: str, config: Mapping[str, object], preset: str = "lean", **more: object) -> tuple[Answer, list[Call]]:
    reader = model(say, **more)  # type: ignore[arg-type]
    return solve(name, reader, DOCUMENT, QUESTION, config=config, preset=preset), reader.calls


def sent(calls: list[Call]) -> int:
    return sum(len(message.content.split()) for call in calls for message in call.messages)


def frame(calls: list[Call], role: str, *, tags: tuple[str, ...]) -> float:
    """The words of a call of that role besides what stands between ``tags``."""
    call = next(call for call in calls if call.role == role)
    return sent([call]) - sum(len(shown(call)[tag].split()) for tag in tags)


@pytest.mark.parametrize("name", sorted(ROWS))
def test_a_formula_is_what_a_run_costs(name: str) -> None:
    symbols: dict[str, float]
    slack = 0.05
    match name:
        case "convmem":
            answer, calls = cost(name, {"window": WINDOW, "stride": 125}, "paper")
            symbols = {
                "C": 2,
                "M": answer.coverage.windows,
                "W": WINDOW,
                "f": frame(calls, "relevance", tags=("window",)),
            }
            slack = 0.1
        case "full-context":
            answer, calls = cost(name, {})
            symbols = {"N": N, "f": frame(calls, "direct", tags=("passages",))}
            slack = 0.1  # numbers of passages
        case "rag-bm25":
            answer, calls = cost(name, {"chunk_tokens": 50, "rounds": 3, "retrieved_tokens": 900})
            symbols = {"R": 3, "K": 900, "f": frame(calls, "missing", tags=("passages",))}
            slack = 0.15  # instructions of two kinds, and chunks that don't fit by a word
        case "raptor":
            answer, calls = cost(name, {"leaf_tokens": 30, "summary_tokens": 30, "retrieved_tokens": 300})
            f = frame(calls, "summarize_cluster", tags=("passages",))
            symbols = {"N": N, "L": answer.coverage.windows, "s": 7, "K": 300, "f": f}
            slack = 0.35
        case "coem":
            answer, calls = cost(name, {"chunk_tokens": SECTION, "memory_tokens": MEMORY + 1, "pending_tokens": 0})
            f = frame(calls, "commit", tags=("section", "committed", "pending"))
            symbols = {"N": N, "T": N / SECTION, "m": MEMORY, "f": f}
            slack = 0.06  # the last instructions are shorter
        case _:
            answer, calls = cost(name, {"chunk_tokens": SECTION, "memory_tokens": MEMORY})
            tags = tuple(tag for tag in shown(calls[0]) if tag != "problem")
            symbols = {"N": N, "T": N / SECTION, "m": MEMORY, "f": frame(calls, calls[0].role, tags=tags)}
            slack = 0.06  # the last instructions are shorter
    calls_formula, prompt_formula, depth_formula = ROWS[name]
    assert len(calls) == pytest.approx(value(calls_formula, symbols), rel=slack if name == "raptor" else 0)
    assert answer.usage.depth == pytest.approx(value(depth_formula, symbols), abs=1 if name == "raptor" else 0)
    assert sent(calls) == pytest.approx(value(prompt_formula, symbols), rel=slack)


def test_the_page_knows_every_method() -> None:
    assert set(ROWS) == set(methods())
    for name in methods():
        assert f"| `{name}` |" in PAGE and method(name).summary
