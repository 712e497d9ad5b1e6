# Makers: how rows of a batch are made of records, and what that takes.
#
# A Maker is immutable once it is made, and any number of threads may use it at once; each brings a Scratch of its own.
from libc.stdint cimport int32_t, int64_t
from queuecore._core.atoms.dims cimport MAX_DIMS
from queuecore._core.atoms.growing cimport Growing
from queuecore._core.io.csv cimport CsvPlan
from queuecore._core.io.walk cimport WalkKind
from queuecore._core.steps.stages cimport Arena, Cell, RowsFn, StageFn
from queuecore._core.stream.limits cimport TOGETHER_BYTES, TOGETHER_MOST, TOGETHER_ROWS

cdef enum:
    CSV_ROWS = 256       # most rows of CSV that are parsed for a step
    COLUMN_BYTES = 16    # bytes for an item of any column of CSV

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

cdef struct Maker:
    int32_t framing
    const WalkKind* walk             # of the framing, or NULL
    const CsvPlan* csv
    int64_t hop_bytes, record_bytes  # FRAME_FIXED
    int64_t first_number             # FRAME_WHOLE: of the first file, for random draws
    const Output* columns            # the layout of rows that are handed in, as if they were outputs; NULL: none are
    int32_t column_count
    int32_t given                    # number of components of a record, the inputs of the step
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
    unsigned char* columns  # CSV: CSV_ROWS items of each column, and the CsvPlaces of all


cdef inline int64_t rows_together(int64_t row_bytes) noexcept nogil:
    # Returns how many rows a step makes at once: as many as fit into the first-level cache, or some long ones.
    return max(TOGETHER_BYTES // row_bytes, min(TOGETHER_ROWS, TOGETHER_MOST // row_bytes), 1)
