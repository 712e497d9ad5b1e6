"""Pictures through several operations at once: decoded, cropped, resized, cropped again, mirrored, normalised.

A step has any of these links, in this order. Of a JPEG it decodes only the rows and columns that the later links use,
and makes only the targets that a crop leaves. The pixels are those of the same links one after the other, unless a JPEG
is decoded at a half, a quarter or an eighth of its size (`SizeLink`).

A picture is [height, width, channels]; more axes before these make a batch. Random links draw from Philox: the key is
the link's seed, the counter epoch and element. Picture i of a batch is element + i. So neither threads nor batches
change a picture, nor do the other links.
"""
cimport cython
from libc.math cimport exp, floor, floorf, log, sqrt
from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t
from libc.string cimport memcpy, memset
from queuecore._core.atoms.errors cimport CODE_INVALID_ARGUMENT, new_error
from queuecore._core.atoms.process cimport check_layout
from queuecore._core.atoms.platform cimport Fault, layout_hash, size_product
from queuecore._core.steps.elementwise cimport (
    WHAT_NO_MEMORY, CastFn, bytes_in, bytes_out, cast_fn, draw_below, draw_share, step_draws, step_explain, step_fault,
    step_place)
from queuecore._core.steps.images cimport (
    WHAT_OF_CODECS, DecodeParams, Decoder, PictureBox, PictureStep, decoder_close, decoder_divide, decoder_open,
    decoder_part)
from queuecore._core.steps.stages cimport (
    Arena, ArenaMark, Cell, Step, arena_mark, arena_release, arena_take, made_bytes_of)


cdef extern from "queuecore/kernels/resample.hpp" namespace "queuecore" nogil:
    const int64_t kRowSlack

    struct ResampleView:
        int32_t filter
        int32_t antialias
        int64_t low, high, skip
        double start, scale

    struct ResampleAxis:
        int64_t targets, taps
        int64_t* first
        float* weights
        float* pairs

    struct ResampleLoops:
        void (*widen)(const unsigned char* source, float* target, int64_t n) noexcept nogil
        void (*blend_columns)(const float* row, const ResampleAxis& axis, int64_t channels,
                              float* target) noexcept nogil
        void (*sum_columns)(const float* row, const ResampleAxis& axis, int64_t channels, float* target) noexcept nogil
        void (*normalize)(const float* row, int64_t n, int64_t channels, const float* factors, const float* shifts,
                          float* target, int64_t plane) noexcept nogil
        void (*blend_rows)(const float** rows, const float* share, int64_t taps, float* target,
                           int64_t n) noexcept nogil
        void (*sum_rows)(const float** rows, const float* weights, int64_t taps, float* target,
                         int64_t n) noexcept nogil
        void (*sum_bytes)(const unsigned char** rows, const float* weights, int64_t taps, float* target,
                          int64_t n) noexcept nogil
        void (*blend_bytes)(const unsigned char* row, int64_t n, const ResampleAxis& axis, int64_t channels,
                            float* target) noexcept nogil

    bint resample_blends(const ResampleView& view) noexcept
    int64_t resample_taps(const ResampleView& view) noexcept
    void resample_fill(const ResampleView& view, ResampleAxis* axis) noexcept
    void resample_mirror(ResampleAxis* axis) noexcept
    int64_t resample_pairs(int64_t targets, int64_t taps) noexcept
    void resample_pair(ResampleAxis* axis) noexcept
    ResampleLoops resample_loops(bint widest) noexcept

cdef extern from "queuecore/kernels/pixels.hpp" namespace "queuecore" nogil:
    void mirror_pixels(const unsigned char* row, int64_t n, int64_t pixel, unsigned char* target) noexcept
    void pick_pixels(const unsigned char* row, const int64_t* columns, int64_t n, int64_t pixel,
                     unsigned char* target) noexcept

check_layout(layout_hash())

cdef enum:
    UINT8 = 2            # their numbers
    FLOAT32 = 10

cdef enum:
    WHAT_RANK = 33       # a dimensions
    WHAT_EMPTY = 34      # a picture of a x b pixels
    WHAT_WINDOW = 35     # a: height, from bit 32 on width; b: the crop's number
    WHAT_UNEQUAL = 36    # a: height, from bit 32 on width
    WHAT_CHANNELS = 37   # a channels

cdef enum:
    CROP_NONE = 0
    CROP_WINDOW = 1
    CROP_CENTRE = 2
    CROP_RANDOM = 3
    CROP_RESIZED = 4
    MOST_TRIES = 10      # of CROP_RESIZED

cdef enum:
    NEAREST = -1         # beside the filters of resample.hpp

