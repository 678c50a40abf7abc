"""Cuts an ONNX model: the part between given values becomes a model of its own.

Only the envelope of the file is read; nodes and weights are copied as they are (field numbers: onnx.proto). ONNX's own
library could do it too, but would be needed for nothing else.
"""

from collections.abc import Mapping, Sequence

from perception.protobuf import content, fields, number, texts

GRAPH = 7
NODE, NAME, INITIALIZER, INPUT, OUTPUT = 1, 2, 5, 11, 12
NODE_INPUT, NODE_OUTPUT = 1, 2
TENSOR_NAME = 8
FLOAT, INT64 = 1, 7
"""Element types of TensorProto."""


def part(model: bytes, inputs: Mapping[str, int], outputs: Sequence[str]) -> bytes:
    """Returns the model that computes `outputs` from `inputs`.

    Args:
        model: A serialised ModelProto without subgraphs and external data.
        inputs: Element type by name, of the model's own inputs or of inner values; nothing before them is kept.
        outputs: Names of inner values or of the model's outputs.

    Raises:
        ValueError: These are no bytes of a model, or an output depends on something that is neither an input nor in it.
    """
    envelope = list(fields(model))
    graph = [inner for field in envelope if field.number == GRAPH for inner in fields(field.content)]
    tensors = {texts(field.content, TENSOR_NAME)[0]: field.raw for field in graph if field.number == INITIALIZER}
    nodes = [field for field in graph if field.number == NODE]
    makers = {name: index for index, node in enumerate(nodes) for name in texts(node.content, NODE_OUTPUT) if name}
    kept: set[int] = set()
    used: set[str] = set()
    wanted = list(outputs)
    while wanted:
        name = wanted.pop()
        if not name or name in inputs or name in used:
            continue
        used.add(name)
        if name in makers:
            if makers[name] not in kept:
                kept.add(makers[name])
                wanted.extend(texts(nodes[makers[name]].content, NODE_INPUT))
        elif name not in tensors:
            raise ValueError(f"the model has no {name!r}, on which {', '.join(outputs)} depend")
    body: list[bytes | memoryview] = [content(NAME, b"part")]
    # Nodes stay in their order, in which each follows those that it needs.
    body += [nodes[index].raw for index in sorted(kept)]
    body += [raw for name, raw in tensors.items() if name in used]
    body += [content(INPUT, content(1, name.encode()) + _tensor_of(kind)) for name, kind in inputs.items()]
    body += [content(OUTPUT, content(1, name.encode())) for name in outputs]
    rest = [field.raw for field in envelope if field.number != GRAPH]
    return b"".join([*rest, content(GRAPH, b"".join(body))])


def _tensor_of(element_type: int) -> bytes:
    """The type of a ValueInfoProto: a tensor of any shape."""
    return content(2, content(1, number(1, element_type)))
