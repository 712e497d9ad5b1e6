"""parse_example and its like: what each description gives, what is refused, and what a stage gives."""

from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from helpers.formats import example_messages as wire
from helpers.formats.example_messages import example, feature, sequence
from helpers.formats.example_wire import bytes_list, entry, float_list, group, int_list, tagged

import queuecore as qc
from queuecore import ops
from queuecore._elements.component import BYTES
from queuecore.errors import DtypeError, InvalidArgumentError, ProtoError, ResourceExhaustedError
from queuecore.ops import (
    Component,
    FixedLenFeature,
    FixedLenSequenceFeature,
    RaggedFeature,
    SparseFeature,
    VarLenFeature,
    parse_example,
    parse_sequence_example,
    parse_single_example,
    parse_single_sequence_example,
)
from queuecore.ragged import Ragged, Sparse

I64, F32 = np.int64, np.float32


def one(serialized, description, key="a"):
    return parse_single_example(serialized, {key: description})[key]


def many(serialized, description, key="a"):
    return parse_example(serialized, {key: description})[key]


def same(got, values, dtype):
    assert got.dtype == dtype
    np.testing.assert_array_equal(got, np.array(values, dtype))


@pytest.mark.parametrize(
    ("text", "key", "dtype", "values"),
    [
        ("0a0e0a0c0a016112071a050a0301ac02", "a", I64, [1, 300]),
        ("0a0f0a0d0a0166120812060a040000c03f", "f", F32, [1.5]),
        ("0a0c0a0a0a016212050a030a0178", "b", bytes, [b"x"]),
    ],
)
def test_samples_of_the_reference(text, key, dtype, values):
    got = one(bytes.fromhex(text), VarLenFeature(dtype), key).values
    assert list(got) == values
    assert got.dtype == np.dtype(dtype)


def test_an_empty_string_is_an_example_without_features():
    same(one(b"", FixedLenFeature((), I64, 7)), 7, I64)
    assert parse_single_example(b"", {"a": VarLenFeature(I64)})["a"].dense_shape.tolist() == [0]


@pytest.mark.parametrize("words", [(np.int64, "int64", np.dtype("<i8")), (np.float32, "f4"), (bytes, "S", np.bytes_)])
def test_words_for_a_dtype(words):
    value = {np.int64: 5, np.float32: 0.5, bytes: b"x"}[words[0]]
    for word in words:
        got = one(example(a=feature(value)), FixedLenFeature((), word))
        assert got == value


@pytest.mark.parametrize("dtype", [np.float64, np.int32, float, "U", "S3", bool, object, "nonsense", None, ">i8"])
@pytest.mark.parametrize("make", [VarLenFeature, RaggedFeature, lambda d: FixedLenFeature((), d)])
def test_other_dtypes_are_refused(dtype, make):
    with pytest.raises(DtypeError):
        one(b"", make(dtype))
    assert issubclass(DtypeError, TypeError)


# ---- FixedLenFeature -------------------------------------------------------------------------------------------------


def test_fixed_values_in_a_batch_and_alone():
    message = example(a=feature(1, 2, 3, 4), s=feature(b"x", b"", b"\0z", b"w"), f=feature(0.5))
    same(one(message, FixedLenFeature((2, 2), I64)), [[1, 2], [3, 4]], I64)
    same(many([message] * 2, FixedLenFeature([4], I64)), [[1, 2, 3, 4]] * 2, I64)
    same(one(message, FixedLenFeature(1, F32), "f"), [0.5], F32)
    same(many([message], FixedLenFeature((), F32), "f"), [0.5], F32)
    results = one(message, FixedLenFeature(4, bytes), "s")
    assert isinstance(results, Ragged) and results.to_list() == [b"x", b"", b"\0z", b"w"]
    results = many([message, message], FixedLenFeature((2, 2), bytes), "s")
    assert results.to_list() == [[[b"x", b""], [b"\0z", b"w"]]] * 2
    assert results[1][0][0] == b"x"
    results = many([message], FixedLenFeature(4, bytes), "s")
    assert results[0].to_list() == [b"x", b"", b"\0z", b"w"]


def test_a_lone_string_is_bytes():
    message = example(a=feature(b"\0abc\0"))
    assert one(message, FixedLenFeature((), bytes)) == b"\0abc\0"
    assert many([message, message], FixedLenFeature((), bytes)).to_list() == [b"\0abc\0"] * 2


def test_defaults():
    same(many([b"", example(a=feature(1, 2))], FixedLenFeature(2, I64, [8, 9])), [[8, 9], [1, 2]], I64)
    same(one(b"", FixedLenFeature((1, 1), F32, [7])), [[7]], F32)
    same(one(b"", FixedLenFeature((), I64, [7])), 7, I64)
    assert one(b"", FixedLenFeature((), bytes, b"none\0")) == b"none\0"
    assert many([b"", b""], FixedLenFeature(2, bytes, [b"p", "q"])).to_list() == [[b"p", b"q"]] * 2
    same(one(b"", FixedLenFeature(0, I64, [])), [], I64)


