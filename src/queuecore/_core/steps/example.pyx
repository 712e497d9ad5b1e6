"""Native parsing of ``tf.train.Example`` and ``tf.train.SequenceExample``."""
cimport numpy as cnp
from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t
from libc.string cimport memcmp, memcpy, memset
from queuecore._core.atoms.errors cimport CODE_EXHAUSTED, CODE_INVALID_ARGUMENT, CODE_PROTO, new_error, raise_error
from queuecore._core.atoms.memory cimport calloc, free
from queuecore._core.atoms.process cimport check_layout
from queuecore._core.atoms.platform cimport Fault, layout_hash
from queuecore._core.steps.stages cimport (
    Arena, Cell, Span, Step, arena_free, arena_init, arena_take, array_of, spans_of)
from queuecore._core.steps.wire cimport (
    WHAT_LENGTH, WHAT_NESTED, WHAT_TAG, WHAT_VARINT, WHAT_WIRE, WIRE_BYTES, WIRE_FIXED32, WIRE_VARINT, Field, Extent,
    Wire, bytes_in, bytes_out, read_field, refuse, varint)

import numpy as np

from queuecore._core.atoms.own import ragged as _ragged

cdef extern from *:
    """
    // Half of what a process may address.
    static constexpr int64_t kMostBytes = int64_t(1) << 46;
    """
    bint __builtin_mul_overflow(int64_t, int64_t, int64_t*) noexcept nogil
    const int64_t MOST_BYTES "kMostBytes"

cnp.import_array()
check_layout(layout_hash())

cdef enum:
    ORDER = 64           # fields of a map whose order is remembered from one record of a batch to the next

cdef enum:
    # More reasons than wire.pxd has (`b` is then the byte of the record): the lower eight bits of a fault's `what`. The
    # column is above them. `a` is the record, -1 if there is but one.
    WHAT_MISSING = 6
    WHAT_KIND = 7       # b: the kind that is there
    WHAT_COUNT = 8      # b: how many there are
    WHAT_STRIDE = 9     # b: how many there are
    WHAT_STEP = 10      # b: how many there are
    WHAT_MEMORY = 11

# The unread rest of a Feature: of this one, and of the map's entry, whose values together make one Feature.
cdef struct Lists:
    Extent feature
    Extent entry

# The same of a FeatureList.
cdef struct Steps:
    Extent list
    Extent entry

# Results of the first pass over the values of one column in one record, or in one step of it.
cdef struct KeptValue:
    Lists lists
    int64_t count
    int64_t steps
    int64_t skip         # lists before these, of another kind, don't count any more

cdef struct Strings:
    Extent* spans
    int64_t n

cdef struct Work:
    const ParsePlan* plan
    const Extent* records
    int64_t n
    bint batch
    bint apart           # of a batch: each record is an element of its own
    Cell* outputs
    Strings* strings     # by output: those whose values are still in the records
    Arena* arena
    Fault* fault
    Wire wire
    Extent* seen[2]        # by key: the last entry of it in the record at hand
    int32_t order[2][ORDER]  # of a batch: which key the last record had in this place
    KeptValue* kept           # by the column's rank, then record


# ---- the wire --------------------------------------------------------------------------------------------------------

cdef inline int _next_field(Extent* rest, uint32_t number, Field* field, Wire* wire) noexcept nogil:
    # 1: `field` is the next message `number` in the rest of a message; 0: there is none; -1: refused.
    while rest.p < rest.e:
        rest.p = read_field(rest.p, rest.e, field, wire)
        if rest.p == NULL:
            return -1
        if field.number == number:
            if field.wire != WIRE_BYTES:
                refuse(wire, field.p, WHAT_WIRE)
                return -1
            return 1
    return 0


cdef inline int _next_list(Lists* rest, Field* field, Wire* wire) noexcept nogil:
    # As _next_field: the next list of a Feature; the field's number is its kind.
    cdef int status
    while True:
        while rest.feature.p < rest.feature.e:
            rest.feature.p = read_field(rest.feature.p, rest.feature.e, field, wire)
            if rest.feature.p == NULL:
                return -1
            if field.number <= KIND_INT:
                if field.wire != WIRE_BYTES:
                    refuse(wire, field.p, WHAT_WIRE)
                    return -1
                return 1
        status = _next_field(&rest.entry, 2, field, wire)
        if status <= 0:
            return status
        rest.feature.p = field.p
        rest.feature.e = field.e


cdef inline int _next_step(Steps* rest, Field* field, Wire* wire) noexcept nogil:
    # As _next_field: the next Feature of a FeatureList.
    cdef int status
    while True:
        status = _next_field(&rest.list, 1, field, wire)
        if status != 0:
            return status
        status = _next_field(&rest.entry, 2, field, wire)
        if status <= 0:
            return status
        rest.list.p = field.p
        rest.list.e = field.e


