# Handed: blocks of rows that their owner hands in, one chunk after the other. They are published at once, and lie where
# the owner has them.
#   I5  The memory that a block's columns lie in stays until handed_freed returns the number of its owner, or its native
#       owner is released.
# All functions need the turn.
from libc.stdint cimport int32_t, int64_t
from queuecore._core.io.blocks cimport BlockKind, Blocks, RecordBlock
from queuecore._core.atoms.platform cimport Fault

cdef enum:
    HANDED = 0
    HANDED_FULL = 1          # too much is ahead: try again later
    HANDED_STALE = 2         # the order is past this pass
    HANDED_NO_MEMORY = 3

# A column of rows that were handed in. Its Output (stream/maker.pxd) says how a row lies in it.
cdef struct Column:
    const unsigned char* data
    const int64_t* ends      # of rows of varying length: one more than there are rows, in bytes; otherwise NULL
    const int64_t* dims      # the shape noted for each row

# Rows of columns, of which the next n records are made.
cdef struct Chunk:
    const Column* columns
    int32_t count            # of the columns
    int64_t first            # the first row
    const int64_t* rows      # the numbers of the rows, instead of `first`; NULL: all from `first` on
    int64_t n
    int64_t nbytes           # about the bytes of all of them
    int64_t owner            # the number of their owner; below 0: `link` is the owner
    void* link

cdef struct HandedBlock:
    RecordBlock block        # skip: the first row; index: a Column each
    const int64_t* rows      # as of Chunk, as are the next two
    int64_t owner
    void* link

cdef const BlockKind* handed_kind() noexcept nogil
# Hands in the next rows of a pass. The columns are copied, but not what they point to.
cdef int handed_add(Blocks* s, int64_t pass_, const Chunk* chunk) noexcept nogil
# Hands in a row that can't be made: a break (order/op.pxd) comes in its place. The row counts as a record here.
cdef int handed_break(Blocks* s, int64_t pass_, const Fault* fault) noexcept nogil
# Ends the pass. fault: the reason why it ends early; NULL: all of it was handed in.
cdef void handed_end(Blocks* s, int64_t pass_, const Fault* fault) noexcept nogil
# Returns the pass behind `after` whose rows are wanted; -1: none is.
cdef int64_t handed_wanted(const Blocks* s, int64_t after) noexcept nogil
# Returns the number of the next row of the pass.
cdef int64_t handed_next(const Blocks* s) noexcept nogil
# Returns the number of an owner that is no longer used, each once; -1: there is none.
cdef int64_t handed_freed(Blocks* s) noexcept nogil
# Notes that the rows handed in from now on come in another order without an error that has ended an input.
cdef void handed_lose(Blocks* s) noexcept nogil
# Returns whether such rows have been given. Of blocks of any kind, or NULL.
cdef bint handed_lost(const Blocks* s) noexcept nogil
