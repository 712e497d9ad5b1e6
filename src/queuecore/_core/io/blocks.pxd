# Blocks: the source of records that have no known places: lines, TFRecords, CSV, and whatever is compressed.
#
# A block is a piece of a file that was read, with the places of the records in it. Three things happen to it:
#   read    blocks_claim, under the pipeline's turn, says which piece is next; blocks_read, outside, reads it. Pieces of plain files are
#           read by any number of threads at once; those of a compressed file one after the other.
#   index   blocks_index finds the records, piece after piece, one thread at a time, outside the turn. What the end of a piece cuts off is
#           moved in front of the next one. Then the block is published: its records have numbers.
#           Rows of columns (FRAME_ROWS) are not read: who has them hands them in (blocks_hand), one chunk after the other, as a block each.
#   use     The order takes records by number (blocks_at, blocks_give), and gives them away (blocks_out): at once, or, out of a shuffle's
#           buffer, much later. When all of a block's records are made or left out (blocks_done), its memory is used again.
#   move    Of a block that has few records left inside a shuffle, these are copied (blocks_claim_moving, blocks_move, blocks_moved), so that
#           its memory is free for others. The order still names the block; whoever gets a record out of it reads it in `moved`.
#   I1  At most `most` blocks are ahead of the order: being read, waiting, or published and not given yet. What was given is bounded by the
#       batches it goes to, and the shuffles it waits in.
#   I2  A published block doesn't change.
#   I3  Blocks are indexed in the order of their sequence numbers, and published in that order: records have the numbers that one thread
#       would give them.
#   I4  Interleaved, each file that is open or comes next has a lane of its own, with its own pieces, stream and index. Which record is next
#       is said by counts alone: so many of a lane, then of the next one (tf.data's interleave: what a lane lacks at its end is not made
#       up for, and its slot gets the next file when it is its turn again).
#   I5  What a handed block's columns lie in stays until its number is among the `freed`.
# blocks_read, blocks_index, blocks_move (pieces.pxd): no turn, system calls and long loops. All here: who holds the turn; short, no system call.
from libc.stdint cimport int32_t, int64_t
from queuecore._core.io.csv cimport CsvCursor, CsvPlan, CsvScan
from queuecore._core.atoms.platform cimport Atomic, Fault, StopFlag
from queuecore._core.io.sources cimport FileTable
from queuecore._core.io.streams cimport Stream

cdef enum:
    BLOCK_BYTES = 256 << 10  # of a piece
    HEADROOM = 64 << 10      # in front of a piece, for the record that the one before it cut off
    CSV_STRIDE = 32          # rows between two places that are known

cdef enum:
    BLOCKS_OK = 0
    BLOCKS_WAIT = 1
    BLOCKS_END = 2           # of the pass
    BLOCKS_FAULT = 3         # as well

cdef enum:
    HANDED = 0
    HANDED_FULL = 1          # later
    HANDED_STALE = 2         # nobody wants it any more
    HANDED_NO_MEMORY = 3
# A column of rows that were handed in. How a row lies in it, an Output of rows.pxd says.
cdef struct Column:
    const unsigned char* data
    const int64_t* ends      # of rows of varying length: one more than there are rows, in bytes; else NULL
    const int64_t* dims      # noted for each row

# Where a block begins: enough to begin reading there.
cdef struct Place:
    int64_t file
    int64_t offset           # in its (decompressed) stream
    int64_t number           # records of the file before it
    int64_t line             # CSV: from 1
    int64_t base             # records of the pass before it

# A record that was moved out of its block.
cdef struct Moved:
    int64_t first            # of that block's records
    int64_t was              # in its text
    int64_t at               # in the new one, up to where the next one is
    int64_t line             # CSV

cdef enum:
    BLOCK_PIECE = 0
    BLOCK_FAULT = 1          # a file that can't be read: no piece of it, but its fault
    BLOCK_END = 2            # of the pass

