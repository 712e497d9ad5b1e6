# Operators of the order program: what all of them have in common.
#
# The program is a chain of operators, the source at the bottom. Pulling on the top appends runs of records to a list;
# no byte is read. One thread at a time calls the functions here: the holder of the pipeline's turn. Nothing waits: a
# pull that needs a file that isn't known yet, or a row that isn't loaded yet, returns PULL_WAIT and is repeated later.
# One pull makes one step: PULL_OK may come with fewer rows than asked for, also with none.
#   I1  What is pulled depends on counts, seeds and the operators alone, never on how the pulls were cut or timed.
#       Records that are left out because they are bad (Missing) are not counted: the operators never see them.
#   I2  Operators of rows == 1 give records; the others give elements of up to `rows` records and say where each one
#       closes. An element that can't be made (a break) comes out of a pull in its place, alone: PULL_BREAK, with
#       order.broken. The next pull goes on behind it. No operator counts it; a batch that is open closes before it, or
#       is dropped if it must be whole.
#   I3  The order knows which records of blocks it still holds: each one leaves it once, out of its top or dropped.
#
# Each kind of operator lives in a module of its own: a struct that begins with Op, a row of functions (OpKind), and a
# function that makes one on top of the chain (op_new). order.pyx alone knows all kinds.
from libc.stdint cimport int32_t, int64_t, uint64_t
from queuecore._core.io.blocks cimport Blocks, Place, blocks_leave
from queuecore._core.order.lengths cimport Lengths
from queuecore._core.order.runs cimport Element, KeptRecords, MissingList, Run, RunList, ids_give
from queuecore._core.atoms.platform cimport Fault
from queuecore._core.io.sources cimport FileTable

cdef enum:
    PULL_OK = 0
    PULL_WAIT = 1        # a file isn't known yet, or a row of the store isn't loaded yet
    PULL_END = 2
    PULL_FAULT = 3       # a fault ended the order: order.fault
    PULL_NO_MEMORY = 4
    PULL_BREAK = 5       # an element that can't be made: order.broken. The pull gave nothing else

# One operator of a plan.
cdef struct OpSpec:
    int32_t kind         # OP_* of order.pxd
    int64_t size         # n of take, skip, repeat (-1: no bound); batch size; buffer size; number of shards
    bint flag            # batch: drop_remainder; shuffle: reshuffle
    uint64_t seed_lo, seed_hi
    int64_t iteration
    int64_t index        # shard
    int32_t uneven       # UNEVEN_* of shard.pxd

# Levels of breaks that lie below all operators.
cdef enum:
    LEVEL_HANDED = -1    # the record of its place was handed in as an error
    LEVEL_SEAM = -2      # no record: a batch was cut short there, by an error that need not come again

# A record that can't be made. `ordinal` is its number in this run; of a break that is played, the number of records
# before it.
cdef struct Break:
    int64_t pass_, ordinal
    int32_t level        # the number of the plan's operators below the place where it comes out; or LEVEL_*

# A record before which the source ends.
cdef struct Cut:
    int64_t pass_
    int64_t ordinal
    # only once the record comes out of the last shuffle, which gives all records before in the order that they had
    bint given
    Fault fault            # of the record

cdef struct BreakList:
    const Break* breaks  # sorted
    int64_t count

# The record of the last PULL_BREAK, and the source's place behind it.
cdef struct Broken:
    int64_t pass_, ordinal, good
    int32_t level        # of a Break; LEVEL_SEAM: nobody gets it
    bint known           # with LEVEL_HANDED: the plan has it
    bint seam            # the run before ended a batch here, whether or not it is played
    Fault fault          # the reason, if it was handed in
    Place place

# The record at which reading begins; records before it are never read again. `good` counts those of its pass that are
# not missing.
cdef struct Start:
    int64_t pass_
    int64_t ordinal
    int64_t good

# The source's place.
cdef struct SourcePosition:
    int64_t pass_
    int64_t position     # next ordinal
    int64_t given        # records of this pass so far

cdef struct Op
cdef struct Order

