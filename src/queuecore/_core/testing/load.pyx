"""The atoms under load by native threads, and bugs on purpose, which a sanitizer must report.

The payloads beside the atomics are plain memory: a missing order is a race that the thread sanitizer sees.
"""
from libc.stddef cimport size_t
from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t
from libc.string cimport memset
from queuecore._core.atoms.memory cimport calloc, free, malloc
from queuecore._core.atoms.process cimport (
    buffer_give, buffer_take, check_layout, live_threads as native_live_threads, registry_remove)
from queuecore._core.atoms.parking cimport (
    event_cancel, event_notify, event_notify_all, event_prepare, event_wait, turn_give, turn_take)
from queuecore._core.atoms.platform cimport (
    Batch, EventCount, Runner, Slab, StepFn, Turn, Window, alloc_lines, cpu_pause, layout_hash, monotonic_ns)
from queuecore._core.atoms.runtime cimport STEP_DONE, STEP_IDLE, STEP_WORKED, runner_join, runner_start, runner_stop
from queuecore._core.atoms.slab cimport slab_free, slab_init, slab_slot, slots_pop, slots_push
from queuecore._core.atoms.window cimport (
    window_batch, window_done, window_ended, window_finish, window_free, window_has_room, window_init, window_open,
    window_ready, window_take)

check_layout(layout_hash())

cdef Job* job_new(StepFn step, int64_t width, int64_t rows) noexcept nogil:
    cdef Job* job = <Job*>calloc(1, sizeof(Job))
    job.runner = <Runner*>alloc_lines(sizeof(Runner))
    job.window = <Window*>alloc_lines(sizeof(Window))
    job.slab = <Slab*>alloc_lines(sizeof(Slab))
    job.turn = <Turn*>alloc_lines(sizeof(Turn))
    job.filled = <EventCount*>alloc_lines(sizeof(EventCount))
    job.drained = <EventCount*>alloc_lines(sizeof(EventCount))
    window_init(job.window, width, 1)
    slab_init(job.slab, <uint32_t>width + 2, rows * sizeof(int64_t), NULL)
    job.rows = rows
    job.runner.step = step
    job.runner.release = no_reference
    job.runner.context = job
    return job


cdef void job_free(Job* job) noexcept nogil:
    runner_stop(job.runner, NULL)
    runner_join(job.runner, -1)
    while native_live_threads() > 0:  # a worker's last step comes after the join; its memory must stay until then
        cpu_pause()
    registry_remove(job.runner)
    window_free(job.window)
    slab_free(job.slab)
    free(job.runner)
    free(job.window)
    free(job.slab)
    free(job.turn)
    free(job.filled)
    free(job.drained)
    free(job)


cdef int64_t _sum_of(StepFn step, int threads, int64_t rounds):
    # Runs a step that ends by itself in so many threads; what they added up.
    cdef Job* job
    cdef int64_t total
    cdef int32_t started = 0
    with nogil:
        job = job_new(step, 1, 8)
        job.rounds = rounds
        runner_start(job.runner, threads, "qc-test", no_reference, &started)
        runner_join(job.runner, -1)
        total = job.sum
        job_free(job)
    return total


cdef int _window_step(void* context, int32_t worker) noexcept nogil:
    # Plans a random part of the open batch, as the pipeline's planner does, and fills it with k and row.
    cdef Job* job = <Job*>context
    cdef Batch* b
    cdef uint64_t k
    cdef int64_t row, n, i
    cdef uint32_t slot = 0
    cdef int64_t* rows
    turn_take(job.turn)
    if job.open == NULL:
        if job.planned == <uint64_t>job.batches:
            turn_give(job.turn)
            return STEP_DONE
        if not window_has_room(job.window, job.planned) or not slots_pop(&job.slab.stack, &slot):
            turn_give(job.turn)
            return STEP_IDLE
        window_open(job.window, job.planned, slot, job.rows)
        job.open = window_batch(job.window, job.planned)
        job.planned += 1
    b = job.open
    k = job.planned - 1
    row = b.rows
    n = 1 + <int64_t>(random_next(&job.random) % <uint64_t>job.unit_rows)
    if n > job.rows - row:
        n = job.rows - row
    b.rows += n
    job.made += n
    if b.rows == job.rows or random_next(&job.random) % 16 == 0:  # closes full, or short
        job.open = NULL
        window_done(job.window, b, k, job.rows - b.rows + 1)
        if k + 1 == <uint64_t>job.batches:
            window_finish(job.window, k + 1)
    turn_give(job.turn)
    rows = <int64_t*>slab_slot(job.slab, b.slot)
    for i in range(row, row + n):
        rows[i] = <int64_t>(k * 1000003) + i
    window_done(job.window, b, k, n)
    return STEP_WORKED


