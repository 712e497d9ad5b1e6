"""Ragged and sparse arrays: what they give, and what they refuse."""

from __future__ import annotations

import gc
import pickle
import weakref

import numpy as np
import pytest

from queuecore.errors import DtypeError, InvalidArgumentError
from queuecore.ragged import Ragged, Sparse, strings

ROWS = [[1, 2], [], [3], [4, 5, 6]]
WORDS = [b"to", b"", b"\0be\0", b"or"]


def numbers(dtype=np.int64):
    return Ragged.from_list(ROWS, np.int32) if dtype is np.int32 else Ragged.from_list(ROWS)


def test_rows_of_numbers():
    rows = numbers()
    assert len(rows) == 4
    assert rows.to_list() == ROWS
    assert [row.tolist() for row in rows] == ROWS
    assert rows[-1].tolist() == [4, 5, 6] and rows[1].size == 0
    assert rows.dtype == np.int64 and not rows.is_bytes
    assert rows.row_lengths().tolist() == [2, 0, 1, 3]
    assert rows.nbytes == 6 * 8 + 5 * 8
    assert rows[0].base is not None  # a view
    rows[0][1] = 20
    assert rows.values[1] == 20


def test_strings_of_bytes():
    rows = Ragged.from_list(WORDS)
    assert rows.is_bytes and rows.dtype == np.dtype("S")
    assert rows.to_list() == WORDS
    assert list(rows) == WORDS
    assert [rows[i] for i in range(-4, 4)] == WORDS * 2
    assert rows.to_object().tolist() == WORDS and rows.to_object().dtype == object
    assert rows.values.view(np.uint8).tobytes() == b"".join(WORDS)
    assert Ragged.from_list([]).to_list() == []


def test_bytes_are_told_from_numbers_by_their_dtype():
    made = Ragged(np.frombuffer(b"abc", np.uint8), [0, 1, 3])
    assert not made.is_bytes
    assert made[1].tolist() == [98, 99]
    assert Ragged(np.frombuffer(b"abc", "S1"), [0, 1, 3])[1] == b"bc"


def test_rows_of_rows():
    nested = Ragged(numbers(), [0, 1, 1, 4])
    assert nested.to_list() == [[[1, 2]], [], [[], [3], [4, 5, 6]]]
    assert nested[2][2].tolist() == [4, 5, 6]
    assert nested[2:].to_list() == [[[], [3], [4, 5, 6]]]
    assert nested[[2, 0]].to_list() == [[[], [3], [4, 5, 6]], [[1, 2]]]
    assert nested.dtype == np.int64
    assert [type(row) for row in nested.to_object()] == [Ragged] * 3
    pairs = Ragged(np.arange(12).reshape(6, 2), [0, 2, 6])
    assert pairs[0].tolist() == [[0, 1], [2, 3]]


def test_strings_in_the_shape_of_an_array():
    words = Ragged.from_list([b"%d" % i for i in range(12)])
    made = strings(words.values, words.row_splits, (2, 3, 2))
    assert made.to_list() == np.array(words.to_list(), object).reshape(2, 3, 2).tolist()
    assert made[1][2][0] == b"10"
    assert strings(np.empty(0, "S1"), np.zeros(1, np.int64), (0, 3)).to_list() == []
    assert strings(np.empty(0, "S1"), np.zeros(1, np.int64), (3, 0)).to_list() == [[], [], []]


@pytest.mark.parametrize("make", [numbers, lambda: Ragged.from_list(WORDS), lambda: Ragged(numbers(), [0, 1, 1, 2, 4])])
def test_every_slice_is_that_of_a_list(make):
    rows = make()
    expected = rows.to_list()
    places = [None, *range(-6, 7)]
    for start in places:
        for stop in places:
            for step in (None, 1, 2, -1, -3):
                assert rows[start:stop:step].to_list() == expected[start:stop:step]
    assert rows[1:3].row_splits[0] == 0
    assert rows[[3, 0, 0, -1]].to_list() == [expected[i] for i in (3, 0, 0, 3)]
    assert rows[np.array([False, True, True, False])].to_list() == expected[1:3]
    assert rows[[]].to_list() == []
    for index in (4, -5):
        with pytest.raises(IndexError):
            rows[index]
    with pytest.raises(IndexError):
        rows[[4]]


def test_slices_are_views():
    made = Ragged.from_list(WORDS)
    assert np.shares_memory(made[1:].values, made.values)
    assert numbers()[1:].row_splits.dtype == np.int64
    assert Ragged([1, 2], np.array([0, 2], np.int32))[:1].row_splits.dtype == np.int32
    assert Ragged([1, 2], np.array([0, 2], np.int16)).row_splits.dtype == np.int64


@pytest.mark.parametrize("splits", [[], [1, 3], [0, 2], [0, 4], [0, 2, 1, 3], [[0, 3]], 3, [0, -1, 3]])
def test_splits_that_do_not_fit(splits):
    with pytest.raises(InvalidArgumentError):
        Ragged(np.arange(3), np.array(splits, np.int64))


def test_what_is_no_ragged_array():
    with pytest.raises(DtypeError):
        Ragged([1, 2], [0.0, 2.0])
    with pytest.raises(InvalidArgumentError):
        Ragged(5, [0, 1])
    with pytest.raises(InvalidArgumentError):
        Ragged(np.zeros((2, 2), "S1"), [0, 2])
    with pytest.raises(DtypeError):
        Ragged.from_list([b"x", [1]])
    with pytest.raises(InvalidArgumentError):
        numbers()[np.array([[0]])]


