"""Plan to batches: the pipeline's native run, and the iterator over it."""
import os
from collections import deque

cimport cython
cimport numpy as cnp
from cpython.exc cimport PyErr_CheckSignals
from cpython.ref cimport PyObject
from libc.stddef cimport size_t
from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t, uintptr_t
from libc.stdlib cimport calloc, free, malloc, realloc
from libc.string cimport memcpy, memmove, memset
from libc.stdlib cimport qsort
from queuecore._core.atoms cimport buffer_give, buffer_take, check_layout, fork_generation, registry_remove
from queuecore._core.blocks cimport (
    BLOCK_BYTES, FRAME_CSV, FRAME_ROWS, HANDED, HANDED_FULL, HANDED_NO_MEMORY, HANDED_STALE, HEADROOM, Blocks, Column, Lane, Place,
    RecordBlock, Skipped, blocks_claim, blocks_claim_moving, blocks_clear, blocks_close, blocks_done, blocks_full, blocks_hand,
    blocks_hand_end, blocks_index, blocks_init, blocks_move, blocks_moved, blocks_next_to_index, blocks_publish, blocks_read,
    blocks_retire, blocks_save, blocks_saved, blocks_wanted)
from queuecore._core.csv cimport CsvFormat
from queuecore._core.decode cimport (
    PLACE_DIRECT, PLACE_SCATTER, PLACE_STAGE, WIDE_GAP, Layout, layout_clear, layout_gather, layout_iovecs, layout_mend, layout_plan, layout_split)
from queuecore._core.errors cimport (
    CODE_CHECKSUM, CODE_CSV, CODE_DATA_LOSS, CODE_EXHAUSTED, CODE_HANDED, CODE_INTERNAL, CODE_STEP, CODE_TOO_LARGE, CODE_UNAVAILABLE,
    STAGE_RUNNER, WHAT_BUDGET, WHAT_MEMORY, WHAT_THREAD, fault_error)
from queuecore._core.growing cimport Growing
from queuecore._core.order cimport (
    OP_BATCH, OP_PERMUTE, OP_REPEAT, OP_SHARD, OP_SHUFFLE, OP_SKIP, OP_TAKE, PULL_END, PULL_FAULT, PULL_NO_MEMORY, PULL_OK, PULL_WAIT,
    UNEVEN_PAD, Op,
    Missing, OpSpec, Order, Run, RunList, Start, order_begin, order_cut, order_forward, order_free, order_loaded, order_new,
    order_plan_load, order_pull, order_release, order_room)
from queuecore._core.parking cimport (
    event_cancel, event_has_waiters, event_notify, event_notify_all, event_prepare, event_wait, turn_give, turn_take)
from queuecore._core.platform cimport (
    Batch, Fault, FileEntry, Leaf, Runner, Slab, Turn, Window, alloc_lines, cpu_pause, iovec, kAcqRel, kAcquire,
    kRelaxed, kRelease, layout_hash, monotonic_ns)
from queuecore._core.runtime cimport (
    STEP_DONE, STEP_IDLE, STEP_WORKED, runner_join, runner_start, runner_stop, stop_fault, stop_requested,
    wait_out_exit)
from queuecore._core.readers cimport FRAME_FIXED, FRAME_LINES, FRAME_TFRECORD, FRAME_WHOLE
from queuecore._core.rows cimport (
    TAKE_LENGTHS, TAKE_STRINGS, Maker, Output, Pad, Part, part_free, part_new, row_of_record, rows_join, rows_of_block, rows_pad, scratch_clear,
    scratch_init)
from queuecore._core.device cimport (
    HOST_END, HOST_READY, HOST_WAIT, Device, DeviceLease, Failure, HostBatch, HostSource, Transfer, Widen, pinned_give, pinned_take, thread_refused,
    transfer_drop, transfer_hand, transfer_hold, transfer_new, transfer_ready, transfer_start, transfer_stop, transfer_wait)
from queuecore._core.slab cimport slab_free, slab_init, slab_slot, slots_pop, slots_push
from queuecore._core.sources cimport (
    READ_FAULT, READ_NOT_CACHED, READ_OK, TAIL_SHORT, TAIL_STREAM, FileList, FileTable, file_skippable, name_of, read_full, table_claim,
    table_close_idle, table_discover, table_drop, table_fault, table_find, table_pinned, table_new, table_pin, table_unpin)
from queuecore._core.stages cimport RowsFn, Step
from queuecore._core.window cimport (
    window_batch, window_ended, window_finish, window_free, window_has_room, window_init, window_less, window_open,
    window_publish, window_ready, window_take)

import numpy as np

from queuecore import errors as _errors
from queuecore import ragged as _ragged
from queuecore._warnings import warn

cnp.import_array()
check_layout(layout_hash())

_CHAR = np.dtype("S1")
_INT64 = np.dtype(np.int64)
_UINT8 = np.dtype(np.uint8)


def _copy(part):
    if isinstance(part, list):  # of arrays of different shapes
        return [one.copy() for one in part]
    return part._copy() if isinstance(part, _ragged.Ragged) else part.copy()


cdef extern from *:
    """
    // A writable C-ordered array over `data` that keeps `base` alive; both counts of references are taken care of.
    static PyObject* qc_view(PyObject* descr, int nd, npy_intp* dims, void* data, PyObject* base) {
      Py_INCREF(descr);  // taken over by NewFromDescr, also when it fails
      PyObject* array = PyArray_NewFromDescr(&PyArray_Type, reinterpret_cast<PyArray_Descr*>(descr), nd, dims, nullptr, data,
                                             NPY_ARRAY_CARRAY, nullptr);
      if (array == nullptr) return nullptr;
      Py_INCREF(base);  // taken over by SetBaseObject, also when it fails
      if (PyArray_SetBaseObject(reinterpret_cast<PyArrayObject*>(array), base) != 0) Py_CLEAR(array);
      return array;
    }
    // What the functions of the user's that this thread runs belong to; borrowed.
    static thread_local PyObject* qc_scope = nullptr;
    static void qc_set_scope(PyObject* scope) { qc_scope = scope; }
    """
    object qc_view(object descr, int nd, cnp.npy_intp* dims, void* data, object base)
    PyObject* qc_scope
    void qc_set_scope(PyObject* scope)

cdef extern from "<sched.h>" nogil:
    int sched_yield()

cdef enum:
    UNIT_ROWS = 0
    UNIT_LOAD = 1
    UNIT_DISCOVER = 2
    UNIT_PIECE = 3
    UNIT_MOVE = 4

cdef enum:
    CLAIM_UNIT = 0
    CLAIM_NOTHING = 1
    CLAIM_STOP = 2

cdef enum:
    UNIT_BYTES = 512 << 10       # of one unit, at most: more makes the first batch late, less pays more for claiming
    SMALL_UNIT_BYTES = 256 << 10  # when several batches make a unit
    CHUNK_BYTES = 64 << 10       # when elements are records
    CHUNK_ROWS = 4096
    UNIT_BATCHES = 64            # of one unit, at most
    TOGETHER_BYTES = 32 << 10    # of rows that a step makes in one pass, and of what they are made of
    LONE_ROWS = 2048             # of one unit, at most, if each may be a read of its own: or else a stop is heard late
    STORE_BYTES = 256 << 20      # a shuffle store is never larger
    STORE_RECORD_BYTES = 32 << 10  # from here one read a record costs less than a second copy
    LOAD_SCATTER_BYTES = 512     # from here the kernel scatters records into the store
    IOVECS = 1024
    DISCOVER_AHEAD = 6           # files that are opened before they are needed
    IDLE_FILES = 128             # kept open for a shuffle that jumps between files
    HELPERS = 4                  # units kept for consumers that help
    OBJECT_BITS = 20             # of a token: which object of a block
    GROUP = 64                   # objects that are handed in together, at most
    MOST_NESTED = 16             # iterators within functions of iterators
    MOST_AGAIN = 3               # those of one function within each other
    GROUP_NS = 100000            # and how long one waits for others: handing in costs a tenth of this
    SLICE_NS = 50000000          # a Python thread looks for signals this often
    SPIN_NS = 80000              # a few times what a futex wake across cores takes
    MAX_DIMS = 32
    LANES = 64                   # files interleaved with pieces of full size
    LANE_BYTES = 16 << 10        # of a piece, where there are many more


# Execution: nothing here is under the turn

cdef void _known_place(Pipe* p, Unit* u, int64_t ordinal, Fault* fault) noexcept nogil:
    # Says of a fault which record it is about, where records have known places.
    u.file_hint = table_find(p.table, ordinal, u.file_hint)
    fault.file = u.file_hint
    fault.record = ordinal - p.table.entries[u.file_hint].base
    fault.offset = p.table.header_bytes + fault.record * p.layout.hop_bytes


cdef int64_t _make_rows(Pipe* p, Unit* u, int64_t pass_, int64_t ordinal, int64_t n, unsigned char* slot, int64_t row,
                        Growing* vars, int* status, Fault* fault) noexcept nogil:
    # Rows of the records that were staged. Returns how many; *status says why not all. What was wrong behind them stays as it is.
    cdef int64_t i
    cdef Fault bad
    u.scratch.arena.epoch = pass_
    for i in range(n):
        u.scratch.arena.element = ordinal + i
        if not row_of_record(&p.maker, &u.scratch, u.stage + i * p.layout.hop_bytes, p.layout.record_bytes, slot, row + i, vars, &bad):
            _known_place(p, u, ordinal + i, &bad)
            fault[0] = bad
            status[0] = READ_FAULT
            return i
    return n


cdef int64_t _read_rows(Pipe* p, Unit* u, int64_t pass_, int64_t ordinal, int64_t n, unsigned char* slot, int64_t row, Growing* vars,
                        bint nowait, int* status, Fault* fault) noexcept nogil:
    # Reads n records from `ordinal` on into rows of a slot. Returns how many are in place; *status says why not all.
    cdef Layout* layout = &p.layout
    cdef FileTable* t = p.table
    cdef FileEntry* e
    cdef int64_t done = 0, m, part, record, offset, got = 0, most, before
    cdef Leaf* leaf = p.leaves
    cdef int fd, count
    if layout.lone_records:
        most = 1
    elif layout.place == PLACE_DIRECT:
        most = n
    elif layout.place == PLACE_SCATTER:
        most = IOVECS // layout.part_count
    else:
        most = layout.stage_records
    status[0] = READ_OK
    while done < n and status[0] == READ_OK:
        u.file_hint = table_find(t, ordinal + done, u.file_hint)
        e = &t.entries[u.file_hint]
        record = ordinal + done - e.base
        m = e.count - record
        if m > n - done:
            m = n - done
        before = done
        fd = table_pin(t, u.file_hint, fault)
        if fd < 0:
            fault.record = record
            status[0] = READ_FAULT
            break
        while m > 0:
            part = most if m > most else m
            offset = t.header_bytes + record * layout.hop_bytes
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
            status[0] = read_full(t, u.file_hint, fd, u.iov, count, offset, nowait, &got, fault)
            if status[0] != READ_OK:
                part = 0 if got < layout.record_bytes else (got - layout.record_bytes) // layout.hop_bytes + 1
            if p.maker.run != NULL:
                part = _make_rows(p, u, pass_, ordinal + done, part, slot, row + done, vars, status, fault)
            elif layout.place == PLACE_DIRECT or layout.place == PLACE_SCATTER:
                layout_mend(layout, slot, row + done, part)
            else:
                layout_split(layout, u.stage, layout.hop_bytes, slot, row + done, part)
            done += part
            record += part
            m -= part
            if status[0] != READ_OK:
                break
        table_unpin(t, u.file_hint, done - before if p.order.bottom_shuffle == NULL else 0)
    return done


cdef int32_t _read_near(Pipe* p, Unit* u, const RunList* list_, int32_t first, unsigned char* slot, int64_t row, Growing* vars,
                        bint nowait) noexcept nogil:
    # Lone records that follow each other in equal, small steps, as in a shard: one read over what lies between. Returns how many are in
    # place; -1: not all could be read. Others are to be read one by one, which also finds out what is wrong with one of them.
    cdef Layout* layout = &p.layout
    cdef FileTable* t = p.table
    cdef FileEntry* e
    cdef const Run* run = &list_.runs[first]
    cdef int64_t step, record, offset, got = 0
    cdef int32_t n = 1, i
    cdef int fd
    cdef bint well
    cdef Fault fault
    if p.blocks != NULL or p.store != NULL or first + 1 >= list_.count:
        return 0
    step = run[1].ordinal - run.ordinal
    if run.n != 1 or step < 1 or step >= layout.stage_records or step * layout.hop_bytes - layout.record_bytes > WIDE_GAP:
        return 0
    u.file_hint = table_find(t, run.ordinal, u.file_hint)
    e = &t.entries[u.file_hint]
    record = run.ordinal - e.base
    while (first + n < list_.count and run[n].ordinal == run.ordinal + n * step and run[n].n == 1 and run[n].pass_ == run.pass_
           and n * step < layout.stage_records and record + n * step < e.count):
        n += 1
    if n == 1:
        return 0
    fd = table_pin(t, u.file_hint, &fault)
    if fd < 0:
        return -1
    offset = t.header_bytes + record * layout.hop_bytes
    u.iov[0].iov_base = u.stage
    u.iov[0].iov_len = (n - 1) * step * layout.hop_bytes + layout.record_bytes
    well = read_full(t, u.file_hint, fd, u.iov, 1, offset, nowait, &got, &fault) == READ_OK
    table_unpin(t, u.file_hint, n if well and p.order.bottom_shuffle == NULL else 0)
    if not well:
        return -1
    if p.maker.run == NULL:
        layout_split(layout, u.stage, step * layout.hop_bytes, slot, row, n)
        return n
    u.scratch.arena.epoch = run.pass_
    for i in range(n):
        u.scratch.arena.element = run[i].ordinal
        if not row_of_record(&p.maker, &u.scratch, u.stage + i * step * layout.hop_bytes, layout.record_bytes, slot, row + i, vars, &fault):
            return i
    return n


cdef void _fail(Pipe* p, Batch* b, int64_t row, int64_t pass_, int64_t ordinal, const Fault* fault) noexcept nogil:
    # The batch's first unreadable row counts. A slow path: the turn guards the comparison.
    turn_take(p.turn)
    if b.failed.load(kRelaxed) == 0 or row < b.fault_row:  # relaxed: guarded by the turn
        b.fault_row = row
        b.fault_pass = pass_
        b.fault_ordinal = ordinal
        b.fault = fault[0]
        b.failed.store(1, kRelaxed)  # relaxed: published to the consumer by B3 in window.pxd
    turn_give(p.turn)


cdef bint _skippable(const Fault* f) noexcept nogil:
    # What is wrong with one record, and not with the machine.
    return (f.code == CODE_STEP or f.code == CODE_CHECKSUM or f.code == CODE_CSV or f.code == CODE_TOO_LARGE
            or f.code == CODE_DATA_LOSS)


cdef bint _leave_out(Pipe* p, Batch* b, int64_t pass_, int64_t ordinal, const Fault* fault) noexcept nogil:
    # Notes a bad record, for a new run without it. False: it is to be an error.
    cdef Bad* grown
    cdef bint noted = True
    if not p.config.skip_bad or not _skippable(fault):
        return False
    turn_take(p.turn)
    if p.bad_count == p.bad_room:
        grown = <Bad*>realloc(p.bad, (2 * p.bad_room + 16) * sizeof(Bad))
        noted = grown != NULL
        if noted:
            p.bad = grown
            p.bad_room = 2 * p.bad_room + 16
    if noted:
        p.bad[p.bad_count].place.pass_ = pass_
        p.bad[p.bad_count].place.ordinal = ordinal
        p.bad[p.bad_count].fault = fault[0]
        p.bad_count += 1
        b.failed.store(1, kRelaxed)  # relaxed: published to the consumer by B3 in window.pxd
    turn_give(p.turn)
    return noted


cdef int _make_run(Pipe* p, Unit* u, Segment* s, const Run* run, unsigned char* slot, int64_t row, Growing* vars, bint nowait) noexcept nogil:
    # The rows of one run of records, or none of those after a bad one.
    cdef int64_t done = 0, i = 0, id
    cdef int status = READ_OK
    cdef Fault fault
    cdef bint leave = False
    while done < run.n:
        if run.block != NULL:
            done += rows_of_block(&p.maker, &u.scratch, run.block, run.first + done, run.n - done, run.ordinal + done, slot, row + done, vars,
                                  &fault)
            if done == run.n:
                break
            fault.file = -1 if p.maker.framing == FRAME_ROWS else run.block.place.file
            status = READ_FAULT
        elif p.blocks != NULL:  # a place that a run began at lies behind a record that it still needs
            memset(&fault, 0, sizeof(Fault))
            fault.code = CODE_INTERNAL
            fault.stage = STAGE_RUNNER
            fault.file = fault.offset = fault.record = -1
            runner_stop(p.runner, &fault)
            return READ_FAULT
        elif p.store != NULL:  # row `id` of the store is a record
            status = READ_OK
            while done < run.n and status == READ_OK:
                id = run.ordinal + done
                i = p.order.bottom_shuffle.shuffle.records[id].ordinal  # it stays until the row is released
                u.scratch.arena.element = i
                u.scratch.arena.epoch = p.order.bottom_shuffle.shuffle.records[id].pass_
                if row_of_record(&p.maker, &u.scratch, p.store + id * p.store_stride, p.layout.record_bytes, slot, row + done, vars, &fault):
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
            done += _read_rows(p, u, run.pass_, run.ordinal + done, run.n - done, slot, row + done, vars, nowait, &status, &fault)
            if status == READ_NOT_CACHED:
                return READ_NOT_CACHED
            if status == READ_OK:
                break
        if not _leave_out(p, s.batch, run.pass_, run.ordinal + done, &fault):
            _fail(p, s.batch, row + done, run.pass_, run.ordinal + done, &fault)
            return READ_FAULT
        done += 1  # others after it may be bad too: better known now than in a run for each
        leave = True
    return READ_FAULT if leave else READ_OK


cdef int64_t _room_of(Pipe* p, const Growing* vars) noexcept nogil:
    cdef int64_t room = 0
    cdef int32_t i
    for i in range(p.maker.vars):
        room += vars[i].room
    return room


cdef void _count_room(Pipe* p, uint32_t slot) noexcept nogil:
    cdef int64_t room = _room_of(p, p.vars + <int64_t>slot * p.maker.vars), most
    p.shared.grown.fetch_add(room - p.rooms[slot], kRelaxed)
    p.rooms[slot] = room
    most = p.shared.largest.load(kRelaxed)
    while room > most and not p.shared.largest.compare_exchange_weak(most, room, kRelaxed, kRelaxed):
        pass


cdef int64_t _memory(Pipe* p) noexcept nogil:
    # relaxed: statistics
    return p.fixed_bytes + p.shared.grown.load(kRelaxed) + p.shared.blocks.load(kRelaxed)


