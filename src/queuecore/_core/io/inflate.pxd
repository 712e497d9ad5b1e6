# Decompression of GZIP, ZLIB, ZSTD, LZ4, XZ and BZ2 data, piece by piece, by libraries that are found at run time
# (codecs.pxd).
#
# An Inflater belongs to one thread at a time. Its owner holds its memory too (INFLATER_BYTES of any content), and moves
# neither between inflater_begin and inflater_end. Its calls never wait. Concatenated members and frames are one stream,
# but of ZLIB, which has none; zeros after a member of GZIP or XZ don't count.
from libc.stdint cimport int32_t, int64_t
from queuecore._core.io.codecs cimport Inflater

cdef enum:
    # A call with room for this many bytes gives all bytes that it decompressed before it met damage.
    INFLATE_ROOM = 128 << 10

# Returns 0 or a WHAT_ number of atoms/errors.pxd.
cdef int inflater_begin(Inflater* f, int32_t encoding, void* room) noexcept nogil
# Decompresses from source[0], of left[0] bytes (both move on), until `n` bytes are made (n > 0), or nothing more can be
# made of the source. written[0]: the bytes made, also after a failure. Returns 0 or a WHAT_ number; after the latter
# only inflater_end may follow.
cdef int inflater_run(Inflater* f, const unsigned char** source, int64_t* left, unsigned char* into, int64_t n,
                      int64_t* written) noexcept nogil
# Idempotent; a zeroed Inflater has not begun.
cdef void inflater_end(Inflater* f) noexcept nogil
