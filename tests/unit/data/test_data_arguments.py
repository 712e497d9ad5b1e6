"""Arguments that are there for tf.data's sake: their names, their order, and the little they do."""

import gzip
import json
import pickle
import subprocess

import numpy as np
import pytest
from helpers.tensorflow import data_arguments
from helpers.tensorflow.peers import PYTHON, asks_tensorflow

import queuecore as qc
from queuecore import data
from queuecore.data import (
    AUTOTUNE,
    CsvDataset,
    Dataset,
    FixedLengthRecordDataset,
    NumpyDataset,
    Options,
    TextLineDataset,
    TFRecordDataset,
    WholeFileDataset,
)
from queuecore.errors import InvalidArgumentError

DS = Dataset.range(6)
ROWS = DS.batch(3)

# Each call, without a name.
CALLS = {
    "repeat": lambda **name: DS.repeat(2, **name),
    "take": lambda **name: DS.take(2, **name),
    "skip": lambda **name: DS.skip(2, **name),
    "batch": lambda **name: DS.batch(2, **name),
    "padded_batch": lambda **name: DS.padded_batch(2, **name),
    "bucket_by_sequence_length": lambda **name: ROWS.bucket_by_sequence_length(len, [2], [1, 1], **name),
    "shuffle": lambda **name: DS.shuffle(3, 1, **name),
    "shard": lambda **name: DS.shard(2, 1, **name),
    "prefetch": lambda **name: DS.prefetch(2, **name),
    "with_options": lambda **name: DS.with_options(Options(num_threads=1), **name),
    "map": lambda **name: DS.map(lambda x: x + 1, **name),
    "take_while": lambda **name: DS.take_while(lambda x: x < 3, **name),
    "scan": lambda **name: DS.scan(0, lambda s, x: (s + x, s), **name),
    "from_tensors": lambda **name: Dataset.from_tensors(1, **name),
    "from_tensor_slices": lambda **name: Dataset.from_tensor_slices([1, 2], **name),
    "range": lambda **name: Dataset.range(2, **name),
    "zip": lambda **name: Dataset.zip(DS, DS, **name),
    "concatenate": lambda **name: DS.concatenate(DS, **name),
    "enumerate": lambda **name: DS.enumerate(**name),
    "counter": lambda **name: Dataset.counter(3, **name).take(3),
    "unique": lambda **name: DS.unique(**name),
    "ragged_batch": lambda **name: DS.ragged_batch(2, **name),
    "unbatch": lambda **name: ROWS.unbatch(**name),
    "rebatch": lambda **name: ROWS.rebatch(2, **name),
    "group_by_window": lambda **name: DS.group_by_window(lambda x: x % 2, lambda _, w: w.batch(2), 2, **name),
    "rejection_resample": lambda **name: DS.rejection_resample(lambda x: x % 2, [0.5, 0.5], [1, 1], 1, **name),
    "sparse_batch": lambda **name: DS.sparse_batch(2, [], **name),
    "random": lambda **name: Dataset.random(1, **name).take(2),
    "from_list": lambda **name: Dataset.from_list([1, 2], **name),
    "assert_cardinality": lambda **name: DS.assert_cardinality(6, **name),
    "window": lambda **name: DS.window(2, **name).flat_map(lambda window: window),
    "cache": lambda **name: DS.cache(**name),
    "filter": lambda **name: DS.filter(lambda x: x > 2, **name),
    "ignore_errors": lambda **name: DS.ignore_errors(**name),
    "from_generator": lambda **name: Dataset.from_generator(lambda: iter([1, 2]), np.int64, **name),
    "flat_map": lambda **name: DS.flat_map(lambda x: Dataset.range(2), **name),
    "interleave": lambda **name: DS.interleave(lambda x: Dataset.range(2), 2, **name),
}
OTHERS = {
    "get_single_element": lambda **name: DS.take(1).get_single_element(**name),
    "list_files": lambda **name: Dataset.list_files(__file__, **name),
    "reduce": lambda **name: DS.reduce(0, lambda state, x: state + x, **name),
    "snapshot": lambda **name: DS.snapshot("folder", **name),
    "FixedLengthRecordDataset": lambda **name: FixedLengthRecordDataset("x", 4, **name),
    "TFRecordDataset": lambda **name: TFRecordDataset("x", **name),
    "TextLineDataset": lambda **name: TextLineDataset("x", **name),
}


