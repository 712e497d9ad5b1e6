"""Kernels: run on the host, against NumPy and our native steps, bit for bit; and compiled for real devices."""

import re
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from helpers.device.kernels import Host, area_of, columns_of, compiled
from hypothesis import Phase, given, settings, strategies as st

import queuecore as qc
from queuecore._device.kernels import ALIGNMENT, THREADS, KernelColumn, compile_for, kernel_of
from queuecore._elements.component import BYTES
from queuecore._elements.record import compile_record
from queuecore._ops.raw import record_stage
from queuecore._trace.trace import Traced, trace
from queuecore.errors import InvalidArgumentError, UnimplementedError
from queuecore.ops import Component

BRAIN = np.dtype(ml_dtypes.bfloat16)
CODES = ["?", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f2", "f4", "f8"]
SPECIAL = [0, -0.0, 1, -1, 0.5, 2, np.inf, -np.inf, np.nan, 1e-40, 65504, 65520, 3e38, 1e300, 255, -129]
HEADER = Path(__file__).parents[3] / "src/queuecore/include/queuecore/kernels/device.hpp"


def values(dtype, count, seed=0):
    """Numbers of a dtype: any bits, the limits and such that are none, and small ones, so that some are equal."""
    rng = np.random.default_rng(seed)
    dtype = np.dtype(dtype)
    if dtype.kind == "b":
        return rng.integers(0, 2, count).astype(bool)
    numbers = np.frombuffer(rng.bytes(count * dtype.itemsize), dtype).copy()
    with np.errstate(all="ignore"):
        limits = [] if dtype.kind not in "iu" else [np.iinfo(dtype).min, np.iinfo(dtype).max, 0, 1, 2, 3]
        pool = np.array(limits, dtype) if limits else np.array(SPECIAL).astype(dtype)
        for first, given_ in ((0, pool), (1, rng.integers(-9 * (dtype.kind != "u"), 10, 64).astype(dtype))):
            numbers[first::3] = rng.choice(given_, len(numbers[first::3]))
    return numbers


def same(results, expected):
    """The same dtype, shape and bits; but of what is no number, no more than that."""
    expected = np.asarray(expected)
    assert (results.dtype, results.shape) == (expected.dtype, expected.shape)
    if results.dtype.kind in "fcV":
        nothing = np.isnan(expected)
        assert (np.isnan(results) == nothing).all()
        results, expected = (np.where(nothing, np.zeros((), one.dtype), one) for one in (results, expected))
    if results.tobytes() != expected.tobytes():
        bits = [np.ascontiguousarray(one).view(f"V{one.dtype.itemsize}") for one in (results, expected)]
        differ = bits[0] != bits[1]
        raise AssertionError(f"{differ.sum()} of {results.size}: {results[differ][:5]} is not {expected[differ][:5]}")


def component(array, name=None):
    return Component(array.dtype, (None, *array.shape[1:]), name=name)


def traced(function, *arrays):
    """Return a function of batches of such rows as a stage."""
    components = [Component(one.dtype, one.shape[1:]) for one in arrays]
    made = trace(function, components, tuple(range(len(arrays))), batch=(None,))
    assert isinstance(made, Traced), made
    return made.stage


def kernel_for(stage, *arrays, **options):
    return kernel_of(columns_of(list(map(component, arrays)), len(arrays[0])), [stage], **options)


def slot(*arrays):
    return area_of(columns_of(list(map(component, arrays)), len(arrays[0])), arrays)


def called(function, *arrays):
    with np.errstate(all="ignore"):
        made = function(*arrays)
    return made if isinstance(made, tuple) else (made,)


def check(cases):
    """Run functions on batches: as kernels, as native steps, and in Python, where they are called with arrays."""
    stages = [traced(function, *arrays) for function, *arrays in cases]
    kernels = [
        kernel_for(stage, *arrays, entry=f"case{index}")
        for index, (stage, (_, *arrays)) in enumerate(zip(stages, cases, strict=True))
    ]
    host = Host(kernels)
    for kernel, stage, (function, *arrays) in zip(kernels, stages, cases, strict=True):
        results = host(kernel, slot(*arrays), len(arrays[0]))
        native = stage.bind(list(map(component, arrays)))(*arrays)
        for got, expected, plain in zip(results, native, called(function, *arrays), strict=True):
            same(got, expected)
            same(got, plain)


# Single items


def near_middles():
    """Doubles so close to the middle between two halves that a float is not."""
    halves = np.random.default_rng(4).integers(0, 0x7BFF, 2000, np.uint16)
    low, high = halves.view(np.float16).astype(float), (halves + 1).astype(np.uint16).view(np.float16).astype(float)
    return (low + high) / 2 * (1 + np.array([2.0**-40, -(2.0**-40), 0, 0]))[np.arange(2000) % 4]


@pytest.mark.thorough
def test_casts():
    """From each dtype to each other one."""
    dtypes = [*map(np.dtype, CODES), BRAIN]
    arrays = [values(dtype, 4096, index) for index, dtype in enumerate(dtypes)]
    arrays[CODES.index("f2")] = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    arrays[-1] = np.arange(1 << 16, dtype=np.uint16).view(BRAIN)
    # Where a float would lie in the middle between two halves.
    arrays[CODES.index("f8")][2::6] = near_middles()[: len(arrays[CODES.index("f8")][2::6])]
    stages = [traced(lambda x: tuple(qc.ops.cast(x, to) for to in dtypes), array) for array in arrays]
    kernels = [
        kernel_for(stage, array, entry=f"cast{index}")
        for index, (stage, array) in enumerate(zip(stages, arrays, strict=True))
    ]
    host = Host(kernels)
    for kernel, array in zip(kernels, arrays, strict=True):
        for column, to in zip(host(kernel, slot(array), len(array)), dtypes, strict=True):
            mask = np.ones(len(array), bool)
            with np.errstate(all="ignore"):
                if to.kind in "iu" and array.dtype.kind in "fV":
                    # What doesn't fit may become anything.
                    limits, wide = np.iinfo(to), np.trunc(array.astype(np.float64))
                    mask = (wide >= limits.min) & (wide < float(limits.max) + (to.itemsize < 8))
                    mask |= wide == limits.max if to.itemsize < 8 else False
                same(column[mask], array[mask].astype(to))
                same(column[mask], qc.ops.cast(array[mask], to))


UNARY = [np.negative, np.positive, np.absolute, np.square, np.sqrt, np.logical_not, np.invert]
BINARY = """
    add subtract multiply divide minimum maximum equal not_equal less less_equal greater greater_equal logical_and
    logical_or logical_xor bitwise_and bitwise_or bitwise_xor
"""


@pytest.mark.thorough
@pytest.mark.parametrize("code", CODES)
def test_functions(code):
    x, y = values(code, 3000, 1), values(code, 3000, 2)
    # Each one with each special one.
    pool = np.unique(x[::3].view(f"u{x.itemsize}")).view(x.dtype)
    x[: len(pool) ** 2], y[: len(pool) ** 2] = np.repeat(pool, len(pool)), np.tile(pool, len(pool))
    cases = []
    for function in UNARY:
        with_floats = np.dtype(code).kind == "f"
        if (function is np.invert and with_floats) or (
            code == "?" and function in (np.negative, np.positive, np.square, np.sqrt)
        ):
            continue
        # Of the roots of small integers NumPy makes halves.
        cases.append((function, x))
    for name in BINARY.split():
        function = getattr(np, name)
        if name.startswith("bitwise") and np.dtype(code).kind == "f" or (name == "subtract" and code == "?"):
            continue
        cases.append((function, x, y))
    cases.append((lambda a, b: np.where(a < b, a, b), x, y))
    check(cases)


def test_constants():
    """Python's numbers take the dtype of arrays, and arrays of constants are repeated over rows."""
    rng = np.random.default_rng(3)
    image, label = rng.integers(0, 256, (5, 4, 6, 3), np.uint8), rng.integers(-2, 12, 5).astype(np.int16)
    mean, deviation = np.float32([123.7, 116.3, 103.5]), np.array([58.4, 57.1, 57.4], np.float32)
    plane = rng.normal(size=(6, 1)).astype(np.float32)
    many = rng.normal(size=(4, 6, 3))

    check(
        [
            (lambda x: qc.ops.cast(x, np.float32) / 255, image),
            (lambda x: (x - mean) / deviation, image),
            (lambda x: (x - mean) * plane + 1, image),
            (lambda x: x * many, image),
            (lambda x: x + np.uint8(200), image),
            (lambda x: x > 127, image),
            (lambda x: np.where(x > 127, x, 0), image),
            (lambda x: 1 - x.astype(np.float16) * 2, image),
            (lambda x: x[:, ::-1, 1:5:2, None, 2], image),
            (lambda x: x.transpose(0, 3, 1, 2)[..., ::-2] / np.float32(3), image),
            (lambda x: x.reshape(-1, 72).astype(np.int32) * -(2**31), image),
            (lambda x: (x[:, 0] + x[:, -1], x), image),
            (lambda x, y: (y == 3, y[:, None, None, None] * x, x), image, label),
            (lambda x: x * np.float64("inf") - np.float64("nan"), image),
            (lambda x: x + np.float32(-0.0), np.float32([[0.0, -0.0, 1e-45]])),
            (lambda x: x * np.float32(1e-38) + np.float32(1e-45), np.float32([[1e-3, 3e-7, 0.1]])),
        ]
    )


def test_a_sum_of_products_is_rounded_twice():
    """Contracted, it would be rounded once."""
    x = np.float32(np.random.default_rng(0).normal(size=(1, 5000)))
    a, b = np.float32(1.1), np.float32(-1.3)
    once = (x.astype(np.float64) * a + b).astype(np.float32)
    kernel = kernel_for(qc.ops.scale(a=1.1, b=-1.3), x)
    (got,) = Host([kernel])(kernel, slot(x), 1)
    same(got, x * a + b)
    assert (got != once).any()


# Stages


@st.composite
def links(draw, shape):
    """A stage for rows of a shape and what it does to a batch, in NumPy; and the shape that rows then have."""
    kind = draw(st.sampled_from(["cast", "scale", "each", "reshape", "transpose", "slice"]))
    if kind == "cast":
        dtype = np.dtype(draw(st.sampled_from(CODES)))
        return qc.ops.cast(dtype=dtype), (lambda x: x.astype(dtype)), shape
    if kind in ("scale", "each"):
        dtype = np.dtype(draw(st.sampled_from(CODES[1:])))
        size = shape[-1:] if kind == "each" and 0 not in shape[-1:] else ()
        numbers = st.sampled_from([0.0, 0.1, 0.3, 0.5, 1.0])
        count = int(np.prod(size))
        a, b = (np.reshape(draw(st.lists(numbers, min_size=count, max_size=count)), size) for _ in "ab")

        def scaled(x):
            wide = any(one.itemsize > 2 and one != np.float32 for one in (x.dtype, dtype))
            between = np.float64 if wide else np.float32
            return (x.astype(between) * a.astype(between) + b.astype(between)).astype(dtype)

        return qc.ops.scale(a=a.tolist(), b=b.tolist(), dtype=dtype), scaled, shape
    if kind == "reshape":
        count = int(np.prod(shape))
        if not count:  # -1 can't be known then
            return qc.ops.cast(dtype=np.uint8), (lambda x: x.astype(np.uint8)), shape
        side = draw(st.sampled_from([divisor for divisor in range(1, count + 1) if count % divisor == 0]))
        sides = (side, count // side)
        return qc.ops.reshape(shape=(-1, *sides)), (lambda x: x.reshape(len(x), *sides)), sides
    if kind == "transpose":
        perm = (0, *(axis + 1 for axis in draw(st.permutations(range(len(shape))))))
        return qc.ops.transpose(perm=perm), (lambda x: x.transpose(perm)), tuple(shape[axis - 1] for axis in perm[1:])
    begin = [draw(st.integers(0, side)) for side in shape]
    size = [draw(st.integers(-1, side - first)) for side, first in zip(shape, begin, strict=True)]
    ends = [side if length < 0 else first + length for side, first, length in zip(shape, begin, size, strict=True)]
    part = (slice(None), *(slice(first, end) for first, end in zip(begin, ends, strict=True)))
    sides = tuple(end - first for first, end in zip(begin, ends, strict=True))
    return qc.ops.slice(begin=(0, *begin), size=(-1, *size)), (lambda x: x[part]), sides


@st.composite
def fields(draw, depth=0):
    """A record's dtype: fields of any kind and byte order, arrays of structures, and gaps."""
    members, offset = [], 0
    for index in range(draw(st.integers(1, 3))):
        if depth < 1 and draw(st.integers(0, 3)) == 0:
            dtype = draw(fields(depth + 1))
        else:
            dtype = np.dtype(draw(st.sampled_from([*CODES, "c8", "c16"]))).newbyteorder(draw(st.sampled_from("<>")))
        shape = tuple(draw(st.lists(st.integers(1, 4), max_size=3 - depth)))
        offset += draw(st.sampled_from([0, 0, 0, 1, 3]))
        members.append((f"f{index}", (dtype, shape), offset))
        offset += np.dtype((dtype, shape)).itemsize
    names, formats, offsets = zip(*members, strict=True)
    itemsize = offset + draw(st.sampled_from([0, 0, 1, 5]))
    return np.dtype({"names": names, "formats": formats, "offsets": offsets, "itemsize": itemsize})


@st.composite
def cases(draw):
    """Raw records somewhere in a slot, and stages for their fields."""
    dtype = draw(fields())
    record = compile_record(dtype)
    rows = draw(st.sampled_from([0, 1, 2, 3, 50]))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    # Small: floats must fit into any integer.
    offset = draw(st.sampled_from([0, 0, 1, 2, 4, 64, 77]))
    stride = dtype.itemsize + draw(st.sampled_from([0, 0, 0, 1, 7]))
    chains = []
    for leaf in record.leaves:
        shape, chain = leaf.shape, []
        if leaf.dtype.kind != "c":
            for _ in range(draw(st.integers(0, 4))):
                stage, function, shape = draw(links(shape))
                chain.append((stage, function))
            if draw(st.integers(0, 3)) == 0:
                depth = draw(st.integers(0, 5))
                chain.append((qc.ops.cast(dtype=np.int16), lambda x: x.astype(np.int16)))
                hot = lambda x, depth=depth: (x[..., None] == np.arange(depth)).astype(np.float32)  # noqa: E731
                chain.append((qc.ops.one_hot(depth=depth), hot))
        chains.append(chain)
    return dtype, record, rows, rng, offset, stride, chains


def numbers(leaf, rows, rng):
    small = rng.integers(0, 7 if leaf.dtype.kind != "b" else 2, (rows, *leaf.shape))
    return (small + small * 1j if leaf.dtype.kind == "c" else small).astype(leaf.dtype)


def written(dtype, record, arrays, rows):
    """Return records that hold these leaves, in NumPy's way."""
    raw = np.zeros(rows, dtype)
    raw.view(np.uint8).reshape(rows, -1 if rows else dtype.itemsize)[:] = 0xAB

    def fill(part, template):
        if isinstance(template, dict):
            for name, inner in template.items():
                fill(part[name], inner)
        else:
            part[...] = arrays[template]

    fill(raw, record.template)
    return raw


# Each example takes a compiler: no time to shrink one.
@pytest.mark.thorough
@settings(max_examples=6, deadline=None, phases=[Phase.explicit, Phase.reuse, Phase.generate])
@given(given_=st.lists(cases(), min_size=15, max_size=15), wide=st.booleans())
def test_records(given_, wide):
    """Raw records, split by the kernel; and the same from columns that the host has split."""
    runs = []
    for index, (dtype, record, rows, rng, offset, stride, chains) in enumerate(given_):
        arrays = [numbers(leaf, rows, rng) for leaf in record.leaves]
        raw = written(dtype, record, arrays, rows)
        stages = [qc.ops.on(place, *(stage for stage, _ in chain)) for place, chain in enumerate(chains) if chain]
        column = KernelColumn(Component(BYTES, (None,), dtype.itemsize), offset, stride)
        whole = kernel_of([column], [record_stage(record), *stages], entry=f"whole{index}")
        components = [Component(leaf.dtype, (None, *leaf.shape)) for leaf in record.leaves]
        columns = columns_of(components, rows)
        split = kernel_of(columns, stages, entry=f"split{index}")
        runs.append((whole, [column], [raw], arrays, rows, stages, chains))
        runs.append((split, columns, arrays, arrays, rows, stages, chains))
    # With 64-bit indices it is the same.
    host = Host([run[0] for run in runs], ("count <= 0x7fffffff", "false") if wide else ("", ""))
    for kernel, columns, parts, arrays, rows, stages, chains in runs:
        results = host(kernel, area_of(columns, parts), rows)
        native = list(arrays)
        for stage in stages:
            step = stage.bind([component(one) for one in native])
            native = step(*native)
        for got, step, array, chain in zip(results, native, arrays, chains, strict=True):
            same(got, step)
            for _, function in chain:
                array = function(array)
            same(got, array)


def image_record():
    return np.dtype([("label", "u1"), ("weight", ">f4"), ("image", "u1", (8, 6, 3))])


def widened(x):
    image = qc.ops.transpose(qc.ops.cast(x["image"], np.float32) / 255, (0, 3, 1, 2))
    return {"image": image, "label": qc.ops.one_hot(x["label"], 10), "raw": x["label"], "weight": x["weight"] > 0.5}


def image_kernel(**options):
    record = compile_record(image_record())
    components = [Component(leaf.dtype, leaf.shape) for leaf in record.leaves]
    made = trace(widened, components, record.template, batch=(None,))
    assert isinstance(made, Traced)
    column = KernelColumn(Component(BYTES, (None,), record.record_bytes))
    return kernel_of([column], [record_stage(record), made.stage], **options)


def image_records(rows):
    rng = np.random.default_rng(5)
    raw = np.frombuffer(rng.bytes(rows * image_record().itemsize), image_record()).copy()
    raw["label"] %= 10
    raw["weight"] = rng.random(rows)
    return raw


def image_arrays(raw):
    image = np.ascontiguousarray((raw["image"].astype(np.float32) / 255).transpose(0, 3, 1, 2))
    return [image, np.eye(10, dtype=np.float32)[raw["label"]], raw["label"], raw["weight"] > 0.5]


@pytest.mark.parametrize("rows", [0, 1, 777])
def test_a_function_of_records(rows):
    kernel, raw = image_kernel(), image_records(rows)
    assert [one.name for one in kernel.outputs] == ["image", "label", "raw", "weight"]
    assert [one.shape for one in kernel.outputs] == [(3, 8, 6), (10,), (), ()]
    results = Host([kernel])(kernel, area_of([KernelColumn(Component(BYTES, (None,), raw.itemsize))], [raw]), rows)
    for got, expected in zip(results, image_arrays(raw), strict=True):
        same(got, expected)


def test_launch():
    kernel = image_kernel()
    sizes = [3 * 8 * 6 * 4, 10 * 4, 1, 1]
    assert kernel.row_bytes() == sizes
    for rows in (0, 1, 2, 255, 256, 1000):
        padded = [-(-rows * size // ALIGNMENT) * ALIGNMENT for size in sizes]
        assert kernel.offsets(rows) == [sum(padded[:index]) for index in range(5)]
        assert kernel.nbytes(rows) == sum(padded)
    assert kernel.blocks(0) == kernel.blocks(1) == 1
    assert kernel.blocks(64) == 64 * 144 // THREADS
    assert kernel.blocks(10**9) == kernel.blocks(10**12) < 2**16


def test_elements_that_are_no_batches():
    image = np.arange(24, dtype=np.uint8).reshape(2, 4, 3)
    given_ = [Component(image.dtype, image.shape)]
    made = trace(lambda x: (x / 2, qc.ops.transpose(x, (2, 0, 1)), 7), given_, 0)
    assert isinstance(made, Traced)
    kernel = kernel_of([KernelColumn(given_[0])], [made.stage], batched=False)
    half, planes, seven = Host([kernel])(kernel, area_of([KernelColumn(given_[0])], [image[None]]), 1)
    same(half[0], image / 2)
    same(planes[0], image.transpose(2, 0, 1))
    same(seven[0], np.asarray(7))


def test_rows_of_a_batch():
    """What gets rows does the same to each of a batch, wherever they begin; a batch's function does so, if it can."""
    raw = np.random.default_rng(3).integers(0, 256, (300, 4, 6, 3), np.uint8)
    place = KernelColumn(Component(raw.dtype, raw.shape[1:]), 5, 80)
    factors = np.arange(3, dtype=np.float32)

    def of_a_row(x):
        return qc.ops.transpose(x * factors, (2, 0, 1)), x[1:, ::-1], x.reshape(-1, 9), np.int16(7)

    def of_a_batch(x):
        return x * factors, x[:, 1:, ::-1], x.reshape(-1, 8, 9), x + np.int16(7)

    row = trace(of_a_row, [place.component], 0)
    batches = [trace(of_a_batch, [place.component], 0, batch=(rows,)) for rows in (None, 300)]
    assert all(isinstance(made, Traced) for made in (row, *batches))
    kernels = [
        kernel_of([place], [made.stage], batched=False, entry=f"rows{index}")
        for index, made in enumerate((row, *batches))
    ]
    host, area = Host(kernels), area_of([place], [raw])
    expected = [of_a_row(one) for one in raw]
    for got, parts in zip(host(kernels[0], area, 300), zip(*expected, strict=True), strict=True):
        same(got, np.stack(parts))
    for kernel in kernels[1:]:
        for got, wanted in zip(host(kernel, area, 300), of_a_batch(raw), strict=True):
            same(got, wanted.reshape(got.shape))


def test_batches_that_are_always_of_one_size():
    x = np.arange(12, dtype=np.float32).reshape(4, 3)
    stages = [qc.ops.reshape(shape=(4, 3, 1)), qc.ops.slice(begin=(0, 1, 0), size=(4, 2, 1)), qc.ops.cast(dtype="i4")]
    kernel = kernel_of([KernelColumn(Component(x.dtype, x.shape))], stages)
    (got,) = Host([kernel])(kernel, slot(x), 4)
    same(got, x[:, 1:, None].astype(np.int32))


def test_bytes_of_which_each_row_has_several():
    raw = np.random.default_rng(1).integers(0, 256, (5, 3, 12), np.uint8)
    column = KernelColumn(Component(BYTES, (None, 3), 12), 5, 37)
    kernels = [
        kernel_of([column], [qc.ops.decode_raw(out_type=out, fixed_length=length)], entry=f"decode{index}")
        for index, (out, length) in enumerate([(">i4", None), (np.uint16, 8), (np.float64, 8)])
    ]
    host, area = Host(kernels), area_of([column], [raw])
    same(host(kernels[0], area, 5)[0], raw.view(">i4").astype(np.int32))
    same(host(kernels[1], area, 5)[0], raw.view(np.uint16)[..., :4])
    same(host(kernels[2], area, 5)[0], np.ascontiguousarray(raw[..., :8]).view(np.float64))


def test_rows_of_more_than_four_gigabytes():
    few, many = np.arange(16, dtype=np.uint8).reshape(2, 1, 8)
    columns = [
        KernelColumn(Component(few.dtype, (None, 8)), 2**32),
        KernelColumn(Component(many.dtype, (None, 2**32 + 8)), 64),
    ]
    native = trace(
        lambda x, y: (x + y[:, 2**32 :], y[:, 2**32 :]),
        [Component(few.dtype, (8,)), Component(many.dtype, (2**32 + 8,))],
        (0, 1),
        batch=(None,),
    )
    assert isinstance(native, Traced)
    kernels = [
        kernel_of(columns[1:], [qc.ops.slice(begin=(0, 2**32), size=(-1, 8))], entry="part"),
        kernel_of(columns, [native.stage], entry="sum"),
    ]
    host = Host(kernels)
    # All that is read lies at the end.
    area = area_of([KernelColumn(component(few)), KernelColumn(component(many), 64)], [few, many])
    first = area.ctypes.data - 2**32
    for results, expected in zip([host(one, first, 1) for one in kernels], [[many], [few + many, many]], strict=True):
        for got, one in zip(results, expected, strict=True):
            same(got, one)


def test_any_byte_but_zero_is_true():
    raw = np.arange(256, dtype=np.uint8)
    record = compile_record([("flag", "?")])
    column = KernelColumn(Component(BYTES, (None,), 1))
    kernel = kernel_of([column], [record_stage(record)])
    same(Host([kernel])(kernel, area_of([column], [raw]), 256)[0], raw != 0)


def test_names():
    """They stay with what is made of a component, and a function gives new ones."""
    dtype = np.dtype([("a", "u1"), ("b", "<i2", 2), ("c", [("d", ">f4")])])
    raw = np.frombuffer(np.random.default_rng(8).bytes(dtype.itemsize * 3), dtype)
    column = KernelColumn(Component(BYTES, (None,), dtype.itemsize))
    stages = [
        qc.ops.decode_raw(out_type=dtype),
        qc.ops.compose(qc.ops.on("b", qc.ops.cast(dtype="f4"), qc.ops.scale(a=2)), qc.ops.on("b", qc.ops.scale(b=1))),
        qc.ops.on("a", qc.ops.cast(dtype="u1")),
    ]
    kernel = kernel_of([column], stages, entry="staged")
    assert [output.name for output in kernel.outputs] == ["a", "b", "c.d"]

    def function(x):
        given_ = qc.ops.decode_raw(x, dtype)
        return {"same": given_["a"], "again": given_["a"], "d": given_["c"]["d"] * 2, "b": given_["b"] + 1}

    made = trace(function, [Component(BYTES, (), dtype.itemsize)], 0, batch=(None,))
    assert isinstance(made, Traced), made
    traced_ = kernel_of([column], [made.stage, qc.ops.on("again", qc.ops.cast(dtype="i4"))], entry="traced")
    assert [output.name for output in traced_.outputs] == ["same", "again", "d", "b"]
    host, area = Host([kernel, traced_]), area_of([column], [raw])
    a, b, d = raw["a"], raw["b"], raw["c"]["d"].astype(np.float32)
    for got, expected in zip(host(kernel, area, 3), [a, b.astype("f4") * 2 + 1, d], strict=True):
        same(got, expected)
    for got, expected in zip(host(traced_, area, 3), [a, a.astype("i4"), d * 2, b + np.int16(1)], strict=True):
        same(got, expected)


# What no kernel can do


IMAGES = Component(np.dtype("u1"), (None, 8, 6, 3))
STRINGS = Component(BYTES, (None,), 12)


@pytest.mark.parametrize(
    ("given_", "stage", "word"),
    [
        (IMAGES, qc.ops.random_flip_left_right(seed=1), "random_flip_left_right"),
        (IMAGES, qc.ops.resize(size=(4, 4)), "resize"),
        (IMAGES, qc.ops.compose(qc.ops.cast(dtype="f4"), qc.ops.adjust_hue(delta=0.1)), "adjust_hue"),
        (IMAGES, qc.ops.pad(paddings=[(0, 0), (1, 1), (1, 1), (0, 0)]), "pad"),
        (IMAGES, qc.ops.pad(paddings=[(0, 0), (1, 1), (1, 1), (0, 0)], mode="reflect"), "mode='reflect'"),
        (IMAGES, qc.ops.python(lambda x: x, outputs=[IMAGES]), "python"),
        (IMAGES, qc.ops.transpose(perm=(1, 0, 2, 3)), "transpose"),
        (IMAGES, qc.ops.reshape(shape=(-1,)), "reshape"),
        (IMAGES, qc.ops.reshape(shape=(-1, 8, 2)), "reshape"),
        (IMAGES, qc.ops.slice(begin=(1, 0, 0, 0), size=(-1, 8, 6, 3)), "slice"),
        (IMAGES, qc.ops.slice(begin=(0, 0, 0, 0), size=(2, 8, 6, 3)), "slice"),
        (Component(np.dtype("f4"), (None,)), qc.ops.scale(a=[1, 2, 3]), "scale"),
        (STRINGS, qc.ops.decode_raw(out_type=bool), "decode_raw"),
        (STRINGS, qc.ops.decode_raw(out_type=np.int64), "decode_raw"),
        (STRINGS, qc.ops.decode_raw(out_type=np.int32, fixed_length=16), "decode_raw"),
        (STRINGS, qc.ops.decode_raw(out_type=np.dtype([("x", "S12")])), "arrays of bytes"),
        (STRINGS, qc.ops.decode_csv(record_defaults=[1.0]), "decode_csv"),
    ],
)
def test_stages_that_are_refused(given_, stage, word):
    with pytest.raises(UnimplementedError, match=re.escape(word)) as refused:
        kernel_of([KernelColumn(given_)], [stage])
    assert "no kernel can do this" in str(refused.value)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x // 3,
        lambda x: np.exp(x.astype(np.float32)),
        lambda x: x[0],
        lambda x: x[:2],
        lambda x: x[::2],
        lambda x: x[None],
        lambda x: (x, np.float32(1)),
        lambda x: x.transpose(1, 0, 2, 3),
        lambda x: x.reshape(-1),
        lambda x: x.reshape(2, -1),
        lambda x: x[:, 0, 0, 0] * x[:, :, :4, 0],
        lambda x: x * np.zeros((4, 1, 1, 1)),
        lambda x: x * np.zeros((1, 300, 300, 3)),
        lambda x: qc.ops.resize(x, (4, 4)),
    ],
)
def test_functions_that_are_refused(function):
    # Of a batch of unknown length a trace refuses some of these already.
    made = trace(function, [Component(np.dtype("u1"), (1, 300, 3))], 0, batch=(4,))
    assert isinstance(made, Traced)
    with pytest.raises(UnimplementedError, match="traced.*no kernel can do this"):
        kernel_of([KernelColumn(Component(np.dtype("u1"), (4, 1, 300, 3)))], [made.stage])


@pytest.mark.parametrize(
    "given_",
    [
        Component(np.dtype("f4"), (None, None)),
        Component(np.dtype("f4"), None),
        Component(np.dtype("f4"), ()),
        Component(BYTES, (None,)),
        Component(np.dtype("M8[s]"), (None,)),
        Component(np.dtype("f4"), (None, 3), ragged=True),
    ],
)
def test_batches_that_are_refused(given_):
    with pytest.raises(UnimplementedError, match="no kernel can do this"):
        kernel_of([KernelColumn(given_)], [])


def test_a_stage_that_does_not_fit_says_so_itself():
    with pytest.raises(InvalidArgumentError, match="channels"):
        kernel_of([KernelColumn(IMAGES)], [qc.ops.scale(a=[1, 2])])
    with pytest.raises(UnimplementedError, match="bytes"):
        kernel_of([KernelColumn(STRINGS)], [])


# For real devices


def everything(x):
    """All of device.hpp that there is for a dtype."""
    y, z = x[:, :1], x[:, ::-1]
    results = [qc.ops.cast(x, to) for to in (*CODES, BRAIN)]
    results += [x == y, x != z, x < z, x <= y, x > z, x >= y, np.where(x < y, x, z), np.maximum(x, y), np.minimum(x, z)]
    results += [np.logical_and(x, y), np.logical_or(x, z), np.logical_xor(x, y), np.logical_not(x)]
    results += [np.absolute(x), x + y, x * z]
    if x.dtype.kind == "f":
        results += [x / y, np.sqrt(x), -x, x - z, x * np.inf]
    else:
        results += [x & y, x | z, x ^ y, ~x]
    return tuple(results)


def kernels_of_all_kinds():
    arrays = [np.zeros((2, 3), np.dtype(code)) for code in CODES]
    kernels = [kernel_for(traced(everything, one), one, entry=f"all_of_{one.dtype}") for one in arrays]
    record = compile_record([("a", ">f4", 2), ("b", "<i2"), ("c", ">c16"), ("d", ">f8", 2), ("e", ">u2"), ("g", "?")])
    aligned = compile_record([("a", ">i8"), ("b", ">f4"), ("c", "<f4"), ("d", "<c16", 2)])
    for index, one in enumerate((record, aligned)):
        column = KernelColumn(Component(BYTES, (None,), one.record_bytes), 0, 56 + index * 8)
        kernels.append(kernel_of([column], [record_stage(one)], entry=f"record{index}"))
    return [*kernels, image_kernel()]


@pytest.mark.sampled(4)
@pytest.mark.parametrize("target", ["compute_80", "compute_90", "sm_80", "sm_90"])
def test_kernels_compile_for_real_devices(target):
    kernels = kernels_of_all_kinds() if target.startswith("sm_") else [image_kernel()]
    made = compiled("\n".join(kernel.source for kernel in kernels), target)
    for kernel in kernels:
        if target.startswith("sm_"):
            assert made.startswith(b"\x7fELF") and kernel.entry.encode() in made
        else:
            assert re.search(rf"\.entry {kernel.entry}\b", made)


def test_nothing_is_contracted():
    """Neither here, where the compiler is told not to, nor where it is not."""
    x = np.zeros((1, 3), np.float32)
    scaled = kernel_for(qc.ops.scale(a=[1.1, 2, 3], b=-1.3), x)
    for options in (("--std=c++17", "-fmad=false"), ("--std=c++17", "-fmad=true")):
        assert not re.search(r"\bfma\b", compiled(scaled.source, "compute_90", options))
    careless = re.sub(r"return __f(add|mul)_rn\(a, b\);", lambda m: f"return a {'+*'[m[1] == 'mul']} b;", scaled.source)
    assert re.search(r"\bfma\b", compiled(careless, "compute_90", ("--std=c++17", "-fmad=true")))


def test_the_header_is_that_of_the_native_steps():
    import queuecore._core

    packed = Path(queuecore._core.__file__).with_name("device.hpp").read_text()
    assert packed == HEADER.read_text()
    assert image_kernel().source.startswith(packed)
    assert "#include <" not in packed.split("#if defined(__CUDACC__)")[1].split("#else")[0]


@pytest.mark.gpu
def test_on_a_device():
    cupy = pytest.importorskip("cupy")
    if not cupy.cuda.runtime.driverGetVersion() or not cupy.cuda.runtime.getDeviceCount():
        pytest.skip("no GPU")
    kernel, raw = image_kernel(), image_records(777)
    made = compile_for(kernel, 0)
    assert made.handle
    function = made.module.get_function(kernel.entry)
    given_ = cupy.asarray(raw.view(np.uint8))
    out = cupy.empty(kernel.nbytes(len(raw)), cupy.uint8)
    function((kernel.blocks(len(raw)),), (THREADS,), (given_, out, np.int64(len(raw))))
    bytes_ = out.get()
    for first, one, size, expected in zip(
        kernel.offsets(len(raw)), kernel.outputs, kernel.row_bytes(), image_arrays(raw), strict=False
    ):
        same(bytes_[first : first + len(raw) * size].view(one.dtype).reshape(expected.shape), expected)
