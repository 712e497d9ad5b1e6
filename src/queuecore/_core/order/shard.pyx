"""Shards. See shard.pxd for the contract."""
from libc.stdint cimport int32_t, int64_t
from libc.string cimport memset
from queuecore._core.atoms.memory cimport free, realloc
from queuecore._core.atoms.process cimport check_layout
from queuecore._core.atoms.errors cimport WHAT_UNEVEN
from queuecore._core.order.op cimport (
    PULL_END, PULL_FAULT, PULL_NO_MEMORY, PULL_OK, Op, OpKind, OpSpec, Order, element_drop, element_trim, list_drop,
    op_advance, op_count, op_new, op_pull, op_refuse, run_drop)
from queuecore._core.order.runs cimport (
    SCRATCH_RUNS, Element, KeptRecord, Run, RunList, element_append, element_append_all, element_clear, element_give,
    is_behind, is_missing, list_append_of, list_clear, list_init)
from queuecore._core.atoms.platform cimport layout_hash, size_product

check_layout(layout_hash())

cdef struct ShardOp:
    Op op
    int64_t shards       # elements of a group
    int64_t index
    int32_t uneven       # UNEVEN_*
    int32_t ended        # the status that ended the input
    int64_t done         # elements of the input so far
    int64_t open_rows    # of the input's open element
    bint whole           # an element is given when its group is whole, not before
    bint giving          # `held` is complete
    Element held
    RunList scratch
    Element* first       # UNEVEN_PAD: the first `shards` elements of the pass; else NULL
    int64_t firsts       # the number of these, so far
    int64_t first_room


cdef inline void _again(Run* run) noexcept nogil:
    # A record that is given once more gets a pass number of its own, so a cut at it is no cut at its first place.
    run.pass_ += <int64_t>1 << 40


cdef bint _first_room(ShardOp* s, int64_t element) noexcept nogil:
    # Makes room for a first element. The array grows, as the input may have far fewer elements than there are shards.
    cdef int64_t room = 2 * element + 16
    cdef Element* grown
    if element < s.first_room:
        return True
    grown = <Element*>realloc(s.first, size_product(room, sizeof(Element)))
    if grown == NULL:
        return False
    memset(grown + s.first_room, 0, (room - s.first_room) * sizeof(Element))
    s.first = grown
    s.first_room = room
    return True


cdef bint _first_append(ShardOp* s, const Run* run) noexcept nogil:
    # Notes rows of the next element, which is one of the first: it may pad the pass's last group.
    if not _first_room(s, s.done):
        return False
    s.firsts = s.done + 1
    return element_append(&s.first[s.done], run)


cdef inline bint _early(const ShardOp* s) noexcept nogil:
    # Returns whether the next element must be noted.
    return s.first != NULL and s.done < s.shards


cdef int64_t _own(const ShardOp* s) noexcept nogil:
    # Returns how many of the input's elements so far are this shard's.
    return (s.done + s.shards - 1 - s.index) // s.shards


cdef void _give_held(ShardOp* s, RunList* out) noexcept nogil:
    # Gives the record whose group is whole now.
    list_append_of(out, &s.held.runs[0], 1)
    element_clear(&s.held)


cdef bint _lacks(Order* order, const Op* op, const Run* run) noexcept nogil:
    # Returns whether a record of this shard must be left out.
    cdef const KeptRecord* record
    if not op.gives_ids:
        return is_missing(&op.missing, run.pass_, run.ordinal)
    record = &order.stored.records[run.ordinal]
    return is_missing(&op.missing, record.pass_, record.ordinal)


cdef int64_t _ahead(const ShardOp* s) noexcept nogil:
    # Returns the number of other shards' elements before this shard's next one; where groups must be whole, no more
    # than this group still has.
    cdef int64_t phase = s.done % s.shards
    cdef int64_t n = (s.index - phase + s.shards) % s.shards
    return s.shards - phase if s.whole and n > s.shards - phase else n


cdef inline int64_t _cut(const ShardOp* s, int64_t phase, int64_t rows) noexcept nogil:
    # Returns how many of the next `rows` records go the same way: to other shards, this one, or the first elements.
    cdef int64_t n = 1 if phase == s.index else (s.index - phase + s.shards) % s.shards
    if s.shards == 1 or n > rows:
        n = rows
    if _early(s):
        return 1
    return s.shards - phase if s.whole and n > s.shards - phase else n


