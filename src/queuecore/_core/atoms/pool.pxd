# The pool: slots of one size, whose number can grow, and the stack of the free ones. It is the slab's sibling for
# queues, whose number of elements is not known beforehand (unbounded capacity, leases that are held).
#
# pool_push, pool_pop: any thread, lock-free. pool_grow: any thread, lock-free except for its allocation. pool_row: the
# owner of the slot.
#   I1  A slot has one owner at a time: the pool, an element in the queue, a thread on its way, a reservation or a
#       lease.
#   I2  Chunks are never freed or moved before the pool itself, so a row's address stays, and reading `next` of a slot
#       that another thread has just taken reads valid memory.
#   I3  The tag in the head's high half grows with every change (ABA).
#   I4  Slots from `fresh` on were never taken. Slots below `made` have memory; a thread that finds a chunk not counted
#       yet counts it, so nobody waits for the thread that made it.
# Chunk 0 has `first` slots, a power of two; chunk k has first << (k - 1) of them, as many as all before it.
# Source: Treiber's stack (1986) with a counted head.
from libc.stddef cimport size_t
from libc.stdint cimport int32_t, uint32_t, uint64_t
from queuecore._core.atoms.memory cimport free
from queuecore._core.atoms.process cimport buffer_give, buffer_take
from queuecore._core.atoms.platform cimport (
    Atomic, alloc_lines, kAcquire, kLine, kRelaxed, kRelease, map_pages, order, size_product, size_sum, unmap_pages)

cdef enum:
    POOL_CHUNKS = 24
    POOL_SLOTS = 1 << 24    # a token has 24 bits
    POOL_NOBODY = (1 << 24) - 1  # the ring's mark, never a slot

# Labels of edges, as in ring.pxd.
cdef enum:
    Q1 = 33
    Q2 = 34
    Q3 = 35
    Q4 = 36
    Q5 = 37
    Q6 = 38

ctypedef void* BytesPtr
ctypedef Atomic[uint32_t]* NextsPtr

