"""The CUDA driver, found at run time; page-locked memory; and the transfer of host batches to a device. See device.pxd."""
cimport cython
from cpython.exc cimport PyErr_CheckSignals
from cpython.ref cimport Py_INCREF
from libc.stddef cimport size_t
from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t, uintptr_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy, memset
from queuecore._core.atoms cimport check_layout, fork_generation, registry_remove
from queuecore._core.handoff cimport HAND_DONE, HAND_NO_MEMORY, HAND_SLICE
from queuecore._core.parking cimport event_cancel, event_notify_all, event_prepare, event_wait, turn_give, turn_take
from queuecore._core.platform cimport (
    Atomic, EventCount, Runner, SlotStack, Turn, alloc_lines, kAcquire, kRelaxed, kRelease, layout_hash, map_pages, monotonic_ns,
    unmap_pages)
from queuecore._core.queues cimport MAX_DIMS, NativeQueue
from queuecore._core.runtime cimport (
    STEP_DONE, StopEvent, exiting, runner_join, runner_start, runner_stop, stop_requested, wait_out_exit)
from queuecore._core.slab cimport slots_pop, slots_push

import atexit
import os
import threading

cimport numpy as cnp

from queuecore import errors as _errors
from queuecore._warnings import warn

check_layout(layout_hash())
cnp.import_array()

cdef extern from "dlfcn.h" nogil:
    const int RTLD_NOW
    const int RTLD_LOCAL
    void* dlopen(const char*, int)
    void* dlsym(void*, const char*)
    char* dlerror()

cdef extern from "queuecore/cuda.hpp" namespace "queuecore" nogil:
    const int kCuOutOfMemory
    const int kCuStubLibrary
    const int kCuNoDevice
    const int kCuNotReady
    const unsigned kCuHostRegisterPortable
    const unsigned kCuStreamNonBlocking
    const unsigned kCuEventDisableTiming
    const int kCuSourceOrderStream
    const uintptr_t kCuStreamLegacy

    cppclass CuLocation:
        pass

    cppclass CuCopyAttributes:
        int source_order

    cppclass Cuda:
        int (*init)(unsigned) noexcept
        int (*driver_version)(int*) noexcept
        int (*device_count)(int*) noexcept
        int (*device_get)(int*, int) noexcept
        int (*device_name)(char*, int, int) noexcept
        int (*device_bus)(char*, int, int) noexcept
        int (*context_retain)(void**, int) noexcept
        int (*context_release)(int) noexcept
        int (*context_set)(void*) noexcept
        int (*context_get)(void**) noexcept
        int (*stream_create)(void**, unsigned, int) noexcept
        int (*stream_destroy)(void*) noexcept
        int (*stream_synchronize)(void*) noexcept
        int (*stream_wait)(void*, void*, unsigned) noexcept
        int (*event_create)(void**, unsigned) noexcept
        int (*event_destroy)(void*) noexcept
        int (*event_record)(void*, void*) noexcept
        int (*event_query)(void*) noexcept
        int (*event_synchronize)(void*) noexcept
        int (*host_register)(void*, size_t, unsigned) noexcept
        int (*host_unregister)(void*) noexcept
        int (*memory_new)(CuPointer*, size_t) noexcept
        int (*memory_free)(CuPointer) noexcept
        int (*copy_to_device)(CuPointer, const void*, size_t, void*) noexcept
        int (*copy_on_device)(CuPointer, CuPointer, size_t, void*) noexcept
        int (*copy_batch)(CuPointer*, CuPointer*, size_t*, size_t, CuCopyAttributes*, size_t*, size_t, void*) noexcept
        int (*launch)(void*, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void*, void**, void**) noexcept
        int (*error_name)(int, const char**) noexcept
        int (*error_text)(int, const char**) noexcept

cdef extern from *:
    """
    #include <sys/syscall.h>
    #include <unistd.h>

    namespace {
    // Written while _open_driver holds the GIL, before there is a device; read by whoever has one.
    queuecore::Cuda cuda;

    bool find(void* library, const char* name, void* place) noexcept {
      void* found = dlsym(library, name);
      memcpy(place, &found, sizeof found);
      return found != nullptr;
    }

    // The first function that isn't there, or null.
    const char* cuda_find(void* library) noexcept {
      const struct {
        const char* name;
        void* place;
      } wanted[] = {
          {"cuInit", &cuda.init},
          {"cuDriverGetVersion", &cuda.driver_version},
          {"cuDeviceGetCount", &cuda.device_count},
          {"cuDeviceGet", &cuda.device_get},
          {"cuDeviceGetName", &cuda.device_name},
          {"cuDevicePrimaryCtxRetain", &cuda.context_retain},
          {"cuDevicePrimaryCtxRelease_v2", &cuda.context_release},
          {"cuCtxSetCurrent", &cuda.context_set},
          {"cuCtxGetCurrent", &cuda.context_get},
          {"cuStreamCreateWithPriority", &cuda.stream_create},
          {"cuStreamDestroy_v2", &cuda.stream_destroy},
          {"cuStreamSynchronize", &cuda.stream_synchronize},
          {"cuStreamWaitEvent", &cuda.stream_wait},
          {"cuEventCreate", &cuda.event_create},
          {"cuEventDestroy_v2", &cuda.event_destroy},
          {"cuEventRecord", &cuda.event_record},
          {"cuEventQuery", &cuda.event_query},
          {"cuEventSynchronize", &cuda.event_synchronize},
          {"cuMemHostRegister_v2", &cuda.host_register},
          {"cuMemHostUnregister", &cuda.host_unregister},
          {"cuMemAlloc_v2", &cuda.memory_new},
          {"cuMemFree_v2", &cuda.memory_free},
          {"cuMemcpyHtoDAsync_v2", &cuda.copy_to_device},
          {"cuMemcpyDtoDAsync_v2", &cuda.copy_on_device},
          {"cuLaunchKernel", &cuda.launch},
          {"cuGetErrorName", &cuda.error_name},
          {"cuGetErrorString", &cuda.error_text},
      };
      for (const auto& one : wanted)
        if (!find(library, one.name, one.place)) return one.name;
      find(library, "cuMemcpyBatchAsync_v2", &cuda.copy_batch);
      find(library, "cuDeviceGetPCIBusId", &cuda.device_bus);
      return nullptr;
    }

    // Pages that nobody has touched yet come from that node as long as it has some. Without it they are as good: a kernel, or a
    // container, that refuses is not asked twice, and its answer isn't looked at.
    void prefer_node(void* p, size_t nbytes, int node) noexcept {
    #ifdef SYS_mbind
      constexpr int kPreferred = 1, kBits = 8 * sizeof(unsigned long), kNodes = 1024;
      unsigned long nodes[kNodes / kBits] = {};
      if (node < 0 || node >= kNodes) return;
      nodes[node / kBits] = 1ul << node % kBits;
      syscall(SYS_mbind, p, nbytes, kPreferred, nodes, kNodes + 1, 0);  // the kernel looks at one bit less than it is told
    #endif
    }
    }  // namespace
    """
    Cuda cuda
    void prefer_node(void*, size_t, int) noexcept nogil
    const char* cuda_find(void*) noexcept nogil

