"""Claims: the work that is done under the turn."""
from libc.stddef cimport size_t
from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t
from libc.string cimport memcmp, memcpy, memset
from queuecore._core.atoms.errors cimport CODE_RESUME, WHAT_FEWER, WHAT_NO_ERROR
from queuecore._core.atoms.process cimport check_layout
from queuecore._core.io.blocks cimport (
    Blocks, Lane, Place, RecordBlock, blocks_claim, blocks_claim_moving, blocks_done, blocks_enough,
    blocks_full, blocks_moved, blocks_next_to_index, blocks_publish, blocks_retire, blocks_wanted)
from queuecore._core.io.handed cimport handed_lost
from queuecore._core.io.lanes cimport lanes_entered, lanes_next_file, lanes_save, lanes_saved
from queuecore._core.io.pieces cimport blocks_index
from queuecore._core.stream.limits cimport (
    DISCOVER_AHEAD, DISCOVER_ASKED, DISCOVER_REMOTE, FIRST_ROWS, MADE_BYTES, SMALL_UNIT_BYTES)
from queuecore._core.stream.marks cimport CUT_FAULT, CUT_LOST, CUT_NONE, CUT_SEAM
from queuecore._core.order.order cimport order_forward, order_pull, order_pull_owed
from queuecore._core.order.op cimport (
    LEVEL_HANDED, LEVEL_SEAM, PULL_BREAK, PULL_END, PULL_FAULT, PULL_NO_MEMORY, PULL_OK, PULL_WAIT, Broken, Op, Order,
    SourcePosition, op_refuse, order_owes)
from queuecore._core.order.runs cimport Run, RunList
from queuecore._core.order.store cimport order_begin, order_loaded, order_plan_load, order_release, order_room
from queuecore._core.atoms.parking cimport event_has_waiters, event_notify, event_notify_all, turn_give, turn_take
from queuecore._core.io.engine cimport engine_full
from queuecore._core.stream.pipe cimport (
    BATCH_BREAK, BATCH_OWED, NOT_ASKED, OWED_SUBS, SETTLE_ASKED, SETTLE_DONE, SETTLE_RUNS, UNIT_DISCOVER, UNIT_LOAD,
    UNIT_MOVE, UNIT_PIECE, UNIT_ROWS, Config, Pipe, Segment, Unit, is_fed, pipe_complete, pipe_memory, pipe_no_memory,
    pipe_over_budget)
from queuecore._core.atoms.platform cimport Batch, Fault, kRelaxed, layout_hash, size_product, size_sum
from queuecore._core.stream.maker cimport Output
from queuecore._core.atoms.runtime cimport stop_requested
from queuecore._core.atoms.slab cimport slab_slot, slots_pop
from queuecore._core.io.names cimport MOST_FILES
from queuecore._core.io.sources cimport table_claim, table_is_remote
from queuecore._core.atoms.window cimport (
    window_batch, window_finish, window_has_room, window_less, window_open, window_publish)

check_layout(layout_hash())


# Batches

cdef void _slot_ready(Pipe* p, uint32_t slot) noexcept nogil:
    # Prepares the slot of a batch that is opened: sets the first end of each output of varying length to 0. Under the
    # turn.
    cdef const Output* out
    cdef int32_t i
    for i in range(p.plan.maker.count):
        out = &p.plan.maker.outputs[i]
        if out.item > 0:
            (<int64_t*>(slab_slot(p.slab, slot) + out.slot_offset))[0] = 0
    if slot >= p.shared.touched.load(kRelaxed):  # relaxed, both: a statistic, which the turn's holder alone writes
        p.shared.touched.store(slot + 1, kRelaxed)


