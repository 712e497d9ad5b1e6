# The parts that native steps on numbers share: loops over one dtype, the choice of an output's place, and the errors of
# that.
#
# All functions work on the caller's memory alone, and wait for nothing.
from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t
from queuecore._core.atoms.platform cimport Fault
from queuecore._core.atoms.random cimport philox_block
from queuecore._core.steps.stages cimport Arena, Cell

cdef extern from "queuecore/kernels/chains.hpp" namespace "queuecore" nogil:
    struct ChainLink:
        int32_t kind
        float constant
    ctypedef void (*ChainFn "queuecore::ChainFn")(const void*, void*, int64_t, const ChainLink*, int32_t) noexcept nogil
    ChainFn chain_fn(int dtype, bint widest)

cdef extern from "queuecore/kernels/elementwise.hpp" namespace "queuecore" nogil:
    # Dtypes by number: bool, int8, uint8, int16, uint16, int32, uint32, int64, uint64, float16, float32, float64,
    # bfloat16.
    ctypedef void (*CastFn)(const void* source, void* target, int64_t n) noexcept nogil
    CastFn cast_fn(int source, int target, bint portable) noexcept
    void scale_all[T](const T* source, T* target, int64_t n, T a, T b) noexcept
    void scale_each[T](const T* source, T* target, int64_t n, const T* a, const T* b) noexcept
    void gather(const void* source, void* target, int64_t rows, int64_t columns, int64_t row, int64_t column,
                int32_t item) noexcept
    void split_pixels(const unsigned char* source, unsigned char* first, unsigned char* second, unsigned char* third,
                      int64_t n) noexcept
    void fill_items(void* target, const void* item, int64_t n, int32_t size) noexcept

ctypedef const unsigned char* bytes_in
ctypedef unsigned char* bytes_out

cdef enum:
    TILE = 2048          # items: a few tiles fit into a first-level cache

# A step's own sentences have smaller numbers.
cdef enum:
    WHAT_NO_MEMORY = 100  # for a bytes
    WHAT_OTHER = 101      # a bytes made for a place of b bytes

cdef int step_fault(Fault* fault, int what, int64_t a, int64_t b) noexcept nogil
# Gives the output a place of `nbytes`. A place that it has already is as large as was known beforehand: made_bytes.
cdef int step_place(Cell* out, int64_t nbytes, int64_t made_bytes, Arena* arena, Fault* fault) noexcept nogil
# Copies the part of an array that begins at `begin` and has this size.
cdef void copy_part(bytes_in source, bytes_out target, const int64_t* dims, const int64_t* begin, const int64_t* size,
                    int32_t ndim, int32_t item) noexcept nogil
cdef object step_explain(str label, const Fault* fault)


# Random draws of an element: neither threads nor batches change them, nor do other steps.
cdef inline void step_draws(uint64_t seed, const Arena* arena, int64_t picture, uint32_t block,
                            uint32_t* draws) noexcept nogil:
    # Draws four numbers for the arena's element, or a later one of its batch. A step may draw several blocks.
    philox_block(seed, <uint64_t>(arena.element + picture), <uint32_t>arena.epoch | <uint64_t>block << 32, draws)


cdef inline int64_t draw_below(uint32_t draw, int64_t n) noexcept nogil:
    # Returns a draw as one of the numbers below n.
    return <int64_t>(<uint64_t>draw * <uint64_t>n >> 32)


cdef inline double draw_share(uint32_t draw) noexcept nogil:
    # Returns a draw as a number from 0 to below 1.
    return <double>(draw >> 8) * (1.0 / (1 << 24))
