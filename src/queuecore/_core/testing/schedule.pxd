# The seeded scheduler (schedule.hpp). Each module that cimports it has one of its own, and is compiled with
# QUEUECORE_SCHEDULE: with atomics whose memory is weak.
#
# A scenario is a function that a few fibres run, with checks of what must never be seen. `explore` runs it under many
# schedules, with the order of some edges weakened if asked to.
from libc.stdint cimport int64_t, uint32_t, uint64_t
from queuecore._core.atoms.platform cimport MemoryOrder, kAcqRel, kRelaxed

cdef extern from "queuecore/schedule.hpp" namespace "queuecore::schedule" nogil:
    int run_schedule "queuecore::schedule::run"(uint64_t seed, int fibres, void (*entry)(void*, int) noexcept,
                                                void* context, uint64_t most) noexcept
    void wrong(int what) noexcept
    int what() noexcept
    void arm(bint on) noexcept
    const int kMembarrier
    void mutate(int edge, MemoryOrder weakened) noexcept
    void suspend(int fibre, uint64_t at) noexcept
    int suspended() noexcept
    void resume() noexcept
    bint suspended_before(int edge) noexcept
    uint64_t random(uint64_t below) noexcept

cdef enum:
    MOST_ROWS = 64

cdef struct Call:
    int what
    int answer
    uint32_t token
    uint32_t[2] tokens
    int64_t begin
    int64_t end


cdef inline int weaken(dict edges, object relaxed, object unordered) except -1:
    # All others are as they should be.
    mutate(0, kRelaxed)
    for edge in unordered:
        mutate(edges[edge], kAcqRel)
    for edge in relaxed:
        mutate(edges[edge], kRelaxed)
    return 0


cdef inline list labels(dict edges):
    # Of the operations before which threads are suspended.
    return sorted([name for name, edge in edges.items() if suspended_before(edge)])


cdef inline uint64_t start_of(uint64_t seed) noexcept nogil:
    # Shortly before some wrap of the indices of a ring of four cells, or 0.
    if seed % 4 == 0:
        return 0
    if seed % 4 == 1:
        return (<uint64_t>1 << 63) - seed % 7
    return (<uint64_t>4 << 40) - seed % 7 if seed % 4 == 2 else (<uint64_t>1 << 32) - seed % 7
