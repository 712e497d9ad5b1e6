"""Batches. See batch.pxd for the contract.

A batch of records passes rows on as they come and closes when it is full. Where remainders are dropped, or where
batches are made of batches, a batch comes whole or not at all: it is kept until it is complete.
"""
from libc.stdint cimport int32_t, int64_t
from queuecore._core.atoms.memory cimport free
from queuecore._core.atoms.process cimport check_layout
from queuecore._core.atoms.errors cimport WHAT_UNEQUAL
from queuecore._core.order.op cimport (
    PULL_BREAK, PULL_END, PULL_FAULT, PULL_NO_MEMORY, PULL_OK, Op, OpKind, OpSpec, Order, element_drop, element_trim,
    op_advance, op_count, op_new, op_pull, op_refuse, order_owe)
from queuecore._core.order.runs cimport (
    SCRATCH_RUNS, Element, Run, RunList, element_append_all, element_clear, element_give, list_clear, list_init,
    run_from)
from queuecore._core.atoms.platform cimport layout_hash

check_layout(layout_hash())

cdef struct BatchOp:
    Op op
    int64_t size
    bint drop            # drop_remainder
    bint whole
    int32_t ended        # the status that ended the input
    int64_t open_rows    # of the open batch
    # Of a batch of batches: whole elements in the open batch, rows of the last whole one, rows of the open one.
    int64_t subs, sub_rows, open_sub
    # Of a batch of batches: no batch has come behind a seam yet, where the run before gave a short batch, and left out
    # the element that an error cut short. So the first element is left out, too, if an error cuts it short.
    bint behind_seam
    # Of a batch that comes whole:
    bint giving          # `held` is complete
    Element held
    RunList scratch


cdef int _unequal(Order* order, BatchOp* b) noexcept nogil:
    b.ended = PULL_FAULT
    if order.faulted:  # an error cut the shorter element short: that error is reported
        return PULL_FAULT
    return op_refuse(order, WHAT_UNEQUAL, b.sub_rows, b.open_sub)


cdef int _pull_rows(Order* order, Op* op, int64_t max_rows, RunList* out) noexcept nogil:
    # Passes rows on, and closes a batch when it is full or the input is at its end.
    cdef BatchOp* b = <BatchOp*>op
    cdef int64_t old_rows = out.rows
    cdef int status
    cdef bint cut
    if b.ended == PULL_BREAK:
        b.ended = PULL_OK
        order.breaking = False
        return PULL_BREAK
    if b.ended != PULL_OK:
        return b.ended
    if max_rows > op.rows - b.open_rows:
        max_rows = op.rows - b.open_rows
    status = op_pull(order, op.up, max_rows, out)
    b.open_rows += out.rows - old_rows
    if op.up.rows == 1:
        out.closed = b.open_rows == op.rows
        out.subs = 0
    else:
        b.open_sub += out.rows - old_rows
        if out.closed and b.open_sub == 0:  # a cut took all of it
            out.closed = False
        if out.closed:
            cut = b.behind_seam and b.subs == 0 and b.open_sub < op.up.rows and (order.breaking or order.faulted)
            if cut or (b.subs > 0 and b.open_sub != b.sub_rows):
                out.closed = False
                return PULL_OK if order.breaking else _unequal(order, b)
            b.sub_rows = b.open_sub
            b.open_sub = 0
            b.subs += 1
            out.closed = b.subs == b.size
            out.subs = b.subs
    if status == PULL_END or status == PULL_FAULT:
        b.ended = status
        if not out.closed and b.open_rows > 0 and not b.drop:  # the open batch is given short
            out.closed = True
            out.subs = b.subs
    elif status == PULL_BREAK and not b.whole and b.open_rows > 0:
        out.closed = True
        b.ended = PULL_BREAK
        order.breaking = True
    if out.closed:
        b.open_rows = 0
        b.subs = 0
        b.behind_seam = False
        return PULL_OK
    return status


cdef bint _drop_tail(Order* order, BatchOp* b, int64_t rows) noexcept nogil:
    # Drops the last `rows` rows of the batch that is held. They are made nevertheless, for their errors. False: no
    # memory.
    cdef Element* e = &b.held
    cdef int64_t stays = e.rows - rows if rows < e.rows else 0  # a cut has taken some already
    cdef int32_t i, runs = 0
    cdef Run tail
    order.dropped += e.rows - stays
    e.rows = stays
    for i in range(e.count):
        tail = e.runs[i]
        if stays > 0:
            runs += 1
            e.runs[i].n = min(tail.n, stays)
            run_from(&tail, e.runs[i].n)
            stays -= e.runs[i].n
        if tail.n > 0 and not order_owe(order, &tail):
            return False
    e.count = runs
    return True


