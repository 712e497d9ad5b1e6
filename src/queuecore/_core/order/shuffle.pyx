"""Shuffles. See shuffle.pxd for the contract."""
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from queuecore._core.atoms.memory cimport free, malloc
from queuecore._core.atoms.process cimport check_layout
from queuecore._core.io.blocks cimport blocks_leave
from queuecore._core.order.op cimport (
    PULL_BREAK, PULL_END, PULL_FAULT, PULL_NO_MEMORY, PULL_OK, PULL_WAIT, Cut, Op, OpKind, OpSpec, Order, ShuffleState,
    element_drop, element_trim, list_drop, list_trim, op_count, op_new, op_pull, order_cut_at, order_cut_of,
    shuffle_init, shuffle_next)
from queuecore._core.order.runs cimport (
    SCRATCH_RUNS, Element, Ids, KeptRecord, Run, RunList, element_append_all, element_clear, element_give, ids_free,
    ids_give, ids_init, ids_take, is_behind, is_missing, list_append, list_clear, list_init, run_from)
from queuecore._core.atoms.platform cimport layout_hash, map_pages, size_product, unmap_pages
from queuecore._core.atoms.random cimport Philox, philox_jump, philox_next, philox_seed

check_layout(layout_hash())

cdef struct ElementShuffle:
    Op op
    ShuffleState shuffle
    Buffer buffer
    Ids ids
    Element* elements    # by id
    int64_t filling      # id of the element being filled, or -1
    int64_t emitting     # id of the element being given, or -1
    int32_t ended        # PULL_END or PULL_FAULT once the input is at its end
    RunList scratch


# The buffer

cdef bint _buffer_init(Buffer* b, int64_t size) noexcept nogil:
    b.size = size
    b.ids = <uint32_t*>map_pages(size_product(size, sizeof(uint32_t)))
    return b.ids != NULL


cdef void _buffer_free(Buffer* b) noexcept nogil:
    unmap_pages(b.ids, size_product(b.size, sizeof(uint32_t)))


cdef inline int64_t _draw(Buffer* b) noexcept nogil:
    # TensorFlow's draw: takes one of the `count` ids from start on; the id at start moves to its place.
    cdef int64_t k = b.start + philox_next(&b.random) % <uint32_t>b.count
    cdef int64_t id
    if k >= b.size:
        k -= b.size
    id = b.ids[k]
    b.ids[k] = b.ids[b.start]
    b.start += 1
    if b.start == b.size:
        b.start = 0
    b.count -= 1
    return id


cdef inline void _add(Buffer* b, int64_t id) noexcept nogil:
    cdef int64_t k = b.start + b.count
    if k >= b.size:
        k -= b.size
    b.ids[k] = <uint32_t>id
    b.count += 1


cdef inline int64_t _take_last(Buffer* b) noexcept nogil:
    b.count -= 1
    return b.ids[(b.start + b.count) % b.size]


