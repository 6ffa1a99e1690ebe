"""Tokens: exact ones by vocabulary, and the estimate."""

import contextlib
import itertools
import json
import struct
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers

from convmem.core import InputError
from convmem.document import EstimateTokenizer, GgufTokenizer, JsonTokenizer, UnknownVocabulary
from convmem.document.gguf import GgufError, read_metadata
from convmem.document.tokens import cut_at_seams
from tests.document.texts import EMBEDDED_TOKENS, TEXTS

any_text = st.text(max_size=200) | st.text("ab 。\n🚢<|>", max_size=200) | st.sampled_from(sorted(TEXTS.values()))


@pytest.fixture(scope="module")
def trained() -> Tokenizer:
    """A byte-level BPE learned from the test texts, with a control token and one added at the start."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.train_from_iterator(
        TEXTS.values(),
        trainers.BpeTrainer(
            vocab_size=1_000,
            special_tokens=["<|end|>"],
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
            show_progress=False,
        ),
    )
    tokenizer.post_processor = processors.TemplateProcessing("<|end|> $A", special_tokens=[("<|end|>", 0)])
    tokenizer.enable_truncation(5)
    return tokenizer


@pytest.fixture(scope="module")
def exact(trained: Tokenizer, tmp_path_factory: pytest.TempPathFactory) -> JsonTokenizer:
    path = tmp_path_factory.mktemp("json") / "tokenizer.json"
    trained.save(str(path))
    return JsonTokenizer(path)


def gguf(values: dict[str, Any]) -> bytes:
    """A GGUF file of metadata alone."""

    def string(text: str) -> bytes:
        return struct.pack("<Q", len(text.encode())) + text.encode()

    def value(of: Any) -> tuple[int, bytes]:
        if isinstance(of, str):
            return 8, string(of)
        if isinstance(of, float):
            return 6, struct.pack("<f", of)
        if isinstance(of, int):
            return 5, struct.pack("<i", of)
        kinds, packed = zip(*map(value, of), strict=True)
        return 9, struct.pack("<IQ", kinds[0], len(of)) + b"".join(packed)

    pairs = b"".join(string(key) + struct.pack("<I", value(of)[0]) + value(of)[1] for key, of in values.items())
    return b"GGUF" + struct.pack("<IQQ", 3, 0, len(values)) + pairs


def metadata(trained: Tokenizer, pre: str = "gpt-2", model: str = "gpt2") -> dict[str, Any]:
    """What a GGUF file says of the tokenizer."""
    described = json.loads(trained.to_str())["model"]
    tokens = sorted(described["vocab"], key=described["vocab"].get)
    return {
        "general.name": "test",
        "general.scale": 0.5,
        "tokenizer.ggml.model": model,
        "tokenizer.ggml.pre": pre,
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": [3 if token == "<|end|>" else 1 for token in tokens],
        "tokenizer.ggml.merges": [" ".join(pair) for pair in described["merges"]],
    }


@settings(max_examples=60)
@given(any_text)
def test_offsets_are_as_the_protocol_says(exact: JsonTokenizer, text: str) -> None:
    for tokenizer in (exact, EstimateTokenizer()):
        offsets = tokenizer.offsets(text).tolist()
        assert tokenizer.count(text) == len(offsets)
        assert offsets == sorted(offsets)
        assert offsets[:1] == [0] * bool(text)
        assert all(offset < len(text) for offset in offsets)


@settings(max_examples=60)
@given(any_text)
def test_tokens_are_the_librarys_with_control_tokens_as_text(
    exact: JsonTokenizer, trained: Tokenizer, text: str
) -> None:
    plain = Tokenizer.from_str(trained.to_str())
    plain.no_truncation()
    plain.encode_special_tokens = True
    expected = plain.encode(text, add_special_tokens=False)
    assert exact.offsets(text).tolist() == [start for start, _ in expected.offsets]


def test_a_control_token_in_a_text_is_the_text_that_it_is(exact: JsonTokenizer) -> None:
    assert exact.count("<|end|>") > 1


@settings(max_examples=100)
@given(st.text("ab1 ,。\n\r\t🚢", max_size=300), st.integers(1, 50))
def test_pieces_are_the_text_and_no_longer_than_asked(text: str, size: int) -> None:
    pieces = list(cut_at_seams(text, size))
    assert "".join(pieces) == text
    assert all(0 < len(piece) <= size for piece in pieces)


def test_pieces_do_not_change_the_tokens_of_prose(trained: Tokenizer, exact: JsonTokenizer) -> None:
    plain = Tokenizer.from_str(trained.to_str())
    plain.no_truncation()
    for name in ("english", "chinese", "python", "csv", "spaces"):
        text = TEXTS[name] * (70_000 // len(TEXTS[name]))
        expected = plain.encode(text, add_special_tokens=False)
        assert exact.offsets(text).tolist() == [start for start, _ in expected.offsets]


def test_a_gguf_file_and_a_tokenizer_json_of_one_vocabulary_agree(
    trained: Tokenizer, exact: JsonTokenizer, tmp_path: Path
) -> None:
    path = tmp_path / "model.gguf"
    path.write_bytes(gguf(metadata(trained)))
    tokenizer = GgufTokenizer(path)
    for text in (*TEXTS.values(), "don't <|end|> 1234"):
        assert tokenizer.offsets(text).tolist() == exact.offsets(text).tolist()


@pytest.mark.parametrize(
    ("pre", "tokens"),
    [
        ("gpt-2", ["It", "'s", " 12345", " x", ".", "\n"]),
        ("qwen2", ["It", "'s", " ", "1", "2", "3", "4", "5", " x", ".\n"]),
        ("llama-bpe", ["It", "'s", " ", "123", "45", " x", ".\n"]),
        ("smollm", ["It", "'s", " ", "1", "2", "3", "4", "5", " x", ".", "\n"]),
    ],
)
def test_the_pre_tokenizer_decides_where_merging_stops(tmp_path: Path, pre: str, tokens: list[str]) -> None:
    merges = ["I t", "' s", "It 's", "1 2", "12 3", "4 5", "123 45", "Ġ 12345", "Ġ x", ". Ċ"]
    vocabulary = [*pre_tokenizers.ByteLevel.alphabet(), *(merge.replace(" ", "") for merge in merges)]
    path = tmp_path / "model.gguf"
    values = {"model": "gpt2", "pre": pre, "tokens": vocabulary, "merges": merges}
    path.write_bytes(gguf({f"tokenizer.ggml.{key}": value for key, value in values.items()}))
    starts = itertools.accumulate(map(len, tokens[:-1]), initial=0)
    assert GgufTokenizer(path).offsets("".join(tokens)).tolist() == list(starts)


def test_identities_follow_the_vocabulary(trained: Tokenizer, tmp_path: Path) -> None:
    identities = set()
    for name, values in {"a": metadata(trained), "b": metadata(trained, "qwen2"), "c": metadata(trained)}.items():
        (tmp_path / name).write_bytes(gguf(values))
        identities.add(GgufTokenizer(tmp_path / name).identity)
    assert len(identities) == 2


@pytest.mark.parametrize("change", [{"model": "llama"}, {"pre": "unheard-of"}])
def test_a_vocabulary_that_is_not_known_is_said_to_be_so(
    trained: Tokenizer, tmp_path: Path, change: dict[str, str]
) -> None:
    path = tmp_path / "model.gguf"
    path.write_bytes(gguf(metadata(trained, **change)))
    with pytest.raises(UnknownVocabulary, match="estimated"):
        GgufTokenizer(path)


def test_files_that_hold_no_tokenizer(tmp_path: Path) -> None:
    path = tmp_path / "file"
    with pytest.raises(InputError, match="can't be read"):
        JsonTokenizer(path)
    with pytest.raises(UnknownVocabulary):
        GgufTokenizer(path)
    path.write_text("{}")
    with pytest.raises(InputError, match=r"tokenizer\.json"):
        JsonTokenizer(path)
    with pytest.raises(UnknownVocabulary):
        GgufTokenizer(path)


@settings(max_examples=100)
@given(st.data())
def test_a_damaged_gguf_file_is_an_error_and_no_more(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    whole = gguf({"a.text": "x", "a.numbers": [1, 2, 3], "a.words": ["y", "z"], "b": 1})
    at = data.draw(st.integers(0, len(whole)))
    path = tmp_path_factory.mktemp("gguf") / "file"
    path.write_bytes(whole[:at] + data.draw(st.binary(max_size=12)) + whole[at + data.draw(st.integers(0, 12)) :])
    with contextlib.suppress(GgufError):
        assert isinstance(read_metadata(path, "a."), dict)


@pytest.mark.parametrize("name", TEXTS)
def test_the_estimate_is_within_a_quarter_of_the_embedded_models_tokens(name: str) -> None:
    estimate = EstimateTokenizer().count(TEXTS[name])
    assert 0.75 <= estimate / EMBEDDED_TOKENS[name] <= 1.25


def test_the_estimate_says_that_it_is_one() -> None:
    assert not EstimateTokenizer().exact
