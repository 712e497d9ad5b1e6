"""TensorFlow's decode_csv, in a program of its own: reads a JSON list of calls and writes one of answers.

A call: records (a list, or one string), defaults as [dtype, value or null], and options; strings are Latin-1 for
bytes. An answer: [error class or null, its sentence, columns or null].
"""

from __future__ import annotations

import json
import os
import re
import sys
from typing import Any

# Said before the import: else it is said on stderr.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")

import numpy as np


def as_bytes(value: Any) -> Any:
    return [as_bytes(one) for one in value] if isinstance(value, list) else value.encode("latin-1")


def answer(tf: Any, call: dict[str, Any]) -> list[Any]:
    defaults = []
    for dtype, value in call["defaults"]:
        if dtype == "S":
            defaults.append(tf.constant([] if value is None else [as_bytes(value)], tf.string))
        else:
            defaults.append(np.array([] if value is None else [value], dtype))
    options = {**call["options"]}
    try:
        columns = tf.io.decode_csv(as_bytes(call["records"]), defaults, **options)
    except (ValueError, TypeError, tf.errors.OpError) as error:
        sentence = re.sub(r"^.*\}\} | \[Op:.*$", "", str(error), flags=re.DOTALL)
        return [type(error).__name__, sentence, None]
    arrays = []
    for column in columns:
        value = column.numpy()
        array = np.array(value, object if isinstance(value, bytes) else None)
        flat = [one.decode("latin-1") if isinstance(one, bytes) else one.tobytes().hex() for one in array.reshape(-1)]
        arrays.append([array.dtype.kind, array.shape, flat])
    return [None, "", arrays]


def main() -> None:
    import tensorflow as tf

    json.dump([answer(tf, call) for call in json.load(sys.stdin)], sys.stdout)


if __name__ == "__main__":
    main()
