"""Stage programs: a reader's records through steps into a queue: native ones without the GIL, Python's with it."""
cimport cython
from cpython.pythread cimport PyThread_get_thread_ident
from cpython.sequence cimport PySequence_Fast_ITEMS
from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t
from libc.string cimport memcpy, memset
from queuecore._core.atoms.errors cimport CODE_EXHAUSTED, CODE_INVALID_ARGUMENT, is_own, new_error, shown_name
from queuecore._core.atoms.memory cimport calloc, free
from queuecore._core.atoms.process cimport check_layout
from queuecore._core.handoff.handoff cimport HAND_DONE, HAND_NO_MEMORY, HAND_SLICE
from queuecore._core.atoms.platform cimport Atomic, Fault, kRelaxed, layout_hash, monotonic_ns
from queuecore._core.handoff.queues cimport NativeQueue
from queuecore._core.io.framing cimport framing_reads
from queuecore._core.io.readers cimport (
    READER_AGAIN, READER_DAMAGED, READER_DRY, READER_FAULT, READER_RECORD, READER_WORK, NativeReader, Reader, Record,
    block_bytes, reader_enter, reader_leave, reader_next, reader_open, record_check, record_drop, record_key,
    record_key_room)
from queuecore._core.atoms.runtime cimport StopEvent, exiting, main_over, still_waiting, wait_out_exit, waited
from queuecore._core.atoms.times cimport ON_INPUT, ThreadTimes, WorkTimes, begin_wait, end_wait
from queuecore._core.steps.stages cimport (
    Arena, Cell, PythonStep, RowCell, RowLoop, RowsFn, Span, StageFn, Step, arena_free, arena_reset,
    arena_take, cell_from, cell_of_row, cell_value, values_of)

from queuecore._core.io.csv import placed_text
from queuecore._core.steps.stages import SequenceStep

check_layout(layout_hash())

cdef enum:
    SLICE_NS = 50000000  # a stop is noticed within this time
    # elements put together, if their records are there already: a waiting consumer is then woken once
    HELD_MOST = 16
    RUN_BYTES = 2048     # of records that go through the steps together; longer ones are made in their slots

# Reasons for the end of a thread's loop.
cdef enum:
    RUN_ON = 0
    # stopped; or a slice of a wait is over and the main thread has ended: `stop` says which. The loop can resume
    RUN_STOPPED = 1
    # the next work unit must be asked for in Python, or understood there; the thread has the reader's role
    RUN_NAME = 2
    RUN_NAMES = 3     # the queue of names gives none: `rc` says why
    RUN_NO_NAME = 4   # its element is no string
    RUN_OPEN = 5
    RUN_READ = 6
    RUN_CHECK = 7     # a record is damaged, and the file goes on
    RUN_STEP = 8      # step `at`
    RUN_MISFIT = 9
    RUN_PUT = 10      # the queue takes none: `rc` says why
    RUN_MEMORY = 11
    RUN_PYTHON = 12   # the next step, `at`, is in Python

cdef struct Bound:
    StageFn run          # NULL: a step in Python
    const void* params
    int32_t made

