# The calls by which native code takes and puts elements of a queue without the GIL. Any thread may make them; a
# reference must keep the queue alive.
from libc.stdint cimport int64_t, uint32_t, uint64_t
from queuecore._core.handoff.handoff cimport FrontRun, Hand, QueueOp
from queuecore._core.atoms.random cimport Philox
from queuecore._core.atoms.runtime cimport StopEvent
from queuecore._core.handoff.slots cimport Slots

cdef enum:
    SAMPLED = 8
    DEPTHS = 65


cdef class NativeQueue(Slots):
    cdef Hand* hand
    cdef Philox* random
    cdef public object described  # the description that another queue of this shared name must equal
    cdef object failure
    cdef uint64_t generation
    cdef int64_t copied_rows, held_rows
    cdef int64_t gets         # calls that take elements
    # of one of SAMPLED such calls: how often there were 0 elements, 1, 2 to 3, 4 to 7, and so on
    cdef int64_t[DEPTHS] depths
    cdef FrontRun* spare      # with room for one key: to give back a taken element without allocating
    cdef object __weakref__

    cdef int _refuse(self) except -1
    cdef void _note_depth(self) noexcept
    cdef int _forked(self) except -1
    cdef int64_t _key(self, uint32_t slot) noexcept
    cdef int _put(self, uint32_t* tokens, int64_t* keys, int64_t n, object timeout) except -1
    cdef int _wait_put(self, QueueOp* op, int64_t deadline, int64_t before, int64_t total) except -1
    cdef int _wait(self, int side, QueueOp* op, int64_t deadline) except -1
    cdef int _look_up(self, bint for_ever) except -1
    cdef object _closed_for_putting(self, int rc)
    cdef object _with_cause(self, object error)
    cdef int _get(self, QueueOp* op, object timeout, int64_t need) except -1
    cdef object _too_few(self, int64_t wanted)
    cdef FrontRun* _run(self, int64_t n) except NULL
    cdef int _return(self, QueueOp* op) except -1
    cdef int _return_one(self, uint32_t slot) except -1
    cdef int _lose(self, QueueOp* op) except -1

    # slots_put puts filled slots in their order, slot_get takes one; both wait at most until `stop` is set. They return
    # HAND_DONE, HAND_SLICE (stopped), or the HAND_ code that says why not. *done: number of slots put; the others stay
    # the caller's.
    cdef int slots_put(self, const uint32_t* slots, int n, StopEvent stop, int* done) noexcept nogil
    cdef int _slot_wait(self, uint32_t slot, int64_t key, StopEvent stop) noexcept nogil
    cdef int slot_get(self, uint32_t* slot, StopEvent stop) noexcept nogil
