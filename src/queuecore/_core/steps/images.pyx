"""Pictures: finding libjpeg, libpng and libwebp, and the step of ``decode_image`` and its kin."""
cimport cython
from libc.stddef cimport size_t
from libc.stdint cimport int32_t, int64_t, uint32_t
from libc.string cimport memcmp, memcpy, memset
from queuecore._core.atoms.errors cimport (
    CODE_DECODE, CODE_EXHAUSTED, CODE_INVALID_ARGUMENT, CODE_UNIMPLEMENTED, new_error)
from queuecore._core.atoms.process cimport check_layout
from queuecore._core.atoms.platform cimport Fault, layout_hash, syscalls
from queuecore._core.steps.stages cimport (
    Arena, ArenaMark, Cell, Step, arena_mark, arena_output, arena_release, arena_take)

import importlib.util
import pathlib
import re
import threading


cdef extern from "queuecore/image_codecs.hpp" namespace "queuecore" nogil:
    const int kJpegGrey
    const int kJpegRgb
    const int kJpegCmyk
    const int kJpegYcck
    const int kImageDone
    const int kImageCut
    const int kImageDamaged
    const int kImageNoMemory
    const int kImageScans

    cppclass ImageCodecs:
        JpegErrors* (*jpeg_std_error)(JpegErrors*) noexcept

    struct WebpFeatures:
        int width
        int height
        int has_alpha
        int has_animation

    ImageCodecs image_codecs
    bint jpeg_take(void*) noexcept
    bint png_take(void*) noexcept
    bint webp_take(void*) noexcept
    bint jpeg_agree(JpegReader*) noexcept
    int jpeg_open(JpegReader*, const unsigned char*, size_t, int) noexcept
    int jpeg_begin(JpegReader*, uint32_t* left, uint32_t* width) noexcept
    int jpeg_rows(JpegReader*, uint32_t begin, uint32_t end, unsigned char*, size_t, unsigned char*) noexcept
    int jpeg_end(JpegReader*) noexcept
    void jpeg_close(JpegReader*) noexcept
    int png_open(PngReader*, const unsigned char*, size_t) noexcept
    int png_picture(PngReader*, int, int, unsigned char*, size_t) noexcept
    void png_close(PngReader*) noexcept
    int webp_open(const unsigned char*, size_t, WebpFeatures*) noexcept
    int webp_picture(const unsigned char*, size_t, int channels, int64_t height, int64_t row_bytes,
                     unsigned char*) noexcept
    void widen_to_16(unsigned char*, int64_t, bint) noexcept
    void widen_to_float(unsigned char*, int64_t, bint, int) noexcept

cdef extern from "queuecore/kernels/pixels.hpp" namespace "queuecore" nogil:
    void orient_pixels(const unsigned char* stored, int64_t height, int64_t width, int64_t pixel, int orientation,
                       unsigned char* target) noexcept

ctypedef const unsigned char* bytes_in

check_layout(layout_hash())

_HOLES = re.compile("%[0-9.]*l*[a-z]")


# ---- finding the libraries
# ------------------------------------------------------------------------------------------------------------

_NAMES = {PICTURE_JPEG: "JPEG", PICTURE_PNG: "PNG", PICTURE_GIF: "GIF", PICTURE_BMP: "BMP", PICTURE_WEBP: "WebP"}
# Names of the system's libraries, and of those in a wheel of Pillow.
_LIBRARIES = {
    PICTURE_JPEG: (["libjpeg.so.62", "libjpeg.so.8"], "libjpeg-*.so*"),
    PICTURE_PNG: (["libpng16.so.16"], "libpng16-*.so*"),
    PICTURE_WEBP: (["libwebp.so.7"], "libwebp-*.so*"),
}


def _candidates(int kind):
    # Returns the names of the system's libraries, then of those in a wheel of Pillow.
    names, in_wheel = _LIBRARIES[kind]
    names = list(names)
    try:
        spec = importlib.util.find_spec("PIL")
    except (ImportError, ValueError):
        spec = None
    if spec is not None and spec.origin is not None:
        folder = pathlib.Path(spec.origin).parents[1] / "pillow.libs"
        names += sorted(map(str, folder.glob(in_wheel)))
    return names


_lock = threading.Lock()
_found = {}  # kind: the name that its library was opened by, or None

