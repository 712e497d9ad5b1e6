# Waiting: the work and the sleep of a consumer while a pipe has nothing for it.
from libc.stdint cimport int64_t, uint64_t
from queuecore._core.stream.pipe cimport Pipe

# Helps, spins a little, then sleeps, until batch k is ready or was taken, the stream ends or stops, or a slice of time
# is over. Several threads may wait; each batch wakes all. Returns the ns to spin next time.
cdef int64_t wait_for_batch(Pipe* p, uint64_t k, int64_t spin_ns) noexcept nogil
# Waits until the pipe's threads have ended, in slices, so that Ctrl-C is noticed. False: the deadline passed; a
# deadline below 0: none.
cdef bint wait_for_end(Pipe* p, int64_t deadline) except *
# Called when `timeout` seconds did not do: warns of threads that a system call keeps. One that only gets no processor
# ends as soon as it gets one, which is worth some more time, in proportion to `timeout`.
cdef int leave_behind(Pipe* p, double timeout) except -1
# Lets a worker look at the files of which a part was read, and waits for it, in slices as wait_for_end. False: the file
# of `settle_fault` has changed; True also if the pipe was stopped meanwhile.
cdef bint wait_for_look(Pipe* p) except *
# Waits until next() would not wait for batch k. False: the deadline passed.
cdef bint wait_until_there(Pipe* p, uint64_t k, int64_t deadline) noexcept nogil


# Warns or ends the stream when it makes no progress for long, and names the possible cause. Under the GIL, except
# `since`, which the consumer sets to 0 at each batch. The constructor takes the seconds after which it warns, and ends;
# below 0: never.
cdef class Stall:
    cdef int64_t warn_ns, timeout_ns  # -1: never
    # bytes read and batches planned at the last progress, and its time in ns of the monotonic clock
    cdef int64_t moved, since
    cdef bint warned

    # Looks for progress after a slice of time. Returns the error that ends the stream, or None.
    cdef object watch(self, Pipe* p)

    cdef object _error(self, Pipe* p, int64_t now)
