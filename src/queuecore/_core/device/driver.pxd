# The CUDA driver, which is found at run time, and its devices.
#
# The table `cuda` is written once, while no code has a device; code that has a device calls the table's functions from
# any thread, with or without the GIL. A call needs the device's context to be current in its thread: threads that
# aren't ours call `enter` and `leave` around it.
#   I1  In a forked child no function of the driver is called: code that may run in a child asks `ours` first.
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
        int (*launch)(void*, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void*, void**,
                      void**) noexcept
        int (*error_name)(int, const char**) noexcept
        int (*error_text)(int, const char**) noexcept

cdef Cuda cuda

cdef enum:
    READERS_MOST = 5         # streams that read a batch: the one that received it, and those named later

# Memory on the device, and the events at the end of its last readers: a writer's stream waits for these on the device,
# also if the memory then belongs to another stream. A region belongs to the lease until that gives the slot back, then
# to the slot's owner.
cdef struct Region:
    CuPointer memory
    int64_t capacity
    # number of events that count: the first always does, and one for each further reader of the last lease
    int32_t readers
    void* consumed[READERS_MOST]

cdef struct KeptRegion:
    Region region
    KeptRegion* next

# Memory of streams that have ended, the oldest first, for streams that want the same size (memory.pxd).
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
    int32_t node             # NUMA node of the nearest host memory; -1: not known
    uint64_t generation      # fork generation of the process that opened it
    KeptMemory kept

# A driver call that failed. Result 0: there is no memory on the host.
cdef struct Failure:
    int result
    const char* call
    int64_t nbytes

cdef struct Entered:
    bint switched
    void* before


# Makes the device's context current in this thread, which may be any thread; `leave` restores the one before.
cdef int enter(DeviceCore* core, Entered* e) noexcept nogil
cdef void leave(Entered* e) noexcept nogil


cdef inline bint ours(const DeviceCore* core) noexcept nogil:
    return core.generation == fork_generation()


cdef inline bint failed(Failure* failure, int result, const char* call, int64_t nbytes) noexcept nogil:
    # True if the call failed; the first failure is recorded.
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
# Gives the contexts back. No device may be used afterwards.
cdef int forget_driver() except -1
