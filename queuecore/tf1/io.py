"""``tf.io``: files read and written, strings decoded."""

from queuecore.tf1._decoders import *
from queuecore.tf1._strings import matching_files, read_file, write_file
