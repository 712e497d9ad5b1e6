"""Permutations. See permute.pxd for the contract."""
from libc.stdint cimport int32_t, int64_t
from queuecore._core.atoms.process cimport check_layout
from queuecore._core.atoms.cipher cimport Cipher, cipher_at, cipher_init
from queuecore._core.order.op cimport (
    PULL_END, PULL_FAULT, PULL_OK, PULL_WAIT, Cut, Op, OpKind, OpSpec, Order, ShuffleState, op_locate, op_new,
    op_places, order_cut_at, order_cut_of, shuffle_init, shuffle_next)
from queuecore._core.order.runs cimport SCRATCH_RUNS, RunList, is_missing, list_append
from queuecore._core.order.source cimport source_file_fault
from queuecore._core.atoms.platform cimport layout_hash

check_layout(layout_hash())

cdef struct Permutation:
    Op op
    ShuffleState shuffle
    Cipher cipher
    int64_t done         # elements of this pass, so far
    int32_t ended        # PULL_FAULT: the source is cut
    int32_t finish       # PULL_END or PULL_FAULT: comes after the last element


cdef int _begin(Order* order, Permutation* p) noexcept nogil:
    # Begins an iteration. It needs the count, so all files must be known.
    cdef ShuffleState* s = &p.shuffle
    cdef int status = PULL_OK
    cdef int64_t count
    if s.seeded:
        return PULL_OK
    count = op_places(order, p.op.up, &status)
    if count < 0:
        return PULL_WAIT
    s.passes = p.op.up.passes
    p.finish = status
    cipher_init(&p.cipher, s.seed_lo, s.seed_hi, s.iteration + 1 if s.reshuffle else 0, count)
    s.seeded = True
    s.begun += 1
    s.entered_pass = order.at.pass_
    s.entered_end = order.ops[0].count
    return PULL_OK


cdef int _pull(Order* order, Op* op, int64_t max_rows, RunList* out) noexcept nogil:
    cdef Permutation* p = <Permutation*>op
    cdef int64_t rows = 0, tried = 0, pass_, ordinal
    cdef const Cut* cut
    cdef int status = _begin(order, p)
    if status != PULL_OK:
        return status
    if order.cut_pass >= 0 and (p.shuffle.shuffled_again or order.at.pass_ > order.cut_pass):
        p.ended = PULL_FAULT
    while rows < max_rows and tried < SCRATCH_RUNS and p.done < p.cipher.count and p.ended == PULL_OK:
        op_locate(op.up, cipher_at(&p.cipher, p.done), &pass_, &ordinal)
        pass_ += order.at.pass_
        if order.cut_count > 0 and op == order.top_shuffle:
            cut = order_cut_of(order, pass_, ordinal, 1)
            if cut != NULL:
                order_cut_at(order, cut)
        if pass_ == order.cut_pass and ordinal == order.cut_ordinal:  # the order ends before the unreadable record
            p.ended = PULL_FAULT
            break
        p.done += 1
        tried += 1
        if not (op.missing.count > 0 and is_missing(&op.missing, pass_, ordinal)):
            list_append(out, ordinal, pass_, 1, NULL, 0, 0)
            rows += 1
    if tried > 0:
        return PULL_OK
    if p.ended == PULL_FAULT:
        order.fault = order.cut_fault
    elif p.finish == PULL_FAULT:
        source_file_fault(order)
    else:
        return PULL_END
    order.faulted = True
    order.interrupted = PULL_FAULT
    return PULL_FAULT


cdef bint _restart(Order* order, Op* op) noexcept nogil:
    cdef Permutation* p = <Permutation*>op
    p.done = 0
    p.ended = PULL_OK
    shuffle_next(&p.shuffle)
    order.at.pass_ += p.shuffle.passes - 1  # nothing pulled the source: it still stands at this iteration's first pass
    return True


cdef int64_t _advance(Order* order, Op* op, int64_t n, int64_t unit) noexcept nogil:
    cdef Permutation* p = <Permutation*>op
    cdef int64_t a
    if n <= 0 or order.cut_pass >= 0 or op.missing.count > 0 or _begin(order, p) != PULL_OK:
        return 0
    a = n if n < p.cipher.count - p.done else p.cipher.count - p.done
    a -= a % unit
    p.done += a
    return a


cdef int64_t _count(Order* order, Op* op) noexcept nogil:
    cdef int status = PULL_OK
    cdef int64_t n = op_places(order, op.up, &status)
    (<Permutation*>op).shuffle.passes = op.up.passes
    return -1 if status != PULL_END or op.missing.count > 0 or order.cut_pass >= 0 else n


cdef OpKind PERMUTATION = OpKind(
    pull=_pull, restart=_restart, advance=_advance, count=_count, places=NULL, restarts=NULL, purge=NULL, free=NULL)


cdef bint permute_make(Order* order, const OpSpec* spec) noexcept nogil:
    cdef Permutation* p = <Permutation*>op_new(order, sizeof(Permutation), &PERMUTATION)
    if p == NULL:
        return False
    p.op.jumps = True
    p.op.leaves_out = True
    order.needs_count = True
    shuffle_init(order, &p.op, &p.shuffle, spec)
    return True
