"""Native steps on pictures: changes of brightness, contrast, saturation and hue; parts by boxes; crops of any arrays.

A picture is [height, width, channels]; more axes before these make a batch. Random forms draw from Philox: the key is
the seed, the counter epoch and element. Picture i of a batch is element + i. So neither threads nor batches change a
picture.
"""
cimport cython
from libc.math cimport ceilf, floorf
from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t
from libc.string cimport memcpy, memset
from queuecore._core.atoms.dims cimport MAX_DIMS
from queuecore._core.atoms.errors cimport CODE_INVALID_ARGUMENT, new_error
from queuecore._core.atoms.process cimport check_layout
from queuecore._core.steps.elementwise cimport (
    TILE, WHAT_NO_MEMORY, CastFn, bytes_in, bytes_out, cast_fn, copy_part, draw_below, draw_share, scale_all,
    step_draws, step_explain, step_fault, step_place)
from queuecore._core.atoms.platform cimport Fault, layout_hash, size_product
from queuecore._core.steps.stages cimport Arena, Cell, Step, arena_take, made_bytes_of


cdef extern from "queuecore/kernels/pixels.hpp" namespace "queuecore" nogil:
    void stretch(float* values, int64_t n, float most, float low, float high) noexcept
    void add_all(float* values, int64_t n, float b) noexcept
    void sum_channels(const float* values, int64_t pixels, int64_t channels, double* sums) noexcept
    void spread(float* values, int64_t n, const float* means, float factor) noexcept
    void saturate(float* values, int64_t pixels, float factor) noexcept
    void turn_hue(float* values, int64_t pixels, float turn) noexcept

check_layout(layout_hash())

cdef enum:
    FLOAT32 = 10             # its number

cdef bint pictures_of(const Cell* cell, PictureDims* p) noexcept nogil:
    cdef int32_t d
    if cell.ndim < 3:
        return False
    p.count = 1
    for d in range(cell.ndim - 3):
        p.count *= cell.dims[d]
    p.height = cell.dims[cell.ndim - 3]
    p.width = cell.dims[cell.ndim - 2]
    p.channels = cell.dims[cell.ndim - 1]
    return True


cdef object explain_pictures(str label, const Fault* fault):
    if fault.what == WHAT_RANK:
        return new_error(CODE_INVALID_ARGUMENT, f"{label}: expected pictures [..., height, width, channels], got "
                                                f"{fault.a} dimensions")
    if fault.what == WHAT_COLOURS:
        return new_error(CODE_INVALID_ARGUMENT, f"{label}: expected 3 channels (red, green, blue), got {fault.a}")
    return step_explain(label, fault)


cdef struct CropParams:
    int32_t ndim
    int32_t item
    uint64_t seed
    int64_t size[MAX_DIMS]
    int64_t made_bytes


@cython.final
cdef class CropStep(Step):
    """A part of each array, at a random place.

    Parameters
    ----------
    inputs, outputs : tuple of Component
        One of each; with one more axis than `size` has, a batch.
    size : tuple of int
        Of the part.
    seed : int
        Below 2**64.
    """
    cdef CropParams crop

    def __init__(self, tuple inputs, tuple outputs, tuple size, uint64_t seed):
        cdef int32_t i
        self.crop.ndim = <int32_t>len(size)
        for i in range(self.crop.ndim):
            self.crop.size[i] = size[i]
        self.crop.item = inputs[0].dtype.itemsize
        self.crop.seed = seed
        self.alone = True
        self.crop.made_bytes = made_bytes_of(outputs[0])
        self.inputs = inputs
        self.outputs = outputs
        self.params = &self.crop
        self.run = _run_crop

    cdef object explain(self, const Fault* fault):
        if fault.what == WHAT_RANK:
            n = self.crop.ndim
            return new_error(CODE_INVALID_ARGUMENT,
                             f"random_crop: expected {n} dimensions, or {n + 1} of a batch, got {fault.a}")
        if fault.what == WHAT_CROP:
            return new_error(CODE_INVALID_ARGUMENT, f"random_crop: expected at least {self.crop.size[fault.b]} on axis "
                                                    f"{fault.b}, got {fault.a}")
        return explain_pictures("random_crop", fault)


