"""Datasets beside each other, behind each other, taken apart and cut into windows: against plain Python."""

import itertools

import numpy as np
import pytest
from helpers.data.blocks import small
from helpers.data.transformed import bytes_of_files, check, places, plain, pulled, run, stops_at_once, values
from helpers.models.oracle import Shuffle
from hypothesis import HealthCheck, given, settings, strategies as st

import queuecore as qc
from queuecore.data import ArraySpec, Dataset, DatasetSpec, TextLineDataset
from queuecore.errors import DtypeError, InvalidArgumentError, NotFoundError, PipelineError
from queuecore.ragged import Ragged

CONTENTS = [bytes(range(60)), b"", bytes(range(60, 67)), bytes(range(67, 200))]
BYTES = list(b"".join(CONTENTS))


@pytest.fixture
def numbers(tmp_path):
    return bytes_of_files(tmp_path, CONTENTS)


@pytest.fixture
def lines(tmp_path):
    (tmp_path / "lines").write_bytes(b"".join(b"%d\n" % (7**n) for n in range(150)))
    return small(TextLineDataset(tmp_path / "lines"), 200)


WORDS = [b"%d" % (7**n) for n in range(150)]


# -- zip ---------------------------------------------------------------------------------------------------------------


@pytest.mark.thorough
def test_zip(numbers, lines):
    ds = Dataset.zip({"n": numbers, "deep": (lines, Dataset.range(3, 1000))})
    expected = [
        {"n": ("uint8", (), a), "deep": (b, ("int64", (), c))}
        for a, b, c in zip(BYTES, WORDS, range(3, 1000), strict=False)
    ]
    check(lambda: ds, expected)
    assert list(ds.element_spec) == ["n", "deep"]
    batches = run(ds.batch(40), values)
    assert [one for batch in batches for one in batch["deep"][0]] == WORDS
    assert [one for batch in batches for one in batch["n"]] == BYTES[:150]


def test_zip_takes_what_tf_data_takes():
    a, b = Dataset.range(3), Dataset.range(5, 9)
    for ds in (Dataset.zip(a, b), Dataset.zip((a, b)), Dataset.zip(datasets=(a, b))):
        assert run(ds, values) == [(0, 5), (1, 6), (2, 7)]
    assert run(Dataset.zip(a), values) == [0, 1, 2]
    assert run(Dataset.zip((a,)), values) == [(0,), (1,), (2,)]
    assert len(Dataset.zip(a.repeat(), b)) == 4
    assert Dataset.zip(a.repeat(), b.repeat()).cardinality() == -1
    for bad in ((), ({},)):
        with pytest.raises(InvalidArgumentError):
            Dataset.zip(*bad)
    with pytest.raises(InvalidArgumentError):
        Dataset.zip(a, datasets=b)
    for bad in ([a, b], (a, 3), {"x": None}):
        with pytest.raises(DtypeError):
            Dataset.zip(bad)


def test_zip_of_batches_and_of_objects(numbers):
    ds = Dataset.zip(numbers.batch(30), Dataset.from_tensors(Ragged.from_list([[1], [2, 3]])).repeat())
    expected = [
        (("uint8", (len(part),), part), ("ragged", "int64", [[1], [2, 3]]))
        for part in (BYTES[at : at + 30] for at in range(0, 200, 30))
    ]
    check(lambda: ds, expected)


@given(st.lists(st.integers(0, 40), min_size=1, max_size=4))
@settings(max_examples=30, deadline=None)
def test_zip_ends_with_the_shortest(lengths):
    ds = Dataset.zip(tuple(Dataset.range(100 * i, 100 * i + n) for i, n in enumerate(lengths)))
    assert run(ds, values) == list(zip(*(range(100 * i, 100 * i + n) for i, n in enumerate(lengths)), strict=False))


