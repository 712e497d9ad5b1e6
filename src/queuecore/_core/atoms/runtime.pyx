"""The native runner, the stop that Python's threads wait for, and the guards around a process's end."""
import atexit
import gc
import importlib
import os
import sys
import threading

cimport cython
from cpython.exc cimport PyErr_CheckSignals
from libc.errno cimport EINTR, ETIMEDOUT
from libc.math cimport isnan
from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t
from libc.stdio cimport snprintf
from queuecore._core.atoms.memory cimport free, malloc
from queuecore._core.atoms.process cimport (
    check_layout, fork_generation, live_threads, native_thread_ended, native_thread_start, registry_add,
    registry_visit)
from queuecore._core.atoms.ending cimport NOTES, PHASES, Ending, ending_decide, ending_has, ending_mark, ending_note
from queuecore._core.atoms.errors cimport (
    CODE_CANCELLED, CODE_INTERNAL, CODE_INVALID_ARGUMENT, STAGE_RUNNER, WHAT_THROWN, fault_begin, raise_error)
from queuecore._core.atoms.parking cimport event_cancel, event_notify_all, event_prepare, event_wait
from queuecore._core.atoms.platform cimport (
    Atomic, EventCount, Fault, ReleaseFn, Runner, alloc_lines, cpu_pause, guarded_step, kAcquire, kRelaxed, kRelease,
    layout_hash, monotonic_ns, size_product, syscalls, usable_cpus)

from queuecore import _machine

check_layout(layout_hash())

cdef int _quota = _machine.quota_cpus()

cdef extern from "pythread.h" nogil:
    unsigned long PyThread_get_thread_ident()

cdef extern from "unistd.h" nogil:
    int pause()

cdef extern from * nogil:
    """
    #include <sys/syscall.h>
    #include <unistd.h>
    namespace {
    // A thread that waits for another of ours is in this call.
    constexpr int kFutexCall = SYS_futex;
    int thread_number() noexcept { return int(::gettid()); }
    thread_local queuecore::StopFlag* threads_stop = nullptr;
    }
    """
    StopFlag* threads_stop
    int kFutexCall
    int thread_number() noexcept

cdef object _futex = str(kFutexCall)

cdef enum:
    START_STARTING = 0
    START_RUNS = 1        # the thread runs its function
    START_ENDED = 2       # the thread ended without running its function

cdef enum:
    SPIN_ROUNDS = 48      # about as long as a futex wake across cores takes: longer spinning only burns the core
    SPIN_PAUSES = 16
    SLICE_NS = 50000000   # Python's main thread looks for signals this often
    LOOK_NS = 20000000
    EXIT_NS = 1000000000  # how long the interpreter's end waits for native threads to end
    EXIT_START_NS = 10000000000  # and for Python's to begin

    NUMBERED = 128        # kNumbered of layout.hpp

cdef struct Worker:
    Runner* runner
    EventCount* work
    int32_t index, spin


cdef void _set_stop(StopFlag* stop) noexcept nogil:
    global threads_stop
    threads_stop = stop


cdef StopFlag* this_stop() noexcept nogil:
    return threads_stop


cdef void _worker_main(void* arg) noexcept nogil:
    cdef Worker* w = <Worker*>arg
    cdef Runner* r = w.runner
    cdef EventCount* work = w.work
    cdef int32_t index = w.index, spin = w.spin
    cdef int rc, i, _j
    cdef uint32_t epoch
    cdef Fault thrown
    cdef ReleaseFn release = r.release
    cdef void* context = r.context
    free(w)
    _set_stop(&r.stop)
    if index < NUMBERED:
        r.numbers[index].store(thread_number(), kRelaxed)  # relaxed, here and below: only for messages
    while not stop_requested(&r.stop):
        rc = guarded_step(r.step, context, index)
        i = 0
        # ends with work, a stop, or after `spin` rounds
        while rc == STEP_IDLE and i < spin and not stop_requested(&r.stop):
            for _j in range(SPIN_PAUSES):
                cpu_pause()
            rc = guarded_step(r.step, context, index)
            i += 1
        if rc == STEP_IDLE:
            epoch = event_prepare(work)
            # Looks again after event_prepare: a notifier that came before it doesn't wake this thread.
            if stop_requested(&r.stop):
                event_cancel(work, epoch)
                break
            rc = guarded_step(r.step, context, index)
            if rc == STEP_IDLE:
                note_native()
                event_wait(work, epoch, -1)
            else:
                event_cancel(work, epoch)
        if rc == STEP_WORKED:
            waited()
        if rc == STEP_DONE:
            break
        if rc < 0:
            fault_begin(&thrown, CODE_INTERNAL, WHAT_THROWN, STAGE_RUNNER)
            runner_stop(r, &thrown)
            break
    waited()
    if r.leave != NULL:
        r.leave(context, index)
    if index < NUMBERED:
        r.numbers[index].store(0, kRelaxed)
    # W1 release: pairs with W2; the joiner sees all that this worker wrote.
    r.live.fetch_sub(1, kRelease)
    event_notify_all(&r.quiet)
    release(context)  # may free the runner, which is not touched after this
    native_thread_ended()


