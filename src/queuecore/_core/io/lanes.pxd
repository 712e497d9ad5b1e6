# Lanes: each file that is open or comes next has a lane of its own, with pieces, a stream and an index of its own.
#   I4  Counts alone decide which record is next: so many of a lane, then of the next one (tf.data's interleave: records
#       that a lane lacks at its end are not made up for, and its slot gets the next file when it comes again).
# There are two kinds. Files side by side (lanes_kind) have as many slots as the plan's cycle. Files one after the other
# (ahead_kind) have one slot, and a lane gives all of its records: so the order is that of files_kind, and so are the
# places. This is for compressed files, of which one thread at a time can decompress each: the lanes of later files run
# ahead meanwhile, until all that is ahead takes `run_ahead` bytes.
# All functions need the turn.
from libc.stdint cimport int64_t
from queuecore._core.io.blocks cimport BlockKind, Blocks, RecordBlock

cdef const BlockKind* lanes_kind() noexcept nogil
cdef const BlockKind* ahead_kind() noexcept nogil
# Writes the places of all lanes, as lanes_saved(cycle) numbers.
cdef void lanes_save(const Blocks* s, int64_t* saved) noexcept nogil
# Returns the number of the next file to get a slot.
cdef int64_t lanes_next_file(const Blocks* s) noexcept nogil
# Under a shuffle: how all was when a block's first record came to the order. The pass and the number of that record,
# the numbers of lanes_save, and the number of files given up.
cdef const int64_t* lanes_entered(const RecordBlock* b) noexcept nogil


cdef inline int64_t lanes_saved(int64_t cycle) noexcept nogil:
    # Next file, slot, records that it has given; for each slot: file (-1: none), offset, number and line of a block,
    # records to leave out.
    return 3 + 5 * cycle
