# FifoRing, a ring of tokens: a bounded queue of small numbers (24 bits) that name slots. It never waits; a thread that
# has to wait parks (parking.pxd). Any thread may call any function, except those that a comment reserves for the owner
# of the pops or of the pushes. A push claims no index: one CAS makes it, or it is not made at all.
#   I1  The cell of index i (cell i mod size) holds lap(i) from the moment when push i is made until index i + size is
#       pushed. Laps only grow, so a cell says by itself what it holds, and consumers never write one.
#   I2  head <= number of pushes <= head + capacity, and capacity < size. So no cell is written before the last token in
#       it was popped, and one cell is always left for the seal.
#   I3  tail <= number of pushes <= tail + 1: the pusher of index i has seen tail at i, and only a thread that has seen
#       cell i filled with a token moves tail from i to i + 1. Hence head may pass tail by one, and indices are compared
#       as signed distances.
#   I4  SEAL is pushed like a token, but tail never moves past it and it is never popped. No push gets beyond tail, so
#       none succeeds after the seal; pops take what lies before it, then find it.
#   I5  The owner of the pops has set a bit of head's own word: a pop by any other thread expects the bit clear, and
#       so can't land once it is set.
#   I6  head_seen holds a value that head once had: too small at worst, and then head itself is asked.
#   I7  The owner of the pushes has set a bit of tail's own word. Any other thread that pushes has seen tail before
#       that, and so can fill no cell but the next one: one such push may still land, and none after the owner's first
#       one, a seal included. So the owner's pushes follow each other.
#   I8  outside: the number of rows that are in no cell but count against the capacity.
# Progress: every operation is lock-free; to own pops or pushes, and to end it, is one atomic operation each. Any number
# of threads may stop anywhere in them without holding back others (an owner holds back the pops or pushes of all
# others: that is its purpose).
# Linearizable: seq_cst operations, marked below, decide on OK, FULL, EMPTY and SEALED, so that the answers of several
# rings agree on one order too. OWNED may be out of date by the time that the end of an ownership takes to be seen. And
# OK counts the rows outside as they were at R2: the push doesn't notice rows added before R7.
# Limits: laps are 40 bits wide. A push that sleeps between two of its instructions for exactly 2^40 laps of the ring
# (hours, for two cells, at full speed) could then be taken for another one. Indices are 63 bits wide, and may wrap if
# there are less than 2^24 cells; but no ring runs long enough for that.
# Source: the idea of lap and value in one word, published by CAS, with a tail that is helped along, is Nikolaev's (NCQ,
# in "A Scalable, Portable, and Memory-Efficient Lock-Free FIFO Queue", DISC 2019); seal and owners are our own.
from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t
from queuecore._core.atoms.memory cimport free
from queuecore._core.atoms.platform cimport (
    Atomic, FifoRing, alloc_lines, cpu_pause, kAcquire, kRelaxed, kRelease, kSeqCst, order, size_product)

cdef enum:
    RING_OK = 1       # also the number of tokens moved
    RING_EMPTY = 0
    RING_FULL = -1
    RING_SEALED = -2  # for a push: nothing more is taken; for a pop: nothing more will come
    RING_OWNED = -3   # another thread owns the pops, or the pushes

cdef enum:
    TOKEN_BITS = 24
    TOKEN_MASK = (1 << TOKEN_BITS) - 1
    SEAL = TOKEN_MASK  # a token that users may not push
    RING_MOST = TOKEN_MASK
    BACKOFF_PAUSES = 16

# Labels of edges: the seeded scheduler's build weakens them one by one (tests/native/test_orders.py). Unique in the
# whole core.
cdef enum:
    R1 = 1
    R2 = 2
    R3 = 3
    R5 = 4
    R4 = 5
    R7 = 6
    R6 = 7
    R11 = 8
    R8 = 9
    R9 = 10
    R10 = 11
    R12 = 12
    R13 = 13
    R14 = 14
    R15 = 15
    R16 = 16


