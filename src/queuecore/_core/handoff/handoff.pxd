# The hand-off in arrival order, on which every queue is built. It moves tokens (slot numbers); it knows nothing of
# elements.
#
# Each side has a *line*: operations that could not run at once, in the order of their arrival. Only the head of a line
# acts (TensorFlow's rule: strict order of arrival, and an operation that waits for many rows holds up those behind it).
# While a line is not empty it *owns* its side of the store; while no line owns it, single operations run without any
# lock. The thread that changes something acts for the operations in line (hand_settle): a waiting thread is woken when
# its operation is over, and not to find out whether it may begin.
#
# put_try, get_try: any thread, never wait; hand_settle follows, or, after HAND_BUSY, hand_wait. hand_wait: any thread,
# for a slice of time; the caller calls it again with the same operation until that is over, or leaves by hand_leave.
# hand_cancel: any thread, never waits.
#   I1  The store admits: a row enters it in one step, or not at all, and no thread holds a place in it that has no row.
#       Its rows and those at the front count against the capacity.
#   I2  A side is owned exactly while its line is not empty or rows stand at its front. Operations in line, front rows
#       and what belongs to an owned side are touched only with the side's lock held.
#   I3  That a side is owned is noted in the store: in the word of the ring's head or tail, or under the bag's lock. No
#       operation that begins later gets past it. At most one put that began earlier may still land, before the owner's
#       first row (ring.pxd, I7).
#   I4  The seal is the last entry of the store. Rows pushed before it are delivered; nothing is pushed after it.
#   I5  A thread that makes a change that an operation in line may wait for looks for lines afterwards; a thread that
#       joins a line looks for changes afterwards (a Dekker pair of fences, L5). A thread that finds a side's lock taken
#       leaves word (`dirty`), and the holder looks again after giving the lock back (L3).
# Progress: put_try and get_try of a FIFO store are lock-free while no line exists on their side, however many threads
# stop anywhere in them; of a bag they hold its lock for a few instructions. hand_settle never waits for a side's lock.
# Operations that wait are blocking. Sources: the wait lists of TensorFlow's queues (their behaviour); flat combining
# (Shavit and others, SPAA 2010), by which one thread acts for the others; ring.pxd and parking.pxd name theirs.
from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t
from queuecore._core.atoms.memory cimport free, malloc, realloc
from queuecore._core.atoms.parking cimport turn_give, turn_take, turn_try
from queuecore._core.atoms.platform cimport (
    Atomic, Turn, alloc_lines, cpu_pause, fence, futex_wait, futex_wake, kAcquire, kLine, kRelaxed, kRelease, kSeqCst,
    monotonic_ns, order, size_product)
from queuecore._core.atoms.random cimport Philox, philox_next
from queuecore._core.atoms.ring cimport (
    RING_EMPTY, RING_FULL, RING_OK, RING_SEALED, RING_OWNED, FifoRing, fifo_count, fifo_free, fifo_init, fifo_outside,
    fifo_pop, fifo_push, fifo_disown_pushes, fifo_own_pushes, fifo_seal, fifo_size, fifo_size_most, fifo_disown_pops,
    fifo_own_pops)

cdef enum:
    STORE_FIFO = 0
    STORE_RANDOM = 1
    STORE_PRIORITY = 2

# Results of operations.
cdef enum:
    HAND_DONE = 0
    HAND_BUSY = 1       # not now: full, empty, or others are in line
    HAND_CLOSED = 2     # put: the queue is closed. get: closed, and too few rows are left
    HAND_CANCELLED = 3  # put: closed with cancel_pending_enqueues while it waited
    HAND_SLICE = 4      # nothing yet, and the slice of time is over
    HAND_NO_MEMORY = 5

cdef enum:
    SIDE_PUT = 0
    SIDE_GET = 1
    SPINS = 64          # pauses before parking: a little longer than a hand-over between two running threads
    WAKES = 32          # threads woken after one hold of a lock

# Labels of edges, as in ring.pxd.
cdef enum:
    H1 = 39
    H2 = 40
    H3 = 41
    H4 = 42
    H5 = 43
    H6 = 44
    H7 = 45
    H8 = 46
    H9 = 47
    L1 = 48
    L2 = 49
    L3 = 50
    L4 = 51
    L5 = 52
    L6 = 53
    L7 = 54

ctypedef void* RingPtr