# The run of one thread.
cdef struct ProgramRun:
    Reader* reader
    const Bound* steps
    int32_t step_count
    const int32_t* order     # which output goes to each component of the queue
    const int32_t* placed    # per output: the component in whose place it may be made; -1: none
    int32_t parts
    bint asks                # names come from Python
    Cell* cells              # cell of the value; of the key; then cells for what steps make, twice
    int32_t most             # the largest number of outputs of one step
    Arena arena
    Record record
    Fault fault
    bint entered
    bint waits               # it waits for the reader's role
    bint inside              # the record is on its way through the steps
    bint loose               # the last step's outputs are not known beforehand; Python fills the slot with them
    bint filled              # Python has filled the slot
    bint has_slot
    uint32_t slot
    uint32_t[HELD_MOST] held   # filled, and not put yet
    int held_count, held_most
    Cell* given              # of step `at`
    int32_t at, rc
    # Records that go through the steps together: [run_at, run_count) are still to be made.
    RowsFn run_rows          # of all steps; NULL: one record at a time
    const void* rows_params
    const RowCell* shapes    # of what they make
    int32_t made             # how many components that are
    Record[HELD_MOST] records
    int run_at, run_count
    bint singly              # one of them is refused: they go one by one
    int behind               # READER_FAULT or READER_DAMAGED came behind them; READER_RECORD: neither
    Record behind_record
    Fault behind_fault
    int ended, ended_rc      # why the loop ended, if elements before that must still be put
    Atomic[int64_t]* delivered  # the thread's own counter
    unsigned char* name      # in the arena
    int64_t name_bytes


cdef int _next_unit(ProgramRun* run, NativeQueue names, StopEvent stop) noexcept nogil:
    cdef uint32_t slot = 0
    cdef const unsigned char* data = NULL
    cdef int64_t nbytes = 0
    cdef bint opened
    if run.asks:
        return RUN_NAME
    run.rc = names.slot_get(&slot, stop)
    if run.rc != HAND_DONE:
        return RUN_STOPPED if run.rc == HAND_SLICE else RUN_NAMES
    if not names.slot_string(slot, &data, &nbytes):
        names.slot_give(slot)
        return RUN_NO_NAME
    if framing_reads(run.reader.framing) and _is_special(data, nbytes):
        _keep_name(run, data, nbytes)
        names.slot_give(slot)
        return RUN_NAME
    opened = reader_open(run.reader, data, nbytes, &run.fault)
    if not opened:
        _keep_name(run, data, nbytes)
    names.slot_give(slot)
    return RUN_ON if opened else RUN_OPEN


cdef bint _is_special(const unsigned char* data, int64_t nbytes) noexcept nogil:
    # Whether a name may mean another path: it begins with "~", or may have a scheme.
    cdef int64_t i
    if nbytes > 0 and data[0] == c"~":
        return True
    for i in range(nbytes - 1):
        if data[i] == c"/":
            return False
        if data[i] == c":" and data[i + 1] == c"/":
            return True
    return False


cdef void _keep_name(ProgramRun* run, const unsigned char* data, int64_t nbytes) noexcept nogil:
    # Keeps the name of a unit that can't be opened here; no record is on its way then.
    arena_reset(&run.arena)
    run.name = <unsigned char*>arena_take(&run.arena, nbytes + 1)
    run.name_bytes = 0
    if run.name != NULL:
        memcpy(run.name, data, nbytes)
        run.name_bytes = nbytes


cdef bytes _kept_name(ProgramRun* run):
    return (<const char*>run.name)[:run.name_bytes]


cdef int _begin(ProgramRun* run, NativeQueue queue) noexcept nogil:
    # Makes the record's components, which the first step gets.
    cdef Cell* inputs = run.cells
    cdef Record* record = &run.record
    arena_reset(&run.arena)
    run.arena.element = record.sequence
    run.at = 0
    run.filled = False
    if not run.has_slot and not run.loose:
        if not queue.slot_take(&run.slot):
            return RUN_MEMORY
        run.has_slot = True
    memset(inputs, 0, 2 * sizeof(Cell))
    inputs[1].data = record.data
    inputs[1].nbytes = record.nbytes
    if run.step_count == 0:
        inputs[0].data = <unsigned char*>arena_take(&run.arena, record_key_room(record))
        if inputs[0].data == NULL:
            return RUN_MEMORY
        inputs[0].nbytes = record_key(record, inputs[0].data)
    else:
        inputs += 1
    run.given = inputs
    return RUN_ON


cdef inline Cell* _cells_of(ProgramRun* run, int32_t step) noexcept nogil:
    # Returns the cells that a step fills, which are not those that it reads.
    return run.cells + 2 + (step & 1) * run.most


