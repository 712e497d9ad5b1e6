# Descriptions: what a stream does, with names and types, as Python says it.
from libc.stdint cimport int32_t, int64_t
from queuecore._core.io.csv cimport CsvFormat
from queuecore._core.stream.marks cimport ShuffleCounter
from queuecore._core.order.op cimport OpSpec
from queuecore._core.atoms.platform cimport Atomic
from queuecore._core.stream.rows cimport Output
from queuecore._core.stream.scope cimport Scope
from queuecore._core.io.sources cimport FileList
from queuecore._core.steps.stages cimport Step

cdef enum:
    # What rows of a component are.
    KIND_FIXED = 0         # arrays of one shape
    KIND_STRING = 1        # one string each
    KIND_STRINGS = 2       # any number of strings
    KIND_RAGGED = 3        # any number of arrays of one shape
    KIND_DENSE = 4         # arrays of any shape, of so many dimensions
    KIND_OBJECT = 5        # Python objects

# A component of an element, and where it lies in batches.
cdef class Component:
    cdef int kind
    cdef object dtype
    cdef tuple shape          # of a row; of KIND_RAGGED, of a row's values
    cdef int32_t output       # the first one of it
    cdef int32_t pad          # its number among those that are padded; -1: it isn't

# A component of what Python says of it: its kind, its dtype and its shape.
cdef Component component_of(int kind, dtype, shape)
# How it lies in batches, or in columns: in one output from `at` on, or two. Returns the number behind.
cdef int describe_output(Output* outputs, int32_t at, int32_t cell, Component one, int32_t* vars) except -1
# How components lie in columns: fills `columns`, two for each at most, and MAX_DIMS of `shapes` for each of these; both are zero before.
# Returns how many columns they are.
cdef int32_t describe_columns(Output* columns, int64_t* shapes, list components) except -1


cdef class Records:
    cdef readonly int64_t record_bytes, header_bytes, footer_bytes, hop_bytes
    cdef readonly bint drop_tail


cdef class Frames:
    cdef int32_t framing
    cdef readonly int64_t guess, max_record_bytes
    cdef public int32_t encoding
    cdef public int64_t header, cycle, turn, piece_bytes, headroom
    cdef public Records records
    cdef public CsvFormat csv
    cdef public list columns


cdef class Elements:
    cdef readonly object template, assemble
    cdef readonly list components, leaves, pads
    cdef readonly Step step


cdef class Ops:
    cdef OpSpec* specs
    cdef int32_t count, room
    cdef int32_t shuffles      # and permutations
    cdef list counters         # ShuffleCounter or None, one a shuffle
    cdef list levels           # batch sizes, the innermost first
    cdef int64_t batch_rows    # of an element: the product of these
    cdef int32_t shuffle_level, batch_level, map_level  # as in Config

    cdef OpSpec* _add(self, int32_t kind, int64_t size) except NULL
    cdef int _draws(self, OpSpec* spec, pair, bint reshuffle, ShuffleCounter counter) except -1


cdef class Description:
    cdef readonly FileList files
    cdef readonly Records records
    cdef readonly Frames frames
    cdef public Elements elements
    cdef readonly Ops ops
    cdef public int32_t num_threads
    cdef public bint help, on_hold_raise, inner
    cdef public int64_t prefetch, max_leases, memory_budget, memory_limit
    cdef public int retries
    cdef public double stall_warn, stall_timeout
    cdef public object skips, feeder, target, drawn
    cdef public Scope scope


# Workers use what Python objects own (steps, formats), and may outlive the iterator, which does not wait for them when it goes. So it
# leaves its keeper behind, and later ones look which of those are still needed.
cdef class Keeper:
    cdef Atomic[int32_t]* pipes
    cdef list kept
    cdef Keeper after
    cdef Output* columns

# A keeper of what a description's workers use. Lets go of others that are no longer used.
cdef Keeper keeper_new(Description d)
# Keeps it until no pipe is left. Under the GIL, as the other one.
cdef void keep_until_unused(Keeper keeper) noexcept
