"""Tar archives: finding samples in bytes, and taking them apart. See tar.pxd."""
cimport cython
from libc.stdint cimport int32_t, int64_t
from libc.string cimport memchr, memcmp, memcpy, memset
from queuecore._core.atoms.errors cimport (
    CODE_CHECKSUM, CODE_DATA_LOSS, CODE_EXHAUSTED, CODE_INVALID_ARGUMENT, CODE_TOO_LARGE, CODE_TRUNCATED,
    WHAT_RECORD_CUT, WHAT_RECORD_TOO_LARGE, WHAT_TAR_HEADER, WHAT_TAR_NUMBER, WHAT_TAR_SPARSE, new_error)
from queuecore._core.atoms.platform cimport Fault, layout_hash
from queuecore._core.atoms.process cimport check_layout
from queuecore._core.io.walk cimport (
    WALK_END, WALK_FAULT, WALK_FULL, WALK_MORE, RecordWalk, WalkKind, walk_fault, walk_left)
from queuecore._core.steps.stages cimport Arena, Cell, Step, arena_take

check_layout(layout_hash())

cdef enum:
    TAR_BLOCK = 512
    TAR_NAMES = 1 << 20       # most bytes of what stands before a member's own header: long names, pax records

cdef enum:
    TAR_FOUND = 0
    TAR_MORE = 1              # the bytes end before the member's header does
    TAR_NONE = 2              # the archive's end: a block of zeros, or none
    TAR_WRONG = 3             # `what`

# Bytes of the archive.
cdef struct TarText:
    const unsigned char* data
    int64_t nbytes

# A member, in bytes of an archive.
cdef struct TarMember:
    int64_t begin             # of its first header
    int64_t data              # of its data
    int64_t nbytes
    int64_t end               # behind its data, where the next member begins
    bint regular              # it has data
    TarText folder            # what stands before the name, with a slash between both; or nothing
    TarText name
    int64_t need              # after TAR_MORE: from the member's begin on, so many bytes show more
    int32_t what              # after TAR_WRONG


cdef inline int64_t _padded(int64_t nbytes) noexcept nogil:
    return (nbytes + TAR_BLOCK - 1) // TAR_BLOCK * TAR_BLOCK


cdef inline int64_t _length(const unsigned char* text, int64_t most) noexcept nogil:
    # Returns the bytes of a text up to a zero.
    cdef const void* end = memchr(text, 0, most)
    return most if end == NULL else <const unsigned char*>end - text


cdef int64_t _number(const unsigned char* field, int64_t nbytes) noexcept nogil:
    # Returns an octal number, or, as GNU tar writes those that are larger, one of base 256; -1: it is neither.
    cdef int64_t value = 0, i = 0
    if field[0] & 0x80:
        if field[0] != 0x80:
            return -1
        for i in range(1, nbytes):
            if value >> 54:
                return -1
            value = value << 8 | field[i]
        return value
    while i < nbytes and field[i] == c' ':
        i += 1
    while i < nbytes and c'0' <= field[i] <= c'7':
        value = value << 3 | (field[i] - c'0')
        i += 1
    while i < nbytes:
        if field[i] != 0 and field[i] != c' ':
            return -1
        i += 1
    return value


cdef bint _sound(const unsigned char* header) noexcept nogil:
    # Returns whether the checksum is right, of which old tars took bytes as signed.
    # Whole blocks are added up, in vectors, and the field of the checksum, which counts as spaces, is taken off again.
    cdef int64_t checksum = _number(header + 148, 8)
    cdef int32_t plain = 8 * c' ', large = 0, i
    for i in range(TAR_BLOCK):
        plain += header[i]
        large += header[i] >> 7
    for i in range(148, 156):
        plain -= header[i]
        large -= header[i] >> 7
    return checksum >= 0 and (checksum == plain or checksum == plain - 256 * large)


