"""``tf.dtypes``: types of tensors, and tensors of another type."""

from queuecore.tf1._graph.refused import refusing as _refusing
from queuecore.tf1._graph.values import (
    QUANTIZED_DTYPES,
    DType,
    as_dtype,
    bfloat16,
    bool_ as bool,
    complex64,
    complex128,
    double,
    float16,
    float32,
    float64,
    half,
    int8,
    int16,
    int32,
    int64,
    qint8,
    qint16,
    qint32,
    quint8,
    quint16,
    resource,
    string,
    uint8,
    uint16,
    uint32,
    uint64,
    variant,
)
from queuecore.tf1._ops.math import cast, saturate_cast
from queuecore.tf1._ops.numbers import complex
from queuecore.tf1._ops.strings import as_string

__getattr__ = _refusing("tf.dtypes")
