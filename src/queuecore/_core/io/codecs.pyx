"""The libraries that decompress: finding them, and running them without the GIL. See codecs.pxd for the contract."""
from libc.stddef cimport size_t
from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t, uintptr_t
from libc.string cimport memset, strcmp, strncmp
from queuecore._core.atoms.memory cimport free, malloc
from queuecore._core.atoms.process cimport check_layout
from queuecore._core.atoms.errors cimport (
    WHAT_CHECK, WHAT_DAMAGED, WHAT_DICTIONARY, WHAT_INFLATE_MEMORY, WHAT_NO_HEADER, WHAT_TRAILING, WHAT_WINDOW)
from queuecore._core.atoms.platform cimport layout_hash, syscalls

import importlib.util
import threading


cdef extern from "dlfcn.h" nogil:
    void* dlsym(void*, const char*)

cdef extern from "queuecore/codecs.hpp" namespace "queuecore" nogil:
    const int kZStreamEnd
    const int kZNeedDict
    const int kZBufError
    const int kZMemError
    const int kZngStreamBytes
    const uint32_t kIsalFinished
    const uint32_t kIsalGzipBody
    const uint32_t kIsalZlib
    const int kIsalNeedDict
    const int kIsalLookBack
    const int kIsalWrapper
    const int kIsalMethod
    const int kIsalChecksum
    const int kZstdPrefix
    const int kZstdWindow
    const int kZstdChecksum
    const int kZstdDictionary
    const int kZstdMemory
    const unsigned kLz4Version
    const int kXzStreamEnd
    const int kXzMemError
    const int kXzMemLimit
    const int kXzFormatError
    const int kXzBufError
    const int kBz2StreamEnd
    const int kBz2MemError
    const int kBz2Magic

    cppclass ZStream:
        const unsigned char* next_in
        unsigned avail_in
        unsigned char* next_out
        unsigned avail_out
        const char* msg
        void* (*zalloc)(void*, unsigned, unsigned) noexcept
        void (*zfree)(void*, void*) noexcept
        void* opaque

    cppclass ZFunctions:
        int (*init)(ZStream*, int, const char*, int) noexcept
        int (*reset)(ZStream*) noexcept
        int (*inflate)(ZStream*, int) noexcept
        int (*end)(ZStream*) noexcept
        const char* version
        int stream_bytes

    cppclass IsalState:
        unsigned char* next_out
        uint32_t avail_out
        const unsigned char* next_in
        uint32_t avail_in
        int32_t read_in_length
        uint32_t block_state
        uint32_t crc_flag

    cppclass ZstdIn:
        const void* src
        size_t size
        size_t pos

    cppclass ZstdOut:
        void* dst
        size_t size
        size_t pos

    cppclass XzStream:
        const unsigned char* next_in
        size_t avail_in
        unsigned char* next_out
        size_t avail_out

    cppclass Bz2Stream:
        const char* next_in
        unsigned avail_in
        char* next_out
        unsigned avail_out
        void* state

    cppclass Codecs:
        ZFunctions zlib
        ZFunctions zng
        void (*isal_init)(IsalState*) noexcept
        void (*isal_reset)(IsalState*) noexcept
        int (*isal_inflate)(IsalState*) noexcept
        void* (*zstd_create)() noexcept
        size_t (*zstd_init)(void*) noexcept
        size_t (*zstd_free)(void*) noexcept
        size_t (*zstd_sizeof)(const void*) noexcept
        size_t (*zstd_decompress)(void*, ZstdOut*, ZstdIn*) noexcept
        unsigned (*zstd_is_error)(size_t) noexcept
        int (*zstd_error)(size_t) noexcept
        unsigned long long (*zstd_content_size)(const void*, size_t) noexcept
        size_t (*lz4_create)(void**, unsigned) noexcept
        size_t (*lz4_free)(void*) noexcept
        size_t (*lz4_decompress)(void*, void*, size_t*, const void*, size_t*, const void*) noexcept
        unsigned (*lz4_is_error)(size_t) noexcept
        const char* (*lz4_error)(size_t) noexcept
        int (*xz_init)(XzStream*, uint64_t, uint32_t) noexcept
        int (*xz_code)(XzStream*, int) noexcept
        void (*xz_end)(XzStream*) noexcept
        int (*bz2_init)(Bz2Stream*, int, int) noexcept
        int (*bz2_decompress)(Bz2Stream*) noexcept
        int (*bz2_end)(Bz2Stream*) noexcept

