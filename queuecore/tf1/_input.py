"""Input functions: queues of file names, of numbers and of rows, and batches that runners fill."""

from __future__ import annotations

import glob
import itertools
import os
import pickle
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from queuecore.errors import InvalidArgumentError, OutOfRangeError, UnimplementedError
from queuecore.tf1._graph import (
    GraphKeys,
    Tensor,
    apply_op,
    constant_value,
    control_dependencies,
    convert_to_tensor,
    get_default_graph,
)
from queuecore.tf1._math import identity
from queuecore.tf1._queues import FIFOQueue, PaddingFIFOQueue, QueueBase, RandomShuffleQueue
from queuecore.tf1._random import random_shuffle
from queuecore.tf1._runners import QueueRunner, add_queue_runner
from queuecore.tf1._shapes import TensorShape
from queuecore.tf1._sparse import SparseTensor
from queuecore.tf1._state import Variable
from queuecore.tf1._types import name_of, string

__all__ = [
    "batch",
    "batch_join",
    "input_producer",
    "limit_epochs",
    "match_filenames_once",
    "maybe_batch",
    "maybe_batch_join",
    "maybe_shuffle_batch",
    "maybe_shuffle_batch_join",
    "prefetch_queue",
    "range_input_producer",
    "shuffle_batch",
    "shuffle_batch_join",
    "slice_input_producer",
    "string_input_producer",
]


# Producers


def match_filenames_once(pattern: Any, name: str | None = None) -> Variable:
    """Return a local variable with the names of the files that match patterns when it is initialised.

    Parameters
    ----------
    pattern : str, list of str, or Tensor
        ``*``, ``?`` and ``[...]`` stand for what they do in a shell, but match a dot at the beginning too.
    name : str, optional

    Returns
    -------
    Variable
        A vector of strings, sorted, with no names at all if nothing matches. ``./`` is put before those of patterns
        whose first part has such a character. A name that matches twice is in it twice.

    Notes
    -----
    Run `local_variables_initializer` before it is used.
    """
    given = convert_to_tensor(pattern, string)

    def kernel(_: Any, patterns: Any) -> Any:
        names = sorted(one for text in np.ravel(np.array(patterns, object)) for one in _matches(text))
        found = np.empty(len(names), object)
        found[:] = names
        return found

    matching = apply_op("MatchingFiles", [given], string, (None,), kernel, None, pure=False)
    return Variable(
        matching,
        trainable=False,
        collections=[GraphKeys.LOCAL_VARIABLES],
        validate_shape=False,
        name=name or "matching_filenames",
    )


def _matches(pattern: bytes) -> list[bytes]:
    names = glob.glob(pattern, include_hidden=True)
    return [os.path.join(b".", one) for one in names] if glob.has_magic(pattern.partition(b"/")[0]) else names


def limit_epochs(tensor: Any, num_epochs: int | None = None, name: str | None = None) -> Any:
    """Return a tensor that has its value so many times, and then raises `OutOfRangeError`.

    Parameters
    ----------
    tensor : Tensor
    num_epochs : int, optional
        How many times; `None`: `tensor` itself is returned.
    name : str, optional

    Returns
    -------
    Tensor

    Raises
    ------
    ValueError
        If `num_epochs` isn't positive.

    Notes
    -----
    A local variable ``epochs`` counts. Unlike TensorFlow's it is 0 without an initializer; running
    `local_variables_initializer` makes it 0 again.
    """
    if num_epochs is None:
        return tensor
    if num_epochs <= 0:
        raise ValueError(f"num_epochs must be > 0 not {num_epochs}.")
    limit = int(num_epochs)
    with get_default_graph().name_scope(name or "limit_epochs") as scope:
        epochs = Variable(
            np.int64(0), trainable=False, collections=[GraphKeys.LOCAL_VARIABLES], name="epochs", _ready=True
        )

        def kernel(run: Any) -> Any:
            cell = epochs._cell(run)
            with cell.lock:
                count = epochs._read(run)
                if count >= limit:
                    raise OutOfRangeError(f"Reached limit of {limit}")
                cell.value = np.int64(count + 1)
            return count

        counter = apply_op("CountUpTo", [], np.int64, (), kernel, None, pure=False)
        with control_dependencies([counter]):
            limited: Tensor = identity(convert_to_tensor(tensor), name=scope)
            return limited


