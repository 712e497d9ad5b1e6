# Views: the arrays of a batch, and elements made of them.
from libc.stdint cimport int32_t, int64_t
from queuecore._core.stream.describe cimport RowComponent
from queuecore._core.stream.feed cimport Feed
from queuecore._core.stream.pipe cimport BatchLease, Pipe
from queuecore._core.stream.maker cimport Output


# Under the GIL. Arrays keep their lease alive, and need no copy.
cdef class Views:
    cdef object template      # of an element, over its components
    # makes an element, or a batch, of the components, where the template doesn't suffice; or None
    cdef object assemble
    cdef list levels          # batch sizes, the innermost first
    cdef list components      # of elements that a step makes; None: the components are the leaves of a record, with
    cdef list dtypes          # the dtype of each leaf,
    cdef int* ndims           # its number of dimensions in a record,
    cdef int64_t* sides       # and the sizes of these: CELL_DIMS for each leaf
    cdef int32_t leaf_count

    # Makes room for so many leaves.
    cdef int begin(self, int32_t leaves) except -1
    # Sets the dimensions that a batch has before those of its elements, the outermost batch first. Returns their
    # number.
    cdef int lead_dims(self, int64_t rows, int64_t subs, int64_t* dims) except -1
    # Returns the rows as they lie, as columns that `Feed.hand` takes.
    cdef list columns(self, BatchLease lease)
    # Returns a batch of records, made at once.
    cdef object batch(self, BatchLease lease)
    # Returns the components of a batch. feed: has the objects of components of KIND_OBJECT. number: of the batch, for
    # error messages.
    cdef list arrays(self, BatchLease lease, Feed feed, int64_t number)
    # True if all components are arrays: objects can't be copied.
    cdef bint can_be_copied(self) noexcept
    # Make an element: from the components of a batch, and from row `at` of a chunk.
    cdef object whole(self, list arrays)
    cdef object one(self, list arrays, int64_t at)
    # Return the number of components or leaves; and of one of them its offset in a slot, and its dtype and its shape in
    # a row.
    cdef int count(self) noexcept
    cdef int64_t slot_offset(self, const Pipe* p, int i) noexcept
    cdef tuple dtype_and_shape(self, int i)

    cdef object _leaf(self, int leaf, unsigned char* slot, int64_t* dims, int lead, BatchLease lease)
    cdef object _component(self, RowComponent one, unsigned char* slot, int64_t* dims, int lead, BatchLease lease,
                           Feed feed, int64_t number)
    cdef object _dense(self, RowComponent one, unsigned char* slot, int64_t* dims, int lead, BatchLease lease,
                       int64_t number)
    cdef object _padded(self, RowComponent one, unsigned char* slot, int64_t* dims, int lead, BatchLease lease)
    cdef object _built(self, object template, unsigned char* slot, int64_t* dims, int lead, BatchLease lease)


# Makes an element from a template and its components.
cdef object assembled(object template, list parts)
# Copies arrays, lists and tuples of arrays, Ragged and None.
cdef list copies(list parts)
