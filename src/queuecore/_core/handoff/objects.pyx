# cython: embedsignature.format=clinic
"""Queues of Python objects: the standard library's `queue` module on native storage.

The queued objects lie in an array of references, changed only with the GIL (in a free-threaded build: in the queue's
critical section). Any Python thread may call any method, also in signal handlers, finalizers and callbacks of the
garbage collector.
  I1  Between two points where Python code may run, an operation happens as a whole or not at all: it stores or takes a
      reference, counts, and tells waiters, with no allocation that could start a collection, no comparison and no
      DECREF in between. So no lock guards the storage, a call made from inside another call of the same thread finds a
      whole queue, and so does a forked child.
  I2  The garbage collector is shown exactly the references that are stored: slots[head .. head + count), wrapped.
  I3  A waiter prepares after it last looked at the queue, without giving the GIL away in between; a thread that changes
      the queue notifies while it has the GIL. So no wake is lost, and the count of waiters may be read without a fence.
  I4  A waiter that leaves by an exception while it could have gone on wakes another one in its place.
  I5  A heap is changed only after all comparisons were made, if no other call changed it meanwhile (`version`);
      otherwise they are made again. A comparison that raises, or that itself uses the queue, leaves the heap whole.
  I6  A queue leaves native storage at most once, for good (`F_PYTHON`): every later operation takes its mutex and calls
      its hooks.
put and get on a native queue that needs no wait: no lock, one array element. A heap's put and get are lock-free: one is
repeated only because another one was done. get on an empty and put on a full queue block, in slices on the main thread.
Source: the heap's order of comparisons is that of the bottom-up heap sort (Wegener, 1993), which Python's heapq uses
too, so that equal items come out in the same order; waiting is parking.pxd.
"""
import copyreg
import math
import threading
from collections import deque
from heapq import heappop, heappush
from queue import Empty, Full
from types import GenericAlias

cimport cython
from cpython.dict cimport PyDict_Clear, PyDict_Update
from cpython.exc cimport PyErr_CheckSignals
from cpython.object cimport Py_LT, PyObject, PyObject_RichCompareBool
from cpython.pythread cimport PyThread_get_thread_ident
from cpython.ref cimport Py_DECREF, Py_INCREF
from libc.errno cimport ETIMEDOUT
from libc.stdint cimport int64_t, uint32_t, uint64_t
from queuecore._core.atoms.memory cimport free, malloc
from queuecore._core.atoms.process cimport check_layout
from queuecore._core.atoms.parking cimport event_notify, event_notify_all, event_prepare, event_wait
from queuecore._core.atoms.platform cimport (
    EventCount, alloc_lines, cpu_pause, kRelaxed, layout_hash, monotonic_ns, size_product, usable_cpus)
from queuecore._core.atoms.runtime cimport LONG_SLICE_NS, main_over, still_waiting, wait_out_exit, waited
from queuecore._core.atoms.times cimport ON_INPUT, ON_OUTPUT, begin_wait, end_wait

from queuecore._core.atoms.runtime import slice_over

from queuecore import _machine

try:
    from queue import ShutDown
except ImportError:  # before Python 3.13
    class ShutDown(Exception):
        """Raised by `put` and `get` of a queue that was shut down."""

        __module__ = "queuecore.stdqueue"

check_layout(layout_hash())

cdef extern from *:
    """
    /* The reference moves to the caller: no INCREF and DECREF for it. */
    static CYTHON_INLINE PyObject* qc_moved(PyObject* p) { return p; }
    """
    object qc_moved(PyObject* p)
    object PyObject_GenericGetDict(object, void*)
    int PyObject_GenericSetAttr(object, object, object) except -1

cdef extern from "Python.h":
    ctypedef int (*inquiry)(PyObject*) noexcept
    ctypedef int (*visitproc)(PyObject*, void*) noexcept
    ctypedef int (*traverseproc)(PyObject*, visitproc, void*) noexcept
    ctypedef struct PyTypeObject:
        traverseproc tp_traverse
        inquiry tp_clear
        const char* tp_name
    ctypedef struct PyMethodDef:
        pass
    ctypedef struct PyMethodDescrObject:
        PyMethodDef* d_method
    object PyDescr_NewMethod(PyTypeObject*, PyMethodDef*)