@pytest.mark.parametrize(
    ("description", "error"),
    [
        (FixedLenFeature(2, I64, 7), InvalidArgumentError),
        (FixedLenFeature((), I64, [1, 2]), InvalidArgumentError),
        (FixedLenFeature((), I64, 7.5), DtypeError),
        (FixedLenFeature((), I64, 2**63), DtypeError),
        (FixedLenFeature((), I64, b"7"), DtypeError),
        (FixedLenFeature((), F32, "x"), DtypeError),
        (FixedLenFeature((), bytes, 7), DtypeError),
        (FixedLenFeature([None], I64), InvalidArgumentError),
        (FixedLenFeature([1, None], I64), InvalidArgumentError),
        (FixedLenFeature(None, I64), InvalidArgumentError),
        (FixedLenFeature(-1, I64), InvalidArgumentError),
        (FixedLenFeature(1.5, I64), InvalidArgumentError),
        (FixedLenFeature("ab", I64), InvalidArgumentError),
        (FixedLenFeature((2**40, 2**40), I64), InvalidArgumentError),
        (FixedLenFeature((1,) * 40, I64), InvalidArgumentError),
        (FixedLenSequenceFeature((), I64), InvalidArgumentError),
        (FixedLenSequenceFeature(0, I64, True), InvalidArgumentError),
        (FixedLenSequenceFeature(2, I64, True, [1, 2]), InvalidArgumentError),
        (SparseFeature("i", "v", F32, [3]), InvalidArgumentError),
        (SparseFeature(["i", "j"], "v", F32, [3]), InvalidArgumentError),
        (SparseFeature(["i"], "v", F32, 3), InvalidArgumentError),
        (SparseFeature([], "v", F32, []), InvalidArgumentError),
        (SparseFeature("i", "v", F32, -1), InvalidArgumentError),
        (SparseFeature("v", "v", F32, 3), InvalidArgumentError),
        (RaggedFeature(I64, partitions=[RaggedFeature.UniformRowLength(0)]), InvalidArgumentError),
        (RaggedFeature(I64, partitions=["rows"]), InvalidArgumentError),
        (RaggedFeature(I64, row_splits_dtype=np.int16), DtypeError),
        (I64, InvalidArgumentError),
        (None, InvalidArgumentError),
    ],
)
def test_descriptions_that_make_no_sense(description, error):
    for call in (parse_single_example, parse_example):
        with pytest.raises(error) as caught:
            call(features={"a": description})
        assert "'a'" in str(caught.value) or "b'v'" in str(caught.value)


@pytest.mark.parametrize("features", [None, {}, [], "a"])
def test_no_features(features):
    for call in (parse_single_example, parse_example):
        with pytest.raises(InvalidArgumentError):
            call(b"", features)
    with pytest.raises(InvalidArgumentError):
        parse_sequence_example(b"", features if isinstance(features, dict) else None)


def test_a_key_with_two_dtypes():
    with pytest.raises(InvalidArgumentError):
        parse_example(features={"a": VarLenFeature(I64), "q": RaggedFeature(F32, "a")})
    with pytest.raises(InvalidArgumentError):
        parse_example(features={"a": FixedLenFeature((), I64), b"a": FixedLenFeature((), F32)})


def test_a_key_may_serve_several_descriptions():
    features = {"v": VarLenFeature(I64), "r": RaggedFeature(I64, "v"), b"v": FixedLenFeature(2, I64)}
    got = parse_example([example(v=feature(3, 4))], features)
    assert got["v"].values.tolist() == [3, 4]
    assert got["r"].to_list() == [[3, 4]]
    same(got[b"v"], [[3, 4]], I64)
    assert list(got) == ["v", "r", b"v"]


def refused(serialized, description, error=InvalidArgumentError):
    """Refused alone, and in a batch, behind a good record."""
    with pytest.raises(error) as alone:
        one(serialized, description)
    good = example(a=feature(1, 2))
    with pytest.raises(error) as caught:
        parse_example([good, serialized, good], {"a": description}, example_names=["one", "two", "three"])
    for found in (alone, caught):
        assert (type(found.value) is ProtoError) == (error is ProtoError)
    assert "record 1" in str(caught.value)
    return str(alone.value), str(caught.value)


def test_a_required_feature():
    for serialized in (b"", example(b=feature(1)), example(a=wire.CLASSES["Feature"]())):
        for text in refused(serialized, FixedLenFeature(2, I64)):
            assert "Feature: a (data type: int64) is required but could not be found." in text
        assert "Name: two" in text
    with pytest.raises(InvalidArgumentError, match="Name: <unknown>"):
        many([b""], FixedLenFeature(2, I64))


@pytest.mark.parametrize("description", [FixedLenFeature(2, I64), FixedLenFeature(2, I64, [5, 6])])
def test_a_feature_without_values_is_there(description):
    refused(example(a=feature(kind=I64)), description)


