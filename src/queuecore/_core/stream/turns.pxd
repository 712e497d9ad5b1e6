# Turns: the calls of several threads to one stream.
#
# Calls from several threads take turns. Who is in the middle of a change is the holder, and others wait for it: without the GIL, in
# slices, so that they hear signals, and a close(), which doesn't wait. Who waits for a batch is no holder: others may take it, or go to
# another place. On the holder's own thread, signal handlers and finalizers may make further calls wherever Python runs: so it looks
# again, after that, whether what it is about to change is still as it was.
from libc.stdint cimport uint64_t
from queuecore._core.atoms.platform cimport EventCount

cdef enum:
    # Turns.state
    STATE_RUNNING = 0
    STATE_ENDED = 1
    STATE_CLOSED = 2
    STATE_FAILED = 3


cdef class Turns:
    cdef int state
    cdef object failure
    cdef uint64_t generation
    # One thread at a time is in the middle of a change: the holder. All of this is under the GIL.
    cdef unsigned long holder # 0: nobody
    cdef int depth            # of its calls: signal handlers and finalizers run within them
    cdef bint changing        # its run is begun, or exchanged for another: no other call can go on within
    cdef int queued           # others that wait for it
    cdef EventCount* released # where they wait

    cdef int _enter(self) except -1
    cdef int _queue(self) except -1
    cdef void _leave(self) noexcept
    cdef bint _let_in(self) noexcept
    cdef int _refuse(self) except -1


# Raises: an iterator is used without a call of its `__init__`.
cdef int never_made() except -1
