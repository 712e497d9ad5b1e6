"""Shuffles of lines, TFRecords and CSV: the order that records of known places have, and places to go on from."""

import json
import random

import numpy as np
import pytest
from helpers.data.blocks import KINDS, content, expected, flat, interleaved, plain, pull, run, small, source
from helpers.data.chains import THREADS, apply, chains, threads, values, write_files
from helpers.formats import tfrecords
from helpers.formats.compressed import compress
from helpers.models.interleaved import of_lists
from helpers.models.oracle import Philox, seed_pair
from helpers.process import run_python
from hypothesis import HealthCheck, given, settings, strategies as st

from queuecore.data import (
    CsvDataset,
    FixedLengthRecordDataset,
    Options,
    TextLineDataset,
    TFRecordDataset,
    WholeFileDataset,
)
from queuecore.errors import (
    ChecksumError,
    CsvError,
    InvalidArgumentError,
    NotFoundError,
    ResumeMismatchError,
    TruncatedRecordError,
)
from queuecore.ops import decode_csv, decode_raw

CHAINS = [
    [("shuffle", 20, 1, True)],
    [("shuffle", 20, 1, True), ("batch", 7, False)],
    [("shuffle", 1000, 1, True), ("repeat", 3), ("batch", 7, True)],
    [("shuffle", 20, 1, False), ("repeat", 3), ("batch", 7, False)],
    [("repeat", 3), ("shuffle", 30, 4, True), ("batch", 5, False)],
    [("shuffle", 9, 1, True), ("shuffle", 30, 2, True), ("repeat", 2), ("batch", 5, False)],
    [("batch", 3, True), ("shuffle", 5, 1, True), ("batch", 2, False), ("repeat", 2)],
    [("skip", 13), ("take", 60), ("shuffle", 25, 1, True), ("repeat", 3), ("take", 100), ("batch", 6, False)],
    [("shuffle", 25, 1, True), ("take", 11), ("repeat", 5), ("batch", 6, False)],
    [("batch", 3, False), ("shuffle", 5, 3, True), ("take", 9), ("repeat", 4)],
    [("shuffle", 7, 1, True), ("batch", 2, True), ("take", 4), ("shuffle", 3, 1, True), ("repeat", 5)],
]


def files(tmp_path, kind, counts=(0, 60, 1, 33)):
    parts = [content(kind, count, seed) for seed, count in enumerate(counts)]
    return write_files(tmp_path, [text for text, _ in parts]), flat([records for _, records in parts])


def is_rows_of_rows(kind, ops):
    """Whether rows of rows would come out as columns of columns."""
    return kind == "csv" and sum(op[0] == "batch" for op in ops) > 1


@pytest.mark.sampled(5)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("ops", CHAINS)
def test_every_order(tmp_path, kind, ops):
    if is_rows_of_rows(kind, ops):
        ops = CHAINS[1]
    paths, records = files(tmp_path, kind)
    for piece in (1, 70, 1 << 18):
        for workers in THREADS:
            got, error = run(threads(apply(small(source(kind, paths), piece), ops), workers))
            assert error is None
            assert got == expected(records, ops)[0]


def test_the_order_is_that_of_known_places(tmp_path):
    rows = np.arange(300, dtype="u1").reshape(-1, 1)
    (tmp_path / "plain").write_bytes(rows.tobytes())
    (tmp_path / "gz").write_bytes(compress("GZIP", rows.tobytes()))
    (tmp_path / "lines").write_text("".join(f"{int(row[0])}\n" for row in rows))
    for ops in CHAINS:
        want = values(apply(FixedLengthRecordDataset(tmp_path / "plain", 1), ops))
        packed = small(FixedLengthRecordDataset(tmp_path / "gz", 1, compression_type="GZIP"), 7)
        assert values(threads(apply(packed, ops), 2)) == want
        got, _ = run(threads(apply(small(TextLineDataset(tmp_path / "lines"), 30), ops), 8))
        assert json.loads(json.dumps(got, default=int)) == want


def test_whole_files_and_compressed_ones(tmp_path):
    contents = [bytes([n]) * (n * 37 % 1000) for n in range(80)]
    paths = write_files(tmp_path, contents)
    pairs = [(str(path).encode(), one) for path, one in zip(paths, contents, strict=True)]
    ops = [("shuffle", 30, 3, True), ("repeat", 2)]
    for workers in THREADS:
        assert run(threads(apply(small(WholeFileDataset(paths), 100), ops), workers))[0] == expected(pairs, ops)[0]
    (tmp_path / "gz").write_bytes(compress("GZIP", tfrecords.stream(contents)))
    for workers in THREADS:
        ds = apply(small(TFRecordDataset([tmp_path / "gz"] * 3, "GZIP"), 500), ops)
        assert run(threads(ds, workers))[0] == expected(contents * 3, ops)[0]


