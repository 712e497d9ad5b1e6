"""The rings, parking, slab and window under the seeded scheduler (schedule.hpp); only for tests.

The same .pxd files as everywhere, compiled with atomics whose memory is weak. A scenario is a function that a few
fibres run, with checks of what must never be seen. ``explore`` runs it under many schedules, with the order of some
edges weakened if asked to.
"""
from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcmp, memset
from queuecore._core.handoff cimport (
    H1, H10, H11, H14, H15, H16, H2, H3, H4, H5, H6, H7, H8, H9, HAND_BUSY, HAND_CANCELLED, HAND_CLOSED,
    HAND_DONE, HAND_SLICE, L1, L3, L4, L5, L6, L7, L8, SIDE_GET, SIDE_PUT, STORE_FIFO, STORE_PRIORITY, STORE_RANDOM,
    BagRow, FrontRun, Hand, Op, _store_pop, _used, get_try, hand_cancel, hand_free, hand_init, hand_leave, hand_refill, hand_return,
    hand_settle, hand_size, hand_unsettled, hand_wait, put_try)
from queuecore._core.parking cimport (
    N1, N2, P1, P3, T1, T2, T3, event_cancel, event_notify, event_prepare, event_wait, turn_give,
    turn_take)
from queuecore._core.platform cimport (
    Atomic, EventCount, FastRing, Fault, FifoRing, MemoryOrder, Plain, SlotStack, SpscRing, StopFlag, Turn, Window, alloc_lines,
    cpu_pause, kAcqRel, kRelaxed, monotonic_ns)
from queuecore._core.pool cimport Q1, Q2, SlotPool, pool_free, pool_grow, pool_init, pool_pop, pool_push
from queuecore._core.random cimport Philox, philox_seed
from queuecore._core.ring cimport (
    R1, R10, R11, R12, R2, R3, R4, R5, R6, R7, R8, R9, RING_EMPTY, RING_FULL, RING_OK, RING_SEALED, V1, V2,
    V3, V4, W1, W2, W3, W4, fast_free, fast_init, fast_pop, fast_pop_many, fast_push, fast_push_many, fifo_free,
    fifo_init, fifo_pop, fifo_pop_many, fifo_push, fifo_seal, fifo_turn_give, fifo_turn_take, spsc_free, spsc_init,
    spsc_pop_many, spsc_push_many)
from queuecore._core.runtime cimport F1, F2, F3, F4, stop_fault, stop_requested, stop_set
from queuecore._core.slab cimport S1, S2, slots_pop, slots_push
from queuecore._core.window cimport (
    B1, B2, B3, B4, B5, B6, B7, window_batch, window_done, window_ended, window_finish, window_free, window_has_room,
    window_init, window_open, window_ready, window_take)

cdef extern from "malloc.h" nogil:
    size_t malloc_usable_size(void*) noexcept

cdef extern from "queuecore/schedule.hpp" namespace "queuecore::schedule" nogil:
    int _run "queuecore::schedule::run"(uint64_t seed, int fibres, void (*entry)(void*, int) noexcept, void* context,
                                        uint64_t most) noexcept
    void wrong(int what) noexcept
    int what() noexcept
    void arm(bint on) noexcept
    const int kMembarrier
    void mutate(int edge, MemoryOrder weakened) noexcept
    void suspend(int fibre, uint64_t at) noexcept
    bint suspended() noexcept
    bint suspended_before(int edge) noexcept
    uint64_t random(uint64_t below) noexcept

EDGES = {
    "R1": R1, "R2": R2, "R3": R3, "R4": R4, "R5": R5, "R6": R6, "R7": R7, "R8": R8, "R9": R9, "R10": R10, "R11": R11,
    "R12": R12, "V1": V1, "V2": V2, "V3": V3, "V4": V4, "W1": W1, "W2": W2, "W3": W3, "W4": W4, "P1": P1, "P3": P3,
    "N1": N1, "N2": N2, "T1": T1, "T2": T2, "T3": T3, "S1": S1, "S2": S2, "B1": B1, "B2": B2, "B3": B3, "B4": B4,
    "B5": B5, "B6": B6, "B7": B7, "F1": F1, "F2": F2, "F3": F3, "F4": F4, "Q1": Q1, "Q2": Q2, "H1": H1, "H2": H2, "H3": H3, "H4": H4, "H5": H5, "H6": H6, "H7": H7, "H8": H8, "H9": H9,
    "H10": H10, "H11": H11, "H14": H14, "H15": H15, "H16": H16, "L1": L1, "L3": L3, "L4": L4, "L5": L5, "L6": L6,
    "L7": L7, "L8": L8, "membarrier": kMembarrier}

ANSWERS = {RING_OK: "ok", RING_EMPTY: "empty", RING_FULL: "full", RING_SEALED: "sealed"}
VERDICTS = ("fine", "wrong", "race", "all asleep", "endless")

cdef enum:
    MOST_ROWS = 64

cdef struct Call:
    int what
    int answer
    uint32_t token
    uint32_t[2] tokens
    int64_t begin
    int64_t end

# All that the scenarios share. What is not Plain or atomic belongs to one fibre, or is the test's own book-keeping,
# which the fibres, being one thread, may share.
cdef struct Trial:
    FifoRing* a
    FifoRing* b
    FastRing* fast
    SpscRing* spsc
    EventCount* filled
    EventCount* drained
    Turn* turn
    SlotStack* slots
    SlotPool* pool
    StopFlag* stops
    Window* window
    Plain[int64_t]* rows
    int32_t kind
    int64_t pushed, popped, calls, good, want
    int64_t[MOST_ROWS] seen
    int64_t[8] answer
    Call[9] calls_made
    int64_t now

ctypedef void (*Scenario)(void*, int) noexcept nogil


