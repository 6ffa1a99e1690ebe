"""How many tokens a text has, and where they start, by a model's own vocabulary.

Knows tokenizer files; knows no server (the model room asks one), no estimate (``estimate``) and no document. Control
tokens that a text spells out count as the plain text that they are, and no token is added at the start.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from tokenizers import AddedToken, Regex, models, pre_tokenizers
from tokenizers import Tokenizer as Pipeline

from convmem.core import ConvMemError, InputError, checkpoint
from convmem.document.encoding import replace_surrogates
from convmem.document.gguf import GgufError, read_metadata

_PIECE = 65_536
"""Characters that are tokenized at a time, so that memory does not grow with the text."""

_BATCH = 8
_SEAM = re.compile(r"(?<=[^\W\d_])[ \n，。、](?=[^\W\d_])|(?<=\n)(?=\S)")
"""Where every pre-tokenizer cuts anyhow: before what parts two words, and at the start of a line."""

_SEAM_REACH = 2_048


class UnknownVocabulary(ConvMemError):
    """A GGUF file whose tokenizer can't be reproduced here; an estimate can stand in for it."""


class VocabularyTokenizer:
    """Exact tokens by a pipeline of the ``tokenizers`` library. Implements ``core.Tokenizer``."""

    exact = True
    remote = False

    def __init__(self, pipeline: Pipeline, identity: str) -> None:
        self.identity = identity
        self._pipeline = pipeline
        pipeline.no_truncation()
        pipeline.no_padding()
        pipeline.encode_special_tokens = True

    def count(self, text: str) -> int:
        """The number of tokens in ``text``."""
        return sum(
            len(encoding.ids)
            for batch in _batches(text)
            for encoding in self._pipeline.encode_batch_fast(batch, add_special_tokens=False)
        )

    def offsets(self, text: str) -> NDArray[np.uint32]:
        """The character at which each token starts, as ``core.Tokenizer`` says."""
        starts = [np.zeros(0, np.uint32)]
        base = 0
        for batch in _batches(text):
            for piece, encoding in zip(
                batch, self._pipeline.encode_batch(batch, add_special_tokens=False), strict=True
            ):
                starts.append(np.fromiter((start + base for start, _ in encoding.offsets), np.uint32))
                base += len(piece)
        joined = np.concatenate(starts)
        if text and not joined.size:
            return np.zeros(1, np.uint32)
        joined[:1] = 0
        return joined


class JsonTokenizer(VocabularyTokenizer):
    """The tokenizer of a ``tokenizer.json`` file. Raises InputError where the file is none."""

    def __init__(self, path: str | Path) -> None:
        try:
            data = Path(path).read_bytes()
            pipeline = Pipeline.from_buffer(data)
        except OSError as error:
            raise InputError(f"The tokenizer {path} can't be read ({error.strerror}): check the path.") from None
        except Exception as error:  # noqa: BLE001  the library raises bare exceptions
            raise InputError(f"{path} is not a tokenizer.json that can be read: {error}.") from None
        super().__init__(pipeline, "json:" + hashlib.sha256(data).hexdigest())


_CONTRACTIONS = r"(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])"
_GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
_LLAMA3 = _CONTRACTIONS + (r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
_QWEN2 = _LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")

_PRE_TOKENIZERS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("gpt-2", "phi-2", "roberta-bpe"), (_GPT2,)),
    **dict.fromkeys(("qwen2", "deepseek-r1-qwen"), (_QWEN2,)),
    **dict.fromkeys(("llama3", "llama-v3", "llama-bpe"), (_LLAMA3,)),
    **dict.fromkeys(("starcoder", "refact", "command-r", "smollm", "codeshell", "exaone"), (r"\p{N}", _GPT2)),
}
"""The patterns that cut a text before merging, one after the other, by the name of them in a GGUF file."""

_WHOLE_WORDS_FIRST = frozenset(("llama3", "llama-v3", "llama-bpe"))
"""Vocabularies that take a word which is a token whole, whatever the merges would make of it."""

_USER_DEFINED = 4
"""The token type that is recognised in any text."""


class GgufTokenizer(VocabularyTokenizer):
    """The tokenizer that a GGUF file holds beside the weights.

    Raises UnknownVocabulary where the file is no GGUF or its tokenizer is not one of the byte-level BPE known here.
    """

    def __init__(self, path: str | Path) -> None:
        try:
            metadata = read_metadata(path, "tokenizer.ggml.")
        except GgufError as error:
            raise UnknownVocabulary(f"{path} is not a GGUF file that can be read: {error}.") from None
        pre = metadata.get("pre")
        if metadata.get("model") != "gpt2" or pre not in _PRE_TOKENIZERS:
            kind = f"{metadata.get('model')}/{pre}"
            raise UnknownVocabulary(f"The tokenizer of {path} ({kind}) is not known here: its tokens are estimated.")
        tokens, merges = metadata["tokens"], metadata["merges"]
        pipeline = Pipeline(
            models.BPE(
                {token: number for number, token in enumerate(tokens)},
                [tuple(merge.split(" ", 1)) for merge in merges],
                ignore_merges=pre in _WHOLE_WORDS_FIRST,
            )
        )
        pipeline.pre_tokenizer = pre_tokenizers.Sequence(
            [
                *(pre_tokenizers.Split(Regex(pattern), "isolated") for pattern in _PRE_TOKENIZERS[pre]),
                pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
            ]
        )
        kinds = metadata.get("token_type", [])
        pipeline.add_tokens(
            [AddedToken(tokens[at], normalized=False) for at, kind in enumerate(kinds) if kind == _USER_DEFINED]
        )
        digest = hashlib.sha256("\0".join((pre, *tokens, "", *merges)).encode())
        super().__init__(pipeline, "gguf:" + digest.hexdigest())


def _batches(text: str) -> Iterator[list[str]]:
    pieces = map(replace_surrogates, cut_at_seams(text, _PIECE))
    while batch := list(islice(pieces, _BATCH)):
        checkpoint()
        yield batch


def cut_at_seams(text: str, size: int) -> Iterator[str]:
    """``text`` in pieces of at most ``size`` characters, parted where tokens part, if such a place is near."""
    start = 0
    while len(text) - start > size:
        limit = start + size
        seam = _SEAM.search(text, max(limit - _SEAM_REACH, start + 1), limit)
        end = seam.start() if seam else limit
        yield text[start:end]
        start = end
    if start < len(text):
        yield text[start:]
