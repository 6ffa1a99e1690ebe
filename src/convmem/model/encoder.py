"""A trained encoder that is here as files: texts in, vectors out, by ONNX Runtime. Knows no document and no server.

The files are those of a sentence encoder as it is published: ``tokenizer.json`` and ``model.onnx``, or the checkpoint
of a BERT as ``config.json`` and ``model.safetensors``. They lie in a folder, in a zip file, or in an installed package,
which is looked into and never run. Nothing is downloaded.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, files
from pathlib import Path
from typing import Any
from zipfile import BadZipFile, ZipFile

import numpy as np
from numpy.typing import NDArray

from convmem.core import InputError, checkpoint, extra

LONGEST = 256
"""Tokens of a text that are read, where the files don't say; what goes beyond them is left out."""
BATCH = 16

Read = Callable[[str], bytes | None]
"""The content of the file of that name, None where there is none."""


class Encoder:
    """A sentence encoder: the mean of its last layer over a text's tokens, of unit length.

    ``spec`` is a folder, a zip file or the name of an installed package. Raises InputError where there is no encoder,
    or where what runs it is not installed.
    """

    def __init__(self, spec: str) -> None:
        try:
            from onnxruntime import InferenceSession
            from tokenizers import Tokenizer
        except ModuleNotFoundError:
            raise InputError(f"An encoder needs ONNX Runtime: {extra('embed')}.") from None
        read = _files_of(spec)
        vocabulary, graph = read("tokenizer.json"), _graph(read)
        if vocabulary is None or graph is None:
            missing = "tokenizer.json" if vocabulary is None else "model.onnx, nor config.json and model.safetensors"
            raise InputError(f"'{spec}' is no encoder: it has no {missing}.")
        try:
            self._tokenizer = Tokenizer.from_buffer(vocabulary)
            self._session = InferenceSession(graph, providers=["CPUExecutionProvider"])
        except Exception as error:  # either library raises its own, of no common kind
            raise InputError(f"The encoder in '{spec}' can't be loaded ({error}).") from error
        limits = json.loads(read("sentence_bert_config.json") or b"{}")
        self._tokenizer.enable_truncation(int(limits.get("max_seq_length") or LONGEST))
        self._tokenizer.enable_padding()
        self._inputs = {given.name for given in self._session.get_inputs()}
        digest = hashlib.sha256(vocabulary)
        digest.update(graph)
        self.identity = "encoder:" + digest.hexdigest()

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """A vector of unit length for each text, shape (texts, dimensions)."""
        order = sorted(range(len(texts)), key=lambda number: len(texts[number]))  # alike in length, little padding
        rows: dict[int, NDArray[np.float32]] = {}
        for start in range(0, len(order), BATCH):
            checkpoint()
            some = order[start : start + BATCH]
            rows |= zip(some, self._embed([texts[number] for number in some]), strict=True)
        return np.stack([rows[number] for number in range(len(texts))]) if rows else np.zeros((0, 0), np.float32)

    def _embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        encoded = self._tokenizer.encode_batch(list(texts))
        given = {
            "input_ids": np.array([each.ids for each in encoded], np.int64),
            "attention_mask": np.array([each.attention_mask for each in encoded], np.int64),
            "token_type_ids": np.array([each.type_ids for each in encoded], np.int64),
        }
        hidden = self._session.run(None, {name: given[name] for name in given.keys() & self._inputs})[0]
        mask = given["attention_mask"][:, :, None]
        return unit((hidden * mask).sum(axis=1) / np.maximum(mask.sum(axis=1), 1))


def unit(vectors: NDArray[Any]) -> NDArray[np.float32]:
    """The vectors with unit length, zeros as they are; shape (texts, dimensions)."""
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    scaled: NDArray[np.float64] = np.divide(vectors, lengths, out=np.zeros(vectors.shape), where=lengths > 0)
    return scaled.astype(np.float32)


def _graph(read: Read) -> bytes | None:
    """The encoder's graph as it is, or made of a checkpoint's weights."""
    for name in ("model.onnx", "onnx/model.onnx"):
        if graph := read(name):
            return graph
    config, weights = read("config.json"), read("model.safetensors")
    if config is None or weights is None:
        return None
    try:
        from safetensors.numpy import load

        from convmem.model.bert import as_onnx
    except ModuleNotFoundError:
        raise InputError(f"A checkpoint without model.onnx needs more packages: {extra('embed')}.") from None
    described: Mapping[str, Any] = json.loads(config)
    tensors = {name.removeprefix("bert."): tensor.astype(np.float32) for name, tensor in load(weights).items()}
    try:
        return as_onnx(described, tensors)
    except KeyError as error:
        raise InputError(f"The checkpoint is no BERT encoder (it has no {error}); export it to ONNX.") from None


def _files_of(spec: str) -> Read:
    """The files of an encoder by their names, wherever it is. Raises InputError where there is nothing."""
    path = Path(spec).expanduser()
    if path.is_dir():
        return lambda name: (path / name).read_bytes() if (path / name).is_file() else None
    if path.is_file():
        return _zipped(path)
    try:
        within = [Path(str(file.locate())) for file in files(spec) or ()]
    except (PackageNotFoundError, ValueError):
        raise InputError(f"There is no folder and no installed package '{spec}' with an encoder.") from None
    for file in within:
        if file.name == "tokenizer.json":
            return _files_of(str(file.parent))
        if file.suffix == ".zip":
            return _zipped(file)
    raise InputError(f"The package '{spec}' has no encoder: there is no tokenizer.json in it.")


def _zipped(path: Path) -> Read:
    def read(name: str) -> bytes | None:
        try:
            with ZipFile(path) as archive:
                return archive.read(name) if name in archive.namelist() else None
        except BadZipFile:
            raise InputError(f"'{path}' is neither a folder nor a zip file with an encoder.") from None

    return read
