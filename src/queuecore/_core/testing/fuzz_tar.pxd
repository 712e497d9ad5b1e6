# Target of the fuzzer: tar archives, cut into samples, and the samples taken apart.
from queuecore._core.testing.fuzz_inputs cimport Given, Verdict

cdef Verdict fuzz_tar(Given g) noexcept nogil
