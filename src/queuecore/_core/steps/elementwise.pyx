"""Native steps on numbers: chains of casts, scales and changes of shape in one pass; padding, slicing, one-hot codes.

A chain goes over its input in tiles that stay in the first-level cache. Each loop of `kernels/elementwise.hpp` takes a
whole tile from one dtype to the next, so any chain has the results of its links one by one, bit for bit.
"""
cimport cython
from libc.stdint cimport int32_t, int64_t
from libc.string cimport memcpy, memset
from queuecore._core.atoms.dims cimport MAX_DIMS
from queuecore._core.atoms.errors cimport CODE_EXHAUSTED, CODE_INVALID_ARGUMENT, new_error
from queuecore._core.atoms.memory cimport calloc, free, malloc
from queuecore._core.atoms.process cimport check_layout
from queuecore._core.atoms.platform cimport Fault, layout_hash, size_product
from queuecore._core.steps.stages cimport Arena, Cell, Step, arena_output, arena_take, made_bytes_of


cdef extern from *:
    bint __builtin_add_overflow(int64_t, int64_t, int64_t*) noexcept nogil
    bint __builtin_mul_overflow(int64_t, int64_t, int64_t*) noexcept nogil

check_layout(layout_hash())

MAX_LINKS = 32       # of one chain
PAD_MODES = ("constant", "edge", "reflect", "symmetric")   # by the numbers below

cdef enum:
    LINK_CAST = 0
    LINK_SCALE = 1
    LINK_SHAPE = 2
    LINK_TURN = 3

cdef enum:
    WHAT_COUNT = 1     # a items don't fill the shape of link b
    WHAT_CHANNELS = 2  # the last axis at link b is a long
    WHAT_RANK = 3      # a dimensions at link b
    WHAT_BOUNDS = 4    # axis b is a long
    WHAT_DIMS = 5      # a dimensions
    WHAT_EMPTY = 6     # axis b

cdef enum:
    PAD_CONSTANT = 0
    PAD_EDGE = 1       # repeats the first and the last item
    PAD_REFLECT = 2    # goes there and back, without the border item
    PAD_SYMMETRIC = 3  # goes there and back, with the border item

cdef struct Link:
    int32_t kind
    CastFn cast
    bint wide                # scale: float64
    double a, b
    # one for each channel, repeated, so that the coefficients of any run of a tile lie in one piece
    unsigned char* a_each
    unsigned char* b_each
    int64_t channels         # 0: a and b are for all items
    int32_t ndim
    int64_t dims[MAX_DIMS]  # a shape (-1: as it comes); or, for each axis of the output, the axis of the input

cdef struct ChainParams:
    Link* links
    int32_t count
    int32_t item             # bytes of an item of the input
    int32_t made_item        # of the output
    int32_t last_cast        # -1: none
    bint works               # there are casts or scales
    int64_t made_bytes       # of the output; -1: not known beforehand
    int32_t ndim             # of the input, if its sides are known
    int64_t dims[MAX_DIMS]


cdef int step_fault(Fault* fault, int what, int64_t a, int64_t b) noexcept nogil:
    fault.what = what
    fault.a = a
    fault.b = b
    return -1


cdef int step_place(Cell* out, int64_t nbytes, int64_t made_bytes, Arena* arena, Fault* fault) noexcept nogil:
    # Chooses the output's place. A place that was given is as large as was known beforehand.
    if out.data != NULL and nbytes != made_bytes:
        return step_fault(fault, WHAT_OTHER, nbytes, made_bytes)
    if out.data == NULL:
        out.data = arena_output(arena, out, nbytes)
        if out.data == NULL:
            return step_fault(fault, WHAT_NO_MEMORY, nbytes, 0)
    out.nbytes = nbytes
    out.offsets = NULL
    return 0


cdef object step_explain(str label, const Fault* fault):
    if fault.what == WHAT_OTHER:
        return new_error(CODE_INVALID_ARGUMENT, f"{label}: expected an element of {fault.b} bytes, as was said "
                                                f"beforehand, got {fault.a}")
    return new_error(CODE_EXHAUSTED, f"{label}: no memory for {fault.a} bytes")


