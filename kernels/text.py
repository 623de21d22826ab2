"""Text ops of TensorFlow Text and TensorFlow Lite Support that need no model: splitting at
whitespace, and n-grams of words.

What white space is, TFText>WhitespaceTokenizeWithOffsetsV2 reads from its second input, one bit for
each code point; tftext:WhitespaceTokenizer takes that of Unicode.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence

import numpy as np

from ._check import option_map
from ._text import dynamic, offsets, option, row_splits, strings
from .api import NodeSpec, require, take
from .types import Array, DType

_V2 = "TFText>WhitespaceTokenizeWithOffsetsV2"


# -- TFText>WhitespaceTokenizeWithOffsetsV2: texts [n] to all their words in a row, where those of
# each text begin and end, and where each word begins and ends in its text, in bytes


def _check_v2(node: NodeSpec) -> None:
    _counted(node, 2, 4)
    x, config = node.input(0), node.input(1)
    take(node, "input 0", x, DType.STRING)
    take(node, "input 1", config, DType.STRING)
    require(x.rank == 1, f"input 0 is {x}; taken: [texts]")
    require(config.size == 1, f"input 1 is {config}; taken: one table of white space")
    types = (DType.STRING, DType.INT64, DType.INT32, DType.INT32)
    for i, (y, dtype) in enumerate(zip(node.outputs, types, strict=True)):
        take(node, f"output {i}", y, dtype)


def _counted(node: NodeSpec, inputs: int, outputs: int) -> None:
    require(
        (len(node.inputs), len(node.outputs)) == (inputs, outputs),
        f"{node.op} has {inputs} inputs and {outputs} outputs; the model gives it "
        f"{len(node.inputs)} and {len(node.outputs)}",
    )


def _split_v2(node: NodeSpec, x: Sequence[Array]) -> list[Array]:
    table: bytes = x[1].reshape(-1)[0]
    words: list[bytes] = []
    begins: list[int] = []
    ends: list[int] = []
    counts = []
    for text in x[0]:
        found = list(_words_v2(text, table))
        counts.append(len(found))
        words += [text[a:b] for a, b in found]
        begins += [a for a, _ in found]
        ends += [b for _, b in found]
    splits = offsets(counts, np.dtype(np.int64))
    return [strings(words), splits, np.array(begins, np.int32), np.array(ends, np.int32)]


def _words_v2(text: bytes, table: bytes) -> Iterator[tuple[int, int]]:
    """Where words begin and end.

    As in the reference, an end is one byte before that of the white space behind it: of white space
    of several bytes all but the last stay with the word. Vocabularies were made from such words.
    """
    begin = -1
    for at, end, point in _code_points(text):
        if 0 <= point < 8 * len(table) and table[point >> 3] >> (point & 7) & 1:
            if begin >= 0:
                yield begin, end - 1
            begin = -1
        elif begin < 0:
            begin = at
    if begin >= 0:
        yield begin, len(text)


def _code_points(text: bytes) -> Iterator[tuple[int, int, int]]:
    """Begin, end and number of each code point; -1 for bytes that are no UTF-8."""
    at = 0
    for kind in text.decode("utf-8", "surrogateescape"):
        point = ord(kind)
        bad = 0xDC80 <= point <= 0xDCFF
        size = 1 if bad or point < 0x80 else 2 if point < 0x800 else 3 if point < 0x10000 else 4
        yield at, at + size, -1 if bad else point
        at += size


# -- tftext:WhitespaceTokenizer: texts [..] to words [.., most words] with empty ones at the end, or
# to all words in a row and the row splits of each dimension

_SPACE = "\t\n\v\f\r \x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"
_WORD = re.compile(f"[^{_SPACE}]+")


def _check_split(node: NodeSpec) -> None:
    x, y = node.input(0), node.outputs
    take(node, "input 0", x, DType.STRING)
    require(
        len(node.inputs) == 1 and len(y) in (1, 1 + x.rank),
        f"{node.op} has one input and 1 output, or 1 + {x.rank} where input 0 is {x}; the model "
        f"gives it {len(node.inputs)} and {len(y)}",
    )
    take(node, "output 0", y[0], DType.STRING)
    for i, splits in enumerate(y[1:], 1):
        take(node, f"output {i}", splits, DType.INT64)


def _split(node: NodeSpec, x: Sequence[Array]) -> list[Array]:
    rows = [_words(text) for text in x[0].reshape(-1)]
    shape = x[0].shape
    if len(node.outputs) == 1:
        most = max(map(len, rows), default=0)
        padded = [word for row in rows for word in row + [b""] * (most - len(row))]
        return [strings(padded).reshape(*shape, most)]
    splits = [
        np.arange(np.prod(shape[:i], dtype=np.int64) + 1, dtype=np.int64) * shape[i]
        for i in range(1, len(shape))
    ]
    last = offsets([len(r) for r in rows], np.dtype(np.int64))
    return [strings([word for row in rows for word in row]), *splits, last]


def _words(text: bytes) -> list[bytes]:
    """As in the reference, what follows bytes that are no UTF-8, or U+FFFD, is left out."""
    try:
        whole = text.decode()
    except UnicodeDecodeError as e:
        whole = text[: e.start].decode()
    return [word.encode() for word in _WORD.findall(whole.split("\ufffd", 1)[0])]


# -- TFText>NgramsStringJoin and tftext:Ngrams: every `width` words that follow one another in the
# last dimension, or in a row of a ragged tensor, joined


def _check_ngrams(node: NodeSpec) -> None:
    x = node.input(0)
    take(node, "input 0", x, DType.STRING)
    _counted(node, len(node.inputs), len(node.inputs))
    take(node, "output 0", node.outputs[0], DType.STRING)
    for i, y in enumerate(node.outputs[1:], 1):
        take(node, f"input {i}", node.input(i), DType.INT64)
        take(node, f"output {i}", y, DType.INT64)
    require(x.rank >= 1, f"input 0 is {x}; taken: one dimension at least")
    axis, width = int(option(node.options, "axis")), int(option(node.options, "width"))
    require(axis == -1 and width > 0, f"axis is {axis} and width {width}; taken: -1 and from 1")
    kind = option_map(node.options).get("reduction_type", "STRING_JOIN")
    require(kind == "STRING_JOIN", f"reduction_type is {kind!r}; taken: 'STRING_JOIN'")


def _ngrams(node: NodeSpec, x: Sequence[Array]) -> list[Array]:
    width = int(option(node.options, "width"))
    between = option(node.options, "string_separator").encode()
    words = x[0].reshape(-1).tolist()
    if len(x) > 1:
        ends = row_splits(x[-1], len(words), f"input {len(x) - 1}, the row splits,").tolist()
    else:
        n = x[0].shape[-1]
        ends = list(range(0, len(words) + 1, n)) if n else [0]
    found, counts = [], []
    for a, b in itertools.pairwise(ends):
        row = [between.join(words[i : i + width]) for i in range(a, b - width + 1)]
        found += row
        counts.append(len(row))
    if len(x) > 1:
        return [strings(found), *x[1:-1], offsets(counts, np.dtype(np.int64))]
    *outer, n = x[0].shape
    return [strings(found).reshape(*outer, max(0, n - width + 1))]


OPS = {
    _V2: dynamic(_V2, _check_v2, _split_v2),
    "tftext:WhitespaceTokenizer": dynamic("tftext:WhitespaceTokenizer", _check_split, _split),
    "TFText>NgramsStringJoin": dynamic("TFText>NgramsStringJoin", _check_ngrams, _ngrams),
    "tftext:Ngrams": dynamic("tftext:Ngrams", _check_ngrams, _ngrams),
}
