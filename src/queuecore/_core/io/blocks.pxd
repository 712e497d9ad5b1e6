# Blocks: the source of records that have no known places: lines, TFRecords, CSV, and all compressed data.
#
# A block is a piece of a file that was read, with the places of the records in it. These things happen to it:
#   read    blocks_claim, under the pipeline's turn, picks the next piece; blocks_read, outside the turn, reads it. Any
#           number of threads read pieces of plain files at once; pieces of a compressed file are read one after the
#           other.
#   index   blocks_index finds the records, piece after piece, one thread at a time, outside the turn. A record that the
#           end of a piece cuts off is moved in front of the next piece. Then the block is published: its records have
#           numbers. Rows that are handed in (handed.pxd) are published as they come, each chunk as a block.
#   use     The order takes records by number (blocks_at, blocks_give), and gives them away (blocks_out): at once, or,
#           out of a shuffle's buffer, much later. When all of a block's records are made or left out (blocks_done), its
#           memory is used again.
#   move    If few records of a block are left inside a shuffle, they are copied (blocks_claim_moving, blocks_move,
#           blocks_moved), so that the block's memory is free for others. The order still names the block; its records
#           are from then on read in `moved`.
#   I1  At most `most` blocks are ahead of the order: being read, waiting, or published and not given yet; more, of
#       `run_ahead` bytes at most, where later files are decompressed meanwhile. The batches and shuffles that records
#       are given to bound the number of blocks behind it.
#   I2  A published block doesn't change.
#   I3  Blocks are indexed in the order of their sequence numbers, and published in that order: records have the numbers
#       that one thread would give them.
# Four kinds (BlockKind) differ in where the next piece comes from, and in which record is next: files one after the
# other (here), the same where later files are decompressed meanwhile and files side by side (both in lanes.pxd), rows
# that are handed in (handed.pxd). A kind that has more to keep has structs of its own, which begin with Blocks, Lane or
# RecordBlock.
# blocks_read, blocks_index, blocks_move (pieces.pxd) run without the turn, with system calls and long loops. All
# functions declared here need the turn, are short, and make no system call.
from libc.stddef cimport size_t
from libc.stdint cimport int32_t, int64_t
from queuecore._core.io.csv cimport CsvCursor, CsvPlan, CsvScan
from queuecore._core.atoms.platform cimport Atomic, Fault, StopFlag
from queuecore._core.io.sources cimport FileTable
from queuecore._core.io.streams cimport ByteStream
from queuecore._core.io.walk cimport WalkKind

cdef enum:
    BLOCK_BYTES = 256 << 10  # of a piece
    HEADROOM = 64 << 10      # in front of a piece, for the record that the one before it cut off, to begin with
    CSV_STRIDE = 32          # rows between two places that are known

cdef enum:
    BLOCKS_OK = 0
    BLOCKS_WAIT = 1
    BLOCKS_END = 2           # of the pass
    BLOCKS_FAULT = 3         # a fault ended the pass

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

cdef struct Blocks
cdef struct Lane
cdef struct MovedBlock

cdef enum:
    BLOCK_PIECE = 0
    BLOCK_FAULT = 1          # no piece, but the fault of a file that can't be read
    BLOCK_END = 2            # of the pass
    BLOCK_MOVED = 3          # a MovedBlock

cdef struct RecordBlock:
    RecordBlock* next
    RecordBlock* made_before # in the list of all blocks
    int32_t kind
    unsigned char* memory
    int64_t room             # bytes of `memory`
    int64_t headroom         # bytes to leave in front of the piece when it is read
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
    int64_t skip             # entries of the index before the first record
    # Lines: uint32_t ends (lines.pxd). TFRecords: int64_t starts. CSV: a CsvCursor for every CSV_STRIDE rows. Rows that
    # are handed in: a Column each
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
    MovedBlock* moved        # the block that has the records inside the order; NULL: this one

# Records that were moved out of the block `source`.
cdef struct MovedBlock:
    RecordBlock block
    RecordBlock* source
    Moved* records           # by `first`; one more than there are records

