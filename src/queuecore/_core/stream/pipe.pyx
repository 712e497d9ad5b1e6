"""Pipes: the parts of one run of a plan, from its beginning to its end, and the leases on its batches."""
cimport cython
from libc.stddef cimport size_t
from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t
from libc.string cimport memcpy
from queuecore._core.atoms.memory cimport calloc, free, malloc
from queuecore._core.atoms.process cimport buffer_give, buffer_take, check_layout, fork_generation, registry_remove
from queuecore._core.io.blocks cimport Blocks, blocks_clear, blocks_close, blocks_init, blocks_saved
from queuecore._core.steps.decode cimport PLACE_STAGE, layout_clear, layout_plan
from queuecore._core.device.pinned cimport pinned_give, pinned_take
from queuecore._core.atoms.errors cimport CODE_EXHAUSTED, STAGE_NONE, WHAT_BUDGET, WHAT_MEMORY, fault_begin
from queuecore._core.io.engine cimport Engine, job_clear
from queuecore._core.io.framing cimport framing_handed
from queuecore._core.atoms.growing cimport Growing
from queuecore._core.stream.limits cimport IOVECS
from queuecore._core.order.order cimport order_free, order_new
from queuecore._core.order.op cimport OpSpec, OrderPlan
from queuecore._core.order.runs cimport Missing, Run
from queuecore._core.atoms.parking cimport turn_give, turn_take
from queuecore._core.atoms.platform cimport (
    Batch, Fault, Leaf, Runner, Slab, StepFn, Turn, Window, alloc_lines, iovec, kAcqRel, kRelaxed, kRelease,
    layout_hash, size_product, size_sum)
from queuecore._core.stream.rows cimport (
    BatchPart, Output, Pad, part_free, rows_join, rows_pad, scratch_clear, scratch_init)
from queuecore._core.atoms.runtime cimport runner_stop
from queuecore._core.steps.stages cimport StepTimes
from queuecore._core.atoms.timeline cimport lines_drop
from queuecore._core.atoms.slab cimport slab_free, slab_init, slab_slot, slots_push
from queuecore._core.io.sources cimport FileTable, table_close_idle, table_drop
from queuecore._core.atoms.window cimport window_free, window_init, window_publish

check_layout(layout_hash())


# References

cdef void pipe_hold(void* context) noexcept nogil:
    (<Pipe*>context).shared.refs.fetch_add(1, kRelaxed)  # relaxed: the caller holds a reference


cdef void pipe_drop(void* context) noexcept nogil:
    cdef Pipe* p = <Pipe*>context
    # acq_rel: release, this holder is done; acquire, the last one frees what all others wrote
    if p.shared.refs.fetch_sub(1, kAcqRel) == 1:
        _pipe_free(p)


cdef void _worker_drop(void* context) noexcept nogil:
    # Ends a worker. Only workers read files: each that leaves closes the files that nobody reads, so that an ended
    # stream holds none.
    cdef Pipe* p = <Pipe*>context
    if not p.keeps_files:
        table_close_idle(p.table)
    if p.blocks != NULL:
        turn_take(p.turn)
        blocks_close(p.blocks)
        turn_give(p.turn)
    pipe_drop(context)


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
    for i in range(p.maker.vars):
        room += vars[i].room
    return room


cdef void count_room(Pipe* p, uint32_t slot) noexcept nogil:
    cdef int64_t room = room_of(p, p.vars + <int64_t>slot * p.maker.vars), most
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
    f.b = p.config.budget
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
            part_free(&p.maker, parts)
            parts = next
    elif parts != NULL and not rows_join(&p.maker, parts, slab_slot(p.slab, b.slot),
                                         p.vars + <int64_t>b.slot * p.maker.vars):
        pipe_no_memory(p)
        return
    if p.maker.pad_count > 0 and not b.failed.load(kRelaxed):  # relaxed: ordered by B2
        if not rows_pad(&p.maker, slab_slot(p.slab, b.slot), p.vars + <int64_t>b.slot * p.maker.vars, b.rows):
            pipe_no_memory(p)
            return
    if p.maker.vars > 0:  # the slot is this batch's alone
        count_room(p, b.slot)
        p.shared.grown.fetch_sub(room, kRelaxed)
        if p.config.budget > 0 and p.slots_bytes + p.fixed_bytes + p.rooms[b.slot] > p.config.budget:
            pipe_over_budget(p, p.slots_bytes + p.fixed_bytes + p.rooms[b.slot])
            return
    window_publish(p.window, b, k)


