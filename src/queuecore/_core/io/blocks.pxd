# Blocks: the source of records that have no known places: lines, TFRecords, CSV, and all compressed data.
#
# A block is a piece of a file that was read, with the places of the records in it. These things happen to it:
#   read    blocks_claim, under the pipeline's turn, picks the next piece; blocks_read, outside the turn, reads it. Any
#           number of threads read pieces of plain files at once; pieces of a compressed file are read one after the
#           other.
#   index   blocks_index finds the records, piece after piece, one thread at a time, outside the turn. A record that the
#           end of a piece cuts off is moved in front of the next piece. Then the block is published: its records have
#           numbers. Rows of columns (FRAME_ROWS) are not read: their owner hands in (blocks_hand) one chunk after the
#           other, each as a block.
#   use     The order takes records by number (blocks_at, blocks_give), and gives them away (blocks_out): at once, or,
#           out of a shuffle's buffer, much later. When all of a block's records are made or left out (blocks_done), its
#           memory is used again.
#   move    If few records of a block are left inside a shuffle, they are copied (blocks_claim_moving, blocks_move,
#           blocks_moved), so that the block's memory is free for others. The order still names the block; its records
#           are from then on read in `moved`.
#   I1  At most `most` blocks are ahead of the order: being read, waiting, or published and not given yet. The batches
#       and shuffles that records are given to bound the number of blocks behind it.
#   I2  A published block doesn't change.
#   I3  Blocks are indexed in the order of their sequence numbers, and published in that order: records have the numbers
#       that one thread would give them.
#   I4  Interleaved, each file that is open or comes next has a lane of its own, with its own pieces, stream and index.
#       Counts alone decide which record is next: so many of a lane, then of the next one (tf.data's interleave: records
#       that a lane lacks at its end are not made up for, and its slot gets the next file when it comes again).
#   I5  The memory that a handed block's columns lie in stays until its number is among the `freed`.
# blocks_read, blocks_index, blocks_move (pieces.pxd) run without the turn, with system calls and long loops. All
# functions declared here need the turn, are short, and make no system call.
from libc.stdint cimport int32_t, int64_t
from queuecore._core.io.csv cimport CsvCursor, CsvPlan, CsvScan
from queuecore._core.atoms.platform cimport Atomic, Fault, StopFlag
from queuecore._core.io.sources cimport FileTable
from queuecore._core.io.streams cimport ByteStream

cdef enum:
    BLOCK_BYTES = 256 << 10  # of a piece
    HEADROOM = 64 << 10      # in front of a piece, for the record that the one before it cut off
    CSV_STRIDE = 32          # rows between two places that are known

cdef enum:
    BLOCKS_OK = 0
    BLOCKS_WAIT = 1
    BLOCKS_END = 2           # of the pass
    BLOCKS_FAULT = 3         # a fault ended the pass

cdef enum:
    HANDED = 0
    HANDED_FULL = 1          # too much is ahead: try again later
    HANDED_STALE = 2         # the order is past this pass
    HANDED_NO_MEMORY = 3
# A column of rows that were handed in. Its Output (stream/rows.pxd) says how a row lies in it.
cdef struct Column:
    const unsigned char* data
    const int64_t* ends      # of rows of varying length: one more than there are rows, in bytes; otherwise NULL
    const int64_t* dims      # the shape noted for each row

# Where a block begins: enough to begin reading there.
cdef struct Place:
    int64_t file
    int64_t offset           # in the file's (decompressed) stream
    int64_t number           # records of the file before it
    int64_t line             # CSV: from 1
    int64_t base             # records of the pass before it

# A record that was moved out of its block.
cdef struct Moved:
    int64_t first            # index among that block's records
    int64_t was              # offset in that block's text
    int64_t at               # offset in the new text; it ends where the next one begins
    int64_t line             # CSV

cdef enum:
    BLOCK_PIECE = 0
    BLOCK_FAULT = 1          # no piece, but the fault of a file that can't be read
    BLOCK_END = 2            # of the pass