def test_names_and_order():
    methods, classes, functions = data_arguments.of(data, own=True)
    assert functions == data_arguments.EXPERIMENTAL
    assert methods == data_arguments.METHODS
    assert classes == data_arguments.CLASSES


@asks_tensorflow
def test_names_and_order_of_tensorflow():
    program = data_arguments.__file__
    found = subprocess.run([PYTHON, "-P", program], capture_output=True, timeout=300, check=True)
    assert json.loads(found.stdout) == [data_arguments.METHODS, data_arguments.CLASSES, data_arguments.EXPERIMENTAL]


def test_every_name_is_tried():
    named = [name for name, words in data_arguments.METHODS.items() if words.endswith("name")]
    assert {*named, *data_arguments.CLASSES} <= {*CALLS, *OTHERS}


@pytest.mark.parametrize("bad", ["not an identifier", "1st", 5, b"name"], ids=repr)
@pytest.mark.parametrize("method", [*CALLS, *OTHERS])
def test_bad_name(method, bad):
    text = r"^Invalid `name`\. The argument `name` needs to be a valid identifier\."
    with pytest.raises(ValueError, match=text) as caught:
        {**CALLS, **OTHERS}[method](name=bad)
    assert isinstance(caught.value, InvalidArgumentError)


@pytest.mark.parametrize("method", CALLS)
def test_a_name_changes_nothing(method):
    for name in ("good_1", "", None):
        plain, named = CALLS[method](), CALLS[method](name=name)
        assert named.plan() == plain.plan()
        with iter(named) as mine, iter(plain) as theirs:
            assert mine.state_dict() == theirs.state_dict()
            next(theirs)
            mine.load_state_dict(theirs.state_dict())
            assert list(map(str, mine)) == list(map(str, theirs))


def test_no_name_in_pickles():
    made = [pickle.dumps(Dataset.range(6, **name).repeat(2, **name).batch(2, **name)) for name in ({}, {"name": "a"})]
    assert made[0] == made[1]


def numbers(dataset):
    return [int(x) for x in dataset]


def rows(dataset):
    return [np.asarray(batch).tolist() for batch in dataset]


def test_arguments_of_batch():
    for given in ({"num_parallel_calls": 4, "deterministic": False}, {"num_parallel_calls": AUTOTUNE}):
        made = DS.batch(4, **given)
        assert rows(made) == [[0, 1, 2, 3], [4, 5]]
        assert made.plan() == DS.batch(4).plan()
    for bad in ({"num_parallel_calls": 0}, {"num_parallel_calls": 1.5}, {"deterministic": 1}, {"deterministic": 0}):
        with pytest.raises(InvalidArgumentError):
            DS.batch(4, **bad)


def test_arguments_of_map():
    assert numbers(DS.map(lambda x: -x, None, None, True, True)) == [0, -1, -2, -3, -4, -5]
    assert numbers(DS.map(lambda x: -x, synchronous=None, use_unbounded_threadpool=None)) == [0, -1, -2, -3, -4, -5]
    for what in ("synchronous", "use_unbounded_threadpool"):
        with pytest.raises(InvalidArgumentError, match=what):
            DS.map(lambda x: x, **{what: 0})


def test_prefetch_of_none_is_the_library_s_choice():
    assert DS.prefetch(None).plan() == DS.prefetch(AUTOTUNE).plan()
    assert numbers(DS.prefetch(None)) == numbers(DS)


def inner(x):
    return Dataset.range(10 * int(x), 10 * int(x) + 3)


@pytest.mark.parametrize(
    ("arguments", "cycle"), [({}, 1), ({"num_parallel_calls": 3}, 3), ({"num_parallel_calls": AUTOTUNE}, 1)]
)
@pytest.mark.parametrize("cycle_length", [None, AUTOTUNE])
def test_interleave_chooses_the_same_on_every_machine(monkeypatch, arguments, cycle, cycle_length):
    expected = numbers(DS.interleave(inner, cycle, 1))
    for cpus in (1, 64):
        monkeypatch.setattr("queuecore._machine.cpus", lambda n=cpus: n)
        assert numbers(DS.interleave(inner, cycle_length, None, **arguments)) == expected
    with pytest.raises(InvalidArgumentError, match="cycle_length"):
        DS.interleave(inner, 0, **arguments)


