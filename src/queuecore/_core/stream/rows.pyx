"""Records to rows of batches. See rows.pxd for the contract."""
from libc.stdint cimport int32_t, int64_t, uint32_t
from libc.string cimport memcpy, memmove, memset, strlen
from queuecore._core.atoms.dims cimport MAX_DIMS
from queuecore._core.atoms.memory cimport calloc, free, malloc
from queuecore._core.atoms.process cimport check_layout
from queuecore._core.io.blocks cimport BLOCK_MOVED, CSV_STRIDE, RecordBlock
from queuecore._core.io.csv cimport CSV_TEXT, CsvBlock, CsvCursor, CsvPlace, csv_parse
from queuecore._core.atoms.errors cimport (
    CODE_DATA_LOSS, CODE_EXHAUSTED, CODE_INTERNAL, CODE_STEP, STAGE_MAP, STAGE_READ, WHAT_MEMORY, WHAT_PADDED,
    fault_begin)
from queuecore._core.io.framing cimport FRAME_CSV, FRAME_LINES, FRAME_WHOLE
from queuecore._core.io.handed cimport Column, HandedBlock
from queuecore._core.atoms.growing cimport grow, grow_rows, growing_free
from queuecore._core.io.lines cimport lines_kernels, lines_most
from queuecore._core.atoms.platform cimport Fault, layout_hash, size_product, size_sum
from queuecore._core.order.runs cimport Run, RunList
from queuecore._core.steps.decode cimport prefetch
from queuecore._core.steps.stages cimport Cell, Span, arena_free, arena_reset, spans_of, step_begun, step_ended
from queuecore._core.io.walk cimport WalkKind
from queuecore._core.stream.inputs cimport (
    MovedRow, copy_row, csv_bytes, csv_find, inputs_of_block, inputs_of_lone, inputs_of_records, line_end, moved_find,
    row_cells, row_inputs)
from queuecore._core.stream.maker cimport (
    COLUMN_BYTES, CSV_ROWS, TAKE_ITEMS, TAKE_LENGTHS, TAKE_STRINGS, Maker, Output, Pad, Scratch, rows_together)

check_layout(layout_hash())

cdef enum:
    STORE_AHEAD = 16         # rows of a store that are brought into the cache ahead

ctypedef const unsigned char* bytes_in
ctypedef unsigned char* bytes_out


cdef bint scratch_init(Scratch* s, const Maker* m) noexcept nogil:
    s.cells = <Cell*>calloc(<int64_t>m.given + m.made + 1, sizeof(Cell))
    if m.csv != NULL:
        s.columns = <bytes_out>malloc(size_product(m.given, sizeof(CsvPlace) + CSV_ROWS * COLUMN_BYTES))
        if s.columns == NULL:
            return False
    return s.cells != NULL


cdef void scratch_clear(Scratch* s) noexcept nogil:
    arena_free(&s.arena)
    free(s.cells)
    free(s.columns)


cdef bint _no_memory(Fault* fault, int64_t nbytes) noexcept nogil:
    fault_begin(fault, CODE_EXHAUSTED, WHAT_MEMORY, STAGE_MAP)
    fault.a = nbytes
    return False


