"""Steps on strings of bytes: their pieces, strings put together, comparisons, and tables of them.

A cell without dimensions is one string; it goes with every string of a cell that has some. No step changes its input,
and results that are parts of it, or of the step, are not copied.
"""
cimport cython
from libc.stdint cimport int32_t, int64_t, uint64_t
from libc.string cimport memchr, memcmp, memcpy
from queuecore._core.atoms.errors cimport CODE_INVALID_ARGUMENT, new_error
from queuecore._core.atoms.memory cimport free, malloc
from queuecore._core.atoms.platform cimport Fault, layout_hash, size_product
from queuecore._core.atoms.process cimport check_layout
from queuecore._core.steps.elementwise cimport (
    WHAT_NO_MEMORY, bytes_in, bytes_out, step_explain, step_fault, step_place)
from queuecore._core.steps.stages cimport Arena, Cell, Step, arena_take, made_bytes_of

check_layout(layout_hash())

# Numbers of comparisons.
COMPARISONS = ("==", "!=", "<", "<=", ">", ">=")

cdef enum:
    WHAT_PIECES = 1       # a string has a pieces, and number b was asked for
    WHAT_SHAPES = 2       # a strings are combined with b
    WHAT_UNKNOWN = 3      # a string of a bytes is none of the b keys
    EQUAL = 0             # the places of COMPARISONS
    UNEQUAL = 1
    LESS = 2
    LESS_EQUAL = 3
    GREATER = 4

cdef extern from *:
    """
    // Half of what a process may address.
    static constexpr int64_t kMostText = int64_t(1) << 46;
    static unsigned char qc_no_text[1];
    """
    const int64_t MOST_TEXT "kMostText"
    unsigned char* no_text "qc_no_text"


cdef inline int64_t _count(const Cell* cell) noexcept nogil:
    cdef int64_t n = 1
    cdef int32_t i
    for i in range(cell.ndim):
        n *= cell.dims[i]
    return n


cdef inline bytes_in _text(const Cell* cell, int64_t i, int64_t* nbytes) noexcept nogil:
    # Returns string i of a cell; a lone string is every one.
    if cell.ndim == 0:
        nbytes[0] = cell.nbytes
        return cell.data
    nbytes[0] = cell.offsets[i + 1] - cell.offsets[i]
    return cell.data + cell.offsets[i]


cdef inline void _shape(Cell* out, const Cell* like) noexcept nogil:
    out.ndim = like.ndim
    memcpy(out.dims, like.dims, like.ndim * sizeof(int64_t))


cdef inline void _lone(Cell* out, bytes_in text, int64_t nbytes) noexcept nogil:
    out.data = <bytes_out>text if text != NULL else no_text
    out.nbytes = nbytes
    out.offsets = NULL
    out.ndim = 0


cdef int64_t* _room(Cell* out, int64_t n, int64_t nbytes, Arena* arena, Fault* fault) noexcept nogil:
    # Returns the offsets of n strings of so many bytes, the first one set; NULL: no memory. `data` has the room for the
    # bytes.
    cdef int64_t* offsets = <int64_t*>arena_take(arena, size_product(n + 1, sizeof(int64_t)))
    out.data = <bytes_out>arena_take(arena, nbytes + 1)
    if offsets == NULL or out.data == NULL:
        step_fault(fault, WHAT_NO_MEMORY, (n + 1) * <int64_t>sizeof(int64_t) + nbytes, 0)
        return NULL
    offsets[0] = 0
    out.offsets = offsets
    return offsets


cdef int _copy(bytes_out* place, bytes data) except -1:
    # Copies bytes to memory of our own.
    place[0] = <bytes_out>malloc(size_product(len(data) + 1, 1))
    if place[0] == NULL:
        raise MemoryError
    memcpy(place[0], <const char*>data, len(data))
    return 0


# ---- pieces ----------------------------------------------------------------------------------------------------------

