"""A run as it happens, on the terminal: a bar for each layer, and one line of what was found and spent.

Listens to events and knows nothing else of the run.
"""

from __future__ import annotations

import time
from types import TracebackType
from typing import Self

from rich.console import Group
from rich.live import Live
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn
from rich.spinner import Spinner
from rich.text import Text

from convmem.cli.report import plan_line
from convmem.cli.terminal import Notes, counted, duration, one_line, tokens
from convmem.core import BestAnswer, CallEnded, CallStarted, Downloading, Event, EvidenceFound, LayerStarted, Planned
from convmem.trace import Trace

MEGABYTE = 1_000_000
SILENCE = 30.0
"""Seconds after which a run that can't show anything that moves says how far it is."""

_BESIDE = {
    "probe", "decompose", "lookup", "sub_answer", "answer", "direct", "memory_answer", "recall_answer",
    "entries_answer", "verify",
}  # fmt: skip
"""Roles whose calls belong to no layer."""


class Watch:
    """``with Watch(notes) as watch`` shows the events that ``watch`` is called with, until the block ends.

    Where nothing that moves can be shown, it says the plan, that a model is downloaded, and twice a minute how far it
    is. ``trace`` is the run's, once it has begun.
    """

    def __init__(self, notes: Notes) -> None:
        self.notes = notes
        self.evidence = self.spent = 0
        self.in_flight: set[int] = set()
        self.best = ""
        self.started = self._said = time.monotonic()
        self.trace: Trace | None = None
        self._layers: dict[int, TaskID] = {}
        self._bars = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeRemainingColumn(compact=True),
            console=notes.console,
        )
        self._spinner = Spinner("dots")
        self._download = self._bars.add_task("model, MB", total=None, visible=False)
        self._live = Live(console=notes.console, get_renderable=self.shown, refresh_per_second=4, transient=True)

    def __enter__(self) -> Self:
        if self.notes.live:
            self._live.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._live.stop()

    def __call__(self, event: Event) -> None:
        """Take in one event."""
        match event:
            case Downloading(done, total):
                if not (self.notes.live or self._bars.tasks[self._download].total):
                    self.notes.say(f"Downloading the model, {total / 1_000 / MEGABYTE:.1f} GB.", style="dim")
                self._bars.update(
                    self._download, completed=done // MEGABYTE, total=total // MEGABYTE, visible=done < total
                )
            case Planned(plan, trace):
                self.trace = trace
                self.notes.say(plan_line(plan), style="dim")
            case LayerStarted(layer, calls):
                task = self._layer(layer)
                self._bars.update(task, total=(self._bars.tasks[task].total or 0) + calls)
            case CallStarted():
                self.in_flight.add(event.node)
            case CallEnded():
                self.in_flight.discard(event.node)
                self.spent += event.prompt_tokens + event.completion_tokens
                if event.role not in _BESIDE and not event.failed:
                    self._bars.advance(self._layer(event.layer))
                self._say_how_far()
            case EvidenceFound():
                self.evidence += 1
            case BestAnswer(text):
                self.best = text
            case _:
                pass

    def _layer(self, layer: int) -> TaskID:
        if layer not in self._layers:
            self._layers[layer] = self._bars.add_task(f"layer {layer}", total=0)
        return self._layers[layer]

    def _say_how_far(self) -> None:
        if self.notes.live or time.monotonic() - self._said < SILENCE:
            return
        self._said = time.monotonic()
        layers = [f"{bar.description} {bar.completed:.0f}/{bar.total:.0f}" for bar in self._bars.tasks if bar.visible]
        self.notes.say(" · ".join([*layers, self._line()]), style="dim")

    def _line(self) -> str:
        line = (
            "loading the model"
            if self.trace is None and not self.in_flight
            else (
                f"{counted(self.evidence, 'passage')} found · {tokens(self.spent)} tokens · "
                f"{counted(len(self.in_flight), 'call')} in flight"
            )
        )
        return f"{line} · {duration(time.monotonic() - self.started)}"

    def shown(self) -> Group:
        """What the terminal shows by now."""
        self._spinner.update(text=self._line())
        best = [Text(f"so far: {one_line(self.best)}", no_wrap=True, overflow="ellipsis")] if self.best else []
        return Group(self._bars, self._spinner, *best)
