"""Feeds: the entrance for rows into a stream that reads no files."""
from collections import deque

cimport cython
cimport numpy as cnp
from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t
from libc.string cimport memset
from queuecore._core.atoms.memory cimport calloc, free
from queuecore._core.atoms.process cimport check_layout, fork_generation
from queuecore._core.io.handed cimport (
    HANDED, HANDED_FULL, HANDED_NO_MEMORY, HANDED_STALE, Chunk, Column, handed_add, handed_break, handed_end,
    handed_freed, handed_next, handed_wanted)
from queuecore._core.atoms.errors cimport CODE_HANDED, STAGE_NONE, fault_begin
from queuecore._core.atoms.parking cimport (
    event_cancel, event_notify_all, event_prepare, event_wait, turn_give, turn_take)
from queuecore._core.stream.pipe cimport Pipe, pipe_drop, pipe_hold
from queuecore._core.atoms.platform cimport Fault, kAcquire, kRelaxed, layout_hash, monotonic_ns
from queuecore._core.atoms.runtime cimport WAIT_SLICE_NS, note_slice, stop_requested, wait_out_exit, waited
from queuecore._core.atoms.times cimport ON_OUTPUT, begin_wait, end_wait

import numpy as np

cnp.import_array()
check_layout(layout_hash())

cdef extern from "<sched.h>" nogil:
    int sched_yield()

cdef enum:
    OBJECT_BITS = 20             # bits of a token that number an object within its block
    GROUP = 64                   # most objects that are handed in together
    GROUP_NS = 100000            # longest wait of an object for others, in ns: handing in costs a tenth of this


cdef object _maker = object()  # only this module can make a Feed


