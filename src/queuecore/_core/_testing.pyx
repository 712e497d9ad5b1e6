"""Hooks that only tests and benchmarks use; not part of release wheels.

Three kinds: faults put in place of system calls, the atoms driven hard by native threads (what the sanitizers watch), and bugs planted on
purpose, so that a sanitizer job which finds nothing is known to be able to find something.
"""
from libc.errno cimport EAGAIN, EINTR
from libc.stddef cimport size_t
from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memset
from queuecore._core.atoms cimport (
    buffer_give, buffer_take, check_layout, live_threads as native_live_threads, registry_remove, syscalls)
from queuecore._core.parking cimport (
    event_cancel, event_notify, event_notify_all, event_prepare, event_wait, turn_give, turn_take)
from queuecore._core.platform cimport (
    Atomic, Batch, EventCount, FileStat, Runner, Slab, StepFn, Syscalls, Turn, Window, alloc_lines, cpu_pause, iovec, kRelaxed,
    layout_hash, monotonic_ns)
from queuecore._core.runtime cimport STEP_DONE, STEP_IDLE, STEP_WORKED, runner_join, runner_start, runner_stop
from queuecore._core.slab cimport slab_free, slab_init, slab_slot, slots_pop, slots_push
from queuecore._core.window cimport (
    window_batch, window_done, window_ended, window_finish, window_free, window_has_room, window_init, window_open, window_ready,
    window_take)

check_layout(layout_hash())

cdef extern from "time.h" nogil:
    struct timespec:
        long tv_sec
        long tv_nsec
    int nanosleep(const timespec*, timespec*)

cdef extern from "queuecore/syscalls.hpp" namespace "queuecore" nogil:
    int real_open(const char*)
    int real_close(int)
    int real_fstat(int, FileStat*)
    int64_t real_preadv(int, const iovec*, int, int64_t, int)


cdef extern from *:
    """
    #include <cerrno>
    static inline void* qc_errno_place() { return &errno; }
    """
    void* _errno_place "qc_errno_place"() noexcept nogil


# Faults. All relaxed: a test sets them while nothing runs, and the start of a thread orders them.

cdef Atomic[int64_t] _read_delay_ns, _reads, _fail_read_at, _fail_read_errno, _fail_read_sticky, _short, _interrupt_every
cdef Atomic[int64_t] _opens, _fail_open_at, _fail_open_errno, _descriptors
cdef Atomic[int64_t] _uncached


cdef int _test_open(const char* path) noexcept nogil:
    cdef int fd
    cdef int64_t n = _opens.fetch_add(1, kRelaxed) + 1
    if _fail_open_at.load(kRelaxed) == n:
        (<int*>_errno_place())[0] = <int>_fail_open_errno.load(kRelaxed)
        return -1
    fd = real_open(path)
    if fd >= 0:
        _descriptors.fetch_add(1, kRelaxed)
    return fd


cdef int _test_close(int fd) noexcept nogil:
    _descriptors.fetch_sub(1, kRelaxed)
    return real_close(fd)


cdef int64_t _test_preadv(int fd, const iovec* iov, int count, int64_t offset, int flags) noexcept nogil:
    cdef timespec t
    cdef iovec one
    cdef int64_t n, delay, most, every
    if flags != 0 and _uncached.load(kRelaxed):  # as if nothing were in the page cache
        (<int*>_errno_place())[0] = EAGAIN
        return -1
    n = _reads.fetch_add(1, kRelaxed) + 1
    every = _interrupt_every.load(kRelaxed)
    if every > 0 and n % every == 0:
        (<int*>_errno_place())[0] = EINTR
        return -1
    delay = _read_delay_ns.load(kRelaxed)
    if delay > 0:
        t.tv_sec = delay // 1000000000
        t.tv_nsec = delay % 1000000000
        nanosleep(&t, NULL)
    if _fail_read_at.load(kRelaxed) > 0 and (
            n == _fail_read_at.load(kRelaxed) or (_fail_read_sticky.load(kRelaxed) and n > _fail_read_at.load(kRelaxed))):
        (<int*>_errno_place())[0] = <int>_fail_read_errno.load(kRelaxed)
        return -1
    most = _short.load(kRelaxed)
    if most > 0:
        one = iov[0]
        if <int64_t>one.iov_len > most:
            one.iov_len = most
        return real_preadv(fd, &one, 1, offset, flags)
    return real_preadv(fd, iov, count, offset, flags)


cdef void _install() noexcept:
    cdef Syscalls* table = syscalls()
    table.open = _test_open
    table.close = _test_close
    table.preadv = _test_preadv


def reset_faults():
    """Every hook back to doing nothing. The counters of calls begin at 0 again; open descriptors keep being counted."""
    _install()
    _read_delay_ns.store(0, kRelaxed)
    _reads.store(0, kRelaxed)
    _fail_read_at.store(0, kRelaxed)
    _fail_read_sticky.store(0, kRelaxed)
    _short.store(0, kRelaxed)
    _interrupt_every.store(0, kRelaxed)
    _opens.store(0, kRelaxed)
    _fail_open_at.store(0, kRelaxed)
    _uncached.store(0, kRelaxed)


def set_read_delay(double seconds):
    """Every read takes so long, and none is served from the page cache without waiting (as on a slow disk)."""
    _install()
    _read_delay_ns.store(<int64_t>(seconds * 1e9), kRelaxed)
    _uncached.store(seconds > 0, kRelaxed)


def set_uncached(bint on):
    """Whether reads that must not wait (RWF_NOWAIT) find nothing in the page cache."""
    _install()
    _uncached.store(on, kRelaxed)


