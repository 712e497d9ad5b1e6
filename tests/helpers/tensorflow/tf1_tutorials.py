"""The tutorials' programs, as users write them. See `tf1_scenarios`."""

from __future__ import annotations

import threading

import numpy as np
from helpers.tensorflow.tf1_scenarios import (
    ended,
    finished,
    folder,
    got,
    outcome,
    plain,
    rest,
    run,
    runners,
    scenario,
    sentence,
    waits,
)


def names(keys):
    """Return the last parts of names of files."""
    return [key.decode().rpartition("/")[2] for key in keys]


@scenario
def three_values_and_a_fourth(tf):
    """Capacity 3, three values at once, three dequeues, and the fourth waits."""
    queue = tf.FIFOQueue(3, tf.float32)
    init = queue.enqueue_many([tf.constant([0.5, 1.5, 2.5])])
    x = queue.dequeue()
    y = x + 1
    with tf.Session() as sess:
        sess.run(init)
        made = [got(tf, sess, [y, queue.size()])[0] for _ in range(3)]
        return [*made, got(tf, sess, queue.size()), waits(tf, sess, y)]


@scenario
def dequeue_add_enqueue(tf):
    """[0, 0], three times taken, one more, put back: then 1 and 2, and the third waits."""
    queue = tf.FIFOQueue(2, tf.int32)
    init = queue.enqueue_many(([0, 0],))
    x = queue.dequeue()
    y = x + 1
    step = queue.enqueue([y])
    with tf.Session() as sess:
        init.run()
        for _ in range(3):
            step.run()
        made = [plain(x.eval()), plain(x.eval())]
        return [*made, waits(tf, sess, x)]


@scenario
def six_into_three(tf):
    """A runner with one thread puts six at a time into a queue of three: ten dequeues need the source three times."""
    calls = []

    def source():
        calls.append(1)
        return np.arange(6, dtype=np.int32) + 10 * len(calls)

    data = tf.py_func(source, [], tf.int32)
    data.set_shape([6])
    queue = tf.FIFOQueue(3, tf.int32, [()])
    runner = tf.train.QueueRunner(queue, [queue.enqueue_many([data])])
    take = queue.dequeue()
    with tf.Session() as sess:
        coord = tf.train.Coordinator()
        threads = runner.create_threads(sess, coord=coord, start=True)
        made = [plain(sess.run(take)) for _ in range(10)]
        while len(calls) < 3 or int(sess.run(queue.size())) < 3:  # it is ahead by what fits
            pass
        coord.request_stop()
        coord.join(threads)
        return [made, len(calls), ended(threads)]


@scenario
def increments_beside_enqueues(tf):
    """Two increments and two enqueues in one runner; twenty dequeues, then a stop."""
    queue = tf.FIFOQueue(10, tf.float32)
    counter = tf.Variable(0.0)
    increment = tf.assign_add(counter, tf.constant(1.0))
    enqueue = queue.enqueue(counter)
    runner = tf.train.QueueRunner(queue, enqueue_ops=[increment, enqueue] * 2)
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        coord = tf.train.Coordinator()
        threads = runner.create_threads(sess, coord=coord, start=True)
        values = [float(sess.run(queue.dequeue())) for _ in range(20)]
        coord.request_stop()
        return [len(values), min(values) >= 0, outcome(tf, coord.join, threads), ended(threads)]


@scenario
def ten_threads(tf):
    """Ten threads, of which number 1 asks for the stop in its second round."""
    coord = tf.train.Coordinator()
    rounds = []

    def loop(worker):
        turn = 0
        while not coord.should_stop():
            turn += 1
            if worker == 1 and turn == 2:
                rounds.append(turn)
                coord.request_stop()
            coord.wait_for_stop(0.001)

    threads = [threading.Thread(target=loop, args=(i,)) for i in range(10)]
    for one in threads:
        one.start()
    coord.join(threads)
    return [rounds, coord.should_stop(), any(one.is_alive() for one in threads)]


