"""tf.train's Example messages against protobuf's own, whose classes are made of descriptors in helpers."""

import copy
import json
import pickle
import struct
import subprocess

import numpy as np
import pytest
from google.protobuf.message import DecodeError
from helpers.formats.example_messages import CLASSES
from helpers.tensorflow.peers import PYTHON, asks_tensorflow
from hypothesis import given, settings, strategies as st

import queuecore as qc
import queuecore.tf1 as tf

T = tf.train
INT64 = st.integers(-(2**63), 2**63 - 1)
FLOATS = st.floats(width=32, allow_nan=False)

features = st.one_of(
    st.lists(st.binary(max_size=5), max_size=3).map(lambda v: ("bytes_list", v)),
    st.lists(FLOATS, max_size=3).map(lambda v: ("float_list", v)),
    st.lists(INT64 | st.integers(0, 300), max_size=4).map(lambda v: ("int64_list", v)),
    st.just(None),
)
# Not one the beginning of another: of these protobuf puts the longer one first.
KEYS = st.text(min_size=2, max_size=2)
maps = st.dictionaries(KEYS, features, max_size=4)
steps = st.dictionaries(KEYS, st.lists(features, max_size=3), max_size=3)


def filled(message, chosen):
    if chosen is not None:
        name, values = chosen
        getattr(message, name).value.extend(values)
        getattr(message, name).SetInParent()


def example_of(make, chosen):
    message = make()
    for key, one in chosen.items():
        filled(message.features.feature[key], one)
    return message


def sequence_of(make, context, lists):
    message = make()
    for key, one in context.items():
        filled(message.context.feature[key], one)
    for key, each in lists.items():
        for one in each:
            filled(message.feature_lists.feature_list[key].feature.add(), one)
        message.feature_lists.feature_list[key].SetInParent()
    return message


@given(maps)
@settings(max_examples=150, deadline=None)
def test_examples_have_protobufs_bytes(features):
    ours, theirs = example_of(T.Example, features), example_of(CLASSES["Example"], features)
    wire = theirs.SerializeToString(deterministic=True)
    assert ours.SerializeToString() == wire
    assert ours.ByteSize() == len(wire)
    back = T.Example.FromString(theirs.SerializeToString())
    assert back == ours
    assert CLASSES["Example"].FromString(ours.SerializeToString()) == theirs
    for key in features:
        assert back.features.feature[key].WhichOneof("kind") == theirs.features.feature[key].WhichOneof("kind")
    assert pickle.loads(pickle.dumps(ours)) == copy.deepcopy(ours) == ours


@given(maps, steps)
@settings(max_examples=100, deadline=None)
def test_sequence_examples_have_protobufs_bytes(context, lists):
    ours = sequence_of(T.SequenceExample, context, lists)
    theirs = sequence_of(CLASSES["SequenceExample"], context, lists)
    assert ours.SerializeToString() == theirs.SerializeToString(deterministic=True)
    assert T.SequenceExample.FromString(theirs.SerializeToString()) == ours


@given(maps, maps)
@settings(max_examples=80, deadline=None)
def test_two_messages_become_one_as_protobuf_does_it(features, other):
    ours, theirs = example_of(T.Example, features), example_of(CLASSES["Example"], features)
    wire = example_of(CLASSES["Example"], other).SerializeToString()
    ours.MergeFromString(wire)
    theirs.MergeFromString(wire)
    assert ours.SerializeToString() == theirs.SerializeToString(deterministic=True)
    ours.MergeFrom(example_of(T.Example, features))
    theirs.MergeFrom(example_of(CLASSES["Example"], features))
    assert ours.SerializeToString() == theirs.SerializeToString(deterministic=True)


@given(st.binary(max_size=40) | maps.map(lambda m: example_of(CLASSES["Example"], m).SerializeToString()), st.data())
@settings(max_examples=300, deadline=None)
def test_what_protobuf_refuses_is_refused(wire, data):
    if wire and data.draw(st.booleans()):  # damaged
        at = data.draw(st.integers(0, len(wire) - 1))
        wire = wire[:at] + bytes([data.draw(st.integers(0, 255))]) + wire[at + data.draw(st.integers(0, 2)) :]
    try:
        theirs = CLASSES["Example"].FromString(wire)
    except DecodeError:
        theirs = None
    try:
        ours = T.Example.FromString(wire)
    except qc.errors.ProtoError:
        ours = None
    if theirs is None or ours is None:
        # Groups, which no message here has, are all refused here.
        assert ours is None
        assert theirs is None or any(byte & 7 in (3, 4) for byte in wire)