cdef enum:
    SLICE_NS = 50000000      # Python's main thread looks for signals this often, and the transfer whether it is to end
    REAP_NS = 100000         # a copy that is on its way is looked at again after this
    IDLE_MOST = 32           # page-locked blocks that are kept for who wants one of that size next
    IDLE_BYTES = 268435456
    KEPT_MOST = 256          # and pieces of a device's memory
    KEPT_BYTES = 268435456
    ALIGNED = 256            # where components begin in a batch that is put together here


# Contexts

cdef struct Entered:
    bint switched
    void* before


cdef int _enter(DeviceCore* core, Entered* e) noexcept nogil:
    # The device's context, in this thread, which may be anybody's.
    e.switched = False
    if cuda.context_get(&e.before) != 0:
        e.before = NULL
    if e.before == core.context:
        return 0
    e.switched = True
    return cuda.context_set(core.context)


cdef void _leave(Entered* e) noexcept nogil:
    if e.switched:
        cuda.context_set(e.before)


cdef inline bint _ours(const DeviceCore* core) noexcept nogil:
    return core.generation == fork_generation()


# Page-locked memory

cdef struct Block:
    DeviceCore* core         # in whose context it is page-locked
    void* p
    size_t nbytes

cdef Block[IDLE_MOST] _idle
cdef int _idle_count = 0
cdef size_t _idle_bytes = 0
cdef Turn _idle_turn


cdef Block _idle_remove(int i) noexcept nogil:
    global _idle_count, _idle_bytes
    cdef Block found = _idle[i]
    _idle_count -= 1
    _idle_bytes -= found.nbytes
    while i < _idle_count:
        _idle[i] = _idle[i + 1]
        i += 1
    return found


cdef void _unlock(Block block) noexcept nogil:
    cdef Entered e
    if _ours(block.core):
        _enter(block.core, &e)
        cuda.host_unregister(block.p)
        _leave(&e)
    unmap_pages(block.p, block.nbytes)


cdef void* pinned_take(DeviceCore* core, size_t nbytes, int* result) noexcept nogil:
    cdef void* p = NULL
    cdef int i
    cdef size_t at = 0
    cdef Entered e
    result[0] = 0
    turn_take(&_idle_turn)
    for i in range(_idle_count - 1, -1, -1):
        if _idle[i].core == core and _idle[i].nbytes == nbytes:
            p = _idle_remove(i).p
            break
    turn_give(&_idle_turn)
    if p != NULL:
        return p
    p = map_pages(nbytes)
    if p == NULL:
        return NULL
    prefer_node(p, nbytes, core.node)
    while at < nbytes:  # touched first: registering untouched pages takes longer
        (<unsigned char*>p)[at] = 0
        at += 4096
    result[0] = _enter(core, &e)
    if result[0] == 0:
        result[0] = cuda.host_register(p, nbytes, kCuHostRegisterPortable)
        _leave(&e)
    if result[0] == 0:
        return p
    unmap_pages(p, nbytes)
    return NULL


cdef void pinned_give(DeviceCore* core, void* p, size_t nbytes) noexcept nogil:
    global _idle_count, _idle_bytes
    cdef Block[IDLE_MOST] old
    cdef Block block
    cdef int i, n = 0
    if p == NULL:
        return
    block.core = core
    block.p = p
    block.nbytes = nbytes
    if nbytes > IDLE_BYTES or not _ours(core):
        _unlock(block)
        return
    turn_take(&_idle_turn)
    while _idle_count == IDLE_MOST or _idle_bytes + nbytes > IDLE_BYTES:
        old[n] = _idle_remove(0)
        n += 1
    _idle[_idle_count] = block
    _idle_count += 1
    _idle_bytes += nbytes
    turn_give(&_idle_turn)
    for i in range(n):
        _unlock(old[i])


# The transfer

cdef bint _failed(Transfer* t, int result, const char* call, int64_t nbytes) noexcept nogil:
    # True if it did, which is noted: the first one counts.
    if result == 0:
        return False
    if t.failure.result == 0:
        t.failure.result = result
        t.failure.call = call
        t.failure.nbytes = nbytes
    return True


cdef void _events_destroy(Region* r) noexcept nogil:
    cdef int i
    for i in range(READERS_MOST):
        if r.consumed[i] != NULL:
            cuda.event_destroy(r.consumed[i])
        r.consumed[i] = NULL


cdef bint _region_take(Transfer* t, Region* r, int64_t nbytes) noexcept nogil:
    # Memory of a stream that has ended, if some is kept that has exactly that size. Its last readers may be at work.
    cdef Grave* g = _exhume(t.core, nbytes)
    cdef int rc
    if g != NULL:
        _events_destroy(r)
        r[0] = g.region
        free(g)
        return True
    r.readers = 1
    if r.consumed[0] == NULL and _failed(t, cuda.event_create(&r.consumed[0], kCuEventDisableTiming), "cuEventCreate", 0):
        return False
    if nbytes > 0:
        rc = cuda.memory_new(&r.memory, nbytes)
        if rc == kCuOutOfMemory:
            _sweep(t.core, 0)
            rc = cuda.memory_new(&r.memory, nbytes)
        if _failed(t, rc, "cuMemAlloc", nbytes):
            return False
    r.capacity = nbytes
    return True


