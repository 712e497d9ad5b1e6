"""Executing: the work that is done without the turn."""
from libc.stdint cimport int32_t, int64_t, uint32_t
from libc.string cimport memcpy
from queuecore._core.atoms.process cimport check_layout
from queuecore._core.io.blocks cimport BLOCK_PIECE, blocks_unfinished
from queuecore._core.io.engine cimport (
    MOST_RINGS, REQUEST_BYTES, EngineOwner, Request, engine_init, engine_step, engine_submit, job_find, job_room)
from queuecore._core.io.pieces cimport blocks_move, blocks_read
from queuecore._core.steps.decode cimport (
    PLACE_DIRECT, PLACE_SCATTER, WIDE_GAP, RecordLayout, layout_gather, layout_iovecs, layout_mend, layout_split)
from queuecore._core.atoms.errors cimport (
    CODE_CHECKSUM, CODE_CSV, CODE_DATA_LOSS, CODE_RESUME, CODE_STEP, CODE_TOO_LARGE, STAGE_MAP, STAGE_ORDER,
    WHAT_BEHIND, fault_begin)
from queuecore._core.atoms.growing cimport Growing, array_room
from queuecore._core.stream.limits cimport CHUNK_ROWS, COLD_UNITS, IOVECS, LOAD_SCATTER_BYTES
from queuecore._core.stream.meter cimport (
    AT_INPUT, AT_OUTPUT, AT_PLAN, SAMPLED_UNITS, Meter, meter_add, meter_since, meter_unit, meter_until)
from queuecore._core.order.runs cimport MissingList, Run, RunList, is_behind, is_missing
from queuecore._core.atoms.parking cimport turn_give, turn_take
from queuecore._core.stream.pipe cimport (
    ASKED, ASKED_DONE, BATCH_FAILED, BATCH_REFUSED, OWED_SUBS, UNIT_DISCOVER, UNIT_LOAD, UNIT_MOVE,
    UNIT_PIECE, UNIT_ROWS, Bad, Pipe, Segment, Unit, count_room, is_fed, pipe_complete, pipe_hold, pipe_memory,
    pipe_no_memory, room_of)
from queuecore._core.stream.claims cimport CLAIM_FULL, CLAIM_STOP, CLAIM_UNIT, unit_claim, unit_give_back, unit_retire
from queuecore._core.atoms.platform cimport (
    Batch, EventCount, Fault, FileEntry, Leaf, cpu_ticks, kAcquire, kRelaxed, layout_hash)
from queuecore._core.stream.rows cimport (
    BatchPart, part_free, part_new, row_of_record, rows_of_block, rows_of_lone, rows_of_records, rows_of_store)
from queuecore._core.atoms.runtime cimport STEP_DONE, STEP_IDLE, STEP_WORKED, runner_more
from queuecore._core.atoms.slab cimport slab_slot
from queuecore._core.io.sources cimport (
    READ_FAULT, READ_NOT_CACHED, READ_OK, WAIT_ALL, WAIT_NONE, WAIT_OPEN, FileRead, FileTable, entry_of, head_of,
    read_records, table_discover, table_find, table_is_remote, table_named_unchanged, table_pin, table_settle,
    table_unpin)
from queuecore._core.io.uring cimport ring_step
from queuecore._core.atoms.timeline cimport Line, line_enter, line_leave, line_wait
from queuecore._core.stream.traced cimport WORK, note_helped, note_helping, note_parts, note_unit
from queuecore._core.atoms.window cimport window_less

check_layout(layout_hash())


# Records that can't be read or made

cdef void _known_place(Pipe* p, Unit* u, int64_t ordinal, Fault* fault) noexcept nogil:
    # Names in a fault the file, record and offset of record `ordinal`, where records have known places.
    u.file_hint = table_find(p.table, ordinal, u.file_hint)
    fault.file = u.file_hint
    fault.record = ordinal - entry_of(p.table, u.file_hint).base
    fault.offset = head_of(p.table, u.file_hint) + fault.record * p.plan.layout.hop_bytes


cdef void _fail(Pipe* p, Batch* b, int64_t row, int64_t pass_, int64_t ordinal, const Fault* fault) noexcept nogil:
    # Marks a batch as failed; its first unreadable row counts. On this slow path the turn guards the comparison.
    turn_take(p.turn)
    if b.failed.load(kRelaxed) != BATCH_FAILED or row < b.fault_row:  # relaxed: guarded by the turn
        b.fault_row = row
        b.fault_pass = pass_
        b.fault_ordinal = ordinal
        b.fault = fault[0]
        b.failed.store(BATCH_FAILED, kRelaxed)  # relaxed: published to the consumer by B3 in window.pxd
    turn_give(p.turn)