# A file that was given up, and the pass.
cdef struct Skipped:
    int64_t pass_
    Fault fault

# Files that are read one after the other: all files, or one file, where each has a lane.
cdef struct Lane:
    Lane* beside             # the next one of all lanes
    ByteStream stream
    # Under the turn:
    int64_t epoch            # of the scan
    int64_t pass_            # of the next piece, as are the next three
    Place next
    bint begins
    bint opens
    bint streaming           # a piece of a compressed file is being read
    bint scanned             # nothing is left to read in this pass
    bint ended               # no more blocks are published
    int64_t sequence         # of the next piece
    int32_t ahead            # blocks of this scan that are not given yet
    RecordBlock* waiting     # read, not indexed; by sequence
    int64_t next_index       # sequence of the next block to index
    bint indexing            # a thread indexes
    RecordBlock* first       # published
    RecordBlock* last
    int64_t base             # records of the pass that are published
    int64_t ignored          # number of a file that is given up; -1: none
    # Used by the thread that indexes:
    RecordBlock* carry       # the last piece of the file: its bytes from `used` on belong to the next record
    RecordBlock* spent       # the piece before, whose bytes were moved
    int64_t index_epoch
    int64_t need             # bytes that the next record takes, as far as known
    int64_t cut              # most bytes that a piece cut off, of those that are less than a piece
    Place at                 # of the next record
    int64_t lead             # FRAME_FIXED: bytes before the next record
    # CSV: how far the search for the end of the carry's record has come; lines use `seen` alone
    CsvScan scan
    # Under the turn:
    int64_t wants            # `need` as of the block that was published last; 0: it cut off no record

# The functions that a kind of blocks has of its own.
cdef struct BlockKind:
    bint reads               # files; False: rows are handed in, when they come, and passes may differ in length
    size_t nbytes            # of its Blocks
    # Makes the lanes of blocks that begin at the place `start`, as blocks_begin says. False: no memory.
    bint (*begin)(Blocks* s, int32_t workers, const Place* start, int64_t pass_, int64_t ordinal,
                  const int64_t* saved) noexcept nogil
    # Returns the number of the file that pieces come from next; it may not be discovered yet.
    int64_t (*wanted)(const Blocks* s) noexcept nogil
    # Returns the lane whose next piece may be read now, or whose pass has no more files; NULL: there is none.
    Lane* (*lane_to_read)(Blocks* s) noexcept nogil
    # Notes that the lane's file is claimed to its end.
    void (*next_file)(Blocks* s, Lane* l) noexcept nogil
    # Handles what follows the records of a block that was just published: the end of a file or of the pass, a fault.
    void (*publish_end)(Blocks* s, RecordBlock* b) noexcept nogil
    # blocks_at.
    RecordBlock* (*at)(Blocks* s, int64_t pass_, int64_t ordinal, int64_t* n, int* status) noexcept nogil
    # The first records of a block come to the order. NULL: nothing is noted.
    void (*enters)(Blocks* s, RecordBlock* b) noexcept nogil
    # n records of a block were given. NULL: nothing more is noted.
    void (*given)(Blocks* s, RecordBlock* b, int64_t n) noexcept nogil
    # blocks_enough. NULL: published records are given one after the other.
    bint (*enough)(const Blocks* s, int64_t n) noexcept nogil
    # blocks_restart.
    void (*restart)(Blocks* s, int64_t pass_) noexcept nogil
    # Returns the file that the last given record of a lane lies in; -1: in none.
    int64_t (*given_file)(const Blocks* s, int64_t lane) noexcept nogil
    # A block is not used any more. NULL: nothing goes with it.
    void (*let_go)(Blocks* s, RecordBlock* b) noexcept nogil
    # Frees what the kind has besides. NULL: nothing.
    void (*clear)(Blocks* s) noexcept nogil

