"""The order program of a run. See order.pxd for the contract."""
from libc.stdint cimport int32_t, int64_t
from queuecore._core.atoms.errors cimport WHAT_NO_ERROR
from queuecore._core.atoms.memory cimport calloc, free
from queuecore._core.atoms.process cimport check_layout
from queuecore._core.io.blocks cimport blocks_out
from queuecore._core.order.batch cimport batch_make
from queuecore._core.order.breaks cimport breaks_make
from queuecore._core.order.op cimport (
    LEVEL_HANDED, PULL_BREAK, PULL_END, PULL_FAULT, PULL_OK, PULL_WAIT, BreakList, Cut, Op, OpSpec, Order, OrderPlan,
    element_drop, list_drop, op_advance, op_given, op_pull, order_cut)
from queuecore._core.order.passes cimport repeat_make, skip_make, take_make
from queuecore._core.order.permute cimport permute_make
from queuecore._core.order.runs cimport SCRATCH_RUNS, Run, RunList, element_clear, element_give, list_clear, list_init
from queuecore._core.order.shard cimport shard_make
from queuecore._core.order.shuffle cimport element_shuffle_make, shuffle_make
from queuecore._core.order.source cimport source_make
from queuecore._core.order.store cimport store_lacks_survivors
from queuecore._core.atoms.platform cimport layout_hash

check_layout(layout_hash())


cdef bint _make(Order* order, const OpSpec* spec, int64_t store_ahead) noexcept nogil:
    # Puts an operator of the plan on top of the chain.
    if spec.kind == OP_TAKE:
        return take_make(order, spec)
    if spec.kind == OP_SKIP:
        return skip_make(order, spec)
    if spec.kind == OP_REPEAT:
        return repeat_make(order, spec)
    if spec.kind == OP_BATCH:
        return batch_make(order, spec)
    if spec.kind == OP_SHARD:
        return shard_make(order, spec)
    if spec.kind == OP_PERMUTE:
        return permute_make(order, spec)
    if order.top.rows > 1:
        return element_shuffle_make(order, spec)
    return shuffle_make(order, spec, store_ahead)


cdef bint _make_all(Order* order, const OrderPlan* plan) noexcept nogil:
    cdef int64_t store_ahead = plan.store_ahead
    cdef int32_t i, shuffles = 0
    cdef BreakList breaks, own_breaks
    for i in range(plan.count):
        shuffles += plan.specs[i].kind == OP_SHUFFLE
    if shuffles != 1:  # a row stays in the store until it is read, so no shuffle above may keep rows back
        store_ahead = 0
    if not source_make(order, plan):
        return False
    breaks = plan.breaks
    for i in range(plan.count + 1):
        own_breaks.breaks = breaks.breaks
        own_breaks.count = 0
        while own_breaks.count < breaks.count and breaks.breaks[own_breaks.count].level == i:
            own_breaks.count += 1
        if own_breaks.count > 0 and not breaks_make(order, own_breaks):
            return False
        breaks.breaks += own_breaks.count
        breaks.count -= own_breaks.count
        if i < plan.count and not _make(order, &plan.specs[i], store_ahead):
            return False
    for i in range(order.count - 1, -1, -1):
        if order.ops[i].leaves_out:
            order.ops[i].missing = plan.missing
            break
    return True


cdef Order* order_new(const OrderPlan* plan) noexcept nogil:
    cdef Order* order = <Order*>calloc(1, sizeof(Order))
    if order == NULL:
        return NULL
    order.blocks = plan.blocks
    order.start = plan.start
    order.next_end = plan.start.pass_
    order.cut_pass = -1
    order.has_breaks = plan.played.count > 0 or plan.known.count > 0 or plan.breaks.count > 0
    # The source, the plan's operators, and above each of these one for the breaks.
    order.ops = <Op**>calloc(2 * <size_t>plan.count + 2, sizeof(Op*))
    if order.ops == NULL or not list_init(&order.skipped) or not _make_all(order, plan):
        order_free(order)
        return NULL
    _cut(order, plan)
    return order


