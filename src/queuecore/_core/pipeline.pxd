# One run of a plan: files to batches. A Pipe is shared by its workers, its iterator and the leases on its slots, and goes with the
# last of them.
#
# Claiming holds the turn: pull runs from the order program, note where they go. Executing holds nothing: read, split, publish.
#   I1  Slots bind to rising k. A claimed unit can run at once: it waits for nothing but the disk.
#   I2  A batch's rows are written by exactly one unit each; `missing` counts them down.
#   I3  A unit that the consumer could not finish without the disk goes back to the workers, whole parts done staying done.
from libc.stddef cimport size_t
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from queuecore._core.platform cimport Atomic, Batch, EventCount, Fault, Leaf, Runner, Slab, Turn, Window, iovec
from queuecore._core.blocks cimport Blocks, Place, RecordBlock
from queuecore._core.decode cimport Layout
from queuecore._core.device cimport DeviceCore
from queuecore._core.order cimport Missing, OpSpec, Order, RunList, Start
from queuecore._core.growing cimport Growing
from queuecore._core.rows cimport Maker, Output, Scratch
from queuecore._core.sources cimport FileTable

cdef struct Segment:
    Batch* batch
    uint64_t k
    int64_t row
    RunList runs

cdef struct Unit:
    int32_t kind
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
    Fault fault

# A record that is left out, and why.
cdef struct Bad:
    Missing place
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
    bint skip_bad
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
    int64_t fixed_bytes    # of the slab, the store and the units
    Missing* missing
    int64_t missing_count
    Start start
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
    bint begun             # fast-forwarded: rows are planned
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

# How components lie in columns: fills `columns`, two for each at most, and MAX_DIMS of `shapes` for each of these; both are zero before.
# Returns how many columns they are.
cdef int32_t describe_columns(Output* columns, int64_t* shapes, list components) except -1
