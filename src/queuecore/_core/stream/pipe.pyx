"""Pipes: the parts of one run of a plan, from its beginning to its end, and the leases on its batches."""
cimport cython
from libc.stddef cimport size_t
from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t
from libc.string cimport memcpy
from queuecore._core.atoms.memory cimport calloc, free, malloc
from queuecore._core.atoms.process cimport buffer_give, buffer_take, check_layout, fork_generation, registry_remove
from queuecore._core.io.blocks cimport blocks_begin, blocks_close, blocks_free, blocks_new
from queuecore._core.io.lanes cimport lanes_saved
from queuecore._core.steps.decode cimport layout_clear
from queuecore._core.device.pinned cimport pinned_give, pinned_take
from queuecore._core.atoms.errors cimport CODE_EXHAUSTED, STAGE_NONE, WHAT_BUDGET, WHAT_MEMORY, fault_begin
from queuecore._core.io.engine cimport MOST_RINGS, Engine, job_clear
from queuecore._core.atoms.growing cimport Growing, growing_free
from queuecore._core.stream.limits cimport IOVECS
from queuecore._core.order.order cimport order_free, order_new
from queuecore._core.order.op cimport OpSpec, OrderPlan
from queuecore._core.order.runs cimport Missing, Run
from queuecore._core.atoms.parking cimport turn_give, turn_take
from queuecore._core.atoms.platform cimport (
    Batch, Fault, Runner, Slab, StepFn, Turn, Window, alloc_lines, iovec, kAcqRel, kRelaxed, kRelease,
    layout_hash, size_product, size_sum)
from queuecore._core.stream.maker cimport Output
from queuecore._core.stream.rows cimport BatchPart, part_free, rows_join, rows_pad, scratch_clear, scratch_init
from queuecore._core.atoms.runtime cimport runner_stop
from queuecore._core.steps.stages cimport StepTimes
from queuecore._core.atoms.timeline cimport lines_drop
from queuecore._core.atoms.slab cimport slab_free, slab_init, slab_slot, slots_push
from queuecore._core.io.sources cimport FileTable, table_close_idle, table_drop
from queuecore._core.io.uring cimport ring_leave
from queuecore._core.atoms.window cimport window_free, window_init, window_publish

check_layout(layout_hash())


# References

cdef void pipe_hold(void* context) noexcept nogil:
    (<Pipe*>context).shared.refs.fetch_add(1, kRelaxed)  # relaxed: the caller holds a reference


cdef void pipe_drop(void* context) noexcept nogil:
    cdef Pipe* p = <Pipe*>context
    # acq_rel: release, this holder is done; acquire, the last one frees what all others wrote
    if p != NULL and p.shared.refs.fetch_sub(1, kAcqRel) == 1:
        _pipe_free(p)


cdef void _worker_leave(void* context, int32_t worker) noexcept nogil:
    # Only workers read files: each that leaves closes the files that nobody reads, so that an ended stream holds none.
    cdef Pipe* p = <Pipe*>context
    cdef int32_t number = worker - p.plan.config.threads
    if 0 <= number < MOST_RINGS:
        ring_leave(p.engine, number)
    if not p.keeps_files:
        table_close_idle(p.table)
    if p.blocks != NULL:
        turn_take(p.turn)
        blocks_close(p.blocks)
        turn_give(p.turn)


@cython.final
@cython.no_gc
@cython.freelist(16)
cdef class BatchLease:
    def __dealloc__(self):
        cdef Pipe* p = self.pipe
        if p == NULL or p.generation != fork_generation():
            return
        p.shared.leases.fetch_sub(1, kRelaxed)  # relaxed: consumers count leases under the GIL
        slots_push(&p.slab.stack, self.slot)
        pipe_drop(p)


cdef BatchLease lease_new(Pipe* p, Batch* b):
    cdef BatchLease lease = BatchLease.__new__(BatchLease)
    lease.slot = b.slot
    lease.rows = b.rows
    lease.subs = b.subs
    pipe_hold(p)
    p.shared.leases.fetch_add(1, kRelaxed)  # relaxed: consumers take leases under the GIL
    lease.pipe = p
    return lease


cdef void slot_release(void* one) noexcept nogil:
    cdef SlotOwner* owner = <SlotOwner*>one
    cdef Pipe* p = owner.pipe
    if p.generation == fork_generation():
        p.shared.leases.fetch_sub(1, kRelaxed)  # relaxed: a count; the slot itself changes hands by slots_push
        slots_push(&p.slab.stack, owner.slot)
        pipe_drop(p)
    free(owner)


