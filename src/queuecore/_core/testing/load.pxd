# A step of a test in several threads, and what such steps share.
from libc.stdint cimport int64_t, uint64_t
from queuecore._core.atoms.platform cimport Batch, EventCount, Runner, Slab, StepFn, Turn, Window

cdef struct Job:
    Runner* runner
    Window* window
    Slab* slab
    Turn* turn
    EventCount* filled
    EventCount* drained
    int64_t batches, rows, unit_rows
    int64_t spin_ns
    # under the turn
    Batch* open
    uint64_t planned
    uint64_t random
    int64_t stock, made, taken, sum
    int64_t rounds


cdef Job* job_new(StepFn step, int64_t width, int64_t rows) noexcept nogil
# Stops its threads, and waits for them.
cdef void job_free(Job* job) noexcept nogil


cdef inline uint64_t random_next(uint64_t* s) noexcept nogil:
    s[0] ^= s[0] << 13
    s[0] ^= s[0] >> 7
    s[0] ^= s[0] << 17
    return s[0]


cdef inline void no_reference(void* context) noexcept nogil:
    pass
