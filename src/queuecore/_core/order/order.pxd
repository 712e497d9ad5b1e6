# The order program of a run: which record comes next, computed on indices. See order_op.pxd for what it is made of, and
# the invariants. Called by one thread at a time, whoever holds the pipeline's turn. A cut and the store of a stored
# shuffle are asked for at order_op and order_store.
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
# Leaves out the next elements and breaks, at most `budget` rows of work at a time; PULL_OK: done or more to do
# (order.skip_left and order.skip_breaks tell).
cdef int order_forward(Order* order, int64_t budget) noexcept nogil
