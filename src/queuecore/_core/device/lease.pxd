# A consumer's hold on a batch in a device's memory.
#
# transfer_hand, transfer_take: the consumer, one thread at a time. A lease's methods: any thread, under the GIL.
from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t, uintptr_t
from queuecore._core.device.driver cimport READERS_MOST, CuPointer, Device
from queuecore._core.device.transfer cimport Transfer


cdef class DeviceLease:
    """A consumer's hold on a batch in a device's memory: in a slot, or in memory of its own, to which it was copied."""
    cdef Device device
    cdef Transfer* transfer   # NULL: there is no slot any more
    cdef uint32_t slot
    cdef int32_t readers
    cdef uintptr_t[READERS_MOST] handles
    cdef list streams         # kept for recording the events at the end
    cdef readonly object arrays
    cdef CuPointer base       # 0: the lease is over
    cdef int64_t size
    cdef object own           # memory of its own
    cdef bint taken           # the consumer has taken it; before that it doesn't own the slot
    cdef void* before         # all leases, under the GIL
    cdef void* after

    cdef int end_(self) noexcept nogil
    cdef bint _gather(self) noexcept nogil


# Returns a lease on batch k and orders the stream behind the batch's copy. arrays: the maker of its arrays. May be
# called any number of times, until one of these leases is taken: the taken lease gives the slot back at its end.
cdef DeviceLease transfer_hand(Transfer* t, Device device, uint64_t k, stream, uintptr_t handle, arrays)
cdef void transfer_take(DeviceLease lease) noexcept
