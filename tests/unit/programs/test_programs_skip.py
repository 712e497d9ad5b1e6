"""Bad records and files in stage programs: which are left out, how they are counted and logged, what is left."""

import contextlib
import gzip
import json
import os
import zlib

import numpy as np
import pytest
from helpers.formats import tfrecords
from helpers.process import PATIENCE, soon, thread_ids
from helpers.queues.counts import counts_of
from helpers.queues.drain import drain
from hypothesis import given, settings, strategies as st

import queuecore as qc
from queuecore.errors import (
    ChecksumError,
    CsvError,
    DtypeError,
    InvalidArgumentError,
    NotAFileError,
    NotFoundError,
    OutOfRangeError,
    PipelineError,
    QueueCoreError,
)


@pytest.fixture(autouse=True)
def no_thread_is_left():
    before = thread_ids()
    yield
    assert soon(lambda: thread_ids() <= before, PATIENCE)


def run(program, count=1, dtypes=(bytes,), shapes=((),)):
    """Run a program to its end; return the elements, and the error at the end."""
    coord = qc.Coordinator()
    queue = qc.FIFOQueue(5, list(dtypes), None if shapes is None else list(shapes))
    threads = qc.QueueRunner(queue, [program] * count).create_threads(coord, start=True)
    items, error = drain(queue)
    cause = error.__cause__
    with contextlib.suppress(QueueCoreError, ValueError):
        coord.join(threads)
    return items, cause


def logged(path):
    """Return the lines of a log, none of which has a message without words."""
    found = [json.loads(line) for line in path.read_text("ascii").splitlines()] if path.exists() else []
    assert all(line.pop("message") for line in found)
    return found


def entry(path, offset, record, reason, file=False, nbytes=None):
    return {
        "path": str(path),
        "offset": offset,
        "record": record,
        "reason": reason,
        "file": file,
        "bytes": nbytes,
    }


def stats(records, skipped=0, files=0, nbytes=0):
    return {"records": records, "skipped": skipped, "skipped_files": files, "skipped_bytes": nbytes}


def checked(program_of, good, bad, counts, log, threads=1, **queue):
    """Run a program that skips, hold it to what is left, its log and its counts; and see it raise otherwise."""
    program = program_of(on_error="skip", quarantine=log)
    items, cause = run(program, threads, **queue)
    assert cause is None
    assert (items if threads == 1 else sorted(items)) == (good if threads == 1 else sorted(good))
    found = logged(log)
    assert (found if threads == 1 else sorted(found, key=str)) == (bad if threads == 1 else sorted(bad, key=str))
    assert counts_of(program) == counts
    assert len(found) == counts["skipped"] + counts["skipped_files"]
    program = program_of()
    items, cause = run(program, 1, **queue)
    assert (type(cause).__name__, cause.path, cause.record) == (bad[0]["reason"], bad[0]["path"], bad[0]["record"])
    assert items == good[: len(items)]  # what came before it
    return cause


def tfrecord(path, records, damage=()):
    """Write records, with bytes flipped at the places that `damage` names."""
    data = bytearray(tfrecords.stream(records))
    for place in damage:
        data[place] ^= 0x10
    path.write_bytes(data)
    return data


RECORDS = [bytes([65 + index]) * (3 * index) for index in range(12)]
STARTS = tfrecords.places(RECORDS)


# Records that are damaged