cdef int64_t _ints(bytes_in p, bytes_in e, bytes_out place, int64_t position, int64_t room, Wire* wire) noexcept nogil:
    # As _values, of packed integers.
    cdef bytes_in start
    cdef uint64_t value
    if p < e and e[-1] >= 128:
        refuse(wire, p, WHAT_VARINT)
        return -1
    if room == 0:
        while p < e:
            position += p[0] < 128
            p += 1
        return position
    while p < e:
        start = p
        p = varint(p, e, &value)
        if p == NULL:
            refuse(wire, start, WHAT_VARINT)
            return -1
        if position < room:
            memcpy(place + 8 * position, &value, 8)
        position += 1
    return position


cdef int64_t _values(int32_t kind, bytes_in p, bytes_in e, bytes_out place, int64_t position, int64_t room,
                     Wire* wire) noexcept nogil:
    # Appends the values of a list to the `position` values of `place`, as far as there is room, and returns the new
    # number of values, or -1: refused. Without any room it only counts; a second pass then finds endless varints.
    # Strings: Spans.
    cdef Field field
    cdef Extent span
    cdef uint64_t value = 0
    cdef int64_t n
    while p < e:
        p = read_field(p, e, &field, wire)
        if p == NULL:
            return -1
        if field.number != 1:
            continue
        if kind == KIND_BYTES:
            if field.wire != WIRE_BYTES:
                refuse(wire, field.p, WHAT_WIRE)
                return -1
            if position < room:
                span.p = field.p
                span.e = field.e
                (<Extent*>place)[position] = span
            position += 1
        elif kind == KIND_INT:
            if field.wire == WIRE_BYTES:
                position = _ints(field.p, field.e, place, position, room, wire)
                if position < 0:
                    return -1
            elif field.wire == WIRE_VARINT:
                if position < room:
                    varint(field.p, field.e, &value)
                    memcpy(place + 8 * position, &value, 8)
                position += 1
            else:
                refuse(wire, field.p, WHAT_WIRE)
                return -1
        elif field.wire == WIRE_BYTES or field.wire == WIRE_FIXED32:
            n = field.e - field.p
            if n % 4 != 0:
                refuse(wire, field.p, WHAT_LENGTH)
                return -1
            n //= 4
            if position < room:
                memcpy(place + 4 * position, field.p, 4 * (n if n < room - position else room - position))
            position += n
        else:
            refuse(wire, field.p, WHAT_WIRE)
            return -1
    return position


# ---- keys ------------------------------------------------------------------------------------------------------------

cdef inline uint64_t _hash(bytes_in p, int64_t n) noexcept nogil:
    cdef uint64_t hash_ = <uint64_t>n, word
    while n >= 8:
        memcpy(&word, p, 8)
        hash_ = (hash_ ^ word) * 0x9e3779b97f4a7c15u
        hash_ ^= hash_ >> 32
        p += 8
        n -= 8
    if n > 0:
        word = 0
        memcpy(&word, p, n)
        hash_ = (hash_ ^ word) * 0x9e3779b97f4a7c15u
        hash_ ^= hash_ >> 32
    return hash_


cdef inline bint _is(const Extent* name, bytes_in p, int64_t n) noexcept nogil:
    return name.e - name.p == n and memcmp(name.p, p, n) == 0


cdef inline int32_t _find(const Keys* keys, bytes_in p, int64_t n, int32_t guess) noexcept nogil:
    # Returns the index of a key, or -1. Tries the guess first.
    cdef uint64_t slot
    if guess >= 0 and _is(&keys.names[guess], p, n):
        return guess
    slot = _hash(p, n) & keys.mask
    while keys.table[slot] >= 0:
        if _is(&keys.names[keys.table[slot]], p, n):
            return keys.table[slot]
        slot = (slot + 1) & keys.mask
    return -1


cdef int _scan(Work* work, int32_t section, bytes_in p, bytes_in e, int32_t* entries) noexcept nogil:
    # Notes the entries of the keys to look for. The last entry of a key wins, as in every map.
    cdef const Keys* keys = &work.plan.keys[section]
    cdef Field entry, part
    cdef Extent rest, key
    cdef int32_t status, index, guess
    rest.p = p
    rest.e = e
    while True:
        status = _next_field(&rest, 1, &entry, &work.wire)
        if status <= 0:
            return status
        key.p = entry.p
        key.e = entry.p
        p = entry.p
        while p < entry.e:
            p = read_field(p, entry.e, &part, &work.wire)
            if p == NULL:
                return -1
            if part.number <= 2 and part.wire != WIRE_BYTES:
                refuse(&work.wire, part.p, WHAT_WIRE)
                return -1
            if part.number == 1:
                key.p = part.p
                key.e = part.e
        guess = -1
        if entries[0] < ORDER:
            guess = work.order[section][entries[0]] if work.batch else (entries[0] if entries[0] < keys.count else -1)
        index = _find(keys, key.p, key.e - key.p, guess)
        if entries[0] < ORDER and work.batch:
            work.order[section][entries[0]] = index
        entries[0] += 1
        if index >= 0:
            work.seen[section][index].p = entry.p
            work.seen[section][index].e = entry.e