@cython.final
cdef class Feed:
    """The entrance by which one Python thread hands in the rows of one run of a stream.

    The rows lie in arrays and other objects that stay until the run has made its batches of them. A feed doesn't keep
    the stream alive: once the stream is gone, each call returns that no more rows are wanted.
    """

    def __cinit__(self, maker=None):
        if maker is not _maker:
            raise TypeError("a Feed is made by a stream, for the one that it gives its feeder")

    def __dealloc__(self):
        if self.pipe != NULL and self.pipe.generation == fork_generation():
            pipe_drop(self.pipe)

    cdef bint _await(self, uint32_t epoch) noexcept nogil:
        # Waits for a slice of time, or until the room changes. False: the run is over.
        if stop_requested(&self.pipe.runner.stop):
            event_cancel(&self.pipe.shared.room, epoch)
            return False
        begin_wait(ON_OUTPUT)
        event_wait(&self.pipe.shared.room, epoch, monotonic_ns() + WAIT_SLICE_NS)
        end_wait()
        note_slice()
        return not stop_requested(&self.pipe.runner.stop)

    cdef int64_t _await_demand(self) noexcept nogil:
        # Waits until all rows are in batches, and the consumer wants more elements. Returns how many rows make no more
        # than these; 0: the run is over.
        cdef Pipe* p = self.pipe
        cdef uint32_t epoch
        cdef int64_t rows, goal, open_rows
        cdef bint starves
        waited()
        while True:
            epoch = event_prepare(&p.shared.room)
            turn_take(p.turn)
            open_rows = 0 if p.open == NULL else p.open.rows
            # relaxed: the event count orders them, P1 and N1 in parking.pxd
            starves = p.next_batch - (p.open != NULL) < p.shared.awaited.load(kRelaxed)
            goal = p.shared.taken.load(kRelaxed) + starves + p.plan.config.at_a_time - 1
            goal += p.plan.config.ahead - goal % p.plan.config.at_a_time - p.closed
            rows = (goal * p.plan.config.batch_rows if p.plan.config.batched else goal) - open_rows
            # Operators drop rows, and keep some: by any count, a consumer doesn't wait in vain.
            if starves and rows < 1:
                rows = 1
            if p.blocks.available > 0:
                rows = 0
            turn_give(p.turn)
            if rows > 0:
                event_cancel(&p.shared.room, epoch)
                return rows
            if not self._await(epoch):
                return 0

    cdef void _tell(self) noexcept nogil:
        # Wakes the threads that make rows.
        waited()
        event_notify_all(&self.pipe.runner.work)
        if self.pipe.plan.config.help:
            event_notify_all(&self.pipe.window.arrived)

    cdef int offer(self, int64_t pass_, const Chunk* chunk, bint wait) noexcept nogil:
        cdef Pipe* p = self.pipe
        cdef uint32_t epoch
        cdef int status = HANDED_FULL
        waited()
        while status == HANDED_FULL:
            epoch = event_prepare(&p.shared.room)
            turn_take(p.turn)
            status = handed_add(p.blocks, pass_, chunk)
            turn_give(p.turn)
            if status != HANDED_FULL or not wait:
                event_cancel(&p.shared.room, epoch)
                break
            if not self._await(epoch):
                break
        if status == HANDED:
            self._tell()
        return status

    def next_pass(self, int64_t last_pass):
        """Wait until a pass behind `last_pass` is wanted.

        Returns
        -------
        tuple of int or None
            The number of the pass, and of its first row that is wanted. None: no further pass is wanted.
        """
        cdef Pipe* p = self.pipe
        cdef int64_t pass_ = -1, base = 0
        cdef uint32_t epoch
        cdef bint going = True
        with nogil:
            waited()
            while going:
                epoch = event_prepare(&p.shared.room)
                turn_take(p.turn)
                pass_ = handed_wanted(p.blocks, last_pass)
                base = handed_next(p.blocks)
                turn_give(p.turn)
                if pass_ >= 0:
                    event_cancel(&p.shared.room, epoch)
                    break
                going = self._await(epoch)
        if not going:
            wait_out_exit()
            return None
        return pass_, base

    def hand(self, int64_t pass_, list columns, int64_t n, *, owner, int64_t first=0, rows=None):
        """Hand in the next `n` rows, and wait while too many are ahead. False: no more of this pass is wanted.

        Parameters
        ----------
        columns : list
            For each column, an array of all rows; or, for rows of varying length, a tuple of their bytes, the offset at
            which each row ends, and None or the rows' dimensions. The arrays are contiguous, and must not change any
            more.
        owner : object
            An object to be kept, besides the columns, as long as the rows are used.
        first : int
            The number of the first row in the columns.
        rows : array of int64, optional
            The numbers of the rows in the columns, instead of `first`.
        """
        return self._flush(True) and self._hand(pass_, columns, n, owner, first, rows, True) == HANDED

    cdef int _hand(self, int64_t pass_, list columns, int64_t n, owner, int64_t first, rows, bint wait) except -1:
        cdef Pipe* p = self.pipe
        cdef int32_t count = <int32_t>len(columns), i
        cdef Column* native
        cdef int64_t number = self.number
        cdef Chunk chunk
        cdef int status
        cdef cnp.ndarray array
        if n == 0:
            return HANDED_STALE if stop_requested(&p.runner.stop) else HANDED
        if count != p.plan.maker.column_count:
            raise ValueError("not as many columns as were announced")
        native = <Column*>calloc(count + 1, sizeof(Column))
        if native == NULL:
            raise MemoryError
        memset(&chunk, 0, sizeof(Chunk))
        chunk.columns = native
        chunk.count = count
        chunk.first = first
        chunk.n = n
        chunk.owner = number
        try:
            for i in range(count):
                if isinstance(columns[i], tuple):
                    array = columns[i][0]
                    chunk.nbytes += cnp.PyArray_NBYTES(array)
                    native[i].data = <unsigned char*>cnp.PyArray_DATA(array)
                    array = columns[i][1]
                    native[i].ends = <int64_t*>cnp.PyArray_DATA(array)
                    if columns[i][2] is not None:
                        array = columns[i][2]
                        native[i].dims = <int64_t*>cnp.PyArray_DATA(array)
                else:
                    array = columns[i]
                    chunk.nbytes += cnp.PyArray_NBYTES(array)
                    native[i].data = <unsigned char*>cnp.PyArray_DATA(array)
            if rows is not None:
                array = rows
                chunk.rows = <int64_t*>cnp.PyArray_DATA(array)
            self.number += 1
            self.owners[number] = columns, owner, rows
            with nogil:
                status = self.offer(pass_, &chunk, wait)
        finally:
            free(native)
        if status != HANDED:
            # the stream may have gone to another place meanwhile, and released all owners
            self.owners.pop(number, None)
            if status == HANDED_NO_MEMORY:
                raise MemoryError
            if status == HANDED_FULL and wait:
                wait_out_exit()
            return status
        self.sweep()
        return HANDED

    def hand_objects(self, int64_t pass_, list objects):
        """Hand in Python objects as the next elements, of a stream whose only component is of the kind "object"."""
        if not self._flush(True):
            return False
        self.group = objects
        self.group_columns = None
        self.group_pass = pass_
        return self._flush(True)

    def add(self, int64_t pass_, element):
        """Hand in one more object, in a group with others unless the consumer waits.

        False: no more of this pass is wanted.
        """
        return self._add(pass_, None, element)

    def add_row(self, int64_t pass_, list columns, row):
        """Hand in one more row of columns, by its number, as `add` does."""
        return self._add(pass_, columns, row)

    cdef bint _add(self, int64_t pass_, list columns, item) except *:
        if self.handing or (self.group and self.group_columns is not columns):
            if not self._flush(True):
                return False
        if not self.group:
            self.group = []
            self.group_columns = columns
            self.group_pass = pass_
            self.group_begun = monotonic_ns()
        self.group.append(item)
        self.wanted -= 1
        if (self.awaited or len(self.group) >= GROUP or monotonic_ns() - self.group_begun >= GROUP_NS
                or (self.wanted <= 0 and self.pipe.plan.config.ahead >= 0)):
            if not self._flush(True):
                return False
        if self.wanted <= 0 and self.pipe.plan.config.ahead >= 0:
            with nogil:
                self.wanted = self._await_demand()
            if self.wanted == 0:
                wait_out_exit()
                return False
        return True

    cdef bint _flush(self, bint wait) except *:
        # Hands in the group. wait: waits for room; the feeding thread does so, the consumer doesn't. False: no more
        # rows are wanted.
        cdef list group
        cdef int status
        while self.handing:
            if not wait:
                return True
            with nogil:  # the consumer hands in the group, and doesn't wait for room: it is done soon
                sched_yield()
        group = self.group
        if not group:
            return True
        self.group = None
        self.handing = True
        # Before handing in, which releases the GIL: the consumer may take this group meanwhile, and set `awaited` for
        # the next one.
        self.awaited = False
        try:
            if self.group_columns is None:
                tokens = np.arange(len(group), dtype=np.int64) + (self.number << OBJECT_BITS)
                status = self._hand(self.group_pass, [tokens], len(group), group, 0, None, wait)
            else:
                status = self._hand(self.group_pass, self.group_columns, len(group), None, 0, np.array(group, np.int64),
                                    wait)
        finally:
            self.handing = False
        if status == HANDED_FULL and not wait:
            self.group = group
            self.awaited = True
            return True
        return status == HANDED

    cdef int press(self) except -1:
        self.awaited = True
        if self.group:
            self._flush(False)
        return 0

    cdef list objects(self, const int64_t* tokens, int64_t n):
        cdef int64_t i
        cdef list made = []
        for i in range(n):
            made.append((<tuple>self.owners[tokens[i] >> OBJECT_BITS])[1][tokens[i] & ((1 << OBJECT_BITS) - 1)])
        return made

    cdef int sweep(self) except -1:
        cdef Pipe* p = self.pipe
        cdef int64_t number
        cdef uint64_t planned
        while True:
            turn_take(p.turn)
            planned = p.next_batch
            number = handed_freed(p.blocks)
            turn_give(p.turn)
            if number < 0:
                break
            self.dying.append((number, planned))
        # acquire: pairs with B5 in window.pxd; the consumer read a batch's rows before it took the batch
        while self.dying and self.dying[0][1] <= p.window.consumed.load(kAcquire):
            self.owners.pop(self.dying.popleft()[0], None)
        return 0

    def fail(self, int64_t pass_, error):
        """Hand in the error of the next element, which comes out in its place. False: no more of this pass is wanted.

        The error counts as a row in `next_pass` and in `errors_before`. It ends the pass if it comes in place of a row
        that was delivered before the run's start: later ones may be others now.
        """
        cdef Pipe* p = self.pipe
        cdef Fault f
        cdef uint32_t epoch
        cdef int status = HANDED_FULL
        cdef int64_t row
        if not self._flush(True):
            return False
        turn_take(p.turn)
        row = handed_next(p.blocks)
        turn_give(p.turn)
        if pass_ == p.start.pass_ and row < p.start.ordinal and row not in self.errors_before(pass_):
            self.end(pass_, error)
            return False
        self._note(&f, error)
        with nogil:
            waited()
            while status == HANDED_FULL:
                epoch = event_prepare(&p.shared.room)
                turn_take(p.turn)
                status = handed_break(p.blocks, pass_, &f)
                turn_give(p.turn)
                if status != HANDED_FULL:
                    event_cancel(&p.shared.room, epoch)
                elif not self._await(epoch):
                    break
            if status == HANDED:
                self._tell()
        if status == HANDED_NO_MEMORY:
            raise MemoryError
        if status == HANDED_FULL:
            wait_out_exit()
        return status == HANDED

    def errors_before(self, int64_t pass_):
        """Return the numbers of the rows of a pass that were errors when they were delivered, in a run before: at least
        of the last one."""
        return self.broken.get(pass_, ())

    cdef int _note(self, Fault* f, error) except -1:
        fault_begin(f, CODE_HANDED, 0, STAGE_NONE)
        f.a = self.error_number
        self.error_number += 1
        if error is not None:
            self.errors[f.a] = error
        return 0

    def end(self, int64_t pass_, error=None):
        """End the pass; with an exception `error`, which is raised instead of the rest."""
        cdef Pipe* p = self.pipe
        cdef Fault f
        try:
            if not self._flush(True):
                return
        except BaseException as failed:  # raised instead of the elements of the group
            error = failed
        self._note(&f, error)
        with nogil:
            turn_take(p.turn)
            handed_end(p.blocks, pass_, &f if error is not None else NULL)
            turn_give(p.turn)
            self._tell()

    @property
    def stopped(self):
        """True if the run is over: no more rows of any pass are wanted."""
        return stop_requested(&self.pipe.runner.stop)


cdef void feed_taken(Pipe* p, int64_t elements) noexcept nogil:
    p.shared.taken.fetch_add(elements, kRelaxed)  # relaxed: as in _await_demand
    event_notify_all(&p.shared.room)


cdef void feed_awaited(Pipe* p, uint64_t k) noexcept nogil:
    # relaxed: as in _await_demand; consumers are under the GIL here
    if p.plan.config.ahead >= 0 and p.shared.awaited.load(kRelaxed) <= k:
        p.shared.awaited.store(k + 1, kRelaxed)
        event_notify_all(&p.shared.room)


cdef Feed feed_new(Pipe* p, list handed):
    cdef Feed feed = Feed.__new__(Feed, _maker)
    feed.owners = {}
    feed.dying = deque()
    feed.errors = {}
    feed.broken = {}
    for pass_, ordinal in handed:
        feed.broken.setdefault(pass_, []).append(ordinal)
    pipe_hold(p)
    feed.pipe = p
    return feed
