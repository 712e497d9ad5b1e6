"""Hooks that only tests and benchmarks use; not part of release wheels.

Four kinds: faults put in place of system calls, the atoms driven hard by native threads (what the sanitizers watch), a queue's hand-off that
writes down what came of each call, and bugs planted on purpose, so that a sanitizer job which finds nothing is known to be able to find
something.
"""
cimport cython
from libc.errno cimport EAGAIN, EINTR
from libc.stddef cimport size_t
from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcmp, memcpy, memset
from posix.mman cimport PROT_NONE, mprotect
from queuecore._core.atoms cimport (
    buffer_give, buffer_take, check_layout, light_notify, live_threads as native_live_threads, registry_remove, syscalls)
from queuecore._core.csv cimport (
    CSV_TEXT, CsvBlock, CsvCursor, CsvFormat, CsvPlace, CsvPlan, CsvText, csv_cut, csv_parse, parse_number as csv_number)
from queuecore._core.errors cimport CODE_CSV, CODE_TRUNCATED, fault_error
from queuecore._core.handoff cimport (
    HAND_CLOSED, HAND_DONE, HAND_SLICE, SIDE_GET, SIDE_PUT, STORE_FIFO, STORE_PRIORITY, STORE_RANDOM, FrontRun, Hand, Op, get_try,
    hand_cancel, hand_free, hand_init, hand_leave, hand_refill, hand_settle, hand_size, hand_wait, put_try)
from queuecore._core.lines cimport LinesKernels, lines_count, lines_kernels, lines_most
from queuecore._core.parking cimport (
    event_cancel, event_notify, event_notify_all, event_prepare, event_wait, turn_give, turn_take)
from queuecore._core.platform cimport (
    Atomic, Batch, EventCount, FastRing, Fault, FifoRing, FileStat, Runner, Slab, SpscRing, StepFn, StopFlag, Syscalls,
    Turn, Window, alloc_lines, cpu_pause, iovec, kAcqRel, kAcquire, kRelaxed, kRelease, kSeqCst, layout_hash, map_pages,
    monotonic_ns, unmap_pages)
from queuecore._core.ring cimport (
    RING_EMPTY, RING_FULL, RING_OK, RING_SEALED, RING_TURN, fast_free, fast_init, fast_pop, fast_pop_many, fast_push,
    fast_push_many, fifo_capacity, fifo_free, fifo_init, fifo_pop, fifo_pop_many, fifo_push, fifo_seal, fifo_size,
    fifo_turn_give, fifo_turn_take, ring_backoff, spsc_free, spsc_init, spsc_pop, spsc_pop_many, spsc_push,
    spsc_push_many)
from queuecore._core.pool cimport SlotPool, pool_free, pool_grow, pool_init, pool_pop, pool_push, pool_row
from queuecore._core.random cimport Philox, philox_seed
from queuecore._core.runtime cimport STEP_DONE, STEP_IDLE, STEP_WORKED, runner_join, runner_start, runner_stop, stop_set
from queuecore._core.slab cimport slab_free, slab_init, slab_slot, slots_pop, slots_push
from queuecore._core.inflate cimport (
    INFLATER_BYTES, Inflater, inflate_prefer, inflater_begin, inflater_end, inflater_run)
from queuecore._core.streams cimport Stream, stream_close, stream_open, stream_read
from queuecore._core.tfrecord cimport (
    TFRECORD_FRAME, TFRECORD_HEADER, TFRECORD_MOST_BYTES, WALK_END, WALK_FAULT, WALK_FULL, WALK_MORE, TFRecordWalk,
    crc32c, tfrecord_check, tfrecord_damaged, tfrecord_resync, tfrecord_walk)
from queuecore._core.images cimport images_codecs
from queuecore._core.stages cimport Arena, Cell, Step, arena_free, arena_reset, arena_take
from queuecore._core.window cimport (
    window_batch, window_done, window_ended, window_finish, window_free, window_has_room, window_init, window_open,
    window_ready, window_take)

import os

from queuecore._core.inflate import library

check_layout(layout_hash())

cdef extern from "time.h" nogil:
    struct timespec:
        long tv_sec
        long tv_nsec
    int nanosleep(const timespec*, timespec*)

cdef extern from "queuecore/kernels/numbers.hpp" namespace "queuecore" nogil:
    cppclass PowerOfFive:
        uint64_t high
        uint64_t low

    cppclass PowersOfFive:
        PowerOfFive at[651]

    const PowersOfFive kPowersOfFive

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


cdef extern from *:
    """
    #include <sys/mman.h>
    // Pages with one after them that can't be touched.
    static inline void* qc_guarded_pages(size_t nbytes) {
      void* p = mmap(nullptr, nbytes + 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
      if (p == MAP_FAILED) return nullptr;
      mprotect(static_cast<char*>(p) + nbytes, 4096, PROT_NONE);
      return p;
    }
    static inline void qc_guarded_free(void* p, size_t nbytes) { munmap(p, nbytes + 4096); }
    """
    void* guarded_pages "qc_guarded_pages"(size_t) noexcept nogil
    void guarded_free "qc_guarded_free"(void*, size_t) noexcept nogil


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
    slab_init(job.slab, <uint32_t>width + 2, rows * sizeof(int64_t), NULL)
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


# Rings, one call at a time

cdef dict _answers = {
    RING_OK: "ok", RING_EMPTY: "empty", RING_FULL: "full", RING_SEALED: "sealed", RING_TURN: "turn"}


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
        return _answers[fifo_push(self.ring, token)]

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
        return bool(fifo_turn_take(self.ring))

    def turn_give(self):
        fifo_turn_give(self.ring)

    def size(self):
        return fifo_size(self.ring)

    def capacity(self):
        return fifo_capacity(self.ring)

    def lag_tail(self):
        """Put tail one back: as a pusher leaves it that has filled its cell and stopped there."""
        self.ring.tail.fetch_sub(2, kRelaxed)