cdef void _mark_lanes(Pipe* p, Batch* b, uint64_t k) noexcept nogil:
    # Notes the places of interleaved files. Under a shuffle, the places are those of an earlier moment: when the oldest
    # block of which the shuffle still has records came to it.
    cdef Blocks* s = p.blocks
    cdef const SourcePosition* source = &p.order.at
    cdef int64_t n = lanes_saved(s.plan.cycle)
    cdef int64_t* saved = p.lane_marks + <int64_t>(k & p.window.mask) * (n + 1)
    cdef const int64_t* entered
    if p.order.bottom_shuffle != NULL and s.oldest != NULL:
        entered = lanes_entered(s.oldest)
        b.mark_pass = entered[0]
        b.mark_end = b.mark_good = entered[1]
        memcpy(saved, entered + 2, (n + 1) * sizeof(int64_t))
    else:
        b.mark_pass = source.pass_
        b.mark_end = source.position
        b.mark_good = source.given if p.order.bottom_shuffle == NULL else source.position
        lanes_save(s, saved)
        saved[n] = s.skipped_count
    memset(b.mark_place, 0, sizeof(Place))
    b.mark_files = lanes_next_file(s) if source.pass_ == 0 else -1


cdef void _mark_oldest(Pipe* p, Batch* b) noexcept nogil:
    # A shuffle may keep any record for long: so a new run begins with the oldest block that has records in it. A
    # shuffle lets bad records in, so all records before the mark count as good.
    cdef const Blocks* s = p.blocks
    cdef const Broken* broken = &p.order.broken
    # the error has left the source, and comes behind this batch
    if s.oldest == NULL and p.order.interrupted == PULL_BREAK:
        b.mark_pass = broken.pass_
        b.mark_end = broken.ordinal
        memcpy(b.mark_place, &broken.place, sizeof(Place))
        (<Place*>b.mark_place).base -= 1
    elif s.oldest != NULL:
        b.mark_pass = s.oldest.pass_
        b.mark_end = s.oldest.place.base
        memcpy(b.mark_place, &s.oldest.place, sizeof(Place))
    else:
        b.mark_pass = s.given_pass
        b.mark_end = s.given_until
        memcpy(b.mark_place, &s.given_place, sizeof(Place))
    b.mark_good = b.mark_end


cdef int32_t _cut(Pipe* p, const Batch* b, int64_t* seam) noexcept nogil:
    # Returns the CUT_* of the batch that closes now, and fills in its seam: where an order without the error has to go
    # on.
    cdef Order* order = p.order
    cdef int32_t i, lost = CUT_LOST if order.cut_pass >= 0 else CUT_FAULT
    for i in range(order.count):
        if order.ops[i].shuffle != NULL and order.ops[i].shuffle.cut:
            return lost
    if handed_lost(p.blocks):
        return CUT_FAULT
    if b.rows == 0 or order.interrupted == PULL_OK or order.top.rows == 1:  # no rows: a break, which cuts nothing short
        return CUT_NONE
    if order.interrupted == PULL_FAULT and order.needs_count:
        return CUT_LOST
    if order.interrupted == PULL_FAULT and order.bottom_shuffle != NULL:
        return lost if order.stored == NULL else CUT_NONE  # a store reads ahead: only what it reads has met the fault
    # Interleaved files are marked behind the rows that the fault has dropped.
    if order.interrupted == PULL_FAULT and order.top.whole_batches and p.blocks != NULL and p.plan.blocks.cycle > 1:
        return CUT_LOST
    if order.bottom_shuffle != NULL:
        seam[0], seam[1], seam[2] = order.broken.pass_, order.broken.ordinal, order.broken.good
    else:
        seam[0], seam[1], seam[2] = b.mark_pass, b.mark_end, b.mark_good
    return CUT_SEAM


