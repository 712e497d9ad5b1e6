"""The source of the order program. See source.pxd for the contract."""
from libc.stdint cimport int64_t
from libc.string cimport memcpy
from queuecore._core.atoms.memory cimport free, malloc
from queuecore._core.atoms.errors cimport WHAT_NO_ERROR
from queuecore._core.atoms.process cimport check_layout
from queuecore._core.io.blocks cimport (
    BLOCKS_END, BLOCKS_FAULT, RecordBlock, blocks_at, blocks_give, blocks_leave, blocks_restart)
from queuecore._core.order.lengths cimport Length, Lengths, lengths_add, lengths_at
from queuecore._core.order.op cimport (
    LEVEL_HANDED, LEVEL_SEAM, PULL_BREAK, PULL_END, PULL_FAULT, PULL_NO_MEMORY, PULL_OK, PULL_WAIT, Break, BreakList,
    Op, OpKind, Order, OrderPlan, op_new)
from queuecore._core.order.runs cimport Missing, RunList, is_behind, list_append
from queuecore._core.atoms.platform cimport FileEntry, kAcquire, kRelaxed, layout_hash, size_product
from queuecore._core.io.sources cimport FileTable, entry_of, file_skippable, table_fault

check_layout(layout_hash())

# The source's place is order.at, because operators above read it too.
cdef struct SourceOp:
    Op op
    FileTable* table
    bint skip_files      # a file with a fault just ends there
    bint joined          # the start is reached; until then the source plays on numbers alone
    Lengths lengths      # of the passes before the start: their good records, errors that were handed in included
    int64_t pass_good    # records that each pass gives; -1: not known yet, or not the same number in each
    int64_t missing_at   # index into op.missing: the source is past the records before it
    BreakList played     # breaks before the start
    int64_t played_at    # the next one
    BreakList known      # breaks at the start or behind it
    int64_t known_at     # the next one
    int64_t scanned      # files looked at for a fault
    int64_t bad_file     # -1: none so far


cdef bint _note_end(Order* order) noexcept nogil:
    # Notes the length of the pass whose end the source has met. Lengths of earlier passes that it left before their end
    # are unknown, except over files, whose passes are all alike.
    cdef Lengths* l = &order.ends
    cdef int64_t pass_ = order.at.pass_
    if not order.blocks.kind.reads and pass_ > order.next_end and not lengths_add(l, order.next_end, -1):
        return False
    if pass_ >= order.next_end:
        order.next_end = pass_ + 1
    return lengths_add(l, pass_, order.at.position)


cdef const Break* _next_of(Order* order, const BreakList* breaks, int64_t* position) noexcept nogil:
    # Returns the first break that doesn't lie before the source's place; NULL: there is none.
    cdef const Break* b
    while position[0] < breaks.count:
        b = &breaks.breaks[position[0]]
        if is_behind(b.pass_, b.ordinal, order.at.pass_, order.at.position):
            return b
        position[0] += 1
    return NULL


cdef const Break* _break_here(Order* order, SourceOp* s) noexcept nogil:
    # Returns the break that comes next, ahead of any record; NULL: none does.
    cdef const Break* b
    if s.joined:
        b = _next_of(order, &s.known, &s.known_at)
    else:
        b = _next_of(order, &s.played, &s.played_at)
    if b == NULL or b.pass_ != order.at.pass_ or b.ordinal != order.at.position:
        return NULL
    return b


cdef int64_t _errors_played(const SourceOp* s, int64_t pass_) noexcept nogil:
    # Returns how many records of a pass before the start were handed in as errors.
    cdef int64_t i, n = 0
    for i in range(s.played.count):
        n += s.played.breaks[i].pass_ == pass_ and s.played.breaks[i].level == LEVEL_HANDED
    return n


cdef inline bint _is_broken(const Order* order, const RecordBlock* block) noexcept nogil:
    return block != NULL and block.fault.code != 0 and not order.blocks.kind.reads


