"""Parsers, driven from Python: streams and decompression, TFRecords and their checksums, CSV, numbers, lines.

Where that can be, the bytes lie between pages that can't be touched, so that whoever leaves them ends the process.
"""
from libc.stddef cimport size_t
from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t
from libc.string cimport memcmp, memcpy, memset
from posix.mman cimport PROT_NONE, mprotect
from queuecore._core.atoms.memory cimport calloc, free, malloc
from queuecore._core.atoms.process cimport check_layout
from queuecore._core.io.csv cimport (
    CSV_TEXT, CsvBlock, CsvCursor, CsvFormat, CsvPlace, CsvPlan, CsvScan, csv_cut, csv_parse)
from queuecore._core.atoms.errors cimport CODE_CSV, CODE_TRUNCATED, fault_error
from queuecore._core.io.lines cimport LinesKernels, lines_count, lines_kernels, lines_most
from queuecore._core.atoms.platform cimport (
    Fault, StopFlag, alloc_lines, layout_hash, map_pages, monotonic_ns, unmap_pages)
from queuecore._core.atoms.runtime cimport stop_set
from queuecore._core.io.codecs cimport INFLATER_BYTES, Inflater, codec_prefer
from queuecore._core.io.inflate cimport inflater_begin, inflater_end, inflater_run
from queuecore._core.io.streams cimport ByteStream, stream_close, stream_open, stream_read
from queuecore._core.io.tfrecord cimport (
    TFRECORD_FRAME, TFRECORD_HEADER, TFRECORD_MOST_BYTES, crc32c, tfrecord_check, tfrecord_damaged, tfrecord_resync,
    tfrecord_walk)
from queuecore._core.io.walk cimport WALK_END, WALK_FAULT, WALK_FULL, WALK_MORE, RecordWalk
from queuecore._core.steps.stages cimport Arena, Span, arena_free, arena_init, arena_reset

import os

from queuecore._core.io.codecs import library

check_layout(layout_hash())

cdef extern from *:
    """
    #include <sys/mman.h>
    // Pages with one after them that can't be touched.
    static inline void* qc_guarded_pages(size_t nbytes) {
      void* p = mmap(nullptr, nbytes + 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
      if (p == MAP_FAILED) return nullptr;
      mprotect(static_cast<char*>(p) + nbytes, 4096, PROT_NONE);
      return p;
    }
    static inline void qc_guarded_free(void* p, size_t nbytes) { munmap(p, nbytes + 4096); }
    """
    void* guarded_pages "qc_guarded_pages"(size_t) noexcept nogil
    void guarded_free "qc_guarded_free"(void*, size_t) noexcept nogil


cdef class Guarded:
    """Memory whose ends are those of what may be read: a byte before or past it ends the process."""

    cdef unsigned char* pages
    cdef size_t nbytes

    def __cinit__(self, size_t room):
        cdef unsigned char* mapped
        self.nbytes = (room + 4095) // 4096 * 4096
        mapped = <unsigned char*>map_pages(self.nbytes + 8192)
        if mapped == NULL:
            raise MemoryError
        self.pages = mapped + 4096
        if mprotect(mapped, 4096, PROT_NONE) != 0 or mprotect(self.pages + self.nbytes, 4096, PROT_NONE) != 0:
            raise MemoryError

    def __dealloc__(self):
        if self.pages != NULL:
            unmap_pages(self.pages - 4096, self.nbytes + 8192)

    cdef const unsigned char* put(self, const unsigned char* data, size_t n):
        memcpy(self.pages + self.nbytes - n, data, n)
        return self.pages + self.nbytes - n


# Streams, and the libraries below them, driven from Python.

