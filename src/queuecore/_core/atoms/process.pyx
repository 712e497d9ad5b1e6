"""State of the native core that exists once per process."""
from libc.stddef cimport size_t
from libc.stdint cimport int32_t, uint64_t
from queuecore._core.atoms.platform cimport (
    Atomic, Runner, Syscalls, ThreadMain, Turn, disown_pages, kAcquire, kRelaxed, kRelease, layout_hash, map_pages,
    membarrier_register, monotonic_ns, syscalls, thread_start, unmap_pages)
from queuecore._core.atoms.parking cimport turn_give, turn_take, turn_try

cdef extern from "pthread.h" nogil:
    int pthread_atfork(void (*prepare)() noexcept, void (*parent)() noexcept, void (*child)() noexcept)

cdef enum:
    KEPT_MOST = 32
    KEPT_BYTES = 64 << 20

cdef struct KeptBuffer:
    void* p
    size_t nbytes

cdef bint _light = membarrier_register()
cdef Atomic[uint64_t] _generation
cdef Atomic[int32_t] _threads
cdef Turn _registry_turn
cdef Runner* _registry = NULL
cdef Turn _kept_turn
cdef KeptBuffer[KEPT_MOST] _kept  # the oldest first
cdef int _kept_count = 0
cdef size_t _kept_bytes = 0


cdef int same_layout(uint64_t hash) except -1:
    if hash != layout_hash():
        raise ImportError(
            "queuecore's extension modules were built from different headers; rebuild all of them: "
            "python setup.py build_ext --inplace --force")
    return 0


cdef const Syscalls* process_syscalls() noexcept nogil:
    return syscalls()


cdef bint light_notify() noexcept nogil:
    return _light


cdef uint64_t fork_generation() noexcept nogil:
    return _generation.load(kRelaxed)  # relaxed: written only in a forked child, while it has one thread


cdef void _in_child() noexcept nogil:
    # The child has one thread. The thread that held the registry's turn doesn't exist here, and neither do the runners'
    # threads.
    global _light, _registry, _kept_count, _kept_bytes
    _light = membarrier_register()
    _generation.fetch_add(1, kRelaxed)  # relaxed: one thread
    _threads.store(0, kRelaxed)
    _registry_turn.word.store(0, kRelaxed)
    _registry = NULL
    # The list of buffers may be half changed. They stay mapped, as pages shared with the parent.
    _kept_turn.word.store(0, kRelaxed)
    _kept_count = 0
    _kept_bytes = 0


cdef int native_thread_start(ThreadMain main, void* arg, const char* name) noexcept nogil:
    cdef int rc
    _threads.fetch_add(1, kRelaxed)  # relaxed: the start of the thread orders it before the thread's own decrement
    rc = thread_start(main, arg, name)
    if rc != 0:
        _threads.fetch_sub(1, kRelaxed)
    return rc


cdef void native_thread_ended() noexcept nogil:
    _threads.fetch_sub(1, kRelease)  # A1 release: pairs with A2; the thread's work is over


cdef int32_t live_threads() noexcept nogil:
    return _threads.load(kAcquire)  # A2 acquire: pairs with A1


cdef void registry_add(Runner* r) noexcept nogil:
    global _registry
    turn_take(&_registry_turn)
    r.prev = NULL
    r.next = _registry
    if _registry != NULL:
        _registry.prev = r
    _registry = r
    r.registered = 1
    turn_give(&_registry_turn)


cdef void registry_remove(Runner* r) noexcept nogil:
    global _registry
    turn_take(&_registry_turn)
    if r.registered:
        if r.prev != NULL:
            r.prev.next = r.next
        else:
            _registry = r.next
        if r.next != NULL:
            r.next.prev = r.prev
        r.registered = 0
    turn_give(&_registry_turn)


cdef void registry_visit(void (*visit)(Runner*) noexcept nogil) noexcept nogil:
    cdef Runner* r
    turn_take(&_registry_turn)
    r = _registry
    while r != NULL:
        visit(r)
        r = r.next
    turn_give(&_registry_turn)


cdef KeptBuffer _kept_remove(int i) noexcept nogil:
    global _kept_count, _kept_bytes
    cdef KeptBuffer buffer = _kept[i]
    _kept_count -= 1
    _kept_bytes -= buffer.nbytes
    while i < _kept_count:
        _kept[i] = _kept[i + 1]
        i += 1
    return buffer


cdef size_t _class_bytes(size_t nbytes) noexcept nogil:
    # The size that a buffer of nbytes bytes is mapped with.
    cdef size_t step = 4096
    while step << 4 <= nbytes and step < <size_t>1 << 59:
        step <<= 1
    return nbytes if nbytes > ~<size_t>0 - step else (nbytes + step - 1) // step * step


cdef bint _unmap_kept() noexcept nogil:
    # Unmaps all that is kept. False: there was nothing.
    cdef KeptBuffer[KEPT_MOST] old
    cdef int i, n = 0
    turn_take(&_kept_turn)
    while _kept_count > 0:
        old[n] = _kept_remove(_kept_count - 1)
        n += 1
    turn_give(&_kept_turn)
    for i in range(n):
        unmap_pages(old[i].p, old[i].nbytes)
    return n > 0


cdef void* buffer_take(size_t nbytes) noexcept nogil:
    cdef void* p = NULL
    cdef int i
    nbytes = _class_bytes(nbytes)
    if turn_try(&_kept_turn):  # otherwise another thread uses the list, and waiting for it isn't worth it
        for i in range(_kept_count - 1, -1, -1):
            if _kept[i].nbytes == nbytes:
                p = _kept_remove(i).p
                break
        turn_give(&_kept_turn)
    if p == NULL:
        p = map_pages(nbytes)
    if p == NULL and _unmap_kept():  # kept pages count where a process may have so much address space (RLIMIT_AS)
        p = map_pages(nbytes)
    return p


cdef void buffer_give(void* p, size_t nbytes) noexcept nogil:
    global _kept_count, _kept_bytes
    cdef KeptBuffer[KEPT_MOST] old
    cdef int i, n = 0
    if p == NULL:
        return
    nbytes = _class_bytes(nbytes)
    if nbytes > KEPT_BYTES:
        unmap_pages(p, nbytes)
        return
    disown_pages(p, nbytes)
    if not turn_try(&_kept_turn):  # as in buffer_take
        unmap_pages(p, nbytes)
        return
    while _kept_count == KEPT_MOST or _kept_bytes + nbytes > KEPT_BYTES:
        old[n] = _kept_remove(0)
        n += 1
    _kept[_kept_count].p = p
    _kept[_kept_count].nbytes = nbytes
    _kept_count += 1
    _kept_bytes += nbytes
    turn_give(&_kept_turn)
    for i in range(n):
        unmap_pages(old[i].p, old[i].nbytes)


def clock_ns():
    """Monotonic time in nanoseconds, by the clock that deadlines of the native core use."""
    return monotonic_ns()


def thread_count():
    """Number of native threads that queuecore runs now."""
    return live_threads()


if pthread_atfork(NULL, NULL, _in_child) != 0:
    raise MemoryError("cannot register the fork handler")
