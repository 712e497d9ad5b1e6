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

    @property
    def many(self):
        """True if it can make many rows at once."""
        return self.run_rows != NULL

    def parts(self):
        """The steps that it is made of, which are timed: itself, if it isn't made of any.

        Returns
        -------
        list of tuple
            The number by which `Times.steps` names it, and its name for users.
        """
        return [(<uintptr_t>self.params, self.label or type(self).__name__)]

    def remarks(self):
        """The sentences of a plan about the steps that it is made of."""
        return [] if self.remark is None else [self.remark]

    def __call__(self, *values, int64_t epoch=0, int64_t element=0):
        cdef Py_ssize_t count = len(self.inputs), output_count = len(self.outputs), i
        cdef Cell* cells = <Cell*>calloc(count + output_count, sizeof(Cell))
        cdef Arena arena
        cdef Fault fault
        cdef int rc
        cdef list results = [], arrays = []
        arena_init(&arena)
        arena.epoch = epoch
        arena.element = element
        memset(&fault, 0, sizeof(Fault))
        try:
            if cells == NULL:
                raise MemoryError
            for i in range(count):
                if not self.inputs[i].dtype.itemsize:
                    if isinstance(values[i], _ragged.Ragged):
                        arrays.append(_ragged_in(&cells[i], values[i]))
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


# Many rows by steps that make one

cdef enum:
    SPAN_BYTES = 64           # how many bytes a value of varying length counts as


cdef int64_t made_bytes_of(component) except -2:
    cdef int64_t total = component.dtype.itemsize
    if component.shape is None or None in component.shape:
        return -1
    for side in component.shape:
        total *= side
    return total


cdef int64_t row_bytes_of(tuple components) except -1:
    cdef int64_t total = 0, nbytes
    for component in components:
        nbytes = made_bytes_of(component)
        total += nbytes if nbytes > 0 else SPAN_BYTES
    return total


cdef bint _row_cell(RowCell* cell, component) except -1:
    # Notes how a row of a component lies in a cell. False: its shape differs from row to row.
    cdef int64_t item = component.dtype.itemsize
    if component.shape is None or len(component.shape) > MAX_DIMS or None in component.shape[1:]:
        return False
    if item == 0:  # strings
        cell.nbytes = -1 if component.nbytes is None else component.nbytes
        return component.shape == ()
    for side in component.shape:
        cell.dims[cell.ndim] = -1 if side is None else side
        cell.ndim += 1
    for side in component.shape[1:]:
        item *= side
    cell.item = item
    cell.nbytes = made_bytes_of(component)
    return item > 0


@cython.final
cdef class RowLoop:
    def __dealloc__(self):
        free(self.loop.cells)

    cdef bint begin(self, Step step, list constants) except -1:
        cdef LoopParams* loop = &self.loop
        cdef int32_t i
        loop.given = <int32_t>len(step.inputs)
        loop.made = <int32_t>len(step.outputs)
        loop.cells = <RowCell*>calloc(loop.given + loop.made + 1, sizeof(RowCell))
        if loop.cells == NULL:
            raise MemoryError
        for i, component in enumerate(step.inputs + step.outputs):
            loop.cells[i].constant = i < len(constants) and constants[i]
            if not loop.cells[i].constant and not _row_cell(&loop.cells[i], component):
                return False
            loop.spans = loop.spans or (i >= loop.given and loop.cells[i].nbytes < 0)
        loop.run = step.run
        loop.params = step.params
        self.step = step
        return True


cdef RowsWay rows_way(Step step, list constants, list loops) except *:
    cdef RowsWay way
    cdef RowLoop loop
    way.run = step.run_rows
    way.params = step.params
    if way.run != NULL and True not in constants:
        return way
    way.run = NULL
    if step.alone or isinstance(step, PythonStep):
        return way
    loop = RowLoop()
    if loop.begin(step, constants):
        loops.append(loop)
        way.run = _rows_by_loop
        way.params = &loop.loop
    return way


