"""The queue classes again, slow and obvious: `QueueModel` behind one lock, with the API of `queuecore`'s.

They are what the tests of queues are tried on, so that a test that fails on the library's queues is known to be able to
pass. `model_class` lets a test of the tests put in a model with a bug.
"""

from __future__ import annotations

import operator
import threading
import time
import weakref
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from helpers.models.oracle import seed_pair
from helpers.models.queue_model import FIFO, PADDING, PRIORITY, SHUFFLE, ModelError, QueueModel

from queuecore import errors
from queuecore.errors import DtypeError, InvalidArgumentError

KIND_NAMES = {"b": "bool", "i": "integer", "u": "integer", "f": "float", "c": "complex", "S": "bytes", "U": "str"}


class _Core:
    """What all handles on one queue share."""

    def __init__(self, model: QueueModel, signature: tuple) -> None:
        self.model = model
        self.signature = signature
        self.changed = threading.Condition()
        self.cause: BaseException | None = None


_shared: weakref.WeakValueDictionary[str, _Core] = weakref.WeakValueDictionary()
_shared_lock = threading.Lock()


def _as_dtype(word: Any) -> np.dtype:
    try:
        return np.dtype(word)
    except TypeError as error:
        raise DtypeError(f"no dtype: {word!r}") from error


def _as_shape(shape: Any) -> tuple[int | None, ...]:
    if isinstance(shape, (str, bytes)) or not isinstance(shape, Sequence):
        raise InvalidArgumentError(f"no shape: {shape!r}")
    if any(n is not None and operator.index(n) < 0 for n in shape):
        raise InvalidArgumentError(f"a negative dimension: {shape!r}")
    return tuple(shape)


def _stored(dtype: np.dtype) -> np.dtype:
    # Strings of any length are kept as objects: NumPy's own have one length for all.
    return np.dtype(object) if dtype.itemsize == 0 else dtype


def _convert(value: Any, dtype: np.dtype, place: str, batch: bool) -> np.ndarray:
    if dtype.kind == "O":
        if isinstance(value, np.ndarray):
            return value.astype(object)
        if not batch:
            cell = np.empty((), object)
            cell[()] = value
            return cell
        if not isinstance(value, (list, tuple)):
            raise InvalidArgumentError(f"{place}: expected rows, got {value!r}")
        column = np.empty(len(value), object)
        column[:] = value
        return column
    text = dtype.kind in "SU"
    try:
        # NumPy's own strings lose the zeros at their end.
        array = np.array(value, object) if text and not isinstance(value, np.ndarray) else np.asarray(value)
    except ValueError as error:
        raise InvalidArgumentError(f"{place}: expected an array of {dtype}, got {value!r}") from error
    if array.size == 0 and not isinstance(value, np.ndarray):
        # An empty list says nothing about its dtype.
        array = array.astype(dtype)
    have, want = array.dtype.kind, dtype.kind
    wrong = DtypeError(f"{place}: expected {dtype}, got {array.dtype}")
    if text:
        flat = array.ravel().tolist()
        if not all(isinstance(v, (bytes, str)) for v in flat):
            raise wrong
        flat = [v.encode() if want == "S" and isinstance(v, str) else v for v in flat]
        flat = [v.decode() if want == "U" and isinstance(v, bytes) else v for v in flat]
        result = np.empty(len(flat), _stored(dtype))
        result[:] = flat
        return result.reshape(array.shape)
    if have not in "biufc" or "biufc".index(want) < "biufc".index(have) - (have == "u" and want == "i"):
        raise wrong
    if want in "iu" and array.size:
        limits = np.iinfo(dtype)
        if int(array.min()) < limits.min or int(array.max()) > limits.max:
            raise InvalidArgumentError(f"{place}: expected {dtype}, got {array.min()}..{array.max()}")
    with np.errstate(over="ignore"):
        return array.astype(dtype)