cdef bint _zeros(const unsigned char* block) noexcept nogil:
    return block[0] == 0 and memcmp(block, block + 1, TAR_BLOCK - 1) == 0


cdef int32_t _pax(const unsigned char* text, int64_t nbytes, TarText* path, int64_t* size) noexcept nogil:
    # Reads records "length key=value\n"; returns what is wrong with them, or 0.
    cdef int64_t position = 0, length, digits, begin
    cdef const unsigned char* record
    cdef const unsigned char* equals
    while position < nbytes:
        record = text + position
        length = digits = 0
        while position + digits < nbytes and digits < 10 and c'0' <= record[digits] <= c'9':
            length = 10 * length + record[digits] - c'0'
            digits += 1
        if digits == 0 or length < digits + 3 or length > nbytes - position or record[digits] != c' ':
            return WHAT_TAR_HEADER
        if record[length - 1] != c'\n':
            return WHAT_TAR_HEADER
        begin = digits + 1
        equals = <const unsigned char*>memchr(record + begin, c'=', length - 1 - begin)
        if equals == NULL:
            return WHAT_TAR_HEADER
        if equals - record - begin == 4 and memcmp(record + begin, b"path", 4) == 0:
            path.data = equals + 1
            path.nbytes = length - 1 - (equals + 1 - record)
            if path.nbytes == 0:  # that of the header again
                path.data = NULL
        elif equals - record - begin > 10 and memcmp(record + begin, b"GNU.sparse", 10) == 0:
            return WHAT_TAR_SPARSE
        elif equals - record - begin == 4 and memcmp(record + begin, b"size", 4) == 0:
            size[0] = 0
            equals += 1
            while equals < record + length - 1:
                if not c'0' <= equals[0] <= c'9' or size[0] >> 59:
                    return WHAT_TAR_HEADER
                size[0] = 10 * size[0] + equals[0] - c'0'
                equals += 1
        position += length
    return 0


cdef inline int _wrong(TarMember* m, int32_t what) noexcept nogil:
    m.what = what
    return TAR_WRONG


cdef int _member(const unsigned char* data, int64_t n, int64_t position, bint check, TarMember* m) noexcept nogil:
    # Reads the headers of the member that begins at `position`, of n bytes of an archive. check: they weren't read
    # before.
    cdef const unsigned char* header
    cdef TarText path
    cdef int64_t size, pax_size = -1, place = position
    cdef int32_t reason
    cdef unsigned char kind
    m.begin = position
    path.data = NULL
    path.nbytes = 0
    while True:
        if n - place < TAR_BLOCK:
            m.need = place + TAR_BLOCK - position
            return TAR_MORE
        header = data + place
        if _zeros(header):
            return TAR_NONE
        if check and not _sound(header):
            return _wrong(m, WHAT_TAR_HEADER)
        size = _number(header + 124, 12)
        if size < 0:
            return _wrong(m, WHAT_TAR_NUMBER)
        kind = header[156]
        place += TAR_BLOCK
        if kind not in (c'L', c'K', c'x', c'X', c'g'):
            break
        if size > TAR_NAMES - (place - position):
            return _wrong(m, WHAT_TAR_NUMBER)
        if n - place < size:
            m.need = place + _padded(size) + TAR_BLOCK - position
            return TAR_MORE
        if kind == c'L':
            path.data = data + place
            path.nbytes = _length(data + place, size)
        elif kind == c'x' or kind == c'X':
            reason = _pax(data + place, size, &path, &pax_size)
            if reason != 0:
                return _wrong(m, reason)
        place += _padded(size)
    if pax_size >= 0:
        size = pax_size
    m.folder.data = NULL
    m.folder.nbytes = 0
    m.name = path
    if path.data == NULL:
        m.name.data = header
        m.name.nbytes = _length(header, 100)
        if memcmp(header + 257, b"ustar\0", 6) == 0 and header[345] != 0:
            m.folder.data = header + 345
            m.folder.nbytes = _length(header + 345, 155)
    if kind == c'S':
        return _wrong(m, WHAT_TAR_SPARSE)
    if kind == 0 and m.name.nbytes > 0 and m.name.data[m.name.nbytes - 1] == c'/':
        kind = c'5'  # old archives have folders by their names
    # Folders, links, devices and pipes have no data, whatever their size says. Members of an unknown kind have.
    m.regular = kind == 0 or kind == c'0' or kind == c'7'
    m.nbytes = 0 if c'1' <= kind <= c'6' else size
    m.data = place
    if m.nbytes > (<int64_t>1 << 60):
        return _wrong(m, WHAT_TAR_NUMBER)
    m.end = place + _padded(m.nbytes)
    return TAR_FOUND


