# Meters: what the threads of a run do with their time.
#
# Each thread that works for a pipe has a meter of its own, and so have the consumers, of which one at a time works for
# it. A thread writes to its own meter alone, without a locked instruction; any thread may read them all. Times are in
# ticks of the processor's own clock, which takes one instruction, twice for a unit of work.
from libc.stdint cimport int32_t, int64_t
from queuecore._core.atoms.platform cimport Atomic, kRelaxed
from queuecore._core.atoms.timeline cimport LinePtr
from queuecore._core.steps.stages cimport StepTimes

cdef enum:
    # What a thread is at. The kinds of units (pipe.pxd) come first, with their numbers.
    AT_PLAN = 5       # waits for the turn, or plans units
    # waits for rows that are handed in, or for bytes that another thread reads; a consumer: for a batch
    AT_INPUT = 6
    AT_OUTPUT = 7     # waits for room for another batch
    AT_COUNT = 8
    METER_NUMBERS = 13
    SAMPLED = 8       # one of so many batches that are taken counts those that are ready
    DEPTHS = 6
    SAMPLED_UNITS = 16  # one of so many units of a worker is timed step by step

cdef extern from *:
    """
    namespace queuecore {
    struct alignas(kLine) Meter {
      Atomic<int64_t> ticks[8];          // by what the thread is at; those of waits as of spans_now
      alignas(kLine) Atomic<int64_t> units[5];
      int64_t since;                     // the thread's own: end of what was counted last, 0: nothing was
      int32_t at;                        // and what it is at since then
      Atomic<Line*> line;                // where the thread notes what it does; NULL: nowhere
    };
    }  // namespace queuecore
    """
    cppclass Meter "queuecore::Meter":
        Atomic[int64_t] ticks[8]
        Atomic[int64_t] units[5]
        int64_t since
        int32_t at
        Atomic[LinePtr] line


# relaxed, here and below: only the meter's own thread writes; a reader needs no other memory by it
cdef inline void meter_add(Meter* m, int32_t at, int64_t ticks) noexcept nogil:
    m.ticks[at].store(m.ticks[at].load(kRelaxed) + ticks, kRelaxed)


cdef inline void meter_unit(Meter* m, int32_t kind, int64_t ticks) noexcept nogil:
    meter_add(m, kind, ticks)
    m.units[kind].store(m.units[kind].load(kRelaxed) + 1, kRelaxed)


cdef inline void meter_until(Meter* m, int64_t now) noexcept nogil:
    # Ends what the thread has been at.
    meter_add(m, m.at, now if m.at >= AT_INPUT else now - m.since)


cdef inline void meter_since(Meter* m, int32_t at, int64_t now) noexcept nogil:
    # Begins what the thread is at from now on.
    m.at, m.since = at, now
    if at >= AT_INPUT:
        meter_add(m, at, -now)


# Times: of all pipes of a stream. They outlive it. Under the GIL.
cdef class Times:
    cdef readonly bint over         # the stream is closed
    cdef Meter* live                # of the pipe that runs, or NULL
    cdef StepTimes* steps_live      # of that pipe, or NULL
    cdef StepTimes* steps_ended     # the sums of earlier pipes
    cdef const Atomic[int64_t]* read  # counts the bytes that its table has read,
    cdef int64_t before             # of which so many before it
    cdef int32_t meters             # the consumers' and those of the threads
    cdef int64_t* ended             # METER_NUMBERS of each meter of earlier pipes
    cdef int64_t records            # delivered
    cdef int64_t nbytes             # read by earlier pipes
    # of a sample: how often no further batch was ready when one was taken, or 1, 2, up to 4, up to 8, more
    cdef int64_t ready[DEPTHS]

    cdef int make(self, int32_t threads) except -1
    cdef void begin(self, Meter* live, StepTimes* steps, const Atomic[int64_t]* read) noexcept nogil
    cdef void end(self) noexcept nogil
    cdef void _add_live(self, int64_t* into, int64_t* nbytes) noexcept nogil
