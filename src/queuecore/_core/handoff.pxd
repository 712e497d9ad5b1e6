# The hand-off in arrival order: what every queue is made of. It moves tokens (slot numbers); it knows nothing of elements.
#
# Each side has a *line*: operations that could not run at once, in the order of their arrival. Only the head of a line acts
# (TensorFlow's rule: strict order of arrival, and whoever waits for much holds up those behind). The head owns the side's *turn*; while
# nobody does, single operations go past the line without any lock.
#
# put_try, get_try: any thread, never wait. put_wait, get_wait, close_wait: any thread, wait a slice at a time; the caller comes again
# with the same operation until it is done, or leaves by put_leave, get_leave, close_leave. hand_cancel: any thread, never waits.
#   I1  tickets - returned = rows that count against the capacity. A ticket is taken before its row is pushed and returned when the row
#       is claimed. tickets - pushed = rows on their way: their threads are between two instructions, and wait for nothing.
#   I2  A side's turn has one owner: the head of the line, a single operation that took it in passing, or nobody while rows stand at the
#       front (`parked`). Only its owner touches the front rows, a gather, or pushes several rows as one.
#   I3  The turn of the getting side lies in the same word as what a pop changes (the ring's head, or under the bag's lock), that of the
#       putting side in the word that gives tickets out. So nobody acts past a turn that was taken before.
#   I4  The seal is the last entry of the store. What was pushed before it is delivered; nothing is pushed after it.
# Progress: put_try and get_try of a FIFO store are lock-free while no turn is owned; of a bag they hold its lock for a few
# instructions. Everything that waits is blocking.
# Sources: the wait lists of TensorFlow's queues (their behaviour); ring.pxd and parking.pxd name theirs.
from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc, realloc
from libc.string cimport memcpy
from queuecore._core.parking cimport (
    event_cancel, event_notify_all, event_prepare, event_wait, turn_give, turn_take)
from queuecore._core.platform cimport (
    Atomic, EventCount, Turn, alloc_lines, cpu_pause, futex_wait, futex_wake, kAcquire, kLine, kRelaxed, kRelease, kSeqCst,
    monotonic_ns)
from queuecore._core.random cimport Philox, philox_next
from queuecore._core.ring cimport (
    RING_EMPTY, RING_FULL, RING_OK, RING_SEALED, RING_TURN, FifoRing, fifo_free, fifo_init, fifo_pop, fifo_push, fifo_seal,
    fifo_turn_give, fifo_turn_take)

cdef enum:
    STORE_FIFO = 0
    STORE_RANDOM = 1
    STORE_PRIORITY = 2

# What an operation says.
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
    SPINS = 64          # pauses before parking: a little more than a hand-over between two running threads takes

ctypedef void* RingPtr

