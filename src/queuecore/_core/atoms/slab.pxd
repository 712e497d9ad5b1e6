# The slab: one arena cut into equal slots, and the stack of the free ones.
#
# slots_push: any thread, lock-free. slots_pop: any thread, lock-free. Last in, first out, so that the slot handed out
# is the one most likely still in the cache; a queue of slots would hand out the coldest.
#   I1  A slot has one owner at a time: the stack, a batch in flight, or a lease.
#   I2  The tag in the head's high half grows with every change, so a head that came back to the same index isn't taken
#       for the one that was read before (ABA).
# Source: Treiber's stack (1986) with a counted head.
from libc.stddef cimport size_t
from libc.stdint cimport int32_t, uint32_t, uint64_t
from queuecore._core.atoms.memory cimport free
from queuecore._core.atoms.process cimport buffer_give, buffer_take
from queuecore._core.atoms.platform cimport (
    Atomic, Slab, SlotStack, alloc_lines, kAcquire, kRelaxed, kRelease, order, size_product)

# Labels of edges, as in ring.pxd.
cdef enum:
    S1 = 24
    S2 = 25


cdef inline void slots_push(SlotStack* s, uint32_t slot) noexcept nogil:
    cdef uint64_t head = s.head.load(kRelaxed)  # relaxed: the CAS checks what was read
    cdef uint64_t top
    while True:
        s.next[slot].store(<uint32_t>head, kRelaxed)  # relaxed: published by S1
        top = ((head >> 32) + 1) << 32 | <uint64_t>(slot + 1)
        # S1 release: pairs with S2; publishes next[slot] and the last reads of the slot's bytes. Linearizes here.
        if s.head.compare_exchange_weak(head, top, order(S1, kRelease), kRelaxed):
            break
    s.free.fetch_add(1, kRelaxed)  # relaxed: a statistic and a hint, it guards nothing


cdef inline bint slots_pop(SlotStack* s, uint32_t* slot) noexcept nogil:
    cdef uint64_t head = s.head.load(order(S2, kAcquire))  # S2 acquire: pairs with S1; next[] of the top is visible
    cdef uint64_t below
    cdef uint32_t top
    while True:
        top = <uint32_t>head
        if top == 0:
            return False
        below = ((head >> 32) + 1) << 32 | s.next[top - 1].load(kRelaxed)  # relaxed: ordered by S2, checked by the tag
        # S2 acquire, on success and on failure: pairs with S1. Linearizes here.
        if s.head.compare_exchange_weak(head, below, order(S2, kAcquire), order(S2, kAcquire)):
            s.free.fetch_sub(1, kRelaxed)
            slot[0] = top - 1
            return True


cdef inline unsigned char* slab_slot(Slab* slab, uint32_t slot) noexcept nogil:
    return slab.base + <size_t>slot * slab.slot_bytes


cdef inline bint slab_init(Slab* slab, uint32_t slots, size_t slot_bytes, void* memory) noexcept nogil:
    # False: no memory (nothing is left behind). The slab must be zeroed before. memory: as many bytes as the slots
    # take, or NULL; it belongs to the caller, who takes it out of the slab before slab_free.
    cdef uint32_t i
    slab.slots = slots
    slab.slot_bytes = slot_bytes
    slab.mapped_bytes = size_product(slots, slot_bytes)
    slab.stack.next = <Atomic[uint32_t]*>alloc_lines(size_product(slots, sizeof(uint32_t)))
    if slab.stack.next == NULL:
        return False
    slab.base = <unsigned char*>(buffer_take(slab.mapped_bytes) if memory == NULL else memory)
    if slab.base == NULL:
        free(slab.stack.next)
        slab.stack.next = NULL
        return False
    slab.stack.count = slots
    for i in range(slots):
        slots_push(&slab.stack, slots - 1 - i)
    return True


cdef inline void slab_free(Slab* slab) noexcept nogil:
    buffer_give(slab.base, slab.mapped_bytes)  # NULL: it was taken out
    free(slab.stack.next)
    slab.base = NULL
    slab.stack.next = NULL
