"""The order program. See order.pxd for the contract."""
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, malloc, qsort, realloc
from libc.string cimport memset
from queuecore._core.atoms cimport check_layout
from queuecore._core.blocks cimport (
    BLOCKS_END, BLOCKS_FAULT, Blocks, RecordBlock, blocks_at, blocks_give, blocks_leave, blocks_out, blocks_restart)
from queuecore._core.errors cimport CODE_INVALID_ARGUMENT, STAGE_ORDER, WHAT_UNEQUAL
from queuecore._core.platform cimport Fault, FileEntry, kAcquire, layout_hash, map_pages, unmap_pages
from queuecore._core.random cimport Philox, philox_jump, philox_next, philox_seed
from queuecore._core.sources cimport FileTable, file_skippable, table_fault

check_layout(layout_hash())


cdef void _seed_iteration(Shuffle* s) noexcept nogil:
    # With reshuffling, the master generator gives each iteration two numbers, which seed that iteration's own.
    cdef uint32_t a, b
    philox_seed(&s.random, s.seed_lo, s.seed_hi)
    if s.reshuffle:
        philox_jump(&s.random, <uint64_t>s.iteration // 2)  # four numbers a block
        if s.iteration % 2:
            philox_next(&s.random)
            philox_next(&s.random)
        a = philox_next(&s.random)
        b = philox_next(&s.random)
        philox_seed(&s.random, a, b)
    s.seeded = True
    s.begun += 1


# Lists of runs

cdef inline void _append(RunList* out, int64_t ordinal, int64_t pass_, int64_t n, RecordBlock* block, int64_t good) noexcept nogil:
    cdef Run* last
    if out.count > 0:
        last = &out.runs[out.count - 1]
        if last.ordinal + last.n == ordinal and last.pass_ == pass_ and last.block == block:
            last.n += n
            out.rows += n
            return
    out.runs[out.count].ordinal = ordinal
    out.runs[out.count].pass_ = pass_
    out.runs[out.count].n = n
    out.runs[out.count].block = block
    out.runs[out.count].good = good
    out.count += 1
    out.rows += n


cdef inline int64_t _given(const Op* op, const RunList* list_) noexcept nogil:
    # Elements of this operator in a list that was clear before.
    if op.rows == 1:
        return list_.rows
    return 1 if list_.closed else 0


cdef inline void _clear(RunList* list_) noexcept nogil:
    list_.count = 0
    list_.rows = 0
    list_.closed = False
    list_.subs = 0


# Ids of a shuffle's buffer

cdef inline int64_t _id_take(Shuffle* s) noexcept nogil:
    if s.free_count > 0:
        s.free_count -= 1
        return s.free_ids[s.free_count]
    if s.fresh < s.capacity:
        s.fresh += 1
        return s.fresh - 1
    return -1


cdef inline void _id_give(Shuffle* s, int64_t id) noexcept nogil:
    s.free_ids[s.free_count] = <uint32_t>id
    s.free_count += 1


cdef inline int64_t _ring_draw(Shuffle* s, int64_t buffer_size) noexcept nogil:
    # TensorFlow's draw: one of the `count` from start on; the one at start takes its place.
    cdef int64_t k = s.start + philox_next(&s.random) % <uint32_t>s.count
    cdef int64_t id
    if k >= buffer_size:
        k -= buffer_size
    id = s.ring[k]
    s.ring[k] = s.ring[s.start]
    s.start += 1
    if s.start == buffer_size:
        s.start = 0
    s.count -= 1
    return id


cdef inline void _ring_add(Shuffle* s, int64_t buffer_size, int64_t id) noexcept nogil:
    cdef int64_t k = s.start + s.count
    if k >= buffer_size:
        k -= buffer_size
    s.ring[k] = <uint32_t>id
    s.count += 1


# Pulling

cdef int _pull(Order* order, Op* op, int64_t max_rows, RunList* out) noexcept nogil:
    if op.kind == OP_SOURCE:
        return _pull_source(order, op, max_rows, out)
    if op.kind == OP_TAKE:
        return _pull_take(order, op, max_rows, out)
    if op.kind == OP_SKIP:
        return _pull_skip(order, op, max_rows, out)
    if op.kind == OP_REPEAT:
        return _pull_repeat(order, op, max_rows, out)
    if op.kind == OP_BATCH:
        return _pull_batch(order, op, max_rows, out)
    if op.kind == OP_SHUFFLE:
        return _pull_shuffle(order, op, max_rows, out)
    return _pull_shuffle_elements(order, op, max_rows, out)


cdef void _source_go(Order* order, Op* op) noexcept nogil:
    # From what is only played to what is there, if that is reached; and over records that are missing.
    cdef const Missing* m
    cdef RecordBlock* block
    cdef int status
    if not op.joined:
        if op.pass_ < order.start.pass_ or (op.pass_ == order.start.pass_ and op.position < order.start.good):
            return
        op.joined = True
        if op.pass_ == order.start.pass_:
            op.position = order.start.ordinal
        elif order.blocks != NULL:
            blocks_restart(order.blocks, op.pass_)
    while order.missing_at < order.missing_count:
        m = &order.missing[order.missing_at]
        if _behind(m.pass_, m.ordinal, op.pass_, op.position + 1):
            return
        if m.pass_ == op.pass_ and m.ordinal == op.position:
            if order.blocks != NULL:
                block = blocks_at(order.blocks, op.pass_, op.position, &status)
                if block == NULL:  # not there yet
                    return
                blocks_give(order.blocks, block, op.position + 1)
                blocks_leave(order.blocks, block, 1)
            op.position += 1
        order.missing_at += 1


cdef int64_t _source_end(Order* order, Op* op, int* status) noexcept nogil:
    # The ordinal before which records are known; *status: what comes there.
    cdef FileTable* t = order.table
    cdef int64_t known
    cdef FileEntry* e
    cdef RecordBlock* block
    cdef int64_t end
    if not op.joined:
        if op.pass_ < order.start.pass_:
            if order.start.pass_good < 0:  # no pass came to its end: a take() always cut it off before
                status[0] = PULL_WAIT
                return <int64_t>1 << 60
            status[0] = PULL_END
            return order.start.pass_good
        status[0] = PULL_WAIT
        return order.start.good
    if order.blocks != NULL:
        block = blocks_at(order.blocks, op.pass_, op.position, status)
        end = op.position
        if block != NULL:
            end = block.place.base + block.count
            status[0] = PULL_WAIT
        elif status[0] == BLOCKS_END:
            status[0] = PULL_END
        else:
            status[0] = PULL_FAULT if status[0] == BLOCKS_FAULT else PULL_WAIT
    else:
        known = t.known_files.load(kAcquire)  # D2 acquire: pairs with D1 in sources.pyx
        while op.scanned < known and op.bad_file < 0:
            e = &t.entries[op.scanned]
            if e.code != 0 and not (order.skip_files and file_skippable(e.code, e.what, e.err)):
                op.bad_file = op.scanned
            op.scanned += 1
        if op.bad_file >= 0:
            e = &t.entries[op.bad_file]
            end = e.base + e.count
            status[0] = PULL_FAULT
        elif known == 0:
            end = 0
            status[0] = PULL_WAIT
        else:
            e = &t.entries[known - 1]
            end = e.base + e.count
            status[0] = PULL_END if known == t.files else PULL_WAIT
    if op.cut_pass >= 0 and op.pass_ >= op.cut_pass and (op.pass_ > op.cut_pass or end >= op.cut_ordinal):
        end = op.cut_ordinal if op.pass_ == op.cut_pass else 0
        status[0] = PULL_FAULT
    if order.missing_at < order.missing_count:
        if order.missing[order.missing_at].pass_ == op.pass_ and order.missing[order.missing_at].ordinal < end:
            end = order.missing[order.missing_at].ordinal
            status[0] = PULL_WAIT
    return end


cdef RecordBlock* _source_take(Order* order, Op* op, int64_t n) noexcept nogil:
    # The next n records, which are known. Where they are.
    cdef RecordBlock* block = NULL
    cdef int status
    if order.blocks != NULL and op.joined:
        block = blocks_at(order.blocks, op.pass_, op.position, &status)
        blocks_give(order.blocks, block, op.position + n)
    op.position += n
    op.given += n
    return block


cdef int _pull_source(Order* order, Op* op, int64_t max_rows, RunList* out) noexcept nogil:
    cdef int status = PULL_OK
    cdef int64_t n, ordinal, good
    _source_go(order, op)
    n = _source_end(order, op, &status) - op.position
    if n <= 0:
        if status == PULL_END and order.blocks == NULL:
            order.pass_good = op.given
        if status == PULL_FAULT:
            if op.cut_pass >= 0 and _behind(op.pass_, op.position, op.cut_pass, op.cut_ordinal):
                order.fault = order.cut_fault
            elif order.blocks != NULL:
                order.fault = order.blocks.fault
            else:
                table_fault(order.table, op.bad_file, &order.fault)
            order.faulted = True
        return status
    if n > max_rows:
        n = max_rows
    ordinal = op.position
    good = op.given
    _append(out, ordinal, op.pass_, n, _source_take(order, op, n), good)
    return PULL_OK


cdef int _pull_take(Order* order, Op* op, int64_t max_rows, RunList* out) noexcept nogil:
    cdef int64_t before = out.rows
    cdef int status
    out.closed = False
    if op.size >= 0:
        if op.done >= op.size:
            return PULL_END
        if op.rows == 1 and max_rows > op.size - op.done:
            max_rows = op.size - op.done
    status = _pull(order, op.up, max_rows, out)
    if op.rows == 1:
        op.done += out.rows - before
    elif out.closed:
        op.done += 1
    return status


cdef inline void _discard_run(Order* order, const Op* op, const Run* run) noexcept nogil:
    # A run out of this operator that nobody will read: if it names rows of the store, these are free again.
    cdef int64_t i
    if op.gives_ids:
        for i in range(run.n):
            _id_give(order.bottom_shuffle.shuffle, run.ordinal + i)
    elif run.block != NULL:
        blocks_leave(order.blocks, run.block, run.n)


cdef inline void _discard_id(Order* order, Shuffle* s, int64_t id) noexcept nogil:
    # A record out of a shuffle's buffer that nobody will read.
    if s.blocks != NULL and s.blocks[id] != NULL:
        blocks_leave(order.blocks, s.blocks[id], 1)
    _id_give(s, id)


cdef void _discard(Order* order, const Op* op, const RunList* list_) noexcept nogil:
    cdef int32_t i
    for i in range(list_.count):
        _discard_run(order, op, &list_.runs[i])


cdef int _pull_skip(Order* order, Op* op, int64_t max_rows, RunList* out) noexcept nogil:
    cdef int status
    cdef int64_t left
    if op.size < 0:
        return PULL_END
    if op.done < op.size:
        left = op.size - op.done
        op.done += _advance(order, op.up, left, 1)
        left = op.size - op.done
        if left > 0:
            _clear(&op.scratch)
            status = _pull(order, op.up, left if op.rows == 1 and left < SCRATCH_RUNS else SCRATCH_RUNS, &op.scratch)
            op.done += _given(op, &op.scratch)
            _discard(order, op.up, &op.scratch)
            return status  # nothing given yet: the caller comes again
    return _pull(order, op.up, max_rows, out)


cdef int _pull_repeat(Order* order, Op* op, int64_t max_rows, RunList* out) noexcept nogil:
    cdef int64_t before = out.rows
    cdef int status
    if op.size >= 0 and op.done >= op.size:
        return PULL_END
    if op.again:
        _restart(order, op.up)
        op.again = False
        op.any = False
    status = _pull(order, op.up, max_rows, out)
    if out.rows != before or out.closed:
        op.any = True
    if status != PULL_END:
        return status
    if not op.any:  # a pass without anything: so will be the next one
        return PULL_END
    op.done += 1
    op.again = True  # not before somebody pulls: an iteration of a shuffle begins with its first element
    return PULL_OK if op.size < 0 or op.done < op.size else PULL_END


cdef int _step_batch(Order* order, Op* op, int64_t max_rows, RunList* out) noexcept nogil:
    # Passes rows on, and closes an element when it is full or the input at its end.
    cdef int64_t before = out.rows
    cdef int status
    if op.ended != PULL_OK:
        return op.ended
    if max_rows > op.rows - op.open_rows:
        max_rows = op.rows - op.open_rows
    status = _pull(order, op.up, max_rows, out)
    op.open_rows += out.rows - before
    if op.up.rows == 1:
        out.closed = op.open_rows == op.rows
        out.subs = 0
    else:
        op.open_sub += out.rows - before
        if out.closed and op.open_sub == 0:  # a cut took all of it
            out.closed = False
        if out.closed:
            if op.subs > 0 and op.open_sub != op.sub_rows:
                out.closed = False
                return _unequal(order, op)
            op.sub_rows = op.open_sub
            op.open_sub = 0
            op.subs += 1
            out.closed = op.subs == op.size
            out.subs = op.subs
    if status == PULL_END or status == PULL_FAULT:
        op.ended = status
        if not out.closed and op.open_rows > 0 and not op.drop:  # what stands open is given short
            out.closed = True
            out.subs = op.subs
    if out.closed:
        op.open_rows = 0
        op.subs = 0
        return PULL_OK
    return status


cdef int _unequal(Order* order, Op* op) noexcept nogil:
    op.ended = PULL_FAULT
    if order.faulted:  # the shorter one was cut short by an error, which is then what there is to say
        return PULL_FAULT
    memset(&order.fault, 0, sizeof(Fault))
    order.fault.code = CODE_INVALID_ARGUMENT
    order.fault.what = WHAT_UNEQUAL
    order.fault.stage = STAGE_ORDER
    order.fault.file = order.fault.offset = order.fault.record = -1
    order.fault.a = op.sub_rows
    order.fault.b = op.open_sub
    order.faulted = True
    return PULL_FAULT


cdef bint _element_append(Element* e, const Run* run) noexcept nogil:
    cdef Run* grown
    cdef Run* last
    e.rows += run.n
    if e.count > 0:
        last = &e.runs[e.count - 1]
        if last.ordinal + last.n == run.ordinal and last.pass_ == run.pass_ and last.block == run.block:
            last.n += run.n
            return True
    if e.count == e.room:
        grown = <Run*>realloc(e.runs, (2 * e.room + 2) * sizeof(Run))
        if grown == NULL:
            return False
        e.runs = grown
        e.room = 2 * e.room + 2
    e.runs[e.count] = run[0]
    e.count += 1
    return True


cdef void _element_clear(Element* e) noexcept nogil:
    e.count = 0
    e.rows = 0
    e.subs = 0
    e.given = 0
    e.offset = 0


cdef bint _element_give(Element* e, int64_t max_rows, RunList* out) noexcept nogil:
    # Appends up to max_rows of its records; True: that was the rest.
    cdef Run* run
    cdef int64_t n, given = 0
    while given < max_rows and e.given < e.count:
        run = &e.runs[e.given]
        n = run.n - e.offset
        if n > max_rows - given:
            n = max_rows - given
        _append(out, run.ordinal + e.offset, run.pass_, n, run.block, run.good + e.offset)
        given += n
        e.offset += n
        if e.offset == run.n:
            e.offset = 0
            e.given += 1
    out.closed = e.given == e.count
    out.subs = e.subs
    return out.closed


cdef void _drop_tail(Order* order, const Op* op, Element* e, int64_t rows) noexcept nogil:
    # Takes the last rows off again.
    cdef Run* last
    cdef Run tail
    cdef int64_t n
    if rows > e.rows:  # a cut has taken some already
        rows = e.rows
    e.rows -= rows
    order.dropped += rows
    while rows > 0:
        last = &e.runs[e.count - 1]
        n = last.n if last.n < rows else rows
        last.n -= n
        rows -= n
        tail.ordinal = last.ordinal + last.n
        tail.n = n
        tail.block = last.block
        _discard_run(order, op, &tail)
        if last.n == 0:
            e.count -= 1


cdef int _pull_batch(Order* order, Op* op, int64_t max_rows, RunList* out) noexcept nogil:
    cdef int32_t i
    cdef int status
    if not op.whole:
        return _step_batch(order, op, max_rows, out)
    if not op.giving:
        _clear(&op.scratch)
        status = _step_batch(order, op, SCRATCH_RUNS, &op.scratch)
        for i in range(op.scratch.count):
            if not _element_append(&op.held, &op.scratch.runs[i]):
                return PULL_NO_MEMORY
        if op.scratch.closed:
            op.giving = True
            op.held.subs = op.scratch.subs
        else:
            if status == PULL_FAULT and not op.drop and op.subs > 0:
                # Whole elements stand before the one that an error cut short, or that differs: they are given, as a short batch.
                _drop_tail(order, op, &op.held, op.open_sub)
                op.held.subs = op.subs
                op.giving = op.held.rows > 0
                op.subs = 0
                op.open_rows = 0
                return PULL_OK
            if (status == PULL_END or status == PULL_FAULT) and op.held.rows > 0:
                order.dropped += op.held.rows
                for i in range(op.held.count):
                    _discard_run(order, op, &op.held.runs[i])
                _element_clear(&op.held)
            return status
    if _element_give(&op.held, max_rows, out):
        op.giving = False
        _element_clear(&op.held)
    return PULL_OK


cdef int _enter(Order* order, Op* op) noexcept nogil:
    # Fills a shuffle of records from upstream as far as it goes. PULL_OK: it is full, or upstream is at its end.
    cdef Shuffle* s = op.shuffle
    cdef Run* run
    cdef int64_t id, k
    cdef int status
    while s.count < op.size and s.ended == PULL_OK:
        if s.next_from >= 0 and s.ahead_out == s.next_from:  # what follows is of the next pass
            s.ended = PULL_END
            break
        if s.stored and not s.index_only and s.ahead_out < s.ahead_in:
            k = s.ahead_out % s.ahead_room
            if s.ahead_out == s.failed_at:
                order.fault = s.failed
                order.faulted = True
                s.ended = PULL_FAULT
                break
            if not s.ahead_loaded[k]:
                return PULL_WAIT
            id = s.ahead[k]
            s.ahead_out += 1
            _ring_add(s, op.size, id)
            s.entered_pass = s.passes[id]
            s.entered_end = s.ordinals[id] + 1
            continue
        if s.scratch_at >= s.scratch.count:
            _clear(&s.scratch)
            s.scratch_at = 0
            s.scratch_offset = 0
            status = _pull(order, op.up, SCRATCH_RUNS, &s.scratch)
            if s.scratch.count == 0:
                if status == PULL_END or status == PULL_FAULT:
                    s.ended = status
                    break
                if status != PULL_OK:
                    return status
            continue
        if s.stored and not s.index_only:
            return PULL_WAIT  # pulled, to be loaded: order_plan_load takes it from here
        run = &s.scratch.runs[s.scratch_at]
        id = _id_take(s)
        s.ordinals[id] = run.ordinal + s.scratch_offset
        s.passes[id] = run.pass_
        if s.blocks != NULL:
            s.blocks[id] = run.block
        s.entered_pass = run.pass_
        s.entered_end = s.ordinals[id] + 1
        _ring_add(s, op.size, id)
        s.scratch_offset += 1
        if s.scratch_offset == run.n:
            s.scratch_offset = 0
            s.scratch_at += 1
    return PULL_OK


cdef bint _is_missing(const Shuffle* s, int64_t id) noexcept nogil:
    cdef int64_t low = 0, high = s.missing_count, middle
    cdef const Missing* m
    while low < high:
        middle = (low + high) // 2
        m = &s.missing[middle]
        if m.pass_ == s.passes[id] and m.ordinal == s.ordinals[id]:
            return True
        if _behind(s.passes[id], s.ordinals[id], m.pass_, m.ordinal):
            low = middle + 1
        else:
            high = middle
    return False


cdef int _pull_shuffle(Order* order, Op* op, int64_t max_rows, RunList* out) noexcept nogil:
    cdef Shuffle* s = op.shuffle
    cdef RecordBlock* block = NULL
    cdef int64_t id, given = 0
    cdef int status
    if not s.seeded:
        _seed_iteration(s)
    while given < max_rows:
        status = _enter(order, op)
        if status != PULL_OK:
            return status if given == 0 else PULL_OK
        if s.count == 0:
            return s.ended if given == 0 else PULL_OK
        id = _ring_draw(s, op.size)
        if s.missing_count > 0 and _is_missing(s, id):
            _discard_id(order, s, id)
            continue
        if s.stored:  # the row stays taken until it is read, or discarded
            _append(out, id, 0, 1, NULL, 0)
        else:
            if s.blocks != NULL:
                block = s.blocks[id]
            _append(out, s.ordinals[id], s.passes[id], 1, block, 0)
            _id_give(s, id)
        given += 1
    return PULL_OK


cdef int _enter_elements(Order* order, Op* op) noexcept nogil:
    cdef Shuffle* s = op.shuffle
    cdef Element* e
    cdef int32_t i
    cdef int status
    while s.count < op.size and s.ended == PULL_OK:
        if s.filling < 0:
            s.filling = _id_take(s)
            _element_clear(&s.elements[s.filling])
        e = &s.elements[s.filling]
        _clear(&s.scratch)
        status = _pull(order, op.up, SCRATCH_RUNS, &s.scratch)
        for i in range(s.scratch.count):
            if not _element_append(e, &s.scratch.runs[i]):
                return PULL_NO_MEMORY
            s.entered_pass = s.scratch.runs[i].pass_
            s.entered_end = s.scratch.runs[i].ordinal + s.scratch.runs[i].n
        if s.scratch.closed:
            e.subs = s.scratch.subs
            if e.rows > 0:
                _ring_add(s, op.size, s.filling)
                s.filling = -1
        if status == PULL_END or status == PULL_FAULT:
            s.ended = status
        elif status != PULL_OK:
            return status
    return PULL_OK


cdef int _pull_shuffle_elements(Order* order, Op* op, int64_t max_rows, RunList* out) noexcept nogil:
    cdef Shuffle* s = op.shuffle
    cdef int status
    if not s.seeded:
        _seed_iteration(s)
    if s.emitting < 0:
        status = _enter_elements(order, op)
        if status != PULL_OK:
            return status
        if s.count == 0:
            return s.ended
        s.emitting = _ring_draw(s, op.size)
    if _element_give(&s.elements[s.emitting], max_rows, out):
        _id_give(s, s.emitting)
        s.emitting = -1
    return PULL_OK


# A new pass

cdef void _element_drop(Order* order, const Op* op, Element* e) noexcept nogil:
    # What nobody will be given of it.
    cdef Run rest
    while e.given < e.count:
        rest = e.runs[e.given]
        rest.n -= e.offset
        rest.ordinal += e.offset
        _discard_run(order, op, &rest)
        e.offset = 0
        e.given += 1
    _element_clear(e)


cdef void _scratch_settle(Shuffle* s) noexcept nogil:
    # What has entered of the next run is no more of it.
    cdef Run* run
    if s.scratch_offset > 0 and s.scratch_at < s.scratch.count:
        run = &s.scratch.runs[s.scratch_at]
        run.ordinal += s.scratch_offset
        run.n -= s.scratch_offset
    s.scratch_offset = 0


cdef void _restart(Order* order, Op* op) noexcept nogil:
    cdef Shuffle* s
    cdef int64_t k
    cdef int32_t i
    op.done = 0
    op.any = False
    op.again = False
    op.ended = PULL_OK
    op.open_rows = 0
    op.subs = 0
    op.open_sub = 0
    op.giving = False
    if op.kind == OP_SOURCE:
        op.position = op.given = 0
        op.pass_ += 1
        if order.blocks != NULL and op.pass_ >= order.start.pass_:
            blocks_restart(order.blocks, op.pass_)
        return
    if order.blocks != NULL:
        _element_drop(order, op.up, &op.held)
    _element_clear(&op.held)
    s = op.shuffle
    if s != NULL:
        s.ended = PULL_OK
        s.seeded = False
        s.iteration += 1
        # What a take() above it left in the buffer belongs to the pass that is over.
        while s.count > 0:
            s.count -= 1
            k = s.ring[(s.start + s.count) % op.size]
            if s.elements != NULL and order.blocks != NULL:
                _element_drop(order, op.up, &s.elements[k])
            _discard_id(order, s, k)
        s.start = 0
        if s.next_from >= 0 and s.failed_at < 0:  # the next pass is being read already
            while s.ahead_out < s.next_from:
                _ahead_drop(s)
            s.next_from = -1
            return
        s.next_from = -1
        while s.ahead_out < s.ahead_in:
            _ahead_drop(s)
        s.pass_from = s.ahead_in
        if s.elements == NULL and order.blocks != NULL:
            _scratch_settle(s)
            for i in range(s.scratch_at, s.scratch.count):
                _discard_run(order, op.up, &s.scratch.runs[i])
        s.scratch.count = 0
        s.scratch_at = 0
        s.scratch_offset = 0
        s.failed_at = -1
        if s.filling >= 0:
            if order.blocks != NULL:
                _element_drop(order, op.up, &s.elements[s.filling])
            _id_give(s, s.filling)
            s.filling = -1
        if s.emitting >= 0:
            if order.blocks != NULL:
                _element_drop(order, op.up, &s.elements[s.emitting])
            _id_give(s, s.emitting)
            s.emitting = -1
    _restart(order, op.up)


cdef void _ahead_drop(Shuffle* s) noexcept nogil:
    # The row may still be on its way in: then order_loaded gives the id back.
    cdef int64_t k = s.ahead_out % s.ahead_room
    if s.ahead_loaded[k] == 1:
        _id_give(s, s.ahead[k])
    s.ahead_out += 1


# Arithmetic: leaving out many elements at once

cdef int64_t _elements(Order* order, Op* op) noexcept nogil:
    # Elements of one pass, or -1 if that isn't plain arithmetic (yet).
    cdef int status = PULL_OK
    cdef int64_t n
    if op.kind == OP_SOURCE:
        if op.cut_pass >= 0 or (order.missing_count > 0 and order.pass_good < 0):
            return -1
        if order.pass_good >= 0:
            return order.pass_good
        if order.blocks != NULL:
            return -1
        n = _source_end(order, op, &status)
        return n if status == PULL_END else -1
    if op.kind == OP_REPEAT:
        return -1
    n = _elements(order, op.up)
    if op.shuffle != NULL and op.shuffle.missing_count > 0:
        return -1
    if n < 0 or op.shuffle != NULL:
        return n
    if op.kind == OP_TAKE:
        return n if op.size < 0 or n < op.size else op.size
    if op.kind == OP_SKIP:
        return 0 if op.size < 0 or n < op.size else n - op.size
    return n // op.size if op.drop else (n + op.size - 1) // op.size


cdef void _jump(Op* op, int64_t passes) noexcept nogil:
    # As if so many passes had been played. Only over operators that _elements knows.
    if op.kind == OP_SOURCE:
        op.pass_ += passes
        return
    if op.shuffle != NULL:
        op.shuffle.iteration += passes
        op.shuffle.begun += passes
    _jump(op.up, passes)


cdef int64_t _lcm(int64_t a, int64_t b) noexcept nogil:
    # -1: beyond any count of elements.
    cdef int64_t x = a, y = b
    while y != 0:
        x, y = y, x % y
    a //= x
    return -1 if b > (<int64_t>1 << 62) // a else a * b


cdef int64_t _advance(Order* order, Op* op, int64_t n, int64_t unit) noexcept nogil:
    # Leaves out up to n elements without pulling them: a multiple of `unit`, so that nothing above is left half open. Returns how
    # many. 0 is always right: the caller then pulls and discards.
    cdef int64_t a, passes, step
    cdef int status = PULL_OK
    cdef RecordBlock* block
    if op.kind == OP_SOURCE:
        _source_go(order, op)
        a = _source_end(order, op, &status) - op.position
        a = 0 if a < 0 else (a if a < n else n)
        a -= a % unit
        if a > 0:
            block = _source_take(order, op, a)
            if block != NULL:
                blocks_leave(order.blocks, block, a)
        return a
    if op.kind == OP_TAKE:
        if op.size >= 0 and n > op.size - op.done:
            n = op.size - op.done
        a = _advance(order, op.up, n, unit)
        op.done += a
        return a
    if op.kind == OP_SKIP:
        return 0 if op.size < 0 or op.done < op.size else _advance(order, op.up, n, unit)
    if op.kind == OP_REPEAT:
        if op.size >= 0 and op.done >= op.size:
            return 0
        if op.again:
            a = _elements(order, op.up)
            step = _lcm(a, unit) if a > 0 else -1
            if step > 0:
                step //= a  # passes that make whole units
                passes = n // a
                if op.size >= 0 and passes > op.size - op.done - 1:
                    passes = op.size - op.done - 1
                passes -= passes % step
                if passes > 0:
                    _jump(op.up, passes)
                    op.done += passes
                    return passes * a
            _restart(order, op.up)
            op.again = False
            op.any = False
        a = _advance(order, op.up, n, unit)
        if a > 0:
            op.any = True
        return a
    if op.kind == OP_BATCH:
        if (op.open_rows != 0 or op.giving or op.ended != PULL_OK or n > (<int64_t>1 << 62) // op.size
                or unit > (<int64_t>1 << 62) // op.size):
            return 0
        return _advance(order, op.up, n * op.size, unit * op.size) // op.size
    return 0


cdef int order_forward(Order* order, int64_t budget) noexcept nogil:
    cdef RunList* scratch = &order.ops[0].scratch
    cdef Op* top = order.top
    cdef int64_t n, spent = 0
    cdef int status
    while order.skip_left > 0 and spent < budget:
        order.skip_left -= _advance(order, top, order.skip_left, 1)
        if order.skip_left == 0:
            break
        _clear(scratch)
        n = SCRATCH_RUNS
        if top.rows == 1 and n > order.skip_left:
            n = order.skip_left
        status = _pull(order, top, n, scratch)
        order.skip_left -= _given(top, scratch)
        spent += 1 + scratch.rows
        _discard(order, top, scratch)
        if status != PULL_OK:
            return status
    return PULL_OK


# Making and ending it

cdef bint _list_init(RunList* list_) noexcept nogil:
    list_.runs = <Run*>malloc(SCRATCH_RUNS * sizeof(Run))
    return list_.runs != NULL


cdef bint _shuffle_init(Op* op, const OpSpec* spec, int64_t ahead, bint blocks) noexcept nogil:
    cdef Shuffle* s = <Shuffle*>calloc(1, sizeof(Shuffle))
    op.shuffle = s
    if s == NULL or not _list_init(&s.scratch):
        return False
    s.seed_lo = spec.seed_lo
    s.seed_hi = spec.seed_hi
    s.reshuffle = spec.flag
    s.iteration = spec.iteration
    s.filling = s.emitting = s.failed_at = s.next_from = s.survivor_failed_pass = -1
    s.stored = ahead > 0
    s.index_only = True
    # One more than the buffer: an element is filled, or given, while the buffer is full. Pages of a buffer larger than the data are
    # never touched.
    s.capacity = op.size + ahead + 2
    s.ahead_room = s.capacity
    s.ring = <uint32_t*>map_pages(op.size * sizeof(uint32_t))
    s.free_ids = <uint32_t*>map_pages(s.capacity * sizeof(uint32_t))
    if s.ring == NULL or s.free_ids == NULL:
        return False
    if op.kind == OP_SHUFFLE_ELEMENTS:
        s.elements = <Element*>map_pages(s.capacity * sizeof(Element))
        return s.elements != NULL
    s.ordinals = <int64_t*>map_pages(s.capacity * sizeof(int64_t))
    s.passes = <int64_t*>map_pages(s.capacity * sizeof(int64_t))
    if blocks:
        s.blocks = <RecordBlock**>map_pages(s.capacity * sizeof(RecordBlock*))
        if s.blocks == NULL:
            return False
    if ahead > 0:
        s.ahead = <uint32_t*>malloc(s.ahead_room * sizeof(uint32_t))
        s.ahead_loaded = <uint8_t*>malloc(s.ahead_room)
        if s.ahead == NULL or s.ahead_loaded == NULL:
            return False
    return s.ordinals != NULL and s.passes != NULL


cdef Order* order_new(FileTable* table, Blocks* blocks, bint skip_files, const Start* start, const Missing* missing, int64_t missing_count,
                      const OpSpec* specs, int32_t count, int64_t store_ahead) noexcept nogil:
    cdef Order* order = <Order*>calloc(1, sizeof(Order))
    cdef Op* op
    cdef int32_t i, shuffles = 0
    if order == NULL:
        return NULL
    order.table = table
    order.blocks = blocks
    order.skip_files = skip_files
    order.start = start[0]
    order.pass_good = start.pass_good
    order.missing = missing
    order.missing_count = missing_count
    order.ops = <Op*>calloc(count + 1, sizeof(Op))
    if order.ops == NULL or not _list_init(&order.ops[0].scratch):
        order_free(order)
        return NULL
    order.count = count + 1
    order.ops[0].kind = OP_SOURCE
    order.ops[0].rows = 1
    order.ops[0].joined = start.pass_ == 0 and start.good == 0 and start.ordinal == 0
    order.ops[0].bad_file = order.ops[0].cut_pass = -1
    for i in range(count):
        if specs[i].kind == OP_SHUFFLE:
            shuffles += 1
    for i in range(1, count + 1):
        op = &order.ops[i]
        op.kind = specs[i - 1].kind
        op.size = specs[i - 1].size
        op.up = &order.ops[i - 1]
        op.rows = op.up.rows
        if op.kind == OP_BATCH:
            op.rows = op.size * op.up.rows
            op.drop = specs[i - 1].flag
            op.whole = op.drop or op.up.rows > 1
        if op.kind == OP_SKIP or op.whole:
            if not _list_init(&op.scratch):
                order_free(order)
                return NULL
        elif op.kind == OP_SHUFFLE:
            if op.rows > 1:
                op.kind = OP_SHUFFLE_ELEMENTS
            # A row stays in the store until it is read, so nothing above may keep rows back.
            if not _shuffle_init(op, &specs[i - 1], store_ahead if shuffles == 1 and op.rows == 1 else 0, blocks != NULL):
                order_free(order)
                return NULL
            if order.bottom_shuffle == NULL:
                order.bottom_shuffle = op
        op.gives_ids = op.up.gives_ids or (op.shuffle != NULL and op.shuffle.stored)
    order.top = &order.ops[count]
    for i in range(count, 0, -1):
        if order.ops[i].kind == OP_SHUFFLE:
            order.ops[i].shuffle.missing = missing
            order.ops[i].shuffle.missing_count = missing_count
            order.missing_count = 0
            break
    return order


cdef void order_free(Order* order) noexcept nogil:
    cdef int32_t i
    cdef int64_t k
    cdef Op* op
    cdef Shuffle* s
    if order == NULL:
        return
    for i in range(order.count):
        op = &order.ops[i]
        free(op.scratch.runs)
        free(op.held.runs)
        s = op.shuffle
        if s != NULL:
            if s.elements != NULL:
                for k in range(s.fresh):
                    free(s.elements[k].runs)
            unmap_pages(s.elements, s.capacity * sizeof(Element))
            unmap_pages(s.ring, op.size * sizeof(uint32_t))
            unmap_pages(s.free_ids, s.capacity * sizeof(uint32_t))
            unmap_pages(s.ordinals, s.capacity * sizeof(int64_t))
            unmap_pages(s.passes, s.capacity * sizeof(int64_t))
            unmap_pages(s.blocks, s.capacity * sizeof(RecordBlock*))
            free(s.ahead)
            free(s.ahead_loaded)
            free(s.survivors)
            free(s.scratch.runs)
            free(s)
    free(order.ops)
    free(order)


cdef int order_pull(Order* order, int64_t max_rows, RunList* out) noexcept nogil:
    cdef int32_t i = out.count - 1 if out.count > 0 else 0
    cdef int64_t had = out.runs[i].n if out.count > 0 else 0  # the last run may grow
    cdef int status
    # Not even a restart before the survivors are loaded: it would give their rows away while they are on their way in.
    if order.bottom_shuffle != NULL and order.bottom_shuffle.shuffle.survivors_loaded < order.bottom_shuffle.shuffle.survivors_count:
        return PULL_WAIT
    status = _pull(order, order.top, max_rows, out)
    while i < out.count:
        if out.runs[i].block != NULL and out.runs[i].n > had:
            blocks_out(order.blocks, out.runs[i].block, out.runs[i].n - had)
        had = 0
        i += 1
    return status


# Cutting the source short

cdef inline bint _behind(int64_t pass_, int64_t ordinal, int64_t cut_pass, int64_t cut_ordinal) noexcept nogil:
    return pass_ > cut_pass or (pass_ == cut_pass and ordinal >= cut_ordinal)


cdef bint _trim(Run* run, int64_t cut_pass, int64_t cut_ordinal) noexcept nogil:
    # Shortens a run to what lies before the cut; False: nothing does.
    if _behind(run.pass_, run.ordinal, cut_pass, cut_ordinal):
        return False
    if run.pass_ == cut_pass and run.ordinal + run.n > cut_ordinal:
        run.n = cut_ordinal - run.ordinal
    return True


cdef int32_t _trim_runs(Order* order, Run* runs, int32_t first, int32_t count) noexcept nogil:
    # Moves what lies before the cut of runs from `first` on to the front. Returns how many runs there are.
    cdef Run run
    cdef int64_t n
    cdef int32_t i, kept = 0
    for i in range(first, count):
        run = runs[i]
        n = run.n
        if not _trim(&run, order.ops[0].cut_pass, order.ops[0].cut_ordinal):
            run.n = 0
        if run.block != NULL and run.n < n:
            blocks_leave(order.blocks, run.block, n - run.n)
        if run.n > 0:
            runs[kept] = run
            kept += 1
    return kept


cdef void _trim_element(Order* order, Element* e) noexcept nogil:
    cdef int32_t k
    if e.given < e.count:
        e.runs[e.given].ordinal += e.offset
        e.runs[e.given].n -= e.offset
        e.runs[e.given].good += e.offset
    e.count = _trim_runs(order, e.runs, e.given, e.count)
    e.given = 0
    e.offset = 0
    e.rows = 0
    for k in range(e.count):
        e.rows += e.runs[k].n


cdef void _purge(Order* order, Op* op, int64_t cut_pass, int64_t cut_ordinal) noexcept nogil:
    # Drops what lies behind the cut from what an operator keeps; the order of the rest stays.
    cdef Shuffle* s = op.shuffle
    cdef int64_t i, id, kept = 0, count
    if not op.gives_ids:
        _trim_element(order, &op.held)
    if s == NULL:
        return
    count = s.count
    for i in range(count):
        id = s.ring[(s.start + i) % op.size]
        if s.elements != NULL:
            _trim_element(order, &s.elements[id])
            if s.elements[id].count == 0:
                _id_give(s, id)
                continue
        elif _behind(s.passes[id], s.ordinals[id], cut_pass, cut_ordinal):
            _discard_id(order, s, id)
            continue
        s.ring[(s.start + kept) % op.size] = <uint32_t>id
        kept += 1
    s.count = kept
    if s.filling >= 0:
        _trim_element(order, &s.elements[s.filling])
    if s.emitting >= 0:
        _trim_element(order, &s.elements[s.emitting])
    if s.scratch_at < s.scratch.count and s.elements == NULL:
        _scratch_settle(s)
        s.scratch.count = _trim_runs(order, s.scratch.runs, s.scratch_at, s.scratch.count)
        s.scratch_at = 0


cdef void order_cut(Order* order, int64_t pass_, int64_t ordinal, const Fault* fault) noexcept nogil:
    cdef Op* source = &order.ops[0]
    cdef int32_t i
    cdef bint reached = _behind(source.pass_, source.position, pass_, ordinal + 1)
    order.cut_fault = fault[0]
    source.cut_pass = pass_
    source.cut_ordinal = ordinal
    for i in range(order.count):
        _purge(order, &order.ops[i], pass_, ordinal)
        if reached and order.ops[i].shuffle != NULL and order.ops[i].shuffle.ended == PULL_END:
            order.ops[i].shuffle.ended = PULL_FAULT  # it has what it got before, then this
            order.fault = fault[0]
            order.faulted = True


# The store

cdef int _by_place(const void* a, const void* b) noexcept nogil:
    cdef const Run* x = <const Run*>a
    cdef const Run* y = <const Run*>b
    if x.pass_ != y.pass_:
        return -1 if x.pass_ < y.pass_ else 1
    return -1 if x.ordinal < y.ordinal else (1 if x.ordinal > y.ordinal else 0)


cdef bint order_begin(Order* order) noexcept nogil:
    cdef Op* op = order.bottom_shuffle
    cdef Shuffle* s
    cdef int64_t i, id
    if op == NULL or not op.shuffle.stored:
        return True
    s = op.shuffle
    s.index_only = False
    if s.count == 0:
        return True
    s.survivors = <Run*>malloc(s.count * sizeof(Run))
    if s.survivors == NULL:
        return False
    for i in range(s.count):
        id = s.ring[(s.start + i) % op.size]
        s.survivors[i].ordinal = s.ordinals[id]
        s.survivors[i].pass_ = s.passes[id]
        s.survivors[i].n = id
    s.survivors_count = s.count
    qsort(s.survivors, s.survivors_count, sizeof(Run), _by_place)
    return True


cdef inline bint _has_some(const Op* op) noexcept nogil:
    # This pass has given records: a source of none ends the repeat.
    return op.shuffle.ahead_in > op.shuffle.pass_from


cdef bint _comes_again(Order* order, const Op* op) noexcept nogil:
    # Whether the operators above will take this one to its end and then restart it.
    cdef const Op* above = op + 1
    while above <= order.top:
        if above.kind == OP_REPEAT:
            return _has_some(op) and (above.size < 0 or above.done + 1 < above.size)
        if above.kind == OP_TAKE:
            return False
        above += 1
    return False


cdef int64_t order_room(const Order* order) noexcept nogil:
    cdef const Shuffle* s = order.bottom_shuffle.shuffle
    return s.free_count + s.capacity - s.fresh


cdef int64_t order_plan_load(Order* order, int64_t max_rows, RunList* out, uint32_t* ids, int64_t* first) noexcept nogil:
    cdef Op* op = order.bottom_shuffle
    cdef Shuffle* s = op.shuffle
    cdef Run* run
    cdef int64_t id, n = 0
    cdef int status
    if s.survivors_planned < s.survivors_count:
        first[0] = -1 - s.survivors_planned
        while n < max_rows and s.survivors_planned < s.survivors_count:
            run = &s.survivors[s.survivors_planned]
            _append(out, run.ordinal, run.pass_, 1, NULL, 0)
            ids[n] = <uint32_t>run.n
            s.survivors_planned += 1
            n += 1
        return n
    first[0] = s.ahead_in
    if s.failed_at >= 0 or (s.ended != PULL_OK and s.next_from < 0):
        return 0
    while n < max_rows and s.ahead_in - s.ahead_out < s.ahead_room:
        if s.scratch_at >= s.scratch.count:
            _clear(&s.scratch)
            s.scratch_at = 0
            s.scratch_offset = 0
            status = _pull(order, op.up, SCRATCH_RUNS, &s.scratch)
            if s.scratch.count == 0 and status != PULL_OK:
                # The end is for the buffer to find, once it has taken what was read ahead. If a repeat above will start this again,
                # the next pass is read meanwhile: else the window would fill from nothing at every start of an epoch.
                if status == PULL_END and s.next_from < 0 and _comes_again(order, op):
                    s.next_from = s.pass_from = s.ahead_in
                    _restart(order, op.up)
                    if n == 0:  # a load is of one pass, so that what fails in it concerns no other
                        continue
                break
            continue
        id = _id_take(s)
        if id < 0:
            break
        run = &s.scratch.runs[s.scratch_at]
        s.ordinals[id] = run.ordinal + s.scratch_offset
        s.passes[id] = run.pass_
        s.ahead[s.ahead_in % s.ahead_room] = <uint32_t>id
        s.ahead_loaded[s.ahead_in % s.ahead_room] = 0
        _append(out, s.ordinals[id], run.pass_, 1, NULL, 0)
        ids[n] = <uint32_t>id
        s.ahead_in += 1
        n += 1
        s.scratch_offset += 1
        if s.scratch_offset == run.n:
            s.scratch_offset = 0
            s.scratch_at += 1
    return n


cdef void order_loaded(Order* order, int64_t first, int64_t n, const uint32_t* ids, int64_t good, const Fault* fault) noexcept nogil:
    cdef Shuffle* s = order.bottom_shuffle.shuffle
    cdef Run* run
    cdef int64_t i
    if first < 0:
        first = -1 - first
        if good < n:
            run = &s.survivors[first + good]
            if s.survivor_failed_pass < 0 or not _behind(run.pass_, run.ordinal, s.survivor_failed_pass, s.survivor_failed_ordinal):
                s.survivor_failed_pass = run.pass_
                s.survivor_failed_ordinal = run.ordinal
                s.failed = fault[0]
        s.survivors_loaded += n
        if s.survivors_loaded == s.survivors_count and s.survivor_failed_pass >= 0:
            order_cut(order, s.survivor_failed_pass, s.survivor_failed_ordinal, &s.failed)
            order.fault = s.failed
            # What was read ahead lies behind every survivor.
            s.ended = PULL_FAULT
        return
    for i in range(first, first + n):
        if i < s.ahead_out:  # dropped by a restart while it was on its way
            _id_give(s, ids[i - first])
        elif i < first + good:
            s.ahead_loaded[i % s.ahead_room] = 1
        elif s.failed_at < 0 or i < s.failed_at:
            s.failed_at = i
            s.failed = fault[0]


cdef void order_release(Order* order, uint32_t id) noexcept nogil:
    _id_give(order.bottom_shuffle.shuffle, id)


def philox_draws(uint64_t lo, uint64_t hi, int n):
    """First `n` 32-bit outputs of the generator with the seed pair (lo, hi), as a list of int."""
    cdef Philox p
    philox_seed(&p, lo, hi)
    return [philox_next(&p) for _ in range(n)]
