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
    cdef int64_t n, got = 0
    while got <= least:
        iov.iov_base = window + got
        iov.iov_len = <size_t>(nbytes - got)
        n = file_read(fd, &iov, 1, offset + got, 0)
        if n < 0:
            return -1
        if n == 0:
            break
        got += n
    return got


cdef int64_t direct_read(int fd, const iovec* iov, int count, int64_t offset) noexcept nogil:
    cdef unsigned char[NEAR_BYTES + BLOCK_BYTES] near
    cdef unsigned char* window
    cdef iovec whole
    cdef int64_t skew = offset % BLOCK_BYTES, wanted = 0, nbytes, got, at = 0, part
    cdef int i = 0, error
    if skew == 0 and <uintptr_t>iov.iov_base % BLOCK_BYTES == 0 and iov.iov_len >= BLOCK_BYTES:
        whole.iov_base = iov.iov_base
        whole.iov_len = iov.iov_len - iov.iov_len % BLOCK_BYTES
        return file_read(fd, &whole, 1, offset, 0)
    while i < count and wanted < WINDOW_BYTES - skew:
        wanted += <int64_t>iov[i].iov_len
        i += 1
    wanted = min(wanted, WINDOW_BYTES - skew)
    nbytes = (skew + wanted + BLOCK_BYTES - 1) // BLOCK_BYTES * BLOCK_BYTES
    if nbytes <= NEAR_BYTES:
        window = near + (BLOCK_BYTES - <int64_t>(<uintptr_t>near % BLOCK_BYTES)) % BLOCK_BYTES
    else:
        window = <unsigned char*>buffer_take(WINDOW_BYTES)
        if window == NULL:
            set_errno(ENOMEM)
            return -1
    got = _fill(fd, window, nbytes, offset - skew, skew)
    error = errno
    i = 0
    while at < min(got - skew, wanted):
        part = min(<int64_t>iov[i].iov_len, min(got - skew, wanted) - at)
        memcpy(iov[i].iov_base, window + skew + at, part)
        at += part
        i += 1
    if nbytes > NEAR_BYTES:
        buffer_give(window, WINDOW_BYTES)
    set_errno(error)
    return -1 if got < 0 else at
