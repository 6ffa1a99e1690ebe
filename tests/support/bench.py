"""Small records in the datasets' own forms, questions made of them, and the real files where they are at hand."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from convmem.bench.questions import Paragraph, Question, SupportUnit
from convmem.cli.main import main
from convmem.core import Span

REAL = Path(__file__).parents[3] / "shared" / "data"


def real(name: str) -> list[Path]:
    """The file of that name beside the repository, or none."""
    path = REAL / name
    return [path] if path.exists() else []


def convmem(*arguments: object) -> int:
    """Run the command in this process: its exit code."""
    with pytest.MonkeyPatch.context() as patch, pytest.raises(SystemExit) as ended:
        patch.setattr(sys, "argv", ["convmem", *map(str, arguments)])
        main()
    return int(ended.value.code or 0)


class Words:
    """A tokenizer whose tokens are words: what any test can count by itself."""

    identity = "words"
    exact = True
    remote = False

    def count(self, text: str) -> int:
        return len(text.split())

    def offsets(self, text: str) -> NDArray[np.uint32]:
        return np.array([match.start() for match in re.finditer(r"\S+", text)], dtype=np.uint32)


def hotpot(**changes: Any) -> dict[str, Any]:
    record = {
        "_id": "h1",
        "question": "Where was the founder of Ost born?",
        "answer": "Brell",
        "type": "bridge",
        "level": "hard",
        "supporting_facts": [["Ost", 1], ["Ida Venn", 0]],
        "context": [
            ["Ost", ["Ost is a company.", " It was founded by Ida Venn."]],
            ["Ida Venn", ["Ida Venn was born in Brell.", " She drew maps."]],
            ["Ida Rusk", ["Ida Rusk was born in Torm."]],
        ],
    }
    return {**record, **changes}


def musique(**changes: Any) -> dict[str, Any]:
    def paragraph(idx: int, title: str, text: str, support: bool) -> dict[str, Any]:
        return {"idx": idx, "title": title, "paragraph_text": text, "is_supporting": support}

    record = {
        "id": "2hop__1_2",
        "question": "Where was the founder of Ost born?",
        "answer": "Brell",
        "answer_aliases": ["Brell on Sea", "Brell"],
        "answerable": True,
        "paragraphs": [
            paragraph(0, "Ida Venn", "Ida Venn was born in Brell.", True),
            paragraph(1, "Ida Rusk", "Ida Rusk was born in Torm.", False),
            paragraph(2, "Ost", "Ost was founded by Ida Venn.", True),
        ],
        "question_decomposition": [
            {"question": "Ost >> founder", "answer": "Ida Venn", "paragraph_support_idx": 2},
            {"question": "Where was #1 born?", "answer": "Brell", "paragraph_support_idx": 0},
        ],
    }
    return {**record, **changes}


def memagent(**changes: Any) -> dict[str, Any]:
    context = "Document 1:\nOst was founded by Ida Venn.\n\nDocument 2:\nIda Venn was born in Brell."
    return {"index": 7, "input": "Where?", "answers": ["Brell"], "num_docs": 2, "context": context, **changes}


def write(path: Path, records: Iterable[Any], *, lines: bool = False) -> Path:
    text = "\n".join(map(json.dumps, records)) if lines else json.dumps(list(records))
    path.write_text(text, "utf-8")
    return path


def question(number: int = 0, supporting: int = 2, distractors: int = 3) -> Question:
    """A question with ``supporting`` paragraphs, whose middle sentence supports it, and distractors."""
    paragraphs: list[Paragraph] = []
    support: list[SupportUnit] = []
    for k in range(supporting + distractors):
        name = f"Q{number}x{k}"
        sentences = [f"{name} opens with {name}a.", f"The fact of {name} is value{number}v{k}.", f"And {name} ends."]
        starts = np.cumsum([0] + [len(s) + 1 for s in sentences]).tolist()
        spans = tuple(Span(start, start + len(s)) for start, s in zip(starts, sentences, strict=False))
        paragraphs.append(Paragraph(f"Title {name}", " ".join(sentences), spans))
        if k < supporting:
            support.append(SupportUnit(k, spans[1], "sentence", k + 1))
    return Question(f"q{number}", f"What is {number}?", (f"value{number}v0",), tuple(paragraphs), tuple(support))
