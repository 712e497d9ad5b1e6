"""One hot path alone, several times: ``python -P benchmarks/hot_paths.py NAME``.

``compare.py`` runs these under a simulator that counts instructions. After each time comes a call of `getppid`, where
the simulator writes down what it has counted: with COUNT items and with three times as many in turn, so that the
difference is what the path itself costs, without its beginning. Each does the same work in every version that has these
public names, with one native thread at most, so that the counts repeat.
"""

from __future__ import annotations

import itertools
import os
import struct
import sys
import tempfile
from collections.abc import Callable
from typing import Any

ROWS = 4096


def _spent(dataset: Any, count: int) -> None:
    from queuecore.data import Options

    with iter(dataset.with_options(Options(num_threads=1))) as elements:
        for _ in range(count):
            next(elements)


def _fixed(record: int, batch: int, shuffle: int = 0) -> Callable[[int], None]:
    def run(count: int) -> None:
        import queuecore.data as qd

        with tempfile.NamedTemporaryFile() as file:
            file.write(os.urandom(record * ROWS))
            file.flush()
            ds = qd.FixedLengthRecordDataset(file.name, record)
            ds = ds.shuffle(shuffle, seed=1) if shuffle else ds
            ds = ds.repeat()
            _spent(ds.batch(batch) if batch else ds, count)

    return run


def _lines(kind: str) -> Callable[[int], None]:
    def run(count: int) -> None:
        import queuecore.data as qd

        with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
            file.write("".join(f"{i},{i / 7:.6f},{i % 13}\n" for i in range(ROWS)))
            file.flush()
            if kind == "lines":
                ds = qd.TextLineDataset(file.name)
            else:
                ds = qd.CsvDataset(file.name, ["int64", "float32", "int32"])
            _spent(ds.repeat().batch(64), count)

    return run


def _examples(count: int) -> None:
    import queuecore.data as qd
    from queuecore import ops
    from queuecore.writers import TFRecordWriter

    def message(i: int) -> bytes:
        values = struct.pack("<8f", *(float(i + k) for k in range(8)))
        floats = b"\x0a" + bytes([len(values)]) + values
        feature = b"\x12" + bytes([len(floats)]) + floats
        entry = b"\x0a\x01a\x12" + bytes([len(feature)]) + feature
        features = b"\x0a" + bytes([len(entry)]) + entry
        return b"\x0a" + bytes([len(features)]) + features

    with tempfile.TemporaryDirectory() as folder:
        name = os.path.join(folder, "a.tfrecord")
        with TFRecordWriter(name) as writer:
            for i in range(ROWS):
                writer.write(message(i))
        ds = qd.TFRecordDataset(name).repeat().batch(64)
        _spent(ds.map(ops.parse_example(features={"a": ops.FixedLenFeature([8], "float32")})), count)


def _chain(count: int) -> None:
    from queuecore.data import Dataset

    _spent(Dataset.range(10**9).shuffle(1000, seed=1).map(lambda x: x + 1).skip(1).batch(32), count)


def _filtered(count: int) -> None:
    from queuecore.data import Dataset

    _spent(Dataset.range(10**9).filter(lambda x: x % 2 == 0).batch(32), count)


def _python_map(count: int) -> None:
    from queuecore.data import Dataset

    def held(x: Any) -> Any:
        return float(str(x))

    _spent(Dataset.range(10**9).map(held), count)


def _generator(count: int) -> None:
    from queuecore.data import Dataset

    _spent(Dataset.from_generator(lambda: itertools.count(), output_types="int64").batch(32), count)


def _of_datasets(step: str) -> Callable[[int], None]:
    def run(count: int) -> None:
        import numpy as np

        from queuecore.data import Dataset

        numbers, ten = Dataset.range(10**9), np.arange(10)
        if step == "zip":
            ds = Dataset.zip((numbers, numbers)).enumerate()
        elif step == "flat_map":
            ds = numbers.flat_map(lambda _: Dataset.from_tensor_slices(ten))
        else:
            ds = numbers.interleave(lambda _: Dataset.from_tensor_slices(ten), cycle_length=4, block_length=5)
        _spent(ds.batch(32), count)

    return run


