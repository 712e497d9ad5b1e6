# Shuffles of records, and of elements of several records.
#
# Their order is TensorFlow's (tf.data's ShuffleDataset: a circular buffer, one draw an element).
#
# A stored shuffle of records pulls rows ahead of its buffer, which workers meanwhile load into a store (store.pxd); a
# record enters the buffer once its row is loaded.
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t
from queuecore._core.order.op cimport Op, OpSpec, Order, ShuffleState
from queuecore._core.order.runs cimport KeptRecords, Run, RunList
from queuecore._core.atoms.platform cimport Fault
from queuecore._core.atoms.random cimport Philox

# Ids of the records or elements that a shuffle keeps: a circular buffer, and its generator.
cdef struct Buffer:
    int64_t size
    int64_t start, count
    uint32_t* ids
    Philox random

# Rows ahead of the buffer, counted over all passes: the n-th lies at index n modulo `room`.
cdef struct ShuffleStore:
    bint loading         # False while fast-forwarding: ids move, nothing is loaded
    int64_t room
    uint32_t* ahead      # ids read ahead of the buffer, in order
    uint8_t* loaded
    int64_t ahead_in, ahead_out
    int64_t pass_from    # the first row of the pass being read
    int64_t next_from    # the first row of the next pass, if that is read while this one is given; -1: it isn't yet
    int64_t failed_at    # the first row that could not be loaded; -1: none
    Fault failed
    Run* survivors       # after a fast-forward: rows of the buffer to load; n holds the id
    int64_t survivors_count, survivors_planned, survivors_loaded
    int64_t survivor_failed_pass, survivor_failed_ordinal  # the first one that could not be loaded; pass -1: none

cdef struct RecordShuffle:
    Op op
    ShuffleState shuffle
    Buffer buffer
    KeptRecords kept
    bint broke           # a break came while the buffer was filled: the next pull gives it
    int32_t ended        # PULL_END or PULL_FAULT once the input is at its end
    RunList scratch      # pulled from the input, not yet in the buffer
    int32_t scratch_at   # the next run, and the next record of that run
    int64_t scratch_offset
    bint stored
    ShuffleStore store          # used if `stored`

# store_ahead > 0: the shuffle is stored, and reads that many rows ahead.
cdef bint shuffle_make(Order* order, const OpSpec* spec, int64_t store_ahead) noexcept nogil
cdef bint element_shuffle_make(Order* order, const OpSpec* spec) noexcept nogil
# Clears the scratch and pulls into it once.
cdef int shuffle_refill(Order* order, RecordShuffle* s) noexcept nogil


# Keeps the next record of the scratch, which is not empty, under this id.
cdef inline void shuffle_keep(RecordShuffle* s, int64_t id) noexcept nogil:
    cdef const Run* run = &s.scratch.runs[s.scratch_at]
    s.kept.records[id].ordinal = run.ordinal + s.scratch_offset
    s.kept.records[id].pass_ = run.pass_
    s.kept.records[id].block = run.block
    s.kept.records[id].first = run.first + s.scratch_offset
    s.scratch_offset += 1
    if s.scratch_offset == run.n:
        s.scratch_offset = 0
        s.scratch_at += 1
