"""Builds an ONNX model of stacked LSTM layers, so that ONNX Runtime runs them on one thread.

NumPy could too, but its matrix products run on as many threads as there are cores, which spin against every other
process when the products are as small as here. Field numbers: onnx.proto.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from perception.protobuf import content, number

Floats = NDArray[np.float32]
Layer = tuple[Floats, Floats, Floats]
"""As PyTorch keeps it: weights (4 size, inputs), recurrent weights (4 size, size), both biases added (4 size,); the
gates in the order input, forget, cell, output."""

IR_VERSION, OPSET = 8, 17
FLOAT, INT64 = 1, 7
INPUT, OUTPUT = "heard", "state"


def model(layers: Sequence[Layer]) -> bytes:
    """Returns a model: float32 (frames, sequences, inputs) becomes the last layer's last state (sequences, size)."""
    nodes, signal = [], INPUT
    tensors = [_tensor(name, INT64, (1,), np.array([axis], np.int64)) for name, axis in (("first", 0), ("second", 1))]
    for index, (inward, recurrent, bias) in enumerate(layers):
        size = recurrent.shape[1]
        weights = {
            f"inward{index}": _gates(inward)[None],
            f"recurrent{index}": _gates(recurrent)[None],
            f"bias{index}": np.concatenate([_gates(bias), np.zeros(4 * size, np.float32)])[None],
        }
        tensors += [_tensor(name, FLOAT, values.shape, values) for name, values in weights.items()]
        nodes.append(_node("LSTM", [signal, *weights], [f"all{index}", f"last{index}"], size))
        nodes.append(_node("Squeeze", [f"all{index}", "second"], [f"signal{index}"]))
        signal = f"signal{index}"
    nodes.append(_node("Squeeze", [f"last{len(layers) - 1}", "first"], [OUTPUT]))
    kind = content(2, content(1, number(1, FLOAT)))
    graph = b"".join(
        [
            *(content(1, node) for node in nodes),
            content(2, b"lstm"),
            *(content(5, tensor) for tensor in tensors),
            content(11, content(1, INPUT.encode()) + kind),
            content(12, content(1, OUTPUT.encode()) + kind),
        ]
    )
    return number(1, IR_VERSION) + content(7, graph) + content(8, number(2, OPSET))


def _gates(values: Floats) -> Floats:
    """Brings PyTorch's order of the gates into that of ONNX: input, output, forget, cell."""
    enter, keep, new, leave = np.split(values, 4)
    return np.concatenate([enter, leave, keep, new]).astype(np.float32)


def _node(kind: str, inputs: Sequence[str], outputs: Sequence[str], hidden_size: int | None = None) -> bytes:
    names = b"".join(
        [*(content(1, name.encode()) for name in inputs), *(content(2, name.encode()) for name in outputs)]
    )
    if hidden_size is None:
        return names + content(4, kind.encode())
    attribute = content(1, b"hidden_size") + number(3, hidden_size) + number(20, 2)
    return names + content(4, kind.encode()) + content(5, attribute)


def _tensor(name: str, kind: int, shape: Sequence[int], values: NDArray[np.generic]) -> bytes:
    sizes = b"".join(number(1, size) for size in shape)
    return sizes + number(2, kind) + content(8, name.encode()) + content(9, values.tobytes())
