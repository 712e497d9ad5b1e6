"""Blocks of records without known places. See blocks.pxd for the contract."""
from libc.stdint cimport int32_t, int64_t, uint32_t
from libc.string cimport memcpy, memset
from queuecore._core.atoms.memory cimport calloc, free, malloc
from queuecore._core.atoms.process cimport buffer_give, check_layout
from queuecore._core.atoms.errors cimport (
    CODE_EXHAUSTED, CODE_TOO_LARGE, STAGE_READ, WHAT_MEMORY, WHAT_WHOLE, fault_begin)
from queuecore._core.atoms.growing cimport array_room
from queuecore._core.io.framing cimport FRAME_LINES, framing_handed, framing_lone
from queuecore._core.atoms.platform cimport (
    Fault, FileEntry, StopFlag, kAcquire, kRelaxed, layout_hash, size_product, size_sum)
from queuecore._core.io.sources cimport FileTable, file_skippable, name_of, table_fault
from queuecore._core.io.streams cimport stream_close

check_layout(layout_hash())

cdef enum:
    # a block's records are moved once they take 1/FEW of it. If that came later, blocks would stay longer; if
    FEW = 8
                             # earlier, more would be moved, and moved records stay until the last one is out


cdef bint blocks_init(Blocks* s, FileTable* table, StopFlag* stop, int32_t workers, const Place* start, int64_t pass_,
                      int64_t ordinal, const int64_t* saved) noexcept nogil:
    cdef int64_t i
    cdef int32_t extra = 2 * workers + 4
    cdef bint lanes = s.cycle > 1
    s.table = table
    s.stop = stop
    s.most = extra + (2 * <int32_t>s.cycle if lanes else 0)
    s.ended_passes = s.given_pass = pass_
    s.given_place = start[0]
    s.given_until = start.base
    s.lost_pass = -1
    s.lane_count = <int32_t>s.cycle + extra if lanes else 1
    s.lanes = <Lane*>calloc(s.lane_count, sizeof(Lane))
    if s.lanes == NULL:
        return False
    # before anything else may fail: blocks_clear closes what is open, and 0 is a descriptor
    for i in range(s.lane_count):
        s.lanes[i].stream.fd = -1
        s.lanes[i].ignored = -1
    s.slots = <Lane**>calloc(s.cycle, sizeof(Lane*))
    if s.slots == NULL:
        return False
    if not lanes:
        _lane_begin(s, s.lanes, pass_, start)
        s.lanes.base = start.base
        return True
    for i in range(s.lane_count):
        s.lanes[i].after = s.idle
        s.idle = &s.lanes[i]
    s.coming_pass = s.order_pass = pass_
    s.position = ordinal
    if saved != NULL:
        _lanes_restore(s, pass_, saved)
    return True


cdef void blocks_lose(Blocks* s) noexcept nogil:
    if s.lost_pass < 0:
        s.lost_pass = s.lanes.pass_
        s.lost_at = s.lanes.base


cdef bint blocks_lost(const Blocks* s) noexcept nogil:
    return s.lost_pass >= 0 and (s.given_pass > s.lost_pass
                                 or (s.given_pass == s.lost_pass and s.given_until > s.lost_at))


cdef void _lane_begin(Blocks* s, Lane* l, int64_t pass_, const Place* start) noexcept nogil:
    # Pieces of the lane that are still being read are dropped when they come (blocks_retire).
    s.epochs += 1
    l.epoch = s.epochs
    l.pass_ = pass_
    l.next = l.at_place = start[0]
    l.begins = l.opens = True
    l.scanned = l.ended = False
    l.next_index = l.sequence
    l.ahead = 0
    l.base = l.skip = l.at_given = 0
    l.fault.code = 0
    l.ignored = -1


cdef Lane* _lane_open(Blocks* s, int64_t pass_, const Place* start) noexcept nogil:
    # Gives a lane to one file, which is known. The caller has made sure that a lane is idle.
    cdef FileEntry* e = &s.table.entries[start.file]
    cdef Lane* l = s.idle
    s.idle = l.after
    l.after = NULL
    _lane_begin(s, l, pass_, start)
    # A file of no bytes has no records, unless it is one itself.
    l.scanned = l.ended = e.count == 0 and e.code == 0 and not framing_lone(s.framing)
    return l


