"""The common part of all operators of the order program. See op.pxd for the contract."""
from libc.stdint cimport int32_t, int64_t
from queuecore._core.atoms.memory cimport calloc
from queuecore._core.atoms.process cimport check_layout
from queuecore._core.io.blocks cimport blocks_leave
from queuecore._core.atoms.errors cimport CODE_INVALID_ARGUMENT, STAGE_ORDER, fault_begin
from queuecore._core.order.runs cimport Element, Run, RunList, element_append, element_clear, is_behind, run_from
from queuecore._core.atoms.platform cimport Fault, layout_hash

check_layout(layout_hash())


cdef Op* op_new(Order* order, size_t nbytes, const OpKind* kind) noexcept nogil:
    cdef Op* op = <Op*>calloc(1, nbytes)
    if op == NULL:
        return NULL
    op.kind = kind
    op.up = order.top
    op.rows = 1
    op.way.scale = 1
    if op.up != NULL:
        op.rows = op.up.rows
        op.gives_ids = op.up.gives_ids
        op.whole_batches = op.up.whole_batches
    order.ops[order.count] = op
    order.count += 1
    order.top = op
    return op


cdef void shuffle_init(Order* order, Op* op, ShuffleState* shuffle, const OpSpec* spec) noexcept nogil:
    shuffle.seed_lo = spec.seed_lo
    shuffle.seed_hi = spec.seed_hi
    shuffle.reshuffle = spec.flag
    shuffle.iteration = spec.iteration
    shuffle.passes = 1
    op.shuffle = shuffle
    if order.bottom_shuffle == NULL:
        order.bottom_shuffle = op


cdef void op_restart(Order* order, Op* op) noexcept nogil:
    while op != NULL and op.kind.restart(order, op):
        op = op.up


cdef void op_jump(Order* order, Op* op, int64_t passes) noexcept nogil:
    while op.up != NULL:
        if op.shuffle != NULL:
            op.shuffle.iteration += passes
            op.shuffle.begun += passes
            passes *= op.shuffle.passes
        op = op.up
    order.at.pass_ += passes


cdef int64_t op_places(Order* order, Op* op, int* status) noexcept nogil:
    cdef int64_t n = 0
    op.passes = 1
    if op.up != NULL:
        n = op_places(order, op.up, status)
        op.passes = op.up.passes
    if n >= 0 and op.kind.places != NULL:
        n = op.kind.places(order, op, n, status)
    op.count = n
    return n


cdef int op_refuse(Order* order, int32_t what, int64_t a, int64_t b, int32_t code=CODE_INVALID_ARGUMENT) noexcept nogil:
    fault_begin(&order.fault, code, what, STAGE_ORDER)
    order.fault.a = a
    order.fault.b = b
    order.faulted = True
    return PULL_FAULT


cdef void element_drop(Order* order, const Op* op, Element* e) noexcept nogil:
    cdef Run rest
    while e.given < e.count:
        rest = e.runs[e.given]
        run_from(&rest, e.offset)
        run_drop(order, op, &rest)
        e.offset = 0
        e.given += 1
    element_clear(e)


cdef void list_drop(Order* order, const Op* op, const RunList* list_, int32_t first) noexcept nogil:
    cdef int32_t i
    for i in range(first, list_.count):
        run_drop(order, op, &list_.runs[i])


cdef bint order_owe(Order* order, const Run* run) noexcept nogil:
    # A record before the start is only played: it can't be made, and its error came before the start.
    return (order.blocks != NULL and run.block == NULL) or element_append(&order.owed, run)


cdef int32_t _trim(Order* order, Run* runs, int32_t first, int32_t count) noexcept nogil:
    # Moves the records before the cut, of the runs from `first` on, to the front. Returns the number of runs left.
    cdef Run run
    cdef int64_t n
    cdef int32_t i, kept_count = 0
    for i in range(first, count):
        run = runs[i]
        n = run.n
        if is_behind(run.pass_, run.ordinal, order.cut_pass, order.cut_ordinal):
            run.n = 0
        elif run.pass_ == order.cut_pass and run.ordinal + run.n > order.cut_ordinal:
            run.n = order.cut_ordinal - run.ordinal
        if run.block != NULL and run.n < n:
            blocks_leave(order.blocks, run.block, run.first + run.n, n - run.n)
        if run.n > 0:
            runs[kept_count] = run
            kept_count += 1
    return kept_count


cdef void element_trim(Order* order, Element* e) noexcept nogil:
    cdef int32_t k
    if e.given < e.count:
        run_from(&e.runs[e.given], e.offset)
    e.count = _trim(order, e.runs, e.given, e.count)
    e.given = 0
    e.offset = 0
    e.rows = 0
    for k in range(e.count):
        e.rows += e.runs[k].n


cdef void list_trim(Order* order, RunList* list_, int32_t first) noexcept nogil:
    list_.count = _trim(order, list_.runs, first, list_.count)


cdef void _cut(Order* order, int64_t pass_, int64_t ordinal, const Fault* fault, const Op* top) noexcept nogil:
    cdef int32_t i
    cdef bint reached = is_behind(order.at.pass_, order.at.position, pass_, ordinal + 1)
    order.cut_fault = fault[0]
    order.cut_pass = pass_
    order.cut_ordinal = ordinal
    for i in range(order.count):
        if order.ops[i].kind.purge != NULL:
            order.ops[i].kind.purge(order, order.ops[i], reached)
        if order.ops[i] == top:
            return


cdef void order_cut(Order* order, int64_t pass_, int64_t ordinal, const Fault* fault) noexcept nogil:
    _cut(order, pass_, ordinal, fault, order.top)


cdef void order_cut_at(Order* order, const Cut* cut) noexcept nogil:
    _cut(order, cut.pass_, cut.ordinal, &cut.fault, order.top_shuffle)


cdef const Cut* order_cut_of(const Order* order, int64_t pass_, int64_t ordinal, int64_t n) noexcept nogil:
    cdef const Cut* cut
    cdef int32_t i
    for i in range(order.cut_count):
        cut = &order.cuts[i]
        if cut.given and cut.pass_ == pass_ and ordinal <= cut.ordinal < ordinal + n:
            return cut
    return NULL
