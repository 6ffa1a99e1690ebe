"""Notes that say the same become one: nothing is lost, and nothing becomes what it is not."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from convmem.core import Evidence, Span
from convmem.memory.convolution import Note
from convmem.memory.dedupe import exact, near, normalized, united

SPANS = st.integers(0, 6).map(lambda n: Span(10 * n, 10 * n + 10))
EVIDENCE = st.builds(
    Evidence,
    text=st.sampled_from(["Ann kept the light.", "ann  kept the light", "“Ann kept the light”", "Jon owned the mill."]),
    spans=st.lists(SPANS, min_size=1, max_size=2, unique=True).map(lambda spans: tuple(sorted(spans))),
    origin=st.sampled_from(["quote", "paraphrase", "record"]),
    relevance=st.sampled_from([0, 1, 2]),
    score=st.none() | st.floats(0, 1),
    channel=st.sampled_from(["1", "2"]),
)
NOTES = st.lists(st.builds(Note, EVIDENCE, st.just(5), st.lists(st.integers(0, 9), max_size=2).map(tuple)), max_size=8)


def said(notes):
    """What notes say, by what must not be lost of it."""
    found = {}
    for note in notes:
        key = note.evidence.origin, normalized(note.evidence.text)
        spans, nodes, highest = found.get(key, (frozenset(), frozenset(), 0))
        found[key] = spans | set(note.evidence.spans), nodes | set(note.nodes), max(highest, note.evidence.relevance)
    return found


@settings(max_examples=60, deadline=None)
@given(NOTES)
def test_every_text_is_said_once_with_all_spans_and_the_highest_relevance(notes):
    kept = exact(notes)
    assert said(kept) == said(notes) and len(kept) == len(said(notes))
    assert exact(kept) == kept


@settings(max_examples=60, deadline=None)
@given(NOTES.filter(bool), st.randoms(use_true_random=False), st.data())
def test_the_order_of_duplicates_and_how_they_are_grouped_make_no_difference(notes, random, data):
    whole = united(notes)
    at = data.draw(st.integers(0, len(notes)))
    parts = [united(part) for part in (notes[:at], notes[at:]) if part]
    assert united(parts).evidence.spans == whole.evidence.spans
    shuffled = random.sample(notes, len(notes))
    assert united(shuffled).evidence.relevance == whole.evidence.relevance
    assert united(shuffled).nodes == whole.nodes == united(parts).nodes
    assert united(parts).evidence.channel == whole.evidence.channel == united(shuffled).evidence.channel


def vectors(*degrees):
    angles = np.radians(degrees)
    return np.stack([np.cos(angles), np.sin(angles)], axis=1).astype(np.float32)


def note(text, at, origin="paraphrase", r=1):
    return Note(Evidence(text, (Span(at, at + 5),), origin, r), 3, (at,))


def test_near_notes_become_one_at_the_place_of_the_first():
    notes = [note("a", 0), note("b", 10, r=2), note("c", 20), note("d", 30)]
    kept = near(notes, vectors(0, 10, 80, 85), 0.95)
    assert [n.evidence.text for n in kept] == ["a", "c"]
    assert kept[0].evidence.relevance == 2 and kept[0].evidence.spans == (Span(0, 5), Span(10, 15))
    assert kept[1].nodes == (20, 30)


def test_a_paraphrase_is_never_made_a_quotation():
    notes = [note("a", 0, "quote"), note("a", 10, "paraphrase")]
    assert near(notes, vectors(0, 0), 0.5) == notes == exact(notes)


@settings(max_examples=40, deadline=None)
@given(NOTES, st.lists(st.integers(0, 359), min_size=8, max_size=8), st.floats(-1, 1))
def test_no_two_survivors_of_one_origin_are_near_and_no_span_is_lost(notes, degrees, threshold):
    kept = near(notes, vectors(*degrees[: len(notes)]), threshold)
    assert {span for n in kept for span in n.evidence.spans} == {span for n in notes for span in n.evidence.spans}
    assert len(kept) == len(notes) or threshold <= 1
    if threshold <= -1:
        assert len(kept) == len({n.evidence.origin for n in notes})


def test_nothing_is_near_nothing():
    assert near([], np.zeros((0, 2), np.float32), 0.9) == exact([]) == []
