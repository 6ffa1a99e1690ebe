"""What a document says stays between its tags, in every prompt."""

import re

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from convmem.prompts import fence, load, neutralize, roles

TAGS = ("window", "notes", "passages", "findings")
OURS = {"question", "c_max", "words", "references", "operations", "record"}
"""Variables whose text comes from the user, the configuration or a data set, and never from a document."""
VARIABLE = re.compile(r"\{\{(<?)(\w+)(>?)\}\}")
SPECIAL = [
    "<|im_start|>",
    "<|im_end|>",
    "<|endoftext|>",
    "<|eot_id|>",
    "<｜User｜>",
    "</s>",
    "<s>",
    "<bos>",
    "[INST]",
    "[/INST]",
    "<<SYS>>",
    "<start_of_turn>",
    "<end_of_turn>",
    "<think>",
    "</think>",
    "<tool_call>",
    "[TOOL_CALLS]",
]
CLOSING = ["</window>", "</ window >", "<\t/WINDOW>", "</window-2>", "</window-3 >", "</passages>", "window-2", "-2"]
PARTS = ["<", "</", ">", " ", "\n", "/", "|", "<|", "|>", "s>", "im_end", "{{question}}", "{{<window>}}"]
INVISIBLE = ["\x00", "\x1b[2J", "\u202e", "\u200b"]
HOSTILE = st.lists(
    st.sampled_from([*SPECIAL, *TAGS, *CLOSING, *PARTS, *INVISIBLE]) | st.text(max_size=6), max_size=14
).map("".join)


def template_variables(template):
    return {
        found[1]: bool(found[0]) for found in VARIABLE.findall(template.system + template.user) for found in [found]
    }


@pytest.mark.parametrize("name", sorted(roles()))
def test_every_prompt_renders_with_exactly_its_variables(name):
    template = load(name)
    variables = template_variables(template)
    given = {variable: f"«{variable}»" for variable in variables}
    messages = template.render(given)
    text = "\n".join(message.content for message in messages)
    assert "{{" not in text and "}}" not in text
    assert all(value in text for value in given.values())
    assert [message.role for message in messages] in (["system", "user"], ["user"])
    assert template.id == f"{name}@{template.version}" and template.version >= 1
    for variable in variables:
        with pytest.raises(KeyError):
            template.render({other: "" for other in given if other != variable})


@pytest.mark.parametrize("name", sorted(roles()))
def test_what_comes_from_a_document_is_fenced_and_first(name):
    template = load(name)
    variables = template_variables(template)
    assert {variable for variable, fenced in variables.items() if not fenced} <= OURS
    assert not any(
        "<" in opened for opened, _, closed in VARIABLE.findall(template.system + template.user) if not closed
    )
    if "window" in variables:
        assert template.user.startswith("{{<window>}}")
        assert "question" not in variables or template.user.index("{{question}}") > template.user.index("{{<window>}}")


def test_prompts_on_a_window_share_their_beginning():
    on_window = [load(name) for name in roles() if "window" in template_variables(load(name))]
    assert len({(template.system, template.user.partition("}}")[0]) for template in on_window}) == 1


@settings(max_examples=300)
@given(st.sampled_from(TAGS), HOSTILE)
@example("window", "</window>")
@example("window", "</window-2> < / WINDOW\n>")
@example("window", "<")
def test_no_text_closes_its_fence(tag, text):
    fenced = fence(tag, text)
    first, *inner, last = fenced.split("\n")
    assert first == "<" + last[2:] and re.fullmatch(rf"</{tag}(-\d+)?>", last)
    name = last[2:-1]
    assert not re.search(rf"<\s*/?\s*{re.escape(name)}(?![\w-])", "\n".join(inner), re.IGNORECASE)
    assert fence(tag, text) == fenced


@settings(max_examples=300)
@given(HOSTILE)
def test_no_control_token_survives_and_nothing_else_is_lost(text):
    safe = neutralize(text)
    assert not any(token in safe for token in SPECIAL)
    assert safe.replace(" ", "") == text.replace(" ", "") and neutralize(safe) == safe


@settings(max_examples=60)
@given(HOSTILE, HOSTILE)
def test_nothing_from_a_document_leaves_its_place(window, question):
    template = load("relevance")
    plain = template.render({"window": "WINDOW", "question": "Who?"})
    hostile = template.render({"window": window, "question": "Who?"})
    assert hostile == template.render({"window": window, "question": "Who?"})
    assert hostile[0] == plain[0]
    tail = plain[1].content.partition("</window>")[2]
    assert hostile[1].content.endswith(tail)
    assert hostile[1].content[: -len(tail)] == fence("window", window)
    assert template.render({"window": "x", "question": question})[1].content.count("<window>") == 1 + question.count(
        "<window>"
    )


def test_an_unknown_prompt_is_an_error():
    with pytest.raises(FileNotFoundError):
        load("none such")
