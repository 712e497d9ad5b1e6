"""Texts of errors on which programs of TensorFlow match: theirs come first, ours behind."""

import threading

import numpy as np
import pytest

import queuecore.tf1 as tf
from queuecore.errors import InvalidArgumentError
from queuecore.tf1._graph.texts import before


@pytest.fixture
def sess():
    with tf.Graph().as_default(), tf.Session() as made:
        yield made


def message(sess, fetches, feed=None):
    with pytest.raises(tf.errors.OpError) as caught:
        sess.run(fetches, feed)
    return caught.value.message


SHAPES = [
    (tf.FIFOQueue, ((2, 2), (3, 3)), (3, 4), "[3,3]", "[3,4]"),
    (tf.PaddingFIFOQueue, ((2, 2), (3, None)), (4, 3), "[3,?]", "[4,3]"),
]


@pytest.mark.parametrize(("kind", "shapes", "wrong", "wanted", "got"), SHAPES)
def test_components_of_another_shape(sess, kind, shapes, wrong, wanted, got):
    queue, bad = kind(10, (tf.int32, tf.int32), shapes), tf.placeholder(tf.int32)
    good = np.ones((2, 2), np.int32)
    said = message(sess, queue.enqueue((good, bad)), {bad: np.ones(wrong, np.int32)})
    assert said.startswith(f"Shape mismatch in tuple component 1. Expected {wanted}, got {got}: ")
    assert "component 1: expected shape" in said
    both = np.ones((2, *wrong), np.int32)
    said = message(sess, queue.enqueue_many((np.stack([good] * 2), bad)), {bad: both})
    assert said.startswith(f"Shape mismatch in tuple component 1. Expected [2,{wanted[1:]}, got [2,{got[1:]}: ")


def test_a_scalar_component(sess):
    queue, bad = tf.FIFOQueue(10, tf.int32, [()]), tf.placeholder(tf.int32)
    assert message(sess, queue.enqueue(bad), {bad: [1]}).startswith(
        "Shape mismatch in tuple component 0. Expected [], got [1]"
    )
    assert message(sess, queue.enqueue_many([bad]), {bad: [[1], [2]]}).startswith(
        "Shape mismatch in tuple component 0. Expected [2], got [2,1]"
    )


def test_queues(sess):
    loose = tf.FIFOQueue(3, tf.float32)
    for op in (loose.dequeue_many(0), loose.dequeue_up_to(1)):
        assert message(sess, op).startswith(
            "FIFOQueue's DequeueMany and DequeueUpTo require the components to have specified shapes: "
        )
    count = tf.placeholder(tf.int32)
    assert message(sess, tf.FIFOQueue(3, tf.int32, [()]).dequeue_many(count), {count: -1}).startswith(
        "DequeueManyOp requested -1 < 0 elements: "
    )
    assert "indices = 3 is not in [0, 1)" in message(sess, tf.FIFOQueue.from_list(3, [loose]).dequeue())
    with pytest.raises(ValueError, match=r"When providing partial shapes, a list of shapes must be provided"):
        tf.PaddingFIFOQueue(3, tf.int32, 3)


SHARED = [
    ((15, tf.float32), {}, "Shared queue 'q' has capacity 10 but requested capacity was 15: "),
    ((10, tf.int32), {}, "Shared queue 'q' has component types float32 but requested component types were int32: "),
    ((10, [tf.float32, tf.int32]), {}, "component types float32 but requested component types were float32, int32: "),
    ((10, tf.float32, [(1, 2)]), {}, "component shapes [] but requested component shapes were [(1, 2)]: "),
]


@pytest.mark.parametrize(("arguments", "options", "text"), SHARED)
def test_shared_queues(sess, arguments, options, text):
    first = tf.FIFOQueue(10, tf.float32, shared_name="q")
    sess.run(first.queue_ref)
    assert text in message(sess, tf.FIFOQueue(*arguments, shared_name="q", **options).queue_ref)


