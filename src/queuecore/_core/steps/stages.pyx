"""Stages: the base of all native steps, and running a step eagerly on NumPy arrays."""
cimport cython
cimport numpy as cnp
from libc.stdint cimport int32_t, int64_t, uintptr_t
from libc.string cimport memcpy, memset
from queuecore._core.atoms.dims cimport MAX_DIMS
from queuecore._core.atoms.errors cimport (
    CODE_DTYPE, CODE_EXHAUSTED, CODE_INVALID_ARGUMENT, CODE_UNIMPLEMENTED, new_error, raise_error, raise_from)
from queuecore._core.atoms.memory cimport calloc, free
from queuecore._core.atoms.process cimport check_layout
from queuecore._core.atoms.platform cimport Fault, layout_hash

import numpy as np

from queuecore._core.atoms.own import ragged as _ragged

cnp.import_array()
check_layout(layout_hash())


cdef object array_of(shape, dtype):
    try:
        return np.empty(shape, dtype)
    except (MemoryError, ValueError) as error:  # the latter: more bytes than a number of 64 bits can say
        raise_from(CODE_EXHAUSTED, f"no memory for an array of {dtype} of shape {list(shape)}", error)


cdef class Step:
    """One native step, bound to the components that it gets: made by a stage of :mod:`queuecore.ops`.

    Called with values, it runs at once: strings are bytes, an object array of them, or a Ragged; anything else is a
    C-contiguous array of the component's dtype. Returns a list of arrays; strings come out as bytes, or as object
    arrays of them. `epoch` and `element` (of a batch: its first one) are what random steps draw from, besides their
    seed.
    """

    cdef object explain(self, const Fault* fault):
        raise NotImplementedError

    def parts(self):
        """The steps that it is made of, which are timed: itself, if it isn't made of any.

        Returns
        -------
        list of tuple
            The number by which `Times.steps` names it, and its name for users.
        """
        return [(<uintptr_t>self.params, self.label or type(self).__name__)]

    def __call__(self, *values, int64_t epoch=0, int64_t element=0):
        cdef Py_ssize_t count = len(self.inputs), output_count = len(self.outputs), i
        cdef Cell* cells = <Cell*>calloc(count + output_count, sizeof(Cell))
        cdef Arena arena
        cdef Fault fault
        cdef int rc
        cdef list results = [], kept = []
        arena.last = NULL
        arena.times = NULL
        arena.epoch = epoch
        arena.element = element
        memset(&fault, 0, sizeof(Fault))
        try:
            if cells == NULL:
                raise MemoryError
            for i in range(count):
                if not self.inputs[i].dtype.itemsize:
                    if isinstance(values[i], _ragged.Ragged):
                        kept.append(_ragged_in(&cells[i], values[i]))
                    else:
                        _strings_in(&cells[i], values[i], &arena)
                else:
                    _array_in(&cells[i], values[i])
            for i in range(output_count):
                component = self.outputs[i]
                array = None
                if component.dtype.itemsize and component.shape is not None and None not in component.shape:
                    array = array_of(component.shape, component.dtype)
                    cells[count + i].data = <unsigned char*>cnp.PyArray_DATA(array)
                    cells[count + i].nbytes = array.nbytes
                results.append(array)
            with nogil:
                rc = self.run(self.params, cells, cells + count, &arena, &fault)
            if rc != 0:
                raise self.explain(&fault)
            for i in range(output_count):
                results[i] = _out(&cells[count + i], self.outputs[i].dtype, results[i])
            return results
        finally:
            arena_free(&arena)
            free(cells)


cdef int _check_dims(int ndim) except -1:
    # NumPy's arrays may have more.
    if ndim > MAX_DIMS:
        raise_error(CODE_INVALID_ARGUMENT, f"an array of {ndim} dimensions; at most {MAX_DIMS} are possible")
    return 0


cdef int _array_in(Cell* cell, cnp.ndarray array) except -1:
    cdef int j
    _check_dims(cnp.PyArray_NDIM(array))
    cell.data = <unsigned char*>cnp.PyArray_DATA(array)
    cell.nbytes = cnp.PyArray_NBYTES(array)
    cell.ndim = cnp.PyArray_NDIM(array)
    for j in range(cell.ndim):
        cell.dims[j] = cnp.PyArray_DIM(array, j)
    return 0


