"""Decompression without the GIL: member after member, and the step of ``decode_compressed``."""
cimport cython
from libc.stdint cimport int32_t, int64_t, uint32_t
from libc.string cimport memcpy, memset
from queuecore._core.atoms.process cimport check_layout
from queuecore._core.atoms.errors cimport (
    CODE_DECOMPRESS, CODE_EXHAUSTED, CODE_TOO_LARGE, CODE_UNIMPLEMENTED, WHAT_CUT, WHAT_DAMAGED, WHAT_DICTIONARY,
    WHAT_INFLATE_MEMORY, WHAT_NO_HEADER, WHAT_NO_LIBRARY, WHAT_TRAILING, WHAT_WINDOW, inflate_sentence, new_error)
from queuecore._core.atoms.platform cimport Fault, layout_hash
from queuecore._core.io.codecs cimport (
    ENCODING_BZ2, ENCODING_GZIP, ENCODING_LZ4, ENCODING_NONE, ENCODING_XZ, ENCODING_ZLIB, ENCODING_ZSTD,
    INFLATER_BYTES, CodecCall, Inflater, codec_of, zstd_claim)
from queuecore._core.steps.stages cimport Arena, Cell, Step, arena_take

check_layout(layout_hash())

cdef enum:
    DEFLATE_RATIO = 1032         # no deflate data grows by a larger factor


cdef int inflater_begin(Inflater* f, int32_t encoding, void* room) noexcept nogil:
    cdef int reason
    memset(f, 0, sizeof(Inflater))
    f.encoding = encoding
    f.room = room
    f.kind = codec_of(encoding)
    if f.kind == NULL:
        return WHAT_NO_LIBRARY
    reason = f.kind.begin(f)
    if reason != 0:
        f.kind = NULL
    return reason


cdef void inflater_end(Inflater* f) noexcept nogil:
    if f.kind != NULL:
        f.kind.end(f)
    f.kind = NULL


cdef inline int64_t _least(int64_t a, int64_t b) noexcept nogil:
    return a if a < b else b


cdef bint _may_begin(int32_t encoding, unsigned char first) noexcept nogil:
    # Returns whether a member or frame may begin with this byte. ISA-L doesn't look at GZIP's first byte. The ZSTD
    # library may also know formats from before its first version, and where such data is damaged, it claims to have
    # made bytes that it hasn't written; with LZ4's frames, too, skippable frames are the only other ones.
    if encoding == ENCODING_GZIP:
        return first == 0x1f
    if encoding == ENCODING_ZSTD:
        return first == 0x28 or first & 0xf0 == 0x50
    if encoding == ENCODING_LZ4:
        return first == 0x04 or first & 0xf0 == 0x50
    if encoding == ENCODING_XZ:
        return first == 0xfd
    return encoding != ENCODING_BZ2 or first == 0x42


cdef int _next_member(Inflater* f, const unsigned char* source, int64_t* left, int64_t* zeros) noexcept nogil:
    # Prepares for the member or frame that begins here, if there is one.
    zeros[0] = 0
    if (f.encoding == ENCODING_GZIP or f.encoding == ENCODING_XZ) and f.members > 0:
        while left[0] > 0 and source[zeros[0]] == 0:
            zeros[0] += 1
            left[0] -= 1
        f.place += zeros[0]
    if left[0] == 0:
        return 0
    if f.members > 0 and f.encoding == ENCODING_ZLIB:
        return WHAT_TRAILING
    f.begun = f.place
    if not _may_begin(f.encoding, source[zeros[0]]):
        return WHAT_NO_HEADER
    f.inside = True
    return f.kind.next_member(f)


