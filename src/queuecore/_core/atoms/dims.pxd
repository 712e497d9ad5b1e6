# The number of dimensions that an array may have in native code: `MAX_DIMS` of `queuecore._checks.checks`, which
# refuses more.
cdef extern from * nogil:
    """
    constexpr int kMaxDims = 32;
    """
    enum:
        MAX_DIMS "kMaxDims"