cdef void _go(Order* order, SourceOp* s) noexcept nogil:
    # Changes from playing to reading where the start is reached, and steps over missing records.
    cdef const Missing* m
    cdef RecordBlock* block
    cdef int64_t n
    cdef int status
    if not s.joined and _break_here(order, s) == NULL:
        if not is_behind(order.at.pass_, order.at.position, order.start.pass_, order.start.good):
            return
        s.joined = True
        if order.at.pass_ == order.start.pass_:
            order.at.position = order.start.ordinal
        elif order.blocks != NULL:
            blocks_restart(order.blocks, order.at.pass_)
    while s.missing_at < s.op.missing.count:
        m = &s.op.missing.records[s.missing_at]
        if is_behind(m.pass_, m.ordinal, order.at.pass_, order.at.position + 1):
            return
        if m.pass_ == order.at.pass_ and m.ordinal == order.at.position:
            if order.blocks != NULL:
                block = blocks_at(order.blocks, order.at.pass_, order.at.position, &n, &status)
                if block == NULL:  # not published yet
                    return
                blocks_give(order.blocks, block, 1)
                blocks_leave(order.blocks, block, block.given - 1, 1)
            order.at.position += 1
        s.missing_at += 1


cdef int64_t _played_end(Order* order, SourceOp* s, int* status) noexcept nogil:
    # Returns the ordinal up to which a pass is played; *status: the PULL_* that comes there.
    cdef int64_t end = order.start.good
    cdef const Break* b
    status[0] = PULL_WAIT
    if order.at.pass_ < order.start.pass_:
        end = lengths_at(&s.lengths, order.at.pass_)
        if end < 0:  # a take() cut the pass off before its end
            end = <int64_t>1 << 60
        else:
            status[0] = PULL_END
            end -= _errors_played(s, order.at.pass_)
    b = _next_of(order, &s.played, &s.played_at)
    if b != NULL and not is_behind(b.pass_, b.ordinal, order.at.pass_, end + 1):
        end = b.ordinal
        status[0] = PULL_WAIT
    return end


cdef int64_t _blocks_end(Order* order, RecordBlock** block, int* status) noexcept nogil:
    cdef int64_t n
    block[0] = blocks_at(order.blocks, order.at.pass_, order.at.position, &n, status)
    if block[0] != NULL:
        status[0] = PULL_WAIT
        return order.at.position if _is_broken(order, block[0]) else order.at.position + n
    if status[0] == BLOCKS_END:
        status[0] = PULL_END
    else:
        status[0] = PULL_FAULT if status[0] == BLOCKS_FAULT else PULL_WAIT
    return order.at.position


cdef int64_t _files_end(SourceOp* s, int* status) noexcept nogil:
    cdef FileTable* t = s.table
    cdef int64_t file_count = t.known_files.load(kAcquire)  # D2 acquire: pairs with D1 in sources.pyx
    cdef FileEntry* e
    while s.scanned < file_count and s.bad_file < 0:
        e = entry_of(t, s.scanned)
        if e.code != 0 and not (s.skip_files and file_skippable(e.code, e.what, e.err)):
            s.bad_file = s.scanned
        s.scanned += 1
    if s.bad_file >= 0:
        e = entry_of(t, s.bad_file)
        status[0] = PULL_FAULT
    elif file_count == 0:
        status[0] = PULL_END if t.files.load(kRelaxed) == 0 else PULL_WAIT
        return 0
    else:
        e = entry_of(t, file_count - 1)
        status[0] = PULL_END if file_count == t.files.load(kRelaxed) else PULL_WAIT
    return e.base + e.count


cdef inline int64_t _uncut_end(Order* order, SourceOp* s, RecordBlock** block, int* status) noexcept nogil:
    block[0] = NULL
    if not s.joined:
        return _played_end(order, s, status)
    if order.blocks != NULL:
        return _blocks_end(order, block, status)
    return _files_end(s, status)


