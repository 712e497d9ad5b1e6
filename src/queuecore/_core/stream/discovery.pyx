"""Opening and measuring the files of a saved place. See discovery.pxd for the contract."""
from cpython.exc cimport PyErr_CheckSignals
from libc.stdint cimport int32_t, int64_t
from queuecore._core.atoms.memory cimport free
from queuecore._core.atoms.platform cimport (
    Atomic, Runner, alloc_lines, kAcqRel, kRelaxed, layout_hash, monotonic_ns)
from queuecore._core.atoms.process cimport check_layout, registry_remove
from queuecore._core.atoms.runtime cimport (
    STEP_DONE, STEP_WORKED, WAIT_SLICE_NS, runner_join, runner_start, runner_stop, stop_requested)
from queuecore._core.io.sources cimport FileTable, table_claim, table_discover, table_drop

check_layout(layout_hash())

cdef extern from *:
    """
    namespace queuecore {
    // What the threads of a discovery share; the last of them, or the caller, frees it.
    struct Discovery {
      Atomic<int32_t> refs;
      Atomic<int64_t> begun;     // files that somebody opens, or has opened
      int64_t files;
      struct FileTable* table;
      Runner runner;
    };
    }  // namespace queuecore
    """
    cppclass Discovery "queuecore::Discovery":
        Atomic[int32_t] refs
        Atomic[int64_t] begun
        int64_t files
        FileTable* table
        Runner runner


cdef int _discover(void* context, int32_t worker) noexcept nogil:
    cdef Discovery* d = <Discovery*>context
    # relaxed: only the number matters
    if stop_requested(&d.runner.stop) or d.begun.fetch_add(1, kRelaxed) >= d.files:
        return STEP_DONE
    table_discover(d.table, table_claim(d.table, d.files))
    return STEP_WORKED


cdef void _hold(void* context) noexcept nogil:
    (<Discovery*>context).refs.fetch_add(1, kRelaxed)  # relaxed: the caller holds a reference


cdef void _drop(void* context) noexcept nogil:
    cdef Discovery* d = <Discovery*>context
    # acq_rel: release, this holder is done; acquire, the last one frees what all others wrote
    if d.refs.fetch_sub(1, kAcqRel) == 1:
        registry_remove(&d.runner)
        table_drop(d.table)
        free(d)


cdef int discover_files(FileTable* t, int64_t n) except -1:
    cdef Discovery* d
    cdef int32_t started = 0
    cdef bint over = n == 0
    if over:
        return 0
    d = <Discovery*>alloc_lines(sizeof(Discovery))
    if d == NULL:
        raise MemoryError
    d.refs.store(1, kRelaxed)  # relaxed: nobody else knows of it yet
    t.refs.fetch_add(1, kRelaxed)  # relaxed: the caller holds a reference
    d.table = t
    d.files = n
    d.runner.step = _discover
    d.runner.release = _drop
    d.runner.context = d
    try:
        with nogil:
            # Those that could not be started are no loss; without any, this thread does the work.
            runner_start(&d.runner, <int32_t>min(n, <int64_t>DISCOVERERS), "qc-open", _hold, &started)
            while started == 0 and _discover(d, 0) == STEP_WORKED:
                pass
        while not over:
            with nogil:
                over = runner_join(&d.runner, monotonic_ns() + WAIT_SLICE_NS)
            PyErr_CheckSignals()
    finally:
        with nogil:
            runner_stop(&d.runner, NULL)
            _drop(d)
    return 0