cdef extern from *:
    """
    namespace queuecore {
    // Rows at the front of a store, given back by an operation that gathered them.
    struct FrontRun {
      FrontRun* next;
      int64_t at, n;
      uint32_t tokens[1];
    };

    // One operation, on the stack of its thread.
    struct QueueOp {
      QueueOp* next = nullptr;
      QueueOp* prev = nullptr;
      Atomic<uint32_t> over{0};  // 1: `result` is set, and the operation's thread need not wait any more
      bool lined = false;        // under the side's lock
      bool joined = false;
      bool parked = false;       // counted among those that wait
      bool early = false;        // it joined the line while the queue was open
      bool up_to = false;
      bool closes = false;
      bool more = false;         // rows come in several pieces, and this isn't the last one
      int result = 0;
      uint32_t* tokens = nullptr;
      FrontRun* run = nullptr;   // the run that contains `tokens`
      const int64_t* keys = nullptr;
      int64_t n = 0;
      int64_t done = 0;
    };

    struct alignas(kLine) Side {
      Turn lock;
      QueueOp* first;
      QueueOp* last;
      bool owned;                        // the line owns the side
      Atomic<uint32_t> dirty;            // another thread found the lock taken
      alignas(kLine) Atomic<int32_t> waiting;  // operations in line
      Atomic<int32_t> parked;            // threads that wait; a statistic
      Atomic<int64_t> blocked_ns;
    };

    struct BagRow {
      int64_t key;
      uint64_t number;  // of arrival: equal keys keep their order
      uint32_t token;
    };

    struct Hand {
      alignas(kLine) Atomic<uint32_t> closed;
      Atomic<uint32_t> cancelled;
      int64_t capacity;  // < 0: unbounded
      int32_t store;
      Side side[2];
      alignas(kLine) Atomic<int64_t> high_water;
      FrontRun* front;     // under the getting side's lock
      Atomic<int64_t> front_rows;
      uint64_t start;      // where the indices of the first ring begin
      // FIFO: pushes go to the last ring, pops come from an earlier one until that is drained.
      alignas(kLine) Atomic<void*> head_ring;
      alignas(kLine) Atomic<void*> tail_ring;
      void* rings[24];
      int32_t ring_count;  // under the putting side's lock
      int32_t head_index;  // under the getting side's lock
      int64_t ring_rows;   // rows of the last ring
      // Bags, under their lock
      Turn lock;
      BagRow* bag;
      Atomic<int64_t> count;
      int64_t room, least;    // least: rows that stay in the queue while it is open
      uint64_t arrivals;
      Atomic<int64_t> puts;   // rows put, without those given back
      int32_t sealed, put_owned, get_owned;
    };
    }  // namespace queuecore
    """
    cppclass FrontRun "queuecore::FrontRun":
        FrontRun* next
        int64_t at
        int64_t n
        uint32_t tokens[1]

    cppclass QueueOp "queuecore::QueueOp":
        QueueOp* next
        QueueOp* prev
        Atomic[uint32_t] over
        bint lined
        bint joined
        bint parked
        bint early
        bint up_to
        bint closes
        bint more
        int result
        uint32_t* tokens
        FrontRun* run
        const int64_t* keys
        int64_t n
        int64_t done

    cppclass Side "queuecore::Side":
        Turn lock
        QueueOp* first
        QueueOp* last
        bint owned
        Atomic[uint32_t] dirty
        Atomic[int32_t] waiting
        Atomic[int32_t] parked
        Atomic[int64_t] blocked_ns

    cppclass BagRow "queuecore::BagRow":
        int64_t key
        uint64_t number
        uint32_t token

    cppclass Hand "queuecore::Hand":
        Atomic[uint32_t] closed
        Atomic[uint32_t] cancelled
        int64_t capacity
        int32_t store
        Side side[2]
        Atomic[int64_t] high_water
        FrontRun* front
        Atomic[int64_t] front_rows
        uint64_t start
        Atomic[RingPtr] head_ring
        Atomic[RingPtr] tail_ring
        void* rings[24]
        int32_t ring_count
        int32_t head_index
        int64_t ring_rows
        Turn lock
        BagRow* bag
        Atomic[int64_t] count
        int64_t room
        int64_t least
        uint64_t arrivals
        Atomic[int64_t] puts
        int32_t sealed
        int32_t put_owned
        int32_t get_owned


# The stores

cdef inline bint _before(const BagRow* a, const BagRow* b) noexcept nogil:
    return a.key < b.key or (a.key == b.key and a.number < b.number)


