"""Native decoding steps: bytes as numbers, and splitting fixed-length records into fields."""
cimport cython
from libc.stdint cimport int32_t, int64_t, uint16_t, uint32_t, uint64_t, uintptr_t
from libc.string cimport memcpy, memset
from queuecore._core.atoms.dims cimport MAX_DIMS
from queuecore._core.atoms.errors cimport CODE_EXHAUSTED, CODE_INVALID_ARGUMENT, new_error
from queuecore._core.atoms.memory cimport calloc, free, malloc
from queuecore._core.atoms.process cimport check_layout
from queuecore._core.atoms.platform cimport Fault, Leaf, iovec, layout_hash, size_product
from queuecore._core.steps.stages cimport Arena, Cell, Span, Step, arena_output, arena_take, spans_of


cdef extern from *:
    uint16_t __builtin_bswap16(uint16_t) noexcept nogil
    uint32_t __builtin_bswap32(uint32_t) noexcept nogil
    uint64_t __builtin_bswap64(uint64_t) noexcept nogil

check_layout(layout_hash())

cdef enum:
    SCATTER_FROM = 768         # mean bytes of a piece: from here an iovec costs less than a second copy
    STAGE_BYTES = 256 << 10    # half of a small server's L2 cache, and long enough to hide the system call
    SPLIT_BYTES = 16 << 10     # records split together: a third of a first-level cache
    GROUP_BYTES = 16 << 10     # records gathered together: what prefetching may run ahead within L1
    GROUP_RECORDS = 64

ctypedef const unsigned char* bytes_in
ctypedef unsigned char* bytes_out


cdef inline void _reverse(bytes_out dst, bytes_in src, int64_t nbytes, int32_t unit) noexcept nogil:
    # dst may be src.
    cdef int64_t i
    cdef uint16_t h
    cdef uint32_t w
    cdef uint64_t q, r
    if unit == 2:
        for i in range(0, nbytes, 2):
            memcpy(&h, src + i, 2)
            h = __builtin_bswap16(h)
            memcpy(dst + i, &h, 2)
    elif unit == 4:
        for i in range(0, nbytes, 4):
            memcpy(&w, src + i, 4)
            w = __builtin_bswap32(w)
            memcpy(dst + i, &w, 4)
    elif unit == 8:
        for i in range(0, nbytes, 8):
            memcpy(&q, src + i, 8)
            q = __builtin_bswap64(q)
            memcpy(dst + i, &q, 8)
    else:
        for i in range(0, nbytes, 16):
            memcpy(&q, src + i, 8)
            memcpy(&r, src + i + 8, 8)
            q = __builtin_bswap64(q)
            r = __builtin_bswap64(r)
            memcpy(dst + i, &r, 8)
            memcpy(dst + i + 8, &q, 8)


cdef inline void _copy(bytes_out dst, bytes_in src, int64_t nbytes, int32_t swap) noexcept nogil:
    cdef int64_t i
    if swap == 0:
        memcpy(dst, src, nbytes)
    elif swap > 0:
        _reverse(dst, src, nbytes, swap)
    else:
        for i in range(nbytes):
            dst[i] = src[i] != 0


cdef void _copy_strided(bytes_out dst, int64_t dst_stride, bytes_in src, int64_t src_stride, int64_t n, int64_t nbytes,
                        int32_t swap) noexcept nogil:
    # A known size lets the compiler copy in registers: the usual field is a scalar.
    cdef int64_t i
    if swap != 0:
        for i in range(n):
            _copy(dst + i * dst_stride, src + i * src_stride, nbytes, swap)
    elif nbytes == 1:
        for i in range(n):
            dst[i * dst_stride] = src[i * src_stride]
    elif nbytes == 2:
        for i in range(n):
            memcpy(dst + i * dst_stride, src + i * src_stride, 2)
    elif nbytes == 4:
        for i in range(n):
            memcpy(dst + i * dst_stride, src + i * src_stride, 4)
    elif nbytes == 8:
        for i in range(n):
            memcpy(dst + i * dst_stride, src + i * src_stride, 8)
    elif nbytes == 16:
        for i in range(n):
            memcpy(dst + i * dst_stride, src + i * src_stride, 16)
    elif nbytes == 32:
        for i in range(n):
            memcpy(dst + i * dst_stride, src + i * src_stride, 32)
    elif nbytes == 64:
        for i in range(n):
            memcpy(dst + i * dst_stride, src + i * src_stride, 64)
    else:
        for i in range(n):
            memcpy(dst + i * dst_stride, src + i * src_stride, nbytes)


