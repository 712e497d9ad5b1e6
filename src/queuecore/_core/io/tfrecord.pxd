# TFRecord framing: where records begin and end in a block of bytes, and whether their checksums are right.
#
# A record is its length (8 bytes, little-endian), a checksum of that (4), the data, and a checksum of the data (4). A
# file is records one after the other, so files may be concatenated.
#
# Pure functions over bytes that the caller holds: wait-free, callable from any thread. They allocate nothing and read
# nothing outside [data, data + n). Two passes, which need not be made by the same thread:
#   boundaries (tfrecord_walk)  goes over the caller's blocks in order, and looks at 12 bytes of each record. The starts
#                               that it finds in a block are also the block's index.
#   data (tfrecord_check)       checks any record, in any order.
# A Fault describes an error. Its offset is where the record starts, in bytes of the (decompressed) stream.
from libc.stddef cimport size_t
from libc.stdint cimport int64_t, uint32_t, uint64_t
from queuecore._core.atoms.platform cimport Fault
from queuecore._core.io.walk cimport RecordWalk, WalkKind

cdef enum:
    TFRECORD_HEADER = 12           # bytes before the data
    TFRECORD_FRAME = 16            # bytes around the data
    TFRECORD_MOST_BYTES = 1 << 30  # the default limit of a record's data

# Continues a checksum (0 at the start) over n bytes, in the fastest way that this processor can run.
cdef uint32_t crc32c(uint32_t crc, const unsigned char* p, size_t n) noexcept nogil

# Finds whole records, at most `most`, in the bytes of the stream from w.offset on. starts[0 .. *records]: where they
# begin in the block, and where the last one ends. The data of record i begins at starts[i] + TFRECORD_HEADER, and has
# starts[i + 1] - starts[i] - TFRECORD_FRAME bytes. last: the stream ends with this block.
# A length is checked before anything is allocated for it, in this order: its checksum, the limit, the rest of the
# stream. Where the rest isn't known, `need` may be as large as the limit although no bytes follow: grow a buffer only
# with the bytes that come.
# After WALK_FAULT the walk stands at the damaged record, which comes after those that were found: give these first, and
# keep the fault apart from the faults of their data. Then give up, or search further with tfrecord_resync.
cdef int tfrecord_walk(RecordWalk* w, const unsigned char* data, int64_t n, bint last, int64_t* starts,
                       int64_t max_records, int64_t* records, Fault* fault) noexcept nogil
# Returns whether data agrees with the checksum that follows it.
cdef bint tfrecord_check(const unsigned char* data, int64_t data_bytes) noexcept nogil
# Sets the fault of a record whose data doesn't agree with its checksum.
cdef void tfrecord_damaged(int64_t offset, int64_t record, Fault* fault) noexcept nogil
# Searches for a valid header of a record that isn't too long for the limit, or for the `left` bytes of the stream from
# `data` on (-1: not known). True: there is one at data + *at. False: none begins before data + *at, where the next
# block must begin. After a damaged header, begin one byte after the start of its record. Records inside the data of the
# damaged one are found too: nothing tells them from others.
cdef bint tfrecord_resync(const unsigned char* data, int64_t n, int64_t left, int64_t max_record_bytes,
                          int64_t* position) noexcept nogil
# Writes the bytes that stand before and after data in a file.
cdef void tfrecord_frame(const unsigned char* data, int64_t data_bytes, unsigned char* header,
                         unsigned char* footer) noexcept nogil
# Its row of functions.
cdef const WalkKind* tfrecord_kind() noexcept nogil