cdef struct RecordBlock:
    RecordBlock* next
    RecordBlock* made_before # in the list of all blocks
    int32_t kind
    unsigned char* memory
    int64_t room             # bytes of `memory`
    unsigned char* text
    int64_t nbytes
    int64_t used             # bytes of whole records
    Place place              # of text
    bint begins              # its place is known when it is claimed: at the start of a file, or where everything began
    bint opens               # compressed: reading it opens the file
    bint last                # the file ends with it
    bint ignored             # of a file that is given up
    int64_t sequence
    int64_t epoch            # of the scan: blocks of an earlier scan are dropped
    # why the file ends early after these records, or, of rows, why the record can't be made; code 0: none
    Fault fault
    int64_t pass_
    int64_t count            # records
    int64_t given            # records given to the order
    int64_t inside           # records given to the order that are still inside it
    RecordBlock* older       # in the list of blocks with records inside
    RecordBlock* newer
    Lane* lane
    # interleaved under a shuffle: pass, ordinal, blocks_save, files given up, when it came to have records inside
    int64_t* saved
    int64_t skip             # entries of the index before the first record; of columns: rows before it
    const int64_t* rows      # of columns: the numbers of the rows that are records; NULL: all from `skip` on
    int64_t owner            # of columns: the number of their owner; below 0: `link` is the owner
    void* link
    # Rows: a Column each. Lines: uint32_t ends (lines.pxd). TFRecords: int64_t starts. CSV: a CsvCursor for every
    # CSV_STRIDE rows
    void* index
    int64_t index_bytes
    const char* name         # of its file
    # records neither made nor left out; one more for the carry, and one more while records wait to be moved
    int64_t left
    # Under a shuffle, unless records are too short:
    bint noted               # `here` is valid
    unsigned char* here      # for each record: it is inside the order
    int64_t here_room
    # few records are left inside: they wait to be moved, or were, or there is no memory for that
    bint few
    RecordBlock* moved       # the block that has the records inside the order; NULL: this one
    RecordBlock* source      # of such a block: the one that they were moved out of
    Moved* records           # of such a block, by `first`; one more than there are records

# A file that was given up, and the pass.
cdef struct Skipped:
    int64_t pass_
    Fault fault

# Files that are read one after the other: all files, or, interleaved, one file.
cdef struct Lane:
    Lane* after              # in its list
    ByteStream stream
    # Under the turn:
    int64_t epoch            # of the scan
    int64_t pass_            # of the next piece, as are the next three
    Place next
    bint begins
    bint opens
    bint streaming           # a piece of a compressed file is being read
    bint scanned             # nothing is left to read in this pass
    int64_t sequence         # of the next piece
    int32_t ahead            # blocks of this scan that are not given yet
    RecordBlock* waiting     # read, not indexed; by sequence
    int64_t next_index       # sequence of the next block to index
    bint indexing            # a thread indexes
    RecordBlock* first       # published
    RecordBlock* last
    int64_t base             # records of the pass that are published
    int64_t ignored          # number of a file that is given up; -1: none
    bint ended               # interleaved: all of the file is published
    Fault fault              # interleaved: the fault that follows; code 0: none
    int64_t skip             # interleaved: records to leave out, which were given before everything began
    Place at_place           # interleaved: the place of the block that the last given record lies in
    int64_t at_given         # interleaved: records given of that block
    # Used by the thread that indexes:
    RecordBlock* carry       # the last piece of the file: its bytes from `used` on belong to the next record
    RecordBlock* spent       # the piece before, whose bytes were moved
    int64_t index_epoch
    int64_t need             # bytes that the next record takes, as far as known
    Place at                 # of the next record
    int64_t lead             # FRAME_FIXED: bytes before the next record
    # CSV: how far the search for the end of the carry's record has come; lines use `seen` alone
    CsvScan scan