cdef enum:
    F_LIFO = 1      # takes the newest
    F_HEAP = 2      # takes the smallest
    F_SHUT = 4      # shutdown() was called
    F_PYTHON = 8    # left native storage
    F_RAW = 16      # __init__ has not run

    FIRST_SLOTS = 8
    KEPT_SLOTS = 4096      # a larger array is freed when it is empty: a burst's memory is not kept

    SPINS = 300            # a few us, a small part of what a sleep and a wake cost both sides
    LETS = 150             # about the time of a hundred puts or gets

    ON_GET = 0
    ON_PUT = 1
    ON_JOIN = 2

cdef Py_ssize_t UNBOUNDED = <Py_ssize_t>((<size_t>-1) >> 1)
cdef int64_t NEVER = -1            # a deadline
cdef int64_t TOO_LATE = -2         # a deadline so late that the standard library refuses to wait for it
cdef int64_t SLICE_NS = 50000000   # the main thread looks for signals this often
cdef double LONG_SECONDS = 4e9     # longer than any machine runs: no deadline
cdef double MOST_SECONDS = threading.TIMEOUT_MAX

cdef int _cpus = min(usable_cpus(), _machine.quota_cpus())
cdef tuple HOOKS = ("_init", "_put", "_get", "_qsize")


cdef int64_t _deadline(object block, object timeout) except -3:
    # Returns the absolute time by CLOCK_MONOTONIC; 0 for a try, NEVER for a wait without end.
    cdef double seconds
    if not block:
        return 0
    if timeout is None:
        return NEVER
    seconds = timeout
    if not seconds >= 0:  # NaN too
        raise ValueError("'timeout' must be a non-negative number")
    if seconds >= LONG_SECONDS:
        return NEVER if seconds <= MOST_SECONDS else TOO_LATE
    return monotonic_ns() + <int64_t>(seconds * 1e9)


cdef bint _on_main_thread() except *:
    return PyThread_get_thread_ident() == <unsigned long>threading.main_thread().ident


cdef void _drop(PyObject** slots, Py_ssize_t head, Py_ssize_t count, Py_ssize_t mask) noexcept:
    # Drops the references of an array that no queue has any more: finalizers may run, and use the queue it came from.
    cdef Py_ssize_t i
    for i in range(count):
        Py_DECREF(<object>slots[(head + i) & mask])
    free(slots)