cdef enum:
    FIT_BOTH = 0
    FIT_SHORTER = 1      # the shorter side has this height, the other one follows
    FIT_WITHIN = 2       # as large as fits, the rest is zero

cdef struct CropLink:
    int32_t kind
    bint half_to_even         # of CROP_CENTRE: where it begins if an odd number of rows or columns is left out
    int64_t top, left, height, width
    uint64_t seed
    double least_area, most_area, least_ratio, most_ratio

cdef struct SizeLink:
    bint resizes
    int32_t filter
    bint antialias
    bint divides
    int32_t fit
    int64_t height, width

cdef struct FlipLink:
    bint flips
    bint draws
    uint64_t seed
    uint64_t least            # draws from this one on flip

cdef struct NormalLink:
    bint normalizes
    bint planar
    int64_t channels          # that there must be; 0: any
    int64_t step              # from one channel's factor to the next one's: 0 if there is one for all
    const float* factors
    const float* shifts

cdef struct PicturesParams:
    const DecodeParams* decode    # NULL: the input is pixels
    CastFn widen                  # pixels to float32
    CastFn narrow                 # float32 to the result, or NULL
    int64_t item                  # bytes of a pixel's channel, and of the result's
    int64_t made_item
    bint bytes                    # pixels are uint8
    CropLink crops[2]
    SizeLink size
    FlipLink columns, rows
    NormalLink normal
    ResampleLoops loops
    int64_t made_bytes

# One picture on its way.
cdef struct PictureWay:
    Decoder* decoder              # or NULL
    bint empty                    # there are no pictures, or none with channels
    int64_t channels
    bytes_in pixels               # of `there`
    PictureBox there
    PictureBox part               # of the source, after the first crop
    int64_t new_height, new_width # of the part, after the new size
    PictureBox targets            # of these, after the second crop
    PictureBox kept               # the part of the source that is used
    int64_t height, width         # of the result
    int64_t top, left             # where the content begins in it
    int64_t content_height, content_width
    bint across_mirrored, down_mirrored
    bint blends
    bint rows_first               # rows become fewer, so they come before columns: sums of these cost more
    bint blends_bytes             # columns are blended as they are
    bint sums_bytes               # rows come first, and are summed as they are, without a ring
    ResampleAxis across, down


cdef void _draw_part(const CropLink* crop, const Arena* arena, int64_t picture, PictureBox* box) noexcept nogil:
    # Draws area and ratio until such a part fits, as torchvision's RandomResizedCrop does; then takes the largest part
    # in the middle of a ratio that is allowed.
    cdef uint32_t draws[4]
    cdef double area, ratio, own_ratio = <double>box.width / <double>box.height
    cdef double low = log(crop.least_ratio), high = log(crop.most_ratio)
    cdef int64_t height, width
    cdef uint32_t attempt
    for attempt in range(<uint32_t>MOST_TRIES):
        step_draws(crop.seed, arena, picture, attempt, draws)
        area = <double>box.width * <double>box.height * (
            crop.least_area + (crop.most_area - crop.least_area) * draw_share(draws[0]))
        ratio = exp(low + (high - low) * draw_share(draws[1]))
        width = <int64_t>floor(sqrt(area * ratio) + 0.5)
        height = <int64_t>floor(sqrt(area / ratio) + 0.5)
        if 0 < width <= box.width and 0 < height <= box.height:
            box.top += draw_below(draws[2], box.height - height + 1)
            box.left += draw_below(draws[3], box.width - width + 1)
            box.height = height
            box.width = width
            return
    height = box.height
    width = box.width
    if own_ratio < crop.least_ratio:
        height = <int64_t>floor(<double>width / crop.least_ratio + 0.5)
    elif own_ratio > crop.most_ratio:
        width = <int64_t>floor(<double>height * crop.most_ratio + 0.5)
    height = height if height > 1 else 1
    width = width if width > 1 else 1
    box.top += (box.height - height) // 2
    box.left += (box.width - width) // 2
    box.height = height
    box.width = width


cdef inline int64_t _middle(int64_t rest, bint half_to_even) noexcept nogil:
    # Returns where the middle begins if so many rows are left out.
    cdef int64_t begin = rest // 2
    return begin + (half_to_even & rest & begin & 1)