cdef struct SplitParams:
    bytes_out separator
    int64_t separator_bytes   # 0: blanks, however many
    int64_t most              # cuts of one string; -1: any number
    int64_t index             # of the wanted piece; negative: from the end
    bint one                  # only one piece of each string is wanted
    bint counts               # the numbers of pieces are a second output

# A string that is being cut.
cdef struct Walk:
    bytes_in p
    bytes_in e
    int64_t left
    bint done


cdef inline bint _blank(unsigned char byte) noexcept nogil:
    return byte == 32 or (9 <= byte and byte <= 13)


cdef inline bytes_in _find(bytes_in p, bytes_in e, const SplitParams* s) noexcept nogil:
    # Returns the first separator in the bytes from p to e, or NULL.
    cdef int64_t m = s.separator_bytes
    while e - p >= m:
        p = <bytes_in>memchr(p, s.separator[0], e - p - m + 1)
        if p == NULL or memcmp(p, s.separator, m) == 0:
            return p
        p += 1
    return NULL


cdef inline bint _next_piece(const SplitParams* s, Walk* w, bytes_in* begin, bytes_in* end) noexcept nogil:
    cdef bytes_in q
    if w.done:
        return False
    if s.separator_bytes == 0:
        while w.p < w.e and _blank(w.p[0]):
            w.p += 1
        if w.p == w.e:
            w.done = True
            return False
    begin[0] = w.p
    q = NULL
    if w.left != 0 and s.separator_bytes > 0:
        q = _find(w.p, w.e, s)
    elif w.left != 0:
        q = w.p
        while q < w.e and not _blank(q[0]):
            q += 1
    if q == NULL:
        end[0] = w.e
        w.done = True
        return True
    end[0] = q
    w.p = q + s.separator_bytes
    w.left -= w.left > 0
    return True


cdef inline Walk _walk(const SplitParams* s, const Cell* cell, int64_t i) noexcept nogil:
    cdef Walk w
    cdef int64_t nbytes = 0
    w.p = _text(cell, i, &nbytes)
    if w.p == NULL:
        w.p = no_text
    w.e = w.p + nbytes
    w.left = s.most
    w.done = False
    return w


cdef inline int64_t _pieces(const SplitParams* s, const Cell* cell, int64_t i) noexcept nogil:
    cdef Walk w = _walk(s, cell, i)
    cdef bytes_in begin
    cdef bytes_in end
    cdef int64_t n = 0
    while _next_piece(s, &w, &begin, &end):
        n += 1
    return n


cdef inline int _piece(const SplitParams* s, const Cell* cell, int64_t i, bytes_in* begin, bytes_in* end,
                       Fault* fault) noexcept nogil:
    # Finds the wanted piece of string i.
    cdef Walk w = _walk(s, cell, i)
    cdef int64_t at = s.index, n = 0
    if at < 0:
        at += _pieces(s, cell, i)
    while at >= 0 and _next_piece(s, &w, begin, end):
        if n == at:
            return 0
        n += 1
    return step_fault(fault, WHAT_PIECES, _pieces(s, cell, i), s.index)


@cython.final
cdef class SplitStep(Step):
    """The pieces of strings between separators.

    Parameters
    ----------
    inputs, outputs : tuple of Component
        One of strings; one of strings, and the numbers of pieces if there is a second one.
    separator : bytes
        Empty: blanks.
    most : int
        Cuts of one string; -1: any number.
    index : int or None
        Of the only piece that is wanted of each string.
    """
    cdef SplitParams setup

    def __init__(self, tuple inputs, tuple outputs, bytes separator not None, int64_t maxsplit, index):
        if self.params != NULL:
            raise TypeError("a step can't be initialised twice")
        self.inputs = inputs
        self.outputs = outputs
        _copy(&self.setup.separator, separator)
        self.setup.separator_bytes = len(separator)
        self.setup.most = maxsplit
        self.setup.one = index is not None
        self.setup.index = index if index is not None else 0
        self.setup.counts = len(outputs) > 1
        self.params = &self.setup
        self.run = _run_piece if self.setup.one else _run_split

    def __dealloc__(self):
        free(self.setup.separator)

    cdef object explain(self, const Fault* fault):
        if fault.what == WHAT_PIECES:
            return new_error(CODE_INVALID_ARGUMENT, f"split: a string has {fault.a} piece{'s' * (fault.a != 1)}, so "
                                                    f"that there is no index {fault.b}")
        return step_explain("split", fault)


