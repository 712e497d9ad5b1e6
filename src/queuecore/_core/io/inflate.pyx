"""Decompression without the GIL: finding the libraries, running them, and the step of ``decode_compressed``."""
cimport cython
from libc.stddef cimport size_t
from libc.stdint cimport int32_t, int64_t, uint32_t, uintptr_t
from libc.string cimport memcpy, memset, strncmp
from queuecore._core.atoms.memory cimport free, malloc
from queuecore._core.atoms.process cimport check_layout
from queuecore._core.atoms.errors cimport (
    CODE_DECOMPRESS, CODE_EXHAUSTED, CODE_TOO_LARGE, CODE_UNIMPLEMENTED, WHAT_CHECK, WHAT_CUT, WHAT_DAMAGED,
    WHAT_DICTIONARY, WHAT_INFLATE_MEMORY, WHAT_NO_HEADER, WHAT_NO_LIBRARY, WHAT_TRAILING, WHAT_WINDOW,
    inflate_sentence, new_error)
from queuecore._core.atoms.platform cimport Fault, layout_hash, syscalls
from queuecore._core.steps.stages cimport Arena, Cell, Step, arena_take

import importlib.util
import threading


cdef extern from "dlfcn.h" nogil:
    void* dlsym(void*, const char*)

cdef extern from "queuecore/codecs.hpp" namespace "queuecore" nogil:
    const int kZStreamEnd
    const int kZNeedDict
    const int kZBufError
    const int kZMemError
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

    cppclass ZStream:
        const unsigned char* next_in
        unsigned avail_in
        unsigned char* next_out
        unsigned avail_out
        const char* msg
        void* (*zalloc)(void*, unsigned, unsigned) noexcept
        void (*zfree)(void*, void*) noexcept
        void* opaque

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

    cppclass Codecs:
        int (*z_init)(ZStream*, int, const char*, int) noexcept
        int (*z_reset)(ZStream*) noexcept
        int (*z_inflate)(ZStream*, int) noexcept
        int (*z_end)(ZStream*) noexcept
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

cdef enum:
    LIBRARY_ISAL = 1
    LIBRARY_ZLIB = 2
    LIBRARY_ZSTD = 3

cdef enum:
    PIECE_MOST = 1 << 30         # limit of bytes in one call: the libraries count in 32 bits
    KEPT_CONTEXT = 2 << 20       # a context with more bytes, after a frame with a large window, is not kept
    DEFLATE_RATIO = 1032         # no deflate data grows by a larger factor
    DEFLATE_COPY = 258           # most bytes that are copied at once from earlier data

# Parts of a GZIP header, in their order.
cdef enum:
    HEADER_FIXED = 0
    HEADER_EXTRA_LENGTH = 1
    HEADER_EXTRA = 2
    HEADER_NAME = 3
    HEADER_COMMENT = 4
    HEADER_CRC = 5
    HEADER_DONE = 6

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
    codecs.z_init = <int (*)(ZStream*, int, const char*, int) noexcept nogil>_symbol(handle, b"inflateInit2_")
    codecs.z_reset = <int (*)(ZStream*) noexcept nogil>_symbol(handle, b"inflateReset")
    codecs.z_inflate = <int (*)(ZStream*, int) noexcept nogil>_symbol(handle, b"inflate")
    codecs.z_end = <int (*)(ZStream*) noexcept nogil>_symbol(handle, b"inflateEnd")
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
    return ["libzstd.so.1", _module_file("_zstd")]


_lock = threading.Lock()
_found = {}  # number of the library: the name that it was opened by, or None


def _find(int library):
    cdef void* handle
    cdef bint good
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
                if library == LIBRARY_ISAL:
                    good = _take_isal(handle)
                elif library == LIBRARY_ZLIB:
                    good = _take_zlib(handle)
                else:
                    good = _take_zstd(handle)
            except LookupError:
                good = False
            if good:
                _found[library] = "the program itself" if name is None else name
                break
            syscalls().library_close(handle)
    return _found[library]


