# Running: how the pipes of a stream begin and end, one after the other. Under the GIL, by the holder (gate.pxd).
from libc.stdint cimport int32_t, int64_t, uint64_t
from queuecore._core.atoms.timeline cimport Timeline
from queuecore._core.stream.course cimport Course
from queuecore._core.stream.describe cimport Keeper
from queuecore._core.stream.feed cimport Feed
from queuecore._core.stream.pipe cimport BatchLease, Pipe
from queuecore._core.stream.to_device cimport ToDevice
from queuecore._core.stream.views cimport Views


cdef class Running(Course):
    cdef Views views
    cdef ToDevice to_device   # the way of batches to a device, or None
    cdef Keeper keeper
    cdef object feeder        # callable that gets the Feed of each run, and starts to hand in rows
    # callable that returns the error of an input whose files have changed, or None; None: there are no inputs
    cdef object settle_inputs
    cdef Feed feed
    # on the next batch, from the first call that began to deliver it: so its slot is freed once
    cdef BatchLease lease
    cdef int64_t helped_before  # units that the consumer ran in earlier pipes
    cdef int64_t asked_before   # requests of the engine in earlier pipes
    cdef int32_t pipe_count   # so many pipes have begun
    cdef Timeline timeline    # or None
    cdef bint traced          # it is being drawn

    cdef Feed _feed(self)
    cdef int _start(self) except -1
    cdef int _begin_run(self) except -1
    cdef int _discard_pipe(self) except -1
    cdef int _recover(self, uint64_t k) except -1
    cdef bint _leave_out(self) except -1
    cdef int _repeat_fault(self, Pipe* p) except -1
    cdef int _log_files(self, Pipe* p, bint all_) except -1
    # Ends the stream with this error, and raises it.
    cdef int _fail(self, object error) except -1
    cdef int _close_kept(self, const Pipe* p) noexcept
    cdef int _stopped(self, Pipe* p) except -1
    cdef int _end(self, Pipe* p) except -1
    cdef object _changed(self, Pipe* p)
