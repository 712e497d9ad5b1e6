# The order program of a run: it computes on indices which record comes next. op.pxd has its parts and the invariants.
# One thread at a time calls it: the holder of the pipeline's turn. op.pxd declares the cut, store.pxd the store of a
# stored shuffle.
from libc.stdint cimport int64_t
from queuecore._core.order.op cimport Order, OrderPlan
from queuecore._core.order.runs cimport RunList

# Kinds of operators in a plan (OpSpec).
cdef enum:
    OP_TAKE = 1
    OP_SKIP = 2
    OP_REPEAT = 3
    OP_BATCH = 4
    OP_SHUFFLE = 5
    OP_SHARD = 6
    OP_PERMUTE = 7       # of records at known places

# NULL: no memory.
cdef Order* order_new(const OrderPlan* plan) noexcept nogil
cdef void order_free(Order* order) noexcept nogil
cdef int order_pull(Order* order, int64_t max_rows, RunList* out) noexcept nogil
# Gives some of the records that are owed; *out closes with the last one.
cdef void order_pull_owed(Order* order, int64_t max_rows, RunList* out) noexcept nogil
# Leaves out the next elements and breaks, about `budget` rows of work at a time. After PULL_OK, order.skip_left and
# order.skip_breaks tell how many are still to be left out.
cdef int order_forward(Order* order, int64_t budget) noexcept nogil