def test_the_number_of_values():
    for count in (0, 1, 3, 1000):
        _, text = refused(example(a=feature(*range(count), kind=I64)), FixedLenFeature(2, I64))
        assert f"Values size: {count} but output shape: [2]" in text
    same(one(example(a=feature(kind=I64)), FixedLenFeature(0, I64)), [], I64)
    with pytest.raises(InvalidArgumentError):
        one(example(a=feature(7)), FixedLenFeature(0, I64, []))


@pytest.mark.parametrize(
    "description",
    [
        FixedLenFeature(2, I64),
        FixedLenFeature(2, I64, [0, 0]),
        VarLenFeature(I64),
        FixedLenSequenceFeature((), I64, True),
        RaggedFeature(I64),
    ],
)
def test_values_of_another_kind(description):
    for value in (0.5, b"x"):
        for text in refused(example(a=feature(value)), description):
            assert "Data types don't match" in text
    refused(example(a=feature(kind=F32)), description)


# ---- sequences and sparse features -----------------------------------------------------------------------------------


def test_variable_lengths():
    result = many([example(a=feature(1, 2)), b"", example(a=feature(3))], VarLenFeature(I64))
    assert result.equals(Sparse([[0, 0], [0, 1], [2, 0]], np.array([1, 2, 3]), [3, 2]))
    result = one(example(a=feature(b"x", b"yz")), VarLenFeature(bytes))
    assert result.equals(Sparse([[0], [1]], Ragged.from_list([b"x", b"yz"]), [2]))
    result = many([], VarLenFeature(F32))
    assert result.equals(Sparse(np.empty((0, 2)), np.empty(0, F32), [0, 0]))
    result = many([b"", b""], VarLenFeature(bytes))
    assert result.dense_shape.tolist() == [2, 0] and len(result.values) == 0


def test_sequences_are_filled_up():
    batch = [example(a=feature(1, 2)), b"", example(a=feature(1, 2, 3, 4))]
    wanted = [[[1, 2], [9, 9]], [[9, 9], [9, 9]], [[1, 2], [3, 4]]]
    same(many(batch, FixedLenSequenceFeature(2, I64, True, 9)), wanted, I64)
    same(many(batch, FixedLenSequenceFeature((), I64, True)), [[1, 2, 0, 0], [0] * 4, [1, 2, 3, 4]], I64)
    same(one(batch[0], FixedLenSequenceFeature((2, 1), I64, True)), [[[1], [2]]], I64)
    assert one(b"", FixedLenSequenceFeature((3, 2), F32, True)).shape == (0, 3, 2)
    assert many([], FixedLenSequenceFeature((3, 2), F32, True)).shape == (0, 0, 3, 2)
    texts = [example(a=feature(b"x")), example(a=feature(b"y", b"zz"))]
    assert many(texts, FixedLenSequenceFeature((), bytes, True)).to_list() == [[b"x", b""], [b"y", b"zz"]]
    assert many(texts, FixedLenSequenceFeature((), bytes, True, "?")).to_list() == [[b"x", b"?"], [b"y", b"zz"]]
    refused(example(a=feature(1, 2, 3)), FixedLenSequenceFeature(2, I64, True))


def test_sparse_features_are_sorted():
    message = example(i=feature(5, 1, 5), v=feature(0.5, 0.25, 0.75), j=feature(1, 2, 0))
    result = one(message, SparseFeature("i", "v", F32, 10))
    assert result.equals(Sparse([[1], [5], [5]], np.array([0.25, 0.5, 0.75], F32), [10]))
    result = one(message, SparseFeature("i", "v", F32, 10, True))
    assert result.equals(Sparse([[5], [1], [5]], np.array([0.5, 0.25, 0.75], F32), [10]))
    result = many([message, b"", message], SparseFeature(["i", "j"], "v", F32, [3, 4]))
    places = [[1, 2], [5, 0], [5, 1]]
    assert result.indices.tolist() == [[0, *at] for at in places] + [[2, *at] for at in places]
    assert result.values.tolist() == [0.25, 0.75, 0.5] * 2
    assert result.dense_shape.tolist() == [3, 3, 4]
    result = one(example(i=feature(2, 1), v=feature(b"two", b"one")), SparseFeature("i", "v", bytes, 3))
    assert result.values.to_list() == [b"one", b"two"]


@pytest.mark.parametrize("message", [example(i=feature(1), v=feature(1.0, 2.0)), example(v=feature(1.0))])
def test_sparse_features_of_unequal_length(message):
    for serialized in (message, [message], [b"", message]):
        with pytest.raises(InvalidArgumentError):
            parse_example(serialized, {"a": SparseFeature("i", "v", F32, 10)})
    # Equal in sum, but not in each record.
    with pytest.raises(InvalidArgumentError, match="record 0"):
        parse_example(
            [example(i=feature(1), v=feature(1.0, 2.0)), example(i=feature(1, 2), v=feature(1.0))],
            {"a": SparseFeature("i", "v", F32, 10)},
        )


# ---- RaggedFeature ---------------------------------------------------------------------------------------------------

PARTED = example(
    v=feature(1, 2, 3, 4, 5, 6),
    splits=feature(0, 2, 6),
    lengths=feature(2, 4),
    starts=feature(0, 2),
    limits=feature(2, 6),
    ids=feature(0, 0, 1, 1, 1, 3),
    b=feature(b"p", b"q"),
)
R = RaggedFeature


