# JPEG, PNG, WebP and BMP pictures, decoded without the GIL: by libjpeg, libpng and libwebp, which are found at run
# time, and BMP by ourselves.
#
# A step is like any other: immutable, callable from any number of threads, and it waits for nothing. Each call makes a
# decoder of its own and frees it: one picture's tables and profiles can't reach the next picture. Before the first
# native use of a format some Python thread has called library() for it (queuecore._ops.decode_images does).
from libc.stddef cimport size_t
from libc.stdint cimport int32_t, int64_t, uint32_t
from queuecore._core.atoms.platform cimport Fault
from queuecore._core.steps.stages cimport Arena, Step

cdef extern from "queuecore/image_codecs.hpp" namespace "queuecore" nogil:
    struct JpegErrors:
        int code
        const char** messages
        int last_message

    struct JpegDecompress:
        uint32_t image_width
        uint32_t image_height
        int components
        int file_colours
        int out_colours
        uint32_t scale_num
        uint32_t scale_denom
        int dct_method
        int fancy_upsampling

    struct JpegReader:
        JpegErrors errors
        JpegDecompress own

    struct PngReader:
        uint32_t width
        uint32_t height
        int depth
        int channels

cdef enum:
    PICTURE_JPEG = 1
    PICTURE_PNG = 2
    PICTURE_GIF = 3
    PICTURE_BMP = 4
    PICTURE_WEBP = 5

cdef enum:
    NUMBER_UINT8 = 0
    NUMBER_UINT16 = 1
    NUMBER_FLOAT32 = 2

cdef enum:
    WHAT_OF_CODECS = 32       # a decoder's faults are below

cdef struct DecodeParams:
    int32_t kinds             # bit k: the operation takes kind k
    int32_t native            # bit k: native code can decode kind k
    int32_t channels          # channels wanted; 0: those of the picture
    int32_t number
    int32_t ratio             # for JPEG, like the next three
    int32_t fancy
    int32_t dct
    int32_t recover
    int32_t oriented          # of every kind that has EXIF: pictures are turned as it says
    int64_t max_pixels

# A picture whose header has been read.
cdef struct Decoder:
    int32_t kind
    int32_t channels          # of the result
    int32_t depth             # bits of a sample, before conversion to the result's
    int32_t orientation       # EXIF's: what is done to the stored pixels; 1: nothing
    int64_t height
    int64_t width
    # of WebP
    const unsigned char* data
    size_t nbytes
    # of BMP
    const unsigned char* rows
    int64_t row_bytes
    int32_t pixel_bytes
    bint top_down
    JpegReader jpeg
    PngReader png

# A part of a picture: rows and columns from `top` and `left` on.
cdef struct PictureBox:
    int64_t top, left, height, width

# Reads a header; after it, whatever it returned, decoder_close. Sizes are those of the result, within max_pixels.
cdef int decoder_open(const DecodeParams* setup, const unsigned char* data, int64_t nbytes, Decoder* decoder,
                      Fault* fault) noexcept nogil
# Lets height and width be divided by 2, 4 or 8; returns False if that can't be done.
cdef bint decoder_divide(Decoder* decoder, int32_t by) noexcept nogil
# Decodes bytes, of which a part is needed, to memory of the arena. `box` becomes what is there: as much or more. Rows
# lie box.width * channels bytes apart. NULL: a fault.
cdef unsigned char* decoder_part(Decoder* decoder, PictureBox* box, Arena* arena, Fault* fault) noexcept nogil
cdef void decoder_close(Decoder* decoder) noexcept nogil

cdef class PictureStep(Step):
    cdef DecodeParams setup
    cdef str label

# The functions of the libraries: an ImageCodecs of image_codecs.hpp.
cdef const void* images_codecs() noexcept nogil
