"""Queues: elements that lie in slots, handed over in the order of their arrival."""
cimport cython
cimport numpy as cnp
from cpython.exc cimport PyErr_CheckSignals
from libc.stdint cimport int64_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, malloc, realloc
from libc.string cimport memcpy, memset
from queuecore._core.atoms cimport check_layout, fork_generation
from queuecore._core.handoff cimport (
    HAND_BUSY, HAND_CANCELLED, HAND_DONE, HAND_NO_MEMORY, HAND_SLICE, SIDE_GET, SIDE_PUT, STORE_FIFO, STORE_PRIORITY, STORE_RANDOM,
    FrontRun, Hand, Op, get_try, hand_cancel, hand_free, hand_init, hand_leave, hand_puts, hand_refill, hand_return, hand_settle,
    hand_size, hand_unsettled, hand_wait, put_try)
from queuecore._core.platform cimport (
    Fault, alloc_lines, kAcquire, kNoSize, kRelaxed, layout_hash, monotonic_ns, size_product, size_sum)
from queuecore._core.pool cimport (
    POOL_SLOTS, SlotPool, pool_free, pool_grow, pool_init, pool_pop, pool_push, pool_row)
from queuecore._core.random cimport Philox, philox_seed
from queuecore._core.runtime cimport StopEvent, exiting, main_over, still_waiting, wait_out_exit, waited
from queuecore._core.stages cimport Cell

import threading

import numpy as np

from queuecore import errors as _errors

cnp.import_array()
check_layout(layout_hash())

