"""Names of three pictures, five times over, through a reader: fifteen files come out, in order, and then the end."""

import pathlib
import tempfile

import queuecore.tf1 as tf

folder = pathlib.Path(tempfile.mkdtemp())
pictures = {name: f"picture {name}".encode() for name in "ABC"}
for name, content in pictures.items():
    (folder / f"{name}.jpg").write_bytes(content)

names = tf.train.string_input_producer([str(folder / f"{name}.jpg") for name in "ABC"], num_epochs=5, shuffle=False)
reader = tf.WholeFileReader()
key, value = reader.read(names)

written: list[tuple[str, pathlib.Path]] = []
with tf.Session() as sess:
    sess.run([tf.global_variables_initializer(), tf.local_variables_initializer()])
    coord = tf.train.Coordinator()
    threads = tf.train.start_queue_runners(sess=sess, coord=coord)
    try:
        while True:
            name, content = sess.run([key, value])
            copy = folder / f"read_{len(written)}.jpg"
            copy.write_bytes(content)
            written.append((pathlib.Path(name.decode()).stem, copy))
    except tf.errors.OutOfRangeError:
        print("end of the names after", len(written), "files")
    finally:
        coord.request_stop()
        coord.join(threads)

assert [name for name, _ in written] == list("ABC") * 5
assert all(copy.read_bytes() == pictures[name] for name, copy in written)
