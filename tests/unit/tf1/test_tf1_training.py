"""`tf.contrib.training`: buckets, sampling by probabilities and classes, resampling."""

import collections
import contextlib
import threading

import numpy as np
import pytest

import queuecore.tf1 as tf
from queuecore.errors import InvalidArgumentError, OutOfRangeError

training = tf.contrib.training


@contextlib.contextmanager
def running():
    with tf.Session() as sess:
        sess.run([tf.global_variables_initializer(), tf.local_variables_initializer()])
        coord = tf.train.Coordinator()
        threads = tf.train.start_queue_runners(sess, coord)
        yield sess
        coord.request_stop()
        coord.join(threads)


def to_the_end(sess, fetches):
    values = []
    with contextlib.suppress(OutOfRangeError):
        while True:
            values.append(sess.run(fetches))
    return values


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default() as made:
        yield made


def numbers(count):
    return tf.train.range_input_producer(count, num_epochs=1, shuffle=False).dequeue()


# Buckets


@pytest.mark.parametrize("smaller", [False, True])
def test_buckets_fill_batches_of_their_own_until_the_data_ends(smaller):
    number = numbers(23)
    tensors = {"row": tf.fill([number], number), "number": number}
    bucket_index, batch = training.bucket(
        tensors, number % 3, 4, 3, dynamic_pad=True, allow_smaller_final_batch=smaller
    )
    size = None if smaller else 4
    assert (bucket_index.shape.as_list(), bucket_index.dtype) == ([], tf.int32)
    assert [batch[key].shape.as_list() for key in ("number", "row")] == [[size], [size, None]]
    of = collections.defaultdict(list)
    with running() as sess:
        for bucket, values in to_the_end(sess, (bucket_index, batch)):
            of[int(bucket)].append(values["number"].tolist())
            assert values["row"].shape == (len(values["number"]), max(values["number"]))
            for count, row in zip(values["number"], values["row"], strict=True):
                assert row.tolist() == [count] * count + [0] * (len(row) - count)
    whole = {0: [[0, 3, 6, 9], [12, 15, 18, 21]], 1: [[1, 4, 7, 10], [13, 16, 19, 22]], 2: [[2, 5, 8, 11]]}
    assert of == (whole | {2: [[2, 5, 8, 11], [14, 17, 20]]} if smaller else whole)


def test_buckets_with_sizes_and_capacities_of_their_own():
    number = numbers(40)
    bucket_index, [batch] = training.bucket(
        [number], tf.cast(number >= 12, tf.int32), [3, 7], 2, capacity=2, bucket_capacities=[1, 50]
    )
    assert batch.shape.as_list() == [None]
    with running() as sess:
        of = collections.defaultdict(list)
        for bucket, values in to_the_end(sess, (bucket_index, batch)):
            of[int(bucket)].append(values.tolist())
    assert of[0] == [[0, 1, 2], [3, 4, 5], [6, 7, 8], [9, 10, 11]]
    assert of[1] == [list(range(first, first + 7)) for first in (12, 19, 26, 33)]


def test_examples_that_are_not_kept_and_those_of_no_bucket_are_dropped():
    number = numbers(20)
    _, [batch] = training.bucket([number], number % 4 - 1, 1, 2, keep_input=number < 10)
    with running() as sess:
        assert sorted(int(value[0]) for value in to_the_end(sess, batch)) == [1, 2, 5, 6, 9]


def test_sparse_tensors_in_buckets():
    number = numbers(4)
    sparse = tf.SparseTensor([[tf.cast(number, tf.int64)]], [number * 10], [5])
    which, batch = training.bucket([number, sparse], number % 2, 2, 2)
    with running() as sess:
        for bucket, (values, parts) in to_the_end(sess, (which, batch)):
            assert values.tolist() == [bucket, bucket + 2]
            assert parts.indices.tolist() == [[0, bucket], [1, bucket + 2]]
            assert parts.values.tolist() == [10 * bucket, 10 * bucket + 20]
            assert parts.dense_shape.tolist() == [2, 5]