cdef bint _fits(const Output* out, const int64_t* noted, int64_t nbytes, Fault* fault) noexcept nogil:
    # True if a row of `nbytes`, or of the noted dimensions, can be padded; otherwise *fault is set.
    cdef const Pad* pad = out.pad
    cdef int64_t side
    cdef int32_t j
    for j in range(pad.ndim):
        side = noted[j] if out.ndim > 0 else (nbytes // out.item if j == 0 else pad.dims[j])
        if 0 <= pad.sides[j] < side:
            fault_begin(fault, CODE_DATA_LOSS, WHAT_PADDED, STAGE_MAP)
            fault.a = side
            # 20 bits, 6 bits and 38 bits: a side that a row in memory goes beyond is shorter than that.
            fault.b = <int64_t>out.cell << 44 | <int64_t>j << 38 | pad.sides[j]
            return False
    return True


cdef inline bint _add(Scratch* s, const Output* out, bytes_in data, int64_t nbytes, int64_t row,
                      Fault* fault) noexcept nogil:
    # Appends a row of varying length, unless the step has written it there.
    cdef Growing* g = &s.vars[out.var]
    if nbytes > 0:
        if not grow_rows(g, nbytes, s.arena.rows_due):
            return _no_memory(fault, nbytes)
        if data != g.data + g.nbytes:
            memmove(g.data + g.nbytes, data, nbytes)
        g.nbytes += nbytes
    (<int64_t*>(s.slot + out.slot_offset))[row + 1] = g.nbytes
    return True


cdef bint _add_cell(Scratch* s, const Output* out, const Cell* cell, int64_t row,
                    Fault* fault) noexcept nogil:
    cdef Growing* g = &s.vars[out.var]
    cdef int64_t n = 1, i, length
    cdef int64_t* dims
    cdef int32_t j
    if out.ndim > 0:
        dims = <int64_t*>(s.slot + out.dims_offset) + row * out.ndim
        for j in range(out.ndim):
            dims[j] = cell.dims[j]
    if out.pad != NULL:
        if out.take == TAKE_LENGTHS:
            if not _fits(out, NULL, cell.dims[0] * sizeof(int64_t), fault):
                return False
        elif not _fits(out, cell.dims, cell.nbytes, fault):
            return False
    if out.take == TAKE_ITEMS:
        return _add(s, out, cell.data, cell.nbytes, row, fault)
    for j in range(cell.ndim):
        n *= cell.dims[j]
    if out.take == TAKE_STRINGS:
        return _add(s, out, cell.data + (cell.offsets[0] if n > 0 else 0),
                    cell.offsets[n] - cell.offsets[0] if n > 0 else 0, row, fault)
    if not grow(g, n * sizeof(int64_t)):
        return _no_memory(fault, n * sizeof(int64_t))
    for i in range(n):
        length = cell.offsets[i + 1] - cell.offsets[i]
        memcpy(g.data + g.nbytes, &length, sizeof(int64_t))
        g.nbytes += sizeof(int64_t)
    (<int64_t*>(s.slot + out.slot_offset))[row + 1] = g.nbytes
    return True


cdef bint _run(const Maker* m, Scratch* s, int64_t row, Fault* fault) noexcept nogil:
    # Runs the step on an element, which its inputs have, and writes its outputs to their row.
    cdef Cell* outputs = s.cells + m.given
    cdef int64_t begin_ticks
    cdef int rc
    cdef const Output* out
    cdef Cell* cell
    cdef int32_t i
    for i in range(m.made):
        outputs[i].data = NULL
        outputs[i].offsets = NULL
        outputs[i].ndim = 0
    for i in range(m.count):
        out = &m.outputs[i]
        if out.item == 0:
            outputs[out.cell].data = s.slot + out.slot_offset + row * out.row_bytes
            outputs[out.cell].nbytes = out.row_bytes
        elif out.take == TAKE_ITEMS:
            s.arena.row_output = &outputs[out.cell]
            s.arena.rows = &s.vars[out.var]
    fault.what = 0  # this and the next are the step's; the rest is set where it fails
    fault.a = fault.b = fault.text_bytes = 0
    begin_ticks = step_begun(&s.arena)
    rc = m.run(m.params, s.cells, outputs, &s.arena, fault)
    step_ended(&s.arena, m.params, begin_ticks)
    s.arena.row_output = NULL
    if rc != 0:
        fault.code = CODE_STEP
        fault.err = 0
        fault.stage = STAGE_MAP
        fault.file = fault.offset = fault.record = -1
        return False
    for i in range(m.count):
        out = &m.outputs[i]
        cell = &outputs[out.cell]
        if out.item != 0:
            if not _add_cell(s, out, cell, row, fault):
                return False
        elif cell.data != s.slot + out.slot_offset + row * out.row_bytes:
            memcpy(s.slot + out.slot_offset + row * out.row_bytes, cell.data, out.row_bytes)
    return True


cdef bint _has_room(Scratch* s, const Output* o, const Cell* cell, int64_t n) noexcept nogil:
    # Returns whether what the step made of n rows for an output can be copied to where it belongs, for which there is
    # room then.
    cdef const Span* spans = spans_of(cell)
    cdef int64_t nbytes = cell.nbytes, side, i
    cdef Fault fault
    if spans != NULL:
        nbytes = 0
        for i in range(n):
            nbytes += spans[i].nbytes
            if o.item == 0 and spans[i].nbytes != o.row_bytes:
                return False
    if o.pad != NULL and o.item != 0:
        for i in range(n):
            side = (cell.nbytes // n if spans == NULL else spans[i].nbytes) // o.item
            if not _fits(o, &side, side * o.item, &fault):
                return False
    return o.item == 0 or grow(&s.vars[o.var], nbytes)


cdef void _place_spans(Scratch* s, const Output* o, const Cell* cell, int64_t n, int64_t row) noexcept nogil:
    # Copies n rows of an output that are spans, or vary in length, to where they belong.
    cdef const Span* spans = spans_of(cell)
    cdef Span span
    cdef bytes_out place
    cdef int64_t* ends
    cdef Growing* g
    cdef int64_t i
    if o.item == 0:
        place = s.slot + o.slot_offset + row * o.row_bytes
        for i in range(n):
            memcpy(place + i * o.row_bytes, spans[i].data, o.row_bytes)
        return
    g = &s.vars[o.var]
    ends = <int64_t*>(s.slot + o.slot_offset) + row + 1
    span.nbytes = cell.nbytes // n
    for i in range(n):
        span.data = cell.data + i * span.nbytes
        if spans != NULL:
            span = spans[i]
        if span.nbytes > 0:
            memcpy(g.data + g.nbytes, span.data, span.nbytes)
            g.nbytes += span.nbytes
        ends[i] = g.nbytes
        if o.ndim > 0:  # one dimension, which follows from the length
            (<int64_t*>(s.slot + o.dims_offset))[row + i] = span.nbytes // o.item


cdef bint _run_together(const Maker* m, Scratch* s, int64_t n, int64_t row) noexcept nogil:
    # Runs the step on n rows at once, which its inputs have, into rows from `row` on. False: one of them has a fault,
    # or there is no memory; nothing is made then.
    cdef const Output* o
    cdef Cell* outputs = s.cells + m.given
    cdef Cell* cell
    cdef bytes_out place
    cdef int64_t begin_ticks
    cdef int32_t j
    cdef int rc
    cdef Fault fault
    memset(outputs, 0, m.made * sizeof(Cell))
    for j in range(m.count):
        o = &m.outputs[j]
        if o.item == 0:
            outputs[o.cell].data = s.slot + o.slot_offset + row * o.row_bytes
            outputs[o.cell].nbytes = n * o.row_bytes
    begin_ticks = step_begun(&s.arena)
    rc = m.run_rows(m.params, s.cells, outputs, n, &s.arena, &fault)
    step_ended(&s.arena, m.params, begin_ticks)
    if rc != 0:
        return False
    for j in range(m.count):
        o = &m.outputs[j]
        cell = &outputs[o.cell]
        if (o.item != 0 or cell.offsets != NULL) and not _has_room(s, o, cell, n):
            return False
    for j in range(m.count):
        o = &m.outputs[j]
        cell = &outputs[o.cell]
        place = s.slot + o.slot_offset + row * o.row_bytes
        if o.item != 0 or cell.offsets != NULL:
            _place_spans(s, o, cell, n, row)
        elif cell.data != place:
            memcpy(place, cell.data, n * o.row_bytes)
    return True


cdef int64_t _most_together(const Maker* m, const RecordBlock* b) noexcept nogil:
    # Returns how many records of a block are made at once: of long strings fewer than of short ones, so that what one
    # step has read of them is in the cache for the next.
    if (m.walk != NULL or m.framing == FRAME_LINES or m.columns != NULL) and b.count > 0 and b.used > b.count:
        return min(m.together, rows_together(b.used // b.count))
    return m.together


cdef int64_t _block_together(const Maker* m, Scratch* s, const RecordBlock* b, int64_t first, int64_t n,
                             int64_t row) noexcept nogil:
    # Makes rows of n records of a block, several at once. Returns the number made; the others are to be made one by
    # one, by which the one with the fault is found.
    cdef int64_t done = 0, most = _most_together(m, b), part
    while done < n:
        part = min(n - done, most)
        if m.csv != NULL and CSV_STRIDE < part < n - done:  # the next ones begin at a known place
            part -= (first + done + part) % CSV_STRIDE
        arena_reset(&s.arena)
        if not inputs_of_block(m, s, b, first + done, part, 0, part) or not _run_together(m, s, part, row + done):
            break
        done += part
    return done


cdef int64_t rows_of_lone(const Maker* m, Scratch* s, const RunList* list_, int32_t first, int64_t row) noexcept nogil:
    cdef const Run* runs = list_.runs + first
    cdef int64_t n = 0, most
    if runs.n > 1 or runs.block == NULL:
        return 0
    most = min(_most_together(m, runs.block), <int64_t>(list_.count - first))
    while n < most and runs[n].n == 1 and runs[n].block != NULL:
        n += 1
    if n <= 1:
        return 0
    arena_reset(&s.arena)
    return n if inputs_of_lone(m, s, runs, n) and _run_together(m, s, n, row) else -1


cdef int64_t rows_of_records(const Maker* m, Scratch* s, const unsigned char* records, int64_t stride, int64_t n,
                             int64_t row) noexcept nogil:
    cdef int64_t done = 0, part
    while m.together > 1 and done < n:
        part = min(n - done, m.together)
        arena_reset(&s.arena)
        if (not inputs_of_records(m, s, records + done * stride, stride, part, 0, part)
                or not _run_together(m, s, part, row + done)):
            break
        done += part
    return done


cdef int64_t rows_of_store(const Maker* m, Scratch* s, const unsigned char* store, int64_t stride, const uint32_t* ids,
                           int64_t n, int64_t row) noexcept nogil:
    cdef int64_t done = 0, part, i, ahead
    cdef bytes_out records
    while m.together > 1 and done < n:
        part = min(n - done, m.together)
        arena_reset(&s.arena)
        records = row_inputs(s, s.cells, 0, part, m.record_bytes)
        if records == NULL:
            break
        for i in range(part):
            ahead = min(done + i + STORE_AHEAD, n - 1)
            prefetch(store + ids[ahead] * stride, m.record_bytes)
            memcpy(records + i * m.record_bytes, store + ids[done + i] * stride, m.record_bytes)
        if not _run_together(m, s, part, row + done):
            break
        done += part
    return done


cdef bint row_of_record(const Maker* m, Scratch* s, const unsigned char* data, int64_t nbytes, int64_t row,
                        Fault* fault) noexcept nogil:
    if m.run == NULL:
        return _add(s, &m.outputs[0], data, nbytes, row, fault)
    s.cells[0].data = <bytes_out>data
    s.cells[0].nbytes = nbytes
    s.cells[0].offsets = NULL
    arena_reset(&s.arena)
    return _run(m, s, row, fault)


cdef int64_t _lines(const Maker* m, Scratch* s, const RecordBlock* b, int64_t first, int64_t n, int64_t element,
                    int64_t row, Fault* fault) noexcept nogil:
    cdef const uint32_t* ends = <const uint32_t*>b.index + b.skip + first
    cdef int64_t i, start = 0 if b.skip + first == 0 else ends[-1], end
    cdef Growing* g
    if m.run == NULL:
        g = &s.vars[0]
        if not grow(g, lines_most(start, ends, n)):
            _no_memory(fault, lines_most(start, ends, n))
            return 0
        g.nbytes += lines_kernels(-1).gather(b.text, start, ends, n, g.data + g.nbytes, g.nbytes,
                                             <int64_t*>(s.slot + m.outputs[0].slot_offset) + row + 1)
        return n
    for i in range(n):
        end = line_end(b.text, start, ends[i])
        s.arena.element = element + i
        if not row_of_record(m, s, b.text + start, end - start, row + i, fault):
            fault.offset = b.place.offset + start
            fault.record = b.place.number + b.skip + first + i
            return i
        start = ends[i]
    return n


cdef int64_t _walked(const Maker* m, Scratch* s, const RecordBlock* b, int64_t first, int64_t n, int64_t element,
                     int64_t row, Fault* fault) noexcept nogil:
    cdef const WalkKind* kind = m.walk
    cdef const int64_t* starts = <const int64_t*>b.index
    cdef int64_t i, nbytes
    cdef bytes_in data
    for i in range(first, first + n):
        data = b.text + starts[i] + kind.header_bytes
        nbytes = starts[i + 1] - starts[i] - kind.frame_bytes
        if kind.check != NULL and not kind.check(data, nbytes):
            kind.damaged(b.place.offset + starts[i], b.place.number + i, fault)
            fault.stage = STAGE_READ
            return i - first
        s.arena.element = element + i - first
        if not row_of_record(m, s, data, nbytes, row + i - first, fault):
            fault.offset = b.place.offset + starts[i]
            fault.record = b.place.number + i
            return i - first
    return n


cdef int64_t _fixed(const Maker* m, Scratch* s, const RecordBlock* b, int64_t first, int64_t n, int64_t element,
                    int64_t row, Fault* fault) noexcept nogil:
    cdef int64_t i
    for i in range(first, first + n):
        s.arena.element = element + i - first
        if not row_of_record(m, s, b.text + i * m.hop_bytes, m.record_bytes, row + i - first, fault):
            fault.offset = b.place.offset + i * m.hop_bytes
            fault.record = b.place.number + i
            return i - first
    return n


cdef bint _whole(const Maker* m, Scratch* s, const RecordBlock* b, int64_t element, int64_t row,
                 Fault* fault) noexcept nogil:
    # Makes the row of a whole file: its name and its content.
    cdef Cell* cells = s.cells
    cdef bint well
    cells[0].data = <bytes_out>b.name
    cells[0].nbytes = strlen(b.name)
    cells[1].data = b.text
    cells[1].nbytes = b.used
    s.arena.element = m.first_number + element
    if m.run == NULL:
        return (_add(s, &m.outputs[0], cells[0].data, cells[0].nbytes, row, fault)
                and _add(s, &m.outputs[1], cells[1].data, cells[1].nbytes, row, fault))
    arena_reset(&s.arena)
    well = _run(m, s, row, fault)
    if not well:
        fault.offset = -1
        fault.record = 0
    return well


cdef void _csv_cells(const Maker* m, Scratch* s, const CsvPlace* places, int64_t i) noexcept nogil:
    # Makes row i of the scratch columns into the cells of an element.
    cdef int32_t j
    cdef Cell* cell
    cdef bytes_out item
    for j in range(m.csv.count):
        cell = &s.cells[j]
        item = places[j].base + i * places[j].stride
        cell.offsets = NULL
        if m.csv.columns[j].kind == CSV_TEXT:
            cell.data = <bytes_out>(<Span*>item).data
            cell.nbytes = (<Span*>item).nbytes
        else:
            cell.data = item
            cell.nbytes = m.csv.columns[j].item_bytes


cdef int64_t _csv(const Maker* m, Scratch* s, const RecordBlock* b, int64_t first, int64_t n, int64_t element,
                  int64_t row, Fault* fault) noexcept nogil:
    cdef CsvPlace* places = <CsvPlace*>(s.columns + m.csv.count * CSV_ROWS * COLUMN_BYTES)
    cdef CsvCursor cursor
    cdef CsvBlock block
    cdef Span* text
    cdef const Output* out
    cdef Fault unparsed  # of the row behind those that are made now, which write to *fault
    cdef int64_t done = 0, i
    cdef int32_t j
    cdef int rc = 0
    cdef bint direct = m.run == NULL, some = False
    csv_find(m, b, first, &block, &cursor)
    for j in range(m.csv.count):
        if m.csv.columns[j].kind == CSV_TEXT:
            some = True
    while done < n and rc == 0:
        for j in range(m.csv.count):
            places[j].base = s.columns + j * CSV_ROWS * COLUMN_BYTES
            places[j].stride = COLUMN_BYTES
            if direct and m.csv.columns[j].kind != CSV_TEXT:
                out = &m.outputs[j]
                places[j].base = s.slot + out.slot_offset + (row + done) * out.row_bytes
                places[j].stride = out.row_bytes
        block.text = b.text + (cursor.offset - b.place.offset)
        block.nbytes = b.text + b.nbytes - block.text
        block.most = n - done
        if block.most > CSV_ROWS and (some or not direct):
            block.most = CSV_ROWS
        block.likely = csv_bytes(b, &cursor, first + done, block.most)
        arena_reset(&s.arena)
        rc = csv_parse(m.csv, places, &block, &cursor, &s.arena, &unparsed)
        if rc == 0 and block.rows == 0:  # a defect: indexing found a row that parsing doesn't find
            fault_begin(&unparsed, CODE_INTERNAL, 0, STAGE_READ)
            unparsed.offset = cursor.offset
            unparsed.record = cursor.row
            rc = -1
        for i in range(block.rows):
            if not direct:
                _csv_cells(m, s, places, i)
                s.arena.element = element + done + i
                if not _run(m, s, row + done + i, fault):
                    # not by the block's place: rows of the header have negative numbers
                    fault.record = cursor.row - block.rows + i
                    fault.offset = -1
                    return done + i
            elif some:
                for j in range(m.csv.count):
                    if m.csv.columns[j].kind == CSV_TEXT:
                        text = <Span*>(s.columns + (j * CSV_ROWS + i) * COLUMN_BYTES)
                        if not _add(s, &m.outputs[j], text.data, text.nbytes, row + done + i, fault):
                            return done + i
        done += block.rows
    if rc != 0:
        fault[0] = unparsed
    return done


cdef bint _column_copy(Scratch* s, const Output* from_, const Output* out, const Column* c, int64_t position, int64_t n,
                       int64_t row, Fault* fault) noexcept nogil:
    # Copies rows of a column that follow each other.
    cdef Growing* g
    cdef int64_t* ends
    cdef int64_t nbytes, shift, i
    if from_.item == 0:
        memcpy(s.slot + out.slot_offset + row * out.row_bytes, c.data + position * out.row_bytes, n * out.row_bytes)
        return True
    g = &s.vars[out.var]
    nbytes = c.ends[position + n] - c.ends[position]
    if nbytes > 0:
        if not grow(g, nbytes):
            return _no_memory(fault, nbytes)
        memcpy(g.data + g.nbytes, c.data + c.ends[position], nbytes)
    ends = <int64_t*>(s.slot + out.slot_offset) + row + 1
    shift = g.nbytes - c.ends[position]
    for i in range(n):
        ends[i] = c.ends[position + i + 1] + shift
    g.nbytes += nbytes
    if out.ndim > 0:
        memcpy(s.slot + out.dims_offset + row * out.ndim * sizeof(int64_t), c.dims + position * out.ndim,
               n * out.ndim * sizeof(int64_t))
    return True


cdef bint _column_pick(Scratch* s, const Output* from_, const Output* out, const Column* c, const int64_t* row_numbers,
                       int64_t n, int64_t row, Fault* fault) noexcept nogil:
    # Copies the rows of a column that `row_numbers` numbers.
    cdef Growing* g
    cdef int64_t* ends
    cdef bytes_out to
    cdef int64_t nbytes = 0, i
    if from_.item == 0:
        to = s.slot + out.slot_offset + row * out.row_bytes
        for i in range(n):
            copy_row(to + i * out.row_bytes, c.data + row_numbers[i] * out.row_bytes, out.row_bytes)
        return True
    g = &s.vars[out.var]
    ends = <int64_t*>(s.slot + out.slot_offset) + row + 1
    for i in range(n):
        nbytes += c.ends[row_numbers[i] + 1] - c.ends[row_numbers[i]]
    if not grow(g, nbytes):
        return _no_memory(fault, nbytes)
    for i in range(n):
        nbytes = c.ends[row_numbers[i] + 1] - c.ends[row_numbers[i]]
        if nbytes > 0:
            memcpy(g.data + g.nbytes, c.data + c.ends[row_numbers[i]], nbytes)
            g.nbytes += nbytes
        ends[i] = g.nbytes
        if out.ndim > 0:
            memcpy(s.slot + out.dims_offset + (row + i) * out.ndim * sizeof(int64_t),
                   c.dims + row_numbers[i] * out.ndim, out.ndim * sizeof(int64_t))
    return True


cdef bint _column_fits(const Output* out, const Column* c, int64_t at, Fault* fault) noexcept nogil:
    return _fits(out, c.dims + at * out.ndim, c.ends[at + 1] - c.ends[at], fault)


cdef int64_t _rows(const Maker* m, Scratch* s, const HandedBlock* chunk, int64_t first, int64_t n, int64_t element,
                   int64_t row, Fault* fault) noexcept nogil:
    cdef const RecordBlock* b = &chunk.block
    cdef const Column* columns = <const Column*>b.index
    cdef const int64_t* row_numbers = chunk.rows + first if chunk.rows != NULL else NULL
    cdef int64_t i, position
    cdef int32_t j
    cdef bint well
    if m.run == NULL and m.pad_count > 0:  # only rows before the first one that can't be padded are copied
        for j in range(m.column_count):
            if m.outputs[j].pad == NULL or m.outputs[j].item == 0:
                continue
            for i in range(n):
                position = row_numbers[i] if row_numbers != NULL else b.skip + first + i
                if not _column_fits(&m.outputs[j], &columns[j], position, fault):
                    fault.record = b.place.base + first + i
                    n = i
                    break
    if m.run == NULL:
        for j in range(m.column_count):
            if row_numbers != NULL:
                well = _column_pick(s, &m.columns[j], &m.outputs[j], &columns[j], row_numbers, n, row, fault)
            else:
                well = _column_copy(s, &m.columns[j], &m.outputs[j], &columns[j], b.skip + first, n, row, fault)
            if not well:
                return 0
        return n
    for i in range(n):
        position = row_numbers[i] if row_numbers != NULL else b.skip + first + i
        s.arena.element = element + i
        arena_reset(&s.arena)
        if (not row_cells(m.columns, m.column_count, m.shapes, columns, position, s.cells, &s.arena, fault)
                or not _run(m, s, row + i, fault)):
            fault.offset = -1
            fault.record = b.place.base + first + i
            return i
    return n


cdef int64_t _one_by_one(const Maker* m, Scratch* s, const RecordBlock* b, int64_t first, int64_t n, int64_t element,
                         int64_t row, Fault* fault) noexcept nogil:
    # Makes n records of a block into rows as rows_of_block does.
    cdef MovedRow moved
    cdef int64_t i
    if b.kind == BLOCK_MOVED:
        for i in range(n):
            moved_find(m, b, first + i, &moved)
            if _one_by_one(m, s, &moved.block, 0, 1, element + i, row + i, fault) == 0:
                return i
        return n
    if m.columns != NULL:
        return _rows(m, s, <const HandedBlock*>b, first, n, element, row, fault)
    if m.framing == FRAME_LINES:
        return _lines(m, s, b, first, n, element, row, fault)
    if m.walk != NULL:
        return _walked(m, s, b, first, n, element, row, fault)
    if m.framing == FRAME_CSV:
        return _csv(m, s, b, first, n, element, row, fault)
    if m.framing == FRAME_WHOLE:
        return _whole(m, s, b, element, row, fault)
    return _fixed(m, s, b, first, n, element, row, fault)


cdef int64_t rows_of_block(const Maker* m, Scratch* s, const RecordBlock* b, int64_t first, int64_t n, int64_t element,
                           int64_t row, Fault* fault) noexcept nogil:
    cdef int64_t done = _block_together(m, s, b, first, n, row) if m.together > 1 else 0
    if done < n:
        s.arena.epoch = b.pass_
        done += _one_by_one(m, s, b, first + done, n - done, element + done, row + done, fault)
    return done


# Parts

cdef BatchPart* part_new(const Maker* m, int64_t row) noexcept nogil:
    cdef BatchPart* part = <BatchPart*>calloc(1, size_sum(sizeof(BatchPart), size_product(m.vars, sizeof(Growing))))
    if part != NULL:
        part.row = row
        part.vars = <Growing*>(part + 1)
    return part


cdef void part_free(const Maker* m, BatchPart* part) noexcept nogil:
    cdef int32_t v
    for v in range(m.vars):
        growing_free(&part.vars[v])
    free(part)


cdef bint rows_join(const Maker* m, BatchPart* parts, unsigned char* slot, Growing* vars) noexcept nogil:
    cdef BatchPart* sorted_ = NULL
    cdef BatchPart* part
    cdef BatchPart** link
    cdef const Output* out
    cdef int64_t* ends
    cdef int64_t r
    cdef int32_t i
    cdef bint well = True
    while parts != NULL:
        part = parts
        parts = part.next
        link = &sorted_
        while link[0] != NULL and link[0].row < part.row:
            link = &link[0].next
        part.next = link[0]
        link[0] = part
    while sorted_ != NULL:
        part = sorted_
        sorted_ = part.next
        for i in range(m.count):
            out = &m.outputs[i]
            if out.item == 0 or not well:
                continue
            well = grow(&vars[out.var], part.vars[out.var].nbytes)
            if well:
                ends = <int64_t*>(slot + out.slot_offset) + 1
                for r in range(part.row, part.row + part.rows):
                    ends[r] += vars[out.var].nbytes
                if part.vars[out.var].nbytes == 0:
                    continue
                memcpy(vars[out.var].data + vars[out.var].nbytes, part.vars[out.var].data, part.vars[out.var].nbytes)
                vars[out.var].nbytes += part.vars[out.var].nbytes
        part_free(m, part)
    return well


# Padding

cdef void _fill(bytes_out target, int64_t nbytes, bytes_in item, int64_t item_bytes) noexcept nogil:
    cdef int64_t done = item_bytes, i
    for i in range(1, item_bytes):
        if item[i] != item[0]:
            break
    else:
        memset(target, item[0], nbytes)
        return
    if nbytes > 0:
        memcpy(target, item, item_bytes)
    while done < nbytes:
        i = done if done < nbytes - done else nbytes - done
        memcpy(target + done, target, i)
        done += i


cdef void _place(const Pad* pad, const int64_t* sides, const int64_t* dims, bytes_in data,
                 bytes_out target) noexcept nogil:
    # Copies a row of dimensions `dims` into a row of `sides`, which is filled with padding already.
    cdef int64_t counter[MAX_DIMS]
    cdef int64_t run = pad.item, from_ = 0, to
    cdef int32_t last = pad.ndim - 1, j
    for j in range(pad.ndim):
        if dims[j] == 0:
            return
        counter[j] = 0
    while last > 0 and dims[last] == sides[last]:  # the inner dimensions that are not padded lie together
        run *= dims[last]
        last -= 1
    run *= dims[last]
    while True:
        to = 0
        for j in range(pad.ndim):
            to = to * sides[j] + counter[j]
        memcpy(target + to * pad.item, data + from_, run)
        from_ += run
        j = last - 1
        while j >= 0:
            counter[j] += 1
            if counter[j] < dims[j]:
                break
            counter[j] = 0
            j -= 1
        if j < 0:
            return


cdef bint rows_pad(const Maker* m, unsigned char* slot, Growing* vars, int64_t rows) noexcept nogil:
    cdef const Pad* pad
    cdef const Output* out
    cdef Growing* g
    cdef int64_t* sides
    cdef const int64_t* dims
    cdef const int64_t* ends
    cdef const int64_t* noted
    cdef bytes_in data
    cdef bytes_out row_place
    cdef int64_t row_dims[MAX_DIMS]
    cdef int64_t row_bytes, r, nbytes
    cdef int32_t i, j
    cdef bint is_whole
    for i in range(m.pad_count):
        pad = &m.pads[i]
        out = &m.outputs[pad.output]
        sides = <int64_t*>(slot + pad.slot_offset)
        ends = <int64_t*>(slot + out.slot_offset)
        noted = <int64_t*>(slot + out.dims_offset)
        for j in range(pad.ndim):
            row_dims[j] = pad.dims[j]
            sides[j] = pad.sides[j]
            if sides[j] >= 0:
                continue
            if pad.fixed:
                sides[j] = row_dims[j]
            elif out.ndim > 0:
                for r in range(rows):
                    if noted[r * out.ndim + j] > sides[j]:
                        sides[j] = noted[r * out.ndim + j]
            elif j > 0:
                sides[j] = row_dims[j]
            else:
                for r in range(rows):
                    if ends[r + 1] - ends[r] > sides[j]:
                        sides[j] = ends[r + 1] - ends[r]
                sides[j] = sides[j] // out.item
        row_bytes = pad.item
        for j in range(pad.ndim):
            if sides[j] > 0 and row_bytes > (<int64_t>1 << 62) // sides[j] // rows:
                return False
            row_bytes *= sides[j]
        g = &vars[pad.var]
        g.nbytes = 0
        if row_bytes == 0:
            continue
        if not grow(g, rows * row_bytes):
            return False
        g.nbytes = rows * row_bytes
        for r in range(rows):
            row_place = g.data + r * row_bytes
            dims = row_dims
            if pad.fixed:
                data = slot + out.slot_offset + r * out.row_bytes
                nbytes = out.row_bytes
            else:
                data = vars[out.var].data + ends[r]
                nbytes = ends[r + 1] - ends[r]
                if out.ndim > 0:
                    dims = noted + r * out.ndim
                else:
                    row_dims[0] = nbytes // out.item
            is_whole = True
            for j in range(1, pad.ndim):
                is_whole = is_whole and dims[j] == sides[j]
            if is_whole:
                if nbytes > 0:
                    memcpy(row_place, data, nbytes)
                _fill(row_place + nbytes, row_bytes - nbytes, pad.fill, pad.item)
            else:
                _fill(row_place, row_bytes, pad.fill, pad.item)
                _place(pad, sides, dims, data, row_place)
    return True
