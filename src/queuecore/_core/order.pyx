"""The order program. See order.pxd for the contract."""
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, malloc, qsort, realloc
from libc.string cimport memset
from queuecore._core.atoms cimport check_layout
from queuecore._core.blocks cimport (
    BLOCKS_END, BLOCKS_FAULT, Blocks, RecordBlock, blocks_at, blocks_give, blocks_leave, blocks_out, blocks_restart)
from queuecore._core.errors cimport CODE_INVALID_ARGUMENT, STAGE_ORDER, WHAT_UNEQUAL, WHAT_UNEVEN
from queuecore._core.platform cimport Fault, FileEntry, kAcquire, layout_hash, map_pages, unmap_pages
from queuecore._core.random cimport Philox, philox_block, philox_jump, philox_next, philox_seed
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

cdef inline void _append(RunList* out, int64_t ordinal, int64_t pass_, int64_t n, RecordBlock* block, int64_t first,
                         int64_t good) noexcept nogil:
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
    out.runs[out.count].first = first
    out.runs[out.count].good = good
    out.count += 1
    out.rows += n


cdef inline void _run_from(Run* run, int64_t n) noexcept nogil:
    # Takes the first n of its records off.
    run.ordinal += n
    run.first += n
    run.good += n
    run.n -= n


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
    if op.kind == OP_SHARD:
        return _pull_shard(order, op, max_rows, out)
    if op.kind == OP_PERMUTE:
        return _pull_permute(order, op, max_rows, out)
    return _pull_shuffle_elements(order, op, max_rows, out)


cdef void _source_go(Order* order, Op* op) noexcept nogil:
    # From what is only played to what is there, if that is reached; and over records that are missing.
    cdef const Missing* m
    cdef RecordBlock* block
    cdef int64_t n
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
                block = blocks_at(order.blocks, op.pass_, op.position, &n, &status)
                if block == NULL:  # not there yet
                    return
                blocks_give(order.blocks, block, 1)
                blocks_leave(order.blocks, block, block.given - 1, 1)
            op.position += 1
        order.missing_at += 1


cdef int64_t _source_end(Order* order, Op* op, RecordBlock** block, int* status) noexcept nogil:
    # The ordinal before which records are known, and the block that has them; *status: what comes there.
    cdef FileTable* t = order.table
    cdef int64_t known
    cdef FileEntry* e
    cdef int64_t end
    block[0] = NULL
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
        block[0] = blocks_at(order.blocks, op.pass_, op.position, &end, status)
        end = op.position + (end if block[0] != NULL else 0)
        if block[0] != NULL:
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


cdef inline void _source_take(Order* order, Op* op, RecordBlock* block, int64_t n) noexcept nogil:
    # The next n records, which are known.
    if block != NULL:
        blocks_give(order.blocks, block, n)
    op.position += n
    op.given += n


cdef int _pull_source(Order* order, Op* op, int64_t max_rows, RunList* out) noexcept nogil:
    cdef int status = PULL_OK
    cdef RecordBlock* block
    cdef int64_t n, given = 0
    while given < max_rows:
        _source_go(order, op)
        n = _source_end(order, op, &block, &status) - op.position
        if n <= 0:
            break
        if n > max_rows - given:
            n = max_rows - given
        _append(out, op.position, op.pass_, n, block, 0 if block == NULL else block.given, op.given)
        _source_take(order, op, block, n)
        given += n
    if given > 0:
        return PULL_OK
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
        blocks_leave(order.blocks, run.block, run.first, run.n)


cdef inline void _discard_id(Order* order, Shuffle* s, int64_t id) noexcept nogil:
    # A record out of a shuffle's buffer that nobody will read; of elements, the id alone.
    if s.records != NULL and s.records[id].block != NULL:
        blocks_leave(order.blocks, s.records[id].block, s.records[id].first, 1)
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
        _append(out, run.ordinal + e.offset, run.pass_, n, run.block, run.first + e.offset, run.good + e.offset)
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
        tail.first = last.first + last.n
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
            s.entered_pass = s.records[id].pass_
            s.entered_end = s.records[id].ordinal + 1
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
        s.records[id].ordinal = run.ordinal + s.scratch_offset
        s.records[id].pass_ = run.pass_
        s.records[id].block = run.block
        s.records[id].first = run.first + s.scratch_offset
        s.entered_pass = run.pass_
        s.entered_end = s.records[id].ordinal + 1
        _ring_add(s, op.size, id)
        s.scratch_offset += 1
        if s.scratch_offset == run.n:
            s.scratch_offset = 0
            s.scratch_at += 1
    return PULL_OK


