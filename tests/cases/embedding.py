"""Lookups, LSH_PROJECTION, SKIP_GRAM. Right answers: by definition; hashes from the peer."""

from __future__ import annotations

from typing import Any

import numpy as np

from litedelegate.kernels.types import DType

from . import Case, T

_TABLE = np.arange(12, dtype=np.float32).reshape(4, 3)
_INTS = np.array([[-8, 7, 3], [1, 2, -3], [4, 5, 6]], np.int8)
_ROWS = np.array([2, 0, 2], np.int32)


def _lookup(name: str, index: Any, value: Any, want: Any, **more: Any) -> Case:
    return Case("EMBEDDING_LOOKUP", [np.array(index, np.int32), value], {}, want, name=name, **more)


def _sparse(combiner: str, want: Any, **changed: Any) -> Case:
    inputs: dict[str, Any] = {
        "ids": np.array([1, 3, 0], np.int32),
        "indices": np.array([[0, 0], [2, 0], [2, 1]], np.int32),
        "dense": np.array([3, 2], np.int32),
        "weights": np.array([1.0, 2.0, 4.0], np.float32),
        "value": np.array([[1, 2], [3, 4], [5, 6], [7, 8]], np.float32),
        **changed,
    }
    if isinstance(want, str):
        return Case(
            "EMBEDDING_LOOKUP_SPARSE",
            list(inputs.values()),
            {"combiner": combiner},
            refused=want,
            outputs=[T(np.zeros(1, np.float32))],
        )
    return Case(
        "EMBEDDING_LOOKUP_SPARSE",
        list(inputs.values()),
        {"combiner": combiner},
        [np.array(want, np.float32)],
        name=f"sparse, {combiner}",
    )


def _grams(sentence: bytes, size: int, skip: int, every: bool, want: list[bytes]) -> Case:
    return Case(
        "SKIP_GRAM",
        [np.array([sentence], object)],
        {"ngram_size": size, "max_skip_size": skip, "include_all_ngrams": every},
        [np.array(want, object)],
        name=f"{size} of {sentence!r}, skip {skip}{', all' if every else ''}",
    )


def _hashes(kind: str, want: list[int]) -> Case:
    return Case(
        "LSH_PROJECTION",
        [
            np.array([[0.123, 0.456], [-0.321, 1.234], [5.678, -4.321]], np.float32),
            np.array([12345, 54321, 67890, 9876, -12345678, -87654321], np.int32),
            np.array([0.12, 0.34, 0.56, 0.67, 0.78, -3.0], np.float32),
        ],
        {"type": kind},
        [np.array(want, np.int32)],
        name=f"LSH, {kind}",
    )


