"""``tf.lookup``: tables that operations look keys up in."""

from queuecore.tf1._ops.lookup import (
    KeyValueTensorInitializer,
    StaticHashTable,
    StaticVocabularyTable,
    TextFileIndex,
    TextFileInitializer,
)
from queuecore.tf1._protos.refused import refusing as _refusing

__all__ = [
    "KeyValueTensorInitializer",
    "StaticHashTable",
    "StaticVocabularyTable",
    "TextFileIndex",
    "TextFileInitializer",
]

__getattr__ = _refusing("tf.lookup")