def input_producer(
    input_tensor: Any,
    element_shape: Any = None,
    num_epochs: int | None = None,
    shuffle: bool = True,
    seed: int | None = None,
    capacity: int = 32,
    shared_name: str | None = None,
    summary_name: str | None = None,
    name: str | None = None,
    cancel_op: Any = None,
) -> QueueBase:
    """Return a queue that a runner fills with the rows of a tensor, epoch after epoch.

    Parameters
    ----------
    input_tensor : Tensor
        Of one dimension at least; computed anew for each epoch.
    element_shape : shape, optional
        Of a row, if it is not known before the graph runs.
    num_epochs : int, optional
        How often each row is put; then the queue is closed. `None`: without an end.
    shuffle : bool, default True
        Whether the rows of each epoch come in a random order.
    seed : int, optional
        Of these orders, paired with the graph's. They are TensorFlow's own.
    capacity : int, default 32
    shared_name : str, optional
        Queues of one session with the same one are one queue; epochs are counted by each.
    summary_name : str, optional
        Taken, and not used: there are no summaries.
    name : str, optional
    cancel_op : Operation, optional
        As of `QueueRunner`.

    Returns
    -------
    FIFOQueue
        Its runner is in the collection that `start_queue_runners` starts.

    Raises
    ------
    ValueError
        If the tensor is a scalar, the shape of its rows is not known or contradicts `element_shape`, or `num_epochs`
        isn't positive.

    Notes
    -----
    One `QueueBase.enqueue_many` puts a whole epoch: a count of epochs is that of those begun, and epochs never mix.
    Without a last epoch, the runner fails with `InvalidArgumentError` if there are no rows; TensorFlow's never ends.
    """
    del summary_name
    with get_default_graph().name_scope(name or "input_producer"):
        given = convert_to_tensor(input_tensor)
        if given.shape.ndims == 0:
            raise ValueError(f"Shape {given.shape} must have rank at least 1: {given!r}")
        row = given.shape[1:].merge_with(element_shape)
        if not row.is_fully_defined():
            raise ValueError(
                "Either `input_tensor` must have a fully defined shape or `element_shape` must be specified"
            )
        if num_epochs is None:
            given = _with_rows(given, "there are no rows, so without num_epochs nothing would ever come of them")
        if shuffle:
            given = random_shuffle(given, seed=seed)
        given = limit_epochs(given, num_epochs)
        queue = FIFOQueue(capacity, [given.dtype], [row], shared_name=shared_name, name=name)  # type: ignore[arg-type]
        add_queue_runner(QueueRunner(queue, [queue.enqueue_many([given])], cancel_op=cancel_op))
        return queue


def _with_rows(given: Tensor, message: str) -> Tensor:
    # The same, refused by a run if it has no rows.
    if given.shape.sides and given.shape.sides[0]:
        return given

    def kernel(value: Any) -> Any:
        if len(value) == 0:
            raise InvalidArgumentError(message)
        return value

    return apply_op("Assert", [given], given.dtype, given.shape, kernel, None)


