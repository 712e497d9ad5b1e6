"""Decoders of queuecore.tf1: against what TensorFlow says, recorded and live; and what is native in a runner."""

from __future__ import annotations

import gzip
import zlib

import numpy as np
import pytest
from helpers.formats.example_messages import example, feature, sequence
from helpers.formats.pictures import samples
from helpers.tensorflow import tf1_cases
from helpers.tensorflow.peers import asks_tensorflow
from helpers.tensorflow.tf1_cases import asked, differences, recorded

import queuecore.tf1 as tf
from queuecore import errors, ops

ONE = example(
    a=feature(1, 300), f=feature(1.5), s=feature(b"x"), i=feature(2, 0), v=feature(7, 8), e=feature(kind=np.int64)
)
TWO = example(a=feature(-5, 2), s=feature(b"yy", b"z"), i=feature(1), v=feature(9), n=feature(1, 1))
LONE = example(a=feature(4), f=feature(2.5, 3.5))
STEPS = sequence({"c": feature(3)}, t=[feature(1, 2), feature(3, 4)], w=[feature(b"a"), feature(b"b", b"c")])
FEW = sequence({"c": feature(4)}, t=[feature(5, 6)], w=[])
BMP = bytes.fromhex(
    "424d4e0000000000000036000000280000000300000002000000010018000000000018000000c40e0000c40e000000000000000000008f8275b6a9"
    "9cddd0c30000001a0d00413427685b4e000000"
)
GIF = bytes.fromhex(
    "47494638376103000200820000c3d0dd9ca9b675828f4e5b68273441000d1a0000000000002c0000000003000200000809000b10182020008080003b"
)
PNG = bytes.fromhex(
    "89504e470d0a1a0a0000000d49484452000000030000000208020000001216f14d0000001749444154789c6364e09552575757575767292d2d85b0"
    "001d760360723241290000000049454e44ae426082"
)
BOTH = f"[{ONE!r}, {TWO!r}]"

RAW = (
    r"""
tf.decode_raw(b"\x01\x00\x02\x00", tf.int16)
tf.decode_raw(b"\x01\x00\x02\x00", tf.int16, little_endian=False)
tf.decode_raw(b"\x01\x00\x02\x00", tf.uint8)
tf.decode_raw([b"\x01\x02", b"\x03\x04"], tf.uint8)
tf.decode_raw([[b"\x01\x02"], [b"\x03\x04"]], tf.uint16)
tf.decode_raw([b"\x01\x02", b"\x03"], tf.uint8)
tf.decode_raw(b"\x01\x02\x03", tf.int16)
tf.decode_raw(b"", tf.int16)
tf.decode_raw(b"\x00\x00\x80\x3f", tf.float32)
tf.decode_raw(b"\x01\x00", tf.bool)
tf.decode_raw(b"\x00\x00", tf.string)
tf.decode_raw(5, tf.uint8)
tf.io.decode_raw(input_bytes=b"\x01", out_type=tf.int8)
tf.decode_raw(bytes=b"\xff", out_type=tf.int8)
tf.cast(tf.transpose(tf.reshape(tf.slice(tf.decode_raw(bytes(range(25)), tf.uint8), [1], [24]), [2, 3, 4]), [1, 2, 0]), tf.float32)
tf.cast(tf.strided_slice(tf.decode_raw(bytes(range(25)), tf.uint8), [0], [1]), tf.int32)
"""  # noqa: E501
    + f"""
tf.decode_compressed({zlib.compress(b"text")!r}, "ZLIB")
tf.decode_compressed([{gzip.compress(b"one", mtime=0)!r}, b""], "GZIP")
tf.decode_compressed("plain")
tf.decode_compressed("plain", "NONE")
tf.decode_compressed("plain", "ZLIB")
"""
)  # noqa: E501

