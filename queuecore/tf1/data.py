"""``tf.data``: datasets of a graph, and iterators over them."""

from queuecore.data.settings import ThreadingOptions
from queuecore.tf1._data import experimental
from queuecore.tf1._data.datasets import AUTOTUNE, Dataset
from queuecore.tf1._data.files import FixedLengthRecordDataset, TextLineDataset, TFRecordDataset
from queuecore.tf1._data.iterators import (
    Iterator,
    get_output_classes,
    get_output_shapes,
    get_output_types,
    make_initializable_iterator,
    make_one_shot_iterator,
)
from queuecore.tf1._data.options import Options
from queuecore.tf1._graph.refused import refusing as _refusing

__all__ = [
    "AUTOTUNE",
    "Dataset",
    "FixedLengthRecordDataset",
    "INFINITE_CARDINALITY",
    "Iterator",
    "Options",
    "TFRecordDataset",
    "TextLineDataset",
    "ThreadingOptions",
    "UNKNOWN_CARDINALITY",
    "experimental",
    "get_output_classes",
    "get_output_shapes",
    "get_output_types",
    "make_initializable_iterator",
    "make_one_shot_iterator",
]

INFINITE_CARDINALITY, UNKNOWN_CARDINALITY = -1, -2
__getattr__ = _refusing("tf.data")
