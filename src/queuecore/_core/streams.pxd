# The bytes of one file, in order.
#
# A Stream belongs to one thread at a time. Its calls are system calls: they may wait for a disk, and hold no turn.
from libc.stdint cimport int64_t, uint32_t
from queuecore._core.platform cimport Fault

cdef extern from *:
    """
    namespace queuecore {
    struct Stream {
      int fd;          // -1: none is open
      int64_t size;    // of the file, when it was opened
      int64_t offset;  // of the next byte in the file
    };
    }  // namespace queuecore
    """
    cppclass Stream "queuecore::Stream":
        int fd
        int64_t size
        int64_t offset

# Opens a regular file. False: `fault` says why.
cdef bint stream_open(Stream* s, const char* name, Fault* fault) noexcept nogil
# Reads up to n bytes, less only at the end. *got: how many, also when it fails.
cdef bint stream_read(Stream* s, unsigned char* into, int64_t n, int64_t* got, Fault* fault) noexcept nogil
# Idempotent.
cdef void stream_close(Stream* s) noexcept nogil