def test_ragged_features():
    got = many([PARTED, b""], RaggedFeature(I64, "v"))
    assert got.to_list() == [[1, 2, 3, 4, 5, 6], []]
    assert got.row_splits.dtype == np.int32
    assert many([PARTED], RaggedFeature(I64, "v", row_splits_dtype=np.int64)).row_splits.dtype == np.int64
    same(one(PARTED, RaggedFeature(I64), "v"), [1, 2, 3, 4, 5, 6], I64)
    assert many([b"", PARTED], RaggedFeature(bytes), "b").to_list() == [[], [b"p", b"q"]]
    assert one(PARTED, RaggedFeature(bytes), "b").to_list() == [b"p", b"q"]


HALVES = [[1, 2], [3, 4, 5, 6]]


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        ([R.RowSplits("splits")], HALVES),
        ([R.RowLengths("lengths")], HALVES),
        ([R.RowStarts("starts")], HALVES),
        ([R.RowLimits("limits")], HALVES),
        ([R.ValueRowIds("ids")], [[1, 2], [3, 4, 5], [], [6]]),
        ([R.UniformRowLength(3)], [[1, 2, 3], [4, 5, 6]]),
        ([R.UniformRowLength(2), R.RowLengths("lengths")], [HALVES]),
        ([R.UniformRowLength(2), R.UniformRowLength(3)], [[[1, 2, 3], [4, 5, 6]]]),
        ([R.UniformRowLength(2), R.UniformRowLength(2), R.ValueRowIds("ids")], [[[[1, 2], [3, 4, 5]], [[], [6]]]]),
    ],
)
def test_partitions(parts, expected):
    description = RaggedFeature(I64, "v", parts)
    results = one(PARTED, description)
    assert (results.to_list() if isinstance(results, Ragged) else results.tolist()) == expected
    for batch in ([PARTED], [PARTED, b"", PARTED], [b"", b""], []):
        results = many(list(batch), description)
        assert isinstance(results, Ragged)
        if any(isinstance(part, R.UniformRowLength) for part in parts) and not isinstance(results.values, Ragged):
            results = [row.tolist() for row in results]
        else:
            results = results.to_list()
        # A record without values has no row, unless its rows are said to be there.
        assert results == [expected if record else [] for record in batch]


def test_partitioned_bytes():
    message = example(v=feature(b"a", b"b", b"c", b"d"), n=feature(1, 3))
    assert one(message, RaggedFeature(bytes, "v", [R.RowLengths("n")])).to_list() == [[b"a"], [b"b", b"c", b"d"]]
    got = many([message, b""], RaggedFeature(bytes, "v", [R.UniformRowLength(2)]))
    assert got.to_list() == [[[b"a", b"b"], [b"c", b"d"]], []]


@pytest.mark.parametrize(
    ("part", "values"),
    [
        (R.RowSplits, [0, 2]),
        (R.RowSplits, [1, 3]),
        (R.RowSplits, [0, 2, 1, 3]),
        (R.RowSplits, [0, 2**62, 3]),
        (R.RowSplits, []),
        (R.RowLengths, [1, 1]),
        (R.RowLengths, [4, -1]),
        (R.RowLengths, [2**63 - 1, 2**63 - 1, 5]),
        (R.RowStarts, [1, 2]),
        (R.RowStarts, [0, 4]),
        (R.RowStarts, [0, -1]),
        (R.RowLimits, [1, 2]),
        (R.RowLimits, [4, 3]),
        (R.RowLimits, [-1, 3]),
        (R.ValueRowIds, [0, 0]),
        (R.ValueRowIds, [0, 1, 0]),
        (R.ValueRowIds, [-1, 0, 1]),
        (R.ValueRowIds, [0, 0, 0, 0]),
    ],
)
def test_partitions_that_do_not_fit(part, values):
    bad = example(v=feature(1, 2, 3), p=feature(*values, kind=I64))
    good = example(v=feature(1, 2, 3), p=feature(*{R.ValueRowIds: [0, 0, 0], R.RowStarts: [0]}.get(part, [3])))
    if part is R.RowSplits:
        good = example(v=feature(1, 2, 3), p=feature(0, 3))
    description = RaggedFeature(I64, "v", [part("p")])
    assert many([good, good], description).to_list() == [[[1, 2, 3]], [[1, 2, 3]]]
    for serialized in (bad, [bad], [good, bad], [bad, good], [good, bad, good]):
        with pytest.raises(InvalidArgumentError):
            parse_example(serialized, {"a": description})


def test_ids_that_would_need_endless_memory():
    message = example(v=feature(1), p=feature(2**62))
    with pytest.raises(ResourceExhaustedError):
        one(message, RaggedFeature(I64, "v", [R.ValueRowIds("p")]))
    with pytest.raises(ResourceExhaustedError):
        many([message] * 4, RaggedFeature(I64, "v", [R.ValueRowIds("p")]))


