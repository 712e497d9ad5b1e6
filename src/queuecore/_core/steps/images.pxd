# JPEG, PNG and BMP pictures, decoded without the GIL: by libjpeg and libpng, which are found at run time, and BMP by
# ourselves.
#
# A step is like any other: immutable, callable from any number of threads, and it waits for nothing. Each call makes a
# decoder of its own and frees it: one picture's tables and profiles can't reach the next picture. Before the first
# native use of a format some Python thread has called library() for it (queuecore._ops.decode_images does).
cdef enum:
    PICTURE_JPEG = 1
    PICTURE_PNG = 2
    PICTURE_GIF = 3
    PICTURE_BMP = 4

# The functions of both libraries: an ImageCodecs of image_codecs.hpp.
cdef const void* images_codecs() noexcept nogil
