"""Every public integer argument, with numbers that no size can be: what a child process tries, a line of JSON for each.

Run with a group's name and the number of a case; the folder of `prepare` is in the environment. It limits its memory.
"""

from __future__ import annotations

import faulthandler
import itertools
import json
import os
import resource
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import queuecore as qc
from queuecore import data, errors, ops

Case = Callable[[Any], Any]

VALUES = [2**31, 2**32, 2**40, 2**62, 2**63 - 1, 2**63, 2**64, -1, -(2**31), -(2**63), True, 1.5]
# Of addresses, beyond what the process has when it begins: more than any case needs, less than would hurt.
ROOM = 4 << 30
# Seconds: only a hang takes as long.
PATIENCE = 30

FOLDER = Path(os.environ.get("QUEUECORE_SIZES_FOLDER", "."))


def prepare(folder: Path) -> None:
    """Write the files that the cases read."""
    (folder / "fixed").write_bytes(bytes(range(100)))
    (folder / "lines").write_text("".join(f"{i},{i}\n" for i in range(20)))
    with qc.TFRecordWriter(folder / "records") as writer:
        for i in range(20):
            writer.write(b"%d" % i)


# ---- queues

Q = [np.int64]


def filled(kind: Any, *arguments: Any, n: int = 3, close: bool = True) -> Any:
    queue = kind(*arguments)
    queue.enqueue_many([np.arange(n)] if kind is not qc.PriorityQueue else [np.arange(n), np.arange(n)])
    if close:
        queue.close()
    return queue


def fifo(close: bool = True) -> Any:
    return filled(qc.FIFOQueue, 10, Q, [()], close=close)


def kinds() -> list[Any]:
    return [
        fifo(),
        filled(qc.FIFOQueue, -1, Q, [()]),
        filled(qc.RandomShuffleQueue, 10, 0, Q, [()]),
        filled(qc.PaddingFIFOQueue, 10, Q, [()]),
        filled(qc.PriorityQueue, -1, Q, [()]),
    ]


def up_to(v: Any) -> Any:
    for queue in kinds():
        got = queue.dequeue_up_to(v)
        assert sorted(np.asarray(got[1] if isinstance(got, list) else got).tolist()) == [0, 1, 2], got
    strings = qc.FIFOQueue(10, [bytes], [()])
    strings.enqueue_many([[b"a", b"b"]])
    strings.close()
    assert list(strings.dequeue_up_to(v)) == [b"a", b"b"]
    objects = qc.FIFOQueue(10, [object], [()])
    objects.enqueue_many([[1, "x"]])
    objects.close()
    assert list(objects.dequeue_up_to(v)) == [1, "x"]
    return "whole"


def too_many(call: Callable[[Any], Any]) -> Case:
    def case(v: Any) -> Any:
        for queue in kinds():
            try:
                call(queue)(v)
            except errors.QueueCoreError as error:
                assert str(error)
            else:
                raise AssertionError("three elements were not enough for this")
            assert queue.size() == 3
        raise errors.OutOfRangeError("as it should be")

    return case


def made(kind: Any, *more: Any) -> Case:
    def case(v: Any) -> Any:
        queue = kind(v, *more)
        queue.enqueue([1, 1] if kind is qc.PriorityQueue else [1])
        queue.dequeue()
        return queue.capacity

    return case


def queue_of_shape(*sides: Any) -> Case:
    def case(v: Any) -> Any:
        shape = [v if side is None else side for side in sides]
        queue = qc.FIFOQueue(4, [np.int64], [shape])
        queue.enqueue([np.zeros(1, np.int64)])

    return case


def own_queue(kind: Any) -> Case:
    def case(v: Any) -> Any:
        queue = kind(maxsize=v)
        queue.put(1)
        assert queue.get() == 1

    return case


