"""Lines, TFRecords and CSV as datasets that meet bad files: good records first, then an error that names the place."""

import errno
import gzip
import json
import os
import resource
import warnings
import zlib

import numpy as np
import pytest
from helpers.data.blocks import KINDS, content, flat, plain, pull, run, small, source
from helpers.data.chains import THREADS, threads, write_files
from helpers.formats import tfrecords
from helpers.formats.compressed import compress
from helpers.process import open_descriptors, soon

import queuecore as qc
from queuecore.data import CsvDataset, Options, TextLineDataset, TFRecordDataset
from queuecore.errors import (
    ChecksumError,
    CsvError,
    DecompressError,
    FailedPreconditionError,
    InvalidArgumentError,
    NotAFileError,
    NotFoundError,
    ProtoError,
    RecordTooLargeError,
    SourceChangedError,
    StallError,
    TruncatedRecordError,
    UnavailableError,
)

PIECES = [33, 1000, 1 << 18]
BATCHES = [1, 4, 1000]


def check(ds, good, kind, rest=None, **places):
    """Every number of threads, size of blocks and of batches: what is good, then the error, then the rest, if any."""
    for piece in PIECES:
        for batch in BATCHES:
            for workers in THREADS:
                with iter(threads(small(ds(), piece).batch(batch), workers)) as it:
                    got, error = pull(it)
                    assert type(error) is kind, (piece, batch, workers, error)
                    assert flat(got) == good
                    assert {name: getattr(error, name) for name in places} == places
                    if rest is not None:
                        assert flat(pull(it)[0]) == rest
                        continue
                    with pytest.raises(FailedPreconditionError) as closed:
                        next(it)
                    assert closed.value.__cause__ is error


@pytest.fixture
def records():
    return [bytes([n]) * (n * 7 % 130) for n in range(1, 60)]


@pytest.fixture
def file(tmp_path, records):
    (tmp_path / "good").write_bytes(tfrecords.stream(records))
    return tmp_path / "good"


def offset(records, index):
    return sum(len(one) + 16 for one in records[:index])


def test_flipped_bits(tmp_path, file, records):
    data = file.read_bytes()
    position = offset(records, 30)
    bad = tmp_path / "bad"
    for place, word in [
        (position + 3, "length"),
        (position + 9, "length"),
        (position + 20, "data"),
        (position + 12 + len(records[30]), "data"),
    ]:
        bad.write_bytes(data[:place] + bytes([data[place] ^ 4]) + data[place + 1 :])
        check(
            lambda: TFRecordDataset([file, bad, file]),
            records + records[:30],
            ChecksumError,
            path=str(bad),
            offset=position,
            record=30,
            stage="read",
        )
        assert word in str(run(TFRecordDataset(bad))[1])


def test_files_that_end_inside_a_record(tmp_path, file, records):
    position = offset(records, 30)
    bad = tmp_path / "bad"
    for length in [1, 7, 8, 11, 12, 13, len(records[30]) + 12, len(records[30]) + 15]:
        bad.write_bytes(file.read_bytes()[: position + length])
        for workers in THREADS:
            got, error = run(threads(small(TFRecordDataset([file, bad, file]), 100).batch(9), workers))
            assert flat(got) == records + records[:30]
            assert type(error) is TruncatedRecordError
            assert (error.path, error.offset, error.record) == (str(bad), position, 30)


def test_long_records_are_refused_before_there_is_memory_for_them(tmp_path, records):
    bad = tmp_path / "bad"
    for length in (1 << 31, (1 << 32) + 1, 1 << 63, (1 << 64) - 1):
        bad.write_bytes(tfrecords.stream(records) + tfrecords.header(length) + b"x" * 100)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        results, error = run(TFRecordDataset(bad).batch(7))
        assert type(error) is RecordTooLargeError
        assert (error.offset, error.record) == (offset(records, len(records)), len(records))
        assert flat(results) == records
        assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss < before + (32 << 10)
    bad.write_bytes(tfrecords.stream([*records, b"x" * 500, b""]))
    for piece in PIECES:
        ds = small(TFRecordDataset(bad), piece).with_options(Options(max_record_bytes=499))
        results, error = run(ds.batch(3))
        assert flat(results) == records
        assert type(error) is RecordTooLargeError
    assert len(run(TFRecordDataset(bad).with_options(Options(max_record_bytes=500)))[0]) == len(records) + 2


