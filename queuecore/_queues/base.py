"""The base class of queues: elements of typed components, handed over between threads."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Literal, SupportsIndex

import numpy as np

from queuecore._checks.checks import check_index
from queuecore._core.handoff.queues import FIFO, NativeQueue
from queuecore._core.handoff.slots import ARRAY, BYTES, OBJECT, STR, QueueDescription, SlotComponent
from queuecore._device.dequeued import Dequeued, device_queue
from queuecore._elements.component import shape_text
from queuecore._elements.convert import Converter, Shape
from queuecore.errors import DtypeError, InvalidArgumentError, OutOfRangeError

if TYPE_CHECKING:
    from queuecore._core.handoff.queues import Lease, Reservation

__all__ = ["QueueBase", "Settled", "check_alike"]


_lock = threading.Lock()
_made: dict[str, int] = {}
_shared: weakref.WeakValueDictionary[str, NativeQueue] = weakref.WeakValueDictionary()


# What a component of no fixed size holds, by the kind of its dtype.
_HOLDS = {"S": BYTES, "U": STR}


class Settled(str):
    """A name that needs no number: its giver knows that it is the only one."""

    __slots__ = ()


def _as_list(value: Any) -> list[Any]:
    return list(value) if isinstance(value, (list, tuple)) else [value]


def _native_component(one: Converter) -> SlotComponent:
    shape = None if one.shape is None else tuple(-1 if side is None else side for side in one.shape)
    holds = _HOLDS.get(one.dtype.kind, OBJECT) if one.reference else ARRAY
    return SlotComponent(one.dtype, shape, holds, one.convert)


class QueueBase:
    """The base class of all queues. Make one of a kind, such as `FIFOQueue`, not this one.

    An element is a tuple of components; component i has dtype ``dtypes[i]`` and, if `shapes` were given, shape
    ``shapes[i]``. Values go in as NumPy arrays or objects that `numpy.asarray` takes, and come out as new arrays
    (scalars for components of no dimensions): a single component as it is, several as a list, with `names` as a dict.

    Parameters
    ----------
    capacity : int
        The number of elements that the queue holds before an enqueue waits; negative: no bound.
    components : list of Converter
        The dtype, and the shape if it is given, of each component.
    names : sequence of str or None
        A name for each component: then elements are dicts.
    min_after_dequeue : int, default 0
        For a shuffle: the number of elements that a dequeue leaves in the queue while it is open.
    seed : tuple of int, default (0, 0)
        For a shuffle: its pair of seeds.
    pad : bool, default False
        Whether batches pad sides that are None to the longest of the batch.
    shared_name : str, optional
        A name under which queues of the process share one native queue.
    name : str, optional
        The name in messages; numbered if another queue has it.
    default_name : str
        The name if neither `name` nor `shared_name` is given.

    Raises
    ------
    InvalidArgumentError
        If `capacity` is 0, or a queue of this `shared_name` is described otherwise.

    Notes
    -----
    Every call may come from any thread. Calls that can wait take ``timeout`` in seconds (0: try; None: no limit), wait
    without the GIL, and notice Ctrl-C; when time runs out they raise `DeadlineExceededError`, and no element is taken
    or lost. Waiting calls are served in the order in which they came, as in TensorFlow: one ``dequeue_many`` that waits
    for many elements holds up the calls behind it, and rows of one ``enqueue_many`` are never mixed with others.

    Differences from TensorFlow: a capacity of 0 and too many components are errors; ``close()`` of a closed queue is
    no error; a failed producer's error is the ``__cause__`` of the error that consumers get.

    Queues can't be used in a forked child (`ForkedPipelineError`).
    """

    __slots__ = ("__weakref__", "_components", "_native")

    _components: list[Converter]
    _native: NativeQueue

    def __init__(
        self,
        capacity: SupportsIndex,
        components: list[Converter],
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
        size = check_index(capacity, "capacity")
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
            [(str(component.dtype), component.shape) for component in components],
            labels,
        )
        with _lock:
            found = None if shared_name is None else _shared.get(shared_name)
            if found is not None:
                _check_shared(str(shared_name), found.described, described)
                self._native = found
                return
            if shared_name is None:
                native_name = default_name if name is None else str(name)
                if not isinstance(name, Settled):
                    count = _made.get(native_name, 0)
                    _made[native_name] = count + 1
                    native_name = native_name if count == 0 else f"{native_name}_{count}"
            else:
                native_name = shared_name
            native = [_native_component(component) for component in components]
            description = QueueDescription(kind, native_name, type(self)._store, size, native)
            description.min_after_dequeue = min_after_dequeue
            description.names = labels
            description.pad = pad
            description.seeds = seed
            self._native = NativeQueue(description)
            self._native.described = described
            if shared_name is not None:
                _shared[shared_name] = self._native

    _kind = "QueueBase"
    _store = FIFO

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

    def reserve(self, n: SupportsIndex, *, timeout: float | None = None, clear: bool = True) -> Reservation:
        """Get room for `n` elements, to be filled where they will lie.

        Parameters
        ----------
        n : int
            How many, at least 1.
        timeout : float, optional
            Seconds that the end of the ``with`` block waits for room in the queue at most.
        clear : bool, default True
            Whether the arrays begin as zeros (of strings: empty ones), so that a row that nobody fills shows nothing.
            If not, they hold anything, also what earlier elements were: for those who fill all of it, and save the
            time, about 12 us for 512 KiB.

        Returns
        -------
        Reservation
            A context manager that gives a list of arrays (with names: a dict) of shape ``(n, *shape)``. The elements
            are put when the block ends, as by `enqueue_many`, and given up if it ends in an exception; the list is
            empty then. Without a block: ``rows``, ``commit(timeout=None)`` and ``cancel()``. A forgotten one is given
            up.

        Raises
        ------
        InvalidArgumentError
            If the queue's components are not all of fixed shape and size, or `n` is not from 1 to 2**24 - 1.

        Notes
        -----
        Doesn't wait. The arrays may have strides. Nothing is copied, unless the free places don't lie side by side, or
        somebody still has one of the arrays, or a view of one, when the elements are put: these go in as copies then,
        and the kept array is its keeper's own (``stats()["copied_rows"]`` counts). A name that is bound to an array, as
        by ``as [rows]``, keeps it; one that is bound to the list doesn't.

        Examples
        --------
        >>> import queuecore as qc
        >>> q = qc.FIFOQueue(4, ["i4"], [(2,)])
        >>> with q.reserve(3) as rows:
        ...     rows[0][:] = [[1, 2], [3, 4], [5, 6]]
        >>> q.size()
        3
        """
        return self._native.reserve(check_index(n, "n"), timeout, clear)

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
            As in `dequeue_many`; any number is good. Of `out`, the beginning is filled, and views of that are returned.

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
            A context manager that gives a list of arrays (with names: a dict) of shape ``(n, *shape)``. The lease is
            over when the block has ended, or without a block after ``release()``, and nobody has one of the arrays, or
            a view of one, any more. Until then they stay as they are.

        Raises
        ------
        OutOfRangeError, InvalidArgumentError, DeadlineExceededError
            As `dequeue_many`.

        Notes
        -----
        Leased elements don't count against the capacity: kept arrays keep the memory of all `n` elements, and
        others get fresh memory (``stats()["held_rows"]`` counts). Elements that don't lie side by side are copied
        (``stats()["copied_rows"]`` counts).
        """
        return self._native.lease(check_index(n, "n"), timeout)

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

    def stats(self) -> dict[str, Any]:
        """Return counters.

        Returns
        -------
        dict
            ``size`` and ``high_water`` (elements now, and at most so far), ``enqueued``, ``dequeued``,
            ``waiting_enqueues`` and ``waiting_dequeues`` (calls that wait now), ``blocked_enqueue_ns`` and
            ``blocked_dequeue_ns`` (time waited on each side, of calls that are over), ``copied_rows`` (rows that
            `reserve` or `lease` had to copy), ``held_rows`` (rows in memory that `reserve` or `lease` gave out, and
            that is not free or the queue's again). ``depths``: a list that says, of one of 8 calls that took elements,
            how often the queue then held no element, 1, 2 to 3, 4 to 7, and so on: mostly zeros at its end mean that
            the consumer waits for the producer.
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
        at = check_index(index, "index")
        if not 0 <= at < len(queues):
            raise InvalidArgumentError(f"index must be from 0 to {len(queues) - 1}, not {at}")
        return queues[at]

    # ---- inside ------------------------------------------------------------------------------------------------------

    def _fail(self, error: BaseException) -> None:
        """Close it at once, because what fills it failed; consumers get this error as ``__cause__``."""
        self._native.fail(error)

    def _take_many(self, n: SupportsIndex, up_to: bool, timeout: float | None, out: Any) -> Any:
        count = check_index(n, "n")
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
        for component, array in zip(self._components, arrays, strict=True):
            if component.shape is None or component.pads:
                raise InvalidArgumentError(f"out: {component.label} has no fixed shape")
            dtype = np.dtype(object) if component.reference else component.dtype
            shape = component.shape if n is None else (n, *component.shape)
            if (
                not isinstance(array, np.ndarray)
                or array.dtype != dtype
                or array.shape != shape
                or not (array.flags.c_contiguous and array.flags.writeable)
            ):
                there = type(array).__name__
                if isinstance(array, np.ndarray):
                    there = f"{array.dtype} {shape_text(array.shape)}"
                wanted = f"{dtype} {shape_text(shape)}"
                raise InvalidArgumentError(
                    f"out: {component.label}: expected a writeable C-contiguous array of {wanted}, got {there}"
                )
        return arrays


def check_alike(name: str, there: QueueBase, here: QueueBase) -> None:
    """Raise `InvalidArgumentError` if a queue isn't like the shared one of its name."""
    _check_shared(name, there._native.described, here._native.described)


def _check_shared(name: str, there: tuple[Any, ...], here: tuple[Any, ...]) -> None:
    for what, old, new in zip(
        ("kind", "capacity", "min_after_dequeue", "components", "names"), there, here, strict=True
    ):
        if old != new:
            raise InvalidArgumentError(f"the shared queue {name!r} has {what} {old}, but {new} was asked for")
