# Times: how long Python's threads wait while they work for a program, a runner or a dataset's node.
#
# A thread enters the times of whom it works for; if it works for several, within each other, a wait counts for all of
# them. begin_wait, end_wait: any thread, around a sleep, without or with the GIL; wait-free, and one load if the thread
# works for nobody. Of waits within a wait only the outermost counts.
from libc.stdint cimport int32_t, int64_t
from queuecore._core.atoms.platform cimport Atomic, kAcquire

cdef enum:
    ON_INPUT = 0    # nothing is there to work on
    ON_OUTPUT = 1   # there is no room for what was made

cdef extern from *:
    """
    namespace queuecore {
    struct Waits {
      Atomic<int64_t> ns[2];   // sums of waits, as of spans_now
      int32_t on;              // kind of the wait in progress
      Waits* outer;            // of whom the thread works for as well
    };
    }  // namespace queuecore
    """
    cppclass Waits "queuecore::Waits":
        Atomic[int64_t] ns[2]
        int32_t on
        Waits* outer


cdef inline int64_t spans_now(const Atomic[int64_t]* sum, int64_t (*clock)() noexcept nogil) noexcept nogil:
    # Returns how long spans took up to now. The one thread that adds them to the sum subtracts their beginnings, and
    # adds their ends: the sum is negative during a span, since clocks began before all spans. It is one word, so a
    # reader never counts a span twice.
    cdef int64_t total, now
    cdef int _i
    for _i in range(100):
        total = sum.load(kAcquire)  # acquire, here and below: no partner; the clock is read between both
        now = 0 if total >= 0 else clock()
        if sum.load(kAcquire) == total:  # the span was in progress then
            break
    return total + now


cdef void begin_wait(int32_t on) noexcept nogil
cdef void end_wait() noexcept nogil


cdef class ThreadTimes:
    cdef Waits waits
    cdef int64_t begun        # monotonic ns
    cdef ThreadTimes outer

    cdef void add_to(self, int64_t* into) noexcept


cdef class WorkTimes:
    cdef list running         # ThreadTimes
    cdef int64_t most         # the most threads at once
    # of threads that have left: how long they were there, and waited on input and on output; in ns
    cdef int64_t[3] over

    cpdef ThreadTimes enter(self)
    cpdef leave(self, ThreadTimes times)
