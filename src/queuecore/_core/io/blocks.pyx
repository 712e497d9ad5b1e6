"""Blocks of records without known places. See blocks.pxd for the contract."""
from libc.stdint cimport int32_t, int64_t, uint32_t
from libc.string cimport memset
from queuecore._core.atoms.memory cimport calloc, free, malloc
from queuecore._core.atoms.process cimport buffer_give, check_layout
from queuecore._core.atoms.errors cimport (
    CODE_EXHAUSTED, CODE_TOO_LARGE, STAGE_READ, WHAT_MEMORY, WHAT_WHOLE, fault_begin)
from queuecore._core.atoms.growing cimport array_room
from queuecore._core.io.framing cimport FRAME_LINES, framing_lone
from queuecore._core.atoms.platform cimport (
    Atomic, Fault, FileEntry, StopFlag, kAcquire, kRelaxed, layout_hash, size_product, size_sum)
from queuecore._core.io.names cimport name_of
from queuecore._core.io.sources cimport FileTable, entry_of, file_skippable, table_fault
from queuecore._core.io.streams cimport stream_close

check_layout(layout_hash())

cdef enum:
    # a block's records are moved once they take 1/FEW of it. If that came later, blocks would stay longer; if
    FEW = 8
                             # earlier, more would be moved, and moved records stay until the last one is out
    LONG_PIECE = 16 << 20    # most bytes of a piece that one record lacks: nothing interrupts the call that reads it


cdef Blocks* blocks_new(const BlockPlan* plan, FileTable* table, StopFlag* stop,
                        Atomic[int64_t]* memory) noexcept nogil:
    cdef Blocks* s = <Blocks*>calloc(1, plan.kind.nbytes)
    if s != NULL:
        s.plan = plan
        s.kind = plan.kind
        s.table = table
        s.stop = stop
        s.memory = memory
        s.headroom = max(plan.headroom, <int64_t>1)  # it is doubled; of a tiny budget, none would be left
        s.block_bytes = sizeof(RecordBlock)
    return s


cdef bint blocks_begin(Blocks* s, int32_t workers, const Place* start, int64_t pass_, int64_t ordinal,
                       const int64_t* saved) noexcept nogil:
    s.most = 2 * workers + 4
    s.ended_passes = s.given_pass = pass_
    s.given_place = start[0]
    s.given_until = start.base
    return s.kind.begin(s, workers, start, pass_, ordinal, saved)


cdef void lane_begin(Blocks* s, Lane* l, int64_t pass_, const Place* start) noexcept nogil:
    s.epochs += 1
    l.epoch = s.epochs
    l.pass_ = pass_
    l.next = start[0]
    l.begins = l.opens = True
    l.scanned = l.ended = False
    l.next_index = l.sequence
    l.ahead = 0
    l.base = 0
    l.ignored = -1


cdef void _note_wants(Blocks* s, Lane* l, int64_t nbytes) noexcept nogil:
    s.growing += nbytes - l.wants
    l.wants = nbytes


cdef void lane_drop_read(Blocks* s, Lane* l) noexcept nogil:
    cdef RecordBlock* b
    while l.waiting != NULL:
        b = l.waiting
        l.waiting = b.next
        s.ahead -= 1
        s.reading -= 1
        block_give(s, b)
    _note_wants(s, l, 0)
    s.epochs += 1
    l.epoch = s.epochs


cdef int64_t _index_memory(Blocks* s, int64_t nbytes) noexcept nogil:
    # The memory that an index counts as: of a block made for one long record, little of the index is ever touched.
    cdef int64_t most = <int64_t>sizeof(uint32_t) * (s.plan.headroom + s.plan.piece_bytes)
    return most if nbytes > most else nbytes


cdef void block_memory_free(Blocks* s, RecordBlock* b) noexcept nogil:
    if b.memory != NULL:
        s.memory.fetch_sub(b.room, kRelaxed)  # relaxed, like all accesses to `memory`: a statistic and a hint
    s.memory.fetch_sub(_index_memory(s, b.index_bytes), kRelaxed)
    buffer_give(b.memory, b.room)
    free(b.index)
    b.memory = NULL
    b.index = NULL
    b.index_bytes = 0