cdef extern from *:
    """
    // A writable C-ordered array over `data` whose first axis has its own stride; it keeps `base` alive.
    static PyObject* qc_rows(PyObject* descr, int nd, npy_intp* dims, npy_intp* strides, void* data, PyObject* base) {
      Py_INCREF(descr);  // taken over by NewFromDescr, also when it fails
      PyObject* array = PyArray_NewFromDescr(&PyArray_Type, reinterpret_cast<PyArray_Descr*>(descr), nd, dims, strides, data,
                                             NPY_ARRAY_WRITEABLE, nullptr);
      if (array == nullptr) return nullptr;
      Py_INCREF(base);  // taken over by SetBaseObject, also when it fails
      if (PyArray_SetBaseObject(reinterpret_cast<PyArrayObject*>(array), base) != 0) Py_CLEAR(array);
      return array;
    }
    // A new array; 0 dimensions: still an array.
    static PyObject* qc_empty(PyObject* descr, int nd, npy_intp* dims) {
      Py_INCREF(descr);
      return PyArray_NewFromDescr(&PyArray_Type, reinterpret_cast<PyArray_Descr*>(descr), nd, dims, nullptr, nullptr, 0, nullptr);
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
    BLOCK_ROWS = 4096       # filled ahead of a long enqueue_many, at most
    BLOCK_BYTES = 16 << 20
    SLICE_NS = 50000000     # a Python thread looks for signals this often
    COPY_BYTES = 64 << 10   # from here a copy lets other Python threads run

cdef object _watching = threading.local()


def watch(look):
    """Let ``look(name of the queue)`` be called every 50 ms while this thread waits for a queue, and end the wait by what it raises.

    Returns
    -------
    callable or None
        What was called before. `None`: nothing is, from now on.
    """
    before = getattr(_watching, "look", None)
    _watching.look = look
    return before


cdef inline int64_t _deadline(object timeout) except -2:
    # Monotonic, or -1: none.
    cdef double seconds
    if timeout is None:
        return -1
    seconds = timeout
    if not seconds >= 0:
        raise _errors.InvalidArgumentError(f"timeout must be None or a number of seconds not below 0, not {timeout!r}")
    if seconds > 1e9:
        return -1
    return monotonic_ns() + <int64_t>(seconds * 1e9)


cdef inline size_t _tokens_end(int64_t n) noexcept nogil:
    # Of a run of n tokens: where their keys lie, if the queue has some. No run has so many if that is more than there is memory.
    cdef size_t nbytes = size_sum(sizeof(FrontRun) + 7, size_product(n, sizeof(uint32_t)))
    return nbytes if nbytes == kNoSize else nbytes // 8 * 8


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


# Strings in a Varying. One without dimensions: its bytes. An array of n: n + 1 offsets from where the bytes begin, then the bytes.

cdef inline bytes _encoded(object value, bint text):
    # "surrogatepass": whatever a str holds comes out again.
    return (<str>value).encode("utf-8", "surrogatepass") if text else <bytes>value


cdef inline object _decoded(const char* data, int64_t nbytes, bint text):
    return data[:nbytes].decode("utf-8", "surrogatepass") if text else data[:nbytes]


cdef int _pack(Varying* v, object value, bint text) except -1:
    cdef bytes one
    cdef list strings
    cdef int64_t total = 0, at = 0
    cdef int64_t* offsets
    cdef int j
    cdef cnp.ndarray array
    if not cnp.PyArray_Check(value):
        one = _encoded(value, text)
        if not _varying_room(v, len(one)):
            raise MemoryError
        v.ndim = 0
        memcpy(v.data, <const char*>one, len(one))
        return 0
    array = value
    strings = [_encoded(each, text) for each in array.flat]
    for one in strings:
        total += len(one)
    if not _varying_room(v, <int64_t>((len(strings) + 1) * sizeof(int64_t)) + total):
        raise MemoryError
    v.ndim = cnp.PyArray_NDIM(array)
    for j in range(v.ndim):
        v.dims[j] = cnp.PyArray_DIM(array, j)
    offsets = <int64_t*>v.data
    total = 0
    for one in strings:
        offsets[at] = total
        memcpy(<char*>(offsets + len(strings) + 1) + total, <const char*>one, len(one))
        total += len(one)
        at += 1
    offsets[at] = total
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


cdef inline int64_t _slice_end(int64_t deadline) noexcept nogil:
    cdef int64_t until = monotonic_ns() + SLICE_NS
    return until if deadline < 0 or until < deadline else deadline


@cython.final
cdef class NativeQueue:
    """Elements of some components, in a store of one kind. The queue classes of :mod:`queuecore.queues` are names for it.

    Parameters
    ----------
    kind : str
        The class's name, for messages and for the store: "RandomShuffleQueue", "PriorityQueue", or a FIFO.
    name : str
        For messages.
    capacity : int
        In elements; below 0: unbounded.
    min_after_dequeue : int
        Elements that stay in while it is open.
    parts : list of tuple
        Per component its dtype, its shape (a tuple, in which -1 varies; None: all of it) and what values of no fixed size are: "bytes", "str",
        "object" (references), or "".
    names : tuple of str or None
        Of the components: elements are then dicts.
    convert : callable
        ``convert(i, value, many)`` returns component i as a C-contiguous array of its dtype, checked; of values of no fixed size the
        value, or a list of them: an object, bytes or str, or an object array of these.
    pad : bool
        Gathers fill varying shapes up to the largest.
    seeds : tuple of int
        The generator's pair.
    start : int, default 0
        Where the counters begin (for tests).
    """

    def __cinit__(self, str kind, str name, int64_t capacity, int64_t min_after_dequeue, list parts, tuple names, convert, *,
                 bint pad=False, tuple seeds=(0, 0), uint64_t start=0):
        cdef int i, j
        cdef Part* part
        cdef int64_t offset = 0
        cdef int store = STORE_FIFO
        self.generation = fork_generation()
        self.kind = kind
        self.name = name
        self.names = names
        self.convert = convert
        self.pad = pad
        self.dtypes = []
        self.objects = []
        self.part_count = len(parts)
        self.parts = <Part*>calloc(self.part_count, sizeof(Part))
        self.hand = <Hand*>alloc_lines(sizeof(Hand))
        self.pool = <SlotPool*>alloc_lines(sizeof(SlotPool))
        self.random = <Philox*>calloc(1, sizeof(Philox))
        self.spare = <FrontRun*>malloc(_tokens_end(1) + sizeof(int64_t))
        if self.parts == NULL or self.hand == NULL or self.pool == NULL or self.random == NULL or self.spare == NULL:
            raise MemoryError
        for i, (dtype, shape, sort) in enumerate(parts):
            part = &self.parts[i]
            self.dtypes.append(dtype)
            if sort:
                part.kind = {"bytes": PART_BYTES, "str": PART_STR, "object": PART_OBJECT}[sort]
            else:
                part.kind = PART_VARYING if shape is None or -1 in shape else PART_FIXED
            part.any_shape = shape is None
            part.ndim = 0 if shape is None else len(shape)
            if part.ndim > MAX_DIMS:
                raise _errors.InvalidArgumentError(f"component {i} has {part.ndim} dimensions; at most {MAX_DIMS} are possible")
            part.offset = offset
            part.nbytes = dtype.itemsize
            for j in range(part.ndim):
                part.dims[j] = shape[j]
                if shape[j] > 0 and part.nbytes > (<int64_t>1 << 46) // shape[j]:
                    raise _errors.InvalidArgumentError(f"component {i} of shape {shape} is too large")
                part.nbytes *= shape[j]
            if part.kind == PART_OBJECT:
                self.has_objects = True
            elif part.kind != PART_FIXED:
                self.has_varying = self.has_varying or part.kind == PART_VARYING
                self.has_buffers = True
                offset += (sizeof(Varying) + 63) // 64 * 64
            else:
                offset += (part.nbytes + 63) // 64 * 64
        if kind == "RandomShuffleQueue":
            store = STORE_RANDOM
        elif kind == "PriorityQueue":
            store = STORE_PRIORITY
        philox_seed(self.random, seeds[0], seeds[1])
        if capacity >= POOL_SLOTS:
            raise _errors.InvalidArgumentError(f"capacity must be below {POOL_SLOTS}, or negative for a queue without bound")
        pool_init(self.pool, <uint32_t>(capacity if 0 < capacity < FIRST_SLOTS else FIRST_SLOTS), offset, self.has_buffers)
        if not hand_init(self.hand, store, capacity, min_after_dequeue, start):
            raise MemoryError

    def __dealloc__(self):
        cdef uint32_t slot
        cdef int i
        cdef Varying* v
        if self.pool != NULL:
            if self.has_buffers:
                for slot in range(self.pool.fresh.load(kRelaxed)):  # relaxed: nobody else has it; others were never used
                    for i in range(self.part_count):
                        if PART_FIXED < self.parts[i].kind < PART_OBJECT:
                            v = <Varying*>(pool_row(self.pool, slot) + self.parts[i].offset)
                            free(v.data)
            pool_free(self.pool)
            free(self.pool)
        if self.hand != NULL:
            hand_free(self.hand)
            free(self.hand)
        free(self.spare)
        free(self.random)
        free(self.parts)

    # Elements into slots

    cdef int _refuse(self) except -1:
        if self.generation != fork_generation():
            raise _errors.ForkedPipelineError(
                f"{self.kind} {self.name!r} was made before os.fork(): other threads may have been inside it. Make a queue in the child")
        return 0

    cdef uint32_t _slot(self) except? 0xffffffff:
        cdef uint32_t slot = 0
        cdef bint well = True
        while not pool_pop(self.pool, &slot):
            with nogil:
                well = pool_grow(self.pool)
            if not well:
                raise _errors.ResourceExhaustedError(f"no memory for another element of {self.kind} {self.name!r}")
        if self.has_objects and slot >= <uint32_t>len(self.objects):
            try:
                self.objects.extend([None] * (<Py_ssize_t>slot + 1 - len(self.objects)))
            except BaseException:
                pool_push(self.pool, slot)
                raise
        return slot

    cdef void _release(self, const uint32_t* tokens, int64_t n) noexcept:
        # From the last to the first: then the next ones come out in the same order again, and lie side by side.
        cdef int64_t i
        cdef object gone
        for i in range(n - 1, -1, -1):
            if self.has_objects:
                gone = self.objects[<Py_ssize_t>tokens[i]]
                self.objects[<Py_ssize_t>tokens[i]] = None
            pool_push(self.pool, tokens[i])
            gone = None  # may run anything: the slot is somebody else's already

    cpdef list components_of(self, values):
        """Return the components of an element: what stands for one alone, a list or tuple of them, or a dict by name."""
        if self.names is None:
            if type(values) is list:
                return values
            if isinstance(values, (list, tuple)):
                return list(values)
            if isinstance(values, dict):
                raise _errors.InvalidArgumentError(f"{self.kind} {self.name!r} has no names, so its elements can't be dicts")
            return [values]
        if not isinstance(values, dict):
            raise _errors.InvalidArgumentError(
                f"{self.kind} {self.name!r} has names: an element is a dict with the keys {list(self.names)}")
        if len(values) != self.part_count or not values.keys() >= set(self.names):
            raise _errors.InvalidArgumentError(
                f"{self.kind} {self.name!r}: expected the keys {list(self.names)}, got {list(values)}")
        return [values[label] for label in self.names]

    cdef list _prepare(self, list values, bint many, int64_t* n):
        # Components that can be copied as they are; *n: rows.
        cdef list ready = []
        cdef int i, j
        cdef int64_t rows = -1, own
        cdef Part* part
        cdef object value
        cdef cnp.ndarray array
        cdef bint fits
        if len(values) != self.part_count:
            raise _errors.InvalidArgumentError(
                f"{self.kind} {self.name!r} has {self.part_count} components, and {len(values)} were given")
        for i in range(self.part_count):
            part = &self.parts[i]
            value = values[i]
            fits = False
            if part.kind == PART_FIXED and cnp.PyArray_CheckExact(value):
                array = <cnp.ndarray>value
                fits = (cnp.PyArray_EquivTypes(array.descr, <cnp.dtype>self.dtypes[i]) and cnp.PyArray_IS_C_CONTIGUOUS(array)
                        and cnp.PyArray_NDIM(array) == part.ndim + many)
                if fits:
                    for j in range(part.ndim):
                        if cnp.PyArray_DIM(array, j + many) != part.dims[j]:
                            fits = False
            if not fits:
                value = self.convert(i, value, many)
            ready.append(value)
            if many:
                own = len(value)
                if rows < 0:
                    rows = own
                elif own != rows:
                    raise _errors.InvalidArgumentError(
                        f"component {i} of {self.kind} {self.name!r} has {own} rows where component 0 has {rows}")
        n[0] = rows
        return ready

    cdef int _fill(self, uint32_t slot, list ready, int64_t row) except -1:
        # row < 0: the components are those of one element.
        cdef int i, j
        cdef Part* part
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
                value = ready[i] if row < 0 else ready[i][row]
                if part.kind != PART_OBJECT:
                    _pack(<Varying*>(place + part.offset), value, part.kind == PART_STR)
                    continue
                if references is None:
                    references = []
                references.append(value)
                continue
            array = <cnp.ndarray>ready[i]
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

    cdef int64_t _key(self, uint32_t slot) noexcept:
        # Of a PriorityQueue: its first component.
        return (<int64_t*>pool_row(self.pool, slot))[0] if self.hand.store == STORE_PRIORITY else 0

    # Putting

    def enqueue(self, values, timeout=None):
        """Put one element."""
        cdef int64_t n = 0, key
        cdef uint32_t slot
        cdef int rc
        cdef list ready
        self._refuse()
        ready = self._prepare(self.components_of(values), False, &n)
        slot = self._slot()
        try:
            self._fill(slot, ready, -1)
            key = self._key(slot)
            # Of a FIFO without letting go of the GIL: nothing here waits, not even those in line are let act by waiting.
            if self.hand.store == STORE_FIFO:
                rc = put_try(self.hand, slot, key)
                if rc == HAND_DONE and hand_unsettled(self.hand):
                    hand_settle(self.hand, self.random)
            else:
                with nogil:
                    rc = put_try(self.hand, slot, key)
                    if rc == HAND_DONE:
                        hand_settle(self.hand, self.random)
            if rc == HAND_DONE:
                return
        except BaseException:
            self._release(&slot, 1)
            raise
        self._put(&slot, &key, 1, timeout)

    def enqueue_many(self, values, timeout=None):
        """Put the rows of the components, in one piece."""
        cdef int64_t n = 0, at = 0, count, filled = 0, deadline
        cdef Op op
        cdef list ready
        self._refuse()
        ready = self._prepare(self.components_of(values), True, &n)
        deadline = _deadline(timeout)
        if n == 0:
            return
        # As many as may be are filled before, so that whoever makes room can let them in at once.
        count = n if n < BLOCK_ROWS else BLOCK_ROWS
        if self.pool.slot_bytes > 0 and count > <int64_t>(BLOCK_BYTES // self.pool.slot_bytes):
            count = BLOCK_BYTES // self.pool.slot_bytes + 1
        op.tokens = <uint32_t*>malloc(size_product(count, sizeof(uint32_t)))
        op.keys = <int64_t*>malloc(size_product(count, sizeof(int64_t)))
        try:
            if op.tokens == NULL or op.keys == NULL:
                raise MemoryError
            while at < n:
                if count > n - at:
                    count = n - at
                filled = 0
                while filled < count:
                    op.tokens[filled] = self._slot()
                    filled += 1
                    self._fill(op.tokens[filled - 1], ready, at + filled - 1)
                    (<int64_t*>op.keys)[filled - 1] = self._key(op.tokens[filled - 1])
                if at == 0:
                    op.n = count
                    op.more = count < n
                else:
                    with nogil:
                        hand_refill(self.hand, self.random, &op, count, at + count < n)
                self._wait_put(&op, deadline, at, n)
                at += count
                filled = op.done = 0  # all of them are the queue's
        finally:
            with nogil:
                hand_leave(self.hand, SIDE_PUT, self.random, &op)
            if filled > 0:
                self._release(op.tokens + op.done, filled - op.done)
            free(op.tokens)
            free(<void*>op.keys)

    cdef int _put(self, uint32_t* tokens, int64_t* keys, int64_t n, object timeout) except -1:
        # Puts filled slots; those that stay behind are free again. keys: room for as many.
        cdef Op op
        cdef int64_t i
        op.tokens = tokens
        op.n = n
        op.keys = keys
        for i in range(n):
            keys[i] = self._key(tokens[i])
        try:
            self._wait_put(&op, _deadline(timeout), 0, n)
        finally:
            with nogil:
                hand_leave(self.hand, SIDE_PUT, self.random, &op)
            self._release(tokens + op.done, n - op.done)
        return 0

    cdef int _wait_put(self, Op* op, int64_t deadline, int64_t before, int64_t total) except -1:
        cdef int rc = self._wait(SIDE_PUT, op, deadline)
        if rc == HAND_DONE:
            return 0
        if rc == HAND_NO_MEMORY:
            raise _errors.ResourceExhaustedError(f"no memory for more elements of {self.kind} {self.name!r}")
        if rc != HAND_SLICE:
            raise self._closed_for_putting(rc)
        raise _errors.DeadlineExceededError(
            f"{self.kind} {self.name!r} had no room in time" if total == 1 else
            f"{self.kind} {self.name!r} had no room in time; {before + op.done} of {total} rows are in it")

    cdef int _wait(self, int which, Op* op, int64_t deadline) except -1:
        # The result; HAND_SLICE: the time ran out, and the operation is out of its line.
        cdef int rc = HAND_SLICE
        cdef int64_t until
        if deadline < 0:
            waited()
        while rc == HAND_SLICE:
            until = _slice_end(deadline)
            with nogil:
                rc = hand_wait(self.hand, which, self.random, op, until)
            if rc == HAND_SLICE:
                if deadline >= 0 and monotonic_ns() >= deadline:
                    with nogil:
                        rc = hand_leave(self.hand, which, self.random, op)
                    return rc
                self._look_up(deadline < 0)
        waited()
        return rc

    cdef int _look_up(self, bint for_ever) except -1:
        # Between two slices of waiting. Whoever waits here may have asked to be asked.
        look = getattr(_watching, "look", None)
        if look is not None:
            look(self.name)
        PyErr_CheckSignals()
        if for_ever:
            still_waiting()
        else:
            wait_out_exit()
        return 0

    cdef object _closed_for_putting(self, int rc):
        cdef object error
        if rc == HAND_CANCELLED:
            error = _errors.CancelledError(f"the wait to put into {self.kind} {self.name!r} was cancelled when it was closed")
        else:
            error = _errors.CancelledError(f"{self.kind} {self.name!r} is closed")
        return self._with_cause(error)

    cdef object _with_cause(self, object error):
        if self.failure is not None:
            error.args = (f"{error.args[0]}, since what fills it failed: {self.failure!r}",)
            error.__cause__ = self.failure
        return error

    # Getting

    def dequeue(self, timeout=None, list out=None):
        """Take one element: its component, a list of them, or a dict."""
        cdef uint32_t slot = 0
        cdef int rc
        cdef Op op
        self._refuse()
        if self.hand.store == STORE_FIFO:  # as in enqueue
            rc = get_try(self.hand, self.random, &slot)
            if rc == HAND_DONE and hand_unsettled(self.hand):
                hand_settle(self.hand, self.random)
        else:
            with nogil:
                rc = get_try(self.hand, self.random, &slot)
                if rc == HAND_DONE:
                    hand_settle(self.hand, self.random)
        if rc != HAND_DONE:
            op.n = 1
            op.run = self._run(1)
            op.tokens = op.run.tokens
            try:
                self._get(&op, timeout, 1)
                slot = op.tokens[0]
            finally:
                free(op.run)
        try:
            element = self._element(slot) if out is None else self._copy_out(&slot, 1, out, False)
        except BaseException:
            self._return_one(slot)
            raise
        self._release(&slot, 1)
        return element

    def dequeue_many(self, int64_t n, bint up_to, timeout=None, list out=None):
        """Take n elements (up_to: fewer, if it is closed and has fewer), stacked."""
        cdef Op op
        cdef int64_t got
        self._refuse()
        self._stackable("dequeue_up_to" if up_to else "dequeue_many")
        if n < 0:
            raise _errors.InvalidArgumentError(f"the number of elements must not be negative: {n}")
        if self.hand.store == STORE_PRIORITY and not up_to and self.hand.capacity >= 0 and n > self.hand.capacity:
            raise _errors.InvalidArgumentError(
                f"PriorityQueue {self.name!r} has room for {self.hand.capacity} elements, so {n} will never be there at once")
        # No queue ever holds more elements than there are slots: one more stands for any number that never comes.
        op.n = n if n < POOL_SLOTS else POOL_SLOTS
        op.up_to = up_to
        op.run = self._run(op.n)
        op.tokens = op.run.tokens
        try:
            if n > 0:
                self._get(&op, timeout, n)
            got = op.done
            try:
                batch = self._batch(op.tokens, got) if out is None else self._copy_out(op.tokens, got, out, True)
            except BaseException:
                self._return(&op)
                raise
            self._release(op.tokens, got)
        finally:
            free(op.run)
        return batch

    cdef int _get(self, Op* op, object timeout, int64_t wanted) except -1:
        # Gathers; whatever ends it early gives back what it had.
        cdef int rc
        try:
            rc = self._wait(SIDE_GET, op, _deadline(timeout))
        except BaseException:
            with nogil:
                hand_leave(self.hand, SIDE_GET, self.random, op)
            self._return(op)  # it was over by then
            raise
        if rc == HAND_DONE:
            return 0
        if op.done > 0:
            self._lose(op)
        if rc == HAND_SLICE:
            raise _errors.DeadlineExceededError(f"{self.kind} {self.name!r} had too few elements in time (requested {wanted})")
        raise self._too_few(wanted)

    cdef object _too_few(self, int64_t wanted):
        return self._with_cause(_errors.OutOfRangeError(
            f"{self.kind} {self.name!r} is closed and has insufficient elements (requested {wanted}, current size {self.size()})"))

    cdef FrontRun* _run(self, int64_t n) except NULL:
        # Room for n tokens, in the form in which they may be given back, which must not need any memory.
        cdef FrontRun* run = <FrontRun*>malloc(size_sum(_tokens_end(n), size_product(n, sizeof(int64_t) if self.hand.store == STORE_PRIORITY else 0)))
        if run == NULL:
            raise MemoryError
        return run

    cdef int _return(self, Op* op) except -1:
        # Elements that were taken and can't be handed out.
        cdef int64_t* keys
        cdef int64_t i
        if op.done == 0:
            return 0
        if self.hand.store == STORE_PRIORITY:
            keys = <int64_t*>(<char*>op.run + _tokens_end(op.done))
            for i in range(op.done):
                keys[i] = self._key(op.tokens[i])
            op.keys = keys
        with nogil:
            hand_return(self.hand, self.random, op)
        if op.done > 0:
            self._lose(op)
        return 0

    cdef int _return_one(self, uint32_t slot) except -1:
        # The same for one that was taken without room for a run.
        cdef Op op
        op.run = <FrontRun*>malloc(_tokens_end(1) + sizeof(int64_t))
        if op.run == NULL:
            op.run = self.spare
            self.spare = NULL
        elif self.spare == NULL:
            self.spare = <FrontRun*>malloc(_tokens_end(1) + sizeof(int64_t))
        op.tokens = &slot if op.run == NULL else op.run.tokens
        op.tokens[0] = slot
        op.n = op.done = 1
        if op.run == NULL:
            self._lose(&op)
        try:
            self._return(&op)
        finally:
            free(op.run)
        return 0

    cdef int _lose(self, Op* op) except -1:
        # Their room, at least, is given back.
        self._release(op.tokens, op.done)
        raise MemoryError(f"{op.done} elements of {self.kind} {self.name!r} are lost: no memory to give them back")

    cdef int _stackable(self, str what) except -1:
        if self.has_varying and not self.pad:
            raise _errors.InvalidArgumentError(
                f"{what} of {self.kind} {self.name!r} needs elements of one shape: give the queue its shapes")
        return 0

    cdef object _component(self, int i, uint32_t slot):
        cdef Part* part = &self.parts[i]
        cdef Varying* v
        cdef const void* source
        cdef int64_t nbytes
        cdef object array
        if part.kind == PART_OBJECT:
            return (<list>self.objects[<Py_ssize_t>slot])[self._reference(i)]
        if part.kind == PART_FIXED:
            array = qc_empty(self.dtypes[i], part.ndim, part.dims)
            source = pool_row(self.pool, slot) + part.offset
            nbytes = part.nbytes
        else:
            v = <Varying*>(pool_row(self.pool, slot) + part.offset)
            if part.kind != PART_VARYING:
                return _unpack(v, part.kind == PART_STR)
            array = qc_empty(self.dtypes[i], v.ndim, v.dims)
            source = v.data
            nbytes = v.nbytes
        self._copy(cnp.PyArray_DATA(array), source, nbytes)
        return qc_scalar(array) if cnp.PyArray_NDIM(array) == 0 else array

    cdef int _reference(self, int i) noexcept:
        # Which of the element's references component i is.
        cdef int j, n = 0
        for j in range(i):
            if self.parts[j].kind == PART_OBJECT:
                n += 1
        return n

    cdef void _copy(self, void* target, const void* source, int64_t nbytes) noexcept:
        if nbytes < COPY_BYTES:
            memcpy(target, source, nbytes)
        else:
            with nogil:
                memcpy(target, source, nbytes)

    cdef object _stack(self, int i, const uint32_t* tokens, int64_t n):
        cdef Part* part = &self.parts[i]
        cdef Py_ssize_t dims[MAX_DIMS + 1]
        cdef int64_t k
        cdef int j
        cdef object array
        dims[0] = n
        if part.kind == PART_FIXED:
            for j in range(part.ndim):
                dims[j + 1] = part.dims[j]
            array = qc_empty(self.dtypes[i], part.ndim + 1, dims)
            self._copy_rows(part, tokens, n, <unsigned char*>cnp.PyArray_DATA(array))
            return array
        # No fixed size, or shapes that vary: up to the largest, filled with zeros, empty strings, or None.
        rows = [self._component(i, tokens[k]) for k in range(n)]
        shape = [part.dims[j] if part.dims[j] >= 0 else max([row.shape[j] for row in rows], default=0) for j in range(part.ndim)]
        if part.kind == PART_VARYING:
            array = np.zeros([n, *shape], self.dtypes[i])
        else:
            array = np.full([n, *shape], {"S": b"", "U": ""}.get(self.dtypes[i].kind), dtype=object)
        for k in range(n):
            if part.ndim == 0:
                array[k] = rows[k]
            else:
                array[k][tuple([slice(side) for side in rows[k].shape])] = rows[k]
        return array

    cdef void _copy_rows(self, const Part* part, const uint32_t* tokens, int64_t n, unsigned char* target) noexcept:
        cdef int64_t k
        if n * part.nbytes < COPY_BYTES:
            for k in range(n):
                memcpy(target + k * part.nbytes, pool_row(self.pool, tokens[k]) + part.offset, part.nbytes)
        else:
            with nogil:
                for k in range(n):
                    memcpy(target + k * part.nbytes, pool_row(self.pool, tokens[k]) + part.offset, part.nbytes)

    cdef object _copy_out(self, const uint32_t* tokens, int64_t n, list out, bint many):
        # Into arrays of the caller's, which are C-contiguous, of the right dtype and shape (checked before).
        cdef int i
        for i in range(self.part_count):
            if self.parts[i].kind == PART_FIXED:
                self._copy_rows(&self.parts[i], tokens, n, <unsigned char*>cnp.PyArray_DATA(out[i]))
            elif many:
                (<object>out[i])[:n] = self._stack(i, tokens, n)
            else:
                (<object>out[i])[...] = self._component(i, tokens[0])
        return self._shaped([array[:n] for array in out] if many else out)

    cdef object _element(self, uint32_t slot):
        # Loops and not comprehensions: those would make a function each time.
        cdef list parts
        cdef int i
        if self.part_count == 1 and self.names is None:
            return self._component(0, slot)
        parts = []
        for i in range(self.part_count):
            parts.append(self._component(i, slot))
        return self._shaped(parts)

    cdef object _batch(self, const uint32_t* tokens, int64_t n):
        cdef list parts = []
        cdef int i
        for i in range(self.part_count):
            parts.append(self._stack(i, tokens, n))
        return self._shaped(parts)

    cdef object _shaped(self, list parts):
        if self.names is not None:
            return dict(zip(self.names, parts))
        return parts[0] if self.part_count == 1 else parts

    # Without copies

    def reserve(self, int64_t n, timeout=None, bint clear=True):
        """Room for n elements, zeros or what was there before, to be filled in place: a :class:`Reservation`."""
        cdef Reservation r
        cdef _Guard guard
        cdef int i
        self._refuse()
        self._placeable("reserve", n)
        r = Reservation.__new__(Reservation)
        r.queue = self
        r.timeout = timeout
        r.slots = _slots(self, n)
        r.slots.take(n)
        guard = _Guard.__new__(_Guard)
        guard.slots = r.slots
        arrays = self._views(r.slots.tokens, n, guard)
        if arrays is not None:
            r.slots.seen = True
            if clear:
                self._clear(r.slots.tokens, n)
        else:  # they do not lie side by side: filled in a block of its own, and copied when it is committed
            r.staged = arrays = [np.zeros((n, *[self.parts[i].dims[j] for j in range(self.parts[i].ndim)]), self.dtypes[i])
                                 for i in range(self.part_count)]
        r.shown = _named(self, arrays)
        return r

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

    def lease(self, int64_t n, timeout=None):
        """The next n elements, where they lie: a :class:`Lease`."""
        cdef Lease lease
        cdef Op op
        cdef int i
        cdef list arrays
        self._refuse()
        self._placeable("lease", n)
        lease = Lease.__new__(Lease)
        lease.slots = _slots(self, n)
        op.n = n
        op.run = self._run(n)
        op.tokens = op.run.tokens
        try:
            self._get(&op, timeout, n)
            try:
                # Their base has no slots before all is made: what fails here gives the elements back.
                arrays = self._views(op.tokens, n, lease.slots)
                if arrays is not None:
                    lease.shown = _named(self, arrays)
                else:
                    arrays = []
                    for i in range(self.part_count):
                        arrays.append(self._stack(i, op.tokens, n))
                    lease.shown = _named(self, arrays)
                    self.copied_rows += n
                    self._release(op.tokens, n)
                    return lease
            except BaseException:
                self._return(&op)
                raise
            memcpy(lease.slots.tokens, op.tokens, n * sizeof(uint32_t))
            lease.slots.n = n
            self.held_rows += n
        finally:
            free(op.run)
        return lease

    cdef int _placeable(self, str what, int64_t n) except -1:
        if self.has_buffers or self.has_objects:
            raise _errors.InvalidArgumentError(
                f"{what} of {self.kind} {self.name!r} needs components of a fixed shape and size")
        if not 0 < n < POOL_SLOTS:
            raise _errors.InvalidArgumentError(f"{what}: the number of elements must be from 1 to {POOL_SLOTS - 1}, not {n}")
        return 0

    cdef list _views(self, const uint32_t* tokens, int64_t n, object base):
        # None: the slots do not lie at equal distances.
        cdef Py_ssize_t dims[MAX_DIMS + 1]
        cdef Py_ssize_t strides[MAX_DIMS + 1]
        cdef int64_t k, step = self.pool.slot_bytes
        cdef int i, j
        cdef Part* part
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
            views.append(qc_rows(self.dtypes[i], part.ndim + 1, dims, strides, pool_row(self.pool, tokens[0]) + part.offset, base))
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

    cdef const void* slot_part(self, uint32_t slot, int i, int64_t* nbytes, int32_t* ndim, const Py_ssize_t** dims) noexcept nogil:
        cdef Part* part = &self.parts[i]
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
        cdef const Part* part = &self.parts[i]
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

    cdef object _misfit(self, const Fault* fault):
        cdef int i = <int>fault.a
        if fault.what == MISFIT_MEMORY:
            return _errors.ResourceExhaustedError(f"no memory for {fault.b} bytes of an element of {self.kind} {self.name!r}")
        shape = [self.parts[i].dims[j] if self.parts[i].dims[j] >= 0 else None for j in range(self.parts[i].ndim)]
        label = f"component {i}" if self.names is None else f"component {self.names[i]!r}"
        got = f"{fault.b} dimensions" if fault.what == MISFIT_DIMS else f"{fault.b} as side {fault.record}"
        return _errors.InvalidArgumentError(f"{label} of {self.kind} {self.name!r}: expected shape {shape}, got {got}")

    cdef int _slot_wait(self, uint32_t slot, int64_t key, StopEvent stop) noexcept nogil:
        cdef Op op  # a new one each time: one that is over stays so
        cdef int rc
        op.tokens = &slot
        op.keys = &key
        op.n = 1
        while True:
            rc = hand_wait(self.hand, SIDE_PUT, self.random, &op, monotonic_ns() + SLICE_NS)
            if rc == HAND_SLICE and (stop.stopped_ns() != 0 or exiting() or main_over()):
                return hand_leave(self.hand, SIDE_PUT, self.random, &op)
            if rc != HAND_SLICE:
                return rc

    cdef int slots_put(self, const uint32_t* slots, int n, StopEvent stop, int* done) noexcept nogil:
        cdef int64_t key = 0
        cdef uint32_t slot
        cdef int rc = HAND_DONE
        cdef bint any_ = False
        done[0] = 0
        while done[0] < n:
            slot = slots[done[0]]
            if self.hand.store == STORE_PRIORITY:
                key = (<int64_t*>pool_row(self.pool, slot))[0]
            rc = put_try(self.hand, slot, key)
            if rc == HAND_BUSY:
                any_ = False  # whoever stands in line settles
                rc = self._slot_wait(slot, key, stop)
            elif rc == HAND_DONE:
                any_ = True
            if rc != HAND_DONE:
                break
            done[0] += 1
        if any_ and hand_unsettled(self.hand):
            hand_settle(self.hand, self.random)
        if done[0] > 0:
            waited()
        return rc

    cdef int slot_get(self, uint32_t* slot, StopEvent stop) noexcept nogil:
        cdef Op op
        cdef int rc = get_try(self.hand, self.random, slot)
        if rc == HAND_DONE and hand_unsettled(self.hand):
            hand_settle(self.hand, self.random)
        if rc == HAND_DONE:
            waited()
            return rc
        op.run = <FrontRun*>malloc(sizeof(FrontRun) + sizeof(uint32_t))
        if op.run == NULL:
            return HAND_NO_MEMORY
        op.tokens = op.run.tokens
        op.n = 1
        while True:
            rc = hand_wait(self.hand, SIDE_GET, self.random, &op, monotonic_ns() + SLICE_NS)
            if rc == HAND_SLICE and (stop.stopped_ns() != 0 or exiting() or main_over()):
                rc = hand_leave(self.hand, SIDE_GET, self.random, &op)
                break
            if rc != HAND_SLICE:
                break
        if rc == HAND_DONE:
            waited()
            slot[0] = op.tokens[0]
        free(op.run)
        return rc

    cdef bint slot_string(self, uint32_t slot, const unsigned char** data, int64_t* nbytes) noexcept nogil:
        cdef const Part* part = &self.parts[0]
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

    # The rest

    def size(self):
        """Elements in the queue; may have changed by the time it is read."""
        self._refuse()
        return hand_size(self.hand)

    def shaped(self, list parts):
        """Return an element of these components: the only one, or a list, or a dict."""
        return self._shaped(parts)

    def is_closed(self):
        """True if it is closed."""
        self._refuse()
        return self.hand.closed.load(kAcquire) != 0

    def close(self, bint cancel, timeout=None):
        """Close, behind the puts that wait, or at once."""
        cdef Op op
        cdef int rc
        self._refuse()
        if cancel:
            with nogil:
                hand_cancel(self.hand, self.random)
            return
        op.closes = True
        try:
            rc = self._wait(SIDE_PUT, &op, _deadline(timeout))
        finally:
            with nogil:
                hand_leave(self.hand, SIDE_PUT, self.random, &op)
        if rc == HAND_CANCELLED:
            raise self._closed_for_putting(rc)
        if rc == HAND_SLICE:
            raise _errors.DeadlineExceededError(
                f"{self.kind} {self.name!r} could not be closed in time: puts wait for room before it")

    def fail(self, error):
        """Close at once, because what fills the queue failed with this error: who comes to the end hears of it."""
        self._refuse()
        if self.failure is None:
            self.failure = error
        with nogil:
            hand_cancel(self.hand, self.random)

    def stats(self):
        """Counters, as a dict."""
        cdef Hand* h = self.hand
        self._refuse()
        size = hand_size(h)
        admitted = hand_puts(h)
        return {
            "size": size,
            "high_water": h.high_water.load(kRelaxed),
            "enqueued": admitted,
            "dequeued": admitted - size,
            "waiting_enqueues": h.side[SIDE_PUT].parked.load(kRelaxed),
            "waiting_dequeues": h.side[SIDE_GET].parked.load(kRelaxed),
            "blocked_enqueue_ns": h.side[SIDE_PUT].blocked_ns.load(kRelaxed),
            "blocked_dequeue_ns": h.side[SIDE_GET].blocked_ns.load(kRelaxed),
            "copied_rows": self.copied_rows,
            "held_rows": self.held_rows,
        }


@cython.final
cdef class _Slots:
    # Slots that are nobody's but their holder's, given back when it is gone. The base object of views: it must not refer to them, for the
    # collector does not see through arrays. So slots that anybody can see, by an array derived from those that were handed out, too, are
    # not used again.
    cdef NativeQueue queue
    cdef uint32_t* tokens
    cdef int64_t* keys
    cdef int64_t n
    cdef bint seen  # by arrays whose base is a guard

    cdef int take(self, int64_t n) except -1:
        while self.n < n:
            self.tokens[self.n] = self.queue._slot()
            self.n += 1
            self.queue.held_rows += 1
        return 0

    cdef int64_t let_go(self) noexcept:
        # From here on they are the caller's.
        cdef int64_t n = self.n
        self.n = 0
        self.queue.held_rows -= n
        return n

    def __dealloc__(self):
        cdef int64_t n
        if self.tokens != NULL:
            n = self.let_go()
            if n and self.queue.generation == fork_generation():
                self.queue._release(self.tokens, n)
        free(self.tokens)
        free(self.keys)


cdef _Slots _slots(NativeQueue queue, int64_t n):
    cdef _Slots slots = _Slots.__new__(_Slots)
    slots.queue = queue
    slots.tokens = <uint32_t*>malloc(size_product(n, sizeof(uint32_t)))
    slots.keys = <int64_t*>malloc(size_product(n, sizeof(int64_t)))
    if slots.tokens == NULL or slots.keys == NULL:
        raise MemoryError
    return slots


@cython.final
cdef class _Guard:
    # The base object of a reservation's views: when it goes, none of them is left, and what was written through them is all there will be.
    cdef _Slots slots

    def __dealloc__(self):
        if self.slots is not None:
            self.slots.seen = False


@cython.nonecheck(True)
cdef object _named(NativeQueue queue, list rows):
    return rows[:] if queue.names is None else dict(zip(queue.names, rows))


@cython.final
@cython.nonecheck(True)  # made by __new__ alone, it has no slots
cdef class Reservation:
    """Room in a queue: arrays to fill, then `commit`, or `cancel`. Forgotten, it gives the room back."""
    cdef NativeQueue queue
    cdef _Slots slots
    cdef bint over
    cdef object timeout
    cdef object shown   # the arrays to fill, in the list or dict that was handed out
    cdef list staged    # the same, where they are no views; None: they are

    @property
    def rows(self):
        """The arrays to fill: a list, or a dict of a queue with names. It is empty once this is committed or cancelled."""
        if self.shown is None:
            raise self._is_over()
        return self.shown

    cdef object _is_over(self):
        return _errors.FailedPreconditionError("this reservation is committed or cancelled already")

    cdef void _end(self) noexcept:
        # Arrays that nobody has kept go now.
        self.over = True
        shown, self.shown = self.shown, None
        if shown is not None:
            shown.clear()

    cdef _Slots _filled(self):
        # Slots with what was written, which nobody sees any more.
        cdef NativeQueue q = self.queue
        cdef _Slots slots = self.slots, fresh
        cdef int64_t k
        if self.staged is not None:
            for k in range(slots.n):
                q._fill(slots.tokens[k], self.staged, k)
            q.copied_rows += slots.n
            return slots
        if not slots.seen:
            return slots
        fresh = _slots(q, slots.n)
        fresh.take(slots.n)
        for k in range(slots.n):
            q._copy(pool_row(q.pool, fresh.tokens[k]), pool_row(q.pool, slots.tokens[k]), q.pool.slot_bytes)
        q.copied_rows += slots.n
        return fresh

    def commit(self, timeout=None):
        """Put the elements, as enqueue_many does. Arrays that somebody has kept are his own from then on: what they show was copied."""
        cdef _Slots slots
        if self.over:
            raise self._is_over()
        self.queue._refuse()
        self._end()
        try:
            slots = self._filled()
        except BaseException:
            self.over = False  # nothing is lost: it may be tried again
            raise
        self.slots = None
        self.queue._put(slots.tokens, slots.keys, slots.let_go(), timeout)

    def cancel(self):
        """Give the room back. Idempotent."""
        self._end()
        self.slots = None

    def __enter__(self):
        return self.rows

    def __exit__(self, kind, error, trace):
        if self.over:
            return
        if kind is None:
            self.commit(self.timeout)
        else:
            self.cancel()


@cython.final
@cython.nonecheck(True)  # as Reservation
cdef class Lease:
    """Elements taken from a queue, as views of the memory where they lie, until `release` and the end of the last view."""
    cdef _Slots slots
    cdef object shown

    @property
    def rows(self):
        """The views: a list, or a dict of a queue with names."""
        if self.shown is None:
            raise _errors.FailedPreconditionError("this lease is released")
        return self.shown

    def release(self):
        """Give the memory back, as soon as nobody has a view of it any more. Idempotent."""
        self.shown = None
        self.slots = None

    def __enter__(self):
        return self.rows

    def __exit__(self, kind, error, trace):
        self.release()