cdef bint layout_plan(RecordLayout* layout) noexcept nogil:
    cdef int64_t position = 0, best, leaf_bytes = 0
    cdef int32_t i, j, best_leaf = 0, best_piece = 0, count = 0
    cdef Leaf* leaf
    cdef RecordPart* part
    layout.mends = False
    for i in range(layout.leaf_count):
        count += layout.leaves[i].pieces
        leaf_bytes += layout.leaves[i].row_bytes
        if layout.leaves[i].swap != 0:
            layout.mends = True
    layout.lone_records = layout.hop_bytes - layout.record_bytes > WIDE_GAP
    layout.stage_records = 1
    if not layout.lone_records and layout.hop_bytes < STAGE_BYTES:
        layout.stage_records = (STAGE_BYTES - layout.record_bytes) // layout.hop_bytes + 1
        if layout.stage_records < 1:
            layout.stage_records = 1
    layout.place = PLACE_STAGE
    if count == 1 and leaf_bytes == layout.record_bytes and (layout.hop_bytes == layout.record_bytes
                                                         or layout.lone_records):
        layout.place = PLACE_DIRECT
        return True
    if layout.hop_bytes < layout.record_bytes or layout.record_bytes // count < SCATTER_FROM:
        return True
    # Each piece may be followed by a gap, and the record by the gap of its hop.
    layout.parts = <RecordPart*>malloc(size_product(2 * count + 2, sizeof(RecordPart)))
    if layout.parts == NULL:
        return False
    while True:  # takes the pieces in the order of the file; a plan is made once, so the quadratic search may stay
        best = -1
        for i in range(layout.leaf_count):
            leaf = &layout.leaves[i]
            for j in range(leaf.pieces):
                if leaf.offsets[j] >= position and (best < 0 or leaf.offsets[j] < best):
                    best = leaf.offsets[j]
                    best_leaf = i
                    best_piece = j
        if best < 0:
            best = layout.hop_bytes if not layout.lone_records else layout.record_bytes
            best_leaf = -1
        if best > position:
            part = &layout.parts[layout.part_count]
            part.leaf = -1
            part.nbytes = best - position
            part.row_offset = 0
            if part.nbytes > layout.dump_bytes:
                layout.dump_bytes = part.nbytes
            layout.part_count += 1
        if best_leaf < 0:
            break
        part = &layout.parts[layout.part_count]
        part.leaf = best_leaf
        part.nbytes = layout.leaves[best_leaf].piece_bytes
        part.row_offset = best_piece * part.nbytes
        layout.part_count += 1
        position = best + part.nbytes
    if layout.record_bytes // layout.part_count >= SCATTER_FROM:
        layout.place = PLACE_SCATTER
    return True


cdef void layout_clear(RecordLayout* layout) noexcept nogil:
    free(layout.parts)
    layout.parts = NULL


cdef int layout_iovecs(const RecordLayout* layout, iovec* iov, unsigned char* slot, int64_t row, int64_t n,
                       unsigned char* dump) noexcept nogil:
    cdef int count = 0
    cdef int64_t i
    cdef int32_t p
    cdef const RecordPart* part
    cdef const Leaf* leaf
    for i in range(n):
        for p in range(layout.part_count):
            part = &layout.parts[p]
            if part.leaf < 0:
                iov[count].iov_base = dump
            else:
                leaf = &layout.leaves[part.leaf]
                iov[count].iov_base = slot + leaf.slot_offset + (row + i) * leaf.row_bytes + part.row_offset
            iov[count].iov_len = part.nbytes
            count += 1
    # The gap after the last record isn't read: the file may end there.
    if layout.hop_bytes > layout.record_bytes and not layout.lone_records:
        count -= 1
        if layout.parts[layout.part_count - 1].nbytes > layout.hop_bytes - layout.record_bytes:
            iov[count].iov_len -= layout.hop_bytes - layout.record_bytes  # the last gap began inside the record
            count += 1
    return count