# The settings of the blocks of all runs.
cdef struct BlockPlan:
    const BlockKind* kind
    int32_t framing, encoding
    const WalkKind* walk     # of the framing, or NULL
    int64_t header           # lines, or rows of CSV, left out at the top of each file
    int64_t record_bytes, header_bytes, footer_bytes, hop_bytes  # FRAME_FIXED
    bint drop_tail
    int64_t max_record_bytes
    const CsvPlan* csv
    int64_t piece_bytes, headroom  # BLOCK_BYTES, HEADROOM; others in tests
    bint skip_files          # a file that is missing or damaged ends there, and the next one begins
    int64_t memory_most      # limit of the bytes of all blocks, unless nothing is ahead; 0: none
    int64_t passes           # passes that will be asked for, as far as known; -1: without end
    int64_t cycle            # files that are read side by side; 1: one after the other
    int64_t lane_records     # records of one file before the next file comes
    int64_t run_ahead        # ahead_kind: most bytes of the blocks that are ahead
    int64_t lanes            # ahead_kind: most files that have a lane
    bint shuffled            # records may stay inside the order for long
    void (*release)(void*) noexcept nogil  # handed in: releases a native owner

cdef struct Blocks:
    const BlockPlan* plan
    const BlockKind* kind
    FileTable* table
    StopFlag* stop
    Atomic[int64_t]* memory  # bytes of all blocks
    # Under the turn:
    Lane* lanes              # the first one, in memory that has all
    size_t block_bytes       # of one block
    RecordBlock* made
    int64_t made_count       # made blocks that have memory, or will get some
    RecordBlock* free        # unused blocks with memory
    RecordBlock* bare        # unused blocks without memory
    RecordBlock* few         # blocks whose records wait to be moved
    int32_t most, ahead
    int32_t asked            # units that wait for the storage: so many blocks more may be ahead
    int32_t reading          # pieces that were claimed and are not published
    int64_t ahead_bytes      # memory of the blocks that are published and not given
    int64_t growing          # bytes that records take which pieces cut off
    int64_t headroom         # of the pieces that are claimed from now on: a power of two above what is cut off
    int64_t epochs
    int64_t records, nbytes  # published since the start
    int64_t available        # records that are published and not given
    RecordBlock* oldest      # with records inside the order
    RecordBlock* newest
    Place given_place        # the place of the block that the last given record lies in
    int64_t given_until, given_pass  # the block's base and the records given of it; its pass
    int64_t ended_passes     # passes before this one are published to their end
    Fault fault              # the source ends with it, after the published records; code 0: none
    Skipped* skipped         # in order
    int64_t skipped_count, skipped_room

# Returns new blocks that count their bytes in `memory`; NULL: no memory.
cdef Blocks* blocks_new(const BlockPlan* plan, FileTable* table, StopFlag* stop, Atomic[int64_t]* memory) noexcept nogil
# Begins at the place `start`, with record `ordinal` of pass `pass_`. Side by side, `saved` has the numbers that
# lanes_save wrote there; NULL: at the first record. False: no memory.
cdef bint blocks_begin(Blocks* s, int32_t workers, const Place* start, int64_t pass_, int64_t ordinal,
                       const int64_t* saved) noexcept nogil
# Frees all memory, when no thread uses it any more.
cdef void blocks_free(Blocks* s) noexcept nogil
# Returns whether blocks that are ahead must be used before more is read.
cdef bint blocks_full(Blocks* s) noexcept nogil
# Returns whether n records can be given, or are not to be waited for, as no more is read before some are given.
cdef bint blocks_enough(const Blocks* s, int64_t n) noexcept nogil
# Closes the streams that no thread reads. Nothing is claimed from then on.
cdef void blocks_close(Blocks* s) noexcept nogil
# Claims the next piece to read; NULL: there is none now, or, if *no_memory became true, no memory for it. nowait: only
# a piece that the page cache may have.
cdef RecordBlock* blocks_claim(Blocks* s, bint nowait, bint* no_memory) noexcept nogil
# Takes a piece that was read. If it returns a lane, the caller indexes that one now: blocks_next_to_index,
# blocks_index, blocks_publish, until the first of these returns NULL.
cdef Lane* blocks_retire(Blocks* s, RecordBlock* b) noexcept nogil
cdef RecordBlock* blocks_next_to_index(Blocks* s, Lane* l) noexcept nogil
cdef void blocks_publish(Blocks* s, RecordBlock* b) noexcept nogil
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
cdef void blocks_moved(Blocks* s, RecordBlock* moved_block) noexcept nogil
# Returns the file of a lane from which records were given, and whose end was not; -1: there is none, or it was given
# up. The files of a pass that was read to its end have all been looked at there.
cdef int64_t blocks_unfinished(const Blocks* s, int64_t lane) noexcept nogil


