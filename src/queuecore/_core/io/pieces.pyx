"""Pieces of files, outside the pipeline's turn. See pieces.pxd."""
from libc.stdint cimport int64_t, uint32_t
from libc.string cimport memchr, memcpy, memset
from queuecore._core.atoms.memory cimport calloc, free, malloc
from queuecore._core.atoms.process cimport buffer_give, buffer_take, check_layout
from queuecore._core.io.blocks cimport (
    BLOCK_PIECE, CSV_STRIDE, Blocks, Lane, Moved, MovedBlock, RecordBlock, block_memory_free, index_room,
    piece_no_memory, whole_too_long)
from queuecore._core.io.csv cimport CsvBlock, CsvCursor, CsvScan, csv_cut
from queuecore._core.atoms.errors cimport (
    CODE_SOURCE_CHANGED, CODE_TOO_LARGE, CODE_TRUNCATED, STAGE_READ, WHAT_HEADER, WHAT_LINE, WHAT_REPLACED, WHAT_TAIL)
from queuecore._core.io.framing cimport FRAME_CSV, FRAME_LINES, FRAME_WHOLE
from queuecore._core.io.lines cimport lines_kernels
from queuecore._core.atoms.platform cimport Fault, FileEntry, FileStat, iovec, kRelaxed, layout_hash
from queuecore._core.io.names cimport name_of
from queuecore._core.io.sources cimport (
    READ_FAULT, READ_NOT_CACHED, READ_OK, WAIT_ALL, WAIT_NONE, FileRead, FileTable, entry_of, read_full, table_is_same,
    table_pin, table_unpin)
from queuecore._core.io.streams cimport ByteStream, stream_close, stream_open, stream_read
from queuecore._core.io.walk cimport RecordWalk, WalkKind

check_layout(layout_hash())

cdef enum:
    # records shorter than 1/MANY of a piece, on average, aren't moved: it costs more time than it saves memory
    MANY = 1024


# Reading

cdef bint _stream_to(Blocks* s, RecordBlock* b) noexcept nogil:
    # Opens the piece's file and goes to its place.
    cdef FileEntry* e = entry_of(s.table, b.place.file)
    cdef ByteStream* stream = &b.lane.stream
    cdef FileStat st
    cdef int64_t left = b.place.offset, part, read_bytes = 0
    stream_close(&b.lane.stream)
    if not stream_open(&b.lane.stream, name_of(s.table.names, b.place.file), s.table.store, s.plan.encoding, &b.fault):
        return False
    b.lane.stream.retries = s.table.retries
    b.lane.stream.stop = s.stop
    b.lane.stream.drops = s.table.drops
    st.size = 0 if stream.special else stream.size
    st.mtime_ns = stream.mtime_ns
    st.dev = stream.dev
    st.ino = stream.ino
    if not table_is_same(s.table, b.place.file, b.pass_, &st):
        memset(&b.fault, 0, sizeof(Fault))
        b.fault.code = CODE_SOURCE_CHANGED
        b.fault.what = WHAT_REPLACED
        b.fault.stage = STAGE_READ
        b.fault.offset = b.fault.record = -1
        return False
    if not stream.special:
        stream.size = e.size
    while left > 0:
        part = s.plan.piece_bytes if left > s.plan.piece_bytes else left
        if not stream_read(&b.lane.stream, b.text, part, &read_bytes, &b.fault):
            return False
        if read_bytes < part:  # the stream is shorter than it was: reading the piece will show that
            break
        left -= part
    return True


cdef bint _room_for_piece(Blocks* s, RecordBlock* b) noexcept nogil:
    # Sees to it that the block has memory for its piece, and no memory that was made for one long record. False: there
    # is none.
    cdef int64_t room = b.headroom + max(b.nbytes, s.plan.piece_bytes)
    if b.memory != NULL and b.room == room:
        return True
    block_memory_free(s, b)
    b.room = room
    b.memory = <unsigned char*>buffer_take(room)
    if b.memory == NULL:
        return False
    s.memory.fetch_add(room, kRelaxed)  # relaxed, like all accesses to `memory`
    return True


