"""FlexBuffers: what the reference encoder writes is read, and no bytes crash or hang the reader."""

from __future__ import annotations

import math
import struct
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flatbuffers import flexbuffers
from hypothesis import given
from hypothesis import strategies as st

from litedelegate.runtime.flexbuffer import MAX_DEPTH, FlexBufferError, decode, encode
from litedelegate.runtime.model import Model

numbers = st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=False)
scalars = st.none() | st.booleans() | numbers | st.text() | st.binary()
keys = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]))
values = st.recursive(
    scalars, lambda inner: st.lists(inner) | st.dictionaries(keys, inner), max_leaves=30
)


@given(values)
def test_round_trip(value: Any) -> None:
    assert decode(encode(value)) == value


def test_numbers_keep_their_kind() -> None:
    got = decode(encode({"i": -1, "u": 2**64 - 1, "f": 1.0, "b": True, "n": None}))
    assert got == {"i": -1, "u": 2**64 - 1, "f": 1.0, "b": True, "n": None}
    assert [type(v) for v in got.values()] == [bool, float, int, type(None), int]


def test_floats_are_exact() -> None:
    assert decode(encode([0.1, math.inf, -0.0])) == [0.1, math.inf, -0.0]
    assert math.isnan(decode(encode(math.nan)))


def test_numpy_values() -> None:
    got = decode(encode({"a": np.arange(3, dtype=np.int32), "s": np.float32(0.5)}))
    assert got == {"a": [0, 1, 2], "s": 0.5}


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        ([1, -2], 11),
        (np.float32([0.5, 1]), 13),
        ([True, False], 36),
        ([1, 2**63], 10),
        ([1, 1.0], 10),
        ([], 10),
        ({"a": 1}, 9),
    ],
)
def test_lists_of_one_kind_of_number_are_typed(value: Any, kind: int) -> None:
    assert encode(value)[-2] >> 2 == kind


@pytest.mark.parametrize(
    ("value", "error", "text"),
    [
        ({1, 2}, TypeError, "cannot hold set"),
        ({"a": [0, {"b": 1j}]}, TypeError, "cannot hold complex"),
        ({"a": -(2**63) - 1}, OverflowError, "more than 64 bits"),
        ([2**64], OverflowError, "more than 64 bits"),
        ({"a\0": 1}, ValueError, "contains a NUL"),
        ({"a": "\ud800"}, UnicodeEncodeError, "surrogates not allowed"),
    ],
)
def test_what_it_cannot_hold(value: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        encode(value)


@pytest.mark.parametrize(
    ("data", "want"),
    [
        (b"\x05\x04\x01", 5),  # int8
        (struct.pack("<h", -300) + b"\x05\x02", -300),
        (struct.pack("<e", 1.5) + b"\x0d\x02", 1.5),  # a half
        (struct.pack("<f", 0.25) + b"\x0e\x04", 0.25),
        (b"\x01\x68\x01", True),
        (b"\x00\x00\x01", None),
        (struct.pack("<i", 70000) + b"\x04\x1a\x01", 70000),  # an indirect int
        (b"\x02\x03\x02\x40\x01", [2, 3]),  # a fixed vector of two ints
        (b"\x02\x07\x08\x02\x2c\x01", [7, 8]),  # a typed vector
        (b"\x03\x01\x00\x01\x03\x90\x01", [True, False, True]),
        (b"\x02hi\0\x03\x14\x01", "hi"),
        (b"\x02\xff\x00\x02\x64\x01", b"\xff\x00"),  # a blob
        (b"ab\0\x03\x10\x01", "ab"),  # a key
    ],
)
def test_every_kind_by_hand(data: bytes, want: Any) -> None:
    got = decode(data)
    assert got == want and type(got) is type(want)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x01",
        b"\x05\x04",
        b"\x05\x04\x03",  # a root of three bytes
        b"\x05\x04\x08",  # a root larger than the buffer
        b"\x00\x0c\x01",  # a float of one byte
        b"\x00\xb4\x01",  # an unknown type
        b"\x7f\x14\x01",  # a string before the buffer
        b"\xff\x01\x28\x01",  # a vector longer than the buffer
        b"ab\x02\x10\x01",  # a key that does not end
    ],
)
def test_broken_buffers(data: bytes) -> None:
    with pytest.raises(FlexBufferError):
        decode(data)


