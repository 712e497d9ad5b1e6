"""Shards that get elements twice, of what has bad records: which shard tells which error, and what pads it.

Of native maps before the shard, a shard makes its own elements alone, and those that pad it: so an error comes where
its element would be, in no other shard. All other elements are made by all shards: each tells each error, and counts
good elements alone.
"""

import ctypes
import dataclasses

import numpy as np
import pytest
from helpers.data.events import ENDS, check, rest

import queuecore as qc
from queuecore.data import CsvDataset, Dataset, FixedLengthRecordDataset, Options, TextLineDataset, TFRecordDataset
from queuecore.errors import UnimplementedError

COUNT, SIZE = 10, 4
BAD = [(0,), (2,), (1, 8, 9), (6,), (0, 1), (1,), (), (9,), tuple(range(COUNT))]
SKIP = Options(on_error="skip")


def texts(bad):
    return ["x" if k in bad else str(k) for k in range(COUNT)]


def decoded(ds):
    return ds.map(qc.ops.decode_csv(record_defaults=[np.int64]))


def in_python(ds, bad):
    def spoilt(x):
        if int(x) in bad:
            raise ValueError(int(x))
        return int(x)

    return ds.map(spoilt)


def lines(folder, bad):
    path = folder / f"lines-{bad}"
    if not path.exists():  # a place belongs to files that nobody has written to since
        path.write_text("".join(f"{text}\n" for text in texts(bad)))
    return path


def records(folder, bad, damaged=()):
    path = folder / f"records-{bad}-{damaged}"
    if not path.exists():
        with qc.TFRecordWriter(path) as writer:
            for text in texts(bad):
                writer.write(text.encode())
        data = bytearray(path.read_bytes())
        for k in damaged:
            data[k * 17 + 12] ^= 1
        path.write_bytes(bytes(data))
    return path


def digits(folder, bad):
    path = folder / f"fixed-{bad}"
    if not path.exists():
        path.write_text("".join(texts(bad)))
    return FixedLengthRecordDataset(path, 1)


def first_digit(ds):
    functions = pytest.importorskip("queuecore._core.testing.steps").functions
    kind = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.POINTER(ctypes.c_uint8), ctypes.POINTER(ctypes.c_int32))
    return ds.map(qc.ops.cfunc(kind(functions()["first_digit"]), outputs=[(np.int32, ())]))


def rows(folder, bad):
    return CsvDataset(lines(folder, bad), [np.int64]).map(lambda x: x)


def generated(folder, bad):
    del folder
    return Dataset.from_generator(lambda: iter([text.encode() for text in texts(bad)]), np.bytes_)


# Sources whose elements can be made, and the native map behind them that fails for some.
OWN = {
    "lines": (lambda folder, bad: TextLineDataset(lines(folder, bad)), decoded),
    "TFRecords": (lambda folder, bad: TFRecordDataset(records(folder, bad)), decoded),
    "records of fixed length": (digits, first_digit),
    "memory": (lambda folder, bad: Dataset.from_tensor_slices([text.encode() for text in texts(bad)]), decoded),
}
# Sources of which some elements can't be made.
ALL = {
    "damaged TFRecords": lambda folder, bad: decoded(TFRecordDataset(records(folder, (), bad))),
    "rows of CSV": rows,
    "a function": lambda folder, bad: in_python(Dataset.range(COUNT), bad),
    "a function of lines": lambda folder, bad: in_python(decoded(TextLineDataset(lines(folder, ()))), bad),
    "a function of records of fixed length": lambda folder, bad: in_python(first_digit(digits(folder, ())), bad),
    "a generator": lambda folder, bad: in_python(generated(folder, ()), bad),
    "a map of what is generated": lambda folder, bad: decoded(generated(folder, bad)),
    "a map and a function": lambda folder, bad: in_python(decoded(TextLineDataset(lines(folder, bad[:1]))), bad[1:]),
    "two datasets": lambda folder, bad: in_python(Dataset.range(3), bad).concatenate(
        in_python(Dataset.range(3, COUNT), bad)
    ),
    "errors left out": lambda folder, bad: in_python(Dataset.range(COUNT), bad).ignore_errors(),
    "a filter": lambda folder, bad: decoded(TextLineDataset(lines(folder, bad))).filter(lambda x: x % 3 != 2),
    "batches of one": lambda folder, bad: decoded(TextLineDataset(lines(folder, bad))).batch(1),
}
BEFORE = {
    "nothing": lambda ds: ds,
    "a shuffle": lambda ds: ds.shuffle(5, 1, reshuffle_each_iteration=False),
    "a shuffle of all": lambda ds: ds.shuffle(1000, 2, reshuffle_each_iteration=False),
    "a take of a shuffle": lambda ds: ds.shuffle(3, 3, reshuffle_each_iteration=False).take(7),
    "a skip": lambda ds: ds.skip(3),
    "passes": lambda ds: ds.shuffle(4, 4, reshuffle_each_iteration=False).repeat(2).take(15),
    "less than a group": lambda ds: ds.take(3),
}
AFTER = {
    "nothing": lambda ds: ds,
    "batches": lambda ds: ds.batch(2),
    "two passes": lambda ds: ds.repeat(2),
}