cdef int _advance(ProgramRun* run, NativeQueue queue, StopEvent stop) noexcept nogil:
    # Takes the record through the steps from `at` on, up to a step in Python, or into the queue.
    cdef Cell* outputs
    cdef int32_t i, k
    while run.at < run.step_count:
        i = run.at
        if run.steps[i].run == NULL:
            return RUN_PYTHON
        outputs = _cells_of(run, i)
        for k in range(run.steps[i].made):
            outputs[k].data = NULL
            outputs[k].offsets = NULL
            outputs[k].ndim = 0
            if i == run.step_count - 1 and run.placed[k] >= 0:
                outputs[k].data = queue.slot_place(run.slot, run.placed[k], &outputs[k].nbytes)
        if run.steps[i].run(run.steps[i].params, run.given, outputs, &run.arena, &run.fault) != 0:
            return RUN_STEP
        run.given = outputs
        run.at += 1
    if not run.filled:
        for i in range(run.parts):
            if not queue.slot_fill(run.slot, i, &run.given[run.order[i]], &run.fault):
                return RUN_MISFIT
    run.held[run.held_count] = run.slot
    run.held_count += 1
    run.has_slot = False
    return RUN_ON


cdef void _gather(ProgramRun* run) noexcept nogil:
    # Takes records that are there already, behind the one at hand, to be made together. With the reader's role.
    cdef int64_t nbytes = run.record.nbytes
    cdef Record* record
    cdef int rc
    run.records[0] = run.record
    memset(&run.record, 0, sizeof(Record))
    run.run_at = 0
    run.run_count = 1
    while run.run_count < run.held_most - run.held_count and nbytes < RUN_BYTES:
        record = &run.records[run.run_count]
        rc = reader_next(run.reader, record, &run.behind_fault, True)
        if rc == READER_RECORD:
            nbytes += record.nbytes
            run.run_count += 1
            continue
        if rc == READER_FAULT or rc == READER_DAMAGED:
            run.behind = rc
            run.behind_record = record[0]
        memset(record, 0, sizeof(Record))
        return


cdef bint _together(ProgramRun* run, NativeQueue queue) noexcept nogil:
    # Makes the records that are left of the run at once. False: one of those that are left then is refused, or there is
    # no memory.
    cdef int64_t n = run.run_count - run.run_at, i
    cdef Cell* outputs = run.cells + 2
    cdef Cell cell
    cdef Span* spans
    cdef int32_t part
    arena_reset(&run.arena)
    spans = <Span*>arena_take(&run.arena, n * sizeof(Span))
    if spans == NULL:
        return False
    for i in range(n):
        if not record_check(&run.records[run.run_at + i], &run.fault):
            return False
        spans[i].data = run.records[run.run_at + i].data
        spans[i].nbytes = run.records[run.run_at + i].nbytes
    memset(run.cells, 0, (2 + run.made) * sizeof(Cell))
    run.cells[0].offsets = <const int64_t*>spans
    if run.run_rows(run.rows_params, run.cells, outputs, n, &run.arena, &run.fault) != 0:
        return False
    for i in range(n):
        if not run.has_slot and not queue.slot_take(&run.slot):
            return False
        run.has_slot = True
        for part in range(run.parts):
            cell_of_row(&run.shapes[run.order[part]], &outputs[run.order[part]], i, &cell)
            if not queue.slot_fill(run.slot, part, &cell, &run.fault):
                return False
        run.held[run.held_count] = run.slot
        run.held_count += 1
        run.has_slot = False
        record_drop(run.reader, &run.records[run.run_at])
        run.run_at += 1
    return True