cdef bint _skippable(const Fault* f) noexcept nogil:
    # True for a fault of one record, and not of the machine.
    return (f.code == CODE_STEP or f.code == CODE_CHECKSUM or f.code == CODE_CSV or f.code == CODE_TOO_LARGE
            or f.code == CODE_DATA_LOSS)


cdef bint _of_element(const Fault* f) noexcept nogil:
    # True if a step, a parser or a batch refuses a record that was read whole: the records after it can be read.
    return f.code == CODE_STEP or f.code == CODE_CSV or (f.code == CODE_DATA_LOSS and f.stage == STAGE_MAP)


cdef int32_t _level_of(const Pipe* p, const Fault* f) noexcept nogil:
    # Returns the number of operators below the place where the error comes out. The error comes out above the operators
    # before its map (or before the first batch), and above every operator that may have given the record away before a
    # worker knew of the error.
    cdef int32_t level = 0
    if f.code == CODE_STEP:
        level = p.plan.config.map_level
    elif f.code == CODE_DATA_LOSS and f.stage == STAGE_MAP:
        level = p.plan.config.batch_level
    return level if level > p.plan.config.shuffle_level else p.plan.config.shuffle_level


cdef void _refuse(Pipe* p, Batch* b, int64_t pass_, int64_t ordinal, const Fault* fault) noexcept nogil:
    # Notes, under the turn, a bad record among those that are owed: the first one that has not been told yet counts.
    cdef int32_t failed = b.failed.load(kRelaxed)  # relaxed, both: guarded by the turn, and published as in _fail
    cdef MissingList told
    told.records = p.told
    told.count = p.told_count
    if failed == BATCH_FAILED or is_missing(&told, pass_, ordinal):
        return
    if failed == BATCH_REFUSED and is_behind(pass_, ordinal, b.fault_pass, b.fault_ordinal):
        return
    b.fault_pass = pass_
    b.fault_ordinal = ordinal
    b.fault = fault[0]
    b.failed.store(BATCH_REFUSED, kRelaxed)


cdef bint _leave_out(Pipe* p, Batch* b, int64_t pass_, int64_t ordinal, const Fault* fault) noexcept nogil:
    # Notes a bad record, for a new run without it. False: the error ends the stream.
    cdef Bad* grown
    cdef bint noted = True
    if not (_skippable(fault) if p.plan.config.skip_bad else _of_element(fault)):
        return False
    turn_take(p.turn)
    if b.subs == OWED_SUBS and p.plan.config.tell_bad:
        _refuse(p, b, pass_, ordinal, fault)
        turn_give(p.turn)
        return True
    grown = <Bad*>array_room(p.bad, p.bad_count, &p.bad_room, sizeof(Bad))
    noted = grown != NULL
    if noted:
        p.bad = grown
        p.bad[p.bad_count].place.pass_ = pass_
        p.bad[p.bad_count].place.ordinal = ordinal
        p.bad[p.bad_count].fault = fault[0]
        p.bad[p.bad_count].level = _level_of(p, fault)
        p.bad_count += 1
        b.failed.store(BATCH_FAILED, kRelaxed)  # relaxed: published to the consumer by B3 in window.pxd
    turn_give(p.turn)
    return noted


# Rows

cdef int _read(Pipe* p, Unit* u, int fd, int count, int64_t offset, int wait, int64_t* read_bytes,
               Fault* fault) noexcept nogil:
    # Reads records of the unit's file to its list of `count` parts. *got: the bytes that were read.
    cdef FileRead read_
    cdef int status
    read_.file = u.file_hint
    read_.fd = fd
    read_.iov = u.iov
    read_.count = count
    read_.offset = offset
    read_.nowait = wait != WAIT_ALL
    status = read_records(p.table, &read_, fault)
    read_bytes[0] = read_.got
    return status


cdef bint _unpin(Pipe* p, const Unit* u, int64_t records, int wait, int* status, Fault* fault) noexcept nogil:
    # Gives the unit's file back, of which so many records were read. False: they are none, as *status says.
    if table_unpin(p.table, u.file_hint, 0 if status[0] == READ_NOT_CACHED else records, wait == WAIT_NONE, fault):
        return True
    status[0] = READ_FAULT if fault.code != 0 else READ_NOT_CACHED
    return False


cdef int64_t _make_rows(Pipe* p, Unit* u, int64_t pass_, int64_t ordinal, int64_t n, const unsigned char* records,
                        int64_t row, Fault* fault) noexcept nogil:
    # Makes rows of n records. Returns the number made. If it is less than n, *fault is that of the next record;
    # otherwise *fault stays as it was.
    cdef int64_t i = rows_of_records(&p.plan.maker, &u.scratch, records, p.plan.layout.hop_bytes, n, row)
    cdef Fault record_fault
    u.scratch.arena.epoch = pass_
    for i in range(i, n):
        u.scratch.arena.element = ordinal + i
        if not row_of_record(&p.plan.maker, &u.scratch, records + i * p.plan.layout.hop_bytes,
                             p.plan.layout.record_bytes, row + i, &record_fault):
            _known_place(p, u, ordinal + i, &record_fault)
            fault[0] = record_fault
            return i
    return n


