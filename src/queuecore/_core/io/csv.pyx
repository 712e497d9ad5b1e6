"""CSV: lines of fields as numbers and strings. See csv.pxd for the contract."""
cimport cython
from libc.stdint cimport INT64_MAX, int32_t, int64_t, uint32_t, uint64_t
from libc.string cimport memchr, memcmp, memcpy, memset
from queuecore._core.atoms.memory cimport calloc, free
from queuecore._core.atoms.process cimport check_layout
from queuecore._core.atoms.errors cimport (
    CODE_CSV, CODE_EXHAUSTED, CODE_TOO_LARGE, WHAT_CSV_BARE, WHAT_CSV_FIELDS, WHAT_CSV_LONG, WHAT_CSV_MISSING,
    WHAT_CSV_NUMBER, WHAT_CSV_OPEN, WHAT_CSV_QUOTE, WHAT_MEMORY, STAGE_READ, fault_begin, fault_text, new_error,
    no_value, text_shown)
from queuecore._core.atoms.platform cimport Fault, layout_hash
from queuecore._core.steps.stages cimport Arena, Cell, Span, Step, arena_take, spans_of


cdef extern from "queuecore/kernels/csv.hpp" namespace "queuecore" nogil:
    const CsvKernels* csv_kernels(int level) noexcept
    bint is_missing(const unsigned char*, int64_t, const unsigned char*, int64_t) noexcept
    bint parse_number[T](const unsigned char*, const unsigned char*, T*) noexcept

check_layout(layout_hash())

ctypedef const unsigned char* bytes_in

cdef enum:
    QUOTE = 34
    FEED = 10
    RETURN = 13
    NOT_WHOLE = -1               # the row's end isn't in the block
    ROOM = 8192                  # limit of cuts: 32 KiB of them, and as much text, stay in the second-level cache
    WINDOW = 32 << 10            # bytes of text that are indexed at once
    WIDE_ROOM = 4                # with many columns: room for cuts of so many rows
    WIDE_WINDOW = 32             # with many columns: bytes of text for each column
    LEAST_WINDOW = 256           # bytes of text that are indexed at once, where little of it is used
    ROW_BYTES = 128              # few rows are longer

cdef struct CsvSpan:
    bytes_in data
    int64_t nbytes
    bint doubled                 # it has doubled quotes

# The field that is wrong, and its text with its quotes single.
cdef struct CsvBad:
    int32_t column
    CsvSpan text

# A row, or the place of its error.
cdef struct CsvRow:
    int64_t fields
    int64_t lines                # newlines in its fields
    bytes_in place               # of the last field
    bytes_in body                # end of the row, without its newline; or the place of its error
    bytes_in next