cdef bint blocks_read(Blocks* s, RecordBlock* b, int wait) noexcept nogil:
    cdef FileTable* t = s.table
    cdef iovec iov
    cdef FileRead read_
    cdef int64_t read_bytes = 0, skipped_pieces, pieces
    cdef int fd, status
    if b.kind != BLOCK_PIECE:
        return True
    if not _room_for_piece(s, b):
        piece_no_memory(b, b.headroom + max(b.nbytes, s.plan.piece_bytes))
        b.nbytes = 0
        b.last = False
        return True
    b.text = b.memory + b.headroom
    if s.plan.encoding:
        if not b.opens or _stream_to(s, b):
            if stream_read(&b.lane.stream, b.text, s.plan.piece_bytes, &read_bytes, &b.fault):
                b.last = read_bytes < s.plan.piece_bytes
                b.fault.code = 0
        b.nbytes = read_bytes
        t.bytes_read.fetch_add(read_bytes, kRelaxed)  # relaxed: a statistic
        if b.last or b.fault.code != 0:
            stream_close(&b.lane.stream)
    elif b.nbytes == 0:
        b.fault.code = 0
    else:
        fd = table_pin(t, b.place.file, b.pass_, wait == WAIT_NONE, &b.fault)
        if fd < 0 and b.fault.code == 0:
            return False
        if fd < 0:
            b.nbytes = 0
        else:
            iov.iov_base = b.text
            iov.iov_len = b.nbytes
            read_.file = b.place.file
            read_.fd = fd
            read_.iov = &iov
            read_.count = 1
            read_.offset = b.place.offset
            read_.nowait = wait != WAIT_ALL
            status = read_full(t, &read_, &b.fault)
            read_bytes = read_.got
            # A piece for a long record counts as so many usual ones.
            pieces = (b.nbytes + s.plan.piece_bytes - 1) // s.plan.piece_bytes
            # If the run began in the middle of the file, the pieces before its place count as read.
            skipped_pieces = entry_of(t, b.place.file).count - 1 - (entry_of(t, b.place.file).size - b.place.offset
                                                                    - 1) // s.plan.piece_bytes if b.begins else 0
            if not table_unpin(t, b.place.file, 0 if status == READ_NOT_CACHED else pieces + skipped_pieces,
                               wait == WAIT_NONE, &b.fault):
                status = READ_FAULT if b.fault.code != 0 else READ_NOT_CACHED
                read_bytes = 0
            if status == READ_NOT_CACHED:
                return False
            b.nbytes = read_bytes
            if status == READ_OK:
                b.fault.code = 0
    if b.fault.code != 0:
        b.last = False  # the file goes on behind the fault, so bytes that the piece's end cuts off are no record
        b.fault.file = b.place.file
        b.fault.record = -1
    return True


# Indexing

cdef bint _join(Blocks* s, RecordBlock* b) noexcept nogil:
    # Moves the start of the record that the previous piece cut off in front of this piece. False: no memory.
    cdef Lane* l = b.lane
    cdef RecordBlock* c = l.carry
    cdef unsigned char* rest
    cdef unsigned char* memory
    cdef int64_t n, room
    l.carry = NULL
    l.spent = c
    if c == NULL:  # a file begins; or a record was too long, and pieces behind it are dropped
        memset(&l.scan, 0, sizeof(CsvScan))
        return True
    rest = c.text + c.used
    n = c.nbytes - c.used
    if l.cut < n <= s.plan.piece_bytes:
        l.cut = n
    if n <= b.text - b.memory:
        memcpy(b.text - n, rest, n)
        b.text -= n
        b.nbytes += n
        return True
    if c.count == 0 and c.memory + c.room - (rest + n) >= b.nbytes:
        # The record began in memory that was made for it, which has room for this piece: the blocks swap their memory.
        memcpy(rest + n, b.text, b.nbytes)
        c.memory, b.memory = b.memory, c.memory
        c.room, b.room = b.room, c.room
        b.text = rest
        b.nbytes += n
        return True
    room = l.need if l.need > 2 * n else 2 * n
    if s.plan.encoding and room > 2 * (n + s.plan.piece_bytes):
        room = 2 * (n + s.plan.piece_bytes)  # the stream may have fewer bytes left than l.need
    room += s.plan.piece_bytes
    memory = <unsigned char*>buffer_take(room)
    if memory == NULL:
        piece_no_memory(b, room)
        return False
    memcpy(memory, rest, n)
    memcpy(memory + n, b.text, b.nbytes)
    buffer_give(b.memory, b.room)
    s.memory.fetch_add(room - b.room, kRelaxed)
    b.memory = b.text = memory
    b.room = room
    b.nbytes += n
    return True


