"""Blocks of records without known places. See blocks.pxd for the contract."""
from libc.stdint cimport int32_t, int64_t, uint32_t
from libc.stdlib cimport calloc, free, malloc, realloc
from libc.string cimport memcpy, memset
from queuecore._core.atoms cimport buffer_give, buffer_take, check_layout
from queuecore._core.csv cimport CsvBlock, CsvCursor, csv_cut
from queuecore._core.errors cimport (
    CODE_EXHAUSTED, CODE_SOURCE_CHANGED, CODE_TOO_LARGE, CODE_TRUNCATED, STAGE_READ, WHAT_LINE, WHAT_MEMORY, WHAT_REPLACED, WHAT_TAIL, WHAT_WHOLE)
from queuecore._core.lines cimport lines_kernels
from queuecore._core.platform cimport Fault, FileEntry, StopFlag, iovec, kAcquire, kRelaxed, layout_hash
from queuecore._core.readers cimport FRAME_LINES, FRAME_TFRECORD, FRAME_WHOLE
from queuecore._core.sources cimport (
    READ_NOT_CACHED, READ_OK, FileTable, file_skippable, name_of, read_full, table_fault, table_pin, table_unpin)
from queuecore._core.streams cimport stream_close, stream_open, stream_read
from queuecore._core.tfrecord cimport TFRecordWalk, tfrecord_walk

check_layout(layout_hash())

cdef enum:
    LEAST_TFRECORD = 16


cdef void blocks_init(Blocks* s, FileTable* table, StopFlag* stop, int32_t workers, const Place* start, int64_t pass_) noexcept nogil:
    s.table = table
    s.stop = stop
    s.most = 2 * workers + 4
    s.pass_ = s.ended_passes = pass_
    s.next = s.given_place = start[0]
    s.base = s.given_until = start.base
    s.given_pass = pass_
    s.begins = s.opens = True
    s.total = -1
    s.stream.fd = -1
    s.ignored = -1


cdef int64_t _index_memory(Blocks* s, int64_t nbytes) noexcept nogil:
    # Of a block made for one long record, little of the index is ever touched.
    cdef int64_t most = <int64_t>sizeof(uint32_t) * (s.headroom + s.piece_bytes)
    return most if nbytes > most else nbytes


cdef void _memory_free(Blocks* s, RecordBlock* b) noexcept nogil:
    if b.memory != NULL:
        s.memory.fetch_sub(b.room, kRelaxed)  # relaxed: as are all of these: a statistic and a hint
    s.memory.fetch_sub(_index_memory(s, b.index_bytes), kRelaxed)
    buffer_give(b.memory, b.room)
    free(b.index)
    b.memory = NULL
    b.index = NULL
    b.index_bytes = 0


cdef void blocks_clear(Blocks* s) noexcept nogil:
    cdef RecordBlock* b
    stream_close(&s.stream)
    while s.made != NULL:
        b = s.made
        s.made = b.made_before
        _memory_free(s, b)
        free(b)
    free(s.skipped)
    free(s.freed)


# Claiming

cdef RecordBlock* _block_take(Blocks* s) noexcept nogil:
    cdef RecordBlock* b = s.free
    if b != NULL:
        s.free = b.next
    else:
        b = <RecordBlock*>calloc(1, sizeof(RecordBlock))
        if b == NULL:
            return NULL
        b.made_before = s.made
        s.made = b
        s.made_count += 1
    b.next = NULL
    b.kind = BLOCK_PIECE
    b.count = b.given = b.inside = b.left = b.skip = b.nbytes = b.used = 0
    b.begins = b.opens = b.last = False
    b.fault.code = 0
    b.pass_ = s.pass_
    b.epoch = s.epoch
    b.sequence = s.sequence
    s.sequence += 1
    s.ahead += 1
    return b


