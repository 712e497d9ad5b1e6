"""Folds: a state that one element after the other changes, by a native step.

A fold is not a stage of a stream: it runs in the calling thread, without the GIL, on chunks of rows. The state that the
step makes of row i is its input with row i + 1, so rows are taken in order, by one thread.
"""
cimport cython
cimport numpy as cnp
from cpython.exc cimport PyErr_CheckSignals
from libc.stdint cimport int32_t, int64_t
from libc.string cimport memcpy, memset
from queuecore._core.atoms.dims cimport MAX_DIMS
from queuecore._core.atoms.memory cimport calloc, free
from queuecore._core.atoms.process cimport check_layout
from queuecore._core.io.handed cimport Column
from queuecore._core.stream.describe cimport describe_columns
from queuecore._core.atoms.platform cimport Fault, layout_hash, monotonic_ns
from queuecore._core.stream.inputs cimport row_cells
from queuecore._core.stream.maker cimport Output
from queuecore._core.steps.stages cimport Arena, Cell, Step, arena_free, arena_reset

import numpy as np

cnp.import_array()
check_layout(layout_hash())

cdef enum:
    SLICE_NS = 50000000   # ns between looks for signals
    SLICE_ROWS = 32       # rows between looks at the clock

cdef enum:
    FOLD_SLICE = 0
    FOLD_FAULT = 1
    FOLD_MEMORY = 2


cdef bint _is_fixed(shape):
    return shape is not None and None not in shape


