# Readers: the records of one file after the other.
#
# Reader. One thread at a time has the *role*: it alone frames records and reads bytes. It is a claim, not a lock to spin on: who wants it
# meanwhile sleeps. With it held a reader may wait for a disk, or for its next work unit, as TensorFlow's does.
#   reader_enter: any thread, a slice of time. reader_next, reader_open, reader_reset, reader_leave: who has the role.
#   record_check, record_drop: who got the record, without the role. The counters: any thread.
#   I1  Bytes of a block that a record refers to don't change until the record is dropped: the reader appends behind them, and moves to
#       another block when it has to make room while anybody else holds this one (B1, B2).
#   I2  A work unit is taken only when there is none in progress. It counts as completed when nothing is left in it: FRAME_WHOLE and
#       FRAME_IDENTITY know that with their one record, the others when they are asked for one more.
# Progress: entering is blocking; everything else is as quick as the system calls in it.
from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t
from queuecore._core.atoms.platform cimport Atomic, EventCount, Fault
from queuecore._core.io.streams cimport Stream

cdef enum:
    READER_RECORD = 0
    READER_WORK = 1      # reader_open is next
    READER_FAULT = 2
    READER_DAMAGED = 3   # of one record; the next call goes on in the same unit
    READER_AGAIN = 4     # what it reads from makes it wait; call it again
    READER_DRY = 5       # what has been read holds no further one

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
      int64_t number;  // what its key ends with; -1: the key is the name
      int64_t index;   // in the file
      bool checked;    // or a checksum follows the data
      int64_t sequence;  // records that the reader gave before it
      int64_t offset;    // of its first byte in the stream; -1: it lies in none
    };

    struct Reader {
      alignas(kLine) Atomic<uint32_t> busy;  // 1: somebody has the role
      EventCount left;                       // parked: who wants it
      // Of who has the role
      Atomic<uint64_t> owner;  // a Python thread, so that a work iterator that reads from its own reader is no deadlock
      void* stream;  // a Stream
      int32_t encoding;
      int32_t framing;
      int64_t record_bytes, header_bytes, footer_bytes, hop_bytes;  // FRAME_LINES: header_bytes are lines
      int64_t max_record_bytes;
      int32_t retries;
      bool special;  // pipes and devices are read too
      Block* name;  // of the work unit in progress; NULL: none
      int64_t name_bytes;
      Block* last;  // of the last one completed, where one unit is one record
      int64_t last_bytes;
      Block* block;  // bytes [at, filled) of it aren't framed yet
      int64_t at, filled;
      int64_t offset;   // in the stream, of the block's first byte
      int64_t scanned;  // bytes from `at` on that hold no end of line
      int64_t skip;     // bytes before the next record
      int64_t number;   // records, or lines, before the next one
      bool ended;       // the stream has no more
      Fault failed;     // of the last read, after bytes that go first; code 0: none
      bool resync;      // FRAME_TFRECORD: look for the next header after one that is damaged
      bool searching;   // that is what it does
      // Of everybody
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


# Until `until` (monotonic) at most. False: somebody else has the role.
cdef bint reader_enter(Reader* r, int64_t until) noexcept nogil
cdef void reader_leave(Reader* r) noexcept nogil
# The next record of the work unit in progress, or why not. After READER_FAULT the unit is given up. With it, and with READER_DAMAGED,
# `record` has the unit's name, the offset of the first byte that no record was made of, and in nbytes how many are given up from it on
# (-1: not known). It comes back from a wait for a pipe, or for another try, after 100 ms at most.
# held: nothing is read for it, READER_DRY says that something would have to be.
cdef int reader_next(Reader* r, Record* record, Fault* fault, bint held) noexcept nogil
# Begins a work unit; there must be none. False: `fault` says why, and the unit is given up.
cdef bint reader_open(Reader* r, const unsigned char* name, int64_t nbytes, Fault* fault) noexcept nogil
# Whether its checksum is right; without the role, as it takes time. False: `fault` says what is wrong, and the reader may go on.
cdef bint record_check(const Record* record, Fault* fault) noexcept nogil
cdef void record_drop(Reader* r, Record* record) noexcept nogil
# Its key, of at most record_key_room bytes; how many.
cdef inline int64_t record_key_room(const Record* record) noexcept nogil:
    return record.name_bytes + 21
cdef int64_t record_key(const Record* record, unsigned char* into) noexcept nogil


cdef class Framing:
    cdef readonly int kind    # FRAME_WHOLE, …
    cdef readonly int64_t record_bytes, header_bytes, footer_bytes, hop_bytes


cdef class NativeReader:
    cdef Reader* r
    cdef Stream stream
    cdef uint64_t generation
    cdef object failure      # of a record that comes next

    cdef int _refuse(self) except -1
    cdef int _first(self, Record* record, object next_name) except -1
    cdef object _error(self, const Fault* fault, object path)