cdef class FileStream:
    """A native stream over one file."""
    cdef ByteStream stream
    cdef StopFlag stop
    cdef readonly bytes name

    def __cinit__(self):
        self.stream.fd = -1

    def __init__(self, path, int encoding=0, int retries=0):
        cdef bytes name = os.fsencode(path)
        cdef const char* text = name
        cdef Fault fault
        cdef bint good
        with nogil:
            stream_close(&self.stream)
            good = stream_open(&self.stream, text, 0, encoding, &fault)
        if not good:
            raise fault_error(&fault, name)
        self.name = name
        self.stream.retries = retries
        self.stream.stop = &self.stop

    def request_stop(self):
        """End whatever a read waits for; from any thread."""
        stop_set(&self.stop, NULL)

    def read(self, int64_t n):
        """Up to n bytes, and the error or None."""
        cdef bytearray into = bytearray(n + 1)
        cdef unsigned char* place = into
        cdef int64_t read_bytes = -1
        cdef Fault fault
        cdef bint good
        with nogil:
            good = stream_read(&self.stream, place, n, &read_bytes, &fault)
        if place[n] != 0:
            raise AssertionError("written beyond the end")
        return bytes(into[:read_bytes]), None if good else fault_error(&fault, self.name)

    def skip(self, int64_t piece):
        """Read all of it, so many bytes at a time; how many there were."""
        cdef unsigned char* into = <unsigned char*>malloc(piece)
        cdef int64_t read_bytes = piece, total = 0
        cdef Fault fault
        cdef bint has_read = True
        with nogil:
            while has_read and read_bytes == piece:
                has_read = stream_read(&self.stream, into, piece, &read_bytes, &fault)
                total += read_bytes
            free(into)
        if not has_read:
            raise fault_error(&fault, self.name)
        return total

    @property
    def offset(self):
        """The offset of the next byte."""
        return self.stream.offset

    @property
    def size(self):
        """The size of the file."""
        return self.stream.size

    def close(self):
        """Idempotent."""
        with nogil:
            stream_close(&self.stream)

    def __dealloc__(self):
        stream_close(&self.stream)


def inflate_pieces(bytes data, int encoding, int64_t source_bytes, int64_t into_bytes, int64_t max_bytes=1 << 40):
    """Decompress, both sides in pieces of so many bytes, each at the end of memory after which there is none.

    Returns
    -------
    tuple
        The bytes, up to a little more than `max_bytes`; the WHAT_ number of the fault, 0 or, of data that isn't at its
        end, -1; its place.
    """
    cdef Inflater f
    cdef const unsigned char* start = data
    cdef const unsigned char* source = start
    cdef int64_t n = len(data), position = 0, left = 0, written_bytes = 0, total = 0
    cdef int64_t nbytes = ((source_bytes if source_bytes > into_bytes else into_bytes) + 4095) & ~<int64_t>4095
    cdef unsigned char* sources = <unsigned char*>guarded_pages(nbytes)
    cdef unsigned char* results = <unsigned char*>guarded_pages(nbytes)
    cdef unsigned char* into = results + nbytes - into_bytes
    cdef void* room = alloc_lines(INFLATER_BYTES)
    cdef int reason
    cdef list parts = []
    if sources == NULL or results == NULL or room == NULL:
        raise MemoryError
    memset(room, 0xa5, INFLATER_BYTES)
    reason = inflater_begin(&f, encoding, room)
    while reason == 0 and total <= max_bytes:
        with nogil:
            reason = inflater_run(&f, &source, &left, into, into_bytes, &written_bytes)
        parts.append(into[:written_bytes])
        total += written_bytes
        if reason == 0 and written_bytes < into_bytes:
            if left != 0:
                raise AssertionError("stopped before the end of its source")
            if position == n:
                reason = -1 if f.inside else 0
                break
            left = source_bytes if n - position > source_bytes else n - position
            source = sources + nbytes - left
            memcpy(sources + nbytes - left, start + position, left)
            position += left
    place = f.place
    inflater_end(&f)
    guarded_free(sources, nbytes)
    guarded_free(results, nbytes)
    free(room)
    return b"".join(parts), reason, place