cdef void _over_budget(Pipe* p, int64_t nbytes) noexcept nogil:
    cdef Fault f
    memset(&f, 0, sizeof(Fault))
    f.code = CODE_EXHAUSTED
    f.what = WHAT_BUDGET
    f.file = f.offset = f.record = -1
    f.a = nbytes
    f.b = p.config.budget
    runner_stop(p.runner, &f)


cdef bint _run_rows(Pipe* p, Unit* u, bint nowait) noexcept nogil:
    # False: bytes are not in the page cache; segments before segment_at are done.
    cdef Segment* s
    cdef Run* run
    cdef unsigned char* slot
    cdef Growing* vars
    cdef Part* part
    cdef int64_t row, i
    cdef int32_t r, near
    cdef int status = READ_OK
    while u.segment_at < u.segment_count:
        s = &u.segments[u.segment_at]
        slot = slab_slot(p.slab, s.batch.slot)
        if p.store != NULL and p.maker.run == NULL:
            i = 0
            for r in range(s.runs.count):
                run = &s.runs.runs[r]
                for row in range(run.n):
                    u.ids[i] = <uint32_t>(run.ordinal + row)
                    i += 1
            layout_gather(&p.layout, p.store, p.store_stride, u.ids, slot, s.row, s.runs.rows)
        else:
            vars = NULL
            part = NULL
            if p.maker.vars > 0 and s.row == 0:
                vars = p.vars + <int64_t>s.batch.slot * p.maker.vars
                for r in range(p.maker.vars):
                    vars[r].nbytes = 0
            elif p.maker.vars > 0:
                part = part_new(&p.maker, s.row)
                if part == NULL:
                    _no_memory(p)
                    return True
                part.rows = s.runs.rows
                vars = part.vars
            row = s.row
            near = 0
            for r in range(s.runs.count):
                if near == 0:
                    near = _read_near(p, u, &s.runs, r, slot, row, vars, nowait)
                if near > 0:
                    near -= 1
                    row += 1
                    continue
                run = &s.runs.runs[r]
                status = _make_run(p, u, s, run, slot, row, vars, nowait)
                if status == READ_NOT_CACHED:
                    if part != NULL:
                        part_free(&p.maker, part)
                    return False
                if status != READ_OK and not p.config.skip_bad:
                    break
                row += run.n
            if vars != NULL and part == NULL:
                _count_room(p, s.batch.slot)
            if part != NULL:
                p.shared.grown.fetch_add(_room_of(p, part.vars), kRelaxed)  # relaxed: as are all of these: a statistic and a hint
                turn_take(p.turn)
                part.next = <Part*>s.batch.parts
                s.batch.parts = part
                turn_give(p.turn)
        u.segment_at += 1
        if window_less(s.batch, s.runs.rows):
            _complete(p, s.batch, s.k)
    return True


cdef void _complete(Pipe* p, Batch* b, uint64_t k) noexcept nogil:
    # All rows of the batch are there. Without the turn.
    cdef Part* parts = <Part*>b.parts
    cdef Part* next = parts
    cdef int64_t room = 0
    b.parts = NULL
    while next != NULL:
        room += _room_of(p, next.vars)
        next = next.next
    if parts != NULL and b.failed.load(kRelaxed):  # relaxed: ordered by B4
        while parts != NULL:
            next = parts.next
            part_free(&p.maker, parts)
            parts = next
    elif parts != NULL and not rows_join(&p.maker, parts, slab_slot(p.slab, b.slot), p.vars + <int64_t>b.slot * p.maker.vars):
        _no_memory(p)
        return
    if p.maker.pad_count > 0 and not b.failed.load(kRelaxed):  # relaxed: ordered by B4
        if not rows_pad(&p.maker, slab_slot(p.slab, b.slot), p.vars + <int64_t>b.slot * p.maker.vars, b.rows):
            _no_memory(p)
            return
    if p.maker.vars > 0:  # the slot is this batch's alone
        _count_room(p, b.slot)
        p.shared.grown.fetch_sub(room, kRelaxed)
        if p.config.budget > 0 and p.fixed_bytes + p.rooms[b.slot] > p.config.budget:
            _over_budget(p, p.fixed_bytes + p.rooms[b.slot])
            return
    window_publish(p.window, b, k)


cdef bint _run_load(Pipe* p, Unit* u, bint nowait) noexcept nogil:
    # Reads records into their rows of the store. False: not in the page cache; nothing counts as done then.
    cdef Layout* layout = &p.layout
    cdef FileTable* t = p.table
    cdef FileEntry* e
    cdef Run* run
    cdef int64_t at = 0, done, m, part, record, got = 0, i, gap, before
    cdef int32_t r
    cdef int fd, count, status = READ_OK
    cdef bint scatter
    gap = layout.hop_bytes - layout.record_bytes
    scatter = gap >= 0 and layout.record_bytes >= LOAD_SCATTER_BYTES and not layout.lone_records
    for r in range(u.runs.count):
        run = &u.runs.runs[r]
        done = 0
        while done < run.n:
            u.file_hint = table_find(t, run.ordinal + done, u.file_hint)
            e = &t.entries[u.file_hint]
            record = run.ordinal + done - e.base
            m = e.count - record
            if m > run.n - done:
                m = run.n - done
            before = done
            fd = table_pin(t, u.file_hint, &u.fault)
            if fd < 0:
                u.fault.record = record
                u.good = at
                return True
            while m > 0 and status == READ_OK:
                if scatter:
                    part = IOVECS // 2 if m > IOVECS // 2 else m
                    count = 0
                    for i in range(part):
                        u.iov[count].iov_base = p.store + u.ids[at + i] * p.store_stride
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
                status = read_full(t, u.file_hint, fd, u.iov, count, t.header_bytes + record * layout.hop_bytes, nowait, &got,
                                   &u.fault)
                if status != READ_OK:
                    part = 0 if got < layout.record_bytes else (got - layout.record_bytes) // layout.hop_bytes + 1
                if not scatter:
                    for i in range(part):
                        memcpy(p.store + u.ids[at + i] * p.store_stride, u.stage + i * layout.hop_bytes, layout.record_bytes)
                at += part
                done += part
                record += part
                m -= part
            table_unpin(t, u.file_hint, done - before)
            if status == READ_NOT_CACHED:
                return False
            if status != READ_OK:
                u.good = at
                return True
    u.good = at
    return True


cdef bint _execute(Pipe* p, Unit* u, bint nowait) noexcept nogil:
    if u.kind == UNIT_ROWS:
        return _run_rows(p, u, nowait)
    if u.kind == UNIT_LOAD:
        return _run_load(p, u, nowait)
    if u.kind == UNIT_PIECE:
        return blocks_read(p.blocks, u.piece, nowait)
    if u.kind == UNIT_MOVE:
        blocks_move(p.blocks, u.piece)
        return True
    table_discover(p.table, u.file)
    return True


# Planning: under the turn

cdef void _mark_lanes(Pipe* p, Batch* b, uint64_t k) noexcept nogil:
    # Where interleaved files are: now, or, under a shuffle, when the oldest block came to it of which it still has something.
    cdef Blocks* s = p.blocks
    cdef Op* source = &p.order.ops[0]
    cdef int64_t n = blocks_saved(s.cycle)
    cdef int64_t* saved = p.lane_marks + <int64_t>(k & p.window.mask) * (n + 1)
    if p.order.bottom_shuffle != NULL and s.oldest != NULL:
        b.mark_pass = s.oldest.saved[0]
        b.mark_end = b.mark_good = s.oldest.saved[1]
        memcpy(saved, s.oldest.saved + 2, (n + 1) * sizeof(int64_t))
    else:
        b.mark_pass = source.pass_
        b.mark_end = source.position
        b.mark_good = source.given if p.order.bottom_shuffle == NULL else source.position
        blocks_save(s, saved)
        saved[n] = s.skipped_count
    memset(b.mark_place, 0, sizeof(Place))
    b.mark_files = s.next_file if source.pass_ == 0 else -1


cdef void _mark_oldest(Blocks* s, Batch* b) noexcept nogil:
    # A shuffle may keep any record for long: a new run begins with the oldest block that it has something of. A shuffle lets bad
    # records in, so the good ones before it are all that there are.
    if s.oldest != NULL:
        b.mark_pass = s.oldest.pass_
        b.mark_end = s.oldest.place.base
        memcpy(b.mark_place, &s.oldest.place, sizeof(Place))
    else:
        b.mark_pass = s.given_pass
        b.mark_end = s.given_until
        memcpy(b.mark_place, &s.given_place, sizeof(Place))
    b.mark_good = b.mark_end


cdef void _close_batch(Pipe* p) noexcept nogil:
    cdef Batch* b = p.open
    cdef uint64_t k = p.next_batch - 1
    cdef Op* op = p.order.bottom_shuffle
    cdef int64_t i, at = 0
    if p.blocks != NULL and p.blocks.cycle > 1:
        _mark_lanes(p, b, k)
    elif op != NULL and p.blocks != NULL:
        _mark_oldest(p.blocks, b)
    elif op != NULL:
        b.mark_pass = op.shuffle.entered_pass
        b.mark_end = op.shuffle.entered_end
    if p.blocks != NULL and p.blocks.cycle == 1:
        b.mark_files = p.blocks.given_place.file + 1 if p.blocks.given_pass == 0 else -1
    for i in range(p.order.count):
        if p.order.ops[i].shuffle != NULL:
            p.window.iterations[<int64_t>(k & p.window.mask) * p.order.count + at] = p.order.ops[i].shuffle.begun
            at += 1
    p.open = NULL
    if not window_less(b, p.config.batch_rows - b.rows + 1):
        return
    if b.parts == NULL and p.maker.pad_count == 0:
        window_publish(p.window, b, k)
    else:  # bytes are to be copied: not under the turn
        p.whole[p.whole_count] = k
        p.whole_count += 1


cdef void _finish_order(Pipe* p, int status) noexcept nogil:
    # The order has no more rows: what is open is given as it stands, and the window gets its end.
    cdef uint64_t end = p.next_batch
    p.end_status = status
    if status == PULL_FAULT:
        p.end_fault = p.order.fault
    if p.open != NULL:
        if p.open.rows == 0:  # it was never there; its slot stays with this run
            end -= 1
            p.open = NULL
        else:
            _close_batch(p)
    window_finish(p.window, end)


