"""An NLI cross-encoder from its files: texts in, probabilities of entailment and contradiction out.

Knows the files of a checkpoint in ONNX format, its labels and its length; knows nothing of runs and thresholds.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from convmem.core import InputError, checkpoint, extra
from convmem.verify.verifier import UNJUDGED, Judgement

LONGEST = 512
"""Tokens of premise and hypothesis together that are judged at once, where the model takes as many."""
OVERLAP = 0.25
"""The share of a piece of a long premise that the next piece repeats."""
BATCH_TOKENS = 8_192
"""Tokens that are judged at once, padding included."""

_GRAPHS = ("model.onnx", "onnx/model.onnx", "model*.onnx", "onnx/model*.onnx")


class Piece(NamedTuple):
    """A premise, or a part of a long one, with its hypothesis, as the model reads it; ``pair`` is whose it is."""

    pair: int
    ids: Sequence[int]
    types: Sequence[int]


class CrossEncoder:
    """A cross-encoder in ``folder``: ``config.json``, ``tokenizer.json``, and ``model.onnx`` there or in ``onnx/``.

    Any model whose labels name entailment. Raises InputError for a folder that is none, and where ONNX Runtime is not
    installed.
    """

    def __init__(self, folder: Path) -> None:
        if importlib.util.find_spec("onnxruntime") is None:
            raise InputError(f"An NLI verifier needs ONNX Runtime: {extra('nli')}.")
        from onnxruntime import InferenceSession, get_available_providers
        from tokenizers import Tokenizer

        config = _json(folder / "config.json")
        graph = next((found for pattern in _GRAPHS for found in sorted(folder.glob(pattern))), None)
        if graph is None:
            raise InputError(f"'{folder}' has no model.onnx; export the checkpoint to ONNX first.")
        self._entailment, self._contradiction = _labels(config, folder)
        try:
            self._tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
            self._session = InferenceSession(str(graph), providers=get_available_providers())
        except Exception as error:  # either library raises its own, of no common kind
            raise InputError(f"The NLI model in '{folder}' can't be loaded ({error}).") from error
        self._inputs = {given.name for given in self._session.get_inputs()}
        self._padding = int(config.get("pad_token_id") or 0)
        longest = min(LONGEST, int(config.get("max_position_embeddings") or LONGEST))
        self._tokenizer.no_padding()
        self._tokenizer.enable_truncation(longest, stride=round(OVERLAP * longest), strategy="only_first")
        self.identity = f"nli {folder.name} {_digest([graph, folder / 'tokenizer.json', folder / 'config.json'])}"

    def judge(self, texts: Sequence[tuple[str, str]]) -> list[Judgement]:
        """The judgement of each (premise, hypothesis); blocks while the model computes.

        A premise that is too long is judged in overlapping pieces: one that entails the hypothesis is enough, whatever
        the others say, and one that contradicts it is enough where none entails it.
        """
        found: list[list[Judgement]] = [[] for _ in texts]
        pieces = [
            piece
            for pair, (premise, hypothesis) in enumerate(texts)
            for piece in self._pieces(pair, premise, hypothesis)
        ]
        for batch in _batches(pieces):
            checkpoint()
            for piece, judgement in zip(batch, self._judge(batch), strict=True):
                found[piece.pair].append(judgement)
        return [_combined(judgements) for judgements in found]

    def _pieces(self, pair: int, premise: str, hypothesis: str) -> Iterator[Piece]:
        """The pair as the model reads it; nothing where the hypothesis alone is too long for it."""
        try:
            encoded = self._tokenizer.encode(premise, hypothesis)
        except Exception:  # noqa: BLE001 - the library's only sign that nothing can be left out of the premise
            return
        for part in (encoded, *encoded.overflowing):
            yield Piece(pair, part.ids, part.type_ids)

    def _judge(self, batch: Sequence[Piece]) -> Iterator[Judgement]:
        width = max(len(piece.ids) for piece in batch)

        def padded(rows: Sequence[Sequence[int]], value: int) -> NDArray[np.int64]:
            return np.array([[*row, *[value] * (width - len(row))] for row in rows], np.int64)

        given = {
            "input_ids": padded([piece.ids for piece in batch], self._padding),
            "attention_mask": padded([[1] * len(piece.ids) for piece in batch], 0),
            "token_type_ids": padded([piece.types for piece in batch], 0),
        }
        logits = self._session.run(None, {name: given[name] for name in given.keys() & self._inputs})[0]
        odds = np.exp(logits - logits.max(axis=1, keepdims=True), dtype=np.float64)
        for row in odds / odds.sum(axis=1, keepdims=True):
            against = 0.0 if self._contradiction is None else float(row[self._contradiction])
            yield Judgement(float(row[self._entailment]), against)


def _batches(pieces: Sequence[Piece]) -> Iterator[list[Piece]]:
    """The pieces, those of like length together, so that little is padded."""
    batch: list[Piece] = []
    for piece in sorted(pieces, key=lambda piece: len(piece.ids)):
        if batch and len(piece.ids) * (len(batch) + 1) > BATCH_TOKENS:
            yield batch
            batch = []
        batch.append(piece)
    if batch:
        yield batch


def _combined(judgements: Sequence[Judgement]) -> Judgement:
    """The most that any piece of a premise entails and contradicts: of several pieces, more than 1 together."""
    if not judgements:
        return UNJUDGED
    return Judgement(max(j.entailment for j in judgements), max(j.contradiction for j in judgements))


def _labels(config: Any, folder: Path) -> tuple[int, int | None]:
    """Where the model's output has entailment and contradiction; None where it tells only entailment from the rest."""
    names = {str(name).casefold(): int(index) for index, name in (config.get("id2label") or {}).items()}
    entailment = next((at for name, at in names.items() if name.startswith("entail")), None)
    if entailment is None:
        raise InputError(
            f"The labels of '{folder}' don't name entailment ({', '.join(names) or 'none'}); take an NLI model."
        )
    return entailment, next((at for name, at in names.items() if name.startswith("contradict")), None)


def _json(path: Path) -> Any:
    try:
        found = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"'{path}' can't be read as an NLI model's configuration ({error}).") from None
    return found if isinstance(found, dict) else {}


def _digest(files: Sequence[Path]) -> str:
    """What tells one checkpoint from another, whatever its folder is called."""
    whole = hashlib.sha256()
    for path in files:
        with path.open("rb") as file:
            whole.update(hashlib.file_digest(file, "sha256").digest())
    return whole.hexdigest()[:16]
