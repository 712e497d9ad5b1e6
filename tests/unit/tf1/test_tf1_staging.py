"""Staging areas, barriers and `RecordInput`: holders of elements that aren't queues."""

import threading
from collections import Counter

import numpy as np
import pytest
from helpers.process import PATIENCE, soon, thread_ids

import queuecore.tf1 as tf
from queuecore.errors import (
    CancelledError,
    ChecksumError,
    DeadlineExceededError,
    InvalidArgumentError,
    NotFoundError,
    OutOfRangeError,
    ResourceExhaustedError,
)
from queuecore.tf1.data_flow_ops import Barrier, MapStagingArea, RecordInput, StagingArea

FIRST = -(2**63)


@pytest.fixture(autouse=True)
def graph():
    """A graph of its own, and no thread that outlives its test."""
    before = thread_ids()
    with tf.Graph().as_default() as made:
        yield made
    assert soon(lambda: thread_ids() <= before, PATIENCE)


@pytest.fixture
def sess(graph):
    with tf.Session() as made:
        yield made


def within(milliseconds):
    return tf.RunOptions(timeout_in_ms=milliseconds)


class Beside(threading.Thread):
    """A run in a thread of its own."""

    def __init__(self, sess, fetches, feed=None):
        super().__init__(daemon=True)
        self._arguments = sess, fetches, feed
        self.error = self.result = None
        self.start()

    def run(self):
        sess, fetches, feed = self._arguments
        try:
            self.result = sess.run(fetches, feed)
        except BaseException as error:
            self.error = error

    def over(self):
        self.join(PATIENCE)
        assert not self.is_alive()
        if self.error is not None:
            raise self.error
        return self.result

    def waits(self):
        """Wait a moment, and return whether it still runs."""
        self.join(0.1)
        return self.is_alive()


# Staging areas


def test_elements_come_in_their_order_and_stay_while_they_are_looked_at(sess):
    area = StagingArea([tf.int32, tf.string], shapes=[None, ()])
    x = tf.placeholder(tf.int32)
    put, get, first, third = area.put([x, tf.as_string(tf.size(x))]), area.get(), area.peek(0), area.peek(2)
    for values in ([1], [2, 2], [3, 3, 3]):
        sess.run(put, {x: values})
    assert [one.tolist() if isinstance(one, np.ndarray) else one for one in sess.run(third)] == [[3, 3, 3], b"3"]
    for values in ([1], [2, 2], [3, 3, 3]):
        assert sess.run(first)[0].tolist() == values
        number, text = sess.run(get)
        assert number.tolist() == values and text == b"%d" % len(values)
    assert sess.run(area.size()) == 0
    assert get[0].shape.ndims is None and get[1].shape == ()


def test_an_element_by_names(sess):
    area = tf.contrib.staging.StagingArea([tf.float32, tf.int64], names=["f", "i"], shapes=[(), (2,)])
    put, get = area.put({"i": tf.constant([1, 2], tf.int64), "f": 0.5}), area.get()
    sess.run(put)
    taken = sess.run(get)
    assert taken["f"] == 0.5 and taken["i"].tolist() == [1, 2] and list(taken) == ["f", "i"]
    assert get["i"].shape == (2,)


def test_one_run_takes_an_element_and_puts_the_next(sess):
    area = StagingArea([tf.int32], capacity=1)
    x = tf.placeholder(tf.int32)
    put, (got,) = area.put(x), area.get()
    sess.run(put, {x: 0})
    for number in range(1, 6):
        assert sess.run([put, got], {x: number}, within(20000)) == [None, number - 1]


@pytest.mark.parametrize("kind", ["area", "map"])
def test_a_put_waits_for_room_and_what_times_out_is_not_in(sess, kind):
    limits = {"capacity": 2}
    area = StagingArea([tf.int32], **limits) if kind == "area" else MapStagingArea([tf.int32], **limits)
    x, key = tf.placeholder(tf.int32), tf.placeholder(tf.int64)
    put = area.put(x) if kind == "area" else area.put(key, x)
    get = area.get() if kind == "area" else area.get()[1]
    for number in (1, 2):
        sess.run(put, {x: number, key: number})
    with pytest.raises(DeadlineExceededError, match=area.name):
        sess.run(put, {x: 3, key: 3}, within(50))
    waiting = Beside(sess, put, {x: 4, key: 4})
    assert waiting.waits() and sess.run(area.size()) == 2
    assert sess.run(get) == [1]
    waiting.over()
    assert [sess.run(get), sess.run(get), sess.run(area.size())] == [[2], [4], 0]


