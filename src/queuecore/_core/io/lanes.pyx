"""Blocks of files that have a lane each. See lanes.pxd for the contract."""
from libc.stddef cimport size_t
from libc.stdint cimport int32_t, int64_t
from libc.string cimport memset
from queuecore._core.atoms.memory cimport calloc, free
from queuecore._core.atoms.process cimport check_layout
from queuecore._core.io.blocks cimport (
    BLOCKS_END, BLOCKS_FAULT, BLOCKS_OK, BLOCKS_WAIT, BlockKind, Blocks, Lane, Place, RecordBlock, blocks_done,
    blocks_full, blocks_give, blocks_leave, blocks_leave_out, lane_begin, lane_can_read, lane_drop_first,
    lane_drop_read, lane_pass)
from queuecore._core.io.framing cimport framing_lone
from queuecore._core.atoms.platform cimport Fault, FileEntry, kAcquire, kRelaxed, layout_hash
from queuecore._core.io.sources cimport entry_of

check_layout(layout_hash())

# The lane of one file.
cdef struct FileLane:
    Lane lane
    FileLane* after          # in its list
    Fault fault              # follows the records; code 0: none
    int64_t skip             # records to leave out, which were given before everything began
    Place at_place           # the place of the block that the last given record lies in
    int64_t at_given         # records given of that block
    int64_t taken            # records given

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
    int64_t coming_pass      # of the next lane
    Place coming_place       # where it begins
    int64_t run_ahead        # ahead_kind: the plan's limit, or less as long as no worker waited for the first file

# Under a shuffle: a block, and the numbers of lanes_entered behind it.
cdef struct EnteredBlock:
    RecordBlock block


cdef bint _make(Blocks* s, int64_t count, int64_t pass_) noexcept nogil:
    # Makes so many idle lanes, and the slots.
    cdef Lanes* t = <Lanes*>s
    cdef FileLane* lanes = <FileLane*>calloc(count, sizeof(FileLane))
    cdef int64_t i
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
    t.coming_pass = t.order_pass = pass_
    return t.slots != NULL


cdef bint _begin(Blocks* s, int32_t workers, const Place* start, int64_t pass_, int64_t ordinal,
                 const int64_t* saved) noexcept nogil:
    cdef Lanes* t = <Lanes*>s
    cdef int64_t count = s.plan.cycle + s.most
    s.most += 2 * <int32_t>s.plan.cycle
    if s.plan.shuffled:
        s.block_bytes = sizeof(EnteredBlock) + <size_t>(3 + lanes_saved(s.plan.cycle)) * sizeof(int64_t)
    if not _make(s, count, pass_):
        return False
    _begin_file(&t.coming_place, 0)
    t.position = ordinal
    if saved != NULL:
        _restore(t, pass_, saved)
    return True


cdef void _begin_file(Place* place, int64_t file) noexcept nogil:
    memset(place, 0, sizeof(Place))
    place.file = file
    place.line = 1


cdef void _clear(Blocks* s) noexcept nogil:
    free((<Lanes*>s).slots)


cdef FileLane* _open(Lanes* t, int64_t pass_, const Place* start) noexcept nogil:
    # Gives a lane to one file, which is known. The caller has made sure that a lane is idle.
    cdef FileEntry* e = entry_of(t.blocks.table, start.file)
    cdef FileLane* l = t.idle
    t.idle = l.after
    l.after = NULL
    lane_begin(&t.blocks, &l.lane, pass_, start)
    l.fault.code = 0
    l.skip = l.at_given = l.taken = 0
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
    cdef FileLane* l
    if t.idle == NULL:
        return False
    if t.coming_place.file == s.table.files.load(kRelaxed):
        # After a pass without records, the next one would have none either.
        if s.records == 0 or (s.plan.passes >= 0 and t.coming_pass + 1 >= s.plan.passes):
            return False
        t.coming_pass += 1
        _begin_file(&t.coming_place, 0)
    # D2 acquire: pairs with D1 in sources.pyx
    if t.coming_place.file >= s.table.known_files.load(kAcquire):
        return False
    l = _open(t, t.coming_pass, &t.coming_place)
    _begin_file(&t.coming_place, t.coming_place.file + 1)
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
    t.next_file = saved[0]
    _begin_file(&t.coming_place, saved[0])
    t.cursor = saved[1]
    t.lane_given = saved[2]
    for i in range(t.blocks.plan.cycle):
        fields = saved + 3 + 5 * i
        if fields[0] < 0:
            continue
        _begin_file(&start, fields[0])
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
    return (<const Lanes*>s).coming_place.file


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


cdef FileLane* _lane_in_turn(Lanes* t, int64_t pass_, int* status) noexcept nogil:
    # Returns the lane that has the next record, in its first block; NULL, with *status: there is none.
    cdef Blocks* s = &t.blocks
    cdef FileLane* l
    cdef RecordBlock* b
    cdef int64_t n
    while True:
        l = t.slots[t.cursor]
        if l == NULL:
            if t.next_file == s.table.files.load(kRelaxed):
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
            n = b.count - b.given
            if n > l.skip:
                n = l.skip
            l.skip -= n
            lane_pass(s, &l.lane, b, n)
            blocks_done(s, b, n)
        if l.lane.first != NULL:
            return l
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


cdef RecordBlock* _at(Blocks* s, int64_t pass_, int64_t ordinal, int64_t* n, int* status) noexcept nogil:
    cdef Lanes* t = <Lanes*>s
    cdef FileLane* l = _lane_in_turn(t, pass_, status)
    cdef RecordBlock* b
    if l == NULL:
        return NULL
    b = l.lane.first
    n[0] = b.count - b.given
    if n[0] > s.plan.lane_records - t.lane_given:
        n[0] = s.plan.lane_records - t.lane_given
    status[0] = BLOCKS_OK
    return b


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
        _begin_file(&t.coming_place, 0)
    s.fault.code = 0
    if s.ended_passes < pass_:
        s.ended_passes = pass_
    t.cursor = t.lane_given = t.open = t.next_file = t.position = 0


