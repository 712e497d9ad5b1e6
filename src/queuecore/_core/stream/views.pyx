"""Views: the arrays of a batch, and elements made of them."""
cimport cython
cimport numpy as cnp
from libc.stdint cimport int32_t, int64_t
from queuecore._core.atoms.dims cimport MAX_DIMS
from queuecore._core.atoms.errors cimport CODE_INVALID_ARGUMENT, new_error
from queuecore._core.atoms.memory cimport calloc, free
from queuecore._core.atoms.process cimport check_layout
from queuecore._core.stream.describe cimport KIND_DENSE, KIND_FIXED, KIND_OBJECT, KIND_STRINGS, RowComponent
from queuecore._core.atoms.growing cimport Growing
from queuecore._core.atoms.platform cimport layout_hash, size_product
from queuecore._core.stream.maker cimport Output, Pad
from queuecore._core.atoms.slab cimport slab_slot

import numpy as np

from queuecore._core.atoms.own import ragged as _ragged

cnp.import_array()
check_layout(layout_hash())

_CHAR = np.dtype("S1")
_INT64 = np.dtype(np.int64)
_UINT8 = np.dtype(np.uint8)

cdef extern from *:
    """
    // A writable C-ordered array over `data` that keeps `base` alive; both counts of references are taken care of.
    static PyObject* qc_view(PyObject* descr, int nd, npy_intp* dims, void* data, PyObject* base) {
      Py_INCREF(descr);  // taken over by NewFromDescr, also when it fails
      auto* type = reinterpret_cast<PyArray_Descr*>(descr);
      PyObject* array = PyArray_NewFromDescr(&PyArray_Type, type, nd, dims, nullptr, data,
                                             NPY_ARRAY_CARRAY, nullptr);
      if (array == nullptr) return nullptr;
      Py_INCREF(base);  // taken over by SetBaseObject, also when it fails
      if (PyArray_SetBaseObject(reinterpret_cast<PyArrayObject*>(array), base) != 0) Py_CLEAR(array);
      return array;
    }
    // From now on nobody can write to the array.
    static void qc_freeze(PyObject* array) {
      PyArray_CLEARFLAGS(reinterpret_cast<PyArrayObject*>(array), NPY_ARRAY_WRITEABLE);
    }
    """
    object qc_view(object descr, int nd, cnp.npy_intp* dims, void* data, object base)
    void qc_freeze(object array)


cdef inline unsigned char* _slot(BatchLease lease) noexcept:
    return slab_slot(lease.pipe.slab, lease.slot)


cdef object _ragged_of(object values, object splits):
    # Returns rows of splits that are known to fit, and that nobody else has.
    qc_freeze(splits)
    return _ragged.Ragged._of(values, splits)


cdef list copies(list parts):
    cdef list results = []
    for part in parts:
        if part is None:
            results.append(None)
        elif type(part) is list:
            results.append(copies(part))
        elif type(part) is tuple:
            results.append(tuple(copies(list(part))))
        else:
            results.append(part._copy() if isinstance(part, _ragged.Ragged) else part.copy())
    return results


cdef object assembled(object template, list parts):
    cdef list items
    cdef dict by_name
    if type(template) is int:
        return parts[template]
    if type(template) is tuple:
        items = []
        for part in <tuple>template:
            items.append(assembled(part, parts))
        return tuple(items)
    by_name = {}
    for name, part in (<dict>template).items():
        by_name[name] = assembled(part, parts)
    return by_name


cdef object _varied(const Output* out, unsigned char* slot, int64_t row, object dtype, BatchLease lease):
    # Returns one row, which has a shape of its own.
    cdef cnp.npy_intp shape[MAX_DIMS]
    cdef const int64_t* noted = <int64_t*>(slot + out.dims_offset) + row * out.ndim
    cdef const Growing* g = &lease.pipe.vars[<int64_t>lease.slot * lease.pipe.plan.maker.vars + out.var]
    cdef int i
    for i in range(out.ndim):
        shape[i] = noted[i]
    return qc_view(dtype, out.ndim, shape, g.data + (<int64_t*>(slot + out.slot_offset))[row] if g.data != NULL
                   else slot, lease)


cdef tuple _varying(const Output* out, unsigned char* slot, object dtype, BatchLease lease):
    # Returns the values of all rows, and the row splits: the begin and end of each row among the values.
    cdef cnp.npy_intp n
    cdef Growing* g = &lease.pipe.vars[<int64_t>lease.slot * lease.pipe.plan.maker.vars + out.var]
    cdef int64_t* ends = <int64_t*>(slot + out.slot_offset)
    n = ends[lease.rows] // out.item
    values = qc_view(dtype, 1, &n, g.data if g.data != NULL else slot, lease)
    n = lease.rows + 1
    splits = qc_view(_INT64, 1, &n, ends, lease)
    return values, splits if out.item == 1 else splits // out.item