@pytest.mark.thorough
@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(ops=chains(), place=st.floats(0, 1), used=st.integers(0, 5), data=st.data())
def test_any_chain_from_any_place(tmp_path_factory, ops, place, used, data):
    kind = data.draw(st.sampled_from(KINDS))
    counts = data.draw(st.lists(st.integers(0, 30), min_size=1, max_size=4))
    paths, records = files(tmp_path_factory.mktemp("chains"), kind, counts)
    if is_rows_of_rows(kind, ops):
        ops = [op for op in ops if op[0] != "batch"]
    want, _ = expected(records, ops)
    workers, piece = st.sampled_from(THREADS), st.sampled_from([1, 50, 1 << 18])
    with iter(threads(apply(small(source(kind, paths), data.draw(piece)), ops), data.draw(workers))) as it:
        assert pull(it, round(place * len(want))) == (want[: round(place * len(want))], None)
        state = json.loads(json.dumps(it.state_dict()))
        assert pull(it) == (want[round(place * len(want)) :], None)
    with iter(threads(apply(small(source(kind, paths), data.draw(piece)), ops), data.draw(workers))) as it:
        pull(it, used)  # a state may be loaded at any time
        it.load_state_dict(state)
        assert pull(it) == (want[round(place * len(want)) :], None)


@pytest.mark.sampled(10)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("ops", CHAINS)
def test_a_saved_place_anywhere(tmp_path, kind, ops):
    if is_rows_of_rows(kind, ops):
        ops = CHAINS[1]
    paths, records = files(tmp_path, kind)
    want, _ = expected(records, ops)
    states = []
    with iter(threads(apply(small(source(kind, paths), 70), ops), 2)) as it:
        states.append(json.dumps(it.state_dict()))
        for _ in it:
            states.append(json.dumps(it.state_dict()))
    assert len(states) == len(want) + 1
    for index, state in enumerate(states):
        with iter(threads(apply(small(source(kind, paths), 50 + index), ops), THREADS[index % 3])) as it:
            it.load_state_dict(json.loads(state))
            assert it.state_dict() == json.loads(state)
            limit = None if index % 5 == 0 else 3
            assert pull(it, limit) == (want[index:][:limit], None)


@pytest.mark.thorough
def test_a_saved_place_reads_from_the_oldest_record_that_is_kept(tmp_path):
    paths = write_files(tmp_path, [b"".join(b"%d\n" % n for n in range(100_000))] * 20)
    nbytes = paths[0].stat().st_size
    for ds in (
        TextLineDataset(paths).shuffle(5000, 1).repeat(3).batch(1000),
        TextLineDataset(paths).repeat(3).shuffle(5000, 1).batch(1000),
    ):
        with iter(ds) as it:
            first = pull(it, 5500)[0]
            state = it.state_dict()
            rest = pull(it)[0]
        assert len(first) + len(rest) == 6000
        with iter(ds) as it:
            it.load_state_dict(state)
            assert pull(it)[0] == rest
            # What comes after the place, and what was kept before it: of the oldest a few buffers back.
            assert it.stats()["bytes_read"] < 5 * nbytes + 200_000 * 7


def test_files_that_changed_behind_the_saved_place(tmp_path):
    # The oldest record is of the first file; those that were used since count as well.
    paths = write_files(tmp_path, [b"".join(b"%d\n" % n for n in range(100))] * 4)
    ds = TextLineDataset(paths).shuffle(150, 1).batch(10)
    with iter(ds) as it:
        pull(it, 5)
        state = it.state_dict()
    assert state["position"]["start"][4] == 0
    paths[1].write_bytes(b"other\n")
    with iter(ds) as it, pytest.raises(ResumeMismatchError):
        it.load_state_dict(state)


SCRIPT = """
    import json, sys
    import queuecore as qc
    from helpers.data.blocks import plain, pull, small
    folder, number, state = sys.argv[1:]
    ds = small(qc.data.TFRecordDataset(folder + "/*.bin"), 100).shuffle(40).repeat(2).batch(6)
    it = iter(ds.with_options(qc.data.Options(num_threads=int(number))))
    if state != "none":
        it.load_state_dict(json.loads(state))
    first = pull(it, 20)[0]
    print(json.dumps([repr(first), it.state_dict(), repr(first + pull(it)[0])]))
"""