cdef int _crop(const CropLink* crop, int64_t number, const Arena* arena, int64_t picture, PictureBox* box,
               Fault* fault) noexcept nogil:
    # Makes a box smaller.
    cdef uint32_t draws[4]
    cdef int64_t top = crop.top, left = crop.left
    if crop.kind == CROP_NONE:
        return 0
    if crop.kind == CROP_RESIZED:
        if box.height == 0 or box.width == 0:
            return step_fault(fault, WHAT_EMPTY, box.height, box.width)
        _draw_part(crop, arena, picture, box)
        return 0
    if top > box.height - crop.height or left > box.width - crop.width:
        return step_fault(fault, WHAT_WINDOW, box.height | box.width << 32, number)
    if crop.kind == CROP_CENTRE:
        top = _middle(box.height - crop.height, crop.half_to_even)
        left = _middle(box.width - crop.width, crop.half_to_even)
    elif crop.kind == CROP_RANDOM:
        step_draws(crop.seed, arena, picture, 0, draws)
        top = draw_below(draws[0], box.height - crop.height + 1)
        left = draw_below(draws[1], box.width - crop.width + 1)
    box.top += top
    box.left += left
    box.height = crop.height
    box.width = crop.width
    return 0


cdef inline bint _flips(const FlipLink* flip, const Arena* arena, int64_t picture) noexcept nogil:
    cdef uint32_t draws[4]
    if not flip.flips or not flip.draws:
        return flip.flips
    step_draws(flip.seed, arena, picture, 0, draws)
    return draws[0] >= flip.least


cdef void _new_size(const SizeLink* size, const PictureBox* box, PictureWay* way, int64_t* height,
                    int64_t* width) noexcept nogil:
    # Returns what the box becomes, and sets where that lies. Sides are rounded down, as by torchvision's Resize, and by
    # TensorFlow's resize_with_pad, in float32.
    cdef float high, wide, ratio
    height[0] = size.height
    width[0] = size.width
    way.top = way.left = 0
    if size.fit == FIT_SHORTER:
        if box.height <= box.width:
            width[0] = size.height * box.width // box.height
        else:
            width[0] = size.height
            height[0] = size.height * box.height // box.width
    elif size.fit == FIT_WITHIN:
        high = <float>box.height / <float>size.height
        wide = <float>box.width / <float>size.width
        ratio = high if high > wide else wide
        high = <float>box.height / ratio
        wide = <float>box.width / ratio
        height[0] = <int64_t>floorf(high) if high > 1 else 1
        width[0] = <int64_t>floorf(wide) if wide > 1 else 1
        way.top = <int64_t>floorf((<float>size.height - high) / 2)
        way.left = <int64_t>floorf((<float>size.width - wide) / 2)


cdef int _axis(const ResampleView* view, int64_t targets, bint columns, bint mirrored, ResampleAxis* axis,
               Arena* arena, Fault* fault) noexcept nogil:
    cdef size_t room
    cdef int64_t pairs = 0
    axis.targets = targets
    axis.taps = 1 if view.filter == NEAREST else resample_taps(view[0])
    # Of each item of a sum a weight, and half of a vector of eight.
    room = size_product(targets, sizeof(int64_t) + axis.taps * (5 if columns else 1) * sizeof(float))
    axis.first = <int64_t*>arena_take(arena, room)
    if axis.first == NULL:
        return step_fault(fault, WHAT_NO_MEMORY, <int64_t>room, 0)
    if columns:
        pairs = resample_pairs(targets, axis.taps)
    axis.pairs = <float*>(axis.first + targets)
    axis.weights = axis.pairs + pairs
    if view.filter == NEAREST:
        _nearest(view, axis)
    else:
        resample_fill(view[0], axis)
    if mirrored:
        resample_mirror(axis)
    if columns:
        resample_pair(axis)
    return 0


cdef void _nearest(const ResampleView* view, ResampleAxis* axis) noexcept nogil:
    cdef float scale = <float>view.scale, start = <float>view.start
    cdef int64_t i, at
    for i in range(axis.targets):
        at = view.low + <int64_t>floorf((<float>(i + view.skip) + <float>0.5) * scale + start)
        axis.first[i] = at if at < view.high else view.high - 1
        axis.weights[i] = 1


