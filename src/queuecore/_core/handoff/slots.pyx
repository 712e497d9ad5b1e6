"""Slots: the memory in which a queue's elements lie, and the conversion of values into and out of it."""
cimport cython
cimport numpy as cnp
from libc.stdint cimport int32_t, int64_t, uint32_t
from cpython.float cimport PyFloat_AS_DOUBLE
from cpython.long cimport PyLong_AsLongLong, PyLong_AsLongLongAndOverflow
from cpython.object cimport PyObject
from libc.string cimport memcpy, memset
from queuecore._core.atoms.dims cimport MAX_DIMS
from queuecore._core.atoms.errors cimport CODE_EXHAUSTED, CODE_INVALID_ARGUMENT, new_error, raise_error
from queuecore._core.atoms.memory cimport calloc, free, realloc
from queuecore._core.atoms.process cimport check_layout
from queuecore._core.atoms.platform cimport Fault, alloc_lines, kRelaxed, layout_hash
from queuecore._core.atoms.pool cimport (
    POOL_SLOTS, SlotPool, pool_free, pool_grow, pool_init, pool_pop, pool_push, pool_row)
from queuecore._core.steps.stages cimport Cell

import numpy as np


cnp.import_array()
check_layout(layout_hash())

cdef extern from *:
    """
    // A writable C-ordered array over `data` whose first axis has its own stride; it keeps `base` alive.
    static PyObject* qc_rows(PyObject* descr, int nd, npy_intp* dims, npy_intp* strides, void* data, PyObject* base) {
      Py_INCREF(descr);  // taken over by NewFromDescr, also when it fails
      auto* type = reinterpret_cast<PyArray_Descr*>(descr);
      PyObject* array = PyArray_NewFromDescr(&PyArray_Type, type, nd, dims, strides, data,
                                             NPY_ARRAY_WRITEABLE, nullptr);
      if (array == nullptr) return nullptr;
      Py_INCREF(base);  // taken over by SetBaseObject, also when it fails
      if (PyArray_SetBaseObject(reinterpret_cast<PyArrayObject*>(array), base) != 0) Py_CLEAR(array);
      return array;
    }
    // A new array; 0 dimensions: still an array.
    static PyObject* qc_empty(PyObject* descr, int nd, npy_intp* dims) {
      Py_INCREF(descr);
      auto* type = reinterpret_cast<PyArray_Descr*>(descr);
      return PyArray_NewFromDescr(&PyArray_Type, type, nd, dims, nullptr, nullptr, 0, nullptr);
    }
    // Takes over the reference: an array of 0 dimensions becomes a scalar.
    static PyObject* qc_scalar(PyObject* array) {
      Py_INCREF(array);
      return PyArray_Return(reinterpret_cast<PyArrayObject*>(array));
    }
    """
    object qc_rows(object descr, int nd, Py_ssize_t* dims, Py_ssize_t* strides, void* data, object base)
    object qc_empty(object descr, int nd, Py_ssize_t* dims)
    object qc_scalar(object array)

cdef enum:
    MISFIT_DIMS = 1
    MISFIT_SIDE = 2
    MISFIT_MEMORY = 3

cdef enum:
    FIRST_SLOTS = 1024

# Numbers for Python: the kinds of values of a SlotComponent.
ARRAY, BYTES, STR, OBJECT = PART_FIXED, PART_BYTES, PART_STR, PART_OBJECT


@cython.final
cdef class SlotComponent:
    """A component of a queue's elements.

    Parameters
    ----------
    dtype : numpy.dtype
    shape : tuple of int or None
        -1: a dimension that varies; `None`: all of it does.
    holds : int
        What its values are: `ARRAY`, or what has no fixed size: `BYTES`, `STR`, or `OBJECT` (references).
    convert : callable
        ``convert(value, is_batch)`` returns a value as a C-contiguous array of the dtype, checked; a value of no fixed
        size as an object, bytes or str, or an object array of these; `is_batch`: rows, or a list of them. Not called
        for numbers and arrays that fit as they are.
    """

    def __init__(self, cnp.dtype dtype not None, tuple shape, int holds, convert):
        self.dtype = dtype
        self.shape = shape
        self.holds = holds
        self.convert = convert


