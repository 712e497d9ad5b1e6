"""Parses Examples with TensorFlow: a program of its own, that reads pickled cases and writes pickled answers.

A case is (function, messages or one message, sections): a section is None or a list of (key, name of the description,
its arguments), with dtypes as words, and partitions as (name, argument). An answer is ("error", class, text) or
("value", dict for each section), in the form of `example_messages.plain`; lengths are a plain dict of lists.
"""

from __future__ import annotations

import os
import pickle
import struct
import sys
from typing import Any

# Said before the import: else it is said on stderr.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")


def bits(values: Any) -> Any:
    """Return nested lists with floats as bytes."""
    if isinstance(values, list):
        return [bits(one) for one in values]
    return struct.pack("<f", values) if isinstance(values, float) else values


def described(tf: Any, name: str, arguments: dict[str, Any]) -> Any:
    """Return a description of TensorFlow's."""
    keywords = dict(arguments)
    for key in ("dtype", "row_splits_dtype"):
        if key in keywords:
            keywords[key] = getattr(tf, keywords[key])
    if "partitions" in keywords:
        keywords["partitions"] = [getattr(tf.io.RaggedFeature, kind)(value) for kind, value in keywords["partitions"]]
        keywords["validate"] = True
    return getattr(tf.io, name)(**keywords)


def plain(tf: Any, value: Any) -> Any:
    """Return a component in plain lists."""
    if isinstance(value, tf.SparseTensor):
        parts = value.indices, value.values, value.dense_shape
        return ("sparse", *(bits(part.numpy().tolist()) for part in parts))
    if isinstance(value, tf.RaggedTensor):
        return "ragged", bits(value.to_list())
    found = value.numpy()
    return "dense", found if isinstance(found, bytes) else bits(found.tolist())


def answer(tf: Any, function: str, messages: Any, sections: list[Any]) -> Any:
    """Return TensorFlow's answer to one case."""
    try:
        described_sections = [
            section and {key: described(tf, name, arguments) for key, name, arguments in section}
            for section in sections
        ]
        if not isinstance(messages, bytes):
            messages = tf.constant(messages, tf.string)
        made = getattr(tf.io, function)(messages, *described_sections)
    except (tf.errors.OpError, ValueError, TypeError) as error:
        return "error", type(error).__name__, str(error)
    made = made if isinstance(made, tuple) else (made,)
    return "value", [{key: plain(tf, value) for key, value in one.items()} for one in made]


def main() -> None:
    """Answer all cases."""
    import tensorflow as tf

    cases = pickle.load(sys.stdin.buffer)
    sys.stdout.buffer.write(pickle.dumps([answer(tf, *case) for case in cases]))


if __name__ == "__main__":
    main()
