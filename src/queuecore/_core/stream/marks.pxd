# Marks: places in a stream, while it runs and as they are saved.
from libc.stdint cimport int64_t, uint64_t
from queuecore._core.io.blocks cimport Blocks, Place
from queuecore._core.order.lengths cimport Lengths
from queuecore._core.order.op cimport Start
from queuecore._core.order.runs cimport Missing

# A place that a stream is at.
cdef struct Point:
    Start start            # where a run begins that goes on behind it
    Place place            # of the block that it begins in
    int64_t* lanes         # of interleaved files, where each is, as of blocks_save, and how many were given up; NULL: no file is interleaved
    bint has_lanes         # they are filled
    int64_t pass_, end     # of the last record before it: its pass, and the number behind it
    int64_t files          # that it depends on; -1: on all that are known

# Room for lanes, where files are interleaved.
cdef int point_init(Point* at, const Blocks* frame) except -1
cdef void point_free(Point* at) noexcept nogil

# The next element of what lies before `ahead` is delivered.
cdef inline void point_follow(Point* at, const Point* ahead) noexcept nogil:
    at.pass_ = ahead.pass_
    at.end = ahead.end
    at.files = ahead.files


cdef class ShuffleCounter:
    cdef public int64_t next_iteration


cdef class Mark:
    cdef readonly int64_t pass_, ordinal, good, whole, file, offset, number, line, base
    cdef readonly list lanes

    # Whether a run of such blocks may begin there, of which so many files are known.
    cdef bint fits(self, const Blocks* frame, int64_t files_known) except -1

# The mark of a point. whole: good records of pass 0; -1: nobody knows.
cdef Mark mark_of(const Point* at, int64_t whole, const Blocks* frame)


cdef class Saved:
    cdef public int64_t elements, files_known
    cdef public uint64_t files_digest
    cdef public list iterations, begun, missing, lengths, handed, breaks
    cdef public Mark mark
    cdef public uint64_t version


# What a stream takes over to go to a saved place: all that can fail is done when it is made.
cdef class Goal:
    cdef Point at
    cdef Missing* missing
    cdef int64_t missing_count
    cdef Lengths lengths
    cdef uint64_t* pairs       # of each shuffle: its seeds,
    cdef int64_t* base         # the number of its first pass,
    cdef int64_t* begun        # and how many have begun
    cdef list counters, handed
    cdef dict breaks
    cdef int64_t handed_pass, handed_count

# blocks: the stream's records have no known places. shuffles: how many the stream has, as each list must.
cdef Goal goal_of(Saved saved, list seeds, list counters, int shuffles, bint blocks, const Blocks* frame, int64_t files)

# By pass and number: what qsort wants, of Missing, and of Bad, which begins with one.
cdef int by_missing(const void* a, const void* b) noexcept nogil
# Numbers as they are now: making objects may let others in, who change them.
cdef list numbers(const int64_t* some, int64_t n)
# The last pass with breaks, and how many it has.
cdef tuple last_pass(list handed)
