# Rows: how records become rows of a batch.
#
# A Maker is immutable once it is made, and any number of threads may use it at once; each brings a Scratch of its own,
# and writes only to the rows that it was given. All functions are wait-free, except that memory may grow.
#
# The layout of a batch: each output has room for its rows in the batch's slot. An output of varying length (`item` > 0)
# has there, for each row, its end, and its shape if shapes may differ (`ndim` > 0); the values lie in a buffer that
# grows, and stays with the slot. The unit that makes a batch's first rows writes into that buffer at once. Each other
# unit makes a Part, and rows_join appends the parts. When all rows are there, rows_pad copies the rows that are padded,
# to one shape.
from libc.stdint cimport int32_t, int64_t, uint32_t
from queuecore._core.atoms.dims cimport MAX_DIMS
from queuecore._core.io.blocks cimport RecordBlock
from queuecore._core.io.csv cimport CsvPlan
from queuecore._core.io.handed cimport Column
from queuecore._core.io.walk cimport WalkKind
from queuecore._core.atoms.growing cimport Growing
from queuecore._core.atoms.platform cimport Fault
from queuecore._core.steps.stages cimport Arena, Cell, RowsFn, StageFn

cdef enum:
    # The part of a cell that an output takes:
    TAKE_ITEMS = 0       # the items of an array, or the bytes of one string
    TAKE_STRINGS = 1     # the bytes of all its strings
    TAKE_LENGTHS = 2     # the length of each of its strings

# How the rows of an output are padded to one shape.
cdef struct Pad:
    int32_t output       # number of the output
    int32_t var          # number of the slot's buffer that the padded rows lie in
    int32_t ndim         # of a row
    # all rows have the dimensions `dims`; otherwise, if none are noted, the first one follows from a row's bytes
    bint fixed
    int64_t item         # bytes of an item
    int64_t dims[MAX_DIMS]
    int64_t sides[MAX_DIMS]  # padded dimensions; -1: the longest of the batch
    int64_t slot_offset  # of the padded dimensions
    const unsigned char* fill # an item

cdef struct Output:
    int32_t cell         # number of the component, among those of the last step, that it is taken from
    int32_t take
    int32_t item         # bytes of an item, if rows vary in length; otherwise 0
    # number of dimensions that are noted for each row; of a column of fixed rows, their number of dimensions
    int32_t ndim
    int32_t var          # its number among the outputs of varying length
    int64_t row_bytes    # of a row of fixed length
    int64_t slot_offset  # of the rows; of varying length: of their int64_t ends, one more than there are rows
    int64_t dims_offset  # of the noted dimensions
    const Pad* pad       # rows must fit into it; or NULL

# Rows of a batch, of outputs of varying length, that are not in the slot's buffers yet.
cdef struct BatchPart:
    BatchPart* next
    int64_t row, rows    # the first row, and the number of rows
    Growing* vars

cdef struct Maker:
    int32_t framing
    const WalkKind* walk             # of the framing, or NULL
    const CsvPlan* csv
    int64_t hop_bytes, record_bytes  # FRAME_FIXED
    const Output* columns            # the layout of rows that are handed in, as if they were outputs; NULL: none are
    int32_t column_count
    int32_t given                    # number of components in these columns
    const int64_t* shapes            # CELL_DIMS for each column: dimensions of a row that are the same for all rows
    StageFn run          # NULL: the record itself is the only component
    RowsFn run_rows      # if neither rows nor outputs vary in shape, and the step can: makes up to
    int64_t together     # so many rows at once; otherwise NULL and 0
    const void* params   # of run and run_rows
    int32_t made         # number of components that it makes
    Output* outputs
    int32_t count        # number of outputs
    int32_t vars         # number of growing buffers of a slot
    Pad* pads
    int32_t pad_count

cdef struct Scratch:
    unsigned char* slot  # where rows go: the slot, and its buffers, or a part's
    Growing* vars
    Arena arena
    Cell* cells
    unsigned char* columns  # CSV

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
# Makes row `at` of columns that lie as `outputs` and `shapes` describe (see Maker) into the cells of an element. False:
# no memory.
cdef bint row_cells(const Output* outputs, int32_t count, const int64_t* shapes, const Column* columns, int64_t at,
                    Cell* cells, Arena* arena, Fault* fault) noexcept nogil
cdef BatchPart* part_new(const Maker* m, int64_t row) noexcept nogil
cdef void part_free(const Maker* m, BatchPart* part) noexcept nogil
# Appends the parts, which are freed, to `vars`. False: no memory.
cdef bint rows_join(const Maker* m, BatchPart* parts, unsigned char* slot, Growing* vars) noexcept nogil
# Fills the padded rows of a batch. False: no memory.
cdef bint rows_pad(const Maker* m, unsigned char* slot, Growing* vars, int64_t rows) noexcept nogil
