"""Blocks of files that are read side by side. See lanes.pxd for the contract."""
from libc.stddef cimport size_t
from libc.stdint cimport int32_t, int64_t
from libc.string cimport memset
from queuecore._core.atoms.memory cimport calloc, free
from queuecore._core.atoms.process cimport check_layout
from queuecore._core.io.blocks cimport (
    BLOCKS_END, BLOCKS_FAULT, BLOCKS_OK, BLOCKS_WAIT, BlockKind, Blocks, Lane, Place, RecordBlock, blocks_done,
    blocks_full, blocks_leave_out, lane_begin, lane_can_read, lane_drop_first, lane_drop_read, lane_pass)
from queuecore._core.io.framing cimport framing_lone
from queuecore._core.atoms.platform cimport Fault, FileEntry, kAcquire, layout_hash

check_layout(layout_hash())

# The lane of one file.
cdef struct FileLane:
    Lane lane
    FileLane* after          # in its list
    Fault fault              # follows the records; code 0: none
    int64_t skip             # records to leave out, which were given before everything began
    Place at_place           # the place of the block that the last given record lies in
    int64_t at_given         # records given of that block

cdef struct Lanes:
    Blocks blocks
    FileLane** slots         # as many as the plan's cycle
    int64_t cursor, lane_given  # the slot that gives records now, and how many it has given in a row
    int64_t open             # slots with a lane
    int64_t next_file        # the next file to get a slot
    int64_t position         # of the next record in the pass
    int64_t order_pass       # the pass that the order is in
    FileLane* idle
    FileLane* coming         # lanes of the files that will be opened next, in order
    FileLane* coming_last
    int64_t coming_pass, coming_file  # the file that gets the next lane

# Under a shuffle: a block, and the numbers of lanes_entered behind it.
cdef struct EnteredBlock:
    RecordBlock block


cdef bint _begin(Blocks* s, int32_t workers, const Place* start, int64_t pass_, int64_t ordinal,
                 const int64_t* saved) noexcept nogil:
    cdef Lanes* t = <Lanes*>s
    cdef FileLane* lanes
    cdef int64_t count = s.plan.cycle + s.most, i
    s.most += 2 * <int32_t>s.plan.cycle
    if s.plan.shuffled:
        s.block_bytes = sizeof(EnteredBlock) + <size_t>(3 + lanes_saved(s.plan.cycle)) * sizeof(int64_t)
    lanes = <FileLane*>calloc(count, sizeof(FileLane))
    if lanes == NULL:
        return False
    # before anything else may fail: blocks_free closes what is open, and 0 is a descriptor
    for i in range(count - 1, -1, -1):
        lanes[i].lane.stream.fd = -1
        lanes[i].lane.ignored = -1
        lanes[i].lane.beside = s.lanes
        s.lanes = &lanes[i].lane
        lanes[i].after = t.idle
        t.idle = &lanes[i]
    t.slots = <FileLane**>calloc(s.plan.cycle, sizeof(FileLane*))
    if t.slots == NULL:
        return False
    t.coming_pass = t.order_pass = pass_
    t.position = ordinal
    if saved != NULL:
        _restore(t, pass_, saved)
    return True


cdef void _clear(Blocks* s) noexcept nogil:
    free((<Lanes*>s).slots)


cdef FileLane* _open(Lanes* t, int64_t pass_, const Place* start) noexcept nogil:
    # Gives a lane to one file, which is known. The caller has made sure that a lane is idle.
    cdef FileEntry* e = &t.blocks.table.entries[start.file]
    cdef FileLane* l = t.idle
    t.idle = l.after
    l.after = NULL
    lane_begin(&t.blocks, &l.lane, pass_, start)
    l.fault.code = 0
    l.skip = l.at_given = 0
    l.at_place = start[0]
    # A file of no bytes has no records, unless it is one itself.
    l.lane.scanned = l.lane.ended = e.count == 0 and e.code == 0 and not framing_lone(t.blocks.plan.framing)
    return l


cdef void _close(Lanes* t, FileLane* l) noexcept nogil:
    # Drops the lane's records and makes it idle.
    while l.lane.first != NULL:
        lane_drop_first(&t.blocks, &l.lane)
    lane_drop_read(&t.blocks, &l.lane)
    l.lane.scanned = True
    l.after = t.idle
    t.idle = l


