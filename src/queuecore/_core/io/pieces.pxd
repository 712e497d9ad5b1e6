# Work on the blocks of blocks.pxd outside the pipeline's turn: system calls and long loops.
#
# Any number of threads call blocks_read, each with a piece of its own; of a compressed file, one at a time. One thread
# at a time calls blocks_index for a lane: the one that blocks_retire gave it to. The thread that got a block from
# blocks_claim_moving calls blocks_move.
from queuecore._core.io.blocks cimport Blocks, RecordBlock

# Reads a piece. False: that takes a wait which `wait` (WAIT_*) forbids. Pieces of compressed files are read in any
# case.
cdef bint blocks_read(Blocks* s, RecordBlock* b, int wait) noexcept nogil
# Finds the records of a piece.
cdef void blocks_index(Blocks* s, RecordBlock* b) noexcept nogil
# Copies records that are still inside the order to the block that blocks_claim_moving returned for them.
cdef void blocks_move(Blocks* s, RecordBlock* moved_block) noexcept nogil