@cython.final
cdef class QueueDescription:
    """The description of a queue, as Python says it.

    Parameters
    ----------
    kind, name : str
        The class and the queue, for messages.
    store : int
        In which order elements come out: `FIFO`, `RANDOM` or `PRIORITY` of the module `queues`.
    capacity : int
        In elements; below 0: unbounded.
    components : list of SlotComponent

    Attributes
    ----------
    min_after_dequeue : int
        Elements that stay in while it is open.
    names : tuple of str, optional
        Of the components: elements are then dicts.
    pad : bool
        Gathers fill varying shapes up to the largest.
    seeds : tuple of int
        The generator's pair.
    start : int
        Where the counters begin (for tests).
    """

    def __init__(self, str kind not None, str name not None, int store, int64_t capacity, list components not None):
        self.kind = kind
        self.name = name
        self.store = store
        self.capacity = capacity
        self.components = components
        self.seeds = (0, 0)


cdef int32_t _scalar_of(cnp.dtype dtype):
    # Which numbers a component without dimensions takes as they are.
    kind, size = dtype.kind, dtype.itemsize
    if kind == "b":
        return SCALAR_BOOL
    if kind == "i":
        return SCALAR_INT
    if kind == "u":
        return SCALAR_UINT
    return SCALAR_FLOAT if kind == "f" and size in (4, 8) else SCALAR_NONE


cdef bint _scalar_fits(const SlotPart* part, value, cnp.dtype dtype) except -1:
    # Whether a number is one that `_scalar_store` can write, with the value that an array of it would have.
    cdef int overflow = 0
    cdef long long number
    cdef int64_t bits = part.nbytes * 8
    if type(value) is int:
        number = PyLong_AsLongLongAndOverflow(value, &overflow)
        if overflow != 0 or part.scalar == SCALAR_BOOL:
            return False
        if part.scalar == SCALAR_INT:
            return bits == 64 or -(<int64_t>1 << (bits - 1)) <= number < <int64_t>1 << (bits - 1)
        return part.scalar == SCALAR_FLOAT or (number >= 0 and (bits == 64 or number < <int64_t>1 << bits))
    if type(value) is float:
        return part.scalar == SCALAR_FLOAT
    return type(value) is bool and part.scalar == SCALAR_BOOL or type(value) is dtype.type


cdef int _scalar_store(const SlotPart* part, void* place, value) except -1:
    # Of a value that fits nothing here raises.
    cdef int64_t number
    if type(value) is float:
        if part.nbytes == 4:
            (<float*>place)[0] = <float>PyFloat_AS_DOUBLE(value)
        else:
            (<double*>place)[0] = PyFloat_AS_DOUBLE(value)
    elif type(value) is int:
        number = PyLong_AsLongLong(value)
        if part.scalar == SCALAR_FLOAT:
            if part.nbytes == 4:
                (<float*>place)[0] = <float>number
            else:
                (<double*>place)[0] = <double>number
        else:
            memcpy(place, &number, part.nbytes)  # little-endian: the low bytes, in two's complement
    elif type(value) is bool:
        (<unsigned char*>place)[0] = value is True
    else:
        cnp.PyArray_ScalarAsCtype(value, place)
    return 0


cdef inline bint _varying_room(Varying* v, int64_t nbytes) noexcept nogil:
    cdef void* data
    if nbytes > v.room or v.data == NULL:  # never NULL, not even for nothing
        data = realloc(v.data, nbytes + 1)
        if data == NULL:
            return False
        v.data = data
        v.room = nbytes
    v.nbytes = nbytes
    return True


# Strings in a Varying. A string without dimensions: its bytes. An array of n strings: n + 1 offsets from the start of
# the bytes, then the bytes.

cdef inline bytes _encoded(object value, bint text):
    # "surrogatepass": any str comes out as it went in.
    return (<str>value).encode("utf-8", "surrogatepass") if text else <bytes>value


