# Stages: the steps that turn the components of one element into others, each a native function over plain bytes.
#
# A Step is immutable once it is bound and may run in any number of threads at once; each brings an Arena of its own.
# Running it waits for nothing. The results of one element's steps are valid until the arena is reset for the next
# element.
from libc.stddef cimport size_t
from libc.stdint cimport int32_t, int64_t, uintptr_t
from libc.string cimport memset
from queuecore._core.atoms.dims cimport MAX_DIMS
from queuecore._core.atoms.growing cimport Growing, grow_rows
from queuecore._core.atoms.memory cimport free
from queuecore._core.atoms.platform cimport Atomic, Fault, alloc_lines, cpu_ticks, kRelaxed, size_sum

# One component of an element on its way. Fixed-size items: C-contiguous in native byte order, at `data`. Strings (dtype
# "S", of any length): without dimensions the bytes at `data`; else item i is data[offsets[i]] up to data[offsets[i +
# 1]].
cdef struct Cell:
    unsigned char* data
    int64_t nbytes            # at data
    const int64_t* offsets    # of strings with dimensions; else NULL
    int32_t ndim
    int64_t dims[MAX_DIMS]

# Bytes that lie anywhere.
cdef struct Span:
    const unsigned char* data
    int64_t nbytes

# Where the time of a sample of units goes, by steps. Any number of threads may add to it at once.
cdef enum:
    TIMED = 64                # most steps

cdef extern from *:
    """
    namespace queuecore {
    struct StepTimes {
      Atomic<int64_t> all;             // ticks of the whole units
      Atomic<uintptr_t> params[64];    // of a step; 0: free. The used ones come first
      Atomic<int64_t> ticks[64];
      Atomic<int64_t> calls[64];
    };
    }  // namespace queuecore
    """
    cppclass StepTimes "queuecore::StepTimes":
        Atomic[int64_t] all
        Atomic[uintptr_t] params[64]
        Atomic[int64_t] ticks[64]
        Atomic[int64_t] calls[64]


cdef inline void times_add(StepTimes* t, uintptr_t params, int64_t ticks, int64_t calls) noexcept nogil:
    # Adds to the times of a step; steps behind the first 64 are left out. Relaxed, all of it: statistics.
    cdef uintptr_t known_params
    cdef int i
    for i in range(TIMED):
        known_params = t.params[i].load(kRelaxed)
        if known_params == 0 and t.params[i].compare_exchange_strong(known_params, params, kRelaxed, kRelaxed):
            known_params = params
        if known_params == params:
            t.ticks[i].fetch_add(ticks, kRelaxed)
            t.calls[i].fetch_add(calls, kRelaxed)
            return


# One thread's memory for the results of steps: nothing is allocated per element once the arena has grown to the size
# that elements need.
cdef struct ArenaChunk:
    ArenaChunk* before
    size_t room               # bytes after the header
    size_t used

# It also has the numbers (epoch, element) of the thread's element: the code that runs the steps sets them; both are 0
# if it doesn't count. A step's random draws depend on these numbers and on its seed, and on nothing else.
cdef struct Arena:
    ArenaChunk* last
    int64_t epoch
    int64_t element           # of a batch: its first one
    StepTimes* times          # where the times of steps are noted, or NULL
    # Set while a row is made: the output of varying length that may be written where it will lie, behind the rows of a
    # buffer; how many rows are due there. NULL: none, or one has been written there.
    const Cell* row_output
    Growing* rows
    int64_t rows_due


cdef inline int64_t step_begun(const Arena* arena) noexcept nogil:
    return 0 if arena.times == NULL else cpu_ticks()


cdef inline void step_ended(const Arena* arena, const void* params, int64_t begun) noexcept nogil:
    if arena.times != NULL:
        times_add(arena.times, <uintptr_t>params, cpu_ticks() - begun, 1)


# Fills `outputs` from `inputs`, neither of which it keeps. On entry outputs[i].data is NULL, or a place of
# outputs[i].nbytes bytes (those of its fixed shape) where the result may be written; it may also point anywhere else
# that stays valid: into the inputs, the arena or the step. Returns 0, or -1 with `fault`, whose `what` the Step puts in
# words (explain).
ctypedef int (*StageFn)(const void* params, const Cell* inputs, Cell* outputs, Arena* arena,
                        Fault* fault) noexcept nogil

# The same for `rows` elements at once. Components of fixed shapes, and strings of one length, lie one behind the other
# at the cell's `data`, and `nbytes` are those of all; dimensions are not looked at. Strings, and outputs whose length
# varies, may also be spans, one for each element: `offsets` points to these, or is NULL. Which element failed, a fault
# doesn't say.
ctypedef int (*RowsFn)(const void* params, const Cell* inputs, Cell* outputs, int64_t rows, Arena* arena,
                       Fault* fault) noexcept nogil


cdef inline const Span* spans_of(const Cell* cell) noexcept nogil:
    return <const Span*>cell.offsets


# The lowest bits of a fault's `what` say which part of a step it is of; at each level of nesting as many more.
cdef enum:
    WHOSE_BITS = 8
    WHOSE = 255               # of none: the step's own, no memory for `a` bytes


cdef class Step:
    cdef StageFn run
    cdef RowsFn run_rows      # or NULL: one at a time
    cdef const void* params   # the step's own
    cdef bint alone           # one row at a time only: it needs the numbers of the arena's element, or is a user's
    cdef int64_t between      # bytes of a row that lie between the parts of the step, if many are made at once
    cdef readonly tuple inputs    # Component of each
    cdef readonly tuple outputs
    cdef public object label  # its name for users, or None
    cdef public object remark    # what a plan says of it, or None

    # Returns the exception, without a place, for a fault of this step.
    cdef object explain(self, const Fault* fault)


