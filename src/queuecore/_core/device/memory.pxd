# Memory on a device. When a stream of batches ends, what it had is kept for the next one that wants as much. Any thread, with or without
# the GIL; `region_take`, `readers_end` and `region_leave` in the device's context.
#   I1  What is kept is so with the events behind its last readers, and goes to one stream at a time. It is freed once these are complete,
#       and not before; nobody waits for that on the host.
#   I2  Memory of which the driver can't say any more whether it is in use is neither freed nor used again. Its context is broken then.
from libc.stdint cimport int64_t
from queuecore._core.device.driver cimport DeviceCore, Failure, Region

cdef enum:
    KEPT_BYTES = 268435456   # more than this is freed as soon as it can be

# False: *failure says why. The region's last readers may be at work.
cdef bint region_take(DeviceCore* core, Region* r, int64_t nbytes, Failure* failure) noexcept nogil
# lost: nobody knows when its readers are done.
cdef void region_leave(DeviceCore* core, Region* r, bint lost) noexcept nogil
# Waits for its readers, on the host; `after_readers` has a stream of the driver's wait.
cdef int readers_end(const Region* r) noexcept nogil
cdef int after_readers(void* stream, const Region* r) noexcept nogil
# Frees kept memory beyond so many bytes, the oldest first, as far as its last readers are done.
cdef void free_done(DeviceCore* core, int64_t most) noexcept nogil