cdef bint _left_out(const Missing* missing, int64_t count, int64_t pass_, int64_t ordinal) noexcept nogil:
    cdef int64_t low = 0, high = count, middle
    cdef const Missing* m
    while low < high:
        middle = (low + high) // 2
        m = &missing[middle]
        if m.pass_ == pass_ and m.ordinal == ordinal:
            return True
        if _behind(pass_, ordinal, m.pass_, m.ordinal):
            low = middle + 1
        else:
            high = middle
    return False


cdef bint _is_missing(const Shuffle* s, int64_t id) noexcept nogil:
    return _left_out(s.missing, s.missing_count, s.records[id].pass_, s.records[id].ordinal)


cdef int _pull_shuffle(Order* order, Op* op, int64_t max_rows, RunList* out) noexcept nogil:
    cdef Shuffle* s = op.shuffle
    cdef Kept* record
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
            _append(out, id, 0, 1, NULL, 0, 0)
        else:
            record = &s.records[id]
            _append(out, record.ordinal, record.pass_, 1, record.block, record.first, 0)
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


# Shards

cdef inline void _again(Run* run) noexcept nogil:
    # A record that is given once more comes in a pass of its own: so a cut at it isn't one at its first place.
    run.pass_ += <int64_t>1 << 40


cdef bint _first_append(Op* op, int64_t element, const Run* run) noexcept nogil:
    # Notes rows of one of the first elements, for who will lack one at the end of the pass.
    op.firsts = element + 1
    return _element_append(&op.first[element], run)


cdef int64_t _own(const Op* op) noexcept nogil:
    # Elements of this shard among those of the input that are behind.
    return (op.done + op.size - 1 - op.index) // op.size


cdef void _give_held(Op* op, RunList* out) noexcept nogil:
    # The record whose group is whole now.
    cdef Run* run = &op.held.runs[0]
    _append(out, run.ordinal, run.pass_, 1, run.block, run.first, run.good)
    _element_clear(&op.held)


cdef bint _lacks(Order* order, const Op* op, const Run* run) noexcept nogil:
    # Whether a record of this shard is to be left out.
    cdef Shuffle* s
    if not op.gives_ids:
        return _left_out(op.missing, op.missing_count, run.pass_, run.ordinal)
    s = order.bottom_shuffle.shuffle
    return _left_out(op.missing, op.missing_count, s.records[run.ordinal].pass_, s.records[run.ordinal].ordinal)


cdef int _cut_records(Order* order, Op* op, int64_t max_rows, RunList* out) noexcept nogil:
    # A run of the input at a time, as far as what is asked for lies in it; of that, every size-th record.
    cdef int64_t phase = op.done % op.size, most, at, m
    cdef int32_t r
    cdef int status
    cdef Run* run
    cdef Run part
    if max_rows > <int64_t>1 << 24:
        max_rows = <int64_t>1 << 24
    if op.up.jumps and phase != op.index and not (op.first != NULL and op.done < op.size):
        m = (op.index - phase + op.size) % op.size
        if op.whole and m > op.size - phase:
            m = op.size - phase
        op.done += _advance(order, op.up, m, 1)
        phase = op.done % op.size
        if op.held.rows > 0 and phase == 0:
            _give_held(op, out)
            return PULL_OK
    if op.up.jumps:
        max_rows = 1
    if op.whole:
        most = max_rows * op.size - phase
    else:
        most = (op.index - phase + op.size) % op.size + (max_rows - 1) * op.size + 1
    if not op.one_run and most > SCRATCH_RUNS:
        most = SCRATCH_RUNS
    _clear(&op.scratch)
    status = _pull(order, op.up, most, &op.scratch)
    for r in range(op.scratch.count):
        run = &op.scratch.runs[r]
        at = 0
        while at < run.n:
            phase = op.done % op.size
            m = 1 if phase == op.index else (op.index - phase + op.size) % op.size
            if op.size == 1 or m > run.n - at:
                m = run.n - at
            if op.first != NULL and op.done < op.size:
                m = 1
            elif op.whole and m > op.size - phase:
                m = op.size - phase
            part = run[0]
            part.ordinal += at
            part.good += at
            part.first += at
            part.n = m
            if op.first != NULL and op.done < op.size and not _first_append(op, op.done, &part):
                return PULL_NO_MEMORY
            if phase != op.index or (op.missing_count > 0 and _lacks(order, op, &part)):
                _discard_run(order, op.up, &part)
            elif not op.whole:
                _append(out, part.ordinal, part.pass_, m, part.block, part.first, part.good)
            elif not _element_append(&op.held, &part):
                return PULL_NO_MEMORY
            op.done += m
            at += m
            if op.held.rows > 0 and op.done % op.size == 0:
                _give_held(op, out)
    return status