cdef inline bint _cuts(const Order* order, int64_t end, int status) noexcept nogil:
    # Returns whether the cut ends the source before its own end. Where the cut stands for an error that is to come
    # again, that error comes instead.
    if order.cut_pass < 0 or not is_behind(order.at.pass_, end, order.cut_pass, order.cut_ordinal):
        return False
    return (order.cut_fault.what != WHAT_NO_ERROR or order.at.pass_ != order.cut_pass or end != order.cut_ordinal
            or status == PULL_END)


cdef int64_t _end(Order* order, SourceOp* s, RecordBlock** block, int* status) noexcept nogil:
    # Returns the ordinal before which records are known, and the block that has them; *status: the PULL_* that comes
    # there.
    cdef int64_t end = _uncut_end(order, s, block, status)
    cdef const Missing* m
    cdef const Break* b
    if not s.joined:
        return end
    if _cuts(order, end, status[0]):
        end = order.cut_ordinal if order.at.pass_ == order.cut_pass else 0
        status[0] = PULL_FAULT
    if s.missing_at < s.op.missing.count:
        m = &s.op.missing.records[s.missing_at]
        if m.pass_ == order.at.pass_ and m.ordinal < end:
            end = m.ordinal
            status[0] = PULL_WAIT
    b = _next_of(order, &s.known, &s.known_at)
    if b != NULL and b.pass_ == order.at.pass_ and (b.ordinal < end or (b.ordinal == end and b.level == LEVEL_SEAM)):
        end = b.ordinal
        status[0] = PULL_WAIT
    return end


cdef inline void _take(Order* order, RecordBlock* block, int64_t n) noexcept nogil:
    # Takes the next n records, which are known.
    if block != NULL:
        blocks_give(order.blocks, block, n)
    order.at.position += n
    order.at.given += n
    order.interrupted = PULL_OK


cdef int _break(Order* order, SourceOp* s, RecordBlock* block) noexcept nogil:
    # Gives a break: one that is played, a seam, or one in place of the first record of this block.
    cdef const Break* b = _break_here(order, s)
    order.has_breaks = True
    order.broken.pass_ = order.at.pass_
    order.broken.level = LEVEL_SEAM
    order.broken.seam = b != NULL and b.level == LEVEL_SEAM
    if not s.joined:
        s.played_at += 1
        return PULL_BREAK
    if b != NULL and b.level == LEVEL_SEAM:
        s.known_at += 1
        return PULL_BREAK
    order.interrupted = PULL_BREAK
    order.broken.level = LEVEL_HANDED
    order.broken.known = b != NULL
    order.broken.ordinal = order.at.position
    order.broken.good = order.at.given
    order.broken.fault = block.fault
    order.broken.place = block.place
    order.broken.place.base += 1  # a run that goes on behind the break begins there
    blocks_give(order.blocks, block, 1)
    blocks_leave(order.blocks, block, block.given - 1, 1)
    order.at.position += 1
    return PULL_BREAK


cdef bint _breaks(Order* order, SourceOp* s, RecordBlock* block) noexcept nogil:
    # Returns whether the next record comes out as a break, or a break comes ahead of it. A record that was handed in as
    # an error when the place was saved is one now, too: the records behind it were given without it.
    cdef const Break* b = _break_here(order, s)
    return _is_broken(order, block) or (b != NULL and (not s.joined or b.level == LEVEL_SEAM or block != NULL))


cdef int _pull(Order* order, Op* op, int64_t max_rows, RunList* out) noexcept nogil:
    cdef SourceOp* s = <SourceOp*>op
    cdef int status = PULL_OK
    cdef RecordBlock* block
    cdef int64_t n, first, rows = 0
    while rows < max_rows:
        _go(order, s)
        n = _end(order, s, &block, &status) - order.at.position
        if n <= 0:
            if rows == 0 and _breaks(order, s, block):
                return _break(order, s, block)
            break
        if n > max_rows - rows:
            n = max_rows - rows
        first = 0 if block == NULL else block.given
        list_append(out, order.at.position, order.at.pass_, n, block, first, order.at.given)
        _take(order, block, n)
        rows += n
    if rows > 0:
        return PULL_OK
    if status == PULL_END and order.blocks == NULL:
        s.pass_good = order.at.given
    elif status == PULL_END and s.joined and not _note_end(order):
        return PULL_NO_MEMORY
    if status == PULL_FAULT:
        n = _uncut_end(order, s, &block, &status)
        if _cuts(order, n, status):
            order.fault = order.cut_fault
        elif order.blocks != NULL:
            order.fault = order.blocks.fault
        else:
            source_file_fault(order)
        order.faulted = True
        order.interrupted = PULL_FAULT
        return PULL_FAULT
    return status


