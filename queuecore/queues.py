"""Queues in the manner of TensorFlow 1, eager: elements of typed components, handed over between threads."""

from __future__ import annotations

import operator
import threading
import weakref
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Literal, SupportsIndex

import numpy as np

from queuecore import _seeds
from queuecore._core.queues import NativeQueue
from queuecore._dtypes import as_dtype, kind_of
from queuecore.errors import DtypeError, InvalidArgumentError, OutOfRangeError

if TYPE_CHECKING:
    from queuecore._core.queues import Lease, Reservation
    from queuecore.data._device import Dequeued

__all__ = ["FIFOQueue", "PaddingFIFOQueue", "PriorityQueue", "QueueBase", "RandomShuffleQueue"]

Shape = tuple[int | None, ...]

_MAX_DIMS = 32

_lock = threading.Lock()
_made: dict[str, int] = {}
_shared: weakref.WeakValueDictionary[str, NativeQueue] = weakref.WeakValueDictionary()


class Settled(str):
    """A name that needs no number: whoever gives it knows that it is the only one."""

    __slots__ = ()


class _Component:
    """One component of an element: its dtype and shape, and how a value becomes one."""

    __slots__ = ("dtype", "label", "pads", "reference", "shape")

    def __init__(self, label: str, dtype: Any, shape: Shape | None) -> None:
        try:
            given = as_dtype(dtype)
        except TypeError as error:
            raise DtypeError(f"{label}: {dtype!r} is no dtype") from error
        self.dtype = given if given.isnative else given.newbyteorder("=")
        if kind_of(self.dtype) not in "biufcSUO" or self.dtype.subdtype is not None:
            raise DtypeError(f"{label}: a queue can't hold {self.dtype}")
        # Of any length, or any object: not as an array.
        self.reference = self.dtype.kind == "O" or self.dtype.itemsize == 0
        self.label = label
        self.shape = shape
        self.pads = shape is not None and None in shape

    def native(self) -> tuple[np.dtype[Any], tuple[int, ...] | None, str]:
        shape = None if self.shape is None else tuple(-1 if side is None else side for side in self.shape)
        return self.dtype, shape, {"S": "bytes", "U": "str"}.get(self.dtype.kind, "object") if self.reference else ""

    def convert(self, value: Any, many: bool) -> Any:
        """Return the value as a C-contiguous array of the dtype, or a reference (many: a list of them)."""
        if self.reference:
            return self._references(value, many)
        try:
            array = np.asarray(value)
        except ValueError as error:
            raise InvalidArgumentError(f"{self.label}: {error}") from error
        if array.dtype != self.dtype:
            array = self._cast(array, value)
        self._check_shape(array.shape, many)
        return array if array.flags.c_contiguous else array.copy(order="C")

    def _cast(self, array: np.ndarray, value: Any) -> np.ndarray:
        source, target = kind_of(array.dtype), kind_of(self.dtype)
        if array.size == 0 and not isinstance(value, np.ndarray):
            return array.astype(self.dtype)  # an empty list is of no type
        if source in "iu" and target in "iu":
            info = np.iinfo(self.dtype)
            if array.size and (array.min() < info.min or array.max() > info.max):
                raise InvalidArgumentError(
                    f"{self.label}: expected integers that fit {self.dtype}, got {array.min()} to {array.max()}"
                )
        elif source in "SU" and source + target in ("SS", "UU", "US"):
            if target == "S" and source == "U":
                array = np.char.encode(array, "utf-8")
            if array.dtype.itemsize > self.dtype.itemsize:
                raise InvalidArgumentError(f"{self.label}: expected at most {self.dtype}, got {array.dtype}")
        elif source == target or (source in "iu" and target in "fc") or (source == "f" and target == "c"):
            pass
        else:
            raise DtypeError(f"{self.label}: expected {self.dtype}, got {_kind_of(array, value)}")
        with np.errstate(over="ignore"):
            return array.astype(self.dtype)

    def _check_shape(self, shape: tuple[int, ...], many: bool) -> None:
        if many and not shape:
            raise InvalidArgumentError(f"{self.label}: expected rows along a first dimension, got a scalar")
        own = shape[1:] if many else shape
        if self.shape is None:
            if len(own) > _MAX_DIMS:
                raise InvalidArgumentError(f"{self.label}: {len(own)} dimensions; at most {_MAX_DIMS} are possible")
            return
        if len(own) != len(self.shape) or any(
            side is not None and side != there for side, there in zip(self.shape, own, strict=False)
        ):
            raise InvalidArgumentError(f"{self.label}: expected shape {_text(self.shape)}, got {_text(own)}")

    def _references(self, value: Any, many: bool) -> Any:
        what: type | None = {"S": bytes, "U": str}.get(self.dtype.kind)
        if many and not _has_rows(value):
            raise InvalidArgumentError(
                f"{self.label}: expected rows along a first dimension, got {type(value).__name__}"
            )
        if self.shape == () or (self.shape is None and what is None):
            return [self._reference(one, what) for one in value] if many else self._reference(value, what)
        try:
            array = np.empty(np.shape(value), object)
            array[...] = value
        except ValueError as error:
            raise InvalidArgumentError(f"{self.label}: {error}") from error
        self._check_shape(array.shape, many)
        for index in np.ndindex(array.shape):
            array[index] = self._reference(array[index], what)
        return list(array) if many else array[()] if array.ndim == 0 else array

    def _reference(self, value: Any, what: type | None) -> Any:
        if what is None or type(value) is what:
            return value
        if isinstance(value, np.ndarray) and value.ndim == 0:
            value = value.item()
        if what is bytes and isinstance(value, str):
            return value.encode()
        if isinstance(value, what):
            return what(value)
        raise DtypeError(f"{self.label}: expected {what.__name__}, got {type(value).__name__}")


