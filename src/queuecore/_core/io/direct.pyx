"""Reads that pass over the page cache. See direct.pxd for the contract."""
from libc.errno cimport ENOMEM, errno
from libc.stdint cimport int64_t, uintptr_t
from libc.string cimport memcpy
from queuecore._core.atoms.process cimport buffer_give, buffer_take, check_layout
from queuecore._core.atoms.platform cimport iovec, layout_hash
from queuecore._core.io.remote cimport file_read, set_errno

check_layout(layout_hash())

cdef enum:
    BLOCK_BYTES = 4096        # a multiple of any disk's blocks
    NEAR_BYTES = 16 << 10     # windows up to this size lie on the stack
    WINDOW_BYTES = 512 << 10


cdef int64_t _fill(int fd, unsigned char* window, int64_t nbytes, int64_t offset, int64_t least) noexcept nogil:
    # Reads until more than `least` bytes are there, or the file ends. Returns how many are there; -1: errno says why.
    cdef iovec iov
    cdef int64_t n, read_bytes = 0
    while read_bytes <= least:
        iov.iov_base = window + read_bytes
        iov.iov_len = <size_t>(nbytes - read_bytes)
        n = file_read(fd, &iov, 1, offset + read_bytes, 0)
        if n < 0:
            return -1
        if n == 0:
            break
        read_bytes += n
    return read_bytes


cdef int64_t direct_read(int fd, const iovec* iov, int count, int64_t offset) noexcept nogil:
    cdef unsigned char[NEAR_BYTES + BLOCK_BYTES] near
    cdef unsigned char* window
    cdef iovec vector
    cdef int64_t skew = offset % BLOCK_BYTES, wanted_bytes = 0, nbytes, read_bytes, position = 0, part
    cdef int i = 0, error
    if skew == 0 and <uintptr_t>iov.iov_base % BLOCK_BYTES == 0 and iov.iov_len >= BLOCK_BYTES:
        vector.iov_base = iov.iov_base
        vector.iov_len = iov.iov_len - iov.iov_len % BLOCK_BYTES
        return file_read(fd, &vector, 1, offset, 0)
    while i < count and wanted_bytes < WINDOW_BYTES - skew:
        wanted_bytes += <int64_t>iov[i].iov_len
        i += 1
    wanted_bytes = min(wanted_bytes, WINDOW_BYTES - skew)
    nbytes = (skew + wanted_bytes + BLOCK_BYTES - 1) // BLOCK_BYTES * BLOCK_BYTES
    if nbytes <= NEAR_BYTES:
        window = near + (BLOCK_BYTES - <int64_t>(<uintptr_t>near % BLOCK_BYTES)) % BLOCK_BYTES
    else:
        window = <unsigned char*>buffer_take(WINDOW_BYTES)
        if window == NULL:
            set_errno(ENOMEM)
            return -1
    read_bytes = _fill(fd, window, nbytes, offset - skew, skew)
    error = errno
    i = 0
    while position < min(read_bytes - skew, wanted_bytes):
        part = min(<int64_t>iov[i].iov_len, min(read_bytes - skew, wanted_bytes) - position)
        memcpy(iov[i].iov_base, window + skew + position, part)
        position += part
        i += 1
    if nbytes > NEAR_BYTES:
        buffer_give(window, WINDOW_BYTES)
    set_errno(error)
    return -1 if read_bytes < 0 else position
