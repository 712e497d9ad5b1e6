# Files as a source of records at known places: the table of files and what is known of each, and reads.
#
# FileTable: one per iterator. A file is *discovered* once, by any thread, outside any turn: that thread opens it,
# measures it (fstat) and counts its records. The table's turn guards the open files; it is never held across a system
# call.
#   I1  Entries [0, known_files) never change after they were published, but for their open file.
#   I2  An entry's fd is closed only by the thread that took it out of the entry under the turn, with pins == 0.
#   I3  At most `fd_limit` files are open, plus one per thread at work.
#   I4  Bytes of a file below its size at discovery don't change while it is read. This is checked by the thread that
#       reads the last of its records, by the one that closes it, and at the end of the stream, by a thread that may
#       wait for the storage; a pass that opens it
#       again finds it as it was, to the last byte. So does a later table over the same files that is told what the
#       earlier one found (KnownFiles).
from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t
from queuecore._core.atoms.platform cimport Atomic, Fault, FileEntry, FileStat, StopFlag, Turn, iovec
from queuecore._core.io.names cimport Names, kFilesOfBlock, kFilesShift, name_of
from queuecore._core.io.remote cimport is_url

cdef extern from *:
    """
    namespace queuecore {
    struct FileTable {
      Turn turn;
      Atomic<int64_t> refs;
      struct Names* names;
      FileEntry** blocks;        // what is known of the files; entry_of
      int64_t listed;            // files of which there are entries; guarded by the turn
      // All of them; while more may be listed, more than there can be. Relaxed, always: a waiter for the end is
      // woken once this is stored (Stream.extend), and looks again.
      Atomic<int64_t> files;
      int64_t record_bytes, header_bytes, footer_bytes, hop_bytes;
      int32_t tail;
      int32_t fd_limit;
      int32_t store;             // by what its URLs are opened, as FileList has it; set before the first file is opened
      int32_t retries;           // of a read that fails with EIO; set before the first read, like the next four
      bool drops;                // the page cache forgets what was read
      bool direct;               // reads pass over the page cache, unless a file system refuses
      StopFlag* stop;            // ends the waits between retries; NULL: none
      int32_t open_files;        // guarded by the turn
      int32_t idle_first, idle_last;  // guarded by the turn; -1: none
      int64_t claimed;           // files handed out for discovery; guarded by the turn
      Atomic<uint64_t> memory;   // device number of a file system in memory, whose reads never wait; 0: none is known
      Atomic<uint64_t> near;     // of one on this machine: a look at an open file never waits; 0: none is known
      Atomic<int32_t> cold;      // a read has found less in the page cache than it wanted: 0 or 1
      Atomic<int64_t> refused;   // one more than a file whose reads can't be direct; 0: none
      Atomic<int32_t> ringless;  // the errno with which the kernel refused a ring; 0: it didn't
      Atomic<uint32_t> news;     // NEWS_* that the consumer doesn't know of yet
      int64_t changed;           // one more than a file that had changed when it was closed; 0: none; under the turn
      alignas(kLine) Atomic<int64_t> known_files;
      Atomic<int64_t> known_records;
      Atomic<int64_t> empty_files, dropped_tails;
      alignas(kLine) Atomic<int64_t> bytes_read;
    };
    }  // namespace queuecore
    """
    cppclass FileTable "queuecore::FileTable":
        Turn turn
        Atomic[int64_t] refs
        Names* names
        FileEntry** blocks
        int64_t listed
        Atomic[int64_t] files
        int64_t record_bytes, header_bytes, footer_bytes, hop_bytes
        int32_t tail
        int32_t fd_limit
        int32_t store
        int32_t retries
        bint drops
        bint direct
        StopFlag* stop
        int32_t open_files
        int32_t idle_first, idle_last
        int64_t claimed
        Atomic[uint64_t] memory
        Atomic[uint64_t] near
        Atomic[int32_t] cold
        Atomic[int64_t] refused
        Atomic[int32_t] ringless
        Atomic[uint32_t] news
        int64_t changed
        Atomic[int64_t] known_files
        Atomic[int64_t] known_records
        Atomic[int64_t] empty_files, dropped_tails
        Atomic[int64_t] bytes_read