cdef int64_t _window_consume(Job* job, int64_t* delivered) noexcept nogil:
    # Takes every batch in order; returns how many rows were wrong.
    cdef uint64_t k = 0
    cdef uint32_t epoch
    cdef int64_t errors = 0, i, until
    cdef Batch* b
    cdef int64_t* rows
    while True:
        if not window_ready(job.window, k):
            if window_ended(job.window, k):
                return errors
            until = monotonic_ns() + job.spin_ns
            while not window_ready(job.window, k) and monotonic_ns() < until:
                cpu_pause()
            epoch = event_prepare(&job.window.arrived)
            if window_ready(job.window, k) or window_ended(job.window, k):
                event_cancel(&job.window.arrived, epoch)
            else:
                event_wait(&job.window.arrived, epoch, -1)
            continue
        b = window_batch(job.window, k)
        rows = <int64_t*>slab_slot(job.slab, b.slot)
        for i in range(b.rows):
            if rows[i] != <int64_t>(k * 1000003) + i:
                errors += 1
        delivered[0] += b.rows
        slots_push(&job.slab.stack, b.slot)
        window_take(job.window, k)
        event_notify_all(&job.runner.work)
        k += 1


def stress_window(int threads, int64_t batches, uint64_t seed=1):
    """Fill batches from native threads, in random parts, and read them back in order.

    Returns
    -------
    dict
        ``batches``, ``planned`` and ``rows`` (delivered: must be as many), ``errors`` (rows with a wrong value: must be
        0).
    """
    cdef int64_t errors, planned, delivered = 0
    cdef int32_t started = 0
    cdef Job* job
    with nogil:
        job = job_new(_window_step, 5, 64)
        job.batches = batches
        job.unit_rows = 24
        job.random = seed * 2 + 1
        runner_start(job.runner, threads, "qc-test", no_reference, &started)
        errors = _window_consume(job, &delivered)
        planned = job.made
        job_free(job)
    return {"batches": batches, "planned": planned, "rows": delivered, "errors": errors}


def bench_handoff(int64_t batches, int threads):
    """Nanoseconds a batch through the window, with one row a batch and a consumer that does not help."""
    cdef int64_t delivered = 0, t
    cdef int32_t started = 0
    cdef Job* job
    with nogil:
        job = job_new(_window_step, 64, 1)
        job.batches = batches
        job.unit_rows = 1
        job.random = 1
        job.spin_ns = 30000
        t = monotonic_ns()
        runner_start(job.runner, threads, "qc-bench", no_reference, &started)
        _window_consume(job, &delivered)
        t = monotonic_ns() - t
        job_free(job)
    return t / batches


cdef int _parking_step(void* context, int32_t worker) noexcept nogil:
    # Even workers put numbers into a stock of at most 3, odd ones take them: everybody parks most of the time.
    cdef Job* job = <Job*>context
    cdef bint putter = worker % 2 == 0
    cdef EventCount* mine = job.drained if putter else job.filled
    cdef EventCount* theirs = job.filled if putter else job.drained
    cdef uint32_t epoch
    cdef int rc = -1
    while rc < 0:
        epoch = event_prepare(mine)
        turn_take(job.turn)
        if putter:
            if job.made == job.rounds:
                rc = STEP_DONE
            elif job.stock < 3:
                job.stock += 1
                job.made += 1
                job.sum += job.made
                rc = STEP_WORKED
        else:
            if job.taken == job.rounds:
                rc = STEP_DONE
            elif job.stock > 0:
                job.stock -= 1
                job.taken += 1
                job.sum -= job.taken
                rc = STEP_WORKED
        turn_give(job.turn)
        if rc < 0:
            event_wait(mine, epoch, -1)
        else:
            event_cancel(mine, epoch)
    if rc == STEP_DONE:  # the last number is through: nobody may sleep on
        event_notify_all(mine)
    event_notify(theirs, 1)
    return rc