@pytest.mark.sampled(3)
@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("damaged_records", [[3], [0], [11], [2, 3, 7], list(range(12))])
@pytest.mark.parametrize("where", ["data", "checksum"])
def test_damaged_data_of_tfrecords(tmp_path, threads, damaged_records, where):
    """The damaged ones are left out, and no other."""
    paths = [tmp_path / name for name in "abc"]
    places = [
        STARTS[index + 1] - 1 if where == "checksum" or not RECORDS[index] else STARTS[index] + 12
        for index in damaged_records
    ]
    for path in paths:
        tfrecord(path, RECORDS, places if path.name == "b" else ())
    good = RECORDS + [one for index, one in enumerate(RECORDS) if index not in damaged_records] + RECORDS

    def program_of(**options):
        return qc.StageProgram(qc.TFRecordReader(), paths, lambda one: one, **options)

    bad = [
        entry(paths[1], STARTS[index], index, "ChecksumError", nbytes=len(RECORDS[index])) for index in damaged_records
    ]
    counts = stats(len(good), len(damaged_records), 0, sum(len(RECORDS[index]) for index in damaged_records))
    checked(program_of, good, bad, counts, tmp_path / "log", threads)


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("record", [0, 5, 11])
@pytest.mark.parametrize("byte", [0, 7, 8, 11])
def test_damaged_lengths_of_tfrecords(tmp_path, threads, record, byte):
    """The rest of the file is given up, and its bytes are counted."""
    paths = [tmp_path / name for name in "abc"]
    for path in paths:
        tfrecord(path, RECORDS, [STARTS[record] + byte] if path.name == "b" else ())
    good = RECORDS + RECORDS[:record] + RECORDS
    rest = STARTS[-1] - STARTS[record]

    def program_of(**options):
        return qc.StageProgram(qc.TFRecordReader(), paths, bytes, **options)

    bad = [entry(paths[1], STARTS[record], record, "ChecksumError", True, rest)]
    checked(program_of, good, bad, stats(len(good), 0, 1, rest), tmp_path / "log", threads)


@pytest.mark.parametrize("cut", [1, 3, 11, 12, 13, 20])
def test_a_cut_tfrecord_file(tmp_path, cut):
    paths = [tmp_path / name for name in "ab"]
    data = tfrecord(paths[1], RECORDS)
    paths[0].write_bytes(data[: STARTS[6] + cut])
    good = RECORDS[:6] + RECORDS

    def program_of(**options):
        return qc.StageProgram(qc.TFRecordReader(), paths, bytes, **options)

    bad = [entry(paths[0], STARTS[6], 6, "TruncatedRecordError", True, cut)]
    checked(program_of, good, bad, stats(len(good), 0, 1, cut), tmp_path / "log")


def test_a_tfrecord_that_is_too_long(tmp_path):
    path = tmp_path / "a"
    path.write_bytes(tfrecords.stream(RECORDS[:3]) + tfrecords.header(1 << 40) + b"rest")

    def program_of(**options):
        return qc.StageProgram(qc.TFRecordReader(), [path], bytes, **options)

    bad = [entry(path, STARTS[3], 3, "RecordTooLargeError", True, 16)]
    checked(program_of, RECORDS[:3], bad, stats(3, 0, 1, 16), tmp_path / "log")


@pytest.mark.parametrize("word", ["GZIP", "ZLIB"])
def test_compressed_files(tmp_path, word):
    """Damage to what was compressed is a record's; damage to what compresses it is the rest of the file."""
    compress = gzip.compress if word == "GZIP" else zlib.compress
    data = bytearray(tfrecords.stream(RECORDS))
    data[STARTS[4] + 12] ^= 1
    paths = [tmp_path / name for name in "abc"]
    paths[0].write_bytes(compress(bytes(data)))
    paths[1].write_bytes(compress(tfrecords.stream(RECORDS))[:-3])
    data = bytearray(tfrecords.stream(RECORDS))
    data[STARTS[4]] ^= 1
    paths[2].write_bytes(compress(bytes(data)))
    program = qc.StageProgram(qc.TFRecordReader(word), paths, bytes, on_error="skip", quarantine=tmp_path / "log")
    items, cause = run(program)
    assert cause is None
    assert items == RECORDS[:4] + RECORDS[5:] + RECORDS + RECORDS[:4]
    keys = ("path", "record", "reason", "file", "bytes")
    assert [tuple(one[key] for key in keys) for one in logged(tmp_path / "log")] == [
        (str(paths[0]), 4, "ChecksumError", False, len(RECORDS[4])),
        (str(paths[1]), 12, "DecompressError", True, None),
        (str(paths[2]), 4, "ChecksumError", True, None),
    ]
    assert counts_of(program) == stats(27, 1, 2, len(RECORDS[4]))