cdef int _add(Runner* r, EventCount* work, int32_t spin, int32_t first, int32_t count, const char* name,
              void (*hold)(void*) noexcept nogil, int32_t* started) noexcept nogil:
    cdef int32_t i
    cdef int rc
    cdef Worker* w
    cdef char full[16]
    started[0] = 0
    for i in range(first, first + count):
        w = <Worker*>malloc(sizeof(Worker))
        if w == NULL:
            return 12  # ENOMEM
        w.runner = r
        w.work = work
        w.index = i
        w.spin = spin
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


cdef int runner_start(Runner* r, int32_t threads, const char* name, void (*hold)(void*) noexcept nogil,
                      int32_t* started) noexcept nogil:
    # No spinning if the threads and one consumer outnumber the CPUs: another thread needs the core then.
    r.spin = SPIN_ROUNDS if live_threads() + threads + 1 <= min(usable_cpus(), _quota) else 0
    registry_add(r)
    return _add(r, &r.work, r.spin, 0, threads, name, hold, started)


cdef int32_t runner_more(Runner* r, EventCount* work, int32_t first, int32_t count, const char* name,
                         void (*hold)(void*) noexcept nogil) noexcept nogil:
    cdef int32_t started = 0
    _add(r, work, 0, first, count, name, hold, &started)
    return started


cdef void runner_stop(Runner* r, const Fault* fault) noexcept nogil:
    stop_set(&r.stop, fault)
    _look_again(r)


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


cdef int32_t runner_stuck(Runner* r) except -1:
    cdef int32_t i, number, count = 0
    for i in range(NUMBERED):
        number = r.numbers[i].load(kRelaxed)
        if number != 0 and _is_stuck(number):
            count += 1
    return count


def _is_stuck(number):
    # The system's own word: "running" also for a thread that gets no processor, otherwise the number of the call that
    # it is in, or -1 in a fault of a page.
    try:
        with open(f"/proc/self/task/{number}/syscall") as file:
            word = file.read().split(" ", 1)[0].strip()
    except FileNotFoundError:
        return False  # it has ended
    except OSError:
        return True   # nobody says
    return word not in ("running", _futex)


