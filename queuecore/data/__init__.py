"""Datasets with the names and the order of ``tf.data``, read, cut and batched by native threads.

Start with `FixedLengthRecordDataset`.
"""

from queuecore._elements.optional import Optional
from queuecore._elements.record import ArraySpec, DatasetSpec, SparseSpec
from queuecore.data import experimental
from queuecore.data.archives import TarDataset
from queuecore.data.dataset import INFINITE_CARDINALITY, UNKNOWN_CARDINALITY, Dataset
from queuecore.data.device import DeviceDataset
from queuecore.data.files import (
    CsvDataset,
    FixedLengthRecordDataset,
    NumpyDataset,
    TextLineDataset,
    TFRecordDataset,
    WholeFileDataset,
)
from queuecore.data.folders import ImageFolderDataset
from queuecore.data.functions import map_and_batch, parallel_interleave, shuffle_and_repeat
from queuecore.data.iterator import Iterator
from queuecore.data.iterators import FeedableIterator, InitializableIterator, IteratorBase, ReinitializableIterator
from queuecore.data.options import AUTOTUNE, Options
from queuecore.data.parquet import ArrowDataset, ParquetDataset

__all__ = [
    "AUTOTUNE",
    "INFINITE_CARDINALITY",
    "UNKNOWN_CARDINALITY",
    "ArraySpec",
    "ArrowDataset",
    "CsvDataset",
    "Dataset",
    "DatasetSpec",
    "DeviceDataset",
    "FeedableIterator",
    "FixedLengthRecordDataset",
    "ImageFolderDataset",
    "InitializableIterator",
    "Iterator",
    "IteratorBase",
    "NumpyDataset",
    "Optional",
    "Options",
    "ParquetDataset",
    "ReinitializableIterator",
    "SparseSpec",
    "TarDataset",
    "TFRecordDataset",
    "TextLineDataset",
    "WholeFileDataset",
    "experimental",
    "map_and_batch",
    "parallel_interleave",
    "shuffle_and_repeat",
]