def _has_rows(value: Any) -> bool:
    if isinstance(value, (str, bytes)):
        return False
    try:
        iter(value)
    except TypeError:
        return False
    return True


def _kind_of(array: np.ndarray, value: Any) -> str:
    return (
        str(array.dtype) if isinstance(value, (np.ndarray, np.generic)) else f"{type(value).__name__} ({array.dtype})"
    )


def _text(shape: Sequence[int | None]) -> str:
    return "[" + ", ".join("?" if side is None else str(side) for side in shape) + "]"


def _check_index(value: Any, what: str) -> int:
    if isinstance(value, (bool, np.bool_)) or not hasattr(value, "__index__"):
        raise InvalidArgumentError(f"{what} must be an integer, not {value!r}")
    return operator.index(value)


def _as_list(value: Any) -> list[Any]:
    return list(value) if isinstance(value, (list, tuple)) else [value]


def _as_shapes(shapes: Any, count: int) -> list[Shape | None]:
    if shapes is None:
        return [None] * count
    if not isinstance(shapes, (list, tuple)):
        shapes = [shapes]
    elif all(hasattr(side, "__index__") for side in shapes) and (shapes or count == 1):
        shapes = [shapes]  # a plain list of integers is one shape
    if len(shapes) != count:
        raise InvalidArgumentError(f"there are {count} dtypes and {len(shapes)} shapes")
    found: list[Shape | None] = []
    for index, shape in enumerate(shapes):
        sides = [shape] if hasattr(shape, "__index__") else shape
        if not isinstance(sides, (list, tuple)):
            raise InvalidArgumentError(f"component {index}: {shape!r} is no shape")
        own: list[int | None] = []
        for side in sides:
            own.append(None if side is None else _check_index(side, f"component {index}: a dimension"))
            if own[-1] is not None and own[-1] < 0:
                raise InvalidArgumentError(f"component {index}: a dimension must not be negative: {shape!r}")
        found.append(tuple(own))
    return found


