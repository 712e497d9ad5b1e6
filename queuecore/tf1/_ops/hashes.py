"""Strings as numbers of buckets: the three hash functions that TensorFlow's graphs have, in whole numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from queuecore.errors import InvalidArgumentError
from queuecore.tf1._graph.graph import Tensor, apply_op, convert_to_tensor
from queuecore.tf1._graph.values import int64, string

__all__ = [
    "fingerprint64",
    "keyed_hash",
    "string_to_hash_bucket",
    "string_to_hash_bucket_fast",
    "string_to_hash_bucket_strong",
]

_ALL = 2**64 - 1
_K0, _K1, _K2 = 0xC3A5C85C97CB3127, 0xB492B66FBE98F273, 0x9AE16A3B2F90404F


def _word(data: bytes, at: int, size: int = 8) -> int:
    return int.from_bytes(data[at : at + size], "little")


def _turned(value: int, by: int) -> int:
    return (value >> by | value << (64 - by)) & _ALL


# The fingerprint: FarmHash's, which is the same on every machine


def _mixed(u: int, v: int, factor: int) -> int:
    a = (u ^ v) * factor & _ALL
    a ^= a >> 47
    b = (v ^ a) * factor & _ALL
    b ^= b >> 47
    return b * factor & _ALL


def _short(data: bytes) -> int:
    # Of at most 16 bytes.
    n = len(data)
    factor = _K2 + n * 2
    if n >= 8:
        a, b = _word(data, 0) + _K2 & _ALL, _word(data, n - 8)
        c = _turned(b, 37) * factor + a & _ALL
        d = (_turned(a, 25) + b) * factor & _ALL
        return _mixed(c, d, factor)
    if n >= 4:
        return _mixed(n + (_word(data, 0, 4) << 3), _word(data, n - 4, 4), factor)
    if not n:
        return _K2
    y = data[0] + (data[n >> 1] << 8)
    z = n + (data[n - 1] << 2)
    made = (y * _K2 ^ z * _K0) & _ALL
    return (made ^ made >> 47) * _K2 & _ALL


def _middling(data: bytes) -> int:
    # Of 17 to 64 bytes.
    n = len(data)
    factor = _K2 + n * 2
    if n <= 32:
        a, b = _word(data, 0) * _K1 & _ALL, _word(data, 8)
        c, d = _word(data, n - 8) * factor & _ALL, _word(data, n - 16) * _K2 & _ALL
        return _mixed(_turned(a + b & _ALL, 43) + _turned(c, 30) + d & _ALL, a + _turned(b + _K2 & _ALL, 18) + c & _ALL,
                      factor)  # fmt: skip
    a, b = _word(data, 0) * _K2 & _ALL, _word(data, 8)
    c, d = _word(data, n - 8) * factor & _ALL, _word(data, n - 16) * _K2 & _ALL
    y = _turned(a + b & _ALL, 43) + _turned(c, 30) + d & _ALL
    z = _mixed(y, a + _turned(b + _K2 & _ALL, 18) + c & _ALL, factor)
    e, f = _word(data, 16) * factor & _ALL, _word(data, 24)
    g, h = (y + _word(data, n - 32)) * factor & _ALL, (z + _word(data, n - 24)) * factor & _ALL
    return _mixed(_turned(e + f & _ALL, 43) + _turned(g, 30) + h & _ALL, e + _turned(f + a & _ALL, 18) + g & _ALL,
                  factor)  # fmt: skip


def _weak(data: bytes, at: int, a: int, b: int) -> tuple[int, int]:
    w, x, y, z = (_word(data, at + 8 * i) for i in range(4))
    a = a + w & _ALL
    b = _turned(b + a + z & _ALL, 21)
    c = a
    a = a + x + y & _ALL
    b = b + _turned(a, 44) & _ALL
    return a + z & _ALL, b + c & _ALL


def fingerprint64(data: bytes) -> int:
    """Return FarmHash's fingerprint of a string, a whole number of 64 bits without a sign."""
    n = len(data)
    if n <= 16:
        return _short(data)
    if n <= 64:
        return _middling(data)
    x, y = 81, (81 * _K1 + 113) & _ALL
    z = y * _K2 + 113 & _ALL
    z = (z ^ z >> 47) * _K2 & _ALL
    v, w = (0, 0), (0, 0)
    x = x * _K2 + _word(data, 0) & _ALL
    end = (n - 1) // 64 * 64
    for offset in range(0, end, 64):
        x = _turned(x + y + v[0] + _word(data, offset + 8) & _ALL, 37) * _K1 & _ALL
        y = _turned(y + v[1] + _word(data, offset + 48) & _ALL, 42) * _K1 & _ALL
        x ^= w[1]
        y = y + v[0] + _word(data, offset + 40) & _ALL
        z = _turned(z + w[0] & _ALL, 33) * _K1 & _ALL
        v = _weak(data, offset, v[1] * _K1 & _ALL, x + w[0] & _ALL)
        w = _weak(data, offset + 32, z + w[1] & _ALL, y + _word(data, offset + 16) & _ALL)
        z, x = x, z
    factor = _K1 + ((z & 0xFF) << 1) & _ALL
    last = n - 64
    w = (w[0] + ((n - 1) & 63) & _ALL, w[1])
    v = (v[0] + w[0] & _ALL, v[1])
    w = (w[0] + v[0] & _ALL, w[1])
    x = _turned(x + y + v[0] + _word(data, last + 8) & _ALL, 37) * factor & _ALL
    y = _turned(y + v[1] + _word(data, last + 48) & _ALL, 42) * factor & _ALL
    x ^= w[1] * 9 & _ALL
    y = y + v[0] * 9 + _word(data, last + 40) & _ALL
    z = _turned(z + w[0] & _ALL, 33) * factor & _ALL
    v = _weak(data, last, v[1] * factor & _ALL, x + w[0] & _ALL)
    w = _weak(data, last + 32, z + w[1] & _ALL, y + _word(data, last + 16) & _ALL)
    z, x = x, z
    one = _mixed(v[0], w[0], factor) + (y ^ y >> 47) * _K0 + z & _ALL
    return _mixed(one, _mixed(v[1], w[1], factor) + x & _ALL, factor)


