# Views: the arrays of a batch, and elements made of them.
from libc.stdint cimport int32_t, int64_t
from queuecore._core.stream.describe cimport Component
from queuecore._core.stream.feed cimport Feed
from queuecore._core.stream.pipe cimport Lease, Pipe
from queuecore._core.stream.rows cimport Output


# Under the GIL. Arrays keep their lease alive, and need no copy.
cdef class Views:
    cdef object template      # of an element, over its components
    cdef object assemble      # makes an element, or a batch, of the components where there is more to it than the template; or None
    cdef list levels          # batch sizes, the innermost first
    cdef list components      # of elements that are made; None: they are the leaves of a record:
    cdef list dtypes          # of each leaf,
    cdef int* ndims           # its dimensions in a record,
    cdef int64_t* sides       # and these: MAX_DIMS for each
    cdef int32_t leaf_count

    # Makes room for so many leaves.
    cdef int begin(self, int32_t leaves) except -1
    # The dimensions that a batch has before those of its elements: the outermost batch first. Returns how many they are.
    cdef int lead_dims(self, int64_t rows, int64_t subs, int64_t* dims) except -1
    # Rows as they lie, as `Feed.hand` takes them.
    cdef list columns(self, Lease lease)
    # A batch of records, made at once.
    cdef object batch(self, Lease lease)
    # The components of a batch. feed: knows the objects of those that are objects. number: of the batch, for what is wrong with it.
    cdef list arrays(self, Lease lease, Feed feed, int64_t number)
    # Whether arrays are what components are: objects aren't copied.
    cdef bint can_be_copied(self) noexcept
    # A batch as an element, of its components; and row `at` of a chunk.
    cdef object whole(self, list arrays)
    cdef object one(self, list arrays, int64_t at)
    # How many components or leaves there are, where one lies in a slot, and its dtype and shape in a row.
    cdef int count(self) noexcept
    cdef int64_t slot_offset(self, const Pipe* p, int i) noexcept
    cdef tuple dtype_and_shape(self, int i)

    cdef object _leaf(self, int leaf, unsigned char* slot, int64_t* dims, int lead, Lease lease)
    cdef object _component(self, Component one, unsigned char* slot, int64_t* dims, int lead, Lease lease, Feed feed, int64_t number)
    cdef object _dense(self, Component one, unsigned char* slot, int64_t* dims, int lead, Lease lease, int64_t number)
    cdef object _padded(self, Component one, unsigned char* slot, int64_t* dims, int lead, Lease lease)
    cdef object _built(self, object template, unsigned char* slot, int64_t* dims, int lead, Lease lease)


# An element of a template and its components.
cdef object assembled(object template, list parts)
# Copies of arrays, of lists or tuples of them, of None and Ragged.
cdef list copies(list parts)
