"""Host batches to a device's memory. See transfer.pxd."""
from libc.stddef cimport size_t
from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t, uintptr_t
from libc.string cimport memset
from queuecore._core.atoms.errors cimport CODE_UNAVAILABLE, new_error
from queuecore._core.atoms.memory cimport calloc, free
from queuecore._core.atoms.process cimport check_layout, registry_remove
from queuecore._core.device.driver cimport (
    CuCopyAttributes, CuPointer, DeviceCore, Entered, Failure, Region, cuda, enter, failed, kCuEventDisableTiming,
    kCuNotReady, kCuSourceOrderStream, kCuStreamNonBlocking, leave, ours)
from queuecore._core.device.memory cimport KEPT_BYTES, after_readers, free_done, readers_end, region_leave, region_take
from queuecore._core.atoms.parking cimport event_cancel, event_notify_all, event_prepare, event_wait
from queuecore._core.atoms.platform cimport (
    Atomic, Runner, alloc_lines, cpu_ticks, kAcquire, kRelaxed, kRelease, layout_hash, monotonic_ns, size_product)
from queuecore._core.atoms.runtime cimport STEP_DONE, note_native, runner_start, runner_stop, stop_requested, waited
from queuecore._core.atoms.slab cimport slots_pop, slots_push
from queuecore._core.atoms.timeline cimport LINE_COPY, Line, LineEvent, line_enter, line_leave, line_next, line_put

import os

from queuecore._machine import thread_limits

check_layout(layout_hash())

cdef enum:
    LOOK_NS = 100000         # time between two looks at a copy on its way


cdef Transfer* transfer_new(DeviceCore* core, const HostSource* source, int32_t buffers, int64_t nbytes,
                            const Widen* widen, Failure* failure) noexcept nogil:
    cdef Transfer* t = <Transfer*>calloc(1, sizeof(Transfer))
    cdef Entered e
    cdef int32_t i
    cdef bint well
    memset(failure, 0, sizeof(Failure))
    if t == NULL:
        source.drop(source.context)
        return NULL
    t.core = core
    t.source = source[0]
    t.buffers = buffers
    if widen != NULL:
        t.widen = widen[0]
    t.flight_most = 2 * buffers
    t.shared = <TransferAtomics*>alloc_lines(sizeof(TransferAtomics))
    t.runner = <Runner*>alloc_lines(sizeof(Runner))
    t.slots = <DeviceSlot*>calloc(buffers, sizeof(DeviceSlot))
    t.flights = <Flight*>calloc(t.flight_most, sizeof(Flight))
    t.where = <uint32_t*>calloc(source.width, sizeof(uint32_t))
    t.idle = <uint32_t*>calloc(buffers, sizeof(uint32_t))
    t.free.next = <Atomic[uint32_t]*>alloc_lines(size_product(buffers, sizeof(uint32_t)))
    if (t.shared == NULL or t.runner == NULL or t.slots == NULL or t.flights == NULL or t.where == NULL
        or t.idle == NULL
            or t.free.next == NULL):
        _transfer_free(t)
        return NULL
    t.shared.refs.store(1, kRelaxed)  # relaxed: nobody else knows of it yet
    t.free.count = buffers
    t.runner.step = _step
    t.runner.release = _release
    t.runner.context = t
    free_done(core, KEPT_BYTES)
    well = not failed(&t.failure, enter(core, &e), "cuCtxSetCurrent", 0)
    if well:
        well = not failed(&t.failure, cuda.stream_create(&t.stream, kCuStreamNonBlocking, -1000),
                          "cuStreamCreateWithPriority", 0)
        i = 0
        while well and i < t.flight_most:
            well = not failed(&t.failure, cuda.event_create(&t.flights[i].copied, kCuEventDisableTiming),
                              "cuEventCreate", 0)
            i += 1
        if well and t.widen.function != NULL and t.widen.nbytes > 0:
            well = region_take(t.core, &t.raw, t.widen.nbytes, &t.failure)
        i = 0
        while well and i < buffers:
            well = (not failed(&t.failure, cuda.event_create(&t.slots[i].ready, kCuEventDisableTiming),
                               "cuEventCreate", 0)
                    and region_take(t.core, &t.slots[i].region, nbytes, &t.failure))
            i += 1
        leave(&e)
    if not well:
        failure[0] = t.failure
        _transfer_free(t)
        return NULL
    for i in range(buffers):
        slots_push(&t.free, buffers - 1 - i)
    return t