@pytest.mark.thorough
def test_zip_shuffled_inputs(numbers):
    def make():
        qc.set_random_seed(3)
        ds = Dataset.zip(
            numbers.shuffle(20, seed=1), numbers.shuffle(300, seed=2, reshuffle_each_iteration=False).take(90)
        )
        qc.set_random_seed(None)
        return ds

    one, two = Shuffle(20, (3, 1), True), Shuffle(300, (3, 2), False)
    expected = [
        list(zip(one.one_pass(iter(BYTES)), itertools.islice(two.one_pass(iter(BYTES)), 90), strict=False))
        for _ in range(3)
    ]
    assert run(make().repeat(3), values) == sum(expected, [])
    ds = make()
    assert [run(ds, values) for _ in range(3)] == expected
    places(lambda: make().repeat(2), 2, expected[0] + expected[1], values)


def test_zip_error_in_its_place(numbers, tmp_path):
    bad = TextLineDataset([tmp_path / "good", tmp_path / "missing"])
    (tmp_path / "good").write_bytes(b"a\nb\nc\n")
    for first, second, count in (
        (numbers, bad, 3),
        (bad, numbers, 3),
        (numbers.take(2), bad, 2),
        (numbers.take(3), bad, 3),
    ):
        with iter(Dataset.zip(first, second)) as it:
            got, error = pulled(it)
        assert len(got) == count
        assert isinstance(error, NotFoundError) == (count == 3 and first is not numbers.take(3)) or error is None
    got, error = pulled(iter(Dataset.zip(numbers.take(3), bad)))
    assert error is None
    got, error = pulled(iter(Dataset.zip(bad, numbers.take(3))))
    assert isinstance(error, NotFoundError)  # who comes first is asked first


# -- concatenate -------------------------------------------------------------------------------------------------------


@pytest.mark.thorough
def test_concatenate(numbers, lines):
    check(lambda: numbers.take(70).concatenate(numbers.skip(170)), BYTES[:70] + BYTES[170:], values)
    some = lines.take(40)
    check(lambda: some.concatenate(lines.take(3)).concatenate(lines.take(0)), WORDS[:40] + WORDS[:3])
    check(lambda: numbers.take(0).concatenate(numbers.take(5)), BYTES[:5], values)
    assert lines.concatenate(lines).cardinality() == -2
    assert numbers.repeat().concatenate(numbers).cardinality() == -1
    # Endless, whatever is unknown of the other one.
    assert lines.concatenate(lines.repeat()).cardinality() == -1
    assert lines.repeat().concatenate(lines).cardinality() == -1


def test_a_thousand_concatenated_are_one_node():
    ds = Dataset.range(0)
    for number in range(1000):
        ds = ds.concatenate(Dataset.range(number, number + 2))
    assert len(ds) == 2000
    assert [int(x) for x in ds.skip(1997)] == [999, 999, 1000]
    # What stands between two of them stays there, and what is behind an end that is unknown too.
    two = Dataset.range(6).filter(lambda x: x % 2 == 0).concatenate(Dataset.range(2))
    assert [int(x) for x in two.take(4).concatenate(Dataset.range(1))] == [0, 2, 4, 0, 0]
    three = two.concatenate(Dataset.range(7, 9))
    assert [int(x) for x in three.skip(4)] == [1, 7, 8]
    options = qc.data.Options(max_leases=3)
    assert three.with_options(options).concatenate(three).options() == options