cdef extern from *:
    """
    namespace {
    // library() writes it under its lock; other threads read it after library() has returned.
    queuecore::Codecs codecs;

    // ZSTD contexts for their next use: making one costs more than decompressing a small frame. None is tied to a
    // thread, whose end would have to be told the loader, which ends the process if it has no memory for that.
    queuecore::Atomic<void*> kept[32];
    inline void* kept_take() noexcept {
      for (auto& one : kept) {
        if (one.load(queuecore::kRelaxed) == nullptr) continue;  // relaxed: a hint
        // Z1 acquire: pairs with Z2; the context is as its last user left it.
        void* found = one.exchange(nullptr, queuecore::kAcquire);
        if (found != nullptr) return found;
      }
      return nullptr;
    }
    inline bool kept_give(void* context) noexcept {
      for (auto& one : kept) {
        void* expected = nullptr;
        // Z2 release: pairs with Z1. Relaxed on failure: another one is there.
        if (one.compare_exchange_strong(expected, context, queuecore::kRelease, queuecore::kRelaxed)) return true;
      }
      return false;
    }
    }  // namespace
    """
    Codecs codecs
    void* kept_take() noexcept nogil
    bint kept_give(void*) noexcept nogil

check_layout(layout_hash())

# The ones behind the first three have the numbers of their encodings, and one more.
cdef enum:
    LIBRARY_ISAL = 1
    LIBRARY_ZLIB = 2
    LIBRARY_ZLIB_NG = 3
    LIBRARY_ZSTD = 4
    LIBRARY_LZ4 = 5
    LIBRARY_XZ = 6
    LIBRARY_BZ2 = 7
    LIBRARIES = 8

cdef enum:
    PIECE_MOST = 1 << 30         # limit of bytes in one call: the libraries count in 32 bits
    KEPT_CONTEXT = 2 << 20       # a context with more bytes, after a frame with a large window, is not kept
    DEFLATE_COPY = 258           # most bytes that are copied at once from earlier data
    WINDOW_MOST = 128 << 20      # of XZ; ZSTD has the same limit by itself
    XZ_MEMORY = WINDOW_MOST + (1 << 20)
    LZ4_HEADER = 7               # least bytes of a frame's header

# Parts of a GZIP header, in their order.
cdef enum:
    HEADER_FIXED = 0
    HEADER_EXTRA_LENGTH = 1
    HEADER_EXTRA = 2
    HEADER_NAME = 3
    HEADER_COMMENT = 4
    HEADER_CRC = 5
    HEADER_DONE = 6

cdef CodecKind[LIBRARIES] _kinds
# Of libraries whose functions are there. library() writes it under its lock; other threads read it after library() has
# returned.
cdef bint[LIBRARIES] _ready
# The fastest of those for GZIP and ZLIB comes first.
cdef int32_t[3] _fastest = [LIBRARY_ISAL, LIBRARY_ZLIB_NG, LIBRARY_ZLIB]
cdef int32_t _preferred = 0


# ---- finding the libraries
# ------------------------------------------------------------------------------------------------------------

cdef void* _symbol(void* handle, const char* name) except? NULL:
    cdef void* found = dlsym(handle, name)
    if found == NULL:
        raise LookupError
    return found


cdef bint _take_isal(void* handle) except -1:
    codecs.isal_init = <void (*)(IsalState*) noexcept nogil>_symbol(handle, b"isal_inflate_init")
    codecs.isal_reset = <void (*)(IsalState*) noexcept nogil>_symbol(handle, b"isal_inflate_reset")
    codecs.isal_inflate = <int (*)(IsalState*) noexcept nogil>_symbol(handle, b"isal_inflate")
    if _isal_agrees():
        return True
    codecs.isal_inflate = NULL
    return False


