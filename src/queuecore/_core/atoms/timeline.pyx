"""Timelines: what each thread of a stream did and when."""
cimport cython
from libc.stdint cimport int32_t, int64_t, uint32_t, uintptr_t
from queuecore._core.atoms.memory cimport free, malloc
from queuecore._core.atoms.platform cimport (
    alloc_lines, cpu_ticks, kAcqRel, kAcquire, kRelaxed, kRelease, layout_hash, monotonic_ns, size_product)
from queuecore._core.atoms.process cimport check_layout

check_layout(layout_hash())


cdef extern from "queuecore/syscalls.hpp" namespace "queuecore" nogil:
    int64_t real_clock() noexcept


cdef void _clocks(int64_t (*clock)() noexcept nogil, int64_t* ticks, int64_t* ns) noexcept nogil:
    # Reads the processor's clock and another one at the same time: again, if the thread was stopped between them.
    cdef int64_t begin, moment, between, least = -1
    cdef int _i
    for _i in range(4):
        begin = cpu_ticks()
        moment = clock()
        between = cpu_ticks() - begin
        if least < 0 or between < least:
            least = between
            ticks[0] = begin + between // 2
            ns[0] = moment


cdef int64_t _import_ticks, _import_ns
_clocks(real_clock, &_import_ticks, &_import_ns)

# How the timelines that live now read the processor's clock: all alike, since streams that follow one another share
# rows, and on a busy machine two readings of both clocks differ by over a millisecond.
cdef int64_t _alive = 0, _began_ticks, _began_ns
cdef double _rate


cdef double tick_ns() noexcept nogil:
    cdef int64_t ticks = 0, ns = 0
    _clocks(real_clock, &ticks, &ns)
    return <double>(ns - _import_ns) / <double>max(ticks - _import_ticks, <int64_t>1)


cdef Lines* _lines_new(int32_t count) noexcept nogil:
    cdef Lines* lines = <Lines*>alloc_lines(sizeof(Lines))
    cdef int32_t i
    if lines == NULL:
        return NULL
    lines.refs.store(1, kRelaxed)  # relaxed: nobody else knows of it yet
    lines.of = <Line*>alloc_lines(size_product(count, sizeof(Line)))
    if lines.of != NULL:
        lines.count = count
        for i in range(count):
            lines.of[i].of = lines
            lines.of[i].events = <LineEvent*>malloc(LINE_EVENTS * sizeof(LineEvent))
            if lines.of[i].events == NULL:
                lines_drop(lines)
                return NULL
        return lines
    lines_drop(lines)
    return NULL


cdef void lines_hold(Lines* lines) noexcept nogil:
    lines.refs.fetch_add(1, kRelaxed)  # relaxed: the caller has a reference


cdef void lines_drop(Lines* lines) noexcept nogil:
    cdef int32_t i
    # acq_rel: pairs with itself; the last holder sees what all others did
    if lines == NULL or lines.refs.fetch_sub(1, kAcqRel) != 1:
        return
    for i in range(lines.count):
        free(lines.of[i].events)
    free(lines.of)
    free(lines)


@cython.final
cdef class Timeline:
    """Events of a stream: its consumer (thread 0), its workers, and its transfer thread (the last one).

    Parameters
    ----------
    threads : int
        The number of workers.
    push, pop : int, default 0
        The addresses of NVTX's functions `nvtxRangePushA` and `nvtxRangePop`: each thread has a range for what it does.
    """

    def __cinit__(self, int32_t threads, uintptr_t push=0, uintptr_t pop=0):
        global _alive, _rate
        self.lines = _lines_new(threads + 2)
        if self.lines == NULL:
            raise MemoryError
        self.lines.push = <int (*)(const char*) noexcept nogil>push
        self.lines.pop = <int (*)() noexcept nogil>pop
        if _alive == 0:
            _clocks(monotonic_ns, &_began_ticks, &_began_ns)
            _rate = tick_ns()
        _alive += 1
        self.began_ticks, self.began_ns, self.rate = _began_ticks, _began_ns, _rate

    def __dealloc__(self):
        global _alive
        if self.rate != 0:  # otherwise it was not made
            _alive -= 1
        lines_drop(self.lines)

    @property
    def threads(self):
        """Number of all threads."""
        return self.lines.count

    @property
    def dropped(self):
        """Number of events that have found no room."""
        cdef int32_t i
        return sum([self.lines.of[i].dropped.load(kRelaxed) for i in range(self.lines.count)])  # relaxed: a statistic

    def take(self):
        """Return the events so far, and forget them.

        Returns
        -------
        list of tuple of int
            Thread; kind; begin and end, in ns of the monotonic clock; then as in `LineEvent`: run, file, place, pass,
            batch, size.
        """
        cdef list events = []
        cdef uint32_t position, end
        cdef Line* line
        cdef LineEvent e
        cdef int32_t i
        for i in range(self.lines.count):
            line = &self.lines.of[i]
            position = line.taken.load(kRelaxed)  # relaxed: the taker's own
            end = line.put.load(kAcquire)   # N4 acquire: pairs with N1
            while position != end:
                e = line.events[position % LINE_EVENTS]
                position += 1
                line.taken.store(position, kRelease)  # N3 release: pairs with N2; the event has been read
                events.append((
                    i, e.kind, self._ns(e.begin), self._ns(e.end), e.run, e.file, e.at, e.pass_, e.batch, e.size))
        return events

    cdef int64_t _ns(self, int64_t ticks) noexcept:
        return self.began_ns + <int64_t>(<double>(ticks - self.began_ticks) * self.rate)
