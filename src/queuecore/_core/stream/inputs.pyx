"""Inputs of steps: records as cells. See inputs.pxd for the contract."""
from libc.stdint cimport int32_t, int64_t, uint32_t
from libc.string cimport memcpy, memset
from queuecore._core.atoms.dims cimport MAX_DIMS
from queuecore._core.atoms.errors cimport CODE_EXHAUSTED, STAGE_MAP, WHAT_MEMORY, fault_begin
from queuecore._core.atoms.platform cimport Fault, layout_hash
from queuecore._core.atoms.process cimport check_layout
from queuecore._core.io.blocks cimport BLOCK_MOVED, CSV_STRIDE, Moved, MovedBlock, RecordBlock
from queuecore._core.io.csv cimport CSV_TEXT, CsvBlock, CsvCursor, CsvPlace, csv_cut, csv_parse
from queuecore._core.io.framing cimport FRAME_CSV, FRAME_LINES
from queuecore._core.io.handed cimport Column, HandedBlock
from queuecore._core.io.walk cimport WalkKind
from queuecore._core.order.runs cimport Run
from queuecore._core.steps.stages cimport Arena, Cell, Span, arena_take
from queuecore._core.stream.maker cimport COLUMN_BYTES, CSV_ROWS, TAKE_LENGTHS, Maker, Output, Scratch

check_layout(layout_hash())

ctypedef const unsigned char* bytes_in
ctypedef unsigned char* bytes_out