@cython.final
@cython.no_gc  # it refers to its parent only, which is older: no cycle
cdef class StopEvent:
    """A stop that any thread requests once, and that all threads notice.

    Parameters
    ----------
    parent : StopEvent, optional
        The stop is also set when its parent is set.
    """

    def __cinit__(self, StopEvent parent=None):
        self.at.store(0, kRelaxed)  # relaxed: nobody else knows this object yet
        self.parent = parent
        self.changed = parent.changed if parent is not None else <EventCount*>alloc_lines(sizeof(EventCount))
        if self.changed == NULL:
            raise MemoryError

    def __dealloc__(self):
        # A waiting thread holds a reference, so none waits now.
        if self.parent is None:
            free(self.changed)

    cdef int64_t stopped_ns(self) noexcept nogil:
        cdef int64_t at = stop_event_at(&self.at)
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
        """Request the stop. Return True if this call is the one that set it."""
        if not stop_event_set(&self.at, monotonic_ns()):
            return False
        # this wakes waits on children and on the parent, too: waits not concerned sleep on
        event_notify_all(self.changed)
        return True

    def is_set(self):
        """True if a stop of this event or of its parent was requested."""
        return self.stopped_ns() != 0

    def set_at(self):
        """Return the time of the request, by `time.monotonic_ns`, or None."""
        return self.stopped_ns() or None

    def wait(self, timeout=None):
        """Wait for the stop, at most `timeout` seconds. Return True if it is set."""
        cdef int64_t deadline = -1, until
        cdef double seconds
        cdef bint stopped, main
        if timeout is not None:
            seconds = timeout
            if isnan(seconds):
                raise_error(CODE_INVALID_ARGUMENT, "timeout must be a number of seconds or None, not nan")
            if seconds <= 0:
                return self.stopped_ns() != 0
            if seconds < 4e9:  # more than a century otherwise: that is without a limit
                deadline = monotonic_ns() + <int64_t>(seconds * 1e9)
        if deadline < 0:
            waited()
        # Signals belong to Python's main thread; the others needn't be woken for them, only for the end of the program.
        main = threading.get_ident() == threading.main_thread().ident
        while True:
            until = deadline
            if (main or deadline < 0) and self.stopped_ns() == 0:
                until = monotonic_ns() + (SLICE_NS if main or main_over() else LONG_SLICE_NS)
                if deadline >= 0 and until > deadline:
                    until = deadline
            with nogil:
                stopped = self.sleep(until)
            if stopped or deadline >= 0:
                waited()
                wait_out_exit()
            else:
                still_waiting()
            if main:
                PyErr_CheckSignals()
            if stopped or (deadline >= 0 and monotonic_ns() >= deadline):
                return self.stopped_ns() != 0


# How many starts are under way. Relaxed, everywhere: it is changed under the GIL, which orders it and `_exiting`. The
# exit hook reads it without the GIL: seen late, a change costs one more nap.
cdef Atomic[int32_t] _starting


@cython.final
cdef class SafeStart:
    """A start of one of Python's threads that can't hang: what it runs first, and the event that its starter waits for.

    Where memory ends in a new thread before it says that it runs, `threading.Thread.start` waits for ever. This one is
    told, whatever happens, and nothing on that way needs memory. It takes the place of the thread's `_started`,
    `_bootstrap` and `run`.

    The end of the interpreter waits for the thread to begin. CPython before 3.11.6 and 3.12.1 (its issue 108987) frees
    the state of a thread that has not begun, which then uses it. Only a thread that another daemon starts can be so
    late. Once the interpreter is exiting, a thread other than the main one that makes a start stays there for good.

    Parameters
    ----------
    bootstrap, run : callable
        What the thread would have run.
    broke : callable, optional
        Is called with the exception that ends `run`, in the new thread. Default: Python's own hook prints it.
    """
    cdef EventCount* changed
    cdef Atomic[int32_t] state
    cdef bint told, is_counted    # is_counted: in _starting
    cdef uint64_t generation      # of forks, when it was counted
    cdef object bootstrap, first, broke
    cdef readonly object error

    def __cinit__(self, bootstrap, run, broke=None):
        wait_out_exit()
        _starting.fetch_add(1, kRelaxed)  # before any other code of Python's runs, which might end the interpreter
        self.is_counted = True
        self.generation = fork_generation()
        self.bootstrap = bootstrap
        self.first = run
        self.broke = broke
        self.changed = <EventCount*>alloc_lines(sizeof(EventCount))
        if self.changed == NULL:
            raise MemoryError

    def __dealloc__(self):
        self.let_go()
        free(self.changed)

    cdef void _now(self, int32_t state) noexcept nogil:
        cdef int32_t expected = START_STARTING
        # Y1 release: pairs with Y2; what the thread did before. Relaxed on failure: nothing is read.
        if self.state.compare_exchange_strong(expected, state, kRelease, kRelaxed):
            event_notify_all(self.changed)

    cpdef void let_go(self) noexcept:
        """Keep the end of the interpreter waiting no longer: the thread has begun, or there will be none."""
        if self.is_counted and self.generation == fork_generation():
            _starting.fetch_sub(1, kRelaxed)
        self.is_counted = False

    def boot(self):
        """Run the thread's own bootstrap, in the new thread."""
        self.let_go()
        bootstrap, self.bootstrap = self.bootstrap, None
        try:
            bootstrap()
        except BaseException as error:
            if self.state.load(kRelaxed) != START_STARTING:  # relaxed: this thread's own
                raise
            self.error = error
        finally:
            self.first = self.broke = None
            self._now(START_ENDED)

    def run(self):
        """Say that the thread runs, and run it."""
        first, self.first = self.first, None
        broke, self.broke = self.broke, None
        self._now(START_RUNS)
        try:
            first()
        except BaseException as error:
            if broke is None:
                raise
            broke(error)

    def set(self):
        """Mark the thread as about to run, as `threading.Event.set` would."""
        self.told = True

    def is_set(self):
        """True if the thread has been started."""
        return self.told and not self.has_failed()

    def has_failed(self):
        """True if the thread ended before it ran."""
        return self.state.load(kAcquire) == START_ENDED  # Y2 acquire: pairs with Y1

    def wait(self, timeout=None):
        """Wait until the thread runs, or has ended. Signals wait as well: nobody could join a thread not yet begun."""
        cdef uint32_t epoch
        cdef int64_t until
        while self.state.load(kAcquire) == START_STARTING:  # Y2 acquire: pairs with Y1
            with nogil:
                epoch = event_prepare(self.changed)
                if self.state.load(kAcquire) != START_STARTING:  # Y2, as above
                    event_cancel(self.changed, epoch)
                else:
                    until = monotonic_ns() + SLICE_NS
                    event_wait(self.changed, epoch, until)
        return True

    def _at_fork_reinit(self):
        """Do nothing: there is no lock here."""


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