cdef extern from *:
    """
    namespace queuecore {
    struct SlotPool {
      alignas(kLine) Atomic<uint64_t> head;   // tag (high half) and slot + 1 (low half); 0 in the low half: empty
      alignas(kLine) Atomic<uint32_t> fresh;
      Atomic<uint32_t> made;
      alignas(kLine) Atomic<void*> rows[24];
      Atomic<Atomic<uint32_t>*> nexts[24];    // `next` of each slot of a chunk; the line in front points to its rows
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
        Atomic[uint32_t] fresh
        Atomic[uint32_t] made
        Atomic[BytesPtr] rows[24]
        Atomic[NextsPtr] nexts[24]
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


cdef inline unsigned char* pool_row(SlotPool* p, uint32_t slot) noexcept nogil:
    cdef uint32_t offset = 0
    cdef int32_t k = pool_chunk(p, slot, &offset)
    # relaxed: the owner got the pointer with the slot
    return <unsigned char*>p.rows[k].load(kRelaxed) + <size_t>offset * p.slot_bytes


cdef inline Atomic[uint32_t]* pool_next(SlotPool* p, uint32_t slot) noexcept nogil:
    cdef uint32_t offset = 0
    cdef int32_t k = pool_chunk(p, slot, &offset)
    return p.nexts[k].load(kRelaxed) + offset  # relaxed: as above


cdef inline void pool_push(SlotPool* p, uint32_t slot) noexcept nogil:
    cdef Atomic[uint32_t]* next_ = pool_next(p, slot)
    cdef uint64_t head = p.head.load(kRelaxed)  # relaxed: the CAS checks what was read
    while True:
        next_.store(<uint32_t>head, kRelaxed)  # relaxed: published by Q1
        # Q1 release: pairs with Q3; publishes `next` and the last reads of the slot's bytes. Linearizes here.
        if p.head.compare_exchange_weak(
                head, ((head >> 32) + 1) << 32 | <uint64_t>(slot + 1), order(Q1, kRelease), kRelaxed):
            return


cdef inline bint _pool_fresh(SlotPool* p, uint32_t* slot) noexcept nogil:
    cdef uint32_t fresh = p.fresh.load(kRelaxed)  # relaxed: the CAS checks it
    while fresh < p.made.load(order(Q2, kAcquire)):  # Q2 acquire: pairs with Q6; the address of the slot
        # Relaxed: it only decides which thread owns the slot; none has written there. Linearizes here.
        if p.fresh.compare_exchange_weak(fresh, fresh + 1, kRelaxed, kRelaxed):
            slot[0] = fresh
            return True
    return False


cdef inline bint pool_pop(SlotPool* p, uint32_t* slot) noexcept nogil:
    # False: no free slot. The caller calls pool_grow, then tries again.
    cdef uint64_t head = p.head.load(order(Q3, kAcquire))  # Q3 acquire: pairs with Q1
    cdef uint64_t below
    cdef uint32_t top
    while True:
        top = <uint32_t>head
        if top == 0:
            return _pool_fresh(p, slot)
        # relaxed: ordered by Q3, checked by the tag
        below = ((head >> 32) + 1) << 32 | pool_next(p, top - 1).load(kRelaxed)
        # Q3 acquire, on success and on failure: pairs with Q1. Linearizes here.
        if p.head.compare_exchange_weak(head, below, order(Q3, kAcquire), order(Q3, kAcquire)):
            slot[0] = top - 1
            return True


cdef inline void** _chunk_rows(NextsPtr nexts) noexcept nogil:
    return <void**>(<unsigned char*>nexts - kLine)


cdef inline NextsPtr _chunk_new(SlotPool* p, uint32_t count) noexcept nogil:
    cdef unsigned char* memory
    cdef void* rows = NULL
    cdef size_t nbytes
    if p.slot_bytes != 0 and count > (<size_t>1 << 46) // p.slot_bytes:
        return NULL
    memory = <unsigned char*>alloc_lines(size_sum(kLine, size_product(count, sizeof(uint32_t))))
    if memory == NULL:
        return NULL
    if p.slot_bytes != 0:
        nbytes = size_product(count, p.slot_bytes)
        rows = map_pages(nbytes) if p.zeroed else buffer_take(nbytes)
        if rows == NULL:
            free(memory)
            return NULL
    (<void**>memory)[0] = rows
    return <NextsPtr>(memory + kLine)


cdef inline void _chunk_free(SlotPool* p, NextsPtr nexts, uint32_t count) noexcept nogil:
    cdef void* rows = _chunk_rows(nexts)[0]
    if p.zeroed:
        unmap_pages(rows, count * p.slot_bytes)
    else:
        buffer_give(rows, count * p.slot_bytes)
    free(_chunk_rows(nexts))


cdef inline bint pool_grow(SlotPool* p) noexcept nogil:
    # Adds a chunk of slots, unless slots came free or were added meanwhile. False: no memory, or no slot number is
    # left.
    cdef uint32_t slots = p.made.load(order(Q2, kAcquire))  # Q2, as in _pool_fresh: the chunks before
    cdef uint32_t count
    cdef int32_t k
    cdef NextsPtr nexts
    cdef NextsPtr expected = NULL
    # relaxed, both: hints; the caller tries again
    if p.fresh.load(kRelaxed) < slots or <uint32_t>p.head.load(kRelaxed) != 0:
        return True
    k = 0 if slots == 0 else qc_log2(slots) - p.first_log + 1
    count = p.first if slots == 0 else slots
    if slots == POOL_NOBODY or k == POOL_CHUNKS:
        return False
    nexts = p.nexts[k].load(order(Q4, kAcquire))  # Q4 acquire: pairs with Q5; the address of the rows
    if nexts == NULL:
        # Several threads may come here at a time. All but the first free their own chunk.
        nexts = _chunk_new(p, count)
        if nexts == NULL:
            return False
        # Q5 release: pairs with Q4. Q4 on failure.
        if not p.nexts[k].compare_exchange_strong(expected, nexts, order(Q5, kRelease), order(Q4, kAcquire)):
            _chunk_free(p, nexts, count)
            nexts = expected
    # All threads write the same value. Relaxed: published by Q6, and by Q1 with each slot.
    p.rows[k].store(_chunk_rows(nexts)[0], kRelaxed)
    # Q6 release: pairs with Q2. Relaxed on failure: another thread has counted it.
    p.made.compare_exchange_strong(
        slots, slots + count if slots + count < POOL_NOBODY else POOL_NOBODY, order(Q6, kRelease), kRelaxed)
    return True


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
    for k in range(POOL_CHUNKS):  # relaxed: nobody else knows of it any more
        if p.nexts[k].load(kRelaxed) != NULL:
            _chunk_free(p, p.nexts[k].load(kRelaxed), p.first if k == 0 else p.first << (k - 1))