def test_a_file_that_ends_in_its_header(tmp_path):
    paths = [tmp_path / name for name in "abc"]
    for path, size in zip(paths, (20, 7, 20), strict=True):
        path.write_bytes(bytes(range(size)))

    def program_of(**options):
        return qc.StageProgram(qc.FixedLengthRecordReader(5, header_bytes=10), paths, bytes, **options)

    good = [bytes(range(10, 15)), bytes(range(15, 20))] * 2
    bad = [entry(paths[1], 0, 0, "TruncatedRecordError", True, 0)]
    checked(program_of, good, bad, stats(4, 0, 1, 0), tmp_path / "log")


def test_a_file_without_ends_of_lines(tmp_path):
    paths = [tmp_path / name for name in "abc"]
    paths[0].write_bytes(b"one\ntwo\n")
    with open(paths[1], "wb") as out:
        out.write(b"three\n")
        out.truncate((64 << 20) + 100)
    paths[2].write_bytes(b"four\n")

    def program_of(**options):
        return qc.StageProgram(qc.TextLineReader(), paths, bytes, **options)

    rest = (64 << 20) + 94
    bad = [entry(paths[1], 6, 1, "RecordTooLargeError", True, rest)]
    checked(program_of, [b"one", b"two", b"three", b"four"], bad, stats(4, 0, 1, rest), tmp_path / "log")


# Records that don't decode


@pytest.mark.parametrize("threads", [1, 3])
def test_records_of_another_length(tmp_path, threads):
    paths = [tmp_path / name for name in "ab"]
    paths[0].write_bytes(b"abcd\nabc\n\nefgh\nabcde\n")
    paths[1].write_bytes(b"ijkl\nmn")

    def program_of(**options):
        return qc.StageProgram(
            qc.TextLineReader(),
            paths,
            qc.ops.decode_raw(out_type=np.dtype([("a", "u1", 4)])),
            qc.ops.python(lambda one: one.tobytes(), outputs=[(bytes, ())]),
            **options,
        )

    bad = [
        entry(paths[0], 5, 1, "InvalidArgumentError", nbytes=3),
        entry(paths[0], 9, 2, "InvalidArgumentError", nbytes=0),
        entry(paths[0], 15, 4, "InvalidArgumentError", nbytes=5),
        entry(paths[1], 5, 1, "InvalidArgumentError", nbytes=2),
    ]
    checked(program_of, [b"abcd", b"efgh", b"ijkl"], bad, stats(3, 4, 0, 10), tmp_path / "log", threads)


@pytest.mark.parametrize("framing", ["fixed", "lines", "tfrecord", "whole"])
def test_the_place_of_a_record_in_every_framing(tmp_path, framing):
    """All of them are bad: what is logged is where each begins, in the decompressed stream."""
    records = [bytes([65 + index]) * 4 for index in range(3)]
    path = tmp_path / "a"
    reader, content, offsets, size = {
        "fixed": (qc.FixedLengthRecordReader(4, 2, 1, 5), b"hh" + b"-".join(records) + b"-f", [2, 7, 12], 4),
        "lines": (qc.TextLineReader(1), b"head\n" + b"\r\n".join(records), [5, 11, 17], 4),
        "tfrecord": (qc.TFRecordReader(), tfrecords.stream(records), [0, 20, 40], 4),
        "whole": (qc.WholeFileReader(), b"".join(records), [0], 12),
    }[framing]
    path.write_bytes(content)
    first = 1 if framing == "lines" else 0
    program = qc.StageProgram(reader, [path], refuse, on_error="skip", quarantine=tmp_path / "log")
    assert run(program) == ([], None)
    assert logged(tmp_path / "log") == [
        entry(path, offset, first + index, "PipelineError", nbytes=size) for index, offset in enumerate(offsets)
    ]


def refuse(_):
    raise ValueError("not this one")