cdef enum:
    READ_OK = 0
    READ_FAULT = 1
    READ_NOT_CACHED = 2  # only with nowait: the bytes would have to come from the disk

# What consumers are told once.
cdef enum:
    NEWS_DIRECT = 1      # reads can't be direct: `refused`
    NEWS_RINGS = 2       # the kernel lends no ring, or none any longer: `ringless`

# What a thread that wants bytes may wait for.
cdef enum:
    WAIT_ALL = 0
    WAIT_OPEN = 1        # a file may be opened; bytes only come from the page cache
    WAIT_NONE = 2

# The treatment of a file's last bytes if they are less than a record.
cdef enum:
    TAIL_ERROR = 0
    TAIL_DROP = 1        # they are left out, and counted
    TAIL_SHORT = 2       # they are a short record: the last piece of a file that is read in pieces
    TAIL_STREAM = 3      # a file is one record of unknown length, and isn't kept open

# Opens a regular file: returns its descriptor, with its status, or -1 with the fault. `store`: see remote_open. System
# calls; hold no turn.
cdef int open_regular(const char* name, int32_t store, FileStat* st, Fault* fault) noexcept nogil
# Returns whether a fault concerns the file alone and not the machine, so that the file may be left out and the next one
# read.
cdef bint file_skippable(int32_t code, int32_t what, int32_t err) noexcept nogil
# Opens a file like open_regular, also if it is a pipe or a device. Reads of those don't wait.
cdef int open_any(const char* name, int32_t store, FileStat* st, Fault* fault) noexcept nogil
# Returns whether bytes of a file below its earlier size may have changed. A file that has only become longer was
# appended to; but an object of a store never is, and another one takes its place.
cdef bint changed_since(const FileStat* now, int64_t size, int64_t mtime_ns) noexcept nogil
# Sets the fault of a file that has changed.
cdef void changed_fault(const FileStat* now, int64_t size, Fault* fault) noexcept nogil
# Returns whether an open file that says that it is empty is so: all files in /proc, and on some file systems outside
# the kernel, say so. False: it has bytes, or can't be read, as `fault` says. A read that fails with EIO is tried again
# up to `retries` times; `stop`: see `backoff`. System calls.
cdef bint is_empty(int fd, int32_t retries, StopFlag* stop, Fault* fault) noexcept nogil
# Returns the error code (CODE_*) of an errno.
cdef int32_t os_code(int err) noexcept nogil

# Waits before a failed read is tried again: 10 ms, 20 ms and so on, 100 ms at most. False: a stop was requested (NULL:
# none can be).
cdef bint backoff(int32_t tries, StopFlag* stop) noexcept nogil

cdef inline FileEntry* entry_of(const FileTable* t, int64_t f) noexcept nogil:
    return &t.blocks[f >> kFilesShift][f & (kFilesOfBlock - 1)]

# Returns the offset in bytes at which the records of file f begin.
cdef inline int64_t head_of(const FileTable* t, int64_t f) noexcept nogil:
    return t.header_bytes if t.names.arrays == NULL else t.names.arrays.files[f].head_bytes

# Returns whether a file is opened by a library, which takes a request, whoever has its bytes then.
cdef inline bint table_is_remote(const FileTable* t, int64_t f) noexcept nogil:
    return is_url(name_of(t.names, f))

# The files that a table has found, for tables of later passes over the same files.
cdef class KnownFiles:
    cdef int64_t count
    cdef FileStat* files     # size < 0: it could not be opened

cdef KnownFiles known_files_of(FileTable* t)

# NULL: no memory. Takes a reference on the names.
cdef FileTable* table_new(Names* names, int64_t record_bytes, int64_t header_bytes, int64_t footer_bytes,
                          int64_t hop_bytes, int32_t tail, int32_t fd_limit) noexcept nogil