CSV = r"""
tf.decode_csv("1,2.5,a", [[0], [0.0], [""]])
tf.decode_csv(["1,2.5,a", "3,,b"], [[0], [-1.0], [""]])
tf.decode_csv([["1"], ["2"]], [[0]])
tf.decode_csv("1", [[0]])
tf.decode_csv("1,2", [tf.constant([], tf.int64), tf.constant([5.0], tf.float64)])
tf.decode_csv(",x", [tf.constant([], tf.int64), tf.constant([], tf.string)])
tf.decode_csv(",", [tf.constant([7], tf.int64), tf.constant(["d"])])
tf.decode_csv("1,2,3", [[0], [0]])
tf.decode_csv("x", [[0]])
tf.decode_csv("1.5", [[0]])
tf.decode_csv("7;\"x;y\"", [[0], [""]], field_delim=";")
tf.decode_csv("7,\"x\"", [[0], [""]], use_quote_delim=False)
tf.decode_csv("NA,2", [[5], [0]], na_value="NA")
tf.decode_csv("1,2,3", [[0]], select_cols=[2])
tf.decode_csv("1,2,3", [[0], [0]], select_cols=[2, 1])
tf.decode_csv("1,2", [[0, 1], [0]])
tf.decode_csv("1,2", [])
tf.decode_csv("1", [[True]])
tf.decode_csv("1,2", [[0], [0]], field_delim="::")
tf.stack(tf.decode_csv("1,2,3", [[1.0]] * 3))
tf.stack(tf.decode_csv(["1,2", "3,4"], [[1.0]] * 2), axis=1)
"""

