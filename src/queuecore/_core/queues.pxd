# What native code may do with a queue: take and put elements without the GIL. Any thread; the queue must be kept alive by a reference.
from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t
from queuecore._core.handoff cimport FrontRun, Hand, Op
from queuecore._core.platform cimport Fault
from queuecore._core.pool cimport SlotPool
from queuecore._core.random cimport Philox
from queuecore._core.runtime cimport StopEvent
from queuecore._core.stages cimport Cell

cdef enum:
    MAX_DIMS = 32

cdef enum:
    PART_FIXED = 0          # bytes of one size, in the slot
    PART_VARYING = 1        # a Varying in the slot
    PART_BYTES = 2          # a Varying that holds a string of bytes, or, with dimensions, several (_pack says how)
    PART_STR = 3            # the same, of text in UTF-8
    PART_OBJECT = 4         # a reference, in the list of objects

cdef struct Varying:
    void* data              # keeps its room from element to element
    int64_t room
    int64_t nbytes
    int32_t ndim
    Py_ssize_t dims[MAX_DIMS]

cdef struct Part:
    int32_t kind
    int32_t ndim
    bint any_shape
    int64_t offset          # in the slot
    int64_t nbytes          # of a row
    Py_ssize_t dims[MAX_DIMS]


cdef class NativeQueue:
    cdef Hand* hand
    cdef SlotPool* pool
    cdef Philox* random
    cdef Part* parts
    cdef int part_count
    cdef bint has_objects, has_varying, has_buffers, pad
    cdef list dtypes
    cdef readonly tuple names
    cdef public object described  # what a shared queue of this name must agree with
    cdef list objects         # by slot: the references of its element
    cdef object convert
    cdef object failure
    cdef uint64_t generation
    cdef int64_t copied_rows, held_rows
    cdef FrontRun* spare      # with room for one key: to give back what was taken, without memory
    cdef readonly str kind
    cdef readonly str name
    cdef object __weakref__

    cdef int _refuse(self) except -1
    cdef uint32_t _slot(self) except? 0xffffffff
    cdef void _release(self, const uint32_t* tokens, int64_t n) noexcept
    cpdef list components_of(self, values)
    cdef list _prepare(self, list values, bint many, int64_t* n)
    cdef int _fill(self, uint32_t slot, list ready, int64_t row) except -1
    cdef int64_t _key(self, uint32_t slot) noexcept
    cdef int _put(self, uint32_t* tokens, int64_t* keys, int64_t n, object timeout) except -1
    cdef int _wait_put(self, Op* op, int64_t deadline, int64_t before, int64_t total) except -1
    cdef int _wait(self, int which, Op* op, int64_t deadline) except -1
    cdef int _look_up(self, bint for_ever) except -1
    cdef object _closed_for_putting(self, int rc)
    cdef object _with_cause(self, object error)
    cdef int _get(self, Op* op, object timeout, int64_t wanted) except -1
    cdef object _too_few(self, int64_t wanted)
    cdef FrontRun* _run(self, int64_t n) except NULL
    cdef int _return(self, Op* op) except -1
    cdef int _return_one(self, uint32_t slot) except -1
    cdef int _lose(self, Op* op) except -1
    cdef void _clear(self, const uint32_t* tokens, int64_t n) noexcept
    cdef int _stackable(self, str what) except -1
    cdef object _component(self, int i, uint32_t slot)
    cdef int _reference(self, int i) noexcept
    cdef void _copy(self, void* target, const void* source, int64_t nbytes) noexcept
    cdef object _stack(self, int i, const uint32_t* tokens, int64_t n)
    cdef void _copy_rows(self, const Part* part, const uint32_t* tokens, int64_t n, unsigned char* target) noexcept
    cdef object _copy_out(self, const uint32_t* tokens, int64_t n, list out, bint many)
    cdef object _element(self, uint32_t slot)
    cdef object _batch(self, const uint32_t* tokens, int64_t n)
    cdef object _shaped(self, list parts)
    cdef int _placeable(self, str what, int64_t n) except -1
    cdef list _views(self, const uint32_t* tokens, int64_t n, object base)
    cdef object _misfit(self, const Fault* fault)

    # Without the GIL; only of queues without references. A free slot; False: no memory.
    cdef bint slot_take(self, uint32_t* slot) noexcept nogil
    cdef void slot_give(self, uint32_t slot) noexcept nogil
    # Where component i of the element in a slot goes, if it is of fixed size, and how long it is; else NULL.
    cdef unsigned char* slot_place(self, uint32_t slot, int i, int64_t* nbytes) noexcept nogil
    # Fills component i, unless it lies in its place already. False: it doesn't fit, or no memory (_misfit has the words).
    cdef bint slot_fill(self, uint32_t slot, int i, const Cell* cell, Fault* fault) noexcept nogil
    # Puts filled slots, in their order, or takes one, waiting until `stop` is set at most: HAND_DONE, or HAND_SLICE (stopped), or why
    # not. *done: how many are put; the others stay the caller's.
    cdef int slots_put(self, const uint32_t* slots, int n, StopEvent stop, int* done) noexcept nogil
    cdef int _slot_wait(self, uint32_t slot, int64_t key, StopEvent stop) noexcept nogil
    cdef int slot_get(self, uint32_t* slot, StopEvent stop) noexcept nogil
    # Component i of the element in a slot: where its bytes are, how many, and its shape. Of strings: as _pack says.
    cdef const void* slot_part(self, uint32_t slot, int i, int64_t* nbytes, int32_t* ndim, const Py_ssize_t** dims) noexcept nogil
    # The one string of an element whose only component is of strings. False: it holds none, or several.
    cdef bint slot_string(self, uint32_t slot, const unsigned char** data, int64_t* nbytes) noexcept nogil