cdef void layout_split(const RecordLayout* layout, const unsigned char* records, int64_t stride, unsigned char* slot,
                       int64_t row, int64_t n) noexcept nogil:
    # Field by field over groups of records that stay in the first cache: each loop then copies one size from one
    # stride.
    cdef int64_t group = SPLIT_BYTES // stride if stride < SPLIT_BYTES else 1
    cdef int64_t first = 0, m
    cdef int32_t i, j
    cdef const Leaf* leaf
    cdef bytes_out dst
    while first < n:
        m = group if n - first > group else n - first
        for i in range(layout.leaf_count):
            leaf = &layout.leaves[i]
            dst = slot + leaf.slot_offset + (row + first) * leaf.row_bytes
            for j in range(leaf.pieces):
                _copy_strided(dst + j * leaf.piece_bytes, leaf.row_bytes, records + first * stride + leaf.offsets[j],
                              stride, m, leaf.piece_bytes, leaf.swap)
        first += m


cdef void layout_gather(const RecordLayout* layout, const unsigned char* store, int64_t stride, const uint32_t* ids,
                        unsigned char* slot, int64_t row, int64_t n) noexcept nogil:
    cdef int64_t group = GROUP_BYTES // stride
    cdef int64_t first, k, m, ahead
    cdef int32_t i, j
    cdef const Leaf* leaf
    cdef bytes_out dst
    if group < 1:
        group = 1
    if group > GROUP_RECORDS:
        group = GROUP_RECORDS
    first = 0
    while first < n:
        m = group if n - first > group else n - first
        for i in range(layout.leaf_count):
            leaf = &layout.leaves[i]
            dst = slot + leaf.slot_offset + (row + first) * leaf.row_bytes
            for j in range(leaf.pieces):
                for k in range(m):
                    if i == 0 and j == 0:  # while this group is copied, the next one comes into the cache
                        ahead = first + m + k
                        if ahead < n:
                            prefetch(store + ids[ahead] * stride, layout.record_bytes)
                    _copy(dst + k * leaf.row_bytes + j * leaf.piece_bytes,
                          store + ids[first + k] * stride + leaf.offsets[j], leaf.piece_bytes, leaf.swap)
        first += m


cdef void layout_mend(const RecordLayout* layout, unsigned char* slot, int64_t row, int64_t n) noexcept nogil:
    cdef int32_t i
    cdef const Leaf* leaf
    cdef bytes_out dst
    if not layout.mends:
        return
    for i in range(layout.leaf_count):
        leaf = &layout.leaves[i]
        if leaf.swap != 0:
            dst = slot + leaf.slot_offset + row * leaf.row_bytes
            _copy(dst, dst, n * leaf.row_bytes, leaf.swap)


cdef enum:
    WHAT_LENGTH = 1       # a string of a bytes, with items of b bytes
    WHAT_UNEQUAL = 2      # strings of a and b bytes
    WHAT_NOT_BOOLEAN = 3  # byte a
    WHAT_NO_MEMORY = 4    # for a bytes

cdef struct RawParams:
    Leaf* leaves          # of a structured dtype; NULL: one item follows the other
    int64_t item_bytes    # bytes of an item, or of a record
    int64_t* dims         # for each leaf: the number of dimensions, then MAX_DIMS of them
    int64_t fixed_bytes   # each string is cut, or filled up with zeros, to this size; 0: taken as it is
    int64_t each_bytes    # of each string, if it is known beforehand; then outputs have one shape. Otherwise 0
    int32_t count         # number of outputs
    int32_t swap