EXAMPLES = f"""
tf.parse_example({BOTH}, {{"a": tf.FixedLenFeature([2], tf.int64)}})
tf.parse_example({BOTH}, {{"f": tf.FixedLenFeature([], tf.float32, default_value=9.5)}})
tf.parse_example({BOTH}, {{"f": tf.FixedLenFeature([], tf.float32)}})
tf.parse_example({BOTH}, {{"a": tf.FixedLenFeature([3], tf.int64)}})
tf.parse_example({BOTH}, {{"a": tf.FixedLenFeature([2], tf.float32)}})
tf.parse_example({BOTH}, {{"z": tf.FixedLenFeature([2], tf.string, default_value=["p", "q"])}})
tf.parse_example({BOTH}, {{"a": tf.FixedLenFeature([2], tf.int32)}})
tf.parse_example({BOTH}, {{"s": tf.VarLenFeature(tf.string), "a": tf.VarLenFeature(tf.int64)}})
tf.parse_example({BOTH}, {{"q": tf.VarLenFeature(tf.float32)}})
tf.parse_example({BOTH}, {{"s": tf.FixedLenSequenceFeature([], tf.string, allow_missing=True)}})
tf.parse_example({BOTH}, {{"v": tf.FixedLenSequenceFeature([], tf.int64, allow_missing=True, default_value=-1)}})
tf.parse_example({BOTH}, {{"a": tf.FixedLenSequenceFeature([2], tf.int64, allow_missing=True)}})
tf.parse_example({BOTH}, {{"v": tf.FixedLenSequenceFeature([2], tf.int64, allow_missing=True)}})
tf.parse_example({BOTH}, {{"v": tf.FixedLenSequenceFeature([], tf.int64)}})
tf.parse_example({BOTH}, {{"p": tf.SparseFeature("i", "v", tf.int64, 5)}})
tf.parse_example({BOTH}, {{"p": tf.SparseFeature("i", "v", tf.int64, 5, already_sorted=True)}})
tf.parse_example({BOTH}, {{"v": tf.io.RaggedFeature(tf.int64)}})
tf.parse_example({BOTH}, {{"s": tf.io.RaggedFeature(tf.string, row_splits_dtype=tf.int64)}})
tf.parse_example([{TWO!r}], {{"r": tf.io.RaggedFeature(tf.int64, "a", [tf.io.RaggedFeature.UniformRowLength(2)])}})
tf.parse_example(tf.constant([], tf.string), {{"a": tf.FixedLenFeature([2], tf.int64)}})
tf.parse_example([{BOTH}], {{"a": tf.FixedLenFeature([2], tf.int64)}})
tf.parse_example({BOTH}, {{}})
tf.parse_example({BOTH}, None)
tf.parse_example(["\\x01"], {{"a": tf.VarLenFeature(tf.int64)}})
tf.parse_example({ONE!r}, {{"a": tf.FixedLenFeature([2], tf.int64), "s": tf.VarLenFeature(tf.string)}})
tf.parse_single_example({ONE!r}, {{"a": tf.FixedLenFeature([2], tf.int64), "s": tf.FixedLenFeature([], tf.string)}})
tf.parse_single_example({ONE!r}, {{"s": tf.VarLenFeature(tf.string)}})
tf.parse_single_example({ONE!r}, {{"v": tf.FixedLenSequenceFeature([], tf.int64, allow_missing=True)}})
tf.parse_single_example({TWO!r}, {{"s": tf.FixedLenSequenceFeature([], tf.string, allow_missing=True)}})
tf.parse_single_example({ONE!r}, {{"p": tf.SparseFeature("i", "v", tf.int64, 5)}})
tf.parse_single_example({ONE!r}, {{"p": tf.SparseFeature(["i", "i"], "v", tf.int64, [5, 6])}})
tf.parse_single_example({ONE!r}, {{"v": tf.io.RaggedFeature(tf.int64)}})
tf.parse_single_example({TWO!r}, {{"r": tf.io.RaggedFeature(tf.string, "s", [tf.io.RaggedFeature.RowLengths("n")])}})
tf.parse_single_example({ONE!r}, {{"e": tf.FixedLenFeature([], tf.int64, default_value=1)}})
tf.parse_single_example({LONE!r}, {{"f": tf.FixedLenFeature([2], tf.float32)}})
tf.parse_single_example({BOTH}, {{"a": tf.FixedLenFeature([2], tf.int64)}})
tf.parse_single_example({ONE!r}, {{"a": tf.FixedLenFeature([], tf.int64)}})
tf.parse_single_example({ONE!r}, {{"missing": tf.FixedLenFeature([], tf.int64)}})
tf.io.parse_sequence_example([{STEPS!r}, {FEW!r}], {{"c": tf.FixedLenFeature([], tf.int64)}}, {{"t": tf.FixedLenSequenceFeature([2], tf.int64)}})
tf.io.parse_sequence_example([{STEPS!r}, {FEW!r}], sequence_features={{"w": tf.VarLenFeature(tf.string)}})
tf.io.parse_sequence_example([{STEPS!r}, {FEW!r}], sequence_features={{"w": tf.io.RaggedFeature(tf.string)}})
tf.io.parse_single_sequence_example({STEPS!r}, {{"c": tf.FixedLenFeature([], tf.int64)}}, {{"t": tf.FixedLenSequenceFeature([2], tf.int64)}})
tf.io.parse_single_sequence_example({STEPS!r}, sequence_features={{"w": tf.VarLenFeature(tf.string)}})
tf.io.parse_single_sequence_example({STEPS!r}, {{"c": tf.VarLenFeature(tf.int64)}}, {{"t": tf.io.RaggedFeature(tf.int64)}})
tf.io.parse_single_sequence_example({STEPS!r}, sequence_features={{"x": tf.FixedLenSequenceFeature([], tf.int64)}})
"""  # noqa: E501

