"""Records as dtypes: every field comes out as NumPy itself would give it, made contiguous and native."""

import itertools

import numpy as np
import pytest
from helpers.data.chains import THREADS, dataset, run, threads, write_files
from helpers.models.oracle import Model, assert_same
from hypothesis import HealthCheck, given, settings, strategies as st

import queuecore as qc
from queuecore._elements.record import compile_record
from queuecore.data import ArraySpec, FixedLengthRecordDataset

SCALARS = [
    *(
        "u1",
        "i1",
        "?",
        "f2",
        ">f2",
        "f4",
        ">f4",
        "f8",
        ">f8",
        "i2",
        ">i2",
        "u4",
        ">u4",
        "i8",
        ">u8",
        "c8",
        ">c8",
        "c16",
    ),
    *(">c16", "S1", "S5", "V3", "U2", ">U2", "M8[ns]", ">M8[s]", "m8[us]", ">m8[h]"),
]


@st.composite
def record_dtypes(draw, depth=2):
    """Structured dtypes of any nesting: sub-arrays, arrays of structures, gaps, fields out of order, titles."""
    if depth == 0 or draw(st.integers(0, 3)) == 0:
        base = np.dtype(draw(st.sampled_from(SCALARS)))
    else:
        count = draw(st.integers(1, 4))
        formats = [draw(record_dtypes(depth=depth - 1)) for _ in range(count)]
        names = [f"f{index}" for index in range(count)]
        offsets, at = [0] * count, draw(st.integers(0, 3))
        for index in draw(st.permutations(range(count))):
            offsets[index] = at
            at += formats[index].itemsize + draw(st.sampled_from([0, 0, 1, 7]))
        fields = {"names": names, "formats": formats, "offsets": offsets, "itemsize": at + draw(st.integers(0, 2))}
        if draw(st.booleans()):
            fields["titles"] = [f"title {index}" for index in range(count)]
        base = np.dtype(fields)
    shape = draw(st.sampled_from([None, None, (1,), (3,), (2, 3), (2, 1, 2)]))
    return base if shape is None else np.dtype((base, shape))


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(record=record_dtypes(), data=st.data())
def test_fields_are_numpys(tmp_path_factory, record, data):
    rows = data.draw(st.integers(0, 9))
    content = np.random.default_rng(data.draw(st.integers(0, 2**32))).integers(
        0, 256, rows * record.itemsize, dtype=np.uint8
    )
    files = write_files(tmp_path_factory.mktemp("record"), [content.tobytes()])
    ops = data.draw(st.sampled_from([[], [("batch", 4, False)], [("batch", 2, True), ("batch", 2, False)]]))
    ds = dataset(files, record)
    for name, *arguments in ops:
        ds = getattr(ds, name)(*arguments)
    got, error = run(threads(ds, data.draw(st.sampled_from(THREADS))))
    assert error is None
    assert_same(got, list(Model([content.tobytes()], record, ops)))


@pytest.mark.sampled(2)
@pytest.mark.parametrize("record", [*SCALARS, (">f4", (3,)), (np.dtype([("a", "u1"), ("b", ">i4")]), (2, 2))])
@pytest.mark.parametrize("number", THREADS)
def test_each_dtype(tmp_path, record, number):
    record = np.dtype(record)
    content = np.random.default_rng(7).integers(0, 256, 100 * record.itemsize, dtype=np.uint8).tobytes()
    files = write_files(tmp_path, [content])
    for ops in ([("batch", 16, False)], [("shuffle", 20, 1, True), ("batch", 16, False)], []):
        ds = dataset(files, record)
        for name, *arguments in ops:
            ds = getattr(ds, name)(*arguments)
        got, error = run(threads(ds, number))
        assert error is None
        assert_same(got, list(Model([content], record, ops)))


def test_wide_records_in_blocks_of_any_size(tmp_path):
    # Swapped, scattered and plain fields side by side, records larger and smaller than what is read at once.
    for image in ((1,), (100,), (3, 32, 32), (300, 1000)):
        record = np.dtype(
            [
                ("label", "u1"),
                ("weight", ">f8"),
                ("flag", "?"),
                ("image", ">u2", image),
                ("box", [("x", ">i2"), ("y", "u1")], (5,)),
            ]
        )
        content = np.random.default_rng(3).integers(0, 256, 37 * record.itemsize, dtype=np.uint8).tobytes()
        files = write_files(tmp_path, [content])
        for number in THREADS:
            got, error = run(threads(dataset(files, record).batch(5), number))
            assert error is None
            assert_same(got, list(Model([content], record, [("batch", 5, False)])))


