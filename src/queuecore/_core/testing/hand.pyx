"""The hand-off of queues: under load by native threads, and with histories of what came of each call.

A history's threads run whole programs of calls without the GIL, as queues.pyx would make them of the slots that it has
filled.
"""
cimport cython
from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t
from libc.string cimport memset
from queuecore._core.atoms.memory cimport calloc, free, malloc
from queuecore._core.atoms.process cimport check_layout
from queuecore._core.handoff.handoff cimport (
    HAND_CLOSED, HAND_DONE, HAND_SLICE, SIDE_GET, SIDE_PUT, STORE_FIFO, STORE_PRIORITY, STORE_RANDOM, FrontRun, Hand,
    QueueOp, get_try, hand_cancel, hand_free, hand_init, hand_leave, hand_refill, hand_settle, hand_size, hand_wait,
    put_try)
from queuecore._core.atoms.platform cimport (
    Atomic, alloc_lines, kAcqRel, kAcquire, kRelaxed, kRelease, kSeqCst, layout_hash, monotonic_ns)
from queuecore._core.atoms.pool cimport SlotPool, pool_free, pool_grow, pool_init, pool_pop, pool_push, pool_row
from queuecore._core.atoms.random cimport Philox, philox_seed
from queuecore._core.atoms.runtime cimport STEP_DONE, runner_join, runner_start
from queuecore._core.testing.load cimport Job, job_free, job_new, no_reference

check_layout(layout_hash())

# The hand-off of queues: single calls past the lines, pieces of several rows, waits that run out, a close.

cdef extern from *:
    """
    namespace queuecore {
    struct HandJob {
      Hand* hand;
      SlotPool* pool;
      void* random;
      int32_t putters;
      int64_t rounds;
      Atomic<int32_t> putting;
      Atomic<int64_t> taken, disorder, clock;
    };
    }  // namespace queuecore
    """
    cppclass HandJob "queuecore::HandJob":
        Hand* hand
        SlotPool* pool
        void* random
        int32_t putters
        int64_t rounds
        Atomic[int32_t] putting
        Atomic[int64_t] taken
        Atomic[int64_t] disorder
        Atomic[int64_t] clock

cdef enum:
    HAND_PIECE = 3


cdef uint32_t _hand_slot(HandJob* job, int64_t value) noexcept nogil:
    cdef uint32_t slot = 0
    while not pool_pop(job.pool, &slot):
        pool_grow(job.pool)
    (<int64_t*>pool_row(job.pool, slot))[0] = value
    return slot


cdef int _hand_wait(HandJob* job, int side, QueueOp* op, bint hurried) noexcept nogil:
    cdef int rc = HAND_SLICE
    while rc == HAND_SLICE:
        rc = hand_wait(job.hand, side, <Philox*>job.random, op, monotonic_ns() + (20000 if hurried else 50000000))
        if rc == HAND_SLICE and hurried:
            return hand_leave(job.hand, side, <Philox*>job.random, op)
    return rc


cdef void _hand_put(HandJob* job, int32_t worker) noexcept nogil:
    cdef uint32_t tokens[HAND_PIECE]
    cdef QueueOp* op
    cdef int64_t i = 0, n, k, done
    cdef int rc
    while i < job.rounds:
        n = HAND_PIECE if i % 5 == 0 and i + HAND_PIECE <= job.rounds else 1
        for k in range(n):
            tokens[k] = _hand_slot(job, <int64_t>worker << 32 | (i + k))
        done = 0
        if n == 1:
            rc = put_try(job.hand, tokens[0], i)
            if rc == HAND_DONE:
                hand_settle(job.hand, <Philox*>job.random)
                done = 1
        while done < n:
            op = new QueueOp()
            op.tokens = tokens + done
            op.n = n - done
            _hand_wait(job, SIDE_PUT, op, i % 7 == 0)
            done += op.done  # rows that are in stay in when the time runs out
            del op
        i += n
    if job.putting.fetch_sub(1, kAcqRel) == 1:  # acq_rel: the close comes after all rows of all threads
        op = new QueueOp()
        op.closes = True
        _hand_wait(job, SIDE_PUT, op, False)
        del op