cdef extern from *:
    """
    namespace queuecore {
    struct Waiter {
      Waiter* next = nullptr;
      Waiter* prev = nullptr;
      Atomic<uint32_t> owner{0};  // 1: it is the head and owns the turn
      bool lined = false;
    };

    // One operation, on the stack of its thread.
    struct Op {
      Waiter w;
      uint32_t* tokens = nullptr;
      const int64_t* keys = nullptr;
      int64_t n = 0;
      int64_t done = 0;
      bool up_to = false;
      int64_t since = 0;  // when it began to wait; 0: not yet
    };

    struct alignas(kLine) Side {
      Turn lock;  // guards the line
      Waiter* first;
      Waiter* last;
      Atomic<int32_t> waiting;
      int32_t parked;      // the turn is taken, and nobody owns it: rows stand at the front
      EventCount changed;  // the owner parks here
      Atomic<int64_t> blocked_ns;
    };

    struct BagRow {
      int64_t key;
      uint64_t number;  // of arrival: equal keys keep their order
      uint32_t token;
    };

    struct Hand {
      alignas(kLine) Atomic<uint64_t> tickets;   // rows admitted, times two; bit 0: the putting side's turn
      alignas(kLine) Atomic<uint64_t> returned;
      alignas(kLine) Atomic<uint64_t> pushed;
      Atomic<uint64_t> undone;  // tickets that were given and not used; a statistic
      alignas(kLine) Atomic<uint32_t> closed;
      Atomic<uint32_t> cancelled;
      int64_t capacity;  // < 0: unbounded
      int32_t store;
      Side side[2];
      Atomic<int64_t> high_water;
      // Rows at the front, given back by gathers. The owner of the getting side's turn has them; the last one is the next.
      uint32_t* front;
      int64_t front_count, front_room;
      // FIFO: pushes go to the last ring, pops come from an earlier one until that is drained.
      alignas(kLine) Atomic<void*> head_ring;
      alignas(kLine) Atomic<void*> tail_ring;
      void* rings[24];
      int32_t ring_count;  // the owner of the putting side's turn
      int32_t head_index;  // the owner of the getting side's turn
      int64_t ring_rows;   // of the last one
      // Bags, under their lock
      Turn lock;
      BagRow* bag;
      int64_t count, room, least;  // least: rows that stay in while it is open
      uint64_t arrivals;
      int32_t sealed, get_turn;
    };
    }  // namespace queuecore
    """
    cppclass Waiter "queuecore::Waiter":
        Waiter* next
        Waiter* prev
        Atomic[uint32_t] owner
        bint lined

    cppclass Op "queuecore::Op":
        Waiter w
        uint32_t* tokens
        const int64_t* keys
        int64_t n
        int64_t done
        bint up_to
        int64_t since

    cppclass Side "queuecore::Side":
        Turn lock
        Waiter* first
        Waiter* last
        Atomic[int32_t] waiting
        int32_t parked
        EventCount changed
        Atomic[int64_t] blocked_ns

    cppclass BagRow "queuecore::BagRow":
        int64_t key
        uint64_t number
        uint32_t token

    cppclass Hand "queuecore::Hand":
        Atomic[uint64_t] tickets
        Atomic[uint64_t] returned
        Atomic[uint64_t] pushed
        Atomic[uint64_t] undone
        Atomic[uint32_t] closed
        Atomic[uint32_t] cancelled
        int64_t capacity
        int32_t store
        Side side[2]
        Atomic[int64_t] high_water
        uint32_t* front
        int64_t front_count
        int64_t front_room
        Atomic[RingPtr] head_ring
        Atomic[RingPtr] tail_ring
        void* rings[24]
        int32_t ring_count
        int32_t head_index
        int64_t ring_rows
        Turn lock
        BagRow* bag
        int64_t count
        int64_t room
        int64_t least
        uint64_t arrivals
        int32_t sealed
        int32_t get_turn


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


cdef inline int _bag_push(Hand* h, uint32_t token, int64_t key) noexcept nogil:
    cdef int rc = RING_OK
    turn_take(&h.lock)
    if h.sealed:
        rc = RING_SEALED
    elif h.count == h.room:
        rc = RING_FULL
    else:
        h.bag[h.count].token = token
        h.bag[h.count].key = key
        h.bag[h.count].number = h.arrivals
        h.arrivals += 1
        h.count += 1
        if h.store == STORE_PRIORITY:
            _heap_up(h.bag, h.count - 1)
    turn_give(&h.lock)
    return rc


cdef inline int _bag_pop(Hand* h, Philox* random, uint32_t* token, bint owner) noexcept nogil:
    cdef int rc = RING_OK
    cdef int64_t i = 0
    turn_take(&h.lock)
    if h.get_turn and not owner:
        rc = RING_TURN
    elif h.count <= (0 if h.sealed else h.least):
        rc = RING_SEALED if h.sealed else RING_EMPTY
    else:
        if h.store == STORE_RANDOM:  # TensorFlow's draw: the last one takes the place of the one that leaves
            i = philox_next(random) % <uint32_t>h.count
        token[0] = h.bag[i].token
        h.count -= 1
        h.bag[i] = h.bag[h.count]
        if h.store == STORE_PRIORITY and h.count > 1:
            _heap_down(h.bag, h.count)
    turn_give(&h.lock)
    return rc


