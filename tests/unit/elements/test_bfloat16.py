"""bfloat16, the dtype of `ml_dtypes`, in operations and queues. That package says what is right."""

import sys

import numpy as np
import pytest
from helpers.process import run_python

import queuecore as qc
from queuecore._core.steps.elementwise import ChainStep
from queuecore.errors import DtypeError, InvalidArgumentError, UnimplementedError
from queuecore.ops import Component

ml_dtypes = pytest.importorskip("ml_dtypes")

BF16 = np.dtype(ml_dtypes.bfloat16)
EVERY = np.arange(1 << 16, dtype=np.uint16).view(BF16)
OTHERS = [np.dtype(code) for code in ("?", "b", "B", "h", "H", "i", "I", "q", "Q", "e", "f", "d")]


def bits(array):
    return array.view(f"u{array.dtype.itemsize}")


def converted(array, dtype):
    with np.errstate(all="ignore"):
        return array.astype(dtype)


def same(results, expected):
    """Bit for bit, but for which NaN it is where there is more than one."""
    assert results.dtype == expected.dtype
    if results.dtype.kind == "f":
        there = np.isnan(expected)
        np.testing.assert_array_equal(np.isnan(results), there)
        np.testing.assert_array_equal(np.signbit(results), np.signbit(expected))
        results, expected = results[~there], expected[~there]
    np.testing.assert_array_equal(bits(results), bits(expected))


@pytest.mark.parametrize("dtype", OTHERS, ids=str)
def test_every_one_to_other_dtypes(dtype):
    values = EVERY
    if dtype.kind in "iu":  # what doesn't fit becomes anything
        wide = converted(EVERY, np.float64)
        info = np.iinfo(dtype)
        values = EVERY[np.isfinite(wide) & (wide > float(info.min) - 1) & (wide < float(info.max))]
    same(qc.ops.cast(values, dtype), converted(values, dtype))


@pytest.mark.parametrize("seed", range(4))
def test_rounding_of_floats(seed):
    random = np.random.default_rng(seed)
    patterns = random.integers(0, 1 << 32, 1 << 18, dtype=np.uint64).astype(np.uint32)
    # Halfway between two, and next to that: the last bits decide.
    patterns[: 1 << 17] &= 0xFFFF0000
    patterns[: 1 << 17] += random.integers(0x7FFE, 0x8003, 1 << 17).astype(np.uint32)
    edges = [0x00000001, 0x80000001, 0x7F7FFFFF, 0x7F7F8000, 0x7F7F7FFF, 0x7F800000, 0xFF800000, 0x7F800001, 0xFFFFFFFF]
    values = np.concatenate([patterns, np.array(edges, np.uint32)]).view(np.float32)
    got = qc.ops.cast(values, BF16)
    np.testing.assert_array_equal(bits(got), bits(converted(values, BF16)))
    np.testing.assert_array_equal(np.isnan(got.astype(np.float32)), np.isnan(values))


@pytest.mark.parametrize("dtype", OTHERS, ids=str)
def test_from_other_dtypes(dtype):
    raw = np.random.default_rng(0).bytes(dtype.itemsize << 14)
    values = np.frombuffer(raw, dtype) if dtype.kind != "b" else np.frombuffer(raw, np.uint8) > 100
    got, expected = qc.ops.cast(values, BF16), converted(values, BF16)
    np.testing.assert_array_equal(bits(got), bits(expected))


def test_no_loop_of_some_processors_only():
    values = np.linspace(-9, 9, 5000, dtype=np.float32)
    for portable in (False, True):
        links = [("cast", 10, 12, 2)]
        step = ChainStep((Component(values.dtype, (5000,)),), (Component(BF16, (5000,)),), links, portable)
        np.testing.assert_array_equal(bits(step(values)[0]), bits(values.astype(BF16)))


def test_in_chains_and_shapes():
    values = np.arange(24, dtype=np.float32).reshape(2, 3, 4).astype(BF16)
    stage = qc.ops.compose(
        *(qc.ops.cast(dtype=np.float32), qc.ops.scale(a=0.5, b=1)),
        *(qc.ops.transpose(perm=(2, 0, 1)), qc.ops.cast(dtype=BF16)),
    )
    got = stage.bind([Component(BF16, (2, 3, 4))])(values)[0]
    expected = (values.astype(np.float32) * 0.5 + 1).transpose(2, 0, 1).astype(BF16)
    np.testing.assert_array_equal(bits(got), bits(np.ascontiguousarray(expected)))
    assert qc.ops.scale(values, 2, dtype=BF16).dtype == BF16
    assert qc.ops.transpose(values, (2, 1, 0)).tolist() == values.transpose(2, 1, 0).tolist()
    assert qc.ops.slice(values, (0, 1, 0), (1, 1, -1)).tolist() == values[:1, 1:2].tolist()
    padded = qc.ops.pad(values[0, 0], [(1, 2)], 7)
    assert padded.dtype == BF16 and padded.tolist() == [7, 0, 1, 2, 3, 7, 7]
    assert qc.ops.one_hot([1], 2, dtype=BF16).astype(float).tolist() == [[0, 1]]
    assert qc.ops.cast(np.array([1.5, 2.5], np.float16), "bfloat16").tolist() == [1.5, 2.5]
    with pytest.raises(DtypeError, match="bfloat16"):
        qc.ops.adjust_brightness(values, 0.5)