def some_bad(before, after):
    """Return a third of the sets of bad records, with numbers: each is met before each step, and behind each."""
    at = (list(BEFORE).index(before) + list(AFTER).index(after)) % 3
    return list(enumerate(BAD))[at::3]


def is_error(event):
    return isinstance(event, str)


def shared(events, index):
    """Return what a shard gives of these events, by the documentation; it counts no errors."""
    good = [event for event in events if not is_error(event)]
    shares, number = [], 0
    for event in events:
        if is_error(event):
            shares.append(event)
            continue
        if number % SIZE == index:
            shares.append(event)
        number += 1
    if shares and is_error(shares[-1]) and shares[-1].endswith(ENDS):
        return shares
    lacks = 0 < number % SIZE <= index
    return shares + [good[(index - number % SIZE) % number] for _ in range(lacks)]


def flat(events):
    return [part for event in events for part in (flat(event) if isinstance(event, list) else [event])]


def events_of(ds):
    with iter(ds) as it:
        return rest(it)


def followed(events, after):
    """Return the events of a pass behind a step that goes over it twice, or not."""
    ended = any(is_error(event) and event.endswith(ENDS) for event in events)
    return events * 2 if after == "two passes" and not ended else events


def left_of(ds):
    """Return the events where bad records are left out; None: that is refused, as of a shuffle of batches."""
    try:
        return events_of(ds.with_options(SKIP))
    except UnimplementedError:
        return None


def skipping(ds, options):
    return ds.with_options(dataclasses.replace(options, on_error="skip"))


@pytest.mark.sampled(90)
@pytest.mark.parametrize("after", AFTER)
@pytest.mark.parametrize("before", BEFORE)
@pytest.mark.parametrize("kind", OWN)
def test_a_native_map_that_fails_is_told_where_its_element_would_be(tmp_path, kind, before, after):
    source, step = OWN[kind]
    for seed, bad in some_bad(before, after):
        good = flat(events_of(BEFORE[before](step(source(tmp_path, ())))))
        for index in range(SIZE):

            def make(bad=bad, index=index):
                return AFTER[after](step(BEFORE[before](source(tmp_path, bad))).shard(SIZE, index, uneven="pad"))

            expected = followed(shared(good, index), after)
            came = check(lambda options, make=make: make().with_options(options), seed)
            assert [("E" if is_error(x) else x) for x in flat(came)] == ["E" if x in bad else x for x in expected]
            came = check(lambda options, make=make: skipping(make(), options), seed)
            assert flat(came) == [x for x in expected if x not in bad]
            came = check(lambda options, make=make: make().ignore_errors().with_options(options), seed)
            assert flat(came) == [x for x in expected if x not in bad]


@pytest.mark.sampled(90)
@pytest.mark.parametrize("after", AFTER)
@pytest.mark.parametrize("before", BEFORE)
@pytest.mark.parametrize("kind", ALL)
def test_what_all_shards_make_is_told_by_all(tmp_path, kind, before, after):
    for seed, bad in some_bad(before, after):
        if kind == "two datasets" and len(bad) == COUNT:
            continue  # nothing tells what the elements are: concatenate refuses
        all_events = events_of(BEFORE[before](ALL[kind](tmp_path, bad)))
        events_left = left_of(BEFORE[before](ALL[kind](tmp_path, bad)))
        ignored = events_of(BEFORE[before](ALL[kind](tmp_path, bad)).ignore_errors())
        for index in range(SIZE):

            def make(bad=bad, index=index, between=lambda ds: ds):
                ds = between(BEFORE[before](ALL[kind](tmp_path, bad)))
                return AFTER[after](ds.shard(SIZE, index, uneven="pad"))

            outcome = check(lambda options, make=make: make().with_options(options), seed)
            assert flat(outcome) == flat(followed(shared(all_events, index), after))
            if events_left is not None:
                outcome = check(lambda options, make=make: skipping(make(), options), seed)
                assert flat(outcome) == flat(followed(shared(events_left, index), after))
            outcome = check(
                lambda options, make=make: make(between=lambda ds: ds.ignore_errors()).with_options(options), seed
            )
            assert flat(outcome) == flat(followed(shared(ignored, index), after))