@cython.trashcan(True)
cdef class _Store:
    """The references of one queue, and the threads that wait for them."""

    cdef PyObject** slots
    cdef Py_ssize_t head
    cdef Py_ssize_t count
    cdef Py_ssize_t mask         # size of the array, a power of two, less one; -1 without an array
    cdef Py_ssize_t limit
    cdef unsigned int flags
    cdef bint derived            # its class is written in Python, and may have its own put and get
    cdef uint64_t version        # I5
    cdef int64_t unfinished
    cdef EventCount* waits       # one each for ON_GET, ON_PUT, ON_JOIN; NULL until a thread waits
    cdef object maximum          # maxsize, as it was given
    cdef dict __dict__
    cdef object __weakref__

    def __cinit__(self):
        self.mask = -1
        self.limit = UNBOUNDED

    def __dealloc__(self):
        if self.slots != NULL:
            _drop(self.slots, self.head, self.count, self.mask)
        free(self.waits)

    @classmethod
    def __class_getitem__(cls, item, /):
        """Return the class itself, so that type checkers accept `Queue[int]`."""
        return GenericAlias(cls, item)

    # ---- storage
    # ---------------------------------------------------------------------------------------------------------

    @cython.final
    cdef int _grow(self) except -1:
        cdef Py_ssize_t size = (self.mask + 1) * 2 if self.mask >= 0 else FIRST_SLOTS
        cdef PyObject** slots
        cdef Py_ssize_t i
        if size > UNBOUNDED // <Py_ssize_t>sizeof(PyObject*):
            raise MemoryError()
        slots = <PyObject**>malloc(size_product(size, sizeof(PyObject*)))
        if slots == NULL:
            raise MemoryError()
        for i in range(self.count):
            slots[i] = self.slots[(self.head + i) & self.mask]
        free(self.slots)
        self.slots = slots
        self.head = 0
        self.mask = size - 1
        return 0

    @cython.final
    cdef inline int _push(self, object item) except -1:
        if self.count == self.mask + 1:
            self._grow()
        Py_INCREF(item)
        self.slots[(self.head + self.count) & self.mask] = <PyObject*>item
        self.count += 1  # Linearizes here.
        self._tell(ON_GET)
        return 0

    @cython.final
    cdef inline PyObject* _shift(self) noexcept:
        cdef PyObject* item = self.slots[self.head]
        self.head = (self.head + 1) & self.mask
        self._taken()
        return item

    @cython.final
    cdef inline void _taken(self) noexcept:
        self.count -= 1  # Linearizes here.
        if self.count == 0 and self.mask >= KEPT_SLOTS:
            free(self.slots)
            self.slots = NULL
            self.head = 0
            self.mask = -1
        self._tell(ON_PUT)

    @cython.final
    cdef int _empty_out(self) except -1:
        # Drops everything. The queue is whole, and empty, before the first finalizer runs.
        cdef PyObject** slots = self.slots
        cdef Py_ssize_t head = self.head, count = self.count, mask = self.mask
        self.slots = NULL
        self.head = self.count = 0
        self.mask = -1
        self.version += 1
        if slots != NULL:
            _drop(slots, head, count, mask)
        return 0

    @cython.final
    cdef int _less(self, PyObject* a, PyObject* b, uint64_t version) except -2:
        # Returns a < b, or -1 if the queue has changed meanwhile. Holds both: other code may take and drop them during
        # the comparison.
        cdef int rc
        x = <object>a
        y = <object>b
        rc = PyObject_RichCompareBool(x, y, Py_LT)
        del x, y
        return rc if self.version == version else -1

    @cython.final
    cdef int _heap_push(self, object item) except -1:
        # 1: done; 0: the queue has changed, look again.
        cdef uint64_t version = self.version
        cdef Py_ssize_t place = self.count, parent, position
        cdef int less
        while place > 0:
            parent = (place - 1) >> 1
            less = self._less(<PyObject*>item, self.slots[parent], version)
            if less < 0:
                return 0
            if not less:
                break
            place = parent
        # Nothing from here on runs Python code.
        if self.count == self.mask + 1:
            self._grow()
        position = self.count
        while position > place:
            parent = (position - 1) >> 1
            self.slots[position] = self.slots[parent]
            position = parent
        Py_INCREF(item)
        self.slots[place] = <PyObject*>item
        self.count += 1  # Linearizes here.
        self.version += 1
        self._tell(ON_GET)
        return 1

    @cython.final
    cdef PyObject* _heap_pop(self) except? NULL:
        # NULL without an exception: the queue has changed, look again.
        cdef uint64_t version = self.version
        cdef Py_ssize_t n = self.count - 1  # items that stay; slots[n] needs a new place
        cdef Py_ssize_t leaf = 0, child = 1, place
        cdef PyObject* last = self.slots[n]
        cdef PyObject* first = self.slots[0]
        cdef PyObject* carried
        cdef int less
        # Goes down to a leaf, always to the smaller child: every item on that path moves up by one ...
        while child < n:
            if child + 1 < n:
                less = self._less(self.slots[child], self.slots[child + 1], version)
                if less < 0:
                    return NULL
                if not less:
                    child += 1
            leaf = child
            child = 2 * leaf + 1
        # ... except those near the leaf that are larger than the item that needs a place.
        place = leaf
        while place > 0:
            less = self._less(last, self.slots[place], version)
            if less < 0:
                return NULL
            if not less:
                break
            place = (place - 1) >> 1
        # Nothing from here on runs Python code.
        carried = last
        while True:
            carried, self.slots[place] = self.slots[place], carried
            if place == 0:
                break
            place = (place - 1) >> 1
        self.version += 1
        self._taken()
        return first

    # ---- waiting
    # ---------------------------------------------------------------------------------------------------------

    @cython.final
    cdef inline void _tell(self, int which) noexcept:
        # Relaxed: I3, the GIL orders the waiter's count before this look.
        if self.waits != NULL and (self.waits[which].word.load(kRelaxed) >> 32) != 0:
            event_notify(&self.waits[which], 1)

    @cython.final
    cdef void _tell_all(self) noexcept:
        cdef int which
        if self.waits != NULL:
            for which in range(3):
                event_notify_all(&self.waits[which])

    @cython.final
    cdef void _let_go_on(self, int which) noexcept nogil:
        # Called after a spin that ended with a notify. The notifier still has the GIL, and asking for it now would put
        # this thread to sleep. Ends when one more thread waits on the other side: the notifier filled or emptied the
        # queue, and gives the GIL away. Ends also after LETS rounds: the notifier has other things to do. Relaxed: a
        # guess.
        cdef EventCount* other = &self.waits[ON_PUT if which == ON_GET else ON_GET]
        cdef uint64_t before = other.word.load(kRelaxed) >> 32
        cdef int _i
        for _i in range(LETS):
            if other.word.load(kRelaxed) >> 32 > before:
                return
            cpu_pause()

    @cython.final
    cdef int _wait(self, int side, int64_t deadline, bint main, object late_error) except -1:
        # Sleeps once; the caller has looked at the queue and looks again afterwards. Up to `event_prepare` no Python
        # code runs, unless this raises.
        cdef int64_t now, until = deadline
        cdef uint32_t epoch
        cdef EventCount* event
        cdef int spins = 0, rc = 0, _spin
        if deadline == TOO_LATE:
            _refuse_to_wait()
        if deadline != NEVER or main:
            now = monotonic_ns()
            if deadline != NEVER and now >= deadline:
                raise late_error
            if main and (deadline == NEVER or deadline > now + SLICE_NS):
                until = now + SLICE_NS
        if self.waits == NULL:
            self.waits = <EventCount*>alloc_lines(3 * sizeof(EventCount))
            if self.waits == NULL:
                raise MemoryError()
        event = &self.waits[side]
        # The spin, with _let_go_on, makes bounded queues several times as fast (bench_stdqueue.py). Only the first
        # waiter of a side spins: with four threads on each side, more spinning threads halved the speed of all.
        # Relaxed: a guess.
        if _cpus > 1 and event.word.load(kRelaxed) >> 32 == 0:
            spins = SPINS
        epoch = event_prepare(event)
        with nogil:
            for _spin in range(spins):  # ends with a notify's new epoch, or when it was long enough
                # Relaxed: the GIL orders what the notifier did. On a new epoch the futex would return EAGAIN.
                if <uint32_t>event.word.load(kRelaxed) != epoch:
                    self._let_go_on(side)
                    break
                cpu_pause()
            else:
                if until == NEVER:  # wakes to look for the end of the program, not for signals
                    until = monotonic_ns() + (SLICE_NS if main_over() else LONG_SLICE_NS)
                begin_wait(ON_OUTPUT if side == ON_PUT else ON_INPUT)
                rc = event_wait(event, epoch, until)
                end_wait()
        PyErr_CheckSignals()
        if rc != ETIMEDOUT:
            waited()
        elif deadline == NEVER:
            still_waiting()
        else:
            wait_out_exit()
        return 0

    @cython.final
    cdef object _take(self, object block, object timeout):
        # Serves every get that the fast paths don't.
        cdef int64_t deadline = _deadline(block, timeout)
        cdef PyObject* item
        cdef int main = -1
        if self.flags & F_RAW:
            _not_initialised(self)
        try:
            while not self.flags & F_PYTHON:
                if self.count:
                    if self.flags & F_LIFO:
                        item = self.slots[(self.head + self.count - 1) & self.mask]
                        self._taken()
                    elif self.flags & F_HEAP:
                        item = self._heap_pop()
                        if item == NULL:
                            continue
                    else:
                        item = self._shift()
                    return qc_moved(item)
                if self.flags & F_SHUT:
                    raise ShutDown
                if main < 0 and deadline != 0:
                    main = _on_main_thread()  # Python code: look again
                    if deadline == NEVER:
                        waited()
                    continue
                self._wait(ON_GET, deadline, main, Empty)
        except:
            if self.count:
                self._tell(ON_GET)  # I4
            raise
        return (<Queue>self)._locked_get(deadline)


