# The runner: native threads that call a step function over and over until they are told to stop.
#
# runner_start: one Python thread. runner_stop, runner_join: any thread. stop_*: any thread, lock-free.
#   I1  The step function and its context outlive every worker: a worker drops its reference last of all.
#   I2  The first cause wins: a StopFlag is set once, and keeps the fault it was set with.
#   I3  A stop ends every wait of the runner: workers sleep on `work` only, and a stop notifies it.
#
# StopEvent: the same for Python's threads, which wait for the stop itself. set, is_set, set_at: any thread, also in a signal handler, lock-free;
# wait: any Python thread, blocking, without the GIL.
#   I4  Set once, never cleared: who wants to begin anew makes a new one, so no wait can miss a stop that was taken back.
#   I5  A child is set when it is set itself or its parent is. Both park on the parent's event count, so one wait hears both.
from libc.stdint cimport int32_t, int64_t, uint32_t
from queuecore._core.platform cimport Atomic, EventCount, Fault, Runner, StopFlag, kAcquire, kRelaxed, kRelease, order

cdef enum:
    STEP_WORKED = 0  # there may be more
    STEP_IDLE = 1    # nothing to do now; call again after a notify of `work`
    STEP_DONE = 2    # never again


# Labels of edges, as in ring.pxd.
cdef enum:
    F1 = 60
    F2 = 61
    F3 = 62
    F4 = 63


cdef inline bint stop_requested(StopFlag* s) noexcept nogil:
    return s.state.load(order(F3, kAcquire)) != 0  # F3 acquire: pairs with F1; what came before the stop is seen after it


cdef inline bint stop_set(StopFlag* s, const Fault* fault) noexcept nogil:
    # True for the caller that set it; everybody else's fault comes too late. fault NULL: a clean stop.
    cdef uint32_t expected = 0
    # F1 release: pairs with F3. Relaxed on failure: somebody else was first, nothing is read.
    if not s.state.compare_exchange_strong(expected, 1, order(F1, kRelease), kRelaxed):
        return False
    if fault != NULL:
        s.first = fault[0]
    s.state.store(2, order(F2, kRelease))  # F2 release: pairs with F4; publishes `first`
    return True


cdef inline const Fault* stop_fault(StopFlag* s) noexcept nogil:
    # The fault that stopped it, or NULL (running, being set, or a clean stop).
    if s.state.load(order(F4, kAcquire)) != 2 or s.first.code == 0:  # F4 acquire: pairs with F2
        return NULL
    return &s.first


# Starts up to `threads` workers named name-0, name-1, ... Returns 0, or an errno with *started workers running; the caller then
# stops the runner. `hold` is called once for each worker before it starts (it takes a reference on the context).
cdef int runner_start(Runner* r, int32_t threads, const char* name, void (*hold)(void*) noexcept nogil,
                      int32_t* started) noexcept nogil
# Asks for the end; never waits.
cdef void runner_stop(Runner* r, const Fault* fault) noexcept nogil
# Waits until no worker runs, the absolute deadline passes (< 0: none) or a signal arrives. True: none runs.
cdef bint runner_join(Runner* r, int64_t deadline_ns) noexcept nogil
# Once the interpreter is exiting, a Python thread other than the main one stays here for good, without the GIL: what its program would
# do with an error now is print a traceback into somebody's exit.
cdef int wait_out_exit() except -1
# Whether the interpreter is exiting: native loops on Python's threads end then.
cdef bint exiting() noexcept nogil


cdef class StopEvent:
    cdef EventCount* changed  # the parent's, if there is one
    cdef Atomic[int64_t] at   # monotonic nanosecond of the stop; 0: not stopped
    cdef readonly StopEvent parent

    # The monotonic nanosecond of the stop, its own or else the parent's; 0: not stopped.
    cdef int64_t stopped_ns(self) noexcept nogil
    # Until it is set, the absolute deadline passes (< 0: none) or a signal arrives. True: it is set.
    cdef bint sleep(self, int64_t deadline_ns) noexcept nogil
