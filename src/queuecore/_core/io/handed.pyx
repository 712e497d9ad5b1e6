"""Blocks of rows that are handed in. See handed.pxd for the contract."""
from libc.stdint cimport int32_t, int64_t
from libc.string cimport memcpy, memset
from queuecore._core.atoms.growing cimport array_room
from queuecore._core.atoms.memory cimport free
from queuecore._core.atoms.process cimport check_layout
from queuecore._core.io.blocks cimport (
    BlockKind, Blocks, Lane, Place, RecordBlock, block_add, block_give, block_take, blocks_end_pass, files_at,
    files_begin, files_next, files_publish_end, files_restart, files_wanted, index_room)
from queuecore._core.atoms.platform cimport Fault, layout_hash

check_layout(layout_hash())

cdef struct Handed:
    Blocks blocks
    # rows from this one on come in another order without an error; pass -1: none
    int64_t lost_pass, lost_at
    int64_t* freed           # numbers of owners that are no longer used
    int64_t freed_count, freed_room


cdef bint _begin(Blocks* s, int32_t workers, const Place* start, int64_t pass_, int64_t ordinal,
                 const int64_t* saved) noexcept nogil:
    (<Handed*>s).lost_pass = -1
    s.block_bytes = sizeof(HandedBlock)
    if s.plan.memory_most > 0:
        s.most = 2
    return files_begin(s, workers, start, pass_, ordinal, saved)


cdef Lane* _lane_to_read(Blocks* s) noexcept nogil:
    return NULL


cdef int64_t _given_file(const Blocks* s, int64_t lane) noexcept nogil:
    return -1


cdef void _release(Blocks* s, HandedBlock* b) noexcept nogil:
    if b.link != NULL:
        s.plan.release(b.link)
        b.link = NULL


cdef void _let_go(Blocks* s, RecordBlock* block) noexcept nogil:
    cdef Handed* h = <Handed*>s
    cdef HandedBlock* b = <HandedBlock*>block
    cdef int64_t* grown
    _release(s, b)
    if b.owner >= 0:
        grown = <int64_t*>array_room(h.freed, h.freed_count, &h.freed_room, sizeof(int64_t))
        if grown != NULL:
            h.freed = grown
    if b.owner >= 0 and h.freed_count < h.freed_room:  # without memory, the owner stays until the end
        h.freed[h.freed_count] = b.owner
        h.freed_count += 1
    b.owner = -1


cdef void _clear(Blocks* s) noexcept nogil:
    cdef RecordBlock* b = s.made
    while b != NULL:
        _release(s, <HandedBlock*>b)
        b = b.made_before
    free((<Handed*>s).freed)


cdef int handed_add(Blocks* s, int64_t pass_, const Chunk* chunk) noexcept nogil:
    cdef Lane* l = s.lanes
    cdef RecordBlock* block
    cdef HandedBlock* b
    if pass_ != l.pass_ or l.scanned:
        return HANDED_STALE
    if s.ahead >= s.most:
        return HANDED_FULL
    block = block_take(s, l)
    if block == NULL:
        return HANDED_NO_MEMORY
    b = <HandedBlock*>block
    s.reading -= 1
    b.owner = -1
    if not index_room(s, block, chunk.count, sizeof(Column)):
        s.ahead -= 1
        l.ahead -= 1
        block_give(s, block)
        return HANDED_NO_MEMORY
    memset(&block.place, 0, sizeof(Place))
    block.place.line = 1
    block.place.number = l.base
    if chunk.count > 0:
        memcpy(block.index, chunk.columns, chunk.count * sizeof(Column))
    block.skip = chunk.first
    b.rows = chunk.rows
    b.owner = chunk.owner
    b.link = chunk.link
    block.count = block.left = chunk.n
    block.used = chunk.nbytes
    block_add(s, block)
    return HANDED


cdef int handed_break(Blocks* s, int64_t pass_, const Fault* fault) noexcept nogil:
    cdef Chunk chunk
    cdef int status
    memset(&chunk, 0, sizeof(Chunk))
    chunk.n = 1
    chunk.owner = -1
    status = handed_add(s, pass_, &chunk)
    if status == HANDED:
        s.lanes.last.fault = fault[0]
    return status


cdef void handed_end(Blocks* s, int64_t pass_, const Fault* fault) noexcept nogil:
    if pass_ != s.lanes.pass_ or s.lanes.scanned:
        return
    s.lanes.scanned = True
    if fault != NULL:
        s.fault = fault[0]
    else:
        blocks_end_pass(s, pass_)


cdef int64_t handed_wanted(const Blocks* s, int64_t after) noexcept nogil:
    return s.lanes.pass_ if s.lanes.pass_ > after and not s.lanes.scanned else -1


cdef int64_t handed_next(const Blocks* s) noexcept nogil:
    return s.lanes.base


cdef int64_t handed_freed(Blocks* s) noexcept nogil:
    cdef Handed* h = <Handed*>s
    if h.freed_count == 0:
        return -1
    h.freed_count -= 1
    return h.freed[h.freed_count]


cdef void handed_lose(Blocks* s) noexcept nogil:
    cdef Handed* h = <Handed*>s
    if h.lost_pass < 0:
        h.lost_pass = s.lanes.pass_
        h.lost_at = s.lanes.base


cdef bint handed_lost(const Blocks* s) noexcept nogil:
    cdef const Handed* h = <const Handed*>s
    if s == NULL or s.kind.reads or h.lost_pass < 0:
        return False
    return s.given_pass > h.lost_pass or (s.given_pass == h.lost_pass and s.given_until > h.lost_at)


cdef BlockKind HANDED_IN = BlockKind(
    reads=False, nbytes=sizeof(Handed), begin=_begin, wanted=files_wanted, lane_to_read=_lane_to_read,
    next_file=files_next, publish_end=files_publish_end, at=files_at, enters=NULL, given=NULL, enough=NULL,
    restart=files_restart, given_file=_given_file, let_go=_let_go, clear=_clear)


cdef const BlockKind* handed_kind() noexcept nogil:
    return &HANDED_IN