cdef void _begin(ShuffleState* s, Philox* random) noexcept nogil:
    # With reshuffling, the master generator gives each iteration two numbers, which seed the iteration's generator.
    cdef uint32_t a, b
    philox_seed(random, s.seed_lo, s.seed_hi)
    if s.reshuffle:
        philox_jump(random, <uint64_t>s.iteration // 2)  # four numbers a block
        if s.iteration % 2:
            philox_next(random)
            philox_next(random)
        a = philox_next(random)
        b = philox_next(random)
        philox_seed(random, a, b)
    s.seeded = True
    s.begun += 1


cdef void _note_above(Op* op) noexcept nogil:
    # Tells the operators below that their order is shuffled again.
    while op.up != NULL:
        op = op.up
        if op.shuffle != NULL:
            op.shuffle.shuffled_again = True


cdef void _end_by_cut(Order* order, ShuffleState* s, int32_t* ended, bint reached) noexcept nogil:
    # A shuffle whose input had ended gives the records before the cut, then the cut's fault, also where another one
    # came later.
    s.cut = True
    if reached and ended[0] != PULL_OK:
        ended[0] = PULL_FAULT
        order.fault = order.cut_fault
        order.faulted = True


# Shuffles of records

cdef int shuffle_refill(Order* order, RecordShuffle* s) noexcept nogil:
    list_clear(&s.scratch)
    s.scratch_at = 0
    s.scratch_offset = 0
    return op_pull(order, s.op.up, SCRATCH_RUNS, &s.scratch)


cdef void _scratch_settle(RecordShuffle* s) noexcept nogil:
    # Takes the records that have entered the buffer off the next run.
    if s.scratch_offset > 0 and s.scratch_at < s.scratch.count:
        run_from(&s.scratch.runs[s.scratch_at], s.scratch_offset)
    s.scratch_offset = 0


cdef inline void _enter(RecordShuffle* s, int64_t id) noexcept nogil:
    cdef const KeptRecord* record = &s.kept.records[id]
    _add(&s.buffer, id)
    s.shuffle.entered_pass = record.pass_
    s.shuffle.entered_end = record.ordinal + 1


cdef int _fill(Order* order, RecordShuffle* s) noexcept nogil:
    # Fills the buffer from the input. PULL_OK: the buffer is full, or the input is at its end.
    cdef int64_t id
    cdef int status
    while s.buffer.count < s.buffer.size and s.ended == PULL_OK:
        if s.scratch_at < s.scratch.count:
            id = ids_take(&s.kept.ids)
            shuffle_keep(s, id)
            _enter(s, id)
            continue
        status = shuffle_refill(order, s)
        if s.scratch.count == 0:
            if status == PULL_END or status == PULL_FAULT:
                s.ended = status
                s.shuffle.cut = status == PULL_FAULT
            elif status != PULL_OK:
                return status
    return PULL_OK


cdef int _fill_loaded(Order* order, RecordShuffle* s) noexcept nogil:
    # Does the same from the store: rows enter when they are loaded. order_plan_load plans the load of rows pulled here.
    cdef ShuffleStore* t = &s.store
    cdef int64_t k
    cdef int status
    while s.buffer.count < s.buffer.size and s.ended == PULL_OK:
        if t.next_from >= 0 and t.ahead_out == t.next_from:  # the rows that follow belong to the next pass
            s.ended = PULL_END
        elif t.ahead_out < t.ahead_in:
            k = t.ahead_out % t.room
            if t.ahead_out == t.failed_at:
                order.fault = t.failed
                order.faulted = True
                s.ended = PULL_FAULT
                s.shuffle.cut = True
            elif not t.loaded[k]:
                return PULL_WAIT
            else:
                t.ahead_out += 1
                _enter(s, t.ahead[k])
        elif s.scratch_at < s.scratch.count:
            return PULL_WAIT
        else:
            status = shuffle_refill(order, s)
            if s.scratch.count == 0:
                if status == PULL_END or status == PULL_FAULT:
                    s.ended = status
                    s.shuffle.cut = status == PULL_FAULT
                elif status != PULL_OK:
                    return status
    return PULL_OK


cdef inline void _drop(Order* order, RecordShuffle* s, int64_t id) noexcept nogil:
    # Drops a record of the buffer that nobody will read.
    if s.kept.records[id].block != NULL:
        blocks_leave(order.blocks, s.kept.records[id].block, s.kept.records[id].first, 1)
    ids_give(&s.kept.ids, id)


cdef int _pull(Order* order, Op* op, int64_t max_rows, RunList* out) noexcept nogil:
    cdef RecordShuffle* s = <RecordShuffle*>op
    cdef const KeptRecord* record
    cdef const Cut* cut
    cdef int64_t id, rows = 0
    cdef int status
    if not s.shuffle.seeded:
        _begin(&s.shuffle, &s.buffer.random)
    if s.broke:
        s.broke = False
        return PULL_BREAK
    while rows < max_rows:
        status = _fill_loaded(order, s) if s.store.loading else _fill(order, s)
        if status != PULL_OK:
            s.broke = status == PULL_BREAK and rows > 0
            return status if rows == 0 else PULL_OK
        if s.buffer.count == 0:
            return s.ended if rows == 0 else PULL_OK
        id = _draw(&s.buffer)
        record = &s.kept.records[id]
        if op.missing.count > 0 and is_missing(&op.missing, record.pass_, record.ordinal):
            _drop(order, s, id)
            continue
        if order.cut_count > 0 and op == order.top_shuffle:
            cut = order_cut_of(order, record.pass_, record.ordinal, 1)
            if cut != NULL:
                _drop(order, s, id)
                order_cut_at(order, cut)
                continue
        if s.stored:  # the row stays taken until it is read or discarded
            list_append(out, id, 0, 1, NULL, 0, 0)
        else:
            list_append(out, record.ordinal, record.pass_, 1, record.block, record.first, 0)
            ids_give(&s.kept.ids, id)
        rows += 1
    return PULL_OK


cdef void _ahead_drop(RecordShuffle* s) noexcept nogil:
    # Drops a row ahead of the buffer. If it is still being loaded, order_loaded gives its id back.
    cdef ShuffleStore* t = &s.store
    cdef int64_t k = t.ahead_out % t.room
    if t.loaded[k] == 1:
        ids_give(&s.kept.ids, t.ahead[k])
    t.ahead_out += 1


cdef bint _store_restart(RecordShuffle* s) noexcept nogil:
    # Returns whether the input must begin again. It has begun already where the next pass is being read.
    cdef ShuffleStore* t = &s.store
    cdef bint begins_anew = t.next_from < 0 or t.failed_at >= 0
    cdef int64_t until = t.ahead_in if begins_anew else t.next_from
    while t.ahead_out < until:
        _ahead_drop(s)
    t.next_from = -1
    if begins_anew:
        t.pass_from = t.ahead_in
        t.failed_at = -1
    return begins_anew


cdef bint _restart(Order* order, Op* op) noexcept nogil:
    cdef RecordShuffle* s = <RecordShuffle*>op
    s.ended = PULL_OK
    s.broke = False
    shuffle_next(&s.shuffle)
    # Records that a take() above left in the buffer belong to the pass that is over.
    while s.buffer.count > 0:
        _drop(order, s, _take_last(&s.buffer))
    s.buffer.start = 0
    if s.stored and not _store_restart(s):
        return False
    _scratch_settle(s)
    list_drop(order, op.up, &s.scratch, s.scratch_at)
    s.scratch.count = 0
    s.scratch_at = 0
    return True


cdef int64_t _count(Order* order, Op* op) noexcept nogil:
    # The count of both kinds of shuffle.
    return op_count(order, op.up) if op.missing.count == 0 else -1


cdef void _purge(Order* order, Op* op, bint reached) noexcept nogil:
    cdef RecordShuffle* s = <RecordShuffle*>op
    cdef Buffer* b = &s.buffer
    cdef int64_t i, id, kept_count = 0
    for i in range(b.count):
        id = b.ids[(b.start + i) % b.size]
        if is_behind(s.kept.records[id].pass_, s.kept.records[id].ordinal, order.cut_pass, order.cut_ordinal):
            _drop(order, s, id)
            continue
        b.ids[(b.start + kept_count) % b.size] = <uint32_t>id
        kept_count += 1
    b.count = kept_count
    if s.scratch_at < s.scratch.count:
        _scratch_settle(s)
        list_trim(order, &s.scratch, s.scratch_at)
        s.scratch_at = 0
    _end_by_cut(order, &s.shuffle, &s.ended, reached)


cdef void _free(Op* op) noexcept nogil:
    cdef RecordShuffle* s = <RecordShuffle*>op
    unmap_pages(s.kept.records, size_product(s.kept.ids.capacity, sizeof(KeptRecord)))
    ids_free(&s.kept.ids)
    _buffer_free(&s.buffer)
    free(s.store.ahead)
    free(s.store.loaded)
    free(s.store.survivors)
    free(s.scratch.runs)


cdef OpKind SHUFFLE = OpKind(
    pull=_pull, restart=_restart, advance=NULL, count=_count, places=NULL, restarts=NULL, purge=_purge, free=_free)


cdef bint _store_init(Order* order, RecordShuffle* s) noexcept nogil:
    cdef ShuffleStore* t = &s.store
    s.stored = True
    s.op.gives_ids = True
    order.stored = &s.kept
    t.room = s.kept.ids.capacity
    t.failed_at = t.next_from = t.survivor_failed_pass = -1
    t.ahead = <uint32_t*>malloc(size_product(t.room, sizeof(uint32_t)))
    t.loaded = <uint8_t*>malloc(t.room)
    return t.ahead != NULL and t.loaded != NULL


cdef bint shuffle_make(Order* order, const OpSpec* spec, int64_t store_ahead) noexcept nogil:
    cdef RecordShuffle* s = <RecordShuffle*>op_new(order, sizeof(RecordShuffle), &SHUFFLE)
    if s == NULL:
        return False
    s.op.leaves_out = True
    shuffle_init(order, &s.op, &s.shuffle, spec)
    _note_above(&s.op)
    # Pages of a buffer larger than the data are never touched.
    if not _buffer_init(&s.buffer, spec.size) or not list_init(&s.scratch):
        return False
    if not ids_init(&s.kept.ids, spec.size + store_ahead):
        return False
    s.kept.records = <KeptRecord*>map_pages(size_product(s.kept.ids.capacity, sizeof(KeptRecord)))
    return s.kept.records != NULL and (store_ahead == 0 or _store_init(order, s))


# Shuffles of elements

cdef int _fill_elements(Order* order, ElementShuffle* s) noexcept nogil:
    cdef Element* e
    cdef const Run* last
    cdef int status
    while s.buffer.count < s.buffer.size and s.ended == PULL_OK:
        if s.filling < 0:
            s.filling = ids_take(&s.ids)
            element_clear(&s.elements[s.filling])
        e = &s.elements[s.filling]
        list_clear(&s.scratch)
        status = op_pull(order, s.op.up, SCRATCH_RUNS, &s.scratch)
        if not element_append_all(e, &s.scratch):
            return PULL_NO_MEMORY
        if s.scratch.count > 0:
            last = &s.scratch.runs[s.scratch.count - 1]
            s.shuffle.entered_pass = last.pass_
            s.shuffle.entered_end = last.ordinal + last.n
        if s.scratch.closed:
            e.subs = s.scratch.subs
            if e.rows > 0:
                _add(&s.buffer, s.filling)
                s.filling = -1
        if status == PULL_END or status == PULL_FAULT:
            s.ended = status
            s.shuffle.cut = status == PULL_FAULT
        elif status != PULL_OK:
            return status
    return PULL_OK


cdef void _cut_elements(Order* order, ElementShuffle* s) noexcept nogil:
    # Lets the first cut before a record of the element that is to be given take effect. Nothing may be left of the
    # element.
    cdef const Element* e = &s.elements[s.emitting]
    cdef const Cut* cut
    cdef int32_t i
    for i in range(e.given, e.count):
        cut = order_cut_of(order, e.runs[i].pass_, e.runs[i].ordinal, e.runs[i].n)
        if cut == NULL:
            continue
        order_cut_at(order, cut)
        return


cdef int _pull_elements(Order* order, Op* op, int64_t max_rows, RunList* out) noexcept nogil:
    cdef ElementShuffle* s = <ElementShuffle*>op
    cdef int status
    if not s.shuffle.seeded:
        _begin(&s.shuffle, &s.buffer.random)
    while s.emitting < 0:
        status = _fill_elements(order, s)
        if status != PULL_OK:
            return status
        if s.buffer.count == 0:
            return s.ended
        s.emitting = _draw(&s.buffer)
        if order.cut_count > 0 and op == order.top_shuffle:
            _cut_elements(order, s)
    if element_give(&s.elements[s.emitting], max_rows, out):
        ids_give(&s.ids, s.emitting)
        s.emitting = -1
    return PULL_OK


cdef void _drop_element(Order* order, ElementShuffle* s, int64_t id) noexcept nogil:
    element_drop(order, s.op.up, &s.elements[id])
    ids_give(&s.ids, id)


cdef bint _restart_elements(Order* order, Op* op) noexcept nogil:
    cdef ElementShuffle* s = <ElementShuffle*>op
    s.ended = PULL_OK
    shuffle_next(&s.shuffle)
    while s.buffer.count > 0:
        _drop_element(order, s, _take_last(&s.buffer))
    s.buffer.start = 0
    if s.filling >= 0:
        _drop_element(order, s, s.filling)
        s.filling = -1
    if s.emitting >= 0:
        _drop_element(order, s, s.emitting)
        s.emitting = -1
    return True


cdef bint _trim_element(Order* order, ElementShuffle* s, int64_t id) noexcept nogil:
    # Returns whether something is left of the element. A batch that comes whole or not at all doesn't come if it loses
    # records.
    cdef Element* e = &s.elements[id]
    cdef int64_t rows = e.rows
    element_trim(order, e)
    if s.op.whole_batches and e.rows < rows:
        element_drop(order, s.op.up, e)
    return e.count > 0


cdef void _purge_elements(Order* order, Op* op, bint reached) noexcept nogil:
    cdef ElementShuffle* s = <ElementShuffle*>op
    cdef Buffer* b = &s.buffer
    cdef int64_t i, id, kept_count = 0
    for i in range(b.count):
        id = b.ids[(b.start + i) % b.size]
        if not _trim_element(order, s, id):
            ids_give(&s.ids, id)
            continue
        b.ids[(b.start + kept_count) % b.size] = <uint32_t>id
        kept_count += 1
    b.count = kept_count
    if s.filling >= 0:
        element_trim(order, &s.elements[s.filling])
    if s.emitting >= 0 and not _trim_element(order, s, s.emitting):
        ids_give(&s.ids, s.emitting)
        s.emitting = -1
    _end_by_cut(order, &s.shuffle, &s.ended, reached)


cdef void _free_elements(Op* op) noexcept nogil:
    cdef ElementShuffle* s = <ElementShuffle*>op
    cdef int64_t k
    for k in range(s.ids.fresh):
        free(s.elements[k].runs)
    unmap_pages(s.elements, size_product(s.ids.capacity, sizeof(Element)))
    ids_free(&s.ids)
    _buffer_free(&s.buffer)
    free(s.scratch.runs)


cdef OpKind ELEMENT_SHUFFLE = OpKind(
    pull=_pull_elements, restart=_restart_elements, advance=NULL, count=_count, places=NULL, restarts=NULL,
    purge=_purge_elements, free=_free_elements)


cdef bint element_shuffle_make(Order* order, const OpSpec* spec) noexcept nogil:
    cdef ElementShuffle* s = <ElementShuffle*>op_new(order, sizeof(ElementShuffle), &ELEMENT_SHUFFLE)
    if s == NULL:
        return False
    s.filling = s.emitting = -1
    shuffle_init(order, &s.op, &s.shuffle, spec)
    _note_above(&s.op)
    # Besides those in the buffer, one element is being filled, and one is being given.
    if not _buffer_init(&s.buffer, spec.size) or not ids_init(&s.ids, spec.size + 2) or not list_init(&s.scratch):
        return False
    s.elements = <Element*>map_pages(size_product(s.ids.capacity, sizeof(Element)))
    return s.elements != NULL
