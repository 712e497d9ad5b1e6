"""Queues of a graph. Each session has its own queues, which are `queuecore` queues."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from queuecore._queues import base, kinds as eager
from queuecore.errors import CancelledError, InvalidArgumentError, QueueCoreError
from queuecore.tf1._graph.graph import (
    DrawnPair,
    Operation,
    Tensor,
    convert_to_tensor,
    get_default_graph,
    seed_pair,
    tensor_in,
)
from queuecore.tf1._graph.texts import retell, retold
from queuecore.tf1._graph.values import DType, TensorShape, as_dtype, as_shape, name_of, resource

__all__ = ["FIFOQueue", "PaddingFIFOQueue", "PriorityQueue", "QueueBase", "RandomShuffleQueue", "queue_of"]


_NEGATIVE = (r"must not be negative: (-\d+)", r"DequeueManyOp requested \1 < 0 elements")
_MISMATCH = r"component (\d+): expected shape \[(.*?)\], got \[(.*?)\]"


def _told(error: QueueCoreError, what: str, run: Any, *texts: Any) -> QueueCoreError:
    # An error of a queue in TensorFlow's words. The end of a session closes its queues: their waits were cancelled.
    if run.session.is_closed:
        return CancelledError(f"{what} operation was cancelled: the session was closed while it waited ({error})")
    retell(error, *texts)
    return error


def _mismatch(match: Any, values: Sequence[Any], many: bool) -> str:
    # TensorFlow's words for a component of another shape; of several elements their number is part of both shapes.
    at = int(match[1])
    wanted, got = (one.replace(" ", "").replace("None", "?") for one in (match[2], match[3]))
    if many:
        rows, own = (str(len(values[i])) for i in (0, at))
        wanted, got = ",".join(filter(None, [rows, wanted])), ",".join(filter(None, [own, got]))
    return f"Shape mismatch in tuple component {at}. Expected [{wanted}], got [{got}]"


class _Held:
    # A queue of one session.
    def __init__(self, made: base.QueueBase, seeds: Any = None) -> None:
        self.queue = made
        self.seeds = seeds

    def _end(self) -> None:
        with contextlib.suppress(QueueCoreError):
            self.queue.close(cancel_pending_enqueues=True)


def _as_list(value: Any) -> list[Any]:
    return list(value) if isinstance(value, (list, tuple)) else [value]


def _shapes(shapes: Any, count: int) -> list[TensorShape] | None:
    if shapes is None:
        return None
    if isinstance(shapes, TensorShape) or not isinstance(shapes, (list, tuple)):
        shapes = [shapes]
    elif all(isinstance(one, (int, np.integer)) for one in shapes) and (shapes or count == 1):
        shapes = [shapes]  # a plain list of integers is one shape
    found = [as_shape(one) for one in shapes]
    if len(found) != count:
        raise ValueError(
            f"Queue shapes must have the same length as dtypes, received {len(found)} shapes, {count} dtypes"
        )
    return found


class QueueBase:
    """The base class of all queues. Make one of the classes below, not this one.

    Parameters
    ----------
    dtypes : list of numpy.dtype
    shapes : list of TensorShape or None
        The shape of each component; None: unknown.
    names : str, sequence of str or None
        A name for each component: then elements are dicts.
    make : callable
        Makes a session's queue of `queuecore.queues`, which gets the name that is its argument.
    shared_name : str or None
        The name under which queues of a session share one queue.
    name : str
        The operation's name.

    Attributes
    ----------
    dtypes : list of numpy.dtype
    shapes : list of TensorShape
    names : list of str or None
    name : str
    capacity : int
        Elements that it holds; negative: any number.
    kept : int
        Elements that stay in it as long as it is open.
    queue_ref : Tensor
        The tensor that operations use as the queue.
    """

    _kind = ""
    capacity = -1
    _seeds: Any = None
    kept = 0

    def __init__(
        self,
        dtypes: list[DType],
        shapes: list[TensorShape] | None,
        names: Any,
        make: Callable[[str], base.QueueBase],
        shared_name: str | None,
        name: str,
    ) -> None:
        if not dtypes:
            raise ValueError("A queue must have at least one component: dtypes is empty")
        labels = None if names is None else _as_list(names)
        if labels is not None and len(labels) != len(dtypes):
            raise ValueError(
                f"List of queue names must have the same length as the list of dtypes, received {len(labels)} names, "
                f"{len(dtypes)} dtypes"
            )
        self.dtypes = dtypes
        self.names = labels
        self._fixed = shapes is not None
        self.shapes = shapes if shapes is not None else [TensorShape(None)] * len(dtypes)
        self._shared = shared_name
        self.make = make
        op = get_default_graph().create_op(f"{self._kind}V2", [], [(resource, ())], self._resource, name)
        op.attributes["queue"] = self
        self.queue_ref = op.outputs[0]

    @property
    def name(self) -> str:
        """Its operation's name."""
        return self.queue_ref.op.name

    @property
    def graph(self) -> Any:
        """The graph that it is part of."""
        return self.queue_ref.op.graph

    @property
    def _label(self) -> str:
        # The names of its operations begin so: they are in the scope in which they are made.
        return self.name.rpartition("/")[2]

    def _as_graph_element(self) -> Tensor:
        return self.queue_ref

    def _resource(self, run: Any) -> base.QueueBase:
        return self.of(run.session)

    def of(self, session: Any) -> base.QueueBase:
        """Return the queue itself, of a session."""
        if self._shared is None:
            resource: _Held = session.resource(self, lambda: _Held(self.make(self.name)))
            return resource.queue
        # Each handle on a shared one is compared with what is there.
        resource = session.resource(("queue", self._shared), lambda: _Held(self.make(self._shared or ""), self._seeds))
        with retold(
            (r"shared queue ('.*') has components .*, but", lambda match: self._told_apart(match, resource.queue)),
            (r"shared queue ('.*') has (\w+) (.*), but (.*) was asked for",
             r"Shared queue \1 has \2 \3 but requested \2 was \4"),
        ):  # fmt: skip
            session.resource(self, lambda: _Compared(self, resource.queue))
        if not isinstance(self._seeds, DrawnPair) and self._seeds != resource.seeds:
            raise InvalidArgumentError(
                f"Shared queue {self._shared!r} has random seeds {tuple(resource.seeds)} but requested seeds are "
                f"{tuple(self._seeds)}"
            )
        return resource.queue

    def _told_apart(self, match: Any, there: base.QueueBase) -> str:
        mine = [name_of(dtype) for dtype in self.dtypes]
        theirs = [name_of(as_dtype(dtype)) for dtype in there.dtypes]
        what, have, want = "types", theirs, mine
        if theirs == mine:
            what, have = "shapes", [str(shape) for shape in there.shapes or () if shape is not None]
            want = [str(shape) for shape in self.shapes] if self._fixed else []
        said = [", ".join(words) if what == "types" else f"[{','.join(words)}]" for words in (have, want)]
        return f"Shared queue {match[1]} has component {what} {said[0]} but requested component {what} were {said[1]}"

    def _operation(
        self,
        type_: str,
        inputs: list[Tensor],
        outputs: Any,
        kernel: Callable[..., Any],
        name: str,
        blocking: bool = True,
    ) -> Operation:
        # The kernel gets the queue itself, of the run's session, before the run and the values.
        op: Operation = self.graph.create_op(
            type_, inputs, outputs, lambda run, *values: kernel(self.of(run.session), run, *values), name,
            blocking=blocking,
        )  # fmt: skip
        op.attributes["handle"] = [self.queue_ref]
        return op

    # ---- putting

    def enqueue(self, vals: Any, name: str | None = None) -> Operation:
        """Return an operation that enqueues one element, and waits for room.

        Parameters
        ----------
        vals : Tensor, list, tuple or dict
            One component; all of them; or, of a queue with names, by name.
        name : str, optional

        Raises
        ------
        ValueError, TypeError
            If they can't be the components of an element.
        """
        components = self._given(vals)
        for component, shape in zip(components, self.shapes, strict=True):
            component.shape.assert_is_compatible_with(shape)

        def kernel(queue: Any, run: Any, *values: Any) -> None:
            try:
                queue.enqueue(self._element(values), timeout=run.left())
            except QueueCoreError as error:
                raise _told(error, "Enqueue", run, (_MISMATCH, lambda match: _mismatch(match, values, False))) from (
                    error.__cause__
                )

        return self._putting("QueueEnqueueV2", components, kernel, name or f"{self._label}_enqueue", False)

    def enqueue_many(self, vals: Any, name: str | None = None) -> Operation:
        """Return an operation that enqueues the rows of the components in order, and waits for room.

        Parameters
        ----------
        vals : Tensor, list, tuple or dict
            As of `enqueue`; each with one more dimension in front.
        name : str, optional

        Raises
        ------
        ValueError, TypeError
            If they can't be such components.
        """
        components = self._given(vals)
        rows = TensorShape([None])
        for component, shape in zip(components, self.shapes, strict=True):
            if component.shape.ndims == 0:
                raise ValueError(
                    f"Shape {component.shape} must have rank at least 1: rows of {component!r} go in along the first"
                )
            if component.shape.sides is not None:
                rows = TensorShape([rows[0].merge_with(component.shape[0])])
                component.shape[1:].assert_is_compatible_with(shape)

        def kernel(queue: Any, run: Any, *values: Any) -> None:
            try:
                queue.enqueue_many(self._element(values), timeout=run.left())
            except QueueCoreError as error:
                raise _told(error, "Enqueue", run, (_MISMATCH, lambda match: _mismatch(match, values, True))) from (
                    error.__cause__
                )

        return self._putting("QueueEnqueueManyV2", components, kernel, name or f"{self._label}_EnqueueMany", True)

    def _putting(self, type_: str, components: list[Tensor], kernel: Any, name: str, many: bool) -> Operation:
        op = self._operation(type_, components, [], kernel, name)
        op.attributes.update(enqueue=self, many=many)
        return op

    def _element(self, values: Sequence[Any]) -> Any:
        return list(values) if self.names is None else dict(zip(self.names, values, strict=True))

    def _given(self, vals: Any) -> list[Tensor]:
        if isinstance(vals, Mapping):
            if self.names is None:
                raise ValueError("Queue must have names to enqueue a dictionary")
            if sorted(map(str, vals)) != sorted(self.names):
                raise ValueError(
                    f"Keys in dictionary to enqueue do not match names of Queue.  Dictionary: ({sorted(vals)}), Queue: "
                    f"({sorted(self.names)})"
                )
            parts = [vals[one] for one in self.names]
        else:
            if self.names is not None:
                raise ValueError("You must enqueue a dictionary in a Queue with names")
            parts = _as_list(vals)
        if len(parts) != len(self.dtypes):
            raise InvalidArgumentError(
                f"{self.name}: an element has {len(self.dtypes)} components, and got {len(parts)}"
            )
        return [tensor_in(self.graph, part, dtype) for part, dtype in zip(parts, self.dtypes, strict=True)]

    # ---- taking

    def dequeue(self, name: str | None = None) -> Any:
        """Return the components of one element; the run waits for it and takes it.

        Returns
        -------
        Tensor, list or dict
            One component: bare; several: a list; in a queue with names: a dict by name.
        """
        return self._taking(
            "QueueDequeueV2",
            [],
            self.shapes,
            lambda queue, run: queue.dequeue(timeout=run.left()),
            name or f"{self._label}_Dequeue",
        )

    def dequeue_many(self, n: Any, name: str | None = None) -> Any:
        """Return the components of `n` elements, stacked; the run waits for all of them and takes them.

        Raises
        ------
        ValueError
            If `n` is negative.
        """
        return self._several("QueueDequeueManyV2", n, name or f"{self._label}_DequeueMany", False)

    def dequeue_up_to(self, n: Any, name: str | None = None) -> Any:
        """Return the components of `n` elements, stacked; of fewer, if the queue is closed and has no more."""
        return self._several("QueueDequeueUpToV2", n, name or f"{self._label}_DequeueUpTo", True)

    def _several(self, type_: str, n: Any, name: str, up_to: bool) -> Any:
        count = tensor_in(self.graph, n, np.int32, "n")
        if count.shape.sides:
            raise ValueError(f"Shape must be rank 0 but is rank {len(count.shape.sides)}: {count.shape}")
        known = count.op.attributes.get("value")
        if known is not None and known < 0:
            raise ValueError(f"Input 'n' must be >= 0, but is {known}: the number of elements must not be negative")
        rows = None if up_to or known is None else int(known)
        shapes = [one if one.sides is None else TensorShape((rows, *one.sides)) for one in self.shapes]

        def kernel(queue: Any, run: Any, number: Any) -> Any:
            if np.ndim(number):
                raise InvalidArgumentError(f"the number of elements must be a scalar, and has shape {np.shape(number)}")
            take = queue.dequeue_up_to if up_to else queue.dequeue_many
            return take(int(number), timeout=run.left())

        return self._taking(type_, [count], shapes, kernel, name)

    def _taking(self, type_: str, inputs: list[Tensor], shapes: Any, take: Any, name: str) -> Any:
        names = self.names

        def kernel(queue: Any, run: Any, *values: Any) -> Any:
            try:
                element = take(queue, run, *values)
            except QueueCoreError as error:
                kind = type(self).__name__
                loose = f"{kind}'s DequeueMany and DequeueUpTo require the components to have specified shapes"
                raise _told(error, "Dequeue", run, ("which don't stack", loose), _NEGATIVE) from error.__cause__
            if names is None:
                return element
            return [element[key] for key in names] if len(names) > 1 else element[names[0]]

        outputs = list(zip(self.dtypes, shapes, strict=True))
        op = self._operation(type_, inputs, outputs, kernel, name)
        op.attributes["dequeue"] = self
        if names is not None:
            return dict(zip(names, op.outputs, strict=True))
        return op.outputs[0] if len(op.outputs) == 1 else op.outputs

    # ---- the rest

    def close(self, cancel_pending_enqueues: bool = False, name: str | None = None) -> Operation:
        """Return an operation that closes the queue, after the waiting enqueues, or cancelling them.

        A second close in the same session raises `CancelledError`, unless it cancels.
        """

        def kernel(queue: Any, run: Any) -> None:
            if not cancel_pending_enqueues and queue.is_closed():
                raise CancelledError(f"Queue '{queue.name}' is already closed.")
            queue.close(cancel_pending_enqueues, timeout=run.left())

        return self._operation("QueueCloseV2", [], [], kernel, name or f"{self._label}_Close")

    def size(self, name: str | None = None) -> Tensor:
        """Return how many elements are in it, as an int32."""
        return self._looking("QueueSizeV2", np.int32, lambda queue, _: queue.size(), name or f"{self._label}_Size")

    def is_closed(self, name: str | None = None) -> Tensor:
        """Return whether it is closed."""
        return self._looking(
            "QueueIsClosedV2", np.bool_, lambda queue, _: queue.is_closed(), name or f"{self._label}_Is_Closed"
        )

    def _looking(self, type_: str, kind: Any, kernel: Callable[..., Any], name: str) -> Tensor:
        outputs = [(as_dtype(kind), ())]
        return self._operation(type_, [], outputs, lambda *given: kind(kernel(*given)), name, False).outputs[0]

    @staticmethod
    def from_list(index: Any, queues: list[QueueBase]) -> QueueBase:
        """Return the queue that has this index in a list; the index may be a tensor.

        Raises
        ------
        TypeError
            If there is no list of queues, or they have different types or names.
        """
        if not queues or not isinstance(queues, list) or not all(isinstance(one, QueueBase) for one in queues):
            raise TypeError("A list of queues expected")
        first = queues[0]
        if any(one.dtypes != first.dtypes for one in queues):
            raise TypeError("Queues do not have matching component dtypes.")
        if any(one.names != first.names for one in queues):
            raise TypeError("Queues do not have matching component names.")
        return _Chosen(convert_to_tensor(index, np.int32), queues)

    def __repr__(self) -> str:
        """Return kind and name."""
        return f"<tf.{type(self).__name__} {self.name!r}>"


