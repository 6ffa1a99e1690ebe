"""Many questions as they are answered, on the terminal: one bar over the rows, what was spent, and what failed.

Hears of rows and knows nothing else of the run.
"""

from __future__ import annotations

from collections import Counter
from typing import Self

from rich import progress

from convmem.bench.results import Row
from convmem.cli.terminal import Notes, counted, one_line, tokens


class Progress:
    """``with Progress(notes) as progress`` shows the rows that it is told of; lines where nothing can move."""

    def __init__(self, notes: Notes) -> None:
        self._notes = notes
        self._bar = progress.Progress(
            progress.TextColumn("{task.description}"), progress.BarColumn(), progress.MofNCompleteColumn(),
            progress.TimeRemainingColumn(), console=notes.console, transient=True, disable=not notes.live,
        )  # fmt: skip
        self._task = self._bar.add_task("rows", total=None)
        self._spent = 0
        self._counts: Counter[str] = Counter()

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def begun(self, rows: int) -> None:
        """So many rows are to be made."""
        self._bar.update(self._task, total=rows)
        if not self._notes.live:
            self._notes.say(f"{counted(rows, 'row')} to make.")

    def done(self, row: Row) -> None:
        """A row of a benchmark was made."""
        self.note(
            row.status,
            f"{row.label} · {counted(row.docs, 'document')}",
            row.prompt_tokens + row.completion_tokens,
            f"{row.label}, question {row.question}: failed: {row.error}",
        )

    def note(self, status: str, where: str, spent: int, problem: str) -> None:
        """A row was made: ``spent`` tokens on it, and ``problem`` says what became of it where it failed."""
        self._counts[status] += 1
        self._spent += spent
        failed = f" · {counted(self._counts['failed'], 'failure')}" if self._counts["failed"] else ""
        description = one_line(f"{where} · {tokens(self._spent)} tokens{failed}", 90)
        self._bar.update(self._task, advance=1, description=description)
        if status == "failed":
            self._notes.warn(problem)

    @property
    def failures(self) -> int:
        """How many failed."""
        return self._counts["failed"]

    def summary(self) -> str:
        """How many rows were made, by status."""
        made = ", ".join(f"{count:,} {status}" for status, count in sorted(self._counts.items()))
        return f"{counted(self._counts.total(), 'new row')}" + (f" ({made})" if made else "")
