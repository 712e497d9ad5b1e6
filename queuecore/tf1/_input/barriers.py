"""Barriers of a graph: elements that are put part by part, under keys, and taken in batches when they are complete."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from queuecore._core.atoms.own import own
from queuecore._queues import base, kinds as eager
from queuecore.errors import CancelledError, InvalidArgumentError, OutOfRangeError, QueueCoreError
from queuecore.tf1._graph.graph import Operation, Tensor, constant_value, get_default_graph, tensor_in
from queuecore.tf1._graph.texts import retell
from queuecore.tf1._graph.values import TensorShape, as_dtype, as_shape, int32, int64, name_of, string

__all__ = ["Barrier", "BarrierTakeMany"]

_FIRST = -(2**63)
_NEGATIVE = (r"must not be negative: (-\d+)", r"DequeueManyOp requested \1 < 0 elements")


class BarrierTakeMany(NamedTuple):
    """A batch of elements, as `Barrier.take_many` returns it.

    Attributes
    ----------
    indices : Tensor
        The numbers of the insertions that were the first of each element, from -2**63 on.
    keys : Tensor
        The elements' keys.
    values : list of Tensor
        The components.
    """

    indices: Tensor
    keys: Tensor
    values: list[Tensor]


class _Contents:
    # A barrier of one session: a native queue of the elements that are complete, by the number of their first
    # insertion; and the parts of the others, under a lock.

    def __init__(self, barrier: Barrier, name: str) -> None:
        self.name = name
        self.types = barrier.types
        self.shapes = barrier.shapes
        self.ready = eager.PriorityQueue(
            -1,
            [bytes, *(bytes if dtype == string else dtype for dtype in self.types)],
            [(), *(shape.sides for shape in self.shapes)],
            name=base.Settled(name),
        )
        self._lock = threading.Lock()
        self._incomplete: dict[bytes, tuple[int, dict[int, Any]]] = {}
        self._number = _FIRST
        self._is_closed = self._is_cancelled = False

    def insert(self, index: int, keys: Sequence[bytes], values: Any) -> None:
        with self._lock:
            self._check_open(len(keys))
            changed: dict[bytes, Any] = {}  # None: it is complete, and leaves
            complete_elements = []
            is_new = False
            for position, key in enumerate(keys):
                present = changed[key] if key in changed else self._incomplete.get(key)
                if present is None:
                    if self._is_closed:
                        raise self._closed(f"attempted to insert a brand new key: {key!r}, insertion index: {position}")
                    present, is_new = (self._number, {}), True
                number, parts = present
                if index in parts:
                    raise InvalidArgumentError(
                        f"Key {key.decode(errors='backslashreplace')} already has a value for component {index} in "
                        f"barrier {self.name}"
                    )
                parts = parts | {index: values[position]}
                changed[key] = (number, parts) if len(parts) < len(self.types) else None
                if changed[key] is None:
                    complete_elements.append([number, key, *(parts[place] for place in range(len(parts)))])
            # Nothing has changed so far, so that an insertion that fails leaves nothing behind.
            for element in complete_elements:
                self.ready.enqueue(element)
            for key, present in changed.items():
                if present is None:
                    self._incomplete.pop(key, None)
                else:
                    self._incomplete[key] = present
            self._number += is_new
            if self._is_closed and not self._incomplete:
                self.ready.close()

    def _check_open(self, count: int) -> None:
        if self._is_closed and (self._is_cancelled or count and not self._incomplete):
            raise self._closed(f"number of new insertions: {count}")

    def _closed(self, told: str) -> CancelledError:
        return CancelledError(
            f"Barrier {self.name} is closed: {told}. Pending enqueues cancelled: {self._is_cancelled}. Number of "
            f"incomplete keys: {len(self._incomplete)}."
        )

    def take(self, count: int, small: bool, timeout: float | None) -> Any:
        with self._lock:
            if self._is_closed:
                total = self.ready.size()
                if small:
                    count = min(count, total)
                else:
                    total += len(self._incomplete)
                if total < max(count, 1):
                    raise OutOfRangeError(
                        f"Barrier '{self.name}' is closed and has insufficient elements (requested {count}, total size "
                        f"{total})"
                    )
        # A batch that waits is a smaller one when the last complete elements are there.
        take = self.ready.dequeue_up_to if small else self.ready.dequeue_many
        return take(count, timeout=timeout)

    def close(self, cancel: bool) -> None:
        with self._lock:
            if self._is_closed and (self._is_cancelled or not cancel):
                raise CancelledError(f"Barrier '{self.name}' is already closed.")
            self._is_closed, self._is_cancelled = True, cancel
            if cancel:
                self._incomplete.clear()
            if not self._incomplete:
                self.ready.close(cancel_pending_enqueues=cancel)

    def incomplete_size(self) -> int:
        with self._lock:
            return len(self._incomplete)

    def _end(self) -> None:
        with contextlib.suppress(QueueCoreError):
            self.ready.close(cancel_pending_enqueues=True)


class Barrier:
    """Elements that are put part by part, under keys, and taken in batches when they are complete.

    Elements come in the order of the insertions of their first parts; elements that were begun by one insertion in any.

    Parameters
    ----------
    types : dtype or list of dtype
        Of the components.
    shapes : shape or list of shapes, optional
        Of the components, fully defined. Without them runs take only scalars, as TensorFlow's do.
    shared_name : str, optional
        Barriers of one session with the same one are one barrier.
    name : str, default "barrier"

    Attributes
    ----------
    barrier_ref : Tensor
        The tensor that stands for the barrier.
    name : str
    types : list of dtype
    shapes : list of TensorShape

    Raises
    ------
    ValueError
        If a shape isn't fully defined, or has no elements, or there are not as many as types.

    Notes
    -----
    It has room for any number of elements. Taking waits as dequeuing does: without the GIL, until the session is closed
    or the run's time is over, and no element is lost. Unlike TensorFlow's, an insertion that fails changes nothing, and
    `take_many` has a time limit.
    """

    def __init__(self, types: Any, shapes: Any = None, shared_name: str | None = None, name: str = "barrier") -> None:
        self.types = [as_dtype(dtype) for dtype in (types if isinstance(types, (list, tuple)) else [types])]
        self._is_shaped = shapes is not None
        self.shapes = [TensorShape(())] * len(self.types) if shapes is None else _shapes(shapes, len(self.types))
        self._shared = shared_name or None
        op = get_default_graph().create_op("Barrier", [], [(string, ())], self._contents, name)
        self.barrier_ref = op.outputs[0]

    @property
    def name(self) -> str:
        """Its operation's name."""
        return self.barrier_ref.op.name

    def _contents(self, run: Any) -> _Contents:
        session, shared = run.session, self._shared
        contents: _Contents
        if shared is None:
            contents = session.resource(self, lambda: _Contents(self, self.name))
            return contents
        contents = session.resource(("barrier", shared), lambda: _Contents(self, shared))
        for subject, shared_words, requested_words in (
            ("types", [*map(name_of, contents.types)], [*map(name_of, self.types)]),
            ("shapes", [*map(str, contents.shapes)], [*map(str, self.shapes)]),
        ):
            if shared_words != requested_words:
                raise InvalidArgumentError(
                    f"Shared barrier '{shared}' has component {subject} [{', '.join(shared_words)}] "
                    f"but requested component {subject} were [{', '.join(requested_words)}]"
                )
        return contents

    def _operation(
        self, type_: str, inputs: Sequence[Tensor], outputs: Any, kernel: Any, name: str | None, blocking: bool = False
    ) -> Operation:
        # The kernel gets the contents, the run and the values.
        def guarded(run: Any, *values: Any) -> Any:
            try:
                return kernel(self._contents(run), run, *values)
            except QueueCoreError as error:
                if run.session._closed and not isinstance(error, CancelledError):
                    raise CancelledError(f"{type_} was cancelled: the session was closed while it waited") from error
                retell(error, _NEGATIVE)
                raise

        label = self.name.rpartition("/")[2]
        op: Operation = self.barrier_ref.graph.create_op(
            type_, inputs, outputs, guarded, name or f"{label}_{type_}", blocking=blocking
        )
        op.attributes["handle"] = [self.barrier_ref]
        return op

    def insert_many(self, component_index: int, keys: Any, values: Any, name: str | None = None) -> Operation:
        """Return an operation that gives elements one of their components.

        Parameters
        ----------
        component_index : int
        keys : Tensor of string
            A vector of the elements' keys.
        values : Tensor
            A row for each key.
        name : str, optional

        Raises
        ------
        ValueError
            If types or shapes don't fit, or there is no such component (`InvalidArgumentError`).

        Notes
        -----
        A run raises `InvalidArgumentError` if an element has that component already, or a value has no elements, and
        `CancelledError` if the barrier is closed and a key is new, or the barrier was closed with
        `cancel_pending_enqueues`.
        """
        index = int(component_index)
        if not 0 <= index < len(self.types):
            raise InvalidArgumentError(
                f"The component ID is out of range {index} > num_components (= {len(self.types)})"
            )
        graph, shape = self.barrier_ref.graph, self.shapes[index]
        names = tensor_in(graph, keys, string, "keys")
        rows = tensor_in(graph, values, self.types[index], "values")
        count = names.shape.ranked(1)
        if rows.shape.ranked(1, least=True).sides is not None:
            count.merge_with(rows.shape[:1])
            if self._is_shaped:
                rows.shape[1:].assert_is_compatible_with(shape)

        def kernel(contents: _Contents, run: Any, names: Any, rows: Any) -> None:
            del run
            sides = np.shape(rows)
            if np.size(names) and not np.size(rows):
                raise InvalidArgumentError(
                    f"Tensors with no elements are not supported {contents.name}: received shape {list(sides)}"
                )
            if np.ndim(names) != 1 or sides[:1] != np.shape(names) or not shape.is_compatible_with(sides[1:]):
                raise InvalidArgumentError(
                    f"keys of shape {np.shape(names)} and values of shape {sides} don't fit: there must be a value of "
                    f"shape {shape} for each key"
                )
            contents.insert(index, names.tolist(), own(rows, fixed=True))

        return self._operation("BarrierInsertMany", [names, rows], [], kernel, name)

    def take_many(
        self, num_elements: Any, allow_small_batch: bool = False, timeout: int | None = None, name: str | None = None
    ) -> BarrierTakeMany:
        """Return complete elements, stacked, which the run takes; it waits until there are so many.

        Parameters
        ----------
        num_elements : int or Tensor of int32
        allow_small_batch : bool, default False
            Whether a run takes fewer, but at least one, if the barrier is closed and has no more of them.
        timeout : int, optional
            Milliseconds after which a run raises `DeadlineExceededError`, and takes nothing.
        name : str, optional

        Returns
        -------
        BarrierTakeMany
            ``(indices, keys, values)``.

        Notes
        -----
        A run raises `OutOfRangeError` if the barrier is closed and can't have so many any more.
        """
        count = tensor_in(self.barrier_ref.graph, num_elements, int32, "num_elements")
        known = constant_value(count)
        if known is not None and known < 0:
            raise ValueError(f"num_elements must be >= 0, but is {known}")
        rows = None if allow_small_batch or known is None else int(known)
        limit = None if timeout is None or timeout < 0 else timeout / 1000
        outputs = [
            (dtype, TensorShape([rows]).concatenate(shape))
            for dtype, shape in zip([int64, string, *self.types], [(), (), *self.shapes], strict=True)
        ]

        def kernel(contents: _Contents, run: Any, number: Any) -> Any:
            if np.ndim(number):
                raise InvalidArgumentError(f"num_elements must be a scalar, and has the shape {np.shape(number)}")
            left = run.left()
            wait = min((seconds for seconds in (left, limit) if seconds is not None), default=None)
            return contents.take(int(number), allow_small_batch, wait)

        op = self._operation("BarrierTakeMany", [count], outputs, kernel, name, True)
        return BarrierTakeMany(op.outputs[0], op.outputs[1], op.outputs[2:])

    def close(self, cancel_pending_enqueues: bool = False, name: str | None = None) -> Operation:
        """Return an operation that closes the barrier: from then on no element is begun.

        Parameters
        ----------
        cancel_pending_enqueues : bool, default False
            Whether elements that aren't complete are dropped. Otherwise they may still be completed.
        name : str, optional

        Notes
        -----
        A second close in the same session raises `CancelledError`, unless it is the first one that cancels.
        """

        def kernel(contents: _Contents, run: Any) -> None:
            del run
            contents.close(bool(cancel_pending_enqueues))

        return self._operation("BarrierClose", [], [], kernel, name)

    def ready_size(self, name: str | None = None) -> Tensor:
        """Return how many complete elements are in it, as an int32."""
        return self._operation(
            "BarrierReadySize", [], [(int32, ())], lambda contents, _: np.int32(contents.ready.size()), name
        ).outputs[0]

    def incomplete_size(self, name: str | None = None) -> Tensor:
        """Return how many elements lack components, as an int32."""
        return self._operation(
            "BarrierIncompleteSize", [], [(int32, ())], lambda contents, _: np.int32(contents.incomplete_size()), name
        ).outputs[0]

    def __repr__(self) -> str:
        """Return the name."""
        return f"<tf.Barrier {self.name!r}>"


def _shapes(shapes: Any, count: int) -> list[TensorShape]:
    if isinstance(shapes, TensorShape) or all(isinstance(side, (int, np.integer)) for side in shapes):
        shapes = [shapes]  # one shape
    sides = [as_shape(shape) for shape in shapes]
    if len(sides) != count:
        raise ValueError(f"{count} types were given, and {len(sides)} shapes")
    for index, shape in enumerate(sides):
        if not shape.is_fully_defined():
            raise ValueError(f"All shapes must be fully defined: {sides}")
        if shape.num_elements() == 0:
            raise ValueError(f"Empty tensors are not supported, but received shape '{shape}' at index {index}")
    return sides
