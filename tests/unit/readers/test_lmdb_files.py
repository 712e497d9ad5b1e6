"""LMDBReader against the library, byte for byte, and against files that somebody has damaged or made."""

import errno
import os
import pathlib
import pickle
import random
import tracemalloc

import pytest
from helpers.faults import refusals
from helpers.formats import lmdb_files as files
from helpers.formats.lmdb_files import (
    BIG,
    BRANCH,
    DUPFIXED,
    DUPLICATES,
    DUPSORT,
    LEAF,
    LEAF2,
    SUBPAGE,
    TREE,
    child,
    described,
    meta,
    node,
    overflow,
    page,
)
from helpers.process import run_python

import queuecore as qc
from queuecore.errors import DataLossError, OutOfRangeError, QueueCoreError, TruncatedRecordError, UnavailableError

lmdb = pytest.importorskip("lmdb")

VERSIONS = list(files.HEADERS)
PRELOADED = pathlib.Path(files.__file__).with_name("page_size.c")


def read(path, limit=None):
    """The records of a file and the error that ended it; `limit` for each call, one by one without it."""
    reader, work, records = qc.LMDBReader(), [os.fspath(path)], []
    while True:
        try:
            if limit is None:
                records.append(reader.read(work))
            else:
                keys, values = reader.read_up_to(work, limit)
                records += zip(keys.to_list(), values.to_list(), strict=True)
        except OutOfRangeError:
            return records, None
        except QueueCoreError as error:
            assert (error.path, type(error.record)) in ((os.fspath(path), int), (os.fspath(path), type(None)))
            return records, error.with_traceback(None)


# As the library


@pytest.mark.sampled(10)
@pytest.mark.parametrize("seed", range(40))
@pytest.mark.parametrize("kind", files.KINDS)
@pytest.mark.parametrize("version", VERSIONS)
def test_records_of_the_library(tmp_path, version, kind, seed):
    expected = files.written(tmp_path / "a", seed, kind, version)
    assert read(tmp_path / "a") == (expected, None)
    assert read(tmp_path / "a", 1 + seed * 7) == (expected, None)
    if (version, kind) != (1, "values"):  # of which LMDB 1.0 refuses some that it has written
        assert files.library(tmp_path / "a") == expected


@pytest.mark.parametrize("version", VERSIONS)
def test_trees_of_many_levels(tmp_path, version):
    """Also trees of values, whose pages have nodes, or items of one size."""
    options = {"subdir": False, "map_size": 1 << 28, "sync": False, "lib_version": version, "max_dbs": 1}
    with lmdb.open(os.fspath(tmp_path / "a"), **options) as environment:
        with environment.begin(write=True) as transaction:
            for i in range(2000):
                transaction.put(b"%0400d" % i, b"%d" % i)
        assert environment.stat()["depth"] >= 4
    assert read(tmp_path / "a") == ([(b"%0400d" % i, b"%d" % i) for i in range(2000)], None)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("size", [512, 1024, 2048, 8192, 16384, 32768])
def test_pages_of_other_sizes(tmp_path, monkeypatch, size):
    refusals.preload(monkeypatch, tmp_path, PRELOADED)
    monkeypatch.setenv("QC_PAGE_SIZE", str(size))
    code = """
        import pickle, sys
        from helpers.formats import lmdb_files as files
        folder = sys.argv[1]
        for version in files.HEADERS:
            for kind in files.KINDS:
                name = f"{folder}/{version}.{kind}"
                with open(name + ".records", "wb") as file:
                    pickle.dump(files.written(name, 5, kind, version, small=True), file)
    """
    done = run_python(code, tmp_path)
    assert (done.stderr, done.returncode) == ("", 0)
    monkeypatch.undo()
    for version in VERSIONS:
        for kind in files.KINDS:
            name = tmp_path / f"{version}.{kind}"
            expected = pickle.loads(name.with_name(name.name + ".records").read_bytes())
            assert name.read_bytes()[files.HEADERS[version] + 24 :].startswith(size.to_bytes(4, "little"))
            assert len(expected) > 5 and read(name) == (expected, None)


@pytest.mark.parametrize("size", [256, 4096, 1 << 15, 1 << 16])
def test_files_made_page_by_page(tmp_path, size):
    """What the damaged ones below are made of is sound: the library reads it, too."""
    value = random.Random(0).randbytes(3 * size)
    pages = [
        page(2, BRANCH, [child(3), child(4, b"c")], size),
        page(3, LEAF, [node(b"a", b"1"), node(b"b", (5).to_bytes(8, "little"), BIG, len(value))], size),
        page(4, LEAF, [node(b"c", b""), node(b"d", b"x" * 99)], size),
        overflow(5, value, size),
    ]
    (tmp_path / "a").write_bytes(files.file(pages, size))
    expected = [(b"a", b"1"), (b"b", value), (b"c", b""), (b"d", b"x" * 99)]
    assert read(tmp_path / "a") == (expected, None)
    if 256 < size < 1 << 16:
        assert files.library(tmp_path / "a") == expected