def test_rows_that_are_no_multiple():
    with pytest.raises(InvalidArgumentError, match="multiple of 4"):
        many([PARTED], RaggedFeature(I64, "v", [R.UniformRowLength(4)]))
    # Nor may one record make up for another.
    with pytest.raises(InvalidArgumentError):
        many([example(v=feature(1)), example(v=feature(1, 2, 3))], RaggedFeature(I64, "v", [R.UniformRowLength(2)]))


# ---- SequenceExamples ------------------------------------------------------------------------------------------------

WHOLE = sequence(
    {"c": feature(3)},
    a=[feature(1), feature(2)],
    b=[feature(1.0, 2.0), feature(kind=F32), feature(3.0)],
    s=[feature(b"x", b"y")],
)


def test_sequence_examples():
    features = {"a": FixedLenSequenceFeature((), I64, True), "b": VarLenFeature(F32), "s": RaggedFeature(bytes)}
    context, lists, lengths = parse_sequence_example([WHOLE, b""], {"c": FixedLenFeature((), I64, 0)}, features)
    same(context["c"], [3, 0], I64)
    same(lists["a"], [[1, 2], [0, 0]], I64)
    same(lengths["a"], [2, 0], I64)
    assert lists["b"].equals(Sparse([[0, 0, 0], [0, 0, 1], [0, 2, 0]], np.array([1, 2, 3], F32), [2, 3, 2]))
    assert lists["s"].to_list() == [[[b"x", b"y"]], []]
    context, lists = parse_single_sequence_example(WHOLE, {"c": RaggedFeature(I64)}, features)
    same(context["c"], [3], I64)
    same(lists["a"], [1, 2], I64)
    assert lists["b"].equals(Sparse([[0, 0], [0, 1], [2, 0]], np.array([1, 2, 3], F32), [3, 2]))
    assert lists["s"].to_list() == [[b"x", b"y"]]
    context, lists, lengths = parse_sequence_example(WHOLE, None, features)
    assert context == {}
    same(lengths["a"], 2, I64)


def test_partitions_of_feature_lists():
    message = sequence(v=[feature(1, 2, 3), feature(4)], n=[feature(1, 2), feature(1)])
    features = {
        "u": RaggedFeature(I64, "v", [R.UniformRowLength(1)]),
        "n": RaggedFeature(I64, "v", [R.RowLengths("n")], np.int64),
    }
    _, got, _ = parse_sequence_example([message, b""], None, features)
    assert [[step.tolist() for step in steps] for steps in got["u"]] == [[[[1], [2], [3]], [[4]]], []]
    assert got["n"].to_list() == [[[[1], [2, 3]], [[4]]], []]
    _, got = parse_single_sequence_example(message, None, features)
    assert got["n"].to_list() == [[[1], [2, 3]], [[4]]]
    for bad in (sequence(v=[feature(1)]), sequence(v=[feature(1)], n=[feature(1), feature(0)])):
        for serialized in (bad, [bad], [message, bad]):
            with pytest.raises(InvalidArgumentError):
                parse_sequence_example(serialized, None, features)


def test_feature_lists_that_are_missing():
    asked = {"a": FixedLenSequenceFeature((), I64)}
    for serialized in (b"", [b""], [WHOLE, b""]):
        with pytest.raises(InvalidArgumentError, match="Feature list 'a' is required but could not be found"):
            parse_sequence_example(serialized, None, asked)
    _, lists, lengths = parse_sequence_example([sequence(a=[])], None, asked)
    assert lists["a"].shape == (1, 0) and lengths["a"].tolist() == [0]
    with pytest.raises(InvalidArgumentError):
        parse_sequence_example([b""], {"c": FixedLenFeature((), I64)})


@pytest.mark.parametrize(
    "steps", [[feature(1), feature(1, 2)], [feature(1), wire.CLASSES["Feature"]()], [feature(1.0)]]
)
def test_steps_that_do_not_fit(steps):
    for serialized in (sequence(a=steps), [WHOLE, sequence(a=steps)]):
        with pytest.raises(InvalidArgumentError):
            parse_sequence_example(serialized, None, {"a": FixedLenSequenceFeature((), I64, True)})


@pytest.mark.parametrize(
    ("context", "lists"),
    [
        (None, {"a": FixedLenFeature((), I64)}),
        (None, {"a": SparseFeature("a", "a", I64, 3)}),
        (None, {"a": FixedLenSequenceFeature((), I64, True, 5)}),
        ({"c": FixedLenSequenceFeature((), I64, True)}, None),
        ({"c": SparseFeature("c", "c", I64, 3)}, None),
        (None, None),
        ({}, {}),
        ([], {"a": VarLenFeature(I64)}),
    ],
)
def test_descriptions_that_go_elsewhere(context, lists):
    with pytest.raises(InvalidArgumentError):
        parse_sequence_example([WHOLE], context, lists)


def test_context_and_lists_have_keys_of_their_own():
    message = sequence({"a": feature(3)}, a=[feature(b"x")])
    context, lists, _ = parse_sequence_example([message], {"a": FixedLenFeature((), I64)}, {"a": RaggedFeature(bytes)})
    same(context["a"], [3], I64)
    assert lists["a"].to_list() == [[[b"x"]]]


