"""Sampling: batches of examples of which each is kept at random, by a probability of its own or of its class."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from queuecore.errors import InvalidArgumentError
from queuecore.tf1._graph.graph import (
    Operation,
    Tensor,
    apply_op,
    constant_value,
    convert_to_tensor,
    folded_value,
    get_default_graph,
    listed,
)
from queuecore.tf1._graph.values import float32, int64
from queuecore.tf1._input.batches import batch, maybe_batch
from queuecore.tf1._ops import checks
from queuecore.tf1._ops.arrays import expand_dims, gather, one_hot, shape, squeeze
from queuecore.tf1._ops.control import Print, cond, summarized
from queuecore.tf1._ops.math import cast, identity, less, reduce_sum
from queuecore.tf1._ops.random import random_uniform
from queuecore.tf1._ops.variables import Variable, variable_scope

__all__ = ["rejection_sample", "stratified_sample"]

# How far from 1 the sum of probabilities may be.
_TOLERANCE = 1e-6
# Of each class so many are counted before the first one is seen: the first estimates are about even.
_SEEN_BEFORE = 10


def _after(checks_of: Sequence[Operation], tensor: Tensor, name: str | None = None) -> Tensor:
    with tensor.graph.control_dependencies(checks_of):
        same: Tensor = identity(tensor, name)
    return same


def _singles(tensors: list[Tensor], capacity: int, threads: int) -> list[Tensor]:
    # Single examples, of tensors with several.
    rows = batch(tensors, 1, threads, capacity, enqueue_many=True)
    return [squeeze(row, [0]) for row in (rows if isinstance(rows, list) else [rows])]


def _kept(tensors: list[Tensor], probability: Tensor, batch_size: Any, threads: int) -> list[Tensor]:
    examples = maybe_batch(tensors, less(random_uniform([]), probability), batch_size, threads)
    return examples if isinstance(examples, list) else [examples]


def _check_rows(tensors: list[Tensor], like: Tensor) -> None:
    for tensor in tensors:
        rows = tensor.shape.with_rank_at_least(1)[:1]
        rows.assert_is_compatible_with(like.shape[:1])


def rejection_sample(
    tensors: Any,
    accept_prob_fn: Callable[[list[Tensor]], Any],
    batch_size: Any,
    queue_threads: int = 1,
    enqueue_many: bool = False,
    prebatch_capacity: int = 16,
    prebatch_threads: int = 1,
    runtime_checks: bool = False,
    name: str | None = None,
) -> list[Tensor]:
    """Return batches of examples of which each is kept with a probability that a function says.

    Parameters
    ----------
    tensors : list of Tensor
        One example, or with `enqueue_many` several, along the first dimension of each.
    accept_prob_fn : callable
        Takes the list of one example's tensors, and returns the probability that it is kept, a scalar of float32 in
        [0, 1]. Called once, now.
    batch_size : int or Tensor
    queue_threads : int, default 1
        Threads that compute probabilities and fill the queue of kept examples.
    enqueue_many : bool, default False
    prebatch_capacity, prebatch_threads : int, default 16 and 1
        Of the queue of single examples, with `enqueue_many`.
    runtime_checks : bool, default False
        Whether a probability outside of [0, 1] is an error.
    name : str, optional

    Returns
    -------
    list of Tensor, shape (batch_size, ...)

    Raises
    ------
    ValueError
        With `enqueue_many`, if a tensor is a scalar, or they have different numbers of rows.
    TypeError
        If the tensors are no list.
    InvalidArgumentError
        In a runner, with `runtime_checks`; a run that waits for a batch then gets an `OutOfRangeError` caused by it.

    Notes
    -----
    Two queues, or one, and their runners: see `queuecore.tf1.train.batch`.
    """
    with variable_scope(name, "rejection_sample"):
        examples = [convert_to_tensor(tensor) for tensor in listed(tensors)]
        if enqueue_many:
            _check_rows(examples, examples[0])
            examples = _singles(examples, prebatch_capacity, prebatch_threads)
        probability = convert_to_tensor(accept_prob_fn(examples))
        if runtime_checks:
            within = [checks.assert_less_equal(0.0, probability), checks.assert_less_equal(probability, 1.0)]
            probability = _after(within, probability, "prob_with_checks")
        return _kept(examples, probability, batch_size, queue_threads)


def stratified_sample(
    tensors: Any,
    labels: Any,
    target_probs: Any,
    batch_size: Any,
    init_probs: Any = None,
    enqueue_many: bool = False,
    queue_capacity: int = 16,
    threads_per_queue: int = 1,
    name: str | None = None,
) -> tuple[list[Tensor], Tensor]:
    """Return batches in which each class has a given share: of classes that are too frequent, examples are dropped.

    Parameters
    ----------
    tensors : list of Tensor
        One example, or with `enqueue_many` several, along the first dimension of each.
    labels : Tensor of integers
        The example's class, or with `enqueue_many` a vector of classes.
    target_probs : array or Tensor of float32, shape (classes,)
        The share of each class in the batches.
    batch_size : int or Tensor
    init_probs : array or Tensor of float32, shape (classes,), optional
        The share of each class in the data. Default: it is estimated from the examples so far, in a variable.
    enqueue_many : bool, default False
    queue_capacity : int, default 16
        Of the queue of single examples.
    threads_per_queue : int, default 1
        Threads for each of the two queues. With several, the order of examples is not defined.
    name : str, optional

    Returns
    -------
    data_batch : list of Tensor, shape (batch_size, ...)
    label_batch : Tensor, shape (batch_size,)

    Raises
    ------
    ValueError
        If labels or tensors have no such shapes; if shares aren't known to be vectors of one length; if those that are
        known are negative, don't sum to 1, or ask for a class that isn't in the data.
    TypeError
        If the tensors are no list.
    InvalidArgumentError
        In a runner, for the same, or if a label is no class; a run that waits for a batch then gets an
        `OutOfRangeError` caused by it.

    Notes
    -----
    Prints a warning, at most ten times, if more than half of the examples are dropped. The estimate counts examples as
    they enter the first queue: unlike in TensorFlow, none is read for it alone.
    """
    with get_default_graph().name_scope(name or "stratified_sample"):
        rows = [convert_to_tensor(tensor) for tensor in listed(tensors)]
        classes = convert_to_tensor(labels)
        target = convert_to_tensor(target_probs, float32)
        if not enqueue_many:
            rows = [expand_dims(tensor, 0) for tensor in rows]
            classes = expand_dims(classes, 0)
        share_checks = _share_checks(target)
        count = target.shape[0].value
        rows, classes = _checked(rows, classes, count)
        if init_probs is None:
            classes, initial = _counted(classes, count)
        else:
            initial = convert_to_tensor(init_probs, float32)
            share_checks += _share_checks(initial)
            if initial.shape[0].value != count:
                raise ValueError(f"Probability parameters must have the same length: {initial.shape}, {target.shape}")
        *values, label = _singles([*rows, classes], queue_capacity, threads_per_queue)
        rates = _acceptance(initial, target)
        folded_value(rates)  # raises now, if the shares are known and don't go together
        rates = _after(share_checks, rates)
        accepted = cond(
            less(reduce_sum((1 - rates) * initial), 0.5),
            lambda: rates,
            lambda: Print(rates, [rates], "Proportion of examples rejected by sampler is high.", first_n=10),
        )
        *batches, label_batch = _kept([*values, label], gather(accepted, label), batch_size, threads_per_queue)
    return batches, label_batch


def _share_checks(shares: Tensor) -> list[Operation]:
    shares.shape.assert_is_fully_defined()
    shares.shape.assert_has_rank(1)
    known = constant_value(shares)
    total = reduce_sum(shares) if known is None else convert_to_tensor(np.float32(np.sum(known)))
    message = "probabilities must sum to 1"
    return [
        checks.assert_non_negative(shares),
        checks.assert_less(total, 1.0 + _TOLERANCE, message=message),
        checks.assert_less(1.0 - _TOLERANCE, total, message=message),
    ]


def _checked(rows: list[Tensor], classes: Tensor, count: int) -> tuple[list[Tensor], Tensor]:
    classes.shape.assert_has_rank(1)
    checks.assert_integer(classes)
    _check_rows(rows, classes)
    number = shape(classes)[0]
    some = checks.assert_positive(number)
    same = [_after([some, checks.assert_equal(shape(row)[0], number)], row) for row in rows]
    within = [
        some, checks.assert_non_negative(classes), checks.assert_less(classes, cast(count, classes.dtype)),
    ]  # fmt: skip
    return same, _after(within, classes)


def _counted(classes: Tensor, count: int) -> tuple[Tensor, Tensor]:
    # The classes, counted when they are computed, and their shares so far.
    seen = Variable([_SEEN_BEFORE] * count, trainable=False, name="class_count", dtype=int64)
    counting = seen.assign_add(reduce_sum(one_hot(classes, count, dtype=int64), 0))
    shares = apply_op(
        "RealDiv", [seen.value()], float32, (count,), lambda numbers: (numbers / numbers.sum()).astype(np.float32), None
    )
    return _after([counting.op], classes), shares


def _acceptance(initial: Tensor, target: Tensor) -> Tensor:
    # Of the class that is wanted most, for what there is of it, all examples are kept.
    def kernel(have: Any, want: Any) -> Any:
        if np.any((have == 0) & (want != 0)):
            raise InvalidArgumentError(
                "All classes with zero initial probability must also have zero target probability: "
                f"[{summarized(have, -1)}] [{summarized(want, -1)}]"
            )
        ratios = np.divide(want, have, out=np.zeros_like(want), where=have > 0)
        return ratios / ratios.max()

    return apply_op("AcceptanceRates", [initial, target], float32, target.shape, kernel, None)
