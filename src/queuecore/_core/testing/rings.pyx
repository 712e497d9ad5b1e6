"""Rings: one call at a time, and under load by native threads."""
from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t
from queuecore._core.atoms.memory cimport calloc, free
from queuecore._core.atoms.process cimport (
    check_layout, light_notify, live_threads as native_live_threads, registry_remove)
from queuecore._core.atoms.parking cimport event_cancel, event_notify, event_prepare, event_wait
from queuecore._core.atoms.platform cimport (
    Atomic, EventCount, FifoRing, Runner, StepFn, alloc_lines, cpu_pause, kRelaxed, layout_hash)
from queuecore._core.atoms.ring cimport (
    RING_EMPTY, RING_FULL, RING_OK, RING_SEALED, RING_OWNED, fifo_capacity, fifo_free, fifo_init, fifo_pop,
    fifo_pop_many, fifo_push, fifo_seal, fifo_size, fifo_disown_pops, fifo_own_pops, ring_backoff)
from queuecore._core.atoms.runtime cimport STEP_DONE, runner_join, runner_start
from queuecore._core.testing.load cimport no_reference

check_layout(layout_hash())

# Rings, one call at a time

cdef dict _answers = {
    RING_OK: "ok", RING_EMPTY: "empty", RING_FULL: "full", RING_SEALED: "sealed", RING_OWNED: "owned"}


cdef class Fifo:
    """A FifoRing. Answers are words; a pop that succeeds gives the token."""

    cdef FifoRing* ring

    def __cinit__(self, uint32_t capacity, uint64_t start=0):
        self.ring = <FifoRing*>alloc_lines(sizeof(FifoRing))
        if self.ring == NULL or not fifo_init(self.ring, capacity, start):
            raise MemoryError

    def __dealloc__(self):
        if self.ring != NULL:
            fifo_free(self.ring)
            free(self.ring)

    def push(self, uint32_t token):
        return _answers[fifo_push(self.ring, token, False)]

    def pop(self, bint owner=False):
        cdef uint32_t token = 0
        cdef int rc = fifo_pop(self.ring, &token, owner)
        return token if rc == RING_OK else _answers[rc]

    def pop_many(self, uint32_t n, bint owner=False):
        cdef uint32_t* tokens = <uint32_t*>calloc(n, sizeof(uint32_t))
        cdef int i, rc = fifo_pop_many(self.ring, tokens, n, owner)
        try:
            return [tokens[i] for i in range(rc)] if rc > 0 else _answers[rc]
        finally:
            free(tokens)

    def seal(self):
        return bool(fifo_seal(self.ring))

    def turn_take(self):
        return bool(fifo_own_pops(self.ring))

    def turn_give(self):
        fifo_disown_pops(self.ring)

    def size(self):
        return fifo_size(self.ring)

    def capacity(self):
        return fifo_capacity(self.ring)

    def lag_tail(self):
        """Put tail one back: as a pusher leaves it that has filled its cell and stopped there."""
        self.ring.tail.fetch_sub(2, kRelaxed)


# Rings under load. The row that a token names is plain memory: the rings decide which thread may write it.

cdef struct Row:
    int64_t producer
    int64_t number

cdef struct RingJob:
    Runner* runner
    FifoRing* fifo   # rows that are filled
    FifoRing* spare  # rows that are free
    EventCount* filled
    EventCount* drained
    Row* rows
    int32_t producers, singles, gatherers
    int64_t rounds, seal_at
    uint32_t gather
    Atomic[int64_t] finished, popped, lost, twice, disorder, gaps, late
    int64_t* pushed  # of each producer, how many were taken
    unsigned char* seen


cdef void _ring_row(RingJob* job, uint32_t token, int64_t* last, bint gathered) noexcept nogil:
    # A consumer looks at the row that a token names, and gives the token back.
    cdef Row row = job.rows[token]
    job.rows[token].producer = -1
    if job.seen[row.producer * job.rounds + row.number]:
        job.twice.fetch_add(1, kRelaxed)  # relaxed, all of these: counters, read when the threads have ended
    job.seen[row.producer * job.rounds + row.number] = 1
    if row.number <= last[row.producer]:
        job.disorder.fetch_add(1, kRelaxed)
    if gathered and last[row.producer] >= 0 and row.number != last[row.producer] + 1:
        job.gaps.fetch_add(1, kRelaxed)
    last[row.producer] = row.number
    if job.popped.fetch_add(1, kRelaxed) + 1 == job.seal_at:
        fifo_seal(job.fifo)
    while fifo_push(job.spare, token, False) != RING_OK:
        ring_backoff()