@pytest.mark.thorough
def test_concatenate_relaxes_shapes():
    def rows(*shape):
        return Dataset.from_tensor_slices(np.arange(np.prod(shape), dtype="i4").reshape(shape))

    ds = rows(3, 2, 4).concatenate(rows(2, 1, 4))
    assert ds.element_spec == ArraySpec((None, 4), np.dtype("i4"))
    expected = [
        plain(one) for one in [*np.arange(24, dtype="i4").reshape(3, 2, 4), *np.arange(8, dtype="i4").reshape(2, 1, 4)]
    ]
    check(lambda: ds, expected)
    assert run(ds.take(3).batch(3))[0][1] == (3, 2, 4)
    with pytest.raises(InvalidArgumentError):
        list(ds.batch(5))
    ragged = Dataset.from_tensor_slices(Ragged.from_list([[1], [2, 3]], "i4"))
    both = ragged.concatenate(rows(2, 3))
    check(lambda: both, [[1], [2, 3], [0, 1, 2], [3, 4, 5]], values)
    assert run(both.batch(4)) == [("ragged", "int32", [[1], [2, 3], [0, 1, 2], [3, 4, 5]])]
    check(lambda: rows(2, 3).concatenate(ragged), [[0, 1, 2], [3, 4, 5], [1], [2, 3]], values)
    other = rows(2, 3).concatenate(rows(1, 2, 2))
    check(lambda: other, [[0, 1, 2], [3, 4, 5], [[0, 1], [2, 3]]], values)
    assert other.element_spec.shape is None
    strings = Dataset.from_tensor_slices([["a", "b"]]).concatenate(Dataset.from_tensor_slices([["c"]]))
    check(lambda: strings, [[b"a", b"b"], [b"c"]], values)
    check(lambda: rows(5).batch(2).concatenate(rows(5).batch(3)), [[0, 1], [2, 3], [4], [0, 1, 2], [3, 4]], values)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (1, 1.0),
        ((1,), 1),
        ((1, 2), (1,)),
        ({"a": 1}, {"b": 1}),
        (b"a", 1),
        ((1, {"x": 2}), (1, (2,))),
        (1, np.int32(1)),
    ],
)
def test_concatenate_wants_the_same(one, other):
    for batched in (False, True):
        first, second = Dataset.from_tensors(one), Dataset.from_tensors(other)
        with pytest.raises(DtypeError):
            (first.batch(1) if batched else first).concatenate(second.batch(1) if batched else second)
    with pytest.raises(DtypeError):
        first.concatenate(3)


# -- enumerate ---------------------------------------------------------------------------------------------------------


@pytest.mark.thorough
def test_enumerate(numbers, lines):
    check(lambda: numbers.skip(150).enumerate(), list(enumerate(BYTES[150:])), values)
    assert run(numbers.enumerate(), values) == list(enumerate(BYTES))
    check(lambda: lines.take(50).enumerate(-5), [(("int64", (), i), w) for i, w in enumerate(WORDS[:50], -5)])
    check(lambda: numbers.batch(90).enumerate(2), [(2, BYTES[:90]), (3, BYTES[90:180]), (4, BYTES[180:])], values)
    for bad in (1.5, "a", True):
        with pytest.raises(InvalidArgumentError):
            numbers.enumerate(bad)


# -- unbatch -----------------------------------------------------------------------------------------------------------


@pytest.mark.thorough
def test_unbatch_of_batches(numbers, lines):
    check(lambda: numbers.take(60).batch(7).unbatch(), BYTES[:60], values)
    assert run(numbers.batch(7).unbatch(), values) == BYTES
    check(lambda: numbers.take(60).batch(7, drop_remainder=True).unbatch(), BYTES[:56], values)
    check(lambda: lines.batch(9).skip(1).take(3).unbatch(), WORDS[9:36])
    both = Dataset.zip(lines, numbers).take(60)
    check(lambda: both.batch(8).unbatch(), list(zip(WORDS[:60], BYTES, strict=False)), values)
    twice = [one for part in (BYTES[:7], BYTES[7:10]) * 2 for one in part]
    check(lambda: numbers.take(10).batch(7).repeat(2).unbatch(), twice, values)
    nested = [BYTES[at : at + 4] for at in range(0, 40, 4)]
    check(lambda: numbers.take(40).batch(4).batch(3).unbatch(), nested, values)
    assert numbers.batch(7).unbatch().element_spec == numbers.element_spec
    assert len(numbers.batch(7, True).unbatch()) == 196


def test_unbatch_of_shuffled_batches(numbers):
    def make():
        qc.set_random_seed(1)
        ds = numbers.take(50).batch(7).shuffle(4, seed=5).unbatch()
        qc.set_random_seed(None)
        return ds

    model = Shuffle(4, (1, 5), True)
    passes = [sum(model.one_pass(iter([BYTES[at : min(at + 7, 50)] for at in range(0, 50, 7)])), []) for _ in range(2)]
    assert run(make().repeat(2), values) == passes[0] + passes[1]
    places(lambda: make().repeat(2), 2, passes[0] + passes[1], values)