def string_input_producer(
    string_tensor: Any,
    num_epochs: int | None = None,
    shuffle: bool = True,
    seed: int | None = None,
    capacity: int = 32,
    shared_name: str | None = None,
    name: str | None = None,
    cancel_op: Any = None,
) -> QueueBase:
    """Return a queue that a runner fills with strings, for example names of files.

    Parameters
    ----------
    string_tensor : Tensor, Variable or list of str
        A vector. If it is empty when it is computed, the runner fails with `InvalidArgumentError`.
    num_epochs, shuffle, seed, capacity, shared_name, name, cancel_op
        As of `input_producer`.

    Returns
    -------
    FIFOQueue

    Raises
    ------
    ValueError
        If the list is empty, or they are no vector.
    """
    if not isinstance(string_tensor, (Tensor, Variable)) and len(string_tensor) == 0:
        raise ValueError("string_input_producer requires a non-null input tensor")
    with get_default_graph().name_scope(name or "input_producer") as scope:
        given = convert_to_tensor(string_tensor, string)
        if given.shape.ndims == 0:
            raise ValueError(f"Shape {given.shape} must have rank at least 1: {given!r}")
        given = _with_rows(given, "string_input_producer requires a non-null input tensor: there are no strings")
        return input_producer(
            given, [], num_epochs, shuffle, seed, capacity, shared_name, name=scope, cancel_op=cancel_op
        )


def range_input_producer(
    limit: Any,
    num_epochs: int | None = None,
    shuffle: bool = True,
    seed: int | None = None,
    capacity: int = 32,
    shared_name: str | None = None,
    name: str | None = None,
) -> QueueBase:
    """Return a queue that a runner fills with the numbers from 0 to below a limit.

    Parameters
    ----------
    limit : int or Tensor
        A scalar, of the type that the numbers have: int32 for one of Python's.
    num_epochs, shuffle, seed, capacity, shared_name, name
        As of `input_producer`.

    Returns
    -------
    FIFOQueue

    Raises
    ------
    ValueError
        If the limit is negative.
    """
    with get_default_graph().name_scope(name or "input_producer") as scope:
        return input_producer(_range(limit), [], num_epochs, shuffle, seed, capacity, shared_name, name=scope)


def _range(limit: Any) -> Tensor:
    given = convert_to_tensor(limit)

    def kernel(end: Any) -> Any:
        if end < 0:
            raise InvalidArgumentError(f"Requires start <= limit when delta > 0: 0/{end}")
        return np.arange(end, dtype=given.dtype)

    known = constant_value(given)
    if known is not None:
        return convert_to_tensor(kernel(known), name="range")
    return apply_op("Range", [given], given.dtype, (None,), kernel, "range")


def slice_input_producer(
    tensor_list: Sequence[Any],
    num_epochs: int | None = None,
    shuffle: bool = True,
    seed: int | None = None,
    capacity: int = 32,
    shared_name: str | None = None,
    name: str | None = None,
) -> list[Tensor]:
    """Return tensors that are, in each run, the same row of each tensor of a list.

    Parameters
    ----------
    tensor_list : list of Tensor
        With equally many rows.
    num_epochs, shuffle, seed, capacity, shared_name, name
        As of `input_producer`; the queue is one of numbers of rows.

    Returns
    -------
    list of Tensor

    Raises
    ------
    ValueError
        If the list is empty, or one is a scalar, or they differ in length. Lengths that are only known when the graph
        runs are compared there: the runner fails with `InvalidArgumentError`. TensorFlow takes the first one's.
    """
    with get_default_graph().name_scope(name or "input_producer"):
        given = [convert_to_tensor(one) for one in _listed(tensor_list)]
        if not given:
            raise ValueError("Expected at least one tensor in slice_input_producer().")
        rows = TensorShape([None])
        for one in given:
            if one.shape.ndims == 0:
                raise ValueError(f"Shape {one.shape} must have rank at least 1: {one!r}")
            if one.shape.sides is not None:
                rows = rows.merge_with([one.shape.sides[0]])
        known = all(one.shape.sides and one.shape.sides[0] is not None for one in given)
        limit = rows.as_list()[0] if known else apply_op("Rows", given, np.int32, (), _common_length, None)
        queue = range_input_producer(limit, num_epochs, shuffle, seed, capacity, shared_name)
        index = queue.dequeue()
        return [
            apply_op("GatherV2", [one, index], one.dtype, one.shape[1:], lambda x, at: x[at], None) for one in given
        ]


