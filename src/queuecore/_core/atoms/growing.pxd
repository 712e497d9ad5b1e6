# A buffer that grows: it belongs to one thread at a time, and keeps its room when it is emptied.
from libc.stdint cimport int64_t
from queuecore._core.atoms.memory cimport realloc
from queuecore._core.atoms.platform cimport kMostBytes

cdef struct Growing:
    unsigned char* data
    int64_t nbytes
    int64_t room


cdef inline bint grow(Growing* g, int64_t more) noexcept nogil:
    # Makes room for `more` bytes behind those that are there. False: no memory.
    cdef int64_t room = g.room + g.room // 2
    cdef void* data
    if more <= g.room - g.nbytes:
        return True
    if more > kMostBytes - g.nbytes:
        return False
    if room < g.nbytes + more:
        room = g.nbytes + more
    if room < 4096:
        room = 4096
    data = realloc(g.data, room)
    if data == NULL:
        return False
    g.data = <unsigned char*>data
    g.room = room
    return True