@cython.final
cdef class RawStep(Step):
    """Bytes as numbers.

    Parameters
    ----------
    inputs, outputs : tuple of Component
        One of strings; one, or one for each leaf.
    item_bytes : int
        Of a number, or of a record.
    swap : int
        As of a leaf, if there is none.
    fixed_bytes : int
        To which every string is cut or filled; 0: none is.
    leaves : list of tuple
        Of a record: dtype, shape, swap, offsets, bytes of a piece.
    """
    cdef RawParams raw
    cdef int64_t* offsets

    def __init__(self, tuple inputs, tuple outputs, int64_t item_bytes, int32_t swap, int64_t fixed_bytes, list leaves):
        cdef int64_t position = 0, offset, side
        cdef Leaf* leaf
        cdef int64_t* dims
        if self.params != NULL:
            raise TypeError("a step can't be initialised twice")
        self.inputs = inputs
        self.outputs = outputs
        self.raw.item_bytes = item_bytes
        self.raw.fixed_bytes = fixed_bytes
        self.raw.each_bytes = (inputs[0].nbytes or 0) if inputs else 0
        self.raw.swap = swap
        self.raw.count = len(outputs)
        if leaves:
            self.raw.leaves = <Leaf*>calloc(len(leaves), sizeof(Leaf))
            pieces = sum([len(offsets) for _, _, _, offsets, _ in leaves])
            self.offsets = <int64_t*>malloc(size_product(pieces, sizeof(int64_t)))
            self.raw.dims = <int64_t*>calloc(len(leaves), (1 + MAX_DIMS) * sizeof(int64_t))
            if self.raw.leaves == NULL or self.offsets == NULL or self.raw.dims == NULL:
                raise MemoryError
            leaf = self.raw.leaves
            dims = self.raw.dims
            for _, shape, leaf_swap, offsets, piece_bytes in leaves:
                dims[0] = len(shape)
                for side in shape:
                    dims += 1
                    dims[0] = side
                dims += 1 + MAX_DIMS - len(shape)
                leaf.swap = leaf_swap
                leaf.offsets = self.offsets + position
                leaf.pieces = len(offsets)
                leaf.piece_bytes = piece_bytes
                leaf.row_bytes = leaf.pieces * leaf.piece_bytes
                for offset in offsets:
                    self.offsets[position] = offset
                    position += 1
                leaf += 1
        self.params = &self.raw
        self.run = _run_raw
        self.run_rows = _rows_of_raw

    def __dealloc__(self):
        free(self.raw.leaves)
        free(self.raw.dims)
        free(self.offsets)

    cdef object explain(self, const Fault* fault):
        if fault.what == WHAT_LENGTH and self.raw.leaves != NULL:
            return new_error(CODE_INVALID_ARGUMENT,
                             f"decode_raw: expected records of {fault.b} bytes, got {fault.a} bytes")
        if fault.what == WHAT_LENGTH:
            return new_error(CODE_INVALID_ARGUMENT, f"decode_raw: the input has {fault.a} bytes, which is not a "
                                                    f"multiple of {fault.b}, the item's size")
        if fault.what == WHAT_UNEQUAL:
            return new_error(CODE_INVALID_ARGUMENT, "decode_raw: the strings of a batch must be equally long; there "
                                                    f"are some of {fault.a} and of {fault.b} bytes")
        if fault.what == WHAT_NOT_BOOLEAN:
            return new_error(CODE_INVALID_ARGUMENT, f"decode_raw: expected a bool, a byte 0 or 1, got {fault.a}")
        return new_error(CODE_EXHAUSTED, f"decode_raw: no memory for {fault.a} bytes")


cdef int _raw_fault(Fault* fault, int what, int64_t a, int64_t b) noexcept nogil:
    fault.what = what
    fault.a = a
    fault.b = b
    return -1


