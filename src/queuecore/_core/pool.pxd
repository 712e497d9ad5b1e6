# The pool: slots of one size that can become more, and the stack of those that are free. The slab's sibling for queues, whose
# number of elements nobody knows before (unbounded capacity, leases that are held).
#
# pool_push, pool_pop: any thread, lock-free. pool_grow: any thread, blocking. pool_row: whoever owns the slot.
#   I1  A slot has one owner at a time: the stack, an element in the queue, a thread on its way, a reservation or a lease.
#   I2  Chunks are never freed or moved before the pool itself, so a row's address stays and reading `next` of a slot that somebody
#       else has just taken reads memory that is there.
#   I3  The tag in the head's high half grows with every change (ABA).
# Chunk 0 has `first` slots, a power of two; chunk k has first << (k - 1) of them, as many as all before it.
# Source: Treiber's stack (1986) with a counted head.
from libc.stddef cimport size_t
from libc.stdint cimport int32_t, uint32_t, uint64_t
from libc.stdlib cimport free
from queuecore._core.atoms cimport buffer_give, buffer_take
from queuecore._core.parking cimport turn_give, turn_take
from queuecore._core.platform cimport (
    Atomic, Turn, alloc_lines, kAcquire, kRelaxed, kRelease, map_pages, order, unmap_pages)

cdef enum:
    POOL_CHUNKS = 24
    POOL_SLOTS = 1 << 24    # a token has 24 bits
    POOL_NOBODY = (1 << 24) - 1  # the ring's mark, never a slot

# Labels of edges, as in ring.pxd.
cdef enum:
    Q1 = 38
    Q2 = 39

cdef extern from *:
    """
    namespace queuecore {
    struct SlotPool {
      alignas(kLine) Atomic<uint64_t> head;  // tag (high half) and slot + 1 (low half); 0 in the low half: empty
      alignas(kLine) Turn growing;
      unsigned char* chunks[24];
      Atomic<uint32_t>* nexts[24];
      int32_t chunk_count;  // under `growing`
      uint32_t first;
      int32_t first_log;
      std::size_t slot_bytes;
      bool zeroed;  // chunks must begin as zero bytes
    };
    inline int qc_log2(uint32_t x) { return 31 - __builtin_clz(x); }
    }  // namespace queuecore
    """
    cppclass SlotPool "queuecore::SlotPool":
        Atomic[uint64_t] head
        Turn growing
        unsigned char* chunks[24]
        Atomic[uint32_t]* nexts[24]
        int32_t chunk_count
        uint32_t first
        int32_t first_log
        size_t slot_bytes
        bint zeroed
    int qc_log2 "queuecore::qc_log2"(uint32_t) noexcept nogil


cdef inline int32_t pool_chunk(const SlotPool* p, uint32_t slot, uint32_t* offset) noexcept nogil:
    cdef int32_t k
    if slot < p.first:
        offset[0] = slot
        return 0
    k = qc_log2(slot) - p.first_log + 1
    offset[0] = slot - (p.first << (k - 1))
    return k


cdef inline unsigned char* pool_row(const SlotPool* p, uint32_t slot) noexcept nogil:
    cdef uint32_t offset = 0
    cdef int32_t k = pool_chunk(p, slot, &offset)
    return p.chunks[k] + <size_t>offset * p.slot_bytes


cdef inline Atomic[uint32_t]* pool_next(SlotPool* p, uint32_t slot) noexcept nogil:
    cdef uint32_t offset = 0
    cdef int32_t k = pool_chunk(p, slot, &offset)
    return &p.nexts[k][offset]


