"""``tf.lookup.experimental``: the contents of tables from datasets, and tables that change."""

from queuecore.tf1._data.lookup import DatasetInitializer
from queuecore.tf1._graph.refused import refusing as _refusing
from queuecore.tf1._ops.lookup import DenseHashTable, MutableHashTable

__all__ = ["DatasetInitializer", "DenseHashTable", "MutableHashTable"]

__getattr__ = _refusing("tf.lookup.experimental")
