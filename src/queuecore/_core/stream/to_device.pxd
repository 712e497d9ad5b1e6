# To a device: the way of a stream's batches to a device, and their arrays there.
from libc.stdint cimport int64_t, uint64_t
from queuecore._core.device.driver cimport Device, Failure
from queuecore._core.device.lease cimport DeviceLease
from queuecore._core.device.transfer cimport Transfer
from queuecore._core.stream.pipe cimport Pipe
from queuecore._core.stream.views cimport Views


# Under the GIL. An error that ends the stream is returned, as an exception, and not raised.
cdef class ToDevice:
    cdef Device device
    cdef object target        # queuecore._device.target.Target, of which the next three are parts:
    cdef object arrays        # makes arrays over device memory
    cdef bint ring            # a batch is valid until the next one is taken
    cdef object widen         # converts a batch on the device (queuecore._device.target.Widening), or None
    cdef object kernel        # of the pipe
    cdef object compiled      # the compiled kernel; must live as long as it is launched
    cdef DeviceLease last     # with a ring: the lease on the batch before
    cdef Transfer* transfer   # of the pipe, or NULL
    cdef int64_t sent_before, pageable_before  # counters of earlier transfers
    cdef bint warned_pageable

    # Sets the queuecore._device.target.Target; once, before all other calls.
    cdef int set_target(self, target) except -1
    # Starts the transfer of a pipe. Raises errors of its kernel, and warnings that are errors.
    cdef object start(self, Pipe* p, Views views)
    # Has the transfer note its copies, if the pipe's threads note what they do, or no longer. Under the GIL.
    cdef void trace(self, Pipe* p) noexcept nogil
    cdef void end(self) noexcept
    # Waits until the transfer's thread, which was told to end, has ended, or the deadline passes.
    cdef void join(self, int64_t deadline_ns) noexcept
    # Returns the error for slots that could not be page-locked.
    cdef object refused(self, int result, int64_t nbytes)
    cdef bint is_ready(self, uint64_t k) noexcept nogil
    # Returns the error that ended the transfer, or None.
    cdef object failure(self)
    # Waits until batch k is on its way, the transfer ends, or a slice of time is over.
    cdef void wait(self, uint64_t k) noexcept
    # True if the consumer holds all batches that may be on the device; the last batch of a ring doesn't count.
    cdef bint is_full(self) noexcept
    # Returns device memory for a copy of batch k.
    cdef object room(self, uint64_t k)
    # Returns the batch's components on the device: in `memory`, or, if that is None, in its slot.
    cdef list arrays_of(self, Pipe* p, DeviceLease lease, memory, int64_t rows, int64_t subs, Views views)
    # Notes that the consumer has taken a batch.
    cdef int taken(self, DeviceLease lease, bint copied) except -1
    cdef dict stats(self)

    cdef object _failed(self, const Failure* failure)
    cdef bint _goes(self) noexcept
