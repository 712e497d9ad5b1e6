"""Queues: elements that lie in slots, handed over in the order of their arrival."""
cimport cython
from cpython.exc cimport PyErr_CheckSignals
from cpython.object cimport PyObject
from cpython.sequence cimport PySequence_Fast_ITEMS
from libc.stdint cimport int64_t, uint32_t
from libc.string cimport memcpy
from queuecore._core.atoms.errors cimport (
    CODE_CANCELLED, CODE_DEADLINE, CODE_EXHAUSTED, CODE_FORKED, CODE_INVALID_ARGUMENT, CODE_OUT_OF_RANGE,
    CODE_PRECONDITION, new_error, raise_error)
from queuecore._core.atoms.memory cimport calloc, free, malloc
from queuecore._core.atoms.process cimport check_layout, fork_generation
from queuecore._core.handoff.handoff cimport (
    HAND_BUSY, HAND_CANCELLED, HAND_DONE, HAND_NO_MEMORY, HAND_SLICE, SIDE_GET, SIDE_PUT, STORE_FIFO, STORE_PRIORITY,
    STORE_RANDOM, FrontRun, Hand, QueueOp, get_try, hand_cancel, hand_free, hand_init, hand_leave, hand_puts,
    hand_refill, hand_return, hand_settle, hand_size, hand_unsettled, hand_wait, put_try)
from queuecore._core.atoms.platform cimport (
    alloc_lines, kAcquire, kNoSize, kRelaxed, layout_hash, monotonic_ns, size_product, size_sum)
from queuecore._core.atoms.pool cimport POOL_SLOTS, pool_row
from queuecore._core.atoms.random cimport Philox, philox_seed
from queuecore._core.atoms.runtime cimport StopEvent, exiting, main_over, still_waiting, wait_out_exit, waited
from queuecore._core.atoms.times cimport ON_INPUT, ON_OUTPUT, begin_wait, end_wait
from queuecore._core.handoff.slots cimport QueueDescription, Slots, copy_bytes

import threading

check_layout(layout_hash())

cdef enum:
    BLOCK_ROWS = 4096       # most rows that a long enqueue_many fills ahead
    BLOCK_BYTES = 16 << 20
    SLICE_NS = 50000000     # a Python thread looks for signals this often

# Numbers for Python: the order in which elements come out.
FIFO, RANDOM, PRIORITY = STORE_FIFO, STORE_RANDOM, STORE_PRIORITY

cdef object _watching = threading.local()


def watch(look):
    """Let ``look(name of the queue)`` be called every 50 ms while this thread waits for a queue, and end the wait by
    what it raises.

    Returns
    -------
    callable or None
        What was called before. `None`: nothing is, from now on.
    """
    before = getattr(_watching, "look", None)
    _watching.look = look
    return before


cdef inline int64_t _deadline(object timeout) except -2:
    # Returns a monotonic time in nanoseconds, or -1: none.
    cdef double seconds
    if timeout is None:
        return -1
    seconds = timeout
    if not seconds >= 0:
        raise_error(CODE_INVALID_ARGUMENT, f"timeout must be None or a number of seconds not below 0, not {timeout!r}")
    if seconds > 1e9:
        return -1
    return monotonic_ns() + <int64_t>(seconds * 1e9)


cdef inline size_t _tokens_end(int64_t n) noexcept nogil:
    # Returns the offset of the keys, if the queue has keys, in a run of n tokens. For an n beyond any memory the offset
    # is one that no allocator grants.
    cdef size_t nbytes = size_sum(sizeof(FrontRun) + 7, size_product(n, sizeof(uint32_t)))
    return nbytes if nbytes == kNoSize else nbytes // 8 * 8


cdef inline int64_t _slice_end(int64_t deadline) noexcept nogil:
    cdef int64_t until = monotonic_ns() + SLICE_NS
    return until if deadline < 0 or until < deadline else deadline


