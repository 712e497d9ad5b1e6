"""What a dataset must yield, said again in plain Python and NumPy: slow, obvious, and sharing no code with the library.

`Philox` is the generator behind TensorFlow's shuffles. `Model` takes the bytes of the files and a chain of steps, and
goes through the elements. Steps are tuples, from the source up::

    ("take", n)  ("skip", n)  ("repeat", n)  ("batch", n, drop_remainder)  ("shuffle", buffer_size, seed, reshuffle)

with -1 for "no limit".
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

DEFAULT_GRAPH_SEED = 87654321
SEED_MODULUS = 2**31 - 1
_MASK = 0xFFFFFFFF


def philox_block(key: tuple[int, int], counter: tuple[int, int, int, int]) -> tuple[int, int, int, int]:
    """Philox4x32-10 (Salmon et al., 2011): four words out of a key and a counter."""
    k0, k1 = key
    w0, w1, w2, w3 = counter
    for _ in range(10):
        low, high = 0xD2511F53 * w0, 0xCD9E8D57 * w2
        w0, w1, w2, w3 = (high >> 32) ^ w1 ^ k0, high & _MASK, (low >> 32) ^ w3 ^ k1, low & _MASK
        k0, k1 = (k0 + 0x9E3779B9) & _MASK, (k1 + 0xBB67AE85) & _MASK
    return w0, w1, w2, w3


class Philox:
    """The stream of 32-bit numbers that a pair of seeds starts."""

    def __init__(self, low: int, high: int) -> None:
        self.key = (low & _MASK, low >> 32 & _MASK)
        self.high = (high & _MASK, high >> 32 & _MASK)
        self.block = 0
        self.words: list[int] = []

    def draw(self) -> int:
        if not self.words:
            counter = (self.block & _MASK, self.block >> 32 & _MASK, *self.high)
            self.words = list(philox_block(self.key, counter))
            self.block += 1
        return self.words.pop(0)


def seed_pair(graph_seed: int | None, op_seed: int) -> tuple[int, int]:
    """The pair of a graph-level seed and an operation's own."""
    graph_seed = DEFAULT_GRAPH_SEED if graph_seed is None else graph_seed
    pair = (graph_seed % SEED_MODULUS, op_seed % SEED_MODULUS)
    return (0, SEED_MODULUS) if pair == (0, 0) else pair


@dataclass
class Fault(Exception):
    """The end of the source at a file that can't be read (further)."""

    kind: str
    file: int
    record: int
    offset: int


@dataclass
class Shuffle:
    """The shared state of one shuffle: its master generator."""

    buffer_size: int
    pair: tuple[int, int]
    reshuffle: bool
    master: Philox = field(init=False)

    def __post_init__(self) -> None:
        self.master = Philox(*self.pair)

    def one_pass(self, below: Iterator[Any]) -> Iterator[Any]:
        draws = Philox(self.master.draw(), self.master.draw()) if self.reshuffle else Philox(*self.pair)
        slots: dict[int, Any] = {}  # a circular buffer; a dict, so that a huge one costs nothing
        start = end = 0
        fault, ended = None, False
        while True:
            while not ended and end - start < self.buffer_size:
                try:
                    slots[end % self.buffer_size] = next(below)
                    end += 1
                except StopIteration:
                    ended = True
                except Fault as error:
                    fault, ended = error, True
            if start == end:
                if fault:
                    raise fault
                return
            pick = (start + draws.draw() % (end - start)) % self.buffer_size
            yield slots[pick]
            slots[pick] = slots[start % self.buffer_size]
            start += 1


def _take(below: Iterator[Any], number: int) -> Iterator[Any]:
    count = 0
    while number < 0 or count < number:
        try:
            yield next(below)
        except StopIteration:
            return
        count += 1


def _skip(below: Iterator[Any], number: int) -> Iterator[Any]:
    for index, element in enumerate(below):
        if 0 <= number <= index:
            yield element


def _repeat(make: Callable[[], Iterator[Any]], number: int) -> Iterator[Any]:
    done = 0
    while number < 0 or done < number:
        empty = True
        for element in make():
            empty = False
            yield element
        if empty:
            return
        done += 1


def _batch(below: Iterator[Any], size: int, drop_remainder: bool) -> Iterator[Any]:
    rows: list[Any] = []
    fault = None
    try:
        for element in below:
            rows.append(element)
            if len(rows) == size:
                yield rows
                rows = []
    except Fault as error:
        fault = error
    if rows and not drop_remainder:
        yield rows
    if fault:
        raise fault