def _common_length(*values: Any) -> Any:
    lengths = [len(value) for value in values]
    if len(set(lengths)) > 1:
        raise InvalidArgumentError(f"the tensors of a slice_input_producer have different numbers of rows: {lengths}")
    return np.int32(lengths[0])


# Batches


def _listed(tensors: Any) -> list[Any]:
    if isinstance(tensors, (Tensor, Variable, str, bytes)) or not hasattr(tensors, "__iter__"):
        raise TypeError(f"a list or a dict of tensors is wanted, not {tensors!r}")
    return list(tensors)


def _tensor(value: Any) -> Tensor:
    if hasattr(value, "_fetch"):
        raise UnimplementedError(
            f"{value!r} is made of several tensors, and a queue's component is one. Give its parts, or make it dense"
        )
    return convert_to_tensor(value)


# A sparse tensor goes through a queue as one string, which nobody else reads.


def _packed(given: SparseTensor, enqueue_many: bool) -> Tensor:
    def one(indices: Any, values: Any, shape: Any) -> bytes:
        return pickle.dumps((indices, values, shape), pickle.HIGHEST_PROTOCOL)

    def rows(indices: Any, values: Any, shape: Any) -> Any:
        order = np.argsort(indices[:, 0], kind="stable")
        bounds = np.searchsorted(indices[order, 0], np.arange(int(shape[0]) + 1))
        made = np.empty(int(shape[0]), object)
        for row, (begin, end) in enumerate(itertools.pairwise(bounds)):
            places = order[begin:end]
            made[row] = one(indices[places, 1:], values[places], shape[1:])
        return made

    side = (given.shape.sides or (None,))[0]
    return apply_op(
        "SerializeSparse", [given.indices, given.values, given.dense_shape], string,
        (side,) if enqueue_many else (), rows if enqueue_many else one, None,
    )  # fmt: skip


def _unpacked(strings: Tensor, like: SparseTensor, enqueue_many: bool) -> SparseTensor:
    # One more dimension in front, as large as the batch; the others as the largest in it.
    rank = like.indices.shape[1].value
    rank = None if rank is None else rank - enqueue_many

    def kernel(given: Any) -> tuple[Any, Any, Any]:
        parts = [pickle.loads(text) for text in given]
        sides = len(parts[0][2]) if parts else rank or 0
        places = [np.insert(indices, 0, row, axis=1) for row, (indices, _, _) in enumerate(parts)]
        shapes = [shape for _, _, shape in parts]
        largest = np.max(shapes, axis=0) if parts else np.zeros(sides, np.int64)
        return (
            np.concatenate([np.zeros((0, sides + 1), np.int64), *places]),
            np.concatenate([np.empty(0, object if like.dtype == string else like.dtype), *(part[1] for part in parts)]),
            np.concatenate([[len(parts)], largest]).astype(np.int64),
        )

    width = None if rank is None else rank + 1
    integers = np.dtype(np.int64)
    outputs = [(integers, (None, width)), (like.dtype, (None,)), (integers, (width,))]
    op = get_default_graph().create_op("DeserializeSparse", [strings], outputs, kernel, None, pure=True)
    return SparseTensor(*op.outputs)


def _keep(keep_input: Any, enqueue_many: bool) -> Tensor | None:
    # What says which are kept; none if all are.
    keep = convert_to_tensor(keep_input)
    if keep.shape.ndims is None:
        raise ValueError("`keep_input` dimensions must be known at graph construction.")
    if keep.shape.ndims > 1:
        raise ValueError("`keep_input` must be 0 or 1 dimensions.")
    if keep.shape.ndims == 1 and not enqueue_many:
        raise ValueError("`keep_input` cannot be a vector when `enqueue_many=False`.")
    known = constant_value(keep)
    if keep.shape.ndims == 0 and known is not None and known:
        return None
    if keep.dtype.kind != "b":
        raise TypeError(f"`keep_input` must be of type bool, not {name_of(keep.dtype)}")
    return keep


