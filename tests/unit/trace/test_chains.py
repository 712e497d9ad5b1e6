"""Chains of float32 operations with constants: bit for bit what NumPy gives, one operation after the other."""

import itertools
import operator

import numpy as np
import pytest

from queuecore._ops.chain import NUMBERS
from queuecore.data import Dataset

# By the number of their kind in kernels/chains.hpp.
KINDS = [
    operator.add,
    operator.sub,
    lambda x, c: c - x,
    operator.mul,
    operator.truediv,
    lambda x, c: c / x,
]
SPECIAL = [0, -0.0, 1, -1, np.inf, -np.inf, np.nan, -np.nan, 1e-45, -1e-40, 3e38, -3e38]
CONSTANTS = [2, -0.1, 0, -0.0, 1 / 255, 3e38, 1e-45]
CODES = ["i1", "u1", "i2", "u2", "i4", "f4"]
COUNTS = [1, 7, 63, 64, 65, 200, 3000]  # vectors go by 64


def items_of(code, count):
    generator = np.random.default_rng(count)
    if code == "f4":
        return np.resize(np.concatenate([generator.standard_normal(41), SPECIAL]).astype(code), count)
    limits = np.iinfo(code)
    items = generator.integers(limits.min, limits.max, count, code, endpoint=True)
    items[:2] = [limits.min, limits.max][:count]
    return items


def same(made, expected):
    """Whether floats have the same bits, NaNs too."""
    return made.dtype == expected.dtype == np.float32 and made.tobytes() == expected.tobytes()


def links_of(length):
    """Chains in which each kind follows each other, with all constants."""
    pairs = list(itertools.product(range(len(KINDS)), map(np.float32, CONSTANTS)))
    return [[pairs[(start + 5 * at) % len(pairs)] for at in range(length)] for start in range(len(pairs))]


@pytest.mark.parametrize("code", CODES)
@pytest.mark.parametrize("widest", [False, True])
def test_every_loop(code, widest):
    run_chain = pytest.importorskip("queuecore._core.testing.steps").run_chain
    for count, length in itertools.product(COUNTS, [0, 1, 2, 3]):
        items = items_of(code, count)
        for links in links_of(length) if length else [[]]:
            with np.errstate(all="ignore"):
                expected = items.astype(np.float32)
                for kind, constant in links:
                    expected = KINDS[kind](expected, constant)
            made = np.empty(count, np.float32)
            run_chain(NUMBERS[code], widest, links, items.view(np.uint8), made)
            assert same(made, expected), (count, links)


FUNCTIONS = {
    "a cast": lambda x: x.astype(np.float32),
    "scaled": lambda x: x.astype(np.float32) * np.float32(1 / 255),
    "normalised": lambda x: (x.astype(np.float32) / np.float32(255) - np.float32(0.45)) / np.float32(0.22),
    "turned": lambda x: np.float32(1) / (np.float32(3) - x.astype(np.float32)),
    "with a constant that is no number": lambda x: x.astype(np.float32) * np.float32(2) + np.float32(np.nan),
    "read twice": lambda x: (x.astype(np.float32) + np.float32(1)) * (x.astype(np.float32) * np.float32(2)),
    "a chain read twice": lambda x: np.add(y := x.astype(np.float32) * np.float32(2) + np.float32(1), y * y),
    "both results": lambda x: (x.astype(np.float32), x.astype(np.float32) * np.float32(2) - np.float32(1)),
}


@pytest.mark.parametrize("code", [*CODES, "f2", "i8", "u4"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_traced_functions(code, name):
    function = FUNCTIONS[name]
    for count in COUNTS:
        rows = np.stack(
            [np.resize(np.roll(items_of(code if code in CODES else "i1", count), k), count) for k in range(5)]
        )
        rows = rows.astype(code)
        ds = Dataset.from_tensor_slices(rows).map(function)
        assert "Python  map" not in str(ds.plan())
        with np.errstate(all="ignore"):
            expected = [function(row) for row in rows]
        for batch in (1, 3):
            found = ds.batch(batch)
            position = 0
            for made in found:
                made = made if isinstance(made, tuple) else (made,)
                for k in range(len(made[0])):
                    wanted = expected[position] if isinstance(expected[position], tuple) else (expected[position],)
                    assert all(same(np.array(m[k]), w) for m, w in zip(made, wanted, strict=True))
                    position += 1
            assert position == len(rows)


def test_a_cast_of_one_item_for_a_whole_row():
    x = np.arange(4000, dtype=np.float32).reshape(4, 1000)
    y = np.array([[3], [5], [200], [0]], np.uint8)

    def function(x, y):
        return x * y.astype(np.float32), x + (y.astype(np.float32) * np.float32(2) + np.float32(1))

    for made, *row in zip(Dataset.from_tensor_slices((x, y)).map(function), x, y, strict=True):
        assert all(same(np.array(m), e) for m, e in zip(made, function(*row), strict=True))
