# A permutation of records at known places: in an order drawn at random, without a buffer (cipher.pxd).
from queuecore._core.order.op cimport OpSpec, Order

cdef bint permute_make(Order* order, const OpSpec* spec) noexcept nogil
