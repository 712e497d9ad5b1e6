"""The hand-off of queues, and its pool of slots, under the seeded scheduler. See schedule.pxd."""
from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t
from libc.string cimport memcmp, memset
from queuecore._core.atoms.memory cimport free, malloc
from queuecore._core.handoff.handoff cimport (
    HAND_BUSY, HAND_CANCELLED, HAND_CLOSED, HAND_DONE, HAND_SLICE, SIDE_GET, SIDE_PUT, STORE_FIFO, STORE_PRIORITY,
    STORE_RANDOM, BagRow, FrontRun, Hand, QueueOp, store_pop, get_try, hand_cancel, hand_free, hand_init, hand_leave,
    hand_puts, hand_refill, hand_return, hand_settle, hand_size, hand_unsettled, hand_wait, put_try)
from queuecore._core.atoms.platform cimport FifoRing, Plain, alloc_lines, cpu_pause, kRelaxed, monotonic_ns
from queuecore._core.atoms.pool cimport SlotPool, pool_free, pool_grow, pool_init, pool_pop, pool_push
from queuecore._core.atoms.random cimport Philox, philox_seed
from queuecore._core.atoms.ring cimport RING_OK
from queuecore._core.testing.schedule cimport (
    MOST_ROWS, Call, arm, labels, mutate, random, resume, run_schedule, start_of, suspend, suspended, weaken, what,
    wrong)

from queuecore._core.testing.schedule_atoms import EDGES, VERDICTS

cdef extern from "malloc.h" nogil:
    size_t malloc_usable_size(void*) noexcept

