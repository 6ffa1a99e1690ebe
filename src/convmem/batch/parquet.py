"""Parquet in and out, with pyarrow, which is an extra. Knows tables of plain rows and nothing of what they mean."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from convmem.core import InputError, extra

if TYPE_CHECKING:
    import pyarrow as pa


def is_one(path: Path) -> bool:
    """Whether the name says so."""
    return path.suffix.lower() in (".parquet", ".pq")


def read(path: Path) -> list[dict[str, Any]]:
    """The rows of the table. Raises InputError where it is none, and OSError where it can't be opened."""
    arrow = require()
    from pyarrow import parquet

    with path.open("rb") as file:
        try:
            rows: list[dict[str, Any]] = parquet.read_table(file).to_pylist()
        except arrow.ArrowException:
            raise InputError(f"{path} is no Parquet file: make it anew, or give JSON lines as .jsonl.") from None
    return rows


def write(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """Write answers as a table, whole or not at all: what a row has beside the columns is in ``details``, as JSON."""
    arrow = require()
    from pyarrow import parquet

    schema = _schema(arrow)
    columns = [name for name in schema.names if name != "details"]
    table = [
        {name: row.get(name) for name in columns}
        | {"details": json.dumps({name: value for name, value in row.items() if name not in columns})}
        for row in rows
    ]
    partial = path.with_name(f".{path.name}.new")
    parquet.write_table(arrow.Table.from_pylist(table, schema=schema), partial)
    partial.replace(path)


def plain_rows(path: Path) -> list[dict[str, Any]]:
    """The rows that ``write`` wrote, as they were."""
    return [
        {name: value for name, value in row.items() if name != "details"} | json.loads(row["details"])
        for row in read(path)
    ]


def _schema(arrow: Any) -> pa.Schema:
    place = [("source", arrow.string()), *((name, arrow.int64()) for name in ("page", "line", "start", "end"))]
    return arrow.schema(
        [
            *((name, arrow.string()) for name in ("id", "question", "status", "error", "answer")),
            ("citations", arrow.list_(arrow.struct([*place, ("quote", arrow.string())]))),
            ("model", arrow.string()),
            ("details", arrow.string()),
        ]
    )


def require() -> Any:
    """The library. Raises InputError where it is not there."""
    try:
        import pyarrow
    except ImportError:
        raise InputError(f"Parquet needs pyarrow: {extra('parquet')}, or use JSON lines (.jsonl).") from None
    return pyarrow
