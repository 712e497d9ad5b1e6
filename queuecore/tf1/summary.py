"""``tf.summary``: operations that tell of a run, and files of what they tell."""

from queuecore.tf1._graph.refused import refusing as _refusing
from queuecore.tf1._ops.summaries import (
    audio,
    histogram,
    image,
    merge,
    merge_all,
    scalar,
    tensor_summary,
    text,
)
from queuecore.tf1._protos.event_files import FileWriter, FileWriterCache
from queuecore.tf1._protos.summaries import Event, SessionLog, Summary

__all__ = [
    "Event",
    "FileWriter",
    "FileWriterCache",
    "SessionLog",
    "Summary",
    "audio",
    "histogram",
    "image",
    "merge",
    "merge_all",
    "scalar",
    "tensor_summary",
    "text",
]

__getattr__ = _refusing("tf.summary")
