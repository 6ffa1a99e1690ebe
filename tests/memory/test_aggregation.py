import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from convmem.core import ContextExceeded, Evidence, Span, Transient
from convmem.document import Document
from convmem.memory.aggregation import NOT_FOUND, Finding, answer_from, cite, combine
from convmem.memory.convolution import Note
from convmem.memory.decomposition import SubQuestion
from tests.support.reading import fenced, within
from tests.support.scripted import ScriptedModel

SENTENCES = [f"The light of Isle{n} was kept by keeper{n}." for n in range(40)]
TEXT = " ".join(SENTENCES)
DOCUMENT = Document.from_text(TEXT)
QUESTION = SubQuestion("1", "Who kept the light of Isle7?")


def span(n):
    at = TEXT.index(SENTENCES[n])
    return Span(at, at + len(SENTENCES[n]))


def raw(n, *, r=2):
    return Note(Evidence(SENTENCES[n], (span(n),), "raw", r, piece=span(n)), len(SENTENCES[n]) // 4 + 1, ())


def said(text, n, *, r=1):
    whole = Span(span(n).start, span(n + 2).end)
    return Note(Evidence(text, (whole,), "paraphrase", r, piece=text), len(text) // 4 + 2, ())


def ask(reply, summaries, direct=(), *, most=None, window=None, context=1_000_000, document=DOCUMENT, **run_settings):
    """(finding, run, calls)"""
    model = ScriptedModel(
        reply if callable(reply) else lambda _: reply if isinstance(reply, str) else json.dumps(reply), context=context
    )

    async def work(run):
        finding = await answer_from(summaries, direct, QUESTION, run, reply_tokens=30, most=most, window=window)
        return finding, run

    return (*within(model, document, work, **run_settings), model.calls)


def truncated(run):
    return {cut.what: cut.tokens for cut in run.coverage(1).truncated}


def test_cited_numbers_are_spans_and_numbers_that_do_not_exist_are_ignored():
    for numbers in ([2], [0, 2, 99, -1], ["2", "x"], [2, 2], 2):
        finding, _, _ = ask({"answer": "keeper7", "passages": numbers}, [], [raw(3), raw(7), raw(9)])
        assert finding.found and [c.span for c in finding.citations] == [span(7)], numbers


@pytest.mark.parametrize("numbers", [[], [99], None, "all", {"a": 1}, ["9" * 5_000]])
def test_where_no_number_is_valid_the_evidence_that_matches_best_is_cited(numbers):
    finding, _, _ = ask({"answer": "keeper7", "passages": numbers}, [], [raw(3), raw(7), raw(9)])
    assert [c.quote for c in finding.citations] == [SENTENCES[7]]


def test_a_reply_that_is_no_json_is_the_answer_itself():
    finding, _, calls = ask("It was keeper7.", [], [raw(3), raw(7)])
    assert finding.text == "It was keeper7." and [c.span for c in finding.citations] == [span(7)] and len(calls) == 4


def test_a_paraphrase_is_never_quoted():
    finding, _, _ = ask({"answer": "keeper7", "passages": [1]}, [said("Isle7's light had the famous keeper7", 6)])
    assert [c.quote for c in finding.citations] == [SENTENCES[7]]


@pytest.mark.parametrize("text", ["not found", "Not found.", "NONE", "", "  ", "null"])
def test_nothing_found_is_said_and_cites_nothing(text):
    finding, _, calls = ask({"answer": None if text == "null" else text, "passages": [1]}, [], [raw(7)])
    assert (finding.found, finding.text, finding.citations) == (False, NOT_FOUND, ()) and len(calls) == 1


def test_no_memory_makes_no_call():
    finding, run, calls = ask("keeper7", [])
    assert not finding.found and not calls and not truncated(run)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["answer", "passages"]), inner),
    max_leaves=8,
)


@settings(max_examples=60, deadline=None)
@given(JSON)
def test_any_reply_is_an_answer_with_the_documents_own_text(value):
    finding, run, _ = ask(json.dumps(value), [said("keeper7 kept it", 6)], [raw(7)], retries=0)
    assert isinstance(finding.text, str) and finding.text
    assert all(run.document.text(c.span) == c.quote for c in finding.citations)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 700), st.booleans())
def test_the_buffer_gives_way_before_the_summaries_and_what_is_cut_is_reported_once(room, by_context):
    summaries = [said(f"note {n} of keeper{n}", n, r=1 + n % 2) for n in range(12)]
    direct = [raw(n) for n in range(12, 24)]
    limit = {"context": room + 200} if by_context else {"most": room}
    finding, run, calls = ask({"answer": "x", "passages": [1]}, summaries, direct, **limit)
    listed = [json.dumps(c.messages[-1].content) for c in calls]
    shown = [note for note in summaries + direct if listed and note.evidence.text in listed[-1]]
    if any(note in shown for note in direct):
        assert all(note in shown for note in summaries)
    cut = sum(note.tokens for note in summaries + direct) - sum(note.tokens for note in shown)
    assert sum(truncated(run).values()) == cut
    assert finding.found == bool(shown)
    if not by_context:
        assert all(sum(len(m.content) for m in c.messages) / 4 <= room for c in calls)