cdef class Fast:
    """A FastRing. What was refused is False or None."""

    cdef FastRing* ring

    def __cinit__(self, uint32_t capacity, uint64_t start=0):
        self.ring = <FastRing*>alloc_lines(sizeof(FastRing))
        if self.ring == NULL or not fast_init(self.ring, capacity, start):
            raise MemoryError

    def __dealloc__(self):
        if self.ring != NULL:
            fast_free(self.ring)
            free(self.ring)

    def push(self, uint64_t value):
        return bool(fast_push(self.ring, value))

    def pop(self):
        cdef uint64_t value = 0
        return value if fast_pop(self.ring, &value) else None

    def push_many(self, values):
        cdef uint64_t[64] batch
        cdef uint32_t i
        for i in range(<uint32_t>len(values)):
            batch[i] = values[i]
        return bool(fast_push_many(self.ring, batch, <uint32_t>len(values)))

    def pop_many(self, uint32_t n):
        cdef uint64_t[64] batch
        cdef uint32_t i
        return [batch[i] for i in range(n)] if fast_pop_many(self.ring, batch, n) else None


cdef class Spsc:
    """An SpscRing. Batches say how many went through."""

    cdef SpscRing* ring

    def __cinit__(self, uint32_t capacity, uint64_t start=0):
        self.ring = <SpscRing*>alloc_lines(sizeof(SpscRing))
        if self.ring == NULL or not spsc_init(self.ring, capacity, start):
            raise MemoryError

    def __dealloc__(self):
        if self.ring != NULL:
            spsc_free(self.ring)
            free(self.ring)

    def push(self, uint64_t value):
        return bool(spsc_push(self.ring, value))

    def pop(self):
        cdef uint64_t value = 0
        return value if spsc_pop(self.ring, &value) else None

    def push_many(self, values):
        cdef uint64_t[64] batch
        cdef uint32_t i
        for i in range(<uint32_t>len(values)):
            batch[i] = values[i]
        return spsc_push_many(self.ring, batch, <uint32_t>len(values))

    def pop_many(self, uint32_t n):
        cdef uint64_t[64] batch
        cdef uint32_t i
        n = spsc_pop_many(self.ring, batch, n)
        return [batch[i] for i in range(n)]


# Rings under load. The row that a token names is plain memory: who may write it is what the rings decide.

cdef struct Row:
    int64_t producer
    int64_t number

