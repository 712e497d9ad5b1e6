"""Random numbers, of TensorFlow's generator: the same for the same seeds.

Each operation has a stream of its own in each session, which its runs continue.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from queuecore import ops
from queuecore._checks.seeds import Pair
from queuecore._core.atoms import draws
from queuecore.errors import InvalidArgumentError, ResourceExhaustedError
from queuecore.tf1._graph.graph import DrawnPair, Tensor, apply_op, constant_value, convert_to_tensor, seed_pair
from queuecore.tf1._graph.values import DType, TensorShape, as_dtype, name_of
from queuecore.tf1._ops.arrays import shape_tensor, shape_within

__all__ = ["random_crop", "random_normal", "random_poisson", "random_shuffle", "random_uniform", "truncated_normal"]

Array = np.ndarray[Any, Any]
# The blocks of four numbers that TensorFlow's kernels reserve for each item.
_ASIDE = 256


class RandomStream:
    """The place of an operation's stream of random numbers in a session."""

    def __init__(self) -> None:
        self._block = 0
        self._lock = threading.Lock()

    def take(self, blocks: int) -> int:
        """Return the number of the first of so many blocks, which no one else gets."""
        with self._lock:
            first = self._block
            self._block = (first + blocks) % 2**64
        return first


def _bits(pair: Pair, block: int, count: int) -> Array:
    made = np.empty(count, np.uint32)
    draws.bits(*pair, block, made)
    return made


def _pairs(words: Array) -> Array:
    # The first of two words is the lower half.
    return words[::2].astype(np.uint64) | words[1::2].astype(np.uint64) << np.uint64(32)


def _uniform(pair: Pair, block: int, count: int, dtype: DType) -> Array:
    # Bits behind the point of a number in [1, 2).
    if dtype == np.float64:
        words = _bits(pair, block, 2 * count).astype(np.uint64)
        number = (words[::2] & np.uint64(0xFFFFF)) << np.uint64(32) | words[1::2] | np.uint64(1023 << 52)
        return number.view(np.float64) - 1.0
    words = _bits(pair, block, count)
    if dtype == np.float16:
        return ((words & 0x3FF) | 15 << 10).astype(np.uint16).view(np.float16) - np.float16(1)
    return ((words & 0x7FFFFF) | 127 << 23).view(np.float32) - np.float32(1)


def _normal(pair: Pair, block: int, count: int, dtype: DType, cut: bool) -> Array:
    made: Array = np.empty(count, np.float64 if dtype == np.float64 else np.float32)
    if dtype == np.float64:
        (draws.truncated_doubles if cut else draws.normal_doubles)(*pair, block, made)
    else:
        (draws.truncated_floats if cut else draws.normal_floats)(*pair, block, made)
    return made.astype(dtype, copy=False)


def _drawn(
    type_: str,
    shape: Any,
    dtype: Any,
    bounds: list[Any],
    seed: int | None,
    name: str | None,
    draw: Callable[..., Array],
    kinds: str = "f",
) -> Tensor:
    """Add an operation that draws an array, and of it and two numbers makes its output."""
    target = as_dtype(dtype)
    if target.kind not in kinds or target.itemsize > 8 or kinds != "f" and target.name not in _UNIFORM:
        raise ValueError(f"{type_}: invalid dtype {name_of(target)}")
    sides = shape_tensor(shape)
    limits = [convert_to_tensor(bound, target) for bound in bounds]
    pair = seed_pair(seed)
    known = constant_value(sides)
    static_shape: Any = None
    if known is not None:
        static_shape = [int(side) for side in known]
        if any(side < 0 for side in static_shape):
            raise ValueError(f"{type_}: a shape has no negative sides: {static_shape}")
    else:
        static_shape = shape_within(sides)
    for limit in limits:
        limit.shape.with_rank(0)

    def kernel(run: Any, to: Any, *numbers: Any) -> Any:
        dims = [int(side) for side in to]
        if any(side < 0 for side in dims):
            raise InvalidArgumentError(f"{type_}: a shape has no negative sides: {dims}")
        count = math.prod(dims)
        if count > _MOST_ITEMS:
            raise ResourceExhaustedError(f"{type_}: {count} numbers of shape {dims} are more than can be made")
        block = run.session.resource(("random", result.op), RandomStream).take(count * _ASIDE)
        return draw(pair, block, count, target, *numbers).reshape(dims)[()]

    result = apply_op(type_, [sides, *limits], target, static_shape, kernel, name, pure=False)
    return result


# Twice as many words can still be counted in bytes.
_MOST_ITEMS = 2**56
_UNIFORM = ("float16", "float32", "float64", "int32", "int64")


