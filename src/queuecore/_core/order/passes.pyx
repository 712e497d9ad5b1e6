"""Take, skip and repeat. See passes.pxd for the contract."""
from libc.stdint cimport int64_t
from queuecore._core.atoms.memory cimport free
from queuecore._core.atoms.process cimport check_layout
from queuecore._core.order.op cimport (
    PULL_BREAK, PULL_END, PULL_OK, Op, OpKind, OpSpec, Order, list_drop, op_advance, op_count, op_given, op_jump,
    op_new, op_pull, op_restart)
from queuecore._core.order.runs cimport SCRATCH_RUNS, RunList, list_clear, list_init
from queuecore._core.atoms.platform cimport layout_hash

check_layout(layout_hash())

cdef struct TakeOp:
    Op op
    int64_t n            # -1: all
    int64_t done         # elements given

cdef struct SkipOp:
    Op op
    int64_t n            # -1: all
    int64_t done         # elements left out
    RunList scratch

cdef struct RepeatOp:
    Op op
    int64_t n            # -1: without end
    int64_t done         # passes finished
    bint any             # this pass has given an element or a break
    bint again           # restart before the next pull


cdef bint _make(Order* order, const OpSpec* spec, size_t nbytes, const OpKind* kind) noexcept nogil:
    # Makes any of the three operators: each struct begins as Take does.
    cdef TakeOp* t = <TakeOp*>op_new(order, nbytes, kind)
    if t == NULL:
        return False
    t.n = spec.size
    t.op.one_run = t.op.up.one_run
    t.op.jumps = t.op.up.jumps
    return True


cdef int _take_pull(Order* order, Op* op, int64_t max_rows, RunList* out) noexcept nogil:
    cdef TakeOp* t = <TakeOp*>op
    cdef int64_t old_rows = out.rows
    cdef int status
    out.closed = False
    if t.n >= 0:
        if t.done >= t.n:
            return PULL_END
        if op.rows == 1 and max_rows > t.n - t.done:
            max_rows = t.n - t.done
    status = op_pull(order, op.up, max_rows, out)
    if op.rows == 1:
        t.done += out.rows - old_rows
    elif out.closed:
        t.done += 1
    return status


cdef bint _take_restart(Order* order, Op* op) noexcept nogil:
    (<TakeOp*>op).done = 0
    return True


cdef int64_t _take_advance(Order* order, Op* op, int64_t n, int64_t unit) noexcept nogil:
    cdef TakeOp* t = <TakeOp*>op
    if t.n >= 0 and n > t.n - t.done:
        n = t.n - t.done
    n = op_advance(order, op.up, n, unit)
    t.done += n
    return n


cdef int64_t _take_count(Order* order, Op* op) noexcept nogil:
    cdef int64_t n = op_count(order, op.up), most = (<TakeOp*>op).n
    return n if most < 0 or n < most else most


cdef int64_t _take_places(Order* order, Op* op, int64_t n, int* status) noexcept nogil:
    cdef int64_t most = (<TakeOp*>op).n
    if most < 0 or most > n:
        return n
    status[0] = PULL_END
    return most


cdef bint _take_restarts(const Op* op) noexcept nogil:
    return False  # it may end before its input does


cdef OpKind TAKE = OpKind(
    pull=_take_pull, restart=_take_restart, advance=_take_advance, count=_take_count, places=_take_places,
    restarts=_take_restarts, purge=NULL, free=NULL)


cdef bint take_make(Order* order, const OpSpec* spec) noexcept nogil:
    return _make(order, spec, sizeof(TakeOp), &TAKE)


cdef int _skip_pull(Order* order, Op* op, int64_t max_rows, RunList* out) noexcept nogil:
    cdef SkipOp* s = <SkipOp*>op
    cdef int status
    cdef int64_t left
    if s.n < 0:
        return PULL_END
    if s.done < s.n:
        s.done += op_advance(order, op.up, s.n - s.done, 1)
        left = s.n - s.done
        if left > 0:
            list_clear(&s.scratch)
            status = op_pull(order, op.up, left if op.rows == 1 and left < SCRATCH_RUNS else SCRATCH_RUNS, &s.scratch)
            s.done += op_given(op, &s.scratch)
            list_drop(order, op.up, &s.scratch, 0)
            return status  # nothing given yet: the caller comes again
    return op_pull(order, op.up, max_rows, out)


cdef bint _skip_restart(Order* order, Op* op) noexcept nogil:
    (<SkipOp*>op).done = 0
    return True


cdef int64_t _skip_advance(Order* order, Op* op, int64_t n, int64_t unit) noexcept nogil:
    cdef SkipOp* s = <SkipOp*>op
    return 0 if s.n < 0 or s.done < s.n else op_advance(order, op.up, n, unit)


cdef inline int64_t _left_by_skip(const SkipOp* s, int64_t n) noexcept nogil:
    return 0 if s.n < 0 or n < s.n else n - s.n


