"""Opening and measuring files before a stream needs them. See discovery.pxd for the contract."""
from cpython.exc cimport PyErr_CheckSignals
from libc.stdint cimport int32_t, int64_t
from queuecore._core.atoms.memory cimport free
from queuecore._core.atoms.platform cimport (
    Atomic, Runner, alloc_lines, kAcqRel, kRelaxed, layout_hash, monotonic_ns)
from queuecore._core.atoms.process cimport check_layout, registry_remove
from queuecore._core.atoms.runtime cimport (
    STEP_DONE, STEP_WORKED, WAIT_SLICE_NS, runner_join, runner_start, runner_stop, stop_requested)
from queuecore._core.atoms.errors cimport CODE_TRUNCATED
from queuecore._core.io.sources cimport (
    TAIL_ERROR, FileList, FileTable, table_claim, table_discover, table_drop, table_new)

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


cdef int discover_files(FileTable* t, int64_t n, int64_t threads) except -1:
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
            runner_start(&d.runner, <int32_t>min(n, threads), "qc-open", _hold, &started)
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


def first_cut(FileList files, int64_t record_bytes, int64_t header_bytes, int64_t footer_bytes, int64_t hop_bytes):
    """Return the first file that ends inside a record of fixed length, with its size; `None`: there is none.

    The first 64 files are looked at. Native threads open them, and the caller waits without the GIL. Files that can't
    be opened are passed over.

    Returns
    -------
    tuple of int or None
        The index of the file, and its size in bytes.
    """
    cdef FileTable* t = table_new(files.names, record_bytes, header_bytes, footer_bytes, hop_bytes, TAIL_ERROR, 0)
    cdef int64_t f, n = min(files.names.count, <int64_t>FIRST_FILES)
    if t == NULL:
        raise MemoryError
    try:
        discover_files(t, n, FIRST_DISCOVERERS)
        for f in range(n):
            if t.entries[f].code == CODE_TRUNCATED:
                return f, t.entries[f].size
    finally:
        with nogil:
            table_drop(t)
    return None