cdef int _run_piece(const void* params, const Cell* inputs, Cell* outputs, Arena* arena, Fault* fault) noexcept nogil:
    cdef const SplitParams* s = <const SplitParams*>params
    cdef const Cell* cell = &inputs[0]
    cdef bytes_in begin = NULL
    cdef bytes_in end = NULL
    cdef int64_t n = _count(cell), i
    cdef int64_t* offsets
    if cell.ndim == 0:
        if _piece(s, cell, 0, &begin, &end, fault) != 0:
            return -1
        _lone(&outputs[0], begin, end - begin)
        return 0
    offsets = _room(&outputs[0], n, cell.offsets[n] - cell.offsets[0] if n > 0 else 0, arena, fault)
    if offsets == NULL:
        return -1
    for i in range(n):
        if _piece(s, cell, i, &begin, &end, fault) != 0:
            return -1
        memcpy(outputs[0].data + offsets[i], begin, end - begin)
        offsets[i + 1] = offsets[i] + (end - begin)
    outputs[0].nbytes = offsets[n]
    _shape(&outputs[0], cell)
    return 0


cdef int _run_split(const void* params, const Cell* inputs, Cell* outputs, Arena* arena, Fault* fault) noexcept nogil:
    cdef const SplitParams* s = <const SplitParams*>params
    cdef const Cell* cell = &inputs[0]
    cdef bytes_in begin = NULL
    cdef bytes_in end = NULL
    cdef Walk w
    cdef int64_t n = _count(cell), i, pieces = 0, position = 0, nbytes = cell.nbytes
    cdef int64_t* offsets
    if cell.ndim > 0:
        nbytes = cell.offsets[n] - cell.offsets[0] if n > 0 else 0
    for i in range(n):
        pieces += _pieces(s, cell, i)
    offsets = _room(&outputs[0], pieces, nbytes, arena, fault)
    if (offsets == NULL
        or (s.counts and step_place(&outputs[1], n * sizeof(int64_t), n * sizeof(int64_t), arena, fault) != 0)):
        return -1
    for i in range(n):
        w = _walk(s, cell, i)
        pieces = position
        while _next_piece(s, &w, &begin, &end):
            memcpy(outputs[0].data + offsets[position], begin, end - begin)
            offsets[position + 1] = offsets[position] + (end - begin)
            position += 1
        if s.counts:
            (<int64_t*>outputs[1].data)[i] = position - pieces
    outputs[0].nbytes = offsets[position]
    outputs[0].ndim = 1
    outputs[0].dims[0] = position
    if s.counts:
        _shape(&outputs[1], cell)
    return 0


# ---- strings together ------------------------------------------------------------------------------------------------

cdef int64_t _alike(const Cell* inputs, int32_t count, const Cell** largest, Fault* fault) noexcept nogil:
    # Returns how many strings each of several cells has, apart from lone strings, and a cell of that shape; -1: they
    # differ.
    cdef int32_t i
    largest[0] = &inputs[0]
    for i in range(1, count):
        if largest[0].ndim == 0:
            largest[0] = &inputs[i]
        elif inputs[i].ndim > 0 and (inputs[i].ndim != largest[0].ndim or
                                     memcmp(inputs[i].dims, largest[0].dims, inputs[i].ndim * sizeof(int64_t)) != 0):
            step_fault(fault, WHAT_SHAPES, _count(largest[0]), _count(&inputs[i]))
            return -1
    return _count(largest[0])


