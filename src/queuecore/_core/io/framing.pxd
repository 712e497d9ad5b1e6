# Framings, the rules by which records are found: their one enum, its words, and the properties that other modules ask
# for.
#
# Modules that find, cut or move records (readers, pieces, rows) have a function for each framing, and choose it in one
# place. Framings whose records say themselves how long they are share one: it takes the framing's WalkKind.
from libc.stdint cimport int32_t
from queuecore._core.io.walk cimport WalkKind

cdef enum:
    FRAME_WHOLE = 0      # the file
    FRAME_IDENTITY = 1   # the name of the work unit itself; no file is opened. Only readers have it
    FRAME_LINES = 2
    FRAME_FIXED = 3
    FRAME_TFRECORD = 4
    FRAME_CSV = 5        # only streams have it, and the next one
    FRAME_TAR = 6

# Returns the framing that a word names. Framings of streams have a word, in descriptions and in saved places.
cdef int32_t framing_of(str word) except -1
# Returns the functions of a framing whose records say how long they are; NULL: it has none.
cdef const WalkKind* framing_walk(int32_t framing) noexcept nogil


cdef inline bint framing_lone(int32_t framing) noexcept nogil:
    # Returns whether a file, or a name, is one record, even an empty one.
    return framing == FRAME_WHOLE or framing == FRAME_IDENTITY


cdef inline bint framing_reads(int32_t framing) noexcept nogil:
    # Returns whether records lie in files, which are opened.
    return framing != FRAME_IDENTITY