cdef int _cut_elements(Order* order, Op* op, int64_t max_rows, RunList* out) noexcept nogil:
    # The same with elements of several rows, of which a pull gives a part, and no more than one.
    cdef int64_t phase = op.done % op.size, most, before = out.rows
    cdef int32_t r
    cdef int status
    cdef bint own = phase == op.index, early = op.first != NULL and op.done < op.size
    if own and not op.whole and not early:
        out.closed = False
        status = _pull(order, op.up, max_rows, out)
        op.open_rows += out.rows - before
        if out.closed:
            op.done += 1
            op.open_rows = 0
        return status
    if op.open_rows == 0 and not own and not early:
        most = (op.index - phase + op.size) % op.size
        if op.whole and most > op.size - phase:
            most = op.size - phase
        op.done += _advance(order, op.up, most, 1)
        if op.done % op.size != phase:
            op.giving = op.held.rows > 0 and op.done % op.size == 0
            return PULL_OK  # the caller comes again
    _clear(&op.scratch)
    status = _pull(order, op.up, SCRATCH_RUNS, &op.scratch)
    op.open_rows += op.scratch.rows
    for r in range(op.scratch.count):
        if (early and not _first_append(op, op.done, &op.scratch.runs[r])) or (own and not _element_append(&op.held, &op.scratch.runs[r])):
            return PULL_NO_MEMORY
    if not own:
        _discard(order, op.up, &op.scratch)
    if op.scratch.closed:
        if own:
            op.held.subs = op.scratch.subs
        if early:
            op.first[op.done].subs = op.scratch.subs
        op.done += 1
        op.open_rows = 0
        op.giving = op.held.rows > 0 and (op.done % op.size == 0 or not op.whole)
    return status


cdef int _pull_shard(Order* order, Op* op, int64_t max_rows, RunList* out) noexcept nogil:
    cdef int status
    if op.giving:
        if _element_give(&op.held, max_rows, out):
            op.giving = False
            _element_clear(&op.held)
        return PULL_OK
    if op.ended != PULL_OK:
        return op.ended
    if op.rows == 1:
        status = _cut_records(order, op, max_rows, out)
    else:
        status = _cut_elements(order, op, max_rows, out)
    if (status == PULL_END or status == PULL_FAULT) and not op.giving:
        op.ended = status
        return _end_shard(order, op)
    return status


cdef int _end_shard(Order* order, Op* op) noexcept nogil:
    cdef Op* source = &order.ops[0]
    cdef int64_t phase = op.done % op.size
    cdef int32_t r
    cdef Element* e
    cdef Run run
    if op.held.rows > 0:  # of a group that didn't become whole, or of an element that didn't
        order.dropped += op.held.rows
        _element_drop(order, op.up, &op.held)
    if op.ended == PULL_FAULT or phase == 0:
        return op.ended
    if op.uneven == UNEVEN_RAISE:
        op.ended = PULL_FAULT
        memset(&order.fault, 0, sizeof(Fault))
        order.fault.code = CODE_INVALID_ARGUMENT
        order.fault.what = WHAT_UNEVEN
        order.fault.stage = STAGE_ORDER
        order.fault.file = order.fault.offset = order.fault.record = -1
        order.fault.a = op.done
        order.fault.b = op.size
        order.faulted = True
    elif op.uneven == UNEVEN_PAD and op.index >= phase:
        e = &op.first[(op.index - phase) % op.done]
        for r in range(e.count):
            run = e.runs[r]
            _again(&run)
            # It may be one that can't be read, which the shard it belongs to has met before.
            if source.cut_pass >= 0 and _behind(run.pass_, run.ordinal + run.n - 1, source.cut_pass, source.cut_ordinal):
                order.fault = order.cut_fault
                order.faulted = True
                op.ended = PULL_FAULT
                return PULL_FAULT
            if op.missing_count > 0 and _left_out(op.missing, op.missing_count, run.pass_, run.ordinal):
                return op.ended
        for r in range(e.count):
            run = e.runs[r]
            _again(&run)
            if not _element_append(&op.held, &run):
                return PULL_NO_MEMORY
        op.held.subs = e.subs
        op.giving = True
        return PULL_OK
    return op.ended