def library(int encoding):
    """Return the name of the library that decompresses an encoding, or None if there is none.

    Looks for it at the first call.
    """
    with _lock:
        if encoding == ENCODING_ZSTD:
            return _find(LIBRARY_ZSTD)
        isal = _find(LIBRARY_ISAL)
        if isal is not None and _preferred in (0, LIBRARY_ISAL):
            return isal
        return _find(LIBRARY_ZLIB)


cdef void inflate_prefer(int32_t library) noexcept nogil:
    global _preferred
    _preferred = library


cdef int32_t _library_of(int32_t encoding) noexcept nogil:
    if encoding == ENCODING_ZSTD:
        return LIBRARY_ZSTD if codecs.zstd_content_size != NULL else 0
    if codecs.isal_inflate != NULL and _preferred != LIBRARY_ZLIB:
        return LIBRARY_ISAL
    return LIBRARY_ZLIB if codecs.z_end != NULL else 0


# ---- running them
# ---------------------------------------------------------------------------------------------------------------------

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


cdef int inflater_begin(Inflater* f, int32_t encoding, void* room) noexcept nogil:
    cdef ZStream* z
    memset(f, 0, sizeof(Inflater))
    f.encoding = encoding
    f.room = room
    f.library = _library_of(encoding)
    if f.library == LIBRARY_ISAL:
        f.state = room
        codecs.isal_init(<IsalState*>room)
    elif f.library == LIBRARY_ZLIB:
        z = <ZStream*>room
        memset(z, 0, sizeof(ZStream))
        z.zalloc = _zlib_take
        z.zfree = _zlib_give
        z.opaque = f
        f.room_used = (sizeof(ZStream) + 63) & ~<size_t>63
        # 15: the largest window; 16 more: GZIP's wrapper. Only the first digit of the version counts.
        if codecs.z_init(z, 31 if encoding == ENCODING_GZIP else 15, "1", sizeof(ZStream)) != 0:
            f.library = 0
            return WHAT_INFLATE_MEMORY
        f.state = z
    elif f.library == LIBRARY_ZSTD:
        f.state = kept_take()
        if f.state == NULL:
            f.state = codecs.zstd_create()
        if f.state == NULL:
            f.library = 0
            return WHAT_INFLATE_MEMORY
    else:
        return WHAT_NO_LIBRARY
    return 0


cdef void inflater_end(Inflater* f) noexcept nogil:
    if f.library == LIBRARY_ZLIB:
        codecs.z_end(<ZStream*>f.state)
    elif f.library == LIBRARY_ZSTD and (codecs.zstd_sizeof(f.state) > KEPT_CONTEXT or not kept_give(f.state)):
        codecs.zstd_free(f.state)
    f.library = 0


cdef inline int64_t _least(int64_t a, int64_t b) noexcept nogil:
    return a if a < b else b


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


cdef int _run_isal(Inflater* f, const unsigned char* source, int64_t left, unsigned char* into, int64_t n,
                   int64_t* took, int64_t* written, bint* ended) noexcept nogil:
    cdef IsalState* s = <IsalState*>f.state
    cdef int rc
    took[0] = written[0] = 0
    ended[0] = False
    if f.header != HEADER_DONE:
        rc = _gzip_header(f, source, left, took)
        if rc != 0 or f.header != HEADER_DONE:
            return rc
    s.next_in = source + took[0]
    s.avail_in = <uint32_t>_least(left - took[0], PIECE_MOST)
    s.next_out = into
    s.avail_out = <uint32_t>_least(n, PIECE_MOST)
    rc = codecs.isal_inflate(s)
    took[0] = s.next_in - source
    written[0] = s.next_out - into
    ended[0] = s.block_state == kIsalFinished
    if rc == kIsalLookBack:  # a copy of bytes before the first one counts as written, and wasn't
        written[0] -= _least(written[0], DEFLATE_COPY)
    if rc == kIsalChecksum:  # the checksum of ZLIB's two bytes of header, or of the data
        return WHAT_CHECK if f.place + took[0] - f.begun > 2 else WHAT_NO_HEADER
    if rc >= 0 and rc != kIsalNeedDict and not ended[0]:
        return 0
    if 8 <= s.read_in_length <= 64:  # the library took these bits, but didn't use them
        took[0] -= s.read_in_length // 8
        if rc == 0:  # bytes behind ZLIB's end: GZIP's trailer is longer than those bits
            return WHAT_TRAILING
    if rc == kIsalNeedDict:
        return WHAT_DICTIONARY
    if rc == kIsalWrapper or rc == kIsalMethod:
        return WHAT_NO_HEADER
    return WHAT_DAMAGED if rc < 0 else 0