@asks_tensorflow
def test_examples_have_tensorflows_bytes_and_text():
    program = """
import json, sys
import tensorflow as tf
made = tf.train.Example()
f = made.features.feature
f["i"].int64_list.value.extend([1, 300, -1])
print(json.dumps([made.SerializeToString().hex(), str(made)]))
"""
    told = subprocess.run([PYTHON, "-c", program], capture_output=True, check=True, timeout=300, text=True)
    wire, text = json.loads(told.stdout.splitlines()[-1])
    made = T.Example()
    made.features.feature["i"].int64_list.value.extend([1, 300, -1])
    assert (made.SerializeToString().hex(), str(made)) == (wire, text)


@pytest.mark.parametrize(
    ("key", "feature", "wire"),
    [
        ("a", T.Feature(int64_list=T.Int64List(value=[1, 300])), "0a0e0a0c0a016112071a050a0301ac02"),
        ("f", T.Feature(float_list=T.FloatList(value=[1.5])), "0a0f0a0d0a0166120812060a040000c03f"),
        ("b", T.Feature(bytes_list=T.BytesList(value=[b"x"])), "0a0c0a0a0a016212050a030a0178"),
    ],
)
def test_recorded_bytes(key, feature, wire):
    made = T.Example(features=T.Features(feature={key: feature}))
    assert made.SerializeToString().hex() == wire
    assert T.Example.FromString(bytes.fromhex(wire)) == made


def test_parse_example_reads_them():
    rows = []
    for i in range(3):
        example = T.Example()
        example.features.feature["name"].bytes_list.value.append(b"n%d" % i)
        example.features.feature["point"].float_list.value.extend(np.array([i, i / 2]))
        example.features.feature["ids"].int64_list.value.extend(range(-i, 0))
        rows.append(example.SerializeToString())
    parsed = qc.ops.parse_example(
        rows,
        {
            "name": tf.FixedLenFeature([], tf.string),
            "point": tf.FixedLenFeature([2], tf.float32),
            "ids": tf.FixedLenSequenceFeature([], tf.int64, allow_missing=True),
        },
    )
    assert list(parsed["name"]) == [b"n0", b"n1", b"n2"]
    assert parsed["point"].tolist() == [[0, 0], [1, 0.5], [2, 1]]
    assert parsed["ids"].tolist() == [[0, 0], [-1, 0], [-2, -1]]


def test_reading_sets_nothing_and_changing_does():
    feature = T.Feature()
    assert len(feature.int64_list.value) == 0
    assert (feature.WhichOneof("kind"), feature.HasField("int64_list")) == (None, False)
    feature.int64_list.value.append(1)
    assert feature.WhichOneof("kind") == "int64_list"
    feature.float_list.value.append(2)
    assert feature.WhichOneof("kind") == "float_list"
    assert list(feature.int64_list.value) == []
    assert feature.SerializeToString() == bytes.fromhex("12060a0400000040")
    empty = T.Feature(int64_list=T.Int64List())
    assert empty.HasField("int64_list")
    assert empty != T.Feature()
    example = T.Example()
    assert not example.HasField("features")
    example.features.feature["x"]  # is there from now on
    assert example.HasField("features")
    assert example.SerializeToString().hex() == "0a070a050a01781200"
    example.ClearField("features")
    assert example.SerializeToString() == b""


def test_a_list_of_a_field_that_was_dropped_changes_nothing_there():
    feature = T.Feature()
    old = feature.int64_list
    old.value.append(1)
    feature.float_list.value.append(2)
    old.value.append(3)
    assert feature.WhichOneof("kind") == "float_list"


def test_what_is_given_is_copied():
    ids = T.Int64List(value=[1])
    feature = T.Feature(int64_list=ids)
    ids.value.append(2)
    assert list(feature.int64_list.value) == [1]
    table = T.Features(feature={"a": feature})
    feature.int64_list.value.append(3)
    assert list(table.feature["a"].int64_list.value) == [1]