def fail_read(int64_t nth, int error, bint sticky=False):
    """The nth read from now on (1 is the next) fails with this errno, and with sticky all after it."""
    _install()
    _reads.store(0, kRelaxed)
    _fail_read_errno.store(error, kRelaxed)
    _fail_read_sticky.store(sticky, kRelaxed)
    _fail_read_at.store(nth, kRelaxed)


def short_reads(int64_t max_bytes):
    """No read gives more than so many bytes; 0: no limit."""
    _install()
    _short.store(max_bytes, kRelaxed)


def interrupt_reads(int64_t every):
    """Every so many reads one fails with EINTR; 0: none."""
    _install()
    _interrupt_every.store(every, kRelaxed)


def fail_open(int64_t nth, int error):
    """The nth open from now on (1 is the next) fails with this errno."""
    _install()
    _opens.store(0, kRelaxed)
    _fail_open_errno.store(error, kRelaxed)
    _fail_open_at.store(nth, kRelaxed)


def read_count():
    """Reads since the last reset."""
    return _reads.load(kRelaxed)


def open_files():
    """Descriptors that the native core holds now."""
    return _descriptors.load(kRelaxed)


def live_threads():
    """Native threads of queuecore that run now."""
    return native_live_threads()


# The atoms under load. The payloads beside the atomics are plain memory: a missing order is a race that the thread sanitizer sees.

cdef struct Job:
    Runner* runner
    Window* window
    Slab* slab
    Turn* turn
    EventCount* filled
    EventCount* drained
    int64_t batches, rows, unit_rows
    int64_t spin_ns
    # under the turn
    Batch* open
    uint64_t planned
    uint64_t random
    int64_t stock, made, taken, sum
    int64_t rounds


cdef inline uint64_t _random(uint64_t* s) noexcept nogil:
    s[0] ^= s[0] << 13
    s[0] ^= s[0] >> 7
    s[0] ^= s[0] << 17
    return s[0]


cdef void _no_reference(void* context) noexcept nogil:
    pass


cdef Job* _job_new(StepFn step, int64_t width, int64_t rows) noexcept nogil:
    cdef Job* job = <Job*>calloc(1, sizeof(Job))
    job.runner = <Runner*>alloc_lines(sizeof(Runner))
    job.window = <Window*>alloc_lines(sizeof(Window))
    job.slab = <Slab*>alloc_lines(sizeof(Slab))
    job.turn = <Turn*>alloc_lines(sizeof(Turn))
    job.filled = <EventCount*>alloc_lines(sizeof(EventCount))
    job.drained = <EventCount*>alloc_lines(sizeof(EventCount))
    window_init(job.window, width, 1)
    slab_init(job.slab, <uint32_t>width + 2, rows * sizeof(int64_t))
    job.rows = rows
    job.runner.step = step
    job.runner.release = _no_reference
    job.runner.context = job
    return job


cdef void _job_free(Job* job) noexcept nogil:
    runner_stop(job.runner, NULL)
    runner_join(job.runner, -1)
    while native_live_threads() > 0:  # a worker's last step comes after the join; what it uses must stay until then
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
        job = _job_new(step, 1, 8)
        job.rounds = rounds
        runner_start(job.runner, threads, "qc-test", _no_reference, &started)
        runner_join(job.runner, -1)
        total = job.sum
        _job_free(job)
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
    n = 1 + <int64_t>(_random(&job.random) % <uint64_t>job.unit_rows)
    if n > job.rows - row:
        n = job.rows - row
    b.rows += n
    job.made += n
    if b.rows == job.rows or _random(&job.random) % 16 == 0:  # closes full, or short
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
        ``batches``, ``planned`` and ``rows`` (delivered: must be as many), ``errors`` (rows with a wrong value: must be 0).
    """
    cdef int64_t errors, planned, delivered = 0
    cdef int32_t started = 0
    cdef Job* job
    with nogil:
        job = _job_new(_window_step, 5, 64)
        job.batches = batches
        job.unit_rows = 24
        job.random = seed * 2 + 1
        runner_start(job.runner, threads, "qc-test", _no_reference, &started)
        errors = _window_consume(job, &delivered)
        planned = job.made
        _job_free(job)
    return {"batches": batches, "planned": planned, "rows": delivered, "errors": errors}


def bench_handoff(int64_t batches, int threads):
    """Nanoseconds a batch through the window, with one row a batch and a consumer that does not help."""
    cdef int64_t delivered = 0, t
    cdef int32_t started = 0
    cdef Job* job
    with nogil:
        job = _job_new(_window_step, 64, 1)
        job.batches = batches
        job.unit_rows = 1
        job.random = 1
        job.spin_ns = 30000
        t = monotonic_ns()
        runner_start(job.runner, threads, "qc-bench", _no_reference, &started)
        _window_consume(job, &delivered)
        t = monotonic_ns() - t
        _job_free(job)
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
        nbytes = <size_t>1 << (12 + 4 * (_random(&random) % 5))  # 4 KiB to 256 MiB: only pages that are touched exist
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
    """Buffers taken and given back by native threads. Returns how often one had two holders, or none was to be had: 0."""
    return _sum_of(_buffers_step, threads, rounds)


def buffer_address(size_t nbytes):
    """Where a buffer of that size lies that is taken now and given back at once."""
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
        job = _job_new(_race_step, 1, 1)
        job.rounds = rounds
        runner_start(job.runner, threads, "qc-test", _no_reference, &started)
        runner_join(job.runner, -1)
        _job_free(job)


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


_install()  # from the start, so that descriptors are counted from their opening to their closing
