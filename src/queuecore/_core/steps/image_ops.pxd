# What steps on pictures share: pictures of a batch, and their errors.
from libc.stdint cimport int64_t
from queuecore._core.atoms.platform cimport Fault
from queuecore._core.steps.stages cimport Cell

cdef enum:
    WHAT_RANK = 1      # a dimensions
    WHAT_CROP = 3      # axis b is a long
    WHAT_COLOURS = 4   # a channels

# Pictures of [height, width, channels], as many as there are in a cell.
cdef struct PictureDims:
    int64_t count, height, width, channels

# False: the cell has less than three dimensions.
cdef bint pictures_of(const Cell* cell, PictureDims* p) noexcept nogil
cdef object explain_pictures(str label, const Fault* fault)
