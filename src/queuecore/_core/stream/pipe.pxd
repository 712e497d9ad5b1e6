# One run of a plan: files to batches. A Pipe is shared by its workers, its iterator and the leases on its slots, and goes with the
# last of them.
#
# Claiming holds the turn: pull runs from the order program, note where they go. Executing holds nothing: read, split, publish.
#   I1  Slots bind to rising k. A claimed unit can run at once: it waits for nothing but the disk.
#   I2  A batch's rows are written by exactly one unit each; `missing` counts them down.
#   I3  A unit that the consumer could not finish without the disk goes back to the workers, whole parts done staying done.
from libc.stddef cimport size_t
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from queuecore._core.atoms.platform cimport Atomic, Batch, EventCount, Fault, Leaf, Runner, Slab, StepFn, Turn, Window, iovec
from queuecore._core.io.blocks cimport Blocks, Place, RecordBlock
from queuecore._core.steps.decode cimport Layout
from queuecore._core.device.driver cimport DeviceCore
from queuecore._core.order.lengths cimport Lengths
from queuecore._core.order.op cimport Break, OpSpec, Order, Start
from queuecore._core.order.runs cimport Missing, RunList
from queuecore._core.atoms.growing cimport Growing
from queuecore._core.stream.rows cimport Maker, Output, Scratch
from queuecore._core.io.sources cimport FileTable

cdef enum:
    # What a unit does.
    UNIT_ROWS = 0          # makes rows of batches
    UNIT_LOAD = 1          # reads records into the store
    UNIT_DISCOVER = 2      # opens and measures a file
    UNIT_PIECE = 3         # reads a piece of a file, and finds its records
    UNIT_MOVE = 4          # copies what a shuffle keeps of a block

cdef enum:
    # Batch.failed
    BATCH_FAILED = 1       # it has a record that can't be made or read; the next run does without
    BATCH_BREAK = 3        # it is no batch but an element's error

cdef struct Segment:
    Batch* batch
    uint64_t k
    int64_t row
    RunList runs

cdef struct Unit:
    int32_t kind           # UNIT_ROWS ...
    Unit* next
    int64_t file           # to discover
    RecordBlock* piece     # to read
    Scratch scratch
    int64_t nbytes         # of records in blocks, about
    RunList runs           # room for all segments' runs, or for the load
    Segment* segments
    int32_t segment_count
    int32_t segment_at     # segments before it are done
    int64_t rows
    uint32_t* ids          # rows of the store: to gather, or to load into
    int64_t first          # load: for order_loaded
    int64_t good
    Fault fault
    iovec* iov
    unsigned char* stage
    unsigned char* dump
    int64_t file_hint

# A place where the source was cut: after so many elements, before this record.
cdef struct Cut:
    int64_t at
    int64_t pass_
    int64_t ordinal
    int64_t breaks         # of those before it, to be skipped
    Fault fault

# A record that can't be made, and why.
cdef struct Bad:
    Missing place
    int32_t level          # as of Break
    Fault fault

cdef struct Config:
    int64_t batch_rows     # rows of a descriptor: of a whole element, or of a chunk when elements are records
    bint batched
    int32_t threads
    bint help
    int64_t unit_rows
    int64_t unit_segments
    int64_t load_rows
    int64_t width
    int64_t max_leases
    int64_t skip           # elements to leave out at the start
    int64_t store_rows     # 0: no store
    int64_t prefetch       # batches
    bint blocks            # records have no known places
    bint skip_bad          # records that can't be made, and files that can't be read, are left out
    bint tell_bad          # but of such records it is told
    int64_t skip_breaks    # to leave out at the start, besides elements
    int32_t shuffle_level  # operators up to the last one that gives records away in another order, or to others
    int32_t batch_level    # operators before the first batch
    int32_t map_level      # operators before the last map; others are before that
    int32_t retries
    int64_t budget         # bytes of memory; 0: any
    int64_t unit_bytes     # of records in blocks, of one unit
    int64_t stage_most     # records that one unit stages
    int32_t helpers        # units kept for consumers that help
    DeviceCore* core       # where batches go, or NULL
    int64_t buffers        # of them there
    bint prefer            # memory that can't be page-locked will do

cdef extern from *:
    """
    namespace queuecore {
    struct PipeAtomics {
      alignas(kLine) Atomic<int32_t> refs;
      alignas(kLine) Atomic<int32_t> leases;
      alignas(kLine) Atomic<uint64_t> planned;  // batches opened; only a hint to the consumer
      Atomic<int32_t> returned;                 // units given back by the consumer; a hint
      alignas(kLine) Atomic<int64_t> helped;
      alignas(kLine) EventCount room;           // who hands in rows waits for it
      alignas(kLine) Atomic<int64_t> grown;     // bytes of what varies in length
      Atomic<int64_t> largest;                  // of one batch
      Atomic<int64_t> blocks;                   // bytes of blocks
      Atomic<uint32_t> touched;                 // slots that batches have had
    };
    }  // namespace queuecore
    """
    cppclass PipeAtomics "queuecore::PipeAtomics":
        Atomic[int32_t] refs
        Atomic[int32_t] leases
        Atomic[uint64_t] planned
        Atomic[int32_t] returned
        Atomic[int64_t] helped
        EventCount room
        Atomic[int64_t] grown
        Atomic[int64_t] largest
        Atomic[int64_t] blocks
        Atomic[uint32_t] touched

