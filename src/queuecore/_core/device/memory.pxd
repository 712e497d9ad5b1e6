# Memory on a device. When a stream of batches ends, its memory is kept for the next stream that wants the same size.
# Any thread, with or without the GIL; `region_take`, `readers_end` and `region_leave` in the device's context.
#   I1  Memory is kept with the events behind its last readers, and goes to one stream at a time. It is freed once these
#       events are complete, and not before; no host thread waits for that.
#   I2  If the driver can't say any more whether memory is in use, it is neither freed nor used again. Its context is
#       broken then.
from libc.stdint cimport int64_t
from queuecore._core.device.driver cimport DeviceCore, Failure, Region

cdef enum:
    KEPT_BYTES = 268435456   # more than this is freed as soon as it can be

# False: *failure says why. The region's last readers may be at work.
cdef bint region_take(DeviceCore* core, Region* r, int64_t nbytes, Failure* failure) noexcept nogil
# lost: it is unknown when its readers are done.
cdef void region_leave(DeviceCore* core, Region* r, bint lost) noexcept nogil
# readers_end waits on the host for the region's readers; after_readers lets a driver stream wait for them.
cdef int readers_end(const Region* r) noexcept nogil
cdef int after_readers(void* stream, const Region* r) noexcept nogil
# Frees kept memory beyond so many bytes, the oldest first, as far as its last readers are done.
cdef void free_done(DeviceCore* core, int64_t limit) noexcept nogil
