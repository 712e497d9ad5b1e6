"""Summaries: their bytes are TensorFlow's; files of events are written where TensorBoard's package is."""

import subprocess
import sys
import warnings

import numpy as np
import pytest
from helpers.tensorflow.peers import asks_tensorflow
from helpers.tensorflow.tf1_cases import asked, differences, recorded

import queuecore.tf1 as tf

PICTURES = "np.arange(24).reshape(2, 2, 2, 3)"
SHOWN = (
    "tf.image.decode_png(tf.py_func(lambda s: tf.Summary.FromString(s).value[{at}].image.encoded_image_string, "
    "[{it}], tf.string))"
)
FACTS = (
    "tf.py_func(lambda s: str([(v.tag, v.image.height, v.image.width, v.image.colorspace) "
    "for v in tf.Summary.FromString(s).value]).encode(), [{it}], tf.string)"
)

CASES = [
    *(
        f"tf.summary.scalar({x})"
        for x in ("'a', 1.5", "'a b/c', 3", "'loss', tf.constant(0.)", "'x', [1., 2.]", "'x', 'y'",
                  "'x', 1, family='f g'",
                  "'/a', np.float64(1e300)", "'n', np.nan", "'x', True", "'é', 1")
    ),
    "[tf.summary.scalar('a', 1), tf.summary.scalar('a', 2)]",
    "(lambda s: [s.__enter__(), tf.summary.scalar('a', 1), s.__exit__(None, None, None)][1])(tf.name_scope('s'))",
    *(
        f"tf.summary.histogram('h', {x})"
        for x in ("[1., 2., 2., -3., 0., 1e-13, 1e30]", "[1, 2, 3]", "np.zeros([0], np.float32)", "[np.nan]",
                  "[np.inf]", "[[0.5]]",
                  "['a']", "np.arange(1000.) / 7", "-np.arange(100.) ** 3")
    ),
    "tf.summary.text('t', tf.constant('abc'))", "tf.summary.text('t', tf.constant([['a', 'b']]))",
    "tf.summary.text('t', tf.constant(3))",
    "tf.summary.tensor_summary('t', [1, 2])", "tf.summary.tensor_summary('t', [[1.5]], 'told', display_name='shown')",
    "tf.summary.audio('s', np.linspace(-1.2, 1.2, 12).reshape(2, 3, 2).astype('f'), 8000)",
    "tf.summary.audio('s', np.linspace(-1, 1, 6).reshape(2, 3).astype('f'), 44100., max_outputs=1)",
    "tf.summary.audio('s', [1.], 8000)",
    *(
        form.format(at=at, it=f"tf.summary.image('p', {x}{more})")
        for at, more in ((0, ""), (1, ", max_outputs=2"), (0, ", max_outputs=1"))
        for form in (SHOWN, FACTS)
        for x in (f"{PICTURES}.astype('u1')", f"{PICTURES}.astype('f') / 9", f"{PICTURES}.astype('f') - 9.",
                  "np.zeros([2, 1, 3, 1], 'f')", "np.full([2, 1, 1, 4], np.nan, 'f')",
                  "np.array([[[[1.], [np.inf], [3.]]]] * 2, 'f')", f"{PICTURES}")
    ),
    "tf.summary.image('p', [[[1.]]])", "tf.summary.image('p', np.zeros([1, 1, 1, 2], 'f'))",
    "tf.summary.image('p', tf.zeros([1, 1, 1, 1], tf.int32))",
    "tf.summary.image('p', np.zeros([1, 1, 1, 1], 'f'), max_outputs=0)",
    "tf.summary.merge([tf.summary.scalar('a', 1), tf.summary.scalar('b', 2)])",
    "tf.summary.merge([tf.constant('a')])", "tf.summary.merge([])",
    "(lambda a: tf.summary.merge([a, a]))(tf.summary.scalar('a', 1))",
    "[tf.summary.scalar('a', 1), tf.summary.scalar('b', 2, collections=['c']), tf.summary.merge_all()][2]",
    "[tf.summary.scalar('a', 1), tf.summary.scalar('b', 2, collections=['c']), tf.summary.merge_all('c')][2]",
    "[tf.summary.scalar('a/x', 1), tf.summary.scalar('b', 2), tf.summary.merge_all(scope='a')][2]",
    "tf.constant(str(tf.summary.merge_all()))",
    # messages of tensors
    *(
        f"tf.io.parse_tensor(tf.io.serialize_tensor({x}), {kind})"
        for x, kind in (("[[1, 2]]", "tf.int32"), ("3.5", "tf.float32"), ("['a', '']", "tf.string"), ("[True]",
        "tf.bool"),
                        ("np.zeros([0, 2])", "tf.float64"), ("[1]", "tf.float32"), ("np.array([1.5], 'f2')",
                        "tf.float16"))
    ),
    *(f"tf.io.serialize_tensor({x})" for x in ("[[1, 2]]", "3.5", "['a', '']", "'x'", "np.zeros([0, 2])")),
    *(
        f"tf.as_string(tf.io.parse_tensor({x}, {kind}))"
        for x, kind in (
            (r"b'\x08\x03\x12\x04\x12\x02\x08\x02:\x02\x05\x06'", "tf.int32"),
            (r"b'\x08\x03\x12\x04\x12\x02\x08\x03:\x01\x05'", "tf.int32"),
            (r"b'\x08\x01\x12\x00*\x04\x00\x00\x80?'", "tf.float32"), ("'abc'", "tf.int32"), ("['a']", "tf.int32"),
            (r"b'\x08\x13\x12\x00j\x02\x80x'", "tf.float16"), (r"b'\x08\x08\x12\x00J\x08\x00\x00\x80?\x00\x00\x00@'",
            "tf.complex64"),
        )
    ),
    # pictures as files
    *(
        f"tf.image.decode_png(tf.image.encode_png({x}{more}), dtype={kind})"
        for more in ("", ", compression=0")
        for x, kind in (("np.arange(24, dtype='u1').reshape(2, 4, 3)", "tf.uint8"),
        ("np.arange(6, dtype='u1').reshape(2, 3, 1)", "tf.uint8"),
                        ("np.arange(8, dtype='u2').reshape(1, 2, 4) * 5000", "tf.uint16"), ("[[[7], [9]]]", "tf.uint8"),
                        ("np.arange(4, dtype='u1').reshape(1, 2, 2)", "tf.uint8"))
    ),
    "tf.image.encode_png([[1]])", "tf.image.encode_png(np.zeros([1, 1, 5], 'u1'))",
    "tf.image.encode_png(np.zeros([1, 1, 1], 'f'))",
    "tf.image.encode_png(np.zeros([1, 1, 1], 'u1'), compression=10)",
    *(
        f"tf.shape(tf.image.decode_jpeg(tf.image.encode_jpeg({x})))"
        for x in ("np.zeros([8, 9, 3], 'u1')", "np.zeros([8, 9, 1], 'u1')",
                  "np.zeros([8, 9, 3], 'u1'), format='rgb', quality=50",
                  "np.zeros([8, 9, 3], 'u1'), progressive=True, chroma_downsampling=False, density_unit='cm'",
                  "np.zeros([8, 9, 2], 'u1')", "np.zeros([8, 9, 3], 'u1'), format='grayscale'",
                  "np.zeros([8, 9, 3], 'u1'), quality=101")
    ),
    "tf.shape(tf.image.decode_png(tf.io.encode_png(np.zeros([2, 3, 3], 'u1'))))",
]  # fmt: skip