@cython.final
cdef class CsvFormat:
    """The format of a CSV file, or of CSV records.

    Parameters
    ----------
    columns : list of tuple
        Kind (0 float32, 1 float64, 2 int32, 3 int64, 4 bytes), index of the field in its row, and the default: its
        bytes, or `None` if a value is required. In rising order of fields.
    selected : bool
        Rows may have further fields.
    delim : int
        The byte between fields.
    quotes : bool
        Fields may be quoted.
    na : bytes
        Text that stands for a missing value, as an empty field does.
    max_record_bytes : int
        Limit of a row in a block.
    level : int, default -1
        Kernels to use: 0 those of every processor, 1 those for AVX2; -1: the fastest.
    most : int, default 0
        Fields that a row of a block may have at most; 0: any number if `selected`, else one for each column.
    """

    def __init__(self, list columns, bint selected, int delim, bint quotes, bytes na, int64_t max_record_bytes,
                 int level=-1, int64_t max_fields=0):
        cdef CsvPlan* plan = &self.plan
        cdef CsvColumn* column
        cdef Span text
        cdef int32_t i
        cdef bytes initial
        if plan.columns != NULL:
            raise TypeError("a format can't be initialised twice")
        if not columns or not 0 <= delim < 256:
            raise ValueError("a format needs columns, and a byte between them")
        plan.columns = <CsvColumn*>calloc(max(len(columns), 1), sizeof(CsvColumn))
        if plan.columns == NULL:
            raise MemoryError
        plan.count = len(columns)
        self.kept = [na]
        for i, (kind, field, default) in enumerate(columns):
            column = &plan.columns[i]
            column.kind = kind
            column.item_bytes = (4, 8, 4, 8, sizeof(Span), 1, 1)[kind]
            column.field = field
            column.required = default is None
            if default is None:
                continue
            initial = default
            self.kept.append(initial)
            if kind == CSV_TEXT:
                text.data = <bytes_in>initial
                text.nbytes = len(initial)
                memcpy(column.initial, &text, sizeof(Span))
            else:
                if len(initial) != column.item_bytes:
                    raise ValueError("a default of another size")
                memcpy(column.initial, <bytes_in>initial, column.item_bytes)
        plan.selected = selected
        plan.most = max_fields or (INT64_MAX if selected else plan.count)
        plan.quotes = quotes
        plan.dialect.delim = delim
        plan.dialect.filler = 120 if delim != 120 else 121
        plan.dialect.quotes = <uint64_t>-1 if quotes else 0
        plan.stop[delim] = plan.stop[FEED] = plan.stop[RETURN] = 1
        if quotes:
            plan.stop[QUOTE] = 1
        plan.na = <bytes_in>na
        plan.na_bytes = len(na)
        plan.max_record_bytes = max_record_bytes
        if level >= 0:
            plan.kernels = csv_kernels(level)
            if plan.kernels == NULL:
                raise ValueError(f"no kernels of level {level} for this processor")
        else:
            plan.kernels = csv_kernels(1)
            if plan.kernels == NULL:
                plan.kernels = csv_kernels(0)

    def __dealloc__(self):
        free(self.plan.columns)


cdef bint _undouble(CsvSpan* span, Arena* arena) noexcept nogil:
    cdef unsigned char* out = <unsigned char*>arena_take(arena, span.nbytes)
    cdef bytes_in p = span.data
    cdef bytes_in end = p + span.nbytes
    cdef int64_t n = 0
    if out == NULL:
        return False
    while p < end:
        out[n] = p[0]
        n += 1
        p += 2 if p[0] == QUOTE else 1
    span.data = out
    span.nbytes = n
    span.doubled = False
    return True


cdef bint _parse_byte(int kind, bytes_in p, bytes_in end, unsigned char* out) noexcept nogil:
    # Parses a field of one byte. False: it is none.
    cdef int64_t nbytes = end - p, number = 0
    if kind == CSV_BOOL:
        out[0] = 1
        if (nbytes == 1 and p[0] == b"1") or (nbytes == 4 and (
                memcmp(p, b"true", 4) == 0 or memcmp(p, b"True", 4) == 0 or memcmp(p, b"TRUE", 4) == 0)):
            return True
        out[0] = 0
        return (nbytes == 1 and p[0] == b"0") or (nbytes == 5 and (
            memcmp(p, b"false", 5) == 0 or memcmp(p, b"False", 5) == 0 or memcmp(p, b"FALSE", 5) == 0))
    if nbytes < 1 or nbytes > 3 or (p[0] == b"0" and nbytes > 1):
        return False
    while p < end:
        if p[0] < b"0" or p[0] > b"9":
            return False
        number = 10 * number + (p[0] & 15)
        p += 1
    out[0] = <unsigned char>number
    return number < 256


