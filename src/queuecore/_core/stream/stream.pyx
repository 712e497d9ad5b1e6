"""Streams: one iteration over a plan, and the iterators over it."""
from functools import partial

cimport cython
from cpython.exc cimport PyErr_CheckSignals
from cpython.ref cimport PyObject
from libc.stdint cimport int32_t, int64_t, uint64_t
from libc.string cimport memcpy
from queuecore._core.atoms.errors cimport (
    CODE_OUT_OF_RANGE, CODE_PRECONDITION, CODE_SLOTS, is_own, raise_error, raise_from)
from queuecore._core.atoms.memory cimport calloc
from queuecore._core.atoms.process cimport check_layout, fork_generation
from queuecore._core.stream.feed cimport feed_awaited, feed_taken
from queuecore._core.stream.configure cimport configure
from queuecore._core.stream.describe cimport Description, keeper_new
from queuecore._core.device.lease cimport DeviceLease, transfer_hand
from queuecore._core.device.transfer cimport Transfer, transfer_drop, transfer_hold, transfer_stop
from queuecore._core.order.op cimport OpSpec
from queuecore._core.stream.left_out cimport LeftOut
from queuecore._core.stream.limits cimport SPIN_NS
from queuecore._core.stream.marks cimport (
    CUT_FAULT, CUT_LOST, Goal, Saved, ShuffleCounter, goal_of, point_follow, point_init)
from queuecore._core.stream.meter cimport Times
from queuecore._core.atoms.parking cimport event_notify_all, turn_give, turn_take
from queuecore._core.stream.pipe cimport (
    BATCH_BREAK, BATCH_OWED, BATCH_REFUSED, BatchLease, Pipe, lease_new, pipe_drop, pipe_hold, pipe_memory)
from queuecore._core.atoms.platform cimport Batch, kRelaxed, layout_hash, monotonic_ns
from queuecore._core.stream.running cimport Running
from queuecore._core.atoms.runtime cimport runner_join, runner_stop, still_waiting, stop_requested, waited
from queuecore._core.stream.scope cimport Scope, current_scope
from queuecore._core.atoms.slab cimport slots_push
from queuecore._core.io.engine cimport engine_counts
from queuecore._core.io.sources cimport FileTable, table_drop, table_new
from queuecore._core.stream.to_device cimport ToDevice
from queuecore._core.atoms.timeline cimport Timeline
from queuecore._core.stream.traced cimport trace_pipe
from queuecore._core.stream.gate cimport STATE_CLOSED, STATE_ENDED, STATE_FAILED, STATE_RUNNING, never_made
from queuecore._core.stream.views cimport Views, assembled, copies
from queuecore._core.stream.waiting cimport Stall, leave_behind, wait_for_batch, wait_for_end, wait_until_there
from queuecore._core.atoms.window cimport window_batch, window_ended, window_ready

from queuecore._checks.warnings import warn

check_layout(layout_hash())


cdef enum:
    NOTES_NS = 1000000000  # the end of a trace waits so long for what threads that end note last

cdef object _again = object()  # stands for no element: the caller must look again


cdef inline object _following(Stream stream):
    cdef object element
    # A record of a chunk is made and taken without entering a turn, under the GIL; if Python code ran in between, it is
    # made again.
    if stream.chunk is not None and (stream.scope is None or current_scope() == NULL):
        element = stream._next_record(None)
        if element is not _again:
            return element
    return stream._next(None)