@pytest.mark.parametrize("word", [BF16, ml_dtypes.bfloat16, "bfloat16"], ids=["dtype", "type", "word"])
def test_decode_raw(word):
    values = np.array([1, -2.5, np.inf, 3e38], np.float32).astype(BF16)
    for options, data in (
        ({}, values.tobytes()),
        ({"little_endian": False}, values.byteswap().tobytes()),
    ):
        got = qc.ops.decode_raw([data, data], word, **options)
        assert got.dtype == BF16 and got.shape == (2, 4)
        np.testing.assert_array_equal(bits(got), bits(np.stack([values, values])))
    got = qc.ops.decode_raw(values.byteswap().tobytes(), BF16.newbyteorder(">"))
    assert got.dtype == BF16 and got.tolist() == values.tolist()
    assert qc.ops.decode_padded_raw(values.tobytes()[:5], 8, word).tolist()[:2] == [1, -2.5]
    with pytest.raises(InvalidArgumentError, match="multiple of 2"):
        qc.ops.decode_raw(b"abc", word)
    assert repr(qc.ops.decode_raw(out_type=word)) == "decode_raw(bfloat16)"


@pytest.mark.parametrize("order", ["<", ">"])
def test_decode_raw_of_records(order):
    record = np.dtype([("label", "u1"), ("weights", BF16.newbyteorder(order), (2,))])
    values = np.array([1.5, -2], BF16)
    data = b"\7" + (values if order == "<" else values.byteswap()).tobytes()
    got = qc.ops.decode_raw(data, record)
    assert got["label"] == 7 and got["weights"].dtype == BF16 and got["weights"].tolist() == [1.5, -2]


@pytest.mark.parametrize("make", [qc.FIFOQueue, lambda *a: qc.RandomShuffleQueue(a[0], 0, *a[1:])])
@pytest.mark.parametrize("word", [BF16, "bfloat16"], ids=["dtype", "word"])
def test_queues(make, word):
    queue = make(10, [word], [(3,)])
    assert queue.dtypes == [BF16]
    values = np.array([1, 2.5, np.nan], np.float32)
    queue.enqueue(values.astype(BF16))
    queue.enqueue(values)  # rounded, as float64 to float32
    queue.enqueue([values.tolist()])
    for row in queue.dequeue_many(3):
        assert row.dtype == BF16
        np.testing.assert_array_equal(bits(row), bits(values.astype(BF16)))
    queue.enqueue_many(np.zeros((2, 3), BF16))
    with queue.reserve(1) as rows:
        rows[0][:] = ml_dtypes.bfloat16(4)
    with queue.lease(3) as rows:
        assert rows[0].dtype == BF16 and sorted(rows[0][:, 0].tolist()) == [0, 0, 4]
    for wrong in (np.array(["a"] * 3), np.zeros(3, complex), np.zeros(3, "V2")):
        with pytest.raises(DtypeError):
            queue.enqueue(wrong)
    with pytest.raises(DtypeError):
        qc.FIFOQueue(1, [np.float32], [()]).enqueue(np.zeros((), "V2"))


def test_queues_of_other_kinds():
    pads = qc.PaddingFIFOQueue(4, [BF16], [(None,)])
    pads.enqueue(np.ones(2, BF16))
    pads.enqueue([[5]])
    assert pads.dequeue_many(2).astype(float).tolist() == [[1, 1], [5, 0]]
    priorities = qc.PriorityQueue(4, [BF16], [()])
    priorities.enqueue([2, 1.5])
    priorities.enqueue([1, 2.5])
    number, value = priorities.dequeue()
    assert number == 1 and value == 2.5 and value.dtype == BF16
    varying = qc.FIFOQueue(4, [BF16])
    varying.enqueue(np.ones((2, 2), BF16))
    assert varying.dequeue().shape == (2, 2)


def test_a_program(tmp_path):
    values = np.linspace(0, 1, 40, dtype=np.float32)
    (tmp_path / "a").write_bytes(values.tobytes())
    queue = qc.FIFOQueue(10, [BF16], [(4,)])
    program = qc.StageProgram(
        qc.FixedLengthRecordReader(16), [tmp_path / "a"], qc.ops.decode_raw(out_type="f4"), qc.ops.cast(dtype=BF16)
    )
    coord = qc.Coordinator()
    threads = qc.QueueRunner(queue, [program]).create_threads(coord, start=True)
    got = np.stack(list(queue))
    coord.join(threads)
    np.testing.assert_array_equal(bits(got), bits(values.astype(BF16).reshape(10, 4)))


def test_without_the_package(monkeypatch):
    monkeypatch.setitem(sys.modules, "ml_dtypes", None)
    with pytest.raises(UnimplementedError, match="pip install ml_dtypes"):
        qc.ops.cast([1.0], "bfloat16")


def test_the_package_is_imported_by_its_users_alone():
    code = """
        import sys
        import numpy as np, queuecore as qc
        qc.FIFOQueue(1, [np.float32], [()]).enqueue(1)
        qc.ops.cast([1], np.float16), qc.ops.decode_raw(b"ab", np.uint8)
        assert "ml_dtypes" not in sys.modules and "lmdb" not in sys.modules
        assert str(qc.ops.cast([1], "bfloat16").dtype) == "bfloat16"
    """
    child = run_python(code)
    assert (child.returncode, child.stderr) == (0, "")