cdef BlockKind LANES = BlockKind(
    reads=True, nbytes=sizeof(Lanes), begin=_begin, wanted=_wanted, lane_to_read=_lane_to_read, next_file=_next_file,
    publish_end=_publish_end, at=_at, enters=_enters, given=_given, enough=NULL, restart=_restart,
    given_file=_given_file, let_go=NULL, clear=_clear)


cdef const BlockKind* lanes_kind() noexcept nogil:
    return &LANES


# Files one after the other, of which later ones are decompressed meanwhile. There is one slot.

cdef bint _ahead_begin(Blocks* s, int32_t workers, const Place* start, int64_t pass_, int64_t ordinal,
                       const int64_t* saved) noexcept nogil:
    cdef Lanes* t = <Lanes*>s
    t.coming_place = start[0]
    t.next_file = start.file
    t.position = start.base
    t.run_ahead = min(s.plan.run_ahead, (s.most + 2 * workers) * _piece_room(s))
    return _make(s, s.plan.lanes, pass_)


cdef inline int64_t _piece_room(const Blocks* s) noexcept nogil:
    return s.headroom + s.plan.piece_bytes


cdef inline FileLane* _lane_behind(const Lanes* t, const FileLane* l) noexcept nogil:
    # Returns the lane of the file that follows; NULL as lane: the first one.
    if l == NULL and t.slots[0] != NULL:
        return t.slots[0]
    return t.coming if l == NULL or l == t.slots[0] else l.after


cdef FileLane* _lane_or_come(Lanes* t, FileLane* l) noexcept nogil:
    # Returns the lane that follows, which comes now if need be; NULL: there is none.
    l = _lane_behind(t, l)
    return l if l != NULL or not _come(t) else t.coming_last


cdef bint _runs_ahead(Lanes* t, bint waits) noexcept nogil:
    # Returns whether a piece of a later file may be read. The limit grows while the order waits for the first file's
    # records: no bytes ahead are needed where the consumer takes longer than decompression.
    cdef Blocks* s = &t.blocks
    cdef int64_t nbytes = s.ahead_bytes + s.growing + (s.reading + 1) * _piece_room(s)
    if blocks_full(s):
        return False
    if nbytes > t.run_ahead and waits:
        t.run_ahead = min(2 * t.run_ahead, s.plan.run_ahead)
    return nbytes <= t.run_ahead


cdef Lane* _ahead_lane_to_read(Blocks* s) noexcept nogil:
    cdef Lanes* t = <Lanes*>s
    cdef FileLane* l = _lane_or_come(t, NULL)
    cdef bint waits = True
    while l != NULL and l.lane.ended:
        waits = waits and l.lane.first == NULL
        l = _lane_or_come(t, l)
    if l == NULL:
        return NULL
    # This is the first file with an end to be read. Its lane without any block is read in any case.
    if lane_can_read(&l.lane) and (l.lane.ahead == 0 or (l.lane.ahead < s.most and not blocks_full(s))):
        return &l.lane
    if not _runs_ahead(t, waits and l.lane.first == NULL):
        return NULL
    l = _lane_or_come(t, l)
    while l != NULL and not lane_can_read(&l.lane):
        l = _lane_or_come(t, l)
    if l == NULL:
        return NULL
    return &l.lane


cdef RecordBlock* _ahead_at(Blocks* s, int64_t pass_, int64_t ordinal, int64_t* n, int* status) noexcept nogil:
    cdef Lanes* t = <Lanes*>s
    cdef FileLane* l
    cdef RecordBlock* b
    while True:
        l = _lane_in_turn(t, pass_, status)
        if l == NULL:
            return NULL
        b = l.lane.first
        b.place.base = t.position - b.given  # while its file was not the first one, it was unknown
        n[0] = b.count - b.given
        if t.position == ordinal:
            status[0] = BLOCKS_OK
            return b
        if n[0] > ordinal - t.position:  # begun in the middle of a block
            n[0] = ordinal - t.position
        blocks_give(s, b, n[0])
        blocks_leave(s, b, b.given - n[0], n[0])


cdef void _ahead_given(Blocks* s, RecordBlock* b, int64_t n) noexcept nogil:
    (<FileLane*>b.lane).taken += n
    (<Lanes*>s).position += n


cdef bint _ahead_enough(const Blocks* s, int64_t n) noexcept nogil:
    cdef const Lanes* t = <const Lanes*>s
    cdef const FileLane* l = _lane_behind(t, NULL)
    while l != NULL:
        n -= l.lane.base - l.taken
        if n <= 0:
            return True
        if not l.lane.ended:
            return l.lane.ahead >= s.most
        l = _lane_behind(t, l)
    return t.idle == NULL


cdef int64_t _ahead_given_file(const Blocks* s, int64_t lane) noexcept nogil:
    return s.given_place.file


cdef BlockKind AHEAD = BlockKind(
    reads=True, nbytes=sizeof(Lanes), begin=_ahead_begin, wanted=_wanted, lane_to_read=_ahead_lane_to_read,
    next_file=_next_file, publish_end=_publish_end, at=_ahead_at, enters=NULL, given=_ahead_given,
    enough=_ahead_enough, restart=_restart, given_file=_ahead_given_file, let_go=NULL, clear=_clear)


cdef const BlockKind* ahead_kind() noexcept nogil:
    return &AHEAD
