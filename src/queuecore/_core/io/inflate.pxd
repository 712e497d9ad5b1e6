# Decompression of GZIP, ZLIB and ZSTD data, piece by piece, by libraries that are found at run time.
#
# An Inflater belongs to one thread at a time. Its owner holds its memory too (INFLATER_BYTES of any content), and moves
# neither between inflater_begin and inflater_end. Its calls never wait. Concatenated GZIP members and ZSTD frames are
# one stream; zeros after a GZIP member don't count.
# Before the first native use of an encoding, a Python thread must have called library() for it
# (queuecore._io.compression does).
from libc.stdint cimport int32_t, int64_t, uint32_t

cdef enum:
    ENCODING_NONE = 0
    ENCODING_GZIP = 1
    ENCODING_ZLIB = 2
    ENCODING_ZSTD = 3

cdef enum:
    INFLATER_BYTES = 96 << 10
    # A call with room for this many bytes gives all bytes that it decompressed before it met damage.
    INFLATE_ROOM = 128 << 10

cdef struct Inflater:
    int32_t encoding
    int32_t library          # a LIBRARY_ number of inflate.pyx; 0: not begun
    int32_t inside           # a member or frame has begun, and its end isn't reached
    int32_t full             # there was no room left: the library may hold decompressed bytes
    int64_t members          # members or frames that are complete
    int64_t begun            # place in the compressed data where the last member or frame began
    int64_t place            # of the next compressed byte; of the damage, once a fault was returned
    int64_t hint             # compressed bytes that the library wants next
    # Of a GZIP header that is being read:
    int32_t header           # the next part (HEADER_* of inflate.pyx)
    uint32_t flags
    uint32_t count           # bytes of this part so far
    uint32_t extra_left
    uint32_t crc
    int64_t room_used
    void* room
    void* state              # of the library

# Returns 0 or a WHAT_ number of atoms/errors.pxd.
cdef int inflater_begin(Inflater* f, int32_t encoding, void* room) noexcept nogil
# Decompresses from source[0], of left[0] bytes (both move on), until `n` bytes are made (n > 0), or nothing more can be
# made of the source. written[0]: the bytes made, also after a failure. Returns 0 or a WHAT_ number; after the latter
# only inflater_end may follow.
cdef int inflater_run(Inflater* f, const unsigned char** source, int64_t* left, unsigned char* into, int64_t n,
                      int64_t* written) noexcept nogil
# Idempotent; a zeroed Inflater has not begun.
cdef void inflater_end(Inflater* f) noexcept nogil
# For tests: sets the library that GZIP and ZLIB use from now on. 0: the fastest.
cdef void inflate_prefer(int32_t library) noexcept nogil