@cython.final
cdef class Views:
    def __dealloc__(self):
        free(self.ndims)
        free(self.sides)

    cdef int begin(self, int32_t leaves) except -1:
        self.dtypes = []
        self.levels = []
        self.leaf_count = leaves
        self.ndims = <int*>calloc(leaves + 1, sizeof(int))
        self.sides = <int64_t*>calloc(size_product(leaves + 1, MAX_DIMS), sizeof(int64_t))
        if self.ndims == NULL or self.sides == NULL:
            raise MemoryError
        return 0

    cdef int lead_dims(self, int64_t rows, int64_t subs, int64_t* dims) except -1:
        # A batch of batches counts its elements in `subs`; a batch of records counts its rows.
        cdef int n = len(self.levels), i
        cdef int64_t size
        if n > 1:
            dims[0] = subs if subs else rows  # an inner batch of one record counts as a record
            rows = rows // dims[0]
            for i in range(n - 2, 0, -1):
                size = 1
                for inner in self.levels[:i]:
                    size *= inner
                dims[n - 1 - i] = rows // size if rows >= size else 1
                rows = size if rows >= size else rows
            dims[n - 1] = rows
        else:
            dims[0] = rows
        return n if n > 0 else 1

    cdef list columns(self, BatchLease lease):
        cdef unsigned char* slot = _slot(lease)
        cdef list columns = []
        cdef const Output* out
        cdef Growing* g
        cdef cnp.npy_intp shape[2]
        cdef int32_t i
        cdef object dims
        shape[0] = lease.rows
        if self.components is None:
            for i in range(self.leaf_count):
                shape[1] = lease.pipe.plan.leaves[i].row_bytes
                columns.append(qc_view(_UINT8, 2, shape, slot + lease.pipe.plan.leaves[i].slot_offset, lease))
            return columns
        for i in range(lease.pipe.plan.maker.count):
            out = &lease.pipe.plan.maker.outputs[i]
            shape[0] = lease.rows
            if out.item == 0:
                shape[1] = out.row_bytes
                columns.append(qc_view(_UINT8, 2, shape, slot + out.slot_offset, lease))
                continue
            dims = None
            if out.ndim > 0:
                shape[1] = out.ndim
                dims = qc_view(_INT64, 2, shape, slot + out.dims_offset, lease)
            shape[0] = lease.rows + 1
            ends = qc_view(_INT64, 1, shape, slot + out.slot_offset, lease)
            g = &lease.pipe.vars[<int64_t>lease.slot * lease.pipe.plan.maker.vars + out.var]
            shape[0] = (<int64_t*>(slot + out.slot_offset))[lease.rows]
            columns.append((qc_view(_UINT8, 1, shape, g.data if g.data != NULL else slot, lease), ends, dims))
        return columns

    cdef object batch(self, BatchLease lease):
        cdef int64_t dims[MAX_DIMS]
        cdef int lead = self.lead_dims(lease.rows, lease.subs, dims)
        return self._built(self.template, _slot(lease), dims, lead, lease)

    cdef list arrays(self, BatchLease lease, Feed feed, int64_t number):
        cdef int64_t dims[MAX_DIMS]
        cdef int lead = self.lead_dims(lease.rows, lease.subs, dims)
        cdef unsigned char* slot = _slot(lease)
        cdef list arrays = []  # no comprehension: if the list can't grow, Cython's releases the appended object twice
        cdef RowComponent one
        cdef int i
        if self.components is not None:
            for one in self.components:
                arrays.append(self._component(one, slot, dims, lead, lease, feed, number))
        else:
            for i in range(self.leaf_count):
                arrays.append(self._leaf(i, slot, dims, lead, lease))
        return arrays

    cdef bint can_be_copied(self) noexcept:
        return not self.components or (<RowComponent>self.components[0]).kind != KIND_OBJECT

    cdef object whole(self, list arrays):
        if self.assemble is None:
            return assembled(self.template, arrays)
        return self.assemble(arrays, True)

    cdef object one(self, list arrays, int64_t at):
        cdef list parts = []
        for array in arrays:
            parts.append(array[at])
        return assembled(self.template, parts) if self.assemble is None else self.assemble(parts, False)

    cdef int count(self) noexcept:
        return self.leaf_count if self.components is None else len(self.components)

    cdef int64_t slot_offset(self, const Pipe* p, int i) noexcept:
        if self.components is None:
            return p.plan.leaves[i].slot_offset
        return p.plan.maker.outputs[(<RowComponent>self.components[i]).output].slot_offset

    cdef tuple dtype_and_shape(self, int i):
        cdef int j
        if self.components is not None:
            return (<RowComponent>self.components[i]).dtype, (<RowComponent>self.components[i]).shape
        return self.dtypes[i], tuple([self.sides[i * MAX_DIMS + j] for j in range(self.ndims[i])])

    cdef object _leaf(self, int leaf, unsigned char* slot, int64_t* dims, int lead, BatchLease lease):
        cdef cnp.npy_intp shape[2 * MAX_DIMS]
        cdef int i, n = self.ndims[leaf]
        for i in range(lead):
            shape[i] = dims[i]
        for i in range(n):
            shape[lead + i] = self.sides[leaf * MAX_DIMS + i]
        return qc_view(self.dtypes[leaf], lead + n, shape, slot + lease.pipe.plan.leaves[leaf].slot_offset, lease)

    cdef object _component(self, RowComponent component, unsigned char* slot, int64_t* dims, int lead, BatchLease lease,
                           Feed feed, int64_t number):
        # Returns an array, a Ragged, or a list.
        cdef cnp.npy_intp shape[2 * MAX_DIMS]
        cdef const Output* out = &lease.pipe.plan.maker.outputs[component.output]
        cdef int i, n
        cdef object ragged
        if component.kind == KIND_OBJECT:
            return feed.objects(<int64_t*>(slot + out.slot_offset), lease.rows)
        if component.pad >= 0:
            return self._padded(component, slot, dims, lead, lease)
        if component.kind == KIND_FIXED:
            n = len(component.shape)
            for i in range(lead):
                shape[i] = dims[i]
            for i in range(n):
                shape[lead + i] = component.shape[i]
            return qc_view(component.dtype, lead + n, shape, slot + out.slot_offset, lease)
        if component.kind == KIND_DENSE:
            return self._dense(component, slot, dims, lead, lease, number)
        values, splits = _varying(out, slot, _CHAR if component.dtype.itemsize == 0
                                  or component.kind == KIND_STRINGS else component.dtype, lease)
        if component.kind == KIND_STRINGS:
            lengths, splits = _varying(out + 1, slot, _INT64, lease)
            inner = np.zeros(lengths.size + 1, np.int64)
            np.cumsum(lengths, out=inner[1:])
            values = _ragged_of(values, inner)
        ragged = _ragged_of(values, splits)
        for i in range(lead - 1, 0, -1):  # batches of batches
            n = len(ragged) // dims[i] if dims[i] else 0
            ragged = _ragged_of(ragged, np.arange(n + 1, dtype=np.int64) * dims[i])
        return ragged

    cdef object _dense(self, RowComponent component, unsigned char* slot, int64_t* dims, int lead, BatchLease lease,
                       int64_t number):
        # Returns rows that may differ in shape: a list of arrays; of a batch one array, for which their shapes must be
        # equal.
        cdef cnp.npy_intp shape[2 * MAX_DIMS]
        cdef const Output* out = &lease.pipe.plan.maker.outputs[component.output]
        cdef const Growing* g = &lease.pipe.vars[<int64_t>lease.slot * lease.pipe.plan.maker.vars + out.var]
        cdef int64_t* noted = <int64_t*>(slot + out.dims_offset)
        cdef int64_t row
        cdef int i, n
        cdef list many
        if not self.levels:
            many = []
            for row in range(lease.rows):
                many.append(_varied(out, slot, row, component.dtype, lease))
            return many
        for row in range(1, lease.rows):
            for i in range(out.ndim):
                if noted[row * out.ndim + i] != noted[i]:
                    raise new_error(CODE_INVALID_ARGUMENT,
                        f"cannot batch elements of unequal shapes: {[noted[n] for n in range(out.ndim)]} and, {row} "
                        f"later, {[noted[row * out.ndim + n] for n in range(out.ndim)]} (batch {number}). Use "
                        "padded_batch, or dense_to_ragged_batch, or reshape them first", dict(stage="batch"))
        for i in range(lead):
            shape[i] = dims[i]
        for i in range(out.ndim):
            shape[lead + i] = noted[i]
        return qc_view(component.dtype, lead + out.ndim, shape, g.data if g.data != NULL else slot, lease)

    cdef object _padded(self, RowComponent component, unsigned char* slot, int64_t* dims, int lead, BatchLease lease):
        cdef cnp.npy_intp shape[2 * MAX_DIMS]
        cdef const Pad* pad = &lease.pipe.plan.maker.pads[component.pad]
        cdef const int64_t* sides = <int64_t*>(slot + pad.slot_offset)
        cdef Growing* g = &lease.pipe.vars[<int64_t>lease.slot * lease.pipe.plan.maker.vars + pad.var]
        cdef bint strings = component.kind == KIND_STRINGS
        cdef int i
        for i in range(lead):
            shape[i] = dims[i]
        for i in range(pad.ndim):
            shape[lead + i] = sides[i]
        array = qc_view(_INT64 if strings else component.dtype.base, lead + pad.ndim, shape,
                        g.data if g.data != NULL else slot, lease)
        if not strings:
            return array
        inner = np.zeros(array.size + 1, np.int64)  # padding is empty strings
        np.cumsum(array.ravel(), out=inner[1:])
        values, _ = _varying(&lease.pipe.plan.maker.outputs[component.output], slot, _CHAR, lease)
        return _ragged_of(_ragged_of(values, inner), np.arange(lease.rows + 1, dtype=np.int64) * sides[0])

    cdef object _built(self, object template, unsigned char* slot, int64_t* dims, int lead, BatchLease lease):
        cdef dict element
        if type(template) is int:
            return self._leaf(template, slot, dims, lead, lease)
        element = {}
        for name, part in (<dict>template).items():
            element[name] = self._built(part, slot, dims, lead, lease)
        return element
