"""Input functions: producers and batches. What TensorFlow does as well is in helpers/tensorflow/tf1_input.py."""

import inspect
import itertools
from collections import Counter

import hypothesis.strategies as st
import numpy as np
import pytest
from helpers.process import PATIENCE, soon, thread_ids
from hypothesis import given, settings

import queuecore.tf1 as tf
from queuecore.errors import FailedPreconditionError, InvalidArgumentError, OutOfRangeError, UnimplementedError


@pytest.fixture(autouse=True)
def graph():
    """A graph of its own, and no thread that outlives its test."""
    before = thread_ids()
    with tf.Graph().as_default() as made:
        yield made
    assert soon(lambda: thread_ids() <= before, PATIENCE)


def drained(fetches, initialize=False):
    """Run until the end of the data, and return what came."""
    with tf.Session() as sess:
        if initialize:
            sess.run(tf.local_variables_initializer())
        coord = tf.train.Coordinator()
        threads = tf.train.start_queue_runners(sess, coord)
        results = []
        with pytest.raises(OutOfRangeError) as caught:
            while True:
                results.append(sess.run(fetches))
        coord.request_stop()
        coord.join(threads)
        assert caught.value.__cause__ is None
        return results


def numbers(count, epochs=1):
    return tf.train.range_input_producer(count, num_epochs=epochs, shuffle=False).dequeue()


# Arguments and defaults are TensorFlow's

SIGNATURES = {
    "match_filenames_once": "pattern, name=None",
    "limit_epochs": "tensor, num_epochs=None, name=None",
    "input_producer": "input_tensor, element_shape=None, num_epochs=None, shuffle=True, seed=None, capacity=32, "
    "shared_name=None, summary_name=None, name=None, cancel_op=None",
    "string_input_producer": "string_tensor, num_epochs=None, shuffle=True, seed=None, capacity=32, shared_name=None, "
    "name=None, cancel_op=None",
    "range_input_producer": "limit, num_epochs=None, shuffle=True, seed=None, capacity=32, shared_name=None, name=None",
    "slice_input_producer": "tensor_list, num_epochs=None, shuffle=True, seed=None, capacity=32, shared_name=None, "
    "name=None",
    "batch": "tensors, batch_size, num_threads=1, capacity=32, enqueue_many=False, shapes=None, dynamic_pad=False, "
    "allow_smaller_final_batch=False, shared_name=None, name=None",
    "maybe_batch": "tensors, keep_input, batch_size, num_threads=1, capacity=32, enqueue_many=False, shapes=None, "
    "dynamic_pad=False, allow_smaller_final_batch=False, shared_name=None, name=None",
    "batch_join": "tensors_list, batch_size, capacity=32, enqueue_many=False, shapes=None, dynamic_pad=False, "
    "allow_smaller_final_batch=False, shared_name=None, name=None",
    "maybe_batch_join": "tensors_list, keep_input, batch_size, capacity=32, enqueue_many=False, shapes=None, "
    "dynamic_pad=False, allow_smaller_final_batch=False, shared_name=None, name=None",
    "shuffle_batch": "tensors, batch_size, capacity, min_after_dequeue, num_threads=1, seed=None, enqueue_many=False, "
    "shapes=None, allow_smaller_final_batch=False, shared_name=None, name=None",
    "maybe_shuffle_batch": "tensors, batch_size, capacity, min_after_dequeue, keep_input, num_threads=1, seed=None, "
    "enqueue_many=False, shapes=None, allow_smaller_final_batch=False, shared_name=None, name=None",
    "shuffle_batch_join": "tensors_list, batch_size, capacity, min_after_dequeue, seed=None, enqueue_many=False, "
    "shapes=None, allow_smaller_final_batch=False, shared_name=None, name=None",
    "maybe_shuffle_batch_join": "tensors_list, batch_size, capacity, min_after_dequeue, keep_input, seed=None, "
    "enqueue_many=False, shapes=None, allow_smaller_final_batch=False, shared_name=None, name=None",
    "prefetch_queue": "tensors, capacity=8, num_threads=1, dynamic_pad=False, shared_name=None, name=None",
}