cdef object _explain_strings(str label, const Fault* fault):
    if fault.what == WHAT_SHAPES:
        return new_error(CODE_INVALID_ARGUMENT,
                         f"{label}: {fault.a} strings and {fault.b} of another shape can't be combined")
    return step_explain(label, fault)


cdef struct JoinParams:
    bytes_out separator
    int64_t separator_bytes
    int32_t count             # inputs
    bint reduced              # the strings of one input's last dimension are joined


@cython.final
cdef class JoinStep(Step):
    """Strings put together.

    Parameters
    ----------
    inputs, outputs : tuple of Component
        Of strings, of one shape apart from lone strings; one of strings.
    separator : bytes
        Between them.
    reduced : bool
        There is one input, and the strings of its last dimension are put together.
    """
    cdef JoinParams setup

    def __init__(self, tuple inputs, tuple outputs, bytes separator not None, bint reduced):
        if self.params != NULL:
            raise TypeError("a step can't be initialised twice")
        self.inputs = inputs
        self.outputs = outputs
        _copy(&self.setup.separator, separator)
        self.setup.separator_bytes = len(separator)
        self.setup.count = <int32_t>len(inputs)
        self.setup.reduced = reduced
        self.params = &self.setup
        self.run = _run_join

    def __dealloc__(self):
        free(self.setup.separator)

    cdef object explain(self, const Fault* fault):
        return _explain_strings("join", fault)


cdef int _run_join(const void* params, const Cell* inputs, Cell* outputs, Arena* arena, Fault* fault) noexcept nogil:
    cdef const JoinParams* j = <const JoinParams*>params
    cdef Cell* out = &outputs[0]
    cdef const Cell* like = &inputs[0]
    cdef int64_t n, m = j.count, i, k, nbytes = 0, total = 0, position = 0
    cdef int64_t* offsets
    cdef bytes_in text
    cdef int32_t ndim
    n = _alike(inputs, j.count, &like, fault)
    if n < 0:
        return -1
    ndim = like.ndim
    if j.reduced and ndim > 0:
        ndim -= 1
        m = like.dims[ndim]
        n = 1
        for i in range(ndim):
            n *= like.dims[i]
    for i in range(n):
        for k in range(m):
            _text(like if j.reduced else &inputs[k], i * m + k if j.reduced else i, &nbytes)
            total += nbytes + (j.separator_bytes if k > 0 else 0)
            if total > MOST_TEXT:  # a lone string may go with many
                return step_fault(fault, WHAT_NO_MEMORY, total, 0)
    offsets = _room(out, n, total, arena, fault)
    if offsets == NULL:
        return -1
    for i in range(n):
        for k in range(m):
            if k > 0:
                memcpy(out.data + position, j.separator, j.separator_bytes)
                position += j.separator_bytes
            text = _text(like if j.reduced else &inputs[k], i * m + k if j.reduced else i, &nbytes)
            if nbytes > 0:
                memcpy(out.data + position, text, nbytes)
                position += nbytes
        offsets[i + 1] = position
    out.nbytes = total
    out.ndim = ndim
    memcpy(out.dims, like.dims, ndim * sizeof(int64_t))
    if ndim == 0:
        out.offsets = NULL
    return 0


# ---- comparisons -----------------------------------------------------------------------------------------------------

cdef struct CompareParams:
    int32_t how
    int64_t made_bytes


@cython.final
cdef class CompareStep(Step):
    """A comparison of strings, byte by byte; of two of which one begins the other, the longer one is greater.

    Parameters
    ----------
    inputs, outputs : tuple of Component
        Two of strings, of one shape apart from lone strings; one of bools.
    how : str
        One of `COMPARISONS`.
    """
    cdef CompareParams setup

    def __init__(self, tuple inputs, tuple outputs, str how not None):
        self.inputs = inputs
        self.outputs = outputs
        self.setup.how = COMPARISONS.index(how)
        self.setup.made_bytes = made_bytes_of(outputs[0])
        self.params = &self.setup
        self.run = _run_compare

    cdef object explain(self, const Fault* fault):
        return _explain_strings("a comparison", fault)


