"""``tf.lookup``: tables that operations look keys up in."""

from queuecore.tf1._data import lookup_experimental as experimental
from queuecore.tf1._graph.refused import refusing as _refusing
from queuecore.tf1._ops.lookup import (
    KeyValueTensorInitializer,
    StaticHashTable,
    StaticVocabularyTable,
    TextFileIndex,
    TextFileInitializer,
)

__all__ = [
    "KeyValueTensorInitializer",
    "StaticHashTable",
    "StaticVocabularyTable",
    "TextFileIndex",
    "TextFileInitializer",
    "experimental",
]

__getattr__ = _refusing("tf.lookup")
