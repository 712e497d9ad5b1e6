"""Pipes: those of a stream, one after the other."""
cimport cython
from libc.stdint cimport int32_t, int64_t, uint64_t
from queuecore._core.atoms.errors cimport (
    CODE_EXHAUSTED, CODE_UNAVAILABLE, STAGE_RUNNER, WHAT_THREAD, fault_begin, new_error)
from queuecore._core.atoms.parking cimport event_has_waiters, event_notify_all, turn_give, turn_take
from queuecore._core.atoms.platform cimport Batch, Fault, kAcquire, kRelaxed, layout_hash, monotonic_ns
from queuecore._core.atoms.process cimport check_layout, fork_generation
from queuecore._core.atoms.runtime cimport runner_join, runner_start, runner_stop, stop_fault
from queuecore._core.atoms.timeline cimport Timeline
from queuecore._core.atoms.window cimport window_batch, window_ready, window_take
from queuecore._core.device.transfer cimport transfer_stop
from queuecore._core.io.blocks cimport blocks_unfinished
from queuecore._core.io.engine cimport engine_counts
from queuecore._core.io.sources cimport file_skippable, table_unsettled
from queuecore._core.stream.course cimport Course
from queuecore._core.stream.describe cimport Description, keep_until_unused
from queuecore._core.stream.execute cimport execute_init, execute_step
from queuecore._core.stream.feed cimport feed_new
from queuecore._core.stream.left_out cimport LeftOut
from queuecore._core.stream.meter cimport DEPTHS, SAMPLED, Times
from queuecore._core.stream.pipe cimport (
    BatchLease, Beginning, Pipe, beginning_clear, lease_new, pipe_drop, pipe_hold, pipe_memory, pipe_new, slab_bytes)
from queuecore._core.stream.to_device cimport ToDevice
from queuecore._core.stream.traced cimport note_taken, trace_pipe
from queuecore._core.stream.views cimport Views
from queuecore._core.stream.waiting cimport wait_for_end, wait_for_look

check_layout(layout_hash())

cdef enum:
    NOTES_NS = 1000000000  # the end of a trace waits so long for what threads that end note last


cdef bint _unsettled(Pipe* p) noexcept nogil:
    # Returns whether there are files of which a part was read: so most streams ask nothing of a worker at their end.
    cdef int64_t lane, file = -1
    if p.blocks != NULL:
        turn_take(p.turn)
        for lane in range(p.settle_lane, p.plan.blocks.cycle):
            file = max(file, blocks_unfinished(p.blocks, lane))
        turn_give(p.turn)
    return file >= 0 or table_unsettled(p.table)