@pytest.mark.thorough
def test_in_another_process(tmp_path):
    files(tmp_path, "tfrecord", (60, 50, 70))
    child = run_python(SCRIPT, tmp_path, 2, "none")
    assert child.stderr == ""
    first, state, everything = json.loads(child.stdout)
    child = run_python(SCRIPT, tmp_path, 8, json.dumps(state))
    assert child.stderr == ""
    _, _, end = json.loads(child.stdout)
    assert eval(first) + eval(end) == eval(everything)


def test_later_iterators_go_on_with_later_passes(tmp_path):
    paths, _ = files(tmp_path, "lines")
    ds, fresh = (small(TextLineDataset(paths), 60).shuffle(50, 7).batch(10) for _ in range(2))
    epochs = [run(ds)[0] for _ in range(4)]
    assert len({str(epoch) for epoch in epochs}) == 4
    assert [run(fresh)[0] for _ in range(2)] == epochs[:2]
    with iter(fresh) as it:
        assert pull(it, 4)[0] == epochs[2][:4]
        state = it.state_dict()
    again = small(TextLineDataset(paths), 60).shuffle(50, 7).batch(10)
    with iter(again) as it:
        it.load_state_dict(state)
        assert pull(it)[0] == epochs[2][4:]
    assert run(again)[0] == epochs[3]


# ---- what is wrong ---------------------------------------------------------------------------------------------------


RECORDS = [bytes([n]) * (n % 9) for n in range(150)]


def place(index):
    return sum(len(record) + 16 for record in RECORDS[:index])


@pytest.mark.parametrize("ops", CHAINS)
@pytest.mark.parametrize("way", ["missing", "cut", "length"])
def test_what_is_held_comes_before_a_fault_of_the_source(tmp_path, ops, way):
    bad = bytearray(tfrecords.stream(RECORDS))
    if way == "length":
        bad[place(40)] ^= 1
    paths = write_files(tmp_path, [tfrecords.stream(RECORDS[:50]), bytes(bad)[: place(40) + 15], b""])
    if way == "missing":
        paths[1].unlink()
    good = RECORDS[:50] + ([] if way == "missing" else RECORDS[:40])
    want, fault = expected(good, ops, fault=True)
    for piece in (30, 1 << 18):
        for workers in THREADS:
            got, error = run(threads(apply(small(TFRecordDataset(paths), piece), ops), workers))
            kind = {"missing": NotFoundError, "cut": TruncatedRecordError, "length": ChecksumError}[way]
            assert type(error) is (type(None) if fault is None else kind)
            assert got == want


def test_an_element_that_a_fault_of_the_source_cuts_short(tmp_path):
    paths = write_files(tmp_path, [tfrecords.stream(RECORDS[:50]), b""])
    paths[1].unlink()
    ops = [("shuffle", 20, 1, True), ("batch", 3, False), ("batch", 5, False)]
    want = expected(RECORDS[:50], ops)[0]
    assert len(want[-1].pop()) == 2  # not one of three, so it isn't given
    for piece in (300, 1 << 18):
        for workers in THREADS:
            got, error = run(threads(apply(small(TFRecordDataset(paths), piece), ops), workers))
            assert type(error) is NotFoundError
            assert got == want


class Window:
    """A shuffle's buffer as a list: the draw of TensorFlow's, and what is drawn is replaced by the oldest."""

    def __init__(self, pair, size, total):
        self.draws, self.size, self.next, self.total, self.kept = Philox(*pair), size, 0, total, []

    def pull(self):
        while len(self.kept) < self.size and self.next < self.total:
            self.kept.append(self.next)
            self.next += 1
        if not self.kept:
            return None
        at = self.draws.draw() % len(self.kept)
        drawn, self.kept[at] = self.kept[at], self.kept[0]
        self.kept.pop(0)
        return drawn


def cut_at(bad, size, batch, total):
    """Batches of a shuffle that is cut where it draws a bad record: the source ends before that."""
    window, rows = Window(seed_pair(None, 1), size, total), []
    while (row := window.pull()) is not None:
        if row in bad:
            window.total = row
            window.kept = [one for one in window.kept if one < row]
        else:
            rows.append(row)
    return [rows[at : at + batch] for at in range(0, len(rows), batch)]


