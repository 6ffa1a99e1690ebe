"""The pass that knows no question: what is stored of a window is what comes out of it again, wherever it stands."""

from contextlib import closing

from hypothesis import given, settings
from hypothesis import strategies as st

from convmem.core import Completion, Usage
from convmem.document import Document, Source
from convmem.memory.indexing import Pass, contents, named
from convmem.model import Cache
from convmem.run import simulate
from tests.support.reading import by_role, fenced
from tests.support.scripted import ScriptedModel, make_run

HOW = Pass("records", 60, 100)
SENTENCES = st.lists(st.sampled_from(["Ann kept the light. ", "Jon sold the mill.\n\n", "It rained. "]), min_size=1)


def told(call):
    """Each sentence as a record of its first word."""
    lines = (line.strip().partition(" ") for line in fenced(call).replace("\n", " ").split(".") if line.strip())
    return "\n".join(f"{who} | does | {what}" for who, _, what in lines) or "NONE"


def held(document, cache, model):
    async def main():
        run = make_run(model, document, cache=cache)
        try:
            return await contents(document, HOW, run)
        finally:
            run.close()

    return simulate(main())


@settings(max_examples=15, deadline=None)
@given(SENTENCES.map("".join), SENTENCES.map("".join))
def test_what_was_stored_is_what_was_read_also_behind_another_source(tmp_path_factory, text, before):
    model = ScriptedModel(by_role(records=told))
    with closing(Cache(tmp_path_factory.mktemp("index") / "calls.sqlite")) as cache:
        alone = Document((Source("a", text),))
        first, again = held(alone, cache, model), held(alone, cache, model)
        behind = Document((Source("b", before), Source("a", text)))
        moved = held(behind, cache, model)
    assert first.notes == again.notes and (again.added, again.stored) == (0, len(again.windows))
    shift = len(before) + len(Document.joint)
    assert [(note.text, note.spans[0].start - shift) for note in moved.notes[-len(first.notes) :]] == [
        (note.text, note.spans[0].start) for note in first.notes
    ]
    for note in moved.notes:
        assert behind.text(note.spans[0]).split()[0] == note.text.partition(" ")[0]


def test_equal_windows_are_read_once():
    model = ScriptedModel(by_role(records=told))
    text = "Ann kept the light. " * 10
    with closing(Cache.temporary()) as cache:
        found = held(Document((Source("a", text), Source("b", text))), cache, model)
    assert len(model.calls) == 1 < len(found.windows) and found.added == len(found.windows)


def test_many_sources_have_a_short_name():
    assert named(Document((Source("a.txt", "x"), Source("b.txt", "y"), Source("c.txt", "z")))) == "a.txt and 2 more"


def test_a_reply_that_was_cut_off_loses_its_last_row_alone():
    cut = Completion("Ann | kept | the light\nJon | sold | the mi", "length", Usage(50, 0, HOW.reply))
    with closing(Cache.temporary()) as cache:
        text = "Ann kept the light. Jon sold the mill."
        found = held(Document.from_text(text), cache, ScriptedModel(lambda _: cut))
    assert [note.text for note in found.notes] == ["Ann | kept | the light"]