cdef void _hand_get(HandJob* job) noexcept nogil:
    cdef int64_t last[8]
    cdef uint32_t tokens[HAND_PIECE]
    cdef FrontRun* run
    cdef QueueOp* op
    cdef int64_t i = 0, k, n, value, taken_count = 0, disorder = 0
    cdef int rc
    memset(last, 255, sizeof(last))
    while True:
        i += 1
        n = 0
        if i % 3:
            rc = get_try(job.hand, <Philox*>job.random, tokens)
            if rc == HAND_DONE:
                hand_settle(job.hand, <Philox*>job.random)
                n = 1
        if n == 0:
            run = <FrontRun*>malloc(sizeof(FrontRun) + HAND_PIECE * sizeof(uint32_t))
            op = new QueueOp()
            op.run = run
            op.tokens = run.tokens
            op.n = 1 if i % 3 else HAND_PIECE
            op.up_to = i % 2 == 0
            rc = _hand_wait(job, SIDE_GET, op, i % 4 == 0)
            n = op.done if rc == HAND_DONE else 0
            for k in range(n):
                tokens[k] = op.tokens[k]
            free(op.run)  # NULL: the queue has it
            del op
        for k in range(n):
            value = (<int64_t*>pool_row(job.pool, tokens[k]))[0]
            pool_push(job.pool, tokens[k])
            if <int64_t><uint32_t>value <= last[value >> 32]:
                disorder += 1
            last[value >> 32] = <int64_t><uint32_t>value
        taken_count += n
        if rc == HAND_CLOSED and hand_size(job.hand) == 0:
            break
    job.taken.fetch_add(taken_count, kRelaxed)  # relaxed: read when the threads have ended
    job.disorder.fetch_add(disorder, kRelaxed)


cdef int _hand_step(void* context, int32_t worker) noexcept nogil:
    cdef HandJob* job = <HandJob*>context
    if worker < job.putters:
        _hand_put(job, worker)
    else:
        _hand_get(job)
    return STEP_DONE


def stress_hand(str kind, int putters, int getters, int64_t rounds, int64_t capacity, uint64_t start=0):
    """Rows of several native threads through the hand-off of a queue; hangs if a wake-up is lost.

    Returns
    -------
    dict
        ``lost`` (rows that did not come out, or came twice) and ``disorder`` (rows of one thread that came out of
        order; not counted for a shuffle): 0.
    """
    cdef HandJob* job = <HandJob*>alloc_lines(sizeof(HandJob))
    cdef Job* runner
    cdef int32_t started = 0
    cdef int store = STORE_FIFO if kind == "fifo" else STORE_RANDOM
    job.hand = <Hand*>alloc_lines(sizeof(Hand))
    job.pool = <SlotPool*>alloc_lines(sizeof(SlotPool))
    job.random = <Philox*>calloc(1, sizeof(Philox))
    philox_seed(<Philox*>job.random, 1, 2)
    pool_init(job.pool, 4, 64, False)
    if not hand_init(job.hand, store, capacity, 0, start):
        raise MemoryError
    job.putters = putters
    job.rounds = rounds
    job.putting.store(putters, kRelaxed)  # relaxed: before the threads
    with nogil:
        runner = job_new(_hand_step, 1, 8)
        runner.runner.context = job
        runner_start(runner.runner, putters + getters, "qc-test", no_reference, &started)
        runner_join(runner.runner, -1)
        job_free(runner)
    counts = {"lost": putters * rounds - job.taken.load(kRelaxed),
              "disorder": job.disorder.load(kRelaxed) if kind == "fifo" else 0}
    hand_free(job.hand)
    pool_free(job.pool)
    free(job.hand)
    free(job.pool)
    free(job.random)
    free(job)
    return counts


# Histories of the hand-off. Each thread runs a whole program of calls without the GIL, as queues.pyx would make them of
# the slots it has filled, and writes down when each began, when it was over, and what came of it.

cdef extern from *:
    """
    #include <sched.h>
    namespace queuecore {
    struct HandCall {
      Atomic<int64_t> begun, over;  // ticks of the history's clock; 0: not yet
      int what, result;
      int64_t n;           // rows that are put, or wanted
      int64_t done;        // rows that were got
      int64_t timeout_ns;  // < 0: none
      int64_t* values;
    };
    }  // namespace queuecore
    """
    cppclass HandCall "queuecore::HandCall":
        Atomic[int64_t] begun
        Atomic[int64_t] over
        int what
        int result
        int64_t n
        int64_t done
        int64_t timeout_ns
        int64_t* values
    int sched_yield() nogil