cdef int64_t _rows_of_request(Pipe* p, Unit* u, const Request* r, int64_t first, int64_t n, int64_t row,
                              Fault* fault) noexcept nogil:
    # Makes rows of n records, from the request's record `first` on, which the engine has read. Returns as _make_rows.
    cdef const unsigned char* records = r.to + first * p.plan.layout.hop_bytes
    if p.plan.maker.run != NULL:
        return _make_rows(p, u, r.pass_, r.first + first, n, records, row, fault)
    if p.plan.layout.place == PLACE_DIRECT:
        layout_mend(&p.plan.layout, u.scratch.slot, row, n)
    else:
        layout_split(&p.plan.layout, records, p.plan.layout.hop_bytes, u.scratch.slot, row, n)
    return n


cdef inline int64_t _whole_records(const RecordLayout* layout, int64_t nbytes) noexcept nogil:
    # Returns how many records the first bytes of a run have in full.
    return 0 if nbytes < layout.record_bytes else (nbytes - layout.record_bytes) // layout.hop_bytes + 1


cdef int64_t _read_rows(Pipe* p, Unit* u, const Run* run, int64_t first, int64_t row, int wait, int* status,
                        Fault* fault) noexcept nogil:
    # Reads the records of a run from its `first` on into rows of the slot, the first of which is `row`. Returns the
    # number of rows that are in place; *status says why not all.
    cdef const RecordLayout* layout = &p.plan.layout
    cdef FileTable* t = p.table
    cdef FileEntry* e
    cdef unsigned char* slot = u.scratch.slot
    cdef int64_t pass_ = run.pass_, ordinal = run.ordinal + first, n = run.n - first
    cdef int64_t done = 0, m, part, row_count, record, offset, read_bytes = 0, limit, old_done
    cdef Leaf* leaf = p.plan.leaves
    cdef const Request* request
    cdef int fd, count
    if layout.lone_records:
        limit = 1
    elif layout.place == PLACE_DIRECT:
        limit = n
    elif layout.place == PLACE_SCATTER:
        limit = IOVECS // layout.part_count
    else:
        limit = layout.stage_records
    status[0] = READ_OK
    while done < n and status[0] == READ_OK:
        u.file_hint = table_find(t, ordinal + done, u.file_hint)
        e = entry_of(t, u.file_hint)
        record = ordinal + done - e.base
        m = e.count - record
        if m > n - done:
            m = n - done
        old_done = done
        request = job_find(&u.job, pass_, ordinal + done) if u.asked == ASKED else NULL
        if request != NULL:
            record = ordinal + done - request.first
            part = min(request.rows - record, m)
            row_count = _rows_of_request(p, u, request, record, part, row + done, fault)
            if row_count < part:
                status[0] = READ_FAULT
            done += row_count
            continue
        fd = table_pin(t, u.file_hint, pass_, wait == WAIT_NONE, fault)
        if fd < 0 and fault.code == 0:
            status[0] = READ_NOT_CACHED
            break
        if fd < 0:
            fault.record = record
            status[0] = READ_FAULT
            break
        while m > 0:
            part = limit if m > limit else m
            offset = record * layout.hop_bytes
            if layout.place == PLACE_DIRECT:
                u.iov[0].iov_base = slot + leaf.slot_offset + (row + done) * leaf.row_bytes
                u.iov[0].iov_len = part * leaf.row_bytes
                count = 1
            elif layout.place == PLACE_SCATTER:
                count = layout_iovecs(layout, u.iov, slot, row + done, part, u.dump)
            else:
                u.iov[0].iov_base = u.stage
                u.iov[0].iov_len = (part - 1) * layout.hop_bytes + layout.record_bytes
                count = 1
            status[0] = _read(p, u, fd, count, offset, wait, &read_bytes, fault)
            if status[0] != READ_OK:
                part = _whole_records(layout, read_bytes)
            if p.plan.maker.run != NULL:
                row_count = _make_rows(p, u, pass_, ordinal + done, part, u.stage, row + done, fault)
                if row_count < part:
                    status[0] = READ_FAULT
                part = row_count
            elif layout.place == PLACE_DIRECT or layout.place == PLACE_SCATTER:
                layout_mend(layout, slot, row + done, part)
            else:
                layout_split(layout, u.stage, layout.hop_bytes, slot, row + done, part)
            done += part
            record += part
            m -= part
            if status[0] != READ_OK:
                break
        if not _unpin(p, u, done - old_done, wait, status, fault):
            fault.record = record - (done - old_done)
            done = old_done
    return done


