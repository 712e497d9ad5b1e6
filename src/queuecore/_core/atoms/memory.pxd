# The allocator of native code, by the names of the C library: through the table of system calls (syscalls.hpp), so that
# tests can let any request fail. Memory taken here is freed here; that of alloc_lines, too.
from libc.stddef cimport size_t

cdef extern from "queuecore/syscalls.hpp" namespace "queuecore" nogil:
    void* malloc(size_t nbytes) noexcept
    void* calloc(size_t count, size_t nbytes) noexcept
    void* realloc(void* p, size_t nbytes) noexcept
    void free(void* p) noexcept
    char* strdup(const char* text) noexcept
