"""Answers as a file has them: a row for each question, there once, written when it is known.

JSON lines are appended in the order in which questions end, and set in the order of the questions when all have. For
Parquet, which can't grow, they stand beside it until then.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from convmem.batch import parquet
from convmem.core import InputError

Row = Mapping[str, Any]
"""``id``, ``key``, ``question``, ``status`` (``answered`` or ``failed``), ``error``, and what ``ask --json`` prints."""


class Results:
    """The rows in ``path``, ``.jsonl`` or ``.parquet``. Raises InputError where it has anything else."""

    def __init__(self, path: Path) -> None:
        self.path = self._journal = path
        if parquet.is_one(path):
            parquet.require()
            self._journal = path.with_name(f"{path.name}.jsonl")
        if path.is_dir():
            raise InputError(f"'{path}' is a directory; name a file for the answers.")

    def standing(self, keys: Mapping[str, str]) -> dict[str, Row]:
        """The rows that stand, by id: answered ones of a known key, and those of questions that ``keys`` has not.

        ``keys`` has what each id is asked now. Raises InputError for a damaged row.
        """
        return {
            str(row["id"]): row
            for row in self._read()
            if row["id"] not in keys or (row.get("status") == "answered" and row.get("key") == keys[row["id"]])
        }

    def begin(self, rows: Iterable[Row]) -> None:
        """Have these rows, and no others, in the file."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._rewrite(rows)

    def append(self, row: Row) -> None:
        """Write ``row`` after the others."""
        with self._journal.open("a", encoding="utf-8") as file:
            file.write(_encoded(row))

    def finish(self, order: Sequence[str]) -> None:
        """Set the rows in the ``order`` of ids, after those that it has not."""
        places = {id_: place for place, id_ in enumerate(order)}
        rows = sorted(self._read(), key=lambda row: places.get(str(row["id"]), -1))
        if self._journal == self.path:
            self._rewrite(rows)
        else:
            parquet.write(self.path, rows)
            self._journal.unlink()

    def _read(self) -> list[Row]:
        """Every row, but for an unfinished last one."""
        if not self._journal.exists():
            return list(parquet.plain_rows(self.path)) if self._journal != self.path and self.path.exists() else []
        rows: list[Row] = []
        for number, line in enumerate(self._journal.read_text("utf-8").split("\n")[:-1], 1):
            try:
                row = json.loads(line)
                rows.append({**row, "id": row["id"]})
            except (ValueError, TypeError, KeyError):
                raise InputError(
                    f"{self._journal}, line {number}: this is no answer; delete the line, or name another file."
                ) from None
        return rows

    def _rewrite(self, rows: Iterable[Row]) -> None:
        partial = self._journal.with_name(f".{self._journal.name}.new")
        partial.write_text("".join(map(_encoded, rows)), "utf-8")
        partial.replace(self._journal)


def _encoded(row: Row) -> str:
    return json.dumps(row, ensure_ascii=False) + "\n"