@cython.no_gc_clear  # as Running
cdef class Stream(Running):
    """One iteration over a plan: reads, decodes and batches in native threads, and hands out batches in order.

    :class:`queuecore.data.Iterator` holds a stream, and documents it for users.

    Parameters
    ----------
    description : Description
        Files, elements, operators and settings. The constructor starts no thread and reads nothing; the first
        ``next()`` does.
    """

    def __init__(self, Description description not None):
        cdef Description d = description
        cdef ShuffleCounter counter
        cdef int32_t i
        if self.files is not None:
            raise TypeError("an iterator can't be initialised twice")
        self.files = d.files
        self.expect_files = -1
        self.spin_ns = SPIN_NS
        self.on_hold_raise = d.on_hold_raise
        self.warned = d.inner
        self.stall = Stall(d.stall_warn, d.stall_timeout)
        self.feeder = d.feeder
        self.settle_inputs = d.settle_inputs
        self.outer = d.outer
        self.note_ends = d.note_ends
        self.scope = d.scope
        self.drawn = d.drawn
        self.counters = d.ops.counters
        self.views = Views.__new__(Views)
        self.left_out = LeftOut.__new__(LeftOut)
        self.left_out.files = d.files
        self.left_out.headings = None if d.frames is None else d.frames.headings
        self.left_out.skips = d.skips
        if d.elements.components is not None:
            self.left_out.step = d.elements.step
        if d.target is not None:
            self.to_device = ToDevice.__new__(ToDevice)
            self.to_device.set_target(d.target)
        self.keeper = keeper_new(d)
        self.table = configure(d, self.views, self.keeper)
        self.plan = self.keeper.plan
        self.left_out.encoded = self.plan.blocks.encoding != 0
        point_init(&self.at, self.plan.blocks)
        point_init(&self.ahead, self.plan.blocks)
        self.specs = <OpSpec*>calloc(self.plan.spec_count + 1, sizeof(OpSpec))
        self.base = <int64_t*>calloc(d.ops.shuffles + 1, sizeof(int64_t))
        self.begun = <int64_t*>calloc(d.ops.shuffles + 1, sizeof(int64_t))
        self._times = Times.__new__(Times)
        self._times.make(self.plan.config.threads)
        self.ready = self._times.ready
        self.records = &self._times.records
        if self.base == NULL or self.begun == NULL or self.specs == NULL:
            raise MemoryError
        memcpy(self.specs, self.plan.specs, self.plan.spec_count * sizeof(OpSpec))
        self.shuffles = d.ops.shuffles
        for i in range(self.shuffles):
            counter = self.counters[i]
            if counter is not None:
                self.specs[self._spec_of(i)].iteration = self.base[i] = counter.next_iteration
                counter.next_iteration += 1
        self.state = STATE_RUNNING

    def __iter__(self):
        return self

    def __next__(self):
        return _following(self)

    cdef object _next(self, object make):
        # Returns make(element), or the element if `make` is None. `make` is a part of the call: if it raises, the
        # element comes again.
        cdef object element = _again
        if self.scope is not None and current_scope() != NULL:
            self.check_scope()
        self._enter()
        try:
            while element is _again:
                if self.chunk is not None or not self._until_ready():
                    element = self._next_record(make)
                else:
                    element = self._deliver(self.pipe, self.next_k, make)
        finally:
            self._leave()
        if type(element) is Refused:
            raise (<Refused>element).error
        return element

    cdef int await_batch(self) except -1:
        # Waits for the next batch. Raises as a call of next() would.
        self._enter()
        try:
            self._until_ready()
        finally:
            self._leave()
        return 0

    cdef bint _until_ready(self) except -1:
        # Waits until the next batch is ready and good. Raises StopIteration at the end. False: a chunk still has
        # elements.
        cdef uint64_t k
        cdef Pipe* p
        cdef bint waits = False
        self.behind = False
        while True:
            if self.state != STATE_RUNNING or self.generation != fork_generation():
                self._refuse()
            if self.chunk is not None:
                return False
            if self.pipe == NULL:
                self._start()
                continue
            p = self.pipe
            k = self.next_k
            # relaxed: published by B3 in window.pxd
            if (window_ready(p.window, k) and not window_batch(p.window, k).failed.load(kRelaxed)
                    and (self.to_device is None or self.to_device.is_ready(k))):
                return True
            if not waits:
                waited()
                waits = True
            pipe_hold(p)
            try:
                self._look(p, k)
            finally:
                pipe_drop(p)

    cdef int _look(self, Pipe* p, uint64_t k) except -1:
        # Handles the reason for which batch k can't be delivered: a fault, a break, the end, or that it isn't ready,
        # for which it waits.
        cdef int64_t spin_ns = self.spin_ns
        cdef int32_t failed
        cdef bint let_in
        if window_ready(p.window, k):
            failed = window_batch(p.window, k).failed.load(kRelaxed)  # relaxed: as above
            if not failed or (failed == BATCH_OWED and self.to_device is not None and not self.to_device.is_ready(k)):
                return self._send(p, k)
            waited()
            if failed == BATCH_OWED:
                slots_push(&p.slab.stack, window_batch(p.window, k).slot)
                self._pass_over(p, k)
                return 0
            if failed == BATCH_REFUSED:
                return self._raise_owed(p, k)
            if failed == BATCH_BREAK:
                return self._raise_break(p, k)
            try:
                if not self._leave_out():
                    self._recover(k)
            except BaseException as error:
                if self.state == STATE_RUNNING and self.left_out.skips is not None:
                    self._fail(error)  # some of the bad records may have been counted and logged already
                raise
            return 0
        if window_ended(p.window, k):
            self._end(p)
        if stop_requested(&p.runner.stop):
            self._stopped(p)
        if self.feed is not None:
            feed_awaited(p, k)
            try:
                self.feed.press()
            except BaseException as error:
                self._fail(error)  # the group that was to be handed in is lost
        let_in = self._let_in()
        with nogil:
            spin_ns = wait_for_batch(p, k, spin_ns)
        self.spin_ns = spin_ns
        PyErr_CheckSignals()
        if self.pipe == p and not window_ready(p.window, k):
            still_waiting()
        else:
            waited()
        if let_in:
            self._enter()
        if self.pipe == p:
            error = self.stall.watch(p)
            if error is not None:
                self._fail(error)
        return 0

    def check_scope(self):
        # Raises if a function that makes elements for this iterator uses it.
        cdef PyObject* scope = current_scope()
        while scope != NULL:
            if scope == <PyObject*>self.scope:
                raise_error(CODE_PRECONDITION,
                    "a function that makes elements for this iterator can't use the iterator itself: it would wait "
                    "for what only it can make. Make an iterator of its own with iter(dataset)")
            scope = <PyObject*>(<Scope>scope).parent if (<Scope>scope).parent is not None else NULL

    cdef int _raise_break(self, Pipe* p, uint64_t k) except -1:
        # Raises the error of an element, which batch k is: the next call goes on behind it. As in _deliver, steps that
        # can raise, or run Python, come first. Returns without raising if they took the stream to another place.
        cdef Batch* b = window_batch(p.window, k)
        cdef int64_t pass_ = b.fault_pass
        cdef bint was_handed
        cdef object error = self.left_out.break_error(b, self.feed)
        if self.pipe != p or self.next_k != k:
            return 0
        was_handed = self.left_out.deliver_break(b, self.feed)
        self.stall.since = 0
        self._count_all_iterations(p, k)
        slots_push(&p.slab.stack, b.slot)
        self._take(p, b, k, 0)
        if was_handed:
            self.left_out.count_handed(pass_)
        if not self.views.levels and not self.shuffles and self.left_out.step is None and self.plan.blocks.passes == 1:
            self.left_out.forget_handed(self.at.start.pass_, self.at.place.base)
        if self.to_device is not None:  # which waits there
            try:
                if self.at.cut == CUT_FAULT:
                    self._repeat_fault(p)
                self._discard_pipe()
            except BaseException as cut:
                self._fail(cut)
        self.behind = self.state == STATE_RUNNING
        raise error

    cdef int _raise_owed(self, Pipe* p, uint64_t k) except -1:
        # Raises the error of a record that nobody gets, of which batch k tells. The next run makes these records again,
        # and tells of the next one that is bad. Returns without raising as _raise_break does.
        cdef Batch* b = window_batch(p.window, k)
        cdef int64_t pass_ = b.fault_pass, ordinal = b.fault_ordinal
        cdef object error = self.left_out.error(&b.fault, self.feed)
        if self.pipe != p or self.next_k != k:
            return 0
        if b.cut >= CUT_LOST:
            self.at.cut = b.cut
        if self.at.cut == CUT_FAULT:
            self._repeat_fault(p)
        self._discard_pipe()
        if self.pipe != NULL or self.state != STATE_RUNNING:
            return 0
        self.left_out.told.append((pass_, ordinal))
        self.version += 1
        self.behind = True
        raise error

    cdef object _deliver(self, Pipe* p, uint64_t k, object make):
        # Delivers the next batch, which is ready: as an element, or as the chunk of the next elements. The steps that
        # can raise, or run Python, come first: a call that is cut short there has not happened, and the batch comes
        # again, in the same slot. _again: they delivered the batch already, or took the stream to another place.
        cdef int64_t held
        cdef BatchLease lease
        cdef bint copy
        cdef list arrays = None
        cdef object element = None
        if self.to_device is not None:
            return self._deliver_there(p, k, make)
        lease = self._leased(p, k)
        held = p.shared.leases.load(kRelaxed) - 1  # relaxed: consumers take leases under the GIL
        copy = held >= p.plan.config.max_leases
        if copy and self.on_hold_raise:
            raise_error(CODE_SLOTS,
                f"{held} batches of this iterator are still held, and on_hold='raise' allows "
                f"{p.plan.config.max_leases}. Drop or copy them, or use on_hold='copy'")
        if copy and not self.raw and not self.warned:
            self._say_held(p.plan.config.max_leases)
        if self.left_out.skips is not None:
            self._log_files(p, False)
        if self.pipe != p or self.next_k != k:  # self.feed would be another run's
            return _again
        # The arrays that the element is made of.
        if self.raw:
            arrays = self.views.columns(lease)
            if copy:
                arrays = copies(arrays)
            element = lease.rows, arrays
        elif self.views.levels and not copy and self.views.components is None:
            element = self.views.batch(lease)
        else:
            try:
                arrays = self.views.arrays(lease, self.feed, self.delivered)
                if copy and self.views.can_be_copied():
                    arrays = copies(arrays)
                element = self.views.whole(arrays) if self.views.levels else None
            except Exception as error:
                # of this batch, which it delivers: the next call goes on behind it
                if is_own(error) and self.views.levels and self.pipe == p and self.next_k == k:
                    self.lease = None
                    self._taken(p, k, None)
                raise
        if make is not None and self.views.levels:
            element = make(element)
        if self.pipe != p or self.next_k != k:
            return _again
        self.copied += copy and not self.raw
        self.lease = None
        self._taken(p, k, arrays)
        return element if self.raw or self.views.levels else self._next_record(make)

    cdef BatchLease _leased(self, Pipe* p, uint64_t k):
        # Returns the lease on the next batch. The stream keeps it until the batch is delivered.
        if self.lease is None:
            self.lease = lease_new(p, window_batch(p.window, k))
        return self.lease

    cdef int _say_held(self, int64_t most) except -1:
        self.warned = True
        try:
            warn(
                f"more than {most} batches of this iterator are held; further ones are copies, which costs time. "
                "Options(max_leases=...) allows more views, Options(on_hold='raise') forbids copies", 2)
        except BaseException as error:
            self.warned = isinstance(error, Warning)  # a filter has made the warning an error: it was given
            raise
        return 0

    cdef void _taken(self, Pipe* p, uint64_t k, list arrays) noexcept:
        # Gives the batch to the consumer: as an element, as columns, or as the chunk `arrays`.
        cdef Batch* b = window_batch(p.window, k)
        cdef int64_t elements = 1 if p.plan.config.batched else b.rows if self.raw else -1
        self._lose(b)
        self._count_all_iterations(p, k)
        self.records[0] += b.rows
        self.stall.since = 0
        if elements < 0:
            self.chunk = arrays
            self.chunk_at = 0
            self.chunk_rows = b.rows
        self._take(p, b, k, elements)  # from here on the descriptor may be another batch's

    cdef int _send(self, Pipe* p, uint64_t k) except -1:
        # Waits until the batch, which is ready, is on its way to the device.
        cdef ToDevice to_device = self.to_device
        cdef bint let_in
        if to_device is None or to_device.is_ready(k):
            return 0
        error = to_device.failure()
        if error is not None:
            self._fail(error)
        let_in = self._let_in()
        to_device.wait(k)
        PyErr_CheckSignals()
        still_waiting()
        if let_in:
            self._enter()
        if self.pipe == p and stop_requested(&p.runner.stop):
            self._stopped(p)
        return 0

    cdef object _deliver_there(self, Pipe* p, uint64_t k, object make):
        # Does the same as _deliver, on a device. The consumer may hold all slots but one; further batches are copies.
        cdef ToDevice to_device = self.to_device
        cdef Transfer* t = to_device.transfer
        cdef DeviceLease lease
        cdef Batch* b = window_batch(p.window, k)
        cdef int64_t rows = b.rows, subs = b.subs
        cdef list arrays
        cdef object memory = None, element
        pipe_hold(p)
        transfer_hold(t)
        try:
            if self.left_out.skips is not None:
                self._log_files(p, False)
            stream, handle = to_device.arrays.stream()
            if to_device.is_full():
                said, self.warned = self.warned, True
                to_device.target.say_held(self.on_hold_raise, said)
                if self.pipe == p and self.next_k == k:
                    memory = to_device.room(k)
            if self.pipe != p or self.next_k != k:
                return _again
            lease = transfer_hand(t, to_device.device, k, stream, handle, to_device.arrays)
            try:
                arrays = to_device.arrays_of(p, lease, memory, rows, subs, self.views)
                if to_device.widen is not None:
                    element = assembled(to_device.widen.template, arrays)
                else:
                    element = self.views.whole(arrays) if self.views.levels else None
            except Exception as error:
                self._fail(error)
            if make is not None and self.views.levels:
                element = make(element)
            if self.pipe != p or self.next_k != k:
                return _again
            to_device.taken(lease, memory is not None)
            self.copied += memory is not None
            self._taken(p, k, arrays)
        finally:
            transfer_drop(t)
            pipe_drop(p)
        return element if self.views.levels else self._next_record(make)

    cdef void note(self, Pipe* p, Batch* b, uint64_t k) noexcept nogil:
        # Counts and takes batch k as _deliver does, for an inner stream, whose shuffles' counters are its own.
        cdef int32_t i
        self.records[0] += b.rows
        self.stall.since = 0
        for i in range(self.shuffles):
            self.begun[i] = p.window.iterations[<int64_t>(k & p.window.mask) * p.order.count + i]
        self._take(p, b, k, 1 if p.plan.config.batched else b.rows)

    cdef object _next_record(self, object make):
        # Returns the next element of the chunk.
        cdef list arrays = self.chunk
        cdef int64_t at = self.chunk_at
        if self.generation != fork_generation() or self.state != STATE_RUNNING:
            self.chunk = None
            self._refuse()
        element = self.views.one(arrays, at)
        if make is not None:
            element = make(element)
        if self.chunk is not arrays or self.chunk_at != at:  # Python code that ran has taken it, as in _deliver
            return _again
        self.version += 1
        self.chunk_at = at + 1
        self.delivered += 1
        point_follow(&self.at, &self.ahead)
        if self.pipe.plan.config.ahead >= 0:
            feed_taken(self.pipe, 1)
        if at + 1 == self.chunk_rows:
            self.chunk = None
            self._pass_mark()
        return element

    def next_columns(self):
        """Return the rows of the next batch as they lie: their number, and a list of columns as `Feed.hand` takes it.

        Of a stream without batches these are the elements that are there, as many as a chunk has room for. A stream's
        elements are either all taken so, or none.
        """
        self.raw = True
        return self._next(None)

    def close(self, timeout=1.0):
        """Stop the native threads and wait up to `timeout` seconds (None: for ever) until they have ended.

        Idempotent.
        """
        cdef Pipe* p = self.pipe
        cdef int64_t deadline = -1 if timeout is None else monotonic_ns() + <int64_t>(timeout * 1e9)
        if self.generation != fork_generation():
            return
        if self.state == STATE_RUNNING:
            self.state = STATE_CLOSED
        self._times.over = True
        self.chunk = None
        if p == NULL:
            event_notify_all(self.released)
            self._close_kept(NULL)
            return
        pipe_hold(p)
        try:
            if self.to_device is not None and self.to_device.transfer != NULL:
                transfer_stop(self.to_device.transfer)
            with nogil:
                runner_stop(p.runner, NULL)
                event_notify_all(&p.window.arrived)
                event_notify_all(self.released)
            if not wait_for_end(p, deadline):
                leave_behind(p, timeout)
            self._close_kept(NULL)  # the last worker may not have closed them yet, and close() doesn't wait for it
        finally:
            pipe_drop(p)

    def settle(self):
        """Look once more at the files that were read in part.

        Returns
        -------
        Exception or None
            What is wrong, if one of them has changed since; None also for a stream that has ended, which has looked
            itself.
        """
        cdef Pipe* p = self.pipe
        if p == NULL or self.state == STATE_ENDED or self.state == STATE_FAILED or self.generation != fork_generation():
            return None
        pipe_hold(p)
        try:
            return self._changed(p)
        finally:
            pipe_drop(p)

    def poll(self, double seconds):
        """Begin, wait for at most so many seconds, and return whether ``next()`` would not wait now."""
        cdef int64_t deadline
        cdef uint64_t k
        cdef Pipe* p
        cdef bint ready = False
        if self.chunk is not None or self.state != STATE_RUNNING or self.generation != fork_generation():
            return True
        if self.pipe == NULL:
            self._enter()
            try:
                if self.pipe == NULL and self.state == STATE_RUNNING:
                    self._start()
            finally:
                self._leave()
        p = self.pipe
        if p == NULL:
            return True
        k = self.next_k
        deadline = monotonic_ns() + <int64_t>(seconds * 1e9)
        feed_awaited(p, k)
        pipe_hold(p)
        with nogil:
            ready = wait_until_there(p, k, deadline)
        pipe_drop(p)
        return ready

    def stop(self):
        """Let the stream end, as `close` does, from another thread than the one that uses it. Waits for nothing."""
        cdef Pipe* p = self.pipe
        self.told = True
        if p != NULL and self.generation == fork_generation():
            pipe_hold(p)
            runner_stop(p.runner, NULL)
            event_notify_all(&p.window.arrived)
            event_notify_all(&p.shared.room)
            pipe_drop(p)

    @property
    def goes_on(self):
        """True if the last call raised the error of an element, and the next call goes on behind that element.

        Any other error means that the call has not happened, or that the iterator is closed.
        """
        return self.behind

    @property
    def closed(self):
        """True if no more elements come: it is closed, ended by an error, past its end, or in a forked child."""
        return self.state != STATE_RUNNING or self.generation != fork_generation()

    def stats(self):
        """Counters of this iterator, as a dict of int."""
        cdef Pipe* p = self.pipe
        cdef int64_t dropped = 0, helped = self.helped_before
        self._check_made()
        if p == NULL:
            return self._stats(NULL, dropped, helped)
        pipe_hold(p)
        try:
            with nogil:
                turn_take(p.turn)
                dropped = p.order.dropped
                turn_give(p.turn)
            helped += p.shared.helped.load(kRelaxed)
            return self._stats(p, dropped, helped)
        finally:
            pipe_drop(p)

    @property
    def times(self):
        """The times of the threads and of the consumers."""
        self._check_made()
        return self._times

    @property
    def names(self):
        """The names of the files."""
        self._check_made()
        return self.files

    def trace(self, bint on, ranges=(0, 0)):
        """Let the threads note what they do, or no longer.

        Parameters
        ----------
        on : bool
            Whether they note it from now on.
        ranges : tuple of int, optional
            As `push` and `pop` of `Timeline`; used by the first call, if batches go to a device.

        Returns
        -------
        Timeline
            Which gives what they note. A stream has only one.
        """
        self._check_made()
        if self.timeline is None:
            self.timeline = Timeline(self.plan.config.threads, *(ranges if self.to_device is not None else ()))
        if not on:
            self._await_notes()
        self.traced = on
        if self.pipe != NULL:
            trace_pipe(self.pipe, self.timeline.lines if on else NULL)
            if self.to_device is not None:
                self.to_device.trace(self.pipe)
        return self.timeline

    cdef void _await_notes(self) noexcept:
        # Where no more elements come, lets threads that are about to end note what they did last. One that is stuck
        # isn't waited for.
        cdef Pipe* p = self.pipe
        cdef int64_t deadline = monotonic_ns() + NOTES_NS
        if p == NULL or self.state == STATE_RUNNING or self.generation != fork_generation():
            return
        pipe_hold(p)
        with nogil:
            runner_join(p.runner, deadline)
        if self.to_device is not None:
            self.to_device.join(deadline)
        pipe_drop(p)

    cdef dict _stats(self, Pipe* p, int64_t dropped, int64_t helped):
        cdef int64_t asked = 0, depth = 0
        if p != NULL:
            engine_counts(p.engine, &asked, &depth)
        return {
            "elements": self.delivered,
            "records": self.records[0],
            "bytes_read": self.table.bytes_read.load(kRelaxed),
            "files_known": self.table.known_files.load(kRelaxed),
            "empty_files": self.table.empty_files.load(kRelaxed),
            "dropped_tails": self.table.dropped_tails.load(kRelaxed),
            "dropped_records": dropped,
            "copied_batches": self.copied,
            "helped_units": helped,
            "leases": 0 if p == NULL else p.shared.leases.load(kRelaxed) - (self.lease is not None
                                                                            and self.lease.pipe == p),
            "threads": 0 if p == NULL else p.runner.live.load(kRelaxed),
            "memory_bytes": 0 if p == NULL else pipe_memory(p),
            "io_requests": self.asked_before + asked,
            "io_depth": depth,
            **({} if self.to_device is None else self.to_device.stats()),
            **({"skipped": 0, "skipped_files": 0,
                "skipped_bytes": 0} if self.left_out.skips is None else self.left_out.skips.counts()),
        }

    def go_to(self, prepare, *arguments):
        """Go to a place: `prepare(*arguments)` returns the arguments of `restore`, or raises if the place is none for
        this stream.

        No other call changes the stream meanwhile. A stream at its end can go to a place; a closed one can't.
        """
        self._enter()
        try:
            self.changing = True
            if self.state == STATE_CLOSED or self.state == STATE_FAILED:
                self._refuse()
            self.restore(**prepare(*arguments))
        finally:
            self.changing = False
            self._leave()

    def restore(self, Saved place not None, list seeds, list counters, drawn=None, list later=None, stop=None,
                then=None, check=None):
        """Go on as an iterator would that had just come to a place. Only for functions that `go_to` calls.

        Raises `ResumeMismatchError`, and changes nothing, if the place is none for this stream or its files have
        changed. An error that is raised later ends the stream.

        Parameters
        ----------
        place : Saved
        seeds : list of tuple of int
            For each shuffle, its pair of seeds.
        counters : list
            For each shuffle, its `ShuffleCounter` or None.
        drawn : object, optional
            The object that belongs to the place.
        later : list of tuple, optional
            The start of later streams: an object whose `pair` and `counter` are set, the pair of seeds, the counter,
            and the counter's next iteration.
        stop : callable, optional
            Ends the waits of the functions that hand in rows.
        then : callable, optional
            Is called when the run before has ended.
        check : callable, optional
            Is called with the files' digests, once these files are known, and raises if they are not those of the saved
            state. Default: the digest of the last file is compared with the place's.
        """
        cdef Goal goal
        cdef FileTable* t = NULL
        self._check_made()
        goal = goal_of(place, seeds, counters, self.shuffles, self.plan.config.blocks, self.plan.blocks,
                       self.files.names.count)
        self.left_out.check_faults([*goal.breaks.values(), *[one[3:] or None for one in place.ended]])
        for _, _, counter, _ in [] if later is None else later:
            <ShuffleCounter?>counter
        try:
            t = table_new(self.files.names, self.table.record_bytes, self.table.header_bytes, self.table.footer_bytes,
                          self.table.hop_bytes, self.table.tail, self.table.fd_limit)
            if t == NULL:
                raise MemoryError
            t.retries = self.plan.config.retries
            self._check_files(t, place, check)
            self._leave_place(later, stop, then)
            self.table, t = t, self.table
        finally:
            table_drop(t)
        self._arrive(goal, place, drawn)

    cdef int _leave_place(self, list later, stop, then) except -1:
        # Ends the run. An error from here on ends the stream, which has left its place and not come to the other one.
        try:
            if self.pipe != NULL:
                with nogil:
                    runner_stop(self.pipe.runner, NULL)
            if stop is not None:
                stop()
            self._discard_pipe()
            for one, pair, counter, number in [] if later is None else later:
                one.pair = pair
                one.counter = counter
                (<ShuffleCounter>counter).next_iteration = number
            if then is not None:
                then()
        except BaseException as error:
            if self.state == STATE_RUNNING or self.state == STATE_ENDED:
                self._fail(error)
            raise
        if self.state == STATE_CLOSED or self.state == STATE_FAILED:  # closed or failed meanwhile
            self._refuse()
        return 0