cdef int _fill(const CsvPlan* plan, const CsvSpan* spans, const CsvPlace* places, int64_t row, Arena* arena,
               CsvBad* bad_field) noexcept nogil:
    # Writes the fields of one row to their places. Returns 0, or a WHAT_ number for *bad. The spans keep pointing to
    # the text, because a fault tells the place of one.
    cdef const CsvColumn* column
    cdef CsvSpan span
    cdef Span text
    cdef unsigned char* out
    cdef bytes_in end
    cdef float f = 0
    cdef double d = 0
    cdef int32_t i = 0, k
    cdef int64_t q = 0
    cdef bint valid
    for k in range(plan.count):
        bad_field.column = k
        column = &plan.columns[k]
        span = spans[k]
        out = places[k].base + row * places[k].stride
        if span.doubled and not _undouble(&span, arena):
            return WHAT_MEMORY
        if is_missing(span.data, span.nbytes, plan.na, plan.na_bytes):
            if column.required:
                return WHAT_CSV_MISSING
            memcpy(out, column.initial, column.item_bytes)
            continue
        end = span.data + span.nbytes
        if column.kind == CSV_TEXT:
            text.data = span.data
            text.nbytes = span.nbytes
            memcpy(out, &text, sizeof(Span))
            continue
        if column.kind == CSV_FLOAT32:
            valid = parse_number(span.data, end, &f)
            memcpy(out, &f, sizeof(float))
        elif column.kind == CSV_FLOAT64:
            valid = parse_number(span.data, end, &d)
            memcpy(out, &d, sizeof(double))
        elif column.kind == CSV_INT32:
            valid = parse_number(span.data, end, &i)
            memcpy(out, &i, sizeof(int32_t))
        elif column.kind > CSV_TEXT:
            valid = _parse_byte(column.kind, span.data, end, out)
        else:
            valid = parse_number(span.data, end, &q)
            memcpy(out, &q, sizeof(int64_t))
        if not valid:
            bad_field.text = span
            return WHAT_CSV_NUMBER
    return 0


cdef int _split_record(const CsvPlan* plan, bytes_in p, bytes_in end, CsvSpan* spans, CsvRow* row) noexcept nogil:
    # Splits a single record, by the rules of decode_csv: newlines before a field's first character are skipped, all
    # others must be quoted. If columns are selected, fields after the last wanted one aren't looked at. Returns 0 or a
    # WHAT_ number; row.fields: how many fields there are (if columns are selected: how many of these).
    cdef unsigned char delim = plan.dialect.delim
    cdef bytes_in start = p
    cdef bytes_in s
    cdef int32_t count = 0
    cdef CsvSpan span
    row.fields = 0
    while p < end:
        if p[0] == FEED or p[0] == RETURN:
            p += 1
            continue
        span.doubled = False
        if plan.quotes and p[0] == QUOTE:
            p += 1
            s = p
            while True:
                p = <bytes_in>memchr(p, QUOTE, end - p)
                if p == NULL:
                    return WHAT_CSV_OPEN
                if p + 1 == end or p[1] == delim:
                    break
                if p[1] != QUOTE:
                    return WHAT_CSV_QUOTE
                span.doubled = True
                p += 2
            span.nbytes = p - s
            p += 2
        else:
            s = p
            while p < end and not plan.stop[p[0]]:
                p += 1
            if p < end and p[0] != delim:
                return WHAT_CSV_BARE
            span.nbytes = p - s
            p += 1
        span.data = s
        if count < plan.count and plan.columns[count].field == row.fields:
            spans[count] = span
            count += 1
            if plan.selected and count == plan.count:
                row.fields = count
                return 0
        row.fields += 1
    if end > start and end[-1] == delim:
        if count < plan.count and plan.columns[count].field == row.fields:
            spans[count].data = end
            spans[count].nbytes = 0
            spans[count].doubled = False
            count += 1
        row.fields += 1
    if plan.selected:
        row.fields = count
    return 0


cdef int64_t _newlines(bytes_in p, int64_t n) noexcept nogil:
    # Counts newlines in n bytes. p[n] can be read: it is the closing quote.
    cdef int64_t count = 0, i
    for i in range(n):
        count += p[i] == FEED or (p[i] == RETURN and p[i + 1] != FEED)
    return count


