"""Files as streams of bytes."""
from libc.errno cimport EAGAIN, EINTR, errno
from libc.stdint cimport int64_t
from libc.string cimport memset
from queuecore._core.atoms cimport check_layout, syscalls
from queuecore._core.errors cimport CODE_SOURCE_CHANGED, STAGE_READ, WHAT_READ, WHAT_SHORTENED
from queuecore._core.platform cimport Fault, FileStat, iovec, layout_hash
from queuecore._core.sources cimport open_regular, os_code

check_layout(layout_hash())


cdef bint stream_open(Stream* s, const char* name, Fault* fault) noexcept nogil:
    cdef FileStat st
    s.fd = open_regular(name, &st, fault)
    if s.fd < 0:
        return False
    s.size = st.size
    s.offset = 0
    return True


cdef bint stream_read(Stream* s, unsigned char* into, int64_t n, int64_t* got, Fault* fault) noexcept nogil:
    cdef iovec iov
    cdef int64_t part
    cdef int patience = 1000
    got[0] = 0
    if n > s.size - s.offset:  # what is appended meanwhile doesn't count
        n = s.size - s.offset
    while got[0] < n:
        iov.iov_base = into + got[0]
        iov.iov_len = n - got[0]
        part = syscalls().preadv(s.fd, &iov, 1, s.offset, 0)
        if part > 0:
            got[0] += part
            s.offset += part
            continue
        if part < 0 and errno == EINTR:
            continue
        if part < 0 and errno == EAGAIN and patience > 0:  # a regular file that says "later": a few network file systems do
            patience -= 1
            continue
        memset(fault, 0, sizeof(Fault))
        fault.stage = STAGE_READ
        fault.file = fault.record = -1
        fault.offset = s.offset
        if part == 0:
            fault.code = CODE_SOURCE_CHANGED
            fault.what = WHAT_SHORTENED
            fault.a = s.size
            fault.b = s.offset + <int64_t>iov.iov_len
        else:
            fault.err = errno
            fault.code = os_code(fault.err)
            fault.what = WHAT_READ
        return False
    return True


cdef void stream_close(Stream* s) noexcept nogil:
    if s.fd >= 0:
        syscalls().close(s.fd)
        s.fd = -1