QUEUES: dict[str, Case] = {
    "FIFOQueue(capacity)": made(qc.FIFOQueue, Q, [()]),
    "RandomShuffleQueue(capacity)": made(qc.RandomShuffleQueue, 0, Q, [()]),
    "PaddingFIFOQueue(capacity)": made(qc.PaddingFIFOQueue, Q, [()]),
    "PriorityQueue(capacity)": made(qc.PriorityQueue, Q, [()]),
    "RandomShuffleQueue(min_after_dequeue)": lambda v: qc.RandomShuffleQueue(10, v, Q, [()]),
    "RandomShuffleQueue(-1, min_after_dequeue)": lambda v: qc.RandomShuffleQueue(-1, v, Q, [()]),
    "RandomShuffleQueue(seed)": lambda v: qc.RandomShuffleQueue(10, 0, Q, [()], seed=v),
    "shape(v)": queue_of_shape(None),
    "shape(v, v)": queue_of_shape(None, None),
    "shape(v, 0)": queue_of_shape(None, 0),
    "shape(v, v, 0)": queue_of_shape(None, None, 0),
    "shape(2, v)": queue_of_shape(2, None),
    "dequeue_up_to": up_to,
    "dequeue_up_to open": lambda v: fifo(False).dequeue_up_to(v, timeout=0),
    "dequeue_many": too_many(lambda queue: queue.dequeue_many),
    "dequeue_many open": lambda v: fifo(False).dequeue_many(v, timeout=0),
    "lease": too_many(lambda queue: queue.lease),
    "lease open": lambda v: fifo(False).lease(v, timeout=0),
    "reserve": lambda v: fifo(False).reserve(v, timeout=0),
    "from_list": lambda v: qc.FIFOQueue.from_list(v, [fifo(), fifo()]),
    "Queue": own_queue(qc.Queue),
    "LifoQueue": own_queue(qc.LifoQueue),
    "set_random_seed": lambda v: (qc.set_random_seed(v), qc.set_random_seed(None)),
}

# ---- readers and writers


def read(reader: Any, name: str, v: Any) -> list[bytes]:
    keys, values = reader.read_up_to([str(FOLDER / name)], v)
    return list(values.to_list())


def read_all(make: Callable[[], Any], name: str, expected: list[bytes]) -> Case:
    def case(v: Any) -> Any:
        found = read(make(), name, v)
        assert found == expected[: len(found)] and found, found
        return len(found)

    return case


def read_one(make: Callable[[Any], Any], name: str) -> Case:
    def case(v: Any) -> Any:
        return make(v).read([str(FOLDER / name)])[1][:20]

    return case


READERS: dict[str, Case] = {
    "fixed.read_up_to": read_all(
        lambda: qc.FixedLengthRecordReader(10), "fixed", [bytes(range(i, i + 10)) for i in range(0, 100, 10)]
    ),
    "lines.read_up_to": read_all(qc.TextLineReader, "lines", [b"%d,%d" % (i, i) for i in range(20)]),
    "records.read_up_to": read_all(qc.TFRecordReader, "records", [b"%d" % i for i in range(20)]),
    "whole.read_up_to": read_all(qc.WholeFileReader, "fixed", [bytes(range(100))]),
    "identity.read_up_to": lambda v: qc.IdentityReader().read_up_to(["a", "b"], v),
    "record_bytes": read_one(lambda v: qc.FixedLengthRecordReader(v), "fixed"),
    "header_bytes": read_one(lambda v: qc.FixedLengthRecordReader(10, v), "fixed"),
    "footer_bytes": read_one(lambda v: qc.FixedLengthRecordReader(10, 0, v), "fixed"),
    "header and footer": read_one(lambda v: qc.FixedLengthRecordReader(10, v, v), "fixed"),
    "hop_bytes": read_one(lambda v: qc.FixedLengthRecordReader(10, 0, 0, v), "fixed"),
    "all of them": read_one(lambda v: qc.FixedLengthRecordReader(v, v, v, v), "fixed"),
    "retries": read_one(lambda v: qc.FixedLengthRecordReader(10, retries=v), "fixed"),
    "skip_header_lines": read_one(lambda v: qc.TextLineReader(v), "lines"),
    "lines max_record_bytes": read_one(lambda v: qc.TextLineReader(max_record_bytes=v), "lines"),
    "records max_record_bytes": read_one(lambda v: qc.TFRecordReader(max_record_bytes=v), "records"),
    "whole max_record_bytes": read_one(lambda v: qc.WholeFileReader(max_record_bytes=v), "fixed"),
    "compression_level": lambda v: qc.TFRecordOptions("GZIP", v),
    "StageProgram max_skips": lambda v: qc.StageProgram(
        qc.TextLineReader(), [str(FOLDER / "lines")], on_error="skip", max_skips=v
    ),
}

# ---- datasets


def numbers(n: int = 10) -> Any:
    return data.Dataset.range(n)


def elements(dataset: Any) -> list[Any]:
    with iter(dataset) as it:
        some = itertools.islice(it, 30)
        return [len(one) if isinstance(one, tuple) else np.asarray(one).tolist() for one in some]


def same(step: Callable[[Any, Any], Any], expected: Any = None, n: int = 10) -> Case:
    """Return a case in which a step gives all elements, if it can be had at all."""

    def case(v: Any) -> Any:
        found = elements(step(numbers(n), v))
        want = list(range(n)) if expected is None else expected
        assert found == want, found
        return found

    return case


def flat(step: Callable[[Any, Any], Any]) -> Case:
    def case(v: Any) -> Any:
        found = [x for part in elements(step(numbers(), v)) for x in part]
        assert sorted(found) == list(range(10)), found
        return found

    return case


