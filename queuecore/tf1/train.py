"""``tf.train``: coordinators, queue runners, and what they feed."""

from queuecore.runtime import Coordinator, LooperThread
from queuecore.tf1._graph.refused import refusing as _refusing
from queuecore.tf1._input import runners as queue_runner
from queuecore.tf1._input.batches import (
    batch,
    batch_join,
    maybe_batch,
    maybe_batch_join,
    maybe_shuffle_batch,
    maybe_shuffle_batch_join,
    shuffle_batch,
    shuffle_batch_join,
)
from queuecore.tf1._input.producers import (
    input_producer,
    limit_epochs,
    match_filenames_once,
    range_input_producer,
    slice_input_producer,
    string_input_producer,
)
from queuecore.tf1._input.runners import QueueRunner, add_queue_runner, lowering_report, start_queue_runners
from queuecore.tf1._ops.steps import (
    assert_global_step,
    create_global_step,
    get_global_step,
    get_or_create_global_step,
    global_step,
)
from queuecore.tf1._protos.event_files import summary_iterator
from queuecore.tf1._protos.messages import (
    BytesList,
    Example,
    Feature,
    FeatureList,
    FeatureLists,
    Features,
    FloatList,
    Int64List,
    SequenceExample,
)

__all__ = [
    "BytesList",
    "Coordinator",
    "Example",
    "Feature",
    "FeatureList",
    "FeatureLists",
    "Features",
    "FloatList",
    "Int64List",
    "LooperThread",
    "QueueRunner",
    "SequenceExample",
    "add_queue_runner",
    "assert_global_step",
    "batch",
    "batch_join",
    "create_global_step",
    "get_global_step",
    "get_or_create_global_step",
    "global_step",
    "input_producer",
    "limit_epochs",
    "lowering_report",
    "match_filenames_once",
    "maybe_batch",
    "maybe_batch_join",
    "maybe_shuffle_batch",
    "maybe_shuffle_batch_join",
    "queue_runner",
    "range_input_producer",
    "shuffle_batch",
    "shuffle_batch_join",
    "slice_input_producer",
    "start_queue_runners",
    "string_input_producer",
    "summary_iterator",
]

__getattr__ = _refusing("tf.train")  # optimizers and their like