def test_an_example_has_no_feature_lists():
    # Field 2 is one that nobody knows there.
    assert parse_single_example(tagged(2, 0, b"\x05") + example(a=feature(4)), {"a": FixedLenFeature((), I64)})


# ---- the wire --------------------------------------------------------------------------------------------------------

A = tagged(1, 2, b"a")


def of(*entries):
    return tagged(1, 2, b"".join(entries))


def test_packed_and_unpacked_values_in_any_mixture():
    for chunks in ([[1, -2, 300]], [1, -2, 300], [[], [1], -2, [300]], [1, [-2, 300], []]):
        message = of(entry(b"a", tagged(3, 2, int_list(*chunks))))
        same(one(message, FixedLenFeature(3, I64)), [1, -2, 300], I64)
        same(one(message, VarLenFeature(I64)).values, [1, -2, 300], I64)
        message = of(entry(b"a", tagged(2, 2, float_list(*chunks))))
        same(one(message, FixedLenFeature(3, F32)), [1, -2, 300], F32)


def test_numbers_come_out_bit_for_bit():
    values = [0, -1, 2**63 - 1, -(2**63), 127, 128, 2**56]
    same(one(example(a=feature(*values)), FixedLenFeature(7, I64)), values, I64)
    values = [math.nan, -0.0, math.inf, 1e-45, 3.4e38]
    got = one(example(a=feature(*values)), FixedLenFeature(5, F32))
    assert got.tobytes() == np.array(values, F32).tobytes()


def test_the_last_entry_of_a_key_wins():
    entries = [entry(b"a", tagged(3, 2, int_list([n]))) for n in (1, 2, 3)]
    for message in (of(*entries), of(entries[0]) + of(*entries[1:])):
        same(one(message, FixedLenFeature((), I64)), 3, I64)
    # Also where it says that there is nothing, or something else.
    same(one(of(entries[0], entry(b"a")), FixedLenFeature((), I64, 9)), 9, I64)
    last = entry(b"a", tagged(2, 2, float_list(0.5)))
    same(one(of(*entries, last), FixedLenFeature((), F32)), 0.5, F32)


def test_keys_are_bytes():
    assert one(of(entry(b"\xff\0", tagged(1, 2, bytes_list(b"v")))), FixedLenFeature((), bytes), b"\xff\0")
    message = of(tagged(1, 2, tagged(2, 2, tagged(3, 2, int_list(4)))))
    same(one(message, FixedLenFeature((), I64), ""), 4, I64)
    message = example(ä=feature(5))
    same(one(message, FixedLenFeature((), I64), "ä"), 5, I64)


def test_unknown_fields_everywhere():
    more = tagged(9, 0, b"\x05") + tagged(10, 1, b"8 bytes.") + tagged(11, 5, b"four")
    more += tagged(12, 2, b"any") + group(13, group(14, tagged(1, 0, b"\1")))
    ints = tagged(3, 2, more + int_list(4) + more)
    found = tagged(1, 2, more + A + more + tagged(2, 2, more + ints + more) + more)
    message = more + tagged(1, 2, more + found + more) + more
    same(one(message, FixedLenFeature((), I64)), 4, I64)
    same(one(message, VarLenFeature(I64)).values, [4], I64)
    steps = tagged(1, 2, more + tagged(3, 2, int_list(4)) + more) + more
    lists = tagged(2, 2, more + tagged(1, 2, A + more + tagged(2, 2, more + steps)))
    _, got, _ = parse_sequence_example([more + lists + more], None, {"a": RaggedFeature(I64)})
    assert got["a"].to_list() == [[[4]]]


def test_many_keys_in_any_order():
    # More than a batch remembers the places of; the order changes from record to record.
    keys = [f"feature_number_{i:04}" for i in range(300)]
    features = {key: FixedLenFeature((), I64) for key in keys[::3]}
    rng = np.random.default_rng(5)
    entries = [entry(key.encode(), tagged(3, 2, int_list(i))) for i, key in enumerate(keys)]
    batch = [of(*[entries[i] for i in rng.permutation(300)]) for _ in range(5)]
    got = parse_example(batch, features)
    assert {key: value.tolist() for key, value in got.items()} == {key: [3 * i] * 5 for i, key in enumerate(keys[::3])}


# ---- input -----------------------------------------------------------------------------------------------------------


def test_kinds_of_input():
    a, b = example(a=feature(1)), example(a=feature(2))
    wanted = [1, 2]
    inputs = [[a, b], (a, b), np.array([a, b], object), Ragged.from_list([b"", a, b])[1:]]
    inputs.append([bytearray(a), memoryview(b)])
    for value in inputs:
        same(many(value, FixedLenFeature((), I64)), wanted, I64)
    for value in (a, bytearray(a), memoryview(a), np.array(a, object)):
        same(many(value, FixedLenFeature((), I64)), 1, I64)
        same(one(value, FixedLenFeature((), I64)), 1, I64)


