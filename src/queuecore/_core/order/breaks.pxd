# Elements of steps that can't be made: where the records are that the plan's breaks of one level name.
from queuecore._core.order.op cimport BreakList, Order

# All breaks of the list are of one level.
cdef bint breaks_make(Order* order, BreakList breaks) noexcept nogil