cdef inline void pool_push(SlotPool* p, uint32_t slot) noexcept nogil:
    cdef Atomic[uint32_t]* next_ = pool_next(p, slot)
    cdef uint64_t head = p.head.load(kRelaxed)  # relaxed: the CAS checks what was read
    while True:
        next_.store(<uint32_t>head, kRelaxed)  # relaxed: published by Q1
        # Q1 release: pairs with Q2; publishes `next` and the last reads of the slot's bytes. Linearizes here.
        if p.head.compare_exchange_weak(
                head, ((head >> 32) + 1) << 32 | <uint64_t>(slot + 1), order(Q1, kRelease), kRelaxed):
            return


cdef inline bint pool_pop(SlotPool* p, uint32_t* slot) noexcept nogil:
    cdef uint64_t head = p.head.load(order(Q2, kAcquire))  # Q2 acquire: pairs with Q1
    cdef uint64_t below
    cdef uint32_t top
    while True:
        top = <uint32_t>head
        if top == 0:
            return False
        below = ((head >> 32) + 1) << 32 | pool_next(p, top - 1).load(kRelaxed)  # relaxed: ordered by Q2, checked by the tag
        # Q2 acquire, on success and on failure: pairs with Q1. Linearizes here.
        if p.head.compare_exchange_weak(head, below, order(Q2, kAcquire), order(Q2, kAcquire)):
            slot[0] = top - 1
            return True


cdef inline bint pool_grow(SlotPool* p) noexcept nogil:
    # Adds a chunk, unless a slot has come free meanwhile. False: no memory, or no number is left.
    cdef uint32_t count, begin, i
    cdef int32_t k
    cdef unsigned char* rows = NULL
    cdef Atomic[uint32_t]* nexts
    turn_take(&p.growing)
    if <uint32_t>p.head.load(kRelaxed) != 0:  # relaxed: a hint; the caller tries again
        turn_give(&p.growing)
        return True
    k = p.chunk_count
    turn_give(&p.growing)
    # The memory is fetched outside of the turn; who comes second gives its own back.
    count = p.first if k == 0 else p.first << (k - 1)
    begin = 0 if k == 0 else p.first << (k - 1)
    if k == POOL_CHUNKS or begin + count > POOL_SLOTS or (p.slot_bytes != 0 and count > (<size_t>1 << 46) // p.slot_bytes):
        return False
    nexts = <Atomic[uint32_t]*>alloc_lines(count * sizeof(uint32_t))
    if nexts == NULL:
        return False
    if p.slot_bytes != 0:
        rows = <unsigned char*>(map_pages(count * p.slot_bytes) if p.zeroed else buffer_take(count * p.slot_bytes))
        if rows == NULL:
            free(nexts)
            return False
    turn_take(&p.growing)
    if p.chunk_count != k:
        turn_give(&p.growing)
        _chunk_free(p, rows, nexts, count)
        return True
    p.chunks[k] = rows
    p.nexts[k] = nexts
    p.chunk_count += 1
    turn_give(&p.growing)
    for i in range(count):  # the lowest comes out first; Q1 publishes the chunk with each of its slots
        if begin + count - 1 - i != POOL_NOBODY:
            pool_push(p, begin + count - 1 - i)
    return True


cdef inline void _chunk_free(SlotPool* p, unsigned char* rows, Atomic[uint32_t]* nexts, uint32_t count) noexcept nogil:
    free(nexts)
    if p.zeroed:
        unmap_pages(rows, count * p.slot_bytes)
    else:
        buffer_give(rows, count * p.slot_bytes)


cdef inline void pool_init(SlotPool* p, uint32_t least, size_t slot_bytes, bint zeroed) noexcept nogil:
    # The pool must be zeroed before. It begins without a slot.
    p.first = 1
    while p.first < least and p.first < POOL_SLOTS:
        p.first *= 2
        p.first_log += 1
    p.slot_bytes = slot_bytes
    p.zeroed = zeroed


cdef inline void pool_free(SlotPool* p) noexcept nogil:
    cdef int32_t k
    for k in range(p.chunk_count):
        _chunk_free(p, p.chunks[k], p.nexts[k], p.first if k == 0 else p.first << (k - 1))
