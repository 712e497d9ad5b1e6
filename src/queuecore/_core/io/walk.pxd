# Walks: how records are found in blocks of bytes, of formats in which each record says itself how long it is.
#
# Such a record is bytes in front, its data, and bytes behind it. A walk goes over the blocks in order and gives the
# starts of the records of each; they are the block's index. A format has a row of functions, a WalkKind, as tfrecord
# has; `framing` knows it by the framing's number. All functions are pure, over bytes that the caller holds.
from libc.stdint cimport int64_t
from libc.string cimport memset
from queuecore._core.atoms.errors cimport STAGE_READ
from queuecore._core.atoms.platform cimport Fault

cdef enum:
    WALK_MORE = 0   # the block ends inside a record, or before the next one: `need` bytes from its start on show more
    WALK_FULL = 1   # as many records as were asked for
    WALK_END = 2    # the end of the stream, after a whole record
    WALK_FAULT = 3  # the record after those that were found is damaged

cdef struct RecordWalk:
    # Set by the caller:
    int64_t total_bytes       # of the stream, or -1: not known before its end
    int64_t max_record_bytes  # the limit of a record's data
    bint check                # verify the checksums of lengths
    # The place of the walk: 0 at the start, or the place before a record where an earlier walk stood.
    int64_t offset            # of the next record, in bytes of the stream
    int64_t record            # its index
    int64_t need              # after WALK_MORE

cdef struct WalkKind:
    int64_t header_bytes  # in front of the data
    int64_t frame_bytes   # in front of the data and behind it
    int64_t least_bytes   # of a record, with its frame; at least 1
    # Finds whole records, at most `most`, in the n bytes of the stream from w.offset on. starts[0 .. *records]: where
    # they begin in the block, and where the last one ends. last: the stream ends with this block. Returns WALK_*.
    int (*walk)(RecordWalk* w, const unsigned char* data, int64_t n, bint last, int64_t* starts, int64_t most,
                int64_t* records, Fault* fault) noexcept nogil
    # Returns whether data is sound, by what lies around it; NULL: nothing tells, or the walk has looked.
    bint (*check)(const unsigned char* data, int64_t data_bytes) noexcept nogil
    # Sets the fault of a record whose data isn't.
    void (*damaged)(int64_t offset, int64_t record, Fault* fault) noexcept nogil


# For walks.

cdef inline int64_t walk_left(const RecordWalk* w, int64_t nbytes, bint last) noexcept nogil:
    # Returns the bytes of the stream from w.offset on, of which the block has nbytes; -1: unknown.
    return nbytes if last else w.total_bytes - w.offset if w.total_bytes >= 0 else -1


cdef inline void walk_fault(const RecordWalk* w, int code, int what, int64_t a, int64_t b, Fault* fault) noexcept nogil:
    # Sets the fault of the record at w.offset.
    memset(fault, 0, sizeof(Fault))
    fault.code = code
    fault.what = what
    fault.stage = STAGE_READ
    fault.file = -1
    fault.offset = w.offset
    fault.record = w.record
    fault.a = a
    fault.b = b