def find_library(int encoding=1):
    """Return the name of the library that decompresses an encoding; of GZIP and ZLIB, if none is named."""
    return library(encoding)


def prefer_library(str name):
    """Have GZIP and ZLIB decompressed by "libisal", "libz", "libz-ng" or the fastest (""); return the name of it."""
    codec_prefer(["", "libisal", "libz", "libz-ng"].index(name))
    return library(1)


# TFRecord framing, one way of its checksum against the others

cdef extern from "queuecore/kernels/crc32c.hpp" namespace "queuecore" nogil:
    ctypedef uint32_t (*Crc32cFn)(uint32_t, const unsigned char*, size_t) noexcept

    cppclass Crc32cVariant:
        const char* name
        Crc32cFn run
        bint usable

    Crc32cVariant crc32c_variant(int) noexcept
    Crc32cFn crc32c_best() noexcept


def crc32c_variants():
    """The ways to compute it that this processor has, the slowest first, and which of them the core uses."""
    cdef list names = []
    cdef int i = 0
    cdef str variant = ""
    while crc32c_variant(i).name != NULL:
        if crc32c_variant(i).usable:
            names.append(crc32c_variant(i).name.decode())
        if crc32c_variant(i).run == crc32c_best():
            variant = crc32c_variant(i).name.decode()
        i += 1
    return names, variant


def crc32c_by(str name, bytes data, uint32_t crc=0):
    """The checksum of data, computed in one of the ways, continuing another."""
    cdef Guarded guarded = Guarded(len(data))
    cdef int i = 0
    while crc32c_variant(i).name != NULL:
        if crc32c_variant(i).name.decode() == name and crc32c_variant(i).usable:
            return crc32c_variant(i).run(crc, guarded.put(data, len(data)), len(data))
        i += 1
    raise ValueError(name)


def tfrecord_read(bytes data, int64_t block, int64_t max_records=1000, bint is_known=True,
                  int64_t max_record_bytes=TFRECORD_MOST_BYTES, bint check=True, bint resync=False):
    """Read a stream of TFRecords as a reader does, in blocks of that many bytes, or of as many as the framing asks for.

    is_known: the framing is told how long the stream is. resync: go on after damage. Returns the records as (offset,
    index, data), the errors, and the longest block that was asked for.
    """
    cdef RecordWalk walk
    cdef Fault fault, damage
    cdef int64_t* starts = <int64_t*>calloc(max_records + 1, sizeof(int64_t))
    cdef int64_t size = len(data), position = 0, count = 0, i, n, longest = 0, need = 1, start, frame_bytes
    cdef const unsigned char* p
    cdef int rc
    cdef Guarded guarded = Guarded(size)
    cdef list records = [], faults = []
    if starts == NULL:
        raise MemoryError
    memset(&walk, 0, sizeof(RecordWalk))
    walk.total_bytes = size if is_known else -1
    walk.max_record_bytes = max_record_bytes
    walk.check = check
    try:
        while True:
            n = max(block, need)
            longest = max(n, longest)
            n = min(n, size - position)
            p = guarded.put(<const unsigned char*><const char*>data + position, n)
            rc = tfrecord_walk(&walk, p, n, not is_known and position + n == size, starts, max_records, &count, &fault)
            for i in range(count):
                start = position + starts[i]
                frame_bytes = starts[i + 1] - starts[i]
                if check and not tfrecord_check(p + starts[i] + TFRECORD_HEADER, frame_bytes - TFRECORD_FRAME):
                    tfrecord_damaged(start, walk.record - count + i, &damage)
                    faults.append(fault_error(&damage, b"stream"))
                    if not resync:
                        return records, faults, longest
                else:
                    records.append((start, walk.record - count + i,
                                    data[start + TFRECORD_HEADER:
                                         start + frame_bytes - TFRECORD_FRAME + TFRECORD_HEADER]))
            position += starts[count]
            need = walk.need if rc == WALK_MORE else 1
            if rc == WALK_END:
                return records, faults, longest
            if rc == WALK_FAULT:
                faults.append(fault_error(&fault, b"stream"))
                if not resync or fault.code == CODE_TRUNCATED:
                    return records, faults, longest
                position += 1
                while True:
                    n = min(max(block, TFRECORD_HEADER), size - position)
                    p = guarded.put(<const unsigned char*><const char*>data + position, n)
                    if tfrecord_resync(p, n, size - position if is_known else -1, max_record_bytes, &i):
                        position += i
                        break
                    if position + n == size:
                        return records, faults, longest
                    position += i
                walk.offset = position
                walk.record += 1
    finally:
        free(starts)


