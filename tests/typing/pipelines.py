"""What type checkers make of code that uses queuecore. It is checked, by `make types`, and never run."""

import sys
import threading
from pathlib import Path
from typing import Any, assert_type

import numpy as np

import queuecore as qc
from queuecore import data, errors

RECORD = np.dtype([("label", "u1"), ("image", "u1", (3, 32, 32))])


def steps() -> None:
    """Each step gives a dataset."""
    ds = data.FixedLengthRecordDataset("train-*.bin", record=RECORD)
    assert_type(ds, data.FixedLengthRecordDataset)
    assert_type(ds.shuffle(10_000, seed=0), data.Dataset)
    assert_type(ds.shuffle(10_000, None, False), data.Dataset)
    assert_type(ds.permute(seed=0), data.Dataset)
    assert_type(ds.shard(4, np.int64(1)).shard(uneven="pad"), data.Dataset)
    assert_type(ds.repeat(), data.Dataset)
    assert_type(ds.repeat(np.int64(2)).skip(1).take(10), data.Dataset)
    assert_type(ds.batch(128, drop_remainder=True).prefetch(data.AUTOTUNE), data.Dataset)
    assert_type(ds.with_options(data.Options(num_threads=2, on_hold="raise")), data.Dataset)
    assert_type(ds.cardinality(), int)
    assert_type(len(ds), int)


def sources() -> None:
    """A name, a path, or several of them; record sizes or dtypes."""
    data.FixedLengthRecordDataset(Path("a.bin"), 3073, 4, 4, hop_bytes=10, tail="drop", num_parallel_reads=2)
    data.FixedLengthRecordDataset(["a.bin", Path("b.bin")], record_bytes=3073)
    assert_type(data.NumpyDataset(["a.npy", Path("b.npy")], num_parallel_reads=2), data.NumpyDataset)
    data.NumpyDataset("a.npy", "r")  # type: ignore[arg-type]


def iteration() -> None:
    """Iterators close themselves and carry their place."""
    ds = data.FixedLengthRecordDataset("train-*.bin", 3073).batch(128)
    with iter(ds) as batches:
        assert_type(batches, data.Iterator)
        for batch in batches:
            assert_type(batch, Any)
        state = batches.state_dict()
        assert_type(state, dict[str, Any])
        assert_type(batches.stats(), dict[str, int])
        batches.close(timeout=1)
    again = iter(ds)
    again.load_state_dict(state)


def kinds_of_iterators() -> None:
    """Those of TensorFlow's tutorials."""
    ds = data.FixedLengthRecordDataset("train-*.bin", 3073).batch(128)
    assert_type(ds.make_one_shot_iterator(), data.Iterator)
    assert_type(ds.as_numpy_iterator(), data.Iterator)
    begins = ds.make_initializable_iterator(shared_name="train")
    assert_type(begins, data.InitializableIterator)
    assert_type(begins.initializer(), None)
    begins.initialize(ds.take(3))
    switched = data.Iterator.from_structure({"a": np.uint8, "b": (bytes, "f4")}, {"a": (None,), "b": ((), None)})
    assert_type(switched, data.ReinitializableIterator)
    assert_type(switched.make_initializer(ds)(), None)
    fed = data.Iterator.from_string_handle(lambda: begins.string_handle(), ds.output_types, ds.output_shapes)
    assert_type(fed, data.FeedableIterator)
    every: list[data.IteratorBase] = [begins, switched, fed, iter(ds)]
    with every[0] as it:
        assert_type(it.get_next(), Any)
        assert_type(it.get_next_as_optional(), data.Optional)
        assert_type(it.state_dict(), dict[str, Any])
        for element in it:
            assert_type(element, Any)


