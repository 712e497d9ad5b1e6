"""Arrays of rows for other libraries: the Arrow C data interface, without a copy.

An exported array holds references to the NumPy arrays whose memory it shows. A consumer may release it in any thread,
with the GIL or without, so the release callbacks take the GIL; no native thread of queuecore calls one.
"""
cimport numpy as cnp
from cpython.pycapsule cimport PyCapsule_GetPointer, PyCapsule_New
from cpython.ref cimport Py_DECREF, Py_INCREF, PyObject
from libc.stdint cimport int64_t
from queuecore._core.atoms.memory cimport calloc, free
from queuecore._core.atoms.process cimport check_layout
from queuecore._core.atoms.platform cimport layout_hash

cnp.import_array()
check_layout(layout_hash())

# The two structures of the interface, in the order of its specification.
cdef struct ArrowSchema:
    const char* format
    const char* name
    const char* metadata
    int64_t flags
    int64_t n_children
    ArrowSchema** children
    ArrowSchema* dictionary
    void (*release)(ArrowSchema*) noexcept nogil
    void* private_data     # a reference to the bytes of `format`

cdef struct ArrowArray:
    int64_t length
    int64_t null_count
    int64_t offset
    int64_t n_buffers
    int64_t n_children
    const void** buffers
    ArrowArray** children
    ArrowArray* dictionary
    void (*release)(ArrowArray*) noexcept nogil
    void* private_data     # a reference to the arrays behind `buffers`


cdef void _drop(void* reference) noexcept nogil:
    if reference != NULL:
        with gil:
            Py_DECREF(<object><PyObject*>reference)


cdef void _release_schema(ArrowSchema* schema) noexcept nogil:
    # A child that a consumer has moved away is marked as released, but this schema still owns its memory.
    cdef int64_t i
    for i in range(schema.n_children):
        if schema.children[i] != NULL:
            if schema.children[i].release != NULL:
                schema.children[i].release(schema.children[i])
            free(schema.children[i])
    free(schema.children)
    _drop(schema.private_data)
    schema.release = NULL


cdef void _release_array(ArrowArray* array) noexcept nogil:
    cdef int64_t i
    for i in range(array.n_children):
        if array.children[i] != NULL:
            if array.children[i].release != NULL:
                array.children[i].release(array.children[i])
            free(array.children[i])
    free(array.children)
    free(<void*>array.buffers)
    _drop(array.private_data)
    array.release = NULL


cdef void _end_schema(object capsule) noexcept:
    cdef ArrowSchema* schema = <ArrowSchema*>PyCapsule_GetPointer(capsule, "arrow_schema")
    if schema.release != NULL:
        schema.release(schema)
    free(schema)


cdef void _end_array(object capsule) noexcept:
    cdef ArrowArray* array = <ArrowArray*>PyCapsule_GetPointer(capsule, "arrow_array")
    if array.release != NULL:
        array.release(array)
    free(array)


cdef int _fill_schema(ArrowSchema* schema, list levels, Py_ssize_t position) except -1:
    cdef bytes format = levels[position][0]
    schema.release = _release_schema
    schema.format = format
    schema.name = b"" if position == 0 else b"item"
    Py_INCREF(format)
    schema.private_data = <PyObject*>format
    if position + 1 < len(levels):
        schema.children = <ArrowSchema**>calloc(1, sizeof(ArrowSchema*))
        if schema.children == NULL:
            raise MemoryError
        schema.n_children = 1
        schema.children[0] = <ArrowSchema*>calloc(1, sizeof(ArrowSchema))
        if schema.children[0] == NULL:
            raise MemoryError
        _fill_schema(schema.children[0], levels, position + 1)
    return 0


cdef int _fill_array(ArrowArray* array, list levels, Py_ssize_t position) except -1:
    cdef Py_ssize_t i
    cdef cnp.ndarray buffer
    cdef tuple arrays = levels[position][2]
    array.release = _release_array
    array.length = levels[position][1]
    Py_INCREF(arrays)
    array.private_data = <PyObject*>arrays
    # The first buffer, left NULL, would be the bitmap of nulls: without it, no value is null.
    array.buffers = <const void**>calloc(1 + len(arrays), sizeof(void*))
    if array.buffers == NULL:
        raise MemoryError
    array.n_buffers = 1 + len(arrays)
    for i in range(len(arrays)):
        buffer = arrays[i]
        array.buffers[1 + i] = cnp.PyArray_DATA(buffer)
    if position + 1 < len(levels):
        array.children = <ArrowArray**>calloc(1, sizeof(ArrowArray*))
        if array.children == NULL:
            raise MemoryError
        array.n_children = 1
        array.children[0] = <ArrowArray*>calloc(1, sizeof(ArrowArray))
        if array.children[0] == NULL:
            raise MemoryError
        _fill_array(array.children[0], levels, position + 1)
    return 0


def export(list levels not None):
    """Return the capsules of a schema and an array.

    Parameters
    ----------
    levels : list of tuple
        From the outermost to the innermost, each the only child of the one before: format (bytes), length in elements,
        and a tuple of C-contiguous arrays, which become the buffers after the bitmap of nulls.
    """
    cdef ArrowSchema* schema = <ArrowSchema*>calloc(1, sizeof(ArrowSchema))
    cdef ArrowArray* array
    if schema == NULL:
        raise MemoryError
    # From here on the capsule frees the schema, also if an error leaves it half filled.
    first = PyCapsule_New(schema, "arrow_schema", _end_schema)
    _fill_schema(schema, levels, 0)
    array = <ArrowArray*>calloc(1, sizeof(ArrowArray))
    if array == NULL:
        raise MemoryError
    second = PyCapsule_New(array, "arrow_array", _end_array)
    _fill_array(array, levels, 0)
    return first, second
