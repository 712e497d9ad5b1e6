# Our ring as the loops of ring_loops.hpp want it. C++ sees these functions by the names in quotes; it declares them in
# ring_ours.hpp. Here the compiler finds both in one translation unit, and can inline them.
from libc.stdint cimport uint32_t, uint64_t
from libcpp cimport bool as cbool
from queuecore._core.atoms.parking cimport event_cancel, event_notify, event_prepare, event_wait
from queuecore._core.atoms.platform cimport EventCount, FifoRing
from queuecore._core.atoms.ring cimport (
    RING_OK, fifo_free, fifo_init, fifo_pop, fifo_pop_many, fifo_push, ring_backoff)

cdef enum:
    SPINS = 8  # tries, with 16 pauses after each, before it sleeps


cdef inline cbool init "our_init"(FifoRing* r, uint32_t capacity) noexcept nogil:
    return fifo_init(r, capacity, 0)


cdef inline void end "our_free"(FifoRing* r) noexcept nogil:
    fifo_free(r)


cdef inline cbool push "our_push"(FifoRing* r, uint64_t token) noexcept nogil:
    return fifo_push(r, <uint32_t>token, False) == RING_OK


cdef inline cbool pop "our_pop"(FifoRing* r, uint64_t* token) noexcept nogil:
    cdef uint32_t got = 0
    cdef int said = fifo_pop(r, &got, False)
    token[0] = got
    return said == RING_OK


cdef inline uint32_t push_n "our_push_n"(FifoRing* r, const uint64_t* tokens, uint32_t n) noexcept nogil:
    # The ring has no push of several: they would not stay together without a turn.
    cdef uint32_t i
    for i in range(n):
        if fifo_push(r, <uint32_t>tokens[i], False) != RING_OK:
            return i
    return n


cdef inline uint32_t pop_n "our_pop_n"(FifoRing* r, uint64_t* tokens, uint32_t n) noexcept nogil:
    cdef uint32_t got[32]
    cdef int said = fifo_pop_many(r, got, n if n < 32 else 32, False)
    cdef int i
    for i in range(said):
        tokens[i] = got[i]
    return said if said > 0 else 0


cdef inline cbool _try(FifoRing* r, uint64_t* token, cbool put) noexcept nogil:
    return push(r, token[0]) if put else pop(r, token)


cdef inline void wait "our_wait"(
        FifoRing* r, uint64_t* token, cbool put, EventCount* mine, EventCount* theirs) noexcept nogil:
    # How a thread waits for a ring: some tries, then sleep on its own event count; done, it wakes one of the other
    # side.
    cdef int spins = 0
    cdef uint32_t epoch
    while not _try(r, token, put):
        if spins < SPINS:
            spins += 1
            ring_backoff()
            continue
        epoch = event_prepare(mine)
        if _try(r, token, put):
            event_cancel(mine, epoch)
            break
        event_wait(mine, epoch, -1)
    event_notify(theirs, 1)
