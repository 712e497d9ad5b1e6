"""Rings of the request engine. See uring.pxd for the contract."""
from libc.errno cimport errno
from libc.stddef cimport size_t
from libc.stdint cimport int32_t, int64_t, uint32_t, uintptr_t
from libc.string cimport memcpy
from queuecore._core.atoms.platform cimport (
    Fault, Uring, kRingReads, kernel_wrote, layout_hash, ring_read, ring_unread, syscalls)
from queuecore._core.atoms.process cimport buffer_give, buffer_take, check_layout
from queuecore._core.atoms.runtime cimport STEP_IDLE, STEP_WORKED
from queuecore._core.io.engine cimport (
    Engine, Request, RingThread, engine_finish, engine_pass, engine_refuse, engine_take, engine_urge)
from queuecore._core.io.sources cimport head_of, table_lend, table_note_read, table_unpin

check_layout(layout_hash())

cdef enum:
    WAIT_NS = 1000000
    BLOCK_BYTES = 4096        # as in direct.pyx
    WINDOW_BYTES = 128 << 10


cdef inline int64_t _place(Engine* e, const Request* r) noexcept nogil:
    # Returns where in the file the bytes lie that are still to come.
    return head_of(e.table, r.file) + r.at + r.got


cdef bint _window(RingThread* thread, Request* r) noexcept nogil:
    # Sees to it that the request has a window. False: no memory.
    cdef int32_t i = 0
    if r.window >= 0:
        return True
    if thread.windows == NULL:
        thread.windows = <unsigned char*>buffer_take(kRingReads * WINDOW_BYTES)
        if thread.windows == NULL:
            return False
    while thread.used >> i & 1:  # there are as many as reads
        i += 1
    thread.used |= <uint32_t>1 << i
    r.window = i
    return True


cdef bint _read(Engine* e, RingThread* thread, Request* r) noexcept nogil:
    # Adds a read of bytes that are still to come. False: no memory.
    cdef unsigned char* to = r.to + r.got
    cdef int64_t position = _place(e, r), n = r.nbytes - r.got, skew = position % BLOCK_BYTES
    if r.direct and (r.window >= 0 or skew > 0 or n < BLOCK_BYTES or <uintptr_t>to % BLOCK_BYTES > 0):
        if not _window(thread, r):
            return False
        to = thread.windows + r.window * <int64_t>WINDOW_BYTES
        position -= skew
        n = min((skew + n + BLOCK_BYTES - 1) // BLOCK_BYTES * BLOCK_BYTES, <int64_t>WINDOW_BYTES)
    elif r.direct:
        n -= n % BLOCK_BYTES
    ring_read(&thread.ring, r.fd, to, <size_t>n, position, r)
    return True


cdef void _take(Engine* e, RingThread* thread, Request* r, int64_t n) noexcept nogil:
    # Notes that so many bytes have come.
    cdef unsigned char* window
    cdef int64_t skew
    if r.window < 0:
        kernel_wrote(r.to + r.got, n)
    else:
        window = thread.windows + r.window * <int64_t>WINDOW_BYTES
        skew = _place(e, r) % BLOCK_BYTES
        kernel_wrote(window, n)
        n = min(n - skew, r.nbytes - r.got)
        if n <= 0:
            return
        memcpy(r.to + r.got, window + skew, n)
    r.got += n


cdef void _give_back(Engine* e, RingThread* thread, Request* r) noexcept nogil:
    # Gives back what the request has had: its file and its window.
    cdef Fault fault
    if r.window >= 0:
        thread.used &= ~(<uint32_t>1 << r.window)
    if not table_unpin(e.table, r.file, r.rows if r.whole else 0, False, &fault):
        r.whole = False


cdef void _begin(Engine* e, RingThread* thread, Request* r) noexcept nogil:
    cdef Fault fault
    r.got = 0
    r.window = -1
    r.fd = table_lend(e.table, r.file, r.pass_, &r.direct, &fault)
    if r.fd >= 0 and not _read(e, thread, r):
        _give_back(e, thread, r)
        engine_pass(e, r)
    elif r.fd < 0 and fault.code == 0:
        engine_pass(e, r)
    elif r.fd < 0:
        engine_finish(e, &e.rings, r)


cdef void _end(Engine* e, RingThread* thread, Request* r, int32_t result) noexcept nogil:
    cdef int64_t got = r.got
    if result > 0:
        _take(e, thread, r, result)
    # A part has come: the rest is read in the same way.
    if got < r.got < r.nbytes and _read(e, thread, r):
        return
    r.whole = r.got == r.nbytes
    if r.whole:
        table_note_read(e.table, r.fd, head_of(e.table, r.file) + r.at, r.nbytes)
    _give_back(e, thread, r)
    engine_finish(e, &e.rings, r)


cdef void _reap(Engine* e, RingThread* thread) noexcept nogil:
    cdef void* r = NULL
    cdef int32_t result = 0
    while syscalls().ring_reap(&thread.ring, &r, &result):
        _end(e, thread, <Request*>r, result)


cdef void _give_up(Engine* e, RingThread* thread, int error) noexcept nogil:
    # The kernel refuses to go on: passes on what it hasn't taken, and waits for what it has.
    cdef Request* r
    engine_refuse(e, error)
    while True:
        r = <Request*>ring_unread(&thread.ring)
        while r != NULL:
            _give_back(e, thread, r)
            engine_pass(e, r)
            r = <Request*>ring_unread(&thread.ring)
        if thread.ring.held == 0:
            return
        syscalls().sleep(WAIT_NS)  # results come after any call
        _reap(e, thread)


cdef void _go_on(Engine* e, RingThread* thread, int64_t wait_ns) noexcept nogil:
    cdef int error = errno if syscalls().ring_enter(&thread.ring, wait_ns) != 0 else 0
    _reap(e, thread)
    if error != 0:
        _give_up(e, thread, error)


cdef int ring_step(Engine* e, int32_t number) noexcept nogil:
    cdef RingThread* thread = &e.own[number]
    cdef Request* r = engine_take(e, &e.rings, kRingReads - thread.ring.held)
    cdef Request* next
    cdef int error = 0
    if r == NULL and thread.ring.held == 0:
        return STEP_IDLE
    if thread.ring.rings == NULL and syscalls().ring_open(&thread.ring) != 0:
        error = errno
    while r != NULL:
        next = r.next
        if error == 0:
            _begin(e, thread, r)
        else:
            engine_pass(e, r)
        r = next
    if error != 0:
        engine_refuse(e, error)
    if thread.ring.held > 0:
        _go_on(e, thread, WAIT_NS)
    engine_urge(e, &e.pool)  # it may have waited for the room
    return STEP_WORKED


cdef void ring_leave(Engine* e, int32_t number) noexcept nogil:
    cdef RingThread* thread = &e.own[number]
    while thread.ring.held > 0:
        _go_on(e, thread, -1)
    if thread.ring.rings != NULL:
        syscalls().ring_close(&thread.ring)
    buffer_give(thread.windows, kRingReads * WINDOW_BYTES)


def refusal():
    """Return why the kernel lends no ring, as an errno, or 0: it does."""
    cdef Uring ring
    cdef int error = 0
    with nogil:
        if syscalls().ring_open(&ring) != 0:
            error = errno
        else:
            syscalls().ring_close(&ring)
    return error