def test_names_through_identity(tmp_path):
    program = qc.StageProgram(qc.IdentityReader(), ["a", "bb"], refuse, on_error="skip", quarantine=tmp_path / "log")
    assert run(program) == ([], None)
    assert logged(tmp_path / "log") == [
        entry("a", None, 0, "PipelineError", nbytes=1),
        entry("bb", None, 0, "PipelineError", nbytes=2),
    ]


@pytest.mark.parametrize("threads", [1, 3])
def test_columns_that_are_no_numbers(tmp_path, threads):
    path = tmp_path / "a"
    rows = [b"1,2.5", b"x,1", b"3", b"4,", b'5,"', b"6,7", b"99999999999,1"]
    path.write_bytes(b"\n".join(rows) + b"\n")
    offsets = np.cumsum([0, *(len(row) + 1 for row in rows)])

    def program_of(**options):
        return qc.StageProgram(qc.TextLineReader(), [path], qc.ops.decode_csv(record_defaults=[0, -1.0]), **options)

    bad = [entry(path, int(offsets[row]), row, "CsvError", nbytes=len(rows[row])) for row in (1, 2, 4, 6)]
    cause = checked(
        program_of,
        [[1, 2.5], [4, -1], [6, 7]],
        bad,
        stats(3, 4, 0, sum(len(rows[row]) for row in (1, 2, 4, 6))),
        tmp_path / "log",
        threads,
        dtypes=(np.int32, np.float32),
        shapes=((), ()),
    )
    assert isinstance(cause, CsvError)


def test_examples_of_the_wrong_wire_type(tmp_path):
    good = bytes.fromhex("0a0c0a0a0a016212050a030a0178")
    records = [good, good[:2] + b"\x0d" + good[3:], good, good[:-3], b"\xff", good]
    path = tmp_path / "a"
    tfrecord(path, records)
    starts = tfrecords.places(records)
    features = {"b": qc.ops.FixedLenFeature((), bytes)}

    def program_of(**options):
        return qc.StageProgram(qc.TFRecordReader(), [path], qc.ops.parse_single_example(features=features), **options)

    bad = [entry(path, starts[row], row, "ProtoError", nbytes=len(records[row])) for row in (1, 3, 4)]
    checked(program_of, [b"x"] * 3, bad, stats(3, 3, 0, sum(len(records[row]) for row in (1, 3, 4))), tmp_path / "log")


def test_shapes_that_the_queue_does_not_take(tmp_path):
    path = tmp_path / "a"
    path.write_bytes(b"ab\nabc\ncd\n")
    program = qc.StageProgram(
        qc.TextLineReader(),
        [path],
        qc.ops.decode_raw(out_type=np.uint8),
        on_error="skip",
        quarantine=tmp_path / "log",
    )
    items, cause = run(program, dtypes=(np.uint8,), shapes=((2,),))
    assert [item.tobytes() for item in items] == [b"ab", b"cd"] and cause is None
    assert logged(tmp_path / "log") == [entry(path, 3, 1, "InvalidArgumentError", nbytes=3)]


@pytest.mark.parametrize("types_known", [True, False])
@pytest.mark.parametrize("threads", [1, 4])
def test_functions_that_fail(tmp_path, types_known, threads):
    """By an exception, or by something that can't be enqueued."""
    path = tmp_path / "a"
    rows = [str(index).encode() for index in range(200)]
    path.write_bytes(b"\n".join(rows))

    def odd(line):
        number = int(line)
        if number % 10 == 3:
            raise ValueError(number)
        return b"no number" if number % 10 == 4 else np.zeros(2, int) if number % 10 == 5 else number

    def program_of(**options):
        return qc.StageProgram(
            qc.TextLineReader(), [path], qc.ops.python(odd, [(int, ())] if types_known else None), **options
        )

    reasons = {3: "PipelineError", 4: "DtypeError", 5: "InvalidArgumentError"}
    offsets = np.cumsum([0, *(len(row) + 1 for row in rows)]).tolist()
    bad = [
        entry(path, offsets[row], row, reasons[row % 10], nbytes=len(rows[row]))
        for row in range(200)
        if row % 10 in reasons
    ]
    good = [row for row in range(200) if row % 10 not in reasons]
    counts = stats(140, 60, 0, sum(one["bytes"] for one in bad))
    checked(program_of, good, bad, counts, tmp_path / "log", threads, dtypes=(int,))