cdef int32_t _read_near(Pipe* p, Unit* u, const RunList* list_, int32_t first, int64_t row, int wait) noexcept nogil:
    # Reads lone records that follow each other in equal, small steps, as in a shard, by one read that includes the
    # gaps. Returns the number of rows that are in place; -1: not all could be read. The caller reads other records one
    # by one, which also finds the fault.
    cdef const RecordLayout* layout = &p.plan.layout
    cdef FileTable* t = p.table
    cdef FileEntry* e
    cdef const Run* run = &list_.runs[first]
    cdef int64_t step, record, offset, read_bytes = 0
    cdef int32_t n = 1, i
    cdef int fd
    cdef bint well
    cdef Fault fault
    if p.store != NULL or first + 1 >= list_.count or u.asked == ASKED:
        return 0
    step = run[1].ordinal - run.ordinal
    if (run.n != 1 or step < 1 or step >= layout.stage_records
        or step * layout.hop_bytes - layout.record_bytes > WIDE_GAP):
        return 0
    u.file_hint = table_find(t, run.ordinal, u.file_hint)
    e = entry_of(t, u.file_hint)
    record = run.ordinal - e.base
    while (first + n < list_.count and run[n].ordinal == run.ordinal + n * step and run[n].n == 1
           and run[n].pass_ == run.pass_
           and n * step < layout.stage_records and record + n * step < e.count):
        n += 1
    if n == 1:
        return 0
    fd = table_pin(t, u.file_hint, run.pass_, wait == WAIT_NONE, &fault)
    if fd < 0:
        return -1
    offset = record * layout.hop_bytes
    u.iov[0].iov_base = u.stage
    u.iov[0].iov_len = (n - 1) * step * layout.hop_bytes + layout.record_bytes
    well = _read(p, u, fd, 1, offset, wait, &read_bytes, &fault) == READ_OK
    if not table_unpin(t, u.file_hint, n if well else 0, wait == WAIT_NONE, &fault) or not well:
        return -1
    if p.plan.maker.run == NULL:
        layout_split(layout, u.stage, step * layout.hop_bytes, u.scratch.slot, row, n)
        return n
    u.scratch.arena.epoch = run.pass_
    i = <int32_t>rows_of_records(&p.plan.maker, &u.scratch, u.stage, step * layout.hop_bytes, n, row)
    for i in range(i, n):
        u.scratch.arena.element = run[i].ordinal
        if not row_of_record(&p.plan.maker, &u.scratch, u.stage + i * step * layout.hop_bytes, layout.record_bytes,
                             row + i, &fault):
            return i
    return n


cdef int _make_run(Pipe* p, Unit* u, Segment* s, const Run* run, int64_t row, int wait) noexcept nogil:
    # Makes the rows of one run of records. Behind a bad record, some or all rows may be missing.
    cdef int64_t done = 0, i = 0, id
    cdef int status = READ_OK
    cdef Fault fault
    cdef bint leave = False
    while done < run.n:
        if run.block != NULL:
            done += rows_of_block(&p.plan.maker, &u.scratch, run.block, run.first + done, run.n - done,
                                  run.ordinal + done, row + done, &fault)
            if done == run.n:
                break
            fault.file = -1 if is_fed(p.plan) else run.block.place.file
            status = READ_FAULT
        elif p.blocks != NULL:  # the run began at a place behind a record that it still needs
            fault_begin(&fault, CODE_RESUME, WHAT_BEHIND, STAGE_ORDER)
            status = READ_FAULT
        elif p.store != NULL:  # row `id` of the store is a record
            status = READ_OK
            while done < run.n and status == READ_OK:
                id = run.ordinal + done
                i = p.order.stored.records[id].ordinal  # it stays until the row is released
                u.scratch.arena.element = i
                u.scratch.arena.epoch = p.order.stored.records[id].pass_
                if row_of_record(&p.plan.maker, &u.scratch, p.store + id * p.store_stride, p.plan.layout.record_bytes,
                                 row + done, &fault):
                    done += 1
                    continue
                _known_place(p, u, i, &fault)
                status = READ_FAULT
            if status == READ_OK:
                break
            if _leave_out(p, s.batch, u.scratch.arena.epoch, i, &fault):
                done += 1
                leave = True
                continue
            _fail(p, s.batch, row + done, u.scratch.arena.epoch, i, &fault)
            return READ_FAULT
        else:
            done += _read_rows(p, u, run, done, row + done, wait, &status, &fault)
            if status == READ_NOT_CACHED:
                return READ_NOT_CACHED
            if status == READ_OK:
                break
        if not _leave_out(p, s.batch, run.pass_, run.ordinal + done, &fault):
            _fail(p, s.batch, row + done, run.pass_, run.ordinal + done, &fault)
            return READ_FAULT
        done += 1  # records after it may be bad too: finding them now saves a new run for each
        leave = True
    return READ_FAULT if leave else READ_OK


