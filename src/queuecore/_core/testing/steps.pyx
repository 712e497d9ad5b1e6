"""Steps: functions that a user's compiler could have made, chains, pictures decoded over and over, libjpeg alone."""
from libc.stddef cimport size_t
from libc.stdint cimport int32_t, int64_t, uint32_t
from libc.string cimport memset
from queuecore._core.atoms.memory cimport calloc, free
from queuecore._core.atoms.process cimport check_layout
from queuecore._core.atoms.platform cimport Atomic, Fault, kAcquire, kRelaxed, layout_hash, monotonic_ns
from queuecore._core.steps.elementwise cimport ChainFn, ChainLink, chain_fn
from queuecore._core.steps.images cimport images_codecs
from queuecore._core.steps.stages cimport Arena, Cell, Step, arena_free, arena_init, arena_reset, arena_take

check_layout(layout_hash())

cdef extern from "sched.h" nogil:
    int sched_yield()


# Functions as a user's compiler makes them, for steps that call some.

cdef int64_t _sums(const unsigned char* text, const float* numbers, double* sums, int64_t text_bytes,
                   int64_t count) noexcept nogil:
    cdef int64_t i
    sums[0] = sums[1] = 0
    for i in range(text_bytes):
        sums[0] += text[i]
    for i in range(count):
        sums[1] += numbers[i]
    return 0


cdef int32_t _first_digit(const unsigned char* text, int32_t* digit) noexcept nogil:
    # Its value; the negative of what stands there if it is none.
    digit[0] = text[0] - <int32_t>48
    return 0 if 0 <= digit[0] < 10 else -<int32_t>text[0]


cdef int32_t _hold(const int64_t* address, int32_t* is_told) noexcept nogil:
    # Comes back when there is a number at the address. The number behind it tells that the function has been called.
    cdef Atomic[int32_t]* number = <Atomic[int32_t]*>address[0]
    number[1].store(1, kRelaxed)  # relaxed: the test polls it, and orders nothing by it
    while number.load(kAcquire) == 0:  # acquire: pairs with the store of the test
        sched_yield()
    is_told[0] = number.load(kRelaxed)  # relaxed: the same thread
    return 0


cdef void _mirror(const int32_t* a, const int32_t* b, const int32_t* c, const int32_t* d, const int32_t* e,
                  const int32_t* f, const int32_t* g, const int32_t* h, int32_t* p, int32_t* q, int32_t* r, int32_t* s,
                  int32_t* t, int32_t* u, int32_t* v, int32_t* w) noexcept nogil:
    # The most arguments that there may be: in registers, and on the stack.
    p[0] = h[0]
    q[0] = g[0]
    r[0] = f[0]
    s[0] = e[0]
    t[0] = d[0]
    u[0] = c[0]
    v[0] = b[0]
    w[0] = a[0]


def functions():
    """Return the addresses of functions in machine code, by name."""
    return {"sums": <size_t>&_sums, "first_digit": <size_t>&_first_digit, "hold": <size_t>&_hold,
            "mirror": <size_t>&_mirror}


# Pictures: a step over and over, and libjpeg alone.

cdef extern from "queuecore/image_codecs.hpp" namespace "queuecore" nogil:
    cppclass JpegErrors:
        pass

    cppclass JpegSource:
        const unsigned char* next
        size_t left
        void (*init)(JpegDecompress*) noexcept
        int (*fill)(JpegDecompress*) noexcept
        void (*skip)(JpegDecompress*, long) noexcept
        int (*resync)(JpegDecompress*, int) noexcept
        void (*term)(JpegDecompress*) noexcept

    cppclass JpegDecompress:
        JpegErrors* errors
        JpegSource* source
        uint32_t scale_num
        uint32_t scale_denom
        uint32_t output_width
        uint32_t output_height
        int output_components
        uint32_t output_scanline

    cppclass JpegAbi:
        int version
        size_t size

    cppclass ImageCodecs:
        JpegErrors* (*jpeg_std_error)(JpegErrors*) noexcept
        void (*jpeg_create)(JpegDecompress*, int, size_t) noexcept
        int (*jpeg_read_header)(JpegDecompress*, int) noexcept
        int (*jpeg_start)(JpegDecompress*) noexcept
        uint32_t (*jpeg_read)(JpegDecompress*, unsigned char**, uint32_t) noexcept
        int (*jpeg_finish)(JpegDecompress*) noexcept
        void (*jpeg_destroy)(JpegDecompress*) noexcept
        int (*jpeg_resync)(JpegDecompress*, int) noexcept
        void (*jpeg_crop)(JpegDecompress*, uint32_t*, uint32_t*) noexcept
        uint32_t (*jpeg_skip_rows)(JpegDecompress*, uint32_t) noexcept
        JpegAbi abi

    void jpeg_nothing(JpegDecompress*) noexcept
    void jpeg_skip(JpegDecompress*, long) noexcept

cdef enum:
    JPEG_LINES = 16


cdef int _no_more(JpegDecompress* own) noexcept nogil:
    return 0


# A part of a picture, and by how much its sides are divided.
cdef struct JpegPart:
    uint32_t top, left, height, width, by