class _Queue:
    kind: ClassVar[str]
    model_class: ClassVar[type[QueueModel]] = QueueModel

    def _open(self, capacity, dtypes, shapes, names, shared_name, name, *, pair=(0, 0), min_after_dequeue=0) -> None:
        if isinstance(dtypes, (str, bytes)) or not isinstance(dtypes, Sequence):
            dtypes = [dtypes]
        self.dtypes = [_as_dtype(d) for d in dtypes]
        count = len(self.dtypes)
        if count == 0:
            raise InvalidArgumentError("expected at least 1 component, got 0")
        if shapes is not None:
            if isinstance(shapes, (int, str, bytes)) or not isinstance(shapes, Sequence):
                raise InvalidArgumentError(f"expected a list of shapes, got {shapes!r}")
            if all(isinstance(n, (int, np.integer)) for n in shapes) and (shapes or count == 1):
                # A bare list of ints is one shape.
                shapes = [shapes]
            shapes = [_as_shape(s) for s in shapes]
            if len(shapes) != count:
                raise InvalidArgumentError(f"expected {count} shapes, got {len(shapes)}")
            if self.kind != PADDING and any(None in s for s in shapes):
                raise InvalidArgumentError(f"all shapes must be fully defined, got {shapes}")
        self.shapes = shapes
        if isinstance(names, str):
            names = [names]
        if names is not None and (len(names) != count or len(set(names)) != count):
            raise InvalidArgumentError(f"expected {count} different names, got {names}")
        self.names = names
        self.capacity = capacity = operator.index(capacity)
        self.name = shared_name or name or self.kind
        try:
            model = self.model_class(
                self.kind,
                capacity,
                [_stored(d) for d in self.dtypes],
                shapes,
                min_after_dequeue=min_after_dequeue,
                pair=pair,
            )
        except ModelError as error:
            raise getattr(errors, error.name)(error.why) from None
        signature = (self.kind, capacity, self.dtypes, shapes, names, min_after_dequeue)
        if shared_name is None:
            self._core = _Core(model, signature)
            return
        with _shared_lock:
            core = _shared.get(shared_name)
            if core is None:
                core = _shared[shared_name] = _Core(model, signature)
            elif core.signature != signature:
                raise InvalidArgumentError(f"shared queue {shared_name!r} is {core.signature}, requested {signature}")
        self._core = core

    # ---- values -----------------------------------------------------------------------------------------------------

    def _where(self, i: int) -> str:
        return f"component {i}" + (f" ({self.names[i]!r})" if self.names else "")

    def _components(self, values: Any, batch: bool) -> list[np.ndarray]:
        if self.names is not None:
            if not isinstance(values, Mapping) or set(values) != set(self.names):
                raise InvalidArgumentError(f"expected a dict of {self.names}, got {values!r}")
            values = [values[name] for name in self.names]
        elif isinstance(values, Mapping):
            raise InvalidArgumentError("a dict needs a queue with names")
        elif not isinstance(values, (list, tuple)):
            values = [values]
        if len(values) != len(self.dtypes):
            raise InvalidArgumentError(f"expected {len(self.dtypes)} components, got {len(values)}")
        arrays = [_convert(v, d, self._where(i), batch) for i, (v, d) in enumerate(zip(values, self.dtypes))]  # noqa: B905
        if batch and any(a.ndim == 0 for a in arrays):
            i = next(i for i, a in enumerate(arrays) if a.ndim == 0)
            raise InvalidArgumentError(f"{self._where(i)}: expected rows, got a scalar")
        for i, a in enumerate(arrays):
            if batch and len(a) != len(arrays[0]):
                raise InvalidArgumentError(f"{self._where(i)}: expected {len(arrays[0])} rows, got {len(a)}")
            expected = self.shapes[i] if self.shapes else None
            got = a.shape[batch:]
            if expected is not None and (
                len(expected) != len(got) or any(n not in (None, m) for n, m in zip(expected, got))  # noqa: B905
            ):
                raise InvalidArgumentError(f"{self._where(i)}: expected shape {expected}, got {got}")
        return arrays

    def _packed(self, arrays: list[np.ndarray], out: Any) -> Any:
        if out is not None:
            for target, array in zip(self._outs(out), arrays, strict=True):
                target[: len(array)] = array
        if self.names is not None:
            return dict(zip(self.names, arrays, strict=True))
        return arrays if len(arrays) > 1 else arrays[0]

    def _outs(self, out: Any) -> list[np.ndarray]:
        if self.names is not None:
            return [out[name] for name in self.names]
        return list(out) if isinstance(out, (list, tuple)) else [out]

    def _check_out(self, out: Any, lead: tuple[int, ...]) -> None:
        if out is None:
            return
        for i, target in enumerate(self._outs(out)):
            shape = (*lead, *self.shapes[i]) if self.shapes else None
            if target.dtype != self.dtypes[i] or (shape is not None and target.shape != shape):
                raise InvalidArgumentError(
                    f"{self._where(i)}: expected out of {self.dtypes[i]}{shape}, got {target.dtype}{target.shape}"
                )

    # ---- operations -------------------------------------------------------------------------------------------------

    def _do(self, name: str, argument: Any = None, timeout: float | None = None) -> list[np.ndarray] | None:
        core = self._core
        end = None if timeout is None else time.monotonic() + timeout
        with core.changed:
            number = core.model.start(name, argument)
            core.changed.notify_all()
            while number not in core.model.outcomes:
                left = None if end is None else end - time.monotonic()
                if left is not None and left <= 0:
                    core.model.expire(number)
                    core.changed.notify_all()
                else:
                    core.changed.wait(left)
            outcome = core.model.outcomes.pop(number)
            cause = core.cause
        if outcome.error is not None:
            kind = getattr(errors, outcome.error)
            raise kind(f"{self.kind} {self.name!r}: {outcome.why}") from (
                cause if kind in (errors.OutOfRangeError, errors.CancelledError) else None
            )
        return outcome.value

    def enqueue(self, vals: Any, *, timeout: float | None = None) -> None:
        self._do("enqueue", self._components(vals, batch=False), timeout)

    def enqueue_many(self, vals: Any, *, timeout: float | None = None) -> None:
        self._do("enqueue_many", self._components(vals, batch=True), timeout)

    def dequeue(self, *, out: Any = None, timeout: float | None = None) -> Any:
        if out is not None:
            self._check_out(out, ())
            value = self._do("dequeue", timeout=timeout)
            for target, array in zip(self._outs(out), value, strict=True):
                target[...] = array
            return self._packed(value, None)
        return self._packed(self._do("dequeue", timeout=timeout), None)

    def _count(self, n: Any) -> int:
        try:
            return operator.index(n)
        except TypeError as error:
            raise DtypeError(f"expected a count, got {n!r}") from error

    def dequeue_many(self, n: Any, *, out: Any = None, timeout: float | None = None) -> Any:
        n = self._count(n)
        self._check_out(out, (n,))
        return self._packed(self._do("dequeue_many", n, timeout), out)

    def dequeue_up_to(self, n: Any, *, out: Any = None, timeout: float | None = None) -> Any:
        n = self._count(n)
        self._check_out(out, (n,))
        return self._packed(self._do("dequeue_up_to", n, timeout), out)

    def close(self, cancel_pending_enqueues: bool = False, *, timeout: float | None = None) -> None:
        self._do("close", cancel_pending_enqueues, timeout)

    def _fail(self, error: BaseException) -> None:
        self._core.cause = self._core.cause or error
        self._do("close", True)

    def size(self) -> int:
        with self._core.changed:
            return self._core.model.size()

    def is_closed(self) -> bool:
        with self._core.changed:
            return self._core.model.is_closed()

    def stats(self) -> dict[str, int]:
        with self._core.changed:
            model = self._core.model
            return {
                "depth": model.size(),
                "waiting_enqueues": model.waiting_enqueues,
                "waiting_dequeues": model.waiting_dequeues,
            }

    def __iter__(self) -> Iterator[Any]:
        while True:
            try:
                yield self.dequeue()
            except errors.OutOfRangeError as error:
                if error.__cause__ is not None:
                    raise
                return

    @staticmethod
    def from_list(index: Any, queues: Any) -> _Queue:
        if not isinstance(queues, list) or not queues or not all(isinstance(q, _Queue) for q in queues):
            raise DtypeError("expected a non-empty list of queues")
        if any(q.dtypes != queues[0].dtypes or q.names != queues[0].names for q in queues):
            raise DtypeError("expected queues of equal dtypes and names")
        if not 0 <= index < len(queues):
            raise InvalidArgumentError(f"expected an index below {len(queues)}, got {index}")
        return queues[index]