@pytest.mark.parametrize(
    "value",
    [5, [5], "text", [b"", None], [[b""]], [b"", [b""]], Ragged([1], [0, 1]), np.array([b"a"]), np.array([[b""]], "O")],
)
def test_input_that_is_none(value):
    with pytest.raises(InvalidArgumentError):
        parse_example(value, {"a": VarLenFeature(I64)})


def test_one_message_where_one_is_expected():
    for call in (parse_single_example, parse_single_sequence_example):
        for value in ([b""], [], Ragged.from_list([b""])):
            with pytest.raises(InvalidArgumentError, match="expected one"):
                call(value, {"a": VarLenFeature(I64)})


def test_names_for_messages():
    with pytest.raises(InvalidArgumentError, match="2 example_names for 1"):
        parse_example([b""], {"a": VarLenFeature(I64)}, example_names=["a", "b"])
    with pytest.raises(InvalidArgumentError, match="Name: y"):
        parse_example([b""], {"a": FixedLenFeature((), I64)}, example_names=[b"y"])


def test_an_empty_batch():
    features = {
        "f": FixedLenFeature((2, 3), F32),
        "s": FixedLenFeature((), bytes),
        "r": RaggedFeature(I64, "v", [R.RowLengths("n")]),
        "p": SparseFeature(["i", "j"], "w", bytes, [2, 2]),
    }
    got = parse_example([], features)
    assert got["f"].shape == (0, 2, 3)
    assert len(got["s"]) == len(got["r"]) == len(got["p"].values) == 0
    assert got["p"].dense_shape.tolist() == [0, 2, 2]


def test_records_keep_the_splits_that_were_checked():
    one = example(a=feature(1))
    splits = np.array([0, len(one), 2 * len(one)])
    records = Ragged(np.frombuffer(one * 2, "S1"), splits)
    splits[1] = 10**9
    with pytest.raises(ValueError, match="read-only"):
        records.row_splits[1] = 10**9
    assert many(records, FixedLenFeature((), I64)).tolist() == [1, 1]


# ---- stages ----------------------------------------------------------------------------------------------------------

ASKED = {
    "f": FixedLenFeature((2,), F32),
    "s": FixedLenFeature((), bytes, b"none"),
    "t": FixedLenFeature((2,), bytes, [b"", b"q"]),
    "q": FixedLenSequenceFeature((), I64, True),
    "v": VarLenFeature(I64),
    "w": SparseFeature("v", "x", bytes, 9),
}
MESSAGES = [
    example(f=feature(1.0, 2.0), s=feature(b"abc"), q=feature(4, 5), v=feature(7, 6), x=feature(b"p", b"qq")),
    example(f=feature(3.0, 4.0), t=feature(b"r", b"s")),
]


def test_a_stage_on_a_batch():
    stage = qc.ops.parse_example(features=ASKED)
    assert repr(stage) == "parse_example(f, s, t, q, v, w)"
    step = stage.bind([Component(BYTES, (2,))])
    assert [(c.name, c.dtype, c.shape) for c in step.outputs] == [
        ("f", np.dtype(F32), (2, 2)),
        ("s", BYTES, (2,)),
        ("t", BYTES, (2, 2)),
        ("q", np.dtype(I64), (2, None)),
        ("v.values", np.dtype(I64), (None,)),
        ("v.row_splits", np.dtype(I64), (3,)),
        ("x.values", BYTES, (None,)),
        ("x.row_splits", np.dtype(I64), (3,)),
    ]
    got = [part.tolist() for part in step(np.array(MESSAGES, object))]
    assert got == [
        [[1, 2], [3, 4]],
        [b"abc", b"none"],
        [[b"", b"q"], [b"r", b"s"]],
        [[4, 5], [0, 0]],
        [7, 6],
        [0, 2, 2],
        [b"p", b"qq"],
        [0, 2, 2],
    ]
    step = stage.bind([Component(BYTES, (None,))])
    assert step.outputs[0].shape == (None, 2)
    assert step(np.array(MESSAGES[:1], object))[0].tolist() == [[1, 2]]


def test_a_stage_on_one_message():
    stage = parse_single_example(features=ASKED)
    step = stage.bind([Component(BYTES, ())])
    assert [(c.name, c.shape) for c in step.outputs] == [
        ("f", (2,)),
        ("s", ()),
        ("t", (2,)),
        ("q", (None,)),
        ("v.values", (None,)),
        ("x.values", (None,)),
    ]
    got = step(MESSAGES[0])
    assert got[1] == b"abc"
    assert [part.tolist() for part in got[:1] + got[2:]] == [[1, 2], [b"", b"q"], [4, 5], [7, 6], [b"p", b"qq"]]
    assert parse_example(features=ASKED).bind([Component(BYTES, ())])(MESSAGES[1])[1] == b"none"