cdef inline bint _compared(int32_t relation, bytes_in a, int64_t na, bytes_in b, int64_t nb) noexcept nogil:
    cdef int sign = 0
    if relation <= UNEQUAL:
        return (na == nb and (na == 0 or memcmp(a, b, na) == 0)) == (relation == EQUAL)
    if na > 0 and nb > 0:
        sign = memcmp(a, b, na if na < nb else nb)
    if sign == 0:
        sign = (na > nb) - (na < nb)
    if relation == LESS:
        return sign < 0
    if relation == LESS_EQUAL:
        return sign <= 0
    return sign > 0 if relation == GREATER else sign >= 0


cdef int _run_compare(const void* params, const Cell* inputs, Cell* outputs, Arena* arena, Fault* fault) noexcept nogil:
    cdef const CompareParams* c = <const CompareParams*>params
    cdef const Cell* like = NULL
    cdef int64_t n = _alike(inputs, 2, &like, fault), i, na = 0, nb = 0
    cdef bytes_in a
    cdef bytes_in b
    if n < 0 or step_place(&outputs[0], n, c.made_bytes, arena, fault) != 0:
        return -1
    for i in range(n):
        a = _text(&inputs[0], i, &na)
        b = _text(&inputs[1], i, &nb)
        outputs[0].data[i] = _compared(c.how, a, na, b, nb)
    _shape(&outputs[0], like)
    return 0


# ---- tables ----------------------------------------------------------------------------------------------------------

cdef struct TableParams:
    bytes_out keys
    int64_t* ends             # of each key; one more, and the first is 0
    int64_t* slots            # numbers of keys, -1: free
    int64_t mask
    int64_t count
    bytes_out values          # one more than there are keys, if there is a default
    int64_t* value_ends       # of strings, as `ends`; else NULL
    int64_t item              # bytes of a number
    bint has_default
    int64_t made_bytes


cdef inline uint64_t _hash(bytes_in p, int64_t n) noexcept nogil:
    cdef uint64_t digest = <uint64_t>n * 0x9e3779b97f4a7c15u, word
    while n > 0:
        word = 0
        memcpy(&word, p, n if n < 8 else 8)
        digest = (digest ^ word) * 0xff51afd7ed558ccdu
        digest ^= digest >> 32
        p += 8
        n -= 8
    return digest


cdef inline int64_t _slot(const TableParams* t, bytes_in p, int64_t n) noexcept nogil:
    # Returns the slot that has a key, or the free one where it would be.
    cdef int64_t slot = <int64_t>(_hash(p, n) & <uint64_t>t.mask), key
    while True:
        key = t.slots[slot]
        if key < 0 or (t.ends[key + 1] - t.ends[key] == n and memcmp(t.keys + t.ends[key], p, n) == 0):
            return slot
        slot = (slot + 1) & t.mask


cdef int64_t* _ends_of(list texts) except NULL:
    cdef int64_t* ends = <int64_t*>malloc(size_product(len(texts) + 1, sizeof(int64_t)))
    cdef int64_t i = 0
    cdef bytes text
    if ends == NULL:
        raise MemoryError
    ends[0] = 0
    for text in texts:
        ends[i + 1] = ends[i] + len(text)
        i += 1
    return ends