P = f"tf.image.decode_png({PNG!r}, channels=3)"
FLOATS = "tf.constant(np.arange(60, dtype=np.float32).reshape(4, 5, 3) / 64)"
IMAGES = f"""
tf.image.decode_png({PNG!r})
tf.image.decode_png({PNG!r}, channels=1)
tf.image.decode_png({PNG!r}, channels=4, dtype=tf.uint16)
tf.image.decode_png({PNG!r}, channels=2)
tf.image.decode_png([{PNG!r}])
tf.image.decode_bmp({BMP!r})
tf.image.decode_gif({GIF!r})
tf.image.decode_image({PNG!r})
tf.image.decode_image({GIF!r})
tf.image.decode_image({GIF!r}, expand_animations=False)
tf.image.decode_image({PNG!r}, dtype=tf.float32)
tf.image.decode_image("no picture")
tf.image.decode_jpeg("no picture")
tf.image.flip_left_right({P})
tf.image.flip_up_down({P})
tf.image.transpose_image({P})
tf.image.rot90({P})
tf.image.rot90({P}, 2)
tf.image.rot90({P}, k=3)
tf.image.rot90({P}, 4)
tf.image.resize_images({P}, [4, 5])
tf.image.resize_images({P}, [4, 5], align_corners=True)
tf.image.resize_images({P}, [4, 5], method=tf.image.ResizeMethod.NEAREST_NEIGHBOR)
tf.image.resize_images({P}, [4, 5], method=tf.image.ResizeMethod.NEAREST_NEIGHBOR, align_corners=True)
tf.image.resize_images({FLOATS}, [4, 5])
tf.image.resize_images({FLOATS}, [2, 9])
tf.image.resize_images({FLOATS}, [8, 9], preserve_aspect_ratio=True)
tf.image.resize_images({FLOATS}, [0, 9])
tf.image.resize_bilinear(tf.expand_dims({FLOATS}, 0), [3, 3])
tf.image.resize_bilinear(tf.expand_dims({FLOATS}, 0), [3, 3], half_pixel_centers=True)
tf.image.resize_nearest_neighbor(tf.expand_dims({FLOATS}, 0), [3, 7])
tf.image.resize_image_with_crop_or_pad({P}, 4, 2)
tf.image.resize_image_with_crop_or_pad({FLOATS}, 3, 8)
tf.image.resize_image_with_crop_or_pad({FLOATS}, 0, 8)
tf.image.central_crop({FLOATS}, 0.5)
tf.image.central_crop({FLOATS}, 1.0)
tf.image.central_crop({FLOATS}, 0.0)
tf.image.crop_to_bounding_box({FLOATS}, 1, 2, 2, 3)
tf.image.crop_to_bounding_box({FLOATS}, 3, 2, 2, 3)
tf.image.crop_to_bounding_box({P}, 1, 2, 2, 3)
tf.image.pad_to_bounding_box({FLOATS}, 1, 2, 6, 7)
tf.image.pad_to_bounding_box({FLOATS}, 1, 2, 4, 7)
tf.image.adjust_brightness({FLOATS}, 0.2)
tf.image.adjust_brightness({P}, 0.2)
tf.image.adjust_contrast({FLOATS}, 1.5)
tf.image.adjust_saturation({FLOATS}, 0.5)
tf.image.adjust_hue({FLOATS}, 0.1)
tf.image.adjust_gamma({FLOATS}, 2.0)
tf.image.per_image_standardization({FLOATS})
tf.image.per_image_standardization(tf.zeros([2, 2, 1]))
tf.image.convert_image_dtype({P}, tf.float32)
tf.image.convert_image_dtype({FLOATS}, tf.uint8)
tf.image.convert_image_dtype({FLOATS}, tf.uint8, saturate=True)
tf.image.convert_image_dtype({P}, tf.uint16)
tf.image.convert_image_dtype(tf.image.convert_image_dtype({P}, tf.uint16), tf.uint8)
tf.image.rgb_to_grayscale({FLOATS})
tf.image.rgb_to_grayscale(tf.constant(np.arange(60, dtype=np.uint8).reshape(4, 5, 3) * 4))
tf.image.grayscale_to_rgb(tf.image.rgb_to_grayscale({FLOATS}))
tf.image.grayscale_to_rgb({FLOATS})
tf.image.random_brightness({FLOATS}, -1.0)
tf.image.random_contrast({FLOATS}, 2.0, 1.0)
tf.image.random_hue({FLOATS}, 0.7)
"""

