"""Vectors from an endpoint, from an encoder's files, and from the index."""

import json
import zipfile
from contextlib import closing

import numpy as np
import pytest

from convmem.core import Fatal, InputError, ModelError
from convmem.model.embedding import EndpointEmbedder, Remembering
from convmem.model.index import Index
from tests.support.server import Answer, ScriptedServer

pytest.importorskip("onnxruntime")
safetensors = pytest.importorskip("safetensors.numpy")
from convmem.model.encoder import Encoder  # noqa: E402

WORDS = ["[PAD]", "[UNK]", "ann", "kept", "the", "light", "mill", "was", "sold"]
CONFIG = {
    "hidden_size": 8, "intermediate_size": 12, "num_attention_heads": 2, "num_hidden_layers": 2, "layer_norm_eps": 1e-12
}  # fmt: skip


def vectors(request):
    """A vector of a text's length and its first letter, in another order than asked."""
    texts = request.body["input"]
    rows = [{"index": n, "embedding": [len(text), ord(text[0])]} for n, text in enumerate(texts)]
    return Answer(200, {"data": rows[::-1]})


def served(*answers):
    """A server that gives these answers to requests for embeddings, the last one from then on."""
    left = list(answers)

    def route(request):
        answer = left.pop(0) if len(left) > 1 else left[0]
        return answer(request) if callable(answer) else answer

    return ScriptedServer(lambda _: "", routes={"/v1/embeddings": route})


def test_an_endpoints_vectors_have_unit_length_and_the_order_of_the_texts():
    texts = [f"{chr(97 + n % 26)}{'x' * n}" for n in range(130)]
    with served(vectors) as server:
        made = EndpointEmbedder(f"{server.url}#small", 5).embed(texts)
        bodies = [request.body for request in server.seen]
    wanted = np.array([[len(text), ord(text[0])] for text in texts], float)
    assert np.allclose(made, wanted / np.linalg.norm(wanted, axis=1, keepdims=True), atol=1e-6)
    assert [len(body["input"]) for body in bodies] == [64, 64, 2] and {body["model"] for body in bodies} == {"small"}


def test_a_server_that_is_busy_is_asked_again():
    busy = Answer(429, {"error": {"message": "wait"}}, {"retry-after": "0"})
    with served(busy, busy, vectors) as server:
        assert EndpointEmbedder(server.url, 5).embed(["ann"]).shape == (1, 2)


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (Answer(401, {"error": {"message": "no"}}), Fatal),
        (Answer(200, {"data": []}), ModelError),
        (Answer(200, {"data": [{"index": 0, "embedding": "many"}]}), ModelError),
        (Answer(200, {"object": "chat"}), ModelError),
        (Answer(200, [1, 2]), ModelError),
    ],
)
def test_what_is_no_vector_is_one_sentence(answer, error):
    with served(answer) as server, pytest.raises(error, match=server.url):
        EndpointEmbedder(server.url, 5).embed(["ann"])


class Counting:
    identity = "counting"

    def __init__(self):
        self.asked = []

    def embed(self, texts):
        self.asked += texts
        return np.array([[1.0, len(text)] for text in texts], np.float32)


def test_no_text_is_embedded_twice_but_for_another_namespace(tmp_path):
    with closing(Index(tmp_path / "index.sqlite")) as index:
        inner = Counting()
        first = Remembering(inner, index, "").embed(["a", "bb", "a"])
        assert inner.asked == ["a", "bb"] and first.tolist() == [[1, 1], [1, 2], [1, 1]]
    with closing(Index(tmp_path / "index.sqlite")) as index:
        again = Remembering(inner, index, "").embed(["bb", "ccc"])
        assert inner.asked == ["a", "bb", "ccc"] and again.tolist() == [[1, 2], [1, 3]]
        Remembering(inner, index, "tenant").embed(["a"])
        assert inner.asked[3:] == ["a"] and Remembering(inner, index, "").embed([]).size == 0


# ------------------------------------------------------------------------------------------------ an encoder's files


def checkpoint(draw):
    """The tensors of a small BERT."""
    size, inner = CONFIG["hidden_size"], CONFIG["intermediate_size"]
    shapes = {
        "embeddings.word_embeddings.weight": (len(WORDS), size),
        "embeddings.position_embeddings.weight": (16, size),
        "embeddings.token_type_embeddings.weight": (2, size),
        **_pair("embeddings.LayerNorm", size),
    }
    for layer in range(CONFIG["num_hidden_layers"]):
        at = f"encoder.layer.{layer}"
        for part in ("self.query", "self.key", "self.value", "output.dense"):
            shapes |= _pair(f"{at}.attention.{part}", size, size)
        shapes |= _pair(f"{at}.attention.output.LayerNorm", size) | _pair(f"{at}.output.LayerNorm", size)
        shapes |= _pair(f"{at}.intermediate.dense", inner, size) | _pair(f"{at}.output.dense", size, inner)
    return {name: draw.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}