cdef int _axes(const PicturesParams* setup, PictureWay* way, Arena* arena, Fault* fault) noexcept nogil:
    # Lays out both axes.
    cdef const PictureBox* box = &way.part
    cdef const PictureBox* targets = &way.targets
    cdef int64_t height = way.new_height, width = way.new_width
    cdef ResampleView down, across
    cdef int32_t by = 1
    cdef int64_t i
    if setup.size.divides and way.decoder != NULL:
        while by < 8 and box.height // (2 * by) >= height and box.width // (2 * by) >= width:
            by *= 2
        if by > 1 and not decoder_divide(way.decoder, by):
            by = 1
    down.filter = across.filter = setup.size.filter
    down.antialias = across.antialias = setup.size.antialias
    down.scale = <double>box.height / <double>by / <double>height
    across.scale = <double>box.width / <double>by / <double>width
    down.low = box.top // by
    down.high = (box.top + box.height + by - 1) // by
    down.start = <double>box.top / <double>by - <double>down.low
    down.skip = targets.top
    across.low = box.left // by
    across.high = (box.left + box.width + by - 1) // by
    across.start = <double>box.left / <double>by - <double>across.low
    across.skip = targets.left
    way.blends = setup.size.filter != NEAREST and resample_blends(down)
    if _axis(&down, targets.height, False, False, &way.down, arena, fault) != 0:
        return -1
    if _axis(&across, targets.width, True, way.across_mirrored, &way.across, arena, fault) != 0:
        return -1
    _span(&way.down, way.blends, down.high, &way.kept.top, &way.kept.height)
    _span(&way.across, way.blends, across.high, &way.kept.left, &way.kept.width)
    way.rows_first = not way.blends and down.scale > 1
    # A row is widened for each sum that it is in: quicker for two of them, as of triangles, than to keep it widened.
    way.sums_bytes = way.rows_first and setup.bytes and way.down.taps < 3 * down.scale
    way.blends_bytes = way.blends and setup.bytes and setup.loops.blend_bytes != NULL and 3 <= way.channels <= 4
    for i in range(way.across.targets):
        way.across.first[i] -= way.kept.left
    return 0


cdef void _span(const ResampleAxis* axis, bint blends, int64_t high, int64_t* begin, int64_t* count) noexcept nogil:
    # Returns which source items the targets need. They lie in order, forwards or backwards.
    cdef int64_t first = axis.first[0], last = axis.first[axis.targets - 1]
    if first > last:
        first, last = last, first
    last += 2 if blends else axis.taps
    begin[0] = first
    count[0] = (last if last < high else high) - first


# Finds which part of a picture is used, and how large the result is.
cdef int _plan(const PicturesParams* setup, PictureWay* way, int64_t picture, int64_t height, int64_t width,
               const Arena* arena, Fault* fault) noexcept nogil:
    cdef PictureBox* box = &way.part
    cdef PictureBox* targets = &way.targets
    box.top = box.left = 0
    box.height = height
    box.width = width
    way.across_mirrored = _flips(&setup.columns, arena, picture)
    way.down_mirrored = _flips(&setup.rows, arena, picture)
    if _crop(&setup.crops[0], 0, arena, picture, box, fault) != 0:
        return -1
    if setup.size.resizes:
        if way.empty and (box.height == 0 or box.width == 0):
            box.height = box.width = 1  # nothing will be made
        if box.height == 0 or box.width == 0:
            return step_fault(fault, WHAT_EMPTY, box.height, box.width)
        _new_size(&setup.size, box, way, &way.new_height, &way.new_width)
        targets.top = targets.left = 0
        targets.height = way.new_height
        targets.width = way.new_width
        if _crop(&setup.crops[1], 1, arena, picture, targets, fault) != 0:
            return -1
        way.content_height = targets.height
        way.content_width = targets.width
    else:
        way.top = way.left = 0
        way.kept = box[0]
        way.content_height = box.height
        way.content_width = box.width
    way.height = way.content_height
    way.width = way.content_width
    if setup.size.resizes and setup.size.fit == FIT_WITHIN:
        way.height = setup.size.height
        way.width = setup.size.width
        if way.across_mirrored:
            way.left = way.width - way.content_width - way.left
    return 0


# ---- rows
# ----------------------------------------------------------------------------------------------------------------------

# The memory of one picture's rows.
cdef struct PictureRows:
    float* line                   # of the source's width, all that is kept
    float** ring                  # row y of the source is at y % count; of the new width, unless rows come first
    int64_t count
    int64_t made                  # the rows of the source before this one are in the ring, as far as they are needed
    const void** picked           # the rows of one sum
    float* wide                   # a row of the result, as float32
    float* normal                 # the same, normalised
    float* factors                # what each of its values is multiplied with; of planes, one for each channel
    float* shifts
    bytes_out pixels              # a row of the result, of the source's dtype


cdef inline bint _resamples(const PicturesParams* setup) noexcept nogil:
    return setup.size.resizes and setup.size.filter != NEAREST