cdef void _block_give(Blocks* s, RecordBlock* b) noexcept nogil:
    cdef int64_t* grown
    if s.framing == FRAME_ROWS:
        if b.owner >= 0 and s.freed_count == s.freed_room:
            grown = <int64_t*>realloc(s.freed, (2 * s.freed_room + 16) * sizeof(int64_t))
            if grown != NULL:
                s.freed = grown
                s.freed_room = 2 * s.freed_room + 16
        if b.owner >= 0 and s.freed_count < s.freed_room:  # else it stays until the end
            s.freed[s.freed_count] = b.owner
            s.freed_count += 1
    b.next = s.free
    s.free = b


cdef void _next_file(Blocks* s) noexcept nogil:
    s.next.file += 1
    s.next.offset = s.next.number = 0
    s.next.line = 1
    s.begins = s.opens = True


cdef void _whole_too_long(Blocks* s, RecordBlock* b) noexcept nogil:
    memset(&b.fault, 0, sizeof(Fault))
    b.fault.code = CODE_TOO_LARGE
    b.fault.what = WHAT_WHOLE
    b.fault.stage = STAGE_READ
    b.fault.file = b.place.file
    b.fault.offset = b.fault.record = -1
    b.fault.a = s.max_record_bytes
    b.fault.b = -1 if s.encoding else s.table.entries[b.place.file].size


cdef bint blocks_full(Blocks* s) noexcept nogil:
    # An index of lines takes up to four times their bytes.
    cdef int64_t one = s.headroom + s.piece_bytes * (5 if s.framing == FRAME_LINES else 2)
    if s.memory_most == 0 or s.ahead == 0 or s.free != NULL:
        return False
    return (s.made_count + 1) * one > s.memory_most or s.memory.load(kRelaxed) + one > s.memory_most  # relaxed: a piece more or less


cdef RecordBlock* blocks_claim(Blocks* s, bint nowait) noexcept nogil:
    cdef FileTable* t = s.table
    cdef FileEntry* e
    cdef RecordBlock* b
    cdef int64_t known
    if s.ahead >= s.most or s.scanned or s.streaming or (s.encoding and nowait) or s.framing == FRAME_ROWS:
        return NULL
    known = t.known_files.load(kAcquire)  # D2 acquire: pairs with D1 in sources.pyx
    # A file of no bytes has no records, unless it is one itself.
    while (s.next.file < known and t.entries[s.next.file].count == 0 and t.entries[s.next.file].code == 0
           and s.framing != FRAME_WHOLE):
        _next_file(s)
    if s.next.file >= known and known < t.files:
        return NULL
    if blocks_full(s):
        return NULL
    b = _block_take(s)
    if b == NULL:
        return NULL
    if s.next.file == t.files:
        b.kind = BLOCK_END
        s.scanned = True
        return b
    e = &t.entries[s.next.file]
    b.place = s.next
    b.name = name_of(t.names, s.next.file)
    b.begins = s.begins
    s.begins = False
    if e.code != 0:
        b.kind = BLOCK_FAULT
        table_fault(t, s.next.file, &b.fault)
        _next_file(s)
    elif s.framing == FRAME_WHOLE and not s.encoding and e.size > s.max_record_bytes:  # not even read
        b.kind = BLOCK_FAULT
        _whole_too_long(s, b)
        _next_file(s)
    elif s.encoding:
        b.opens = s.opens
        s.opens = False
        s.streaming = True
    else:
        b.nbytes = e.size - s.next.offset
        b.last = b.nbytes <= s.piece_bytes
        if b.last:
            _next_file(s)
        else:
            b.nbytes = s.piece_bytes
            s.next.offset += s.piece_bytes
    return b


# Reading

cdef void _no_memory(RecordBlock* b, int64_t nbytes) noexcept nogil:
    memset(&b.fault, 0, sizeof(Fault))
    b.fault.code = CODE_EXHAUSTED
    b.fault.what = WHAT_MEMORY
    b.fault.stage = STAGE_READ
    b.fault.file = b.place.file
    b.fault.offset = b.fault.record = -1
    b.fault.a = nbytes