cdef int _raw_items(const RawParams* raw, bytes_in source, int64_t n, int64_t string_bytes, Cell* outputs, Arena* arena,
                    Fault* fault) noexcept nogil:
    # Makes numbers of n strings of `string_bytes` each, which lie one behind the other.
    cdef Cell* out
    cdef const Leaf* leaf
    cdef int64_t i, nbytes
    cdef int32_t k, j
    cdef bint is_whole
    if n > 0 and (string_bytes != raw.item_bytes if raw.leaves != NULL else string_bytes % raw.item_bytes != 0):
        return _raw_fault(fault, WHAT_LENGTH, string_bytes, raw.item_bytes)
    for k in range(raw.count):
        out = &outputs[k]
        leaf = NULL
        if raw.leaves != NULL:
            leaf = &raw.leaves[k]
        nbytes = n * (string_bytes if leaf == NULL else leaf.row_bytes)
        is_whole = raw.swap == 0 if leaf == NULL else leaf.swap == 0 and leaf.piece_bytes == raw.item_bytes
        if is_whole and out.data == NULL and <uintptr_t>source % 16 == 0:
            out.data = <unsigned char*>source
        else:
            if out.data == NULL:
                out.data = arena_output(arena, out, nbytes)
                if out.data == NULL:
                    return _raw_fault(fault, WHAT_NO_MEMORY, nbytes, 0)
            if leaf != NULL:
                for j in range(leaf.pieces):
                    _copy_strided(out.data + j * leaf.piece_bytes, leaf.row_bytes, source + leaf.offsets[j],
                                  raw.item_bytes, n, leaf.piece_bytes, leaf.swap)
            elif raw.swap < 0:
                for i in range(nbytes):
                    if source[i] > 1:
                        return _raw_fault(fault, WHAT_NOT_BOOLEAN, source[i], 0)
                memcpy(out.data, source, nbytes)
            else:
                _copy(out.data, source, nbytes, raw.swap)
        out.nbytes = nbytes
        out.offsets = NULL
    return 0


cdef bytes_out _side_by_side(const RawParams* raw, const Cell* cell, int64_t rows, Arena* arena, int64_t* nbytes,
                             Fault* fault) noexcept nogil:
    # Copies strings one behind the other, cut or filled to `fixed_bytes` if there are any. *nbytes: of all of them.
    cdef const Span* spans = spans_of(cell)
    cdef Span span
    cdef bytes_out place
    cdef int64_t position = 0, i
    span.nbytes = cell.nbytes // rows
    nbytes[0] = rows * (raw.fixed_bytes if raw.fixed_bytes > 0 else span.nbytes)
    if spans != NULL and raw.fixed_bytes == 0:
        nbytes[0] = 0
        for i in range(rows):
            nbytes[0] += spans[i].nbytes
    place = <bytes_out>arena_take(arena, nbytes[0] + 1)
    if place == NULL:
        _raw_fault(fault, WHAT_NO_MEMORY, nbytes[0], 0)
        return NULL
    for i in range(rows):
        span.data = cell.data + i * span.nbytes
        if spans != NULL:
            span = spans[i]
        if raw.fixed_bytes == 0:
            memcpy(place + position, span.data, span.nbytes)
            position += span.nbytes
            continue
        span.nbytes = min(span.nbytes, raw.fixed_bytes)
        memcpy(place + position, span.data, span.nbytes)
        memset(place + position + span.nbytes, 0, raw.fixed_bytes - span.nbytes)
        position += raw.fixed_bytes
    return place