cdef inline void _heap_up(BagRow* bag, int64_t i) noexcept nogil:
    cdef BagRow row = bag[i]
    cdef int64_t above
    while i > 0:
        above = (i - 1) // 2
        if not _before(&row, &bag[above]):
            break
        bag[i] = bag[above]
        i = above
    bag[i] = row


cdef inline void _heap_down(BagRow* bag, int64_t n) noexcept nogil:
    cdef BagRow row = bag[0]
    cdef int64_t i = 0, below
    while True:
        below = 2 * i + 1
        if below >= n:
            break
        if below + 1 < n and _before(&bag[below + 1], &bag[below]):
            below += 1
        if not _before(&bag[below], &row):
            break
        bag[i] = bag[below]
        i = below
    bag[i] = row


cdef inline int64_t _bag_count(Hand* h) noexcept nogil:
    return h.count.load(kRelaxed)  # relaxed: written under the bag's lock; without the lock the number may be stale


cdef inline void _bag_put(Hand* h, uint32_t token, int64_t key) noexcept nogil:
    # The caller holds the bag's lock, and the bag has room.
    cdef int64_t count = _bag_count(h)
    h.bag[count].token = token
    h.bag[count].key = key
    h.bag[count].number = h.arrivals
    h.arrivals += 1
    h.count.store(count + 1, kRelaxed)  # relaxed: as above
    if h.store == STORE_PRIORITY:
        _heap_up(h.bag, count)


cdef inline int _bag_push(Hand* h, uint32_t token, int64_t key, bint owner) noexcept nogil:
    cdef int64_t count
    cdef int rc = RING_OK
    turn_take(&h.lock)
    count = _bag_count(h)
    if h.put_owned and not owner:
        rc = RING_OWNED
    elif h.sealed:
        rc = RING_SEALED
    elif count >= (h.room if h.capacity < 0 else h.capacity):
        rc = RING_FULL
    else:
        _bag_put(h, token, key)
        h.puts.store(h.puts.load(kRelaxed) + 1, kRelaxed)  # relaxed: a statistic, written under the lock
    turn_give(&h.lock)
    return rc


cdef inline uint32_t _bag_take(Hand* h, Philox* random) noexcept nogil:
    # The caller holds the bag's lock, and the bag has a row.
    cdef int64_t i = 0, count = _bag_count(h)
    cdef uint32_t token
    if h.store == STORE_RANDOM:  # TensorFlow's draw: the last row takes the place of the one drawn
        i = philox_next(random) % <uint32_t>count
    token = h.bag[i].token
    count -= 1
    h.bag[i] = h.bag[count]
    h.count.store(count, kRelaxed)  # relaxed: as in _bag_count
    if h.store == STORE_PRIORITY and count > 1:
        _heap_down(h.bag, count)
    return token


cdef inline int _bag_pop(Hand* h, Philox* random, uint32_t* token, bint owner) noexcept nogil:
    cdef int rc = RING_OK
    turn_take(&h.lock)
    if h.get_owned and not owner:
        rc = RING_OWNED
    elif _bag_count(h) <= (0 if h.sealed else h.least):
        rc = RING_SEALED if h.sealed else RING_EMPTY
    else:
        token[0] = _bag_take(h, random)
    turn_give(&h.lock)
    return rc


cdef inline int _store_push(Hand* h, uint32_t token, int64_t key, bint owner) noexcept nogil:
    cdef void* ring
    cdef int rc
    if h.store != STORE_FIFO:
        return _bag_push(h, token, key, owner)
    while True:
        ring = h.tail_ring.load(order(H1, kAcquire))  # H1 acquire: pairs with H6
        rc = fifo_push(<FifoRing*>ring, token, owner)
        # A ring that a grower has sealed, or whose pops it owns, is not the last ring any more. Relaxed: after a seal,
        # R3 has shown the new ring; if it is owned, the caller waits in line, where the new ring is seen.
        if (rc != RING_SEALED and rc != RING_OWNED) or h.tail_ring.load(kRelaxed) == ring:
            return rc