cdef bint _stream_to(Blocks* s, RecordBlock* b) noexcept nogil:
    # Opens the piece's file and goes to its place.
    cdef FileEntry* e = &s.table.entries[b.place.file]
    cdef int64_t left = b.place.offset, part, got = 0
    stream_close(&s.stream)
    if not stream_open(&s.stream, name_of(s.table.names, b.place.file), s.encoding, &b.fault):
        return False
    s.stream.retries = s.table.retries
    s.stream.stop = s.stop
    if s.stream.size != e.size or s.stream.mtime_ns != e.mtime_ns or s.stream.ino != e.ino or s.stream.dev != e.dev:
        memset(&b.fault, 0, sizeof(Fault))
        b.fault.code = CODE_SOURCE_CHANGED
        b.fault.what = WHAT_REPLACED
        b.fault.stage = STAGE_READ
        b.fault.offset = b.fault.record = -1
        return False
    while left > 0:
        part = s.piece_bytes if left > s.piece_bytes else left
        if not stream_read(&s.stream, b.text, part, &got, &b.fault):
            return False
        if got < part:  # it is shorter than it was: the piece will show it
            break
        left -= part
    return True


cdef bint blocks_read(Blocks* s, RecordBlock* b, bint nowait) noexcept nogil:
    cdef FileTable* t = s.table
    cdef iovec iov
    cdef int64_t got = 0
    cdef int fd, status
    if b.kind != BLOCK_PIECE:
        return True
    if b.memory == NULL:
        b.room = s.headroom + s.piece_bytes
        b.memory = <unsigned char*>buffer_take(b.room)
        if b.memory == NULL:
            _no_memory(b, b.room)
            return True
        s.memory.fetch_add(b.room, kRelaxed)
    b.text = b.memory + s.headroom
    if s.encoding:
        if not b.opens or _stream_to(s, b):
            if stream_read(&s.stream, b.text, s.piece_bytes, &got, &b.fault):
                b.last = got < s.piece_bytes
                b.fault.code = 0
        b.nbytes = got
        t.bytes_read.fetch_add(got, kRelaxed)  # relaxed: a statistic
        if b.last or b.fault.code != 0:
            stream_close(&s.stream)
    elif b.nbytes == 0:
        b.fault.code = 0
    else:
        fd = table_pin(t, b.place.file, &b.fault)
        if fd < 0:
            b.nbytes = 0
        else:
            iov.iov_base = b.text
            iov.iov_len = b.nbytes
            status = read_full(t, b.place.file, fd, &iov, 1, b.place.offset, nowait, &got, &b.fault)
            table_unpin(t, b.place.file, 0 if status == READ_NOT_CACHED else 1)
            if status == READ_NOT_CACHED:
                return False
            b.nbytes = got
            if status == READ_OK:
                b.fault.code = 0
    if b.fault.code != 0:
        b.last = False  # there is more, which nobody will see: what the end cuts off is no record
        b.fault.file = b.place.file
        b.fault.record = -1
    return True


cdef bint blocks_retire(Blocks* s, RecordBlock* b) noexcept nogil:
    cdef RecordBlock** at = &s.waiting
    if s.encoding and b.kind == BLOCK_PIECE:
        s.streaming = False
    if b.epoch != s.epoch:
        s.ahead -= 1
        _block_give(s, b)
    else:
        if s.encoding and b.kind == BLOCK_PIECE and (b.last or b.fault.code != 0 or s.ignored == b.place.file):
            _next_file(s)
        while at[0] != NULL and at[0].sequence < b.sequence:
            at = &at[0].next
        b.next = at[0]
        at[0] = b
    if s.indexing or s.waiting == NULL or s.waiting.sequence != s.next_index:
        return False
    s.indexing = True
    return True


# Indexing

cdef RecordBlock* blocks_next_to_index(Blocks* s) noexcept nogil:
    cdef RecordBlock* b = s.waiting
    if b == NULL or b.sequence != s.next_index:
        s.indexing = False
        return NULL
    s.waiting = b.next
    b.next = NULL
    s.next_index += 1
    if s.index_epoch != b.epoch:
        s.index_epoch = b.epoch
        s.ignored = -1
        if s.carry != NULL:
            blocks_done(s, s.carry, 1)
            s.carry = NULL
    return b