cdef enum:
    CALL_PUT = 0
    CALL_PUT_MANY = 1
    CALL_GET = 2
    CALL_GET_MANY = 3
    CALL_GET_UP_TO = 4
    CALL_CLOSE = 5
    CALL_CANCEL = 6
    CALL_LOST = -1  # a result: rows were taken and neither handed out nor given back

cdef tuple _CALLS = ("put", "put_many", "get", "get_many", "get_up_to", "close", "cancel")


cdef int _call_wait(HandJob* job, int side, QueueOp* op, int64_t timeout_ns) noexcept nogil:
    # Unlike Python's threads it sleeps on if nobody wakes it: no slice of time makes up for a wake that was lost.
    cdef int64_t until = -1 if timeout_ns < 0 else monotonic_ns() + timeout_ns
    cdef int rc = HAND_SLICE
    while rc == HAND_SLICE:
        rc = hand_wait(job.hand, side, <Philox*>job.random, op, until)
        if rc == HAND_SLICE and until >= 0 and monotonic_ns() >= until:
            return hand_leave(job.hand, side, <Philox*>job.random, op)
    return rc


cdef int _call_put(HandJob* job, HandCall* c) noexcept nogil:
    cdef uint32_t* tokens = <uint32_t*>malloc((c.n + 1) * sizeof(uint32_t))
    cdef int64_t* keys = <int64_t*>malloc((c.n + 1) * sizeof(int64_t))
    cdef int64_t k, position = 0
    cdef int rc
    cdef QueueOp op
    for k in range(c.n):
        tokens[k] = _hand_slot(job, c.values[k])
        keys[k] = c.values[k] % 10
    if c.what == CALL_PUT and put_try(job.hand, tokens[0], keys[0]) == HAND_DONE:
        hand_settle(job.hand, <Philox*>job.random)
        rc = HAND_DONE
    else:
        # More rows than a piece has come in several, as those of a very long enqueue_many.
        while True:
            op.tokens = tokens + position
            op.keys = keys + position
            k = c.n - position if c.n - position < HAND_PIECE else HAND_PIECE
            if position == 0:
                op.n = k
                op.more = k < c.n
            else:
                hand_refill(job.hand, <Philox*>job.random, &op, k, position + k < c.n)
            rc = _call_wait(job, SIDE_PUT, &op, c.timeout_ns)
            position += op.done
            if rc != HAND_DONE or position == c.n:
                break
        hand_leave(job.hand, SIDE_PUT, <Philox*>job.random, &op)
        for k in range(position, c.n):
            pool_push(job.pool, tokens[k])
    free(tokens)
    free(keys)
    return rc


cdef int _call_get(HandJob* job, HandCall* c) noexcept nogil:
    cdef FrontRun* run = <FrontRun*>malloc(sizeof(FrontRun) + c.n * sizeof(uint32_t))
    cdef int64_t k
    cdef int rc
    cdef QueueOp op
    op.n = c.n
    op.run = run
    op.tokens = run.tokens
    op.up_to = c.what == CALL_GET_UP_TO
    if c.what == CALL_GET and get_try(job.hand, <Philox*>job.random, op.tokens) == HAND_DONE:
        hand_settle(job.hand, <Philox*>job.random)
        op.done = 1
        rc = HAND_DONE
    else:
        rc = _call_wait(job, SIDE_GET, &op, c.timeout_ns)
    if rc == HAND_DONE:
        c.done = op.done
        for k in range(op.done):
            c.values[k] = (<int64_t*>pool_row(job.pool, op.tokens[k]))[0]
        for k in range(op.done):
            pool_push(job.pool, op.tokens[k])
    elif op.done > 0:
        rc = CALL_LOST
    free(op.run)  # NULL: the queue has it
    return rc


cdef int _call_close(HandJob* job, HandCall* c) noexcept nogil:
    cdef int rc
    cdef QueueOp op
    op.closes = True
    rc = _call_wait(job, SIDE_PUT, &op, c.timeout_ns)
    hand_leave(job.hand, SIDE_PUT, <Philox*>job.random, &op)
    return HAND_DONE if rc == HAND_CLOSED else rc


cdef void _call(HandJob* job, HandCall* c) noexcept nogil:
    c.begun.store(job.clock.fetch_add(1, kSeqCst), kRelease)  # seq_cst: ticks are in the order of what they surround
    if c.what == CALL_CANCEL:
        hand_cancel(job.hand, <Philox*>job.random)
        c.result = HAND_DONE
    elif c.what == CALL_CLOSE:
        c.result = _call_close(job, c)
    elif c.n == 0:
        c.result = HAND_DONE
    elif c.what <= CALL_PUT_MANY:
        c.result = _call_put(job, c)
    else:
        c.result = _call_get(job, c)
    c.over.store(job.clock.fetch_add(1, kSeqCst), kRelease)  # release: its reader sees the result, too


