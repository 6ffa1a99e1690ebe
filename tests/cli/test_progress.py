import io

from rich.console import Console

from convmem.cli.progress import Watch
from convmem.cli.terminal import Notes
from convmem.core import (
    BestAnswer,
    CallEnded,
    CallStarted,
    Downloading,
    Evidence,
    EvidenceFound,
    LayerStarted,
    Plan,
    Planned,
)

PLAN = Plan(54_000, 14, 3, (), 19, 74_000, 1_200, 4, 90.0, ())


def watched(*events, terminal=True):
    """What is shown when ``events`` have come, and what is left of it."""
    notes, beside = Notes(), console(terminal)
    notes.console = console(terminal)
    with Watch(notes) as watch:
        for event in events:
            watch(event)
        beside.print(watch.shown())
    return beside.file.getvalue(), notes.console.file.getvalue()


def console(terminal):
    return Console(
        file=io.StringIO(), force_terminal=terminal, width=120, highlight=False, markup=False, color_system=None
    )


def test_every_layer_has_its_bar_and_what_was_found_and_spent_is_said():
    shown, _ = watched(
        Planned(PLAN),
        LayerStarted(0, 3),
        LayerStarted(0, 2),
        *(CallStarted("merge", 0, node) for node in (1, 2, 2, 3)),
        CallEnded("merge", 0, 1_000, 20, cached=False, node=1),
        CallEnded("merge", 0, 0, 0, cached=True, node=4),
        CallEnded("answer", 0, 500, 10, cached=False, node=5),
        LayerStarted(1, 7),
        EvidenceFound(Evidence("a", (), "quote")),
        BestAnswer("Hanne \x1b[31mDray"),
    )
    first, second, line, best = shown.splitlines()
    assert first.startswith("layer 0") and "2/5" in first and second.startswith("layer 1") and "0/7" in second
    assert "1 passage found · 1.53k tokens · 2 calls in flight" in line
    assert best.strip() == "so far: Hanne Dray"


def test_calls_that_are_given_up_are_no_progress():
    shown, _ = watched(
        LayerStarted(0, 3),
        CallEnded("score", 0, 100, 1, cached=False, node=1),
        *(CallEnded("score", 0, 100, 0, cached=False, failed=True, node=node) for node in (2, 3, 4)),
    )
    assert "1/3" in shown


def test_without_a_terminal_it_says_now_and_then_how_far_it_is(monkeypatch):
    monkeypatch.setattr("convmem.cli.progress.SILENCE", 0.0)
    loading = Downloading(0, 1_118_000_000), Downloading(1_118_000_000, 1_118_000_000)
    begun = Planned(PLAN), LayerStarted(0, 3), CallStarted("score", 0, 1), CallStarted("score", 0, 2)
    _, said = watched(*loading, *begun, CallEnded("score", 0, 100, 1, cached=False, node=1), terminal=False)
    assert said.count("Downloading the model, 1.1 GB.") == 1
    assert "layer 0 1/3" in said.splitlines()[-1] and "101 tokens" in said.splitlines()[-1]


def test_a_download_is_shown_before_there_is_a_plan():
    shown, _ = watched(Downloading(559_000_000, 1_118_000_000))
    assert "559/1118" in shown


def test_without_a_terminal_the_plan_alone_is_said():
    _, left = watched(Planned(PLAN), LayerStarted(0, 3), CallStarted("merge", 0, 1), terminal=False)
    assert left == "54k tokens in 14 windows: about 19 calls, 74k prompt and 1.2k reply tokens, about 1 min 30 s\n"