CASES = [
    _lookup("rows", [1, 3, 1], _TABLE, [_TABLE[[1, 3, 1]]]),
    _lookup("no rows", [], _TABLE, [_TABLE[:0]]),
    _lookup("rows of rank 2", [1], _TABLE.reshape(2, 2, 3), [_TABLE.reshape(2, 2, 3)[1:]]),
    _lookup("integers stay integers", _ROWS, T(_INTS, scale=0.5), [T(_INTS[_ROWS], scale=0.5)]),
    _lookup("int8 to float", _ROWS, T(_INTS, scale=0.5), [_INTS[_ROWS] * np.float32(0.5)]),
    _lookup(
        "int4 to float16",
        _ROWS,
        T(_INTS, DType.INT4, scale=0.25),
        [(_INTS[_ROWS] * 0.25).astype(np.float16)],
        version=4,
    ),
    _lookup(
        "a scale for each row",
        _ROWS,
        T(_INTS, scale=[0.5, 1.0, 2.0]),
        [_INTS[_ROWS] * np.array([[2.0], [0.5], [2.0]], np.float32)],
    ),
    _lookup(
        "a scale for each block",
        [1, 0],
        T(
            np.array([[1, 2, 3, 4], [5, 6, 7, -8]], np.int8),
            DType.INT4,
            scale=[1, 2, 3, 4],
            block_size=2,
        ),
        [np.array([[15, 18, 28, -32], [1, 2, 6, 8]], np.float32)],
        version=5,
    ),
    _lookup(
        "old files call int8 uint8",
        [0],
        T(_INTS.view(np.uint8), scale=1.0),
        [_INTS[:1].astype(np.float32)],
    ),
    *(
        Case(
            "EMBEDDING_LOOKUP",
            [np.array([0, row], np.int32), _TABLE],
            {},
            refused=f"index out of bounds. Got {row}, and bounds are [0, 3]",
            outputs=[T(_TABLE)],
        )
        for row in (4, -1)
    ),
    Case(
        "EMBEDDING_LOOKUP",
        [np.array([0], np.int32), T(_INTS, scale=1.0, zero_point=3)],
        {},
        refused="zero point 3; taken: 0",
        outputs=[T(_TABLE)],
    ),
    Case(
        "EMBEDDING_LOOKUP",
        [np.array([[0]], np.int32), _TABLE],
        {},
        refused="taken: rank 1",
        outputs=[T(_TABLE)],
    ),
    _sparse("SUM", [[3, 4], [0, 0], [18, 24]]),
    _sparse("MEAN", [[3, 4], [0, 0], [3, 4]]),
    _sparse("SQRTN", [[3, 4], [0, 0], [18 / 20**0.5, 24 / 20**0.5]]),
    _sparse("SUM", "index out of bounds. Got 4", ids=np.array([1, 4, 0], np.int32)),
    _sparse("SUM", "lies outside of [2]", dense=np.array([2, 2], np.int32)),
    Case(
        "EMBEDDING_LOOKUP_SPARSE",
        [
            np.zeros(0, np.int32),
            np.zeros((0, 2), np.int32),
            np.array([2, 2], np.int32),
            np.zeros(0, np.float32),
            _TABLE,
        ],
        {"combiner": "MEAN"},
        [np.zeros((2, 3), np.float32)],
        name="sparse, nothing",
    ),
    Case(
        "HASHTABLE_LOOKUP",
        [np.array([11, 7, 3, 99], np.int32), np.array([3, 7, 11], np.int32), _TABLE[:3]],
        {},
        [
            np.concatenate([_TABLE[[2, 1, 0]], np.zeros((1, 3), np.float32)]),
            np.array([1, 1, 1, 0], np.uint8),
        ],
        name="table of rows",
    ),
    Case(
        "HASHTABLE_LOOKUP",
        [
            np.array([5, 4], np.int32),
            np.array([1, 5], np.int32),
            np.array([b"one", b"five"], object),
        ],
        {},
        [np.array([b"five", b""], object), np.array([1, 0], np.uint8)],
        name="table of strings",
    ),
    Case(
        "HASHTABLE_LOOKUP",
        [np.array([5], np.int32), np.array([1, 5], np.int32), _TABLE],
        {},
        refused="as many keys as rows",
        outputs=[T(_TABLE), T(np.zeros(1, np.uint8))],
    ),
    _hashes("DENSE", [0, 1, 1, 1, 0, 1]),
    _hashes("SPARSE", [1, 4 + 3, 8 + 1]),
    Case(
        "LSH_PROJECTION",
        [np.zeros((1, 33), np.float32), np.zeros(1, np.int32)],
        {"type": "DENSE"},
        refused="32 bits at most",
        outputs=[T(np.zeros(33, np.int32))],
    ),
    _grams(b"The quick  brown fox", 2, 0, False, [b"The quick", b"quick brown", b"brown fox"]),
    _grams(
        b"a b c d",
        2,
        1,
        True,
        [b"a b", b"a c", b"a", b"b c", b"b d", b"b", b"c d", b"c", b"d"],
    ),
    _grams(b"too short", 3, 1, True, []),
]