cdef inline int _store_push(Hand* h, uint32_t token, int64_t key) noexcept nogil:
    if h.store != STORE_FIFO:
        return _bag_push(h, token, key)
    return fifo_push(<FifoRing*>h.tail_ring.load(kAcquire), token)  # H7 acquire: pairs with H6


cdef inline int _store_pop(Hand* h, Philox* random, uint32_t* token, bint owner) noexcept nogil:
    cdef FifoRing* ring
    cdef void* after
    cdef int rc
    if h.store != STORE_FIFO:
        return _bag_pop(h, random, token, owner)
    while True:
        ring = <FifoRing*>h.head_ring.load(kAcquire)  # H8 acquire: pairs with H9
        rc = fifo_pop(ring, token, owner)
        if rc != RING_SEALED or <void*>ring == h.tail_ring.load(kAcquire):  # H7 acquire: the next ring came before the seal
            return rc
        if not owner:
            return RING_TURN
        # The next ring's turn is taken before anybody can find it there. That of the drained one stays taken.
        h.head_index += 1
        after = h.rings[h.head_index]
        fifo_turn_take(<FifoRing*>after)
        h.head_ring.store(after, kRelease)  # H9 release: pairs with H8


cdef inline void _store_seal(Hand* h) noexcept nogil:
    cdef void* ring
    if h.store != STORE_FIFO:
        turn_take(&h.lock)
        h.sealed = 1
        turn_give(&h.lock)
        return
    while True:
        ring = h.tail_ring.load(kSeqCst)  # H11 seq_cst: Dekker pair with H10; either the grower sees `closed`, or this sees its ring
        fifo_seal(<FifoRing*>ring)
        if h.tail_ring.load(kSeqCst) == ring:
            return


cdef inline bint _store_grow(Hand* h) noexcept nogil:
    # By the owner of the putting side's turn, with no row on its way. False: no memory, or no token is left.
    cdef FifoRing* ring
    cdef void* old
    cdef BagRow* bag
    cdef BagRow* old_bag
    if h.store != STORE_FIFO:
        bag = <BagRow*>malloc(2 * h.room * sizeof(BagRow))
        if bag == NULL:
            return False
        turn_take(&h.lock)
        old_bag = h.bag
        memcpy(bag, old_bag, h.count * sizeof(BagRow))
        h.bag = bag
        h.room *= 2
        turn_give(&h.lock)
        free(old_bag)
        return True
    ring = <FifoRing*>alloc_lines(sizeof(FifoRing))
    if ring == NULL or h.ring_count == 24 or not fifo_init(ring, <uint32_t>(2 * h.ring_rows), 0):
        free(ring)
        return False
    old = h.rings[h.ring_count - 1]
    h.rings[h.ring_count] = ring
    h.ring_count += 1
    h.ring_rows *= 2
    h.tail_ring.store(ring, kSeqCst)  # H6 release: pairs with H7. H10 seq_cst: Dekker pair with H11
    fifo_seal(<FifoRing*>old)
    if h.closed.load(kSeqCst):
        fifo_seal(ring)
    return True


cdef inline bint _bag_return(Hand* h, const Op* op) noexcept nogil:
    # Rows that were taken go back, as if they came new. By the owner of the getting side's turn.
    cdef BagRow* more = NULL
    cdef BagRow* old
    cdef int64_t i, room = 0
    while True:
        turn_take(&h.lock)
        if h.count + op.done <= h.room:
            break
        if more != NULL and h.count + op.done <= room:
            memcpy(more, h.bag, h.count * sizeof(BagRow))
            old = h.bag
            h.bag = more
            h.room = room
            more = old
            break
        room = 2 * (h.count + op.done)
        turn_give(&h.lock)
        free(more)
        more = <BagRow*>malloc(room * sizeof(BagRow))
        if more == NULL:
            return False
    for i in range(op.done):
        h.bag[h.count].token = op.tokens[i]
        h.bag[h.count].key = 0 if op.keys == NULL else op.keys[i]
        h.bag[h.count].number = h.arrivals
        h.arrivals += 1
        h.count += 1
        if h.store == STORE_PRIORITY:
            _heap_up(h.bag, h.count - 1)
    turn_give(&h.lock)
    free(more)
    return True