@cython.final
cdef class _Calls:
    # The calls of one program.
    cdef HandCall* calls
    cdef int64_t n

    def __init__(self, list steps):
        cdef HandCall* c
        cdef int64_t i, k
        self.calls = <HandCall*>alloc_lines((len(steps) + 1) * sizeof(HandCall))
        self.n = len(steps)
        for i, (name, argument, timeout) in enumerate(steps):
            c = &self.calls[i]
            c.what = _CALLS.index(name)
            c.timeout_ns = -1 if timeout is None else int(timeout * 1e9)
            if c.what <= CALL_PUT_MANY:
                c.n = len(argument)
            elif c.what <= CALL_GET_UP_TO:
                c.n = argument
            c.values = <int64_t*>calloc(c.n + 1, sizeof(int64_t))
            if c.what <= CALL_PUT_MANY:
                for k in range(c.n):
                    c.values[k] = argument[k]

    cdef list made(self):
        cdef HandCall* c
        cdef int64_t i, k, end
        calls = []
        for i in range(self.n):
            c = &self.calls[i]
            end = c.over.load(kAcquire)
            if c.begun.load(kAcquire) != 0:
                values = [c.values[k] for k in range(c.n if c.what <= CALL_PUT_MANY else c.done if end else 0)]
                calls.append((_CALLS[c.what], c.begun.load(kAcquire), end, c.result, tuple(values), c.n))
        return calls

    def __dealloc__(self):
        cdef int64_t i
        for i in range(self.n):
            free(self.calls[i].values)
        free(self.calls)


@cython.final
cdef class HandHistory:
    """A queue's hand-off with slots of one number each, which writes down what came of each call.

    Parameters
    ----------
    kind : str
        "fifo", "random", or "priority": there a number's last digit is its priority.
    capacity : int
        In rows; below 0: unbounded.
    least : int
        Rows that stay in a shuffle while it is open.
    start : int, default 0
        Where the counters begin.
    """
    cdef HandJob* job
    cdef list programs

    def __init__(self, str kind, int64_t capacity, int64_t least=0, uint64_t start=0):
        cdef HandJob* job = <HandJob*>alloc_lines(sizeof(HandJob))
        self.job = job
        self.programs = []
        job.hand = <Hand*>alloc_lines(sizeof(Hand))
        job.pool = <SlotPool*>alloc_lines(sizeof(SlotPool))
        job.random = <Philox*>calloc(1, sizeof(Philox))
        job.clock.store(1, kRelaxed)  # relaxed: before the threads
        philox_seed(<Philox*>job.random, 1, 2)
        pool_init(job.pool, 4, 64, False)
        if not hand_init(job.hand, {"fifo": STORE_FIFO, "random": STORE_RANDOM, "priority": STORE_PRIORITY}[kind],
                         capacity, least, start):
            raise MemoryError

    def __dealloc__(self):
        # Nobody waits any more: a waiter has a reference.
        hand_free(self.job.hand)
        pool_free(self.job.pool)
        free(self.job.hand)
        free(self.job.pool)
        free(self.job.random)
        free(self.job)

    def run(self, list steps, int threads=0):
        """Make calls, each ``(name, values or number, timeout)``, one after the other; first wait for so many threads
        to come here."""
        cdef _Calls program = _Calls(steps)
        cdef HandJob* job = self.job
        cdef int64_t i
        self.programs.append(program)
        with nogil:
            job.putting.fetch_add(1, kSeqCst)
            while job.putting.load(kAcquire) < threads:
                sched_yield()
            for i in range(program.n):
                _call(job, &program.calls[i])
        return program.made()

    def calls(self):
        """All calls that were begun: ``(name, begun, over or 0, result, values, number)`` each."""
        return [call for program in self.programs for call in (<_Calls>program).made()]

    def size(self):
        """Rows in it."""
        return hand_size(self.job.hand)

    def stats(self):
        """Return the numbers of calls that wait, as the statistics of a queue do."""
        return {"waiting_enqueues": self.job.hand.side[SIDE_PUT].parked.load(kRelaxed),
                "waiting_dequeues": self.job.hand.side[SIDE_GET].parked.load(kRelaxed)}
