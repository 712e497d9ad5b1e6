"""Generators with a signature: their elements are rows, and native stages behind them are native."""

import io
import random
import threading

import numpy as np
import pytest
from helpers.data.chains import threads
from PIL import Image

import queuecore as qc
from queuecore.data import ArraySpec, Dataset, Options
from queuecore.errors import InvalidArgumentError, PipelineError

BYTES = np.dtype("S")


def plain(value):
    """Return an element in plain objects, with the dtype of each leaf."""
    if isinstance(value, tuple):
        return tuple(map(plain, value))
    if isinstance(value, dict):
        return {name: plain(one) for name, one in value.items()}
    if isinstance(value, qc.Ragged):
        return "S", value.to_list()
    return (value.dtype.str, value.tolist()) if isinstance(value, np.ndarray | np.generic) else value


def spec(dtype, *shape):
    return ArraySpec(shape, np.dtype(dtype))


def png(height, width, seed):
    made = io.BytesIO()
    pixels = np.random.default_rng(seed).integers(0, 256, (height, width, 3), np.uint8)
    Image.fromarray(pixels).save(made, "PNG")
    return made.getvalue(), pixels


# Signatures, and a function from a random state to an element of it and the same as an array of exactly that dtype.
def some_bytes(state):
    # Blocks have 32 KiB, and elements of 8 KiB are no part of one.
    return state.randbytes(state.choice([0, 1, 7, 300, 5000, 8191, 8192, 40_000]))


def some_array(state, dtype):
    shape = (state.choice([0, 1, 3, 50]), 3)
    return np.arange(shape[0] * 3).reshape(shape).astype(dtype)


KINDS = {
    "number": (spec("i4"), lambda s: s.randrange(-5, 5)),
    "string": (spec("S"), some_bytes),
    "array": (spec("f4", 2, 3), lambda s: np.full((2, 3), s.random(), "f4")),
    "large": (spec("u2", 5000), lambda s: np.full(5000, s.randrange(9), "u2")),
    "varying": (spec("i8", None), lambda s: list(range(s.choice([0, 1, 4, 900])))),
    "matrix": (spec("f8", None, 3), lambda s: some_array(s, "f8")),
    "strings": (spec("S", None), lambda s: [s.randbytes(s.randrange(4)) for _ in range(s.choice([0, 1, 5, 600]))]),
    "bool": (spec("?"), lambda s: s.random() < 0.5),
    "complex": (spec("c8", 2), lambda s: [s.random(), 1j]),
    "half": (spec("f2"), lambda s: np.float16(s.random())),
    "mixed": (
        (spec("S"), {"label": spec("i8"), "more": (spec("f4", None), spec("S", None))}),
        lambda s: (some_bytes(s), {"label": s.randrange(9), "more": ([0.5] * s.randrange(4), ["x"] * s.randrange(3))}),
    ),
    "dict": ({"b": spec("S"), "a": spec("u1", 2)}, lambda s: {"a": [1, s.randrange(9)], "b": some_bytes(s)}),
}


def elements_of(kind, count=150):
    state = random.Random(kind)
    return [KINDS[kind][1](state) for _ in range(count)]


def exactly(value, of):
    """Return a value as NumPy has it in the dtype of a specification."""
    if isinstance(of, tuple):
        return tuple(exactly(*pair) for pair in zip(value, of, strict=True))
    if isinstance(of, dict):
        return {name: exactly(value[name], one) for name, one in of.items()}
    if of.dtype == BYTES:
        return value if not of.shape else ("S", [one.encode() if isinstance(one, str) else one for one in value])
    array = np.asarray(value, of.dtype)
    return array.dtype.str, array.tolist()


@pytest.mark.parametrize("kind", KINDS)
def test_elements_are_those_of_the_generator(kind):
    signature = KINDS[kind][0]
    values = elements_of(kind)
    ds = Dataset.from_generator(lambda: iter(values), output_signature=signature)
    assert ds.element_spec == signature
    expected = [exactly(element, signature) for element in values]
    for _ in range(2):
        assert [plain(element) for element in ds] == expected
    assert [plain(element) for element in threads(ds.repeat(2).shuffle(1, 1), 2)] == expected * 2
    # From any place on.
    with iter(ds) as it:
        for at in range(100):
            if at % 33 == 7:
                with iter(ds) as other:
                    other.load_state_dict(it.state_dict())
                    assert [plain(element) for element in other] == expected[at:]
            next(it)


