# Streams: one iteration over a plan.
#
# A stream is put together of three parts, none of which knows of the others' concerns: the gate lets in one call at a
# time, and says whether more elements may come; the course is the place, and what belongs to it; the pipes do the work.
# The stream itself delivers what the pipes have made, moves the course over it, and decides what follows an error.
from libc.stdint cimport int64_t, uint64_t
from queuecore._core.stream.course cimport Course
from queuecore._core.stream.gate cimport CallGate
from queuecore._core.stream.pipe cimport Pipe
from queuecore._core.stream.pipes cimport Pipes
from queuecore._core.atoms.platform cimport Batch
from queuecore._core.stream.scope cimport Scope
from queuecore._core.stream.views cimport Views
from queuecore._core.stream.waiting cimport Stall


cdef class Stream:
    cdef CallGate gate
    cdef Course course
    cdef Pipes pipes
    cdef Views views
    cdef Stall stall
    cdef Scope scope          # of the functions that make elements for it, or None
    # callable that returns the error of an input whose files have changed, or None; None: there are no inputs
    cdef object settle_inputs
    cdef bint on_hold_raise
    cdef public bint warned   # the warning that batches are held was given, or is not wanted
    cdef bint told            # another thread asked the stream to end
    cdef bint raw             # batches are delivered as columns
    # the last call raised the error of an element, and the next call goes on behind that element
    cdef bint behind
    cdef list chunk           # arrays of the records not yet handed out one by one
    cdef int64_t chunk_at, chunk_rows
    cdef int64_t spin_ns
    cdef int64_t copied       # batches
    cdef int64_t* records     # that were delivered, of the times

    cdef object _next(self, object make)
    cdef int await_batch(self) except -1
    cdef bint _until_ready(self) except -1
    cdef int _look(self, Pipe* p, uint64_t k) except -1
    cdef int _raise_break(self, Pipe* p, uint64_t k) except -1
    cdef int _raise_owed(self, Pipe* p, uint64_t k) except -1
    cdef object _deliver(self, Pipe* p, uint64_t k, object make)
    cdef void _taken(self, Pipe* p, uint64_t k, list arrays) noexcept
    cdef void _take(self, Pipe* p, const Batch* b, uint64_t k, int64_t elements) noexcept nogil
    cdef int _send(self, Pipe* p, uint64_t k) except -1
    cdef object _deliver_there(self, Pipe* p, uint64_t k, object make)
    # Counts and takes batch k as a delivery does, for an inner stream, whose shuffles' counters are its own.
    cdef void note(self, Pipe* p, Batch* b, uint64_t k) noexcept nogil
    cdef object _next_record(self, object make)
    cdef int _start(self) except -1
    cdef int _begin_run(self) except -1
    cdef bint _discard_pipe(self) except *
    cdef int _recover(self, uint64_t k) except -1
    cdef bint _leave_out(self) except -1
    cdef int _log_files(self, Pipe* p, bint all_) except -1
    # Ends the stream with this error, and raises it; None: does nothing.
    cdef int _fail(self, object error) except -1
    cdef int _close_kept(self, const Pipe* p) noexcept
    cdef int _stopped(self, Pipe* p) except -1
    cdef int _end(self, Pipe* p) except -1
    cdef int _check_made(self) except -1
    cdef int _leave_place(self, list later, stop, callback) except -1