cdef bint _come(Lanes* t) noexcept nogil:
    # Gives a lane to the next file that will be opened. False: that file isn't known yet, or there is no file or no
    # lane.
    cdef Blocks* s = &t.blocks
    cdef Place start
    cdef FileLane* l
    if t.idle == NULL:
        return False
    if t.coming_file == s.table.files:
        # After a pass without records, the next one would have none either.
        if s.records == 0 or (s.plan.passes >= 0 and t.coming_pass + 1 >= s.plan.passes):
            return False
        t.coming_pass += 1
        t.coming_file = 0
    if t.coming_file >= s.table.known_files.load(kAcquire):  # D2 acquire: pairs with D1 in sources.pyx
        return False
    memset(&start, 0, sizeof(Place))
    start.file = t.coming_file
    start.line = 1
    l = _open(t, t.coming_pass, &start)
    t.coming_file += 1
    if t.coming == NULL:
        t.coming = l
    else:
        t.coming_last.after = l
    t.coming_last = l
    return True


cdef void _restore(Lanes* t, int64_t pass_, const int64_t* saved) noexcept nogil:
    cdef const int64_t* fields
    cdef Place start
    cdef int64_t i
    t.next_file = t.coming_file = saved[0]
    t.cursor = saved[1]
    t.lane_given = saved[2]
    for i in range(t.blocks.plan.cycle):
        fields = saved + 3 + 5 * i
        if fields[0] < 0:
            continue
        memset(&start, 0, sizeof(Place))
        start.file = fields[0]
        start.offset = fields[1]
        start.number = fields[2]
        start.line = fields[3]
        t.slots[i] = _open(t, pass_, &start)
        t.slots[i].skip = t.slots[i].at_given = fields[4]
        t.open += 1


cdef void lanes_save(const Blocks* s, int64_t* saved) noexcept nogil:
    cdef const Lanes* t = <const Lanes*>s
    cdef int64_t* fields
    cdef const FileLane* l
    cdef int64_t i
    saved[0] = t.next_file
    saved[1] = t.cursor
    saved[2] = t.lane_given
    for i in range(s.plan.cycle):
        fields = saved + 3 + 5 * i
        l = t.slots[i]
        fields[0] = -1
        fields[1] = fields[2] = fields[4] = 0
        fields[3] = 1
        if l != NULL:
            fields[0] = l.at_place.file
            fields[1] = l.at_place.offset
            fields[2] = l.at_place.number
            fields[3] = l.at_place.line
            fields[4] = l.at_given


cdef int64_t lanes_next_file(const Blocks* s) noexcept nogil:
    return (<const Lanes*>s).next_file


cdef const int64_t* lanes_entered(const RecordBlock* b) noexcept nogil:
    return <const int64_t*>(<const EnteredBlock*>b + 1)


cdef int64_t _wanted(const Blocks* s) noexcept nogil:
    return (<const Lanes*>s).coming_file


cdef int64_t _given_file(const Blocks* s, int64_t lane) noexcept nogil:
    cdef const FileLane* l = (<const Lanes*>s).slots[lane]
    return -1 if l == NULL or l.at_given == 0 else l.at_place.file


cdef FileLane* _fewest_ahead(Lanes* t) noexcept nogil:
    # Returns the lane with the fewest blocks ahead, beginning at the slot that gives records now; lanes of coming files
    # count as if they had two more. An open lane without any block is read in any case: the order may wait for it.
    cdef FileLane* best = NULL
    cdef FileLane* l
    cdef int64_t _slot, k = t.cursor
    for _slot in range(t.blocks.plan.cycle):
        l = t.slots[k]
        if l != NULL and lane_can_read(&l.lane) and (best == NULL or l.lane.ahead < best.lane.ahead):
            best = l
            if l.lane.ahead == 0:
                return l
        k = k + 1 if k + 1 < t.blocks.plan.cycle else 0
    if t.blocks.ahead >= t.blocks.most + t.blocks.asked:
        return NULL
    if best != NULL and best.lane.ahead < 2:
        return best
    l = t.coming
    while l != NULL and (l.lane.ahead > 0 or not lane_can_read(&l.lane)):
        if lane_can_read(&l.lane) and (best == NULL or l.lane.ahead + 2 < best.lane.ahead):
            best = l
        l = l.after
    if l != NULL:
        return l
    while _come(t):
        if lane_can_read(&t.coming_last.lane):
            return t.coming_last
    return best


cdef Lane* _lane_to_read(Blocks* s) noexcept nogil:
    cdef FileLane* l = _fewest_ahead(<Lanes*>s)
    # An open lane without any block is read in any case.
    if l == NULL or (l.lane.ahead > 0 and blocks_full(s)):
        return NULL
    return &l.lane