cdef object _ragged_in(Cell* cell, object ragged):
    # Takes strings that lie side by side already. Returns the objects that must be kept. The splits were checked, and
    # are read-only.
    cdef cnp.ndarray data, offsets
    if not ragged.is_bytes:
        raise_error(CODE_DTYPE, f"expected strings of bytes, got rows of {ragged.dtype}")
    data = np.ascontiguousarray(ragged.values)
    offsets = np.ascontiguousarray(ragged.row_splits, np.int64)
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
    cdef bytes string
    if isinstance(value, bytes):
        cell.data = <unsigned char*><char*>value
        cell.nbytes = len(value)
        return 0
    _check_dims(value.ndim)
    n = value.size
    cell.ndim = value.ndim
    for j in range(cell.ndim):
        cell.dims[j] = value.shape[j]
    offsets = <int64_t*>arena_take(arena, (n + 1) * sizeof(int64_t))
    if offsets == NULL:
        raise MemoryError
    n = 0
    flat = value.ravel().tolist()
    for string in flat:
        offsets[n] = total
        total += len(string)
        n += 1
    offsets[n] = total
    cell.offsets = offsets
    cell.nbytes = total
    cell.data = <unsigned char*>arena_take(arena, total + 1)
    if cell.data == NULL:
        raise MemoryError
    n = 0
    for string in flat:
        memcpy(cell.data + offsets[n], <const char*>string, len(string))
        n += 1
    return 0


cdef object _out(const Cell* cell, object dtype, object array):
    cdef int j
    cdef int64_t i = 0
    cdef tuple shape = tuple([cell.dims[j] for j in range(cell.ndim)])
    if dtype.itemsize:
        if array is None or array.shape != shape:  # the latter where the input isn't what was said beforehand
            array = array_of(shape, dtype)
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


cdef object cell_value(const Cell* cell, object dtype):
    return _out(cell, dtype, None)


cdef int cell_from(Cell* cell, object value, Arena* arena) except -1:
    memset(cell, 0, sizeof(Cell))
    if isinstance(value, bytes) or value.dtype.hasobject:
        return _strings_in(cell, value, arena)
    return _array_in(cell, value)


cdef list values_of(object made):
    if isinstance(made, dict):
        return list(made.values())
    return list(made) if isinstance(made, (list, tuple)) else [made]


@cython.final
cdef class PythonStep(Step):
    """A step that runs in Python. Called with values it runs at once, as every other.

    Parameters
    ----------
    inputs, outputs : tuple of Component, or None
        `None`: not known beforehand.
    call : callable
        ``call(values, epoch, element)`` gets a list with the value of each component, and returns such a list; without
        known outputs, whatever makes an element of a queue.
    why : str
        It is not native because of this.
    """

    def __init__(self, tuple inputs, tuple outputs, call, str why not None):
        self.inputs = inputs
        self.outputs = outputs
        self.call = call
        self.why = why
        self.run = _run_python

    cdef object explain(self, const Fault* fault):
        return new_error(CODE_UNIMPLEMENTED, f"a step that runs in Python, because {self.why}, can't be here")

    def __call__(self, *values, int64_t epoch=0, int64_t element=0):
        return self.call(list(values), epoch, element)


cdef int _run_python(const void* params, const Cell* inputs, Cell* outputs, Arena* arena, Fault* fault) noexcept nogil:
    fault.what = 0
    return -1


def joined(list steps not None):
    """Return steps one after the other as one step: in Python, if any of them is."""
    if len(steps) == 1:
        return steps[0]
    reasons = [step.why for step in steps if isinstance(step, PythonStep)]
    if not reasons:
        return SequenceStep(steps)

    def call(values, epoch, element):
        for step in steps[:-1]:
            values = values_of(step(*values, epoch=epoch, element=element))
        return steps[-1](*values, epoch=epoch, element=element)

    return PythonStep(steps[0].inputs, steps[-1].outputs, call, reasons[0])


