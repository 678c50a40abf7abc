"""Write the graph of the text encoder, `perception/mpnet.onnx`; it holds no weights.

MPNet (Song et al., 2020) in eight bits: every product with a weight is one of integers, with a scale for each block of
activations and of weights. `Encoder` fills the weights in when it is loaded. Needs the package `onnx`:

    python -m services.understanding.training.mpnet_graph
"""

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper

LAYERS, HEADS, WIDTH, INNER = 12, 12, 768, 3072
EPSILON = 1e-5
BLOCK = 32
"""Inputs that share a scale, of weights and of activations: MPNet has a few far larger than the rest."""
ACCURACY_LEVEL = 4
"""Of MatMulNBits: activations are rounded to eight bits too."""
GRAPH = Path(__file__).parents[3] / "perception" / "mpnet.onnx"


class Writer:
    """Nodes and weights of a graph, in order."""

    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []
        self._count = 0

    def node(self, kind: str, *inputs: str, outputs: int = 1, **attributes: object) -> str:
        """Add a node; return the name of its first output, which the others follow with a number."""
        self._count += 1
        names = [f"t{self._count}{f'_{n}' if n else ''}" for n in range(outputs)]
        self.nodes.append(helper.make_node(kind, list(inputs), names, **attributes))
        return names[0]

    def constant(self, name: str, value: np.ndarray) -> str:
        """Add a small tensor that stands in the file."""
        self.weights.append(onnx.numpy_helper.from_array(value, name))
        return name

    def weight(self, name: str, kind: int, *shape: int) -> str:
        """Add a tensor that is filled in later."""
        tensor = TensorProto(name=name, data_type=kind, dims=shape, data_location=TensorProto.EXTERNAL)
        tensor.external_data.add(key="location", value="weights")
        self.weights.append(tensor)
        return name

    def linear(self, x: str, name: str, inputs: int, outputs: int) -> str:
        """Add a product with an 8-bit weight, whose scales are by blocks of its inputs, and a bias."""
        blocks = inputs // BLOCK
        real = self.node(
            "MatMulNBits",
            x,
            self.weight(f"{name}.q", TensorProto.UINT8, outputs, blocks, BLOCK),
            self.weight(f"{name}.scale", TensorProto.FLOAT, outputs * blocks),
            domain="com.microsoft",
            K=inputs,
            N=outputs,
            bits=8,
            block_size=BLOCK,
            accuracy_level=ACCURACY_LEVEL,
        )
        return self.node("Add", real, self.weight(f"{name}.bias", TensorProto.FLOAT, outputs))

    def norm(self, x: str, name: str) -> str:
        """Add a layer normalisation."""
        gain, bias = (self.weight(f"{name}.{part}", TensorProto.FLOAT, WIDTH) for part in ("weight", "bias"))
        return self.node("LayerNormalization", x, gain, bias, axis=-1, epsilon=EPSILON)


def build() -> onnx.ModelProto:
    """Return the graph: embedded tokens (n, 768) and the bias of their distances (12, n, n) in, states (n, 768) out."""
    out = Writer()
    heads = out.constant("heads", np.array([0, HEADS, WIDTH // HEADS], np.int64))
    joined = out.constant("joined", np.array([0, WIDTH], np.int64))
    root = out.constant("root", np.array(1 / np.sqrt(WIDTH // HEADS), np.float32))
    x = out.norm("embedded", "embeddings")
    for layer in range(LAYERS):
        q, k, v = (
            out.node("Transpose", out.node("Reshape", out.linear(x, f"{layer}.{part}", WIDTH, WIDTH), heads), perm=perm)
            for part, perm in (("q", [1, 0, 2]), ("k", [1, 2, 0]), ("v", [1, 0, 2]))
        )
        scores = out.node("Add", out.node("Mul", out.node("MatMul", q, k), root), "distance")
        mixed = out.node("MatMul", out.node("Softmax", scores, axis=-1), v)
        flat = out.node("Reshape", out.node("Transpose", mixed, perm=[1, 0, 2]), joined)
        x = out.norm(out.node("Add", out.linear(flat, f"{layer}.o", WIDTH, WIDTH), x), f"{layer}.attention")
        wide = out.node("Gelu", out.linear(x, f"{layer}.up", WIDTH, INNER))
        x = out.norm(out.node("Add", out.linear(wide, f"{layer}.down", INNER, WIDTH), x), f"{layer}.output")
    number = TensorProto.FLOAT
    inputs = [
        helper.make_tensor_value_info("embedded", number, ["n", WIDTH]),
        helper.make_tensor_value_info("distance", number, [HEADS, "n", "n"]),
    ]
    outputs = [helper.make_tensor_value_info(x, number, ["n", WIDTH])]
    graph = helper.make_graph(out.nodes, "mpnet", inputs, outputs, out.weights)
    return helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", 20), helper.make_opsetid("com.microsoft", 1)], ir_version=9
    )


if __name__ == "__main__":
    GRAPH.write_bytes(build().SerializeToString())