cdef struct Pipe:
    PipeAtomics* shared
    Atomic[int32_t]* pipes # of one iterator that are not freed yet
    Turn* turn
    Runner* runner
    Window* window
    Slab* slab
    bint pinned            # the slab is
    int pin_result         # why it could not be, by the driver's number
    FileTable* table
    Order* order
    Blocks* blocks         # or NULL
    Maker maker            # of rows, where they aren't just bytes in their place
    Growing* vars          # by slot: what varies in length
    int64_t* rooms         # by slot: bytes of that, as they are counted
    int64_t slots_bytes    # of the slab
    int64_t fixed_bytes    # of the store and the units
    Missing* missing
    int64_t missing_count
    Break* handed          # breaks, as order_new takes them
    int64_t handed_count
    Break* breaks
    int64_t break_count
    Start start
    const Lengths* lengths # of the passes before it; of the plan alone
    Place place
    const int64_t* saved   # where interleaved files are at the start, as of blocks_save; NULL: at their first record
    int64_t* lane_marks    # by descriptor: where they are after it, and how many files were given up
    Config config
    Layout layout
    Leaf* leaves
    int64_t* offsets
    OpSpec* specs
    int32_t spec_count
    # under the turn
    Unit* units
    int32_t unit_count
    unsigned char* unit_memory
    size_t unit_memory_bytes
    Unit* free_units
    Unit* returned_first
    Unit* returned_last
    int64_t ramp_rows      # rows of the next unit: grows to config.unit_rows
    uint64_t next_batch
    Batch* open
    uint64_t* whole        # batches that became whole under the turn, and are to be published
    int32_t whole_count
    Bad* bad
    int64_t bad_count, bad_room
    bint breaking          # a break waits for a descriptor
    bint begun             # fast-forwarded: rows are planned
    bint keeps_files       # for the next run, which reads some once more; set before its runner stops
    int32_t end_status     # PULL_END or PULL_FAULT once the order is at its end
    Fault end_fault
    Cut* cuts
    int32_t cut_count
    int32_t cut_at
    int64_t skipped
    # the store
    unsigned char* store
    int64_t store_stride
    size_t store_bytes
    uint64_t generation

# The owner of a block that came natively: a slot of another pipe, on which it holds a lease.
cdef struct SlotOwner:
    Pipe* pipe
    uint32_t slot
    int64_t rows[1]

# A run of the same plan, whose leaves, specs and config are copied; its breaks are taken over, and so is the reference on the table. The
# workers run `step`. NULL: no memory; then plan.pin_result says whether memory could not be page-locked.
cdef Pipe* pipe_new(Pipe* plan, FileTable* table, const Cut* cuts, int32_t cut_count, int64_t skip, StepFn step) noexcept nogil
# References, of a Pipe. Whoever drops the last one frees it.
cdef void pipe_hold(void* context) noexcept nogil
cdef void pipe_drop(void* context) noexcept nogil
# Ends the lease of a SlotOwner, and frees that.
cdef void slot_release(void* one) noexcept nogil

# The places of all parts of a slot, in a plan too. Returns the bytes of a slot; above kMostBytes, they can't be had, and the places mean
# nothing.
cdef size_t lay_out(Pipe* p) noexcept nogil
# The memory of one unit, about.
cdef int64_t unit_bytes(int64_t ids, int64_t segments, int64_t stage, int64_t dump) noexcept nogil

# Bytes of all buffers.
cdef int64_t pipe_memory(Pipe* p) noexcept nogil
# Bytes of what varies in length, of one slot or part.
cdef int64_t room_of(Pipe* p, const Growing* vars) noexcept nogil
# Counts those of a slot anew. By who alone has that slot.
cdef void count_room(Pipe* p, uint32_t slot) noexcept nogil
# End the run with an error.
cdef void pipe_over_budget(Pipe* p, int64_t nbytes) noexcept nogil
cdef void pipe_no_memory(Pipe* p) noexcept nogil
# All rows of the batch are there: joins its parts, pads, and publishes it. Without the turn.
cdef void pipe_complete(Pipe* p, Batch* b, uint64_t k) noexcept nogil


# A consumer's hold on a slot: the base object of every array of one batch. It ends when the last of them is gone; that gives the slot back
# and never waits.
cdef class Lease:
    cdef Pipe* pipe
    cdef uint32_t slot
    cdef int64_t rows, subs   # of the batch, whose descriptor may be another one's once that is taken

# A lease on a batch that is ready. Under the GIL.
cdef Lease lease_new(Pipe* p, Batch* b)