class QueueBase:
    """What all queues have in common. Make one of the classes below, not this one.

    An element is a tuple of components; component i has dtype ``dtypes[i]`` and, if `shapes` were given, shape
    ``shapes[i]``. Values go in as NumPy arrays or what `numpy.asarray` takes, and come out as new arrays (scalars for
    components of no dimensions): of one component bare, of several a list, with `names` a dict.

    Notes
    -----
    Every call may come from any thread. Calls that can wait take ``timeout`` in seconds (0: try; None: no end), wait
    without the GIL, and hear Ctrl-C; when time runs out they raise `DeadlineExceededError`, and nothing is taken or
    lost. Those who wait are served in the order in which they came, as in TensorFlow: one ``dequeue_many`` that waits
    for much holds up those behind it, and rows of one ``enqueue_many`` are never mixed with others.

    Differences from TensorFlow: a capacity of 0 and too many components are errors; ``close()`` of a closed queue is
    none; a failed producer's error is the ``__cause__`` of what consumers get.

    Queues can't be used in a forked child (`ForkedPipelineError`).
    """

    __slots__ = ("__weakref__", "_components", "_native")

    _components: list[_Component]
    _native: NativeQueue

    def __init__(
        self,
        capacity: SupportsIndex,
        components: list[_Component],
        names: Any,
        *,
        min_after_dequeue: int = 0,
        seed: tuple[int, int] = (0, 0),
        pad: bool = False,
        shared_name: str | None = None,
        name: str | None = None,
        default_name: str,
    ) -> None:
        kind = type(self)._kind
        size = _check_index(capacity, "capacity")
        if size == 0:
            raise InvalidArgumentError(
                "capacity must be positive, or negative for a queue without bound; 0 holds nothing"
            )
        labels = self._check_names(names, len(components))
        for label, component in zip(labels or (), components, strict=False):
            component.label = f"component {label!r}"
        self._components = components
        described = (
            kind,
            size,
            min_after_dequeue,
            [(str(one.dtype), one.shape) for one in components],
            labels,
        )
        with _lock:
            found = None if shared_name is None else _shared.get(shared_name)
            if found is not None:
                self._check_shared(str(shared_name), found.described, described)
                self._native = found
                return
            if shared_name is None:
                shown = default_name if name is None else str(name)
                if not isinstance(name, Settled):
                    count = _made.get(shown, 0)
                    _made[shown] = count + 1
                    shown = shown if count == 0 else f"{shown}_{count}"
            else:
                shown = shared_name
            self._native = NativeQueue(
                kind,
                shown,
                size,
                min_after_dequeue,
                [one.native() for one in components],
                labels,
                lambda index, value, many: components[index].convert(value, many),
                pad=pad,
                seeds=seed,
            )
            self._native.described = described
            if shared_name is not None:
                _shared[shared_name] = self._native

    _kind = "QueueBase"

    @staticmethod
    def _check_names(names: Any, count: int) -> tuple[str, ...] | None:
        if names is None:
            return None
        found = tuple(_as_list(names))
        if len(found) != count:
            raise InvalidArgumentError(f"there are {count} components and {len(found)} names")
        if any(not isinstance(one, str) for one in found) or len(set(found)) != count:
            raise InvalidArgumentError(f"names must be strings, each another: {names!r}")
        return found

    @staticmethod
    def _check_shared(name: str, there: tuple[Any, ...], here: tuple[Any, ...]) -> None:
        for what, old, new in zip(
            ("kind", "capacity", "min_after_dequeue", "components", "names"), there, here, strict=True
        ):
            if old != new:
                raise InvalidArgumentError(f"the shared queue {name!r} has {what} {old}, but {new} was asked for")

    # ---- putting -----------------------------------------------------------------------------------------------------

    def enqueue(self, vals: Any, *, timeout: float | None = None) -> None:
        """Put one element, waiting for room.

        Parameters
        ----------
        vals : object
            One component; a list or tuple of all of them; or, of a queue with names, a dict.
        timeout : float, optional
            Seconds to wait at most.

        Raises
        ------
        InvalidArgumentError
            If components, shapes, dtypes (`DtypeError`) or names are not the queue's. It is unchanged then.
        CancelledError
            If the queue is closed, or is closed with `cancel_pending_enqueues` while this waits.
        DeadlineExceededError
            If there was no room in time.
        """
        self._native.enqueue(vals, timeout)

    def enqueue_many(self, vals: Any, *, timeout: float | None = None) -> None:
        """Put many elements, as rows along the first dimension of each component, in one piece.

        Parameters
        ----------
        vals : object
            As in `enqueue`; every component has one dimension more, of the same length.
        timeout : float, optional
            Seconds to wait at most. Rows that are in by then stay in; the error says how many.

        Raises
        ------
        InvalidArgumentError, CancelledError, DeadlineExceededError
            As `enqueue`. No rows at all are always accepted, also by a closed queue.

        Notes
        -----
        Rows go in as room comes free. There may be more of them than the queue's capacity.
        """
        self._native.enqueue_many(vals, timeout)

    def reserve(self, n: SupportsIndex, *, timeout: float | None = None) -> Reservation:
        """Get room for `n` elements, to be filled where they will lie.

        Parameters
        ----------
        n : int
            How many, at least 1.
        timeout : float, optional
            Seconds that the end of the ``with`` block waits for room in the queue at most.

        Returns
        -------
        Reservation
            A context manager that gives a list of arrays (with names: a dict) of shape ``(n, *shape)``. The elements
            are put when the block ends, as by `enqueue_many`, and given up if it ends in an exception. Without a block:
            ``rows``, ``commit(timeout=None)`` and ``cancel()``. A forgotten one is given up.

        Raises
        ------
        InvalidArgumentError
            If the queue's components are not all of fixed shape and size.

        Notes
        -----
        Doesn't wait. The arrays may have strides; they hold anything at first. Nothing is copied, unless the free
        places don't lie side by side (``stats()["copied_rows"]`` counts).

        Examples
        --------
        >>> import queuecore as qc
        >>> q = qc.FIFOQueue(4, ["i4"], [(2,)])
        >>> with q.reserve(3) as [rows]:
        ...     rows[:] = [[1, 2], [3, 4], [5, 6]]
        >>> q.size()
        3
        """
        return self._native.reserve(_check_index(n, "n"), timeout)

    # ---- getting -----------------------------------------------------------------------------------------------------

    def dequeue(self, *, timeout: float | None = None, out: Any = None) -> Any:
        """Take one element, waiting for it.

        Parameters
        ----------
        timeout : float, optional
            Seconds to wait at most.
        out : ndarray, or list or dict of them, optional
            C-contiguous arrays of the components' shapes and dtypes that receive the element.

        Returns
        -------
        object
            New arrays (or `out`): one, a list, or a dict. Scalars for components without dimensions.

        Raises
        ------
        OutOfRangeError
            If the queue is closed and empty. Its ``__cause__`` is the error of what filled the queue, if that failed.
        DeadlineExceededError
            If there was nothing in time.
        """
        if out is None:
            return self._native.dequeue(timeout)
        self._native.dequeue(timeout, self._check_out(out, None))
        return out

    def to_device(
        self,
        device: str = "auto",
        buffers: SupportsIndex = 3,
        *,
        mode: Literal["lease", "ring"] = "lease",
        pinned: Literal["require", "prefer"] = "require",
    ) -> Dequeued:
        """Bring elements to a device as they come, ahead of the consumer.

        Parameters
        ----------
        device, buffers, mode, pinned
            As those of `queuecore.data.Dataset.prefetch_to_device`.

        Returns
        -------
        Dequeued
            An iterator over the elements, one by one, until the queue is closed and empty. Let each be a whole batch.

        Raises
        ------
        DeviceUnavailableError
            If a GPU is asked for and there is no driver, no such device, or no CuPy.
        InvalidArgumentError
            If an argument is none of these.

        Notes
        -----
        One thread dequeues and copies into page-locked memory, another one copies to the device, both without the GIL;
        a queue that has strings or objects beside numbers takes it for each element. Up to ``2 * buffers + 2`` elements
        are taken out of the queue ahead of the consumer.

        Examples
        --------
        >>> import numpy as np
        >>> import queuecore as qc
        >>> q = qc.FIFOQueue(5, [np.float32], [(3,)])
        >>> q.enqueue(np.array([1, 2, 3], np.float32))
        >>> q.close()
        >>> [batch.tolist() for batch in q.to_device("cpu")]
        [[1.0, 2.0, 3.0]]
        """
        from queuecore.data._device import device_queue

        return device_queue(self, device, buffers, mode, pinned)

    def dequeue_many(self, n: SupportsIndex, *, timeout: float | None = None, out: Any = None) -> Any:
        """Take `n` elements, waiting for all of them, stacked along a new first dimension.

        Parameters
        ----------
        n : int
            How many; may be more than the capacity.
        timeout, out
            As in `dequeue`; arrays of `out` have the further first dimension, of length `n`.

        Returns
        -------
        object
            Arrays of shape ``(n, *shape)``: one, a list, or a dict.

        Raises
        ------
        OutOfRangeError
            If the queue is closed and has fewer. They stay in it.
        InvalidArgumentError
            If elements have no common shape, or `n` is negative.
        DeadlineExceededError
            If there were too few in time. They stay in it, in their order.
        """
        return self._take_many(n, False, timeout, out)

    def dequeue_up_to(self, n: SupportsIndex, *, timeout: float | None = None, out: Any = None) -> Any:
        """Take `n` elements, or what is left of a closed queue. An open one is waited for as in `dequeue_many`.

        Parameters
        ----------
        n, timeout, out
            As in `dequeue_many`. Of `out`, the beginning is filled, and views of that are returned.

        Returns
        -------
        object
            Arrays of shape ``(m, *shape)`` with 1 <= m <= n.

        Raises
        ------
        OutOfRangeError
            If the queue is closed and empty.
        InvalidArgumentError, DeadlineExceededError
            As `dequeue_many`.
        """
        return self._take_many(n, True, timeout, out)

    def lease(self, n: SupportsIndex, *, timeout: float | None = None) -> Lease:
        """Take the next `n` elements where they lie, without a copy.

        Parameters
        ----------
        n : int
            How many, at least 1; all are waited for.
        timeout : float, optional
            Seconds to wait at most.

        Returns
        -------
        Lease
            A context manager that gives a list of arrays (with names: a dict) of shape ``(n, *shape)``. They are valid
            until the block ends, or without a block until ``release()``; a forgotten lease ends with its last view.

        Raises
        ------
        OutOfRangeError, InvalidArgumentError, DeadlineExceededError
            As `dequeue_many`.

        Notes
        -----
        Leased elements don't count against the capacity. Elements that don't lie side by side are copied
        (``stats()["copied_rows"]`` counts).
        """
        return self._native.lease(_check_index(n, "n"), timeout)

    def __iter__(self) -> Iterator[Any]:
        """Take elements until the queue is closed and empty. If what filled it failed, that error is raised."""
        while True:
            try:
                yield self.dequeue()
            except OutOfRangeError as error:
                if error.__cause__ is not None:
                    raise
                return

    # ---- state -------------------------------------------------------------------------------------------------------

    def size(self) -> int:
        """Return the number of elements in the queue; it may have changed by then.

        Elements that a waiting `dequeue_many` holds, and rows that wait for room, don't count.
        """
        return self._native.size()

    def close(self, cancel_pending_enqueues: bool = False, *, timeout: float | None = None) -> None:
        """Close the queue: nothing more goes in, and what is in it can still be taken.

        Parameters
        ----------
        cancel_pending_enqueues : bool, default False
            Whether puts that wait for room fail with `CancelledError`. If not, the queue is closed behind them, and
            this call waits for that; puts that come later fail.
        timeout : float, optional
            Seconds to wait for them at most.

        Raises
        ------
        DeadlineExceededError
            If they still waited then. The queue stays open.
        CancelledError
            If somebody closed it with `cancel_pending_enqueues` meanwhile.
        """
        self._native.close(bool(cancel_pending_enqueues), timeout)

    def is_closed(self) -> bool:
        """Return whether it is closed; while a `close` waits, it isn't."""
        return self._native.is_closed()

    def stats(self) -> dict[str, int]:
        """Return counters.

        Returns
        -------
        dict of str to int
            ``size`` and ``high_water`` (elements now, and at most so far), ``enqueued``, ``dequeued``,
            ``waiting_enqueues`` and ``waiting_dequeues`` (calls that wait now), ``blocked_enqueue_ns`` and
            ``blocked_dequeue_ns`` (time waited on each side, of calls that are over), ``copied_rows`` (rows that
            `reserve` or `lease` had to copy).
        """
        return self._native.stats()

    @property
    def capacity(self) -> int:
        """Elements that the queue holds at most; negative: without bound."""
        return int(self._native.described[1])

    @property
    def dtypes(self) -> list[np.dtype[Any]]:
        """The components' dtypes."""
        return [one.dtype for one in self._components]

    @property
    def shapes(self) -> list[Shape | None]:
        """The components' shapes; `None`: not fixed."""
        return [one.shape for one in self._components]

    @property
    def names(self) -> list[str] | None:
        """The components' names, or `None`."""
        labels = self._native.names
        return None if labels is None else list(labels)

    @property
    def name(self) -> str:
        """The queue's name, as messages show it."""
        return self._native.name

    def __repr__(self) -> str:
        """Tell kind, name, depth and state."""
        room = "" if self.capacity < 0 else f" of {self.capacity}"
        state = "closed" if self.is_closed() else "open"
        return f"<{self._native.kind} {self.name!r}: {self.size()}{room} elements, {state}>"

    def __reduce__(self) -> Any:
        """Refuse to be pickled."""
        raise TypeError(
            f"a {self._native.kind} can't be pickled: its elements are handed over between threads of one process"
        )

    @staticmethod
    def from_list(index: SupportsIndex, queues: list[QueueBase]) -> QueueBase:
        """Return one of several queues of equal components.

        Parameters
        ----------
        index : int
            Which one.
        queues : list of QueueBase
            At least one; all with the same dtypes and names.

        Raises
        ------
        TypeError
            If `queues` is no such list (as an `InvalidArgumentError` too).
        InvalidArgumentError
            If `index` is out of range.
        """
        if not isinstance(queues, list) or not queues or any(not isinstance(one, QueueBase) for one in queues):
            raise DtypeError("from_list needs a list of at least one queue")
        if any(one.dtypes != queues[0].dtypes or one.names != queues[0].names for one in queues):
            raise DtypeError("the queues of from_list must have the same dtypes and names")
        at = _check_index(index, "index")
        if not 0 <= at < len(queues):
            raise InvalidArgumentError(f"index must be from 0 to {len(queues) - 1}, not {at}")
        return queues[at]

    # ---- inside ------------------------------------------------------------------------------------------------------

    def _fail(self, error: BaseException) -> None:
        """Close it at once, because what fills it failed; consumers get this error as ``__cause__``."""
        self._native.fail(error)

    def _take_many(self, n: SupportsIndex, up_to: bool, timeout: float | None, out: Any) -> Any:
        count = _check_index(n, "n")
        if any(one.shape is None for one in self._components):
            raise InvalidArgumentError(
                f"{self.name!r} takes elements of any shape, which don't stack: give it shapes, or take one at a time"
            )
        given = None if out is None else self._check_out(out, count)
        taken = self._native.dequeue_many(count, up_to, timeout, given)
        return out if out is not None and not up_to else taken

    def _check_out(self, out: Any, n: int | None) -> list[np.ndarray]:
        arrays = self._native.components_of(out)
        if len(arrays) != len(self._components):
            raise InvalidArgumentError(f"out: expected {len(self._components)} arrays, got {len(arrays)}")
        for one, array in zip(self._components, arrays, strict=True):
            if one.shape is None or one.pads:
                raise InvalidArgumentError(f"out: {one.label} has no fixed shape")
            dtype = np.dtype(object) if one.reference else one.dtype
            shape = one.shape if n is None else (n, *one.shape)
            if (
                not isinstance(array, np.ndarray)
                or array.dtype != dtype
                or array.shape != shape
                or not (array.flags.c_contiguous and array.flags.writeable)
            ):
                there = f"{array.dtype} {_text(array.shape)}" if isinstance(array, np.ndarray) else type(array).__name__
                raise InvalidArgumentError(
                    f"out: {one.label}: expected a writeable C-contiguous array of {dtype} {_text(shape)}, got {there}"
                )
        return arrays