CASES = [line for text in (RAW, CSV, EXAMPLES, IMAGES) for line in text.split("\n") if line]


def test_all_that_tensorflow_says_holds_here():
    wrong = []
    for case, theirs in zip(CASES, recorded("decoders", CASES, 1), strict=True):
        wrong += differences(case, 1, theirs)
    assert not wrong, f"{len(wrong)} of {len(CASES)}:\n" + "\n".join(wrong)


@asks_tensorflow
@pytest.mark.watchdog(600)
def test_what_is_recorded_is_what_tensorflow_says():
    now = asked([(case, 1) for case in CASES])
    changed = [
        case for case, one, old in zip(CASES, now, recorded("decoders", CASES, 1), strict=True)
        if not tf1_cases.same(one.get("runs"), old.get("runs"), False) or one.get("sides") != old.get("sides")
    ]  # fmt: skip
    assert not changed


def test_a_padded_length():
    with tf.Graph().as_default(), tf.Session() as session:
        made = tf.io.decode_raw([b"\x01", b"\x01\x02\x03"], tf.int16, fixed_length=2)
        assert made.shape == (2, 1)
        assert session.run(made).tolist() == [[1], [513]]
        with pytest.raises(ValueError, match="multiple of 2"):
            tf.decode_raw([b"\x01"], tf.int16, fixed_length=3)


@pytest.mark.parametrize("kind", ["jpeg", "png"])
def test_pictures_are_those_of_ops(kind):
    found = {name: data for name, data in samples().items() if name.startswith(kind)} or samples()
    decode = getattr(tf.image, f"decode_{kind}")
    with tf.Graph().as_default(), tf.Session() as session:
        checked = 0
        for data in found.values():
            try:
                pixels = getattr(ops, f"decode_{kind}")(data)
            except errors.QueueCoreError:
                continue
            given = tf.placeholder(tf.string, ())
            made = decode(given)
            value = session.run(made, {given: data})
            assert made.shape.is_compatible_with(value.shape)
            np.testing.assert_array_equal(value, pixels)
            checked += 1
        assert checked


# What is native in a runner's program


def once(name):
    """A queue of one name, which is closed behind it."""
    names = tf.FIFOQueue(4, tf.string, [[]])
    tf.add_to_collection("once", names.enqueue([str(name)]))
    tf.add_to_collection("once", names.close())
    return names


@pytest.fixture
def graph():
    with tf.Graph().as_default() as made:
        yield made


def gathered(tensors, many, count):
    """Elements that a runner puts into a queue, and what the report says of it."""
    shapes = [one.shape[1:] if many else one.shape for one in tensors]
    queue = tf.FIFOQueue(10 * count, [one.dtype for one in tensors], shapes)
    enqueue = (queue.enqueue_many if many else queue.enqueue)(list(tensors))
    runner = tf.train.QueueRunner(queue, [enqueue])
    tf.train.add_queue_runner(runner)
    report = str(tf.train.lowering_report()[0])
    result = queue.dequeue_many(count)
    with tf.Session() as session:
        for op in tf.get_collection("once"):
            session.run(op)
        coord = tf.train.Coordinator()
        threads = tf.train.start_queue_runners(session, coord)
        values = session.run(result, options=tf.RunOptions(timeout_in_ms=20000))
        coord.request_stop()
        coord.join(threads, stop_grace_period_secs=20)
    return report, values if isinstance(values, list) else [values]


