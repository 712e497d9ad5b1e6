# The bytes of one file, in order, decompressed on the way if they are compressed.
#
# A Stream belongs to one thread at a time, and its struct is not moved while a file is open. Its calls are system
# calls: they may wait for a disk, and the caller holds no turn. It has memory only while a compressed file is open: 320
# KiB, besides what the library takes.
from libc.stdint cimport int32_t, int64_t, uint64_t
from queuecore._core.io.codecs cimport Inflater
from queuecore._core.atoms.platform cimport Fault, StopFlag

cdef struct ByteStream:
    int fd                   # -1: none is open
    int32_t encoding         # an ENCODING_ number of codecs.pxd
    int64_t size             # of the file, when it was opened; if `special`, INT64_MAX until its end shows
    int64_t offset           # of the next byte in the (decompressed) stream
    # stream_open sets these to 0 or NULL; its caller may change them afterwards.
    int32_t retries          # how often a read that fails with EIO is tried again
    StopFlag* stop           # ends the waits between these tries, and those for a pipe
    # 1: a read that waits fails with CODE_AGAIN after 100 ms at most, and goes on when it is called again
    int32_t slices
    bint drops               # the page cache forgets what was read
    # The rest belongs to streams.pyx.
    int32_t special          # a pipe or device, or a file that says that it is empty and isn't
    int32_t quiet            # of these: it may have neither bytes to read nor an end now
    int32_t reopened
    int32_t tries            # tries in a row that failed
    int32_t starved          # nothing more can be made of the compressed bytes that were read
    int32_t ended            # all data is decompressed
    int64_t place            # of the next byte in the file
    int64_t mtime_ns
    uint64_t dev, ino
    char* name
    int32_t store            # as given to stream_open
    unsigned char* memory
    const unsigned char* raw  # the next of the compressed bytes that were read
    int64_t raw_left
    int64_t ahead, ahead_end  # decompressed bytes that were not given yet: places in the memory
    Inflater inflater
    int32_t damage           # WHAT_ number of the damage in the data; 0: none so far
    int64_t damage_place
    Fault failed             # of a read, reported once the bytes read before it are used up; code 0: none

# Opens a regular file of this encoding. `name` need not outlive the call; `store`: see remote_open. False: `fault` says
# why.
cdef bint stream_open(ByteStream* s, const char* name, int32_t store, int32_t encoding, Fault* fault) noexcept nogil
# Opens a file like stream_open, also if it is a pipe or device, which is never opened twice. A pipe begins with its
# first writer, and ends with its last one.
cdef bint stream_open_any(ByteStream* s, const char* name, int32_t store, int32_t encoding,
                          Fault* fault) noexcept nogil
# Reads up to n bytes, fewer only at the end. *got: how many, also after a failure: bytes before the damage or the
# failed read are among them. (Of the data before a cut, ISA-L keeps back up to three bytes, and ZSTD, LZ4 and BZ2 the
# block that is cut; of those before a copy from too far back, ISA-L keeps back 258.) The read of a file's last byte
# checks whether the file has changed since it was opened. After a failed read, another call goes on there; damage
# stays. A failed read waits between its tries for 10 ms, 20 ms and so on, 100 ms at most. Bytes that a pipe had are
# given along with CODE_AGAIN.
cdef bint stream_read(ByteStream* s, unsigned char* into, int64_t n, int64_t* got, Fault* fault) noexcept nogil
# Idempotent.
cdef void stream_close(ByteStream* s) noexcept nogil