cdef void _ring_produce(RingJob* job, int64_t me) noexcept nogil:
    cdef uint32_t token = 0
    cdef int64_t number
    cdef int rc = RING_OK
    for number in range(job.rounds):
        while fifo_pop(job.spare, &token, False) != RING_OK:
            ring_backoff()
        job.rows[token].producer = me
        job.rows[token].number = number
        while True:
            rc = fifo_push(job.fifo, token, False)
            if rc != RING_FULL:
                break
            ring_backoff()
        if rc != RING_OK:
            if fifo_push(job.fifo, token, False) != RING_SEALED:
                job.late.fetch_add(1, kRelaxed)
            while fifo_push(job.spare, token, False) != RING_OK:
                ring_backoff()
            break
        job.pushed[me] = number + 1
    if job.finished.fetch_add(1, kRelaxed) + 1 == job.producers:
        fifo_seal(job.fifo)


cdef void _ring_consume(RingJob* job, int64_t* last) noexcept nogil:
    cdef uint32_t token = 0
    cdef int rc
    while True:
        rc = fifo_pop(job.fifo, &token, False)
        if rc == RING_SEALED:
            return
        if rc == RING_OK:
            _ring_row(job, token, last, False)
        else:
            ring_backoff()


cdef void _ring_gather(RingJob* job, int64_t* last) noexcept nogil:
    # Takes `gather` rows as the pops' owner, in as many pops as it needs: no row of any producer may be missing between
    # them.
    cdef uint32_t[64] tokens
    cdef uint32_t have
    cdef int32_t i
    cdef int rc = RING_EMPTY
    cdef int64_t* within = <int64_t*>calloc(job.producers, sizeof(int64_t))
    while rc != RING_SEALED:
        if not fifo_own_pops(job.fifo):
            ring_backoff()
            continue
        have = 0
        while have < job.gather:
            rc = fifo_pop_many(job.fifo, tokens + have, job.gather - have, True)
            if rc == RING_SEALED:
                break
            if rc > 0:
                have += <uint32_t>rc
            else:
                ring_backoff()
        fifo_disown_pops(job.fifo)
        for i in range(job.producers):
            within[i] = -1
        for i in range(<int32_t>have):
            if job.rows[tokens[i]].number <= last[job.rows[tokens[i]].producer]:
                job.disorder.fetch_add(1, kRelaxed)
            last[job.rows[tokens[i]].producer] = job.rows[tokens[i]].number
            _ring_row(job, tokens[i], within, True)
    free(within)


cdef int _ring_step(void* context, int32_t worker) noexcept nogil:
    cdef RingJob* job = <RingJob*>context
    cdef int64_t* last
    cdef int32_t i
    if worker < job.producers:
        _ring_produce(job, worker)
        return STEP_DONE
    last = <int64_t*>calloc(job.producers, sizeof(int64_t))
    for i in range(job.producers):
        last[i] = -1
    if worker < job.producers + job.singles:
        _ring_consume(job, last)
    else:
        _ring_gather(job, last)
    free(last)
    return STEP_DONE


cdef void _ring_run(RingJob* job, StepFn step, int32_t threads) noexcept nogil:
    cdef int32_t started = 0
    job.runner = <Runner*>alloc_lines(sizeof(Runner))
    job.runner.step = step
    job.runner.release = no_reference
    job.runner.context = job
    runner_start(job.runner, threads, "qc-test", no_reference, &started)
    runner_join(job.runner, -1)
    while native_live_threads() > 0:  # as in job_free
        cpu_pause()
    registry_remove(job.runner)
    free(job.runner)