def test_parallel_interleave_chooses():
    expected = numbers(DS.interleave(inner, 1, 1))
    assert numbers(DS.parallel_interleave(inner, None, None)) == expected
    assert numbers(DS.apply(data.parallel_interleave(inner, AUTOTUNE))) == expected
    with pytest.raises(InvalidArgumentError, match="cycle_length"):
        DS.parallel_interleave(inner, -2)


NO_FILES = {
    "fixed": lambda: FixedLengthRecordDataset([], 4),
    "fixed, compressed": lambda: FixedLengthRecordDataset((), 4, compression_type="GZIP"),
    "lines": lambda: TextLineDataset([]),
    "lines, compressed": lambda: TextLineDataset([], "GZIP"),
    "tfrecord": lambda: TFRecordDataset([]),
    "whole": lambda: WholeFileDataset([]),
    "csv": lambda: CsvDataset([], [0.0, b""]),
}
AFTER = {
    "as it is": lambda ds: ds,
    "batches": lambda ds: ds.batch(2),
    "endless": lambda ds: ds.shuffle(4, 1).repeat().batch(2),
    "mapped": lambda ds: ds.map(lambda *x: x).skip(1),
    "a part": lambda ds: ds.shard(2, 1).take(3),
    "kept": lambda ds: ds.cache().repeat(2),
    "combined": lambda ds: Dataset.zip(ds, Dataset.range(3)),
    "by bytes": lambda ds: ds.with_options(Options(identity="content", on_error="skip")),
    "on a device": lambda ds: ds.prefetch_to_device("cpu"),
}


@pytest.mark.parametrize("after", AFTER)
@pytest.mark.parametrize("kind", NO_FILES)
def test_no_files_are_an_empty_dataset(kind, after):
    ds = AFTER[after](NO_FILES[kind]())
    it = iter(ds)
    assert list(it) == []
    if after != "on a device":
        again = iter(AFTER[after](NO_FILES[kind]()))
        again.load_state_dict(json.loads(json.dumps(it.state_dict())))
        assert list(again) == []


def test_fixed_records_of_no_files():
    ds = FixedLengthRecordDataset([], 4)
    assert len(ds) == 0
    assert list(ds.permute(1)) == []
    assert list(ds.shard(2, 0, uneven="pad")) == []
    assert list(pickle.loads(pickle.dumps(ds))) == []


def test_arrays_of_no_files_are_unknown():
    with pytest.raises(InvalidArgumentError, match="filenames is empty"):
        NumpyDataset([])


def test_datasets_show_what_is_for_users():
    # Names that Dataset documents; all else that its base class has is private.
    shown = {name for name in dir(Dataset) if not name.startswith("_")}
    own = {name for base in Dataset.__mro__ if "_methods" in base.__module__ or base is Dataset for name in vars(base)}
    assert shown - {"element_spec"} <= own


@pytest.mark.parametrize("word", ["gzip", "Gzip", "GZIP"])
def test_words_of_compression_in_any_letters(tmp_path, word):
    path = tmp_path / "a.gz"
    path.write_bytes(gzip.compress(b"name\n1\n2\n"))
    assert list(data.TextLineDataset(path, word)) == [b"name", b"1", b"2"]
    assert [int(row) for (row,) in data.CsvDataset(path, [0], word, header=True)] == [1, 2]
    assert len(list(data.FixedLengthRecordDataset(path, 3, compression_type=word))) == 3
    assert qc.FixedLengthRecordReader(3, encoding=word).read([path])[1] == gzip.decompress(path.read_bytes())[:3]
    assert qc.ops.decode_compressed(path.read_bytes(), word) == b"name\n1\n2\n"
    with qc.TFRecordWriter(tmp_path / "b", word) as writer:
        writer.write(b"x")
    assert gzip.decompress((tmp_path / "b").read_bytes())[12:13] == b"x"
    with iter(data.TextLineDataset(path, word)) as lines:
        next(lines)
        state = lines.state_dict()
    with iter(data.TextLineDataset(path, "GZIP")) as lines:  # the same dataset
        lines.load_state_dict(state)
        assert next(lines) == b"1"
