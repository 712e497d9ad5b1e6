# Buffers and arrays that grow. Each belongs to one thread at a time. A buffer keeps its room when it is emptied.
from libc.stddef cimport size_t
from libc.stdint cimport int64_t
from queuecore._core.atoms.memory cimport realloc
from queuecore._core.atoms.platform cimport kMostBytes, size_product

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


cdef inline void* array_room(void* array, int64_t count, int64_t* room, size_t item_bytes) noexcept nogil:
    # Returns where the array is once it has room for an item more than `count`. NULL: no memory, and it is as it was.
    cdef void* grown
    if count < room[0]:
        return array
    grown = realloc(array, size_product(2 * room[0] + 4, item_bytes))
    if grown != NULL:
        room[0] = 2 * room[0] + 4
    return grown