def test_a_session_that_is_closed_meanwhile():
    with tf.Graph().as_default():
        sess = tf.Session()
        empty, full = tf.FIFOQueue(1, tf.float32, [()]), tf.FIFOQueue(1, tf.float32, [()])
        sess.run(full.enqueue(1.0))
        ops = [empty.dequeue(), empty.dequeue_many(1), full.enqueue(1.0), full.enqueue_many([[1.0]])]
        said, began = {}, [threading.Event() for _ in ops]

        def work(at):
            began[at].set()
            try:
                sess.run(ops[at])
            except tf.errors.CancelledError as error:
                said[at] = error.message
            except RuntimeError:  # it was closed before the run began
                said[at] = "Dequeue operation was cancelled" if at < 2 else "Enqueue operation was cancelled"

        threads = [threading.Thread(target=work, args=(at,)) for at in range(len(ops))]
        for thread in threads:
            thread.start()
        for one in began:
            one.wait(20)
        sess.close()
        for thread in threads:
            thread.join(20)
    words = ["Dequeue", "Dequeue", "Enqueue", "Enqueue"]
    assert [said[at].split(":")[0] for at in range(4)] == [f"{word} operation was cancelled" for word in words]


CSV = [
    (["0.2,234a"], [[1.0], np.array([], np.int32)], "Field 1 in record 0 is not a valid int32: 234a"),
    (["3.0adf,3"], [[1.0], [1]], "Field 0 in record 0 is not a valid float: 3.0adf: "),
    (["1x"], [np.array([], np.float64)], "Field 0 in record 0 is not a valid double: 1x: "),
    (['a"bc'], [["a"]], "Unquoted fields cannot have quotes/CRLFs inside: "),
    (['"'], [["a"]], "Quoted field has to end with quote followed by delim or end: "),
    (['"a"b'], [["a"]], "Quote inside a string has to be escaped by another quote: "),
    ([",1", "0.2,"], [[1.0], np.array([], np.int32)], "Field 1 is required but missing in record 1!"),
    ([",1"], [[1.0]], "Expect 1 fields but have 2 in record 0"),
]


@pytest.mark.parametrize(("records", "defaults", "text"), CSV)
def test_csv(sess, records, defaults, text):
    assert message(sess, tf.decode_csv(records, defaults)).startswith(text)


def test_columns_of_csv():
    for chosen, text in (
        ([0], "Length of select_cols and record_defaults do not match"),
        ([1, 0], "select_cols is not strictly increasing"),
        ([-1, 0], "select_cols contains negative values"),
    ):
        with pytest.raises(ValueError, match=text):
            tf.decode_csv(["1,2"], [[0], [1]], select_cols=chosen)


def test_readers_and_decoders(sess):
    assert message(sess, tf.TFRecordReader().serialize_state()).startswith("Reader SerializeState: ")
    assert message(sess, tf.TextLineReader().restore_state(b"x")).startswith("Reader RestoreState: ")
    for kind in (tf.WholeFileReader, tf.IdentityReader):
        reader = kind(name="r")
        assert message(sess, reader.restore_state(b"BOGUS")).startswith(
            f"Could not parse state for {kind.__name__} '{reader.reader_ref.op.name}': BOGUS: "
        )
    one = {"a": tf.FixedLenFeature([], tf.int64)}
    assert message(sess, tf.parse_single_example(b"x", one)).startswith("Could not parse example input, value: 'x': ")
    assert message(sess, tf.parse_example([b"x"], one)).startswith("Could not parse example input: ")
    assert message(sess, tf.decode_raw(["a", "bc"], tf.uint8)).startswith(
        "DecodeRaw requires input strings to all be the same size: "
    )
    assert message(sess, tf.decode_raw(["abc"], tf.int16)).startswith(
        "Input to DecodeRaw has length 3 that is not a multiple of 2, the size of int16: "
    )
    several = message(sess, tf.py_func(lambda: (1, 2), [], [tf.int64]))
    assert "returns 2 values, but expects to see 1 values" in several


def test_a_text_is_put_before_once():
    error = InvalidArgumentError("ours")
    before(error, "theirs")
    before(error, "theirs")
    assert str(error) == "theirs: ours"