def test_bytes_are_limited_of_numbers_and_of_strings(sess):
    x = tf.placeholder(tf.string)
    area = StagingArea([tf.string, tf.uint8], memory_limit=100)
    size = tf.placeholder(tf.int32)
    put, get, clear = area.put([x, tf.zeros([size], tf.uint8)]), area.get(), area.clear()
    sess.run(put, {x: ["a" * 30, "b" * 10], size: 10})
    sess.run(put, {x: "c" * 30, size: 20})
    with pytest.raises(DeadlineExceededError):
        sess.run(put, {x: "", size: 1}, within(50))
    sess.run(put, {x: "", size: 0})
    with pytest.raises(ResourceExhaustedError, match="size of '101' bytes .* limit of '100'"):
        sess.run(put, {x: "a", size: 100})
    sess.run(get)
    waiting = Beside(sess, put, {x: "d" * 51, size: 0})
    assert waiting.waits()
    sess.run(clear)
    waiting.over()
    assert sess.run(area.size()) == 1 and sess.run(get)[0] == b"d" * 51


def test_waits_end_with_the_session(graph):
    area, keyed = StagingArea([tf.int32], capacity=1), MapStagingArea([tf.int32])
    barrier = Barrier(tf.int32, shapes=())
    sess = tf.Session()
    sess.run(area.put(1))
    fetches = [area.put(2), area.peek(1), keyed.get(), keyed.peek(5), [keyed.get(3)[1], keyed.get(4)[1]]]
    waiting = [Beside(sess, one) for one in [*fetches, barrier.take_many(1)[0]]]
    assert all(one.waits() for one in waiting)
    sess.close()
    for one in waiting:
        with pytest.raises(CancelledError):
            one.over()


def test_a_run_whose_part_fails_ends_its_wait_for_an_area(sess):
    area, queue = StagingArea([tf.int32]), tf.FIFOQueue(1, tf.int32, [()])
    sess.run(queue.close())
    with pytest.raises(OutOfRangeError, match="closed"):
        sess.run([area.get(), queue.dequeue()])
    sess.run(area.put(5))
    assert sess.run(area.get(), options=within(5000)) == [5]


def test_each_session_has_its_own_and_a_name_is_shared_within_one(sess):
    one, other = StagingArea([tf.int32], shared_name="both"), StagingArea([tf.int32], shared_name="both")
    keyed = MapStagingArea([tf.int32], shared_name="both")
    sess.run(one.put(7))
    assert sess.run(other.size()) == 1 and sess.run(keyed.size()) == 0
    with tf.Session() as second:
        assert second.run(one.size()) == 0
    assert sess.run(other.get()) == [7]
    with pytest.raises(InvalidArgumentError, match="int32, and string were asked for"):
        sess.run(StagingArea([tf.string], shared_name="both").size())
    assert StagingArea([tf.int32]).name != StagingArea([tf.int32]).name


def test_an_array_that_was_fed_or_fetched_can_be_changed(sess):
    area = StagingArea([tf.int32])
    x = tf.placeholder(tf.int32)
    mine = np.arange(3, dtype=np.int32)
    _, same = sess.run([area.put([x]), x], {x: mine})
    mine[:] = same[:] = 9
    peeked = sess.run(area.peek(0))[0]
    peeked[:] = 8
    assert sess.run(area.get())[0].tolist() == [0, 1, 2]


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: StagingArea([tf.int32], shapes=[(), ()]),
        lambda: StagingArea([tf.int32], names=["a", "b"]),
        lambda: StagingArea([tf.int32], shared_name=7),
        lambda: StagingArea([tf.int32] * 2).put([1]),
        lambda: StagingArea([tf.int32]).put({"a": 1}),
        lambda: StagingArea([tf.int32], names=["a"]).put(1),
        lambda: StagingArea([tf.int32], names=["a"]).put({"b": 1}),
        lambda: StagingArea([tf.int32]).put(tf.constant(1.0)),
        lambda: StagingArea([tf.int32], shapes=[(2,)]).put([[1, 2, 3]]),
        lambda: MapStagingArea([tf.int32]).put(1, [1]),
        lambda: MapStagingArea([tf.int32] * 2).put(1, [1, 2], [0]),
        lambda: MapStagingArea([tf.int32] * 2).put(1, [1, 2], [1, 0]),
        lambda: MapStagingArea([tf.int32]).put(1, [1], [1]),
        lambda: MapStagingArea([tf.int32]).get(1, []),
        lambda: MapStagingArea([tf.int32]).get(1, ["a"]),
        lambda: MapStagingArea([tf.int32], names=["a"]).get(1, ["b"]),
        lambda: MapStagingArea([tf.int32]).peek(1, [-1]),
    ],
)
def test_what_is_no_element_is_an_error_at_once(wrong):
    with pytest.raises(ValueError):
        wrong()