cdef int _pull_records(Order* order, ShardOp* s, int64_t max_rows, RunList* out) noexcept nogil:
    # Pulls the input's records up to the last one asked for, or fewer, and gives those that are this shard's.
    cdef Op* up = s.op.up
    cdef int64_t phase, limit, position, n
    cdef int32_t r
    cdef int status
    cdef Run* run
    cdef Run part
    if max_rows > <int64_t>1 << 24:
        max_rows = <int64_t>1 << 24
    if up.jumps and s.done % s.shards != s.index and not _early(s):
        s.done += op_advance(order, up, _ahead(s), 1)
        if s.held.rows > 0 and s.done % s.shards == 0:
            _give_held(s, out)
            return PULL_OK
    phase = s.done % s.shards
    if up.jumps:
        max_rows = 1
    if s.whole:
        limit = max_rows * s.shards - phase
    else:
        limit = (s.index - phase + s.shards) % s.shards + (max_rows - 1) * s.shards + 1
    if not up.one_run and limit > SCRATCH_RUNS:
        limit = SCRATCH_RUNS
    list_clear(&s.scratch)
    status = op_pull(order, up, limit, &s.scratch)
    for r in range(s.scratch.count):
        run = &s.scratch.runs[r]
        position = 0
        while position < run.n:
            phase = s.done % s.shards
            n = _cut(s, phase, run.n - position)
            part = run[0]
            part.ordinal += position
            part.good += position
            part.first += position
            part.n = n
            if _early(s) and not _first_append(s, &part):
                return PULL_NO_MEMORY
            if phase != s.index or (s.op.missing.count > 0 and _lacks(order, &s.op, &part)):
                run_drop(order, up, &part)
            elif not s.whole:
                list_append_of(out, &part, n)
            elif not element_append(&s.held, &part):
                return PULL_NO_MEMORY
            s.done += n
            position += n
            if s.held.rows > 0 and s.done % s.shards == 0:
                _give_held(s, out)
    return status


cdef int _pull_elements(Order* order, ShardOp* s, int64_t max_rows, RunList* out) noexcept nogil:
    # Does the same with elements of several rows: a pull gives a part of one element, or all of it.
    cdef Op* up = s.op.up
    cdef int64_t n, old_rows = out.rows
    cdef int32_t r
    cdef int status
    cdef bint is_own = s.done % s.shards == s.index, is_early = _early(s)
    if is_own and not s.whole and not is_early:
        out.closed = False
        status = op_pull(order, up, max_rows, out)
        s.open_rows += out.rows - old_rows
        if out.closed:
            s.done += 1
            s.open_rows = 0
        return status
    if s.open_rows == 0 and not is_own and not is_early:
        n = op_advance(order, up, _ahead(s), 1)
        s.done += n
        if n > 0:
            s.giving = s.held.rows > 0 and s.done % s.shards == 0
            return PULL_OK  # the caller comes again
    list_clear(&s.scratch)
    status = op_pull(order, up, SCRATCH_RUNS, &s.scratch)
    s.open_rows += s.scratch.rows
    if is_early:
        for r in range(s.scratch.count):
            if not _first_append(s, &s.scratch.runs[r]):
                return PULL_NO_MEMORY
    if is_own and not element_append_all(&s.held, &s.scratch):
        return PULL_NO_MEMORY
    if not is_own:
        list_drop(order, up, &s.scratch, 0)
    if s.scratch.closed:
        if is_own:
            s.held.subs = s.scratch.subs
        if is_early:
            s.first[s.done].subs = s.scratch.subs
        s.done += 1
        s.open_rows = 0
        s.giving = s.held.rows > 0 and (s.done % s.shards == 0 or not s.whole)
    return status


cdef int _pad(Order* order, ShardOp* s, const Element* e) noexcept nogil:
    # Gives one of the first elements once more.
    cdef int32_t r
    cdef Run run
    for r in range(e.count):
        run = e.runs[r]
        _again(&run)
        # The shard that owns this record may have found that it can't be read.
        if order.cut_pass >= 0 and is_behind(run.pass_, run.ordinal + run.n - 1, order.cut_pass, order.cut_ordinal):
            order.fault = order.cut_fault
            order.faulted = True
            s.ended = PULL_FAULT
            return PULL_FAULT
        if s.op.missing.count > 0 and is_missing(&s.op.missing, run.pass_, run.ordinal):
            return s.ended
    for r in range(e.count):
        run = e.runs[r]
        _again(&run)
        if not element_append(&s.held, &run):
            return PULL_NO_MEMORY
    s.held.subs = e.subs
    s.giving = True
    return PULL_OK


cdef int _end(Order* order, ShardOp* s) noexcept nogil:
    # Decides about the last group: the input is at its end.
    cdef int64_t phase = s.done % s.shards
    if s.held.rows > 0:  # rows of a group, or of an element, that didn't become whole
        order.dropped += s.held.rows
        element_drop(order, s.op.up, &s.held)
    if s.ended == PULL_FAULT or phase == 0:
        return s.ended
    if s.uneven == UNEVEN_RAISE:
        s.ended = op_refuse(order, WHAT_UNEVEN, s.done, s.shards)
    elif s.uneven == UNEVEN_PAD and s.index >= phase:
        return _pad(order, s, &s.first[(s.index - phase) % s.done])
    return s.ended


