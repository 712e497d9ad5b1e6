"""To a device: the way of a stream's batches to a device, and their arrays there."""
cimport cython
from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t, uintptr_t
from libc.string cimport memset
from queuecore._core.atoms.dims cimport MAX_DIMS
from queuecore._core.atoms.process cimport check_layout
from queuecore._core.device.driver cimport Failure
from queuecore._core.device.lease cimport DeviceLease, transfer_take
from queuecore._core.device.transfer cimport (
    HOST_END, HOST_READY, HOST_SKIP, HOST_WAIT, HostBatch, HostSource, Transfer, Widen, thread_refused, transfer_drop,
    transfer_hold, transfer_new, transfer_ready, transfer_slot, transfer_start, transfer_stop, transfer_trace,
    transfer_wait)
from queuecore._core.atoms.parking cimport event_cancel, event_prepare, event_wait
from queuecore._core.stream.pipe cimport BATCH_OWED, Pipe, pipe_drop, pipe_hold
from queuecore._core.atoms.platform cimport Batch, Window, kAcquire, kRelaxed, layout_hash, monotonic_ns
from queuecore._core.atoms.runtime cimport WAIT_SLICE_NS, runner_join, stop_requested
from queuecore._core.atoms.slab cimport slab_slot, slots_push
from queuecore._core.atoms.timeline cimport Line
from queuecore._core.stream.views cimport Views
from queuecore._core.atoms.window cimport window_batch, window_ended, window_ready

from queuecore._checks.warnings import warn

check_layout(layout_hash())


# The source of a transfer's batches

cdef int _host_look(void* context, uint64_t k, HostBatch* batch) noexcept nogil:
    cdef Pipe* p = <Pipe*>context
    cdef Batch* b
    cdef int32_t i
    cdef int64_t end
    if not window_ready(p.window, k):
        return HOST_END if stop_requested(&p.runner.stop) or window_ended(p.window, k) else HOST_WAIT
    b = window_batch(p.window, k)
    if b.failed.load(kRelaxed) == BATCH_OWED:  # relaxed, both: published by B3 in window.pxd
        return HOST_SKIP
    if b.failed.load(kRelaxed):  # the consumer begins another run
        return HOST_END if stop_requested(&p.runner.stop) else HOST_WAIT
    batch.data = slab_slot(p.slab, b.slot)
    batch.slot = b.slot
    batch.rows = b.rows
    batch.pinned = p.pinned
    batch.nbytes = 0
    for i in range(p.plan.maker.count if p.plan.maker.count > 0 else p.plan.layout.leaf_count):
        if p.plan.maker.count > 0:
            end = p.plan.maker.outputs[i].slot_offset + p.plan.maker.outputs[i].row_bytes * b.rows
        else:
            end = p.plan.leaves[i].slot_offset + p.plan.leaves[i].row_bytes * b.rows
        if end > batch.nbytes:
            batch.nbytes = end
    return HOST_READY


cdef void _host_give(void* context, uint32_t slot) noexcept nogil:
    slots_push(&(<Pipe*>context).slab.stack, slot)


cdef void _host_wait(void* context, uint64_t k, int64_t deadline_ns) noexcept nogil:
    cdef Window* w = (<Pipe*>context).window
    cdef uint32_t epoch = event_prepare(&w.arrived)
    cdef HostBatch batch
    if _host_look(context, k, &batch) == HOST_WAIT:
        event_wait(&w.arrived, epoch, deadline_ns)
    else:
        event_cancel(&w.arrived, epoch)


# Arrays on the device

