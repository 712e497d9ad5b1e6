# A consumer's hold on a batch in a device's memory.
#
# transfer_hand, transfer_take: the consumer, one thread at a time. What a lease does: any thread, under the GIL.
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
    cdef list streams         # kept for the records at the end
    cdef readonly object arrays
    cdef CuPointer base       # 0: at its end
    cdef int64_t size
    cdef object own           # memory of its own
    cdef bint taken           # by its consumer: else the slot isn't its own yet
    cdef void* before         # all leases, under the GIL
    cdef void* after

    cdef int end_(self) noexcept nogil
    cdef bint _gather(self) noexcept nogil


# Batch k, after whose copy the stream is ordered from now on. arrays: what makes arrays of it. As often as one likes, until one of these
# leases is taken: that one gives the slot back, in the end.
cdef DeviceLease transfer_hand(Transfer* t, Device device, uint64_t k, stream, uintptr_t handle, arrays)
cdef void transfer_take(DeviceLease lease) noexcept