# The turns and the lines

cdef inline bint _turn_take_side(Hand* h, int side) noexcept nogil:
    cdef uint64_t x
    cdef bint free_
    if side == SIDE_PUT:
        x = h.tickets.load(kRelaxed)  # relaxed: the CAS checks what was read
        while not x & 1:
            # H1 acquire: pairs with H2; the owner sees what the last one did
            if h.tickets.compare_exchange_weak(x, x | 1, kAcquire, kRelaxed):
                return True
        return False
    if h.store == STORE_FIFO:  # a ring that was left behind keeps its turn taken
        return fifo_turn_take(<FifoRing*>h.head_ring.load(kAcquire))
    turn_take(&h.lock)
    free_ = not h.get_turn
    h.get_turn = 1
    turn_give(&h.lock)
    return free_


cdef inline void _turn_give_side(Hand* h, int side) noexcept nogil:
    if side == SIDE_PUT:
        h.tickets.fetch_sub(1, kRelease)  # H2 release: pairs with H1 and H3
    elif h.store == STORE_FIFO:
        fifo_turn_give(<FifoRing*>h.head_ring.load(kRelaxed))  # relaxed: only the owner changes it
    else:
        turn_take(&h.lock)
        h.get_turn = 0
        turn_give(&h.lock)


cdef inline void _join(Hand* h, int which, Waiter* w) noexcept nogil:
    cdef Side* s = &h.side[which]
    turn_take(&s.lock)
    w.prev = s.last
    w.next = NULL
    if s.last != NULL:
        s.last.next = w
    else:
        s.first = w
    s.last = w
    w.lined = True
    s.waiting.fetch_add(1, kRelaxed)  # relaxed: a statistic
    if s.first == w and (s.parked or _turn_take_side(h, which)):
        s.parked = 0
        w.owner.store(1, kRelaxed)  # relaxed: only this thread reads it before somebody else writes
    turn_give(&s.lock)


cdef inline void _leave(Hand* h, int which, Op* op) noexcept nogil:
    cdef Side* s = &h.side[which]
    cdef Waiter* w = &op.w
    cdef void* wake = NULL
    if not w.lined:
        return
    turn_take(&s.lock)
    if w.prev != NULL:
        w.prev.next = w.next
    else:
        s.first = w.next
    if w.next != NULL:
        w.next.prev = w.prev
    else:
        s.last = w.prev
    w.lined = False
    s.waiting.fetch_sub(1, kRelaxed)
    if w.owner.load(kRelaxed):  # relaxed: written under this lock
        if s.first != NULL:
            s.first.owner.store(1, kRelease)  # H4 release: pairs with H5; the next owner sees what this one did
            wake = &s.first.owner
        elif which == SIDE_GET and h.front_count > 0:
            s.parked = 1
        else:
            _turn_give_side(h, which)
    turn_give(&s.lock)
    if wake != NULL:  # its thread may be gone by now: then nobody sleeps at that address
        futex_wake(wake, 1)
    if op.since != 0:
        s.blocked_ns.fetch_add(monotonic_ns() - op.since, kRelaxed)  # relaxed: a statistic


cdef inline bint _owns(Op* op, int64_t until) noexcept nogil:
    # Waits for the turn, up to `until`.
    while not op.w.owner.load(kAcquire):  # H5 acquire: pairs with H4
        if op.since == 0:
            op.since = monotonic_ns()
        if futex_wait(&op.w.owner, 0, until) != 0 and monotonic_ns() >= until:
            return op.w.owner.load(kAcquire) != 0
    return True


# Counting

cdef inline int64_t _used(uint64_t tickets, uint64_t returned) noexcept nogil:
    # Both count modulo 2^63. Negative: `tickets` is older than `returned`.
    return <int64_t>((tickets >> 1) - returned << 1) >> 1