cdef void _scan_drop(Blocks* s, Lane* l) noexcept nogil:
    # Drops blocks that were read but not yet indexed. Pieces that are still being read are dropped when they come.
    cdef RecordBlock* b
    while l.waiting != NULL:
        b = l.waiting
        l.waiting = b.next
        s.ahead -= 1
        s.reading -= 1
        _block_give(s, b)
    s.epochs += 1
    l.epoch = s.epochs


cdef void _lane_close(Blocks* s, Lane* l) noexcept nogil:
    # Drops the lane's records and makes it idle.
    cdef RecordBlock* b
    cdef int64_t n
    while l.first != NULL:
        b = l.first
        n = b.count - b.given
        _lane_pass(s, l, b, n)
        blocks_done(s, b, n)
    _scan_drop(s, l)
    l.scanned = True
    l.after = s.idle
    s.idle = l


cdef bint _lane_come(Blocks* s) noexcept nogil:
    # Gives a lane to the next file that will be opened. False: that file isn't known yet, or there is no file or no
    # lane.
    cdef FileTable* t = s.table
    cdef Place start
    cdef Lane* l
    if s.idle == NULL:
        return False
    if s.coming_file == t.files:
        # After a pass without records, the next one would have none either.
        if s.records == 0 or (s.passes >= 0 and s.coming_pass + 1 >= s.passes):
            return False
        s.coming_pass += 1
        s.coming_file = 0
    if s.coming_file >= t.known_files.load(kAcquire):  # D2 acquire: pairs with D1 in sources.pyx
        return False
    memset(&start, 0, sizeof(Place))
    start.file = s.coming_file
    start.line = 1
    l = _lane_open(s, s.coming_pass, &start)
    s.coming_file += 1
    if s.coming == NULL:
        s.coming = l
    else:
        s.coming_last.after = l
    s.coming_last = l
    return True


cdef void _lanes_restore(Blocks* s, int64_t pass_, const int64_t* saved) noexcept nogil:
    cdef const int64_t* fields
    cdef Place start
    cdef int64_t i
    s.next_file = s.coming_file = saved[0]
    s.cursor = saved[1]
    s.lane_given = saved[2]
    for i in range(s.cycle):
        fields = saved + 3 + 5 * i
        if fields[0] < 0:
            continue
        memset(&start, 0, sizeof(Place))
        start.file = fields[0]
        start.offset = fields[1]
        start.number = fields[2]
        start.line = fields[3]
        s.slots[i] = _lane_open(s, pass_, &start)
        s.slots[i].skip = s.slots[i].at_given = fields[4]
        s.open += 1


cdef void blocks_save(const Blocks* s, int64_t* saved) noexcept nogil:
    cdef int64_t* fields
    cdef const Lane* l
    cdef int64_t i
    saved[0] = s.next_file
    saved[1] = s.cursor
    saved[2] = s.lane_given
    for i in range(s.cycle):
        fields = saved + 3 + 5 * i
        l = s.slots[i]
        fields[0] = -1
        fields[1] = fields[2] = fields[4] = 0
        fields[3] = 1
        if l != NULL:
            fields[0] = l.at_place.file
            fields[1] = l.at_place.offset
            fields[2] = l.at_place.number
            fields[3] = l.at_place.line
            fields[4] = l.at_given


cdef int64_t blocks_wanted(const Blocks* s) noexcept nogil:
    return s.lanes.next.file if s.cycle == 1 else s.coming_file


cdef int64_t _index_memory(Blocks* s, int64_t nbytes) noexcept nogil:
    # The memory that an index counts as: of a block made for one long record, little of the index is ever touched.
    cdef int64_t most = <int64_t>sizeof(uint32_t) * (s.headroom + s.piece_bytes)
    return most if nbytes > most else nbytes