cdef void blocks_free(Blocks* s) noexcept nogil:
    cdef RecordBlock* b
    cdef Lane* l
    if s == NULL:
        return
    if s.kind.clear != NULL:
        s.kind.clear(s)
    l = s.lanes
    while l != NULL:
        stream_close(&l.stream)
        l = l.beside
    while s.made != NULL:
        b = s.made
        s.made = b.made_before
        block_memory_free(s, b)
        _moved_free(s, b.moved)
        free(b.here)
        free(b)
    free(s.skipped)
    free(s.lanes)
    free(s)


cdef void blocks_close(Blocks* s) noexcept nogil:
    cdef Lane* l = s.lanes
    while l != NULL:
        if not l.streaming:
            l.streaming = True
            stream_close(&l.stream)
        l = l.beside


cdef int64_t blocks_unfinished(const Blocks* s, int64_t lane) noexcept nogil:
    cdef int64_t f, i
    if s.given_until == 0 or (s.fault.code == 0 and s.ended_passes > s.given_pass):
        return -1
    f = s.kind.given_file(s, lane)
    for i in range(s.skipped_count):
        if s.skipped[i].pass_ == s.given_pass and s.skipped[i].fault.file == f:
            return -1
    return f


# Claiming

cdef RecordBlock* _bare_take(Blocks* s) noexcept nogil:
    cdef RecordBlock* b = s.bare
    if b != NULL:
        s.bare = b.next
        return b
    b = <RecordBlock*>calloc(1, s.block_bytes)
    if b == NULL:
        return NULL
    b.made_before = s.made
    s.made = b
    return b


cdef void _bare_give(Blocks* s, RecordBlock* b) noexcept nogil:
    b.next = s.bare
    s.bare = b


cdef RecordBlock* block_take(Blocks* s, Lane* l) noexcept nogil:
    cdef RecordBlock* b = s.free
    if b != NULL:
        s.free = b.next
    else:
        b = _bare_take(s)
        if b == NULL:
            return NULL
        s.made_count += 1
    b.next = NULL
    b.lane = l
    b.kind = BLOCK_PIECE
    b.count = b.given = b.inside = b.left = b.skip = b.nbytes = b.used = 0
    b.begins = b.opens = b.last = b.noted = b.few = False
    b.fault.code = 0
    b.headroom = s.headroom
    b.pass_ = l.pass_
    b.epoch = l.epoch
    b.sequence = l.sequence
    l.sequence += 1
    l.ahead += 1
    s.ahead += 1
    s.reading += 1
    return b


cdef void block_give(Blocks* s, RecordBlock* b) noexcept nogil:
    if s.kind.let_go != NULL:
        s.kind.let_go(s, b)
    if b.memory == NULL:
        s.made_count -= 1
        _bare_give(s, b)
        return
    b.next = s.free
    s.free = b


cdef void whole_too_long(Blocks* s, RecordBlock* b) noexcept nogil:
    fault_begin(&b.fault, CODE_TOO_LARGE, WHAT_WHOLE, STAGE_READ)
    b.fault.file = b.place.file
    b.fault.a = s.plan.max_record_bytes
    b.fault.b = -1 if s.plan.encoding else entry_of(s.table, b.place.file).size


cdef bint blocks_full(Blocks* s) noexcept nogil:
    # An index of lines takes up to four times their bytes.
    cdef int64_t one = s.headroom + s.plan.piece_bytes * (5 if s.plan.framing == FRAME_LINES else 2)
    if s.plan.memory_most == 0 or s.ahead == 0 or s.free != NULL:
        return False
    # relaxed: a piece more or less
    return (s.made_count + 1) * one > s.plan.memory_most or s.memory.load(kRelaxed) + one > s.plan.memory_most


cdef bint blocks_enough(const Blocks* s, int64_t n) noexcept nogil:
    if s.kind.enough != NULL:
        return s.kind.enough(s, n)
    return s.ahead >= s.most or s.available >= n


cdef bint lane_can_read(const Lane* l) noexcept nogil:
    return not l.scanned and not l.streaming