@st.composite
def tensors(draw):
    """Arrays, ragged rows and strings of one length, and of each the rows of its elements."""
    n, side = draw(st.integers(0, 6)), draw(st.integers(0, 3))
    kind = draw(st.sampled_from(["fixed", "strings", "ragged", "all"]))
    array = np.arange(n * side * 2, dtype="i4").reshape(n, side, 2)
    words = [[draw(st.binary(max_size=3)) for _ in range(side)] for _ in range(n)]
    rows = [array.tolist(), words]
    components = [
        array,
        Ragged(Ragged.from_list([word for row in words for word in row] or [b""])[: n * side], np.arange(n + 1) * side),
    ]
    if kind == "ragged":
        lengths = draw(st.lists(st.integers(0, 4), min_size=n, max_size=n))
        values = np.arange(sum(lengths) * 2, dtype="f8").reshape(-1, 2)
        splits = np.concatenate([[0], np.cumsum(lengths, dtype=int)])
        return Ragged(values, splits), [values[a:b].tolist() for a, b in itertools.pairwise(splits)]
    if kind == "all":
        return (components[0], {"w": components[1]}), [
            [(a, {"w": w}) for a, w in zip(one, two, strict=True)] for one, two in zip(*rows, strict=True)
        ]
    return (components[0], rows[0]) if kind == "fixed" else (components[1], rows[1])


@given(tensors(), st.integers(1, 30))
@settings(max_examples=60, deadline=None)
def test_unbatch_of_arrays(case, skip):
    given, rows = case
    ds = Dataset.from_tensor_slices(given).unbatch()
    expected = [row for element in rows for row in element]
    assert run(ds, values) == expected
    assert run(ds.skip(skip).repeat(2), values) == expected[skip:] * 2


@pytest.mark.thorough
def test_unbatch_of_arrays_from_every_place():
    array = np.arange(24).reshape(4, 3, 2)
    check(lambda: Dataset.from_tensor_slices(array).unbatch(), array.reshape(12, 2).tolist(), values)
    check(lambda: Dataset.from_tensor_slices(array).unbatch().unbatch(), list(range(24)), values)
    ragged = Ragged.from_list([[1, 2], [], [3], [4, 5, 6]])
    check(lambda: Dataset.from_tensor_slices(ragged).unbatch(), [1, 2, 3, 4, 5, 6], values)
    dense = Dataset.from_tensor_slices(np.zeros((2, 2, 3), "i1")).concatenate(
        Dataset.from_tensor_slices(np.ones((2, 1, 4), "i1"))
    )
    check(lambda: dense.unbatch(), [[0] * 3] * 4 + [[1] * 4] * 2, values)
    assert dense.unbatch().element_spec.shape == (None,)
    sides = Dataset.from_tensor_slices(np.zeros((1, 2, 3), "i1")).concatenate(
        Dataset.from_tensor_slices(np.ones((1, 1, 3), "i1"))
    )
    check(lambda: sides.unbatch(), [[0] * 3, [0] * 3, [1] * 3], values)
    objects = Dataset.from_tensors((Ragged.from_list([[1], [2, 3]]), ["a", "b"])).repeat(2)
    check(lambda: objects.unbatch(), [([1], b"a"), ([2, 3], b"b")] * 2, values)


def test_what_cannot_be_unbatched(numbers):
    for bad in (numbers, Dataset.zip(numbers, numbers.batch(2)), Dataset.from_tensors((1, [1]))):
        with pytest.raises(InvalidArgumentError):
            bad.unbatch()
    with pytest.raises(InvalidArgumentError):
        Dataset.from_tensors(([1, 2], [1, 2, 3])).unbatch()
    ragged = Ragged.from_list([[1], [2, 3], [4]])
    ds = Dataset.from_tensor_slices((ragged, Ragged.from_list([[1], [2, 3], [4, 5]]))).unbatch()
    got, error = pulled(iter(ds), own=values)
    assert got == [(1, 1), (2, 2), (3, 3)]
    assert isinstance(error, InvalidArgumentError)
    assert "[1, 2] (element 2)" in str(error)
    got, error = pulled(iter(Dataset.zip(numbers.batch(4), numbers.batch(5)).take(1).unbatch()))
    assert got == []
    assert "[4, 5] (element 0)" in str(error)


