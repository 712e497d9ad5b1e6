# Reads ahead of one file whose bytes come by requests: ranges that follow each other are asked for early, in larger
# requests, side by side.
#
# Native threads read a file in pieces of some 100 KB, several at a time, and not quite in order; a store answers after
# milliseconds, whatever is asked for. So a range that begins where an earlier one ended, or shortly behind, is asked
# for together with what follows it: four times as many bytes each time, up to 8 MiB, and further such ranges beside it,
# up to 64 MiB ahead, and on into the file that follows. Any other range is asked for as it is: records in a random
# order cost no more than their bytes.
#
#   H1  The list of ranges, and all of a range but its bytes, are under `turn`, which is held for a few comparisons.
#   H2  The bytes of a range are its server's while it is RANGE_ASKED. From RANGE_HERE on nobody writes to them, and who
#       copies them holds a reference.
#   H3  The failure of a range that a reader asked for is told to all that wait for it. A waiter for one that was only
#       asked for ahead, or comes later, asks again, for what it needs itself.
# Any thread, without a turn. Only ahead_copy copies; nothing here waits. Threads that have to wait park at `come`.
from libc.stdint cimport int32_t, int64_t, uint64_t
from queuecore._core.atoms.platform cimport Atomic, EventCount, Turn

cdef enum:
    MOST_ENDS = 32

cdef enum:
    RANGE_ASKED = 0
    RANGE_HERE = 1
    RANGE_FAILED = 2

cdef extern from *:
    """
    namespace queuecore {
    struct AheadRange {
      AheadRange* next;        // of the file's list, the oldest first; or of a list of those that are asked for, or go
      int64_t start, stop;     // in the file
      int64_t followed;        // how many ranges it follows, each of which began where another one ended
      int64_t unread;          // bytes that nobody has copied yet
      int32_t refs;            // of the list, its readers, and its server
      int32_t state, error;    // RANGE_FAILED: the errno
      bool listed, wanted;     // wanted: by a reader that asked for it; since it began
      unsigned char* data;
    };
    // Where a range ended, how many it followed, and its bytes.
    struct AheadEnd {
      int64_t at, followed, nbytes;
    };
    struct AheadFile {
      Turn turn;
      EventCount come;         // for each range that comes or fails
      Atomic<int32_t> refs;
      int64_t size;
      int64_t stuck;           // where the first range begins that failed, and isn't asked for ahead again; -1: none
      bool single;             // the next range is asked for when this one is here, and no further one
      bool begun;              // somebody has read its beginning since it was said that it follows another one
      bool ended;              // its last range was read, since its first one was asked for
      AheadFile* next;         // that is read after it, as it seems; NULL: none is known. With a reference
      AheadRange* first;
      AheadRange* spent;       // the last one listed of which as many bytes were copied as it has, maybe some twice
      unsigned char* spare;    // of a range that is gone, for one of as many bytes
      int64_t spare_bytes;
      int32_t count, ends_count;
      AheadEnd ends[32];       // the oldest first
      // Hands a range to a server, with a reference to it that the file has taken. 0: none will ever do it.
      int (*ask)(AheadFile* file, AheadRange* range);
      void* owner;             // ask's; under the GIL
      uint64_t generation;     // of the process
    };
    }  // namespace queuecore
    """
    cppclass AheadRange "queuecore::AheadRange":
        AheadRange* next
        int64_t start, stop, followed, unread
        int32_t refs, state, error
        bint listed, wanted
        unsigned char* data

    cppclass AheadEnd "queuecore::AheadEnd":
        int64_t at, followed, nbytes

    cppclass AheadFile "queuecore::AheadFile":
        Turn turn
        EventCount come
        Atomic[int32_t] refs
        int64_t size, stuck
        bint single, begun, ended
        AheadFile* next
        AheadRange* first
        AheadRange* spent
        unsigned char* spare
        int64_t spare_bytes
        int32_t count, ends_count
        AheadEnd* ends
        int (*ask)(AheadFile* file, AheadRange* range_) noexcept nogil
        void* owner
        uint64_t generation

# A file of so many bytes, with one reference; NULL: no memory.
cdef AheadFile* ahead_new(int64_t size) noexcept nogil
cdef void ahead_drop(AheadFile* a) noexcept nogil
# Ends the first reference, and what is here and nobody reads now goes. In a forked process all stays as it was.
cdef void ahead_close(AheadFile* a) noexcept nogil
# Copies bytes from `offset` on, within the file, as many as one range has; asks for that range if need be, and for
# those that will follow it. 0: the range is under way; < 0: the errno of its request is the opposite. `mine` is the
# range that this reader was at last, NULL at first, and goes to ahead_forget when it is not NULL in the end.
cdef int64_t ahead_copy(AheadFile* a, void* to, int64_t nbytes, int64_t offset, AheadRange** mine) noexcept nogil
cdef void ahead_forget(AheadFile* a, AheadRange* mine) noexcept nogil
# Of a file whose bytes come one after the other: sets `single`.
cdef void ahead_single(AheadFile* a, bint single) noexcept nogil
# Says which file is read after this one, as it seems, and wasn't begun: where the end comes near, the beginning of that
# one is asked for too. NULL: none.
cdef void ahead_follow(AheadFile* a, AheadFile* next) noexcept nogil
# Returns whether what is behind a range will be wanted next, as it seems: it begins the file, or follows another.
cdef inline bint ahead_goes_on(const AheadRange* r) noexcept nogil:
    return r.followed > 0


# For the server of a range. ahead_begin makes room for its bytes; otherwise: an errno, ECANCELED if nobody wants it any
# more. ahead_done ends the server's reference; `error` is 0 or an errno.
cdef int ahead_begin(AheadFile* a, AheadRange* r) noexcept nogil
cdef void ahead_done(AheadFile* a, AheadRange* r, int error) noexcept nogil