cdef bint _read(const Region* r) noexcept nogil:
    # Whether somebody may read it still; also where the driver doesn't say.
    cdef int i
    for i in range(r.readers):
        if cuda.event_query(r.consumed[i]) != 0:
            return True
    return False


cdef int _readers_end(const Region* r) noexcept nogil:
    # Waits, on the host.
    cdef int i, rc = 0
    for i in range(r.readers):
        if rc == 0:
            rc = cuda.event_synchronize(r.consumed[i])
    return rc


cdef int _after_readers(Transfer* t, const Region* r) noexcept nogil:
    # The copy stream waits.
    cdef int i, rc = 0
    for i in range(r.readers):
        if rc == 0:
            rc = cuda.stream_wait(t.stream, r.consumed[i], 0)
    return rc


cdef void _region_leave(DeviceCore* core, Region* r, bint lost) noexcept nogil:
    if r.memory != 0 and not lost:
        _bury(core, r)
    else:
        _events_destroy(r)


cdef void _region_free(Region* r) noexcept nogil:
    cuda.memory_free(r.memory)
    _events_destroy(r)


cdef Transfer* transfer_new(DeviceCore* core, const HostSource* source, int32_t buffers, int64_t nbytes, const Widen* widen,
                            Failure* failure) noexcept nogil:
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
    t.where = <uint32_t*>calloc(buffers, sizeof(uint32_t))
    t.idle = <uint32_t*>calloc(buffers, sizeof(uint32_t))
    t.free.next = <Atomic[uint32_t]*>alloc_lines(buffers * sizeof(uint32_t))
    if (t.shared == NULL or t.runner == NULL or t.slots == NULL or t.flights == NULL or t.where == NULL or t.idle == NULL
            or t.free.next == NULL):
        _transfer_free(t)
        return NULL
    t.shared.refs.store(1, kRelaxed)  # relaxed: nobody else knows of it yet
    t.free.count = buffers
    t.runner.step = _step
    t.runner.release = _release
    t.runner.context = t
    _sweep(core, KEPT_BYTES)
    well = not _failed(t, _enter(core, &e), "cuCtxSetCurrent", 0)
    if well:
        well = not _failed(t, cuda.stream_create(&t.stream, kCuStreamNonBlocking, -1000), "cuStreamCreateWithPriority", 0)
        i = 0
        while well and i < t.flight_most:
            well = not _failed(t, cuda.event_create(&t.flights[i].copied, kCuEventDisableTiming), "cuEventCreate", 0)
            i += 1
        if well and t.widen.function != NULL and t.widen.nbytes > 0:
            well = _region_take(t, &t.raw, t.widen.nbytes)
        i = 0
        while well and i < buffers:
            well = (not _failed(t, cuda.event_create(&t.slots[i].ready, kCuEventDisableTiming), "cuEventCreate", 0)
                    and _region_take(t, &t.slots[i].region, nbytes))
            i += 1
        _leave(&e)
    if not well:
        failure[0] = t.failure
        _transfer_free(t)
        return NULL
    for i in range(buffers):
        slots_push(&t.free, buffers - 1 - i)
    return t


cdef Grave* _exhume(DeviceCore* core, int64_t nbytes) noexcept nogil:
    # The one that was kept first: its last readers are done soonest.
    cdef Grave* before = NULL
    cdef Grave* g
    turn_take(core.turn)
    g = core.first
    while g != NULL and g.region.capacity != nbytes:
        before = g
        g = g.next
    if g != NULL:
        if before == NULL:
            core.first = g.next
        else:
            before.next = g.next
        if core.last == g:
            core.last = before
        core.kept -= 1
        core.kept_bytes -= nbytes
    turn_give(core.turn)
    return g


cdef void _sweep(DeviceCore* core, int64_t most) noexcept nogil:
    # Frees kept memory beyond so many bytes, the oldest first, as far as its last readers are done.
    cdef Grave* done = NULL
    cdef Grave* before = NULL
    cdef Grave* first
    cdef Grave* last
    cdef Grave* g
    cdef Grave* next
    cdef int64_t nbytes
    cdef int32_t count
    cdef Entered e
    if not _ours(core):
        return
    turn_take(core.turn)
    if core.kept_bytes <= most and core.kept <= KEPT_MOST:
        turn_give(core.turn)
        return
    first, last, nbytes, count = core.first, core.last, core.kept_bytes, core.kept
    core.first = core.last = NULL
    core.kept_bytes = core.kept = 0
    turn_give(core.turn)
    g = first if _enter(core, &e) == 0 else NULL
    while g != NULL and (nbytes > most or count > KEPT_MOST):
        next = g.next
        if _read(&g.region):
            before = g
        else:
            if before == NULL:
                first = next
            else:
                before.next = next
            if last == g:
                last = before
            nbytes -= g.region.capacity
            count -= 1
            g.next = done
            done = g
        g = next
    while done != NULL:
        g = done
        done = g.next
        _region_free(&g.region)
        free(g)
    _leave(&e)
    if first == NULL:
        return
    turn_take(core.turn)  # in front of what came meanwhile
    last.next = core.first
    core.first = first
    if core.last == NULL:
        core.last = last
    core.kept_bytes += nbytes
    core.kept += count
    turn_give(core.turn)


cdef void _bury(DeviceCore* core, Region* r) noexcept nogil:
    # For the next stream. Nobody waits for who reads it yet.
    cdef Grave* g = <Grave*>calloc(1, sizeof(Grave))
    if g == NULL:
        if _readers_end(r) == 0:
            _region_free(r)
        return
    g.region = r[0]
    turn_take(core.turn)
    if core.last == NULL:
        core.first = g
    else:
        core.last.next = g
    core.last = g
    core.kept += 1
    core.kept_bytes += r.capacity
    turn_give(core.turn)


