"""Counter-based random bits: Philox 4x32-10 and Threefry 2x32-20, vectorised over counters.

Source: Salmon et al., "Parallel random numbers: as easy as 1, 2, 3" (2011); the layout of seeds and
counters is TensorFlow's.
"""

from __future__ import annotations

import os
from dataclasses import dataclass

import numpy as np

from .types import Array

_LOW32 = 0xFFFFFFFF


def philox(key: tuple[int, int], counters: Array) -> Array:
    """Random bits uint32 [n, 4] of counters uint32 [n, 4]."""
    c = [counters[:, i].astype(np.uint64) for i in range(4)]
    k0, k1 = key
    for _ in range(10):
        p0, p1 = c[0] * np.uint64(0xD2511F53), c[2] * np.uint64(0xCD9E8D57)
        low0, low1 = p0 & np.uint64(_LOW32), p1 & np.uint64(_LOW32)
        high0, high1 = p0 >> np.uint64(32), p1 >> np.uint64(32)
        c = [high1 ^ c[1] ^ np.uint64(k0), low1, high0 ^ c[3] ^ np.uint64(k1), low0]
        k0, k1 = (k0 + 0x9E3779B9) & _LOW32, (k1 + 0xBB67AE85) & _LOW32
    return np.stack(c, axis=1).astype(np.uint32)


def threefry(key: tuple[int, int], counters: Array) -> Array:
    """Random bits uint32 [n, 2] of counters uint32 [n, 2]."""
    keys = (*key, key[0] ^ key[1] ^ 0x1BD11BDA)
    a = counters[:, 0] + np.uint32(key[0])
    b = counters[:, 1] + np.uint32(key[1])
    for i in range(5):
        for turn in ((13, 15, 26, 6), (17, 29, 16, 24))[i % 2]:
            a = a + b
            b = (b << np.uint32(turn) | b >> np.uint32(32 - turn)) ^ a
        a = a + np.uint32(keys[(i + 1) % 3])
        b = b + np.uint32((keys[(i + 2) % 3] + i + 1) & _LOW32)
    return np.stack([a, b], axis=1)


def counters_from(start: int, count: int, words: int) -> Array:
    """`count` counters of `words` 32-bit words, low word first, from the integer `start` on."""
    result = np.empty((count, words), np.uint32)
    low = start & ((1 << 64) - 1)
    # 64-bit numpy addition; what it loses by wrapping is carried into the upper words
    with np.errstate(over="ignore"):
        lows = np.uint64(low) + np.arange(count, dtype=np.uint64)
    carried = lows < np.uint64(low)
    result[:, 0] = (lows & np.uint64(_LOW32)).astype(np.uint32)
    result[:, 1] = (lows >> np.uint64(32)).astype(np.uint32)
    for word in range(2, words):
        plain = (start >> 32 * word) & _LOW32
        after = (((start >> 64) + 1) >> 32 * (word - 2)) & _LOW32
        result[:, word] = np.where(carried, np.uint32(after), np.uint32(plain))
    return result


@dataclass(slots=True)
class Philox:
    """TensorFlow's PhiloxRandom: a key of 64 bits and a counter of 128."""

    key: tuple[int, int]
    counter: int

    @classmethod
    def seeded(cls, seed: int, seed2: int) -> Philox:
        """With both seeds 0 the numbers differ at each call."""
        if seed == 0 and seed2 == 0:
            seed, seed2 = (int.from_bytes(os.urandom(8), "little") for _ in range(2))
        seed, seed2 = seed & ((1 << 64) - 1), seed2 & ((1 << 64) - 1)
        return cls((seed & _LOW32, seed >> 32), seed2 << 64)

    def draw(self, count: int) -> Array:
        """`count` uint32 in a row. Four come at a time; those left over are dropped."""
        blocks = -(-count // 4)
        bits = philox(self.key, counters_from(self.counter, blocks, 4))
        self.skip(blocks)
        return bits.reshape(-1)[:count]

    def skip(self, blocks: int) -> None:
        self.counter = (self.counter + blocks) & ((1 << 128) - 1)


def unit_floats(bits: Array) -> Array:
    """float32 in [0, 1) of 23 bits each."""
    return (bits & np.uint32(0x7FFFFF) | np.uint32(127 << 23)).view(np.float32) - np.float32(1)


def unit_doubles(bits: Array) -> Array:
    """float64 in [0, 1) of pairs of uint32 [n, 2]: 20 bits of the first, all of the second."""
    high = (bits[:, 0] & np.uint32(0xFFFFF)).astype(np.uint64) << np.uint64(32)
    mantissa = high | bits[:, 1].astype(np.uint64)
    return (mantissa | np.uint64(1023 << 52)).view(np.float64) - 1.0


def normal_floats(bits: Array) -> Array:
    """Standard normal float32 of an even number of uint32, by the Box-Muller transform."""
    pairs = unit_floats(bits).reshape(-1, 2)
    radius = np.sqrt(np.float32(-2) * np.log(np.maximum(pairs[:, 0], np.float32(1e-7))))
    angle = (2 * np.pi * pairs[:, 1].astype(np.float64)).astype(np.float32)
    return np.stack([np.sin(angle) * radius, np.cos(angle) * radius], axis=1).reshape(-1)
