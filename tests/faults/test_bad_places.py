"""Random pipelines over bad records: behind any element or error, a resumed run gives what the unbroken run gives.

What a place means is in docs/subsystems/stream.md, "Places behind errors". Here nothing is repaired between the runs,
and no call of the system fails: so each place can be saved, and the threads' number changes nothing.
"""

import json
import random
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest
from helpers.data.events import ENDS, OPTIONS, check, event, rest

import queuecore as qc
from queuecore.data import CsvDataset, Dataset, Options, TextLineDataset, TFRecordDataset
from queuecore.errors import QueueCoreError

MANY = 9000  # records of a set whose elements come in several chunks


def _is_bad(k):
    return k % 7 == 3


def _in_python(x):
    return int(x)


def _spoilt(x):
    if int(x) % 5 == 2:
        raise ValueError(int(x))
    return int(x)


def _rarely_spoilt(x):
    if int(x) % 997 == 2:
        raise ValueError(int(x))
    return int(x)


def _odd(x):
    return int(x) % 2 == 1


@pytest.fixture(scope="module")
def sources(tmp_path_factory):
    """Return makers of datasets of numbers, each with bad records of another kind."""
    folder = tmp_path_factory.mktemp("bad")
    texts = ["x" if _is_bad(k) else str(100 + k) for k in range(40)]
    (folder / "lines").write_text("".join(f"{text}\n" for text in texts))
    for k, text in enumerate(texts[:12]):
        (folder / f"one-{k:02}").write_text(text)
    for name, damaged in (("damaged", 13), ("whole", None)):
        with qc.TFRecordWriter(folder / name) as writer:
            for k in range(20):
                writer.write(b"%03d" % (100 + k))
        if damaged is not None:
            data = bytearray((folder / name).read_bytes())
            data[damaged * 19 + 13] ^= 1  # a record has 16 bytes of frame and three of data
            (folder / name).write_bytes(bytes(data))
    (folder / "table").write_text("".join(f"{k},{'y' if k % 9 == 4 else k}\n" for k in range(24)))
    (folder / "quote").write_text("".join(f"{k},{k}\n" for k in range(11)) + '"11,11\n12,12\n')
    decode = qc.ops.decode_csv(record_defaults=[np.int64])
    singles = [folder / f"one-{k:02}" for k in range(12)]
    return {
        "lines": lambda: TextLineDataset(folder / "lines").map(decode),
        "files of a line": lambda: TextLineDataset(singles).map(decode),
        "records": lambda: TFRecordDataset(folder / "damaged").map(decode),
        "records of two files": lambda: TFRecordDataset([folder / "whole", folder / "damaged"]).map(decode),
        "a missing file": lambda: TFRecordDataset([folder / "whole", folder / "missing"]).map(decode),
        "interleaved": lambda: TextLineDataset(singles).with_options(Options()).map(decode).take(11),
        "table": lambda: CsvDataset(folder / "table", [np.int64, np.int64]).map(lambda a, b: a + b),
        "table that ends in a quote": lambda: CsvDataset(folder / "quote", [np.int64, np.int64]).map(lambda a, b: a),
        "numbers": lambda: Dataset.range(15).map(_spoilt),
    }