def test_pages_at_the_end_that_are_free(tmp_path):
    """LMDB may end a file before them: it never wrote them."""
    (tmp_path / "a").write_bytes(files.file([page(2, LEAF, [node(b"a", b"1")])], last=9))
    assert read(tmp_path / "a") == ([(b"a", b"1")], None)
    assert files.library(tmp_path / "a") == [(b"a", b"1")]


# Damage


def many(number, values, width=0, flags=SUBPAGE | LEAF):
    """A node of a key whose values are a page in the page."""
    inner = page(0, flags, values, 16 + sum(map(len, values)) + 2 * len(values), width)
    return node(b"k", inner, DUPLICATES)


ONE = [node(b"a", b"1")]
TEN = (10).to_bytes(8, "little")
LONG = page(2, LEAF, [node(b"a", b"x" * 3000)])
WRONG = {
    "no magic": (meta(0, 0, described(2), 2, magic=1) + bytes(8192), "page 0 at byte 0 is no meta page"),
    "no meta page": (meta(0, 0, described(2), 2, flags=LEAF) + bytes(8192), "page 0 at byte 0 is no meta page"),
    "another order": (meta(0, 0, described(2), 2, magic=0xDEC0EFBE) + bytes(8192), "another byte order"),
    "another version": (meta(0, 0, described(2), 2, version=2) + bytes(8192), "has version 2 of the format"),
    "a second meta page that is none": (meta(0, 0, described(2), 2) + bytes(8192), "page 1 at byte 4096 is no meta"),
    "a page size that is none": (meta(0, 0, described(2), 2, page_size=4095) + bytes(8192), "a page has 4095 bytes"),
    "a page size that is too large": (meta(0, 0, described(2), 2, page_size=1 << 17), "a page has 131072 bytes"),
    "two page sizes": (
        meta(0, 0, described(2), 2) + meta(1, 1, described(2), 2, page_size=8192) + bytes(8192),
        "a page has 8192 bytes, and the first one 4096",
    ),
    "a root beyond the end": (files.file([page(2, LEAF, ONE)], root=1 << 60), "the last one is 2"),
    "a root that is a meta page": (files.file([page(2, LEAF, ONE)], root=1), "page 1 at byte 4096 and 0 after it"),
    "another number": (files.file([page(7, LEAF, ONE)]), "page 2 at byte 8192 says that it is page 7"),
    "a kind that is none": (files.file([page(2, 0, ONE)]), "isn't of a kind that belongs there"),
    "a leaf of items": (files.file([page(2, LEAF | LEAF2, [b"aa"], width=2)]), "isn't of a kind that belongs there"),
    "a cycle": (files.file([page(2, BRANCH, [child(2)])]), "some come twice"),
    "a page that comes twice": (files.file([page(2, BRANCH, [child(3)] * 9), page(3, LEAF, ONE)]), "some come twice"),
    "too deep": (
        files.file([page(2 + i, BRANCH, [child(3 + i)]) for i in range(40)] + [page(42, LEAF, ONE)]),
        "page 33 at byte 135168 has 31 pages above it",
    ),
    "no nodes": (files.file([page(2, LEAF, [])]), "the list of its nodes ends at 16"),
    "half a node": (
        files.file([page(2, LEAF, ONE).replace(b"\x12\0", b"\x13\0", 1)]),
        "the list of its nodes ends at 19",
    ),
    "too many nodes": (files.file([page(2, LEAF, ONE).replace(b"\x12\0", b"\xfe\xff", 1)]), "has 32759 nodes in 4096"),
    "a node at the end": (
        files.file([page(2, LEAF, ONE).replace((4086).to_bytes(2, "little"), (4090).to_bytes(2, "little"))]),
        "has a node at 4090, beyond its 4096 bytes",
    ),
    "a value that is too long": (files.file([page(2, LEAF, [node(b"a", b"1", 0, 9)])]), "beyond its 4096 bytes"),
    "a node in the list": (
        files.file([LONG.replace(b"\x12\0", b"\x14\0", 1)]),
        "has a node at 0, in the list of its nodes",
    ),
    "nodes that overlap": (
        files.file([LONG[:12] + b"\x14\0" + LONG[14:18] + LONG[16:18] + LONG[20:]]),
        "has a node at 1086 that reaches beyond its 4096 bytes, or into others",
    ),
    "a child beyond the end": (files.file([page(2, BRANCH, [child(1 << 47)])]), "the last one is 2"),
    "a large value beyond the end": (files.file([page(2, LEAF, [node(b"a", TEN, BIG, 5)])]), "page 10 at byte 40960"),
    "a large value that is longer than the file": (
        files.file([page(2, LEAF, [node(b"a", b"\3" + bytes(7), BIG, 1 << 31)]), overflow(3, b"x")]),
        "page 3 at byte 12288 and 524288 after it can't be",
    ),
    "a large value in a leaf": (
        files.file([page(2, LEAF, [node(b"a", b"\3" + bytes(7), BIG, 5)]), page(3, LEAF, ONE)]),
        "can't begin a value of 5 bytes",
    ),
    "a large value in too few pages": (
        files.file([page(2, LEAF, [node(b"a", b"\3" + bytes(7), BIG, 5000)]), overflow(3, b"", pages=1), bytes(4096)]),
        "can't begin a value of 5000 bytes",
    ),
    "many values without the flag": (files.file([page(2, LEAF, [many(2, ONE)])]), "a database without duplicates"),
    "a page in the page that is none": (
        files.file([page(2, LEAF, [node(b"k", bytes(40), DUPLICATES)])], flags=DUPSORT),
        "a node of 40 bytes with many values that is no page",
    ),
    "a page in the page without a head": (
        files.file([page(2, LEAF, [node(b"k", b"123", DUPLICATES)])], flags=DUPSORT),
        "a node of 3 bytes with many values that is no page",
    ),
    "items of no size": (
        files.file([page(2, LEAF, [many(2, [b"ab"], 0, SUBPAGE | LEAF | LEAF2)])], flags=DUPSORT),
        "has values of 0 bytes",
    ),
    "items beyond the node": (
        files.file([page(2, LEAF, [many(2, [b"ab"], 9, SUBPAGE | LEAF | LEAF2)])], flags=DUPSORT),
        "has values of 9 bytes up to 25",
    ),
    "a tree of values without a description": (
        files.file([page(2, LEAF, [node(b"k", b"short", DUPLICATES | TREE)])], flags=DUPSORT),
        "a tree of values that is described by 5 bytes",
    ),
    "a tree of values that is the database": (
        files.file([page(2, LEAF, [node(b"k", described(2), DUPLICATES | TREE)])], flags=DUPSORT),
        "some come twice",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_damage_is_named(tmp_path, case):
    content, what = WRONG[case]
    (tmp_path / "a").write_bytes(content)
    records, error = read(tmp_path / "a")
    assert type(error) is DataLossError and what in str(error)
    assert f"is damaged, or no LMDB environment (record {len(records)}): page " in str(error)
    assert error.record == len(records) and isinstance(error.offset, int)


def every_kind_of_page():
    """The bytes of a file with all kinds of pages, and its records."""
    value = random.Random(0).randbytes(2 * 4096)
    items = [b"%02d" % i for i in range(40)]
    pages = [
        page(2, BRANCH, [child(3), child(4, b"k")]),
        page(3, LEAF, [node(b"a", b"1"), node(b"b", (5).to_bytes(8, "little"), BIG, len(value))]),
        page(
            4,
            LEAF,
            [
                many(4, [b"xx", b"yy"], 2, SUBPAGE | LEAF | LEAF2),
                node(b"l", described(8, DUPFIXED, 2, 2), DUPLICATES | TREE),
            ],
        ),
        overflow(5, value),
        page(8, BRANCH, [child(9), child(10, b"20")]),
        page(9, LEAF | LEAF2, items[:20], width=2),
        page(10, LEAF | LEAF2, items[20:], width=2),
    ]
    records = [(b"a", b"1"), (b"b", value), (b"k", b"xx"), (b"k", b"yy"), *((b"l", item) for item in items)]
    return files.file(pages, flags=DUPSORT | DUPFIXED), records


def test_every_kind_of_page(tmp_path):
    content, expected = every_kind_of_page()
    (tmp_path / "a").write_bytes(content)
    assert read(tmp_path / "a") == (expected, None)
    assert files.library(tmp_path / "a") == expected


def base(folder, version, kind):
    """A file of the library of some pages, and the records in it."""
    for seed in range(200):
        path = folder / f"{kind}{seed}"
        records = files.written(path, seed, kind, version)
        if 20_000 < path.stat().st_size < 60_000:
            return path.read_bytes(), records
    raise AssertionError("no seed gives a file of that size")


def mutated(rng, content, page_size=4096):
    content = bytearray(content)
    for _ in range(rng.choice([1, 1, 2, 5])):
        at = rng.randrange(len(content))
        if rng.random() < 0.7:  # heads of pages, and the nodes at their ends
            at = at - at % page_size + rng.choice([rng.randrange(200), page_size - 1 - rng.randrange(200)])
        content[at % len(content)] = rng.choice([0, 1, 255, rng.randrange(256)])
    if rng.random() < 0.1:
        del content[rng.randrange(len(content)) :]
    return bytes(content)


@pytest.mark.thorough
@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("count", [1000, pytest.param(30_000, marks=pytest.mark.thorough)])
@pytest.mark.watchdog(600)
def test_no_change_of_bytes_does_harm(tmp_path, version, count):
    """Records or an error: never more bytes of values than the file has, nor memory than a few times that."""
    rng, path = random.Random(count), tmp_path / "a"
    sound, kinds = [base(tmp_path, version, kind) for kind in files.KINDS] + [every_kind_of_page()], set()
    tracemalloc.start()
    try:
        for _ in range(count):
            content = mutated(rng, rng.choice(sound)[0])
            path.write_bytes(content)
            tracemalloc.reset_peak()
            before = tracemalloc.get_traced_memory()[0]
            records, error = read(path, 50)
            assert tracemalloc.get_traced_memory()[1] - before < 4 * len(content) + (1 << 20)
            assert sum(len(value) for _, value in records) <= len(content)
            kinds.add(type(error))
            del records
    finally:
        tracemalloc.stop()
    assert kinds == {type(None), DataLossError, TruncatedRecordError}


def check_cut(path, content, expected, sizes):
    for size in sizes:
        path.write_bytes(content[:size])
        records, error = read(path, 50)
        assert records == expected[: len(records)]
        if error is None:
            assert size == 0 or records == expected
        else:
            assert type(error) is (TruncatedRecordError if size >= 192 else DataLossError)


@pytest.mark.parametrize("kind", files.KINDS)
@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("step", [64 * 37, pytest.param(64, marks=pytest.mark.thorough)])
def test_cut_at_each_64th_byte(tmp_path, version, kind, step):
    content, expected = base(tmp_path, version, kind)
    check_cut(tmp_path / "cut", content, expected, range(0, len(content), step))


def test_a_small_file_cut_at_each_64th_byte(tmp_path):
    content, expected = every_kind_of_page()
    check_cut(tmp_path / "cut", content, expected, range(0, len(content) + 64, 64))


# Calls of the system that fail


@pytest.mark.parametrize("strike", [4, 5, 6, 8, 30, 100])
def test_ctrl_c_loses_no_record(tmp_path, monkeypatch, strike):
    """Wherever it comes: the next call goes on with the record after the last one that was returned."""
    expected = files.written(tmp_path / "a", 3, "plain", 0)
    pread, calls = os.pread, []

    def struck(fd, size, offset):
        calls.append(offset)
        if len(calls) == strike:
            raise KeyboardInterrupt
        return pread(fd, size, offset)

    monkeypatch.setattr(os, "pread", struck)
    reader, work = qc.LMDBReader(), [tmp_path / "a"]
    results, struck_at = [], []
    while True:
        try:
            keys, values = reader.read_up_to(work, 7)
            results += zip(keys.to_list(), values.to_list(), strict=True)
        except KeyboardInterrupt:
            struck_at.append(len(results))
        except OutOfRangeError:
            break
    assert results == expected and len(struck_at) == 1
    assert reader.num_records_produced() == len(results) and reader.num_work_units_completed() == 1


def test_a_disk_that_fails(tmp_path, monkeypatch):
    (tmp_path / "a").write_bytes(
        files.file([page(2, BRANCH, [child(3), child(4)]), page(3, LEAF, ONE), page(4, LEAF, ONE)])
    )
    pread = os.pread

    def failing(fd, size, offset):
        if offset == 4 * 4096:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return pread(fd, size, offset)

    monkeypatch.setattr(os, "pread", failing)
    records, error = read(tmp_path / "a")
    assert records == [(b"a", b"1")] and type(error) is UnavailableError
    assert (error.errno, error.record, error.offset, error.stage) == (errno.EIO, 1, 4 * 4096, "read")


def test_a_file_that_grows_while_it_is_opened(tmp_path, monkeypatch):
    """The pages of a transaction that was committed between the first look at its size and the meta pages are there."""
    path = tmp_path / "a"
    path.write_bytes(files.file([page(2, LEAF, ONE)]))
    fstat, looks = os.fstat, []

    def growing(fd):
        status = fstat(fd)
        if not looks:
            path.write_bytes(files.file([page(2, LEAF, ONE), page(3, LEAF, [node(b"b", b"2")])], root=3))
        looks.append(fd)
        return status

    monkeypatch.setattr(os, "fstat", growing)
    assert read(path) == ([(b"b", b"2")], None)