cdef int _rows_of_raw(const void* params, const Cell* inputs, Cell* outputs, int64_t rows, Arena* arena,
                      Fault* fault) noexcept nogil:
    cdef const RawParams* raw = <const RawParams*>params
    cdef const Span* spans = spans_of(&inputs[0])
    cdef Span* row_spans
    cdef bytes_out source = inputs[0].data
    cdef int64_t nbytes, i
    if spans == NULL and raw.fixed_bytes == 0:
        return _raw_items(raw, source, rows, inputs[0].nbytes // rows, outputs, arena, fault)
    if raw.fixed_bytes == 0:
        for i in range(rows):
            if spans[i].nbytes != raw.item_bytes if raw.leaves != NULL else spans[i].nbytes % raw.item_bytes != 0:
                return _raw_fault(fault, WHAT_LENGTH, spans[i].nbytes, raw.item_bytes)
            if raw.each_bytes > 0 and spans[i].nbytes != raw.each_bytes:
                return _raw_fault(fault, WHAT_UNEQUAL, spans[i].nbytes, raw.each_bytes)
    if raw.fixed_bytes == 0 and raw.leaves == NULL and raw.swap == 0 and raw.each_bytes == 0:  # as they lie
        outputs[0].offsets = inputs[0].offsets
        return 0
    source = _side_by_side(raw, &inputs[0], rows, arena, &nbytes, fault)
    if source == NULL:
        return -1
    if raw.fixed_bytes > 0 or raw.leaves != NULL or raw.each_bytes > 0:
        return _raw_items(raw, source, rows, nbytes // rows, outputs, arena, fault)
    row_spans = <Span*>arena_take(arena, rows * sizeof(Span))
    if row_spans == NULL:
        return _raw_fault(fault, WHAT_NO_MEMORY, rows * <int64_t>sizeof(Span), 0)
    if _raw_items(raw, source, 1, nbytes, outputs, arena, fault) != 0:
        return -1
    nbytes = 0
    for i in range(rows):
        row_spans[i].data = outputs[0].data + nbytes
        row_spans[i].nbytes = spans[i].nbytes
        nbytes += row_spans[i].nbytes
    outputs[0].offsets = <const int64_t*>row_spans
    return 0


cdef int _run_raw(const void* params, const Cell* inputs, Cell* outputs, Arena* arena, Fault* fault) noexcept nogil:
    cdef const RawParams* raw = <const RawParams*>params
    cdef const Cell* cell = &inputs[0]
    cdef Cell* out
    cdef bytes_in source = cell.data
    cdef bytes_out padded
    cdef int64_t n = 1, string_bytes = cell.nbytes, i
    cdef const int64_t* dims
    cdef int32_t k
    for i in range(cell.ndim):
        n *= cell.dims[i]
    if cell.ndim > 0:
        string_bytes = 0 if n == 0 else cell.offsets[1] - cell.offsets[0]
    if raw.fixed_bytes > 0:
        padded = <bytes_out>arena_take(arena, n * raw.fixed_bytes + 1)
        if padded == NULL:
            return _raw_fault(fault, WHAT_NO_MEMORY, n * raw.fixed_bytes, 0)
        for i in range(n):
            if cell.ndim > 0:
                source = cell.data + cell.offsets[i]
                string_bytes = cell.offsets[i + 1] - cell.offsets[i]
            if string_bytes > raw.fixed_bytes:
                string_bytes = raw.fixed_bytes
            memcpy(padded + i * raw.fixed_bytes, source, string_bytes)
            memset(padded + i * raw.fixed_bytes + string_bytes, 0, raw.fixed_bytes - string_bytes)
        source = padded
        string_bytes = raw.fixed_bytes
    elif cell.ndim > 0:
        for i in range(1, n):
            if cell.offsets[i + 1] - cell.offsets[i] != string_bytes:
                return _raw_fault(fault, WHAT_UNEQUAL, string_bytes, cell.offsets[i + 1] - cell.offsets[i])
    if _raw_items(raw, source, n, string_bytes, outputs, arena, fault) != 0:
        return -1
    for k in range(raw.count):
        out = &outputs[k]
        out.ndim = cell.ndim
        memcpy(out.dims, cell.dims, cell.ndim * sizeof(int64_t))
        if raw.leaves == NULL:
            out.dims[out.ndim] = string_bytes // raw.item_bytes
            out.ndim += 1
        else:
            dims = raw.dims + k * (1 + MAX_DIMS)
            memcpy(out.dims + out.ndim, dims + 1, dims[0] * sizeof(int64_t))
            out.ndim += <int32_t>dims[0]
    return 0