# ---- records ---------------------------------------------------------------------------------------------------------

cdef int _fault(Work* work, int64_t record, int32_t column, int32_t what, int64_t b) noexcept nogil:
    work.fault.what = what | column << 8
    work.fault.a = record if work.batch else -1
    work.fault.b = b
    return -1


cdef int _malformed(Work* work, int64_t record) noexcept nogil:
    return _fault(work, record, 0, work.wire.what, work.wire.at - work.records[record].p)


cdef void* _take(Work* work, int64_t a, int64_t b, int64_t c) noexcept nogil:
    # Returns a * b * c bytes; NULL, and a fault: no memory.
    cdef int64_t n = 0
    cdef void* place = NULL
    if __builtin_mul_overflow(a, b, &n) or __builtin_mul_overflow(n, c, &n) or n > MOST_BYTES:
        n = -1
    else:
        place = arena_take(work.arena, n + 1)
    if place == NULL:
        _fault(work, 0, 0, WHAT_MEMORY, n)
    return place


cdef int _count(Work* work, int32_t column, int64_t record, KeptValue* value) noexcept nogil:
    # Fills in the number of values that kept.lists has, and the list with which they begin. A list of another kind
    # discards the lists before it, and one of the same kind adds to them.
    cdef Lists rest = value.lists
    cdef Field field
    cdef int64_t lists = 0
    cdef uint32_t kind = KIND_NONE
    cdef int status
    value.count = 0
    value.skip = 0
    while True:
        status = _next_list(&rest, &field, &work.wire)
        if status < 0:
            return _malformed(work, record)
        if status == 0:
            break
        if field.number != kind:
            kind = field.number
            value.count = 0
            value.skip = lists
        lists += 1
        value.count = _values(kind, field.p, field.e, NULL, value.count, 0, &work.wire)
        if value.count < 0:
            return _malformed(work, record)
    if kind != KIND_NONE and kind != <uint32_t>work.plan.columns[column].kind:
        return _fault(work, record, column, WHAT_KIND, kind)
    return 0


cdef int64_t _emit(Work* work, int32_t column, int64_t record, const KeptValue* value, bytes_out place,
                   int64_t position, int64_t room) noexcept nogil:
    # Appends the values that _count counted, and returns the new number of values, or -1: a fault.
    cdef Lists rest = value.lists
    cdef Field field
    cdef int64_t skip = value.skip
    if value.count == 0:
        return position
    while _next_list(&rest, &field, &work.wire) > 0:
        skip -= 1
        if skip >= 0:
            continue
        position = _values(work.plan.columns[column].kind, field.p, field.e, place, position, room, &work.wire)
        if position < 0:
            return _malformed(work, record)
    return position


cdef int _fixed(Work* work, int32_t index, int64_t record, const Extent* entry) noexcept nogil:
    # Writes the values of a FORM_FIXED column directly into their place.
    cdef const ExampleColumn* column = &work.plan.columns[index]
    cdef Cell* out = &work.outputs[column.output]
    cdef Lists rest
    cdef Field field
    cdef int64_t position = 0, item = column.item
    cdef uint32_t kind = KIND_NONE
    cdef int status
    cdef bytes_out place
    if column.kind == KIND_BYTES:
        place = <bytes_out>(work.strings[column.output].spans + record * column.count)
        item = sizeof(Extent)
    else:
        place = out.data + record * column.count * item
    if entry.p != NULL:
        memset(&rest, 0, sizeof(Lists))
        rest.entry = entry[0]
        while True:
            status = _next_list(&rest, &field, &work.wire)
            if status < 0:
                return _malformed(work, record)
            if status == 0:
                break
            if field.number != kind:
                kind = field.number
                position = 0
            if kind == <uint32_t>column.kind:
                position = _values(kind, field.p, field.e, place, position, column.count, &work.wire)
                if position < 0:
                    return _malformed(work, record)
    if kind == KIND_NONE:
        if column.required:
            return _fault(work, record, index, WHAT_MISSING, 0)
        memcpy(place, column.fill, column.count * item)
    elif kind != <uint32_t>column.kind:
        return _fault(work, record, index, WHAT_KIND, kind)
    elif position != column.count:
        return _fault(work, record, index, WHAT_COUNT, position)
    return 0


