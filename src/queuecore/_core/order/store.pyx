"""The store of a stored shuffle. See store.pxd for the contract."""
from libc.stdint cimport int64_t, uint32_t
from libc.stdlib cimport qsort
from queuecore._core.atoms.memory cimport malloc
from queuecore._core.atoms.process cimport check_layout
from queuecore._core.order.op cimport PULL_END, PULL_FAULT, PULL_OK, Op, Order, op_restart, order_cut
from queuecore._core.order.runs cimport KeptRecord, Run, RunList, ids_give, ids_take, is_behind, list_append
from queuecore._core.order.shuffle cimport RecordShuffle, ShuffleStore, shuffle_keep, shuffle_refill
from queuecore._core.atoms.platform cimport Fault, layout_hash, size_product

check_layout(layout_hash())


cdef inline RecordShuffle* _stored(const Order* order) noexcept nogil:
    return <RecordShuffle*>order.bottom_shuffle


cdef int _by_place(const void* a, const void* b) noexcept nogil:
    cdef const Run* x = <const Run*>a
    cdef const Run* y = <const Run*>b
    if x.pass_ != y.pass_:
        return -1 if x.pass_ < y.pass_ else 1
    return -1 if x.ordinal < y.ordinal else (1 if x.ordinal > y.ordinal else 0)


cdef bint order_begin(Order* order) noexcept nogil:
    cdef RecordShuffle* s = _stored(order)
    cdef const KeptRecord* record
    cdef Run* run
    cdef int64_t i, id
    if order.stored == NULL:
        return True
    s.store.loading = True
    if s.buffer.count == 0:
        return True
    s.store.survivors = <Run*>malloc(size_product(s.buffer.count, sizeof(Run)))
    if s.store.survivors == NULL:
        return False
    for i in range(s.buffer.count):
        id = s.buffer.ids[(s.buffer.start + i) % s.buffer.size]
        record = &s.kept.records[id]
        run = &s.store.survivors[i]
        run.ordinal = record.ordinal
        run.pass_ = record.pass_
        run.n = id
    s.store.survivors_count = s.buffer.count
    qsort(s.store.survivors, s.store.survivors_count, sizeof(Run), _by_place)
    return True


cdef int64_t order_room(const Order* order) noexcept nogil:
    return order.stored.ids.free_count + order.stored.ids.capacity - order.stored.ids.fresh


cdef bint _comes_again(const Order* order, RecordShuffle* s) noexcept nogil:
    # Returns whether the operators above will take this shuffle to its end and then restart it. They won't after a pass
    # without records, since that ends a repeat.
    cdef const Op* op = order.top
    cdef const Op* nearest = NULL
    while op != &s.op:
        if op.kind.restarts != NULL:
            nearest = op
        op = op.up
    return nearest != NULL and nearest.kind.restarts(nearest) and s.store.ahead_in > s.store.pass_from


cdef int64_t _plan_survivors(
        ShuffleStore* t, int64_t max_rows, RunList* out, uint32_t* ids, int64_t* first) noexcept nogil:
    cdef const Run* run
    cdef int64_t n = 0
    first[0] = -1 - t.survivors_planned
    while n < max_rows and t.survivors_planned < t.survivors_count:
        run = &t.survivors[t.survivors_planned]
        list_append(out, run.ordinal, run.pass_, 1, NULL, 0, 0)
        ids[n] = <uint32_t>run.n
        t.survivors_planned += 1
        n += 1
    return n


cdef int64_t order_plan_load(Order* order, int64_t max_rows, RunList* out, uint32_t* ids,
                             int64_t* first) noexcept nogil:
    cdef RecordShuffle* s = _stored(order)
    cdef ShuffleStore* t = &s.store
    cdef int64_t id, n = 0
    cdef int status
    if t.survivors_planned < t.survivors_count:
        return _plan_survivors(t, max_rows, out, ids, first)
    first[0] = t.ahead_in
    if t.failed_at >= 0 or (s.ended != PULL_OK and t.next_from < 0):
        return 0
    while n < max_rows and t.ahead_in - t.ahead_out < t.room:
        if s.scratch_at >= s.scratch.count:
            status = shuffle_refill(order, s)
            if s.scratch.count == 0 and status != PULL_OK:
                # The buffer finds the end later, once it has taken all rows that were read ahead. If a repeat above
                # will restart this shuffle, the next pass is read meanwhile: otherwise every epoch would begin without
                # any row loaded.
                if status == PULL_END and t.next_from < 0 and _comes_again(order, s):
                    t.next_from = t.pass_from = t.ahead_in
                    op_restart(order, s.op.up)
                    if n == 0:  # each load has rows of one pass, so that its failure concerns no other pass
                        continue
                break
            continue
        id = ids_take(&s.kept.ids)
        if id < 0:
            break
        shuffle_keep(s, id)
        t.ahead[t.ahead_in % t.room] = <uint32_t>id
        t.loaded[t.ahead_in % t.room] = 0
        list_append(out, s.kept.records[id].ordinal, s.kept.records[id].pass_, 1, NULL, 0, 0)
        ids[n] = <uint32_t>id
        t.ahead_in += 1
        n += 1
    return n


cdef void _survivors_loaded(Order* order, int64_t at, int64_t n, int64_t good, const Fault* fault) noexcept nogil:
    cdef RecordShuffle* s = _stored(order)
    cdef ShuffleStore* t = &s.store
    cdef const Run* run
    if good < n:
        run = &t.survivors[at + good]
        if t.survivor_failed_pass < 0 or not is_behind(run.pass_, run.ordinal, t.survivor_failed_pass,
                                                       t.survivor_failed_ordinal):
            t.survivor_failed_pass = run.pass_
            t.survivor_failed_ordinal = run.ordinal
            t.failed = fault[0]
    t.survivors_loaded += n
    if t.survivors_loaded == t.survivors_count and t.survivor_failed_pass >= 0:
        order_cut(order, t.survivor_failed_pass, t.survivor_failed_ordinal, &t.failed)
        order.fault = t.failed
        # The shuffle has ended: rows that were read ahead lie behind every survivor.
        s.ended = PULL_FAULT


cdef void order_loaded(Order* order, int64_t first, int64_t n, const uint32_t* ids, int64_t good_count,
                       const Fault* fault) noexcept nogil:
    cdef RecordShuffle* s = _stored(order)
    cdef ShuffleStore* t = &s.store
    cdef int64_t i
    if first < 0:
        _survivors_loaded(order, -1 - first, n, good_count, fault)
        return
    for i in range(first, first + n):
        if i < t.ahead_out:  # a restart dropped the row while it was being loaded
            ids_give(&s.kept.ids, ids[i - first])
        elif i < first + good_count:
            t.loaded[i % t.room] = 1
        elif t.failed_at < 0 or i < t.failed_at:
            t.failed_at = i
            t.failed = fault[0]


cdef void order_release(Order* order, uint32_t id) noexcept nogil:
    ids_give(&order.stored.ids, id)