def any_elements(step: Callable[[Any], Any]) -> Case:
    return lambda v: elements(step(v))


def batch_by_batch(v: Any) -> Any:
    found = elements(numbers().batch(2).batch(v))
    assert found == [[[0, 1], [2, 3], [4, 5], [6, 7], [8, 9]]], found


def rebatched(v: Any) -> Any:
    found = elements(numbers().batch(3).rebatch(v))
    assert found == [list(range(10))], found


def padded(v: Any) -> Any:
    return elements(numbers().map(ops.cast(dtype=np.int32)).padded_batch(v))


def windows(step: Callable[[Any, Any], Any]) -> Case:
    def case(v: Any) -> Any:
        return [elements(one) for one in step(numbers(), v).take(3)]

    return case


def buckets(v: Any) -> Any:
    return elements(numbers().bucket_by_sequence_length(lambda x: x, [5], [v, v]))


def fixed(**given: Any) -> Any:
    return data.FixedLengthRecordDataset(str(FOLDER / "fixed"), **given)


def states(v: Any) -> Any:
    with iter(numbers(100).shuffle(8, seed=1).repeat(3).skip(v)) as it:
        return it.state_dict()


PYTHON = {"x": lambda x: x + 1}


def python_map(v: Any) -> Any:
    seen = [len(str(one)) for one in elements(numbers().map(lambda x: str(x), num_parallel_calls=v))]
    assert len(seen) == 10
    return seen