cdef bint _take_zlib(void* handle) except -1:
    codecs.zlib.init = <int (*)(ZStream*, int, const char*, int) noexcept nogil>_symbol(handle, b"inflateInit2_")
    codecs.zlib.reset = <int (*)(ZStream*) noexcept nogil>_symbol(handle, b"inflateReset")
    codecs.zlib.inflate = <int (*)(ZStream*, int) noexcept nogil>_symbol(handle, b"inflate")
    codecs.zlib.end = <int (*)(ZStream*) noexcept nogil>_symbol(handle, b"inflateEnd")
    codecs.zlib.version = "1"  # only the first digit of the version counts
    codecs.zlib.stream_bytes = sizeof(ZStream)
    return True


cdef bint _take_zlib_ng(void* handle) except -1:
    codecs.zng.init = <int (*)(ZStream*, int, const char*, int) noexcept nogil>_symbol(handle, b"zng_inflateInit2_")
    codecs.zng.reset = <int (*)(ZStream*) noexcept nogil>_symbol(handle, b"zng_inflateReset")
    codecs.zng.inflate = <int (*)(ZStream*, int) noexcept nogil>_symbol(handle, b"zng_inflate")
    codecs.zng.end = <int (*)(ZStream*) noexcept nogil>_symbol(handle, b"zng_inflateEnd")
    codecs.zng.version = "2"
    codecs.zng.stream_bytes = kZngStreamBytes
    return True


cdef bint _take_zstd(void* handle) except -1:
    codecs.zstd_create = <void* (*)() noexcept nogil>_symbol(handle, b"ZSTD_createDStream")
    codecs.zstd_init = <size_t (*)(void*) noexcept nogil>_symbol(handle, b"ZSTD_initDStream")
    codecs.zstd_free = <size_t (*)(void*) noexcept nogil>_symbol(handle, b"ZSTD_freeDStream")
    codecs.zstd_sizeof = <size_t (*)(const void*) noexcept nogil>_symbol(handle, b"ZSTD_sizeof_DStream")
    codecs.zstd_decompress = <size_t (*)(void*, ZstdOut*, ZstdIn*) noexcept nogil>_symbol(handle,
                                                                                          b"ZSTD_decompressStream")
    codecs.zstd_is_error = <unsigned (*)(size_t) noexcept nogil>_symbol(handle, b"ZSTD_isError")
    codecs.zstd_error = <int (*)(size_t) noexcept nogil>_symbol(handle, b"ZSTD_getErrorCode")
    codecs.zstd_content_size = (
        <unsigned long long (*)(const void*, size_t) noexcept nogil>_symbol(handle, b"ZSTD_getFrameContentSize"))
    return True


cdef bint _take_lz4(void* handle) except -1:
    codecs.lz4_create = (
        <size_t (*)(void**, unsigned) noexcept nogil>_symbol(handle, b"LZ4F_createDecompressionContext"))
    codecs.lz4_free = <size_t (*)(void*) noexcept nogil>_symbol(handle, b"LZ4F_freeDecompressionContext")
    codecs.lz4_decompress = (
        <size_t (*)(void*, void*, size_t*, const void*, size_t*, const void*) noexcept nogil>_symbol(
            handle, b"LZ4F_decompress"))
    codecs.lz4_is_error = <unsigned (*)(size_t) noexcept nogil>_symbol(handle, b"LZ4F_isError")
    codecs.lz4_error = <const char* (*)(size_t) noexcept nogil>_symbol(handle, b"LZ4F_getErrorName")
    return True


cdef bint _take_xz(void* handle) except -1:
    codecs.xz_init = <int (*)(XzStream*, uint64_t, uint32_t) noexcept nogil>_symbol(handle, b"lzma_stream_decoder")
    codecs.xz_code = <int (*)(XzStream*, int) noexcept nogil>_symbol(handle, b"lzma_code")
    codecs.xz_end = <void (*)(XzStream*) noexcept nogil>_symbol(handle, b"lzma_end")
    return True


cdef bint _take_bz2(void* handle) except -1:
    codecs.bz2_init = <int (*)(Bz2Stream*, int, int) noexcept nogil>_symbol(handle, b"BZ2_bzDecompressInit")
    codecs.bz2_decompress = <int (*)(Bz2Stream*) noexcept nogil>_symbol(handle, b"BZ2_bzDecompress")
    codecs.bz2_end = <int (*)(Bz2Stream*) noexcept nogil>_symbol(handle, b"BZ2_bzDecompressEnd")
    return True