class Steps(NamedTuple):
    """Sizes of shuffles, numbers for take and skip, a function with errors, and the number up to which others zip."""

    sizes: tuple[int, ...]
    takes: tuple[int, ...]
    skips: tuple[int, ...]
    spoilt: Callable[[Any], int]
    most: int

    def shuffled(self, rng, ds):
        return ds.shuffle(rng.choice(self.sizes), rng.randrange(5), rng.random() < 0.5)

    def of_numbers(self):
        """Return steps over elements that are numbers; true: they make batches."""
        zipped = Dataset.range(200, self.most)
        return [
            (lambda rng, ds: ds.map(lambda x: x + 1), False),
            (lambda rng, ds: ds.map(_in_python), False),
            (lambda rng, ds: ds.map(_in_python, 2), False),
            (lambda rng, ds: ds.map(self.spoilt), False),
            (self.shuffled, False),
            (self.shuffled, False),
            (lambda rng, ds: ds.repeat(2), False),
            (lambda rng, ds: ds.take(rng.choice(self.takes)), False),
            (lambda rng, ds: ds.skip(rng.choice(self.skips)), False),
            (lambda rng, ds: ds.filter(_odd), False),
            (lambda rng, ds: ds.filter(lambda x: x % 3 > 0), False),
            (lambda rng, ds: ds.shard(2, rng.randrange(2)), False),
            (lambda rng, ds: ds.shard(3, rng.randrange(3), uneven="pad"), False),
            (lambda rng, ds: Dataset.zip((ds, zipped)).map(lambda x, y: x + 0 * y), False),
            (lambda rng, ds: Dataset.zip((ds, zipped)).map(lambda x, y: int(x)), False),
            (lambda rng, ds: ds.concatenate(Dataset.range(3)), False),
            (lambda rng, ds: ds.batch(rng.choice([2, 3, 4])).unbatch(), False),
            (lambda rng, ds: ds.batch(rng.choice([2, 3, 4]), drop_remainder=True).unbatch(), False),
            (lambda rng, ds: ds.batch(rng.choice([1, 2, 3, 4]), drop_remainder=rng.random() < 0.5), True),
            (lambda rng, ds: ds.batch(rng.choice([2, 3, 4]), drop_remainder=rng.random() < 0.5), True),
            (lambda rng, ds: ds.padded_batch(3, padded_shapes=(), drop_remainder=rng.random() < 0.5), True),
        ]

    def of_batches(self):
        """Return steps over batches."""
        return [
            lambda rng, ds: ds.map(lambda x: x * 2),
            lambda rng, ds: ds.map(lambda x: np.array([int(one) for one in np.ravel(x)])),
            self.shuffled,
            lambda rng, ds: ds.repeat(2),
            lambda rng, ds: ds.take(3),
            lambda rng, ds: ds.skip(1),
            lambda rng, ds: ds.batch(2, drop_remainder=rng.random() < 0.5),
        ]

    def pipeline(self, rng, source):
        """Return a random pipeline over a source."""
        ds, batches = source(), False
        steps, later = self.of_numbers(), self.of_batches()
        for _ in range(rng.choice([1, 2, 2, 3, 4])):
            if batches:
                ds = rng.choice(later)(rng, ds)
            else:
                step, batches = rng.choice(steps)
                ds = step(rng, ds)
        return ds


FEW = Steps((1, 2, 3, 7, 1000), (1, 3, 9, 25), (1, 2, 5), _spoilt, 240)
LARGE = Steps((1, 7, 300, 2000, 20000), (100, 2999, 5000), (2, 500, 2600), _rarely_spoilt, 90000)


@pytest.mark.sampled(20)
@pytest.mark.watchdog(120)
@pytest.mark.parametrize("part", range(40))
def test_each_place_of_a_random_pipeline(sources, part):
    for seed in range(25 * part, 25 * part + 25):

        def make(options, seed=seed):
            rng = random.Random(seed)
            source = sources[rng.choice(list(sources))]
            return FEW.pipeline(rng, source).with_options(options)

        try:
            make(Options())
        except QueueCoreError:  # no such pipeline can be made
            continue
        check(make, seed)


NESTED = {
    "3 of 2": lambda ds: ds.batch(2).batch(3),
    "2 of 3": lambda ds: ds.batch(3).batch(2),
    "2 of 2 of 2": lambda ds: ds.batch(2).batch(2).batch(2),
    "2 of 2 whole of 2": lambda ds: ds.batch(2).batch(2, drop_remainder=True).batch(2),
    "2 of 3, shuffled": lambda ds: ds.shuffle(4, 1, reshuffle_each_iteration=False).batch(3).batch(2),
}


