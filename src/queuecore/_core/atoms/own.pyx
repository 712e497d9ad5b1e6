"""Ownership of an array's memory: values that a user hands in become queuecore's own here, before any code of the
user's runs again.

An array is queuecore's own if it is a copy; if no code can write to its memory (`bytes`, a read-only map of a file); or
if only queuecore refers to it. The array's read-only flag proves nothing: its base may be writable, or user code may
have a writable view.

The last case depends on the count of references, read right after a function of the user's has returned: then one C
variable and the containers of the result hold it. The count is trusted only if every holder counts, which means an
interpreter with a GIL that is older than 3.14: from there on frames borrow. Otherwise arrays are copied.
"""
cimport numpy as cnp
from cpython.object cimport PyObject, PyObject_CallObject
from cpython.ref cimport Py_DECREF
from libc.stdint cimport uintptr_t

import mmap
from collections.abc import Mapping
from types import SimpleNamespace

import numpy as np

cnp.import_array()

cdef extern from *:
    """
    #if PY_VERSION_HEX < 0x030E0000 && !defined(Py_GIL_DISABLED)
    #define QC_HOLDERS_COUNT 1
    #else
    #define QC_HOLDERS_COUNT 0
    #endif
    """
    const int QC_HOLDERS_COUNT

# Objects are passed as pointers: the code that looks at a count must not hold a reference itself.
cdef extern from "Python.h":
    ctypedef struct RawType "PyTypeObject":
        Py_ssize_t tp_weaklistoffset
    Py_ssize_t Py_REFCNT(PyObject*) noexcept
    RawType* type_of "Py_TYPE"(PyObject*) noexcept
    PyObject* next_of "PyIter_Next"(object) except? NULL

cdef extern from "numpy/arrayobject.h":
    ctypedef struct RawArray "PyArrayObject"
    bint is_array "PyArray_Check"(PyObject*) noexcept
    bint is_plain_array "PyArray_CheckExact"(PyObject*) noexcept
    PyObject* base_of "PyArray_BASE"(RawArray*) noexcept
    int flags_of "PyArray_FLAGS"(RawArray*) noexcept
    cnp.npy_intp nbytes_of "PyArray_NBYTES"(RawArray*) noexcept

cdef enum:
    FIXED = 1     # the copies are read-only
    LISTS = 2     # lists are structure and do not become arrays
    LEVEL = 4     # this bit and those above it count the depth in the structure
    MOST_LEVELS = 500

COUNTS = bool(QC_HOLDERS_COUNT)

cdef object _MAP = mmap.mmap
cdef object _VIEW = memoryview
cdef object _SCALAR = np.generic
cdef frozenset _LEAVES = frozenset([bytes, int, float, bool, str])
cdef set _rows = set()  # the classes of rows that vary in length

# The makers of rows that vary in length, registered by the Python layer above: `Ragged`, and `strings`, which makes a
# `Ragged` of characters.
ragged = SimpleNamespace()


cdef bint _is_alone(PyObject* pointer, Py_ssize_t holders) noexcept:
    # True if it has no references but the `holders` known to the caller, and no weak references, which could become
    # strong ones.
    cdef Py_ssize_t place
    if not QC_HOLDERS_COUNT or Py_REFCNT(pointer) != holders:
        return False
    place = type_of(pointer).tp_weaklistoffset
    return place <= 0 or (<PyObject**>(<char*>pointer + place))[0] == NULL


cdef bint _is_private(PyObject* pointer, Py_ssize_t holders) noexcept:
    # As _is_alone, for an array. A view of a whole array counts as that array; a view of a part would keep the rest in
    # memory.
    cdef RawArray* array = <RawArray*>pointer
    cdef PyObject* base = base_of(array)
    # In arrays that are not contiguous, items may overlap.
    if (not _is_alone(pointer, holders)
            or not flags_of(array) & (cnp.NPY_ARRAY_C_CONTIGUOUS | cnp.NPY_ARRAY_F_CONTIGUOUS)):
        return False
    if base == NULL:
        return flags_of(array) & cnp.NPY_ARRAY_OWNDATA != 0
    return (
        is_plain_array(base)
        and _is_alone(base, 1)
        and base_of(<RawArray*>base) == NULL
        and flags_of(<RawArray*>base) & cnp.NPY_ARRAY_OWNDATA != 0
        and nbytes_of(<RawArray*>base) == nbytes_of(array)
    )


cdef object _immutable(array):
    # Returns the array, or one with the same memory; None: somebody can write to that memory.
    cdef PyObject* pointer = <PyObject*>array
    while is_array(pointer):
        # NumPy unpickles to arrays that can be written to although their base is `bytes`.
        if flags_of(<RawArray*>pointer) & (cnp.NPY_ARRAY_WRITEABLE | cnp.NPY_ARRAY_OWNDATA):
            return None
        pointer = base_of(<RawArray*>pointer)
        if pointer == NULL:
            return None
    owner = <object>pointer
    if type(owner) is bytes:
        return array
    try:
        if type(owner) is _VIEW:
            owner = owner.obj
        if type(owner) is not bytes and type(owner) is not _MAP:
            return None
        flat_bytes = np.frombuffer(owner, np.uint8)
    except ValueError:  # it is released, closed, or empty
        return None
    if flat_bytes.flags.writeable:
        return None
    # While `flat_bytes` exists, nobody can close the map.
    return np.ndarray(array.shape, array.dtype, flat_bytes, _place(array, flat_bytes), array.strides)


