import asyncio
import json
import subprocess
import sys
import threading

import pytest

import convmem
from convmem import Document, InputError
from convmem.core import CallStarted, Done, Planned
from tests.support.reader import read
from tests.support.server import Answer, ScriptedServer

TEXT = "\n\n".join(f"Chapter {n}. The keeper of lighthouse {n} was called Keeper{n}." for n in range(1, 61))
QUESTION = "What was the keeper of lighthouse 7 called?"
SMALL = {"window": 200, "one_call_tokens": 0}


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("CONVMEM_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.delenv("CONVMEM_MODEL", raising=False)
    monkeypatch.delenv("CONVMEM_CONFIG", raising=False)
    (tmp_path / "a.txt").write_text(TEXT, "utf-8")
    return tmp_path


@pytest.fixture
def server():
    with ScriptedServer(read) as running:
        yield running


def test_a_path_several_paths_and_a_document_give_the_same_answer(home, server):
    asked = [str(home / "a.txt"), home / "a.txt", [home / "a.txt"], Document.from_text(TEXT, "a.txt")]
    answers = [convmem.ask(document, QUESTION, model=server.url, **SMALL) for document in asked]
    assert {answer.text for answer in answers} == {answers[0].text}
    assert "Keeper7" in answers[0].text
    assert all(TEXT[c.location.start : c.location.end] == c.quote for answer in answers for c in answer.citations)


def test_it_works_inside_a_running_loop(server):
    async def cell():
        return convmem.ask(Document.from_text(TEXT), QUESTION, model=server.url, **SMALL)

    assert "Keeper7" in asyncio.run(cell()).text


def test_async_and_sync_agree(server):
    document = Document.from_text(TEXT)
    sync = convmem.ask(document, QUESTION, model=server.url, **SMALL)
    also = asyncio.run(convmem.ask_async(document, QUESTION, model=server.url, cache=False, **SMALL))
    assert (also.text, also.citations, also.config) == (sync.text, sync.citations, sync.config)


def test_a_method_of_ones_own_making_answers_too(server):
    async def cell():
        method = convmem.ConvMem(convmem.Config.preset("paper", window=400, stride=200))
        model = convmem.connect(server.url)
        try:
            return await method.answer(Document.from_text(TEXT), QUESTION, model=model)
        finally:
            await model.close()

    assert "Keeper7" in asyncio.run(cell()).text


def test_cancelling_leaves_no_call_pending():
    reached = threading.Event()

    def late(request):
        reached.set()
        return read(request)

    with ScriptedServer(late, latency=30) as server:

        async def cell():
            started = asyncio.Event()
            loop = asyncio.get_running_loop()

            def listen(event):
                if isinstance(event, CallStarted):
                    loop.call_soon_threadsafe(started.set)

            asking = asyncio.create_task(
                convmem.ask_async(Document.from_text(TEXT), QUESTION, model=server.url, on_event=listen, **SMALL)
            )
            await started.wait()
            asking.cancel()
            with pytest.raises(asyncio.CancelledError):
                await asking
            return asyncio.all_tasks() - {asyncio.current_task()}

        assert asyncio.run(cell()) == set()
    assert not reached.is_set()


def test_events_tell_the_plan_first_and_the_answer_last(server):
    events = []
    answer = convmem.ask(Document.from_text(TEXT), QUESTION, model=server.url, on_event=events.append, **SMALL)
    assert isinstance(events[0], Planned) and events[-1] == Done(answer)


def test_answer_json_is_json(server):
    answer = convmem.ask(Document.from_text(TEXT), QUESTION, model=server.url, **SMALL)
    plain = convmem.answer_json(answer)
    assert json.loads(json.dumps(plain)) == plain


@pytest.mark.parametrize(
    "wrong, named",
    [
        ({"windw": 5}, "window"),
        ({"window": "wide"}, "window"),
        ({"model": {"": "local", "scor": "local"}}, "score"),
        ({"preset": "fat"}, "lean"),
    ],
)
def test_a_wrong_setting_is_named(wrong, named):
    with pytest.raises(InputError, match=named):
        convmem.ask(Document.from_text(TEXT), QUESTION, **wrong)


# ------------------------------------------------------------------------------------------------------------- plan


def test_a_plan_makes_no_call(server):
    plan = convmem.plan(Document.from_text(TEXT), QUESTION, model=server.url, **SMALL)
    assert server.requests == [] and plan.calls > plan.windows > 1


def test_a_plan_counts_as_the_server_does():
    with ScriptedServer(read, dialect="llama.cpp", context=4096) as server:
        plan = convmem.plan(Document.from_text(TEXT), model=server.url)
    assert plan.tokens == -(-len(TEXT) // 4)


@pytest.mark.parametrize("model", ["http://127.0.0.1:9/v1", "local"])
def test_without_a_model_a_plan_is_an_estimate_and_says_so(model, home):
    plan = convmem.plan(Document.from_text(TEXT), model=model)
    assert plan.tokens > 0 and any("estimate" in assumption for assumption in plan.assumptions)
    assert not list(home.rglob("*.gguf*"))


def test_a_server_that_is_unwell_does_not_stop_a_plan():
    broken = {"/v1/models": lambda _: Answer(503, {"error": {"message": "starting"}})}
    with ScriptedServer(read, routes=broken) as server:
        assert convmem.plan(Document.from_text(TEXT), model=server.url).tokens > 0


# --------------------------------------------------------------------------------------------------------- settings


def test_the_nearest_source_of_a_setting_wins(home, server, monkeypatch):
    def window(**given):
        return convmem.ask(Document.from_text(TEXT), QUESTION, model=server.url, one_call_tokens=0, **given).config[
            "window"
        ]

    preset = window(preset="paper", stride=100)
    assert preset == 8000
    (home / ".config" / "convmem").mkdir(parents=True)
    (home / ".config" / "convmem" / "config.toml").write_text("window = 111\n")
    assert window() == 111
    (home / "other.toml").write_text("window = 222\n")
    monkeypatch.setenv("CONVMEM_CONFIG", str(home / "other.toml"))
    assert window() == 222
    monkeypatch.setenv("CONVMEM_WINDOW", "333")
    assert window() == 333
    assert window(window=444) == 444
    assert window(window="555") == 555


@pytest.mark.parametrize("content", ["windw = 5\n", "window = \n", 'window = "wide"\n'])
def test_a_file_that_is_wrong_is_named(content, home, monkeypatch):
    (home / "c.toml").write_text(content)
    monkeypatch.setenv("CONVMEM_CONFIG", str(home / "c.toml"))
    with pytest.raises(InputError, match=r"c\.toml|window"):
        convmem.plan(Document.from_text(TEXT))


def test_a_file_serves_several_methods(home, monkeypatch):
    (home / "c.toml").write_text('window = 500\nmodel = "http://127.0.0.1:9/v1"\n[models]\nscore = "local"\n')
    monkeypatch.setenv("CONVMEM_CONFIG", str(home / "c.toml"))
    assert convmem.plan(Document.from_text(TEXT), method="full-context").windows == 1


def test_the_environment_reads_none_and_tables(monkeypatch, server):
    monkeypatch.setenv("CONVMEM_BUDGET", "null")
    monkeypatch.setenv("CONVMEM_MODELS", json.dumps({"answer": server.url}))
    monkeypatch.setenv("CONVMEM_MODEL", server.url)
    assert "Keeper7" in convmem.ask(Document.from_text(TEXT), QUESTION, **SMALL).text


# ---------------------------------------------------------------------------------------------------------- package


def test_every_public_name_is_there():
    assert all(getattr(convmem, name) is not None for name in convmem.__all__)
    with pytest.raises(AttributeError):
        _ = convmem.nothing


def test_importing_loads_nothing_heavy():
    code = "import sys, convmem; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert not {"numpy", "pydantic", "aiohttp", "rich", "markitdown", "tokenizers"} & set(loaded)


def test_a_trace_is_written_and_its_spans_index_the_texts_that_it_holds(home, server):
    (home / "b.txt").write_text(TEXT.replace("Keeper", "Warden"), "utf-8")
    document = Document.from_paths([home / "a.txt", home / "b.txt"])
    answer = convmem.ask(document, "Was the keeper of lighthouse 9 called Warden9?", model=server.url, **SMALL)
    convmem.write_trace(home / "trace.json", answer.trace, document)
    trace = json.loads((home / "trace.json").read_text("utf-8"))
    text = trace["joint"].join(source["text"] for source in trace["sources"])
    cited = [text[slice(*citation["span"])] for citation in trace["answer"]["citations"]]
    assert cited == [citation.quote for citation in answer.citations] and "Warden9" in cited[0]
    assert set(trace["replies"]) == {node["key"] for node in trace["nodes"]}


def test_a_trace_of_no_known_form_is_refused(home, server):
    document = Document.from_text(TEXT)
    answer = convmem.ask(document, QUESTION, model=server.url, **SMALL)
    with pytest.raises(InputError, match="html"):
        convmem.write_trace(home / "trace.pdf", answer.trace, document)
    assert not (home / "trace.pdf").exists()
