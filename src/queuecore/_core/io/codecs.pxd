# The libraries that decompress, which are looked for at run time, behind one interface: a row of functions for each.
#
# Before the first native use of an encoding, a Python thread must have called library() for it
# (queuecore._io.compression does). An Inflater (inflate.pxd) belongs to one thread at a time, and so do these calls.
# None of them waits.
from libc.stdint cimport int32_t, int64_t, uint32_t

cdef enum:
    ENCODING_NONE = 0
    ENCODING_GZIP = 1
    ENCODING_ZLIB = 2
    ENCODING_ZSTD = 3
    ENCODING_LZ4 = 4
    ENCODING_XZ = 5
    ENCODING_BZ2 = 6

cdef enum:
    INFLATER_BYTES = 96 << 10

cdef struct Inflater:
    const CodecKind* kind    # NULL: not begun
    int32_t encoding
    int32_t inside           # a member or frame has begun, and its end isn't reached
    int32_t full             # there was no room left: the library may hold decompressed bytes
    int64_t members          # members or frames that are complete
    int64_t begun            # place in the compressed data where the last member or frame began
    int64_t place            # of the next compressed byte; of the damage, once a fault was returned
    int64_t hint             # compressed bytes that the library wants next
    # Of a GZIP header that is being read:
    int32_t header           # the next part (HEADER_* of codecs.pyx)
    uint32_t flags
    uint32_t count           # bytes of this part so far
    uint32_t extra_left
    uint32_t crc
    int64_t room_used
    void* room
    void* state              # of the library

# One call of a library: decompress from `source`, of `left` bytes, to `into`, of n bytes.
cdef struct CodecCall:
    const unsigned char* source
    int64_t left
    unsigned char* into
    int64_t n
    # The result, also of a call that failed:
    int64_t took             # bytes of `source` that were used
    int64_t written          # bytes that were made
    bint ended               # the member or frame is complete

# The functions of a library. An int that they return is 0 or a WHAT_ number of atoms/errors.pxd.
cdef struct CodecKind:
    # Makes the state. If it fails, `end` isn't called.
    int (*begin)(Inflater* f) noexcept nogil
    # Prepares for the member or frame that begins now.
    int (*next_member)(Inflater* f) noexcept nogil
    # Decompresses; the result is all zero when it is called.
    int (*run)(Inflater* f, CodecCall* c) noexcept nogil
    void (*end)(Inflater* f) noexcept nogil

# Returns the functions for an encoding; NULL: no library for it is found.
cdef const CodecKind* codec_of(int32_t encoding) noexcept nogil
# Returns the decompressed bytes that ZSTD data claims to have; -1: it doesn't say.
cdef int64_t zstd_claim(const unsigned char* source, int64_t n) noexcept nogil
# For tests: sets the library (a LIBRARY_ number of codecs.pyx) that GZIP and ZLIB use from now on, if it is found. 0:
# the fastest.
cdef void codec_prefer(int32_t library) noexcept nogil
