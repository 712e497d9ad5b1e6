"""Parts of pictures that are erased at random, and pictures of a batch that are mixed with each other.

Draws are those of `step_draws`: of a picture by its number, of a mixture by that of the batch.
"""
cimport cython
from libc.math cimport cos, exp, floor, log, pow, sqrt
from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t
from libc.string cimport memcpy, memset
from queuecore._core.atoms.errors cimport CODE_INVALID_ARGUMENT, new_error
from queuecore._core.atoms.platform cimport Fault, layout_hash, size_product
from queuecore._core.atoms.process cimport check_layout
from queuecore._core.steps.elementwise cimport (
    WHAT_NO_MEMORY, CastFn, bytes_in, bytes_out, cast_fn, draw_below, draw_share, fill_items, step_draws, step_fault,
    step_place)
from queuecore._core.steps.image_ops cimport WHAT_RANK, PictureDims, explain_pictures, pictures_of
from queuecore._core.steps.stages cimport Arena, Cell, Step, arena_take, made_bytes_of


check_layout(layout_hash())

cdef enum:
    FLOAT32 = 10             # its number

cdef enum:
    WHAT_CHANNELS = 5        # a channels
    WHAT_BATCH = 6           # a dimensions
    WHAT_COUNTS = 7          # a pictures, b labels
    WHAT_LABEL = 8           # label a of element b
    WHAT_CLASSES = 9         # a numbers of a label

cdef enum:
    MOST_TRIES = 10
    NOISE_BLOCK = 16         # the first block of draws of noise
    GAMMA_BLOCKS = 64        # blocks for each draw of a gamma distribution


cdef inline double _above_zero(uint32_t draw) noexcept nogil:
    # Returns a draw as a number above 0, at most 1.
    return (<double>draw + 1) * (1.0 / 4294967296.0)


cdef inline double _normal(uint32_t first, uint32_t second) noexcept nogil:
    # Returns two draws as a number of the normal distribution (Box, Muller: "A note on the generation of random normal
    # deviates", 1958).
    return sqrt(-2 * log(_above_zero(first))) * cos(6.283185307179586 * draw_share(second))


# ---- erasing

cdef struct ErasingParams:
    int32_t item
    bint planar              # channels come first
    bint noise               # normal noise comes in place of a part; else `fill`
    int64_t channels         # that there must be; 0: any, with one value for all
    const unsigned char* fill
    CastFn narrow            # float32 to the pixels
    double share             # how likely
    double least_area, most_area, least_ratio, most_ratio
    uint64_t seed
    int64_t made_bytes

cdef struct ErasedPart:
    int64_t top, left, height, width


cdef bint _draw_erased(const ErasingParams* setup, int64_t height, int64_t width, const Arena* arena, int64_t picture,
                       ErasedPart* part) noexcept nogil:
    # Draws area and ratio until such a part fits, as torchvision's RandomErasing does. False: none is erased.
    cdef uint32_t draws[4]
    cdef double area, ratio, low = log(setup.least_ratio), high = log(setup.most_ratio)
    cdef uint32_t attempt
    step_draws(setup.seed, arena, picture, 0, draws)
    if draw_share(draws[0]) >= setup.share:
        return False
    for attempt in range(1, <uint32_t>MOST_TRIES + 1):
        step_draws(setup.seed, arena, picture, attempt, draws)
        area = <double>height * <double>width * (
            setup.least_area + (setup.most_area - setup.least_area) * draw_share(draws[0]))
        ratio = exp(low + (high - low) * draw_share(draws[1]))
        part.height = <int64_t>floor(sqrt(area * ratio) + 0.5)
        part.width = <int64_t>floor(sqrt(area / ratio) + 0.5)
        if part.height < height and part.width < width:
            part.top = draw_below(draws[2], height - part.height + 1)
            part.left = draw_below(draws[3], width - part.width + 1)
            return True
    return False