def _components(dtypes: Any, shapes: Any) -> list[_Component]:
    words = _as_list(dtypes)
    if not words:
        raise InvalidArgumentError("a queue needs at least 1 component")
    found = _as_shapes(shapes, len(words))
    return [_Component(f"component {i}", word, shape) for i, (word, shape) in enumerate(zip(words, found, strict=True))]


def _all_fixed(components: list[_Component]) -> list[_Component]:
    if any(one.pads for one in components):
        raise InvalidArgumentError("all shapes must be fully defined; a PaddingFIFOQueue takes shapes with None")
    return components


class FIFOQueue(QueueBase):
    """A bounded queue: first in, first out.

    Parameters
    ----------
    capacity : int
        Elements that it holds at most; negative: without bound.
    dtypes : dtype or list of dtype
        Of the components, as NumPy means the words: numeric dtypes, bool, complex, ``"S10"`` and ``"U10"`` (fixed
        length), ``bytes`` and ``str`` (any length), ``object`` (references).
    shapes : list of tuple, optional
        Of the components; one shape if there is one component. `None`: elements may differ in shape, and can't be taken
        as a batch.
    names : str or list of str, optional
        Of the components: elements are then dicts.
    shared_name : str, optional
        The process has one queue of this name, as long as somebody refers to it.
    name : str, optional
        For messages.

    Raises
    ------
    InvalidArgumentError
        If `capacity` is 0, nothing fits together, or a shared queue of that name is different.

    Notes
    -----
    Single puts and gets move tokens through a lock-free ring; a wait, `dequeue_many` and `enqueue_many` take turns. See
    `QueueBase` for all methods.

    Examples
    --------
    >>> import numpy as np
    >>> import queuecore as qc
    >>> q = qc.FIFOQueue(10, [np.float32, np.int64], [(2,), ()])
    >>> q.enqueue([[1.0, 2.0], 7])
    >>> q.enqueue_many([np.zeros((3, 2)), [1, 2, 3]])
    >>> q.dequeue()
    [array([1., 2.], dtype=float32), np.int64(7)]
    >>> q.close()
    >>> q.dequeue_up_to(10)[1]
    array([1, 2, 3])
    """

    __slots__ = ()
    _kind = "FIFOQueue"

    def __init__(
        self,
        capacity: SupportsIndex,
        dtypes: Any,
        shapes: Any = None,
        names: Any = None,
        shared_name: str | None = None,
        name: str | None = None,
    ) -> None:
        components = _all_fixed(_components(dtypes, shapes))
        super().__init__(capacity, components, names, shared_name=shared_name, name=name, default_name="fifo_queue")