cdef inline object _decoded(const char* data, int64_t nbytes, bint text):
    return data[:nbytes].decode("utf-8", "surrogatepass") if text else data[:nbytes]


cdef int _pack(Varying* v, object value, bint text) except -1:
    cdef bytes string
    cdef list strings
    cdef int64_t total = 0, position = 0
    cdef int64_t* offsets
    cdef int j
    cdef cnp.ndarray array
    if not cnp.PyArray_Check(value):
        string = _encoded(value, text)
        if not _varying_room(v, len(string)):
            raise MemoryError
        v.ndim = 0
        memcpy(v.data, <const char*>string, len(string))
        return 0
    array = value
    strings = [_encoded(each, text) for each in array.flat]
    for string in strings:
        total += len(string)
    if not _varying_room(v, <int64_t>((len(strings) + 1) * sizeof(int64_t)) + total):
        raise MemoryError
    v.ndim = cnp.PyArray_NDIM(array)
    for j in range(v.ndim):
        v.dims[j] = cnp.PyArray_DIM(array, j)
    offsets = <int64_t*>v.data
    total = 0
    for string in strings:
        offsets[position] = total
        memcpy(<char*>(offsets + len(strings) + 1) + total, <const char*>string, len(string))
        total += len(string)
        position += 1
    offsets[position] = total
    return 0


cdef object _unpack(const Varying* v, bint text):
    cdef int64_t n = 1, i
    cdef int j
    cdef const int64_t* offsets = <const int64_t*>v.data
    cdef const char* data
    if v.ndim == 0:
        return _decoded(<const char*>v.data, v.nbytes, text)
    for j in range(v.ndim):
        n *= v.dims[j]
    data = <const char*>(offsets + n + 1)
    array = np.empty(n, object)
    for i in range(n):
        array[i] = _decoded(data + offsets[i], offsets[i + 1] - offsets[i], text)
    return array.reshape([v.dims[j] for j in range(v.ndim)])


# Components out of slots

cdef int _reference(Slots slots, int i) noexcept:
    # Returns the index of component i among the element's references.
    cdef int j, n = 0
    for j in range(i):
        if slots.parts[j].kind == PART_OBJECT:
            n += 1
    return n


cdef object _component(Slots slots, int i, uint32_t slot):
    cdef SlotPart* part = &slots.parts[i]
    cdef Varying* v
    cdef const void* source
    cdef int64_t nbytes
    cdef object array
    if part.kind == PART_OBJECT:
        return (<list>slots.objects[<Py_ssize_t>slot])[_reference(slots, i)]
    if part.kind == PART_FIXED:
        array = qc_empty(slots.dtypes[i], part.ndim, part.dims)
        source = pool_row(slots.pool, slot) + part.offset
        nbytes = part.nbytes
    else:
        v = <Varying*>(pool_row(slots.pool, slot) + part.offset)
        if part.kind != PART_VARYING:
            return _unpack(v, part.kind == PART_STR)
        array = qc_empty(slots.dtypes[i], v.ndim, v.dims)
        source = v.data
        nbytes = v.nbytes
    copy_bytes(cnp.PyArray_DATA(array), source, nbytes)
    return qc_scalar(array) if cnp.PyArray_NDIM(array) == 0 else array


cdef void _copy_rows(
        Slots slots, const SlotPart* part, const uint32_t* tokens, int64_t n, unsigned char* target) noexcept:
    cdef int64_t k
    if n * part.nbytes < COPY_BYTES:
        for k in range(n):
            memcpy(target + k * part.nbytes, pool_row(slots.pool, tokens[k]) + part.offset, part.nbytes)
    else:
        with nogil:
            for k in range(n):
                memcpy(target + k * part.nbytes, pool_row(slots.pool, tokens[k]) + part.offset, part.nbytes)


