# Buffers and arrays that grow. Each belongs to one thread at a time. A buffer keeps its room when it is emptied.
from libc.stddef cimport size_t
from libc.stdint cimport int64_t
from libc.string cimport memcpy
from queuecore._core.atoms.memory cimport free, realloc
from queuecore._core.atoms.platform cimport kMostBytes, size_product
from queuecore._core.atoms.process cimport buffer_give, buffer_take

cdef enum:
    # From this size on, memory comes from the buffers that the process keeps: the allocator would unmap it each time,
    # and new pages cost more than filling them.
    KEPT_ROOM = 128 << 10
    DUE_BYTES = 64 << 20     # most bytes that are made room for at a first row

cdef struct Growing:
    unsigned char* data
    int64_t nbytes
    int64_t room


cdef inline bint grow(Growing* g, int64_t extra_bytes) noexcept nogil:
    # Makes room for `extra_bytes` behind those that are there. False: no memory.
    cdef int64_t room = g.room + g.room // 2
    cdef void* data
    if extra_bytes <= g.room - g.nbytes:
        return True
    if extra_bytes > kMostBytes - g.nbytes:
        return False
    if room < g.nbytes + extra_bytes:
        room = g.nbytes + extra_bytes
    if room < 4096:
        room = 4096
    data = realloc(g.data, room) if room < KEPT_ROOM else _grown(g, _kept_class(room))
    if data == NULL:
        return False
    g.data = <unsigned char*>data
    g.room = room if room < KEPT_ROOM else _kept_class(room)
    return True


cdef inline bint grow_rows(Growing* g, int64_t nbytes, int64_t due) noexcept nogil:
    # As grow, for a row: a buffer without room gets room for as many like it as are due, within a limit.
    return grow(g, nbytes if g.room > 0 else max(nbytes, min(nbytes * due, <int64_t>DUE_BYTES)))


cdef inline int64_t _kept_class(int64_t nbytes) noexcept nogil:
    # Few sizes, so that a buffer that was given back fits: the powers of two, and halfway between them.
    cdef int64_t size = KEPT_ROOM
    while size < nbytes:
        size *= 2
    return size // 4 * 3 if size // 4 * 3 >= nbytes else size


cdef inline void* _grown(Growing* g, int64_t room) noexcept nogil:
    # Moves to a buffer of so much room. NULL: there is none, and it is as it was.
    cdef void* data = buffer_take(room)
    if data != NULL:
        if g.nbytes > 0:
            memcpy(data, g.data, g.nbytes)
        growing_free(g)
    return data


cdef inline void growing_free(Growing* g) noexcept nogil:
    # Frees the memory, and leaves the fields as they are.
    if g.room < KEPT_ROOM:
        free(g.data)
    else:
        buffer_give(g.data, g.room)


cdef inline void* array_room(void* array, int64_t count, int64_t* room, size_t item_bytes) noexcept nogil:
    # Returns where the array is once it has room for an item more than `count`. NULL: no memory, and it is as it was.
    cdef void* grown
    if count < room[0]:
        return array
    grown = realloc(array, size_product(2 * room[0] + 4, item_bytes))
    if grown != NULL:
        room[0] = 2 * room[0] + 4
    return grown
