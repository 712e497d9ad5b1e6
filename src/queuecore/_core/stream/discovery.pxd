# Discovery: threads of their own, up to DISCOVERERS at a time, open and measure the files of a saved place, or only ask
# for the sizes of files. Either may take any time, for example where the files lie on another machine that doesn't
# answer: nobody's Ctrl-C waits for that.
from libc.stdint cimport int64_t
from queuecore._core.io.sources cimport FileTable

cdef enum:
    DISCOVERERS = 64

# Discovers the first n files of a table that nobody else uses, and waits, without the GIL and in slices, so that
# signals are noticed. If it raises, threads may still be opening files, and hold the table until they are done.
cdef int discover_files(FileTable* t, int64_t n) except -1
