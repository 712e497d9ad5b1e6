"""Staging areas of a graph: tuples of tensors that wait in a session, in their order or under keys, for a later run."""

from __future__ import annotations

import bisect
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from queuecore._core.atoms.own import own
from queuecore._queues import base, kinds as eager
from queuecore.errors import (
    CancelledError,
    DeadlineExceededError,
    InvalidArgumentError,
    OutOfRangeError,
    ResourceExhaustedError,
)
from queuecore.tf1._graph.graph import Operation, Tensor, get_default_graph, tensor_in
from queuecore.tf1._graph.values import TensorShape, as_dtype, as_shape, int32, int64, name_of

__all__ = ["MapStagingArea", "StagingArea", "StagingAreaBase"]


def _nbytes(values: Sequence[Any]) -> int:
    total = 0
    for value in values:
        array = np.asarray(value, object if isinstance(value, bytes) else None)
        total += sum(map(len, array.ravel().tolist())) if array.dtype == object else array.nbytes
    return total


class _Entries:
    # The contents of an area in one session: for each key the values that are there, by component. One lock guards
    # all. A thread that has to wait hangs up a bell, a native queue of one place, and waits without the lock for an
    # element in it: that wait ends as those of all queues do.

    def __init__(self, area: StagingAreaBase) -> None:
        self.dtypes = area.dtypes
        self._area = area
        self._lock = threading.Lock()
        self._whole: OrderedDict[int, dict[int, Any]] = OrderedDict()
        self._incomplete: dict[int, dict[int, Any]] = {}
        self._sorted: list[int] = []  # the keys of whole ones, if the area is ordered
        self._next = 0  # the key of the next one that is given none
        self._nbytes = 0
        self._takers: list[eager.FIFOQueue] = []
        self._putters: list[eager.FIFOQueue] = []
        self._over = False

    # ---- waits, all under the lock

    def _wait(self, run: Any, bells: list[eager.FIFOQueue], ready: Callable[[], Any]) -> Any:
        # Returns the first result of `ready` that isn't None.
        name = self._area.name
        while (result := ready()) is None:
            if self._over:
                raise CancelledError(f"the wait for the staging area {name!r} was cancelled: the session was closed")
            bell = eager.FIFOQueue(1, [np.bool_], [()], name=base.Settled(name))
            bells.append(bell)
            self._lock.release()
            try:
                bell.dequeue(timeout=run.left())
            except OutOfRangeError:
                pass  # the session ends
            except DeadlineExceededError as error:
                raise DeadlineExceededError(
                    f"the run's time was over while it waited for the staging area {name!r}"
                ) from error
            finally:
                self._lock.acquire()
                if bell in bells:
                    bells.remove(bell)
        return result

    @staticmethod
    def _ring(bells: list[eager.FIFOQueue]) -> None:
        for bell in bells:
            bell.enqueue(True)
        bells.clear()

    # ---- putting

    def put(self, run: Any, key: int | None, indices: Sequence[int], values: Sequence[Any]) -> None:
        size, limit = _nbytes(values), self._area.memory_limit
        if 0 < limit < size:
            raise ResourceExhaustedError(
                f"Attempted to insert tensors with combined size of '{size}' bytes into Staging Area with a memory "
                f"limit of '{limit}'."
            )
        is_whole = len(indices) == len(self.dtypes)
        capacity = self._area.capacity

        def has_room() -> bool | None:
            # A tuple that becomes whole part by part needs no room among the whole ones, as in TensorFlow.
            full = is_whole and 0 < capacity <= len(self._whole)
            return None if full or 0 < limit < self._nbytes + size else True

        with self._lock:
            self._wait(run, self._putters, has_room)
            if key is None:
                key, self._next = self._next, self._next + 1
            self._insert(key, dict(zip(indices, values, strict=True)))
            self._nbytes += size

    def _insert(self, key: int, values: dict[int, Any]) -> None:
        present = self._incomplete.get(key, {}) if len(values) < len(self.dtypes) else {}
        becomes_whole = len(present) + len(values) == len(self.dtypes)
        for index in values:
            if index in present or becomes_whole and key in self._whole:
                raise InvalidArgumentError(f"The tensor for index '{index}' for key '{key}' was already initialized")
        values = present | values
        if not becomes_whole:
            self._incomplete[key] = values
            return
        if present:
            del self._incomplete[key]
        self._whole[key] = values
        if self._area.ordered:
            bisect.insort(self._sorted, key)
        self._ring(self._takers)

    # ---- taking

    def first(self) -> int | None:
        if self._area.ordered:
            return self._sorted[0] if self._sorted else None
        return next(iter(self._whole), None)

    def at(self, index: int) -> int | None:
        # Keys that nobody gave follow each other.
        return index + next(iter(self._whole)) if index < len(self._whole) else None

    def under(self, key: int) -> int | None:
        return key if key in self._whole else None

    def take(self, run: Any, find: Callable[[], int | None], indices: Sequence[int], keep: bool) -> Any:
        with self._lock:
            key = self._wait(run, self._takers, find)
            values = self._whole[key]
            for index in indices:
                if index not in values:
                    raise InvalidArgumentError(f"Tensor at index '{index}' for key '{key}' has already been removed.")
            if keep:
                return key, [values[index] for index in indices]
            tensors = [values.pop(index) for index in indices]
            if not values:
                del self._whole[key]
                if self._area.ordered:
                    del self._sorted[bisect.bisect_left(self._sorted, key)]
            self._nbytes -= _nbytes(tensors)
            self._ring(self._putters)
        return key, tensors

    # ---- the rest

    def sizes(self) -> tuple[int, int]:
        with self._lock:
            return len(self._whole), len(self._incomplete)

    def clear(self) -> None:
        with self._lock:
            self._whole.clear()
            self._incomplete.clear()
            self._sorted.clear()
            self._nbytes = 0
            self._ring(self._putters)

    def _end(self) -> None:
        with self._lock:
            self._over = True
            for bell in [*self._takers, *self._putters]:
                bell.close()


