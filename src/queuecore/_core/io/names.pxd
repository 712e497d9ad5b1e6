# Names of files, as a list that may grow while folders are listed.
#
# Names: shared by every iterator of a dataset, reference-counted natively because workers outlive iterators. A name
# that is there never changes and stays where it is; while folders are listed, more are added, by threads with the GIL.
# Of files that describe their own content (ArrayFiles), Names has the description too: each has a header of its own,
# and records may lie by columns.
from libc.stdint cimport int32_t, int64_t, uint64_t
from queuecore._core.atoms.dims cimport MAX_DIMS
from queuecore._core.atoms.platform cimport Atomic

cdef extern from *:
    """
    namespace queuecore {
    // A file whose records are the rows of one array.
    struct ArrayFile {
      const char* head;    // its bytes before the first record, as they were when its header was read
      int64_t head_bytes;
      int64_t rows;
      int64_t by_columns;  // the first numbers of all rows come first, then the second ones (Fortran's order); 0: rows
    };

    struct ArrayFiles {
      ArrayFile* files;
      char* heads;         // the bytes that `head` of all files point to
      int64_t item_bytes;  // of a number
      int64_t ndim;        // of a row
      int64_t sides[kMaxDims];  // of a row, in the order of its shape; none is 0
    };

    // Names and what is known of files lie in blocks of so many, which stay where they are.
    constexpr int kFilesShift = 12;
    constexpr int64_t kFilesOfBlock = 1 << kFilesShift;

    struct NameText {
      NameText* before;
      char text[1];          // names, each ended by a zero byte
    };

    struct Names {
      Atomic<int64_t> refs;
      int64_t count;         // so far; the GIL guards it, and all but `refs` and `digest`
      bool whole;            // there will be no more
      int64_t parts;         // of the listing, that were added
      int64_t rooms;         // of `blocks`
      const char*** blocks;  // of pointers to the names
      NameText* texts;       // what they point to, the last one first
      Atomic<uint64_t> digest;
      ArrayFiles* arrays;    // NULL: nothing is known beforehand
    };
    }  // namespace queuecore
    """
    cppclass ArrayFile "queuecore::ArrayFile":
        const char* head
        int64_t head_bytes
        int64_t rows
        int64_t by_columns

    cppclass ArrayFiles "queuecore::ArrayFiles":
        ArrayFile* files
        char* heads
        int64_t item_bytes
        int64_t ndim
        int64_t* sides

    int kFilesShift "queuecore::kFilesShift"
    int64_t kFilesOfBlock "queuecore::kFilesOfBlock"

    cppclass NameText "queuecore::NameText":
        NameText* before
        char* text

    cppclass Names "queuecore::Names":
        Atomic[int64_t] refs
        int64_t count
        bint whole
        int64_t parts
        int64_t rooms
        const char*** blocks
        NameText* texts
        Atomic[uint64_t] digest
        ArrayFiles* arrays

cdef enum:
    MOST_HEAD = 10240         # bytes of the header of an array
    MOST_BLOCKS = 1 << 16     # of names, of a list that grows
    MOST_FILES = MOST_BLOCKS << 12

cdef class FileList:
    cdef Names* names
    cdef object rest           # the Listing that adds names, shared by all lists of these; None: they are all
    cdef readonly bint remote  # one is a URL
    cdef readonly object store
    cdef int32_t store_number  # of `store`, for native code; 0: None

    cdef int _set_store(self, store) except -1
    cdef int _add(self, list paths, bint is_last) except -1
    # Waits until so many names are known, or all.
    cpdef int at_least(self, int64_t count) except -1
    cdef int _set_arrays(self, int64_t item_bytes, tuple sides, list files) except -1

cdef void names_drop(Names* names) noexcept nogil
cdef inline const char* name_of(const Names* names, int64_t i) noexcept nogil:
    return names.blocks[i >> kFilesShift][i & (kFilesOfBlock - 1)]

cdef inline int64_t blocks_of(int64_t files) noexcept nogil:
    return (files + kFilesOfBlock - 1) >> kFilesShift

# Returns how many files a block of so many names, or of their table, has room for.
cdef inline int64_t room_of_block(const Names* names, int64_t count, int64_t block) noexcept nogil:
    return kFilesOfBlock if names.rooms == MOST_BLOCKS else min(kFilesOfBlock, count - block * kFilesOfBlock)