cdef int _run_zlib(Inflater* f, const unsigned char* source, int64_t left, unsigned char* into, int64_t n,
                   int64_t* took, int64_t* written, bint* ended) noexcept nogil:
    cdef ZStream* z = <ZStream*>f.state
    cdef int rc
    z.next_in = source
    z.avail_in = <unsigned>_least(left, PIECE_MOST)
    z.next_out = into
    z.avail_out = <unsigned>_least(n, PIECE_MOST)
    rc = codecs.z_inflate(z, 0)
    took[0] = z.next_in - source
    written[0] = z.next_out - into
    ended[0] = rc == kZStreamEnd
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


cdef int _run_zstd(Inflater* f, const unsigned char* source, int64_t left, unsigned char* into, int64_t n,
                   int64_t* took, int64_t* written, bint* ended) noexcept nogil:
    # A call that fails doesn't say what it made before. So each call gets one block, and none while the block before it
    # may still come out.
    cdef ZstdIn i
    cdef ZstdOut o
    cdef size_t rc
    cdef int code
    i.src = source
    i.size = 0 if f.full else <size_t>_least(left, f.hint)
    i.pos = 0
    o.dst = into
    o.size = <size_t>n
    o.pos = 0
    rc = codecs.zstd_decompress(f.state, &o, &i)
    took[0] = <int64_t>i.pos
    written[0] = <int64_t>o.pos
    ended[0] = rc == 0
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


cdef int _next_member(Inflater* f, const unsigned char* source, int64_t* left, int64_t* zeros) noexcept nogil:
    # Prepares for the member or frame that begins here, if there is one.
    zeros[0] = 0
    if f.encoding == ENCODING_GZIP and f.members > 0:
        while left[0] > 0 and source[zeros[0]] == 0:
            zeros[0] += 1
            left[0] -= 1
        f.place += zeros[0]
    if left[0] == 0:
        return 0
    if f.members > 0 and f.encoding == ENCODING_ZLIB:
        return WHAT_TRAILING
    f.begun = f.place
    if f.encoding == ENCODING_GZIP and source[zeros[0]] != 0x1f:
        return WHAT_NO_HEADER
    # Only a frame, or a skippable frame, may begin here. The library may also know formats from before ZSTD's first
    # version, and where such data is damaged, it claims to have made bytes that it hasn't written.
    if f.encoding == ENCODING_ZSTD and source[0] != 0x28 and source[0] & 0xf0 != 0x50:
        return WHAT_NO_HEADER
    f.inside = True
    if f.library == LIBRARY_ISAL:
        codecs.isal_reset(<IsalState*>f.state)
        (<IsalState*>f.state).crc_flag = kIsalGzipBody if f.encoding == ENCODING_GZIP else kIsalZlib
        f.header = HEADER_FIXED if f.encoding == ENCODING_GZIP else HEADER_DONE
        f.flags = f.count = f.extra_left = 0
        f.crc = 0xffffffff
    elif f.library == LIBRARY_ZLIB:
        if f.members > 0:
            codecs.z_reset(<ZStream*>f.state)
    else:
        f.hint = <int64_t>codecs.zstd_init(f.state)
        f.full = False
    return 0


