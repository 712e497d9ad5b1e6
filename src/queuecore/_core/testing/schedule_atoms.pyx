"""The rings, parking, slab, window, pool, stops and ending under the seeded scheduler. See schedule.pxd."""
from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t
from libc.string cimport memset
from queuecore._core.atoms.memory cimport calloc, free
from queuecore._core.handoff.handoff cimport H1, H2, H3, H4, H5, H6, H7, H8, H9, L1, L2, L3, L4, L5, L6, L7
from queuecore._core.atoms.ending cimport NOTES, PHASES, Ending, ending_decide, ending_mark, ending_note
from queuecore._core.atoms.parking cimport (
    N1, N2, P1, P2, T1, T2, T3, event_cancel, event_notify, event_prepare, event_wait, turn_give, turn_take)
from queuecore._core.atoms.platform cimport (
    Atomic, EventCount, Fault, FifoRing, Plain, SlotStack, StopFlag, Turn, Window, alloc_lines, cpu_pause, kRelaxed)
from queuecore._core.atoms.pool cimport (
    Q1, Q2, Q3, Q4, Q5, Q6, SlotPool, pool_free, pool_grow, pool_init, pool_pop, pool_push)
from queuecore._core.atoms.ring cimport (
    R1, R10, R11, R12, R13, R14, R15, R16, R2, R3, R4, R5, R6, R7, R8, R9, RING_EMPTY, RING_FULL, RING_OK, RING_SEALED,
    RING_OWNED, fifo_free, fifo_init, fifo_outside, fifo_pop, fifo_pop_many, fifo_push, fifo_disown_pushes,
    fifo_own_pushes, fifo_seal, fifo_disown_pops, fifo_own_pops)
from queuecore._core.atoms.runtime cimport (
    E1, E2, F1, F2, F3, F4, stop_event_at, stop_event_set, stop_fault, stop_requested, stop_set)
from queuecore._core.atoms.slab cimport S1, S2, slots_pop, slots_push
from queuecore._core.atoms.window cimport (
    B1, B3, B2, B4, B5, B6, B7, window_batch, window_done, window_ended, window_finish, window_free, window_has_room,
    window_init, window_open, window_ready, window_take)
from queuecore._core.testing.schedule cimport (
    MOST_ROWS, Call, arm, kMembarrier, labels, mutate, random, run_schedule, start_of, suspend, suspended, weaken, what,
    wrong)

EDGES = {
    "R1": R1, "R2": R2, "R3": R3, "R4": R4, "R5": R5, "R6": R6, "R7": R7, "R8": R8, "R9": R9, "R10": R10, "R11": R11,
    "R12": R12, "R13": R13, "R14": R14, "R15": R15, "R16": R16, "P1": P1, "P2": P2, "N1": N1, "N2": N2, "T1": T1,
    "T2": T2, "T3": T3, "S1": S1, "S2": S2, "B1": B1, "B2": B2, "B3": B3, "B4": B4, "B5": B5, "B6": B6, "B7": B7,
    "E1": E1, "E2": E2, "F1": F1, "F2": F2, "F3": F3, "F4": F4, "Q1": Q1, "Q2": Q2, "Q3": Q3, "Q4": Q4, "Q5": Q5,
    "Q6": Q6, "H1": H1, "H2": H2, "H3": H3, "H4": H4, "H5": H5, "H6": H6, "H7": H7, "H8": H8, "H9": H9, "L1": L1,
    "L2": L2, "L3": L3, "L4": L4, "L5": L5, "L6": L6, "L7": L7, "membarrier": kMembarrier}

ANSWERS = {RING_OK: "ok", RING_EMPTY: "empty", RING_FULL: "full", RING_SEALED: "sealed"}
VERDICTS = ("fine", "wrong", "race", "all asleep", "endless")