cdef bint _isal_agrees() except -1:
    # We share the state's struct with the library: data with a known answer shows whether both agree on it. The room is
    # far larger than the struct, so that a library that disagrees does no harm.
    cdef bytes sample = bytes.fromhex("2b2c4d2d4d4dce2f4a552884b1002fa5f9ee13000000")
    cdef unsigned char[64] out
    cdef IsalState* state
    cdef void* room = malloc(4 * INFLATER_BYTES)
    if room == NULL:
        raise MemoryError
    try:
        memset(room, 0, 4 * INFLATER_BYTES)
        state = <IsalState*>room
        codecs.isal_init(state)
        state.crc_flag = kIsalGzipBody
        state.next_in = <const unsigned char*><const char*>sample
        state.avail_in = <uint32_t>len(sample)
        state.next_out = out
        state.avail_out = 64
        return codecs.isal_inflate(state) == 0 and state.block_state == kIsalFinished and state.avail_in == 0 and (
            (<const char*>out)[:64 - state.avail_out] == b"queuecore queuecore")
    finally:
        free(room)


def _module_file(str name):
    # Returns the file of one of Python's own modules that links a library, or None.
    try:
        spec = importlib.util.find_spec(name)
    except (ImportError, ValueError):
        return None
    return spec.origin if spec is not None and spec.has_location else None


def _candidates(int library):
    # Returns names to open, the usual one first. The next best is the file of Python's own module: it links the
    # library, which may be bundled under an unknown name. None: Python itself has the module built in.
    if library == LIBRARY_ISAL:
        return ["libisal.so.2"]
    if library == LIBRARY_ZLIB:
        return ["libz.so.1", _module_file("zlib")]
    if library == LIBRARY_ZLIB_NG:
        return ["libz-ng.so.2"]
    if library == LIBRARY_ZSTD:
        return ["libzstd.so.1", _module_file("_zstd")]
    if library == LIBRARY_LZ4:
        return ["liblz4.so.1"]
    if library == LIBRARY_XZ:
        return ["liblzma.so.5", _module_file("_lzma")]
    return ["libbz2.so.1.0", "libbz2.so.1", _module_file("_bz2")]


cdef bint _take(int library, void* handle) except -1:
    if library == LIBRARY_ISAL:
        return _take_isal(handle)
    if library == LIBRARY_ZLIB:
        return _take_zlib(handle)
    if library == LIBRARY_ZLIB_NG:
        return _take_zlib_ng(handle)
    if library == LIBRARY_ZSTD:
        return _take_zstd(handle)
    if library == LIBRARY_LZ4:
        return _take_lz4(handle)
    return _take_xz(handle) if library == LIBRARY_XZ else _take_bz2(handle)


_lock = threading.Lock()
_found = {}  # number of the library: the name that it was opened by, or None


def _find(int library):
    cdef void* handle
    cdef bytes path
    cdef const char* file
    if library not in _found:
        _found[library] = None
        for name in _candidates(library):
            file = NULL
            if name is not None:
                path = name.encode()
                file = path
            handle = syscalls().library(file)
            if handle == NULL:
                continue
            try:
                _ready[library] = _take(library, handle)
            except LookupError:
                pass
            if _ready[library]:
                _found[library] = "the program itself" if name is None else name
                break
            syscalls().library_close(handle)
    return _found[library]


def library(int encoding):
    """Return the name of the library that decompresses an encoding, or None if there is none.

    Looks for it at the first call.
    """
    if encoding > ENCODING_ZLIB:
        libraries = [encoding + 1]
    else:
        libraries = [_preferred] if _preferred else []
        libraries += list(_fastest)
    with _lock:
        return next(filter(None, map(_find, libraries)), None)


cdef void codec_prefer(int32_t library) noexcept nogil:
    global _preferred
    _preferred = library


cdef const CodecKind* codec_of(int32_t encoding) noexcept nogil:
    cdef int32_t library = _preferred, i
    if encoding > ENCODING_ZLIB:
        return &_kinds[encoding + 1] if _ready[encoding + 1] else NULL
    if library != 0 and _ready[library]:
        return &_kinds[library]
    for i in range(3):
        if _ready[_fastest[i]]:
            return &_kinds[_fastest[i]]
    return NULL