def test_a_bad_record_leaves_nothing_behind(tmp_path):
    """The slot that was half filled with it is filled anew; objects of it are dropped."""
    path = tmp_path / "a"
    path.write_bytes(b"\n".join(str(index).encode() for index in range(30)))

    def pair(line):
        number = int(line)
        return np.full(3, number), [number] * (2 + (number % 3 == 0))

    program = qc.StageProgram(
        qc.TextLineReader(),
        [path],
        qc.ops.python(pair, [(int, (3,)), (int, (None,))]),
        on_error="skip",
    )
    items, cause = run(program, dtypes=(int, int), shapes=((3,), (2,)))
    assert cause is None
    assert [(one.tolist(), two.tolist()) for one, two in items] == [
        ([number] * 3, [number] * 2) for number in range(30) if number % 3
    ]


# Files


@pytest.mark.parametrize("work", ["list", "queue"])
@pytest.mark.parametrize("threads", [1, 3])
def test_files_that_cannot_be_opened(tmp_path, work, threads):
    """Missing, a directory, a pipe, a loop, a name that none can have; also the first and the last one."""
    good = [tmp_path / name for name in ("a", "b", "c")]
    for path in good:
        path.write_bytes(path.name.encode() * 3)
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    names = [
        str(tmp_path / name)
        for name in ("missing", "a", "folder", "pipe", "b", "loop", "x" * 300, "a/below", "no\0name", "c", "gone")
    ]
    reasons = {
        "missing": "NotFoundError",
        "folder": "NotAFileError",
        "pipe": "UnavailableError",
        "loop": "UnavailableError",
        "x" * 300: "UnavailableError",
        "a/below": "NotFoundError",
        "no\0name": "InvalidArgumentError",
        "gone": "NotFoundError",
    }

    def program_of(**options):
        source = list(names)
        if work == "queue":
            source = qc.FIFOQueue(-1, [str])
            for name in names:
                source.enqueue(name)
            source.close()
        return qc.StageProgram(qc.FixedLengthRecordReader(1), source, bytes, **options)

    bad = [
        entry(tmp_path / name, None, None, reasons[name], True)
        for name in ("missing", "folder", "pipe", "loop", "x" * 300, "a/below", "no\0name", "gone")
    ]
    checked(program_of, [b"a"] * 3 + [b"b"] * 3 + [b"c"] * 3, bad, stats(9, 0, 8, 0), tmp_path / "log", threads)


def test_a_name_that_is_no_text(tmp_path):
    name = os.fsencode(tmp_path) + b"/\xff\xfe"
    program = qc.StageProgram(qc.WholeFileReader(), [name], on_error="skip", quarantine=tmp_path / "log")
    assert run(program, dtypes=(bytes, bytes), shapes=None) == ([], None)
    assert os.fsencode(logged(tmp_path / "log")[0]["path"]) == name


def test_all_files_are_missing(tmp_path):
    program = qc.StageProgram(
        qc.WholeFileReader(), (str(tmp_path / str(index)) for index in range(500)), bytes, on_error="skip"
    )
    assert run(program, 2) == ([], None)
    assert counts_of(program) == stats(0, 0, 500)


@pytest.mark.parametrize("error", [ValueError("mine"), NotFoundError("mine"), ChecksumError("mine")])
def test_what_the_work_raises_is_no_bad_record(tmp_path, error):
    (tmp_path / "a").write_bytes(b"a")

    def names():
        yield tmp_path / "a"
        raise error

    program = qc.StageProgram(qc.WholeFileReader(), names(), bytes, on_error="skip")
    assert run(program) == ([b"a"], error)
    assert counts_of(program) == stats(1)