cdef void _memory_free(Blocks* s, RecordBlock* b) noexcept nogil:
    if b.memory != NULL:
        s.memory.fetch_sub(b.room, kRelaxed)  # relaxed, like all accesses to `memory`: a statistic and a hint
    s.memory.fetch_sub(_index_memory(s, b.index_bytes), kRelaxed)
    buffer_give(b.memory, b.room)
    free(b.index)
    b.memory = NULL
    b.index = NULL
    b.index_bytes = 0


cdef void blocks_clear(Blocks* s) noexcept nogil:
    cdef RecordBlock* b
    cdef int32_t i
    if s.lanes != NULL:
        for i in range(s.lane_count):
            stream_close(&s.lanes[i].stream)
    while s.made != NULL:
        b = s.made
        s.made = b.made_before
        if b.link != NULL:
            s.release(b.link)
        _memory_free(s, b)
        _moved_free(s, b.moved)
        free(b.here)
        free(b.saved)
        free(b)
    free(s.skipped)
    free(s.freed)
    free(s.lanes)
    free(s.slots)


cdef void blocks_close(Blocks* s) noexcept nogil:
    cdef int32_t i
    for i in range(s.lane_count):
        if not s.lanes[i].streaming:
            s.lanes[i].streaming = True
            stream_close(&s.lanes[i].stream)


cdef int64_t blocks_unfinished(const Blocks* s, int64_t lane) noexcept nogil:
    cdef int64_t f = s.given_place.file, i
    if framing_handed(s.framing) or s.given_until == 0 or (s.fault.code == 0 and s.ended_passes > s.given_pass):
        return -1
    if s.cycle > 1:
        if s.slots[lane] == NULL or s.slots[lane].at_given == 0:
            return -1
        f = s.slots[lane].at_place.file
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
    b = <RecordBlock*>calloc(1, sizeof(RecordBlock))
    if b == NULL:
        return NULL
    if s.cycle > 1 and s.shuffled:
        b.saved = <int64_t*>malloc(size_product(3 + blocks_saved(s.cycle), sizeof(int64_t)))
        if b.saved == NULL:
            free(b)
            return NULL
    b.made_before = s.made
    s.made = b
    return b


cdef void _bare_give(Blocks* s, RecordBlock* b) noexcept nogil:
    b.next = s.bare
    s.bare = b


cdef RecordBlock* _block_take(Blocks* s, Lane* l) noexcept nogil:
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
    b.pass_ = l.pass_
    b.epoch = l.epoch
    b.sequence = l.sequence
    l.sequence += 1
    l.ahead += 1
    s.ahead += 1
    s.reading += 1
    return b


cdef void _block_give(Blocks* s, RecordBlock* b) noexcept nogil:
    cdef int64_t* grown
    if framing_handed(s.framing):
        if b.link != NULL:
            s.release(b.link)
            b.link = NULL
        if b.owner >= 0:
            grown = <int64_t*>array_room(s.freed, s.freed_count, &s.freed_room, sizeof(int64_t))
            if grown != NULL:
                s.freed = grown
        if b.owner >= 0 and s.freed_count < s.freed_room:  # without memory, the owner stays until the end
            s.freed[s.freed_count] = b.owner
            s.freed_count += 1
        b.owner = -1
    if b.memory == NULL:
        s.made_count -= 1
        _bare_give(s, b)
        return
    b.next = s.free
    s.free = b


cdef void _next_file(Blocks* s, Lane* l) noexcept nogil:
    if s.cycle > 1:
        l.scanned = True
        return
    l.next.file += 1
    l.next.offset = l.next.number = 0
    l.next.line = 1
    l.begins = l.opens = True


cdef void whole_too_long(Blocks* s, RecordBlock* b) noexcept nogil:
    fault_begin(&b.fault, CODE_TOO_LARGE, WHAT_WHOLE, STAGE_READ)
    b.fault.file = b.place.file
    b.fault.a = s.max_record_bytes
    b.fault.b = -1 if s.encoding else s.table.entries[b.place.file].size