cdef int _run_crop(const void* params, const Cell* inputs, Cell* outputs, Arena* arena, Fault* fault) noexcept nogil:
    cdef const CropParams* crop = <const CropParams*>params
    cdef const Cell* cell = &inputs[0]
    cdef Cell* out = &outputs[0]
    cdef int64_t begin[MAX_DIMS]
    cdef uint32_t draws[4]
    cdef const int64_t* dims = &cell.dims[0]
    cdef int64_t count = 1, whole_bytes = crop.item, part = crop.item, i
    cdef int32_t d
    out.ndim = cell.ndim
    if cell.ndim == crop.ndim + 1:
        count = dims[0]
        out.dims[0] = count
        dims += 1
    elif cell.ndim != crop.ndim:
        return step_fault(fault, WHAT_RANK, cell.ndim, 0)
    for d in range(crop.ndim):
        if dims[d] < crop.size[d]:
            return step_fault(fault, WHAT_CROP, dims[d], d)
        whole_bytes *= dims[d]
        part *= crop.size[d]
        out.dims[cell.ndim - crop.ndim + d] = crop.size[d]
    if step_place(out, count * part, crop.made_bytes, arena, fault) != 0:
        return -1
    for i in range(count):
        for d in range(crop.ndim):
            if d % 4 == 0:
                step_draws(crop.seed, arena, i, d // 4, draws)
            begin[d] = draw_below(draws[d % 4], dims[d] - crop.size[d] + 1)
        copy_part(cell.data + i * whole_bytes, out.data + i * part, dims, begin, crop.size, crop.ndim, crop.item)
    return 0


cdef enum:
    ADJUST_BRIGHTNESS = 0
    ADJUST_CONTRAST = 1
    ADJUST_SATURATION = 2
    ADJUST_HUE = 3

cdef struct AdjustParams:
    int32_t kind
    int32_t item
    CastFn widen             # to float32
    CastFn narrow            # back
    bint whole               # integers: their range is [0, 1], or [-1, 1]
    bint draws
    float low, high          # the factor, or the bounds between which it is drawn
    float unit, most, least, highest    # of integers
    uint64_t seed
    int64_t made_bytes


@cython.final
cdef class Amount:
    """The amount that an `AdjustStep` adds, or multiplies with.

    Parameters
    ----------
    low, high : float
        `low`; or drawn between the two, if there is a seed.
    seed : int or None
        Below 2**64.
    """
    cdef float low, high
    cdef bint draws
    cdef uint64_t seed

    def __init__(self, float low, float high, seed):
        self.low = low
        self.high = high
        self.draws = seed is not None
        self.seed = 0 if seed is None else seed


@cython.final
cdef class AdjustStep(Step):
    """PictureDims with another brightness, contrast, saturation or hue.

    Parameters
    ----------
    inputs, outputs : tuple of Component
        One of each.
    label : str
        The operation.
    kind : int
        0 brightness, 1 contrast, 2 saturation, 3 hue.
    number : int
        Of the dtype.
    bounds : tuple of float or None
        Of an integer dtype: the lowest and the highest.
    amount : Amount
    """
    cdef AdjustParams adjust
    cdef str label

    def __init__(self, tuple inputs, tuple outputs, str label, int kind, int number, tuple bounds,
                 Amount amount not None):
        self.label = label
        self.adjust.kind = kind
        self.adjust.item = inputs[0].dtype.itemsize
        self.adjust.widen = cast_fn(number, FLOAT32, False)
        self.adjust.narrow = cast_fn(FLOAT32, number, False)
        self.adjust.whole = bounds is not None
        if bounds is not None:
            self.adjust.least, self.adjust.highest = bounds
            self.adjust.unit = <float>(1.0 / <double>self.adjust.highest)
            self.adjust.most = <float>(<double>self.adjust.highest + 0.5)
        self.adjust.low = amount.low
        self.adjust.high = amount.high
        self.alone = self.adjust.draws = amount.draws
        self.adjust.seed = amount.seed
        self.adjust.made_bytes = made_bytes_of(outputs[0])
        self.inputs = inputs
        self.outputs = outputs
        self.params = &self.adjust
        self.run = _run_adjust

    cdef object explain(self, const Fault* fault):
        return explain_pictures(self.label, fault)


cdef void _widen(const AdjustParams* adjust, bytes_in source, float* values, int64_t n) noexcept nogil:
    adjust.widen(source, values, n)
    if adjust.whole:
        scale_all[float](values, values, n, adjust.unit, 0)


cdef int _run_adjust(const void* params, const Cell* inputs, Cell* outputs, Arena* arena, Fault* fault) noexcept nogil:
    cdef const AdjustParams* adjust = <const AdjustParams*>params
    cdef const Cell* cell = &inputs[0]
    cdef Cell* out = &outputs[0]
    cdef PictureDims p
    cdef uint32_t draws[4]
    cdef int64_t i, c, position, n, tile, pixels, room
    cdef float amount
    cdef double* sums
    cdef float* means
    cdef float* values
    cdef bytes_in source = cell.data
    cdef bytes_out target
    if not pictures_of(cell, &p):
        return step_fault(fault, WHAT_RANK, cell.ndim, 0)
    if adjust.kind >= ADJUST_SATURATION and p.channels != 3:
        return step_fault(fault, WHAT_COLOURS, p.channels, 0)
    out.ndim = cell.ndim
    memcpy(out.dims, cell.dims, cell.ndim * sizeof(int64_t))
    pixels = p.height * p.width
    if step_place(out, p.count * pixels * p.channels * adjust.item, adjust.made_bytes, arena, fault) != 0:
        return -1
    if out.nbytes == 0:
        return 0
    tile = TILE // p.channels if TILE > p.channels else 1  # pixels
    tile = tile if tile < pixels else pixels
    room = p.channels * <int64_t>sizeof(double) + 2 * tile * p.channels * <int64_t>sizeof(float)
    sums = <double*>arena_take(arena, room)
    if sums == NULL:
        return step_fault(fault, WHAT_NO_MEMORY, room, 0)
    means = <float*>(sums + p.channels)
    values = means + tile * p.channels
    target = out.data
    for i in range(p.count):
        amount = adjust.low
        if adjust.draws:
            step_draws(adjust.seed, arena, i, 0, draws)
            amount += <float>draw_share(draws[0]) * (adjust.high - adjust.low)
        if adjust.kind == ADJUST_CONTRAST:
            memset(sums, 0, p.channels * sizeof(double))
            position = 0
            while position < pixels:
                n = tile if pixels - position > tile else pixels - position
                _widen(adjust, source + position * p.channels * adjust.item, values, n * p.channels)
                sum_channels(values, n, p.channels, sums)
                position += n
            for c in range(p.channels):
                for position in range(tile):
                    means[position * p.channels + c] = <float>(sums[c] / <double>pixels)
        position = 0
        while position < pixels:
            n = tile if pixels - position > tile else pixels - position
            _widen(adjust, source + position * p.channels * adjust.item, values, n * p.channels)
            if adjust.kind == ADJUST_BRIGHTNESS:
                add_all(values, n * p.channels, amount)
            elif adjust.kind == ADJUST_CONTRAST:
                spread(values, n * p.channels, means, amount)
            elif adjust.kind == ADJUST_SATURATION:
                saturate(values, n, amount)
            else:
                turn_hue(values, n, amount * 6)
            if adjust.whole:
                stretch(values, n * p.channels, adjust.most, adjust.least, adjust.highest)
            adjust.narrow(values, target + position * p.channels * adjust.item, n * p.channels)
            position += n
        source += pixels * p.channels * adjust.item
        target += pixels * p.channels * adjust.item
    return 0


# ---- parts of pictures, by boxes

cdef enum:
    WHAT_BATCH = 5     # a dimensions
    WHAT_BOXES = 6     # a x b numbers
    WHAT_INDICES = 7   # a indices, b boxes
    WHAT_INDEX = 8     # index a of box b

cdef struct BoxParams:
    CastFn widen             # pixels to float32
    int32_t item             # of the pixels
    bint nearest
    bint wide                # indices are int64; else int32
    int64_t height, width    # of the parts
    float outside            # comes where a part lies outside its picture
    int64_t made_bytes


@cython.final
cdef class BoxStep(Step):
    """Parts of the pictures of a batch, each given a size.

    Parameters
    ----------
    inputs, outputs : tuple of Component
        Pictures, boxes (float32) and the pictures' numbers (int32 or int64); parts of float32.
    number : int
        Of the pictures' dtype.
    size : tuple of int
        Height and width of parts.
    nearest : bool
        Whether the nearest pixel is taken; otherwise the mean of four.
    outside : float
        What comes where a part lies outside its picture.
    """
    cdef BoxParams setup

    def __init__(self, tuple inputs, tuple outputs, int number, tuple size, bint nearest, float outside):
        self.inputs = inputs
        self.outputs = outputs
        self.setup.widen = cast_fn(number, FLOAT32, False)
        self.setup.item = inputs[0].dtype.itemsize
        self.setup.wide = inputs[2].dtype.itemsize == 8
        self.setup.height, self.setup.width = size
        self.setup.nearest = nearest
        self.setup.outside = outside
        self.setup.made_bytes = made_bytes_of(outputs[0])
        self.params = &self.setup
        self.run = _run_boxes

    cdef object explain(self, const Fault* fault):
        if fault.what == WHAT_BATCH:
            text = f"expected a batch of pictures with 4 dimensions, got {fault.a}"
        elif fault.what == WHAT_BOXES:
            text = f"expected boxes of 4 numbers each, got {fault.a} x {fault.b} numbers"
        elif fault.what == WHAT_INDICES:
            text = f"{fault.b} boxes have {fault.a} indices"
        elif fault.what == WHAT_INDEX:
            text = f"there is no picture {fault.a}, of box {fault.b}"
        else:
            return explain_pictures("crop_and_resize", fault)
        return new_error(CODE_INVALID_ARGUMENT, f"crop_and_resize: {text}")


cdef inline float _place_in(float begin, float end, int64_t side, int64_t targets, int64_t i) noexcept nogil:
    # Returns where target i of a part lies on an axis of the picture, as TensorFlow computes it.
    if targets > 1:
        return begin * <float>(side - 1) + <float>i * ((end - begin) * <float>(side - 1) / <float>(targets - 1))
    return <float>(0.5 * (begin + end) * <float>(side - 1))


cdef void _pixel_between(const BoxParams* setup, bytes_in picture, const PictureDims* p, float y, float x,
                         float* corners, float* target) noexcept nogil:
    # `corners`: room for four pixels.
    cdef int64_t top = <int64_t>floorf(y), left = <int64_t>floorf(x), row = p.width * p.channels, c
    cdef int64_t bottom = <int64_t>ceilf(y), right = <int64_t>ceilf(x), n = p.channels
    cdef float down = y - <float>top, across = x - <float>left, above, below
    if setup.nearest:
        top, left = <int64_t>floorf(y + <float>0.5), <int64_t>floorf(x + <float>0.5)
        setup.widen(picture + (top * row + left * n) * setup.item, target, n)
        return
    setup.widen(picture + (top * row + left * n) * setup.item, corners, n)
    setup.widen(picture + (top * row + right * n) * setup.item, corners + n, n)
    setup.widen(picture + (bottom * row + left * n) * setup.item, corners + 2 * n, n)
    setup.widen(picture + (bottom * row + right * n) * setup.item, corners + 3 * n, n)
    for c in range(n):
        above = corners[c] + (corners[n + c] - corners[c]) * across
        below = corners[2 * n + c] + (corners[3 * n + c] - corners[2 * n + c]) * across
        target[c] = above + (below - above) * down


cdef void _part(const BoxParams* setup, bytes_in picture, const PictureDims* p, const float* box, float* corners,
                float* target) noexcept nogil:
    cdef int64_t i, j, c
    cdef float y, x
    for i in range(setup.height):
        y = _place_in(box[0], box[2], p.height, setup.height, i)
        for j in range(setup.width):
            x = _place_in(box[1], box[3], p.width, setup.width, j)
            if 0 <= y <= <float>(p.height - 1) and 0 <= x <= <float>(p.width - 1):
                _pixel_between(setup, picture, p, y, x, corners, target)
            else:  # also if a box has NaN
                for c in range(p.channels):
                    target[c] = setup.outside
            target += p.channels


cdef inline int64_t _picture_of(const BoxParams* setup, const Cell* indices, int64_t i) noexcept nogil:
    return (<const int64_t*>indices.data)[i] if setup.wide else (<const int32_t*>indices.data)[i]


cdef int _run_boxes(const void* params, const Cell* inputs, Cell* outputs, Arena* arena, Fault* fault) noexcept nogil:
    cdef const BoxParams* setup = <const BoxParams*>params
    cdef const Cell* cell = &inputs[0]
    cdef const Cell* boxes = &inputs[1]
    cdef const Cell* indices = &inputs[2]
    cdef Cell* out = &outputs[0]
    cdef PictureDims p
    cdef int64_t i, count, nbytes
    cdef float* corners
    if cell.ndim != 4:
        return step_fault(fault, WHAT_BATCH, cell.ndim, 0)
    if boxes.ndim != 2 or boxes.dims[1] != 4:
        return step_fault(fault, WHAT_BOXES, boxes.dims[0] if boxes.ndim > 0 else 1,
                          boxes.dims[1] if boxes.ndim > 1 else 1)
    count = boxes.dims[0]
    if indices.ndim != 1 or indices.dims[0] != count:
        return step_fault(fault, WHAT_INDICES, indices.dims[0] if indices.ndim > 0 else 1, count)
    pictures_of(cell, &p)
    for i in range(count):
        if not 0 <= _picture_of(setup, indices, i) < p.count:
            return step_fault(fault, WHAT_INDEX, _picture_of(setup, indices, i), i)
    out.ndim = 4
    out.offsets = NULL
    out.dims[0], out.dims[1], out.dims[2], out.dims[3] = count, setup.height, setup.width, p.channels
    nbytes = <int64_t>size_product(size_product(setup.height, setup.width), size_product(p.channels, sizeof(float)))
    if step_place(out, <int64_t>size_product(count, nbytes), setup.made_bytes, arena, fault) != 0:
        return -1
    corners = <float*>arena_take(arena, size_product(4 * p.channels, sizeof(float)))
    if corners == NULL:
        return step_fault(fault, WHAT_NO_MEMORY, 16 * p.channels, 0)
    for i in range(count if out.nbytes > 0 else 0):
        _part(setup, cell.data + _picture_of(setup, indices, i) * p.height * p.width * p.channels * setup.item, &p,
              <const float*>boxes.data + 4 * i, corners, <float*>(out.data + i * nbytes))
    return 0
