"""Breaks: elements that can be made pass, the others come out as PULL_BREAK. See breaks.pxd for the contract."""
from libc.stdint cimport int32_t, int64_t
from queuecore._core.atoms.memory cimport free
from queuecore._core.atoms.process cimport check_layout
from queuecore._core.order.op cimport (
    PULL_BREAK, PULL_NO_MEMORY, PULL_OK, Break, BreakList, Op, OpKind, Order, element_drop, element_trim, list_drop,
    list_trim, op_new, op_pull, run_drop)
from queuecore._core.order.runs cimport (
    SCRATCH_RUNS, Element, KeptRecord, Run, RunList, element_append_all, element_clear, element_give, is_behind,
    list_append_of, list_clear, list_init, run_from)
from queuecore._core.atoms.platform cimport layout_hash

check_layout(layout_hash())

cdef struct Breaks:
    Op op
    BreakList breaks
    RunList scratch
    int32_t scratch_at   # index of its first run that is not given
    int64_t open_rows    # over batches: rows given of the open one
    # Over batches that come whole:
    bint giving          # `held` is complete, and can be made
    Element held


cdef int64_t _next_break(const Breaks* m, int64_t pass_, int64_t ordinal) noexcept nogil:
    # Returns the index of the first break at this record or behind it.
    cdef int64_t low = 0, high = m.breaks.count, middle
    while low < high:
        middle = (low + high) // 2
        if is_behind(m.breaks.breaks[middle].pass_, m.breaks.breaks[middle].ordinal, pass_, ordinal):
            high = middle
        else:
            low = middle + 1
    return low


cdef bint _is_break(const Breaks* m, int64_t pass_, int64_t ordinal) noexcept nogil:
    cdef int64_t i = _next_break(m, pass_, ordinal)
    return i < m.breaks.count and m.breaks.breaks[i].pass_ == pass_ and m.breaks.breaks[i].ordinal == ordinal


cdef int64_t _good_part(Order* order, const Breaks* m, const Run* run) noexcept nogil:
    # Returns the number of a run's records before the first one that can't be made.
    cdef const KeptRecord* record
    cdef const Break* b
    cdef int64_t i
    if m.op.gives_ids:
        for i in range(run.n):
            record = &order.stored.records[run.ordinal + i]
            if _is_break(m, record.pass_, record.ordinal):
                return i
        return run.n
    i = _next_break(m, run.pass_, run.ordinal)
    if i == m.breaks.count:
        return run.n
    b = &m.breaks.breaks[i]
    return run.n if is_behind(b.pass_, b.ordinal, run.pass_, run.ordinal + run.n) else b.ordinal - run.ordinal


cdef void _tell(Order* order, const Breaks* m, const Run* run) noexcept nogil:
    # Notes in order.broken that the first record of a run can't be made. The order still holds that record.
    cdef const KeptRecord* record
    order.broken.pass_ = run.pass_
    order.broken.ordinal = run.ordinal
    order.broken.good = run.good + 1
    order.broken.level = m.breaks.breaks[0].level
    order.broken.seam = False
    if m.op.gives_ids:
        record = &order.stored.records[run.ordinal]
        order.broken.pass_ = record.pass_
        order.broken.ordinal = record.ordinal
    if run.block != NULL:
        order.broken.place = run.block.place


cdef inline void _took(Breaks* m, int64_t n) noexcept nogil:
    # Takes the first n records of the next run off the scratch.
    cdef Run* run = &m.scratch.runs[m.scratch_at]
    run_from(run, n)
    m.scratch_at += run.n == 0


cdef int _break_next(Order* order, Breaks* m) noexcept nogil:
    cdef Run bad = m.scratch.runs[m.scratch_at]
    bad.n = 1
    _took(m, 1)
    _tell(order, m, &bad)
    run_drop(order, m.op.up, &bad)
    return PULL_BREAK


cdef int _refill(Order* order, Breaks* m, int64_t max_rows) noexcept nogil:
    # A shuffle gives one record at a time: it may meet the end of its input before each, and what it gives before that
    # error must not depend on how many of its records are asked for at a time.
    list_clear(&m.scratch)
    m.scratch_at = 0
    if order.bottom_shuffle != NULL:
        max_rows = 1
    return op_pull(order, m.op.up, max_rows if max_rows < SCRATCH_RUNS else SCRATCH_RUNS, &m.scratch)


cdef int _pull_records(Order* order, Op* op, int64_t max_rows, RunList* out) noexcept nogil:
    cdef Breaks* m = <Breaks*>op
    cdef int64_t rows = 0, n
    cdef int status
    cdef Run* run
    if m.scratch_at >= m.scratch.count:
        status = _refill(order, m, max_rows)
        if m.scratch.count == 0:
            return status
    while rows < max_rows and m.scratch_at < m.scratch.count:
        run = &m.scratch.runs[m.scratch_at]
        n = _good_part(order, m, run)
        if n == 0:
            if rows > 0:
                break
            return _break_next(order, m)
        if n > max_rows - rows:
            n = max_rows - rows
        list_append_of(out, run, n)
        rows += n
        _took(m, n)
    return PULL_OK