@pytest.mark.parametrize("name", SIGNATURES)
def test_signatures(name):
    module = tf.contrib.slim.prefetch_queue if name == "prefetch_queue" else tf.train
    parameters = inspect.signature(getattr(module, name)).parameters.values()
    shown = [one.name if one.default is one.empty else f"{one.name}={one.default!r}" for one in parameters]
    assert ", ".join(shown) == SIGNATURES[name]


# Producers


@given(count=st.integers(1, 40), epochs=st.integers(1, 4), capacity=st.integers(1, 50), seed=st.integers(0, 2**31))
@settings(max_examples=30, deadline=None)
def test_every_epoch_is_a_whole_permutation(count, epochs, capacity, seed):
    def order():
        with tf.Graph().as_default():
            queue = tf.train.range_input_producer(count, epochs, seed=seed, capacity=capacity)
            return [int(one) for one in drained(queue.dequeue())]

    found = order()
    assert len(found) == count * epochs
    for begin in range(0, len(found), count):
        assert sorted(found[begin : begin + count]) == list(range(count))
    assert order() == found


def test_orders_of_epochs_differ_and_go_on_in_each_session():
    queue = tf.train.range_input_producer(50, num_epochs=2, seed=1)
    take = queue.dequeue_many(50)
    first, second = drained(take)
    assert first.tolist() != second.tolist()
    assert [one.tolist() for one in drained(take)] == [first.tolist(), second.tolist()]


def test_without_a_seed_every_order_is_another():
    def order():
        with tf.Graph().as_default():
            return tuple(drained(tf.train.range_input_producer(30, num_epochs=1).dequeue_many(30))[0].tolist())

    assert len({order() for _ in range(4)}) > 1


def test_an_initializer_is_not_needed_and_begins_anew():
    x = tf.train.limit_epochs(tf.constant(5), 2)
    (epochs,) = tf.local_variables()
    with tf.Session() as sess:
        assert sess.run(epochs) == 0
        for _ in range(2):
            assert [sess.run(x), sess.run(x)] == [5, 5]
            with pytest.raises(OutOfRangeError, match="Reached limit of 2"):
                sess.run(x)
            assert sess.run(epochs) == 2
            sess.run(tf.local_variables_initializer())


def test_a_limit_is_exact_with_several_threads():
    queue = tf.FIFOQueue(100, tf.int32, [()])
    x = tf.train.limit_epochs(tf.constant(1), 57)
    tf.train.add_queue_runner(tf.train.QueueRunner(queue, [queue.enqueue(x)] * 6))
    assert len(drained(queue.dequeue())) == 57


def test_names_that_were_never_looked_up_say_what_is_missing(tmp_path):
    names = tf.train.match_filenames_once(str(tmp_path / "*"))
    with tf.Session() as sess, pytest.raises(FailedPreconditionError, match="local_variables_initializer"):
        sess.run(names)