@cython.final
cdef class Refused:
    """The answer of a function that refuses an element: the element is gone, and the call raises.

    Parameters
    ----------
    error : BaseException
        The error that the call raises.
    """
    cdef object error

    def __init__(self, error):
        self.error = error


cdef class Held:
    """An iterator over a stream that it holds.

    Parameters
    ----------
    stream : Stream
        A stream that only this iterator asks for elements.
    """
    cdef Stream held

    def __init__(self, Stream stream not None):
        if self.held is not None:
            raise TypeError("an iterator can't be initialised twice")
        self.held = stream

    @property
    def _stream(self):
        return _stream_of(self)

    def __iter__(self):
        return self

    def __next__(self):
        return _following(_stream_of(self))


cdef inline Stream _stream_of(Held iterator):
    if iterator.held is None:
        never_made()
    return iterator.held


cdef object _through(object iterator, object make):
    # Returns make(element) of the next element of an iterator. No signal handler runs in between: the element can't get
    # lost.
    if isinstance(iterator, Held):
        return _stream_of(<Held>iterator)._next(make)
    if isinstance(iterator, Above):
        iterator, own = iterator._step()
        if own is not None:
            make = own if make is None else partial(_both, own, make)
        return _through(iterator, make)
    element = next(iterator)
    if make is not None:
        element = make(element)
        if type(element) is Refused:
            raise (<Refused>element).error
    return element