DATA: dict[str, Case] = {
    "range(v)": lambda v: elements(data.Dataset.range(v)),
    "range(v, v + 3)": lambda v: elements(data.Dataset.range(v, v + 3)),
    "range(0, 5, v)": lambda v: elements(data.Dataset.range(0, 5, v)),
    "range(-v, v, v)": lambda v: elements(data.Dataset.range(-v, v, v)),
    "range cardinality": lambda v: data.Dataset.range(0, v, 7).cardinality(),
    "batch": flat(lambda ds, v: ds.batch(v)),
    "batch drop_remainder": same(lambda ds, v: ds.batch(v, True), []),
    "batch of batches": batch_by_batch,
    "batch of wide rows": lambda v: elements(data.Dataset.from_tensors(np.zeros(1 << 20, np.uint8)).batch(v)),
    "batch of records": lambda v: elements(fixed(record_bytes=10).batch(v)),
    "batch of lines": lambda v: elements(data.TextLineDataset(str(FOLDER / "lines")).batch(v)),
    "batch with a budget": lambda v: elements(numbers().batch(v).with_options(data.Options(memory_budget=1 << 20))),
    "rebatch": rebatched,
    "padded_batch": padded,
    "padded_batch shape": lambda v: elements(data.Dataset.from_tensor_slices(np.zeros((2, 3))).padded_batch(2, (v,))),
    "padded_batch shapes": lambda v: elements(
        data.Dataset.from_tensor_slices(np.zeros((2, 3, 3))).padded_batch(v, (v, v))
    ),
    "dense_to_ragged_batch": lambda v: elements(numbers().dense_to_ragged_batch(v)),
    "stack of objects": lambda v: elements(data.Dataset.from_generator(lambda: iter([1, 2]), np.int64, ()).batch(v)),
    "shuffle": lambda v: sorted(elements(numbers().shuffle(v, seed=1))),
    "shuffle of batches": lambda v: elements(numbers().batch(2).shuffle(v, seed=1)),
    "shuffle of records": lambda v: elements(fixed(record_bytes=10).shuffle(v, seed=1)),
    "shuffle seed": lambda v: elements(numbers().shuffle(3, seed=v)),
    "permute seed": lambda v: elements(numbers().permute(seed=v)),
    "shuffle_and_repeat": lambda v: elements(numbers().shuffle_and_repeat(3, v, seed=1)),
    "repeat": lambda v: elements(numbers().repeat(v))[:3],
    "repeat of repeat": lambda v: elements(numbers().repeat(v).repeat(v))[:3],
    "repeat cardinality": lambda v: numbers().repeat(v).repeat(v).cardinality(),
    "take": same(lambda ds, v: ds.take(v)),
    "skip": same(lambda ds, v: ds.skip(v), []),
    "skip of skip": same(lambda ds, v: ds.skip(v).skip(v), []),
    "skip, repeated": same(lambda ds, v: ds.repeat(3).skip(v).repeat(2), []),
    "skip of records": lambda v: elements(fixed(record_bytes=10).skip(v)),
    "skip of lines": lambda v: elements(data.TextLineDataset(str(FOLDER / "lines")).skip(v)),
    "state of skip": states,
    "shard": lambda v: elements(numbers().shard(v, 0)),
    "shard index": lambda v: elements(numbers().shard(4, v)),
    "shard, last": lambda v: elements(numbers().shard(v, v - 1)),
    "shard, padded": lambda v: elements(numbers().shard(v, v - 1, uneven="pad")),
    "shard, dropped": lambda v: elements(numbers().shard(v, 0, uneven="drop")),
    "shard of records": lambda v: elements(fixed(record_bytes=10).shuffle(4, seed=1).shard(v, 0)),
    "prefetch": same(lambda ds, v: ds.prefetch(v)),
    "prefetch of batches": flat(lambda ds, v: ds.batch(2).prefetch(v)),
    "prefetch before batch": flat(lambda ds, v: ds.prefetch(v).batch(2)),
    "prefetch of lines": lambda v: elements(data.TextLineDataset(str(FOLDER / "lines")).batch(2).prefetch(v)),
    "window size": windows(lambda ds, v: ds.window(v)),
    "window shift": windows(lambda ds, v: ds.window(2, v)),
    "window stride": windows(lambda ds, v: ds.window(2, 1, v)),
    "window all": windows(lambda ds, v: ds.window(v, v, v)),
    "window flat": lambda v: elements(numbers().window(v, 1, v).flat_map(lambda one: one.batch(2))),
    "interleave cycle_length": lambda v: elements(numbers(3).interleave(lambda x: data.Dataset.range(2), v)),
    "interleave block_length": lambda v: elements(numbers(3).interleave(lambda x: data.Dataset.range(2), 2, v)),
    "interleave calls": lambda v: elements(numbers(3).interleave(lambda x: data.Dataset.range(2), 2, 1, v)),
    "interleave of files": lambda v: elements(
        data.Dataset.from_tensor_slices([str(FOLDER / "lines")] * 2).interleave(data.TextLineDataset, v, v)
    ),
    "parallel_interleave": lambda v: elements(
        numbers(3).parallel_interleave(lambda x: data.Dataset.range(2), 2, v, False, v, v)
    ),
    "map calls": same(lambda ds, v: ds.map(lambda x: x * 1, v)),
    "map calls in Python": python_map,
    "map_and_batch": lambda v: elements(numbers().map_and_batch(lambda x: x * 1, v)),
    "map_and_batch parallel": lambda v: elements(numbers().map_and_batch(lambda x: x * 1, 2, v)),
    "enumerate": lambda v: len(elements(numbers().enumerate(v))),
    "buckets": buckets,
    "bucket boundary": lambda v: elements(numbers().bucket_by_sequence_length(lambda x: x, [v], [2, 2])),
    "generator shape": lambda v: elements(data.Dataset.from_generator(lambda: iter([[1, 2]]), np.int64, (v,))),
    "sample seed": lambda v: elements(data.Dataset.sample_from_datasets([numbers(), numbers()], seed=v)),
    "list_files seed": lambda v: elements(data.Dataset.list_files(str(FOLDER / "*"), True, v))[:0],
    "record_bytes": lambda v: elements(fixed(record_bytes=v)),
    "record_bytes, batched": lambda v: elements(fixed(record_bytes=v).batch(2)),
    "header_bytes": lambda v: elements(fixed(record_bytes=10, header_bytes=v)),
    "footer_bytes": lambda v: elements(fixed(record_bytes=10, footer_bytes=v)),
    "header and footer": lambda v: elements(fixed(record_bytes=10, header_bytes=v, footer_bytes=v)),
    "hop_bytes": lambda v: elements(fixed(record_bytes=10, hop_bytes=v)),
    "hop_bytes, batched": lambda v: elements(fixed(record_bytes=10, hop_bytes=v).batch(1000)),
    "all of them": lambda v: elements(fixed(record_bytes=v, header_bytes=v, footer_bytes=v, hop_bytes=v)),
    "record of a shape": lambda v: elements(fixed(record=[("x", "u1", (v,))])),
    "num_parallel_reads": lambda v: elements(fixed(record_bytes=10, num_parallel_reads=v)),
    "TFRecordDataset": lambda v: elements(data.TFRecordDataset(str(FOLDER / "records"), None, v)),
    "TextLineDataset": lambda v: elements(data.TextLineDataset(str(FOLDER / "lines"), None, v)),
    "skip_header_lines": lambda v: elements(data.TextLineDataset(str(FOLDER / "lines"), skip_header_lines=v)),
    "CsvDataset": lambda v: elements(data.CsvDataset(str(FOLDER / "lines"), [0, 0], None, v)),
    "select_cols": lambda v: elements(data.CsvDataset(str(FOLDER / "lines"), [0], select_cols=[v])),
    **{
        f"Options({name})": lambda v, name=name: elements(
            data.TextLineDataset(str(FOLDER / "lines"))
            .batch(2)
            .with_options(data.Options(**{name: v}, **({"on_error": "skip"} if name == "max_skips" else {})))
        )
        for name in (
            "num_threads",
            "max_leases",
            "retries",
            "max_record_bytes",
            "max_skips",
            "memory_budget",
            "stall_warn",
            "stall_timeout",
        )
    },
}