def test_equality_of_content():
    made = numbers()
    assert made.equals(numbers())
    assert made.equals(Ragged(made.values, made.row_splits.astype(np.int32)))
    others = [numbers(np.int32), made[:3], Ragged(made, [0, 4]), made.to_list(), Ragged.from_list(WORDS)]
    assert not any(made.equals(one) or (isinstance(one, Ragged) and one.equals(made)) for one in others)
    assert Ragged(made, [0, 4]).equals(Ragged(numbers(), [0, 4]))


def test_representation_and_pickle():
    for made in (numbers(), Ragged.from_list(WORDS), Ragged(numbers(), [0, 4])):
        assert pickle.loads(pickle.dumps(made)).equals(made)
        assert repr(made.to_list()) in repr(made)
    assert repr(Ragged.from_list([b"x" * 2000])) == "Ragged(1 rows, dtype=bytes)"


def test_sparse_arrays():
    sparse = Sparse([[0, 1], [2, 0]], np.array([7, 8], np.float32), [3, 2])
    assert sparse.to_dense().tolist() == [[0, 7], [0, 0], [8, 0]]
    assert sparse.to_dense(-1).tolist() == [[-1, 7], [-1, -1], [8, -1]]
    assert sparse.dtype == np.float32 and sparse.to_dense().dtype == np.float32
    assert sparse.nbytes == 32 + 8 + 16
    words = Sparse([[1], [3]], Ragged.from_list([b"x", b"y"]), [4])
    assert words.to_dense().tolist() == [b"", b"x", b"", b"y"]
    assert words.dtype == np.dtype("S")
    assert words.equals(pickle.loads(pickle.dumps(words))) and sparse.equals(pickle.loads(pickle.dumps(sparse)))
    assert not sparse.equals(words)
    assert not sparse.equals(Sparse(sparse.indices, sparse.values, [3, 3]))
    assert repr(sparse) == "Sparse([[0, 1], [2, 0]], array([7., 8.], dtype=float32), [3, 2])"


@pytest.mark.parametrize("place", [[3, 0], [0, 2], [-1, 0]])
def test_indices_outside_show_only_when_they_matter(place):
    made = Sparse([place], [1], [3, 2])
    with pytest.raises(InvalidArgumentError):
        made.to_dense()


@pytest.mark.parametrize("parts", [([[0]], [1, 2], [3]), ([[0, 1]], [1], [3]), ([0], [1], [3]), ([[0]], [1], 3)])
def test_sparse_parts_that_do_not_fit(parts):
    with pytest.raises(InvalidArgumentError):
        Sparse(*parts)


# ---- the Arrow C data interface --------------------------------------------------------------------------------------


@pytest.mark.doors
@pytest.mark.parametrize("split", [np.int32, np.int64])
def test_arrow_reads_rows_in_place(split):
    pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed: make doors")
    words = Ragged.from_list(WORDS)
    words = Ragged(words.values, words.row_splits.astype(split))
    result = pa.array(words)
    assert result.type == (pa.large_binary() if split is np.int64 else pa.binary())
    assert result.to_pylist() == WORDS
    result.validate(full=True)
    assert result.buffers()[2].address == words.values.ctypes.data
    for word in ("i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f2", "f4", "f8"):
        rows = Ragged(np.arange(6).astype(word), np.array([0, 2, 2, 6], split))
        result = pa.array(rows)
        result.validate(full=True)
        assert result.to_pylist() == rows.to_list()
        assert result.values.type.to_pandas_dtype() == np.dtype(word)
        assert result.values.buffers()[1].address == rows.values.ctypes.data
    nested = Ragged(words, np.array([0, 1, 1, 4], split))
    assert pa.array(nested).to_pylist() == [WORDS[:1], [], WORDS[1:]]
    solid = Ragged(np.arange(12, dtype=np.float32).reshape(3, 2, 2), np.array([0, 1, 3], split))
    result = pa.array(solid)
    result.validate(full=True)
    assert result.to_pylist() == [part.tolist() for part in solid]
    assert pa.array(words[1:3]).to_pylist() == WORDS[1:3]
    assert pa.array(words[:0]).to_pylist() == []
    assert pa.array(Ragged(solid.values[:, ::-1], solid.row_splits)).to_pylist()[0] == solid.values[:1, ::-1].tolist()


@pytest.mark.doors
def test_arrow_keeps_the_memory():
    pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed: make doors")
    values = np.arange(1000)
    reference = weakref.ref(values)
    rows = Ragged(values, [0, 10, 1000])
    del values
    got = pa.array(rows)
    child = got.values
    del rows, got
    assert reference() is not None and child[999].as_py() == 999
    del child
    gc.collect()
    assert reference() is None


def test_arrow_capsules_that_nobody_takes():
    values = np.arange(1000)
    reference = weakref.ref(values)
    rows = Ragged(values, [0, 10, 1000])
    del values
    schema, array = Ragged(rows, [0, 2]).__arrow_c_array__()
    assert '"arrow_schema"' in repr(schema) and '"arrow_array"' in repr(array)
    del rows, schema
    assert reference() is not None
    del array
    assert reference() is None


@pytest.mark.parametrize("dtype", [bool, complex, ">i4", object])
def test_what_arrow_has_not(dtype):
    with pytest.raises(DtypeError):
        Ragged(np.zeros(2, dtype), [0, 2]).__arrow_c_array__()


def test_lists_of_lists_of_strings_keep_every_byte():
    flat = Ragged.from_list([[b"a\0", b""], [], [b"\0"]])
    assert flat.to_list() == [[b"a\0", b""], [], [b"\0"]]
    assert flat.values.is_bytes
    deep = [[[b"a\0", b"b"]], [[b"cd", b""]]]  # of one length, too
    assert Ragged.from_list(deep).to_list() == deep