@pytest.mark.parametrize(
    ("make", "error"),
    [
        (lambda: T.Int64List(value=[1.5]), TypeError),
        (lambda: T.Int64List(value=[np.float32(2)]), TypeError),
        (lambda: T.Int64List(value=["1"]), TypeError),
        (lambda: T.Int64List(value=[np.bool_(True)]), TypeError),
        (lambda: T.Int64List(value=[2**63]), ValueError),
        (lambda: T.Int64List(value=3), TypeError),
        (lambda: T.BytesList(value=["x"]), TypeError),
        (lambda: T.BytesList(value=b"ab"), TypeError),
        (lambda: T.BytesList(value=[bytearray(b"x")]), TypeError),
        (lambda: T.FloatList(value=["1"]), TypeError),
        (lambda: T.Feature(int64_list=T.FloatList()), TypeError),
        (lambda: setattr(T.Feature(), "int64_list", T.Int64List()), AttributeError),
        (lambda: setattr(T.Int64List(), "value", [1]), AttributeError),
        (lambda: setattr(T.Feature(), "nope", 1), AttributeError),
        (lambda: T.Feature().nope, AttributeError),
        (lambda: T.Int64List([1]), TypeError),
        (lambda: T.Features().feature.__setitem__("a", T.Feature()), ValueError),
        (lambda: T.Int64List().HasField("value"), ValueError),
        (lambda: T.Int64List().HasField("nope"), ValueError),
        (lambda: T.Feature().WhichOneof("nope"), ValueError),
        (lambda: T.Int64List().ClearField("nope"), ValueError),
        (lambda: hash(T.Int64List()), TypeError),
        (lambda: T.Example().CopyFrom(T.Features()), TypeError),
        (lambda: T.Example.FromString(b"\x0a\xff"), tf.errors.InvalidArgumentError),
    ],
)
def test_mistakes(make, error):  # all of them are TensorFlow's own answers
    with pytest.raises(error):
        make()


def test_numbers_of_all_kinds():
    assert list(T.Int64List(value=[True, np.int32(-2), np.uint8(3)]).value) == [1, -2, 3]
    assert list(T.Int64List(value=np.array([1, -2], np.int16)).value) == [1, -2]
    floats = T.FloatList(value=[0.1, 1e40, np.float64(2), 3, True])
    assert list(floats.value) == [np.float32(0.1), float("inf"), 2, 3, 1]
    floats = T.FloatList(value=np.array([0.1, 1e40]))
    assert list(floats.value) == [np.float32(0.1), float("inf")]
    wire = T.FloatList(value=[float("nan"), -0.0, 1e-45]).SerializeToString()
    assert struct.unpack("<3f", wire[2:])[1:] == (-0.0, struct.unpack("<f", b"\1\0\0\0")[0])


def test_lists_are_lists():
    ids = T.Int64List(value=[3, 1, 2]).value
    ids.sort()
    ids.insert(0, 9)
    ids[1:2] = [7, 8]
    del ids[0]
    ids += [5]
    assert ids == [7, 8, 2, 3, 5]
    assert (ids[1:], ids.pop(), len(ids), 8 in ids) == ([8, 2, 3, 5], 5, 4, True)
    ids.remove(8)
    assert ids == [7, 2, 3]


def test_maps_are_maps():
    table = T.Features(feature={"b": T.Feature(), b"a": T.Feature()}).feature
    assert sorted(table) == sorted(table.keys()) == ["a", "b"]
    assert (len(table), "a" in table, 3 in table, table.get("c"), table.get("c", 1)) == (2, True, False, None, 1)
    table["a"].CopyFrom(T.Feature(int64_list=T.Int64List(value=[4])))
    assert {key: one.WhichOneof("kind") for key, one in table.items()} == {"a": "int64_list", "b": None}
    del table["a"]
    assert table.pop("b") == T.Feature()
    assert len(table) == 0
    with pytest.raises(TypeError):
        table[3]


def test_unpacked_numbers_and_fields_of_other_messages():
    assert list(T.Int64List.FromString(b"\x08\x05\x08\x06\x0a\x01\x07").value) == [5, 6, 7]
    assert list(T.FloatList.FromString(b"\x0d\0\0\xc0\x3f\x0a\x04\0\0\0\x40").value) == [1.5, 2]
    assert T.Int64List.FromString(b"\x10\x05\x1a\x01x\x0d\x05\0\0\0") == T.Int64List()


def test_text():
    example = T.Example(
        features=T.Features(
            feature={
                "b": T.Feature(bytes_list=T.BytesList(value=[b"x\0\n\"'\xff\\"])),
                "f": T.Feature(float_list=T.FloatList(value=[1.5, 0.1, 1e10, 3])),
            }
        )
    )
    assert str(example) == (
        'features {\n  feature {\n    key: "b"\n    value {\n      bytes_list {\n'
        '        value: "x\\000\\n\\"\\\'\\377\\\\"\n      }\n    }\n  }\n'
        '  feature {\n    key: "f"\n    value {\n      float_list {\n        value: 1.5\n        value: 0.1\n'
        "        value: 1e+10\n        value: 3\n      }\n    }\n  }\n}\n"
    )
