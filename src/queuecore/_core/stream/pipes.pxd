# Pipes: those of a stream, one after the other. A new one begins after a resume, an error of an element, or records
# that are left out.
#
# The pipes know neither the calls nor what a place means: they begin where a course says, and give up the pipe that
# runs when they are told to. An error that ends the stream is returned, as an exception, and not raised. Under the GIL,
# by the holder (gate.pxd), but for what says nogil.
from libc.stdint cimport int32_t, int64_t, uint64_t
from queuecore._core.atoms.platform cimport Batch
from queuecore._core.atoms.timeline cimport Timeline
from queuecore._core.stream.course cimport Course
from queuecore._core.stream.describe cimport Description, Keeper
from queuecore._core.stream.feed cimport Feed
from queuecore._core.stream.meter cimport Times
from queuecore._core.stream.pipe cimport BatchLease, Pipe
from queuecore._core.stream.to_device cimport ToDevice
from queuecore._core.stream.views cimport Views


cdef class Pipes:
    cdef uint64_t generation  # of the process that made it
    cdef Pipe* current        # the one that runs, or has run last; NULL: none, or it was discarded
    cdef uint64_t next_k      # number of its next batch
    # on its next batch, from the first call that began to deliver it: so its slot is freed once
    cdef BatchLease lease
    cdef Feed feed            # of its rows; None: nobody hands them in
    cdef object feeder        # callable that gets the Feed of each run, and starts to hand in rows; or None
    cdef Keeper keeper        # of the plan
    cdef Views views
    cdef ToDevice to_device   # the way of batches to a device, or None
    cdef Times times
    cdef int64_t* ready       # of the times
    cdef int64_t helped_before  # units that the consumer ran in earlier pipes
    cdef int64_t pool_before, rings_before  # requests of the engine's crews in earlier pipes
    cdef int32_t count        # so many pipes have begun
    cdef Timeline timeline    # or None
    cdef bint traced          # it is being drawn

    # Once, before all other calls, with the keeper in its place.
    cdef int set_up(self, Description d, Views views) except -1
    # Makes a pipe that begins where the course says. If it returns an error, there is no pipe.
    cdef object make(self, Course course, Pipe** pipe)
    # Starts the threads of a pipe that was made, which is the current one from here on. If it raises, the pipe is gone,
    # and the run has not begun.
    cdef object begin(self, Pipe* p, Course course)
    # Returns the current pipe, held, or NULL; pipe_drop takes both.
    cdef Pipe* hold(self) noexcept
    # Wakes the threads of the current pipe, and all that wait for it.
    cdef void wake(self) noexcept
    # Lets the threads of the current pipe end, and all that wait for it. Never waits.
    cdef void stop(self) noexcept
    # Stops the current pipe, waits for its threads, because the next pipe shares the file table, and gives it up.
    # False: there was none, or a signal handler has given it up meanwhile.
    cdef bint discard(self) except *
    # Returns the lease on the next batch, k, which is the same until that one is taken.
    cdef BatchLease leased(self, Pipe* p, uint64_t k)
    # Ends the use of batch k, which the consumer takes, or passes over: its descriptor is free from here on.
    cdef void take(self, Pipe* p, const Batch* b, uint64_t k) noexcept nogil
    cdef void pass_over(self, Pipe* p, uint64_t k) noexcept nogil
    # Returns the error of a file that has changed since records were given from it; None: there is none, or it is left
    # out and logged.
    cdef object changed(self, Pipe* p, Course course)
    # Lets the threads note what they do, or no longer; `ranges`: as of `Stream.trace`.
    cdef Timeline trace(self, bint on, ranges)
    # Where no more elements come, lets threads that are about to end note what they did last. One that is stuck isn't
    # waited for.
    cdef void await_notes(self) noexcept
    cdef dict stats(self)

    cdef void _count_ready(self, Pipe* p, uint64_t k) noexcept nogil
