"""A consumer's hold on a batch in a device's memory. See lease.pxd."""
cimport cython
from cpython.ref cimport Py_INCREF
from libc.stdint cimport uint64_t, uintptr_t
from libc.string cimport memset
from queuecore._core.atoms.errors cimport CODE_FORKED, CODE_INVALID_ARGUMENT, raise_error
from queuecore._core.atoms.process cimport check_layout
from queuecore._core.device.driver cimport (
    READERS_MOST, CuPointer, Device, Entered, Failure, Region, cuda, enter, kCuEventDisableTiming, kCuStreamLegacy,
    kCuStreamPerThread, leave, ours)
from queuecore._core.device.transfer cimport DeviceSlot, Transfer, transfer_drop, transfer_hold, transfer_slot
from queuecore._core.atoms.parking cimport event_notify_all
from queuecore._core.atoms.platform cimport kRelaxed, kRelease, layout_hash
from queuecore._core.atoms.slab cimport slots_push

check_layout(layout_hash())

cdef void* _leases = NULL        # list of all leases, under the GIL; each lease removes itself when it is freed


cdef uintptr_t _stream_of(uintptr_t handle) except 0:
    # Returns the stream in which a consumer reads, as the driver knows it.
    if handle == kCuStreamPerThread:  # the lease may end in another thread, where that is another stream
        raise_error(CODE_INVALID_ARGUMENT,
            "a batch can't be read in the per-thread default stream, which is another stream in each thread: use a "
            "stream of your own")
    return kCuStreamLegacy if handle == 0 else handle


cdef DeviceLease transfer_hand(Transfer* t, Device device, uint64_t k, stream, uintptr_t handle, arrays):
    cdef DeviceLease lease = DeviceLease.__new__(DeviceLease)
    cdef DeviceSlot* s
    cdef Failure failure
    cdef Entered e
    lease.device = device
    lease.arrays = arrays
    lease.streams = [stream]
    lease.handles[0] = _stream_of(handle)
    lease.readers = 1
    lease.slot = transfer_slot(t, k)
    s = &t.slots[lease.slot]
    memset(&failure, 0, sizeof(failure))
    failure.call = "cuStreamWaitEvent"
    failure.result = enter(t.core, &e)
    if failure.result == 0:
        failure.result = cuda.stream_wait(<void*>lease.handles[0], s.ready, 0)
        leave(&e)
    if failure.result != 0:
        device.fail(&failure)
    transfer_hold(t)
    lease.transfer = t
    lease.base = s.region.memory
    lease.size = s.nbytes
    return lease


cdef void transfer_take(DeviceLease lease) noexcept:
    cdef CuPointer base = lease.base
    global _leases
    lease.taken = True
    lease.transfer.shared.held.fetch_add(1, kRelaxed)  # relaxed: consumers change it under the GIL
    lease.after = _leases
    if _leases != NULL:
        (<DeviceLease>_leases).before = <void*>lease
    _leases = <void*>lease
    if lease.own is not None:  # the slot has been copied from
        lease.end_()
        lease.base = base


def lease_at(uintptr_t address):
    """Return the lease on the batch that has an address in a device's memory, or None."""
    cdef DeviceLease lease
    cdef void* at = _leases
    while at != NULL:
        lease = <DeviceLease>at
        if lease.base <= address < lease.base + <uint64_t>lease.size:
            return lease
        at = lease.after
    return None