cdef int64_t _piece_for(const Blocks* s, const Lane* l, RecordBlock* b) noexcept nogil:
    # Returns how many bytes the lane's next piece has. All that a long record lacks is one piece, which the record's
    # beginning is moved in front of; unless pieces behind that beginning were claimed before it was known.
    cdef const RecordBlock* c
    cdef int64_t piece = s.plan.piece_bytes, n, lacks
    # A thread that indexes the lane changes what it wants and what it carries over, without the turn.
    if l.indexing or b.sequence != l.next_index or s.plan.memory_most > 0 or l.wants == 0 or l.carry == NULL:
        return piece
    c = l.carry
    n = c.nbytes - c.used
    lacks = min(l.wants - n, <int64_t>LONG_PIECE)
    if lacks <= piece or n > piece:
        return piece
    b.headroom = max(b.headroom, (n + 63) // 64 * 64)
    return (lacks + piece - 1) // piece * piece


cdef RecordBlock* blocks_claim(Blocks* s, bint nowait, bint* no_memory) noexcept nogil:
    cdef FileTable* t = s.table
    cdef FileEntry* e
    cdef RecordBlock* b
    cdef Lane* l
    cdef int64_t nbytes
    if s.plan.encoding and nowait:
        return NULL
    l = s.kind.lane_to_read(s)
    if l == NULL:
        return NULL
    b = block_take(s, l)
    if b == NULL:
        no_memory[0] = True
        return NULL
    if l.next.file == t.files.load(kRelaxed):
        b.kind = BLOCK_END
        l.scanned = True
        return b
    e = entry_of(t, l.next.file)
    b.place = l.next
    b.name = name_of(t.names, l.next.file)
    b.begins = l.begins
    l.begins = False
    if e.code != 0:
        b.kind = BLOCK_FAULT
        table_fault(t, l.next.file, &b.fault)
        s.kind.next_file(s, l)
    # the file isn't even read
    elif framing_lone(s.plan.framing) and not s.plan.encoding and e.size > s.plan.max_record_bytes:
        b.kind = BLOCK_FAULT
        whole_too_long(s, b)
        s.kind.next_file(s, l)
    elif s.plan.encoding:
        b.opens = l.opens
        l.opens = False
        l.streaming = True
    else:
        # states that we save never lie beyond the end
        b.nbytes = e.size - l.next.offset if l.next.offset < e.size else 0
        nbytes = _piece_for(s, l, b)
        b.last = b.nbytes <= nbytes
        if b.last:
            s.kind.next_file(s, l)
        else:
            b.nbytes = nbytes
            l.next.offset += nbytes
    return b


# Pieces

cdef void piece_no_memory(RecordBlock* b, int64_t nbytes) noexcept nogil:
    fault_begin(&b.fault, CODE_EXHAUSTED, WHAT_MEMORY, STAGE_READ)
    b.fault.file = b.place.file
    b.fault.a = nbytes


cdef Lane* blocks_retire(Blocks* s, RecordBlock* b) noexcept nogil:
    cdef Lane* l = b.lane
    cdef RecordBlock** link = &l.waiting
    if s.plan.encoding and b.kind == BLOCK_PIECE:
        l.streaming = False
    if b.epoch != l.epoch:
        s.ahead -= 1
        s.reading -= 1
        block_give(s, b)
    else:
        if s.plan.encoding and b.kind == BLOCK_PIECE and (b.last or b.fault.code != 0 or l.ignored == b.place.file):
            s.kind.next_file(s, l)
        while link[0] != NULL and link[0].sequence < b.sequence:
            link = &link[0].next
        b.next = link[0]
        link[0] = b
    if l.indexing or l.waiting == NULL or l.waiting.sequence != l.next_index:
        return NULL
    l.indexing = True
    return l


cdef RecordBlock* blocks_next_to_index(Blocks* s, Lane* l) noexcept nogil:
    cdef RecordBlock* b = l.waiting
    if b == NULL or b.sequence != l.next_index:
        l.indexing = False
        return NULL
    l.waiting = b.next
    b.next = NULL
    l.next_index += 1
    if l.index_epoch != b.epoch:
        l.index_epoch = b.epoch
        l.ignored = -1
        if l.carry != NULL:
            blocks_done(s, l.carry, 1)
            l.carry = NULL
    if b.begins:
        l.ignored = -1  # the file may be the ignored one again, in the next pass
    b.ignored = b.kind == BLOCK_PIECE and b.place.file == l.ignored
    return b


cdef bint index_room(Blocks* s, RecordBlock* b, int64_t entries, int64_t item) noexcept nogil:
    # A large index lies in zero pages of the kernel, which are touched only as far as there are records.
    if b.index_bytes < entries * item:
        free(b.index)
        b.index = malloc(size_product(entries, item))
        s.memory.fetch_sub(_index_memory(s, b.index_bytes), kRelaxed)
        b.index_bytes = entries * item if b.index != NULL else 0
        s.memory.fetch_add(_index_memory(s, b.index_bytes), kRelaxed)
        if b.index == NULL:
            piece_no_memory(b, entries * item)
            return False
    return True


cdef bint blocks_leave_out(Blocks* s, int64_t pass_, const Fault* fault) noexcept nogil:
    cdef Skipped* grown
    if not s.plan.skip_files or not file_skippable(fault.code, fault.what, fault.err):
        return False
    grown = <Skipped*>array_room(s.skipped, s.skipped_count, &s.skipped_room, sizeof(Skipped))
    if grown == NULL:
        return False
    s.skipped = grown
    s.skipped[s.skipped_count].pass_ = pass_
    s.skipped[s.skipped_count].fault = fault[0]
    s.skipped_count += 1
    return True


cdef void _begin_pass(Blocks* s, int64_t pass_) noexcept nogil:
    cdef Lane* l = s.lanes
    memset(&l.next, 0, sizeof(Place))
    l.next.line = 1
    l.begins = l.opens = True
    l.base = 0
    l.pass_ = pass_
    l.scanned = False


cdef void block_add(Blocks* s, RecordBlock* b) noexcept nogil:
    cdef Lane* l = b.lane
    b.place.base = l.base
    l.base += b.count
    s.records += b.count
    s.available += b.count
    s.ahead_bytes += b.room
    s.nbytes += b.used
    if l.last == NULL:
        l.first = b
    else:
        l.last.next = b
    l.last = b


cdef void blocks_end_pass(Blocks* s, int64_t pass_) noexcept nogil:
    s.ended_passes = pass_ + 1
    # After a pass without records, the next one would have none either.
    if (s.plan.passes < 0 or pass_ + 1 < s.plan.passes) and s.lanes.base > 0 and s.fault.code == 0:
        _begin_pass(s, pass_ + 1)


cdef void blocks_publish(Blocks* s, RecordBlock* b) noexcept nogil:
    cdef Lane* l = b.lane
    cdef RecordBlock* spent = l.spent
    cdef bint carried = l.carry == b
    l.spent = NULL
    while s.headroom < l.cut:
        s.headroom *= 2
    s.reading -= 1
    if spent != NULL:
        blocks_done(s, spent, 1)
    b.left = b.count + carried
    if b.epoch != l.epoch or s.fault.code != 0 or l.ended:  # of an earlier scan, or behind the end
        b.left = carried  # blocks_next_to_index drops the carry
        s.ahead -= 1
        if not carried:
            block_give(s, b)
        return
    _note_wants(s, l, l.need if carried else 0)
    if b.count > 0:
        block_add(s, b)
    else:
        s.ahead -= 1
        l.ahead -= 1
    s.kind.publish_end(s, b)
    if b.left == 0:
        block_give(s, b)


# Use

cdef void lane_pass(Blocks* s, Lane* l, RecordBlock* b, int64_t n) noexcept nogil:
    s.available -= n
    b.given += n
    if b.given < b.count:
        return
    l.first = b.next
    if l.first == NULL:
        l.last = NULL
    s.ahead -= 1
    s.ahead_bytes -= b.room
    l.ahead -= 1


cdef void lane_drop_first(Blocks* s, Lane* l) noexcept nogil:
    cdef RecordBlock* b = l.first
    cdef int64_t n = b.count - b.given
    lane_pass(s, l, b, n)
    blocks_done(s, b, n)


cdef void blocks_give(Blocks* s, RecordBlock* b, int64_t n) noexcept nogil:
    if b.inside == 0:
        b.older = s.newest
        b.newer = NULL
        if s.newest == NULL:
            s.oldest = b
        else:
            s.newest.newer = b
        s.newest = b
        if s.kind.enters != NULL:
            s.kind.enters(s, b)
    b.inside += n
    if b.noted:
        memset(b.here + b.given, True, n)
    lane_pass(s, b.lane, b, n)
    s.given_place = b.place
    s.given_until = b.place.base + b.given
    s.given_pass = b.pass_
    if s.kind.given != NULL:
        s.kind.given(s, b, n)


cdef void blocks_out(Blocks* s, RecordBlock* b, int64_t first, int64_t n) noexcept nogil:
    if n == 0:
        return
    b.inside -= n
    if b.noted:
        memset(b.here + first, False, n)
    if b.inside > 0:
        if b.noted and not b.few and b.given == b.count and b.inside * b.used <= b.room // FEW * b.count:
            b.few = True
            b.left += 1  # blocks_moved, or blocks_claim_moving if nothing is moved, takes this back
            b.next = s.few
            s.few = b
        return
    if b.older == NULL:
        s.oldest = b.newer
    else:
        b.older.newer = b.newer
    if b.newer == NULL:
        s.newest = b.older
    else:
        b.newer.older = b.older


cdef void blocks_leave(Blocks* s, RecordBlock* b, int64_t first, int64_t n) noexcept nogil:
    blocks_out(s, b, first, n)
    blocks_done(s, b if b.moved == NULL else &b.moved.block, n)


cdef void blocks_done(Blocks* s, RecordBlock* b, int64_t n) noexcept nogil:
    cdef MovedBlock* to
    b.left -= n
    if b.left > 0:
        return
    if b.kind == BLOCK_MOVED:
        to = <MovedBlock*>b
        b = to.source
        b.moved = NULL
        _moved_free(s, to)
        if b.left > 0:  # units that got records before the move still read them
            return
        if b.memory == NULL:
            _bare_give(s, b)
            return
    elif b.moved != NULL:
        b = _memory_pass(s, b)
        if b == NULL:
            return
    block_give(s, b)


# Moving

cdef void _moved_free(Blocks* s, MovedBlock* to) noexcept nogil:
    if to == NULL:
        return
    s.memory.fetch_sub(to.block.room, kRelaxed)
    free(to.block.memory)
    free(to)


cdef RecordBlock* _memory_pass(Blocks* s, RecordBlock* b) noexcept nogil:
    # Returns the memory of a block whose records are all moved, as a block of its own. NULL: there is no memory for
    # that; the block then keeps its memory until its moved records are done.
    cdef RecordBlock* other = _bare_take(s)
    if other != NULL:
        other.memory, b.memory = b.memory, other.memory
        other.index, b.index = b.index, other.index
        other.index_bytes, b.index_bytes = b.index_bytes, other.index_bytes
        other.room = b.room
    return other


cdef RecordBlock* blocks_claim_moving(Blocks* s) noexcept nogil:
    cdef RecordBlock* b
    cdef MovedBlock* to
    cdef int64_t i, k
    while s.few != NULL:
        b = s.few
        s.few = b.next
        to = NULL
        if b.inside > 0:
            to = <MovedBlock*>malloc(size_sum(sizeof(MovedBlock), size_product(b.inside + 1, sizeof(Moved))))
        if to == NULL:
            blocks_done(s, b, 1)
            continue
        memset(to, 0, sizeof(MovedBlock))
        to.records = <Moved*>(to + 1)
        to.source = b
        to.block.kind = BLOCK_MOVED
        to.block.place = b.place
        to.block.skip = b.skip
        to.block.name = b.name
        to.block.pass_ = b.pass_
        to.block.count = b.inside
        i = k = 0
        while k < to.block.count:
            if b.here[i]:
                to.records[k].first = i
                k += 1
            i += 1
        return &to.block
    return NULL


cdef void blocks_moved(Blocks* s, RecordBlock* moved_block) noexcept nogil:
    cdef MovedBlock* to = <MovedBlock*>moved_block
    cdef RecordBlock* b = to.source
    if moved_block.memory == NULL or b.inside == 0:
        _moved_free(s, to)
    else:  # records that left the order meanwhile are read in their old place
        b.moved = to
        moved_block.left = b.inside
        b.left -= b.inside
    blocks_done(s, b, 1)


# Files one after the other

cdef bint files_begin(Blocks* s, int32_t workers, const Place* start, int64_t pass_, int64_t ordinal,
                      const int64_t* saved) noexcept nogil:
    s.lanes = <Lane*>calloc(1, sizeof(Lane))
    if s.lanes == NULL:
        return False
    s.lanes.stream.fd = -1
    lane_begin(s, s.lanes, pass_, start)
    s.lanes.base = start.base
    return True


cdef int64_t files_wanted(const Blocks* s) noexcept nogil:
    return s.lanes.next.file


cdef void files_next(Blocks* s, Lane* l) noexcept nogil:
    l.next.file += 1
    l.next.offset = l.next.number = 0
    l.next.line = 1
    l.begins = l.opens = True


cdef Lane* _lane_to_read(Blocks* s) noexcept nogil:
    cdef FileTable* t = s.table
    cdef Lane* l = s.lanes
    cdef int64_t file_count
    if s.ahead >= s.most + s.asked or not lane_can_read(l):
        return NULL
    file_count = t.known_files.load(kAcquire)  # D2 acquire: pairs with D1 in sources.pyx
    # A file of no bytes has no records, unless it is one itself.
    while (l.next.file < file_count and entry_of(t, l.next.file).count == 0 and entry_of(t, l.next.file).code == 0
           and not framing_lone(s.plan.framing)):
        files_next(s, l)
    if (l.next.file >= file_count and file_count < t.files.load(kRelaxed)) or blocks_full(s):
        return NULL
    return l


cdef void files_publish_end(Blocks* s, RecordBlock* b) noexcept nogil:
    cdef Lane* l = b.lane
    if b.fault.code != 0:
        if blocks_leave_out(s, b.pass_, &b.fault):
            if b.kind == BLOCK_PIECE and not b.last:
                l.ignored = b.place.file
                if l.next.file == l.ignored and not l.streaming:
                    files_next(s, l)
        elif s.fault.code == 0:
            s.fault = b.fault
            l.scanned = True
    if b.kind == BLOCK_END:
        blocks_end_pass(s, b.pass_)


cdef RecordBlock* files_at(Blocks* s, int64_t pass_, int64_t ordinal, int64_t* n, int* status) noexcept nogil:
    cdef Lane* l = s.lanes
    cdef RecordBlock* b
    b = l.first
    while b != NULL and b.pass_ == pass_ and b.place.base + b.given < ordinal:  # begun in the middle of a block
        n[0] = (ordinal if ordinal < b.place.base + b.count else b.place.base + b.count) - b.place.base - b.given
        blocks_give(s, b, n[0])
        blocks_leave(s, b, b.given - n[0], n[0])
        b = l.first
    if b != NULL and b.pass_ == pass_:
        n[0] = b.count - b.given
        status[0] = BLOCKS_OK
        return b
    if pass_ < s.ended_passes:
        status[0] = BLOCKS_END
    elif s.fault.code != 0 and b == NULL:
        status[0] = BLOCKS_FAULT
    else:
        status[0] = BLOCKS_WAIT
    return NULL


cdef void files_restart(Blocks* s, int64_t pass_) noexcept nogil:
    cdef Lane* l = s.lanes
    while l.first != NULL and l.first.pass_ < pass_:
        lane_drop_first(s, l)
    if l.pass_ >= pass_:
        return
    # The earlier pass is dropped, with any fault in the rest of it.
    s.fault.code = 0
    lane_drop_read(s, l)
    l.next_index = l.sequence
    if s.ended_passes < pass_:
        s.ended_passes = pass_
    _begin_pass(s, pass_)


cdef int64_t _given_file(const Blocks* s, int64_t lane) noexcept nogil:
    return s.given_place.file


cdef BlockKind FILES = BlockKind(
    reads=True, nbytes=sizeof(Blocks), begin=files_begin, wanted=files_wanted, lane_to_read=_lane_to_read,
    next_file=files_next, publish_end=files_publish_end, at=files_at, enters=NULL, given=NULL, enough=NULL,
    restart=files_restart, given_file=_given_file, let_go=NULL, clear=NULL)


cdef const BlockKind* files_kind() noexcept nogil:
    return &FILES