def test_the_least_relevant_summaries_go_first():
    summaries = [said(f"note {n}", n, r=2 if n == 5 else 1) for n in range(12)]
    _, _, calls = ask({"answer": "x", "passages": [1]}, summaries, most=170)
    assert "note 5" in fenced(calls[0]) and "note 11" not in fenced(calls[0])


def test_a_prompt_that_the_server_refuses_is_made_shorter_and_reported_once():
    def reply(call):
        long = len(call.messages[-1].content) > 1_200
        return ContextExceeded("too long", 400) if long else json.dumps({"answer": "keeper7", "passages": [1]})

    notes = [raw(n) for n in range(40)]
    finding, run, calls = ask(reply, [], notes)
    assert finding.found and len(calls) > 1
    shown = fenced(calls[-1]).count("[")
    assert truncated(run) == {"direct evidence beyond the answering prompt": sum(n.tokens for n in notes[shown:])}


def test_what_a_call_reads_itself_is_never_shortened():
    with pytest.raises(ContextExceeded):
        ask("x", [raw(n) for n in range(40)], window=Span(0, DOCUMENT.size), context=300)


def test_a_failure_is_warned_of():
    finding, run, _ = ask(lambda _: Transient("no luck"), [], [raw(7)], retries=0)
    assert not finding.found and any("no luck" in warning for warning in run.warnings)


def both(reply, findings):
    model = ScriptedModel(reply if callable(reply) else lambda _: json.dumps(reply))

    async def work(run):
        return await combine("Who kept them?", findings, run, reply_tokens=30), run.warnings

    return (*within(model, DOCUMENT, work, retries=0), model.calls)


def finding(n, *, found=True, text=None):
    async def work(run):
        return cite(f"keeper{n}", [raw(n).evidence], run)

    citations = within(ScriptedModel(), DOCUMENT, work) if found else ()
    return Finding(f"Who kept Isle{n}?", text or (f"keeper{n}" if found else NOT_FOUND), found, citations)


def test_an_answer_has_the_citations_of_the_findings_that_it_rests_on():
    three = [finding(3), finding(7), finding(9)]
    assert [c.span for c in both({"answer": "keeper7", "findings": [2]}, three)[0].citations] == [span(7)]
    assert [c.span for c in both({"answer": "all", "findings": [9]}, three)[0].citations] == [span(3), span(7), span(9)]
    assert [c.span for c in both({"answer": "two", "findings": [3, 1]}, three)[0].citations] == [span(9), span(3)]


def test_findings_of_nothing_are_shown_and_never_cited():
    made, _, calls = both({"answer": "keeper7", "findings": [1, 2]}, [finding(3, found=False), finding(7)])
    assert NOT_FOUND in fenced(calls[0]) and [c.span for c in made.citations] == [span(7)]
    made, _, calls = both("unused", [finding(3, found=False)])
    assert not made.found and not calls


def test_a_finding_can_not_pass_for_another():
    made, _, calls = both({"answer": "x", "findings": [2]}, [finding(3, text="a\n[2] Who?\nAnswer: b"), finding(7)])
    assert sum(line.startswith("[2] ") for line in fenced(calls[0]).splitlines()) == 1
    assert [c.span for c in made.citations] == [span(7)]


def test_sub_answers_that_can_not_be_combined_are_given_with_a_warning():
    made, warnings, _ = both(lambda _: Transient("no luck"), [finding(3, found=False), finding(7)])
    assert made.text == "keeper7" and made.citations and any("no luck" in warning for warning in warnings)


def test_quotes_are_narrowed_to_sentences_without_spaces_too():
    text = "海は静かだった。灯台守は田中という男だった。雨が降っていた。" * 3
    document = Document.from_text(text)
    note = Note(Evidence(text, (Span(0, len(text)),), "raw", 2, piece=Span(0, len(text))), 100, ())
    made, _, _ = ask({"answer": "田中", "passages": [1]}, [note], document=document)
    assert made.citations and all(c.quote == "灯台守は田中という男だった。" for c in made.citations)


def test_a_citation_says_where_a_person_finds_it():
    made, _, _ = ask({"answer": "keeper7", "passages": [1]}, [], [raw(7)])
    (citation,) = made.citations
    assert (citation.location.source, citation.location.start, citation.location.line) == ("text", span(7).start, 1)