ANSWERS = dict(zip(CASES, recorded("summaries", CASES, 1), strict=True))


@pytest.mark.parametrize("case", CASES)
def test_as_tensorflow_does(case):
    assert differences(case, 1, ANSWERS[case]) == []


@asks_tensorflow
@pytest.mark.watchdog(600)
def test_the_record_is_tensorflows():
    assert dict(zip(CASES, asked([(one, 1) for one in CASES]), strict=True)) == ANSWERS


# As much of TensorBoard's package as a writer needs; its own tests are not ours.
WRITER = """
import struct
class EventFileWriter:
    def __init__(self, logdir, max_queue, flush_secs, suffix):
        self.file = open(f"{logdir}/events{suffix}", "ab")
        print("opened", max_queue, flush_secs, suffix)
    def add_event(self, event):
        self.file.write(struct.pack("<I", len(event.data)) + event.data)
    def flush(self):
        self.file.flush()
    def close(self):
        self.file.close()
"""
EVENT = """
class Event:
    @classmethod
    def FromString(cls, data):
        made = cls()
        made.data = data
        return made
"""
PROGRAM = """
import struct, sys
import queuecore.tf1 as tf
a = tf.summary.text("a", "told")
with tf.Session() as sess, tf.summary.FileWriter(sys.argv[1], sess.graph, 5, 7, filename_suffix=".s") as writer:
    told = sess.run(tf.summary.merge_all())
    writer.add_summary(told, 3)
    writer.add_summary(told, 4)
    writer.add_session_log(tf.SessionLog(status=tf.SessionLog.START), 5)
    writer.flush()
    writer.close()
    writer.reopen()
    writer.add_event(tf.Event(wall_time=2.5, file_version="v"))
data = open(sys.argv[1] + "/events.s", "rb").read()
while data:
    size, = struct.unpack("<I", data[:4])
    event, data = tf.Event.FromString(data[4:4 + size]), data[4 + size:]
    kind = event.WhichOneof("what")
    now = event.wall_time > 1e9
    print(event.step, kind, now, [(v.tag, v.tensor.string_val[0], v.HasField("metadata")) for v in event.summary.value])
"""


