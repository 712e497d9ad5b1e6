"""Targets of the fuzzer: tables of CSV, single rows as a step decodes them, and numbers."""
from libc.stdint cimport int32_t, int64_t
from libc.string cimport memchr, memcmp, memcpy, memset
from queuecore._core.atoms.memory cimport free, malloc
from queuecore._core.atoms.process cimport check_layout
from queuecore._core.io.csv cimport (
    CSV_TEXT, CsvBlock, CsvCursor, CsvFormat, CsvPlace, CsvPlan, CsvScan, csv_cut, csv_parse)
from queuecore._core.atoms.errors cimport CODE_CSV, CODE_TOO_LARGE
from queuecore._core.atoms.platform cimport Fault, layout_hash
from queuecore._core.steps.stages cimport Arena, Span, Step, arena_free, arena_reset
from queuecore._core.testing.fuzz_inputs cimport Given, Growing, Verdict, append, choice, copy_of, least, same
from queuecore._core.testing.fuzz_steps cimport MOST_OUTPUTS, Steps, both_ways

from queuecore._core.io.csv import CsvStep
from queuecore._elements.component import BYTES, Component

check_layout(layout_hash())

cdef extern from "queuecore/kernels/numbers.hpp" namespace "queuecore" nogil:
    bint parse_number[T](const unsigned char*, const unsigned char*, T*) noexcept

cdef extern from "errno.h" nogil:
    int errno
    const int ERANGE

cdef extern from "stdlib.h" nogil:
    double strtod(const char*, char**)
    float strtof(const char*, char**)
    long long strtoll(const char*, char**, int)

cdef list _kept = []  # what the plans and the steps are


# ---- CSV -------------------------------------------------------------------------------------------------------------

cdef enum:
    FORMATS = 8
    ROWS = 16          # of a call at most

cdef CsvPlan* _formats[FORMATS][2]    # by level
cdef Steps _records[FORMATS]

# The result of parsing a text.
cdef struct Table:
    Growing items        # row by row and column by column: the number of bytes, and the bytes
    CsvCursor at
    int64_t rows, skipped
    Fault fault          # code 0: none
    Verdict verdict


cdef void _take_rows(const CsvPlan* plan, const CsvPlace* places, int64_t rows, Growing* items) noexcept nogil:
    cdef const Span* text
    cdef int64_t r, n
    cdef int32_t i
    cdef const unsigned char* p
    for r in range(rows):
        for i in range(plan.count):
            p = places[i].base + r * places[i].stride
            n = places[i].stride
            if plan.columns[i].kind == CSV_TEXT:
                text = <const Span*>p
                p = text.data
                n = text.nbytes
            append(items, &n, sizeof(n))
            append(items, p, n)