class StagingAreaBase:
    """The base class of staging areas. Make a `StagingArea` or a `MapStagingArea`, not this one.

    Parameters
    ----------
    dtypes : list of dtype
        Of the components of an element.
    shapes : list of shapes, optional
        Of the components. Default: any.
    names : list of str, optional
        Of the components: elements are dicts then.
    shared_name : str, optional
        Areas of one kind and one session with the same one are one area, with the first one's capacity and limit.
    capacity : int, default 0
        Elements that it holds; 0: any number.
    memory_limit : int, default 0
        Bytes that its elements have together; 0: any number.

    Attributes
    ----------
    name : str
        The shared name; without one, a unique name in the graph.
    dtypes, shapes, names, capacity, memory_limit
        As above.

    Raises
    ------
    ValueError
        If there are not as many shapes or names as dtypes, or `shared_name` is no string.

    Notes
    -----
    Each session has its own contents. Arrays are copied when they are put, unless nobody can change them, and not when
    they are taken. A `put` without room and a `get` or `peek` without an element wait, as the operations of queues do:
    without the GIL, until the session is closed or the run's time is over.
    """

    ordered = False

    def __init__(
        self, dtypes: Any, shapes: Any = None, names: Any = None, shared_name: str | None = None, capacity: int = 0,
        memory_limit: int = 0,
    ) -> None:  # fmt: skip
        kind = type(self).__name__
        if shared_name is not None and not isinstance(shared_name, str):
            raise ValueError("shared_name must be a string")
        self.name = get_default_graph().unique_name(kind) if shared_name is None else shared_name
        self.dtypes = [as_dtype(dtype) for dtype in (dtypes if isinstance(dtypes, (list, tuple)) else [dtypes])]
        for what, items in (("shapes", shapes), ("names", names)):
            if items is not None and len(items) != len(self.dtypes):
                raise ValueError(f"StagingArea {what} must be the same length as dtypes")
        self.shapes = [as_shape(shape) for shape in (shapes or [None] * len(self.dtypes))]
        self.names = None if names is None else list(names)
        self.capacity = int(capacity)
        self.memory_limit = int(memory_limit)

    def _entries(self, run: Any) -> _Entries:
        key = ("staging", type(self).__name__, self.ordered, self.name)
        entries: _Entries = run.session.resource(key, lambda: _Entries(self))
        if entries.dtypes != self.dtypes:
            there, here = (", ".join(map(name_of, dtypes)) for dtypes in (entries.dtypes, self.dtypes))
            raise InvalidArgumentError(
                f"Mismatch stage/unstage: {len(entries.dtypes)} vs. {len(self.dtypes)}: the staging area "
                f"{self.name!r} has components of {there}, and {here} were asked for"
            )
        return entries

    # ---- arguments

    def _checked(self, values: Any, indices: Sequence[int] | None) -> tuple[list[Tensor], list[int]]:
        # The tensors of some components, and the places of these.
        if isinstance(values, Mapping):
            if self.names is None:
                raise ValueError("Staging areas must have names to enqueue a dictionary")
            if not set(values) <= set(self.names):
                raise ValueError(
                    "Keys in dictionary to put do not match names of staging area. "
                    f"Dictionary: ({sorted(values)}), Queue: ({sorted(self.names)})"
                )
            places = [index for index, name in enumerate(self.names) if name in values]
            parts = [values[self.names[index]] for index in places]
        else:
            if self.names is not None:
                raise ValueError("You must enqueue a dictionary in a staging area with names")
            parts = list(values) if isinstance(values, (list, tuple)) else [values]
            if indices is None and isinstance(values, (list, tuple)):
                raise ValueError("Indices must be supplied when inserting a list of tensors")
            places = [0] if indices is None else list(indices)
            if len(places) != len(parts):
                raise ValueError(f"Number of indices '{len(places)}' doesn't match number of values '{len(parts)}'")
        self._check_places(places)
        return [self._tensor(part, index) for part, index in zip(parts, places, strict=True)], places

    def _check_places(self, places: Sequence[int]) -> None:
        for before, index in zip([-1, *places], places, strict=False):
            if not 0 <= index < len(self.dtypes):
                raise InvalidArgumentError(f"Index '{index}' was out of bounds '{len(self.dtypes)}'.")
            if index <= before:
                raise InvalidArgumentError(f"Indices are not strictly ordered: {list(places)}")

    def _tensor(self, part: Any, index: int) -> Tensor:
        dtype = self.dtypes[index]
        if (isinstance(part, Tensor) or hasattr(part, "_as_graph_element")) and part.dtype != dtype:
            raise ValueError(f"Datatypes do not match. '{name_of(part.dtype)}' != '{name_of(dtype)}'")
        tensor = tensor_in(get_default_graph(), part, dtype, f"component_{index}")
        tensor.shape.assert_is_compatible_with(self.shapes[index])
        return tensor

    # ---- operations

    def _putting(self, type_: str, key: Any, values: Any, indices: Any, name: str | None) -> Operation:
        graph = get_default_graph()
        with graph.name_scope(name or f"{self.name}_put") as scope:
            tensors, places = self._checked(values, indices)
            keys = [] if key is None else [_key(key)]

            def kernel(run: Any, *inputs: Any) -> None:
                parts = own(inputs[len(keys) :], fixed=True)
                self._entries(run).put(run, _scalar(inputs[0]) if keys else None, places, parts)

            return graph.create_op(type_, [*keys, *tensors], [], kernel, scope, blocking=True)

    def _taking(
        self, type_: str, inputs: list[Tensor], places: Sequence[int], take: Callable[..., Any], name: str,
        leading_outputs: Sequence[tuple[Any, Any]] = (),
    ) -> Any:  # fmt: skip
        # `take` gets the entries, the run and the values of the inputs; `leading_outputs` come before the components.
        outputs = [*leading_outputs, *((self.dtypes[index], self.shapes[index]) for index in places)]

        def kernel(run: Any, *values: Any) -> Any:
            key, taken = take(self._entries(run), run, *values)
            taken = [np.int64(key), *taken] if leading_outputs else taken
            return taken if len(outputs) > 1 else taken[0]

        op = get_default_graph().create_op(type_, inputs, outputs, kernel, name, blocking=True)
        tensors: Any = op.outputs[len(leading_outputs) :]
        if self.names is not None:
            tensors = {self.names[index]: tensor for index, tensor in zip(places, tensors, strict=True)}
        return (op.outputs[0], tensors) if leading_outputs else tensors

    def _looking(self, type_: str, which: int, name: str) -> Tensor:
        def kernel(run: Any) -> Any:
            return np.int32(self._entries(run).sizes()[which])

        return get_default_graph().create_op(type_, [], [(int32, ())], kernel, name).outputs[0]

    def _clearing(self, type_: str, name: str | None) -> Operation:
        def kernel(run: Any) -> None:
            self._entries(run).clear()

        return get_default_graph().create_op(type_, [], [], kernel, name or f"{self.name}_clear")


