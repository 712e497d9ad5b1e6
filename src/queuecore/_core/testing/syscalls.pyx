"""System calls that fail, take their time, or give less than they were asked for, as tests want it.

All settings are relaxed: a test makes them while nothing runs, and the start of a thread orders them.
"""
from libc.errno cimport EAGAIN, EINTR
from libc.stdint cimport int64_t
from queuecore._core.atoms.process cimport check_layout, live_threads as native_live_threads, syscalls
from queuecore._core.atoms.platform cimport Atomic, FileStat, Syscalls, iovec, kRelaxed, layout_hash

check_layout(layout_hash())

cdef extern from "time.h" nogil:
    struct timespec:
        long tv_sec
        long tv_nsec
    int nanosleep(const timespec*, timespec*)

cdef extern from "queuecore/syscalls.hpp" namespace "queuecore" nogil:
    int real_open(const char*)
    int real_close(int)
    int real_fstat(int, FileStat*)
    int64_t real_preadv(int, const iovec*, int, int64_t, int)


cdef extern from *:
    """
    #include <cerrno>
    static inline void* qc_errno_place() { return &errno; }
    """
    void* _errno_place "qc_errno_place"() noexcept nogil


cdef Atomic[int64_t] _read_delay_ns, _reads, _fail_read_at, _fail_read_errno, _fail_read_sticky, _short, _interrupt_every
cdef Atomic[int64_t] _opens, _fail_open_at, _fail_open_errno, _descriptors
cdef Atomic[int64_t] _uncached, _fstats


cdef int _test_open(const char* path) noexcept nogil:
    cdef int fd
    cdef int64_t n = _opens.fetch_add(1, kRelaxed) + 1
    if _fail_open_at.load(kRelaxed) == n:
        (<int*>_errno_place())[0] = <int>_fail_open_errno.load(kRelaxed)
        return -1
    fd = real_open(path)
    if fd >= 0:
        _descriptors.fetch_add(1, kRelaxed)
    return fd


cdef int _test_close(int fd) noexcept nogil:
    _descriptors.fetch_sub(1, kRelaxed)
    return real_close(fd)


cdef int _test_fstat(int fd, FileStat* st) noexcept nogil:
    _fstats.fetch_add(1, kRelaxed)
    return real_fstat(fd, st)


cdef int64_t _test_preadv(int fd, const iovec* iov, int count, int64_t offset, int flags) noexcept nogil:
    cdef timespec t
    cdef iovec one
    cdef int64_t n, delay, most, every
    if flags != 0 and _uncached.load(kRelaxed):  # as if nothing were in the page cache
        (<int*>_errno_place())[0] = EAGAIN
        return -1
    n = _reads.fetch_add(1, kRelaxed) + 1
    every = _interrupt_every.load(kRelaxed)
    if every > 0 and n % every == 0:
        (<int*>_errno_place())[0] = EINTR
        return -1
    delay = _read_delay_ns.load(kRelaxed)
    if delay > 0:
        t.tv_sec = delay // 1000000000
        t.tv_nsec = delay % 1000000000
        nanosleep(&t, NULL)
    if _fail_read_at.load(kRelaxed) > 0 and (
            n == _fail_read_at.load(kRelaxed) or (_fail_read_sticky.load(kRelaxed) and n > _fail_read_at.load(kRelaxed))):
        (<int*>_errno_place())[0] = <int>_fail_read_errno.load(kRelaxed)
        return -1
    most = _short.load(kRelaxed)
    if most > 0:
        one = iov[0]
        if <int64_t>one.iov_len > most:
            one.iov_len = most
        return real_preadv(fd, &one, 1, offset, flags)
    return real_preadv(fd, iov, count, offset, flags)


cdef void _install() noexcept:
    cdef Syscalls* table = syscalls()
    table.open = _test_open
    table.close = _test_close
    table.fstat = _test_fstat
    table.preadv = _test_preadv


def reset_faults():
    """Set every hook back to doing nothing, and the counters of calls to 0. Open descriptors keep being counted."""
    _install()
    _read_delay_ns.store(0, kRelaxed)
    _reads.store(0, kRelaxed)
    _fail_read_at.store(0, kRelaxed)
    _fail_read_sticky.store(0, kRelaxed)
    _short.store(0, kRelaxed)
    _interrupt_every.store(0, kRelaxed)
    _opens.store(0, kRelaxed)
    _fstats.store(0, kRelaxed)
    _fail_open_at.store(0, kRelaxed)
    _uncached.store(0, kRelaxed)


def set_read_delay(double seconds):
    """Make every read take so long, and none come from the page cache without waiting (as on a slow disk)."""
    _install()
    _read_delay_ns.store(<int64_t>(seconds * 1e9), kRelaxed)
    _uncached.store(seconds > 0, kRelaxed)


def set_uncached(bint on):
    """Let reads that must not wait (RWF_NOWAIT) find nothing in the page cache, or no longer."""
    _install()
    _uncached.store(on, kRelaxed)


def fail_read(int64_t nth, int error, bint sticky=False):
    """Let the nth read from now on (1 is the next) fail with this errno, and with sticky all after it."""
    _install()
    _reads.store(0, kRelaxed)
    _fail_read_errno.store(error, kRelaxed)
    _fail_read_sticky.store(sticky, kRelaxed)
    _fail_read_at.store(nth, kRelaxed)


def short_reads(int64_t max_bytes):
    """Let no read give more than so many bytes; 0: no limit."""
    _install()
    _short.store(max_bytes, kRelaxed)


def interrupt_reads(int64_t every):
    """Let one of so many reads fail with EINTR; 0: none."""
    _install()
    _interrupt_every.store(every, kRelaxed)


def fail_open(int64_t nth, int error):
    """Let the nth open from now on (1 is the next) fail with this errno."""
    _install()
    _opens.store(0, kRelaxed)
    _fail_open_errno.store(error, kRelaxed)
    _fail_open_at.store(nth, kRelaxed)


def read_count():
    """Reads since the last reset."""
    return _reads.load(kRelaxed)


def fstat_count():
    """Looks at open files since the last reset."""
    return _fstats.load(kRelaxed)


def open_files():
    """Descriptors that the native core holds now."""
    return _descriptors.load(kRelaxed)


def live_threads():
    """Native threads of queuecore that run now."""
    return native_live_threads()


_install()  # from the start, so that descriptors are counted from their opening to their closing