cdef void _read_table(const CsvPlan* plan, const unsigned char* data, int64_t size, int64_t step, int64_t max_rows,
                      bint cut, bint skip, Table* table) noexcept nogil:
    # As a source does: in blocks that grow by `step` until they hold a row. cut: find the ends of rows first, and parse
    # what they enclose. skip: pass over bad rows.
    cdef CsvPlace places[MOST_OUTPUTS]
    cdef CsvCursor cursor, cut_at
    cdef CsvBlock block, whole_block
    cdef CsvScan scan
    cdef Arena arena
    cdef int64_t begin = 0, held_bytes = 0
    cdef int32_t i
    cdef int rc
    cdef unsigned char* text = NULL
    memset(table, 0, sizeof(Table))
    memset(&arena, 0, sizeof(Arena))
    memset(&cursor, 0, sizeof(CsvCursor))
    memset(&block, 0, sizeof(CsvBlock))
    memset(&scan, 0, sizeof(CsvScan))
    cursor.line = 1
    for i in range(plan.count):
        places[i].stride = plan.columns[i].item_bytes
        places[i].base = <unsigned char*>malloc(ROWS * places[i].stride)
    while table.verdict == NULL:
        free(text)
        text = copy_of(data + begin, held_bytes)
        block.text = text
        block.nbytes = held_bytes
        block.last = begin + held_bytes == size
        block.most = max_rows
        block.likely = held_bytes // 2 if max_rows % 2 == 0 else 0
        arena_reset(&arena)
        rc = 0
        if cut:
            whole_block = block
            cut_at = cursor
            rc = csv_cut(plan, &whole_block, &cut_at, &scan, &table.fault)
            block.nbytes = whole_block.consumed
            block.last = True
            block.most = whole_block.rows
            block.rows = block.consumed = 0
        if rc == 0:
            rc = csv_parse(plan, places, &block, &cursor, &arena, &table.fault)
            if cut and rc == 0 and (block.consumed != whole_block.consumed
                                    or memcmp(&cursor, &cut_at, sizeof(CsvCursor)) != 0):
                table.verdict = "csv: rows were cut where they don't end"
        if block.rows > max_rows or block.consumed > block.nbytes:
            table.verdict = "csv: more rows than were asked for, or than there are bytes"
            break
        _take_rows(plan, places, block.rows, &table.items)
        table.rows += block.rows
        begin += block.consumed
        held_bytes -= block.consumed
        if rc != 0:
            if not skip or table.fault.code != CODE_CSV:
                break
            memset(&scan, 0, sizeof(CsvScan))
            while True:
                block.text = data + begin
                block.nbytes = held_bytes
                block.last = begin + held_bytes == size
                block.most = 1
                csv_cut(plan, &block, &cursor, &scan, &table.fault)
                begin += block.consumed
                held_bytes -= block.consumed
                if block.rows > 0 or block.last:
                    break
                held_bytes = least(held_bytes + step, size - begin)
            table.skipped += 1
            memset(&table.fault, 0, sizeof(Fault))
        elif block.consumed == 0:
            if begin + held_bytes == size:
                break
            if held_bytes > plan.max_record_bytes + 4:  # CR LF or what shows that it is longer, and a mark
                table.verdict = "csv: a block that is longer than a row may be"
            held_bytes = least(held_bytes + step, size - begin)
    table.at = cursor
    if table.rows + table.skipped != cursor.row and table.verdict == NULL:
        table.verdict = "csv: rows that aren't counted"
    for i in range(plan.count):
        free(places[i].base)
    free(text)
    arena_free(&arena)


cdef Verdict fuzz_csv(Given g) noexcept nogil:
    # Text in one block and in many, rows cut first or not, by all kernels: always the same rows and the same fault.
    cdef int64_t choices = choice(&g), step = 1 + choice(&g), max_rows = 1 + choice(&g) % ROWS
    cdef int64_t index = choice(&g) % FORMATS
    cdef Table tables[2]
    cdef Verdict verdict = NULL
    cdef const CsvPlan* plan
    cdef int32_t i
    cdef bint skip = choices & 1
    if step < g.n // 64:  # each block is looked at anew
        step = g.n // 64
    _read_table(_formats[index][0], g.p, g.n, g.n if g.n > 0 else 1, ROWS, False, skip, &tables[0])
    verdict = tables[0].verdict
    for i in range(3):
        if verdict != NULL:
            break
        plan = _formats[index][i & 1]
        _read_table(plan, g.p, g.n, step if i < 2 else g.n + 1, max_rows, i == 1, skip, &tables[1])
        if tables[1].verdict != NULL:
            verdict = tables[1].verdict
        elif i == 1 and tables[1].fault.code == CODE_TOO_LARGE:
            # To who cuts, a long row is a fault before it is a bad one.
            if tables[1].items.n > tables[0].items.n or (
                    tables[1].items.n > 0 and memcmp(tables[0].items.p, tables[1].items.p, tables[1].items.n) != 0) or (
                    tables[0].fault.code == 0 and tables[0].skipped == tables[1].skipped):
                verdict = "csv: a row that is too long to who cuts it"
        elif not same(&tables[0].items, &tables[1].items) or tables[0].skipped != tables[1].skipped:
            verdict = "csv: other rows"
        elif tables[0].fault.code != tables[1].fault.code or (tables[0].fault.code != 0 and (
                tables[0].fault.what != tables[1].fault.what or tables[0].fault.offset != tables[1].fault.offset or
                tables[0].fault.record != tables[1].fault.record or tables[0].fault.a != tables[1].fault.a or
                tables[0].fault.b != tables[1].fault.b)):
            verdict = "csv: another fault"
        elif tables[0].fault.code == 0 and memcmp(&tables[0].at, &tables[1].at, sizeof(CsvCursor)) != 0:
            verdict = "csv: another end"
        free(tables[1].items.p)
    free(tables[0].items.p)
    return verdict


