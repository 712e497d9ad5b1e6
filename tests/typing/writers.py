"""How the writers look to type checkers. Checked, never run."""

from pathlib import Path
from typing import assert_type

import numpy as np

from queuecore.writers import FixedLengthRecordWriter, TFRecordOptions, TFRecordWriter

with TFRecordWriter("a.tfrecord") as writer:
    assert_type(writer, TFRecordWriter)
    writer.write(b"bytes")
    writer.write(bytearray(4))
    writer.write(memoryview(b"bytes")[1:])
    writer.write(np.zeros(3))
    writer.write("text")  # type: ignore[arg-type]
    assert_type(writer.flush(), None)

TFRecordWriter(Path("a.tfrecord"), "GZIP").close()
TFRecordWriter(b"a.tfrecord", TFRecordOptions("ZLIB", compression_level=9)).close()
TFRecordWriter(3)  # type: ignore[arg-type]

record = np.dtype([("label", "u1"), ("image", "u1", (3, 32, 32))])
with FixedLengthRecordWriter("a.bin", record, header=b"HEAD", footer=bytearray(2)) as rows:
    assert_type(rows, FixedLengthRecordWriter)
    rows.write(np.zeros(10, record))
