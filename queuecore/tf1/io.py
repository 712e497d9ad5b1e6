"""``tf.io``: files read and written, records in them, strings decoded."""

from queuecore.tf1._graph.refused import refusing as _refusing
from queuecore.tf1._input.producers import match_filenames_once
from queuecore.tf1._input.queues import PaddingFIFOQueue, PriorityQueue, QueueBase, RandomShuffleQueue
from queuecore.tf1._ops.decoders import *
from queuecore.tf1._ops.encoders import encode_jpeg, encode_png, parse_tensor, serialize_tensor
from queuecore.tf1._ops.jpegs import decode_and_crop_jpeg, extract_jpeg_shape
from queuecore.tf1._ops.json_examples import decode_json_example
from queuecore.tf1._ops.strings import decode_base64, encode_base64, matching_files, read_file, write_file
from queuecore.tf1._protos import files as gfile
from queuecore.tf1.image import is_jpeg
from queuecore.tf1.python_io import TFRecordCompressionType, TFRecordOptions, TFRecordWriter, tf_record_iterator

__getattr__ = _refusing("tf.io")