cdef void _transfer_free(Transfer* t) noexcept nogil:
    cdef Entered e
    cdef DeviceSlot* s
    cdef int32_t i
    if t.runner != NULL:
        registry_remove(t.runner)
    # If the context can't be entered, everything in it has gone with it.
    if ours(t.core) and t.slots != NULL and t.flights != NULL and enter(t.core, &e) == 0:
        for i in range(t.buffers):
            s = &t.slots[i]
            if s.ready != NULL:
                cuda.event_destroy(s.ready)
            region_leave(t.core, &s.region, t.unsure or s.lost)
        for i in range(t.flight_most):
            if t.flights[i].copied != NULL:
                cuda.event_destroy(t.flights[i].copied)
        region_leave(t.core, &t.raw, t.unsure)
        if t.stream != NULL:
            cuda.stream_destroy(t.stream)
        leave(&e)
        free_done(t.core, KEPT_BYTES)
    t.source.drop(t.source.context)
    free(t.shared)
    free(t.runner)
    free(t.slots)
    free(t.flights)
    free(t.where)
    free(t.idle)
    free(t.free.next)
    free(t)


cdef void transfer_hold(Transfer* t) noexcept nogil:
    t.shared.refs.fetch_add(1, kRelaxed)  # relaxed: the caller holds a reference


cdef void transfer_drop(Transfer* t) noexcept nogil:
    # release: this holder's work is done; acquire, for the last holder: the work of all the others is done, too
    if t.shared.refs.fetch_sub(1, kRelease) == 1:
        t.shared.refs.load(kAcquire)
        _transfer_free(t)


cdef void _hold(void* context) noexcept nogil:
    transfer_hold(<Transfer*>context)


cdef void _release(void* context) noexcept nogil:
    transfer_drop(<Transfer*>context)


cdef int transfer_start(Transfer* t) noexcept nogil:
    cdef int32_t started
    return runner_start(t.runner, 1, "qc-device", _hold, &started)


cdef void transfer_stop(Transfer* t) noexcept nogil:
    runner_stop(t.runner, NULL)
    event_notify_all(&t.shared.freed)
    event_notify_all(&t.shared.arrived)


cdef void transfer_trace(Transfer* t, Line* line) noexcept nogil:
    t.shared.line.store(line, kRelease)  # release: pairs with _give_done; the line was made before


cdef void _give_done(Transfer* t, bint all_) noexcept nogil:
    # Gives host slots back whose copies are done, oldest first.
    cdef Line* line = t.shared.line.load(kAcquire)  # acquire: pairs with transfer_trace
    cdef LineEvent* e = NULL
    cdef Flight* f
    cdef int rc
    while t.flight_count > 0:
        f = &t.flights[t.flight_first]
        rc = cuda.event_synchronize(f.copied) if all_ else cuda.event_query(f.copied)
        if rc == kCuNotReady:
            return
        if failed(&t.failure, rc, "cuEventQuery", 0) and not all_:  # it may be on its way still
            return
        if line != NULL:
            e = line_next(line, LINE_COPY, t.run, f.begun, cpu_ticks())
        if e != NULL:
            e.batch, e.size = <int64_t>f.batch, f.nbytes
            line_put(line)
        t.source.give(t.source.context, f.host)
        t.flight_first = t.flight_first + 1 if t.flight_first + 1 < t.flight_most else 0
        t.flight_count -= 1


cdef bint _grow(Transfer* t, Region* r, int64_t nbytes) noexcept nogil:
    # Makes a region larger, whose earlier readers may be at work.
    if failed(&t.failure, readers_end(r), "cuEventSynchronize", 0):
        return False
    if r.memory != 0:
        cuda.memory_free(r.memory)
    r.memory = 0
    r.capacity = 0
    return region_take(t.core, r, nbytes, &t.failure)


