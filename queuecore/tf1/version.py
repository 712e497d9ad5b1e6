"""``tf.version``: the version of TensorFlow whose names and defaults these are."""

VERSION = "1.15.0"
GIT_VERSION = "queuecore"
COMPILER_VERSION = ""
GRAPH_DEF_VERSION = 134
GRAPH_DEF_VERSION_MIN_CONSUMER = 0
GRAPH_DEF_VERSION_MIN_PRODUCER = 0