cdef void _close_batch(Pipe* p) noexcept nogil:
    cdef Batch* b = p.open
    cdef uint64_t k = p.next_batch - 1
    cdef Op* op = p.order.bottom_shuffle
    cdef int64_t i, position = 0
    if p.blocks != NULL and p.plan.blocks.cycle > 1:
        _mark_lanes(p, b, k)
    elif op != NULL and p.blocks != NULL:
        _mark_oldest(p, b)
    elif op != NULL:
        b.mark_pass = op.shuffle.entered_pass
        b.mark_end = op.shuffle.entered_end
    if p.blocks != NULL and p.plan.blocks.cycle == 1:
        b.mark_files = p.blocks.given_place.file + 1 if p.blocks.given_pass == 0 else -1
    for i in range(p.order.count):
        if p.order.ops[i].shuffle != NULL:
            p.window.iterations[<int64_t>(k & p.window.mask) * p.order.count + position] = p.order.ops[i].shuffle.begun
            position += 1
    b.cut = _cut(p, b, b.seam)
    p.open = NULL
    p.closed += 1 if p.plan.config.batched else b.rows
    if not window_less(b, p.plan.config.batch_rows - b.rows + 1):
        return
    if b.parts == NULL and p.plan.maker.pad_count == 0:
        window_publish(p.window, b, k)
    else:  # completing copies bytes, which is not done under the turn
        p.whole[p.whole_count] = k
        p.whole_count += 1


cdef void _break_batch(Pipe* p) noexcept nogil:
    # Turns the open descriptor, which is empty, into the error of an element.
    cdef Batch* b = p.open
    cdef const Broken* broken = &p.order.broken
    b.failed.store(BATCH_BREAK, kRelaxed)  # relaxed: published to the consumer by B3 in window.pxd
    b.fault_pass = broken.pass_
    b.fault_ordinal = broken.ordinal
    b.fault_row = broken.level
    b.fault = broken.fault
    b.mark_pass = broken.pass_
    b.mark_end = broken.ordinal + 1
    b.mark_good = broken.good
    memcpy(b.mark_place, &broken.place, sizeof(Place))
    p.breaking = False
    if broken.level == LEVEL_HANDED:  # it is out of the order
        p.order.interrupted = PULL_OK
    _close_batch(p)


cdef void _finish_order(Pipe* p, int status) noexcept nogil:
    # Ends planning, since the order has no more rows: closes the open batch as it stands, and sets the window's end.
    cdef uint64_t end = p.next_batch
    p.end_status = status
    if status == PULL_FAULT:
        p.end_fault = p.order.fault
    if p.open != NULL:
        if p.open.rows == 0:  # the batch doesn't count; its slot stays with this run
            end -= 1
            p.open = NULL
        else:
            _close_batch(p)
    window_finish(p.window, end)


cdef bint _has_room(Pipe* p) noexcept nogil:
    # True if one more batch may be begun.
    cdef const Config* c = &p.plan.config
    cdef int64_t rows, ahead, largest
    if not window_has_room(p.window, p.next_batch):
        return False
    # With a budget, the first batch of varying length is alone in flight until it shows how large batches are.
    ahead = <int64_t>(p.next_batch - p.window.consumed.load(kRelaxed))  # relaxed: one batch more or less
    # Batches whose records come from the storage don't keep others waiting.
    if ahead >= c.near_width + (p.asked * c.unit_rows + c.batch_rows - 1) // c.batch_rows:
        return False
    if c.budget > 0 and p.plan.maker.vars > 0 and ahead > 0:
        # Each batch in flight may become as large as the largest before it, twice while its parts are joined; blocks
        # may take memory_most.
        largest = p.shared.largest.load(kRelaxed)
        ahead = (2 * (ahead + 1) + p.shared.leases.load(kRelaxed)) * largest - p.shared.grown.load(kRelaxed)
        if p.blocks != NULL and p.plan.blocks.memory_most > p.shared.blocks.load(kRelaxed):
            ahead = (ahead if ahead > 0 else 0) + p.plan.blocks.memory_most - p.shared.blocks.load(kRelaxed)
        if largest == 0 or pipe_memory(p) + (ahead if ahead > 0
                                             else 0) + largest > c.budget - c.budget // 4:
            return False
    if p.blocks == NULL or p.blocks.records == 0:
        return True
    # As many batches ahead as keep all workers busy, now that the size of records is known.
    rows = SMALL_UNIT_BYTES * p.blocks.records // (p.blocks.nbytes + 1) + 1
    if rows > c.unit_rows:
        rows = c.unit_rows
    ahead = ((2 * (c.threads + c.help) + 4) * rows + c.batch_rows - 1) // c.batch_rows + 1
    if ahead < c.prefetch + 1:
        ahead = c.prefetch + 1
    # relaxed: one batch more or less
    return <int64_t>(p.next_batch - p.window.consumed.load(kRelaxed)) < ahead + c.buffers


