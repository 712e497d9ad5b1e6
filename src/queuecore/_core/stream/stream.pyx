"""Streams: one iteration over a plan, and the iterators over it."""
import logging
import os
from functools import partial

cimport cython
from cpython.exc cimport PyErr_CheckSignals
from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t
from queuecore._core.atoms.errors cimport (
    CODE_OUT_OF_RANGE, CODE_PRECONDITION, CODE_SLOTS, is_own, raise_error, raise_from, shown_name)
from queuecore._core.atoms.process cimport check_layout, fork_generation
from queuecore._core.stream.feed cimport feed_awaited, feed_taken
from queuecore._core.stream.configure cimport configure
from queuecore._core.stream.course cimport Course
from queuecore._core.stream.describe cimport Description, keeper_new
from queuecore._core.device.lease cimport DeviceLease, transfer_hand
from queuecore._core.device.transfer cimport Transfer, transfer_drop, transfer_hold
from queuecore._core.order.op cimport PULL_FAULT
from queuecore._core.stream.left_out cimport LeftOut
from queuecore._core.stream.limits cimport SPIN_NS
from queuecore._core.stream.marks cimport CUT_LOST, Goal, Saved, ShuffleCounter, goal_of
from queuecore._core.atoms.parking cimport event_notify_all
from queuecore._core.stream.pipe cimport (
    BATCH_BREAK, BATCH_OWED, BATCH_REFUSED, BatchLease, Pipe, pipe_drop, pipe_hold)
from queuecore._core.stream.pipes cimport Pipes
from queuecore._core.atoms.platform cimport Batch, Fault, kAcquire, kRelaxed, layout_hash, monotonic_ns
from queuecore._core.atoms.runtime cimport (
    runner_stop, still_waiting, stop_fault, stop_requested, wait_out_exit, waited)
from queuecore._core.stream.scope cimport current_scope, scope_check
from queuecore._core.atoms.slab cimport slots_push
from queuecore._core.io.names cimport name_of
from queuecore._core.io.sources cimport (
    NEWS_DIRECT, NEWS_RINGS, FileTable, KnownFiles, table_close_idle, table_drop)
from queuecore._core.stream.to_device cimport ToDevice
from queuecore._core.stream.gate cimport (
    STATE_CLOSED, STATE_ENDED, STATE_FAILED, STATE_RUNNING, CallGate, never_made)
from queuecore._core.stream.views cimport Views, assembled, copies
from queuecore._core.stream.waiting cimport Stall, leave_behind, wait_for_batch, wait_for_end, wait_until_there
from queuecore._core.atoms.window cimport window_batch, window_ended, window_ready

from queuecore._checks.warnings import warn

check_layout(layout_hash())


cdef object _again = object()  # stands for no element: the caller must look again
cdef object _log = logging.getLogger("queuecore")


cdef inline object _following(Stream stream):
    cdef object element
    # A record of a chunk is made and taken without entering a turn, under the GIL; if Python code ran in between, it is
    # made again.
    if stream.chunk is not None and (stream.scope is None or current_scope() == NULL):
        element = stream._next_record(None)
        if element is not _again:
            return element
    return stream._next(None)


cdef int _say_met(Stream stream, Pipe* p) except -1:
    # Writes into logs what workers have met: files that are left out, and what the system refuses.
    if stream.course.table.news.load(kRelaxed) != 0:  # relaxed: a hint
        _say_news(stream.course.table)
    if stream.course.left_out.skips is not None:
        stream._log_files(p, False)
    return 0


cdef int _say_news(FileTable* t) except -1:
    cdef uint32_t news = t.news.exchange(0, kAcquire)  # acquire: pairs with _refuse in sources.pyx
    if news & NEWS_DIRECT:
        _log.warning("direct=True has no effect: the file system of %s reads through the page cache alone",
                     shown_name(<bytes>name_of(t.names, t.refused.load(kRelaxed) - 1)))  # relaxed: as `news` says
    if news & NEWS_RINGS:
        _log.warning("no io_uring (%s): threads read instead, one request each", os.strerror(t.ringless.load(kRelaxed)))
    return 0


cdef int _say_held(Stream stream, int64_t most) except -1:
    stream.warned = True
    try:
        warn(
            f"more than {most} batches of this iterator are held; further ones are copies, which costs time. "
            "Options(max_leases=...) allows more views; Options(on_hold='copy') asks for copies, 'raise' forbids them",
            2)
    except BaseException as error:
        stream.warned = isinstance(error, Warning)  # a filter has made the warning an error: it was given
        raise
    return 0


