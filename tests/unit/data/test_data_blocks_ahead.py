"""Several compressed files at a time: later ones are decompressed before their turn, and nothing else changes."""

import json
import os
import random

import pytest
from helpers.data.blocks import KINDS, content, expected, flat, interleaved, pull, run, small, source
from helpers.data.chains import THREADS, apply, chains, threads, write_files
from helpers.formats.compressed import compress
from helpers.formats.tfrecords import stream
from helpers.process import PATIENCE, soon
from hypothesis import HealthCheck, given, settings, strategies as st

from queuecore.data import FixedLengthRecordDataset, Options, TextLineDataset, TFRecordDataset, WholeFileDataset
from queuecore.errors import DecompressError, SourceChangedError

MIB = 1 << 20
COUNTS = [12, 0, 40, 1, 7, 0, 25, 3]
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


def files(folder, kind, counts=COUNTS):
    parts = [content(kind, count, seed) for seed, count in enumerate(counts)]
    return write_files(folder, [compress("GZIP", text) for text, _ in parts]), [records for _, records in parts]


def without_rows_of_rows(kind, ops):
    # They come out as columns of columns.
    return CHAINS[1] if kind == "csv" and sum(op[0] == "batch" for op in ops) > 1 else ops


@pytest.mark.sampled(6)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("ops", CHAINS)
def test_a_saved_place_anywhere(tmp_path, kind, ops):
    ops = without_rows_of_rows(kind, ops)
    paths, records = files(tmp_path, kind)
    want, _ = expected(flat(records), ops)
    for workers in THREADS:
        states = []
        with iter(threads(apply(small(source(kind, paths, "GZIP"), 70), ops), workers)) as it:
            states.append(json.dumps(it.state_dict()))
            for _ in it:
                states.append(json.dumps(it.state_dict()))
        assert len(states) == len(want) + 1
        for index, state in enumerate(states):
            ds = apply(small(source(kind, paths, "GZIP"), 50 + index), ops)
            with iter(threads(ds, THREADS[index % 3])) as it:
                it.load_state_dict(json.loads(state))
                limit = None if index % 7 == 0 else 3
                assert pull(it, limit) == (want[index:][:limit], None)


@pytest.mark.thorough
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(ops=chains(), position=st.floats(0, 1), data=st.data())
def test_any_chain_from_any_place(tmp_path_factory, ops, position, data):
    kind = data.draw(st.sampled_from(KINDS))
    counts = data.draw(st.lists(st.integers(0, 15), min_size=1, max_size=12))
    paths, records = files(tmp_path_factory.mktemp("chains"), kind, counts)
    ops = without_rows_of_rows(kind, ops)
    want, _ = expected(flat(records), ops)

    def dataset():
        ds = small(source(kind, paths, "GZIP"), data.draw(st.sampled_from([1, 50, 1 << 18])))
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


def test_a_place_is_the_same_for_any_number_of_threads(tmp_path):
    paths, _ = files(tmp_path, "tfrecord")
    places = []
    for workers in THREADS:
        with iter(threads(small(TFRecordDataset(paths, "GZIP"), 100).repeat(2).batch(3), workers)) as it:
            places.append([it.state_dict()["position"] for _ in it])
    assert places[0] == places[1] == places[2]


def test_shards_of_files_and_of_records(tmp_path):
    paths, records = files(tmp_path, "lines")
    for workers in THREADS:
        for index in range(3):
            by_record = small(TextLineDataset(paths, "GZIP"), 30).shard(3, index)
            assert run(threads(by_record, workers))[0] == flat(records)[index::3]
            by_file = small(TextLineDataset(paths[index::3], "GZIP"), 30).batch(4)
            assert flat(run(threads(by_file, workers))[0]) == flat(records[index::3])


def test_whole_files_and_fixed_length_records(tmp_path):
    contents = [bytes([n]) * (n * 37 % 200) for n in range(30)]
    paths = write_files(tmp_path, [compress("GZIP", one) for one in contents])
    rows = [list(one[at : at + 3]) for one in contents for at in range(0, len(one) - 2, 3)]
    for workers in THREADS:
        got = [one for _, one in threads(small(WholeFileDataset(paths, "GZIP"), 50), workers)]
        assert got == contents
        fixed = FixedLengthRecordDataset(paths, 3, tail="drop", compression_type="GZIP")
        assert [row.tolist() for row in threads(small(fixed, 20), workers)] == rows


def test_long_records_in_several_files(tmp_path):
    state = random.Random(0)
    records = [state.randbytes(state.choice([0, 5, 3000, 400_000, 1_200_000])) for _ in range(30)]
    paths = write_files(tmp_path, [compress("GZIP", stream(records[at : at + 5]), 1) for at in range(0, 30, 5)])
    for workers in THREADS:
        for budget in (None, 64 * MIB):
            ds = TFRecordDataset(paths, "GZIP").repeat(2).with_options(Options(memory_budget=budget))
            assert run(threads(ds, workers)) == (records * 2, None)


# ---- what runs ahead ------------------------------------------------------------------------------------------------


def open_files():
    names = (f"/proc/self/fd/{number}" for number in os.listdir("/proc/self/fd"))
    return {os.path.realpath(name) for name in names if os.path.exists(name)}


