"""Running: how the pipes of a stream begin and end, one after the other."""
cimport cython
from libc.stdint cimport int32_t, int64_t, uint64_t
from libc.string cimport memset
from queuecore._core.atoms.process cimport check_layout, fork_generation
from queuecore._core.io.engine cimport engine_counts
from queuecore._core.io.blocks cimport blocks_unfinished
from queuecore._core.io.handed cimport handed_lost
from queuecore._core.io.lanes cimport lanes_saved
from queuecore._core.stream.course cimport Course
from queuecore._core.stream.describe cimport keep_until_unused
from queuecore._core.atoms.errors cimport (
    CODE_EXHAUSTED, CODE_HANDED, CODE_PRECONDITION, CODE_UNAVAILABLE, STAGE_RUNNER, WHAT_BEHIND, WHAT_THREAD,
    fault_begin, new_error)
from queuecore._core.stream.execute cimport execute_init, execute_step
from queuecore._core.stream.feed cimport feed_new
from queuecore._core.stream.marks cimport CUT_FAULT, CUT_LOST, CUT_NONE, CUT_SEAM, cut_expect
from queuecore._core.order.op cimport PULL_FAULT, Cut
from queuecore._core.atoms.parking cimport turn_give, turn_take
from queuecore._core.stream.pipe cimport (
    Beginning, Pipe, beginning_clear, pipe_drop, pipe_hold, pipe_new, slab_bytes)
from queuecore._core.atoms.platform cimport Batch, Fault, kAcquire, kRelaxed, layout_hash
from queuecore._core.atoms.runtime cimport runner_start, runner_stop, stop_fault, wait_out_exit
from queuecore._core.io.sources cimport file_skippable, table_close_idle, table_named_unchanged, table_settle
from queuecore._core.stream.traced cimport trace_pipe
from queuecore._core.stream.gate cimport STATE_CLOSED, STATE_ENDED, STATE_FAILED, STATE_RUNNING
from queuecore._core.stream.waiting cimport wait_for_end
from queuecore._core.atoms.window cimport window_batch

check_layout(layout_hash())


cdef bint _settled(Pipe* p, int64_t* lane, Fault* f) noexcept:
    # False: a file from which records were given has changed, as `f` says; called again, it looks at the others.
    with nogil:
        return _are_ends_settled(p, lane, f) and table_settle(p.table, f)


cdef bint _are_ends_settled(Pipe* p, int64_t* lane, Fault* f) noexcept nogil:
    # A file is looked at when it has been read to its end, and what is found comes behind its last record. Here for
    # files within which the order ends: it never comes to what was found. `lane`: the first of those that are left.
    cdef int64_t file
    while p.blocks != NULL and lane[0] < p.plan.blocks.cycle:
        turn_take(p.turn)
        file = blocks_unfinished(p.blocks, lane[0])
        turn_give(p.turn)
        lane[0] += 1
        if file >= 0 and not table_named_unchanged(p.table, file, f):
            return False
    return True


