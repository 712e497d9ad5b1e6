"""Options of stores: each dataset, reader and writer has its own, wherever the names of its files come from."""

import functools
import gc
import itertools
import json
import pickle

import numpy as np
import pytest
from helpers.data.remote_store import CHAINS, both, contents, elements, fresh, plain
from helpers.formats import tfrecords
from helpers.process import soon

import queuecore as qc
import queuecore.tf1 as tf
from queuecore._io import remote
from queuecore.data import Dataset, FixedLengthRecordDataset, Options, TextLineDataset, TFRecordDataset
from queuecore.errors import InvalidArgumentError, UnavailableError, UnimplementedError

URL = "store://bucket/a"
MINE, YOURS = {"key": "mine"}, {"key": "yours"}


@pytest.fixture(autouse=True)
def store(monkeypatch):
    return fresh(monkeypatch)


@pytest.fixture
def shared(store):
    """A URL at which two users see other lines."""
    store.objects.update({("mine", "bucket/a"): b"1\n2\n3\n", ("yours", "bucket/a"): b"7\n8\n9\n"})
    return store


MAKERS = {
    "fixed": lambda name, **words: FixedLengthRecordDataset(name, 20, **words),
    "lines": TextLineDataset,
    "compressed": lambda name, **words: TextLineDataset(name, "GZIP", **words),
    "records": TFRecordDataset,
    "csv": lambda name, **words: qc.data.CsvDataset(name, [np.int64, np.int32], **words),
    "whole": qc.data.WholeFileDataset,
}


@pytest.mark.parametrize("chain", CHAINS)
@pytest.mark.parametrize("kind", MAKERS)
def test_two_datasets_of_one_url(store, kind, chain):
    data = contents()["lines" if kind == "whole" else kind]
    store.objects.update({("mine", "bucket/a"): data[0], ("yours", "bucket/a"): data[1]})
    datasets = [CHAINS[chain](MAKERS[kind](URL, storage_options=options)) for options in (MINE, YOURS)]
    want = [elements(ds) for ds in datasets]
    assert want[0] != want[1] or kind == "whole" and chain == "a part"  # of which there is nothing
    results = [[], []]
    with iter(datasets[0]) as mine, iter(datasets[1]) as yours:
        for pair in itertools.zip_longest(mine, yours):
            for ours, element in zip(results, pair, strict=True):
                if element is not None:
                    ours.append(plain(element))
    assert results == want
    again = pickle.loads(pickle.dumps(datasets))
    assert [elements(ds) for ds in again] == want


def test_arrays_and_headers(tmp_path, store):
    for key, first in (("mine", 0), ("yours", 100)):
        np.save(tmp_path / "x.npy", np.arange(first, first + 6).reshape(3, 2))
        store.objects[key, "bucket/x.npy"] = (tmp_path / "x.npy").read_bytes()
        store.objects[key, "bucket/t.csv"] = f"name,{key}\na,{first}\n".encode()
    for key, first in (("mine", 0), ("yours", 100)):
        ds = qc.data.NumpyDataset("store://bucket/x.npy", storage_options={"key": key})
        assert np.asarray(next(iter(pickle.loads(pickle.dumps(ds)).batch(3)))).ravel().tolist() == [
            *range(first, first + 6)
        ]
        table = qc.data.CsvDataset(
            "store://bucket/t.csv", [np.int32], header=True, select_cols=[key], storage_options={"key": key}
        )
        assert elements(table) == [(first,)]


def test_two_caches_of_one_url(tmp_path, shared):
    datasets = [
        TextLineDataset(URL, storage_options=options).with_options(Options(cache_dir=tmp_path / options["key"]))
        for options in (MINE, YOURS)
    ]
    results = [[], []]
    with iter(datasets[0]) as mine, iter(datasets[1]) as yours:
        for one, other in zip(mine, yours, strict=True):
            results[0].append(one)
            results[1].append(other)
    assert results == [[b"1", b"2", b"3"], [b"7", b"8", b"9"]]
    shared.requests.clear()
    for ds, want in zip(datasets, results, strict=True):
        assert elements(ds.with_options(Options(offline=True))) == want
    assert not shared.requests
    assert elements(TextLineDataset(URL, storage_options=MINE)) == results[0] and shared.requests


def test_sizes_of_what_a_cache_has(tmp_path, store):
    local, remote = both(tmp_path, store, "fixed")
    options = Options(cache_dir=tmp_path / "cache")
    assert len(elements(remote.with_options(options))) == len(local)
    store.requests.clear()
    offline = options.merged(Options(offline=True))
    assert len(remote.with_options(offline)) == len(local)
    assert len(remote.concatenate(remote).with_options(offline)) == 2 * len(local)
    assert not store.requests
    with pytest.raises(UnavailableError, match="is not in the cache"):
        len(FixedLengthRecordDataset("store://bucket/missing", 20).with_options(offline))


