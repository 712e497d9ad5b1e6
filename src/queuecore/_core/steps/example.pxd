# Parsing of tf.train.Example and tf.train.SequenceExample: a decoder of the protocol buffers' wire format for these
# messages alone.
#
# A Plan is immutable once it is built and may be used by any number of threads at once; a parse writes only to its own
# outputs and arena. Wait-free: it takes a number of steps bounded by the bytes of its records and the columns of its
# plan.
#
# I1  No byte at or beyond the end of a record is read. Every read is preceded by a comparison with the end of the
#     message that it is in, and no message ends beyond the one around it.
# I2  Memory is allocated by counts of values that are present, each of which took at least one byte of a record. Two
#     kinds of columns may be larger: fixed ones, whose size the plan says, and padded ones, in which the longest record
#     of a batch sets the size of the others.
# I3  Fields that don't belong to these messages are skipped by their wire type, never entered; groups are skipped to a
# depth of 100.
from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t
from queuecore._core.atoms.dims cimport MAX_DIMS
from queuecore._core.steps.wire cimport Extent

cdef enum:
    # Of values: the numbers of the fields of a Feature.
    KIND_NONE = 0
    KIND_BYTES = 1
    KIND_FLOAT = 2
    KIND_INT = 3

cdef enum:
    # The arrays made from a key's values, for a batch of n records; a single record has no outer dimension, and no
    # splits by record.
    FORM_FIXED = 0     # (n, *dims): equally many in every record; a default replaces missing ones
    FORM_PADDED = 1    # (n, longest, *dims): filled up with the default; in feature lists also the lengths (n,)
    # all values (total,); in feature lists splits of them by step (steps + 1,); then splits by record (n + 1,)
    FORM_FLAT = 2

# The keys to look for, in an open hash table.
cdef struct Keys:
    Extent* names
    int32_t count
    int32_t* table            # index of a name; -1: none
    uint64_t mask

cdef struct ExampleColumn:
    int32_t kind
    int32_t form
    int32_t section           # 0: features, or the context; 1: feature lists
    int32_t key               # in its section's keys
    int32_t output            # the first of its outputs
    int32_t rank              # among the columns that are not FORM_FIXED
    bint required
    int64_t item              # bytes of a value
    int64_t count             # values of dims
    const unsigned char* fill    # FIXED: `count` values; PADDED: one. Of strings: Spans
    int32_t ndim
    int64_t dims[MAX_DIMS]

cdef struct ParsePlan:
    Keys keys[2]
    ExampleColumn* columns
    int32_t count
    int32_t ranks
    int32_t outputs