cdef void csv_find(const Maker* m, const RecordBlock* b, int64_t first, CsvBlock* block,
                   CsvCursor* cursor) noexcept nogil:
    cdef bytes_in end = b.text + b.nbytes  # the byte after a lone CR decides whether the CR ends a row
    cdef Fault fault
    cursor[0] = (<const CsvCursor*>b.index)[first // CSV_STRIDE]
    block.last = b.last
    block.text = b.text + (cursor.offset - b.place.offset)
    block.nbytes = end - block.text
    block.most = first % CSV_STRIDE
    block.likely = 0
    if block.most > 0:
        csv_cut(m.csv, block, cursor, NULL, &fault)
        block.text = b.text + (cursor.offset - b.place.offset)
        block.nbytes = end - block.text


cdef int64_t csv_bytes(const RecordBlock* b, const CsvCursor* cursor, int64_t first, int64_t n) noexcept nogil:
    cdef int64_t known = (first + n + CSV_STRIDE - 1) // CSV_STRIDE, rows, nbytes
    if known * CSV_STRIDE < b.count:
        rows = known * CSV_STRIDE - first
        nbytes = (<const CsvCursor*>b.index)[known].offset - cursor.offset
    else:
        rows = b.count - first
        nbytes = b.place.offset + b.nbytes - cursor.offset
    return nbytes * min(n + n // 4 + 1, rows) // rows


cdef void moved_find(const Maker* m, const RecordBlock* b, int64_t first, MovedRow* moved_row) noexcept nogil:
    cdef int64_t low = 0, high = b.count, middle
    cdef const Moved* records = (<const MovedBlock*>b).records
    cdef const Moved* record
    cdef RecordBlock* block = &moved_row.block
    while high - low > 1:
        middle = (low + high) // 2
        if records[middle].first <= first:
            low = middle
        else:
            high = middle
    record = &records[low]
    memset(block, 0, sizeof(RecordBlock))
    block.text = b.text + record.at
    block.nbytes = record[1].at - record.at
    block.place = b.place
    block.place.offset += record.was
    block.place.number += b.skip + first
    block.pass_ = b.pass_
    block.count = 1
    block.last = True
    if m.framing == FRAME_LINES:
        moved_row.end = <uint32_t>block.nbytes + (block.text[block.nbytes - 1] != 10)
        block.index = &moved_row.end
    elif m.walk != NULL:
        moved_row.starts[0] = 0
        moved_row.starts[1] = block.nbytes
        block.index = moved_row.starts
    elif m.framing == FRAME_CSV:
        moved_row.at.offset = block.place.offset
        # rows of the header have negative numbers
        moved_row.at.row = first + (b.place.number if b.place.number > 0 else 0)
        moved_row.at.line = record.line
        block.index = &moved_row.at


cdef inline Span* _span_inputs(Scratch* s, Cell* cell, int64_t at, int64_t room) noexcept nogil:
    # Returns where the span of row `at` of an input is to be written; NULL: no memory.
    if at == 0:
        cell.data = NULL
        cell.offsets = <const int64_t*>arena_take(&s.arena, room * sizeof(Span))
    return <Span*>cell.offsets + at if cell.offsets != NULL else NULL


cdef bint inputs_of_records(const Maker* m, Scratch* s, const unsigned char* records, int64_t stride, int64_t n,
                            int64_t position, int64_t room) noexcept nogil:
    cdef Cell* cell = s.cells
    cdef bytes_out to
    cdef int64_t i
    if n == room and stride == m.record_bytes:
        cell.data = <bytes_out>records
        cell.nbytes = n * stride
        cell.offsets = NULL
        return True
    to = row_inputs(s, cell, position, room, m.record_bytes)
    if to == NULL:
        return False
    for i in range(n):
        memcpy(to + i * m.record_bytes, records + i * stride, m.record_bytes)
    return True


cdef bint _line_inputs(Scratch* s, const RecordBlock* b, int64_t first, int64_t n, int64_t at,
                       int64_t room) noexcept nogil:
    cdef const uint32_t* ends = <const uint32_t*>b.index + b.skip + first
    cdef int64_t start = 0 if b.skip + first == 0 else ends[-1], i
    cdef Span* spans = _span_inputs(s, s.cells, at, room)
    if spans == NULL:
        return False
    for i in range(n):
        spans[i].data = b.text + start
        spans[i].nbytes = line_end(b.text, start, ends[i]) - start
        start = ends[i]
    return True


cdef bint _walked_inputs(const Maker* m, Scratch* s, const RecordBlock* b, int64_t first, int64_t n, int64_t at,
                         int64_t room) noexcept nogil:
    cdef const WalkKind* kind = m.walk
    cdef const int64_t* starts = <const int64_t*>b.index + first
    cdef Span* spans = _span_inputs(s, s.cells, at, room)
    cdef int64_t i
    if spans == NULL:
        return False
    for i in range(n):
        spans[i].data = b.text + starts[i] + kind.header_bytes
        spans[i].nbytes = starts[i + 1] - starts[i] - kind.frame_bytes
        if kind.check != NULL and not kind.check(spans[i].data, spans[i].nbytes):
            return False
    return True


cdef bint _handed_inputs(const Maker* m, Scratch* s, const HandedBlock* chunk, int64_t first, int64_t n,
                         int64_t position, int64_t room) noexcept nogil:
    cdef const Column* columns = <const Column*>chunk.block.index
    cdef const int64_t* row_numbers = chunk.rows + first if chunk.rows != NULL else NULL
    cdef const Output* o
    cdef Cell* cell
    cdef bytes_in data
    cdef bytes_out to
    cdef Span* spans
    cdef int64_t i, k
    cdef int32_t j
    first += chunk.block.skip
    for j in range(m.column_count):
        o = &m.columns[j]
        cell = &s.cells[o.cell]
        data = columns[j].data
        if o.item != 0:
            spans = _span_inputs(s, cell, position, room)
            if spans == NULL:
                return False
            for i in range(n):
                k = row_numbers[i] if row_numbers != NULL else first + i
                spans[i].data = data + columns[j].ends[k]
                spans[i].nbytes = columns[j].ends[k + 1] - columns[j].ends[k]
        elif n == room and row_numbers == NULL:
            cell.data = <bytes_out>data + first * o.row_bytes
            cell.nbytes = n * o.row_bytes
            cell.offsets = NULL
        else:
            to = row_inputs(s, cell, position, room, o.row_bytes)
            if to == NULL:
                return False
            for i in range(n):
                k = row_numbers[i] if row_numbers != NULL else first + i
                copy_row(to + i * o.row_bytes, data + k * o.row_bytes, o.row_bytes)
    return True


cdef bint _csv_inputs(const Maker* m, Scratch* s, const RecordBlock* b, int64_t first, int64_t n, int64_t position,
                      int64_t room) noexcept nogil:
    cdef CsvPlace* places = <CsvPlace*>(s.columns + m.csv.count * CSV_ROWS * COLUMN_BYTES)
    cdef CsvCursor cursor
    cdef CsvBlock block
    cdef Cell* cell
    cdef Fault fault
    cdef int32_t j
    for j in range(m.csv.count):
        cell = &s.cells[j]
        cell.data = s.columns + j * CSV_ROWS * COLUMN_BYTES
        cell.nbytes = room * m.csv.columns[j].item_bytes
        cell.offsets = <const int64_t*>cell.data if m.csv.columns[j].kind == CSV_TEXT else NULL
        places[j].base = cell.data + position * m.csv.columns[j].item_bytes
        places[j].stride = m.csv.columns[j].item_bytes
    csv_find(m, b, first, &block, &cursor)
    block.most = n
    block.likely = csv_bytes(b, &cursor, first, n)
    return csv_parse(m.csv, places, &block, &cursor, &s.arena, &fault) == 0 and block.rows == n


cdef bint inputs_of_block(const Maker* m, Scratch* s, const RecordBlock* b, int64_t first, int64_t n, int64_t position,
                          int64_t room) noexcept nogil:
    cdef MovedRow moved
    cdef int64_t i
    if b.kind == BLOCK_MOVED:
        for i in range(n):
            moved_find(m, b, first + i, &moved)
            if not inputs_of_block(m, s, &moved.block, 0, 1, position + i, room):
                return False
        return True
    if m.columns != NULL:
        return _handed_inputs(m, s, <const HandedBlock*>b, first, n, position, room)
    if m.framing == FRAME_LINES:
        return _line_inputs(s, b, first, n, position, room)
    if m.walk != NULL:
        return _walked_inputs(m, s, b, first, n, position, room)
    if m.framing == FRAME_CSV:
        return _csv_inputs(m, s, b, first, n, position, room)
    return inputs_of_records(m, s, b.text + first * m.hop_bytes, m.hop_bytes, n, position, room)


cdef bint inputs_of_lone(const Maker* m, Scratch* s, const Run* runs, int64_t n) noexcept nogil:
    cdef int64_t i
    for i in range(n):
        if not inputs_of_block(m, s, runs[i].block, runs[i].first, 1, i, n):
            return False
    return True


cdef bint row_cells(const Output* outputs, int32_t count, const int64_t* shapes, const Column* columns,
                    int64_t position, Cell* cells, Arena* arena, Fault* fault) noexcept nogil:
    cdef const Output* o
    cdef const Column* c
    cdef Cell* cell
    cdef int64_t n, i, end
    cdef int64_t* offsets
    cdef int32_t j, k
    for j in range(count):
        o = &outputs[j]
        c = &columns[j]
        cell = &cells[o.cell]
        if o.take == TAKE_LENGTHS:
            n = (c.ends[position + 1] - c.ends[position]) // sizeof(int64_t)
            offsets = <int64_t*>arena_take(arena, (n + 1) * sizeof(int64_t))
            if offsets == NULL:
                fault_begin(fault, CODE_EXHAUSTED, WHAT_MEMORY, STAGE_MAP)
                fault.a = (n + 1) * sizeof(int64_t)
                return False
            offsets[0] = end = 0
            for i in range(n):
                end += (<const int64_t*>(c.data + c.ends[position]))[i]
                offsets[i + 1] = end
            cell.offsets = offsets
            cell.ndim = 1
            cell.dims[0] = n
            continue
        cell.offsets = NULL
        cell.ndim = 0
        if o.item == 0:
            cell.data = <bytes_out>c.data + position * o.row_bytes
            cell.nbytes = o.row_bytes
            cell.ndim = o.ndim
            for k in range(o.ndim):
                cell.dims[k] = shapes[j * MAX_DIMS + k]
            continue
        cell.data = <bytes_out>c.data + c.ends[position]
        cell.nbytes = c.ends[position + 1] - c.ends[position]
        cell.ndim = o.ndim
        if o.ndim > 0 and c.dims == NULL:  # only the first dimension varies, and it follows from the length
            cell.dims[0] = cell.nbytes // o.item
            for k in range(1, o.ndim):
                cell.dims[k] = shapes[j * MAX_DIMS + k]
            continue
        for k in range(o.ndim):
            cell.dims[k] = c.dims[position * o.ndim + k]
    return True