@pytest.mark.sampled(2)
@pytest.mark.parametrize("compression", [None, "GZIP"])
def test_a_line_without_end(tmp_path, compression):
    text = b"one\ntwo\n" + b"x" * (3 << 20)
    (tmp_path / "a").write_bytes(text if compression is None else compress("GZIP", text))
    for piece in PIECES:
        for workers in THREADS:
            ds = small(TextLineDataset(tmp_path / "a", compression), piece).with_options(
                Options(max_record_bytes=1 << 20)
            )
            got, error = run(threads(ds.batch(2), workers))
            assert got == [[b"one", b"two"]]
            assert type(error) is RecordTooLargeError
            assert (error.offset, error.record) == (8, 2)


def test_a_bomb_takes_no_more_memory_than_the_limit(tmp_path):
    (tmp_path / "a").write_bytes(compress("GZIP", b"a\n" + bytes(1 << 28)))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    got, error = run(TextLineDataset(tmp_path / "a", "GZIP").with_options(Options(max_record_bytes=4 << 20)))
    assert got == [b"a"]
    assert type(error) is RecordTooLargeError
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss < before + (48 << 10)


@pytest.mark.thorough
def test_a_bomb_in_a_bomb(tmp_path):
    zeros = compress("GZIP", bytes(1 << 28))  # 260 kB, which are squeezed once more
    good = compress("GZIP", b"good")
    (tmp_path / "a").write_bytes(compress("GZIP", tfrecords.stream([good, zeros, good])))
    decode = qc.ops.decode_compressed(compression_type="GZIP", max_record_bytes=4 << 20)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    got, error = run(TFRecordDataset(tmp_path / "a", "GZIP").map(decode))
    assert got == [b"good"]
    assert type(error) is RecordTooLargeError
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss < before + (48 << 10)


def test_csv_that_is_wrong(tmp_path):
    text, rows = content("csv", 60)
    (tmp_path / "good").write_bytes(text)
    bad = tmp_path / "bad"
    for line, field in [
        (b"x,y,1.0\n", 0),
        (b"1,y\n", None),
        (b"1,y,1.0,2\n", None),
        (b",y,1.0\n", 0),
        (b'1,"y"z,1.0\n', 1),
    ]:
        bad.write_bytes(text + (b"" if text[-1:] in b"\r\n" else b"\n") + line + text)
        check(
            lambda: CsvDataset([tmp_path / "good", bad], [np.int64, b"", 0.0]),
            rows + rows,
            CsvError,
            rest=rows,
            path=str(bad),
            record=60,
            field=field,
        )
    error = run(CsvDataset(bad, [np.int64, b"", 0.0]))[1]
    assert error.line == text.count(b"\n") + text.replace(b"\r\n", b"").count(b"\r") + 1


@pytest.mark.parametrize("compression", ["", "GZIP", "ZLIB"])
def test_the_header_names_the_column_that_is_wrong(tmp_path, compression):
    pack = {"": bytes, "GZIP": gzip.compress, "ZLIB": zlib.compress}[compression]
    (tmp_path / "a").write_bytes(pack(b'x,"the ""price"", net",z\n1,2,3\n1,?,3\n1,2\n?,2,3\n'))
    (tmp_path / "b").write_bytes(pack(b"a,b\n1,2,?\n"))
    names = [tmp_path / "a", tmp_path / "b"]
    it = iter(CsvDataset(names, [0, 0], compression, header=True, select_cols=[1, 2]))
    rows, errors = [], []
    for _ in range(5):
        try:
            rows.append(next(it))
        except CsvError as error:
            errors.append(error)
    assert rows == [(2, 3), (2, 3)]
    assert [(error.field, error.column) for error in errors] == [(1, 'the "price", net'), (None, None), (2, None)]
    assert "line 3, column 2 ('the \"price\", net'): '?' is no int32" in str(errors[0])
    assert next(it, None) is None
    whole = iter(CsvDataset(names[0], [0, 0, 0], compression, header=True).skip(1))
    with pytest.raises(CsvError) as caught:
        next(whole)
    assert caught.value.column == 'the "price", net'
    with pytest.raises(CsvError) as caught:  # no header, no name
        next(iter(CsvDataset(names[0], [0, 0, 0], compression)))
    assert caught.value.column is None


