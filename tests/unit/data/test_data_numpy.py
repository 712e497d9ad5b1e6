"""Rows of .npy files, compared with what numpy.load gives."""

import copy
import itertools
import os
import pickle
import random
import re
import subprocess
import sys
import warnings

import numpy as np
import pytest
from helpers.data.chains import THREADS, apply, chains, dataset, pull, run, threads, write_files
from hypothesis import HealthCheck, given, settings, strategies as st

import queuecore as qc
from queuecore.data import ArraySpec, Dataset, NumpyDataset, Options
from queuecore.errors import InvalidArgumentError, NotFoundError, ResumeMismatchError, SourceChangedError

DTYPES = [
    *("?", "i1", "u1", "<i2", ">i2", "<u2", ">u2", "<i4", ">i4", "<u4", ">u4", "<i8", ">i8", "<u8", ">u8"),
    *("<f2", ">f2", "<f4", ">f4", "<f8", ">f8", "<c8", ">c8", "<c16", ">c16", "S1", "S3", "S40", "<U2", ">U2", "V5"),
    *("<M8[s]", ">m8[us]"),
]
VERSIONS = [(1, 0), (2, 0), (3, 0)]


def array(dtype, shape, order="C", seed=0):
    """An array of any bytes, which all values of the dtype may have."""
    dtype = np.dtype(dtype)
    state = np.random.default_rng(seed)
    nbytes = dtype.itemsize * int(np.prod(shape))
    if dtype.kind == "b":
        values = state.integers(0, 2, nbytes).astype(bool)
    elif dtype.kind == "U":
        values = state.integers(1, 0xD000, nbytes // 4, dtype=np.uint32)
        values = values.astype(values.dtype.newbyteorder(dtype.byteorder)).view(dtype)
    else:
        values = state.integers(0, 256, nbytes, dtype=np.uint8).view(dtype)
    return np.array(values.reshape(shape), order=order)


def save(path, value, version=None):
    with open(path, "wb") as file:
        np.lib.format.write_array(file, value, version=version, allow_pickle=False)
    return path


def same(got, wanted):
    """Whether two arrays are the same to the byte, but for the byte order."""
    wanted = np.asarray(wanted)
    wanted = wanted.astype(wanted.dtype.newbyteorder("="))
    got = np.asarray(got)
    return (got.dtype, got.shape, got.tobytes()) == (wanted.dtype, wanted.shape, wanted.tobytes())


def rows_of(ds, size=7):
    parts = [np.array(batch) for batch in ds.batch(size)]
    return np.concatenate(parts) if parts else None


# ---- values ----------------------------------------------------------------------------------------------------------


@pytest.mark.sampled(6)
@pytest.mark.parametrize("order", "CF")
@pytest.mark.parametrize("dtype", DTYPES)
def test_every_dtype_has_the_values_that_numpy_loads(tmp_path, dtype, order):
    for version, sides in itertools.product(VERSIONS, [(), (3,), (2, 3), (2, 1, 4)]):
        path = save(tmp_path / "a.npy", array(dtype, (23, *sides), order), version)
        loaded = np.load(path)
        ds = NumpyDataset(path)
        assert ds.element_spec == ArraySpec(sides, np.dtype(dtype).newbyteorder("="))
        assert len(ds) == ds.cardinality() == 23
        elements = list(ds)
        assert len(elements) == 23
        assert all(same(one, row) for one, row in zip(elements, loaded, strict=True))
        assert same(rows_of(ds), loaded)


@st.composite
def files(draw):
    """Arrays with rows of one dtype and shape, in either order, of any version of the format."""
    dtype = draw(st.sampled_from(DTYPES))
    sides = tuple(draw(st.lists(st.integers(1, 5), max_size=4)))
    counts = draw(st.lists(st.sampled_from([0, 1, 2, 7, 30, 200]), min_size=1, max_size=4))
    return [
        (array(dtype, (count, *sides), draw(st.sampled_from("CF")), seed), draw(st.sampled_from(VERSIONS)))
        for seed, count in enumerate(counts)
    ]


@pytest.mark.thorough
@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(files(), chains(max_steps=3), st.sampled_from(THREADS))
def test_any_files_come_as_records_of_the_same_bytes(tmp_path_factory, files, ops, number):
    folder = tmp_path_factory.mktemp("files")
    paths = [save(folder / f"{index}.npy", value, version) for index, (value, version) in enumerate(files)]
    loaded = [np.load(path) for path in paths]
    whole = np.concatenate(loaded)
    results = rows_of(threads(NumpyDataset(paths), number))
    assert (results is None and len(whole) == 0) or same(results, whole)
    # The order is that of any other records.
    record = np.dtype((loaded[0].dtype, whole.shape[1:]))
    raw = dataset(write_files(folder, [np.ascontiguousarray(value).tobytes() for value in loaded]), record)
    wanted, error = run(apply(raw, ops), 60)
    assert error is None
    results, error = run(threads(apply(NumpyDataset(paths), ops), number), 60)
    assert error is None
    assert len(results) == len(wanted)
    assert all(same(row, expected) for row, expected in zip(results, wanted, strict=True))


# Long and short columns, several of them in one read, numbers longer than a buffer, many dimensions.
SHAPES = [
    ("<f4", (5000, 3)),
    (">f4", (3, 5000)),
    ("<f8", (40, 7, 50)),
    ("<i2", (300, 2, 3, 4)),
    ("u1", (70_001,)),
    ("u1", (20_001, 2)),
    ("S20000", (4, 3)),
    ("S5000", (9, 2, 2)),
    ("<c16", (1, 4, 5)),
    ("<f8", (2, *[1, 2] * 6)),
    ("<i4", (100, 300)),
]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("order", "CF")
@pytest.mark.parametrize("dtype, shape", SHAPES)
def test_shapes_of_every_sort_by_every_way_of_reading(tmp_path, dtype, shape, order):
    value = array(dtype, shape, order)
    other = array(dtype, (shape[0] // 2 + 1, *shape[1:]), order, 1)
    paths = [save(tmp_path / "a.npy", value), save(tmp_path / "b.npy", other)]
    rows = np.concatenate([value, other])
    ds = NumpyDataset(paths)
    count = len(rows)
    raw = dataset(write_files(tmp_path, [np.ascontiguousarray(rows).tobytes()]), np.dtype((rows.dtype, rows.shape[1:])))
    for size in (1, 64, 1000):
        assert same(rows_of(ds, size), rows)
    ways = {
        "shuffle": lambda ds: ds.shuffle(50, seed=3),
        "large shuffle": lambda ds: ds.shuffle(count, seed=3),
        "permute": lambda ds: ds.permute(seed=3),
        "shard": lambda ds: ds.shard(3, 1),
        "shard of a shuffle": lambda ds: ds.shuffle(100, seed=1).shard(5, 4, uneven="pad"),
        "skip": lambda ds: ds.skip(count // 2).repeat(2),
        "budget": lambda ds: ds.with_options(Options(memory_budget=8 << 20)).shuffle(9, seed=2),
    }
    for name, way in ways.items():
        for number in (1, 3):
            got = rows_of(threads(way(ds), number).take(300), 16)
            wanted = rows_of(way(raw).take(300), 16)
            assert same(got, wanted), name


@pytest.mark.parametrize("order", "CF")
def test_steps_behind_it(tmp_path, order):
    value = array("<i4", (200, 3), order)
    ds = NumpyDataset(save(tmp_path / "a.npy", value))
    assert same(rows_of(ds.map(lambda x: x[1:] // 2 + 1)), value[:, 1:] // 2 + 1)
    assert same(rows_of(ds.filter(lambda x: x[0] % 2 == 0)), value[value[:, 0] % 2 == 0])
    assert same(rows_of(ds.shuffle(20, seed=1).map(lambda x: x * 2).cache()), rows_of(ds.shuffle(20, seed=1)) * 2)
    assert same(rows_of(Dataset.zip(ds, ds.skip(1)).map(lambda a, b: b)), value[1:])
    padded = [np.array(one) for one in ds.padded_batch(200, (5,))]
    assert same(padded[0], np.pad(value, ((0, 0), (0, 2))))
    with iter(ds.batch(50).prefetch_to_device("cpu")) as batches:
        assert same(np.concatenate([np.array(one) for one in batches]), value)


def test_bytes_that_are_neither_false_nor_true_are_true(tmp_path):
    path = save(tmp_path / "a.npy", np.array([True, False, True]))
    path.write_bytes(path.read_bytes()[:-1] + b"\x07")
    assert [one.view(np.uint8).item() for one in map(np.asarray, NumpyDataset(path))] == [1, 0, 1]


def test_arrays_without_rows(tmp_path):
    empty = [save(tmp_path / f"{n}.npy", np.zeros((0, 2), "f4", order=order)) for n, order in enumerate("CF")]
    some = save(tmp_path / "x.npy", np.ones((3, 2), "f4"))
    for paths, count in (empty, 0), ([*empty, some, *empty], 3):
        ds = NumpyDataset(paths)
        assert len(ds) == count and ds.element_spec == ArraySpec((2,), np.dtype("f4"))
        with iter(ds) as it:
            assert len(list(it)) == count
            assert it.stats()["empty_files"] == len(paths) - (count > 0)


def test_bfloat16_is_two_raw_bytes_as_for_numpy(tmp_path):
    made = pytest.importorskip("ml_dtypes").bfloat16
    path = save(tmp_path / "a.npy", np.arange(4).astype(made).view("V2"))
    assert same(rows_of(NumpyDataset(path)), np.load(path))


# ---- headers ---------------------------------------------------------------------------------------------------------


def raw(text, data=b"", version=(1, 0)):
    """A file with this text as its header."""
    text = text.encode("utf8") if isinstance(text, str) else text
    size = len(text).to_bytes(2 if version == (1, 0) else 4, "little")
    return b"\x93NUMPY" + bytes(version) + size + text + data


def test_headers_of_any_length_and_form(tmp_path):
    data = np.arange(6, dtype="<i4").tobytes()
    texts = [
        "{'descr':'<i4','fortran_order':False,'shape':(3,2)}",
        "{'shape': (3L, 2L,), 'fortran_order': False, 'descr': '<i4', }\n",
        "  {'descr': '<i4', 'fortran_order': False, 'shape': (3, 2), }" + " " * 9000 + "\n",
        "{'descr': 'int32', 'fortran_order': False, 'shape': (3, 2)}",
    ]
    for text, version in itertools.product(texts, VERSIONS):
        if "L" in text and version == (3, 0):
            continue
        path = tmp_path / "a.npy"
        path.write_bytes(raw(text, data, version))
        assert rows_of(NumpyDataset(path)).tolist() == [[0, 1], [2, 3], [4, 5]]
        with warnings.catch_warnings(action="ignore"):  # of Python 2
            assert np.load(path).tolist() == [[0, 1], [2, 3], [4, 5]]


def test_files_have_headers_of_their_own_lengths(tmp_path):
    paths = []
    for n in range(40):
        text = "{'descr': '<i4', 'fortran_order': %s, 'shape': (3, 2)}" % (n % 3 == 0) + " " * (n * 37)
        paths.append(tmp_path / f"{n:02}.npy")
        paths[-1].write_bytes(raw(text, np.arange(6 * n, 6 * n + 6, dtype="<i4").tobytes()))
    rows = np.concatenate([np.load(path) for path in paths])
    ds = NumpyDataset(f"{tmp_path}/*.npy")
    assert same(rows_of(ds), rows)
    for made in (
        Dataset.list_files(f"{tmp_path}/*.npy", shuffle=False).flat_map(NumpyDataset),
        Dataset.from_tensor_slices([os.fsencode(path) for path in paths]).interleave(NumpyDataset, 3, 2),
        Dataset.from_tensor_slices([os.fsencode(path) for path in paths]).interleave(lambda x: NumpyDataset(x), 1),
    ):
        assert sorted(x.tobytes() for x in map(np.asarray, made)) == sorted(x.tobytes() for x in rows)
    first = next(iter(Dataset.list_files(f"{tmp_path}/*.npy", shuffle=False).flat_map(NumpyDataset).batch(120)))
    assert same(np.array(first), rows)


VALID = [raw(f"{{'descr': {d!r}, 'fortran_order': {f}, 'shape': (3, 2), }}\n", bytes(range(60))[: 6 * n])
         for d, n in (("<f4", 4), (">i2", 2), ("|S3", 3)) for f in (False, True)]  # fmt: skip


@pytest.mark.thorough
@settings(deadline=None, max_examples=400)
@given(
    st.sampled_from(VALID),
    st.lists(st.tuples(st.integers(0, 80), st.binary(max_size=3), st.integers(0, 3)), max_size=3),
)
def test_what_is_read_of_damaged_files_is_what_numpy_loads(tmp_path_factory, text, changes):
    for at, more, less in changes:
        text = text[:at] + more + text[at + less :]
    path = tmp_path_factory.getbasetemp() / "damaged.npy"
    path.write_bytes(text)
    try:
        ds = NumpyDataset(path)
    except qc.errors.QueueCoreError as error:
        assert error.path == str(path)
        assert error.offset is not None and 0 <= error.offset <= len(text)
        return
    assert same(rows_of(ds), np.load(path)) or np.load(path).dtype.kind == "b"


# ---- places ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("way", ["records", "shuffle", "large shuffle", "shard", "map"])
def test_goes_on_at_every_place(tmp_path, way):
    sizes = [5, 0, 9, 3]
    paths = [save(tmp_path / f"{n}.npy", array(">i4", (size, 3), "CF"[n % 2], n)) for n, size in enumerate(sizes)]
    ways = {
        "records": lambda ds: ds.repeat(2).batch(4),
        "shuffle": lambda ds: ds.shuffle(4, seed=1).repeat(2),
        "large shuffle": lambda ds: ds.repeat(2).shuffle(30, seed=1).batch(3),
        "shard": lambda ds: ds.shard(2, 1).repeat(3),
        "map": lambda ds: ds.map(lambda x: x + 1).batch(5).repeat(2),
    }

    def make():
        return ways[way](NumpyDataset(paths))

    elements = [np.array(x) for x in make()]
    with iter(make()) as it:
        for at in range(len(elements) + 1):
            with iter(make()) as again:
                again.load_state_dict(it.state_dict())
                rest = [np.array(x) for x in again]
            assert len(rest) == len(elements) - at
            assert all(same(one, other) for one, other in zip(rest, elements[at:], strict=True))
            next(it, None)


def test_a_place_belongs_to_its_files(tmp_path):
    path = save(tmp_path / "a.npy", np.arange(12, dtype="i4").reshape(6, 2))
    with iter(NumpyDataset(path)) as it:
        next(it)
        state = it.state_dict()
    save(path, np.arange(12, dtype="i4").reshape(6, 2) + 1)
    os.utime(path, ns=(10**18, 10**18))
    with iter(NumpyDataset(path)) as it, pytest.raises(ResumeMismatchError, match="a.npy"):
        it.load_state_dict(state)
    save(path, np.arange(12, dtype="i4").reshape(4, 3))
    with iter(NumpyDataset(path)) as it, pytest.raises(ResumeMismatchError, match="another dataset"):
        it.load_state_dict(state)


def test_copies_and_pickles(tmp_path):
    paths = [save(tmp_path / f"{n}.npy", array("<f4", (5, 2), "CF"[n % 2], n)) for n in range(3)]
    ds = NumpyDataset(paths).shuffle(4, 1, False)
    wanted = rows_of(ds)
    for other in (pickle.loads(pickle.dumps(ds)), copy.copy(ds), copy.deepcopy(ds)):
        assert same(rows_of(other), wanted)
        assert other.element_spec == ds.element_spec and len(other) == 15


def test_what_it_says_of_itself(tmp_path):
    ds = NumpyDataset(save(tmp_path / "a.npy", np.zeros((2, 3), "f4")), 2)
    assert "NumpyDataset" in repr(ds)
    assert "12 bytes a record" in ds.plan()
    assert "native" in ds.plan()


# ---- files that change after their headers were read -----------------------------------------------------------------


@pytest.mark.parametrize("order", "CF")
def test_a_file_that_is_another_one_by_then(tmp_path, order):
    first = save(tmp_path / "a.npy", array("i4", (4, 3)))
    path = save(tmp_path / "b.npy", array("i4", (6, 3), order))
    content = path.read_bytes()

    def met():
        results, error = run(ds)
        assert len(results) == 4  # those of the file before it
        return error

    ds = NumpyDataset([first, path])
    assert len(run(ds)[0]) == 10
    for other in (
        np.zeros((6, 3), "f4", order=order),
        np.zeros((5, 3), "i4", order=order).repeat(2, axis=0),
        np.zeros((6, 3), "i4", order="C" if order == "F" else "F"),
    ):
        save(path, other)
        error = met()
        assert type(error) is SourceChangedError
        assert error.path == str(path)
    path.write_bytes(content[:-1])
    error = met()
    assert type(error) is SourceChangedError
    assert (error.path, error.offset) == (str(path), len(content) - 1)
    assert re.search(f"had {len(content)} bytes", str(error))
    path.write_bytes(b"")
    assert type(met()) is SourceChangedError
    path.unlink()
    assert type(met()) is NotFoundError
    path.mkdir()
    assert type(met()) is qc.errors.NotAFileError
    path.rmdir()
    path.write_bytes(content + b"more")  # what is appended is no change
    results, error = run(ds)
    assert (len(results), error) == (10, None)
    path.write_bytes(b"")
    assert len(run(ds.with_options(Options(on_error="skip")))[0]) == 4


@pytest.mark.parametrize("order", "CF")
def test_a_file_that_is_cut_while_it_is_read(tmp_path, order):
    value = array("u1", (200_000, 64), order)
    first = save(tmp_path / "a.npy", value[:10])
    path = save(tmp_path / "b.npy", value)
    with iter(threads(NumpyDataset([first, path]), 1)) as it:
        for number in range(1000):
            assert same(next(it), value[number if number < 10 else number - 10])
        os.truncate(path, 128 + 150_000 * (64 if order == "C" else 63))
        got, error = pull(it)
    assert type(error) is SourceChangedError
    assert error.path == str(path)
    assert error.record == len(got) + 990
    assert error.offset == path.stat().st_size if order == "C" else error.offset > path.stat().st_size


# ---- memory ----------------------------------------------------------------------------------------------------------

READS_A_PART = """
import resource, sys
import numpy as np
from queuecore.data import NumpyDataset, Options

path, rows, columns = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
text = f"{{'descr': '<f4', 'fortran_order': True, 'shape': ({rows}, {columns}), }}\\n".encode()
with open(path, "wb") as file:  # nearly all of it is a hole
    file.write(b"\\x93NUMPY\\x01\\x00" + len(text).to_bytes(2, "little") + text)
    start = file.tell()
    file.truncate(start + rows * columns * 4)
    for column in range(columns):
        file.seek(start + (column * rows + rows - 1) * 4)
        file.write(np.float32(column).tobytes())
# A batch through all that is loaded when it is first used.
ds = NumpyDataset(path, num_parallel_reads=1).batch(64)
next(iter(ds))
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
with iter(NumpyDataset(path, num_parallel_reads=1).skip(rows - 1000).batch(64)) as it:
    for batch in it:
        last = np.array(batch[-1])
    read = it.stats()["bytes_read"]
assert last.tolist() == list(range(columns))
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before, read)
"""


def test_columns_are_read_in_pieces(tmp_path):
    rows, columns = 1 << 20, 256  # 1 GiB
    words = [sys.executable, "-c", READS_A_PART, str(tmp_path / "a.npy"), str(rows), str(columns)]
    told = subprocess.run(words, capture_output=True, text=True, check=True, timeout=300)
    grown, read = map(int, told.stdout.split())
    assert grown < 32 << 10  # KiB
    assert read < 4 * 1000 * columns * 4 + 10_000


def test_columns_are_read_once_in_order(tmp_path):
    value = array("<f4", (20_000, 50), "F")
    path = save(tmp_path / "a.npy", value)
    with iter(threads(NumpyDataset(path).batch(1000), 1)) as it:
        assert same(np.concatenate([np.array(one) for one in it]), value)
        assert it.stats()["bytes_read"] < 1.1 * value.nbytes


# ---- arguments -------------------------------------------------------------------------------------------------------


def test_arguments(tmp_path):
    path = save(tmp_path / "a.npy", np.zeros(3))
    for names in ([], "", "nul\0.npy", {str(path)}, 3, f"{tmp_path}/*.txt"):
        with pytest.raises(InvalidArgumentError):
            NumpyDataset(names)
    for number in (0, -3, 2.5, "2"):
        with pytest.raises(InvalidArgumentError, match="num_parallel_reads"):
            NumpyDataset(path, number)
    assert len(NumpyDataset([path, os.fsencode(path), str(path)], num_parallel_reads=2)) == 9


def test_many_dimensions(tmp_path):
    value = array("i2", (3, *[1] * 28, 2, 2, 2), "F")  # as many as all versions of NumPy have, with that of a batch
    assert all(same(one, row) for one, row in zip(NumpyDataset(save(tmp_path / "a.npy", value)), value, strict=True))
    state = random.Random(1)
    for _ in range(10):
        shape = [state.choice([1, 1, 2, 3]) for _ in range(9)]
        value = array("u1", shape, "F")
        assert same(rows_of(NumpyDataset(save(tmp_path / "a.npy", value)), 2), value)
