"""The kinds of queues."""

from __future__ import annotations

from typing import Any, SupportsIndex

import numpy as np

from queuecore._checks import seeds
from queuecore._checks.checks import check_index
from queuecore._core.handoff.queues import PRIORITY, RANDOM
from queuecore._elements.convert import Converter, all_fixed, converters
from queuecore._queues.base import QueueBase
from queuecore.errors import InvalidArgumentError

__all__ = ["FIFOQueue", "PaddingFIFOQueue", "PriorityQueue", "RandomShuffleQueue"]


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
        components = all_fixed(converters(dtypes, shapes))
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
    _store = RANDOM

    def __init__(
        self,
        capacity: SupportsIndex,
        min_after_dequeue: SupportsIndex,
        dtypes: Any,
        shapes: Any = None,
        names: Any = None,
        seed: SupportsIndex | seeds.Pair | None = None,
        shared_name: str | None = None,
        name: str | None = None,
    ) -> None:
        components = all_fixed(converters(dtypes, shapes))
        least = check_index(min_after_dequeue, "min_after_dequeue")
        size = check_index(capacity, "capacity")
        if least < 0 or 0 < size <= least:
            raise InvalidArgumentError(
                f"min_after_dequeue must be from 0 to below the capacity of {size}, not {least}"
                if size > 0
                else f"min_after_dequeue must not be negative: {least}"
            )
        (low, high), _ = seeds.resolve(seed)
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
        components = converters(dtypes, list(shapes))
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
    _store = PRIORITY

    def __init__(
        self,
        capacity: SupportsIndex,
        types: Any,
        shapes: Any = None,
        names: Any = None,
        shared_name: str | None = None,
        name: str | None = None,
    ) -> None:
        values = all_fixed(converters(types, shapes))
        for index, one in enumerate(values):
            one.label = f"component {index + 1}"
        components = [Converter("component 0", np.int64, ()), *values]
        super().__init__(capacity, components, names, shared_name=shared_name, name=name, default_name="priority_queue")
