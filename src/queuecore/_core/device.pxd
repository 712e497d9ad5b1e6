# The device plane: host batches to a device's memory, by one native thread for each stream of batches.
#
#   host slot --copy--> device slot --hand-off--> consumer's stream --lease's end--> free
#
# Three events say three things: `copied`, the host slot may be written again; `ready`, the batch may be read; `consumed`, one for each
# stream that reads it, the device slot may be written again. The copy stream is ordered by itself; nobody waits on the host for any of them but for `copied`.
#
# transfer_new, transfer_start, transfer_stop: one Python thread. Everything in the step: the transfer's thread alone. transfer_ready,
# transfer_wait, transfer_hand: the consumer, one thread at a time. What a lease does: any thread, under the GIL. transfer_drop: any
# thread, without waiting.
#   I1  A host slot is given back once the event behind its copy is complete, oldest first.
#   I2  A device slot is free, on its way, or leased. `where` names the slot of batch k until k + buffers is on its way, which needs a
#       slot that k's lease gave back.
#   I3  The first failed call ends the transfer: what was on its way before is drained, every host slot goes back, and the consumer
#       hears which call it was.
#   I4  A device's memory is kept when its stream ends, with the events behind its last readers, and goes to one stream at a time. It is
#       freed once these are complete, and not before; nobody waits for that on the host.
#   I5  Memory of which the driver can't say any more whether it is in use is neither freed nor used again. Its context is broken then.
#   I6  In a forked child no function of the driver is called.
from libc.stddef cimport size_t
from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t, uintptr_t
from queuecore._core.platform cimport Atomic, EventCount, Runner, SlotStack, Turn

ctypedef unsigned long long CuPointer

cdef enum:
    READERS_MOST = 5         # streams that read a batch: the one that it was handed to, and those that are named later

# What a source answers.
cdef enum:
    HOST_READY = 0
    HOST_WAIT = 1            # nothing yet
    HOST_END = 2             # nothing more

cdef struct HostBatch:
    const unsigned char* data
    int64_t nbytes
    int64_t rows
    uint32_t slot
    bint pinned

# A kernel between the copy and the device slot: `function(in, out, rows)`.
cdef struct Widen:
    void* function           # NULL: none
    int64_t nbytes           # of the input, at most
    int64_t items            # of the largest output, a row
    int64_t threads          # in a block
    int64_t blocks           # at most

# Where batches come from. All but `drop` are called by the transfer's thread.
cdef struct HostSource:
    void* context
    int (*look)(void* context, uint64_t k, HostBatch* batch) noexcept nogil
    void (*give)(void* context, uint32_t slot) noexcept nogil        # the copy has read it
    void (*wait)(void* context, uint64_t k, int64_t deadline_ns) noexcept nogil
    void (*drop)(void* context) noexcept nogil                       # by whoever is last

cdef struct DeviceCore:
    int32_t ordinal
    int device
    void* context
    int32_t node             # the memory of the host that it is near to; -1: not known
    uint64_t generation      # of the process that opened it
    Turn* turn
    # under the turn: memory of streams that have ended, the oldest in front, for streams that want as much
    Grave* first
    Grave* last
    int32_t kept
    int64_t kept_bytes

# Memory on the device, and the end of its last readers: who writes there waits for them on the device, also as another stream's.
# A lease's own until it gives the slot back, then of who has the slot.
cdef struct Region:
    CuPointer memory
    int64_t capacity
    int32_t readers          # whose events count: the first always does; of further ones, as many as the last lease had
    void* consumed[READERS_MOST]

cdef struct Grave:
    Region region
    Grave* next

cdef struct DeviceSlot:
    Region region
    int64_t nbytes
    void* ready
    bint lost                # by a lease that couldn't say when its readers are done

cdef struct Flight:
    uint32_t host
    void* copied