cdef bint _jpeg_agrees() except -1:
    # We and the library both use the front of its struct. Decodes a picture with a known answer to check that both mean
    # the same: 9 x 3 pixels in two blocks that hold only their means.
    cdef bytes sample = (
        b"\xff\xd8\xff\xdb\0\x43\0" + b"\x08" * 64 + bytes.fromhex(
            "ffc0000b080003000901011100"
            "ffc400140001000000000000000000000000000000 03"
            "ffc40014100100000000000000000000000000000000"
            "ffda0008010100003f00513fffd9"))
    cdef JpegReader reader
    cdef unsigned char[3 * 9 * 3] pixels
    cdef uint32_t left = 0, width = 9
    cdef int rc
    memset(pixels, 0, sizeof(pixels))
    if not jpeg_agree(&reader):
        return False
    rc = jpeg_open(&reader, <const unsigned char*><const char*>sample, len(sample), 0)
    if (rc == kImageDone and reader.own.image_width == 9 and reader.own.image_height == 3
        and reader.own.file_colours == kJpegGrey):
        reader.own.out_colours = kJpegRgb
        rc = jpeg_begin(&reader, &left, &width)
        if rc == kImageDone:
            rc = jpeg_rows(&reader, 0, 3, pixels, 27, NULL)
        if rc == kImageDone:
            rc = jpeg_end(&reader)
    jpeg_close(&reader)
    return rc == kImageDone and (<const char*>pixels)[:81] == (b"\x85" * 24 + b"\x80" * 3) * 3


def library(int kind):
    """Return the name of the library that decodes a kind of picture, or None if there is none.

    Looks for it at the first call.
    """
    cdef void* handle
    cdef bint is_usable
    with _lock:
        if kind not in _found:
            _found[kind] = None
            for name in _candidates(kind):
                handle = syscalls().library(name.encode())
                if handle == NULL:
                    continue
                if kind == PICTURE_JPEG:
                    is_usable = jpeg_take(handle) and _jpeg_agrees()
                else:
                    is_usable = png_take(handle) if kind == PICTURE_PNG else webp_take(handle)
                if is_usable:
                    _found[kind] = name
                    break
                syscalls().library_close(handle)
        return _found[kind]


cdef const void* images_codecs() noexcept nogil:
    return &image_codecs


# ---- orientation
# ----------------------------------------------------------------------------------------------------------------------

cdef enum:
    ORIENTATION_TAG = 0x0112
    OF_16_BITS = 3       # the tag's type


cdef inline int64_t _number(const unsigned char* p, int32_t nbytes, bint big) noexcept nogil:
    # Returns a number without a sign, of which the most significant byte comes first if it is big.
    cdef int64_t value = 0
    cdef int32_t i
    for i in range(nbytes):
        value |= <int64_t>p[i] << 8 * (nbytes - 1 - i if big else i)
    return value