cdef int inflater_run(Inflater* f, const unsigned char** source, int64_t* left, unsigned char* into, int64_t n,
                      int64_t* written) noexcept nogil:
    cdef int64_t took = 0, got = 0, skipped = 0
    cdef bint ended = False, waited = f.full
    cdef int what = 0
    written[0] = 0
    while written[0] < n:
        took = got = 0
        if not f.inside:
            what = _next_member(f, source[0], left, &skipped)
            source[0] += skipped
            if what == 0 and not f.inside:
                return 0
        waited = f.full
        if what != 0:
            pass
        elif f.library == LIBRARY_ISAL:
            what = _run_isal(f, source[0], left[0], into + written[0], n - written[0], &took, &got, &ended)
        elif f.library == LIBRARY_ZLIB:
            what = _run_zlib(f, source[0], left[0], into + written[0], n - written[0], &took, &got, &ended)
        else:
            what = _run_zstd(f, source[0], left[0], into + written[0], n - written[0], &took, &got, &ended)
        source[0] += took
        left[0] -= took
        f.place += took
        written[0] += got
        if what == WHAT_NO_HEADER or what == WHAT_DICTIONARY or what == WHAT_WINDOW:
            f.place = f.begun
            return WHAT_TRAILING if what == WHAT_NO_HEADER and f.members > 0 else what
        if what != 0:
            return what
        if ended:
            f.inside = False
            f.members += 1
        elif took == 0 and got == 0 and not waited:
            # with room and bytes, each call of a library takes or makes some
            return 0 if left[0] == 0 else WHAT_DAMAGED
    return 0


# ---- decode_compressed
# ----------------------------------------------------------------------------------------------------------------

cdef enum:
    WHAT_LIMIT = 1
    WHAT_NO_MEMORY = 2

cdef struct InflateParams:
    int32_t encoding
    int64_t limit


@cython.final
cdef class InflateStep(Step):
    """Decompression of strings.

    Parameters
    ----------
    inputs, outputs : tuple of Component
        One of strings each.
    encoding : int
        A number of ``queuecore._io.compression``; its library has been found.
    limit : int
        Bytes that a decompressed string may have.
    """
    cdef InflateParams own

    def __init__(self, tuple inputs, tuple outputs, int32_t encoding, int64_t limit):
        if self.params != NULL:
            raise TypeError("a step can't be initialised twice")
        self.inputs = inputs
        self.outputs = outputs
        self.own.encoding = encoding
        self.own.limit = limit
        self.params = &self.own
        self.run = _run_inflate

    cdef object explain(self, const Fault* fault):
        which = "" if fault.b < 0 else f" string {fault.b} of the batch:"
        if fault.what == WHAT_LIMIT:
            return new_error(CODE_TOO_LARGE,
                f"decode_compressed:{which} more than {fault.a} bytes when decompressed. If that is no attack, raise "
                "max_record_bytes")
        if fault.what == WHAT_NO_MEMORY:
            return new_error(CODE_EXHAUSTED, f"decode_compressed:{which} no memory for {fault.a} bytes")
        text = f"decode_compressed:{which} {inflate_sentence(fault.what, self.own.encoding, fault.a)}"
        if fault.what == WHAT_INFLATE_MEMORY:
            return new_error(CODE_EXHAUSTED, text)
        if fault.what == WHAT_NO_LIBRARY:
            return new_error(CODE_UNIMPLEMENTED, text)
        return new_error(CODE_DECOMPRESS, text, dict(offset=fault.a))


cdef int _inflate_fault(Fault* fault, int what, int64_t a, int64_t b) noexcept nogil:
    fault.what = what
    fault.a = a
    fault.b = b
    return -1