def _refuse_to_wait():
    # Raises the error that a lock raises, whatever this Python calls it.
    lock = threading.Lock()
    lock.acquire()
    lock.acquire(True, math.inf)


def _not_initialised(queue):
    raise RuntimeError(f"{type(queue).__name__}.__init__() did not call the __init__() of queuecore's class")


cdef class _Locked:
    """An attribute that only a queue on the Python path has: using it moves the queue there."""

    cdef str name

    def __cinit__(self, str name):
        self.name = name

    def __get__(self, queue, owner):
        if queue is None:
            return self
        (<Queue?>queue)._leave()
        try:
            return queue.__dict__[self.name]
        except KeyError:
            raise AttributeError(f"{type(queue).__name__!r} object has no attribute {self.name!r}") from None

    def __set__(self, queue, value):
        (<Queue?>queue)._leave()
        queue.__dict__[self.name] = value


cdef class Queue(_Store):
    """The native part of :class:`queuecore.stdqueue.Queue`."""

    mutex = _Locked("mutex")
    not_empty = _Locked("not_empty")
    not_full = _Locked("not_full")
    all_tasks_done = _Locked("all_tasks_done")
    queue = _Locked("queue")

    def __cinit__(self):
        self.derived = type(self) not in _plain
        self.flags = F_RAW

    def __init__(self, maxsize=0):
        self.flags &= ~(F_SHUT | F_PYTHON)
        self._empty_out()
        self.flags &= ~F_RAW
        self.unfinished = 0
        self._tell_all()
        self.maxsize = maxsize
        if self._is_hooked():
            self.flags |= F_PYTHON
            (<object>self).__dict__.update(_locks())
            self._init(maxsize)

    def __repr__(self):
        # On the Python path the size needs the mutex, which the printing thread may hold.
        size = "" if self.flags & (F_PYTHON | F_RAW) else f" qsize={self.count}"
        shut = " shut down" if self.flags & F_SHUT else ""
        cls = type(self)
        return (f"<{cls.__module__}.{cls.__qualname__} maxsize={self.maximum}{size}{shut} at "
                f"{<size_t><PyObject*>self:#x}>")

    # As in the standard library, a copy shares mutex, conditions and `queue` with its original, and a pickle would need
    # the mutex.

    def __copy__(self):
        cls = type(self)
        copied = cls.__new__(cls)
        copied.__setstate__(self.__getstate__())
        return copied

    def __reduce__(self):
        cls = type(self)
        if getattr(cls, "__getstate__") is Queue.__getstate__:
            raise TypeError("cannot pickle '_thread.lock' object")
        return copyreg.__newobj__, (cls,), self.__getstate__()

    def __getstate__(self):
        self._leave()
        counts = {"maxsize": self.maxsize, "unfinished_tasks": self.unfinished_tasks, "is_shutdown": self.is_shutdown}
        return {**counts, **(<object>self).__dict__}

    def __setstate__(self, state):
        self._empty_out()
        self.flags = self.flags & ~<unsigned int>F_RAW | F_PYTHON
        for name, value in state.items():
            PyObject_GenericSetAttr(self, name, value)

    def __setattr__(self, name, value):
        # A hook may be set on one object. (__init__ looks at attributes of the class.)
        if name in HOOKS and not self.flags & F_RAW:
            self._leave()
        PyObject_GenericSetAttr(self, name, value)

    # ---- put and get
    # -----------------------------------------------------------------------------------------------------

    @cython.binding(False)
    @cython.critical_section
    def put(self, item, block=True, timeout=None):
        """Put an object into the queue, waiting for room if need be.

        Parameters
        ----------
        item : object
            The object.
        block : bool, default True
            Whether to wait for room.
        timeout : float, optional
            How long to wait, in seconds; no limit by default. Without meaning if `block` is false or the queue
            unbounded.

        Raises
        ------
        Full
            If there was no room.
        ShutDown
            If the queue was shut down, also while waiting.
        ValueError
            If the queue is bounded and `timeout` negative.
        """
        if self.flags & ~<unsigned int>F_LIFO == 0 and self.count < self.limit and timeout is None:
            self._push(item)
            self.unfinished += 1
            return
        self._put_slowly(item, block, timeout)

    @cython.binding(False)
    @cython.critical_section
    def get(self, block=True, timeout=None):
        """Take the next object out of the queue, waiting for one if need be.

        Parameters
        ----------
        block : bool, default True
            Whether to wait.
        timeout : float, optional
            How long to wait, in seconds; no limit by default. Without meaning if `block` is false.

        Returns
        -------
        object
            What was put.

        Raises
        ------
        Empty
            If there was nothing.
        ShutDown
            If the queue was shut down and is empty, also while waiting.
        ValueError
            If `timeout` is negative.
        """
        if self.flags == 0 and self.count and timeout is None:
            return qc_moved(self._shift())
        return self._take(block, timeout)

    @cython.binding(False)
    def put_nowait(self, item):
        """Put an object into the queue, or raise `Full` if there is no room now."""
        if self.derived:
            self.put(item, block=False)
        else:
            with cython.critical_section(self):
                self._put_slowly(item, False, None)

    @cython.binding(False)
    def get_nowait(self):
        """Take the next object out of the queue, or raise `Empty` if there is none now."""
        if self.derived:
            return self.get(block=False)
        with cython.critical_section(self):
            return self._take(False, None)

    @cython.final
    cdef int _put_slowly(self, object item, object block, object timeout) except -1:
        # Serves every put that the fast path doesn't.
        cdef int64_t deadline = NEVER
        cdef int main = -1
        if self.flags & F_RAW:
            _not_initialised(self)
        if not block:
            deadline = 0
        elif self.limit != UNBOUNDED:  # as in the standard library, an unbounded queue doesn't look at the timeout
            deadline = _deadline(block, timeout)
        try:
            while not self.flags & F_PYTHON:
                if self.flags & F_SHUT:
                    raise ShutDown
                if self.count < self.limit:
                    if not self.flags & F_HEAP:
                        self._push(item)
                    elif not self._heap_push(item):
                        continue
                    self.unfinished += 1
                    return 0
                if main < 0 and deadline != 0:
                    main = _on_main_thread()  # Python code: look again
                    if deadline == NEVER:
                        waited()
                    continue
                self._wait(ON_PUT, deadline, main, Full)
        except:
            if self.count < self.limit:
                self._tell(ON_PUT)  # I4
            raise
        self._locked_put(item, deadline)
        return 0

    # ---- tasks and the end
    # -----------------------------------------------------------------------------------------------

    @cython.critical_section
    def task_done(self):
        """Report that the work on an object that `get` returned is over.

        Once this was reported for every object that was put, `join` returns.

        Raises
        ------
        ValueError
            If called more often than objects were put.
        """
        if self.flags & F_PYTHON:
            self._locked_done()
            return
        self._one_less()
        if self.unfinished == 0 and self.waits != NULL:
            event_notify_all(&self.waits[ON_JOIN])

    @cython.final
    cdef int _one_less(self) except -1:
        if self.unfinished <= 0:
            raise ValueError("task_done() called too many times")
        self.unfinished -= 1
        return 0

    @cython.critical_section
    def join(self):
        """Wait until `task_done` was called for every object that was put."""
        cdef int main = -1
        while self.unfinished and not self.flags & F_PYTHON:
            if main < 0:
                main = _on_main_thread()  # Python code: look again
                waited()
                continue
            self._wait(ON_JOIN, NEVER, main, None)
        if self.flags & F_PYTHON:
            self._locked_join()

    @cython.critical_section
    def shutdown(self, immediate=False):
        """End the queue: every `put`, and every `get` that finds it empty, raises `ShutDown`, those that wait included.

        Parameters
        ----------
        immediate : bool, default False
            Whether to drop what is queued, each as a task that is done.
        """
        if self.flags & F_PYTHON:
            self._locked_shutdown(immediate)
            return
        immediate = bool(immediate)
        self.flags |= F_SHUT
        self.version += 1
        self._tell_all()
        if immediate:
            self.unfinished = max(self.unfinished - self.count, 0)
            self._empty_out()

    # ---- looking
    # ---------------------------------------------------------------------------------------------------------

    @cython.critical_section
    def qsize(self):
        """Return the number of objects in the queue, which may be another one by the time you read it."""
        if self.flags & F_PYTHON:
            return self._locked_size()
        return self.count

    @cython.critical_section
    def empty(self):
        """Return whether the queue is empty, which may have changed by the time you read it."""
        if self.flags & F_PYTHON:
            return self._locked_size() == 0
        return self.count == 0

    @cython.critical_section
    def full(self):
        """Return whether the queue is full, which may have changed by the time you read it."""
        if self.limit == UNBOUNDED:
            return False
        if self.flags & F_PYTHON:
            return self._locked_size() >= self.limit
        return self.count >= self.limit

    @property
    def maxsize(self):
        """The number of objects that it holds before `put` waits; zero or less: any number."""
        return self.maximum

    @maxsize.setter
    def maxsize(self, value):
        cdef Py_ssize_t limit = UNBOUNDED
        if 0 < value < UNBOUNDED:  # infinity, too, is a size
            limit = math.ceil(value)
        self.maximum = value
        self.limit = limit
        self.version += 1
        if self.waits != NULL:
            event_notify_all(&self.waits[ON_PUT])

    @property
    def unfinished_tasks(self):
        """Objects that were put, less calls of `task_done`."""
        return self.unfinished

    @unfinished_tasks.setter
    def unfinished_tasks(self, value):
        self.unfinished = value
        if self.waits != NULL:
            event_notify_all(&self.waits[ON_JOIN])

    @property
    def is_shutdown(self):
        """True if `shutdown` was called."""
        return self.flags & F_SHUT != 0

    @is_shutdown.setter
    def is_shutdown(self, value):
        self.flags = self.flags | F_SHUT if value else self.flags & ~<unsigned int>F_SHUT
        self.version += 1
        self._tell_all()

    # ---- the Python path
    # -------------------------------------------------------------------------------------------------

    def _init(self, maxsize):
        """Make `queue`; a hook for subclasses."""
        self.queue = [] if self.flags & (F_LIFO | F_HEAP) else deque()

    def _qsize(self):
        """Return the number of objects in `queue`; a hook for subclasses."""
        return len(self.queue) if self.flags & F_PYTHON else self.count

    def _put(self, item):
        """Add to `queue`; a hook for subclasses."""
        if self.flags & F_HEAP:
            heappush(self.queue, item)
        else:
            self.queue.append(item)

    def _get(self):
        """Take from `queue`; a hook for subclasses."""
        if self.flags & F_HEAP:
            return heappop(self.queue)
        return self.queue.pop() if self.flags & F_LIFO else self.queue.popleft()

    @cython.final
    cdef bint _is_hooked(self) except *:
        cls = type(self)
        own = (<object>self).__dict__
        return any([name in own or getattr(cls, name) is not getattr(Queue, name) for name in HOOKS])

    @cython.final
    cdef int _leave(self) except -1:
        # Moves the queue to the Python path, with all that is queued. Making objects may start a collection and let
        # other threads run, so the content is copied until it is the same before and after; then nothing else runs
        # until the queue has moved (I1).
        cdef Py_ssize_t i
        cdef bint same = False
        if self.flags & F_RAW:
            _not_initialised(self)
        attributes = (<object>self).__dict__
        while not self.flags & F_PYTHON:
            parts = _locks()
            content = []
            for i in range(self.count):
                content.append(<object>self.slots[(self.head + i) & self.mask])
            parts["queue"] = content if self.flags & (F_LIFO | F_HEAP) else deque(content)
            same = len(content) == self.count
            for i in range(self.count):
                same = same and <PyObject*>content[i] == self.slots[(self.head + i) & self.mask]
            if same and not self.flags & F_PYTHON:
                PyDict_Update(attributes, parts)
                self.flags |= F_PYTHON
                self._tell_all()
                self._empty_out()
        return 0

    @cython.final
    cdef int _late(self, object condition, int64_t deadline, object late_error) except -1:
        # Waits on a condition whose mutex is held.
        if deadline == NEVER:
            condition.wait(slice_over())
            return 0
        if deadline == TOO_LATE:
            _refuse_to_wait()
        left = deadline - monotonic_ns()
        if left <= 0:
            raise late_error
        condition.wait(left / 1e9)
        return 0

    @cython.final
    cdef int _locked_put(self, object item, int64_t deadline) except -1:
        not_full = self.not_full
        if deadline == NEVER:
            waited()
        with not_full:
            while True:
                if self.flags & F_SHUT:
                    raise ShutDown
                if self.limit == UNBOUNDED or self._qsize() < self.limit:
                    break
                self._late(not_full, deadline, Full)
            waited()
            self._put(item)
            self.unfinished += 1
            self.not_empty.notify()
        return 0

    @cython.final
    cdef object _locked_get(self, int64_t deadline):
        not_empty = self.not_empty
        if deadline == NEVER:
            waited()
        with not_empty:
            while not self._qsize():
                if self.flags & F_SHUT:
                    raise ShutDown
                self._late(not_empty, deadline, Empty)
            waited()
            item = self._get()
            self.not_full.notify()
            return item

    @cython.final
    cdef object _locked_size(self):
        with self.mutex:
            return self._qsize()

    @cython.final
    cdef int _locked_done(self) except -1:
        with self.all_tasks_done:
            self._one_less()
            if self.unfinished == 0:
                self.all_tasks_done.notify_all()
        return 0

    @cython.final
    cdef int _locked_join(self) except -1:
        waited()
        with self.all_tasks_done:
            while self.unfinished:
                self._late(self.all_tasks_done, NEVER, None)
            waited()
        return 0

    @cython.final
    cdef int _locked_shutdown(self, object immediate) except -1:
        with self.mutex:
            self.flags |= F_SHUT
            if immediate:
                while self._qsize():
                    self._get()
                    if self.unfinished > 0:
                        self.unfinished -= 1
                self.all_tasks_done.notify_all()
            self.not_empty.notify_all()
            self.not_full.notify_all()
        return 0


