"""A small NLI cross-encoder with random weights, written as the files that a real one has: same graph inputs, tokenizer
and configuration, so that it goes through the same loading, cutting and batching.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from tokenizers import Tokenizer, models, pre_tokenizers, processors

WIDTH = 16
SURE = 10_000
SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]")


def write_checkpoint(
    folder: Path,
    words: Sequence[str],
    *,
    labels: Sequence[str] = ("contradiction", "entailment", "neutral"),
    types: bool = True,
    longest: int = 64,
    graph: str = "model.onnx",
    telling: Mapping[str, str] | None = None,
    seed: int = 0,
) -> Path:
    """A checkpoint that knows ``words``. ``types``: the graph asks for token types; ``longest`` in tokens.

    ``telling`` words make it all but sure of a label, wherever they stand among those that it reads at once.
    """
    (folder / graph).parent.mkdir(parents=True, exist_ok=True)
    vocabulary = {word: at for at, word in enumerate(dict.fromkeys((*SPECIAL, *words)))}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", vocabulary["[CLS]"]), ("[SEP]", vocabulary["[SEP]"])],
    )
    tokenizer.save(str(folder / "tokenizer.json"))
    config = {"id2label": dict(enumerate(labels)), "max_position_embeddings": longest, "pad_token_id": 0}
    (folder / "config.json").write_text(json.dumps(config), "utf-8")
    rng = np.random.default_rng(seed)
    matrices = {
        "words": rng.normal(size=(len(vocabulary), WIDTH + len(labels))),
        "segments": rng.normal(size=(2, WIDTH + len(labels))),
        "layer": np.vstack([rng.normal(size=(WIDTH, len(labels))), np.eye(len(labels))]),
    }
    matrices["words"][:, WIDTH:], matrices["segments"][:, WIDTH:] = 0, 1
    for word, label in (telling or {}).items():
        matrices["words"][vocabulary[word], WIDTH + labels.index(label)] = SURE
    onnx.save(_model(matrices, len(labels), types), str(folder / graph))
    return folder


def _model(matrices: Mapping[str, np.ndarray], labels: int, types: bool) -> onnx.ModelProto:
    """Words embedded, times their segment where there are types, the mean of what is not masked, and a layer on it."""

    def node(kind: str, inputs: str, output: str, **attributes: object) -> onnx.NodeProto:
        return helper.make_node(kind, inputs.split(), [output], **attributes)

    given = ["input_ids", "attention_mask", *(["token_type_ids"] if types else [])]
    nodes = [
        node("Gather", "words input_ids", "embedded"),
        node("Cast", "attention_mask", "mask", to=TensorProto.FLOAT),
        node("Unsqueeze", "mask last", "masks"),
        node("Mul", "embedded masks", "kept"),
    ]
    summed = "kept"
    if types:
        nodes += [
            node("Gather", "segments token_type_ids", "signs"),
            node("Mul", "kept signs", "signed"),
        ]
        summed = "signed"
    nodes += [
        node("ReduceSum", f"{summed} middle", "sum", keepdims=0),
        node("ReduceSum", "mask middle", "count", keepdims=1),
        node("Div", "sum count", "mean"),
        node("MatMul", "mean layer", "logits"),
    ]
    graph = helper.make_graph(
        nodes,
        "nli",
        [helper.make_tensor_value_info(name, TensorProto.INT64, ["batch", "length"]) for name in given],
        [helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["batch", labels])],
        [
            *(numpy_helper.from_array(matrix.astype(np.float32), name) for name, matrix in matrices.items()),
            numpy_helper.from_array(np.array([-1], np.int64), "last"),
            numpy_helper.from_array(np.array([1], np.int64), "middle"),
        ],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
