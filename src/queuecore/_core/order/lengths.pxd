# Lengths of passes: how many records each pass of a source has, where passes may differ.
# The holder of the pipeline's turn alone uses this memory, once a pass.
from libc.stdint cimport int64_t
from queuecore._core.atoms.growing cimport array_room

# The length of all passes from this one up to the pass of the next Length.
cdef struct Length:
    int64_t pass_
    int64_t records      # -1: not known, as a take() cut all of these passes off before their end

cdef struct Lengths:
    Length* runs         # by rising pass; lengths of passes before the first one aren't known
    int64_t count, room


# Notes how many records a pass has; a number that was noted before stays. False: no memory.
cdef inline bint lengths_add(Lengths* l, int64_t pass_, int64_t records) noexcept nogil:
    cdef Length* grown
    if l.count > 0 and (pass_ <= l.runs[l.count - 1].pass_ or l.runs[l.count - 1].records == records):
        return True
    grown = <Length*>array_room(l.runs, l.count, &l.room, sizeof(Length))
    if grown == NULL:
        return False
    l.runs = grown
    l.runs[l.count].pass_ = pass_
    l.runs[l.count].records = records
    l.count += 1
    return True


# Returns the number of records of a pass; -1: not known.
cdef inline int64_t lengths_at(const Lengths* l, int64_t pass_) noexcept nogil:
    cdef int64_t low = 0, high = l.count, middle
    while low < high:
        middle = (low + high) // 2
        if l.runs[middle].pass_ <= pass_:
            low = middle + 1
        else:
            high = middle
    return l.runs[low - 1].records if low > 0 else -1