cdef void _cut(Order* order, const OrderPlan* plan) noexcept nogil:
    cdef const Cut* cut
    cdef int32_t i
    for i in range(order.count):
        if order.ops[i].shuffle != NULL:
            order.top_shuffle = order.ops[i]
    for i in range(plan.cut_count):
        cut = &plan.cuts[i]
        if cut.given and order.top_shuffle != NULL:
            order.cuts = plan.cuts
            order.cut_count = plan.cut_count
        else:
            order_cut(order, cut.pass_, cut.ordinal, &cut.fault)


cdef void order_free(Order* order) noexcept nogil:
    cdef int32_t i
    if order == NULL:
        return
    for i in range(order.count):
        if order.ops[i].kind.free != NULL:
            order.ops[i].kind.free(order.ops[i])
        free(order.ops[i])
    free(order.ops)
    free(order.ends.runs)
    free(order.skipped.runs)
    free(order.owed.runs)
    free(order)


cdef void _give(Order* order, RunList* out, int32_t first, int64_t had) noexcept nogil:
    # Tells the blocks that records were given: those from run `first` on, but for the first `had` ones of that run.
    cdef Run* run
    cdef int32_t i
    for i in range(first, out.count):
        run = &out.runs[i]
        if run.block != NULL and run.n > had:
            blocks_out(order.blocks, run.block, run.first + had, run.n - had)
            if run.block.moved != NULL:  # never the block of a run that grew: no block is moved during a pull
                run.block = &run.block.moved.block
        had = 0


cdef void order_pull_owed(Order* order, int64_t max_rows, RunList* out) noexcept nogil:
    cdef int32_t first = out.count - 1 if out.count > 0 else 0
    cdef int64_t had = out.runs[first].n if out.count > 0 else 0
    if element_give(&order.owed, max_rows, out):
        element_clear(&order.owed)
    _give(order, out, first, had)


cdef int order_pull(Order* order, int64_t max_rows, RunList* out) noexcept nogil:
    cdef int32_t first = out.count - 1 if out.count > 0 else 0
    cdef int64_t had = out.runs[first].n if out.count > 0 else 0  # the last run may grow
    cdef int status
    # Nothing is pulled before the survivors are loaded: a restart would give their rows away while they are filled.
    if order.stored != NULL and store_lacks_survivors(order):
        return PULL_WAIT
    status = op_pull(order, order.top, max_rows, out)
    _give(order, out, first, had)
    if status == PULL_END and order.cut_pass >= 0 and order.cut_fault.what != WHAT_NO_ERROR:
        # A cut is made for a record that was given. An operator that was past the record by then, such as a shuffle,
        # doesn't know of the cut.
        order.fault = order.cut_fault
        order.faulted = True
        return PULL_FAULT
    return status


cdef int order_forward(Order* order, int64_t budget) noexcept nogil:
    cdef RunList* skipped = &order.skipped
    cdef Op* top = order.top
    cdef int64_t n, spent = 0
    cdef bint part
    cdef int status
    while (order.skip_left > 0 or order.skip_breaks > 0) and spent < budget:
        order.skip_left -= op_advance(order, top, order.skip_left, 1)
        if order.skip_left == 0 and order.skip_breaks == 0:
            break
        part = order.skipped_part
        if not part:  # it came before the next element
            element_drop(order, top, &order.owed)
        list_clear(skipped)
        n = SCRATCH_RUNS
        if top.rows == 1 and n > order.skip_left:
            n = order.skip_left if order.skip_left > 0 else 1
        status = op_pull(order, top, n, skipped)
        order.skip_left -= op_given(top, skipped)
        spent += 1 + skipped.rows
        list_drop(order, top, skipped, 0)
        order.skipped_part = (part or skipped.rows > 0) and not skipped.closed
        if status == PULL_BREAK and not part:  # it came before the break
            element_drop(order, top, &order.owed)
        if status == PULL_BREAK and order.broken.level == LEVEL_HANDED and not order.broken.known:
            return PULL_BREAK
        if status == PULL_BREAK:
            order.skip_breaks -= order.skip_breaks > 0
            if order.broken.level == LEVEL_HANDED:
                order.interrupted = PULL_OK
        elif status != PULL_OK:
            return status
    return PULL_OK