cdef bint _run_stored(Pipe* p, Unit* u, const Segment* s) noexcept nogil:
    # Makes the rows of a segment at once, if their records lie in the store, and nothing stands against it.
    cdef const Run* run
    cdef int64_t i = 0, row
    cdef int32_t r
    if p.store == NULL or (p.plan.maker.run != NULL and p.plan.maker.together <= 1):
        return False
    for r in range(s.runs.count):
        run = &s.runs.runs[r]
        for row in range(run.n):
            u.ids[i] = <uint32_t>(run.ordinal + row)
            i += 1
    if p.plan.maker.run != NULL:
        return rows_of_store(&p.plan.maker, &u.scratch, p.store, p.store_stride, u.ids, i, s.row) == i
    layout_gather(&p.plan.layout, p.store, p.store_stride, u.ids, u.scratch.slot, s.row, i)
    return True


cdef bint _run_rows(Pipe* p, Unit* u, int wait) noexcept nogil:
    # Makes the rows of a unit. False: that takes a wait which `wait` forbids; segments before segment_at are done.
    cdef Segment* s
    cdef Run* run
    cdef unsigned char* slot
    cdef Growing* vars
    cdef BatchPart* part
    cdef int64_t row
    cdef int32_t r, near
    cdef int status = READ_OK
    while u.segment_at < u.segment_count:
        s = &u.segments[u.segment_at]
        slot = slab_slot(p.slab, s.batch.slot)
        u.scratch.slot = slot
        if not _run_stored(p, u, s):
            vars = NULL
            part = NULL
            if p.plan.maker.vars > 0 and s.row == 0:
                vars = p.vars + <int64_t>s.batch.slot * p.plan.maker.vars
                for r in range(p.plan.maker.vars):
                    vars[r].nbytes = 0
            elif p.plan.maker.vars > 0:
                part = part_new(&p.plan.maker, s.row)
                if part == NULL:
                    pipe_no_memory(p)
                    return True
                part.rows = s.runs.rows
                vars = part.vars
            u.scratch.vars = vars
            u.scratch.arena.rows_due = min(s.runs.rows, <int64_t>CHUNK_ROWS) if p.plan.config.budget == 0 else 1
            row = s.row
            near = 0
            for r in range(s.runs.count):
                if near == 0 and p.blocks == NULL:
                    near = _read_near(p, u, &s.runs, r, row, wait)
                elif near == 0 and p.plan.maker.together > 1:
                    near = <int32_t>rows_of_lone(&p.plan.maker, &u.scratch, &s.runs, r, row)
                if near > 0:
                    near -= 1
                    row += 1
                    continue
                run = &s.runs.runs[r]
                status = _make_run(p, u, s, run, row, wait)
                if status == READ_NOT_CACHED:
                    if part != NULL:
                        part_free(&p.plan.maker, part)
                    return False
                row += run.n  # runs after a bad record may have bad ones too
            if vars != NULL:
                for r in range(p.plan.maker.vars):
                    u.made_bytes += vars[r].nbytes
            if vars != NULL and part == NULL:
                count_room(p, s.batch.slot)
            if part != NULL:
                # relaxed, as wherever `grown` is used: a statistic and a hint
                p.shared.grown.fetch_add(room_of(p, part.vars), kRelaxed)
                turn_take(p.turn)
                part.next = <BatchPart*>s.batch.parts
                s.batch.parts = part
                turn_give(p.turn)
        u.segment_at += 1
        if window_less(s.batch, s.runs.rows):
            pipe_complete(p, s.batch, s.k)
    return True


# The store

