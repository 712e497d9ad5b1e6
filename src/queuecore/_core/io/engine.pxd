# The request engine: reads that the page cache can't answer at once are done by threads of its own, as many at a time
# as the storage is good for, while the workers go on with other units.
#
# Its threads are two crews. The pool does any request: a thread one, and waits for it. Rings (uring.pxd) hand reads of
# open files to the kernel: a thread up to kRingReads at a time. A ring passes on to the pool what it can't do. Where
# the kernel has no rings, or none any longer, the pool does everything.
#
# A job is what one unit waits for: some requests. Its owner fills a job in, hands it over (engine_submit), and gets it
# back when all its requests are done: `done` is called with it, once, by one of the engine's threads. Until then the
# job, and the memory that its requests read into, are the engine's.
#   E1  At most `depth` requests are being done at any time. `depth` follows what is measured: it doubles as long as
#       that brings more bytes, and halves, now and then, if that brings as many: requests that only wait make others
#       late.
#   E2  Requests of a crew begin in the order in which they were handed over. The pool's, which nobody else can
#       do, go before those of rings.
#   E3  A request that failed says so, and nothing else: a thread that wants its bytes reads them again, and gets the
#       fault.
#   E4  A thread of a crew that has nothing to do sleeps on the crew's event. A thread that gives it something, a
#       request or the room for one, notifies that (engine_urge).
# engine_submit: any thread. The others: the engine's threads; system calls. None may be called with a turn held.
from libc.stdint cimport int32_t, int64_t, uint32_t
from queuecore._core.atoms.platform cimport EventCount, Turn, Uring
from queuecore._core.io.sources cimport FileTable

cdef enum:
    # What is being tried with the depth:
    TRY_NOTHING = 0
    TRY_MORE = 1
    TRY_LESS = 2

cdef enum:
    DEPTH_FIRST = 8
    DEPTH_LEAST = 4
    DEPTH_MOST = 64
    MOST_RINGS = 8           # threads with rings, for the greatest depth; their numbers come before those of the pool
    REQUEST_BYTES = 1 << 20  # most bytes of a request for records that lie one after the other

cdef struct Job

# Bytes of a file: a number of whole records, one after the other.
cdef struct Request:
    Request* next
    Job* job
    bint whole               # all its bytes are there
    # A ring's:
    int fd
    bint direct
    int32_t window           # that the bytes come through; -1: they come to their place
    int64_t got
    int64_t file, pass_
    int64_t first, rows      # number of the first record among those of all files, and how many
    int64_t at, nbytes       # as of read_records
    unsigned char* to

cdef struct Job:
    void* owner              # whose job it is
    Request* requests
    int64_t room, count
    int64_t at               # the request that was asked for last (job_find)
    int64_t left             # requests that are not done; under the engine's turn
    unsigned char* stage     # memory that requests may read into
    int64_t stage_bytes
    Request run              # if there are no requests: the whole unit's work, which may wait, is the request

cdef extern from *:
    """
    namespace queuecore {
    // What a thread with a ring has: the ring, and windows for direct reads, one for each of its reads.
    struct RingThread {
      Uring ring;
      unsigned char* windows;
      uint32_t used;             // a bit for each window
    };
    constexpr int kMostRings = 8;
    struct Crew {
      EventCount* work;          // its threads park here
      int32_t number;            // of its first thread
      int32_t each;              // requests that a thread does at a time
      // Under the engine's turn:
      void* first;               // requests that wait for it
      void* last;
      int64_t waiting;           // their number
      int32_t threads;           // that were started, or will be at once
      int64_t done;              // requests, since the start: a statistic
    };
    struct Engine {
      Turn turn;
      Crew pool, rings;
      RingThread own[kMostRings];  // each its thread's
      struct FileTable* table;
      void (*run)(void* owner);                // does the work of a job without requests
      void (*done)(void* owner);               // takes a job back
      // Starts threads that sleep on `work`; returns how many.
      int32_t (*more)(void* context, EventCount* work, int32_t first, int32_t count);
      void* context;
      // Under the turn:
      int64_t running;           // requests
      int64_t bytes;             // of the requests that wait or are being done
      int64_t depth, depth_most;
      bool begun;                // there was a request
      bool ringing;              // reads go to rings
      bool alone;                // the pool has no threads
      bool fixed;                // `depth` is not changed
      // What is measured, since `since`:
      int64_t since, got, count;
      bool starved;              // there were fewer requests than could be done at a time
      double best;               // bytes in a ns, at the depth before the one that is being tried
      int32_t trying, then;      // TRY_*, now and after a rest
      int32_t hold;              // measurements until then
    };
    }  // namespace queuecore
    """
    cppclass Crew "queuecore::Crew":
        EventCount* work
        int32_t number, each
        void* first
        void* last
        int64_t waiting
        int32_t threads
        int64_t done

    cppclass RingThread "queuecore::RingThread":
        Uring ring
        unsigned char* windows
        uint32_t used

    cppclass Engine "queuecore::Engine":
        Turn turn
        Crew pool, rings
        RingThread* own
        FileTable* table
        void (*run)(void* owner) noexcept nogil
        void (*done)(void* owner) noexcept nogil
        int32_t (*more)(void* context, EventCount* work, int32_t first, int32_t count) noexcept nogil
        void* context
        int64_t running
        int64_t bytes
        int64_t depth, depth_most
        bint begun, ringing, alone
        bint fixed
        int64_t since, got, count
        bint starved
        double best
        int32_t trying, then
        int32_t hold

