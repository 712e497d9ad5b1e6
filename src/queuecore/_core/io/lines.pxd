# Lines of text: where they end, and their bytes side by side. The kernels' contract is in their header.
#
# Everything here is wait-free, has no state, and belongs to the caller's thread.
from libc.stdint cimport int64_t, uint32_t

cdef extern from "queuecore/kernels/lines.hpp" namespace "queuecore" nogil:
    cppclass LinesKernels:
        int64_t (*find)(const unsigned char* text, int64_t nbytes, uint32_t* ends, int64_t most) noexcept
        int64_t (*gather)(const unsigned char* text, int64_t begin, const uint32_t* ends, int64_t n,
                          unsigned char* values, int64_t base, int64_t* splits) noexcept

    const LinesKernels* lines_kernels(int level) noexcept
    int64_t lines_count(const unsigned char* text, int64_t nbytes) noexcept
    int64_t lines_most(int64_t begin, const uint32_t* ends, int64_t n) noexcept