class _Chosen(QueueBase):
    # One of several, by a tensor, which is one more input of its operations.
    _kind = "RefSelect"

    def __init__(self, index: Tensor, queues: list[QueueBase]) -> None:
        first = queues[0]
        shapes = list(first.shapes)
        for one in queues[1:]:
            shapes = [a.most_general_with(b) for a, b in zip(shapes, one.shapes, strict=True)]
        self._index = index
        self._queues = queues
        super().__init__(first.dtypes, shapes, first.names, first.make, None, "from_list")

    def _operation(
        self,
        type_: str,
        inputs: list[Tensor],
        outputs: Any,
        kernel: Callable[..., Any],
        name: str,
        blocking: bool = True,
    ) -> Operation:
        op: Operation = self.graph.create_op(
            type_, [self._index, *inputs], outputs,
            lambda run, index, *values: kernel(self._at(index).of(run.session), run, *values), name, blocking=blocking,
        )  # fmt: skip
        return op

    def _at(self, index: Any) -> QueueBase:
        if not 0 <= index < len(self._queues):
            raise InvalidArgumentError(
                f"Index must be in the range [0, {len(self._queues)}) but got {index}: indices = {index} is not in "
                f"[0, {len(self._queues)})"
            )
        return self._queues[int(index)]

    def of(self, session: Any) -> base.QueueBase:
        """Return the queue that the index names now."""
        return self._at(session.run(self._index)).of(session)