cdef bint _restart(Order* order, Op* op) noexcept nogil:
    order.at.position = order.at.given = 0
    order.at.pass_ += 1
    if order.blocks != NULL and order.at.pass_ >= order.start.pass_:
        blocks_restart(order.blocks, order.at.pass_)
    return False


cdef int64_t _advance(Order* order, Op* op, int64_t n, int64_t unit) noexcept nogil:
    cdef SourceOp* s = <SourceOp*>op
    cdef int status = PULL_OK
    cdef RecordBlock* block
    cdef int64_t a
    _go(order, s)
    a = _end(order, s, &block, &status) - order.at.position
    a = 0 if a < 0 else (a if a < n else n)
    a -= a % unit
    if a > 0:
        _take(order, block, a)
        if block != NULL:
            blocks_leave(order.blocks, block, block.given - a, a)
    return a


cdef int64_t _count(Order* order, Op* op) noexcept nogil:
    cdef SourceOp* s = <SourceOp*>op
    cdef int status = PULL_OK
    cdef RecordBlock* block
    cdef int64_t n
    if order.cut_pass >= 0 or order.has_breaks or (op.missing.count > 0 and s.pass_good < 0):
        return -1
    if s.pass_good >= 0:
        return s.pass_good
    if order.blocks != NULL:
        return -1
    n = _end(order, s, &block, &status)
    return n if status == PULL_END else -1


cdef int64_t _places(Order* order, Op* op, int64_t n, int* status) noexcept nogil:
    # Ignores the cut, which changes the elements that are given but not their numbers. The permutation itself leaves
    # out the missing records.
    cdef RecordBlock* block
    n = _uncut_end(order, <SourceOp*>op, &block, status)
    return -1 if status[0] == PULL_WAIT else n


cdef void _free(Op* op) noexcept nogil:
    free((<SourceOp*>op).lengths.runs)


cdef OpKind SOURCE = OpKind(
    pull=_pull, restart=_restart, advance=_advance, count=_count, places=_places, restarts=NULL, purge=NULL,
    free=_free)


cdef bint source_make(Order* order, const OrderPlan* plan) noexcept nogil:
    cdef SourceOp* s = <SourceOp*>op_new(order, sizeof(SourceOp), &SOURCE)
    cdef const Lengths* lengths = plan.lengths
    if s == NULL:
        return False
    s.op.one_run = True
    s.op.leaves_out = True
    s.table = plan.table
    s.skip_files = plan.skip_files
    s.played = plan.played
    s.known = plan.known
    s.joined = plan.start.pass_ == 0 and plan.start.good == 0 and plan.start.ordinal == 0
    s.bad_file = -1
    s.pass_good = lengths.runs[0].records if lengths.count == 1 and lengths.runs[0].pass_ == 0 else -1
    s.lengths.runs = <Length*>malloc(size_product(lengths.count + 1, sizeof(Length)))
    if s.lengths.runs == NULL:
        return False
    s.lengths.count = s.lengths.room = lengths.count
    if lengths.count > 0:
        memcpy(s.lengths.runs, lengths.runs, lengths.count * sizeof(Length))
    return True


cdef void source_file_fault(Order* order) noexcept nogil:
    cdef SourceOp* s = <SourceOp*>order.ops[0]
    table_fault(s.table, s.bad_file, &order.fault)