# The older one, and the one with a key


def _plain(data: bytes) -> int:
    factor, n = 0xC6A4A7935BD1E995, len(data)
    state = 0xDECAFCAFFE ^ n * factor & _ALL
    for at in range(0, n - 7, 8):
        k = _word(data, at) * factor & _ALL
        state = (state ^ (k ^ k >> 47) * factor & _ALL) * factor & _ALL
    if n & 7:
        state = (state ^ _word(data, n & ~7)) * factor & _ALL
    state = (state ^ state >> 47) * factor & _ALL
    return state ^ state >> 47


def _round(v: list[int]) -> None:
    for a, b, left, right in ((0, 1, 51, 32), (2, 3, 48, 64)):
        v[a] = v[a] + v[b] & _ALL
        v[b] = _turned(v[b], left) ^ v[a]
        if right < 64:
            v[a] = _turned(v[a], right)
    for a, b, left, right in ((2, 1, 47, 32), (0, 3, 43, 64)):
        v[a] = v[a] + v[b] & _ALL
        v[b] = _turned(v[b], left) ^ v[a]
        if right < 64:
            v[a] = _turned(v[a], right)


def _keyed(key: Sequence[int], data: bytes) -> int:
    # SipHash with two rounds for each word and four at the end.
    v = [
        key[0] ^ 0x736F6D6570736575,
        key[1] ^ 0x646F72616E646F6D,
        key[0] ^ 0x6C7967656E657261,
        key[1] ^ 0x7465646279746573,
    ]
    whole = len(data) & ~7
    words = [_word(data, at) for at in range(0, whole, 8)]
    words.append(_word(data, whole) | (len(data) & 0xFF) << 56)
    for word in words:
        v[3] ^= word
        _round(v)
        _round(v)
        v[0] ^= word
    v[2] ^= 0xFF
    for _ in range(4):
        _round(v)
    return v[0] ^ v[1] ^ v[2] ^ v[3]


def keyed_hash(key: Sequence[int]) -> Callable[[bytes], int]:
    """Return the hash function of a key of two numbers."""
    words = [int(one) & _ALL for one in key]
    return lambda one: _keyed(words, one)


# Operations


def _bucketed(type_: str, given: Any, buckets: Any, hashed: Callable[[bytes], int], name: str | None) -> Tensor:
    count = int(buckets)
    if count < 1:
        raise ValueError(f"Value for attr 'num_buckets' of {count} must be at least minimum 1")
    strings = convert_to_tensor(given, string)

    def kernel(value: Any) -> Any:
        array = np.asarray(value, object)
        numbers = np.array([hashed(one) % count for one in array.ravel()], np.int64)
        return numbers.reshape(array.shape)[()]

    return apply_op(type_, [strings], int64, strings.shape, kernel, name)


def string_to_hash_bucket_fast(input: Any, num_buckets: int, name: str | None = None) -> Tensor:
    """Return the number of a bucket for each string: the same one on every machine, and in TensorFlow.

    Parameters
    ----------
    input : Tensor of strings
    num_buckets : int
    name : str, optional

    Returns
    -------
    Tensor of int64
        Of the input's shape; from 0 on.
    """
    return _bucketed("StringToHashBucketFast", input, num_buckets, fingerprint64, name)


def string_to_hash_bucket(
    string_tensor: Any = None, num_buckets: int = 0, name: str | None = None, input: Any = None
) -> Tensor:
    """As `string_to_hash_bucket_fast`, by an older function with other numbers."""
    given = input if string_tensor is None else string_tensor
    return _bucketed("StringToHashBucket", given, num_buckets, _plain, name)


def string_to_hash_bucket_strong(input: Any, num_buckets: int, key: Sequence[int], name: str | None = None) -> Tensor:
    """As `string_to_hash_bucket_fast`, by a function with a key: without it nobody can fill one bucket on purpose.

    Parameters
    ----------
    input : Tensor of strings
    num_buckets : int
    key : list of two int
    name : str, optional

    Raises
    ------
    InvalidArgumentError
        If the key has not two numbers.
    """
    if len(key) != 2:
        raise InvalidArgumentError(f"Key must have 2 elements, and has {len(key)}")
    return _bucketed("StringToHashBucketStrong", input, num_buckets, keyed_hash(key), name)
