# The order program: which record comes next, computed on indices.
#
# A chain of operators, the source at the bottom. Pulling on the top appends *runs* (consecutive records) to a list; no byte is read.
# Everything here is called by one thread at a time: whoever holds the pipeline's turn. Nothing waits: a pull that needs a file that
# isn't known yet, or a row that isn't loaded yet, says so and is repeated later. Progress of one pull is one step: OK may come
# with fewer rows than asked for, also with none.
#   I1  What is pulled depends on counts, seeds and the operators alone, never on how the pulls were cut or timed.
#       Records that are left out because they are bad (Missing) are not counted: the operators never see them.
#   I2  Operators of rows == 1 give records; the others give elements of up to `rows` records and say where each one closes.
#   I3  Of records in blocks, the order knows which it still has inside: each one leaves it once, out of its top or dropped.
#
# Order of a shuffle: TensorFlow's (tf.data's ShuffleDataset: a circular buffer, one draw an element).
# Order of a permutation: ours. A Feistel cipher on pairs of numbers below a and b, whose results beyond the count are enciphered again
# (Black and Rogaway: "Ciphers with arbitrary finite domains", CT-RSA 2002), with Philox as the round function.
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from queuecore._core.blocks cimport Blocks, RecordBlock
from queuecore._core.platform cimport Fault
from queuecore._core.random cimport Philox
from queuecore._core.sources cimport FileTable

cdef enum:
    PULL_OK = 0
    PULL_WAIT = 1        # a file isn't known yet, or a row of the store isn't loaded yet
    PULL_END = 2
    PULL_FAULT = 3       # the end, by a fault: order.fault
    PULL_NO_MEMORY = 4

cdef enum:
    OP_SOURCE = 0
    OP_TAKE = 1
    OP_SKIP = 2
    OP_REPEAT = 3
    OP_BATCH = 4
    OP_SHUFFLE = 5       # of records
    OP_SHUFFLE_ELEMENTS = 6
    OP_SHARD = 7
    OP_PERMUTE = 8       # of records at known places

# A shard: what becomes of a last group of fewer elements than there are shards.
cdef enum:
    UNEVEN_KEEP = 0      # its elements are given
    UNEVEN_DROP = 1      # they are not: an element is given once its group is whole
    UNEVEN_PAD = 2       # elements from the beginning of the pass make it whole
    UNEVEN_RAISE = 3     # as dropped, and it is a fault

cdef enum:
    SCRATCH_RUNS = 1024

cdef struct Run:
    int64_t ordinal      # first record; out of a stored shuffle: the row of the store
    int64_t pass_        # of the source
    int64_t n
    RecordBlock* block   # where they are; NULL: at a known place, or in the store
    int64_t first        # of that block's records
    int64_t good         # records of the pass that came before it

cdef struct RunList:
    Run* runs
    int32_t count
    bint closed          # the element that was open ends with the last row
    int64_t rows
    int64_t subs         # of the element that closed: elements it is made of; 0: records

cdef struct Element:     # runs kept until they are given
    Run* runs
    int32_t count
    int32_t room
    int64_t rows
    int64_t subs
    int32_t given        # runs given so far, and records of the next one
    int64_t offset

# A record in a shuffle's buffer.
cdef struct Kept:
    int64_t ordinal, pass_
    RecordBlock* block   # as of Run, or NULL: played only
    int64_t first

# A record that is left out.
cdef struct Missing:
    int64_t pass_, ordinal

cdef struct Shuffle:
    uint64_t seed_lo, seed_hi
    bint reshuffle
    bint seeded          # the generator of this iteration is set
    int64_t iteration    # of the dataset object: where its master generator stands
    int64_t begun        # iterations begun in this run
    Philox random
    int64_t capacity     # ids in all
    int64_t start, count  # of the circular buffer
    uint32_t* ring       # buffer_size ids
    uint32_t* free_ids
    int64_t free_count
    int64_t fresh        # ids never used start here
    Kept* records        # by id (records)
    Element* elements    # by id (elements)
    int64_t filling      # id of the element being filled, or -1
    int64_t emitting     # id of the element being given, or -1
    RunList scratch      # pulled from upstream, not yet entered
    int32_t scratch_at
    int64_t scratch_offset
    int32_t ended        # PULL_END or PULL_FAULT once upstream is at its end
    int64_t entered_pass, entered_end  # mark: after the last record that entered
    # the store
    bint stored
    bint index_only      # fast-forwarding: ids move, nothing is loaded
    int64_t ahead_room
    uint32_t* ahead      # ids read ahead of the buffer, in order
    uint8_t* ahead_loaded
    int64_t ahead_in, ahead_out
    int64_t pass_from    # index in `ahead` where the pass being read began
    int64_t next_from    # index in `ahead` where the next pass begins, read before this one is given; -1: not yet
    int64_t failed_at    # index in `ahead` of the first row that could not be loaded; -1: none
    Fault failed
    Run* survivors       # after a fast-forward: rows of the buffer to load; n holds the id
    int64_t survivors_count, survivors_planned, survivors_loaded
    int64_t survivor_failed_pass, survivor_failed_ordinal  # the first that could not be loaded; pass -1: none
    const Missing* missing  # the topmost one of records leaves these out, sorted: the order of the others is what it was with them
    int64_t missing_count