cdef inline int64_t hand_size(Hand* h) noexcept nogil:
    # Rows in the queue; may be stale when it is read. The older number is read first, so it is never negative.
    cdef uint64_t returned = h.returned.load(kAcquire)  # H14 acquire: pairs with H15
    return _used(h.tickets.load(kAcquire), returned)


cdef inline void _note_depth(Hand* h, int64_t depth) noexcept nogil:
    cdef int64_t most = h.high_water.load(kRelaxed)  # relaxed: a statistic
    while depth > most:
        if h.high_water.compare_exchange_weak(most, depth, kRelaxed, kRelaxed):
            return


# Putting

cdef inline int _admit(Hand* h, uint32_t token, int64_t key) noexcept nogil:
    # Pushes a row that has its ticket.
    cdef int rc = _store_push(h, token, key)
    if rc != RING_OK:
        h.undone.fetch_add(1, kRelaxed)  # relaxed: a statistic
        h.returned.fetch_add(1, kRelease)
    h.pushed.fetch_add(1, kRelease)  # H12 release: pairs with H13
    if rc == RING_OK:
        event_notify_all(&h.side[SIDE_GET].changed)
    return rc


cdef inline int put_try(Hand* h, uint32_t token, int64_t key) noexcept nogil:
    cdef uint64_t x
    cdef int64_t used
    cdef int rc
    if h.closed.load(kAcquire):
        return HAND_CLOSED
    x = h.tickets.load(kRelaxed)  # relaxed: the CAS checks what was read
    while True:
        if x & 1:
            return HAND_BUSY
        used = _used(x, h.returned.load(kAcquire))  # H14 acquire: pairs with H15; the place is free
        if h.capacity >= 0 and used >= h.capacity:
            return HAND_BUSY
        # H3 acquire: pairs with H2; the ring that an owner put in place
        if h.tickets.compare_exchange_weak(x, x + 2, kAcquire, kRelaxed):
            break
    rc = _admit(h, token, key)
    if rc == RING_OK:
        _note_depth(h, used + 1)
        return HAND_DONE
    return HAND_CLOSED if rc == RING_SEALED else HAND_BUSY  # full: an unbounded queue must grow, by the owner of the turn


cdef inline void _quiet(Hand* h) noexcept nogil:
    # Until no row is on its way; their threads are between two instructions. By the owner of the turn: no new ticket is given.
    cdef int spins = 0
    cdef uint64_t pushed
    while True:
        pushed = h.pushed.load(kAcquire)  # H13 acquire: pairs with H12
        if _used(h.tickets.load(kRelaxed), pushed) == 0:  # relaxed: only the owner changes it now
            return
        spins += 1
        if spins < 1000:
            cpu_pause()
        else:  # such a thread was taken off its core: nobody wakes this one, it looks again each millisecond
            futex_wait(&h.pushed, <uint32_t>pushed, monotonic_ns() + 1000000)


cdef inline int _put_rows(Hand* h, Op* op) noexcept nogil:
    cdef int64_t used
    cdef int rc
    if op.n > 1:
        _quiet(h)
    while op.done < op.n:
        if h.closed.load(kAcquire):
            return HAND_CLOSED
        used = hand_size(h)
        if h.capacity >= 0 and used >= h.capacity:
            return HAND_BUSY
        h.tickets.fetch_add(2, kRelaxed)  # relaxed: the turn orders it
        rc = _admit(h, op.tokens[op.done], 0 if op.keys == NULL else op.keys[op.done])
        if rc == RING_OK:
            _note_depth(h, used + 1)
            op.done += 1
        elif rc == RING_SEALED:
            return HAND_CLOSED
        else:
            _quiet(h)
            if not _store_grow(h):
                return HAND_NO_MEMORY
    return HAND_DONE


cdef inline int _closed_how(Hand* h, Op* op) noexcept nogil:
    return HAND_CANCELLED if op.since != 0 and h.cancelled.load(kRelaxed) else HAND_CLOSED  # relaxed: before `closed`


