# Plan: all that the runs of a stream have in common. Pipe: one run of it, files to batches. The workers, the iterator
# and the leases on slots share a Pipe; the last of them frees it. At every moment a batch is in one of these places: in
# the order, as runs that units have claimed; in the slab, being made (window: open); ready in the window; with the
# consumer, who has a lease on its slot; or handed on, and its slot is free again.
#
# Claiming holds the turn: it pulls runs from the order program, and notes the rows that they go to. Executing holds
# nothing: it reads, splits and publishes.
#   I1  Slots bind to rising k. A claimed unit can run at once: it waits for nothing but the disk.
#   I2  A batch's rows are written by exactly one unit each; `missing` counts them down.
#   I3  A unit that the consumer could not finish without the disk goes back to the workers; its whole parts that are
#       done stay done.
from libc.stddef cimport size_t
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from queuecore._core.atoms.platform cimport (
    Atomic, Batch, EventCount, Fault, Leaf, Runner, Slab, StepFn, Turn, Window, iovec)
from queuecore._core.io.blocks cimport BlockPlan, Blocks, Place, RecordBlock
from queuecore._core.io.engine cimport Engine, Job
from queuecore._core.steps.decode cimport RecordLayout
from queuecore._core.steps.stages cimport StepTimes
from queuecore._core.device.driver cimport DeviceCore
from queuecore._core.order.lengths cimport Lengths
from queuecore._core.order.op cimport Break, Cut, OpSpec, Order, Start
from queuecore._core.order.runs cimport Missing, RunList
from queuecore._core.atoms.growing cimport Growing
from queuecore._core.atoms.timeline cimport Lines
from queuecore._core.stream.meter cimport Meter
from queuecore._core.stream.maker cimport Maker, Output, Scratch
from queuecore._core.io.sources cimport FileTable

cdef enum:
    # The work of a unit:
    UNIT_ROWS = 0          # makes rows of batches
    UNIT_LOAD = 1          # reads records into the store
    UNIT_DISCOVER = 2      # opens and measures a file, or looks at those of which a part was read
    UNIT_PIECE = 3         # reads a piece of a file, and finds its records
    UNIT_MOVE = 4          # copies the records of a block that a shuffle keeps

cdef enum:
    # Whether a unit is, or was, with the engine:
    NOT_ASKED = 0
    ASKED = 1              # the engine reads the records that it needs; then `job` has them
    ASKED_DONE = 2         # the engine has done all its work

cdef enum:
    # Batch.failed
    BATCH_FAILED = 1       # it has a record that can't be made or read; the next run goes without that record
    BATCH_BREAK = 3        # it is no batch but an element's error
    BATCH_OWED = 4         # nobody gets it: its records are owed (order.owed), and all could be made
    # the same, but a record could not be made: the error of the first such record comes in the batch's place
    BATCH_REFUSED = 5

cdef enum:
    # Pipe.settling
    SETTLE_ASKED = 1       # the consumer waits for a look at the files of which a part was read
    SETTLE_RUNS = 2        # a worker looks
    SETTLE_DONE = 3

cdef enum:
    OWED_SUBS = -1         # subs of a batch of records that are owed

# The rows of one batch that one unit makes.
cdef struct Segment:
    Batch* batch
    uint64_t k             # number of the batch
    int64_t row            # its first row
    RunList runs

cdef struct Pipe

cdef struct Unit:
    Pipe* pipe
    bint fresh             # it was never taken: its memory is not counted yet
    int32_t kind           # UNIT_ROWS ...
    Unit* next
    int64_t file           # to discover; -1: those of which a part was read
    RecordBlock* piece     # to read
    Scratch scratch
    int64_t nbytes         # of records in blocks, an estimate
    int64_t made_bytes     # of values of varying length
    RunList runs           # room for all segments' runs, or for the runs of a load
    Segment* segments
    int32_t segment_count
    int32_t segment_at     # segments before it are done
    int64_t rows
    uint32_t* ids          # rows of the store: to gather, or to load into
    int64_t first          # load: for order_loaded
    int64_t good           # load: records in place
    Fault fault            # load: of the record behind these
    iovec* iov
    unsigned char* stage   # room for records that are split or made into rows
    unsigned char* dump    # room for bytes between records, which nothing reads
    int64_t file_hint      # number of the file that was found last
    int32_t asked          # NOT_ASKED ...
    Job job                # that the engine has, or had

