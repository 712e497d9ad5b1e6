"""Looking at files before a stream needs them. See discovery.pxd for the contract."""
from cpython.exc cimport PyErr_CheckSignals
from libc.stdint cimport int32_t, int64_t
from queuecore._core.atoms.memory cimport free, malloc
from queuecore._core.atoms.platform cimport (
    Atomic, FileStat, Runner, alloc_lines, is_regular, kAcqRel, kRelaxed, layout_hash, monotonic_ns, size_product,
    syscalls)
from queuecore._core.atoms.process cimport check_layout, registry_remove
from queuecore._core.atoms.runtime cimport (
    STEP_DONE, STEP_WORKED, WAIT_SLICE_NS, runner_join, runner_start, runner_stop, stop_requested)
from queuecore._core.io.remote cimport is_url
from queuecore._core.io.names cimport FileList, Names, name_of, names_drop
from queuecore._core.io.sources cimport FileTable, table_claim, table_discover, table_drop

check_layout(layout_hash())

cdef extern from *:
    """
    namespace queuecore {
    // What the threads of a discovery share; the last of them, or the caller, frees it.
    struct Discovery {
      Atomic<int32_t> refs;
      Atomic<int64_t> begun;     // files that somebody looks at, or has looked at
      int64_t first, files;      // which one is the first, and how many
      struct FileTable* table;   // NULL: sizes alone are wanted
      struct Names* names;
      int64_t* sizes;            // -1: not looked at yet, or nothing that can be measured
      Runner runner;
    };
    }  // namespace queuecore
    """
    cppclass Discovery "queuecore::Discovery":
        Atomic[int32_t] refs
        Atomic[int64_t] begun
        int64_t first
        int64_t files
        FileTable* table
        Names* names
        int64_t* sizes
        Runner runner


cdef int _look(void* context, int32_t worker) noexcept nogil:
    cdef Discovery* d = <Discovery*>context
    cdef FileStat st
    cdef const char* name
    # relaxed: only the number matters
    cdef int64_t f = -1 if stop_requested(&d.runner.stop) else d.begun.fetch_add(1, kRelaxed)
    if not 0 <= f < d.files:
        return STEP_DONE
    if d.table != NULL:
        table_discover(d.table, table_claim(d.table, d.files))
        return STEP_WORKED
    name = name_of(d.names, d.first + f)
    if not is_url(name) and syscalls().stat(name, &st) == 0 and is_regular(st.mode):
        d.sizes[f] = st.size
    return STEP_WORKED


cdef void _hold(void* context) noexcept nogil:
    (<Discovery*>context).refs.fetch_add(1, kRelaxed)  # relaxed: the caller holds a reference


cdef void _drop(void* context) noexcept nogil:
    cdef Discovery* d = <Discovery*>context
    # acq_rel: release, this holder is done; acquire, the last one frees what all others wrote
    if d.refs.fetch_sub(1, kAcqRel) == 1:
        registry_remove(&d.runner)
        table_drop(d.table)
        names_drop(d.names)
        free(d.sizes)
        free(d)


cdef Discovery* _new(int64_t files) except NULL:
    cdef Discovery* d = <Discovery*>alloc_lines(sizeof(Discovery))
    if d == NULL:
        raise MemoryError
    d.refs.store(1, kRelaxed)  # relaxed: nobody else knows of it yet
    d.files = files
    d.runner.step = _look
    d.runner.release = _drop
    d.runner.context = d
    return d


cdef int _run(Discovery* d, int64_t threads) except -1:
    # Waits without the GIL and in slices, so that signals are noticed.
    cdef int32_t started = 0
    cdef bint is_over = False
    try:
        with nogil:
            # Threads that could not be started are no loss; without any, this thread does the work.
            runner_start(&d.runner, <int32_t>threads, "qc-open", _hold, &started)
            while started == 0 and _look(d, 0) == STEP_WORKED:
                pass
        while not is_over:
            with nogil:
                is_over = runner_join(&d.runner, monotonic_ns() + WAIT_SLICE_NS)
            PyErr_CheckSignals()
    finally:
        with nogil:
            runner_stop(&d.runner, NULL)
    return 0


cdef int discover_files(FileTable* t, int64_t n) except -1:
    cdef Discovery* d
    if n == 0:
        return 0
    d = _new(n)
    t.refs.fetch_add(1, kRelaxed)  # relaxed: the caller holds a reference
    d.table = t
    try:
        _run(d, min(n, <int64_t>DISCOVERERS))
    finally:
        with nogil:
            _drop(d)
    return 0


def file_sizes(FileList files, int64_t first, int64_t count):
    """Return the sizes of some files of a list, by one status request for each.

    Native threads ask, one for each 32 files and 64 at most, and the caller waits without the GIL; Ctrl-C ends the
    wait.

    Parameters
    ----------
    first, count : int
        The first file, and how many: at least one, and all are in the list.

    Returns
    -------
    list of int
        In bytes; -1 for a file that isn't there or has no size, and for a URL.
    """
    cdef Discovery* d = _new(count)
    cdef int64_t f
    d.first = first
    try:
        d.sizes = <int64_t*>malloc(size_product(<size_t>count, sizeof(int64_t)))
        if d.sizes == NULL:
            raise MemoryError
        for f in range(count):
            d.sizes[f] = -1
        files.names.refs.fetch_add(1, kRelaxed)  # relaxed: the list holds a reference
        d.names = files.names
        _run(d, min(1 + count // 32, <int64_t>DISCOVERERS))
        return [d.sizes[f] for f in range(count)]
    finally:
        with nogil:
            _drop(d)
