"""Batches: examples that a runner's threads put into a queue, and that a run takes out together."""

from __future__ import annotations

import itertools
import pickle
from collections.abc import Callable, Mapping
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
from queuecore.tf1._graph.values import TensorShape, int64, joined, name_of, string
from queuecore.tf1._input.queues import FIFOQueue, PaddingFIFOQueue, QueueBase, RandomShuffleQueue
from queuecore.tf1._input.runners import fill
from queuecore.tf1._ops.sparse import SparseTensor

__all__ = [
    "batch",
    "batch_join",
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


def _lists(what: str, tensors_list: Any) -> tuple[list[Any] | None, list[list[Any]]]:
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
        raise ValueError(f"Expected at least one tensor in {what}().")
    sparse = [tensor.dtype if isinstance(tensor, SparseTensor) else None for tensor in lists[0]]
    for tensors in lists:
        if [tensor.dtype if isinstance(tensor, SparseTensor) else None for tensor in tensors] != sparse:
            raise TypeError(f"Expected types to be consistent, also of sparse tensors: {lists[0]} vs. {tensors}.")
        for tensor in tensors:
            if hasattr(tensor, "_fetch") and not isinstance(tensor, SparseTensor):
                raise UnimplementedError(_SEVERAL.format(tensor))
    return keys, lists


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
    keys, lists = _lists(what, tensors_list)
    sparse = [tensor if isinstance(tensor, SparseTensor) else None for tensor in lists[0]]
    with get_default_graph().name_scope(name or what) as scope:
        lists = [
            [
                _packed(tensor, enqueue_many) if isinstance(tensor, SparseTensor) else convert_to_tensor(tensor)
                for tensor in tensors
            ]
            for tensors in lists
        ]
        # The constant is there even if all are kept: seeds of later operations count how many are in the graph.
        kept = convert_to_tensor(keep_input)
        keep = None if keep_input is True else _keep(kept, enqueue_many)
        dtypes = [tensor.dtype for tensor in lists[0]]
        for other in lists[1:]:
            if [tensor.dtype for tensor in other] != dtypes:
                raise TypeError(
                    f"Expected types to be consistent: {', '.join(map(name_of, dtypes))} vs. "
                    f"{', '.join(name_of(tensor.dtype) for tensor in other)}."
                )
        if shapes is None:
            # A queue that pads takes the facts that hold for all lists; others need every side, known from any list.
            for tensor in itertools.chain(*lists):
                if tensor.shape.sides is None:
                    raise ValueError(f"Cannot infer Tensor's rank: {tensor}")
            examples = [
                [row_shape(tensor) if enqueue_many else tensor.shape for tensor in tensors] for tensors in lists
            ]
            shapes = [joined(each, dynamic_pad) for each in zip(*examples, strict=True)]
        made = queue(dtypes, shapes)
        if keep is not None:
            lists = [_kept_rows(tensors, keep, enqueue_many) for tensors in lists]
        put = made.enqueue if keep is None and not enqueue_many else made.enqueue_many
        fill(made, [put(tensors) for tensors in lists], copies, told=True)
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
    """As `batch`, but only examples for which `keep_input` is true.

    Parameters
    ----------
    tensors : list, tuple or dict of Tensor
    keep_input : bool or Tensor
        A scalar: whether the example of this run is kept. A vector, with `enqueue_many` only: which rows are kept.
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
    """As `batch_join`, but only examples for which `keep_input` is true; see `maybe_batch`."""
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
    """As `shuffle_batch`, but only examples for which `keep_input` is true; see `maybe_batch`."""
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
    """As `shuffle_batch_join`, but only examples for which `keep_input` is true; see `maybe_batch`."""
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
        fill(queue, [op], num_threads, told=True)
        return queue