# Says what an earlier pass found, before any thread uses the table: a file that is another one by now is an error.
cdef void table_expect(FileTable* t, KnownFiles known_files) noexcept nogil
# Takes over names that were added since, with the GIL. False: no memory.
cdef bint table_extend(FileTable* t) noexcept nogil
# Drops a reference; the last one closes every file.
cdef void table_drop(FileTable* t) noexcept nogil
# Claims the next file to discover, at most `ahead` files past those that are known; -1: none now.
cdef int64_t table_claim(FileTable* t, int64_t ahead) noexcept nogil
# Opens and measures file f. System calls; hold no turn.
cdef void table_discover(FileTable* t, int64_t f) noexcept nogil
# Sets the fault that file f has after its whole records; only for a known file with code != 0.
cdef void table_fault(const FileTable* t, int64_t f, Fault* fault) noexcept nogil
# Returns the known file that holds this ordinal; `hint` is the file to look at first.
cdef int64_t table_find(const FileTable* t, int64_t ordinal, int64_t hint) noexcept nogil
# Returns whether a file that a pass opened again, with this status, still is file f. It may have become longer, unless
# this pass is a later one that opens it for the first time. No system call.
cdef bint table_is_same(FileTable* t, int64_t f, int64_t pass_, const FileStat* st) noexcept nogil
# Returns an open descriptor of file f for this pass, pinned, or -1 with the fault; give it back with table_unpin.
# nowait: -1 with code 0 if the file would have to be opened.
cdef int table_pin(FileTable* t, int64_t f, int64_t pass_, bint nowait, Fault* fault) noexcept nogil
# Gives a descriptor back, of which `records` of the file's records were read. False: now all are read, and the file has
# changed meanwhile. nowait: False with code 0 if all are read now and a look at the file may wait; then they don't
# count as read.
cdef bint table_unpin(FileTable* t, int64_t f, int64_t records, bint nowait, Fault* fault) noexcept nogil
# Pins a file like table_pin, without a wait, if the kernel may read its records by itself: an open file of this
# machine, of which they are bytes in a row. -1 with code 0: it may not. *direct: places and sizes must be multiples of
# the disk's blocks. What it has read is told to table_note_read.
cdef int table_lend(FileTable* t, int64_t f, int64_t pass_, bint* direct, Fault* fault) noexcept nogil
# Notes bytes that were read from an open file.
cdef void table_note_read(FileTable* t, int fd, int64_t offset, int64_t nbytes) noexcept nogil
# Notes the errno with which the kernel has refused a ring.
cdef void table_no_rings(FileTable* t, int error) noexcept nogil
# Returns whether table_settle has something to look at. No system call.
cdef bint table_unsettled(FileTable* t) noexcept nogil
# Checks the files of which a part was read. False: one has changed meanwhile, and files after it may be unchecked.
# System calls, as all that follows, but for what says otherwise.
cdef bint table_settle(FileTable* t, Fault* fault) noexcept nogil
# Opens a known file by its name. False: it is the file that was discovered, and has changed since. True also if the
# name is another file's, or none's: the bytes read are no worse for that. System calls.
cdef bint table_named_unchanged(const FileTable* t, int64_t f, Fault* fault) noexcept nogil
# Returns a file that a thread reads now, from file `after` on; -1: none.
cdef int64_t table_pinned(FileTable* t, int64_t after) noexcept nogil
# Closes the files that no thread reads now. Any thread; system calls.
cdef void table_close_idle(FileTable* t) noexcept nogil

# A read of a file, which uses the list up.
cdef struct FileRead:
    int64_t file
    int fd
    iovec* iov
    int count            # of the list
    int64_t offset
    bint nowait          # only what need not come from the disk
    int64_t got          # bytes that were read, also after a failure

# Fills the whole list from the offset on.
cdef int read_full(FileTable* t, FileRead* r, Fault* fault) noexcept nogil
# Does the same for records at known places: the offset counts bytes from the first record, as if records lay one after
# the other. Of arrays, each part of the list has room for whole rows.
cdef int read_records(FileTable* t, FileRead* r, Fault* fault) noexcept nogil
