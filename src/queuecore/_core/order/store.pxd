# The store of a stored shuffle: which rows are loaded when, and into which places. The caller holds the pipeline's
# turn, as for all of the order; the loading itself runs without it. All but order_begin need an order with a store.
from libc.stdint cimport int64_t, uint32_t
from queuecore._core.order.op cimport Order
from queuecore._core.order.runs cimport RunList
from queuecore._core.order.shuffle cimport RecordShuffle
from queuecore._core.atoms.platform cimport Fault

# Ends fast-forwarding: a stored shuffle begins to load. False: no memory.
cdef bint order_begin(Order* order) noexcept nogil
# Returns the number of free rows of the store.
cdef int64_t order_room(const Order* order) noexcept nogil
# Plans the rows to load next: appends their runs, and writes each record's row of the store to `ids`. Returns their
# number; *first: the number of the first one, for order_loaded. A negative *first marks survivors of a fast-forward.
cdef int64_t order_plan_load(Order* order, int64_t max_rows, RunList* out, uint32_t* ids, int64_t* first) noexcept nogil
# Notes that the rows of such a plan are loaded: the first `good` without error, the next one with this fault.
cdef void order_loaded(Order* order, int64_t first, int64_t n, const uint32_t* ids, int64_t good_count,
                       const Fault* fault) noexcept nogil
# Frees a row of the store.
cdef void order_release(Order* order, uint32_t id) noexcept nogil


# True while rows that a fast-forward left in the buffer are still to be loaded.
cdef inline bint store_lacks_survivors(const Order* order) noexcept nogil:
    cdef const RecordShuffle* s = <const RecordShuffle*>order.bottom_shuffle
    return s.store.survivors_loaded < s.store.survivors_count


# True if a row of the store could not be loaded.
cdef inline bint store_failed(const Order* order) noexcept nogil:
    cdef const RecordShuffle* s = <const RecordShuffle*>order.bottom_shuffle
    return s.store.failed_at >= 0 or s.store.survivor_failed_pass >= 0