def test_indices_have_one_type():
    area = MapStagingArea([tf.int32] * 2, names=["a", "b"])
    for indices in ("a", ["a", 1]):
        with pytest.raises(TypeError):
            area.get(1, indices)


def test_a_place_is_a_scalar_not_below_zero(sess):
    area, place = StagingArea([tf.int32]), tf.placeholder(tf.int32)
    sess.run(area.put(1))
    for wrong in (-1, [0]):
        with pytest.raises(InvalidArgumentError, match="index must be scalar"):
            sess.run(area.peek(place), {place: wrong})


# Under keys


def test_elements_are_put_and_taken_part_by_part(sess):
    area = MapStagingArea([tf.int32, tf.string, tf.float32], capacity=1)
    a, c = area.put(7, [1, 0.5], [0, 2]), area.put(7, ["x"], [1])
    sizes = [area.size(), area.incomplete_size()]
    sess.run(a)
    assert sess.run(sizes) == [0, 1]
    with pytest.raises(InvalidArgumentError, match="index '0' for key '7' was already initialized"):
        sess.run(a)
    waiting = Beside(sess, area.peek(7, [0, 1]))
    assert waiting.waits()
    sess.run(c)
    assert waiting.over() == [1, b"x"] and sess.run(sizes) == [1, 0]
    key, outer = area.get(7, [0, 2])
    assert key == 7 and sess.run(outer) == [1, 0.5] and sess.run(sizes) == [1, 0]
    with pytest.raises(InvalidArgumentError, match="index '0' for key '7' has already been removed"):
        sess.run(outer)
    assert sess.run(area.get(indices=[1])) == (7, [b"x"]) and sess.run(sizes) == [0, 0]


def test_a_key_that_is_there_is_put_once(sess):
    area = MapStagingArea([tf.int32, tf.int32])
    sess.run(area.put(1, [1, 2], [0, 1]))
    with pytest.raises(InvalidArgumentError, match="for key '1' was already initialized"):
        sess.run(area.put(1, [3, 4], [0, 1]))
    sess.run(area.put(1, [5], [0]))
    with pytest.raises(InvalidArgumentError, match="for key '1' was already initialized"):
        sess.run(area.put(1, [6], [1]))
    assert sess.run(area.get(1)[1]) == [1, 2]
    sess.run(area.put(1, [6], [1]))
    assert sess.run(area.get(1)[1]) == [5, 6]


@pytest.mark.parametrize("ordered", [False, True])
def test_without_a_key_the_smallest_or_the_earliest_comes(sess, ordered):
    area = MapStagingArea([tf.int32], ordered=ordered)
    keys = [5, -3, 9, 0, 7]
    for key in keys:
        sess.run(area.put(key, tf.constant(10 * key)))
    assert sess.run(area.get(9)[1]) == [90]
    get = area.get()
    rest = sorted(set(keys) - {9}) if ordered else [5, -3, 0, 7]
    assert [sess.run(get) for _ in rest] == [(key, [10 * key]) for key in rest]
    sess.run(area.put(2, tf.constant(4)))
    sess.run(area.put(1, [], []))
    sess.run(area.clear())
    assert sess.run([area.size(), area.incomplete_size()]) == [0, 0]
    with pytest.raises(DeadlineExceededError):
        sess.run(get, options=within(50))


def test_a_key_is_a_scalar(sess):
    area, key = MapStagingArea([tf.int32]), tf.placeholder(tf.int64)
    for fetch in (area.put(key, [1], [0]), area.get(key)[1], area.peek(key)):
        with pytest.raises(InvalidArgumentError, match="key must be an int64 scalar"):
            sess.run(fetch, {key: [1]})