cdef void _next_file(Blocks* s, Lane* l) noexcept nogil:
    l.scanned = True


cdef void _publish_end(Blocks* s, RecordBlock* b) noexcept nogil:
    cdef FileLane* l = <FileLane*>b.lane
    if b.fault.code == 0 and not b.last:
        return
    l.fault = b.fault
    l.lane.ignored = b.place.file
    l.lane.scanned = l.lane.ended = True


cdef void _next_slot(Lanes* t) noexcept nogil:
    t.cursor = t.cursor + 1 if t.cursor + 1 < t.blocks.plan.cycle else 0
    t.lane_given = 0


cdef RecordBlock* _at(Blocks* s, int64_t pass_, int64_t ordinal, int64_t* n, int* status) noexcept nogil:
    cdef Lanes* t = <Lanes*>s
    cdef FileLane* l
    cdef RecordBlock* b
    while True:
        l = t.slots[t.cursor]
        if l == NULL:
            if t.next_file == s.table.files:
                if t.open == 0:
                    s.ended_passes = pass_ + 1
                    status[0] = BLOCKS_END
                    return NULL
                _next_slot(t)
                continue
            if t.coming == NULL and not _come(t):
                status[0] = BLOCKS_WAIT
                return NULL
            l = t.coming
            t.coming = l.after
            l.after = NULL
            t.slots[t.cursor] = l
            t.next_file += 1
            t.open += 1
        while l.skip > 0 and l.lane.first != NULL:
            b = l.lane.first
            n[0] = b.count - b.given
            if n[0] > l.skip:
                n[0] = l.skip
            l.skip -= n[0]
            lane_pass(s, &l.lane, b, n[0])
            blocks_done(s, b, n[0])
        b = l.lane.first
        if b != NULL:
            n[0] = b.count - b.given
            if n[0] > s.plan.lane_records - t.lane_given:
                n[0] = s.plan.lane_records - t.lane_given
            status[0] = BLOCKS_OK
            return b
        if not l.lane.ended:
            status[0] = BLOCKS_WAIT
            return NULL
        if l.fault.code != 0 and not blocks_leave_out(s, pass_, &l.fault):
            s.fault = l.fault
            status[0] = BLOCKS_FAULT
            return NULL
        t.slots[t.cursor] = NULL
        t.open -= 1
        _close(t, l)
        _next_slot(t)


cdef void _enters(Blocks* s, RecordBlock* b) noexcept nogil:
    cdef int64_t* saved
    if s.plan.shuffled:
        saved = <int64_t*>(<EnteredBlock*>b + 1)
        saved[0] = b.pass_
        saved[1] = (<Lanes*>s).position
        lanes_save(s, saved + 2)
        saved[2 + lanes_saved(s.plan.cycle)] = s.skipped_count


cdef void _given(Blocks* s, RecordBlock* b, int64_t n) noexcept nogil:
    cdef Lanes* t = <Lanes*>s
    cdef FileLane* l = <FileLane*>b.lane
    l.at_place = b.place
    l.at_given = b.given
    t.position += n
    t.lane_given += n
    if t.lane_given == s.plan.lane_records:
        _next_slot(t)


cdef void _restart(Blocks* s, int64_t pass_) noexcept nogil:
    cdef Lanes* t = <Lanes*>s
    cdef FileLane* l
    cdef int64_t i
    if pass_ <= t.order_pass:
        return
    t.order_pass = pass_
    for i in range(s.plan.cycle):
        if t.slots[i] != NULL:
            _close(t, t.slots[i])
            t.slots[i] = NULL
    while t.coming != NULL and t.coming.lane.pass_ < pass_:
        l = t.coming
        t.coming = l.after
        _close(t, l)
    if t.coming_pass < pass_:
        t.coming_pass = pass_
        t.coming_file = 0
    s.fault.code = 0
    if s.ended_passes < pass_:
        s.ended_passes = pass_
    t.cursor = t.lane_given = t.open = t.next_file = t.position = 0


cdef BlockKind LANES = BlockKind(
    reads=True, nbytes=sizeof(Lanes), begin=_begin, wanted=_wanted, lane_to_read=_lane_to_read, next_file=_next_file,
    publish_end=_publish_end, at=_at, enters=_enters, given=_given, restart=_restart, given_file=_given_file,
    let_go=NULL, clear=_clear)


cdef const BlockKind* lanes_kind() noexcept nogil:
    return &LANES