@scenario
def three_pictures_five_epochs(tf):
    """File names in order, whole files, fifteen reads, and then the end."""
    path = folder({"A.jpg": b"aa", "B.jpg": b"bbb", "C.jpg": b""})
    files = [str(path / f"{one}.jpg") for one in "ABC"]
    queue = tf.train.string_input_producer(files, shuffle=False, num_epochs=5)
    reader = tf.WholeFileReader()
    key, value = reader.read(queue)
    with tf.Session() as sess:
        coord = tf.train.Coordinator()
        threads = runners(tf, sess, coord)
        results = []
        try:
            while True:
                k, v = sess.run([key, value])
                results.append([names([k])[0], v.decode()])
        except tf.errors.OutOfRangeError as error:
            results.append(sentence(error))
        results.append(got(tf, sess, reader.num_work_units_completed()))
        return [*results, finished(tf, coord, threads)]


@scenario
def two_csv_files(tf):
    """Header lines left out, columns, batches."""
    path = folder({"a.csv": b"x,y,z\n1,2.5,a\n2,3.5,b\n3,,c\n", "b.csv": b"x,y,z\n4,1e3,d\n5,-1,e\n"})
    queue = tf.train.string_input_producer([str(path / "a.csv"), str(path / "b.csv")], shuffle=False, num_epochs=2)
    reader = tf.TextLineReader(skip_header_lines=1)
    key, value = reader.read(queue)
    x, y, z = tf.decode_csv(value, record_defaults=[[0], [0.5], [""]])
    batch = tf.train.batch([key, x, y, z], batch_size=4, allow_smaller_final_batch=True)
    with tf.Session() as sess:
        coord = tf.train.Coordinator()
        threads = runners(tf, sess, coord)
        results = []
        try:
            while True:
                k, *columns = sess.run(batch)
                results.append([names(k), plain(columns)])
        except tf.errors.OutOfRangeError:
            results.append("end")
        return [*results, finished(tf, coord, threads)]


