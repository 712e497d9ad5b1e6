"""Waiting: the work and the sleep of a consumer while a pipe has nothing for it."""

cimport cython
from cpython.exc cimport PyErr_CheckSignals
from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t
from queuecore._core.atoms.errors cimport CODE_STALL, new_error, shown_name
from queuecore._core.atoms.process cimport check_layout
from queuecore._core.stream.execute cimport execute_help
from queuecore._core.stream.limits cimport SPIN_NS
from queuecore._core.stream.meter cimport AT_INPUT
from queuecore._core.atoms.parking cimport (
    event_cancel, event_notify_all, event_prepare, event_wait, turn_give, turn_take)
from queuecore._core.stream.pipe cimport SETTLE_ASKED, SETTLE_DONE, Pipe
from queuecore._core.atoms.platform cimport Window, cpu_pause, cpu_ticks, kAcquire, kRelaxed, layout_hash, monotonic_ns
from queuecore._core.atoms.runtime cimport (
    WAIT_SLICE_NS, runner_join, runner_stuck, still_waiting, stop_requested, waited)
from queuecore._core.atoms.times cimport ON_INPUT, begin_wait, end_wait
from queuecore._core.io.blocks cimport Lane
from queuecore._core.io.names cimport MOST_FILES, name_of
from queuecore._core.io.sources cimport table_pinned
from queuecore._core.stream.traced cimport note_waited
from queuecore._core.atoms.window cimport window_ended, window_ready

from queuecore._checks.warnings import warn

check_layout(layout_hash())

cdef enum:
    PATIENCE = 9          # times the timeout of a close, for threads that get no processor
    LOOK_NS = 50000000    # between two looks at what they do


cdef int64_t wait_for_batch(Pipe* p, uint64_t k, int64_t spin_ns) noexcept nogil:
    cdef int64_t begin_ns = monotonic_ns(), since = cpu_ticks(), helped = 0, now
    cdef bint is_whole
    begin_wait(ON_INPUT)
    is_whole = _wait_for_batch(p, k, spin_ns, begin_ns, &helped)
    end_wait()
    now = cpu_ticks()
    # relaxed: a statistic; several consumers may wait
    p.meters.ticks[AT_INPUT].fetch_add(now - since - helped, kRelaxed)
    note_waited(p, since, now)
    if not is_whole:
        return spin_ns
    # Spinning pays if a batch comes about as soon as a sleeper would be awake; otherwise the next spin is shorter.
    return SPIN_NS if monotonic_ns() - begin_ns < 4 * SPIN_NS else spin_ns // 2


cdef bint _wait_for_batch(Pipe* p, uint64_t k, int64_t spin_ns, int64_t now, int64_t* helped) noexcept nogil:
    # False: the wait tells nothing about how long to spin. *helped: ticks of units that this thread ran.
    cdef Window* w = p.window
    cdef int64_t slice_end = now + WAIT_SLICE_NS
    cdef int64_t spin_end, took
    cdef uint32_t epoch
    # relaxed: only the number matters; the thread that took k publishes nothing else by it
    while (not window_ready(w, k) and w.consumed.load(kRelaxed) <= k and not window_ended(w, k)
           and not stop_requested(&p.runner.stop)):
        now = monotonic_ns()
        if now >= slice_end:
            return False
        if p.plan.config.help:
            end_wait()
            took = execute_help(p)
            begin_wait(ON_INPUT)
            if took >= 0:
                helped[0] += took
                waited()
                continue
        # There is room, and workers may still sleep: Pipes.pass_over wakes them only once half of the window is free.
        event_notify_all(&p.runner.work)
        spin_end = now + (spin_ns if p.runner.spin else 0)
        while now < spin_end and not window_ready(w, k):  # ends with the batch, or when a wake would have been cheaper
            cpu_pause()
            now = monotonic_ns()
        if window_ready(w, k):
            return False
        epoch = event_prepare(&w.arrived)
        if window_ready(w, k) or window_ended(w, k) or stop_requested(&p.runner.stop):
            event_cancel(&w.arrived, epoch)
            return False
        event_wait(&w.arrived, epoch, slice_end)
    return True


cdef bint wait_for_end(Pipe* p, int64_t deadline) except *:
    cdef int64_t until
    cdef bint quiet
    while True:
        until = monotonic_ns() + WAIT_SLICE_NS
        if deadline >= 0 and until > deadline:
            until = deadline
        with nogil:
            quiet = runner_join(p.runner, until)
        if quiet:
            return True
        PyErr_CheckSignals()
        if deadline >= 0 and monotonic_ns() >= deadline:
            return False