@cython.final
cdef class TableStep(Step):
    """The values of keys.

    Parameters
    ----------
    inputs, outputs : tuple of Component
        One of strings; one of its shape.
    keys : list of bytes
        All of them different.
    values : ndarray or list of bytes
        One for each key, and at the end that of all other keys if `has_default`.
    has_default : bool
        Otherwise other keys are an error.
    """
    cdef TableParams setup

    def __init__(self, tuple inputs, tuple outputs, list keys not None, values, bint has_default):
        cdef TableParams* t = &self.setup
        cdef int64_t i, slots = 8
        if self.params != NULL:
            raise TypeError("a step can't be initialised twice")
        self.inputs = inputs
        self.outputs = outputs
        t.count = len(keys)
        t.has_default = has_default
        _copy(&t.keys, b"".join(keys))
        t.ends = _ends_of(keys)
        if isinstance(values, list):
            _copy(&t.values, b"".join(values))
            t.value_ends = _ends_of(values)
        else:
            _copy(&t.values, values.tobytes())
            t.item = values.dtype.itemsize
            t.made_bytes = made_bytes_of(outputs[0])
        while slots < 2 * t.count:
            slots *= 2
        t.slots = <int64_t*>malloc(size_product(slots, sizeof(int64_t)))
        if t.slots == NULL:
            raise MemoryError
        t.mask = slots - 1
        for i in range(slots):
            t.slots[i] = -1
        for i in range(t.count):
            t.slots[_slot(t, t.keys + t.ends[i], t.ends[i + 1] - t.ends[i])] = i
        self.params = t
        self.run = _run_table

    def __dealloc__(self):
        free(self.setup.keys)
        free(self.setup.ends)
        free(self.setup.slots)
        free(self.setup.values)
        free(self.setup.value_ends)

    cdef object explain(self, const Fault* fault):
        if fault.what == WHAT_UNKNOWN:
            return new_error(CODE_INVALID_ARGUMENT,
                f"table: a string of {fault.a} bytes is none of the {fault.b} keys, and there is no default")
        return step_explain("table", fault)


cdef inline int64_t _value(const TableParams* t, const Cell* cell, int64_t i, Fault* fault) noexcept nogil:
    # Returns the number of the value of string i; -1: there is none.
    cdef int64_t n = 0, index
    cdef bytes_in text = _text(cell, i, &n)
    index = t.slots[_slot(t, text if text != NULL else no_text, n)]
    if index >= 0:
        return index
    if t.has_default:
        return t.count
    step_fault(fault, WHAT_UNKNOWN, n, t.count)
    return -1


cdef int _run_table(const void* params, const Cell* inputs, Cell* outputs, Arena* arena, Fault* fault) noexcept nogil:
    cdef const TableParams* t = <const TableParams*>params
    cdef const Cell* cell = &inputs[0]
    cdef Cell* out = &outputs[0]
    cdef int64_t n = _count(cell), i, index, total = 0
    cdef int64_t* offsets
    if t.value_ends == NULL:
        if step_place(out, n * t.item, t.made_bytes, arena, fault) != 0:
            return -1
        for i in range(n):
            index = _value(t, cell, i, fault)
            if index < 0:
                return -1
            memcpy(out.data + i * t.item, t.values + index * t.item, t.item)
        _shape(out, cell)
        return 0
    if cell.ndim == 0:
        index = _value(t, cell, 0, fault)
        if index < 0:
            return -1
        _lone(out, t.values + t.value_ends[index], t.value_ends[index + 1] - t.value_ends[index])
        return 0
    for i in range(n):
        index = _value(t, cell, i, fault)
        if index < 0:
            return -1
        total += t.value_ends[index + 1] - t.value_ends[index]
        if total > MOST_TEXT:
            return step_fault(fault, WHAT_NO_MEMORY, total, 0)
    offsets = _room(out, n, total, arena, fault)
    if offsets == NULL:
        return -1
    for i in range(n):
        index = _value(t, cell, i, fault)
        total = t.value_ends[index + 1] - t.value_ends[index]
        memcpy(out.data + offsets[i], t.values + t.value_ends[index], total)
        offsets[i + 1] = offsets[i] + total
    out.nbytes = offsets[n]
    _shape(out, cell)
    return 0
