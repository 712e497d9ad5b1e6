"""Targets of the coverage-guided fuzzer, one for each parser (fuzz_inputs.pxd).

Python can call every target, too: so an ordinary build runs the inputs that are kept.
"""
from libc.stddef cimport size_t
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t, uintptr_t
from libc.stdio cimport fprintf, stderr
from libc.stdlib cimport abort
from libc.string cimport memchr, memcmp, memcpy, memset, strlen
from queuecore._core.atoms.memory cimport free, malloc
from queuecore._core.atoms.process cimport check_layout
from queuecore._core.atoms.errors cimport CODE_CHECKSUM, CODE_TOO_LARGE, CODE_TRUNCATED, WHAT_NO_LIBRARY
from queuecore._core.io.framing cimport FRAME_FIXED, FRAME_LINES, FRAME_TFRECORD, FRAME_WHOLE
from queuecore._core.io.codecs cimport ENCODING_LZ4, ENCODING_ZLIB, INFLATER_BYTES, Inflater, codec_prefer
from queuecore._core.io.inflate cimport INFLATE_ROOM, inflater_begin, inflater_end, inflater_run
from queuecore._core.atoms.platform cimport Fault, alloc_lines, layout_hash
from queuecore._core.io.readers cimport (
    READER_FAULT, READER_RECORD, Framing, NativeReader, Reader, Record, reader_next, reader_open, record_check,
    record_drop)
from queuecore._core.steps.stages cimport Step
from queuecore._core.io.streams cimport ByteStream, stream_close, stream_open, stream_read
from queuecore._core.io.tfrecord cimport (
    TFRECORD_FRAME, TFRECORD_HEADER, TFRECORD_MOST_BYTES, crc32c, tfrecord_check, tfrecord_resync, tfrecord_walk)
from queuecore._core.io.walk cimport WALK_END, WALK_FULL, WALK_MORE, RecordWalk
from queuecore._core.testing.fuzz_inputs cimport Given, Growing, Verdict, append, choice, copy_of, least
from queuecore._core.testing.fuzz_steps cimport (
    ROLE_LENGTHS, ROLE_PADDED, ROLE_SPLITS, ROLE_VALUES, Output, Steps, both_ways)
from queuecore._core.testing.fuzz_csv cimport fuzz_csv, fuzz_csv_record, fuzz_number
from queuecore._core.testing.fuzz_tar cimport fuzz_tar

import os

import numpy as np

from queuecore._core.steps.example import ExampleStep
from queuecore._core.io.codecs import library
from queuecore._core.io.inflate import InflateStep
from queuecore._elements.component import BYTES, Component

check_layout(layout_hash())

cdef extern from "unistd.h" nogil:
    int ftruncate(int, int64_t)
    int64_t pwrite(int, const void*, size_t, int64_t)

# ---- TFRecord framing ------------------------------------------------------------------------------------------------

cdef uint32_t _checksum(const unsigned char* p, int64_t n) noexcept nogil:
    cdef uint32_t crc = crc32c(0, p, n)
    return ((crc >> 15) | (crc << 17)) + <uint32_t>0xA282EAD8u


cdef bint _sound(const unsigned char* p, int64_t n) noexcept nogil:
    # Says whether the checksum behind the bytes is right.
    cdef uint32_t crc
    memcpy(&crc, p + n, 4)
    return crc == _checksum(p, n)


cdef void _repair(unsigned char* data, int64_t n) noexcept nogil:
    # Puts the right checksums into records, as far as their lengths lead: no fuzzer guesses them often enough.
    cdef uint64_t length
    cdef uint32_t crc
    while n >= TFRECORD_HEADER:
        memcpy(&length, data, 8)
        crc = _checksum(data, 8)
        memcpy(data + 8, &crc, 4)
        if n < TFRECORD_FRAME or length > <uint64_t>(n - TFRECORD_FRAME):
            break
        crc = _checksum(data + TFRECORD_HEADER, <int64_t>length)
        memcpy(data + TFRECORD_HEADER + length, &crc, 4)
        data += length + TFRECORD_FRAME
        n -= <int64_t>length + TFRECORD_FRAME


cdef bint _header_at(const unsigned char* data, bint check, uint64_t* length) noexcept nogil:
    # Says whether the checksum of the length is right, or isn't to be looked at.
    memcpy(length, data, 8)
    return not check or _sound(data, 8)