# A record that can't be made, and its fault.
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
    int64_t store_rows     # rows of the store besides those of the shuffle's buffer; 0: no store
    int64_t prefetch       # batches
    int64_t ahead          # elements that a feed may make ahead of the consumer; -1: as many as there is room for
    int64_t at_a_time      # elements that the consumer takes one after the other once it has taken one of them
    bint blocks            # records have no known places
    bint skip_bad          # records that can't be made, and files that can't be read, are left out
    bint tell_bad          # the error of a record that can't be made comes out as a break
    int32_t shuffle_level  # number of operators up to the last one that reorders records or gives some to other shards
    int32_t batch_level    # number of operators before the first batch
    int32_t map_level      # number of operators before the last map
    int32_t retries        # of a read that fails
    bint drops             # the page cache forgets what was read
    bint direct            # reads pass over the page cache
    int64_t budget         # bytes of memory; 0: no bound
    int64_t unit_bytes     # most bytes of records in blocks for one unit
    int64_t stage_most     # most records that one unit stages
    int32_t helpers        # units kept for consumers that help
    int32_t asking         # units that may be with the engine besides; 0: there is no engine
    int64_t near_width     # batches made ahead as long as no unit is with the engine
    int32_t files_kept     # files that may be open where they are read here and there, or by the engine
    int64_t depth          # requests at a time; 0: as many as are measured to be good
    bint rings             # the engine's reads go to rings of the kernel's (io/uring.pxd)
    DeviceCore* core       # the device that batches go to, or NULL
    int64_t buffers        # number of batches on the device
    bint prefer            # memory that can't be page-locked is accepted

# A stream as its description says it, in native form: the settings of all its runs. `configure` makes it, and nobody
# changes it afterwards. The stream's keeper owns it, which is there as long as any of the pipes.
cdef struct Plan:
    Config config
    RecordLayout layout    # of records at known places
    Leaf* leaves
    Maker maker            # of rows, unless they are bytes of a record that a leaf places
    BlockPlan* blocks      # of records without known places; or NULL
    OpSpec* specs          # the operators, with the seeds that the description gave
    int32_t spec_count
    int64_t slot_bytes

# How a run begins: its place, and what is known of the records from there on. Its arrays are copied, but for those that
# the pipe takes over.
cdef struct Beginning:
    Start start
    Place place
    const int64_t* saved   # places of interleaved files at the start (lanes_save); NULL: their first records
    const Lengths* lengths # of the passes before `start`
    const OpSpec* specs    # the plan's operators, with the seeds and iterations of this run
    const Missing* missing
    int64_t missing_count
    const Cut* cuts
    int32_t cut_count
    int64_t skip           # elements to leave out
    int64_t skip_breaks    # breaks to leave out besides
    # Taken over:
    Break* handed          # breaks as order_new takes them: those that are played, then those that are known
    int64_t handed_count, known_count
    Break* breaks
    int64_t break_count
    Missing* told          # records that were owed, and whose errors have been delivered
    int64_t told_count