cdef inline int store_pop(Hand* h, Philox* random, uint32_t* token, bint owner) noexcept nogil:
    cdef FifoRing* ring
    cdef void* next_ring
    cdef int rc
    if h.store != STORE_FIFO:
        return _bag_pop(h, random, token, owner)
    while True:
        ring = <FifoRing*>h.head_ring.load(order(H2, kAcquire))  # H2 acquire: pairs with H4
        rc = fifo_pop(ring, token, owner)
        # H3 acquire: pairs with H6; a ring that a grower has sealed is not the last ring any more. If a close came in
        # between, the seal is not the grower's, and only this load shows the next ring.
        if rc != RING_SEALED or <void*>ring == h.tail_ring.load(order(H3, kAcquire)):
            return rc
        if not owner:
            return RING_OWNED
        # The next ring's pops are owned before any thread can find that ring. The drained ring's stay owned.
        h.head_index += 1
        next_ring = h.rings[h.head_index]
        fifo_own_pops(<FifoRing*>next_ring)
        h.head_ring.store(next_ring, order(H4, kRelease))  # H4 release: pairs with H2


cdef inline void _store_seal(Hand* h) noexcept nogil:
    cdef void* ring
    if h.store != STORE_FIFO:
        turn_take(&h.lock)
        h.sealed = 1
        turn_give(&h.lock)
        return
    # A grower seals the same ring, after it has put the next one in place and before it looks at `closed`. The second
    # of the two threads finds the seal, and sees what the first did before it (R6, R3): the grower sees `closed`, or
    # this thread sees the next ring.
    while True:
        ring = h.tail_ring.load(order(H5, kAcquire))  # H5 acquire: pairs with H6
        fifo_seal(<FifoRing*>ring)
        if h.tail_ring.load(order(H5, kAcquire)) == ring:  # H5, as above
            return


cdef inline bint _bag_room(Hand* h, int64_t room) noexcept nogil:
    # The caller holds the bag's lock, also around the allocation: both sides make room, rarely, and neither may start
    # from a stale number.
    cdef BagRow* bag = <BagRow*>realloc(h.bag, size_product(room, sizeof(BagRow)))
    if bag == NULL:
        return False
    h.bag = bag
    h.room = room
    return True


cdef inline bint _store_grow(Hand* h) noexcept nogil:
    # The caller holds the putting side's lock and owns the side. Growing is rare, so it may allocate there. False: no
    # memory.
    cdef FifoRing* ring
    cdef void* old
    cdef bint grown
    if h.store != STORE_FIFO:
        turn_take(&h.lock)
        grown = _bag_room(h, 2 * h.room)
        turn_give(&h.lock)
        return grown
    ring = <FifoRing*>alloc_lines(sizeof(FifoRing))
    if ring == NULL or h.ring_count == 24 or not fifo_init(ring, <uint32_t>(2 * h.ring_rows), 0):
        free(ring)
        return False
    # As in store_pop. A put that is on its way lands in the old ring, or finds its seal.
    fifo_own_pushes(ring)
    old = h.rings[h.ring_count - 1]
    h.rings[h.ring_count] = ring
    h.ring_count += 1
    h.ring_rows *= 2
    h.tail_ring.store(ring, order(H6, kRelease))  # H6 release: pairs with H1, H3 and H5
    fifo_seal(<FifoRing*>old)
    if h.closed.load(order(H7, kAcquire)):  # H7 acquire: pairs with H9; _store_seal says why it comes after the seal
        fifo_seal(ring)
    return True


cdef inline bint _bag_return(Hand* h, const QueueOp* op) noexcept nogil:
    # Puts taken rows back into the bag, as if they were new. The bag may then hold more than its capacity. False: no
    # memory.
    cdef int64_t i, count
    turn_take(&h.lock)
    count = _bag_count(h)
    if count + op.done > h.room and not _bag_room(h, count + op.done):
        turn_give(&h.lock)
        return False
    for i in range(op.done - 1, -1, -1):  # TensorFlow's order: the row taken last goes back first
        _bag_put(h, op.tokens[i], 0 if op.keys == NULL else op.keys[i])
    turn_give(&h.lock)
    return True


# Counting

cdef inline int64_t hand_size(Hand* h) noexcept nogil:
    # Returns the number of rows in the queue, which may be stale when it is read.
    cdef void* first
    cdef void* last
    cdef int64_t size
    cdef bint counts = False
    cdef int i
    if h.store != STORE_FIFO:
        return _bag_count(h)
    # H2, as in store_pop; loaded first, so that it is never a later ring than `last`
    first = h.head_ring.load(order(H2, kAcquire))
    last = h.tail_ring.load(order(H1, kAcquire))  # H1, as in _store_push
    size = h.front_rows.load(kRelaxed)  # relaxed: as stale as the rest
    for i in range(24):
        counts = counts or h.rings[i] == first
        if counts:
            size += fifo_size(<FifoRing*>h.rings[i])
        if h.rings[i] == last:
            break
    return size