cdef int _look(Work* work, int32_t index, int64_t record, const Extent* entry, KeptValue* value) noexcept nogil:
    # Fills in `value` for a column of another form in a record.
    cdef const ExampleColumn* column = &work.plan.columns[index]
    cdef Steps rest
    cdef Field field
    cdef KeptValue step
    cdef int status
    memset(value, 0, sizeof(KeptValue))
    if entry.p == NULL:
        if column.required:
            return _fault(work, record, index, WHAT_MISSING, 0)
        return 0
    value.lists.entry = entry[0]
    if column.section == 0:
        if _count(work, index, record, value) != 0:
            return -1
        if column.form == FORM_PADDED and value.count % column.count != 0:
            return _fault(work, record, index, WHAT_STRIDE, value.count)
        return 0
    memset(&rest, 0, sizeof(Steps))
    rest.entry = entry[0]
    memset(&step, 0, sizeof(KeptValue))
    while True:
        status = _next_step(&rest, &field, &work.wire)
        if status < 0:
            return _malformed(work, record)
        if status == 0:
            return 0
        step.lists.feature.p = field.p
        step.lists.feature.e = field.e
        if _count(work, index, record, &step) != 0:
            if work.fault.what & 255 == WHAT_KIND:
                work.fault.b |= value.steps << 32
            return -1
        if column.form == FORM_PADDED and step.count != column.count:
            return _fault(work, record, index, WHAT_STEP, value.steps << 32 | step.count)
        value.count += step.count
        value.steps += 1


cdef int _record(Work* work, int64_t record) noexcept nogil:
    cdef const ParsePlan* plan = work.plan
    cdef const ExampleColumn* column
    cdef const Extent* entry
    cdef Field field
    cdef bytes_in p = work.records[record].p
    cdef bytes_in e = work.records[record].e
    cdef int32_t entries[2]
    cdef int32_t i
    for i in range(2):
        entries[i] = 0
        memset(work.seen[i], 0, plan.keys[i].count * sizeof(Extent))
    while p < e:
        p = read_field(p, e, &field, &work.wire)
        if p == NULL:
            return _malformed(work, record)
        # 1: features, or the context; 2: feature lists, which an Example has not.
        if field.number > 2 or plan.keys[field.number - 1].count == 0:
            continue
        if field.wire != WIRE_BYTES:
            refuse(&work.wire, field.p, WHAT_WIRE)
            return _malformed(work, record)
        if _scan(work, field.number - 1, field.p, field.e, &entries[field.number - 1]) < 0:
            return _malformed(work, record)
    for i in range(plan.count):
        column = &plan.columns[i]
        entry = &work.seen[column.section][column.key]
        if column.form == FORM_FIXED:
            if _fixed(work, i, record, entry) != 0:
                return -1
        elif _look(work, i, record, entry, &work.kept[column.rank * work.n + record]) != 0:
            return -1
    return 0


# ---- columns ---------------------------------------------------------------------------------------------------------

cdef bytes_out _place(Work* work, int32_t output, const ExampleColumn* column, int64_t n) noexcept nogil:
    # Returns room for n values of a column; NULL, and a fault: no memory.
    cdef Cell* out = &work.outputs[output]
    if column.kind == KIND_BYTES:
        work.strings[output].n = n
        work.strings[output].spans = <Extent*>_take(work, n, sizeof(Extent), 1)
        return <bytes_out>work.strings[output].spans
    # A place that is given has the size of the column's shape, which is certain but for the number of records.
    if out.data == NULL or (work.batch and out.nbytes != n * column.item):
        out.data = <bytes_out>_take(work, n, column.item, 1)
    out.nbytes = n * column.item
    out.offsets = NULL
    return out.data


cdef int64_t* _splits(Work* work, int32_t output, int64_t n) noexcept nogil:
    # Makes an output of one dimension with n integers.
    cdef Cell* out = &work.outputs[output]
    if out.data == NULL or out.nbytes != n * 8:
        out.data = <bytes_out>_take(work, n, 8, 1)
    out.nbytes = n * 8
    out.offsets = NULL
    out.ndim = 1
    out.dims[0] = n
    return <int64_t*>out.data


cdef void _shape(Work* work, const ExampleColumn* column, int64_t rows) noexcept nogil:
    # Sets the shape of a column's first output: records, rows (-1: no such dimension), and the column's dimensions.
    cdef Cell* out = &work.outputs[column.output]
    out.ndim = 0
    if work.batch:
        out.dims[0] = work.n
        out.ndim = 1
    if rows >= 0:
        out.dims[out.ndim] = rows
        out.ndim += 1
    memcpy(out.dims + out.ndim, column.dims, column.ndim * sizeof(int64_t))
    out.ndim += column.ndim


cdef int _begin(Work* work) noexcept nogil:
    # Allocates the memory that every record needs.
    cdef const ExampleColumn* column
    cdef int32_t i, j
    cdef int64_t n = 0
    for i in range(2):
        work.seen[i] = <Extent*>_take(work, work.plan.keys[i].count, sizeof(Extent), 1)
        if work.seen[i] == NULL:
            return -1
        if work.batch:
            for j in range(ORDER):
                work.order[i][j] = j if j < work.plan.keys[i].count else -1
    work.kept = <KeptValue*>_take(work, work.n, work.plan.ranks, sizeof(KeptValue))
    work.strings = <Strings*>_take(work, work.plan.outputs, sizeof(Strings), 1)
    if work.kept == NULL or work.strings == NULL:
        return -1
    memset(work.strings, 0, work.plan.outputs * sizeof(Strings))
    for i in range(work.plan.count):
        column = &work.plan.columns[i]
        if column.form == FORM_FIXED:
            if __builtin_mul_overflow(work.n, column.count, &n):
                return _fault(work, 0, i, WHAT_MEMORY, -1)
            if _place(work, column.output, column, n) == NULL:
                return -1
            _shape(work, column, -1)
    return 0


