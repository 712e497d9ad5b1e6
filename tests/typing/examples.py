"""Code that uses Examples and ragged arrays, for the type checkers alone."""

from typing import Any, assert_type

import numpy as np

from queuecore import ops
from queuecore.ragged import Ragged, Sparse

features = {
    "image": ops.FixedLenFeature((), bytes),
    "label": ops.FixedLenFeature((), np.int64, default_value=-1),
    "boxes": ops.FixedLenSequenceFeature(4, np.float32, allow_missing=True),
    "words": ops.RaggedFeature(bytes, partitions=[ops.RaggedFeature.RowLengths("lengths")]),
    "tags": ops.SparseFeature(index_key="at", value_key="tag", dtype=np.int64, size=100),
    "rest": ops.VarLenFeature(np.float32),
}
assert_type(ops.parse_example([b""], features), dict[Any, Any])
assert_type(ops.parse_single_example(b"", features), dict[Any, Any])
assert_type(ops.parse_example(features=features), ops.Stage)
assert_type(ops.parse_single_example(None, features), ops.Stage)

rows = Ragged.from_list([b"a", b"bc"])
assert_type(rows[1:], Ragged)
assert_type(rows[[1, 0]], Ragged)
assert_type(rows.to_list(), list[Any])
assert_type(len(rows), int)
assert_type(Sparse([[0]], [1], [2]).to_dense(), np.ndarray[Any, Any])

assert_type(ops.decode_jpeg(b""), np.ndarray)
assert_type(ops.decode_image([b""], 3, np.float32), np.ndarray)
assert_type(ops.decode_png(dtype=np.uint16), ops.Stage)
assert_type(ops.decode_gif(), ops.Stage)