cdef inline int put_wait(Hand* h, Op* op, int64_t until) noexcept nogil:
    # Puts op.n rows, in one piece as far as there is room. On HAND_SLICE: once more; on all else, put_leave.
    cdef EventCount* changed = &h.side[SIDE_PUT].changed
    cdef uint32_t epoch
    cdef int rc, _spin
    if not op.w.lined:
        _join(h, SIDE_PUT, &op.w)
    if not _owns(op, until):
        return HAND_SLICE
    while True:
        rc = _put_rows(h, op)
        for _spin in range(SPINS):  # ends with room, or when parking costs less
            if rc != HAND_BUSY:
                break
            cpu_pause()
            rc = _put_rows(h, op)
        if rc == HAND_BUSY:
            if op.since == 0:
                op.since = monotonic_ns()
            epoch = event_prepare(changed)
            rc = _put_rows(h, op)
            if rc != HAND_BUSY:
                event_cancel(changed, epoch)
            elif event_wait(changed, epoch, until) != 0 and monotonic_ns() >= until:
                return HAND_SLICE
            else:
                continue
        return _closed_how(h, op) if rc == HAND_CLOSED else rc


cdef inline void put_leave(Hand* h, Op* op) noexcept nogil:
    _leave(h, SIDE_PUT, op)


# Getting

cdef inline void _claimed(Hand* h) noexcept nogil:
    h.returned.fetch_add(1, kRelease)  # H15 release: pairs with H14
    event_notify_all(&h.side[SIDE_PUT].changed)


cdef inline int get_try(Hand* h, Philox* random, uint32_t* token) noexcept nogil:
    cdef int rc = _store_pop(h, random, token, False)
    if rc == RING_OK:
        _claimed(h)
        return HAND_DONE
    return HAND_CLOSED if rc == RING_SEALED else HAND_BUSY


cdef inline int64_t _bag_ready(Hand* h, bint* sealed) noexcept nogil:
    cdef int64_t n
    turn_take(&h.lock)
    n = h.count
    sealed[0] = h.sealed
    turn_give(&h.lock)
    return n


cdef inline int _get_rows(Hand* h, Philox* random, Op* op) noexcept nogil:
    cdef int rc
    cdef int64_t ready
    cdef bint sealed = False
    if h.store == STORE_PRIORITY and op.n > 1:  # all at once, so that they come sorted; nobody else takes any: the turn is this one's
        ready = _bag_ready(h, &sealed)
        if ready < op.n:
            if not sealed:
                return HAND_BUSY
            if not op.up_to or ready == 0:
                return HAND_CLOSED
            op.n = ready
    while op.done < op.n:
        if h.front_count > 0:
            h.front_count -= 1
            op.tokens[op.done] = h.front[h.front_count]
        else:
            rc = _store_pop(h, random, &op.tokens[op.done], True)
            if rc == RING_SEALED:
                return HAND_DONE if op.up_to and op.done > 0 else HAND_CLOSED
            if rc != RING_OK:
                return HAND_BUSY
        op.done += 1
        _claimed(h)
    return HAND_DONE


cdef inline int get_wait(Hand* h, Philox* random, Op* op, int64_t until) noexcept nogil:
    # Gathers op.n rows into op.tokens (op.up_to: fewer, of a closed queue). On HAND_SLICE: once more; on all else, get_leave.
    cdef EventCount* changed = &h.side[SIDE_GET].changed
    cdef uint32_t epoch
    cdef int rc, _spin
    if not op.w.lined:
        _join(h, SIDE_GET, &op.w)
    if not _owns(op, until):
        return HAND_SLICE
    while True:
        rc = _get_rows(h, random, op)
        for _spin in range(SPINS):  # ends with a row, or when parking costs less
            if rc != HAND_BUSY:
                return rc
            cpu_pause()
            rc = _get_rows(h, random, op)
        if op.since == 0:
            op.since = monotonic_ns()
        epoch = event_prepare(changed)
        rc = _get_rows(h, random, op)
        if rc != HAND_BUSY:
            event_cancel(changed, epoch)
            return rc
        if event_wait(changed, epoch, until) != 0 and monotonic_ns() >= until:
            return HAND_SLICE