@cython.final
cdef class NativeQueue(Slots):
    """Elements of some components, in a store of one kind.

    The queue classes of :mod:`queuecore.queues` are names for it.

    Parameters
    ----------
    description : QueueDescription
    """

    def __cinit__(self, QueueDescription description not None):
        self.generation = fork_generation()
        self.hand = <Hand*>alloc_lines(sizeof(Hand))
        self.random = <Philox*>calloc(1, sizeof(Philox))
        self.spare = <FrontRun*>malloc(_tokens_end(1) + sizeof(int64_t))
        if self.hand == NULL or self.random == NULL or self.spare == NULL:
            raise MemoryError
        philox_seed(self.random, description.seeds[0], description.seeds[1])
        if description.capacity >= POOL_SLOTS:
            raise_error(CODE_INVALID_ARGUMENT, f"capacity must be below {POOL_SLOTS}, or negative for a queue without "
                                               "bound")
        if not hand_init(self.hand, description.store, description.capacity, description.min_after_dequeue,
                         description.start):
            raise MemoryError

    def __dealloc__(self):
        if self.hand != NULL:
            hand_free(self.hand)
            free(self.hand)
        free(self.spare)
        free(self.random)

    cdef int _refuse(self) except -1:
        return self._forked() if self.generation != fork_generation() else 0

    cdef void _note_depth(self) noexcept:
        cdef int64_t size, i = 0
        self.gets += 1
        if self.gets % SAMPLED == 1:
            size = hand_size(self.hand)
            while size > 0:
                size >>= 1
                i += 1
            self.depths[i] += 1

    cdef int _forked(self) except -1:
        raise_error(CODE_FORKED,
            f"{self.kind} {self.name!r} was made before os.fork(): other threads may have been inside it. Make a "
            "queue in the child")

    cdef int64_t _key(self, uint32_t slot) noexcept:
        # The key of a PriorityQueue's element is its first component.
        return (<int64_t*>pool_row(self.pool, slot))[0] if self.hand.store == STORE_PRIORITY else 0

    # Putting

    def enqueue(self, values, timeout=None):
        """Put one element into the queue."""
        cdef int64_t n = 0, key
        cdef uint32_t slot
        cdef int rc
        cdef object ready
        cdef PyObject* component
        cdef PyObject** components
        self._refuse()
        if self._is_component(values):
            ready = self._part_of(0, values, False)
            component = <PyObject*>ready
            components = &component
        else:
            ready = self._prepare(self._components_of(values), False, &n)
            components = PySequence_Fast_ITEMS(ready)
        slot = self._slot()
        try:
            self._fill(slot, components, -1)
            key = self._key(slot)
            # A FIFO keeps the GIL: nothing here waits, not even when operations in line are let act.
            if self.hand.store == STORE_FIFO:
                rc = put_try(self.hand, slot, key)
                if rc == HAND_DONE and hand_unsettled(self.hand):
                    hand_settle(self.hand, self.random)
            else:
                with nogil:
                    rc = put_try(self.hand, slot, key)
                    if rc == HAND_DONE:
                        hand_settle(self.hand, self.random)
            if rc == HAND_DONE:
                return
        except BaseException:
            self._release(&slot, 1)
            raise
        self._put(&slot, &key, 1, timeout)

    def enqueue_many(self, values, timeout=None):
        """Put the rows of the components, in one piece."""
        cdef int64_t n = 0, position = 0, count, filled = 0, deadline
        cdef QueueOp op
        cdef object ready
        self._refuse()
        ready = self._prepare(self._components_of(values), True, &n)
        deadline = _deadline(timeout)
        if n == 0:
            return
        # As many rows as allowed are filled before the put, so that the thread that makes room can let them in at once.
        count = n if n < BLOCK_ROWS else BLOCK_ROWS
        if self.pool.slot_bytes > 0 and count > <int64_t>(BLOCK_BYTES // self.pool.slot_bytes):
            count = BLOCK_BYTES // self.pool.slot_bytes + 1
        op.tokens = <uint32_t*>malloc(size_product(count, sizeof(uint32_t)))
        op.keys = <int64_t*>malloc(size_product(count, sizeof(int64_t)))
        try:
            if op.tokens == NULL or op.keys == NULL:
                raise MemoryError
            while position < n:
                if count > n - position:
                    count = n - position
                filled = 0
                while filled < count:
                    op.tokens[filled] = self._slot()
                    filled += 1
                    self._fill(op.tokens[filled - 1], PySequence_Fast_ITEMS(ready), position + filled - 1)
                    (<int64_t*>op.keys)[filled - 1] = self._key(op.tokens[filled - 1])
                if position == 0:
                    op.n = count
                    op.more = count < n
                else:
                    with nogil:
                        hand_refill(self.hand, self.random, &op, count, position + count < n)
                self._wait_put(&op, deadline, position, n)
                position += count
                filled = op.done = 0  # all of them belong to the queue
        finally:
            with nogil:
                hand_leave(self.hand, SIDE_PUT, self.random, &op)
            if filled > 0:
                self._release(op.tokens + op.done, filled - op.done)
            free(op.tokens)
            free(<void*>op.keys)

    cdef int _put(self, uint32_t* tokens, int64_t* keys, int64_t n, object timeout) except -1:
        # Puts filled slots; slots that could not be put are freed. keys: room for n keys.
        cdef QueueOp op
        cdef int64_t i
        op.tokens = tokens
        op.n = n
        op.keys = keys
        for i in range(n):
            keys[i] = self._key(tokens[i])
        try:
            self._wait_put(&op, _deadline(timeout), 0, n)
        finally:
            with nogil:
                hand_leave(self.hand, SIDE_PUT, self.random, &op)
            self._release(tokens + op.done, n - op.done)
        return 0

    cdef int _wait_put(self, QueueOp* op, int64_t deadline, int64_t before, int64_t total) except -1:
        cdef int rc = self._wait(SIDE_PUT, op, deadline)
        if rc == HAND_DONE:
            return 0
        if rc == HAND_NO_MEMORY:
            raise_error(CODE_EXHAUSTED, f"no memory for more elements of {self.kind} {self.name!r}")
        if rc != HAND_SLICE:
            raise self._closed_for_putting(rc)
        raise_error(CODE_DEADLINE,
            f"{self.kind} {self.name!r} had no room in time" if total == 1 else
            f"{self.kind} {self.name!r} had no room in time; {before + op.done} of {total} rows are in it")

    cdef int _wait(self, int side, QueueOp* op, int64_t deadline) except -1:
        # Returns the operation's result; HAND_SLICE: the time ran out, and the operation has left its line.
        cdef int rc = HAND_SLICE
        cdef int64_t until
        if deadline < 0:
            waited()
        while rc == HAND_SLICE:
            until = _slice_end(deadline)
            with nogil:
                begin_wait(ON_INPUT if side == SIDE_GET else ON_OUTPUT)
                rc = hand_wait(self.hand, side, self.random, op, until)
                end_wait()
            if rc == HAND_SLICE:
                if deadline >= 0 and monotonic_ns() >= deadline:
                    with nogil:
                        rc = hand_leave(self.hand, side, self.random, op)
                    return rc
                self._look_up(deadline < 0)
        waited()
        return rc

    cdef int _look_up(self, bint for_ever) except -1:
        # Called between two slices of a wait. Calls the function that this thread gave to `watch`.
        look = getattr(_watching, "look", None)
        if look is not None:
            look(self.name)
        PyErr_CheckSignals()
        if for_ever:
            still_waiting()
        else:
            wait_out_exit()
        return 0

    cdef object _closed_for_putting(self, int rc):
        cdef object error
        if rc == HAND_CANCELLED:
            error = new_error(CODE_CANCELLED, f"the wait to put into {self.kind} {self.name!r} was cancelled when it "
                                              "was closed")
        else:
            error = new_error(CODE_CANCELLED, f"{self.kind} {self.name!r} is closed")
        return self._with_cause(error)

    cdef object _with_cause(self, object error):
        if self.failure is not None:
            error.args = (f"{error.args[0]}, since what fills it failed: {self.failure!r}",)
            error.__cause__ = self.failure
        return error

    # Getting

    def dequeue(self, timeout=None, list out=None):
        """Take one element. Return its only component, a list of components, or a dict."""
        cdef uint32_t slot = 0
        cdef int rc
        cdef QueueOp op
        self._refuse()
        self._note_depth()
        if self.hand.store == STORE_FIFO:  # as in enqueue
            rc = get_try(self.hand, self.random, &slot)
            if rc == HAND_DONE and hand_unsettled(self.hand):
                hand_settle(self.hand, self.random)
        else:
            with nogil:
                rc = get_try(self.hand, self.random, &slot)
                if rc == HAND_DONE:
                    hand_settle(self.hand, self.random)
        if rc != HAND_DONE:
            op.n = 1
            op.run = self._run(1)
            op.tokens = op.run.tokens
            try:
                self._get(&op, timeout, 1)
                slot = op.tokens[0]
            finally:
                free(op.run)
        try:
            element = self._element(slot) if out is None else self._copy_out(&slot, 1, out, False)
        except BaseException:
            self._return_one(slot)
            raise
        self._release(&slot, 1)
        return element

    def dequeue_many(self, int64_t n, bint up_to, timeout=None, list out=None):
        """Take n elements (up_to: fewer, if the queue is closed and has fewer) and return their components stacked."""
        cdef QueueOp op
        cdef int64_t count
        self._refuse()
        self._stackable("dequeue_up_to" if up_to else "dequeue_many")
        if n < 0:
            raise_error(CODE_INVALID_ARGUMENT, f"the number of elements must not be negative: {n}")
        if self.hand.store == STORE_PRIORITY and not up_to and self.hand.capacity >= 0 and n > self.hand.capacity:
            raise_error(CODE_INVALID_ARGUMENT,
                f"PriorityQueue {self.name!r} has room for {self.hand.capacity} elements, so {n} will never be there "
                "at once")
        # No queue ever holds more elements than there are slots: one more stands for any larger number, which never
        # comes.
        op.n = n if n < POOL_SLOTS else POOL_SLOTS
        op.up_to = up_to
        self._note_depth()
        op.run = self._run(op.n)
        op.tokens = op.run.tokens
        try:
            if n > 0:
                self._get(&op, timeout, n)
            count = op.done
            try:
                batch = (self._shaped(self._columns(op.tokens, count)) if out is None
                         else self._copy_out(op.tokens, count, out, True))
            except BaseException:
                self._return(&op)
                raise
            self._release(op.tokens, count)
        finally:
            free(op.run)
        return batch

    cdef int _get(self, QueueOp* op, object timeout, int64_t need) except -1:
        # Gathers elements; if it ends early it gives back those it had.
        cdef int rc
        try:
            rc = self._wait(SIDE_GET, op, _deadline(timeout))
        except BaseException:
            with nogil:
                hand_leave(self.hand, SIDE_GET, self.random, op)
            self._return(op)  # the operation was over by then
            raise
        if rc == HAND_DONE:
            return 0
        if op.done > 0:
            self._lose(op)
        if rc == HAND_SLICE:
            raise_error(CODE_DEADLINE, f"{self.kind} {self.name!r} had too few elements in time (requested {need})")
        raise self._too_few(need)

    cdef object _too_few(self, int64_t wanted):
        return self._with_cause(new_error(CODE_OUT_OF_RANGE,
            f"{self.kind} {self.name!r} is closed and has insufficient elements (requested {wanted}, current size "
            f"{self.size()})"))

    cdef FrontRun* _run(self, int64_t n) except NULL:
        # Allocates room for n tokens, in the form in which they can be given back, because giving back must not
        # allocate.
        cdef size_t priority_bytes = sizeof(int64_t) if self.hand.store == STORE_PRIORITY else 0
        cdef FrontRun* run = <FrontRun*>malloc(size_sum(_tokens_end(n), size_product(n, priority_bytes)))
        if run == NULL:
            raise MemoryError
        return run

    cdef int _return(self, QueueOp* op) except -1:
        # Gives back elements that were taken and can't be handed out.
        cdef int64_t* keys
        cdef int64_t i
        if op.done == 0:
            return 0
        if self.hand.store == STORE_PRIORITY:
            keys = <int64_t*>(<char*>op.run + _tokens_end(op.done))
            for i in range(op.done):
                keys[i] = self._key(op.tokens[i])
            op.keys = keys
        with nogil:
            hand_return(self.hand, self.random, op)
        if op.done > 0:
            self._lose(op)
        return 0

    cdef int _return_one(self, uint32_t slot) except -1:
        # The same for one element that was taken without room for a run.
        cdef QueueOp op
        op.run = <FrontRun*>malloc(_tokens_end(1) + sizeof(int64_t))
        if op.run == NULL:
            op.run = self.spare
            self.spare = NULL
        elif self.spare == NULL:
            self.spare = <FrontRun*>malloc(_tokens_end(1) + sizeof(int64_t))
        op.tokens = &slot if op.run == NULL else op.run.tokens
        op.tokens[0] = slot
        op.n = op.done = 1
        if op.run == NULL:
            self._lose(&op)
        try:
            self._return(&op)
        finally:
            free(op.run)
        return 0

    cdef int _lose(self, QueueOp* op) except -1:
        # Loses the elements, but frees their slots.
        self._release(op.tokens, op.done)
        raise MemoryError(f"{op.done} elements of {self.kind} {self.name!r} are lost: no memory to give them back")

    # Without copies

    def reserve(self, int64_t n, timeout=None, bint clear=True):
        """Room for n elements, zeros or what was there before, to be filled in place: a :class:`Reservation`."""
        cdef Reservation r
        cdef _Guard guard
        self._refuse()
        self._placeable("reserve", n)
        r = Reservation.__new__(Reservation)
        r.queue = self
        r.timeout = timeout
        r.slots = _holder(self, n)
        r.slots.take(n)
        guard = _Guard.__new__(_Guard)
        guard.slots = r.slots
        arrays = self._views(r.slots.tokens, n, guard)
        if arrays is not None:
            r.slots.seen = True
            if clear:
                self._clear(r.slots.tokens, n)
        else:  # they do not lie side by side: filled in a block of its own, and copied when it is committed
            r.staged = arrays = self._blank(n)
        r.shown = _named(self, arrays)
        return r

    def lease(self, int64_t n, timeout=None):
        """The next n elements, where they lie: a :class:`Lease`."""
        cdef Lease lease
        cdef QueueOp op
        cdef list arrays
        self._refuse()
        self._placeable("lease", n)
        self._note_depth()
        lease = Lease.__new__(Lease)
        lease.slots = _holder(self, n)
        op.n = n
        op.run = self._run(n)
        op.tokens = op.run.tokens
        try:
            self._get(&op, timeout, n)
            try:
                # `lease.slots` has no slots before all arrays are made: if anything fails here, the elements are given
                # back.
                arrays = self._views(op.tokens, n, lease.slots)
                if arrays is not None:
                    lease.shown = _named(self, arrays)
                else:
                    lease.shown = _named(self, self._columns(op.tokens, n))
                    self.copied_rows += n
                    self._release(op.tokens, n)
                    return lease
            except BaseException:
                self._return(&op)
                raise
            memcpy(lease.slots.tokens, op.tokens, n * sizeof(uint32_t))
            lease.slots.n = n
            self.held_rows += n
        finally:
            free(op.run)
        return lease

    # For native threads

    cdef int _slot_wait(self, uint32_t slot, int64_t key, StopEvent stop) noexcept nogil:
        cdef QueueOp op  # a new operation each time: one that is over stays over
        cdef int rc
        op.tokens = &slot
        op.keys = &key
        op.n = 1
        while True:
            begin_wait(ON_OUTPUT)
            rc = hand_wait(self.hand, SIDE_PUT, self.random, &op, monotonic_ns() + SLICE_NS)
            end_wait()
            if rc == HAND_SLICE and (stop.stopped_ns() != 0 or exiting() or main_over()):
                return hand_leave(self.hand, SIDE_PUT, self.random, &op)
            if rc != HAND_SLICE:
                return rc

    cdef int slots_put(self, const uint32_t* slots, int n, StopEvent stop, int* done) noexcept nogil:
        cdef int64_t key = 0
        cdef uint32_t slot
        cdef int rc = HAND_DONE
        cdef bint any_ = False
        done[0] = 0
        while done[0] < n:
            slot = slots[done[0]]
            if self.hand.store == STORE_PRIORITY:
                key = (<int64_t*>pool_row(self.pool, slot))[0]
            rc = put_try(self.hand, slot, key)
            if rc == HAND_BUSY:
                any_ = False  # the operation in line settles
                rc = self._slot_wait(slot, key, stop)
            elif rc == HAND_DONE:
                any_ = True
            if rc != HAND_DONE:
                break
            done[0] += 1
        if any_ and hand_unsettled(self.hand):
            hand_settle(self.hand, self.random)
        if done[0] > 0:
            waited()
        return rc

    cdef int slot_get(self, uint32_t* slot, StopEvent stop) noexcept nogil:
        cdef QueueOp op
        cdef int rc = get_try(self.hand, self.random, slot)
        if rc == HAND_DONE and hand_unsettled(self.hand):
            hand_settle(self.hand, self.random)
        if rc == HAND_DONE:
            waited()
            return rc
        op.run = <FrontRun*>malloc(sizeof(FrontRun) + sizeof(uint32_t))
        if op.run == NULL:
            return HAND_NO_MEMORY
        op.tokens = op.run.tokens
        op.n = 1
        while True:
            begin_wait(ON_INPUT)
            rc = hand_wait(self.hand, SIDE_GET, self.random, &op, monotonic_ns() + SLICE_NS)
            end_wait()
            if rc == HAND_SLICE and (stop.stopped_ns() != 0 or exiting() or main_over()):
                rc = hand_leave(self.hand, SIDE_GET, self.random, &op)
                break
            if rc != HAND_SLICE:
                break
        if rc == HAND_DONE:
            waited()
            slot[0] = op.tokens[0]
        free(op.run)
        return rc

    # The rest

    def components_of(self, values):
        """Return the components of an element: of a value alone, of a list or tuple of them, or of a dict by name."""
        return list(self._components_of(values))

    def size(self):
        """Elements in the queue; may have changed by the time it is read."""
        self._refuse()
        return hand_size(self.hand)

    def shaped(self, list parts):
        """Return an element of these components: the only one, or a list, or a dict."""
        return self._shaped(parts)

    def is_closed(self):
        """True if the queue is closed."""
        self._refuse()
        return self.hand.closed.load(kAcquire) != 0

    def close(self, bint cancel, timeout=None):
        """Close the queue behind the puts that wait, or at once if `cancel` is true."""
        cdef QueueOp op
        cdef int rc
        self._refuse()
        if cancel:
            with nogil:
                hand_cancel(self.hand, self.random)
            return
        op.closes = True
        try:
            rc = self._wait(SIDE_PUT, &op, _deadline(timeout))
        finally:
            with nogil:
                hand_leave(self.hand, SIDE_PUT, self.random, &op)
        if rc == HAND_CANCELLED:
            raise self._closed_for_putting(rc)
        if rc == HAND_SLICE:
            raise_error(CODE_DEADLINE,
                f"{self.kind} {self.name!r} could not be closed in time: puts wait for room before it")

    def fail(self, error):
        """Close at once because the filling code failed with this error, which readers get at the end of the queue."""
        self._refuse()
        if self.failure is None:
            self.failure = error
        with nogil:
            hand_cancel(self.hand, self.random)

    def stats(self):
        """Counters, as a dict."""
        cdef Hand* h = self.hand
        self._refuse()
        size = hand_size(h)
        admitted = hand_puts(h)
        depths = [n for n in self.depths]
        while depths and depths[-1] == 0:
            depths.pop()
        return {
            "size": size,
            "high_water": h.high_water.load(kRelaxed),
            "enqueued": admitted,
            "dequeued": admitted - size,
            "waiting_enqueues": h.side[SIDE_PUT].parked.load(kRelaxed),
            "waiting_dequeues": h.side[SIDE_GET].parked.load(kRelaxed),
            "blocked_enqueue_ns": h.side[SIDE_PUT].blocked_ns.load(kRelaxed),
            "blocked_dequeue_ns": h.side[SIDE_GET].blocked_ns.load(kRelaxed),
            "copied_rows": self.copied_rows,
            "held_rows": self.held_rows,
            "depths": depths,
        }


@cython.final
@cython.no_gc_clear  # __dealloc__ needs its queue
cdef class _Holder:
    # Owns slots and gives them back when it is freed. It is the base object of views, and must not refer to them,
    # because the collector does not see through arrays. So slots that any array can see, derived ones included, are not
    # used again.
    cdef NativeQueue queue
    cdef uint32_t* tokens
    cdef int64_t* keys
    cdef int64_t n
    cdef bint seen  # seen by arrays whose base is a guard

    cdef int take(self, int64_t n) except -1:
        while self.n < n:
            self.tokens[self.n] = self.queue._slot()
            self.n += 1
            self.queue.held_rows += 1
        return 0

    cdef int64_t let_go(self) noexcept:
        # From here on the slots belong to the caller.
        cdef int64_t n = self.n
        self.n = 0
        self.queue.held_rows -= n
        return n

    def __dealloc__(self):
        cdef int64_t n
        if self.tokens != NULL:
            n = self.let_go()
            if n and self.queue.generation == fork_generation():
                self.queue._release(self.tokens, n)
        free(self.tokens)
        free(self.keys)


cdef _Holder _holder(NativeQueue queue, int64_t n):
    cdef _Holder slots = _Holder.__new__(_Holder)
    slots.queue = queue
    slots.tokens = <uint32_t*>malloc(size_product(n, sizeof(uint32_t)))
    slots.keys = <int64_t*>malloc(size_product(n, sizeof(int64_t)))
    if slots.tokens == NULL or slots.keys == NULL:
        raise MemoryError
    return slots


@cython.final
cdef class _Guard:
    # The base object of a reservation's views: when it is freed, no view is left, and nothing more will be written
    # through one.
    cdef _Holder slots

    def __dealloc__(self):
        if self.slots is not None:
            self.slots.seen = False


@cython.nonecheck(True)
cdef object _named(NativeQueue queue, list rows):
    return rows[:] if queue.names is None else dict(zip(queue.names, rows))


@cython.final
@cython.nonecheck(True)  # made by __new__ alone, it has no slots
cdef class Reservation:
    """Room in a queue: arrays to fill, then `commit` or `cancel`. A reservation that is dropped gives the room back."""
    cdef NativeQueue queue
    cdef _Holder slots
    cdef bint over
    cdef object timeout
    cdef object shown   # the arrays to fill, in the list or dict that was handed out
    cdef list staged    # the arrays, if they are not views of slots; None: they are

    @property
    def rows(self):
        """Arrays to fill: a list, or a dict if the queue has names. It is empty after `commit` or `cancel`."""
        if self.shown is None:
            raise self._is_over()
        return self.shown

    cdef object _is_over(self):
        return new_error(CODE_PRECONDITION, "this reservation is committed or cancelled already")

    cdef void _end(self) noexcept:
        # Arrays that nobody has kept are freed now.
        self.over = True
        shown, self.shown = self.shown, None
        if shown is not None:
            shown.clear()

    cdef _Holder _filled(self):
        # Returns slots with the written data, which no array sees any more.
        cdef NativeQueue q = self.queue
        cdef _Holder slots = self.slots, fresh
        cdef int64_t k
        if self.staged is not None:
            for k in range(slots.n):
                q._fill(slots.tokens[k], PySequence_Fast_ITEMS(self.staged), k)
            q.copied_rows += slots.n
            return slots
        if not slots.seen:
            return slots
        fresh = _holder(q, slots.n)
        fresh.take(slots.n)
        for k in range(slots.n):
            copy_bytes(pool_row(q.pool, fresh.tokens[k]), pool_row(q.pool, slots.tokens[k]), q.pool.slot_bytes)
        q.copied_rows += slots.n
        return fresh

    def commit(self, timeout=None):
        """Put the elements, as enqueue_many does. If the caller keeps an array, the queue gets copies."""
        cdef _Holder slots
        if self.over:
            raise self._is_over()
        self.queue._refuse()
        self._end()
        try:
            slots = self._filled()
        except BaseException:
            self.over = False  # nothing is lost: the caller may try again
            raise
        self.slots = None
        self.queue._put(slots.tokens, slots.keys, slots.let_go(), timeout)

    def cancel(self):
        """Give the room back. Idempotent."""
        self._end()
        self.slots = None

    def __enter__(self):
        return self.rows

    def __exit__(self, kind, error, trace):
        if self.over:
            return
        if kind is None:
            self.commit(self.timeout)
        else:
            self.cancel()


@cython.final
@cython.nonecheck(True)  # as Reservation
cdef class Lease:
    """Elements taken from a queue, as views of their memory, until `release` and the end of the last view."""
    cdef _Holder slots
    cdef object shown

    @property
    def rows(self):
        """The views: a list, or a dict if the queue has names."""
        if self.shown is None:
            raise_error(CODE_PRECONDITION, "this lease is released")
        return self.shown

    def release(self):
        """Give the memory back as soon as no view of it is left. Idempotent."""
        self.shown = None
        self.slots = None

    def __enter__(self):
        return self.rows

    def __exit__(self, kind, error, trace):
        self.release()