# The functions of a kind of operator. A function may be NULL where its comment says what NULL means.
cdef struct OpKind:
    int (*pull)(Order* order, Op* op, int64_t max_rows, RunList* out) noexcept nogil
    # Begins a new pass: drops what the operator keeps. True: the input must begin again too.
    bint (*restart)(Order* order, Op* op) noexcept nogil
    # Leaves out up to n elements without pulling them, in a multiple of `unit`, so that no operator above is left with
    # a half open element. Returns their number. 0 is always right: the caller then pulls and discards. NULL: always 0.
    int64_t (*advance)(Order* order, Op* op, int64_t n, int64_t unit) noexcept nogil
    # Returns the elements of one pass, or -1 if arithmetic can't tell (yet). NULL: always -1.
    int64_t (*count)(Order* order, Op* op) noexcept nogil
    # Under a permutation: fills op.way in and returns the elements of one pass, where the input has n. *status is the
    # PULL_* that follows the input's elements, and becomes the one that follows this operator's. NULL: both are those
    # of the input.
    int64_t (*places)(Order* order, Op* op, int64_t n, int* status) noexcept nogil
    # True if the operator will restart its input at the input's end. NULL: the operators above decide.
    bint (*restarts)(const Op* op) noexcept nogil
    # The source has been cut (order.cut_pass): drops records behind the cut from those that the operator keeps; the
    # order of the others stays. `reached`: the source had been there already. NULL: the operator keeps none.
    void (*purge)(Order* order, Op* op, bint reached) noexcept nogil
    # Frees what the operator owns, even if it was never made completely. NULL: it owns nothing but the struct.
    void (*free)(Op* op) noexcept nogil

# Iterations of a shuffle or a permutation.
cdef struct ShuffleState:
    uint64_t seed_lo, seed_hi
    bint reshuffle
    bint seeded          # the generator of this iteration is set
    bint shuffled_again  # by an operator above, which may keep the record at which the source is cut
    int64_t iteration    # of the dataset object: where its master generator stands
    int64_t begun        # iterations begun in this run
    bint cut             # an error has ended its input: its elements come in another order than without that error
    int64_t passes       # of the source, in one iteration
    int64_t entered_pass, entered_end  # the place after the last record that entered

# Under a permutation: element k of an operator is element k * scale + shift of its input, modulo `wrap` (0: no modulo).
# Each time around, the source is `passes` passes further.
cdef struct Way:
    int64_t scale, shift, wrap, passes

cdef struct Op:
    const OpKind* kind
    Op* up               # its input; NULL: the source
    int64_t rows         # records of a whole element
    bint gives_ids       # its runs are rows of the store
    bint one_run         # a pull gives one run at most
    bint jumps           # leaving elements out costs less than pulling them
    bint whole_batches   # it or an operator below makes batches that come whole or not at all
    bint leaves_out      # it can leave out records that are missing
    MissingList missing  # only the topmost such operator has any; the order of the others is what it was with them
    ShuffleState* shuffle     # of its own state; NULL: it doesn't shuffle
    # Under a permutation, from op_places on:
    int64_t count        # elements of a pass
    int64_t passes       # of the source, in one pass of this operator
    Way way

cdef struct Order:
    Op** ops             # the source first
    int32_t count
    Op* top
    Op* bottom_shuffle   # or a permutation, or NULL
    Op* top_shuffle      # or a permutation, or NULL
    KeptRecords* stored  # rows of the store, which the runs of the bottom shuffle name; NULL: nothing is stored
    Blocks* blocks       # or NULL: records have known places
    Start start
    SourcePosition at
    int64_t cut_pass, cut_ordinal  # the source ends here with cut_fault; pass -1: no cut
    Fault cut_fault
    const Cut* cuts      # those that take effect where their record comes out of the last shuffle, among others
    int32_t cut_count    # 0 if there are no such cuts
    Lengths ends         # of the passes since the start whose end was met: all records
    int64_t next_end     # the pass after these
    Fault fault          # the reason of an early end
    bint faulted         # a fault has been met: the first one counts
    int64_t dropped      # records of incomplete elements left out (drop_remainder)
    int64_t skip_left    # elements still to fast-forward
    int64_t skip_breaks  # breaks still to fast-forward
    RunList skipped      # pulled to be left out
    bint skipped_part    # the last element of those is not complete yet
    # Records that nobody gets, as they are the remainder of a batch that comes whole or not at all. They are made
    # nevertheless, since an error of one of them comes in its place. order_pull_owed gives them.
    Element owed
    bint has_breaks      # so arithmetic can't tell counts of elements
    bint breaking        # a batch has closed before a break that comes next
    int interrupted      # PULL_BREAK or PULL_FAULT: the source's last answer was an error; PULL_OK: it was none
    Broken broken        # of the last PULL_BREAK
    bint needs_count     # a permutation waits for all files

# Arguments of order_new. The lists of `missing`, `handed`, `breaks` and `cuts` must outlive the order; `lengths` and
# `specs` are copied.
cdef struct OrderPlan:
    FileTable* table
    Blocks* blocks       # or NULL
    bint skip_files      # a file with a fault just ends there
    Start start
    const Lengths* lengths  # of the passes before the start: their good records, breaks that were handed in included
    MissingList missing
    const OpSpec* specs  # the first one is on the source
    int32_t count
    int64_t store_ahead  # > 0: a stored shuffle may be used, reading that many rows ahead
    BreakList played     # breaks of LEVEL_* before the start
    BreakList known      # those at the start or behind it; of two at one place, the seam comes first
    BreakList breaks     # of steps, sorted by level first
    const Cut* cuts
    int32_t cut_count