cdef void _index_lines(Blocks* s, RecordBlock* b) noexcept nogil:
    cdef Lane* l = b.lane
    cdef uint32_t* ends = NULL
    cdef int64_t n = 0, i, start, longest
    # A piece out of the middle of a long line has no newline, and its bytes before `seen` are not searched again.
    if b.last or l.scan.seen == 0 or memchr(b.text + l.scan.seen, 10, b.nbytes - l.scan.seen) != NULL:
        if not index_room(s, b, b.nbytes + 1, sizeof(uint32_t)):
            return
        ends = <uint32_t*>b.index
        n = lines_kernels(-1).find(b.text, b.nbytes, ends, b.nbytes)
    b.used = ends[n - 1] if n > 0 else 0
    if b.last and b.used < b.nbytes:
        ends[n] = <uint32_t>b.nbytes + 1  # as if its newline were there
        b.used = b.nbytes
        n += 1
    longest = b.nbytes - b.used
    if b.nbytes > s.plan.max_record_bytes and longest <= s.plan.max_record_bytes:
        start = 0
        for i in range(n):
            if ends[i] - 1 - start > s.plan.max_record_bytes:
                longest = ends[i] - 1 - start
                n = i
                b.used = start
                break
            start = ends[i]
    b.count = n
    if longest > s.plan.max_record_bytes:
        memset(&b.fault, 0, sizeof(Fault))
        b.fault.code = CODE_TOO_LARGE
        b.fault.what = WHAT_LINE
        b.fault.a = s.plan.max_record_bytes
        b.fault.offset = l.at.offset + b.used
        b.fault.record = l.at.number + n
    if l.at.number < s.plan.header:
        b.skip = s.plan.header - l.at.number if s.plan.header - l.at.number < n else n
        b.count -= b.skip
    l.at.number += n
    l.at.offset += b.used
    l.scan.seen = b.nbytes - b.used
    l.need = 2 * (b.nbytes - b.used)


cdef void _index_walked(Blocks* s, RecordBlock* b) noexcept nogil:
    cdef const WalkKind* kind = s.plan.walk
    cdef Lane* l = b.lane
    cdef RecordWalk walk
    cdef int64_t limit = b.nbytes // kind.least_bytes + 1
    if not index_room(s, b, limit + 1, sizeof(int64_t)):
        return
    walk.total_bytes = -1 if s.plan.encoding else entry_of(s.table, b.place.file).size
    walk.max_record_bytes = s.plan.max_record_bytes
    walk.check = True
    walk.offset = l.at.offset
    walk.record = l.at.number
    walk.need = 1
    kind.walk(&walk, b.text, b.nbytes, b.last, <int64_t*>b.index, limit, &b.count, &b.fault)
    b.used = (<int64_t*>b.index)[b.count] if b.count > 0 else 0
    l.at.number = walk.record
    l.at.offset = walk.offset
    l.need = walk.need


