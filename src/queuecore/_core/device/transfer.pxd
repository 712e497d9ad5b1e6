# Copies host batches to a device's memory, with one native thread for each stream of batches.
#
#   host slot --copy--> device slot --hand-off--> consumer's stream --lease's end--> free
#
# Three events say three things: `copied`, the host slot may be written again; `ready`, the batch may be read;
# `consumed`, one for each stream that reads it, the device slot may be written again. The copy stream is ordered by
# itself; on the host only `copied` is looked at.
#
# transfer_new, transfer_start, transfer_stop: one Python thread. Everything in the step: the transfer's thread alone.
# transfer_ready, transfer_wait: the consumer, one thread at a time. transfer_hold, transfer_drop: any thread, without
# waiting.
#   I1  A host slot is given back once the event behind its copy is complete, oldest first.
#   I2  A device slot is free, on its way, or leased. `where` names the slot of batch k until batch k + width is on its
#       way, for which the consumer must be done with k. Batches that nobody gets have numbers and no slots, so that
#       `buffers` numbers don't do.
#   I3  The first failed call ends the transfer: the copies under way are drained, every host slot goes back, and the
#       consumer's error names the call.
from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t
from queuecore._core.device.driver cimport DeviceCore, Failure, Region
from queuecore._core.atoms.platform cimport Atomic, EventCount, Runner, SlotStack
from queuecore._core.atoms.timeline cimport Line, LinePtr

cdef enum:
    SLICE_NS = 50000000      # Python's main thread looks for signals this often, and the transfer whether it is to end

# Answers of a source.
cdef enum:
    HOST_READY = 0
    HOST_WAIT = 1            # nothing yet
    HOST_END = 2             # nothing more
    HOST_SKIP = 3            # nobody gets this one

cdef struct HostBatch:
    const unsigned char* data
    int64_t nbytes
    int64_t rows
    uint32_t slot
    bint pinned

# A kernel between the copy and the device slot, called as `function(in, out, rows)`.
cdef struct Widen:
    void* function           # NULL: none
    int64_t nbytes           # most bytes of the input
    int64_t items            # items of the largest output, for each row
    int64_t threads          # in a block
    int64_t blocks           # most blocks

# The source of batches. The transfer's thread calls all functions but `drop`.
cdef struct HostSource:
    void* context
    uint64_t width           # batches that it may show while the consumer isn't done with the first of them
    int (*look)(void* context, uint64_t k, HostBatch* batch) noexcept nogil
    void (*give)(void* context, uint32_t slot) noexcept nogil        # the copy has read the slot
    void (*wait)(void* context, uint64_t k, int64_t deadline_ns) noexcept nogil
    void (*drop)(void* context) noexcept nogil                       # called by the last holder

cdef struct DeviceSlot:
    Region region
    int64_t nbytes
    void* ready
    bint lost                # its lease couldn't say when its readers are done

cdef struct Flight:
    uint32_t host
    void* copied
    int64_t begun, nbytes    # of the copy
    uint64_t batch

cdef extern from *:
    """
    namespace queuecore {
    struct TransferAtomics {
      alignas(kLine) Atomic<int32_t> refs;
      alignas(kLine) Atomic<uint64_t> done;    // batches that are on their way
      Atomic<uint32_t> over;                   // 1: no more batches will come; 2: a call failed
      EventCount arrived;                      // the consumer waits for a batch
      alignas(kLine) EventCount freed;         // the transfer waits for a device slot
      alignas(kLine) Atomic<int64_t> nbytes;   // statistics
      Atomic<int64_t> pageable;
      Atomic<int32_t> held;                    // device slots that are leased
      Atomic<int32_t> lost;                    // the driver's result for a lease that could not end
      Atomic<Line*> line;                      // where the transfer notes its copies; NULL: nowhere
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
        Atomic[LinePtr] line

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
    Region raw               # the kernel's input; only the copy stream uses it
    Failure failure          # published by `over`
    int32_t run              # number of the source's run, for the line; set before the start
    # the transfer's thread alone
    bint entered
    bint unsure              # it is unknown whether all copies are done
    uint64_t next
    # free slots, in the order in which they were freed: the first one's readers are done soonest
    uint32_t* idle
    int32_t idle_first, idle_count
    Flight* flights
    int32_t flight_first, flight_count, flight_most

# nbytes: size of a device slot at first. NULL: *failure says why. Takes over the source either way.
cdef Transfer* transfer_new(DeviceCore* core, const HostSource* source, int32_t buffers, int64_t nbytes,
                            const Widen* widen, Failure* failure) noexcept nogil
cdef int transfer_start(Transfer* t) noexcept nogil
# Has the transfer note its copies from now on, or no longer (NULL). The line lives as long as the source.
cdef void transfer_trace(Transfer* t, Line* line) noexcept nogil
cdef object thread_refused(int rc)
cdef void transfer_stop(Transfer* t) noexcept nogil
cdef void transfer_hold(Transfer* t) noexcept nogil
cdef void transfer_drop(Transfer* t) noexcept nogil
cdef bint transfer_ready(Transfer* t, uint64_t k) noexcept nogil
# Returns the slot of batch k, which is ready and not skipped.
cdef inline uint32_t transfer_slot(const Transfer* t, uint64_t k) noexcept nogil:
    return t.where[k % t.source.width]
# Waits until batch k is on its way, nothing more comes, or the deadline passes.
cdef void transfer_wait(Transfer* t, uint64_t k, int64_t deadline_ns) noexcept nogil