cdef int _emit_record(Work* work, int32_t index, int64_t record, bytes_out place, int64_t* position, int64_t room,
                      int64_t* splits, int64_t* step_at) noexcept nogil:
    # Appends the values of one record of a column; in feature lists also the end of each of its steps to `splits`.
    cdef const KeptValue* value = &work.kept[work.plan.columns[index].rank * work.n + record]
    cdef Steps rest
    cdef Field field
    cdef KeptValue step
    if work.plan.columns[index].section == 0:
        position[0] = _emit(work, index, record, value, place, position[0], room)
        return -1 if position[0] < 0 else 0
    memset(&rest, 0, sizeof(Steps))
    rest.entry = value.lists.entry
    memset(&step, 0, sizeof(KeptValue))
    while _next_step(&rest, &field, &work.wire) > 0:
        step.lists.feature.p = field.p
        step.lists.feature.e = field.e
        if _count(work, index, record, &step) != 0:
            return -1
        position[0] = _emit(work, index, record, &step, place, position[0], room)
        if position[0] < 0:
            return -1
        if splits != NULL:
            step_at[0] += 1
            splits[step_at[0]] = position[0]
    return 0


cdef int _flat(Work* work, int32_t index) noexcept nogil:
    # A FORM_FLAT column.
    cdef const ExampleColumn* column = &work.plan.columns[index]
    cdef const KeptValue* values = work.kept + column.rank * work.n
    cdef Cell* out = &work.outputs[column.output]
    cdef int32_t output = column.output + 1
    cdef int64_t total = 0, steps = 0, position = 0, step_at = 0, i
    cdef int64_t* step_splits = NULL
    cdef int64_t* splits = NULL
    cdef Span* spans = NULL
    cdef bytes_out place
    for i in range(work.n):
        total += values[i].count
        steps += values[i].steps
    place = _place(work, column.output, column, total)
    if place == NULL:
        return -1
    out.ndim = 1
    out.dims[0] = total
    if column.section == 1:
        step_splits = _splits(work, output, steps + 1)
        if step_splits == NULL:
            return -1
        step_splits[0] = 0
        output += 1
    if work.apart:
        spans = <Span*>_take(work, work.n, sizeof(Span), 1)
        if spans == NULL:
            return -1
        out.data = NULL
        out.offsets = <const int64_t*>spans
    elif work.batch:
        splits = _splits(work, output, work.n + 1)
        if splits == NULL:
            return -1
        splits[0] = 0
    for i in range(work.n):
        if spans != NULL:
            spans[i].data = place + position * column.item
            spans[i].nbytes = values[i].count * column.item
        if _emit_record(work, index, i, place, &position, total, step_splits, &step_at) != 0:
            return -1
        if splits != NULL:
            splits[i + 1] = position if column.section == 0 else step_at
    return 0