cdef object _stack(Slots slots, int i, const uint32_t* tokens, int64_t n):
    cdef SlotPart* part = &slots.parts[i]
    cdef Py_ssize_t dims[MAX_DIMS + 1]
    cdef int64_t k
    cdef int j
    cdef object array
    dims[0] = n
    if part.kind == PART_FIXED:
        for j in range(part.ndim):
            dims[j + 1] = part.dims[j]
        array = qc_empty(slots.dtypes[i], part.ndim + 1, dims)
        _copy_rows(slots, part, tokens, n, <unsigned char*>cnp.PyArray_DATA(array))
        return array
    # Stacks components without a fixed size or with shapes that vary: filled up to the largest with zeros, empty
    # strings, or None.
    rows = [_component(slots, i, tokens[k]) for k in range(n)]
    shape = [part.dims[j] if part.dims[j] >= 0 else max([row.shape[j] for row in rows],
                                                        default=0) for j in range(part.ndim)]
    if part.kind == PART_VARYING:
        array = np.zeros([n, *shape], slots.dtypes[i])
    else:
        array = np.full([n, *shape], {"S": b"", "U": ""}.get(slots.dtypes[i].kind), dtype=object)
    for k in range(n):
        if part.ndim == 0:
            array[k] = rows[k]
        else:
            array[k][tuple([slice(side) for side in rows[k].shape])] = rows[k]
    return array


