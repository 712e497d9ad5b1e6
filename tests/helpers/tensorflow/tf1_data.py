"""Programs over datasets that TensorFlow 1 and `queuecore.tf1` both run; as a program, TensorFlow's answers as JSON.

Each takes the module and a directory, and returns what both must agree on. What TensorFlow answered last is recorded in
tests/corpus/tensorflow/datasets.json.
"""

from __future__ import annotations

import json
import os
import pathlib
import struct
import sys
import tempfile
import zlib
from collections import OrderedDict, namedtuple
from collections.abc import Callable
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")

import numpy as np

RECORDED = pathlib.Path(__file__).parents[2] / "corpus" / "tensorflow" / "datasets.json"
PROGRAMS: dict[str, Callable[[Any, str], Any]] = {}
Pair = namedtuple("Pair", "left right")


def program(function: Callable[[Any, str], Any]) -> Callable[[Any, str], Any]:
    PROGRAMS[function.__name__] = function
    return function


def shown(value: Any) -> Any:
    """Return a value of a run as JSON has it, with its type."""
    if isinstance(value, dict):
        return {str(key): shown(inner) for key, inner in value.items()}
    if hasattr(value, "dense_shape"):
        return [shown(value.indices), shown(value.values), shown(value.dense_shape)]
    if isinstance(value, (list, tuple)):
        return [shown(inner) for inner in value]
    if isinstance(value, bytes):
        return value.decode("latin-1")
    array = np.asarray(value)
    if array.dtype == object:
        return [list(array.shape), [text.decode("latin-1") for text in array.ravel()]]
    return [str(array.dtype), array.tolist()]


def static(value: Any) -> Any:
    """Return what is known of tensors, or of shapes."""
    if isinstance(value, dict):
        return {str(key): static(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)) and not hasattr(value, "as_list"):
        return [static(one) for one in value]
    if hasattr(value, "as_list"):
        return None if value.ndims is None else value.as_list()
    if hasattr(value, "get_shape"):
        return [static(value.dtype), static(value.get_shape())]
    return name if (name := np.dtype(getattr(value, "as_numpy_dtype", value)).name) != "object" else "bytes"


def drained(tf: Any, sess: Any, fetch: Any, most: int = 60) -> list[Any]:
    """Return what runs give, and how they end."""
    out: list[Any] = []
    for _ in range(most):
        try:
            out.append(shown(sess.run(fetch)))
        except tf.errors.OutOfRangeError:
            return [*out, "end"]
    return out


def elements(tf: Any, dataset: Any, most: int = 60) -> Any:
    """Return what is known of a dataset's elements, and these."""
    fetch = tf.data.make_one_shot_iterator(dataset).get_next()
    with tf.Session() as sess:
        return [static(fetch), drained(tf, sess, fetch, most)]


def failing(make: Callable[[], Any]) -> str:
    """Return the first class, of those that both have, of what is raised."""
    try:
        return repr(make())
    except Exception as error:
        names = [one.__name__ for one in type(error).__mro__]
        return next(one for one in names if one.endswith("Error") and one not in ("OpError", "QueueCoreError"))


# ---- sources


@program
def slices(tf: Any, folder: str) -> Any:
    ds = tf.data.Dataset
    return [
        elements(tf, ds.from_tensor_slices(np.arange(6.0).reshape(3, 2))),
        elements(tf, ds.from_tensor_slices([1, 2, 3])),
        elements(tf, ds.from_tensor_slices([1.5, 2.5])),
        elements(tf, ds.from_tensor_slices({"a": np.array([1, 2], np.uint8), "b": ["x", "yz"]})),
        elements(
            tf, ds.from_tensor_slices((np.zeros((2, 2, 2), np.float32), [[b"a", b"b"], [b"c", b""]], [True, False]))
        ),
        elements(tf, ds.from_tensor_slices(Pair(np.array([1, 2]), OrderedDict([("z", [3, 4]), ("b", [5.0, 6.0])])))),
        elements(tf, ds.from_tensors((1, [2.0, 3.0], "s", {"k": [[1], [2]]}))),
        elements(tf, ds.from_tensors(tf.constant([1, 2]) + 1)),
        elements(tf, ds.from_tensor_slices(tf.range(3))),
    ]


