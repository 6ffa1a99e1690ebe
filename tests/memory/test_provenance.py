"""Where the notes of a memory are from: tracked as it is rewritten, and cited in the document's own words."""

from convmem.core import Span
from convmem.memory.provenance import Provenance, notes
from tests.support.reading import within
from tests.support.scripted import ScriptedModel

FIRST = "Ann Berg kept the light at Nordhavn. It rained for nine days."
SECOND = "The mill was sold to Jon in 1899. A storm broke the pier."
THIRD = "Ann Berg was born at Sandvik. The herring came late."
DOCUMENT = f"{FIRST}\n{SECOND}\n{THIRD}"
SPANS = [Span(at, at + len(text)) for text in (FIRST, SECOND, THIRD) if (at := DOCUMENT.find(text)) >= 0]


def cited(claim, *memories, cut=0):
    """The quotes for a claim after the memory held each of ``memories`` in turn; sections end ``cut`` too early."""

    async def work(run):
        provenance = Provenance()
        for memory, span in zip(memories, SPANS, strict=False):
            provenance.rewritten({"memory": memory}, Span(span.start, span.end - cut))
        return [citation.quote for citation in provenance.cite(claim, [memories[-1]], run)]

    return within(ScriptedModel(), DOCUMENT, work)


def test_notes_are_sentences_or_entries_that_say_something():
    assert notes("- Ann kept it.\n- NONE\n- Jon had the mill, and sold it.") == [
        "- Ann kept it.", "- Jon had the mill, and sold it."
    ]  # fmt: skip
    assert notes("") == notes("Nothing.") == []


def test_a_note_is_from_the_section_after_which_it_came():
    provenance = Provenance()
    first = provenance.rewritten({"memory": "Ann kept the light."}, SPANS[0])
    second = provenance.rewritten({"memory": "Ann kept the light. Jon bought the mill."}, SPANS[1])
    assert [(note.text, note.spans, note.origin) for note in (*first, *second)] == [
        ("Ann kept the light.", (SPANS[0],), "paraphrase"),
        ("Jon bought the mill.", (SPANS[1],), "paraphrase"),
    ]
    assert provenance.rewritten({"memory": "Jon bought the mill."}, SPANS[2]) == []


def test_a_note_said_again_in_other_words_keeps_where_it_was_from():
    provenance = Provenance()
    provenance.rewritten({"memory": "Ann Berg kept the light at Nordhavn."}, SPANS[0])
    (again,) = provenance.rewritten({"memory": "The light at Nordhavn: Ann Berg kept it for years."}, SPANS[2])
    assert again.spans == (SPANS[0], SPANS[2])


def test_texts_under_other_keys_are_other_texts():
    provenance = Provenance()
    provenance.rewritten({"s1": "Ann Berg kept the light."}, SPANS[0])
    (new,) = provenance.rewritten({"s1": "Ann Berg kept the light.", "s2": "Ann Berg kept the light well."}, SPANS[1])
    assert new.spans == (SPANS[1],)


def test_the_sentences_behind_the_notes_that_say_most_of_the_claim_are_cited():
    memory = "Ann kept the light at Nordhavn. Jon bought the mill in 1899."
    assert cited("Who kept the light? Ann", "Ann kept the light at Nordhavn.", memory) == [
        "Ann Berg kept the light at Nordhavn."
    ]
    assert cited("When did Jon buy the mill? 1899", "Ann kept the light at Nordhavn.", memory) == [
        "The mill was sold to Jon in 1899."
    ]


def test_two_places_that_a_claim_needs_are_both_cited():
    memories = ["Ann Berg kept the light at Nordhavn."] * 2 + [
        "Ann Berg kept the light at Nordhavn. Ann Berg was born at Sandvik."
    ]
    quotes = cited("Where was the woman born who kept the light? Sandvik", *memories)
    assert set(quotes) == {"Ann Berg kept the light at Nordhavn.", "Ann Berg was born at Sandvik."}


def test_a_sentence_that_a_section_cut_is_cited_whole():
    assert cited("When was the mill sold? 1899", "", "The mill was sold in 1899.", cut=30) == [
        "The mill was sold to Jon in 1899."
    ]


def test_a_memory_without_notes_cites_nothing():
    assert cited("Who?", "", "NONE") == []
