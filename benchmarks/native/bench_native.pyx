# cython: language_level=3, cdivision=True
# distutils: language = c++
"""Native yardsticks: what this machine does when nothing of ours is in the way.

`floor_pass` is the reference of every ratio in this suite: one thread that asks the kernel for the bytes and does
nothing with them. `memcpy_pass` is the same with plain memory instead of the page cache. `spin` keeps a core busy
without the GIL, as the control of the benchmark of the busy consumer.
"""

from libc.stdint cimport int64_t, uint8_t
from libc.stdlib cimport free
from libc.string cimport memcpy, memset
from posix.stdlib cimport posix_memalign

import os

cdef extern from "<sys/uio.h>" nogil:
    ctypedef struct iovec:
        void *iov_base
        size_t iov_len
    ssize_t preadv(int fd, const iovec *vectors, int count, long offset)

cdef extern from "<time.h>" nogil:
    ctypedef struct timespec:
        long tv_sec
        long tv_nsec
    int clock_gettime(int clock, timespec *now)
    int CLOCK_MONOTONIC

cdef extern from *:
    """
    #if defined(__clang__)
    #define BENCH_COMPILER "clang " __clang_version__
    #else
    #define BENCH_COMPILER "gcc " __VERSION__
    #endif
    // The copy must happen even though nobody looks at it.
    static inline void bench_keep(const void *p) { asm volatile("" : : "r"(p) : "memory"); }
    """
    const char *BENCH_COMPILER
    void bench_keep(const void *p) nogil


cdef inline int64_t now_ns() noexcept nogil:
    cdef timespec now
    clock_gettime(CLOCK_MONOTONIC, &now)
    return <int64_t>now.tv_sec * 1_000_000_000 + now.tv_nsec


cdef uint8_t *touched(size_t nbytes) except NULL:
    # Page-aligned and written to, so that no timed loop pays for page faults.
    cdef void *area = NULL
    if posix_memalign(&area, 4096, nbytes) != 0:
        raise MemoryError(f"{nbytes} bytes")
    memset(area, 1, nbytes)
    return <uint8_t *>area


def compiler():
    """Return the compiler that built this module."""
    return BENCH_COMPILER.decode()


def floor_pass(paths, size_t chunk):
    """Read all files with `preadv` into one reused buffer of `chunk` bytes.

    Parameters
    ----------
    paths : sequence of str
        Files; they are opened before the clock starts.
    chunk : int
        Bytes per call: those of one batch.

    Returns
    -------
    (int, int)
        Bytes read, and nanoseconds.
    """
    cdef int fds[4096]
    cdef int count = len(paths), index
    cdef int64_t offset, total = 0, start = 0, stop = 0
    cdef ssize_t read_bytes = 0
    cdef iovec vector
    cdef uint8_t *buffer
    if count > 4096:
        raise ValueError(f"{count} files are more than the 4096 that may be open at once")
    if chunk == 0:
        raise ValueError("chunk is 0 bytes")
    buffer = touched(chunk)
    vector.iov_base = buffer
    vector.iov_len = chunk
    index = 0
    try:
        for path in paths:
            fds[index] = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            index += 1
        with nogil:
            start = now_ns()
            for i in range(count):
                offset = 0
                while True:
                    read_bytes = preadv(fds[i], &vector, 1, offset)
                    if read_bytes <= 0:
                        break
                    offset += read_bytes
                    total += read_bytes
                if read_bytes < 0:
                    break
            stop = now_ns()
        if read_bytes < 0:
            raise OSError("preadv failed")
    finally:
        for i in range(index):
            os.close(fds[i])
        free(buffer)
    return total, stop - start


def memcpy_pass(size_t nbytes, size_t chunk, size_t source_bytes):
    """Copy `nbytes` out of a source of `source_bytes` into one reused buffer of `chunk` bytes; return nanoseconds.

    Parameters
    ----------
    nbytes : int
        Bytes to copy in all.
    chunk : int
        Bytes per copy.
    source_bytes : int
        Size of the source, a multiple of nothing in particular: make it larger than the caches.
    """
    cdef uint8_t *source
    cdef uint8_t *buffer
    cdef size_t done = 0, place = 0
    cdef int64_t start, stop
    if chunk == 0 or source_bytes < chunk:
        raise ValueError("the source is smaller than a chunk")
    source = touched(source_bytes)
    try:
        buffer = touched(chunk)
    except MemoryError:
        free(source)
        raise
    with nogil:
        start = now_ns()
        while done < nbytes:
            if place + chunk > source_bytes:
                place = 0
            memcpy(buffer, source + place, chunk)
            bench_keep(buffer)
            place += chunk
            done += chunk
        stop = now_ns()
    free(source)
    free(buffer)
    return stop - start


def spin(int64_t duration_ns):
    """Keep this core busy for `duration_ns`, without the GIL."""
    cdef int64_t end
    with nogil:
        end = now_ns() + duration_ns
        while now_ns() < end:
            pass


def scale(const uint8_t[::1] source not None, float[::1] target not None, float factor):
    """Convert bytes to floats, and multiply them."""
    cdef Py_ssize_t i, n = source.shape[0]
    cdef const uint8_t *from_
    cdef float *to
    if n == 0 or target.shape[0] != n:
        raise ValueError(f"{n} bytes to {target.shape[0]} floats")
    from_ = &source[0]
    to = &target[0]
    with nogil:
        for i in range(n):
            to[i] = from_[i] * factor