# ---- operations

PICTURE = np.zeros((4, 4, 3), np.uint8)


def stage(make: Callable[[Any], Any], value: Any = PICTURE) -> Case:
    """Return a case that takes an operation as a stage, in a dataset."""
    return lambda v: elements(data.Dataset.from_tensors(value).map(make(v)).batch(2))


OPS: dict[str, Case] = {
    "one_hot": lambda v: ops.one_hot(np.int64(1), v).shape,
    "one_hot, many": lambda v: ops.one_hot(np.zeros(100, np.int64), v).shape,
    "one_hot stage": stage(lambda v: ops.one_hot(None, v), np.arange(3)),
    "resize": lambda v: ops.resize(PICTURE, [v, v]).shape,
    "resize, one side": lambda v: ops.resize(PICTURE, [1, v]).shape,
    "resize, nearest": lambda v: ops.resize(PICTURE, [2, v], "nearest").shape,
    "resize stage": stage(lambda v: ops.resize(None, [v, v])),
    "random_crop": lambda v: ops.random_crop(PICTURE, [v, v, 3], 1).shape,
    "random_crop stage": stage(lambda v: ops.random_crop(None, [v, 1, 3], 1)),
    "random_crop seed": lambda v: ops.random_crop(PICTURE, [1, 1, 3], v).shape,
    "pad": lambda v: ops.pad(PICTURE, [[v, v], [0, 0], [0, 0]]).shape,
    "pad, all sides": lambda v: ops.pad(PICTURE, [[v, v], [v, v], [v, v]]).shape,
    "pad, edge": lambda v: ops.pad(PICTURE, [[v, v], [0, 0], [0, 0]], mode="edge").shape,
    "pad, reflect": lambda v: ops.pad(PICTURE, [[0, 0], [v, v], [v, v]], mode="reflect").shape,
    "pad stage, symmetric": stage(lambda v: ops.pad(None, [[v, v], [v, 0], [0, 0]], mode="symmetric")),
    "pad stage": stage(lambda v: ops.pad(None, [[v, v], [v, 0], [0, 0]])),
    "reshape": lambda v: ops.reshape(PICTURE, [v]).shape,
    "reshape, two sides": lambda v: ops.reshape(PICTURE, [v, v]).shape,
    "reshape, product wraps": lambda v: ops.reshape(PICTURE, [v, 4, 48]).shape,
    "reshape of nothing": lambda v: ops.reshape(np.zeros(0), [0, v]).shape,
    "reshape stage": stage(lambda v: ops.reshape(None, [v, -1])),
    "slice": lambda v: ops.slice(PICTURE, [v, 0, 0], [1, 1, 1]).shape,
    "slice size": lambda v: ops.slice(PICTURE, [0, 0, 0], [v, 1, 1]).shape,
    "slice both": lambda v: ops.slice(PICTURE, [v, 0, 0], [v, 1, 1]).shape,
    "slice stage": stage(lambda v: ops.slice(None, [v, 0, 0], [v, 1, 1])),
    "transpose": lambda v: ops.transpose(PICTURE, [0, 1, v]).shape,
    "decode_raw fixed_length": lambda v: ops.decode_raw(b"12345678", np.int64, fixed_length=v).shape,
    "decode_raw fixed_length, many": lambda v: ops.decode_raw([b"12345678"] * 9, np.int64, fixed_length=v).shape,
    "decode_padded_raw": lambda v: ops.decode_padded_raw([b"12345678"], v, np.int64).shape,
    "decode_padded_raw, bytes": lambda v: ops.decode_padded_raw([b"12345678"] * 9, v, np.uint8).shape,
    "decode_compressed": lambda v: ops.decode_compressed(b"abc", max_record_bytes=v),
    "split maxsplit": lambda v: ops.split(b"a b", maxsplit=v).tolist(),
    "split index": lambda v: ops.split([b"a b"], index=v).tolist(),
    "split stage": stage(lambda v: ops.split(None, maxsplit=v, index=0), b"a b"),
    "table default": lambda v: ops.table([b"a"], default=v)[b"b"],
    "decode_csv select_cols": lambda v: ops.decode_csv("1,2", [0], select_cols=[v]),
    "channels": lambda v: ops.decode_png(b"", v),
    "max_pixels": lambda v: ops.decode_png(b"", max_pixels=v),
    "ratio": lambda v: ops.decode_jpeg(b"", ratio=v),
    "FixedLenFeature": lambda v: ops.parse_example([b""], {"x": ops.FixedLenFeature((v,), np.int64, 0)}),
    "FixedLenFeature, two sides": lambda v: ops.parse_example([b""], {"x": ops.FixedLenFeature((v, v), np.int64, 0)}),
    "FixedLenFeature without a default": lambda v: ops.parse_example([b""], {"x": ops.FixedLenFeature((v,), np.int64)}),
    "FixedLenSequenceFeature": lambda v: ops.parse_example(
        [b""], {"x": ops.FixedLenSequenceFeature((v, v), np.int64, True)}
    ),
    "SparseFeature": lambda v: ops.parse_example([b""], {"x": ops.SparseFeature("i", "v", np.int64, v)}),
    "python outputs": lambda v: elements(numbers(2).map(ops.python(lambda x: x, [(np.int64, (v,))]))),
    "a map's own": lambda v: elements(numbers(2).map(lambda x: np.full((2,), v) + x)),
    "seed": lambda v: ops.random_flip_left_right(PICTURE, v).shape,
    "element and epoch": lambda v: ops.random_flip_left_right(PICTURE, 1, element=v, epoch=v).shape,
    "num_ops": lambda v: ops.rand_augment(PICTURE, v, seed=1).shape,
    "magnitude": lambda v: ops.rand_augment(PICTURE, magnitude=v, seed=1).shape,
    "num_magnitude_bins": lambda v: ops.trivial_augment(PICTURE, v, seed=1).shape,
    "fill": lambda v: ops.trivial_augment(PICTURE, fill=v, seed=1).shape,
    "kernel_size": lambda v: ops.gaussian_blur(PICTURE, v, seed=1).shape,
    "crop_size": lambda v: ops.crop_and_resize(PICTURE[None], np.zeros((1, 4), "f4"), np.zeros(1, "i4"), (v, 1)).shape,
    "box_indices": lambda v: ops.crop_and_resize(PICTURE[None], np.zeros((1, 4), "f4"), np.array([v]), (2, 2)).shape,
    "num_classes": lambda v: ops.mixup(PICTURE[None], np.zeros(1, np.int64), v, seed=1)[1].shape,
    "Ragged": lambda v: qc.Ragged(np.arange(3), [0, v]).to_list(),
    "Ragged, two": lambda v: qc.Ragged(np.arange(3), [0, v, 3]).to_list(),
    "Sparse": lambda v: qc.Sparse(np.zeros((1, 1), np.int64), np.ones(1), (v,)).to_dense().shape,
    "Sparse, two sides": lambda v: qc.Sparse(np.zeros((1, 2), np.int64), np.ones(1), (v, v)).to_dense().shape,
}