cdef inline int64_t hand_puts(Hand* h) noexcept nogil:
    # Returns the number of rows that were put, which may be stale when it is read.
    cdef void* last
    cdef int64_t count = 0
    cdef int i
    if h.store != STORE_FIFO:
        return h.puts.load(kRelaxed)  # relaxed: a statistic
    last = h.tail_ring.load(order(H1, kAcquire))  # H1, as in _store_push
    for i in range(24):
        count += fifo_count(<FifoRing*>h.rings[i], h.start if i == 0 else 0)
        if h.rings[i] == last:
            break
    return count


cdef inline void _raise_high_water(Hand* h) noexcept nogil:
    # Relaxed, nearly all of it: a statistic.
    cdef int64_t most = h.high_water.load(kRelaxed), depth = hand_size(h)
    if 0 <= h.capacity < depth:  # rows came back
        depth = h.capacity
    while depth > most:
        if h.high_water.compare_exchange_weak(most, depth, kRelaxed, kRelaxed):
            return


cdef inline void _note_depth(Hand* h) noexcept nogil:
    # After a put. Relaxed: a statistic.
    cdef int64_t most = h.high_water.load(kRelaxed)
    cdef FifoRing* ring
    if h.store == STORE_FIFO and h.front_rows.load(kRelaxed) == 0:
        ring = <FifoRing*>h.tail_ring.load(order(H1, kAcquire))  # H1, as in _store_push
        if h.head_ring.load(kRelaxed) == <void*>ring and (fifo_size_most(ring) <= most or fifo_size(ring) <= most):
            return
    _raise_high_water(h)


# One row

cdef inline int put_try(Hand* h, uint32_t token, int64_t key) noexcept nogil:
    cdef int rc
    if h.closed.load(order(H8, kAcquire)):  # H8 acquire: pairs with H9; `cancelled` came before it
        return HAND_CLOSED
    rc = _store_push(h, token, key, False)
    if rc == RING_OK:
        _note_depth(h)
        return HAND_DONE
    return HAND_CLOSED if rc == RING_SEALED else HAND_BUSY  # full: an unbounded queue must grow, by its owner


cdef inline int get_try(Hand* h, Philox* random, uint32_t* token) noexcept nogil:
    cdef int rc = store_pop(h, random, token, False)
    if rc == RING_OK:
        return HAND_DONE
    return HAND_CLOSED if rc == RING_SEALED else HAND_BUSY


# Operations in line, with the lock of their side, which they own

cdef inline bint _side_own(Hand* h, int side) noexcept nogil:
    if h.store == STORE_FIFO:
        # Relaxed, both: written under the side's lock.
        return (fifo_own_pushes(<FifoRing*>h.tail_ring.load(kRelaxed)) if side == SIDE_PUT
                else fifo_own_pops(<FifoRing*>h.head_ring.load(kRelaxed)))
    turn_take(&h.lock)
    if side == SIDE_PUT:
        h.put_owned = 1
    else:
        h.get_owned = 1
    turn_give(&h.lock)
    return True


cdef inline void _side_disown(Hand* h, int side) noexcept nogil:
    if h.store == STORE_FIFO:
        # Relaxed, both: as above.
        if side == SIDE_PUT:
            fifo_disown_pushes(<FifoRing*>h.tail_ring.load(kRelaxed))
        else:
            fifo_disown_pops(<FifoRing*>h.head_ring.load(kRelaxed))
        return
    turn_take(&h.lock)
    if side == SIDE_PUT:
        h.put_owned = 0
    else:
        h.get_owned = 0
    turn_give(&h.lock)


cdef inline void _mark_closed(Hand* h) noexcept nogil:
    # H9 release: pairs with H8 and H7. Before the seal, so that most puts need not find that
    h.closed.store(1, order(H9, kRelease))
    _store_seal(h)