def test_names_of_several_folders(tmp_path):
    for name in ("x/b.txt", "y/a.txt", "y/c.bin"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(b"")
    names = tf.train.match_filenames_once([str(tmp_path / "y" / "*.txt"), str(tmp_path / "?" / "*.[bt]*")])
    found = [str(tmp_path / one).encode() for one in ("x/b.txt", "y/a.txt", "y/a.txt", "y/c.bin")]
    with tf.Session() as sess:
        sess.run(tf.local_variables_initializer())
        assert sess.run(names).tolist() == found
    queue = tf.train.string_input_producer(names, num_epochs=1, shuffle=False)
    assert drained(queue.dequeue(), initialize=True) == found


@pytest.mark.parametrize("names", [lambda: tf.constant([], tf.string), lambda: tf.train.match_filenames_once("/no/*")])
def test_no_names_at_all_reach_the_consumer_as_the_cause(names):
    queue = tf.train.string_input_producer(names())
    with tf.Session() as sess:
        sess.run(tf.local_variables_initializer())
        coord = tf.train.Coordinator()
        threads = tf.train.start_queue_runners(sess, coord)
        with pytest.raises(OutOfRangeError) as caught:
            sess.run(queue.dequeue())
        assert isinstance(caught.value.__cause__, InvalidArgumentError)
        with pytest.raises(InvalidArgumentError, match="no strings"):
            coord.join(threads)


@settings(max_examples=20, deadline=None)
@given(st.data())
def test_slices_are_the_rows(data):
    count = data.draw(st.integers(1, 12))
    sides = data.draw(st.lists(st.lists(st.integers(0, 3), max_size=2), min_size=1, max_size=3))
    arrays = [np.random.default_rng(i).integers(0, 99, [count, *one]) for i, one in enumerate(sides)]
    with tf.Graph().as_default():
        parts = tf.train.slice_input_producer(arrays, num_epochs=1, shuffle=data.draw(st.booleans()))
        found = drained([tf.train.range_input_producer(count, 1, shuffle=False).dequeue(), *parts])
    rows = Counter(str([one[i].tolist() for one in arrays]) for i in range(count))
    assert Counter(str([np.asarray(part).tolist() for part in one[1:]]) for one in found) == rows


# Batches


def in_batches(rows, size, smaller):
    """What itertools makes of rows."""
    rest = iter(rows)
    made = [part for _ in range(len(rows)) if (part := list(itertools.islice(rest, size)))]
    return made if smaller or not made or len(made[-1]) == size else made[:-1]


@settings(max_examples=40, deadline=None)
@given(
    count=st.integers(0, 20),
    size=st.integers(1, 7),
    capacity=st.integers(1, 9),
    smaller=st.booleans(),
    chunk=st.integers(0, 3),
)
def test_batches_are_pieces_of_what_comes(count, size, capacity, smaller, chunk):
    with tf.Graph().as_default():
        x = numbers(count)
        rows, parts = list(range(count)), [x, tf.stack([x, -x])]
        if chunk:
            rows = [number + 100 * i for number in range(count) for i in range(chunk)]
            several = tf.stack([x + 100 * i for i in range(chunk)])
            parts = [several, tf.transpose(tf.stack([several, -several]))]
        batches = drained(
            tf.train.batch(parts, size, capacity=capacity, enqueue_many=bool(chunk), allow_smaller_final_batch=smaller)
        )
    expected = in_batches(rows, size, smaller)
    assert [batch[0].tolist() for batch in batches] == expected
    assert [batch[1].tolist() for batch in batches] == [[[n, -n] for n in batch] for batch in expected]


@settings(max_examples=30, deadline=None)
@given(mask=st.lists(st.booleans(), max_size=12), size=st.integers(1, 4), way=st.sampled_from(["one", "chunk", "rows"]))
def test_only_what_is_kept_comes(mask, size, way):
    with tf.Graph().as_default():
        x, keep = tf.train.slice_input_producer(
            [np.arange(len(mask)), np.array(mask, bool)], num_epochs=1, shuffle=False
        )
        rows = [n for n, kept in enumerate(mask) if kept]
        parts = {"n": x, "s": tf.as_string(x)}
        if way == "chunk":
            parts = {"n": tf.stack([x, x]), "s": tf.as_string(tf.stack([x, x]))}
            rows = [n for n in rows for _ in range(2)]
        elif way == "rows":
            parts = {"n": tf.stack([x, x]), "s": tf.as_string(tf.stack([x, x]))}
            keep = tf.stack([keep, tf.equal(x, -1)])
        found = drained(
            tf.train.maybe_batch(parts, keep, size, enqueue_many=way != "one", allow_smaller_final_batch=True)
        )
    expected = in_batches(rows, size, True)
    assert [one["n"].tolist() for one in found] == expected
    assert [one["s"].tolist() for one in found] == [[b"%d" % n for n in one] for one in expected]


@pytest.mark.parametrize("threads", [1, 4])
@pytest.mark.parametrize("shuffled", [False, True])
def test_everything_comes_once_from_several_threads(threads, shuffled):
    x = numbers(200, 2)
    if shuffled:
        made = tf.train.shuffle_batch([x, x * 2], 16, 40, 20, num_threads=threads, allow_smaller_final_batch=True)
    else:
        made = tf.train.batch([x, x * 2], 16, num_threads=threads, allow_smaller_final_batch=True)
    found = [pair for a, b in drained(made) for pair in zip(a.tolist(), b.tolist(), strict=True)]
    assert Counter(found) == Counter({(n, 2 * n): 2 for n in range(200)})
    if threads == 1 and not shuffled:
        assert [a for a, _ in found] == [*range(200)] * 2


@pytest.mark.parametrize(
    "function", ["batch_join", "shuffle_batch_join", "maybe_batch_join", "maybe_shuffle_batch_join"]
)
def test_every_list_has_a_thread(function):
    lists = [{"x": numbers(30), "at": tf.constant(i)} for i in range(3)]
    more = {"capacity": 50, "min_after_dequeue": 10} if "shuffle" in function else {}
    if "maybe" in function:
        more["keep_input"] = True
    found = drained(getattr(tf.train, function)(lists, batch_size=7, allow_smaller_final_batch=True, **more))
    pairs = [pair for one in found for pair in zip(one["at"].tolist(), one["x"].tolist(), strict=True)]
    assert Counter(pairs) == Counter(itertools.product(range(3), range(30)))
    assert [len(one["x"]) for one in found] == [7] * 12 + [6]


def test_joined_examples_of_several_shapes_are_padded():
    x = numbers(4)
    short, long = tf.reshape(x, [1]), tf.stack([x, x, x])
    found = drained(
        tf.train.batch_join([[short], [tf.slice(long, [0], tf.stack([tf.minimum(x, 3)]))]], 1, dynamic_pad=True)
    )
    assert len(found) == 4


def test_a_batch_of_unknown_size():
    size = tf.placeholder(tf.int32, [])
    batch = tf.train.batch([tf.constant(1)], size)
    with tf.Session() as sess:
        coord = tf.train.Coordinator()
        threads = tf.train.start_queue_runners(sess, coord)
        assert [len(sess.run(batch, {size: n})) for n in (3, 0, 50)] == [3, 0, 50]
        coord.request_stop()
        coord.join(threads)


def test_tensors_of_several_parts_are_refused_in_words():
    with pytest.raises(UnimplementedError, match="dense"):
        tf.contrib.slim.prefetch_queue.prefetch_queue([tf.SparseTensor([[0, 0]], [1], [1, 1])])


def test_sparse_and_dense_ones_are_not_joined():
    sparse = [tf.SparseTensor([[0, 0]], [one], [1, 1]) for one in (1, 1.5)]
    for other in (tf.constant(1), sparse[1]):
        with pytest.raises(TypeError, match="consistent"):
            tf.train.batch_join([[sparse[0]], [other]], 2)


@settings(max_examples=30, deadline=None)
@given(st.data())
def test_batches_of_sparse_tensors_are_those_of_dense_ones(data):
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    count, size = data.draw(st.integers(1, 6)), data.draw(st.integers(1, 4))
    sides = data.draw(st.lists(st.integers(1, 3), min_size=1, max_size=3))
    chunk, keep = data.draw(st.booleans()), data.draw(st.booleans())
    dense = rng.integers(-1, 2, [count, *([2] if chunk else []), *sides])
    with tf.Graph().as_default():
        (x,) = tf.train.slice_input_producer([dense], num_epochs=1, shuffle=False)
        places = tf.py_func(lambda array: np.argwhere(array), [x], tf.int64)
        places.set_shape([None, x.shape.ndims])
        values = tf.py_func(lambda array: array[array != 0], [x], tf.int64)
        values.set_shape([None])
        sparse = tf.SparseTensor(places, values, x.get_shape().as_list())
        mask = tf.greater(tf.reduce_sum(x), 0) if keep else True
        found = drained(tf.train.maybe_batch([sparse], mask, size, enqueue_many=chunk, allow_smaller_final_batch=True))
    kept = [array for array in dense if not keep or array.sum() > 0]
    rows = [row for array in kept for row in array] if chunk else kept
    expected = in_batches(rows, size, True)
    assert len(found) == len(expected)
    for got, part in zip(found, expected, strict=True):
        again = np.zeros(got.dense_shape, np.int64)
        again[tuple(got.indices.T)] = got.values
        np.testing.assert_array_equal(again, np.stack(part))


# Batches of records, and the native programs that make them


def records(path, count=20):
    array = np.arange(13 * count, dtype=np.uint8).reshape(count, 13)
    path.write_bytes(array.tobytes())
    return array


def parsed(value):
    """The CIFAR tutorial's way from a record to a picture and its label."""
    record = tf.decode_raw(value, tf.uint8)
    label = tf.cast(tf.slice(record, [0], [1]), tf.int32)
    label.set_shape([1])
    picture = tf.transpose(tf.reshape(tf.slice(record, [1], [12]), [3, 2, 2]), [1, 2, 0])
    return [tf.cast(picture, tf.float32), label]


def as_parsed(array):
    pictures = array[:, 1:].reshape(-1, 3, 2, 2).transpose(0, 2, 3, 1).astype(np.float32)
    return pictures, array[:, :1].astype(np.int32)


def lowered():
    return {entry.queue: entry.lowered for entry in tf.train.lowering_report()}


def test_batches_of_records_are_made_natively(tmp_path):
    array = records(tmp_path / "a")
    names = tf.train.string_input_producer([str(tmp_path / "a")], num_epochs=1)
    made = tf.train.batch(parsed(tf.FixedLengthRecordReader(13).read(names)[1]), 5)
    assert lowered() == {"input_producer": False, "batch/fifo_queue": True}
    found = drained(made)
    for got, expected in zip(map(np.concatenate, zip(*found, strict=True)), as_parsed(array), strict=True):
        np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("way", ["batch", "shuffle_batch", "shuffle_batch_join"])
def test_several_native_threads_give_every_record_once(tmp_path, way):
    files = [tmp_path / str(i) for i in range(4)]
    arrays = np.concatenate([records(path) + np.uint8(7 * i) for i, path in enumerate(files)])
    for i, path in enumerate(files):
        path.write_bytes(arrays[20 * i : 20 * i + 20].tobytes())
    names = tf.train.string_input_producer([str(path) for path in files], num_epochs=3)
    if way == "shuffle_batch_join":
        lists = [parsed(tf.FixedLengthRecordReader(13).read(names)[1]) for _ in range(3)]
        fetches = tf.train.shuffle_batch_join(lists, 8, 60, 30)
    else:
        parts = parsed(tf.FixedLengthRecordReader(13).read(names)[1])
        more = {"capacity": 60, "min_after_dequeue": 30} if way == "shuffle_batch" else {}
        fetches = getattr(tf.train, way)(parts, 8, num_threads=3, **more)
    assert sum(entry.lowered for entry in tf.train.lowering_report()) == (3 if way == "shuffle_batch_join" else 1)
    found = drained(fetches)
    got = Counter(picture.tobytes() + label.tobytes() for batch in found for picture, label in zip(*batch, strict=True))
    pictures, labels = as_parsed(arrays)
    expected = Counter(a.tobytes() + b.tobytes() for a, b in zip(pictures, labels, strict=True))
    assert got == Counter({key: 3 * n for key, n in expected.items()})


def test_records_that_are_read_several_at_a_time(tmp_path):
    array = records(tmp_path / "a")
    names = tf.train.string_input_producer([str(tmp_path / "a")], num_epochs=2)
    _, values = tf.FixedLengthRecordReader(13).read_up_to(names, 7)
    rows = tf.decode_raw(values, tf.uint8)
    rows.set_shape([None, 13])
    made = tf.train.batch([rows], 6, enqueue_many=True, allow_smaller_final_batch=True)
    assert lowered()["batch/fifo_queue"]
    np.testing.assert_array_equal(np.concatenate(drained(made)), np.concatenate([array, array]))


def test_what_forbids_a_native_program_is_named(tmp_path):
    records(tmp_path / "a")
    names = tf.train.string_input_producer([str(tmp_path / "a")], num_epochs=1)
    key, value = tf.FixedLengthRecordReader(13).read(names)
    tf.train.batch([key, tf.decode_raw(value, tf.uint8)], 2, shapes=[[], [13]])
    tf.train.maybe_batch(parsed(value), tf.greater(tf.decode_raw(value, tf.uint8)[0], 3), 2)
    reasons = {entry.op: entry.reason for entry in tf.train.lowering_report() if "batch" in entry.op}
    assert "key" in reasons["batch/fifo_queue_enqueue"]
    assert reasons["batch_1/fifo_queue_EnqueueMany"]


def test_batches_are_made_ahead_in_a_prefetch_queue(tmp_path):
    array = records(tmp_path / "a")
    names = tf.train.string_input_producer([str(tmp_path / "a")], num_epochs=2)
    pictures, labels = tf.train.batch(parsed(tf.FixedLengthRecordReader(13).read(names)[1]), 5)
    queue = tf.contrib.slim.prefetch_queue.prefetch_queue([pictures, labels], capacity=2)
    assert queue.name == "prefetch_queue/fifo_queue"
    found = drained(queue.dequeue())
    for got, expected in zip(map(np.concatenate, zip(*found, strict=True)), as_parsed(array), strict=True):
        np.testing.assert_array_equal(got, np.concatenate([expected, expected]))


def test_a_prefetch_queue_of_a_dict_and_of_batches_that_differ():
    x = numbers(7)
    batch = tf.train.batch({"b": x, "a": tf.as_string(x)}, 3, allow_smaller_final_batch=True)
    with pytest.raises(ValueError, match="fully defined"):
        tf.contrib.slim.prefetch_queue.prefetch_queue(batch)
    queue = tf.contrib.slim.prefetch_queue.prefetch_queue(batch, dynamic_pad=True, name="ahead")
    assert (queue.names, queue.name) == (["a", "b"], "ahead/padding_fifo_queue")
    found = drained(queue.dequeue())
    assert [one["b"].tolist() for one in found] == [[0, 1, 2], [3, 4, 5], [6]]
    assert [one["a"].tolist() for one in found] == [[b"0", b"1", b"2"], [b"3", b"4", b"5"], [b"6"]]


def test_a_prefetch_queue_with_several_threads_and_refusals():
    queue = tf.contrib.slim.prefetch_queue.prefetch_queue([tf.train.batch([numbers(20)], 2)], num_threads=3)
    assert sorted(int(n) for one in drained(queue.dequeue()) for n in one) == list(range(20))
    with pytest.raises(TypeError):
        tf.contrib.slim.prefetch_queue.prefetch_queue(tf.constant([1]))
    with pytest.raises(ValueError, match="at least one component"):
        tf.contrib.slim.prefetch_queue.prefetch_queue([])


def levels(sess):
    told = tf.Summary.FromString(sess.run(tf.summary.merge_all()))
    return {one.tag: round(one.simple_value, 6) for one in told.value}


def test_producers_and_batches_tell_how_full_their_queues_are():
    # The names and shares are those of TensorFlow's functions.
    with tf.Graph().as_default(), tf.Session() as sess:
        names = tf.train.string_input_producer(["a", "b"], num_epochs=3, shuffle=False, capacity=8, name="names")
        batch = tf.train.batch([names.dequeue()], 2, capacity=4, name="ordered")
        tf.train.shuffle_batch([tf.constant(1)], 2, capacity=10, min_after_dequeue=6, name="mixed")
        tf.train.input_producer([1, 2], name="plain")
        tf.contrib.slim.prefetch_queue.prefetch_queue([tf.constant(1)], capacity=3, name="ready")
        assert levels(sess) == {
            "names/fraction_of_8_full": 0, "ordered/fraction_of_4_full": 0, "mixed/fraction_over_6_of_10_full": 0,
            "ready/fraction_of_3_full": 0,
        }  # fmt: skip
        queue = tf.get_collection(tf.GraphKeys.QUEUE_RUNNERS)[2].queue
        sess.run(queue.enqueue_many([[1] * 8]))
        assert levels(sess)["mixed/fraction_over_6_of_10_full"] == 0.5
        sess.run(names.enqueue_many([["x"] * 2]))
        assert levels(sess)["names/fraction_of_8_full"] == 0.25
        assert batch.shape.as_list() == [2]


def test_runners_have_a_module_of_their_own():
    assert tf.train.queue_runner.QueueRunner is tf.train.QueueRunner
    assert tf.train.queue_runner.add_queue_runner is tf.train.add_queue_runner