cdef int64_t _jpeg_alone(const ImageCodecs* codecs, const unsigned char* data, int64_t nbytes, const JpegPart* part,
                         unsigned char* into) noexcept nogil:
    # As a program of its own would: no limit, no way back from an error. `part`: NULL is all of the picture.
    cdef JpegErrors errors
    cdef JpegSource source
    cdef JpegDecompress jpeg
    cdef (unsigned char*)[JPEG_LINES] rows
    cdef int64_t row_bytes
    cdef uint32_t left, width, top = 0, bottom
    cdef int i
    jpeg.errors = codecs.jpeg_std_error(&errors)
    codecs.jpeg_create(&jpeg, codecs.abi.version, codecs.abi.size)
    source.next = data
    source.left = <size_t>nbytes
    source.init = source.term = jpeg_nothing
    source.fill = _no_more
    source.skip = jpeg_skip
    source.resync = codecs.jpeg_resync
    jpeg.source = &source
    codecs.jpeg_read_header(&jpeg, 1)
    if part != NULL:
        jpeg.scale_num, jpeg.scale_denom = 1, part.by
    codecs.jpeg_start(&jpeg)
    bottom = jpeg.output_height
    if part != NULL:
        left = part.left // part.by
        width = (part.left + part.width + part.by - 1) // part.by - left
        codecs.jpeg_crop(&jpeg, &left, &width)
        top = part.top // part.by
        bottom = (part.top + part.height + part.by - 1) // part.by
        codecs.jpeg_skip_rows(&jpeg, top)
    row_bytes = <int64_t>jpeg.output_width * jpeg.output_components
    while jpeg.output_scanline < bottom:
        for i in range(JPEG_LINES):
            rows[i] = into + (jpeg.output_scanline - top + i) * row_bytes
        left = bottom - jpeg.output_scanline
        if codecs.jpeg_read(&jpeg, rows, left if left < <uint32_t>JPEG_LINES else JPEG_LINES) == 0:
            break
    if part == NULL:
        codecs.jpeg_finish(&jpeg)
    codecs.jpeg_destroy(&jpeg)
    return row_bytes * (bottom - top)


def decode_pictures(list files, Step step=None, list parts=None):
    """Decode files one after the other, by a step, or, without one, by libjpeg alone, which trusts them.

    Parameters
    ----------
    parts : list of tuple of int, optional
        For libjpeg alone, of each file: top, left, height and width of the part that is decoded, and by how much its
        sides are divided. Default: all of it.

    Returns
    -------
    tuple
        Nanoseconds, and the bytes of the last picture.
    """
    cdef const ImageCodecs* codecs = <const ImageCodecs*>images_codecs()
    cdef Py_ssize_t n = len(files), i
    cdef const unsigned char** data = <const unsigned char**>calloc(n + 1, sizeof(void*))
    cdef int64_t* sizes = <int64_t*>calloc(n + 1, sizeof(int64_t))
    cdef JpegPart* boxes = <JpegPart*>calloc(n + 1, sizeof(JpegPart))
    cdef const JpegPart* part = NULL
    cdef bint is_whole = parts is None
    cdef Cell[2] cells
    cdef Arena arena
    cdef Fault fault
    cdef unsigned char* place = NULL
    cdef int64_t room = 0, begin_ns, span_ns, nbytes = 0
    cdef int rc = 0
    memset(cells, 0, sizeof(cells))
    arena_init(&arena)
    if data == NULL or sizes == NULL or boxes == NULL:
        raise MemoryError
    for i in range(0 if parts is None else n):
        boxes[i].top, boxes[i].left, boxes[i].height, boxes[i].width, boxes[i].by = parts[i]
    for i in range(n):
        data[i] = <const unsigned char*><const char*>files[i]
        sizes[i] = len(files[i])
    if step is None:
        from PIL import Image
        import io
        for file in files:
            with Image.open(io.BytesIO(file)) as picture:
                room = max(room, 3 * picture.width * picture.height)
    try:
        with nogil:
            begin_ns = monotonic_ns()
            for i in range(n):
                arena_reset(&arena)
                arena.element = i
                if step is None:
                    place = <unsigned char*>arena_take(&arena, <size_t>room)
                    if not is_whole:
                        part = &boxes[i]
                    nbytes = _jpeg_alone(codecs, data[i], sizes[i], part, place)
                else:
                    cells[0].data = <unsigned char*>data[i]
                    cells[0].nbytes = sizes[i]
                    cells[1].data = NULL
                    rc = step.run(step.params, &cells[0], &cells[1], &arena, &fault)
                    if rc != 0:
                        break
                    place = cells[1].data
                    nbytes = cells[1].nbytes
            span_ns = monotonic_ns() - begin_ns
        if rc != 0:
            raise step.explain(&fault)
        return span_ns, (<const char*>place)[:nbytes]
    finally:
        arena_free(&arena)
        free(data)
        free(sizes)
        free(boxes)


# Chains

def run_chain(int dtype, bint widest, links, const unsigned char[::1] items not None, float[::1] outputs not None):
    """Run the loop of a chain: `links` are kinds and constants, `items` the bytes of as many items as are made."""
    cdef ChainLink all_links[16]
    cdef ChainFn run = chain_fn(dtype, widest)
    cdef int32_t count = 0
    for kind, constant in links[:16]:
        all_links[count].kind = kind
        all_links[count].constant = constant
        count += 1
    if outputs.shape[0] == 0 or run == NULL:
        raise ValueError("nothing to make, or no such chain")
    run(&items[0], &outputs[0], outputs.shape[0], all_links, count)
