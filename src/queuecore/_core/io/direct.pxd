# Direct reads: bytes of a file that pass over the page cache. The disk wants places in the file, addresses, and sizes
# that are multiples of its blocks; other bytes go through memory for which that holds.
# Any thread; system calls; hold no turn.
from libc.stdint cimport int64_t
from queuecore._core.atoms.platform cimport iovec

# Reads some of the bytes that the list has room for, as preadv does, by a descriptor that may be direct. -1: errno says
# why; EINVAL: the disk wants larger blocks, or nothing direct at all.
cdef int64_t direct_read(int fd, const iovec* iov, int count, int64_t offset) noexcept nogil
