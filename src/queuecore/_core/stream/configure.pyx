"""Configurations: how large the parts of a stream are, and what its workers do."""
import resource

from libc.stddef cimport size_t
from libc.stdint cimport int32_t, int64_t, uint32_t
from libc.string cimport memcpy
from queuecore._core.atoms.dims cimport MAX_DIMS
from queuecore._core.atoms.errors cimport CODE_EXHAUSTED, CODE_INVALID_ARGUMENT, CODE_UNIMPLEMENTED, raise_error
from queuecore._core.atoms.memory cimport calloc, malloc
from queuecore._core.atoms.process cimport check_layout
from queuecore._core.io.blocks cimport BLOCK_BYTES, HEADROOM, BlockPlan, files_kind
from queuecore._core.io.handed cimport handed_kind
from queuecore._core.io.framing cimport FRAME_FIXED, FRAME_WHOLE, framing_walk
from queuecore._core.io.lanes cimport ahead_kind, lanes_kind
from queuecore._core.steps.decode cimport PLACE_STAGE, WIDE_GAP, layout_plan
from queuecore._core.stream.describe cimport (
    KIND_FIXED, KIND_RAGGED, KIND_STRINGS, RowComponent, Description, Elements, Frames, Keeper, Ops, component_of,
    describe_columns, describe_output)
from queuecore._core.device.driver cimport Device
from queuecore._core.stream.limits cimport (
    AHEAD_PART, ASKING, ASKING_LOADS, CHUNK_BYTES, CHUNK_ROWS, DISCOVER_AHEAD, HELPERS, IDLE_FILES, LANES, LANE_BYTES,
    LONE_ROWS, RUN_AHEAD, RUN_AHEAD_FILES, SMALL_UNIT_BYTES, STORE_BYTES, STORE_RECORD_BYTES, UNIT_BATCHES, UNIT_BYTES,
    VARYING_BYTES, WIDTH_MOST)
from queuecore._core.order.order cimport OP_BATCH, OP_PERMUTE, OP_REPEAT, OP_SHARD, OP_SHUFFLE
from queuecore._core.order.op cimport OpSpec
from queuecore._core.order.runs cimport Run
from queuecore._core.order.shard cimport UNEVEN_PAD
from queuecore._core.stream.pipe cimport Config, Plan, lay_out, slot_release, unit_bytes
from queuecore._core.atoms.platform cimport Leaf, kMostBytes, layout_hash, size_product
from queuecore._core.stream.maker cimport CSV_ROWS, TAKE_ITEMS, Maker, Output, Pad, rows_together
from queuecore._core.io.names cimport MOST_FILES, Names
from queuecore._core.io.sources cimport TAIL_SHORT, TAIL_STREAM, FileTable, table_expect, table_new
from queuecore._core.steps.stages cimport Step
from queuecore._core.stream.views cimport Views

check_layout(layout_hash())

# Numbers that follow from a description and decide how large the parts of its plan are.
cdef struct Shape:
    int64_t record_bytes, hop_bytes  # of a record; of records in blocks, an estimate
    int64_t row_bytes      # of an element's row in a slot; rows of varying length count VARYING_BYTES
    int64_t store_bytes    # that the store of a shuffle may take
    bint stored            # a shuffle's records may be kept in a store
    bint sharded
    int32_t shuffles


