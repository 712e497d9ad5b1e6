# Rows: how records become rows of a batch.
#
# Any number of threads may make rows by one Maker at once: each writes only to the rows that it was given. All
# functions are wait-free, except that memory may grow.
#
# The layout of a batch: each output has room for its rows in the batch's slot. An output of varying length (`item` > 0)
# has there, for each row, its end, and its shape if shapes may differ (`ndim` > 0); the values lie in a buffer that
# grows, and stays with the slot. The unit that makes a batch's first rows writes into that buffer at once. Each other
# unit makes a Part, and rows_join appends the parts. When all rows are there, rows_pad copies the rows that are padded,
# to one shape.
from libc.stdint cimport int32_t, int64_t, uint32_t
from queuecore._core.io.blocks cimport RecordBlock
from queuecore._core.atoms.growing cimport Growing
from queuecore._core.atoms.platform cimport Fault
from queuecore._core.order.runs cimport RunList
from queuecore._core.stream.maker cimport Maker, Scratch

# Rows of a batch, of outputs of varying length, that are not in the slot's buffers yet.
cdef struct BatchPart:
    BatchPart* next
    int64_t row, rows    # the first row, and the number of rows
    Growing* vars

# Allocates a scratch, which is zero before. False: no memory.
cdef bint scratch_init(Scratch* s, const Maker* m) noexcept nogil
cdef void scratch_clear(Scratch* s) noexcept nogil
# Makes n records of a block, from its `first` on, into rows of the scratch's slot from `row` on. `element` is the
# number of the first one in the pass; values of varying length are appended to the scratch's buffers. Returns the
# number made; if it is less than n, *fault is that of the next record, without its file.
cdef int64_t rows_of_block(const Maker* m, Scratch* s, const RecordBlock* b, int64_t first, int64_t n, int64_t element,
                           int64_t row, Fault* fault) noexcept nogil
# Makes one record into a row. False: *fault is set, without its place.
cdef bint row_of_record(const Maker* m, Scratch* s, const unsigned char* data, int64_t nbytes, int64_t row,
                        Fault* fault) noexcept nogil
# Makes records of one size, which lie `stride` apart, into rows from `row` on, several at once. Returns the number
# made; the others are for row_of_record: the step makes only one at a time, or one of them has a fault.
cdef int64_t rows_of_records(const Maker* m, Scratch* s, const unsigned char* records, int64_t stride, int64_t n,
                             int64_t row) noexcept nogil
# The same for rows of a store, which lie at store + ids[i] * stride.
cdef int64_t rows_of_store(const Maker* m, Scratch* s, const unsigned char* store, int64_t stride, const uint32_t* ids,
                           int64_t n, int64_t row) noexcept nogil
# Makes the rows of several runs that have one record each, in blocks, as a shuffle gives them, at once: of the list's
# run `first` and those behind it. Returns the number made. 0: these runs are longer, or not in blocks; -1: one of them
# has a fault, or there is no memory.
cdef int64_t rows_of_lone(const Maker* m, Scratch* s, const RunList* list_, int32_t first, int64_t row) noexcept nogil
cdef BatchPart* part_new(const Maker* m, int64_t row) noexcept nogil
cdef void part_free(const Maker* m, BatchPart* part) noexcept nogil
# Appends the parts, which are freed, to `vars`. False: no memory.
cdef bint rows_join(const Maker* m, BatchPart* parts, unsigned char* slot, Growing* vars) noexcept nogil
# Fills the padded rows of a batch. False: no memory.
cdef bint rows_pad(const Maker* m, unsigned char* slot, Growing* vars, int64_t rows) noexcept nogil