cdef int _next_of_run(ProgramRun* run, NativeQueue queue) noexcept nogil:
    # Makes the run's records, or begins with the next one, or says what came behind them.
    cdef int rc = run.behind
    if run.run_at == run.run_count:
        run.record = run.behind_record
        run.fault = run.behind_fault
        run.behind = READER_RECORD
        memset(&run.behind_record, 0, sizeof(Record))
        return RUN_READ if rc == READER_FAULT else RUN_CHECK
    if not run.singly and run.run_count - run.run_at > 1:
        if _together(run, queue):
            return RUN_ON
        run.singly = True
    run.record = run.records[run.run_at]
    memset(&run.records[run.run_at], 0, sizeof(Record))
    run.run_at += 1
    run.singly = run.singly and run.run_at < run.run_count
    if not record_check(&run.record, &run.fault):
        return RUN_CHECK
    rc = _begin(run, queue)
    run.inside = True
    return rc


cdef int _put(ProgramRun* run, NativeQueue queue, StopEvent stop) noexcept nogil:
    cdef int done, i
    if run.held_count == 0:
        return RUN_ON
    run.rc = queue.slots_put(run.held, run.held_count, stop, &done)
    # relaxed: a statistic that only this thread writes
    run.delivered.store(run.delivered.load(kRelaxed) + done, kRelaxed)
    run.held_count -= done
    for i in range(run.held_count):
        run.held[i] = run.held[i + done]
    if run.rc == HAND_DONE:
        return RUN_ON
    return RUN_STOPPED if run.rc == HAND_SLICE else RUN_PUT


cdef int _run(ProgramRun* run, NativeQueue queue, NativeQueue names, StopEvent stop) noexcept nogil:
    # The cause of the end is reported after the elements before it are put. An error is reported even if nobody takes
    # these elements.
    cdef int rc = run.ended
    cdef int put
    if rc == RUN_ON:
        rc = _work(run, queue, names, stop)
        if rc == RUN_STOPPED or rc == RUN_PUT:
            return rc
        run.ended = rc
        run.ended_rc = run.rc
    put = _put(run, queue, stop)
    if put == RUN_STOPPED and stop.stopped_ns() == 0 and not exiting():
        return put
    run.ended = RUN_ON
    if put == RUN_ON or rc in (RUN_NO_NAME, RUN_OPEN, RUN_READ, RUN_CHECK, RUN_STEP, RUN_MISFIT, RUN_MEMORY):
        run.rc = run.ended_rc
        return rc
    return put


cdef int _work(ProgramRun* run, NativeQueue queue, NativeQueue names, StopEvent stop) noexcept nogil:
    cdef int rc
    while True:
        if run.inside:
            rc = _advance(run, queue, stop)
            if rc != RUN_ON:
                return rc
            record_drop(run.reader, &run.record)
            run.inside = False
        if run.held_count >= run.held_most:
            rc = _put(run, queue, stop)
            if rc != RUN_ON:
                return rc
        if run.run_at < run.run_count or run.behind != READER_RECORD:
            rc = _next_of_run(run, queue)
            if rc != RUN_ON:
                return rc
            continue
        if stop.stopped_ns() != 0 or exiting():
            _put(run, queue, stop)  # finished elements go in, if there is room
            return RUN_STOPPED
        if not run.entered:
            # The role's holder may keep it while it waits for a name: no other thread's elements wait for that.
            run.entered = reader_enter(run.reader, monotonic_ns() + (0 if run.held_count > 0 else SLICE_NS))
            if not run.entered:
                rc = _put(run, queue, stop)
                if rc != RUN_ON:
                    return rc
                if main_over():
                    run.waits = True
                    return RUN_STOPPED
                continue
            if run.waits:
                run.waits = False
                waited()
        rc = reader_next(run.reader, &run.record, &run.fault, run.held_count > 0)
        if rc == READER_AGAIN:
            continue
        if (rc == READER_DRY or rc == READER_WORK) and run.held_count > 0:  # the next read may take long
            reader_leave(run.reader)
            run.entered = False
            rc = _put(run, queue, stop)
        elif rc == READER_WORK:
            rc = _next_unit(run, names, stop)
        else:
            if rc == READER_RECORD and run.run_rows != NULL and run.record.nbytes < RUN_BYTES:
                _gather(run)
            reader_leave(run.reader)
            run.entered = False
            if run.run_at < run.run_count:
                continue
            if rc == READER_FAULT:
                return RUN_READ
            if rc == READER_DAMAGED or not record_check(&run.record, &run.fault):
                return RUN_CHECK
            rc = _begin(run, queue)
            run.inside = True
        if rc != RUN_ON:
            return rc


