# The window: a hand-off in index order. Batch k lives in descriptor k mod the ring's size until the consumer has taken
# it.
#
# window_open: the planner, one thread at a time (it holds the turn). window_done, or window_less and then
# window_publish: any worker. window_ready: any thread. window_take: the consumer, one thread at a time (it holds the
# GIL, or is the only one).
#   I1  Batch k is opened only while k < consumed + width, so no descriptor is opened before its last batch was taken.
#   I2  `missing` starts at one more than the rows that may come; only the planner takes that one off. So it cannot
#       reach zero while rows are still being planned, and the one thread that brings it to zero publishes the batch.
# All operations are wait-free; consumers park on `arrived`.
from libc.stdint cimport int64_t, uint32_t, uint64_t
from queuecore._core.atoms.memory cimport free
from queuecore._core.atoms.platform cimport (
    Batch, Window, alloc_lines, kAcqRel, kAcquire, kLine, kRelaxed, kRelease, order, size_product, size_sum)
from queuecore._core.atoms.parking cimport event_notify_all

# Labels of edges, as in ring.pxd.
cdef enum:
    B1 = 26
    B3 = 27
    B2 = 28
    B4 = 29
    B5 = 30
    B6 = 31
    B7 = 32


cdef inline bint window_init(Window* w, int64_t width, int64_t marks) noexcept nogil:
    cdef uint64_t size = 1
    while size < <uint64_t>width:
        size *= 2
    w.ring = <Batch*>alloc_lines(size_product(size, sizeof(Batch)))
    w.iterations = <int64_t*>alloc_lines(size_product(size_sum(size_product(size, marks), 1), sizeof(int64_t)))
    w.mask = size - 1
    w.width = width
    w.end.store(~<uint64_t>0, kRelaxed)  # relaxed: nobody else knows of it yet
    return w.ring != NULL and w.iterations != NULL


cdef inline void window_free(Window* w) noexcept nogil:
    free(w.ring)
    free(w.iterations)


cdef inline Batch* window_batch(Window* w, uint64_t k) noexcept nogil:
    return &w.ring[k & w.mask]


cdef inline bint window_has_room(Window* w, uint64_t k) noexcept nogil:
    # B1 acquire: pairs with B5; the consumer has read the descriptor of batch k - size for the last time.
    return k - w.consumed.load(order(B1, kAcquire)) < w.width


cdef inline void window_open(Window* w, uint64_t k, uint32_t slot, int64_t rows) noexcept nogil:
    cdef Batch* b = window_batch(w, k)
    b.slot = slot
    b.rows = b.subs = 0
    b.parts = NULL
    b.failed.store(0, kRelaxed)  # relaxed: all of these are published by the turn to workers, and by B3 to the consumer
    b.missing.store(rows + 1, kRelaxed)


cdef inline bint window_less(Batch* b, int64_t rows) noexcept nogil:
    # Subtracts `rows` from the rows missing. True: none is missing any more, and the caller publishes the batch.
    # B2 acq_rel: release, this worker's rows are in place; acquire, the last one publishes everybody's.
    return b.missing.fetch_sub(rows, order(B2, kAcqRel)) == rows


cdef inline void window_publish(Window* w, Batch* b, uint64_t k) noexcept nogil:
    # B3 release: pairs with B4; the batch's rows and its descriptor. Linearizes here.
    b.ready.store(k + 1, order(B3, kRelease))
    event_notify_all(&w.arrived)


cdef inline void window_done(Window* w, Batch* b, uint64_t k, int64_t rows) noexcept nogil:
    if window_less(b, rows):
        window_publish(w, b, k)


cdef inline bint window_ready(Window* w, uint64_t k) noexcept nogil:
    return window_batch(w, k).ready.load(order(B4, kAcquire)) == k + 1  # B4 acquire: pairs with B3


cdef inline void window_take(Window* w, uint64_t k) noexcept nogil:
    w.consumed.store(k + 1, order(B5, kRelease))  # B5 release: pairs with B1


cdef inline void window_finish(Window* w, uint64_t end) noexcept nogil:
    # B6 release: pairs with B7; the reason for the end was written before.
    w.end.store(end, order(B6, kRelease))
    event_notify_all(&w.arrived)


cdef inline bint window_ended(Window* w, uint64_t k) noexcept nogil:
    return k >= w.end.load(order(B7, kAcquire))  # B7 acquire: pairs with B6