def test_a_stage_on_sequence_examples():
    stage = parse_sequence_example(
        context_features={"c": FixedLenFeature((), I64, 0)},
        sequence_features={"a": FixedLenSequenceFeature((), I64, True), "b": VarLenFeature(F32)},
    )
    step = stage.bind([Component(BYTES, (2,))])
    assert [(c.name, c.shape) for c in step.outputs] == [
        ("context.c", (2,)),
        ("feature_lists.a", (2, None)),
        ("feature_lists.a.lengths", (2,)),
        ("feature_lists.b.values", (None,)),
        ("feature_lists.b.step_splits", (None,)),
        ("feature_lists.b.row_splits", (3,)),
    ]
    got = [part.tolist() for part in step(np.array([WHOLE, b""], object))]
    assert got == [[3, 0], [[1, 2], [0, 0]], [2, 0], [1, 2, 3], [0, 2, 2, 3], [0, 3, 3]]
    stage = parse_single_sequence_example(sequence_features={"b": VarLenFeature(F32)})
    got = [part.tolist() for part in stage.bind([Component(BYTES, ())])(WHOLE)]
    assert got == [[1, 2, 3], [0, 2, 2, 3]]


def test_stages_refuse_what_they_cannot_take():
    stage = parse_single_example(features=ASKED)
    for given in ([], [Component(np.dtype(I64), ())], [Component(BYTES, (3,))], [Component(BYTES, None)]):
        with pytest.raises(InvalidArgumentError):
            stage.bind(given)
    with pytest.raises(InvalidArgumentError):
        parse_example(features=ASKED).bind([Component(BYTES, (2, 2))])


def test_a_stage_says_what_is_wrong():
    step = parse_example(features=ASKED).bind([Component(BYTES, (2,))])
    with pytest.raises(InvalidArgumentError, match="Feature: f .* is required"):
        step(np.array([MESSAGES[0], b""], object))
    with pytest.raises(ProtoError, match="record 1 .* byte 0"):
        step(np.array([MESSAGES[0], b"\xff"], object))
    with pytest.raises(TypeError):
        step.__init__("x", (), (), [])


def test_one_step_in_many_threads():
    step = parse_example(features=ASKED).bind([Component(BYTES, (None,))])
    batches = [
        [example(f=feature(i / 2, j / 2), s=feature(b"%d" % i * j), v=feature(*range(i)), x=feature(*[b"x"] * i))] * 20
        for i in range(1, 5)
        for j in range(1, 5)
    ]
    wanted = [[part.tolist() for part in step(np.array(batch, object))] for batch in batches]
    with ThreadPoolExecutor(8) as pool:
        futures = [pool.submit(step, np.array(batch, object)) for batch in batches * 20]
        for future, right in zip(futures, wanted * 20, strict=True):
            assert [part.tolist() for part in future.result()] == right


def test_a_program_fills_a_queue_with_examples(tmp_path):
    messages = [example(label=feature(i), image=feature(bytes([i]) * 50), box=feature(i / 2, 1.0)) for i in range(100)]
    size = len(messages[0])
    (tmp_path / "a").write_bytes(b"".join(messages))
    features = {
        "image": FixedLenFeature((), bytes),
        "box": FixedLenFeature(2, F32),
        "label": FixedLenFeature((), I64),
        "weight": FixedLenFeature((), F32, 0.5),
    }
    queue = qc.FIFOQueue(10, [I64, bytes, F32, F32], [(), (), (), (2,)], names=["label", "image", "weight", "box"])
    stage = parse_single_example(features=features)
    program = qc.StageProgram(qc.FixedLengthRecordReader(size), [tmp_path / "a"], stage)
    coord = qc.Coordinator()
    threads = qc.QueueRunner(queue, [program]).create_threads(coord, start=True)
    got = list(queue)
    coord.join(threads)
    assert [element["label"] for element in got] == list(range(100))
    assert [element["image"] for element in got] == [bytes([i]) * 50 for i in range(100)]
    assert [element["box"].tolist() for element in got] == [[i / 2, 1.0] for i in range(100)]
    assert {element["weight"].item() for element in got} == {0.5}


def test_a_program_says_which_record_does_not_parse(tmp_path):
    messages = [example(a=feature(i)) for i in range(5)]
    messages[3] = b"\xff" * len(messages[3])
    (tmp_path / "a").write_bytes(b"".join(messages))
    queue = qc.FIFOQueue(10, [I64], [()])
    stage = parse_single_example(features={"a": FixedLenFeature((), I64)})
    program = qc.StageProgram(qc.FixedLengthRecordReader(len(messages[0])), [tmp_path / "a"], stage)
    coord = qc.Coordinator()
    threads = qc.QueueRunner(queue, [program]).create_threads(coord, start=True)
    assert [queue.dequeue(timeout=30).item() for _ in range(3)] == [0, 1, 2]
    with pytest.raises(ProtoError) as caught:
        coord.join(threads)
    assert caught.value.record == 3
    assert caught.value.path == str(tmp_path / "a")


def test_what_the_stage_gives_is_what_the_eager_call_gives():
    assert ops.parse_example(MESSAGES, ASKED)["w"].equals(
        Sparse([[0, 6], [0, 7]], Ragged.from_list([b"qq", b"p"]), [2, 9])
    )