cdef inline int64_t _least(int64_t a, int64_t b) noexcept nogil:
    return a if a < b else b


# ---- ISA-L

cdef int _isal_begin(Inflater* f) noexcept nogil:
    f.state = f.room
    codecs.isal_init(<IsalState*>f.state)
    return 0


cdef int _isal_next(Inflater* f) noexcept nogil:
    codecs.isal_reset(<IsalState*>f.state)
    (<IsalState*>f.state).crc_flag = kIsalGzipBody if f.encoding == ENCODING_GZIP else kIsalZlib
    f.header = HEADER_FIXED if f.encoding == ENCODING_GZIP else HEADER_DONE
    f.flags = f.count = f.extra_left = 0
    f.crc = 0xffffffff
    return 0


cdef inline bint _header_has(const Inflater* f, int32_t part) noexcept nogil:
    if part == HEADER_EXTRA_LENGTH:
        return f.flags & 4 != 0
    if part == HEADER_EXTRA:
        return f.flags & 4 != 0 and f.extra_left > 0
    if part == HEADER_NAME:
        return f.flags & 8 != 0
    if part == HEADER_COMMENT:
        return f.flags & 16 != 0
    return part == HEADER_DONE or f.flags & 2 != 0


cdef int _gzip_header(Inflater* f, const unsigned char* source, int64_t left, int64_t* took) noexcept nogil:
    # Reads a GZIP header (RFC 1952), because ISA-L misreads one that comes in pieces. The caller has checked its first
    # byte.
    cdef uint32_t byte
    cdef int _i
    while took[0] < left and f.header != HEADER_DONE:
        byte = source[took[0]]
        took[0] += 1
        if f.header == HEADER_CRC:
            if byte != (f.crc >> (8 * f.count) ^ 0xff) & 0xff:
                return WHAT_CHECK
        else:
            f.crc ^= byte
            for _i in range(8):  # bit by bit: a header is short
                f.crc = f.crc >> 1 ^ (<uint32_t>0xedb88320 if f.crc & 1 else <uint32_t>0)
        f.count += 1
        if f.header == HEADER_FIXED:
            if (f.count == 2 and byte != 0x8b) or (f.count == 3 and byte != 8) or (f.count == 4 and byte > 31):
                return WHAT_NO_HEADER
            if f.count == 4:
                f.flags = byte
            if f.count < 10:
                continue
        elif f.header == HEADER_EXTRA_LENGTH:
            f.extra_left |= byte << (8 * (f.count - 1))
            if f.count < 2:
                continue
        elif f.header == HEADER_EXTRA:
            f.extra_left -= 1
            if f.extra_left > 0:
                continue
        elif f.header == HEADER_CRC:
            if f.count < 2:
                continue
        elif byte != 0:
            continue
        f.count = 0
        f.header += 1
        while not _header_has(f, f.header):
            f.header += 1
    return 0


cdef int _isal_run(Inflater* f, CodecCall* c) noexcept nogil:
    cdef IsalState* s = <IsalState*>f.state
    cdef int rc
    if f.header != HEADER_DONE:
        rc = _gzip_header(f, c.source, c.left, &c.took)
        if rc != 0 or f.header != HEADER_DONE:
            return rc
    s.next_in = c.source + c.took
    s.avail_in = <uint32_t>_least(c.left - c.took, PIECE_MOST)
    s.next_out = c.into
    s.avail_out = <uint32_t>_least(c.n, PIECE_MOST)
    rc = codecs.isal_inflate(s)
    c.took = s.next_in - c.source
    c.written = s.next_out - c.into
    c.ended = s.block_state == kIsalFinished
    if rc == kIsalLookBack:  # a copy of bytes before the first one counts as written, and wasn't
        c.written -= _least(c.written, DEFLATE_COPY)
    if rc == kIsalChecksum:  # the checksum of ZLIB's two bytes of header, or of the data
        return WHAT_CHECK if f.place + c.took - f.begun > 2 else WHAT_NO_HEADER
    if rc >= 0 and rc != kIsalNeedDict and not c.ended:
        return 0
    if 8 <= s.read_in_length <= 64:  # the library took these bits, but didn't use them
        c.took -= s.read_in_length // 8
        if rc == 0:  # bytes behind ZLIB's end: GZIP's trailer is longer than those bits
            return WHAT_TRAILING
    if rc == kIsalNeedDict:
        return WHAT_DICTIONARY
    if rc == kIsalWrapper or rc == kIsalMethod:
        return WHAT_NO_HEADER
    return WHAT_DAMAGED if rc < 0 else 0