# ---- graphs

import queuecore.tf1 as tf  # noqa: E402


def ran(make: Callable[[Any], Any]) -> Case:
    """Return a case that runs what is made in a graph of its own, its queue runners beside it."""

    def case(v: Any) -> Any:
        with tf.Graph().as_default(), tf.Session(config=tf.ConfigProto(operation_timeout_in_ms=10_000)) as session:
            fetched = make(v)
            session.run([tf.global_variables_initializer(), tf.local_variables_initializer()])
            coord = tf.train.Coordinator()
            threads = tf.train.start_queue_runners(session, coord)
            try:
                return np.shape(session.run(fetched))
            finally:
                coord.request_stop()
                coord.join(threads, stop_grace_period_secs=20)

    return case


def tf_queue(v: Any) -> Any:
    queue = tf.FIFOQueue(10, [tf.int64], [()])
    with tf.control_dependencies([queue.enqueue_many([np.arange(3)])]), tf.control_dependencies([queue.close()]):
        return queue.dequeue_up_to(v)


def tf_queue_many(v: Any) -> Any:
    queue = tf.FIFOQueue(10, [tf.int64], [()])
    queue.enqueue_many([np.arange(3)])
    return queue.close(), queue.dequeue_many(v)


def tf_reader(v: Any) -> Any:
    names = tf.train.string_input_producer([str(FOLDER / "lines")], 1)
    return tf.TextLineReader().read_up_to(names, v)


def tf_next(dataset: Any) -> Any:
    return dataset.make_one_shot_iterator().get_next()


def tf_range(n: int = 10) -> Any:
    return tf.data.Dataset.range(n)


PIXELS = np.zeros((4, 4, 3), np.uint8)
SMALL = np.arange(4)