cdef int leave_behind(Pipe* p, double timeout) except -1:
    cdef int64_t patience = monotonic_ns() + <int64_t>(PATIENCE * timeout * 1e9)
    cdef int32_t stuck = runner_stuck(p.runner)
    while stuck == 0 and monotonic_ns() < patience:
        if wait_for_end(p, min(patience, monotonic_ns() + LOOK_NS)):
            return 0
        stuck = runner_stuck(p.runner)
    if stuck > 0:
        warn(
            f"{stuck} native thread(s) did not end within {timeout:g} s: stuck in a read. They are left behind with "
            "the memory they may still write to", 2)
    elif timeout > 0:
        warn(
            f"{p.runner.live.load(kAcquire)} native thread(s) did not end within {(1 + PATIENCE) * timeout:g} s: they "
            "get no processor, or do work that does not end. They are left behind with the memory they may still "
            "write to", 2)
    return 0


cdef bint _is_looked_at(Pipe* p) noexcept nogil:
    cdef bint over
    turn_take(p.turn)
    over = p.settling == SETTLE_DONE
    turn_give(p.turn)
    return over or stop_requested(&p.runner.stop)


cdef void _wait_slice(Pipe* p) noexcept nogil:
    cdef uint32_t epoch = event_prepare(&p.window.arrived)
    if _is_looked_at(p):
        event_cancel(&p.window.arrived, epoch)
    else:
        event_wait(&p.window.arrived, epoch, monotonic_ns() + WAIT_SLICE_NS)


cdef bint wait_for_look(Pipe* p) except *:
    with nogil:
        turn_take(p.turn)
        p.settling = SETTLE_ASKED
        turn_give(p.turn)
        event_notify_all(&p.runner.work)
    waited()
    while not _is_looked_at(p):
        begin_wait(ON_INPUT)
        with nogil:
            _wait_slice(p)
        end_wait()
        PyErr_CheckSignals()
        if not _is_looked_at(p):
            still_waiting()
    waited()
    return stop_requested(&p.runner.stop) or p.settled


cdef bint wait_until_there(Pipe* p, uint64_t k, int64_t deadline) noexcept nogil:
    cdef uint32_t epoch
    cdef bint is_there
    while True:
        epoch = event_prepare(&p.window.arrived)
        is_there = window_ready(p.window, k) or window_ended(p.window, k) or stop_requested(&p.runner.stop)
        if is_there or monotonic_ns() >= deadline:
            event_cancel(&p.window.arrived, epoch)
            return is_there
        begin_wait(ON_INPUT)
        event_wait(&p.window.arrived, epoch, deadline)  # ends with an element, the end, a stop, or the time
        end_wait()


@cython.final
cdef class Stall:
    def __init__(self, double warn_s, double timeout_s):
        self.warn_ns = -1 if warn_s < 0 else <int64_t>(warn_s * 1e9)
        self.timeout_ns = -1 if timeout_s < 0 else <int64_t>(timeout_s * 1e9)

    cdef object watch(self, Pipe* p):
        cdef int64_t now = monotonic_ns()
        # relaxed: statistics
        cdef int64_t moved = p.table.bytes_read.load(kRelaxed) + <int64_t>p.shared.planned.load(kRelaxed)
        if moved != self.moved or self.since == 0:
            self.moved = moved
            self.since = now
            self.warned = False
        elif 0 <= self.timeout_ns <= now - self.since:
            return self._error(p, now)
        elif 0 <= self.warn_ns <= now - self.since and not self.warned:
            self.warned = True
            warn(str(self._error(p, now)), 3)
        return None

    cdef object _error(self, Pipe* p, int64_t now):
        cdef int64_t f = -1
        cdef const Lane* lane
        cdef list names = []
        while len(names) < 4:
            f = table_pinned(p.table, f + 1)
            if f < 0:
                break
            names.append(shown_name(<bytes>name_of(p.table.names, f)))
        lane = p.blocks.lanes if p.blocks != NULL and p.plan.blocks.encoding else NULL
        while lane != NULL:
            turn_take(p.turn)
            f = lane.next.file if lane.streaming else -1
            turn_give(p.turn)
            lane = lane.beside
            if f >= 0 and len(names) < 4:
                names.append(shown_name(<bytes>name_of(p.table.names, f)))
        held = p.shared.leases.load(kRelaxed)  # relaxed: consumers take leases under the GIL
        if names:
            what = f"reads of {', '.join(map(repr, names))} have not come back"
        else:
            what = "folders are still listed" if p.table.files.load(kRelaxed) == MOST_FILES else "no file is being read"
        return new_error(CODE_STALL,
            f"nothing has moved for {(now - self.since) / 1e9:.3g} s: {what}; the consumer holds {held} batches, "
            f"{p.runner.live.load(kRelaxed)} threads run", dict(path=names[0] if names else None, stage="read"))