@cython.final
cdef class Fold:
    """A state, and a step that makes the next state from the state and an element.

    Parameters
    ----------
    step : Step
        Its inputs are the parts of a state, and the components of an element; its outputs are the parts of the next
        state. All parts are of fixed shapes.
    state : list of ndarray
        The parts of the first state, which are copied: contiguous arrays of the shapes and dtypes of the step's inputs.
    columns : list of tuple
        The kind, dtype and shape of each component of an element, as a stream takes them.

    Notes
    -----
    If the step's outputs have other shapes than the state, the fold can take one element only. One thread at a time may
    use a fold.
    """
    cdef Step step
    cdef tuple parts        # two lists of arrays: the parts of the state, and of the next state
    cdef int which
    cdef bint steady        # the next state has the shapes of the state
    cdef int64_t rows       # number of rows taken
    cdef int32_t count      # number of parts
    cdef int32_t column_count
    cdef Cell* cells        # the state, the element, the next state
    cdef int32_t given
    cdef unsigned char** data[2]
    cdef int64_t* nbytes
    cdef Output* outputs
    cdef int64_t* shapes
    cdef Column* columns
    cdef Arena arena

    def __init__(self, Step step not None, list state not None, list columns not None):
        cdef int32_t i, j, k, n = <int32_t>len(columns)
        cdef cnp.ndarray array
        cdef Cell* cell
        if self.step is not None:
            raise TypeError("a fold can't be initialised twice")
        self.count = <int32_t>len(step.outputs)
        self.given = <int32_t>len(step.inputs)
        if len(state) != self.count or self.given != self.count + n:
            raise ValueError(f"{len(state)} parts and {n} components for {self.given} inputs and {self.count} outputs")
        self.parts = [], []
        self.steady = True
        for part, old_part, new_part in zip(state, step.inputs, step.outputs):
            if (part.dtype, part.shape, part.dtype) != (old_part.dtype, old_part.shape,
                                                        new_part.dtype) or not _is_fixed(new_part.shape):
                raise ValueError(f"{part.dtype} of shape {part.shape} for {old_part}, which becomes {new_part}")
            self.steady = self.steady and old_part.shape == new_part.shape
            self.parts[0].append(np.array(part, order="C"))
            self.parts[1].append(np.empty(new_part.shape, new_part.dtype))
        self.cells = <Cell*>calloc(self.given + self.count + 1, sizeof(Cell))
        self.data[0] = <unsigned char**>calloc(self.count + 1, sizeof(unsigned char*))
        self.data[1] = <unsigned char**>calloc(self.count + 1, sizeof(unsigned char*))
        self.nbytes = <int64_t*>calloc(self.count + 1, sizeof(int64_t))
        self.outputs = <Output*>calloc(2 * n + 1, sizeof(Output))
        self.shapes = <int64_t*>calloc(2 * n + 1, MAX_DIMS * sizeof(int64_t))
        self.columns = <Column*>calloc(2 * n + 1, sizeof(Column))
        if (self.cells == NULL or self.data[0] == NULL or self.data[1] == NULL or self.nbytes == NULL
            or self.outputs == NULL
                or self.shapes == NULL or self.columns == NULL):
            raise MemoryError
        self.column_count = describe_columns(self.outputs, self.shapes, columns)
        for i in range(self.count):
            for k in range(2):
                array = self.parts[k][i]
                self.data[k][i] = <unsigned char*>cnp.PyArray_DATA(array)
            self.nbytes[i] = cnp.PyArray_NBYTES(array)
            array = self.parts[0][i]
            cell = &self.cells[i]
            cell.nbytes = cnp.PyArray_NBYTES(array)
            cell.ndim = cnp.PyArray_NDIM(array)
            for j in range(cell.ndim):
                cell.dims[j] = cnp.PyArray_DIM(array, j)
        self.step = step

    def __dealloc__(self):
        arena_free(&self.arena)
        free(self.cells)
        free(self.data[0])
        free(self.data[1])
        free(self.nbytes)
        free(self.outputs)
        free(self.shapes)
        free(self.columns)

    @property
    def state(self):
        """Copies of the parts of the state, as a list of arrays."""
        return [part.copy() for part in self.parts[self.which]]

    def run(self, list columns not None, int64_t first, int64_t n):
        """Take rows [first, n) of columns of `n` rows, as `Stream.next_columns` returns them.

        Runs without the GIL. A fault of the step is raised without a place; the state is then the one before the row.
        """
        cdef int32_t i
        cdef int64_t position = first
        cdef cnp.ndarray array
        cdef Fault fault
        cdef int status = FOLD_SLICE
        if len(columns) != self.column_count:
            raise ValueError("not as many columns as were announced")
        if not self.steady and self.rows + n - first > 1:
            raise ValueError("a state of other shapes than this fold takes")
        memset(self.columns, 0, self.column_count * sizeof(Column))
        for i in range(self.column_count):
            if isinstance(columns[i], tuple):
                array = columns[i][1]
                self.columns[i].ends = <const int64_t*>cnp.PyArray_DATA(array)
                if columns[i][2] is not None:
                    array = columns[i][2]
                    self.columns[i].dims = <const int64_t*>cnp.PyArray_DATA(array)
                array = columns[i][0]
            else:
                array = columns[i]
            self.columns[i].data = <const unsigned char*>cnp.PyArray_DATA(array)
        memset(&fault, 0, sizeof(Fault))
        while position < n:
            with nogil:
                status = self._run(&position, n, &fault)
            if status == FOLD_FAULT:
                raise self.step.explain(&fault)
            if status == FOLD_MEMORY:
                raise MemoryError
            PyErr_CheckSignals()

    cdef int _run(self, int64_t* position, int64_t n, Fault* fault) noexcept nogil:
        cdef Cell* cells = self.cells
        cdef Cell* results = cells + self.given
        cdef unsigned char** target
        cdef int64_t until = monotonic_ns() + SLICE_NS
        cdef int32_t i
        while position[0] < n:
            arena_reset(&self.arena)
            if not row_cells(self.outputs, self.column_count, self.shapes, self.columns, position[0],
                             cells + self.count, &self.arena, fault):
                return FOLD_MEMORY
            target = self.data[1 - self.which]
            for i in range(self.count):
                cells[i].data = self.data[self.which][i]
                results[i].data = target[i]
                results[i].nbytes = self.nbytes[i]
                results[i].offsets = NULL
                results[i].ndim = 0
            # The arena's `element` stays 0, as for an operation that is called outside a stream.
            if self.step.run(self.step.params, cells, results, &self.arena, fault) != 0:
                return FOLD_FAULT
            for i in range(self.count):
                if results[i].data != target[i]:
                    memcpy(target[i], results[i].data, self.nbytes[i])
            self.which = 1 - self.which
            self.rows += 1
            position[0] += 1
            if position[0] % SLICE_ROWS == 0 and monotonic_ns() >= until:
                break
        return FOLD_SLICE
