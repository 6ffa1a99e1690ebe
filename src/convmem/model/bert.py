"""A BERT encoder's weights as an ONNX graph, for checkpoints that come without one. Knows tensors; knows no text.

Devlin et al., 2019: embeddings, then layers of self-attention and a feed-forward network, each with a residual
connection and a normalization behind it. The graph takes ``input_ids`` and ``attention_mask``, both of shape (texts,
tokens), and gives ``last_hidden_state`` of shape (texts, tokens, dimensions).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

OPSET = 20
"""The first that has Gelu."""

Tensor = NDArray[Any]


class Graph:
    """Nodes and constants of a graph in the making; what an operation gives is known by its name."""

    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []

    def constant(self, value: Tensor | np.float32 | list[int]) -> str:
        name = f"c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.asarray(value), name))
        return name

    def op(self, kind: str, *inputs: str, **attributes: Any) -> str:
        name = f"n{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, inputs, [name], **attributes))
        return name


def as_onnx(config: Mapping[str, Any], weights: Mapping[str, Tensor]) -> bytes:
    """The model of a checkpoint's ``config.json`` and tensors. Raises KeyError where one that BERT has is missing."""
    graph = Graph()
    heads, size = config["num_attention_heads"], config["hidden_size"]

    def linear(value: str, name: str) -> str:
        matrix = graph.constant(np.ascontiguousarray(weights[f"{name}.weight"].T))
        return graph.op("Add", graph.op("MatMul", value, matrix), graph.constant(weights[f"{name}.bias"]))

    def normalized(value: str, name: str) -> str:
        scale, bias = (graph.constant(weights[f"{name}.{part}"]) for part in ("weight", "bias"))
        return graph.op("LayerNormalization", value, scale, bias, epsilon=config["layer_norm_eps"])

    def in_heads(value: str, order: list[int]) -> str:
        parted = graph.op("Reshape", value, graph.constant([0, 0, heads, size // heads]))
        return graph.op("Transpose", parted, perm=order)

    length = graph.op("Slice", graph.op("Shape", "input_ids"), *(graph.constant([at]) for at in (1, 2)))
    places = graph.op("Slice", graph.constant(weights["embeddings.position_embeddings.weight"]),
                      graph.constant([0]), length, graph.constant([0]))  # fmt: skip
    words = graph.op("Gather", graph.constant(weights["embeddings.word_embeddings.weight"]), "input_ids")
    kind = graph.constant(weights["embeddings.token_type_embeddings.weight"][0])
    hidden = normalized(graph.op("Add", graph.op("Add", words, places), kind), "embeddings.LayerNorm")

    absent = graph.op("Sub", graph.constant(np.float32(1)), graph.op("Cast", "attention_mask", to=TensorProto.FLOAT))
    masked = graph.op("Mul", graph.op("Unsqueeze", absent, graph.constant([1, 2])), graph.constant(np.float32(-1e9)))
    for layer in range(config["num_hidden_layers"]):
        at = f"encoder.layer.{layer}"
        query, value = (
            in_heads(linear(hidden, f"{at}.attention.self.{part}"), [0, 2, 1, 3]) for part in ("query", "value")
        )
        key = in_heads(linear(hidden, f"{at}.attention.self.key"), [0, 2, 3, 1])
        scale = graph.constant(np.float32((size // heads) ** -0.5))
        scores = graph.op("Add", graph.op("Mul", graph.op("MatMul", query, key), scale), masked)
        seen = graph.op("MatMul", graph.op("Softmax", scores, axis=-1), value)
        joined = graph.op("Reshape", graph.op("Transpose", seen, perm=[0, 2, 1, 3]), graph.constant([0, 0, size]))
        attended = graph.op("Add", linear(joined, f"{at}.attention.output.dense"), hidden)
        hidden = normalized(attended, f"{at}.attention.output.LayerNorm")
        inner = graph.op("Gelu", linear(hidden, f"{at}.intermediate.dense"))
        hidden = normalized(graph.op("Add", linear(inner, f"{at}.output.dense"), hidden), f"{at}.output.LayerNorm")

    graph.nodes.append(helper.make_node("Identity", [hidden], ["last_hidden_state"]))
    inputs = [
        helper.make_tensor_value_info(name, TensorProto.INT64, ["texts", "tokens"])
        for name in ("input_ids", "attention_mask")
    ]
    output = helper.make_tensor_value_info("last_hidden_state", TensorProto.FLOAT, ["texts", "tokens", size])
    made = helper.make_graph(graph.nodes, "bert", inputs, [output], graph.constants)
    model = helper.make_model(made, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=9)
    return bytes(model.SerializeToString())
