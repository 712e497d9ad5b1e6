# Feeds: the entrance for rows into a stream that reads no files.
from libc.stdint cimport int64_t, uint32_t, uint64_t
from queuecore._core.io.handed cimport Chunk
from queuecore._core.stream.pipe cimport Pipe
from queuecore._core.atoms.platform cimport Fault


cdef class Feed:
    cdef Pipe* pipe
    cdef dict owners          # by number: the owners of a block's columns
    # deque of (number, batch number): the owner is released when the batches before that one are delivered
    cdef object dying
    cdef int64_t number       # of the next block
    cdef dict errors          # by number
    cdef int64_t error_number # of the next error
    cdef dict broken          # for each pass that had breaks before the run's start, the numbers of their rows
    # The group: objects or numbers of rows that wait to be handed in together. A consumer that finds nothing ready
    # hands it in, so the group is used under the GIL.
    cdef list group
    cdef list group_columns   # the columns of these rows; None: the group has objects
    cdef int64_t group_pass, group_begun  # group_begun: in ns of the monotonic clock
    cdef bint awaited         # the consumer has waited since the last group was handed in
    cdef int64_t wanted       # rows that may come before the consumer takes, or waits for, more
    cdef bint handing         # the feeding thread or the consumer hands in a group

    cdef bint _await(self, uint32_t epoch) noexcept nogil
    cdef int64_t _await_demand(self) noexcept nogil
    cdef void _tell(self) noexcept nogil
    # Hands in a block; `wait`: waits for room, if there is none. Returns handed_add's status; HANDED_FULL after a
    # wait: the run is over.
    cdef int offer(self, int64_t pass_, const Chunk* chunk, bint wait) noexcept nogil
    cdef int _hand(self, int64_t pass_, list columns, int64_t n, owner, int64_t first, rows, bint wait) except -1
    cdef bint _add(self, int64_t pass_, list columns, item) except *
    cdef bint _flush(self, bint wait) except *
    # Hands in the group, since the consumer is about to wait.
    cdef int press(self) except -1
    # Returns the objects that the n tokens of a batch name.
    cdef list objects(self, const int64_t* tokens, int64_t n)
    # Releases owners that are no longer used. Objects that batches name stay until these batches are delivered.
    cdef int sweep(self) except -1
    cdef int _note(self, Fault* f, error) except -1


# For a feed that makes no more elements than `ahead` says: the consumer has taken some; it waits for a batch.
cdef void feed_taken(Pipe* p, int64_t elements) noexcept nogil
cdef void feed_awaited(Pipe* p, uint64_t k) noexcept nogil

# The feed of a run; `handed`: pass and row of each break before its start.
cdef Feed feed_new(Pipe* p, list handed)