@pytest.mark.parametrize(("name", "kind"), [(7, DtypeError), (np.array(["a", "b"]), InvalidArgumentError)])
def test_a_name_that_is_none_is_no_bad_file(name, kind):
    program = qc.StageProgram(qc.WholeFileReader(), [name], bytes, on_error="skip")
    items, cause = run(program)
    assert items == [] and type(cause) is kind
    names = qc.FIFOQueue(-1, [str])
    names.enqueue(np.array(["a", "b"]))
    items, cause = run(qc.StageProgram(qc.WholeFileReader(), names, bytes, on_error="skip"))
    assert items == [] and type(cause) is InvalidArgumentError


# Limits


@pytest.mark.parametrize("limit", [0, 1, 4, 5, 6])
def test_one_more_than_may_be(tmp_path, limit):
    """The error of that very record, with a note; what came before it is delivered."""
    path = tmp_path / "a"
    tfrecord(path, RECORDS, [STARTS[index + 1] - 1 for index in (1, 3, 5, 7, 9)])
    log = tmp_path / "log"
    program = qc.StageProgram(qc.TFRecordReader(), [path], bytes, on_error="skip", max_skips=limit, quarantine=log)
    items, cause = run(program)
    if limit >= 5:
        assert cause is None
        assert program.stats()["skipped"] == len(logged(log)) == 5
        return
    assert items == [RECORDS[index] for index in range(12) if index not in (1, 3, 5, 7, 9) and index < 2 * limit + 1]
    assert type(cause) is ChecksumError
    assert (cause.record, cause.offset) == (2 * limit + 1, STARTS[2 * limit + 1])
    assert f"max_skips={limit}" in cause.__notes__[0]
    assert program.stats()["skipped"] == len(logged(log)) == limit


def test_the_limit_is_of_all_threads_together(tmp_path):
    (tmp_path / "a").write_bytes(bytes(1000))
    program = qc.StageProgram(qc.FixedLengthRecordReader(1), [tmp_path / "a"], refuse, on_error="skip", max_skips=100)
    _, cause = run(program, 4)
    assert type(cause) is PipelineError and "max_skips=100" in cause.__notes__[0]
    assert program.stats()["skipped"] == 100


def test_counts_go_on_in_a_second_run(tmp_path):
    (tmp_path / "a").write_bytes(b"aab")
    work = [tmp_path / "a"]
    program = qc.StageProgram(
        qc.FixedLengthRecordReader(1), work, lambda one: one if one == b"a" else refuse(one), on_error="skip"
    )
    assert run(program)[0] == [b"a", b"a"]
    work[:] = [tmp_path / "a"]
    program._reader._iterator = None  # the list from its beginning
    assert run(program)[0] == [b"a", b"a"]
    assert counts_of(program) == stats(4, 2, 0, 2)


def test_every_record_is_accounted_for(tmp_path):
    path = tmp_path / "a"
    tfrecord(path, RECORDS * 20, [tfrecords.places(RECORDS * 20)[index + 1] - 1 for index in range(0, 240, 7)])
    reader = qc.TFRecordReader()
    program = qc.StageProgram(reader, [path], lambda one: refuse(one) if one[:1] == b"E" else one, on_error="skip")
    items, _ = run(program, 4)
    counts = program.stats()
    assert reader.num_records_produced() == 240 == counts["records"] + counts["skipped"]
    assert len(items) == counts["records"]