cdef inline void ring_backoff() noexcept nogil:
    # After a try that failed, before the next: hammering the other side's lines slows that side down. 16 pauses doubled
    # the ring's throughput, with one thread on each side.
    cdef int _i
    for _i in range(BACKOFF_PAUSES):
        cpu_pause()


cdef inline uint64_t _size_for(uint64_t least) noexcept nogil:
    cdef uint64_t size = 2
    while size < least:
        size *= 2
    return size


cdef inline bint fifo_init(FifoRing* r, uint32_t capacity, uint64_t start) noexcept nogil:
    # False: no memory, or a capacity that is 0 or above RING_MOST. Indices begin at `start` (for tests of their wrap;
    # else 0).
    cdef uint64_t size, i
    cdef int32_t shift = 1
    if capacity == 0 or capacity > RING_MOST:
        return False
    size = _size_for(<uint64_t>capacity + 1)
    r.cells = <Atomic[uint64_t]*>alloc_lines(size_product(size, sizeof(uint64_t)))
    if r.cells == NULL:
        return False
    r.mask = size - 1
    r.room = <uint64_t>capacity * 2
    while size >> shift != 1:
        shift += 1
    r.shift.set(shift + 1)
    for i in range(size):  # relaxed, all of these: nobody else knows of the ring yet
        r.cells[(start + i) & r.mask].store(_fifo_lap(r, (start + i) * 2) - (<uint64_t>1 << TOKEN_BITS), kRelaxed)
    r.tail.store(start * 2, kRelaxed)
    r.head.store(start * 2, kRelaxed)
    r.head_seen.store(start * 2, kRelaxed)
    return True


cdef inline void fifo_free(FifoRing* r) noexcept nogil:
    free(r.cells)
    r.cells = NULL


cdef inline Atomic[uint64_t]* _fifo_cell(FifoRing* r, uint64_t p) noexcept nogil:
    return &r.cells[(p >> 1) & r.mask]


cdef inline uint64_t _fifo_lap(FifoRing* r, uint64_t p) noexcept nogil:
    return (p >> r.shift.get()) << TOKEN_BITS


cdef inline int64_t _fifo_ahead(FifoRing* r, uint64_t p, uint64_t x) noexcept nogil:
    # < 0: index p is not pushed yet; 0: x is what was pushed; > 0: a later lap has been pushed over it, so p was
    # popped.
    return <int64_t>((x & ~<uint64_t>TOKEN_MASK) - _fifo_lap(r, p))