cdef Py_ssize_t _place(array, whole) except -1:
    return <uintptr_t>cnp.PyArray_DATA(array) - <uintptr_t>cnp.PyArray_DATA(whole)


cdef object _owned_array(array, bint fixed):
    result = _immutable(array)
    if result is not None:
        return result
    if not fixed:
        return cnp.PyArray_NewCopy(array, cnp.NPY_KEEPORDER)
    if array.dtype.hasobject:  # NumPy keeps these in its own memory only
        result = cnp.PyArray_NewCopy(array, cnp.NPY_KEEPORDER)
        result.flags.writeable = False
        return result
    return np.ndarray(array.shape, array.dtype, array.tobytes())


cdef bint _is_in(structure, PyObject* pointer) except -1:
    # True if it points to the structure itself or one of its parts. structure: a tuple, a dict, or an object without
    # parts.
    if <PyObject*>structure == pointer:
        return True
    if type(structure) is tuple or type(structure) is dict:
        for part in (structure if type(structure) is tuple else (<dict>structure).values()):
            if _is_in(part, pointer):
                return True
    return False


cdef object _own(PyObject* pointer, Py_ssize_t holders, int mode, returnables):
    # holders: the number of queuecore's references to the object, if no user code can reach its holder; 0: user code
    # can.
    if is_plain_array(pointer):
        if holders and not mode & FIXED and _is_private(pointer, holders):
            return <object>pointer
        if returnables is not None and _is_in(returnables, pointer):
            return <object>pointer
        return _owned_array(<object>pointer, mode & FIXED)
    value = <object>pointer  # another holder
    kind = type(value)
    if kind in _LEAVES:
        return value
    if kind is not tuple and kind is not dict and not (kind is list and mode & LISTS):
        return _own_slowly(value, kind, mode, returnables)
    # Any other holder of it reaches its parts. Each part is held by it, and by `part` below.
    holders = 2 if holders and _is_alone(pointer, holders + 1) else 0
    return _own_parts(value, holders, mode, returnables)


cdef object _own_parts(value, Py_ssize_t holders, int mode, returnables):
    cdef list parts = []
    cdef dict by_name = {}
    mode += LEVEL
    # Python's own limit is for its functions: since 3.12 ours would run out of stack first
    if mode >= MOST_LEVELS * LEVEL:
        raise RecursionError("maximum recursion depth exceeded while an element is taken: does it hold itself?")
    if type(value) is tuple:
        for part in <tuple>value:
            parts.append(_own(<PyObject*>part, holders, mode, returnables))
        return tuple(parts)
    if type(value) is list:
        for part in tuple(<list>value):
            parts.append(_own(<PyObject*>part, 0, mode, returnables))
        return parts
    for key in list(<dict>value):
        part = (<dict>value)[key]
        by_name[key] = _own(<PyObject*>part, holders, mode, returnables)
    return by_name


cdef object _own_slowly(value, kind, int mode, returnables):
    if isinstance(value, _SCALAR):
        return value
    if kind in _rows:
        return value._owned(bool(mode & FIXED))
    if cnp.PyArray_Check(value):
        return _owned_array(np.asarray(value), mode & FIXED)
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return kind._make([_own(<PyObject*>one, 0, mode, returnables) for one in value])
    if isinstance(value, Mapping):
        return _own_parts(dict(value), 0, mode, returnables)
    return value


def register_rows(rows, sparse, strings):
    """Say what makes rows that vary in length: `Ragged`, `Sparse`, and a function.

    The classes have a method `_owned(fixed)`, for what is ours.
    """
    _rows.update((rows, sparse))
    ragged.Ragged, ragged.strings = rows, strings


def own(value, *, bint fixed=False):
    """Return a value with arrays that are queuecore's own: copies, except of memory that no code can write to.

    Parameters
    ----------
    value : object
        An array, `Ragged` or `Sparse`, or tuples, lists and dicts of them, which are replaced by new ones. Anything
        else is returned as it is.
    fixed : bool
        True: the returned arrays are read-only for good.
    """
    return _own(<PyObject*>value, 0, LISTS | (FIXED if fixed else 0), None)


def own_result(function, tuple arguments not None, returnables=None, bint listed=False):
    """Return the result of a user's function as `own` returns values; arrays that nothing else refers to aren't copied.

    A list in it is no structure: an array is made of it anyway.

    Parameters
    ----------
    returnables : optional
        An array, or tuples and dicts of them, that are ours already: if one of these is returned, it is as good as new.
    listed : bool
        Whether one that is a list itself is a tuple.
    """
    cdef Py_ssize_t holders = 1
    result = PyObject_CallObject(function, arguments)
    if listed and type(result) is list:
        # If nobody else has the list, only the tuple holds its parts from now on.
        holders = 1 if _is_alone(<PyObject*>result, 1) else 0
        result = tuple(<list>result)
    return _own(<PyObject*>result, holders, 0, returnables)


def own_next(iterator):
    """Return the next one of an iterator of the user's, as `own_result` does, in a tuple; `None`: there is none."""
    cdef PyObject* found = next_of(iterator)
    if found == NULL:
        return None
    made = <object>found
    Py_DECREF(made)
    return (_own(<PyObject*>made, 1, 0, None),)