def _both(first, second, element):
    element = first(element)
    return element if type(element) is Refused else second(element)


cdef class Above:
    """An iterator above another one.

    Its ``_step()`` returns the iterator below, and the function that makes an element of an element of that one, or
    None. If the function raises, the call has not happened: the same element comes again. A function that refuses an
    element returns `Refused`.
    """

    def __iter__(self):
        return self

    def __next__(self):
        return _through(self, None)


cdef class Gets:
    """The native part of all iterators: no signal handler runs between taking an element and returning it."""

    def get_next(self):
        """Return the next element, as ``next()`` does.

        Returns
        -------
        structure of ndarray, Ragged, Sparse or bytes

        Raises
        ------
        OutOfRangeError
            At the end, now and ever after. ``next()`` raises `StopIteration` there.
        """
        try:
            return next(self)
        except StopIteration:
            raise_from(CODE_OUT_OF_RANGE, "End of sequence", None)

    def get_next_as_optional(self):
        """Return the next element in an `Optional`, which is empty at the end, now and ever after.

        Returns
        -------
        Optional

        Examples
        --------
        >>> import pathlib, tempfile
        >>> import queuecore as qc
        >>> folder = tempfile.TemporaryDirectory()
        >>> file = pathlib.Path(folder.name) / "numbers.bin"
        >>> _ = file.write_bytes(bytes(range(2)))
        >>> it = qc.data.FixedLengthRecordDataset(file, record="u1").make_one_shot_iterator()
        >>> while (one := it.get_next_as_optional()).has_value():
        ...     print(int(one.get_value()))
        0
        1
        >>> folder.cleanup()
        """
        optional = self._optional()
        cdef list parts = optional._parts
        parts.append(None)
        try:
            parts[0] = next(self)
        except StopIteration:
            parts.clear()
        return optional