class Model:
    """A dataset over files given as bytes.

    Parameters
    ----------
    contents : list of bytes or str
        What is in each file; a string stands for a file that can't be opened, and is the kind of the fault.
    record : dtype or int
        A dtype, or the number of bytes of a plain record.
    ops : list of tuple
        The steps, from the source up.
    graph_seed : int, optional
        The graph-level seed.
    """

    def __init__(
        self,
        contents: list[bytes | str],
        record: Any,
        ops: list[tuple[Any, ...]],
        *,
        header: int = 0,
        footer: int = 0,
        hop: int = 0,
        tail: str = "error",
        graph_seed: int | None = None,
    ) -> None:
        self.dtype = np.dtype((np.uint8, (record,))) if isinstance(record, int) else np.dtype(record)
        self.empty_files = self.dropped_tails = 0
        size = self.dtype.itemsize
        records: list[bytes] = []
        self.fault: Fault | None = None
        for index, content in enumerate(contents):
            if isinstance(content, str):
                self.fault = Fault(content, index, 0, 0)
                break
            self.empty_files += not content
            if content and len(content) < header + footer:
                self.fault = Fault("truncated", index, 0, 0)
                break
            body = content[header : len(content) - footer] if content else b""
            step = hop or size
            position = 0
            while position + size <= len(body):
                records.append(body[position : position + size])
                position += step
            found = position // step
            # After the last record there may be nothing, or a part of the gap that stands between two records.
            spare = len(body) - (position - step + size) if found else len(body)
            if spare and not (found and spare <= step - size):
                if tail == "error":
                    self.fault = Fault("truncated", index, found, header + position)
                    break
                self.dropped_tails += 1
        self.total = len(records)
        # One row of bytes per record: a dtype with sub-arrays at its top can't be an array's own.
        self.rows = np.frombuffer(b"".join(records), dtype=np.uint8).reshape(self.total, size)
        self.ops: list[Any] = [
            Shuffle(op[1], seed_pair(graph_seed, op[2]), op[3]) if op[0] == "shuffle" else op for op in ops
        ]

    def __iter__(self) -> Iterator[Any]:
        """Elements as arrays (or dicts of them), then the fault, if there is one."""
        for element in self.ordinals():
            yield self.gather(element)

    def ordinals(self) -> Iterator[Any]:
        """Elements as record numbers, in lists of lists where they are batched."""
        return self._above(len(self.ops))

    def _above(self, depth: int) -> Iterator[Any]:
        if depth == 0:
            return self._source()
        op = self.ops[depth - 1]
        if isinstance(op, Shuffle):
            return op.one_pass(self._above(depth - 1))
        if op[0] == "repeat":
            return _repeat(lambda: self._above(depth - 1), op[1])
        return {"take": _take, "skip": _skip, "batch": _batch}[op[0]](self._above(depth - 1), *op[1:])

    def _source(self) -> Iterator[int]:
        yield from range(self.total)
        if self.fault:
            raise self.fault

    def gather(self, element: Any) -> Any:
        """The arrays of an element."""
        index = np.asarray(element)
        return split(self.rows[index.ravel()], self.dtype, index.shape)


def split(rows: np.ndarray, dtype: np.dtype, shape: tuple[int, ...]) -> Any:
    """Cut rows of bytes into one contiguous native array per field, by NumPy's own means."""
    holder = np.dtype([("record", dtype)])
    return _fields(np.ascontiguousarray(rows).view(holder)[:, 0]["record"], shape)


def _fields(array: np.ndarray, shape: tuple[int, ...]) -> Any:
    if array.dtype.names is not None:
        return {name: _fields(array[name], shape) for name in array.dtype.names}
    array = np.ascontiguousarray(array)
    if array.dtype.kind == "b":
        array = array.view(np.uint8) != 0
    native = array.astype(array.dtype.newbyteorder("="))
    return native.reshape(shape + array.shape[1:])


def equal(result: Any, expected: Any) -> bool:
    """Whether two elements are the same in structure, dtypes, shapes and every bit."""
    if isinstance(expected, dict):
        return (
            isinstance(result, dict)
            and list(result) == list(expected)
            and all(equal(result[name], expected[name]) for name in expected)
        )
    # One scalar of one record comes as a NumPy scalar.
    if not isinstance(result, np.ndarray if expected.ndim else expected.dtype.type):
        return False
    # A scalar string of NumPy's has no zeros at its end.
    array = (
        np.asarray(result, expected.dtype) if not expected.ndim and expected.dtype.kind == "S" else np.asarray(result)
    )
    return (
        array.dtype == expected.dtype
        and array.shape == expected.shape
        and array.flags.c_contiguous
        and array.tobytes() == expected.tobytes()
    )


def assert_same(got: list[Any], expected: list[Any]) -> None:
    """Fail at the first place where two lists of elements differ."""
    for index, (one, other) in enumerate(zip(got, expected, strict=False)):
        assert equal(one, other), f"element {index}: got {one!r}, expected {other!r}"
    assert len(got) == len(expected), f"got {len(got)} elements, expected {len(expected)}"