def _put(queue: QueueBase, tensors: list[Tensor], keep: Tensor | None, enqueue_many: bool) -> Any:
    if keep is None:
        return queue.enqueue_many(tensors) if enqueue_many else queue.enqueue(tensors)
    # What isn't kept is no rows at all.
    kernel: Callable[..., Any]
    if keep.shape.ndims == 1:
        kernel = lambda value, kept: value[kept]  # noqa: E731
    elif enqueue_many:
        kernel = lambda value, kept: value if kept else value[:0]  # noqa: E731
    else:
        kernel = lambda value, kept: _as_row(value) if kept else _as_row(value)[:0]  # noqa: E731
    rows = []
    for one in tensors:
        row = one.shape[1:] if enqueue_many else one.shape
        if keep.shape.ndims == 1 and one.shape.sides is not None:
            one.shape[:1].assert_is_compatible_with(keep.shape)
        rows.append(apply_op("Kept", [one, keep], one.dtype, TensorShape([None]).concatenate(row), kernel, None))
    return queue.enqueue_many(rows)


def _as_row(value: Any) -> Any:
    if isinstance(value, bytes):
        return np.array([value], object)
    return np.asarray(value)[None]


def _joined_shapes(lists: list[list[Tensor]], enqueue_many: bool, dynamic_pad: bool) -> list[TensorShape]:
    made = []
    for components in zip(*lists, strict=True):
        shapes = []
        for one in components:
            if one.shape.sides is None:
                raise ValueError(f"Cannot infer Tensor's rank: {one!r}")
            if enqueue_many and not one.shape.sides:
                raise ValueError(f"Shape {one.shape} must have rank at least 1: {one!r}")
            shapes.append(one.shape[1:] if enqueue_many else one.shape)
        # A queue that pads takes what holds of all of them; any other one needs every side, from whichever says it.
        found = shapes[0]
        for shape in shapes[1:]:
            found.assert_is_compatible_with(shape)
            found = found.most_general_with(shape) if dynamic_pad else found.merge_with(shape)
        made.append(found)
    return made


def _batched(
    what: str,
    tensors_list: Any,
    copies: int,
    batch_size: Any,
    keep_input: Any,
    queue: Callable[[Any, Any], QueueBase],
    enqueue_many: bool,
    shapes: Any,
    dynamic_pad: bool,
    allow_smaller_final_batch: bool,
    name: str | None,
) -> Any:
    given = _listed(tensors_list)
    if not given:
        raise ValueError("Expected at least one set of tensors")
    keys: list[Any] | None = None
    if any(isinstance(one, Mapping) for one in given):
        if not all(isinstance(one, Mapping) for one in given) or any(set(one) != set(given[0]) for one in given):
            raise ValueError("All dictionaries in tensors_list must have the same keys")
        keys = sorted(given[0])
        given = [[one[key] for key in keys] for one in given]
    with get_default_graph().name_scope(name or what) as scope:
        first = _listed(given[0])
        if not first:
            raise ValueError(f"Expected at least one tensor in {what}().")
        sparse = [one if isinstance(one, SparseTensor) else None for one in first]
        lists = []
        for tensors in map(_listed, given):
            if [one.dtype if isinstance(one, SparseTensor) else None for one in tensors] != [
                None if one is None else one.dtype for one in sparse
            ]:
                raise TypeError(f"Expected types to be consistent, also of sparse tensors: {first} vs. {tensors}.")
            lists.append(
                [_packed(one, enqueue_many) if isinstance(one, SparseTensor) else _tensor(one) for one in tensors]
            )
        keep = _keep(keep_input, enqueue_many)
        dtypes = [one.dtype for one in lists[0]]
        for other in lists[1:]:
            if [one.dtype for one in other] != dtypes:
                raise TypeError(
                    f"Expected types to be consistent: {', '.join(map(name_of, dtypes))} vs. "
                    f"{', '.join(name_of(one.dtype) for one in other)}."
                )
        made = queue(dtypes, _joined_shapes(lists, enqueue_many, dynamic_pad) if shapes is None else shapes)
        add_queue_runner(QueueRunner(made, [_put(made, one, keep, enqueue_many) for one in lists] * copies))
        take = made.dequeue_up_to if allow_smaller_final_batch else made.dequeue_many
        taken = take(batch_size, name=scope)
        parts = [
            part if like is None else _unpacked(part, like, enqueue_many)
            for part, like in zip(taken if isinstance(taken, list) else [taken], sparse, strict=True)
        ]
    if keys is not None:
        return dict(zip(keys, parts, strict=True))
    return parts if len(parts) > 1 else parts[0]


