"""Traced functions over many rows at once: arrays of several shapes, and parts of arrays."""

import numpy as np
import pytest

from queuecore.data import Dataset, Options

COUNT = 700
FUNCTIONS = {
    "a number of each row": lambda x, v, n: x * n,
    "numbers alone": lambda x, v, n: n * 2 + n // 3,
    "rows and a vector": lambda x, v, n: x + v,
    "columns and a vector": lambda x, v, n: x.T - v[:3],
    "two vectors": lambda x, v, n: v[:, None] * v[None, :],
    "a vector and a constant": lambda x, v, n: v[:, None] + np.arange(5, dtype=np.float32),
    "constants by row and column": lambda x, v, n: x * np.float32([[1], [2], [3]]) + np.arange(4, dtype=np.float32),
    "a lone constant array": lambda x, v, n: n + np.arange(3),
    "a slice": lambda x, v, n: x[1:, ::2],
    "a slice, changed": lambda x, v, n: x[1:, 1:3] * 2 + 1,
    "backwards": lambda x, v, n: x[::-1, ::-1],
    "transposed": lambda x, v, n: x.T,
    "an item": lambda x, v, n: x[2, 1] + v[0],
    "one row and all": lambda x, v, n: x[0] + x,
    "chosen": lambda x, v, n: np.where(v > 1, x, n),
    "more axes": lambda x, v, n: x[None, :, None, :] + v[:, None, None, None],
    "several results": lambda x, v, n: (x[0] * n, v, n + 1, x + v),
    "results of results": lambda x, v, n: ((y := x * v)[1] + y[:, 1:2], y.T),
}


@pytest.fixture(scope="module")
def rows():
    state = np.random.default_rng(1)
    x = state.standard_normal((COUNT, 3, 4)).astype(np.float32)
    return x, state.integers(-3, 3, (COUNT, 4)).astype(np.int32), np.arange(COUNT)


@pytest.mark.parametrize("shuffled", [False, True])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_what_numpy_gives_row_by_row(rows, name, shuffled):
    function = FUNCTIONS[name]
    order = np.arange(COUNT)
    ds = Dataset.from_tensor_slices(rows)
    if shuffled:
        ds = ds.shuffle(COUNT, 7, False)
        order = np.array([int(n) for _, _, n in ds])
    expected = [function(*(part[i] for part in rows)) for i in order]
    for batch, threads in [(1, 1), (7, 2), (300, 1)]:
        made = ds.map(function).batch(batch)
        assert "Python  map" not in made.plan()
        batches = [
            tuple(np.array(part) for part in (parts if type(parts) is tuple else (parts,)))
            for parts in made.with_options(Options(num_threads=threads))
        ]
        for at, want in enumerate(zip(*expected, strict=True) if type(expected[0]) is tuple else [expected]):
            got, wanted = np.concatenate([parts[at] for parts in batches]), np.array(want)
            assert got.dtype == wanted.dtype
            np.testing.assert_array_equal(got, wanted)