cdef inline int _run_put(Hand* h, QueueOp* op, bint* has_moved) noexcept nogil:
    # The rows of one operation follow each other in a FIFO: no other thread pushes between them (I3).
    cdef int rc, result = HAND_DONE
    cdef int64_t done = op.done
    if h.closed.load(order(H8, kAcquire)):  # H8 acquire: pairs with H9; `cancelled` came before it
        return HAND_CANCELLED if op.early and h.cancelled.load(kRelaxed) else HAND_CLOSED  # relaxed: before `closed`
    if op.closes:
        _mark_closed(h)
        has_moved[0] = True
        return HAND_DONE
    while op.done < op.n:
        rc = _store_push(h, op.tokens[op.done], 0 if op.keys == NULL else op.keys[op.done], True)
        if rc == RING_OK:
            op.done += 1
            continue
        if rc == RING_SEALED:
            result = HAND_CANCELLED if op.early and h.cancelled.load(kRelaxed) else HAND_CLOSED
            break
        if h.capacity >= 0:
            result = HAND_BUSY
            break
        if not _store_grow(h):
            result = HAND_NO_MEMORY
            break
    if op.done > done:
        _note_depth(h)
        has_moved[0] = True
    return result


cdef inline void _front_count(Hand* h, int64_t n) noexcept nogil:
    h.front_rows.fetch_add(n, kRelaxed)  # relaxed: a statistic
    if h.capacity >= 0:
        fifo_outside(<FifoRing*>h.rings[0], n)  # the only one


cdef inline void _give_back(Hand* h, QueueOp* op) noexcept nogil:
    # Gives the rows of a gather back: to the front, in their order; of a bag, into the bag.
    if op.done == 0:
        return
    if h.store == STORE_FIFO:
        op.run.at = 0
        op.run.n = op.done
        op.run.next = h.front
        h.front = op.run
        _front_count(h, op.done)
        op.run = NULL
    elif not _bag_return(h, op):
        return  # no memory: the rows stay with the operation, whose thread reports it
    op.done = 0


cdef inline int _run_get(Hand* h, Philox* random, QueueOp* op, bint* has_moved) noexcept nogil:
    cdef FrontRun* run
    cdef int64_t count, gathered = op.done
    cdef int rc
    cdef bint sealed
    if h.store != STORE_FIFO and op.n > 1:
        turn_take(&h.lock)
        count = _bag_count(h)
        sealed = h.sealed
        # takes all under one hold, so that no row comes between them: they come out sorted
        if h.store == STORE_PRIORITY and count >= op.n:
            while op.done < op.n:
                op.tokens[op.done] = _bag_take(h, random)
                op.done += 1
        turn_give(&h.lock)
        if op.done == op.n:
            has_moved[0] = True
            return HAND_DONE
        if count < op.n - op.done:  # no other thread takes rows meanwhile, and a sealed bag gets no more
            if sealed:
                # Follows TensorFlow, because this decides a shuffle's order: the gathered rows go back, and the rows
                # left are drawn anew.
                _give_back(h, op)
                count += gathered
                if op.done > 0 or not op.up_to or count == 0:
                    return HAND_CLOSED
                op.n = count
            elif h.store == STORE_PRIORITY:
                return HAND_BUSY
    while op.done < op.n:
        run = h.front
        if run != NULL:
            op.tokens[op.done] = run.tokens[run.at]
            run.at += 1
            _front_count(h, -1)
            if run.at == run.n:
                h.front = run.next
                free(run)
        else:
            rc = store_pop(h, random, &op.tokens[op.done], True)
            if rc == RING_SEALED:
                return HAND_DONE if op.up_to and op.done > 0 else HAND_CLOSED
            if rc != RING_OK:
                return HAND_BUSY
        op.done += 1
        has_moved[0] = True
    return HAND_DONE


cdef inline void _unlink(Side* s, QueueOp* op) noexcept nogil:
    if op.prev != NULL:
        op.prev.next = op.next
    else:
        s.first = op.next
    if op.next != NULL:
        op.next.prev = op.prev
    else:
        s.last = op.prev
    op.lined = False
    s.waiting.fetch_sub(1, kRelaxed)  # relaxed: a count that is too high only makes others look