def _in_order(capacity: int, dynamic_pad: bool, shared_name: str | None) -> Callable[[Any, Any], QueueBase]:
    kind = PaddingFIFOQueue if dynamic_pad else FIFOQueue
    return lambda dtypes, shapes: kind(capacity, dtypes, shapes, shared_name=shared_name)


def _in_random_order(
    capacity: int, min_after_dequeue: int, seed: int | None, shared_name: str | None
) -> Callable[[Any, Any], QueueBase]:
    if capacity <= min_after_dequeue:
        raise ValueError(f"capacity {capacity} must be bigger than min_after_dequeue {min_after_dequeue}.")
    return lambda dtypes, shapes: RandomShuffleQueue(
        capacity, min_after_dequeue, dtypes, shapes, seed=seed, shared_name=shared_name
    )


def batch(
    tensors: Any,
    batch_size: Any,
    num_threads: int = 1,
    capacity: int = 32,
    enqueue_many: bool = False,
    shapes: Any = None,
    dynamic_pad: bool = False,
    allow_smaller_final_batch: bool = False,
    shared_name: str | None = None,
    name: str | None = None,
) -> Any:
    """Return batches of what tensors are in one run after the other, which a runner's threads compute ahead.

    Parameters
    ----------
    tensors : list, tuple or dict of Tensor
        One example, or with `enqueue_many` several, along the first dimension of each.
    batch_size : int or Tensor
        Examples in a batch; may exceed `capacity`.
    num_threads : int, default 1
        With several, the order of examples is left free.
    capacity : int, default 32
        Of the queue.
    enqueue_many : bool, default False
    shapes : list of shapes, optional
        Of one example's components. Default: what is known of the tensors; it must be known whole without
        `dynamic_pad`.
    dynamic_pad : bool, default False
        Whether dimensions that are unknown may differ: they are padded to the largest in a batch.
    allow_smaller_final_batch : bool, default False
        Whether what is left at the end comes as a smaller batch. If not, it never comes.
    shared_name : str, optional
        As of the queues.
    name : str, optional

    Returns
    -------
    Tensor, list or dict
        As `tensors`, with one more dimension in front; bare for a list of one. Of a `SparseTensor` one whose other
        dimensions are the largest of the batch.

    Raises
    ------
    ValueError
        If there are no tensors, or their shapes are not known.
    TypeError
        If they are neither list nor dict.

    Notes
    -----
    A run that asks for a batch waits for it; at the end it gets an `OutOfRangeError`, whose ``__cause__`` is the error
    of the runner if that failed. Tensors that come from a reader are *lowered* where they can be, and then computed by
    native threads, without the GIL: see `lowering_report`.
    """
    return maybe_batch(
        tensors, True, batch_size, num_threads, capacity, enqueue_many, shapes, dynamic_pad, allow_smaller_final_batch,
        shared_name, name,
    )  # fmt: skip


