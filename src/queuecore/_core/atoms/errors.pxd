# The numbers that say what went wrong in native code, and the only functions that turn them into exceptions. No other
# native module imports `queuecore.errors`: it names a code.
from libc.stdint cimport int32_t, int64_t
from libc.string cimport memcpy, memset
from queuecore._core.atoms.platform cimport Fault

cdef enum:
    OK = 0
    # codes: each names an exception class (errors.pyx has the table)
    CODE_INVALID_ARGUMENT = 1
    CODE_NOT_FOUND = 2
    CODE_PERMISSION = 3
    CODE_UNAVAILABLE = 4
    CODE_NOT_A_FILE = 5
    CODE_TRUNCATED = 6
    CODE_SOURCE_CHANGED = 7
    CODE_EXHAUSTED = 8
    CODE_INTERNAL = 9
    CODE_RESUME = 10
    CODE_TOO_LARGE = 11
    CODE_DATA_LOSS = 12
    CODE_DEADLINE = 13
    CODE_CANCELLED = 14
    CODE_OUT_OF_RANGE = 15
    CODE_PRECONDITION = 16
    CODE_FORKED = 17
    CODE_DEVICE = 18
    CODE_SLOTS = 19
    CODE_STALL = 20
    CODE_DECOMPRESS = 40
    CODE_UNIMPLEMENTED = 41
    CODE_DTYPE = 42
    CODE_PROTO = 43
    CODE_DECODE = 44
    CODE_CHECKSUM = 45
    CODE_CSV = 50
    CODE_STEP = 60            # the step itself says what went wrong, and where in the element
    CODE_HANDED = 61          # the exception that a Python thread handed in
    CODE_AGAIN = 220         # no class: not yet, and nothing is wrong

cdef enum:
    # sentences
    WHAT_OPEN = 1
    WHAT_STAT = 2
    WHAT_READ = 3
    WHAT_DIRECTORY = 4
    WHAT_SPECIAL = 5
    WHAT_TAIL = 6
    WHAT_HEADER = 7
    WHAT_SHORTENED = 8
    WHAT_REPLACED = 9
    WHAT_UNEQUAL = 10
    WHAT_MEMORY = 11
    WHAT_THREAD = 12
    WHAT_THROWN = 13
    WHAT_HEADER_CUT = 15
    WHAT_LINE = 16
    WHAT_NAME = 17
    WHAT_UNEVEN = 18
    # a: length of one side of an element; b: length to pad it to (component and dimension in its high bits)
    WHAT_PADDED = 19
    WHAT_BUDGET = 20          # a: bytes needed; b: bytes allowed
    WHAT_REWRITTEN = 21
    WHAT_UNSIZED = 22
    WHAT_FEWER = 24           # a place behind more elements than there are. a: how many are missing
    # an error that ended the source before this record doesn't come again. a: the pass; b: the record's number
    WHAT_NO_ERROR = 23
    # compressed data. a: the encoding; b: the place among the decompressed bytes
    WHAT_CUT = 100
    WHAT_NO_HEADER = 101
    WHAT_DAMAGED = 102
    WHAT_CHECK = 103
    WHAT_TRAILING = 104
    WHAT_DICTIONARY = 105
    WHAT_WINDOW = 106
    WHAT_INFLATE_MEMORY = 107
    WHAT_NO_LIBRARY = 108
    WHAT_TFRECORD_LENGTH = 120
    WHAT_TFRECORD_DATA = 121
    WHAT_RECORD_CUT_HEADER = 122
    WHAT_RECORD_CUT = 123
    WHAT_RECORD_TOO_LARGE = 124
    WHAT_TAR_HEADER = 130
    WHAT_TAR_NUMBER = 131
    WHAT_TAR_SPARSE = 132
    # CSV. a: the line; b: the number of the field; for an invalid number, the high half has the kind of its column
    WHAT_CSV_FIELDS = 140     # b: number of fields in the row; the high half has the number expected
    WHAT_CSV_MISSING = 141
    WHAT_CSV_NUMBER = 142
    WHAT_CSV_BARE = 143
    WHAT_CSV_QUOTE = 144
    WHAT_CSV_OPEN = 145
    WHAT_CSV_LONG = 146       # b: the limit
    WHAT_BEHIND = 219         # a row from before the place where the run began
    WHAT_SPECIAL_READER = 220
    WHAT_WHOLE = 221          # a: the limit; b: the size, or -1

cdef enum:
    STAGE_NONE = 0
    STAGE_OPEN = 1
    STAGE_READ = 2
    STAGE_ORDER = 3
    STAGE_RUNNER = 4
    STAGE_MAP = 5

# Says what is wrong with compressed data, in words that follow the data's name and a colon. place: bytes from its
# start.
cdef str inflate_sentence(int reason, int encoding, int64_t place)
# Returns that the fault's text is none of a kind.
cdef str no_value(const Fault* fault, object kind)
# Returns the fault's text, of what is long the beginning; None: it has none.
cdef str text_shown(const Fault* fault)
# Returns the exception for what `fault` recorded; the caller raises it. path: bytes or None.
cdef object fault_error(const Fault* fault, object path, object headings=*, int32_t store=*)
# Returns the name of a file (bytes) as errors and logs show it.
cdef object shown_name(object path)
# Returns an exception of a code's class for code that raises it later, or never. place: the keyword arguments of
# `QueueCoreError` that say where, if any.
cdef object new_error(int32_t code, str text, dict place=*)
# Raise it. Cython doesn't know that these never return, so nothing that runs stands behind a call of them.
cdef int raise_error(int32_t code, str text) except -1
cdef int raise_from(int32_t code, str text, object cause) except -1
# Whether an exception is one of `queuecore.errors`: what `except QueueCoreError` asks.
cdef bint is_own(object error)


# A fault as integers of at most 64 bits, as states have it, and back.
cdef tuple fault_numbers(const Fault* fault)
cdef int fault_of(Fault* fault, numbers) except -1


cdef inline void fault_begin(Fault* fault, int32_t code, int32_t what, int32_t stage) noexcept nogil:
    # Says what went wrong, and not yet where: in no file, at no offset, in no record.
    memset(fault, 0, sizeof(Fault))
    fault.code = code
    fault.what = what
    fault.stage = stage
    fault.file = fault.offset = fault.record = -1


cdef inline void fault_text(Fault* fault, const unsigned char* text, int64_t nbytes) noexcept nogil:
    # Keeps the beginning of the text that doesn't parse.
    fault.text_bytes = nbytes
    memset(fault.text, 0, sizeof(fault.text))  # saved places have all of it
    memcpy(fault.text, text, min(nbytes, <int64_t>sizeof(fault.text)))