@given(st.binary(max_size=64))
def test_any_bytes_decode_or_are_refused(data: bytes) -> None:
    try:
        decode(data)
    except FlexBufferError as error:
        assert str(error)


@given(values, st.data())
def test_damage_is_refused_or_decodes(value: Any, data: st.DataObject) -> None:
    raw = bytearray(encode(value))
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(raw) - 1))
        raw[at] = data.draw(st.integers(0, 255))
    try:
        decode(bytes(raw))
    except FlexBufferError as error:
        assert str(error)


def test_a_vector_of_itself_is_refused_quickly() -> None:
    """Each element is the vector again: 2 ** 64 values in eight bytes, if one believed it."""
    data = b"\x02\x00\x01\x28\x28\x04\x28\x01"
    start = time.perf_counter()
    with pytest.raises(FlexBufferError, match="too deep"):
        decode(data)
    assert time.perf_counter() - start < 1


ascii_text = st.text(st.characters(codec="ascii", exclude_characters="\0"))
ascii_values = st.recursive(
    st.none() | st.booleans() | numbers | ascii_text | st.binary(),
    lambda inner: st.lists(inner) | st.dictionaries(ascii_text, inner),
    max_leaves=20,
)


@given(ascii_values)
def test_the_reference_reader_agrees(value: Any) -> None:
    """The `flatbuffers` package reads what is written here; its keys are ASCII."""
    assert flexbuffers.Loads(encode(value)) == value


def test_the_reference_writer_is_read() -> None:
    builder = flexbuffers.Builder()
    with builder.Map():
        builder.Key("max_detections")
        builder.Int(10)
        builder.Key("scales")
        with builder.TypedVector():
            builder.Float(10.0)
            builder.Float(5.0)
        builder.Key("far")
        builder.IndirectInt(-70000)
    want = {"max_detections": 10, "scales": [10.0, 5.0], "far": -70000}
    assert decode(bytes(builder.Finish())) == want


def test_options_in_real_models_decode(models: Path) -> None:
    """Those of custom operators that are no protocol buffers, as Flex ops have them inside of a
    list.
    """
    seen = 0
    for path in sorted(models.glob("*.tflite")):
        for graph in Model.from_file(path).subgraphs:
            for operator in graph.operators:
                if operator.op == "TFLite_Detection_PostProcess":
                    assert operator.custom_options.flexbuffer()["max_detections"] > 0
                    seen += 1
                if operator.op.startswith("Flex"):
                    name, node = operator.custom_options.flexbuffer()
                    assert operator.op == f"Flex{name}" and node
                    seen += 1
    assert seen


@pytest.mark.parametrize("depth", [1, MAX_DEPTH, MAX_DEPTH + 1, 3000])
@pytest.mark.parametrize("wrap", [lambda v: [v], lambda v: {"k": v}])
def test_what_is_written_can_be_read(depth: int, wrap: Callable[[Any], Any]) -> None:
    value: Any = 1
    for _ in range(depth):
        value = wrap(value)
    if depth <= MAX_DEPTH:
        assert decode(encode(value)) == value
    else:
        with pytest.raises(ValueError, match="nest 64 deep"):
            encode(value)


def test_what_holds_itself() -> None:
    ring: list[Any] = []
    ring += [ring, ring]
    table: dict[str, Any] = {}
    table["list"] = [1, table]
    for value in (ring, table):
        with pytest.raises(ValueError, match="holds itself"):
            encode(value)
    twice = [1, 2]
    assert decode(encode([twice, {"k": twice}])) == [twice, {"k": twice}]
