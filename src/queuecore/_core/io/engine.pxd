# The request engine: reads that the page cache can't answer at once are done by threads of its own, as many at a time
# as the storage is good for, while the workers go on with other units.
#
# A job is what one unit waits for: some requests. Whoever fills a job in hands it over (engine_submit), and gets it
# back when all its requests are done: `done` is called with it, once, by one of the engine's threads. Until then the
# job, and the memory that its requests read into, are the engine's.
#   E1  At most `depth` requests are being done at any time. `depth` follows what is measured: it doubles as long as
#       that brings more bytes, and halves, now and then, if that brings as many: requests that only wait make others
#       late.
#   E2  Requests begin in the order in which they were handed over.
#   E3  A request that failed says so, and nothing else: who wants its bytes reads them again, and gets the fault.
# engine_submit: any thread. engine_step: the engine's threads; system calls. Neither may be called with a turn held.
from libc.stdint cimport int32_t, int64_t
from queuecore._core.atoms.platform cimport EventCount, Turn
from queuecore._core.io.sources cimport FileTable

cdef enum:
    # What is being tried with the depth:
    TRY_NOTHING = 0
    TRY_MORE = 1
    TRY_LESS = 2

cdef enum:
    DEPTH_FIRST = 8
    DEPTH_LEAST = 4
    DEPTH_MOST = 64          # threads of an engine
    REQUEST_BYTES = 1 << 20  # most bytes of a request for records that lie one after the other

cdef struct Job

# Bytes of a file: a number of whole records, one after the other.
cdef struct Request:
    Request* next
    Job* job
    bint whole               # all its bytes are there
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
    struct Engine {
      Turn turn;
      EventCount* work;          // the engine's threads park here
      struct FileTable* table;
      void (*run)(void* owner);                // does the work of a job without requests
      void (*done)(void* owner);               // takes a job back
      int32_t (*more)(void* context, int32_t first, int32_t count);  // starts threads; returns how many
      void* context;
      // Under the turn:
      void* first;               // requests that wait
      void* last;
      int64_t waiting, running;  // requests
      int64_t bytes;             // of the requests that wait or are being done
      int64_t depth, depth_most;
      int32_t threads;           // that were started, or will be at once
      bool begun, alone;         // its threads were started; alone: there are none
      bool fixed;                // `depth` is not changed
      // What is measured, since `since`:
      int64_t since, got, count;
      bool starved;              // there were fewer requests than could be done at a time
      double best;               // bytes in a ns, at the depth before the one that is being tried
      int32_t trying, then;      // TRY_*, now and after a rest
      int32_t hold;              // measurements until then
      // Since the start: statistics
      int64_t requests;
    };
    }  // namespace queuecore
    """
    cppclass Engine "queuecore::Engine":
        Turn turn
        EventCount* work
        FileTable* table
        void (*run)(void* owner) noexcept nogil
        void (*done)(void* owner) noexcept nogil
        int32_t (*more)(void* context, int32_t first, int32_t count) noexcept nogil
        void* context
        void* first
        void* last
        int64_t waiting, running
        int64_t bytes
        int64_t depth, depth_most
        int32_t threads
        bint begun, alone
        bint fixed
        int64_t since, got, count
        bint starved
        double best
        int32_t trying, then
        int32_t hold
        int64_t requests

# What an engine does with jobs and with threads: the fields of Engine by these names.
cdef struct EngineOwner:
    void (*run)(void* owner) noexcept nogil
    void (*done)(void* owner) noexcept nogil
    int32_t (*more)(void* context, int32_t first, int32_t count) noexcept nogil
    void* context

# Makes room for so many requests and bytes. Returns the bytes of memory that the job has more than before; -1: no
# memory.
cdef int64_t job_room(Job* job, int64_t requests, int64_t nbytes) noexcept nogil
cdef void job_clear(Job* job) noexcept nogil
# Returns the request that has record `ordinal` of this pass, if its bytes are there; NULL otherwise. Records are asked
# for in the order of the job's requests.
cdef const Request* job_find(Job* job, int64_t pass_, int64_t ordinal) noexcept nogil
# `depth`: requests at a time; 0: as many as are measured to be good; `most`: in any case no more, since each may open a
# file.
cdef void engine_init(Engine* e, FileTable* table, EventCount* work, int64_t depth, int64_t most,
                      const EngineOwner* owner) noexcept nogil
# Hands a job over. One without requests is run as a whole. The first call starts the threads. False: there are none,
# and the job stays the caller's.
cdef bint engine_submit(Engine* e, Job* job) noexcept nogil
# Returns whether as much as is good waits already.
cdef bint engine_full(Engine* e) noexcept nogil
# Sets how many requests were done, and how many may be done at a time; 0 of an engine that hasn't begun, or is NULL.
cdef void engine_counts(Engine* e, int64_t* requests, int64_t* depth) noexcept nogil
# Takes a measurement, in bytes a ns, of the depth that is being tried, and sets the next depth. Under the turn, as is
# `engine_begin`, which sets the numbers that this begins with.
cdef void engine_judge(Engine* e, double rate) noexcept nogil
cdef void engine_begin(Engine* e, int64_t depth, int64_t most) noexcept nogil
# Does a request. Returns STEP_WORKED or STEP_IDLE.
cdef int engine_step(Engine* e) noexcept nogil