cdef int _pull_batches(Order* order, Op* op, int64_t max_rows, RunList* out) noexcept nogil:
    # A batch ends before a record that can't be made; the rows behind that record are a batch of their own.
    cdef Breaks* m = <Breaks*>op
    cdef int64_t n
    cdef int status
    cdef Run* run
    if m.scratch_at >= m.scratch.count:
        status = _refill(order, m, max_rows)
        if m.scratch.count == 0 and not m.scratch.closed:
            return status
    out.closed = False
    out.subs = 0
    while m.scratch_at < m.scratch.count:
        run = &m.scratch.runs[m.scratch_at]
        n = _good_part(order, m, run)
        if n > max_rows:
            n = max_rows
        if n > 0:
            list_append_of(out, run, n)
            max_rows -= n
            m.open_rows += n
            _took(m, n)
            continue
        if max_rows == 0:
            return PULL_OK
        if m.open_rows > 0:  # the open batch closes first
            m.open_rows = 0
            out.closed = True
            return PULL_OK
        return _break_next(order, m)
    if m.scratch.closed and m.open_rows > 0:
        m.open_rows = 0
        out.closed = True
    return PULL_OK


cdef int _pull_whole_batches(Order* order, Op* op, int64_t max_rows, RunList* out) noexcept nogil:
    # A batch with a record that can't be made is left out.
    cdef Breaks* m = <Breaks*>op
    cdef int status
    cdef int32_t r
    cdef int64_t n
    cdef Run bad_run
    if not m.giving:
        list_clear(&m.scratch)
        status = op_pull(order, op.up, SCRATCH_RUNS, &m.scratch)
        if not element_append_all(&m.held, &m.scratch):
            return PULL_NO_MEMORY
        if not m.scratch.closed:
            return status
        m.held.subs = m.scratch.subs
        for r in range(m.held.count):
            n = _good_part(order, m, &m.held.runs[r])
            if n < m.held.runs[r].n:
                bad_run = m.held.runs[r]
                run_from(&bad_run, n)
                _tell(order, m, &bad_run)
                order.dropped += m.held.rows - 1
                element_drop(order, op.up, &m.held)
                return PULL_BREAK
        m.giving = True
    if element_give(&m.held, max_rows, out):
        m.giving = False
        element_clear(&m.held)
    return PULL_OK


cdef bint _restart_parts(Order* order, Op* op) noexcept nogil:
    cdef Breaks* m = <Breaks*>op
    m.open_rows = 0
    list_drop(order, op.up, &m.scratch, m.scratch_at)
    m.scratch.count = m.scratch_at = 0
    return True


cdef bint _restart_whole(Order* order, Op* op) noexcept nogil:
    cdef Breaks* m = <Breaks*>op
    m.giving = False
    element_drop(order, op.up, &m.held)
    return True


cdef void _purge_parts(Order* order, Op* op, bint reached) noexcept nogil:
    cdef Breaks* m = <Breaks*>op
    if not op.gives_ids:
        list_trim(order, &m.scratch, m.scratch_at)
        m.scratch_at = 0


cdef void _purge_whole(Order* order, Op* op, bint reached) noexcept nogil:
    if not op.gives_ids:
        element_trim(order, &(<Breaks*>op).held)


cdef void _free(Op* op) noexcept nogil:
    free((<Breaks*>op).scratch.runs)
    free((<Breaks*>op).held.runs)


cdef OpKind RECORDS = OpKind(
    pull=_pull_records, restart=_restart_parts, advance=NULL, count=NULL, places=NULL, restarts=NULL,
    purge=_purge_parts, free=_free)
cdef OpKind BATCHES = OpKind(
    pull=_pull_batches, restart=_restart_parts, advance=NULL, count=NULL, places=NULL, restarts=NULL,
    purge=_purge_parts, free=_free)
cdef OpKind WHOLE_BATCHES = OpKind(
    pull=_pull_whole_batches, restart=_restart_whole, advance=NULL, count=NULL, places=NULL, restarts=NULL,
    purge=_purge_whole, free=_free)


cdef bint breaks_make(Order* order, BreakList breaks) noexcept nogil:
    cdef const OpKind* kind = &RECORDS
    cdef Breaks* m
    if order.top.rows > 1:
        kind = &WHOLE_BATCHES if order.top.whole_batches else &BATCHES
    m = <Breaks*>op_new(order, sizeof(Breaks), kind)
    if m == NULL:
        return False
    m.breaks = breaks
    m.op.jumps = m.op.up.jumps
    return list_init(&m.scratch)
