"""Random changes of pictures of bytes: colours in a random order, policies of operations, greys and blurs.

A picture is [height, width, channels] with one channel or three; more axes before these make a batch. Numbers of
float32, from 0 to 255, are rounded to bytes first. Draws are those of `step_draws`: the same for any number of threads
and any batches. The operations on bytes are Pillow's (ImageEnhance, ImageOps, Image.transform), as torchvision uses
them; a blur is torchvision's.
"""
cimport cython
from libc.math cimport exp
from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t
from libc.string cimport memcpy, memset
from queuecore._core.atoms.errors cimport CODE_INVALID_ARGUMENT, new_error
from queuecore._core.atoms.memory cimport calloc, free
from queuecore._core.atoms.platform cimport Fault, layout_hash, size_product
from queuecore._core.atoms.process cimport check_layout
from queuecore._core.steps.elementwise cimport (
    WHAT_NO_MEMORY, draw_below, draw_share, step_draws, step_fault, step_place)
from queuecore._core.steps.image_ops cimport WHAT_RANK, PictureDims, explain_pictures, pictures_of
from queuecore._core.steps.stages cimport (
    Arena, ArenaMark, Cell, Step, arena_mark, arena_release, arena_take, made_bytes_of)


cdef extern from "queuecore/kernels/augment.hpp" namespace "queuecore" nogil:
    struct BytePicture:
        unsigned char* pixels
        unsigned char* spare
        int64_t height, width, channels

    struct ByteTables:
        unsigned char values[4][256]

    struct ByteCounts:
        int64_t values[4][256]

    struct PixelMap:
        double a[6]

    void round_to_bytes(const float* values, int64_t n, unsigned char* target) noexcept
    unsigned char byte_between(int begin, int end, float share) noexcept
    void count_bytes(const BytePicture& p, ByteCounts* counts) noexcept
    void look_up_bytes(const BytePicture& p, const ByteTables& tables) noexcept
    int64_t sum_greys(const BytePicture& p) noexcept
    void mix_with_grey(const BytePicture& p, float share) noexcept
    void sharpen(const BytePicture& p, float share) noexcept
    void move_pixels(const BytePicture& p, const PixelMap& map, const unsigned char* fill) noexcept
    void blur_bytes(const BytePicture& p, const float* weights, int64_t half, float* wide) noexcept

cdef extern from "queuecore/kernels/pixels.hpp" namespace "queuecore" nogil:
    void turn_hue(float* values, int64_t pixels, float turn) noexcept

cdef extern from "<cmath>" namespace "std" nogil:
    double cos(double x) noexcept
    double sin(double x) noexcept
    double fmod(double x, double y) noexcept
    double nearbyint(double x) noexcept

check_layout(layout_hash())

cdef enum:
    WHAT_GREYS = 5       # a channels
    WHAT_SMALL = 6       # a x b pixels
    WHAT_SIDE = 7        # a x b pixels

cdef enum:
    MOST_SIDE = 32767    # whose pixels have places in fixed point
    HUE_TILE = 512       # pixels

# What can be done to a picture. Shares, places and angles are the operation's magnitude.
cdef enum:
    OP_NOTHING = 0
    OP_SHEAR_X = 1
    OP_SHEAR_Y = 2
    OP_TRANSLATE_X = 3   # pixels
    OP_TRANSLATE_Y = 4
    OP_ROTATE = 5        # degrees, against the clock
    OP_BRIGHTNESS = 6    # a share: 1 changes nothing
    OP_COLOUR = 7
    OP_CONTRAST = 8
    OP_SHARPNESS = 9
    OP_POSTERIZE = 10    # bits that stay
    OP_SOLARIZE = 11     # the least value that is inverted
    OP_AUTOCONTRAST = 12
    OP_EQUALIZE = 13
    OP_HUE = 14          # a part of the circle
    OPS = 15

# Their names, for Python.
OPERATIONS = (
    "identity", "shear_x", "shear_y", "translate_x", "translate_y", "rotate", "brightness", "color", "contrast",
    "sharpness", "posterize", "solarize", "auto_contrast", "equalize", "hue")

cdef struct Operation:
    int32_t kind
    bint signed_             # a drawn sign
    bint of_width, of_height # the magnitude is a part of that side
    int64_t first            # of its magnitudes
    int64_t count            # 0: it has none


cdef void _by_table(const BytePicture* p, ByteTables* tables) noexcept nogil:
    # Changes bytes by the table of the first channel.
    cdef int64_t c
    for c in range(1, p.channels):
        memcpy(tables.values[c], tables.values[0], 256)
    look_up_bytes(p[0], tables[0])


