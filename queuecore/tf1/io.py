"""``tf.io``: files read and written, records in them, strings decoded."""

from queuecore.tf1 import _files as gfile
from queuecore.tf1._decoders import *
from queuecore.tf1._strings import matching_files, read_file, write_file
from queuecore.tf1.python_io import TFRecordCompressionType, TFRecordOptions, TFRecordWriter, tf_record_iterator