cdef inline int _fifo_put(FifoRing* r, uint32_t token, bint owner) noexcept nogil:
    cdef uint64_t p, x, h, outside, expected
    cdef int64_t ahead, room
    # R1 acquire: pairs with R8, R4 and R16. A thread that saw tail at p sees every push below p, so its own next pop
    # can't miss one.
    p = r.tail.load(order(R1, kAcquire))
    while True:
        if p & 1 and not owner:
            return RING_OWNED  # linearizes at R1
        # R2 seq_cst: pairs with R9; R5 says why. It comes after R1: no other push comes between this load and an R7
        # that succeeds.
        outside = r.outside.load(order(R2, kSeqCst))
        # R3 seq_cst: pairs with R6; a caller that is told SEALED sees what was written before the seal, and if it is
        # told otherwise, no seal was answered before this. Linearizes here: SEALED, and FULL, see R5.
        x = _fifo_cell(r, p).load(order(R3, kSeqCst))
        ahead = _fifo_ahead(r, p, x)
        if ahead == 0 and <uint32_t>(x & TOKEN_MASK) == SEAL:
            return RING_SEALED
        if ahead == 0:
            # Another thread has pushed p and not moved tail yet; this one moves it, in case that thread never does.
            expected = p
            # R4 release: pairs with R1; passes on that cell p is filled. Relaxed on failure: the load below asks again.
            r.tail.compare_exchange_strong(expected, p + 2, order(R4, kRelease), kRelaxed)
        if ahead >= 0:
            p = r.tail.load(order(R1, kAcquire))  # R1, as above
            continue
        room = <int64_t>r.room - 2 * <int64_t><uint32_t>outside
        # Relaxed: I6. The seal needs no room: I2.
        if token != SEAL and <int64_t>((p & ~<uint64_t>1) - r.head_seen.load(kRelaxed)) >= room:
            # R5 seq_cst: pairs with R12; a pop that was answered before this is seen. head only grows, so if there is
            # no room now, there was none at R3, when p was the next index and there was no seal, if `outside` is what
            # it was around R3.
            h = r.head.load(order(R5, kSeqCst)) & ~<uint64_t>1
            r.head_seen.store(h, kRelaxed)  # relaxed: I6
            if <int64_t>((p & ~<uint64_t>1) - h) >= room:
                if r.outside.load(order(R2, kSeqCst)) == outside:  # R2, as above
                    return RING_FULL
                p = r.tail.load(order(R1, kAcquire))  # R1, as above
                continue
        # R7 (R6 for the seal) seq_cst: pairs with R11 (and R3). Publishes the slot that the token names; in one order
        # with R11 of all rings. Relaxed on failure: another push took the cell, R3 looks again. Linearizes here: OK.
        if _fifo_cell(r, p).compare_exchange_strong(
                x, _fifo_lap(r, p) | token, order(R6 if token == SEAL else R7, kSeqCst), kRelaxed):
            if token != SEAL:
                expected = p
                # R8 release: pairs with R1, as R4. Relaxed on failure: another thread has helped, or began or ended to
                # own the pushes; then the next push helps.
                r.tail.compare_exchange_strong(expected, p + 2, order(R8, kRelease), kRelaxed)
            return RING_OK


cdef inline int fifo_push(FifoRing* r, uint32_t token, bint owner) noexcept nogil:
    # RING_OK, RING_FULL, RING_SEALED or RING_OWNED. The token is below SEAL. `owner`: the caller owns the
    # pushes.
    return _fifo_put(r, token, owner)


cdef inline bint fifo_seal(FifoRing* r) noexcept nogil:
    # Seals the ring: from now on no push succeeds, not even that of the pushes' owner. True for the one caller that
    # sealed it.
    return _fifo_put(r, SEAL, True) == RING_OK


cdef inline void fifo_outside(FifoRing* r, int64_t n) noexcept nogil:
    # Adds n (which may be negative) to the rows that count against the capacity; their number may exceed it. Each of
    # 2^32 calls in a row leaves a different value in the word.
    # R9 seq_cst: pairs with R2. Linearizes here.
    r.outside.fetch_add((<uint64_t>1 << 32) + <uint64_t>n, order(R9, kSeqCst))


cdef inline int fifo_pop_many(FifoRing* r, uint32_t* tokens, uint32_t n, bint owner) noexcept nogil:
    # Takes up to n (at least 1) tokens that follow each other. Returns their number, or RING_EMPTY, RING_SEALED (and
    # drained) or RING_OWNED. `owner`: the caller owns the pops. `tokens` beyond the number returned are undefined.
    # R10 acquire: pairs with R12. A thread that saw head at h sees every pop below h, and the pushes that those poppers
    # had seen.
    cdef uint64_t h = r.head.load(order(R10, kAcquire))
    cdef uint64_t x
    cdef int64_t ahead = -1
    cdef uint32_t k
    while True:
        if h & 1 and not owner:
            return RING_OWNED  # linearizes at R10
        k = 0
        while k < n:
            # R11 seq_cst: pairs with R7; the slot that the token names. A push that was answered before this is seen.
            # Linearizes here, for the first cell: EMPTY, SEALED.
            x = _fifo_cell(r, h + 2 * <uint64_t>k).load(order(R11, kSeqCst))
            ahead = _fifo_ahead(r, h + 2 * <uint64_t>k, x)
            if ahead != 0 or <uint32_t>(x & TOKEN_MASK) == SEAL:
                break
            tokens[k] = <uint32_t>(x & TOKEN_MASK)
            k += 1
        if k == 0:
            if ahead <= 0:
                return RING_SEALED if ahead == 0 else RING_EMPTY
            h = r.head.load(order(R10, kAcquire))  # R10, as above
            continue
        # R12 seq_cst: pairs with R10 and R5. R10 on failure. Linearizes here: OK.
        if r.head.compare_exchange_weak(h, h + 2 * <uint64_t>k, order(R12, kSeqCst), order(R10, kAcquire)):
            return <int>k


