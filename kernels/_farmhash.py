"""FarmHash's 64-bit fingerprint of many keys of one length at once.

Source: FarmHash (Pike 2014), the platform-independent form that its authors call Fingerprint64.
"""

from __future__ import annotations

import numpy as np

from .types import Array

_K0, _K1, _K2 = (np.uint64(k) for k in (0xC3A5C85C97CB3127, 0xB492B66FBE98F273, 0x9AE16A3B2F90404F))
_U = np.uint64
Pair = tuple[Array, Array]


def fingerprint64(keys: Array) -> Array:
    """uint64 [n] of uint8 keys [n, length]."""
    with np.errstate(over="ignore"):
        length = keys.shape[1]
        if length <= 16:
            return _up_to_16(keys, length)
        if length <= 32:
            return _up_to_32(keys, length)
        if length <= 64:
            return _up_to_64(keys, length)
        return _longer(keys, length)


def _fetch(keys: Array, at: int, dtype: str = "<u8") -> Array:
    size = np.dtype(dtype).itemsize
    part = np.ascontiguousarray(keys[:, at : at + size])
    return part.view(dtype)[:, 0].astype(np.uint64)


def _rotate(v: Array, by: int) -> Array:
    return np.asarray((v >> _U(by)) | (v << _U(64 - by)))


def _mix(v: Array) -> Array:
    return np.asarray(v ^ (v >> _U(47)))


def _pair(u: Array, v: Array, multiplier: Array | np.uint64) -> Array:
    a = _mix((u ^ v) * multiplier)
    return np.asarray(_mix((v ^ a) * multiplier) * multiplier)


def _multiplier(length: int) -> Array:
    return np.array([_K2]) + _U(2 * length)


def _up_to_16(keys: Array, n: int) -> Array:
    m = _multiplier(n)
    if n >= 8:
        a, b = _fetch(keys, 0) + _K2, _fetch(keys, n - 8)
        return _pair(_rotate(b, 37) * m + a, (_rotate(a, 25) + b) * m, m)
    if n >= 4:
        first, last = _fetch(keys, 0, "<u4"), _fetch(keys, n - 4, "<u4")
        return _pair(_U(n) + (first << _U(3)), last, m)
    if n > 0:
        a, b, c = (keys[:, i].astype(np.uint64) for i in (0, n >> 1, n - 1))
        return np.asarray(_mix((a + (b << _U(8))) * _K2 ^ (_U(n) + (c << _U(2))) * _K0) * _K2)
    return np.full(len(keys), _K2)


def _up_to_32(keys: Array, n: int) -> Array:
    m = _multiplier(n)
    a, b = _fetch(keys, 0) * _K1, _fetch(keys, 8)
    c, d = _fetch(keys, n - 8) * m, _fetch(keys, n - 16) * _K2
    return _pair(_rotate(a + b, 43) + _rotate(c, 30) + d, a + _rotate(b + _K2, 18) + c, m)


def _up_to_64(keys: Array, n: int) -> Array:
    m = _multiplier(n)
    a, b = _fetch(keys, 0) * _K2, _fetch(keys, 8)
    c, d = _fetch(keys, n - 8) * m, _fetch(keys, n - 16) * _K2
    y = _rotate(a + b, 43) + _rotate(c, 30) + d
    z = _pair(y, a + _rotate(b + _K2, 18) + c, m)
    e, f = _fetch(keys, 16) * m, _fetch(keys, 24)
    g, h = (y + _fetch(keys, n - 32)) * m, (z + _fetch(keys, n - 24)) * m
    return _pair(_rotate(e + f, 43) + _rotate(g, 30) + h, e + _rotate(f + a, 18) + g, m)


def _weak(keys: Array, at: int, a: Array, b: Array) -> Pair:
    w, x, y, z = (_fetch(keys, at + 8 * i) for i in range(4))
    a = a + w
    b = _rotate(b + a + z, 21)
    c = a
    a = a + x + y
    b = b + _rotate(a, 44)
    return a + z, b + c


def _longer(keys: Array, n: int) -> Array:
    zero = np.zeros(len(keys), np.uint64)
    x, y = zero + _U(81), zero + _U(81) * _K1 + _U(113)
    z = _mix(y * _K2 + _U(113)) * _K2
    v, w = (zero, zero), (zero, zero)
    x = x * _K2 + _fetch(keys, 0)
    end = (n - 1) // 64 * 64
    for at in range(0, end, 64):
        x, y, z, v, w = _round(keys, at, x, y, z, v, w, _K1, _U(1))
    m = _K1 + ((z & _U(0xFF)) << _U(1))
    first = w[0] + _U((n - 1) & 63)
    v = (v[0] + first, v[1])
    w = (first + v[0], w[1])
    x, y, z, v, w = _round(keys, n - 64, x, y, z, v, w, m, _U(9))
    return _pair(_pair(v[0], w[0], m) + _mix(y) * _K0 + z, _pair(v[1], w[1], m) + x, m)


def _round(
    keys: Array,
    at: int,
    x: Array,
    y: Array,
    z: Array,
    v: Pair,
    w: Pair,
    m: Array | np.uint64,
    times: np.uint64,
) -> tuple[Array, Array, Array, Pair, Pair]:
    """One block of 64 bytes."""
    x = _rotate(x + y + v[0] + _fetch(keys, at + 8), 37) * m
    y = _rotate(y + v[1] + _fetch(keys, at + 48), 42) * m
    x = x ^ (w[1] * times)
    y = y + v[0] * times + _fetch(keys, at + 40)
    z = _rotate(z + w[0], 33) * m
    v = _weak(keys, at, v[1] * m, x + w[0])
    w = _weak(keys, at + 32, z + w[1], y + _fetch(keys, at + 16))
    return z, y, x, v, w
