"""The parts of a stream, each without the others: the gate for calls, the place, and the pipes."""
from libc.stdint cimport uint64_t
from queuecore._core.atoms.parking cimport event_notify_all
from queuecore._core.atoms.platform cimport Batch, kRelaxed, layout_hash
from queuecore._core.atoms.process cimport check_layout
from queuecore._core.atoms.slab cimport slab_slot, slots_push
from queuecore._core.atoms.window cimport window_batch, window_ended, window_ready
from queuecore._core.io.sources cimport FileTable, table_drop
from queuecore._core.stream.configure cimport configure
from queuecore._core.stream.course cimport Course
from queuecore._core.stream.describe cimport Description, Keeper, keeper_new
from queuecore._core.stream.gate cimport STATE_CLOSED, STATE_ENDED, STATE_FAILED, STATE_RUNNING, CallGate
from queuecore._core.stream.limits cimport SPIN_NS
from queuecore._core.stream.marks cimport Goal, Saved, goal_of
from queuecore._core.stream.pipe cimport Pipe, pipe_drop
from queuecore._core.stream.pipes cimport Pipes
from queuecore._core.stream.views cimport Views
from queuecore._core.stream.waiting cimport wait_for_batch

check_layout(layout_hash())


cdef class GateAlone:
    """A gate without a stream behind it."""
    cdef CallGate gate

    def __init__(self):
        self.gate = CallGate()
        self.gate.state = STATE_RUNNING

    @property
    def queued(self):
        return self.gate.queued

    def enter(self):
        self.gate.enter()

    def leave(self):
        self.gate.leave()

    def let_in(self):
        return self.gate.let_in()

    def refuse(self):
        self.gate.refuse()

    def change(self, bint changing):
        self.gate.changing = changing

    def close(self):
        self.gate.state = STATE_CLOSED
        event_notify_all(self.gate.released)

    def end(self):
        self.gate.state = STATE_ENDED

    def fail(self, error):
        self.gate.state, self.gate.failure = STATE_FAILED, error


cdef class CourseAlone:
    """A place over files that nobody reads; they are only measured."""
    cdef Keeper keeper
    cdef Views views
    cdef Course course

    def __init__(self, Description description):
        self.keeper = keeper_new(description)
        self.views = Views()
        self.course = Course()
        table = configure(description, self.views, self.keeper)
        self.course.set_up(description, self.keeper.plan, table)

    def saved(self):
        return self.course.saved(NULL, None)

    def arrive(self, Saved place, list seeds, list counters):
        cdef Course course = self.course
        cdef Goal goal = goal_of(place, seeds, counters, course.shuffles, course.plan.config.blocks, course.plan.blocks,
                            course.files.names.count)
        cdef FileTable* table = course.table_at(place, None)
        course.table, table = table, course.table
        table_drop(table)
        course.arrive(goal, place, None)


cdef class PipesAlone:
    """Pipes that begin where a course says, for a consumer that reads the slots of batches of bytes itself."""
    cdef CourseAlone place
    cdef Pipes pipes

    def __init__(self, CourseAlone place, Description description):
        self.place = place
        self.pipes = Pipes()
        self.pipes.keeper = place.keeper
        self.pipes.set_up(description, place.views)

    def begin(self):
        cdef Pipe* p = NULL
        cdef object error = self.pipes.make(self.place.course, &p)
        if error is None:
            error = self.pipes.begin(p, self.place.course)
        if error is not None:
            raise error

    def take(self, bint tells=True):
        """Return the bytes of the next batch, or None at the end; `tells`: the course is told that it was taken."""
        cdef Pipe* p = self.pipes.hold()
        cdef uint64_t k = self.pipes.next_k
        cdef Batch* b
        try:
            while not window_ready(p.window, k):
                if window_ended(p.window, k):
                    return None
                with nogil:
                    wait_for_batch(p, k, SPIN_NS)
            b = window_batch(p.window, k)
            assert not b.failed.load(kRelaxed)  # relaxed: published by B3 in window.pxd
            data = slab_slot(p.slab, b.slot)[:b.rows * p.plan.layout.record_bytes]
            slots_push(&p.slab.stack, b.slot)
            if tells:
                self.place.course.take(p, b, k, 1)
            self.pipes.take(p, b, k)
            return data
        finally:
            pipe_drop(p)

    def discard(self):
        return self.pipes.discard()

    def stats(self):
        return self.pipes.stats()