def cifar(value, many):
    """The CIFAR-10 tutorial's way from a record to a picture and a label."""
    record = tf.decode_raw(value, tf.uint8)
    if many:
        label = tf.cast(tf.slice(record, [0, 0], [-1, 1]), tf.int32)
        depth_major = tf.reshape(tf.slice(record, [0, 1], [-1, 48]), [-1, 3, 4, 4])
        picture = tf.cast(tf.transpose(depth_major, [0, 2, 3, 1]), tf.float32)
    else:
        label = tf.cast(tf.strided_slice(record, [0], [1]), tf.int32)
        label.set_shape([1])
        depth_major = tf.reshape(tf.slice(record, [1], [48]), [3, 4, 4])
        picture = tf.cast(tf.transpose(depth_major, [1, 2, 0]), tf.float32)
    return picture, label


@pytest.mark.parametrize("many", [False, True], ids=["read", "read_up_to"])
def test_the_cifar_10_reader_is_native(graph, tmp_path, many):
    records = np.random.default_rng(3).integers(0, 256, (20, 49), dtype=np.uint8)
    records.tofile(tmp_path / "a.bin")
    reader = tf.FixedLengthRecordReader(49)
    names = once(tmp_path / "a.bin")
    value = (reader.read_up_to(names, 6) if many else reader.read(names))[1]
    report, (pictures, labels) = gathered(cifar(value, many), many, 20)
    assert report.endswith(": lowered")
    np.testing.assert_array_equal(labels, records[:, :1])
    np.testing.assert_array_equal(pictures, records[:, 1:].reshape(20, 3, 4, 4).transpose(0, 2, 3, 1))
    assert (pictures.dtype, labels.dtype) == (np.float32, np.int32)


@pytest.mark.parametrize("seed", [1, 2])
def test_what_the_cifar_10_tutorial_does_to_pictures_is_native(graph, tmp_path, seed):
    records = np.random.default_rng(3).integers(0, 256, (12, 49), dtype=np.uint8)
    records.tofile(tmp_path / "a.bin")
    tf.set_random_seed(seed)
    value = tf.FixedLengthRecordReader(49).read(once(tmp_path / "a.bin"))[1]
    picture, label = cifar(value, False)
    picture = tf.random_crop(picture, [3, 2, 3])
    picture = tf.image.random_flip_left_right(picture)
    picture = tf.image.random_brightness(picture, 63)
    picture = tf.image.random_contrast(picture, 0.2, 1.8)
    report, (pictures, _) = gathered([picture, label], False, 12)
    assert report.endswith(": lowered")
    assert pictures.shape == (12, 3, 2, 3)
    # The same for the same seeds, and each operation with those that it has in the graph.
    for op in ("random_crop", "random_flip_left_right", "random_brightness", "random_contrast"):
        assert "native" in graph.get_operation_by_name(op).attributes
    value = records[:, 1:].reshape(12, 3, 4, 4).transpose(0, 2, 3, 1).astype(np.float32)
    steps = [graph.get_operation_by_name(op) for op in
             ("random_crop", "random_flip_left_right", "random_brightness", "random_contrast")]  # fmt: skip
    with tf.Session() as session:
        expected = []
        for one in value:
            for op in steps:
                (one,) = session.run([op.outputs[0]], {op.inputs[0]: one})
            expected.append(one)
    np.testing.assert_array_equal(pictures, expected)


@pytest.mark.parametrize("many", [False, True], ids=["read", "read_up_to"])
def test_the_csv_reader_is_native(graph, tmp_path, many):
    rows = [(i, i * 0.5, i + 1, i % 3) for i in range(20)]
    (tmp_path / "a.csv").write_text("".join(f"{a},{b},{c},{d}\n" for a, b, c, d in rows))
    names = once(tmp_path / "a.csv")
    reader = tf.TextLineReader()
    value = (reader.read_up_to(names, 6) if many else reader.read(names))[1]
    *columns, label = tf.decode_csv(value, [[1.0], [1.0], [1.0], [0]])
    report, (features, labels) = gathered([tf.stack(columns, axis=1 if many else 0), label], many, 20)
    assert report.endswith(": lowered")
    np.testing.assert_array_equal(features, np.array([row[:3] for row in rows], np.float32))
    np.testing.assert_array_equal(labels, [row[3] for row in rows])