class RandomShuffleQueue(QueueBase):
    """A bounded queue that gives its elements in random order.

    Parameters
    ----------
    capacity : int
        Elements that it holds at most; negative: without bound.
    min_after_dequeue : int
        Elements that stay in while it is open, so that there is something to mix with.
    dtypes, shapes, names, shared_name, name
        As `FIFOQueue`.
    seed : int, optional
        Decides the order, which is TensorFlow's for this seed and `queuecore.set_random_seed`.

    Raises
    ------
    InvalidArgumentError
        As `FIFOQueue`, or if `min_after_dequeue` is negative or not below `capacity`.

    Notes
    -----
    Elements lie in a bag under a short native lock, which is never held across a copy.

    Examples
    --------
    >>> import queuecore as qc
    >>> q = qc.RandomShuffleQueue(10, 0, ["i4"], [()], seed=1)
    >>> q.enqueue_many([range(10)])
    >>> [int(q.dequeue()) for _ in range(10)]
    [7, 8, 1, 3, 9, 4, 2, 6, 5, 0]
    """

    __slots__ = ()
    _kind = "RandomShuffleQueue"

    def __init__(
        self,
        capacity: SupportsIndex,
        min_after_dequeue: SupportsIndex,
        dtypes: Any,
        shapes: Any = None,
        names: Any = None,
        seed: SupportsIndex | _seeds.Pair | None = None,
        shared_name: str | None = None,
        name: str | None = None,
    ) -> None:
        components = _all_fixed(_components(dtypes, shapes))
        least = _check_index(min_after_dequeue, "min_after_dequeue")
        size = _check_index(capacity, "capacity")
        if least < 0 or 0 < size <= least:
            raise InvalidArgumentError(
                f"min_after_dequeue must be from 0 to below the capacity of {size}, not {least}"
                if size > 0
                else f"min_after_dequeue must not be negative: {least}"
            )
        (low, high), _ = _seeds.resolve(seed)
        super().__init__(
            capacity,
            components,
            names,
            min_after_dequeue=least,
            seed=(low, high),
            shared_name=shared_name,
            name=name,
            default_name="random_shuffle_queue",
        )