@given(data=st.data())
@settings(max_examples=60, deadline=None)
def test_any_damage_to_tfrecords(tmp_path_factory, data):
    """As the plain reader of the format sees it: up to a damaged length, without the records that are damaged."""
    folder = tmp_path_factory.mktemp("files")
    expected, names = [], []
    skipped = files = 0
    for number in range(data.draw(st.integers(1, 4))):
        records = data.draw(st.lists(st.binary(max_size=20), max_size=6))
        content = bytearray(tfrecords.stream(records))
        flips = data.draw(st.lists(st.integers(0, max(len(content) - 1, 0)), max_size=3)) if content else []
        for place in flips:
            content[place] ^= 1 << data.draw(st.integers(0, 7))
        content = content[: data.draw(st.integers(0, len(content)) | st.just(len(content)))]
        (folder / str(number)).write_bytes(content)
        names.append(folder / str(number))
        position = 0
        while position < len(content):
            _, fault = tfrecords.read(bytes(content[position:]))
            good, _ = tfrecords.read(bytes(content[position:]))
            expected += [one for _, _, one in good]
            if fault is None:
                break
            position += fault.offset
            length = int.from_bytes(content[position : position + 8], "little")
            head = bytes(content[position : position + 12])
            if fault.error == "ChecksumError" and head == tfrecords.header(length):
                skipped += 1
                position += 16 + length
            else:
                files += 1
                break
    program = qc.StageProgram(qc.TFRecordReader(), names, bytes, on_error="skip")
    threads = data.draw(st.sampled_from([1, 3]))
    items, cause = run(program, threads)
    assert cause is None
    assert (items if threads == 1 else sorted(items)) == (expected if threads == 1 else sorted(expected))
    counts = program.stats()
    assert (counts["records"], counts["skipped"], counts["skipped_files"]) == (len(expected), skipped, files)


# Options, and how it shows


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"on_error": "ignore"}, "on_error must be"),
        ({"max_skips": 3}, "max_skips is of use only"),
        ({"quarantine": "log"}, "quarantine is of use only"),
        ({"on_error": "skip", "max_skips": -1}, "max_skips must be"),
        ({"on_error": "skip", "quarantine": 7}, "quarantine must be a path"),
    ],
)
def test_options_that_do_not_fit(options, words):
    with pytest.raises(InvalidArgumentError, match=words):
        qc.StageProgram(qc.IdentityReader(), ["a"], **options)


def test_a_log_that_cannot_be_written(tmp_path):
    with pytest.raises(NotAFileError):
        qc.StageProgram(qc.IdentityReader(), ["a"], on_error="skip", quarantine=tmp_path)


def test_a_log_that_fails_ends_the_program(tmp_path):
    (tmp_path / "a").write_bytes(b"a")
    program = qc.StageProgram(qc.WholeFileReader(), [tmp_path / "a"], refuse, on_error="skip", quarantine="/dev/full")
    _, cause = run(program)
    assert isinstance(cause, OSError) and cause.path == "/dev/full"
    assert type(cause.__cause__) is PipelineError


def test_it_shows():
    assert repr(qc.StageProgram(qc.IdentityReader(), ["a"], on_error="skip")).endswith("['a'], on_error='skip')")
    assert repr(qc.StageProgram(qc.IdentityReader(), ["a"])).endswith("['a'])")


# Readers, which are called again after an error


def read_all(reader, work):
    """Return the values that a reader gives, and in their places its errors."""
    results = []
    while True:
        try:
            results.append(reader.read(work)[1])
        except OutOfRangeError:
            return results
        except QueueCoreError as error:
            results.append((type(error), error.record, error.offset))


@pytest.mark.parametrize("record", [0, 5, 10, 11])
@pytest.mark.parametrize("byte", [0, 3, 7, 8, 11])
@pytest.mark.parametrize("word", ["", "GZIP"])
def test_the_next_record_after_a_damaged_length(tmp_path, record, byte, word):
    path = tmp_path / "a"
    data = tfrecord(path, RECORDS, [STARTS[record] + byte])
    if word:
        path.write_bytes(gzip.compress(data))
    reader = qc.TFRecordReader(word, resync=True)
    fault = (ChecksumError, record, STARTS[record])
    assert read_all(reader, [path]) == [*RECORDS[:record], fault, *RECORDS[record + 1 :]]
    assert reader.num_work_units_completed() == 1
    program = qc.StageProgram(
        qc.TFRecordReader(word, resync=True), [path] * 2, bytes, on_error="skip", quarantine=tmp_path / "log"
    )
    items, cause = run(program)
    assert cause is None
    assert items == (RECORDS[:record] + RECORDS[record + 1 :]) * 2
    assert counts_of(program) == stats(22, 2)
    assert logged(tmp_path / "log") == [entry(path, STARTS[record], record, "ChecksumError")] * 2