def _locks():
    mutex = threading.Lock()
    return {
        "mutex": mutex,
        "not_empty": threading.Condition(mutex),
        "not_full": threading.Condition(mutex),
        "all_tasks_done": threading.Condition(mutex),
    }


cdef class LifoQueue(Queue):
    """The native part of :class:`queuecore.stdqueue.LifoQueue`."""

    def __cinit__(self):
        self.flags |= F_LIFO


cdef class PriorityQueue(Queue):
    """The native part of :class:`queuecore.stdqueue.PriorityQueue`."""

    def __cinit__(self):
        self.flags |= F_HEAP


cdef class SimpleQueue(_Store):
    """SimpleQueue()\n--\n\nAn unbounded first-in, first-out queue without tasks, like `queue.SimpleQueue`.

    Notes
    -----
    Every method may be called from every thread, and `put` also from a finalizer, a weak reference's callback or a
    signal handler that interrupts a call on the same queue in the same thread.

    Examples
    --------
    >>> from queuecore.stdqueue import SimpleQueue
    >>> q = SimpleQueue()
    >>> q.put("a")
    >>> q.get(), q.empty()
    ('a', True)
    """

    def __init__(self):
        pass

    def __reduce__(self):
        raise TypeError(f"cannot pickle {type(self).__name__!r} object")

    def __repr__(self):
        cls = type(self)
        return f"<{cls.__module__}.{cls.__qualname__} qsize={self.count} at {<size_t><PyObject*>self:#x}>"

    @cython.binding(False)
    @cython.critical_section
    def put(self, item, block=True, timeout=None):
        """Put an object into the queue. It never waits; `block` and `timeout` are there to be like `Queue.put`."""
        self._push(item)

    @cython.binding(False)
    @cython.critical_section
    def get(self, block=True, timeout=None):
        """Take the next object out of the queue, waiting for one if need be.

        Parameters
        ----------
        block : bool, default True
            Whether to wait.
        timeout : float, optional
            How long to wait, in seconds; no limit by default. Without meaning if `block` is false.

        Returns
        -------
        object
            What was put.

        Raises
        ------
        Empty
            If there was nothing.
        ValueError
            If `timeout` is negative.
        """
        if self.count and timeout is None:
            return qc_moved(self._shift())
        if timeout is not None and _deadline(block, timeout) == TOO_LATE:
            _refuse_to_wait()
        return self._take(block, timeout)

    @cython.binding(False)
    @cython.critical_section
    def put_nowait(self, item):
        """Put an object into the queue."""
        self._push(item)

    @cython.binding(False)
    @cython.critical_section
    def get_nowait(self):
        """Take the next object out of the queue, or raise `Empty` if there is none now."""
        return self._take(False, None)

    @cython.critical_section
    def qsize(self):
        """Return the number of objects in the queue, which may be another one by the time you read it."""
        return self.count

    @cython.critical_section
    def empty(self):
        """Return whether the queue is empty, which may have changed by the time you read it."""
        return self.count == 0