@pytest.mark.parametrize("drop", [False, True])
def test_rebatch(numbers, drop):
    expected = [BYTES[at : at + 30] for at in range(0, 180 if drop else 200, 30)]
    check(lambda: numbers.batch(7).rebatch(30, drop), expected, values)


# -- window ------------------------------------------------------------------------------------------------------------


def windows(elements, size, shift, stride, drop):
    """By the words of the documentation: element k of a window is start + k * stride."""
    made = []
    for start in range(0, len(elements), shift):
        one = elements[start : start + (size - 1) * stride + 1 : stride]
        if len(one) == size or not drop:
            made.append(one)
    return made


@pytest.mark.thorough
@given(st.integers(0, 30), st.integers(1, 6), st.integers(1, 8), st.integers(1, 4), st.booleans())
@settings(max_examples=60, deadline=None)
def test_windows(count, size, shift, stride, drop):
    ds = Dataset.range(count).window(size, shift, stride, drop)
    expected = windows(list(range(count)), size, shift, stride, drop)
    assert run(ds, values) == expected
    assert len(ds) == len(expected)
    assert run(ds.skip(2), values) == expected[2:]


def test_what_is_known_of_windows():
    number, half = ArraySpec((), np.dtype("i8")), ArraySpec((), np.dtype("f8"))
    ds = Dataset.range(6).map(lambda x: {"a": x, "b": (x, x / 2)})
    windows = ds.window(2)
    assert windows.element_spec == {"a": DatasetSpec(number), "b": (DatasetSpec(number), DatasetSpec(half))}
    # As in tf.data, which has neither type nor shape for one.
    assert windows.output_types == windows.output_shapes == windows.element_spec
    assert Dataset.range(6).window(2).window(2).element_spec == DatasetSpec(DatasetSpec(number))
    assert Dataset.range(6).map(lambda n: Dataset.range(3).batch(2)).element_spec == DatasetSpec(
        ArraySpec((None,), np.dtype("i8"))
    )
    assert windows.concatenate(ds.window(3)).element_spec == windows.element_spec
    mixed = Dataset.range(4).batch(2).window(1).concatenate(Dataset.range(4).batch(2, True).window(1))
    assert mixed.element_spec == DatasetSpec(ArraySpec((None,), np.dtype("i8")))
    with pytest.raises(DtypeError):
        list(windows.concatenate(Dataset.range(6).window(2)))
    for stack in (
        lambda ds: ds.padded_batch(2),
        lambda ds: ds.batch(2),
        lambda ds: ds.bucket_by_sequence_length(len, [1], [1, 1]),
    ):
        with pytest.raises(InvalidArgumentError):
            list(stack(Dataset.range(6).window(2)))
    it = windows.make_initializable_iterator()
    it.initializer()
    assert [int(x) for x in next(it)["a"]] == [0, 1]


@pytest.mark.thorough
def test_windows_from_every_place(lines, numbers):
    check(lambda: lines.take(20).window(4, 3), windows(WORDS[:20], 4, 3, 1, False), values)
    check(
        lambda: numbers.batch(50).window(3, 2, 1, True),
        windows([BYTES[position : position + 50] for position in (0, 50, 100, 150)], 3, 2, 1, True),
        values,
    )
    ds = Dataset.zip({"n": numbers.take(9), "w": (lines,)}).window(4)
    expected = [
        {"n": BYTES[position : min(position + 4, 9)], "w": (WORDS[position : min(position + 4, 9)],)}
        for position in (0, 4, 8)
    ]
    check(lambda: ds, expected, values)
    objects = Dataset.zip(numbers.batch(50), Dataset.range(9)).window(3)
    parts = [BYTES[position : position + 50] for position in (0, 50, 100, 150)]
    check(lambda: objects, [(parts[:3], [0, 1, 2]), (parts[3:], [3])], values)


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.integers(1, 70), st.integers(1, 70), st.integers(1, 3))
def test_windows_over_many_chunks(lines, size, shift, stride):
    """Chunks of a few rows: most windows lie in several."""
    ds = lines.batch(11).unbatch().window(size, shift, stride)
    assert run(ds, values) == windows(WORDS, size, shift, stride, False)


