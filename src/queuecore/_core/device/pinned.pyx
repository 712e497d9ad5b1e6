"""Page-locked memory of the host. See pinned.pxd."""
from libc.stddef cimport size_t
from queuecore._core.atoms.process cimport check_layout
from queuecore._core.device.driver cimport DeviceCore, Entered, cuda, enter, kCuHostRegisterPortable, leave, ours
from queuecore._core.atoms.parking cimport turn_give, turn_take
from queuecore._core.atoms.platform cimport Turn, layout_hash, map_pages, syscalls, unmap_pages

import atexit

check_layout(layout_hash())

cdef extern from "sys/mman.h" nogil:
    const int MADV_DONTFORK

cdef enum:
    IDLE_MOST = 32           # most blocks kept for the next caller that wants the same size
    IDLE_BYTES = 268435456

cdef struct PinnedBlock:
    DeviceCore* core         # in whose context it is page-locked
    void* p
    size_t nbytes

cdef Turn _idle_turn
# under the turn
cdef PinnedBlock[IDLE_MOST] _idle
cdef int _idle_count = 0
cdef size_t _idle_bytes = 0


cdef PinnedBlock _take_out(int i) noexcept nogil:
    global _idle_count, _idle_bytes
    cdef PinnedBlock block = _idle[i]
    _idle_count -= 1
    _idle_bytes -= block.nbytes
    while i < _idle_count:
        _idle[i] = _idle[i + 1]
        i += 1
    return block


cdef void _unlock(PinnedBlock block) noexcept nogil:
    cdef Entered e
    if not ours(block.core):  # a forked child never had these pages (I1): other memory lies there now
        return
    enter(block.core, &e)
    syscalls().unpin(cuda.host_unregister, block.p)
    leave(&e)
    unmap_pages(block.p, block.nbytes)


cdef void* pinned_take(DeviceCore* core, size_t nbytes, int* result) noexcept nogil:
    cdef void* p = NULL
    cdef int i
    cdef size_t position = 0
    cdef Entered e
    result[0] = 0
    turn_take(&_idle_turn)
    for i in range(_idle_count - 1, -1, -1):
        if _idle[i].core == core and _idle[i].nbytes == nbytes:
            p = _take_out(i).p
            break
    turn_give(&_idle_turn)
    if p != NULL:
        return p
    p = map_pages(nbytes)
    if p == NULL:
        return NULL
    # Before a page is touched, let alone locked: I1. Refused where the kernel has no room for one more range of memory.
    if syscalls().advise(p, nbytes, MADV_DONTFORK) != 0:
        unmap_pages(p, nbytes)
        return NULL
    # Without it the pages are as good: a kernel, or a container, that refuses is not asked twice, and its answer isn't
    # looked at.
    syscalls().prefer_node(p, nbytes, core.node)
    while position < nbytes:  # touched first: registering untouched pages takes longer
        (<unsigned char*>p)[position] = 0
        position += 4096
    result[0] = enter(core, &e)
    if result[0] == 0:
        result[0] = syscalls().pin(cuda.host_register, p, nbytes, kCuHostRegisterPortable)
        leave(&e)
    if result[0] == 0:
        return p
    unmap_pages(p, nbytes)
    return NULL


cdef void pinned_give(DeviceCore* core, void* p, size_t nbytes) noexcept nogil:
    global _idle_count, _idle_bytes
    cdef PinnedBlock[IDLE_MOST] old
    cdef PinnedBlock block
    cdef int i, n = 0
    if p == NULL:
        return
    block.core = core
    block.p = p
    block.nbytes = nbytes
    if nbytes > IDLE_BYTES or not ours(core):
        _unlock(block)
        return
    turn_take(&_idle_turn)
    while _idle_count == IDLE_MOST or _idle_bytes + nbytes > IDLE_BYTES:
        old[n] = _take_out(0)
        n += 1
    _idle[_idle_count] = block
    _idle_count += 1
    _idle_bytes += nbytes
    turn_give(&_idle_turn)
    for i in range(n):
        _unlock(old[i])


cdef void give_idle() noexcept nogil:
    cdef PinnedBlock block
    while True:
        turn_take(&_idle_turn)
        block.p = NULL
        if _idle_count > 0:
            block = _take_out(0)
        turn_give(&_idle_turn)
        if block.p == NULL:
            return
        _unlock(block)


def _shutdown():
    # Called before the driver ends. Memory in use is freed with the process.
    with nogil:
        give_idle()


atexit.register(_shutdown)
