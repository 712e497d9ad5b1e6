"""Resampling: the rows of a batch, each as often as a random number says."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from queuecore.errors import InvalidArgumentError
from queuecore.tf1._graph.graph import Tensor, apply_op, convert_to_tensor, get_default_graph
from queuecore.tf1._graph.values import int32
from queuecore.tf1._ops.arrays import gather
from queuecore.tf1._ops.math import pow_, reduce_mean
from queuecore.tf1._ops.random import random_poisson
from queuecore.tf1._ops.variables import get_local_variable, get_variable, variable_scope

__all__ = ["resample_at_rate", "weighted_resample"]


def resample_at_rate(
    inputs: Sequence[Any], rates: Any, scope: str | None = None, seed: int | None = None, back_prop: bool = False
) -> list[Tensor]:
    """Return the rows of tensors, each repeated at random, as often on average as its rate says.

    Parameters
    ----------
    inputs : list of Tensor, shape (batch, ...)
    rates : Tensor of floats, shape (batch,)
        How often each row is expected. The numbers follow Poisson's distribution.
    scope : str, optional
        Name of the operations.
    seed : int, optional
    back_prop : bool, default False
        Accepted, and not used.

    Returns
    -------
    list of Tensor, shape (rows, ...)
        The same rows of each, in their order; none is possible, too.

    Raises
    ------
    InvalidArgumentError
        In a run, if a rate is negative or not finite.
    """
    del back_prop

    def kernel(counts: Any) -> Any:
        if np.isnan(counts).any():
            raise InvalidArgumentError("resample_at_rate: rates must be finite, and not negative")
        return np.repeat(np.arange(len(counts), dtype=np.int32), counts.astype(np.int64))

    with get_default_graph().name_scope(scope or "resample_at_rate"):
        row_rates = convert_to_tensor(rates)
        counts = random_poisson(row_rates, (), row_rates.dtype, seed)
        indices = apply_op("RepeatRange", [counts], int32, (None,), kernel, "repeat_range")
        return [gather(rows, indices) for rows in inputs]


def weighted_resample(
    inputs: Sequence[Any], weights: Any, overall_rate: Any, scope: str | None = None, mean_decay: float = 0.999,
    seed: int | None = None,
) -> tuple[list[Tensor], Tensor]:  # fmt: skip
    """Return the rows of tensors, repeated at random, each as often as its weight says in relation to the mean one.

    Parameters
    ----------
    inputs : list of Tensor, shape (batch, ...)
    weights : Tensor of floats, shape (batch,)
    overall_rate : number or Tensor
        How often a row is expected on average, over many runs.
    scope : str, optional
        Name of the operations and variables.
    mean_decay : float, default 0.999
        How much of the estimated mean weight a run keeps.
    seed : int, optional

    Returns
    -------
    resampled : list of Tensor, shape (rows, ...)
    rates : Tensor, shape (rows,)
        How often each returned row was expected: rows that are weighted by ``1 / rates`` stand for all rows.

    Notes
    -----
    The mean of all weights is estimated in variables, local and global: their initializers must run before. It is the
    mean of the runs so far; later ones count more.
    """
    with get_default_graph().name_scope(scope or "weighted_resample") as full:
        each_weight = convert_to_tensor(weights)
        with variable_scope(scope, "estimate_mean"):
            mean = _mean_so_far(reduce_mean(each_weight), mean_decay)
        rates = each_weight * overall_rate / mean
        each_rate, *resampled = resample_at_rate([rates, *inputs], rates, full, seed)
    return resampled, each_rate


def _mean_so_far(value: Tensor, decay: float) -> Tensor:
    # A moving average that begins at 0; of its weights the share of that first 0 is taken out.
    average = get_local_variable("estimated_mean", initializer=np.zeros((), value.dtype))
    with variable_scope("estimated_mean"):
        biased = get_variable("biased", initializer=np.zeros((), value.dtype), trainable=False)
        runs = get_variable("local_step", initializer=np.zeros((), value.dtype), trainable=False)
    moved = biased.assign_sub((biased - value) * (1 - decay))
    return average.assign(moved / (1 - pow_(convert_to_tensor(decay, value.dtype), runs.assign_add(1))))
