"""``tf.sparse``: tensors of which only some values are stored."""

from queuecore.tf1._graph.refused import refusing as _refusing
from queuecore.tf1._ops.sparse import (
    SparseTensor,
    sparse_placeholder as placeholder,
    sparse_tensor_to_dense as to_dense,
)
from queuecore.tf1._ops.sparse_parts import (
    sparse_add as add,
    sparse_concat as concat,
    sparse_fill_empty_rows as fill_empty_rows,
    sparse_reduce_sum as reduce_sum,
    sparse_reorder as reorder,
    sparse_reset_shape as reset_shape,
    sparse_reshape as reshape,
    sparse_retain as retain,
    sparse_slice as slice,
    sparse_split as split,
    sparse_to_indicator as to_indicator,
    sparse_transpose as transpose,
)

__all__ = [
    "SparseTensor",
    "add",
    "concat",
    "fill_empty_rows",
    "placeholder",
    "reduce_sum",
    "reorder",
    "reset_shape",
    "reshape",
    "retain",
    "slice",
    "split",
    "to_dense",
    "to_indicator",
    "transpose",
]

__getattr__ = _refusing("tf.sparse")
