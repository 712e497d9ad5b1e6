"""Traced: what the threads of a pipe note while somebody draws its timeline."""
from libc.stdint cimport int32_t, int64_t, uint64_t
from queuecore._core.atoms.parking cimport turn_give, turn_take
from queuecore._core.atoms.platform cimport Batch, cpu_ticks, kAcquire, kRelease, layout_hash
from queuecore._core.atoms.process cimport check_layout
from queuecore._core.atoms.timeline cimport (
    LINE_PART, LINE_TAKEN, Line, LineEvent, Lines, line_next, line_put, line_wait, lines_hold)
from queuecore._core.atoms.window cimport window_ready
from queuecore._core.io.blocks cimport RecordBlock
from queuecore._core.stream.meter cimport AT_INPUT
from queuecore._core.stream.pipe cimport UNIT_DISCOVER, UNIT_MOVE, UNIT_PIECE, UNIT_ROWS, Pipe, Segment, Unit

check_layout(layout_hash())


cdef enum:
    PARTS = 16   # most blocks that are noted for a batch


cdef void trace_pipe(Pipe* p, Lines* lines) noexcept nogil:
    cdef Line* line = NULL
    cdef int32_t i
    if lines != NULL and p.lines == NULL:
        lines_hold(lines)
        p.lines = lines
    for i in range(p.plan.config.threads + 1):
        if lines != NULL:
            line = &lines.of[i]
        # release: pairs with the acquires below and in execute.pyx; the line was made before
        p.meters[i].line.store(line, kRelease)


cdef void note_parts(Pipe* p, const Unit* u, Line* line, int64_t now) noexcept nogil:
    # Of which batches the unit makes rows, and of which blocks, of many only of some. Before it runs: the blocks may go
    # with their last records.
    cdef const RecordBlock* blocks[PARTS]
    cdef const RecordBlock* block
    cdef const Segment* s
    cdef LineEvent* e
    cdef int32_t i, r, n, index
    if u.kind != UNIT_ROWS:
        return
    for i in range(u.segment_at, u.segment_count):
        s = &u.segments[i]
        n = 0
        for r in range(s.runs.count):
            block = s.runs.runs[r].block
            index = 0
            while index < n and blocks[index] != block:
                index += 1
            if index < n or n == PARTS:
                continue
            blocks[n] = block
            n += 1
            e = line_next(line, LINE_PART, p.number, now, now)
            if e == NULL:
                return
            if block != NULL and block.lane != NULL:
                e.file, e.at, e.pass_ = block.place.file, block.place.offset, block.pass_
            e.batch = <int64_t>s.k
            e.size = s.runs.rows
            line_put(line)


cdef void note_unit(Pipe* p, const Unit* u, Line* line, int64_t begun, int64_t now) noexcept nogil:
    cdef LineEvent* e = line_next(line, u.kind, p.number, begun, now)
    if e == NULL:
        return
    if u.kind == UNIT_PIECE or u.kind == UNIT_MOVE:
        e.file, e.at, e.pass_, e.size = u.piece.place.file, u.piece.place.offset, u.piece.pass_, u.piece.nbytes
    elif u.kind == UNIT_DISCOVER:
        e.file = u.file
    else:
        e.size = u.rows if u.kind == UNIT_ROWS else u.good
        if p.blocks == NULL:
            e.file = u.file_hint
    line_put(line)


cdef void note_helping(Pipe* p, const Unit* u, int64_t begun) noexcept nogil:
    cdef Line* line = p.meters.line.load(kAcquire)  # acquire: pairs with trace_pipe, as below
    if line != NULL:
        turn_take(p.turn)
        note_parts(p, u, line, begun)
        turn_give(p.turn)


cdef void note_helped(Pipe* p, const Unit* u, int64_t begun, int64_t now) noexcept nogil:
    cdef Line* line = p.meters.line.load(kAcquire)
    if line != NULL:
        turn_take(p.turn)
        note_unit(p, u, line, begun, now)
        turn_give(p.turn)


cdef void note_waited(Pipe* p, int64_t begun, int64_t now) noexcept nogil:
    cdef Line* line = p.meters.line.load(kAcquire)
    if line != NULL:
        turn_take(p.turn)
        line_wait(line, AT_INPUT, p.number, begun, now)
        turn_give(p.turn)


cdef void note_taken(Pipe* p, const Batch* b, uint64_t k) noexcept nogil:
    cdef Line* line = p.meters.line.load(kAcquire)
    cdef int64_t begin_ticks, ready = 0
    cdef LineEvent* e
    if line == NULL:
        return
    begin_ticks = cpu_ticks()
    while ready + 1 < <int64_t>p.window.width and window_ready(p.window, k + 1 + ready):
        ready += 1
    turn_take(p.turn)
    e = line_next(line, LINE_TAKEN, p.number, begin_ticks, cpu_ticks())
    if e != NULL:
        e.at, e.batch, e.size = ready, <int64_t>k, b.rows
        line_put(line)
    turn_give(p.turn)