cdef inline int fifo_pop(FifoRing* r, uint32_t* token, bint owner) noexcept nogil:
    # RING_OK, RING_EMPTY, RING_SEALED (and drained) or RING_OWNED.
    return fifo_pop_many(r, token, 1, owner)


cdef inline bint fifo_own_pops(FifoRing* r) noexcept nogil:
    # From now on only the caller pops. False: another thread owns the pops.
    # R13 acquire: pairs with R14; what the last holder wrote. Linearizes here.
    return (r.head.fetch_or(1, order(R13, kAcquire)) & 1) == 0


cdef inline void fifo_disown_pops(FifoRing* r) noexcept nogil:
    # Only for the owner. The bit is set, so subtracting one clears it and leaves the index alone.
    # R14 release: pairs with R13 and R10. Linearizes here.
    r.head.fetch_sub(1, order(R14, kRelease))


cdef inline bint fifo_own_pushes(FifoRing* r) noexcept nogil:
    # From now on only the caller pushes (I7). False: another thread owns the pushes.
    # R15 acquire: pairs with R16; what the last holder wrote. Linearizes here.
    return (r.tail.fetch_or(1, order(R15, kAcquire)) & 1) == 0


cdef inline void fifo_disown_pushes(FifoRing* r) noexcept nogil:
    # Only for the owner. R16 release: pairs with R15 and R1. Linearizes here.
    r.tail.fetch_sub(1, order(R16, kRelease))


cdef inline uint32_t fifo_capacity(FifoRing* r) noexcept nogil:
    return <uint32_t>(r.room >> 1)


cdef inline uint64_t _fifo_pushes(FifoRing* r) noexcept nogil:
    # Returns twice the next index, also if the last pusher has not moved tail yet. Relaxed, both: it decides nothing.
    cdef uint64_t p = r.tail.load(kRelaxed) & ~<uint64_t>1
    cdef uint64_t x = _fifo_cell(r, p).load(kRelaxed)
    return p + 2 if _fifo_ahead(r, p, x) == 0 and <uint32_t>(x & TOKEN_MASK) != SEAL else p


cdef inline int64_t fifo_count(FifoRing* r, uint64_t start) noexcept nogil:
    # Returns the number of pushes since indices began at `start`. It may be stale when it is read.
    return <int64_t>((_fifo_pushes(r) - 2 * start) >> 1)


cdef inline uint32_t fifo_size(FifoRing* r) noexcept nogil:
    # Exact while no thread pushes or pops; otherwise a number between 0 and the capacity that may never have been true.
    cdef uint64_t h = r.head.load(kRelaxed) & ~<uint64_t>1  # relaxed: it decides nothing
    cdef int64_t n = <int64_t>(_fifo_pushes(r) - h) // 2
    r.head_seen.store(h, kRelaxed)  # relaxed: I6
    if n < 0:
        return 0
    return fifo_capacity(r) if n > <int64_t>fifo_capacity(r) else <uint32_t>n


cdef inline int64_t fifo_size_most(FifoRing* r) noexcept nogil:
    # Returns at least the number of tokens in the ring after the caller's push, unless others have popped. Reads only
    # words that pushers write.
    return <int64_t>((r.tail.load(kRelaxed) & ~<uint64_t>1) - r.head_seen.load(kRelaxed)) // 2  # relaxed: a statistic