def test_the_error_of_a_buckets_examples_is_the_cause_of_the_end():
    number = numbers(30)
    checked = tf.py_func({one: one for one in range(30) if one != 7}.__getitem__, [number], tf.int32)
    checked.set_shape([])
    _, [batch] = training.bucket([checked], number % 2, 2, 2)
    with tf.Session() as sess:
        sess.run(tf.local_variables_initializer())
        coord = tf.train.Coordinator()
        threads = tf.train.start_queue_runners(sess, coord)
        with pytest.raises(OutOfRangeError) as caught:
            while True:
                sess.run(batch)
        assert "KeyError" in str(caught.value.__cause__)
        with pytest.raises(tf.errors.UnknownError, match="KeyError"):
            coord.join(threads)


def test_buckets_that_share_their_queues():
    number = numbers(8)
    _, [batch] = training.bucket([number], number % 2, 4, 2, shared_name="shelf")
    _, [other] = training.bucket([number], number % 2, 4, 2, shared_name="shelf")
    with tf.Session() as sess:
        sess.run(tf.local_variables_initializer())
        runners = tf.get_collection(tf.GraphKeys.QUEUE_RUNNERS)[:3]  # the numbers', and those of the first
        threads = [thread for runner in runners for thread in runner.create_threads(sess, start=True)]
        values = [sess.run(batch).tolist(), sess.run(other).tolist()]
        for thread in threads:
            thread.join()
    assert sorted(values) == [[0, 2, 4, 6], [1, 3, 5, 7]]


def test_summaries_of_buckets(graph):
    number = numbers(8)
    training.bucket([number], number % 2, 4, 2, capacity=5, name="shelf")
    tags = [tensor.op.name for tensor in graph.get_collection(tf.GraphKeys.SUMMARIES)]
    assert [tag.removeprefix("shelf/") for tag in tags[-3:]] == [
        "bucket/shelf/bucket_queue_0/size", "bucket/shelf/bucket_queue_1/size",
        "bucket/shelf/top_queue/fraction_of_5_full",
    ]  # fmt: skip


def test_what_buckets_refuse():
    number = tf.constant(1)
    unknown = tf.placeholder(tf.int32)
    for message, arguments in {
        "must have num_buckets elements": ([number], 0, [1, 2, 3], 2),
        "num_buckets must be at least 1": ([number], 0, 4, 0),
        "rank": ([unknown], 0, 4, 2),
        "at least one tensor": ([], 0, 4, 2),
        "int64": ([number], tf.constant(0, tf.int64), 4, 2),
    }.items():
        with pytest.raises(ValueError, match=message):
            training.bucket(*arguments)
    with pytest.raises(ValueError, match="must have exactly num_buckets"):
        training.bucket([number], 0, 4, 2, bucket_capacities=[1])
    with pytest.raises(ValueError, match="fully defined"):
        training.bucket([tf.placeholder(tf.int32, [None])], 0, 4, 2)
    with pytest.raises(TypeError):
        training.bucket(number, 0, 4, 2)
    with pytest.raises(TypeError, match="bool"):
        training.bucket([number], 0, 4, 2, keep_input=tf.constant(0))


