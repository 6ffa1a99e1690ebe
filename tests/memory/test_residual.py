"""The residual buffer is the union of the windows that scored 2, as far as there is room for it."""

from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from convmem.core import Span
from convmem.document import Document, stride_windows
from convmem.memory.kernel import Reading
from convmem.memory.residual import residual_buffer
from tests.support.scripted import FourCharacters

SENTENCES = "".join(f"Keeper {n:03} kept light {n % 7}. " for n in range(120))
DOCUMENT, TOKENIZER = Document.from_text(SENTENCES), FourCharacters()
SIZE = DOCUMENT.count(Span(0, DOCUMENT.size), TOKENIZER)


def buffer(relevance, *, window=60, stride=12, capacity=SIZE):
    windows = stride_windows(DOCUMENT, TOKENIZER, window, stride)
    readings = [Reading(w, "1", relevance[i % len(relevance)]) for i, w in enumerate(windows)]
    return residual_buffer(readings, capacity, DOCUMENT, TOKENIZER), readings


def characters(spans):
    return {at for span in spans for at in range(*span)}


RELEVANCE = st.lists(st.sampled_from([0, 1, 2, 2]), min_size=1, max_size=60)


@settings(max_examples=80, deadline=None)
@given(RELEVANCE, st.integers(8, 200), st.integers(1, 5))
def test_it_is_the_union_of_the_windows_with_r_2(relevance, window, over_scanning):
    kept, readings = buffer(relevance, window=window, stride=max(1, window // over_scanning))
    assert characters(kept.spans) == characters(r.window.span for r in readings if r.r == 2)
    assert kept.tokens == sum(DOCUMENT.count(span, TOKENIZER) for span in kept.spans) and kept.cut_tokens == 0
    assert all(a.end < b.start for a, b in pairwise(kept.spans))


@settings(max_examples=80, deadline=None)
@given(RELEVANCE, st.integers(8, 200), st.integers(1, 5), st.integers(0, SIZE))
def test_it_never_exceeds_its_capacity_and_says_what_was_cut(relevance, window, over_scanning, capacity):
    kept, readings = buffer(relevance, window=window, stride=max(1, window // over_scanning), capacity=capacity)
    assert kept.tokens <= capacity
    whole = characters(r.window.span for r in readings if r.r == 2)
    if len(whole) > 4 * capacity + 4:
        assert kept.cut_tokens > 0
        assert sum(DOCUMENT.count(span, TOKENIZER) for span in kept.spans) == kept.tokens
        assert all(DOCUMENT.widen_to_sentences(span) == span for span in kept.spans)


def test_on_overflow_the_pieces_that_most_of_their_windows_voted_for_stay():
    """Windows 3 to 6 of five-fold overlapping ones scored 2: what four of them share outranks what one saw."""
    kept, readings = buffer([0, 0, 0, 2, 2, 2, 2] + [0] * 200, capacity=60)
    votes = [r.window.span for r in readings if r.r == 2]
    assert kept.cut_tokens > 0
    assert characters([Span(votes[-1].start, votes[0].end)]) <= characters(kept.spans)
    assert votes[0].start < kept.spans[0].start and kept.spans[-1].end < votes[-1].end


def test_equal_votes_stay_in_document_order():
    kept, readings = buffer([2], window=60, stride=60, capacity=130)
    assert kept.spans[0].start == readings[0].window.span.start and len(kept.spans) == 1


def test_nothing_relevant_or_no_room_keeps_nothing():
    assert buffer([0, 1])[0].spans == ()
    assert buffer([2], capacity=0)[0].spans == ()
    assert buffer([2], capacity=0)[0].cut_tokens == SIZE
