# Take, skip and repeat: the operators that decide how much of a pass is given, and how many passes.
from queuecore._core.order.op cimport OpSpec, Order

cdef bint take_make(Order* order, const OpSpec* spec) noexcept nogil
cdef bint skip_make(Order* order, const OpSpec* spec) noexcept nogil
cdef bint repeat_make(Order* order, const OpSpec* spec) noexcept nogil