cdef bint _join(Blocks* s, RecordBlock* b) noexcept nogil:
    # Brings the start of the record that the piece before cut off in front of this piece. False: no memory.
    cdef RecordBlock* c = s.carry
    cdef unsigned char* rest
    cdef unsigned char* memory
    cdef int64_t n, room
    s.carry = NULL
    s.spent = c
    if c == NULL:
        return True
    rest = c.text + c.used
    n = c.nbytes - c.used
    if n <= b.text - b.memory:
        memcpy(b.text - n, rest, n)
        b.text -= n
        b.nbytes += n
        return True
    if c.count == 0 and c.memory + c.room - (rest + n) >= b.nbytes:
        # The record began in memory that was made for it: go on there, and leave that one the other's.
        memcpy(rest + n, b.text, b.nbytes)
        c.memory, b.memory = b.memory, c.memory
        c.room, b.room = b.room, c.room
        b.text = rest
        b.nbytes += n
        return True
    room = s.need if s.need > 2 * n else 2 * n
    if s.encoding and room > 2 * (n + s.piece_bytes):
        room = 2 * (n + s.piece_bytes)  # nobody knows whether so many will come
    room += s.piece_bytes
    memory = <unsigned char*>buffer_take(room)
    if memory == NULL:
        _no_memory(b, room)
        return False
    memcpy(memory, rest, n)
    memcpy(memory + n, b.text, b.nbytes)
    buffer_give(b.memory, b.room)
    s.memory.fetch_add(room - b.room, kRelaxed)
    b.memory = b.text = memory
    b.room = room
    b.nbytes += n
    return True


cdef bint _room_for(Blocks* s, RecordBlock* b, int64_t entries, int64_t item) noexcept nogil:
    # Large ones are the kernel's zero pages, touched as far as there are records.
    if b.index_bytes < entries * item:
        free(b.index)
        b.index = malloc(entries * item)
        s.memory.fetch_sub(_index_memory(s, b.index_bytes), kRelaxed)
        b.index_bytes = entries * item if b.index != NULL else 0
        s.memory.fetch_add(_index_memory(s, b.index_bytes), kRelaxed)
        if b.index == NULL:
            _no_memory(b, entries * item)
            return False
    return True


cdef void _index_lines(Blocks* s, RecordBlock* b) noexcept nogil:
    cdef uint32_t* ends
    cdef int64_t n, i, start, longest
    if not _room_for(s, b, b.nbytes + 1, sizeof(uint32_t)):
        return
    ends = <uint32_t*>b.index
    n = lines_kernels(-1).find(b.text, b.nbytes, ends, b.nbytes)
    b.used = ends[n - 1] if n > 0 else 0
    if b.last and b.used < b.nbytes:
        ends[n] = <uint32_t>b.nbytes + 1  # as if its newline were there
        b.used = b.nbytes
        n += 1
    longest = b.nbytes - b.used
    if b.nbytes > s.max_record_bytes and longest <= s.max_record_bytes:
        start = 0
        for i in range(n):
            if ends[i] - 1 - start > s.max_record_bytes:
                longest = ends[i] - 1 - start
                n = i
                b.used = start
                break
            start = ends[i]
    b.count = n
    if longest > s.max_record_bytes:
        memset(&b.fault, 0, sizeof(Fault))
        b.fault.code = CODE_TOO_LARGE
        b.fault.what = WHAT_LINE
        b.fault.a = s.max_record_bytes
        b.fault.offset = s.at.offset + b.used
        b.fault.record = s.at.number + n
    if s.at.number < s.header:
        b.skip = s.header - s.at.number if s.header - s.at.number < n else n
        b.count -= b.skip
    s.at.number += n
    s.at.offset += b.used
    s.need = 2 * (b.nbytes - b.used)


