"""Files of lines, TFRecords and CSV interleaved: tf.data's order, whatever is read when, and places to go on from."""

import contextlib
import json
import random

import pytest
from helpers.data.blocks import KINDS, content, expected, flat, interleaved, pull, run, small, source
from helpers.data.chains import THREADS, apply, chains, threads, write_files
from helpers.formats import tfrecords
from helpers.formats.compressed import compress
from helpers.models.interleaved import TENSORFLOW, interleave, of_lists
from hypothesis import HealthCheck, given, settings, strategies as st

import queuecore as qc
from queuecore.data import FixedLengthRecordDataset, Options, TextLineDataset, TFRecordDataset, WholeFileDataset
from queuecore.data._plan import state as _state
from queuecore.errors import ChecksumError, NotFoundError, ResumeMismatchError, TruncatedRecordError

COUNTS = [12, 0, 40, 1, 7, 0, 25, 3]
ORDERS = [(2, 1), (3, 4), (5, 1), (2, 100), (100, 3)]
CHAINS = [
    [],
    [("batch", 7, False)],
    [("repeat", 2), ("batch", 7, True)],
    [("take", 30), ("repeat", 3), ("batch", 8, False)],
    [("skip", 13), ("batch", 2, True), ("batch", 3, True)],
    [("shuffle", 20, 1, True), ("repeat", 2), ("batch", 7, False)],
    [("repeat", 3), ("shuffle", 30, 4, True), ("batch", 5, False)],
    [("shuffle", 9, 1, True), ("take", 11), ("repeat", 5)],
]


def files(folder, kind, counts=COUNTS, encoding=None):
    parts = [content(kind, count, seed) for seed, count in enumerate(counts)]
    texts = [text if encoding is None else compress(encoding, text) for text, _ in parts]
    return write_files(folder, texts), [records for _, records in parts]


@pytest.mark.parametrize(("cycle", "block", "lengths", "order"), TENSORFLOW)
def test_tensorflows_own_order(tmp_path, cycle, block, lengths, order):
    inputs = [[100 * index + number for number in range(length)] for index, length in enumerate(lengths)]
    assert of_lists(inputs, cycle, block) == [int(word) for word in order.split()]
    paths = write_files(tmp_path, [b"".join(b"%d\n" % number for number in one) for one in inputs])
    for piece in (1, 3, 1000):
        for workers in THREADS:
            ds = threads(interleaved(small(TextLineDataset(paths), piece), cycle, block), workers)
            assert b" ".join(run(ds)[0]) == order.encode()


@pytest.mark.thorough
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    kind=st.sampled_from(KINDS),
    counts=st.lists(st.integers(0, 30), max_size=20, min_size=1),
    cycle=st.integers(1, 25),
    block=st.integers(1, 12),
    encoding=st.sampled_from([None, "GZIP"]),
    data=st.data(),
)
def test_any_files(tmp_path_factory, kind, counts, cycle, block, encoding, data):
    paths, records = files(tmp_path_factory.mktemp("files"), kind, counts, encoding)
    ds = interleaved(
        small(source(kind, paths, encoding), data.draw(st.sampled_from([1, 50, 1000, 1 << 18]))), cycle, block
    )
    ds = threads(ds.repeat(2).batch(data.draw(st.sampled_from([1, 7, 1000]))), data.draw(st.sampled_from(THREADS)))
    got, error = run(ds)
    assert error is None
    assert flat(got) == of_lists(records, cycle, block) * 2


@pytest.mark.thorough
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(ops=chains(), position=st.floats(0, 1), data=st.data())
def test_any_chain_from_any_place(tmp_path_factory, ops, position, data):
    kind = data.draw(st.sampled_from(KINDS))
    cycle, block = data.draw(st.integers(1, 9)), data.draw(st.integers(1, 9))
    counts = data.draw(st.lists(st.integers(0, 15), min_size=1, max_size=8))
    paths, records = files(tmp_path_factory.mktemp("chains"), kind, counts)
    if kind == "csv" and sum(op[0] == "batch" for op in ops) > 1:
        ops = [op for op in ops if op[0] != "batch"]
    want, _ = expected(of_lists(records, cycle, block), ops)

    def dataset():
        ds = interleaved(small(source(kind, paths), data.draw(st.sampled_from([1, 50, 1 << 18]))), cycle, block)
        return threads(apply(ds, ops), data.draw(st.sampled_from(THREADS)))

    place = round(position * len(want))
    with iter(dataset()) as it:
        assert pull(it, place) == (want[:place], None)
        state = json.loads(json.dumps(it.state_dict()))
        assert pull(it) == (want[place:], None)
    with iter(dataset()) as it:
        it.load_state_dict(state)
        assert it.state_dict() == state
        assert pull(it) == (want[place:], None)