cdef inline bint get_leave(Hand* h, Op* op, bint give_back) noexcept nogil:
    # give_back: rows that it has go to the front again, in their order (in a bag: back into it). False: there was no memory for that.
    cdef int64_t i
    cdef uint32_t* front
    cdef bint well = True
    if give_back and op.done > 0:
        if h.store == STORE_FIFO:
            if h.front_count + op.done > h.front_room:
                front = <uint32_t*>realloc(h.front, (h.front_count + op.done) * sizeof(uint32_t))
                if front != NULL:
                    h.front = front
                    h.front_room = h.front_count + op.done
                else:
                    well = False
            if well:
                for i in range(op.done):
                    h.front[h.front_count + i] = op.tokens[op.done - 1 - i]
                h.front_count += op.done
        else:
            well = _bag_return(h, op)
        if well:
            h.returned.fetch_sub(op.done, kRelease)
    _leave(h, SIDE_GET, op)
    return well


cdef inline bint get_rejoin(Hand* h, Op* op) noexcept nogil:
    # Puts rows back that were taken by an operation that has left already. Waits for the turn.
    _join(h, SIDE_GET, &op.w)
    while not _owns(op, -1):
        pass
    return get_leave(h, op, True)


# Closing

cdef inline void _close(Hand* h) noexcept nogil:
    h.closed.store(1, kSeqCst)  # H10 seq_cst: Dekker pair with H11, and before the seal, so that most puts need not find that
    _store_seal(h)
    event_notify_all(&h.side[SIDE_GET].changed)
    event_notify_all(&h.side[SIDE_PUT].changed)


cdef inline int close_wait(Hand* h, Op* op, int64_t until) noexcept nogil:
    # Closes behind the puts that are in line. On HAND_SLICE: once more; on all else, put_leave.
    if not op.w.lined:
        _join(h, SIDE_PUT, &op.w)
    if not _owns(op, until):
        return HAND_SLICE
    if h.closed.load(kAcquire):
        return _closed_how(h, op)
    _close(h)
    return HAND_DONE


cdef inline void hand_cancel(Hand* h) noexcept nogil:
    # Closes at once. Who is in line for putting finds out, one after the other.
    h.cancelled.store(1, kRelease)
    _close(h)


# Making and ending it

cdef enum:
    FIRST_ROWS = 1024  # of an unbounded store


cdef inline bint hand_init(Hand* h, int store, int64_t capacity, int64_t least, uint64_t start) noexcept nogil:
    # The hand must be zeroed before. Counters begin at `start`. False: no memory; hand_free follows in any case.
    cdef FifoRing* ring
    h.store = store
    h.capacity = capacity
    h.least = least
    h.tickets.store(start << 1, kRelaxed)  # relaxed: nobody else knows of it yet
    h.returned.store(start & (~<uint64_t>0 >> 1), kRelaxed)
    h.pushed.store(start & (~<uint64_t>0 >> 1), kRelaxed)
    if store != STORE_FIFO:
        h.room = capacity if capacity > 0 else FIRST_ROWS
        h.bag = <BagRow*>malloc(h.room * sizeof(BagRow))
        return h.bag != NULL
    h.ring_rows = capacity if capacity > 0 else FIRST_ROWS
    ring = <FifoRing*>alloc_lines(sizeof(FifoRing))
    if ring == NULL:
        return False
    h.rings[0] = ring
    h.ring_count = 1
    if not fifo_init(ring, <uint32_t>h.ring_rows, start):
        return False
    h.head_ring.store(ring, kRelaxed)
    h.tail_ring.store(ring, kRelaxed)
    return True


cdef inline void hand_free(Hand* h) noexcept nogil:
    cdef int32_t i
    for i in range(h.ring_count):
        fifo_free(<FifoRing*>h.rings[i])
        free(h.rings[i])
    free(h.bag)
    free(h.front)
