# Rings of the request engine: threads that hand reads to the kernel, up to kRingReads each at a time, and take their
# results as they come (queuecore/uring.hpp). A thread opens its ring with its first reads.
#
# A ring reads records of open files of this machine; it passes on to the pool what it takes and can't do. Direct reads
# (direct.pxd) of bytes that are no whole blocks come through a window of the thread's.
#   U1  A request is in the ring until its thread has taken its result, and its file is pinned as long. The thread
#       leaves, and its ring is closed, when there is none: so the job and the memory that the kernel writes to are
#       there.
#   U2  A kernel that refuses a ring, or goes on with one, loses nothing: requests it hasn't taken are passed on, its
#       results come, and the pool does all that follows.
# A thread waits for the kernel only while reads are in flight: until the next result, or for a millisecond, since new
# requests and a stop don't wake it there. A forked child has no such thread, so nobody in it touches a ring.
from libc.stdint cimport int32_t
from queuecore._core.io.engine cimport Engine

# Hands in reads that wait, and takes results. Returns STEP_WORKED or STEP_IDLE. `number`: of the thread, below
# MOST_RINGS.
cdef int ring_step(Engine* e, int32_t number) noexcept nogil
# The thread's last call: waits until none of its reads is in flight.
cdef void ring_leave(Engine* e, int32_t number) noexcept nogil