cdef int _take_rows(const PicturesParams* setup, PictureWay* way, PictureRows* rows, Arena* arena,
                    Fault* fault) noexcept nogil:
    cdef int64_t line = (way.kept.width + 1) * way.channels + kRowSlack
    cdef int64_t row = (way.width + 1) * way.channels + kRowSlack
    cdef int64_t count = (2 if way.blends else way.down.taps) if _resamples(setup) else 0
    cdef int64_t kept_items = 0 if count > 0 and way.sums_bytes else line if count > 0 and way.rows_first else row
    cdef int64_t room = 2 * count * <int64_t>sizeof(float*), i
    room += (line + count * kept_items + 4 * row) * <int64_t>sizeof(float) + way.width * way.channels * setup.item
    rows.ring = <float**>arena_take(arena, <size_t>room)
    if rows.ring == NULL:
        return step_fault(fault, WHAT_NO_MEMORY, room, 0)
    rows.picked = <const void**>(rows.ring + count)
    rows.line = <float*>(rows.picked + count)
    # Floats behind a row are read, and multiplied by zero.
    memset(rows.line + way.kept.width * way.channels, 0, (way.channels + kRowSlack) * sizeof(float))
    rows.wide = rows.line + line
    rows.normal = rows.wide + row
    rows.factors = rows.normal + row
    rows.shifts = rows.factors + row
    for i in range(count):
        rows.ring[i] = rows.shifts + row + i * kept_items
    rows.pixels = <bytes_out>(rows.shifts + row + count * kept_items)
    rows.count = count
    rows.made = 0
    if setup.normal.normalizes:
        for i in range(way.channels if setup.normal.planar else way.width * way.channels):
            rows.factors[i] = setup.normal.factors[i % way.channels * setup.normal.step]
            rows.shifts[i] = setup.normal.shifts[i % way.channels * setup.normal.step]
    return 0


cdef inline bytes_in _source_row(const PicturesParams* setup, const PictureWay* way, int64_t y) noexcept nogil:
    cdef int64_t pixel = way.channels * setup.item
    return way.pixels + ((y - way.there.top) * way.there.width + way.kept.left - way.there.left) * pixel


cdef inline void _widen(const PicturesParams* setup, bytes_in row, float* line, int64_t n) noexcept nogil:
    if setup.bytes:
        setup.loops.widen(row, line, n)
    else:
        setup.widen(row, line, n)


cdef void _resampled_row(const PicturesParams* setup, PictureWay* way, PictureRows* rows, int64_t i,
                         float* target) noexcept nogil:
    cdef int64_t first = way.down.first[i], n = way.content_width * way.channels, y, k
    cdef const float* weights = way.down.weights + (i if way.blends else i * way.down.taps)
    cdef int64_t bottom = way.kept.top + way.kept.height, kept_items = way.kept.width * way.channels
    cdef int64_t end = first + rows.count if first + rows.count < bottom else bottom
    cdef bytes_in source
    if rows.made < first:
        rows.made = first
    for y in range(end if way.sums_bytes else rows.made, end):
        source = _source_row(setup, way, y)
        if way.blends_bytes:
            setup.loops.blend_bytes(source, kept_items, way.across, way.channels, rows.ring[y % rows.count])
        elif way.blends:
            _widen(setup, source, rows.line, kept_items)
            setup.loops.blend_columns(rows.line, way.across, way.channels, rows.ring[y % rows.count])
        elif way.rows_first:
            _widen(setup, source, rows.ring[y % rows.count], kept_items)
        else:
            _widen(setup, source, rows.line, kept_items)
            setup.loops.sum_columns(rows.line, way.across, way.channels, rows.ring[y % rows.count])
        rows.made = y + 1
    for k in range(rows.count):
        y = first + k if first + k < bottom else bottom - 1
        if way.sums_bytes:
            rows.picked[k] = _source_row(setup, way, y)
        else:
            rows.picked[k] = rows.ring[y % rows.count]
    if way.blends:
        setup.loops.blend_rows(<const float**>rows.picked, weights, 2, target, n)
    elif way.sums_bytes:
        setup.loops.sum_bytes(<bytes_in*>rows.picked, weights, way.down.taps, rows.line, kept_items)
    elif way.rows_first:
        setup.loops.sum_rows(<const float**>rows.picked, weights, way.down.taps, rows.line, kept_items)
    else:
        setup.loops.sum_rows(<const float**>rows.picked, weights, way.down.taps, target, n)
    if way.rows_first:
        setup.loops.sum_columns(rows.line, way.across, way.channels, target)


cdef void _copied_row(const PicturesParams* setup, const PictureWay* way, int64_t i, bytes_out target) noexcept nogil:
    cdef int64_t pixel = way.channels * setup.item
    cdef bytes_in row
    if setup.size.resizes:
        pick_pixels(_source_row(setup, way, way.down.first[i]), way.across.first, way.content_width, pixel, target)
        return
    row = _source_row(setup, way, way.kept.top + i)
    if way.across_mirrored:
        mirror_pixels(row, way.content_width, pixel, target)
    else:
        memcpy(target, row, way.content_width * pixel)