# ---- the garbage collector
# --------------------------------------------------------------------------------------------------- Cython's functions
# for _Store know its Python attributes and not the array; ours know both. The subclasses' functions would only call
# these, so all types get the same ones.

cdef traverseproc _traverse_attributes = (<PyTypeObject*>_Store).tp_traverse


cdef int _traverse(PyObject* queue, visitproc visit, void* arg) noexcept:
    # Uses casts and no variable: a variable would hold a reference, and this runs while references are being counted.
    cdef Py_ssize_t i
    cdef int rc
    for i in range((<_Store>queue).count):
        rc = visit((<_Store>queue).slots[((<_Store>queue).head + i) & (<_Store>queue).mask], arg)
        if rc != 0:
            return rc
    return _traverse_attributes(queue, visit, arg)


cdef int _clear(PyObject* queue) noexcept:
    # Cython's function isn't used: it leaves None for a __dict__.
    cdef object store = <object>queue
    (<_Store>store)._empty_out()
    (<_Store>store).maximum = None
    # no attribute look-up: a class in the same cycle may be cleared already
    PyDict_Clear(PyObject_GenericGetDict(store, NULL))
    return 0


cdef void _adopt(object cls, const char* name) noexcept:
    cdef PyTypeObject* kind = <PyTypeObject*>cls
    kind.tp_traverse = _traverse
    kind.tp_clear = _clear
    kind.tp_name = name


_adopt(_Store, b"queuecore._core.handoff.objects._Store")
_adopt(Queue, b"queuecore._core.handoff.objects.Queue")
_adopt(LifoQueue, b"queuecore._core.handoff.objects.LifoQueue")
_adopt(PriorityQueue, b"queuecore._core.handoff.objects.PriorityQueue")
_adopt(SimpleQueue, b"queuecore.stdqueue.SimpleQueue")

cdef set _plain = {Queue, LifoQueue, PriorityQueue}


def plain(cls):
    """Register a class as one with the native `put` and `get`. Return the class."""
    _plain.add(cls)
    # The methods become its own: CPython calls methods of an object's very class by a shorter way than inherited ones.
    for name in ("put", "get", "put_nowait", "get_nowait"):
        inherited = getattr(cls, name)
        setattr(cls, name, PyDescr_NewMethod(<PyTypeObject*>cls, (<PyMethodDescrObject*>inherited).d_method))
    return cls
