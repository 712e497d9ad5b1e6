"""Initializers: functions that make a variable's first value, given a shape."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from queuecore.tf1._graph.values import as_dtype, as_shape
from queuecore.tf1._ops.random import random_normal, random_uniform

__all__ = [
    "constant_initializer",
    "ones_initializer",
    "random_normal_initializer",
    "random_uniform_initializer",
    "zeros_initializer",
]


def zeros_initializer(dtype: Any = "float32") -> Any:
    """Return a function that makes zeros of a shape."""
    return lambda shape, dtype_=None: np.zeros(as_shape(shape).as_list(), as_dtype(dtype_ or dtype))  # type: ignore[arg-type]


def ones_initializer(dtype: Any = "float32") -> Any:
    """Return a function that makes ones of a shape."""
    return lambda shape, dtype_=None: np.ones(as_shape(shape).as_list(), as_dtype(dtype_ or dtype))  # type: ignore[arg-type]


def constant_initializer(value: Any = 0, dtype: Any = "float32", verify_shape: bool = False) -> Any:
    """Return a function that makes an array of a shape, of one value or of the given values."""
    del verify_shape

    def make(shape: Any, dtype_: Any = None) -> Any:
        array = np.asarray(value, as_dtype(dtype_ or dtype))
        sides: Any = as_shape(shape).as_list()
        if array.ndim == 0:
            return np.full(sides, array)
        flat = array.ravel()
        count = math.prod(map(int, sides))
        if flat.size > count:
            raise ValueError(f"Too many elements provided. Needed at most {count}, but received {flat.size}")
        return np.concatenate([flat, np.full(count - flat.size, flat[-1] if flat.size else 0, flat.dtype)]).reshape(
            sides
        )

    return make


def random_normal_initializer(
    mean: float = 0.0, stddev: float = 1.0, seed: int | None = None, dtype: Any = "float32"
) -> Any:
    """Return a function that draws an array of a shape from a normal distribution."""
    return lambda shape, dtype_=None: random_normal(as_shape(shape).as_list(), mean, stddev, dtype_ or dtype, seed)


def random_uniform_initializer(
    minval: float = 0, maxval: Any = None, seed: int | None = None, dtype: Any = "float32"
) -> Any:
    """Return a function that draws an array of a shape from a uniform distribution."""
    return lambda shape, dtype_=None: random_uniform(as_shape(shape).as_list(), minval, maxval, dtype_ or dtype, seed)
