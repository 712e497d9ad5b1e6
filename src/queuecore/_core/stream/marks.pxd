# Marks: places in a stream, while it runs and as they are saved.
from libc.stdint cimport int32_t, int64_t, uint64_t
from queuecore._core.io.blocks cimport BlockPlan, Place
from queuecore._core.order.lengths cimport Lengths
from queuecore._core.order.op cimport Cut, Start
from queuecore._core.order.runs cimport Missing

# Whether an error has cut the elements before a place short, though it need not come again.
cdef enum:
    CUT_NONE = 0
    CUT_SEAM = 1           # the stream goes on at `seam`, with a new batch
    CUT_LOST = 2           # they come in another order than without the error, in which a shuffle's input ends
    CUT_FAULT = 3          # as CUT_LOST, by an error that the next run does not know of

# The place of a stream, between two elements.
cdef struct Point:
    Start start            # the place at which a new run begins that goes on behind this point
    Place place            # of the block that such a run begins in
    # the places of interleaved files (lanes_save), and the number of files given up; NULL: none is interleaved
    int64_t* lanes
    bint has_lanes         # `lanes` is filled
    int64_t pass_, end     # of the last record before the point: its pass, and its number plus 1
    int64_t files          # number of files that the point depends on; -1: all that are known
    int32_t cut            # CUT_*
    Start seam             # with CUT_SEAM: the record behind the cut

# Allocates room for lanes, if files are interleaved.
cdef int point_init(Point* point, const BlockPlan* frame) except -1
cdef void point_free(Point* point) noexcept nogil

# Moves the point over one element of the batch or chunk that ends at `ahead`; `start`, `place` and `lanes` stay.
cdef inline void point_follow(Point* point, const Point* ahead) noexcept nogil:
    point.pass_ = ahead.pass_
    point.end = ahead.end
    point.files = ahead.files
    point.cut = ahead.cut
    point.seam = ahead.seam


cdef class ShuffleCounter:
    cdef public int64_t next_iteration


cdef class Mark:
    cdef readonly int64_t pass_, ordinal, good, whole, file, offset, number, line, base
    cdef readonly list lanes

    # Returns whether a run of such blocks, with so many files known, may begin at the mark.
    cdef bint fits(self, const BlockPlan* frame, int64_t files_known) except -1

# Returns the mark of a point; `whole`: good records of pass 0; -1: unknown.
cdef Mark mark_of(const Point* point, int64_t whole, const BlockPlan* frame)


cdef class Saved:
    cdef public int64_t elements, files_known
    cdef public uint64_t files_digest
    cdef public list iterations, begun, missing, lengths, handed, breaks, seams, told, ended
    cdef public Mark mark
    cdef public uint64_t version


# The numbers that a stream takes over to go to a saved place. All checks and allocations that can fail happen when the
# goal is made.
cdef class Goal:
    cdef Point at
    cdef Missing* missing
    cdef int64_t missing_count
    cdef Lengths lengths
    cdef uint64_t* pairs       # two seeds for each shuffle
    cdef int64_t* base         # for each shuffle: the number of its first pass
    cdef int64_t* begun        # for each shuffle: the number of passes begun since
    cdef list counters, handed, seams, told
    cdef dict breaks
    cdef int64_t handed_pass, handed_count
    cdef Cut* cuts
    cdef int32_t cut_count

# Checks a saved place and makes its goal; raises if it is none for such a stream. blocks: the stream's records have no
# known places. shuffles: the stream's number of shuffles, which is the length of each list.
cdef Goal goal_of(Saved saved, list seeds, list counters, int shuffles, bint blocks, const BlockPlan* frame,
                  int64_t files)

# Returns the cuts of `Saved.ended`, which the caller frees.
cdef Cut* cuts_of(list ends) except NULL
# Sets up a cut that stands for an error of the source, before this record, that is to come again.
cdef void cut_expect(Cut* cut, int64_t pass_, int64_t ordinal) noexcept nogil
# Compares by pass and number, for qsort: a Missing, or a Bad, which begins with one.
cdef int by_missing(const void* a, const void* b) noexcept nogil
# Returns n numbers as they are at the call: making objects may let in other calls, which change them.
cdef list numbers(const int64_t* some, int64_t n)
# Returns the last pass with breaks, and the number of its breaks.
cdef tuple last_pass(list handed)
