"""The native runner, the stop that Python's threads wait for, and the guards around a process's end."""
import atexit
import threading

cimport cython
from cpython.exc cimport PyErr_CheckSignals
from libc.errno cimport EINTR, ETIMEDOUT
from libc.math cimport isnan
from libc.stdint cimport int32_t, int64_t, uint32_t
from libc.stdio cimport snprintf
from libc.stdlib cimport free, malloc
from libc.string cimport memset
from queuecore._core.atoms cimport (
    check_layout, live_threads, native_thread_ended, native_thread_start, registry_add, registry_visit)
from queuecore._core.errors cimport CODE_INTERNAL, STAGE_RUNNER, WHAT_THROWN
from queuecore._core.parking cimport event_cancel, event_notify_all, event_prepare, event_wait
from queuecore._core.platform cimport (
    Atomic, EventCount, Fault, ReleaseFn, Runner, alloc_lines, cpu_pause, guarded_step, kAcquire, kRelaxed, kRelease, layout_hash,
    monotonic_ns, usable_cpus)

from queuecore import errors as _errors

check_layout(layout_hash())

cdef extern from "unistd.h" nogil:
    int pause()

cdef extern from "time.h" nogil:
    struct timespec:
        long tv_sec
        long tv_nsec
    int nanosleep(const timespec*, timespec*)

cdef enum:
    SPIN_ROUNDS = 48      # about as long as a futex wake across cores takes: longer spinning only burns the core
    SPIN_PAUSES = 16
    SLICE_NS = 50000000   # Python's main thread looks for signals this often

cdef struct Worker:
    Runner* runner
    int32_t index


cdef void _worker_main(void* arg) noexcept nogil:
    cdef Worker* w = <Worker*>arg
    cdef Runner* r = w.runner
    cdef int32_t index = w.index
    cdef int rc, i, _j
    cdef uint32_t epoch
    cdef Fault thrown
    cdef ReleaseFn release = r.release
    cdef void* context = r.context
    free(w)
    while not stop_requested(&r.stop):
        rc = guarded_step(r.step, context, index)
        if rc == STEP_WORKED:
            continue
        i = 0
        while rc == STEP_IDLE and i < r.spin and not stop_requested(&r.stop):  # ends with work, a stop, or after r.spin rounds
            for _j in range(SPIN_PAUSES):
                cpu_pause()
            rc = guarded_step(r.step, context, index)
            i += 1
        if rc == STEP_IDLE:
            epoch = event_prepare(&r.work)
            # Looked at again after prepare: a notifier that came before it was not going to wake this thread.
            if stop_requested(&r.stop):
                event_cancel(&r.work, epoch)
                break
            rc = guarded_step(r.step, context, index)
            if rc == STEP_IDLE:
                event_wait(&r.work, epoch, -1)
            else:
                event_cancel(&r.work, epoch)
        if rc == STEP_DONE:
            break
        if rc < 0:
            memset(&thrown, 0, sizeof(Fault))
            thrown.code = CODE_INTERNAL
            thrown.what = WHAT_THROWN
            thrown.stage = STAGE_RUNNER
            thrown.file = thrown.offset = thrown.record = -1
            runner_stop(r, &thrown)
            break
    # W1 release: pairs with W2; the joiner sees all that this worker wrote.
    r.live.fetch_sub(1, kRelease)
    event_notify_all(&r.quiet)
    release(context)  # may free the runner: nothing of it is touched after this
    native_thread_ended()


cdef int runner_start(Runner* r, int32_t threads, const char* name, void (*hold)(void*) noexcept nogil,
                      int32_t* started) noexcept nogil:
    cdef int32_t i
    cdef int rc
    cdef Worker* w
    cdef char full[16]
    started[0] = 0
    # No spinning when the threads alone, with their consumer, outnumber the cores: the core is then somebody else's.
    r.spin = SPIN_ROUNDS if live_threads() + threads + 1 <= usable_cpus() else 0
    registry_add(r)
    for i in range(threads):
        w = <Worker*>malloc(sizeof(Worker))
        if w == NULL:
            return 12  # ENOMEM
        w.runner = r
        w.index = i
        snprintf(full, 16, "%s-%d", name, <int>i)
        hold(r.context)
        r.live.fetch_add(1, kRelaxed)  # relaxed: ordered by the start of the thread
        rc = native_thread_start(_worker_main, w, full)
        if rc != 0:
            r.live.fetch_sub(1, kRelaxed)
            r.release(r.context)
            free(w)
            return rc
        started[0] += 1
    return 0


cdef void runner_stop(Runner* r, const Fault* fault) noexcept nogil:
    stop_set(&r.stop, fault)
    event_notify_all(&r.work)