@scenario
def rows_in_four_threads(tf):
    """(1000, 4) numbers with targets, enqueue_many in four threads, a hundred dequeues while there is no stop."""
    data = np.arange(4000, dtype=np.float64).reshape(1000, 4)
    target = (np.arange(1000) % 2).astype(np.int32)
    queue = tf.FIFOQueue(capacity=50, dtypes=[tf.float32, tf.int32], shapes=[[4], []])
    enqueue = queue.enqueue_many([tf.cast(tf.constant(data), tf.float32), target])
    row, label = queue.dequeue()
    runner = tf.train.QueueRunner(queue, [enqueue] * 4)
    with tf.Session() as sess:
        coord = tf.train.Coordinator()
        threads = runner.create_threads(sess, coord=coord, start=True)
        good = 0
        for _ in range(100):
            if coord.should_stop():
                break
            a, b = sess.run([row, label])
            good += bool(a[0] % 4 == 0 and (a == a[0] + np.arange(4)).all() and b == (a[0] // 4) % 2)
        coord.request_stop()
        coord.join(threads)
        return [good, plain(a)[:2], plain(b)[0], ended(threads)]


@scenario
def training_with_a_coordinator(tf):
    """A random queue, four threads, batches, and a stop asked for twice."""
    queue = tf.RandomShuffleQueue(capacity=50, min_after_dequeue=10, dtypes=[tf.int32, tf.int32], shapes=[(), ()])
    enqueue = queue.enqueue_many([list(range(100)), list(range(100, 200))])
    a, b = queue.dequeue_many(16)
    runner = tf.train.QueueRunner(queue, [enqueue] * 4)
    with tf.Session() as sess:
        coord = tf.train.Coordinator()
        threads = runner.create_threads(sess, coord=coord, start=True)
        steps = 0
        try:
            for _ in range(30):
                if coord.should_stop():
                    break
                x, y = sess.run([a, b])
                steps += int((y - x == 100).all() and len(x) == 16)
            raise ValueError("the step failed")
        except Exception as error:
            coord.request_stop(error)
        finally:
            coord.request_stop()
        return [steps, outcome(tf, coord.join, threads), ended(threads)]


@scenario
def fixed_length_records(tf):
    """Labels and pictures of fixed length, in batches over three epochs."""
    records = np.arange(7 * 13, dtype=np.uint8).reshape(7, 13)
    path = folder({"data.bin": records.tobytes()})
    queue = tf.train.string_input_producer([str(path / "data.bin")], num_epochs=3)
    _, value = tf.FixedLengthRecordReader(record_bytes=13).read(queue)
    record = tf.decode_raw(value, tf.uint8)
    label = tf.cast(tf.slice(record, [0], [1]), tf.int32)
    picture = tf.transpose(tf.reshape(tf.slice(record, [1], [12]), [3, 2, 2]), [1, 2, 0])
    label.set_shape([1])
    pictures, labels = tf.train.batch([tf.cast(picture, tf.float32), label], batch_size=4)
    with tf.Session() as sess:
        coord = tf.train.Coordinator()
        threads = runners(tf, sess, coord)
        made = rest(tf, sess, [pictures, labels])
        return [len(made[0]), made[0][-1], made[1:], finished(tf, coord, threads)]


@scenario
def records_in_several_readers(tf):
    """batch_join with a reader for each thread, lines that come once."""
    path = folder({f"{i}.txt": b"".join(b"%d\n" % (10 * i + j) for j in range(10)) for i in range(4)})
    queue = tf.train.string_input_producer([str(path / f"{i}.txt") for i in range(4)], num_epochs=1, seed=3)
    lists = []
    for _ in range(3):
        _, value = tf.TextLineReader().read(queue)
        lists.append([tf.decode_csv(value, [[0]])[0]])
    batch = tf.train.shuffle_batch_join(lists, 6, 30, 10, allow_smaller_final_batch=True)
    with tf.Session() as sess:
        coord = tf.train.Coordinator()
        threads = runners(tf, sess, coord)
        made = rest(tf, sess, batch)
        values = sorted(one for part in made[0] for one in part[2])
        return [values, [one[1] for one in made[0]], made[1:], finished(tf, coord, threads)]


@scenario
def a_missing_file(tf):
    """The consumer sees the end, and join the cause."""
    queue = tf.train.string_input_producer(["/nowhere/at/all"], num_epochs=1)
    _, value = tf.WholeFileReader().read(queue)
    batch = tf.train.batch([value], 2)
    with tf.Session() as sess:
        coord = tf.train.Coordinator()
        threads = runners(tf, sess, coord)
        made = [got(tf, sess, batch)]
        coord.wait_for_stop(20)
        return [*made, outcome(tf, coord.join, threads)]


@scenario
def a_bad_line(tf):
    """So here: what came before it is lost only with TensorFlow's whole batches."""
    path = folder({"a.csv": b"1\n2\n3\nx\n5\n"})
    queue = tf.train.string_input_producer([str(path / "a.csv")], num_epochs=1)
    _, value = tf.TextLineReader().read(queue)
    (number,) = tf.decode_csv(value, [[0]])
    batch = tf.train.batch([number], 3)
    with tf.Session() as sess:
        coord = tf.train.Coordinator()
        threads = runners(tf, sess, coord)
        made = [got(tf, sess, batch), got(tf, sess, batch)]
        coord.wait_for_stop(20)
        return [*made, outcome(tf, coord.join, threads)]


@scenario
def feeding_a_queue(tf):
    """A thread feeds placeholders, another one takes batches."""
    x = tf.placeholder(tf.float32, [None, 2])
    queue = tf.FIFOQueue(10, [tf.float32], [(2,)])
    put, take, close = queue.enqueue_many(x), queue.dequeue_many(5), queue.close()
    with tf.Session() as sess:
        coord = tf.train.Coordinator()

        def feed():
            with coord.stop_on_exception():
                for i in range(4):
                    sess.run(put, {x: np.full((5, 2), i, np.float32)})
                sess.run(close)

        threads = [threading.Thread(target=feed)]
        threads[0].start()
        made = [plain(run(tf, sess, take)) for _ in range(4)]
        return [*made, got(tf, sess, take), finished(tf, coord, threads)]


def write_examples(tf, count, files):
    """Write messages with a number, a vector and text, spread over files; return their names."""
    path = folder({})
    paths = []
    for at in range(files):
        paths.append(str(path / f"{at}.tfrecord"))
        with tf.python_io.TFRecordWriter(paths[-1]) as writer:
            for n in range(at, count, files):
                features = {
                    "n": tf.train.Feature(int64_list=tf.train.Int64List(value=[n])),
                    "x": tf.train.Feature(float_list=tf.train.FloatList(value=[n, n / 2])),
                    "s": tf.train.Feature(bytes_list=tf.train.BytesList(value=[b"%03d" % n])),
                }
                example = tf.train.Example(features=tf.train.Features(feature=features))
                writer.write(example.SerializeToString())
    return paths


def parse(tf, text):
    """Return the parts of a message."""
    features = {
        "n": tf.FixedLenFeature([], tf.int64),
        "x": tf.FixedLenFeature([2], tf.float32),
        "s": tf.FixedLenFeature([], tf.string, default_value=""),
    }
    found = tf.parse_single_example(text, features)
    return found["n"], found["x"] * 2, found["s"]


@scenario
def records_through_datasets(tf):
    """TFRecord files, interleaved, shuffled by a seed, parsed, in batches, ahead."""
    files = write_examples(tf, 20, 3)
    tf.set_random_seed(1)
    data = tf.data.Dataset.from_tensor_slices(files)
    data = data.interleave(lambda name: tf.data.TFRecordDataset(name), cycle_length=2, block_length=2)
    data = data.shuffle(8, seed=5).map(lambda text: parse(tf, text)).batch(6).prefetch(1)
    element = data.make_one_shot_iterator().get_next()
    with tf.Session() as sess:
        return rest(tf, sess, element)[:2]


@scenario
def records_through_queues(tf):
    """The same files by a reader, with a batch of messages parsed at once."""
    files = write_examples(tf, 20, 3)
    queue = tf.train.string_input_producer(files, num_epochs=2, seed=7)
    _, text = tf.TFRecordReader().read(queue)
    texts = tf.train.batch([text], 8, allow_smaller_final_batch=True)
    features = {"n": tf.FixedLenFeature([], tf.int64), "x": tf.FixedLenFeature([2], tf.float32)}
    found = tf.parse_example(texts, features)
    with tf.Session() as sess:
        coord = tf.train.Coordinator()
        threads = runners(tf, sess, coord)
        return [*rest(tf, sess, found), finished(tf, coord, threads)]


@scenario
def a_sequence_of_runners(tf):
    """Records one by one, parsed, shuffled in batches, the order by seeds."""
    files = write_examples(tf, 20, 2)
    queue = tf.train.string_input_producer(files, num_epochs=1, shuffle=False)
    n, x, s = parse(tf, tf.TFRecordReader().read(queue)[1])
    batch = tf.train.shuffle_batch([n, x, s], 4, 50, 25, seed=3)
    (runner,) = [one for one in tf.get_collection("queue_runners") if "shuffle" in one.name]
    with tf.Session() as sess:
        coord = tf.train.Coordinator()
        threads = runners(tf, sess, coord)
        closed = runner.queue.is_closed()
        while not sess.run(closed):  # everything is there before the first batch
            pass
        return [*rest(tf, sess, batch), finished(tf, coord, threads)]


@scenario
def datasets(tf):
    """Slices of one array and of a pair, zipped; one-shot, initialised by what is fed, and switched."""
    results = []
    with tf.Session() as sess:
        pair = tf.data.Dataset.from_tensor_slices({"a": np.arange(4), "b": np.arange(8.0).reshape(4, 2)})
        both = tf.data.Dataset.zip((pair, tf.data.Dataset.range(10, 13)))
        results.append(rest(tf, sess, both.make_one_shot_iterator().get_next()))
        limit = tf.placeholder(tf.int64, [])
        iterator = tf.data.Dataset.range(limit).make_initializable_iterator()
        following = iterator.get_next()
        results.append(got(tf, sess, following))
        for n in (3, 1):
            sess.run(iterator.initializer, {limit: n})
            results.append(rest(tf, sess, following))
        first = tf.data.Dataset.range(3)
        other = tf.data.Dataset.range(100, 102)
        switched = tf.data.Iterator.from_structure(first.output_types, first.output_shapes)
        following = switched.get_next()
        for data in (first, other, first):
            sess.run(switched.make_initializer(data))
            results.append(rest(tf, sess, following)[0])
    return results


@scenario
def from_a_dataset_into_a_queue(tf):
    """Elements of an iterator, put into a queue by a runner of several threads."""
    element = tf.data.Dataset.range(20).make_one_shot_iterator().get_next()
    queue = tf.FIFOQueue(5, [tf.int64], [()])
    tf.train.add_queue_runner(tf.train.QueueRunner(queue, [queue.enqueue(element)] * 3))
    with tf.Session() as sess:
        coord = tf.train.Coordinator()
        threads = runners(tf, sess, coord)
        values, *end = rest(tf, sess, queue.dequeue())
        return [sorted(one[1] for one in values), end, finished(tf, coord, threads)]