def maybe_batch(
    tensors: Any,
    keep_input: Any,
    batch_size: Any,
    num_threads: int = 1,
    capacity: int = 32,
    enqueue_many: bool = False,
    shapes: Any = None,
    dynamic_pad: bool = False,
    allow_smaller_final_batch: bool = False,
    shared_name: str | None = None,
    name: str | None = None,
) -> Any:
    """As `batch`, of those examples only for which `keep_input` is true.

    Parameters
    ----------
    tensors : list, tuple or dict of Tensor
    keep_input : bool or Tensor
        A scalar: whether what this run computed is kept. A vector, with `enqueue_many` only: which rows.
    batch_size, num_threads, capacity, enqueue_many, shapes, dynamic_pad, allow_smaller_final_batch, shared_name, name
        As of `batch`.
    """
    return _batched(
        "batch", [tensors], num_threads, batch_size, keep_input, _in_order(capacity, dynamic_pad, shared_name),
        enqueue_many, shapes, dynamic_pad, allow_smaller_final_batch, name,
    )  # fmt: skip


def batch_join(
    tensors_list: Any,
    batch_size: Any,
    capacity: int = 32,
    enqueue_many: bool = False,
    shapes: Any = None,
    dynamic_pad: bool = False,
    allow_smaller_final_batch: bool = False,
    shared_name: str | None = None,
    name: str | None = None,
) -> Any:
    """As `batch`, of several lists or dicts of tensors, with a thread for each of them.

    Parameters
    ----------
    tensors_list : list of (list, tuple or dict of Tensor)
        With the same types, keys, and compatible shapes. Unlike in TensorFlow it doesn't matter which comes first: with
        `dynamic_pad` an example may have any of the shapes, without it all that is known of any of them holds.
    batch_size, capacity, enqueue_many, shapes, dynamic_pad, allow_smaller_final_batch, shared_name, name
        As of `batch`.
    """
    return maybe_batch_join(
        tensors_list, True, batch_size, capacity, enqueue_many, shapes, dynamic_pad, allow_smaller_final_batch,
        shared_name, name,
    )  # fmt: skip


def maybe_batch_join(
    tensors_list: Any,
    keep_input: Any,
    batch_size: Any,
    capacity: int = 32,
    enqueue_many: bool = False,
    shapes: Any = None,
    dynamic_pad: bool = False,
    allow_smaller_final_batch: bool = False,
    shared_name: str | None = None,
    name: str | None = None,
) -> Any:
    """As `batch_join`, of those examples only for which `keep_input` is true; see `maybe_batch`."""
    return _batched(
        "batch_join", tensors_list, 1, batch_size, keep_input, _in_order(capacity, dynamic_pad, shared_name),
        enqueue_many, shapes, dynamic_pad, allow_smaller_final_batch, name,
    )  # fmt: skip


def shuffle_batch(
    tensors: Any,
    batch_size: Any,
    capacity: int,
    min_after_dequeue: int,
    num_threads: int = 1,
    seed: int | None = None,
    enqueue_many: bool = False,
    shapes: Any = None,
    allow_smaller_final_batch: bool = False,
    shared_name: str | None = None,
    name: str | None = None,
) -> Any:
    """As `batch`, in random order.

    Parameters
    ----------
    tensors : list, tuple or dict of Tensor
    batch_size : int or Tensor
    capacity : int
        Of the `RandomShuffleQueue`; more than `min_after_dequeue`.
    min_after_dequeue : int
        How many examples stay in it, to choose from, until the data ends.
    num_threads : int, default 1
    seed : int, optional
        Of the order, paired with the graph's. With one thread the order is TensorFlow's own.
    enqueue_many, shapes, allow_smaller_final_batch, shared_name, name
        As of `batch`.

    Raises
    ------
    ValueError
        As of `batch`, or if the capacity is too small.
    """
    return maybe_shuffle_batch(
        tensors, batch_size, capacity, min_after_dequeue, True, num_threads, seed, enqueue_many, shapes,
        allow_smaller_final_batch, shared_name, name,
    )  # fmt: skip