def test_threads_get_each_element_once(sess):
    area = MapStagingArea([tf.int64], capacity=3)
    x = tf.placeholder(tf.int64)
    put, get = area.put(x, [x * 2], [0]), area.get()
    values = []

    def putting(first):
        for number in range(first, 200, 4):
            sess.run(put, {x: number})

    def getting():
        for _ in range(50):
            values.append(sess.run(get, options=within(60000)))

    threads = [threading.Thread(target=putting, args=(first,)) for first in range(4)]
    threads += [threading.Thread(target=getting) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(values) == [(number, [2 * number]) for number in range(200)]


# Barriers


def values_of(taken):
    return [part.tolist() for part in (taken.indices, taken.keys, *taken.values)]


def test_elements_come_in_the_order_of_their_first_parts(sess):
    barrier = Barrier([tf.int32, tf.string], shapes=[(2,), ()])
    take = barrier.take_many(2)
    sess.run(barrier.insert_many(0, ["a", "b"], [[1, 2], [3, 4]]))
    sess.run(barrier.insert_many(1, ["c"], ["sea"]))
    sess.run(barrier.insert_many(0, ["c"], [[5, 6]]))
    sess.run(barrier.insert_many(1, ["b"], ["bee"]))
    assert sess.run([barrier.ready_size(), barrier.incomplete_size()]) == [2, 1]
    assert values_of(sess.run(take)) == [[FIRST, FIRST + 1], [b"b", b"c"], [[3, 4], [5, 6]], [b"bee", b"sea"]]
    assert take.values[0].shape == (2, 2) and take.keys.shape == (2,)
    with pytest.raises(DeadlineExceededError):
        sess.run(barrier.take_many(1, timeout=50))
    sess.run(barrier.insert_many(1, ["a"], ["ay"]))
    assert values_of(sess.run(barrier.take_many(1))) == [[FIRST], [b"a"], [[1, 2]], [b"ay"]]


def test_an_insertion_that_fails_changes_nothing(sess):
    barrier = Barrier([tf.int32, tf.int32], shapes=[(), ()], name="pairs")
    sess.run(barrier.insert_many(0, ["a"], [1]))
    with pytest.raises(InvalidArgumentError, match="Key a already has a value for component 0 in barrier pairs"):
        sess.run(barrier.insert_many(0, ["b", "a"], [2, 3]))
    assert sess.run(barrier.incomplete_size()) == 1
    keys, rows = tf.placeholder(tf.string), tf.placeholder(tf.int32)
    insert = barrier.insert_many(1, keys, rows)
    for wrong in ([1, 2], [[1]], 1):
        with pytest.raises(InvalidArgumentError, match="don't fit"):
            sess.run(insert, {keys: ["a"], rows: wrong})
    sess.run(insert, {keys: ["a"], rows: [4]})
    assert values_of(sess.run(barrier.take_many(1)))[2:] == [[1], [4]]


def test_a_closed_barrier_takes_only_what_was_begun(sess):
    barrier = Barrier([tf.int32, tf.int32], shapes=[(), ()])
    sess.run(barrier.insert_many(0, ["a", "b"], [1, 2]))
    waiting = Beside(sess, barrier.take_many(3, allow_small_batch=True))
    assert waiting.waits()
    sess.run(barrier.close())
    with pytest.raises(CancelledError, match="is closed: attempted to insert a brand new key: b'c'"):
        sess.run(barrier.insert_many(0, ["c"], [3]))
    with pytest.raises(CancelledError, match="already closed"):
        sess.run(barrier.close())
    with pytest.raises(OutOfRangeError, match=r"insufficient elements \(requested 3, total size 2\)"):
        sess.run(barrier.take_many(3))
    sess.run(barrier.insert_many(1, ["b"], [20]))
    sess.run(barrier.insert_many(1, ["a"], [10]))
    # TensorFlow's waits for ever.
    assert sorted(waiting.over().keys.tolist()) == [b"a", b"b"]
    with pytest.raises(OutOfRangeError, match="insufficient"):
        sess.run(barrier.take_many(1, allow_small_batch=True))
    with pytest.raises(CancelledError, match="is closed"):
        sess.run(barrier.insert_many(1, ["a"], [10]))


def test_a_cancelled_barrier_drops_what_is_not_complete(sess):
    barrier = Barrier(tf.int32, shapes=(), shared_name="one")
    pairs = Barrier([tf.int32, tf.int32])
    sess.run([barrier.insert_many(0, ["a", "a"], [1, 2]), pairs.insert_many(1, ["a"], [1])])
    assert sess.run(Barrier(tf.int32, shapes=(), shared_name="one").ready_size()) == 2
    waiting = Beside(sess, pairs.take_many(1))
    assert waiting.waits()
    sess.run([barrier.close(True), pairs.close(cancel_pending_enqueues=True)])
    with pytest.raises(OutOfRangeError):
        waiting.over()
    assert sess.run(pairs.incomplete_size()) == 0
    with pytest.raises(CancelledError, match="cancelled: True"):
        sess.run(pairs.insert_many(0, ["a"], [1]))
    assert values_of(sess.run(barrier.take_many(2)))[2] == [1, 2]


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: Barrier(tf.int32, shapes=[(0,)]),
        lambda: Barrier(tf.int32, shapes=[(None,)]),
        lambda: Barrier(tf.int32, shapes=[(1,), (2,)]),
        lambda: Barrier(tf.int32).insert_many(1, ["a"], [1]),
        lambda: Barrier(tf.int32).insert_many(0, ["a"], [1, 2]),
        lambda: Barrier(tf.int32).insert_many(0, "a", [1]),
        lambda: Barrier(tf.int32, shapes=(2,)).insert_many(0, ["a"], [1]),
        lambda: Barrier(tf.int32).insert_many(0, ["a"], tf.constant([1.5])),
        lambda: Barrier(tf.int32).take_many(-1),
    ],
)
def test_what_does_not_fit_a_barrier_is_an_error_at_once(wrong):
    with pytest.raises(ValueError):
        wrong()