@pytest.mark.parametrize("nest", NESTED)
@pytest.mark.parametrize("kind", ["lines", "records"])
def test_batches_of_batches(tmp_path, kind, nest):
    """What an error leaves out of a batch cut short doesn't come behind that batch, wherever the error is."""
    decode = qc.ops.decode_csv(record_defaults=[np.int64])
    for bad in [(k,) for k in range(9)] + [(2, 3), (3, 9), (5, 6)]:
        path = tmp_path / "-".join(map(str, bad))
        if kind == "lines":
            path.write_text("".join(f"{'x' if k in bad else k}\n" for k in range(14)))
        else:
            with qc.TFRecordWriter(path) as writer:
                for k in range(14):
                    writer.write(b"%02d" % k)
            data = bytearray(path.read_bytes())
            for k in bad:
                data[k * 18 + 12] ^= 1  # the first byte of the record's data
            path.write_bytes(bytes(data))
        source = {"lines": TextLineDataset, "records": TFRecordDataset}[kind]
        check(
            lambda options, source=source, path=path: NESTED[nest](source(path).map(decode)).with_options(options),
            bad[0],
        )


@pytest.fixture(scope="module")
def damaged(tmp_path_factory):
    """Return a function that makes a file of many records, of which some are damaged."""
    folder = tmp_path_factory.mktemp("damaged")

    def path(*bad):
        file = folder / ("-".join(map(str, bad)) or "whole")
        if not file.exists():
            with qc.TFRecordWriter(file) as writer:
                for k in range(MANY):
                    writer.write(b"%05d" % k)
            data = bytearray(file.read_bytes())
            for k in bad:
                data[k * 21 + 13] ^= 1  # a record has 16 bytes of frame and five of data
            file.write_bytes(bytes(data))
        return file

    return path


def _into_numbers(ds):
    return ds.map(qc.ops.decode_csv(record_defaults=[np.int64]))


def _halved(x):
    return x % 2 == 0