def _pair(name, *shape):
    return {f"{name}.weight": shape, f"{name}.bias": shape[:1]}


def reference(weights, ids):
    """BERT as its paper has it, one text at a time; the mean over tokens, of unit length."""
    from math import erf

    def linear(x, name):
        return x @ weights[f"{name}.weight"].T + weights[f"{name}.bias"]

    def norm(x, name):
        centred = x - x.mean(-1, keepdims=True)
        spread = np.sqrt((centred**2).mean(-1, keepdims=True) + CONFIG["layer_norm_eps"])
        return centred / spread * weights[f"{name}.weight"] + weights[f"{name}.bias"]

    names = ("word", "position", "token_type")
    word, place, kind = (weights[f"embeddings.{name}_embeddings.weight"].astype(float) for name in names)
    x = norm(word[ids] + place[: len(ids)] + kind[0], "embeddings.LayerNorm")
    width = CONFIG["hidden_size"] // CONFIG["num_attention_heads"]
    for layer in range(CONFIG["num_hidden_layers"]):
        at = f"encoder.layer.{layer}"
        q, k, v = (linear(x, f"{at}.attention.self.{part}") for part in ("query", "key", "value"))
        heads = []
        for start in range(0, CONFIG["hidden_size"], width):
            one = slice(start, start + width)
            odds = np.exp(q[:, one] @ k[:, one].T / np.sqrt(width))
            heads.append(odds / odds.sum(-1, keepdims=True) @ v[:, one])
        x = norm(
            linear(np.concatenate(heads, -1), f"{at}.attention.output.dense") + x, f"{at}.attention.output.LayerNorm"
        )
        inner = linear(x, f"{at}.intermediate.dense")
        gelu = inner * 0.5 * (1 + np.vectorize(erf)(inner / np.sqrt(2)))
        x = norm(linear(gelu, f"{at}.output.dense") + x, f"{at}.output.LayerNorm")
    mean = x.mean(0)
    return mean / np.linalg.norm(mean)


@pytest.fixture
def files():
    """An encoder's files by name, and its weights."""
    from tokenizers import Tokenizer, models, pre_tokenizers

    tokenizer = Tokenizer(models.WordLevel({word: n for n, word in enumerate(WORDS)}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    weights = checkpoint(np.random.default_rng(7))
    return {
        "tokenizer.json": tokenizer.to_str().encode(),
        "config.json": json.dumps(CONFIG).encode(),
        "model.safetensors": safetensors.save(weights),
        "sentence_bert_config.json": b'{"max_seq_length": 9}',
    }, weights


def written(folder, files):
    for name, content in files.items():
        (folder / name).write_bytes(content)
    return str(folder)


def test_a_checkpoint_is_run_as_bert_is_defined_whatever_it_is_batched_with(tmp_path, files):
    found, weights = files
    encoder = Encoder(written(tmp_path, found))
    texts = [("ann kept the light the mill " * 3)[: 8 * n] or "sold" for n in range(20)]
    made = encoder.embed(texts)
    for text, vector in zip(texts, made, strict=True):
        ids = [WORDS.index(word) if word in WORDS else 1 for word in text.split()][:9]
        assert np.allclose(vector, reference(weights, ids), atol=1e-5)


def test_a_zip_file_is_as_good_as_a_folder(tmp_path, files):
    path = tmp_path / "encoder.zip"
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in files[0].items():
            archive.writestr(name, content)
    folder = tmp_path / "folder"
    folder.mkdir()
    one, other = Encoder(str(path)), Encoder(written(folder, files[0]))
    assert one.identity == other.identity and (one.embed(["ann kept"]) == other.embed(["ann kept"])).all()


@pytest.mark.parametrize(
    ("without", "said"),
    [("tokenizer.json", "tokenizer.json"), ("model.safetensors", "safetensors"), ("all", "no folder")],
)
def test_what_is_no_encoder_is_one_sentence(tmp_path, files, without, said):
    spec = written(tmp_path, {name: content for name, content in files[0].items() if name != without})
    with pytest.raises(InputError, match=said):
        Encoder("no-such-package" if without == "all" else spec)


def test_a_checkpoint_of_something_else_is_refused(tmp_path, files):
    found, weights = files
    others = {name: tensor for name, tensor in weights.items() if "query" not in name}
    with pytest.raises(InputError, match="no BERT"):
        Encoder(written(tmp_path, {**found, "model.safetensors": safetensors.save(others)}))
