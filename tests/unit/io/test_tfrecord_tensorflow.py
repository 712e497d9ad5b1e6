"""TFRecord files that TensorFlow wrote, and TensorFlow on files of ours, in a child process.

It needs a Python with TensorFlow: the one that runs the tests, or the one that QUEUECORE_TENSORFLOW_PYTHON names.
"""

import json
import os
import random
import subprocess

import pytest
from helpers.tensorflow.peers import ASKS_TENSORFLOW, PYTHON

from queuecore._core.io.tfrecord import FileBytes, RecordScan
from queuecore.writers import TFRecordWriter

pytestmark = [
    *ASKS_TENSORFLOW,
    pytest.mark.watchdog(600),
]

WORDS = ["", "GZIP", "ZLIB"]

CHILD = """
import json, sys
import tensorflow as tf

told = json.load(sys.stdin)
records = [bytes.fromhex(one) for one in told["records"]]
found = {}
for word in told["words"]:
    options = tf.io.TFRecordOptions(compression_type=word)
    with tf.io.TFRecordWriter(f"{told['folder']}/theirs-{word}", options) as writer:
        for record in records:
            writer.write(record)
    ours = tf.compat.v1.io.tf_record_iterator(f"{told['folder']}/ours-{word}", options)
    found[word] = [one.hex() for one in ours]
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def records():
    rng = random.Random(11)
    return [b"one", b"", b"three", *(rng.randbytes(rng.choice([0, 1, 100, 3072, 70_000])) for _ in range(200))]


@pytest.fixture(scope="module")
def folder(tmp_path_factory, records):
    """Files of both, `ours-` and `theirs-`, and what TensorFlow read in ours."""
    folder = tmp_path_factory.mktemp("records")
    for word in WORDS:
        with TFRecordWriter(folder / f"ours-{word}", word) as writer:
            for record in records:
                writer.write(record)
    done = subprocess.run(
        [PYTHON, "-P", "-c", CHILD],
        input=json.dumps({"folder": str(folder), "words": WORDS, "records": [one.hex() for one in records]}),
        capture_output=True,
        text=True,
        timeout=570,
        env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": ""},
    )
    assert done.returncode == 0, done.stderr[-3000:]
    (folder / "read").write_text(done.stdout.splitlines()[-1])
    return folder


@pytest.mark.parametrize("word", WORDS)
def test_tensorflow_reads_our_records(folder, records, word):
    read = json.loads((folder / "read").read_text())
    assert [bytes.fromhex(one) for one in read[word]] == records


def test_the_files_are_the_same(folder):
    assert (folder / "ours-").read_bytes() == (folder / "theirs-").read_bytes()


def test_theirs_is_whole(folder, records):
    path = os.fsencode(folder / "theirs-")
    file = FileBytes(path)
    scan = RecordScan(file, path, file.size)
    assert scan.next_fault() is None
    assert (scan.records, scan.nbytes) == (len(records), sum(map(len, records)))
    file.close()
