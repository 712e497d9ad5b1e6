# Inputs of the fuzzer. A target is a function over the bytes of an input: the first few choose how the parser is
# called, the rest is what it gets, in blocks of memory of exactly that size. It returns what is wrong with the parser,
# as a sentence, or NULL. The same input always takes the same course.
from libc.stdint cimport int64_t
from libc.string cimport memcmp, memcpy
from queuecore._core.atoms.memory cimport malloc, realloc

ctypedef const char* Verdict

cdef struct Given:
    const unsigned char* p
    int64_t n


cdef inline int64_t choice(Given* g) noexcept nogil:
    # The next byte, which chooses something; 0 where there is none.
    if g.n == 0:
        return 0
    g.p += 1
    g.n -= 1
    return g.p[-1]


cdef inline unsigned char* copy_of(const unsigned char* p, int64_t n) noexcept nogil:
    # In memory of just that size, so that a sanitizer sees who reads more.
    cdef unsigned char* made = <unsigned char*>malloc(n if n > 0 else 1)
    if n > 0:
        memcpy(made, p, n)
    return made


# Bytes that become more.
cdef struct Growing:
    unsigned char* p
    int64_t n, room


cdef inline void append(Growing* g, const void* p, int64_t n) noexcept nogil:
    if g.n + n > g.room:
        g.room = 2 * (g.n + n) + 256
        g.p = <unsigned char*>realloc(g.p, g.room)
    if n > 0:
        memcpy(g.p + g.n, p, n)
    g.n += n


cdef inline bint same(const Growing* a, const Growing* b) noexcept nogil:
    return a.n == b.n and (a.n == 0 or memcmp(a.p, b.p, a.n) == 0)


cdef inline int64_t least(int64_t a, int64_t b) noexcept nogil:
    return a if a < b else b