@pytest.mark.parametrize("size", [1, 2, 30, 1000])
@pytest.mark.parametrize("batch", [1, 7, 64])
def test_records_that_turn_out_bad(tmp_path, size, batch):
    data = bytearray(tfrecords.stream(RECORDS))
    bad = (60, 80, 90)
    for index in bad:
        data[place(index + 1) - 1] ^= 1
    (tmp_path / "a").write_bytes(data)
    want = cut_at(bad, size, batch, len(RECORDS))
    assert len(flat(want)) < len(RECORDS)
    for piece in (30, 300, 1 << 18):
        for workers in THREADS:
            ds = small(TFRecordDataset(tmp_path / "a"), piece).shuffle(size, 1, False).batch(batch)
            got, error = run(threads(ds, workers))
            assert type(error) is ChecksumError
            assert error.record in bad
            assert got == [[RECORDS[row] for row in rows] for rows in want]


@pytest.mark.parametrize("size", [100, 300, 900])
def test_a_cut_where_records_are_moved(tmp_path, size):
    # What is cut off is part of a block, of which the rest is moved later.
    for bad in range(1000, 1100, 9):
        records = [b"%06d" % n for n in range(1500)]
        data = bytearray(tfrecords.stream(records))
        data[22 * bad + 13] ^= 1
        (tmp_path / "a").write_bytes(data)
        want = cut_at([bad], size, 10, len(records))
        ds = small(TFRecordDataset(tmp_path / "a"), 2500).shuffle(size, 1, False).batch(10)
        got, error = run(threads(ds, THREADS[bad % 3]))
        assert type(error) is ChecksumError
        assert error.record == bad
        assert got == [[records[row] for row in rows] for rows in want]


@pytest.mark.parametrize("order", ["shuffle", "shuffle repeat", "repeat shuffle"])
def test_bad_records_left_out_leave_the_order_of_the_others(tmp_path, order):
    data = bytearray(tfrecords.stream(RECORDS))
    bad = (5, 6, 7, 50, 100, 149)
    for index in bad:
        data[place(index + 1) - 1] ^= 1
    length = bytearray(tfrecords.stream(RECORDS))
    length[place(30)] ^= 1
    paths = write_files(tmp_path, [bytes(data), b"", bytes(length), tfrecords.stream(RECORDS)])
    paths[1].unlink()
    ops = {"shuffle": ("shuffle", 40, 1, True), "repeat": ("repeat", 3)}
    ops = [ops[name] for name in order.split()]
    numbers = list(range(150 + 30 + 150))
    records = RECORDS + RECORDS[:30] + RECORDS
    want = [records[number] for number in expected(numbers, ops)[0] if number not in bad]
    for piece in (30, 1 << 18):
        for workers in THREADS:
            ds = apply(small(TFRecordDataset(paths), piece), ops).batch(11)
            with iter(threads(ds.with_options(Options(on_error="skip")), workers)) as it:
                got, error = pull(it)
                counts = it.stats()
            assert error is None
            assert flat(got) == want
            passes = 3 if "repeat" in order else 1
            assert (counts["skipped"], counts["skipped_files"]) == (passes * len(bad), passes * 2)
    ds = apply(small(TFRecordDataset(paths), 100), ops).batch(11).with_options(Options(on_error="skip"))
    states = []
    with iter(threads(ds, 2)) as it:
        states.append(it.state_dict())
        for _ in it:
            states.append(it.state_dict())
    for index, state in enumerate(states):
        with iter(ds.with_options(Options(on_error="skip", num_threads=THREADS[index % 3]))) as it:
            it.load_state_dict(json.loads(json.dumps(state)))
            assert flat(pull(it)[0]) == want[11 * index :]


def test_what_a_dropped_iterator_held_is_given_back(tmp_path):
    (tmp_path / "a").write_bytes(b"".join(b"%d\n" % n for n in range(50_000)))
    for seed in range(50):
        it = iter(threads(TextLineDataset(tmp_path / "a").shuffle(3000, seed).repeat().batch(8), 4))
        for _ in range(seed % 7):
            plain(next(it))
        del it


