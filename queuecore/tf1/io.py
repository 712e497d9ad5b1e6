"""``tf.io``: files read and written, records in them, strings decoded."""

from queuecore.tf1._decoders import *