cdef struct RecordBlock:
    RecordBlock* next
    RecordBlock* made_before # all of them
    int32_t kind
    unsigned char* memory
    int64_t room             # bytes of it
    unsigned char* text
    int64_t nbytes
    int64_t used             # of them, by whole records
    Place place              # of text
    bint begins              # its place is known when it is claimed: at the start of a file, or where everything began
    bint opens               # compressed: with it a file is opened
    bint last                # the file ends with it
    bint ignored             # of a file that is given up
    int64_t sequence
    int64_t epoch            # of the scan: what belongs to an earlier one is dropped
    Fault fault              # why the file ends after these records; code 0: it doesn't, or is at its end. Rows: why the record can't be made
    int64_t pass_
    int64_t count            # records
    int64_t given            # of them, to the order
    int64_t inside           # of those, that it hasn't given away
    RecordBlock* older       # among those with records inside
    RecordBlock* newer
    Lane* lane
    int64_t* saved           # interleaved under a shuffle: pass, ordinal, blocks_save and files given up, when it came to have records inside
    int64_t skip             # of the index: entries before the first record; of columns: rows
    const int64_t* rows      # of columns: which of their rows the records are; NULL: all from `skip` on
    int64_t owner            # of columns: number of what they lie in; below 0: `link` is it
    void* link
    void* index              # rows: a Column for each. Lines: uint32_t ends, as of lines.pxd. TFRecords: int64_t starts. CSV: a CsvCursor for every CSV_STRIDE rows
    int64_t index_bytes
    const char* name         # of its file
    int64_t left             # records that are neither made nor left out; the carry counts as one, and whoever moves records
    # under a shuffle, of records that aren't too short
    bint noted               # `here` holds
    unsigned char* here      # for each record: the order has it
    int64_t here_room
    bint few                 # so few are left that they are moved, or were, or there is no memory for it
    RecordBlock* moved       # where those inside the order are, if not here
    RecordBlock* source      # of such a block: where they were
    Moved* records           # of such a block, by `first`; one more than there are

# A file that was given up, and in which pass.
cdef struct Skipped:
    int64_t pass_
    Fault fault

# Files that are read one after the other: all, or, interleaved, one.
cdef struct Lane:
    Lane* after              # in its list
    Stream stream
    # under the turn
    int64_t epoch            # of the scan
    int64_t pass_            # of the next piece, as are those that follow
    Place next
    bint begins
    bint opens
    bint streaming           # a piece of a compressed file is being read
    bint scanned             # nothing is left to read in this pass
    int64_t sequence
    int32_t ahead            # blocks of this scan that are not given yet
    RecordBlock* waiting     # read, not indexed; by sequence
    int64_t next_index       # sequence
    bint indexing            # somebody indexes
    RecordBlock* first       # published
    RecordBlock* last
    int64_t base             # records of the pass that are published
    int64_t ignored          # this file is given up; -1: none
    bint ended               # interleaved: all of the file is published
    Fault fault              # interleaved: code 0: none. What comes then
    int64_t skip             # interleaved: records to leave out, which were given before everything began
    Place at_place           # interleaved: of the block that a record was given of last, and how many of it
    int64_t at_given
    # of who indexes
    RecordBlock* carry       # the last piece of the file: its bytes from `used` on belong to the next record
    RecordBlock* spent       # the one before, whose bytes were moved
    int64_t index_epoch
    int64_t need             # bytes that the next record takes, as far as it is known
    Place at                 # of the next record
    int64_t lead             # FRAME_FIXED: bytes before the next record
    CsvScan scan             # CSV, and of it `seen` lines: how far it was looked for the end of the carry's record

cdef struct Blocks:
    FileTable* table
    StopFlag* stop
    int32_t framing, encoding
    int64_t header           # lines, or rows of CSV, to leave out at the top of each file
    int64_t record_bytes, header_bytes, footer_bytes, hop_bytes  # FRAME_FIXED
    bint drop_tail
    int64_t max_record_bytes
    const CsvPlan* csv
    int64_t piece_bytes, headroom  # BLOCK_BYTES, HEADROOM; others in tests
    bint skip_files          # a file that is missing or damaged ends there, and the next one begins
    Atomic[int64_t]* memory  # bytes of all blocks
    int64_t memory_most      # of these, unless nothing is ahead; 0: any
    int64_t passes           # that will be asked for, as far as is known; -1: without end
    int64_t cycle            # files that are interleaved; 1: none are
    int64_t turn_records     # so many of a file, then of the next
    bint shuffled            # records may stay inside the order for long
    # under the turn
    Lane* lanes              # the first one, or of what is interleaved
    int32_t lane_count
    RecordBlock* made
    int64_t made_count       # of those, with memory, or to get some
    RecordBlock* free        # with memory
    RecordBlock* bare        # without
    RecordBlock* few         # of which records are to be moved
    int32_t most, ahead
    int32_t reading          # pieces that were claimed and are not published
    int64_t epochs
    int64_t records, nbytes  # published in all
    int64_t available        # records that are published and not given
    RecordBlock* oldest      # with records inside the order
    RecordBlock* newest
    Place given_place        # of the block that records were given of last, how far, and in which pass
    int64_t given_until, given_pass
    int64_t ended_passes     # passes before this one are published to their end
    Fault fault              # code 0: none. The source ends with it, after what is published
    Skipped* skipped         # in order
    int64_t skipped_count, skipped_room
    void (*release)(void*) noexcept nogil  # FRAME_ROWS: lets go of a native owner
    int64_t* freed           # numbers of other owners that are no longer used
    int64_t freed_count, freed_room
    # interleaved
    Lane** slots
    int64_t cursor, turn     # the slot whose turn it is, and the records that it has given in it
    int64_t open             # slots with a lane
    int64_t next_file        # to open
    int64_t position         # of the next record in the pass
    int64_t order_pass       # that the order is in
    Lane* idle
    Lane* coming             # lanes of the files that will be opened next, in order
    Lane* coming_last
    int64_t coming_pass, coming_file  # that gets the next lane