@cython.no_gc_clear  # __dealloc__ needs its keeper
cdef class Pipes:
    """The pipes of a stream, of which one at a time runs."""

    def __cinit__(self, *_, **__):
        self.generation = fork_generation()
        self.times = Times.__new__(Times)
        self.ready = self.times.ready

    def __dealloc__(self):
        if self.generation != fork_generation():
            return
        if self.times is not None:  # None: there was no memory for it
            self.times.end()
            self.times.over = True
        if self.to_device is not None:
            self.to_device.end()
        if self.current != NULL:
            runner_stop(self.current.runner, NULL)
            pipe_drop(self.current)
        # acquire: pairs with _pipe_free in pipe.pyx
        if self.keeper is not None and self.keeper.pipes.load(kAcquire) != 0:
            keep_until_unused(self.keeper)

    cdef int set_up(self, Description d, Views views) except -1:
        self.views = views
        self.feeder = d.feeder
        if d.target is not None:
            self.to_device = ToDevice.__new__(ToDevice)
            self.to_device.set_target(d.target)
        self.times.make(self.keeper.plan.config.threads)
        return 0

    cdef object make(self, Course course, Pipe** pipe):
        cdef Beginning begin
        cdef Pipe* p
        cdef int pin_result = 0
        try:
            course.begin(&begin)
        except BaseException:
            beginning_clear(&begin)
            raise
        course.table.refs.fetch_add(1, kRelaxed)  # relaxed: the course holds a reference
        with nogil:
            p = pipe_new(course.plan, self.keeper.pipes, &begin, course.table, execute_step, &pin_result)
            if p != NULL:
                execute_init(p)
        pipe[0] = p
        if p != NULL:
            return None
        if pin_result != 0:
            return self.to_device.refused(pin_result, slab_bytes(course.plan))
        return new_error(CODE_EXHAUSTED,
            f"no memory for the buffers of this pipeline, {slab_bytes(course.plan)} bytes for its batches alone. Use "
            "smaller batches, a smaller shuffle buffer or less prefetch")

    cdef object begin(self, Pipe* p, Course course):
        cdef LeftOut left_out = course.left_out
        cdef int32_t started = 0
        cdef const Fault* stopped
        cdef Fault f
        cdef int rc
        self.next_k = 0
        left_out.files_logged = 0
        self.current = p
        p.number = self.count
        self.count += 1
        if self.traced:
            trace_pipe(p, self.timeline.lines)
        self.times.begin(p.meters, p.steps, &p.table.bytes_read)
        if self.to_device is not None:
            try:
                error = self.to_device.start(p, self.views)
            except BaseException:
                self.to_device.end()
                self.current = NULL
                self.times.end()
                pipe_drop(p)
                raise
            if error is not None:
                return error
        with nogil:
            rc = runner_start(p.runner, p.plan.config.threads, "qc-reader", pipe_hold, &started)
        if rc != 0:
            fault_begin(&f, CODE_UNAVAILABLE, WHAT_THREAD, STAGE_RUNNER)
            f.err = rc
            f.a = started + 1
            with nogil:
                runner_stop(p.runner, &f)
            wait_for_end(p, -1)
            stopped = stop_fault(&p.runner.stop)
            return None if stopped == NULL else left_out.error(stopped, None)  # NULL: it was stopped before
        if self.feeder is not None:
            try:
                self.feed = feed_new(p, left_out.handed)
                self.keeper.kept[2:] = [self.feed.owners]
                self.feeder(self.feed, course.drawn)
            except BaseException as error:  # without a feeder no rows would come
                return error
        return None

    cdef Pipe* hold(self) noexcept:
        if self.current != NULL:
            pipe_hold(self.current)
        return self.current

    cdef void wake(self) noexcept:
        cdef Pipe* p = self.hold()
        if p == NULL:
            return
        with nogil:
            event_notify_all(&p.runner.work)
            event_notify_all(&p.window.arrived)
        pipe_drop(p)

    cdef void stop(self) noexcept:
        cdef Pipe* p = self.hold()
        if p == NULL:
            return
        if self.to_device is not None and self.to_device.transfer != NULL:
            transfer_stop(self.to_device.transfer)
        with nogil:
            runner_stop(p.runner, NULL)
            event_notify_all(&p.window.arrived)
            event_notify_all(&p.shared.room)
        pipe_drop(p)

    cdef bint discard(self) except *:
        cdef Pipe* p = self.hold()
        cdef int64_t pool = 0, rings = 0, depth = 0
        if p == NULL:
            return False
        try:
            with nogil:
                runner_stop(p.runner, NULL)
            wait_for_end(p, -1)
            if self.current != p:
                return False
            if self.feed is not None:
                self.feed.owners.clear()
                self.feed = None
            self.lease = None
            self.helped_before += p.shared.helped.load(kRelaxed)  # relaxed: a statistic
            engine_counts(p.engine, &pool, &rings, &depth)
            self.pool_before += pool
            self.rings_before += rings
            self.times.end()
            if self.to_device is not None:
                self.to_device.end()
            self.current = NULL
            pipe_drop(p)
        finally:
            pipe_drop(p)
        return True

    cdef BatchLease leased(self, Pipe* p, uint64_t k):
        if self.lease is None:
            self.lease = lease_new(p, window_batch(p.window, k))
        return self.lease

    cdef void take(self, Pipe* p, const Batch* b, uint64_t k) noexcept nogil:
        if k % SAMPLED == 0:
            self._count_ready(p, k)
        note_taken(p, b, k)
        self.pass_over(p, k)

    cdef void pass_over(self, Pipe* p, uint64_t k) noexcept nogil:
        self.next_k = k + 1
        window_take(p.window, k)
        # Workers that found the window full are woken once half of it is free: one wake for several batches.
        if (event_has_waiters(&p.runner.work)
                and p.shared.planned.load(kRelaxed) - self.next_k <= p.window.width // 2):  # relaxed: a hint
            event_notify_all(&p.runner.work)

    cdef void _count_ready(self, Pipe* p, uint64_t k) noexcept nogil:
        # Notes how many batches behind batch k are ready.
        cdef uint64_t n = 1
        cdef int32_t depth = 0
        while depth < DEPTHS - 1 and n < p.window.width and window_ready(p.window, k + n):
            depth += 1
            n *= 2
        self.ready[depth] += 1

    cdef object changed(self, Pipe* p, Course course):
        cdef LeftOut left_out = course.left_out
        cdef Fault f
        cdef object error = None
        p.settle_lane = 0
        while error is None and _unsettled(p) and not wait_for_look(p):
            f = p.settle_fault
            if left_out.skips is None or not file_skippable(f.code, f.what, f.err):
                error = left_out.error(&f, self.feed)
            else:
                error = left_out.log_file(&f, course.table, self.feed)
        return error

    cdef Timeline trace(self, bint on, ranges):
        cdef Pipe* p
        if self.timeline is None:
            self.timeline = Timeline(self.keeper.plan.config.threads, *(ranges if self.to_device is not None else ()))
        self.traced = on
        p = self.current
        if p != NULL:
            trace_pipe(p, self.timeline.lines if on else NULL)
            if self.to_device is not None:
                self.to_device.trace(p)
        return self.timeline

    cdef void await_notes(self) noexcept:
        cdef Pipe* p = self.hold()
        cdef int64_t deadline = monotonic_ns() + NOTES_NS
        if p == NULL:
            return
        with nogil:
            runner_join(p.runner, deadline)
        if self.to_device is not None:
            self.to_device.join(deadline)
        pipe_drop(p)

    cdef dict stats(self):
        cdef Pipe* p = self.hold()
        cdef int64_t dropped = 0, helped = self.helped_before, pool = 0, rings = 0, depth = 0
        try:
            if p != NULL:
                with nogil:
                    turn_take(p.turn)
                    dropped = p.order.dropped
                    turn_give(p.turn)
                helped += p.shared.helped.load(kRelaxed)  # relaxed, here and below: statistics
                engine_counts(p.engine, &pool, &rings, &depth)
            pool += self.pool_before
            rings += self.rings_before
            return {
                "dropped_records": dropped,
                "helped_units": helped,
                "leases": 0 if p == NULL else p.shared.leases.load(kRelaxed) - (self.lease is not None
                                                                                and self.lease.pipe == p),
                "threads": 0 if p == NULL else p.runner.live.load(kRelaxed),
                "memory_bytes": 0 if p == NULL else pipe_memory(p),
                "io_requests": pool + rings,
                "io_uring_requests": rings,
                "io_depth": depth,
                **({} if self.to_device is None else self.to_device.stats()),
            }
        finally:
            pipe_drop(p)
