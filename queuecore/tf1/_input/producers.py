"""Producers: queues of file names, of numbers and of rows, which runners fill epoch after epoch."""

from __future__ import annotations

import glob
import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from queuecore._io.names import matches, name_to_read
from queuecore.errors import InvalidArgumentError, OutOfRangeError
from queuecore.tf1._graph.graph import (
    GraphKeys,
    Tensor,
    apply_op,
    constant_value,
    control_dependencies,
    convert_to_tensor,
    get_default_graph,
    listed,
    row_shape,
)
from queuecore.tf1._graph.values import TensorShape, string
from queuecore.tf1._input.queues import FIFOQueue, QueueBase
from queuecore.tf1._input.runners import fill
from queuecore.tf1._ops.math import identity
from queuecore.tf1._ops.random import random_shuffle
from queuecore.tf1._ops.variables import Variable, cell_of, read

__all__ = [
    "input_producer",
    "limit_epochs",
    "match_filenames_once",
    "range_input_producer",
    "slice_input_producer",
    "string_input_producer",
]


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
    pattern_tensor = convert_to_tensor(pattern, string)

    def kernel(_: Any, patterns: Any) -> Any:
        names = sorted(name for text in np.ravel(np.array(patterns, object)) for name in _matches(text))
        found = np.empty(len(names), object)
        found[:] = names
        return found

    matching = apply_op("MatchingFiles", [pattern_tensor], string, (None,), kernel, None, pure=False)
    return Variable(
        matching,
        trainable=False,
        collections=[GraphKeys.LOCAL_VARIABLES],
        validate_shape=False,
        name=name or "matching_filenames",
    )


def _matches(pattern: bytes) -> list[bytes]:
    names = matches(pattern, hidden=True)
    pattern = name_to_read(pattern)
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
            cell = cell_of(epochs, run)
            with cell.lock:
                count = read(epochs, run)
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
        That of a summary of how full the queue is; without one there is none.
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
    with get_default_graph().name_scope(name or "input_producer"):
        tensor = convert_to_tensor(input_tensor)
        row = row_shape(tensor).merge_with(element_shape)
        if not row.is_fully_defined():
            raise ValueError(
                "Either `input_tensor` must have a fully defined shape or `element_shape` must be specified"
            )
        if num_epochs is None:
            tensor = _with_rows(tensor, "there are no rows, so without num_epochs nothing would ever come of them")
        if shuffle:
            tensor = random_shuffle(tensor, seed=seed)
        tensor = limit_epochs(tensor, num_epochs)
        queue = FIFOQueue(capacity, [tensor.dtype], [row], shared_name=shared_name, name=name)  # type: ignore[arg-type]
        fill(queue, [queue.enqueue_many([tensor])], cancel_op=cancel_op, summary=summary_name or False)
        return queue


def _with_rows(tensor: Tensor, message: str) -> Tensor:
    # The same, refused by a run if it has no rows.
    if tensor.shape.sides and tensor.shape.sides[0]:
        return tensor

    def kernel(value: Any) -> Any:
        if len(value) == 0:
            raise InvalidArgumentError(message)
        return value

    return apply_op("Assert", [tensor], tensor.dtype, tensor.shape, kernel, None)


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
        row_shape(given)
        given = _with_rows(given, "string_input_producer requires a non-null input tensor: there are no strings")
        level = f"fraction_of_{capacity}_full"
        return input_producer(given, [], num_epochs, shuffle, seed, capacity, shared_name, level, scope, cancel_op)


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
        level = f"fraction_of_{capacity}_full"
        return input_producer(_range(limit), [], num_epochs, shuffle, seed, capacity, shared_name, level, scope)


def _range(limit: Any) -> Tensor:
    limit_tensor = convert_to_tensor(limit)

    def kernel(end: Any) -> Any:
        if end < 0:
            raise InvalidArgumentError(f"Requires start <= limit when delta > 0: 0/{end}")
        return np.arange(end, dtype=limit_tensor.dtype)

    known = constant_value(limit_tensor)
    if known is not None:
        return convert_to_tensor(kernel(known), name="range")
    return apply_op("Range", [limit_tensor], limit_tensor.dtype, (None,), kernel, "range")


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
        tensors = [convert_to_tensor(tensor) for tensor in listed(tensor_list)]
        if not tensors:
            raise ValueError("Expected at least one tensor in slice_input_producer().")
        rows = TensorShape([None])
        for tensor in tensors:
            row_shape(tensor)
            if tensor.shape.sides is not None:
                rows = rows.merge_with([tensor.shape.sides[0]])
        known = all(tensor.shape.sides and tensor.shape.sides[0] is not None for tensor in tensors)
        limit = rows.as_list()[0] if known else apply_op("Rows", tensors, np.int32, (), _common_length, None)
        queue = range_input_producer(limit, num_epochs, shuffle, seed, capacity, shared_name)
        index = queue.dequeue()
        return [
            apply_op("GatherV2", [tensor, index], tensor.dtype, tensor.shape[1:], lambda x, at: x[at], None)
            for tensor in tensors
        ]


def _common_length(*values: Any) -> Any:
    lengths = [len(value) for value in values]
    if len(set(lengths)) > 1:
        raise InvalidArgumentError(f"the tensors of a slice_input_producer have different numbers of rows: {lengths}")
    return np.int32(lengths[0])