# The queues' scenarios: kind, capacity, least (min_after_dequeue), and what each thread calls (_hand_step).
SCENARIOS = {
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
    "grow_late": ("fifo", -1, 0, ("QQ", "ggg", "wg", "wg", "wg")),
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


cdef enum:
    MOST_OPS = 64
    MOST_LETTERS = 24
    EACH = 10  # tokens of one fibre; the last rows are nobody's

# A scenario is a script for each fibre, one letter a call; _hand_step says which is what.
cdef struct HandTrial:
    Hand* hand
    Philox* random
    Plain[int64_t]* rows
    QueueOp* ops
    QueueOp* ends                  # what each looked like when its thread left it
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
    SlotPool* pool
    # threads that may be suspended, that were at once, that were not, and others at their end
    int victims, stopped, ended, through
    uint64_t put_first
    int64_t now
    Call[16] calls
    bint ready, ordered, one_puts, one_takes, one_closes, closing, gently, closed, drained
    char[6][MOST_LETTERS] scripts


cdef QueueOp* _hand_op(HandTrial* t, int64_t n, uint32_t* tokens) noexcept nogil:
    cdef QueueOp* op = &t.ops[t.op_count]
    if t.op_count == MOST_OPS - 1:
        wrong(99)
    t.op_count += 1
    op.n = n
    op.tokens = tokens
    return op


cdef void _hand_over(HandTrial* t, QueueOp* op) noexcept nogil:
    # From now on nobody may write to it: on a thread's own stack there would be something else.
    t.ends[op - t.ops] = op[0]
    t.over[op - t.ops] = True


cdef int _hand_await(HandTrial* t, int side, QueueOp* op, int64_t deadline) noexcept nogil:
    cdef int rc = HAND_SLICE
    while rc == HAND_SLICE:
        rc = hand_wait(t.hand, side, t.random, op, deadline)
        if rc == HAND_SLICE and 0 <= deadline <= monotonic_ns():
            return hand_leave(t.hand, side, t.random, op)
    return rc


cdef void _hand_close(HandTrial* t, bint gently) noexcept nogil:
    cdef QueueOp* op
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
    # A thread that is told that the queue is closed must see all writes before the close.
    if t.one_closes and t.rows[MOST_ROWS - 1].get() != 7:
        wrong(5)


cdef void _hand_put(HandTrial* t, int me, int64_t n, int64_t more_rows, bint timed) noexcept nogil:
    # n rows as one piece, and `more_rows` as a second one.
    cdef int64_t first = EACH * me + t.used[me]
    cdef int64_t i, done = 0
    cdef bint is_late = t.closed
    cdef int rc = HAND_BUSY
    cdef QueueOp* op
    t.used[me] += n + more_rows
    for i in range(n):
        t.rows[first + i].set(first + i + 1)
    for i in range(n + more_rows):
        t.until[first + i] = first + n + more_rows - 1
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
        op.more = more_rows > 0
        rc = _hand_await(t, SIDE_PUT, op, monotonic_ns() + <int64_t>random(600) if timed else -1)
        done = op.done
        if more_rows > 0 and rc == HAND_DONE:
            for i in range(n, n + more_rows):
                t.rows[first + i].set(first + i + 1)
            op.tokens = &t.names[first + n]
            op.keys = &t.keys[first + n]
            hand_refill(t.hand, t.random, op, more_rows, False)
            rc = _hand_await(t, SIDE_PUT, op, -1)
            done += op.done
        hand_leave(t.hand, SIDE_PUT, t.random, op)
        if rc == HAND_CLOSED and op.early and not t.gently:
            wrong(14)
        _hand_over(t, op)
    if rc == HAND_CLOSED or rc == HAND_CANCELLED:
        _hand_refused(t)
    if rc == HAND_DONE and (done != n + more_rows or is_late):
        wrong(10)
    if rc == HAND_BUSY or (rc == HAND_SLICE and not timed) or (rc == HAND_CLOSED
                                                               or rc == HAND_CANCELLED) and not t.closing:
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
    cdef QueueOp* op
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
    if rc == HAND_BUSY or rc == HAND_CANCELLED or (rc == HAND_SLICE and not timed) or (rc == HAND_CLOSED
                                                                                       and not t.closing):
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


cdef void _hand_step(HandTrial* t, int me, char letter) noexcept nogil:
    cdef int _i
    if letter == b'p':    # put one row; P: two, Q: three, M: four in two pieces; t: one, with a deadline, T: three
        _hand_put(t, me, 1, 0, False)
    elif letter == b'P':
        _hand_put(t, me, 2, 0, False)
    elif letter == b'Q':
        _hand_put(t, me, 3, 0, False)
    elif letter == b'M':
        _hand_put(t, me, 2, 2, False)
    elif letter == b't':
        _hand_put(t, me, 1, 0, True)
    elif letter == b'T':
        _hand_put(t, me, 3, 0, True)
    elif letter == b'g':  # get one; G: two, H: three, U: up to three; i: one, with a deadline, h: two
        _hand_get(t, me, 1, False, False, False)
    elif letter == b'G':
        _hand_get(t, me, 2, False, False, False)
    elif letter == b'H':
        _hand_get(t, me, 3, False, False, False)
    elif letter == b'U':
        _hand_get(t, me, 3, True, False, False)
    elif letter == b'i':
        _hand_get(t, me, 1, False, True, False)
    elif letter == b'h':
        _hand_get(t, me, 2, False, True, False)
    elif letter == b'L':  # get two, look at them, give them back
        _hand_get(t, me, 2, False, False, True)
    elif letter == b'D':  # get one by one until it is closed
        while _hand_get(t, me, 1, False, False, False) == HAND_DONE:
            pass
        t.drained = True
    elif letter == b'c':  # close behind the puts that wait; C: at once
        _hand_close(t, True)
    elif letter == b'C':
        _hand_close(t, False)
    elif letter == b's':
        if hand_size(t.hand) < 0:
            wrong(30)
    elif letter == b'w':  # stay away for a while
        for _i in range(50):
            cpu_pause()


cdef void _hand_script(void* context, int me) noexcept nogil:
    cdef HandTrial* t = <HandTrial*>context
    cdef const char* p = t.scripts[me]
    while p[0]:
        _hand_step(t, me, p[0])
        p += 1


cdef int _hand_left(HandTrial* t) noexcept nogil:
    # Checks the conditions that hold when all threads have ended. Returns the number of the check that fails, or 0.
    cdef Hand* h = t.hand
    cdef FrontRun* run = h.front
    cdef int64_t left, rows = 0, i
    cdef uint32_t token = 0
    for i in range(2):
        if h.side[i].first != NULL or h.side[i].last != NULL or h.side[i].waiting.load(kRelaxed) != 0:
            return 40
        if h.side[i].owned != (i == SIDE_GET and run != NULL):
            return 41
        if h.side[i].lock.word.load(kRelaxed) != 0 or h.side[i].parked.load(kRelaxed) != 0:
            return 42
    for i in range(t.op_count):
        if not t.over[i] or memcmp(&t.ops[i], &t.ends[i], sizeof(QueueOp)):
            return 43
    if h.put_owned or (t.store == STORE_FIFO and (<FifoRing*>h.tail_ring.load(kRelaxed)).tail.load(kRelaxed) & 1):
        return 44
    if hand_puts(h) != t.put:
        return 50
    if t.capacity > 0 and h.ring_count > 1:
        return 48  # a queue with a bound has grown
    left = hand_size(h)
    while run != NULL:
        for i in range(run.at, run.n):
            t.taken[run.tokens[i]] += 1
            left -= 1
            rows += 1
        run = run.next
    h.least = 0
    while store_pop(h, t.random, &token, True) == RING_OK:
        t.taken[token] += 1
        left -= 1
        rows += 1
    if left != 0:
        return 45
    if t.store != STORE_FIFO and malloc_usable_size(h.bag) < h.room * sizeof(BagRow):
        return 49
    if t.drained and rows and t.ordered:
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
    t.ops = <QueueOp*>alloc_lines(MOST_OPS * sizeof(QueueOp))
    t.ends = <QueueOp*>alloc_lines(MOST_OPS * sizeof(QueueOp))
    philox_seed(t.random, seed, 0)
    # An unbounded store begins small, so that a few rows make it grow a few times.
    hand_init(t.hand, t.store, t.capacity if t.capacity > 0 else 2, t.least, start_of(seed))
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
    verdict = run_schedule(seed, fibres, _hand_script, &t, 50000)
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
        One of SCENARIOS, or what one is made of.
    relaxed : sequence of str
        Edges that become relaxed.
    unordered : sequence of str
        Edges that lose their place in the one order of all seq_cst operations, and stay acquire and release.

    Returns
    -------
    tuple or None
        Of the first schedule that went wrong: seed, verdict, which check of the scenario failed. None: all were fine.
    """
    cdef int fibres, verdict = 0, check = 0
    cdef uint64_t seed = first
    cdef HandTrial model
    scenario = SCENARIOS.get(scenario, scenario)
    memset(&model, 0, sizeof(model))
    fibres = _hand_model(&model, scenario)
    weaken(EDGES, relaxed, unordered)
    with nogil:
        while seed < first + count:
            verdict = _hand_try(&model, seed, fibres, &check)
            if verdict != 0:
                break
            seed += 1
        mutate(0, kRelaxed)
    return None if verdict == 0 else (seed, VERDICTS[verdict], check)


cdef bint _all_stopped(HandTrial* t) noexcept nogil:
    return suspended() + t.ended == t.victims


cdef void _victim(HandTrial* t, int me) noexcept nogil:
    # One call, within which it may be suspended. A settler first puts two operations in line, which then can go on.
    cdef uint32_t token = 0
    cdef int side = SIDE_PUT if hand_size(t.hand) == t.capacity else SIDE_GET
    cdef int i, _i
    cdef QueueOp* op
    if t.kind == 2 and me == 0:
        for i in range(2):
            op = _hand_op(t, 1, &t.names[i])
            hand_wait(t.hand, side, t.random, op, 0)
        for _i in range(2):
            if side == SIDE_GET:
                put_try(t.hand, 1, 0)
            else:
                get_try(t.hand, t.random, &token)
        t.ready = True
    while t.kind == 2 and not t.ready:
        cpu_pause()
    arm(True)
    if t.kind == 0:
        put_try(t.hand, 1, 0)
    elif t.kind == 1:
        get_try(t.hand, t.random, &token)
    else:
        hand_settle(t.hand, t.random)
    arm(False)
    t.ended += 1


cdef void _hand_crowd(void* context, int me) noexcept nogil:
    # As _crowd, of a queue, with several that may be suspended.
    cdef HandTrial* t = <HandTrial*>context
    cdef uint32_t token = 0
    cdef int64_t calls = 0, good_count = 0
    cdef int rc = HAND_DONE
    if me < t.victims:
        _victim(t, me)
        return
    while t.kind == 2 and not t.ready:
        cpu_pause()
    while calls < 20 * t.wanted and good_count < t.wanted and t.ended < t.victims:
        if t.kind == 2:
            hand_settle(t.hand, t.random)
        elif (me - t.victims) % 2 == 0:
            rc = put_try(t.hand, 1, 0)
        else:
            rc = get_try(t.hand, t.random, &token)
        if rc == HAND_DONE and hand_unsettled(t.hand) and t.kind < 2:
            wrong(1)
        if _all_stopped(t):
            calls += 1
            good_count += rc == HAND_DONE
            t.put += rc == HAND_DONE
        if rc != HAND_DONE or not _all_stopped(t):
            cpu_pause()


HAND_CALLS = ("put_try", "get_try", "hand_settle")


def suspend_hand(str call, places, uint64_t seed, int64_t want, int32_t filled, int64_t capacity, int others):
    """Suspend some threads for good, each in a call of a FIFO queue's hand-off, before the operation of that number of
    its `places`.

    Of the others, half put and half get, and nobody is in line. Or two operations that can go on are, the call is
    ``hand_settle``, and so are those of the others. Returns the verdict, the labels (None: not all were suspended), and
    how many calls the others have succeeded with since the last one was.
    """
    cdef HandTrial t
    cdef int verdict, i
    cdef int32_t _i
    cdef uint64_t position
    memset(&t, 0, sizeof(t))
    t.kind = HAND_CALLS.index(call)
    t.capacity = capacity
    t.wanted = want
    t.victims = len(places)
    for i, position in enumerate(places):
        suspend(i, position)
    with nogil:
        _hand_set_up(&t, seed)
        for _i in range(filled):
            put_try(t.hand, 1, 0)
        verdict = run_schedule(seed, t.victims + others, _hand_crowd, &t, <uint64_t>want * 2000)
        for i in range(t.victims):
            suspend(i, 0)
        _hand_tear_down(&t)
    names = None
    if suspended() == t.victims:
        names = labels(EDGES)
    return VERDICTS[verdict], names, t.put


cdef void _hand_call(HandTrial* t, int number, bint puts, bint stops) noexcept nogil:
    # A call that is written down: when it began, when it ended, what it gave.
    cdef Call* call = &t.calls[number]
    call.what = puts
    call.token = number
    call.begin = t.now
    t.now += 1
    arm(stops)
    call.answer = put_try(t.hand, number, 0) if puts else get_try(t.hand, t.random, call.tokens)
    arm(False)
    call.end = t.now
    t.now += 1


cdef void _hand_stopped(void* context, int me) noexcept nogil:
    # Some threads make one call each, in which they may be suspended. When all of them are, or have ended, the others
    # make three calls at random. Then those go on.
    cdef HandTrial* t = <HandTrial*>context
    cdef int i
    if me < t.victims:
        _hand_call(t, me, t.put_first >> me & 1, True)
        t.ended += 1
        return
    while not _all_stopped(t):
        cpu_pause()
    if suspended() > t.stopped:
        t.stopped = suspended()
    for i in range(3):
        _hand_call(t, t.victims + 3 * (me - t.victims) + i, random(2), False)
    t.through += 1
    if t.through == 2:
        resume()


def stopped_history(places, uint64_t puts, uint64_t seed, int32_t filled, int64_t capacity):
    """Return what some threads that were suspended for a while and two others did to a FIFO queue.

    Each of the first is suspended before that operation of its only call; it puts if its bit of ``puts`` is set, else
    it gets. Returns how many were suspended at once, and (begin, end, call, its tokens, answer) of each call, the rows
    that were there first included.
    """
    cdef HandTrial t
    cdef Call* call
    cdef int verdict, i
    cdef uint64_t position
    memset(&t, 0, sizeof(t))
    t.capacity = capacity
    t.victims = len(places)
    t.put_first = puts
    for i, position in enumerate(places):
        suspend(i, position)
    with nogil:
        _hand_set_up(&t, seed)
        for i in range(filled):
            put_try(t.hand, 60 + i, 0)
        verdict = run_schedule(seed, t.victims + 2, _hand_stopped, &t, 20000)
        for i in range(t.victims):
            suspend(i, 0)
        _hand_tear_down(&t)
    if verdict != 0:
        raise AssertionError(VERDICTS[verdict])
    calls = [(2 * i - 100, 2 * i - 99, "push", (60 + i,), "ok") for i in range(filled)]
    for i in range(t.victims + 6):
        call = &t.calls[i]
        good = call.answer == HAND_DONE
        tokens = (call.token,) if call.what else (call.tokens[0],) if good else ()
        calls.append((call.begin, call.end, "push" if call.what else "pop", tokens,
                      "ok" if good else "full" if call.what else "empty"))
    return t.stopped, calls


def suspend_in_pool(places, uint64_t seed, int64_t want):
    """Suspend some threads for good, each while it takes a slot of a pool and gives it back.

    Returns as suspend_hand, of one other.
    """
    cdef HandTrial t
    cdef SlotPool* pool
    cdef int verdict, i
    cdef uint64_t at
    memset(&t, 0, sizeof(t))
    t.wanted = want
    t.victims = len(places)
    for i, at in enumerate(places):
        suspend(i, at)
    with nogil:
        pool = <SlotPool*>alloc_lines(sizeof(SlotPool))
        pool_init(pool, 1, 64, False)
        t.pool = pool
        verdict = run_schedule(seed, t.victims + 1, _pool_crowd, &t, <uint64_t>want * 2000)
        for i in range(t.victims):
            suspend(i, 0)
        pool_free(pool)
        free(pool)
    names = None
    if suspended() == t.victims:
        names = labels(EDGES)
    return VERDICTS[verdict], names, t.put


cdef void _pool_crowd(void* context, int me) noexcept nogil:
    cdef HandTrial* t = <HandTrial*>context
    cdef uint32_t[3] slots
    cdef int i
    if me < t.victims:
        arm(True)
    while t.ended < t.victims and t.put < 3 * t.wanted:
        for i in range(3):
            while not pool_pop(t.pool, &slots[i]):
                pool_grow(t.pool)
        for i in range(3):
            pool_push(t.pool, slots[i])
        if me < t.victims:
            break
        if _all_stopped(t):
            t.put += 3
        else:
            cpu_pause()
    if me < t.victims:
        arm(False)
        t.ended += 1