cdef void _restart_shard(Op* op) noexcept nogil:
    cdef int64_t i
    for i in range(op.firsts):
        _element_clear(&op.first[i])
    op.firsts = 0


cdef int64_t _advance_shard(Order* order, Op* op, int64_t n, int64_t unit) noexcept nogil:
    cdef int64_t a, before
    if (n <= 0 or op.giving or op.ended != PULL_OK or op.open_rows != 0 or op.held.rows > 0 or op.missing_count > 0
            or n > (<int64_t>1 << 62) // op.size or unit > (<int64_t>1 << 62) // op.size):
        return 0
    if op.first != NULL and op.done < op.size:  # they are to be noted
        return 0
    if op.whole or unit > 1:  # so many whole turns
        a = _advance(order, op.up, n * op.size, unit * op.size)
        op.done += a
        return a // op.size
    before = _own(op)
    a = (op.index - op.done % op.size + op.size) % op.size + (n - 1) * op.size + 1
    op.done += _advance(order, op.up, a, 1)
    return _own(op) - before


cdef inline int64_t _shard_of(const Op* op, int64_t n) noexcept nogil:
    # Elements of this shard, of n.
    if op.uneven == UNEVEN_KEEP:
        return (n + op.size - 1 - op.index) // op.size
    if op.uneven == UNEVEN_PAD:
        return (n + op.size - 1) // op.size
    return n // op.size


# Permutations

cdef int64_t _count_places(Order* order, Op* op, int* status) noexcept nogil:
    # Elements of one pass, or -1: not known yet. *status: what comes after them. Notes what _locate needs.
    cdef int64_t cut, n
    cdef RecordBlock* block
    op.passes = 1
    if op.kind == OP_SOURCE:
        cut = op.cut_pass  # where the source is cut changes what is given, not how it is numbered
        op.cut_pass = -1
        n = _source_end(order, op, &block, status)
        op.cut_pass = cut
        op.count = -1 if status[0] == PULL_WAIT else n
        return op.count
    n = _count_places(order, op.up, status)
    op.passes = op.up.passes
    if n < 0:
        return -1
    if op.kind == OP_TAKE:
        if op.size >= 0 and op.size <= n:
            n = op.size
            status[0] = PULL_END
    elif op.kind == OP_SKIP:
        n = 0 if op.size < 0 or n < op.size else n - op.size
    elif op.kind == OP_REPEAT:
        if op.size == 0:
            n = 0
            status[0] = PULL_END
        elif status[0] == PULL_END and n > 0:
            n = n * op.size if n <= (<int64_t>1 << 62) // op.size else <int64_t>1 << 62
            op.passes *= op.size
    elif op.kind == OP_SHARD:
        n = (n + op.size - 1 - op.index) // op.size if status[0] == PULL_FAULT and not op.whole else _shard_of(op, n)
    op.count = n
    return n


cdef void _locate(const Op* op, int64_t k, Run* run) noexcept nogil:
    # Where the k-th element of an operator is: its record, and the pass, counted from where the source stands.
    run.pass_ = 0
    while op.kind != OP_SOURCE:
        if op.kind == OP_SKIP:
            k += op.size
        elif op.kind == OP_SHARD:
            k = (k * op.size + op.index) % op.up.count
        elif op.kind == OP_REPEAT:
            run.pass_ += k // op.up.count * op.up.passes
            k %= op.up.count
        op = op.up
    run.ordinal = k


cdef void _key(Op* op, uint64_t seed_lo, uint64_t seed_hi, int64_t iteration) noexcept nogil:
    # Prepares the permutation of op.count numbers: sides a and b with a * b just above it.
    cdef uint32_t draws[4]
    cdef int64_t a = 2
    cdef uint64_t root = 0, bit = <uint64_t>1 << 31
    while bit > 0:
        if (root | bit) * (root | bit) <= <uint64_t>op.count:
            root |= bit
        bit >>= 1
    if root > 2:  # even: with two odd sides only even permutations would come out
        a = <int64_t>(root + (root & 1))
    op.sides[0] = a
    op.sides[1] = (op.count + a - 1) // a if op.count > 0 else 1
    philox_block(seed_lo, <uint64_t>iteration, seed_hi, draws)
    op.key[0] = <uint64_t>draws[1] << 32 | draws[0]
    op.key[1] = <uint64_t>draws[3] << 32 | draws[2]
    op.rounds = 8 if op.count >= 4096 else 16  # few numbers are mixed more slowly, and cost little


cdef int64_t _permuted(const Op* op, int64_t k) noexcept nogil:
    cdef uint32_t draws[4]
    cdef int64_t half[2]
    cdef int32_t j, side
    while True:  # ends: k itself lies below the count and on the cycle that is followed. Mostly after one step, b * a being just above
        half[0] = k % op.sides[0]
        half[1] = k // op.sides[0]
        for j in range(op.rounds):
            side = j & 1
            philox_block(op.key[0], <uint64_t>half[1 - side], op.key[1] + <uint64_t>j, draws)
            half[side] = <int64_t>((<uint64_t>half[side] + (<uint64_t>draws[1] << 31 | draws[0] >> 1)) % <uint64_t>op.sides[side])
        k = half[1] * op.sides[0] + half[0]
        if k < op.count:
            return k


cdef int _begin_permute(Order* order, Op* op) noexcept nogil:
    # An iteration begins: with the count, hence not before all files are known.
    cdef Shuffle* s = op.shuffle
    cdef int status = PULL_OK
    if s.seeded:
        return PULL_OK
    op.count = _count_places(order, op.up, &status)
    if op.count < 0:
        return PULL_WAIT
    op.passes = op.up.passes
    op.finish = status
    _key(op, s.seed_lo, s.seed_hi, s.iteration + 1 if s.reshuffle else 0)
    s.seeded = True
    s.begun += 1
    s.entered_pass = order.ops[0].pass_
    s.entered_end = order.ops[0].count
    return PULL_OK


cdef int _pull_permute(Order* order, Op* op, int64_t max_rows, RunList* out) noexcept nogil:
    cdef Op* source = &order.ops[0]
    cdef Shuffle* s = op.shuffle
    cdef int64_t given = 0, tried = 0
    cdef Run run
    cdef int status = _begin_permute(order, op)
    if status != PULL_OK:
        return status
    if source.cut_pass >= 0 and (op.drop or source.pass_ > source.cut_pass):
        op.ended = PULL_FAULT
    while given < max_rows and tried < SCRATCH_RUNS and op.done < op.count and op.ended == PULL_OK:
        _locate(op.up, _permuted(op, op.done), &run)
        run.pass_ += source.pass_
        if run.pass_ == source.cut_pass and run.ordinal == source.cut_ordinal:  # here, in this order, it can't be read
            op.ended = PULL_FAULT
            break
        op.done += 1
        tried += 1
        if not (s.missing_count > 0 and _left_out(s.missing, s.missing_count, run.pass_, run.ordinal)):
            _append(out, run.ordinal, run.pass_, 1, NULL, 0, 0)
            given += 1
    if tried > 0:
        return PULL_OK
    if op.ended == PULL_FAULT:
        order.fault = order.cut_fault
    elif op.finish == PULL_FAULT:
        table_fault(order.table, source.bad_file, &order.fault)
    else:
        return PULL_END
    order.faulted = True
    return PULL_FAULT


cdef int64_t _advance_permute(Order* order, Op* op, int64_t n, int64_t unit) noexcept nogil:
    cdef int64_t a
    if n <= 0 or order.ops[0].cut_pass >= 0 or op.shuffle.missing_count > 0 or _begin_permute(order, op) != PULL_OK:
        return 0
    a = n if n < op.count - op.done else op.count - op.done
    a -= a % unit
    op.done += a
    return a


# A new pass

cdef void _element_drop(Order* order, const Op* op, Element* e) noexcept nogil:
    # What nobody will be given of it.
    cdef Run rest
    while e.given < e.count:
        rest = e.runs[e.given]
        _run_from(&rest, e.offset)
        _discard_run(order, op, &rest)
        e.offset = 0
        e.given += 1
    _element_clear(e)


cdef void _scratch_settle(Shuffle* s) noexcept nogil:
    # What has entered of the next run is no more of it.
    cdef Run* run
    if s.scratch_offset > 0 and s.scratch_at < s.scratch.count:
        run = &s.scratch.runs[s.scratch_at]
        _run_from(run, s.scratch_offset)
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
    _restart_shard(op)
    if op.kind == OP_PERMUTE:  # the source wasn't pulled, so it stands before all passes of this one
        order.ops[0].pass_ += op.passes - 1
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
    cdef RecordBlock* block
    cdef int64_t n
    if op.kind == OP_SOURCE:
        if op.cut_pass >= 0 or (order.missing_count > 0 and order.pass_good < 0):
            return -1
        if order.pass_good >= 0:
            return order.pass_good
        if order.blocks != NULL:
            return -1
        n = _source_end(order, op, &block, &status)
        return n if status == PULL_END else -1
    if op.kind == OP_PERMUTE:
        n = _count_places(order, op.up, &status)
        op.passes = op.up.passes
        return -1 if status != PULL_END or op.shuffle.missing_count > 0 or order.ops[0].cut_pass >= 0 else n
    if op.kind == OP_REPEAT:
        return -1
    n = _elements(order, op.up)
    if op.kind == OP_SHARD:
        return -1 if n < 0 or op.missing_count > 0 or (op.uneven == UNEVEN_RAISE and n % op.size != 0) else _shard_of(op, n)
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
    _jump(op.up, passes * op.passes if op.kind == OP_PERMUTE else passes)


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
        a = _source_end(order, op, &block, &status) - op.position
        a = 0 if a < 0 else (a if a < n else n)
        a -= a % unit
        if a > 0:
            _source_take(order, op, block, a)
            if block != NULL:
                blocks_leave(order.blocks, block, block.given - a, a)
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
    if op.kind == OP_SHARD:
        return _advance_shard(order, op, n, unit)
    if op.kind == OP_PERMUTE:
        return _advance_permute(order, op, n, unit)
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


cdef bint _shuffle_init(Op* op, const OpSpec* spec, int64_t ahead) noexcept nogil:
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
    s.records = <Kept*>map_pages(s.capacity * sizeof(Kept))
    if ahead > 0:
        s.ahead = <uint32_t*>malloc(s.ahead_room * sizeof(uint32_t))
        s.ahead_loaded = <uint8_t*>malloc(s.ahead_room)
        if s.ahead == NULL or s.ahead_loaded == NULL:
            return False
    return s.records != NULL


cdef Order* order_new(FileTable* table, Blocks* blocks, bint skip_files, const Start* start, const Missing* missing, int64_t missing_count,
                      const OpSpec* specs, int32_t count, int64_t store_ahead) noexcept nogil:
    cdef Order* order = <Order*>calloc(1, sizeof(Order))
    cdef Op* op
    cdef int32_t i, k, shuffles = 0
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
    order.ops[0].one_run = True
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
        if op.kind == OP_TAKE or op.kind == OP_SKIP or op.kind == OP_REPEAT:
            op.one_run = op.up.one_run
            op.jumps = op.up.jumps
        op.jumps = op.jumps or op.kind == OP_PERMUTE
        if op.kind == OP_SHARD:
            op.index = specs[i - 1].index
            op.uneven = specs[i - 1].uneven
            op.whole = op.size > 1 and (op.uneven == UNEVEN_DROP or op.uneven == UNEVEN_RAISE)
            if op.uneven == UNEVEN_PAD and op.size > 1:
                op.first = <Element*>calloc(op.size, sizeof(Element))
                if op.first == NULL:
                    order_free(order)
                    return NULL
        elif op.kind == OP_PERMUTE:
            order.needs_count = True
        elif op.kind == OP_SHUFFLE and i > 1:
            for k in range(1, i):
                if order.ops[k].kind == OP_PERMUTE:
                    order.ops[k].drop = True
        if op.kind == OP_SKIP or op.kind == OP_SHARD or op.whole:
            if not _list_init(&op.scratch):
                order_free(order)
                return NULL
        elif op.kind == OP_SHUFFLE or op.kind == OP_PERMUTE:
            if op.rows > 1:
                op.kind = OP_SHUFFLE_ELEMENTS
            # A row stays in the store until it is read, so nothing above may keep rows back.
            if not _shuffle_init(op, &specs[i - 1], store_ahead if shuffles == 1 and op.rows == 1 else 0):
                order_free(order)
                return NULL
            if order.bottom_shuffle == NULL:
                order.bottom_shuffle = op
        op.gives_ids = op.up.gives_ids or (op.shuffle != NULL and op.shuffle.stored)
    order.top = &order.ops[count]
    for i in range(count, 0, -1):
        op = &order.ops[i]
        if op.kind == OP_SHARD and op.rows == 1 and op.size > 1:
            op.missing = missing
            op.missing_count = missing_count
            order.missing_count = 0
            break
        if op.kind == OP_SHUFFLE or op.kind == OP_PERMUTE:
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
        if op.first != NULL:
            for k in range(op.size):
                free(op.first[k].runs)
            free(op.first)
        s = op.shuffle
        if s != NULL:
            if s.elements != NULL:
                for k in range(s.fresh):
                    free(s.elements[k].runs)
            unmap_pages(s.elements, s.capacity * sizeof(Element))
            unmap_pages(s.ring, op.size * sizeof(uint32_t))
            unmap_pages(s.free_ids, s.capacity * sizeof(uint32_t))
            unmap_pages(s.records, s.capacity * sizeof(Kept))
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
    cdef Run* run
    cdef int status
    # Not even a restart before the survivors are loaded: it would give their rows away while they are on their way in.
    if order.bottom_shuffle != NULL and order.bottom_shuffle.shuffle.survivors_loaded < order.bottom_shuffle.shuffle.survivors_count:
        return PULL_WAIT
    status = _pull(order, order.top, max_rows, out)
    while i < out.count:
        run = &out.runs[i]
        if run.block != NULL and run.n > had:
            blocks_out(order.blocks, run.block, run.first + had, run.n - had)
            if run.block.moved != NULL:  # never of a run that grew: nothing is moved meanwhile
                run.block = run.block.moved
        had = 0
        i += 1
    if status == PULL_END and order.ops[0].cut_pass >= 0:
        # A cut is made for a record that was given. What had gone past it by then, a shuffle's window above all, doesn't know of it.
        order.fault = order.cut_fault
        order.faulted = True
        return PULL_FAULT
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
            blocks_leave(order.blocks, run.block, run.first + run.n, n - run.n)
        if run.n > 0:
            runs[kept] = run
            kept += 1
    return kept


cdef void _trim_element(Order* order, Element* e) noexcept nogil:
    cdef int32_t k
    if e.given < e.count:
        _run_from(&e.runs[e.given], e.offset)
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
        elif _behind(s.records[id].pass_, s.records[id].ordinal, cut_pass, cut_ordinal):
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
        s.survivors[i].ordinal = s.records[id].ordinal
        s.survivors[i].pass_ = s.records[id].pass_
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
            _append(out, run.ordinal, run.pass_, 1, NULL, 0, 0)
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
        s.records[id].ordinal = run.ordinal + s.scratch_offset
        s.records[id].pass_ = run.pass_
        s.ahead[s.ahead_in % s.ahead_room] = <uint32_t>id
        s.ahead_loaded[s.ahead_in % s.ahead_room] = 0
        _append(out, s.records[id].ordinal, run.pass_, 1, NULL, 0, 0)
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


def permutation(uint64_t seed_lo, uint64_t seed_hi, int64_t iteration, int64_t count, int64_t start, int64_t stop):
    """Places `start` to `stop` of the permutation of `count` numbers that these seeds give, as a list of int."""
    cdef Op op
    memset(&op, 0, sizeof(Op))
    if not 0 <= start <= stop <= count <= <int64_t>1 << 62:
        raise ValueError("0 <= start <= stop <= count <= 2**62")
    op.count = count
    _key(&op, seed_lo, seed_hi, iteration)
    return [_permuted(&op, k) for k in range(start, stop)]


def permute(uint64_t seed_lo, uint64_t seed_hi, int64_t iteration, int64_t count, int64_t start, int64_t[::1] out not None):
    """Fill `out` with places from `start` on of the permutation of `count` numbers that these seeds give, without the GIL."""
    cdef Op op
    cdef int64_t k, n = out.shape[0]
    cdef int64_t* places = &out[0] if n > 0 else NULL
    memset(&op, 0, sizeof(Op))
    if not 0 <= start <= count <= <int64_t>1 << 62 or n > count - start:
        raise ValueError("0 <= start <= start + len(out) <= count <= 2**62")
    op.count = count
    with nogil:
        _key(&op, seed_lo, seed_hi, iteration)
        for k in range(n):
            places[k] = _permuted(&op, start + k)