class _Compared:
    # One more handle on a shared queue of a session.
    def __init__(self, given: QueueBase, there: base.QueueBase) -> None:
        mine = given.make(given.name)
        base.check_alike(str(given._shared), there, mine)
        mine.close(cancel_pending_enqueues=True)


def queue_of(value: Any) -> QueueBase:
    """Return the queue that an object is, or that a tensor stands for.

    Raises
    ------
    TypeError
        If it is none.
    """
    if isinstance(value, QueueBase):
        return value
    found: QueueBase | None = value.op.attributes.get("queue") if isinstance(value, Tensor) else None
    if found is None:
        raise TypeError(f"{value!r} is no queue")
    return found


def _eager_dtypes(dtypes: list[DType]) -> list[Any]:
    return [bytes if one.kind == "S" else one for one in dtypes]


def _sides(shapes: list[TensorShape] | None) -> Any:
    return None if shapes is None else [one.sides for one in shapes]


def _dtypes(dtypes: Any) -> list[DType]:
    return [as_dtype(one) for one in _as_list(dtypes)]


def _check_defined(shapes: list[TensorShape] | None) -> None:
    if any(one.sides is None or None in one.sides for one in shapes or ()):
        raise ValueError(f"All shapes must be fully defined: {shapes}")


def _check_capacity(capacity: Any) -> int:
    if capacity == 0:
        raise ValueError("capacity must be positive, or negative for a queue without bound; 0 holds nothing")
    return int(capacity)