cdef void _transfer_free(Transfer* t) noexcept nogil:
    cdef Entered e
    cdef DeviceSlot* s
    cdef int32_t i
    if t.runner != NULL:
        registry_remove(t.runner)
    # Where there is no way into the context, all that is in it has gone with it.
    if _ours(t.core) and t.slots != NULL and t.flights != NULL and _enter(t.core, &e) == 0:
        for i in range(t.buffers):
            s = &t.slots[i]
            if s.ready != NULL:
                cuda.event_destroy(s.ready)
            _region_leave(t.core, &s.region, t.unsure or s.lost)
        for i in range(t.flight_most):
            if t.flights[i].copied != NULL:
                cuda.event_destroy(t.flights[i].copied)
        _region_leave(t.core, &t.raw, t.unsure)
        if t.stream != NULL:
            cuda.stream_destroy(t.stream)
        _leave(&e)
        _sweep(t.core, KEPT_BYTES)
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
    # release: what this party did is done; acquire, for the last: by all the others, too
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


cdef void _reap(Transfer* t, bint all_) noexcept nogil:
    # Host slots whose copies are done go back, oldest first.
    cdef Flight* f
    cdef int rc
    while t.flight_count > 0:
        f = &t.flights[t.flight_first]
        rc = cuda.event_synchronize(f.copied) if all_ else cuda.event_query(f.copied)
        if rc == kCuNotReady:
            return
        if _failed(t, rc, "cuEventQuery", 0) and not all_:  # it may be on its way still
            return
        t.source.give(t.source.context, f.host)
        t.flight_first = t.flight_first + 1 if t.flight_first + 1 < t.flight_most else 0
        t.flight_count -= 1


cdef bint _grow(Transfer* t, Region* r, int64_t nbytes) noexcept nogil:
    # Its earlier readers may be at work.
    if _failed(t, _readers_end(r), "cuEventSynchronize", 0):
        return False
    if r.memory != 0:
        cuda.memory_free(r.memory)
    r.memory = 0
    r.capacity = 0
    return _region_take(t, r, nbytes)


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
    return cuda.launch(t.widen.function, <unsigned>blocks, 1, 1, <unsigned>t.widen.threads, 1, 1, 0, t.stream, arguments, NULL)


cdef int _copy(Transfer* t, CuPointer to, const HostBatch* batch) noexcept nogil:
    # By the call for several copies where there is one: the other one takes a lock of the whole driver.
    cdef CuCopyAttributes attributes
    cdef CuPointer from_ = <CuPointer><uintptr_t>batch.data
    cdef size_t n = batch.nbytes, first = 0
    if cuda.copy_batch == NULL:
        return cuda.copy_to_device(to, batch.data, n, t.stream)
    memset(&attributes, 0, sizeof(attributes))
    attributes.source_order = kCuSourceOrderStream
    return cuda.copy_batch(&to, &from_, &n, 1, &attributes, &first, 1, t.stream)


cdef bint _send(Transfer* t, const HostBatch* batch, uint32_t slot) noexcept nogil:
    cdef DeviceSlot* s = &t.slots[slot]
    cdef Flight* f
    cdef int32_t at
    if t.flight_count == t.flight_most:
        f = &t.flights[t.flight_first]
        if _failed(t, cuda.event_synchronize(f.copied), "cuEventSynchronize", 0):
            return False
        _reap(t, False)
    at = t.flight_first + t.flight_count
    f = &t.flights[at if at < t.flight_most else at - t.flight_most]
    if t.widen.function == NULL:
        if batch.nbytes > s.region.capacity and not _grow(t, &s.region, batch.nbytes):
            return False
        s.nbytes = batch.nbytes
        if (_failed(t, _after_readers(t, &s.region), "cuStreamWaitEvent", 0)
                or (batch.nbytes > 0 and _failed(t, _copy(t, s.region.memory, batch), "cuMemcpyHtoDAsync", batch.nbytes))
                or _failed(t, cuda.event_record(f.copied, t.stream), "cuEventRecord", 0)):
            return False
    else:  # the copy need not wait for who reads the slot, the kernel does
        s.nbytes = s.region.capacity
        if ((t.next == 0 and _failed(t, _after_readers(t, &t.raw), "cuStreamWaitEvent", 0))  # as kept
                or (batch.nbytes > 0 and _failed(t, _copy(t, t.raw.memory, batch), "cuMemcpyHtoDAsync", batch.nbytes))
                or _failed(t, cuda.event_record(f.copied, t.stream), "cuEventRecord", 0)
                or _failed(t, _after_readers(t, &s.region), "cuStreamWaitEvent", 0)
                or _failed(t, _launch(t, s, batch.rows), "cuLaunchKernel", 0)):
            return False
    if _failed(t, cuda.event_record(s.ready, t.stream), "cuEventRecord", 0):
        return False
    f.host = batch.slot
    t.flight_count += 1
    t.shared.nbytes.fetch_add(batch.nbytes, kRelaxed)  # relaxed: statistics
    if batch.nbytes > 0 and not batch.pinned:
        t.shared.pageable.fetch_add(1, kRelaxed)
    t.where[t.next % <uint64_t>t.buffers] = slot
    t.next += 1
    t.shared.done.store(t.next, kRelease)  # release: pairs with transfer_ready; `where`, the slot's address, and the calls made on it
    event_notify_all(&t.shared.arrived)
    return True


cdef bint _take_slot(Transfer* t, uint32_t* slot) noexcept nogil:
    # The stack gives the last one first; copies into that would wait for the latest reader each time.
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
    # No more will be. Copies that are on their way are waited for: the host's memory may be somebody else's soon.
    if t.entered:
        _reap(t, True)
        t.unsure = cuda.stream_synchronize(t.stream) != 0
    t.shared.over.store(2 if t.failure.result != 0 else 1, kRelease)  # release: pairs with transfer_ready; `failure` was written before
    event_notify_all(&t.shared.arrived)
    return STEP_DONE