cdef int _split_row(const CsvPlan* plan, bytes_in p, bytes_in end, bint last, CsvSpan* spans,
                    CsvRow* row) noexcept nogil:
    # Splits the row of a block that begins at p. Returns 0, NOT_WHOLE or a WHAT_ number.
    cdef unsigned char delim = plan.dialect.delim
    cdef bytes_in s
    cdef int32_t count = 0
    cdef CsvSpan span
    row.fields = 0
    row.lines = 0
    while True:
        row.place = p
        span.doubled = False
        if plan.quotes and p < end and p[0] == QUOTE:
            p += 1
            s = p
            while True:
                p = <bytes_in>memchr(p, QUOTE, end - p)
                if p == NULL:
                    return WHAT_CSV_OPEN if last else NOT_WHOLE
                p += 1
                if p == end and not last:
                    return NOT_WHOLE
                if p == end or p[0] != QUOTE:
                    break
                span.doubled = True
                p += 1
            if p < end and p[0] != delim and p[0] != FEED and p[0] != RETURN:
                row.body = p
                return WHAT_CSV_QUOTE
            span.nbytes = p - 1 - s
            row.lines += _newlines(s, span.nbytes)
        else:
            s = p
            while p < end and not plan.stop[p[0]]:
                p += 1
            if p == end and not last:
                return NOT_WHOLE
            if p < end and p[0] == QUOTE and plan.quotes:
                row.body = p
                return WHAT_CSV_BARE
            span.nbytes = p - s
        span.data = s
        if count < plan.count and plan.columns[count].field == row.fields:
            spans[count] = span
            count += 1
        row.fields += 1
        row.body = p
        if p == end:
            break
        if p[0] != delim:
            if p[0] == RETURN:
                if p + 1 == end and not last:
                    return NOT_WHOLE
                if p + 1 < end and p[1] == FEED:
                    p += 1
            p += 1
            break
        p += 1
    row.next = p
    return 0


cdef bytes_in _row_end(const CsvPlan* plan, bytes_in row, bytes_in end, bint last, CsvScan* scan) noexcept nogil:
    # Returns the first byte after a row, which may have errors; NULL: the row isn't whole, and `scan` says where to go
    # on.
    cdef unsigned char delim = plan.dialect.delim
    cdef bytes_in p = row + scan.seen
    cdef bytes_in s
    cdef bytes_in quote
    while True:
        if scan.within == CSV_NEW and (p < end or last):
            scan.within = CSV_BARE
            if plan.quotes and p < end and p[0] == QUOTE:
                scan.within = CSV_QUOTED
                p += 1
        if scan.within == CSV_QUOTED:
            s = p
            while True:
                quote = <bytes_in>memchr(p, QUOTE, end - p)
                if quote == NULL:
                    # the next byte decides whether the CR is a newline of its own
                    p = end - (end > s and end[-1] == RETURN)
                    break
                p = quote
                if p + 1 == end and not last:
                    break
                if p + 1 == end or p[1] != QUOTE:
                    scan.within = CSV_BARE
                    break
                p += 2
            scan.lines += _newlines(s, p - s)
            if scan.within == CSV_BARE:
                p += 1
            elif last:
                scan.lines += p < end
                return end
            else:
                break
        while p < end and (not plan.stop[p[0]] or (p[0] == QUOTE and plan.quotes)):
            p += 1
        if p == end:
            if last:
                return end
            break
        if p[0] == delim:
            scan.within = CSV_NEW
            p += 1
            continue
        if p[0] == RETURN and p + 1 == end and not last:
            break
        return p + 2 if p[0] == RETURN and p + 1 < end and p[1] == FEED else p + 1
    scan.seen = p - row
    return NULL