# All that the scenarios share. A field that is not Plain or atomic belongs to one fibre, or is the test's own
# book-keeping, which the fibres, being one thread, may share.
cdef struct Trial:
    FifoRing* a
    FifoRing* b
    EventCount* filled
    EventCount* drained
    Turn* turn
    SlotStack* slots
    SlotStack* full
    SlotPool* pool
    StopFlag* stops
    Atomic[int64_t]* stopped_at
    Window* window
    Plain[int64_t]* rows
    int32_t kind
    int64_t pushed, popped, calls, good, want
    int64_t[MOST_ROWS] seen
    Ending* ending
    int32_t ending_notes, ending_phases
    bint[3] gone
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
            while fifo_push(t.a, token, False) != RING_OK:
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
        call.what = <int>random(10)
        call.token = 8 * me + i
        call.begin = t.now
        t.now += 1
        if call.what < 4:
            call.answer = fifo_push(t.a, call.token, False)
        elif call.what < 6:
            call.answer = fifo_pop(t.a, call.tokens, False)
        elif call.what == 6:
            call.answer = fifo_pop_many(t.a, call.tokens, 2, False)
        elif call.what == 7:
            call.answer = fifo_seal(t.a)
        elif t.seen[me] > 0 and (call.what == 9 or t.kind == 0):
            call.what = 9
            t.seen[me] -= 1
            fifo_outside(t.a, -1)
        elif t.kind == 0:
            call.what = 0
            call.answer = fifo_push(t.a, call.token, False)
        else:
            call.what = 8
            t.seen[me] += 1
            fifo_outside(t.a, 1)
        call.end = t.now
        t.now += 1


cdef void _own(void* context, int me) noexcept nogil:
    # Each pushes, then pops. There is room for one token of each, so no push finds the ring full; and nobody has popped
    # more than it has pushed, so no pop finds it empty.
    cdef Trial* t = <Trial*>context
    cdef uint32_t token = 0
    cdef int32_t _i
    for _i in range(3):
        if fifo_push(t.a, <uint32_t>me, False) != RING_OK:
            wrong(1)
        if fifo_pop(t.a, &token, False) != RING_OK:
            wrong(2)


cdef void _both_empty(void* context, int me) noexcept nogil:
    # Each pushes into one ring and looks into the other: one of them comes second.
    cdef Trial* t = <Trial*>context
    cdef uint32_t token = 0
    fifo_push(t.a if me == 0 else t.b, 1, False)
    t.answer[me] = fifo_pop(t.b if me == 0 else t.a, &token, False)


cdef void _both_full(void* context, int me) noexcept nogil:
    # Each pops from one full ring and pushes into the other: one of them comes second.
    cdef Trial* t = <Trial*>context
    cdef uint32_t token = 0
    cdef int rc = fifo_pop(t.a if me == 0 else t.b, &token, False)
    t.answer[me] = fifo_push(t.b if me == 0 else t.a, 1, False)
    if rc != RING_OK:
        wrong(1)


cdef void _both_outside(void* context, int me) noexcept nogil:
    # As _both_full, of rings whose only places are taken by rows outside.
    cdef Trial* t = <Trial*>context
    fifo_outside(t.a if me == 0 else t.b, -1)
    t.answer[me] = fifo_push(t.b if me == 0 else t.a, 1, False)


cdef void _push_turns(void* context, int me) noexcept nogil:
    # Two own the pushes in turn and push two tokens that must follow each other, two push without, one pops all. What
    # the holder writes belongs to it.
    cdef Trial* t = <Trial*>context
    cdef uint32_t token = 0
    cdef int64_t last_token = -1
    cdef int i, _i, k, rc
    if me < 2:
        for i in range(2):
            while not fifo_own_pushes(t.a):
                cpu_pause()
            t.rows[0].set(t.rows[0].get() + 1)
            for k in range(2):
                rc = RING_FULL
                while rc != RING_OK:
                    rc = fifo_push(t.a, 8 * me + 2 * i + k, True)
                    if rc == RING_OWNED:
                        wrong(1)
                    if rc != RING_OK:
                        cpu_pause()
            t.rows[0].set(t.rows[0].get() + 1)
            fifo_disown_pushes(t.a)
    elif me < 4:
        for i in range(4):
            while fifo_push(t.a, 8 * me + i, False) != RING_OK:
                cpu_pause()
    else:
        while t.popped < 16:
            if fifo_pop(t.a, &token, False) != RING_OK:
                cpu_pause()
                continue
            t.popped += 1
            t.seen[token] += 1
            if (token < 16 and token % 2 == 1) != (last_token >= 0 and last_token < 16 and last_token % 2 == 0):
                wrong(2)
            if token < 16 and token % 2 == 1 and last_token != token - 1:
                wrong(3)
            last_token = token