def tfrecord_header(uint64_t length):
    """The header of a record of so many bytes, also of more than any memory has."""
    cdef unsigned char header[TFRECORD_HEADER]
    cdef uint32_t crc
    memcpy(header, &length, 8)
    crc = crc32c(0, header, 8)
    crc = ((crc >> 15) | (crc << 17)) + <uint32_t>0xA282EAD8u
    memcpy(header + 8, &crc, 4)
    return (<const char*>header)[:TFRECORD_HEADER]


def bench_tfrecord(const unsigned char[::1] data, int64_t passes, bint check=True):
    """Walk over records in memory and check their data, so many times: nanoseconds a pass, and how many records."""
    cdef RecordWalk walk
    cdef Fault fault
    cdef int64_t starts[257]
    cdef int64_t count = 0, i, begin_ns, span_ns, size = data.shape[0], records = 0, damaged = 0
    cdef const unsigned char* first = &data[0]
    cdef const unsigned char* p
    cdef int rc = WALK_END
    with nogil:
        begin_ns = monotonic_ns()
        for _ in range(passes):
            memset(&walk, 0, sizeof(RecordWalk))
            walk.total_bytes = size
            walk.max_record_bytes = TFRECORD_MOST_BYTES
            walk.check = True
            rc = WALK_FULL
            while rc == WALK_FULL:
                p = first + walk.offset
                rc = tfrecord_walk(&walk, p, size - walk.offset, False, starts, 256, &count, &fault)
                for i in range(count):
                    if check and not tfrecord_check(p + starts[i] + TFRECORD_HEADER,
                                                    starts[i + 1] - starts[i] - TFRECORD_FRAME):
                        damaged += 1
                records += count
        span_ns = monotonic_ns() - begin_ns
    if rc != WALK_END or damaged:
        raise ValueError("the records are damaged")
    return span_ns // passes, records // passes


cdef extern from "queuecore/kernels/numbers.hpp" namespace "queuecore" nogil:
    cppclass PowerOfFive:
        uint64_t high
        uint64_t low

    cppclass PowersOfFive:
        PowerOfFive at[651]

    const PowersOfFive kPowersOfFive
    bint csv_number "queuecore::parse_number"[T](const unsigned char*, const unsigned char*, T*) noexcept


# CSV, block by block, as a source hands them on.

cdef void _places_free(const CsvPlan* plan, CsvPlace* places) noexcept:
    cdef int32_t i
    for i in range(plan.count):
        free(places[i].base)
    free(places)


cdef CsvPlace* _places_new(const CsvPlan* plan, int64_t rows) except NULL:
    # A column each.
    cdef CsvPlace* places = <CsvPlace*>calloc(plan.count, sizeof(CsvPlace))
    cdef int32_t i
    if places == NULL:
        raise MemoryError
    for i in range(plan.count):
        places[i].stride = plan.columns[i].item_bytes
        places[i].base = <unsigned char*>calloc(rows, places[i].stride)
        if places[i].base == NULL:
            _places_free(plan, places)
            raise MemoryError
    return places


