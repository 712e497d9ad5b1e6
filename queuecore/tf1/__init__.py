"""TensorFlow 1's input programs: ``import queuecore.tf1 as tf``.

A deferred graph of queues, readers, decoders and arithmetic, and sessions that run it; `train`, `data`, `errors` and
others as there. It feeds a training loop, and is none: there are no gradients. Values are arrays of NumPy's.
"""

import importlib as _importlib
import sys as _sys
from typing import TYPE_CHECKING as _TYPE_CHECKING, Any as _Any

from queuecore.tf1 import (
    bitwise as bitwise,
    compat as compat,
    contrib as contrib,
    data as data,
    debugging as debugging,
    dtypes as dtypes,
    errors as errors,
    gfile as gfile,
    image as image,
    initializers as initializers,
    io as io,
    logging as logging,
    lookup as lookup,
    manip as manip,
    math as math,
    nest as nest,
    python_io as python_io,
    queue as queue,
    ragged as ragged,
    random as random,
    sparse as sparse,
    strings as strings,
    summary as summary,
    train as train,
    version as version,
)
from queuecore.tf1._data.specs import (
    RaggedTensorSpec as RaggedTensorSpec,
    SparseTensorSpec as SparseTensorSpec,
    TensorSpec as TensorSpec,
)
from queuecore.tf1._graph import values as _values
from queuecore.tf1._graph.graph import (
    Graph as Graph,
    GraphKeys as GraphKeys,
    Operation as Operation,
    Tensor as Tensor,
    add_to_collection as add_to_collection,
    add_to_collections as add_to_collections,
    container as container,
    control_dependencies as control_dependencies,
    convert_to_tensor as convert_to_tensor,
    default_session as get_default_session,
    device as device,
    get_collection as get_collection,
    get_collection_ref as get_collection_ref,
    get_default_graph as get_default_graph,
    name_scope as name_scope,
    reset_default_graph as reset_default_graph,
    set_random_seed as set_random_seed,
)
from queuecore.tf1._graph.modes import *
from queuecore.tf1._graph.refused import refusing as _refusing
from queuecore.tf1._graph.session import (
    ConfigProto as ConfigProto,
    GPUOptions as GPUOptions,
    GraphOptions as GraphOptions,
    InteractiveSession as InteractiveSession,
    RunMetadata as RunMetadata,
    RunOptions as RunOptions,
    Session as Session,
)
from queuecore.tf1._graph.values import (
    QUANTIZED_DTYPES as QUANTIZED_DTYPES,
    Dimension as Dimension,
    DType as DType,
    TensorShape as TensorShape,
    as_dtype as as_dtype,
    bfloat16 as bfloat16,
    complex64 as complex64,
    complex128 as complex128,
    dimension_at_index as dimension_at_index,
    dimension_value as dimension_value,
    double as double,
    float16 as float16,
    float32 as float32,
    float64 as float64,
    half as half,
    int8 as int8,
    int16 as int16,
    int32 as int32,
    int64 as int64,
    qint8 as qint8,
    qint16 as qint16,
    qint32 as qint32,
    quint8 as quint8,
    quint16 as quint16,
    resource as resource,
    string as string,
    uint8 as uint8,
    uint16 as uint16,
    uint32 as uint32,
    uint64 as uint64,
    variant as variant,
)
from queuecore.tf1._input.queues import (
    FIFOQueue as FIFOQueue,
    PaddingFIFOQueue as PaddingFIFOQueue,
    PriorityQueue as PriorityQueue,
    QueueBase as QueueBase,
    RandomShuffleQueue as RandomShuffleQueue,
)
from queuecore.tf1._input.readers import (
    FixedLengthRecordReader as FixedLengthRecordReader,
    IdentityReader as IdentityReader,
    LMDBReader as LMDBReader,
    ReaderBase as ReaderBase,
    TextLineReader as TextLineReader,
    TFRecordReader as TFRecordReader,
    WholeFileReader as WholeFileReader,
)
from queuecore.tf1._ops import arrays as _arrays, math as _math
from queuecore.tf1._ops.arrays import *
from queuecore.tf1._ops.checks import *
from queuecore.tf1._ops.control import *
from queuecore.tf1._ops.decoders import *
from queuecore.tf1._ops.eager import *
from queuecore.tf1._ops.encoders import parse_tensor as parse_tensor, serialize_tensor as serialize_tensor
from queuecore.tf1._ops.hashes import (
    string_to_hash_bucket as string_to_hash_bucket,
    string_to_hash_bucket_fast as string_to_hash_bucket_fast,
    string_to_hash_bucket_strong as string_to_hash_bucket_strong,
)
from queuecore.tf1._ops.initializers import *
from queuecore.tf1._ops.json_examples import decode_json_example as decode_json_example
from queuecore.tf1._ops.loops import *
from queuecore.tf1._ops.math import *
from queuecore.tf1._ops.numbers import *
from queuecore.tf1._ops.picking import *
from queuecore.tf1._ops.ragged import RaggedTensor as RaggedTensor, RaggedTensorValue as RaggedTensorValue
from queuecore.tf1._ops.random import *
from queuecore.tf1._ops.segments import *
from queuecore.tf1._ops.sparse import *
from queuecore.tf1._ops.sparse_parts import *
from queuecore.tf1._ops.strings import (
    as_string as as_string,
    decode_base64 as decode_base64,
    encode_base64 as encode_base64,
    matching_files as matching_files,
    read_file as read_file,
    reduce_join as reduce_join,
    regex_replace as regex_replace,
    string_join as string_join,
    string_split as string_split,
    string_strip as string_strip,
    string_to_number as string_to_number,
    substr as substr,
    write_file as write_file,
)
from queuecore.tf1._ops.tensor_arrays import TensorArray as TensorArray
from queuecore.tf1._ops.variables import *
from queuecore.tf1._protos.summaries import (
    Event as Event,
    HistogramProto as HistogramProto,
    SessionLog as SessionLog,
    Summary as Summary,
    SummaryMetadata as SummaryMetadata,
)

compat.v1 = _sys.modules[__name__]
newaxis = None
OpError = errors.OpError
VERSION = __version__ = version.VERSION
GIT_VERSION, COMPILER_VERSION = version.GIT_VERSION, version.COMPILER_VERSION
GRAPH_DEF_VERSION = version.GRAPH_DEF_VERSION
abs = _math.abs_
pow = _math.pow_
round = _math.round_
bool = _values.bool_
range = _arrays.range_
slice = _arrays.slice_
tuple = _arrays.tuple_
_refuse = _refusing("tf")  # what trains
_LATE = frozenset(["app", "test"])  # doors that are opened when they are first used

if _TYPE_CHECKING:
    from queuecore.tf1 import app as app, test as test


def __getattr__(name: str) -> _Any:
    if name == "flags":
        return _importlib.import_module("queuecore.tf1.app").flags
    return _importlib.import_module(f"queuecore.tf1.{name}") if name in _LATE else _refuse(name)
