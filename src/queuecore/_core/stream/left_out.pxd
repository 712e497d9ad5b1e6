# Left out: records that a stream does without, and the errors of elements that come out in their places.
from libc.stdint cimport int32_t, int64_t
from queuecore._core.stream.feed cimport Feed
from queuecore._core.stream.marks cimport Point
from queuecore._core.order.op cimport Cut, Start
from queuecore._core.order.runs cimport Missing
from queuecore._core.stream.pipe cimport Beginning, Pipe
from queuecore._core.atoms.platform cimport Batch, Fault
from queuecore._core.io.names cimport FileList
from queuecore._core.io.sources cimport FileTable
from queuecore._core.steps.stages cimport Step


# Under the GIL. A break is the error of an element, in that element's place in the order.
cdef class LeftOut:
    cdef object skips         # gets the errors of records that are left out; None: they are raised
    cdef FileList files
    cdef object headings      # returns the name of a column of CSV in the header of a file; None: files have no header
    cdef Step step            # of the maker, or None
    cdef Missing* missing
    cdef int64_t missing_count
    cdef Cut* cuts
    cdef int32_t cut_count
    cdef list handed          # pass and number of the breaks that were handed in and have been delivered
    cdef int64_t handed_pass, handed_count  # the pass of the last one, and the number of them in this pass
    # pass, number of the record that follows, and good records before it: where delivered batches were cut short
    cdef list seams
    # pass and number of the records that were owed (order.owed), and whose errors were delivered
    cdef list told
    # breaks found here, by pass, number and level: the fault's numbers, or None once it is delivered
    cdef dict breaks
    # error for a record that could not be left out: one too many, or one that could not be logged
    cdef object last
    cdef Fault last_fault     # of that record
    cdef int64_t files_logged # number of given-up files of the pipe's blocks that were logged
    cdef int64_t table_logged # number of the table's files that were looked at
    cdef bint encoded         # files are compressed: the offset of a record doesn't tell how many bytes are left

    # Returns the exception for a fault.
    cdef object error(self, const Fault* f, Feed feed)
    # Returns the exception for the fault that ended a run: `last`, if it is the fault of that record.
    cdef object final_error(self, const Fault* f, Feed feed)
    # Returns whether another run over the same data meets the fault too: it is none of the machine.
    cdef bint comes_again(self, const Fault* f, Feed feed) noexcept
    # Lets the source of the next run end before this record; `given`: as of a Cut.
    cdef int cut(self, int64_t pass_, int64_t ordinal, bint is_given, const Fault* f) except -1
    # Returns whether the source ends before this record.
    cdef bint is_cut(self, int64_t pass_, int64_t ordinal) noexcept
    # Takes over the bad records of a run that has ended: as breaks, or as missing records, each reported to `skips`.
    # False: there were none. `skips` raises at the first record too many; then the next run ends before that record.
    cdef bint take_bad(self, Pipe* p, Feed feed, const Start* mark) except -1
    # Returns the number of delivered breaks that a run meets again.
    cdef int64_t broke(self)
    # Fills in the beginning of the next run, which has its start: the records that it goes without, and its breaks. The
    # caller frees what it doesn't hand over (beginning_clear), also after an error.
    cdef int begin_run(self, Beginning* begin, bint blocks, bint shuffled) except -1
    # Returns the error of a batch that is a break.
    cdef object break_error(self, const Batch* b, Feed feed)
    # Notes that a break is delivered; returns whether it was handed in. If so, count_handed follows, once the place has
    # passed it.
    cdef bint deliver_break(self, const Batch* b, Feed feed) except *
    cdef int count_handed(self, int64_t pass_) except -1
    # Forgets the handed breaks before the mark's block, where nothing depends on their places or their number. Keeps
    # one of the mark's pass, which shows that the pass had some.
    cdef int forget_handed(self, int64_t pass_, int64_t base) except -1
    # Raises if the numbers of some faults, or None, are of none that a stream of these files can have.
    cdef int check_faults(self, faults) except -1
    # Reports the files that were given up before the delivered place to `skips`; all_: all such files. Returns the
    # exception that ends the stream, or None.
    cdef object log_files(self, Pipe* p, FileTable* table, const Point* point, bint all_, Feed feed)
    cdef object log_file(self, const Fault* f, FileTable* table, Feed feed)

    cdef object _step_error(self, const Fault* f)
