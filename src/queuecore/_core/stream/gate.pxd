# The gate for the calls of several threads to one stream.
#
# One call is in at a time. The thread in the middle of a change is the holder, and others wait for it:
# without the GIL, in slices, so that they notice signals, and a close(), which doesn't wait. A thread that waits for a
# batch is no holder: others may take the batch, or go to another place. On the holder's own thread, signal handlers and
# finalizers may make further calls wherever Python runs: after that, the holder checks that the state that it is about
# to change is still the same.
from cpython.pystate cimport PyThreadState
from libc.stdint cimport uint64_t
from queuecore._core.atoms.platform cimport EventCount

cdef enum:
    # CallGate.state
    STATE_RUNNING = 0
    STATE_ENDED = 1
    STATE_CLOSED = 2
    STATE_FAILED = 3


cdef class CallGate:
    cdef int state
    cdef object failure
    cdef uint64_t generation
    # Under the GIL:
    cdef PyThreadState* holder # that of the thread in the middle of a change; NULL: none
    cdef int depth             # number of the holder's nested calls: signal handlers and finalizers run within a call
    cdef bint changing         # the holder begins a run, or goes to another place: a nested call can't take elements
    cdef int queued            # number of threads that wait for the holder
    cdef EventCount* released  # notified when the holder leaves

    # Whether elements may still come: it is neither closed nor at its end, nor in a forked child.
    cdef bint is_open(self) noexcept
    # Begins a call; each is ended by leave(). Raises where it can't begin.
    cdef int enter(self) except -1
    cdef void leave(self) noexcept
    # Leaves before a wait, so that other threads may enter. False: not left, since this call is nested in another.
    # True: the caller must enter() after the wait.
    cdef bint let_in(self) noexcept
    # Raises what a call gets that is not open.
    cdef int refuse(self) except -1

    cdef int _queue(self) except -1


# Raises: an iterator is used without a call of its `__init__`.
cdef int never_made() except -1