# The end of the program

cdef extern from "Python.h":
    ctypedef struct Interpreter "PyInterpreterState":
        pass
    ctypedef struct ThreadState "PyThreadState":
        unsigned long thread_id
    Interpreter* PyInterpreterState_Get()
    ThreadState* PyInterpreterState_ThreadHead(Interpreter*)
    ThreadState* PyThreadState_Next(ThreadState*)

cdef Ending _ending
cdef Atomic[uint32_t] _main_over
cdef int64_t _looked_ns = 0  # with the GIL


cdef bint main_over() noexcept nogil:
    # relaxed: only the bit matters, and a thread that has seen it once sees it ever after
    return _main_over.load(kRelaxed) != 0


cdef void note_slice() noexcept nogil:
    if main_over():
        ending_note(&_ending, PyThread_get_thread_ident(), False)


cdef void note_native() noexcept nogil:
    if main_over():
        ending_note(&_ending, PyThread_get_thread_ident(), True)


cdef void waited() noexcept nogil:
    if main_over():
        ending_mark(&_ending, PyThread_get_thread_ident())


cdef void _look_again(Runner* r) noexcept nogil:
    event_notify_all(&r.work)
    event_notify_all(&r.apart)
    event_notify_all(&r.rings)


cdef object _joined(object frame):
    # Returns the thread whose end the thread in this frame waits for without a limit of time, or None. Runs no Python
    # code.
    if frame.f_code.co_filename == threading.__file__ and frame.f_code.co_name in ("join", "_wait_for_tstate_lock"):
        known = frame.f_locals
        timeout = known.get("timeout")
        if (timeout is None or timeout == -1) and isinstance(known.get("self"), threading.Thread):
            return known["self"].__dict__.get("_ident")
    return None


cdef object _waiting(object main, bint ended):
    # Returns, for each Python thread, the thread that waits in queuecore: itself, or the one whose end it waits for.
    # None: a thread works, as far as can be seen. Nothing here lets another thread run.
    cdef ThreadState* state = PyInterpreterState_ThreadHead(PyInterpreterState_Get())
    cdef dict frames = sys._current_frames()
    cdef list idents = []
    cdef int steps
    while state != NULL:
        ident = state.thread_id  # 0: it is about to begin
        steps = 0
        while not ending_has(&_ending, ident):
            frame = frames.get(ident)
            steps += 1
            if frame is None or steps > len(frames):
                return None
            if (ident == main and ended and frame.f_code.co_filename == threading.__file__
                and frame.f_code.co_name == "_shutdown"):
                ident = None  # it waits for the threads that are no daemons
                break
            ident = _joined(frame)
            if ident is None or ident == main:
                return None
        if ident is not None:
            idents.append(ident)
        state = PyThreadState_Next(state)
    return idents