# What an engine does with jobs and with threads: the fields of Engine by these names.
cdef struct EngineOwner:
    void (*run)(void* owner) noexcept nogil
    void (*done)(void* owner) noexcept nogil
    int32_t (*more)(void* context, EventCount* work, int32_t first, int32_t count) noexcept nogil
    void* context
    EventCount* apart        # where the threads of the pool sleep,
    EventCount* rings        # and those of rings; NULL: there are none

# Makes room for so many requests and bytes. Returns the bytes of memory that the job has more than before; -1: no
# memory.
cdef int64_t job_room(Job* job, int64_t requests, int64_t nbytes) noexcept nogil
cdef void job_clear(Job* job) noexcept nogil
# Returns the request that has record `ordinal` of this pass, if its bytes are there; NULL otherwise. Records are asked
# for in the order of the job's requests.
cdef const Request* job_find(Job* job, int64_t pass_, int64_t ordinal) noexcept nogil
# `depth`: requests at a time; 0: as many as are measured to be good; `most`: in any case no more, since each may open a
# file.
cdef void engine_init(Engine* e, FileTable* table, int64_t depth, int64_t max_depth,
                      const EngineOwner* owner) noexcept nogil
# Hands a job over. One without requests is run as a whole. Threads start as they are needed. False: there are none, and
# the job stays the caller's.
cdef bint engine_submit(Engine* e, Job* job) noexcept nogil
# Returns whether as much as is good waits already.
cdef bint engine_full(Engine* e) noexcept nogil
# Sets how many requests each crew has done, and how many may be done at a time; 0 of an engine that hasn't begun, or is
# NULL.
cdef void engine_counts(Engine* e, int64_t* pool, int64_t* rings, int64_t* depth) noexcept nogil
# Takes a measurement, in bytes a ns, of the depth that is being tried, and sets the next depth. Under the turn, as is
# `engine_begin`, which sets the numbers that this begins with.
cdef void engine_judge(Engine* e, double rate) noexcept nogil
cdef void engine_begin(Engine* e, int64_t depth, int64_t most) noexcept nogil
# Does a request, in a thread of the pool. Returns STEP_WORKED or STEP_IDLE.
cdef int engine_step(Engine* e) noexcept nogil

# For rings. Takes up to `most` requests that wait for the crew, and may begin: a list.
cdef Request* engine_take(Engine* e, Crew* c, int64_t most) noexcept nogil
# Ends a request that was taken, and that the crew has done: `whole` says how. Its job may be given back, and be used
# again.
cdef void engine_finish(Engine* e, Crew* c, Request* r) noexcept nogil
# Leaves a request that was taken, of which nothing is being done, to the pool.
cdef void engine_pass(Engine* e, Request* r) noexcept nogil
# Sees to it that threads come for what waits for a crew.
cdef void engine_urge(Engine* e, Crew* c) noexcept nogil
# Leaves to the pool what waits for rings now, or would later; `error`: the errno that says why.
cdef void engine_refuse(Engine* e, int error) noexcept nogil
