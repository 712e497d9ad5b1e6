# Feeds: how rows get into a stream that reads no files.
from libc.stdint cimport int64_t, uint32_t
from queuecore._core.io.blocks cimport Column
from queuecore._core.stream.pipe cimport Pipe
from queuecore._core.atoms.platform cimport Fault


cdef class Feed:
    cdef Pipe* pipe
    cdef dict owners          # by number: what a block's columns lie in
    cdef object dying         # numbers and batches: not before these are delivered may the objects go
    cdef int64_t number
    cdef dict errors          # by number
    cdef int64_t error_number
    cdef set broken           # passes that had breaks before the run's start
    # What waits for company: objects, or numbers of rows. The consumer that finds nothing ready takes it, so all of this is used under
    # the GIL.
    cdef list group
    cdef list group_columns   # None: objects
    cdef int64_t group_pass, group_begun
    cdef bint awaited         # by the consumer, since the last ones were handed in
    cdef bint handing         # by either

    cdef bint _await(self, uint32_t epoch) noexcept nogil
    cdef void _tell(self) noexcept nogil
    # Hands in a block; wait: for room, if there is none. What blocks_hand says; HANDED_FULL after a wait: the run is over.
    cdef int offer(self, int64_t pass_, const Column* columns, int64_t first, const int64_t* rows, int64_t n, int64_t nbytes, int64_t owner, void* link, bint wait) noexcept nogil
    cdef int _hand(self, int64_t pass_, list columns, int64_t n, owner, int64_t first, rows, bint wait) except -1
    cdef bint _add(self, int64_t pass_, list columns, item) except *
    cdef bint _flush(self, bint wait) except *
    # The consumer is about to wait.
    cdef int press(self) except -1
    # Those that a batch names.
    cdef list objects(self, const int64_t* tokens, int64_t n)
    # Lets go of what is no longer used. Objects that batches name stay until these are delivered.
    cdef int sweep(self) except -1
    cdef int _note(self, Fault* f, error) except -1


# The feed of a run. broken: passes that had breaks before its start.
cdef Feed feed_new(Pipe* p, set broken)