cdef int _append_rows(list columns, const CsvPlan* plan, const CsvPlace* places, int64_t rows) except -1:
    cdef const Span* text
    cdef const char* value
    cdef int64_t r
    cdef int32_t i
    for i in range(plan.count):
        for r in range(rows):
            value = <const char*>places[i].base + r * places[i].stride
            if plan.columns[i].kind == CSV_TEXT:
                text = <const Span*>value
                columns[i].append((<const char*>text.data)[:text.nbytes])
            else:
                columns[i].append(value[:places[i].stride])
    return 0


cdef void _skip_row(const CsvPlan* plan, const unsigned char* data, int64_t size, int64_t step, CsvCursor* cursor,
                    int64_t* begin, int64_t* held_size) noexcept:
    # The rest of a bad row, however many blocks that takes.
    cdef CsvBlock block
    cdef CsvScan scan
    cdef Fault fault
    memset(&block, 0, sizeof(CsvBlock))
    memset(&scan, 0, sizeof(CsvScan))
    while True:
        block.text = data + begin[0]
        block.nbytes = held_size[0]
        block.last = begin[0] + held_size[0] == size
        block.most = 1
        csv_cut(plan, &block, cursor, &scan, &fault)
        begin[0] += block.consumed
        held_size[0] -= block.consumed
        if block.rows or block.last:
            return
        held_size[0] = min(held_size[0] + step, size - begin[0])


def csv_table(CsvFormat format not None, bytes data not None, int64_t block_bytes, int64_t max_rows=1 << 40,
              bint cut=False, bint skip=False, int64_t header_rows=0):
    """Parse a file in blocks that grow by block_bytes until they hold a row; return (columns, cursor, error or None,
    skipped rows).

    max_rows: rows a call. cut: find the rows' ends first, and give them to the parser as whole blocks. skip: pass over
    bad rows.
    """
    cdef CsvPlan* plan = &format.plan
    cdef CsvCursor cursor, cut_at
    cdef CsvBlock block, whole_block
    cdef CsvScan scan
    cdef Arena arena
    cdef Fault fault
    cdef int64_t size = len(data), held_size = 0, begin = 0, room = 1024, skipped = 0
    cdef int rc
    cdef unsigned char* held_bytes = NULL
    cdef CsvPlace* places
    cdef list columns = [[] for _ in range(plan.count)]
    error = None
    if block_bytes < 1 or max_rows < 1:
        raise ValueError("nothing to do")
    if max_rows < room:
        room = max_rows
    memset(&cursor, 0, sizeof(CsvCursor))
    memset(&block, 0, sizeof(CsvBlock))
    memset(&scan, 0, sizeof(CsvScan))
    memset(&fault, 0, sizeof(Fault))
    cursor.line = 1
    arena_init(&arena)
    places = _places_new(plan, room)
    try:
        while True:
            # A copy of just these bytes, so that a sanitizer sees who reads others.
            free(held_bytes)
            held_bytes = <unsigned char*>malloc(held_size if held_size > 0 else 1)
            if held_bytes == NULL:
                raise MemoryError
            memcpy(held_bytes, <const unsigned char*>data + begin, held_size)
            block.text = held_bytes
            block.nbytes = held_size
            block.last = begin + held_size == size
            block.most = room
            arena_reset(&arena)
            whole_block = block
            rc = 0
            if header_rows > 0:
                block.most = header_rows
                rc = csv_cut(plan, &block, &cursor, &scan, &fault)
                header_rows -= block.rows
                block.rows = 0
            else:
                if cut:
                    cut_at = cursor
                    rc = csv_cut(plan, &whole_block, &cut_at, &scan, &fault)
                    block.nbytes = whole_block.consumed
                    block.last = True
                    block.most = whole_block.rows
                if rc == 0:
                    with nogil:
                        rc = csv_parse(plan, places, &block, &cursor, &arena, &fault)
                    if cut and rc == 0 and (block.consumed != whole_block.consumed
                                            or memcmp(&cursor, &cut_at, sizeof(CsvCursor))):
                        raise AssertionError(
                            f"parsed {block.consumed} bytes of {whole_block.consumed} in {whole_block.rows} rows")
                else:
                    block.rows = block.consumed = 0
            _append_rows(columns, plan, places, block.rows)
            begin += block.consumed
            held_size -= block.consumed
            if rc != 0:
                if not skip or fault.code != CODE_CSV:
                    error = fault_error(&fault, b"t.csv")
                    break
                _skip_row(plan, data, size, block_bytes, &cursor, &begin, &held_size)
                skipped += 1
            elif block.consumed == 0:
                if begin + held_size == size:
                    break
                # beside the row: CR LF, or what shows that it is longer, and a mark
                if held_size > plan.max_record_bytes + 4:
                    raise AssertionError(f"{held_size} bytes of a row are not refused")
                held_size = min(held_size + block_bytes, size - begin)
        return columns, (cursor.offset, cursor.row, cursor.line), error, skipped
    finally:
        _places_free(plan, places)
        free(held_bytes)
        arena_free(&arena)


