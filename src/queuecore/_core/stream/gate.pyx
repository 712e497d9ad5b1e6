"""The gate for the calls of several threads to one stream."""
cimport cython
from cpython.exc cimport PyErr_CheckSignals
from cpython.pystate cimport PyThreadState, PyThreadState_Get
from libc.stdint cimport uint32_t
from queuecore._core.atoms.errors cimport CODE_FORKED, CODE_PRECONDITION, raise_error, raise_from
from queuecore._core.atoms.memory cimport free
from queuecore._core.atoms.process cimport check_layout, fork_generation
from queuecore._core.atoms.parking cimport event_notify_all, event_prepare, event_wait
from queuecore._core.atoms.platform cimport EventCount, alloc_lines, layout_hash, monotonic_ns
from queuecore._core.atoms.runtime cimport WAIT_SLICE_NS, exiting, still_waiting, wait_out_exit, waited

check_layout(layout_hash())


@cython.no_gc_clear
cdef class CallGate:
    def __cinit__(self, *_, **__):
        self.generation = fork_generation()
        self.state = STATE_CLOSED  # until the constructor has set all up
        self.released = <EventCount*>alloc_lines(sizeof(EventCount))
        if self.released == NULL:
            raise MemoryError

    def __dealloc__(self):
        free(self.released)

    cdef bint is_open(self) noexcept:
        return self.state == STATE_RUNNING and self.generation == fork_generation()

    cdef int enter(self) except -1:
        cdef PyThreadState* me = PyThreadState_Get()
        if self.generation != fork_generation():
            self.refuse()
        if self.holder != me:
            if self.holder != NULL:
                self._queue()
            self.holder = me
        elif self.changing:
            raise_error(CODE_PRECONDITION,
                "this thread is in the middle of a call that begins or changes the iterator's run: what runs within "
                "that call, such as a signal handler, can close the iterator, but not go on with it")
        self.depth += 1
        return 0

    cdef int _queue(self) except -1:
        cdef uint32_t epoch
        waited()
        while self.holder != NULL:
            if exiting():  # the holder's thread may never run again
                wait_out_exit()
                self.state = STATE_CLOSED
            if self.state == STATE_CLOSED or self.state == STATE_FAILED:
                self.refuse()
            self.queued += 1
            epoch = event_prepare(self.released)
            with nogil:
                # ends with the holder's call, a close, or the time
                event_wait(self.released, epoch, monotonic_ns() + WAIT_SLICE_NS)
            self.queued -= 1
            PyErr_CheckSignals()
            still_waiting()
        waited()
        return 0

    cdef void leave(self) noexcept:
        if self.holder != PyThreadState_Get():  # this call let others in, and has not entered again
            return
        self.depth -= 1
        if self.depth == 0:
            self.holder = NULL
            if self.queued > 0:
                event_notify_all(self.released)

    cdef bint let_in(self) noexcept:
        if self.depth > 1:
            return False
        self.leave()
        return True

    cdef int refuse(self) except -1:
        if self.generation != fork_generation():
            raise_error(CODE_FORKED,
                "this iterator was made before os.fork(), and its native threads exist only in the parent process. "
                "Make the iterator in the child")
        if self.state == STATE_ENDED:
            raise StopIteration
        if self.state == STATE_CLOSED:
            raise_error(CODE_PRECONDITION, "this iterator is closed; make a new one with iter(dataset)")
        if self.state == STATE_FAILED:
            raise_from(CODE_PRECONDITION,
                "this iterator is closed since an error ended it (see __cause__); make a new one with iter(dataset)",
                self.failure)
        return 0


cdef int never_made() except -1:
    raise_error(CODE_PRECONDITION, "this iterator was never made: its __init__ has not been called, or has failed")