cdef struct Blocks:
    FileTable* table
    StopFlag* stop
    int32_t framing, encoding
    int64_t header           # lines, or rows of CSV, left out at the top of each file
    int64_t record_bytes, header_bytes, footer_bytes, hop_bytes  # FRAME_FIXED
    bint drop_tail
    int64_t max_record_bytes
    const CsvPlan* csv
    int64_t piece_bytes, headroom  # BLOCK_BYTES, HEADROOM; others in tests
    bint skip_files          # a file that is missing or damaged ends there, and the next one begins
    Atomic[int64_t]* memory  # bytes of all blocks
    int64_t memory_most      # limit of `memory`, unless nothing is ahead; 0: none
    int64_t passes           # passes that will be asked for, as far as known; -1: without end
    int64_t cycle            # files that are interleaved; 1: none are
    int64_t lane_records     # records of one file before the next file comes
    bint shuffled            # records may stay inside the order for long
    # Under the turn:
    Lane* lanes              # an array of lane_count
    int32_t lane_count
    RecordBlock* made
    int64_t made_count       # made blocks that have memory, or will get some
    RecordBlock* free        # unused blocks with memory
    RecordBlock* bare        # unused blocks without memory
    RecordBlock* few         # blocks whose records wait to be moved
    int32_t most, ahead
    int32_t asked            # units that wait for the storage: so many blocks more may be ahead
    int32_t reading          # pieces that were claimed and are not published
    int64_t epochs
    int64_t records, nbytes  # published since the start
    int64_t available        # records that are published and not given
    RecordBlock* oldest      # with records inside the order
    RecordBlock* newest
    Place given_place        # the place of the block that the last given record lies in
    int64_t given_until, given_pass  # the block's base and the records given of it; its pass
    # rows handed in, from this one on, come in another order without an error; pass -1: none
    int64_t lost_pass, lost_at
    int64_t ended_passes     # passes before this one are published to their end
    Fault fault              # the source ends with it, after the published records; code 0: none
    Skipped* skipped         # in order
    int64_t skipped_count, skipped_room
    void (*release)(void*) noexcept nogil  # FRAME_ROWS: releases a native owner
    int64_t* freed           # numbers of other owners that are no longer used
    int64_t freed_count, freed_room
    # Interleaved:
    Lane** slots
    int64_t cursor, lane_given  # the slot that gives records now, and how many it has given in a row
    int64_t open             # slots with a lane
    int64_t next_file        # the next file to get a slot
    int64_t position         # of the next record in the pass
    int64_t order_pass       # the pass that the order is in
    Lane* idle
    Lane* coming             # lanes of the files that will be opened next, in order
    Lane* coming_last
    int64_t coming_pass, coming_file  # the file that gets the next lane

# Begins at the place `start`, with record `ordinal` of pass `pass_`. Interleaved, `saved` has the numbers that
# blocks_save wrote there; NULL: at the first record. False: no memory.
cdef bint blocks_init(Blocks* s, FileTable* table, StopFlag* stop, int32_t workers, const Place* start, int64_t pass_,
                      int64_t ordinal, const int64_t* saved) noexcept nogil
