"""Numbers that a queue takes without an array in between: they come out as those of arrays do."""

from __future__ import annotations

import numpy as np
import pytest

import queuecore as qc
from queuecore.errors import QueueCoreError

DTYPES = ["?", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8", "c8", "c16", ">i4", ">f8"]
EDGES = [0, 1, -1, 127, 128, -128, -129, 255, 256, 2**31 - 1, 2**31, -(2**31), 2**32, 2**53 + 1, 2**63 - 1, -(2**63)]
TOO_LARGE = [2**63, 2**64 - 1, 2**64, -(2**63) - 1]
FLOATS = [0.0, -0.0, 1.5, 1e-45, 3.4e38, 3.5e38, -1e300, float("inf"), float("nan"), 16777217.0]
VALUES = [
    *EDGES,
    *TOO_LARGE,
    *FLOATS,
    True,
    False,
    *(np.dtype(kind).type(1) for kind in DTYPES),
    np.longlong(3),
    np.float64(1e300),
    np.array(7, np.int64),
    np.str_("a"),
    1j,
    "1",
    None,
]


def outcome(queue, value):
    """Return what comes out, bit for bit, or the class of the error."""
    try:
        queue.enqueue(value)
    except QueueCoreError as error:
        return type(error)
    taken = queue.dequeue()
    return taken.dtype, taken.tobytes(), taken.shape


@pytest.mark.parametrize("kind", DTYPES)
def test_a_number_comes_out_as_that_of_an_array(kind):
    for value in VALUES:
        queue = qc.FIFOQueue(1, [kind], [()])
        assert outcome(queue, value) == outcome(queue, np.asarray(value)), value


@pytest.mark.parametrize("second", DTYPES)
def test_numbers_among_other_components(second):
    queue = qc.PriorityQueue(4, [second, "f4", second], [(), (), (2,)])
    rows = [(9, 1, 0.5, np.array([1, 0], second)), (-2, True, 3, np.array([0, 1], second))]
    for key, number, ratio, array in rows:
        queue.enqueue((key, np.dtype(second).type(number), ratio, array))
    for key, number, ratio, array in reversed(rows):
        taken = queue.dequeue()
        assert taken[:3] == [key, number, ratio] and [one.dtype.str for one in taken[1:3]] == [
            array.dtype.newbyteorder("=").str,
            "<f4",
        ]
        np.testing.assert_array_equal(taken[3], array)


def test_a_number_of_a_subclass_is_a_number():
    class Count(int):
        pass

    class Ratio(float):
        pass

    queue = qc.FIFOQueue(2, ["i4", "f8"], [(), ()])
    queue.enqueue((Count(7), Ratio(0.5)))
    assert queue.dequeue() == [7, 0.5]