cdef int _code_at(const unsigned char* data, int64_t n, int64_t limit, bint check, int64_t* frame_bytes) noexcept nogil:
    # Returns the expected result for the record at `data`, with n bytes left: 0, and its size in *whole, or a fault's
    # code.
    cdef uint64_t length
    if n < TFRECORD_HEADER:
        return CODE_TRUNCATED
    if not _header_at(data, check, &length):
        return CODE_CHECKSUM
    if length > <uint64_t>limit:
        return CODE_TOO_LARGE
    frame_bytes[0] = <int64_t>length + TFRECORD_FRAME
    return CODE_TRUNCATED if frame_bytes[0] > n else 0


cdef Verdict _go_on(const unsigned char* data, int64_t size, int64_t step, int64_t limit, bint is_known,
                    int64_t* position) noexcept nogil:
    # The place of the next record behind a damaged one at *at, found byte by byte and by the search. *at: that place,
    # or -1.
    cdef int64_t want = position[0] + 1, n, ahead
    cdef uint64_t length
    cdef unsigned char* block = NULL
    cdef Verdict verdict = NULL
    while want + TFRECORD_HEADER <= size and not (
            _header_at(data + want, True, &length) and length <= <uint64_t>limit and (
                not is_known or <int64_t>length + TFRECORD_FRAME <= size - want)):
        want += 1
    position[0] += 1
    while True:
        n = least(step if step > TFRECORD_HEADER else <int64_t>TFRECORD_HEADER, size - position[0])
        free(block)
        block = copy_of(data + position[0], n)
        if tfrecord_resync(block, n, size - position[0] if is_known else -1, limit, &ahead):
            position[0] += ahead
            if position[0] != want:
                verdict = "tfrecord: another place to go on at"
            break
        if position[0] + n == size:
            if want + TFRECORD_HEADER <= size:
                verdict = "tfrecord: the next record was not found"
            position[0] = -1
            break
        position[0] += ahead
    free(block)
    return verdict


cdef Verdict _tfrecord(Given g) noexcept nogil:
    # The walk over a stream that comes in blocks, and the search for the next record after damage.
    cdef int64_t choices = choice(&g), step = 1 + choice(&g), max_records = 1 + choice(&g) % 8
    cdef int64_t limit = TFRECORD_MOST_BYTES
    cdef bint is_known = choices & 1, check = (choices & 2) == 0
    cdef int64_t position = 0, count = 0, need = 1, n, i, frame_bytes = 0, records = 0
    cdef int64_t starts[9]
    cdef unsigned char* data = copy_of(g.p, g.n)
    cdef unsigned char* block = NULL
    cdef RecordWalk walk
    cdef Fault fault
    cdef Verdict verdict = NULL
    cdef int rc, code
    if choices & 4:
        _repair(data, g.n)
    if choices & 8:
        limit = 40
    memset(&walk, 0, sizeof(RecordWalk))
    walk.total_bytes = g.n if is_known else -1
    walk.max_record_bytes = limit
    walk.check = check
    while verdict == NULL:
        n = least(step if step > need else need, g.n - position)
        free(block)
        block = copy_of(data + position, n)
        rc = tfrecord_walk(&walk, block, n, not is_known and position + n == g.n, starts, max_records, &count, &fault)
        for i in range(count):
            if _code_at(data + position + starts[i], g.n - position - starts[i], limit, check, &frame_bytes) != 0 or (
                    starts[i + 1] - starts[i] != frame_bytes):
                verdict = "tfrecord: a record that isn't there"
                break
            if tfrecord_check(block + starts[i] + TFRECORD_HEADER, frame_bytes - TFRECORD_FRAME) != (
                    _sound(data + position + starts[i] + TFRECORD_HEADER, frame_bytes - TFRECORD_FRAME)):
                verdict = "tfrecord: a checksum"
        position += starts[count]
        records += count
        if verdict == NULL and (walk.offset != position or walk.record != records):
            verdict = "tfrecord: the walk stands elsewhere"
        if verdict != NULL:
            break
        if rc == WALK_END:
            if position != g.n:
                verdict = "tfrecord: an end in the middle"
            break
        if rc == WALK_FULL:
            if count != max_records:
                verdict = "tfrecord: full too early"
            need = 1
        elif rc == WALK_MORE:
            need = walk.need
            if need <= n - starts[count] or position + n - starts[count] == g.n:
                verdict = "tfrecord: more is asked for than there is, or what is there"
        else:
            code = _code_at(data + position, g.n - position, limit, check, &frame_bytes)
            if code == 0 or fault.code != code or fault.offset != position or fault.record != records:
                verdict = "tfrecord: another fault than is there"
            if verdict != NULL or code == CODE_TRUNCATED:
                break
            verdict = _go_on(data, g.n, step, limit, is_known, &position)
            if position < 0:
                break
            walk.offset = position
            walk.record = records = records + 1
            need = 1
    free(block)
    free(data)
    return verdict