cdef void _mix_with(const BytePicture* p, int other, float share) noexcept nogil:
    cdef ByteTables tables
    cdef int v
    for v in range(256):
        tables.values[0][v] = byte_between(other, v, share)
    _by_table(p, &tables)


cdef void _posterize(const BytePicture* p, int bits) noexcept nogil:
    cdef ByteTables tables
    cdef int v
    for v in range(256):
        tables.values[0][v] = <unsigned char>(v & ~((1 << (8 - bits)) - 1))
    _by_table(p, &tables)


cdef void _solarize(const BytePicture* p, double least) noexcept nogil:
    cdef ByteTables tables
    cdef int v
    for v in range(256):
        tables.values[0][v] = <unsigned char>(v if v < least else 255 - v)
    _by_table(p, &tables)


cdef void _stretch(const BytePicture* p) noexcept nogil:
    # Stretches each channel so that its least value becomes 0 and its largest 255.
    cdef ByteTables tables
    cdef ByteCounts counts
    cdef int64_t c
    cdef int low, high, v, stretched
    cdef double scale, offset
    count_bytes(p[0], &counts)
    for c in range(p.channels):
        low, high = 0, 255
        while low < 255 and counts.values[c][low] == 0:
            low += 1
        while high > 0 and counts.values[c][high] == 0:
            high -= 1
        scale = 255.0 / (high - low) if high > low else 1
        offset = -low * scale if high > low else 0
        for v in range(256):
            stretched = <int>(v * scale + offset)
            tables.values[c][v] = <unsigned char>(0 if stretched < 0 else 255 if stretched > 255 else stretched)
    look_up_bytes(p[0], tables)


