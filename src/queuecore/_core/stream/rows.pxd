# Rows: how records become rows of a batch.
#
# A Maker is immutable once it is made and may be used by any number of threads at once; each brings a Scratch of its own, and writes
# only to the rows that it was given. All are wait-free, but for memory that grows.
#
# Where a batch lies: each output has room for its rows in the batch's slot. An output of varying length (`item` > 0) has there, for each
# row, where it ends, and its shape if that may differ (`ndim` > 0); the values lie in a buffer that grows, and stays with the slot. Who
# makes a batch's first rows writes there at once. Others make a Part each, and rows_join puts these behind. When all are there, rows_pad
# makes those that are to be padded anew, of one shape.
from libc.stdint cimport int32_t, int64_t
from queuecore._core.atoms.dims cimport MAX_DIMS
from queuecore._core.io.blocks cimport Column, RecordBlock
from queuecore._core.io.csv cimport CsvPlan
from queuecore._core.atoms.growing cimport Growing
from queuecore._core.atoms.platform cimport Fault
from queuecore._core.steps.stages cimport Arena, Cell, RowsFn, StageFn

cdef enum:
    # What of a cell an output takes.
    TAKE_ITEMS = 0       # the items of an array, or the bytes of one string
    TAKE_STRINGS = 1     # the bytes of all its strings
    TAKE_LENGTHS = 2     # how long each of its strings is

# How rows become of one shape.
cdef struct Pad:
    int32_t output       # which rows
    int32_t var          # of the slot's, where they lie then
    int32_t ndim         # of a row
    bint fixed           # all rows have the dimensions `dims`; else, if none are noted, the first one follows from a row's bytes
    int64_t item         # bytes of an item
    int64_t dims[MAX_DIMS]
    int64_t sides[MAX_DIMS]  # what they become; -1: the longest of the batch
    int64_t slot_offset  # of what they became
    const unsigned char* fill # an item

cdef struct Output:
    int32_t cell         # of the last step: which component it is taken from
    int32_t take
    int32_t item         # bytes of an item, if rows vary in length; 0: they don't
    int32_t ndim         # dimensions that are noted for each row; of a column whose rows don't vary, those that they have
    int32_t var          # its number among those that vary
    int64_t row_bytes    # those that don't
    int64_t slot_offset  # of the rows; of int64_t ends, one more than rows
    int64_t dims_offset  # of the noted dimensions
    const Pad* pad       # rows must fit into it; or NULL

cdef struct Part:
    Part* next
    int64_t row, rows
    Growing* vars

cdef struct Maker:
    int32_t framing
    const CsvPlan* csv
    int64_t hop_bytes, record_bytes  # FRAME_FIXED
    const Output* columns            # FRAME_ROWS: how rows lie that were handed in, as if they were outputs
    int32_t column_count
    int32_t given                    # components that they are
    const int64_t* shapes            # MAX_DIMS for each column: dimensions of a row that are the same for all rows
    StageFn run          # NULL: the record itself
    RowsFn run_rows      # FRAME_ROWS, of columns and outputs that don't vary: so many rows at once
    int64_t together     # or NULL and 0
    const void* params
    int32_t made         # components that it makes
    Output* outputs
    int32_t count
    int32_t vars
    Pad* pads
    int32_t pad_count

cdef struct Scratch:
    Arena arena
    Cell* cells
    unsigned char* columns  # CSV

# False: no memory.
cdef bint scratch_init(Scratch* s, const Maker* m) noexcept nogil
cdef void scratch_clear(Scratch* s) noexcept nogil
# n records of a block, from its `first` on, as rows of a slot from `row` on; they are the pass's from `element` on. `vars`: where what
# varies is appended. Returns how many were made: fewer than n with a fault (all but its file) of the next one.
cdef int64_t rows_of_block(const Maker* m, Scratch* s, const RecordBlock* b, int64_t first, int64_t n, int64_t element, unsigned char* slot,
                           int64_t row, Growing* vars, Fault* fault) noexcept nogil
# One record. False: a fault, all but its place.
cdef bint row_of_record(const Maker* m, Scratch* s, const unsigned char* data, int64_t nbytes, unsigned char* slot, int64_t row,
                        Growing* vars, Fault* fault) noexcept nogil
# Row `at` of columns that lie as `outputs` and `shapes` say (see Maker), as the cells of an element. False: no memory.
cdef bint row_cells(const Output* outputs, int32_t count, const int64_t* shapes, const Column* columns, int64_t at, Cell* cells,
                    Arena* arena, Fault* fault) noexcept nogil
cdef Part* part_new(const Maker* m, int64_t row) noexcept nogil
cdef void part_free(const Maker* m, Part* part) noexcept nogil
# Puts the parts, which are freed, behind what is in `vars`. False: no memory.
cdef bint rows_join(const Maker* m, Part* parts, unsigned char* slot, Growing* vars) noexcept nogil
# Fills the padded rows of a batch. False: no memory.
cdef bint rows_pad(const Maker* m, unsigned char* slot, Growing* vars, int64_t rows) noexcept nogil