cdef void _isal_end(Inflater* f) noexcept nogil:
    pass


# ---- zlib and zlib-ng

cdef void* _zlib_take(void* opaque, unsigned items, unsigned size) noexcept nogil:
    # Takes memory of the owner, or of the heap if another version of the library wants more than the owner has.
    cdef Inflater* f = <Inflater*>opaque
    cdef int64_t nbytes = (<int64_t>items * size + 63) & ~<int64_t>63
    cdef void* place
    if nbytes > INFLATER_BYTES - f.room_used:
        return malloc(nbytes)
    place = <unsigned char*>f.room + f.room_used
    f.room_used += nbytes
    return place


cdef void _zlib_give(void* opaque, void* place) noexcept nogil:
    cdef Inflater* f = <Inflater*>opaque
    cdef int64_t at = <int64_t>(<uintptr_t>place - <uintptr_t>f.room)
    if at < 0 or at >= INFLATER_BYTES:
        free(place)


cdef int _z_begin(Inflater* f, const ZFunctions* functions) noexcept nogil:
    cdef ZStream* z = <ZStream*>f.room
    f.state = z
    memset(z, 0, sizeof(ZStream))
    z.zalloc = _zlib_take
    z.zfree = _zlib_give
    z.opaque = f
    f.room_used = (sizeof(ZStream) + 63) & ~<size_t>63
    # 15: the largest window; 16 more: GZIP's wrapper.
    if functions.init(z, 31 if f.encoding == ENCODING_GZIP else 15, functions.version, functions.stream_bytes) != 0:
        return WHAT_INFLATE_MEMORY
    return 0


cdef int _z_run(Inflater* f, const ZFunctions* functions, CodecCall* c) noexcept nogil:
    cdef ZStream* z = <ZStream*>f.state
    cdef int rc
    z.next_in = c.source
    z.avail_in = <unsigned>_least(c.left, PIECE_MOST)
    z.next_out = c.into
    z.avail_out = <unsigned>_least(c.n, PIECE_MOST)
    rc = functions.inflate(z, 0)
    c.took = z.next_in - c.source
    c.written = z.next_out - c.into
    c.ended = rc == kZStreamEnd
    if rc == 0 or rc == kZStreamEnd or rc == kZBufError:
        return 0
    if rc == kZNeedDict:
        return WHAT_DICTIONARY
    if rc == kZMemError:
        return WHAT_INFLATE_MEMORY
    if z.msg != NULL:
        if strncmp(z.msg, "incorrect data", 14) == 0 or strncmp(z.msg, "incorrect length", 16) == 0 or (
                strncmp(z.msg, "header crc", 10) == 0):
            return WHAT_CHECK
        if strncmp(z.msg, "incorrect header", 16) == 0 or strncmp(z.msg, "unknown", 7) == 0 or (
                strncmp(z.msg, "invalid window", 14) == 0):
            return WHAT_NO_HEADER
    return WHAT_DAMAGED


cdef int _zlib_begin(Inflater* f) noexcept nogil:
    return _z_begin(f, &codecs.zlib)


cdef int _zlib_next(Inflater* f) noexcept nogil:
    if f.members > 0:
        codecs.zlib.reset(<ZStream*>f.state)
    return 0


cdef int _zlib_run(Inflater* f, CodecCall* c) noexcept nogil:
    return _z_run(f, &codecs.zlib, c)


cdef void _zlib_end(Inflater* f) noexcept nogil:
    codecs.zlib.end(<ZStream*>f.state)


cdef int _zng_begin(Inflater* f) noexcept nogil:
    return _z_begin(f, &codecs.zng)