cdef void _index_tfrecords(Blocks* s, RecordBlock* b) noexcept nogil:
    cdef TFRecordWalk walk
    cdef int64_t most = b.nbytes // LEAST_TFRECORD + 1
    if not _room_for(s, b, most + 1, sizeof(int64_t)):
        return
    walk.total_bytes = -1 if s.encoding else s.table.entries[b.place.file].size
    walk.max_record_bytes = s.max_record_bytes
    walk.check = True
    walk.offset = s.at.offset
    walk.record = s.at.number
    walk.need = 1
    tfrecord_walk(&walk, b.text, b.nbytes, b.last, <int64_t*>b.index, most, &b.count, &b.fault)
    b.used = (<int64_t*>b.index)[b.count] if b.count > 0 else 0
    s.at.number = walk.record
    s.at.offset = walk.offset
    s.need = walk.need


cdef void _index_csv(Blocks* s, RecordBlock* b) noexcept nogil:
    cdef CsvBlock block
    cdef CsvCursor at
    cdef int rc
    if not _room_for(s, b, b.nbytes // CSV_STRIDE + 2, sizeof(CsvCursor)):
        return
    at.offset = s.at.offset
    at.row = s.at.number
    at.line = s.at.line
    while True:
        block.text = b.text + b.used
        block.nbytes = b.nbytes - b.used
        block.last = b.last
        block.most = CSV_STRIDE if at.row >= 0 else -at.row  # rows of the header have negative numbers
        if at.row >= 0:
            (<CsvCursor*>b.index)[b.count // CSV_STRIDE] = at
        rc = csv_cut(s.csv, &block, &at, &b.fault)
        b.used += block.consumed
        if block.most == CSV_STRIDE and at.row >= 0:
            b.count += block.rows
        if rc != 0 or block.rows < block.most:
            break
    s.at.number = at.row
    s.at.line = at.line
    s.at.offset = at.offset
    s.need = 2 * (b.nbytes - b.used)


cdef void _index_whole(Blocks* s, RecordBlock* b) noexcept nogil:
    if b.nbytes > s.max_record_bytes:
        _whole_too_long(s, b)
    elif b.last:
        b.count = 1
        b.used = b.nbytes
    else:
        s.need = 2 * b.nbytes if s.encoding else s.table.entries[b.place.file].size


cdef void _index_fixed(Blocks* s, RecordBlock* b) noexcept nogil:
    cdef int64_t n, rest, end
    n = s.lead if s.lead < b.nbytes else b.nbytes
    b.text += n
    b.nbytes -= n
    s.lead -= n
    s.at.offset += n
    b.place = s.at
    if b.nbytes >= s.record_bytes + s.footer_bytes:
        b.count = (b.nbytes - s.record_bytes - s.footer_bytes) // s.hop_bytes + 1
    end = b.count * s.hop_bytes
    b.used = end if end < b.nbytes else b.nbytes
    s.lead += end - b.used
    s.at.number += b.count
    s.at.offset += b.used
    s.need = s.record_bytes + s.footer_bytes
    if not b.last or s.lead > 0:
        return
    rest = b.nbytes - s.footer_bytes
    if b.count > 0:
        rest -= (b.count - 1) * s.hop_bytes + s.record_bytes
    if rest == 0 or (s.at.number > 0 and s.hop_bytes > s.record_bytes and rest <= s.hop_bytes - s.record_bytes):
        return
    if s.drop_tail:
        s.dropped_tails += 1
        return
    memset(&b.fault, 0, sizeof(Fault))
    b.fault.code = CODE_TRUNCATED
    b.fault.what = WHAT_TAIL
    b.fault.offset = s.at.offset
    b.fault.record = s.at.number
    b.fault.a = rest
    b.fault.b = s.record_bytes


cdef void blocks_index(Blocks* s, RecordBlock* b) noexcept nogil:
    cdef Fault reading = b.fault
    if b.kind != BLOCK_PIECE:
        return
    if b.begins:
        s.ignored = -1  # it may be the same file, in the next pass
    elif b.place.file == s.ignored:
        b.fault.code = 0
        return
    if b.begins:
        s.at = b.place
        if s.at.offset == 0:
            s.lead = s.header_bytes
            if s.framing == FRAME_CSV:
                s.at.number = -s.header
    b.fault.code = 0
    if not _join(s, b):
        return
    b.place = s.at
    if s.framing == FRAME_LINES:
        _index_lines(s, b)
    elif s.framing == FRAME_TFRECORD:
        _index_tfrecords(s, b)
    elif s.framing == FRAME_CSV:
        _index_csv(s, b)
    elif s.framing == FRAME_WHOLE:
        _index_whole(s, b)
    else:
        _index_fixed(s, b)
    if b.fault.code == 0 and reading.code != 0:
        b.fault = reading
        b.fault.record = s.at.number
    if b.fault.code != 0:
        b.fault.file = b.place.file
        b.fault.stage = STAGE_READ
    elif b.used < b.nbytes and not b.last:
        s.carry = b


cdef bint _keep_fault(Blocks* s, const RecordBlock* b) noexcept nogil:
    cdef Skipped* grown
    if s.skipped_count == s.skipped_room:
        grown = <Skipped*>realloc(s.skipped, (2 * s.skipped_room + 4) * sizeof(Skipped))
        if grown == NULL:
            return False
        s.skipped = grown
        s.skipped_room = 2 * s.skipped_room + 4
    s.skipped[s.skipped_count].pass_ = b.pass_
    s.skipped[s.skipped_count].fault = b.fault
    s.skipped_count += 1
    return True


cdef void _begin_pass(Blocks* s, int64_t pass_) noexcept nogil:
    memset(&s.next, 0, sizeof(Place))
    s.next.line = 1
    s.begins = s.opens = True
    s.base = 0
    s.pass_ = pass_
    s.scanned = False


cdef void _add(Blocks* s, RecordBlock* b) noexcept nogil:
    # Its records get their numbers.
    b.place.base = s.base
    s.base += b.count
    s.records += b.count
    s.available += b.count
    s.nbytes += b.used
    if s.last == NULL:
        s.first = b
    else:
        s.last.next = b
    s.last = b


cdef void _end_pass(Blocks* s, int64_t pass_) noexcept nogil:
    s.total = s.base
    s.ended_passes = pass_ + 1
    # A pass of nothing would be followed by another one of nothing.
    if (s.passes < 0 or pass_ + 1 < s.passes) and s.base > 0 and s.fault.code == 0:
        _begin_pass(s, pass_ + 1)


cdef void blocks_publish(Blocks* s, RecordBlock* b) noexcept nogil:
    cdef RecordBlock* spent = s.spent
    cdef bint carried = s.carry == b
    s.spent = NULL
    if spent != NULL:
        blocks_done(s, spent, 1)
    b.left = b.count + carried
    if b.epoch != s.epoch or s.fault.code != 0:  # of an earlier scan, or behind the end
        b.left = carried  # blocks_next_to_index lets go of it
        s.ahead -= 1
        if not carried:
            _block_give(s, b)
        return
    if b.count > 0:
        _add(s, b)
    else:
        s.ahead -= 1
    if b.fault.code != 0:
        if s.skip_files and file_skippable(b.fault.code, b.fault.what, b.fault.err) and _keep_fault(s, b):
            if b.kind == BLOCK_PIECE and not b.last:
                s.ignored = b.place.file
                if s.next.file == s.ignored and not s.streaming:
                    _next_file(s)
        elif s.fault.code == 0:
            s.fault = b.fault
            s.scanned = True
    if b.kind == BLOCK_END:
        _end_pass(s, b.pass_)
    if b.left == 0:
        _block_give(s, b)


# Handing in

cdef int blocks_hand(Blocks* s, int64_t pass_, const Column* columns, int32_t count, int64_t first, const int64_t* rows, int64_t n,
                     int64_t nbytes, int64_t owner) noexcept nogil:
    cdef RecordBlock* b
    if pass_ != s.pass_ or s.scanned:
        return HANDED_STALE
    if s.ahead >= s.most:
        return HANDED_FULL
    b = _block_take(s)
    if b == NULL:
        return HANDED_NO_MEMORY
    b.owner = -1
    if not _room_for(s, b, count, sizeof(Column)):
        s.ahead -= 1
        _block_give(s, b)
        return HANDED_NO_MEMORY
    memset(&b.place, 0, sizeof(Place))
    b.place.line = 1
    b.place.number = s.base
    memcpy(b.index, columns, count * sizeof(Column))
    b.skip = first
    b.rows = rows
    b.owner = owner
    b.count = b.left = n
    b.used = nbytes
    _add(s, b)
    return HANDED


cdef void blocks_hand_end(Blocks* s, int64_t pass_, const Fault* fault) noexcept nogil:
    if pass_ != s.pass_ or s.scanned:
        return
    s.scanned = True
    if fault != NULL:
        s.fault = fault[0]
    else:
        _end_pass(s, pass_)


# Use

cdef RecordBlock* blocks_at(Blocks* s, int64_t pass_, int64_t ordinal, int* status) noexcept nogil:
    cdef RecordBlock* b = s.first
    cdef int64_t n
    while b != NULL and b.pass_ == pass_ and b.place.base + b.given < ordinal:  # begun in the middle of a block
        n = (ordinal if ordinal < b.place.base + b.count else b.place.base + b.count) - b.place.base - b.given
        blocks_give(s, b, b.place.base + b.given + n)
        blocks_leave(s, b, n)
        b = s.first
    if b != NULL and b.pass_ == pass_:
        status[0] = BLOCKS_OK
        return b
    if pass_ < s.ended_passes:
        status[0] = BLOCKS_END
    elif s.fault.code != 0 and b == NULL:
        status[0] = BLOCKS_FAULT
    else:
        status[0] = BLOCKS_WAIT
    return NULL


cdef void blocks_give(Blocks* s, RecordBlock* b, int64_t ordinal) noexcept nogil:
    cdef int64_t n = ordinal - b.place.base - b.given
    s.available -= n
    if b.inside == 0 and n > 0:
        b.older = s.newest
        b.newer = NULL
        if s.newest == NULL:
            s.oldest = b
        else:
            s.newest.newer = b
        s.newest = b
    b.inside += n
    s.given_place = b.place
    s.given_until = ordinal
    s.given_pass = b.pass_
    b.given = ordinal - b.place.base
    if b.given < b.count:
        return
    s.first = b.next
    if s.first == NULL:
        s.last = NULL
    s.ahead -= 1


cdef void blocks_out(Blocks* s, RecordBlock* b, int64_t n) noexcept nogil:
    b.inside -= n
    if b.inside > 0 or n == 0:
        return
    if b.older == NULL:
        s.oldest = b.newer
    else:
        b.older.newer = b.newer
    if b.newer == NULL:
        s.newest = b.older
    else:
        b.newer.older = b.older


cdef void blocks_leave(Blocks* s, RecordBlock* b, int64_t n) noexcept nogil:
    blocks_out(s, b, n)
    blocks_done(s, b, n)


cdef void blocks_done(Blocks* s, RecordBlock* b, int64_t n) noexcept nogil:
    b.left -= n
    if b.left > 0:
        return
    if b.room > s.headroom + s.piece_bytes:  # it was made for one long record
        _memory_free(s, b)
    _block_give(s, b)


cdef void blocks_restart(Blocks* s, int64_t pass_) noexcept nogil:
    cdef RecordBlock* b
    cdef int64_t n
    while s.first != NULL and s.first.pass_ < pass_:
        b = s.first
        n = b.count - b.given
        blocks_give(s, b, b.place.base + b.count)
        blocks_leave(s, b, n)
    if s.pass_ >= pass_:
        return
    # Nothing of the earlier pass is wanted any more, not even what is wrong with the rest of it.
    s.fault.code = 0
    s.epoch += 1
    while s.waiting != NULL:
        b = s.waiting
        s.waiting = b.next
        s.ahead -= 1
        _block_give(s, b)
    s.next_index = s.sequence
    if s.ended_passes < pass_:
        s.ended_passes = pass_
    _begin_pass(s, pass_)
