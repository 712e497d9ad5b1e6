# Framings: the rules by which records are found, the one enum of them, its words, and what other modules ask of one.
#
# Whoever finds, cuts or moves records does it in a function for each framing, and chooses that in one place: readers, pieces, rows. Who only
# needs to know what follows from a framing asks here.
from libc.stdint cimport int32_t

cdef enum:
    FRAME_WHOLE = 0      # the file
    FRAME_IDENTITY = 1   # the name of the work unit itself; no file is opened. Of readers alone
    FRAME_LINES = 2
    FRAME_FIXED = 3
    FRAME_TFRECORD = 4
    # Of streams alone
    FRAME_CSV = 5
    FRAME_ROWS = 6       # of columns, which who has them hands in


cdef inline int32_t framing_of(str word) except -1:
    # By its word: those of streams have one, in descriptions and in saved places.
    cdef tuple words = ("whole", None, "lines", "fixed", "tfrecord", "csv", "rows")
    if word is None or word not in words:
        raise ValueError(f"{word!r} is no framing of a stream")
    return words.index(word)


cdef inline bint framing_lone(int32_t framing) noexcept nogil:
    # A file, or a name, is one record, also an empty one.
    return framing == FRAME_WHOLE or framing == FRAME_IDENTITY


cdef inline bint framing_reads(int32_t framing) noexcept nogil:
    # Records lie in files, which are opened.
    return framing != FRAME_IDENTITY and framing != FRAME_ROWS


cdef inline bint framing_handed(int32_t framing) noexcept nogil:
    # Records are handed in: they lie in no file, nobody knows when more of them come, and a pass is as long as it turns out to be.
    return framing == FRAME_ROWS
