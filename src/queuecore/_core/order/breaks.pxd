# Breaks of steps: an operator that gives the records that a plan's breaks of one level name as PULL_BREAK.
from queuecore._core.order.op cimport BreakList, Order

# All breaks of the list are of one level.
cdef bint breaks_make(Order* order, BreakList breaks) noexcept nogil