def _between(pair: Pair, block: int, count: int, dtype: DType, low: Any, high: Any) -> Array:
    if dtype.kind == "f":
        made: Array = _uniform(pair, block, count, dtype) * (high - low) + low
        return made
    numbers: Array
    if low >= high:
        raise InvalidArgumentError(f"Need minval < maxval, got {low} >= {high}")
    width = int(high) - int(low)
    if dtype.itemsize == 8:
        numbers = (_pairs(_bits(pair, block, 2 * count)) % np.uint64(width)).view(np.int64)
    else:
        numbers = (_bits(pair, block, count) % np.uint32(width)).view(np.int32)
    numbers += low
    return numbers


def random_uniform(
    shape: Any, minval: Any = 0, maxval: Any = None, dtype: Any = np.float32, seed: int | None = None,
    name: str | None = None,
) -> Tensor:  # fmt: skip
    """Return random numbers that are all equally likely.

    Parameters
    ----------
    shape : Tensor of integers, or list of int
    minval, maxval : number, default 0 and 1
        The smallest number, and the bound below which all lie; for integers `maxval` must be given.
    dtype : {float16, float32, float64, int32, int64}
    seed : int, optional
    name : str, optional

    Raises
    ------
    ValueError
        If there is no such dtype, or an integer's `maxval` is missing.
    InvalidArgumentError
        In a run, if `minval` is no integer below `maxval`.

    Notes
    -----
    For the same two seeds, TensorFlow's own numbers, run by run.
    """
    target = as_dtype(dtype)
    if maxval is None:
        if target.kind in "iu":
            raise ValueError(f"Must specify maxval for integer dtype {name_of(target)}")
        maxval = 1
    return _drawn(
        "RandomUniform", shape, target, [minval, maxval], seed, name or "random_uniform", _between, kinds="fi"
    )


def random_normal(
    shape: Any, mean: Any = 0.0, stddev: Any = 1.0, dtype: Any = np.float32, seed: int | None = None,
    name: str | None = None,
) -> Tensor:  # fmt: skip
    """Return normally distributed random numbers.

    Parameters
    ----------
    shape : Tensor of integers, or list of int
    mean, stddev : number, default 0 and 1
    dtype : {float16, float32, float64}
    seed : int, optional
    name : str, optional

    Raises
    ------
    ValueError
        If there is no such dtype.

    Notes
    -----
    For the same two seeds, TensorFlow's own numbers, run by run, but for what the C libraries' logarithm, sine and
    cosine differ in.
    """

    def draw(pair: Pair, block: int, count: int, dtype: DType, centre: Any, width: Any) -> Array:
        made: Array = _normal(pair, block, count, dtype, False) * width + centre
        return made

    return _drawn("RandomStandardNormal", shape, dtype, [mean, stddev], seed, name or "random_normal", draw)


def truncated_normal(
    shape: Any, mean: Any = 0.0, stddev: Any = 1.0, dtype: Any = np.float32, seed: int | None = None,
    name: str | None = None,
) -> Tensor:  # fmt: skip
    """Return normally distributed random numbers, none of them two standard deviations or more from the mean.

    Parameters, errors and notes are those of `random_normal`.
    """

    def draw(pair: Pair, block: int, count: int, dtype: DType, centre: Any, width: Any) -> Array:
        made: Array = _normal(pair, block, count, dtype, True) * width + centre
        return made

    return _drawn("TruncatedNormal", shape, dtype, [mean, stddev], seed, name or "truncated_normal", draw)


def _doubles(pair: Pair, block: int) -> Iterator[float]:
    # A block has two of them, and TensorFlow takes the second one first.
    while True:
        for low, high in _uniform(pair, block, 8, as_dtype(np.float64)).reshape(-1, 2).tolist():
            yield high
            yield low
        block += 4


def _poisson(rate: float, numbers: Iterator[float]) -> float:
    """Return a number of events, of which `rate` are expected.

    Small rates by Knuth's products of random numbers, others by Hörmann's transformed rejection, with its constants.
    """
    if not 0 <= rate < math.inf:
        return math.nan
    if rate < 10:
        least, product, count = math.exp(-rate), next(numbers), 0
        while product > least:
            product *= next(numbers)
            count += 1
        return count
    b = 0.931 + 2.53 * math.sqrt(rate)
    a = -0.059 + 0.02483 * b
    inverse_alpha = 1.1239 + 1.1328 / (b - 3.4)
    while True:
        u, v = next(numbers) - 0.5, next(numbers)
        edge = 0.5 - abs(u)
        if edge <= 0:
            continue
        k = math.floor((2 * a / edge + b) * u + rate + 0.43)
        if edge >= 0.07 and v <= 0.9277 - 3.6224 / (b - 2):
            return k
        if k < 0 or edge < 0.013 and v > edge or not v:
            continue
        if math.log(v * inverse_alpha / (a / edge**2 + b)) <= k * math.log(rate) - rate - math.lgamma(k + 1):
            return k