cdef int _padded(Work* work, int32_t index) noexcept nogil:
    # A FORM_PADDED column.
    cdef const ExampleColumn* column = &work.plan.columns[index]
    cdef const KeptValue* values = work.kept + column.rank * work.n
    cdef int64_t longest = 0, row, total = 0, position, i, item = column.item
    cdef int64_t* lengths = NULL
    cdef bytes_out place
    for i in range(work.n):
        if values[i].count > longest:
            longest = values[i].count
    if __builtin_mul_overflow(work.n, longest, &total):
        return _fault(work, 0, index, WHAT_MEMORY, -1)
    place = _place(work, column.output, column, total)
    if place == NULL:
        return -1
    _shape(work, column, longest // column.count)
    if column.kind == KIND_BYTES:
        item = sizeof(Extent)
    if column.section == 1 and work.batch:
        lengths = _splits(work, column.output + 1, work.n)
        if lengths == NULL:
            return -1
    for row in range(work.n):
        position = row * longest
        if _emit_record(work, index, row, place, &position, position + values[row].count, NULL, NULL) != 0:
            return -1
        if lengths != NULL:
            lengths[row] = values[row].steps
        for i in range(position, (row + 1) * longest):
            memcpy(place + i * item, column.fill, item)
    return 0


cdef int _parse(Work* work) noexcept nogil:
    # Parses everything but the bytes of strings: see _gather.
    cdef int64_t record
    cdef int32_t i
    if _begin(work) != 0:
        return -1
    for record in range(work.n):
        if _record(work, record) != 0:
            return -1
    for i in range(work.plan.count):
        if work.plan.columns[i].form == FORM_FLAT:
            if _flat(work, i) != 0:
                return -1
        elif work.plan.columns[i].form == FORM_PADDED:
            if _padded(work, i) != 0:
                return -1
    return 0


cdef void _gather(const Strings* strings, bytes_out data, int64_t* offsets) noexcept nogil:
    cdef int64_t i, position = 0, n
    offsets[0] = 0
    for i in range(strings.n):
        n = strings.spans[i].e - strings.spans[i].p
        memcpy(data + position, strings.spans[i].p, n)
        position += n
        offsets[i + 1] = position


cdef inline int64_t _total(const Strings* strings) noexcept nogil:
    cdef int64_t i, total = 0
    for i in range(strings.n):
        total += strings.spans[i].e - strings.spans[i].p
    return total


cdef int _strings_out(Work* work, int32_t output) noexcept nogil:
    # Puts strings into a cell. A lone string stays where it is, in the record.
    cdef const Strings* strings = &work.strings[output]
    cdef Cell* out = &work.outputs[output]
    cdef int64_t* offsets
    out.nbytes = _total(strings)
    out.offsets = NULL
    if strings.n == 1:
        out.data = <bytes_out>strings.spans[0].p
    if out.ndim == 0:
        return 0
    offsets = <int64_t*>_take(work, strings.n + 1, sizeof(int64_t), 1)
    if offsets == NULL:
        return -1
    out.offsets = offsets
    if strings.n == 1:
        offsets[0] = 0
        offsets[1] = out.nbytes
        return 0
    out.data = <bytes_out>_take(work, out.nbytes, 1, 1)
    if out.data == NULL:
        return -1
    _gather(strings, out.data, offsets)
    return 0


cdef void _work_init(Work* work, const ParsePlan* plan, Cell* outputs, Arena* arena, Fault* fault) noexcept nogil:
    # For one record. The order of keys is set for a batch, and everything else by _begin.
    work.plan = plan
    work.outputs = outputs
    work.arena = arena
    work.fault = fault
    work.n = 1
    work.batch = work.apart = False
    work.wire.at = NULL
    work.wire.what = 0


cdef int _rows_of_example(const void* params, const Cell* inputs, Cell* outputs, int64_t rows, Arena* arena,
                          Fault* fault) noexcept nogil:
    cdef Work work
    cdef const Span* spans = spans_of(&inputs[0])
    cdef Extent* records
    cdef Strings* strings
    cdef Span span
    cdef int64_t i
    cdef int32_t j
    _work_init(&work, <const ParsePlan*>params, outputs, arena, fault)
    work.n = rows
    work.batch = work.apart = True
    records = <Extent*>_take(&work, rows, sizeof(Extent), 1)
    if records == NULL:
        return -1
    span.nbytes = inputs[0].nbytes // rows
    for i in range(rows):
        span.data = inputs[0].data + i * span.nbytes
        if spans != NULL:
            span = spans[i]
        records[i].p = span.data
        records[i].e = span.data + span.nbytes
    work.records = records
    if _parse(&work) != 0:
        return -1
    for j in range(work.plan.outputs):
        strings = &work.strings[j]
        if strings.spans == NULL:
            continue
        for i in range(strings.n):  # in their place
            span.data = strings.spans[i].p
            span.nbytes = strings.spans[i].e - strings.spans[i].p
            (<Span*>strings.spans)[i] = span
        outputs[j].data = NULL
        outputs[j].offsets = <const int64_t*>strings.spans
    return 0


cdef int _run_example(const void* params, const Cell* inputs, Cell* outputs, Arena* arena, Fault* fault) noexcept nogil:
    cdef Work work
    cdef Extent record
    cdef Extent* records = &record
    cdef const Cell* cell = &inputs[0]
    cdef int64_t i
    cdef int32_t j
    _work_init(&work, <const ParsePlan*>params, outputs, arena, fault)
    record.p = cell.data
    record.e = cell.data + cell.nbytes
    if cell.ndim > 0:
        work.batch = True
        work.n = cell.dims[0]
        records = <Extent*>_take(&work, work.n, sizeof(Extent), 1)
        if records == NULL:
            return -1
        for i in range(work.n):
            records[i].p = cell.data + cell.offsets[i]
            records[i].e = cell.data + cell.offsets[i + 1]
    work.records = records
    if _parse(&work) != 0:
        return -1
    for j in range(work.plan.outputs):
        if work.strings[j].spans != NULL and _strings_out(&work, j) != 0:
            return -1
    return 0


_WORDS = {KIND_BYTES: "string", KIND_FLOAT: "float", KIND_INT: "int64"}
_DTYPES = {KIND_BYTES: np.dtype("S"), KIND_FLOAT: np.dtype(np.float32), KIND_INT: np.dtype(np.int64)}
_MALFORMED = {
    WHAT_VARINT: "a number that never ends, or is cut off",
    WHAT_TAG: "no field can begin so",
    WHAT_LENGTH: "a length that reaches beyond the end, or is no multiple of the item's size",
    WHAT_WIRE: "a known field of the wrong wire type",
    WHAT_NESTED: "groups nested more than 100 deep",
}


cdef class ExampleStep(Step):
    """Serialized Examples, or SequenceExamples, as arrays.

    Parameters
    ----------
    label : str
        For messages.
    inputs, outputs : tuple of Component
        One of strings, of no or one dimension; those of all columns.
    columns : list of tuple
        Section, key, kind, form, dimensions, whether it must be there, default (flat array, list of bytes, or None),
        first output.
    """
    cdef ParsePlan plan
    cdef str label
    cdef list keys
    cdef list columns
    cdef list keep    # what the plan points at

    def __init__(self, str label, tuple inputs, tuple outputs, list columns):
        cdef ExampleColumn* column
        cdef Extent* spans
        cdef int64_t side
        cdef bint together
        if self.params != NULL:
            raise TypeError("a step can't be initialised twice")
        self.inputs = inputs
        self.outputs = outputs
        self.label = label
        self.columns = columns
        self.keep = []
        self.keys = [[], []]
        for section, key, *_ in columns:
            if key not in self.keys[section]:
                self.keys[section].append(key)
        for section in range(2):
            _fill_keys(&self.plan.keys[section], self.keys[section])
        self.plan.columns = <ExampleColumn*>calloc(len(columns) + 1, sizeof(ExampleColumn))
        if self.plan.columns == NULL:
            raise MemoryError
        self.plan.count = len(columns)
        self.plan.outputs = len(outputs)
        column = self.plan.columns
        for section, key, kind, form, dims, required, default, output in columns:
            column.section = section
            column.key = self.keys[section].index(key)
            column.kind = kind
            column.form = form
            column.output = output
            column.required = required
            if form != FORM_FIXED:
                column.rank = self.plan.ranks
                self.plan.ranks += 1
            column.item = _DTYPES[kind].itemsize
            column.count = 1
            for side in dims:
                column.dims[column.ndim] = side
                column.ndim += 1
                column.count *= side
            if default is not None:
                if kind == KIND_BYTES:
                    place = bytearray(max(1, len(default)) * sizeof(Extent))
                    spans = <Extent*><char*>place
                    for i, text in enumerate(default):
                        spans[i].p = <bytes_in><const char*>(<bytes>text)
                        spans[i].e = spans[i].p + len(text)
                    self.keep += [place, default]
                    column.fill = <bytes_in>spans
                else:
                    self.keep.append(default)
                    column.fill = <bytes_in>cnp.PyArray_DATA(default)
            column += 1
        self.params = &self.plan
        self.run = _run_example
        together = inputs[0].shape == ()
        for i in range(self.plan.count):
            column = &self.plan.columns[i]
            if column.form == FORM_FIXED:
                together = together and (column.kind != KIND_BYTES or column.ndim == 0)
            else:
                together = together and column.form == FORM_FLAT and column.kind != KIND_BYTES and column.section == 0
        if together:
            self.run_rows = _rows_of_example

    def __dealloc__(self):
        for section in range(2):
            free(self.plan.keys[section].names)
            free(self.plan.keys[section].table)
        free(self.plan.columns)

    cdef object explain(self, const Fault* fault):
        return self._explain(fault, None)

    cdef object _explain(self, const Fault* fault, names):
        cdef int reason = fault.what & 255
        cdef int64_t a = fault.a, b = fault.b
        cdef str place = f"{self.label}: " if a < 0 else f"{self.label}: record {a} of the batch: "
        if reason == WHAT_MEMORY:
            return new_error(CODE_EXHAUSTED, f"{self.label}: no memory for {b if b >= 0 else '2^63 or more'} bytes")
        if reason in _MALFORMED:
            return new_error(CODE_PROTO, f"{place}Could not parse the message: at byte {b}, {_MALFORMED[reason]}")
        section, key, kind, _, dims, *_ = self.columns[fault.what >> 8]
        shown = key.decode(errors="backslashreplace")
        if a >= 0:
            name = "<unknown>" if names is None else names[a]
            place += f"Name: {name.decode(errors='backslashreplace') if isinstance(name, bytes) else name}, "
        if reason == WHAT_MISSING:
            if section:
                text = (f"Feature list '{shown}' is required but could not be found. allow_missing=True takes it for "
                        "empty")
            else:
                text = f"Feature: {shown} (data type: {_WORDS[kind]}) is required but could not be found."
            return new_error(CODE_INVALID_ARGUMENT, place + text)
        if section:  # the step is above the 32 bits of a kind, or of a number of values
            place += f"{'Feature list' if reason == WHAT_KIND else 'Key'}: {shown}, Index: {b >> 32}.  "
            b &= 0xffffffff
        else:
            place += f"Key: {shown}, Index: {a}.  " if a >= 0 else f"Key: {shown}.  "
        counted = "bytes" if kind == KIND_BYTES else _WORDS[kind]
        if reason == WHAT_KIND:
            text = f"Data types don't match. Expected type: {_WORDS[kind]}, Actual type: {_WORDS[b]}"
        elif reason == WHAT_STRIDE:
            text = (f"Number of {counted} values is not a multiple of stride length. "
                    f"Saw {b} values but output shape is: {['?', *dims]}")
        else:
            text = (f"Number of {counted} values != expected.  {'values' if section else 'Values'} size: {b} but "
                    f"output shape: {list(dims)}")
        return new_error(CODE_INVALID_ARGUMENT, place + text)

    def parse(self, records, names=None):
        """Return the outputs of one record (bytes), or of a batch (a list or tuple of bytes, or a `Ragged` of them).

        Strings are `Ragged`, or bytes for those without dimensions. Nothing of the records is copied but the values.
        """
        cdef Work work
        cdef Arena arena
        cdef Fault fault
        cdef Extent lone
        cdef Extent* spans = &lone
        cdef int64_t i = 0
        cdef int32_t j
        cdef int rc
        cdef bytes record
        cdef tuple batch
        cdef cnp.ndarray data, offsets, array
        cdef const int64_t* bounds
        cdef Cell* cells = <Cell*>calloc(self.plan.outputs + 1, sizeof(Cell))
        cdef list results
        arena_init(&arena)
        memset(&fault, 0, sizeof(Fault))
        _work_init(&work, &self.plan, cells, &arena, &fault)
        try:
            if cells == NULL:
                raise MemoryError
            if isinstance(records, bytes):
                record = records
                lone.p = <bytes_in><const char*>record
                lone.e = lone.p + len(record)
            else:
                work.batch = True
                work.n = len(records)
                spans = <Extent*>arena_take(&arena, work.n * sizeof(Extent) + 1)
                if spans == NULL:
                    raise MemoryError
                if isinstance(records, _ragged.Ragged):
                    data = np.ascontiguousarray(records.values)
                    offsets = np.ascontiguousarray(records.row_splits, np.int64)
                    bounds = <const int64_t*>cnp.PyArray_DATA(offsets)
                    for i in range(work.n):
                        # Arrays can be written to after they were checked.
                        if not 0 <= bounds[i] <= bounds[i + 1] <= data.size:
                            raise_error(CODE_INVALID_ARGUMENT,
                                        f"{self.label}: the splits of the records don't fit their bytes")
                        spans[i].p = <bytes_in>cnp.PyArray_DATA(data) + bounds[i]
                        spans[i].e = <bytes_in>cnp.PyArray_DATA(data) + bounds[i + 1]
                else:
                    # A tuple: nobody can take a record out of it meanwhile.
                    batch = tuple(records)
                    for record in batch:
                        spans[i].p = <bytes_in><const char*>record
                        spans[i].e = spans[i].p + len(record)
                        i += 1
            work.records = spans
            with nogil:
                rc = _parse(&work)
            if rc != 0:
                raise self._explain(&fault, names)
            results = []
            for j in range(self.plan.outputs):
                shape = tuple([cells[j].dims[i] for i in range(cells[j].ndim)])
                if work.strings[j].spans == NULL:
                    array = array_of(shape, self.outputs[j].dtype)
                    memcpy(cnp.PyArray_DATA(array), cells[j].data, cells[j].nbytes)
                    results.append(array)
                elif not shape:
                    results.append((<const char*>work.strings[j].spans[0].p)[:_total(&work.strings[j])])
                else:
                    data = np.empty(_total(&work.strings[j]), "S1")
                    offsets = np.empty(work.strings[j].n + 1, np.int64)
                    with nogil:
                        _gather(&work.strings[j], <bytes_out>cnp.PyArray_DATA(data),
                                <int64_t*>cnp.PyArray_DATA(offsets))
                    results.append(_ragged.strings(data, offsets, shape))
            return results
        finally:
            arena_free(&arena)
            free(cells)


cdef int _fill_keys(Keys* keys, list names) except -1:
    cdef bytes name
    cdef int32_t i = 0
    cdef uint64_t slot
    keys.mask = 3
    while keys.mask < <uint64_t>(2 * len(names)):
        keys.mask = 2 * keys.mask + 1
    keys.names = <Extent*>calloc(len(names) + 1, sizeof(Extent))
    keys.table = <int32_t*>calloc(keys.mask + 1, sizeof(int32_t))
    if keys.names == NULL or keys.table == NULL:
        raise MemoryError
    memset(keys.table, 255, (keys.mask + 1) * sizeof(int32_t))
    keys.count = len(names)
    for name in names:
        # `names` lives as long as the keys.
        keys.names[i].p = <bytes_in><const char*>name
        keys.names[i].e = keys.names[i].p + len(name)
        slot = _hash(keys.names[i].p, len(name)) & keys.mask
        while keys.table[slot] >= 0:
            slot = (slot + 1) & keys.mask
        keys.table[slot] = i
        i += 1
    return 0
