# What is done with the blocks of blocks.pxd outside the pipeline's turn: system calls and long loops.
#
# blocks_read: any number of threads, each with a piece of its own; of a compressed file one at a time. blocks_index: one thread at a time
# for a lane, which blocks_retire named. blocks_move: whoever got the block from blocks_claim_moving.
from queuecore._core.io.blocks cimport Blocks, RecordBlock

# Reads a piece. False: it is not in the page cache, and is to be read again.
cdef bint blocks_read(Blocks* s, RecordBlock* b, bint nowait) noexcept nogil
# Finds the records of a piece.
cdef void blocks_index(Blocks* s, RecordBlock* b) noexcept nogil
# Copies the records that are left of a block.
cdef void blocks_move(Blocks* s, RecordBlock* to) noexcept nogil
