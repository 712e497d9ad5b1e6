# Our rings as the loops of ring_loops.hpp want them. C++ sees these functions by the names in quotes, as overloads; it declares
# them in ring_ours.hpp. Here the compiler finds both in one translation unit, and can inline them.
from libc.stdint cimport uint32_t, uint64_t
from libcpp cimport bool as cbool
from queuecore._core.atoms.parking cimport event_cancel, event_notify, event_prepare, event_wait
from queuecore._core.atoms.platform cimport EventCount, FastRing, FifoRing, SpscRing
from queuecore._core.atoms.ring cimport (
    RING_OK, fast_free, fast_init, fast_pop, fast_pop_many, fast_push, fast_push_many, fifo_free, fifo_init, fifo_pop,
    fifo_pop_many, fifo_push, ring_backoff, spsc_free, spsc_init, spsc_pop, spsc_pop_many, spsc_push, spsc_push_many)

ctypedef fused Ring:
    FifoRing
    FastRing
    SpscRing

cdef enum:
    SPINS = 8  # tries, with 16 pauses after each, before it sleeps


cdef inline cbool fifo_start "our_init"(FifoRing* r, uint32_t capacity) noexcept nogil:
    return fifo_init(r, capacity, 0)


cdef inline cbool fast_start "our_init"(FastRing* r, uint32_t capacity) noexcept nogil:
    return fast_init(r, capacity, 0)


cdef inline cbool spsc_start "our_init"(SpscRing* r, uint32_t capacity) noexcept nogil:
    return spsc_init(r, capacity, 0)


cdef inline void fifo_end "our_free"(FifoRing* r) noexcept nogil:
    fifo_free(r)


cdef inline void fast_end "our_free"(FastRing* r) noexcept nogil:
    fast_free(r)


cdef inline void spsc_end "our_free"(SpscRing* r) noexcept nogil:
    spsc_free(r)


cdef inline cbool fifo_put "our_push"(FifoRing* r, uint64_t token) noexcept nogil:
    return fifo_push(r, <uint32_t>token, False) == RING_OK


cdef inline cbool fast_put "our_push"(FastRing* r, uint64_t token) noexcept nogil:
    return fast_push(r, token)


cdef inline cbool spsc_put "our_push"(SpscRing* r, uint64_t token) noexcept nogil:
    return spsc_push(r, token)


cdef inline cbool fifo_get "our_pop"(FifoRing* r, uint64_t* token) noexcept nogil:
    cdef uint32_t got = 0
    cdef int said = fifo_pop(r, &got, False)
    token[0] = got
    return said == RING_OK


cdef inline cbool fast_get "our_pop"(FastRing* r, uint64_t* token) noexcept nogil:
    return fast_pop(r, token)


cdef inline cbool spsc_get "our_pop"(SpscRing* r, uint64_t* token) noexcept nogil:
    return spsc_pop(r, token)


cdef inline uint32_t fifo_put_n "our_push_n"(FifoRing* r, const uint64_t* tokens, uint32_t n) noexcept nogil:
    # The ring has no push of several: they would not stay together without a turn.
    cdef uint32_t i
    for i in range(n):
        if fifo_push(r, <uint32_t>tokens[i], False) != RING_OK:
            return i
    return n


cdef inline uint32_t fast_put_n "our_push_n"(FastRing* r, const uint64_t* tokens, uint32_t n) noexcept nogil:
    return n if fast_push_many(r, tokens, n) else 0


cdef inline uint32_t spsc_put_n "our_push_n"(SpscRing* r, const uint64_t* tokens, uint32_t n) noexcept nogil:
    return spsc_push_many(r, tokens, n)


cdef inline uint32_t fifo_get_n "our_pop_n"(FifoRing* r, uint64_t* tokens, uint32_t n) noexcept nogil:
    cdef uint32_t got[32]
    cdef int said = fifo_pop_many(r, got, n if n < 32 else 32, False)
    cdef int i
    for i in range(said):
        tokens[i] = got[i]
    return said if said > 0 else 0


cdef inline uint32_t fast_get_n "our_pop_n"(FastRing* r, uint64_t* tokens, uint32_t n) noexcept nogil:
    return n if fast_pop_many(r, tokens, n) else 0


cdef inline uint32_t spsc_get_n "our_pop_n"(SpscRing* r, uint64_t* tokens, uint32_t n) noexcept nogil:
    return spsc_pop_many(r, tokens, n)


cdef inline bint _try(Ring* r, uint64_t* token, bint put) noexcept nogil:
    if Ring is FifoRing:
        return fifo_put(r, token[0]) if put else fifo_get(r, token)
    elif Ring is FastRing:
        return fast_put(r, token[0]) if put else fast_get(r, token)
    else:
        return spsc_put(r, token[0]) if put else spsc_get(r, token)


cdef inline void _wait(Ring* r, uint64_t* token, bint put, EventCount* mine, EventCount* theirs) noexcept nogil:
    # How a thread waits for a ring: some tries, then sleep on its own event count; done, it wakes one of the other side.
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


cdef inline void fifo_wait "our_wait"(
        FifoRing* r, uint64_t* token, cbool put, EventCount* mine, EventCount* theirs) noexcept nogil:
    _wait(r, token, put, mine, theirs)


cdef inline void fast_wait "our_wait"(
        FastRing* r, uint64_t* token, cbool put, EventCount* mine, EventCount* theirs) noexcept nogil:
    _wait(r, token, put, mine, theirs)


cdef inline void spsc_wait "our_wait"(
        SpscRing* r, uint64_t* token, cbool put, EventCount* mine, EventCount* theirs) noexcept nogil:
    _wait(r, token, put, mine, theirs)