# The stem of a member, and its key.
cdef struct TarStem:
    TarText folder            # as of the member; a slash follows it
    TarText stem
    TarText key


cdef bint _stem(const TarMember* m, TarStem* s) noexcept nogil:
    # Returns whether the member is part of a sample.
    cdef int64_t i, begin = 0
    cdef const unsigned char* dot
    if not m.regular:
        return False
    for i in range(m.name.nbytes):
        if m.name.data[i] == c'/':
            begin = i + 1
    dot = <const unsigned char*>memchr(m.name.data + begin, c'.', m.name.nbytes - begin)
    if dot == NULL or dot == m.name.data + begin:
        return False
    s.folder = m.folder
    s.stem.data = m.name.data
    s.stem.nbytes = dot - m.name.data
    s.key.data = dot + 1
    s.key.nbytes = m.name.data + m.name.nbytes - (dot + 1)
    return True


cdef inline unsigned char _letter(const TarStem* s, int64_t i) noexcept nogil:
    if s.folder.nbytes > 0:
        if i < s.folder.nbytes:
            return s.folder.data[i]
        if i == s.folder.nbytes:
            return c'/'
        i -= s.folder.nbytes + 1
    return s.stem.data[i]


cdef inline int64_t _letters(const TarStem* s) noexcept nogil:
    return s.stem.nbytes + (s.folder.nbytes + 1 if s.folder.nbytes > 0 else 0)


cdef bint _one_stem(const TarStem* a, const TarStem* b) noexcept nogil:
    cdef int64_t i, n = _letters(a)
    if _letters(b) != n:
        return False
    for i in range(n - 1, -1, -1):  # names differ at their ends
        if _letter(a, i) != _letter(b, i):
            return False
    return True


cdef int _sample(const unsigned char* data, int64_t n, int64_t position, int64_t left, int64_t* end, int64_t* need,
                 int32_t* reason) noexcept nogil:
    # Finds the end of the sample that begins at `position`. left: bytes of the archive from there on, or -1. TAR_MORE:
    # it doesn't end before *end. TAR_NONE: there is no further sample.
    cdef TarMember m
    cdef TarStem first
    cdef TarStem other
    cdef int64_t place = position
    cdef bint has_sample = False
    cdef int rc
    memset(&first, 0, sizeof(TarStem))
    while True:
        if left >= 0 and place - position == left:
            end[0] = place
            return TAR_FOUND if has_sample else TAR_NONE
        rc = _member(data, n, place, True, &m)
        if rc == TAR_WRONG:
            reason[0] = m.what
            return rc
        if rc == TAR_MORE:
            end[0] = place
            need[0] = place - position + m.need
            return rc
        if rc == TAR_NONE:
            # The rest is of this sample: zeros, mostly.
            if not has_sample:
                return TAR_NONE
            if left < 0 or n - position < left:
                end[0] = position + left if left >= 0 else n
                need[0] = left if left >= 0 else n - position + TAR_BLOCK
                return TAR_MORE
            end[0] = position + left
            return TAR_FOUND
        if _stem(&m, &other):
            if has_sample and not _one_stem(&first, &other):
                end[0] = place
                return TAR_FOUND
            if not has_sample:
                first = other
                has_sample = True
        if m.end > n and not (left >= 0 and m.data + m.nbytes - position == left):
            end[0] = m.data + m.nbytes
            need[0] = m.end + TAR_BLOCK - position
            return TAR_MORE
        place = m.end if m.end < n else n