TF1: dict[str, Case] = {
    name: ran(make)
    for name, make in {
        "FIFOQueue": lambda v: tf.FIFOQueue(v, [tf.int64], [()]).size(),
        "RandomShuffleQueue": lambda v: tf.RandomShuffleQueue(v, 0, [tf.int64], [()]).size(),
        "RandomShuffleQueue min_after_dequeue": lambda v: tf.RandomShuffleQueue(10, v, [tf.int64], [()]).size(),
        "PaddingFIFOQueue": lambda v: tf.PaddingFIFOQueue(v, [tf.int64], [()]).size(),
        "PriorityQueue": lambda v: tf.PriorityQueue(v, [tf.int64], [()]).size(),
        "queue of a shape": lambda v: tf.FIFOQueue(3, [tf.int64], [(v, v)]).size(),
        "dequeue_up_to": tf_queue,
        "dequeue_many": tf_queue_many,
        "read_up_to": tf_reader,
        "skip_header_lines": lambda v: tf.TextLineReader(v).read(
            tf.train.string_input_producer([str(FOLDER / "lines")], 1)
        ),
        "record_bytes": lambda v: tf.FixedLengthRecordReader(v).read(
            tf.train.string_input_producer([str(FOLDER / "fixed")], 1)
        ),
        "header_bytes": lambda v: tf.FixedLengthRecordReader(10, v, v, v).read(
            tf.train.string_input_producer([str(FOLDER / "fixed")], 1)
        ),
        "batch": lambda v: tf.train.batch([tf.constant(1)], v),
        "batch, the last one smaller": lambda v: tf.train.batch(
            [tf.train.range_input_producer(3, 1).dequeue()], v, allow_smaller_final_batch=True
        ),
        "batch capacity": lambda v: tf.train.batch([tf.constant(1)], 2, 1, v),
        "batch threads": lambda v: tf.train.batch([tf.constant(1)], 2, v if v is True or v < 1 else v + 2**62),
        "shuffle_batch": lambda v: tf.train.shuffle_batch([tf.constant(1)], 2, v, 1),
        "shuffle_batch min_after_dequeue": lambda v: tf.train.shuffle_batch([tf.constant(1)], 2, 10, v),
        "input_producer capacity": lambda v: tf.train.string_input_producer(["a"], 1, capacity=v).dequeue(),
        "input_producer epochs": lambda v: tf.train.string_input_producer(["a"], v).dequeue(),
        "range_input_producer": lambda v: (
            tf.train.range_input_producer(v, shuffle=False).dequeue()
            if not isinstance(v, int) or v < 2
            else tf.constant(1)
        ),
        "limit_epochs": lambda v: tf.train.limit_epochs(tf.constant(1), v),
        "zeros": lambda v: tf.zeros([v]),
        "zeros, two sides": lambda v: tf.zeros([v, v]),
        "ones": lambda v: tf.ones([v, 2]),
        "fill": lambda v: tf.fill([v], 1),
        "constant": lambda v: tf.constant(1, tf.int32, [v]),
        "range": lambda v: tf.range(0, v, 1) if isinstance(v, bool) or v > 2**33 or v < 0 else tf.constant(0),
        "linspace": lambda v: tf.linspace(0.0, 1.0, v),
        "tile": lambda v: tf.tile(SMALL, [v]),
        "one_hot": lambda v: tf.one_hot([1, 2], v),
        "reshape": lambda v: tf.reshape(SMALL, [v]),
        "reshape, product wraps": lambda v: tf.reshape(SMALL, [v, 4]),
        "broadcast_to": lambda v: tf.broadcast_to(np.zeros(1), [v]),
        "pad": lambda v: tf.pad(SMALL, [[v, 0]]),
        "pad, both": lambda v: tf.pad(SMALL, [[v, v]]),
        "pad, reflect": lambda v: tf.pad(SMALL, [[v, v]], "REFLECT"),
        "slice": lambda v: tf.slice(SMALL, [0], [v]),
        "slice begin": lambda v: tf.slice(SMALL, [v], [v]),
        "strided_slice": lambda v: tf.strided_slice(SMALL, [0], [v], [v]),
        "gather": lambda v: tf.gather(SMALL, [v]),
        "expand_dims": lambda v: tf.expand_dims(SMALL, v),
        "concat": lambda v: tf.concat([SMALL, SMALL], v),
        "stack": lambda v: tf.stack([SMALL, SMALL], v),
        "unstack": lambda v: tf.unstack(SMALL, v),
        "split": lambda v: tf.split(SMALL, v),
        "cumsum": lambda v: tf.cumsum(SMALL, v),
        "reduce_sum": lambda v: tf.reduce_sum(SMALL, v),
        "substr": lambda v: tf.substr(["abc"], v, v),
        "as_string": lambda v: tf.as_string([1.5], precision=v if not isinstance(v, int) or v < 2**40 else v),
        "as_string width": lambda v: tf.as_string([1.5], width=v),
        "random_uniform": lambda v: tf.random_uniform([v]),
        "random_normal": lambda v: tf.random_normal([v, v]),
        "random_uniform bounds": lambda v: tf.random_uniform([2], 0, v, tf.int64),
        "random seed": lambda v: tf.random_uniform([2], seed=v),
        "random_crop": lambda v: tf.random_crop(PIXELS, [v, v, 3]),
        "resize": lambda v: tf.image.resize_images(PIXELS, [v, v]),
        "resize, one side": lambda v: tf.image.resize_images(PIXELS, [1, v]),
        "crop": lambda v: tf.image.crop_to_bounding_box(PIXELS, v, v, v, v),
        "pad_to_bounding_box": lambda v: tf.image.pad_to_bounding_box(PIXELS, v, v, v, v),
        "crop_or_pad": lambda v: tf.image.resize_image_with_crop_or_pad(PIXELS, v, 4),
        "rot90": lambda v: tf.image.rot90(PIXELS, v),
        "decode_raw": lambda v: tf.decode_raw(["12345678"], tf.int64, fixed_length=v),
        "FixedLenFeature": lambda v: tf.parse_example([b""], {"x": tf.FixedLenFeature([v], tf.int64, 0)}),
        "sparse_to_dense": lambda v: tf.sparse_to_dense([[0]], [v], [1]),
        "sparse_to_dense, two sides": lambda v: tf.sparse_to_dense([[0, 0]], [v, v], [1]),
        "data.batch": lambda v: tf_next(tf_range().batch(v)),
        "data.range": lambda v: tf_next(tf.data.Dataset.range(v)),
        "data.shuffle": lambda v: tf_next(tf_range().shuffle(v)),
        "data.repeat": lambda v: tf_next(tf_range().repeat(v)),
        "data.take": lambda v: tf_next(tf_range().take(v)),
        "data.skip": lambda v: tf_next(tf_range().skip(v)),
        "data.shard": lambda v: tf_next(tf_range().shard(v, 0)),
        "data.prefetch": lambda v: tf_next(tf_range().prefetch(v)),
        "data.padded_batch": lambda v: tf_next(tf_range().padded_batch(v, [])),
        "data.map": lambda v: tf_next(tf_range().map(lambda x: x + 1, v)),
        "data.interleave": lambda v: tf_next(tf_range().interleave(lambda x: tf_range(2), v, v)),
        "timeout": lambda v: tf.Session(config=tf.ConfigProto(operation_timeout_in_ms=v)).close() or tf.constant(1),
    }.items()
}