@pytest.mark.sampled(32)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("ops", CHAINS)
@pytest.mark.parametrize("order", ORDERS)
def test_a_saved_place_anywhere(tmp_path, kind, ops, order):
    if kind == "csv" and sum(op[0] == "batch" for op in ops) > 1:
        ops = CHAINS[1]
    paths, records = files(tmp_path, kind)
    want, _ = expected(of_lists(records, *order), ops)
    states = []
    with iter(threads(apply(interleaved(small(source(kind, paths), 70), *order), ops), 2)) as it:
        states.append(json.dumps(it.state_dict()))
        for _ in it:
            states.append(json.dumps(it.state_dict()))
    assert len(states) == len(want) + 1
    for index, state in enumerate(states):
        ds = apply(interleaved(small(source(kind, paths), 50 + index), *order), ops)
        with iter(threads(ds, THREADS[index % 3])) as it:
            it.load_state_dict(json.loads(state))
            limit = None if index % 7 == 0 else 3
            assert pull(it, limit) == (want[index:][:limit], None)


def test_whole_files_fixed_length_ones_and_random_steps(tmp_path):
    contents = [bytes([n]) * (n * 37 % 200) for n in range(30)]
    paths = write_files(tmp_path, contents)
    pairs = [[(str(path).encode(), one)] for path, one in zip(paths, contents, strict=True)]
    assert run(interleaved(small(WholeFileDataset(paths), 50), 4, 2))[0] == of_lists(pairs, 4, 2)
    (tmp_path / "gz").mkdir()
    packed = write_files(tmp_path / "gz", [compress("GZIP", one) for one in contents])
    rows = [[one[at : at + 3] for at in range(0, len(one) - 2, 3)] for one in contents]
    step = qc.ops.compose(qc.ops.reshape(shape=(3, 1, 1)), qc.ops.random_flip_left_right(seed=1))
    first = None
    for workers in THREADS:
        ds = interleaved(small(FixedLengthRecordDataset(packed, 3, tail="drop", compression_type="GZIP"), 20), 4, 2)
        got = [bytes(row.tolist()) for row in threads(ds, workers)]
        assert got == of_lists(rows, 4, 2)
        flipped = [batch.tolist() for batch in threads(ds.map(step).batch(5), workers)]
        first = flipped if first is None else first
        assert flipped == first


def test_the_state_is_of_the_open_files_alone(tmp_path):
    paths = write_files(tmp_path, [b"".join(b"%d\n" % n for n in range(20_000))] * 60)
    nbytes = paths[0].stat().st_size
    ds = interleaved(TextLineDataset(paths), 4, 10).batch(1000)
    with iter(ds) as it:
        pull(it, 900)
        state = it.state_dict()
        rest = pull(it)[0]
    assert len(rest) == 300
    assert len(json.dumps(state)) < 2000
    with iter(ds) as it:
        it.load_state_dict(state)
        assert pull(it)[0] == rest
        assert it.stats()["bytes_read"] < 20 * nbytes
    for other in (
        interleaved(TextLineDataset(paths), 4, 9),
        interleaved(TextLineDataset(paths), 5, 10),
        TextLineDataset(paths),
    ):
        with iter(other.batch(1000)) as it, pytest.raises(ResumeMismatchError, match="interleave|source"):
            it.load_state_dict(state)


@pytest.mark.thorough
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    order=st.sampled_from([(1, 1), (3, 2)]),
    shuffled=st.booleans(),
    place=st.integers(0, 20),
    changes=st.lists(
        st.tuples(st.integers(0, 26), st.integers(-1, 60) | st.integers(0, 2**61)), min_size=1, max_size=3
    ),
    workers=st.sampled_from(THREADS),
)
def test_a_forged_place_is_no_crash(tmp_path_factory, order, shuffled, place, changes, workers):
    # Whoever can sign a state gets wrong records, or an error: nothing worse.
    paths, _ = files(tmp_path_factory.mktemp("forged"), "tfrecord", [10, 0, 9, 4])

    def dataset():
        ds = interleaved(small(TFRecordDataset(paths), 40), *order)
        return threads((ds.shuffle(8, 1) if shuffled else ds).repeat(2).batch(2), workers).take(40)

    with iter(dataset()) as it:
        pull(it, place)
        state = it.state_dict()
    start = state["position"]["start"]
    for index, number in changes:
        start[index % len(start)] = number
    state["check"] = _state._check(state)
    with iter(dataset()) as it:
        with contextlib.suppress(ResumeMismatchError):
            it.load_state_dict(state)
        assert len(pull(it)[0]) <= 40


# ---- what is wrong ---------------------------------------------------------------------------------------------------


class End(Exception):
    """The end of an input, by a fault."""


RECORDS = [[bytes([n, k]) * (k % 9) for k in range(count)] for n, count in enumerate(COUNTS)]


def place(file, index):
    return sum(len(record) + 16 for record in RECORDS[file][:index])