cdef int _decide() except -1:
    # One thread at a time checks whether all threads wait, and not every thread at the end of each slice.
    global _looked_ns
    cdef int64_t now = monotonic_ns()
    cdef uint64_t* threads
    cdef int32_t count = 0
    cdef bint collects
    if now - _looked_ns < LOOK_NS:
        return 0
    _looked_ns = now
    main = threading.main_thread()
    ident, ended = main.ident, not main.is_alive()
    # A finalizer would let another thread run, and the states seen would come from different moments.
    collects = gc.isenabled()
    gc.disable()
    try:
        idents = _waiting(ident, ended)
        if idents is None:
            return 0
        threads = <uint64_t*>malloc(size_product(len(idents) + 1, sizeof(uint64_t)))
        if threads == NULL:
            raise MemoryError
        for waiter in idents:
            threads[count] = waiter
            count += 1
        ending_decide(&_ending, threads, count, live_threads(), NOTES, PHASES)
        free(threads)
    finally:
        if collects:
            gc.enable()
    with nogil:
        registry_visit(_look_again)  # native threads sleep without a limit
    return 0


cdef int still_waiting() except -1:
    cdef bint over
    wait_out_exit()
    if not main_over():
        return 0
    over = ending_note(&_ending, PyThread_get_thread_ident(), False)
    if over and not threading.current_thread().daemon:
        waited()
        raise_error(CODE_CANCELLED,
            "the main thread has ended, and every thread that is left waits: what this one waited for would never "
            "have come")
    _decide()
    return 0


def slice_over():
    """Report, after a slice of a wait without end, that nothing has come.

    Returns
    -------
    float
        How long the next slice may be, in seconds.

    Raises
    ------
    CancelledError
        If nothing can come any more: the main thread has ended, and every thread that is left waits.
    """
    still_waiting()
    return (WAIT_SLICE_NS if main_over() else LONG_SLICE_NS) / 1e9


def wait_over():
    """Report that a wait that calls `slice_over` begins, or is over."""
    waited()


def _main_ends():
    _main_over.store(1, kRelaxed)  # relaxed: as above


def _in_child():
    # The child's main thread is the one that forked; a thread that held the turn, or waited, doesn't exist here.
    _main_over.store(0, kRelaxed)  # relaxed, all: one thread
    _starting.store(0, kRelaxed)
    _ending.turn.word.store(0, kRelaxed)
    _ending.count = _ending.natives = _ending.phase = 0


try:
    # Called when the main thread has come to its end, before threads that are no daemons are joined. The hook of
    # executors, which waits for their threads, is registered when their module is imported, and the last one is called
    # first: so that comes before.
    importlib.import_module("concurrent.futures.thread")
    threading._register_atexit(_main_ends)
except (AttributeError, RuntimeError):  # a Python without it; or one that ends already
    pass
os.register_at_fork(after_in_child=_in_child)


def _shutdown():
    # Called at interpreter exit: ends every wait, then gives the threads a second. A thread stuck in a system call is
    # left behind; it holds native memory only, which the process's end frees. One of Python's that has not yet begun
    # may not be left behind; it needs nothing but a processor.
    cdef int64_t now = monotonic_ns()
    cdef int64_t deadline = now + EXIT_NS
    cdef int64_t start_deadline = now + EXIT_START_NS
    _exiting.store(1, kRelaxed)  # relaxed: as above
    with nogil:
        registry_visit(_stop_one)
        while (live_threads() > 0 and now < deadline) or (_starting.load(kRelaxed) > 0 and now < start_deadline):
            _nap()
            now = monotonic_ns()
            registry_visit(_stop_one)  # Python's threads still run, and may have started others meanwhile


cdef void _nap() noexcept nogil:
    syscalls().sleep(200000)


atexit.register(_shutdown)