cdef int _hold(Order* order, BatchOp* b) noexcept nogil:
    # Pulls more rows of a batch that comes whole.
    cdef int status
    list_clear(&b.scratch)
    status = _pull_rows(order, &b.op, SCRATCH_RUNS, &b.scratch)
    if not element_append_all(&b.held, &b.scratch):
        return PULL_NO_MEMORY
    if b.scratch.closed:
        b.giving = True
        b.held.subs = b.scratch.subs
        return PULL_OK
    if (status == PULL_FAULT or status == PULL_BREAK) and not b.drop and b.subs > 0:
        # The whole elements before the one that an error cut short, or that has another length, are given as a short
        # batch.
        if not _drop_tail(order, b, b.open_sub):
            return PULL_NO_MEMORY
        b.held.subs = b.subs
        b.giving = b.held.rows > 0
        b.subs = 0
        b.open_rows = 0
        b.behind_seam = False
        if status == PULL_BREAK:
            b.open_sub = 0
            b.ended = PULL_BREAK
            order.breaking = True
        return PULL_OK
    if (status == PULL_END or status == PULL_FAULT or status == PULL_BREAK) and b.held.rows > 0:
        if not _drop_tail(order, b, b.held.rows):
            return PULL_NO_MEMORY
    if status == PULL_BREAK:
        b.subs = b.open_rows = b.open_sub = 0
        b.behind_seam = order.broken.seam
    return status


cdef int _pull_whole(Order* order, Op* op, int64_t max_rows, RunList* out) noexcept nogil:
    cdef BatchOp* b = <BatchOp*>op
    cdef int status
    if not b.giving:
        status = _hold(order, b)
        if not b.giving:
            return status
    if element_give(&b.held, max_rows, out):
        b.giving = False
        element_clear(&b.held)
    return PULL_OK


cdef bint _restart(Order* order, Op* op) noexcept nogil:
    cdef BatchOp* b = <BatchOp*>op
    b.ended = PULL_OK
    b.open_rows = b.subs = b.open_sub = 0
    b.behind_seam = b.giving = False
    element_drop(order, op, &b.held)
    return True


cdef int64_t _advance(Order* order, Op* op, int64_t n, int64_t unit) noexcept nogil:
    cdef BatchOp* b = <BatchOp*>op
    cdef int64_t most = (<int64_t>1 << 62) // b.size
    if b.open_rows != 0 or b.giving or b.ended != PULL_OK or n > most or unit > most:
        return 0
    return op_advance(order, op.up, n * b.size, unit * b.size) // b.size


cdef int64_t _count(Order* order, Op* op) noexcept nogil:
    cdef BatchOp* b = <BatchOp*>op
    cdef int64_t n = op_count(order, op.up)
    if n < 0:
        return -1
    return n // b.size if b.drop else (n + b.size - 1) // b.size


cdef void _purge(Order* order, Op* op, bint reached) noexcept nogil:
    if not op.gives_ids:
        element_trim(order, &(<BatchOp*>op).held)


cdef void _free(Op* op) noexcept nogil:
    free((<BatchOp*>op).held.runs)
    free((<BatchOp*>op).scratch.runs)


cdef OpKind BATCH = OpKind(
    pull=_pull_rows, restart=_restart, advance=_advance, count=_count, places=NULL, restarts=NULL, purge=NULL,
    free=NULL)
cdef OpKind WHOLE_BATCH = OpKind(
    pull=_pull_whole, restart=_restart, advance=_advance, count=_count, places=NULL, restarts=NULL, purge=_purge,
    free=_free)


cdef bint batch_make(Order* order, const OpSpec* spec) noexcept nogil:
    cdef bint is_whole = spec.flag or order.top.rows > 1
    cdef BatchOp* b = <BatchOp*>op_new(order, sizeof(BatchOp), &WHOLE_BATCH if is_whole else &BATCH)
    if b == NULL:
        return False
    b.size = spec.size
    b.drop = spec.flag
    b.whole = is_whole
    b.op.rows *= spec.size
    b.op.whole_batches = b.op.whole_batches or is_whole
    return not is_whole or list_init(&b.scratch)