@cython.final
cdef class ChainStep(Step):
    """Casts, scales, reshapes, and one transposition at most, in one pass.

    Parameters
    ----------
    inputs, outputs : tuple of Component
        One of each.
    links : list of tuple
        ``("cast", number of one dtype, of the other, its bytes)``; ``("scale", is float64, a, b, channels)`` with the
        native bytes of as many coefficients as there are channels, or of one if there are none; ``("reshape", shape)``;
        ``("transpose", perm)``.
    portable : bool
        Use no loop that only some processors can run.
    """
    cdef ChainParams chain
    cdef list links

    def __init__(self, tuple inputs, tuple outputs, list links, bint portable=False):
        cdef Link* link
        cdef int32_t i = 0, item
        cdef int64_t side
        if self.params != NULL:
            raise TypeError("a step can't be initialised twice")
        if len(links) > MAX_LINKS:
            raise ValueError(f"{len(links)} links")
        self.inputs = inputs
        self.outputs = outputs
        self.links = links
        item = self.chain.item = inputs[0].dtype.itemsize
        self.chain.last_cast = -1
        self.chain.made_bytes = made_bytes_of(outputs[0])
        self.chain.links = <Link*>calloc(len(links) + 1, sizeof(Link))
        if self.chain.links == NULL:
            raise MemoryError
        for kind, *options in links:
            link = &self.chain.links[i]
            self.chain.count = i + 1
            if kind == "cast":
                link.kind = LINK_CAST
                link.cast = cast_fn(options[0], options[1], portable)
                item = options[2]
                self.chain.last_cast = i
                self.chain.works = True
            elif kind == "scale":
                link.kind = LINK_SCALE
                self._scale(link, options[0], options[1], options[2], options[3])
                self.chain.works = True
            else:
                link.kind = LINK_SHAPE if kind == "reshape" else LINK_TURN
                for side in options[0]:
                    link.dims[link.ndim] = side
                    link.ndim += 1
            i += 1
        self.chain.made_item = item
        self.params = &self.chain
        self.run = _run_chain
        if made_bytes_of(inputs[0]) > 0 and self.chain.made_bytes > 0 and len(inputs[0].shape) <= MAX_DIMS:
            for side in inputs[0].shape:
                self.chain.dims[self.chain.ndim] = side
                self.chain.ndim += 1
            self.run_rows = _rows_of_chain

    cdef int _scale(self, Link* link, bint wide, bytes a, bytes b, int64_t channels) except -1:
        cdef int64_t item_bytes = 8 if wide else 4, i, room
        cdef float f
        link.wide = wide
        link.channels = channels
        if channels == 0:
            if wide:
                memcpy(&link.a, <const char*>a, 8)
                memcpy(&link.b, <const char*>b, 8)
            else:
                memcpy(&f, <const char*>a, 4)
                link.a = f
                memcpy(&f, <const char*>b, 4)
                link.b = f
            return 0
        room = channels + TILE
        link.a_each = <bytes_out>malloc(size_product(room, item_bytes))
        link.b_each = <bytes_out>malloc(size_product(room, item_bytes))
        if link.a_each == NULL or link.b_each == NULL:
            raise MemoryError
        for i in range(room):
            memcpy(link.a_each + i * item_bytes, <const char*>a + i % channels * item_bytes, item_bytes)
            memcpy(link.b_each + i * item_bytes, <const char*>b + i % channels * item_bytes, item_bytes)
        return 0

    def __dealloc__(self):
        cdef int32_t i
        for i in range(self.chain.count):
            free(self.chain.links[i].a_each)
            free(self.chain.links[i].b_each)
        free(self.chain.links)

    cdef object explain(self, const Fault* fault):
        cdef Py_ssize_t index = fault.b
        if fault.what == WHAT_COUNT:
            return new_error(CODE_INVALID_ARGUMENT,
                             f"reshape: expected values for shape {list(self.links[index][1])}, got {fault.a} values")
        if fault.what == WHAT_CHANNELS:
            return new_error(CODE_INVALID_ARGUMENT,
                             f"scale: expected {self.links[index][4]} channels on the last axis, got {fault.a}")
        if fault.what == WHAT_RANK:
            return new_error(CODE_INVALID_ARGUMENT,
                             f"transpose: expected {len(self.links[index][1])} dimensions, got {fault.a}")
        return step_explain(self.links[0][0], fault)


