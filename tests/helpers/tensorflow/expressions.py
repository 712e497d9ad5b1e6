"""Evaluates expressions of TensorFlow 1, by TensorFlow itself, or by what stands in for it.

As a program of its own it reads a JSON list of (expression, number of runs) and writes one of answers. Expressions know
``tf`` and ``np``. An answer: {"built": class} of the error while the graph was built; or the static shape of each
tensor, and for each run its values, or {"error": class}.
"""

from __future__ import annotations

import json
import math
import os
import sys
import warnings
from typing import Any

import numpy as np


def plain(value: Any) -> Any:
    """Return a value as lists of numbers and text, with its dtype."""
    if hasattr(value, "row_splits"):
        return [plain(value.values), plain(value.row_splits)]
    if hasattr(value, "_fields"):
        return [plain(one) for one in value]
    if isinstance(value, (list, tuple)):
        return [plain(one) for one in value]
    if isinstance(value, dict):
        return {str(key): plain(one) for key, one in sorted(value.items())}
    if value is None:
        return None
    if isinstance(value, bytes):
        return ["string", [], value.decode("latin-1")]
    array = np.asarray(value)
    if array.dtype.kind == "O":
        flat = [one.decode("latin-1") for one in array.ravel()]
        return ["string", list(array.shape), flat if array.ndim else flat[0]]
    flat = array.ravel().tolist()
    flat = [str(one) if isinstance(one, float) and not math.isfinite(one) else one for one in flat]
    return [array.dtype.name, list(array.shape), flat if array.ndim else flat[0]]


def sides(tf: Any, made: Any) -> Any:
    """Return the static shapes of tensors."""
    if isinstance(made, (list, tuple)):
        return [sides(tf, one) for one in made]
    if isinstance(made, dict):
        return {str(key): sides(tf, one) for key, one in sorted(made.items())}
    if not isinstance(made, tf.Tensor):
        return "no tensor"
    return None if made.shape.ndims is None else made.shape.as_list()


def kinds(error: BaseException) -> list[str]:
    """Return the names of an error's classes, its own first."""
    return [one.__name__ for one in type(error).__mro__ if one is not object]


def answer(tf: Any, expression: str, runs: int) -> dict[str, Any]:
    """Return what comes of one expression."""
    with tf.Graph().as_default(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            made = eval(expression, {"tf": tf, "np": np})
        except (ValueError, TypeError, IndexError, NotImplementedError, RuntimeError, tf.errors.OpError) as error:
            return {"built": kinds(error)}
        found: dict[str, Any] = {"sides": sides(tf, made), "runs": []}
        with tf.Session() as session:
            session.run(tf.global_variables_initializer())
            for _ in range(runs):
                try:
                    found["runs"].append(plain(session.run(made)))
                except Exception as error:
                    found["runs"].append({"error": kinds(error)})
    return found


def main() -> None:
    """Answer all cases."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
    import tensorflow.compat.v1 as tf

    tf.disable_v2_behavior()
    json.dump([answer(tf, *case) for case in json.load(sys.stdin)], sys.stdout)


if __name__ == "__main__":
    main()