cdef bint blocks_full(Blocks* s) noexcept nogil:
    # An index of lines takes up to four times their bytes.
    cdef int64_t one = s.headroom + s.piece_bytes * (5 if s.framing == FRAME_LINES else 2)
    if s.memory_most == 0 or s.ahead == 0 or s.free != NULL:
        return False
    # relaxed: a piece more or less
    return (s.made_count + 1) * one > s.memory_most or s.memory.load(kRelaxed) + one > s.memory_most


cdef inline bint _can_read(const Lane* l) noexcept nogil:
    return not l.scanned and not l.streaming


cdef Lane* _lane_to_read(Blocks* s) noexcept nogil:
    # Returns the lane with the fewest blocks ahead, beginning at the slot that gives records now; lanes of coming files
    # count as if they had two more. An open lane without any block is read in any case: the order may wait for it.
    cdef Lane* best = NULL
    cdef Lane* l
    cdef int64_t _slot, k = s.cursor
    for _slot in range(s.cycle):
        l = s.slots[k]
        if l != NULL and _can_read(l) and (best == NULL or l.ahead < best.ahead):
            best = l
            if l.ahead == 0:
                return l
        k = k + 1 if k + 1 < s.cycle else 0
    if s.ahead >= s.most + s.asked:
        return NULL
    if best != NULL and best.ahead < 2:
        return best
    l = s.coming
    while l != NULL and (l.ahead > 0 or not _can_read(l)):
        if _can_read(l) and (best == NULL or l.ahead + 2 < best.ahead):
            best = l
        l = l.after
    if l != NULL:
        return l
    while _lane_come(s):
        if _can_read(s.coming_last):
            return s.coming_last
    return best


cdef RecordBlock* blocks_claim(Blocks* s, bint nowait, bint* no_memory) noexcept nogil:
    cdef FileTable* t = s.table
    cdef FileEntry* e
    cdef RecordBlock* b
    cdef Lane* l = s.lanes
    cdef int64_t known
    if (s.encoding and nowait) or framing_handed(s.framing):
        return NULL
    if s.cycle > 1:
        l = _lane_to_read(s)
        if l == NULL:
            return NULL
    else:
        if s.ahead >= s.most + s.asked or not _can_read(l):
            return NULL
        known = t.known_files.load(kAcquire)  # D2 acquire: pairs with D1 in sources.pyx
        # A file of no bytes has no records, unless it is one itself.
        while (l.next.file < known and t.entries[l.next.file].count == 0 and t.entries[l.next.file].code == 0
               and not framing_lone(s.framing)):
            _next_file(s, l)
        if l.next.file >= known and known < t.files:
            return NULL
    # An open lane without any block is read in any case.
    if blocks_full(s) and (s.cycle == 1 or l.ahead > 0):
        return NULL
    b = _block_take(s, l)
    if b == NULL:
        no_memory[0] = True
        return NULL
    if l.next.file == t.files:
        b.kind = BLOCK_END
        l.scanned = True
        return b
    e = &t.entries[l.next.file]
    b.place = l.next
    b.name = name_of(t.names, l.next.file)
    b.begins = l.begins
    l.begins = False
    if e.code != 0:
        b.kind = BLOCK_FAULT
        table_fault(t, l.next.file, &b.fault)
        _next_file(s, l)
    elif framing_lone(s.framing) and not s.encoding and e.size > s.max_record_bytes:  # the file isn't even read
        b.kind = BLOCK_FAULT
        whole_too_long(s, b)
        _next_file(s, l)
    elif s.encoding:
        b.opens = l.opens
        l.opens = False
        l.streaming = True
    else:
        # states that we save never lie beyond the end
        b.nbytes = e.size - l.next.offset if l.next.offset < e.size else 0
        b.last = b.nbytes <= s.piece_bytes
        if b.last:
            _next_file(s, l)
        else:
            b.nbytes = s.piece_bytes
            l.next.offset += s.piece_bytes
    return b


# Pieces

cdef void piece_no_memory(RecordBlock* b, int64_t nbytes) noexcept nogil:
    fault_begin(&b.fault, CODE_EXHAUSTED, WHAT_MEMORY, STAGE_READ)
    b.fault.file = b.place.file
    b.fault.a = nbytes