cdef void _seal(void* context, int me) noexcept nogil:
    # One seals while two push and one pops. A thread that is told SEALED sees what was written before the seal.
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
                rc = fifo_push(t.a, token, False)
                if rc == RING_FULL:
                    cpu_pause()
            if rc == RING_SEALED:
                if t.rows[63].get() != 7:
                    wrong(5)
                if fifo_push(t.a, token, False) != RING_SEALED:
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
    # Three own the pops in turn and pop two tokens that must follow each other; a fourth pops without. What the owner
    # writes belongs to it.
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
        while not fifo_own_pops(t.a):
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
        fifo_disown_pops(t.a)
        if rc != RING_OK:
            return


cdef void _park(void* context, int me) noexcept nogil:
    # Two push three tokens each, two pop three each, through a ring that holds two; fibres that can't go on sleep.
    cdef Trial* t = <Trial*>context
    cdef EventCount* mine = t.drained if me < 2 else t.filled
    cdef EventCount* theirs = t.filled if me < 2 else t.drained
    cdef uint32_t token = 0, epoch
    cdef int64_t _i
    cdef int rc
    for _i in range(3):
        rc = fifo_push(t.a, token, False) if me < 2 else fifo_pop(t.a, &token, False)
        while rc != RING_OK:
            epoch = event_prepare(mine)
            rc = fifo_push(t.a, token, False) if me < 2 else fifo_pop(t.a, &token, False)
            if rc == RING_OK:
                event_cancel(mine, epoch)
            else:
                event_wait(mine, epoch, -1)
                rc = fifo_push(t.a, token, False) if me < 2 else fifo_pop(t.a, &token, False)
        event_notify(theirs, 1)


cdef void _park_slots(void* context, int me) noexcept nogil:
    # As _park, through two slots that go from a stack of empty ones to one of full ones and back. The stacks' orders
    # are weaker than the ring's, so that all depends on those of the event counts.
    cdef Trial* t = <Trial*>context
    cdef SlotStack* source = t.slots if me < 2 else t.full
    cdef EventCount* mine = t.drained if me < 2 else t.filled
    cdef uint32_t slot = 0, epoch
    cdef int _i
    cdef bint have
    for _i in range(3):
        have = slots_pop(source, &slot)
        while not have:
            epoch = event_prepare(mine)
            have = slots_pop(source, &slot)
            if have:
                event_cancel(mine, epoch)
            else:
                event_wait(mine, epoch, -1)
                have = slots_pop(source, &slot)
        slots_push(t.full if me < 2 else t.slots, slot)
        event_notify(t.filled if me < 2 else t.drained, 1)


cdef void _mutex(void* context, int me) noexcept nogil:
    cdef Trial* t = <Trial*>context
    cdef int _i
    for _i in range(3):
        turn_take(t.turn)
        t.rows[0].set(t.rows[0].get() + 1)
        turn_give(t.turn)


cdef void _slots(void* context, int me) noexcept nogil:
    # Three threads, two slots: a holder writes to its slot, and reads what the last one wrote.
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
    cdef int rc
    cdef int64_t calls = 0, good_count = 0
    if me == 0:
        if t.kind == 5:
            fifo_own_pops(t.a)
        elif t.kind == 7:
            fifo_own_pushes(t.a)
        arm(True)
        if t.kind == 0:
            fifo_push(t.a, 1, False)
        elif t.kind == 1:
            fifo_pop(t.a, &token, False)
        elif t.kind == 2:
            fifo_pop_many(t.a, tokens, 3, False)
        elif t.kind == 3:
            fifo_seal(t.a)
        elif t.kind == 4:
            fifo_own_pops(t.a)
        elif t.kind == 5:
            fifo_disown_pops(t.a)
        elif t.kind == 6:
            fifo_own_pushes(t.a)
        elif t.kind == 7:
            fifo_disown_pushes(t.a)
        elif t.kind == 8:
            fifo_outside(t.a, 1)
        arm(False)
        if t.kind == 4:
            fifo_disown_pops(t.a)
        elif t.kind == 6:
            fifo_disown_pushes(t.a)
        t.answer[0] = 1
        return
    while calls < 20 * t.want and good_count < t.want and not t.answer[0]:
        rc = fifo_push(t.a, 1, False) if me < 3 else fifo_pop(t.a, &token, False)
        if suspended():
            calls += 1
            t.calls += 1
            good_count += rc == RING_OK
            t.good += rc == RING_OK
        if rc != RING_OK:
            cpu_pause()


