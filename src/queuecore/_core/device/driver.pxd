# The CUDA driver, which is found at run time, and its devices.
#
# The table `cuda` is written once, while nobody has a device; who has one calls its functions from any thread, with or without the GIL.
# What a call needs is that the device's context is this thread's: `enter` and `leave` around it, in threads that aren't ours.
#   I1  In a forked child no function of the driver is called: who may be in one asks `ours` first.
#   I2  A device's core is never freed, because memory and leases of it may be anywhere.
from libc.stddef cimport size_t
from libc.stdint cimport int32_t, int64_t, uint64_t, uintptr_t
from queuecore._core.atoms.process cimport fork_generation
from queuecore._core.atoms.platform cimport Turn

ctypedef unsigned long long CuPointer

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
    const uintptr_t kCuStreamPerThread

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

cdef Cuda cuda

cdef enum:
    READERS_MOST = 5         # streams that read a batch: the one that it was handed to, and those that are named later

# Memory on the device, and the end of its last readers: who writes there waits for them on the device, also as another stream's.
# A lease's own until it gives the slot back, then of who has the slot.
cdef struct Region:
    CuPointer memory
    int64_t capacity
    int32_t readers          # whose events count: the first always does; of further ones, as many as the last lease had
    void* consumed[READERS_MOST]

cdef struct KeptRegion:
    Region region
    KeptRegion* next

# Memory of streams that have ended, the oldest in front, for streams that want as much (memory.pxd).
cdef struct KeptMemory:
    Turn* turn
    # under the turn
    KeptRegion* first
    KeptRegion* last
    int32_t count
    int64_t nbytes

cdef struct DeviceCore:
    int32_t ordinal
    int device
    void* context
    int32_t node             # the memory of the host that it is near to; -1: not known
    uint64_t generation      # of the process that opened it
    KeptMemory kept

# A call of the driver that failed. No result: there is no memory on the host.
cdef struct Failure:
    int result
    const char* call
    int64_t nbytes

cdef struct Entered:
    bint switched
    void* before


# The device's context, in this thread, which may be anybody's; `leave` puts back the one before.
cdef int enter(DeviceCore* core, Entered* e) noexcept nogil
cdef void leave(Entered* e) noexcept nogil


cdef inline bint ours(const DeviceCore* core) noexcept nogil:
    return core.generation == fork_generation()


cdef inline bint failed(Failure* failure, int result, const char* call, int64_t nbytes) noexcept nogil:
    # True if a call did, which is noted: the first one counts.
    if result == 0:
        return False
    if failure.result == 0:
        failure.result = result
        failure.call = call
        failure.nbytes = nbytes
    return True


cdef class Device:
    cdef DeviceCore* core
    cdef readonly int ordinal
    cdef readonly str name
    cdef readonly int driver_version
    cdef readonly object numa_node

    cdef object _node(self)
    # Raises the exception of a call that failed.
    cdef int fail(self, const Failure* failure) except -1


cdef list opened_devices()
# Gives the contexts back. No device may be used any more.
cdef int forget_driver() except -1