def _slices(count: int) -> None:
    import numpy as np

    from queuecore.data import Dataset

    _spent(Dataset.from_tensor_slices(np.zeros((1000, 3072), np.uint8)).repeat().batch(32), count)


def _typed_queue(count: int) -> None:
    import numpy as np

    import queuecore as qc

    queue = qc.FIFOQueue(100, ["float32"], [(16,)])
    value = np.ones(16, np.float32)
    for _ in range(count):
        queue.enqueue(value)
        queue.dequeue()


def _batched_queue(count: int) -> None:
    import numpy as np

    import queuecore as qc

    queue = qc.FIFOQueue(100, ["float32"], [(16,)])
    value = np.ones((32, 16), np.float32)
    for _ in range(count):
        queue.enqueue_many(value)
        queue.dequeue_many(32)


def _enqueued(kind: str) -> Callable[[int], None]:
    def run(count: int) -> None:
        import numpy as np

        import queuecore as qc

        shapes: dict[str, list[tuple[int, ...]]] = {"scalar": [()], "array": [(16,)], "tuple": [(16,), ()]}
        array = np.ones(16, np.float32)
        value = {"scalar": 3, "array": array, "tuple": (array, 3)}[kind]
        queue = qc.FIFOQueue(100, ["float32", "int64"][kind == "scalar" :][: len(shapes[kind])], shapes[kind])
        for _ in range(count // 100):
            for _ in range(100):
                queue.enqueue(value)
            queue.dequeue_many(100)

    return run


def _object_queue(count: int) -> None:
    import queuecore as qc

    queue = qc.Queue(100)
    for _ in range(count):
        queue.put(None)
        queue.get()


# What is run, and a count of items that takes some ten million instructions.
PATHS: dict[str, tuple[Callable[[int], None], int]] = {
    "batch of 128 records of 3,073 bytes": (_fixed(3073, 128), 5000),
    "batch of 4,096 records of 64 bytes": (_fixed(64, 4096), 5000),
    "shuffled batch of 128 records of 3,073 bytes": (_fixed(3073, 128, 1000), 2000),
    "single record of 64 bytes": (_fixed(64, 0), 20000),
    "batch of 64 lines": (_lines("lines"), 2000),
    "batch of 64 rows of CSV": (_lines("csv"), 1000),
    "batch of 64 Examples": (_examples, 1000),
    "native chain, batch of 32": (_chain, 3000),
    "native filter, batch of 32": (_filtered, 10000),  # it reads numbers ahead, thousands at a time
    "function in Python, an element": (_python_map, 2000),
    "generator in Python, batch of 32": (_generator, 100),
    "zip and enumerate, batch of 32": (_of_datasets("zip"), 1000),
    "flat_map to datasets of 10, batch of 32": (_of_datasets("flat_map"), 20),
    "interleave of datasets of 10, batch of 32": (_of_datasets("interleave"), 20),
    "slices of an array, batch of 32": (_slices, 3000),
    "typed queue, one in and out": (_typed_queue, 10000),
    "typed queue, 32 in and out": (_batched_queue, 5000),
    "typed queue, a scalar in": (_enqueued("scalar"), 10000),
    "typed queue, an array in": (_enqueued("array"), 10000),
    "typed queue, a tuple in": (_enqueued("tuple"), 10000),
    "queue of objects, one in and out": (_object_queue, 100000),
}


# How often each count is run, after once that doesn't count.
RUNS = 3


if __name__ == "__main__":
    # On one processor threads sleep instead of asking again and again, of which the number is never the same twice.
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    path, few = PATHS[sys.argv[1]]
    for count in (few, *(few, 3 * few) * RUNS):
        path(count)
        os.getppid()