cdef void _noise(const ErasingParams* setup, const Arena* arena, int64_t picture, int64_t position, int64_t n,
                 bytes_out target) noexcept nogil:
    # Fills n items with noise; `position`: how many the picture has already.
    cdef uint32_t draws[4]
    cdef float value
    cdef int64_t i
    for i in range(position, position + n):
        if i == position or i % 2 == 0:
            step_draws(setup.seed, arena, picture, <uint32_t>(NOISE_BLOCK + i // 2), draws)
        value = <float>_normal(draws[2 * (i % 2)], draws[2 * (i % 2) + 1])
        setup.narrow(&value, target, 1)
        target += setup.item


cdef void _erase(const ErasingParams* setup, const PictureDims* p, const ErasedPart* part, const Arena* arena,
                 int64_t picture, bytes_out pixels) noexcept nogil:
    # `p`: height, width and channels, wherever the channels are.
    cdef int64_t planes = p.channels if setup.planar else 1, together = 1 if setup.planar else p.channels
    cdef int64_t n = part.width * together, noise_count = 0, plane, y
    cdef bytes_out row
    for plane in range(planes):
        for y in range(part.top, part.top + part.height):
            row = pixels + ((plane * p.height + y) * p.width + part.left) * together * setup.item
            if setup.noise:
                _noise(setup, arena, picture, noise_count, n, row)
                noise_count += n
            elif setup.channels == 0:
                fill_items(row, setup.fill, n, setup.item)
            else:
                fill_items(row, setup.fill + plane * setup.item, part.width, <int32_t>(together * setup.item))


@cython.final
cdef class ErasingStep(Step):
    """Pictures of which a part is erased at random.

    Parameters
    ----------
    inputs, outputs : tuple of Component
        One of each, of the same dtype.
    number : int
        Of the dtype.
    planar : bool
        Whether channels come before rows and columns.
    fill : bytes or None
        The pixel that comes in place of a part: items of the dtype, one or as many as channels. `None`: normal noise.
    share : float
        How likely it is that a part is erased.
    bounds : tuple of float
        Least and most area, of the picture's; least and most ratio of height to width.
    seed : int
        Below 2**63.
    """
    cdef ErasingParams setup
    cdef bytes fill

    def __init__(self, tuple inputs, tuple outputs, int number, bint planar, bytes fill, double share, tuple bounds,
                 uint64_t seed):
        self.inputs = inputs
        self.outputs = outputs
        self.fill = fill
        self.setup.item = inputs[0].dtype.itemsize
        self.setup.planar = planar
        self.setup.noise = fill is None
        if fill is not None:
            self.setup.fill = <const unsigned char*><const char*>fill
            self.setup.channels = len(fill) // self.setup.item if len(fill) > self.setup.item else 0
        self.setup.narrow = cast_fn(FLOAT32, number, False)
        self.setup.share = share
        self.setup.least_area, self.setup.most_area, self.setup.least_ratio, self.setup.most_ratio = bounds
        self.setup.seed = seed
        self.setup.made_bytes = made_bytes_of(outputs[0])
        self.alone = True
        self.params = &self.setup
        self.run = _run_erasing

    cdef object explain(self, const Fault* fault):
        if fault.what == WHAT_CHANNELS:
            return new_error(CODE_INVALID_ARGUMENT,
                             f"random_erasing: expected {self.setup.channels} channels, got {fault.a}")
        return explain_pictures("random_erasing", fault)


cdef int _run_erasing(const void* params, const Cell* inputs, Cell* outputs, Arena* arena,
                      Fault* fault) noexcept nogil:
    cdef const ErasingParams* setup = <const ErasingParams*>params
    cdef const Cell* cell = &inputs[0]
    cdef Cell* out = &outputs[0]
    cdef PictureDims p
    cdef ErasedPart part
    cdef int64_t i, nbytes
    if not pictures_of(cell, &p):
        return step_fault(fault, WHAT_RANK, cell.ndim, 0)
    if setup.planar:
        p.channels, p.height, p.width = p.height, p.width, p.channels
    if setup.channels > 0 and setup.channels != p.channels:
        return step_fault(fault, WHAT_CHANNELS, p.channels, 0)
    out.ndim = cell.ndim
    out.offsets = NULL
    memcpy(out.dims, cell.dims, cell.ndim * sizeof(int64_t))
    nbytes = p.height * p.width * p.channels * setup.item
    if step_place(out, p.count * nbytes, setup.made_bytes, arena, fault) != 0:
        return -1
    if out.nbytes == 0:
        return 0
    if out.data != cell.data:
        memcpy(out.data, cell.data, out.nbytes)
    for i in range(p.count):
        if _draw_erased(setup, p.height, p.width, arena, i, &part):
            _erase(setup, &p, &part, arena, i, out.data + i * nbytes)
    return 0


# ---- mixing

cdef struct MixParams:
    bint cuts                # parts come from another picture; else pictures are blended
    bint planar
    bint labelled            # labels are numbers of classes; else a number for each class
    CastFn widen             # pixels to float32
    int32_t item             # of the pixels
    int64_t classes
    double alpha
    uint64_t seed
    int64_t made_bytes[2]


cdef double _gamma(double alpha, uint64_t seed, const Arena* arena, uint32_t block) noexcept nogil:
    # Draws from a gamma distribution (Marsaglia, Tsang: "A simple method for generating gamma variables", 2000); of an
    # alpha below 1 by that of alpha + 1 and a power.
    cdef uint32_t draws[4]
    cdef double shape = alpha if alpha >= 1 else alpha + 1
    cdef double d = shape - 1.0 / 3, c = 1 / sqrt(9 * d), x, v, number = d
    cdef uint32_t attempt
    for attempt in range(1, <uint32_t>GAMMA_BLOCKS):  # each succeeds with more than 0.95
        step_draws(seed, arena, 0, block + attempt, draws)
        x = _normal(draws[0], draws[1])
        v = 1 + c * x
        v = v * v * v
        if v > 0 and log(_above_zero(draws[2])) < 0.5 * x * x + d - d * v + d * log(v):
            number = d * v
            break
    if alpha < 1:
        step_draws(seed, arena, 0, block, draws)
        number *= pow(_above_zero(draws[0]), 1 / alpha)
    return number


cdef double _share(const MixParams* setup, const Arena* arena) noexcept nogil:
    # Draws from the beta distribution of two equal parameters. Of parameters so small that both gammas vanish it is 0
    # or 1.
    cdef uint32_t draws[4]
    cdef double first, second
    if setup.alpha == 1:
        step_draws(setup.seed, arena, 0, 0, draws)
        return draw_share(draws[0])
    first = _gamma(setup.alpha, setup.seed, arena, GAMMA_BLOCKS)
    second = _gamma(setup.alpha, setup.seed, arena, 2 * GAMMA_BLOCKS)
    if first + second > 0:
        return first / (first + second)
    step_draws(setup.seed, arena, 0, 0, draws)
    return draws[0] >> 31


cdef void _draw_cut(double share, const MixParams* setup, const Arena* arena, const PictureDims* p,
                    ErasedPart* part) noexcept nogil:
    # Draws the middle of a part of the rest's size; its part outside the picture is cut off.
    cdef uint32_t draws[4]
    cdef double ratio = 0.5 * sqrt(1 - share)
    cdef int64_t across, down, half_width = <int64_t>(ratio * <double>p.width), half_height, bottom, right
    half_height = <int64_t>(ratio * <double>p.height)
    step_draws(setup.seed, arena, 0, 1, draws)
    across, down = draw_below(draws[0], p.width), draw_below(draws[1], p.height)
    part.left = across - half_width if across > half_width else 0
    part.top = down - half_height if down > half_height else 0
    right = across + half_width if across + half_width < p.width else p.width
    bottom = down + half_height if down + half_height < p.height else p.height
    part.width = right - part.left
    part.height = bottom - part.top


cdef void _copy_cut(const MixParams* setup, const PictureDims* p, const ErasedPart* part, bytes_in source,
                    bytes_out target) noexcept nogil:
    cdef int64_t planes = p.channels if setup.planar else 1
    cdef int64_t pixel = setup.item * (1 if setup.planar else p.channels), plane, y, at
    for plane in range(planes):
        for y in range(part.top, part.top + part.height):
            at = ((plane * p.height + y) * p.width + part.left) * pixel
            memcpy(target + at, source + at, part.width * pixel)


cdef void _blend(const MixParams* setup, double share, bytes_in first, bytes_in second, float* target, int64_t n,
                 float* wide) noexcept nogil:
    # target = first * share + second * (1 - share)
    cdef float a = <float>share, b = <float>(1 - share)
    cdef int64_t position = 0, k, i
    while position < n:
        k = n - position if n - position < 1024 else 1024
        setup.widen(first + position * setup.item, target + position, k)
        setup.widen(second + position * setup.item, wide, k)
        for i in range(k):
            target[position + i] = target[position + i] * a + wide[i] * b
        position += k


cdef int _mix_labels(const MixParams* setup, double share, const Cell* cell, int64_t count, float* target,
                     Fault* fault) noexcept nogil:
    # Mixes each label with that of the element before it.
    cdef const int64_t* numbers = <const int64_t*>cell.data
    cdef const float* shares = <const float*>cell.data
    cdef int64_t i, c, partner
    cdef float a = <float>share, b = <float>(1 - share)
    for i in range(count if setup.labelled else 0):
        if not 0 <= numbers[i] < setup.classes:
            return step_fault(fault, WHAT_LABEL, numbers[i], i)
    for i in range(count):
        partner = i - 1 if i > 0 else count - 1
        if setup.labelled:
            memset(target + i * setup.classes, 0, setup.classes * sizeof(float))
            target[i * setup.classes + numbers[i]] += a
            target[i * setup.classes + numbers[partner]] += b
            continue
        for c in range(setup.classes):
            target[i * setup.classes + c] = shares[i * setup.classes + c] * a + shares[partner * setup.classes + c] * b
    return 0


@cython.final
cdef class MixStep(Step):
    """Pictures of a batch that are mixed, each with the one before it, and their labels.

    Parameters
    ----------
    inputs, outputs : tuple of Component
        Of pictures and of labels; the pictures of the result are float32 if they are blended, and the labels always.
    label : str
        The operation.
    number : int
        Of the pictures' dtype.
    cuts : bool
        Whether a part comes from the other picture; otherwise both are blended.
    planar : bool
        Whether channels come before rows and columns.
    labelled : bool
        Whether labels are numbers of classes (int64); otherwise a number for each class (float32).
    classes : int
    alpha : float
        Both parameters of the beta distribution from which the share of the picture itself is drawn.
    seed : int
        Below 2**63.
    """
    cdef MixParams setup
    cdef str name

    def __init__(self, tuple inputs, tuple outputs, str label, int number, tuple kinds, int64_t classes, double alpha,
                 uint64_t seed):
        self.inputs = inputs
        self.outputs = outputs
        self.name = label
        self.setup.cuts, self.setup.planar, self.setup.labelled = kinds
        self.setup.widen = cast_fn(number, FLOAT32, False)
        self.setup.item = inputs[0].dtype.itemsize
        self.setup.classes = classes
        self.setup.alpha = alpha
        self.setup.seed = seed
        self.setup.made_bytes[0] = made_bytes_of(outputs[0])
        self.setup.made_bytes[1] = made_bytes_of(outputs[1])
        self.alone = True
        self.params = &self.setup
        self.run = _run_mix

    cdef object explain(self, const Fault* fault):
        if fault.what == WHAT_BATCH:
            text = f"{self.name}: expected a batch of pictures with 4 dimensions, got {fault.a}"
        elif fault.what == WHAT_COUNTS:
            text = f"{self.name}: {fault.a} pictures have labels of {fault.b} elements"
        elif fault.what == WHAT_LABEL:
            text = f"{self.name}: label {fault.a} of element {fault.b} is not from 0 to {self.setup.classes - 1}"
        elif fault.what == WHAT_CLASSES:
            text = f"{self.name}: expected labels of {self.setup.classes} numbers each, got {fault.a}"
        else:
            return explain_pictures(self.name, fault)
        return new_error(CODE_INVALID_ARGUMENT, text)


cdef int _check_labels(const MixParams* setup, const Cell* labels, int64_t count, Fault* fault) noexcept nogil:
    if labels.ndim == 0 or labels.dims[0] != count:
        return step_fault(fault, WHAT_COUNTS, count, labels.dims[0] if labels.ndim > 0 else 1)
    if setup.labelled and labels.ndim > 1:
        return step_fault(fault, WHAT_COUNTS, count, labels.dims[0] * labels.dims[1])
    if not setup.labelled and (labels.ndim != 2 or labels.dims[1] != setup.classes):
        return step_fault(fault, WHAT_CLASSES, labels.dims[1] if labels.ndim > 1 else 1, 0)
    return 0


cdef int _run_mix(const void* params, const Cell* inputs, Cell* outputs, Arena* arena, Fault* fault) noexcept nogil:
    cdef const MixParams* setup = <const MixParams*>params
    cdef const Cell* cell = &inputs[0]
    cdef Cell* out = &outputs[0]
    cdef PictureDims p
    cdef ErasedPart part
    cdef double share
    cdef int64_t i, partner, n, made_item = setup.item if setup.cuts else <int64_t>sizeof(float)
    cdef float* wide
    if cell.ndim != 4:
        return step_fault(fault, WHAT_BATCH, cell.ndim, 0)
    pictures_of(cell, &p)
    if setup.planar:
        p.channels, p.height, p.width = p.height, p.width, p.channels
    if _check_labels(setup, &inputs[1], p.count, fault) != 0:
        return -1
    out.ndim = 4
    out.offsets = outputs[1].offsets = NULL
    memcpy(out.dims, cell.dims, 4 * sizeof(int64_t))
    outputs[1].ndim = 2
    outputs[1].dims[0] = p.count
    outputs[1].dims[1] = setup.classes
    n = p.height * p.width * p.channels
    if (step_place(out, <int64_t>size_product(p.count * n, made_item), setup.made_bytes[0], arena, fault) != 0
            or step_place(&outputs[1], <int64_t>size_product(size_product(p.count, setup.classes), sizeof(float)),
                          setup.made_bytes[1], arena, fault) != 0):
        return -1
    share = _share(setup, arena)
    memset(&part, 0, sizeof(ErasedPart))
    if setup.cuts:
        _draw_cut(share, setup, arena, &p, &part)
        if p.height > 0 and p.width > 0:
            share = 1 - <double>(part.height * part.width) / <double>(p.height * p.width)
        memcpy(out.data, cell.data, out.nbytes)
    wide = <float*>arena_take(arena, 1024 * sizeof(float))
    if wide == NULL:
        return step_fault(fault, WHAT_NO_MEMORY, 1024 * sizeof(float), 0)
    for i in range(p.count if n > 0 else 0):
        partner = i - 1 if i > 0 else p.count - 1
        if setup.cuts:
            _copy_cut(setup, &p, &part, cell.data + partner * n * setup.item, out.data + i * n * setup.item)
        else:
            _blend(setup, share, cell.data + i * n * setup.item, cell.data + partner * n * setup.item,
                   <float*>out.data + i * n, n, wide)
    return _mix_labels(setup, share, &inputs[1], p.count, <float*>outputs[1].data, fault)