class PaddingFIFOQueue(QueueBase):
    """A `FIFOQueue` whose batches pad elements of different shapes.

    Parameters
    ----------
    capacity, dtypes, names, shared_name, name
        As `FIFOQueue`.
    shapes : list of tuple
        Of the components; a dimension that is None may differ between elements.

    Raises
    ------
    InvalidArgumentError
        As `FIFOQueue`.

    Notes
    -----
    ``dequeue_many`` and ``dequeue_up_to`` make every dimension that is None as long as the longest in that batch, and
    fill with zeros, empty strings or False. ``dequeue`` gives an element as it was put.

    Examples
    --------
    >>> import queuecore as qc
    >>> q = qc.PaddingFIFOQueue(10, ["i4"], [(None,)])
    >>> q.enqueue([[1]])
    >>> q.enqueue([[2, 3]])
    >>> q.dequeue_many(2)
    array([[1, 0],
           [2, 3]], dtype=int32)
    """

    __slots__ = ()
    _kind = "PaddingFIFOQueue"

    def __init__(
        self,
        capacity: SupportsIndex,
        dtypes: Any,
        shapes: Any,
        names: Any = None,
        shared_name: str | None = None,
        name: str | None = None,
    ) -> None:
        if not isinstance(shapes, (list, tuple)) or any(not isinstance(one, (list, tuple)) for one in shapes):
            raise InvalidArgumentError("a PaddingFIFOQueue needs a list of shapes, one for each component")
        components = _components(dtypes, list(shapes))
        super().__init__(
            capacity, components, names, pad=True, shared_name=shared_name, name=name, default_name="padding_fifo_queue"
        )


