# Waiting: what a consumer does while a pipe has nothing for it.
from libc.stdint cimport int64_t, uint64_t
from queuecore._core.stream.pipe cimport Pipe

# Until batch k is there, or was, the stream ends or stops, or a slice of time is over: help, spin a little, sleep. Several threads may
# wait; each batch wakes all. Returns how long to spin next time.
cdef int64_t wait_for_batch(Pipe* p, uint64_t k, int64_t spin_ns) noexcept nogil
# Until the pipe's threads have ended, in slices, so that Ctrl-C is heard. False: the deadline passed; below 0: there is none.
cdef bint wait_for_end(Pipe* p, int64_t deadline) except *
# Until next() would not wait for batch k. False: the deadline passed.
cdef bint wait_until_there(Pipe* p, uint64_t k, int64_t deadline) noexcept nogil


# Says so when nothing moves for long, and whose fault it may be. Under the GIL, but for `since`, which the consumer sets to 0 at each batch.
cdef class Stall:
    cdef int64_t warn_ns, timeout_ns  # -1: never
    cdef int64_t moved, since
    cdef bint warned

    # After a slice of time. Returns the error that ends the stream, or None.
    cdef object watch(self, Pipe* p)

    cdef object _error(self, Pipe* p, int64_t now)