@cython.final
@cython.no_gc  # it refers to the user's streams and to memory, which don't refer to it: no cycle
cdef class DeviceLease:

    cdef int end_(self) noexcept nogil:
        # Records `consumed` on each stream that reads the slot: the stream is done with the slot once it reaches this
        # event.
        cdef Transfer* t = self.transfer
        cdef Region* r
        cdef Entered e
        cdef int i, rc
        if t == NULL:
            return 0
        self.transfer = NULL
        self.base = 0
        if not ours(t.core):
            return 0
        if not self.taken:
            transfer_drop(t)
            return 0
        r = &t.slots[self.slot].region
        rc = enter(t.core, &e)
        if rc == 0:
            for i in range(self.readers):
                if rc == 0:
                    rc = cuda.event_record(r.consumed[i], <void*>self.handles[i])
            leave(&e)
        r.readers = self.readers
        t.shared.held.fetch_sub(1, kRelaxed)  # relaxed: as in transfer_hand
        if rc == 0:
            slots_push(&t.free, self.slot)
        else:  # it is unknown when the slot may be written again
            t.slots[self.slot].lost = True
            t.shared.lost.store(rc, kRelease)  # release: pairs with _step
        event_notify_all(&t.shared.freed)
        transfer_drop(t)
        return rc

    cdef bint _gather(self) noexcept nogil:
        # The lease's own memory is used again behind its first stream alone, so that stream waits for the others.
        cdef Entered e
        cdef void* event = NULL
        cdef int i, rc = enter(self.device.core, &e)
        if rc != 0:
            return False
        for i in range(1, self.readers):
            if rc == 0:
                rc = cuda.event_create(&event, kCuEventDisableTiming)
                if rc == 0:
                    rc = cuda.event_record(event, <void*>self.handles[i])
                    if rc == 0:
                        rc = cuda.stream_wait(<void*>self.handles[0], event, 0)
                    cuda.event_destroy(event)
        leave(&e)
        return rc == 0

    def __dealloc__(self):
        global _leases
        if self.before != NULL:
            (<DeviceLease>self.before).after = self.after
        elif _leases == <void*>self:
            _leases = self.after
        if self.after != NULL:
            (<DeviceLease>self.after).before = self.before
        self.end_()
        if self.own is not None and self.readers > 1 and ours(self.device.core) and not self._gather():
            Py_INCREF(self.own)  # never freed: it is unknown when it may be written again

    @property
    def address(self):
        """The batch's first address in the device's memory."""
        return self.base

    @property
    def nbytes(self):
        """The batch's size in bytes; 0: it is given back."""
        return self.size if self.base != 0 else 0

    def end(self):
        """Give the slot back. Only work that the streams have received by now still reads it."""
        self.end_()

    def record_stream(self, stream, uintptr_t handle):
        """Say that another stream reads the batch, too: its work up to the lease's end comes before what is written
        there next.

        Parameters
        ----------
        stream : object
            Kept until the lease's end.
        handle : int
            Of that stream. Its order behind the copy is the caller's to see to.

        Raises
        ------
        InvalidArgumentError
            If the lease is at its end, or as many streams read the batch as can, or it is the default stream of each
            thread.
        ForkedPipelineError
            In a child of the process that took the batch.
        """
        cdef Failure failure
        cdef Region* r
        cdef Entered e
        cdef int i
        if self.base == 0:
            raise_error(CODE_INVALID_ARGUMENT, "this batch is given back already")
        if not ours(self.device.core):
            raise_error(CODE_FORKED, "this batch was taken before os.fork(), and exists only in the parent process")
        handle = _stream_of(handle)
        for i in range(self.readers):
            if self.handles[i] == handle:
                return
        if self.readers == READERS_MOST:
            raise_error(CODE_INVALID_ARGUMENT,
                f"{READERS_MOST} streams read this batch already, and more than that aren't remembered: let one of "
                "them wait for the others")
        if self.transfer != NULL:
            r = &self.transfer.slots[self.slot].region
            if r.consumed[self.readers] == NULL:
                memset(&failure, 0, sizeof(failure))
                failure.call = "cuEventCreate"
                failure.result = enter(self.device.core, &e)
                if failure.result == 0:
                    failure.result = cuda.event_create(&r.consumed[self.readers], kCuEventDisableTiming)
                    leave(&e)
                if failure.result != 0:
                    self.device.fail(&failure)
        self.streams.append(stream)
        self.handles[self.readers] = handle
        self.readers += 1

    def copy_to(self, Device device, uintptr_t address, memory=None):
        """Copy the batch to memory on the device, in the order of the stream, and give the slot back.

        `memory`: whose that is, and which is used again in the order of the stream. From now on the lease is one on it,
        and keeps it.
        """
        cdef Failure failure
        cdef Entered e
        memset(&failure, 0, sizeof(failure))
        failure.call = "cuMemcpyDtoDAsync"
        failure.result = enter(device.core, &e)
        if failure.result == 0:
            if self.nbytes > 0:
                failure.nbytes = self.nbytes
                failure.result = cuda.copy_on_device(address, self.base, self.nbytes, <void*>self.handles[0])
            leave(&e)
        if self.taken or failure.result != 0:
            self.end_()
        if failure.result != 0:
            device.fail(&failure)
        if memory is not None:
            self.own = memory
            self.base = address