cdef int _step(void* context, int32_t worker) noexcept nogil:
    cdef Transfer* t = <Transfer*>context
    cdef HostBatch batch
    cdef uint32_t slot, epoch
    cdef int64_t deadline
    cdef int rc
    if not t.entered:
        if _failed(t, cuda.context_set(t.core.context), "cuCtxSetCurrent", 0):
            return _over(t)
        t.entered = True
    while True:
        if stop_requested(&t.runner.stop):
            return _over(t)
        _reap(t, False)
        _failed(t, t.shared.lost.load(kAcquire), "cuEventRecord", 0)  # acquire: pairs with end_
        if t.failure.result != 0:
            return _over(t)
        deadline = monotonic_ns() + (REAP_NS if t.flight_count > 0 else SLICE_NS)
        rc = t.source.look(t.source.context, t.next, &batch)
        if rc == HOST_END:
            return _over(t)
        if rc == HOST_WAIT:
            t.source.wait(t.source.context, t.next, deadline)
            continue
        if not _take_slot(t, &slot):
            epoch = event_prepare(&t.shared.freed)
            if not _take_slot(t, &slot):
                if stop_requested(&t.runner.stop):
                    event_cancel(&t.shared.freed, epoch)
                else:
                    event_wait(&t.shared.freed, epoch, deadline)
                continue
            event_cancel(&t.shared.freed, epoch)
        if not _send(t, &batch, slot):
            cuda.stream_synchronize(t.stream)
            t.source.give(t.source.context, batch.slot)
            return _over(t)


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


cdef void* _leases = NULL        # all there are, under the GIL; each takes itself out when it goes


cdef DeviceLease transfer_hand(Transfer* t, Device device, uint64_t k, stream, uintptr_t handle, arrays):
    cdef DeviceLease lease = DeviceLease.__new__(DeviceLease)
    cdef DeviceSlot* s
    cdef Failure failure
    cdef Entered e
    global _leases
    lease.device = device
    lease.arrays = arrays
    lease.streams = [stream]
    lease.handles[0] = kCuStreamLegacy if handle == 0 else handle
    lease.readers = 1
    lease.slot = t.where[k % <uint64_t>t.buffers]
    s = &t.slots[lease.slot]
    memset(&failure, 0, sizeof(failure))
    failure.call = "cuStreamWaitEvent"
    failure.result = _enter(t.core, &e)
    if failure.result == 0:
        failure.result = cuda.stream_wait(<void*>lease.handles[0], s.ready, 0)
        _leave(&e)
    if failure.result != 0:
        device.fail(&failure)
    transfer_hold(t)
    t.shared.held.fetch_add(1, kRelaxed)  # relaxed: consumers count under the GIL
    lease.transfer = t
    lease.base = s.region.memory
    lease.size = s.nbytes
    lease.after = _leases
    if _leases != NULL:
        (<DeviceLease>_leases).before = <void*>lease
    _leases = <void*>lease
    return lease


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
@cython.no_gc  # it refers to streams of the user's, and to memory, which know nothing of it: no cycle
cdef class DeviceLease:

    cdef int end_(self) noexcept nogil:
        # The streams that read the slot are done with it once they have come here.
        cdef Transfer* t = self.transfer
        cdef Region* r
        cdef Entered e
        cdef int i, rc
        if t == NULL:
            return 0
        self.transfer = NULL
        self.base = 0
        if not _ours(t.core):
            return 0
        r = &t.slots[self.slot].region
        rc = _enter(t.core, &e)
        if rc == 0:
            for i in range(self.readers):
                if rc == 0:
                    rc = cuda.event_record(r.consumed[i], <void*>self.handles[i])
            _leave(&e)
        r.readers = self.readers
        t.shared.held.fetch_sub(1, kRelaxed)  # relaxed: as in transfer_hand
        if rc == 0:
            slots_push(&t.free, self.slot)
        else:  # nobody knows when it may be written again
            t.slots[self.slot].lost = True
            t.shared.lost.store(rc, kRelease)  # release: pairs with _step
        event_notify_all(&t.shared.freed)
        transfer_drop(t)
        return rc

    cdef bint _gather(self) noexcept nogil:
        # Memory of its own is used again behind its first stream alone: that waits for the others.
        cdef Entered e
        cdef void* event = NULL
        cdef int i, rc = _enter(self.device.core, &e)
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
        _leave(&e)
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
        if self.own is not None and self.readers > 1 and _ours(self.device.core) and not self._gather():
            Py_INCREF(self.own)  # nobody knows when it may be written again

    @property
    def address(self):
        """Where the batch begins in the device's memory."""
        return self.base

    @property
    def nbytes(self):
        """How many bytes it has."""
        return self.size if self.base != 0 else 0

    def end(self):
        """Give the slot back: what the streams got up to now is the last that reads it."""
        self.end_()

    def record_stream(self, stream, uintptr_t handle):
        """Say that another stream reads the batch, too: what it gets up to the lease's end comes before what is written there next.

        Parameters
        ----------
        stream : object
            Kept until the lease's end.
        handle : int
            Of that stream. Its order behind the copy is the caller's to see to.

        Raises
        ------
        InvalidArgumentError
            If the lease is at its end, or as many streams read the batch as can.
        ForkedPipelineError
            In a child of the process that took the batch.
        """
        cdef Failure failure
        cdef Region* r
        cdef Entered e
        cdef int i
        if self.base == 0:
            raise _errors.InvalidArgumentError("this batch is given back already")
        if not _ours(self.device.core):
            raise _errors.ForkedPipelineError("this batch was taken before os.fork(), and exists only in the parent process")
        handle = kCuStreamLegacy if handle == 0 else handle
        for i in range(self.readers):
            if self.handles[i] == handle:
                return
        if self.readers == READERS_MOST:
            raise _errors.InvalidArgumentError(
                f"{READERS_MOST} streams read this batch already, and more than that aren't remembered: let one of them wait for the others")
        if self.transfer != NULL:
            r = &self.transfer.slots[self.slot].region
            if r.consumed[self.readers] == NULL:
                memset(&failure, 0, sizeof(failure))
                failure.call = "cuEventCreate"
                failure.result = _enter(self.device.core, &e)
                if failure.result == 0:
                    failure.result = cuda.event_create(&r.consumed[self.readers], kCuEventDisableTiming)
                    _leave(&e)
                if failure.result != 0:
                    self.device.fail(&failure)
        self.streams.append(stream)
        self.handles[self.readers] = handle
        self.readers += 1

    def copy_to(self, Device device, uintptr_t address, memory=None):
        """Copy the batch to memory on the device, in the order of the stream, and give the slot back.

        `memory`: whose that is, and which is used again in the order of the stream. From now on the lease is one on it, and keeps it.
        """
        cdef Failure failure
        cdef Entered e
        memset(&failure, 0, sizeof(failure))
        failure.call = "cuMemcpyDtoDAsync"
        failure.result = _enter(device.core, &e)
        if failure.result == 0 and self.nbytes > 0:
            failure.nbytes = self.nbytes
            failure.result = cuda.copy_on_device(address, self.base, self.nbytes, <void*>self.handles[0])
            _leave(&e)
        self.end_()
        if failure.result != 0:
            device.fail(&failure)
        if memory is not None:
            self.own = memory
            self.base = address