cdef void cell_of_row(const RowCell* shape, const Cell* column, int64_t row, Cell* cell) noexcept nogil:
    cdef const Span* spans = spans_of(column)
    cdef int32_t d
    cell.offsets = NULL
    cell.ndim = shape.ndim
    for d in range(shape.ndim):
        cell.dims[d] = shape.dims[d]
    if spans == NULL:
        cell.data = column.data + row * shape.nbytes
        cell.nbytes = shape.nbytes
        return
    cell.data = <unsigned char*>spans[row].data
    cell.nbytes = spans[row].nbytes
    if shape.ndim > 0 and shape.dims[0] < 0:
        cell.dims[0] = cell.nbytes // shape.item


cdef int _rows_by_loop(const void* params, const Cell* inputs, Cell* outputs, int64_t rows, Arena* arena,
                       Fault* fault) noexcept nogil:
    # Without spans among the outputs, each row takes the memory that the one before it took.
    cdef const LoopParams* loop = <const LoopParams*>params
    cdef const RowCell* result_cells = loop.cells + loop.given
    cdef int64_t nbytes = (loop.given + loop.made) * <int64_t>sizeof(Cell), row
    cdef Cell* cells = <Cell*>arena_take(arena, nbytes)
    cdef Cell* results = cells + loop.given
    cdef unsigned char* place
    cdef ArenaMark mark
    cdef int32_t j
    if cells == NULL:
        return _no_memory(fault, nbytes)
    for j in range(loop.given):
        if loop.cells[j].constant:
            cells[j] = inputs[j]
    for j in range(loop.made):
        if result_cells[j].nbytes < 0:
            nbytes = rows * <int64_t>sizeof(Span)
            outputs[j].data = NULL
            outputs[j].offsets = <const int64_t*>arena_take(arena, nbytes)
            if outputs[j].offsets == NULL:
                return _no_memory(fault, nbytes)
            continue
        outputs[j].offsets = NULL
        outputs[j].nbytes = rows * result_cells[j].nbytes
        if outputs[j].data == NULL:
            outputs[j].data = <unsigned char*>arena_take(arena, outputs[j].nbytes + 1)
            if outputs[j].data == NULL:
                return _no_memory(fault, outputs[j].nbytes)
    mark = arena_mark(arena)
    for row in range(rows):
        for j in range(loop.given):
            if not loop.cells[j].constant:
                cell_of_row(&loop.cells[j], &inputs[j], row, &cells[j])
        for j in range(loop.made):
            results[j].data = outputs[j].data + row * result_cells[j].nbytes if result_cells[j].nbytes >= 0 else NULL
            results[j].nbytes = result_cells[j].nbytes
            results[j].offsets = NULL
            results[j].ndim = 0
        if loop.run(loop.params, cells, results, arena, fault) != 0:
            return -1
        for j in range(loop.made):
            if result_cells[j].nbytes < 0:
                (<Span*>outputs[j].offsets)[row].data = results[j].data
                (<Span*>outputs[j].offsets)[row].nbytes = results[j].nbytes
                continue
            place = outputs[j].data + row * result_cells[j].nbytes
            if results[j].data != place:
                memcpy(place, results[j].data, result_cells[j].nbytes)
        if not loop.spans:
            arena_release(arena, mark)
    return 0


cdef int _no_memory(Fault* fault, int64_t nbytes) noexcept nogil:
    fault.what = WHOSE
    fault.a = nbytes
    return -1