cdef void _set_up(Trial* t, uint64_t seed, uint32_t capacity, bint light) noexcept nogil:
    cdef uint32_t i
    cdef uint64_t start = start_of(seed)
    t.a = <FifoRing*>alloc_lines(sizeof(FifoRing))
    t.b = <FifoRing*>alloc_lines(sizeof(FifoRing))
    t.filled = <EventCount*>alloc_lines(sizeof(EventCount))
    t.drained = <EventCount*>alloc_lines(sizeof(EventCount))
    t.filled.light = t.drained.light = light
    t.turn = <Turn*>alloc_lines(sizeof(Turn))
    t.slots = <SlotStack*>alloc_lines(sizeof(SlotStack))
    t.slots.next = <Atomic[uint32_t]*>alloc_lines(2 * sizeof(uint32_t))
    t.full = <SlotStack*>alloc_lines(sizeof(SlotStack))
    t.full.next = <Atomic[uint32_t]*>alloc_lines(2 * sizeof(uint32_t))
    t.pool = <SlotPool*>alloc_lines(sizeof(SlotPool))
    pool_init(t.pool, 1, 0, False)
    t.stops = <StopFlag*>alloc_lines(2 * sizeof(StopFlag))
    t.stopped_at = <Atomic[int64_t]*>alloc_lines(sizeof(int64_t))
    t.window = <Window*>alloc_lines(sizeof(Window))
    t.ending = <Ending*>alloc_lines(sizeof(Ending))
    t.window.arrived.light = light
    t.rows = <Plain[int64_t]*>calloc(MOST_ROWS, sizeof(int64_t))
    fifo_init(t.a, capacity, start)
    fifo_init(t.b, capacity, start)
    window_init(t.window, 2, 1)
    for i in range(2):
        slots_push(t.slots, i)


cdef void _tear_down(Trial* t) noexcept nogil:
    fifo_free(t.a)
    fifo_free(t.b)
    window_free(t.window)
    free(t.slots.next)
    free(t.full.next)
    pool_free(t.pool)
    free(t.pool)
    free(t.stops)
    free(t.stopped_at)
    free(t.a)
    free(t.b)
    free(t.filled)
    free(t.drained)
    free(t.turn)
    free(t.slots)
    free(t.full)
    free(t.window)
    free(t.ending)
    free(t.rows)


cdef void _stop(void* context, int me) noexcept nogil:
    # Two set one flag, each with a fault, after the first of them has set another one and an event without; two look.
    # A thread that sees a stop, or whose fault it was, sees what came before, and that fault whole.
    cdef Trial* t = <Trial*>context
    cdef Fault fault
    cdef const Fault* first = NULL
    if me < 2:
        memset(&fault, 0, sizeof(fault))
        fault.code = 1 + me
        fault.b = 10 + me
        if me == 0:
            t.rows[2].set(7)
            stop_set(&t.stops[1], NULL)
            t.rows[3].set(8)
            stop_event_set(t.stopped_at, 5)
        t.rows[me].set(1 + me)
        if stop_set(&t.stops[0], &fault):
            t.good += 1
        return
    if me == 2:
        while not stop_requested(&t.stops[1]):
            cpu_pause()
        if t.rows[2].get() != 7 or stop_fault(&t.stops[1]) != NULL:
            wrong(1)
        while stop_event_at(t.stopped_at) == 0:
            cpu_pause()
        if t.rows[3].get() != 8 or stop_event_set(t.stopped_at, 6):
            wrong(2)
        while not stop_requested(&t.stops[0]):
            cpu_pause()
        first = stop_fault(&t.stops[0])
        if first == NULL:  # the cause is lost
            wrong(3)
    while first == NULL:
        first = stop_fault(&t.stops[0])
        cpu_pause()
    if t.rows[first.code - 1].get() != first.code or first.b != 9 + first.code or not stop_requested(&t.stops[0]):
        wrong(4)


cdef bint _ending_take(Trial* t, int me, uint32_t* token) noexcept nogil:
    if me == 2:
        return slots_pop(t.full, token)
    return fifo_pop(t.a if me == 0 else t.b, token, False) == RING_OK


cdef void _ending_give(Trial* t, int to, uint32_t token) noexcept nogil:
    # Ends when it sees that there is room; a stack always has some.
    if to == 2:
        slots_push(t.full, token)
    else:
        while fifo_push(t.a if to == 0 else t.b, token, False) != RING_OK:
            cpu_pause()