def stress_fifo(int producers, int singles, int gatherers, int64_t rounds, uint32_t capacity, uint64_t start=0,
                int64_t seal_at=0, uint32_t gather=8):
    """Rows through a ring and back through another, until the last producer, or the pop of that number, seals it.

    Returns
    -------
    dict
        Counts of what must not happen: ``lost``, ``twice``, ``disorder`` (of one producer, at one consumer), ``gaps``
        (by an owner), ``late`` (pushes after the seal). And ``popped``, which is how many pushes were taken.
    """
    cdef RingJob* job = <RingJob*>alloc_lines(sizeof(RingJob))
    cdef int64_t i, taken_count = 0, limit = capacity + producers + 64 * gatherers
    job.fifo = <FifoRing*>alloc_lines(sizeof(FifoRing))
    job.spare = <FifoRing*>alloc_lines(sizeof(FifoRing))
    fifo_init(job.fifo, capacity, start)
    fifo_init(job.spare, <uint32_t>limit, start)
    job.rows = <Row*>calloc(limit, sizeof(Row))
    job.pushed = <int64_t*>calloc(producers, sizeof(int64_t))
    job.seen = <unsigned char*>calloc(producers * rounds, 1)
    job.producers, job.singles, job.gatherers = producers, singles, gatherers
    job.rounds, job.seal_at, job.gather = rounds, seal_at, gather
    with nogil:
        for i in range(limit):
            fifo_push(job.spare, <uint32_t>i, False)
        _ring_run(job, _ring_step, producers + singles + gatherers)
    for i in range(producers):
        taken_count += job.pushed[i]
        job.lost.fetch_add(job.pushed[i] - sum(job.seen[i * rounds + n] for n in range(rounds)), kRelaxed)
    try:
        return {
            "lost": job.lost.load(kRelaxed), "twice": job.twice.load(kRelaxed), "disorder": job.disorder.load(kRelaxed),
            "gaps": job.gaps.load(kRelaxed), "late": job.late.load(kRelaxed),
            "uncounted": taken_count - job.popped.load(kRelaxed), "popped": taken_count}
    finally:
        fifo_free(job.fifo)
        fifo_free(job.spare)
        free(job.fifo)
        free(job.spare)
        free(job.rows)
        free(job.pushed)
        free(job.seen)
        free(job)


cdef int _blocking_step(void* context, int32_t worker) noexcept nogil:
    # Even workers push into a ring of two, odd ones pop; workers that can't go on park.
    cdef RingJob* job = <RingJob*>context
    cdef bint pusher = worker % 2 == 0
    cdef EventCount* mine = job.drained if pusher else job.filled
    cdef EventCount* theirs = job.filled if pusher else job.drained
    cdef uint32_t token = 0, epoch
    cdef int64_t number, sum = 0
    cdef int rc
    for number in range(job.rounds):
        rc = fifo_push(job.fifo, <uint32_t>(number % 1000), False) if pusher else fifo_pop(job.fifo, &token, False)
        while rc != RING_OK:
            epoch = event_prepare(mine)
            rc = fifo_push(job.fifo, <uint32_t>(number % 1000), False) if pusher else fifo_pop(job.fifo, &token, False)
            if rc == RING_OK:
                event_cancel(mine, epoch)
            else:
                event_wait(mine, epoch, -1)
        event_notify(theirs, 1)
        sum += number % 1000 if pusher else -<int64_t>token
    job.popped.fetch_add(sum, kRelaxed)  # relaxed: read when the threads have ended
    return STEP_DONE


def stress_blocking(int pairs, int64_t rounds, bint light):
    """Tokens through a ring of two, between native threads that park on both sides; hangs if a wake-up is lost.

    Returns
    -------
    int
        The sum of what was pushed less the sum of what was popped: 0.
    """
    cdef RingJob* job = <RingJob*>alloc_lines(sizeof(RingJob))
    cdef int64_t sum
    job.fifo = <FifoRing*>alloc_lines(sizeof(FifoRing))
    job.filled = <EventCount*>alloc_lines(sizeof(EventCount))
    job.drained = <EventCount*>alloc_lines(sizeof(EventCount))
    job.filled.light = job.drained.light = light and light_notify()
    fifo_init(job.fifo, 2, 0)
    job.rounds = rounds
    with nogil:
        _ring_run(job, _blocking_step, 2 * pairs)
    sum = job.popped.load(kRelaxed)
    fifo_free(job.fifo)
    free(job.fifo)
    free(job.filled)
    free(job.drained)
    free(job)
    return sum


def light_parking():
    """Say if event counts may be light here: the kernel has membarrier, and this build may use it."""
    return bool(light_notify())