def _key(value: Any) -> Tensor:
    return tensor_in(get_default_graph(), value, int64, "key")


def _scalar(key: Any) -> int:
    if np.ndim(key):
        raise InvalidArgumentError(f"key must be an int64 scalar, and has the shape {np.shape(key)}")
    return int(key)


class StagingArea(StagingAreaBase):
    """A place where elements wait for the next run, in the order in which they were put.

    Parameters
    ----------
    dtypes, shapes, names, shared_name, capacity, memory_limit
        As of `StagingAreaBase`.

    Examples
    --------
    >>> import queuecore.tf1 as tf
    >>> area = tf.contrib.staging.StagingArea([tf.int32, tf.string], names=["number", "text"])
    >>> put = area.put({"number": 7, "text": "seven"})
    >>> get = area.get()
    >>> with tf.Session() as sess:
    ...     sess.run(put)  # once before the loop, and then in each step beside `get`
    ...     taken, _ = sess.run([get, put])
    >>> taken
    {'number': np.int32(7), 'text': b'seven'}
    """

    def put(self, values: Any, name: str | None = None) -> Operation:
        """Return an operation that puts an element behind the others, and waits for room.

        Parameters
        ----------
        values : Tensor, list, tuple or dict
            The only component; all of them; or, of an area with names, by name.
        name : str, optional

        Raises
        ------
        ValueError
            If they are not the components of an element, by number, type or shape.
        """
        count = len(values) if isinstance(values, (list, tuple, Mapping)) else 1
        if count != len(self.dtypes):
            raise ValueError(f"Unexpected number of inputs '{count}' vs '{len(self.dtypes)}'")
        return self._putting("Stage", None, values, range(count), name)

    def get(self, name: str | None = None) -> Any:
        """Return the components of the first element, which the run takes; it waits for one.

        Returns
        -------
        list of Tensor, or dict
            By name, if the area has names.
        """
        places = range(len(self.dtypes))
        return self._taking(
            "Unstage",
            [],
            places,
            lambda entries, run: entries.take(run, entries.first, places, False),
            name or f"{self.name}_get",
        )

    def peek(self, index: Any, name: str | None = None) -> Any:
        """Return the components of an element that stays there; the run waits until there are so many.

        Parameters
        ----------
        index : int or Tensor of int32
            Its place behind the first one, 0. A run with another shape, or a number below 0, is an
            `InvalidArgumentError`.
        name : str, optional
        """
        places = range(len(self.dtypes))

        def take(entries: _Entries, run: Any, place: Any) -> Any:
            if np.ndim(place) or place < 0:
                raise InvalidArgumentError(f"index must be scalar, and not below 0: it is {place}")
            return entries.take(run, lambda: entries.at(int(place)), places, True)

        number = tensor_in(get_default_graph(), index, int32, "index")
        return self._taking("StagePeek", [number], places, take, name or f"{self.name}_peek")

    def size(self, name: str | None = None) -> Tensor:
        """Return how many elements are in it, as an int32."""
        return self._looking("StageSize", 0, name or f"{self.name}_size")

    def clear(self, name: str | None = None) -> Operation:
        """Return an operation that drops all elements."""
        return self._clearing("StageClear", name)


