"""Meters: what the threads of a run do with their time."""
cimport cython
from libc.stdint cimport int32_t, int64_t
from libc.string cimport memcpy
from queuecore._core.atoms.memory cimport calloc, free, malloc
from queuecore._core.atoms.platform cimport cpu_ticks, kRelaxed, layout_hash, size_product
from queuecore._core.atoms.process cimport check_layout
from queuecore._core.atoms.timeline cimport tick_ns
from queuecore._core.atoms.times cimport spans_now
from queuecore._core.steps.stages cimport TIMED, StepTimes, times_add
from queuecore._core.stream.marks cimport numbers

check_layout(layout_hash())


cdef void _read(const Meter* m, double ns, int64_t* into) noexcept nogil:
    # Adds the meter's numbers to METER_NUMBERS of them: the times in ns, of which a tick has so many; then the units. A
    # wait that is not over counts up to now.
    cdef int32_t i
    for i in range(AT_COUNT):
        into[i] += <int64_t>(<double>spans_now(&m.ticks[i], cpu_ticks) * ns)
    for i in range(AT_PLAN):
        into[AT_COUNT + i] += m.units[i].load(kRelaxed)


cdef void _add_steps(StepTimes* to, StepTimes* t) noexcept nogil:
    # relaxed, all of it: statistics
    cdef int i
    to.all.fetch_add(t.all.load(kRelaxed), kRelaxed)
    for i in range(TIMED):
        if t.params[i].load(kRelaxed) != 0:
            times_add(to, t.params[i].load(kRelaxed), t.ticks[i].load(kRelaxed), t.calls[i].load(kRelaxed))


@cython.final
cdef class Times:
    """The times of a stream's threads and consumers. They outlive the stream.

    Attributes
    ----------
    over : bool
        True if the stream is closed.
    """

    def __dealloc__(self):
        free(self.ended)
        free(self.steps_ended)

    cdef int make(self, int32_t threads) except -1:
        self.meters = threads + 1
        self.ended = <int64_t*>calloc(size_product(self.meters, METER_NUMBERS), sizeof(int64_t))
        self.steps_ended = <StepTimes*>calloc(1, sizeof(StepTimes))
        if self.ended == NULL or self.steps_ended == NULL:
            raise MemoryError
        return 0

    cdef void begin(self, Meter* live, StepTimes* steps, const Atomic[int64_t]* read) noexcept nogil:
        self.read = read
        self.before = read.load(kRelaxed)  # relaxed: a statistic, here and below
        self.live = live
        self.steps_live = steps

    cdef void end(self) noexcept nogil:
        self._add_live(self.ended, &self.nbytes)
        self.live = NULL
        if self.steps_live != NULL:
            _add_steps(self.steps_ended, self.steps_live)
            self.steps_live = NULL

    cdef void _add_live(self, int64_t* into, int64_t* nbytes) noexcept nogil:
        cdef double ns
        cdef int32_t i
        if self.live == NULL:
            return
        ns = tick_ns()
        nbytes[0] += self.read.load(kRelaxed) - self.before
        for i in range(self.meters):
            _read(&self.live[i], ns, into + i * METER_NUMBERS)

    def steps(self):
        """Times of the steps that make rows, in a sample of units.

        Returns
        -------
        dict
            From a step, as of `Step.parts`: its ticks of the processor's clock, and the number of its calls.
        int
            The ticks of all these units, in which rows are found and put in their places too.
        """
        cdef StepTimes* sum = <StepTimes*>calloc(1, sizeof(StepTimes))
        cdef int i
        if sum == NULL:
            raise MemoryError
        try:
            if self.steps_ended != NULL:  # it is made
                _add_steps(sum, self.steps_ended)
            if self.steps_live != NULL:
                _add_steps(sum, self.steps_live)
            return {
                sum.params[i].load(kRelaxed): (sum.ticks[i].load(kRelaxed), sum.calls[i].load(kRelaxed))
                for i in range(TIMED) if sum.params[i].load(kRelaxed) != 0}, sum.all.load(kRelaxed)
        finally:
            free(sum)

    def numbers(self):
        """Times by `AT_*`, and how many batches were ready when one was taken.

        Returns
        -------
        list of list of int
            For the consumers, and for each worker: ns of each of the `AT_COUNT`, then the number of units of each kind.
        list of int
            How often so many batches were ready behind one that was taken (one of 8 counts): 0, 1, 2, up to 4, up to 8,
            more.
        int, int
            Records delivered, and bytes read.
        """
        cdef int64_t n = <int64_t>self.meters * METER_NUMBERS
        cdef int64_t i, records = self.records, nbytes = self.nbytes
        cdef int64_t* counts = <int64_t*>malloc(size_product(n + DEPTHS, sizeof(int64_t)))
        if counts == NULL:
            raise MemoryError
        # Making objects may let other calls in, which change the numbers.
        memcpy(counts, self.ended, n * sizeof(int64_t))
        memcpy(counts + n, self.ready, sizeof(self.ready))
        self._add_live(counts, &nbytes)
        try:
            meters = [numbers(counts + i, METER_NUMBERS) for i in range(0, n, METER_NUMBERS)]
            return meters, numbers(counts + n, DEPTHS), records, nbytes
        finally:
            free(counts)
