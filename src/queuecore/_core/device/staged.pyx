"""Batches of arrays, or a queue's elements, to a device: they are put together in page-locked memory and sent from
there.

Staging: the thread that puts fills a slot, the transfer's thread sends the slot and gives it back. `put` and `feed`:
one thread. `wait`, `take`: one thread. `stop`: any thread.
"""
cimport cython
from cpython.exc cimport PyErr_CheckSignals
from libc.stddef cimport size_t
from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t, uintptr_t
from libc.string cimport memcpy, memset
from queuecore._core.atoms.dims cimport MAX_DIMS
from queuecore._core.atoms.errors cimport CODE_FORKED, raise_error
from queuecore._core.atoms.memory cimport calloc, free
from queuecore._core.atoms.process cimport check_layout
from queuecore._core.device.driver cimport Device, DeviceCore, Failure, ours
from queuecore._core.device.lease cimport transfer_hand, transfer_take
from queuecore._core.device.pinned cimport pinned_give, pinned_take
from queuecore._core.device.transfer cimport (
    HOST_END, HOST_READY, HOST_WAIT, SLICE_NS, HostBatch, HostSource, Transfer, TransferAtomics, thread_refused,
    transfer_drop, transfer_new, transfer_ready, transfer_slot, transfer_start, transfer_stop, transfer_wait)
from queuecore._core.handoff.handoff cimport HAND_DONE, HAND_NO_MEMORY, HAND_SLICE
from queuecore._core.atoms.parking cimport event_cancel, event_notify_all, event_prepare, event_wait
from queuecore._core.atoms.platform cimport (
    Atomic, EventCount, SlotStack, alloc_lines, kAcquire, kRelaxed, kRelease, layout_hash, map_pages, monotonic_ns,
    size_product, unmap_pages)
from queuecore._core.handoff.queues cimport NativeQueue
from queuecore._core.atoms.runtime cimport (
    StopEvent, exiting, main_over, runner_join, still_waiting, wait_out_exit, waited)
from queuecore._core.atoms.slab cimport slots_pop, slots_push

cimport numpy as cnp

from queuecore._checks.warnings import warn

check_layout(layout_hash())
cnp.import_array()

cdef enum:
    ALIGNED = 256            # components of a staged batch begin at multiples of this

cdef extern from *:
    """
    namespace queuecore {
    struct StagingAtomics {
      alignas(kLine) Atomic<int32_t> refs;
      alignas(kLine) Atomic<uint64_t> filled;  // batches
      Atomic<uint32_t> ended;
      EventCount arrived;                      // the transfer waits for a batch
      alignas(kLine) EventCount freed;         // the filling thread waits for a slot
      Atomic<uint32_t> stopped;
    };
    }  // namespace queuecore
    """
    cppclass StagingAtomics "queuecore::StagingAtomics":
        Atomic[int32_t] refs
        Atomic[uint64_t] filled
        Atomic[uint32_t] ended
        EventCount arrived
        EventCount freed
        Atomic[uint32_t] stopped

cdef struct StagingSlot:
    void* memory
    size_t room
    int64_t nbytes
    bint pinned

cdef struct StagingBuffer:
    StagingAtomics* shared
    DeviceCore* core
    SlotStack free
    StagingSlot* slots
    uint32_t* where
    int32_t count


cdef void _slot_clear(StagingBuffer* s, StagingSlot* slot) noexcept nogil:
    if slot.pinned:
        pinned_give(s.core, slot.memory, slot.room)
    else:
        unmap_pages(slot.memory, slot.room)
    slot.memory = NULL
    slot.room = 0


cdef void _staging_drop(void* context) noexcept nogil:
    cdef StagingBuffer* s = <StagingBuffer*>context
    cdef int32_t i
    # As transfer_drop.
    if s.shared.refs.fetch_sub(1, kRelease) != 1:
        return
    s.shared.refs.load(kAcquire)
    for i in range(s.count):
        _slot_clear(s, &s.slots[i])
    free(s.shared)
    free(s.slots)
    free(s.where)
    free(s.free.next)
    free(s)


