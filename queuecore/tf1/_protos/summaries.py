"""Messages of summaries: what a program tells of its run, and events of files that TensorBoard reads."""

from __future__ import annotations

from typing import Any

import numpy as np

from queuecore.tf1._graph.values import as_dtype, register_shape_message, string
from queuecore.tf1._protos.messages import FieldsMessage, MessageField

__all__ = [
    "Event",
    "HistogramProto",
    "SessionLog",
    "Summary",
    "SummaryMetadata",
    "TensorProto",
    "TensorShapeProto",
    "histogram",
]


class HistogramProto(FieldsMessage):
    """A histogram: how many numbers lie between limits.

    Attributes
    ----------
    min, max, num, sum, sum_squares : float
    bucket_limit, bucket : list of float
        The upper limit of each range, and how many numbers are in it.
    """

    __slots__ = ()
    min = MessageField(1, "double")
    max = MessageField(2, "double")
    num = MessageField(3, "double")
    sum = MessageField(4, "double")
    sum_squares = MessageField(5, "double")
    bucket_limit = MessageField(6, "doubles")
    bucket = MessageField(7, "doubles")


class _PluginData(FieldsMessage):
    # The part of TensorBoard that shows a value.
    __slots__ = ()
    plugin_name = MessageField(1, "string")
    content = MessageField(2, "bytes")


class SummaryMetadata(FieldsMessage):
    """Facts about a value besides its name.

    Attributes
    ----------
    plugin_data : SummaryMetadata.PluginData
    display_name, summary_description : str
    """

    __slots__ = ()
    PluginData = _PluginData
    plugin_data = MessageField(1, _PluginData)
    display_name = MessageField(2, "string")
    summary_description = MessageField(3, "string")


class _Dim(FieldsMessage):
    __slots__ = ()
    size = MessageField(1, "int64")
    name = MessageField(2, "string")


class TensorShapeProto(FieldsMessage):
    """The shape of a tensor.

    Attributes
    ----------
    dim : list of messages
        ``dim[i].size`` is the length of a side; -1: unknown.
    unknown_rank : bool
        Whether not even the number of sides is known.
    """

    __slots__ = ()
    dim = MessageField(2, _Dim, repeated=True)
    unknown_rank = MessageField(3, "bool")


register_shape_message(TensorShapeProto)


class TensorProto(FieldsMessage):
    """An array.

    Attributes
    ----------
    dtype : int
        TensorFlow's number of its type.
    tensor_shape : message
        ``tensor_shape.dim[i].size`` is the length of a dimension.
    tensor_content : bytes
        Its numbers, in the order of the machine's memory.
    string_val : list of bytes
        Its strings.
    half_val, float_val, double_val, int_val, int64_val, bool_val, uint32_val, uint64_val, scomplex_val, dcomplex_val
        : list
        Its numbers, where they aren't in `tensor_content`.
    """

    __slots__ = ()
    dtype = MessageField(1, "int64")
    tensor_shape = MessageField(2, TensorShapeProto)
    version_number = MessageField(3, "int64")
    tensor_content = MessageField(4, "bytes")
    float_val = MessageField(5, "floats")
    double_val = MessageField(6, "doubles")
    int_val = MessageField(7, "int64s")
    string_val = MessageField(8, "strings")
    scomplex_val = MessageField(9, "floats")
    int64_val = MessageField(10, "int64s")
    bool_val = MessageField(11, "int64s")
    dcomplex_val = MessageField(12, "doubles")
    half_val = MessageField(13, "int64s")
    uint32_val = MessageField(16, "int64s")
    uint64_val = MessageField(17, "int64s")

    @classmethod
    def of(cls, value: Any) -> TensorProto:
        """Return the message of an array, or of bytes."""
        array = np.asarray(value, object) if isinstance(value, bytes) else np.asarray(value)
        dtype = string if array.dtype.kind == "O" else as_dtype(array.dtype)
        message = cls(dtype=dtype.as_datatype_enum)
        message.tensor_shape.SetInParent()
        for side in array.shape:
            message.tensor_shape.dim.add(size=side)
        if dtype == string:
            message.string_val.extend(array.ravel())
        elif array.size:
            message.tensor_content = np.ascontiguousarray(array).tobytes()
        return message


class _Image(FieldsMessage):
    # A picture: its size, its number of channels, and a file of it.
    __slots__ = ()
    height = MessageField(1, "int64")
    width = MessageField(2, "int64")
    colorspace = MessageField(3, "int64")
    encoded_image_string = MessageField(4, "bytes")


