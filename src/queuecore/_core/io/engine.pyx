"""The request engine. See engine.pxd for the contract."""
from libc.errno cimport EAGAIN
from libc.stdint cimport int32_t, int64_t, uint32_t
from libc.string cimport memset
from queuecore._core.atoms.memory cimport free, malloc
from queuecore._core.atoms.parking cimport event_notify, turn_give, turn_take
from queuecore._core.atoms.platform cimport Fault, iovec, kRingReads, layout_hash, monotonic_ns, size_product
from queuecore._core.atoms.process cimport buffer_give, buffer_take, check_layout
from queuecore._core.atoms.runtime cimport STEP_IDLE, STEP_WORKED
from queuecore._core.io.sources cimport (
    READ_OK, FileRead, FileTable, read_records, table_no_rings, table_pin, table_unpin)

check_layout(layout_hash())

cdef enum:
    MEASURED_NS = 20000000   # least time of a measurement
    HOLD = 32                # measurements between two attempts
    QUEUED_BYTES = 32 << 20  # what may wait or be read at a time


# What twice the depth must bring, and half of it may cost.
cdef double MORE_BRINGS = 1.04
cdef double LESS_COSTS = 0.98


# Jobs

cdef int64_t job_room(Job* job, int64_t requests, int64_t nbytes) noexcept nogil:
    cdef int64_t old_bytes = job.room * <int64_t>sizeof(Request) + job.stage_bytes
    if job.room < requests:
        free(job.requests)
        job.room = 0
        job.requests = <Request*>malloc(size_product(requests, sizeof(Request)))
        if job.requests == NULL:
            return -1
        job.room = requests
    if job.stage_bytes < nbytes:
        buffer_give(job.stage, job.stage_bytes)
        job.stage_bytes = 0
        job.stage = <unsigned char*>buffer_take(nbytes)
        if job.stage == NULL:
            return -1
        job.stage_bytes = nbytes
    return job.room * <int64_t>sizeof(Request) + job.stage_bytes - old_bytes


cdef void job_clear(Job* job) noexcept nogil:
    free(job.requests)
    buffer_give(job.stage, job.stage_bytes)
    memset(job, 0, sizeof(Job))


cdef const Request* job_find(Job* job, int64_t pass_, int64_t ordinal) noexcept nogil:
    cdef const Request* r
    cdef int64_t i
    for i in range(job.at, job.count):
        r = &job.requests[i]
        if r.pass_ == pass_ and r.first <= ordinal < r.first + r.rows:
            job.at = i
            return r if r.whole else NULL
    return NULL


# Requests

cdef void _read(FileTable* t, Request* r) noexcept nogil:
    cdef Fault fault
    cdef iovec iov
    cdef FileRead read_
    read_.file = r.file
    read_.fd = table_pin(t, r.file, r.pass_, False, &fault)
    if read_.fd < 0:
        return
    iov.iov_base = r.to
    iov.iov_len = <size_t>r.nbytes
    read_.iov = &iov
    read_.count = 1
    read_.offset = r.at
    read_.nowait = False
    r.whole = read_records(t, &read_, &fault) == READ_OK
    if not table_unpin(t, r.file, r.rows if r.whole else 0, False, &fault):
        r.whole = False


cdef void _put(Engine* e, Crew* c, Request* r) noexcept nogil:
    r.next = NULL
    if c.first == NULL:
        c.first = r
    else:
        (<Request*>c.last).next = r
    c.last = r
    c.waiting += 1
    e.bytes += r.nbytes


cdef bint engine_full(Engine* e) noexcept nogil:
    cdef bint full
    turn_take(&e.turn)
    full = e.pool.waiting + e.rings.waiting > 4 * e.depth_most or e.bytes > QUEUED_BYTES
    turn_give(&e.turn)
    return full


cdef void engine_counts(Engine* e, int64_t* pool, int64_t* rings, int64_t* depth) noexcept nogil:
    pool[0] = rings[0] = depth[0] = 0
    if e != NULL:
        turn_take(&e.turn)
        pool[0], rings[0], depth[0] = e.pool.done, e.rings.done, e.depth if e.begun else 0
        turn_give(&e.turn)


