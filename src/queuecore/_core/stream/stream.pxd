# Streams: one iteration over a plan.
from libc.stdint cimport int64_t, uint64_t
from queuecore._core.stream.pipe cimport BatchLease, Pipe
from queuecore._core.atoms.platform cimport Batch
from queuecore._core.stream.running cimport Running
from queuecore._core.stream.scope cimport Scope
from queuecore._core.stream.waiting cimport Stall


cdef class Stream(Running):
    cdef bint on_hold_raise
    cdef public bint warned  # the warning that batches are held was given, or is not wanted
    cdef Stall stall
    cdef int64_t spin_ns
    cdef int64_t copied       # batches
    cdef int64_t* records     # that were delivered, of the times
    cdef Scope scope          # of the functions that make elements for it, or None
    cdef bint raw             # batches are delivered as columns
    # the last call raised the error of an element, and the next call goes on behind that element
    cdef bint behind

    cdef object _next(self, object make)
    cdef int await_batch(self) except -1
    cdef bint _until_ready(self) except -1
    cdef int _look(self, Pipe* p, uint64_t k) except -1
    cdef int _raise_break(self, Pipe* p, uint64_t k) except -1
    cdef int _raise_owed(self, Pipe* p, uint64_t k) except -1
    cdef object _deliver(self, Pipe* p, uint64_t k, object make)
    cdef BatchLease _leased(self, Pipe* p, uint64_t k)
    cdef int _say_held(self, int64_t most) except -1
    cdef void _taken(self, Pipe* p, uint64_t k, list arrays) noexcept
    cdef int _send(self, Pipe* p, uint64_t k) except -1
    cdef object _deliver_there(self, Pipe* p, uint64_t k, object make)
    cdef void note(self, Pipe* p, Batch* b, uint64_t k) noexcept nogil
    cdef object _next_record(self, object make)
    cdef void _await_notes(self) noexcept
    cdef dict _stats(self, Pipe* p, int64_t dropped, int64_t helped)
    cdef int _leave_place(self, list later, stop, then) except -1