cdef bint _plan_rows(Pipe* p, Unit* u, bint anyway) noexcept nogil:
    # False: nothing can be planned now, or, unless it is to be `anyway`, not enough.
    cdef Segment* s = NULL
    cdef RunList* list_
    cdef Batch* b
    cdef uint32_t slot
    cdef int64_t before, most, used = 0
    cdef Run* last
    cdef RecordBlock* block
    cdef int status
    if p.maker.vars > 0 and p.blocks != NULL and not anyway and not _worth_it(p):
        return False
    u.kind = UNIT_ROWS
    u.segment_count = 0
    u.segment_at = 0
    u.rows = 0
    u.nbytes = 0
    while u.rows < p.ramp_rows and u.segment_count < p.config.unit_segments and p.end_status == PULL_OK and u.nbytes < p.config.unit_bytes:
        if p.open == NULL:
            # What varies in length is copied once more where several units make a batch.
            if u.nbytes > 0 and p.maker.vars > 0 and u.nbytes + u.nbytes * p.config.batch_rows // u.rows > p.config.unit_bytes:
                break
            if not _has_room(p) or not slots_pop(&p.slab.stack, &slot):
                break
            window_open(p.window, p.next_batch, slot, p.config.batch_rows)
            p.open = window_batch(p.window, p.next_batch)
            p.next_batch += 1
            p.shared.planned.store(p.next_batch, kRelaxed)  # relaxed: a hint
            s = NULL
        b = p.open
        if s == NULL:
            s = &u.segments[u.segment_count]
            s.batch = b
            s.k = p.next_batch - 1
            s.row = b.rows
            memset(&s.runs, 0, sizeof(RunList))
            s.runs.runs = u.runs.runs + used
        list_ = &s.runs
        most = p.config.batch_rows - b.rows
        if most > p.ramp_rows - u.rows:
            most = p.ramp_rows - u.rows
        before = list_.rows
        list_.closed = False
        status = order_pull(p.order, most, list_)
        if list_.rows > before:
            if before == 0:
                u.segment_count += 1
            b.rows += list_.rows - before
            u.rows += list_.rows - before
            last = &list_.runs[list_.count - 1]
            if p.order.bottom_shuffle == NULL:
                b.mark_pass = last.pass_
                b.mark_end = last.ordinal + last.n
                b.mark_good = last.good + last.n
            block = last.block
            if block != NULL:
                if p.order.bottom_shuffle == NULL:
                    memcpy(b.mark_place, &block.place, sizeof(Place))
                u.nbytes += (list_.rows - before) * (block.used // block.count)
        # Elements that are records share a chunk, which closes when it is full, or when nobody knows when more will come.
        if (b.rows == p.config.batch_rows or (status == PULL_WAIT and p.maker.framing == FRAME_ROWS and b.rows > 0 and not p.config.batched)
                if not p.config.batched or p.order.top.rows == 1 else list_.closed and b.rows > 0):
            b.subs = list_.subs
            used += list_.count
            s = NULL
            _close_batch(p)
        if status == PULL_END or status == PULL_FAULT:
            _finish_order(p, status)
        elif status == PULL_NO_MEMORY:
            _order_without_memory(p)
            break
        elif status != PULL_OK:
            break
    # The first units are small, so that the first batch doesn't wait for what comes after it.
    if u.rows > 0 and p.ramp_rows < p.config.unit_rows:
        p.ramp_rows = 2 * p.ramp_rows if 2 * p.ramp_rows < p.config.unit_rows else p.config.unit_rows
    return u.segment_count > 0


cdef bint _worth_it(Pipe* p) noexcept nogil:
    # Whether so many records are there that a unit makes a whole batch.
    cdef Blocks* s = p.blocks
    cdef int64_t rows = p.config.batch_rows, most
    # Of what is handed in, nobody knows when more of it comes.
    if s.records == 0 or (s.cycle == 1 and s.lanes.scanned) or s.ahead >= s.most or s.framing == FRAME_ROWS:
        return True
    if blocks_full(s):
        return True
    if p.open != NULL:
        rows -= p.open.rows
    most = p.config.unit_bytes * s.records // (s.nbytes + 1) + 1
    return s.available >= (rows if rows < most else most)


cdef bint _has_room(Pipe* p) noexcept nogil:
    # Whether one more batch may be begun.
    cdef int64_t rows, ahead, largest
    if not window_has_room(p.window, p.next_batch):
        return False
    # One batch may always be in flight, and no other until it shows how large they are.
    ahead = <int64_t>(p.next_batch - p.window.consumed.load(kRelaxed))  # relaxed: one batch more or less
    if p.config.budget > 0 and p.maker.vars > 0 and ahead > 0:
        # Each of those under way may become as large as any before it, twice while its parts are joined; and pieces take what they may.
        largest = p.shared.largest.load(kRelaxed)
        ahead = (2 * (ahead + 1) + p.shared.leases.load(kRelaxed)) * largest - p.shared.grown.load(kRelaxed)
        if p.blocks != NULL and p.blocks.memory_most > p.shared.blocks.load(kRelaxed):
            ahead = (ahead if ahead > 0 else 0) + p.blocks.memory_most - p.shared.blocks.load(kRelaxed)
        if largest == 0 or _memory(p) + (ahead if ahead > 0 else 0) + largest > p.config.budget - p.config.budget // 4:
            return False
    if p.blocks == NULL or p.blocks.records == 0:
        return True
    # As many as keep all workers busy, now that the size of records shows.
    rows = SMALL_UNIT_BYTES * p.blocks.records // (p.blocks.nbytes + 1) + 1
    if rows > p.config.unit_rows:
        rows = p.config.unit_rows
    ahead = ((2 * (p.config.threads + p.config.help) + 4) * rows + p.config.batch_rows - 1) // p.config.batch_rows + 1
    if ahead < p.config.prefetch + 1:
        ahead = p.config.prefetch + 1
    # relaxed: one batch more or less
    return <int64_t>(p.next_batch - p.window.consumed.load(kRelaxed)) < ahead + p.config.buffers


cdef void _no_memory(Pipe* p) noexcept nogil:
    cdef Fault f
    memset(&f, 0, sizeof(Fault))
    f.code = CODE_EXHAUSTED
    f.what = WHAT_MEMORY
    f.file = f.offset = f.record = -1
    runner_stop(p.runner, &f)


cdef void _order_without_memory(Pipe* p) noexcept nogil:
    # By who has the turn. What the order would say after that is wrong: nobody asks it again.
    p.end_status = PULL_NO_MEMORY
    _no_memory(p)


cdef bint _plan_load(Pipe* p, Unit* u) noexcept nogil:
    # False: nothing is left to load, or no row of the store is free.
    if p.end_status != PULL_OK:
        return False
    u.kind = UNIT_LOAD
    u.runs.count = 0
    u.runs.rows = 0
    u.good = 0
    u.rows = order_plan_load(p.order, p.config.load_rows, &u.runs, u.ids, &u.first)
    return u.rows > 0


cdef void _forward(Pipe* p) noexcept nogil:
    # Brings the order program to where this run starts, a piece at a time.
    cdef Order* order = p.order
    cdef int64_t target
    cdef int status = PULL_OK
    if order.skip_left > 0:
        status = order_forward(order, 65536)
        if status == PULL_NO_MEMORY:
            _order_without_memory(p)
            return
    if order.skip_left > 0 and status != PULL_END and status != PULL_FAULT:
        return
    if p.cut_at < p.cut_count:
        order_cut(order, p.cuts[p.cut_at].pass_, p.cuts[p.cut_at].ordinal, &p.cuts[p.cut_at].fault)
        target = p.cuts[p.cut_at + 1].at if p.cut_at + 1 < p.cut_count else p.config.skip
        order.skip_left = target - p.cuts[p.cut_at].at
        p.cut_at += 1
        return
    if not order_begin(order):
        _order_without_memory(p)
    p.begun = True


cdef bint _wants_file(Pipe* p) noexcept nogil:
    # relaxed: known_* only grow, and a late look only discovers a little later
    cdef int64_t known = p.table.known_records.load(kRelaxed)
    if p.blocks != NULL:
        return p.table.known_files.load(kRelaxed) < p.table.files and p.table.known_files.load(kRelaxed) - blocks_wanted(p.blocks) < 3
    return (p.table.known_files.load(kRelaxed) < p.table.files
            and (p.order.needs_count or known - p.order.ops[0].position < (p.config.threads + 2) * p.ramp_rows))


cdef int _claim(Pipe* p, bint helper, Unit** unit) noexcept nogil:
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
    if u == NULL:
        turn_give(p.turn)
        return CLAIM_NOTHING
    p.free_units = u.next
    while not p.begun and not helper:
        f = p.order.skip_left
        _forward(p)
        if not p.begun and p.order.skip_left == f and f > 0:
            break  # it needs a file
        if stop_requested(&p.runner.stop):
            break
    if not helper and _wants_file(p):
        f = table_claim(p.table, DISCOVER_AHEAD)
        if f >= 0:
            u.kind = UNIT_DISCOVER
            u.file = f
            rc = CLAIM_UNIT
    if rc != CLAIM_UNIT and p.blocks != NULL and not p.begun:
        rc = _claim_piece(p, u, helper)
    if rc != CLAIM_UNIT and p.begun:
        # Rows of the store that are free are filled first: at the end of an epoch that is the next one's window, which else would
        # fill only once this one's is empty. A consumer that helps waits for its batch, and makes that.
        if not helper and p.store != NULL and order_room(p.order) >= p.config.load_rows and _plan_load(p, u):
            rc = CLAIM_UNIT
        elif _plan_rows(p, u, False) or (p.store != NULL and _plan_load(p, u)):
            rc = CLAIM_UNIT
        elif p.blocks != NULL:
            rc = _claim_piece(p, u, helper)
            if rc != CLAIM_UNIT and p.blocks.reading == 0 and _plan_rows(p, u, True):  # no more is coming
                rc = CLAIM_UNIT
    if rc != CLAIM_UNIT:
        u.next = p.free_units
        p.free_units = u
    _give_turn(p)
    unit[0] = u
    return rc


cdef int _claim_piece(Pipe* p, Unit* u, bint helper) noexcept nogil:
    # Memory comes free first.
    u.piece = blocks_claim_moving(p.blocks)
    if u.piece != NULL:
        u.kind = UNIT_MOVE
        return CLAIM_UNIT
    # A record, or what a shuffle keeps, may need more blocks than there may be.
    if p.config.budget > 0 and p.fixed_bytes + p.shared.blocks.load(kRelaxed) > p.config.budget:  # relaxed: a statistic
        _over_budget(p, p.fixed_bytes + p.shared.blocks.load(kRelaxed))
        return CLAIM_NOTHING
    u.piece = blocks_claim(p.blocks, helper)
    if u.piece == NULL:
        return CLAIM_NOTHING
    u.kind = UNIT_PIECE
    return CLAIM_UNIT


cdef void _give_turn(Pipe* p) noexcept nogil:
    # And publishes what became whole meanwhile.
    cdef uint64_t k
    while p.whole_count > 0:
        p.whole_count -= 1
        k = p.whole[p.whole_count]
        turn_give(p.turn)
        _complete(p, window_batch(p.window, k), k)
        turn_take(p.turn)
    turn_give(p.turn)
    if p.maker.framing == FRAME_ROWS:
        event_notify_all(&p.shared.room)


cdef void _retire(Pipe* p, Unit* u) noexcept nogil:
    # A unit that has run: what it held is free, what it brought is known.
    cdef int32_t i, j
    cdef int64_t k
    cdef Segment* s
    cdef RecordBlock* block
    cdef Lane* lane
    # Others may wait for this file, these rows or records, or the room they left.
    cdef bint tell = u.kind != UNIT_ROWS or p.store != NULL or p.blocks != NULL
    turn_take(p.turn)
    if u.kind == UNIT_PIECE:
        lane = blocks_retire(p.blocks, u.piece)
        while lane != NULL:
            block = blocks_next_to_index(p.blocks, lane)
            if block == NULL:
                break
            turn_give(p.turn)
            blocks_index(p.blocks, block)
            turn_take(p.turn)
            blocks_publish(p.blocks, block)
            if event_has_waiters(&p.runner.work):
                event_notify(&p.runner.work, 1)
    elif u.kind == UNIT_MOVE:
        blocks_moved(p.blocks, u.piece)
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
    u.next = p.free_units
    p.free_units = u
    turn_give(p.turn)  # the unit is somebody else's from here on
    if tell:
        event_notify_all(&p.runner.work)
        if p.config.help:
            event_notify_all(&p.window.arrived)


cdef void _give_back(Pipe* p, Unit* u) noexcept nogil:
    u.next = NULL
    turn_take(p.turn)
    if p.returned_first == NULL:
        p.returned_first = u
    else:
        p.returned_last.next = u
    p.returned_last = u
    p.shared.returned.fetch_add(1, kRelaxed)  # relaxed: a hint
    turn_give(p.turn)
    event_notify(&p.runner.work, 1)


cdef int _step(void* context, int32_t worker) noexcept nogil:
    cdef Pipe* p = <Pipe*>context
    cdef Unit* u = NULL
    cdef int rc = _claim(p, False, &u)
    if rc == CLAIM_STOP:
        return STEP_DONE
    if rc == CLAIM_NOTHING:
        return STEP_IDLE
    _execute(p, u, False)
    _retire(p, u)
    return STEP_WORKED


cdef bint _help(Pipe* p) noexcept nogil:
    # The consumer runs a unit itself, as long as the page cache has the bytes. False: nothing was done.
    cdef Unit* u = NULL
    if p.shared.returned.load(kRelaxed) > 0:  # relaxed: a hint; what isn't cached waits for a worker already
        return False
    if _claim(p, True, &u) != CLAIM_UNIT:
        return False
    if not _execute(p, u, True):
        _give_back(p, u)
        return False
    _retire(p, u)
    p.shared.helped.fetch_add(1, kRelaxed)  # relaxed: a statistic
    return True


# A pipe's life

cdef void _hold(void* context) noexcept nogil:
    (<Pipe*>context).shared.refs.fetch_add(1, kRelaxed)  # relaxed: the caller holds a reference


cdef void _drop(void* context) noexcept nogil:
    cdef Pipe* p = <Pipe*>context
    # acq_rel: release, this holder is done; acquire, the last one frees what all others wrote
    if p.shared.refs.fetch_sub(1, kAcqRel) == 1:
        _pipe_free(p)


cdef void _worker_drop(void* context) noexcept nogil:
    # Files are for workers: whoever leaves closes those that nobody reads, so that an ended stream holds none.
    cdef Pipe* p = <Pipe*>context
    table_close_idle(p.table)
    if p.blocks != NULL:
        turn_take(p.turn)
        blocks_close(p.blocks)
        turn_give(p.turn)
    _drop(context)


cdef void _pipe_free(Pipe* p) noexcept nogil:
    cdef int32_t i
    cdef int64_t k
    cdef Unit* u
    cdef Part* part
    cdef Part* next
    if p.runner != NULL:
        registry_remove(p.runner)
    if p.units != NULL:
        for i in range(p.unit_count):
            u = &p.units[i]
            free(u.runs.runs)
            free(u.segments)
            free(u.ids)
            free(u.iov)
            free(u.stage)
            free(u.dump)
            scratch_clear(&u.scratch)
    free(p.units)
    if p.blocks != NULL:
        blocks_clear(p.blocks)
        free(p.blocks)
    if p.vars != NULL:
        for k in range(p.slab.slots * <int64_t>p.maker.vars):
            free(p.vars[k].data)
        free(p.vars)
    free(p.rooms)
    if p.window != NULL and p.window.ring != NULL:
        for i in range(<int32_t>p.window.mask + 1):
            part = <Part*>p.window.ring[i].parts
            while part != NULL:
                next = part.next
                part_free(&p.maker, part)
                part = next
    free(p.lane_marks)
    free(p.maker.outputs)
    free(p.maker.pads)
    free(p.missing)
    free(p.whole)
    free(p.bad)
    if p.slab != NULL:
        if p.pinned:
            pinned_give(p.config.core, p.slab.base, p.slab.mapped_bytes)
            p.slab.base = NULL
        slab_free(p.slab)
    if p.window != NULL:
        window_free(p.window)
    buffer_give(p.store, p.store_bytes)
    order_free(p.order)
    table_drop(p.table)
    layout_clear(&p.layout)
    free(p.cuts)
    free(p.specs)
    free(p.leaves)
    free(p.offsets)
    free(p.slab)
    free(p.window)
    free(p.runner)
    free(p.turn)
    free(p.shared)
    if p.pipes != NULL:
        p.pipes.fetch_sub(1, kRelease)  # release: pairs with _Keeper's acquire; nothing of the steps is used any more
    free(p)


cdef bint _units_init(Pipe* p) noexcept nogil:
    cdef int32_t i
    cdef Unit* u
    cdef int64_t rows = p.config.unit_rows, ids
    cdef int64_t stage = 1 if p.blocks != NULL else (p.layout.stage_records - 1) * p.layout.hop_bytes + p.layout.record_bytes
    cdef int64_t dump = p.layout.dump_bytes
    if p.layout.hop_bytes - p.layout.record_bytes > dump and not p.layout.lone_records:
        dump = p.layout.hop_bytes - p.layout.record_bytes
    ids = rows if rows > p.config.load_rows else p.config.load_rows
    p.unit_count = p.config.threads + p.config.helpers
    p.units = <Unit*>calloc(p.unit_count, sizeof(Unit))
    if p.units == NULL:
        return False
    for i in range(p.unit_count):
        u = &p.units[i]
        u.runs.runs = <Run*>malloc((ids + 1) * sizeof(Run))
        u.segments = <Segment*>malloc((p.config.unit_segments + 1) * sizeof(Segment))
        u.ids = <uint32_t*>malloc((ids + 1) * sizeof(uint32_t))
        u.iov = <iovec*>malloc((IOVECS + 1) * sizeof(iovec))
        u.stage = <unsigned char*>alloc_lines(stage)
        u.dump = <unsigned char*>alloc_lines(dump + 1)
        if u.runs.runs == NULL or u.segments == NULL or u.ids == NULL or u.iov == NULL or u.stage == NULL or u.dump == NULL:
            return False
        if p.maker.count > 0 and not scratch_init(&u.scratch, &p.maker):
            return False
        u.next = p.free_units
        p.free_units = u
    p.fixed_bytes += p.unit_count * _unit_bytes(ids, p.config.unit_segments, stage, dump)
    return True


cdef int64_t _unit_bytes(int64_t ids, int64_t segments, int64_t stage, int64_t dump) noexcept nogil:
    return (ids + 1) * (sizeof(Run) + sizeof(uint32_t)) + (segments + 1) * sizeof(Segment) + (IOVECS + 1) * sizeof(iovec) + stage + dump


cdef int64_t _lay_out(Pipe* p) noexcept nogil:
    # Where in a slot what lies. Returns the bytes of a slot.
    cdef int64_t slot_bytes = 0, rows = p.config.batch_rows
    cdef Output* out
    cdef int32_t i
    if p.maker.count == 0:
        for i in range(p.layout.leaf_count):
            p.layout.leaves[i].slot_offset = slot_bytes
            slot_bytes += (p.layout.leaves[i].row_bytes * rows + 63) // 64 * 64
    for i in range(p.maker.count):
        out = &p.maker.outputs[i]
        out.slot_offset = slot_bytes
        slot_bytes += ((out.row_bytes * rows if out.item == 0 else (rows + 1) * sizeof(int64_t)) + 63) // 64 * 64
        out.dims_offset = slot_bytes
        slot_bytes += (out.ndim * rows * sizeof(int64_t) + 63) // 64 * 64
    for i in range(p.maker.pad_count):
        p.maker.pads[i].slot_offset = slot_bytes
        slot_bytes += (p.maker.pads[i].ndim * sizeof(int64_t) + 63) // 64 * 64
    return (slot_bytes + (slot_bytes == 0) + 4095) // 4096 * 4096  # rows may have no bytes at all


cdef bint _slab_init(Pipe* p, int64_t slots, int64_t slot_bytes) noexcept nogil:
    cdef void* memory = NULL
    if p.config.core != NULL and slots <= (<int64_t>1 << 62) // slot_bytes:
        memory = pinned_take(p.config.core, slots * slot_bytes, &p.pin_result)
        if memory == NULL and p.pin_result != 0 and not p.config.prefer:
            return False
    p.pinned = memory != NULL
    if slab_init(p.slab, <uint32_t>slots, slot_bytes, memory):
        return True
    p.pinned = False
    if memory != NULL:
        pinned_give(p.config.core, memory, slots * slot_bytes)
        p.slab.base = NULL
    return False


cdef Pipe* _pipe_new(Pipe* plan, FileTable* table, const Cut* cuts, int32_t cut_count, int64_t skip) noexcept nogil:
    # A run of the same plan (whose leaves, specs and config are copied). Takes over the reference on the table. NULL: no memory.
    cdef Pipe* p = <Pipe*>calloc(1, sizeof(Pipe))
    cdef Config* c
    cdef int64_t slot_bytes, pieces = 0, slots
    cdef int32_t i
    cdef int64_t k
    cdef Leaf* leaf
    cdef Output* out
    cdef bint well
    if p == NULL:
        table_drop(table)
        return NULL
    p.table = table
    p.pipes = plan.pipes
    p.pipes.fetch_add(1, kRelaxed)  # relaxed: the caller is who looks at it
    p.generation = fork_generation()
    p.config = plan.config
    c = &p.config
    c.skip = skip
    p.ramp_rows = c.unit_rows if c.unit_rows < c.batch_rows else c.batch_rows
    p.shared = <PipeAtomics*>alloc_lines(sizeof(PipeAtomics))
    p.turn = <Turn*>alloc_lines(sizeof(Turn))
    p.runner = <Runner*>alloc_lines(sizeof(Runner))
    p.window = <Window*>alloc_lines(sizeof(Window))
    p.slab = <Slab*>alloc_lines(sizeof(Slab))
    p.spec_count = plan.spec_count
    p.specs = <OpSpec*>malloc((plan.spec_count + 1) * sizeof(OpSpec))
    p.leaves = <Leaf*>malloc((plan.layout.leaf_count + 1) * sizeof(Leaf))
    p.cuts = <Cut*>malloc((cut_count + 1) * sizeof(Cut))
    for i in range(plan.layout.leaf_count):
        pieces += plan.leaves[i].pieces
    p.offsets = <int64_t*>malloc((pieces + 1) * sizeof(int64_t))
    p.maker = plan.maker
    p.maker.outputs = <Output*>malloc((plan.maker.count + 1) * sizeof(Output))
    p.maker.pads = <Pad*>malloc((plan.maker.pad_count + 1) * sizeof(Pad))
    p.missing = <Missing*>malloc((plan.missing_count + 1) * sizeof(Missing))
    if (p.shared == NULL or p.turn == NULL or p.runner == NULL or p.window == NULL or p.slab == NULL or p.specs == NULL
            or p.leaves == NULL or p.cuts == NULL or p.offsets == NULL or p.maker.outputs == NULL or p.maker.pads == NULL or p.missing == NULL):
        _pipe_free(p)
        return NULL
    p.shared.refs.store(1, kRelaxed)  # relaxed: nobody else knows of it yet
    memcpy(p.specs, plan.specs, plan.spec_count * sizeof(OpSpec))
    if cut_count > 0:
        memcpy(p.cuts, cuts, cut_count * sizeof(Cut))
    p.cut_count = cut_count
    pieces = 0
    for i in range(plan.layout.leaf_count):
        leaf = &p.leaves[i]
        leaf[0] = plan.leaves[i]
        memcpy(p.offsets + pieces, leaf.offsets, leaf.pieces * sizeof(int64_t))
        leaf.offsets = p.offsets + pieces
        pieces += leaf.pieces
    if p.maker.count > 0:
        memcpy(p.maker.outputs, plan.maker.outputs, p.maker.count * sizeof(Output))
        if p.maker.pad_count > 0:
            memcpy(p.maker.pads, plan.maker.pads, p.maker.pad_count * sizeof(Pad))
        for i in range(p.maker.pad_count):
            p.maker.outputs[p.maker.pads[i].output].pad = &p.maker.pads[i]
    p.layout.leaves = p.leaves
    p.layout.leaf_count = plan.layout.leaf_count
    slot_bytes = _lay_out(p)
    p.layout.record_bytes = plan.layout.record_bytes
    p.layout.hop_bytes = plan.layout.hop_bytes
    if plan.missing_count > 0:
        memcpy(p.missing, plan.missing, plan.missing_count * sizeof(Missing))
    p.missing_count = plan.missing_count
    p.start = plan.start
    p.place = plan.place
    table.retries = c.retries
    table.stop = &p.runner.stop
    if c.blocks:
        p.blocks = <Blocks*>malloc(sizeof(Blocks))
        if p.blocks == NULL:
            _pipe_free(p)
            return NULL
        p.blocks[0] = plan.blocks[0]
        p.blocks.memory = &p.shared.blocks
        if not blocks_init(p.blocks, table, &p.runner.stop, c.threads + c.help, &p.place, p.start.pass_, p.start.ordinal, plan.saved):
            _pipe_free(p)
            return NULL
        p.blocks.release = _link_release
        if c.budget > 0 and p.maker.framing == FRAME_ROWS:
            p.blocks.most = 2
    slots = c.width + c.max_leases + 1
    p.order = order_new(table, p.blocks, c.skip_bad, &p.start, p.missing, p.missing_count, p.specs, p.spec_count, c.store_rows)
    p.fixed_bytes = slots * slot_bytes
    well = p.order != NULL and (p.blocks != NULL or layout_plan(&p.layout))
    if well and c.budget > 0 and p.layout.stage_records > c.stage_most:
        p.layout.stage_records = c.stage_most
    well = well and window_init(p.window, c.width, p.order.count) and _slab_init(p, slots, slot_bytes) and _units_init(p)
    if well and p.maker.run != NULL:
        p.layout.place = PLACE_STAGE
    if well and p.blocks != NULL and p.blocks.cycle > 1:
        p.lane_marks = <int64_t*>malloc((p.window.mask + 1) * (blocks_saved(p.blocks.cycle) + 1) * sizeof(int64_t))
        well = p.lane_marks != NULL
    if well and p.maker.vars > 0:
        p.vars = <Growing*>calloc(slots * p.maker.vars, sizeof(Growing))
        p.rooms = <int64_t*>calloc(slots, sizeof(int64_t))
        p.whole = <uint64_t*>malloc((p.window.mask + 1) * sizeof(uint64_t))
        well = p.vars != NULL and p.rooms != NULL and p.whole != NULL
    if not well:
        plan.pin_result = p.pin_result
        plan.fixed_bytes = p.fixed_bytes
        _pipe_free(p)
        return NULL
    for k in range(slots):
        for i in range(p.maker.count):
            out = &p.maker.outputs[i]
            if out.item > 0:
                (<int64_t*>(slab_slot(p.slab, <uint32_t>k) + out.slot_offset))[0] = 0
    if c.store_rows > 0:
        p.store_stride = (c_record(p) + 63) // 64 * 64
        p.store_bytes = <size_t>(p.order.bottom_shuffle.shuffle.capacity * p.store_stride)
        p.fixed_bytes += p.store_bytes
        p.store = <unsigned char*>buffer_take(p.store_bytes)
        if p.store == NULL:
            _pipe_free(p)
            return NULL
    p.order.skip_left = p.cuts[0].at if cut_count > 0 else skip
    p.runner.step = _step
    p.runner.release = _worker_drop
    p.runner.context = p
    return p


cdef inline int64_t c_record(const Pipe* p) noexcept nogil:
    return p.layout.record_bytes


# The iterator

cdef class ShuffleCounter:
    """Where a dataset object's shuffle stands: the number of the next iteration over it.

    Attributes
    ----------
    next_iteration : int
        0 at first; iteration e takes the master generator's numbers 2e and 2e + 1.
    """
    cdef public int64_t next_iteration


@cython.final
@cython.no_gc
@cython.freelist(16)
cdef class _Lease:
    # A consumer's hold on a slot: the base object of every array of one batch. Ends when the last of them is gone; that gives
    # the slot back and never waits.
    cdef Pipe* pipe
    cdef uint32_t slot

    def __dealloc__(self):
        cdef Pipe* p = self.pipe
        if p == NULL or p.generation != fork_generation():
            return
        p.shared.leases.fetch_sub(1, kRelaxed)  # relaxed: consumers count leases under the GIL
        slots_push(&p.slab.stack, self.slot)
        _drop(p)


cdef enum:
    STATE_RUNNING = 0
    STATE_ENDED = 1
    STATE_CLOSED = 2
    STATE_FAILED = 3


cdef list _keepers = []


# Batches for a device

cdef int _host_look(void* context, uint64_t k, HostBatch* batch) noexcept nogil:
    cdef Pipe* p = <Pipe*>context
    cdef Batch* b
    cdef int32_t i
    cdef int64_t end
    if not window_ready(p.window, k):
        return HOST_END if stop_requested(&p.runner.stop) or window_ended(p.window, k) else HOST_WAIT
    b = window_batch(p.window, k)
    if b.failed.load(kRelaxed):  # relaxed: published by B3 in window.pxd. The consumer begins another run
        return HOST_END if stop_requested(&p.runner.stop) else HOST_WAIT
    batch.data = slab_slot(p.slab, b.slot)
    batch.slot = b.slot
    batch.rows = b.rows
    batch.pinned = p.pinned
    batch.nbytes = 0
    for i in range(p.maker.count if p.maker.count > 0 else p.layout.leaf_count):
        if p.maker.count > 0:
            end = p.maker.outputs[i].slot_offset + p.maker.outputs[i].row_bytes * b.rows
        else:
            end = p.leaves[i].slot_offset + p.leaves[i].row_bytes * b.rows
        if end > batch.nbytes:
            batch.nbytes = end
    return HOST_READY


cdef void _host_give(void* context, uint32_t slot) noexcept nogil:
    slots_push(&(<Pipe*>context).slab.stack, slot)


cdef void _host_wait(void* context, uint64_t k, int64_t deadline_ns) noexcept nogil:
    cdef Window* w = (<Pipe*>context).window
    cdef uint32_t epoch = event_prepare(&w.arrived)
    cdef HostBatch batch
    if _host_look(context, k, &batch) == HOST_WAIT:
        event_wait(&w.arrived, epoch, deadline_ns)
    else:
        event_cancel(&w.arrived, epoch)


@cython.final
@cython.no_gc  # a collection must not empty it while threads work: to them nothing refers that Python knows
cdef class _Keeper:
    # Workers use what Python objects own (steps, formats), and may outlive the iterator, which does not wait for them when it goes.
    # So it leaves its keeper behind, and later ones look which of those are still needed.
    cdef Atomic[int32_t]* pipes
    cdef list kept
    cdef Output* columns

    def __cinit__(self):
        self.pipes = <Atomic[int32_t]*>alloc_lines(sizeof(int32_t))
        if self.pipes == NULL:
            raise MemoryError

    def __dealloc__(self):
        free(self.pipes)
        free(self.columns)


cdef void _describe_together(Maker* m, RowsFn run_rows) noexcept nogil:
    # As many rows at once as stay in the first-level cache.
    cdef int64_t nbytes = 1
    cdef int32_t i
    for i in range(m.column_count):
        if m.columns[i].item != 0:
            return
        nbytes += m.columns[i].row_bytes
    for i in range(m.count):
        if m.outputs[i].item != 0:
            return
        nbytes += m.outputs[i].row_bytes
    m.run_rows = run_rows
    m.together = TOGETHER_BYTES // nbytes


cdef int _describe_output(Output* outputs, int32_t at, int32_t cell, str kind, dtype, shape, int32_t* vars) except -1:
    # How a component lies in batches, or in columns: in one output, or two. Returns the number behind.
    cdef Output* out = &outputs[at]
    out.cell = cell
    if kind == "object":
        out.row_bytes = sizeof(int64_t)
        return at + 1
    if kind == "fixed":
        out.row_bytes = dtype.itemsize
        for side in shape:
            out.row_bytes *= side
        return at + 1
    out.var = vars[0]
    vars[0] += 1
    out.item = dtype.itemsize if dtype.itemsize and kind != "strings" else 1
    if kind == "dense":
        out.ndim = len(shape)
    elif kind == "strings":
        out.take = TAKE_STRINGS
        out = &outputs[at + 1]
        out.cell = cell
        out.take = TAKE_LENGTHS
        out.item = sizeof(int64_t)
        out.var = vars[0]
        vars[0] += 1
        return at + 2
    return at + 1


cdef int32_t describe_columns(Output* columns, int64_t* shapes, list components) except -1:
    cdef int32_t count = 0, vars = 0, i, j
    cdef Output* out
    for i, (kind, dtype, shape) in enumerate(components):
        count = _describe_output(columns, count, i, kind, dtype, shape, &vars)
        out = &columns[count - 1]
        if kind == "ragged":  # steps want to know the shape of a row
            out.ndim = 1 + len(shape)
        elif kind == "fixed":
            out.ndim = len(shape)
        if kind == "fixed" or kind == "ragged":
            for j, side in enumerate(shape, out.ndim - len(shape)):
                shapes[(count - 1) * MAX_DIMS + j] = side
    return count


cdef int _sweep() except -1:
    global _keepers
    # acquire: pairs with _pipe_free
    _keepers = [one for one in _keepers if (<_Keeper>one).pipes.load(kAcquire) != 0]
    return 0


cdef int _by_missing(const void* a, const void* b) noexcept nogil:
    # Of Missing, and of Bad, which begins with one.
    cdef const Missing* x = <const Missing*>a
    cdef const Missing* y = <const Missing*>b
    if x.pass_ != y.pass_:
        return -1 if x.pass_ < y.pass_ else 1
    return -1 if x.ordinal < y.ordinal else (1 if x.ordinal > y.ordinal else 0)


cdef enum:
    # Besides HANDED: why a thread comes back to Python.
    LINK_LOOK = 10               # the stream wants something: it is at its end, or failed, or nothing comes
    LINK_COPY = 11               # this batch is to be handed in from there
    LINK_STALE = 12
    LINK_STOP = 13
    LINK_MEMORY = 14
    LINK_COLUMNS = 64

# What a block lies in that came natively: a slot of another pipe.
cdef struct LinkOwner:
    Pipe* pipe
    uint32_t slot
    int64_t rows[1]


cdef void _link_release(void* one) noexcept nogil:
    cdef LinkOwner* owner = <LinkOwner*>one
    cdef Pipe* p = owner.pipe
    if p.generation == fork_generation():
        p.shared.leases.fetch_sub(1, kRelaxed)  # relaxed: a count; the slot itself changes hands by slots_push
        slots_push(&p.slab.stack, owner.slot)
        _drop(p)
    free(owner)


@cython.final
cdef class Feed:
    """Where one Python thread hands in the rows of one run of a stream.

    What it hands in lies in arrays and other objects that stay until the run has made its batches of them. It doesn't keep the stream
    alive: where that goes, every call here says that nothing is wanted any more.
    """
    cdef Pipe* pipe
    cdef dict owners          # by number: what a block's columns lie in
    cdef object dying         # numbers and batches: not before these are delivered may the objects go
    cdef int64_t number
    cdef int64_t skip
    cdef list errors
    # What waits for company: objects, or numbers of rows. The consumer that finds nothing ready takes it, so all of this is used under
    # the GIL.
    cdef list group
    cdef list group_columns   # None: objects
    cdef int64_t group_pass, group_begun
    cdef bint awaited         # by the consumer, since the last ones were handed in
    cdef bint handing         # by either

    def __dealloc__(self):
        if self.pipe != NULL and self.pipe.generation == fork_generation():
            _drop(self.pipe)

    cdef bint _await(self, uint32_t epoch) noexcept nogil:
        # A slice of time, or until something changes. False: the run is over.
        if stop_requested(&self.pipe.runner.stop):
            event_cancel(&self.pipe.shared.room, epoch)
            return False
        event_wait(&self.pipe.shared.room, epoch, monotonic_ns() + SLICE_NS)
        return not stop_requested(&self.pipe.runner.stop)

    cdef void _tell(self) noexcept nogil:
        # Whoever makes rows looks what there is.
        event_notify_all(&self.pipe.runner.work)
        if self.pipe.config.help:
            event_notify_all(&self.pipe.window.arrived)

    cdef int _offer(self, int64_t pass_, const Column* columns, int64_t first, const int64_t* rows, int64_t n, int64_t nbytes, int64_t owner,
                    void* link, bint wait) noexcept nogil:
        # Hands in a block; wait: for room, if there is none. What blocks_hand says; HANDED_FULL after a wait: the run is over.
        cdef Pipe* p = self.pipe
        cdef uint32_t epoch
        cdef int status = HANDED_FULL
        while status == HANDED_FULL:
            epoch = event_prepare(&p.shared.room)
            turn_take(p.turn)
            status = blocks_hand(p.blocks, pass_, columns, p.maker.column_count, first, rows, n, nbytes, owner, link)
            turn_give(p.turn)
            if status != HANDED_FULL or not wait:
                event_cancel(&p.shared.room, epoch)
                break
            if not self._await(epoch):
                break
        if status == HANDED:
            self._tell()
        return status

    def next_pass(self, int64_t after):
        """Wait until a pass behind `after` is wanted. Returns its number and that of the first row, or `None`: no more will be."""
        cdef Pipe* p = self.pipe
        cdef Blocks* s = p.blocks
        cdef int64_t pass_ = -1, base = 0
        cdef uint32_t epoch
        cdef bint going = True
        with nogil:
            while going:
                epoch = event_prepare(&p.shared.room)
                turn_take(p.turn)
                if s.lanes.pass_ > after and not s.lanes.scanned:
                    pass_ = s.lanes.pass_
                    base = s.lanes.base
                turn_give(p.turn)
                if pass_ >= 0:
                    event_cancel(&p.shared.room, epoch)
                    break
                going = self._await(epoch)
        if not going:
            wait_out_exit()
            return None
        return pass_, base

    def hand(self, int64_t pass_, list columns, int64_t n, *, owner, int64_t first=0, rows=None):
        """Hand in the next `n` rows, and wait while too many are ahead. False: no more of this pass is wanted.

        Parameters
        ----------
        columns : list
            For each, an array of all rows; or, of varying rows, a tuple of their bytes, where each ends, and None or their dimensions.
            Contiguous, and not changed any more.
        owner : object
            Kept as long as the rows are used, besides the columns.
        first : int
            Where the rows begin.
        rows : array of int64, optional
            Which rows they are, instead.
        """
        return self._flush(True) and self._hand(pass_, columns, n, owner, first, rows, True) == HANDED

    cdef int _hand(self, int64_t pass_, list columns, int64_t n, owner, int64_t first, rows, bint wait) except -1:
        cdef Pipe* p = self.pipe
        cdef int32_t count = <int32_t>len(columns), i
        cdef Column* native
        cdef int64_t nbytes = 0, number = self.number
        cdef const int64_t* chosen = NULL
        cdef int status
        cdef cnp.ndarray array
        if n == 0:
            return HANDED_STALE if stop_requested(&p.runner.stop) else HANDED
        if count != p.maker.column_count:
            raise ValueError("not as many columns as were announced")
        native = <Column*>calloc(count + 1, sizeof(Column))
        if native == NULL:
            raise MemoryError
        try:
            for i in range(count):
                if isinstance(columns[i], tuple):
                    array = columns[i][0]
                    nbytes += cnp.PyArray_NBYTES(array)
                    native[i].data = <unsigned char*>cnp.PyArray_DATA(array)
                    array = columns[i][1]
                    native[i].ends = <int64_t*>cnp.PyArray_DATA(array)
                    if columns[i][2] is not None:
                        array = columns[i][2]
                        native[i].dims = <int64_t*>cnp.PyArray_DATA(array)
                else:
                    array = columns[i]
                    nbytes += cnp.PyArray_NBYTES(array)
                    native[i].data = <unsigned char*>cnp.PyArray_DATA(array)
            if rows is not None:
                array = rows
                chosen = <int64_t*>cnp.PyArray_DATA(array)
            self.number += 1
            self.owners[number] = columns, owner, rows
            with nogil:
                status = self._offer(pass_, native, first, chosen, n, nbytes, number, NULL, wait)
        finally:
            free(native)
        if status != HANDED:
            del self.owners[number]
            if status == HANDED_NO_MEMORY:
                raise MemoryError
            if status == HANDED_FULL and wait:
                wait_out_exit()
            return status
        self._sweep()
        return HANDED

    def hand_objects(self, int64_t pass_, list objects):
        """Hand in Python objects as the next elements, of a stream whose only component is of the kind "object"."""
        if not self._flush(True):
            return False
        self.group = objects
        self.group_columns = None
        self.group_pass = pass_
        return self._flush(True)

    def add(self, int64_t pass_, element):
        """Hand in one more object; with others, unless the consumer waits for it. False: no more of this pass is wanted."""
        return self._add(pass_, None, element)

    def add_row(self, int64_t pass_, list columns, row):
        """Hand in one more row of columns, by its number, as `add` does."""
        return self._add(pass_, columns, row)

    cdef bint _add(self, int64_t pass_, list columns, item) except *:
        if self.handing or (self.group and self.group_columns is not columns):
            if not self._flush(True):
                return False
        if not self.group:
            self.group = []
            self.group_columns = columns
            self.group_pass = pass_
            self.group_begun = monotonic_ns()
        self.group.append(item)
        if self.awaited or len(self.group) >= GROUP or monotonic_ns() - self.group_begun >= GROUP_NS:
            return self._flush(True)
        return True

    cdef bint _flush(self, bint wait) except *:
        # Hands in the group. wait: by whom it is fed, and not by the consumer, for whom others will do it. False: no more is wanted.
        cdef list group
        cdef int status
        while self.handing:
            if not wait:
                return True
            with nogil:  # until the consumer is done with it: it doesn't wait
                sched_yield()
        group = self.group
        if not group:
            return True
        self.group = None
        self.handing = True
        # Before handing in, which lets go of the GIL: the consumer may have taken these meanwhile, and wait for others.
        self.awaited = False
        try:
            if self.group_columns is None:
                tokens = np.arange(len(group), dtype=np.int64) + (self.number << OBJECT_BITS)
                status = self._hand(self.group_pass, [tokens], len(group), group, 0, None, wait)
            else:
                status = self._hand(self.group_pass, self.group_columns, len(group), None, 0, np.array(group, np.int64), wait)
        finally:
            self.handing = False
        if status == HANDED_FULL and not wait:
            self.group = group
            self.awaited = True
            return True
        return status == HANDED

    cdef int _press(self) except -1:
        # The consumer is about to wait.
        self.awaited = True
        if self.group:
            self._flush(False)
        return 0

    def choose(self, int64_t pass_, Stream child, int mask, int64_t skip=0):
        """Hand in the rows of a stream's batches in which a component is true, without it, until the stream ends.

        Runs without the GIL, apart from the ends and failures of the stream, and where too many of its batches are held.

        Parameters
        ----------
        child : Stream
            Of batches; used by nobody else.
        mask : int
            The last one of its components, a bool.
        skip : int
            So many rows are left out first.

        Returns
        -------
        bool
            False: no more of this pass is wanted.
        """
        cdef Pipe* up
        cdef int status
        child.raw = True
        self.skip = skip
        while True:
            try:
                child._until_ready()
            except StopIteration:
                return True
            up = child.pipe
            _hold(up)
            try:
                with nogil:
                    status = self._choose(child, up, pass_)
            finally:
                _drop(up)
            if status == LINK_STALE:
                return False
            if status == LINK_STOP:
                wait_out_exit()
                return False
            if status == LINK_MEMORY:
                raise MemoryError
            if status == LINK_COPY:
                _, columns = child.next_columns()
                rows = np.flatnonzero(columns[mask])[self.skip:]
                self.skip = max(0, self.skip - np.count_nonzero(columns[mask]))
                if not self.hand(pass_, columns[:mask], len(rows), owner=None, rows=rows):
                    return False
            self._sweep()

    cdef int _choose(self, Stream child, Pipe* up, int64_t pass_) noexcept nogil:
        cdef uint64_t k
        cdef Batch* b
        cdef int status
        while True:
            if stop_requested(&self.pipe.runner.stop):
                return LINK_STOP
            k = child.next_k
            if not window_ready(up.window, k):
                child._wait(up, k)
                if not window_ready(up.window, k):
                    return LINK_LOOK
            b = window_batch(up.window, k)
            if b.failed.load(kRelaxed):  # relaxed: published by B3 in window.pxd
                return LINK_LOOK
            # relaxed: only this thread takes leases
            if child.plan.config.skip_bad or self.pipe.maker.column_count > LINK_COLUMNS or up.shared.leases.load(kRelaxed) >= up.config.max_leases:
                return LINK_COPY
            status = self._link(up, b, pass_)
            if status != HANDED:
                return status
            child._note(up, b, k)

    cdef int _link(self, Pipe* up, Batch* b, int64_t pass_) noexcept nogil:
        # The rows of one batch.
        cdef Pipe* p = self.pipe
        cdef unsigned char* slot = slab_slot(up.slab, b.slot)
        cdef const unsigned char* mask = slot + up.maker.outputs[up.maker.count - 1].slot_offset
        cdef Column columns[LINK_COLUMNS]
        cdef const Output* out
        cdef LinkOwner* owner
        cdef int64_t n = 0, row, skip, nbytes = 0
        cdef int32_t i
        cdef int status
        for row in range(b.rows):
            n += mask[row] != 0
        skip = self.skip if self.skip < n else n
        self.skip -= skip
        n -= skip
        if n == 0:
            slots_push(&up.slab.stack, b.slot)
            return HANDED
        owner = <LinkOwner*>malloc(sizeof(LinkOwner) + n * sizeof(int64_t))
        if owner == NULL:
            return LINK_MEMORY
        owner.pipe = up
        owner.slot = b.slot
        n = 0
        for row in range(b.rows):
            if mask[row] != 0 and skip > 0:
                skip -= 1
            elif mask[row] != 0:
                owner.rows[n] = row
                n += 1
        for i in range(p.maker.column_count):
            out = &up.maker.outputs[i]
            memset(&columns[i], 0, sizeof(Column))
            if out.item == 0:
                columns[i].data = slot + out.slot_offset
                nbytes += n * out.row_bytes
                continue
            columns[i].ends = <int64_t*>(slot + out.slot_offset)
            columns[i].data = up.vars[<int64_t>b.slot * up.maker.vars + out.var].data
            nbytes += columns[i].ends[b.rows]
            if out.ndim > 0:
                columns[i].dims = <int64_t*>(slot + out.dims_offset)
        _hold(up)
        up.shared.leases.fetch_add(1, kRelaxed)  # relaxed: as in _link_release
        status = self._offer(pass_, columns, 0, owner.rows, n, nbytes, -1, owner, True)
        if status == HANDED:
            return HANDED
        _link_release(owner)
        return LINK_STOP if status == HANDED_FULL else (LINK_MEMORY if status == HANDED_NO_MEMORY else LINK_STALE)

    cdef list _objects(self, const int64_t* tokens, int64_t n):
        cdef int64_t i
        cdef list made = []
        for i in range(n):
            made.append((<tuple>self.owners[tokens[i] >> OBJECT_BITS])[1][tokens[i] & ((1 << OBJECT_BITS) - 1)])
        return made

    cdef int _sweep(self) except -1:
        # Lets go of what is no longer used. Objects that batches name stay until these are delivered.
        cdef Pipe* p = self.pipe
        cdef Blocks* s = p.blocks
        cdef int64_t number
        cdef uint64_t planned
        while True:
            turn_take(p.turn)
            planned = p.next_batch
            number = -1
            if s.freed_count > 0:
                s.freed_count -= 1
                number = s.freed[s.freed_count]
            turn_give(p.turn)
            if number < 0:
                break
            self.dying.append((number, planned))
        # acquire: pairs with B2 in window.pxd; what was read of a batch was read before it was taken
        while self.dying and self.dying[0][1] <= p.window.consumed.load(kAcquire):
            self.owners.pop(self.dying.popleft()[0], None)
        return 0

    def end(self, int64_t pass_, error=None):
        """Say that this was all of the pass; or, with an exception, that this comes instead of the rest."""
        cdef Pipe* p = self.pipe
        cdef Fault f
        try:
            if not self._flush(True):
                return
        except MemoryError as failed:  # that comes instead of what it was about to hand in
            error = failed
        memset(&f, 0, sizeof(Fault))
        f.file = f.offset = f.record = -1
        f.code = CODE_HANDED
        f.a = len(self.errors)
        if error is not None:
            self.errors.append(error)
        with nogil:
            turn_take(p.turn)
            blocks_hand_end(p.blocks, pass_, &f if error is not None else NULL)
            turn_give(p.turn)
            self._tell()

    @property
    def stopped(self):
        """Whether nothing more is wanted at all."""
        return stop_requested(&self.pipe.runner.stop)


@cython.final
cdef class Scope:
    """What functions of the user's belong to: those that make the elements of one iterator. Such a function can't wait for that iterator.

    Parameters
    ----------
    inner : bool
        Whether the iterator belongs to another one, and was not opened by a function.
    node : object, optional
        Whose functions they are.

    Attributes
    ----------
    stopped : bool
        Whether nobody wants these elements any more: then the functions can open no further iterators.
    """
    cdef Scope parent
    cdef object node
    cdef int depth            # of iterators that functions opened within functions
    cdef public bint stopped

    def __init__(self, bint inner, node=None):
        cdef Scope scope
        cdef int again = 0
        self.node = node
        self.parent = scope = <Scope>qc_scope if qc_scope != NULL else None
        if scope is not None:
            self.depth = scope.depth + (not inner)
        while scope is not None:
            if scope.stopped:
                raise _errors.FailedPreconditionError("the iterator that this function makes elements for is closed")
            again += scope.node is node and node is not None
            scope = scope.parent
        # In several threads each level has several times as many as the one above it.
        if again > MOST_AGAIN or self.depth > MOST_NESTED:
            raise _errors.FailedPreconditionError(
                f"iterators are nested {max(again, self.depth)} deep: a function iterates over a dataset that calls it again")

    def enter(self):
        """Say that this thread runs such functions from now on. Returns what was so before, for `leave`; keep this object until then."""
        before = <Scope>qc_scope if qc_scope != NULL else None
        qc_set_scope(<PyObject*>self)
        return before

    @staticmethod
    def leave(Scope before):
        """Say that it no longer does."""
        qc_set_scope(<PyObject*>before if before is not None else NULL)


@cython.no_gc_clear  # __dealloc__ needs its keeper
cdef class Stream:
    """One iteration over a plan: reads, decodes and batches in native threads, and hands out batches in order.

    The base class of :class:`queuecore.data.Iterator`, which documents what a user sees.
    """
    cdef Pipe* pipe
    cdef Pipe plan            # leaves, specs and config only
    cdef FileTable* table
    cdef FileList files
    cdef object template
    cdef list dtypes
    cdef list counters        # ShuffleCounter or None, one a shuffle
    cdef list levels          # batch sizes, the innermost first
    cdef bint on_hold_raise
    cdef public bint _warned  # that batches are held
    cdef int64_t stall_warn_ns, stall_timeout_ns  # -1: never
    cdef int64_t moved, still_since
    cdef bint warned_still
    cdef int64_t files_logged # of the pipe's blocks
    cdef int64_t table_logged # of the table's files
    cdef int state
    cdef object failure
    cdef uint64_t generation
    cdef uint64_t next_k
    cdef int64_t delivered    # elements, from the very start
    cdef int64_t mark_pass, mark_end, mark_files
    cdef int64_t* base        # per shuffle: iteration of the dataset object at the start of the run
    cdef int64_t* begun       # per shuffle: iterations begun at the mark
    cdef int32_t shuffles
    cdef Cut* cuts
    cdef int32_t cut_count
    cdef list chunk           # arrays of the records not yet handed out one by one
    cdef int64_t chunk_at, chunk_rows
    cdef int64_t chunk_pass, chunk_end, chunk_files
    cdef int64_t spin_ns
    cdef int64_t copied, records, helped_before
    cdef int64_t expect_files
    cdef uint64_t expect_digest
    cdef Step step            # of the maker, or None
    cdef CsvFormat csv
    cdef _Keeper keeper
    cdef list components      # of elements that are made: see __init__
    cdef object assemble
    cdef object last          # the error of a record that was one too many to be left out
    cdef object skips         # gets the errors of what is left out; None: they are raised
    cdef Blocks frame         # how blocks are framed
    cdef Start mark           # after the last element that was delivered whole, with its place
    cdef Place mark_place
    cdef Start chunk_mark
    cdef Place chunk_place
    cdef object feeder        # gets the Feed of a run, and sees to it that rows come
    cdef Feed feed
    cdef Scope scope          # of the feeder
    cdef Output* columns      # of what is handed in
    cdef bint told            # to stop
    cdef bint raw             # batches are given as columns
    cdef int64_t* mark_saved  # interleaved: as of blocks_save, of the mark and of the chunk; and files given up
    cdef int64_t* chunk_saved
    cdef bint is_saved        # there is one
    cdef Missing* missing
    cdef int64_t missing_count
    cdef int64_t* dims_store  # per leaf: number of dimensions and the dimensions of a row
    cdef int* ndims
    cdef Device device        # where batches go, or None
    cdef object target        # queuecore.data._device.Target, of which these are parts:
    cdef object arrays        # makes arrays of what lies there
    cdef bint ring            # a batch is good until the next one
    cdef object widen         # makes something else of it there (queuecore.data._device.Widening), or None
    cdef object kernel        # of the pipe
    cdef object compiled      # it; must live as long as it is launched
    cdef DeviceLease last_lease
    cdef Transfer* transfer   # of the pipe
    cdef int64_t sent_before, pageable_before
    cdef bint warned_pageable

    def __cinit__(self, *_, **__):
        self.generation = fork_generation()
        self.state = STATE_CLOSED  # until __init__ is done

    def __init__(self, FileList files not None, *, int64_t record_bytes, int64_t header_bytes, int64_t footer_bytes,
                 int64_t hop_bytes, bint drop_tail, list leaves, template, list ops, int num_threads, bint help, int64_t prefetch,
                 int64_t max_leases=4, bint on_hold_raise=False, dict blocks=None, Step step=None, CsvFormat csv=None, list components=None,
                 assemble=None, list pads=None, skips=None, int retries=0, double stall_warn=-1, double stall_timeout=-1, feeder=None, Scope scope=None,
                 bint inner=False, int64_t memory_budget=0, device=None):
        """Describe a stream.

        Parameters
        ----------
        blocks : dict, optional
            Of records without known places: "framing" (a number), "encoding", "header", "max_record_bytes", and the bytes about which
            a record has, "guess".
        step : Step, optional
            What is made of each record; else it is cut into `leaves`, or, of blocks, is a string, or a row of `csv`.
        components : list of tuple
            Of what is made: what it is ("fixed", "string", "strings", "ragged", "dense"), its dtype, its shape, or how many dimensions.
        assemble : callable, optional
            From a list of components, batched, to an element.
        pads : list of tuple or None, optional
            Of components whose rows are padded: what each of their dimensions becomes (-1: the longest of a batch), and the bytes of an
            item.
        feeder : callable, optional
            Where rows are handed in (framing "rows"): gets a `Feed` for each run, and returns at once.
        scope : Scope, optional
            Of the functions that run for it.
        memory_budget : int
            Bytes that its buffers may take, about; 0: any.
        inner : bool
            Whether it works for another stream: then it never says that batches are held.
        device : tuple, optional
            Where its batches go, of components that are all "fixed" (queuecore.data._device.Target): the `Device`, what makes arrays there,
            how many may be there at a time, whether a batch is only good until the next one, whether memory that can't be page-locked
            will do, and what is made of a batch there.
        """
        cdef int32_t i, j, n = len(leaves)
        cdef Pipe* plan = &self.plan
        cdef Config* c = &plan.config
        cdef Leaf* leaf
        cdef OpSpec* spec
        cdef int64_t batch_bytes, per_unit, fd_limit, row_bytes = 0, chunk_bytes
        cdef bint stored = True, sharded = False
        if self.files is not None:
            raise TypeError("an iterator can't be initialised twice")
        self.files = files
        self.template = template
        self.on_hold_raise = on_hold_raise
        self.expect_files = -1
        self.spin_ns = SPIN_NS
        self.dtypes = []
        self.counters = []
        self.levels = []
        plan.leaves = <Leaf*>calloc(n + 1, sizeof(Leaf))
        plan.specs = <OpSpec*>calloc(len(ops) + 1, sizeof(OpSpec))
        self.base = <int64_t*>calloc(len(ops) + 1, sizeof(int64_t))
        self.begun = <int64_t*>calloc(len(ops) + 1, sizeof(int64_t))
        self.ndims = <int*>calloc(n + 1, sizeof(int))
        self.dims_store = <int64_t*>calloc((n + 1) * MAX_DIMS, sizeof(int64_t))
        if (plan.leaves == NULL or plan.specs == NULL or self.base == NULL or self.begun == NULL or self.ndims == NULL
                or self.dims_store == NULL):
            raise MemoryError
        plan.layout.leaf_count = n
        plan.layout.record_bytes = record_bytes
        plan.layout.hop_bytes = hop_bytes
        for i, (dtype, shape, swap, offsets, piece_bytes) in enumerate(leaves):
            leaf = &plan.leaves[i]
            self.dtypes.append(dtype)
            self.ndims[i] = len(shape)
            if len(shape) > MAX_DIMS:
                raise _errors.InvalidArgumentError(f"field number {i} has {len(shape)} dimensions; at most {MAX_DIMS} are possible")
            for j in range(self.ndims[i]):
                self.dims_store[i * MAX_DIMS + j] = shape[j]
            leaf.swap = swap
            leaf.pieces = len(offsets)
            leaf.piece_bytes = piece_bytes
            leaf.row_bytes = piece_bytes * len(offsets)
            row_bytes += leaf.row_bytes
            leaf.offsets = <int64_t*>malloc((leaf.pieces + 1) * sizeof(int64_t))
            if leaf.offsets == NULL:
                raise MemoryError
            for j in range(leaf.pieces):
                (<int64_t*>leaf.offsets)[j] = offsets[j]
        c.batch_rows = 1
        for i, op in enumerate(ops):
            spec = &plan.specs[i]
            spec.size = op[1]
            if op[0] == "take":
                spec.kind = OP_TAKE
            elif op[0] == "skip":
                spec.kind = OP_SKIP
            elif op[0] == "repeat":
                spec.kind = OP_REPEAT
            elif op[0] == "batch":
                spec.kind = OP_BATCH
                spec.flag = op[2]
                if op[1] > (<int64_t>1 << 40) // c.batch_rows:
                    raise _errors.InvalidArgumentError(f"a batch of {op[1]} x {c.batch_rows} records is too large")
                c.batch_rows *= op[1]
                c.batched = True
                self.levels.append(op[1])
            elif op[0] == "shuffle":
                spec.kind = OP_SHUFFLE
                spec.seed_lo = op[2]
                spec.seed_hi = op[3]
                spec.flag = op[4]
                if op[1] >= <int64_t>1 << 31:
                    raise _errors.InvalidArgumentError(f"buffer_size must be less than 2**31, not {op[1]}")
                self.counters.append(op[5])
                if op[5] is not None:
                    spec.iteration = (<ShuffleCounter?>op[5]).next_iteration
                self.base[self.shuffles] = spec.iteration
                if skips is not None and c.batched:
                    raise _errors.UnimplementedError(
                        'on_error="skip" with a shuffle of batches: what is left out of one would change others that were given before. '
                        "Shuffle before the batch")
                # A stored shuffle needs every row it holds to be given before long, so it is the only one, over records.
                stored = stored and self.shuffles == 0 and c.batch_rows == 1 and op[1] > 1
                if stored and (record_bytes >= STORE_RECORD_BYTES or op[1] > STORE_BYTES // ((record_bytes + 63) // 64 * 64)):
                    stored = False
                self.shuffles += 1
            elif op[0] == "shard":
                spec.kind = OP_SHARD
                spec.index = op[2]
                spec.uneven = op[3]
                sharded = sharded or op[1] > 1
                if skips is not None and c.batched and op[1] > 1:
                    raise _errors.UnimplementedError(
                        'on_error="skip" with a shard of batches: what one shard leaves out of a batch would shift those of the others. '
                        "Shard before the batch")
                # What other shards get isn't read into the store either, unless it is little. Padding needs places.
                if blocks is None and self.shuffles and op[1] > 1 and (op[1] * hop_bytes > WIDE_GAP // 2 or spec.uneven == UNEVEN_PAD):
                    stored = False
            elif op[0] == "permute":
                spec.kind = OP_PERMUTE
                spec.seed_lo, spec.seed_hi, spec.flag = op[2:5]
                self.counters.append(op[5])
                if op[5] is not None:
                    spec.iteration = (<ShuffleCounter?>op[5]).next_iteration
                self.base[self.shuffles] = spec.iteration
                self.shuffles += 1
                stored = False
            else:
                raise ValueError(f"unknown operation {op[0]!r}")
            plan.spec_count += 1
        stored = stored and self.shuffles == 1
        c.threads = num_threads
        c.help = help
        c.max_leases = max_leases
        if device is not None:
            self.target = device
            self.device, self.arrays, c.buffers, self.ring, c.prefer, self.widen = device
            c.core = self.device.core
            c.max_leases = 2 * c.buffers  # slots whose copies are on their way
        c.prefetch = prefetch
        c.helpers = HELPERS
        c.unit_bytes = UNIT_BYTES
        c.retries = retries
        self.stall_warn_ns = -1 if stall_warn < 0 else <int64_t>(stall_warn * 1e9)
        self.stall_timeout_ns = -1 if stall_timeout < 0 else <int64_t>(stall_timeout * 1e9)
        c.skip_bad = skips is not None
        self.skips = skips
        self.assemble = assemble
        self.feeder = feeder
        self.scope = scope
        self._warned = inner
        self._describe_maker(blocks, step, csv, components, [] if pads is None else pads)
        if blocks is not None:
            stored = False
            record_bytes = hop_bytes = blocks["guess"]
            self._describe_interleave(blocks)
            self.frame.passes = 1
            for i in range(plan.spec_count):
                if plan.specs[i].kind == OP_REPEAT:
                    self.frame.passes = -1 if plan.specs[i].size < 0 or self.frame.passes < 0 else self.frame.passes * plan.specs[i].size
        if self.components is not None:
            row_bytes = 0
            for i in range(plan.maker.count):
                row_bytes += plan.maker.outputs[i].row_bytes if plan.maker.outputs[i].item == 0 else 64
        chunk_bytes = CHUNK_BYTES
        if 0 < memory_budget < 64 * CHUNK_BYTES:
            chunk_bytes = memory_budget // 64
        if not c.batched:
            c.batch_rows = chunk_bytes // (row_bytes + (row_bytes == 0)) if row_bytes < chunk_bytes else 1
            if c.batch_rows > CHUNK_ROWS:
                c.batch_rows = CHUNK_ROWS
        batch_bytes = c.batch_rows * (hop_bytes if hop_bytes < 2 * record_bytes else record_bytes)
        if batch_bytes >= UNIT_BYTES:
            per_unit = (batch_bytes + UNIT_BYTES - 1) // UNIT_BYTES
            c.unit_rows = (c.batch_rows + per_unit - 1) // per_unit
            per_unit = 1
        else:
            per_unit = SMALL_UNIT_BYTES // batch_bytes if batch_bytes < SMALL_UNIT_BYTES else 1
            if per_unit > UNIT_BATCHES:
                per_unit = UNIT_BATCHES
            c.unit_rows = c.batch_rows * per_unit
        if blocks is None and c.unit_rows > LONE_ROWS and (sharded or (self.shuffles and not stored)):
            per_unit = LONE_ROWS // c.batch_rows if c.batch_rows < LONE_ROWS else 1
            c.unit_rows = c.batch_rows * per_unit if c.batch_rows < LONE_ROWS else LONE_ROWS
        c.unit_segments = 2 * per_unit + 2  # short batches make more of them: then a unit has fewer rows
        # Enough batches in flight that every worker has a unit and the consumer finds one ready.
        c.width = ((num_threads + 2) * c.unit_rows + c.batch_rows - 1) // c.batch_rows + 1
        if c.width < prefetch + 1:
            c.width = prefetch + 1
        c.width += c.buffers  # those on the device are the consumer's only when it takes them
        c.load_rows = UNIT_BYTES // 2 // record_bytes
        c.load_rows = 16 if c.load_rows < 16 else (1024 if c.load_rows > 1024 else c.load_rows)
        if stored:
            # Rows on their way in and out, and those that a batch keeps until it is whole, or a shard until its group is.
            c.store_rows = (num_threads + 3) * (c.unit_rows if c.unit_rows > c.load_rows else c.load_rows) + 3 * c.batch_rows
            if c.store_rows > STORE_BYTES // ((record_bytes + 63) // 64 * 64):
                stored = False
                c.store_rows = 0
        if memory_budget > 0:
            self._fit(memory_budget, record_bytes, hop_bytes)
            stored = c.store_rows > 0
        # Linear runs close a file at its end; jumping ones keep some open.
        fd_limit = num_threads + DISCOVER_AHEAD + 1
        if self.shuffles and not stored and not c.blocks:
            fd_limit = IDLE_FILES
        if c.blocks and self.frame.cycle > 1:
            fd_limit += min(self.frame.cycle, IDLE_FILES)
        if c.blocks:
            plan.layout.record_bytes = plan.layout.hop_bytes = 1
            self.table = table_new(files.names, self.frame.piece_bytes, 0, 0, self.frame.piece_bytes, TAIL_STREAM if self.frame.encoding else TAIL_SHORT,
                                   <int32_t>fd_limit)
        else:
            self.table = table_new(files.names, record_bytes, header_bytes, footer_bytes, hop_bytes, drop_tail, <int32_t>fd_limit)
        if self.table == NULL:
            raise MemoryError
        for counter in self.counters:
            if counter is not None:
                (<ShuffleCounter>counter).next_iteration += 1
        self.state = STATE_RUNNING

    cdef int _fit(self, int64_t budget, int64_t record_bytes, int64_t hop_bytes) except -1:
        # Makes everything smaller until it fits, what speed depends on least first.
        cdef Pipe* plan = &self.plan
        cdef Config* c = &plan.config
        cdef int64_t units, slot, rest, need, stride = (record_bytes + 63) // 64 * 64, ids, i, piece
        c.budget = budget
        if c.threads > budget // (2 << 20):
            c.threads = <int32_t>max(budget // (2 << 20), 1)
        c.helpers = c.help
        units = c.threads + c.helpers
        c.stage_most = max(budget // 8 // units // hop_bytes, 1) if not c.blocks else 1
        ids = budget // 8 // units // <int64_t>(sizeof(Run) + sizeof(uint32_t))
        if c.unit_rows > ids:
            c.unit_rows = ids
        if c.unit_bytes > budget // 32:
            c.unit_bytes = budget // 32
        if c.load_rows > c.unit_rows:
            c.load_rows = max(c.unit_rows, 16)
        units *= _unit_bytes(max(c.unit_rows, c.load_rows), c.unit_segments, c.stage_most * hop_bytes + record_bytes, hop_bytes)
        if c.blocks:
            piece = budget // 32
            if self.frame.cycle > 8:  # each open file has one or two
                piece = max(budget // (4 * self.frame.cycle), 512)
            if self.frame.piece_bytes > piece:
                self.frame.piece_bytes = piece
                self.frame.headroom = min(self.frame.headroom, self.frame.piece_bytes // 4)
            self.frame.memory_most = budget // 3
        plan.layout.leaves = plan.leaves
        slot = _lay_out(plan)
        # What varies in length, and blocks, take what the rest leaves.
        rest = (budget - units) // (4 if c.blocks else 1)
        if c.store_rows > 0:
            i = self._spec_of(0)
            need = (plan.specs[i].size + c.store_rows + 2) * stride
            if need + (c.width + c.max_leases + 1) * slot > rest:
                need = 0
                c.store_rows = 0
            rest -= need
        if (c.width + c.max_leases + 1) * slot > rest:
            c.width = max(rest // slot - c.max_leases - 1, 2)
        if (c.width + c.max_leases + 1) * slot > rest and not self.on_hold_raise:
            c.max_leases = max(min(c.max_leases, rest // slot - c.width - 1), min(c.max_leases, 2))
        need = units + (c.width + c.max_leases + 1) * slot * (4 if c.blocks else 1)
        if need > budget:
            raise _errors.ResourceExhaustedError(
                f"memory_budget leaves {budget} bytes to this stream, and its smallest buffers need {need}: {c.width} batches in the making "
                f"and {c.max_leases} that the consumer may hold, of {slot} bytes each. Use smaller batches, or a larger budget")
        return 0

    cdef int _describe_interleave(self, dict blocks) except -1:
        cdef int64_t n
        cycle, length = blocks.get("interleave", (1, 1))
        # More slots than files would stay empty.
        self.frame.cycle = min(cycle, max(self.files.names.count, 1))
        self.frame.turn_records = min(length, <int64_t>1 << 60)
        self.frame.shuffled = self.shuffles > 0
        if self.frame.cycle == 1:
            return 0
        if self.frame.cycle >= <int64_t>1 << 24:
            raise _errors.InvalidArgumentError(f"cycle_length must be less than 2**24, not {cycle}")
        if "piece_bytes" not in blocks and self.frame.cycle > LANES:  # each file has one or two pieces in memory
            self.frame.piece_bytes = max(LANE_BYTES, BLOCK_BYTES * LANES // self.frame.cycle)
            self.frame.headroom = self.frame.piece_bytes // 4
        n = (blocks_saved(self.frame.cycle) + 1) * sizeof(int64_t)
        self.mark_saved = <int64_t*>malloc(n)
        self.chunk_saved = <int64_t*>malloc(n)
        if self.mark_saved == NULL or self.chunk_saved == NULL:
            raise MemoryError
        return 0

    cdef int _describe_maker(self, dict blocks, Step step, CsvFormat csv, list components, list pads) except -1:
        cdef Pipe* plan = &self.plan
        cdef int64_t* shapes
        cdef int32_t i
        _sweep()
        self.keeper = _Keeper()
        self.keeper.kept = [(step, pads), csv]
        plan.pipes = self.keeper.pipes
        plan.config.blocks = blocks is not None
        self.mark.pass_good = -1
        self.mark_place.line = 1
        if components is None:
            return 0
        self.step = step
        self.csv = csv
        self.components = []
        plan.maker.outputs = <Output*>calloc(2 * len(components) + 1, sizeof(Output))
        plan.maker.pads = <Pad*>calloc(len(components) + 1, sizeof(Pad))
        if plan.maker.outputs == NULL or plan.maker.pads == NULL:
            raise MemoryError
        plan.maker.made = len(components)
        for i, (kind, dtype, shape) in enumerate(components):
            padded = -1
            if i < len(pads) and pads[i] is not None:
                padded = plan.maker.pad_count
                self._describe_pad(&plan.maker.pads[padded], kind, dtype, shape, pads[i][0], pads[i][1])
                plan.maker.pads[padded].output = plan.maker.count + (kind == "strings")
                plan.maker.pad_count += 1
            self.components.append((kind, dtype, shape, plan.maker.count, padded))
            plan.maker.count = _describe_output(plan.maker.outputs, plan.maker.count, i, kind, dtype, shape, &plan.maker.vars)
        for i in range(plan.maker.pad_count):
            plan.maker.pads[i].var = plan.maker.vars
            plan.maker.vars += 1
        if step is not None:
            plan.maker.run = step.run
            plan.maker.params = step.params
        if csv is not None:
            plan.maker.csv = &csv.plan
        if blocks is not None:
            plan.blocks = &self.frame
            self.frame.framing = plan.maker.framing = {"lines": FRAME_LINES, "tfrecord": FRAME_TFRECORD, "csv": FRAME_CSV,
                                                       "fixed": FRAME_FIXED, "whole": FRAME_WHOLE, "rows": FRAME_ROWS}[blocks["framing"]]
            self.frame.encoding = blocks["encoding"]
            self.frame.header = blocks.get("header", 0)
            self.frame.max_record_bytes = blocks["max_record_bytes"]
            self.frame.csv = plan.maker.csv
            self.frame.piece_bytes = blocks.get("piece_bytes", BLOCK_BYTES)
            self.frame.headroom = blocks.get("headroom", HEADROOM)
            self.frame.skip_files = self.skips is not None
            self.frame.record_bytes, self.frame.header_bytes, self.frame.footer_bytes, self.frame.hop_bytes, self.frame.drop_tail = (
                blocks.get("fixed", (1, 0, 0, 1, False)))
            plan.maker.record_bytes = self.frame.record_bytes
            plan.maker.hop_bytes = self.frame.hop_bytes
            if self.feeder is not None:
                self.columns = <Output*>calloc(2 * len(blocks["columns"]) + 1, sizeof(Output) + MAX_DIMS * sizeof(int64_t))
                if self.columns == NULL:
                    raise MemoryError
                shapes = <int64_t*>(self.columns + 2 * len(blocks["columns"]) + 1)
                plan.maker.columns = self.columns
                plan.maker.shapes = shapes
                plan.maker.given = len(blocks["columns"])
                plan.maker.column_count = describe_columns(self.columns, shapes, blocks["columns"])
                if step is not None and step.run_rows != NULL:
                    _describe_together(&plan.maker, step.run_rows)
        return 0

    cdef int _describe_pad(self, Pad* pad, str kind, dtype, tuple shape, tuple sides, bytes fill) except -1:
        # `fill` is kept by the keeper.
        cdef int32_t i
        dims = (-1,) if kind == "strings" else (-1, *shape) if kind == "ragged" else shape
        pad.ndim = len(dims)
        if pad.ndim != len(sides) or pad.ndim > MAX_DIMS:
            raise _errors.InvalidArgumentError(f"{pad.ndim} dimensions can't be padded to {len(sides)}; at most {MAX_DIMS} are possible")
        pad.fixed = kind == "fixed"
        pad.item = sizeof(int64_t) if kind == "strings" else dtype.base.itemsize
        for i in range(pad.ndim):
            pad.dims[i] = -1 if dims[i] is None else dims[i]
            pad.sides[i] = sides[i]
        pad.fill = fill
        if len(fill) != pad.item:
            raise ValueError("padding is one item")
        return 0

    def __dealloc__(self):
        cdef int32_t i
        if self.generation == fork_generation():
            self._end_transfer()
            if self.pipe != NULL:
                runner_stop(self.pipe.runner, NULL)
                _drop(self.pipe)
            if self.keeper is not None and self.keeper.pipes.load(kAcquire) != 0:  # acquire: as in _sweep
                _keepers.append(self.keeper)
            table_drop(self.table)
        if self.plan.leaves != NULL:
            for i in range(self.plan.layout.leaf_count):
                free(<void*>self.plan.leaves[i].offsets)
        free(self.plan.leaves)
        free(self.plan.specs)
        free(self.plan.maker.outputs)
        free(self.plan.maker.pads)
        free(self.missing)
        free(self.mark_saved)
        free(self.chunk_saved)
        free(self.base)
        free(self.begun)
        free(self.cuts)
        free(self.ndims)
        free(self.dims_store)
        # Workers that are still at it use these, as they use the steps.
        if self.keeper is not None and self.keeper.columns == NULL:
            self.keeper.columns = self.columns

    def __iter__(self):
        return self

    def __next__(self):
        if qc_scope != NULL and self.scope is not None:
            self._check_scope()
        try:
            if self.chunk is not None or not self._until_ready():
                return self._next_record()
            return self._deliver(self.pipe, self.next_k)
        except MemoryError as error:
            if isinstance(error, _errors.SlotsExhaustedError) or self.state == STATE_FAILED:
                raise
            self._fail(error)  # an element may have been lost half-way

    cdef bint _until_ready(self) except -1:
        # Waits for the next batch, and for one that is good. Raises StopIteration at the end. False: there are elements of a chunk. A signal
        # handler may use the iterator wherever this waits: it may have closed it, begun at another place, or taken elements.
        cdef uint64_t k
        cdef Pipe* p
        while True:
            if self.state != STATE_RUNNING or self.generation != fork_generation():
                self._refuse()
            if self.chunk is not None:
                return False
            if self.pipe == NULL:
                self._start()
                if self.told:  # meanwhile, or before
                    runner_stop(self.pipe.runner, NULL)
            p = self.pipe
            k = self.next_k
            if window_ready(p.window, k):
                if window_batch(p.window, k).failed.load(kRelaxed):  # relaxed: published by B3 in window.pxd
                    if not self._leave_out():
                        self._recover(k)
                    continue
                if self.transfer == NULL or self._sent(k):
                    return True
                continue
            if window_ended(p.window, k):
                self._end(p)
            if stop_requested(&p.runner.stop):
                self._stopped(p)
            if self.feed is not None:
                self.feed._press()
            _hold(p)
            try:
                with nogil:
                    self._wait(p, k)
            finally:
                _drop(p)
            PyErr_CheckSignals()
            if self.pipe == p:
                self._watch(p)

    def _check_scope(self):
        # Raises if a function that makes elements for this iterator uses it.
        cdef PyObject* scope = qc_scope
        while scope != NULL:
            if scope == <PyObject*>self.scope:
                raise _errors.FailedPreconditionError(
                    "a function that makes elements for this iterator can't use the iterator itself: it would wait for what only it can "
                    "make. Make an iterator of its own with iter(dataset)")
            scope = <PyObject*>(<Scope>scope).parent if (<Scope>scope).parent is not None else NULL

    cdef int _watch(self, Pipe* p) except -1:
        # Says so when nothing moves for long, and whose fault it may be.
        cdef int64_t now = monotonic_ns()
        # relaxed: statistics
        cdef int64_t moved = self.table.bytes_read.load(kRelaxed) + <int64_t>p.shared.planned.load(kRelaxed)
        if moved != self.moved or self.still_since == 0:
            self.moved = moved
            self.still_since = now
            self.warned_still = False
        elif 0 <= self.stall_timeout_ns <= now - self.still_since:
            self._fail(self._stalled(p, now))
        elif 0 <= self.stall_warn_ns <= now - self.still_since and not self.warned_still:
            self.warned_still = True
            warn(str(self._stalled(p, now)), 3)
        return 0

    cdef object _stalled(self, Pipe* p, int64_t now):
        cdef int64_t f = -1, i
        cdef list names = []
        while len(names) < 4:
            f = table_pinned(self.table, f + 1)
            if f < 0:
                break
            names.append(os.fsdecode(<bytes>name_of(self.files.names, f)))
        for i in range(p.blocks.lane_count if p.blocks != NULL and p.blocks.encoding else 0):
            turn_take(p.turn)
            f = p.blocks.lanes[i].next.file if p.blocks.lanes[i].streaming else -1
            turn_give(p.turn)
            if f >= 0 and len(names) < 4:
                names.append(os.fsdecode(<bytes>name_of(self.files.names, f)))
        held = p.shared.leases.load(kRelaxed)  # relaxed: consumers take leases under the GIL
        what = f"reads of {', '.join(map(repr, names))} have not come back" if names else "no file is being read"
        return _errors.StallError(
            f"nothing has moved for {(now - self.still_since) / 1e9:.3g} s: {what}; the consumer holds {held} batches, "
            f"{p.runner.live.load(kRelaxed)} threads run", path=names[0] if names else None, stage="read")

    cdef void _wait(self, Pipe* p, uint64_t k) noexcept nogil:
        # Until batch k is there, the stream ends or stops, or a slice of time is over: help, spin a little, sleep.
        cdef Window* w = p.window
        cdef int64_t now = monotonic_ns()
        cdef int64_t begun = now
        cdef int64_t slice_end = now + SLICE_NS
        cdef int64_t spin_end
        cdef uint32_t epoch
        while not window_ready(w, k) and not window_ended(w, k) and not stop_requested(&p.runner.stop):
            now = monotonic_ns()
            if now >= slice_end:
                return
            if p.config.help and _help(p):
                continue
            event_notify_all(&p.runner.work)  # there is room, and workers may sleep: the consumer's progress wakes them late
            spin_end = now + (self.spin_ns if p.runner.spin else 0)
            while now < spin_end and not window_ready(w, k):  # ends with the batch, or when a wake would have been cheaper
                cpu_pause()
                now = monotonic_ns()
            if window_ready(w, k):
                return
            epoch = event_prepare(&w.arrived)
            if window_ready(w, k) or window_ended(w, k) or stop_requested(&p.runner.stop):
                event_cancel(&w.arrived, epoch)
                return
            event_wait(&w.arrived, epoch, slice_end)
        # Spinning pays where a batch comes about as soon as a sleeper would be awake; else the next spin is shorter.
        if monotonic_ns() - begun < 4 * SPIN_NS:
            self.spin_ns = SPIN_NS
        else:
            self.spin_ns = self.spin_ns // 2

    cdef int _start(self) except -1:
        # The first next(): only now there are threads.
        cdef int32_t started = 0
        cdef int rc
        cdef Fault f
        cdef Failure failure
        cdef Pipe* p
        self.table.refs.fetch_add(1, kRelaxed)  # relaxed: this object holds a reference
        self.plan.start = self.mark
        self.plan.place = self.mark_place
        self.plan.saved = self.mark_saved if self.is_saved else NULL
        if self.is_saved:
            self.mark_saved[blocks_saved(self.frame.cycle)] = 0
        self.plan.missing = self.missing
        self.plan.missing_count = self.missing_count
        with nogil:
            p = _pipe_new(&self.plan, self.table, self.cuts, self.cut_count, self.delivered)
        if p == NULL and self.plan.pin_result != 0:
            memset(&failure, 0, sizeof(Failure))
            failure.result = self.plan.pin_result
            failure.call = "cuMemHostRegister"
            failure.nbytes = self.plan.fixed_bytes
            self._fail_on_device(&failure)
        if p == NULL:
            self._fail(_errors.ResourceExhaustedError(
                "no memory for the buffers of this pipeline. Use smaller batches, a smaller shuffle buffer or less prefetch"))
        self.next_k = 0
        self.files_logged = 0
        self.pipe = p
        if self.device is not None:
            self._start_transfer(p)
        with nogil:
            rc = runner_start(p.runner, p.config.threads, "qc-reader", _hold, &started)
        if rc != 0:
            memset(&f, 0, sizeof(Fault))
            f.code = CODE_UNAVAILABLE
            f.what = WHAT_THREAD
            f.stage = STAGE_RUNNER
            f.err = rc
            f.a = started + 1
            f.file = f.offset = f.record = -1
            with nogil:
                runner_stop(p.runner, &f)
            self._join(p, -1)
            self._stopped(p)
        if self.feeder is not None:
            self.feed = Feed.__new__(Feed)
            self.feed.pipe = p
            _hold(p)
            self.feed.owners = {}
            self.feed.dying = deque()
            self.feed.errors = []
            self.keeper.kept[2:] = [self.feed.owners]
            try:
                self.feeder(self.feed)
            except BaseException as error:  # nobody will hand anything in
                self._fail(error)
        return 0

    cdef bint _join(self, Pipe* p, int64_t deadline) except *:
        # Waits in slices, so that Ctrl-C is heard. False: the deadline passed.
        cdef int64_t until
        cdef bint quiet
        while True:
            until = monotonic_ns() + SLICE_NS
            if deadline >= 0 and until > deadline:
                until = deadline
            with nogil:
                quiet = runner_join(p.runner, until)
            if quiet:
                return True
            PyErr_CheckSignals()
            if deadline >= 0 and monotonic_ns() >= deadline:
                return False

    cdef int _discard_pipe(self) except -1:
        # The next pipe shares the file table, so this one must be quiet first.
        cdef Pipe* p = self.pipe
        if p == NULL:
            return 0
        _hold(p)
        try:
            with nogil:
                runner_stop(p.runner, NULL)
            self._join(p, -1)
            if self.pipe != p:  # a signal handler was faster
                return 0
            if self.feed is not None:
                self.feed.owners.clear()
                self.feed = None
            self.helped_before += p.shared.helped.load(kRelaxed)  # relaxed: a statistic
            self._end_transfer()
            self.pipe = NULL
            _drop(p)
        finally:
            _drop(p)
        return 0

    cdef int _recover(self, uint64_t k) except -1:
        # Batch k holds a record that can't be read. The next run goes from this batch on, over the same table, and in it the source ends
        # before that record: so what came before it is delivered, whole batches and the short one, and then the error.
        cdef Batch* b = window_batch(self.pipe.window, k)
        cdef Cut* grown = <Cut*>realloc(self.cuts, (self.cut_count + 1) * sizeof(Cut))
        if grown == NULL:
            raise MemoryError
        self.cuts = grown
        self.cuts[self.cut_count].at = self.delivered
        self.cuts[self.cut_count].pass_ = b.fault_pass
        self.cuts[self.cut_count].ordinal = b.fault_ordinal
        self.cuts[self.cut_count].fault = b.fault
        self.cut_count += 1
        self._log_files(self.pipe, False)
        self._discard_pipe()
        return 0

    cdef bint _leave_out(self) except -1:
        # Records that are bad and to be left out: the next run goes without them. False: there are none. `skips` says when it is enough;
        # then the first one too many is the end.
        cdef Pipe* p = self.pipe
        cdef Missing* grown
        cdef Cut* cuts
        cdef Bad* bad
        cdef int64_t n, i, count
        if not self.plan.config.skip_bad:
            return False
        with nogil:
            runner_stop(p.runner, NULL)
        _hold(p)
        try:
            self._join(p, -1)
        finally:
            _drop(p)
        if self.pipe != p:  # a signal handler begins elsewhere
            return True
        n = p.bad_count
        if n == 0:
            return False
        qsort(p.bad, n, sizeof(Bad), _by_missing)
        grown = <Missing*>realloc(self.missing, (self.missing_count + n) * sizeof(Missing))
        if grown == NULL:
            raise MemoryError
        self.missing = grown
        count = self.missing_count
        for i in range(n):
            bad = &p.bad[i]
            try:
                self.skips.skip(self._error(&bad.fault))
            except _errors.QueueCoreError as error:
                self.last = error
                cuts = <Cut*>realloc(self.cuts, (self.cut_count + 1) * sizeof(Cut))
                if cuts == NULL:
                    raise MemoryError
                self.cuts = cuts
                self.cuts[self.cut_count].at = self.delivered
                self.cuts[self.cut_count].pass_ = bad.place.pass_
                self.cuts[self.cut_count].ordinal = bad.place.ordinal
                self.cuts[self.cut_count].fault = bad.fault
                self.cut_count += 1
                break
            self.missing[count] = bad.place
            count += 1
        self.missing_count = count
        qsort(self.missing, count, sizeof(Missing), _by_missing)
        if self.plan.config.blocks and self.shuffles == 0:  # those before the mark are never met again
            i = 0
            while i < count and (self.missing[i].pass_ < self.mark.pass_
                                 or (self.missing[i].pass_ == self.mark.pass_ and self.missing[i].ordinal < self.mark.ordinal)):
                i += 1
            memmove(self.missing, self.missing + i, (count - i) * sizeof(Missing))
            self.missing_count = count - i
        self._log_files(p, False)  # the next run doesn't meet them
        self._discard_pipe()
        return True

    cdef int _log_files(self, Pipe* p, bint all_) except -1:
        # Files that were given up before the place that is delivered.
        cdef Fault f
        cdef Skipped given_up
        cdef FileEntry* e
        cdef int64_t n, until
        if self.skips is None or self.files.names.count == 0:
            return 0
        if p.blocks != NULL:
            while True:
                turn_take(p.turn)
                n = p.blocks.skipped_count - self.files_logged
                if n > 0:
                    given_up = p.blocks.skipped[self.files_logged]
                turn_give(p.turn)
                if n <= 0:
                    return 0
                if all_:
                    pass
                elif p.blocks.cycle > 1:
                    if not self.is_saved or self.files_logged >= self.mark_saved[blocks_saved(p.blocks.cycle)]:
                        return 0
                elif not (given_up.pass_ < self.mark.pass_ or (given_up.pass_ == self.mark.pass_
                                                               and given_up.fault.file < self.mark_place.file)):
                    return 0
                self.files_logged += 1
                self._log_file(&given_up.fault)
        until = self.table.known_files.load(kAcquire)  # D2 acquire: pairs with D1 in sources.pyx
        if not all_ and self.mark_pass == 0:
            until = table_find(self.table, self.mark_end - 1, 0) if self.mark_end > 0 else 0
        while self.table_logged < until:
            e = &self.table.entries[self.table_logged]
            self.table_logged += 1
            if e.code != 0 and file_skippable(e.code, e.what, e.err):
                table_fault(self.table, self.table_logged - 1, &f)
                self._log_file(&f)
        return 0

    cdef int _log_file(self, const Fault* f) except -1:
        cdef FileEntry* e = &self.table.entries[f.file]
        cdef object nbytes = None
        if e.size >= 0 and f.offset >= 0 and not self.frame.encoding:
            nbytes = e.size - f.offset
        try:
            self.skips.skip(self._error(f), file=True, nbytes=nbytes)
        except _errors.QueueCoreError as last:
            self._fail(last)
        return 0

    cdef object _error(self, const Fault* f):
        if f.code == CODE_HANDED:
            return self.feed.errors[f.a]
        if f.code == CODE_STEP:
            return self._step_error(f)
        return fault_error(f, None if f.file < 0 else <bytes>name_of(self.files.names, f.file))

    cdef object _step_error(self, const Fault* f):
        cdef object error = self.step.explain(f.what, f.a, f.b)
        if f.file < 0:
            error.stage = "map"
            error.record = f.record
            error.args = (f"{error} (element {f.record})",)
            return error
        error.path = os.fsdecode(<bytes>name_of(self.files.names, f.file))
        error.stage = "map"
        error.record = f.record
        if f.offset >= 0:
            error.offset = f.offset
        where = f"record {f.record}" if f.offset < 0 else f"record {f.record}, at byte {f.offset}"
        error.args = (f"{error} ({where} of {error.path!r})",)
        return error

    cdef int _fail(self, object error) except -1:
        self.state = STATE_FAILED
        self.failure = error
        if self.pipe != NULL:
            runner_stop(self.pipe.runner, NULL)
        raise error

    cdef int _stopped(self, Pipe* p) except -1:
        cdef const Fault* f = stop_fault(&p.runner.stop)
        if f != NULL:
            self._fail(self._error(f))
        wait_out_exit()
        if self.state == STATE_RUNNING:
            self.state = STATE_CLOSED
        self._refuse()
        return 0

    cdef int _end(self, Pipe* p) except -1:
        self._log_files(p, p.end_status != PULL_FAULT)  # what lies behind an error was never asked for
        if p.end_status == PULL_FAULT:
            error = self._error(&p.end_fault)
            if self.last is not None and (self.last.path, self.last.record) == (error.path, error.record):
                error = self.last  # it says why it was not left out
            self._fail(error)
        self.state = STATE_ENDED
        runner_stop(p.runner, NULL)
        raise StopIteration

    cdef int _refuse(self) except -1:
        if self.generation != fork_generation():
            raise _errors.ForkedPipelineError(
                "this iterator was made before os.fork(), and its native threads exist only in the parent process. "
                "Make the iterator in the child")
        if self.state == STATE_ENDED:
            raise StopIteration
        if self.state == STATE_CLOSED:
            raise _errors.FailedPreconditionError("this iterator is closed; make a new one with iter(dataset)")
        if self.state == STATE_FAILED:
            raise _errors.FailedPreconditionError(
                "this iterator is closed since an error ended it (see __cause__); make a new one with iter(dataset)"
            ) from self.failure
        return 0

    cdef object _deliver(self, Pipe* p, uint64_t k):
        cdef Batch* b = window_batch(p.window, k)
        cdef int64_t rows = b.rows
        cdef unsigned char* slot = slab_slot(p.slab, b.slot)
        cdef int64_t dims[MAX_DIMS]
        cdef int lead = 0, i
        cdef int64_t held = p.shared.leases.load(kRelaxed)  # relaxed: consumers take leases under the GIL
        cdef _Lease lease
        cdef bint copy = held >= p.config.max_leases
        cdef list arrays
        cdef object element
        if self.transfer != NULL:
            arrays = self._on_device(b, k)
            if self.widen is not None:
                element = self._assemble(self.widen.template, arrays)
            else:
                element = self._whole(arrays) if self.levels else None
            return self._delivered(p, b, k, arrays, element)
        if copy and self.on_hold_raise:
            raise _errors.SlotsExhaustedError(
                f"{held} batches of this iterator are still held, and on_hold='raise' allows {p.config.max_leases}. "
                "Drop or copy them, or use on_hold='copy'")
        if copy and not self.raw and not self._warned:  # before the batch is taken: where a warning is an error, it comes again
            self._warned = True
            warn(
                f"more than {p.config.max_leases} batches of this iterator are held; further ones are copies, which costs time. "
                "Options(max_leases=...) allows more views, Options(on_hold='raise') forbids copies", 2)
        if self.levels:
            lead = self._lead_dims(b, dims)
        else:
            dims[0] = rows
            lead = 1
        lease = _Lease.__new__(_Lease)
        lease.pipe = p
        lease.slot = b.slot
        _hold(p)
        p.shared.leases.fetch_add(1, kRelaxed)
        # What the template needs, then the marks: from here on the batch is the consumer's.
        arrays = None
        if self.raw:
            arrays = self._raw(b, slot, lease)
            if copy:
                arrays = [tuple([None if part is None else part.copy() for part in one]) if type(one) is tuple else one.copy() for one in arrays]
            element = rows, arrays
        elif self.levels and not copy and self.components is None:
            element = self._build(self.template, slot, dims, lead, lease)
        else:
            if self.components is not None:
                arrays = [self._component(one, b, slot, dims, lead, lease) for one in self.components]
            else:
                arrays = [self._array(i, slot, dims, lead, lease) for i in range(self.plan.layout.leaf_count)]
            if copy:
                if self.components is None or self.components[0][0] != "object":
                    arrays = [_copy(a) for a in arrays]
                self.copied += 1
            element = self._whole(arrays) if self.levels else None
        return self._delivered(p, b, k, arrays, element)

    cdef object _delivered(self, Pipe* p, Batch* b, uint64_t k, list arrays, object element):
        # The batch is the consumer's: as an element, or as the chunk that the next ones come out of.
        cdef int64_t rows = b.rows
        cdef int i
        self.records += rows
        self.still_since = 0
        if self.skips is not None:
            self._log_files(p, False)
        if self.shuffles:
            for i in range(self.shuffles):
                self._count_iterations(i, p.window.iterations[<int64_t>(k & p.window.mask) * p.order.count + i])
        self._take(p, b, k, bool(self.levels))
        if self.levels:
            return element
        self.chunk = arrays
        self.chunk_at = 0
        self.chunk_rows = rows
        return self._next_record()

    cdef int _start_transfer(self, Pipe* p) except -1:
        cdef HostSource source
        cdef Failure failure
        cdef Widen widen
        cdef int64_t nbytes = p.slab.slot_bytes
        cdef int rc
        memset(&widen, 0, sizeof(widen))
        if self.widen is not None:
            self.kernel, self.compiled = self.widen.compiled([self._slot_offset(p, i) for i in range(self._component_count())])
            widen.function = <void*><uintptr_t>self.compiled.handle
            widen.nbytes = nbytes
            widen.items, widen.threads, widen.blocks = self.kernel.items, self.kernel.threads, self.kernel.most_blocks
            nbytes = max(self.kernel.nbytes(p.config.batch_rows), 1)
        source.context = p
        source.look = _host_look
        source.give = _host_give
        source.wait = _host_wait
        source.drop = _drop
        if not p.pinned and not self.warned_pageable:
            self.warned_pageable = True
            warn(f"{p.slab.mapped_bytes} bytes of host memory can't be page-locked for cuda:{self.device.ordinal}: copies from there are slower. "
                 "Raise the limit (ulimit -l), or use smaller batches or fewer of them ahead", 2)
        _hold(p)
        with nogil:
            self.transfer = transfer_new(self.device.core, &source, <int32_t>p.config.buffers, nbytes, &widen, &failure)
        if self.transfer == NULL:
            self._fail_on_device(&failure)
        rc = transfer_start(self.transfer)
        if rc != 0:
            self._fail(thread_refused(rc))
        return 0

    cdef void _end_transfer(self) noexcept:
        cdef Transfer* t = self.transfer
        self.transfer = NULL
        if t != NULL:
            self.sent_before += t.shared.nbytes.load(kRelaxed)  # relaxed: statistics
            self.pageable_before += t.shared.pageable.load(kRelaxed)
            transfer_stop(t)
            transfer_drop(t)

    cdef int _fail_on_device(self, const Failure* failure) except -1:
        try:
            self.device.fail(failure)
        except Exception as error:
            self._fail(error)
        return 0

    cdef bint _sent(self, uint64_t k) except -1:
        # Waits until the batch, which is ready, is on its way to the device. False: look again, things have changed.
        cdef Transfer* t = self.transfer
        if transfer_ready(t, k):
            return True
        if t.shared.over.load(kAcquire) == 2:  # acquire: pairs with _over in device.pyx
            self._fail_on_device(&t.failure)
        transfer_hold(t)
        try:
            with nogil:
                transfer_wait(t, k, monotonic_ns() + SLICE_NS)
        finally:
            transfer_drop(t)
        PyErr_CheckSignals()
        if self.pipe != NULL and stop_requested(&self.pipe.runner.stop):
            self._stopped(self.pipe)
        return False

    cdef list _on_device(self, Batch* b, uint64_t k):
        # The components of a batch there. Its consumer may hold all slots but one; behind these, batches are copies of their own.
        cdef Transfer* t = self.transfer
        cdef DeviceLease lease
        cdef int64_t dims[MAX_DIMS]
        cdef int lead = 1
        memory = None
        if self.ring and self.last_lease is not None:
            self.last_lease.end_()
        dims[0] = b.rows
        if self.levels:
            lead = self._lead_dims(b, dims)
        stream, handle = self.arrays.stream()
        if t.shared.held.load(kRelaxed) >= t.buffers - 1:  # relaxed: leases are taken under the GIL
            said, self._warned = self._warned, True
            self.target.say_held(self.on_hold_raise, said)
            memory = self.arrays.allocate(t.slots[t.where[k % <uint64_t>t.buffers]].nbytes)
        lease = transfer_hand(t, self.device, k, stream, handle, self.arrays)  # up to here the batch may come again
        try:
            return self._arrays_there(b, lease, memory, dims, lead)
        except Exception as error:
            self._fail(error)

    cdef list _arrays_there(self, Batch* b, DeviceLease lease, memory, int64_t* dims, int lead):
        # memory: for a copy of its own, or None.
        cdef list made = [], shape
        cdef int i, j, n
        if memory is not None:
            lease.copy_to(self.device, self.arrays.address(memory), memory)
            self.copied += 1
        else:
            self.last_lease = lease if self.ring else None
        memory = self.arrays.memory(lease)
        if self.widen is not None:
            return [self.arrays.array(memory, offset, (b.rows, *one.shape), one.dtype)
                    for offset, one in zip(self.kernel.offsets(b.rows), self.kernel.outputs)]
        n = self._component_count()
        for i in range(n):
            if self.components is None:
                dtype = self.dtypes[i]
                shape = [self.dims_store[i * MAX_DIMS + j] for j in range(self.ndims[i])]
            else:
                dtype = self.components[i][1]
                shape = list(self.components[i][2])
            made.append(self.arrays.array(memory, self._slot_offset(self.pipe, i), (*[dims[j] for j in range(lead)], *shape), dtype))
        return made

    cdef int _component_count(self):
        return self.plan.layout.leaf_count if self.components is None else len(self.components)

    cdef int64_t _slot_offset(self, Pipe* p, int i):
        return p.leaves[i].slot_offset if self.components is None else p.maker.outputs[<int>self.components[i][3]].slot_offset

    cdef void _note(self, Pipe* p, Batch* b, uint64_t k) noexcept nogil:
        # As _deliver does for an inner stream, whose shuffles' counters are its own.
        cdef int32_t i
        self.records += b.rows
        self.still_since = 0
        for i in range(self.shuffles):
            self.begun[i] = p.window.iterations[<int64_t>(k & p.window.mask) * p.order.count + i]
        self._take(p, b, k, True)

    cdef void _take(self, Pipe* p, Batch* b, uint64_t k, bint whole) noexcept nogil:
        # The batch is the consumer's; as an element, or as a chunk of them.
        cdef int64_t i
        self.next_k = k + 1
        self.chunk_mark.pass_ = b.mark_pass
        self.chunk_mark.ordinal = b.mark_end
        self.chunk_mark.good = b.mark_good
        memcpy(&self.chunk_place, b.mark_place, sizeof(Place))
        if p.lane_marks != NULL:
            i = blocks_saved(p.blocks.cycle) + 1
            memcpy(self.chunk_saved, p.lane_marks + <int64_t>(k & p.window.mask) * i, i * sizeof(int64_t))
        self.chunk_pass = b.mark_pass
        self.chunk_end = b.mark_end
        self.chunk_files = b.mark_files
        if whole:
            self.mark_pass = b.mark_pass
            self.mark_end = b.mark_end
            self.mark_files = b.mark_files
            self.delivered += 1
            self._pass_mark()
        window_take(p.window, k)
        # Workers that found the window full are woken once half of it is free: one wake for several batches.
        if (event_has_waiters(&p.runner.work)
                and p.shared.planned.load(kRelaxed) - self.next_k <= p.window.width // 2):  # relaxed: a hint
            event_notify_all(&p.runner.work)

    cdef int _count_iterations(self, int i, int64_t begun) except -1:
        cdef ShuffleCounter counter
        if begun == self.begun[i]:
            return 0
        self.begun[i] = begun
        if self.counters[i] is not None:
            counter = self.counters[i]
            if counter.next_iteration < self.base[i] + begun:
                counter.next_iteration = self.base[i] + begun
        return 0

    cdef object _next_record(self):
        # Elements that are records come out of a chunk of rows, one by one.
        cdef list arrays = self.chunk
        cdef int64_t at = self.chunk_at
        if self.generation != fork_generation() or self.state == STATE_CLOSED:
            self.chunk = None
            self._refuse()
        element = self._one(arrays, at)
        self.chunk_at = at + 1
        self.delivered += 1
        self.mark_pass = self.chunk_pass
        self.mark_end = self.chunk_end
        self.mark_files = self.chunk_files
        if at + 1 == self.chunk_rows:
            self.chunk = None
            self._pass_mark()
        return element

    cdef void _pass_mark(self) noexcept nogil:
        # All up to the chunk's end is delivered: a new run begins there.
        cdef int64_t good = self.mark.pass_good, total, left_out, i
        cdef Missing* m
        # A shuffle that is played without the cuts keeps other records.
        if not self.plan.config.blocks or (self.shuffles and self.cut_count):
            return
        if self.chunk_mark.pass_ > self.mark.pass_:
            # All that is bad in the passes before has been met, unless nobody asked for it.
            left_out = self.mark.ordinal - self.mark.good
            for i in range(self.pipe.order.missing_count):  # 0: it isn't the source that leaves them out
                m = &self.missing[i]
                if m.pass_ == self.mark.pass_ and m.ordinal >= self.mark.ordinal:
                    left_out += 1
            turn_take(self.pipe.turn)
            total = self.pipe.blocks.total
            turn_give(self.pipe.turn)
            if total >= 0:
                good = total - left_out
        self.mark = self.chunk_mark
        self.mark.pass_good = good
        self.mark_place = self.chunk_place
        self.mark_saved, self.chunk_saved = self.chunk_saved, self.mark_saved
        self.is_saved = self.mark_saved != NULL

    cdef int _lead_dims(self, Batch* b, int64_t* dims) except -1:
        # The outermost batch first. An element of elements says how many it has; a short one of records has what there is.
        cdef int n = len(self.levels), i
        cdef int64_t rows = b.rows, size
        if n > 1:
            dims[0] = b.subs if b.subs else rows  # an inner batch of one record counts as a record
            rows = rows // dims[0]
            for i in range(n - 2, 0, -1):
                size = 1
                for inner in self.levels[:i]:
                    size *= inner
                dims[n - 1 - i] = rows // size if rows >= size else 1
                rows = size if rows >= size else rows
            dims[n - 1] = rows
        else:
            dims[0] = rows
        return n

    cdef object _array(self, int leaf, unsigned char* slot, int64_t* dims, int lead, _Lease lease):
        cdef cnp.npy_intp shape[2 * MAX_DIMS]
        cdef int i, n = self.ndims[leaf]
        for i in range(lead):
            shape[i] = dims[i]
        for i in range(n):
            shape[lead + i] = self.dims_store[leaf * MAX_DIMS + i]
        return qc_view(self.dtypes[leaf], lead + n, shape, slot + self.pipe.leaves[leaf].slot_offset, lease)

    def next_columns(self):
        """Return the rows of the next batch as they lie: how many, and a list as `Feed.hand` takes it. For all elements, or for none."""
        self.raw = True
        return self.__next__()

    cdef list _raw(self, Batch* b, unsigned char* slot, _Lease lease):
        cdef list columns = []
        cdef const Output* out
        cdef Growing* g
        cdef cnp.npy_intp shape[2]
        cdef int32_t i
        cdef object dims
        shape[0] = b.rows
        if self.components is None:
            for i in range(self.plan.layout.leaf_count):
                shape[1] = self.pipe.leaves[i].row_bytes
                columns.append(qc_view(_UINT8, 2, shape, slot + self.pipe.leaves[i].slot_offset, lease))
            return columns
        for i in range(self.pipe.maker.count):
            out = &self.pipe.maker.outputs[i]
            shape[0] = b.rows
            if out.item == 0:
                shape[1] = out.row_bytes
                columns.append(qc_view(_UINT8, 2, shape, slot + out.slot_offset, lease))
                continue
            dims = None
            if out.ndim > 0:
                shape[1] = out.ndim
                dims = qc_view(_INT64, 2, shape, slot + out.dims_offset, lease)
            shape[0] = b.rows + 1
            ends = qc_view(_INT64, 1, shape, slot + out.slot_offset, lease)
            g = &self.pipe.vars[<int64_t>b.slot * self.pipe.maker.vars + out.var]
            shape[0] = (<int64_t*>(slot + out.slot_offset))[b.rows]
            columns.append((qc_view(_UINT8, 1, shape, g.data if g.data != NULL else slot, lease), ends, dims))
        return columns

    cdef object _component(self, tuple one, Batch* b, unsigned char* slot, int64_t* dims, int lead, _Lease lease):
        # A component of a batch: an array, or a Ragged.
        cdef str kind = one[0]
        cdef int first = one[3]
        cdef cnp.npy_intp shape[2 * MAX_DIMS]
        cdef const Output* out = &self.pipe.maker.outputs[first]
        cdef Growing* g
        cdef int64_t* noted
        cdef int64_t row
        cdef int i, n
        cdef object made
        if kind == "object":
            return self.feed._objects(<int64_t*>(slot + out.slot_offset), b.rows)
        if one[4] >= 0:
            return self._padded(one, b, slot, dims, lead, lease)
        if kind == "fixed":
            n = len(one[2])
            for i in range(lead):
                shape[i] = dims[i]
            for i in range(n):
                shape[lead + i] = one[2][i]
            return qc_view(one[1], lead + n, shape, slot + out.slot_offset, lease)
        if kind == "dense" and not self.levels:
            return [self._varied(out, b, slot, row, one[1], lease) for row in range(b.rows)]
        if kind == "dense":
            noted = <int64_t*>(slot + out.dims_offset)
            for row in range(1, b.rows):
                for i in range(out.ndim):
                    if noted[row * out.ndim + i] != noted[i]:
                        self._fail(_errors.InvalidArgumentError(
                            f"cannot batch elements of unequal shapes: {[noted[n] for n in range(out.ndim)]} and, {row} later, "
                            f"{[noted[row * out.ndim + n] for n in range(out.ndim)]} (batch {self.delivered}). Use padded_batch, or dense_to_ragged_batch, or reshape them first"))
            g = &self.pipe.vars[<int64_t>b.slot * self.pipe.maker.vars + out.var]
            for i in range(lead):
                shape[i] = dims[i]
            for i in range(out.ndim):
                shape[lead + i] = noted[i]
            return qc_view(one[1], lead + out.ndim, shape, g.data if g.data != NULL else slot, lease)
        values, splits = self._varying(out, b, slot, _CHAR if one[1].itemsize == 0 or kind == "strings" else one[1], lease)
        if kind == "strings":
            lengths, splits = self._varying(out + 1, b, slot, _INT64, lease)
            inner = np.zeros(lengths.size + 1, np.int64)
            np.cumsum(lengths, out=inner[1:])
            values = _ragged.Ragged._of(values, inner)
        made = _ragged.Ragged._of(values, splits)
        for i in range(lead - 1, 0, -1):  # batches of batches
            n = len(made) // dims[i] if dims[i] else 0
            made = _ragged.Ragged._of(made, np.arange(n + 1, dtype=np.int64) * dims[i])
        return made

    cdef object _padded(self, tuple one, Batch* b, unsigned char* slot, int64_t* dims, int lead, _Lease lease):
        cdef cnp.npy_intp shape[2 * MAX_DIMS]
        cdef const Pad* pad = &self.pipe.maker.pads[one[4]]
        cdef const int64_t* sides = <int64_t*>(slot + pad.slot_offset)
        cdef Growing* g = &self.pipe.vars[<int64_t>b.slot * self.pipe.maker.vars + pad.var]
        cdef bint strings = one[0] == "strings"
        cdef int i
        for i in range(lead):
            shape[i] = dims[i]
        for i in range(pad.ndim):
            shape[lead + i] = sides[i]
        made = qc_view(_INT64 if strings else one[1].base, lead + pad.ndim, shape, g.data if g.data != NULL else slot, lease)
        if not strings:
            return made
        inner = np.zeros(made.size + 1, np.int64)  # what was put in are empty strings
        np.cumsum(made.ravel(), out=inner[1:])
        values, _ = self._varying(&self.pipe.maker.outputs[one[3]], b, slot, _CHAR, lease)
        return _ragged.Ragged._of(_ragged.Ragged._of(values, inner), np.arange(b.rows + 1, dtype=np.int64) * sides[0])

    cdef object _varied(self, const Output* out, Batch* b, unsigned char* slot, int64_t row, object dtype, _Lease lease):
        # One row, of a shape of its own.
        cdef cnp.npy_intp shape[MAX_DIMS]
        cdef const int64_t* noted = <int64_t*>(slot + out.dims_offset) + row * out.ndim
        cdef const Growing* g = &self.pipe.vars[<int64_t>b.slot * self.pipe.maker.vars + out.var]
        cdef int i
        for i in range(out.ndim):
            shape[i] = noted[i]
        return qc_view(dtype, out.ndim, shape, g.data + (<int64_t*>(slot + out.slot_offset))[row] if g.data != NULL else slot, lease)

    cdef tuple _varying(self, const Output* out, Batch* b, unsigned char* slot, object dtype, _Lease lease):
        # The values of all rows, and where rows begin and end among them.
        cdef cnp.npy_intp n
        cdef Growing* g = &self.pipe.vars[<int64_t>b.slot * self.pipe.maker.vars + out.var]
        cdef int64_t* ends = <int64_t*>(slot + out.slot_offset)
        n = ends[b.rows] // out.item
        values = qc_view(dtype, 1, &n, g.data if g.data != NULL else slot, lease)
        n = b.rows + 1
        splits = qc_view(_INT64, 1, &n, ends, lease)
        return values, splits if out.item == 1 else splits // out.item

    cdef object _whole(self, list arrays):
        if self.assemble is None:
            return self._assemble(self.template, arrays)
        try:
            return self.assemble(arrays, True)
        except _errors.QueueCoreError as error:
            self._fail(error)  # the batch is gone with its lease

    cdef object _one(self, list arrays, int64_t at):
        if self.assemble is None:
            return self._assemble(self.template, [a[at] for a in arrays])
        return self.assemble([a[at] for a in arrays], False)

    cdef object _build(self, object template, unsigned char* slot, int64_t* dims, int lead, _Lease lease):
        cdef dict element
        if type(template) is int:
            return self._array(template, slot, dims, lead, lease)
        element = {}
        for name, part in (<dict>template).items():
            element[name] = self._build(part, slot, dims, lead, lease)
        return element

    cdef object _assemble(self, object template, list parts):
        if type(template) is int:
            return parts[template]
        if type(template) is tuple:
            return tuple([self._assemble(part, parts) for part in <tuple>template])
        return {name: self._assemble(part, parts) for name, part in (<dict>template).items()}

    def close(self, timeout=1.0):
        """Stop the native threads and wait up to `timeout` seconds (None: for ever) until they have ended. Idempotent."""
        cdef Pipe* p = self.pipe
        cdef int64_t deadline = -1 if timeout is None else monotonic_ns() + <int64_t>(timeout * 1e9)
        if self.generation != fork_generation():
            return
        if self.state == STATE_RUNNING:
            self.state = STATE_CLOSED
        self.chunk = None
        if p == NULL:
            return
        _hold(p)
        try:
            if self.transfer != NULL:
                transfer_stop(self.transfer)
            with nogil:
                runner_stop(p.runner, NULL)
                event_notify_all(&p.window.arrived)
            if not self._join(p, deadline):
                warn(
                    f"{p.runner.live.load(kAcquire)} native thread(s) did not end within {timeout} s: stuck in a read. They are left "
                    "behind with the memory they may still write to", 2)
        finally:
            _drop(p)

    def _poll(self, double seconds):
        # Begins, and waits up to so many seconds. Whether next() would not wait now.
        cdef int64_t deadline
        cdef uint64_t k = self.next_k
        cdef uint32_t epoch
        cdef Pipe* p
        cdef bint there = False
        if self.chunk is not None or self.state != STATE_RUNNING or self.generation != fork_generation():
            return True
        if self.pipe == NULL:
            self._start()
            k = self.next_k
        p = self.pipe
        deadline = monotonic_ns() + <int64_t>(seconds * 1e9)
        _hold(p)
        with nogil:
            while True:
                epoch = event_prepare(&p.window.arrived)
                there = window_ready(p.window, k) or window_ended(p.window, k) or stop_requested(&p.runner.stop)
                if there or monotonic_ns() >= deadline:
                    event_cancel(&p.window.arrived, epoch)
                    break
                event_wait(&p.window.arrived, epoch, deadline)  # ends with an element, the end, a stop, or the time
        _drop(p)
        return there

    def _stop(self):
        # As close(), for another thread than the one that uses it: waits for nothing.
        cdef Pipe* p = self.pipe
        self.told = True
        if p != NULL and self.generation == fork_generation():
            _hold(p)
            runner_stop(p.runner, NULL)
            event_notify_all(&p.window.arrived)
            event_notify_all(&p.shared.room)
            _drop(p)

    @property
    def closed(self):
        """Whether the iterator can give no more elements: closed, ended by an error, past its end, or in a forked child."""
        return self.state != STATE_RUNNING or self.generation != fork_generation()

    def stats(self):
        """Counters of this iterator, as a dict of int."""
        cdef Pipe* p = self.pipe
        cdef int64_t dropped = 0, helped = self.helped_before
        if self.generation != fork_generation():
            self._refuse()
        if p != NULL:
            with nogil:
                turn_take(p.turn)
                dropped = p.order.dropped
                turn_give(p.turn)
            helped += p.shared.helped.load(kRelaxed)
        return {
            "elements": self.delivered,
            "records": self.records,
            "bytes_read": self.table.bytes_read.load(kRelaxed),
            "files_known": self.table.known_files.load(kRelaxed),
            "empty_files": self.table.empty_files.load(kRelaxed),
            "dropped_tails": self.table.dropped_tails.load(kRelaxed),
            "dropped_records": dropped,
            "copied_batches": self.copied,
            "helped_units": helped,
            "leases": 0 if p == NULL else p.shared.leases.load(kRelaxed),
            "threads": 0 if p == NULL else p.runner.live.load(kRelaxed),
            "memory_bytes": 0 if p == NULL else _memory(p),
            **({} if self.device is None else self._device_stats()),
            **({"skipped": 0, "skipped_files": 0, "skipped_bytes": 0} if self.skips is None else self.skips.counts()),
        }

    cdef dict _device_stats(self):
        cdef int64_t nbytes = self.sent_before, pageable = self.pageable_before
        cdef Transfer* t = self.transfer
        # relaxed: statistics
        if t != NULL:
            nbytes += t.shared.nbytes.load(kRelaxed)
            pageable += t.shared.pageable.load(kRelaxed)
        return {"device_bytes": nbytes, "pageable_copies": pageable, "device_leases": 0 if t == NULL else t.shared.held.load(kRelaxed)}

    def position(self):
        """The mark of the last delivered element, as a dict of int and lists of int."""
        cdef int64_t known = 0
        cdef uint64_t digest = 0
        if self.generation != fork_generation():
            self._refuse()
        cdef list start = None
        if self.plan.config.blocks:
                start = [self.mark.pass_, self.mark.ordinal, self.mark.good, self.mark.pass_good, self.mark_place.file,
                     self.mark_place.offset, self.mark_place.number, self.mark_place.line, self.mark_place.base]
                if self.is_saved:
                    start += [self.mark_saved[i] for i in range(blocks_saved(self.frame.cycle))]
        if self.files.names.count == 0:
            pass
        elif self.delivered > 0 and (self.mark_end > 0 or self.mark_files != 0):
            if self.plan.config.blocks and self.mark_files >= 0:
                known = self.mark_files
            elif self.plan.config.blocks or self.mark_pass > 0:
                known = self.table.known_files.load(kAcquire)
            else:
                known = table_find(self.table, self.mark_end - 1, 0) + 1
            digest = self.table.entries[known - 1].digest
        elif self.expect_files > 0:  # restored, and nothing delivered since
            known = self.expect_files
            digest = self.expect_digest
        return {
            "elements": self.delivered,
            "files_known": known,
            "files_digest": digest,
            "iterations": [self.base[i] for i in range(self.shuffles)],
            "begun": [self.begun[i] for i in range(self.shuffles)],
            "start": start,
            "missing": [[self.missing[i].pass_, self.missing[i].ordinal] for i in range(self.missing_count)],
        }

    def restore(self, int64_t elements, list iterations, int64_t files_known, uint64_t files_digest, list seeds, list counters, list begun,
                list start=None, list missing=None):
        """Go on after `elements` elements, as an iterator that had delivered them would.

        Raises `ResumeMismatchError`, and changes nothing, if the place or the first `files_known` files are not those.
        """
        cdef int64_t i, _file
        cdef FileTable* t
        cdef OpSpec* spec
        if self.generation != fork_generation():
            self._refuse()
        if (elements < 0 or files_known < 0 or files_known > self.files.names.count
                or not len(iterations) == len(seeds) == len(counters) == len(begun) == self.shuffles):
            raise _errors.ResumeMismatchError("the saved place does not fit this dataset's operations or files")
        if start is not None if not self.plan.config.blocks else not self._is_start(start, files_known):
            raise _errors.ResumeMismatchError("the saved place does not fit this dataset's files")
        t = table_new(self.files.names, self.table.record_bytes, self.table.header_bytes, self.table.footer_bytes,
                      self.table.hop_bytes, self.table.tail, self.table.fd_limit)
        if t == NULL:
            raise MemoryError
        with nogil:
            for _file in range(files_known):
                table_discover(t, table_claim(t, files_known))
        if files_known > 0 and t.entries[files_known - 1].digest != files_digest:
            table_drop(t)
            raise _errors.ResumeMismatchError(
                f"the first {files_known} files are not those of the saved state: a size or modification time differs")
        try:
            self._discard_pipe()
        except BaseException:
            table_drop(t)
            raise
        table_drop(self.table)
        self.table = t
        for i in range(self.shuffles):
            spec = &self.plan.specs[self._spec_of(i)]
            spec.seed_lo, spec.seed_hi = seeds[i]
            spec.iteration = self.base[i] = iterations[i]
            self.begun[i] = begun[i]
            self.counters[i] = <ShuffleCounter?>counters[i] if counters[i] is not None else None
        self.cut_count = 0
        self.chunk = None
        self._restore_mark(start, [] if missing is None else missing)
        self.delivered = elements
        self.mark_pass = self.mark_end = self.mark_files = 0
        self.expect_files = files_known
        self.expect_digest = files_digest
        self.state = STATE_RUNNING
        self.told = False
        self.failure = None

    cdef bint _is_start(self, list start, int64_t files_known) except -1:
        # Whether a run of these files may begin there.
        if start is None or start[4] >= max(files_known, 1):
            return False
        saved = start[9:]
        if not saved:
            return self.frame.cycle == 1 or start[:3] == [0, 0, 0]
        return (self.frame.cycle > 1 and len(saved) == blocks_saved(self.frame.cycle) and saved[0] <= files_known
                and saved[1] < self.frame.cycle and saved[2] < self.frame.turn_records
                and all(-1 <= file < saved[0] for file in saved[3::5]))

    cdef int _restore_mark(self, list start, list missing) except -1:
        cdef Missing* grown = <Missing*>realloc(self.missing, (len(missing) + 1) * sizeof(Missing))
        cdef int64_t i
        if grown == NULL:
            raise MemoryError
        self.missing = grown
        for i, (pass_, ordinal) in enumerate(missing):
            self.missing[i].pass_ = pass_
            self.missing[i].ordinal = ordinal
        self.missing_count = len(missing)
        memset(&self.mark, 0, sizeof(Start))
        memset(&self.mark_place, 0, sizeof(Place))
        self.mark.pass_good = -1
        self.mark_place.line = 1
        if start is not None:
            (self.mark.pass_, self.mark.ordinal, self.mark.good, self.mark.pass_good, self.mark_place.file, self.mark_place.offset,
             self.mark_place.number, self.mark_place.line, self.mark_place.base) = start[:9]
            for i, number in enumerate(start[9:]):
                self.mark_saved[i] = number
        self.is_saved = start is not None and len(start) > 9
        return 0

    cdef int _spec_of(self, int shuffle):
        cdef int i, seen = 0
        for i in range(self.plan.spec_count):
            if self.plan.specs[i].kind == OP_SHUFFLE or self.plan.specs[i].kind == OP_PERMUTE:
                if seen == shuffle:
                    return i
                seen += 1
        return -1
