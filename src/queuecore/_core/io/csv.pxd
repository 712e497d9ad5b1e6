# CSV: finds fields, removes their quotes and parses numbers, in single records or in a whole block of text.
#
# A CsvPlan is immutable once it is made, and any number of threads may use it at once; all else belongs to the caller.
# Everything here is wait-free and reads only the bytes that it was given.
#
# In a block (TensorFlow's CsvDataset), a row ends with LF, CR LF or a lone CR, or with the file. A field that begins
# with a quote may hold delimiters, newlines and doubled quotes, and ends with a quote before a delimiter or the row's
# end. A quote elsewhere in a field is an error. A blank line is a row with one empty field. A mark of UTF-8 (BOM) at
# the start of the file is no part of its text. The delimiter is no newline, and no quote where fields may be quoted:
# the maker of a plan for files checks that.
#
# Rows without quotes and lone CRs go the fast way: kernels index some KiB of text, then each column of numbers is
# parsed for all its rows. Any other row, and each row with an error, goes the careful way, which knows all rules and
# all faults.
from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t
from queuecore._core.atoms.platform cimport Fault
from queuecore._core.steps.stages cimport Arena

cdef extern from "queuecore/csv.hpp" namespace "queuecore" nogil:
    cppclass CsvDialect:
        unsigned char delim
        unsigned char filler
        uint64_t quotes

    cppclass CsvMissing:
        const unsigned char* na
        int64_t na_bytes
        bint required
        uint64_t bits

    cppclass CsvFields:
        const unsigned char* lowest
        const unsigned char* base
        const uint32_t* cuts
        int64_t step
        bint last

    cppclass CsvKernels:
        int64_t (*index_plain)(const CsvDialect*, const unsigned char*, int64_t, uint32_t*, uint32_t*, int64_t) noexcept
        int64_t (*count_plain)(const CsvDialect*, const unsigned char*, int64_t, int64_t, int64_t*) noexcept
        int64_t (*float32)(const CsvFields*, const CsvMissing*, int64_t, unsigned char*, int64_t) noexcept
        int64_t (*float64)(const CsvFields*, const CsvMissing*, int64_t, unsigned char*, int64_t) noexcept
        int64_t (*int32)(const CsvFields*, const CsvMissing*, int64_t, unsigned char*, int64_t) noexcept
        int64_t (*int64)(const CsvFields*, const CsvMissing*, int64_t, unsigned char*, int64_t) noexcept

cdef enum:
    CSV_FLOAT32 = 0
    CSV_FLOAT64 = 1
    CSV_INT32 = 2
    CSV_INT64 = 3
    CSV_TEXT = 4
    # Kinds of one byte: digits alone, and the words for false and true.
    CSV_UINT8 = 5
    CSV_BOOL = 6

# An item of a column of strings is a Span of the block, of the plan, or of the arena. It is valid as long as its bytes
# are.
cdef struct CsvColumn:
    int32_t kind
    int32_t item_bytes           # of a Span, for strings
    int64_t field                # index of its field in the row
    bint required
    unsigned char initial[16]    # the bytes of the default, as they are written to the column

cdef struct CsvPlan:
    const CsvKernels* kernels
    CsvColumn* columns           # the wanted ones, by rising `field`
    int32_t count
    bint selected                # fields behind the last wanted one aren't looked at
    int64_t most                 # fields that a row of a block may have
    CsvDialect dialect
    bint quotes
    unsigned char stop[256]      # for each byte: it may end a field without quotes
    const unsigned char* na
    int64_t na_bytes
    int64_t max_record_bytes     # of a row, without its newline

cdef enum:
    CSV_NEW = 0                  # a field begins
    CSV_QUOTED = 1               # a field with quotes around it
    CSV_BARE = 2                 # any other, or what follows the closing quote

# The place of a column's items: that of row r of a call is base + r * stride.
cdef struct CsvPlace:
    unsigned char* base
    int64_t stride

# The place in its file where a block begins.
cdef struct CsvCursor:
    int64_t offset               # bytes
    int64_t row                  # from 0
    int64_t line                 # from 1; differs from the row where quotes hold newlines

# The part of an unfinished row that csv_cut() has searched, for its next call with more of the row. All zero: none.
cdef struct CsvScan:
    int64_t seen                 # bytes searched, from the row's first one on
    int64_t lines                # newlines in them
    int32_t within               # CSV_NEW, CSV_QUOTED or CSV_BARE: what these bytes end in

cdef struct CsvBlock:
    const unsigned char* text
    int64_t nbytes
    bint last                    # the file ends with it
    int64_t most                 # rows that are asked for
    int64_t likely               # csv_parse: bytes that their text has, about; 0: not known
    int64_t rows                 # result: whole rows that were found
    int64_t consumed             # result: their bytes


cdef class CsvFormat:
    cdef CsvPlan plan
    cdef list kept               # bytes that the plan points to

# Parses the whole rows of a block, up to `most`, into `places`, and moves the cursor past them. Returns 0, or -1 with a
# fault (without its file): the rows before the bad one are in place, and csv_cut() with most = 1 goes past it.
cdef int csv_parse(const CsvPlan* plan, const CsvPlace* places, CsvBlock* block, CsvCursor* cursor, Arena* arena,
                   Fault* fault) noexcept nogil
# Only finds where rows end, also in rows that have faults. The only fault that it reports is a row over the limit.
# scan: of the row that the block before cut off, with which this block begins; or NULL. With it no byte is searched
# again, in however many pieces a row comes.
cdef int csv_cut(const CsvPlan* plan, CsvBlock* block, CsvCursor* cursor, CsvScan* scan, Fault* fault) noexcept nogil