@program
def ranges(tf: Any, folder: str) -> Any:
    ds = tf.data.Dataset
    return [elements(tf, ds.range(*one)) for one in ((4,), (2, 5), (5, 0, -2), (0, 10, 3), (3, 3))]


@program
def generators(tf: Any, folder: str) -> Any:
    ds = tf.data.Dataset

    def pairs(n: Any) -> Any:
        for i in range(n):
            yield i, [i] * i

    def words() -> Any:
        yield "a", {"x": 1.0}
        yield b"b", {"x": 2}

    return [
        elements(tf, ds.from_generator(lambda: range(3), tf.int32)),
        elements(
            tf, ds.from_generator(pairs, (tf.int64, tf.float32), (tf.TensorShape([]), tf.TensorShape([None])), [3])
        ),
        elements(tf, ds.from_generator(words, (tf.string, {"x": tf.float64}), ([], {"x": []}))),
        elements(tf, ds.from_generator(lambda: range(4), tf.int64, []).batch(3).repeat(2)),
    ]


@program
def files(tf: Any, folder: str) -> Any:
    names = [os.path.join(folder, f"{n}.txt") for n in "abc"]
    for i, name in enumerate(names):
        with open(name, "w") as file:
            file.write("".join(f"{i}{j}\r\n" for j in range(i + 1)))
    packed = os.path.join(folder, "p.z")
    with open(packed, "wb") as file:
        file.write(zlib.compress(b"x\ny\n"))
    cut = os.path.join(folder, "fixed")
    with open(cut, "wb") as file:
        file.write(b"HHaaabbb\0\xff\0F")
    ds = tf.data.Dataset
    lines = tf.data.TextLineDataset
    fixed = tf.data.FixedLengthRecordDataset
    return [
        elements(tf, lines(names)),
        elements(tf, lines(names[1]).skip(1)),
        elements(tf, lines([packed], "ZLIB")),
        elements(tf, lines(names, num_parallel_reads=2)),
        elements(tf, lines(ds.from_tensor_slices(names))),
        elements(tf, lines(tf.constant(names)[:2])),
        elements(tf, fixed([cut], 3, 2, 1)),
        elements(tf, fixed(cut, 3, 2, 1).map(lambda one: tf.decode_raw(one, tf.uint8))),
        elements(tf, ds.from_tensor_slices(names).flat_map(lambda one: lines(one).skip(1))),
        elements(tf, ds.from_tensor_slices(names).interleave(lines, cycle_length=2, block_length=1)),
        elements(tf, ds.list_files(os.path.join(folder, "*.txt"), shuffle=False).map(lambda one: (one, 1)).take(0)),
        [one[-5:] for one in elements(tf, ds.list_files([names[2], names[0]], shuffle=False))[1]],
    ]


def record(data: bytes) -> bytes:
    """Return a TFRecord, its checksums by a table."""

    def masked(text: bytes) -> bytes:
        crc = 0xFFFFFFFF
        for byte in text:
            crc ^= byte
            for _ in range(8):
                crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
        crc ^= 0xFFFFFFFF
        return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)

    size = struct.pack("<Q", len(data))
    return size + masked(size) + data + masked(data)


@program
def records(tf: Any, folder: str) -> Any:
    names = [os.path.join(folder, f"{n}.tfrecord") for n in "ab"]
    for i, name in enumerate(names):
        with open(name, "wb") as file:
            file.write(b"".join(record(b"%d-%d" % (i, j)) for j in range(3)))
    ds = tf.data.Dataset
    return [
        elements(tf, tf.data.TFRecordDataset(names)),
        elements(tf, ds.from_tensor_slices(names).apply(
            tf.data.experimental.parallel_interleave(tf.data.TFRecordDataset, cycle_length=2))),
        elements(tf, ds.from_tensor_slices(names).interleave(
            lambda one: tf.data.TFRecordDataset(one).take(2).map(lambda text: (text, one)), 2).map(lambda a, b: a)),
    ]  # fmt: skip


# ---- steps