@cython.final
cdef class _Counter:
    """The number of elements that one thread has put."""
    cdef Atomic[int64_t] count


@cython.final
cdef class NativeProgram:
    """A reader and steps: what :class:`queuecore.StageProgram` is made of.

    Parameters
    ----------
    reader : NativeReader
        Its records' values go through the steps.
    steps : list of Step
        One after the other. None: elements are key and value.
    """
    cdef NativeReader reader
    cdef list steps
    cdef Step whole           # all steps, if they make many records at once; or None
    cdef RowLoop rows         # how what it makes lies
    cdef Bound* bound
    cdef int32_t most
    cdef list running         # a _Counter for each thread that runs it now
    cdef int64_t delivered    # by those that have ended
    cdef readonly WorkTimes times

    def __init__(self, NativeReader reader not None, list steps not None):
        cdef Step step
        cdef int i = 0
        if self.bound != NULL:
            raise TypeError("a program can't be initialised twice")
        self.reader = reader
        self.steps = steps
        self.running = []
        self.times = WorkTimes.__new__(WorkTimes)
        self.most = 1
        self.bound = <Bound*>calloc(len(steps) + 1, sizeof(Bound))
        if self.bound == NULL:
            raise MemoryError
        for step in steps:
            if not isinstance(step, PythonStep):
                self.bound[i].run = step.run
            self.bound[i].params = step.params
            self.bound[i].made = 0 if step.outputs is None else len(step.outputs)
            self.most = max(self.most, self.bound[i].made)
            i += 1
        if steps and not any([isinstance(step, PythonStep) for step in steps]):
            self.rows = RowLoop()
            self.whole = steps[0] if len(steps) == 1 else SequenceStep(steps)
            if self.whole.run_rows == NULL or not self.rows.begin(self.whole, []):
                self.whole = None

    def __dealloc__(self):
        free(self.bound)

    @property
    def records(self):
        """Number of elements that all threads of the program together have put."""
        cdef _Counter one
        cdef int64_t total = self.delivered
        for one in self.running:
            total += one.count.load(kRelaxed)  # relaxed: a statistic
        return total

    cdef int _begin(self, ProgramRun* run, NativeQueue queue, list order, list indexes) except -1:
        # Each allocation belongs to the run at once, and is freed with it.
        cdef int32_t* places = <int32_t*>calloc(len(order) + len(indexes) + 1, sizeof(int32_t))
        cdef Py_ssize_t i
        run.reader = self.reader.r
        run.order = places
        run.cells = <Cell*>calloc(2 + 2 * self.most, sizeof(Cell))
        if places == NULL or run.cells == NULL:
            raise MemoryError
        for i in range(len(order)):
            places[i] = order[i]
        for i in range(len(indexes)):
            places[len(order) + i] = indexes[i]
        run.placed = places + len(order)
        run.parts = <int32_t>len(order)
        run.most = self.most
        run.steps = self.bound
        run.step_count = <int32_t>len(self.steps)
        run.loose = run.step_count > 0 and self.steps[run.step_count - 1].outputs is None
        # At most a small part of the queue, because readers run ahead of it by this number. Elements made in Python
        # come one by one.
        run.held_most = max(1, min(HELD_MOST, queue.hand.capacity // 16 if queue.hand.capacity >= 0 else HELD_MOST))
        for step in self.steps:
            if isinstance(step, PythonStep):
                run.held_most = 1
        if self.whole is not None:
            run.run_rows = self.whole.run_rows
            run.rows_params = self.whole.params
            run.shapes = self.rows.loop.cells + self.rows.loop.given
            run.made = self.rows.loop.made
        return 0

    def run(self, NativeQueue queue not None, StopEvent stop not None, NativeQueue names, next_name, local, list order,
            list indexes, skip=None):
        """Fill the queue until `stop` is set.

        Parameters
        ----------
        queue : NativeQueue
            The queue. Without references, unless the components of the last step are unknown; the caller has checked
            that elements fit.
        stop : StopEvent
            Ends every wait.
        names : NativeQueue or None
            Of one component of strings.
        next_name : callable or None
            If there is no such queue: returns the next work unit's name, as bytes, or raises.
        local : callable
            ``local(name)`` returns the path that a name of the queue means, or raises.
        order : list of int
            For each component of the queue, which output goes there.
        indexes : list of int
            For each output, the component in whose place it may be made, being of a fixed shape; or -1.
        skip : callable or None
            ``skip(error, file=..., nbytes=...)`` is told of each bad record and of each file that is given up (how many
            bytes of it, or None), and raises the error unless it is left out. Without it, every error is raised.

        Raises
        ------
        OutOfRangeError
            At the end of the names.
        """
        cdef ProgramRun run
        cdef int rc = RUN_ON
        cdef Py_ssize_t i
        cdef list values = []
        cdef _Counter counter = _Counter()
        cdef ThreadTimes times = None
        self.reader._refuse()
        queue._refuse()
        memset(&run, 0, sizeof(ProgramRun))
        run.asks = names is None
        run.delivered = &counter.count
        self.running.append(counter)
        try:
            times = self.times.enter()
            self._begin(&run, queue, order, indexes)
            while True:
                with nogil:
                    rc = _run(&run, queue, names, stop)
                wait_out_exit()
                if rc == RUN_STOPPED and stop.stopped_ns() == 0 and not exiting():
                    still_waiting()
                    continue
                if rc == RUN_NAME:
                    rc = self._ask(&run, next_name, local)
                    if rc == RUN_ON:
                        continue
                if rc == RUN_STOPPED:
                    return
                if rc == RUN_PYTHON:
                    try:
                        self._call(&run, queue, values)
                        continue
                    except Exception as failed:
                        if not is_own(failed):
                            raise
                        error = self._placed(&run, failed)
                else:
                    error = self._error(&run, rc, queue, names)
                if run.entered:
                    # This thread may now wait for the GIL or for a disk; no other thread shall wait, too.
                    with nogil:
                        reader_leave(run.reader)
                    run.entered = False
                if skip is None or rc in (RUN_NAMES, RUN_NO_NAME, RUN_PUT, RUN_MEMORY):
                    raise error
                skip(error, file=rc == RUN_OPEN or rc == RUN_READ,
                     nbytes=None if rc == RUN_OPEN or run.record.nbytes < 0 else run.record.nbytes)
                error = None  # frees what its traceback holds
                record_drop(run.reader, &run.record)
                run.inside = False
        finally:
            # The GIL is held from here to the next line, so no count is added twice or lost.
            self.running.remove(counter)
            self.delivered += counter.count.load(kRelaxed)  # relaxed: this thread's own
            if times is not None:
                self.times.leave(times)
            for i in range(run.held_count):
                if run.loose:
                    queue._release(&run.held[i], 1)
                else:
                    queue.slot_give(run.held[i])
            if run.has_slot:
                if run.loose:
                    queue._release(&run.slot, 1)
                else:
                    queue.slot_give(run.slot)
            record_drop(run.reader, &run.record)
            record_drop(run.reader, &run.behind_record)
            for i in range(HELD_MOST):
                record_drop(run.reader, &run.records[i])
            if run.entered:
                with nogil:
                    reader_leave(run.reader)
            arena_free(&run.arena)
            free(run.cells)
            free(<void*>run.order)

    cdef int _ask(self, ProgramRun* run, object next_name, object local) except -1:
        cdef bytes name
        cdef const char* text
        cdef int64_t nbytes
        cdef bint opened
        run.reader.owner.store(<uint64_t>PyThread_get_thread_ident(), kRelaxed)  # relaxed: as in reader_leave
        begin_wait(ON_INPUT)
        try:
            name = next_name() if run.asks else local(_kept_name(run))
        finally:
            end_wait()
        text = name
        nbytes = len(name)
        with nogil:
            opened = reader_open(run.reader, <const unsigned char*>text, nbytes, &run.fault)
            if not opened:
                _keep_name(run, <const unsigned char*>text, nbytes)
        return RUN_ON if opened else RUN_OPEN

    cdef int _call(self, ProgramRun* run, NativeQueue queue, list cell_values) except -1:
        # Runs the steps in Python from `at` on. `cell_values` holds the objects that cells point to.
        cdef PythonStep step
        cdef Cell* outputs
        cdef int64_t n = 0
        cdef int32_t i
        cdef object value
        cdef list values
        step = self.steps[run.at]
        values = []
        if run.at == 0:
            values.append(cell_value(run.given, step.inputs[0].dtype))
        else:
            for i in range(run.steps[run.at - 1].made):
                values.append(cell_value(&run.given[i], step.inputs[i].dtype))
        while True:
            value = step.call(values, run.arena.epoch, run.arena.element)
            run.at += 1
            if run.at == run.step_count or run.steps[run.at].run != NULL:
                break
            values = values_of(value)
            step = self.steps[run.at]
        if step.outputs is None:
            value = queue._prepare(queue._components_of(value), False, &n)
            if not run.has_slot:
                run.slot = queue._slot()
                run.has_slot = True
            queue._fill(run.slot, PySequence_Fast_ITEMS(value), -1)
            run.filled = True
            return 0
        cell_values[:] = value
        outputs = _cells_of(run, run.at - 1)
        for i in range(run.steps[run.at - 1].made):
            cell_from(&outputs[i], cell_values[i], &run.arena)
        run.given = outputs
        return 0

    cdef object _placed(self, ProgramRun* run, object error):
        # Returns the error, with the place of the faulty record.
        cdef Record* record = &run.record
        text = placed_text(error)
        error.path = shown_name((<const char*>block_bytes(record.name))[:record.name_bytes])
        error.offset = record.offset if record.offset >= 0 else None
        error.record = record.index
        error.args = (f"{text} (record {error.record} of {error.path!r})",)
        return error

    cdef object _error(self, ProgramRun* run, int rc, NativeQueue queue, NativeQueue names):
        cdef Record* record = &run.record
        if rc == RUN_NAMES and run.rc != HAND_NO_MEMORY:
            return names._too_few(1)
        if rc == RUN_NO_NAME:
            return new_error(CODE_INVALID_ARGUMENT,
                             f"an element of {names.kind} {names.name!r} is not one string, and so no name of a file")
        if rc == RUN_OPEN:
            return self.reader._error(&run.fault, _kept_name(run))
        if rc == RUN_PUT and run.rc != HAND_NO_MEMORY:
            return queue._closed_for_putting(run.rc)
        if rc == RUN_READ or rc == RUN_CHECK:
            return self.reader._error(&run.fault, (<const char*>block_bytes(record.name))[:record.name_bytes])
        if rc == RUN_STEP:
            return self._placed(run, (<Step>self.steps[run.at]).explain(&run.fault))
        if rc == RUN_MISFIT:
            return self._placed(run, queue._misfit(&run.fault))
        return new_error(CODE_EXHAUSTED, "no memory for another element")