cdef int _walk(RecordWalk* w, const unsigned char* data, int64_t n, bint last, int64_t* starts, int64_t limit,
               int64_t* records, Fault* fault) noexcept nogil:
    cdef int64_t position = 0, count = 0, end = 0, need = 0, left
    cdef int32_t reason = 0
    cdef int rc, verdict
    while True:
        starts[count] = position
        left = walk_left(w, n - position, last)
        if left == 0:
            rc = WALK_END
            break
        if count == limit:
            rc = WALK_FULL
            break
        verdict = _sample(data, n, position, left, &end, &need, &reason)
        if verdict == TAR_NONE:
            rc = WALK_END
            break
        if verdict == TAR_WRONG:
            walk_fault(w, CODE_CHECKSUM if reason == WHAT_TAR_HEADER else CODE_DATA_LOSS, reason, 0, 0, fault)
            rc = WALK_FAULT
            break
        if end - position > w.max_record_bytes:
            walk_fault(w, CODE_TOO_LARGE, WHAT_RECORD_TOO_LARGE, end - position, w.max_record_bytes, fault)
            rc = WALK_FAULT
            break
        if verdict == TAR_MORE:
            if 0 <= left < need and (last or n - position >= left):
                walk_fault(w, CODE_TRUNCATED, WHAT_RECORD_CUT, left, need, fault)
                rc = WALK_FAULT
                break
            w.need = need if left < 0 or need < left else left
            rc = WALK_MORE
            break
        w.offset += end - position
        w.record += 1
        position = end
        count += 1
    records[0] = count
    return rc


cdef WalkKind SAMPLES = WalkKind(
    header_bytes=0, frame_bytes=0, least_bytes=TAR_BLOCK, walk=_walk, check=NULL, damaged=NULL)


cdef const WalkKind* tar_kind() noexcept nogil:
    return &SAMPLES


# ---- the step --------------------------------------------------------------------------------------------------------

cdef enum:
    MOST_KEYS = 64

cdef struct SampleParams:
    int32_t count             # of keys
    TarText keys[MOST_KEYS]   # those for one output stand one after the other
    int32_t output[MOST_KEYS] # by key
    bint named                # the first output is the stem
    int32_t outputs


@cython.final
cdef class SampleStep(Step):
    """A sample of an archive as strings: the data of its files, by their keys.

    Parameters
    ----------
    inputs, outputs : tuple of Component
        One of strings; of the stem, if it is wanted, and of each key.
    keys : list of list of bytes
        For each output the keys that it may have, the first one that there is; in small letters.
    named : bool
        Whether the first output is the stem.
    """
    cdef SampleParams setup
    cdef list keys
    cdef list texts

    def __init__(self, tuple inputs, tuple outputs, list keys, bint has_key):
        cdef bytes text
        if self.params != NULL:
            raise TypeError("a step can't be initialised twice")
        self.texts = [text for names in keys for text in names]
        if len(self.texts) > MOST_KEYS:
            raise ValueError(f"{len(self.texts)} keys")
        self.inputs = inputs
        self.outputs = outputs
        self.keys = keys
        self.setup.named = has_key
        self.setup.outputs = <int32_t>len(outputs)
        for number, names in enumerate(keys):
            for text in names:
                self.setup.keys[self.setup.count].data = <const unsigned char*><const char*>text
                self.setup.keys[self.setup.count].nbytes = len(text)
                self.setup.output[self.setup.count] = <int32_t>number + has_key
                self.setup.count += 1
        self.params = &self.setup
        self.run = _run_sample

    cdef object explain(self, const Fault* fault):
        cdef int64_t a = fault.a
        if fault.what == SAMPLE_NO_MEMORY:
            return new_error(CODE_EXHAUSTED, f"TarDataset: no memory for {a} bytes")
        if fault.what == SAMPLE_BROKEN:
            return new_error(CODE_DATA_LOSS, "TarDataset: the sample is damaged")
        if fault.what == SAMPLE_TWICE:
            return new_error(CODE_INVALID_ARGUMENT, f"TarDataset: the sample has two files of {self.texts[a]!r}")
        names = " or ".join(map(repr, self.keys[a - self.setup.named]))
        return new_error(CODE_INVALID_ARGUMENT, f"TarDataset: the sample has no file of {names}")


