"""Models with Flex operators, written as TensorFlow's converter does."""

from __future__ import annotations

from typing import Any


def options(op: str, name: str = "", **attributes: Any) -> bytes:
    """The custom options of a Flex node: a FlexBuffer of the name and the serialised NodeDef.

    An attribute is "DT_…" (a type), a bool, int, float, bytes, a tuple (a shape), None (an unknown
    shape) or a list of types.
    """
    from tensorflow.core.framework.node_def_pb2 import NodeDef

    made = NodeDef(name=name or op.lower(), op=op)
    for key, value in attributes.items():
        _set(made.attr[key], value)
    return pack(op, made.SerializeToString())


def pack(op: str, node_def: bytes) -> bytes:
    from flatbuffers import flexbuffers

    builder = flexbuffers.Builder()
    with builder.Vector():
        builder.String(op)
        # a string of bytes that are no text: C++ writes such
        builder._WriteBlob(node_def, append_zero=True, type_=flexbuffers.Type.STRING)
    return bytes(builder.Finish())


def _set(attr: Any, value: Any) -> None:
    from tensorflow.core.framework.types_pb2 import DataType

    if isinstance(value, str):
        attr.type = DataType.Value(value)
    elif isinstance(value, bool):
        attr.b = value
    elif isinstance(value, int):
        attr.i = value
    elif isinstance(value, float):
        attr.f = value
    elif isinstance(value, bytes):
        attr.s = value
    elif isinstance(value, list):
        attr.list.type.extend(DataType.Value(v) for v in value)
    else:
        attr.shape.unknown_rank = value is None
        for size in value or ():
            attr.shape.dim.add().size = size


def flex(graph: Any, op: str, inputs: Any, out: Any, name: str = "", **attributes: Any) -> Any:
    """A Flex node in a graph of `ModelBuilder`."""
    return graph.custom(f"Flex{op}", inputs, out, options=options(op, name, **attributes))