cdef void _index_csv(Blocks* s, RecordBlock* b) noexcept nogil:
    cdef Lane* l = b.lane
    cdef CsvBlock block
    cdef CsvCursor cursor
    cdef int rc
    if not index_room(s, b, b.nbytes // CSV_STRIDE + 2, sizeof(CsvCursor)):
        return
    cursor.offset = l.at.offset
    cursor.row = l.at.number
    cursor.line = l.at.line
    while True:
        block.text = b.text + b.used
        block.nbytes = b.nbytes - b.used
        block.last = b.last
        block.most = CSV_STRIDE if cursor.row >= 0 else -cursor.row  # rows of the header have negative numbers
        if cursor.row >= 0:
            (<CsvCursor*>b.index)[b.count // CSV_STRIDE] = cursor
        rc = csv_cut(s.plan.csv, &block, &cursor, &l.scan, &b.fault)
        b.used += block.consumed
        if block.most == CSV_STRIDE and cursor.row >= 0:
            b.count += block.rows
        if rc != 0 or block.rows < block.most:
            break
    l.at.number = cursor.row
    l.at.line = cursor.line
    l.at.offset = cursor.offset
    l.need = 2 * (b.nbytes - b.used)


cdef void _index_whole(Blocks* s, RecordBlock* b) noexcept nogil:
    cdef Lane* l = b.lane
    if b.nbytes > s.plan.max_record_bytes:
        whole_too_long(s, b)
    elif b.last:
        b.count = 1
        b.used = b.nbytes
    else:
        l.need = 2 * b.nbytes if s.plan.encoding else entry_of(s.table, b.place.file).size


cdef void _index_fixed(Blocks* s, RecordBlock* b) noexcept nogil:
    cdef Lane* l = b.lane
    cdef int64_t n, rest, end, gap
    n = l.lead if l.lead < b.nbytes else b.nbytes
    b.text += n
    b.nbytes -= n
    l.lead -= n
    l.at.offset += n
    b.place = l.at
    if b.nbytes >= s.plan.record_bytes + s.plan.footer_bytes:
        b.count = (b.nbytes - s.plan.record_bytes - s.plan.footer_bytes) // s.plan.hop_bytes + 1
    end = b.count * s.plan.hop_bytes
    b.used = end if end < b.nbytes else b.nbytes
    l.lead += end - b.used
    l.at.number += b.count
    l.at.offset += b.used
    l.need = s.plan.record_bytes + s.plan.footer_bytes
    if not b.last or (l.lead > 0 and l.at.number > 0) or (l.at.number == 0 and l.at.offset + b.nbytes == 0):
        return
    rest = b.nbytes - s.plan.footer_bytes
    if l.at.number == 0 and (l.lead > 0 or rest < 0):
        memset(&b.fault, 0, sizeof(Fault))
        b.fault.code = CODE_TRUNCATED
        b.fault.what = WHAT_HEADER
        b.fault.a = l.at.offset + b.nbytes
        b.fault.b = s.plan.header_bytes + s.plan.footer_bytes
        return
    if b.count > 0:
        rest -= (b.count - 1) * s.plan.hop_bytes + s.plan.record_bytes
    gap = s.plan.hop_bytes - s.plan.record_bytes
    if rest == 0 or (l.at.number > 0 and gap > 0 and rest <= gap):
        return
    if s.plan.drop_tail:
        return
    memset(&b.fault, 0, sizeof(Fault))
    b.fault.code = CODE_TRUNCATED
    b.fault.what = WHAT_TAIL
    b.fault.offset = l.at.offset
    b.fault.record = l.at.number
    b.fault.a = rest
    b.fault.b = s.plan.record_bytes


cdef bint _none_here(RecordBlock* b) noexcept nogil:
    # Makes room for `here`. It is all zero already in a block that was used before, since all its records have left.
    # False: no memory.
    if b.here_room < b.count:
        free(b.here)
        b.here = <unsigned char*>calloc(b.count, 1)
        b.here_room = b.count if b.here != NULL else 0
    return b.here != NULL


cdef void blocks_index(Blocks* s, RecordBlock* b) noexcept nogil:
    cdef Lane* l = b.lane
    cdef Fault reading = b.fault
    if b.kind != BLOCK_PIECE:
        return
    if b.ignored:
        b.fault.code = 0
        return
    if b.begins:
        l.at = b.place
        if l.at.offset == 0:
            l.lead = s.plan.header_bytes
            if s.plan.framing == FRAME_CSV:
                l.at.number = -s.plan.header
    b.fault.code = 0
    if not _join(s, b):
        return
    b.place = l.at
    if s.plan.framing == FRAME_LINES:
        _index_lines(s, b)
    elif s.plan.walk != NULL:
        _index_walked(s, b)
    elif s.plan.framing == FRAME_CSV:
        _index_csv(s, b)
    elif s.plan.framing == FRAME_WHOLE:
        _index_whole(s, b)
    else:
        _index_fixed(s, b)
    if b.fault.code == 0 and reading.code != 0:
        b.fault = reading
        b.fault.record = l.at.number
    if b.fault.code != 0:
        b.fault.file = b.place.file
        b.fault.stage = STAGE_READ
    elif b.used < b.nbytes and not b.last:
        l.carry = b
    b.noted = s.plan.shuffled and b.used * MANY >= b.count * s.plan.piece_bytes and _none_here(b)


# Moving

cdef void _csv_rows(Blocks* s, const RecordBlock* b, int64_t n, CsvCursor* cursor, CsvBlock* block,
                    Fault* fault) noexcept nogil:
    # Moves `cursor` on by n rows, which the block has.
    block.last = b.last
    block.text = b.text + (cursor.offset - b.place.offset)
    block.nbytes = b.text + b.nbytes - block.text
    block.most = n
    csv_cut(s.plan.csv, block, cursor, NULL, fault)


cdef void _moved_places(Blocks* s, const RecordBlock* b, MovedBlock* to) noexcept nogil:
    # Fills in where the moved records lie in the block, and where they will lie.
    cdef const uint32_t* ends
    cdef const int64_t* starts
    cdef CsvCursor cursor
    cdef CsvBlock block
    cdef Moved* m
    cdef Fault fault
    cdef int64_t i, nbytes, row = -1  # the row that `cursor` is at
    to.records.at = 0
    for i in range(to.block.count):
        m = &to.records[i]
        if s.plan.framing == FRAME_LINES:
            ends = <const uint32_t*>b.index + b.skip + m.first
            m.was = 0 if b.skip + m.first == 0 else ends[-1]
            nbytes = (ends[0] if ends[0] < b.nbytes else b.nbytes) - m.was  # with its newline, if it has one
        elif s.plan.walk != NULL:
            starts = <const int64_t*>b.index + m.first
            m.was = starts[0]
            nbytes = starts[1] - starts[0]
        elif s.plan.framing == FRAME_CSV:
            if row < 0 or row // CSV_STRIDE < m.first // CSV_STRIDE:
                row = m.first - m.first % CSV_STRIDE
                cursor = (<const CsvCursor*>b.index)[row // CSV_STRIDE]
            if row < m.first:
                _csv_rows(s, b, m.first - row, &cursor, &block, &fault)
            m.was = cursor.offset - b.place.offset
            m.line = cursor.line
            _csv_rows(s, b, 1, &cursor, &block, &fault)
            nbytes = block.consumed
            row = m.first + 1
        else:
            m.was = m.first * s.plan.hop_bytes
            nbytes = s.plan.record_bytes
        m[1].at = m.at + nbytes


cdef void blocks_move(Blocks* s, RecordBlock* moved_block) noexcept nogil:
    cdef MovedBlock* to = <MovedBlock*>moved_block
    cdef const RecordBlock* b = to.source
    cdef Moved* m
    cdef int64_t i
    _moved_places(s, b, to)
    moved_block.used = to.records[moved_block.count].at
    moved_block.memory = moved_block.text = <unsigned char*>malloc(moved_block.used)
    if moved_block.memory == NULL:
        return
    moved_block.room = moved_block.used + (moved_block.count + 1) * <int64_t>sizeof(Moved)
    s.memory.fetch_add(moved_block.room, kRelaxed)
    for i in range(moved_block.count):
        m = &to.records[i]
        memcpy(moved_block.text + m.at, b.text + m.was, m[1].at - m.at)