cdef void _took(Trial* t, int64_t* last, uint32_t token) noexcept nogil:
    # A consumer looks at what a token names. Tokens are 8 * producer + number, their rows hold the token + 1.
    if t.rows[token].get() != <int64_t>token + 1:
        wrong(1)
    if t.seen[token]:
        wrong(2)
    t.seen[token] += 1
    if last[token // 8] >= <int64_t>token:
        wrong(3)
    last[token // 8] = token
    t.popped += 1


cdef void _flow(void* context, int me) noexcept nogil:
    # Two push, two pop, one by one or several at a time; the ring is small.
    cdef Trial* t = <Trial*>context
    cdef uint32_t token
    cdef uint32_t[4] tokens
    cdef int64_t[8] last
    cdef int i, rc
    if me < 2:
        for i in range(4):
            token = 8 * me + i
            t.rows[token].set(token + 1)
            while fifo_push(t.a, token) != RING_OK:
                cpu_pause()
        return
    for i in range(8):
        last[i] = -1
    while t.popped < 8:
        rc = fifo_pop_many(t.a, tokens, 1 + 2 * (me - 2), False)
        if rc <= 0:
            cpu_pause()
        for i in range(rc):
            _took(t, last, tokens[i])


cdef void _history(void* context, int me) noexcept nogil:
    # Each makes three calls at random, and writes down when each began and ended and what it gave.
    cdef Trial* t = <Trial*>context
    cdef Call* call
    cdef int i
    for i in range(3):
        call = &t.calls_made[3 * me + i]
        call.what = <int>random(8)
        call.token = 8 * me + i
        call.begin = t.now
        t.now += 1
        if call.what < 4:
            call.answer = fifo_push(t.a, call.token)
        elif call.what < 6:
            call.answer = fifo_pop(t.a, call.tokens, False)
        elif call.what == 6:
            call.answer = fifo_pop_many(t.a, call.tokens, 2, False)
        else:
            call.answer = fifo_seal(t.a)
        call.end = t.now
        t.now += 1


cdef void _own(void* context, int me) noexcept nogil:
    # Each pushes, then pops. There is room for one token of each, so no push finds the ring full; and nobody has popped
    # more than it has pushed, so no pop finds it empty.
    cdef Trial* t = <Trial*>context
    cdef uint32_t token = 0
    cdef int32_t _i
    for _i in range(3):
        if fifo_push(t.a, <uint32_t>me) != RING_OK:
            wrong(1)
        if fifo_pop(t.a, &token, False) != RING_OK:
            wrong(2)


cdef void _both_empty(void* context, int me) noexcept nogil:
    # Each pushes into one ring and looks into the other: one of them comes second.
    cdef Trial* t = <Trial*>context
    cdef uint32_t token = 0
    fifo_push(t.a if me == 0 else t.b, 1)
    t.answer[me] = fifo_pop(t.b if me == 0 else t.a, &token, False)


cdef void _both_full(void* context, int me) noexcept nogil:
    # Each pops from one full ring and pushes into the other: one of them comes second.
    cdef Trial* t = <Trial*>context
    cdef uint32_t token = 0
    cdef int rc = fifo_pop(t.a if me == 0 else t.b, &token, False)
    t.answer[me] = fifo_push(t.b if me == 0 else t.a, 1)
    if rc != RING_OK:
        wrong(1)


cdef void _seal(void* context, int me) noexcept nogil:
    # One seals while two push and one pops. Who is told SEALED sees what was written before the seal.
    cdef Trial* t = <Trial*>context
    cdef uint32_t token
    cdef int64_t[8] last
    cdef int rc, i, _i
    if me == 0:
        t.rows[63].set(7)
        for _i in range(<int>random(8)):
            cpu_pause()
        if not fifo_seal(t.a) or fifo_seal(t.a):
            wrong(4)
    elif me < 3:
        for i in range(8):
            token = 8 * me + i
            t.rows[token].set(token + 1)
            rc = RING_FULL
            while rc == RING_FULL:
                rc = fifo_push(t.a, token)
                if rc == RING_FULL:
                    cpu_pause()
            if rc == RING_SEALED:
                if t.rows[63].get() != 7:
                    wrong(5)
                if fifo_push(t.a, token) != RING_SEALED:
                    wrong(6)
                return
            t.pushed += 1
    else:
        for i in range(8):
            last[i] = -1
        while True:
            rc = fifo_pop(t.a, &token, False)
            if rc == RING_SEALED:
                if t.rows[63].get() != 7:
                    wrong(7)
                if fifo_pop(t.a, &token, False) != RING_SEALED:
                    wrong(8)
                return
            if rc == RING_OK:
                _took(t, last, token)
            else:
                cpu_pause()


cdef void _turns(void* context, int me) noexcept nogil:
    # Three take the turn and pop two tokens that must follow each other; a fourth pops without. What the holder writes
    # belongs to it.
    cdef Trial* t = <Trial*>context
    cdef uint32_t first = 0, second = 0
    cdef int rc
    if me == 3:
        while t.popped < 12:
            rc = fifo_pop(t.a, &first, False)
            if rc == RING_OK:
                t.popped += 1
                return
            if rc == RING_EMPTY:
                return
            cpu_pause()
        return
    while True:
        while not fifo_turn_take(t.a):
            cpu_pause()
        t.rows[0].set(t.rows[0].get() + 1)
        rc = fifo_pop(t.a, &first, True)
        if rc == RING_OK:
            t.popped += 1
            rc = fifo_pop(t.a, &second, True)
        if rc == RING_OK:
            t.popped += 1
            if second != first + 1:
                wrong(1)
        t.rows[0].set(t.rows[0].get() + 1)
        fifo_turn_give(t.a)
        if rc != RING_OK:
            return


cdef bint _park_push(Trial* t, uint32_t token) noexcept nogil:
    return fifo_push(t.a, token) == RING_OK if t.kind == 0 else fast_push(t.fast, token)


cdef bint _park_pop(Trial* t, uint32_t* token) noexcept nogil:
    cdef uint64_t value = 0
    cdef bint done
    if t.kind == 0:
        return fifo_pop(t.a, token, False) == RING_OK
    done = fast_pop(t.fast, &value)
    token[0] = <uint32_t>value
    return done


cdef void _park(void* context, int me) noexcept nogil:
    # Two push three tokens each, two pop three each, through a ring that holds two; whoever can't go on sleeps.
    cdef Trial* t = <Trial*>context
    cdef EventCount* mine = t.drained if me < 2 else t.filled
    cdef EventCount* theirs = t.filled if me < 2 else t.drained
    cdef uint32_t token = 0, epoch
    cdef int64_t _i
    cdef bint done
    for _i in range(3):
        done = _park_push(t, token) if me < 2 else _park_pop(t, &token)
        while not done:
            epoch = event_prepare(mine)
            done = _park_push(t, token) if me < 2 else _park_pop(t, &token)
            if done:
                event_cancel(mine, epoch)
            else:
                event_wait(mine, epoch, -1)
                done = _park_push(t, token) if me < 2 else _park_pop(t, &token)
        event_notify(theirs, 1)
        if t.kind != 0:
            event_notify(mine, 1)  # ring.pxd says why


cdef void _fast(void* context, int me) noexcept nogil:
    # Two push, two pop, in batches of one and two.
    cdef Trial* t = <Trial*>context
    cdef uint64_t[2] batch
    cdef int64_t[8] last
    cdef int i, _i, n = 1 + (me & 1), k
    if me < 2:
        for i in range(4 // n):
            for k in range(n):
                batch[k] = 8 * me + i * n + k
                t.rows[batch[k]].set(<int64_t>batch[k] + 1)
            while not fast_push_many(t.fast, batch, n):
                cpu_pause()
        return
    for i in range(8):
        last[i] = -1
    for _i in range(4 // n):
        while not fast_pop_many(t.fast, batch, n):
            cpu_pause()
        for k in range(n):
            _took(t, last, <uint32_t>batch[k])


cdef void _spsc(void* context, int me) noexcept nogil:
    # One pushes, one pops, up to two at a time. Rows are used again: what the popper wrote is seen by the pusher's next
    # token.
    cdef Trial* t = <Trial*>context
    cdef uint64_t[2] batch
    cdef int64_t[8] last
    cdef uint32_t done = 0, n, k
    last[0] = -1
    while done < 8:
        if me == 0:
            for k in range(2):
                batch[k] = done + k
            n = 2 if done < 7 else 1
            for k in range(n):
                t.rows[done + k].set(done + k + 1)
            # What is refused is written again with the next batch: only the pusher knows of it.
            n = spsc_push_many(t.spsc, batch, n)
        else:
            n = spsc_pop_many(t.spsc, batch, 2)
            for k in range(n):
                _took(t, last, <uint32_t>batch[k])
        done += n
        if n == 0:
            cpu_pause()


cdef void _mutex(void* context, int me) noexcept nogil:
    cdef Trial* t = <Trial*>context
    cdef int _i
    for _i in range(3):
        turn_take(t.turn)
        t.rows[0].set(t.rows[0].get() + 1)
        turn_give(t.turn)


cdef void _slots(void* context, int me) noexcept nogil:
    # Three threads, two slots: who has one writes to it, and reads what the last one wrote.
    cdef Trial* t = <Trial*>context
    cdef uint32_t slot = 0
    cdef int _i
    for _i in range(3):
        while not slots_pop(t.slots, &slot):
            cpu_pause()
        t.rows[slot].set(t.rows[slot].get() + 1)
        slots_push(t.slots, slot)


cdef void _window(void* context, int me) noexcept nogil:
    # Fibre 0 consumes four batches of two rows through a window of two descriptors; 1 and 2 fill one row of each; 1
    # also plans.
    cdef Trial* t = <Trial*>context
    cdef Window* w = t.window
    cdef uint64_t k
    cdef uint32_t epoch
    cdef int i
    if me == 0:
        k = 0
        while not window_ended(w, k):
            if not window_ready(w, k):
                epoch = event_prepare(&w.arrived)
                if window_ready(w, k) or window_ended(w, k):
                    event_cancel(&w.arrived, epoch)
                else:
                    event_wait(&w.arrived, epoch, -1)
                continue
            for i in range(2):
                if t.rows[2 * (k % 2) + i].get() != <int64_t>k:
                    wrong(1)
            if window_batch(w, k).rows != 2:
                wrong(2)
            window_take(w, k)
            k += 1
        if k != 4 or t.rows[9].get() != 4:
            wrong(3)
        return
    for k in range(4):
        if me == 1:
            while not window_has_room(w, k):
                cpu_pause()
            turn_take(t.turn)
            window_open(w, k, 0, 2)
            window_batch(w, k).rows = 2
            t.rows[8].set(<int64_t>k + 1)
            turn_give(t.turn)
        while True:  # the planner's turn hands a batch to the other worker
            turn_take(t.turn)
            i = t.rows[8].get() > <int64_t>k
            turn_give(t.turn)
            if i:
                break
            cpu_pause()
        t.rows[2 * (k % 2) + me - 1].set(<int64_t>k)
        window_done(w, window_batch(w, k), k, 1)
        if me == 1:
            window_done(w, window_batch(w, k), k, 1)
    if me == 1:
        t.rows[9].set(4)
        window_finish(w, 4)


cdef void _crowd(void* context, int me) noexcept nogil:
    # Fibre 0 makes one call, within which it may be suspended; 1 and 2 push, 3 and 4 pop, each until it has succeeded
    # `want` times since then, or has tried 20 times as often.
    cdef Trial* t = <Trial*>context
    cdef uint32_t token = 0
    cdef uint32_t[4] tokens
    cdef uint64_t value = 0
    cdef int rc
    cdef int64_t calls = 0, good = 0
    if me == 0:
        if t.kind == 5:
            fifo_turn_take(t.a)
        arm(True)
        if t.kind == 0:
            fifo_push(t.a, 1)
        elif t.kind == 1:
            fifo_pop(t.a, &token, False)
        elif t.kind == 2:
            fifo_pop_many(t.a, tokens, 3, False)
        elif t.kind == 3:
            fifo_seal(t.a)
        elif t.kind == 4:
            fifo_turn_take(t.a)
        elif t.kind == 5:
            fifo_turn_give(t.a)
        elif t.kind == 6:
            fast_push(t.fast, 1)
        elif t.kind == 7:
            fast_pop(t.fast, &value)
        arm(False)
        if t.kind == 4:
            fifo_turn_give(t.a)
        t.answer[0] = 1
        return
    while calls < 20 * t.want and good < t.want and not t.answer[0]:
        if t.kind >= 6:
            rc = fast_push(t.fast, 1) if me < 3 else fast_pop(t.fast, &value)
        elif me < 3:
            rc = fifo_push(t.a, 1)
        else:
            rc = fifo_pop(t.a, &token, False)
        if suspended():
            calls += 1
            t.calls += 1
            good += rc == RING_OK
            t.good += rc == RING_OK
        if rc != RING_OK:
            cpu_pause()


cdef uint64_t _start_of(uint64_t seed) noexcept nogil:
    # Shortly before some wrap of the indices of a ring of four cells, or 0.
    if seed % 4 == 0:
        return 0
    if seed % 4 == 1:
        return (<uint64_t>1 << 63) - seed % 7
    return (<uint64_t>4 << 40) - seed % 7 if seed % 4 == 2 else (<uint64_t>1 << 32) - seed % 7


cdef void _set_up(Trial* t, uint64_t seed, uint32_t capacity, bint light) noexcept nogil:
    cdef uint32_t i
    cdef uint64_t start = _start_of(seed)
    t.a = <FifoRing*>alloc_lines(sizeof(FifoRing))
    t.b = <FifoRing*>alloc_lines(sizeof(FifoRing))
    t.fast = <FastRing*>alloc_lines(sizeof(FastRing))
    t.spsc = <SpscRing*>alloc_lines(sizeof(SpscRing))
    t.filled = <EventCount*>alloc_lines(sizeof(EventCount))
    t.drained = <EventCount*>alloc_lines(sizeof(EventCount))
    t.filled.light = t.drained.light = light
    t.turn = <Turn*>alloc_lines(sizeof(Turn))
    t.slots = <SlotStack*>alloc_lines(sizeof(SlotStack))
    t.slots.next = <Atomic[uint32_t]*>alloc_lines(2 * sizeof(uint32_t))
    t.pool = <SlotPool*>alloc_lines(sizeof(SlotPool))
    pool_init(t.pool, 1, 0, False)
    t.stops = <StopFlag*>alloc_lines(2 * sizeof(StopFlag))
    t.window = <Window*>alloc_lines(sizeof(Window))
    t.window.arrived.light = light
    t.rows = <Plain[int64_t]*>calloc(MOST_ROWS, sizeof(int64_t))
    fifo_init(t.a, capacity, start)
    fifo_init(t.b, capacity, start)
    fast_init(t.fast, 2, start)
    spsc_init(t.spsc, 3, start)
    window_init(t.window, 2, 1)
    for i in range(2):
        slots_push(t.slots, i)


cdef void _tear_down(Trial* t) noexcept nogil:
    fifo_free(t.a)
    fifo_free(t.b)
    fast_free(t.fast)
    spsc_free(t.spsc)
    window_free(t.window)
    free(t.slots.next)
    pool_free(t.pool)
    free(t.pool)
    free(t.stops)
    free(t.a)
    free(t.b)
    free(t.fast)
    free(t.spsc)
    free(t.filled)
    free(t.drained)
    free(t.turn)
    free(t.slots)
    free(t.window)
    free(t.rows)


cdef void _stop(void* context, int me) noexcept nogil:
    # Two set one flag, the first of them another before that; one looks. Who sees a stop, or whose fault it was, sees what came before.
    cdef Trial* t = <Trial*>context
    cdef Fault fault
    cdef const Fault* first = NULL
    if me < 2:
        memset(&fault, 0, sizeof(fault))
        fault.code = 1 + me
        if me == 0:
            t.rows[2].set(7)
            stop_set(&t.stops[1], NULL)
        t.rows[me].set(1 + me)
        if stop_set(&t.stops[0], &fault):
            t.good += 1
        return
    while not stop_requested(&t.stops[1]):
        cpu_pause()
    if t.rows[2].get() != 7 or stop_fault(&t.stops[1]) != NULL:
        wrong(1)
    while first == NULL:
        cpu_pause()
        first = stop_fault(&t.stops[0])
    if t.rows[first.code - 1].get() != first.code or not stop_requested(&t.stops[0]):
        wrong(2)


cdef bint _pool_whole(Trial* t) noexcept nogil:
    # Each slot is in it once, and all that was written was written to one of them.
    cdef uint32_t slot = 0
    cdef int64_t sum = 0, count = 0
    while pool_pop(t.pool, &slot):
        sum += t.rows[slot].get()
        count += 1
        t.rows[slot].set(-100)
    return sum == 18 and count == <int64_t>1 << (t.pool.chunk_count - 1)


cdef void _pool(void* context, int me) noexcept nogil:
    # Each takes two slots at a time, writes to them, and gives them back; there are none at first.
    cdef Trial* t = <Trial*>context
    cdef uint32_t[2] slots
    cdef int i, _i
    for _i in range(3):
        for i in range(2):
            while not pool_pop(t.pool, &slots[i]):
                pool_grow(t.pool)
            t.rows[slots[i]].set(t.rows[slots[i]].get() + 1)
        for i in range(2):
            pool_push(t.pool, slots[i])


cdef enum:
    FLOW
    OWN
    BOTH_EMPTY
    BOTH_FULL
    SEALING
    TURNS
    PARK_FIFO
    PARK_FAST
    PARK_LIGHT
    FAST
    SPSC
    MUTEX
    SLOTS
    POOL
    STOP
    WINDOW

# The queues' scenarios: kind, capacity, least (min_after_dequeue), and what each thread calls (_hand_step).
HAND_SCENARIOS = {
    "one": ("fifo", 1, 0, ("ppp", "ppp", "ggg", "ggg")),
    "two": ("fifo", 2, 0, ("pppp", "pp", "ggg", "ggg")),
    "size": ("fifo", 2, 0, ("ppp", "ggg", "ssss", "ssss")),
    "together": ("fifo", 2, 0, ("Q", "pp", "Q", "gggggggg")),
    "pieces": ("fifo", 2, 0, ("M", "pp", "P", "gggggggg")),
    "gather": ("fifo", 2, 0, ("pppppp", "G", "G", "gg")),
    "many": ("fifo", 2, 0, ("QpP", "pQ", "HG", "gggG")),
    "close": ("fifo", 2, 0, ("pp", "Pc", "D", "D")),
    "cancel": ("fifo", 1, 0, ("pp", "P", "C", "D", "D")),
    "short": ("fifo", 2, 0, ("ppc", "H", "D")),
    "up_to": ("fifo", 2, 0, ("ppPc", "U", "U", "D")),
    "leave": ("fifo", 1, 0, ("tpt", "Tc", "ii", "h", "D")),
    "back": ("fifo", 2, 0, ("pppp", "L", "gg")),
    "back_close": ("fifo", 2, 0, ("ppPc", "L", "D", "D")),
    "grow": ("fifo", -1, 0, ("pppppp", "ppp", "Q", "gggggg", "gggggg")),
    "grow_close": ("fifo", -1, 0, ("pppp", "pQ", "C", "D", "D")),
    "grow_cancel": ("fifo", -1, 0, ("Q", "C", "D")),
    "grow_gather": ("fifo", -1, 0, ("Q", "C", "H")),
    "grow_leave": ("fifo", -1, 0, ("pppc", "ii", "ii", "D")),
    "random": ("random", 2, 0, ("pppp", "pQ", "gGg", "gH")),
    "random_least": ("random", 3, 1, ("ppp", "Qc", "gH", "D")),
    "random_grow": ("random", -1, 0, ("pppp", "pQ", "ggL", "G", "gg")),
    "random_return": ("random", -1, 0, ("pppp", "pppp", "L", "L")),
    "priority": ("priority", 3, 0, ("ppp", "pQ", "H", "ggG")),
    "priority_close": ("priority", 3, 0, ("ppp", "Pc", "H", "U", "D")),
}
ROWS = {"p": 1, "P": 2, "Q": 3, "M": 4, "t": 1, "T": 3}
STORES = {"fifo": STORE_FIFO, "random": STORE_RANDOM, "priority": STORE_PRIORITY}

SCENARIOS = ("flow", "own", "both_empty", "both_full", "seal", "turns", "park_fifo", "park_fast", "park_light", "fast",
             "spsc", "mutex", "slots", "pool", "stop", "window", *HAND_SCENARIOS)

cdef int[16] _fibres = [4, 3, 2, 2, 4, 4, 4, 4, 4, 4, 2, 3, 3, 3, 3, 3]
cdef uint32_t[16] _capacities = [2, 3, 1, 1, 2, 12, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2]
cdef Scenario[16] _scenarios = [
    _flow, _own, _both_empty, _both_full, _seal, _turns, _park, _park, _park, _fast, _spsc, _mutex, _slots, _pool, _stop,
    _window]


cdef int _try(int which, uint64_t seed, int* check) noexcept nogil:
    # One schedule of one scenario: its verdict, after a look at what it left behind.
    cdef Trial t
    cdef int verdict
    cdef int64_t i
    memset(&t, 0, sizeof(t))
    _set_up(&t, seed, _capacities[which], which == PARK_LIGHT)
    t.kind = 0 if which == PARK_FIFO else 1
    if which == BOTH_FULL:
        fifo_push(t.a, 0)
        fifo_push(t.b, 0)
    if which == TURNS:
        for i in range(12):
            fifo_push(t.a, <uint32_t>i)
    verdict = _run(seed, _fibres[which], _scenarios[which], &t, 20000)
    check[0] = what()
    if verdict == 0:
        if which == BOTH_EMPTY and t.answer[0] == RING_EMPTY and t.answer[1] == RING_EMPTY:
            check[0] = 20
        elif which == BOTH_FULL and t.answer[0] == RING_FULL and t.answer[1] == RING_FULL:
            check[0] = 21
        elif which == SEALING and t.pushed != t.popped:
            check[0] = 22
        elif which == TURNS and t.popped != 12:
            check[0] = 23
        elif which == MUTEX and t.rows[0].get() != 9:
            check[0] = 24
        elif which == POOL and not _pool_whole(&t):
            check[0] = 26
        elif which == STOP and t.good != 1:
            check[0] = 27
        elif which == SLOTS and t.rows[0].get() + t.rows[1].get() != 9:
            check[0] = 25
        verdict = 1 if check[0] else 0
    _tear_down(&t)
    return verdict


# ---- The queues' hand-off and pool

cdef enum:
    MOST_OPS = 64
    MOST_LETTERS = 24
    EACH = 10  # tokens of one fibre; the last rows are nobody's

# A scenario is a script for each fibre, one letter a call; _hand_step says which is what.
cdef struct HandTrial:
    Hand* hand
    Philox* random
    Plain[int64_t]* rows
    Op* ops
    Op* ends                  # what each looked like when its thread left it
    bint[MOST_OPS] over
    int32_t op_count
    uint32_t[MOST_ROWS] names  # token i at i
    int64_t[MOST_ROWS] keys
    int64_t[MOST_ROWS] until   # the last of the rows that came in one piece with this one
    int32_t[MOST_ROWS] inside
    int32_t[MOST_ROWS] taken
    int64_t[6] used           # tokens of each fibre
    int64_t[36] last          # that each fibre took, of each that puts
    int64_t follows           # what the only one who takes must take next
    int64_t put, wanted       # rows that are known to be in, and that somebody has asked for
    int64_t capacity, least
    int32_t store, kind
    bint ready, ordered, one_puts, one_takes, one_closes, closing, gently, closed, drained
    char[6][MOST_LETTERS] scripts


cdef Op* _hand_op(HandTrial* t, int64_t n, uint32_t* tokens) noexcept nogil:
    cdef Op* op = &t.ops[t.op_count]
    if t.op_count == MOST_OPS - 1:
        wrong(99)
    t.op_count += 1
    op.n = n
    op.tokens = tokens
    return op


cdef void _hand_over(HandTrial* t, Op* op) noexcept nogil:
    # From now on nobody may write to it: on a thread's own stack there would be something else.
    t.ends[op - t.ops] = op[0]
    t.over[op - t.ops] = True


cdef int _hand_await(HandTrial* t, int side, Op* op, int64_t deadline) noexcept nogil:
    cdef int rc = HAND_SLICE
    while rc == HAND_SLICE:
        rc = hand_wait(t.hand, side, t.random, op, deadline)
        if rc == HAND_SLICE and 0 <= deadline <= monotonic_ns():
            return hand_leave(t.hand, side, t.random, op)
    return rc


cdef void _hand_close(HandTrial* t, bint gently) noexcept nogil:
    cdef Op* op
    t.closing = True
    t.gently = t.gently or gently
    if t.one_closes:
        t.rows[MOST_ROWS - 1].set(7)
    if gently:
        op = _hand_op(t, 0, NULL)
        op.closes = True
        _hand_await(t, SIDE_PUT, op, -1)
        hand_leave(t.hand, SIDE_PUT, t.random, op)
        _hand_over(t, op)
    else:
        hand_cancel(t.hand, t.random)
    t.closed = True


cdef void _hand_refused(HandTrial* t) noexcept nogil:
    # Who is told that it is closed sees what was written before.
    if t.one_closes and t.rows[MOST_ROWS - 1].get() != 7:
        wrong(5)


cdef void _hand_put(HandTrial* t, int me, int64_t n, int64_t more, bint timed) noexcept nogil:
    # n rows as one piece, or with `more` as two.
    cdef int64_t first = EACH * me + t.used[me]
    cdef int64_t i, done = 0
    cdef bint late = t.closed
    cdef int rc = HAND_BUSY
    cdef Op* op
    t.used[me] += n + more
    for i in range(n):
        t.rows[first + i].set(first + i + 1)
    for i in range(n + more):
        t.until[first + i] = first + n + more - 1
    if n == 1:
        rc = put_try(t.hand, t.names[first], t.keys[first])
        if rc == HAND_CLOSED and not t.closing:
            wrong(13)
        if rc == HAND_CLOSED:
            _hand_refused(t)
    if rc == HAND_DONE:
        done = 1
        if hand_unsettled(t.hand):
            hand_settle(t.hand, t.random)
    else:
        op = _hand_op(t, n, &t.names[first])
        op.keys = &t.keys[first]
        op.more = more > 0
        rc = _hand_await(t, SIDE_PUT, op, monotonic_ns() + <int64_t>random(600) if timed else -1)
        done = op.done
        if more > 0 and rc == HAND_DONE:
            for i in range(n, n + more):
                t.rows[first + i].set(first + i + 1)
            op.tokens = &t.names[first + n]
            op.keys = &t.keys[first + n]
            hand_refill(t.hand, t.random, op, more, False)
            rc = _hand_await(t, SIDE_PUT, op, -1)
            done += op.done
        hand_leave(t.hand, SIDE_PUT, t.random, op)
        if rc == HAND_CLOSED and op.early and not t.gently:
            wrong(14)
        _hand_over(t, op)
    if rc == HAND_CLOSED or rc == HAND_CANCELLED:
        _hand_refused(t)
    if rc == HAND_DONE and (done != n + more or late):
        wrong(10)
    if rc == HAND_BUSY or (rc == HAND_SLICE and not timed) or (rc == HAND_CLOSED or rc == HAND_CANCELLED) and not t.closing:
        wrong(11)
    for i in range(done):
        t.inside[first + i] = 1
    t.put += done
    if 0 <= t.capacity < t.put - t.wanted:
        wrong(12)


cdef void _hand_took(HandTrial* t, int me, int64_t token) noexcept nogil:
    cdef int64_t* last = &t.last[6 * me + token // EACH]
    if t.rows[token].get() != token + 1:
        wrong(1)
    if t.taken[token]:
        wrong(2)
    t.taken[token] += 1
    if t.ordered and last[0] >= token:
        wrong(3)
    last[0] = token
    if t.one_takes and t.follows >= 0 and t.follows != token:
        wrong(4)
    t.follows = token + 1 if t.until[token] > token else -1


cdef int _hand_get(HandTrial* t, int me, int64_t n, bint up_to, bint timed, bint back) noexcept nogil:
    cdef uint32_t token = 0
    cdef int64_t[3] keys
    cdef int64_t i
    cdef int rc
    cdef Op* op
    t.wanted += n
    if n == 1:
        rc = get_try(t.hand, t.random, &token)
        if rc == HAND_DONE:
            if hand_unsettled(t.hand):
                hand_settle(t.hand, t.random)
            _hand_took(t, me, token)
            return rc
        if rc == HAND_CLOSED and not t.closing:
            wrong(25)
    op = _hand_op(t, n, NULL)
    op.run = <FrontRun*>malloc(sizeof(FrontRun) + n * sizeof(uint32_t))
    op.tokens = op.run.tokens
    op.up_to = up_to
    rc = _hand_await(t, SIDE_GET, op, monotonic_ns() + <int64_t>random(600) if timed else -1)
    if rc == HAND_BUSY or rc == HAND_CANCELLED or (rc == HAND_SLICE and not timed) or (rc == HAND_CLOSED and not t.closing):
        wrong(20)
    if op.done != (n if rc == HAND_DONE else 0) and not (rc == HAND_DONE and up_to and 0 < op.done < n and t.closing):
        wrong(21)
    if rc == HAND_CLOSED:
        _hand_refused(t)
    for i in range(op.done):
        _hand_took(t, me, op.tokens[i])
        if i > 0 and t.store == STORE_PRIORITY and t.keys[op.tokens[i - 1]] > t.keys[op.tokens[i]]:
            wrong(22)
        if i > 0 and t.one_puts and op.tokens[i] != op.tokens[i - 1] + 1:
            wrong(23)
    if back:
        for i in range(op.done):
            t.taken[op.tokens[i]] = 0
            keys[i] = t.keys[op.tokens[i]]
        op.keys = keys
        hand_return(t.hand, t.random, op)
        if op.done != 0:
            wrong(24)
    free(op.run)
    op.run = NULL
    _hand_over(t, op)
    return rc


cdef void _hand_step(HandTrial* t, int me, char what) noexcept nogil:
    if what == b'p':    # put one row; P: two, Q: three, M: four in two pieces; t: one, with a deadline, T: three
        _hand_put(t, me, 1, 0, False)
    elif what == b'P':
        _hand_put(t, me, 2, 0, False)
    elif what == b'Q':
        _hand_put(t, me, 3, 0, False)
    elif what == b'M':
        _hand_put(t, me, 2, 2, False)
    elif what == b't':
        _hand_put(t, me, 1, 0, True)
    elif what == b'T':
        _hand_put(t, me, 3, 0, True)
    elif what == b'g':  # get one; G: two, H: three, U: up to three; i: one, with a deadline, h: two
        _hand_get(t, me, 1, False, False, False)
    elif what == b'G':
        _hand_get(t, me, 2, False, False, False)
    elif what == b'H':
        _hand_get(t, me, 3, False, False, False)
    elif what == b'U':
        _hand_get(t, me, 3, True, False, False)
    elif what == b'i':
        _hand_get(t, me, 1, False, True, False)
    elif what == b'h':
        _hand_get(t, me, 2, False, True, False)
    elif what == b'L':  # get two, look at them, give them back
        _hand_get(t, me, 2, False, False, True)
    elif what == b'D':  # get one by one until it is closed
        while _hand_get(t, me, 1, False, False, False) == HAND_DONE:
            pass
        t.drained = True
    elif what == b'c':  # close behind the puts that wait; C: at once
        _hand_close(t, True)
    elif what == b'C':
        _hand_close(t, False)
    elif what == b's':
        if hand_size(t.hand) < 0:
            wrong(30)


cdef void _hand_script(void* context, int me) noexcept nogil:
    cdef HandTrial* t = <HandTrial*>context
    cdef const char* p = t.scripts[me]
    while p[0]:
        _hand_step(t, me, p[0])
        p += 1


cdef int _hand_left(HandTrial* t) noexcept nogil:
    # What must be true when all have ended: which check fails, or 0.
    cdef Hand* h = t.hand
    cdef FrontRun* run = h.front
    cdef int64_t left, found = 0, i
    cdef uint32_t token = 0
    for i in range(2):
        if h.side[i].first != NULL or h.side[i].last != NULL or h.side[i].waiting.load(kRelaxed) != 0:
            return 40
        if h.side[i].turn != (i == SIDE_GET and run != NULL):
            return 41
        if h.side[i].lock.word.load(kRelaxed) != 0 or h.side[i].parked.load(kRelaxed) != 0:
            return 42
    for i in range(t.op_count):
        if not t.over[i] or memcmp(&t.ops[i], &t.ends[i], sizeof(Op)):
            return 43
    if h.tickets.load(kRelaxed) & 1 or _used(h.tickets.load(kRelaxed), h.pushed.load(kRelaxed)) != 0:
        return 44
    if t.capacity > 0 and (h.ring_count > 1 or (h.undone.load(kRelaxed) != 0 and not t.closing)):
        return 48  # a row with a ticket found no room
    left = hand_size(h)
    while run != NULL:
        for i in range(run.at, run.n):
            t.taken[run.tokens[i]] += 1
            left -= 1
            found += 1
        run = run.next
    h.least = 0
    while _store_pop(h, t.random, &token, True) == RING_OK:
        t.taken[token] += 1
        left -= 1
        found += 1
    if left != 0:
        return 45
    if t.store != STORE_FIFO and malloc_usable_size(h.bag) < h.room * sizeof(BagRow):
        return 49
    if t.drained and found and t.ordered:
        return 47
    for i in range(MOST_ROWS):
        if t.taken[i] != t.inside[i]:
            return 46
    return 0


cdef void _hand_set_up(HandTrial* t, uint64_t seed) noexcept nogil:
    cdef int32_t i
    t.hand = <Hand*>alloc_lines(sizeof(Hand))
    t.random = <Philox*>alloc_lines(sizeof(Philox))
    t.rows = <Plain[int64_t]*>alloc_lines(MOST_ROWS * sizeof(int64_t))
    t.ops = <Op*>alloc_lines(MOST_OPS * sizeof(Op))
    t.ends = <Op*>alloc_lines(MOST_OPS * sizeof(Op))
    philox_seed(t.random, seed, 0)
    # An unbounded store begins small, so that a few rows make it grow a few times.
    hand_init(t.hand, t.store, t.capacity if t.capacity > 0 else 2, t.least, _start_of(seed))
    t.hand.capacity = t.capacity
    t.follows = -1
    for i in range(36):
        t.last[i] = -1
    for i in range(MOST_ROWS):
        t.names[i] = <uint32_t>i
        t.keys[i] = 3 * i % 4


cdef void _hand_tear_down(HandTrial* t) noexcept nogil:
    cdef int32_t i
    for i in range(t.op_count):
        free(t.ops[i].run)
    hand_free(t.hand)
    free(t.hand)
    free(t.random)
    free(t.rows)
    free(t.ops)
    free(t.ends)


cdef int _hand_try(const HandTrial* model, uint64_t seed, int fibres, int* check) noexcept nogil:
    # One schedule of a script: its verdict, after a look at what it left behind.
    cdef HandTrial t = model[0]
    cdef int verdict
    _hand_set_up(&t, seed)
    verdict = _run(seed, fibres, _hand_script, &t, 50000)
    check[0] = what()
    if verdict == 0:
        check[0] = _hand_left(&t)
        verdict = 1 if check[0] else 0
    _hand_tear_down(&t)
    return verdict


cdef int _hand_model(HandTrial* t, tuple scenario) except -1:
    # Sets up what all schedules of a scenario share; returns the number of fibres. The scenario must stay.
    cdef str kind, script
    kind, t.capacity, t.least, scripts = scenario
    t.store = STORES[kind]
    t.ordered = kind == "fifo" and not any("L" in script for script in scripts)
    refused = any(set(script) & set("tTcC") for script in scripts)
    t.one_puts = t.ordered and not refused and sum(bool(set(script) & set("pPQMtT")) for script in scripts) == 1
    t.one_takes = t.ordered and not refused and sum(bool(set(script) & set("gGHUihLD")) for script in scripts) == 1
    t.one_closes = sum(script.count("c") + script.count("C") for script in scripts) == 1
    if not len(scripts) <= 6 or not all(
            len(script) < MOST_LETTERS and sum(ROWS.get(letter, 0) for letter in script) <= EACH for script in scripts):
        raise ValueError(scripts)
    for i, script in enumerate(scripts):
        for k, letter in enumerate(script):
            t.scripts[i][k] = ord(letter)
    return len(scripts)


def explore(scenario, uint64_t first, uint64_t count, relaxed=(), unordered=()):
    """Run a scenario under the schedules of the seeds from ``first`` on, with the orders of some edges weakened.

    Parameters
    ----------
    scenario : str or tuple
        One of SCENARIOS, or what a queue's scenario is made of.
    relaxed : sequence of str
        Edges that become relaxed.
    unordered : sequence of str
        Edges that lose their place in the one order of all seq_cst operations, and stay acquire and release.

    Returns
    -------
    tuple or None
        Of the first schedule that went wrong: seed, verdict, which check of the scenario failed. None: all were fine.
    """
    cdef int which = -1, fibres = 0, verdict = 0, check = 0
    cdef uint64_t seed = first
    cdef HandTrial model
    scenario = HAND_SCENARIOS.get(scenario, scenario)
    memset(&model, 0, sizeof(model))
    if isinstance(scenario, tuple):
        fibres = _hand_model(&model, scenario)
    else:
        which = SCENARIOS.index(scenario)
    mutate(0, kRelaxed)
    for edge in unordered:
        mutate(EDGES[edge], kAcqRel)
    for edge in relaxed:
        mutate(EDGES[edge], kRelaxed)
    with nogil:
        while seed < first + count:
            verdict = _try(which, seed, &check) if which >= 0 else _hand_try(&model, seed, fibres, &check)
            if verdict != 0:
                break
            seed += 1
        mutate(0, kRelaxed)
    return None if verdict == 0 else (seed, VERDICTS[verdict], check)


def history(uint64_t seed, unordered=()):
    """Return what three threads did to a ring of one or two: (begin, end, call, its tokens, answer) of each call."""
    cdef Trial t
    cdef int i, k, verdict
    memset(&t, 0, sizeof(t))
    mutate(0, kRelaxed)
    for edge in unordered:
        mutate(EDGES[edge], kAcqRel)
    _set_up(&t, seed, 1 + seed % 2, False)
    verdict = _run(seed, 3, _history, &t, 20000)
    _tear_down(&t)
    mutate(0, kRelaxed)
    if verdict != 0:
        raise AssertionError(VERDICTS[verdict])
    made = []
    for i in range(9):
        call = t.calls_made[i]
        name = "push" if call.what < 4 else "seal" if call.what == 7 else "pop"
        tokens = [call.token] if name == "push" else []
        if name == "pop":
            tokens = [call.tokens[k] for k in range(max(0, call.answer))]
        answer = bool(call.answer) if name == "seal" else ANSWERS[min(call.answer, 1)]
        made.append((call.begin, call.end, name, tuple(tokens), answer))
    return 1 + seed % 2, made


CALLS = ("push", "pop", "pop_many", "seal", "turn_take", "turn_give", "fast_push", "fast_pop")


cdef void _hand_crowd(void* context, int me) noexcept nogil:
    # As _crowd, of a queue. A settler first puts two operations in line, which then can go on.
    cdef HandTrial* t = <HandTrial*>context
    cdef uint32_t token = 0
    cdef int64_t calls = 0, good = 0
    cdef int i, _i
    cdef int rc = HAND_DONE
    cdef Op* op
    cdef int side = SIDE_PUT if hand_size(t.hand) == t.capacity else SIDE_GET
    if me == 0:
        if t.kind == 2:
            for i in range(2):
                op = _hand_op(t, 1, &t.names[i])
                hand_wait(t.hand, side, t.random, op, 0)
            for _i in range(2):
                if side == SIDE_GET:
                    put_try(t.hand, 1, 0)
                else:
                    get_try(t.hand, t.random, &token)
            t.ready = True
        arm(True)
        if t.kind == 0:
            put_try(t.hand, 1, 0)
        elif t.kind == 1:
            get_try(t.hand, t.random, &token)
        else:
            hand_settle(t.hand, t.random)
        arm(False)
        t.closed = True
        return
    while t.kind == 2 and not t.ready:
        cpu_pause()
    while calls < 20 * t.wanted and good < t.wanted and not t.closed:
        if t.kind == 2:
            hand_settle(t.hand, t.random)
        elif me < 3:
            rc = put_try(t.hand, 1, 0)
        else:
            rc = get_try(t.hand, t.random, &token)
        if rc == HAND_DONE and hand_unsettled(t.hand) and t.kind < 2:
            wrong(1)
        if suspended():
            calls += 1
            good += rc == HAND_DONE
            t.put += rc == HAND_DONE
        if rc != HAND_DONE or not suspended():
            cpu_pause()


HAND_CALLS = ("put_try", "get_try", "hand_settle")


def suspend_hand(str call, uint64_t at, uint64_t seed, int64_t want, int32_t filled, int64_t capacity):
    """Suspend a thread as ``suspend_in`` does, in a call of a FIFO queue's hand-off.

    Two others put and two get, and nobody is in line. Or two operations that can go on are, the call is ``hand_settle``, and so are those
    of the others. Returns the verdict, the labels, and how many calls the others have succeeded with since then.
    """
    cdef HandTrial t
    cdef int verdict
    cdef int32_t _i
    memset(&t, 0, sizeof(t))
    t.kind = HAND_CALLS.index(call)
    t.capacity = capacity
    t.wanted = want
    with nogil:
        _hand_set_up(&t, seed)
        for _i in range(filled):
            put_try(t.hand, 1, 0)
        suspend(0, at)
        verdict = _run(seed, 5, _hand_crowd, &t, <uint64_t>want * 2000)
        suspend(-1, 0)
        _hand_tear_down(&t)
    names = None
    if suspended():
        names = sorted(name for name, edge in EDGES.items() if suspended_before(edge))
    return VERDICTS[verdict], names, t.put


def suspend_in(str call, uint64_t at, uint64_t seed, int64_t want, int32_t filled):
    """Suspend a thread for good before the at-th atomic operation of one call, and let four others push and pop.

    The ring holds four, and ``filled`` at the start. Returns the verdict, the labels of the operation (None: the call
    has fewer), and how many calls the others made since then, and succeeded with.
    """
    cdef Trial t
    cdef int verdict
    cdef int32_t _i
    memset(&t, 0, sizeof(t))
    t.kind = CALLS.index(call)
    t.want = want
    with nogil:
        _set_up(&t, seed, 4, False)
        fast_free(t.fast)
        fast_init(t.fast, 4, _start_of(seed))
        for _i in range(filled):
            fifo_push(t.a, 1)
            fast_push(t.fast, 1)
        suspend(0, at)
        verdict = _run(seed, 5, _crowd, &t, <uint64_t>want * 2000)
        suspend(-1, 0)
        _tear_down(&t)
    names = None
    if suspended():
        names = sorted(name for name, edge in EDGES.items() if suspended_before(edge))
    return VERDICTS[verdict], names, t.calls, t.good
