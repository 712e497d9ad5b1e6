"""Batches: examples that a runner's threads put into a queue, and that a run takes out together."""

from __future__ import annotations

import bisect
import itertools
import pickle
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from queuecore.errors import UnimplementedError
from queuecore.tf1._graph.graph import (
    Tensor,
    apply_op,
    constant_value,
    convert_to_tensor,
    get_default_graph,
    listed,
    row_shape,
)
from queuecore.tf1._graph.values import DType, TensorShape, as_dtype, int64, joined, name_of, string
from queuecore.tf1._input.queues import FIFOQueue, PaddingFIFOQueue, QueueBase, RandomShuffleQueue
from queuecore.tf1._input.runners import fill
from queuecore.tf1._ops import summaries
from queuecore.tf1._ops.math import cast
from queuecore.tf1._ops.sparse import SparseTensor
from queuecore.tf1._ops.variables import group

__all__ = [
    "batch",
    "batch_join",
    "bucket",
    "bucket_by_sequence_length",
    "maybe_batch",
    "maybe_batch_join",
    "maybe_shuffle_batch",
    "maybe_shuffle_batch_join",
    "prefetch_queue",
    "shuffle_batch",
    "shuffle_batch_join",
]

_SEVERAL = "{!r} is made of several tensors, and a queue's component is one. Give its parts, or make it dense"

# A sparse tensor goes through a queue as one string, which only this module reads.