cdef int32_t _output_of(const SampleParams* setup, const TarText* key) noexcept nogil:
    # Returns the number of the first key that a file's key is, in whatever letters; -1: of none.
    cdef int32_t k
    cdef int64_t i
    cdef unsigned char letter
    for k in range(setup.count):
        if setup.keys[k].nbytes != key.nbytes:
            continue
        for i in range(key.nbytes):
            letter = key.data[i]
            if c'A' <= letter <= c'Z':
                letter += 32
            if letter != setup.keys[k].data[i]:
                break
        else:
            return k
    return -1


cdef int _name_sample(const TarStem* stem, Cell* out, Arena* arena, Fault* fault) noexcept nogil:
    cdef int64_t nbytes = _letters(stem)
    out.data = <unsigned char*>stem.stem.data
    out.nbytes = nbytes
    out.ndim = 0
    out.offsets = NULL
    if stem.folder.nbytes == 0:
        return 0
    out.data = <unsigned char*>arena_take(arena, nbytes)
    if out.data == NULL:
        fault.what = SAMPLE_NO_MEMORY
        fault.a = nbytes
        return -1
    memcpy(out.data, stem.folder.data, stem.folder.nbytes)
    out.data[stem.folder.nbytes] = c'/'
    memcpy(out.data + stem.folder.nbytes + 1, stem.stem.data, stem.stem.nbytes)
    return 0


cdef int _run_sample(const void* params, const Cell* inputs, Cell* outputs, Arena* arena, Fault* fault) noexcept nogil:
    # Nothing is copied: the outputs lie in the record.
    cdef const SampleParams* setup = <const SampleParams*>params
    cdef const Cell* cell = &inputs[0]
    cdef TarMember m
    cdef TarStem stem
    cdef int32_t choices[MOST_KEYS + 1]
    cdef int32_t k, out
    cdef int64_t place = 0
    cdef bint is_begun = False
    cdef int rc
    for out in range(setup.outputs):
        choices[out] = -1
    while place < cell.nbytes:
        rc = _member(cell.data, cell.nbytes, place, False, &m)
        if rc == TAR_NONE:
            break
        if rc != TAR_FOUND or m.nbytes > cell.nbytes - m.data:
            fault.what = SAMPLE_BROKEN
            return -1
        place = m.end
        if not _stem(&m, &stem):
            continue
        if setup.named and not is_begun and _name_sample(&stem, &outputs[0], arena, fault) != 0:
            return -1
        is_begun = True
        k = _output_of(setup, &stem.key)
        if k < 0:
            continue
        out = setup.output[k]
        if choices[out] == k:
            fault.what = SAMPLE_TWICE
            fault.a = k
            return -1
        if choices[out] >= 0 and choices[out] < k:
            continue
        choices[out] = k
        outputs[out].data = cell.data + m.data
        outputs[out].nbytes = m.nbytes
        outputs[out].ndim = 0
        outputs[out].offsets = NULL
    for out in range(setup.named, setup.outputs):
        if choices[out] < 0:
            fault.what = SAMPLE_LACKS
            fault.a = out
            return -1
    return 0