def test_without_shapes_components_are_scalars(sess):
    barrier = Barrier([tf.int32, tf.string])
    sess.run([barrier.insert_many(0, ["k", "l"], [1, 2]), barrier.insert_many(1, ["l", "k"], ["b", "a"])])
    assert values_of(sess.run(barrier.take_many(2)))[2:] in ([[1, 2], [b"a", b"b"]], [[2, 1], [b"b", b"a"]])
    with pytest.raises(InvalidArgumentError, match="don't fit"):
        sess.run(barrier.insert_many(0, ["k"], [[1, 2]]))
    with pytest.raises(InvalidArgumentError, match="no elements"):
        sess.run(barrier.insert_many(0, ["k"], tf.zeros([1, 0], tf.int32)))


# Records


def write(path, count, first=0, options=None):
    with tf.python_io.TFRecordWriter(str(path), options) as writer:
        for number in range(first, first + count):
            writer.write(b"%d" % number)


@pytest.mark.parametrize("parallelism", [1, 3])
def test_each_epoch_has_each_record_once_in_an_order_of_its_own(sess, tmp_path, parallelism):
    for number in range(5):
        write(tmp_path / f"part-{number}", 20, 20 * number)
    pattern = f"{tmp_path}/part-[0-2],{tmp_path}/part-[3-9]"

    def records(seed):
        made = RecordInput(pattern, 10, 30, parallelism, shift_ratio=0.4, seed=seed).get_yield_op()
        assert made.shape == (10,) and made.dtype == tf.string
        return [np.concatenate([sess.run(made) for _ in range(10)]).tolist() for _ in range(3)]

    epochs = records(4)
    assert all(sorted(map(int, epoch)) == list(range(100)) for epoch in epochs)
    assert len({tuple(epoch) for epoch in epochs}) == 3
    assert records(4) == epochs != records(5)


def test_a_batch_goes_on_in_the_next_epoch_and_finds_new_files(sess, tmp_path):
    write(tmp_path / "a", 3)
    batch = RecordInput(str(tmp_path / "?"), batch_size=2).get_yield_op()
    counts = Counter(record for _ in range(3) for record in sess.run(batch).tolist())
    assert counts == {b"0": 2, b"1": 2, b"2": 2}
    write(tmp_path / "b", 1, 7)
    assert soon(lambda: b"7" in sess.run(batch).tolist(), PATIENCE)


@pytest.mark.parametrize("compression", ["GZIP", "ZLIB"])
def test_several_batches_of_compressed_files(sess, tmp_path, compression):
    kind = getattr(tf.python_io.TFRecordCompressionType, compression)
    write(tmp_path / "x", 6, options=tf.python_io.TFRecordOptions(compression))
    source = RecordInput(str(tmp_path / "x"), 3, 1, batches=2, name="input", compression_type=kind)
    batches = sess.run(source.get_yield_op())
    assert [len(batch) for batch in batches] == [3, 3]
    assert sorted(batches[0] + batches[1]) == [b"%d" % number for number in range(6)]


def test_files_that_are_missing_bad_or_empty(sess, tmp_path):
    with pytest.raises(NotFoundError, match="Found no files at .*none"):
        sess.run(RecordInput(str(tmp_path / "none*")).get_yield_op())
    (tmp_path / "empty").write_bytes(b"")
    with pytest.raises(InvalidArgumentError, match="no records"):
        sess.run(RecordInput(str(tmp_path / "empty")).get_yield_op())
    write(tmp_path / "bad", 1)
    content = bytearray((tmp_path / "bad").read_bytes())
    content[12] ^= 1
    (tmp_path / "bad").write_bytes(content)
    with pytest.raises(ChecksumError):
        sess.run(RecordInput(str(tmp_path / "bad")).get_yield_op())
    for wrong in ({"batch_size": 0}, {"buffer_size": -1}, {"parallelism": 0}, {"batches": 0},
                  {"compression_type": "LZ"}):  # fmt: skip
        with pytest.raises(InvalidArgumentError):
            RecordInput("x", **wrong)