cdef int _launch(Transfer* t, DeviceSlot* s, int64_t rows) noexcept nogil:
    cdef long long count = rows
    cdef int64_t blocks = (t.widen.items * rows + t.widen.threads - 1) // t.widen.threads
    cdef void* arguments[3]
    if rows == 0:
        return 0
    blocks = 1 if blocks < 1 else (blocks if blocks < t.widen.blocks else t.widen.blocks)
    arguments[0] = &t.raw.memory
    arguments[1] = &s.region.memory
    arguments[2] = &count
    return cuda.launch(t.widen.function, <unsigned>blocks, 1, 1, <unsigned>t.widen.threads, 1, 1, 0, t.stream,
                       arguments, NULL)


cdef int _copy(Transfer* t, CuPointer to, const HostBatch* batch) noexcept nogil:
    # 0, or not. Uses the batch call if the driver has it: the ordinary copy call takes a lock of the whole driver.
    cdef CuCopyAttributes attributes
    cdef CuPointer from_ = <CuPointer><uintptr_t>batch.data
    cdef size_t n = batch.nbytes, first = 0
    if cuda.copy_batch == NULL:
        return failed(&t.failure, cuda.copy_to_device(to, batch.data, n, t.stream), "cuMemcpyHtoDAsync", batch.nbytes)
    memset(&attributes, 0, sizeof(attributes))
    attributes.source_order = kCuSourceOrderStream
    return failed(&t.failure, cuda.copy_batch(&to, &from_, &n, 1, &attributes, &first, 1, t.stream),
                  "cuMemcpyBatchAsync", batch.nbytes)


cdef bint _send(Transfer* t, const HostBatch* batch, uint32_t slot) noexcept nogil:
    cdef int64_t begin_ticks = cpu_ticks()
    cdef DeviceSlot* s = &t.slots[slot]
    cdef Flight* f
    cdef int32_t position
    if t.flight_count == t.flight_most:
        f = &t.flights[t.flight_first]
        if failed(&t.failure, cuda.event_synchronize(f.copied), "cuEventSynchronize", 0):
            return False
        _give_done(t, False)
    position = t.flight_first + t.flight_count
    f = &t.flights[position if position < t.flight_most else position - t.flight_most]
    if t.widen.function == NULL:
        if batch.nbytes > s.region.capacity and not _grow(t, &s.region, batch.nbytes):
            return False
        s.nbytes = batch.nbytes
        if (failed(&t.failure, after_readers(t.stream, &s.region), "cuStreamWaitEvent", 0)
                or (batch.nbytes > 0 and _copy(t, s.region.memory, batch) != 0)
                or failed(&t.failure, cuda.event_record(f.copied, t.stream), "cuEventRecord", 0)):
            return False
    else:  # the copy need not wait for the slot's readers, but the kernel must
        s.nbytes = s.region.capacity
        if ((t.next == 0 and failed(&t.failure, after_readers(t.stream, &t.raw), "cuStreamWaitEvent", 0))  # as kept
                or (batch.nbytes > 0 and _copy(t, t.raw.memory, batch) != 0)
                or failed(&t.failure, cuda.event_record(f.copied, t.stream), "cuEventRecord", 0)
                or failed(&t.failure, after_readers(t.stream, &s.region), "cuStreamWaitEvent", 0)
                or failed(&t.failure, _launch(t, s, batch.rows), "cuLaunchKernel", 0)):
            return False
    if failed(&t.failure, cuda.event_record(s.ready, t.stream), "cuEventRecord", 0):
        return False
    f.host, f.batch, f.nbytes, f.begun = batch.slot, t.next, batch.nbytes, begin_ticks
    t.flight_count += 1
    t.shared.nbytes.fetch_add(batch.nbytes, kRelaxed)  # relaxed: statistics
    if batch.nbytes > 0 and not batch.pinned:
        t.shared.pageable.fetch_add(1, kRelaxed)
    t.where[t.next % t.source.width] = slot
    _done(t)
    return True


cdef void _done(Transfer* t) noexcept nogil:
    # The consumer may take the next batch.
    t.next += 1
    # release: pairs with transfer_ready; `where`, the slot's address, and the calls made on it
    t.shared.done.store(t.next, kRelease)
    event_notify_all(&t.shared.arrived)