cdef inline int64_t blocks_wanted(const Blocks* s) noexcept nogil:
    # Returns the number of the file that pieces come from next; it may not be discovered yet.
    return s.kind.wanted(s)


cdef inline RecordBlock* blocks_at(Blocks* s, int64_t pass_, int64_t ordinal, int64_t* n, int* status) noexcept nogil:
    # Returns the block with record `ordinal` of a pass, the next one to be given, and *n: how many from there on; or
    # NULL with *status.
    return s.kind.at(s, pass_, ordinal, n, status)


cdef inline void blocks_restart(Blocks* s, int64_t pass_) noexcept nogil:
    # Notes that the order begins this pass: drops the records that are left of earlier ones.
    s.kind.restart(s, pass_)


# Returns the kind of files that are read one after the other.
cdef const BlockKind* files_kind() noexcept nogil

# For the kinds, under the turn.
# Begins to read at this place; pieces of the lane that are still being read are dropped when they come.
cdef void lane_begin(Blocks* s, Lane* l, int64_t pass_, const Place* start) noexcept nogil
# Returns whether a piece of the lane can be read.
cdef bint lane_can_read(const Lane* l) noexcept nogil
# Drops blocks that were read but not yet indexed.
cdef void lane_drop_read(Blocks* s, Lane* l) noexcept nogil
# Drops the lane's first block: the records of it that are not given.
cdef void lane_drop_first(Blocks* s, Lane* l) noexcept nogil
# Takes n records off the lane's first block: they are given or dropped.
cdef void lane_pass(Blocks* s, Lane* l, RecordBlock* b, int64_t n) noexcept nogil
# Returns a block that is the lane's next piece; NULL: no memory.
cdef RecordBlock* block_take(Blocks* s, Lane* l) noexcept nogil
cdef void block_give(Blocks* s, RecordBlock* b) noexcept nogil
# Gives the block's records their numbers, and publishes them.
cdef void block_add(Blocks* s, RecordBlock* b) noexcept nogil
# Returns whether the file with this fault is given up, and notes it then.
cdef bint blocks_leave_out(Blocks* s, int64_t pass_, const Fault* fault) noexcept nogil
# Notes that the pass is published to its end.
cdef void blocks_end_pass(Blocks* s, int64_t pass_) noexcept nogil
# files_kind's, for kinds with one lane.
cdef bint files_begin(Blocks* s, int32_t workers, const Place* start, int64_t pass_, int64_t ordinal,
                      const int64_t* saved) noexcept nogil
cdef int64_t files_wanted(const Blocks* s) noexcept nogil
cdef void files_next(Blocks* s, Lane* l) noexcept nogil
cdef void files_publish_end(Blocks* s, RecordBlock* b) noexcept nogil
cdef RecordBlock* files_at(Blocks* s, int64_t pass_, int64_t ordinal, int64_t* n, int* status) noexcept nogil
cdef void files_restart(Blocks* s, int64_t pass_) noexcept nogil

# For pieces.pyx, without the turn.
# Gives back the memory of a block, and its index.
cdef void block_memory_free(Blocks* s, RecordBlock* b) noexcept nogil
# Sets the fault of a piece for which nbytes bytes of memory can't be had.
cdef void piece_no_memory(RecordBlock* b, int64_t nbytes) noexcept nogil
# Sets the fault of a piece whose file is longer than a record may be.
cdef void whole_too_long(Blocks* s, RecordBlock* b) noexcept nogil
# Makes room for `entries` entries of an index, of `item` bytes each.
cdef bint index_room(Blocks* s, RecordBlock* b, int64_t entries, int64_t item) noexcept nogil