cdef struct RingJob:
    Runner* runner
    FifoRing* fifo   # rows that are filled
    FifoRing* spare  # rows that are free
    FastRing* fast
    SpscRing* spsc
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
    # What a consumer does with a token: looks at the row, gives it back.
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
    while fifo_push(job.spare, token) != RING_OK:
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
            rc = fifo_push(job.fifo, token)
            if rc != RING_FULL:
                break
            ring_backoff()
        if rc != RING_OK:
            if fifo_push(job.fifo, token) != RING_SEALED:
                job.late.fetch_add(1, kRelaxed)
            while fifo_push(job.spare, token) != RING_OK:
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
    # Takes `gather` rows under one turn, in as many pops as it needs: no row of any producer may be missing between
    # them.
    cdef uint32_t[64] tokens
    cdef uint32_t have
    cdef int32_t i
    cdef int rc = RING_EMPTY
    cdef int64_t* within = <int64_t*>calloc(job.producers, sizeof(int64_t))
    while rc != RING_SEALED:
        if not fifo_turn_take(job.fifo):
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
        fifo_turn_give(job.fifo)
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
    job.runner.release = _no_reference
    job.runner.context = job
    runner_start(job.runner, threads, "qc-test", _no_reference, &started)
    runner_join(job.runner, -1)
    while native_live_threads() > 0:  # as in _job_free
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
        (within a turn), ``late`` (pushes after the seal). And ``popped``, which is how many pushes were taken.
    """
    cdef RingJob* job = <RingJob*>alloc_lines(sizeof(RingJob))
    cdef int64_t i, taken = 0, most = capacity + producers + 64 * gatherers
    job.fifo = <FifoRing*>alloc_lines(sizeof(FifoRing))
    job.spare = <FifoRing*>alloc_lines(sizeof(FifoRing))
    fifo_init(job.fifo, capacity, start)
    fifo_init(job.spare, <uint32_t>most, start)
    job.rows = <Row*>calloc(most, sizeof(Row))
    job.pushed = <int64_t*>calloc(producers, sizeof(int64_t))
    job.seen = <unsigned char*>calloc(producers * rounds, 1)
    job.producers, job.singles, job.gatherers = producers, singles, gatherers
    job.rounds, job.seal_at, job.gather = rounds, seal_at, gather
    with nogil:
        for i in range(most):
            fifo_push(job.spare, <uint32_t>i)
        _ring_run(job, _ring_step, producers + singles + gatherers)
    for i in range(producers):
        taken += job.pushed[i]
        job.lost.fetch_add(job.pushed[i] - sum(job.seen[i * rounds + n] for n in range(rounds)), kRelaxed)
    try:
        return {
            "lost": job.lost.load(kRelaxed), "twice": job.twice.load(kRelaxed), "disorder": job.disorder.load(kRelaxed),
            "gaps": job.gaps.load(kRelaxed), "late": job.late.load(kRelaxed),
            "uncounted": taken - job.popped.load(kRelaxed), "popped": taken}
    finally:
        fifo_free(job.fifo)
        fifo_free(job.spare)
        free(job.fifo)
        free(job.spare)
        free(job.rows)
        free(job.pushed)
        free(job.seen)
        free(job)


cdef int _pairs_step(void* context, int32_t worker) noexcept nogil:
    # Even workers push batches of 1 to 4 pointers to numbers, odd ones pop them. The numbers are plain memory.
    cdef RingJob* job = <RingJob*>context
    cdef int64_t me = worker // 2, i, number = 0, sum = 0
    cdef uint64_t random = <uint64_t>worker * 7919 + 1
    cdef uint64_t[4] values
    cdef int64_t* numbers = <int64_t*>job.rows
    cdef uint32_t n, done
    while number < job.rounds:
        n = 1 + <uint32_t>(_random(&random) % 4)
        if n > job.rounds - number:
            n = <uint32_t>(job.rounds - number)
        if worker % 2 == 0:
            for i in range(n):
                numbers[me * job.rounds + number + i] = number + i
                values[i] = <uint64_t>&numbers[me * job.rounds + number + i]
            done = 0
            while done < n:
                if job.spsc != NULL:
                    i = spsc_push_many(job.spsc, values + done, n - done)
                else:
                    i = n if fast_push_many(job.fast, values, n) else 0
                done += <uint32_t>i
                if i == 0:
                    ring_backoff()
        else:
            if job.spsc != NULL:
                n = spsc_pop_many(job.spsc, values, n)
            elif not fast_pop_many(job.fast, values, n):
                n = 0
            for i in range(n):
                sum += (<int64_t*>values[i])[0] + 1
                (<int64_t*>values[i])[0] = -1  # a second pop of it takes nothing, and shows
            if n == 0:
                ring_backoff()
        number += n
    job.popped.fetch_add(sum, kRelaxed)  # relaxed: read when the threads have ended
    return STEP_DONE


def stress_pairs(str kind, int pairs, int64_t rounds, uint32_t capacity, uint64_t start=0):
    """Numbers through a ``fast`` or ``spsc`` ring, in batches. Returns what arrived less what should have: 0."""
    cdef RingJob* job = <RingJob*>alloc_lines(sizeof(RingJob))
    cdef int64_t sum
    if kind == "spsc":
        job.spsc = <SpscRing*>alloc_lines(sizeof(SpscRing))
        spsc_init(job.spsc, capacity, start)
    else:
        job.fast = <FastRing*>alloc_lines(sizeof(FastRing))
        fast_init(job.fast, capacity, start)
    job.rows = <Row*>calloc(pairs * rounds, sizeof(int64_t))
    job.rounds = rounds
    with nogil:
        _ring_run(job, _pairs_step, 2 * pairs)
    sum = job.popped.load(kRelaxed) - pairs * (rounds * (rounds + 1) // 2)
    if kind == "spsc":
        spsc_free(job.spsc)
    else:
        fast_free(job.fast)
    free(job.spsc)
    free(job.fast)
    free(job.rows)
    free(job)
    return sum


cdef int _blocking_step(void* context, int32_t worker) noexcept nogil:
    # Even workers push into a ring of two, odd ones pop; whoever can't go on parks.
    cdef RingJob* job = <RingJob*>context
    cdef bint pusher = worker % 2 == 0
    cdef EventCount* mine = job.drained if pusher else job.filled
    cdef EventCount* theirs = job.filled if pusher else job.drained
    cdef uint32_t token = 0, epoch
    cdef int64_t number, sum = 0
    cdef int rc
    for number in range(job.rounds):
        rc = fifo_push(job.fifo, <uint32_t>(number % 1000)) if pusher else fifo_pop(job.fifo, &token, False)
        while rc != RING_OK:
            epoch = event_prepare(mine)
            rc = fifo_push(job.fifo, <uint32_t>(number % 1000)) if pusher else fifo_pop(job.fifo, &token, False)
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
    """Whether event counts may be light here: the kernel has membarrier, and this build may use it."""
    return bool(light_notify())


# Streams, and the libraries below them, driven from Python.

cdef class FileStream:
    """A native stream over one file."""
    cdef Stream stream
    cdef StopFlag stop
    cdef readonly bytes name

    def __cinit__(self):
        self.stream.fd = -1

    def __init__(self, path, int encoding=0, int retries=0):
        cdef bytes name = os.fsencode(path)
        cdef const char* text = name
        cdef Fault fault
        cdef bint good
        with nogil:
            stream_close(&self.stream)
            good = stream_open(&self.stream, text, encoding, &fault)
        if not good:
            raise fault_error(&fault, name)
        self.name = name
        self.stream.retries = retries
        self.stream.stop = &self.stop

    def request_stop(self):
        """Of whatever a read waits for; from any thread."""
        stop_set(&self.stop, NULL)

    def read(self, int64_t n):
        """Up to n bytes, and the error or None."""
        cdef bytearray into = bytearray(n + 1)
        cdef unsigned char* place = into
        cdef int64_t got = -1
        cdef Fault fault
        cdef bint good
        with nogil:
            good = stream_read(&self.stream, place, n, &got, &fault)
        if place[n] != 0:
            raise AssertionError("written beyond the end")
        return bytes(into[:got]), None if good else fault_error(&fault, self.name)

    def skip(self, int64_t piece):
        """Read all of it, so many bytes at a time; how many there were."""
        cdef unsigned char* into = <unsigned char*>malloc(piece)
        cdef int64_t got = piece, total = 0
        cdef Fault fault
        cdef bint good = True
        with nogil:
            while good and got == piece:
                good = stream_read(&self.stream, into, piece, &got, &fault)
                total += got
            free(into)
        if not good:
            raise fault_error(&fault, self.name)
        return total

    @property
    def offset(self):
        """Of the next byte."""
        return self.stream.offset

    @property
    def size(self):
        """Of the file."""
        return self.stream.size

    def close(self):
        """Idempotent."""
        with nogil:
            stream_close(&self.stream)

    def __dealloc__(self):
        stream_close(&self.stream)


def inflate_pieces(bytes data, int encoding, int64_t source_bytes, int64_t into_bytes, int64_t most=1 << 40):
    """Decompress, both sides in pieces of so many bytes, each at the end of memory after which there is none.

    Returns
    -------
    tuple
        The bytes, up to a little more than `most`; the WHAT_ number of the fault, 0 or, of data that isn't at its end, -1; its place.
    """
    cdef Inflater f
    cdef const unsigned char* given = data
    cdef const unsigned char* source = given
    cdef int64_t n = len(data), at = 0, left = 0, made = 0, total = 0
    cdef int64_t nbytes = ((source_bytes if source_bytes > into_bytes else into_bytes) + 4095) & ~<int64_t>4095
    cdef unsigned char* sources = <unsigned char*>guarded_pages(nbytes)
    cdef unsigned char* results = <unsigned char*>guarded_pages(nbytes)
    cdef unsigned char* into = results + nbytes - into_bytes
    cdef void* room = alloc_lines(INFLATER_BYTES)
    cdef int what
    cdef list parts = []
    if sources == NULL or results == NULL or room == NULL:
        raise MemoryError
    memset(room, 0xa5, INFLATER_BYTES)
    what = inflater_begin(&f, encoding, room)
    while what == 0 and total <= most:
        with nogil:
            what = inflater_run(&f, &source, &left, into, into_bytes, &made)
        parts.append(into[:made])
        total += made
        if what == 0 and made < into_bytes:
            if left != 0:
                raise AssertionError("stopped before the end of its source")
            if at == n:
                what = -1 if f.inside else 0
                break
            left = source_bytes if n - at > source_bytes else n - at
            source = sources + nbytes - left
            memcpy(sources + nbytes - left, given + at, left)
            at += left
    place = f.place
    inflater_end(&f)
    guarded_free(sources, nbytes)
    guarded_free(results, nbytes)
    free(room)
    return b"".join(parts), what, place


def find_library(int encoding=1):
    """The name of what decompresses an encoding; of GZIP and ZLIB, if none is named."""
    return library(encoding)


def prefer_library(str name):
    """Which library decompresses GZIP and ZLIB from now on: "libisal", "libz", or "" for the fastest. The name of what it is."""
    inflate_prefer(["", "libisal", "libz"].index(name))
    return library(1)


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


cdef int _hand_wait(HandJob* job, int side, Op* op, bint hurried) noexcept nogil:
    cdef int rc = HAND_SLICE
    while rc == HAND_SLICE:
        rc = hand_wait(job.hand, side, <Philox*>job.random, op, monotonic_ns() + (20000 if hurried else 50000000))
        if rc == HAND_SLICE and hurried:
            return hand_leave(job.hand, side, <Philox*>job.random, op)
    return rc


cdef void _hand_put(HandJob* job, int32_t worker) noexcept nogil:
    cdef uint32_t tokens[HAND_PIECE]
    cdef Op* op
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
            op = new Op()
            op.tokens = tokens + done
            op.n = n - done
            _hand_wait(job, SIDE_PUT, op, i % 7 == 0)
            done += op.done  # what is in stays in when the time runs out
            del op
        i += n
    if job.putting.fetch_sub(1, kAcqRel) == 1:  # acq_rel: the close comes after all rows of all threads
        op = new Op()
        op.closes = True
        _hand_wait(job, SIDE_PUT, op, False)
        del op


cdef void _hand_get(HandJob* job) noexcept nogil:
    cdef int64_t last[8]
    cdef uint32_t tokens[HAND_PIECE]
    cdef FrontRun* run
    cdef Op* op
    cdef int64_t i = 0, k, n, value, taken = 0, disorder = 0
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
            op = new Op()
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
        taken += n
        if rc == HAND_CLOSED and hand_size(job.hand) == 0:
            break
    job.taken.fetch_add(taken, kRelaxed)  # relaxed: read when the threads have ended
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
        ``lost`` (rows that did not come out, or came twice) and ``disorder`` (rows of one thread that came out of order; not counted
        for a shuffle): 0.
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
        runner = _job_new(_hand_step, 1, 8)
        runner.runner.context = job
        runner_start(runner.runner, putters + getters, "qc-test", _no_reference, &started)
        runner_join(runner.runner, -1)
        _job_free(runner)
    found = {"lost": putters * rounds - job.taken.load(kRelaxed),
             "disorder": job.disorder.load(kRelaxed) if kind == "fifo" else 0}
    hand_free(job.hand)
    pool_free(job.pool)
    free(job.hand)
    free(job.pool)
    free(job.random)
    free(job)
    return found


# TFRecord framing, one way of its checksum against the others

cdef extern from "queuecore/kernels/crc32c.hpp" namespace "queuecore" nogil:
    ctypedef uint32_t (*Crc32cFn)(uint32_t, const unsigned char*, size_t) noexcept

    cppclass Crc32cVariant:
        const char* name
        Crc32cFn run
        bint usable

    Crc32cVariant crc32c_variant(int) noexcept
    Crc32cFn crc32c_best() noexcept


cdef class Guarded:
    """Memory whose ends are those of what may be read: a byte before or past it ends the process."""

    cdef unsigned char* pages
    cdef size_t nbytes

    def __cinit__(self, size_t room):
        cdef unsigned char* mapped
        self.nbytes = (room + 4095) // 4096 * 4096
        mapped = <unsigned char*>map_pages(self.nbytes + 8192)
        if mapped == NULL:
            raise MemoryError
        self.pages = mapped + 4096
        if mprotect(mapped, 4096, PROT_NONE) != 0 or mprotect(self.pages + self.nbytes, 4096, PROT_NONE) != 0:
            raise MemoryError

    def __dealloc__(self):
        if self.pages != NULL:
            unmap_pages(self.pages - 4096, self.nbytes + 8192)

    cdef const unsigned char* put(self, const unsigned char* data, size_t n):
        memcpy(self.pages + self.nbytes - n, data, n)
        return self.pages + self.nbytes - n


def crc32c_variants():
    """The ways to compute it that this processor has, the slowest first, and which of them the core uses."""
    cdef list names = []
    cdef int i = 0
    cdef str used = ""
    while crc32c_variant(i).name != NULL:
        if crc32c_variant(i).usable:
            names.append(crc32c_variant(i).name.decode())
        if crc32c_variant(i).run == crc32c_best():
            used = crc32c_variant(i).name.decode()
        i += 1
    return names, used


def crc32c_by(str name, bytes data, uint32_t crc=0):
    """The checksum of data, computed in one of the ways, continuing another."""
    cdef Guarded guarded = Guarded(len(data))
    cdef int i = 0
    while crc32c_variant(i).name != NULL:
        if crc32c_variant(i).name.decode() == name and crc32c_variant(i).usable:
            return crc32c_variant(i).run(crc, guarded.put(data, len(data)), len(data))
        i += 1
    raise ValueError(name)


def tfrecord_read(bytes data, int64_t block, int64_t most=1000, bint known=True,
                  int64_t max_record_bytes=TFRECORD_MOST_BYTES, bint check=True, bint resync=False):
    """Read a stream of TFRecords as a reader does, in blocks of that many bytes, or of as many as the framing asks for.

    known: the framing is told how long the stream is. resync: go on after damage. Returns the records as (offset, index,
    data), the errors, and the longest block that was asked for.
    """
    cdef TFRecordWalk walk
    cdef Fault fault, damage
    cdef int64_t* starts = <int64_t*>calloc(most + 1, sizeof(int64_t))
    cdef int64_t size = len(data), at = 0, found = 0, i, n, wanted = 0, need = 1, start, whole
    cdef const unsigned char* p
    cdef int rc
    cdef Guarded guarded = Guarded(size)
    cdef list records = [], faults = []
    if starts == NULL:
        raise MemoryError
    memset(&walk, 0, sizeof(TFRecordWalk))
    walk.total_bytes = size if known else -1
    walk.max_record_bytes = max_record_bytes
    walk.check = check
    try:
        while True:
            n = max(block, need)
            wanted = max(n, wanted)
            n = min(n, size - at)
            p = guarded.put(<const unsigned char*><const char*>data + at, n)
            rc = tfrecord_walk(&walk, p, n, not known and at + n == size, starts, most, &found, &fault)
            for i in range(found):
                start = at + starts[i]
                whole = starts[i + 1] - starts[i]
                if check and not tfrecord_check(p + starts[i] + TFRECORD_HEADER, whole - TFRECORD_FRAME):
                    tfrecord_damaged(start, walk.record - found + i, &damage)
                    faults.append(fault_error(&damage, b"stream"))
                    if not resync:
                        return records, faults, wanted
                else:
                    records.append((start, walk.record - found + i,
                                    data[start + TFRECORD_HEADER:start + whole - TFRECORD_FRAME + TFRECORD_HEADER]))
            at += starts[found]
            need = walk.need if rc == WALK_MORE else 1
            if rc == WALK_END:
                return records, faults, wanted
            if rc == WALK_FAULT:
                faults.append(fault_error(&fault, b"stream"))
                if not resync or fault.code == CODE_TRUNCATED:
                    return records, faults, wanted
                at += 1
                while True:
                    n = min(max(block, TFRECORD_HEADER), size - at)
                    p = guarded.put(<const unsigned char*><const char*>data + at, n)
                    if tfrecord_resync(p, n, size - at if known else -1, max_record_bytes, &i):
                        at += i
                        break
                    if at + n == size:
                        return records, faults, wanted
                    at += i
                walk.offset = at
                walk.record += 1
    finally:
        free(starts)


def tfrecord_header(uint64_t length):
    """The header of a record of so many bytes, also of more than any memory has."""
    cdef unsigned char header[TFRECORD_HEADER]
    cdef uint32_t crc
    memcpy(header, &length, 8)
    crc = crc32c(0, header, 8)
    crc = ((crc >> 15) | (crc << 17)) + <uint32_t>0xA282EAD8u
    memcpy(header + 8, &crc, 4)
    return (<const char*>header)[:TFRECORD_HEADER]


def bench_tfrecord(const unsigned char[::1] data, int64_t passes, bint check=True):
    """Walk over records in memory and check their data, so many times: nanoseconds a pass, and how many records."""
    cdef TFRecordWalk walk
    cdef Fault fault
    cdef int64_t starts[257]
    cdef int64_t found = 0, i, begun, size = data.shape[0], records = 0, damaged = 0
    cdef const unsigned char* first = &data[0]
    cdef const unsigned char* p
    cdef int rc = WALK_END
    with nogil:
        begun = monotonic_ns()
        for _ in range(passes):
            memset(&walk, 0, sizeof(TFRecordWalk))
            walk.total_bytes = size
            walk.max_record_bytes = TFRECORD_MOST_BYTES
            walk.check = True
            rc = WALK_FULL
            while rc == WALK_FULL:
                p = first + walk.offset
                rc = tfrecord_walk(&walk, p, size - walk.offset, False, starts, 256, &found, &fault)
                for i in range(found):
                    if check and not tfrecord_check(p + starts[i] + TFRECORD_HEADER,
                                                    starts[i + 1] - starts[i] - TFRECORD_FRAME):
                        damaged += 1
                records += found
        begun = monotonic_ns() - begun
    if rc != WALK_END or damaged:
        raise ValueError("the records are damaged")
    return begun // passes, records // passes


# Histories of the hand-off. Each thread runs a whole program of calls without the GIL, as queues.pyx would make them of the slots it has
# filled, and writes down when each began, when it was over, and what came of it.

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


cdef int _call_wait(HandJob* job, int side, Op* op, int64_t timeout_ns) noexcept nogil:
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
    cdef int64_t k, at = 0
    cdef int rc
    cdef Op op
    for k in range(c.n):
        tokens[k] = _hand_slot(job, c.values[k])
        keys[k] = c.values[k] % 10
    if c.what == CALL_PUT and put_try(job.hand, tokens[0], keys[0]) == HAND_DONE:
        hand_settle(job.hand, <Philox*>job.random)
        rc = HAND_DONE
    else:
        # More rows than a piece has come in several, as those of a very long enqueue_many.
        while True:
            op.tokens = tokens + at
            op.keys = keys + at
            k = c.n - at if c.n - at < HAND_PIECE else HAND_PIECE
            if at == 0:
                op.n = k
                op.more = k < c.n
            else:
                hand_refill(job.hand, <Philox*>job.random, &op, k, at + k < c.n)
            rc = _call_wait(job, SIDE_PUT, &op, c.timeout_ns)
            at += op.done
            if rc != HAND_DONE or at == c.n:
                break
        hand_leave(job.hand, SIDE_PUT, <Philox*>job.random, &op)
        for k in range(at, c.n):
            pool_push(job.pool, tokens[k])
    free(tokens)
    free(keys)
    return rc


cdef int _call_get(HandJob* job, HandCall* c) noexcept nogil:
    cdef FrontRun* run = <FrontRun*>malloc(sizeof(FrontRun) + c.n * sizeof(uint32_t))
    cdef int64_t k
    cdef int rc
    cdef Op op
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
    cdef Op op
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
    c.over.store(job.clock.fetch_add(1, kSeqCst), kRelease)  # release: whoever sees that it is over sees its result


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
        cdef int64_t i, k, over
        found = []
        for i in range(self.n):
            c = &self.calls[i]
            over = c.over.load(kAcquire)
            if c.begun.load(kAcquire) != 0:
                values = [c.values[k] for k in range(c.n if c.what <= CALL_PUT_MANY else c.done if over else 0)]
                found.append((_CALLS[c.what], c.begun.load(kAcquire), over, c.result, tuple(values), c.n))
        return found

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
        if not hand_init(job.hand, {"fifo": STORE_FIFO, "random": STORE_RANDOM, "priority": STORE_PRIORITY}[kind], capacity, least, start):
            raise MemoryError

    def __dealloc__(self):
        # Nobody waits any more: who does has a reference.
        hand_free(self.job.hand)
        pool_free(self.job.pool)
        free(self.job.hand)
        free(self.job.pool)
        free(self.job.random)
        free(self.job)

    def run(self, list steps, int threads=0):
        """Make calls, each ``(name, values or number, timeout)``, one after the other; first wait for so many threads to come here."""
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
        """How many calls wait, as the statistics of a queue say."""
        return {"waiting_enqueues": self.job.hand.side[SIDE_PUT].parked.load(kRelaxed),
                "waiting_dequeues": self.job.hand.side[SIDE_GET].parked.load(kRelaxed)}


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


# CSV, block by block, as a source hands them on.

def csv_table(CsvFormat format not None, bytes data not None, int64_t block_bytes, int64_t most=1 << 40, bint cut=False, bint skip=False,
              int64_t header_rows=0):
    """Parse a file in blocks that grow by block_bytes until they hold a row; return (columns, cursor, error or None, skipped rows).

    most: rows a call. cut: find the rows' ends first, and give them to the parser as whole blocks. skip: pass over bad rows.
    """
    cdef CsvPlan* plan = &format.plan
    cdef CsvCursor at, cut_at
    cdef CsvBlock block, whole
    cdef Arena arena
    cdef Fault fault
    cdef int64_t size = len(data), held = 0, begin = 0, room = 1024, r, skipped = 0
    cdef int32_t i
    cdef int rc
    cdef unsigned char* held_bytes = NULL
    cdef CsvPlace* places = NULL
    cdef CsvText* text
    cdef list columns = [[] for _ in range(plan.count)]
    error = None
    if block_bytes < 1 or most < 1:
        raise ValueError("nothing to do")
    if most < room:
        room = most
    memset(&at, 0, sizeof(CsvCursor))
    memset(&block, 0, sizeof(CsvBlock))
    memset(&fault, 0, sizeof(Fault))
    at.line = 1
    arena.last = NULL
    places = <CsvPlace*>calloc(plan.count, sizeof(CsvPlace))
    try:
        if places == NULL:
            raise MemoryError
        for i in range(plan.count):
            places[i].stride = plan.columns[i].item_bytes
            places[i].base = <unsigned char*>calloc(room, places[i].stride)
            if places[i].base == NULL:
                raise MemoryError
        while True:
            # A copy of just these bytes, so that a sanitizer sees who reads others.
            free(held_bytes)
            held_bytes = <unsigned char*>malloc(held if held > 0 else 1)
            if held_bytes == NULL:
                raise MemoryError
            memcpy(held_bytes, <const unsigned char*>data + begin, held)
            block.text = held_bytes
            block.nbytes = held
            block.last = begin + held == size
            block.most = room
            arena_reset(&arena)
            whole = block
            rc = 0
            if header_rows > 0:
                block.most = header_rows
                rc = csv_cut(plan, &block, &at, &fault)
                header_rows -= block.rows
                block.rows = 0
            else:
                if cut:
                    cut_at = at
                    rc = csv_cut(plan, &whole, &cut_at, &fault)
                    block.nbytes = whole.consumed
                    block.last = True
                    block.most = whole.rows
                if rc == 0:
                    with nogil:
                        rc = csv_parse(plan, places, &block, &at, &arena, &fault)
                    if cut and rc == 0 and (block.consumed != whole.consumed or memcmp(&at, &cut_at, sizeof(CsvCursor))):
                        raise AssertionError(f"parsed {block.consumed} bytes of {whole.consumed} in {whole.rows} rows")
                else:
                    block.rows = block.consumed = 0
            for i in range(plan.count):
                for r in range(block.rows):
                    if plan.columns[i].kind == CSV_TEXT:
                        text = <CsvText*>(places[i].base + r * places[i].stride)
                        columns[i].append((<const char*>text.data)[:text.nbytes])
                    else:
                        columns[i].append((<const char*>places[i].base)[r * places[i].stride:(r + 1) * places[i].stride])
            begin += block.consumed
            held -= block.consumed
            if rc != 0:
                if not skip or fault.code != CODE_CSV:
                    error = fault_error(&fault, b"t.csv")
                    break
                # The rest of the bad row, however many blocks that takes.
                while True:
                    block.text = <const unsigned char*>data + begin
                    block.nbytes = held
                    block.last = begin + held == size
                    block.most = 1
                    csv_cut(plan, &block, &at, &fault)
                    begin += block.consumed
                    held -= block.consumed
                    if block.rows or block.last:
                        break
                    held = min(held + block_bytes, size - begin)
                skipped += 1
            elif block.consumed == 0:
                if begin + held == size:
                    break
                if held > plan.max_record_bytes + 4:  # beside the row: CR LF, or what shows that it is longer, and a mark
                    raise AssertionError(f"{held} bytes of a row are not refused")
                held = min(held + block_bytes, size - begin)
        return columns, (at.offset, at.row, at.line), error, skipped
    finally:
        if places != NULL:
            for i in range(plan.count):
                free(places[i].base)
        free(places)
        free(held_bytes)
        arena_free(&arena)


def csv_time(CsvFormat format not None, bytes data not None, int64_t rows):
    """Return the seconds that parsing a file of so many rows takes, in blocks of 256 KiB, into rows of a table."""
    cdef CsvPlan* plan = &format.plan
    cdef CsvCursor at
    cdef CsvBlock block
    cdef Arena arena
    cdef Fault fault
    cdef int64_t width = 0, start, left = len(data), done = 0
    cdef int32_t i
    cdef int rc = 0
    cdef unsigned char* table
    cdef CsvPlace* places = <CsvPlace*>calloc(plan.count, sizeof(CsvPlace))
    for i in range(plan.count):
        width += plan.columns[i].item_bytes
    table = <unsigned char*>calloc(rows, width)
    if places == NULL or table == NULL:
        free(places)
        free(table)
        raise MemoryError
    places[0].base = table
    for i in range(plan.count):
        if i > 0:
            places[i].base = places[i - 1].base + plan.columns[i - 1].item_bytes
        places[i].stride = width
    memset(table, 1, rows * width)
    memset(&at, 0, sizeof(CsvCursor))
    at.line = 1
    arena.last = NULL
    block.text = data
    with nogil:
        start = monotonic_ns()
        while left > 0:
            block.last = left <= 256 << 10
            block.nbytes = left if block.last else 256 << 10
            block.most = rows - done
            arena_reset(&arena)
            rc = csv_parse(plan, places, &block, &at, &arena, &fault)
            if rc != 0 or block.consumed == 0:
                break
            block.text += block.consumed
            left -= block.consumed
            done += block.rows
            for i in range(plan.count):
                places[i].base += block.rows * width
        start = monotonic_ns() - start
    arena_free(&arena)
    free(places)
    free(table)
    if done != rows or left != 0:
        raise ValueError(f"{done} rows of {rows}, and {left} bytes are left")
    return start * 1e-9


def parse_number(int kind, bytes text not None):
    """Return the bytes of a number of a kind of CSV column, or None if it is none."""
    cdef const unsigned char* p = text
    cdef const unsigned char* end = p + len(text)
    cdef float f = 0
    cdef double d = 0
    cdef int32_t i = 0
    cdef int64_t q = 0
    if kind == 0:
        return (<const char*>&f)[:4] if csv_number(p, end, &f) else None
    if kind == 1:
        return (<const char*>&d)[:8] if csv_number(p, end, &d) else None
    if kind == 2:
        return (<const char*>&i)[:4] if csv_number(p, end, &i) else None
    return (<const char*>&q)[:8] if csv_number(p, end, &q) else None


def powers_of_five():
    """Return the table by which decimal numbers are read: {q: (high, low)}."""
    return {q: (kPowersOfFive.at[q + 342].high, kPowersOfFive.at[q + 342].low) for q in range(-342, 309)}


cdef class LinesPages:
    """Kernels of a level, at work beside pages that can't be touched: a byte read or written beyond its place ends the process.

    Parameters
    ----------
    level : int
        0: those of every processor, 1: AVX2, 2: AVX-512; -1: the fastest.
    room : int
        The most bytes of a text.
    """

    cdef const LinesKernels* kernels
    cdef size_t room
    cdef Guarded text, ends, values, splits

    def __init__(self, int level, size_t room):
        self.kernels = lines_kernels(level)
        if self.kernels == NULL:
            raise ValueError(f"no kernels of level {level} for this processor")
        self.room = room
        self.text = Guarded(room + 64)
        self.ends = Guarded(4 * (room + 1))
        self.values = Guarded(room + 64)
        self.splits = Guarded(8 * (room + 1))

    @staticmethod
    def same(int level, int other):
        """Return whether two levels are the same kernels."""
        return lines_kernels(level) == lines_kernels(other)

    cdef const unsigned char* _place(self, bytes data, Py_ssize_t gap):
        # Carriage returns before it and newlines behind it are none of its own.
        cdef unsigned char* text = self.text.pages
        if <size_t>len(data) > self.room or not -1 <= gap <= 64:
            raise ValueError("no room for the text")
        if gap >= 0:
            text += self.text.nbytes - gap - len(data)
        memset(self.text.pages, 13, text - self.text.pages)
        memcpy(text, <const unsigned char*>data, len(data))
        memset(text + len(data), 10, self.text.pages + self.text.nbytes - text - len(data))
        return text

    def find(self, bytes data not None, int64_t most, Py_ssize_t gap=0):
        """Return the ends in a text with `gap` bytes behind it (-1: at the start of a page), and how many newlines it has."""
        cdef const unsigned char* text = self._place(data, gap)
        cdef uint32_t* ends
        cdef int64_t count, i
        if not 0 <= most <= <int64_t>self.room:
            raise ValueError(most)
        ends = <uint32_t*>(self.ends.pages + self.ends.nbytes) - most
        ends[-1] = 0xabadcafe
        count = self.kernels.find(text, len(data), ends, most)
        if ends[-1] != 0xabadcafe or memcmp(text, <const unsigned char*>data, len(data)) != 0:
            raise AssertionError("something else was written")
        return [ends[i] for i in range(count)], lines_count(text, len(data))

    def gather(self, bytes data not None, int64_t begin, list ends not None, int64_t nbytes, int64_t base=0, Py_ssize_t gap=0,
               Py_ssize_t behind=0):
        """Return values and splits of the lines that end so, which take `nbytes`; `behind` these, memory stays as it is."""
        cdef const unsigned char* text = self._place(data, gap)
        cdef int64_t n = len(ends), i, taken, most, before
        cdef uint32_t* places
        cdef int64_t* splits
        cdef unsigned char* values
        if not 0 <= nbytes <= <int64_t>self.room or not 0 <= behind <= 64 or n > <int64_t>self.room:
            raise ValueError("no room for the lines")
        places = <uint32_t*>(self.ends.pages + self.ends.nbytes) - n
        splits = <int64_t*>(self.splits.pages + self.splits.nbytes) - n
        values = self.values.pages + self.values.nbytes - nbytes - behind
        for i in range(n):
            places[i] = ends[i]
        memset(self.values.pages, 0xcd, self.values.nbytes)
        splits[-1] = -7
        most = lines_most(begin, places, n)
        taken = self.kernels.gather(text, begin, places, n, values, base, splits)
        if not nbytes <= most or taken != nbytes or splits[-1] != -7:
            raise AssertionError(f"{taken} of {nbytes} bytes, {most} at most; {splits[-1]}")
        before = values - self.values.pages
        for i in range(<int64_t>self.values.nbytes):
            if not before <= i < before + nbytes and self.values.pages[i] != 0xcd:
                raise AssertionError(f"byte {i - before} was written")
        return (<const char*>values)[:nbytes], [splits[i] for i in range(n)]


# Functions as a user's compiler makes them, for steps that call some.

cdef int64_t _sums(const unsigned char* text, const float* numbers, double* sums, int64_t text_bytes, int64_t count) noexcept nogil:
    cdef int64_t i
    sums[0] = sums[1] = 0
    for i in range(text_bytes):
        sums[0] += text[i]
    for i in range(count):
        sums[1] += numbers[i]
    return 0


cdef int32_t _first_digit(const unsigned char* text, int32_t* digit) noexcept nogil:
    # Its value; the negative of what stands there if it is none.
    digit[0] = text[0] - <int32_t>48
    return 0 if 0 <= digit[0] < 10 else -<int32_t>text[0]


cdef int32_t _hold(const int64_t* address, int32_t* told) noexcept nogil:
    # Comes back when there is a number at the address.
    cdef Atomic[int32_t]* number = <Atomic[int32_t]*>address[0]
    while number.load(kAcquire) == 0:  # acquire: pairs with the store of the test
        sched_yield()
    told[0] = number.load(kRelaxed)  # relaxed: the same thread
    return 0


cdef void _mirror(const int32_t* a, const int32_t* b, const int32_t* c, const int32_t* d, const int32_t* e, const int32_t* f,
                  const int32_t* g, const int32_t* h, int32_t* p, int32_t* q, int32_t* r, int32_t* s, int32_t* t, int32_t* u,
                  int32_t* v, int32_t* w) noexcept nogil:
    # The most arguments that there may be: in registers, and on the stack.
    p[0] = h[0]
    q[0] = g[0]
    r[0] = f[0]
    s[0] = e[0]
    t[0] = d[0]
    u[0] = c[0]
    v[0] = b[0]
    w[0] = a[0]


def functions():
    """Return the addresses of functions in machine code, by name."""
    return {"sums": <size_t>&_sums, "first_digit": <size_t>&_first_digit, "hold": <size_t>&_hold, "mirror": <size_t>&_mirror}


# Pictures: a step over and over, and libjpeg alone.

cdef extern from "queuecore/image_codecs.hpp" namespace "queuecore" nogil:
    cppclass JpegErrors:
        pass

    cppclass JpegSource:
        const unsigned char* next
        size_t left
        void (*init)(JpegDecompress*) noexcept
        int (*fill)(JpegDecompress*) noexcept
        void (*skip)(JpegDecompress*, long) noexcept
        int (*resync)(JpegDecompress*, int) noexcept
        void (*term)(JpegDecompress*) noexcept

    cppclass JpegDecompress:
        JpegErrors* errors
        JpegSource* source
        uint32_t output_width
        uint32_t output_height
        int output_components
        uint32_t output_scanline

    cppclass JpegAbi:
        int version
        size_t size

    cppclass ImageCodecs:
        JpegErrors* (*jpeg_std_error)(JpegErrors*) noexcept
        void (*jpeg_create)(JpegDecompress*, int, size_t) noexcept
        int (*jpeg_read_header)(JpegDecompress*, int) noexcept
        int (*jpeg_start)(JpegDecompress*) noexcept
        uint32_t (*jpeg_read)(JpegDecompress*, unsigned char**, uint32_t) noexcept
        int (*jpeg_finish)(JpegDecompress*) noexcept
        void (*jpeg_destroy)(JpegDecompress*) noexcept
        int (*jpeg_resync)(JpegDecompress*, int) noexcept
        JpegAbi abi

    void jpeg_nothing(JpegDecompress*) noexcept
    void jpeg_skip(JpegDecompress*, long) noexcept

cdef enum:
    JPEG_LINES = 16


cdef int _no_more(JpegDecompress* own) noexcept nogil:
    return 0


cdef int64_t _jpeg_alone(const ImageCodecs* codecs, const unsigned char* data, int64_t nbytes, unsigned char* into) noexcept nogil:
    # As a program of its own would: no limit, no way back from an error.
    cdef JpegErrors errors
    cdef JpegSource source
    cdef JpegDecompress own
    cdef (unsigned char*)[JPEG_LINES] rows
    cdef int64_t row_bytes
    cdef uint32_t left
    cdef int i
    own.errors = codecs.jpeg_std_error(&errors)
    codecs.jpeg_create(&own, codecs.abi.version, codecs.abi.size)
    source.next = data
    source.left = <size_t>nbytes
    source.init = source.term = jpeg_nothing
    source.fill = _no_more
    source.skip = jpeg_skip
    source.resync = codecs.jpeg_resync
    own.source = &source
    codecs.jpeg_read_header(&own, 1)
    codecs.jpeg_start(&own)
    row_bytes = <int64_t>own.output_width * own.output_components
    while own.output_scanline < own.output_height:
        for i in range(JPEG_LINES):
            rows[i] = into + (own.output_scanline + i) * row_bytes
        left = own.output_height - own.output_scanline
        if codecs.jpeg_read(&own, rows, left if left < <uint32_t>JPEG_LINES else JPEG_LINES) == 0:
            break
    codecs.jpeg_finish(&own)
    codecs.jpeg_destroy(&own)
    return row_bytes * own.output_height


def decode_pictures(list files, Step step=None):
    """Decode files one after the other, by a step, or, without one, by libjpeg alone, which trusts them.

    Returns
    -------
    tuple
        Nanoseconds, and the bytes of the last picture.
    """
    cdef const ImageCodecs* codecs = <const ImageCodecs*>images_codecs()
    cdef Py_ssize_t n = len(files), i
    cdef const unsigned char** data = <const unsigned char**>calloc(n + 1, sizeof(void*))
    cdef int64_t* sizes = <int64_t*>calloc(n + 1, sizeof(int64_t))
    cdef Cell[2] cells
    cdef Arena arena
    cdef Fault fault
    cdef unsigned char* place = NULL
    cdef int64_t room = 0, begun, nbytes = 0
    cdef int rc = 0
    memset(cells, 0, sizeof(cells))
    arena.last = NULL
    if data == NULL or sizes == NULL:
        raise MemoryError
    for i in range(n):
        data[i] = <const unsigned char*><const char*>files[i]
        sizes[i] = len(files[i])
    if step is None:
        from PIL import Image
        import io
        for file in files:
            with Image.open(io.BytesIO(file)) as picture:
                room = max(room, 3 * picture.width * picture.height)
    try:
        with nogil:
            begun = monotonic_ns()
            for i in range(n):
                arena_reset(&arena)
                if step is None:
                    place = <unsigned char*>arena_take(&arena, <size_t>room)
                    nbytes = _jpeg_alone(codecs, data[i], sizes[i], place)
                else:
                    cells[0].data = <unsigned char*>data[i]
                    cells[0].nbytes = sizes[i]
                    cells[1].data = NULL
                    rc = step.run(step.params, &cells[0], &cells[1], &arena, &fault)
                    if rc != 0:
                        break
                    place = cells[1].data
                    nbytes = cells[1].nbytes
            begun = monotonic_ns() - begun
        if rc != 0:
            raise step.explain(fault.what, fault.a, fault.b)
        return begun, (<const char*>place)[:nbytes]
    finally:
        arena_free(&arena)
        free(data)
        free(sizes)