cdef int inflater_run(Inflater* f, const unsigned char** source, int64_t* left, unsigned char* into, int64_t n,
                      int64_t* written_bytes) noexcept nogil:
    cdef CodecCall call
    cdef int64_t skipped = 0
    cdef bint waited
    cdef int reason = 0
    written_bytes[0] = 0
    while written_bytes[0] < n:
        memset(&call, 0, sizeof(CodecCall))
        if not f.inside:
            reason = _next_member(f, source[0], left, &skipped)
            source[0] += skipped
            if reason == 0 and not f.inside:
                return 0
        waited = f.full
        if reason == 0:
            call.source = source[0]
            call.left = left[0]
            call.into = into + written_bytes[0]
            call.n = n - written_bytes[0]
            reason = f.kind.run(f, &call)
        source[0] += call.took
        left[0] -= call.took
        f.place += call.took
        written_bytes[0] += call.written
        if reason == WHAT_NO_HEADER or reason == WHAT_DICTIONARY or reason == WHAT_WINDOW:
            f.place = f.begun
            return WHAT_TRAILING if reason == WHAT_NO_HEADER and f.members > 0 else reason
        if reason != 0:
            return reason
        if call.ended:
            f.inside = False
            f.members += 1
        elif call.took == 0 and call.written == 0 and not waited:
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
    cdef InflateParams setup

    def __init__(self, tuple inputs, tuple outputs, int32_t encoding, int64_t limit):
        if self.params != NULL:
            raise TypeError("a step can't be initialised twice")
        self.inputs = inputs
        self.outputs = outputs
        self.setup.encoding = encoding
        self.setup.limit = limit
        self.params = &self.setup
        self.run = _run_inflate

    cdef object explain(self, const Fault* fault):
        which = "" if fault.b < 0 else f" string {fault.b} of the batch:"
        if fault.what == WHAT_LIMIT:
            return new_error(CODE_TOO_LARGE,
                f"decode_compressed:{which} more than {fault.a} bytes when decompressed. If that is no attack, raise "
                "max_record_bytes")
        if fault.what == WHAT_NO_MEMORY:
            return new_error(CODE_EXHAUSTED, f"decode_compressed:{which} no memory for {fault.a} bytes")
        text = f"decode_compressed:{which} {inflate_sentence(fault.what, self.setup.encoding, fault.a)}"
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
    cdef int64_t claim
    if f.encoding == ENCODING_GZIP and n >= 18:
        memcpy(&size, source + n - 4, 4)
        guess = _least(size, DEFLATE_RATIO * n)
    elif f.encoding == ENCODING_ZSTD:
        claim = zstd_claim(source, n)
        if claim >= 0:
            guess = claim
    return guess


cdef int _run_inflate(const void* params, const Cell* inputs, Cell* outputs, Arena* arena, Fault* fault) noexcept nogil:
    cdef const InflateParams* setup = <const InflateParams*>params
    cdef const Cell* cell = &inputs[0]
    cdef Cell* out = &outputs[0]
    cdef Inflater f
    cdef const unsigned char* source = cell.data
    cdef unsigned char* into = NULL
    cdef unsigned char* larger
    cdef int64_t n = 1, i, left = cell.nbytes, position = 0, start, room = 0, need, written_bytes = 0
    cdef int64_t* offsets = NULL
    cdef void* memory
    cdef int reason
    if setup.encoding == ENCODING_NONE:
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
        start = position
        reason = inflater_begin(&f, setup.encoding, memory)
        # one more: the end shows only if room is left
        need = 0 if reason != 0 else _least(_guess(&f, source, left), setup.limit) + 1
        while reason == 0:
            if room - position < need:
                need += position
                larger = <unsigned char*>arena_take(arena, position + need)
                if larger == NULL:
                    inflater_end(&f)
                    return _inflate_fault(fault, WHAT_NO_MEMORY, position + need, i if cell.ndim > 0 else -1)
                if position > 0:
                    memcpy(larger, into, position)
                into = larger
                room = position + need
            need = _least(room - position, setup.limit + 1 - (position - start))
            reason = inflater_run(&f, &source, &left, into + position, need, &written_bytes)
            position += written_bytes
            if position - start > setup.limit:
                inflater_end(&f)
                return _inflate_fault(fault, WHAT_LIMIT, setup.limit, i if cell.ndim > 0 else -1)
            if written_bytes < need:
                break
            need = 1
        if reason == 0 and f.inside:
            reason = WHAT_CUT
        inflater_end(&f)
        if reason != 0:
            return _inflate_fault(fault, reason, f.place, i if cell.ndim > 0 else -1)
        if cell.ndim > 0:
            offsets[i + 1] = position
    out.data = into if into != NULL else <unsigned char*>memory
    out.nbytes = position
    out.offsets = offsets
    out.ndim = cell.ndim
    memcpy(out.dims, cell.dims, cell.ndim * sizeof(int64_t))
    return 0