@cython.no_gc_clear  # a finalizer may still call it
cdef class Stream:
    """One iteration over a plan: reads, decodes and batches in native threads, and hands out batches in order.

    :class:`queuecore.data.Iterator` holds a stream, and documents it for users.

    Parameters
    ----------
    description : Description
        Files, elements, operators and settings. The constructor starts no thread and reads nothing; the first
        ``next()`` does.
    """

    def __cinit__(self, *_, **__):
        self.gate = CallGate.__new__(CallGate)
        self.course = Course.__new__(Course)
        self.pipes = Pipes.__new__(Pipes)

    def __init__(self, Description description not None):
        cdef Description d = description
        cdef FileTable* table
        if self.pipes.keeper is not None:
            raise TypeError("an iterator can't be initialised twice")
        self.pipes.keeper = keeper_new(d)
        self.spin_ns = SPIN_NS
        self.on_hold_raise = d.on_hold_raise
        self.warned = d.quiet
        self.stall = Stall(d.stall_warn, d.stall_timeout)
        self.settle_inputs = d.settle_inputs
        self.scope = d.scope
        self.views = Views.__new__(Views)
        table = configure(d, self.views, self.pipes.keeper)
        self.course.set_up(d, self.pipes.keeper.plan, table)
        self.pipes.set_up(d, self.views)
        self.records = &self.pipes.times.records
        self.gate.state = STATE_RUNNING

    def extend(self):
        """Take over the names of files that were listed meanwhile."""
        self._check_made()
        self.course.extend()
        self.pipes.wake()

    def __iter__(self):
        return self

    def __next__(self):
        return _following(self)

    cdef object _next(self, object make):
        # Returns make(element), or the element if `make` is None. `make` is a part of the call: if it raises, the
        # element comes again.
        cdef object element = _again
        if self.scope is not None and current_scope() != NULL:
            scope_check(self.scope)
        self.gate.enter()
        try:
            while element is _again:
                if self.chunk is not None or not self._until_ready():
                    element = self._next_record(make)
                else:
                    element = self._deliver(self.pipes.current, self.pipes.next_k, make)
        finally:
            self.gate.leave()
        if type(element) is Refused:
            raise (<Refused>element).error
        return element

    cdef int await_batch(self) except -1:
        # Waits for the next batch. Raises as a call of next() would.
        self.gate.enter()
        try:
            self._until_ready()
        finally:
            self.gate.leave()
        return 0

    cdef bint _until_ready(self) except -1:
        # Waits until the next batch is ready and good. Raises StopIteration at the end. False: a chunk still has
        # elements.
        cdef uint64_t k
        cdef Pipe* p
        cdef bint waits = False
        self.behind = False
        while True:
            if self.gate.state != STATE_RUNNING or self.gate.generation != fork_generation():
                self.gate.refuse()
            if self.chunk is not None:
                return False
            if self.pipes.current == NULL:
                self._start()
                continue
            p = self.pipes.current
            k = self.pipes.next_k
            # relaxed: published by B3 in window.pxd
            if (window_ready(p.window, k) and not window_batch(p.window, k).failed.load(kRelaxed)
                    and (self.pipes.to_device is None or self.pipes.to_device.is_ready(k))):
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
        cdef ToDevice to_device = self.pipes.to_device
        cdef int64_t spin_ns = self.spin_ns
        cdef int32_t failed
        cdef bint let_in
        if window_ready(p.window, k):
            failed = window_batch(p.window, k).failed.load(kRelaxed)  # relaxed: as above
            if not failed or (failed == BATCH_OWED and to_device is not None and not to_device.is_ready(k)):
                return self._send(p, k)
            waited()
            if failed == BATCH_OWED:
                slots_push(&p.slab.stack, window_batch(p.window, k).slot)
                self.pipes.pass_over(p, k)
                return 0
            if failed == BATCH_REFUSED:
                return self._raise_owed(p, k)
            if failed == BATCH_BREAK:
                return self._raise_break(p, k)
            try:
                if not self._leave_out():
                    self._recover(k)
            except BaseException as error:
                if self.gate.state == STATE_RUNNING and self.course.left_out.skips is not None:
                    self._fail(error)  # some of the bad records may have been counted and logged already
                raise
            return 0
        if window_ended(p.window, k):
            self._end(p)
        if stop_requested(&p.runner.stop):
            self._stopped(p)
        if self.pipes.feed is not None:
            feed_awaited(p, k)
            try:
                self.pipes.feed.press()
            except BaseException as error:
                self._fail(error)  # the group that was to be handed in is lost
        let_in = self.gate.let_in()
        with nogil:
            spin_ns = wait_for_batch(p, k, spin_ns)
        self.spin_ns = spin_ns
        PyErr_CheckSignals()
        if self.pipes.current == p and not window_ready(p.window, k):
            still_waiting()
        else:
            waited()
        if let_in:
            self.gate.enter()
        if self.pipes.current == p:
            self._fail(self.stall.watch(p))
        return 0

    def check_scope(self):
        """Raise if a function that makes elements for this iterator uses it."""
        scope_check(self.scope)

    cdef int _raise_break(self, Pipe* p, uint64_t k) except -1:
        # Raises the error of an element, which batch k is: the next call goes on behind it. As in _deliver, steps that
        # can raise, or run Python, come first. Returns without raising if they took the stream to another place.
        cdef Course course = self.course
        cdef Batch* b = window_batch(p.window, k)
        cdef int64_t pass_ = b.fault_pass
        cdef bint was_handed
        cdef object error = course.left_out.break_error(b, self.pipes.feed)
        if self.pipes.current != p or self.pipes.next_k != k:
            return 0
        was_handed = course.left_out.deliver_break(b, self.pipes.feed)
        self.stall.since = 0
        course.count_iterations(p, k)
        slots_push(&p.slab.stack, b.slot)
        self._take(p, b, k, 0)
        if was_handed:
            course.left_out.count_handed(pass_)
        if (not self.views.levels and not course.shuffles and course.left_out.step is None
                and course.plan.blocks.passes == 1):
            course.left_out.forget_handed(course.at.start.pass_, course.at.place.base)
        if self.pipes.to_device is not None:  # which waits there
            try:
                self._fail(course.repeat_fault(p, self.pipes.feed))
                self._discard_pipe()
            except BaseException as cut:
                self._fail(cut)
        self.behind = self.gate.state == STATE_RUNNING
        raise error

    cdef int _raise_owed(self, Pipe* p, uint64_t k) except -1:
        # Raises the error of a record that nobody gets, of which batch k tells. The next run makes these records again,
        # and tells of the next one that is bad. Returns without raising as _raise_break does.
        cdef Batch* b = window_batch(p.window, k)
        cdef int64_t pass_ = b.fault_pass, ordinal = b.fault_ordinal
        cdef object error = self.course.left_out.error(&b.fault, self.pipes.feed)
        if self.pipes.current != p or self.pipes.next_k != k:
            return 0
        if b.cut >= CUT_LOST:
            self.course.at.cut = b.cut
        self._fail(self.course.repeat_fault(p, self.pipes.feed))
        self._discard_pipe()
        if self.pipes.current != NULL or self.gate.state != STATE_RUNNING:
            return 0
        self.course.left_out.told.append((pass_, ordinal))
        self.course.version += 1
        self.behind = True
        raise error

    cdef object _deliver(self, Pipe* p, uint64_t k, object make):
        # Delivers the next batch, which is ready: as an element, or as the chunk of the next elements. The steps that
        # can raise, or run Python, come first: a call that is cut short there has not happened, and the batch comes
        # again, in the same slot. _again: they delivered the batch already, or took the stream to another place.
        cdef int64_t lease_count
        cdef BatchLease lease
        cdef bint copy
        cdef list arrays = None
        cdef object element = None
        if self.pipes.to_device is not None:
            return self._deliver_there(p, k, make)
        lease = self.pipes.leased(p, k)
        lease_count = p.shared.leases.load(kRelaxed) - 1  # relaxed: consumers take leases under the GIL
        copy = lease_count >= p.plan.config.max_leases
        if copy and self.on_hold_raise:
            raise_error(CODE_SLOTS,
                f"{lease_count} batches of this iterator are still held, and on_hold='raise' allows "
                f"{p.plan.config.max_leases}. Drop or copy them, or use on_hold='copy'")
        if copy and not self.raw and not self.warned:
            _say_held(self, p.plan.config.max_leases)
        _say_met(self, p)
        if self.pipes.current != p or self.pipes.next_k != k:  # self.pipes.feed would be another run's
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
                arrays = self.views.arrays(lease, self.pipes.feed, self.course.delivered)
                if copy and self.views.can_be_copied():
                    arrays = copies(arrays)
                element = self.views.whole(arrays) if self.views.levels else None
            except Exception as error:
                # of this batch, which it delivers: the next call goes on behind it
                if is_own(error) and self.views.levels and self.pipes.current == p and self.pipes.next_k == k:
                    self.pipes.lease = None
                    self._taken(p, k, None)
                raise
        if make is not None and self.views.levels:
            element = make(element)
        if self.pipes.current != p or self.pipes.next_k != k:
            return _again
        self.copied += copy and not self.raw
        self.pipes.lease = None
        self._taken(p, k, arrays)
        return element if self.raw or self.views.levels else self._next_record(make)

    cdef void _taken(self, Pipe* p, uint64_t k, list arrays) noexcept:
        # Gives the batch to the consumer: as an element, as columns, or as the chunk `arrays`.
        cdef Batch* b = window_batch(p.window, k)
        cdef int64_t elements = 1 if p.plan.config.batched else b.rows if self.raw else -1
        self.course.tell_outer(p, b, self.pipes.feed)
        self.course.count_iterations(p, k)
        self.records[0] += b.rows
        self.stall.since = 0
        if elements < 0:
            self.chunk = arrays
            self.chunk_at = 0
            self.chunk_rows = b.rows
        self._take(p, b, k, elements)  # from here on the descriptor may be another batch's

    cdef void _take(self, Pipe* p, const Batch* b, uint64_t k, int64_t elements) noexcept nogil:
        # Gives batch k to the consumer, with so many elements; -1: as a chunk of elements, which come one by one.
        self.course.take(p, b, k, elements)
        if elements >= 0 and p.plan.config.ahead >= 0:
            feed_taken(p, 1 if p.plan.config.batched else b.rows)
        self.pipes.take(p, b, k)

    cdef int _send(self, Pipe* p, uint64_t k) except -1:
        # Waits until the batch, which is ready, is on its way to the device.
        cdef ToDevice to_device = self.pipes.to_device
        cdef bint let_in
        if to_device is None or to_device.is_ready(k):
            return 0
        self._fail(to_device.failure())
        let_in = self.gate.let_in()
        to_device.wait(k)
        PyErr_CheckSignals()
        still_waiting()
        if let_in:
            self.gate.enter()
        if self.pipes.current == p and stop_requested(&p.runner.stop):
            self._stopped(p)
        return 0

    cdef object _deliver_there(self, Pipe* p, uint64_t k, object make):
        # Does the same as _deliver, on a device. The consumer may hold all slots but one; further batches are copies.
        cdef ToDevice to_device = self.pipes.to_device
        cdef Transfer* t = to_device.transfer
        cdef DeviceLease lease
        cdef Batch* b = window_batch(p.window, k)
        cdef int64_t rows = b.rows, subs = b.subs
        cdef list arrays
        cdef object memory = None, element
        pipe_hold(p)
        transfer_hold(t)
        try:
            _say_met(self, p)
            stream, handle = to_device.arrays.stream()
            if to_device.is_full():
                said, self.warned = self.warned, True
                to_device.target.say_held(self.on_hold_raise, said)
                if self.pipes.current == p and self.pipes.next_k == k:
                    memory = to_device.room(k)
            if self.pipes.current != p or self.pipes.next_k != k:
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
            if self.pipes.current != p or self.pipes.next_k != k:
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
        self.records[0] += b.rows
        self.stall.since = 0
        self.course.note_iterations(p, k)
        self._take(p, b, k, 1 if p.plan.config.batched else b.rows)

    cdef object _next_record(self, object make):
        # Returns the next element of the chunk.
        cdef list arrays = self.chunk
        cdef int64_t position = self.chunk_at
        cdef bint is_last
        if self.gate.generation != fork_generation() or self.gate.state != STATE_RUNNING:
            self.chunk = None
            self.gate.refuse()
        element = self.views.one(arrays, position)
        if make is not None:
            element = make(element)
        if self.chunk is not arrays or self.chunk_at != position:  # Python code that ran has taken it, as in _deliver
            return _again
        self.chunk_at = position + 1
        is_last = position + 1 == self.chunk_rows
        self.course.take_one(self.pipes.current, is_last)
        if self.course.plan.config.ahead >= 0:
            feed_taken(self.pipes.current, 1)
        if is_last:
            self.chunk = None
        return element

    def next_columns(self):
        """Return the rows of the next batch as they lie: their number, and a list of columns as `Feed.hand` takes it.

        Of a stream without batches these are the elements that are there, as many as a chunk has room for. A stream's
        elements are either all taken so, or none.
        """
        self.raw = True
        return self._next(None)

    cdef int _start(self) except -1:
        # Begins the first run, at the first next(): no threads exist before.
        self.gate.changing = True
        try:
            self._begin_run()
        finally:
            self.gate.changing = False
        # A stop that came meanwhile, or before.
        if self.told or self.gate.state != STATE_RUNNING:
            self.pipes.stop()
        return 0

    cdef int _begin_run(self) except -1:
        cdef Pipe* p = NULL
        self._fail(self.pipes.make(self.course, &p))
        if self.gate.state != STATE_RUNNING:  # closed meanwhile
            pipe_drop(p)
            return 0
        return self._fail(self.pipes.begin(p, self.course))

    cdef bint _discard_pipe(self) except *:
        if not self.pipes.discard():
            return False
        self.chunk = None  # its records are marked by the pipe
        return True

    cdef int _recover(self, uint64_t k) except -1:
        # Ends the run before the record of batch k that can't be read. The next run, which uses the same table, begins
        # with this batch. It delivers what comes before the record, in the order that it had; then what a shuffle has
        # kept of the records before that one; and then it raises the error.
        cdef Pipe* p = self.pipes.current
        self._fail(self.course.cut_before(window_batch(p.window, k), p, self.pipes.feed))
        self._log_files(p, False)
        self._discard_pipe()
        return 0

    cdef bint _leave_out(self) except -1:
        # Ends the run and takes over its bad records, without which the next run goes. False: there are none.
        cdef Pipe* p = self.pipes.current
        p.keeps_files = True
        with nogil:
            runner_stop(p.runner, NULL)
        pipe_hold(p)
        try:
            wait_for_end(p, -1)
        finally:
            pipe_drop(p)
        if self.pipes.current != p:  # a signal handler went to another place
            return True
        if not self.course.left_out.take_bad(p, self.pipes.feed, &self.course.at.start):
            return False
        self._fail(self.course.repeat_fault(p, self.pipes.feed))
        self._log_files(p, False)  # the next run doesn't meet these files
        self._discard_pipe()
        return True

    cdef int _log_files(self, Pipe* p, bint all_) except -1:
        cdef Course course = self.course
        return self._fail(course.left_out.log_files(p, course.table, &course.at, all_, self.pipes.feed))

    cdef int _fail(self, object error) except -1:
        if error is None:
            return 0
        self.gate.state = STATE_FAILED
        self.gate.failure = error
        if self.pipes.current != NULL:
            runner_stop(self.pipes.current.runner, NULL)
            self._close_kept(self.pipes.current)
        raise error

    cdef int _close_kept(self, const Pipe* p) noexcept:
        # Closes the files that workers have left open for a next run, which doesn't come.
        if self.course.table != NULL and (p == NULL or p.keeps_files):
            with nogil:
                table_close_idle(self.course.table)
        return 0

    cdef int _stopped(self, Pipe* p) except -1:
        cdef const Fault* f = stop_fault(&p.runner.stop)
        if f != NULL:
            self._fail(self.course.left_out.error(f, self.pipes.feed))
        wait_out_exit()
        if self.gate.state == STATE_RUNNING:
            self.gate.state = STATE_CLOSED
        self.gate.refuse()
        return 0

    cdef int _end(self, Pipe* p) except -1:
        cdef object error
        self._log_files(p, p.end_status != PULL_FAULT)  # files behind an error were never asked for
        if self.pipes.current != p:  # a signal handler went to another place
            return 0
        if p.end_status == PULL_FAULT:
            self._fail(self.course.left_out.final_error(&p.end_fault, self.pipes.feed))
        error = self.pipes.changed(p, self.course)
        if error is None and self.settle_inputs is not None:
            error = self.settle_inputs()
        if self.pipes.current != p or self.gate.state != STATE_RUNNING:
            return 0
        self._fail(error)
        self.gate.state = STATE_ENDED
        runner_stop(p.runner, NULL)
        raise StopIteration

    def close(self, timeout=1.0):
        """Stop the native threads and wait up to `timeout` seconds (None: for ever) until they have ended.

        Idempotent.
        """
        cdef int64_t deadline = -1 if timeout is None else monotonic_ns() + <int64_t>(timeout * 1e9)
        cdef Pipe* p
        if self.gate.generation != fork_generation():
            return
        if self.gate.state == STATE_RUNNING:
            self.gate.state = STATE_CLOSED
        self.pipes.times.over = True
        self.chunk = None
        p = self.pipes.hold()
        try:
            self.pipes.stop()
            event_notify_all(self.gate.released)
            if p != NULL and not wait_for_end(p, deadline):
                leave_behind(p, timeout)
            else:
                self._close_kept(NULL)
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
        cdef int state = self.gate.state
        cdef Pipe* p
        if state == STATE_ENDED or state == STATE_FAILED or self.gate.generation != fork_generation():
            return None
        p = self.pipes.hold()
        try:
            return None if p == NULL else self.pipes.changed(p, self.course)
        finally:
            pipe_drop(p)

    def poll(self, double seconds):
        """Begin, wait for at most so many seconds, and return whether ``next()`` would not wait now."""
        cdef int64_t deadline
        cdef uint64_t k
        cdef Pipe* p
        cdef bint ready = False
        if self.chunk is not None or not self.gate.is_open():
            return True
        if self.pipes.current == NULL:
            self.gate.enter()
            try:
                if self.pipes.current == NULL and self.gate.state == STATE_RUNNING:
                    self._start()
            finally:
                self.gate.leave()
        p = self.pipes.current
        if p == NULL:
            return True
        k = self.pipes.next_k
        deadline = monotonic_ns() + <int64_t>(seconds * 1e9)
        feed_awaited(p, k)
        pipe_hold(p)
        with nogil:
            ready = wait_until_there(p, k, deadline)
        pipe_drop(p)
        return ready

    def stop(self):
        """Let the stream end, as `close` does, from another thread than the one that uses it. Waits for nothing."""
        self.told = True
        if self.gate.generation == fork_generation():
            self.pipes.stop()

    @property
    def goes_on(self):
        """True if the last call raised the error of an element, and the next call goes on behind that element.

        Any other error means that the call has not happened, or that the iterator is closed.
        """
        return self.behind

    @property
    def closed(self):
        """True if no more elements come: it is closed, ended by an error, past its end, or in a forked child."""
        return not self.gate.is_open()

    def stats(self):
        """Counters of this iterator, as a dict of int."""
        cdef FileTable* t
        cdef LeftOut left_out = self.course.left_out
        self._check_made()
        t = self.course.table
        return {
            "elements": self.course.delivered,
            "records": self.records[0],
            "bytes_read": t.bytes_read.load(kRelaxed),  # relaxed, here and below: statistics
            "files_known": t.known_files.load(kRelaxed),
            "empty_files": t.empty_files.load(kRelaxed),
            "dropped_tails": t.dropped_tails.load(kRelaxed),
            "copied_batches": self.copied,
            **self.pipes.stats(),
            **({"skipped": 0, "skipped_files": 0, "skipped_bytes": 0} if left_out.skips is None
               else left_out.skips.counts()),
        }

    @property
    def times(self):
        """The times of the threads and of the consumers."""
        self._check_made()
        return self.pipes.times

    @property
    def names(self):
        """The names of the files."""
        self._check_made()
        return self.course.files

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
        if not on and self.gate.state != STATE_RUNNING:
            self.pipes.await_notes()
        return self.pipes.trace(on, ranges)

    cdef int _check_made(self) except -1:
        if self.gate.generation != fork_generation():
            self.gate.refuse()
        if self.course.table == NULL:
            never_made()
        return 0

    def position(self):
        """Return the place behind the last delivered element as a `Saved`, and the `draws` that belong to it."""
        cdef Saved place
        cdef Pipe* p
        cdef uint64_t version
        self._check_made()
        while True:
            version = self.course.version
            draws = self.course.drawn
            p = self.pipes.hold()
            try:
                place = self.course.saved(p, self.pipes.feed)
            finally:
                pipe_drop(p)
            place.version = version
            if version == self.course.version:  # making objects may let other calls in
                return place, draws

    def check_place(self):
        """Raise if an error has changed the order of the last element, so that the place behind it can't be saved."""
        cdef Pipe* p = self.pipes.hold()
        cdef list ends = []
        try:
            if self.course.at.cut >= CUT_LOST:
                ends = self.course.ends(p, self.pipes.feed)
        finally:
            pipe_drop(p)
        if ends is None:
            raise_from(CODE_PRECONDITION,
                "no place can be saved here: since an error has ended what a shuffle takes its elements from, they "
                "come in another order than they would without that error, which need not come again. Go on from a "
                "state that was saved before", self.gate.failure)

    def expect_ends(self, list ends):
        """Expect, before the first call of ``next()``, that errors end the source; `ends`: as `Saved.ended`.

        If an error that is to come again does not, what comes before it is as if it did, and then comes a
        `ResumeMismatchError`.
        """
        self._check_made()
        self.course.expect(ends)

    def oldest(self):
        """Return the pass and the number of the first row of its feed that the stream may need again: its block is made
        again."""
        return self.course.at.start.pass_, self.course.at.place.base

    def known_files(self, KnownFiles earlier_files=None):
        """Return the files that were found so far, for the stream of a later pass over them: `Description.known`.

        `earlier_files`: those that an earlier pass has found; they are returned if this one has found no more.
        """
        self._check_made()
        return self.course.known(earlier_files)

    def digests(self, list upto):
        """Return, for each n in `upto` above 0, the digest of the sizes and times of the first n files when they were
        opened."""
        self._check_made()
        return self.course.digests(upto)

    def sizes(self, int64_t known):
        """Return size in bytes and modification time in ns of the first `known` files when they were opened; (-1, 0):
        not opened."""
        self._check_made()
        return self.course.sizes(known)

    def go_to(self, prepare, *arguments):
        """Go to a place: `prepare(*arguments)` returns the arguments of `restore`, or raises if the place is none for
        this stream.

        No other call changes the stream meanwhile. A stream at its end can go to a place; a closed one can't.
        """
        self.gate.enter()
        try:
            self.gate.changing = True
            if self.gate.state == STATE_CLOSED or self.gate.state == STATE_FAILED:
                self.gate.refuse()
            self.restore(**prepare(*arguments))
        finally:
            self.gate.changing = False
            self.gate.leave()

    def restore(self, Saved place not None, list seeds, list counters, draws=None, list later=None, stop=None,
                callback=None, check=None):
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
        draws : object, optional
            The object that belongs to the place.
        later : list of tuple, optional
            The start of later streams: an object whose `pair` and `counter` are set, the pair of seeds, the counter,
            and the counter's next iteration.
        stop : callable, optional
            Ends the waits of the functions that hand in rows.
        callback : callable, optional
            Is called when the run before has ended.
        check : callable, optional
            Is called with the files' digests, once these files are known, and raises if they are not those of the saved
            state. Default: the digest of the last file is compared with the place's.
        """
        cdef Course course = self.course
        cdef Goal goal
        cdef FileTable* t
        self._check_made()
        goal = goal_of(place, seeds, counters, course.shuffles, course.plan.config.blocks, course.plan.blocks,
                       len(course.files))
        course.left_out.check_faults([*goal.breaks.values(), *[one[3:] or None for one in place.ended]])
        for _, _, counter, _ in [] if later is None else later:
            <ShuffleCounter?>counter
        t = course.table_at(place, check)
        try:
            self._leave_place(later, stop, callback)
            course.table, t = t, course.table
        finally:
            table_drop(t)
        self.told = False
        self.gate.state = STATE_RUNNING
        course.arrive(goal, place, draws)
        self.gate.failure = None

    cdef int _leave_place(self, list later, stop, callback) except -1:
        # Ends the run. An error from here on ends the stream, which has left its place and not come to the other one.
        try:
            self.pipes.stop()
            if stop is not None:
                stop()
            self._discard_pipe()
            for one, pair, counter, number in [] if later is None else later:
                one.pair = pair
                one.counter = counter
                (<ShuffleCounter>counter).next_iteration = number
            if callback is not None:
                callback()
        except BaseException as error:
            if self.gate.state == STATE_RUNNING or self.gate.state == STATE_ENDED:
                self._fail(error)
            raise
        if self.gate.state == STATE_CLOSED or self.gate.state == STATE_FAILED:  # closed or failed meanwhile
            self.gate.refuse()
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
