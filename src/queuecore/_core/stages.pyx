"""Stages: what every native step has in common, and running one eagerly on NumPy arrays."""
cimport numpy as cnp
from libc.stdint cimport int64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy, memset
from queuecore._core.atoms cimport check_layout
from queuecore._core.platform cimport Fault, layout_hash

import numpy as np

cnp.import_array()
check_layout(layout_hash())


cdef class Step:
    """One native step, bound to the components that it gets: made by a stage of :mod:`queuecore.ops`.

    Called with values, it runs at once: strings are bytes, an object array of them, or a Ragged; anything else is a C-contiguous
    array of the component's dtype. Returns a list of arrays; strings come out as bytes, or as object arrays of them.
    """

    def explain(self, int what, int64_t a, int64_t b):
        """Return the exception, without a place, for a fault of this step."""
        raise NotImplementedError

    def __call__(self, *values):
        cdef Py_ssize_t count = len(self.inputs), made = len(self.outputs), i
        cdef Cell* cells = <Cell*>calloc(count + made, sizeof(Cell))
        cdef Arena arena
        cdef Fault fault
        cdef int rc
        cdef list results = [], kept = []
        arena.last = NULL
        memset(&fault, 0, sizeof(Fault))
        try:
            if cells == NULL:
                raise MemoryError
            for i in range(count):
                if not self.inputs[i].dtype.itemsize:
                    if hasattr(values[i], "row_splits"):
                        kept.append(_ragged_in(&cells[i], values[i]))
                    else:
                        _strings_in(&cells[i], values[i], &arena)
                else:
                    _array_in(&cells[i], values[i])
            for i in range(made):
                component = self.outputs[i]
                array = None
                if component.dtype.itemsize and component.shape is not None and None not in component.shape:
                    array = np.empty(component.shape, component.dtype)
                    cells[count + i].data = <unsigned char*>cnp.PyArray_DATA(array)
                    cells[count + i].nbytes = array.nbytes
                results.append(array)
            with nogil:
                rc = self.run(self.params, cells, cells + count, &arena, &fault)
            if rc != 0:
                raise self.explain(fault.what, fault.a, fault.b)
            for i in range(made):
                results[i] = _out(&cells[count + i], self.outputs[i].dtype, results[i])
            return results
        finally:
            arena_free(&arena)
            free(cells)


cdef int _array_in(Cell* cell, cnp.ndarray array) except -1:
    cdef int j
    cell.data = <unsigned char*>cnp.PyArray_DATA(array)
    cell.nbytes = cnp.PyArray_NBYTES(array)
    cell.ndim = cnp.PyArray_NDIM(array)
    for j in range(cell.ndim):
        cell.dims[j] = cnp.PyArray_DIM(array, j)
    return 0


cdef object _ragged_in(Cell* cell, object ragged):
    # Strings that lie side by side already. Returns what must be kept.
    cdef cnp.ndarray data = np.ascontiguousarray(ragged.values)
    cdef cnp.ndarray offsets = np.ascontiguousarray(ragged.row_splits, np.int64)
    cell.data = <unsigned char*>cnp.PyArray_DATA(data)
    cell.nbytes = cnp.PyArray_NBYTES(data)
    cell.offsets = <const int64_t*>cnp.PyArray_DATA(offsets)
    cell.ndim = 1
    cell.dims[0] = cnp.PyArray_DIM(offsets, 0) - 1
    return data, offsets


cdef int _strings_in(Cell* cell, object value, Arena* arena) except -1:
    cdef int64_t total = 0, n
    cdef int64_t* offsets
    cdef int j
    cdef bytes one
    if isinstance(value, bytes):
        cell.data = <unsigned char*><char*>value
        cell.nbytes = len(value)
        return 0
    n = value.size
    cell.ndim = value.ndim
    for j in range(cell.ndim):
        cell.dims[j] = value.shape[j]
    offsets = <int64_t*>arena_take(arena, (n + 1) * sizeof(int64_t))
    if offsets == NULL:
        raise MemoryError
    n = 0
    flat = value.ravel().tolist()
    for one in flat:
        offsets[n] = total
        total += len(one)
        n += 1
    offsets[n] = total
    cell.offsets = offsets
    cell.nbytes = total
    cell.data = <unsigned char*>arena_take(arena, total + 1)
    if cell.data == NULL:
        raise MemoryError
    n = 0
    for one in flat:
        memcpy(cell.data + offsets[n], <const char*>one, len(one))
        n += 1
    return 0


cdef object _out(const Cell* cell, object dtype, object array):
    cdef int j
    cdef int64_t i = 0
    cdef tuple shape = tuple([cell.dims[j] for j in range(cell.ndim)])
    if dtype.itemsize:
        if array is None:
            array = np.empty(shape, dtype)
        if cell.data != <const unsigned char*>cnp.PyArray_DATA(array):
            memcpy(cnp.PyArray_DATA(array), cell.data, cell.nbytes)
        return array
    if cell.ndim == 0:
        return (<const char*>cell.data)[:cell.nbytes]
    array = np.empty(shape, object)
    flat = array.reshape(-1)
    for i in range(flat.size):
        flat[i] = (<const char*>cell.data)[cell.offsets[i]:cell.offsets[i + 1]]
    return array
