# Slots: the memory in which a queue's elements lie, and the conversion of values into and out of it.
#
# A slot holds one element: components of a fixed size in its bytes, a Varying for each other one, and references in a
# list beside. A thread that has taken a slot, or a token out of the queue, owns the slot until it releases it or hands
# it over (I1 in pool.pxd). All calls need the GIL, except those marked nogil, which any thread may make. A reference
# must keep the slots alive.
from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t
from libc.string cimport memcpy
from cpython.object cimport PyObject
from queuecore._core.atoms.dims cimport MAX_DIMS
from queuecore._core.atoms.platform cimport Fault
from queuecore._core.atoms.pool cimport SlotPool
from queuecore._core.steps.stages cimport Cell

cdef enum:
    COPY_BYTES = 64 << 10   # from here a copy lets other Python threads run

cdef enum:
    PART_FIXED = 0          # bytes of one size, in the slot
    PART_VARYING = 1        # a Varying in the slot
    PART_BYTES = 2          # a Varying that holds a string of bytes, or, with dimensions, several (_pack says how)
    PART_STR = 3            # the same, of text in UTF-8
    PART_OBJECT = 4         # a reference in the list of objects

cdef struct Varying:
    void* data              # keeps its room from element to element
    int64_t room
    int64_t nbytes
    int32_t ndim
    Py_ssize_t dims[MAX_DIMS]

# Numbers of Python and NumPy that go into a slot as they are, without an array in between.
cdef enum:
    SCALAR_NONE = 0
    SCALAR_BOOL = 1
    SCALAR_INT = 2
    SCALAR_UINT = 3
    SCALAR_FLOAT = 4

cdef struct SlotPart:
    int32_t kind
    int32_t ndim
    int32_t scalar
    bint any_shape
    int64_t offset          # in the slot
    int64_t nbytes          # bytes of a row
    Py_ssize_t dims[MAX_DIMS]


cdef inline void copy_bytes(void* target, const void* source, int64_t nbytes) noexcept:
    if nbytes < COPY_BYTES:
        memcpy(target, source, nbytes)
    else:
        with nogil:
            memcpy(target, source, nbytes)


cdef class SlotComponent:
    cdef readonly object dtype
    cdef readonly tuple shape
    cdef readonly int holds   # PART_FIXED, also for what varies in shape; PART_BYTES, PART_STR or PART_OBJECT
    cdef readonly object convert


cdef class QueueDescription:
    cdef readonly str kind
    cdef readonly str name
    cdef readonly int store
    cdef readonly int64_t capacity
    cdef readonly list components
    cdef public int64_t min_after_dequeue
    cdef public tuple names
    cdef public bint pad
    cdef public tuple seeds
    cdef public uint64_t start


cdef class Slots:
    cdef SlotPool* pool
    cdef SlotPart* parts
    cdef int part_count
    cdef bint has_objects, has_varying, has_buffers, pad
    cdef list dtypes
    cdef list converts        # by component
    cdef list objects         # by slot: the references of its element
    cdef readonly tuple names
    cdef readonly str kind
    cdef readonly str name

    cdef int64_t _lay_out(self, list components) except -1
    cdef uint32_t _slot(self) except? 0xffffffff
    cdef int _room_for(self, uint32_t slot) except -1
    cdef void _release(self, const uint32_t* tokens, int64_t n) noexcept
    cdef object _components_of(self, values)
    cdef object _part_of(self, int i, value, bint is_batch)
    cdef bint _is_component(self, values)
    cdef object _prepare(self, values, bint is_batch, int64_t* n)
    cdef int _fill(self, uint32_t slot, PyObject** ready, int64_t row) except -1
    cdef int _stackable(self, str what) except -1
    cdef object _element(self, uint32_t slot)
    cdef list _columns(self, const uint32_t* tokens, int64_t n)
    cdef object _copy_out(self, const uint32_t* tokens, int64_t n, list out, bint is_batch)
    cdef object _shaped(self, list parts)
    cdef int _placeable(self, str what, int64_t n) except -1
    cdef list _blank(self, int64_t n)
    cdef void _clear(self, const uint32_t* tokens, int64_t n) noexcept
    cdef list _views(self, const uint32_t* tokens, int64_t n, object base)
    cdef object _misfit(self, const Fault* fault)

    # Without the GIL, and only for queues without references. slot_take takes a free slot; False: no memory.
    cdef bint slot_take(self, uint32_t* slot) noexcept nogil
    cdef void slot_give(self, uint32_t slot) noexcept nogil
    # Returns the address of component i of the element in a slot, and its size in *nbytes; NULL: it has no fixed size.
    cdef unsigned char* slot_place(self, uint32_t slot, int i, int64_t* nbytes) noexcept nogil
    # Fills component i, unless it lies in its place already. False: it doesn't fit, or no memory (_misfit makes the
    # exception).
    cdef bint slot_fill(self, uint32_t slot, int i, const Cell* cell, Fault* fault) noexcept nogil
    # Returns the address of component i of the element in a slot, its number of bytes and its shape. Strings lie as
    # _pack says.
    cdef const void* slot_part(self, uint32_t slot, int i, int64_t* nbytes, int32_t* ndim,
                               const Py_ssize_t** dims) noexcept nogil
    # Finds the one string of an element whose only component is of strings. False: it holds none, or several.
    cdef bint slot_string(self, uint32_t slot, const unsigned char** data, int64_t* nbytes) noexcept nogil