class FIFOQueue(QueueBase):
    """A queue whose elements come out in the order in which they went in.

    Parameters
    ----------
    capacity : int
        Elements that it holds; negative: any number.
    dtypes : dtype or list of them
        Of the components.
    shapes : shape or list of them, optional
        Of the components, fully defined. Without them, elements may differ in shape, and can't be stacked.
    names : str or list of str, optional
        Of the components: elements are dicts.
    shared_name : str, optional
        Queues of one session with the same one are one queue.
    name : str, default "fifo_queue"
    """

    _kind = "FIFOQueue"

    def __init__(
        self, capacity: int, dtypes: Any, shapes: Any = None, names: Any = None, shared_name: str | None = None,
        name: str = "fifo_queue",
    ) -> None:  # fmt: skip
        self.capacity = size = _check_capacity(capacity)
        types = _dtypes(dtypes)
        sides = _shapes(shapes, len(types))
        _check_defined(sides)

        def make(own: str) -> base.QueueBase:
            return eager.FIFOQueue(size, _eager_dtypes(types), _sides(sides), names, name=base.Settled(own))

        super().__init__(types, sides, names, make, shared_name, name)


class RandomShuffleQueue(QueueBase):
    """A queue whose elements come out in random order, the same for the same seed.

    Parameters
    ----------
    capacity : int
    min_after_dequeue : int
        As long as it is open, this many elements stay in it.
    dtypes, shapes, names, shared_name
        As of `FIFOQueue`.
    seed : int, optional
        Paired with the graph's, which is read when this is made.
    name : str, default "random_shuffle_queue"
    """

    _kind = "RandomShuffleQueue"

    def __init__(
        self, capacity: int, min_after_dequeue: int, dtypes: Any, shapes: Any = None, names: Any = None,
        seed: int | None = None, shared_name: str | None = None, name: str = "random_shuffle_queue",
    ) -> None:  # fmt: skip
        self.capacity = size = _check_capacity(capacity)
        types = _dtypes(dtypes)
        sides = _shapes(shapes, len(types))
        _check_defined(sides)
        graph_seed = get_default_graph().seed
        if seed is None and graph_seed is not None and shared_name is not None:
            # As in TensorFlow: of the name, as each handle on it has another number in the graph.
            said = hashlib.md5(f"{graph_seed}{shared_name}".encode(), usedforsecurity=False).hexdigest()
            seed = int(said[:8], 16) & 0x7FFFFFFF
        self._seeds = pair = seed_pair(seed)
        self.kept = int(min_after_dequeue)

        def make(own: str) -> base.QueueBase:
            return eager.RandomShuffleQueue(
                size, min_after_dequeue, _eager_dtypes(types), _sides(sides), names, pair, name=base.Settled(own)
            )

        super().__init__(types, sides, names, make, shared_name, name)