cdef inline int _run_line(Hand* h, int side, Philox* random, void** wakes, bint* has_moved) noexcept nogil:
    # Lets the heads of a line act, one after the other. Returns the number of operations that ended and whose threads
    # may sleep.
    cdef Side* s = &h.side[side]
    cdef QueueOp* op
    cdef int rc, n = 0
    if s.first != NULL and not s.owned:
        s.owned = _side_own(h, side)
    while s.first != NULL and n < WAKES:
        op = s.first
        if op.over.load(order(L1, kAcquire)):  # L1 acquire: pairs with L7; the operation waits for its next piece
            break
        rc = _run_put(h, op, has_moved) if side == SIDE_PUT else _run_get(h, random, op, has_moved)
        if rc == HAND_BUSY:
            break
        if side == SIDE_GET and rc == HAND_CLOSED:
            _give_back(h, op)
        op.result = rc
        wakes[n] = &op.over
        n += 1
        if rc == HAND_DONE and op.more:
            op.over.store(1, order(L2, kRelease))  # L2, as below
            break
        _unlink(s, op)
        op.over.store(1, order(L2, kRelease))  # L2 release: pairs with L6; the result, and the rows gathered
        has_moved[0] = True
    if s.first == NULL and s.owned and not (side == SIDE_GET and h.front != NULL):
        _side_disown(h, side)
        s.owned = False
    elif n == WAKES:
        s.dirty.store(1, kRelaxed)  # relaxed: this thread sets it for itself, so that _flush runs the line again
    return n


cdef inline bint _flush(Hand* h, int side, Philox* random) noexcept nogil:
    # Returns whether anything moved.
    cdef Side* s = &h.side[side]
    cdef void* wakes[WAKES]
    cdef bint has_moved = False
    cdef int i, n
    while True:
        # L3 seq_cst fence: pairs with itself. It comes after `dirty` and before the try of the lock, and after giving
        # the lock back and before the look at `dirty`. So either the lock is free, or its holder sees `dirty` after
        # giving it back.
        fence(order(L3, kSeqCst))
        if not s.dirty.load(kRelaxed) or not turn_try(&s.lock):
            return has_moved
        s.dirty.store(0, kRelaxed)  # relaxed: L4 orders it
        # L4 seq_cst fence: pairs with L5. It comes between clearing `dirty` and looking for changes: either a change is
        # seen, or the `dirty` that tells of it comes later and stays.
        fence(order(L4, kSeqCst))
        n = _run_line(h, side, random, wakes, &has_moved)
        turn_give(&s.lock)
        for i in range(n):  # the operation's thread may be gone by now: then no thread sleeps at that address
            futex_wake(wakes[i], 1)
        # Looks once more for changes made while the lock was held.


cdef inline void hand_settle(Hand* h, Philox* random) noexcept nogil:
    # Called after a change: lets the operations in line act, on both sides, until nothing moves any more.
    cdef bint has_moved = True
    while has_moved:
        has_moved = False
        # L5 seq_cst fence: pairs with itself and L4: first the change, then the look for lines; or first joining the
        # line, then the look for changes.
        fence(order(L5, kSeqCst))
        if h.side[SIDE_GET].waiting.load(kRelaxed):
            h.side[SIDE_GET].dirty.store(1, kRelaxed)  # relaxed: L3 follows
            has_moved = _flush(h, SIDE_GET, random)
        if h.side[SIDE_PUT].waiting.load(kRelaxed):
            h.side[SIDE_PUT].dirty.store(1, kRelaxed)  # relaxed: L3 follows
            has_moved = _flush(h, SIDE_PUT, random) or has_moved


cdef inline bint hand_unsettled(Hand* h) noexcept nogil:
    fence(order(L5, kSeqCst))  # L5
    return h.side[SIDE_GET].waiting.load(kRelaxed) != 0 or h.side[SIDE_PUT].waiting.load(kRelaxed) != 0


# Waiting

cdef inline void _unpark(Side* s, QueueOp* op) noexcept nogil:
    if op.parked:
        op.parked = False
        s.parked.fetch_sub(1, kRelaxed)


cdef inline int hand_wait(Hand* h, int which, Philox* random, QueueOp* op, int64_t until) noexcept nogil:
    # Joins the line, and waits until the operation is over, or until the time `until` (HAND_SLICE).
    cdef Side* s = &h.side[which]
    cdef int64_t since
    cdef int _spin
    if not op.joined:
        op.joined = True
        turn_take(&s.lock)
        op.prev = s.last
        if s.last != NULL:
            s.last.next = op
        else:
            s.first = op
        s.last = op
        op.lined = True
        op.early = not h.closed.load(order(H8, kAcquire))  # H8 acquire: pairs with H9
        s.waiting.fetch_add(1, kRelaxed)  # relaxed: L5 follows, in hand_settle
        turn_give(&s.lock)
        hand_settle(h, random)
    for _spin in range(SPINS):  # ends with the operation, or when parking is cheaper
        if op.over.load(order(L6, kAcquire)):  # L6 acquire: pairs with L2
            _unpark(s, op)
            return op.result
        cpu_pause()
    if not op.parked:
        op.parked = True
        s.parked.fetch_add(1, kRelaxed)  # relaxed: a statistic
    since = monotonic_ns()
    while not op.over.load(order(L6, kAcquire)):  # L6
        if futex_wait(&op.over, 0, until) != 0 and monotonic_ns() >= until:
            break
    s.blocked_ns.fetch_add(monotonic_ns() - since, kRelaxed)  # relaxed: a statistic
    if not op.over.load(order(L6, kAcquire)):  # L6
        return HAND_SLICE
    _unpark(s, op)
    return op.result


