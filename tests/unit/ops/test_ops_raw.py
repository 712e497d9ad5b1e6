"""decode_raw, eager: against numpy.frombuffer."""

import numpy as np
import pytest
from hypothesis import given, reject, settings, strategies as st
from hypothesis.extra import numpy as hnp

import queuecore as qc
from queuecore.errors import DtypeError, InvalidArgumentError

DTYPES = [
    *("?", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f2", "f4", "f8", "c8", "c16", "g", "G"),
]


def strings(shape, length, seed=0):
    rows = np.random.default_rng(seed).integers(0, 2, (int(np.prod(shape)), length), dtype=np.uint8)
    return np.array([row.tobytes() for row in rows] + [None], object)[:-1].reshape(shape), rows


@pytest.mark.sampled(4)
@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("code", DTYPES)
@pytest.mark.parametrize("shape", [(), (1,), (3,), (2, 3), (0,), (2, 0, 3)])
def test_numbers(code, order, shape):
    dtype = np.dtype(code)
    array, rows = strings(shape, 5 * dtype.itemsize)
    value = array.item() if shape == () else array
    result = qc.ops.decode_raw(value, dtype, little_endian=order == "<")
    expected = np.frombuffer(rows.tobytes(), dtype.newbyteorder(order)).astype(dtype)
    assert result.dtype == dtype
    if array.size:
        assert result.shape == (*shape, 5)
        assert result.tobytes() == expected.tobytes() or dtype.kind in "gG"
        np.testing.assert_array_equal(result.ravel(), expected)
    else:
        assert result.shape == (*shape, 0)


def test_a_dtype_with_an_order_of_its_own():
    assert qc.ops.decode_raw(b"\x01\x00", ">u2").tolist() == [256]
    assert qc.ops.decode_raw(b"\x01\x00", ">u2").dtype.isnative
    assert qc.ops.decode_raw(b"\x01\x00", "u2", little_endian=False).tolist() == [256]


@pytest.mark.parametrize(
    "value",
    [b"ab", bytearray(b"ab"), memoryview(b"ab"), "ab", np.bytes_(b"ab"), np.array("ab"), np.array(b"ab", object)],
)
def test_one_string(value):
    assert qc.ops.decode_raw(value, np.uint8).tolist() == [97, 98]


def test_zero_bytes_at_the_end_of_strings():
    assert qc.ops.decode_raw([b"\1\0", b"\2\0"], np.int16).tolist() == [[1], [2]]


def test_what_a_batch_may_be():
    expected = [[97, 98], [99, 100]]
    for batch in (["ab", "cd"], [b"ab", b"cd"], np.array([b"ab", b"cd"]), np.array(["ab", b"cd"], object)):
        assert qc.ops.decode_raw(batch, np.uint8).tolist() == expected
    assert qc.ops.decode_raw(np.array(["ab", "cd"]), np.uint8).tolist() == expected


@pytest.mark.parametrize("offset", range(17))
def test_input_that_is_not_aligned(offset):
    data = np.random.default_rng(0).bytes(17 + 64)
    got = qc.ops.decode_raw(memoryview(data)[offset : offset + 64], np.float64)
    np.testing.assert_array_equal(got, np.frombuffer(data, np.float64, 8, offset))
    assert got.flags.aligned


@settings(deadline=None)
@given(data=st.binary(max_size=30), items=st.integers(1, 6), code=st.sampled_from(["u1", "<i2", ">u4", "<f8"]))
def test_fixed_length(data, items, code):
    length = items * np.dtype(code).itemsize
    got = qc.ops.decode_raw([data, b""], code, fixed_length=length)
    expected = np.frombuffer(data[:length].ljust(length, b"\0"), code)
    assert got.shape == (2, items)
    assert got[0].tobytes() == expected.astype(got.dtype).tobytes()
    assert not got[1].any()


@pytest.mark.thorough
@settings(deadline=None, max_examples=100)
@given(data=st.data())
def test_records(data):
    dtype = data.draw(
        hnp.nested_dtypes(
            st.sampled_from([np.dtype(code) for code in ("u1", "<i2", ">i4", "<f8", ">c8", "S3", "?")]), max_leaves=5
        ).filter(lambda dtype: dtype.names is not None and dtype.itemsize)
    )
    count = data.draw(st.integers(1, 3))
    raw = data.draw(st.binary(min_size=count * dtype.itemsize, max_size=count * dtype.itemsize))
    rows = np.frombuffer(raw, dtype)
    try:
        qc.ops.decode_raw(out_type=dtype)
    except InvalidArgumentError:
        reject()  # fields without bytes
    result = qc.ops.decode_raw([raw[i * dtype.itemsize : (i + 1) * dtype.itemsize] for i in range(count)], dtype)

    def compare(arrays, fields):
        assert list(arrays) == list(fields.dtype.names)
        for name, array in arrays.items():
            if isinstance(array, dict):
                compare(array, fields[name])
            else:
                assert array.dtype.isnative and array.shape == fields[name].shape
                if array.dtype.kind == "b":
                    expected = np.ascontiguousarray(fields[name]).view(np.uint8) != 0
                else:
                    expected = fields[name].astype(array.dtype)
                assert array.tobytes() == expected.tobytes()

    compare(result, rows)


@pytest.mark.parametrize(
    ("arguments", "options", "error", "words"),
    [
        ((b"abc", np.int16), {}, InvalidArgumentError, "has 3 bytes, which is not a multiple of 2"),
        (([b"ab", b"abcd"], np.int16), {}, InvalidArgumentError, "equally long; there are some of 2 and of 4"),
        ((b"\x00\x02", bool), {}, InvalidArgumentError, "expected a bool, a byte 0 or 1, got 2"),
        ((b"abc", [("a", "u1"), ("b", "u1")]), {}, InvalidArgumentError, "expected records of 2 bytes, got 3"),
        (([b"ab", b"abc"], [("a", "u1"), ("b", "u1")]), {}, InvalidArgumentError, "equally long"),
        ((b"ab", "S1"), {}, DtypeError, "dtype of numbers"),
        ((b"ab", object), {}, DtypeError, "dtype of numbers"),
        ((b"ab", "nonsense"), {}, DtypeError, "no dtype"),
        ((b"ab",), {}, InvalidArgumentError, "out_type is missing"),
        ((7, np.uint8), {}, DtypeError, "expected bytes"),
        (([b"a", 7], np.uint8), {}, DtypeError, "expected bytes"),
        ((b"ab", np.int16), {"fixed_length": 3}, InvalidArgumentError, "positive multiple of 2"),
        ((b"ab", np.int16), {"fixed_length": 0}, InvalidArgumentError, "positive multiple of 2"),
        ((b"ab", [("a", "u1")]), {"fixed_length": 3}, InvalidArgumentError, "must be 1, the record's size"),
    ],
)
def test_bad_input(arguments, options, error, words):
    with pytest.raises(error, match=words):
        qc.ops.decode_raw(*arguments, **options)


def test_a_stage():
    stage = qc.ops.decode_raw(out_type=np.int16)
    assert repr(stage) == "decode_raw(int16)"
    step = stage.bind([qc.ops.Component(np.dtype("S"), (), 8)])
    assert step.outputs == (qc.ops.Component(np.dtype("i2"), (4,)),)
    assert step(b"\x01\x00" * 4)[0].tolist() == [1] * 4
    assert stage.bind([qc.ops.Component(np.dtype("S"), None)]).outputs[0].shape is None
    with pytest.raises(InvalidArgumentError, match="expected one component of bytes"):
        stage.bind([qc.ops.Component(np.dtype("i2"), ())])


# The name that TensorFlow has for a fixed length


@pytest.mark.parametrize("little", [True, False])
@pytest.mark.parametrize("dtype", ["u1", "u2", "i4", "f8"])
def test_decode_padded_raw(dtype, little):
    values = [b"", b"\x01", b"\x01\x02\x03\x04\x05\x06\x07\x08\x09", bytes(range(40))]
    result = qc.ops.decode_padded_raw(values, 16, dtype, little)
    padded = b"".join(value[:16].ljust(16, b"\0") for value in values)
    expected = np.frombuffer(padded, np.dtype(dtype).newbyteorder("<" if little else ">")).reshape(4, -1)
    np.testing.assert_array_equal(result, expected)
    assert result.dtype == np.dtype(dtype)
    same = qc.ops.decode_padded_raw(input_bytes=values, fixed_length=16, out_type=dtype, little_endian=little)
    np.testing.assert_array_equal(result, same)
    stage = qc.ops.decode_padded_raw(fixed_length=16, out_type=dtype, little_endian=little)
    (again,) = stage.bind([qc.ops.Component(np.dtype("S"), (4,))])(np.array(values, object))
    np.testing.assert_array_equal(result, again)


@pytest.mark.parametrize("length", [None, 0, -4, 3])
def test_decode_padded_raw_to_no_length(length):
    with pytest.raises(InvalidArgumentError, match="fixed_length"):
        qc.ops.decode_padded_raw(b"ab", length, np.int32)