def listed(options, shuffle=False):
    return Dataset.list_files("store://bucket/*", shuffle=shuffle, storage_options=options)


@pytest.fixture
def two(store):
    """Two files, of which two users see others."""
    for key, first in (("mine", 1), ("yours", 5)):
        store.objects.update({(key, f"bucket/{name}"): b"%d\n" % (first + n) for n, name in enumerate("ab")})
    store.objects.update({"bucket/a": b"0\n", "bucket/b": b"0\n"})
    return store


WAYS = {
    "a class": lambda files: files.interleave(TextLineDataset, 1),
    "a function": lambda files: files.interleave(lambda name: TextLineDataset(name), 1),
    "flat_map": lambda files: files.flat_map(lambda name: TextLineDataset(name)),
    "steps": lambda files: files.interleave(lambda name: TextLineDataset(name).map(lambda line: line), 2),
    "sharded": lambda files: files.shard(1, 0).repeat(1).interleave(TextLineDataset, 1),
    "a node between": lambda files: files.filter(lambda name: True).flat_map(TextLineDataset),
    "pairs": lambda files: Dataset.zip(Dataset.range(2), files).flat_map(lambda _, name: TextLineDataset(name)),
    "parallel": lambda files: files.interleave(TextLineDataset, 2, num_parallel_calls=2),
    "a pickle": lambda files: pickle.loads(pickle.dumps(files)).flat_map(TextLineDataset),
}


@pytest.mark.parametrize("way", WAYS)
def test_names_that_were_listed(two, way):
    made = [WAYS[way](listed(options)) for options in (MINE, YOURS)]
    two.keys.clear()
    assert [elements(ds) for ds in made] == [[b"1", b"2"], [b"5", b"6"]]
    assert set(two.keys) == {"mine", "yours"}
    two.keys.clear()
    assert elements(pickle.loads(pickle.dumps(WAYS["a class"](listed(MINE))))) == [b"1", b"2"]
    assert set(two.keys) == {"mine"}


def test_names_that_come_in_any_order(two):
    made = [listed(options, True).interleave(TextLineDataset, 1) for options in (MINE, YOURS)]
    assert [sorted(elements(ds)) for ds in made] == [[b"1", b"2"], [b"5", b"6"]]


def test_a_function_may_say_it_itself(two):
    opens = functools.partial(TextLineDataset, storage_options=YOURS)
    for files in (listed(MINE), Dataset.from_tensor_slices(["store://bucket/a", "store://bucket/b"])):
        assert elements(files.interleave(opens, 1)) == [b"5", b"6"]
        assert elements(files.flat_map(lambda name: opens(name))) == [b"5", b"6"]
    assert elements(listed(MINE).flat_map(functools.partial(TextLineDataset, storage_options={}))) == [b"0", b"0"]
    each = iter([MINE, YOURS, MINE, YOURS])  # they are tried beforehand
    mixed = Dataset.from_tensor_slices(["store://bucket/a", "store://bucket/b"])
    by_name = {b"store://bucket/a": MINE, b"store://bucket/b": YOURS}
    assert elements(mixed.interleave(lambda name: TextLineDataset(name, storage_options=by_name[name]), 1)) == [
        b"1",
        b"6",
    ]
    assert next(each) is MINE
    assert elements(TextLineDataset("store://bucket/*")) == [b"0", b"0"]  # nobody else hears of it


READERS = {
    "fixed": lambda words: qc.FixedLengthRecordReader(20, **words),
    "lines": lambda words: qc.TextLineReader(**words),
    "records": lambda words: qc.TFRecordReader(**words),
    "whole": lambda words: qc.WholeFileReader(**words),
}


@pytest.mark.parametrize("kind", READERS)
def test_readers(store, kind):
    data = contents()["lines" if kind == "whole" else kind]
    store.objects.update({("mine", "bucket/a"): data[0], ("yours", "bucket/a"): data[1]})
    values = []
    for options in (MINE, YOURS):
        reader = READERS[kind]({"storage_options": options})
        values.append(reader.read([URL])[1])
        assert "yours" not in repr(reader)
    assert values[0] != values[1]
    assert set(store.keys) == {"mine", "yours"}
    queue = qc.FIFOQueue(9, ["S40"], [()])
    queue.enqueue([URL])
    queue.close()
    coordinator = qc.Coordinator()
    program = qc.StageProgram(READERS[kind]({"storage_options": YOURS}), queue)
    out = qc.FIFOQueue(2000, ["S", "S"], [(), ()])
    threads = qc.QueueRunner(out, [program]).create_threads(coordinator, start=True)
    assert out.dequeue()[1] == values[1]
    coordinator.request_stop()
    coordinator.join(threads)