# The input as the transposition reads it: axes of length 1 are left out, and axes that lie together are made one.
cdef struct View:
    int32_t ndim             # below 2: the input is read as it lies
    int64_t dims[MAX_DIMS]
    int64_t strides[MAX_DIMS]    # in items


cdef void _turn(const Link* link, int64_t* dims, View* view) noexcept nogil:
    cdef int64_t strides[MAX_DIMS]
    cdef int64_t turned[MAX_DIMS]
    cdef int64_t stride = 1
    cdef int32_t i, last
    for i in range(link.ndim - 1, -1, -1):
        strides[i] = stride
        stride *= dims[i]
    view.ndim = 0
    for i in range(link.ndim):
        turned[i] = dims[link.dims[i]]
        stride = strides[link.dims[i]]
        last = view.ndim - 1
        if turned[i] == 1:
            continue
        if last >= 0 and view.strides[last] == stride * turned[i]:
            view.dims[last] *= turned[i]
            view.strides[last] = stride
        else:
            view.dims[view.ndim] = turned[i]
            view.strides[view.ndim] = stride
            view.ndim += 1
    memcpy(dims, turned, link.ndim * sizeof(int64_t))


cdef int _shapes(const ChainParams* chain, Cell* out, int64_t n, View* view, int64_t* inner,
                 Fault* fault) noexcept nogil:
    # Follows the shapes along the chain. inner: number of items in a row that have the same channel.
    cdef int32_t i, j
    cdef int64_t known_items, axis, channels
    cdef const Link* link
    for i in range(chain.count):
        link = &chain.links[i]
        inner[i] = 1
        if link.kind == LINK_SCALE and link.channels > 0:
            channels = out.dims[out.ndim - 1] if out.ndim > 0 else 0
            if channels != link.channels:
                return step_fault(fault, WHAT_CHANNELS, channels, i)
        elif link.kind == LINK_SHAPE:
            known_items = 1
            axis = -1
            for j in range(link.ndim):
                if link.dims[j] < 0:
                    axis = j
                else:
                    known_items *= link.dims[j]
            if (known_items != n) if axis < 0 else (known_items == 0 or n % known_items != 0):
                return step_fault(fault, WHAT_COUNT, n, i)
            memcpy(out.dims, link.dims, link.ndim * sizeof(int64_t))
            if axis >= 0:
                out.dims[axis] = n // known_items
            out.ndim = link.ndim
        elif link.kind == LINK_TURN:
            if out.ndim != link.ndim:
                return step_fault(fault, WHAT_RANK, out.ndim, i)
            _turn(link, out.dims, view)
            # Earlier links had the channels on the last axis; now each channel comes this many times in a row.
            known_items = 1
            for j in range(link.ndim - 1, -1, -1):
                if link.dims[j] == link.ndim - 1:
                    break
                known_items *= out.dims[j]
            for j in range(i):
                inner[j] = known_items
    return 0


cdef void _scale_float(const Link* link, const float* source, float* target, int64_t position, int64_t n,
                       int64_t inner) noexcept nogil:
    cdef int64_t i = 0, run, channel
    cdef const float* a = <const float*>link.a_each
    cdef const float* b = <const float*>link.b_each
    if link.channels == 0:
        scale_all[float](source, target, n, <float>link.a, <float>link.b)
    elif inner == 1:
        position %= link.channels
        scale_each[float](source, target, n, a + position, b + position)
    else:
        while i < n:
            channel = (position + i) // inner % link.channels
            run = inner - (position + i) % inner
            run = run if run < n - i else n - i
            scale_all[float](source + i, target + i, run, a[channel], b[channel])
            i += run