def test_many_columns_are_stacked_natively(graph, tmp_path):
    rows = np.random.default_rng(5).integers(-99, 99, (8, 40))
    np.savetxt(tmp_path / "a.csv", rows, "%d", ",")
    value = tf.TextLineReader().read(once(tmp_path / "a.csv"))[1]
    report, (made,) = gathered([tf.stack(tf.decode_csv(value, [[0]] * 40))], False, 8)
    assert report.endswith(": lowered")
    np.testing.assert_array_equal(made, rows)


def test_parsed_examples_are_native(graph, tmp_path):
    from queuecore.writers import TFRecordWriter

    with TFRecordWriter(str(tmp_path / "a.tfrecord")) as writer:
        for i in range(20):
            writer.write(example(x=feature(*[float(i), 0.5]), y=feature(i % 7), s=feature(b"%d" % i)))
    value = tf.TFRecordReader().read(once(tmp_path / "a.tfrecord"))[1]
    asked_for = {
        "x": tf.FixedLenFeature([2], tf.float32),
        "y": tf.FixedLengthFeature([], tf.int64),
        "s": tf.FixedLenFeature([], tf.string),
    }
    parsed = tf.parse_single_example(value, asked_for)
    report, (x, y, s) = gathered([parsed["x"] * 2.0, tf.cast(parsed["y"], tf.int32), parsed["s"]], False, 20)
    assert report.endswith(": lowered")
    np.testing.assert_array_equal(x, [[2 * i, 1] for i in range(20)])
    np.testing.assert_array_equal(y, [i % 7 for i in range(20)])
    assert s.tolist() == [b"%d" % i for i in range(20)]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda x: tf.py_func(lambda y: y, [x], tf.uint8), "PyFunc"),
        (lambda x: tf.Print(x, [x]), "Print"),
        (lambda x: tf.random_shuffle(x), "RandomShuffle"),
        (lambda x: tf.reduce_sum(x, keepdims=True), "sum"),
    ],
)
def test_what_isn_t_native_runs_in_python_and_the_report_says_why(graph, tmp_path, change, reason, capsys):
    records = np.random.default_rng(3).integers(0, 9, (5, 4), dtype=np.uint8)
    records.tofile(tmp_path / "a.bin")
    value = tf.FixedLengthRecordReader(4).read(once(tmp_path / "a.bin"))[1]
    made = change(tf.decode_raw(value, tf.uint8))
    made.set_shape([1] if reason == "sum" else [4])
    report, (found,) = gathered([made], False, 5)
    assert "not lowered" in report
    assert reason in report
    np.testing.assert_array_equal(found.sum(1), records.sum(1, dtype=np.uint8))


def test_defaults_that_are_tensors():
    with tf.Graph().as_default(), tf.Session() as sess:
        features = {
            "a": tf.FixedLenFeature([2], tf.int64, default_value=tf.zeros([2], tf.int64)),
            "b": tf.FixedLenFeature([], tf.float32, default_value=tf.cast(tf.constant(3), tf.float32) + 1),
        }
        found = sess.run(tf.parse_single_example(b"", features))
        assert found["a"].tolist() == [0, 0] and found["b"] == 4.0
        assert sess.run(tf.parse_example([b""], features))["a"].tolist() == [[0, 0]]
        made = tf.decode_csv([",2"], [tf.zeros([1], tf.int32), tf.constant([], tf.float32)])
        assert [one.tolist() for one in sess.run(made)] == [[0], [2.0]]
        fed = tf.FixedLenFeature([], tf.float32, default_value=tf.placeholder(tf.float32, []))
        with pytest.raises(ValueError, match="a default must be known before the graph runs"):
            tf.parse_single_example(b"", {"c": fed})


def test_decode_csv_says_the_rank_of_a_default():
    with pytest.raises(ValueError, match="Shape must be at most rank 1 but is rank 2"):
        tf.decode_csv(["1"], [[[0]]])