cdef object thread_refused(int rc):
    return _errors.UnavailableError(
        f"cannot start the thread qc-device: {os.strerror(rc)}. The system's limits are ulimit -u and memory", errno=rc, stage="device")


# Batches that are put together here

cdef extern from *:
    """
    namespace queuecore {
    struct StagingAtomics {
      alignas(kLine) Atomic<int32_t> refs;
      alignas(kLine) Atomic<uint64_t> filled;  // batches
      Atomic<uint32_t> ended;
      EventCount arrived;                      // the transfer waits for a batch
      alignas(kLine) EventCount freed;         // who fills waits for a slot
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

cdef struct Staging:
    StagingAtomics* shared
    DeviceCore* core
    SlotStack free
    StagingSlot* slots
    uint32_t* where
    int32_t count


cdef void _slot_clear(Staging* s, StagingSlot* slot) noexcept nogil:
    if slot.pinned:
        pinned_give(s.core, slot.memory, slot.room)
    else:
        unmap_pages(slot.memory, slot.room)
    slot.memory = NULL
    slot.room = 0


cdef void _staging_drop(void* context) noexcept nogil:
    cdef Staging* s = <Staging*>context
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


cdef Staging* _staging_new(DeviceCore* core, int32_t count) noexcept nogil:
    cdef Staging* s = <Staging*>calloc(1, sizeof(Staging))
    cdef int32_t i
    if s == NULL:
        return NULL
    s.core = core
    s.shared = <StagingAtomics*>alloc_lines(sizeof(StagingAtomics))
    s.slots = <StagingSlot*>calloc(count, sizeof(StagingSlot))
    s.where = <uint32_t*>calloc(count, sizeof(uint32_t))
    s.free.next = <Atomic[uint32_t]*>alloc_lines(count * sizeof(uint32_t))
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
    cdef Staging* s = <Staging*>context
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
    cdef Staging* s = <Staging*>context
    slots_push(&s.free, slot)
    event_notify_all(&s.shared.freed)


cdef void _staging_wait(void* context, uint64_t k, int64_t deadline_ns) noexcept nogil:
    cdef Staging* s = <Staging*>context
    cdef uint32_t epoch = event_prepare(&s.shared.arrived)
    # acquire: as in _staging_look
    if s.shared.filled.load(kAcquire) > k or s.shared.ended.load(kAcquire) or s.shared.stopped.load(kAcquire):
        event_cancel(&s.shared.arrived, epoch)
    else:
        event_wait(&s.shared.arrived, epoch, deadline_ns)


# Where a part of a batch lies.
cdef struct StagedPart:
    int64_t offset
    int32_t ndim
    Py_ssize_t[MAX_DIMS] dims

# Why a feed came back.
cdef enum:
    FEED_ON = 0
    FEED_STOPPED = 1
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
    cdef Staging* staging
    cdef Transfer* transfer
    cdef bint prefer, warned
    cdef uint64_t put_, taken
    cdef StagedPart* parts    # of each batch that `feed` put and nobody took: published with it
    cdef int part_count, layouts

    def __init__(self, Device device, int buffers, bint prefer=False):
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
            if _ours(self.device_core()):
                self.stop_()
            transfer_drop(self.transfer)
        if self.staging != NULL:
            _staging_drop(self.staging)
        free(self.parts)

    cdef DeviceCore* device_core(self) noexcept nogil:
        return self.transfer.core

    cdef void stop_(self) noexcept nogil:
        self.staging.shared.stopped.store(1, kRelease)  # release: pairs with put()
        transfer_stop(self.transfer)
        event_notify_all(&self.staging.shared.arrived)
        event_notify_all(&self.staging.shared.freed)

    def stop(self):
        """End all waits, and the thread."""
        self.stop_()

    def join(self, double seconds):
        """Wait for the end of the thread. False: it goes on."""
        cdef bint quiet
        cdef int64_t deadline = monotonic_ns() + <int64_t>(seconds * 1e9)
        with nogil:
            quiet = runner_join(self.transfer.runner, deadline)
        return quiet

    cdef bint _stopped(self) noexcept nogil:
        # acquire: pairs with stop_ and _over
        return self.staging.shared.stopped.load(kAcquire) != 0 or self.transfer.shared.over.load(kAcquire) != 0

    cdef bint _slot(self, uint32_t* slot) noexcept nogil:
        # Waits for one. False: a slice of time is over, or it is stopped.
        cdef Staging* s = self.staging
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
            warn(f"{slot.room} bytes of host memory can't be page-locked for cuda:{self.device.ordinal}: copies from there are slower. "
                 "Raise the limit (ulimit -l), or use smaller batches", 1)
        return 0

    cdef void _filled(self, uint32_t slot, int64_t nbytes) noexcept nogil:
        self.staging.slots[slot].nbytes = nbytes
        self.staging.where[self.put_ % <uint64_t>self.staging.count] = slot
        self.put_ += 1
        self.staging.shared.filled.store(self.put_, kRelease)  # release: pairs with _staging_look
        event_notify_all(&self.staging.shared.arrived)

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
        cdef StagingSlot* at
        cdef size_t total = 0
        cdef bint got
        cdef Failure failure
        cdef cnp.ndarray array
        cdef list offsets = []
        cdef void* from_
        cdef void* to
        cdef size_t nbytes
        for i in range(n):
            array = arrays[i]
            if not cnp.PyArray_IS_C_CONTIGUOUS(array):
                raise ValueError("an array isn't contiguous")
            offsets.append(total)
            total += (<size_t>cnp.PyArray_NBYTES(array) + ALIGNED - 1) // ALIGNED * ALIGNED
        while True:
            with nogil:
                got = self._slot(&slot)
            if got:
                break
            wait_out_exit()
            if self._stopped():
                return None
        at = &self.staging.slots[slot]
        try:
            with nogil:
                got = self._room(at, total, &failure)
            if not got:
                self.device.fail(&failure)
            self._warn(at)
        except BaseException:
            slots_push(&self.staging.free, slot)
            raise
        for i in range(n):
            array = arrays[i]
            from_ = cnp.PyArray_DATA(array)
            to = <unsigned char*>at.memory + <size_t>offsets[i]
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
        queue._refuse()
        # Batches that are put and not taken yet: at most as many as there are slots here and on the device.
        self.layouts = self.staging.count + self.transfer.buffers
        self.part_count = queue.part_count
        self.parts = <StagedPart*>calloc(self.layouts * self.part_count, sizeof(StagedPart))
        if self.parts == NULL:
            raise MemoryError
        while rc == FEED_ON:
            with nogil:
                rc = self._feed(queue, stop, &slot, &failure)
            wait_out_exit()
            if rc == FEED_ON:
                self._warn(&self.staging.slots[slot])
        if rc == FEED_FAILED:
            self.device.fail(&failure)
        if rc == FEED_CLOSED:
            error = queue._too_few(1)
            if error.__cause__ is not None:
                raise error

    cdef int _feed(self, NativeQueue queue, StopEvent stop, uint32_t* slot, Failure* failure) noexcept nogil:
        # Until somebody has to be warned of the slot, or the end.
        cdef uint32_t element
        cdef StagedPart* parts
        cdef const void* data
        cdef const Py_ssize_t* dims
        cdef int64_t nbytes, total
        cdef int i, rc
        while True:
            while not self._slot(slot):
                if self._stopped() or exiting():
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
                if nbytes > 0:  # else there may be no memory at all
                    memcpy(<unsigned char*>self.staging.slots[slot[0]].memory + parts[i].offset, data, nbytes)
            queue.slot_give(element)
            self._filled(slot[0], total)
            if not self.warned and not self.staging.slots[slot[0]].pinned:
                return FEED_ON

    def layout(self):
        """Return, of the batch that `wait` waited for and `feed` handed in, where each part begins, and its shape."""
        cdef StagedPart* part = self.parts + (self.taken % <uint64_t>self.layouts) * self.part_count
        cdef list found = []
        cdef int i
        for i in range(self.part_count):
            found.append((part[i].offset, tuple([part[i].dims[j] for j in range(part[i].ndim)])))
        return found

    def end(self):
        """Say that there are no more batches."""
        self.staging.shared.ended.store(1, kRelease)  # release: pairs with _staging_look
        event_notify_all(&self.staging.shared.arrived)

    def wait(self):
        """Wait until the next batch is on its way to the device. False: there is none."""
        cdef Transfer* t = self.transfer
        cdef uint32_t over
        if not _ours(t.core):
            raise _errors.ForkedPipelineError("this was made before os.fork(), and exists only in the parent process")
        while not transfer_ready(t, self.taken):
            over = t.shared.over.load(kAcquire)  # acquire: pairs with _over
            if over != 0:
                if transfer_ready(t, self.taken):
                    break
                if over == 2:
                    self.device.fail(&t.failure)
                wait_out_exit()
                return False
            with nogil:
                transfer_wait(t, self.taken, monotonic_ns() + SLICE_NS)
            PyErr_CheckSignals()
        return True

    def next_bytes(self):
        """How many bytes the batch has that `wait` waited for."""
        return self.transfer.slots[self.transfer.where[self.taken % <uint64_t>self.transfer.buffers]].nbytes

    def take(self, stream, uintptr_t handle, arrays=None):
        """Return the lease of the batch that `wait` waited for.

        Parameters
        ----------
        stream : object
            Kept until the lease's end.
        handle : int
            Of that stream: what it gets from now on comes after the copy.
        arrays : Arrays, optional
            What makes arrays of the batch; the lease says so.
        """
        lease = transfer_hand(self.transfer, self.device, self.taken, stream, handle, arrays)
        self.taken += 1
        return lease

    def stats(self):
        """Return counters: bytes, batches from memory that isn't page-locked, and batches that are held."""
        cdef TransferAtomics* s = self.transfer.shared
        return {"device_bytes": s.nbytes.load(kRelaxed), "pageable_copies": s.pageable.load(kRelaxed), "device_leases": s.held.load(kRelaxed)}