cdef void _ends(void* context, int me) noexcept nogil:
    # Three hand two tokens to each other, each for a while, and keep one back for a while as well: the third, native,
    # gives that out in its first look since a phase began, which finds nothing. `want` are those that are on their way;
    # nobody may be told that nothing comes before there are none. By `kind`, the second one gets no more than the first
    # token, and ends with it.
    cdef Trial* t = <Trial*>context
    cdef uint64_t[2] threads
    cdef uint32_t token = 0
    cdef int32_t n, i
    cdef bint is_over = False, began
    if me == 2:
        _ending_give(t, <int>random(2), 0)
    while not is_over and not (t.gone[0] and t.gone[1]):
        began = t.ending.phase > 0
        if _ending_take(t, me, &token):
            if t.calls > 0:
                t.calls -= 1
                if me == 1 and t.kind:
                    _ending_give(t, 2 * <int>random(2), token)
                    break
                n = (me + 1 + <int>random(2)) % 3
                _ending_give(t, 2 - me if n == 1 and t.kind else n, token)
            else:
                t.want -= 1
            ending_mark(t.ending, 1 + me)
            continue
        if me == 2:
            if t.good and began:
                t.good = 0
                _ending_give(t, 0, 1)
            ending_note(t.ending, 1 + me, True)
        else:
            is_over = ending_note(t.ending, 1 + me, False)
            if is_over and t.want > 0:
                wrong(1)
            n = 0
            turn_take(t.turn)  # as the GIL, which one also needs for its end
            for i in range(2):
                if not t.gone[i]:
                    threads[n] = 1 + i
                    n += 1
            if ending_decide(t.ending, threads, n, 1, t.ending_notes, t.ending_phases) and t.want > 0:
                wrong(2)
            turn_give(t.turn)
        cpu_pause()
    if me < 2:
        turn_take(t.turn)
        t.gone[me] = True
        turn_give(t.turn)


cdef bint _pool_whole(Trial* t) noexcept nogil:
    # Each slot is in it once, and all that was written was written to one of them.
    cdef uint32_t slot = 0
    cdef int64_t sum = 0, count = 0
    while pool_pop(t.pool, &slot):
        sum += t.rows[slot].get()
        count += 1
        t.rows[slot].set(-100)
    return sum == 18 and count == <int64_t>t.pool.made.load(kRelaxed)


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
    PARK_SLOTS
    PARK_LIGHT
    MUTEX
    SLOTS
    POOL
    STOP
    WINDOW
    BOTH_OUTSIDE
    PUSH_TURNS
    ENDING


SCENARIOS = ("flow", "own", "both_empty", "both_full", "seal", "turns", "park_fifo", "park_slots", "park_light",
             "mutex",
             "slots", "pool", "stop", "window", "both_outside", "push_turns", "ending")
# With a mistake that some schedule shows.
BROKEN = ("ending_one_note", "ending_one_phase")

cdef int[19] _fibres = [4, 3, 2, 2, 4, 4, 4, 4, 4, 3, 3, 3, 4, 3, 2, 5, 3, 3, 3]
cdef uint32_t[19] _capacities = [2, 3, 1, 1, 2, 12, 2, 2, 2, 2, 2, 2, 2, 2, 1, 3, 2, 2, 2]
cdef Scenario[19] _scenarios = [
    _flow, _own, _both_empty, _both_full, _seal, _turns, _park, _park_slots, _park_slots, _mutex, _slots, _pool, _stop,
    _window, _both_outside, _push_turns, _ends, _ends, _ends]