class MapStagingArea(StagingAreaBase):
    """A place where elements wait under keys, until a run takes them.

    Elements may be put part by part: one that lacks components can't be taken. They may also be taken part by part: an
    element is gone with its last component.

    Parameters
    ----------
    dtypes, shapes, names, shared_name, capacity, memory_limit
        As of `StagingAreaBase`. Elements that lack components count for `memory_limit`, but not for `capacity`.
    ordered : bool, default False
        Whether `get` without a key takes the element of the smallest key, not the one that was complete first.

    Notes
    -----
    A component that is there already, under a key, is an `InvalidArgumentError` of the run that puts it again.
    """

    def __init__(
        self, dtypes: Any, shapes: Any = None, names: Any = None, shared_name: str | None = None, ordered: bool = False,
        capacity: int = 0, memory_limit: int = 0,
    ) -> None:  # fmt: skip
        super().__init__(dtypes, shapes, names, shared_name, capacity, memory_limit)
        self.ordered = bool(ordered)

    def _type(self, type_: str) -> str:
        return f"Ordered{type_}" if self.ordered else type_

    def _places(self, indices: Any) -> list[int]:
        if indices is None:
            return list(range(len(self.dtypes)))
        if not isinstance(indices, (tuple, list)):
            raise TypeError(f"Invalid indices type '{type(indices)}'")
        if not indices:
            raise ValueError("Empty indices")
        if all(isinstance(index, str) for index in indices):
            if self.names is None:
                raise ValueError(
                    f"String indices provided '{indices}', but this Staging Area was not created with names."
                )
            unknown = [name for name in indices if name not in self.names]
            if unknown:
                raise ValueError(f"Named index '{unknown[0]}' not in Staging Area names '{self.names}'")
            places = [self.names.index(name) for name in indices]
        elif all(isinstance(index, (int, np.integer)) for index in indices):
            places = [int(index) for index in indices]
        else:
            raise TypeError(f"Mixed types in indices '{indices}'. May only be str or int")
        self._check_places(places)
        return places

    def put(self, key: Any, vals: Any, indices: Sequence[int] | None = None, name: str | None = None) -> Operation:
        """Return an operation that puts components of an element under a key, and waits for room.

        Parameters
        ----------
        key : int or Tensor of int64
            A scalar.
        vals : Tensor, list, tuple or dict
            Some components, or all: by name, if the area has names.
        indices : list of int, optional
            Which components those of a list are, in rising order.
        name : str, optional

        Raises
        ------
        ValueError
            If they are not such components, or `indices` are missing.
        """
        return self._putting(self._type("MapStage"), key, vals, indices, name)

    def peek(self, key: Any, indices: Any = None, name: str | None = None) -> Any:
        """Return components of the element under a key, which stays there; the run waits until it is complete.

        Parameters
        ----------
        key : int or Tensor of int64
        indices : list of int or of str, optional
            Which components, in rising order. Default: all.
        name : str, optional

        Returns
        -------
        list of Tensor, or dict
        """
        return self._under("MapPeek", key, indices, True, name or f"{self.name}_pop")

    def get(self, key: Any = None, indices: Any = None, name: str | None = None) -> tuple[Any, Any]:
        """Return a key and components of its element, which the run takes; it waits until one is complete.

        Parameters
        ----------
        key : int or Tensor of int64, optional
            Default: any; of an ordered area the smallest.
        indices : list of int or of str, optional
            Which components, in rising order; the others stay. Default: all. A run raises `InvalidArgumentError` if
            one of them was taken before.
        name : str, optional

        Returns
        -------
        tuple
            `key` as it was given, or a tensor of int64; and a list of tensors, or a dict.
        """
        if key is not None:
            return key, self._under("MapUnstage", key, indices, False, name or f"{self.name}_get")
        places = self._places(indices)
        result: tuple[Any, Any] = self._taking(
            self._type("MapUnstageNoKey"),
            [],
            places,
            lambda entries, run: entries.take(run, entries.first, places, False),
            name or f"{self.name}_get_nokey",
            [(int64, TensorShape(()))],
        )
        return result

    def _under(self, type_: str, key: Any, indices: Any, keep: bool, name: str) -> Any:
        places = self._places(indices)

        def take(entries: _Entries, run: Any, value: Any) -> Any:
            number = _scalar(value)
            return entries.take(run, lambda: entries.under(number), places, keep)

        return self._taking(self._type(type_), [_key(key)], places, take, name)

    def size(self, name: str | None = None) -> Tensor:
        """Return how many complete elements are in it, as an int32."""
        return self._looking(self._type("MapSize"), 0, name or f"{self.name}_size")

    def incomplete_size(self, name: str | None = None) -> Tensor:
        """Return how many elements lack components, as an int32."""
        return self._looking(self._type("MapIncompleteSize"), 1, name or f"{self.name}_incomplete_size")

    def clear(self, name: str | None = None) -> Operation:
        """Return an operation that drops all elements, also those that lack components."""
        return self._clearing(self._type("MapClear"), name)
