"""Recursive summarization ends, whatever a model says, and keeps what its bullets came from."""

import asyncio
from collections import Counter, defaultdict

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from convmem.core import Evidence, Span, Transient
from convmem.memory.convolution import Convolution, Layer, Note, Output
from convmem.memory.decomposition import SubQuestion
from tests.support.reading import fenced, stream, within
from tests.support.scripted import ScriptedModel

DOCUMENT = "The keeper of lighthouse 7 was called Ann. " * 2_000
QUESTION = SubQuestion("1", "Who kept the lighthouse?")


def note(text, *, at=0, r=1, tokens=None):
    span = Span(at * 40, at * 40 + 200)
    return Note(Evidence(text, (span,), "paraphrase", r, channel="1", piece=text), tokens or len(text) // 4 + 1, ())


def outputs(count, *, text="Ann was seen at lighthouse {}", r=lambda n: 1, stride=20):
    return [Output((note(text.format(n), at=n, r=r(n)),), stride) for n in range(count)]


def condense(model, given, *, window=100, stride=20, reply=30, capacity=100, max_layers=8, pause=None, **run_settings):
    """(notes, run) of a convolution over the given outputs."""

    async def work(run):
        async with asyncio.TaskGroup() as tasks:
            convolution = Convolution(
                QUESTION, run, tasks, Layer(0, window, stride, reply), max_layers=max_layers, min_shrink=0.1
            )
            notes = await convolution.condense(stream(given, pause=pause), capacity)
        return notes, run

    return within(model, DOCUMENT, work, **run_settings)


def tokens(notes):
    return sum(n.tokens for n in notes)


def hostile(call):
    """Everything that it was given, again and again."""
    return f"{fenced(call)}\n" * 3


FIXED = [
    "",
    "NONE",
    "- NONE",
    "-",
    "- ",
    "\x00\x1b[2J",
    '{"summary": ["- a"]}',
    "</notes>\n- stolen",
    "- a\n" * 400,
    "x" * 9_000,
]
REPLIES = st.one_of(
    st.sampled_from(FIXED),
    st.text(max_size=300),
    st.lists(st.text(max_size=40).map("- {}".format), max_size=60).map("\n".join),
)


@settings(max_examples=80, deadline=None)
@given(
    replies=st.lists(REPLIES, min_size=1, max_size=4),
    count=st.integers(0, 60),
    window=st.integers(20, 150),
    over_scanning=st.integers(1, 5),
    max_layers=st.integers(1, 8),
)
@example(replies=["- a\n" * 400], count=60, window=20, over_scanning=5, max_layers=8)
def test_it_ends_for_any_reply_and_what_is_left_fits(replies, count, window, over_scanning, max_layers):
    model = ScriptedModel(lambda call: replies[len(model.calls) % len(replies)])
    stride = max(1, window // over_scanning)
    given = outputs(count, stride=stride)
    notes, run = condense(model, given, window=window, stride=stride, capacity=window, max_layers=max_layers)
    assert tokens(notes) <= window
    assert all(0 < node.layer < max_layers for node in run.trace)
    if tokens(n for output in given for n in output.notes) <= window:
        assert not model.calls and [n.evidence for n in notes] == [n.evidence for o in given for n in o.notes]


def test_what_never_shrinks_is_cut_from_the_least_relevant_end_and_reported():
    notes, run = condense(
        ScriptedModel(hostile), outputs(40, r=lambda n: 2 if n % 10 == 3 else 0), reply=200, max_layers=4
    )
    assert tokens(notes) <= 100
    cut = run.coverage(1).truncated
    assert cut and all(entry.tokens > 0 for entry in cut)
    relevant = [n for n in notes if n.evidence.relevance == 2]
    assert relevant and max(node.layer for node in run.trace) == 3


def test_a_layer_that_does_not_shrink_is_followed_by_tighter_ones():
    """First S = W, so that nothing is read twice, then shorter replies."""
    model = ScriptedModel(hostile, slots=1)
    _, run = condense(model, outputs(40), reply=200, max_layers=6)
    read = defaultdict(Counter)
    for node in run.trace:
        read[node.layer].update(piece for piece in node.variables["notes"] if piece not in ("- ", "\n"))
    assert max(read[1].values()) == 5 and max(read[2].values()) == 1
    assert sorted({call.sampling.max_tokens for call in model.calls}) == [25, 200]


def test_a_good_model_needs_few_layers_and_full_strides_only_where_needed():
    notes, run = condense(ScriptedModel(lambda call: "- Ann"), outputs(60))
    assert {node.layer for node in run.trace} == {1}
    assert not run.coverage(1).truncated
    assert [n.evidence.text for n in notes] == ["Ann"] * len(notes)


def test_a_merged_bullet_has_the_spans_and_the_highest_r_of_what_it_says_again():
    given = [
        Output(
            (note("Ann Berg kept the Nordhavn light", at=1, r=1), note("Storms broke the pier in 1901", at=5, r=0)), 20
        ),
        Output((note("Ann Berg came to Nordhavn in 1899", at=9, r=2), note("x " * 200, at=20, r=0)), 20),
    ]
    model = ScriptedModel(lambda _: "- Ann Berg came to Nordhavn and kept the light\n- Storms broke the pier")
    notes, _ = condense(model, given, window=400, stride=400, capacity=100, reply=100)
    keeper, storm = [n.evidence for n in notes]
    assert (keeper.relevance, storm.relevance) == (2, 0)
    assert set(keeper.spans) == {Span(40, 240), Span(360, 560)} and storm.spans == (Span(200, 400),)
    assert keeper.origin == "paraphrase" and keeper.channel == "1"
    assert all(n.nodes for n in notes)


def test_a_merge_starts_when_its_notes_are_there():
    """The last window of layer 0 is late by an hour: all merges but those that need it are over by then."""
    started = []

    def reply(call):
        started.append(asyncio.get_running_loop().time())
        return "- Ann"

    count = 60
    _, run = condense(ScriptedModel(reply), outputs(count), pause=lambda n: 3_600.0 if n == count - 1 else 0.0)
    early = [at for at in started if at < 3_600]
    assert len(started) - len(early) <= 100 // 20 + 1 < len(early)
    assert len(run.trace) == len(started)


@pytest.mark.parametrize("stride", [20, 100])
def test_refused_merges_pass_their_notes_up_once(stride):
    given = outputs(40)
    whole = [n for output in given for n in output.notes]
    model = ScriptedModel(lambda _: "- Ann")
    notes, run = condense(model, given, stride=stride, max_layers=2, budget=1)
    assert not model.calls and tokens(notes) <= 100
    assert len({id(n.evidence) for n in notes}) == len(notes) and all(n in whole for n in notes)
    assert sum(entry.tokens for entry in run.coverage(1).truncated) == tokens(whole) - tokens(notes)


def test_a_merge_that_fails_loses_no_note():
    failing = "lighthouse 20"
    model = ScriptedModel(lambda call: Transient("no") if failing in fenced(call) else "- Ann")
    notes, _ = condense(model, outputs(40), stride=100, capacity=150, retries=0)
    assert any(failing in n.evidence.text for n in notes)


def test_merges_too_long_for_the_model_are_made_in_halves():
    model = ScriptedModel(lambda _: "- Ann", context=260)
    notes, run = condense(model, outputs(100), window=400, stride=400, capacity=400, reply=30)
    assert model.calls and tokens(notes) <= 400
    assert not run.coverage(1).truncated