def _packed(sparse: SparseTensor, enqueue_many: bool) -> Tensor:
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

    side = (sparse.shape.sides or (None,))[0]
    return apply_op(
        "SerializeSparse", [sparse.indices, sparse.values, sparse.dense_shape], string,
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
    integers = int64
    outputs = [(integers, (None, width)), (like.dtype, (None,)), (integers, (width,))]
    op = get_default_graph().create_op("DeserializeSparse", [strings], outputs, kernel, None, pure=True)
    return SparseTensor(*op.outputs)


def _keep(keep: Tensor, enqueue_many: bool) -> Tensor | None:
    # The tensor that says which examples are kept; `None` if all are.
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


def _kept_rows(tensors: list[Tensor], keep: Tensor, enqueue_many: bool) -> list[Tensor]:
    # An example that isn't kept becomes no rows at all.
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
    return rows


def _as_row(value: Any) -> Any:
    if isinstance(value, bytes):
        return np.array([value], object)
    return np.asarray(value)[None]


def _lists(function_name: str, tensors_list: Any) -> tuple[list[Any] | None, list[list[Any]]]:
    # The keys of dicts, and the components of each example, of the same kinds.
    examples = listed(tensors_list)
    if not examples:
        raise ValueError("Expected at least one set of tensors")
    keys: list[Any] | None = None
    if any(isinstance(example, Mapping) for example in examples):
        if not all(isinstance(example, Mapping) for example in examples) or any(
            set(example) != set(examples[0]) for example in examples
        ):
            raise ValueError("All dictionaries in tensors_list must have the same keys")
        keys = sorted(examples[0])
        examples = [[example[key] for key in keys] for example in examples]
    lists = [listed(tensors) for tensors in examples]
    if not lists[0]:
        raise ValueError(f"Expected at least one tensor in {function_name}().")
    sparse = [tensor.dtype if isinstance(tensor, SparseTensor) else None for tensor in lists[0]]
    for tensors in lists:
        if [tensor.dtype if isinstance(tensor, SparseTensor) else None for tensor in tensors] != sparse:
            raise TypeError(f"Expected types to be consistent, also of sparse tensors: {lists[0]} vs. {tensors}.")
        for tensor in tensors:
            if hasattr(tensor, "_fetch") and not isinstance(tensor, SparseTensor):
                raise UnimplementedError(_SEVERAL.format(tensor))
    return keys, lists


@dataclass(frozen=True)
class _Batching:
    # The arguments that all functions of batches have.
    batch_size: Any
    keep_input: Any
    enqueue_many: bool
    shapes: Any
    dynamic_pad: bool
    allow_smaller_final_batch: bool
    name: str | None

    def batches(self, what: str, tensors_list: Any, copies: int, queue: Callable[[Any, Any], QueueBase]) -> Any:
        """Return the batches that function `what` returns: each list fills the queue, in so many threads."""
        keys, lists = _lists(what, tensors_list)
        sparse = [tensor if isinstance(tensor, SparseTensor) else None for tensor in lists[0]]
        with get_default_graph().name_scope(self.name or what) as scope:
            lists = [[self._tensor(tensor) for tensor in tensors] for tensors in lists]
            # The constant is there even if all are kept: seeds of later operations count how many are in the graph.
            kept = convert_to_tensor(self.keep_input)
            keep = None if self.keep_input is True else _keep(kept, self.enqueue_many)
            made = queue(_same_dtypes(lists), self._shapes_of(lists) if self.shapes is None else self.shapes)
            if keep is not None:
                lists = [_kept_rows(tensors, keep, self.enqueue_many) for tensors in lists]
            put = made.enqueue if keep is None and not self.enqueue_many else made.enqueue_many
            fill(made, [put(tensors) for tensors in lists], copies, summary=True)
            take = made.dequeue_up_to if self.allow_smaller_final_batch else made.dequeue_many
            taken = take(self.batch_size, name=scope)
            parts = [
                part if like is None else _unpacked(part, like, self.enqueue_many)
                for part, like in zip(taken if isinstance(taken, list) else [taken], sparse, strict=True)
            ]
        if keys is not None:
            return dict(zip(keys, parts, strict=True))
        return parts if len(parts) > 1 else parts[0]

    def _tensor(self, value: Any) -> Tensor:
        return _packed(value, self.enqueue_many) if isinstance(value, SparseTensor) else convert_to_tensor(value)

    def _shapes_of(self, lists: list[list[Tensor]]) -> list[TensorShape]:
        # A queue that pads takes the facts that hold for all lists; others need every side, known from any list.
        for tensor in itertools.chain(*lists):
            if tensor.shape.sides is None:
                raise ValueError(f"Cannot infer Tensor's rank: {tensor}")
        examples = [
            [row_shape(tensor) if self.enqueue_many else tensor.shape for tensor in tensors] for tensors in lists
        ]
        return [joined(each, self.dynamic_pad) for each in zip(*examples, strict=True)]


def _same_dtypes(lists: list[list[Tensor]]) -> list[DType]:
    dtypes = [tensor.dtype for tensor in lists[0]]
    for other in lists[1:]:
        if [tensor.dtype for tensor in other] != dtypes:
            raise TypeError(
                f"Expected types to be consistent: {', '.join(map(name_of, dtypes))} vs. "
                f"{', '.join(name_of(tensor.dtype) for tensor in other)}."
            )
    return dtypes


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
    """Return batches of the tensors' values in successive runs, which a runner's threads compute ahead.

    Parameters
    ----------
    tensors : list, tuple or dict of Tensor
        One example, or with `enqueue_many` several, along the first dimension of each.
    batch_size : int or Tensor
        Examples in a batch; may exceed `capacity`.
    num_threads : int, default 1
        With several threads, the order of examples is not defined.
    capacity : int, default 32
        Of the queue.
    enqueue_many : bool, default False
    shapes : list of shapes, optional
        Of one example's components. Default: what is known of the tensors; it must be known whole without
        `dynamic_pad`.
    dynamic_pad : bool, default False
        Whether dimensions that are unknown may differ: they are padded to the largest in a batch.
    allow_smaller_final_batch : bool, default False
        Whether the examples left at the end form a smaller batch. If not, they are dropped.
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
    how = _Batching(batch_size, True, enqueue_many, shapes, dynamic_pad, allow_smaller_final_batch, name)
    return how.batches("batch", [tensors], num_threads, _in_order(capacity, dynamic_pad, shared_name))


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
    """As `batch`, but only examples for which `keep_input` is true.

    Parameters
    ----------
    tensors : list, tuple or dict of Tensor
    keep_input : bool or Tensor
        A scalar: whether the example of this run is kept. A vector, with `enqueue_many` only: which rows are kept.
    batch_size, num_threads, capacity, enqueue_many, shapes, dynamic_pad, allow_smaller_final_batch, shared_name, name
        As of `batch`.
    """
    how = _Batching(batch_size, keep_input, enqueue_many, shapes, dynamic_pad, allow_smaller_final_batch, name)
    return how.batches("batch", [tensors], num_threads, _in_order(capacity, dynamic_pad, shared_name))


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
    how = _Batching(batch_size, True, enqueue_many, shapes, dynamic_pad, allow_smaller_final_batch, name)
    return how.batches("batch_join", tensors_list, 1, _in_order(capacity, dynamic_pad, shared_name))


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
    """As `batch_join`, but only examples for which `keep_input` is true; see `maybe_batch`."""
    how = _Batching(batch_size, keep_input, enqueue_many, shapes, dynamic_pad, allow_smaller_final_batch, name)
    return how.batches("batch_join", tensors_list, 1, _in_order(capacity, dynamic_pad, shared_name))


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
    how = _Batching(batch_size, True, enqueue_many, shapes, False, allow_smaller_final_batch, name)
    queue = _in_random_order(capacity, min_after_dequeue, seed, shared_name)
    return how.batches("shuffle_batch", [tensors], num_threads, queue)


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
    """As `shuffle_batch`, but only examples for which `keep_input` is true; see `maybe_batch`."""
    how = _Batching(batch_size, keep_input, enqueue_many, shapes, False, allow_smaller_final_batch, name)
    queue = _in_random_order(capacity, min_after_dequeue, seed, shared_name)
    return how.batches("shuffle_batch", [tensors], num_threads, queue)


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
    how = _Batching(batch_size, True, enqueue_many, shapes, False, allow_smaller_final_batch, name)
    queue = _in_random_order(capacity, min_after_dequeue, seed, shared_name)
    return how.batches("shuffle_batch_join", tensors_list, 1, queue)


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
    """As `shuffle_batch_join`, but only examples for which `keep_input` is true; see `maybe_batch`."""
    how = _Batching(batch_size, keep_input, enqueue_many, shapes, False, allow_smaller_final_batch, name)
    queue = _in_random_order(capacity, min_after_dequeue, seed, shared_name)
    return how.batches("shuffle_batch_join", tensors_list, 1, queue)


def prefetch_queue(
    tensors: Any,
    capacity: int = 8,
    num_threads: int = 1,
    dynamic_pad: bool = False,
    shared_name: str | None = None,
    name: str | None = None,
) -> QueueBase:
    """Return a queue of the tensors' values in successive runs: batches, made ahead of their use.

    Parameters
    ----------
    tensors : list, tuple or dict of Tensor
        Their shapes must be known whole without `dynamic_pad`.
    capacity : int, default 8
    num_threads : int, default 1
        With several threads, the order is not defined.
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
        given = listed(tensors) if names is None else [tensors[key] for key in names]
        for value in given:
            if hasattr(value, "_fetch"):
                raise UnimplementedError(_SEVERAL.format(value))
        parts = [convert_to_tensor(value) for value in given]
        kind = PaddingFIFOQueue if dynamic_pad else FIFOQueue
        queue = kind(
            capacity, [one.dtype for one in parts], [one.shape for one in parts], names=names, shared_name=shared_name
        )
        op = queue.enqueue(parts if names is None else dict(zip(names, parts, strict=True)))
        fill(queue, [op], num_threads, summary=True)
        return queue


class _Shelf:
    # All buckets, of a graph or of a session, as what one runner fills: if that fails, each of them has its error.
    def __init__(self, queues: Sequence[Any]) -> None:
        self.name = queues[0].name
        self._queues = queues

    def of(self, session: Any) -> _Shelf:
        return _Shelf([queue.of(session) for queue in self._queues])

    def is_closed(self) -> bool:
        return all(queue.is_closed() for queue in self._queues)

    def _fail(self, error: BaseException) -> None:
        for queue in self._queues:
            queue._fail(error)


def _sorted_into(queues: Sequence[QueueBase], bucket_index: Tensor, keep: Tensor, parts: list[Tensor]) -> Any:
    # One operation for all buckets: only that of the example's own one runs.
    puts = [queue.enqueue(parts) for queue in queues]

    def kernel(run: Any, index: Any, kept: Any, *values: Any) -> None:
        if kept and 0 <= index < len(puts):
            puts[index].kernel(run, *values)

    return bucket_index.graph.create_op(
        "BucketEnqueue", [bucket_index, keep, *parts], [], kernel, "group_enqueues", blocking=True
    )  # fmt: skip


def bucket(
    tensors: Any,
    which_bucket: Any,
    batch_size: Any,
    num_buckets: int,
    num_threads: int = 1,
    capacity: int = 32,
    bucket_capacities: Any = None,
    shapes: Any = None,
    dynamic_pad: bool = False,
    allow_smaller_final_batch: bool = False,
    keep_input: Any = True,
    shared_name: str | None = None,
    name: str | None = None,
) -> tuple[Tensor, Any]:
    """Return batches of examples that belong together, such as those of about the same length.

    Parameters
    ----------
    tensors : list, tuple or dict of Tensor
        One example.
    which_bucket : Tensor of int32, scalar
        The bucket that the example goes into; outside of ``[0, num_buckets)`` the example is dropped.
    batch_size : int, Tensor, or list of them
        Examples in a batch, of all buckets or of each.
    num_buckets : int
    num_threads : int, default 1
        Threads that compute examples. With several, the order of examples in a bucket is not defined.
    capacity : int, default 32
        How many batches are kept ready, and how many examples each bucket holds.
    bucket_capacities : list of int, optional
        How many examples each bucket holds.
    shapes, dynamic_pad, shared_name, name
        As of `batch`. Examples are padded to the largest of their own batch.
    allow_smaller_final_batch : bool, default False
        Whether what is left in each bucket at the end forms a smaller batch. If not, it is dropped.
    keep_input : bool or Tensor of bool, scalar
        Whether the example of a run is kept.

    Returns
    -------
    bucket : Tensor of int32, scalar
        The bucket that the batch of a run comes from.
    outputs : list or dict of Tensor
        As `tensors`, with one more dimension in front. Its size is known if all buckets have the same one, and no
        batch may be smaller.

    Raises
    ------
    ValueError
        If there are no tensors or buckets, shapes are not known, a list hasn't one item for each bucket, or
        `which_bucket` is a tensor of another type.
    TypeError
        If the tensors are neither list nor dict, or `keep_input` isn't of bool.

    Notes
    -----
    Each bucket is a queue; a thread for each moves its full batches into one more queue. A run waits for a batch of any
    bucket, and gets an `OutOfRangeError` at the end of the data. Unlike in TensorFlow, whose queue of batches closes
    with the input, all batches that are in the buckets then still come.
    """
    sizes = list(batch_size) if isinstance(batch_size, (list, tuple)) else [batch_size] * num_buckets
    capacities = [capacity] * num_buckets if bucket_capacities is None else list(bucket_capacities)
    if num_buckets < 1:
        raise ValueError(f"num_buckets must be at least 1, not {num_buckets}")
    if len(sizes) != num_buckets:
        raise ValueError(f"If batch_size is a list it must have num_buckets elements: {sizes}, {num_buckets}")
    if len(capacities) != num_buckets:
        raise ValueError(
            f"The list bucket_capacities ({capacities}) must have exactly num_buckets ({num_buckets}) elements."
        )
    keys, (components,) = _lists("bucket", [tensors])
    graph = get_default_graph()
    with graph.name_scope(name or "bucket"):
        parts = [
            _packed(part, False) if isinstance(part, SparseTensor) else convert_to_tensor(part) for part in components
        ]
        keep = convert_to_tensor(keep_input)
        _keep(keep, False)
        bucket_index = convert_to_tensor(which_bucket, np.int32)
        bucket_index.shape.assert_has_rank(0)
        for part in parts:
            if shapes is None and part.shape.sides is None:
                raise ValueError(f"Cannot infer Tensor's rank: {part}")
        sides = [part.shape for part in parts] if shapes is None else shapes
        dtypes = [part.dtype for part in parts]
        kind = PaddingFIFOQueue if dynamic_pad else FIFOQueue
        queues = [
            kind(most, dtypes, sides, shared_name=shared_name and f"{shared_name}_{index}",
                 name=f"bucket_queue_{index}")
            for index, most in enumerate(capacities)
        ]  # fmt: skip
        put = _sorted_into(queues, bucket_index, keep, parts)
        # The buckets close together, once no thread fills any of them; their batches' queue, once all are empty.
        shelf: Any = _Shelf(queues)
        fill(shelf, [put], num_threads, group(*[queue.close(cancel_pending_enqueues=True) for queue in queues]),
             close_op=group(*[queue.close() for queue in queues]))  # fmt: skip
        one_size = None if allow_smaller_final_batch or isinstance(batch_size, (list, tuple)) else sizes[0]
        rows = TensorShape([None if one_size is None else constant_value(convert_to_tensor(one_size, np.int32))])
        top = PaddingFIFOQueue(
            capacity, [as_dtype(np.int32), *dtypes], [(), *(rows.concatenate(shape) for shape in queues[0].shapes)],
            shared_name=shared_name, name="top_queue",
        )  # fmt: skip
        moves = []
        for index, (queue, size) in enumerate(zip(queues, sizes, strict=True)):
            take = queue.dequeue_up_to if allow_smaller_final_batch else queue.dequeue_many
            taken = take(size, name=f"read_bucket_{index}")
            batch_parts = taken if isinstance(taken, list) else [taken]
            moves.append(top.enqueue([np.int32(index), *batch_parts], name=f"enqueue_from_bucket_{index}"))
            summaries.scalar(f"bucket/{queue.name}/size", cast(queue.size(), np.float32))
        fill(top, moves, summary=f"bucket/{top.name}/fraction_of_{capacity}_full")
        index_of, *batches = top.dequeue(name="dequeue_top")
        for at, part in enumerate(components):
            if isinstance(part, SparseTensor):
                batches[at] = _unpacked(batches[at], part, False)
    return index_of, batches if keys is None else dict(zip(keys, batches, strict=True))


def bucket_by_sequence_length(
    input_length: Any,
    tensors: Any,
    batch_size: Any,
    bucket_boundaries: Any,
    num_threads: int = 1,
    capacity: int = 32,
    bucket_capacities: Any = None,
    shapes: Any = None,
    dynamic_pad: bool = False,
    allow_smaller_final_batch: bool = False,
    keep_input: Any = True,
    shared_name: str | None = None,
    name: str | None = None,
) -> tuple[Tensor, Any]:
    """Return batches of examples of about the same length: `bucket`, by boundaries of lengths.

    Parameters
    ----------
    input_length : Tensor of int32, scalar
        The example's length.
    tensors : list, tuple or dict of Tensor
        One example.
    batch_size : int, Tensor, or list of them
        Of a list, one for each bucket: one more than there are boundaries.
    bucket_boundaries : list of int
        Increasing. A length is in the bucket of the first boundary that is larger than it, or in the last bucket.
    num_threads, capacity, bucket_capacities, shapes, dynamic_pad, allow_smaller_final_batch, keep_input, shared_name
        As of `bucket`.
    name : str, optional

    Returns
    -------
    sequence_length : Tensor of int32, shape (batch,)
        The lengths.
    outputs : list or dict of Tensor
        As of `bucket`.

    Raises
    ------
    TypeError
        If the boundaries are no list of integers, or as of `bucket`.
    ValueError
        If there are none, or they don't increase, or as of `bucket`.
    """
    if not isinstance(bucket_boundaries, (list, tuple)):
        raise TypeError(f"bucket_boundaries must be a list or tuple, but received: {bucket_boundaries}")
    if not bucket_boundaries:
        raise ValueError("bucket_boundaries must not be empty")
    if not all(isinstance(boundary, (int, np.integer)) for boundary in bucket_boundaries):
        raise TypeError(f"bucket boundaries must be integers, but saw: {bucket_boundaries}")
    for low, high in itertools.pairwise(bucket_boundaries):
        if low >= high:
            raise ValueError(f"Buckets must contain sequential increasing lengths, but saw: {low} before {high}")
    bounds = list(bucket_boundaries)
    keys, (components,) = _lists("bucket", [tensors])
    with get_default_graph().name_scope(name or "bucket_by_sequence_length"):
        length = convert_to_tensor(input_length, np.int32)
        which = apply_op(
            "Bucketize", [length], np.int32, (), lambda value: np.int32(bisect.bisect_right(bounds, value)), None
        )
        _, (lengths, *batches) = bucket(
            [length, *components], which, batch_size, len(bounds) + 1, num_threads, capacity, bucket_capacities,
            None if shapes is None else [TensorShape([]), *shapes], dynamic_pad, allow_smaller_final_batch, keep_input,
            shared_name,
        )  # fmt: skip
    return lengths, batches if keys is None else dict(zip(keys, batches, strict=True))