class PaddingFIFOQueue(QueueBase):
    """A `FIFOQueue` whose elements may differ in size: stacking pads them to the largest of the batch, with zeros.

    Parameters
    ----------
    capacity, dtypes, names, shared_name
        As of `FIFOQueue`.
    shapes : list of shapes
        `None` for each dimension that may differ.
    name : str, default "padding_fifo_queue"
    """

    _kind = "PaddingFIFOQueue"

    def __init__(
        self, capacity: int, dtypes: Any, shapes: Any, names: Any = None, shared_name: str | None = None,
        name: str = "padding_fifo_queue",
    ) -> None:  # fmt: skip
        self.capacity = size = _check_capacity(capacity)
        types = _dtypes(dtypes)
        if (
            not isinstance(shapes, (list, tuple))
            or len(shapes) != len(types)
            or any(isinstance(shape, int) for shape in shapes)
        ):
            raise ValueError(
                "When providing partial shapes, a list of shapes must be provided: "
                f"shapes must be a list with one shape for each of the {len(types)} dtypes, not {shapes!r}"
            )
        sides = [as_shape(shape) for shape in shapes]
        if any(shape.sides is None for shape in sides):
            raise ValueError(
                "shapes must have a defined rank: the number of dimensions must be known, and "
                f"{shapes!r} doesn't say it"
            )

        def make(own: str) -> base.QueueBase:
            return eager.PaddingFIFOQueue(size, _eager_dtypes(types), _sides(sides), names, name=base.Settled(own))

        super().__init__(types, sides, names, make, shared_name, name)


class PriorityQueue(QueueBase):
    """A queue whose elements come out by their first component, an int64, smallest first.

    Parameters
    ----------
    capacity : int
    types, shapes : list
        Of the other components.
    names : list of str, optional
        Of all components, the priority's first.
    shared_name : str, optional
    name : str, default "priority_queue"
    """

    _kind = "PriorityQueue"

    def __init__(
        self, capacity: int, types: Any, shapes: Any = None, names: Any = None, shared_name: str | None = None,
        name: str = "priority_queue",
    ) -> None:  # fmt: skip
        self.capacity = size = _check_capacity(capacity)
        values = _dtypes(types)
        if shapes is None:
            raise TypeError("shapes of a PriorityQueue must be given: those of its values, without the priority's")
        sides = _shapes(shapes, len(values))
        assert sides is not None
        _check_defined(sides)

        def make(own: str) -> base.QueueBase:
            return eager.PriorityQueue(size, _eager_dtypes(values), _sides(sides), names, name=base.Settled(own))

        super().__init__([as_dtype(np.int64), *values], [TensorShape(()), *sides], names, make, shared_name, name)