cdef extern from *:
    """
    namespace queuecore {
    struct TransferAtomics {
      alignas(kLine) Atomic<int32_t> refs;
      alignas(kLine) Atomic<uint64_t> done;    // batches that are on their way
      Atomic<uint32_t> over;                   // 1: no more will be; 2: a call failed
      EventCount arrived;                      // who consumes waits for it
      alignas(kLine) EventCount freed;         // the transfer waits for a device slot
      alignas(kLine) Atomic<int64_t> nbytes;   // statistics
      Atomic<int64_t> pageable;
      Atomic<int32_t> held;                    // device slots that are leased
      Atomic<int32_t> lost;                    // what the driver said where a lease could not end
    };
    }  // namespace queuecore
    """
    cppclass TransferAtomics "queuecore::TransferAtomics":
        Atomic[int32_t] refs
        Atomic[uint64_t] done
        Atomic[uint32_t] over
        EventCount arrived
        EventCount freed
        Atomic[int64_t] nbytes
        Atomic[int64_t] pageable
        Atomic[int32_t] held
        Atomic[int32_t] lost

cdef struct Failure:
    int result
    const char* call
    int64_t nbytes

cdef struct Transfer:
    TransferAtomics* shared
    DeviceCore* core
    HostSource source
    Runner* runner
    SlotStack free
    DeviceSlot* slots
    uint32_t* where
    int32_t buffers
    void* stream
    Widen widen
    Region raw               # what the kernel reads; only the copy stream uses it
    Failure failure          # published by `over`
    # the transfer's thread alone
    bint entered
    bint unsure              # whether all copies are done: nobody knows
    uint64_t next
    uint32_t* idle           # free slots, the one that was freed first in front: its readers are done soonest
    int32_t idle_first, idle_count
    Flight* flights
    int32_t flight_first, flight_count, flight_most

# nbytes: of a device slot at first. NULL: *failure says why. Takes the source over either way.
cdef Transfer* transfer_new(DeviceCore* core, const HostSource* source, int32_t buffers, int64_t nbytes, const Widen* widen,
                            Failure* failure) noexcept nogil
cdef int transfer_start(Transfer* t) noexcept nogil
cdef object thread_refused(int rc)
cdef void transfer_stop(Transfer* t) noexcept nogil
cdef void transfer_hold(Transfer* t) noexcept nogil
cdef void transfer_drop(Transfer* t) noexcept nogil
cdef bint transfer_ready(Transfer* t, uint64_t k) noexcept nogil
# Until batch k is on its way, nothing more comes, or the deadline passes.
cdef void transfer_wait(Transfer* t, uint64_t k, int64_t deadline_ns) noexcept nogil

# Page-locked memory, page-aligned, on the device's node if there is room. NULL: *result says why; 0 there is no memory at all.
cdef void* pinned_take(DeviceCore* core, size_t nbytes, int* result) noexcept nogil
cdef void pinned_give(DeviceCore* core, void* p, size_t nbytes) noexcept nogil


cdef class Device:
    cdef DeviceCore* core
    cdef readonly int ordinal
    cdef readonly str name
    cdef readonly int driver_version
    cdef readonly object numa_node

    cdef object _node(self)
    # Raises the exception of a call that failed.
    cdef int fail(self, const Failure* failure) except -1


cdef class DeviceLease:
    """A consumer's hold on a batch in a device's memory: in a slot, or in memory of its own, to which it was copied."""
    cdef Device device
    cdef Transfer* transfer   # NULL: there is no slot any more
    cdef uint32_t slot
    cdef int32_t readers
    cdef uintptr_t[READERS_MOST] handles
    cdef list streams         # kept for the records at the end
    cdef readonly object arrays
    cdef CuPointer base       # 0: at its end
    cdef int64_t size
    cdef object own           # memory of its own
    cdef void* before         # all leases, under the GIL
    cdef void* after

    cdef int end_(self) noexcept nogil
    cdef bint _gather(self) noexcept nogil


# Batch k, after whose copy the stream is ordered from now on. arrays: what makes arrays of it.
cdef DeviceLease transfer_hand(Transfer* t, Device device, uint64_t k, stream, uintptr_t handle, arrays)
