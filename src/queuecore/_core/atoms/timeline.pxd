# Timelines: what each thread of a stream did and when. Each thread has a ring of events, which whoever draws the
# timeline empties.
#
# line_next, line_put: one thread at a time in each ring; wait-free. In a full ring the event is dropped, and counted.
# Timeline.take: under the GIL.
#   I1  The events between `taken` and `put` are whole: the writer moves `put` behind an event that it has written, and
#       writes no event before `taken` has passed the one that was there.
#   I2  Lines live as long as anybody holds a reference: the pipes, for their threads, and the timeline.
from libc.stdint cimport int32_t, int64_t, uint32_t
from queuecore._core.atoms.platform cimport Atomic, kAcquire, kRelaxed, kRelease

cdef enum:
    LINE_EVENTS = 4096   # room of a ring, a power of two

    # Kinds of events. The kinds of units (stream/pipe.pxd) and of waits (stream/meter.pxd) come first, with their
    # numbers.
    LINE_PART = 8        # the unit that follows makes rows of this batch of records of this block
    LINE_TAKEN = 9       # the consumer took a batch
    LINE_COPY = 10       # a batch was copied to the device

cdef extern from *:
    """
    namespace queuecore {
    struct LineEvent {
      int64_t begin, end;  // ticks of the processor's clock
      int32_t kind;
      int32_t run;         // number of the stream's pipe
      int64_t file;        // -1: none
      int64_t at;          // offset of a block in its file; of a batch that is taken: how many more were ready
      int64_t pass_;       // of the file
      int64_t batch;       // its number in its pipe; -1: none
      int64_t size;        // bytes that were read or copied, or rows
    };
    // Events written and room taken back are on lines of their own.
    struct Line {
      alignas(kLine) Atomic<uint32_t> put;
      Atomic<int64_t> dropped;
      alignas(kLine) Atomic<uint32_t> taken;
      LineEvent* events;
      const struct Lines* of;
    };
    struct Lines {
      Atomic<int32_t> refs;
      int32_t count;
      Line* of;
      // NVTX's nvtxRangePushA and nvtxRangePop, or NULL: set before others know of the lines
      int (*push)(const char*);
      int (*pop)();
    };
    }  // namespace queuecore
    """
    cppclass LineEvent "queuecore::LineEvent":
        int64_t begin, end
        int32_t kind, run
        int64_t file, at, pass_, batch, size
    cppclass Line "queuecore::Line":
        Atomic[uint32_t] put
        Atomic[int64_t] dropped
        Atomic[uint32_t] taken
        LineEvent* events
        const Lines* of
    cppclass Lines "queuecore::Lines":
        Atomic[int32_t] refs
        int32_t count
        Line* of
        int (*push)(const char*) noexcept nogil
        int (*pop)() noexcept nogil

ctypedef Line* LinePtr


# Returns how many ns a tick of the processor's clock takes, as measured since the process began, by the clock that no
# test puts ahead: the processor's own doesn't jump, and a tick would seem to take longer.
cdef double tick_ns() noexcept nogil


cdef inline LineEvent* line_next(Line* line, int32_t kind, int32_t run, int64_t begin, int64_t end) noexcept nogil:
    # Returns the next event, of no file and no batch, to fill in before line_put. NULL: there is no room.
    cdef uint32_t position = line.put.load(kRelaxed)  # relaxed: the caller's own
    cdef LineEvent* e
    # N2 acquire: pairs with N3; the taker has read the event that was there
    if position - line.taken.load(kAcquire) >= LINE_EVENTS:
        # relaxed: a statistic that only the writer changes
        line.dropped.store(line.dropped.load(kRelaxed) + 1, kRelaxed)
        return NULL
    e = &line.events[position % LINE_EVENTS]
    e.begin, e.end, e.kind, e.run = begin, end, kind, run
    e.file = e.batch = -1
    e.at = e.pass_ = e.size = 0
    return e


cdef inline void line_put(Line* line) noexcept nogil:
    line.put.store(line.put.load(kRelaxed) + 1, kRelease)  # N1 release: pairs with N4; publishes the event


cdef inline void line_wait(Line* line, int32_t kind, int32_t run, int64_t begin, int64_t end) noexcept nogil:
    if line_next(line, kind, run, begin, end) != NULL:
        line_put(line)


cdef inline void line_enter(const Line* line, const char* what) noexcept nogil:
    # Begins a range of this thread's for NVTX, if there is that.
    if line.of.push != NULL:
        line.of.push(what)


cdef inline void line_leave(const Line* line) noexcept nogil:
    if line.of.pop != NULL:
        line.of.pop()


cdef void lines_hold(Lines* lines) noexcept nogil
cdef void lines_drop(Lines* lines) noexcept nogil


cdef class Timeline:
    cdef Lines* lines
    cdef int64_t began_ticks, began_ns
    cdef double rate           # ns in a tick. The same for all events: events of one moment are at one place

    cdef int64_t _ns(self, int64_t ticks) noexcept