cdef bint _run_load(Pipe* p, Unit* u, int wait) noexcept nogil:
    # Reads records into their rows of the store. False: that takes a wait which `wait` forbids; then the whole unit is
    # still to be done.
    cdef const RecordLayout* layout = &p.plan.layout
    cdef FileTable* t = p.table
    cdef FileEntry* e
    cdef Run* run
    cdef int64_t position = 0, done, m, part, record, read_bytes = 0, i, gap, old_done
    cdef int32_t r
    cdef const Request* request
    cdef int fd, count, status = READ_OK
    cdef bint scatter
    gap = layout.hop_bytes - layout.record_bytes
    scatter = gap >= 0 and layout.record_bytes >= LOAD_SCATTER_BYTES and not layout.lone_records
    for r in range(u.runs.count):
        run = &u.runs.runs[r]
        done = 0
        while done < run.n:
            u.file_hint = table_find(t, run.ordinal + done, u.file_hint)
            e = entry_of(t, u.file_hint)
            record = run.ordinal + done - e.base
            m = e.count - record
            if m > run.n - done:
                m = run.n - done
            old_done = done
            request = job_find(&u.job, run.pass_, run.ordinal + done) if u.asked == ASKED else NULL
            if request != NULL:
                record = run.ordinal + done - request.first
                part = min(request.rows - record, m)
                for i in range(part):
                    memcpy(p.store + u.ids[position + i] * p.store_stride, request.to + (record + i) * layout.hop_bytes,
                           layout.record_bytes)
                position += part
                done += part
                continue
            fd = table_pin(t, u.file_hint, run.pass_, wait == WAIT_NONE, &u.fault)
            if fd < 0 and u.fault.code == 0:
                return False
            if fd < 0:
                u.fault.record = record
                u.good = position
                return True
            while m > 0 and status == READ_OK:
                if scatter:
                    part = IOVECS // 2 if m > IOVECS // 2 else m
                    count = 0
                    for i in range(part):
                        u.iov[count].iov_base = p.store + u.ids[position + i] * p.store_stride
                        u.iov[count].iov_len = layout.record_bytes
                        count += 1
                        if gap > 0 and i + 1 < part:
                            u.iov[count].iov_base = u.dump
                            u.iov[count].iov_len = gap
                            count += 1
                else:
                    part = layout.stage_records if m > layout.stage_records else m
                    u.iov[0].iov_base = u.stage
                    u.iov[0].iov_len = (part - 1) * layout.hop_bytes + layout.record_bytes
                    count = 1
                status = _read(p, u, fd, count, record * layout.hop_bytes, wait, &read_bytes, &u.fault)
                if status != READ_OK:
                    part = _whole_records(layout, read_bytes)
                if not scatter:
                    for i in range(part):
                        memcpy(p.store + u.ids[position + i] * p.store_stride, u.stage + i * layout.hop_bytes,
                               layout.record_bytes)
                position += part
                done += part
                record += part
                m -= part
            if not _unpin(p, u, done - old_done, wait, &status, &u.fault):
                u.fault.record = record - (done - old_done)
                position -= done - old_done
            if status == READ_NOT_CACHED:
                return False
            if status != READ_OK:
                u.good = position
                return True
    u.good = position
    return True


# Units

cdef bint _run_unit(Pipe* p, Unit* u, int wait) noexcept nogil:
    # Does a unit's work. False: that takes a wait which `wait` (WAIT_*) forbids.
    if u.kind == UNIT_ROWS:
        return _run_rows(p, u, wait)
    if u.kind == UNIT_LOAD:
        return _run_load(p, u, wait)
    if u.kind == UNIT_PIECE:
        return blocks_read(p.blocks, u.piece, wait)
    if u.kind == UNIT_MOVE:
        blocks_move(p.blocks, u.piece)
    elif u.file < 0:
        _settle(p)
    else:
        table_discover(p.table, u.file)
    return True


cdef void _settle(Pipe* p) noexcept nogil:
    # Looks at the files of which a part was read, up to the first one that has changed. A file is looked at when it has
    # been read to its end, and what is found comes behind its last record. Here come those within which the order ends:
    # it never comes to what is found.
    cdef int64_t file
    p.settled = True
    while p.settled and p.blocks != NULL and p.settle_lane < p.plan.blocks.cycle:
        turn_take(p.turn)
        file = blocks_unfinished(p.blocks, p.settle_lane)
        turn_give(p.turn)
        p.settle_lane += 1
        if file >= 0:
            p.settled = table_named_unchanged(p.table, file, &p.settle_fault)
    if p.settled:
        p.settled = table_settle(p.table, &p.settle_fault)


# Units that wait for the storage

cdef int32_t _more_threads(void* context, EventCount* work, int32_t first, int32_t count) noexcept nogil:
    cdef Pipe* p = <Pipe*>context
    return runner_more(p.runner, work, p.plan.config.threads + first, count, "qc-io", pipe_hold)


cdef void _run_asked(void* owner) noexcept nogil:
    cdef Unit* u = <Unit*>owner
    _run_unit(u.pipe, u, WAIT_ALL)
    u.asked = ASKED_DONE


cdef void _give_asked(void* owner) noexcept nogil:
    cdef Unit* u = <Unit*>owner
    unit_give_back(u.pipe, u)


cdef void execute_init(Pipe* p) noexcept nogil:
    cdef EngineOwner owner
    if p.engine != NULL:
        owner.run = _run_asked
        owner.done = _give_asked
        owner.more = _more_threads
        owner.context = p
        owner.apart = &p.runner.apart
        owner.rings = &p.runner.rings if p.plan.config.rings else NULL
        engine_init(p.engine, p.table, p.plan.config.depth, p.plan.config.files_kept, &owner)
        if p.table.listed > 0 and table_is_remote(p.table, 0):
            _note_asking(p)


