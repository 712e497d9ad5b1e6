# Inputs: finds the records of blocks, and makes them into the inputs of steps.
#
# The inputs of a step are the first cells of a Scratch. For a step that makes several rows at once: rows of one
# size lie one behind the other, where their block has them or copied; rows of varying length are spans. They are valid
# until the arena is reset, and as long as the blocks are. All functions are wait-free, except that memory may grow.
from libc.stdint cimport int32_t, int64_t, uint32_t
from libc.string cimport memcpy
from queuecore._core.atoms.platform cimport Fault
from queuecore._core.io.blocks cimport RecordBlock
from queuecore._core.io.csv cimport CsvBlock, CsvCursor
from queuecore._core.io.handed cimport Column
from queuecore._core.order.runs cimport Run
from queuecore._core.steps.stages cimport Arena, Cell, arena_take
from queuecore._core.stream.maker cimport Maker, Output, Scratch

# A record that was moved, as a block of its own. The block points into this, which therefore stays where it is.
cdef struct MovedRow:
    RecordBlock block
    int64_t starts[2]
    uint32_t end
    CsvCursor at

# Makes n records of a block, from its `first` on, into rows of the inputs, the first of which is row `at`. In the end
# there are `room` rows, which may come from several blocks, one after the other. False: no memory, or one of the
# records has a fault.
cdef bint inputs_of_block(const Maker* m, Scratch* s, const RecordBlock* b, int64_t first, int64_t n, int64_t position,
                          int64_t room) noexcept nogil
# The same for records of one size, which lie `stride` apart.
cdef bint inputs_of_records(const Maker* m, Scratch* s, const unsigned char* records, int64_t stride, int64_t n,
                            int64_t position, int64_t room) noexcept nogil
# Makes n runs of one record each, which lie in blocks, into all rows of the inputs.
cdef bint inputs_of_lone(const Maker* m, Scratch* s, const Run* runs, int64_t n) noexcept nogil
# Makes row `at` of columns that lie as `outputs` and `shapes` describe (see Maker) into the cells of an element. False:
# no memory.
cdef bint row_cells(const Output* outputs, int32_t count, const int64_t* shapes, const Column* columns,
                    int64_t position, Cell* cells, Arena* arena, Fault* fault) noexcept nogil
# Finds record `first` of a block of moved records.
cdef void moved_find(const Maker* m, const RecordBlock* b, int64_t first, MovedRow* moved_row) noexcept nogil
# Finds record `first` of a block of CSV: *block is the text from there on.
cdef void csv_find(const Maker* m, const RecordBlock* b, int64_t first, CsvBlock* block,
                   CsvCursor* cursor) noexcept nogil
# Returns about how many bytes n records of a block of CSV have, from its `first` on, which begins at the cursor.
cdef int64_t csv_bytes(const RecordBlock* b, const CsvCursor* cursor, int64_t first, int64_t n) noexcept nogil


cdef inline int64_t line_end(const unsigned char* text, int64_t start, int64_t end) noexcept nogil:
    # Returns where a line ends that begins at `start`, and behind whose line feed is `end`.
    return end - 2 if end - 1 > start and text[end - 2] == 13 else end - 1


cdef inline void copy_row(unsigned char* to, const unsigned char* row, int64_t nbytes) noexcept nogil:
    # Copies a row; one of a usual number without a call.
    if nbytes == 8:
        memcpy(to, row, 8)
    elif nbytes == 4:
        memcpy(to, row, 4)
    else:
        memcpy(to, row, nbytes)


cdef inline unsigned char* row_inputs(Scratch* s, Cell* cell, int64_t position, int64_t room,
                                      int64_t row_bytes) noexcept nogil:
    # Returns where row `position` of an input is to be copied to; NULL: no memory.
    if position == 0:
        cell.data = <unsigned char*>arena_take(&s.arena, room * row_bytes)
        cell.nbytes = room * row_bytes
        cell.offsets = NULL
    return cell.data + position * row_bytes if cell.data != NULL else NULL
