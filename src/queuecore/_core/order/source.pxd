# The source of the order program: records of files or of blocks, pass after pass, by number.
from queuecore._core.order.op cimport Order, OrderPlan

cdef bint source_make(Order* order, const OrderPlan* plan) noexcept nogil
# The fault of the first file that can't be read, once the source has met it.
cdef void source_file_fault(Order* order) noexcept nogil