cdef int _pull(Order* order, Op* op, int64_t max_rows, RunList* out) noexcept nogil:
    cdef ShardOp* s = <ShardOp*>op
    cdef int status
    if s.giving:
        if element_give(&s.held, max_rows, out):
            s.giving = False
            element_clear(&s.held)
        return PULL_OK
    if s.ended != PULL_OK:
        return s.ended
    if op.rows == 1:
        status = _pull_records(order, s, max_rows, out)
    else:
        status = _pull_elements(order, s, max_rows, out)
    if (status == PULL_END or status == PULL_FAULT) and not s.giving:
        s.ended = status
        return _end(order, s)
    return status


cdef bint _restart(Order* order, Op* op) noexcept nogil:
    cdef ShardOp* s = <ShardOp*>op
    cdef int64_t i
    s.done = s.open_rows = 0
    s.ended = PULL_OK
    s.giving = False
    element_drop(order, op.up, &s.held)
    for i in range(s.firsts):
        element_clear(&s.first[i])
    s.firsts = 0
    return True


cdef int64_t _advance(Order* order, Op* op, int64_t n, int64_t unit) noexcept nogil:
    cdef ShardOp* s = <ShardOp*>op
    cdef int64_t most = (<int64_t>1 << 62) // s.shards
    cdef int64_t a, old_count
    if n <= 0 or n > most or unit > most or op.missing.count > 0 or _early(s):
        return 0
    if s.giving or s.ended != PULL_OK or s.open_rows != 0 or s.held.rows > 0:
        return 0
    if s.whole or unit > 1:  # leave out whole groups
        a = op_advance(order, op.up, n * s.shards, unit * s.shards)
        s.done += a
        return a // s.shards
    old_count = _own(s)
    a = (s.index - s.done % s.shards + s.shards) % s.shards + (n - 1) * s.shards + 1
    s.done += op_advance(order, op.up, a, 1)
    return _own(s) - old_count


cdef inline int64_t _share(const ShardOp* s, int64_t n, bint keep) noexcept nogil:
    # Returns how many of n elements are this shard's. `keep`: also those of a last group that isn't whole.
    if keep:
        return (n + s.shards - 1 - s.index) // s.shards
    if s.uneven == UNEVEN_PAD:
        return (n + s.shards - 1) // s.shards
    return n // s.shards


cdef int64_t _count(Order* order, Op* op) noexcept nogil:
    cdef ShardOp* s = <ShardOp*>op
    cdef int64_t n = op_count(order, op.up)
    if n < 0 or op.missing.count > 0 or (s.uneven == UNEVEN_RAISE and n % s.shards != 0):
        return -1
    return _share(s, n, s.uneven == UNEVEN_KEEP)


cdef int64_t _places(Order* order, Op* op, int64_t n, int* status) noexcept nogil:
    cdef ShardOp* s = <ShardOp*>op
    op.way.scale = s.shards
    op.way.shift = s.index
    op.way.wrap = n  # elements that pad are those at the beginning of the pass
    return _share(s, n, s.uneven == UNEVEN_KEEP or (status[0] == PULL_FAULT and not s.whole))


cdef void _purge(Order* order, Op* op, bint reached) noexcept nogil:
    if not op.gives_ids:
        element_trim(order, &(<ShardOp*>op).held)


cdef void _free(Op* op) noexcept nogil:
    cdef ShardOp* s = <ShardOp*>op
    cdef int64_t i
    for i in range(s.first_room):
        free(s.first[i].runs)
    free(s.first)
    free(s.held.runs)
    free(s.scratch.runs)


cdef OpKind SHARD = OpKind(
    pull=_pull, restart=_restart, advance=_advance, count=_count, places=_places, restarts=NULL, purge=_purge,
    free=_free)


cdef bint shard_make(Order* order, const OpSpec* spec) noexcept nogil:
    cdef ShardOp* s = <ShardOp*>op_new(order, sizeof(ShardOp), &SHARD)
    if s == NULL:
        return False
    s.shards = spec.size
    s.index = spec.index
    s.uneven = spec.uneven
    s.whole = s.shards > 1 and (s.uneven == UNEVEN_DROP or s.uneven == UNEVEN_RAISE)
    s.op.leaves_out = s.op.rows == 1 and s.shards > 1
    if s.uneven == UNEVEN_PAD and s.shards > 1 and not _first_room(s, 0):
        return False
    return list_init(&s.scratch)