cdef inline void hand_refill(Hand* h, Philox* random, QueueOp* op, int64_t n, bint more) noexcept nogil:
    # Gives the next piece to an operation that stays at the head of the putting line.
    op.n = n
    op.done = 0
    op.more = more
    op.over.store(0, order(L7, kRelease))  # L7 release: pairs with L1
    hand_settle(h, random)


cdef inline int hand_leave(Hand* h, int side, Philox* random, QueueOp* op) noexcept nogil:
    # Leaves the line, also if the operation is not over. Rows that it had gathered and not delivered go back to the
    # queue. Returns the result if the operation was over by then, otherwise HAND_SLICE.
    cdef Side* s = &h.side[side]
    cdef int rc = HAND_SLICE
    _unpark(s, op)
    if not op.joined:
        return rc
    if op.over.load(order(L6, kAcquire)) and not op.lined:  # L6; written before L2
        return op.result
    turn_take(&s.lock)
    if not op.lined:
        rc = op.result
    else:
        _unlink(s, op)
        if side == SIDE_GET:
            _give_back(h, op)
    if s.first == NULL and s.owned and not (side == SIDE_GET and h.front != NULL):
        _side_disown(h, side)
        s.owned = False
    turn_give(&s.lock)
    # relaxed: L3 follows. For threads that found the lock taken, and operations behind this one
    h.side[side].dirty.store(1, kRelaxed)
    _flush(h, side, random)
    hand_settle(h, random)
    return rc


cdef inline void hand_return(Hand* h, Philox* random, QueueOp* op) noexcept nogil:
    # Gives back the rows of a getting operation that is over.
    cdef Side* s = &h.side[SIDE_GET]
    turn_take(&s.lock)
    if not s.owned:
        s.owned = _side_own(h, SIDE_GET)
    _give_back(h, op)
    if s.first == NULL and h.front == NULL:
        _side_disown(h, SIDE_GET)
        s.owned = False
    turn_give(&s.lock)
    s.dirty.store(1, kRelaxed)  # relaxed: L3 follows
    _flush(h, SIDE_GET, random)
    hand_settle(h, random)


cdef inline void hand_cancel(Hand* h, Philox* random) noexcept nogil:
    # Closes at once, and ends the puts in line.
    h.cancelled.store(1, kRelaxed)  # relaxed: published by H9
    _mark_closed(h)
    hand_settle(h, random)


# Making and ending it

cdef enum:
    FIRST_ROWS = 1024  # of an unbounded store


cdef inline bint hand_init(Hand* h, int store, int64_t capacity, int64_t least, uint64_t start) noexcept nogil:
    # The hand must be zeroed before. Counters begin at `start`. False: no memory; hand_free follows in any case.
    cdef FifoRing* ring
    h.store = store
    h.capacity = capacity
    h.least = least
    h.start = start
    if store != STORE_FIFO:
        h.room = capacity if capacity > 0 else FIRST_ROWS
        h.bag = <BagRow*>malloc(size_product(h.room, sizeof(BagRow)))
        return h.bag != NULL
    h.ring_rows = capacity if capacity > 0 else FIRST_ROWS
    ring = <FifoRing*>alloc_lines(sizeof(FifoRing))
    if ring == NULL:
        return False
    h.rings[0] = ring
    h.ring_count = 1
    if not fifo_init(ring, <uint32_t>h.ring_rows, start):
        return False
    h.head_ring.store(ring, kRelaxed)  # relaxed, both: nobody else knows of it yet
    h.tail_ring.store(ring, kRelaxed)
    return True


cdef inline void hand_free(Hand* h) noexcept nogil:
    cdef FrontRun* run
    cdef int32_t i
    for i in range(h.ring_count):
        fifo_free(<FifoRing*>h.rings[i])
        free(h.rings[i])
    free(h.bag)
    while h.front != NULL:
        run = h.front
        h.front = run.next
        free(run)
