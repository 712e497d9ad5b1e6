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
        return [plain(inner) for inner in value]
    if isinstance(value, (list, tuple)):
        return [plain(inner) for inner in value]
    if isinstance(value, dict):
        return {str(key): plain(inner) for key, inner in sorted(value.items())}
    if value is None:
        return None
    if isinstance(value, bytes):
        return ["string", [], value.decode("latin-1")]
    array = np.asarray(value)
    if array.dtype.kind == "O":
        flat = [text.decode("latin-1") for text in array.ravel()]
        return ["string", list(array.shape), flat if array.ndim else flat[0]]
    flat = array.ravel().tolist()
    flat = [str(number) if isinstance(number, float) and not math.isfinite(number) else number for number in flat]
    return [array.dtype.name, list(array.shape), flat if array.ndim else flat[0]]


def sides(tf: Any, result: Any) -> Any:
    """Return the static shapes of tensors."""
    if isinstance(result, (list, tuple)):
        return [sides(tf, inner) for inner in result]
    if isinstance(result, dict):
        return {str(key): sides(tf, inner) for key, inner in sorted(result.items())}
    if not isinstance(result, tf.Tensor):
        return "no tensor"
    return None if result.shape.ndims is None else result.shape.as_list()


def kinds(error: BaseException) -> list[str]:
    """Return the names of an error's classes, its own first."""
    return [one.__name__ for one in type(error).__mro__ if one is not object]


def answer(tf: Any, expression: str, runs: int) -> dict[str, Any]:
    """Return what comes of one expression."""
    with tf.Graph().as_default(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            result = eval(expression, {"tf": tf, "np": np})
        except (ValueError, TypeError, IndexError, NotImplementedError, RuntimeError, tf.errors.OpError) as error:
            return {"built": kinds(error)}
        outcome: dict[str, Any] = {"sides": sides(tf, result), "runs": []}
        with tf.Session() as session:
            session.run(tf.global_variables_initializer())
            for _ in range(runs):
                try:
                    outcome["runs"].append(plain(session.run(result)))
                except Exception as error:
                    outcome["runs"].append({"error": kinds(error)})
    return outcome


def main() -> None:
    """Answer all cases."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
    import tensorflow.compat.v1 as tf

    tf.disable_v2_behavior()
    json.dump([answer(tf, *case) for case in json.load(sys.stdin)], sys.stdout)


if __name__ == "__main__":
    main()