# Devices

cdef object _driver = None       # None: not looked for yet; else why there is none that can be used
cdef bint _found = False
cdef dict _devices = {}
cdef str _PCI = "/sys/bus/pci/devices"
cdef str _pci = _PCI
cdef object _opening = threading.Lock()


def open_driver(str path=None, str pci=_PCI):
    """Find the CUDA driver, once in the process; or, by its path, another one than the usual, after `close_driver`.

    Parameters
    ----------
    path : str, optional
        Of the library.
    pci : str
        Where the system describes its PCI devices.

    Raises
    ------
    DeviceUnavailableError
        If there is none, or none that can be used.
    """
    global _driver, _found, _pci
    cdef void* library
    cdef const char* missing = NULL
    cdef int rc
    with _opening:
        if _driver is None:
            _pci = pci
            library = dlopen((path or "libcuda.so.1").encode(), RTLD_NOW | RTLD_LOCAL)
            if library != NULL:
                missing = cuda_find(library)
            if library == NULL:
                _driver = f"there is no CUDA driver ({dlerror().decode()})"
            elif missing != NULL:
                _driver = f"the CUDA driver is too old: it has no {missing.decode()}"
            else:
                with nogil:
                    rc = cuda.init(0)
                _found = rc == 0
                _driver = "" if rc == 0 else _unusable(rc)
        if not _found:
            raise _errors.DeviceUnavailableError(_driver)