cdef int64_t _skip_count(Order* order, Op* op) noexcept nogil:
    cdef int64_t n = op_count(order, op.up)
    return n if n < 0 else _left_by_skip(<SkipOp*>op, n)


cdef int64_t _skip_places(Order* order, Op* op, int64_t n, int* status) noexcept nogil:
    op.way.shift = (<SkipOp*>op).n
    return _left_by_skip(<SkipOp*>op, n)


cdef void _skip_free(Op* op) noexcept nogil:
    free((<SkipOp*>op).scratch.runs)


cdef OpKind SKIP = OpKind(
    pull=_skip_pull, restart=_skip_restart, advance=_skip_advance, count=_skip_count, places=_skip_places,
    restarts=NULL, purge=NULL, free=_skip_free)


cdef bint skip_make(Order* order, const OpSpec* spec) noexcept nogil:
    return _make(order, spec, sizeof(SkipOp), &SKIP) and list_init(&(<SkipOp*>order.top).scratch)


cdef int _repeat_pull(Order* order, Op* op, int64_t max_rows, RunList* out) noexcept nogil:
    cdef RepeatOp* r = <RepeatOp*>op
    cdef int64_t old_rows = out.rows
    cdef int status
    if r.n >= 0 and r.done >= r.n:
        return PULL_END
    if r.again:
        op_restart(order, op.up)
        r.again = False
        r.any = False
    status = op_pull(order, op.up, max_rows, out)
    if out.rows != old_rows or out.closed or status == PULL_BREAK:
        r.any = True
    if status != PULL_END:
        return status
    if not r.any:  # this pass was empty, so the next one would be too
        return PULL_END
    r.done += 1
    r.again = True  # the next pull restarts: an iteration of a shuffle begins with its first element
    return PULL_OK if r.n < 0 or r.done < r.n else PULL_END


cdef bint _repeat_restart(Order* order, Op* op) noexcept nogil:
    cdef RepeatOp* r = <RepeatOp*>op
    r.done = 0
    r.any = False
    r.again = False
    return True


cdef int64_t _lcm(int64_t a, int64_t b) noexcept nogil:
    # -1: larger than any count of elements.
    cdef int64_t x = a, y = b
    while y != 0:
        x, y = y, x % y
    a //= x
    return -1 if b > (<int64_t>1 << 62) // a else a * b


cdef int64_t _whole_passes(Order* order, RepeatOp* r, int64_t n, int64_t unit) noexcept nogil:
    # Leaves out whole passes; the input stands at the end of one. Returns the number of elements left out.
    cdef int64_t a = op_count(order, r.op.up)
    cdef int64_t step = _lcm(a, unit) if a > 0 else -1
    cdef int64_t passes
    if step <= 0:
        return 0
    step //= a  # passes that make whole units
    passes = n // a
    if r.n >= 0 and passes > r.n - r.done - 1:
        passes = r.n - r.done - 1
    # The length of a pass of handed-in rows is known only after that pass.
    if (order.blocks != NULL and not order.blocks.kind.reads
        and passes > order.start.pass_ - 1 - order.at.pass_):
        passes = order.start.pass_ - 1 - order.at.pass_
    passes -= passes % step
    if passes <= 0:
        return 0
    op_jump(order, r.op.up, passes)
    r.done += passes
    return passes * a


cdef int64_t _repeat_advance(Order* order, Op* op, int64_t n, int64_t unit) noexcept nogil:
    cdef RepeatOp* r = <RepeatOp*>op
    cdef int64_t a
    if r.n >= 0 and r.done >= r.n:
        return 0
    if r.again:
        a = _whole_passes(order, r, n, unit)
        if a > 0:
            return a
        op_restart(order, op.up)
        r.again = False
        r.any = False
    a = op_advance(order, op.up, n, unit)
    if a > 0:
        r.any = True
    return a


cdef int64_t _repeat_places(Order* order, Op* op, int64_t n, int* status) noexcept nogil:
    cdef int64_t times = (<RepeatOp*>op).n
    op.way.wrap = n
    op.way.passes = op.up.passes
    if times == 0:
        n = 0
        status[0] = PULL_END
    elif status[0] == PULL_END and n > 0:
        n = n * times if n <= (<int64_t>1 << 62) // times else <int64_t>1 << 62
        op.passes *= times
    return n


cdef bint _repeat_restarts(const Op* op) noexcept nogil:
    cdef const RepeatOp* r = <const RepeatOp*>op
    return r.n < 0 or r.done + 1 < r.n


cdef OpKind REPEAT = OpKind(
    pull=_repeat_pull, restart=_repeat_restart, advance=_repeat_advance, count=NULL, places=_repeat_places,
    restarts=_repeat_restarts, purge=NULL, free=NULL)


cdef bint repeat_make(Order* order, const OpSpec* spec) noexcept nogil:
    return _make(order, spec, sizeof(RepeatOp), &REPEAT)
