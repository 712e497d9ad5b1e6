# The bytes of one file, in order, decompressed on the way if they are compressed.
#
# A Stream belongs to one thread at a time, and stays where it is while a file is open. Its calls are system calls: they may wait
# for a disk, and hold no turn. It has a fixed amount of memory, 320 KiB beside what ZSTD wants, and only while a compressed file is
# open.
from libc.stdint cimport int32_t, int64_t, uint64_t
from queuecore._core.io.inflate cimport Inflater
from queuecore._core.atoms.platform cimport Fault, StopFlag

cdef struct Stream:
    int fd                   # -1: none is open
    int32_t encoding         # an ENCODING_ number of inflate.pxd
    int64_t size             # of the file, when it was opened; of a pipe or device, and of one that says that it is empty and isn't, INT64_MAX, until its end shows
    int64_t offset           # of the next byte in the stream, which of a compressed file is the decompressed one
    # Set by stream_open; its caller may change them after it.
    int32_t retries          # 0; how often a read that fails with EIO is tried again
    StopFlag* stop           # NULL; ends the waits between those, and those for a pipe
    int32_t slices           # 0; 1: a read that waits fails with CODE_AGAIN after 100 ms at most, and goes on when it is called again
    # The rest belongs to streams.pyx.
    int32_t special          # a pipe or device, or a file that says that it is empty and isn't
    int32_t quiet            # of these: there may be nothing to read, nor an end
    int32_t reopened
    int32_t tries            # in a row that failed
    int32_t starved          # nothing more can be made of the compressed bytes that were read
    int32_t ended            # all was decompressed
    int64_t place            # of the next byte in the file
    int64_t mtime_ns
    uint64_t dev, ino
    char* name
    unsigned char* memory
    const unsigned char* raw  # compressed bytes that were read: the next one
    int64_t raw_left
    int64_t ahead, ahead_end  # decompressed bytes that nobody has got yet: places in the memory
    Inflater inflater
    int32_t damage           # WHAT_ number of what is wrong with the data; 0: nothing so far
    int64_t damage_place
    Fault failed             # of a read, to be told once what was read before it is used up; code 0: none

# Opens a regular file whose bytes are so encoded. `name` need not outlive the call. False: `fault` says why.
cdef bint stream_open(Stream* s, const char* name, int32_t encoding, Fault* fault) noexcept nogil
# The same of a pipe or device too, which is never opened twice. A pipe begins with its first writer, and ends with its last one.
cdef bint stream_open_any(Stream* s, const char* name, int32_t encoding, Fault* fault) noexcept nogil
# Reads up to n bytes, less only at the end. *got: how many, also when it fails: what comes before the damage or the failed read is among
# them. With the last byte of a file it looks whether this has changed since it was opened. (Of what comes before a cut, ISA-L keeps back up to three bytes, and ZSTD the block that is cut.) After a failed read it may be
# called again, and goes on there; damage stays.
# A failed read waits between its tries for 10 ms, 20 ms and so on, 100 ms at most. What a pipe has is among the bytes that come with
# CODE_AGAIN.
cdef bint stream_read(Stream* s, unsigned char* into, int64_t n, int64_t* got, Fault* fault) noexcept nogil
# Idempotent.
cdef void stream_close(Stream* s) noexcept nogil