def test_window_before_an_error(tmp_path):
    (tmp_path / "good").write_bytes(b"a\nb\nc\nd\ne\n")
    bad = TextLineDataset([tmp_path / "good", tmp_path / "missing"])
    for drop, shift, expected in (
        (False, 3, [[b"a", b"b", b"c"], [b"d", b"e"]]),
        (True, 3, [[b"a", b"b", b"c"]]),
        (False, 1, [[b"a", b"b", b"c"], [b"b", b"c", b"d"], [b"c", b"d", b"e"]]),
    ):
        got, error = pulled(iter(bad.window(3, shift, drop_remainder=drop)), own=values)
        assert got == expected
        assert isinstance(error, NotFoundError)


@pytest.mark.parametrize("whole", [True, False])
def test_windows_before_an_error_from_every_place(tmp_path, whole):
    """Where a window before it holds all that is good, there is none of what is left, wherever it goes on."""
    (tmp_path / "good").write_bytes(bytes(range(9)))
    files = [tmp_path / "good", tmp_path / "missing"]
    ds = qc.data.FixedLengthRecordDataset(files, record="u1").window(5, 2)
    ds = ds.flat_map(lambda w: w.batch(5)) if whole else ds
    expected = [list(range(at, at + 5)) for at in (0, 2, 4)]
    for at in range(4):
        it = iter(ds)
        results = [values(next(it)) for _ in range(at)]
        state = it.state_dict()
        for other in (it, iter(ds)):
            if other is not it:
                other.load_state_dict(state)
            rest, error = pulled(other, own=values)
            assert results + rest == expected
            assert isinstance(error, NotFoundError)


@pytest.mark.thorough
@given(st.integers(0, 30), st.integers(1, 6), st.integers(1, 8), st.integers(1, 4), st.booleans(), st.integers(1, 9))
@settings(max_examples=60, deadline=None)
def test_windows_stacked(count, size, shift, stride, drop, chunk):
    called = []

    def whole(window):
        called.append(window)
        return window.batch(size)

    ds = Dataset.range(count).batch(chunk).unbatch().window(size, shift, stride, drop).skip(1).flat_map(whole)
    expected = windows(list(range(count)), size, shift, stride, drop)[1:]
    assert run(ds, values) == expected
    assert len(called) == 1
    assert ds.element_spec == ArraySpec((size if drop else None,), np.dtype("i8"))
    # The same, window by window.
    slow = Dataset.range(count).window(size, shift, stride, drop).skip(1).flat_map(lambda w: w.batch(size).take(1))
    assert run(ds) == run(slow)


@pytest.mark.thorough
def test_windows_stacked_from_every_place(numbers):
    pairs = Dataset.zip({"n": numbers.take(40), "p": numbers.map(lambda x: (x, x * np.float32(0.5)))})

    def whole(window):
        return Dataset.zip((window["p"][1].batch(4), {"again": window["n"].batch(5)}))

    def zipped(window):
        return Dataset.zip((window["p"][1], {"again": window["n"]})).batch(4)

    for drop in (True, False):
        expected = [([one / 2 for one in part], {"again": part}) for part in windows(BYTES[:40], 4, 3, 1, drop)]
        for function in (whole, zipped):
            check(lambda function=function, drop=drop: pairs.window(4, 3, 1, drop).flat_map(function), expected, values)
    batch = next(iter(pairs.window(4, 3, 1, True).flat_map(whole).batch(3)))
    assert batch[0].shape == (3, 4) and batch[0].dtype == np.float32


def test_windows_in_another_order_stacked(numbers):
    def windowed():
        return numbers.window(7, 2, drop_remainder=True).shuffle(50, seed=3).repeat(2).shard(3, 1)

    def stacked():
        return windowed().flat_map(lambda w: w.batch(7))

    assert run(stacked(), values) == run(windowed(), values)
    assert "stacked" in stacked().plan()
    places(stacked, 2, run(stacked(), values), values)


