"""Results of a benchmark: a row for each question, method, model, length and seed, and what they came from.

``rows.jsonl`` has the rows, appended as they come, so that a run that was cut short goes on where it was.
``manifest.json`` says which commands made them, with which versions, from which data. Knows no method.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from platform import platform, python_version
from typing import Any, Literal, NamedTuple

from pydantic import TypeAdapter, ValidationError

from convmem.bench.contexts import Benchmark
from convmem.core import InputError

FORMAT = 1

Status = Literal["answered", "failed", "unavailable"]


@dataclass(frozen=True, slots=True)
class Spent:
    """Calls and tokens; a reply that was stored before counts as what it took when it was made."""

    calls: int = 0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    completion_tokens: int = 0

    def __add__(self, other: Spent) -> Spent:
        return Spent(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(self)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """What came of one question. Scores and shares are from 0 to 1, lengths in tokens, times in seconds.

    ``question`` is its id and ``asked`` its text. ``label`` names the method with all that sets it apart in these
    results, ``config`` is what it was settled to. ``prediction`` is the extracted answer. ``scores`` are None where the
    method was unavailable, and 0 where it failed; ``acc_l`` is the mean of ``ratings`` by ``judge``, None without.
    ``docs`` and ``document_tokens`` are 0 for answers without any context. ``replayed`` calls were answered from the
    cache and took no time, so that ``seconds`` is too low by theirs; ``unreadable`` replies could not be read as they
    should. ``layer_tokens`` is |H_l| for each layer, ``buffer_tokens`` |B|, None without one. ``evidence`` is None
    where the support is not known or nothing was answered. ``trace`` is a file's name in the results. ``peak_memory``
    is the most bytes that a process of its own had for this row, its packages included; None where it had none.
    ``diagnostics`` is what the method notes of its own work.
    """

    dataset: str
    question: str
    asked: str
    type: str
    docs: int
    placement: str
    method: str
    preset: str
    label: str
    config: Mapping[str, Any]
    model: str
    simulated: bool
    seed: int
    status: Status
    error: str = ""
    prediction: str = ""
    references: tuple[str, ...] = ()
    scores: Mapping[str, float | None] | None = None
    ratings: tuple[float, ...] = ()
    judge: str = ""
    calls: int = 0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    completion_tokens: int = 0
    replayed: int = 0
    depth: int = 0
    seconds: float = 0.0
    document_tokens: int = 0
    by_role: Mapping[str, Spent] = field(default_factory=dict)
    layers: tuple[Spent, ...] = ()
    unreadable: int = 0
    layer_tokens: tuple[int, ...] = ()
    buffer_tokens: int | None = None
    evidence: Mapping[str, Any] | None = None
    warnings: tuple[str, ...] = ()
    trace: str | None = None
    peak_memory: int | None = None
    diagnostics: Mapping[str, Any] = field(default_factory=dict)

    @property
    def key(self) -> Key:
        return Key(self.dataset, self.question, self.docs, self.label, self.model, self.seed)


class Key(NamedTuple):
    """What a row is about; results have one row for each."""

    dataset: str
    question: str
    docs: int
    label: str
    model: str
    seed: int


_ROW = TypeAdapter(Row)


class Results:
    """The results in ``directory``, made when the first is written. Raises InputError where it holds anything else."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._rows = directory / "rows.jsonl"
        self._manifest = directory / "manifest.json"
        others = [path for path in directory.glob("*") if path.name not in {"rows.jsonl", "manifest.json", "traces"}]
        if directory.is_file() or (others and not self._rows.exists()):
            raise InputError(f"{directory} holds something other than results: name a new or empty directory.")

    def rows(self) -> Iterator[Row]:
        """All rows as they were written, but for an unfinished last one. Raises InputError for a damaged one."""
        if not self._rows.exists():
            return
        lines = self._rows.read_text("utf-8").split("\n")
        for number, line in enumerate(lines[:-1], 1):
            try:
                yield _ROW.validate_json(line)
            except ValidationError as error:
                where = ".".join(map(str, error.errors()[0]["loc"]))
                raise InputError(f"{self._rows}, line {number} {where}: this is no result; delete the line.") from None

    def append(self, row: Row) -> None:
        """Write ``row`` after the others."""
        self.directory.mkdir(parents=True, exist_ok=True)
        with self._rows.open("a", encoding="utf-8") as file:
            file.write(json.dumps(asdict(row), ensure_ascii=False, allow_nan=False) + "\n")

    def manifest(self) -> dict[str, Any]:
        """``commands`` and versions that made the rows, and the ``data`` by dataset."""
        if self._manifest.exists():
            found: dict[str, Any] = json.loads(self._manifest.read_bytes())
            return found
        return {"format": FORMAT, "commands": [], "data": {}}

    def begin(self, benchmark: Benchmark, command: str, version: str) -> None:
        """Note in the manifest that ``command`` of ConvMem ``version`` adds rows on ``benchmark``.

        A row that was not finished is cut off. Raises InputError where there are results on another benchmark of the
        same name.
        """
        self.directory.mkdir(parents=True, exist_ok=True)
        manifest = self.manifest()
        data = {
            "source": dict(benchmark.source),
            "recipe": asdict(benchmark.recipe),
            "tokenizer": benchmark.tokenizer,
            "contexts": {f"{case.id}/{case.docs}": case.sha256 for case in benchmark.cases},
        }
        known = manifest["data"].setdefault(benchmark.dataset, data)
        if known != json.loads(json.dumps(data)) and known is not data:
            raise InputError(
                f"{self.directory} has results on another benchmark {benchmark.dataset!r}: name another directory."
            )
        made = {"command": command, "convmem": version, "python": python_version(), "on": platform()}
        if made not in manifest["commands"]:
            manifest["commands"].append(made)
        self._manifest.write_text(json.dumps(manifest, ensure_ascii=False, indent=1) + "\n", "utf-8")
        if self._rows.exists():
            content = self._rows.read_bytes()
            if not content.endswith(b"\n"):
                self._rows.write_bytes(content[: content.rfind(b"\n") + 1])