cdef extern from *:
    """
    namespace queuecore {
    struct PipeAtomics {
      alignas(kLine) Atomic<int32_t> refs;
      alignas(kLine) Atomic<int32_t> leases;
      alignas(kLine) Atomic<uint64_t> planned;  // batches opened; only a hint to the consumer
      Atomic<int32_t> returned;                 // units given back by the consumer; a hint
      alignas(kLine) Atomic<int64_t> helped;
      alignas(kLine) EventCount room;           // a feed waits for room here
      alignas(kLine) Atomic<int64_t> grown;     // bytes of buffers of values of varying length
      Atomic<int64_t> largest;                  // the most such bytes of one batch
      Atomic<int64_t> blocks;                   // bytes of blocks
      Atomic<int64_t> jobs;                     // bytes of the units that are with the engine, and of what they ask for
      Atomic<int32_t> asks;                     // 1: some unit was with the engine
      Atomic<int32_t> cold;                     // units that go to the engine before one tries the page cache again
      Atomic<uint32_t> touched;                 // number of slots that batches have had
      Atomic<int64_t> taken;                    // elements that the consumer has taken, if `ahead` isn't -1
      Atomic<uint64_t> awaited;                 // the last batch that it has waited for, plus 1
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
        Atomic[int64_t] jobs
        Atomic[int32_t] asks
        Atomic[int32_t] cold
        Atomic[uint32_t] touched
        Atomic[int64_t] taken
        Atomic[uint64_t] awaited

cdef struct Pipe:
    const Plan* plan
    PipeAtomics* shared
    Atomic[int32_t]* pipes # number of the iterator's pipes that are not freed yet
    Turn* turn
    Runner* runner
    Window* window
    Slab* slab
    bint pinned            # the slab is page-locked
    FileTable* table
    Order* order
    Blocks* blocks         # or NULL
    Growing* vars          # by slot: buffers of values of varying length
    int64_t* rooms         # by slot: the bytes of these buffers that `grown` counts
    int64_t slots_bytes    # of the slab
    int64_t fixed_bytes    # of the store and the units
    Missing* missing
    Break* handed          # this and the next two: as in the beginning
    Break* breaks
    Missing* told
    int64_t told_count
    Start start
    Place place
    int64_t* lane_marks    # by descriptor: places of these files after its batch, and the number of files given up
    Engine* engine         # or NULL: workers wait for the storage themselves
    Meter* meters          # of the consumers, then of the workers
    StepTimes* steps       # of one in SAMPLED_UNITS units that make rows by a step; or NULL: there is no step
    Lines* lines           # that its threads have noted something in, or NULL; under the GIL
    int32_t number         # of the stream's pipes
    bint full              # no batch could be begun for want of room; under the turn
    OpSpec* specs          # with the seeds of this run
    # Under the turn:
    Unit* units
    int32_t unit_count
    unsigned char* unit_memory
    size_t unit_memory_bytes
    int64_t unit_bytes     # of one unit
    Unit* free_units
    Unit* returned_first   # units that the consumer gave back, or the engine
    Unit* returned_last
    int32_t asked          # units that are with the engine
    int64_t ramp_rows      # rows of the next unit: grows to config.unit_rows
    uint64_t next_batch
    Batch* open
    int64_t open_bytes     # of the open batch's records, about; 0 outside blocks
    int64_t made_rows      # by units that are retired
    int64_t made_bytes     # of their values of varying length
    int64_t closed         # elements of the batches before the open one
    uint64_t* whole        # numbers of batches that became whole under the turn, and are to be published
    int32_t whole_count
    Bad* bad
    int64_t bad_count, bad_room
    bint breaking          # a break waits for a descriptor
    int32_t owed_status    # PULL_END or PULL_FAULT: follows the records that are owed
    bint begun             # the order is at the start of this run: rows are planned
    bint keeps_files       # open for the next run, which reads some again; set before this run's runner stops
    int32_t settling       # SETTLE_*; 0: never asked for
    # The look at files: its thread's alone while SETTLE_RUNS, the consumer's before and after.
    int64_t settle_lane    # the first of the interleaved files that are left
    bint settled           # False: the file of settle_fault has changed, and those after it were not looked at
    Fault settle_fault
    int32_t end_status     # PULL_END or PULL_FAULT once the order is at its end
    Fault end_fault
    Cut* cuts
    # The store:
    unsigned char* store
    int64_t store_stride
    size_t store_bytes
    uint64_t generation

# The owner of a block that a link handed in: it holds a lease on a slot of another pipe.
cdef struct SlotOwner:
    Pipe* pipe
    uint32_t slot
    int64_t rows[1]        # rows of the slot that are the block's records: as many as these


cdef inline bint is_fed(const Plan* plan) noexcept nogil:
    # Returns whether its rows are handed in.
    return plan.maker.columns != NULL


# Makes a run of the plan, which counts in `pipes` as long as it is there. Takes over parts of `begin`, also if it
# fails, and the reference on the table. The workers run `step`. NULL: no memory; *pin_result: the driver's error number
# if memory could not be page-locked.
cdef Pipe* pipe_new(const Plan* plan, Atomic[int32_t]* pipes, Beginning* begin, FileTable* table, StepFn step,
                    int* pin_result) noexcept nogil
# Frees what a Beginning would hand over.
cdef void beginning_clear(Beginning* begin) noexcept nogil
# Returns the bytes of the slab of a run.
cdef int64_t slab_bytes(const Plan* plan) noexcept nogil
# Frees a plan and all that it owns.
cdef void plan_free(Plan* plan) noexcept nogil
# Take and drop a reference on a Pipe. Dropping the last one frees the pipe.
cdef void pipe_hold(void* context) noexcept nogil
cdef void pipe_drop(void* context) noexcept nogil
# Ends the lease of a SlotOwner, and frees the SlotOwner.
cdef void slot_release(void* one) noexcept nogil

# Places all parts of a slot. Returns the bytes of a slot; above kMostBytes the slot can't be made, and the places are
# meaningless.
cdef size_t lay_out(Plan* plan) noexcept nogil
# Returns an estimate of the bytes of one unit.
cdef int64_t unit_bytes(int64_t ids, int64_t segments, int64_t stage, int64_t dump) noexcept nogil

# Returns the bytes of all buffers.
cdef int64_t pipe_memory(Pipe* p) noexcept nogil
# Returns the bytes of the buffers of varying length of one slot or part.
cdef int64_t room_of(Pipe* p, const Growing* vars) noexcept nogil
# Counts the bytes of these buffers of a slot anew. Only for the thread that alone has the slot.
cdef void count_room(Pipe* p, uint32_t slot) noexcept nogil
# End the run with an error.
cdef void pipe_over_budget(Pipe* p, int64_t nbytes) noexcept nogil
cdef void pipe_no_memory(Pipe* p) noexcept nogil
# Joins the parts of a batch whose rows are all made, pads, and publishes the batch. Without the turn.
cdef void pipe_complete(Pipe* p, Batch* b, uint64_t k) noexcept nogil


# A consumer's hold on a slot, and the base object of each array of the batch. It ends when the last of these arrays is
# gone: the slot is given back, without a wait.
cdef class BatchLease:
    cdef Pipe* pipe
    cdef uint32_t slot
    cdef int64_t rows, subs   # of the batch; its descriptor may become another batch's once the batch is taken

# Returns a lease on a batch that is ready. Under the GIL.
cdef BatchLease lease_new(Pipe* p, Batch* b)