def combinations() -> None:
    """Steps that are several steps, and values of a whole dataset."""
    ds = data.FixedLengthRecordDataset("train-*.bin", 3073)
    assert_type(ds.shuffle_and_repeat(100, count=3, seed=np.int64(1)), data.Dataset)
    assert_type(ds.apply(data.shuffle_and_repeat(100)).apply(lambda given: given.batch(2)), data.Dataset)
    stage = qc.ops.cast(dtype=np.float32)
    assert_type(ds.map(stage, num_parallel_calls=data.AUTOTUNE, deterministic=True), data.Dataset)
    assert_type(ds.apply(data.map_and_batch(stage, 32, num_parallel_calls=4)), data.Dataset)
    assert_type(ds.map_and_batch(stage, 32, drop_remainder=True), data.Dataset)
    assert_type(ds.options(), data.Options)
    assert_type(ds.reduce(0, lambda total, element: total + element.sum()), Any)
    assert_type(ds.get_single_element(), Any)


def threads() -> None:
    """A coordinator and what runs under it."""
    coord = qc.Coordinator((errors.OutOfRangeError,))
    assert_type(coord.should_stop(), bool)
    assert_type(coord.wait_for_stop(timeout=1), bool)
    assert_type(coord.exceptions, tuple[BaseException, ...])
    coord.register_thread(threading.Thread())
    try:
        with coord.stop_on_exception():
            pass
    except ValueError as error:
        coord.request_stop(error)
    coord.request_stop(sys.exc_info())
    assert_type(qc.LooperThread.loop(coord, 0.5, print, args=(1,), kwargs={"end": ""}), qc.LooperThread)
    runner = qc.QueueRunner(object(), [lambda: None] * 4, queue_closed_exception_types=(errors.OutOfRangeError,))
    assert_type(runner.create_threads(coord, start=True), list[threading.Thread])
    assert_type(runner.exceptions_raised, list[BaseException])
    qc.add_queue_runner(runner)
    coord.join(qc.start_queue_runners(coord=coord), stop_grace_period_secs=10)


def failures() -> None:
    """Errors say where, and are the built-in ones too."""
    try:
        qc.set_random_seed(1234)
    except errors.TruncatedRecordError as error:
        assert_type(error.path, str | None)
        assert_type(error.offset, int | None)
        assert_type(error.record, int | None)
    missing: type[FileNotFoundError] = errors.NotFoundError
    late: type[TimeoutError] = errors.DeadlineExceededError
    wrong: type[ValueError] = errors.InvalidArgumentError
    assert missing and late and wrong


# Each of these is a mistake, and an ignore that nothing needs is an error for both checkers.
def mistakes(ds: data.Dataset) -> None:
    """What must not pass."""
    data.FixedLengthRecordDataset("a.bin", 1, tail="ignore")  # type: ignore[arg-type]
    data.FixedLengthRecordDataset("a.bin", 1, 0, 0, None, None, None, None, RECORD)  # type: ignore[call-arg]
    data.Options(num_threads="2")  # type: ignore[arg-type]
    data.Options(threads=2)  # type: ignore[call-arg]
    ds.batch("128")  # type: ignore[arg-type]
    ds.repeats(2)  # type: ignore[attr-defined]
    iter(ds).close("1")  # type: ignore[arg-type]
    ds.apply(3)  # type: ignore[arg-type]
    ds.apply(lambda given: 3)  # type: ignore[type-var]
    data.Iterator.from_string_handle(3, "u1")  # type: ignore[arg-type]
    qc.Coordinator().request_stop("why")  # type: ignore[arg-type]
    qc.QueueRunner(object(), [1])  # type: ignore[list-item]
    qc.StageProgram(qc.TextLineReader(), ["a"], 7)  # type: ignore[arg-type]
    qc.StageProgram(qc.TextLineReader(), ["a"], on_error="ignore")  # type: ignore[arg-type]


def user_code() -> None:
    """Functions are steps; what is bad may be left out."""
    program = qc.StageProgram(
        qc.TFRecordReader(resync=True),
        [Path("a.tfrecord")],
        qc.ops.python(lambda record: record[1:], outputs=[(bytes, ())]),
        qc.ops.decode_raw(out_type=np.uint8),
        lambda values: (values, len(values)),
        on_error="skip",
        max_skips=100,
        quarantine=Path("bad.jsonl"),
    )
    assert_type(program.stats(), dict[str, int])
    assert_type(program.explain(), str)
    assert_type(qc.ops.cfunc(print, outputs={"a": (np.float32, (3,))}), qc.ops.Stage)
    qc.QueueRunner(qc.FIFOQueue(1, [object]), [program] * 2)