# Memory

cdef int64_t room_of(Pipe* p, const Growing* vars) noexcept nogil:
    cdef int64_t room = 0
    cdef int32_t i
    for i in range(p.plan.maker.vars):
        room += vars[i].room
    return room


cdef void count_room(Pipe* p, uint32_t slot) noexcept nogil:
    cdef int64_t room = room_of(p, p.vars + <int64_t>slot * p.plan.maker.vars), most
    p.shared.grown.fetch_add(room - p.rooms[slot], kRelaxed)
    p.rooms[slot] = room
    most = p.shared.largest.load(kRelaxed)
    while room > most and not p.shared.largest.compare_exchange_weak(most, room, kRelaxed, kRelaxed):
        pass


cdef int64_t pipe_memory(Pipe* p) noexcept nogil:
    # relaxed: statistics. A slot that no batch has had takes addresses but no memory, unless the slab is page-locked.
    cdef int64_t slots = p.slots_bytes if p.pinned else p.shared.touched.load(kRelaxed) * <int64_t>p.slab.slot_bytes
    return (slots + p.fixed_bytes + p.shared.grown.load(kRelaxed) + p.shared.blocks.load(kRelaxed)
            + p.shared.jobs.load(kRelaxed))


cdef void pipe_over_budget(Pipe* p, int64_t nbytes) noexcept nogil:
    cdef Fault f
    fault_begin(&f, CODE_EXHAUSTED, WHAT_BUDGET, STAGE_NONE)
    f.a = nbytes
    f.b = p.plan.config.budget
    runner_stop(p.runner, &f)


cdef void pipe_no_memory(Pipe* p) noexcept nogil:
    cdef Fault f
    fault_begin(&f, CODE_EXHAUSTED, WHAT_MEMORY, STAGE_NONE)
    runner_stop(p.runner, &f)


# A batch

cdef void pipe_complete(Pipe* p, Batch* b, uint64_t k) noexcept nogil:
    cdef BatchPart* parts = <BatchPart*>b.parts
    cdef BatchPart* next = parts
    cdef int64_t room = 0
    b.parts = NULL
    while next != NULL:
        room += room_of(p, next.vars)
        next = next.next
    if parts != NULL and b.failed.load(kRelaxed):  # relaxed: ordered by B2
        while parts != NULL:
            next = parts.next
            part_free(&p.plan.maker, parts)
            parts = next
    elif parts != NULL and not rows_join(&p.plan.maker, parts, slab_slot(p.slab, b.slot),
                                         p.vars + <int64_t>b.slot * p.plan.maker.vars):
        pipe_no_memory(p)
        return
    if p.plan.maker.pad_count > 0 and not b.failed.load(kRelaxed):  # relaxed: ordered by B2
        if not rows_pad(&p.plan.maker, slab_slot(p.slab, b.slot), p.vars + <int64_t>b.slot * p.plan.maker.vars, b.rows):
            pipe_no_memory(p)
            return
    if p.plan.maker.vars > 0:  # the slot is this batch's alone
        count_room(p, b.slot)
        p.shared.grown.fetch_sub(room, kRelaxed)
        if p.plan.config.budget > 0 and p.slots_bytes + p.fixed_bytes + p.rooms[b.slot] > p.plan.config.budget:
            pipe_over_budget(p, p.slots_bytes + p.fixed_bytes + p.rooms[b.slot])
            return
    window_publish(p.window, b, k)


# Beginning and end