@pytest.mark.sampled(4)
@pytest.mark.parametrize("kind", [*KINDS, "fixed"])
@pytest.mark.parametrize("order", [(1, 1), (4, 3)])
def test_records_that_are_moved_out_of_their_block(tmp_path, kind, order):
    # Blocks of dozens of records, and a buffer that keeps some of each for long: those are moved.
    if kind == "fixed":
        records = [[bytes([k, n]) for k in range(200)] for n in range(6)]
        paths = write_files(tmp_path, [compress("GZIP", b"".join(one)) for one in records])
        ds = FixedLengthRecordDataset(paths, 2, compression_type="GZIP")
    else:
        parts = [content(kind, 200, seed) for seed in range(6)]
        paths, records = write_files(tmp_path, [text for text, _ in parts]), [one for _, one in parts]
        ds = source(kind, paths)
    ops = [("shuffle", 300, 1, True), ("repeat", 4)]
    want, _ = expected(of_lists(records, *order), ops)
    for piece in (200, 2000, 1 << 18):
        for workers in THREADS:
            got, error = run(threads(apply(interleaved(small(ds, piece), *order), ops).batch(7), workers))
            assert error is None
            got = flat(got)
            assert [bytes(row) for row in got] == want if kind == "fixed" else got == want


def last_out(seed, among, count=2000):
    """Which of the first records comes last out of a shuffle's buffer: it is in there when few of its block are."""
    order, _ = expected(list(range(count)), [("shuffle", 1000, seed, False)])
    return max(range(among), key=order.index)


@pytest.mark.parametrize("workers", THREADS)
def test_bad_records_that_were_moved_say_where_they_are(tmp_path, workers):
    for seed in range(4):
        bad = last_out(seed, 10)
        lines = [b"%04d,%04d" % (n, n) if n != bad else b"x,y" for n in range(2000)]

        def wrong(ds, call=None, seed=seed):
            ds = ds.shuffle(1000, seed, False)
            return run(threads((ds if call is None else ds.map(call)).batch(10), workers))[1]

        (tmp_path / "csv").write_bytes(b'n,m\n"one\n",0\n' + b"".join(line + b"\n" for line in lines))
        error = wrong(small(CsvDataset(tmp_path / "csv", [b"", 0], header=True), 300).skip(1))
        assert type(error) is CsvError
        assert (error.record, error.line) == (bad + 1, bad + 4)

        text = small(CsvDataset(tmp_path / "csv", [b""], header=True, select_cols=[0]), 300).skip(1)
        error = wrong(text, lambda text: decode_raw(text, np.int32))
        assert type(error) is InvalidArgumentError
        assert error.record == bad + 1

        (tmp_path / "lines").write_bytes(b"top\n" + b"".join(line + b"\n" for line in lines))
        text = small(TextLineDataset(tmp_path / "lines", skip_header_lines=1), 300)
        error = wrong(text, lambda text: tuple(decode_csv(text, [b"", 0])))
        assert type(error) is CsvError
        assert (error.record, error.offset) == (bad + 1, 4 + 10 * bad)

        broken = bytearray(tfrecords.stream(lines))
        at = (9 + 16) * bad
        broken[at + 13] ^= 1
        (tmp_path / "tf").write_bytes(broken)
        error = wrong(small(TFRecordDataset(tmp_path / "tf"), 300))
        assert type(error) is ChecksumError
        assert (error.record, error.offset) == (bad, at)


def test_what_is_left_of_a_block_takes_little_memory(tmp_path):
    # A buffer of B records of which 70 make a block. Whole blocks would take B times the 70th harmonic number, 4.8, and
    # half as much for where records begin. Moved when an eighth is left: B times ln 8, 2.1, half of that, and a little.
    size, rows_held = 400, 5000
    (tmp_path / "tf").write_bytes(tfrecords.stream([b"r" * (size - 16)] * 40_000))

    def most(ds):
        peak = 0
        with iter(threads(ds.batch(50), 2)) as it:
            for _ in it:
                peak = max(peak, it.stats()["memory_bytes"])
        return peak

    ds = small(TFRecordDataset(tmp_path / "tf"), 70 * size, 1000)
    assert rows_held * size < most(ds.shuffle(rows_held, 1)) - most(ds) < 5.5 * rows_held * size


@pytest.mark.thorough
def test_a_buffer_larger_than_what_is_read_ahead(tmp_path):
    # Thousands of blocks wait in the shuffle while only a few are ahead of it.
    state = random.Random(0)
    lines = [b"%d" % state.randrange(10**6) for _ in range(20_000)]
    (tmp_path / "a").write_bytes(b"\n".join(lines))
    for workers in THREADS:
        for size in (5000, 10**6):
            ops = [("shuffle", size, 1, True), ("repeat", 2)]
            got, error = run(threads(apply(small(TextLineDataset(tmp_path / "a"), 64), ops).batch(1000), workers))
            assert error is None
            assert flat(got) == expected(lines, ops)[0]