cdef int _try(int index, uint64_t seed, int* check) noexcept nogil:
    # One schedule of one scenario: its verdict, after a look at what it left behind.
    cdef Trial t
    cdef int verdict
    cdef int64_t i
    memset(&t, 0, sizeof(t))
    _set_up(&t, seed, _capacities[index], index == PARK_LIGHT)
    if index == BOTH_FULL:
        fifo_push(t.a, 0, False)
        fifo_push(t.b, 0, False)
    if index == BOTH_OUTSIDE:
        fifo_outside(t.a, 1)
        fifo_outside(t.b, 1)
    if index == TURNS:
        for i in range(12):
            fifo_push(t.a, <uint32_t>i, False)
    if index >= ENDING:
        t.ending_notes = 1 if index == ENDING + 1 else NOTES
        t.ending_phases = 1 if index == ENDING + 2 else PHASES
        t.calls = 4
        t.want = 2
        t.good = 1
        t.kind = seed & 1
    verdict = run_schedule(seed, _fibres[index], _scenarios[index], &t, 20000)
    check[0] = what()
    if verdict == 0:
        if index == BOTH_EMPTY and t.answer[0] == RING_EMPTY and t.answer[1] == RING_EMPTY:
            check[0] = 20
        elif index == BOTH_FULL and t.answer[0] == RING_FULL and t.answer[1] == RING_FULL:
            check[0] = 21
        elif index == BOTH_OUTSIDE and t.answer[0] == RING_FULL and t.answer[1] == RING_FULL:
            check[0] = 28
        elif index == PUSH_TURNS and t.rows[0].get() != 8:
            check[0] = 29
        elif index == SEALING and t.pushed != t.popped:
            check[0] = 22
        elif index == TURNS and t.popped != 12:
            check[0] = 23
        elif index == MUTEX and t.rows[0].get() != 9:
            check[0] = 24
        elif index == POOL and not _pool_whole(&t):
            check[0] = 26
        elif index == STOP and t.good != 1:
            check[0] = 27
        elif index == SLOTS and t.rows[0].get() + t.rows[1].get() != 9:
            check[0] = 25
        verdict = 1 if check[0] else 0
    _tear_down(&t)
    return verdict


def explore(str scenario, uint64_t first, uint64_t count, relaxed=(), unordered=()):
    """Run a scenario under the schedules of the seeds from ``first`` on, with the orders of some edges weakened.

    Parameters
    ----------
    scenario : str
        One of SCENARIOS or BROKEN.
    relaxed : sequence of str
        Edges that become relaxed.
    unordered : sequence of str
        Edges that lose their place in the one order of all seq_cst operations, and stay acquire and release.

    Returns
    -------
    tuple or None
        Of the first schedule that went wrong: seed, verdict, which check of the scenario failed. None: all were fine.
    """
    cdef int index = (*SCENARIOS, *BROKEN).index(scenario), verdict = 0, check = 0
    cdef uint64_t seed = first
    weaken(EDGES, relaxed, unordered)
    with nogil:
        while seed < first + count:
            verdict = _try(index, seed, &check)
            if verdict != 0:
                break
            seed += 1
        mutate(0, kRelaxed)
    return None if verdict == 0 else (seed, VERDICTS[verdict], check)


def history(uint64_t seed, unordered=()):
    """Return what three threads did to a ring of one or two, and how many rows were outside at first.

    Of each call (begin, end, call, its tokens, answer). Of every third seed there is one row outside for each thread,
    and none comes back.
    """
    cdef Trial t
    cdef int i, k, verdict
    memset(&t, 0, sizeof(t))
    weaken(EDGES, (), unordered)
    _set_up(&t, seed, 1 + seed % 2, False)
    t.kind = seed % 3
    if t.kind == 0:
        fifo_outside(t.a, 3)
        for i in range(3):
            t.seen[i] = 1
    verdict = run_schedule(seed, 3, _history, &t, 20000)
    _tear_down(&t)
    mutate(0, kRelaxed)
    if verdict != 0:
        raise AssertionError(VERDICTS[verdict])
    calls = []
    for i in range(9):
        call = t.calls_made[i]
        name = "push" if call.what < 4 else "pop" if call.what < 7 else ("seal", "more", "less")[call.what - 7]
        tokens = [call.token] if name == "push" else []
        if name == "pop":
            tokens = [call.tokens[k] for k in range(max(0, call.answer))]
        answer = bool(call.answer) if name == "seal" else None if name in ("more",
                                                                           "less") else ANSWERS[min(call.answer, 1)]
        calls.append((call.begin, call.end, name, tuple(tokens), answer))
    return 1 + seed % 2, 0 if t.kind else 3, calls


CALLS = ("push", "pop", "pop_many", "seal", "turn_take", "turn_give", "push_turn_take", "push_turn_give", "outside")


def suspend_in(str call, uint64_t position, uint64_t seed, int64_t want, int32_t filled):
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
        for _i in range(filled):
            fifo_push(t.a, 1, False)
        suspend(0, position)
        verdict = run_schedule(seed, 5, _crowd, &t, <uint64_t>want * 2000)
        suspend(0, 0)
        _tear_down(&t)
    names = None
    if suspended():
        names = labels(EDGES)
    return VERDICTS[verdict], names, t.calls, t.good