cdef int64_t _fast(const CsvPlan* plan, const CsvPlace* places, const CsvBlock* block, bytes_in p, uint32_t* cuts,
                   int64_t room, int64_t window, int64_t* nbytes) noexcept nogil:
    # Parses rows from p on, within the next `window` bytes, up to the first that isn't plain or has an error. Returns
    # their number; *nbytes: their bytes.
    cdef int64_t n = block.text + block.nbytes - p, rows, width, k, r
    cdef uint32_t* ends = cuts + room
    cdef int32_t i
    cdef const CsvColumn* column
    cdef CsvFields fields
    cdef CsvMissing missing
    cdef Span text
    cdef unsigned char* out
    if n > window:
        n = window
    rows = plan.kernels.index_plain(&plan.dialect, p, n, cuts, ends, room)
    if rows == 0:
        return 0
    if rows > block.most - block.rows:
        rows = block.most - block.rows
    width = ends[0]
    if width <= plan.columns[plan.count - 1].field or width > plan.most:
        return 0
    k = 0
    while k < rows and ends[k] == (k + 1) * width:
        k += 1
    if plan.max_record_bytes < window:
        for r in range(k):
            if cuts[(r + 1) * width] - cuts[r * width] > plan.max_record_bytes:
                k = r
                break
    fields.lowest = block.text
    fields.base = p
    fields.step = width
    missing.na = plan.na
    missing.na_bytes = plan.na_bytes
    for i in range(plan.count):
        column = &plan.columns[i]
        out = places[i].base + block.rows * places[i].stride
        fields.cuts = cuts + column.field
        fields.last = column.field == width - 1
        if column.kind >= CSV_TEXT:
            for r in range(k):
                text.data = p + fields.cuts[r * width]
                text.nbytes = p + fields.cuts[r * width + 1] - 1 - text.data
                if fields.last and text.nbytes > 0 and text.data[text.nbytes - 1] == RETURN:
                    text.nbytes -= 1
                if is_missing(text.data, text.nbytes, plan.na, plan.na_bytes):
                    if column.required:
                        k = r
                        break
                    if column.kind > CSV_TEXT:
                        out[r * places[i].stride] = column.initial[0]
                        continue
                    memcpy(&text, column.initial, sizeof(Span))
                elif column.kind > CSV_TEXT:
                    if _parse_byte(column.kind, text.data, text.data + text.nbytes, out + r * places[i].stride):
                        continue
                    k = r
                    break
                memcpy(out + r * places[i].stride, &text, sizeof(Span))
            continue
        missing.required = column.required
        memcpy(&missing.bits, column.initial, 8)
        if column.kind == CSV_FLOAT32:
            k = plan.kernels.float32(&fields, &missing, k, out, places[i].stride)
        elif column.kind == CSV_FLOAT64:
            k = plan.kernels.float64(&fields, &missing, k, out, places[i].stride)
        elif column.kind == CSV_INT32:
            k = plan.kernels.int32(&fields, &missing, k, out, places[i].stride)
        else:
            k = plan.kernels.int64(&fields, &missing, k, out, places[i].stride)
    nbytes[0] = cuts[k * width]
    return k


cdef int _wrong(Fault* fault, int code, int what, const CsvCursor* cursor, int64_t beside, int64_t a,
                int64_t b) noexcept nogil:
    fault_begin(fault, code, what, STAGE_READ)
    fault.record = cursor.row
    fault.offset = cursor.offset + beside
    fault.a = a
    fault.b = b
    return -1


cdef int64_t _mark(const CsvBlock* block) noexcept nogil:
    # Returns the length of the mark of UTF-8 that the text begins with; -1: more text must show whether it is one.
    cdef int64_t n = 3 if block.nbytes > 3 else block.nbytes
    if memcmp(block.text, b"\xef\xbb\xbf", n) != 0:
        return 0
    return 3 if n == 3 else (0 if block.last else -1)