def test_events_are_written_by_tensorboards_package(tmp_path):
    package = tmp_path / "path" / "tensorboard"
    for folder, name, text in (("summary/writer", "event_file_writer", WRITER), ("compat/proto", "event_pb2", EVENT)):
        (package / folder).mkdir(parents=True)
        for one in (package, package / folder.split("/")[0], package / folder):
            (one / "__init__.py").touch()
        (package / folder / f"{name}.py").write_text(text)
    code = f"import sys; sys.path[:0] = [{str(package.parent)!r}]\n{PROGRAM}"
    done = subprocess.run(
        [sys.executable, "-P", "-c", code, str(tmp_path)], capture_output=True, text=True, check=False
    )
    assert done.stdout.splitlines() == [
        "opened 5 7 .s", "opened 5 7 .s",
        "3 summary True [('a', b'told', True)]", "4 summary True [('a', b'told', False)]", "5 session_log True []",
        "0 file_version False []",
    ], done.stderr  # fmt: skip


def test_without_the_package_events_are_dropped_with_one_warning(tmp_path, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.warns(RuntimeWarning, match="pip install tensorboard") as warnings_given:
        writer = tf.summary.FileWriter(tmp_path)
        writer.add_summary(tf.Summary(value=[tf.Summary.Value(tag="a", simple_value=1)]), 1)
        writer.add_graph(tf.get_default_graph())
        writer.add_meta_graph(None)
        writer.add_run_metadata(tf.RunMetadata(), "run")
        writer.flush()
        with pytest.raises(ValueError, match="already used"):
            writer.add_run_metadata(tf.RunMetadata(), "run")
        with pytest.raises(tf.errors.InvalidArgumentError, match="message"):
            writer.add_summary(b"\xff", 1)
        writer.close()
        writer.add_event(tf.Event(step=1))
        writer.reopen()
        writer.close()
    assert len(warnings_given) == 1 and list(tmp_path.iterdir()) == [] and writer.get_logdir() == tmp_path
    with pytest.warns(RuntimeWarning):
        cached = tf.summary.FileWriterCache.get(tmp_path)
    assert tf.summary.FileWriterCache.get(str(tmp_path)) is cached
    tf.summary.FileWriterCache.clear()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert tf.summary.FileWriterCache.get(tmp_path) is not cached
    tf.summary.FileWriterCache.clear()


def test_files_of_events_are_read(tmp_path):
    path = str(tmp_path / "events")
    with tf.python_io.TFRecordWriter(path) as writer:
        for step in range(3):
            value = tf.Summary.Value(tag="a", simple_value=step)
            writer.write(tf.Event(step=step, summary=tf.Summary(value=[value])).SerializeToString())
    read = [(one.step, one.summary.value[0].simple_value) for one in tf.train.summary_iterator(path)]
    assert read == [(0, 0.0), (1, 1.0), (2, 2.0)]
    with tf.python_io.TFRecordWriter(path) as writer:
        writer.write(b"\xff\xff")
    with pytest.raises(tf.errors.InvalidArgumentError, match="no event"):
        list(tf.train.summary_iterator(path))


def test_fields_of_messages():
    value = tf.Summary.Value(tag="a")
    assert value.WhichOneof("value") is None and not value.HasField("simple_value")
    value.simple_value = 0
    assert value.WhichOneof("value") == "simple_value" and value.HasField("simple_value")
    value.image.height = 3
    assert value.WhichOneof("value") == "image" and not value.HasField("simple_value") and value.tag == "a"
    assert tf.Summary.Value.FromString(value.SerializeToString()) == value
    assert str(value) == 'tag: "a"\nimage {\n  height: 3\n}\n'
    made = tf.Summary()
    made.value.add(tag="h", histo=tf.HistogramProto(min=0.1, bucket=[1, 2.5]))
    made.value.add(tag="b", simple_value=0.1)
    again = tf.Summary.FromString(made.SerializeToString())
    assert again == made and again.value[0].histo.min == 0.1 and list(again.value[0].histo.bucket) == [1, 2.5]
    assert again.value[1].simple_value == float(np.float32(0.1)) and "simple_value: 0.1\n" in str(made)
    for field, wrong in (("tag", 3), ("simple_value", "x")):
        with pytest.raises(TypeError, match="has type"):
            setattr(value, field, wrong)
    with pytest.raises(AttributeError, match="Assignment not allowed"):
        value.image = tf.Summary.Image()
    with pytest.raises(ValueError, match="is there always"):
        value.HasField("tag")
    with pytest.raises(tf.errors.InvalidArgumentError, match="doubles in 3 bytes"):
        tf.HistogramProto.FromString(b"\x32\x03abc")


def test_what_encoders_need(monkeypatch):
    picture = np.zeros([1, 1, 3], np.uint8)
    with pytest.raises(tf.errors.UnimplementedError, match="XMP"):
        tf.image.encode_jpeg(picture, xmp_metadata="x")
    with pytest.raises(ValueError, match="density_unit"):
        tf.image.encode_jpeg(picture, density_unit="m")
    with tf.Session() as sess, pytest.raises(tf.errors.InvalidArgumentError, match="must have pixels"):
        sess.run(tf.image.encode_png(np.zeros([0, 1, 1], np.uint8)))
    with pytest.raises(ValueError, match="format"):
        tf.image.encode_jpeg(picture, format="x")
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(tf.errors.UnimplementedError, match="pip install pillow"):
        tf.image.encode_jpeg(picture)
