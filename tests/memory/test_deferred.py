"""What is undecided waits for the answer, once, within its room, until it is shown to be irrelevant."""

from hypothesis import given, settings
from hypothesis import strategies as st

from convmem.core import Evidence, Span
from convmem.document import Window
from convmem.memory.convolution import Note
from convmem.memory.deferred import beside, undecided, without_irrelevant
from convmem.memory.kernel import Reading

SPANS = st.integers(0, 9).map(lambda n: (Span(10 * n, 10 * n + 10),))
NOTES = st.lists(
    st.builds(
        Note,
        st.builds(
            Evidence, text=st.just("so"), spans=SPANS, origin=st.sampled_from(["quote", "paraphrase", "record"]),
            relevance=st.sampled_from([0, 1, 2]),
        ),
        st.integers(1, 9),
        st.just(()),
    ),
    max_size=9,
)  # fmt: skip


def reading(start: int, end: int, r: int) -> Reading:
    return Reading(Window(0, (start, end), Span(start, end)), "2", r)


READINGS = st.lists(
    st.builds(lambda at, size, r: reading(at, at + size, r), st.integers(0, 90), st.integers(1, 40), st.integers(0, 2)),
    max_size=6,
)


@given(NOTES)
def test_only_quotes_of_windows_with_r_1_are_undecided(notes):
    kept = undecided(notes)
    assert all(note.evidence.relevance == 1 and note.evidence.origin == "quote" for note in kept)
    assert undecided(kept) == kept
    wanted = {n.evidence.spans for n in notes if (n.evidence.relevance, n.evidence.origin) == (1, "quote")}
    assert sorted(note.evidence.spans for note in kept) == sorted(wanted)


@settings(max_examples=60)
@given(NOTES, READINGS)
def test_only_what_was_read_whole_and_each_time_as_irrelevant_is_given_up(notes, readings):
    kept = without_irrelevant(notes, readings)
    for note in notes:
        (span,) = note.evidence.spans
        judged = [
            each.r for each in readings if each.window.span.start <= span.start <= span.end <= each.window.span.end
        ]
        assert (note in kept) == (not judged or any(judged))


@settings(max_examples=60)
@given(NOTES.map(undecided), NOTES, st.integers(0, 40))
def test_what_the_summaries_quote_is_not_carried_twice_and_the_room_is_kept(pending, summaries, capacity):
    kept, cut = beside(pending, summaries, capacity)
    quoted = {note.evidence.spans for note in summaries if note.evidence.origin == "quote"}
    left = [note for note in pending if note.evidence.spans not in quoted]
    assert all(note in left for note in kept)
    assert sum(note.tokens for note in kept) <= capacity
    assert sum(note.tokens for note in kept) + cut == sum(note.tokens for note in left)
