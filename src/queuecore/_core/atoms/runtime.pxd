# The runner: native threads that call a step function over and over until they are told to stop.
#
# runner_start: one Python thread. runner_stop, runner_join: any thread. stop_*: any thread, lock-free.
#   I1  The step function and its context outlive every worker: a worker drops its reference last of all.
#   I2  The first cause wins: a StopFlag is set once, and keeps the fault it was set with. No thread sees the stop
#       before that fault is written, so a thread that sees the stop can ask for the cause.
#   I3  A stop ends every wait of the runner: workers sleep on `work`, `apart` or `rings` only, and a stop notifies all.
#
# StopEvent: the same for Python's threads, which wait for the stop itself. set, is_set, set_at: any thread, also in a
# signal handler, lock-free; wait: any Python thread, blocking, without the GIL.
#   I4  An event is set once and never cleared: a new beginning takes a new event, so no wait can miss a stop that was
#       taken back.
#   I5  A child is set when it is set itself or its parent is. Both park on the parent's event count, so one wait
#       notices both.
from libc.stdint cimport int32_t, int64_t, uint32_t
from queuecore._core.atoms.platform cimport (
    Atomic, EventCount, Fault, Runner, StopFlag, kAcquire, kRelaxed, kRelease, order)

cdef enum:
    STEP_WORKED = 0  # there may be more
    STEP_IDLE = 1    # nothing to do now; call again after a notify of `work`
    STEP_DONE = 2    # never again


# Labels of edges, as in ring.pxd.
cdef enum:
    E1 = 55
    E2 = 56
    F1 = 57
    F2 = 58
    F3 = 59
    F4 = 60

cdef enum:
    STOP_NOT = 0
    STOP_CLAIMED = 1  # its fault is being written
    STOP_SET = 2


cdef inline bint stop_requested(StopFlag* s) noexcept nogil:
    # F1 acquire: pairs with F2 and F3; writes before the stop are seen after it
    return s.state.load(order(F1, kAcquire)) == STOP_SET


cdef inline bint stop_set(StopFlag* s, const Fault* fault) noexcept nogil:
    # True for the caller that set it; any other caller's fault comes too late, and its call may return a few
    # instructions before the stop is seen: the first caller may still be writing its fault. fault NULL: a clean stop.
    cdef uint32_t expected = STOP_NOT
    if fault == NULL:
        # F2 release: pairs with F1. Relaxed on failure: somebody else was first, nothing is read.
        return s.state.compare_exchange_strong(expected, STOP_SET, order(F2, kRelease), kRelaxed)
    # Relaxed: it only decides who writes `first`, which nobody reads before F3.
    if not s.state.compare_exchange_strong(expected, STOP_CLAIMED, kRelaxed, kRelaxed):
        return False
    s.first = fault[0]
    s.state.store(STOP_SET, order(F3, kRelease))  # F3 release: pairs with F1 and F4; publishes `first`
    return True


cdef inline const Fault* stop_fault(StopFlag* s) noexcept nogil:
    # Returns the fault that stopped it, or NULL: no stop is seen yet, or it is a clean one.
    if s.state.load(order(F4, kAcquire)) != STOP_SET or s.first.code == 0:  # F4 acquire: pairs with F3
        return NULL
    return &s.first


cdef inline bint stop_event_set(Atomic[int64_t]* at, int64_t now) noexcept nogil:
    # True for the caller that set it.
    cdef int64_t expected = 0
    # E1 release: pairs with E2. Relaxed on failure: somebody else was first, nothing is read. Linearizes here.
    return at.compare_exchange_strong(expected, now, order(E1, kRelease), kRelaxed)


cdef inline int64_t stop_event_at(Atomic[int64_t]* at) noexcept nogil:
    return at.load(order(E2, kAcquire))  # E2 acquire: pairs with E1; writes before the stop are seen after it