def _pieces(leaf):
    """The bytes of a leaf in a record, in the order of the output."""
    return list(itertools.chain.from_iterable(range(at, at + leaf.piece_bytes) for at in leaf.offsets))


def test_contiguous_fields_are_one_piece():
    plan = compile_record([("label", "u1"), ("image", "u1", (3, 32, 32)), ("point", [("x", "f4"), ("y", "f4")], (1,))])
    assert plan.record_bytes == 3073 + 8
    assert [(leaf.offsets, leaf.piece_bytes) for leaf in plan.leaves] == [
        ((0,), 1),
        ((1,), 3072),
        ((3073,), 4),
        ((3077,), 4),
    ]
    assert plan.template == {"label": 0, "image": 1, "point": {"x": 2, "y": 3}}
    assert [leaf.shape for leaf in plan.leaves] == [(), (3, 32, 32), (1,), (1,)]


def test_arrays_of_structures_are_cut_into_equal_pieces():
    plan = compile_record([("pad", "V2"), ("p", [("x", "f4", (2,)), ("y", "u1")], (2, 3))])
    x = plan.leaves[1]
    assert (x.shape, x.piece_bytes) == ((2, 3, 2), 8)
    assert x.offsets == tuple(2 + 9 * index for index in range(6))
    assert _pieces(plan.leaves[2]) == [2 + 8 + 9 * index for index in range(6)]


@pytest.mark.parametrize(
    ("word", "swap"),
    [
        ("u1", 0),
        ("<i4", 0),
        (">i4", 4),
        (">f2", 2),
        (">c8", 4),
        (">c16", 8),
        (">U3", 4),
        ("S3", 0),
        ("?", -1),
        (">M8[s]", 8),
    ],
)
def test_swap(word, swap):
    (leaf,) = compile_record(word).leaves
    assert leaf.swap == swap
    assert leaf.dtype.isnative


@settings(max_examples=100, deadline=None)
@given(record=record_dtypes())
def test_leaves_cover_the_record_once(record):
    plan = compile_record(record)
    places = [place for leaf in plan.leaves for place in _pieces(leaf)]
    assert len(set(places)) == len(places)
    assert all(0 <= place < plan.record_bytes for place in places)
    for leaf in plan.leaves:
        assert len(_pieces(leaf)) == leaf.dtype.itemsize * int(np.prod(leaf.shape))


@pytest.mark.parametrize(
    "record",
    [
        object,
        np.dtype([("a", "u1"), ("b", "O")]),
        np.dtypes.StringDType(),
        "no such dtype",
        ["u1", "u2"],
        {"names": ["a", "b"], "formats": ["u4", "u2"], "offsets": [0, 3]},
        {"names": ["a", "b"], "formats": ["u4", "u4"], "offsets": [0, 0]},
        {"names": ["a", "b"], "formats": [("u1", (4,)), "u1"], "offsets": [0, 3], "itemsize": 8},
    ],
)
def test_no_dtype_for_a_record(tmp_path, record):
    with pytest.raises(qc.errors.DtypeError) as caught:
        FixedLengthRecordDataset(tmp_path / "x", record=record)
    assert isinstance(caught.value, (qc.errors.InvalidArgumentError, TypeError, ValueError))


@pytest.mark.parametrize(
    "record",
    [
        "S0",
        "V0",
        "U0",
        np.dtype([]),
        np.dtype(("u1", (0,))),
        [("a", "u1"), ("b", "u1", (0, 3))],
        [("a", "u1"), ("b", "S0")],
        {"names": [], "formats": [], "itemsize": 4},
    ],
)
def test_records_and_fields_without_bytes(tmp_path, record):
    with pytest.raises(qc.errors.InvalidArgumentError):
        FixedLengthRecordDataset(tmp_path / "x", record=record)


def test_element_spec(tmp_path):
    record = np.dtype([("label", "u1"), ("box", [("x", ">f4", (2,))], (3,))])
    ds = FixedLengthRecordDataset(tmp_path / "x", record=record)
    f4, u1 = np.dtype("f4"), np.dtype("u1")
    assert ds.element_spec == {"label": ArraySpec((), u1), "box": {"x": ArraySpec((3, 2), f4)}}
    assert ds.batch(7).element_spec["box"]["x"] == ArraySpec((None, 3, 2), f4)
    assert ds.batch(7, drop_remainder=True).element_spec["label"] == ArraySpec((7,), u1)
    two = ds.batch(7, drop_remainder=True).shuffle(3).batch(5).element_spec
    assert two["label"] == ArraySpec((None, 7), u1)
    assert FixedLengthRecordDataset(tmp_path / "x", 12).batch(2).element_spec == ArraySpec((None, 12), u1)
    assert f4.isnative