cdef StagingBuffer* _staging_new(DeviceCore* core, int32_t count) noexcept nogil:
    cdef StagingBuffer* s = <StagingBuffer*>calloc(1, sizeof(StagingBuffer))
    cdef int32_t i
    if s == NULL:
        return NULL
    s.core = core
    s.shared = <StagingAtomics*>alloc_lines(sizeof(StagingAtomics))
    s.slots = <StagingSlot*>calloc(count, sizeof(StagingSlot))
    s.where = <uint32_t*>calloc(count, sizeof(uint32_t))
    s.free.next = <Atomic[uint32_t]*>alloc_lines(size_product(count, sizeof(uint32_t)))
    if s.shared == NULL or s.slots == NULL or s.where == NULL or s.free.next == NULL:
        free(s.shared)
        free(s.slots)
        free(s.where)
        free(s.free.next)
        free(s)
        return NULL
    s.shared.refs.store(1, kRelaxed)  # relaxed: nobody else knows of it yet
    s.count = s.free.count = count
    for i in range(count):
        slots_push(&s.free, count - 1 - i)
    return s


cdef int _staging_look(void* context, uint64_t k, HostBatch* batch) noexcept nogil:
    cdef StagingBuffer* s = <StagingBuffer*>context
    cdef uint32_t ended = s.shared.ended.load(kAcquire)  # acquire: pairs with end(); all batches were filled before
    cdef uint32_t slot
    if s.shared.filled.load(kAcquire) <= k:  # acquire: pairs with put(); the batch's bytes and its slot
        return HOST_END if ended else HOST_WAIT
    slot = s.where[k % <uint64_t>s.count]
    batch.slot = slot
    batch.data = <const unsigned char*>s.slots[slot].memory
    batch.nbytes = s.slots[slot].nbytes
    batch.rows = 0
    batch.pinned = s.slots[slot].pinned
    return HOST_READY


cdef void _staging_give(void* context, uint32_t slot) noexcept nogil:
    cdef StagingBuffer* s = <StagingBuffer*>context
    slots_push(&s.free, slot)
    event_notify_all(&s.shared.freed)


cdef void _staging_wait(void* context, uint64_t k, int64_t deadline_ns) noexcept nogil:
    cdef StagingBuffer* s = <StagingBuffer*>context
    cdef uint32_t epoch = event_prepare(&s.shared.arrived)
    # acquire: as in _staging_look
    if s.shared.filled.load(kAcquire) > k or s.shared.ended.load(kAcquire) or s.shared.stopped.load(kAcquire):
        event_cancel(&s.shared.arrived, epoch)
    else:
        event_wait(&s.shared.arrived, epoch, deadline_ns)


# The place of a part in its batch.
cdef struct StagedPart:
    int64_t offset
    int32_t ndim
    Py_ssize_t[MAX_DIMS] dims

# Reasons for the return of a feed.
cdef enum:
    FEED_ON = 0
    FEED_STOPPED = 1   # or a slice of a wait is over, and the main thread has ended
    FEED_CLOSED = 2
    FEED_FAILED = 3


