# Courses: the place of an iteration, and how it goes to another place.
from libc.stdint cimport int32_t, int64_t, uint64_t
from queuecore._core.stream.feed cimport Feed
from queuecore._core.stream.left_out cimport LeftOut
from queuecore._core.stream.marks cimport Goal, Point, Saved
from queuecore._core.stream.meter cimport Times
from queuecore._core.order.lengths cimport Lengths
from queuecore._core.order.op cimport OpSpec
from queuecore._core.stream.pipe cimport Pipe, Plan
from queuecore._core.atoms.platform cimport Batch
from queuecore._core.io.sources cimport FileList, FileTable
from queuecore._core.stream.gate cimport CallGate


cdef class Course(CallGate):
    cdef Pipe* pipe
    cdef const Plan* plan     # the keeper's
    cdef OpSpec* specs        # the plan's, with the seeds and iterations of the next run
    cdef FileTable* table
    cdef FileList files
    cdef LeftOut left_out
    # The place behind the last element that was delivered. A run begins with a whole batch or chunk: so its `start`,
    # `place` and `lanes` are behind the last batch or chunk whose elements were all delivered.
    cdef Point at
    cdef Point ahead          # behind the batch or chunk that was taken last
    cdef list counters        # ShuffleCounter or None, one a shuffle
    cdef uint64_t next_k      # number of the next batch of the run
    cdef int64_t delivered    # elements, since the iteration began
    cdef int64_t* base        # per shuffle: iteration of the dataset object at the start of the run
    cdef int64_t* begun       # per shuffle: iterations begun at the mark
    cdef int32_t shuffles
    cdef list chunk           # arrays of the records not yet handed out one by one
    cdef int64_t chunk_at, chunk_rows
    cdef int64_t expect_files      # files known at the place that was restored, and
    cdef uint64_t expect_digest    # the digest of their sizes and times
    cdef bint told            # another thread asked the run to stop
    cdef Lengths lengths      # of the passes before the mark: good records, including breaks that were handed in
    cdef Feed outer           # of the stream that this one works for; None: of none
    cdef object note_ends     # called with `Saved.ended` when an error has ended a shuffle's input; or None
    cdef object drawn         # an object saved and restored with a place; only the Python layer knows what it means
    cdef uint64_t version     # of the place: changes with each change of the place
    cdef Times _times
    cdef int64_t* ready       # of the times

    cdef void _take(self, Pipe* p, Batch* b, uint64_t k, int64_t elements) noexcept nogil
    cdef void _pass_over(self, Pipe* p, uint64_t k) noexcept nogil
    cdef void _count_ready(self, Pipe* p, uint64_t k) noexcept nogil
    cdef void _lose(self, const Batch* b) noexcept
    cdef Feed _feed(self)
    cdef list _ends(self)
    cdef list _end_here(self)
    cdef bint _note_ends(self) noexcept
    cdef void _count_all_iterations(self, Pipe* p, uint64_t k) noexcept
    cdef void _pass_mark(self) noexcept nogil
    cdef int _check_made(self) except -1
    cdef Saved _place(self)
    cdef list _seams(self)
    cdef int _check_known(self, int64_t files) except -1
    cdef int _check_files(self, FileTable* t, Saved place, check) except -1
    cdef int _arrive(self, Goal goal, Saved place, drawn) except -1
    cdef int _spec_of(self, int shuffle)