# ---- Example ---------------------------------------------------------------------------------------------------------

cdef enum:
    PLANS = 8

cdef Steps _examples[PLANS]
cdef list _kept = []  # what the steps are


cdef Verdict _example(Given g) noexcept nogil:
    # Messages by plans of every form, alone and two at once.
    cdef int64_t choices = choice(&g), cut = choice(&g)
    return both_ways(&_examples[choices % PLANS], g.p, g.n, g.n if cut >= 128 else cut * g.n // 128, choices & 64)


_FORMS = {"fixed": 0, "padded": 1, "flat": 2}
_KINDS = {"b": 1, "f": 2, "i": 3}
_ZEROS = {"b": b"", "f": 0.0, "i": 0}


cdef int _plan(int index, list features) except -1:
    # Features: section, key (its first letter is the kind), form, dimensions, default (None: it must be there).
    cdef Steps* steps = &_examples[index]
    cdef Step step
    cdef Output* output
    cdef int64_t item
    for batch in range(2):
        columns, outputs = [], []
        for section, key, form, dims, default in features:
            kind = _KINDS[key[0]]
            count = int(np.prod(dims, dtype=int))
            item = {"b": 0, "f": 4, "i": 8}[key[0]]
            required = default is None and form != "flat"
            if form == "padded":
                default = [_ZEROS[key[0]] if default is None else default]
            elif default is not None:
                default = [default] * count
            if default is not None and item:
                default = np.array(default, "f4" if item == 4 else "i8")
            columns.append((section, key.encode(), kind, _FORMS[form], dims, required, default, len(outputs)))
            role = ROLE_PADDED if form == "padded" else ROLE_VALUES
            outputs.append((role, item, count * item if form == "fixed" else 0))
            if form == "flat":
                outputs += [(ROLE_SPLITS, 8, 0)] * (section + batch)
            elif form == "padded":
                outputs += [(ROLE_LENGTHS, 8, 0)] * (section & batch)
        step = ExampleStep("fuzz", (Component(BYTES, ()),), (None,) * len(outputs), columns)
        _kept.append(step)
        steps.run[batch] = step.run
        steps.params[batch] = step.params
        steps.count[batch] = len(outputs)
        for output_index, (role, item, place) in enumerate(outputs):
            output = &steps.outputs[batch][output_index]
            output.role = role
            output.item = item
            output.place = place
    return 0


_DEFAULTS = {"b": b"none", "f": 0.5, "i": -1}
_plan(0, [(0, key, "fixed", (), _DEFAULTS[key]) for key in "ifb"])
_plan(1, [(0, "i", "fixed", (2,), None), (0, "f2", "fixed", (2, 2), 1.5), (0, "b2", "fixed", (2,), b"")])
_plan(2, [(0, key, "flat", (), None) for key in "ifb"])
_plan(3, [(0, "i", "padded", (), 7), (0, "f", "padded", (2,), 0.0), (0, "b", "padded", (), b"fill")])
_plan(4, [(0, "i_a_longer_key", "flat", (), None), (0, "i", "fixed", (), 3), (0, "i", "flat", (), None),
          (0, "f_a_longer_key", "padded", (), 0.0), (0, "b", "flat", (), None)])
_plan(5, [(0, "i2", "flat", (), None)] + [(1, key, "flat", (), None) for key in "ifb"])
_plan(6, [(0, "b2", "fixed", (), b""), (1, "i", "padded", (), 0), (1, "f", "padded", (2,), None),
          (1, "b", "padded", (), b"")])
# More keys than are remembered in their order.
_plan(7, [(0, f"i{n}", "fixed", (), n) for n in range(72)])


# ---- compressed data -------------------------------------------------------------------------------------------------

cdef enum:
    MOST_BYTES = 40000      # decompressed: more than a window, and few enough to come one by one
    PIECES = 8

cdef int64_t _pieces[PIECES]
cdef unsigned char* _rooms[PIECES]    # of these sizes
for _index, _size in enumerate((1, 2, 3, 7, 16, 64, 300, INFLATE_ROOM)):
    _pieces[_index] = _size
    _rooms[_index] = <unsigned char*>malloc(_size)
cdef void* _inflater_room = alloc_lines(INFLATER_BYTES)
cdef Steps _inflates[7]
# Files in memory, and their names.
cdef int _file = -1
cdef int _long_file = -1
cdef const char* _file_name
cdef const char* _long_name

# The result of decompressing data.
cdef struct Inflated:
    Growing bytes
    int what            # 0: no fault; -1: the data ends too early
    int64_t place
    bint much           # there are more than MOST_BYTES


cdef void _inflate_pieces(int encoding, const unsigned char* p, int64_t n, int64_t source_bytes, int64_t room,
                          Inflated* out) noexcept nogil:
    cdef Inflater f
    cdef unsigned char* into = _rooms[room]
    cdef int64_t into_bytes = _pieces[room]
    cdef unsigned char* piece = NULL
    cdef const unsigned char* source = NULL
    cdef int64_t left = 0, written_bytes = 0
    memset(out, 0, sizeof(Inflated))
    memset(_inflater_room, 0xa5, INFLATER_BYTES)
    out.what = inflater_begin(&f, encoding, _inflater_room)
    while out.what == 0:
        out.what = inflater_run(&f, &source, &left, into, into_bytes, &written_bytes)
        append(&out.bytes, into, written_bytes)
        out.much = out.bytes.n > MOST_BYTES
        if out.much or out.what != 0:
            break
        if written_bytes < into_bytes:
            if n == 0:
                out.what = -1 if f.inside else 0
                break
            free(piece)
            left = least(n, source_bytes)
            source = piece = copy_of(p, left)
            p += left
            n -= left
    if out.much:  # bytes after so many are not compared
        out.what = 0
    out.place = f.place
    inflater_end(&f)
    free(piece)


cdef void _inflate_file(int encoding, const char* name, int64_t room, Inflated* out) noexcept nogil:
    cdef ByteStream stream
    cdef Fault fault
    cdef unsigned char* into = _rooms[room]
    cdef int64_t into_bytes = _pieces[room], read_bytes = 0
    memset(out, 0, sizeof(Inflated))
    if not stream_open(&stream, name, 0, encoding, &fault):
        out.what = fault.what
        return
    while not out.much:
        if not stream_read(&stream, into, into_bytes, &read_bytes, &fault):
            out.what = fault.what
            out.place = fault.offset
        append(&out.bytes, into, read_bytes)
        out.much = out.bytes.n > MOST_BYTES
        if out.what != 0 or read_bytes < into_bytes:
            break
    if out.much:
        out.what = 0
    stream_close(&stream)


cdef Verdict _inflate(Given g) noexcept nogil:
    # Each encoding, by each library, in pieces and whole, from a file, and by the step: always the same bytes, or a
    # fault.
    cdef int64_t choices = choice(&g), sizes = choice(&g), cut = choice(&g)
    cdef int encoding = (ENCODING_LZ4 if choices & 128 else 1) + choices % 3, i
    cdef Inflated inflated, other
    cdef Verdict verdict = NULL
    cdef int64_t common
    codec_prefer(2)
    _inflate_pieces(encoding, g.p, g.n, g.n + 1, PIECES - 1, &inflated)
    if inflated.what == WHAT_NO_LIBRARY:
        codec_prefer(0)
        if encoding <= ENCODING_ZLIB:
            verdict = "inflate: zlib was not found"  # Python's own is there, always
        return verdict
    if not inflated.much and not 0 <= inflated.place <= g.n:
        verdict = "inflate: a place that isn't in the data"
    for i in range(4):
        if verdict != NULL:
            break
        if (i & 1 and encoding > ENCODING_ZLIB) or (i == 2 and choices & 32 == 0):
            continue
        if i & 1:
            codec_prefer(3 if choices & 16 else 1)
        else:
            codec_prefer(2)
        if i < 2:
            _inflate_pieces(encoding, g.p, g.n, _pieces[sizes & 7], sizes >> 3 & 7, &other)
        elif i == 2:
            if ftruncate(_file, 0) != 0 or pwrite(_file, g.p, g.n, 0) != g.n:
                return "no file in memory"
            _inflate_file(encoding, _file_name, sizes >> 3 & 7, &other)
        else:
            _inflate_pieces(encoding, g.p, g.n, g.n + 1, PIECES - 1, &other)
        common = least(inflated.bytes.n, other.bytes.n)
        if common > 0 and memcmp(inflated.bytes.p, other.bytes.p, common) != 0:
            verdict = "inflate: other bytes"
        elif inflated.much != other.much:
            # Damage may hold back what came shortly before it.
            if inflated.what == 0 and other.what == 0:
                verdict = "inflate: more bytes or less"
        elif not inflated.much:
            if (inflated.what == 0) != (other.what == 0):
                verdict = "inflate: a fault to one, none to the other"
            elif inflated.what == 0 and inflated.bytes.n != other.bytes.n:
                verdict = "inflate: more bytes or less"
            elif not 0 <= other.place <= g.n:
                verdict = "inflate: a place that isn't in the data"
        if other.bytes.n > MOST_BYTES + INFLATE_ROOM:
            verdict = "inflate: not bounded"
        free(other.bytes.p)
    free(inflated.bytes.p)
    codec_prefer(0)
    if verdict == NULL and choices & 64:
        verdict = both_ways(&_inflates[encoding], g.p, g.n, g.n if cut >= 128 else cut * g.n // 128, False)
    return verdict


cdef int _inflate_step(int encoding) except -1:
    cdef Step step = InflateStep((None,), (None,), encoding, MOST_BYTES)
    _kept.append(step)
    for batch in range(2):
        _inflates[encoding].run[batch] = step.run
        _inflates[encoding].params[batch] = step.params
        _inflates[encoding].count[batch] = 1
    _inflates[encoding].element_is_b = True
    return 0


# Before the first native use of an encoding. A library is looked for when it is preferred.
for _index in (1, 2, 3, 0):
    codec_prefer(_index)
    library(1)
for _index in range(1, 7):
    library(_index)
    _inflate_step(_index)


# ---- readers ---------------------------------------------------------------------------------------------------------

cdef enum:
    BLOCK_BYTES = 256 << 10   # that a reader reads at a time
    BORDER = 300              # so far before the end of the first one the records begin
    FRAMINGS = 4

cdef Reader* _readers[FRAMINGS]
cdef unsigned char[BORDER] _filler
memset(_filler, 97, BORDER)


# A file of records, and the place of the next record that is expected.
cdef struct Expected:
    int framing
    const unsigned char* p    # bytes of the file from `filler` on
    int64_t size              # of the file
    int64_t filler            # the size of its first record, whose bytes aren't compared; 0: there is none
    int64_t header, footer, record, hop
    int64_t at, index
    # The next record:
    int64_t begin, nbytes, number


cdef int _expect(Expected* e) noexcept nogil:
    # Returns the expected answer of the reader: READER_RECORD, READER_FAULT, or another number at the end.
    cdef const unsigned char* end
    cdef int64_t frame_bytes = 0
    cdef int code
    if e.framing == FRAME_WHOLE:
        e.begin = 0
        e.nbytes = e.size
        e.number = -1
        e.at += 1
        return READER_RECORD if e.at == 1 else -1
    if e.framing == FRAME_FIXED:
        if e.index == 0 and e.size < e.header and e.size > 0:
            return READER_FAULT
        e.begin = e.header + e.index * e.hop
        e.nbytes = e.record
        e.number = e.index
        e.index += 1
        return READER_RECORD if e.begin + e.record + e.footer <= e.size else -1
    while e.at < e.size:
        e.begin = e.at
        e.number = e.index if e.framing == FRAME_LINES else e.at
        if e.framing == FRAME_TFRECORD:
            code = 0
            frame_bytes = e.filler
            if e.at >= e.filler:
                code = _code_at(e.p + e.at - e.filler, e.size - e.at, TFRECORD_MOST_BYTES, True, &frame_bytes)
            if code != 0:
                return READER_FAULT
            e.at += frame_bytes
            e.begin += TFRECORD_HEADER
            e.nbytes = frame_bytes - TFRECORD_FRAME
            e.index += 1
            return READER_RECORD
        if e.at < e.filler:
            e.at = e.filler
            e.nbytes = e.filler - 1
        else:
            end = <const unsigned char*>memchr(e.p + e.at - e.filler, 10, e.size - e.at)
            e.nbytes = e.size - e.at if end == NULL else end - (e.p + e.at - e.filler)
            e.at += e.nbytes + (end != NULL)
            if e.nbytes > 0 and e.p[e.begin - e.filler + e.nbytes - 1] == 13:
                e.nbytes -= 1
        e.index += 1
        e.number = e.index
        if e.index > e.header:
            return READER_RECORD
    return -1


cdef bint _write_file(const Expected* e) noexcept nogil:
    cdef unsigned char header[TFRECORD_HEADER]
    cdef uint64_t length = <uint64_t>(e.filler - TFRECORD_FRAME)
    cdef uint32_t crc
    cdef int fd = _long_file if e.filler > 0 else _file
    cdef int64_t n = e.size - e.filler
    if ftruncate(fd, e.size) != 0:
        return False
    if e.filler > 0:
        memcpy(header, _filler, TFRECORD_HEADER)
        if e.framing == FRAME_TFRECORD:
            memcpy(header, &length, 8)
            crc = _checksum(header, 8)
            memcpy(header + 8, &crc, 4)
        if pwrite(fd, header, TFRECORD_HEADER, 0) != TFRECORD_HEADER or (
                pwrite(fd, _filler, BORDER, BLOCK_BYTES - BORDER) != BORDER or pwrite(fd, b"\n", 1, e.filler - 1) != 1):
            return False
    # The filler may have been written beyond the end.
    return pwrite(fd, e.p, n, e.filler) == n and ftruncate(fd, e.size) == 0


cdef Verdict _next_wrong(Reader* r, const Expected* e, const Record* record, int want) noexcept nogil:
    # Compares a record with the one that is expected.
    cdef Fault fault
    cdef const unsigned char* p
    if want != READER_RECORD:
        return "reader: a record that isn't there"
    if record.nbytes != e.nbytes or record.number != e.number:
        return "reader: another record"
    if record.index != (0 if e.framing == FRAME_WHOLE else e.index - 1):
        return "reader: a record of another number"
    if e.begin < e.filler:
        return NULL
    p = e.p + e.begin - e.filler
    if e.nbytes > 0 and memcmp(record.data, p, e.nbytes) != 0:
        return "reader: other bytes"
    if e.framing == FRAME_TFRECORD:
        if record_check(record, &fault) != _sound(p, e.nbytes):
            return "reader: a checksum"
    return NULL


cdef Verdict _reader(Given g) noexcept nogil:
    # Records of a file, the border between two reads anywhere in them.
    cdef int64_t choices = choice(&g), border = choice(&g)
    cdef unsigned char* data
    cdef Expected e
    cdef Record record, last_record
    cdef Reader* r = _readers[choices % FRAMINGS]
    cdef const char* name
    cdef Fault fault
    cdef Verdict verdict = NULL
    cdef int64_t kept_at = 0
    cdef int rc, want
    memset(&e, 0, sizeof(Expected))
    memset(&last_record, 0, sizeof(Record))
    e.framing = r.framing
    if e.framing == FRAME_FIXED:
        e.record = 1 + choice(&g) % 64
        e.footer = choice(&g) % 8
        e.hop = 1 + choice(&g) % 80
    if e.framing == FRAME_FIXED or e.framing == FRAME_LINES:
        e.header = choice(&g) % 4
    data = copy_of(g.p, g.n)
    if choices & 16 and e.framing == FRAME_TFRECORD:
        _repair(data, g.n)
    e.p = data
    if choices & 4:
        e.filler = BLOCK_BYTES - border
        e.header += e.filler if e.framing == FRAME_FIXED else 0
    e.size = e.filler + g.n
    r.record_bytes = e.record
    r.header_bytes = e.header
    r.footer_bytes = e.footer
    r.hop_bytes = e.hop
    name = _long_name if e.filler > 0 else _file_name
    if not _write_file(&e) or not reader_open(r, <const unsigned char*>name, strlen(name), &fault):
        return "no file in memory"
    while True:
        memset(&record, 0, sizeof(Record))
        rc = reader_next(r, &record, &fault, False)
        # Nobody writes where a record is that was given before.
        if last_record.block != NULL and e.framing != FRAME_WHOLE and last_record.nbytes > 0 and (
                memcmp(last_record.data, _filler, BORDER) if kept_at < e.filler else
                memcmp(last_record.data, e.p + kept_at - e.filler, last_record.nbytes)) != 0:
            verdict = "reader: a record that changed"
        record_drop(r, &last_record)
        want = _expect(&e) if verdict == NULL else 0
        if verdict == NULL:
            if rc == READER_RECORD:
                verdict = _next_wrong(r, &e, &record, want)
            elif (rc == READER_FAULT) != (want == READER_FAULT) or want == READER_RECORD:
                verdict = "reader: no record, or another fault"
        if rc == READER_RECORD and choices & 8:
            last_record = record
            kept_at = e.begin
        else:
            record_drop(r, &record)
        if rc != READER_RECORD:
            break
    free(data)
    return verdict


def _open_files():
    global _file, _long_file, _file_name, _long_name
    cdef bytes name, long_name
    _file = os.memfd_create("short")
    _long_file = os.memfd_create("long")
    os.pwrite(_long_file, b"a" * BLOCK_BYTES, 0)
    name = f"/proc/self/fd/{_file}".encode()
    long_name = f"/proc/self/fd/{_long_file}".encode()
    _kept.extend((name, long_name))
    _file_name = name
    _long_name = long_name


cdef int _open_reader(int index, int framing) except -1:
    cdef NativeReader reader = NativeReader(Framing(framing))
    _kept.append(reader)
    _readers[index] = reader.r
    return 0


_open_files()
for _index, _framing in enumerate((FRAME_LINES, FRAME_FIXED, FRAME_TFRECORD, FRAME_WHOLE)):
    _open_reader(_index, _framing)


# ---- who calls them --------------------------------------------------------------------------------------------------

cdef Verdict _planted(Given g) noexcept nogil:
    # A bug on purpose, behind bytes that nobody guesses: a fuzzer that doesn't come upon it sees nothing at all.
    cdef unsigned char* block = copy_of(g.p, g.n)
    cdef uint32_t word = 0
    cdef Verdict verdict = NULL
    if g.n >= 5:
        memcpy(&word, block, 4)
        if word == 0x71756575u and block[4] == 113:
            if block[g.n] == 113:
                verdict = "planted"
    free(block)
    return verdict


cdef Verdict _call(int target, const unsigned char* p, int64_t n) noexcept nogil:
    cdef Given g
    g.p = p
    g.n = n
    if target == 0:
        return _tfrecord(g)
    if target == 1:
        return _example(g)
    if target == 2:
        return fuzz_csv(g)
    if target == 3:
        return fuzz_csv_record(g)
    if target == 4:
        return fuzz_number(g)
    if target == 5:
        return _inflate(g)
    if target == 6:
        return _reader(g)
    if target == 7:
        return fuzz_tar(g)
    return _planted(g)


NAMES = ("tfrecord", "example", "csv", "csv_record", "number", "inflate", "reader", "tar", "planted")
cdef int _target = 0


cdef int _entry(const uint8_t* p, size_t n) noexcept nogil:
    cdef Verdict verdict = _call(_target, p, <int64_t>n)
    if verdict != NULL:
        fprintf(stderr, "%s\n", verdict)
        abort()
    return 0


def entry(str name):
    """Return the address of what libFuzzer calls with each input, from now on for the target of that name."""
    global _target
    _target = NAMES.index(name)
    return <uintptr_t>&_entry


def run(str name, bytes data not None):
    """Give an input to a target. Raises AssertionError, with what is wrong with the parser."""
    cdef int target = NAMES.index(name)
    cdef const unsigned char* p = data
    cdef int64_t n = len(data)
    cdef Verdict verdict
    with nogil:
        verdict = _call(target, p, n)
    if verdict != NULL:
        raise AssertionError((<bytes>verdict).decode())