@cython.no_gc_clear  # __dealloc__ needs its keeper
cdef class Running(Course):
    """The pipes of a stream: a new one begins after a resume, an error of an element, or records that are left out."""

    def __dealloc__(self):
        # If `released` is NULL, CallGate.__cinit__ has failed, and attributes of this class are NULL instead of None.
        if self.released != NULL and self.generation == fork_generation():
            if self._times is not None:
                self._times.end()
                self._times.over = True
            if self.to_device is not None:
                self.to_device.end()
            if self.pipe != NULL:
                runner_stop(self.pipe.runner, NULL)
                pipe_drop(self.pipe)
            # acquire: pairs with _pipe_free in pipe.pyx
            if self.keeper is not None and self.keeper.pipes.load(kAcquire) != 0:
                keep_until_unused(self.keeper)

    cdef Feed _feed(self):
        return self.feed

    cdef int _start(self) except -1:
        # Begins the first run, at the first next(): no threads exist before.
        self.changing = True
        try:
            self._begin_run()
        finally:
            self.changing = False
        # A stop that came meanwhile, or before.
        if self.pipe != NULL and (self.told or self.state != STATE_RUNNING):
            runner_stop(self.pipe.runner, NULL)
        return 0

    cdef int _begin_run(self) except -1:
        cdef int32_t started = 0
        cdef int rc
        cdef int pin_result = 0
        cdef Fault f
        cdef Pipe* p
        cdef Beginning begin
        memset(&begin, 0, sizeof(Beginning))
        begin.start = self.at.start
        begin.place = self.at.place
        begin.saved = self.at.lanes if self.at.has_lanes else NULL
        if self.at.has_lanes:
            self.at.lanes[lanes_saved(self.plan.blocks.cycle)] = 0
        begin.lengths = &self.lengths
        begin.specs = self.specs
        begin.skip = self.delivered
        self.left_out.seams = self._seams()
        if self.at.cut == CUT_SEAM:
            self.at.cut = CUT_NONE
        try:
            self.left_out.begin_run(&begin, self.plan.config.blocks, self.shuffles > 0)
        except BaseException:
            beginning_clear(&begin)
            raise
        self.table.refs.fetch_add(1, kRelaxed)  # relaxed: this object holds a reference
        with nogil:
            p = pipe_new(self.plan, self.keeper.pipes, &begin, self.table, execute_step, &pin_result)
            if p != NULL:
                execute_init(p)
        if p == NULL and pin_result != 0:
            self._fail(self.to_device.refused(pin_result, slab_bytes(self.plan)))
        if p == NULL:
            self._fail(new_error(CODE_EXHAUSTED,
                f"no memory for the buffers of this pipeline, {slab_bytes(self.plan)} bytes for its batches alone. Use "
                "smaller batches, a smaller shuffle buffer or less prefetch"))
        if self.state != STATE_RUNNING:  # closed meanwhile
            pipe_drop(p)
            return 0
        self.next_k = 0
        self.left_out.files_logged = 0
        self.pipe = p
        p.number = self.pipe_count
        self.pipe_count += 1
        if self.traced:
            trace_pipe(p, self.timeline.lines)
        self._times.begin(p.meters, p.steps, &p.table.bytes_read)
        if self.to_device is not None:
            try:
                error = self.to_device.start(p, self.views)
                if error is not None:
                    self._fail(error)
            except BaseException:
                if self.state == STATE_RUNNING:  # the run has not begun; the next call begins it
                    self.to_device.end()
                    self.pipe = NULL
                    self._times.end()
                    pipe_drop(p)
                raise
        with nogil:
            rc = runner_start(p.runner, p.plan.config.threads, "qc-reader", pipe_hold, &started)
        if rc != 0:
            fault_begin(&f, CODE_UNAVAILABLE, WHAT_THREAD, STAGE_RUNNER)
            f.err = rc
            f.a = started + 1
            with nogil:
                runner_stop(p.runner, &f)
            wait_for_end(p, -1)
            self._stopped(p)
        if self.feeder is not None:
            try:
                self.feed = feed_new(p, self.left_out.handed)
                self.keeper.kept[2:] = [self.feed.owners]
                self.feeder(self.feed, self.drawn)
            except BaseException as error:  # without a feeder no rows would come
                self._fail(error)
        return 0

    cdef int _discard_pipe(self) except -1:
        # Stops the pipe and waits for its threads: the next pipe shares the file table.
        cdef Pipe* p = self.pipe
        cdef int64_t asked = 0, depth = 0
        if p == NULL:
            return 0
        pipe_hold(p)
        try:
            with nogil:
                runner_stop(p.runner, NULL)
            wait_for_end(p, -1)
            if self.pipe != p:  # a signal handler has discarded it meanwhile
                return 0
            if self.feed is not None:
                self.feed.owners.clear()
                self.feed = None
            self.lease = None
            self.helped_before += p.shared.helped.load(kRelaxed)  # relaxed: a statistic
            engine_counts(p.engine, &asked, &depth)
            self.asked_before += asked
            self._times.end()
            if self.to_device is not None:
                self.to_device.end()
            self.pipe = NULL
            self.chunk = None  # its records are marked by the pipe
            pipe_drop(p)
        finally:
            pipe_drop(p)
        return 0

    cdef int _recover(self, uint64_t k) except -1:
        # Cuts the source before the record of batch k that can't be read, for the next run, which begins with this
        # batch and uses the same table. It delivers what comes before the record, in the order that it had; then what a
        # shuffle has kept of the records before that one; and then it raises the error.
        cdef Batch* b = window_batch(self.pipe.window, k)
        # No run comes to that record.
        if b.fault.what == WHAT_BEHIND or self.left_out.is_cut(b.fault_pass, b.fault_ordinal):
            self._fail(self.left_out.error(&b.fault, self.feed))
        if self.at.cut == CUT_FAULT:
            self._repeat_fault(self.pipe)
        self.left_out.cut(b.fault_pass, b.fault_ordinal, True, &b.fault)
        self._log_files(self.pipe, False)
        self._discard_pipe()
        return 0

    cdef bint _leave_out(self) except -1:
        # Ends the run and takes over its bad records, without which the next run goes. False: there are none.
        cdef Pipe* p = self.pipe
        p.keeps_files = True
        with nogil:
            runner_stop(p.runner, NULL)
        pipe_hold(p)
        try:
            wait_for_end(p, -1)
        finally:
            pipe_drop(p)
        if self.pipe != p:  # a signal handler went to another place
            return True
        if not self.left_out.take_bad(p, self.feed, &self.at.start):
            return False
        if self.at.cut == CUT_FAULT:
            self._repeat_fault(p)
        self._log_files(p, False)  # the next run doesn't meet these files
        self._discard_pipe()
        return True

    cdef int _repeat_fault(self, Pipe* p) except -1:
        # Lets the next run meet the fault that has ended the input of a shuffle: what was delivered since came in the
        # order of that.
        cdef const Fault* f = &p.order.fault
        cdef Cut expected
        if handed_lost(p.blocks):
            self._fail(new_error(CODE_PRECONDITION,
                "an element could not be made, and those behind it can't be made in the order that they had: an "
                "error, which was to come at their end, has changed it. Go on from a state that was saved before"))
        if p.order.interrupted != PULL_FAULT or self.left_out.cut_count > 0:
            self._fail(self.left_out.error(&p.order.fault, self.feed))
        if f.code == CODE_HANDED:  # its number is one of this run's feed: the next run meets the error itself
            cut_expect(&expected, p.order.at.pass_, p.order.at.position)
            f = &expected.fault
        self.left_out.cut(p.order.at.pass_, p.order.at.position, False, f)
        self.at.cut = CUT_LOST
        return 0

    cdef int _log_files(self, Pipe* p, bint all_) except -1:
        cdef object error = self.left_out.log_files(p, self.table, &self.at, all_, self.feed)
        if error is not None:
            self._fail(error)
        return 0

    cdef int _fail(self, object error) except -1:
        self.state = STATE_FAILED
        self.failure = error
        if self.pipe != NULL:
            runner_stop(self.pipe.runner, NULL)
            self._close_kept(self.pipe)
        raise error

    cdef int _close_kept(self, const Pipe* p) noexcept:
        # Closes the files that workers have left open for a next run, which doesn't come.
        if self.table != NULL and (p == NULL or p.keeps_files):
            with nogil:
                table_close_idle(self.table)
        return 0

    cdef int _stopped(self, Pipe* p) except -1:
        cdef const Fault* f = stop_fault(&p.runner.stop)
        if f != NULL:
            self._fail(self.left_out.error(f, self.feed))
        wait_out_exit()
        if self.state == STATE_RUNNING:
            self.state = STATE_CLOSED
        self._refuse()
        return 0

    cdef int _end(self, Pipe* p) except -1:
        cdef object error
        self._log_files(p, p.end_status != PULL_FAULT)  # files behind an error were never asked for
        if self.pipe != p:  # a signal handler went to another place
            return 0
        if p.end_status == PULL_FAULT:
            self._fail(self.left_out.final_error(&p.end_fault, self.feed))
        error = self._changed(p)
        if error is None and self.settle_inputs is not None:
            error = self.settle_inputs()
        if self.pipe != p or self.state != STATE_RUNNING:
            return 0
        if error is not None:
            self._fail(error)
        self.state = STATE_ENDED
        runner_stop(p.runner, NULL)
        raise StopIteration

    cdef object _changed(self, Pipe* p):
        # Returns the error of a file that has changed since records were given from it; None: there is none, or it is
        # left out and logged.
        cdef Fault f
        cdef int64_t lane = 0
        cdef object error = None
        while error is None and not _settled(p, &lane, &f):
            if self.left_out.skips is None or not file_skippable(f.code, f.what, f.err):
                error = self.left_out.error(&f, self.feed)
            else:
                error = self.left_out.log_file(&f, self.table, self.feed)
        return error
