# The wire format of protocol buffers. No function reads a byte at or beyond the end that it is given. Unwanted fields
# are skipped by their wire type, never entered; groups are skipped to a depth of 100.
from libc.stdint cimport int32_t, uint32_t, uint64_t
from libc.string cimport memcpy

ctypedef const unsigned char* bytes_in
ctypedef unsigned char* bytes_out

cdef enum:
    MOST_GROUPS = 100    # as protobuf's own parsers

cdef enum:
    # Wire types.
    WIRE_VARINT = 0
    WIRE_FIXED64 = 1
    WIRE_BYTES = 2
    WIRE_GROUP = 3
    WIRE_GROUP_END = 4
    WIRE_FIXED32 = 5

cdef enum:
    # Says why a message is refused.
    WHAT_VARINT = 1
    WHAT_TAG = 2
    WHAT_LENGTH = 3
    WHAT_WIRE = 4
    WHAT_NESTED = 5

cdef struct Extent:
    const unsigned char* p    # NULL: there is none
    const unsigned char* e

# Why a message was refused, and where.
cdef struct Wire:
    bytes_in at
    int32_t what

cdef struct Field:
    uint32_t number
    uint32_t wire
    bytes_in p           # WIRE_BYTES: the bytes themselves; else the whole value
    bytes_in e


cdef inline bytes_in refuse(Wire* wire, bytes_in at, int32_t what) noexcept nogil:
    wire.at = at
    wire.what = what
    return NULL


cdef inline bytes_in varint(bytes_in p, bytes_in e, uint64_t* value) noexcept nogil:
    # Returns the byte after the varint; NULL: it is cut off, or longer than ten bytes. Only one bit of the tenth byte
    # fits.
    cdef uint64_t byte, number = 0
    cdef uint32_t shift = 0
    if p < e and p[0] < 128:
        value[0] = p[0]
        return p + 1
    while p < e and shift < 70:
        byte = p[0]
        p += 1
        number |= (byte & 127) << shift
        if byte < 128:
            value[0] = number
            return p
        shift += 7
    return NULL


cdef inline bytes_in _skip_group(bytes_in p, bytes_in e, uint32_t number, Wire* wire) noexcept nogil:
    # Returns the byte after the end of the group that has just begun.
    cdef uint32_t open_groups[MOST_GROUPS]
    cdef int32_t depth = 1
    cdef uint64_t tag, n
    cdef bytes_in start
    open_groups[0] = number
    while True:
        start = p
        p = varint(p, e, &tag)
        if p == NULL:
            return refuse(wire, start, WHAT_VARINT)
        if tag < 8 or tag > 0xffffffffu:
            return refuse(wire, start, WHAT_TAG)
        n = 0
        if tag & 7 == WIRE_GROUP:
            if depth == MOST_GROUPS:
                return refuse(wire, start, WHAT_NESTED)
            open_groups[depth] = <uint32_t>(tag >> 3)
            depth += 1
        elif tag & 7 == WIRE_GROUP_END:
            depth -= 1
            if open_groups[depth] != tag >> 3:
                return refuse(wire, start, WHAT_TAG)
            if depth == 0:
                return p
        elif tag & 7 == WIRE_VARINT or tag & 7 == WIRE_BYTES:
            p = varint(p, e, &n)
            if p == NULL:
                return refuse(wire, start, WHAT_VARINT)
            if tag & 7 == WIRE_VARINT:
                n = 0
        elif tag & 7 == WIRE_FIXED64:
            n = 8
        elif tag & 7 == WIRE_FIXED32:
            n = 4
        else:
            return refuse(wire, start, WHAT_TAG)
        if n > <uint64_t>(e - p):
            return refuse(wire, start, WHAT_LENGTH)
        p += n


cdef inline bytes_in _skip_rare(bytes_in start, bytes_in p, bytes_in e, const Field* field, Wire* wire) noexcept nogil:
    # Returns the byte after a value at p that is neither bytes nor a varint, of the field at `start`; NULL: refused.
    # Apart, so that the rest of read_field is inlined.
    cdef uint64_t n = 4 if field.wire == WIRE_FIXED32 else 8
    if field.wire == WIRE_GROUP:
        return _skip_group(p, e, field.number, wire)
    if field.wire != WIRE_FIXED32 and field.wire != WIRE_FIXED64:
        return refuse(wire, start, WHAT_TAG)
    if n > <uint64_t>(e - p):
        return refuse(wire, start, WHAT_LENGTH)
    return p + n


cdef inline bytes_in read_field(bytes_in p, bytes_in e, Field* field, Wire* wire) noexcept nogil:
    # Returns the byte after the field at p, which is before e; NULL: refused.
    cdef bytes_in start = p
    cdef uint64_t tag, n
    p = varint(p, e, &tag)
    if p == NULL:
        return refuse(wire, start, WHAT_VARINT)
    if tag < 8 or tag > 0xffffffffu:
        return refuse(wire, start, WHAT_TAG)
    field.number = <uint32_t>(tag >> 3)
    field.wire = tag & 7
    field.p = p
    if field.wire == WIRE_BYTES:
        p = varint(p, e, &n)
        if p == NULL:
            return refuse(wire, start, WHAT_VARINT)
        if n > <uint64_t>(e - p):
            return refuse(wire, start, WHAT_LENGTH)
        field.p = p
        p += n
    elif field.wire == WIRE_VARINT:
        p = varint(p, e, &n)
        if p == NULL:
            return refuse(wire, start, WHAT_VARINT)
    else:
        p = _skip_rare(start, p, e, field, wire)
        if p == NULL:
            return NULL
    field.e = p
    return p
