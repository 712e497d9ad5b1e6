"""Pipelines that mean the same in `tf.data` and here; as a program, TensorFlow's answers to a JSON list of them.

A pipeline is a list: the source and its arguments, then steps with theirs. An argument that is such a list in a dict
``{"of": [...]}`` is a dataset.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")

import numpy as np

Steps = list[list[Any]]


def build(dataset: Any, steps: Steps) -> Any:
    """Return the pipeline of a library, given its class of datasets."""

    def argument(value: Any) -> Any:
        return build(dataset, value["of"]) if isinstance(value, dict) else value

    ds: Any = None
    for name, *values in steps:
        arguments = [argument(value) for value in values]
        if name == "range":
            ds = dataset.range(*arguments)
        elif name == "slices":
            ds = dataset.from_tensor_slices(np.arange(arguments[0] * 3, dtype=np.float32).reshape(-1, 3))
        elif name == "zip":
            ds = dataset.zip((ds, *arguments))
        elif name == "affine":
            ds = ds.map(lambda x, a=arguments[0], b=arguments[1]: x * a + b)
        elif name == "listed":
            ds = ds.map(lambda x: [x, [x, x + 1], [[x, x], [x, x]]])
        elif name == "sum":  # with the order in it
            ds = dataset.from_tensors(ds.reduce(np.int64(1), lambda total, x: total * 31 % 1_000_003 + x))
        elif name == "divisible":
            ds = ds.filter(lambda x, by=arguments[0]: x % by == 0)
        elif name == "below":
            ds = ds.take_while(lambda x, most=arguments[0]: x < most)
        elif name == "sums":
            ds = ds.scan(np.int64(1), lambda total, x: (total * 31 % 1_000_003 + x, total - x))
        elif name == "ranges":
            ds = ds.interleave(lambda x: dataset.range(4), cycle_length=arguments[0], block_length=arguments[1])
        elif name == "fails":
            ds = ds.map(failing(dataset, *arguments))
        elif name == "refuses":
            ds = ds.filter(failing(dataset, *arguments, answer=lambda x: x % 3 > 0))
        elif name == "kept":
            ds = ds.snapshot(
                tempfile.mkdtemp(),
                shard_func=lambda x, by=arguments[0]: x % by,
                reader_func=lambda shards: shards.shuffle(3, seed=5).interleave(lambda shard: shard, cycle_length=2),
            )
        elif name == "windows":
            ds = ds.window(*arguments).flat_map(lambda window: window.batch(100))
        elif name == "choose":
            ds = dataset.choose_from_datasets([ds, argument(values[0])], dataset.range(40).map(lambda x: x * 7 % 2))
        else:
            ds = getattr(ds, name)(*arguments)
    return ds


def failing(dataset: Any, by: int, rest: int, answer: Any = None) -> Any:
    """Return a function that fails for every `by`-th number, and returns what it gets, or makes of it."""

    def function(x: Any) -> Any:
        if dataset.__module__.startswith("tensorflow"):
            import tensorflow as tf

            with tf.control_dependencies([tf.debugging.assert_none_equal(x % by, np.int64(rest))]):
                return tf.identity(x) if answer is None else answer(tf.identity(x))
        number = int(x)
        if number % by == rest:
            raise ValueError(number)
        return number if answer is None else bool(answer(number))

    return function


def plain(element: Any) -> Any:
    """Return an element as JSON has it."""
    if isinstance(element, (tuple, list)):
        return [plain(one) for one in element]
    return np.asarray(element).tolist()


def answer(library: Any, dataset: Any, set_seed: Any, call: dict[str, Any]) -> Any:
    """Return what a pipeline gives, in two iterations; or the word for an error."""
    set_seed(call["seed"])
    try:
        ds = build(dataset, call["steps"])
        if call.get("events"):
            if library.__name__ == "tensorflow":  # else a map and a batch are one step: errors take a batch
                options = library.data.Options()
                options.experimental_optimization.map_and_batch_fusion = False
                ds = ds.with_options(options)
            return [events(iterate(ds)) for _ in range(2)]
        return [[plain(one) for one in elements(ds)] for elements in [iterate] * 2]
    except Exception as error:  # which one it is differs
        return [type(error).__name__]


def events(iterator: Any) -> list[Any]:
    """Return elements, and a word for each that can't be made, of an iterator that goes on behind these."""
    outcomes: list[Any] = []
    while len(outcomes) < 400:
        try:
            outcomes.append(plain(next(iterator)))
        except StopIteration:
            break
        except Exception:  # which one it is differs
            outcomes.append("error")
    return outcomes


def iterate(ds: Any) -> Any:
    """Iterate over a dataset of either library."""
    return ds.as_numpy_iterator()


def main() -> None:
    """Answer the list on standard input."""
    import tensorflow as tf

    calls = json.load(sys.stdin)
    json.dump([answer(tf, tf.data.Dataset, tf.random.set_seed, call) for call in calls], sys.stdout)


if __name__ == "__main__":
    main()