# Beginning and end

cdef size_t _part_after(size_t at, size_t nbytes, int64_t* offset) noexcept nogil:
    # Places a part at offset `at`, and returns the offset of the next part.
    offset[0] = at
    return size_sum(at, size_sum(nbytes, 63) // 64 * 64)


cdef size_t lay_out(Pipe* p) noexcept nogil:
    cdef size_t slot_bytes = 0, nbytes
    cdef int64_t rows = p.config.batch_rows
    cdef Output* out
    cdef int32_t i
    if p.maker.count == 0:
        for i in range(p.layout.leaf_count):
            slot_bytes = _part_after(slot_bytes, size_product(p.layout.leaves[i].row_bytes, rows),
                                     &p.layout.leaves[i].slot_offset)
    for i in range(p.maker.count):
        out = &p.maker.outputs[i]
        nbytes = size_product(out.row_bytes, rows) if out.item == 0 else size_product(rows + 1, sizeof(int64_t))
        slot_bytes = _part_after(slot_bytes, nbytes, &out.slot_offset)
        slot_bytes = _part_after(slot_bytes, size_product(out.ndim * sizeof(int64_t), rows), &out.dims_offset)
    for i in range(p.maker.pad_count):
        slot_bytes = _part_after(slot_bytes, p.maker.pads[i].ndim * sizeof(int64_t), &p.maker.pads[i].slot_offset)
    return size_sum(slot_bytes, (slot_bytes == 0) + 4095) // 4096 * 4096  # rows may have no bytes at all


cdef int64_t unit_bytes(int64_t ids, int64_t segments, int64_t stage, int64_t dump) noexcept nogil:
    return (ids + 1) * (sizeof(Run) + sizeof(uint32_t)) + (segments + 1) * sizeof(Segment) + (IOVECS
            + 1) * sizeof(iovec) + stage + dump


cdef bint _units_init(Pipe* p) noexcept nogil:
    cdef int32_t i
    cdef Unit* u
    cdef int64_t rows = p.config.unit_rows, ids
    cdef int64_t stage = 1 if p.blocks != NULL else (p.layout.stage_records
                                                     - 1) * p.layout.hop_bytes + p.layout.record_bytes
    cdef int64_t dump = p.layout.dump_bytes
    cdef int64_t[6] at  # of the parts of a unit's memory
    cdef size_t nbytes = 0
    cdef unsigned char* memory
    if p.layout.hop_bytes - p.layout.record_bytes > dump and not p.layout.lone_records:
        dump = p.layout.hop_bytes - p.layout.record_bytes
    ids = rows if rows > p.config.load_rows else p.config.load_rows
    p.unit_count = p.config.threads + p.config.helpers + p.config.asking
    p.units = <Unit*>calloc(p.unit_count, sizeof(Unit))
    if p.units == NULL:
        return False
    # One mapping for all units, which the next pipe can use again: malloc's heaps would keep the memory of a thousand
    # dropped iterators.
    nbytes = _part_after(nbytes, size_product(ids + 1, sizeof(Run)), &at[0])
    nbytes = _part_after(nbytes, size_product(p.config.unit_segments + 1, sizeof(Segment)), &at[1])
    nbytes = _part_after(nbytes, size_product(ids + 1, sizeof(uint32_t)), &at[2])
    nbytes = _part_after(nbytes, size_product(IOVECS + 1, sizeof(iovec)), &at[3])
    nbytes = _part_after(nbytes, stage, &at[4])
    nbytes = size_sum(_part_after(nbytes, size_sum(dump, 1), &at[5]), 127) // 128 * 128  # units share no line
    p.unit_memory_bytes = size_product(nbytes, p.unit_count)
    p.unit_memory = <unsigned char*>buffer_take(p.unit_memory_bytes)
    if p.unit_memory == NULL:
        return False
    for i in range(p.unit_count):
        u = &p.units[i]
        memory = p.unit_memory + i * nbytes
        u.runs.runs = <Run*>(memory + at[0])
        u.segments = <Segment*>(memory + at[1])
        u.ids = <uint32_t*>(memory + at[2])
        u.iov = <iovec*>(memory + at[3])
        u.stage = memory + at[4]
        u.dump = memory + at[5]
        if p.maker.count > 0 and not scratch_init(&u.scratch, &p.maker):
            return False
        u.fresh = i < p.config.asking  # the last ones to be taken
        u.next = p.free_units
        p.free_units = u
    p.unit_bytes = unit_bytes(ids, p.config.unit_segments, stage, dump)
    p.fixed_bytes += (p.unit_count - p.config.asking) * p.unit_bytes
    return True


cdef bint _slab_init(Pipe* p, int64_t slots, int64_t slot_bytes) noexcept nogil:
    cdef void* memory = NULL
    if p.config.core != NULL and slots <= (<int64_t>1 << 62) // slot_bytes:
        memory = pinned_take(p.config.core, slots * slot_bytes, &p.pin_result)
        if memory == NULL and not p.config.prefer:
            return False
    p.pinned = memory != NULL
    if slab_init(p.slab, <uint32_t>slots, slot_bytes, memory):
        return True
    p.pinned = False
    if memory != NULL:
        pinned_give(p.config.core, memory, slots * slot_bytes)
        p.slab.base = NULL
    return False


cdef Pipe* pipe_new(Pipe* plan, FileTable* table, const Cut* cuts, int32_t cut_count, int64_t skip,
                    StepFn step) noexcept nogil:
    cdef Pipe* p = <Pipe*>calloc(1, sizeof(Pipe))
    if p == NULL:
        table_drop(table)
        return NULL
    p.table = table
    p.pipes = plan.pipes
    p.pipes.fetch_add(1, kRelaxed)  # relaxed: the iterator that makes the pipe is the one that looks at the count
    p.generation = fork_generation()
    p.config = plan.config
    p.config.skip = skip
    p.ramp_rows = min(p.config.unit_rows, p.config.batch_rows)
    p.handed = plan.handed  # taken over, as are the next fields
    p.handed_count = plan.handed_count
    p.known_count = plan.known_count
    p.breaks = plan.breaks
    p.break_count = plan.break_count
    p.told = plan.told
    p.told_count = plan.told_count
    plan.handed = NULL
    plan.breaks = NULL
    plan.told = NULL
    if not (_copy_plan(p, plan, cuts, cut_count) and _order_init(p, plan) and _buffers_init(p)):
        plan.pin_result = p.pin_result
        _pipe_free(p)
        return NULL
    p.order.skip_left = skip
    p.order.skip_breaks = p.config.skip_breaks
    p.runner.step = step
    p.runner.release = _worker_drop
    p.runner.context = p
    return p


cdef bint _copy_plan(Pipe* p, const Pipe* plan, const Cut* cuts, int32_t cut_count) noexcept nogil:
    # Copies the parts of a plan that a run has of its own. False: no memory.
    cdef int64_t pieces = 0
    cdef int32_t i
    cdef Leaf* leaf
    p.shared = <PipeAtomics*>alloc_lines(sizeof(PipeAtomics))
    p.turn = <Turn*>alloc_lines(sizeof(Turn))
    p.runner = <Runner*>alloc_lines(sizeof(Runner))
    p.window = <Window*>alloc_lines(sizeof(Window))
    p.slab = <Slab*>alloc_lines(sizeof(Slab))
    p.meters = <Meter*>alloc_lines(size_product(plan.config.threads + 1, sizeof(Meter)))
    p.spec_count = plan.spec_count
    p.specs = <OpSpec*>malloc(size_product(plan.spec_count + 1, sizeof(OpSpec)))
    p.leaves = <Leaf*>malloc(size_product(plan.layout.leaf_count + 1, sizeof(Leaf)))
    p.cuts = <Cut*>malloc(size_product(cut_count + 1, sizeof(Cut)))
    for i in range(plan.layout.leaf_count):
        pieces += plan.leaves[i].pieces
    p.offsets = <int64_t*>malloc(size_product(pieces + 1, sizeof(int64_t)))
    p.maker = plan.maker
    p.maker.outputs = <Output*>malloc(size_product(plan.maker.count + 1, sizeof(Output)))
    p.maker.pads = <Pad*>malloc(size_product(plan.maker.pad_count + 1, sizeof(Pad)))
    p.missing = <Missing*>malloc(size_product(plan.missing_count + 1, sizeof(Missing)))
    if (p.shared == NULL or p.turn == NULL or p.runner == NULL or p.window == NULL or p.slab == NULL or p.specs == NULL
            or p.leaves == NULL or p.cuts == NULL or p.offsets == NULL or p.maker.outputs == NULL
            or p.maker.pads == NULL or p.missing == NULL
            or p.meters == NULL):
        return False
    if p.config.asking > 0:
        p.engine = <Engine*>alloc_lines(sizeof(Engine))
        if p.engine == NULL:
            return False
    if p.maker.run != NULL:
        p.steps = <StepTimes*>alloc_lines(sizeof(StepTimes))
        if p.steps == NULL:
            return False
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
    p.layout.record_bytes = plan.layout.record_bytes
    p.layout.hop_bytes = plan.layout.hop_bytes
    if plan.missing_count > 0:
        memcpy(p.missing, plan.missing, plan.missing_count * sizeof(Missing))
    p.missing_count = plan.missing_count
    p.start = plan.start
    p.place = plan.place
    return True


cdef bint _order_init(Pipe* p, Pipe* plan) noexcept nogil:
    # Makes the source of records and the order program. False: no memory.
    cdef Config* c = &p.config
    cdef OrderPlan program
    p.table.retries = c.retries
    p.table.stop = &p.runner.stop
    if c.blocks:
        p.blocks = <Blocks*>malloc(sizeof(Blocks))
        if p.blocks == NULL:
            return False
        p.blocks[0] = plan.blocks[0]
        p.blocks.memory = &p.shared.blocks
        if not blocks_init(p.blocks, p.table, &p.runner.stop, c.threads + c.help, &p.place, p.start.pass_,
                           p.start.ordinal, plan.saved):
            return False
        p.blocks.release = slot_release
        if c.budget > 0 and framing_handed(p.maker.framing):
            p.blocks.most = 2
    program.table = p.table
    program.blocks = p.blocks
    program.skip_files = c.skip_bad
    program.start = p.start
    program.lengths = plan.lengths
    program.missing.records = p.missing
    program.missing.count = p.missing_count
    program.specs = p.specs
    program.count = p.spec_count
    program.store_ahead = c.store_rows
    program.played.breaks = p.handed
    program.played.count = p.handed_count
    program.known.breaks = p.handed + p.handed_count
    program.known.count = p.known_count
    program.breaks.breaks = p.breaks
    program.breaks.count = p.break_count
    program.cuts = p.cuts
    program.cut_count = p.cut_count
    p.order = order_new(&program)
    p.slots_bytes = (c.width + c.max_leases + 1) * lay_out(p)
    plan.slots_bytes = p.slots_bytes
    return p.order != NULL


cdef bint _buffers_init(Pipe* p) noexcept nogil:
    # Allocates the memory of batches, units and the store. False: no memory, or none that is page-locked.
    cdef Config* c = &p.config
    cdef int64_t slots = c.width + c.max_leases + 1
    cdef size_t marks
    if p.blocks == NULL and not layout_plan(&p.layout):
        return False
    if c.budget > 0 and p.layout.stage_records > c.stage_most:
        p.layout.stage_records = c.stage_most
    if not (window_init(p.window, c.width, p.order.count) and _slab_init(p, slots, lay_out(p)) and _units_init(p)):
        return False
    if p.maker.run != NULL:
        p.layout.place = PLACE_STAGE
    if p.blocks != NULL and p.blocks.cycle > 1:
        marks = size_product(p.window.mask + 1, blocks_saved(p.blocks.cycle) + 1)
        p.lane_marks = <int64_t*>malloc(size_product(marks, sizeof(int64_t)))
        if p.lane_marks == NULL:
            return False
    if p.maker.vars > 0:
        p.vars = <Growing*>calloc(size_product(slots, p.maker.vars), sizeof(Growing))
        p.rooms = <int64_t*>calloc(slots, sizeof(int64_t))
        p.whole = <uint64_t*>malloc(size_product(p.window.mask + 1, sizeof(uint64_t)))
        if p.vars == NULL or p.rooms == NULL or p.whole == NULL:
            return False
    if c.store_rows > 0:
        p.store_stride = (p.layout.record_bytes + 63) // 64 * 64
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
            part = <BatchPart*>p.window.ring[i].parts
            while part != NULL:
                next = part.next
                part_free(&p.maker, part)
                part = next
    free(p.lane_marks)
    free(p.maker.outputs)
    free(p.maker.pads)
    free(p.missing)
    free(p.handed)
    free(p.breaks)
    free(p.told)
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