GROUPS = {"queues": QUEUES, "readers": READERS, "data": DATA, "ops": OPS, "tf1": TF1}

# What may end a call. As in TensorFlow, what can't be in a graph is a plain ValueError.
ALLOWED = {"tf1": (errors.QueueCoreError, TypeError, ValueError)}
# NumPy's words, and Python's, where nobody has said what they are about.
NOT_OURS = ("array is too big", "Maximum allowed dimension", "too large to convert")


def values_of(group: str) -> list[Any]:
    """Return the numbers that a group is tried with: fewer, where each case makes a session."""
    return [2**32, 2**62, 2**63, -1, True, 1.5] if group == "tf1" else VALUES


def shown(value: Any) -> str:
    return repr(value)[:80]


def main(group: str, begin: int = 0) -> None:
    """Try the cases of a group, from number `begin` on, and say of each how it ends."""
    warnings.simplefilter("ignore")
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    most = pages * resource.getpagesize() + ROOM
    resource.setrlimit(resource.RLIMIT_AS, (most, resource.getrlimit(resource.RLIMIT_AS)[1]))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    for name, value in itertools.islice(itertools.product(GROUPS[group], values_of(group)), begin, None):
        print(json.dumps([name, shown(value), "begun", ""]), flush=True)
        faulthandler.dump_traceback_later(PATIENCE, exit=True)
        try:
            outcome = ["fine", shown(GROUPS[group][name](value))]
        except ALLOWED.get(group, (errors.QueueCoreError, TypeError)) as error:
            nameless = type(error) is ValueError and str(error).startswith(NOT_OURS)
            outcome = ["wrong" if nameless else "named", f"{type(error).__name__}: {error}"[:300]]
        except BaseException as error:  # noqa: BLE001 - told to the parent
            outcome = ["wrong", f"{type(error).__name__}: {error}"[:300]]
        faulthandler.cancel_dump_traceback_later()
        print(json.dumps([name, shown(value), *outcome]), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