# Starts up to `threads` workers named name-0, name-1, ... Returns 0, or an errno with *started workers running; the
# caller then stops the runner. `hold` is called once for each worker before it starts (it takes a reference on the
# context).
cdef int runner_start(Runner* r, int32_t threads, const char* name, void (*hold)(void*) noexcept nogil,
                      int32_t* started) noexcept nogil
# Starts up to `count` more workers, whose numbers begin at `first`: they sleep on `work`, the runner's `apart` or
# `rings`, and don't spin. Any of the runner's threads. Returns how many were started.
cdef int32_t runner_more(Runner* r, EventCount* work, int32_t first, int32_t count, const char* name,
                         void (*hold)(void*) noexcept nogil) noexcept nogil
# Requests the end; never waits.
cdef void runner_stop(Runner* r, const Fault* fault) noexcept nogil
# Waits until no worker runs, the absolute deadline passes (< 0: none) or a signal arrives. True: no worker runs.
cdef bint runner_join(Runner* r, int64_t deadline_ns) noexcept nogil
# How many of the runner's threads are in a system call, or a fault of a page, that doesn't come back; none that only
# gets no processor, or waits for another thread. Reads /proc: not for the hot path. The first 128 threads are looked
# at.
cdef int32_t runner_stuck(Runner* r) except -1
# Returns the stop of the runner that this thread works for, or NULL: it is none's. Once that is set,
# the thread gives up its waits.
cdef StopFlag* this_stop() noexcept nogil
# Once the interpreter is exiting, a Python thread other than the main one stays here for good, without the GIL: an
# error would only make its program print a traceback during the exit.
cdef int wait_out_exit() except -1
# True if the interpreter is exiting: native loops on Python's threads end then.
cdef bint exiting() noexcept nogil

# The end of a program that a wait holds up. CPython joins non-daemon threads before any exit hook runs, so such a
# thread, waiting here for something that no thread will ever do, would keep the process alive. The waits of non-daemon
# threads end once the main thread has ended, every other thread, daemons too, waits in queuecore without a limit of
# time or for such a thread's end, and no native thread has work. A thread that works goes on, however slow it is, and
# so do the threads that wait for it: time plays no part in the decision (ending.pxd). Not counted: what a signal
# handler, a finalizer, a thread that Python doesn't know yet, or an exception set from another thread would have done.
#   I6  A wait without a limit of time calls waited() when it begins, or before anything that ends it can have an
#       effect. It takes slices of WAIT_SLICE_NS (before the main thread's end perhaps of LONG_SLICE_NS); in each it
#       looks once, completely, for what it waits for, and then calls still_waiting(). A thread that does something for
#       others during its wait calls waited(), before or after.
#   I7  A native thread calls note_native() before it sleeps, if it has found nothing to do and only other threads can
#       give it work: not if it waits for a disk, a device or a time. It calls waited() when it has done something.
cdef enum:
    WAIT_SLICE_NS = 50000000
    LONG_SLICE_NS = 250000000

# True if the main thread has ended.
cdef bint main_over() noexcept nogil
# Called after a slice, with the GIL. Does what wait_out_exit does, and raises CancelledError if the wait would never
# end.
cdef int still_waiting() except -1
# The same for a daemon's wait that does not take the GIL. Once main_over() is true, other waits call still_waiting()
# after each slice.
cdef void note_slice() noexcept nogil
cdef void note_native() noexcept nogil
# Wait-free before the main thread's end: one load.
cdef void waited() noexcept nogil


cdef class StopEvent:
    cdef EventCount* changed  # the parent's, if there is one
    cdef Atomic[int64_t] at   # monotonic nanosecond of the stop; 0: not stopped
    cdef readonly StopEvent parent

    # Returns the monotonic nanosecond of the stop, its own or else the parent's; 0: not stopped.
    cdef int64_t stopped_ns(self) noexcept nogil
    # Sleeps until it is set, the absolute deadline passes (< 0: none) or a signal arrives. True: it is set.
    cdef bint sleep(self, int64_t deadline_ns) noexcept nogil