def csv_time(CsvFormat format not None, bytes data not None, int64_t rows):
    """Return the seconds that parsing a file of so many rows takes, in blocks of 256 KiB, into rows of a table."""
    cdef CsvPlan* plan = &format.plan
    cdef CsvCursor cursor
    cdef CsvBlock block
    cdef Arena arena
    cdef Fault fault
    cdef int64_t width = 0, start, left = len(data), done = 0
    cdef int32_t i
    cdef int rc = 0
    cdef unsigned char* table
    cdef CsvPlace* places = <CsvPlace*>calloc(plan.count, sizeof(CsvPlace))
    for i in range(plan.count):
        width += plan.columns[i].item_bytes
    table = <unsigned char*>calloc(rows, width)
    if places == NULL or table == NULL:
        free(places)
        free(table)
        raise MemoryError
    places[0].base = table
    for i in range(plan.count):
        if i > 0:
            places[i].base = places[i - 1].base + plan.columns[i - 1].item_bytes
        places[i].stride = width
    memset(table, 1, rows * width)
    memset(&cursor, 0, sizeof(CsvCursor))
    cursor.line = 1
    arena_init(&arena)
    block.text = data
    block.likely = 0
    with nogil:
        start = monotonic_ns()
        while left > 0:
            block.last = left <= 256 << 10
            block.nbytes = left if block.last else 256 << 10
            block.most = rows - done
            arena_reset(&arena)
            rc = csv_parse(plan, places, &block, &cursor, &arena, &fault)
            if rc != 0 or block.consumed == 0:
                break
            block.text += block.consumed
            left -= block.consumed
            done += block.rows
            for i in range(plan.count):
                places[i].base += block.rows * width
        start = monotonic_ns() - start
    arena_free(&arena)
    free(places)
    free(table)
    if done != rows or left != 0:
        raise ValueError(f"{done} rows of {rows}, and {left} bytes are left")
    return start * 1e-9


def parse_number(int kind, bytes text not None):
    """Return the bytes of a number of a kind of CSV column, or None if it is none."""
    cdef const unsigned char* p = text
    cdef const unsigned char* end = p + len(text)
    cdef float f = 0
    cdef double d = 0
    cdef int32_t i = 0
    cdef int64_t q = 0
    if kind == 0:
        return (<const char*>&f)[:4] if csv_number(p, end, &f) else None
    if kind == 1:
        return (<const char*>&d)[:8] if csv_number(p, end, &d) else None
    if kind == 2:
        return (<const char*>&i)[:4] if csv_number(p, end, &i) else None
    return (<const char*>&q)[:8] if csv_number(p, end, &q) else None


def powers_of_five():
    """Return the table by which decimal numbers are read: {q: (high, low)}."""
    return {q: (kPowersOfFive.at[q + 342].high, kPowersOfFive.at[q + 342].low) for q in range(-342, 309)}