def test_lengths_at_the_boundaries_of_buckets():
    lengths = [0, 2, 3, 4, 5, 8, 9, 100]
    _, length = tf.train.slice_input_producer([lengths, tf.constant(lengths)], num_epochs=1, shuffle=False)
    sizes, batch = training.bucket_by_sequence_length(
        length, {"row": tf.ones([length]), "half": length // 2}, 2, [3, 5, 9], dynamic_pad=True
    )
    assert (sizes.shape.as_list(), batch["row"].shape.as_list()) == ([2], [2, None])
    with running() as sess:
        values = to_the_end(sess, (sizes, batch))
    assert sorted(value.tolist() for value, _ in values) == [[0, 2], [3, 4], [5, 8], [9, 100]]
    for value, parts in values:
        assert parts["half"].tolist() == [one // 2 for one in value]
        assert parts["row"].sum(1).tolist() == value.tolist()


def test_lengths_with_shapes_of_their_examples():
    number = tf.to_int32(numbers(6))
    row = tf.placeholder_with_default(tf.ones([2]), None)
    sizes, [batch] = training.bucket_by_sequence_length(number, [row], 3, [3], shapes=[[2]], name="by_length")
    assert (batch.shape.as_list(), sizes.name.split("/")[0]) == ([3, 2], "by_length")
    with running() as sess:
        assert sorted(value.tolist() for value in to_the_end(sess, sizes)) == [[0, 1, 2], [3, 4, 5]]


@pytest.mark.parametrize(
    ("boundaries", "error"),
    [(5, TypeError), ([], ValueError), ([1.5, 2], TypeError), ([3, 3], ValueError), ([4, 2], ValueError)],
)
def test_boundaries_that_are_none(boundaries, error):
    with pytest.raises(error):
        training.bucket_by_sequence_length(tf.constant(1), [tf.constant(1)], 2, boundaries)


# Samples


@pytest.mark.parametrize("many", [False, True])
def test_rejected_examples_are_in_no_batch(many):
    number = numbers(400)
    tensors = [number, -number]
    if many:
        tensors = [tf.stack([number, number + 1000]), tf.stack([-number, -number - 1000])]
    shapes = []

    def probability(parts):
        shapes.append([part.shape.as_list() for part in parts])
        return tf.to_float(parts[0] % 2)

    batch = training.rejection_sample(tensors, probability, 5, enqueue_many=many)
    assert shapes == [[[], []]]
    assert [part.shape.as_list() for part in batch] == [[5], [5]]
    with running() as sess:
        values = to_the_end(sess, batch)
    expected = [base + value for value in range(1, 400, 2) for base in ((0, 1000) if many else (0,))]
    assert np.concatenate([value for value, _ in values]).tolist() == expected
    assert all(np.array_equal(value, -other) for value, other in values)


def test_a_share_of_examples_is_rejected():
    tf.set_random_seed(5)
    (batch,) = training.rejection_sample([numbers(4000)], lambda _: 0.25, 1)
    with running() as sess:
        kept = len(to_the_end(sess, batch))
    assert abs(kept - 1000) < 5 * np.sqrt(4000 * 0.25 * 0.75)


def test_probabilities_are_checked_if_asked(graph):
    probability = tf.placeholder(tf.float32, [])
    training.rejection_sample([tf.constant(1)], lambda _: probability, 2, runtime_checks=True, name="kept")
    checked = graph.get_tensor_by_name("kept/prob_with_checks:0")
    with tf.Session() as sess:
        assert sess.run(checked, {probability: 0.5}) == 0.5
        for wrong in (-0.25, 1.5):
            with pytest.raises(InvalidArgumentError):
                sess.run(checked, {probability: wrong})


def test_what_rejection_refuses():
    with pytest.raises(ValueError, match="rank"):
        training.rejection_sample([tf.constant(1)], lambda _: 1.0, 2, enqueue_many=True)
    with pytest.raises(ValueError):
        training.rejection_sample([tf.zeros([2]), tf.zeros([3])], lambda _: 1.0, 2, enqueue_many=True)
    with pytest.raises(TypeError):
        training.rejection_sample(tf.zeros([2]), lambda _: 1.0, 2)


@pytest.mark.parametrize("initial", [[0.5, 0.25, 0.25], None])
def test_classes_have_their_shares(initial):
    tf.set_random_seed(7)
    number = numbers(6000)
    label = tf.gather([0, 1, 0, 2], tf.to_int32(number % 4))
    [batch], labels = training.stratified_sample([number], label, [0.2, 0.8, 0.0], 10, initial)
    assert (batch.shape.as_list(), labels.shape.as_list()) == ([10], [10])
    with running() as sess:
        values = to_the_end(sess, [batch, labels])
        counts = [sess.run(variable) for variable in tf.global_variables()]
    taken, classes = (np.concatenate(parts) for parts in zip(*values, strict=True))
    assert np.array_equal(np.array([0, 1, 0, 2])[taken % 4], classes)
    assert len(set(taken.tolist())) == len(taken)
    # All of class 1 are kept, a quarter as many of class 0: an eighth of them.
    assert abs(np.sum(classes == 1) - 1500) <= 10
    assert abs(np.sum(classes == 0) - 375) < 5 * np.sqrt(375)
    assert not np.any(classes == 2)
    # Each example was counted once, and ten of each class before.
    assert [count.tolist() for count in counts] == ([] if initial else [[3010, 1510, 1510]])


def test_classes_of_examples_that_come_together():
    number = numbers(50)
    rows = tf.stack([number, number + 100])
    (batch,), labels = training.stratified_sample(
        [rows], tf.to_int32(rows // 100), [0.0, 1.0], 5, [0.5, 0.5], enqueue_many=True
    )
    with running() as sess:
        values = to_the_end(sess, [batch, labels])
    assert np.concatenate([value for value, _ in values]).tolist() == list(range(100, 150))
    assert {int(one) for _, classes in values for one in classes} == {1}


def test_a_label_that_is_no_class_ends_the_runner():
    number = numbers(9)
    _, labels = training.stratified_sample([number], tf.to_int32(number), [0.5, 0.5], 1, [0.5, 0.5])
    with tf.Session() as sess:
        sess.run(tf.local_variables_initializer())
        coord = tf.train.Coordinator()
        threads = tf.train.start_queue_runners(sess, coord)
        with pytest.raises(OutOfRangeError) as caught:
            while True:
                sess.run(labels)
        assert isinstance(caught.value.__cause__, InvalidArgumentError)
        with pytest.raises(InvalidArgumentError):
            coord.join(threads)


@pytest.mark.parametrize(
    ("target", "initial", "message"),
    [
        ([0.5, 0.6], [0.5, 0.5], "sum to 1"),
        ([0.5, 0.5], [0.4, 0.5], "sum to 1"),
        ([1.5, -0.5], [0.5, 0.5], "x >= 0"),
        ([0.5, 0.5], [1.0, 0.0], "zero initial probability"),
        ([0.5, 0.5], [1.0], "same length"),
        (1.0, [1.0], "rank"),
    ],
)
def test_shares_that_are_none(target, initial, message):
    with pytest.raises(ValueError, match=message):
        training.stratified_sample([tf.constant(1)], tf.constant(0), target, 2, initial)


def test_what_classes_refuse():
    half = [0.5, 0.5]
    with pytest.raises(ValueError):
        training.stratified_sample([tf.constant(1)], tf.constant([0, 1]), half, 2, half)
    with pytest.raises(ValueError):
        training.stratified_sample([tf.zeros([3])], tf.constant([0, 1]), half, 2, half, enqueue_many=True)
    with pytest.raises(TypeError):
        training.stratified_sample([tf.constant(1)], tf.constant(0.5), half, 2, half)
    with pytest.raises(ValueError, match="defined"):
        training.stratified_sample([tf.constant(1)], tf.constant(0), tf.placeholder(tf.float32, [None]), 2)


# Resampling


def test_rows_are_repeated_at_their_rates():
    rates = tf.placeholder(tf.float32, [None])
    rows, names = training.resample_at_rate([tf.constant([[1, 2], [3, 4], [5, 6]]), ["a", "b", "c"]], rates, seed=3)
    assert rows.shape.as_list() == [None, 2]
    counts = collections.Counter()
    with tf.Session() as sess:
        for _ in range(2000):
            values, texts = sess.run([rows, names], {rates: [0.5, 0.0, 2.0]})
            assert [{b"a": [1, 2], b"c": [5, 6]}[text] for text in texts] == values.tolist()
            assert sorted(texts.tolist()) == texts.tolist()
            counts.update(texts.tolist())
        assert sess.run(rows, {rates: [0.0, 0.0, 0.0]}).shape == (0, 2)
        for wrong in (-1.0, np.nan, np.inf):
            with pytest.raises(InvalidArgumentError, match="finite"):
                sess.run(rows, {rates: [1.0, wrong, 1.0]})
    assert abs(counts[b"a"] - 1000) < 5 * np.sqrt(1000) and abs(counts[b"c"] - 4000) < 5 * np.sqrt(4000)
    assert counts[b"b"] == 0


def test_rows_are_repeated_by_their_weights():
    weights = np.array([1.0, 2.0, 5.0])
    (values,), rates = training.weighted_resample([tf.constant([0, 1, 2])], tf.constant(weights), 0.75, seed=9)
    counts, stood_for = np.zeros(3), 0.0
    with tf.Session() as sess:
        sess.run([tf.global_variables_initializer(), tf.local_variables_initializer()])
        for _ in range(3000):
            numbers_, each = sess.run([values, rates])
            np.testing.assert_allclose(each, weights[numbers_] * 0.75 / weights.mean())
            np.add.at(counts, numbers_, 1)
            stood_for += float(np.sum(1 / each))
    expected = 3000 * 0.75 * weights / weights.mean()
    assert np.all(np.abs(counts - expected) < 5 * np.sqrt(expected))
    assert abs(stood_for - 9000) < 600


def test_the_mean_weight_is_that_of_the_runs_so_far():
    weights = tf.placeholder(tf.float32, [None])
    (_,), rates = training.weighted_resample([weights], weights, 1000.0, mean_decay=0.5)
    mean = next(one for one in tf.local_variables() if "estimated_mean" in one.name)
    with tf.Session() as sess:
        sess.run([tf.global_variables_initializer(), tf.local_variables_initializer()])
        # Each run has half the weight of the next one.
        for given, expected in (([4.0, 8.0], 6.0), ([12.0], 10.0), ([3.0], 6.0)):
            sess.run(rates, {weights: given})
            assert sess.run(mean) == pytest.approx(expected)


def test_scopes_with_default_names_inside_of_others():
    with tf.variable_scope("outer"):
        tf.get_variable("first", [])
        for number in range(3):
            with tf.variable_scope(None, "inner") as scope:
                tf.get_variable("v", [])
                assert scope.name == "outer/inner" + (f"_{number}" if number else "")


# Sequences in segments


def saver_of(examples, batch_size=2, num_unroll=2, **options):
    """Return a saver that adds an example of such a length in each run, and the tensors of a training step."""
    lengths = tf.constant(examples)
    number = tf.to_int32(numbers(len(examples)))
    length = lengths[number]
    steps = tf.range(length + tf.mod(-length, num_unroll)) + 100 * number
    steps.set_shape([None])
    saver = training.SequenceQueueingStateSaver(
        batch_size, num_unroll, length, tf.string_join(["n", tf.as_string(number)]), {"steps": steps},
        {"number": number}, {"sum": tf.constant(0), "seen": tf.constant([0, 0])}, **options,
    )  # fmt: skip
    batch = saver.next_batch
    sums = batch.state("sum") + tf.reduce_sum(batch.sequences["steps"], 1)
    saved = [batch.save_state("sum", sums), batch.save_state("seen", batch.state("seen") + [1, 2])]
    return saver, batch, {"key": batch.key, "next": batch.next_key, "saved": saved, "sum": sums,
                          "seen": batch.state("seen"), "length": batch.length, "total": batch.total_length,
                          "number": batch.context["number"], "steps": batch.sequences["steps"],
                          "index": batch.insertion_index, "size": batch.batch_size}  # fmt: skip


def test_segments_follow_each_other_with_their_states():
    saver, batch, step = saver_of([3, 4])
    assert (batch.sequences["steps"].shape.as_list(), batch.state("seen").shape.as_list()) == ([2, 2], [2, 2])
    ready, waiting = saver.barrier.ready_size(), saver.barrier.incomplete_size()
    with tf.Session() as sess:
        sess.run(tf.local_variables_initializer())
        tf.train.start_queue_runners(sess)
        for _ in range(2):
            sess.run(saver.prefetch_op)
        assert sess.run([ready, waiting]) == [2, 2]
        first, second = (sess.run(step) for _ in range(2))
        assert sess.run([ready, waiting]) == [0, 0]
    assert first["key"].tolist() == [b"00000_of_00002:n0", b"00000_of_00002:n1"]
    assert first["next"].tolist() == second["key"].tolist() == [b"00001_of_00002:n0", b"00001_of_00002:n1"]
    assert second["next"].tolist() == [b"STOP:n0", b"STOP:n1"]
    assert first["steps"].tolist() == [[0, 1], [100, 101]] and second["steps"].tolist() == [[2, 3], [102, 103]]
    assert first["seen"].tolist() == [[0, 0]] * 2 and second["seen"].tolist() == [[1, 2]] * 2
    assert second["sum"].tolist() == [6, 406]
    assert (first["length"].tolist(), second["length"].tolist()) == ([2, 2], [1, 2])
    assert second["total"].tolist() == [3, 4] and second["number"].tolist() == [0, 1]
    assert (first["index"] - np.iinfo(np.int64).min).tolist() == [0, 1] and first["size"] == 2


@pytest.mark.parametrize("small", [False, True])
def test_the_end_of_sequences(small):
    saver, _, step = saver_of([6, 2, 2], allow_small_batch=small)
    tf.train.add_queue_runner(tf.train.QueueRunner(saver, [saver.prefetch_op]))
    with running() as sess:
        values = to_the_end(sess, step)
        # One that makes no whole batch is dropped if it comes after the saver's end, and else left.
        assert sess.run(saver.barrier.ready_size()) in ([0] if small else [0, 1])
    keys = [value["key"].tolist() for value in values]
    whole = [[b"00000_of_00003:n0", b"00000_of_00001:n1"], [b"00001_of_00003:n0", b"00000_of_00001:n2"]]
    # With fewer than two examples left there is no whole batch.
    assert keys == (whole + [[b"00002_of_00003:n0"]] if small else whole)
    if small:
        assert values[-1]["sum"].tolist() == [15] and values[-1]["size"] == 1


def test_a_run_that_waits_when_the_data_ends_gets_what_is_there():
    saver, _, step = saver_of([2, 2, 2], batch_size=2, allow_small_batch=True)
    batches = []
    with tf.Session() as sess:
        sess.run(tf.local_variables_initializer())
        tf.train.start_queue_runners(sess)
        sess.run(saver.prefetch_op)
        thread = threading.Thread(target=lambda: batches.append(sess.run(step)["key"].tolist()))
        thread.start()
        sess.run(saver.close())
        thread.join()
        with pytest.raises(OutOfRangeError, match="closed"):
            sess.run(step)
        with pytest.raises(tf.errors.CancelledError):
            sess.run(saver.prefetch_op)
        with pytest.raises(tf.errors.CancelledError, match="already closed"):
            sess.run(saver.close())
        sess.run(saver.close(cancel_pending_enqueues=True))
    assert batches == [[b"00000_of_00001:n0"]]


def test_examples_wait_for_room():
    saver, _, step = saver_of([4] * 4, batch_size=1, capacity=1)
    with tf.Session() as sess:
        sess.run(tf.local_variables_initializer())
        tf.train.start_queue_runners(sess)
        sess.run(saver.prefetch_op)
        with pytest.raises(tf.errors.DeadlineExceededError):
            sess.run(saver.prefetch_op, options=tf.RunOptions(timeout_in_ms=30))
        sess.run(step)  # one segment of it is left
        with pytest.raises(tf.errors.DeadlineExceededError):
            sess.run(saver.prefetch_op, options=tf.RunOptions(timeout_in_ms=30))
        sess.run(step)
        sess.run(saver.prefetch_op)


def test_batches_with_states_by_a_runner():
    tf.set_random_seed(3)
    number = tf.to_int32(numbers(20))
    length = 1 + number % 7
    text = tf.fill([length], tf.as_string(number))
    batch = training.batch_sequences_with_states(
        tf.as_string(number), {"text": text, "steps": tf.range(length)}, {"number": number}, None,
        {"count": tf.constant(0)}, 3, 4, num_threads=2, capacity=6,
    )  # fmt: skip
    count = batch.state("count") + batch.length
    step = [batch.key, batch.context["number"], batch.sequences, count, batch.total_length, batch.sequence,
            batch.sequence_count, batch.save_state("count", count)]  # fmt: skip
    assert [tensor.shape.as_list() for tensor in (batch.key, batch.sequences["text"])] == [[None], [None, 3]]
    done = {}
    with running() as sess:
        for keys, numbers_, parts, counts, totals, places, ends, _ in to_the_end(sess, step):
            for position, index in enumerate(numbers_):
                size = 1 + index % 7
                base = 3 * places[position]
                assert keys[position] == b"%05d_of_%05d:%d" % (places[position], ends[position], index)
                assert parts["steps"][position].tolist() == [(n if n < size else 0) for n in range(base, base + 3)]
                texts = [b"%d" % index if n < size else b"" for n in range(base, base + 3)]
                assert parts["text"][position].tolist() == texts and totals[position] == size
                assert counts[position] == min(size, base + 3)
                done[int(index)] = places[position] + 1 == ends[position]
    assert done == dict.fromkeys(range(20), True)


def test_a_failing_example_is_the_cause_of_the_end_of_batches():
    number = tf.to_int32(numbers(3))
    batch = training.batch_sequences_with_states(
        "same", {"steps": tf.range(4)}, {}, 4, {"state": tf.to_float(number)}, 3, 2, pad=False
    )
    with tf.Session() as sess:
        sess.run(tf.local_variables_initializer())
        coord = tf.train.Coordinator()
        threads = tf.train.start_queue_runners(sess, coord)
        with pytest.raises(OutOfRangeError) as caught:
            sess.run(batch.key)
        assert "multiple of: 3, but saw value: 4" in str(caught.value.__cause__)
        with pytest.raises(InvalidArgumentError, match="multiple"):
            coord.join(threads)


def test_what_the_state_saver_refuses():
    def make(batch_size=1, num_unroll=2, length=2, key="k", sequences=None, context=None, states=None, **options):
        return training.SequenceQueueingStateSaver(
            batch_size, num_unroll, length, key, {"s": tf.zeros([2])} if sequences is None else sequences,
            {} if context is None else context, {"t": 0.0} if states is None else states, **options,
        )  # fmt: skip

    for wrong in (
        {"sequences": {}}, {"states": {}}, {"sequences": {"a:b": tf.zeros([2])}}, {"length": [2]},
        {"sequences": {"s": 1}}, {"context": {"c": tf.placeholder(tf.int32, [None])}}, {"capacity": 0},
    ):  # fmt: skip
        with pytest.raises(ValueError):
            make(**wrong)
    for wrong in (
        {"sequences": [1]}, {"states": {3: 0.0}}, {"length": 1.0}, {"key": 5},
    ):  # fmt: skip
        with pytest.raises(TypeError):
            make(**wrong)
    for sequences, length, message in (
        ({"a": tf.zeros([2]), "b": tf.zeros([4])}, 2, "labeled sorted_sequences_b should be: 2, shape received: 4"),
        ({"a": tf.zeros([3])}, 2, "multiple of: 2, but saw value: 3"),
        ({"a": tf.zeros([0])}, 0, "multiple of"),
        ({"a": tf.zeros([2])}, 3, "Input length should be <= than length"),
    ):
        with tf.Session() as sess, pytest.raises(InvalidArgumentError, match=message):
            sess.run(make(sequences=sequences, length=length).prefetch_op)
    saver = make(key="twice", sequences={"s": tf.zeros([4])}, num_unroll=2)
    batch = saver.next_batch
    with tf.Session() as sess:
        sess.run(saver.prefetch_op)
        with pytest.raises(InvalidArgumentError, match="isn't done"):
            sess.run(saver.prefetch_op)
        with pytest.raises(InvalidArgumentError, match="no segment"):
            sess.run([batch.save_state("t", batch.state("t")), batch.save_state("t", batch.state("t") + 1)])
    with pytest.raises(KeyError):
        batch.state("u")
    with pytest.raises(ValueError):
        batch.save_state("t", tf.constant([1, 2]))
    with pytest.raises(ValueError, match="length"):
        training.batch_sequences_with_states("k", {"s": tf.zeros([2])}, {}, None, {"t": 0.0}, 2, 1, pad=False)
    uneven = {"a": tf.zeros([2]), "b": tf.zeros([3])}
    bad = training.batch_sequences_with_states("k", uneven, {}, None, {"t": 0.0}, 4, 1)
    with tf.Session() as sess:
        coord = tf.train.Coordinator()
        threads = tf.train.start_queue_runners(sess, coord)
        with pytest.raises(OutOfRangeError):
            sess.run(bad.key)
        with pytest.raises(InvalidArgumentError, match="lengths must match"):
            coord.join(threads)