cdef bint _open_batch(Pipe* p) noexcept nogil:
    # Opens the next batch. False: there is no room for it.
    cdef uint32_t slot
    p.full = not _has_room(p) or not slots_pop(&p.slab.stack, &slot)
    if p.full:
        return False
    _slot_ready(p, slot)
    window_open(p.window, p.next_batch, slot, p.plan.config.batch_rows)
    p.open = window_batch(p.window, p.next_batch)
    p.open_bytes = 0
    p.next_batch += 1
    p.shared.planned.store(p.next_batch, kRelaxed)  # relaxed: a hint
    return True


cdef inline int64_t _mark_end(Pipe* p, Batch* b, const Run* last) noexcept nogil:
    # Notes that the batch ends with this run for now. Returns an estimate of the bytes of one of the run's records, 0
    # outside blocks.
    cdef const RecordBlock* block = last.block
    if p.order.bottom_shuffle == NULL:
        b.mark_pass = last.pass_
        b.mark_end = last.ordinal + last.n
        b.mark_good = last.good + last.n
    if block == NULL:
        return 0
    if p.order.bottom_shuffle == NULL:
        memcpy(b.mark_place, &block.place, sizeof(Place))
    return block.used // block.count


cdef inline int64_t _full_rows(const Pipe* p) noexcept nogil:
    # Returns how many rows fill a unit: few, if a step makes elements of any size, at first and where those are large.
    if p.plan.config.batched or p.plan.maker.vars == 0 or p.plan.maker.run == NULL:
        return p.ramp_rows
    if p.made_rows == 0:
        return min(p.ramp_rows, <int64_t>FIRST_ROWS)
    return max(min(p.ramp_rows, MADE_BYTES * p.made_rows // (p.made_bytes + 1)), <int64_t>1)


cdef bint _worth_it(Pipe* p) noexcept nogil:
    # True if enough records are there for a unit that makes a whole batch, or if waiting for more would be wrong.
    cdef Blocks* s = p.blocks
    cdef int64_t rows = p.plan.config.batch_rows, limit
    # It is unknown when more rows are handed in: they are not waited for.
    if s.records == 0 or (s.lanes.beside == NULL and s.lanes.scanned) or not s.kind.reads or blocks_full(s):
        return True
    if p.open != NULL:
        rows -= p.open.rows
    limit = p.plan.config.unit_bytes * s.records // (s.nbytes + 1) + 1
    return blocks_enough(s, min(rows, limit, _full_rows(p)))


cdef void _order_without_memory(Pipe* p) noexcept nogil:
    # Ends the run under the turn: the order's state is wrong after lack of memory, so it is not asked again.
    p.end_status = PULL_NO_MEMORY
    pipe_no_memory(p)


cdef int _pull(Pipe* p, Batch* b, int64_t max_rows, RunList* out) noexcept nogil:
    # Pulls records for the open batch. Owed ones come in a batch of their own, before what follows them.
    out.closed = False
    if order_owes(p.order) and (b.rows == 0 or b.subs == OWED_SUBS):
        b.subs = OWED_SUBS
        # relaxed: published by the turn to workers, and to the consumer by B3 in window.pxd
        b.failed.store(BATCH_OWED, kRelaxed)
        order_pull_owed(p.order, max_rows, out)
        return PULL_OK
    return order_pull(p.order, max_rows, out) if p.owed_status == PULL_OK else p.owed_status


cdef inline bint _is_whole(const Pipe* p, const Batch* b, const RunList* list_, int status,
                           const Unit* u) noexcept nogil:
    # Returns whether the open batch ends with what was pulled last, by the unit.
    if b.subs == OWED_SUBS:
        return list_.closed or b.rows == p.plan.config.batch_rows
    if p.plan.config.batched and p.order.top.rows > 1:
        return list_.closed and b.rows > 0
    if b.rows == p.plan.config.batch_rows or p.plan.config.batched:
        return b.rows == p.plan.config.batch_rows
    # Elements that are records share a chunk. It closes, too, when its next row is not handed in yet, or its file may
    # not be listed yet; and, if values vary in length, when the unit is full, or units that were not have made as much:
    # values of several units are copied again, and hundreds of them may be long.
    return b.rows > 0 and (status == PULL_WAIT and (is_fed(p.plan) or p.table.files.load(kRelaxed) == MOST_FILES)
                           or p.plan.maker.vars > 0 and (max(u.nbytes, p.open_bytes) >= p.plan.config.unit_bytes
                                                         or max(u.rows, b.rows) >= _full_rows(p)))


cdef bint _plan_rows(Pipe* p, Unit* u, bint anyway) noexcept nogil:
    # Plans rows for a unit. False: none can be planned now, or, unless `anyway`, not enough.
    cdef Segment* s = NULL
    cdef RunList* list_
    cdef Batch* b
    cdef int64_t old_rows, limit, run_count = 0, nbytes, full_rows = _full_rows(p)
    cdef bint is_over
    cdef int status
    if p.plan.maker.vars > 0 and p.blocks != NULL and not anyway and not _worth_it(p):
        return False
    u.kind = UNIT_ROWS
    u.segment_count = 0
    u.segment_at = 0
    u.rows = 0
    u.nbytes = u.made_bytes = 0
    while (u.rows < full_rows and u.segment_count < p.plan.config.unit_segments and p.end_status == PULL_OK
           and u.nbytes < p.plan.config.unit_bytes):
        if p.open == NULL:
            # Values of varying length are copied again if several units make a batch: this unit ends if the next batch
            # might not fit in it.
            if u.nbytes > 0 and p.plan.maker.vars > 0 and <size_t>p.plan.config.unit_bytes < size_sum(u.nbytes,
                    size_product(u.nbytes, p.plan.config.batch_rows) // u.rows):
                break
            if not _open_batch(p):
                break
            s = NULL
        if p.breaking and not order_owes(p.order):
            _break_batch(p)
            continue
        b = p.open
        if s == NULL:
            s = &u.segments[u.segment_count]
            s.batch = b
            s.k = p.next_batch - 1
            s.row = b.rows
            memset(&s.runs, 0, sizeof(RunList))
            s.runs.runs = u.runs.runs + run_count
        list_ = &s.runs
        limit = p.plan.config.batch_rows - b.rows
        if limit > full_rows - u.rows:
            limit = full_rows - u.rows
        old_rows = list_.rows
        status = _pull(p, b, limit, list_)
        if list_.rows > old_rows:
            if old_rows == 0:
                u.segment_count += 1
            b.rows += list_.rows - old_rows
            u.rows += list_.rows - old_rows
            nbytes = (list_.rows - old_rows) * _mark_end(p, b, &list_.runs[list_.count - 1])
            u.nbytes += nbytes
            p.open_bytes += nbytes
        is_over = status == PULL_END or status == PULL_FAULT
        if status == PULL_BREAK:
            p.breaking = p.order.broken.level != LEVEL_SEAM
        elif is_over and order_owes(p.order):
            p.owed_status = status
        # Before a break, and before records that are owed, the open batch closes.
        if _is_whole(p, b, list_, status, u) or (b.rows > 0 and (status == PULL_BREAK or p.owed_status != PULL_OK)):
            if b.subs != OWED_SUBS:
                b.subs = list_.subs
            run_count += list_.count
            s = NULL
            _close_batch(p)
        if is_over and not order_owes(p.order):
            _finish_order(p, status)
        elif status == PULL_NO_MEMORY:
            _order_without_memory(p)
            break
        elif status == PULL_WAIT:
            break
    # The first units are small, so that the first batch doesn't wait for rows of later ones.
    if u.rows > 0 and p.ramp_rows < p.plan.config.unit_rows:
        p.ramp_rows = 2 * p.ramp_rows if 2 * p.ramp_rows < p.plan.config.unit_rows else p.plan.config.unit_rows
    return u.segment_count > 0


# The start of a run, and the store

cdef bint _reordered(const Order* order) noexcept nogil:
    # Returns whether a fault that is no cut has ended the input of a shuffle.
    cdef int32_t i
    if not order.faulted or (order.cut_pass >= 0 and memcmp(&order.fault, &order.cut_fault, sizeof(Fault)) == 0):
        return False
    if (order.cut_fault.what == WHAT_NO_ERROR and order.at.pass_ == order.cut_pass
        and order.at.position == order.cut_ordinal):
        return False  # it is the error that is to come again
    for i in range(order.count):
        if order.ops[i].shuffle != NULL and order.ops[i].shuffle.cut:
            return True
    return False


cdef void _forward(Pipe* p) noexcept nogil:
    # Brings the order program to the start of this run, a piece at a time.
    cdef Order* order = p.order
    cdef int status = PULL_OK
    if order.skip_left > 0 or order.skip_breaks > 0:
        status = order_forward(order, 65536)
        if status == PULL_NO_MEMORY:
            _order_without_memory(p)
            return
    if status == PULL_BREAK:  # an element before the place was none, and is an error now
        order.fault = order.broken.fault
        p.begun = True
        _finish_order(p, PULL_FAULT)
        return
    if status == PULL_END and order.skip_left > 0:
        status = op_refuse(order, WHAT_FEWER, order.skip_left, 0, CODE_RESUME)
        p.begun = True
        _finish_order(p, PULL_FAULT)
        return
    if (order.skip_left > 0 or order.skip_breaks > 0) and status != PULL_END and status != PULL_FAULT:
        return
    if _reordered(order):  # the elements before the place came without that fault, in another order
        p.begun = True
        _finish_order(p, PULL_FAULT)
        return
    if not order_begin(order):
        _order_without_memory(p)
    p.begun = True


cdef bint _plan_load(Pipe* p, Unit* u) noexcept nogil:
    # Plans a load of the store. False: nothing is left to load, or no row of the store is free.
    if p.end_status != PULL_OK:
        return False
    u.kind = UNIT_LOAD
    u.runs.count = 0
    u.runs.rows = 0
    u.good = 0
    u.rows = order_plan_load(p.order, p.plan.config.load_rows, &u.runs, u.ids, &u.first)
    return u.rows > 0


# Units

cdef int64_t _discover_ahead(Pipe* p) noexcept nogil:
    # Returns how many files may be opened before they are needed. Relaxed: hints.
    if p.shared.asks.load(kRelaxed) == 0:
        return DISCOVER_AHEAD
    if p.table.known_files.load(kRelaxed) == 0:  # as in _wants_file
        return 1
    return max(min(DISCOVER_ASKED, p.plan.config.files_kept // 2), DISCOVER_AHEAD)


cdef bint _wants_file(Pipe* p) noexcept nogil:
    # relaxed: known_* only grow, and a late look only discovers a little later
    cdef int64_t record_count = p.table.known_records.load(kRelaxed), files = p.table.known_files.load(kRelaxed), ahead
    # Before the first bytes have come, whatever else a store does makes the first batch late.
    cdef bint has_bytes = p.table.bytes_read.load(kRelaxed) > 0
    cdef bint asked = has_bytes and p.shared.asks.load(kRelaxed) != 0
    if files >= p.table.files.load(kRelaxed):
        return False
    if p.blocks != NULL:
        return files - blocks_wanted(p.blocks) < (_discover_ahead(p) if asked else 3)
    ahead = (p.plan.config.threads + 2 + (p.plan.config.asking if asked else 0)) * p.ramp_rows
    if has_bytes and files > 0 and table_is_remote(p.table, files - 1):  # of arrays headers are read first
        ahead = max(ahead, DISCOVER_REMOTE // p.table.hop_bytes)
    return p.order.needs_count or record_count - p.order.at.position < ahead


cdef int _claim_piece(Pipe* p, Unit* u, bint helper) noexcept nogil:
    cdef bint no_memory = False
    cdef int64_t nbytes
    # Memory comes free first.
    u.piece = blocks_claim_moving(p.blocks)
    if u.piece != NULL:
        u.kind = UNIT_MOVE
        return CLAIM_UNIT
    # One record, or the records that a shuffle keeps, may need more blocks than the budget allows.
    nbytes = p.slots_bytes + p.fixed_bytes + p.shared.blocks.load(kRelaxed)  # relaxed: a statistic
    if 0 < p.plan.config.budget < nbytes:
        pipe_over_budget(p, nbytes)
        return CLAIM_NOTHING
    p.blocks.asked = p.asked
    u.piece = blocks_claim(p.blocks, helper, &no_memory)
    if no_memory:  # nobody may come by again
        pipe_no_memory(p)
    if u.piece == NULL:
        return CLAIM_NOTHING
    u.kind = UNIT_PIECE
    return CLAIM_UNIT


cdef void _give_turn(Pipe* p) noexcept nogil:
    # Gives the turn, and publishes the batches that became whole meanwhile.
    cdef uint64_t k
    while p.whole_count > 0:
        p.whole_count -= 1
        k = p.whole[p.whole_count]
        turn_give(p.turn)
        pipe_complete(p, window_batch(p.window, k), k)
        turn_take(p.turn)
    turn_give(p.turn)
    if is_fed(p.plan):
        event_notify_all(&p.shared.room)


cdef int unit_claim(Pipe* p, bint helper, Unit** unit) noexcept nogil:
    cdef Unit* u
    cdef int64_t f
    cdef int rc = CLAIM_NOTHING
    if stop_requested(&p.runner.stop):
        return CLAIM_STOP
    turn_take(p.turn)
    if not helper and p.returned_first != NULL:
        u = p.returned_first
        p.returned_first = u.next
        p.shared.returned.fetch_sub(1, kRelaxed)  # relaxed: a hint
        turn_give(p.turn)
        unit[0] = u
        return CLAIM_UNIT
    u = p.free_units
    if u == NULL or (p.asked > 0 and engine_full(p.engine)):
        turn_give(p.turn)
        return CLAIM_NOTHING
    p.free_units = u.next
    u.asked = NOT_ASKED
    if u.fresh:
        u.fresh = False
        p.shared.jobs.fetch_add(p.unit_bytes, kRelaxed)  # relaxed: a statistic
    while not p.begun and not helper:
        f = p.order.skip_left + p.order.skip_breaks
        _forward(p)
        if not p.begun and p.order.skip_left + p.order.skip_breaks == f and f > 0:
            break  # it needs a file
        if stop_requested(&p.runner.stop):
            break
    if not helper and p.settling == SETTLE_ASKED:
        p.settling = SETTLE_RUNS
        u.kind = UNIT_DISCOVER
        u.file = -1
        rc = CLAIM_UNIT
    elif not helper and _wants_file(p):
        f = table_claim(p.table, _discover_ahead(p))
        if f >= 0:
            u.kind = UNIT_DISCOVER
            u.file = f
            rc = CLAIM_UNIT
    if rc != CLAIM_UNIT and p.blocks != NULL and not p.begun:
        rc = _claim_piece(p, u, helper)
    if rc != CLAIM_UNIT and p.begun:
        # Free rows of the store are filled first: at the end of an epoch they take the next epoch's buffer, which
        # otherwise would fill only once this epoch's buffer is empty. A consumer that helps waits for its batch, so it
        # makes rows first.
        if not helper and p.store != NULL and order_room(p.order) >= p.plan.config.load_rows and _plan_load(p, u):
            rc = CLAIM_UNIT
        elif _plan_rows(p, u, False) or (p.store != NULL and _plan_load(p, u)):
            rc = CLAIM_UNIT
        elif p.blocks != NULL:
            rc = _claim_piece(p, u, helper)
            # no piece is being read: no more records come
            if rc != CLAIM_UNIT and p.blocks.reading == 0 and _plan_rows(p, u, True):
                rc = CLAIM_UNIT
    if rc != CLAIM_UNIT:
        u.next = p.free_units
        p.free_units = u
        if p.full:
            rc = CLAIM_FULL
    _give_turn(p)
    unit[0] = u
    return rc


cdef void unit_retire(Pipe* p, Unit* u) noexcept nogil:
    cdef int32_t i, j
    cdef int64_t k
    cdef Segment* s
    cdef RecordBlock* block
    cdef Lane* lane
    # Other threads may wait for this file, for these rows or records, or for the room that they left.
    cdef bint tell = u.kind != UNIT_ROWS or p.store != NULL or p.blocks != NULL, published = False
    cdef bint tell_consumer = p.plan.config.help
    turn_take(p.turn)
    if u.kind == UNIT_PIECE:
        lane = blocks_retire(p.blocks, u.piece)
        while lane != NULL:
            block = blocks_next_to_index(p.blocks, lane)
            if block == NULL:
                break
            turn_give(p.turn)
            if published and event_has_waiters(&p.runner.work):  # a wake is a system call: not under the turn
                event_notify(&p.runner.work, 1)
            blocks_index(p.blocks, block)
            turn_take(p.turn)
            blocks_publish(p.blocks, block)
            published = True
    elif u.kind == UNIT_MOVE:
        blocks_moved(p.blocks, u.piece)
    elif u.kind == UNIT_DISCOVER and u.file < 0:
        p.settling = SETTLE_DONE
        tell_consumer = True
    elif u.kind == UNIT_LOAD:
        order_loaded(p.order, u.first, u.rows, u.ids, u.good, &u.fault)
    elif u.kind == UNIT_ROWS and p.store != NULL:
        for i in range(u.segment_count):
            s = &u.segments[i]
            for j in range(s.runs.count):
                for k in range(s.runs.runs[j].n):
                    order_release(p.order, <uint32_t>(s.runs.runs[j].ordinal + k))
    elif u.kind == UNIT_ROWS and p.blocks != NULL:
        for i in range(u.segment_count):
            s = &u.segments[i]
            for j in range(s.runs.count):
                if s.runs.runs[j].block != NULL:
                    blocks_done(p.blocks, s.runs.runs[j].block, s.runs.runs[j].n)
    if u.kind == UNIT_ROWS:
        p.made_rows += u.rows
        p.made_bytes += u.made_bytes
    u.next = p.free_units
    p.free_units = u
    turn_give(p.turn)  # from here on another thread may claim the unit
    if tell:
        event_notify_all(&p.runner.work)
        if tell_consumer:
            event_notify_all(&p.window.arrived)


cdef void unit_give_back(Pipe* p, Unit* u) noexcept nogil:
    u.next = NULL
    turn_take(p.turn)
    p.asked -= u.asked != NOT_ASKED
    if p.returned_first == NULL:
        p.returned_first = u
    else:
        p.returned_last.next = u
    p.returned_last = u
    p.shared.returned.fetch_add(1, kRelaxed)  # relaxed: a hint
    turn_give(p.turn)
    event_notify(&p.runner.work, 1)
