"""Datasets with the names and the order of ``tf.data``, read, cut and batched by native threads.

Start with `FixedLengthRecordDataset`.
"""

from queuecore.data._record import ArraySpec
from queuecore.data.dataset import INFINITE_CARDINALITY, Dataset, FixedLengthRecordDataset
from queuecore.data.iterator import Iterator
from queuecore.data.options import AUTOTUNE, Options

__all__ = [
    "AUTOTUNE",
    "INFINITE_CARDINALITY",
    "ArraySpec",
    "Dataset",
    "FixedLengthRecordDataset",
    "Iterator",
    "Options",
]