cdef class Slots:
    """The slots of a queue's elements.

    A queue inherits from this class, and adds the order in which elements are handed over.

    Parameters
    ----------
    description : QueueDescription
        The kind, the capacity and the components of the queue.
    """

    def __cinit__(self, QueueDescription description not None):
        cdef int64_t capacity = description.capacity, slot_bytes
        self.kind = description.kind
        self.name = description.name
        self.names = description.names
        self.pad = description.pad
        self.dtypes = []
        self.converts = []
        self.objects = []
        self.part_count = len(description.components)
        self.parts = <SlotPart*>calloc(self.part_count, sizeof(SlotPart))
        self.pool = <SlotPool*>alloc_lines(sizeof(SlotPool))
        if self.parts == NULL or self.pool == NULL:
            raise MemoryError
        slot_bytes = self._lay_out(description.components)
        pool_init(self.pool, <uint32_t>(capacity if 0 < capacity < FIRST_SLOTS else FIRST_SLOTS), slot_bytes,
                  self.has_buffers)

    cdef int64_t _lay_out(self, list components) except -1:
        # Decides the place of each component. Returns the bytes of a slot.
        cdef SlotComponent component
        cdef SlotPart* part
        cdef tuple shape
        cdef int64_t offset = 0
        cdef int i, j
        for i in range(self.part_count):
            component = <SlotComponent?>components[i]
            shape = component.shape
            part = &self.parts[i]
            self.dtypes.append(component.dtype)
            self.converts.append(component.convert)
            part.kind = component.holds
            if component.holds == PART_FIXED and (shape is None or -1 in shape):
                part.kind = PART_VARYING
            part.any_shape = shape is None
            part.ndim = 0 if shape is None else <int32_t>len(shape)
            if part.ndim > MAX_DIMS:
                raise_error(CODE_INVALID_ARGUMENT,
                            f"component {i} has {part.ndim} dimensions; at most {MAX_DIMS} are possible")
            part.offset = offset
            part.nbytes = component.dtype.itemsize
            part.scalar = _scalar_of(component.dtype) if part.kind == PART_FIXED and part.ndim == 0 else SCALAR_NONE
            for j in range(part.ndim):
                part.dims[j] = shape[j]
                if shape[j] > 0 and part.nbytes > (<int64_t>1 << 46) // shape[j]:
                    raise_error(CODE_INVALID_ARGUMENT, f"component {i} of shape {shape} is too large")
                part.nbytes *= shape[j]
            if part.kind == PART_OBJECT:
                self.has_objects = True
            elif part.kind != PART_FIXED:
                self.has_varying = self.has_varying or part.kind == PART_VARYING
                self.has_buffers = True
                offset += (sizeof(Varying) + 63) // 64 * 64
            else:
                offset += (part.nbytes + 63) // 64 * 64
        return offset

    def __dealloc__(self):
        cdef uint32_t slot
        cdef int i
        cdef Varying* v
        if self.pool != NULL:
            if self.has_buffers:
                # relaxed: no other thread has the pool; slots beyond were never used
                for slot in range(self.pool.fresh.load(kRelaxed)):
                    for i in range(self.part_count):
                        if PART_FIXED < self.parts[i].kind < PART_OBJECT:
                            v = <Varying*>(pool_row(self.pool, slot) + self.parts[i].offset)
                            free(v.data)
            pool_free(self.pool)
            free(self.pool)
        free(self.parts)

    # Elements into slots

    cdef uint32_t _slot(self) except? 0xffffffff:
        cdef uint32_t slot = 0
        cdef bint well = True
        while not pool_pop(self.pool, &slot):
            with nogil:
                well = pool_grow(self.pool)
            if not well:
                raise_error(CODE_EXHAUSTED, f"no memory for another element of {self.kind} {self.name!r}")
        if self.has_objects and slot >= <uint32_t>len(self.objects):
            self._room_for(slot)
        return slot

    cdef int _room_for(self, uint32_t slot) except -1:
        # Makes room for the objects of a slot that was just taken, or gives the slot back and raises.
        try:
            self.objects.extend([None] * (<Py_ssize_t>slot + 1 - len(self.objects)))
        except BaseException:
            pool_push(self.pool, slot)
            raise
        return 0

    cdef void _release(self, const uint32_t* tokens, int64_t n) noexcept:
        # Goes from the last to the first: the slots taken next then come out in the same order again, side by side.
        cdef int64_t i
        cdef object owned
        for i in range(n - 1, -1, -1):
            if self.has_objects:
                owned = self.objects[<Py_ssize_t>tokens[i]]
                self.objects[<Py_ssize_t>tokens[i]] = None
            pool_push(self.pool, tokens[i])
            owned = None  # may run any code: the slot may have another owner already

    cdef object _components_of(self, values):
        # Returns the components of an element, given as a lone component, a list or tuple, or a dict by name: a list or
        # a tuple.
        if self.names is None:
            if type(values) is list or type(values) is tuple:
                return values
            if isinstance(values, (list, tuple)):
                return list(values)
            if isinstance(values, dict):
                raise_error(CODE_INVALID_ARGUMENT,
                            f"{self.kind} {self.name!r} has no names, so its elements can't be dicts")
            return (values,)
        if not isinstance(values, dict):
            raise_error(CODE_INVALID_ARGUMENT,
                f"{self.kind} {self.name!r} has names: an element is a dict with the keys {list(self.names)}")
        if len(values) != self.part_count or not values.keys() >= set(self.names):
            raise_error(CODE_INVALID_ARGUMENT,
                f"{self.kind} {self.name!r}: expected the keys {list(self.names)}, got {list(values)}")
        return [values[label] for label in self.names]

    cdef object _part_of(self, int i, value, bint is_batch):
        # Returns component i as what can be copied as it is: what `convert` returns, or a number that fits.
        cdef SlotPart* part = &self.parts[i]
        cdef cnp.ndarray array
        cdef int j
        if part.kind == PART_FIXED:
            if cnp.PyArray_CheckExact(value):
                array = <cnp.ndarray>value
                # Most dtypes are one object each: the comparison of others costs as much as all the rest.
                if ((<PyObject*>cnp.PyArray_DESCR(array) == <PyObject*>self.dtypes[i]
                        or cnp.PyArray_EquivTypes(array.descr, <cnp.dtype>self.dtypes[i]))
                        and cnp.PyArray_IS_C_CONTIGUOUS(array) and cnp.PyArray_NDIM(array) == part.ndim + is_batch):
                    for j in range(part.ndim):
                        if cnp.PyArray_DIM(array, j + is_batch) != part.dims[j]:
                            break
                    else:
                        return value
            elif part.scalar != SCALAR_NONE and not is_batch and _scalar_fits(part, value, self.dtypes[i]):
                return value
        return self.converts[i](value, is_batch)

    cdef bint _is_component(self, values):
        # Returns whether it is the only component of an element, and not a list, tuple or dict of components.
        return self.part_count == 1 and self.names is None and not isinstance(values, (list, tuple, dict))

    cdef object _prepare(self, values, bint is_batch, int64_t* n):
        # Returns a list or tuple of components that can be copied as they are; *n: their rows. Nobody changes it: it is
        # a new list, or the tuple that was handed in.
        cdef list ready = None
        cdef object part
        cdef int i
        cdef int64_t rows = -1, part_rows
        if len(values) != self.part_count:
            hint = (". A list or tuple holds an element's components: hand in one array as numpy.array(values), or as "
                    "[values]"
                    if self.part_count == 1 else "")
            raise_error(CODE_INVALID_ARGUMENT, f"{self.kind} {self.name!r} has {self.part_count} "
                f"component{'' if self.part_count == 1 else 's'}, and {len(values)} were given{hint}")
        if type(values) is not tuple:
            values = ready = list(values)
        for i in range(self.part_count):
            part = self._part_of(i, values[i], is_batch)
            if part is not values[i]:
                if ready is None:
                    values = ready = list(values)
                ready[i] = part
            if is_batch:
                part_rows = len(part)
                if rows < 0:
                    rows = part_rows
                elif part_rows != rows:
                    raise_error(CODE_INVALID_ARGUMENT,
                        f"component {i} of {self.kind} {self.name!r} has {part_rows} rows where component 0 has {rows}")
        n[0] = rows
        return values

    cdef int _fill(self, uint32_t slot, PyObject** ready, int64_t row) except -1:
        # Copies components that are ready into a slot. row < 0: they are those of one element.
        cdef int i, j
        cdef SlotPart* part
        cdef Varying* v
        cdef unsigned char* place = pool_row(self.pool, slot)
        cdef const unsigned char* source
        cdef int64_t nbytes
        cdef void* data
        cdef cnp.ndarray array
        cdef list references = None
        cdef object value
        for i in range(self.part_count):
            part = &self.parts[i]
            if part.kind >= PART_BYTES:
                value = <object>ready[i]
                if row >= 0:
                    value = value[row]
                if part.kind != PART_OBJECT:
                    _pack(<Varying*>(place + part.offset), value, part.kind == PART_STR)
                    continue
                if references is None:
                    references = []
                references.append(value)
                continue
            value = <object>ready[i]
            if part.scalar != SCALAR_NONE and not cnp.PyArray_CheckExact(value):
                _scalar_store(part, place + part.offset, value)
                continue
            array = <cnp.ndarray>value
            source = <const unsigned char*>cnp.PyArray_DATA(array)
            if part.kind == PART_FIXED:
                nbytes = part.nbytes
                data = place + part.offset
            else:
                v = <Varying*>(place + part.offset)
                nbytes = cnp.PyArray_NBYTES(array)
                if row >= 0:
                    nbytes = nbytes // cnp.PyArray_DIM(array, 0)
                if not _varying_room(v, nbytes):
                    raise MemoryError
                v.ndim = cnp.PyArray_NDIM(array) - (row >= 0)
                for j in range(v.ndim):
                    v.dims[j] = cnp.PyArray_DIM(array, j + (row >= 0))
                data = v.data
            if row > 0:
                source += row * nbytes
            if nbytes < COPY_BYTES:
                memcpy(data, source, nbytes)
            else:
                with nogil:
                    memcpy(data, source, nbytes)
        if references is not None:
            self.objects[<Py_ssize_t>slot] = references
        return 0

    # Elements out of slots

    cdef int _stackable(self, str what) except -1:
        if self.has_varying and not self.pad:
            raise_error(CODE_INVALID_ARGUMENT,
                f"{what} of {self.kind} {self.name!r} needs elements of one shape: give the queue its shapes")
        return 0

    cdef object _element(self, uint32_t slot):
        # Uses loops and not comprehensions, which would make a function each time.
        cdef list parts
        cdef int i
        if self.part_count == 1 and self.names is None:
            return _component(self, 0, slot)
        parts = []
        for i in range(self.part_count):
            parts.append(_component(self, i, slot))
        return self._shaped(parts)

    cdef list _columns(self, const uint32_t* tokens, int64_t n):
        cdef list parts = []
        cdef int i
        for i in range(self.part_count):
            parts.append(_stack(self, i, tokens, n))
        return parts

    cdef object _copy_out(self, const uint32_t* tokens, int64_t n, list out, bint is_batch):
        # Copies into the caller's arrays, which are C-contiguous, of the right dtype and shape (checked before).
        cdef int i
        for i in range(self.part_count):
            if self.parts[i].kind == PART_FIXED:
                _copy_rows(self, &self.parts[i], tokens, n, <unsigned char*>cnp.PyArray_DATA(out[i]))
            elif is_batch:
                (<object>out[i])[:n] = _stack(self, i, tokens, n)
            else:
                (<object>out[i])[...] = _component(self, i, tokens[0])
        return self._shaped([array[:n] for array in out] if is_batch else out)

    cdef object _shaped(self, list parts):
        if self.names is not None:
            return dict(zip(self.names, parts))
        return parts[0] if self.part_count == 1 else parts

    # Slots as arrays, without copies

    cdef int _placeable(self, str what, int64_t n) except -1:
        if self.has_buffers or self.has_objects:
            raise_error(CODE_INVALID_ARGUMENT,
                f"{what} of {self.kind} {self.name!r} needs components of a fixed shape and size")
        if not 0 < n < POOL_SLOTS:
            raise_error(CODE_INVALID_ARGUMENT, f"{what}: the number of elements must be from 1 to {POOL_SLOTS - 1}, "
                                               f"not {n}")
        return 0

    cdef list _blank(self, int64_t n):
        # Returns arrays of n rows in memory of their own, for rows that can't be views of slots.
        return [np.zeros((n, *[self.parts[i].dims[j] for j in range(self.parts[i].ndim)]),
                         self.dtypes[i]) for i in range(self.part_count)]

    cdef void _clear(self, const uint32_t* tokens, int64_t n) noexcept:
        cdef int64_t k
        cdef size_t nbytes = self.pool.slot_bytes
        if n * <int64_t>nbytes < COPY_BYTES:
            for k in range(n):
                memset(pool_row(self.pool, tokens[k]), 0, nbytes)
        else:
            with nogil:
                for k in range(n):
                    memset(pool_row(self.pool, tokens[k]), 0, nbytes)

    cdef list _views(self, const uint32_t* tokens, int64_t n, object base):
        # Returns views of the slots; None: the slots do not lie at equal distances.
        cdef Py_ssize_t dims[MAX_DIMS + 1]
        cdef Py_ssize_t strides[MAX_DIMS + 1]
        cdef int64_t k, step = self.pool.slot_bytes
        cdef int i, j
        cdef SlotPart* part
        cdef list views = []
        if n > 1:
            step = pool_row(self.pool, tokens[1]) - pool_row(self.pool, tokens[0])
            for k in range(2, n):
                if pool_row(self.pool, tokens[k]) - pool_row(self.pool, tokens[k - 1]) != step:
                    return None
        for i in range(self.part_count):
            part = &self.parts[i]
            dims[0] = n
            strides[0] = step
            strides[part.ndim] = self.dtypes[i].itemsize if part.ndim else step
            for j in range(part.ndim):
                dims[j + 1] = part.dims[j]
            for j in range(part.ndim - 1, 0, -1):
                strides[j] = strides[j + 1] * part.dims[j]
            views.append(qc_rows(self.dtypes[i], part.ndim + 1, dims, strides,
                                 pool_row(self.pool, tokens[0]) + part.offset, base))
        return views

    # For native threads

    cdef bint slot_take(self, uint32_t* slot) noexcept nogil:
        while not pool_pop(self.pool, slot):
            if not pool_grow(self.pool):
                return False
        return True

    cdef void slot_give(self, uint32_t slot) noexcept nogil:
        pool_push(self.pool, slot)

    cdef unsigned char* slot_place(self, uint32_t slot, int i, int64_t* nbytes) noexcept nogil:
        if self.parts[i].kind != PART_FIXED:
            return NULL
        nbytes[0] = self.parts[i].nbytes
        return pool_row(self.pool, slot) + self.parts[i].offset

    cdef const void* slot_part(self, uint32_t slot, int i, int64_t* nbytes, int32_t* ndim,
                               const Py_ssize_t** dims) noexcept nogil:
        cdef SlotPart* part = &self.parts[i]
        cdef unsigned char* place = pool_row(self.pool, slot) + part.offset
        cdef Varying* v = <Varying*>place
        if part.kind == PART_FIXED:
            nbytes[0] = part.nbytes
            ndim[0] = part.ndim
            dims[0] = part.dims
            return place
        nbytes[0] = v.nbytes
        ndim[0] = v.ndim
        dims[0] = v.dims
        return v.data

    cdef bint slot_fill(self, uint32_t slot, int i, const Cell* cell, Fault* fault) noexcept nogil:
        cdef const SlotPart* part = &self.parts[i]
        cdef unsigned char* place = pool_row(self.pool, slot) + part.offset
        cdef Varying* v
        cdef int64_t n = 1, head
        cdef int j
        fault.a = i
        if not part.any_shape:
            if cell.ndim != part.ndim:
                fault.what = MISFIT_DIMS
                fault.b = cell.ndim
                return False
            for j in range(cell.ndim):
                if part.dims[j] >= 0 and cell.dims[j] != part.dims[j]:
                    fault.what = MISFIT_SIDE
                    fault.b = cell.dims[j]
                    fault.record = j
                    return False
        if part.kind == PART_FIXED:
            if cell.data != place and part.nbytes > 0:
                memcpy(place, cell.data, part.nbytes)
            return True
        v = <Varying*>place
        for j in range(cell.ndim):
            v.dims[j] = cell.dims[j]
            n *= cell.dims[j]
        head = 0 if cell.offsets == NULL else (n + 1) * <int64_t>sizeof(int64_t)
        if not _varying_room(v, head + cell.nbytes):
            fault.what = MISFIT_MEMORY
            fault.b = head + cell.nbytes
            return False
        v.ndim = cell.ndim
        if head > 0:  # a lone string has no offsets
            memcpy(v.data, cell.offsets, head)
        if cell.nbytes > 0:
            memcpy(<unsigned char*>v.data + head, cell.data, cell.nbytes)
        return True

    cdef bint slot_string(self, uint32_t slot, const unsigned char** data, int64_t* nbytes) noexcept nogil:
        cdef const SlotPart* part = &self.parts[0]
        cdef const unsigned char* place = pool_row(self.pool, slot) + part.offset
        cdef const Varying* v = <const Varying*>place
        cdef const int64_t* offsets
        cdef int j
        if part.kind == PART_FIXED:
            data[0] = place
            nbytes[0] = part.nbytes
            while nbytes[0] > 0 and place[nbytes[0] - 1] == 0:  # NumPy's end of a fixed-size string
                nbytes[0] -= 1
            return True
        data[0] = <const unsigned char*>v.data
        nbytes[0] = v.nbytes
        if v.ndim == 0:
            return True
        for j in range(v.ndim):
            if v.dims[j] != 1:
                return False
        offsets = <const int64_t*>v.data
        data[0] += 2 * sizeof(int64_t)
        nbytes[0] = offsets[1]
        return True

    cdef object _misfit(self, const Fault* fault):
        cdef int i = <int>fault.a
        if fault.what == MISFIT_MEMORY:
            return new_error(CODE_EXHAUSTED, f"no memory for {fault.b} bytes of an element of {self.kind} "
                                             f"{self.name!r}")
        shape = [self.parts[i].dims[j] if self.parts[i].dims[j] >= 0 else None for j in range(self.parts[i].ndim)]
        label = f"component {i}" if self.names is None else f"component {self.names[i]!r}"
        got = f"{fault.b} dimensions" if fault.what == MISFIT_DIMS else f"{fault.b} as side {fault.record}"
        return new_error(CODE_INVALID_ARGUMENT, f"{label} of {self.kind} {self.name!r}: expected shape {shape}, got "
                                                f"{got}")