cdef void _rest(Engine* e, int64_t depth, int32_t then) noexcept nogil:
    # Stays at a depth for a while.
    e.depth = depth
    e.trying = TRY_NOTHING
    e.then = then
    e.hold = HOLD


cdef void engine_judge(Engine* e, double rate) noexcept nogil:
    # Looks whether the depth that is being tried is good, and what to try next.
    cdef bint is_better = rate > (MORE_BRINGS if e.trying == TRY_MORE else LESS_COSTS) * e.best
    if e.trying == TRY_NOTHING:
        e.best = rate  # a good result may have been luck, or another time's
        e.hold -= 1
        if e.hold <= 0:
            e.trying = e.then
    elif not is_better:
        _rest(e, e.depth // 2 if e.trying == TRY_MORE else 2 * e.depth, TRY_LESS if e.trying == TRY_MORE else TRY_MORE)
    else:
        e.best = max(e.best, rate)
    if e.trying == TRY_MORE and e.depth < e.depth_most:
        e.depth = min(2 * e.depth, e.depth_most)
    elif e.trying == TRY_LESS and e.depth >= 2 * DEPTH_LEAST:
        e.depth //= 2
    elif e.trying != TRY_NOTHING:
        _rest(e, e.depth, TRY_LESS if e.trying == TRY_MORE else TRY_MORE)


cdef void _measure(Engine* e, int64_t now) noexcept nogil:
    if not e.starved and not e.fixed:
        engine_judge(e, <double>e.got / <double>(now - e.since))
    e.since = now
    e.got = e.count = 0
    e.starved = False


# Threads

cdef inline bint _lacks(const Engine* e, const Crew* c) noexcept nogil:
    # Returns whether the depth asks for more threads. Under the turn, like _room.
    return c.waiting > 0 and not e.alone and c.threads * c.each < e.depth


cdef inline int64_t _room(const Engine* e, const Crew* c) noexcept nogil:
    # Returns how many requests that wait for the crew may begin.
    return min(c.waiting, e.depth - e.running - (e.pool.waiting if c == &e.rings else 0))


cdef void _grow(Engine* e, Crew* c) noexcept nogil:
    # Starts the threads that the depth asks for. A thread that doesn't start is never tried again.
    cdef int32_t old_threads, count, started
    cdef bint none
    turn_take(&e.turn)
    old_threads = c.threads
    if _lacks(e, c):
        c.threads = <int32_t>((e.depth + c.each - 1) // c.each)
    count = c.threads - old_threads
    turn_give(&e.turn)
    if count == 0:
        return
    started = e.more(e.context, c.work, c.number + old_threads, count)
    if started == count:
        return
    turn_take(&e.turn)
    c.threads -= count - started
    none = c.threads == 0
    if c == &e.pool or not none:
        e.depth_most = e.depth = min(e.depth, <int64_t>max(c.threads * c.each, 1))
        e.fixed = True
    if c == &e.pool:
        e.alone = none
    turn_give(&e.turn)
    if c == &e.rings and none:
        engine_refuse(e, EAGAIN)


cdef void engine_urge(Engine* e, Crew* c) noexcept nogil:
    cdef int64_t n
    cdef bint alone
    turn_take(&e.turn)
    if _lacks(e, c):
        turn_give(&e.turn)
        _grow(e, c)
        turn_take(&e.turn)
    n = _room(e, c)
    alone = e.alone and c == &e.pool
    turn_give(&e.turn)
    while alone and engine_step(e) == STEP_WORKED:  # this thread does what was handed over before that was known
        pass
    if n > 0:
        event_notify(c.work, <uint32_t>((n + c.each - 1) // c.each))


cdef void engine_refuse(Engine* e, int error) noexcept nogil:
    cdef Request* r
    cdef Request* next
    turn_take(&e.turn)
    if e.ringing:
        e.ringing = False
        table_no_rings(e.table, error)
    r = <Request*>e.rings.first
    e.rings.first = e.rings.last = NULL
    e.rings.waiting = 0
    while r != NULL:
        next = r.next
        e.bytes -= r.nbytes
        _put(e, &e.pool, r)
        r = next
    turn_give(&e.turn)
    engine_urge(e, &e.pool)


cdef void engine_begin(Engine* e, int64_t depth, int64_t most) noexcept nogil:
    e.fixed = depth > 0
    e.trying = TRY_MORE
    e.depth = min(depth if depth > 0 else <int64_t>DEPTH_FIRST, most)
    e.depth_most = min(depth if depth > 0 else <int64_t>DEPTH_MOST, most)


cdef void engine_init(Engine* e, FileTable* table, int64_t depth, int64_t max_depth,
                      const EngineOwner* owner) noexcept nogil:
    e.table = table
    e.run = owner.run
    e.done = owner.done
    e.more = owner.more
    e.context = owner.context
    e.pool.work = owner.apart
    e.pool.number = MOST_RINGS
    e.pool.each = 1
    e.rings.work = owner.rings
    e.rings.each = kRingReads
    e.ringing = owner.rings != NULL
    engine_begin(e, depth, max_depth)


cdef bint engine_submit(Engine* e, Job* job) noexcept nogil:
    cdef int64_t i
    cdef Crew* c = &e.pool
    job.at = 0
    job.left = max(job.count, <int64_t>1)
    turn_take(&e.turn)
    if e.alone:
        turn_give(&e.turn)
        return False
    if not e.begun:
        e.begun = True
        e.since = monotonic_ns()
    if e.ringing and job.count > 0:
        c = &e.rings
    for i in range(job.count):
        _put(e, c, &job.requests[i])
    if job.count == 0:
        _put(e, c, &job.run)
    turn_give(&e.turn)  # from here on the job is the engine's
    engine_urge(e, c)
    return True


cdef Request* engine_take(Engine* e, Crew* c, int64_t most) noexcept nogil:
    cdef Request* first = NULL
    cdef Request* r
    cdef int64_t n, _i
    turn_take(&e.turn)
    n = min(_room(e, c), most)
    if n > 0:
        first = r = <Request*>c.first
        for _i in range(n - 1):
            r = r.next
        c.first = r.next
        r.next = NULL
        c.waiting -= n
        e.running += n
    turn_give(&e.turn)
    return first


cdef void engine_finish(Engine* e, Crew* c, Request* r) noexcept nogil:
    cdef Job* job = r.job
    cdef int64_t now = monotonic_ns(), depth
    cdef bint is_over, deeper
    turn_take(&e.turn)
    depth = e.depth
    e.running -= 1
    e.bytes -= r.nbytes
    c.done += 1
    e.got += r.nbytes
    e.count += 1
    if e.pool.waiting + e.rings.waiting == 0:
        e.starved = True
    if e.count > 4 * e.depth and now - e.since > MEASURED_NS:
        _measure(e, now)
    deeper = e.depth > depth
    job.left -= 1
    is_over = job.left == 0
    turn_give(&e.turn)
    if is_over:
        e.done(job.owner)
    if deeper:
        engine_urge(e, &e.pool)
        engine_urge(e, &e.rings)


cdef void engine_pass(Engine* e, Request* r) noexcept nogil:
    turn_take(&e.turn)
    e.running -= 1
    e.bytes -= r.nbytes
    _put(e, &e.pool, r)
    turn_give(&e.turn)
    engine_urge(e, &e.pool)


cdef int engine_step(Engine* e) noexcept nogil:
    cdef Request* r = engine_take(e, &e.pool, 1)
    if r == NULL:
        return STEP_IDLE
    if r == &r.job.run:
        e.run(r.job.owner)
    else:
        _read(e.table, r)
    engine_finish(e, &e.pool, r)
    if e.rings.work != NULL:  # it may have waited for the room
        engine_urge(e, &e.rings)
    return STEP_WORKED
