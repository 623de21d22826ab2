"""SentencePiece tokenisers: TFText>FastSentencepieceTokenize and ..Detokenize of TensorFlow Text,
and the same under the names of TensorFlow Lite Support.

No library is needed: the model is a FlatBuffer in input 0, made for these ops.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ._sentencepiece import Decoder, Encoder
from ._text import offsets, row_splits, strings
from .api import Context, Node, NodeSpec, Registration, require, take
from .types import Array, DType

# The model, the text, the number of samples and their smoothing (neither is used, as in the
# reference), whether to add the codes of begin and end and to reverse the order.
_TEXT, _BEGIN, _END, _REVERSE = 1, 4, 5, 6


def _check_model(node: NodeSpec, inputs: int, outputs: int) -> None:
    require(
        len(node.inputs) >= inputs and len(node.outputs) == outputs,
        f"{node.op} has {inputs} inputs at least and {outputs} outputs; the model gives it "
        f"{len(node.inputs)} and {len(node.outputs)}",
    )
    take(node, "input 0", node.input(0), DType.UINT8, DType.INT8)


def _check_tokenize(node: NodeSpec) -> None:
    _check_model(node, _REVERSE + 1, 2)
    take(node, f"input {_TEXT}", node.input(_TEXT), DType.STRING)
    for i in (_BEGIN, _END, _REVERSE):
        flag = node.input(i)
        take(node, f"input {i}", flag, DType.BOOL)
        require(flag.size == 1, f"input {i} is {flag}; taken: one value")
    for i, y in enumerate(node.outputs):
        take(node, f"output {i}", y, DType.INT32)


def _tokenize(encoder: Encoder, x: Sequence[Array]) -> list[Array]:
    """Codes of all texts in a row, and where those of each begin and end."""
    flags = [bool(x[i].reshape(-1)[0]) for i in (_BEGIN, _END, _REVERSE)]
    rows = [encoder.encode(text, *flags) for text in x[_TEXT].reshape(-1)]
    codes = [code for row in rows for code in row]
    return [np.array(codes, np.int32), offsets([len(r) for r in rows], np.dtype(np.int32))]


def _check_detokenize(node: NodeSpec) -> None:
    _check_model(node, 3, 1)
    for i in (1, 2):
        take(node, f"input {i}", node.input(i), DType.INT32)
    take(node, "output 0", node.outputs[0], DType.STRING)


def _detokenize(decoder: Decoder, x: Sequence[Array]) -> list[Array]:
    codes: list[int] = x[1].reshape(-1).tolist()
    ends = row_splits(x[2], len(codes), "input 2, where texts begin and end,").tolist()
    return [strings([decoder.decode(codes[a:b]) for a, b in itertools.pairwise(ends)])]


class _Model:
    """What was made of a node's model, and the bytes it was made of."""

    def __init__(self) -> None:
        self.data: bytes | None = None
        self.made: Any = None


def _op(
    name: str,
    make: Callable[[bytes], Any],
    check: Callable[[NodeSpec], None],
    call: Callable[[Any, Sequence[Array]], list[Array]],
) -> Registration:
    def init(context: Context, options: Any) -> _Model:
        return _Model()

    def model(node: Node, data: Array | None) -> Any:
        held: _Model = node.user_data
        if data is not None and (held.data is None or node.spec.input(0).const is None):
            raw = data.tobytes()
            if raw != held.data:
                held.data, held.made = raw, make(raw)
        return held.made

    def prepare(context: Context, node: Node) -> None:
        check(node.spec)
        model(node, node.spec.input(0).const)
        for output in node.outputs:
            context.set_dynamic(output)

    def invoke(context: Context, node: Node) -> None:
        x = [np.zeros(0) if t is None else t.array for t in node.inputs]
        results = call(model(node, x[0]), x)
        for output, value in zip(node.outputs, results, strict=True):
            context.resize(output, value.shape)
            output.array[...] = value

    return Registration(name=name, init=init, prepare=prepare, invoke=invoke, custom=True)


OPS = {
    name: _op(name, make, check, call)
    for names, make, check, call in (
        (
            ("TFText>FastSentencepieceTokenize", "TFSentencepieceTokenizeOp"),
            Encoder,
            _check_tokenize,
            _tokenize,
        ),
        (
            ("TFText>FastSentencepieceDetokenize", "TFSentencepieceDetokenizeOp"),
            Decoder,
            _check_detokenize,
            _detokenize,
        ),
    )
    for name in names
}