cdef Lane* blocks_retire(Blocks* s, RecordBlock* b) noexcept nogil:
    cdef Lane* l = b.lane
    cdef RecordBlock** at = &l.waiting
    if s.encoding and b.kind == BLOCK_PIECE:
        l.streaming = False
    if b.epoch != l.epoch:
        s.ahead -= 1
        s.reading -= 1
        _block_give(s, b)
    else:
        if s.encoding and b.kind == BLOCK_PIECE and (b.last or b.fault.code != 0 or l.ignored == b.place.file):
            _next_file(s, l)
        while at[0] != NULL and at[0].sequence < b.sequence:
            at = &at[0].next
        b.next = at[0]
        at[0] = b
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


cdef bint _leaves_out(Blocks* s, int64_t pass_, const Fault* fault) noexcept nogil:
    # Returns whether the file with this fault is given up, and notes it then.
    cdef Skipped* grown
    if not s.skip_files or not file_skippable(fault.code, fault.what, fault.err):
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


cdef void _publish_end(Blocks* s, RecordBlock* b) noexcept nogil:
    # Handles the fault or the end that follows the block's records, if they are the last ones of a file.
    cdef Lane* l = b.lane
    if s.cycle > 1:
        if b.fault.code == 0 and not b.last:
            return
        l.fault = b.fault
        l.ignored = b.place.file
        l.scanned = l.ended = True
        return
    if b.fault.code != 0:
        if _leaves_out(s, b.pass_, &b.fault):
            if b.kind == BLOCK_PIECE and not b.last:
                l.ignored = b.place.file
                if l.next.file == l.ignored and not l.streaming:
                    _next_file(s, l)
        elif s.fault.code == 0:
            s.fault = b.fault
            l.scanned = True
    if b.kind == BLOCK_END:
        _end_pass(s, b.pass_)


cdef void _add(Blocks* s, RecordBlock* b) noexcept nogil:
    # Gives the block's records their numbers.
    cdef Lane* l = b.lane
    b.place.base = l.base
    l.base += b.count
    s.records += b.count
    s.available += b.count
    s.nbytes += b.used
    if l.last == NULL:
        l.first = b
    else:
        l.last.next = b
    l.last = b


cdef void _end_pass(Blocks* s, int64_t pass_) noexcept nogil:
    s.ended_passes = pass_ + 1
    # After a pass without records, the next one would have none either.
    if (s.passes < 0 or pass_ + 1 < s.passes) and s.lanes.base > 0 and s.fault.code == 0:
        _begin_pass(s, pass_ + 1)


cdef void blocks_publish(Blocks* s, RecordBlock* b) noexcept nogil:
    cdef Lane* l = b.lane
    cdef RecordBlock* spent = l.spent
    cdef bint carried = l.carry == b
    l.spent = NULL
    s.reading -= 1
    if spent != NULL:
        blocks_done(s, spent, 1)
    b.left = b.count + carried
    if b.epoch != l.epoch or s.fault.code != 0 or l.ended:  # of an earlier scan, or behind the end
        b.left = carried  # blocks_next_to_index drops the carry
        s.ahead -= 1
        if not carried:
            _block_give(s, b)
        return
    if b.count > 0:
        _add(s, b)
    else:
        s.ahead -= 1
        l.ahead -= 1
    _publish_end(s, b)
    if b.left == 0:
        _block_give(s, b)


# Handing in

