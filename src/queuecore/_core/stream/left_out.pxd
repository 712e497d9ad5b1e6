# Left out: records that a stream does without, and the errors of elements that come out in their places.
from libc.stdint cimport int32_t, int64_t
from queuecore._core.stream.feed cimport Feed
from queuecore._core.stream.marks cimport Point
from queuecore._core.order.op cimport Start
from queuecore._core.order.runs cimport Missing
from queuecore._core.stream.pipe cimport Cut, Pipe
from queuecore._core.atoms.platform cimport Batch, Fault
from queuecore._core.io.sources cimport FileList, FileTable
from queuecore._core.steps.stages cimport Step


# Under the GIL. A break is the error of an element, in that element's place in the order.
cdef class LeftOut:
    cdef object skips         # gets the errors of what is left out; None: they are raised
    cdef FileList files
    cdef Step step            # of the maker, or None
    cdef Missing* missing
    cdef int64_t missing_count
    cdef Cut* cuts
    cdef int32_t cut_count
    cdef list handed          # breaks that were delivered: pass and number, of those that were handed in
    cdef int64_t handed_pass, handed_count  # of the last one, and how many in it
    cdef dict breaks          # those found here, by pass, number and level: its Fault, or None once it is delivered
    cdef object last          # what is raised for a record that could not be left out: one too many, or not to be logged
    cdef Fault last_fault     # of that record
    cdef int64_t files_logged # of the pipe's blocks
    cdef int64_t table_logged # of the table's files
    cdef bint encoded         # files are compressed: where a record lies says nothing of how many bytes are left

    # What a fault says, as an exception.
    cdef object error(self, const Fault* f, Feed feed)
    # The exception for what ended a run: it may say why the record was not left out.
    cdef object final_error(self, const Fault* f, Feed feed)
    # The next run's source ends before this record, once it has given so many elements and breaks.
    cdef int cut(self, int64_t elements, int64_t breaks, int64_t pass_, int64_t ordinal, const Fault* f) except -1
    # Takes over which records were bad in a run that has ended, and says so. False: there were none. `skips` says when it is enough; then
    # the first one too many is the end.
    cdef bint take_bad(self, Pipe* p, int64_t elements, Feed feed, const Start* mark, bint shuffled) except -1
    # Breaks that were delivered and that a run meets again.
    cdef int64_t broke(self)
    # What the next run is to know of all this.
    cdef int plan_run(self, Pipe* plan, const Start* mark, bint shuffled) except -1
    # The error of a batch that is a break.
    cdef object break_error(self, const Batch* b, Feed feed)
    # It is delivered; returns whether it was handed in. And then, once the place has passed it:
    cdef bint deliver_break(self, const Batch* b, Feed feed) except *
    cdef int count_handed(self, int64_t pass_) except -1
    # Forgets those before the mark, where nothing depends on where they were, nor on how many: only that there were some in this pass.
    cdef int forget_handed(self, const Start* mark) except -1
    # Tells of files that were given up before the place that is delivered; all_: of all. What ends the stream is returned, as an exception.
    cdef object log_files(self, Pipe* p, FileTable* table, const Point* at, bint all_, Feed feed)
    cdef object log_file(self, const Fault* f, FileTable* table, Feed feed)

    cdef object _step_error(self, const Fault* f)
