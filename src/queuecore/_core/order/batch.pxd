# Batches of records, or of batches.
from queuecore._core.order.op cimport OpSpec, Order

cdef bint batch_make(Order* order, const OpSpec* spec) noexcept nogil