cdef int64_t _guess(const Inflater* f, const unsigned char* source, int64_t n) noexcept nogil:
    # Guesses the decompressed length: the length that the data claims, or a usual ratio. A wrong guess, or a wrong
    # claim, costs a copy.
    cdef int64_t guess = 4 * n
    cdef uint32_t size = 0
    cdef unsigned long long known
    if f.encoding == ENCODING_GZIP and n >= 18:
        memcpy(&size, source + n - 4, 4)
        guess = _least(size, DEFLATE_RATIO * n)
    elif f.encoding == ENCODING_ZSTD:
        known = codecs.zstd_content_size(source, <size_t>n)
        if known < <unsigned long long>1 << 62:  # the two largest numbers mean: unknown, and no frame
            guess = <int64_t>known
    return guess


cdef int _run_inflate(const void* params, const Cell* inputs, Cell* outputs, Arena* arena, Fault* fault) noexcept nogil:
    cdef const InflateParams* own = <const InflateParams*>params
    cdef const Cell* cell = &inputs[0]
    cdef Cell* out = &outputs[0]
    cdef Inflater f
    cdef const unsigned char* source = cell.data
    cdef unsigned char* into = NULL
    cdef unsigned char* larger
    cdef int64_t n = 1, i, left = cell.nbytes, at = 0, start, room = 0, wanted, written = 0
    cdef int64_t* offsets = NULL
    cdef void* memory
    cdef int what
    if own.encoding == ENCODING_NONE:
        out.data = cell.data
        out.nbytes = cell.nbytes
        out.offsets = cell.offsets
        out.ndim = cell.ndim
        memcpy(out.dims, cell.dims, cell.ndim * sizeof(int64_t))
        return 0
    for i in range(cell.ndim):
        n *= cell.dims[i]
    memory = arena_take(arena, INFLATER_BYTES)
    if memory == NULL:
        return _inflate_fault(fault, WHAT_NO_MEMORY, INFLATER_BYTES, -1)
    if cell.ndim > 0:
        offsets = <int64_t*>arena_take(arena, (n + 1) * sizeof(int64_t))
        if offsets == NULL:
            return _inflate_fault(fault, WHAT_NO_MEMORY, (n + 1) * <int64_t>sizeof(int64_t), -1)
        offsets[0] = 0
    for i in range(n):
        if cell.ndim > 0:
            source = cell.data + cell.offsets[i]
            left = cell.offsets[i + 1] - cell.offsets[i]
        start = at
        what = inflater_begin(&f, own.encoding, memory)
        # one more: the end shows only if room is left
        wanted = 0 if what != 0 else _least(_guess(&f, source, left), own.limit) + 1
        while what == 0:
            if room - at < wanted:
                wanted += at
                larger = <unsigned char*>arena_take(arena, at + wanted)
                if larger == NULL:
                    inflater_end(&f)
                    return _inflate_fault(fault, WHAT_NO_MEMORY, at + wanted, i if cell.ndim > 0 else -1)
                if at > 0:
                    memcpy(larger, into, at)
                into = larger
                room = at + wanted
            wanted = _least(room - at, own.limit + 1 - (at - start))
            what = inflater_run(&f, &source, &left, into + at, wanted, &written)
            at += written
            if at - start > own.limit:
                inflater_end(&f)
                return _inflate_fault(fault, WHAT_LIMIT, own.limit, i if cell.ndim > 0 else -1)
            if written < wanted:
                break
            wanted = 1
        if what == 0 and f.inside:
            what = WHAT_CUT
        inflater_end(&f)
        if what != 0:
            return _inflate_fault(fault, what, f.place, i if cell.ndim > 0 else -1)
        if cell.ndim > 0:
            offsets[i + 1] = at
    out.data = into if into != NULL else <unsigned char*>memory
    out.nbytes = at
    out.offsets = offsets
    out.ndim = cell.ndim
    memcpy(out.dims, cell.dims, cell.ndim * sizeof(int64_t))
    return 0