def test_the_next_record_is_far_away(tmp_path):
    """Behind more bytes than a block of the reader has; the numbers of records go on."""
    records = [b"a" * 10, np.random.default_rng(0).bytes(3_000_000), b"c", b"d"]
    starts = tfrecords.places(records)
    path = tmp_path / "a"
    tfrecord(path, records, [starts[1], starts[4] - 1])
    assert read_all(qc.TFRecordReader(resync=True), [path]) == [
        records[0],
        (ChecksumError, 1, starts[1]),
        b"c",
        (ChecksumError, 3, starts[3]),
    ]


def test_no_next_record(tmp_path):
    paths = [tmp_path / name for name in "abc"]
    paths[0].write_bytes(b"this is no TFRecord file, but a text that is long enough")
    paths[1].write_bytes(tfrecords.stream(RECORDS[:3]) + tfrecords.header(1 << 40) + b"rest")
    paths[2].write_bytes(tfrecords.stream(RECORDS[:3])[:-2])
    got = read_all(qc.TFRecordReader(resync=True), paths)
    assert [one[0].__name__ if isinstance(one, tuple) else one for one in got] == [
        "ChecksumError",
        *RECORDS[:3],
        "RecordTooLargeError",
        *RECORDS[:2],
        "TruncatedRecordError",
    ]


@given(data=st.data())
@settings(max_examples=60, deadline=None)
def test_any_damage_to_lengths_loses_no_other_record(tmp_path_factory, data):
    records = data.draw(st.lists(st.binary(max_size=20), min_size=1, max_size=8))
    bad = data.draw(st.sets(st.integers(0, len(records) - 1)))
    starts = tfrecords.places(records)
    path = tmp_path_factory.mktemp("files") / "a"
    tfrecord(path, records, [starts[index] + data.draw(st.integers(0, 11)) for index in bad])
    most = data.draw(st.integers(1, 5))
    reader, work, results, faults = qc.TFRecordReader(resync=True), [path], [], 0
    while True:
        try:
            results += list(reader.read_up_to(work, most)[1])
        except OutOfRangeError:
            break
        except ChecksumError:
            faults += 1
    assert results == [one for index, one in enumerate(records) if index not in bad]
    assert 0 < faults <= len(bad) if bad else faults == 0


def test_a_reader_goes_on_after_a_damaged_record(tmp_path):
    paths = [tmp_path / name for name in "ab"]
    tfrecord(paths[0], RECORDS, [STARTS[3] - 1, STARTS[8]])
    tfrecord(paths[1], RECORDS)
    reader = qc.TFRecordReader()
    work = [*paths[:1], tmp_path / "missing", paths[1]]
    assert read_all(reader, work) == [
        *RECORDS[:2],
        (ChecksumError, 2, STARTS[2]),
        *RECORDS[3:8],
        (ChecksumError, 8, STARTS[8]),
        (NotFoundError, None, None),
        *RECORDS,
    ]


@pytest.mark.parametrize("limit", [1, 2, 5, 100])
def test_a_reader_of_several_goes_on_too(tmp_path, limit):
    paths = [tmp_path / name for name in "ab"]
    tfrecord(paths[0], RECORDS, [STARTS[3] - 1, STARTS[8]])
    tfrecord(paths[1], RECORDS)
    reader = qc.TFRecordReader()
    work = [*paths[:1], tmp_path / "missing", paths[1]]
    results = []
    while True:
        try:
            results += list(reader.read_up_to(work, limit)[1])
        except OutOfRangeError:
            break
        except (ChecksumError, NotFoundError) as error:
            results.append((type(error), error.record))
    assert results == [
        *RECORDS[:2],
        (ChecksumError, 2),
        *RECORDS[3:8],
        (ChecksumError, 8),
        (NotFoundError, None),
        *RECORDS,
    ]