def maybe_shuffle_batch(
    tensors: Any,
    batch_size: Any,
    capacity: int,
    min_after_dequeue: int,
    keep_input: Any,
    num_threads: int = 1,
    seed: int | None = None,
    enqueue_many: bool = False,
    shapes: Any = None,
    allow_smaller_final_batch: bool = False,
    shared_name: str | None = None,
    name: str | None = None,
) -> Any:
    """As `shuffle_batch`, of those examples only for which `keep_input` is true; see `maybe_batch`."""
    return _batched(
        "shuffle_batch", [tensors], num_threads, batch_size, keep_input,
        _in_random_order(capacity, min_after_dequeue, seed, shared_name), enqueue_many, shapes, False,
        allow_smaller_final_batch, name,
    )  # fmt: skip


def shuffle_batch_join(
    tensors_list: Any,
    batch_size: Any,
    capacity: int,
    min_after_dequeue: int,
    seed: int | None = None,
    enqueue_many: bool = False,
    shapes: Any = None,
    allow_smaller_final_batch: bool = False,
    shared_name: str | None = None,
    name: str | None = None,
) -> Any:
    """As `shuffle_batch`, of several lists or dicts of tensors, with a thread for each of them; see `batch_join`."""
    return maybe_shuffle_batch_join(
        tensors_list, batch_size, capacity, min_after_dequeue, True, seed, enqueue_many, shapes,
        allow_smaller_final_batch, shared_name, name,
    )  # fmt: skip


def maybe_shuffle_batch_join(
    tensors_list: Any,
    batch_size: Any,
    capacity: int,
    min_after_dequeue: int,
    keep_input: Any,
    seed: int | None = None,
    enqueue_many: bool = False,
    shapes: Any = None,
    allow_smaller_final_batch: bool = False,
    shared_name: str | None = None,
    name: str | None = None,
) -> Any:
    """As `shuffle_batch_join`, of those examples only for which `keep_input` is true; see `maybe_batch`."""
    return _batched(
        "shuffle_batch_join", tensors_list, 1, batch_size, keep_input,
        _in_random_order(capacity, min_after_dequeue, seed, shared_name), enqueue_many, shapes, False,
        allow_smaller_final_batch, name,
    )  # fmt: skip


def prefetch_queue(
    tensors: Any,
    capacity: int = 8,
    num_threads: int = 1,
    dynamic_pad: bool = False,
    shared_name: str | None = None,
    name: str | None = None,
) -> QueueBase:
    """Return a queue whose elements are what tensors are in one run after the other: batches, made ahead of their use.

    Parameters
    ----------
    tensors : list, tuple or dict of Tensor
        Their shapes must be known whole without `dynamic_pad`.
    capacity : int, default 8
    num_threads : int, default 1
        With several, the order is left free.
    dynamic_pad : bool, default False
    shared_name, name : str, optional

    Returns
    -------
    FIFOQueue or PaddingFIFOQueue
        Of a dict with the keys as its names, sorted. A runner fills it; `dequeue` is what a training step reads.

    Raises
    ------
    ValueError, TypeError
        As of `batch`.
    """
    names = sorted(tensors) if isinstance(tensors, Mapping) else None
    with get_default_graph().name_scope(name or "prefetch_queue"):
        parts = [_tensor(one) for one in (_listed(tensors) if names is None else [tensors[key] for key in names])]
        kind = PaddingFIFOQueue if dynamic_pad else FIFOQueue
        queue = kind(
            capacity, [one.dtype for one in parts], [one.shape for one in parts], names=names, shared_name=shared_name
        )
        op = queue.enqueue(parts if names is None else dict(zip(names, parts, strict=True)))
        add_queue_runner(QueueRunner(queue, [op] * num_threads))
        return queue