cdef int blocks_hand(Blocks* s, int64_t pass_, const Column* columns, int32_t count, int64_t first, const int64_t* rows,
                     int64_t n, int64_t nbytes, int64_t owner, void* link) noexcept nogil:
    cdef Lane* l = s.lanes
    cdef RecordBlock* b
    if pass_ != l.pass_ or l.scanned:
        return HANDED_STALE
    if s.ahead >= s.most:
        return HANDED_FULL
    b = _block_take(s, l)
    if b == NULL:
        return HANDED_NO_MEMORY
    s.reading -= 1
    b.owner = -1
    if not index_room(s, b, count, sizeof(Column)):
        s.ahead -= 1
        l.ahead -= 1
        _block_give(s, b)
        return HANDED_NO_MEMORY
    memset(&b.place, 0, sizeof(Place))
    b.place.line = 1
    b.place.number = l.base
    if count > 0:
        memcpy(b.index, columns, count * sizeof(Column))
    b.skip = first
    b.rows = rows
    b.owner = owner
    b.link = link
    b.count = b.left = n
    b.used = nbytes
    _add(s, b)
    return HANDED


cdef int blocks_hand_break(Blocks* s, int64_t pass_, const Fault* fault) noexcept nogil:
    cdef int status = blocks_hand(s, pass_, NULL, 0, 0, NULL, 1, 0, -1, NULL)
    if status == HANDED:
        s.lanes.last.fault = fault[0]
    return status


cdef void blocks_hand_end(Blocks* s, int64_t pass_, const Fault* fault) noexcept nogil:
    if pass_ != s.lanes.pass_ or s.lanes.scanned:
        return
    s.lanes.scanned = True
    if fault != NULL:
        s.fault = fault[0]
    else:
        _end_pass(s, pass_)


# Use

cdef void _lane_pass(Blocks* s, Lane* l, RecordBlock* b, int64_t n) noexcept nogil:
    # Takes the next n records off the lane's first block: they are given or dropped.
    s.available -= n
    b.given += n
    if b.given < b.count:
        return
    l.first = b.next
    if l.first == NULL:
        l.last = NULL
    s.ahead -= 1
    l.ahead -= 1


cdef void _next_slot(Blocks* s) noexcept nogil:
    s.cursor = s.cursor + 1 if s.cursor + 1 < s.cycle else 0
    s.lane_given = 0


cdef RecordBlock* _interleaved_at(Blocks* s, int64_t pass_, int64_t* n, int* status) noexcept nogil:
    cdef Lane* l
    cdef RecordBlock* b
    while True:
        l = s.slots[s.cursor]
        if l == NULL:
            if s.next_file == s.table.files:
                if s.open == 0:
                    s.ended_passes = pass_ + 1
                    status[0] = BLOCKS_END
                    return NULL
                _next_slot(s)
                continue
            if s.coming == NULL and not _lane_come(s):
                status[0] = BLOCKS_WAIT
                return NULL
            l = s.coming
            s.coming = l.after
            l.after = NULL
            s.slots[s.cursor] = l
            s.next_file += 1
            s.open += 1
        while l.skip > 0 and l.first != NULL:
            b = l.first
            n[0] = b.count - b.given
            if n[0] > l.skip:
                n[0] = l.skip
            l.skip -= n[0]
            _lane_pass(s, l, b, n[0])
            blocks_done(s, b, n[0])
        b = l.first
        if b != NULL:
            n[0] = b.count - b.given
            if n[0] > s.lane_records - s.lane_given:
                n[0] = s.lane_records - s.lane_given
            status[0] = BLOCKS_OK
            return b
        if not l.ended:
            status[0] = BLOCKS_WAIT
            return NULL
        if l.fault.code != 0 and not _leaves_out(s, pass_, &l.fault):
            s.fault = l.fault
            status[0] = BLOCKS_FAULT
            return NULL
        s.slots[s.cursor] = NULL
        s.open -= 1
        _lane_close(s, l)
        _next_slot(s)


cdef RecordBlock* blocks_at(Blocks* s, int64_t pass_, int64_t ordinal, int64_t* n, int* status) noexcept nogil:
    cdef Lane* l = s.lanes
    cdef RecordBlock* b
    if s.cycle > 1:
        return _interleaved_at(s, pass_, n, status)
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


