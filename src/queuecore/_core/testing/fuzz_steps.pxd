# Steps under the fuzzer: what they say of their outputs is checked, and a batch gives what its elements give.
from libc.stdint cimport int32_t, int64_t
from queuecore._core.steps.stages cimport StageFn
from queuecore._core.testing.fuzz_inputs cimport Verdict

cdef enum:
    MOST_OUTPUTS = 80

cdef enum:
    ROLE_VALUES = 0    # of a batch: those of its elements, one after the other
    ROLE_PADDED = 1    # filled up to the longest
    ROLE_SPLITS = 2    # from 0 on, rising
    ROLE_LENGTHS = 3

cdef struct Output:
    int32_t role
    int64_t item       # bytes; 0: strings
    int64_t place      # bytes of a place that it is given, for each element; 0: none

# A step for lone elements and for batches.
cdef struct Steps:
    StageFn run[2]
    const void* params[2]
    int32_t count[2]
    bint element_is_b  # in its faults; else a is
    Output outputs[2][MOST_OUTPUTS]

# Two elements, [0, cut) and [cut, n), alone and as a batch: it is right where both are, and has the values of both.
cdef Verdict both_ways(const Steps* steps, const unsigned char* p, int64_t n, int64_t cut, bint places) noexcept nogil
