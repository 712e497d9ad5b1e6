# A permutation of records at known places: an order drawn at random, without a buffer (atoms/cipher.pxd).
from queuecore._core.order.op cimport OpSpec, Order

cdef bint permute_make(Order* order, const OpSpec* spec) noexcept nogil
