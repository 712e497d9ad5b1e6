# cython: language_level=3, cdivision=True
# distutils: language = c++
"""Native yardsticks of cold files: so many reads in flight, by threads or by a ring of the kernel's."""

from libc.stdint cimport int32_t, int64_t
from libc.stdlib cimport free, malloc
from libc.time cimport time_t

cdef extern from "<time.h>" nogil:
    ctypedef struct timespec:
        time_t tv_sec
        long tv_nsec
    int clock_gettime(int clock, timespec *now)
    int CLOCK_MONOTONIC

cdef extern from "cold_loops.hpp" namespace "cold" nogil:
    ctypedef struct Request:
        int32_t fd
        int64_t offset
        int64_t nbytes
    int64_t read_by_threads(const Request *requests, int64_t n, int depth) except +
    int64_t read_by_uring(const Request *requests, int64_t n, int depth) except +
    int64_t files_by_threads(const char *const *names, int64_t n, int depth) except +
    double c_resident "cold::resident"(int fd) except +


cdef int64_t now_ns() noexcept nogil:
    cdef timespec now
    clock_gettime(CLOCK_MONOTONIC, &now)
    return <int64_t>now.tv_sec * 1_000_000_000 + now.tv_nsec


def read_pass(int32_t[::1] fds, int64_t[::1] offsets, int64_t[::1] lengths, int depth, str way):
    """Read parts of files, at most `depth` at a time.

    Parameters
    ----------
    fds, offsets, lengths : array
        For each part: the descriptor, where it begins, and its bytes.
    depth : int
    way : {"threads", "uring"}

    Returns
    -------
    (int, int)
        Bytes read, and nanoseconds.
    """
    cdef int64_t n = fds.shape[0], i, begin_ns, end_ns, nbytes
    cdef bint ring = way == "uring"
    cdef Request *requests = <Request *>malloc((n + 1) * sizeof(Request))
    if requests == NULL:
        raise MemoryError
    try:
        for i in range(n):
            requests[i].fd, requests[i].offset, requests[i].nbytes = fds[i], offsets[i], lengths[i]
        with nogil:
            begin_ns = now_ns()
            nbytes = read_by_uring(requests, n, depth) if ring else read_by_threads(requests, n, depth)
            end_ns = now_ns()
    finally:
        free(requests)
    if nbytes == -2:
        raise NotImplementedError("no io_uring here")
    if nbytes < 0:
        raise OSError("a read failed")
    return nbytes, end_ns - begin_ns


def files_pass(names, int depth):
    """Open, measure, read and close whole files, at most `depth` at a time. Return their bytes, and nanoseconds."""
    cdef int64_t n = len(names), i, begin_ns, end_ns, nbytes
    cdef list encoded_names = [name.encode() for name in names]
    cdef const char **texts = <const char **>malloc((n + 1) * sizeof(char *))
    if texts == NULL:
        raise MemoryError
    try:
        for i in range(n):
            texts[i] = encoded_names[i]
        with nogil:
            begin_ns = now_ns()
            nbytes = files_by_threads(texts, n, depth)
            end_ns = now_ns()
    finally:
        free(texts)
    if nbytes < 0:
        raise OSError("a file could not be read")
    return nbytes, end_ns - begin_ns


def resident(int fd):
    """Return the share of a file's pages that the page cache has."""
    return c_resident(fd)