cdef int csv_parse(const CsvPlan* plan, const CsvPlace* places, CsvBlock* block, CsvCursor* cursor, Arena* arena,
                   Fault* fault) noexcept nogil:
    cdef bytes_in p = block.text
    cdef bytes_in end = block.text + block.nbytes
    cdef int64_t room = WIDE_ROOM * <int64_t>plan.count, rows, nbytes = 0, skip = 0
    cdef int64_t least = WIDE_WINDOW * <int64_t>plan.count, limit, window
    cdef uint32_t* cuts
    cdef CsvSpan* spans
    cdef CsvRow row
    cdef CsvBad bad_field
    cdef int reason
    block.rows = 0
    block.consumed = 0
    if block.nbytes == 0:
        return 0
    if cursor.offset == 0:
        skip = _mark(block)
        if skip < 0:
            return 0
    # Text that is indexed behind the last row taken is indexed again for the next rows. Where that would be most of the
    # text, because few rows are asked for or the number of fields changes often, less text is indexed at once.
    limit = WINDOW if least < WINDOW else least
    least = LEAST_WINDOW if least < LEAST_WINDOW else least
    window = block.likely
    if window == 0:
        window = limit if block.most >= limit // ROW_BYTES else block.most * ROW_BYTES
    window = max(least, min(window, limit))
    # The room has two chunks more than the text needs, because the kernel stops where another chunk might not fit.
    room = (ROOM if room < ROOM else room) + 128
    room = min(room, block.nbytes + 192)
    if block.likely > 0:
        room = min(room, window + 192)
    cuts = <uint32_t*>arena_take(arena, 2 * room * sizeof(uint32_t))
    spans = <CsvSpan*>arena_take(arena, plan.count * sizeof(CsvSpan) + 1)
    if cuts == NULL or spans == NULL:
        return _wrong(fault, CODE_EXHAUSTED, WHAT_MEMORY, cursor, 0, 2 * room * sizeof(uint32_t), 0)
    p += skip
    cursor.offset += skip
    block.consumed = skip
    while p < end and block.rows < block.most:
        rows = _fast(plan, places, block, p, cuts, room, window, &nbytes)
        if rows > 0 and 4 * nbytes < window:
            window = least
        else:
            window = limit if 2 * window > limit else 2 * window
        if rows > 0:
            row.lines = 0
        else:
            reason = _split_row(plan, p, end, block.last, spans, &row)
            # A row is over the limit even if its end isn't there yet, or has an error.
            if (end - 1 if reason == NOT_WHOLE or reason == WHAT_CSV_OPEN else row.body) - p > plan.max_record_bytes:
                return _wrong(fault, CODE_TOO_LARGE, WHAT_CSV_LONG, cursor, 0, cursor.line, plan.max_record_bytes)
            if reason == NOT_WHOLE:
                break
            if reason != 0:
                return _wrong(fault, CODE_CSV, reason, cursor, row.place - p, cursor.line + row.lines, row.fields)
            if row.fields <= plan.columns[plan.count - 1].field or row.fields > plan.most:
                return _wrong(fault, CODE_CSV, WHAT_CSV_FIELDS, cursor, 0, cursor.line,
                              (plan.columns[plan.count - 1].field + 1) << 32 | row.fields)
            reason = _fill(plan, spans, places, block.rows, arena, &bad_field)
            if reason == WHAT_MEMORY:
                return _wrong(fault, CODE_EXHAUSTED, WHAT_MEMORY, cursor, 0, spans[bad_field.column].nbytes, 0)
            if reason != 0:
                _wrong(fault, CODE_CSV, reason, cursor, spans[bad_field.column].data - p, cursor.line,
                       <int64_t>plan.columns[bad_field.column].kind << 32 | plan.columns[bad_field.column].field)
                if reason == WHAT_CSV_NUMBER:
                    fault_text(fault, bad_field.text.data, bad_field.text.nbytes)
                return -1
            rows = 1
            nbytes = row.next - p
        p += nbytes
        block.rows += rows
        block.consumed += nbytes
        cursor.offset += nbytes
        cursor.row += rows
        cursor.line += rows + row.lines
    return 0


cdef int csv_cut(const CsvPlan* plan, CsvBlock* block, CsvCursor* cursor, CsvScan* scan, Fault* fault) noexcept nogil:
    cdef bytes_in p = block.text
    cdef bytes_in end = block.text + block.nbytes
    cdef bytes_in next
    cdef int64_t rows = 0, lines, nbytes, skip = 0
    cdef CsvScan here
    memset(&here, 0, sizeof(CsvScan))
    if scan == NULL:
        scan = &here
    block.rows = 0
    block.consumed = 0
    if block.nbytes == 0:
        return 0
    if cursor.offset == 0:
        skip = _mark(block)
        if skip < 0:
            return 0
    p += skip
    cursor.offset += skip
    block.consumed = skip
    while p < end and block.rows < block.most:
        lines = rows = nbytes = 0
        if scan.seen == 0:
            nbytes = plan.kernels.count_plain(&plan.dialect, p, end - p, block.most - block.rows, &rows)
            if rows > 0:  # of a row that is a lone CR up to here, something is noted though no byte was seen
                memset(scan, 0, sizeof(CsvScan))
        if rows == 0:
            next = _row_end(plan, p, end, block.last, scan)
            if next == NULL:
                if end - 1 - p > plan.max_record_bytes:
                    return _wrong(fault, CODE_TOO_LARGE, WHAT_CSV_LONG, cursor, 0, cursor.line, plan.max_record_bytes)
                break
            rows = 1
            lines = scan.lines
            nbytes = next - p
            memset(scan, 0, sizeof(CsvScan))
        p += nbytes
        block.rows += rows
        block.consumed += nbytes
        cursor.offset += nbytes
        cursor.row += rows
        cursor.line += rows + lines
    return 0


