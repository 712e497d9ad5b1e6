# Splitting fixed-length records into one contiguous native-order array per field.
#
# A Layout is immutable once built and may be used by any number of threads at once; the functions write only to the
# rows they are given. All are wait-free: they only copy.
from libc.stdint cimport int32_t, int64_t, uint32_t
from queuecore._core.atoms.platform cimport Leaf, iovec

cdef enum:
    PLACE_DIRECT = 0   # the record is the row: read straight into place
    PLACE_SCATTER = 1  # long pieces: the kernel scatters them, one iovec a piece
    PLACE_STAGE = 2    # short pieces: read a block that stays in the cache, then split it

cdef enum:
    WIDE_GAP = 4096    # bytes between records: from here one read for each record costs less than reading over the gap

cdef struct RecordPart:
    int32_t leaf       # -1: unwanted bytes
    int64_t nbytes
    int64_t row_offset

cdef struct RecordLayout:
    Leaf* leaves
    int32_t leaf_count
    int64_t record_bytes
    int64_t hop_bytes
    int32_t place
    bint lone_records    # the gap between two records is too wide to be read over
    bint mends           # some leaf needs its bytes reversed or made 0/1
    RecordPart* parts          # PLACE_SCATTER: the record and the gap after it, in order of the file
    int32_t part_count
    int64_t dump_bytes   # bytes of the widest unwanted part
    int64_t stage_records

# Builds the read plan from leaves, leaf_count, record_bytes and hop_bytes. False: no memory.
cdef bint layout_plan(RecordLayout* layout) noexcept nogil
cdef void layout_clear(RecordLayout* layout) noexcept nogil

# Fills in iovecs that read `n` records, `hop_bytes` apart, into the rows from `row` on; returns their number.
cdef int layout_iovecs(const RecordLayout* layout, iovec* iov, unsigned char* slot, int64_t row, int64_t n,
                       unsigned char* dump) noexcept nogil
# Splits `n` records that lie `stride` apart.
cdef void layout_split(const RecordLayout* layout, const unsigned char* records, int64_t stride, unsigned char* slot,
                       int64_t row, int64_t n) noexcept nogil
# The same for records at store + ids[i] * stride, prefetching ahead.
cdef void layout_gather(const RecordLayout* layout, const unsigned char* store, int64_t stride, const uint32_t* ids,
                        unsigned char* slot, int64_t row, int64_t n) noexcept nogil
# Mends byte order and booleans of rows that were read in place.
cdef void layout_mend(const RecordLayout* layout, unsigned char* slot, int64_t row, int64_t n) noexcept nogil

cdef extern from *:
    """
    #define QC_PREFETCH(p) __builtin_prefetch(p)
    """
    void QC_PREFETCH(const void*) noexcept nogil


cdef inline void prefetch(const unsigned char* p, int64_t nbytes) noexcept nogil:
    cdef int64_t i
    for i in range(0, nbytes, 64):
        QC_PREFETCH(p + i)