cdef int32_t _orientation(const unsigned char* exif, int64_t nbytes) noexcept nogil:
    # Returns what EXIF says: a header, then at its offset a list of entries of 12 bytes. 1 if it says nothing that can
    # be understood.
    cdef int64_t position, count, i, value
    cdef const unsigned char* entry
    cdef bint big
    if nbytes >= 6 and memcmp(exif, b"Exif\0\0", 6) == 0:  # some WebP files have it too
        exif += 6
        nbytes -= 6
    if nbytes < 10 or (memcmp(exif, b"II*\0", 4) != 0 and memcmp(exif, b"MM\0*", 4) != 0):
        return 1
    big = exif[0] == c"M"
    position = _number(exif + 4, 4, big)
    if position > nbytes - 2:
        return 1
    count = min(_number(exif + position, 2, big), (nbytes - position - 2) // 12)
    for i in range(count):
        entry = exif + position + 2 + 12 * i
        if _number(entry, 2, big) == ORIENTATION_TAG:
            value = _number(entry + 8, 2, big)
            return <int32_t>value if _number(entry + 2, 2, big) == OF_16_BITS and 1 <= value <= 8 else 1
    return 1


cdef int32_t _jpeg_orientation(const unsigned char* data, int64_t nbytes) noexcept nogil:
    # Of the first segment with EXIF before the scans.
    cdef int64_t position = 2, size
    cdef unsigned char marker
    while position + 4 <= nbytes and data[position] == 0xff:
        marker = data[position + 1]
        if marker == 0xff:  # it fills
            position += 1
            continue
        if marker == 0x01 or 0xd0 <= marker <= 0xd8:  # no bytes follow
            position += 2
            continue
        size = _number(data + position + 2, 2, True)
        if marker == 0xd9 or marker == 0xda or size < 2 or size > nbytes - position - 2:
            break
        if marker == 0xe1 and size >= 8 and memcmp(data + position + 4, b"Exif\0\0", 6) == 0:
            return _orientation(data + position + 4, size - 2)
        position += 2 + size
    return 1


cdef int32_t _chunk_orientation(const unsigned char* data, int64_t nbytes, int32_t kind) noexcept nogil:
    # PNG: size, name, bytes, checksum. WebP: name, size, bytes, up to an even number.
    cdef bint png = kind == PICTURE_PNG
    cdef int64_t position = 8 if png else 12, size
    while position + 8 <= nbytes:
        size = _number(data + position + (0 if png else 4), 4, png)
        if size > nbytes - position - 8:
            break
        if memcmp(data + position + (4 if png else 0), b"eXIf" if png else b"EXIF", 4) == 0:
            return _orientation(data + position + 8, size)
        position += size + 12 if png else 8 + size + (size & 1)
    return 1


# ---- one picture
# ----------------------------------------------------------------------------------------------------------------------

cdef enum:
    WHAT_EMPTY = 1
    WHAT_UNKNOWN = 2      # an unknown format
    WHAT_KIND = 3         # a: kind that the operation doesn't take
    WHAT_CHANNELS = 4     # a: kind
    WHAT_CUT = 5          # a: kind
    WHAT_DAMAGED = 6      # a: kind, from bit 8 on the number of libjpeg's message
    WHAT_PIXELS = 7       # a: width, from bit 32 on height
    WHAT_UNEQUAL = 8      # a: as before
    WHAT_NO_MEMORY = 9
    WHAT_NO_LIBRARY = 10  # a: kind
    WHAT_SCANS = 11
    WHAT_BITMAP = 12      # a: bits of a pixel
    WHAT_COMPRESSED = 13  # a: how
    WHAT_OFFSET = 14      # a: where the pixels are said to begin
    WHAT_ANIMATED = 15


cdef int _fault(Fault* fault, int what, int64_t a) noexcept nogil:
    fault.what = what
    fault.a = a
    return -1


cdef int _codec_fault(Fault* fault, int outcome, const Decoder* decoder) noexcept nogil:
    cdef int64_t code = decoder.jpeg.errors.code if decoder.kind == PICTURE_JPEG else 0
    if outcome == kImageCut:
        return _fault(fault, WHAT_CUT, decoder.kind)
    if outcome == kImageNoMemory:
        return _fault(fault, WHAT_NO_MEMORY, 0)
    if outcome == kImageScans:
        return _fault(fault, WHAT_SCANS, 0)
    return _fault(fault, WHAT_DAMAGED, decoder.kind | code << 8)


cdef inline int64_t _little(const unsigned char* p, int32_t nbytes) noexcept nogil:
    # Returns a signed number of two or four bytes.
    cdef int64_t value = 0
    cdef int32_t i
    for i in range(nbytes):
        value |= <int64_t>p[i] << 8 * i
    return value - (<int64_t>1 << 8 * nbytes if value >> (8 * nbytes - 1) else 0)


cdef int32_t _kind(const unsigned char* data, int64_t nbytes) noexcept nogil:
    if nbytes >= 3 and memcmp(data, b"\xff\xd8\xff", 3) == 0:
        return PICTURE_JPEG
    if nbytes >= 8 and memcmp(data, b"\x89PNG\r\n\x1a\n", 8) == 0:
        return PICTURE_PNG
    if nbytes >= 4 and memcmp(data, b"GIF8", 4) == 0:
        return PICTURE_GIF
    if nbytes >= 12 and memcmp(data, b"RIFF", 4) == 0 and memcmp(data + 8, b"WEBP", 4) == 0:
        return PICTURE_WEBP
    return PICTURE_BMP if nbytes >= 2 and memcmp(data, b"BM", 2) == 0 else 0


cdef int64_t _bitmap_front(const unsigned char* data, int64_t bits, int64_t how, bint colours) noexcept nogil:
    # Returns the bytes of the headers and masks of a BMP, and of the colours of its palette if they count.
    cdef int64_t header = _little(data + 14, 4), count = _little(data + 46, 4)
    cdef int64_t front = 14 + header + (12 if how == 3 and header == 40 else 0)
    if count < 0:
        count += <int64_t>1 << 32
    if bits == 8 and (count == 0 or count > 256):
        count = 256
    return front + 4 * count if colours else front


cdef int _open_bitmap(Decoder* p, const unsigned char* data, int64_t nbytes, Fault* fault) noexcept nogil:
    cdef int64_t offset, bits, compression, behind
    if nbytes < 54:
        return _fault(fault, WHAT_CUT, PICTURE_BMP)
    offset = _little(data + 10, 4)
    p.width = _little(data + 18, 4)
    p.height = _little(data + 22, 4)
    bits = _little(data + 28, 2)
    compression = _little(data + 30, 4)
    p.top_down = p.height < 0
    if p.top_down:
        p.height = -p.height
    if _little(data + 14, 4) < 40 or p.width <= 0 or p.height == 0:
        return _fault(fault, WHAT_DAMAGED, PICTURE_BMP)
    if bits != 8 and bits != 24 and bits != 32:
        return _fault(fault, WHAT_BITMAP, bits)
    # 3: with masks; only the usual masks are taken.
    if compression != 0 and not (compression == 3 and bits == 32 and nbytes >= 66 and
                         memcmp(data + 54, b"\0\0\xff\0\0\xff\0\0\xff\0\0\0", 12) == 0):
        return _fault(fault, WHAT_COMPRESSED, compression)
    if offset < _bitmap_front(data, bits, compression, False):
        return _fault(fault, WHAT_OFFSET, offset)
    p.pixel_bytes = <int32_t>(bits // 8)
    p.row_bytes = (p.width * p.pixel_bytes + 3) & ~<int64_t>3
    if offset > nbytes or p.height > (nbytes - offset) // p.row_bytes:
        return _fault(fault, WHAT_CUT, PICTURE_BMP)
    # A palette may claim more colours than it has, if the pixels then end with the file.
    behind = nbytes - offset - p.height * p.row_bytes
    if behind > 0 and offset < _bitmap_front(data, bits, compression, True):
        return _fault(fault, WHAT_OFFSET, offset)
    p.rows = data + offset
    return 0


cdef void _bitmap(const Decoder* p, unsigned char* into) noexcept nogil:
    # Bytes of one channel are greys, whatever the palette says; else blue, green, red, and perhaps alpha.
    cdef int64_t x, y
    cdef int32_t size = p.pixel_bytes, channels = p.channels
    cdef int32_t green = 0 if size == 1 else 1, red = 0 if size == 1 else 2
    cdef const unsigned char* row
    cdef const unsigned char* pixel
    for y in range(p.height):
        row = p.rows + (y if p.top_down else p.height - 1 - y) * p.row_bytes
        if channels == 1:
            memcpy(into, row, p.width)
            into += p.width
            continue
        for x in range(p.width):
            pixel = row + x * size
            into[0] = pixel[red]
            into[1] = pixel[green]
            into[2] = pixel[0]
            if channels == 4:
                into[3] = pixel[3] if size == 4 else 255
            into += channels


cdef int _open_jpeg(const DecodeParams* setup, const unsigned char* data, int64_t nbytes, Decoder* p,
                    Fault* fault) noexcept nogil:
    cdef JpegReader* jpeg = &p.jpeg
    cdef int outcome = jpeg_open(jpeg, data, <size_t>nbytes, setup.recover)
    if outcome != kImageDone:
        return _codec_fault(fault, outcome, p)
    p.width = jpeg.own.image_width
    p.height = jpeg.own.image_height
    if p.channels == 0:
        p.channels = 1 if jpeg.own.components == 1 else 3
    jpeg.own.out_colours = kJpegGrey if p.channels == 1 else kJpegRgb
    if jpeg.own.file_colours == kJpegCmyk or jpeg.own.file_colours == kJpegYcck:
        jpeg.own.out_colours = kJpegCmyk
    if p.channels == 4 or p.channels == 1 and jpeg.own.out_colours == kJpegCmyk:
        return _fault(fault, WHAT_CHANNELS, p.kind)
    jpeg.own.scale_num = 1
    jpeg.own.scale_denom = setup.ratio
    jpeg.own.dct_method = setup.dct
    jpeg.own.fancy_upsampling = setup.fancy
    return 0


cdef int _open_webp(const DecodeParams* setup, const unsigned char* data, int64_t nbytes, Decoder* p,
                    Fault* fault) noexcept nogil:
    cdef WebpFeatures features
    cdef int outcome = webp_open(data, <size_t>nbytes, &features)
    if outcome != kImageDone:
        return _codec_fault(fault, outcome, p)
    if features.has_animation:
        return _fault(fault, WHAT_ANIMATED, 0)
    if setup.channels == 1:
        return _fault(fault, WHAT_CHANNELS, p.kind)
    p.width = features.width
    p.height = features.height
    p.data = data
    p.nbytes = <size_t>nbytes
    if p.channels == 0:
        p.channels = 4 if features.has_alpha else 3
    return 0


cdef int decoder_open(const DecodeParams* setup, const unsigned char* data, int64_t nbytes, Decoder* decoder,
                      Fault* fault) noexcept nogil:
    cdef Decoder* p = decoder
    cdef int outcome = kImageDone
    cdef int32_t kind = _kind(data, nbytes)
    p.kind = 0
    p.depth = 8
    p.orientation = 1
    p.channels = setup.channels
    if kind == 0:
        return _fault(fault, WHAT_EMPTY if nbytes == 0 else WHAT_UNKNOWN, 0)
    if not setup.kinds & 1 << kind:
        return _fault(fault, WHAT_KIND, kind)
    if not setup.native & 1 << kind:
        return _fault(fault, WHAT_NO_LIBRARY, kind)
    p.kind = kind
    if p.kind == PICTURE_JPEG:
        if _open_jpeg(setup, data, nbytes, p, fault) != 0:
            return -1
    elif p.kind == PICTURE_PNG:
        outcome = png_open(&p.png, data, <size_t>nbytes)
        if outcome != kImageDone:
            return _codec_fault(fault, outcome, p)
        p.width = p.png.width
        p.height = p.png.height
        if p.channels == 0:
            p.channels = p.png.channels
        if p.png.depth == 16 and setup.number != NUMBER_UINT8:
            p.depth = 16
    elif p.kind == PICTURE_WEBP:
        if _open_webp(setup, data, nbytes, p, fault) != 0:
            return -1
    else:
        outcome = _open_bitmap(p, data, nbytes, fault)
        if outcome != 0:
            return outcome
        if p.channels == 0:
            p.channels = p.pixel_bytes
        if p.channels == 1 and p.pixel_bytes != 1 or setup.channels == 1:
            return _fault(fault, WHAT_CHANNELS, p.kind)
    if p.width > setup.max_pixels // p.height:
        return _fault(fault, WHAT_PIXELS, p.width | p.height << 32)
    if p.kind == PICTURE_JPEG and setup.ratio > 1:
        p.width = (p.width + setup.ratio - 1) // setup.ratio
        p.height = (p.height + setup.ratio - 1) // setup.ratio
    if setup.oriented and p.kind != PICTURE_BMP:
        p.orientation = (_jpeg_orientation(data, nbytes) if p.kind == PICTURE_JPEG
                         else _chunk_orientation(data, nbytes, p.kind))
        _swap_sides(p)
    return 0


cdef void _swap_sides(Decoder* p) noexcept nogil:
    # From the stored pixels' sides to the result's, or back.
    if p.orientation >= 5:
        p.width, p.height = p.height, p.width


cdef bint decoder_divide(Decoder* decoder, int32_t by) noexcept nogil:
    if decoder.kind != PICTURE_JPEG or decoder.jpeg.own.scale_denom != 1:
        return False
    # Else the pixels of the mirrored picture would lie between those of the other one.
    if decoder.orientation > 1 and (decoder.width % by != 0 or decoder.height % by != 0):
        return False
    decoder.jpeg.own.scale_denom = by
    decoder.width = (decoder.width + by - 1) // by
    decoder.height = (decoder.height + by - 1) // by
    return True


cdef int _read_jpeg(Decoder* p, uint32_t top, uint32_t bottom, unsigned char* into, int64_t row_bytes, Arena* arena,
                    Fault* fault) noexcept nogil:
    # Reads rows of a JPEG that has begun.
    cdef int64_t row_room = 4 * p.width
    cdef unsigned char* row = NULL
    cdef int outcome
    if p.jpeg.own.out_colours == kJpegCmyk:
        row = <unsigned char*>arena_take(arena, row_room)
        if row == NULL:
            return _fault(fault, WHAT_NO_MEMORY, row_room)
    outcome = jpeg_rows(&p.jpeg, top, bottom, into, <size_t>row_bytes, row)
    if outcome == kImageDone:
        outcome = jpeg_end(&p.jpeg)
    return 0 if outcome == kImageDone else _codec_fault(fault, outcome, p)


cdef int _decode(const DecodeParams* setup, Decoder* p, unsigned char* into, Arena* arena, Fault* fault) noexcept nogil:
    cdef int64_t pixel = p.channels * (1 if setup.number == NUMBER_UINT8 else 2 if setup.number == NUMBER_UINT16 else 4)
    cdef ArenaMark mark = arena_mark(arena)
    cdef unsigned char* stored
    if p.orientation == 1:
        return _decode_stored(setup, p, into, arena, fault)
    _swap_sides(p)
    stored = <unsigned char*>arena_take(arena, <size_t>(p.width * p.height * pixel))
    if stored == NULL:
        return _fault(fault, WHAT_NO_MEMORY, p.width * p.height * pixel)
    if _decode_stored(setup, p, stored, arena, fault) != 0:
        return -1
    orient_pixels(stored, p.height, p.width, pixel, p.orientation, into)
    arena_release(arena, mark)
    return 0


cdef int _decode_stored(const DecodeParams* setup, Decoder* p, unsigned char* into, Arena* arena,
                        Fault* fault) noexcept nogil:
    cdef int64_t count = p.width * p.height * p.channels
    cdef int64_t row_bytes = p.width * p.channels * (p.depth // 8)
    cdef uint32_t left = 0, width = <uint32_t>p.width
    cdef int outcome = kImageDone
    if p.kind == PICTURE_JPEG:
        outcome = jpeg_begin(&p.jpeg, &left, &width)
        if outcome == kImageDone and _read_jpeg(p, 0, <uint32_t>p.height, into, row_bytes, arena, fault) != 0:
            return -1
    elif p.kind == PICTURE_PNG:
        outcome = png_picture(&p.png, p.channels, p.depth, into, <size_t>row_bytes)
    elif p.kind == PICTURE_WEBP:
        outcome = webp_picture(p.data, p.nbytes, p.channels, p.height, row_bytes, into)
    else:
        _bitmap(p, into)
    if outcome != kImageDone:
        return _codec_fault(fault, outcome, p)
    if setup.number == NUMBER_UINT16 and p.depth == 8:
        widen_to_16(into, count, p.kind == PICTURE_PNG)
    elif setup.number == NUMBER_FLOAT32:
        widen_to_float(into, count, p.kind == PICTURE_PNG, p.depth)
    return 0


cdef unsigned char* decoder_part(Decoder* decoder, PictureBox* box, Arena* arena, Fault* fault) noexcept nogil:
    cdef PictureBox picture
    cdef ArenaMark mark
    cdef unsigned char* pixels
    cdef unsigned char* stored
    cdef int64_t nbytes = decoder.height * decoder.width * decoder.channels
    if decoder.orientation == 1:
        return _stored_part(decoder, box, arena, fault)
    box.top = box.left = picture.top = picture.left = 0
    box.height = decoder.height
    box.width = decoder.width
    pixels = <unsigned char*>arena_take(arena, <size_t>nbytes)
    if pixels == NULL:
        _fault(fault, WHAT_NO_MEMORY, nbytes)
        return NULL
    mark = arena_mark(arena)
    _swap_sides(decoder)
    picture.height = decoder.height
    picture.width = decoder.width
    stored = _stored_part(decoder, &picture, arena, fault)
    if stored == NULL:
        return NULL
    orient_pixels(stored, decoder.height, decoder.width, decoder.channels, decoder.orientation, pixels)
    arena_release(arena, mark)
    return pixels


cdef unsigned char* _stored_part(Decoder* decoder, PictureBox* box, Arena* arena, Fault* fault) noexcept nogil:
    cdef uint32_t left = <uint32_t>box.left, width = <uint32_t>box.width
    cdef int64_t row_bytes, nbytes
    cdef unsigned char* pixels
    cdef int outcome = kImageDone
    if decoder.kind == PICTURE_JPEG:
        outcome = jpeg_begin(&decoder.jpeg, &left, &width)
        if outcome != kImageDone:
            _codec_fault(fault, outcome, decoder)
            return NULL
    else:
        box.top = left = 0
        box.height = decoder.height
        width = <uint32_t>decoder.width
    box.left = left
    box.width = width
    row_bytes = box.width * decoder.channels
    nbytes = box.height * row_bytes
    pixels = <unsigned char*>arena_take(arena, <size_t>nbytes)
    if pixels == NULL:
        _fault(fault, WHAT_NO_MEMORY, nbytes)
        return NULL
    if decoder.kind == PICTURE_JPEG:
        if _read_jpeg(decoder, <uint32_t>box.top, <uint32_t>(box.top + box.height), pixels, row_bytes, arena,
                      fault) != 0:
            return NULL
    elif decoder.kind == PICTURE_PNG:
        outcome = png_picture(&decoder.png, decoder.channels, 8, pixels, <size_t>row_bytes)
    elif decoder.kind == PICTURE_WEBP:
        outcome = webp_picture(decoder.data, decoder.nbytes, decoder.channels, decoder.height, row_bytes, pixels)
    else:
        _bitmap(decoder, pixels)
    if outcome != kImageDone:
        _codec_fault(fault, outcome, decoder)
        return NULL
    return pixels


cdef void decoder_close(Decoder* decoder) noexcept nogil:
    if decoder.kind == PICTURE_JPEG:
        jpeg_close(&decoder.jpeg)
    elif decoder.kind == PICTURE_PNG:
        png_close(&decoder.png)


# ---- the step
# ----------------------------------------------------------------------------------------------------------------------

@cython.final
cdef class PictureStep(Step):
    """Encoded pictures as arrays.

    Parameters
    ----------
    inputs, outputs : tuple of Component
        One of strings; one of [..., height, width, channels].
    label : str
        The operation, for errors.
    kinds : int
        Bit k: it takes kind k.
    channels : int
        0: those of the picture.
    number : int
        0: uint8; 1: uint16; 2: float32.
    how : tuple of int
        Of JPEG: ratio, whether colours are smoothed, the method of the inverse transform, whether a cut picture is
        completed. Of all kinds: whether pictures are turned as their EXIF data says.
    max_pixels : int
        Of one picture.
    """
    def __init__(self, tuple inputs, tuple outputs, str label, int32_t kinds, int32_t channels, int32_t number,
                 tuple details, int64_t max_pixels):
        if self.params != NULL:
            raise TypeError("a step can't be initialised twice")
        self.inputs = inputs
        self.outputs = outputs
        self.label = label
        self.setup.kinds = kinds
        self.setup.native = 1 << PICTURE_BMP
        for kind in _LIBRARIES:
            if kinds & 1 << kind and library(kind) is not None:
                self.setup.native |= 1 << kind
        self.setup.channels = channels
        self.setup.number = number
        self.setup.ratio, self.setup.fancy, self.setup.dct, self.setup.recover, self.setup.oriented = details
        self.setup.max_pixels = max_pixels
        self.params = &self.setup
        self.run = _run_pictures

    def measure(self, bytes data not None, int64_t index=-1):
        """Return height, width and channels of a picture, by its header; `index` is its number in a batch."""
        cdef Decoder p
        cdef Fault fault
        cdef const unsigned char* source = data
        cdef int64_t nbytes = len(data)
        cdef int rc
        memset(&fault, 0, sizeof(Fault))
        with nogil:
            rc = decoder_open(&self.setup, source, nbytes, &p, &fault)
            decoder_close(&p)
        if rc != 0:
            fault.b = index
            raise self.explain(&fault)
        return p.height, p.width, p.channels

    cdef object explain(self, const Fault* fault):
        cdef int reason = fault.what
        cdef int64_t a = fault.a, b = fault.b
        which = self.label if b < 0 else f"{self.label}: picture {b} of the batch"
        name = _NAMES.get(a & 255)
        size = f"{a & 0xffffffff} x {a >> 32}"
        if reason == WHAT_NO_MEMORY:
            return new_error(CODE_EXHAUSTED, f"{which}: no memory" + (f" for {a} bytes" if a else ""))
        if reason == WHAT_NO_LIBRARY:
            return new_error(CODE_UNIMPLEMENTED, f"{which}: {missing(a)}")
        if reason == WHAT_UNEQUAL:
            return new_error(CODE_INVALID_ARGUMENT,
                f"{which} is of {size} pixels or has other channels than the first: pictures of a batch must be equal "
                "in shape")
        if reason == WHAT_CHANNELS:
            return new_error(CODE_INVALID_ARGUMENT,
                             f"{which}: such a {name} picture can't be decoded with {self.setup.channels} channels")
        if reason == WHAT_EMPTY:
            text = "the input is empty"
        elif reason == WHAT_UNKNOWN:
            text = "the input is neither JPEG, PNG, GIF, BMP nor WebP"
        elif reason == WHAT_KIND:
            text = f"the input is {name}, which decode_image takes"
        elif reason == WHAT_CUT:
            text = f"the {name} picture is cut: it ends too early"
        elif reason == WHAT_PIXELS:
            text = f"the picture is of {size} pixels, more than max_pixels={self.setup.max_pixels}"
        elif reason == WHAT_ANIMATED:
            text = "the WebP picture is animated"
        elif reason == WHAT_SCANS:
            text = "the JPEG picture has too many scans"
        elif reason == WHAT_BITMAP:
            text = f"BMP with {a} bits a pixel; there must be 8, 24 or 32"
        elif reason == WHAT_COMPRESSED:
            text = f"BMP with compression {a}"
        elif reason == WHAT_OFFSET:
            text = f"the BMP picture is damaged: its pixels can't begin at byte {a}, before its headers and palette end"
        else:
            text = f"the {name} picture is damaged"
            message = _jpeg_message(a >> 8) if a & 255 == PICTURE_JPEG else None
            if message:
                text += f": {message}"
        return new_error(CODE_DECODE, f"{which}: {text}")


def missing(int kind):
    """Return what to say where nothing native decodes a kind of picture."""
    if kind == PICTURE_GIF:
        return "GIF is decoded in Python only: call decode_gif or decode_image on the bytes"
    return f"no library for {_NAMES[kind]} is found. pip install 'queuecore[images]' brings one"


def _jpeg_message(int64_t code):
    # Returns libjpeg's text, without the numbers that would be filled in.
    cdef JpegErrors errors
    image_codecs.jpeg_std_error(&errors)
    if not 0 < code <= errors.last_message or errors.messages[code] == NULL:
        return None
    return _HOLES.sub("..", errors.messages[code].decode("ascii", "replace"))


cdef int _run_pictures(const void* params, const Cell* inputs, Cell* outputs, Arena* arena,
                       Fault* fault) noexcept nogil:
    cdef const DecodeParams* setup = <const DecodeParams*>params
    cdef const Cell* cell = &inputs[0]
    cdef Cell* out = &outputs[0]
    cdef Decoder p
    cdef bytes_in source = cell.data
    cdef int64_t n = 1, i, nbytes = cell.nbytes, picture_bytes = 0, height = 0, width = 0
    cdef int64_t item = 1 if setup.number == NUMBER_UINT8 else 2 if setup.number == NUMBER_UINT16 else 4
    cdef int32_t channels = setup.channels
    cdef int rc
    for i in range(cell.ndim):
        n *= cell.dims[i]
    for i in range(n):
        fault.b = i if cell.ndim > 0 else -1
        if cell.ndim > 0:
            source = cell.data + cell.offsets[i]
            nbytes = cell.offsets[i + 1] - cell.offsets[i]
        rc = decoder_open(setup, source, nbytes, &p, fault)
        if rc == 0 and i == 0:
            height = p.height
            width = p.width
            channels = p.channels
            picture_bytes = height * width * channels * item
            if out.data == NULL or out.nbytes != n * picture_bytes:
                out.data = arena_output(arena, out, n * picture_bytes)
                if out.data == NULL:
                    rc = _fault(fault, WHAT_NO_MEMORY, picture_bytes)
        elif rc == 0 and (p.height != height or p.width != width or p.channels != channels):
            rc = _fault(fault, WHAT_UNEQUAL, p.width | p.height << 32)
        if rc == 0:
            rc = _decode(setup, &p, out.data + i * picture_bytes, arena, fault)
        decoder_close(&p)
        if rc != 0:
            return rc
    if n == 0 and out.data == NULL:
        out.data = arena_output(arena, out, 0)
    out.nbytes = n * picture_bytes
    out.offsets = NULL
    out.ndim = cell.ndim + 3
    memcpy(out.dims, cell.dims, cell.ndim * sizeof(int64_t))
    out.dims[cell.ndim] = height
    out.dims[cell.ndim + 1] = width
    out.dims[cell.ndim + 2] = channels
    return 0