BETWEEN = {
    "nothing": lambda ds, size: _into_numbers(ds.shuffle(size, 3)),
    "a function": lambda ds, size: ds.shuffle(size, 3).map(_in_python),
    "zip": lambda ds, size: Dataset.zip((_into_numbers(ds.shuffle(size, 3)), Dataset.range(MANY).map(_in_python))),
    "a filter": lambda ds, size: _into_numbers(ds.shuffle(size, 3)).filter(_halved).map(_in_python),
    "skip": lambda ds, size: _into_numbers(ds.shuffle(size, 3).skip(2500)).map(_in_python),
    "shuffle": lambda ds, size: _into_numbers(ds.shuffle(size, 3).shuffle(50, 4)),
    "batch": lambda ds, size: _into_numbers(ds.shuffle(size, 3).batch(32)),
    "batches by a function": lambda ds, size: _into_numbers(ds.shuffle(size, 3).batch(32)).map(
        lambda x: x + _in_python(1)
    ),
    "shuffled batches": lambda ds, size: _into_numbers(ds.batch(8).shuffle(size // 8, 3)),
    "whole batches": lambda ds, size: _into_numbers(ds.shuffle(size, 3).batch(32, drop_remainder=True)),
    "whole shuffled batches": lambda ds, size: _into_numbers(ds.batch(8, drop_remainder=True).shuffle(size // 8, 3)),
    "batches of batches": lambda ds, size: _into_numbers(ds.shuffle(size, 3).batch(4).batch(4)),
    "repeat": lambda ds, size: _into_numbers(ds.take(7500).shuffle(size, 3).repeat(2)),
    "shuffle of repeat": lambda ds, size: _into_numbers(ds.take(7500).repeat(2).shuffle(size, 3)),
}


@pytest.mark.parametrize("between", BETWEEN)
@pytest.mark.parametrize("bad", [(7003,), (3005, 5000, 5001)], ids=str)
@pytest.mark.parametrize("size", [pytest.param(64, marks=pytest.mark.thorough), 2000, 20000])
def test_places_of_many_records(damaged, between, bad, size):
    """A shuffle has a damaged record in its buffer long before it gives it: only then does what it gives change."""
    path = damaged(*bad)

    def make(threads):
        return BETWEEN[between](TFRecordDataset(path), size).with_options(Options(num_threads=threads))

    def events(it):
        one = event(it)
        while one is not None:
            yield one
            one = None if isinstance(one, str) and one.endswith(ENDS) else event(it)

    with iter(make(2)) as it:
        all_events = list(events(it))
    assert all_events[-1] == "ChecksumError" + ENDS
    if between.startswith("whole "):
        assert len(set(map(len, all_events[:-1]))) == 1
    places = {len(all_events) * k // 7 for k in range(7)} | {len(all_events) - 2}
    states = {}
    with iter(make(1)) as it:
        for index in range(len(all_events)):
            if index in places:
                states[index] = json.dumps(it.state_dict())
            assert event(it) == all_events[index]
    for index, state in states.items():
        with iter(make(3)) as it:
            it.load_state_dict(json.loads(state))
            came = list(events(it))
        first = next(
            (k for k, pair in enumerate(zip(came, all_events[index:], strict=False)) if pair[0] != pair[1]), len(came)
        )
        assert came == all_events[index:], f"place {index} of {len(all_events)}: other elements from {index + first} on"


@pytest.fixture(scope="module")
def large_sources(tmp_path_factory, damaged):
    """Return makers of large datasets of numbers, each with bad records of another kind."""
    folder = tmp_path_factory.mktemp("large")
    count = 6000
    (folder / "lines").write_text("".join(f"{'x' if k % 997 == 3 else 100 + k}\n" for k in range(count)))
    (folder / "table").write_text("".join(f"{k},{'y' if k % 991 == 4 else k}\n" for k in range(count)))
    (folder / "quote").write_text("".join(f"{k},{k}\n" for k in range(4011)) + '"11,11\n12,12\n')
    sound_file, one, three = damaged(), damaged(3001), damaged(2500, 4000, 4003)
    return {
        "lines": lambda: _into_numbers(TextLineDataset(folder / "lines")),
        "records": lambda: _into_numbers(TFRecordDataset(one)),
        "more records": lambda: _into_numbers(TFRecordDataset(three)),
        "records of two files": lambda: _into_numbers(TFRecordDataset([sound_file, one])),
        "a missing file": lambda: _into_numbers(TFRecordDataset([sound_file, folder / "missing"])),
        "table": lambda: CsvDataset(folder / "table", [np.int64, np.int64]).map(lambda a, b: a + b),
        "table that ends in a quote": lambda: CsvDataset(folder / "quote", [np.int64, np.int64]).map(lambda a, b: a),
        "numbers": lambda: Dataset.range(count).map(_rarely_spoilt),
    }


@pytest.mark.thorough
@pytest.mark.watchdog(120)
@pytest.mark.parametrize("part", range(15))
def test_some_places_of_a_large_random_pipeline(large_sources, part):
    for seed in range(25 * part, 25 * part + 25):

        def make(index, seed=seed):
            rng = random.Random(seed)
            source = large_sources[rng.choice(list(large_sources))]
            return LARGE.pipeline(rng, source).with_options(OPTIONS[(seed + index) % len(OPTIONS)])

        try:
            ds = make(0)
        except QueueCoreError:  # no such pipeline can be made
            continue
        with iter(ds) as it:
            all_events = rest(it, 30000)
        last = [one for one in all_events[-1:] if isinstance(one, str) and one.endswith(ENDS)]
        rng = random.Random(seed)
        places = {rng.randrange(len(all_events) + 1) for _ in range(5)}
        places |= {index for index, one in enumerate(all_events) if isinstance(one, str)} - {
            *range(3, len(all_events) - 3)
        }
        states = {}
        with iter(make(1)) as it:
            for index in range(max(places) + 1):
                if index in places:
                    states[index] = json.dumps(it.state_dict())
                if index < len(all_events):
                    assert event(it) == all_events[index]
        for index, state in states.items():
            with iter(make(index)) as it:
                it.load_state_dict(json.loads(state))
                came = rest(it, 30000 - index)
            assert came == (all_events[index:] or last), f"seed {seed}, place {index} of {len(all_events)}\n{ds.plan()}"