def test_other_functions_of_windows(numbers, lines):
    """What doesn't make one batch of each window, or wants to know what is in it, is called with it."""
    ds = numbers.take(10).window(4, 3)
    expected = windows(BYTES[:10], 4, 3, 1, False)
    assert run(ds.flat_map(lambda w: w), values) == [number for part in expected for number in part]
    assert run(ds.flat_map(lambda w: w.batch(3)), values) == [
        half for part in expected for half in (part[:3], part[3:]) if half
    ]
    assert run(ds.flat_map(lambda w: w.batch(4, drop_remainder=True)), values) == [
        part for part in expected if part[3:]
    ]
    assert run(ds.flat_map(lambda w: w.batch(9, drop_remainder=True)), values) == []
    assert run(ds.flat_map(lambda w: w.batch(4).repeat(2)), values) == [part for part in expected for _ in range(2)]
    assert run(ds.flat_map(lambda w: w.skip(1).batch(4)), values) == [part[1:] for part in expected if part[1:]]
    assert run(ds.flat_map(lambda w: w.batch(len(list(w)))), values) == expected
    assert run(ds.flat_map(lambda w: w.batch(w.cardinality())), values) == expected
    assert run(ds.flat_map(lambda w: w.batch(4 if next(iter(w)) else 1)), values)[:2] == [[0], [1]]
    assert run(ds.flat_map(lambda w: Dataset.zip((w.batch(4), w))), values) == [(part, part[0]) for part in expected]
    words = lines.take(10).window(4, 3).flat_map(lambda w: w.batch(4))
    assert run(words, values) == windows(WORDS[:10], 4, 3, 1, False)
    with pytest.raises(PipelineError, match="KeyError"):
        run(ds.flat_map(lambda w: w["none"] if isinstance(w, dict) else {}["none"]))


def test_bad_windows(numbers):
    for bad in ((0,), (1, 0), (1, 1, 0), (2.0,), (1, 1, 1, "no")):
        with pytest.raises(InvalidArgumentError):
            numbers.window(*bad)


# -- take_while --------------------------------------------------------------------------------------------------------


@pytest.mark.thorough
@pytest.mark.parametrize("stop", [0, 1, 37, 199, 200])
def test_take_while(numbers, stop):
    def python(n):
        return bool(n != stop) if n >= 0 else None  # no tracer follows that

    for predicate in (lambda n: n != stop, python):
        check(lambda predicate=predicate: numbers.take_while(predicate), BYTES[:stop], values)
    assert numbers.take_while(python).element_spec == numbers.element_spec
    objects = numbers.batch(50).take_while(lambda batch: bool(batch[0] < stop))
    check(lambda: objects, [BYTES[at : at + 50] for at in range(0, 200, 50) if at < stop], values)


@pytest.mark.thorough
def test_take_while_of_words(lines):
    check(
        lambda: lines.take_while(lambda word: len(word) < 20), list(itertools.takewhile(lambda w: len(w) < 20, WORDS))
    )
    two = Dataset.zip(lines, Dataset.range(1000))
    expected = [(word, n) for n, word in enumerate(WORDS) if n < 70]
    check(lambda: two.take_while(lambda word, n: n < 70), expected, values)


def test_take_while_and_errors(numbers):
    def function(n):
        if n == 3:
            raise ValueError(n)
        return int(n) < 10

    results, error = pulled(iter(numbers.take_while(function)), own=int)
    assert results == [0, 1, 2]
    assert isinstance(error, qc.errors.PipelineError)
    assert isinstance(error.__cause__, ValueError)
    assert "take_while" in str(error)
    skipping = numbers.with_options(qc.data.Options(on_error="skip")).take_while(function)
    assert run(skipping, values) == [0, 1, 2, 4, 5, 6, 7, 8, 9]
    results, error = pulled(iter(numbers.take_while(lambda n: "yes" if int(n) else "no")))
    assert results == []
    assert isinstance(error, InvalidArgumentError)
    with pytest.raises(InvalidArgumentError):
        numbers.take_while(3)


def test_dropped_iterators_stop(numbers):
    endless = numbers.repeat()
    for ds in (
        Dataset.zip(endless, endless),
        endless.concatenate(endless),
        endless.enumerate().batch(3),
        endless.batch(3).unbatch(),
        Dataset.zip(endless.batch(3), endless.batch(3)),
        endless.window(3),
    ):
        stops_at_once(ds, 2)