def random_poisson(
    lam: Any, shape: Any, dtype: Any = np.float32, seed: int | None = None, name: str | None = None
) -> Tensor:
    """Return random numbers of events, of which as many are expected as each rate says.

    Parameters
    ----------
    lam : Tensor of floats or integers
        The rates. Negative ones, and those that are not finite, make NaN, or 0 of integers.
    shape : Tensor of integers, or list of int
        Of the numbers for each rate.
    dtype : {float16, float32, float64, int32, int64}
        Of the numbers.
    seed : int, optional
    name : str, optional

    Returns
    -------
    Tensor, shape (*shape, *lam.shape)

    Raises
    ------
    ValueError
        If there is no such dtype.

    Notes
    -----
    The same for the same two seeds, run by run. Each number costs some microseconds, under the GIL.
    """
    rates, sides, target = convert_to_tensor(lam), shape_tensor(shape), as_dtype(dtype)
    for kind in (rates.dtype, target):
        if kind.name not in _UNIFORM:
            raise ValueError(f"random_poisson: invalid dtype {name_of(kind)}")
    pair = seed_pair(seed)
    constant = constant_value(sides)
    static_sides = shape_within(sides) if constant is None else [int(side) for side in constant]

    def kernel(run: Any, to: Any, values: Any) -> Any:
        dims = [int(side) for side in to]
        if any(side < 0 for side in dims):
            raise InvalidArgumentError(f"random_poisson: a shape has no negative sides: {dims}")
        each, flat = math.prod(dims), np.ravel(values).astype(np.float64).tolist()
        block = run.session.resource(("random", result.op), RandomStream).take(each * len(flat) * _ASIDE)
        counts = np.empty((each, len(flat)))
        for column, rate in enumerate(flat):
            for row in range(each):
                counts[row, column] = _poisson(rate, _doubles(pair, block + (column * each + row) * _ASIDE))
        if target.kind == "i":
            np.nan_to_num(counts, copy=False)
        return counts.astype(target).reshape(*dims, *np.shape(values))[()]

    static_shape = TensorShape(static_sides).concatenate(rates.shape)
    result = apply_op("RandomPoissonV2", [sides, rates], target, static_shape, kernel, name or "random_poisson",
                      pure=False)  # fmt: skip
    return result


def random_shuffle(value: Any, seed: int | None = None, name: str | None = None) -> Tensor:
    """Return the parts of a tensor along its first dimension in random order.

    Parameters
    ----------
    value : Tensor
    seed : int, optional
    name : str, optional

    Notes
    -----
    For the same two seeds, TensorFlow's own orders, run by run.
    """
    operand = convert_to_tensor(value)
    pair = seed_pair(seed)

    def kernel(run: Any, x: Any) -> Any:
        if isinstance(x, bytes) or not np.ndim(x) or len(x) < 2:
            return x
        order = np.empty(len(x), np.int64)  # of all but the last place one draw each
        block = run.session.resource(("random", result.op), RandomStream).take((len(x) + 2) // 4)
        draws.shuffle(*pair, block, order)
        return x[order]

    result = apply_op("RandomShuffle", [operand], operand.dtype, operand.shape, kernel, name, pure=False)
    return result


def random_crop(value: Any, size: Any, seed: int | None = None, name: str | None = None) -> Tensor:
    """Return a part of a tensor of a given size, at a random place.

    Parameters
    ----------
    value : Tensor
    size : list of int
        On each axis; known beforehand for numbers.
    seed : int, optional
    name : str, optional

    Raises
    ------
    ValueError
        If the part is larger than the tensor.

    Notes
    -----
    The place is that of `queuecore.ops.random_crop` for the number of the record (elsewhere: of the run), so that
    a runner can crop natively. It is reproducible, but not TensorFlow's.
    """
    operand = convert_to_tensor(value)
    known = constant_value(convert_to_tensor(size))
    if known is None:
        raise ValueError("random_crop: the size must be known before the graph runs")
    sides = [int(one) for one in np.ravel(known)]
    there = operand.shape.with_rank(len(sides)).sides or ()
    if any(side is not None and side < one for side, one in zip(there, sides, strict=True)):
        raise ValueError(f"Need value.shape >= size, got {operand.shape} and {sides}")

    def call(x: Any, number: int, **which: int) -> Any:
        return ops.random_crop(x, sides, number, **which)

    return counted("RandomCrop", operand, TensorShape(sides), seed_pair(seed), call, name or "random_crop")


def counted(
    type_: str, operand: Tensor, shape: TensorShape, pair: Pair, call: Callable[..., Any], name: str | None
) -> Tensor:
    """Add an operation of `queuecore.ops` that draws for the number of each record: natively in a runner's program.

    Elsewhere the records are a session's runs.
    """
    number = pair[0] << 32 | pair[1]

    def kernel(run: Any, x: Any) -> Any:
        return call(x, number, element=run.session.resource(("random", result.op), RandomStream).take(1))

    result = apply_op(type_, [operand], operand.dtype, shape, kernel, name, pure=False)
    result.op.attributes["native"] = lambda x, salt=0: call(x, number ^ salt)
    result.op.attributes["drawn"] = isinstance(pair, DrawnPair)
    return result