cdef void _equalize(const BytePicture* p) noexcept nogil:
    # Gives each channel's values about equal shares of the picture.
    cdef ByteTables tables
    cdef ByteCounts counts
    cdef int64_t c, step, n, last
    cdef int v
    count_bytes(p[0], &counts)
    for c in range(p.channels):
        last = 0
        for v in range(256):
            if counts.values[c][v] > 0:
                last = counts.values[c][v]
        step = (p.height * p.width - last) // 255
        n = step // 2
        for v in range(256):
            tables.values[c][v] = <unsigned char>v
            if step > 0:
                tables.values[c][v] = <unsigned char>(n // step if n // step < 255 else 255)
            n += counts.values[c][v]
    look_up_bytes(p[0], tables)


cdef double _rounded(double x) noexcept nogil:
    # Returns a number with 15 digits behind the point, as Pillow has sines: those of right angles are whole then.
    return nearbyint(x * 1e15) / 1e15


cdef void _move(const BytePicture* p, int kind, double magnitude, const unsigned char* fill) noexcept nogil:
    cdef PixelMap map_
    cdef double* a = &map_.a[0]
    cdef double angle, x = -(<double>p.width / 2), y = -(<double>p.height / 2)
    memset(&map_, 0, sizeof(PixelMap))
    a[0] = a[4] = 1
    if kind == OP_SHEAR_X:
        a[1] = magnitude
    elif kind == OP_SHEAR_Y:
        a[3] = magnitude
    elif kind == OP_TRANSLATE_X:
        a[2] = -magnitude
    elif kind == OP_TRANSLATE_Y:
        a[5] = -magnitude
    else:
        angle = fmod(magnitude, 360)
        angle = -(angle if angle >= 0 else angle + 360) * (3.141592653589793 / 180)
        a[0] = a[4] = _rounded(cos(angle))
        a[1] = _rounded(sin(angle))
        a[3] = _rounded(-sin(angle))
        a[2] = a[0] * x + a[1] * y - x
        a[5] = a[3] * x + a[4] * y - y
    move_pixels(p[0], map_, fill)


cdef void _turn_hue(const BytePicture* p, double turn) noexcept nogil:
    cdef float values[3 * HUE_TILE + 12]
    cdef int64_t pixels = p.height * p.width, position = 0, n, i
    while position < pixels:
        n = pixels - position if pixels - position < HUE_TILE else HUE_TILE
        for i in range(3 * n):
            values[i] = p.pixels[3 * position + i]
        turn_hue(values, n, <float>(6 * turn))
        round_to_bytes(values, 3 * n, p.pixels + 3 * position)
        position += n


cdef void _apply(const BytePicture* p, int kind, double magnitude, const unsigned char* fill) noexcept nogil:
    # Does an operation to a picture with pixels.
    cdef double pixels = <double>(p.height * p.width)
    if kind == OP_NOTHING:
        return
    if kind <= OP_ROTATE:
        _move(p, kind, magnitude, fill)
    elif kind == OP_BRIGHTNESS:
        _mix_with(p, 0, <float>magnitude)
    elif kind == OP_COLOUR:
        if p.channels == 3:
            mix_with_grey(p[0], <float>magnitude)
    elif kind == OP_CONTRAST:
        _mix_with(p, <int>(<double>sum_greys(p[0]) / pixels + 0.5), <float>magnitude)
    elif kind == OP_SHARPNESS:
        if magnitude != 1:
            sharpen(p[0], <float>magnitude)
    elif kind == OP_POSTERIZE:
        _posterize(p, <int>magnitude)
    elif kind == OP_SOLARIZE:
        _solarize(p, magnitude)
    elif kind == OP_AUTOCONTRAST:
        _stretch(p)
    elif kind == OP_EQUALIZE:
        _equalize(p)
    elif p.channels == 3:
        _turn_hue(p, magnitude)


# ---- steps

cdef struct AugmentParams:
    bint rounds                # the input is float32
    bint moves                 # some operations move pixels
    uint64_t seed
    int64_t made_bytes
    unsigned char fill[4]
    # Policies.
    Operation* operations
    double* magnitudes
    int32_t count              # of operations
    int32_t rounds_of_ops      # operations for each picture
    int64_t fixed              # the number of the magnitude; -1: drawn
    # Colours in a random order.
    double low[4]
    double high[4]
    int32_t kinds[4]
    int32_t colours
    # Greys.
    double share               # how likely
    # Blurs.
    int64_t half
    double least_sigma, most_sigma

ctypedef int (*ChangeFn)(const AugmentParams* setup, const BytePicture* p, int64_t picture, Arena* arena,
                         Fault* fault) noexcept nogil


cdef int _by_policy(const AugmentParams* setup, const BytePicture* p, int64_t picture, Arena* arena,
                    Fault* fault) noexcept nogil:
    # Draws operations, as torchvision's RandAugment and TrivialAugmentWide do.
    cdef uint32_t draws[4]
    cdef const Operation* op
    cdef double magnitude
    cdef int32_t i
    for i in range(setup.rounds_of_ops):
        step_draws(setup.seed, arena, picture, i, draws)
        op = &setup.operations[draw_below(draws[0], setup.count)]
        magnitude = 0
        if op.count > 0:
            magnitude = setup.magnitudes[op.first
                                         + (draw_below(draws[1], op.count) if setup.fixed < 0 else setup.fixed)]
        if op.of_width:
            magnitude *= <double>p.width
        elif op.of_height:
            magnitude *= <double>p.height
        if op.signed_ and draws[2] >> 31 != 0:
            magnitude = -magnitude
        if OP_TRANSLATE_X <= op.kind <= OP_TRANSLATE_Y:
            magnitude = <double><int64_t>magnitude
        elif OP_BRIGHTNESS <= op.kind <= OP_SHARPNESS:
            magnitude += 1
        _apply(p, op.kind, magnitude, setup.fill)
    return 0


cdef int _jitter(const AugmentParams* setup, const BytePicture* p, int64_t picture, Arena* arena,
                 Fault* fault) noexcept nogil:
    # Draws an order, and the amount of each operation.
    cdef uint32_t orders[4]
    cdef uint32_t draws[4]
    cdef int32_t left[4]
    cdef int32_t i, j, choice
    step_draws(setup.seed, arena, picture, 0, orders)
    step_draws(setup.seed, arena, picture, 1, draws)
    for i in range(setup.colours):
        left[i] = i
    for i in range(setup.colours):
        choice = <int32_t>draw_below(orders[i], setup.colours - i)
        j = left[choice]
        left[choice] = left[setup.colours - 1 - i]
        _apply(p, setup.kinds[j], setup.low[j] + (setup.high[j] - setup.low[j]) * draw_share(draws[j]), setup.fill)
    return 0


cdef int _grey(const AugmentParams* setup, const BytePicture* p, int64_t picture, Arena* arena,
               Fault* fault) noexcept nogil:
    cdef uint32_t draws[4]
    step_draws(setup.seed, arena, picture, 0, draws)
    if p.channels == 3 and draw_share(draws[0]) < setup.share:
        mix_with_grey(p[0], 0)
    return 0


cdef int _blur(const AugmentParams* setup, const BytePicture* p, int64_t picture, Arena* arena,
               Fault* fault) noexcept nogil:
    # Weights are those of torchvision: of the normal distribution at whole pixels, divided by their sum.
    cdef uint32_t draws[4]
    cdef int64_t taps = 2 * setup.half + 1, i
    cdef double sigma = setup.least_sigma, sum_ = 0, distance
    cdef size_t room = size_product(taps + p.height * p.width * p.channels, sizeof(float))
    cdef float* weights
    if setup.half >= p.height or setup.half >= p.width:
        return step_fault(fault, WHAT_SMALL, p.height, p.width)
    weights = <float*>arena_take(arena, room)
    if weights == NULL:
        return step_fault(fault, WHAT_NO_MEMORY, <int64_t>room, 0)
    if setup.most_sigma > sigma:
        step_draws(setup.seed, arena, picture, 0, draws)
        sigma += (setup.most_sigma - sigma) * draw_share(draws[0])
    for i in range(taps):
        distance = <double>(i - setup.half) / sigma
        sum_ += exp(-0.5 * distance * distance)
    for i in range(taps):
        distance = <double>(i - setup.half) / sigma
        weights[i] = <float>(exp(-0.5 * distance * distance) / sum_)
    blur_bytes(p[0], weights, setup.half, weights + taps)
    return 0


cdef int _change_all(const AugmentParams* setup, ChangeFn change, const Cell* cell, Cell* out, Arena* arena,
                     Fault* fault) noexcept nogil:
    # Copies all pictures as bytes, and changes each.
    cdef PictureDims dims
    cdef BytePicture p
    cdef ArenaMark mark
    cdef int64_t i, nbytes
    if not pictures_of(cell, &dims):
        return step_fault(fault, WHAT_RANK, cell.ndim, 0)
    if dims.channels not in (1, 3):
        return step_fault(fault, WHAT_GREYS, dims.channels, 0)
    if setup.moves and (dims.height > MOST_SIDE or dims.width > MOST_SIDE):
        return step_fault(fault, WHAT_SIDE, dims.height, dims.width)
    out.ndim = cell.ndim
    out.offsets = NULL
    memcpy(out.dims, cell.dims, cell.ndim * sizeof(int64_t))
    nbytes = dims.height * dims.width * dims.channels
    if step_place(out, dims.count * nbytes, setup.made_bytes, arena, fault) != 0:
        return -1
    if out.nbytes == 0:
        return 0
    if setup.rounds:
        round_to_bytes(<const float*>cell.data, out.nbytes, out.data)
    elif out.data != cell.data:
        memcpy(out.data, cell.data, out.nbytes)
    p.height = dims.height
    p.width = dims.width
    p.channels = dims.channels
    p.spare = <unsigned char*>arena_take(arena, nbytes)
    if p.spare == NULL:
        return step_fault(fault, WHAT_NO_MEMORY, nbytes, 0)
    for i in range(dims.count):
        mark = arena_mark(arena)
        p.pixels = out.data + i * nbytes
        if change(setup, &p, i, arena, fault) != 0:
            return -1
        arena_release(arena, mark)
    return 0


cdef int _run_policy(const void* params, const Cell* inputs, Cell* outputs, Arena* arena, Fault* fault) noexcept nogil:
    return _change_all(<const AugmentParams*>params, _by_policy, inputs, outputs, arena, fault)


cdef int _run_jitter(const void* params, const Cell* inputs, Cell* outputs, Arena* arena, Fault* fault) noexcept nogil:
    return _change_all(<const AugmentParams*>params, _jitter, inputs, outputs, arena, fault)


cdef int _run_grey(const void* params, const Cell* inputs, Cell* outputs, Arena* arena, Fault* fault) noexcept nogil:
    return _change_all(<const AugmentParams*>params, _grey, inputs, outputs, arena, fault)


cdef int _run_blur(const void* params, const Cell* inputs, Cell* outputs, Arena* arena, Fault* fault) noexcept nogil:
    return _change_all(<const AugmentParams*>params, _blur, inputs, outputs, arena, fault)


cdef class AugmentStep(Step):
    """The base of steps that change pictures of bytes at random.

    Parameters
    ----------
    inputs, outputs : tuple of Component
        One of uint8 or float32; one of uint8.
    label : str
        The operation.
    seed : int
        Below 2**63.
    """
    cdef AugmentParams setup
    cdef str name

    def __init__(self, tuple inputs, tuple outputs, str label, uint64_t seed):
        if self.params != NULL:
            raise TypeError("a step can't be initialised twice")
        self.inputs = inputs
        self.outputs = outputs
        self.name = label
        self.setup.rounds = inputs[0].dtype.kind == "f"
        self.setup.seed = seed
        self.setup.made_bytes = made_bytes_of(outputs[0])
        self.alone = True
        self.params = &self.setup

    def __dealloc__(self):
        free(self.setup.operations)
        free(self.setup.magnitudes)

    cdef object explain(self, const Fault* fault):
        if fault.what == WHAT_GREYS:
            text = f"{self.name}: expected 1 channel or 3, got {fault.a}"
        elif fault.what == WHAT_SMALL:
            text = (f"{self.name}: a picture of {fault.a} x {fault.b} pixels is too small for a kernel of "
                    f"{2 * self.setup.half + 1}")
        elif fault.what == WHAT_SIDE:
            text = f"{self.name}: a picture of {fault.a} x {fault.b} pixels has a side of more than {MOST_SIDE}"
        else:
            return explain_pictures(self.name, fault)
        return new_error(CODE_INVALID_ARGUMENT, text)


@cython.final
cdef class PolicyStep(AugmentStep):
    """Operations that are drawn for each picture.

    Parameters
    ----------
    inputs, outputs, label, seed
        As for `AugmentStep`.
    operations : list of tuple
        Of each its name (`OPERATIONS`), its magnitudes (float64; none: it has no magnitude), whether their sign is
        drawn, and "", "width" or "height": what they are parts of.
    count : int
        How many are drawn for each picture.
    magnitude : int
        The number of the magnitude that is used; -1: it is drawn.
    fill : bytes
        The pixel that comes where there is none, of three channels.
    """
    def __init__(self, tuple inputs, tuple outputs, str label, uint64_t seed, list operations, int32_t count,
                 int64_t magnitude, bytes fill):
        cdef Operation* op
        cdef int64_t first = 0, i
        AugmentStep.__init__(self, inputs, outputs, label, seed)
        self.setup.count = <int32_t>len(operations)
        self.setup.operations = <Operation*>calloc(self.setup.count, sizeof(Operation))
        self.setup.magnitudes = <double*>calloc(sum(len(one[1]) for one in operations) + 1, sizeof(double))
        if self.setup.operations == NULL or self.setup.magnitudes == NULL:
            raise MemoryError
        for i, (name, magnitudes, has_sign, part) in enumerate(operations):
            op = &self.setup.operations[i]
            op.kind = OPERATIONS.index(name)
            op.signed_ = has_sign
            op.of_width = part == "width"
            op.of_height = part == "height"
            op.first = first
            op.count = len(magnitudes)
            self.setup.moves = self.setup.moves or OP_SHEAR_X <= op.kind <= OP_ROTATE
            for number in magnitudes:
                self.setup.magnitudes[first] = number
                first += 1
        self.setup.rounds_of_ops = count
        self.setup.fixed = magnitude
        for i in range(3):
            self.setup.fill[i] = fill[i]
        self.run = _run_policy


@cython.final
cdef class JitterStep(AugmentStep):
    """Brightness, contrast, saturation and hue in a random order.

    Parameters
    ----------
    inputs, outputs, label, seed
        As for `AugmentStep`.
    amounts : list of tuple
        The name of each (`OPERATIONS`), and the bounds between which its amount is drawn.
    """
    def __init__(self, tuple inputs, tuple outputs, str label, uint64_t seed, list amounts):
        cdef int32_t i
        AugmentStep.__init__(self, inputs, outputs, label, seed)
        self.setup.colours = <int32_t>len(amounts)
        for i, (name, low, high) in enumerate(amounts[:4]):
            self.setup.kinds[i] = OPERATIONS.index(name)
            self.setup.low[i] = low
            self.setup.high[i] = high
        self.run = _run_jitter


@cython.final
cdef class GreyStep(AugmentStep):
    """Pictures that become grey, with three equal channels, or stay as they are.

    Parameters
    ----------
    inputs, outputs, label, seed
        As for `AugmentStep`.
    share : float
        How likely a grey picture is.
    """
    def __init__(self, tuple inputs, tuple outputs, str label, uint64_t seed, double share):
        AugmentStep.__init__(self, inputs, outputs, label, seed)
        self.setup.share = share
        self.run = _run_grey


@cython.final
cdef class BlurStep(AugmentStep):
    """Pictures blurred by a normal distribution.

    Parameters
    ----------
    inputs, outputs, label, seed
        As for `AugmentStep`.
    half : int
        Pixels on each side that count.
    least, most : float
        The bounds of the deviation, in pixels; above 0.
    """
    def __init__(self, tuple inputs, tuple outputs, str label, uint64_t seed, int64_t half, double least, double most):
        AugmentStep.__init__(self, inputs, outputs, label, seed)
        self.setup.half = half
        self.setup.least_sigma = least
        self.setup.most_sigma = most
        self.alone = most > least
        self.run = _run_blur
