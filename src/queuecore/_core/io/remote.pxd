# Remote files: those that a Python library reads, in ranges, such as objects of a store. To native code they are
# descriptors from REMOTE_FD on, and the calls are those of the system.
#
# A native thread never takes the GIL: it hands a call in and sleeps. Threads of Python's, the servers, take the calls
# in order; each does one under the GIL, and copies bytes without. Bytes are read by way of ahead.pxd: a byte that is
# here already costs no call, and a server writes to the memory of a range, never to a reader's.
#   R1  A call is its caller's, and the list's or a server's; the last holder frees it.
#   R2  A caller whose runner stops leaves at once. `result` and `st` are the server's until CALL_DONE.
# Any thread without a turn; blocking, but for what says otherwise. The runner of a native thread that waits here ends
# the wait (this_stop).
from libc.errno cimport EAGAIN
from libc.stdint cimport int32_t, int64_t, uint64_t
from queuecore._core.atoms.platform cimport FileStat, iovec, kStorageElsewhere, syscalls

cdef extern from *:
    """
    namespace queuecore {
    // Stands for the device in the status of a remote file, also of one whose bytes a cache has on this machine.
    constexpr uint64_t kRemoteDevice = 1ull << 40;
    }  // namespace queuecore
    """
    const uint64_t kRemoteDevice "queuecore::kRemoteDevice"

cdef enum:
    REMOTE_FD = 1 << 30

# Returns whether a name is a URL: a scheme of at least two letters, and "://"; or a chain of such schemes, each but the
# last one followed by "::".
cpdef bint is_url(const char* name) noexcept nogil
# As open, fstat, preadv and close; -1: errno says why. A call that is given up fails with ECANCELED. `store` is the
# number of what the opener needs to know, 0 if that is nothing.
cdef int remote_open(const char* name, int32_t store, FileStat* st) noexcept nogil
cdef int remote_fstat(int fd, FileStat* st) noexcept nogil
cdef int64_t remote_read(int fd, const iovec* iov, int count, int64_t offset) noexcept nogil
cdef void remote_close(int fd) noexcept nogil
# Says that one open file is read after another. It doesn't block, and may be called under a turn.
cdef void remote_follow(int fd, int next_fd) noexcept nogil
cdef void set_errno(int value) noexcept nogil


# The calls of the system, for descriptors of both kinds. A read that may not wait never gets bytes of a remote file.
cdef inline void file_close(int fd) noexcept nogil:
    if fd >= REMOTE_FD:
        remote_close(fd)
    else:
        syscalls().close(fd)


cdef inline int file_stat(int fd, FileStat* st) noexcept nogil:
    return remote_fstat(fd, st) if fd >= REMOTE_FD else syscalls().fstat(fd, st)


cdef inline int64_t file_read(int fd, const iovec* iov, int count, int64_t offset, int flags) noexcept nogil:
    if fd < REMOTE_FD:
        return syscalls().preadv(fd, iov, count, offset, flags)
    if flags != 0:
        set_errno(EAGAIN)
        return -1
    return remote_read(fd, iov, count, offset)


cdef inline int file_storage(int fd) noexcept nogil:
    return kStorageElsewhere if fd >= REMOTE_FD else syscalls().storage(fd)


cdef inline void file_forget(int fd, int64_t offset, int64_t nbytes) noexcept nogil:
    if fd < REMOTE_FD:
        syscalls().forget(fd, offset, nbytes)


cdef inline void file_expect(int fd, int64_t offset, int64_t nbytes) noexcept nogil:
    if fd < REMOTE_FD:
        syscalls().expect(fd, offset, nbytes)
