"""``tf.io``: files, and records in them."""

from queuecore.tf1 import _files as gfile
from queuecore.tf1.python_io import TFRecordCompressionType, TFRecordOptions, TFRecordWriter, tf_record_iterator

__all__ = ["TFRecordCompressionType", "TFRecordOptions", "TFRecordWriter", "gfile", "tf_record_iterator"]