class _Audio(FieldsMessage):
    # A sound, and a file of it.
    __slots__ = ()
    sample_rate = MessageField(1, "float")
    num_channels = MessageField(2, "int64")
    length_frames = MessageField(3, "int64")
    encoded_audio_string = MessageField(4, "bytes")
    content_type = MessageField(5, "string")


class _Value(FieldsMessage):
    # One value, with the name under which it is shown.
    __slots__ = ()
    _ONEOF = "value"
    tag = MessageField(1, "string")
    simple_value = MessageField(2, "float", explicit=True)
    image = MessageField(4, _Image, explicit=True)
    histo = MessageField(5, HistogramProto, explicit=True)
    audio = MessageField(6, _Audio, explicit=True)
    node_name = MessageField(7, "string")
    tensor = MessageField(8, TensorProto, explicit=True)
    metadata = MessageField(9, SummaryMetadata)


class Summary(FieldsMessage):
    """Values that a program tells of a step of its run.

    Attributes
    ----------
    value : list of Summary.Value
        Each has a `tag`, and one of `simple_value`, `image`, `histo`, `audio`, `tensor`.

    Examples
    --------
    >>> import queuecore.tf1 as tf
    >>> made = tf.Summary(value=[tf.Summary.Value(tag="loss", simple_value=0.5)])
    >>> tf.Summary.FromString(made.SerializeToString()).value[0].simple_value
    0.5
    """

    __slots__ = ()
    Value = _Value
    Image = _Image
    Audio = _Audio
    value = MessageField(1, _Value, repeated=True)


class SessionLog(FieldsMessage):
    """An event of a session: its start, its stop or a checkpoint.

    Attributes
    ----------
    status : int
        `START`, `STOP` or `CHECKPOINT`.
    checkpoint_path, msg : str
    """

    __slots__ = ()
    STATUS_UNSPECIFIED = 0
    START = 1
    STOP = 2
    CHECKPOINT = 3
    status = MessageField(1, "int64")
    checkpoint_path = MessageField(2, "string")
    msg = MessageField(3, "string")


class Event(FieldsMessage):
    """One event of a file that TensorBoard reads.

    Attributes
    ----------
    wall_time : float
        In seconds since 1970.
    step : int
    file_version : str
    summary : Summary
    session_log : SessionLog
        One of these three.
    """

    __slots__ = ()
    _ONEOF = "what"
    wall_time = MessageField(1, "double")
    step = MessageField(2, "int64")
    file_version = MessageField(3, "string", explicit=True)
    graph_def = MessageField(4, "bytes", explicit=True)
    summary = MessageField(5, Summary, explicit=True)
    session_log = MessageField(7, SessionLog, explicit=True)
    meta_graph_def = MessageField(9, "bytes", explicit=True)


def _limits() -> Any:
    above = []
    limit = 1e-12
    while limit < 1e20:
        above.append(limit)
        limit *= 1.1
    largest = float(np.finfo(np.float64).max)
    return np.array([-largest, *(-one for one in reversed(above)), 0.0, *above, largest])


_LIMITS = _limits()


def histogram(values: Any) -> HistogramProto:
    """Return how numbers are spread, between the limits that TensorFlow has.

    Raises
    ------
    ValueError
        If one of them isn't finite.
    """
    numbers = np.ravel(values).astype(np.float64)
    if not np.isfinite(numbers).all():
        raise ValueError("there is a number that isn't finite")
    message = HistogramProto(num=float(len(numbers)))
    if len(numbers):
        message.min, message.max = float(numbers.min()), float(numbers.max())
        message.sum, message.sum_squares = float(np.cumsum(numbers)[-1]), float(np.cumsum(numbers * numbers)[-1])
    else:
        message.min, message.max = float(_LIMITS[-1]), float(_LIMITS[0])
    counts = np.bincount(np.searchsorted(_LIMITS, numbers, "right"), minlength=len(_LIMITS))
    position = 0
    while position < len(_LIMITS):  # of several empty ranges in a row one is told
        end, count = float(_LIMITS[position]), float(counts[position])
        position += 1
        while count == 0 and position < len(_LIMITS) and counts[position] == 0:
            end = float(_LIMITS[position])
            position += 1
        message.bucket_limit.append(end)
        message.bucket.append(count)
    return message
