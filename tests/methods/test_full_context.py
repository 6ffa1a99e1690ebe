import json

import pytest

from convmem.core import ConvMemError, Transient
from convmem.document import Document
from convmem.methods import method
from convmem.methods.full_context import Unavailable
from convmem.model import Cache
from convmem.run import RunSettings, simulate
from tests.support.reading import ANSWERS, QUESTION, TEXT, by_role, reader
from tests.support.scripted import ScriptedModel, completion


def answer(model, text=TEXT, *, settings=None, **config):
    full = method("full-context")
    asked = full(full.Config(**config)).answer(
        Document.from_text(text), QUESTION, model=model, cache=Cache.temporary(), settings=RunSettings(**settings or {})
    )
    return simulate(asked)


def test_one_call_reads_everything():
    model = ScriptedModel(reader)
    made = answer(model)
    assert all(name in made.text for name in ANSWERS) and len(model.calls) == 1
    assert made.coverage.read_tokens == made.coverage.tokens and not made.coverage.truncated
    assert all(TEXT[c.span.start : c.span.end] == c.quote for c in made.citations) and made.citations


@pytest.mark.parametrize("context", [300, 1_000])
def test_a_document_beyond_the_context_is_unavailable(context):
    model = ScriptedModel(reader, context=context)
    with pytest.raises(Unavailable, match="truncate=middle"):
        answer(model)
    assert not model.calls


def test_a_server_that_reads_only_part_of_it_is_not_trusted():
    def reply(call):
        whole = reader(call)
        return completion(call, whole.text, read=400)

    with pytest.raises(Unavailable):
        answer(ScriptedModel(reply))


def test_the_middle_may_be_left_out_and_is_reported():
    model = ScriptedModel(by_role(direct=lambda call: json.dumps({"answer": "rain", "passages": [1]})), context=1_000)
    made = answer(model, truncate="middle", answer_tokens=50)
    (prompt,) = [call.messages[-1].content for call in model.calls]
    assert "Isleak" in prompt and "Isleft" in prompt and "Islecp" not in prompt
    (left_out,) = made.coverage.truncated
    assert made.coverage.read_tokens + left_out.tokens == made.coverage.tokens
    assert 0 < left_out.tokens < made.coverage.tokens


@pytest.mark.parametrize("truncate", ["never", "middle"])
def test_a_call_that_fails_has_read_nothing(truncate):
    with pytest.raises(ConvMemError, match="no luck"):
        answer(ScriptedModel(lambda _: Transient("no luck")), truncate=truncate, settings={"retries": 0})


def test_a_budget_below_its_one_call_is_an_error():
    with pytest.raises(ConvMemError, match="budget"):
        answer(ScriptedModel(reader), settings={"budget": 500})