def test_a_quote_that_is_never_closed(tmp_path):
    (tmp_path / "a").write_bytes(b'1,a\n2,"b\n' + b"3,c\n" * 100_000)
    for workers in THREADS:
        results, error = run(
            threads(CsvDataset(tmp_path / "a", [0, b""]).with_options(Options(max_record_bytes=100_000)), workers)
        )
        assert results == [(1, b"a")]
        assert type(error) in (CsvError, RecordTooLargeError)
        assert error.record == 1
    results, error = run(CsvDataset(tmp_path / "a", [0, b""]))
    assert results == [(1, b"a")]
    assert type(error) is CsvError
    assert error.line == 2


@pytest.mark.parametrize("kind", KINDS)
def test_compressed_files_that_are_damaged(tmp_path, kind):
    text, records = content(kind, 2000)
    good = tmp_path / "good"
    good.write_bytes(compress("GZIP", text))
    data = good.read_bytes()
    bad = tmp_path / "bad"
    for damaged in (data[: len(data) // 2], data[:-3], data[:-8] + bytes(8), data + b"trailing"):
        bad.write_bytes(damaged)
        for workers in THREADS:
            got, error = run(threads(source(kind, [good, bad, good], "GZIP").batch(50), workers))
            assert type(error) is DecompressError
            assert error.path == str(bad)
            got = flat(got)
            assert len(got) >= len(records)
            assert got == (records + records)[: len(got)]


@pytest.mark.parametrize("kind", KINDS)
def test_files_that_can_not_be_opened(tmp_path, kind):
    text, records = content(kind, 30)
    good = tmp_path / "good"
    good.write_bytes(text)
    (tmp_path / "directory").mkdir()
    os.mkfifo(tmp_path / "pipe")
    for name, error in [("missing", NotFoundError), ("directory", NotAFileError), ("pipe", UnavailableError)]:
        check(lambda name=name: source(kind, [good, tmp_path / name, good]), records, error, path=str(tmp_path / name))
        got, found = run(source(kind, [good, tmp_path / name], "GZIP" if name == "missing" else None).take(1))
        if name != "missing":
            assert (got, found) == (records[:1], None)


def test_steps_that_fail(tmp_path):
    records = [np.int32(n).tobytes() for n in range(100)]
    records[60] = b"abc"
    (tmp_path / "a").write_bytes(tfrecords.stream(records))
    stage = qc.ops.compose(qc.ops.decode_raw(out_type=np.int32), qc.ops.reshape(shape=(1,)))
    for workers in THREADS:
        for batch in BATCHES:
            results, error = run(threads(small(TFRecordDataset(tmp_path / "a"), 50).map(stage).batch(batch), workers))
            assert type(error) is InvalidArgumentError
            assert (error.path, error.record, error.offset, error.stage) == (str(tmp_path / "a"), 60, 60 * 20, "map")
            assert flat(results) == [[n] for n in range(60)]
    (tmp_path / "b").write_bytes(tfrecords.stream([b"", b"\x0a\xff"]))
    ds = TFRecordDataset(tmp_path / "b").map(qc.ops.parse_single_example(features={"x": qc.ops.VarLenFeature(bytes)}))
    results, error = run(ds.batch(1))
    assert len(results) == 1
    assert type(error) is ProtoError
    table = np.arange(40, dtype=np.uint8)
    table.tofile(tmp_path / "c")
    ds = qc.data.FixedLengthRecordDataset(tmp_path / "c", 4).shuffle(5, 1, False)
    order = [int(row[0]) for row in ds]
    ds = ds.map(qc.ops.one_hot(depth=30)) if False else ds.map(qc.ops.reshape(shape=(2, 2)))
    assert [int(row[0, 0]) for row in ds] == order


def test_changed_between_two_passes(tmp_path):
    texts = [b"%d\n" % n * 500 for n in range(60)]
    paths = write_files(tmp_path, texts)
    for workers in THREADS:
        with iter(threads(TextLineDataset(paths).repeat(20).batch(500), workers)) as it:
            results = pull(it, 60)[0]
            paths[50].write_bytes(b"other")
            rest, error = pull(it)
        assert type(error) is SourceChangedError
        assert error.path == str(paths[50])
        assert len(results + rest) % 60 == 50
        assert results + rest == [[b"%d" % (n % 60)] * 500 for n in range(len(results + rest))]
        paths[50].write_bytes(texts[50])


def test_many_files_and_few_descriptors(tmp_path):
    paths = write_files(tmp_path, [b"%d\n" % n for n in range(3000)])
    before = open_descriptors()
    most = 0
    with iter(threads(TextLineDataset(paths).batch(10), 4)) as it:
        for batch in it:
            most = max(most, open_descriptors() - before)
            assert len(batch) == 10
    assert most <= 4 + 8 + 3


@pytest.mark.thorough
def test_a_hundred_thousand_files(tmp_path):
    count = 100_000
    paths = write_files(tmp_path, (b"%07d\n" % n for n in range(count)))
    for ds in (threads(TextLineDataset(paths), 4), threads(qc.data.FixedLengthRecordDataset(paths, 8), 4)):
        before = open_descriptors()
        with iter(ds.batch(10)) as it:
            next(it)
            # The rest of the files was not even looked for.
            assert it.stats()["files_known"] < count // 10
        peak, n = 0, 0
        with iter(ds.batch(10)) as it:
            for n, _ in enumerate(it, 1):
                if n % 500 == 0:
                    peak = max(peak, open_descriptors() - before)
                    assert len(json.dumps(it.state_dict())) < 4000
        assert n == count // 10
        assert peak <= 4 + 8 + 3


syscalls = pytest.importorskip("queuecore._core.testing.syscalls")


@pytest.fixture(autouse=True)
def no_hooks():
    syscalls.reset_faults()
    yield
    syscalls.reset_faults()


@pytest.mark.sampled(2)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("compression", [None, "GZIP"])
def test_reads_that_fail(tmp_path, kind, compression):
    text, records = content(kind, 20 if kind == "tar" else 300)
    paths = write_files(tmp_path, [text if compression is None else compress("GZIP", text)] * 3)
    for workers in THREADS:
        for nth in range(1, 500, 3):
            syscalls.reset_faults()
            syscalls.short_reads(900)
            syscalls.fail_read(nth, errno.EIO)
            results, error = run(threads(small(source(kind, paths, compression), 1000).batch(11), workers))
            results = flat(results)
            if error is None:
                assert results == records * 3
                assert nth > 1
                break
            assert type(error) is UnavailableError
            assert error.errno == errno.EIO
            assert error.path in map(str, paths)
            assert results == (records * 3)[: len(results)]
        else:
            pytest.fail("never without a fault")


@pytest.mark.sampled(4)
@pytest.mark.parametrize("kind", [*KINDS, "fixed"])
@pytest.mark.parametrize("compression", [None, "GZIP"])
def test_reads_that_fail_and_are_tried_again(tmp_path, kind, compression):
    text, records = content("lines" if kind == "fixed" else kind, 300)
    paths = write_files(tmp_path, [text if compression is None else compress("GZIP", text)] * 2)
    if kind == "fixed":
        ds = qc.data.FixedLengthRecordDataset(paths, 1, compression_type=compression)
        records = [[byte] for byte in text]
    else:
        ds = small(source(kind, paths, compression), 1000)
    for nth in (1, 2, 3, 5):
        syscalls.reset_faults()
        syscalls.short_reads(900)
        syscalls.fail_read(nth, errno.EIO)
        got, error = run(ds.batch(11).with_options(Options(retries=2)))
        assert error is None
        assert flat([plain(one) for one in got]) == records * 2
    syscalls.fail_read(2, errno.EIO, True)
    assert run(ds.batch(11).with_options(Options(retries=2)))[1].errno == errno.EIO
    syscalls.reset_faults()
    syscalls.fail_read(1, errno.EIO, True)
    with iter(ds.batch(11).with_options(Options(retries=1000))) as it:
        it.close()
    syscalls.reset_faults()


@pytest.mark.parametrize("kind", KINDS)
def test_short_and_interrupted_reads_are_invisible(tmp_path, kind):
    text, records = content(kind, 40)
    paths = write_files(tmp_path, [text] * 2)
    syscalls.short_reads(1)
    syscalls.interrupt_reads(2)
    for workers in THREADS:
        got, error = run(threads(small(source(kind, paths), 700).batch(3), workers))
        assert error is None
        assert flat(got) == records * 2


@pytest.mark.parametrize("compression", [None, "GZIP"])
def test_a_read_that_does_not_come_back_is_named(tmp_path, compression):
    text = b"".join(b"%d\n" % n for n in range(50_000))
    path = tmp_path / "slow"
    path.write_bytes(text if compression is None else compress("GZIP", text))
    ds = small(TextLineDataset(path, compression), 1000).batch(10)

    def iterate(**options):
        """Begin a pass whose first read doesn't come back, and which has begun that read."""
        syscalls.set_read_delay(3600)
        begun_reads = syscalls.read_count()
        it = iter(ds.with_options(Options(num_threads=1, **options)))
        assert not it._stream.poll(0)
        assert soon(lambda: syscalls.read_count() > begun_reads)
        return it

    with iterate(stall_warn=0.05) as it:
        with warnings.catch_warnings(action="error"), pytest.raises(RuntimeWarning, match="slow"):
            next(it)
        syscalls.set_read_delay(0)
        assert len(next(it)) == 10
    with iterate(stall_timeout=0.1) as it:
        with pytest.raises(StallError) as caught:
            next(it)
        assert isinstance(caught.value, TimeoutError)
        assert caught.value.path == str(path)
        with pytest.raises(FailedPreconditionError):
            next(it)
        syscalls.set_read_delay(0)
    syscalls.set_read_delay(0.01)
    with iter(ds.with_options(Options(num_threads=2, stall_timeout=30))) as it:  # slow, but it moves
        assert len(pull(it, 20)[0]) == 20
    syscalls.reset_faults()
    for bad in (0, -1.0, True, "1"):
        with pytest.raises(InvalidArgumentError, match="stall_timeout"):
            Options(stall_timeout=bad)


@pytest.mark.thorough
@pytest.mark.parametrize("number", [errno.ESTALE, errno.ETIMEDOUT])
@pytest.mark.parametrize("kind", [*KINDS, "fixed"])
def test_a_file_that_the_server_lost_is_opened_once_more(tmp_path, kind, number):
    text, records = content("lines" if kind == "fixed" else kind, 300)
    paths = write_files(tmp_path, [text] * 2)
    ds = qc.data.FixedLengthRecordDataset(paths, 1) if kind == "fixed" else small(source(kind, paths), 1000)
    expected = [[byte] for byte in text * 2] if kind == "fixed" else records * 2
    for workers in THREADS:
        for nth in (1, 2, 3):
            syscalls.reset_faults()
            syscalls.fail_read(nth, number)
            got, error = run(threads(ds.batch(11), workers))
            assert error is None
            assert flat([plain(one) for one in got]) == expected
        syscalls.fail_read(1, number, True)
        got, error = run(threads(ds.batch(11), workers))
        assert type(error) is UnavailableError
        assert error.errno == number


@pytest.mark.parametrize("workers", THREADS)
def test_reads_that_fail_under_a_map_of_known_places(tmp_path, workers):
    # What was read before the failure is made into rows; the failure stays what it was.
    rows = np.arange(3000, dtype=np.uint8).reshape(1000, 3)
    rows.tofile(tmp_path / "a")
    ds = qc.data.FixedLengthRecordDataset(tmp_path / "a", 3).map(qc.ops.cast(dtype=np.int32)).batch(200)
    for nth in range(2, 30):
        syscalls.reset_faults()
        syscalls.short_reads(100)
        syscalls.fail_read(nth, errno.EIO)  # once: a run after it would only hide it behind its own
        got, error = run(threads(ds, workers))
        assert type(error) is UnavailableError
        assert (error.errno, error.path) == (errno.EIO, str(tmp_path / "a"))
        assert error.record is not None
        assert error.offset is not None
        assert flat(got) == rows[: len(flat(got))].tolist()


@pytest.mark.parametrize("workers", THREADS)
def test_a_failed_look_into_an_empty_file_is_tried_again(tmp_path, workers):
    paths = write_files(tmp_path, [b"", b"a\nb\n", b""])
    ds = threads(TextLineDataset(paths).batch(1), workers).with_options(Options(retries=2))
    fixed = qc.data.FixedLengthRecordDataset(paths, 2).batch(1).with_options(Options(retries=2))
    for dataset, expected in ((ds, [b"a", b"b"]), (fixed, [b"a\n", b"b\n"])):
        with iter(dataset) as it:
            next(it)
            place = it.state_dict()
        reads = 0
        for nth in range(1, 20):
            for state in (None, place):
                syscalls.reset_faults()
                syscalls.fail_read(nth, errno.EIO)
                with iter(dataset) as it:
                    if state is not None:
                        it.load_state_dict(state)
                    got = [np.asarray(batch)[0].tobytes() if dataset is fixed else batch[0] for batch in it]
                assert got == expected[state is not None :]
                reads = max(reads, syscalls.read_count())
        assert reads > 3
    syscalls.reset_faults()