cdef int _zng_next(Inflater* f) noexcept nogil:
    if f.members > 0:
        codecs.zng.reset(<ZStream*>f.state)
    return 0


cdef int _zng_run(Inflater* f, CodecCall* c) noexcept nogil:
    return _z_run(f, &codecs.zng, c)


cdef void _zng_end(Inflater* f) noexcept nogil:
    codecs.zng.end(<ZStream*>f.state)


# ---- ZSTD

cdef int _zstd_begin(Inflater* f) noexcept nogil:
    f.state = kept_take()
    if f.state == NULL:
        f.state = codecs.zstd_create()
    return WHAT_INFLATE_MEMORY if f.state == NULL else 0


cdef int _zstd_next(Inflater* f) noexcept nogil:
    f.hint = <int64_t>codecs.zstd_init(f.state)
    f.full = False
    return 0


cdef int _zstd_run(Inflater* f, CodecCall* c) noexcept nogil:
    # A call that fails doesn't say what it made before. So each call gets one block, and none while the block before it
    # may still come out.
    cdef ZstdIn i
    cdef ZstdOut o
    cdef size_t rc
    cdef int code
    i.src = c.source
    i.size = 0 if f.full else <size_t>_least(c.left, f.hint)
    i.pos = 0
    o.dst = c.into
    o.size = <size_t>c.n
    o.pos = 0
    rc = codecs.zstd_decompress(f.state, &o, &i)
    c.took = <int64_t>i.pos
    c.written = <int64_t>o.pos
    c.ended = rc == 0
    f.full = o.pos == o.size
    if not codecs.zstd_is_error(rc):
        f.hint = <int64_t>rc
        return 0
    code = codecs.zstd_error(rc)
    if code == kZstdPrefix:
        return WHAT_NO_HEADER
    if code == kZstdChecksum:
        return WHAT_CHECK
    if code == kZstdDictionary:
        return WHAT_DICTIONARY
    if code == kZstdWindow:
        return WHAT_WINDOW
    return WHAT_INFLATE_MEMORY if code == kZstdMemory else WHAT_DAMAGED


cdef void _zstd_end(Inflater* f) noexcept nogil:
    if codecs.zstd_sizeof(f.state) > KEPT_CONTEXT or not kept_give(f.state):
        codecs.zstd_free(f.state)


cdef int64_t zstd_claim(const unsigned char* source, int64_t n) noexcept nogil:
    cdef unsigned long long known = codecs.zstd_content_size(source, <size_t>n)
    # the two largest numbers mean: unknown, and no frame
    return <int64_t>known if known < <unsigned long long>1 << 62 else -1


# ---- LZ4

cdef int _lz4_begin(Inflater* f) noexcept nogil:
    f.state = NULL
    return WHAT_INFLATE_MEMORY if codecs.lz4_is_error(codecs.lz4_create(&f.state, kLz4Version)) else 0


cdef int _lz4_next(Inflater* f) noexcept nogil:
    f.hint = LZ4_HEADER
    f.full = False
    return 0


cdef int _lz4_run(Inflater* f, CodecCall* c) noexcept nogil:
    # As with ZSTD, each call gets one block, and none while the block before it may still come out.
    cdef size_t sources = 0 if f.full else <size_t>_least(c.left, f.hint), room = <size_t>c.n
    cdef size_t rc = codecs.lz4_decompress(f.state, c.into, &room, c.source, &sources, NULL)
    cdef const char* error
    c.took = <int64_t>sources
    c.written = <int64_t>room
    c.ended = rc == 0
    f.full = c.written == c.n
    if not codecs.lz4_is_error(rc):
        f.hint = <int64_t>rc
        return 0
    c.took = c.written = 0
    error = codecs.lz4_error(rc)
    if strcmp(error, "ERROR_frameType_unknown") == 0:
        return WHAT_NO_HEADER
    if (strcmp(error, "ERROR_headerChecksum_invalid") == 0 or strcmp(error, "ERROR_blockChecksum_invalid") == 0
            or strcmp(error, "ERROR_contentChecksum_invalid") == 0 or strcmp(error, "ERROR_frameSize_wrong") == 0):
        return WHAT_CHECK
    return WHAT_INFLATE_MEMORY if strcmp(error, "ERROR_allocation_failed") == 0 else WHAT_DAMAGED


