"""TensorFlow 1's input programs: ``import queuecore.tf1 as tf``.

A deferred graph of queues, readers, decoders and arithmetic, and sessions that run it; `train`, `data`, `errors` and
others as there. It feeds a training loop, and is none: there are no gradients. Values are arrays of NumPy's.
"""

from queuecore.tf1 import compat, contrib, data, errors, gfile, image, io, math, python_io, random, strings, train
from queuecore.tf1._arrays import *
from queuecore.tf1._arrays import range_ as range
from queuecore.tf1._arrays import slice_ as slice
from queuecore.tf1._arrays import tuple_ as tuple
from queuecore.tf1._control import *
from queuecore.tf1._decoders import *
from queuecore.tf1._graph import (
    Graph,
    GraphKeys,
    Operation,
    Tensor,
    add_to_collection,
    control_dependencies,
    convert_to_tensor,
    device,
    get_collection,
    get_default_graph,
    name_scope,
    reset_default_graph,
    set_random_seed,
)
from queuecore.tf1._math import *
from queuecore.tf1._math import abs_ as abs
from queuecore.tf1._math import pow_ as pow
from queuecore.tf1._math import round_ as round
from queuecore.tf1._missing import refusing as _refusing
from queuecore.tf1._queues import FIFOQueue, PaddingFIFOQueue, PriorityQueue, QueueBase, RandomShuffleQueue
from queuecore.tf1._random import *
from queuecore.tf1._readers import (
    FixedLengthRecordReader,
    IdentityReader,
    LMDBReader,
    ReaderBase,
    TextLineReader,
    TFRecordReader,
    WholeFileReader,
)
from queuecore.tf1._session import ConfigProto, InteractiveSession, RunMetadata, RunOptions, Session
from queuecore.tf1._shapes import Dimension, TensorShape
from queuecore.tf1._sparse import *
from queuecore.tf1._state import *
from queuecore.tf1._strings import (
    as_string,
    matching_files,
    read_file,
    regex_replace,
    string_join,
    string_split,
    string_strip,
    string_to_number,
    substr,
    write_file,
)
from queuecore.tf1._types import NAMES as _NAMES
from queuecore.tf1._types import as_dtype

globals().update(_NAMES)  # float32, int64, string and so on
newaxis = None
__getattr__ = _refusing("tf")  # what trains