# Notes that the rows handed in from now on come in another order without an error that has ended an input.
cdef void blocks_lose(Blocks* s) noexcept nogil
# Returns whether such rows have been given.
cdef bint blocks_lost(const Blocks* s) noexcept nogil
# Frees all memory, when no thread uses it any more.
cdef void blocks_clear(Blocks* s) noexcept nogil
# Returns whether blocks that are ahead must be used before more is read.
cdef bint blocks_full(Blocks* s) noexcept nogil
# Closes the streams that no thread reads. Nothing is claimed from then on.
cdef void blocks_close(Blocks* s) noexcept nogil
# Returns the number of the file that pieces come from next; it may not be discovered yet.
cdef int64_t blocks_wanted(const Blocks* s) noexcept nogil
# Claims the next piece to read; NULL: there is none now, or, if *no_memory became true, no memory for it. nowait: only
# a piece that the page cache may have.
cdef RecordBlock* blocks_claim(Blocks* s, bint nowait, bint* no_memory) noexcept nogil
# Takes a piece that was read. If it returns a lane, the caller indexes that one now: blocks_next_to_index,
# blocks_index, blocks_publish, until the first of these returns NULL.
cdef Lane* blocks_retire(Blocks* s, RecordBlock* b) noexcept nogil
cdef RecordBlock* blocks_next_to_index(Blocks* s, Lane* l) noexcept nogil
cdef void blocks_publish(Blocks* s, RecordBlock* b) noexcept nogil
# Returns the block with record `ordinal` of a pass, the next one to be given, and *n: how many from there on; or NULL
# with *status.
cdef RecordBlock* blocks_at(Blocks* s, int64_t pass_, int64_t ordinal, int64_t* n, int* status) noexcept nogil
# Gives the next n records of this block. With its last record, the block is no longer ahead.
cdef void blocks_give(Blocks* s, RecordBlock* b, int64_t n) noexcept nogil
# Notes that n given records, from `first` on, have left the order: a batch has them, or the caller calls blocks_done
# for them.
cdef void blocks_out(Blocks* s, RecordBlock* b, int64_t first, int64_t n) noexcept nogil
# Notes that n records of this block are made, or left out.
cdef void blocks_done(Blocks* s, RecordBlock* b, int64_t n) noexcept nogil
# Leaves out n records that were given: blocks_out and blocks_done.
cdef void blocks_leave(Blocks* s, RecordBlock* b, int64_t first, int64_t n) noexcept nogil
# Claims a block's last records inside the order: blocks_move copies them to the block that is returned, and after
# blocks_moved they are read there. NULL: none wait.
cdef RecordBlock* blocks_claim_moving(Blocks* s) noexcept nogil
cdef void blocks_moved(Blocks* s, RecordBlock* to) noexcept nogil
# FRAME_ROWS. Hands in the next n rows of a pass, of `count` columns. nbytes: about the bytes of all of them.
cdef int blocks_hand(Blocks* s, int64_t pass_, const Column* columns, int32_t count, int64_t first, const int64_t* rows,
                     int64_t n, int64_t nbytes, int64_t owner, void* link) noexcept nogil
# Hands in a row that can't be made: a break (order/op.pxd) comes in its place. The row counts as a record here.
cdef int blocks_hand_break(Blocks* s, int64_t pass_, const Fault* fault) noexcept nogil
# Ends the pass. fault: the reason why it ends early; NULL: all of it was handed in.
cdef void blocks_hand_end(Blocks* s, int64_t pass_, const Fault* fault) noexcept nogil
# Notes that the order begins this pass: drops the records that are left of earlier ones.
cdef void blocks_restart(Blocks* s, int64_t pass_) noexcept nogil
# Interleaved: writes the places of all lanes, as blocks_saved(cycle) numbers.
cdef void blocks_save(const Blocks* s, int64_t* saved) noexcept nogil
# Returns the file of a lane from which records were given, and whose end was not; -1: there is none, or it was given
# up. The files of a pass that was read to its end have all been looked at there.
cdef int64_t blocks_unfinished(const Blocks* s, int64_t lane) noexcept nogil
cdef inline int64_t blocks_saved(int64_t cycle) noexcept nogil:
    # Next file, slot, records that it has given; for each slot: file (-1: none), offset, number and line of a block,
    # records to leave out.
    return 3 + 5 * cycle

# For pieces.pyx, without the turn.
# Sets the fault of a piece for which nbytes bytes of memory can't be had.
cdef void piece_no_memory(RecordBlock* b, int64_t nbytes) noexcept nogil
# Sets the fault of a piece whose file is longer than a record may be.
cdef void whole_too_long(Blocks* s, RecordBlock* b) noexcept nogil
# Makes room for `entries` entries of an index, of `item` bytes each.
cdef bint index_room(Blocks* s, RecordBlock* b, int64_t entries, int64_t item) noexcept nogil