@cython.final
cdef class Staged:
    """Batches of arrays to a device: copied together into page-locked memory, and from there by a native thread.

    Parameters
    ----------
    device : Device
    buffers : int
        Batches on the device at a time.
    prefer : bool
        Memory that can't be page-locked is used as it is, and counted; otherwise that is an error.

    Notes
    -----
    One thread puts, another one takes; both wait without the GIL. `stop`: any thread.
    """
    cdef readonly Device device
    cdef StagingBuffer* staging
    cdef Transfer* transfer
    cdef bint prefer, warned
    cdef uint64_t put_, taken
    cdef StagedPart* parts    # parts of each batch that `feed` put and that is not taken yet: published with it
    cdef int part_count, layouts

    def __cinit__(self, Device device not None, int buffers, bint prefer=False):
        cdef HostSource source
        cdef Failure failure
        cdef int rc
        self.device = device
        self.prefer = prefer
        self.staging = _staging_new(device.core, buffers + 1)
        if self.staging == NULL:
            raise MemoryError
        self.staging.shared.refs.fetch_add(1, kRelaxed)  # relaxed: nobody else knows of it yet
        source.context = self.staging
        source.width = self.staging.count
        source.look = _staging_look
        source.give = _staging_give
        source.wait = _staging_wait
        source.drop = _staging_drop
        with nogil:
            self.transfer = transfer_new(device.core, &source, buffers, 0, NULL, &failure)
        if self.transfer == NULL:
            device.fail(&failure)
        rc = transfer_start(self.transfer)
        if rc != 0:
            raise thread_refused(rc)

    def __dealloc__(self):
        if self.transfer != NULL:
            if ours(self.device_core()):
                self.stop_()
            transfer_drop(self.transfer)
        if self.staging != NULL:
            _staging_drop(self.staging)
        free(self.parts)

    cdef DeviceCore* device_core(self) noexcept nogil:
        return self.transfer.core

    cdef void stop_(self) noexcept nogil:
        self.staging.shared.stopped.store(1, kRelease)  # release: pairs with _stopped
        transfer_stop(self.transfer)
        event_notify_all(&self.staging.shared.arrived)
        event_notify_all(&self.staging.shared.freed)

    def stop(self):
        """End all waits and the transfer's thread."""
        self.stop_()

    def join(self, double seconds):
        """Wait at most `seconds` for the end of the thread. Return False if it still runs."""
        cdef bint quiet
        cdef int64_t deadline = monotonic_ns() + <int64_t>(seconds * 1e9)
        with nogil:
            quiet = runner_join(self.transfer.runner, deadline)
        return quiet

    cdef bint _stopped(self) noexcept nogil:
        # acquire: pairs with stop_ and _over
        return self.staging.shared.stopped.load(kAcquire) != 0 or self.transfer.shared.over.load(kAcquire) != 0

    cdef bint _slot(self, uint32_t* slot) noexcept nogil:
        # Waits for a free slot. False: a slice of time is over, or it is stopped.
        cdef StagingBuffer* s = self.staging
        cdef uint32_t epoch
        if slots_pop(&s.free, slot):
            return True
        epoch = event_prepare(&s.shared.freed)
        if slots_pop(&s.free, slot):
            event_cancel(&s.shared.freed, epoch)
            return True
        if self._stopped():
            event_cancel(&s.shared.freed, epoch)
            return False
        event_wait(&s.shared.freed, epoch, monotonic_ns() + SLICE_NS)
        return slots_pop(&s.free, slot)

    cdef bint _room(self, StagingSlot* slot, size_t nbytes, Failure* failure) noexcept nogil:
        if slot.room >= nbytes:
            return True
        nbytes = (nbytes + 4095) // 4096 * 4096
        memset(failure, 0, sizeof(Failure))
        _slot_clear(self.staging, slot)
        slot.memory = pinned_take(self.transfer.core, nbytes, &failure.result)
        slot.pinned = slot.memory != NULL
        if not slot.pinned and self.prefer:
            slot.memory = map_pages(nbytes)
        if slot.memory == NULL:
            failure.call = "cuMemHostRegister"
            failure.nbytes = nbytes
            return False
        slot.room = nbytes
        return True

    cdef int _warn(self, StagingSlot* slot) except -1:
        if not slot.pinned and slot.room > 0 and not self.warned:
            self.warned = True
            warn(f"{slot.room} bytes of host memory can't be page-locked for cuda:{self.device.ordinal}: copies from "
                 "there are slower. Raise the limit (ulimit -l), or use smaller batches", 1)
        return 0

    cdef void _filled(self, uint32_t slot, int64_t nbytes) noexcept nogil:
        waited()
        self.staging.slots[slot].nbytes = nbytes
        self.staging.where[self.put_ % <uint64_t>self.staging.count] = slot
        self.put_ += 1
        self.staging.shared.filled.store(self.put_, kRelease)  # release: pairs with _staging_look
        event_notify_all(&self.staging.shared.arrived)

    cdef int _refuse(self) except -1:
        if not ours(self.transfer.core):
            raise_error(CODE_FORKED, "this was made before os.fork(), and exists only in the parent process")
        return 0

    def put(self, list arrays):
        """Hand in the next batch.

        Parameters
        ----------
        arrays : list of ndarray
            Contiguous.

        Returns
        -------
        list of int or None
            Where in the batch each array begins; `None`: nothing more is wanted.
        """
        cdef int n = len(arrays), i
        cdef uint32_t slot
        cdef StagingSlot* staging_slot
        cdef size_t total = 0
        cdef bint well
        cdef Failure failure
        cdef cnp.ndarray array
        cdef list offsets = []
        cdef void* from_
        cdef void* to
        cdef size_t nbytes
        self._refuse()
        for i in range(n):
            array = arrays[i]
            if not cnp.PyArray_IS_C_CONTIGUOUS(array):
                raise ValueError("an array isn't contiguous")
            offsets.append(total)
            total += (<size_t>cnp.PyArray_NBYTES(array) + ALIGNED - 1) // ALIGNED * ALIGNED
        waited()
        while True:
            with nogil:
                well = self._slot(&slot)
            if well:
                break
            still_waiting()
            if self._stopped():
                return None
        staging_slot = &self.staging.slots[slot]
        try:
            with nogil:
                well = self._room(staging_slot, total, &failure)
            if not well:
                self.device.fail(&failure)
            self._warn(staging_slot)
        except BaseException:
            slots_push(&self.staging.free, slot)
            raise
        for i in range(n):
            array = arrays[i]
            from_ = cnp.PyArray_DATA(array)
            to = <unsigned char*>staging_slot.memory + <size_t>offsets[i]
            nbytes = cnp.PyArray_NBYTES(array)
            if nbytes > 0:
                with nogil:
                    memcpy(to, from_, nbytes)
        self._filled(slot, total)
        return offsets

    def feed(self, NativeQueue queue not None, StopEvent stop not None):
        """Hand in a queue's elements, each as a batch, until it is closed and empty, or nothing more is wanted.

        Without the GIL from the first one to the last.

        Parameters
        ----------
        queue : NativeQueue
            Of numbers alone.
        stop : StopEvent
            Ends the wait for an element; `stop` ends all others.

        Raises
        ------
        OutOfRangeError
            If what filled the queue failed, with its error as the ``__cause__``.
        """
        cdef Failure failure
        cdef uint32_t slot
        cdef int rc = FEED_ON
        self._refuse()
        queue._refuse()
        # Batches that are put and not taken yet: at most as many as there are slots here and on the device.
        self.layouts = self.staging.count + self.transfer.buffers
        self.part_count = queue.part_count
        self.parts = <StagedPart*>calloc(size_product(self.layouts, self.part_count), sizeof(StagedPart))
        if self.parts == NULL:
            raise MemoryError
        while rc == FEED_ON:
            with nogil:
                rc = self._feed(queue, stop, &slot, &failure)
            wait_out_exit()
            if rc == FEED_STOPPED and stop.stopped_ns() == 0 and not self._stopped() and not exiting():
                rc = FEED_ON
                still_waiting()
            elif rc == FEED_ON:
                self._warn(&self.staging.slots[slot])
        if rc == FEED_FAILED:
            self.device.fail(&failure)
        if rc == FEED_CLOSED:
            error = queue._too_few(1)
            if error.__cause__ is not None:
                raise error

    cdef int _feed(self, NativeQueue queue, StopEvent stop, uint32_t* slot, Failure* failure) noexcept nogil:
        # Returns at the end, or if the caller must warn about a slot.
        cdef uint32_t element
        cdef StagedPart* parts
        cdef const void* data
        cdef const Py_ssize_t* dims
        cdef int64_t nbytes, total
        cdef int i, rc
        while True:
            while not self._slot(slot):
                if self._stopped() or exiting() or main_over():
                    return FEED_STOPPED
            rc = queue.slot_get(&element, stop)
            if rc != HAND_DONE:
                slots_push(&self.staging.free, slot[0])
                if rc == HAND_NO_MEMORY:
                    failure.result = 0
                    return FEED_FAILED
                return FEED_STOPPED if rc == HAND_SLICE else FEED_CLOSED
            parts = self.parts + (self.put_ % <uint64_t>self.layouts) * self.part_count
            total = 0
            for i in range(self.part_count):
                queue.slot_part(element, i, &nbytes, &parts[i].ndim, &dims)
                memcpy(parts[i].dims, dims, parts[i].ndim * sizeof(Py_ssize_t))
                parts[i].offset = total
                total += (nbytes + ALIGNED - 1) // ALIGNED * ALIGNED
            if not self._room(&self.staging.slots[slot[0]], total, failure):
                slots_push(&self.staging.free, slot[0])
                queue.slot_give(element)
                return FEED_FAILED
            for i in range(self.part_count):
                data = queue.slot_part(element, i, &nbytes, &parts[i].ndim, &dims)
                if nbytes > 0:  # with 0 bytes there may be no memory at all
                    memcpy(<unsigned char*>self.staging.slots[slot[0]].memory + parts[i].offset, data, nbytes)
            queue.slot_give(element)
            self._filled(slot[0], total)
            if not self.warned and not self.staging.slots[slot[0]].pinned:
                return FEED_ON

    def layout(self):
        """Return the offset and the shape of each part of the batch that `wait` waited for, if `feed` handed it in."""
        cdef StagedPart* part = self.parts + (self.taken % <uint64_t>self.layouts) * self.part_count
        cdef list found = []
        cdef int i
        for i in range(self.part_count):
            found.append((part[i].offset, tuple([part[i].dims[j] for j in range(part[i].ndim)])))
        return found

    def end(self):
        """Mark the end of the batches."""
        self.staging.shared.ended.store(1, kRelease)  # release: pairs with _staging_look
        event_notify_all(&self.staging.shared.arrived)

    def wait(self):
        """Wait until the next batch is on its way to the device. Return False if there is none."""
        cdef Transfer* t = self.transfer
        self._refuse()
        waited()
        while not transfer_ready(t, self.taken):
            # Of a thread that is stopped before it has begun, `over` says nothing.
            if self._stopped():
                if transfer_ready(t, self.taken):
                    break
                if t.shared.over.load(kAcquire) == 2:  # acquire: pairs with _over
                    self.device.fail(&t.failure)
                wait_out_exit()
                return False
            with nogil:
                transfer_wait(t, self.taken, monotonic_ns() + SLICE_NS)
            PyErr_CheckSignals()
            still_waiting()
        return True

    def next_bytes(self):
        """Return the number of bytes of the batch that `wait` waited for."""
        return self.transfer.slots[transfer_slot(self.transfer, self.taken)].nbytes

    def take(self, stream, uintptr_t handle, arrays=None):
        """Return the lease of the batch that `wait` waited for.

        Parameters
        ----------
        stream : object
            Kept until the lease's end.
        handle : int
            Of that stream: its work from now on comes after the copy.
        arrays : Arrays, optional
            What makes arrays of the batch; the lease says so.
        """
        self._refuse()
        lease = transfer_hand(self.transfer, self.device, self.taken, stream, handle, arrays)
        transfer_take(lease)
        self.taken += 1
        return lease

    def stats(self):
        """Return counters: bytes, batches from memory that isn't page-locked, and batches that are held."""
        cdef TransferAtomics* s = self.transfer.shared
        return {"device_bytes": s.nbytes.load(kRelaxed), "pageable_copies": s.pageable.load(kRelaxed),
                "device_leases": s.held.load(kRelaxed)}