cdef void _scale_double(const Link* link, const double* source, double* target, int64_t position, int64_t n,
                        int64_t inner) noexcept nogil:
    cdef int64_t i = 0, run, channel
    cdef const double* a = <const double*>link.a_each
    cdef const double* b = <const double*>link.b_each
    if link.channels == 0:
        scale_all[double](source, target, n, link.a, link.b)
    elif inner == 1:
        position %= link.channels
        scale_each[double](source, target, n, a + position, b + position)
    else:
        while i < n:
            channel = (position + i) // inner % link.channels
            run = inner - (position + i) % inner
            run = run if run < n - i else n - i
            scale_all[double](source + i, target + i, run, a[channel], b[channel])
            i += run


cdef void _work(const ChainParams* chain, bytes_in source, bytes_out target, bytes_out scratch, int64_t position,
                int64_t n, const int64_t* inner) noexcept nogil:
    # One tile: items [position, position + n) of the output.
    cdef int32_t i
    cdef const Link* link
    cdef bytes_out into
    for i in range(chain.count):
        link = &chain.links[i]
        if link.kind > LINK_SCALE:
            continue
        # After the last cast everything is done in place; before it, in the half of the scratch that `source` isn't in.
        into = target
        if i < chain.last_cast:
            into = scratch + 8 * TILE if source == scratch else scratch
        if link.kind == LINK_CAST:
            link.cast(source, into, n)
        elif link.wide:
            _scale_double(link, <const double*>source, <double*>into, position, n, inner[i])
        else:
            _scale_float(link, <const float*>source, <float*>into, position, n, inner[i])
        source = into


cdef void _split(const ChainParams* chain, bytes_in source, bytes_out target, bytes_out scratch, int64_t position,
                 int64_t n, const int64_t* inner) noexcept nogil:
    # Splits pixels of three bytes into planes of n bytes each, which are items [position, position + 3 * n) of the
    # output.
    cdef bytes_out planes[3]
    cdef int64_t i = 0, k, item
    cdef int32_t c
    while i < n:
        k = TILE if n - i > TILE else n - i
        for c in range(3):
            # The scratch's third tile has room for eight tiles of bytes.
            planes[c] = scratch + (2 * 8 + c) * TILE if chain.works else target + position + c * n + i
        split_pixels(source + 3 * i, planes[0], planes[1], planes[2], k)
        if chain.works:
            for c in range(3):
                item = position + c * n + i
                _work(chain, planes[c], target + item * chain.made_item, scratch, item, k, inner)
        i += k


cdef void _flat(const ChainParams* chain, bytes_in source, bytes_out target, bytes_out scratch, int64_t n,
                const int64_t* inner) noexcept nogil:
    # Makes n items in their order.
    cdef int64_t at = 0, m
    while at < n:
        m = TILE if n - at > TILE else n - at
        _work(chain, source + at * chain.item, target + at * chain.made_item, scratch, at, m, inner)
        at += m