@cython.final
cdef class CsvStep(Step):
    """Decoding of CSV records to columns.

    Parameters
    ----------
    inputs, outputs : tuple of Component
        One input of strings; one output for each column.
    format : CsvFormat
    """
    cdef readonly CsvFormat format

    def __init__(self, tuple inputs, tuple outputs, CsvFormat format not None):
        if self.params != NULL:
            raise TypeError("a step can't be initialised twice")
        self.inputs = inputs
        self.outputs = outputs
        self.format = format
        self.params = &format.plan
        self.run = _run_csv
        if inputs[0].shape == ():
            self.run_rows = _rows_of_csv

    cdef object explain(self, const Fault* fault):
        cdef Py_ssize_t column = fault.b
        if fault.what == WHAT_MEMORY:
            return new_error(CODE_EXHAUSTED, f"decode_csv: no memory for {fault.a} bytes")
        # TensorFlow's words, which count from 0; and ours, for whoever adds the record's place in a file.
        field = None
        if fault.what == WHAT_CSV_FIELDS:
            text = f"Expect {self.format.plan.count} fields but have {fault.b} in record {fault.a}"
            subject = f"expected {self.format.plan.count} fields, got {fault.b}"
        elif fault.what == WHAT_CSV_MISSING:
            text = f"Field {column} is required but missing in record {fault.a}!"
            subject = f"column {column + 1}: a value is required here"
            field = column
        elif fault.what == WHAT_CSV_NUMBER:
            text = f"Field {column} in record {fault.a} is not a valid {self.outputs[column].dtype}"
            subject = f"column {column + 1}: {no_value(fault, self.outputs[column].dtype)}"
            if fault.text_bytes > 0:
                text += f": {text_shown(fault)}"
            field = column
        elif fault.what == WHAT_CSV_BARE:
            text = f"Record {fault.a} has a quote or a newline inside a field that is not quoted"
            subject = "a quote or a newline inside a field that is not quoted"
        elif fault.what == WHAT_CSV_QUOTE:
            text = (f"Record {fault.a} has a quote inside a quoted field that is not doubled, or text after the "
                    "closing one")
            subject = "a quote inside a quoted field that is not doubled, or text after the closing one"
        else:
            text = f"Record {fault.a} has a quoted field that is not closed before the end of the record"
            subject = "a quoted field that is not closed before the end of the record"
        error = new_error(CODE_CSV, text, dict(record=fault.a))
        error.field = field
        string = "" if fault.a == 0 else f"string {fault.a} of the record, "
        error.placed_text = f"decode_csv: {string}{subject}"
        return error


def placed_text(object error):
    """Return what a step's error says, without a place; the caller adds that of the record."""
    return getattr(error, "placed_text", None) or str(error)


cdef int _no_memory(Fault* fault, int64_t nbytes) noexcept nogil:
    fault.what = WHAT_MEMORY
    fault.a = nbytes
    fault.b = 0
    return -1


cdef inline Span _record_at(const Cell* cell, int64_t rows, int64_t i) noexcept nogil:
    # Returns record i of an array of strings, of a lone one (rows 0), or of as many elements as there are rows.
    cdef Span record
    if rows > 0 and cell.offsets != NULL:
        return spans_of(cell)[i]
    if cell.offsets != NULL:
        record.data = cell.data + cell.offsets[i]
        record.nbytes = cell.offsets[i + 1] - cell.offsets[i]
        return record
    record.nbytes = cell.nbytes // max(rows, 1)
    record.data = cell.data + i * record.nbytes
    return record


