"""Memory on a device. See memory.pxd."""
from libc.stdint cimport int32_t, int64_t
from queuecore._core.atoms.memory cimport calloc, free
from queuecore._core.atoms.process cimport check_layout
from queuecore._core.device.driver cimport (
    READERS_MOST, Device, DeviceCore, Entered, Failure, KeptRegion, Region, cuda, enter, failed, forget_driver,
    kCuEventDisableTiming, kCuOutOfMemory, leave, opened_devices, ours)
from queuecore._core.device.pinned cimport give_idle
from queuecore._core.atoms.parking cimport turn_give, turn_take
from queuecore._core.atoms.platform cimport layout_hash

check_layout(layout_hash())

cdef enum:
    KEPT_MOST = 256          # pieces


cdef void _events_destroy(Region* r) noexcept nogil:
    cdef int i
    for i in range(READERS_MOST):
        if r.consumed[i] != NULL:
            cuda.event_destroy(r.consumed[i])
        r.consumed[i] = NULL


cdef KeptRegion* _reuse(DeviceCore* core, int64_t nbytes) noexcept nogil:
    # Takes the memory kept first: its last readers are done soonest.
    cdef KeptRegion* predecessor = NULL
    cdef KeptRegion* node
    turn_take(core.kept.turn)
    node = core.kept.first
    while node != NULL and node.region.capacity != nbytes:
        predecessor = node
        node = node.next
    if node != NULL:
        if predecessor == NULL:
            core.kept.first = node.next
        else:
            predecessor.next = node.next
        if core.kept.last == node:
            core.kept.last = predecessor
        core.kept.count -= 1
        core.kept.nbytes -= nbytes
    turn_give(core.kept.turn)
    return node


cdef bint _read(const Region* r) noexcept nogil:
    # True if any stream may still read it, also if the driver can't tell.
    cdef int i
    for i in range(r.readers):
        if cuda.event_query(r.consumed[i]) != 0:
            return True
    return False


cdef int readers_end(const Region* r) noexcept nogil:
    cdef int i, rc = 0
    for i in range(r.readers):
        if rc == 0:
            rc = cuda.event_synchronize(r.consumed[i])
    return rc


cdef int after_readers(void* stream, const Region* r) noexcept nogil:
    cdef int i, rc = 0
    for i in range(r.readers):
        if rc == 0:
            rc = cuda.stream_wait(stream, r.consumed[i], 0)
    return rc


cdef void _region_free(Region* r) noexcept nogil:
    cuda.memory_free(r.memory)
    _events_destroy(r)


cdef void free_done(DeviceCore* core, int64_t limit) noexcept nogil:
    cdef KeptRegion* done = NULL
    cdef KeptRegion* predecessor = NULL
    cdef KeptRegion* first
    cdef KeptRegion* last
    cdef KeptRegion* node
    cdef KeptRegion* next
    cdef int64_t nbytes
    cdef int32_t count
    cdef Entered e
    if not ours(core):
        return
    turn_take(core.kept.turn)
    if core.kept.nbytes <= limit and core.kept.count <= KEPT_MOST:
        turn_give(core.kept.turn)
        return
    first, last, nbytes, count = core.kept.first, core.kept.last, core.kept.nbytes, core.kept.count
    core.kept.first = core.kept.last = NULL
    core.kept.nbytes = core.kept.count = 0
    turn_give(core.kept.turn)
    node = first if enter(core, &e) == 0 else NULL
    while node != NULL and (nbytes > limit or count > KEPT_MOST):
        next = node.next
        if _read(&node.region):
            predecessor = node
        else:
            if predecessor == NULL:
                first = next
            else:
                predecessor.next = next
            if last == node:
                last = predecessor
            nbytes -= node.region.capacity
            count -= 1
            node.next = done
            done = node
        node = next
    while done != NULL:
        node = done
        done = node.next
        _region_free(&node.region)
        free(node)
    leave(&e)
    if first == NULL:
        return
    turn_take(core.kept.turn)  # the rest goes in front of memory kept meanwhile
    last.next = core.kept.first
    core.kept.first = first
    if core.kept.last == NULL:
        core.kept.last = last
    core.kept.nbytes += nbytes
    core.kept.count += count
    turn_give(core.kept.turn)


cdef void _keep(DeviceCore* core, Region* r) noexcept nogil:
    # Keeps the region for the next stream, without waiting for its readers.
    cdef KeptRegion* node = <KeptRegion*>calloc(1, sizeof(KeptRegion))
    if node == NULL:
        if readers_end(r) == 0:
            _region_free(r)
        return
    node.region = r[0]
    turn_take(core.kept.turn)
    if core.kept.last == NULL:
        core.kept.first = node
    else:
        core.kept.last.next = node
    core.kept.last = node
    core.kept.count += 1
    core.kept.nbytes += r.capacity
    turn_give(core.kept.turn)


cdef bint region_take(DeviceCore* core, Region* r, int64_t nbytes, Failure* failure) noexcept nogil:
    # Takes kept memory of a stream that has ended, if there is some of exactly that size. Its last readers may be at
    # work.
    cdef KeptRegion* one = _reuse(core, nbytes)
    cdef int rc
    if one != NULL:
        _events_destroy(r)
        r[0] = one.region
        free(one)
        return True
    r.readers = 1
    if r.consumed[0] == NULL and failed(failure, cuda.event_create(&r.consumed[0], kCuEventDisableTiming),
                                        "cuEventCreate", 0):
        return False
    if nbytes > 0:
        rc = cuda.memory_new(&r.memory, nbytes)
        if rc == kCuOutOfMemory:
            free_done(core, 0)
            rc = cuda.memory_new(&r.memory, nbytes)
        if failed(failure, rc, "cuMemAlloc", nbytes):
            return False
    r.capacity = nbytes
    return True


cdef void region_leave(DeviceCore* core, Region* r, bint lost) noexcept nogil:
    if r.memory != 0 and not lost:
        _keep(core, r)
    else:
        _events_destroy(r)


def free_kept(Device device not None):
    """Free the memory of a device that is kept for later streams and whose readers are done, for other users of the
    device."""
    with nogil:
        free_done(device.core, 0)


def close_driver():
    """Give back all that is kept, also of the host, and forget the driver.

    No batch, and nothing that makes one, may be used any more.
    """
    with nogil:
        give_idle()
    for device in opened_devices():
        free_done((<Device>device).core, 0)
    forget_driver()