@program
def steps(tf: Any, folder: str) -> Any:
    ds = tf.data.Dataset
    ten = ds.range(10)
    return [
        elements(tf, ten.repeat(2).take(13).skip(2)),
        elements(tf, ten.shard(3, 1)),
        elements(tf, ten.batch(4)),
        elements(tf, ten.batch(4, drop_remainder=True)),
        elements(tf, ten.batch(4).batch(2)),
        elements(tf, ten.enumerate(5).skip(8)),
        elements(tf, ten.prefetch(3).take(2)),
        elements(tf, ten.cache().repeat(2).skip(9).take(3)),
        elements(tf, ten.filter(lambda x: tf.equal(x % 3, 0))),
        elements(tf, ten.concatenate(ds.range(3)).skip(9)),
        elements(tf, ds.zip((ten, {"b": ds.range(3, 6), "a": ds.range(2)}))),
        elements(tf, ds.zip((ten, ds.range(2))).map(lambda a, b: {"sum": a + b, "both": (a, b)})),
        elements(tf, ten.flat_map(lambda x: ds.range(x)).take(8)),
        elements(tf, ten.interleave(lambda x: ds.range(x, x + 3), cycle_length=3, block_length=2).take(20)),
        elements(tf, ten.window(4, 3, 1, True).flat_map(lambda one: one.batch(4))),
        elements(tf, ds.zip((ten, ten.map(lambda x: x * 2))).window(4).flat_map(
            lambda a, b: ds.zip((a.batch(4), b.batch(4))))),
        elements(tf, ten.batch(4).apply(tf.data.experimental.unbatch()).take(5)),
        elements(tf, ten.apply(tf.data.experimental.map_and_batch(lambda x: (x, x * 2), 4))),
        elements(tf, ten.apply(tf.data.experimental.map_and_batch(lambda x: x, 4, drop_remainder=True))),
        elements(tf, ten.apply(tf.data.experimental.enumerate_dataset(1)).take(2)),
        elements(tf, ten.apply(tf.data.experimental.take_while(lambda x: x < 3))),
        elements(tf, ten.map(lambda x: 6 // (x - 2)).take(2)),
    ]  # fmt: skip


@program
def maps(tf: Any, folder: str) -> Any:
    ds = tf.data.Dataset
    outside = tf.constant([10.0, 20.0])
    return [
        elements(tf, ds.range(3).map(lambda x: (x, 1, 2.5, "s", [1, 2]))),
        elements(tf, ds.range(3).map(lambda x: [x, x])),
        elements(tf, ds.from_tensor_slices(np.arange(4, dtype=np.float32).reshape(2, 2)).map(lambda x: x + outside)),
        elements(tf, ds.from_tensor_slices(["a", "bc"]).map(lambda x: (x, x)).batch(2)),
        elements(tf, ds.from_tensor_slices((["a", "b"], [1, 2])).map(lambda x, y: Pair(y, x))),
        elements(tf, ds.range(4).map(lambda x: tf.cast(x, tf.float32) / 2, num_parallel_calls=2).batch(3)),
        elements(tf, ds.from_tensor_slices({"x": [1, 2]}).map(lambda one: one["x"] + 1)),
        elements(tf, ds.from_tensor_slices([["a", "b"], ["c", "d"]]).map(lambda x: (x[1], x))),
        elements(tf, ds.from_tensor_slices(["a", "b", "c"]).batch(2).map(lambda x: x)),
        elements(tf, ds.range(4).map(lambda x: tf.reshape(tf.stack([x, x * x]), [1, 2])).batch(2)),
    ]


@program
def padded(tf: Any, folder: str) -> Any:
    ds = tf.data.Dataset

    def rows() -> Any:
        for i in range(5):
            yield {"n": np.arange(i), "s": [b"w"] * (3 - i % 3), "one": i}

    types = {"n": tf.int64, "s": tf.string, "one": tf.int32}
    made = ds.from_generator(rows, types, {"n": [None], "s": [None], "one": []})
    numbers = made.map(lambda one: one["n"])
    fill = {"n": np.int64(-1), "s": "?", "one": 0}
    return [
        elements(tf, made.padded_batch(2, {"n": [None], "s": [None], "one": []})),
        elements(tf, made.padded_batch(2, {"n": [6], "s": [4], "one": []}, fill, drop_remainder=True)),
        elements(tf, numbers.padded_batch(3, [-1])),
        elements(tf, numbers.padded_batch(3, (None,), np.int64(9))),
    ]


@program
def sparse(tf: Any, folder: str) -> Any:
    ds = tf.data.Dataset.range(1, 5).map(lambda x: (tf.SparseTensor([[0, 0], [1, 2]], tf.stack([x, x * 2]), [2, 3]), x))
    words = tf.data.Dataset.from_tensors(0).map(lambda _: tf.SparseTensor([[1]], ["w"], [3]))
    return [
        elements(tf, ds.take(2))[1],
        elements(tf, ds.batch(3))[1],
        elements(tf, ds.map(lambda one, x: one.values + x))[1],
        elements(tf, words.repeat(2).batch(2))[1],
    ]


@program
def orders(tf: Any, folder: str) -> Any:
    ds = tf.data.Dataset
    names = [os.path.join(folder, n) for n in "abc"]
    for name in names:
        open(name, "w").close()
    out = []
    for seed in (None, 1):
        tf.set_random_seed(seed)
        out += [
            elements(tf, ds.range(8).shuffle(4, seed=5))[1],
            elements(tf, ds.range(8).shuffle(4, seed=5, reshuffle_each_iteration=False).repeat(2))[1],
            elements(tf, ds.range(4).shuffle(4, seed=1).repeat(3))[1],
            elements(tf, ds.range(4).repeat(3).shuffle(4, seed=2))[1],
            elements(tf, ds.range(4).shuffle(4, seed=tf.constant(3, tf.int64)))[1],
            elements(tf, ds.range(0).shuffle(2, seed=1).repeat())[1],
            [one[-1] for one in elements(tf, ds.list_files(os.path.join(folder, "?"), seed=3).repeat(2))[1]],
        ]
    return out


@program
def reduced(tf: Any, folder: str) -> Any:
    ds = tf.data.Dataset
    tensors = [
        ds.range(10).reduce(np.int64(1), lambda a, b: a * 2 + b),
        ds.range(5).map(lambda x: tf.cast(x, tf.float32)).reduce((0.0, 1), lambda s, x: (s[0] + x, s[1] + 1)),
        ds.range(0).reduce(7, lambda a, b: a),
        ds.from_tensors({"a": 3}).reduce({"b": 1}, lambda s, one: {"b": s["b"] + one["a"]}),
        tf.data.experimental.get_single_element(ds.range(6).batch(10)),
        tf.data.experimental.cardinality(ds.range(7)),
        tf.data.experimental.cardinality(ds.range(7).repeat()),
        tf.data.experimental.cardinality(ds.range(7).filter(lambda x: x > 2)),
    ]
    with tf.Session() as sess:
        return [[static(tensor), shown(sess.run(tensor))] for tensor in tensors]


# ---- iterators


@program
def initializable(tf: Any, folder: str) -> Any:
    limit = tf.placeholder(tf.int64, [])
    rows = tf.placeholder(tf.float32, [None, 2])
    made = tf.data.Dataset.from_tensor_slices(rows).map(lambda x: x + rows[0]).take(limit)
    it = tf.data.make_initializable_iterator(made)
    fetch = it.get_next()
    out: list[Any] = [static(fetch)]
    with tf.Session() as sess:
        out.append(failing(lambda: sess.run(fetch)))
        sess.run(it.initializer, {limit: 2, rows: [[1, 2], [3, 4], [5, 6]]})
        out.append(drained(tf, sess, fetch))
        out.append(failing(lambda: sess.run(fetch)))  # for ever
        sess.run(it.initializer, {limit: 9, rows: [[1, 1]]})
        out.append(drained(tf, sess, fetch))
        sess.run(it.initializer, {limit: 1, rows: [[7, 7]]})
        sess.run(it.initializer, {limit: 1, rows: [[8, 8]]})  # begins again, wherever it was
        out.append(drained(tf, sess, fetch))
    with tf.Session() as sess:  # which has its own place
        out.append(failing(lambda: sess.run(fetch)))
    return out


@program
def variables(tf: Any, folder: str) -> Any:
    count = tf.Variable(3, dtype=tf.int64)
    it = tf.data.make_initializable_iterator(tf.data.Dataset.range(count).map(lambda x: x * count))
    fetch = it.get_next()
    more = tf.assign_add(count, 1)
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        out = []
        for _ in range(2):
            sess.run(it.initializer)
            out.append(drained(tf, sess, fetch))
            sess.run(more)
    return out


@program
def again(tf: Any, folder: str) -> Any:
    # What an initializer begins again: orders, and caches.
    made = tf.data.Dataset.range(8).shuffle(4, seed=5).repeat(2)
    it = tf.data.make_initializable_iterator(made)
    fetch = it.get_next()
    with tf.Session() as sess:
        out = []
        for _ in range(2):
            sess.run(it.initializer)
            out.append(drained(tf, sess, fetch))
    return out


@program
def reinitializable(tf: Any, folder: str) -> Any:
    train, test = tf.data.Dataset.range(3), tf.data.Dataset.range(100, 102)
    it = tf.data.Iterator.from_structure(train.output_types, train.output_shapes)
    fetch = it.get_next()
    to_train, to_test = it.make_initializer(train), it.make_initializer(test)
    with tf.Session() as sess:
        out: list[Any] = [failing(lambda: sess.run(fetch))]
        for _ in range(2):
            sess.run(to_train)
            out.append(shown(sess.run(fetch)))
            sess.run(to_test)
            out.append(drained(tf, sess, fetch))
    out.append(failing(lambda: it.initializer))
    make = tf.data.Iterator.from_structure
    out.append(failing(lambda: make(tf.int64, []).make_initializer(tf.data.Dataset.from_tensors(1.0))))
    out.append(
        failing(lambda: make(tf.int64, [3]).make_initializer(tf.data.Dataset.from_tensors(np.zeros(2, np.int64))))
    )
    out.append(failing(lambda: make((tf.int64, tf.int64)).make_initializer(train)))
    return out


@program
def feedable(tf: Any, folder: str) -> Any:
    once = tf.data.make_one_shot_iterator(tf.data.Dataset.range(4))
    often = tf.data.make_initializable_iterator(tf.data.Dataset.range(100, 103))
    handle = tf.placeholder(tf.string, [])
    fetch = tf.data.Iterator.from_string_handle(handle, tf.int64, []).get_next()
    other = tf.data.Iterator.from_string_handle(handle, tf.float32, []).get_next()
    with tf.Session() as sess:
        first, second = sess.run([once.string_handle(), often.string_handle()])
        sess.run(often.initializer)
        out: list[Any] = [shown(sess.run(fetch, {handle: one})) for one in (first, second, first, second, first)]
        sess.run(often.initializer)  # one begins again, the other one stays where it is
        out += [shown(sess.run(fetch, {handle: one})) for one in (second, first)]
        out.append(failing(lambda: sess.run(fetch, {handle: first})))
        out.append(failing(lambda: sess.run(fetch, {handle: b"none"})))
        out.append(failing(lambda: sess.run(other, {handle: second})))
        out.append(shown(sess.run(fetch, {handle: second})))
    return out


@program
def runs(tf: Any, folder: str) -> Any:
    # One operation takes one element a run, whatever asks for it; two take two.
    it = tf.data.make_one_shot_iterator(tf.data.Dataset.range(10).map(lambda x: (x, x * 10)))
    first, tens = it.get_next()
    second, _ = it.get_next()
    with tf.Session() as sess:
        out = [
            shown(sess.run([first, tens, first + tens])),
            shown(sorted(sess.run([first, second]))),
            shown(sess.run(tens)),
        ]
        out.append(shown(sess.run({"a": first, "b": [tens]})))
    return out


@program
def names(tf: Any, folder: str) -> Any:
    ds = tf.data.Dataset.range(3).map(lambda x: {"b": x, "a": (x, tf.constant(1.5, name="inside"))})
    it = tf.data.make_one_shot_iterator(ds)
    one, two = it.get_next(), it.get_next("two")
    outside = tf.constant(1, name="inside")
    flat = [one["b"], one["a"][0], two["b"], two["a"][1], outside]
    return [
        [each.name for each in flat],
        static(tf.data.get_output_shapes(ds)),
        static(tf.data.get_output_types(it)),
        sorted(tf.data.get_output_classes(it)),
    ]


@program
def optionals(tf: Any, folder: str) -> Any:
    it = tf.data.make_one_shot_iterator(tf.data.Dataset.range(2).map(lambda x: (x, x + 1)))
    one = tf.data.experimental.get_next_as_optional(it)
    has, value = one.has_value(), one.get_value()
    with tf.Session() as sess:
        out: list[Any] = [shown(sess.run([has, value])) for _ in range(2)]
        out += [shown(sess.run(has)), shown(sess.run(has)), failing(lambda: sess.run(value))]
    return out


@program
def refused(tf: Any, folder: str) -> Any:
    ds = tf.data.Dataset
    three = ds.range(3)

    def first(made: Any) -> Any:
        with tf.Session() as sess:
            return sess.run(tf.data.make_one_shot_iterator(made).get_next())

    held = tf.placeholder(tf.int64, [])
    kept = tf.Variable(3, dtype=tf.int64)
    return [
        failing(lambda: tf.data.make_one_shot_iterator(ds.range(held))),
        failing(lambda: tf.data.make_one_shot_iterator(three.map(lambda x: x + held))),
        failing(lambda: tf.data.make_one_shot_iterator(three.map(lambda x: x + kept))),
        failing(lambda: ds.from_tensor_slices(3)),
        failing(lambda: ds.from_tensor_slices(([1, 2], [1]))),
        failing(lambda: ds.range()),
        failing(lambda: ds.from_generator([1], tf.int64)),
        failing(lambda: three.filter(lambda x: x)),
        failing(lambda: three.filter(lambda x: tf.stack([x > 1]))),
        failing(lambda: three.concatenate(ds.from_tensors(1.0))),
        failing(lambda: three.concatenate(ds.from_tensors((1, 2)))),
        failing(lambda: three.reduce(0, lambda a, b: b)),
        failing(lambda: three.map(lambda x: None)),
        failing(lambda: iter(three)),
        failing(lambda: three.apply(lambda one: 3)),
        failing(lambda: three.padded_batch(2, [[3]])),
        failing(lambda: ds.from_tensors([1, 2]).padded_batch(2, [1])),
        failing(lambda: first(three.batch(0))),
        failing(lambda: first(three.map(lambda x: x, num_parallel_calls=0))),
        failing(lambda: first(three.shuffle(0))),
        failing(lambda: first(three.window(0))),
        failing(lambda: first(three.shard(0, 0))),
        failing(lambda: first(three.interleave(lambda x: three, cycle_length=0))),
        failing(lambda: first(ds.range(0, 3, 0))),
        failing(lambda: first(tf.data.TextLineDataset([os.path.join(folder, "none")]))),
        failing(lambda: first(tf.data.TextLineDataset([os.path.join(folder, "none")], "LZ"))),
        failing(lambda: first(ds.from_generator(lambda: iter([1, "x"]), tf.int64).skip(1))),
        failing(lambda: first(ds.from_generator(lambda: iter([[1, 2]]), tf.int64, [3]))),
        failing(lambda: first(ds.from_generator(lambda: iter([[1], [1, 2]]), tf.int64, [None]).batch(2))),
    ]


def answers(tf: Any, only: str | None = None) -> dict[str, Any]:
    """Return what the programs answer."""
    by_program = {}
    for name, run in PROGRAMS.items():
        if only is not None and name != only:
            continue
        with tempfile.TemporaryDirectory() as folder, tf.Graph().as_default():
            text = json.dumps(run(tf, folder))
            by_program[name] = json.loads(text.replace(json.dumps(folder)[1:-1], "FOLDER"))
    return by_program


if __name__ == "__main__":
    import tensorflow.compat.v1 as tensorflow

    tensorflow.disable_v2_behavior()
    tensorflow.logging.set_verbosity(tensorflow.logging.ERROR)
    sys.stdout.write(json.dumps(answers(tensorflow)))