cdef struct SequenceParams:
    int32_t count
    int32_t most              # outputs of one step
    StageFn* run
    RowsFn* run_rows
    const void** params
    int32_t* made


@cython.final
cdef class SequenceStep(Step):
    """Steps one after the other, as one.

    Parameters
    ----------
    steps : list of Step
        Each gets what the one before it makes.
    """
    cdef SequenceParams sequence
    cdef list steps

    def __init__(self, list steps not None):
        cdef Step step
        cdef int32_t i = 0, count
        if self.params != NULL:
            raise TypeError("a step can't be initialised twice")
        self.steps = []
        for step in steps:
            self.steps += (<SequenceStep>step).steps if isinstance(step, SequenceStep) else [step]
        steps = self.steps
        count = <int32_t>len(steps)
        if count >= WHOSE:
            raise_error(CODE_INVALID_ARGUMENT, f"compose: {count} steps; at most {WHOSE - 1} are possible")
        self.inputs = steps[0].inputs
        self.outputs = steps[count - 1].outputs
        self.sequence.run = <StageFn*>calloc(count, sizeof(StageFn))
        self.sequence.run_rows = <RowsFn*>calloc(count, sizeof(RowsFn))
        self.sequence.params = <const void**>calloc(count, sizeof(void*))
        self.sequence.made = <int32_t*>calloc(count, sizeof(int32_t))
        if (self.sequence.run == NULL or self.sequence.run_rows == NULL or self.sequence.params == NULL
            or self.sequence.made == NULL):
            raise MemoryError
        self.run_rows = _rows_of_sequence
        for step in steps:
            self.sequence.run[i] = step.run
            self.sequence.run_rows[i] = step.run_rows
            if step.run_rows == NULL:
                self.run_rows = NULL
            self.sequence.params[i] = step.params
            self.sequence.made[i] = <int32_t>len(step.outputs)
            self.sequence.most = max(self.sequence.most, self.sequence.made[i])
            i += 1
        self.sequence.count = count
        self.params = &self.sequence
        self.run = _run_sequence

    def __dealloc__(self):
        free(self.sequence.run)
        free(self.sequence.run_rows)
        free(self.sequence.params)
        free(self.sequence.made)

    def parts(self):
        """The steps that it is made of, as of `Step.parts`."""
        return [part for step in self.steps for part in step.parts()]

    cdef object explain(self, const Fault* fault):
        return explain_part(self.steps, fault)


cdef object explain_part(list steps, const Fault* fault):
    cdef Fault part = fault[0]
    if fault.what & WHOSE == WHOSE:
        return new_error(CODE_EXHAUSTED, f"no memory for {fault.a} bytes")
    part.what >>= WHOSE_BITS
    return (<Step>steps[fault.what & WHOSE]).explain(&part)


cdef int _run_sequence(const void* params, const Cell* inputs, Cell* outputs, Arena* arena,
                       Fault* fault) noexcept nogil:
    return _rows_of_sequence(params, inputs, outputs, 0, arena, fault)


cdef int _rows_of_sequence(const void* params, const Cell* inputs, Cell* outputs, int64_t rows, Arena* arena,
                           Fault* fault) noexcept nogil:
    # With 0 rows: one element, of any shape.
    cdef const SequenceParams* sequence = <const SequenceParams*>params
    cdef Cell* room = NULL
    cdef Cell* results
    cdef int32_t i, k
    cdef int64_t begun
    cdef int rc
    if sequence.count > 1:
        room = <Cell*>arena_take(arena, 2 * sequence.most * sizeof(Cell))
        if room == NULL:
            fault.what = WHOSE
            fault.a = 2 * sequence.most * <int64_t>sizeof(Cell)
            return -1
    for i in range(sequence.count):
        results = outputs
        if i < sequence.count - 1:
            results = room + (i & 1) * sequence.most
            for k in range(sequence.made[i]):
                results[k].data = NULL
                results[k].offsets = NULL
                results[k].ndim = 0
        begun = step_begun(arena)
        if rows > 0:
            rc = sequence.run_rows[i](sequence.params[i], inputs, results, rows, arena, fault)
        else:
            rc = sequence.run[i](sequence.params[i], inputs, results, arena, fault)
        step_ended(arena, sequence.params[i], begun)
        if rc != 0:
            fault.what = fault.what << WHOSE_BITS | i
            return -1
        inputs = results
    return 0