cdef void _lz4_end(Inflater* f) noexcept nogil:
    codecs.lz4_free(f.state)


# ---- XZ

cdef int _xz_begin(Inflater* f) noexcept nogil:
    f.state = f.room
    memset(f.state, 0, sizeof(XzStream))
    return 0


cdef int _xz_next(Inflater* f) noexcept nogil:
    return WHAT_INFLATE_MEMORY if codecs.xz_init(<XzStream*>f.state, XZ_MEMORY, 0) != 0 else 0


cdef int _xz_run(Inflater* f, CodecCall* c) noexcept nogil:
    cdef XzStream* s = <XzStream*>f.state
    cdef int rc
    s.next_in = c.source
    s.avail_in = <size_t>c.left
    s.next_out = c.into
    s.avail_out = <size_t>c.n
    rc = codecs.xz_code(s, 0)
    c.took = s.next_in - c.source
    c.written = s.next_out - c.into
    c.ended = rc == kXzStreamEnd
    if rc == 0 or rc == kXzStreamEnd or rc == kXzBufError:
        return 0
    if rc == kXzMemError:
        return WHAT_INFLATE_MEMORY
    if rc == kXzMemLimit:
        return WHAT_WINDOW
    return WHAT_NO_HEADER if rc == kXzFormatError else WHAT_DAMAGED


cdef void _xz_end(Inflater* f) noexcept nogil:
    codecs.xz_end(<XzStream*>f.state)


# ---- BZ2

cdef int _bz2_begin(Inflater* f) noexcept nogil:
    f.state = f.room
    memset(f.state, 0, sizeof(Bz2Stream))
    return 0


cdef int _bz2_next(Inflater* f) noexcept nogil:
    _bz2_end(f)
    return WHAT_INFLATE_MEMORY if codecs.bz2_init(<Bz2Stream*>f.state, 0, 0) != 0 else 0


cdef int _bz2_run(Inflater* f, CodecCall* c) noexcept nogil:
    cdef Bz2Stream* s = <Bz2Stream*>f.state
    cdef int rc
    s.next_in = <const char*>c.source
    s.avail_in = <unsigned>_least(c.left, PIECE_MOST)
    s.next_out = <char*>c.into
    s.avail_out = <unsigned>_least(c.n, PIECE_MOST)
    rc = codecs.bz2_decompress(s)
    c.took = <const unsigned char*>s.next_in - c.source
    c.written = <unsigned char*>s.next_out - c.into
    c.ended = rc == kBz2StreamEnd
    if rc == 0 or rc == kBz2StreamEnd:
        return 0
    if rc == kBz2MemError:
        return WHAT_INFLATE_MEMORY
    return WHAT_NO_HEADER if rc == kBz2Magic else WHAT_DAMAGED


cdef void _bz2_end(Inflater* f) noexcept nogil:
    if (<Bz2Stream*>f.state).state != NULL:
        codecs.bz2_end(<Bz2Stream*>f.state)


_kinds[LIBRARY_ISAL] = CodecKind(begin=_isal_begin, next_member=_isal_next, run=_isal_run, end=_isal_end)
_kinds[LIBRARY_ZLIB] = CodecKind(begin=_zlib_begin, next_member=_zlib_next, run=_zlib_run, end=_zlib_end)
_kinds[LIBRARY_ZLIB_NG] = CodecKind(begin=_zng_begin, next_member=_zng_next, run=_zng_run, end=_zng_end)
_kinds[LIBRARY_ZSTD] = CodecKind(begin=_zstd_begin, next_member=_zstd_next, run=_zstd_run, end=_zstd_end)
_kinds[LIBRARY_LZ4] = CodecKind(begin=_lz4_begin, next_member=_lz4_next, run=_lz4_run, end=_lz4_end)
_kinds[LIBRARY_XZ] = CodecKind(begin=_xz_begin, next_member=_xz_next, run=_xz_run, end=_xz_end)
_kinds[LIBRARY_BZ2] = CodecKind(begin=_bz2_begin, next_member=_bz2_next, run=_bz2_run, end=_bz2_end)