cdef void blocks_give(Blocks* s, RecordBlock* b, int64_t n) noexcept nogil:
    cdef Lane* l = b.lane
    if b.inside == 0:
        b.older = s.newest
        b.newer = NULL
        if s.newest == NULL:
            s.oldest = b
        else:
            s.newest.newer = b
        s.newest = b
        if b.saved != NULL:
            b.saved[0] = b.pass_
            b.saved[1] = s.position
            blocks_save(s, b.saved + 2)
            b.saved[2 + blocks_saved(s.cycle)] = s.skipped_count
    b.inside += n
    if b.noted:
        memset(b.here + b.given, True, n)
    _lane_pass(s, l, b, n)
    s.given_place = b.place
    s.given_until = b.place.base + b.given
    s.given_pass = b.pass_
    if s.cycle > 1:
        l.at_place = b.place
        l.at_given = b.given
        s.position += n
        s.lane_given += n
        if s.lane_given == s.lane_records:
            _next_slot(s)


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
    blocks_done(s, b.moved if b.moved != NULL else b, n)


cdef void blocks_done(Blocks* s, RecordBlock* b, int64_t n) noexcept nogil:
    cdef RecordBlock* to
    b.left -= n
    if b.left > 0:
        return
    if b.source != NULL:
        to = b
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
    if b.room > s.headroom + s.piece_bytes:  # it was made for one long record
        _memory_free(s, b)
    _block_give(s, b)


# Moving

cdef void _moved_free(Blocks* s, RecordBlock* to) noexcept nogil:
    if to == NULL:
        return
    s.memory.fetch_sub(to.room, kRelaxed)
    free(to.memory)
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
    cdef RecordBlock* to
    cdef int64_t i, k
    while s.few != NULL:
        b = s.few
        s.few = b.next
        to = NULL
        if b.inside > 0:
            to = <RecordBlock*>malloc(size_sum(sizeof(RecordBlock), size_product(b.inside + 1, sizeof(Moved))))
        if to == NULL:
            blocks_done(s, b, 1)
            continue
        memset(to, 0, sizeof(RecordBlock))
        to.records = <Moved*>(to + 1)
        to.source = b
        to.place = b.place
        to.skip = b.skip
        to.name = b.name
        to.pass_ = b.pass_
        to.count = b.inside
        i = k = 0
        while k < to.count:
            if b.here[i]:
                to.records[k].first = i
                k += 1
            i += 1
        return to
    return NULL


cdef void blocks_moved(Blocks* s, RecordBlock* to) noexcept nogil:
    cdef RecordBlock* b = to.source
    if to.memory == NULL or b.inside == 0:
        _moved_free(s, to)
    else:  # records that left the order meanwhile are read in their old place
        b.moved = to
        to.left = b.inside
        b.left -= b.inside
    blocks_done(s, b, 1)


cdef void blocks_restart(Blocks* s, int64_t pass_) noexcept nogil:
    cdef Lane* l = s.lanes
    cdef RecordBlock* b
    cdef int64_t n
    if s.cycle > 1:
        _restart_lanes(s, pass_)
        return
    while l.first != NULL and l.first.pass_ < pass_:
        b = l.first
        n = b.count - b.given
        _lane_pass(s, l, b, n)
        blocks_done(s, b, n)
    if l.pass_ >= pass_:
        return
    # The earlier pass is dropped, with any fault in the rest of it.
    s.fault.code = 0
    _scan_drop(s, l)
    l.next_index = l.sequence
    if s.ended_passes < pass_:
        s.ended_passes = pass_
    _begin_pass(s, pass_)


cdef void _restart_lanes(Blocks* s, int64_t pass_) noexcept nogil:
    cdef Lane* l
    cdef int64_t i
    if pass_ <= s.order_pass:
        return
    s.order_pass = pass_
    for i in range(s.cycle):
        if s.slots[i] != NULL:
            _lane_close(s, s.slots[i])
            s.slots[i] = NULL
    while s.coming != NULL and s.coming.pass_ < pass_:
        l = s.coming
        s.coming = l.after
        _lane_close(s, l)
    if s.coming_pass < pass_:
        s.coming_pass = pass_
        s.coming_file = 0
    s.fault.code = 0
    if s.ended_passes < pass_:
        s.ended_passes = pass_
    s.cursor = s.lane_given = s.open = s.next_file = s.position = 0
