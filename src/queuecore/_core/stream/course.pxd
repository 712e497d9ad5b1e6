# Courses: the place of an iteration, and how it goes to another place.
#
# A course knows neither the threads nor the calls: a thread that delivers a batch tells it so (take), and one that
# begins a run asks it where (begin). Calls that depend on the pipe that runs, or on its feed, get them as arguments.
# Errors that end the stream are returned, as exceptions, and not raised. Under the GIL, but for what says nogil, which
# the thread that delivers may call without it.
from libc.stdint cimport int32_t, int64_t, uint64_t
from queuecore._core.stream.describe cimport Description
from queuecore._core.stream.feed cimport Feed
from queuecore._core.stream.left_out cimport LeftOut
from queuecore._core.stream.marks cimport Goal, Point, Saved
from queuecore._core.order.lengths cimport Lengths
from queuecore._core.order.op cimport OpSpec
from queuecore._core.stream.pipe cimport Beginning, Pipe, Plan
from queuecore._core.atoms.platform cimport Batch
from queuecore._core.io.names cimport FileList
from queuecore._core.io.sources cimport FileTable, KnownFiles


cdef class Course:
    cdef uint64_t generation  # of the process that made it
    cdef const Plan* plan     # the keeper's
    cdef OpSpec* specs        # the plan's, with the seeds and iterations of the next run
    cdef int32_t shuffles
    cdef FileTable* table     # NULL: set_up was not called
    cdef FileList files
    cdef LeftOut left_out
    # The place behind the last element that was delivered. A run begins with a whole batch or chunk: so its `start`,
    # `place` and `lanes` are behind the last batch or chunk whose elements were all delivered.
    cdef Point at
    cdef Point ahead          # behind the batch or chunk that was taken last
    cdef list counters        # ShuffleCounter or None, one a shuffle
    cdef int64_t delivered    # elements, since the iteration began
    cdef int64_t* base        # per shuffle: iteration of the dataset object at the start of the run
    cdef int64_t* begun       # per shuffle: iterations begun at the mark
    cdef int64_t expect_files      # files known at the place that was restored, and
    cdef uint64_t expect_digest    # the digest of their sizes and times
    cdef Lengths lengths      # of the passes before the mark: good records, including breaks that were handed in
    cdef Feed outer           # of the stream that this one works for; None: of none
    cdef object note_ends     # called with `Saved.ended` when an error has ended a shuffle's input; or None
    cdef object drawn         # an object saved and restored with a place; only the Python layer knows what it means
    cdef uint64_t version     # of the place: changes with each change of the place

    # Once, before all other calls: begins at the start. Takes over the table, also if it raises.
    cdef int set_up(self, Description d, const Plan* plan, FileTable* table) except -1
    # Fills in the beginning of a run at the mark. The caller frees what it doesn't hand over (beginning_clear), also
    # after an error.
    cdef int begin(self, Beginning* begin) except -1
    # Moves the place over batch k, with so many elements; -1: a chunk of elements, which come one by one.
    cdef void take(self, Pipe* p, const Batch* b, uint64_t k, int64_t elements) noexcept nogil
    # Moves the place over the next element of the chunk that was taken last; `is_last`: of its elements.
    cdef void take_one(self, Pipe* p, bint is_last) noexcept nogil
    # Tells the stream that this one works for of an error that has changed the order of its elements from this batch
    # on. Comes before the batch's rows are handed in.
    cdef void tell_outer(self, Pipe* p, const Batch* b, Feed feed) noexcept
    # Counts the iterations of shuffles that had begun when batch k was planned: in the counters, too, or here alone.
    cdef void count_iterations(self, Pipe* p, uint64_t k) noexcept
    cdef void note_iterations(self, Pipe* p, uint64_t k) noexcept nogil
    # Cuts the source before the record of a batch that can't be read, for the next run. Returns the error that ends the
    # stream, or None.
    cdef object cut_before(self, const Batch* b, Pipe* p, Feed feed)
    # Where a fault has ended the input of a shuffle, lets the next run meet it: elements delivered since came in the
    # order of that. Returns the error that ends the stream, or None.
    cdef object repeat_fault(self, Pipe* p, Feed feed)
    # Returns `ended` of the place; None: it can't be saved, as an error has changed the order that need not come
    # again: one of a read, or one that changed the order of a stream that works for this one.
    cdef list ends(self, Pipe* p, Feed feed)
    # Before the first run: expects errors that end the source; `ends`: as `Saved.ended`.
    cdef int expect(self, list ends) except -1
    cdef Saved saved(self, Pipe* p, Feed feed)
    # Takes over the names of files that were listed meanwhile.
    cdef int extend(self) except -1
    # As of `Stream`. They raise if so many files are not known yet.
    cdef list digests(self, list upto)
    cdef list sizes(self, int64_t known)
    # Returns the files that were found so far; `before`: those of an earlier pass, which are returned if there are no
    # more.
    cdef KnownFiles known(self, KnownFiles before)
    # Returns a table to go on with there, whose files are open and measured as far as the place knows them. Raises if
    # they differ from those of the saved state; `check`: as of `Stream.restore`.
    cdef FileTable* table_at(self, Saved place, check) except NULL
    # Takes over the numbers of the goal, which frees the earlier ones; the table is that of the place. Nothing raises
    # before all are taken over.
    cdef int arrive(self, Goal goal, Saved place, draws) except -1

    cdef int _check_known(self, int64_t files) except -1
    cdef list _end_here(self, Pipe* p, Feed feed)
    cdef list _seams(self)
    cdef void _pass_mark(self, Pipe* p) noexcept nogil
    cdef int _spec_of(self, int shuffle)