class FIFOQueue(_Queue):
    kind = FIFO

    def __init__(self, capacity, dtypes, shapes=None, names=None, shared_name=None, name=None) -> None:
        self._open(capacity, dtypes, shapes, names, shared_name, name)


class RandomShuffleQueue(_Queue):
    kind = SHUFFLE

    def __init__(
        self, capacity, min_after_dequeue, dtypes, shapes=None, names=None, seed=None, shared_name=None, name=None
    ) -> None:
        pair = seed_pair(None, time.monotonic_ns() if seed is None else seed)
        rest = {"pair": pair, "min_after_dequeue": operator.index(min_after_dequeue)}
        self._open(capacity, dtypes, shapes, names, shared_name, name, **rest)


class PaddingFIFOQueue(_Queue):
    kind = PADDING

    def __init__(self, capacity, dtypes, shapes, names=None, shared_name=None, name=None) -> None:
        if shapes is None or not isinstance(shapes, Sequence) or any(not isinstance(s, Sequence) for s in shapes):
            raise InvalidArgumentError(f"expected a list of shapes, got {shapes!r}")
        self._open(capacity, dtypes, shapes, names, shared_name, name)


class PriorityQueue(_Queue):
    kind = PRIORITY

    def __init__(self, capacity, types, shapes=None, names=None, shared_name=None, name=None) -> None:
        types = [types] if isinstance(types, (str, bytes)) or not isinstance(types, Sequence) else types
        if shapes is not None:
            if len(types) == 1 and isinstance(shapes, Sequence) and all(isinstance(n, int) for n in shapes):
                shapes = [shapes]
            shapes = [(), *shapes]
        self._open(capacity, [np.int64, *types], shapes, names, shared_name, name)

    def _components(self, values: Any, batch: bool) -> list[np.ndarray]:
        arrays = super()._components(values, batch)
        if arrays[0].ndim != batch:
            raise InvalidArgumentError(f"component 0: expected a scalar priority, got shape {arrays[0].shape[batch:]}")
        return arrays


def variant(kind: str, model_class: type[QueueModel]) -> type[_Queue]:
    """The slow queue of a kind, upon another model."""
    base = {FIFO: FIFOQueue, SHUFFLE: RandomShuffleQueue, PADDING: PaddingFIFOQueue, PRIORITY: PriorityQueue}[kind]
    return type(kind, (base,), {"model_class": model_class})
