# State that exists once in the process, for all extension modules: the table of system calls, the fork generation, the
# count of native threads, the list of running runners and the buffers kept for the next one. Only process.pyx touches
# that state.
from libc.stddef cimport size_t
from libc.stdint cimport int32_t, int64_t, uint64_t
from queuecore._core.atoms.platform cimport Runner, Syscalls, ThreadMain, share_syscalls

cdef int same_layout(uint64_t hash) except -1
# The table of system calls of the whole process.
cdef const Syscalls* process_syscalls() noexcept nogil


cdef inline int check_layout(uint64_t hash) except -1:
    # Every extension module calls this at import with its own layout_hash(): a module built against other headers than
    # `process` would see the shared structs in another shape, and have system calls of its own.
    same_layout(hash)
    share_syscalls(<Syscalls*>process_syscalls())
    return 0


# Changes in a forked child: native threads do not exist there, so objects made before the fork must not be used.
cdef uint64_t fork_generation() noexcept nogil
# True if event counts may be `light` (parking.pxd): the kernel has accepted the registration for membarrier().
cdef bint light_notify() noexcept nogil
cdef int native_thread_start(ThreadMain main, void* arg, const char* name) noexcept nogil
cdef void native_thread_ended() noexcept nogil
cdef int32_t live_threads() noexcept nogil
cdef void registry_add(Runner* r) noexcept nogil
cdef void registry_remove(Runner* r) noexcept nogil
# Calls visit on every registered runner while the registry's turn is held: visit must not wait.
cdef void registry_visit(void (*visit)(Runner*) noexcept nogil) noexcept nogil
# Returns page-aligned memory of any content, or NULL if there is none. A few buffers that were given back stay mapped,
# up to 64 MiB in all, for the next caller that wants about the same size (an epoch loop makes the same pipeline again
# and again, and first touch costs more than filling it); the kernel may take their pages when memory is short. Sizes
# are rounded up to classes, eight from one power of two to the next.
cdef void* buffer_take(size_t nbytes) noexcept nogil
cdef void buffer_give(void* p, size_t nbytes) noexcept nogil