# Begins: `start` is where, `pass_` and `ordinal` say which record that is; interleaved, `saved` (or NULL: at the first one) is what
# blocks_save wrote there. False: no memory.
cdef bint blocks_init(Blocks* s, FileTable* table, StopFlag* stop, int32_t workers, const Place* start, int64_t pass_, int64_t ordinal,
                      const int64_t* saved) noexcept nogil
# When nobody uses it any more.
cdef void blocks_clear(Blocks* s) noexcept nogil
# Whether what is ahead must be used before more is read.
cdef bint blocks_full(Blocks* s) noexcept nogil
# Nobody claims any more: closes the streams that nobody reads.
cdef void blocks_close(Blocks* s) noexcept nogil
# The first file of which nobody knows yet whether it is there, as far as the next pieces are concerned.
cdef int64_t blocks_wanted(const Blocks* s) noexcept nogil
# The next piece to read, or NULL: none now. nowait: none that would need more than the page cache.
cdef RecordBlock* blocks_claim(Blocks* s, bint nowait) noexcept nogil
# A piece was read. A lane: the caller indexes it now: blocks_next_to_index, blocks_index, blocks_publish, until the first returns NULL.
cdef Lane* blocks_retire(Blocks* s, RecordBlock* b) noexcept nogil
cdef RecordBlock* blocks_next_to_index(Blocks* s, Lane* l) noexcept nogil
cdef void blocks_publish(Blocks* s, RecordBlock* b) noexcept nogil
# The block with record `ordinal` of a pass, the next to be given, and *n: how many from there on; or NULL with *status.
cdef RecordBlock* blocks_at(Blocks* s, int64_t pass_, int64_t ordinal, int64_t* n, int* status) noexcept nogil
# n of these are given; after its last one the block is the order's no more.
cdef void blocks_give(Blocks* s, RecordBlock* b, int64_t n) noexcept nogil
# n records of it that were given, from `first` on, have left the order: some batch has them, or blocks_done will be told.
cdef void blocks_out(Blocks* s, RecordBlock* b, int64_t first, int64_t n) noexcept nogil
# n records of it are made, or left out.
cdef void blocks_done(Blocks* s, RecordBlock* b, int64_t n) noexcept nogil
# Both: n records that were given are left out.
cdef void blocks_leave(Blocks* s, RecordBlock* b, int64_t first, int64_t n) noexcept nogil
# What the records left of some block are to be moved to, or NULL: there is none. They are moved (blocks_move), and read there from then on.
cdef RecordBlock* blocks_claim_moving(Blocks* s) noexcept nogil
cdef void blocks_moved(Blocks* s, RecordBlock* to) noexcept nogil
# FRAME_ROWS. The next n rows of a pass, of `count` columns. nbytes: all of them, about.
cdef int blocks_hand(Blocks* s, int64_t pass_, const Column* columns, int32_t count, int64_t first, const int64_t* rows, int64_t n,
                     int64_t nbytes, int64_t owner, void* link) noexcept nogil
# The next row of a pass can't be made: a break (order_op.pxd) comes in its place. It counts as a record here.
cdef int blocks_hand_break(Blocks* s, int64_t pass_, const Fault* fault) noexcept nogil
# That was all of the pass. fault: or not all of it (NULL: it was).
cdef void blocks_hand_end(Blocks* s, int64_t pass_, const Fault* fault) noexcept nogil
# The order begins this pass: what is left of earlier ones is dropped.
cdef void blocks_restart(Blocks* s, int64_t pass_) noexcept nogil
# Interleaved: where all lanes are, as blocks_saved(cycle) numbers.
cdef void blocks_save(const Blocks* s, int64_t* saved) noexcept nogil
cdef inline int64_t blocks_saved(int64_t cycle) noexcept nogil:
    # Next file, slot, records of its turn; of each slot: file (-1: none), offset, number and line of a block, records to leave out.
    return 3 + 5 * cycle

# For pieces.pyx, without the turn.
# The piece that would have taken so many bytes has none.
cdef void piece_no_memory(RecordBlock* b, int64_t nbytes) noexcept nogil
# The file with this piece is longer than a record may be.
cdef void whole_too_long(Blocks* s, RecordBlock* b) noexcept nogil
# Makes room for so many entries of an index.
cdef bint index_room(Blocks* s, RecordBlock* b, int64_t entries, int64_t item) noexcept nogil