cdef struct PartParams:
    StageFn run
    RowsFn run_rows
    const void* params
    int32_t before            # components
    int32_t made
    int32_t after


@cython.final
cdef class PartStep(Step):
    """A step on one component; the others pass.

    Parameters
    ----------
    inputs : tuple of Component
        All of them.
    index : int
        Which one the step gets.
    step : Step
        Of one input. What it makes goes to that place.
    outputs : tuple of Component
        All of them.
    """
    cdef PartParams part
    cdef Step step

    def __init__(self, tuple inputs, int32_t index, Step step not None, tuple outputs):
        self.step = step
        self.inputs = inputs
        self.outputs = outputs
        self.part.run = step.run
        self.part.run_rows = step.run_rows
        self.part.params = step.params
        self.part.before = index
        self.part.made = <int32_t>len(step.outputs)
        self.part.after = <int32_t>len(inputs) - index - 1
        self.params = &self.part
        self.run = _run_part
        if step.run_rows != NULL:
            self.run_rows = _rows_of_part

    cdef object explain(self, const Fault* fault):
        return self.step.explain(fault)


cdef inline void _pass_others(const PartParams* part, const Cell* inputs, Cell* outputs) noexcept nogil:
    memcpy(outputs, inputs, part.before * sizeof(Cell))
    memcpy(outputs + part.before + part.made, inputs + part.before + 1, part.after * sizeof(Cell))


cdef int _run_part(const void* params, const Cell* inputs, Cell* outputs, Arena* arena, Fault* fault) noexcept nogil:
    cdef const PartParams* part = <const PartParams*>params
    _pass_others(part, inputs, outputs)
    return part.run(part.params, inputs + part.before, outputs + part.before, arena, fault)


cdef int _rows_of_part(const void* params, const Cell* inputs, Cell* outputs, int64_t rows, Arena* arena,
                       Fault* fault) noexcept nogil:
    cdef const PartParams* part = <const PartParams*>params
    _pass_others(part, inputs, outputs)
    return part.run_rows(part.params, inputs + part.before, outputs + part.before, rows, arena, fault)


cdef struct KeepParams:
    StageFn run
    RowsFn run_rows
    const void* params
    int32_t count


@cython.final
cdef class KeepStep(Step):
    """A step whose inputs are kept: its outputs come after them.

    Parameters
    ----------
    inputs : tuple of Component
        The components that it gets.
    step : Step
        Gets the same.
    """
    cdef KeepParams keep
    cdef Step step

    def __init__(self, tuple inputs, Step step not None):
        self.step = step
        self.inputs = inputs
        self.outputs = inputs + step.outputs
        self.keep.run = step.run
        self.keep.params = step.params
        self.keep.count = <int32_t>len(inputs)
        self.keep.run_rows = step.run_rows
        self.params = &self.keep
        self.run = _run_keep
        if step.run_rows != NULL:
            self.run_rows = _rows_of_keep

    cdef object explain(self, const Fault* fault):
        return self.step.explain(fault)


cdef int _run_keep(const void* params, const Cell* inputs, Cell* outputs, Arena* arena, Fault* fault) noexcept nogil:
    cdef const KeepParams* keep = <const KeepParams*>params
    memcpy(outputs, inputs, keep.count * sizeof(Cell))
    return keep.run(keep.params, inputs, outputs + keep.count, arena, fault)


cdef int _rows_of_keep(const void* params, const Cell* inputs, Cell* outputs, int64_t rows, Arena* arena,
                       Fault* fault) noexcept nogil:
    cdef const KeepParams* keep = <const KeepParams*>params
    memcpy(outputs, inputs, keep.count * sizeof(Cell))
    return keep.run_rows(keep.params, inputs, outputs + keep.count, rows, arena, fault)