cdef Verdict fuzz_csv_record(Given g) noexcept nogil:
    # Records of decode_csv, alone and two at once.
    cdef int64_t choices = choice(&g), cut = choice(&g)
    return both_ways(&_records[choices % FORMATS], g.p, g.n, g.n if cut >= 128 else cut * g.n // 128, choices & 64)


def _format(int index, list kinds, fields=None, delim=b",", bint quotes=True, na=b"", int64_t limit=1 << 20,
            bint required=False):
    cdef CsvFormat csv_format
    cdef Step step
    cdef Steps* steps = &_records[index]
    cdef int32_t i, item
    sizes = [4, 8, 4, 8, 0]
    columns = [(kind, field, b"none" if kind == CSV_TEXT else None if required else b"\x07" * sizes[kind])
               for kind, field in zip(kinds, fields or range(len(kinds)), strict=True)]
    for level in range(2):
        try:
            csv_format = CsvFormat(columns, fields is not None, delim[0], quotes, na, limit, level)
        except ValueError:  # not on this processor
            csv_format = CsvFormat(columns, fields is not None, delim[0], quotes, na, limit, 0)
        _kept.append(csv_format)
        _formats[index][level] = &csv_format.plan
    step = CsvStep((Component(BYTES, ()),), (None,) * len(kinds), csv_format)
    _kept.append(step)
    for batch in range(2):
        steps.run[batch] = step.run
        steps.params[batch] = step.params
        steps.count[batch] = len(kinds)
        for i in range(len(kinds)):
            item = sizes[kinds[i]]
            steps.outputs[batch][i].item = steps.outputs[batch][i].place = item


_format(0, [4, 4])
_format(1, [0, 1, 2, 3, 4])
_format(2, [1, 1, 1], [0, 2, 3], na=b"NA")
_format(3, [2, 3], delim=b";", required=True)
_format(4, [4, 0, 4], quotes=False, na=b"-")
_format(5, [4, 2], limit=20)
_format(6, [4], [1])
_format(7, [0] * 72)


# ---- numbers ---------------------------------------------------------------------------------------------------------

cdef enum:
    NUMBER_BYTES = 1000

cdef CsvPlan* _columns[4][2]    # of one kind, the second field of a row; by level


cdef bint _blank(unsigned char c) noexcept nogil:
    return c == 32 or 9 <= c <= 13


cdef bint _by_library(int kind, const unsigned char* p, int64_t n, unsigned char* out) noexcept nogil:
    # Parses the text by the C library. False: it is no number.
    cdef char text[NUMBER_BYTES + 1]
    cdef char* end = NULL
    cdef float f
    cdef double d
    cdef long long q
    cdef int32_t i
    global errno
    while n > 0 and _blank(p[n - 1]):
        n -= 1
    if n == 0 or memchr(p, 0, n) != NULL or memchr(p, 40, n) != NULL:  # nan(...) is none of ours
        return False
    memcpy(text, p, n)
    text[n] = 0
    errno = 0
    if kind == 0:
        f = strtof(text, &end)
        memcpy(out, &f, 4)
    elif kind == 1:
        d = strtod(text, &end)
        memcpy(out, &d, 8)
    else:
        q = strtoll(text, &end, 10)
        i = <int32_t>q
        if errno == ERANGE or (kind == 2 and i != q):
            return False
        if kind == 2:
            memcpy(out, &i, 4)
        else:
            memcpy(out, &q, 8)
    return end == text + n


cdef bint _not_a_number(int kind, const unsigned char* p) noexcept nogil:
    cdef float f
    cdef double d
    if kind > 1:
        return False
    memcpy(&f, p, 4)
    memcpy(&d, p, 8)
    return f != f if kind == 0 else d != d


cdef Verdict fuzz_number(Given g) noexcept nogil:
    # A number on its own and, where it can be, in a column: what the C library says.
    cdef int kind = choice(&g) % 4, level
    cdef int64_t n = least(g.n, NUMBER_BYTES), nbytes = 4 if kind == 0 or kind == 2 else 8
    cdef unsigned char want[8]
    cdef unsigned char parsed[8]
    cdef unsigned char* text
    cdef bint right, valid
    cdef Growing line
    cdef CsvPlace place
    cdef CsvBlock block
    cdef CsvCursor cursor
    cdef Arena arena
    cdef Fault fault
    cdef Verdict verdict = NULL
    cdef int64_t i
    memset(want, 0, 8)
    memset(parsed, 0, 8)
    right = _by_library(kind, g.p, n, want)
    text = copy_of(g.p, n)
    if kind == 0:
        valid = parse_number(text, text + n, <float*>parsed)
    elif kind == 1:
        valid = parse_number(text, text + n, <double*>parsed)
    elif kind == 2:
        valid = parse_number(text, text + n, <int32_t*>parsed)
    else:
        valid = parse_number(text, text + n, <int64_t*>parsed)
    free(text)
    if valid != right:
        return "number: valid to one, not to the other"
    if right and _not_a_number(kind, want):
        if not _not_a_number(kind, parsed):
            verdict = "number: no nan"
        return verdict
    if right and memcmp(want, parsed, nbytes) != 0:
        return "number: another value"
    for i in range(n):
        if g.p[i] == 10 or g.p[i] == 13 or g.p[i] == 34 or g.p[i] == 44:
            return NULL
    if n == 0:
        return NULL
    memset(&line, 0, sizeof(Growing))
    # Rows before it: the kernels read some bytes before the number.
    append(&line, <const char*>b",1\r\nfield and field,2\r\nanother one,", 35)
    append(&line, g.p, n)
    append(&line, <const char*>b"\n", 1)
    text = copy_of(line.p, line.n)
    for level in range(2):
        memset(&arena, 0, sizeof(Arena))
        memset(&cursor, 0, sizeof(CsvCursor))
        memset(&block, 0, sizeof(CsvBlock))
        memset(&fault, 0, sizeof(Fault))
        cursor.line = 1
        block.text = text
        block.nbytes = line.n
        block.last = True
        block.most = ROWS
        place.stride = nbytes
        place.base = <unsigned char*>malloc(3 * nbytes)
        valid = csv_parse(_columns[kind][level], &place, &block, &cursor, &arena, &fault) == 0
        if valid != right or block.rows != 2 + right:
            verdict = "number: in a column, it is valid to one and not to the other"
        elif right and memcmp(place.base + 2 * nbytes, want, nbytes) != 0:
            verdict = "number: in a column, another value"
        free(place.base)
        arena_free(&arena)
    free(text)
    free(line.p)
    return verdict


cdef int _column(int kind) except -1:
    cdef CsvFormat csv_format
    for level in range(2):
        try:
            csv_format = CsvFormat([(kind, 1, None)], True, b","[0], True, b"", 1 << 20, level)
        except ValueError:
            csv_format = CsvFormat([(kind, 1, None)], True, b","[0], True, b"", 1 << 20, 0)
        _kept.append(csv_format)
        _columns[kind][level] = &csv_format.plan
    return 0


for _kind in range(4):
    _column(_kind)