cdef class LinesPages:
    """Kernels of a level, at work beside pages that can't be touched: a byte read or written beyond its place ends the
    process.

    Parameters
    ----------
    level : int
        0: those of every processor, 1: AVX2, 2: AVX-512; -1: the fastest.
    room : int
        The most bytes of a text.
    """

    cdef const LinesKernels* kernels
    cdef size_t room
    cdef Guarded text, ends, values, splits

    def __init__(self, int level, size_t room):
        self.kernels = lines_kernels(level)
        if self.kernels == NULL:
            raise ValueError(f"no kernels of level {level} for this processor")
        self.room = room
        self.text = Guarded(room + 64)
        self.ends = Guarded(4 * (room + 1))
        self.values = Guarded(room + 64)
        self.splits = Guarded(8 * (room + 1))

    @staticmethod
    def same(int level, int other):
        """Return whether two levels are the same kernels."""
        return lines_kernels(level) == lines_kernels(other)

    cdef const unsigned char* _place(self, bytes data, Py_ssize_t gap):
        # Carriage returns before it and newlines behind it are none of its own.
        cdef unsigned char* text = self.text.pages
        if <size_t>len(data) > self.room or not -1 <= gap <= 64:
            raise ValueError("no room for the text")
        if gap >= 0:
            text += self.text.nbytes - gap - len(data)
        memset(self.text.pages, 13, text - self.text.pages)
        memcpy(text, <const unsigned char*>data, len(data))
        memset(text + len(data), 10, self.text.pages + self.text.nbytes - text - len(data))
        return text

    def find(self, bytes data not None, int64_t max_lines, Py_ssize_t gap=0):
        """Return the ends in a text with `gap` bytes behind it (-1: at the start of a page), and how many newlines it
        has."""
        cdef const unsigned char* text = self._place(data, gap)
        cdef uint32_t* ends
        cdef int64_t count, i
        if not 0 <= max_lines <= <int64_t>self.room:
            raise ValueError(max_lines)
        ends = <uint32_t*>(self.ends.pages + self.ends.nbytes) - max_lines
        ends[-1] = 0xabadcafe
        count = self.kernels.find(text, len(data), ends, max_lines)
        if ends[-1] != 0xabadcafe or memcmp(text, <const unsigned char*>data, len(data)) != 0:
            raise AssertionError("something else was written")
        return [ends[i] for i in range(count)], lines_count(text, len(data))

    def gather(self, bytes data not None, int64_t begin, list ends not None, int64_t nbytes, int64_t base=0,
               Py_ssize_t gap=0, Py_ssize_t behind=0):
        """Return values and splits of the lines that end so, which take `nbytes`; `behind` these, memory stays as it
        is."""
        cdef const unsigned char* text = self._place(data, gap)
        cdef int64_t n = len(ends), i, taken_bytes, limit, first
        cdef uint32_t* places
        cdef int64_t* splits
        cdef unsigned char* values
        if not 0 <= nbytes <= <int64_t>self.room or not 0 <= behind <= 64 or n > <int64_t>self.room:
            raise ValueError("no room for the lines")
        places = <uint32_t*>(self.ends.pages + self.ends.nbytes) - n
        splits = <int64_t*>(self.splits.pages + self.splits.nbytes) - n
        values = self.values.pages + self.values.nbytes - nbytes - behind
        for i in range(n):
            places[i] = ends[i]
        memset(self.values.pages, 0xcd, self.values.nbytes)
        splits[-1] = -7
        limit = lines_most(begin, places, n)
        taken_bytes = self.kernels.gather(text, begin, places, n, values, base, splits)
        if not nbytes <= limit or taken_bytes != nbytes or splits[-1] != -7:
            raise AssertionError(f"{taken_bytes} of {nbytes} bytes, {limit} at most; {splits[-1]}")
        first = values - self.values.pages
        for i in range(<int64_t>self.values.nbytes):
            if not first <= i < first + nbytes and self.values.pages[i] != 0xcd:
                raise AssertionError(f"byte {i - first} was written")
        return (<const char*>values)[:nbytes], [splits[i] for i in range(n)]