@cython.final
@cython.no_gc_clear  # the stream's destructor ends the transfer, which needs its device
cdef class ToDevice:
    cdef int set_target(self, target) except -1:
        self.target = target
        self.device = target.device
        self.arrays = target.arrays
        self.ring = target.ring
        self.widen = target.widening
        return 0

    cdef object start(self, Pipe* p, Views views):
        cdef HostSource source
        cdef Failure failure
        cdef Widen widen
        cdef int64_t nbytes = p.slab.slot_bytes
        cdef int rc
        memset(&widen, 0, sizeof(widen))
        if self.widen is not None:
            self.kernel, self.compiled = self.widen.compiled([views.slot_offset(p, i) for i in range(views.count())])
            widen.function = <void*><uintptr_t>self.compiled.handle
            widen.nbytes = nbytes
            widen.items, widen.threads, widen.blocks = self.kernel.items, self.kernel.threads, self.kernel.most_blocks
            nbytes = max(self.kernel.nbytes(p.plan.config.batch_rows), 1)
        source.context = p
        source.width = p.window.mask + 1
        source.look = _host_look
        source.give = _host_give
        source.wait = _host_wait
        source.drop = pipe_drop
        if not p.pinned and not self.warned_pageable:
            self.warned_pageable = True
            warn(f"{p.slab.mapped_bytes} bytes of host memory can't be page-locked for cuda:{self.device.ordinal}: "
                 "copies from there are slower. Raise the limit (ulimit -l), or use smaller batches or fewer of them "
                 "ahead", 2)
        pipe_hold(p)
        with nogil:
            self.transfer = transfer_new(self.device.core, &source, <int32_t>p.plan.config.buffers, nbytes, &widen,
                                         &failure)
        if self.transfer == NULL:
            return self._failed(&failure)
        self.transfer.run = p.number
        self.trace(p)
        rc = transfer_start(self.transfer)
        return None if rc == 0 else thread_refused(rc)

    cdef void trace(self, Pipe* p) noexcept nogil:
        cdef Line* line = NULL
        if p.meters.line.load(kRelaxed) != NULL:  # relaxed: written under the GIL, as here
            line = &p.lines.of[p.plan.config.threads + 1]
        if self.transfer != NULL:
            transfer_trace(self.transfer, line)

    cdef void end(self) noexcept:
        cdef Transfer* t = self.transfer
        self.transfer = NULL
        if t != NULL:
            self.sent_before += t.shared.nbytes.load(kRelaxed)  # relaxed: statistics
            self.pageable_before += t.shared.pageable.load(kRelaxed)
            transfer_stop(t)
            transfer_drop(t)

    cdef void join(self, int64_t deadline_ns) noexcept:
        cdef Transfer* t = self.transfer
        if t == NULL:
            return
        transfer_hold(t)
        with nogil:
            runner_join(t.runner, deadline_ns)
        transfer_drop(t)

    cdef object refused(self, int result, int64_t nbytes):
        cdef Failure failure
        memset(&failure, 0, sizeof(Failure))
        failure.result = result
        failure.call = "cuMemHostRegister"
        failure.nbytes = nbytes
        return self._failed(&failure)

    cdef object _failed(self, const Failure* failure):
        try:
            self.device.fail(failure)
        except Exception as error:
            return error

    cdef bint is_ready(self, uint64_t k) noexcept nogil:
        return self.transfer == NULL or transfer_ready(self.transfer, k)

    cdef object failure(self):
        if self.transfer.shared.over.load(kAcquire) != 2:  # acquire: pairs with _over in device/transfer.pyx
            return None
        return self._failed(&self.transfer.failure)

    cdef void wait(self, uint64_t k) noexcept:
        cdef Transfer* t = self.transfer
        transfer_hold(t)
        with nogil:
            transfer_wait(t, k, monotonic_ns() + WAIT_SLICE_NS)
        transfer_drop(t)

    cdef bint is_full(self) noexcept:
        # relaxed: leases are taken under the GIL. The lease that ends with this call doesn't count
        return self.transfer.shared.held.load(kRelaxed) - self._goes() >= self.transfer.buffers - 1

    cdef bint _goes(self) noexcept:
        # True if the batch before is of this transfer, and its lease ends when the next batch is taken.
        return self.ring and self.last is not None and self.last.transfer == self.transfer

    cdef object room(self, uint64_t k):
        cdef Transfer* t = self.transfer
        return self.arrays.allocate(t.slots[transfer_slot(t, k)].nbytes)

    cdef list arrays_of(self, Pipe* p, DeviceLease lease, memory, int64_t rows, int64_t subs, Views views):
        cdef int64_t dims[MAX_DIMS]
        cdef int lead = views.lead_dims(rows, subs, dims)
        cdef list arrays = []
        cdef int i, j
        if memory is not None:
            lease.copy_to(self.device, self.arrays.address(memory), memory)
        memory = self.arrays.memory(lease)
        if self.widen is not None:
            return [self.arrays.array(memory, offset, (rows, *output.shape), output.dtype)
                    for offset, output in zip(self.kernel.offsets(rows), self.kernel.outputs)]
        for i in range(views.count()):
            dtype, shape = views.dtype_and_shape(i)
            sides = (*[dims[j] for j in range(lead)], *shape)
            arrays.append(self.arrays.array(memory, views.slot_offset(p, i), sides, dtype))
        return arrays

    cdef int taken(self, DeviceLease lease, bint copied) except -1:
        cdef DeviceLease last = self.last
        transfer_take(lease)
        if not copied:
            self.last = lease if self.ring else None
        if self.ring and last is not None:
            last.end_()
        return 0

    cdef dict stats(self):
        cdef int64_t nbytes = self.sent_before, pageable = self.pageable_before, lease_count = 0
        cdef Transfer* t = self.transfer
        # relaxed: statistics
        if t != NULL:
            nbytes += t.shared.nbytes.load(kRelaxed)
            pageable += t.shared.pageable.load(kRelaxed)
            lease_count = t.shared.held.load(kRelaxed)
        return {"device_bytes": nbytes, "pageable_copies": pageable, "device_leases": lease_count}