cdef void _content_row(const PicturesParams* setup, PictureWay* way, PictureRows* rows, int64_t y,
                       bytes_out target) noexcept nogil:
    # Makes a row of the result before it is normalised: of float32 if it is resampled.
    cdef int64_t pixel = way.channels * (4 if _resamples(setup) else setup.item), i = y - way.top
    if way.content_width < way.width or way.content_height < way.height:
        memset(target, 0, way.width * pixel)
    if not 0 <= i < way.content_height:
        return
    target += way.left * pixel
    if _resamples(setup):
        _resampled_row(setup, way, rows, i, <float*>target)
    else:
        _copied_row(setup, way, i, target)


cdef void _normal_row(const PicturesParams* setup, PictureWay* way, PictureRows* rows, int64_t y, int64_t position,
                      bytes_out out) noexcept nogil:
    # Makes a row of the result, which lies in row `position`.
    cdef int64_t n = way.width, planes = way.channels if setup.normal.planar else 1, c
    cdef int64_t apart = way.height * n * setup.made_item if setup.normal.planar else 0
    cdef int64_t items = n * way.channels // planes
    if _resamples(setup):
        _content_row(setup, way, rows, y, <bytes_out>rows.wide)
    else:
        _content_row(setup, way, rows, y, rows.pixels)
        _widen(setup, rows.pixels, rows.wide, n * way.channels)
    out += position * items * setup.made_item
    if setup.narrow == NULL:
        setup.loops.normalize(rows.wide, n, way.channels, rows.factors, rows.shifts, <float*>out, apart // 4)
        return
    setup.loops.normalize(rows.wide, n, way.channels, rows.factors, rows.shifts, rows.normal,
                        n if setup.normal.planar else 0)
    for c in range(planes):
        setup.narrow(rows.normal + c * n, out + c * apart, items)


cdef void _fill(const PicturesParams* setup, PictureWay* way, PictureRows* rows, bytes_out out) noexcept nogil:
    # Makes all rows. The rows of the source come in their order; mirrored, the result's are made from the last one on.
    cdef int64_t y, position
    for y in range(way.height):
        position = way.height - 1 - y if way.down_mirrored else y
        if setup.normal.normalizes:
            _normal_row(setup, way, rows, y, position, out)
        else:
            _content_row(setup, way, rows, y, out + position * way.width * way.channels * setup.made_item)


# ---- the step
# ----------------------------------------------------------------------------------------------------------------------

cdef CropLink _crop_link(crop) except *:
    cdef CropLink link
    memset(&link, 0, sizeof(CropLink))
    if crop is None:
        return link
    kind, numbers = crop[0], crop[1:]
    if kind == "window":
        link.kind = CROP_WINDOW
        link.top, link.left, link.height, link.width = numbers
    elif kind == "centre":
        link.kind = CROP_CENTRE
        link.height, link.width, link.half_to_even = numbers
    elif kind == "random":
        link.kind = CROP_RANDOM
        link.height, link.width, link.seed = numbers
    else:
        link.kind = CROP_RESIZED
        link.least_area, link.most_area, link.least_ratio, link.most_ratio, link.seed = numbers
    return link


cdef FlipLink _flip_link(flip) except *:
    cdef FlipLink link
    memset(&link, 0, sizeof(FlipLink))
    link.flips = flip is not None
    if flip is not None and flip != -1:
        link.draws = True
        link.seed, share = flip
        link.least = round((1 - share) * 2**32)
    return link


@cython.final
cdef class PicturesStep(Step):
    """Pictures through a chain of links.

    Parameters
    ----------
    inputs, outputs : tuple of Component
        One of strings, or of pixels; one of pixels.
    source : PictureStep or int
        How strings are decoded, to uint8. Or the number of the pixels' dtype; -1: pixels are copied, nothing else.
    labels : dict of str to str
        The operations, for errors: "first" is the first one of all; those of "crop", "resize", "second" (crop) and
        "normalize".
    crops : tuple
        The crop before the new size and the one behind it, each one of ("window", top, left, height, width),
        ("centre", height, width, whether a half is rounded to even), ("random", height, width, seed) and ("resized",
        least and most area, least and most ratio, seed); or None.
    size : tuple or None
        Filter (-1: the nearest pixel), antialias, whether a JPEG may be decoded smaller, fit (0: exactly; 1: the
        shorter side is `height`; 2: within), height, width.
    flips : tuple
        Of columns and of rows: None, -1 (always), or a seed and how likely the mirror image is.
    normal : tuple or None
        Factors and shifts (float32, as many as channels or one), whether channels come first, the number of the
        result's dtype.
    """
    cdef PicturesParams setup
    cdef PictureStep decoding
    cdef dict labels
    cdef tuple numbers             # bytes of factors and shifts

    def __init__(self, tuple inputs, tuple outputs, source, dict labels, tuple crops, size, tuple flips, normal):
        cdef int number = UINT8, result_dtype
        if self.params != NULL:
            raise TypeError("a step can't be initialised twice")
        self.inputs = inputs
        self.outputs = outputs
        self.labels = labels
        if isinstance(source, PictureStep):
            self.decoding = source
            self.setup.decode = &self.decoding.setup
            self.setup.item = 1
        else:
            number = source
            self.setup.item = inputs[0].dtype.itemsize
        self.setup.bytes = number == UINT8
        if number >= 0:
            self.setup.widen = cast_fn(number, FLOAT32, False)
        self.setup.crops[0] = _crop_link(crops[0])
        self.setup.crops[1] = _crop_link(crops[1])
        self.setup.size.resizes = size is not None
        if size is not None:
            self.setup.size.filter, self.setup.size.antialias, self.setup.size.divides, self.setup.size.fit = size[:4]
            self.setup.size.height, self.setup.size.width = size[4:]
        self.setup.columns = _flip_link(flips[0])
        self.setup.rows = _flip_link(flips[1])
        self.setup.made_item = outputs[0].dtype.itemsize
        self.setup.normal.normalizes = normal is not None
        if normal is not None:
            factors, shifts, planar, result_dtype = normal
            self.numbers = (factors.tobytes(), shifts.tobytes())
            self.setup.normal.factors = <const float*><const char*>(<bytes>self.numbers[0])
            self.setup.normal.shifts = <const float*><const char*>(<bytes>self.numbers[1])
            self.setup.normal.step = factors.size > 1
            self.setup.normal.channels = factors.size if factors.size > 1 else 0
            self.setup.normal.planar = planar
            if result_dtype != FLOAT32:
                self.setup.narrow = cast_fn(FLOAT32, result_dtype, False)
        self.setup.loops = resample_loops(True)
        self.setup.made_bytes = made_bytes_of(outputs[0])
        self.alone = (self.setup.columns.draws or self.setup.rows.draws or self.setup.crops[0].kind >= CROP_RANDOM
                      or self.setup.crops[1].kind >= CROP_RANDOM)
        self.params = &self.setup
        self.run = _run_pictures

    cdef object explain(self, const Fault* fault):
        cdef int64_t a = fault.a, b = fault.b
        first = self.labels["first"]
        if self.decoding is not None and fault.what < WHAT_OF_CODECS:
            return self.decoding.explain(fault)
        names = ("crop", "second")
        size = f"{a & 0xffffffff} x {a >> 32} pixels"
        if fault.what == WHAT_RANK:
            text = f"{first}: expected pictures [..., height, width, channels], got {a} dimensions"
        elif fault.what == WHAT_EMPTY:
            text = f"{self.labels['resize']}: a picture of {a} x {b} pixels can't be resized"
        elif fault.what == WHAT_WINDOW:
            crop = self.setup.crops[b]
            text = (f"{self.labels[names[b]]}: a picture of {size} has no part of {crop.height} x {crop.width} pixels "
                    f"at row {crop.top} and column {crop.left}")
        elif fault.what == WHAT_CHANNELS:
            text = f"{self.labels['normalize']}: expected {self.setup.normal.channels} channels, got {a}"
        elif fault.what == WHAT_UNEQUAL:
            text = (f"{first}: picture {b} of the batch becomes one of {size} or has other channels than the first: "
                    "pictures of a batch must be equal in shape")
        else:
            return step_explain(first, fault)
        return new_error(CODE_INVALID_ARGUMENT, text)


cdef int _run_pictures(const void* params, const Cell* inputs, Cell* outputs, Arena* arena,
                       Fault* fault) noexcept nogil:
    cdef const PicturesParams* setup = <const PicturesParams*>params
    cdef const Cell* cell = &inputs[0]
    cdef Cell* out = &outputs[0]
    cdef int32_t lead = cell.ndim if setup.decode != NULL else cell.ndim - 3
    cdef int64_t n, i
    if lead < 0:
        return step_fault(fault, WHAT_RANK, cell.ndim, 0)
    n = _count(cell, lead)
    out.ndim = lead + 3
    out.offsets = NULL
    memcpy(out.dims, cell.dims, lead * sizeof(int64_t))
    if n == 0:
        return _no_pictures(setup, cell, lead, out, arena, fault)
    for i in range(n):
        fault.b = i if lead > 0 else -1
        if _one(setup, cell, lead, i, out, arena, fault) != 0:
            return -1
    return 0


cdef int64_t _count(const Cell* cell, int32_t lead) noexcept nogil:
    cdef int64_t n = 1
    cdef int32_t d
    for d in range(lead):
        n *= cell.dims[d]
    return n


cdef int _no_pictures(const PicturesParams* setup, const Cell* cell, int32_t lead, Cell* out, Arena* arena,
                      Fault* fault) noexcept nogil:
    # Of an empty batch only the shape is made.
    cdef PictureWay way
    way.decoder = NULL
    way.empty = True
    way.channels = cell.dims[lead + 2] if setup.decode == NULL else 0
    way.height = way.width = 0
    if setup.decode == NULL and _plan(setup, &way, 0, cell.dims[lead], cell.dims[lead + 1], arena, fault) != 0:
        return -1
    _set_dims(setup, &way, lead, out)
    return step_place(out, 0, setup.made_bytes, arena, fault)


cdef void _set_dims(const PicturesParams* setup, const PictureWay* way, int32_t lead, Cell* out) noexcept nogil:
    cdef int32_t planar = setup.normal.normalizes and setup.normal.planar
    out.dims[lead + planar] = way.height
    out.dims[lead + planar + 1] = way.width
    out.dims[lead if planar else lead + 2] = way.channels


cdef int _one(const PicturesParams* setup, const Cell* cell, int32_t lead, int64_t i, Cell* out, Arena* arena,
              Fault* fault) noexcept nogil:
    # Makes picture i.
    cdef Decoder decoder
    cdef int rc
    if setup.decode == NULL:
        return _make(setup, cell, lead, i, NULL, out, arena, fault)
    if lead == 0:
        rc = decoder_open(setup.decode, cell.data, cell.nbytes, &decoder, fault)
    else:
        rc = decoder_open(setup.decode, cell.data + cell.offsets[i], cell.offsets[i + 1] - cell.offsets[i], &decoder,
                          fault)
    if rc == 0:
        rc = _make(setup, cell, lead, i, &decoder, out, arena, fault)
    decoder_close(&decoder)
    return rc


cdef int _make(const PicturesParams* setup, const Cell* cell, int32_t lead, int64_t i, Decoder* decoder, Cell* out,
               Arena* arena, Fault* fault) noexcept nogil:
    cdef PictureWay way
    cdef PictureRows rows
    cdef ArenaMark mark
    cdef int64_t nbytes, all_bytes
    way.decoder = decoder
    way.there.top = way.there.left = 0
    way.there.height = decoder.height if decoder != NULL else cell.dims[lead]
    way.there.width = decoder.width if decoder != NULL else cell.dims[lead + 1]
    way.channels = decoder.channels if decoder != NULL else cell.dims[lead + 2]
    way.empty = way.channels == 0
    if setup.normal.normalizes and setup.normal.channels not in (0, way.channels):
        return step_fault(fault, WHAT_CHANNELS, way.channels, 0)
    if _plan(setup, &way, i, way.there.height, way.there.width, arena, fault) != 0:
        return -1
    nbytes = <int64_t>size_product(size_product(way.height, way.width), size_product(way.channels, setup.made_item))
    if i == 0:
        _set_dims(setup, &way, lead, out)
        all_bytes = <int64_t>size_product(_count(cell, lead), nbytes)
        if nbytes < 0 or all_bytes < 0:
            return step_fault(fault, WHAT_NO_MEMORY, nbytes, 0)
        if step_place(out, all_bytes, setup.made_bytes, arena, fault) != 0:
            return -1
    elif not _as_before(setup, &way, lead, out):
        return step_fault(fault, WHAT_UNEQUAL, way.height | way.width << 32, i)
    if nbytes == 0 or way.content_height == 0 or way.content_width == 0:
        return 0
    mark = arena_mark(arena)
    if setup.size.resizes and _axes(setup, &way, arena, fault) != 0:
        return -1
    if decoder != NULL:
        way.there = way.kept
        way.pixels = decoder_part(decoder, &way.there, arena, fault)
        if way.pixels == NULL:
            return -1
    else:
        way.pixels = cell.data + i * way.there.height * way.there.width * way.channels * setup.item
    if _take_rows(setup, &way, &rows, arena, fault) != 0:
        return -1
    _fill(setup, &way, &rows, out.data + i * nbytes)
    arena_release(arena, mark)
    return 0


cdef bint _as_before(const PicturesParams* setup, const PictureWay* way, int32_t lead, const Cell* out) noexcept nogil:
    # Returns whether a picture has the shape of those before it.
    cdef Cell cell
    _set_dims(setup, way, lead, &cell)
    return (cell.dims[lead] == out.dims[lead] and cell.dims[lead + 1] == out.dims[lead + 1]
            and cell.dims[lead + 2] == out.dims[lead + 2])