# Puts a new operator on top of the chain, which order_free then frees. Its struct has nbytes bytes and begins with Op.
# NULL: no memory.
cdef Op* op_new(Order* order, size_t nbytes, const OpKind* kind) noexcept nogil
# Sets up the iterations of an operator that shuffles; `shuffle` lies in the operator's own struct.
cdef void shuffle_init(Order* order, Op* op, ShuffleState* shuffle, const OpSpec* spec) noexcept nogil
# Begins a new pass of an operator and of those below it.
cdef void op_restart(Order* order, Op* op) noexcept nogil
# Makes this operator and those below it stand as if `passes` passes had been played; only where op_count isn't -1.
cdef void op_jump(Order* order, Op* op, int64_t passes) noexcept nogil
# Returns the elements of one pass under a permutation, or -1: not known yet. *status: the PULL_* that follows them.
# Fills in the ways that op_locate follows.
cdef int64_t op_places(Order* order, Op* op, int* status) noexcept nogil
# Ends the order with a fault of its own, about two numbers.
cdef int op_refuse(Order* order, int32_t what, int64_t a, int64_t b, int32_t code=*) noexcept nogil

# Drop an element, or a list from run `first` on, that came out of `op` and won't be given: the records leave the order.
cdef void element_drop(Order* order, const Op* op, Element* e) noexcept nogil
cdef void list_drop(Order* order, const Op* op, const RunList* list_, int32_t first) noexcept nogil
# Notes that a record of this run is owed, though its element is dropped. False: no memory.
cdef bint order_owe(Order* order, const Run* run) noexcept nogil
# Drop records behind the cut from an element, or from run `first` of a list on, that an operator keeps.
cdef void element_trim(Order* order, Element* e) noexcept nogil
cdef void list_trim(Order* order, RunList* list_, int32_t first) noexcept nogil
# Ends the source before this record with this fault, and drops the records behind it from all buffers.
cdef void order_cut(Order* order, int64_t pass_, int64_t ordinal, const Fault* fault) noexcept nogil
# Returns the cut that takes effect where this operator, the last shuffle, gives one of these records; NULL: there is
# none. order_cut_at lets it take effect: in this operator and below, since what went on before stays as it is.
cdef const Cut* order_cut_of(const Order* order, int64_t pass_, int64_t ordinal, int64_t n) noexcept nogil
cdef void order_cut_at(Order* order, const Cut* cut) noexcept nogil


# Returns whether records are owed.
cdef inline bint order_owes(const Order* order) noexcept nogil:
    return order.owed.given < order.owed.count


cdef inline int op_pull(Order* order, Op* op, int64_t max_rows, RunList* out) noexcept nogil:
    return op.kind.pull(order, op, max_rows, out)


cdef inline int64_t op_advance(Order* order, Op* op, int64_t n, int64_t unit) noexcept nogil:
    return op.kind.advance(order, op, n, unit) if op.kind.advance != NULL else 0


cdef inline int64_t op_count(Order* order, Op* op) noexcept nogil:
    return op.kind.count(order, op) if op.kind.count != NULL else -1


# Returns the elements of this operator in a list that was clear before.
cdef inline int64_t op_given(const Op* op, const RunList* list_) noexcept nogil:
    if op.rows == 1:
        return list_.rows
    return 1 if list_.closed else 0


# Finds the record of the k-th element of an operator, and its pass, counted from where the source stands. It runs once
# a record, so it makes no call per operator.
cdef inline void op_locate(const Op* op, int64_t k, int64_t* pass_, int64_t* ordinal) noexcept nogil:
    cdef const Way* way
    pass_[0] = 0
    while op.up != NULL:
        way = &op.way
        k = k * way.scale + way.shift
        if way.wrap > 0:
            pass_[0] += k // way.wrap * way.passes
            k %= way.wrap
        op = op.up
    ordinal[0] = k


# Ends the iteration; the next pull begins the next one.
cdef inline void shuffle_next(ShuffleState* shuffle) noexcept nogil:
    shuffle.seeded = False
    shuffle.iteration += 1


# Drops a run of this operator that nobody will read: it leaves the order, and the store's rows that it names are free.
cdef inline void run_drop(Order* order, const Op* op, const Run* run) noexcept nogil:
    cdef int64_t i
    if op.gives_ids:
        for i in range(run.n):
            ids_give(&order.stored.ids, run.ordinal + i)
    elif run.block != NULL:
        blocks_leave(order.blocks, run.block, run.first, run.n)
