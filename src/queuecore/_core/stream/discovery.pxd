# Discovery: files that the caller must know of before it goes on are opened and measured by threads of their own: those
# of a saved place, up to DISCOVERERS at a time, and the first ones of a stream, FIRST_DISCOVERERS at a time. Opening a
# file may take any time, for example on another machine that doesn't answer: nobody's Ctrl-C waits for that.
from libc.stdint cimport int64_t
from queuecore._core.io.sources cimport FileTable

cdef enum:
    DISCOVERERS = 64
    FIRST_DISCOVERERS = 8    # each has a descriptor, of which a process may have few
    FIRST_FILES = 64

# Discovers the first n files of a table that nobody else uses, and waits, without the GIL and in slices, so that
# signals are noticed. If it raises, threads may still be opening files, and hold the table until they are done.
cdef int discover_files(FileTable* t, int64_t n, int64_t threads) except -1