def test_what_reads_no_url(store):
    with pytest.raises(UnimplementedError, match="only a local file will do here"):
        qc.LMDBReader().read(["store://bucket/a"])
    for kind in READERS:
        with pytest.raises(InvalidArgumentError, match="storage_options must be a dict"):
            READERS[kind]({"storage_options": "key"})


def test_tables(store):
    store.objects.update({("mine", "bucket/t.csv"): b"x,y\n1,2\n3,4\n", "bucket/t.csv": b"z\n1\n"})
    ds = qc.data.experimental.make_csv_dataset(
        "store://bucket/*.csv", 2, num_epochs=1, shuffle=False, storage_options=MINE
    )
    (batch,) = ds
    assert {name: column.tolist() for name, column in batch.items()} == {"x": [1, 3], "y": [2, 4]}
    example = tf.train.Example(
        features=tf.train.Features(feature={"a": tf.train.Feature(int64_list=tf.train.Int64List(value=[7]))})
    )
    store.objects["mine", "bucket/r"] = tfrecords.stream([example.SerializeToString()])
    store.objects["bucket/r"] = b""
    features = {"a": qc.ops.FixedLenFeature((), np.int64)}
    ds = qc.data.experimental.make_batched_features_dataset(
        "store://bucket/r*", 1, features, num_epochs=1, storage_options=MINE
    )
    assert [batch["a"].tolist() for batch in ds] == [[7]]
    assert set(store.keys) == {"mine"}


def test_records_without_a_graph(store):
    store.objects["bucket/r"] = tfrecords.stream([b"one", b"two"])
    records = tf.python_io.tf_record_iterator("store://bucket/r")
    assert list(records) == [b"one", b"two"]
    store.objects["bucket/r"] += tfrecords.stream([b"three"])
    assert next(records) == b"three"


def test_they_live_as_long_as_somebody_may_open_by_them(shared):
    gc.collect()
    before = len(remote._stores)
    for number in range(200):
        ds = TextLineDataset(URL, storage_options={"key": "mine", "token": str(number)})
        assert elements(ds.batch(2)) == [[b"1", b"2"], [b"3"]]
    del ds
    gc.collect()
    assert soon(lambda: len(remote._stores) <= before)  # files are closed by the threads of others
    ds = TextLineDataset(URL, storage_options=MINE)
    it = iter(ds)
    del ds
    gc.collect()
    assert elements(it) == [b"1", b"2", b"3"]


def test_what_users_hand_in_is_copied(shared):
    options = {"key": "mine"}
    ds = TextLineDataset(URL, storage_options=options)
    options["key"] = "yours"
    assert elements(ds) == [b"1", b"2", b"3"]
    options = {"store": {"key": "mine"}}
    ds = TextLineDataset(URL, storage_options=options)
    options["store"]["key"] = "yours"
    assert elements(ds) == [b"1", b"2", b"3"]


def test_they_are_shown_nowhere(shared, caplog, tmp_path):
    options = {"key": "mine", "secret": "s3cr3t"}
    files = listed(options)
    ds = TextLineDataset(URL, storage_options=options).batch(1)
    made = [ds, files.interleave(TextLineDataset), files.flat_map(lambda name: TextLineDataset(name))]
    texts = [caplog.text]
    for one in made:
        with iter(one.with_options(Options(cache_dir=tmp_path))) as it:
            next(it)
            texts += [json.dumps(it.state_dict()), repr(it), str(it.stats()), str(it.stages())]
        texts += [str(one.plan()), repr(one), repr(one._chain), str(one._chain.describe())]
    assert not [text for text in texts if "s3cr3t" in text]
    assert not [path for path in tmp_path.iterdir() if b"s3cr3t" in path.read_bytes()]


def test_states_go_on_with_other_options(shared):
    shared.objects["yours", "bucket/a"] = shared.objects["mine", "bucket/a"]
    with iter(TextLineDataset(URL, storage_options=MINE)) as it:
        assert next(it) == b"1"
        state = it.state_dict()
    with iter(TextLineDataset(URL, storage_options=YOURS)) as it:
        it.load_state_dict(state)
        shared.keys.clear()
        assert elements(it) == [b"2", b"3"]
    assert set(shared.keys) <= {"yours"}