cdef bint runner_join(Runner* r, int64_t deadline_ns) noexcept nogil:
    cdef uint32_t epoch
    cdef int rc
    while r.live.load(kAcquire) != 0:  # W2 acquire: pairs with W1
        epoch = event_prepare(&r.quiet)
        if r.live.load(kAcquire) == 0:
            event_cancel(&r.quiet, epoch)
            return True
        rc = event_wait(&r.quiet, epoch, deadline_ns)
        if rc != 0 and rc != 11:  # EAGAIN: the epoch moved, look again
            return r.live.load(kAcquire) == 0
    return True


@cython.final
@cython.no_gc  # it refers to its parent only, which is older: no cycle
cdef class StopEvent:
    """A stop that is requested once, by any thread, and heard by all: `StopEvent(parent)` is also set when its parent is."""

    def __cinit__(self, StopEvent parent=None):
        self.at.store(0, kRelaxed)  # relaxed: nobody else knows this object yet
        self.parent = parent
        self.changed = parent.changed if parent is not None else <EventCount*>alloc_lines(sizeof(EventCount))
        if self.changed == NULL:
            raise MemoryError

    def __dealloc__(self):
        # Who waits holds a reference, so nobody does.
        if self.parent is None:
            free(self.changed)

    cdef int64_t stopped_ns(self) noexcept nogil:
        cdef int64_t at = self.at.load(kAcquire)  # E2 acquire: pairs with E1; what came before the stop is seen after it
        if at == 0 and self.parent is not None:
            return self.parent.stopped_ns()
        return at

    cdef bint sleep(self, int64_t deadline_ns) noexcept nogil:
        cdef uint32_t epoch
        cdef int rc
        while self.stopped_ns() == 0:
            epoch = event_prepare(self.changed)
            if self.stopped_ns() != 0:
                event_cancel(self.changed, epoch)
                return True
            rc = event_wait(self.changed, epoch, deadline_ns)
            if rc == ETIMEDOUT or rc == EINTR:
                return self.stopped_ns() != 0
        return True

    def set(self):
        """Request the stop. Returns whether this call is the one that did."""
        cdef int64_t expected = 0
        # E1 release: pairs with E2. Relaxed on failure: somebody else was first, nothing is read.
        # Linearizes here.
        if not self.at.compare_exchange_strong(expected, monotonic_ns(), kRelease, kRelaxed):
            return False
        event_notify_all(self.changed)  # children included: who is not concerned looks, and sleeps on
        return True

    def is_set(self):
        """Whether a stop was requested, of this one or of its parent."""
        return self.stopped_ns() != 0

    def set_at(self):
        """When that was, by `time.monotonic_ns`, or None."""
        return self.stopped_ns() or None

    def wait(self, timeout=None):
        """Wait for the stop, at most so many seconds. Returns whether it is set."""
        cdef int64_t deadline = -1, until
        cdef double seconds
        cdef bint stopped, main
        if timeout is not None:
            seconds = timeout
            if isnan(seconds):
                raise _errors.InvalidArgumentError("timeout must be a number of seconds or None, not nan")
            if seconds <= 0:
                return self.stopped_ns() != 0
            if seconds < 4e9:  # more than a century otherwise: that is without a limit
                deadline = monotonic_ns() + <int64_t>(seconds * 1e9)
        # Signals belong to Python's main thread; the others needn't be woken for them.
        main = threading.get_ident() == threading.main_thread().ident
        while True:
            until = deadline
            if main and self.stopped_ns() == 0:
                until = monotonic_ns() + SLICE_NS
                if deadline >= 0 and until > deadline:
                    until = deadline
            with nogil:
                stopped = self.sleep(until)
            wait_out_exit()
            if main:
                PyErr_CheckSignals()
            if stopped or (deadline >= 0 and monotonic_ns() >= deadline):
                return self.stopped_ns() != 0


cdef void _stop_one(Runner* r) noexcept nogil:
    runner_stop(r, NULL)


cdef Atomic[uint32_t] _exiting


cdef bint exiting() noexcept nogil:
    return _exiting.load(kRelaxed) != 0  # relaxed: the bit alone matters


cdef int wait_out_exit() except -1:
    if not exiting() or threading.current_thread() is threading.main_thread():
        return 0
    with nogil:
        while True:  # ends with the process
            pause()


def _shutdown():
    # At interpreter exit: ends every wait, then gives the threads a second. One that is stuck in a system call is left behind;
    # it holds native memory only, and the process's end takes it.
    cdef int64_t deadline = monotonic_ns() + 1000000000
    _exiting.store(1, kRelaxed)  # relaxed: as above
    with nogil:
        registry_visit(_stop_one)
        while live_threads() > 0 and monotonic_ns() < deadline:
            _nap()
            registry_visit(_stop_one)  # Python's threads still run, and may have started others meanwhile


cdef void _nap() noexcept nogil:
    cdef timespec t
    t.tv_sec = 0
    t.tv_nsec = 200000
    nanosleep(&t, NULL)


atexit.register(_shutdown)