cdef FileTable* configure(Description d, Views views, Keeper keeper) except NULL:
    cdef Plan* plan = <Plan*>calloc(1, sizeof(Plan))
    cdef Config* c
    cdef BlockPlan* frame
    cdef Shape shape
    cdef FileTable* table
    cdef int64_t fd_limit
    shape.record_bytes = d.records.record_bytes
    shape.hop_bytes = d.records.hop_bytes
    shape.store_bytes = min(STORE_BYTES, d.memory_limit // AHEAD_PART) if d.memory_limit > 0 else STORE_BYTES
    if plan == NULL:
        raise MemoryError
    keeper.plan = plan
    frame = plan.blocks = <BlockPlan*>calloc(1, sizeof(BlockPlan))
    if frame == NULL:
        raise MemoryError
    c = &plan.config
    c.blocks = d.frames is not None
    _set_leaves(d, plan, views, &shape)
    _set_ops(d, plan, &shape)
    _set_means(d, c)
    if d.elements.components is not None:
        _set_maker(d.elements, &plan.maker, views, &shape)
    if c.blocks:
        shape.stored = False
        shape.record_bytes = shape.hop_bytes = d.frames.guess
        _set_frame(d, plan, keeper, shape.shuffles)
    else:
        plan.maker.record_bytes = d.records.record_bytes
    if d.elements.step is not None:
        _set_together(plan, d.elements.step)
    _set_sizes(d, plan, &shape)
    if d.memory_budget > 0:
        _fit(plan, d.memory_budget, &shape, d.on_hold_raise)
    if c.blocks and frame.encoding and c.threads > 1:
        _set_run_ahead(d, c, frame)
    _set_layout(plan)
    # A run that reads files one after the other closes each at its end; a run that jumps between files keeps some open.
    fd_limit = d.num_threads + DISCOVER_AHEAD + 1
    if shape.shuffles and c.store_rows == 0 and not c.blocks:
        fd_limit = c.files_kept
    if c.blocks and frame.cycle > 1:
        fd_limit += min(frame.cycle, c.files_kept)
    if c.blocks:
        table = table_new(d.files.names, frame.piece_bytes, 0, 0, frame.piece_bytes,
                          TAIL_STREAM if frame.encoding else TAIL_SHORT, <int32_t>fd_limit)
    else:
        table = table_new(d.files.names, d.records.record_bytes, d.records.header_bytes, d.records.footer_bytes,
                          d.records.hop_bytes, d.records.drop_tail, <int32_t>fd_limit)
    if table == NULL:
        raise MemoryError
    table.store = d.files.store_number
    if d.known is not None:
        table_expect(table, d.known)
    return table


cdef int _set_layout(Plan* plan) except -1:
    # Decides how records at known places are cut into the pieces of their leaves.
    if plan.config.blocks:
        plan.layout.record_bytes = plan.layout.hop_bytes = 1
    elif not layout_plan(&plan.layout):
        raise MemoryError
    if plan.config.budget > 0 and plan.layout.stage_records > plan.config.stage_most:
        plan.layout.stage_records = plan.config.stage_most
    if plan.maker.run != NULL:
        plan.layout.place = PLACE_STAGE
    return 0


cdef int _set_leaves(Description d, Plan* plan, Views views, Shape* shape) except -1:
    # Sets the pieces that a record is cut into where no step makes components of it.
    cdef int32_t i, j, n = <int32_t>len(d.elements.leaves)
    cdef Leaf* leaf
    plan.layout.record_bytes = d.records.record_bytes
    plan.layout.hop_bytes = d.records.hop_bytes
    plan.leaves = <Leaf*>calloc(n + 1, sizeof(Leaf))
    if plan.leaves == NULL:
        raise MemoryError
    plan.layout.leaf_count = n
    plan.layout.leaves = plan.leaves
    views.begin(n)
    views.template = d.elements.template
    views.assemble = d.elements.assemble
    views.levels = d.ops.levels
    shape.row_bytes = 0
    for i, (dtype, dims, swap, offsets, piece_bytes) in enumerate(d.elements.leaves):
        leaf = &plan.leaves[i]
        views.dtypes.append(dtype)
        views.ndims[i] = len(dims)
        if len(dims) > MAX_DIMS:
            raise_error(CODE_INVALID_ARGUMENT, f"field number {i} has {len(dims)} dimensions; at most {MAX_DIMS} are "
                                               "possible")
        for j in range(views.ndims[i]):
            views.sides[i * MAX_DIMS + j] = dims[j]
        leaf.swap = swap
        leaf.pieces = len(offsets)
        leaf.piece_bytes = piece_bytes
        leaf.row_bytes = min(size_product(piece_bytes, leaf.pieces), <size_t>kMostBytes + 1)  # _slot_bytes refuses that
        shape.row_bytes += leaf.row_bytes
        leaf.offsets = <int64_t*>malloc(size_product(leaf.pieces + 1, sizeof(int64_t)))
        if leaf.offsets == NULL:
            raise MemoryError
        for j in range(leaf.pieces):
            (<int64_t*>leaf.offsets)[j] = offsets[j]
    return 0


cdef int _set_ops(Description d, Plan* plan, Shape* shape) except -1:
    # Sets the operators of the order, and decides whether a shuffle may keep its records in a store.
    cdef Config* c = &plan.config
    cdef Ops ops = d.ops
    cdef OpSpec* spec
    cdef int32_t i
    # a record that is left out counts as if the data never had it
    cdef bint exact = d.skips is not None and not d.skips.tells
    plan.specs = <OpSpec*>malloc(size_product(ops.count + 1, sizeof(OpSpec)))
    if plan.specs == NULL:
        raise MemoryError
    if ops.count > 0:
        memcpy(plan.specs, ops.specs, ops.count * sizeof(OpSpec))
    plan.spec_count = ops.count
    c.shuffle_level = ops.shuffle_level
    c.batch_level = ops.batch_level
    c.map_level = ops.map_level
    c.batch_rows = 1
    shape.stored = True
    shape.sharded = False
    shape.shuffles = 0
    for i in range(ops.count):
        spec = &plan.specs[i]
        if spec.kind == OP_BATCH:
            c.batch_rows *= spec.size
            c.batched = True
        elif spec.kind == OP_SHUFFLE:
            if exact and c.batched:
                raise_error(CODE_UNIMPLEMENTED,
                    'on_error="skip" with a shuffle of batches: what is left out of one would change others that were '
                    'given before. '
                    "Shuffle before the batch")
            # A stored shuffle needs each row that it holds to be given soon: so it is the only shuffle, and its
            # elements are records.
            shape.stored = shape.stored and shape.shuffles == 0 and c.batch_rows == 1 and spec.size > 1
            if (shape.record_bytes >= STORE_RECORD_BYTES
                or spec.size > shape.store_bytes // ((shape.record_bytes + 63) // 64 * 64)):
                shape.stored = False
            shape.shuffles += 1
        elif spec.kind == OP_SHARD:
            shape.sharded = shape.sharded or spec.size > 1
            if exact and c.batched and spec.size > 1:
                raise_error(CODE_UNIMPLEMENTED,
                    'on_error="skip" with a shard of batches: what one shard leaves out of a batch would shift those '
                    'of the others. '
                    "Shard before the batch")
            # The store would also load the records of other shards, which pays only if they are few bytes. UNEVEN_PAD
            # needs records at known places.
            if not c.blocks and shape.shuffles and spec.size > 1 and (shape.hop_bytes > WIDE_GAP // 2 // spec.size
                                                                      or spec.uneven == UNEVEN_PAD):
                shape.stored = False
        elif spec.kind == OP_PERMUTE:
            shape.shuffles += 1
            shape.stored = False
    shape.stored = shape.stored and shape.shuffles == 1
    return 0


cdef int32_t _files_kept() except -1:
    # Returns how many files a stream may keep open that reads them here and there: a part of what the process may have.
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return IDLE_FILES if most == resource.RLIM_INFINITY else <int32_t>min(max(most // 8, 1), IDLE_FILES)


cdef int _set_means(Description d, Config* c) except -1:
    cdef Device device
    c.threads = d.num_threads
    c.help = d.help
    c.max_leases = d.max_leases
    if d.target is not None:
        device = d.target.device
        c.core = device.core
        c.buffers = d.target.buffers
        c.prefer = d.target.prefer
        c.max_leases = 2 * c.buffers  # slots whose copies are on their way
    c.prefetch = min(d.prefetch, WIDTH_MOST)
    # Bounded, as sums and products of them with numbers of rows have to fit an int64.
    c.ahead = min(d.ahead, WIDTH_MOST) if d.target is None else -1
    c.at_a_time = min(d.at_a_time, <int64_t>1 << 40)
    c.helpers = HELPERS
    c.unit_bytes = UNIT_BYTES
    c.retries = d.retries
    c.drops = d.drops
    c.direct = d.direct
    c.files_kept = _files_kept()
    c.skip_bad = d.skips is not None
    c.tell_bad = d.skips is None or d.skips.tells
    return 0


cdef int _set_maker(Elements e, Maker* m, Views views, Shape* shape) except -1:
    # Sets the step that makes components of a record, and where they lie in a slot.
    cdef RowComponent component
    cdef int32_t i
    m.outputs = <Output*>calloc(2 * len(e.components) + 1, sizeof(Output))
    m.pads = <Pad*>calloc(len(e.components) + 1, sizeof(Pad))
    if m.outputs == NULL or m.pads == NULL:
        raise MemoryError
    m.given = 1
    m.made = len(e.components)
    views.components = []
    for i, (kind, dtype, dims) in enumerate(e.components):
        component = component_of(kind, dtype, dims)
        component.output = m.count
        if i < len(e.pads) and e.pads[i] is not None:
            component.pad = m.pad_count
            _set_pad(&m.pads[component.pad], component, e.pads[i][0], e.pads[i][1])
            m.pads[component.pad].output = m.count + (component.kind == KIND_STRINGS)
            m.pad_count += 1
        views.components.append(component)
        m.count = describe_output(m.outputs, m.count, i, component, &m.vars)
    for i in range(m.pad_count):
        m.pads[i].var = m.vars
        m.vars += 1
        m.outputs[m.pads[i].output].pad = &m.pads[i]
    if e.step is not None:
        m.run = e.step.run
        m.params = e.step.params
    shape.row_bytes = 0
    for i in range(m.count):
        shape.row_bytes += m.outputs[i].row_bytes if m.outputs[i].item == 0 else VARYING_BYTES
    return 0


cdef int _set_pad(Pad* pad, RowComponent component, tuple sides, bytes fill) except -1:
    # The keeper owns `fill`, to which the pad keeps a pointer.
    cdef int32_t i
    dims = ((-1,) if component.kind == KIND_STRINGS
            else (-1, *component.shape) if component.kind == KIND_RAGGED else component.shape)
    pad.ndim = len(dims)
    if pad.ndim != len(sides) or pad.ndim > MAX_DIMS:
        raise_error(CODE_INVALID_ARGUMENT, f"{pad.ndim} dimensions can't be padded to {len(sides)}; at most "
                                           f"{MAX_DIMS} are possible")
    pad.fixed = component.kind == KIND_FIXED
    pad.item = sizeof(int64_t) if component.kind == KIND_STRINGS else component.dtype.base.itemsize
    for i in range(pad.ndim):
        pad.dims[i] = -1 if dims[i] is None else dims[i]
        pad.sides[i] = sides[i]
    pad.fill = fill
    if len(fill) != pad.item:
        raise ValueError("padding is one item")
    return 0


cdef int _set_frame(Description d, Plan* plan, Keeper keeper, int32_t shuffles) except -1:
    # Sets how records are found in blocks, and how their files are interleaved.
    cdef Frames f = d.frames
    cdef Maker* m = &plan.maker
    cdef BlockPlan* frame = plan.blocks
    cdef int32_t i
    frame.framing = m.framing = f.framing
    frame.walk = m.walk = framing_walk(f.framing)
    frame.encoding = f.encoding
    frame.header = f.header
    frame.max_record_bytes = f.max_record_bytes
    if f.csv is not None:
        frame.csv = m.csv = &f.csv.plan
        m.given = m.csv.count
    elif f.framing == FRAME_WHOLE:
        m.given = 2
        m.first_number = f.first_number
    frame.piece_bytes = f.piece_bytes if f.piece_bytes > 0 else BLOCK_BYTES
    frame.headroom = f.headroom if f.headroom > 0 else HEADROOM
    frame.skip_files = d.skips is not None
    frame.record_bytes = m.record_bytes = f.records.record_bytes
    frame.hop_bytes = m.hop_bytes = f.records.hop_bytes
    frame.header_bytes = f.records.header_bytes
    frame.footer_bytes = f.records.footer_bytes
    frame.drop_tail = f.records.drop_tail
    if f.columns is not None and d.feeder is not None:
        _set_columns(f.columns, m, keeper)
    # More slots than files would stay empty.
    d.files.at_least(f.cycle)
    frame.cycle = min(f.cycle, max(d.files.names.count, 1))
    frame.lane_records = min(f.lane_records, <int64_t>1 << 60)
    frame.shuffled = shuffles > 0
    frame.kind = handed_kind() if f.handed else files_kind() if frame.cycle == 1 else lanes_kind()
    frame.release = slot_release
    if frame.cycle >= <int64_t>1 << 24:
        raise_error(CODE_INVALID_ARGUMENT, f"cycle_length must be less than 2**24, not {f.cycle}")
    if f.piece_bytes == 0 and frame.cycle > LANES:  # each file has one or two pieces in memory
        frame.piece_bytes = max(LANE_BYTES, BLOCK_BYTES * LANES // frame.cycle)
        frame.headroom = frame.piece_bytes // 4
    frame.passes = 1
    for i in range(plan.spec_count):
        if plan.specs[i].kind == OP_REPEAT:
            if (plan.specs[i].size < 0 or frame.passes < 0
                or plan.specs[i].size > (<int64_t>1 << 62) // max(frame.passes, 1)):
                frame.passes = -1  # without end, or as good as that
            else:
                frame.passes *= plan.specs[i].size
    return 0


cdef int _set_run_ahead(Description d, const Config* c, BlockPlan* frame) except -1:
    # Lets threads decompress later files meanwhile, where one file comes after the other.
    cdef const Names* names = d.files.names
    if frame.cycle > 1 or (names.whole and names.count == 1 and frame.passes == 1):
        return 0
    frame.kind = ahead_kind()
    frame.lanes = min(names.count if names.whole else MOST_FILES, RUN_AHEAD_FILES - 1) + 1
    frame.run_ahead = (c.threads - 1) * <int64_t>RUN_AHEAD
    if d.memory_limit > 0:
        frame.run_ahead = min(frame.run_ahead, d.memory_limit // AHEAD_PART)
    if frame.memory_most > 0:  # the other half is for the first file
        frame.run_ahead = min(frame.run_ahead, frame.memory_most // 2)
    return 0


cdef int _set_columns(list columns, Maker* m, Keeper keeper) except -1:
    # Sets the columns of rows that are handed in. The keeper owns their description, since workers use it.
    cdef int64_t* shapes
    cdef int32_t n = <int32_t>len(columns)
    keeper.columns = <Output*>calloc(2 * n + 1, sizeof(Output) + MAX_DIMS * sizeof(int64_t))
    if keeper.columns == NULL:
        raise MemoryError
    shapes = <int64_t*>(keeper.columns + 2 * n + 1)
    m.columns = keeper.columns
    m.shapes = shapes
    m.given = n
    m.column_count = describe_columns(keeper.columns, shapes, columns)
    return 0


cdef bint _counts(const Output* columns, int32_t count, int32_t ndim, int64_t* nbytes) noexcept nogil:
    # Adds the bytes of a row, of varying length an estimate. False: many rows of these can't be handed over at once,
    # since each has a shape, of more than `ndim` dimensions.
    cdef int32_t i
    for i in range(count):
        if columns[i].item != 0 and (columns[i].ndim > ndim or columns[i].take != TAKE_ITEMS):
            return False
        nbytes[0] += columns[i].row_bytes if columns[i].item == 0 else VARYING_BYTES
    return True


cdef void _set_together(Plan* plan, Step step) noexcept nogil:
    # Lets a step make many rows at once.
    cdef Maker* m = &plan.maker
    cdef int64_t nbytes = 1 + step.between
    cdef int32_t i
    if step.run_rows == NULL or not _counts(m.outputs, m.count, 1, &nbytes):
        return
    if m.columns != NULL:
        if not _counts(m.columns, m.column_count, 0, &nbytes):
            return
    elif m.csv != NULL:
        for i in range(m.csv.count):
            nbytes += m.csv.columns[i].item_bytes
    elif not plan.config.blocks or m.framing == FRAME_FIXED:
        nbytes += m.record_bytes
    elif m.framing == FRAME_WHOLE:
        return
    else:
        nbytes += VARYING_BYTES
    m.run_rows = step.run_rows
    m.together = rows_together(nbytes)
    if m.csv != NULL:
        m.together = min(m.together, CSV_ROWS)


cdef int64_t _slot_bytes(Plan* plan) except -1:
    # Returns the bytes of a batch in the slab.
    cdef size_t slot_bytes = lay_out(plan)
    if slot_bytes > <size_t>kMostBytes:
        raise_error(CODE_EXHAUSTED,
            f"{plan.config.batch_rows} elements in one array are more than can be made: at most {kMostBytes} bytes")
    return slot_bytes


cdef int _set_sizes(Description d, Plan* plan, Shape* shape) except -1:
    # Sets how many rows a unit makes, and how many batches are made ahead.
    cdef Config* c = &plan.config
    cdef int64_t batch_bytes, slot_bytes, row_bytes, ahead, per_unit, chunk_bytes = CHUNK_BYTES
    if 0 < d.memory_budget < 64 * CHUNK_BYTES:
        chunk_bytes = d.memory_budget // 64
    if not c.batched:
        c.batch_rows = chunk_bytes // (shape.row_bytes + (shape.row_bytes == 0)) if shape.row_bytes < chunk_bytes else 1
        c.batch_rows = min(c.batch_rows, CHUNK_ROWS)
    slot_bytes = plan.slot_bytes = _slot_bytes(plan)
    row_bytes = shape.hop_bytes if shape.hop_bytes // 2 < shape.record_bytes else shape.record_bytes
    batch_bytes = min(size_product(c.batch_rows, row_bytes),
                      <size_t>kMostBytes)
    if batch_bytes >= UNIT_BYTES:
        per_unit = (batch_bytes + UNIT_BYTES - 1) // UNIT_BYTES
        c.unit_rows = (c.batch_rows + per_unit - 1) // per_unit
        per_unit = 1
    else:
        per_unit = SMALL_UNIT_BYTES // batch_bytes if batch_bytes < SMALL_UNIT_BYTES else 1
        per_unit = min(per_unit, UNIT_BATCHES)
        c.unit_rows = c.batch_rows * per_unit
    if not c.blocks and c.unit_rows > LONE_ROWS and (shape.sharded or (shape.shuffles and not shape.stored)):
        per_unit = LONE_ROWS // c.batch_rows if c.batch_rows < LONE_ROWS else 1
        c.unit_rows = c.batch_rows * per_unit if c.batch_rows < LONE_ROWS else LONE_ROWS
    c.unit_segments = 2 * per_unit + 2  # short batches take more segments: then a unit has fewer rows
    # Enough batches in flight that every worker has a unit and the consumer finds one ready.
    c.width = ((c.threads + 2) * c.unit_rows + c.batch_rows - 1) // c.batch_rows + 1
    # As many batches are made ahead as `prefetch` says, within a part of the memory: a slot's pages are touched only
    # when it is used.
    ahead = min(d.prefetch, WIDTH_MOST, (d.memory_limit if d.memory_limit > 0
                                         else kMostBytes) // AHEAD_PART // slot_bytes)
    c.width = max(c.width, ahead + 1)
    c.width += c.buffers  # a batch on the device counts as ahead until the consumer takes it
    c.near_width = c.width
    if d.asks and not (c.blocks and not plan.blocks.kind.reads):
        c.asking = ASKING if d.memory_budget <= 0 else <int32_t>min(d.memory_budget // (16 * UNIT_BYTES), ASKING)
        c.depth = d.depth
        c.rings = d.rings and not c.blocks  # a piece of a file is a worker's whole unit, not a read
    if not c.blocks:
        c.width += (c.asking * c.unit_rows + c.batch_rows - 1) // c.batch_rows
    c.load_rows = UNIT_BYTES // 2 // shape.record_bytes
    c.load_rows = 16 if c.load_rows < 16 else (1024 if c.load_rows > 1024 else c.load_rows)
    if shape.stored:
        # Rows that are being loaded or copied out, and rows that a batch keeps until it is whole, or a shard until its
        # group is whole.
        c.store_rows = (c.threads + 3) * max(c.unit_rows, c.load_rows) + min(c.asking,
                ASKING_LOADS) * c.load_rows + 3 * c.batch_rows
        if c.store_rows > shape.store_bytes // ((shape.record_bytes + 63) // 64 * 64):
            c.store_rows = 0
    return 0


cdef int _fit(Plan* plan, int64_t budget, const Shape* shape, bint keeps_leases) except -1:
    # Makes the parts smaller until all fit into the budget; begins with the parts that matter least for speed.
    cdef Config* c = &plan.config
    cdef BlockPlan* frame = plan.blocks
    cdef int64_t units, unit, slot, rest, need, stride = (shape.record_bytes + 63) // 64 * 64, ids, piece
    cdef int32_t i = 0
    c.budget = budget
    if c.threads > budget // (2 << 20):
        c.threads = <int32_t>max(budget // (2 << 20), 1)
    c.helpers = c.help
    units = c.threads + c.helpers + c.asking
    c.stage_most = max(budget // 8 // units // shape.hop_bytes, 1) if not c.blocks else 1
    ids = budget // 8 // units // <int64_t>(sizeof(Run) + sizeof(uint32_t))
    if c.unit_rows > ids:
        c.unit_rows = ids
    if c.unit_bytes > budget // 32:
        c.unit_bytes = budget // 32
    if c.load_rows > c.unit_rows:
        c.load_rows = max(c.unit_rows, 16)
    unit = unit_bytes(max(c.unit_rows, c.load_rows), c.unit_segments,
                      c.stage_most * shape.hop_bytes + shape.record_bytes, shape.hop_bytes)
    if c.asking * unit > budget // 16:
        units -= c.asking
        c.asking = 0
    units *= unit
    if c.blocks:
        piece = budget // 32
        if frame.cycle > 8:  # each open file has one or two
            piece = max(budget // (4 * frame.cycle), 512)
        if frame.piece_bytes > piece:
            frame.piece_bytes = piece
            frame.headroom = min(frame.headroom, frame.piece_bytes // 4)
        frame.memory_most = budget // 3
    slot = plan.slot_bytes
    # With blocks, three quarters of the rest stay for values of varying length and for the blocks themselves.
    rest = (budget - units) // (4 if c.blocks else 1)
    if c.store_rows > 0:
        while plan.specs[i].kind != OP_SHUFFLE:
            i += 1
        need = (plan.specs[i].size + c.store_rows + 2) * stride
        if need + (c.width + c.max_leases + 1) * slot > rest:
            need = 0
            c.store_rows = 0
        rest -= need
    if (c.width + c.max_leases + 1) * slot > rest:
        c.width = max(rest // slot - c.max_leases - 1, 2)
        c.near_width = min(c.near_width, c.width)
    if (c.width + c.max_leases + 1) * slot > rest and not keeps_leases:
        c.max_leases = max(min(c.max_leases, rest // slot - c.width - 1), min(c.max_leases, 2))
    need = units + (c.width + c.max_leases + 1) * slot * (4 if c.blocks else 1)
    if need > budget:
        raise_error(CODE_EXHAUSTED,
            f"memory_budget leaves {budget} bytes to this stream, and its smallest buffers need {need}: {c.width} "
            f"batches in the making and {c.max_leases} that the consumer may hold, of {slot} bytes each. Use smaller "
            "batches, or a larger budget")
    return 0