cdef str _unusable(int result):
    if result == kCuNoDevice:
        return "the CUDA driver finds no device"
    if result == kCuStubLibrary:
        return "libcuda.so.1 is the toolkit's stub, and not a driver"
    return f"cuInit failed: {_text(result)}"


cdef void _give_idle() noexcept nogil:
    # Page-locked memory that nobody uses.
    cdef Block block
    while True:
        turn_take(&_idle_turn)
        block.p = NULL
        if _idle_count > 0:
            block = _idle_remove(0)
        turn_give(&_idle_turn)
        if block.p == NULL:
            return
        _unlock(block)


def close_driver():
    """Give back all that is kept, and forget the driver. No batch, and nothing that makes one, may be used any more."""
    global _driver, _found
    cdef DeviceCore* core
    with _opening:
        _give_idle()
        for one in _devices.values():
            core = (<Device>one).core
            if _ours(core):
                _sweep(core, 0)
                cuda.context_release(core.device)
        _devices.clear()
        _driver = None
        _found = False


cdef str _text(int result):
    cdef const char* name = NULL
    cdef const char* text = NULL
    cuda.error_name(result, &name)
    cuda.error_text(result, &text)
    return f"{'unknown' if name == NULL else name.decode()} ({result}): {'' if text == NULL else text.decode()}"


def device(int ordinal):
    """Return a device, which is opened once in the process. As `open_driver`; also if there is no such device."""
    with _opening:
        found = _devices.get(ordinal)
    if found is None:
        open_driver()
        with _opening:
            found = _devices.get(ordinal)
            if found is None:
                found = _devices[ordinal] = Device(ordinal)
    elif not _ours((<Device>found).core):
        raise _errors.ForkedPipelineError(
            "CUDA was in use before os.fork(), and can't be used in the child: start processes with 'spawn', or use device='cpu' there")
    return found


@cython.final
cdef class Device:
    """A GPU, and its primary context, which CuPy, PyTorch and JAX use as well.

    Attributes
    ----------
    ordinal : int
    name : str
    driver_version : int
    numa_node : int or None
        Of the host, whose memory is nearest: page-locked memory is asked for there.
    """

    def __init__(self, int ordinal):
        cdef char[256] name
        cdef int rc, count = 0
        self.ordinal = ordinal
        self.core = <DeviceCore*>calloc(1, sizeof(DeviceCore))
        if self.core == NULL:
            raise MemoryError
        self.core.turn = <Turn*>alloc_lines(sizeof(Turn))
        if self.core.turn == NULL:
            raise MemoryError
        self.core.ordinal = ordinal
        self.core.generation = fork_generation()
        rc = cuda.device_get(&self.core.device, ordinal)
        if rc != 0:
            cuda.device_count(&count)
            raise _errors.DeviceUnavailableError(f"there is no device cuda:{ordinal}: {_text(rc)}; {count} can be used")
        name[0] = 0
        cuda.device_name(name, 255, self.core.device)
        self.name = name.decode(errors="replace")
        cuda.driver_version(&self.driver_version)
        with nogil:
            rc = cuda.context_retain(&self.core.context, self.core.device)
        if rc != 0:
            raise _errors.DeviceUnavailableError(f"cuda:{ordinal} can't be used: {_text(rc)}")
        self.numa_node = self._node()
        self.core.node = -1 if self.numa_node is None else self.numa_node

    cdef object _node(self):
        cdef char[64] bus
        bus[0] = 0
        if cuda.device_bus == NULL or cuda.device_bus(bus, 63, self.core.device) != 0:
            return None
        try:
            with open(f"{_pci}/{bus.decode('ascii').lower()}/numa_node", encoding="ascii") as file:
                node = int(file.read())
        except (OSError, ValueError):
            return None
        return node if 0 <= node < 1024 else None  # -1: there is only one

    # Its core stays: memory and leases of it may be anywhere.

    def __repr__(self):
        return f"<Device cuda:{self.ordinal} {self.name!r}>"

    def free_kept(self):
        """Free the device's memory that is kept for later streams and that nobody reads any more: others need it."""
        with nogil:
            _sweep(self.core, 0)

    cdef int fail(self, const Failure* failure) except -1:
        if failure.result == 0:
            raise MemoryError
        call = failure.call.decode()
        if failure.result == kCuOutOfMemory and call == "cuMemHostRegister":
            raise _errors.ResourceExhaustedError(
                f"{failure.nbytes} bytes of host memory can't be page-locked for cuda:{self.ordinal} ({_text(failure.result)}): raise the "
                "limit (ulimit -l), use smaller batches or fewer of them ahead, or allow slower copies with pinned='prefer'")
        if failure.result == kCuOutOfMemory:
            raise _errors.ResourceExhaustedError(
                f"no memory for {failure.nbytes} bytes on cuda:{self.ordinal} ({call}): use fewer buffers or smaller batches, or free some")
        raise _errors.InternalError(f"{call} failed on cuda:{self.ordinal}: {_text(failure.result)}")


def _shutdown():
    # Before the driver ends. What is in use goes with the process.
    with nogil:
        _give_idle()


atexit.register(_shutdown)