cdef CsvPlace* _decoded(const CsvPlan* plan, const Cell* cell, int64_t rows, int64_t n, Cell* outputs, Arena* arena,
                        Fault* fault) noexcept nogil:
    # Decodes n records. Returns the places of their columns, of which those of numbers are the outputs' own; NULL: a
    # fault.
    cdef CsvPlace* places = <CsvPlace*>arena_take(arena, plan.count * sizeof(CsvPlace))
    cdef CsvSpan* spans = <CsvSpan*>arena_take(arena, plan.count * sizeof(CsvSpan))
    cdef CsvRow row
    cdef Cell* out
    cdef Span record
    cdef int64_t i
    cdef int32_t j
    cdef CsvBad bad_field
    if places == NULL or spans == NULL:
        _no_memory(fault, plan.count * sizeof(CsvSpan))
        return NULL
    for j in range(plan.count):
        out = &outputs[j]
        places[j].stride = plan.columns[j].item_bytes
        places[j].base = out.data
        out.nbytes = n * places[j].stride
        if plan.columns[j].kind == CSV_TEXT or out.data == NULL:
            places[j].base = <unsigned char*>arena_take(arena, out.nbytes + 1)
            if places[j].base == NULL:
                _no_memory(fault, out.nbytes)
                return NULL
        out.data = places[j].base
    for i in range(n):
        record = _record_at(cell, rows, i)
        fault.a = i
        fault.b = 0
        fault.what = _split_record(plan, record.data, record.data + record.nbytes, spans, &row)
        if fault.what != 0:
            return NULL
        if row.fields != plan.count:
            fault.what = WHAT_CSV_FIELDS
            fault.b = row.fields
            return NULL
        fault.what = _fill(plan, spans, places, i, arena, &bad_field)
        if fault.what == WHAT_MEMORY:
            _no_memory(fault, spans[bad_field.column].nbytes)
            return NULL
        fault.b = bad_field.column
        if fault.what == WHAT_CSV_NUMBER:
            fault_text(fault, bad_field.text.data, bad_field.text.nbytes)
        if fault.what != 0:
            return NULL
    return places


cdef int _rows_of_csv(const void* params, const Cell* inputs, Cell* outputs, int64_t rows, Arena* arena,
                      Fault* fault) noexcept nogil:
    cdef const CsvPlan* plan = <const CsvPlan*>params
    cdef CsvPlace* places = _decoded(plan, &inputs[0], rows, rows, outputs, arena, fault)
    cdef int32_t j
    if places == NULL:
        return -1
    for j in range(plan.count):
        outputs[j].offsets = NULL
        if plan.columns[j].kind == CSV_TEXT:
            outputs[j].data = NULL
            outputs[j].offsets = <const int64_t*>places[j].base
    return 0


cdef int _run_csv(const void* params, const Cell* inputs, Cell* outputs, Arena* arena, Fault* fault) noexcept nogil:
    cdef const CsvPlan* plan = <const CsvPlan*>params
    cdef const Cell* cell = &inputs[0]
    cdef Cell* out
    cdef CsvPlace* places
    cdef Span* texts
    cdef int64_t* offsets
    cdef int64_t n = 1, i
    cdef int32_t j
    for j in range(cell.ndim):
        n *= cell.dims[j]
    places = _decoded(plan, cell, 0, n, outputs, arena, fault)
    if places == NULL:
        return -1
    for j in range(plan.count):
        out = &outputs[j]
        out.ndim = cell.ndim
        memcpy(out.dims, cell.dims, cell.ndim * sizeof(int64_t))
        out.offsets = NULL
        if plan.columns[j].kind != CSV_TEXT:
            continue
        texts = <Span*>places[j].base
        if cell.ndim == 0:
            out.data = <unsigned char*>texts[0].data
            out.nbytes = texts[0].nbytes
            continue
        offsets = <int64_t*>arena_take(arena, (n + 1) * sizeof(int64_t))
        if offsets == NULL:
            return _no_memory(fault, (n + 1) * sizeof(int64_t))
        offsets[0] = 0
        for i in range(n):
            offsets[i + 1] = offsets[i] + texts[i].nbytes
        out.offsets = offsets
        out.nbytes = offsets[n]
        out.data = <unsigned char*>arena_take(arena, out.nbytes + 1)
        if out.data == NULL:
            return _no_memory(fault, out.nbytes)
        for i in range(n):
            memcpy(out.data + offsets[i], texts[i].data, texts[i].nbytes)
    return 0