cdef size_t _part_after(size_t at, size_t nbytes, int64_t* offset) noexcept nogil:
    # Places a part at offset `at`, and returns the offset of the next part.
    offset[0] = at
    return size_sum(at, size_sum(nbytes, 63) // 64 * 64)


cdef size_t lay_out(Plan* plan) noexcept nogil:
    cdef size_t slot_bytes = 0, nbytes
    cdef int64_t rows = plan.config.batch_rows
    cdef Output* out
    cdef int32_t i
    if plan.maker.count == 0:
        for i in range(plan.layout.leaf_count):
            slot_bytes = _part_after(slot_bytes, size_product(plan.leaves[i].row_bytes, rows),
                                     &plan.leaves[i].slot_offset)
    for i in range(plan.maker.count):
        out = &plan.maker.outputs[i]
        nbytes = size_product(out.row_bytes, rows) if out.item == 0 else size_product(rows + 1, sizeof(int64_t))
        slot_bytes = _part_after(slot_bytes, nbytes, &out.slot_offset)
        slot_bytes = _part_after(slot_bytes, size_product(out.ndim * sizeof(int64_t), rows), &out.dims_offset)
    for i in range(plan.maker.pad_count):
        slot_bytes = _part_after(slot_bytes, plan.maker.pads[i].ndim * sizeof(int64_t), &plan.maker.pads[i].slot_offset)
    return size_sum(slot_bytes, (slot_bytes == 0) + 4095) // 4096 * 4096  # rows may have no bytes at all


cdef int64_t unit_bytes(int64_t ids, int64_t segments, int64_t stage, int64_t dump) noexcept nogil:
    return (ids + 1) * (sizeof(Run) + sizeof(uint32_t)) + (segments + 1) * sizeof(Segment) + (IOVECS
            + 1) * sizeof(iovec) + stage + dump


cdef bint _units_init(Pipe* p) noexcept nogil:
    cdef int32_t i
    cdef Unit* u
    cdef int64_t rows = p.plan.config.unit_rows, ids
    cdef int64_t stage = 1 if p.blocks != NULL else (p.plan.layout.stage_records
                                                     - 1) * p.plan.layout.hop_bytes + p.plan.layout.record_bytes
    cdef int64_t dump = p.plan.layout.dump_bytes
    cdef int64_t[6] position  # of the parts of a unit's memory
    cdef size_t nbytes = 0
    cdef unsigned char* memory
    if p.plan.layout.hop_bytes - p.plan.layout.record_bytes > dump and not p.plan.layout.lone_records:
        dump = p.plan.layout.hop_bytes - p.plan.layout.record_bytes
    ids = rows if rows > p.plan.config.load_rows else p.plan.config.load_rows
    p.unit_count = p.plan.config.threads + p.plan.config.helpers + p.plan.config.asking
    p.units = <Unit*>calloc(p.unit_count, sizeof(Unit))
    if p.units == NULL:
        return False
    # One mapping for all units, which the next pipe can use again: malloc's heaps would keep the memory of a thousand
    # dropped iterators.
    nbytes = _part_after(nbytes, size_product(ids + 1, sizeof(Run)), &position[0])
    nbytes = _part_after(nbytes, size_product(p.plan.config.unit_segments + 1, sizeof(Segment)), &position[1])
    nbytes = _part_after(nbytes, size_product(ids + 1, sizeof(uint32_t)), &position[2])
    nbytes = _part_after(nbytes, size_product(IOVECS + 1, sizeof(iovec)), &position[3])
    nbytes = _part_after(nbytes, stage, &position[4])
    nbytes = size_sum(_part_after(nbytes, size_sum(dump, 1), &position[5]), 127) // 128 * 128  # units share no line
    p.unit_memory_bytes = size_product(nbytes, p.unit_count)
    p.unit_memory = <unsigned char*>buffer_take(p.unit_memory_bytes)
    if p.unit_memory == NULL:
        return False
    for i in range(p.unit_count):
        u = &p.units[i]
        memory = p.unit_memory + (p.unit_count - 1 - i) * nbytes  # the first to be taken begins where pages are small
        u.runs.runs = <Run*>(memory + position[0])
        u.segments = <Segment*>(memory + position[1])
        u.ids = <uint32_t*>(memory + position[2])
        u.iov = <iovec*>(memory + position[3])
        u.stage = memory + position[4]
        u.dump = memory + position[5]
        if p.plan.maker.count > 0 and not scratch_init(&u.scratch, &p.plan.maker):
            return False
        u.fresh = i < p.plan.config.asking  # the last ones to be taken
        u.next = p.free_units
        p.free_units = u
    p.unit_bytes = unit_bytes(ids, p.plan.config.unit_segments, stage, dump)
    p.fixed_bytes += (p.unit_count - p.plan.config.asking) * p.unit_bytes
    return True


cdef bint _slab_init(Pipe* p, int64_t slots, int64_t slot_bytes, int* pin_result) noexcept nogil:
    cdef void* memory = NULL
    if p.plan.config.core != NULL and slots <= (<int64_t>1 << 62) // slot_bytes:
        memory = pinned_take(p.plan.config.core, slots * slot_bytes, pin_result)
        if memory == NULL and not p.plan.config.prefer:
            return False
    p.pinned = memory != NULL
    if slab_init(p.slab, <uint32_t>slots, slot_bytes, memory):
        return True
    p.pinned = False
    if memory != NULL:
        pinned_give(p.plan.config.core, memory, slots * slot_bytes)
        p.slab.base = NULL
    return False


cdef int64_t slab_bytes(const Plan* plan) noexcept nogil:
    return (plan.config.width + plan.config.max_leases + 1) * plan.slot_bytes


cdef void plan_free(Plan* plan) noexcept nogil:
    cdef int32_t i
    if plan == NULL:
        return
    if plan.leaves != NULL:
        for i in range(plan.layout.leaf_count):
            free(<void*>plan.leaves[i].offsets)
    layout_clear(&plan.layout)
    free(plan.leaves)
    free(plan.specs)
    free(plan.maker.outputs)
    free(plan.maker.pads)
    free(plan.blocks)
    free(plan)


cdef void beginning_clear(Beginning* begin) noexcept nogil:
    free(begin.handed)
    free(begin.breaks)
    free(begin.told)
    begin.handed = NULL
    begin.breaks = NULL
    begin.told = NULL


cdef Pipe* pipe_new(const Plan* plan, Atomic[int32_t]* pipes, Beginning* begin, FileTable* table, StepFn step,
                    int* pin_result) noexcept nogil:
    cdef Pipe* p = <Pipe*>calloc(1, sizeof(Pipe))
    if p == NULL:
        table_drop(table)
        beginning_clear(begin)
        return NULL
    p.plan = plan
    p.table = table
    p.pipes = pipes
    p.pipes.fetch_add(1, kRelaxed)  # relaxed: the iterator that makes the pipe is the one that looks at the count
    p.generation = fork_generation()
    p.ramp_rows = min(plan.config.unit_rows, plan.config.batch_rows)
    p.start = begin.start
    p.place = begin.place
    p.handed = begin.handed  # taken over, as are the next two
    p.breaks = begin.breaks
    p.told = begin.told
    p.told_count = begin.told_count
    begin.handed = NULL
    begin.breaks = NULL
    begin.told = NULL
    if not (_parts_init(p, begin) and _order_init(p, begin) and _buffers_init(p, pin_result)):
        _pipe_free(p)
        return NULL
    p.order.skip_left = begin.skip
    p.order.skip_breaks = begin.skip_breaks
    p.runner.step = step
    p.runner.leave = _worker_leave
    p.runner.release = pipe_drop
    p.runner.context = p
    return p


cdef bint _parts_init(Pipe* p, const Beginning* begin) noexcept nogil:
    # Makes the parts that a run has of its own, and copies those of its beginning. False: no memory.
    p.shared = <PipeAtomics*>alloc_lines(sizeof(PipeAtomics))
    p.turn = <Turn*>alloc_lines(sizeof(Turn))
    p.runner = <Runner*>alloc_lines(sizeof(Runner))
    p.window = <Window*>alloc_lines(sizeof(Window))
    p.slab = <Slab*>alloc_lines(sizeof(Slab))
    p.meters = <Meter*>alloc_lines(size_product(p.plan.config.threads + 1, sizeof(Meter)))
    p.specs = <OpSpec*>malloc(size_product(p.plan.spec_count + 1, sizeof(OpSpec)))
    p.cuts = <Cut*>malloc(size_product(begin.cut_count + 1, sizeof(Cut)))
    p.missing = <Missing*>malloc(size_product(begin.missing_count + 1, sizeof(Missing)))
    if (p.shared == NULL or p.turn == NULL or p.runner == NULL or p.window == NULL or p.slab == NULL or p.specs == NULL
            or p.cuts == NULL or p.missing == NULL or p.meters == NULL):
        return False
    if p.plan.config.asking > 0:
        p.engine = <Engine*>alloc_lines(sizeof(Engine))
        if p.engine == NULL:
            return False
    if p.plan.maker.run != NULL:
        p.steps = <StepTimes*>alloc_lines(sizeof(StepTimes))
        if p.steps == NULL:
            return False
    p.shared.refs.store(1, kRelaxed)  # relaxed: nobody else knows of it yet
    memcpy(p.specs, begin.specs, p.plan.spec_count * sizeof(OpSpec))
    if begin.cut_count > 0:
        memcpy(p.cuts, begin.cuts, begin.cut_count * sizeof(Cut))
    if begin.missing_count > 0:
        memcpy(p.missing, begin.missing, begin.missing_count * sizeof(Missing))
    return True


cdef bint _order_init(Pipe* p, const Beginning* begin) noexcept nogil:
    # Makes the source of records and the order program. False: no memory.
    cdef const Config* c = &p.plan.config
    cdef OrderPlan program
    p.table.retries = c.retries
    p.table.drops = c.drops
    p.table.direct = c.direct
    p.table.stop = &p.runner.stop
    if c.blocks:
        p.blocks = blocks_new(p.plan.blocks, p.table, &p.runner.stop, &p.shared.blocks)
        if p.blocks == NULL or not blocks_begin(p.blocks, c.threads + c.help, &p.place, p.start.pass_, p.start.ordinal,
                                                begin.saved):
            return False
    program.table = p.table
    program.blocks = p.blocks
    program.skip_files = c.skip_bad
    program.start = p.start
    program.lengths = begin.lengths
    program.missing.records = p.missing
    program.missing.count = begin.missing_count
    program.specs = p.specs
    program.count = p.plan.spec_count
    program.store_ahead = c.store_rows
    program.played.breaks = p.handed
    program.played.count = begin.handed_count
    program.known.breaks = p.handed + begin.handed_count
    program.known.count = begin.known_count
    program.breaks.breaks = p.breaks
    program.breaks.count = begin.break_count
    program.cuts = p.cuts
    program.cut_count = begin.cut_count
    p.order = order_new(&program)
    p.slots_bytes = slab_bytes(p.plan)
    if p.order == NULL:
        return False
    return True


cdef bint _buffers_init(Pipe* p, int* pin_result) noexcept nogil:
    # Allocates the memory of batches, units and the store. False: no memory, or none that is page-locked.
    cdef const Config* c = &p.plan.config
    cdef int64_t slots = c.width + c.max_leases + 1
    cdef size_t marks
    if not (window_init(p.window, c.width, p.order.count) and _slab_init(p, slots, p.plan.slot_bytes, pin_result)
            and _units_init(p)):
        return False
    if p.blocks != NULL and p.plan.blocks.cycle > 1:
        marks = size_product(p.window.mask + 1, lanes_saved(p.plan.blocks.cycle) + 1)
        p.lane_marks = <int64_t*>malloc(size_product(marks, sizeof(int64_t)))
        if p.lane_marks == NULL:
            return False
    if p.plan.maker.vars > 0:
        p.vars = <Growing*>calloc(size_product(slots, p.plan.maker.vars), sizeof(Growing))
        p.rooms = <int64_t*>calloc(slots, sizeof(int64_t))
        p.whole = <uint64_t*>malloc(size_product(p.window.mask + 1, sizeof(uint64_t)))
        if p.vars == NULL or p.rooms == NULL or p.whole == NULL:
            return False
    if c.store_rows > 0:
        p.store_stride = (p.plan.layout.record_bytes + 63) // 64 * 64
        p.store_bytes = <size_t>(p.order.stored.ids.capacity * p.store_stride)
        p.fixed_bytes += p.store_bytes
        p.store = <unsigned char*>buffer_take(p.store_bytes)
    return c.store_rows == 0 or p.store != NULL


cdef void _pipe_free(Pipe* p) noexcept nogil:
    cdef int32_t i
    cdef int64_t k
    cdef Unit* u
    cdef BatchPart* part
    cdef BatchPart* next
    if p.runner != NULL:
        registry_remove(p.runner)
    if p.units != NULL:
        for i in range(p.unit_count):
            u = &p.units[i]
            scratch_clear(&u.scratch)
            job_clear(&u.job)
    free(p.units)
    buffer_give(p.unit_memory, p.unit_memory_bytes)
    blocks_free(p.blocks)
    if p.vars != NULL:
        for k in range(p.slab.slots * <int64_t>p.plan.maker.vars):
            growing_free(&p.vars[k])
        free(p.vars)
    free(p.rooms)
    if p.window != NULL and p.window.ring != NULL:
        for i in range(<int32_t>p.window.mask + 1):
            part = <BatchPart*>p.window.ring[i].parts
            while part != NULL:
                next = part.next
                part_free(&p.plan.maker, part)
                part = next
    free(p.lane_marks)
    free(p.missing)
    free(p.handed)
    free(p.breaks)
    free(p.told)
    free(p.whole)
    free(p.bad)
    if p.slab != NULL:
        if p.pinned:
            pinned_give(p.plan.config.core, p.slab.base, p.slab.mapped_bytes)
            p.slab.base = NULL
        slab_free(p.slab)
    if p.window != NULL:
        window_free(p.window)
    buffer_give(p.store, p.store_bytes)
    order_free(p.order)
    table_drop(p.table)
    free(p.cuts)
    free(p.specs)
    free(p.slab)
    free(p.engine)
    free(p.meters)
    free(p.steps)
    lines_drop(p.lines)
    free(p.window)
    free(p.runner)
    free(p.turn)
    free(p.shared)
    if p.pipes != NULL:
        # release: pairs with Keeper's acquire; this pipe no longer uses objects of the keeper
        p.pipes.fetch_sub(1, kRelease)
    free(p)