cdef int64_t _ask_run(Pipe* p, Unit* u, const Run* run, unsigned char* to, bint direct, bint fill,
                      int64_t staged) noexcept nogil:
    # Adds the requests for a run of records to the unit's job; only counts them unless `fill`. They are read to `to`,
    # or else to the job's stage from byte `staged` on. Returns the bytes of the stage that are used then.
    cdef const RecordLayout* layout = &p.plan.layout
    cdef FileEntry* e
    cdef Request* r
    cdef int64_t done = 0, record, m, nbytes, limit = max(REQUEST_BYTES // layout.hop_bytes, 1)
    if layout.lone_records:
        limit = 1
    while done < run.n:
        u.file_hint = table_find(p.table, run.ordinal + done, u.file_hint)
        e = entry_of(p.table, u.file_hint)
        record = run.ordinal + done - e.base
        m = min(e.count - record, run.n - done, limit)
        nbytes = (m - 1) * layout.hop_bytes + layout.record_bytes
        if fill:
            r = &u.job.requests[u.job.count]
            r.job = &u.job
            r.whole = False
            r.file = u.file_hint
            r.pass_ = run.pass_
            r.first = run.ordinal + done
            r.rows = m
            r.at = record * layout.hop_bytes
            r.nbytes = nbytes
            r.to = to + done * layout.record_bytes if direct else u.job.stage + staged
        u.job.count += 1
        staged += (nbytes + 63) // 64 * 64
        done += m
    return staged


cdef int64_t _ask_records(Pipe* p, Unit* u, bint fill) noexcept nogil:
    # Adds the requests for the records of a unit to its job. Returns the bytes of the stage that they take.
    cdef Segment* s
    cdef Leaf* leaf = p.plan.leaves
    cdef unsigned char* slot
    cdef int64_t staged = 0, row
    cdef int32_t i, r
    cdef bint direct = p.plan.layout.place == PLACE_DIRECT
    u.job.count = 0
    if u.kind == UNIT_LOAD:
        for r in range(u.runs.count):
            staged = _ask_run(p, u, &u.runs.runs[r], NULL, False, fill, staged)
        return staged
    for i in range(u.segment_at, u.segment_count):
        s = &u.segments[i]
        slot = slab_slot(p.slab, s.batch.slot)
        row = s.row
        for r in range(s.runs.count):
            staged = _ask_run(p, u, &s.runs.runs[r], slot + leaf.slot_offset + row * leaf.row_bytes if direct else NULL,
                              direct, fill, staged)
            row += s.runs.runs[r].n
    return 0 if direct else staged


cdef void _note_asking(Pipe* p) noexcept nogil:
    # Notes that the engine is asked, so that more is asked for early.
    if p.shared.asks.load(kRelaxed) == 0 and p.shared.asks.exchange(1, kRelaxed) == 0:  # relaxed: a hint
        turn_take(&p.table.turn)
        p.table.fd_limit = max(p.table.fd_limit, p.plan.config.files_kept)
        turn_give(&p.table.turn)


cdef bint _ask(Pipe* p, Unit* u) noexcept nogil:
    # Hands a unit that has to wait for the storage to the engine. False: the caller does its work, and waits.
    cdef int64_t nbytes, job_bytes
    u.job.owner = u
    u.pipe = p
    u.job.count = 0
    u.job.run.job = &u.job
    u.job.run.nbytes = u.piece.nbytes if u.kind == UNIT_PIECE else 0
    if u.kind == UNIT_ROWS or u.kind == UNIT_LOAD:
        nbytes = _ask_records(p, u, False)
        job_bytes = nbytes + u.job.count * <int64_t>sizeof(Request)
        if (p.plan.config.budget > 0 and job_bytes > u.job.stage_bytes
                and pipe_memory(p) + job_bytes > p.plan.config.budget):
            return False
        job_bytes = job_room(&u.job, u.job.count, nbytes)
        if job_bytes < 0:
            return False
        p.shared.jobs.fetch_add(job_bytes, kRelaxed)  # relaxed: a statistic
        _ask_records(p, u, True)
    u.asked = ASKED
    turn_take(p.turn)
    p.asked += 1
    turn_give(p.turn)
    _note_asking(p)
    if engine_submit(p.engine, &u.job):
        return True
    turn_take(p.turn)
    p.asked -= 1
    turn_give(p.turn)
    u.job.count = 0
    return False


cdef bint _reads(Pipe* p, Unit* u) noexcept nogil:
    # Returns whether the unit's work is to read files.
    if u.kind == UNIT_PIECE:
        return u.piece.kind == BLOCK_PIECE and not p.plan.blocks.encoding
    return u.kind == UNIT_LOAD or u.kind == UNIT_DISCOVER or (u.kind == UNIT_ROWS and p.blocks == NULL
                                                              and p.store == NULL)


cdef bint _work(Pipe* p, Unit* u) noexcept nogil:
    # Does a unit's work on a worker. False: the engine has the unit now.
    cdef int32_t cold
    if u.asked == ASKED_DONE:
        return True
    if p.engine == NULL or u.asked == ASKED or not _reads(p, u):
        _run_unit(p, u, WAIT_ALL)
        return True
    # To open a remote file takes a request: a worker never waits for that.
    if u.kind != UNIT_DISCOVER or u.file < 0 or not table_is_remote(p.table, u.file):
        cold = p.shared.cold.load(kRelaxed)  # relaxed, all of it: a hint
        if cold == 0 and _run_unit(p, u, WAIT_OPEN):
            return True
        p.shared.cold.store(cold - 1 if cold > 0 else COLD_UNITS, kRelaxed)
    if _ask(p, u):
        return False
    _run_unit(p, u, WAIT_ALL)
    return True


cdef bint _time_steps(Pipe* p, Unit* u, int64_t done) noexcept nogil:
    # Returns whether the unit's steps are timed: in one of SAMPLED_UNITS units, the first of them too. Its thread has
    # done so many before.
    cdef bint timed = u.kind == UNIT_ROWS and p.steps != NULL and done % SAMPLED_UNITS == 0
    u.scratch.arena.times = p.steps if timed else NULL
    return timed


cdef int execute_step(void* context, int32_t worker) noexcept nogil:
    cdef Pipe* p = <Pipe*>context
    cdef Meter* m = &p.meters[worker + 1]
    cdef Unit* u = NULL
    cdef Line* line
    cdef int64_t begin_ticks, claimed, end_ticks
    cdef int32_t kind, place, number = worker - p.plan.config.threads
    cdef bint timed, is_over
    cdef int rc
    if number >= 0:
        return ring_step(p.engine, number) if number < MOST_RINGS else engine_step(p.engine)
    if m.since == 0:  # it is new
        meter_since(m, AT_PLAN, cpu_ticks())
    begin_ticks, place = m.since, m.at
    rc = unit_claim(p, False, &u)
    if rc == CLAIM_STOP:
        return STEP_DONE
    if rc != CLAIM_UNIT and place == (AT_OUTPUT if rc == CLAIM_FULL else AT_INPUT):
        return STEP_IDLE  # it waits on
    claimed = cpu_ticks()
    meter_until(m, claimed)
    line = m.line.load(kAcquire)  # acquire: pairs with pipe_trace
    if line != NULL and place >= AT_INPUT:
        line_wait(line, place, p.number, begin_ticks, claimed)
    if rc != CLAIM_UNIT:
        meter_since(m, AT_OUTPUT if rc == CLAIM_FULL else AT_INPUT, claimed)
        return STEP_IDLE
    kind = u.kind
    timed = _time_steps(p, u, m.units[UNIT_ROWS].load(kRelaxed))
    if line != NULL:
        note_parts(p, u, line, claimed)
        line_enter(line, WORK[kind])
    is_over = _work(p, u)
    end_ticks = cpu_ticks()
    if line != NULL:
        line_leave(line)
        if is_over:
            note_unit(p, u, line, claimed, end_ticks)
    if timed:
        p.steps.all.fetch_add(end_ticks - claimed, kRelaxed)  # relaxed: a statistic
    meter_since(m, AT_PLAN, end_ticks)
    if is_over:
        meter_unit(m, kind, end_ticks - claimed)
        unit_retire(p, u)
    else:  # the unit is the engine's now
        meter_add(m, kind, end_ticks - claimed)
    return STEP_WORKED


cdef int64_t execute_help(Pipe* p) noexcept nogil:
    cdef Unit* u = NULL
    cdef int64_t begin_ticks, took
    cdef int32_t kind
    cdef bint timed
    # Relaxed: hints. A unit whose bytes aren't cached waits for a worker or the engine already.
    if p.shared.returned.load(kRelaxed) > 0 or p.shared.cold.load(kRelaxed) > 0:
        return -1
    begin_ticks = cpu_ticks()
    if unit_claim(p, True, &u) != CLAIM_UNIT:
        return -1
    kind = u.kind
    timed = _time_steps(p, u, p.meters.units[UNIT_ROWS].load(kRelaxed))
    note_helping(p, u, begin_ticks)
    if not _run_unit(p, u, WAIT_NONE):
        unit_give_back(p, u)
        return -1
    took = cpu_ticks() - begin_ticks
    if timed:
        p.steps.all.fetch_add(took, kRelaxed)  # relaxed: a statistic
    note_helped(p, u, begin_ticks, begin_ticks + took)
    unit_retire(p, u)
    p.meters.ticks[kind].fetch_add(took, kRelaxed)  # relaxed: statistics, as the next ones
    p.meters.units[kind].fetch_add(1, kRelaxed)
    p.shared.helped.fetch_add(1, kRelaxed)
    return took
