"""``tf.io``: files read and written, strings decoded."""

from queuecore.tf1._decoders import *
