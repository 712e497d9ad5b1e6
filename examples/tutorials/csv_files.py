"""Two CSV files with a header line each, read line by line, decoded, and put together to batches."""

import pathlib
import tempfile

import numpy as np

import queuecore.tf1 as tf

folder = pathlib.Path(tempfile.mkdtemp())
rows = [[float(number + column) for column in range(4)] + [number % 3] for number in range(20)]
for index in range(2):
    lines = ["a,b,c,d,label", *(",".join(map(str, row)) for row in rows[10 * index : 10 * index + 10])]
    (folder / f"file{index}.csv").write_text("\n".join(lines) + "\n")

names = tf.train.string_input_producer(
    [str(folder / f"file{index}.csv") for index in range(2)], shuffle=False, num_epochs=1
)
reader = tf.TextLineReader(skip_header_lines=1)
_, line = reader.read(names)
a, b, c, d, label = tf.decode_csv(line, record_defaults=[[0.0], [0.0], [0.0], [0.0], [0]])
features, labels = tf.train.batch([tf.stack([a, b, c, d]), label], batch_size=5)

seen = []
with tf.Session() as sess:
    sess.run(tf.local_variables_initializer())
    coord = tf.train.Coordinator()
    threads = tf.train.start_queue_runners(sess=sess, coord=coord)
    try:
        while not coord.should_stop():
            batch, targets = sess.run([features, labels])
            assert batch.shape == (5, 4)
            seen += [[*row, target] for row, target in zip(batch.tolist(), targets.tolist(), strict=True)]
    except tf.errors.OutOfRangeError:
        pass
    finally:
        coord.request_stop()
    coord.join(threads)

for entry in tf.train.lowering_report():
    print(entry)
assert np.array_equal(seen, rows)