def until_fault(cycle, block, faulty):
    """What comes before an input of `faulty` (its number: how many of its records are there) is at its end."""

    def one(index):
        yield from RECORDS[index][: faulty.get(index)]
        if index in faulty:
            raise End

    got = []
    with pytest.raises(End):
        for record in interleave((one(index) for index in range(len(RECORDS))), cycle, block):
            got.append(record)
    return got


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("way", ["missing", "cut", "length"])
@pytest.mark.parametrize("ops", [[("batch", 4, False)], [("shuffle", 20, 1, False), ("batch", 3, False)]])
def test_a_bad_file_is_an_error_in_its_place(tmp_path, order, way, ops):
    data = [bytearray(tfrecords.stream(records)) for records in RECORDS]
    faulty = {4: 0} if way == "missing" else {4: 5, 6: 3}
    for index, good in faulty.items():
        data[index][place(index, good)] ^= way == "length"
        data[index] = data[index][: place(index, good) + 15]
    paths = write_files(tmp_path, map(bytes, data))
    if way == "missing":
        paths[4].unlink()
    want, _ = expected(until_fault(*order, faulty), ops, fault=True)
    for piece in (30, 1 << 18):
        for workers in THREADS:
            got, error = run(threads(apply(interleaved(small(TFRecordDataset(paths), piece), *order), ops), workers))
            kind = {"missing": NotFoundError, "cut": TruncatedRecordError, "length": ChecksumError}[way]
            assert type(error) is kind
            assert got == want


@pytest.mark.parametrize("order", ORDERS)
def test_a_record_that_turns_out_bad(tmp_path, order):
    data = bytearray(tfrecords.stream(RECORDS[2]))
    data[place(2, 8) - 1] ^= 1
    paths = write_files(tmp_path, [bytes(data) if n == 2 else tfrecords.stream(one) for n, one in enumerate(RECORDS)])
    want = until_fault(*order, {2: 7})
    for workers in THREADS:
        got, error = run(threads(interleaved(small(TFRecordDataset(paths), 100), *order).batch(5), workers))
        assert type(error) is ChecksumError
        assert (error.path, error.record, error.offset) == (str(paths[2]), 7, place(2, 7))
        assert flat(got) == want


@pytest.mark.sampled(4)
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("shuffled", [False, True])
def test_what_is_left_out_leaves_the_order_of_the_rest(tmp_path, order, shuffled):
    state = random.Random(0)
    data = [bytearray(tfrecords.stream(records)) for records in RECORDS]
    bad = {(n, k) for n, records in enumerate(RECORDS) for k in range(len(records)) if state.random() < 0.1}
    for n, k in bad:
        data[n][place(n, k + 1) - 1] ^= 1
    data[4][place(4, 5)] ^= 1
    paths = write_files(tmp_path, map(bytes, data))
    paths[3].unlink()
    inputs = [[(n, k) for k in range(len(records))] for n, records in enumerate(RECORDS)]
    inputs[3], inputs[4] = [], inputs[4][:5]
    ops = [("shuffle", 15, 3, True)] * shuffled + [("repeat", 2)]
    want = [RECORDS[n][k] for n, k in expected(of_lists(inputs, *order), ops)[0] if (n, k) not in bad]
    left_out = 2 * sum((n, k) in bad for pairs in inputs for n, k in pairs)

    def dataset(piece, workers, log):
        ds = apply(interleaved(small(TFRecordDataset(paths), piece), *order), ops).batch(6)
        return ds.with_options(Options(on_error="skip", num_threads=workers, quarantine=log))

    logs = set()
    for piece in (30, 1 << 18):
        for workers in THREADS:
            with iter(dataset(piece, workers, tmp_path / f"log-{piece}-{workers}")) as it:
                got, error = pull(it)
                counts = it.stats()
            assert error is None
            assert flat(got) == want
            assert (counts["skipped"], counts["skipped_files"]) == (left_out, 4)
            lines = [json.loads(line) for line in (tmp_path / f"log-{piece}-{workers}").read_text().splitlines()]
            logs.add(str([line["path"] for line in lines if line["file"]]))
    assert len(logs) == 1
    with iter(dataset(50, 2, None)) as it:
        states = [json.dumps(it.state_dict()), *(json.dumps(it.state_dict()) for _ in it)]
    for index, text in enumerate(states):
        with iter(dataset(60 + index, THREADS[index % 3], None)) as it:
            it.load_state_dict(json.loads(text))
            assert flat(pull(it)[0]) == want[6 * index :]


@pytest.mark.thorough
@pytest.mark.parametrize("encoding", [None, "GZIP"])
def test_many_files(tmp_path, encoding):
    # More than there are lanes, most of them small or empty.
    counts = [0] * 50 + [2, 0, 1] * 100 + [300] + [0] * 30 + [1]
    paths, records = files(tmp_path, "lines", counts, encoding)
    for cycle, block in [(2, 1), (16, 4), (300, 1), (1000, 7)]:
        want = of_lists(records, cycle, block)
        for workers in THREADS:
            ds = interleaved(source("lines", paths, encoding), cycle, block).repeat(2).batch(32)
            got, error = run(threads(ds, workers))
            assert error is None
            assert flat(got) == want * 2
