"""What all agents have in common that read a document section by section."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from convmem.core import ContextExceeded, ConvMemError, EvidenceFound, Transient, WindowRead
from convmem.document import Document, stride_windows
from convmem.memory.extraction import extract
from convmem.methods import Facts, method
from convmem.model import Cache
from convmem.prompts import neutralize
from tests.support.agents import POLICIES, QUESTION, lines, model, remembering, reply, shown, solve
from tests.support.reading import Words
from tests.support.scripted import ScriptedModel, prompt_tokens

NAMES = sorted(POLICIES)
DOCUMENT = lines(50)  # 500 words
SECTIONS = {"chunk_tokens": 100}


def sections_of(calls):
    return [shown(call)["section"] for call in calls if "section" in shown(call)]


def in_words(text):
    return len(text.split())


@pytest.mark.parametrize("name", NAMES)
def test_every_section_is_read_in_order_and_the_answer_is_made_without_them(name):
    reader = model(remembering(reply(name, "Ann kept it.")))
    events = []
    answer = solve(name, reader, DOCUMENT, config=SECTIONS, on_event=events.append)
    assert "\n".join(sections_of(reader.calls)).split() == DOCUMENT.split()
    assert [in_words(section) for section in sections_of(reader.calls)] == [100] * 5
    assert answer.text == "Ann" and answer.coverage.read_tokens == answer.coverage.tokens == 500
    assert answer.coverage.windows == answer.usage.depth - 1 == 5
    assert "pier" not in reader.calls[-1].messages[-1].content
    assert QUESTION in reader.calls[-1].messages[-1].content
    read = [event.span for event in events if isinstance(event, WindowRead)]
    assert read == sorted(read) and len(read) == 5
    assert [event.evidence.text for event in events if isinstance(event, EvidenceFound)] == ["Ann kept it."]


REPLIES = st.one_of(
    st.sampled_from(
        ["", " \n", "NONE", "</memory>", "<update>", "<check>yes</check>", "{}", '{"operations": [{}, 3]}']
    ),
    st.tuples(st.sampled_from(NAMES), st.text(max_size=80)).map(lambda each: reply(*each)),
    st.lists(st.sampled_from(["Ann", "kept", "pier", "7", "\n-", "<recall>", "no"]), max_size=40).map(" ".join),
)


@settings(max_examples=25, deadline=None)
@given(st.sampled_from(NAMES), st.lists(REPLIES, min_size=5, max_size=5), st.integers(1, 30))
def test_a_trainer_can_drive_the_same_steps_without_a_run(name, replies, memory_tokens):
    """The policy alone makes the prompts that the run sends, and ends with the same answer."""
    config = {**SECTIONS, "memory_tokens": memory_tokens}
    reader = model(remembering(lambda _: replies[len(reader.calls) - 1]))
    answer = solve(name, reader, DOCUMENT, config=config, retries=0)

    policy = POLICIES[name](method(name).Config.preset("lean", **config).fitted(reader.context), Words())
    document = Document.from_text(DOCUMENT)
    state, prompts = policy.start(QUESTION), []
    for section, said in zip(stride_windows(document, Words(), 100, 100), replies, strict=True):
        prompts.append(policy.prompt(state, document.text(section.span)))
        state = policy.update(state, said)
        if state.finished:
            break
    prompts.append(policy.answer_prompt(state))
    assert [call.messages for call in reader.calls] == [prompt.render() for prompt in prompts]
    assert [call.sampling.max_tokens for call in reader.calls] == [prompt.reply_tokens for prompt in prompts]
    assert answer.text == extract(r"\boxed{Ann}")


@settings(max_examples=25, deadline=None)
@given(st.sampled_from(NAMES), st.lists(REPLIES, min_size=1, max_size=4), st.integers(8, 40))
def test_whatever_is_replied_the_memory_stays_within_its_limit(name, replies, memory_tokens):
    longer = [text * 30 for text in replies]
    config = {**SECTIONS, "memory_tokens": memory_tokens}
    if name == "mem-alpha":
        config |= {"core_tokens": memory_tokens // 2}
    reader = model(remembering(lambda _: longer[len(reader.calls) % len(longer)]))
    answer = solve(name, reader, DOCUMENT, config=config, retries=0)
    assert answer.coverage.read_tokens > 0
    for call in reader.calls:
        for tag, text in shown(call).items():
            if "memory" in tag and not text.startswith(("No memory", "Nothing", "(empty")):
                assert in_words(text) <= memory_tokens + text.count("[") + len(neutralize(text)) - len(text) + 1


@settings(max_examples=30, deadline=None)
@given(st.sampled_from(NAMES), st.integers(1, 12_000), st.booleans())
def test_a_budget_is_never_exceeded_and_reading_is_in_order(name, budget, exact):
    reader = ScriptedModel(remembering(reply(name, "Ann kept it. " * 20)), exact=exact)
    config = {**SECTIONS, "memory_tokens": 100, "answer_tokens": 50}
    config |= {"reply_tokens": 100} if name == "mem-alpha" else {}
    try:
        answer = solve(name, reader, DOCUMENT, config=config, budget=budget)
    except ConvMemError as error:
        assert "too small" in str(error) and not reader.calls
        return
    used = answer.usage.total.prompt_tokens + answer.usage.total.completion_tokens
    assert used == sum(prompt_tokens(call) for call in reader.calls) + answer.usage.total.completion_tokens
    assert used <= budget
    assert reader.calls[-1].role.endswith("_answer") and answer.text == "Ann"
    whole = answer.coverage.read_tokens == answer.coverage.tokens
    assert whole != any("budget ended" in warning for warning in answer.warnings)
    read = [node.window for node in answer.trace if node.window and node.status == "ok"]
    assert [span.start for span in read] == [0, *(span.end for span in read[:-1])]


@pytest.mark.parametrize("name", NAMES)
def test_a_reply_that_cannot_be_read_is_asked_again_and_then_leaves_the_memory_as_it_was(name):
    said = [reply(name, "Ann kept it."), "", "", reply(name, "Ann kept it. It burned.")]
    reader = model(remembering(lambda call: said[min(len(reader.calls) - 1, 3)]))
    answer = solve(name, reader, DOCUMENT, config=SECTIONS, retries=1)
    assert [call.attempt for call in reader.calls[:4]] == [0, 0, 1, 0]
    first, second, _, third, *_ = [call.messages[-1].content for call in reader.calls]
    assert "Ann kept it." not in first and "Ann kept it." in second and "Ann kept it." in third
    assert any("left the memory as it was: 1." in warning for warning in answer.warnings)
    assert answer.coverage.read_tokens == answer.coverage.tokens


@pytest.mark.parametrize("name", NAMES)
def test_a_section_that_fails_is_named_and_the_rest_is_read(name):
    reader = model(remembering(lambda c: Transient("no") if "pier 25 " in shown(c)["section"] else reply(name, "Ann.")))
    answer = solve(name, reader, DOCUMENT, config=SECTIONS, retries=0)
    (failed,) = answer.coverage.failed_windows
    assert "pier 25 " in DOCUMENT[failed.span.start : failed.span.end]
    assert answer.coverage.read_tokens == 400 and answer.text == "Ann"


@pytest.mark.parametrize("name", NAMES)
def test_a_small_context_gets_smaller_sections(name):
    reader = ScriptedModel(remembering(reply(name, "Ann kept it.")), context=1_600)
    answer = solve(name, reader, lines(400))
    assert answer.coverage.read_tokens == answer.coverage.tokens and not answer.coverage.failed_windows
    assert answer.config["chunk_tokens"] < 1_600 and len(reader.calls) == answer.coverage.windows + 1
    assert all(prompt_tokens(call) + call.sampling.max_tokens <= 1_600 for call in reader.calls)


@pytest.mark.parametrize("name", NAMES)
def test_a_server_that_takes_less_than_it_says_gets_halves(name):
    def say(call):
        if len(call.messages[-1].content) > 4 * 900:
            return ContextExceeded("too long", 900)
        return reply(name, "Ann kept it.")

    reader = ScriptedModel(remembering(say), context=None)
    config = {"chunk_tokens": 2_000, "memory_tokens": 50, "answer_tokens": 50}
    config |= {"reply_tokens": 50} if name == "mem-alpha" else {}
    answer = solve(name, reader, lines(400), config=config)
    assert answer.coverage.read_tokens == answer.coverage.tokens and not answer.coverage.failed_windows
    assert answer.text == "Ann"


@pytest.mark.parametrize("name", NAMES)
def test_what_is_cited_is_the_documents_own_text_where_it_was_read(name):
    """The same paragraph stands everywhere; it was in memory from the third section on."""
    keeper = "The keeper of that light for years was Ann Berg."
    document = "\n".join(f"{keeper}\n{lines(9, first=9 * n)}" for n in range(5))
    whole = Document.from_text(document)
    third = stride_windows(whole, Words(), 100, 100)[2].span

    def say(_):
        return reply(name, "It rained." if len(reader.calls) < 3 else "Ann Berg was its keeper.")

    reader = model(remembering(say, r"\boxed{Ann Berg}"))
    answer = solve(name, reader, whole, config=SECTIONS)
    assert answer.text == "Ann Berg"
    assert [c.quote for c in answer.citations] == [keeper]
    (citation,) = answer.citations
    assert third.start <= citation.span.start < third.end
    assert whole.text(citation.span) == citation.quote


@pytest.mark.parametrize("name", NAMES)
def test_equal_runs_make_equal_calls_and_a_second_one_makes_none(name):
    cache = Cache.temporary()
    made = []
    for _ in range(2):
        reader = model(remembering(lambda call: reply(name, f"Ann, {shown(call)['section'][:9]}")))
        made.append((solve(name, reader, DOCUMENT, config=SECTIONS).text, [call.messages for call in reader.calls]))
    assert made[0] == made[1]
    first = model(remembering(reply(name, "Ann kept it.")))
    solve(name, first, DOCUMENT, config=SECTIONS, cache=cache)
    again = model(remembering(reply(name, "Ann kept it.")))
    answer = solve(name, again, DOCUMENT, config=SECTIONS, cache=cache)
    assert len(first.calls) == 6 and not again.calls and answer.usage.total.cache_hits == 6


@pytest.mark.parametrize("name", NAMES)
def test_a_deadline_leaves_time_to_answer(name):
    reader = model(remembering(reply(name, "Ann kept it.")), latency=10.0)
    answer = solve(name, reader, DOCUMENT, config=SECTIONS, deadline=60.0)
    assert answer.text == "Ann" and answer.usage.seconds <= 60
    assert 0 < answer.coverage.read_tokens < answer.coverage.tokens
    assert any("deadline" in warning for warning in answer.warnings)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("said", [r"\boxed{not found}", ""])
def test_a_memory_without_the_answer_gives_none(name, said):
    reader = model(remembering(reply(name, "It rained."), said))
    answer = solve(name, reader, DOCUMENT, config=SECTIONS, retries=0)
    assert answer.text == "not found" and not answer.citations


@pytest.mark.parametrize("name", NAMES)
def test_a_memory_that_cannot_be_asked_is_an_error_that_says_why(name):
    reader = model(remembering(reply(name, "It rained."), Transient("the server is gone")))
    with pytest.raises(ConvMemError, match=r"could not be answered.*the server is gone"):
        solve(name, reader, DOCUMENT, config=SECTIONS, retries=0)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("tokens", [1, 100, 101, 2_345])
def test_a_plan_is_what_a_run_costs_at_most(name, tokens):
    document = Document.from_text(" ".join(f"w{n}" for n in range(tokens)))
    reader = model(remembering(reply(name, "Ann kept it.")))
    config = {**SECTIONS, "memory_tokens": 60}
    answer = solve(name, reader, document, config=config)
    kind = method(name)
    plan = kind(kind.Config.preset("lean", **config)).plan(document, Facts(Words()), QUESTION)
    sent = sum(in_words(message.content) for call in reader.calls for message in call.messages)
    assert plan.calls == len(reader.calls) == -(-tokens // 100) + 1
    assert (plan.windows, plan.depth, plan.tokens) == (answer.coverage.windows, answer.usage.depth, tokens)
    held = plan.calls * (120 if name == "rememr1" else 60)
    assert plan.prompt_tokens - held <= sent <= plan.prompt_tokens