@pytest.mark.parametrize("kind", ["number", "string", "array", "large", "half"])
def test_batches(kind):
    signature = KINDS[kind][0]
    values = elements_of(kind, 100)
    ds = Dataset.from_generator(lambda: iter(values), output_signature=signature).batch(30)
    got = list(ds)
    assert [len(one) for one in got] == [30, 30, 30, 10]
    if kind == "string":
        assert [text for one in got for text in one.to_list()] == values
    else:
        np.testing.assert_array_equal(np.concatenate(got), np.array(values, signature.dtype))


def test_native_stages_follow():
    pictures = [png(3 + number % 2, 5, number) for number in range(40)]

    def generate():
        for number, (content, _) in enumerate(pictures):
            yield content, number

    ds = Dataset.from_generator(generate, (bytes, np.int64), ((), ()))
    ds = ds.map(lambda content, number: (qc.ops.cast(qc.ops.decode_png(content), np.float32), number * 2))
    assert ds.plan().startswith("native ")
    for one in (ds, threads(ds, 2)):
        for (image, number), (expected, (_, pixels)) in zip(one, enumerate(pictures), strict=True):
            np.testing.assert_array_equal(image, pixels.astype(np.float32))
            assert number == 2 * expected


def test_examples_of_a_generator_are_parsed_natively():
    example = bytes.fromhex("0a0f0a0d0a017712080a060a0261620a00")  # of the feature "w": "ab" and ""
    ds = Dataset.from_generator(lambda: iter([example] * 5), bytes, ())
    ds = ds.map(qc.ops.parse_single_example(features={"w": qc.ops.FixedLenFeature([2], bytes)})).batch(3)
    assert all(line.startswith("native ") for line in ds.plan().splitlines()[:2])
    assert [one["w"].to_list() for one in ds] == [[[b"ab", b""]] * 3, [[b"ab", b""]] * 2]


def test_errors_come_in_their_place():
    def generate():
        yield from (1, 2, "x", 4, [5], 6)
        raise OSError("gone")

    ds = Dataset.from_generator(generate, np.int64, ())
    results = []
    with iter(ds) as it:
        while True:
            try:
                results.append(int(next(it)))
            except StopIteration:
                break
            except (InvalidArgumentError, PipelineError) as error:
                results.append(type(error))
    assert results == [1, 2, InvalidArgumentError, 4, InvalidArgumentError, 6, PipelineError]
    skipping = ds.with_options(Options(on_error="skip")).batch(2)
    assert [one.tolist() for one in skipping] == [[1, 2], [4, 6]]


def test_the_generator_may_fill_one_array_again():
    def generate():
        buffer, long = np.zeros(3, np.int64), np.zeros(2000, np.int64)
        for number in range(50):
            buffer[:] = long[:] = number
            yield buffer, long

    ds = Dataset.from_generator(generate, (np.int64, np.int64), ((3,), (2000,)))
    for number, (short, long) in enumerate(ds):
        assert short.tolist() == [number] * 3
        assert set(long.tolist()) == {number}


def test_no_element_waits_for_the_next_one():
    room = threading.Semaphore(0)

    def generate():
        for number in range(20):
            yield number, b"x" * number
            room.acquire()

    got = []
    for number, text in Dataset.from_generator(generate, (np.int64, bytes), ((), ())):
        got.append((int(number), len(text)))
        room.release()
    assert got == [(number, number) for number in range(20)]


@pytest.mark.parametrize(
    ("signature", "value"),
    [
        (ArraySpec(None, np.dtype("i8")), [1, 2]),  # of an unknown number of dimensions
        (spec("S", None, None), [["a"], ["b"]]),
    ],
)
def test_what_no_column_holds_stays_an_object(signature, value):
    ds = Dataset.from_generator(lambda: iter([value] * 3), output_signature=signature)
    assert len(list(ds)) == 3
    assert "Python" in str(ds.map(lambda x: x).plan()).splitlines()[0]


def test_rows_of_rows_need_no_shape():
    rows = qc.Ragged.from_list([[1], [2, 3]])
    with pytest.raises(InvalidArgumentError, match="got a Ragged"):
        list(Dataset.from_generator(lambda: iter([rows]), np.int64, (None, None)))
    (made,) = Dataset.from_generator(lambda: iter([rows]), np.int64)
    assert made.equals(rows)