cdef bint _take_slot(Transfer* t, uint32_t* slot) noexcept nogil:
    # A stack would give the slot freed last; copies into it would wait for the latest reader each time.
    cdef int32_t end = t.idle_first + t.idle_count, n = 0, i
    cdef uint32_t freed
    while slots_pop(&t.free, &freed):
        for i in range(n, 0, -1):
            t.idle[(end + i) % t.buffers] = t.idle[(end + i - 1) % t.buffers]
        t.idle[end % t.buffers] = freed
        n += 1
    t.idle_count += n
    if t.idle_count == 0:
        return False
    slot[0] = t.idle[t.idle_first]
    t.idle_first = (t.idle_first + 1) % t.buffers
    t.idle_count -= 1
    return True


cdef int _over(Transfer* t) noexcept nogil:
    # No more batches will come. Waits for copies on their way: the host's memory may soon have another owner.
    if t.entered:
        _give_done(t, True)
        t.unsure = cuda.stream_synchronize(t.stream) != 0
    # release: pairs with transfer_ready; `failure` was written before
    t.shared.over.store(2 if t.failure.result != 0 else 1, kRelease)
    event_notify_all(&t.shared.arrived)
    return STEP_DONE


cdef int _step(void* context, int32_t worker) noexcept nogil:
    cdef Transfer* t = <Transfer*>context
    cdef HostBatch batch
    cdef Line* line
    cdef bint is_sent
    cdef uint32_t slot, epoch
    cdef int64_t deadline
    cdef int rc
    if not t.entered:
        if failed(&t.failure, cuda.context_set(t.core.context), "cuCtxSetCurrent", 0):
            return _over(t)
        t.entered = True
    while True:
        if stop_requested(&t.runner.stop):
            return _over(t)
        _give_done(t, False)
        failed(&t.failure, t.shared.lost.load(kAcquire), "cuEventRecord", 0)  # acquire: pairs with end_
        if t.failure.result != 0:
            return _over(t)
        deadline = monotonic_ns() + (LOOK_NS if t.flight_count > 0 else SLICE_NS)
        rc = t.source.look(t.source.context, t.next, &batch)
        if rc == HOST_END:
            return _over(t)
        if rc == HOST_WAIT:
            if t.flight_count == 0:
                note_native()
            t.source.wait(t.source.context, t.next, deadline)
            continue
        if rc == HOST_SKIP:
            _done(t)
            continue
        if not _take_slot(t, &slot):
            epoch = event_prepare(&t.shared.freed)
            if not _take_slot(t, &slot):
                if stop_requested(&t.runner.stop):
                    event_cancel(&t.shared.freed, epoch)
                else:
                    if t.flight_count == 0:
                        note_native()
                    event_wait(&t.shared.freed, epoch, deadline)
                continue
            event_cancel(&t.shared.freed, epoch)
        line = t.shared.line.load(kAcquire)  # acquire: pairs with transfer_trace
        if line != NULL:
            line_enter(line, "copy")
        is_sent = _send(t, &batch, slot)
        if line != NULL:
            line_leave(line)
        if not is_sent:
            cuda.stream_synchronize(t.stream)
            t.source.give(t.source.context, batch.slot)
            return _over(t)
        waited()


cdef bint transfer_ready(Transfer* t, uint64_t k) noexcept nogil:
    return t.shared.done.load(kAcquire) > k  # acquire: pairs with _send


cdef void transfer_wait(Transfer* t, uint64_t k, int64_t deadline_ns) noexcept nogil:
    cdef uint32_t epoch
    while not transfer_ready(t, k) and t.shared.over.load(kAcquire) == 0:  # acquire: pairs with _over
        epoch = event_prepare(&t.shared.arrived)
        if transfer_ready(t, k) or t.shared.over.load(kAcquire) != 0 or stop_requested(&t.runner.stop):
            event_cancel(&t.shared.arrived, epoch)
            return
        if event_wait(&t.shared.arrived, epoch, deadline_ns) != 0 and monotonic_ns() >= deadline_ns:
            return


cdef object thread_refused(int rc):
    return new_error(CODE_UNAVAILABLE,
        f"cannot start the thread qc-device: {os.strerror(rc)} ({thread_limits()})", dict(errno=rc, stage="device"))
