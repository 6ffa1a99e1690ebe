"""Records are joined without loss, whatever the order and grouping; rows are read in every shape they come in."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from convmem.core import Evidence, Malformed, Span
from convmem.document import Document
from convmem.memory.convolution import Note
from convmem.memory.records import Row, by_subject, join, joined, plain, records, rows

TEXT = "Ann kept the light at Skerry.\n\nShe retired in 1921. The mill belonged to Jon, who sold it in 1930.\n"
NAMES, VALUES = ("Ann", "The mill", "mill", "ANN"), ("1921", "Jon", "jon.", "Skerry")
EVIDENCE = st.builds(
    lambda row, at, r, score: Evidence(str(row), (Span(at, at + 3),), "record", r, score, piece=str(row)),
    st.builds(Row, st.sampled_from(NAMES), st.sampled_from(["year", "Keeper"]), st.sampled_from(VALUES)),
    st.integers(0, 9),
    st.sampled_from([0, 1, 2]),
    st.none() | st.floats(0, 1),
)
PLAIN = st.builds(lambda text, at: Evidence(text, (Span(at, at + 9),), "paraphrase", piece=text),
                  st.sampled_from(["Ann kept it", "ann kept it."]), st.integers(0, 5))  # fmt: skip
SETS = st.lists(st.builds(Note, EVIDENCE | PLAIN, st.just(7), st.lists(st.integers(0, 5), max_size=2).map(tuple)),
                max_size=7)  # fmt: skip


@settings(max_examples=50, deadline=None)
@given(SETS, SETS, SETS)
def test_the_join_is_associative_commutative_and_idempotent(a, b, c):
    whole = joined([*a, *b, *c])
    assert joined([*joined([*a, *b]), *c]) == whole == joined([*a, *joined([*b, *c])])
    assert joined([*b, *a]) == joined([*a, *b])
    assert joined([*whole, *whole]) == whole


@settings(max_examples=50, deadline=None)
@given(SETS)
def test_no_value_no_span_and_no_call_is_lost(notes):
    def said(notes):
        found = {}
        for note in notes:
            row = Row.of(note.evidence.text) if note.evidence.origin == "record" else None
            key = (*row.subject, row.value.casefold().strip(".")) if row else note.evidence.text.casefold().strip(".")
            found.setdefault(key, set()).update(note.evidence.spans, note.nodes)
        return found

    kept = joined(notes)
    assert said(kept) == said(notes) and len(kept) == len(said(notes))


@settings(max_examples=50, deadline=None)
@given(SETS)
def test_values_of_one_subject_stand_side_by_side(notes):
    groups = [{Row.of(n.evidence.text).subject for n in g} for g in by_subject(joined(notes)) if is_record(g[0])]
    assert all(len(subjects) == 1 for subjects in groups)
    assert len(groups) == len(set().union(*groups))


def is_record(note):
    return note.evidence.origin == "record"


@settings(max_examples=60, deadline=None)
@given(SETS, st.integers(0, 60))
def test_a_contradiction_is_kept_whole_or_not_at_all(notes, capacity):
    kept, cut = join(notes, capacity)
    whole = joined(notes)
    assert sum(note.tokens for note in kept) <= capacity
    assert list(by_subject(kept)) == [group for group in by_subject(whole) if group[0] in kept]
    assert cut <= sum(note.tokens for note in whole) - sum(note.tokens for note in kept)
    if capacity >= sum(note.tokens for note in whole):
        assert kept == whole and not cut


ROW = "Ann | retired in | 1921"


@pytest.mark.parametrize(
    "reply",
    [
        "Ann | retired in | 1921",
        "- Ann | retired in | 1921",
        "1. Ann|retired in|1921",
        "entity | attribute | value\nAnn | retired in | 1921",
        "| entity | attribute | value |\n|---|:---:|---|\n| Ann | retired in | 1921 |",
        "```\nAnn | retired in | 1921\n```",
        json.dumps({"records": [{"entity": "Ann", "attribute": "retired in", "value": 1921}]}),
        json.dumps({"entity": "Ann", "attribute": "retired in", "value": "1921"}),
        json.dumps([["Ann", "retired in", "1921"]], indent=1),
        '```json\n[{"entity": "Ann", "attribute": "retired in", "value": "1921"}]\n```',
    ],
)
def test_a_row_is_read_in_any_shape(reply):
    assert rows(reply) == [ROW]


def test_json_lines_are_rows_each():
    lines = [{"entity": "Ann", "attribute": "retired in", "value": value} for value in ("1921", "1922")]
    assert rows("\n".join(map(json.dumps, lines))) == [ROW, "Ann | retired in | 1922"]


@pytest.mark.parametrize("reply", ["", " \n", "{", '{"facts": 3}', "[", '"'.join("[{[")])
def test_what_can_not_be_read_is_malformed_and_its_lines_stay_notes(reply):
    with pytest.raises(Malformed):
        rows(reply)
    assert all(isinstance(line, str) for line in plain(reply))


def test_a_line_that_is_no_row_stays_a_note_and_nothing_is_nothing():
    assert rows("Ann | retired in | 1921\nThe mill was sold.") == [ROW, "The mill was sold."]
    assert rows("NONE") == []


@settings(max_examples=60, deadline=None)
@given(st.text(alphabet=st.sampled_from('ab |-\n{}[]",:`1'), max_size=40))
def test_any_reply_ends_in_rows_or_one_error(reply):
    try:
        found = rows(reply)
    except Malformed:
        found = plain(reply)
    assert all(found)


def test_a_record_has_the_sentence_that_states_it_as_its_span():
    document = Document.from_text(TEXT)
    whole = Span(0, document.size)
    found = records([ROW, "the mill | owner | Jon", "Ann | eye colour | blue", "The mill was sold."], whole, document)
    said = [document.text(evidence.spans[0]) for evidence in found]
    assert said[0] == "She retired in 1921."
    assert said[1].startswith("The mill belonged to Jon")
    assert said[2] == "Ann kept the light at Skerry."
    assert [evidence.origin for evidence in found] == ["record", "record", "record", "paraphrase"]
    assert found[3].spans == (whole,)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.text(max_size=30), max_size=4), st.integers(0, len(TEXT) - 1), st.integers(1, 60))
def test_every_record_lies_in_its_window(texts, start, size):
    document = Document.from_text(TEXT)
    window = Span(start, min(start + size, document.size))
    for evidence in records(texts, window, document):
        assert all(window.start <= span.start < span.end <= window.end for span in evidence.spans)