def stress_parking(int threads, int64_t rounds):
    """Numbers through a stock of three, between native threads that park on both sides; hangs if a wake-up is lost.

    Returns
    -------
    int
        The sum of what was put less the sum of what was taken: 0.
    """
    if threads < 2 or threads % 2:
        raise ValueError("threads must be even")
    return _sum_of(_parking_step, threads, rounds)


cdef int _slots_step(void* context, int32_t worker) noexcept nogil:
    cdef Job* job = <Job*>context
    cdef uint32_t slot = 0
    cdef int64_t* mine
    cdef int64_t _i
    for _i in range(job.rounds):
        if not slots_pop(&job.slab.stack, &slot):
            cpu_pause()
            continue
        mine = <int64_t*>slab_slot(job.slab, slot)
        mine[0] = worker
        mine[1] += 1
        if mine[0] != worker:  # somebody else got the same slot
            turn_take(job.turn)
            job.sum += 1
            turn_give(job.turn)
        slots_push(&job.slab.stack, slot)
    return STEP_DONE


def stress_slots(int threads, int64_t rounds):
    """Slots taken and given back by native threads. Returns how often two threads held the same one: 0."""
    return _sum_of(_slots_step, threads, rounds)


cdef int _buffers_step(void* context, int32_t worker) noexcept nogil:
    # Buffers of five sizes, of which the largest are never kept and the others push each other out.
    cdef Job* job = <Job*>context
    cdef uint64_t random = <uint64_t>worker * 7919 + 1
    cdef int64_t* mine
    cdef int64_t _i, clashes = 0
    cdef size_t nbytes
    for _i in range(job.rounds):
        # 4 KiB to 256 MiB: only pages that are touched exist
        nbytes = <size_t>1 << (12 + 4 * (random_next(&random) % 5))
        mine = <int64_t*>buffer_take(nbytes)
        if mine == NULL:
            clashes += 1
            continue
        mine[0] = worker
        mine[nbytes // 8 - 1] = worker
        cpu_pause()
        if mine[0] != worker or mine[nbytes // 8 - 1] != worker:  # somebody else got the same buffer
            clashes += 1
        buffer_give(mine, nbytes)
    turn_take(job.turn)
    job.sum += clashes
    turn_give(job.turn)
    return STEP_DONE


def stress_buffers(int threads, int64_t rounds):
    """Buffers taken and given back by native threads.

    Returns how often one had two holders, or none was to be had: 0.
    """
    return _sum_of(_buffers_step, threads, rounds)


def buffer_address(size_t nbytes):
    """Return the address of a buffer of that size, which is given back at once."""
    cdef void* p = buffer_take(nbytes)
    if p == NULL:
        raise MemoryError
    buffer_give(p, nbytes)
    return <size_t>p


# Bugs on purpose

cdef int _race_step(void* context, int32_t worker) noexcept nogil:
    cdef Job* job = <Job*>context
    cdef int64_t _i
    for _i in range(job.rounds):
        job.sum += 1  # a plain counter shared by all: the race
    return STEP_DONE


def planted_race(int threads, int64_t rounds):
    """Deliberately races on a plain counter: the thread sanitizer must report it."""
    cdef Job* job
    cdef int32_t started = 0
    with nogil:
        job = job_new(_race_step, 1, 1)
        job.rounds = rounds
        runner_start(job.runner, threads, "qc-test", no_reference, &started)
        runner_join(job.runner, -1)
        job_free(job)


def planted_overflow(int n):
    """Deliberately reads past a heap block: the address sanitizer must report it."""
    cdef unsigned char* p = <unsigned char*>malloc(<size_t>n & 0xffff)
    cdef int i, total = 0
    memset(p, 1, n)
    for i in range(n + 1):
        total += p[i]
    free(p)
    return total


def planted_shift(int n):
    """Deliberately shifts by n bits, undefined from 32 on: the undefined-behaviour sanitizer must report it."""
    cdef int one = 1
    return one << n
