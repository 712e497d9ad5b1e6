# Descriptions: the work of a stream, with names and types, as Python describes it.
from libc.stdint cimport int32_t, int64_t
from queuecore._core.io.csv cimport CsvFormat
from queuecore._core.stream.marks cimport ShuffleCounter
from queuecore._core.order.op cimport OpSpec
from queuecore._core.atoms.platform cimport Atomic
from queuecore._core.stream.pipe cimport Plan
from queuecore._core.stream.maker cimport Output
from queuecore._core.stream.scope cimport Scope
from queuecore._core.io.names cimport FileList
from queuecore._core.io.sources cimport KnownFiles
from queuecore._core.steps.stages cimport Step

cdef enum:
    # The kind of a component: its rows are
    KIND_FIXED = 0         # arrays of one shape
    KIND_STRING = 1        # one string each
    KIND_STRINGS = 2       # any number of strings
    KIND_RAGGED = 3        # any number of arrays of one shape
    KIND_DENSE = 4         # arrays of any shape with a known number of dimensions
    KIND_OBJECT = 5        # Python objects

# A component of an element, and where it lies in batches.
cdef class RowComponent:
    cdef int kind
    cdef object dtype
    cdef tuple shape          # of a row; of KIND_RAGGED, of a row's values
    cdef int32_t output       # number of its first output
    cdef int32_t pad          # its number among the padded components; -1: it isn't padded

# Returns a new component.
cdef RowComponent component_of(int kind, dtype, shape)
# Fills the outputs, one or two from `at` on, that say how a component lies in batches or columns. Returns the number of
# the output after them; `vars` counts the outputs of varying length.
cdef int describe_output(Output* outputs, int32_t position, int32_t cell, RowComponent component,
                         int32_t* vars) except -1
# Describes how components lie in columns: fills `columns`, at most two for each component, and CELL_DIMS of `shapes`
# for each column; both are zero before. Returns the number of columns.
cdef int32_t describe_columns(Output* columns, int64_t* shapes, list components) except -1


cdef class Records:
    cdef readonly int64_t record_bytes, header_bytes, footer_bytes, hop_bytes
    cdef readonly bint drop_tail


cdef class Frames:
    cdef bint handed
    cdef int32_t framing      # of records in files
    cdef readonly int64_t guess, max_record_bytes
    cdef public int32_t encoding
    cdef public int64_t header, first_number, cycle, lane_records, piece_bytes, headroom
    cdef public Records records
    cdef public CsvFormat csv
    cdef public list columns
    cdef public object headings


cdef class Elements:
    cdef readonly object template, assemble
    cdef readonly list components, leaves, pads
    cdef readonly Step step


cdef class Ops:
    cdef OpSpec* specs
    cdef int32_t count
    cdef int64_t room
    cdef int32_t shuffles      # and permutations
    cdef list counters         # ShuffleCounter or None, one a shuffle
    cdef list levels           # batch sizes, the innermost first
    cdef int64_t batch_rows    # rows of an element: the product of `levels`
    cdef int32_t shuffle_level, batch_level, map_level  # as in Config

    cdef OpSpec* _add(self, int32_t kind, int64_t size) except NULL
    cdef int _draws(self, OpSpec* spec, pair, bint reshuffle, ShuffleCounter counter) except -1


cdef class Description:
    cdef public FileList files
    cdef public KnownFiles known
    cdef readonly Records records
    cdef readonly Frames frames
    cdef public Elements elements
    cdef readonly Ops ops
    cdef public int32_t num_threads
    cdef public bint help, on_hold_raise, quiet
    cdef public int64_t prefetch, ahead, at_a_time, max_leases, memory_budget, memory_limit
    cdef public int retries, depth
    cdef public bint asks, rings, drops, direct
    cdef public double stall_warn, stall_timeout
    cdef public object skips, feeder, settle_inputs, target, drawn, outer, note_ends
    cdef public Scope scope


# The owner of a stream's plan, and of Python objects (steps, formats) whose memory workers use. Workers may outlive the
# iterator, which does not wait for them in its destructor: so the iterator leaves its keeper in a list, and a later
# keeper_new removes the keepers that no pipe needs.
cdef class Keeper:
    cdef Atomic[int32_t]* pipes  # number of its pipes that are not freed yet
    cdef list kept
    cdef Keeper after
    cdef Plan* plan
    cdef Output* columns

# A keeper of the objects that a description's workers use. Releases earlier keepers that are no longer used. Under the
# GIL.
cdef Keeper keeper_new(Description d)
# Keeps it until no pipe is left. Under the GIL, as the other one.
cdef void keep_until_unused(Keeper keeper) noexcept
