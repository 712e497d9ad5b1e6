# To a device: the way of a stream's batches there, and their arrays.
from libc.stdint cimport int64_t, uint64_t
from queuecore._core.device.driver cimport Device, Failure
from queuecore._core.device.lease cimport DeviceLease
from queuecore._core.device.transfer cimport Transfer
from queuecore._core.stream.pipe cimport Pipe
from queuecore._core.stream.views cimport Views


# Under the GIL. What ends the stream is returned, as an exception, and not raised.
cdef class ToDevice:
    cdef Device device
    cdef object target        # queuecore._device.target.Target, of which these are parts:
    cdef object arrays        # makes arrays of what lies there
    cdef bint ring            # a batch is good until the next one
    cdef object widen         # makes something else of it there (queuecore._device.target.Widening), or None
    cdef object kernel        # of the pipe
    cdef object compiled      # it; must live as long as it is launched
    cdef DeviceLease last     # of a ring: that of the batch before
    cdef Transfer* transfer   # of the pipe, or NULL
    cdef int64_t sent_before, pageable_before
    cdef bint warned_pageable

    # Once, before all else: a queuecore._device.target.Target.
    cdef int set_target(self, target) except -1
    # The transfer of a pipe. Raises what its kernel, or a warning, raises.
    cdef object start(self, Pipe* p, Views views)
    cdef void end(self) noexcept
    # Slots could not be page-locked.
    cdef object refused(self, const Pipe* plan)
    cdef bint is_ready(self, uint64_t k) noexcept nogil
    # Why the transfer has ended, if a failure ended it.
    cdef object failure(self)
    # Until batch k is on its way, the transfer ends, or a slice of time is over.
    cdef void wait(self, uint64_t k) noexcept
    # The consumer holds as many batches as may be there, those of a ring apart.
    cdef bint is_full(self) noexcept
    # Memory for a copy of batch k.
    cdef object room(self, uint64_t k)
    # Its components there; in `memory`, if that isn't None, or else where they lie.
    cdef list arrays_of(self, Pipe* p, DeviceLease lease, memory, int64_t rows, int64_t subs, Views views)
    # The consumer has it.
    cdef int taken(self, DeviceLease lease, bint copied) except -1
    cdef dict stats(self)

    cdef object _failed(self, const Failure* failure)
    cdef bint _goes(self) noexcept