# A step that makes one row at a time, as one that makes many.
cdef struct RowCell:
    bint constant             # there once, as the cell is
    int64_t nbytes            # of a row; -1: it is a span
    int64_t item              # of a span of an array: bytes for each of its first dimension
    int32_t ndim
    int64_t dims[MAX_DIMS]

cdef struct LoopParams:
    StageFn run
    const void* params
    RowCell* cells            # of the inputs, then of the outputs
    int32_t given
    int32_t made
    bint spans                # an output is spans

cdef class RowLoop:
    cdef LoopParams loop
    cdef Step step            # owns what the loop points to

    # False: it is not known how a row of its inputs or outputs lies.
    cdef bint begin(self, Step step, list constants) except -1

# A way to make many rows at once by a step.
cdef struct RowsWay:
    RowsFn run                # NULL: there is none
    const void* params

# Finds the way for a step, whose inputs are constants, there once, where `constants` has True. Loops that it takes are
# added to `loops`, which the caller keeps.
cdef RowsWay rows_way(Step step, list constants, list loops) except *
# Makes a row of a column into the cell of a lone element.
cdef void cell_of_row(const RowCell* shape, const Cell* column, int64_t row, Cell* cell) noexcept nogil
# Returns the bytes of a row of a component; -1: not known beforehand.
cdef int64_t made_bytes_of(component) except -2
# Returns about the bytes of a row of components.
cdef int64_t row_bytes_of(tuple components) except -1

# A step in Python: the code that runs steps calls `call`, with the GIL. `run` always fails. `inputs` and `outputs` are
# None if they are not known beforehand.
cdef class PythonStep(Step):
    cdef readonly object call
    cdef readonly str why

# Returns the exception for a fault whose `what` says which of the steps it is of.
cdef object explain_part(list steps, const Fault* fault)
# Returns the values that a Python function returned, one for each component.
cdef list values_of(object made)
# Returns a new array of any content; raises ResourceExhaustedError if there is no memory of that size.
cdef object array_of(object shape, object dtype)
# Returns a component as a Python value that shares no memory with it.
cdef object cell_value(const Cell* cell, object dtype)
# Fills a cell from a value: bytes, an object array of bytes, or a C-contiguous array. The value must stay as long as
# the cell.
cdef int cell_from(Cell* cell, object value, Arena* arena) except -1


cdef inline ArenaChunk* _chunk(size_t room, ArenaChunk* before) noexcept nogil:
    cdef ArenaChunk* chunk = <ArenaChunk*>alloc_lines(size_sum(64, room))
    if chunk != NULL:
        chunk.before = before
        chunk.room = room
    return chunk


cdef inline void* arena_take(Arena* arena, size_t nbytes) noexcept nogil:
    # Returns memory aligned to 64 bytes, of any content; NULL: no memory.
    cdef size_t rounded_bytes = (nbytes + 63) & ~<size_t>63
    cdef size_t room = 16 << 10
    cdef ArenaChunk* chunk = arena.last
    cdef void* place
    if rounded_bytes < nbytes:
        return NULL
    if chunk == NULL or chunk.room - chunk.used < rounded_bytes:
        if chunk != NULL:
            room = 2 * chunk.room
        chunk = _chunk(rounded_bytes if rounded_bytes > room else room, chunk)
        if chunk == NULL:
            return NULL
        arena.last = chunk
    place = <unsigned char*>chunk + 64 + chunk.used
    chunk.used += rounded_bytes
    return place


cdef inline void arena_init(Arena* arena) noexcept nogil:
    memset(arena, 0, sizeof(Arena))


cdef inline unsigned char* arena_output(Arena* arena, const Cell* output, int64_t nbytes) noexcept nogil:
    # Returns memory for the whole of an output, of any content: where it will lie, if the arena knows that, which saves
    # copying it; else as arena_take, but never NULL for 0 bytes. NULL: no memory.
    if output != arena.row_output or nbytes <= 0:
        return <unsigned char*>arena_take(arena, <size_t>nbytes + 1)
    arena.row_output = NULL
    return arena.rows.data + arena.rows.nbytes if grow_rows(arena.rows, nbytes, arena.rows_due) else NULL


cdef inline void arena_reset(Arena* arena) noexcept nogil:
    # Only the last chunk, the largest, stays: after a few elements there is one that is large enough for all of them.
    cdef ArenaChunk* chunk = arena.last
    cdef ArenaChunk* older_chunk
    if chunk == NULL:
        return
    chunk.used = 0
    older_chunk = chunk.before
    chunk.before = NULL
    while older_chunk != NULL:
        chunk = older_chunk
        older_chunk = chunk.before
        free(chunk)


# How much of an arena is used.
cdef struct ArenaMark:
    ArenaChunk* chunk
    size_t used


cdef inline ArenaMark arena_mark(const Arena* arena) noexcept nogil:
    cdef ArenaMark mark
    mark.chunk = arena.last
    mark.used = arena.last.used if arena.last != NULL else 0
    return mark


cdef inline void arena_release(Arena* arena, ArenaMark mark) noexcept nogil:
    # Lets what was taken since the mark be taken again. A chunk that came since then stays, so that it comes once.
    if arena.last != NULL:
        arena.last.used = mark.used if arena.last == mark.chunk else 0


cdef inline void arena_free(Arena* arena) noexcept nogil:
    arena_reset(arena)
    free(arena.last)
    arena.last = NULL
