"""The NLI verifier on a small checkpoint with random weights, and on a real one where CONVMEM_NLI names its folder."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from convmem.core import Fatal, InputError, Span
from convmem.model import Cache
from convmem.run import simulate
from convmem.verify import Judgement, Pair, verifier
from convmem.verify.calibration import Labelled, calibrate
from convmem.verify.cross_encoder import CrossEncoder
from convmem.verify.nli import Nli
from tests.support.nli import write_checkpoint
from tests.support.scripted import ScriptedModel, make_run
from tests.support.server import Answer, Raw, ScriptedServer

WORDS = [f"word{n}" for n in range(60)]
REAL = os.environ.get("CONVMEM_NLI")


@pytest.fixture(scope="module", params=["random", *(["real"] if REAL else [])])
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    if request.param == "real":
        return Path(str(REAL))
    return write_checkpoint(tmp_path_factory.mktemp("nli"), WORDS)


@pytest.fixture(scope="module")
def telling(tmp_path_factory: pytest.TempPathFactory) -> Path:
    words = {"yes": "entailment", "never": "contradiction"}
    return write_checkpoint(tmp_path_factory.mktemp("telling"), [*WORDS, *words], telling=words)


@pytest.fixture(scope="module")
def model(folder: Path) -> CrossEncoder:
    return CrossEncoder(folder)


def close(found: Judgement, expected: Judgement) -> bool:
    return all(abs(a - b) < 1e-4 for a, b in zip(found, expected, strict=True))


SENTENCE = st.lists(st.sampled_from(WORDS), min_size=1, max_size=12).map(" ".join)


@settings(max_examples=25, deadline=None)
@given(st.lists(st.tuples(SENTENCE, SENTENCE), min_size=1, max_size=8))
def test_a_judgement_does_not_depend_on_its_batch(model: CrossEncoder, texts: list[tuple[str, str]]) -> None:
    together = model.judge(texts)
    for text, found in zip(texts, together, strict=True):
        assert close(found, model.judge([text])[0])
        assert 0 <= found.entailment <= 1 and 0 <= found.contradiction <= 1
        assert found.entailment + found.contradiction <= 1 + 1e-6


def test_many_pairs_come_back_in_their_order(model: CrossEncoder) -> None:
    texts = [(" ".join(WORDS[: 1 + n % 40]), WORDS[n % 60]) for n in range(400)]
    found = model.judge(texts)
    assert all(close(found[n], model.judge([texts[n]])[0]) for n in (0, 7, 199, 399))
    assert len({round(each.entailment, 5) for each in found}) > 20


def test_premise_and_hypothesis_have_their_places(model: CrossEncoder) -> None:
    there, back = model.judge([("word1 word2 word3", "word4"), ("word4", "word1 word2 word3")])
    assert not close(there, back)


@settings(max_examples=10, deadline=None)
@given(at=st.integers(0, 499), elsewhere=st.integers(0, 499), longest=st.integers(16, 80))
def test_one_piece_of_a_long_premise_is_enough(telling: Path, at: int, elsewhere: int, longest: int) -> None:
    config = json.loads((telling / "config.json").read_text())
    (telling / "config.json").write_text(json.dumps(config | {"max_position_embeddings": longest}))
    model = CrossEncoder(telling)

    def premise(words: dict[int, str]) -> str:
        return " ".join(words.get(n, WORDS[n % 40]) for n in range(500))

    entailed, contradicted, both = model.judge(
        [(premise(words), "word50") for words in ({at: "yes"}, {at: "never"}, {elsewhere: "never", at: "yes"})]
    )
    assert entailed.entailment > 0.99 and not entailed.contradicts
    assert contradicted.contradicts
    assert both.entailment > 0.99 or abs(at - elsewhere) < longest


def test_a_hypothesis_without_room_is_not_accepted(tmp_path: Path) -> None:
    model = CrossEncoder(write_checkpoint(tmp_path, WORDS, longest=24))
    assert model.judge([("word1", " ".join(WORDS))]) == [Judgement(0.0, 0.0)]


@pytest.mark.parametrize(
    "labels", [("entailment", "neutral", "contradiction"), ("CONTRADICTION", "Neutral", "Entailment")]
)
def test_the_order_of_labels_is_read_and_not_assumed(tmp_path: Path, labels: Sequence[str]) -> None:
    usual = CrossEncoder(write_checkpoint(tmp_path / "a", WORDS))
    other = CrossEncoder(write_checkpoint(tmp_path / "b", WORDS, labels=labels))
    text = ("word1 word2", "word3")
    columns = {"contradiction": 0, "entailment": 1, "neutral": 2}
    [found], [ours] = usual.judge([text]), other.judge([text])
    raw = [0.0, 0.0, 0.0]
    raw[columns["contradiction"]], raw[columns["entailment"]] = found.contradiction, found.entailment
    raw[columns["neutral"]] = 1 - found.contradiction - found.entailment
    names = [label.casefold() for label in labels]
    assert close(ours, Judgement(raw[names.index("entailment")], raw[names.index("contradiction")]))


def test_two_labels_tell_entailment_alone(tmp_path: Path) -> None:
    model = CrossEncoder(write_checkpoint(tmp_path, WORDS, labels=("not_entailment", "entailment")))
    assert all(
        j.contradiction == 0 and 0 < j.entailment < 1 for j in model.judge([("word1", "word2"), ("word3", "word4")])
    )


@pytest.mark.parametrize("types", [True, False])
@pytest.mark.parametrize("graph", ["model.onnx", "onnx/model.onnx", "onnx/model_quantized.onnx"])
def test_any_layout_of_a_checkpoint_is_read(tmp_path: Path, types: bool, graph: str) -> None:
    model = CrossEncoder(write_checkpoint(tmp_path, WORDS, types=types, graph=graph))
    assert 0 < model.judge([("word1", "word2")])[0].entailment < 1


def test_identity_follows_the_weights(tmp_path: Path) -> None:
    folders = [
        write_checkpoint(tmp_path / place / "nli", WORDS, seed=seed) for place, seed in (("a", 0), ("b", 0), ("c", 1))
    ]
    one, same, other = (CrossEncoder(folder).identity for folder in folders)
    assert one == same != other


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("config.json", "{"),
        ("config.json", "[]"),
        ("config.json", json.dumps({"id2label": {"0": "LABEL_0", "1": "LABEL_1"}})),
        ("tokenizer.json", "{}"),
        ("model.onnx", "no graph"),
    ],
)
def test_a_broken_checkpoint_is_named_in_one_sentence(tmp_path: Path, name: str, content: str) -> None:
    write_checkpoint(tmp_path, WORDS)
    (tmp_path / name).write_text(content)
    with pytest.raises(InputError, match=r"\.$"):
        CrossEncoder(tmp_path)


def test_a_folder_without_a_graph_says_so(tmp_path: Path) -> None:
    (write_checkpoint(tmp_path, WORDS) / "model.onnx").unlink()
    with pytest.raises(InputError, match=r"no model\.onnx"):
        CrossEncoder(tmp_path)


def test_judgements_are_stored_and_spans_are_read_in_the_document(folder: Path) -> None:
    text = "word1 word2 word3. word4 word5 word6."
    cache = Cache.temporary()
    checks = verifier(f"nli:{folder}")
    pairs = [Pair((Span(0, 18),), "word9"), Pair(("word1 word2 word3.",), "word9"), Pair((Span(19, 37),), "word9")]

    async def judged() -> list[Judgement]:
        return await checks.judge(pairs, make_run(ScriptedModel(), text, cache=cache))

    first = simulate(judged())
    assert first[0] == first[1] != first[2]
    stored = cache.info().entries
    assert stored == 2
    assert simulate(judged()) == first and cache.info().entries == stored


def test_calibration_on_a_checkpoint_reaches_what_it_promises(model: CrossEncoder) -> None:
    texts = [(f"word{n % 60} word{n * 7 % 60}", f"word{n * 11 % 60}") for n in range(400)]
    judgements = model.judge(texts)
    labelled = [
        Labelled(premises=(p,), hypothesis=f"{h} {n}", label="entailment" if found.entailment > 0.4 else "neutral")
        for n, ((p, h), found) in enumerate(zip(texts, judgements, strict=True))
    ]
    found = calibrate(labelled, judgements, model.identity)
    assert found.selection.false_acceptance.share <= 0.05
    assert found.report.false_rejection.share < 0.1


def test_a_name_that_is_no_folder_and_no_repository() -> None:
    with pytest.raises(InputError, match="no folder"):
        asyncio.run(Nli("./nowhere").prepare())


def test_a_checkpoint_comes_from_the_hub_once(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = {str(f.relative_to(folder)): f.read_bytes() for f in folder.rglob("*") if f.is_file()}

    def sent(body: bytes) -> Raw:
        return Raw(b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: %d\r\n\r\n%s" % (len(body), body))

    routes = {f"/owner/small/resolve/main/{name}": lambda _, body=body: sent(body) for name, body in files.items()}
    monkeypatch.setenv("CONVMEM_CACHE_DIR", str(tmp_path))
    with ScriptedServer(routes=routes) as server:
        monkeypatch.setenv("HF_ENDPOINT", server.url.removesuffix("/v1"))
        asyncio.run(Nli("owner/small").prepare())
        asked = len(server.seen)
        asyncio.run(Nli("owner/small").prepare())
    assert asked == len(server.seen) == 4  # the graph is looked for in two places
    [kept] = (tmp_path / "nli").iterdir()
    assert {str(f.relative_to(kept)): f.read_bytes() for f in kept.rglob("*") if f.is_file()} == files


@pytest.mark.parametrize(
    "broken", [Answer(404, "no"), Answer(500, "no"), Raw(b"HTTP/1.1 200 OK\r\ncontent-length: 99\r\n\r\n{")]
)
def test_a_hub_that_fails_leaves_no_half_file(
    broken: Answer | Raw, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CONVMEM_CACHE_DIR", str(tmp_path))
    with ScriptedServer(routes={"/owner/small/resolve/v2/config.json": lambda _: broken}) as server:
        monkeypatch.setenv("HF_ENDPOINT", server.url.removesuffix("/v1"))
        with pytest.raises(Fatal, match=r"can't be had from"):
            asyncio.run(Nli("owner/small@v2").prepare())
    assert not [file for file in tmp_path.rglob("*") if file.is_file()]


def test_an_unreachable_hub_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CONVMEM_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    with pytest.raises(Fatal, match=r"can't be had from .*--verifier nli:FOLDER"):
        asyncio.run(Nli("owner/other").prepare())