class PriorityQueue(QueueBase):
    """A bounded queue that gives the element of the smallest priority first.

    Parameters
    ----------
    capacity : int
        Elements that it holds at most; negative: without bound.
    types : dtype or list of dtype
        Of the components behind the priority, which is component 0: an int64 scalar.
    shapes : list of tuple, optional
        Of the components behind the priority.
    names : list of str, optional
        Of all components, the priority's first.
    shared_name, name
        As `FIFOQueue`.

    Raises
    ------
    InvalidArgumentError
        As `FIFOQueue`.

    Notes
    -----
    Elements of equal priority come in the order in which they were put. ``dequeue_many`` takes nothing before all of
    its elements are there.

    Examples
    --------
    >>> import queuecore as qc
    >>> q = qc.PriorityQueue(10, [str], [()])
    >>> q.enqueue_many([[3, 1, 2], ["c", "a", "b"]])
    >>> q.dequeue()
    [np.int64(1), 'a']
    """

    __slots__ = ()
    _kind = "PriorityQueue"

    def __init__(
        self,
        capacity: SupportsIndex,
        types: Any,
        shapes: Any = None,
        names: Any = None,
        shared_name: str | None = None,
        name: str | None = None,
    ) -> None:
        values = _all_fixed(_components(types, shapes))
        for index, one in enumerate(values):
            one.label = f"component {index + 1}"
        components = [_Component("component 0", np.int64, ()), *values]
        super().__init__(capacity, components, names, shared_name=shared_name, name=name, default_name="priority_queue")