@pytest.fixture
def large(tmp_path):
    """Files of more bytes than are read ahead of a consumer that waits, and their lines."""
    lines = [b"%06d" % number * 10 for number in range(100_000)]
    return write_files(tmp_path, [compress("GZIP", b"\n".join(lines) + b"\n", 1)] * 4), lines


def test_a_later_file_is_read_while_the_first_one_is_open(large):
    paths, lines = large
    with iter(threads(TextLineDataset(paths, "GZIP").batch(10).prefetch(1), 2)) as it:
        first = next(it).to_list()
        # Nobody takes more of the first file, which stays open: its bytes are far more than are read ahead of its end.
        assert soon(lambda: {str(path) for path in paths[:2]} <= open_files(), PATIENCE)
        assert first + [line for batch in it for line in batch.to_list()] == lines * 4


def test_one_thread_reads_one_file_after_the_other(large):
    paths, lines = large
    names = {str(path) for path in paths}
    taken = 0
    with iter(threads(TextLineDataset(paths, "GZIP").batch(1000), 1)) as it:
        for batch in it:
            taken += len(batch)
            assert len(names & open_files()) <= 1
    assert taken == 4 * len(lines)


def test_what_runs_ahead_has_a_limit(large):
    paths, lines = large
    budget = 16 * MIB
    count = 0
    ds = TextLineDataset(paths, "GZIP").repeat(2).batch(500)
    with iter(ds.with_options(Options(num_threads=4, memory_budget=budget))) as it:
        for batch in it:
            count += len(batch)
            stats = it.stats()
            assert stats["memory_bytes"] <= budget
            # A third of the budget is for blocks, and as much is in batches.
            assert stats["bytes_read"] - count * (len(lines[0]) + 1) <= budget
    assert count == 8 * len(lines)


# ---- what is wrong --------------------------------------------------------------------------------------------------


def outcome(ds, workers, log):
    """What a dataset gives, its error, the numbers of what was left out, and what was logged of it, in any order."""
    if log is not None:
        ds = ds.with_options(Options(on_error="skip", quarantine=log))
    with iter(threads(ds, workers)) as it:
        results, error = pull(it)
        stats = it.stats()
    told = None if error is None else (type(error), str(error), error.path, error.offset, error.record)
    logged = None
    if log is not None and log.exists():
        logged = sorted(log.read_text().splitlines())
        log.unlink()
    return results, told, stats["skipped"], stats["skipped_files"], logged


@pytest.mark.parametrize("skips", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_damage_is_told_in_its_place(tmp_path, kind, skips):
    state = random.Random(kind)
    paths, _ = files(tmp_path, kind, [60, 9, 50, 30, 1, 40])
    log = tmp_path / "log" if skips else None
    for number in range(20):
        names = list(paths)
        for bad in state.sample(range(len(paths)), 2):
            data = bytearray(paths[bad].read_bytes())
            position = state.randrange(len(data))
            way = state.choice(["bit", "cut", "more", "gone", "empty"])
            names[bad] = tmp_path / f"{number}-{bad}"
            if way == "bit":
                data[position] ^= 1 << state.randrange(8)
            if way != "gone":
                names[bad].write_bytes({"cut": data[:position], "more": data + b"x", "empty": b""}.get(way, data))
        ds = small(source(kind, names, "GZIP"), state.choice([20, 100, 1 << 18])).repeat(2)
        ds = ds.batch(state.choice([1, 4, 100]))
        alone = outcome(ds, 1, log)
        for workers in THREADS[1:]:
            assert outcome(ds, workers, log) == alone


def test_what_comes_before_damage_is_given_first(tmp_path):
    texts = [b"".join(b"%d-%d\n" % (index, number) for number in range(5000)) for index in range(5)]
    paths = write_files(tmp_path, [compress("GZIP", text) for text in texts])
    paths[3].write_bytes(paths[3].read_bytes()[:-5])  # of the checksum: all lines are there
    for workers in THREADS:
        got, error = run(threads(small(TextLineDataset(paths, "GZIP"), 1000).batch(100), workers))
        assert type(error) is DecompressError
        assert error.path == str(paths[3])
        assert flat(got) == b"".join(texts[:4]).splitlines()


def test_a_file_that_is_replaced_between_passes(tmp_path):
    lines = [b"%d" % number for number in range(300)]
    texts = [compress("GZIP", b"".join(line + b"\n" for line in lines))] * 40
    paths = write_files(tmp_path, texts)
    for workers in THREADS:
        with iter(threads(small(TextLineDataset(paths, "GZIP"), 1000).repeat(20).batch(300), workers)) as it:
            results = pull(it, 40)[0]
            (tmp_path / "new").write_bytes(compress("GZIP", b"other"))
            os.replace(tmp_path / "new", paths[30])
            rest, error = pull(it)
        assert type(error) is SourceChangedError
        assert error.path == str(paths[30])
        assert len(results + rest) % 40 == 30
        assert results + rest == [lines] * len(results + rest)
        paths[30].write_bytes(texts[30])


def test_an_interleave_stays_one(tmp_path):
    paths, records = files(tmp_path, "lines", [3, 3])
    turns = [run(threads(interleaved(TextLineDataset(paths, "GZIP"), 2, 1), workers))[0] for workers in THREADS]
    assert turns[0] == turns[1] == turns[2] == [line for pair in zip(*records, strict=True) for line in pair]