cdef struct Op:
    int32_t kind
    int32_t ended        # batch: the status that ended the input
    Op* up
    int64_t size         # n of take, skip, repeat (-1: no bound); batch size; buffer size; number of shards
    int64_t rows         # records of a whole element
    bint drop            # batch: drop_remainder; permute: a shuffle above may keep the record at which the source is cut
    bint gives_ids       # its runs are rows of the store
    int64_t done         # take, skip, permute: elements so far; shard: those of the input; repeat: passes finished
    bint any             # repeat: this pass has given something
    bint again           # repeat: restart before the next pull
    int64_t open_rows    # batch: rows of the open element; shard: of the input's
    int64_t subs         # batch of elements: whole ones in the open element
    int64_t sub_rows     # rows of the first one
    int64_t open_sub     # rows of the one that is open
    bint whole           # batch: an element is given when it is complete, not before: drop_remainder, or it is made of elements.
                         # Shard: when its group is
    bint giving          # batch, shard: `held` is complete
    Element held
    RunList scratch      # skip, shard, whole batches
    Shuffle* shuffle     # permute: of it the seeds, the iterations and the missing ones
    # shard
    int64_t index
    int32_t uneven
    bint one_run         # a pull on this operator gives one run at most
    bint jumps           # leaving elements out costs less than pulling them
    Element* first       # UNEVEN_PAD: the first `size` elements of the pass
    int64_t firsts       # of them, so far
    const Missing* missing  # the topmost one of records leaves these out
    int64_t missing_count
    # permute, whose `size` is 1, and what is below
    int64_t count        # elements of a pass
    int64_t passes       # of the source, in one of this
    int32_t finish       # permute: PULL_END or PULL_FAULT, what comes after the count
    int64_t sides[2]
    uint64_t key[2]
    int32_t rounds
    # source
    int64_t position     # next ordinal
    int64_t pass_
    int64_t scanned      # files looked at for a fault
    int64_t bad_file     # -1: none so far
    int64_t cut_pass, cut_ordinal  # the source ends here, by order.cut_fault; pass -1: no cut
    int64_t given        # records of this pass so far
    bint joined          # begun in its middle: what lies before has been played, on numbers alone

# Where a source begins whose records before that are never read again. `good` counts those without the missing ones.
cdef struct Start:
    int64_t pass_
    int64_t ordinal
    int64_t good
    int64_t pass_good    # records of a whole pass; -1: not known, then pass_ is 0

cdef struct Order:
    Op* ops              # the source first
    int32_t count
    Op* top
    Op* bottom_shuffle   # or NULL
    FileTable* table
    Blocks* blocks       # or NULL: records have known places
    Start start
    bint skip_files      # a file with a fault just ends there
    const Missing* missing  # sorted; the source leaves these out, where no shuffle of records does
    int64_t missing_count
    int64_t missing_at   # those before it lie behind the source
    int64_t pass_good    # records of a whole pass that were given; -1: not known yet
    Fault fault          # why it ended early
    bint faulted         # a fault has been met: the first one counts
    Fault cut_fault
    int64_t dropped      # records of incomplete elements left out (drop_remainder)
    int64_t skip_left    # elements still to fast-forward
    bint needs_count     # a permutation waits for all files

cdef struct OpSpec:
    int32_t kind
    int64_t size
    bint flag            # batch: drop_remainder; shuffle: reshuffle
    uint64_t seed_lo, seed_hi
    int64_t iteration
    int64_t index        # shard
    int32_t uneven

# specs[0] is the operator on the source. store_ahead > 0: a stored shuffle may be used, reading that many rows ahead.
# `missing` must stay.
cdef Order* order_new(FileTable* table, Blocks* blocks, bint skip_files, const Start* start, const Missing* missing, int64_t missing_count,
                      const OpSpec* specs, int32_t count, int64_t store_ahead) noexcept nogil
cdef void order_free(Order* order) noexcept nogil
cdef int order_pull(Order* order, int64_t max_rows, RunList* out) noexcept nogil
# Leaves out the next elements, at most `budget` rows of work at a time; PULL_OK: done or more to do (order.skip_left tells).
cdef int order_forward(Order* order, int64_t budget) noexcept nogil
# The source ends before this record, by this fault; what lies behind it in buffers is dropped.
cdef void order_cut(Order* order, int64_t pass_, int64_t ordinal, const Fault* fault) noexcept nogil
# Ends fast-forwarding: a stored shuffle begins to load.
cdef bint order_begin(Order* order) noexcept nogil
# Free rows of the store.
cdef int64_t order_room(const Order* order) noexcept nogil
# Rows to load next: appends runs and the row of each record. Returns the number of rows; *first: index of the first, for
# order_loaded. A negative first marks survivors of a fast-forward.
cdef int64_t order_plan_load(Order* order, int64_t max_rows, RunList* out, uint32_t* ids, int64_t* first) noexcept nogil
# The rows of such a plan are loaded, the first `good` of them well.
cdef void order_loaded(Order* order, int64_t first, int64_t n, const uint32_t* ids, int64_t good, const Fault* fault) noexcept nogil
# A row of the store may be used again.
cdef void order_release(Order* order, uint32_t id) noexcept nogil
