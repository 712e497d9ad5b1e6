# Readers: the records of one file after the other.
#
# Reader. One thread at a time has the *role*: it alone frames records and reads bytes. The role is a claim, not a spin
# lock: other threads that want it sleep. Its holder may wait for a disk, or for its next work unit, as in TensorFlow.
#   Any thread calls reader_enter, which waits for a slice of time. The holder of the role calls reader_next,
#   reader_open and reader_leave. The thread that got a record calls record_check and record_drop, without the role. Any
#   thread reads the counters.
#   I1  Bytes of a block that a record refers to don't change until the record is dropped: the reader appends behind
#       them, and moves to another block when it must make room while a record still holds this one (B1, B2).
#   I2  A work unit is taken only when there is none in progress. It counts as completed when no record is left in it:
#       FRAME_WHOLE and FRAME_IDENTITY know that with their one record, the others when they are asked for one more.
# Progress: entering is blocking; everything else is as quick as the system calls in it.
from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t
from queuecore._core.atoms.platform cimport Atomic, EventCount, Fault
from queuecore._core.io.streams cimport ByteStream

cdef enum:
    READER_RECORD = 0
    READER_WORK = 1      # no unit is in progress: call reader_open next
    READER_FAULT = 2
    READER_DAMAGED = 3   # one record is damaged; the next call goes on in the same unit
    READER_AGAIN = 4     # the file makes it wait; call it again
    READER_DRY = 5       # the bytes that have been read hold no further record

cdef enum:
    SPARE_BLOCKS = 4

cdef extern from *:
    """
    namespace queuecore {
    // Bytes that several records share.
    struct Block {
      Atomic<int32_t> refs;
      int64_t room;
    };
    static_assert(sizeof(Block) <= 64, "the bytes begin on a line of their own");

    struct Record {
      Block* block;
      Block* name;  // its bytes are the work unit's name, name_bytes of them, and a zero
      int64_t name_bytes;
      unsigned char* data;
      int64_t nbytes;
      int64_t number;  // the number that its key ends with; -1: the key is the name
      int64_t index;   // in the file
      bool checked;    // false: its checksum follows the data and must be checked
      int64_t sequence;  // records that the reader gave before it
      int64_t offset;    // of its first byte in the stream; -1: it lies in none
    };

    struct Reader {
      alignas(kLine) Atomic<uint32_t> busy;  // 1: a thread has the role
      EventCount left;                       // threads that want the role park here
      // Used by the holder of the role:
      // its Python thread, so that a work iterator that reads from its own reader gets an error, not a deadlock
      Atomic<uint64_t> owner;
      void* stream;  // a Stream
      int32_t encoding;
      int32_t framing;
      int64_t record_bytes, header_bytes, footer_bytes, hop_bytes;  // FRAME_LINES: header_bytes are lines
      int64_t max_record_bytes;
      int32_t retries;
      bool special;  // pipes and devices are read too
      int32_t store;  // by what URLs are opened
      Block* name;  // of the work unit in progress; NULL: none
      int64_t name_bytes;
      Block* last;  // name of the last unit completed, where one unit is one record
      int64_t last_bytes;
      Block* block;  // bytes [at, filled) of it aren't framed yet
      int64_t at, filled;
      int64_t offset;   // in the stream, of the block's first byte
      int64_t scanned;  // bytes from `at` on that hold no end of line
      int64_t skip;     // bytes before the next record
      int64_t number;   // records, or lines, before the next one
      bool ended;       // the stream has no more bytes
      Fault failed;     // of the last read, reported after the bytes that came before it; code 0: none
      bool resync;      // FRAME_TFRECORD: search for the next header after a damaged one
      bool searching;   // this search is under way
      // Used by all threads:
      alignas(kLine) Atomic<int64_t> produced, completed, dropped_tails;
      Atomic<Block*> spare[4];
    };
    }  // namespace queuecore
    """
    cppclass Block "queuecore::Block":
        Atomic[int32_t] refs
        int64_t room

    ctypedef Block* BlockPtr "queuecore::Block*"

    cppclass Record "queuecore::Record":
        Block* block
        Block* name
        int64_t name_bytes
        unsigned char* data
        int64_t nbytes
        int64_t number
        int64_t index
        bint checked
        int64_t sequence
        int64_t offset

    cppclass Reader "queuecore::Reader":
        Atomic[uint32_t] busy
        EventCount left
        Atomic[uint64_t] owner
        void* stream
        int32_t encoding
        int32_t framing
        int64_t record_bytes, header_bytes, footer_bytes, hop_bytes
        int64_t max_record_bytes
        int32_t retries
        bint special
        int32_t store
        Block* name
        int64_t name_bytes
        Block* last
        int64_t last_bytes
        Block* block
        int64_t at, filled, offset, scanned, skip, number
        bint ended
        Fault failed
        bint resync, searching
        Atomic[int64_t] produced, completed, dropped_tails
        Atomic[BlockPtr] spare[4]

cdef inline unsigned char* block_bytes(const Block* block) noexcept nogil:
    return <unsigned char*>block + 64


# Takes the role, and waits for it until `until` (monotonic, in ns) at most. False: another thread still has the role.
cdef bint reader_enter(Reader* r, int64_t until) noexcept nogil
cdef void reader_leave(Reader* r) noexcept nogil
# Gives the next record of the work unit in progress, or says (READER_*) why there is none. After READER_FAULT the unit
# is given up. With it, and with READER_DAMAGED, `record` has the unit's name, the offset of the first byte that no
# record was made of, and in nbytes the number of bytes that are given up from there on (-1: not known). A wait for a
# pipe, or for another try, ends after 100 ms at most. held: the call reads no bytes; READER_DRY says that it would have
# to.
cdef int reader_next(Reader* r, Record* record, Fault* fault, bint is_held) noexcept nogil
# Begins a work unit; none may be in progress. False: `fault` says why, and the unit is given up.
cdef bint reader_open(Reader* r, const unsigned char* name, int64_t nbytes, Fault* fault) noexcept nogil
# Returns whether a record's checksum is right; without the role, as it takes time. False: `fault` has the error, and
# the reader may go on.
cdef bint record_check(const Record* record, Fault* fault) noexcept nogil
cdef void record_drop(Reader* r, Record* record) noexcept nogil
# Writes the record's key, of at most record_key_room bytes, and returns its length.
cdef inline int64_t record_key_room(const Record* record) noexcept nogil:
    return record.name_bytes + 21
cdef int64_t record_key(const Record* record, unsigned char* into) noexcept nogil


cdef class Framing:
    cdef readonly int kind    # FRAME_WHOLE, …
    cdef readonly int64_t record_bytes, header_bytes, footer_bytes, hop_bytes


cdef class NativeReader:
    cdef Reader* r
    cdef ByteStream stream
    cdef uint64_t generation
    cdef object failure      # the error that the next call raises
    cdef object store        # keeps what `r.store` is the number of

    cdef int _enter(self) except -1
    cdef int _lose(self, int64_t count, error) except -1
    cdef int _refuse(self) except -1
    cdef int _first(self, Record* record, object next_name) except -1
    cdef object _error(self, const Fault* fault, object path)
