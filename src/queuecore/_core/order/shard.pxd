# Shards: of each group of as many elements as there are shards, the one with this shard's number.
from queuecore._core.order.op cimport OpSpec, Order

# The treatment of a last group of fewer elements than there are shards.
cdef enum:
    UNEVEN_KEEP = 0      # its elements are given
    UNEVEN_DROP = 1      # its elements are not given: an element is given once its group is whole
    UNEVEN_PAD = 2       # elements from the beginning of the pass make it whole
    UNEVEN_RAISE = 3     # its elements are not given, and the order ends with a fault

cdef bint shard_make(Order* order, const OpSpec* spec) noexcept nogil