cdef struct SequenceParams:
    int32_t count
    int32_t most              # outputs of one step
    StageFn* run
    RowsWay* ways             # to make many rows at once; NULL: a step has none
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
    cdef readonly list steps
    cdef list loops

    def __init__(self, list steps not None):
        cdef Step step
        cdef int32_t i = 0, count
        cdef bint all_ways = True, some_rows = False
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
        self.sequence.ways = <RowsWay*>calloc(count, sizeof(RowsWay))
        self.sequence.params = <const void**>calloc(count, sizeof(void*))
        self.sequence.made = <int32_t*>calloc(count, sizeof(int32_t))
        if (self.sequence.run == NULL or self.sequence.ways == NULL or self.sequence.params == NULL
            or self.sequence.made == NULL):
            raise MemoryError
        self.loops = []
        for step in steps:
            self.sequence.run[i] = step.run
            self.sequence.ways[i] = rows_way(step, [], self.loops)
            all_ways = all_ways and self.sequence.ways[i].run != NULL
            some_rows = some_rows or step.run_rows != NULL
            self.alone = self.alone or step.alone
            self.between += step.between + (row_bytes_of(step.outputs) if i < count - 1 else 0)
            self.sequence.params[i] = step.params
            self.sequence.made[i] = <int32_t>len(step.outputs)
            self.sequence.most = max(self.sequence.most, self.sequence.made[i])
            i += 1
        self.sequence.count = count
        self.params = &self.sequence
        self.run = _run_sequence
        if all_ways and some_rows:
            self.run_rows = _rows_of_sequence

    def __dealloc__(self):
        free(self.sequence.run)
        free(self.sequence.ways)
        free(self.sequence.params)
        free(self.sequence.made)

    def parts(self):
        """The steps that it is made of, as of `Step.parts`."""
        return [part for step in self.steps for part in step.parts()]

    def remarks(self):
        """The sentences of a plan about its steps, as of `Step.remarks`."""
        return [remark for step in self.steps for remark in step.remarks()]

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
    cdef int64_t begin_ticks
    cdef int rc
    if sequence.count > 1:
        room = <Cell*>arena_take(arena, 2 * sequence.most * sizeof(Cell))
        if room == NULL:
            return _no_memory(fault, 2 * sequence.most * <int64_t>sizeof(Cell))
    for i in range(sequence.count):
        results = outputs
        if i < sequence.count - 1:
            results = room + (i & 1) * sequence.most
            for k in range(sequence.made[i]):
                results[k].data = NULL
                results[k].offsets = NULL
                results[k].ndim = 0
        begin_ticks = step_begun(arena)
        if rows > 0:
            rc = sequence.ways[i].run(sequence.ways[i].params, inputs, results, rows, arena, fault)
        else:
            rc = sequence.run[i](sequence.params[i], inputs, results, arena, fault)
        step_ended(arena, sequence.params[i], begin_ticks)
        if rc != 0:
            fault.what = fault.what << WHOSE_BITS | i
            return -1
        inputs = results
    return 0


cdef struct PartParams:
    StageFn run
    const void* params
    RowsWay way
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
        Of one input. Its result goes to that place.
    outputs : tuple of Component
        All of them.
    """
    cdef PartParams part
    cdef Step step
    cdef list loops

    def __init__(self, tuple inputs, int32_t index, Step step not None, tuple outputs):
        self.step = step
        self.inputs = inputs
        self.outputs = outputs
        self.loops = []
        self.alone = step.alone
        self.between = step.between
        self.part.run = step.run
        self.part.way = rows_way(step, [], self.loops)
        self.part.params = step.params
        self.part.before = index
        self.part.made = <int32_t>len(step.outputs)
        self.part.after = <int32_t>len(inputs) - index - 1
        self.params = &self.part
        self.run = _run_part
        if self.part.way.run != NULL:
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
    return part.way.run(part.way.params, inputs + part.before, outputs + part.before, rows, arena, fault)


cdef struct KeepParams:
    StageFn run
    const void* params
    RowsWay way
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
    cdef list loops

    def __init__(self, tuple inputs, Step step not None):
        self.step = step
        self.inputs = inputs
        self.outputs = inputs + step.outputs
        self.loops = []
        self.alone = step.alone
        self.between = step.between
        self.keep.run = step.run
        self.keep.params = step.params
        self.keep.way = rows_way(step, [], self.loops)
        self.keep.count = <int32_t>len(inputs)
        self.params = &self.keep
        self.run = _run_keep
        if self.keep.way.run != NULL:
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
    return keep.way.run(keep.way.params, inputs, outputs + keep.count, rows, arena, fault)
