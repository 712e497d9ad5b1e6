"""Times: how long Python's threads wait while they work for a program, a runner or a dataset's node."""
cimport cython
from cpython.ref cimport PyObject
from libc.stdint cimport int32_t, int64_t
from queuecore._core.atoms.platform cimport kRelaxed, layout_hash, monotonic_ns
from queuecore._core.atoms.process cimport check_layout

check_layout(layout_hash())

cdef extern from *:
    """
    // The times that this thread has entered last, an owned reference; their waits; and how many of its waits are
    // within each other.
    // Static: the loader would take other memory at a thread's first use, and end the process if there is none.
    #define QC_STATIC_TLS __attribute__((tls_model("initial-exec")))
    static thread_local PyObject* qc_times QC_STATIC_TLS = nullptr;
    static thread_local queuecore::Waits* qc_waits QC_STATIC_TLS = nullptr;
    static thread_local int32_t qc_depth QC_STATIC_TLS = 0;
    static int32_t qc_deeper(int32_t by) { return qc_depth += by; }
    static void qc_set_times(PyObject* times, queuecore::Waits* waits) {
      PyObject* before = qc_times;
      Py_XINCREF(times);
      qc_times = times;
      qc_waits = waits;
      Py_XDECREF(before);
    }
    """
    PyObject* qc_times
    Waits* qc_waits
    int32_t qc_deeper(int32_t by) nogil
    void qc_set_times(PyObject* times, Waits* waits)


# Relaxed, all that follows: only the thread itself writes, and who reads needs no other memory by it.

cdef void begin_wait(int32_t on) noexcept nogil:
    cdef Waits* w = qc_waits
    cdef int64_t now
    if w == NULL:
        return
    if qc_deeper(1) > 1:
        return
    now = monotonic_ns()
    while w != NULL:
        w.on = on
        w.ns[on].store(w.ns[on].load(kRelaxed) - now, kRelaxed)
        w = w.outer


cdef void end_wait() noexcept nogil:
    cdef Waits* w = qc_waits
    cdef int64_t now
    if w == NULL:
        return
    if qc_deeper(-1) > 0:
        return
    now = monotonic_ns()
    while w != NULL:
        w.ns[w.on].store(w.ns[w.on].load(kRelaxed) + now, kRelaxed)
        w = w.outer


@cython.final
cdef class ThreadTimes:
    """The times of one thread that works for somebody."""

    @staticmethod
    def begin_wait(bint output):
        """Note that the calling thread waits: for room, or else for input.

        Waits within that count as this wait.
        """
        begin_wait(ON_OUTPUT if output else ON_INPUT)

    @staticmethod
    def end_wait():
        """Note that the calling thread goes on."""
        end_wait()

    cdef void add_to(self, int64_t* into) noexcept:
        into[1] += spans_now(&self.waits.ns[ON_INPUT], monotonic_ns)
        into[2] += spans_now(&self.waits.ns[ON_OUTPUT], monotonic_ns)
        into[0] += monotonic_ns() - self.begun


@cython.final
cdef class WorkTimes:
    """The times of all threads that do one work. Under the GIL."""

    def __cinit__(self):
        self.running = []

    cpdef ThreadTimes enter(self):
        """Let the calling thread's time count from now on; returns what `leave` needs."""
        cdef ThreadTimes times = ThreadTimes.__new__(ThreadTimes)
        times.outer = <ThreadTimes>qc_times if qc_times != NULL else None
        times.waits.outer = qc_waits
        self.running.append(times)
        self.most = max(self.most, len(self.running))
        times.begun = monotonic_ns()
        qc_set_times(<PyObject*>times, &times.waits)
        return times

    cpdef leave(self, ThreadTimes times):
        """Let the calling thread's time no longer count; `times`: what `enter` returned."""
        cdef Py_ssize_t i
        if <PyObject*>times == qc_times:
            if times.outer is None:
                qc_set_times(NULL, NULL)
            else:
                qc_set_times(<PyObject*>times.outer, &times.outer.waits)
        for i in range(len(self.running)):
            if self.running[i] is times:
                times.add_to(self.over)
                del self.running[i]
                return

    def stats(self):
        """Counters, as a dict: the most threads at once, and what they did, added up, in ns."""
        cdef int64_t[3] totals
        cdef ThreadTimes times
        totals[0], totals[1], totals[2] = self.over[0], self.over[1], self.over[2]
        for times in self.running:
            times.add_to(totals)
        return {
            "threads": self.most,
            "busy_ns": max(totals[0] - totals[1] - totals[2], 0),
            "blocked_input_ns": totals[1],
            "blocked_output_ns": totals[2],
        }