cdef void _turned(const ChainParams* chain, bytes_in source, bytes_out target, bytes_out scratch, int64_t n,
                  const View* view, const int64_t* inner) noexcept nogil:
    # Makes n items in the order of a transposition.
    cdef int64_t index[MAX_DIMS]
    cdef int64_t rows = view.dims[view.ndim - 2], columns = view.dims[view.ndim - 1], position = 0, i, j, m, k
    cdef int32_t item = chain.item, made_item = chain.made_item, d
    memset(index, 0, view.ndim * sizeof(int64_t))
    while position < n:
        i = 0
        if item == 1 and rows == 3 and view.strides[view.ndim - 2] == 1 and view.strides[view.ndim - 1] == 3:
            _split(chain, source, target, scratch, position, columns, inner)
            position += 3 * columns
            i = rows
        while i < rows:
            m = 1 if columns >= TILE else (TILE // columns if rows - i > TILE // columns else rows - i)
            j = 0
            while j < columns:
                k = TILE if columns - j > TILE else columns - j
                # A third tile: the scratch's first two are for what the chain makes.
                gather(source + (i * view.strides[view.ndim - 2] + j * view.strides[view.ndim - 1]) * item,
                       scratch + 2 * 8 * TILE if chain.works else target + position * item, m, k,
                       view.strides[view.ndim - 2], view.strides[view.ndim - 1], item)
                if chain.works:
                    _work(chain, scratch + 2 * 8 * TILE, target + position * made_item, scratch, position, m * k, inner)
                position += m * k
                j += k
            i += m
        for d in range(view.ndim - 3, -1, -1):
            index[d] += 1
            source += view.strides[d] * item
            if index[d] < view.dims[d]:
                break
            source -= view.strides[d] * item * view.dims[d]
            index[d] = 0


cdef int _run_chain(const void* params, const Cell* inputs, Cell* outputs, Arena* arena, Fault* fault) noexcept nogil:
    return _chained(<const ChainParams*>params, inputs[0].data, inputs[0].dims, inputs[0].ndim, 1, outputs, arena,
                    fault)


cdef int _rows_of_chain(const void* params, const Cell* inputs, Cell* outputs, int64_t rows, Arena* arena,
                        Fault* fault) noexcept nogil:
    cdef const ChainParams* chain = <const ChainParams*>params
    return _chained(chain, inputs[0].data, chain.dims, chain.ndim, rows, outputs, arena, fault)


cdef int _chained(const ChainParams* chain, bytes_in source, const int64_t* dims, int32_t ndim, int64_t rows, Cell* out,
                  Arena* arena, Fault* fault) noexcept nogil:
    # Makes `rows` arrays of these dimensions.
    cdef int64_t inner[32]  # MAX_LINKS
    cdef View view
    cdef int64_t n = 1, i
    cdef int32_t d
    cdef bytes_out scratch = NULL
    for d in range(ndim):
        n *= dims[d]
    out.ndim = ndim
    memcpy(out.dims, dims, ndim * sizeof(int64_t))
    view.ndim = 0
    if _shapes(chain, out, n, &view, inner, fault) != 0:
        return -1
    if not chain.works and view.ndim < 2:
        out.data = <bytes_out>source
        out.nbytes = rows * n * chain.item
        out.offsets = NULL
        return 0
    if step_place(out, rows * n * chain.made_item, rows * chain.made_bytes, arena, fault) != 0:
        return -1
    if n == 0:
        return 0
    if chain.works:
        scratch = <bytes_out>arena_take(arena, 3 * 8 * TILE)
        if scratch == NULL:
            return step_fault(fault, WHAT_NO_MEMORY, 3 * 8 * TILE, 0)
    if view.ndim < 2:
        _flat(chain, source, out.data, scratch, rows * n, inner)  # the channels of each array come in the same order
        return 0
    for i in range(rows):
        _turned(chain, source + i * n * chain.item, out.data + i * n * chain.made_item, scratch, n, &view, inner)
    return 0


cdef struct FrameParams:
    int32_t ndim
    int32_t item
    int64_t before[MAX_DIMS]   # of a slice: where it begins
    int64_t after[MAX_DIMS]    # of a slice: how long it is; -1: to the end
    int32_t mode                # PAD_
    unsigned char fill[16]
    int64_t made_bytes


@cython.final
cdef class PadStep(Step):
    """Padding around an array.

    Parameters
    ----------
    inputs, outputs : tuple of Component
        One of each.
    before, after : tuple of int
        The number of items to add, for each axis.
    fill : bytes
        The constant.
    mode : str
        The kind of padding: one of `PAD_MODES`.
    """
    cdef FrameParams frame

    def __init__(self, tuple inputs, tuple outputs, tuple counts_before, tuple counts_after, bytes fill,
                 str mode="constant"):
        cdef Fault fault
        _frame_init(&self.frame, inputs, outputs, counts_before, counts_after)
        self.frame.mode = PAD_MODES.index(mode)
        memcpy(self.frame.fill, <const char*>fill, len(fill))
        if self.frame.mode != PAD_CONSTANT:
            for axis, side in enumerate(inputs[0].shape or ()):
                if side == 0 and counts_before[axis] + counts_after[axis] > 0:
                    step_fault(&fault, WHAT_EMPTY, 0, axis)
                    raise self.explain(&fault)
        self.inputs = inputs
        self.outputs = outputs
        self.params = &self.frame
        self.run = _run_pad

    cdef object explain(self, const Fault* fault):
        if fault.what == WHAT_DIMS:
            return new_error(CODE_INVALID_ARGUMENT, f"pad: expected {self.frame.ndim} dimensions, got {fault.a}")
        if fault.what == WHAT_EMPTY:
            return new_error(CODE_INVALID_ARGUMENT,
                f"pad: axis {fault.b} is empty, and has nothing that mode {PAD_MODES[self.frame.mode]!r} could repeat: "
                "use mode 'constant'")
        return step_explain("pad", fault)


@cython.final
cdef class SliceStep(Step):
    """A part of an array.

    Parameters
    ----------
    inputs, outputs : tuple of Component
        One of each.
    begin, size : tuple of int
        For each axis; a size of -1: to the end.
    """
    cdef FrameParams frame

    def __init__(self, tuple inputs, tuple outputs, tuple begin, tuple size):
        _frame_init(&self.frame, inputs, outputs, begin, size)
        self.inputs = inputs
        self.outputs = outputs
        self.params = &self.frame
        self.run = _run_slice

    cdef object explain(self, const Fault* fault):
        if fault.what == WHAT_DIMS:
            return new_error(CODE_INVALID_ARGUMENT, f"slice: expected {self.frame.ndim} dimensions, got {fault.a}")
        if fault.what == WHAT_BOUNDS:
            begin, size = self.frame.before[fault.b], self.frame.after[fault.b]
            part = f"[{begin}, {begin + size})" if size >= 0 else f"from {begin} on"
            return new_error(CODE_INVALID_ARGUMENT, f"slice: axis {fault.b} is {fault.a} long, and has no part {part}")
        return step_explain("slice", fault)


cdef int _frame_init(FrameParams* frame, tuple inputs, tuple outputs, tuple counts_before,
                     tuple counts_after) except -1:
    cdef int32_t i
    frame.ndim = <int32_t>len(counts_before)
    frame.item = inputs[0].dtype.itemsize
    frame.made_bytes = made_bytes_of(outputs[0])
    for i in range(frame.ndim):
        frame.before[i] = counts_before[i]
        frame.after[i] = counts_after[i]
    return 0


cdef int _run_pad(const void* params, const Cell* inputs, Cell* outputs, Arena* arena, Fault* fault) noexcept nogil:
    cdef const FrameParams* frame = <const FrameParams*>params
    cdef const Cell* cell = &inputs[0]
    cdef Cell* out = &outputs[0]
    cdef int64_t n = 1, i, nbytes
    cdef int32_t d, axis = 0
    if cell.ndim != frame.ndim:
        return step_fault(fault, WHAT_DIMS, cell.ndim, 0)
    for d in range(cell.ndim):
        if (__builtin_add_overflow(cell.dims[d], frame.before[d], &i)
                or __builtin_add_overflow(i, frame.after[d], &i) or __builtin_mul_overflow(n, i, &n)
                or __builtin_mul_overflow(n, <int64_t>frame.item, &nbytes)):
            return step_fault(fault, WHAT_NO_MEMORY, (<int64_t>1 << 62) - 1 + (<int64_t>1 << 62), 0)
        out.dims[d] = i
        if frame.before[d] + frame.after[d] > 0:
            axis = d
            if cell.dims[d] == 0 and frame.mode != PAD_CONSTANT:
                return step_fault(fault, WHAT_EMPTY, 0, d)
    out.ndim = cell.ndim
    if step_place(out, n * frame.item, frame.made_bytes, arena, fault) != 0:
        return -1
    if n == 0:
        return 0
    if cell.ndim == 0:
        memcpy(out.data, cell.data, frame.item)
    elif frame.mode == PAD_CONSTANT:
        _pad_constant(frame, cell, out, axis)
    else:
        _pad_repeat(frame, cell, out, axis)
    return 0


cdef void _pad_constant(const FrameParams* frame, const Cell* cell, Cell* out, int32_t axis) noexcept nogil:
    # Everything behind `axis`, the last padded axis, is one piece, and so is a row of such pieces.
    cdef int64_t index[MAX_DIMS]
    cdef int64_t rows = 1, inner = 1, _i, head, body, tail
    cdef int32_t d
    cdef bint inside
    cdef bytes_in source = cell.data
    cdef bytes_out target = out.data
    for d in range(axis):
        rows *= out.dims[d]
    for d in range(axis + 1, cell.ndim):
        inner *= cell.dims[d]
    head = frame.before[axis] * inner
    body = cell.dims[axis] * inner
    tail = frame.after[axis] * inner
    memset(index, 0, axis * sizeof(int64_t))
    for _i in range(rows):
        inside = True
        for d in range(axis):
            if index[d] < frame.before[d] or index[d] >= frame.before[d] + cell.dims[d]:
                inside = False
        if inside:
            fill_items(target, frame.fill, head, frame.item)
            memcpy(target + head * frame.item, source, body * frame.item)
            fill_items(target + (head + body) * frame.item, frame.fill, tail, frame.item)
            source += body * frame.item
        else:
            fill_items(target, frame.fill, head + body + tail, frame.item)
        target += (head + body + tail) * frame.item
        for d in range(axis - 1, -1, -1):
            index[d] += 1
            if index[d] < out.dims[d]:
                break
            index[d] = 0


cdef int64_t _repeated(int64_t i, int64_t n, int32_t mode) noexcept nogil:
    # Returns the place within an axis of n items whose item is repeated at place i, which lies before or behind the
    # axis.
    cdef int64_t period
    if mode == PAD_EDGE or n == 1:
        return 0 if i < 0 else n - 1
    period = 2 * n if mode == PAD_SYMMETRIC else 2 * n - 2
    i %= period
    if i < 0:
        i += period
    if i < n:
        return i
    return period - i - (1 if mode == PAD_SYMMETRIC else 0)


cdef void _pad_repeat(const FrameParams* frame, const Cell* cell, Cell* out, int32_t axis) noexcept nogil:
    # Copies the array to its place. Then each axis, from the last padded one to the first, gets its padding before and
    # behind: pieces that are whole already, because all axes behind are done.
    cdef int64_t strides[MAX_DIMS]   # in bytes of the output
    cdef int64_t index[MAX_DIMS]
    cdef int64_t stride = frame.item, rows, _i, i, rows_before, n, rows_after
    cdef int32_t d, k
    cdef bytes_in source = cell.data
    cdef bytes_out target, first
    for d in range(cell.ndim - 1, -1, -1):
        strides[d] = stride
        stride *= out.dims[d]
    for d in range(axis, -1, -1):
        rows_before = frame.before[d]
        rows_after = frame.after[d]
        n = cell.dims[d]
        stride = strides[d]
        if d < axis and rows_before + rows_after == 0:
            continue
        rows = 1
        target = out.data
        for k in range(d):
            rows *= cell.dims[k]
            target += frame.before[k] * strides[k]
        memset(index, 0, d * sizeof(int64_t))
        for _i in range(rows):
            first = target + rows_before * stride
            if d == axis:
                memcpy(first, source, n * stride)
                source += n * stride
            for i in range(rows_before):
                memcpy(target + i * stride, first + _repeated(i - rows_before, n, frame.mode) * stride, stride)
            for i in range(n, n + rows_after):
                memcpy(first + i * stride, first + _repeated(i, n, frame.mode) * stride, stride)
            for k in range(d - 1, -1, -1):
                index[k] += 1
                target += strides[k]
                if index[k] < cell.dims[k]:
                    break
                target -= strides[k] * cell.dims[k]
                index[k] = 0


cdef void copy_part(bytes_in source, bytes_out target, const int64_t* dims, const int64_t* begin, const int64_t* size,
                    int32_t ndim, int32_t item) noexcept nogil:
    cdef int64_t index[MAX_DIMS]
    cdef int64_t strides[MAX_DIMS]
    cdef int64_t rows = 1, nbytes = item, stride = item, _i
    cdef int32_t d, axis = 0
    for d in range(ndim - 1, -1, -1):
        if size[d] == 0:
            return
        strides[d] = stride
        source += begin[d] * stride
        stride *= dims[d]
    # Everything behind the last axis that is cut is one piece.
    for d in range(ndim):
        if size[d] != dims[d]:
            axis = d
    for d in range(ndim):
        if d < axis:
            rows *= size[d]
        else:
            nbytes *= size[d]
    memset(index, 0, axis * sizeof(int64_t))
    for _i in range(rows):
        memcpy(target, source, nbytes)
        target += nbytes
        for d in range(axis - 1, -1, -1):
            index[d] += 1
            source += strides[d]
            if index[d] < size[d]:
                break
            source -= strides[d] * size[d]
            index[d] = 0


cdef int _run_slice(const void* params, const Cell* inputs, Cell* outputs, Arena* arena, Fault* fault) noexcept nogil:
    cdef const FrameParams* frame = <const FrameParams*>params
    cdef const Cell* cell = &inputs[0]
    cdef Cell* out = &outputs[0]
    cdef int64_t n = 1, size
    cdef int32_t d
    if cell.ndim != frame.ndim:
        return step_fault(fault, WHAT_DIMS, cell.ndim, 0)
    for d in range(cell.ndim):
        size = frame.after[d] if frame.after[d] >= 0 else cell.dims[d] - frame.before[d]
        if size < 0 or size > cell.dims[d] or frame.before[d] > cell.dims[d] - size:
            return step_fault(fault, WHAT_BOUNDS, cell.dims[d], d)
        out.dims[d] = size
        n *= size
    out.ndim = cell.ndim
    if step_place(out, n * frame.item, frame.made_bytes, arena, fault) != 0:
        return -1
    copy_part(cell.data, out.data, cell.dims, frame.before, out.dims, cell.ndim, frame.item)
    return 0


cdef struct HotParams:
    CastFn cast              # to int64
    int32_t given            # bytes of an index
    int32_t item
    int64_t depth
    unsigned char on[16]
    unsigned char off[16]
    int64_t made_bytes


@cython.final
cdef class OneHotStep(Step):
    """A row for each index, with one value at its place and another one everywhere else.

    Parameters
    ----------
    inputs, outputs : tuple of Component
        One of each.
    number : int
        Of the indices' dtype.
    depth : int
        Length of a row.
    on, off : bytes
        The values.
    """
    cdef HotParams hot

    def __init__(self, tuple inputs, tuple outputs, int number, int64_t depth, bytes on, bytes off):
        self.hot.cast = cast_fn(number, 7, False)
        self.hot.given = inputs[0].dtype.itemsize
        self.hot.item = <int32_t>len(on)
        self.hot.depth = depth
        self.hot.made_bytes = made_bytes_of(outputs[0])
        memcpy(self.hot.on, <const char*>on, len(on))
        memcpy(self.hot.off, <const char*>off, len(on))
        self.inputs = inputs
        self.outputs = outputs
        self.params = &self.hot
        self.run = _run_hot

    cdef object explain(self, const Fault* fault):
        return step_explain("one_hot", fault)


cdef int _run_hot(const void* params, const Cell* inputs, Cell* outputs, Arena* arena, Fault* fault) noexcept nogil:
    cdef const HotParams* hot = <const HotParams*>params
    cdef const Cell* cell = &inputs[0]
    cdef Cell* out = &outputs[0]
    cdef int64_t index[256]
    cdef int64_t n = 1, total, position, m, i
    cdef int32_t d
    for d in range(cell.ndim):
        n *= cell.dims[d]
        out.dims[d] = cell.dims[d]
    out.dims[cell.ndim] = hot.depth
    out.ndim = cell.ndim + 1
    if __builtin_mul_overflow(n, hot.depth, &total) or __builtin_mul_overflow(total, <int64_t>hot.item, &total):
        return step_fault(fault, WHAT_NO_MEMORY, (<int64_t>1 << 62) - 1 + (<int64_t>1 << 62), 0)
    if step_place(out, total, hot.made_bytes, arena, fault) != 0:
        return -1
    fill_items(out.data, hot.off, n * hot.depth, hot.item)
    for position in range(0, n, 256):
        m = 256 if n - position > 256 else n - position
        hot.cast(cell.data + position * hot.given, index, m)
        for i in range(m):
            if 0 <= index[i] < hot.depth:
                memcpy(out.data + ((position + i) * hot.depth + index[i]) * hot.item, hot.on, hot.item)
    return 0
