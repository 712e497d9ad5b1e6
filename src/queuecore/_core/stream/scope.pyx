"""Scopes: the iterator that the user's functions in a thread make elements for."""
cimport cython
from cpython.ref cimport PyObject
from queuecore._core.atoms.errors cimport CODE_PRECONDITION, raise_error
from queuecore._core.atoms.process cimport check_layout
from queuecore._core.atoms.platform cimport layout_hash

import weakref

check_layout(layout_hash())

cdef extern from *:
    """
    // The scope of the user's functions that this thread runs; an owned reference. Static: see atoms/times.pyx.
    static thread_local PyObject* qc_scope __attribute__((tls_model("initial-exec"))) = nullptr;
    static void qc_set_scope(PyObject* scope) {
      PyObject* before = qc_scope;
      Py_XINCREF(scope);
      qc_scope = scope;
      Py_XDECREF(before);
    }
    """
    PyObject* qc_scope
    void qc_set_scope(PyObject* scope)

cdef enum:
    MOST_NESTED = 16             # most iterators opened within functions of iterators
    MOST_AGAIN = 3               # most of these that belong to the same node


cdef PyObject* current_scope() noexcept:
    return qc_scope


@cython.final
cdef class Scope:
    """The scope of users' functions that make the elements of one iterator.

    Such a function can't wait for that iterator.

    Parameters
    ----------
    inner : bool
        Whether the iterator is a part of another one, and was not opened by a function.
    node : object, optional
        The dataset node that has the functions.

    Attributes
    ----------
    stopped : bool
        Whether the elements are no longer wanted: then the functions can't open further iterators.
    """
    def __init__(self, bint inner, node=None):
        cdef Scope scope
        cdef int repeats = 0
        # the scope's end refers to it: not to the node's functions
        self.node = None if node is None else weakref.ref(node)
        self.parent = scope = <Scope>qc_scope if qc_scope != NULL else None
        if scope is not None:
            self.depth = scope.depth + (not inner)
        while scope is not None:
            if scope.stopped:
                raise_error(CODE_PRECONDITION, "the iterator that this function makes elements for is closed")
            repeats += node is not None and scope.node is not None and scope.node() is node
            scope = scope.parent
        # Functions that run in several threads multiply the iterators at each level.
        if repeats > MOST_AGAIN or self.depth > MOST_NESTED:
            raise_error(CODE_PRECONDITION,
                f"iterators are nested {max(repeats, self.depth)} deep: a function iterates over a dataset that calls "
                "it again")

    def enter(self):
        """Make this the scope of the calling thread, and return the scope before, for `leave`."""
        before = <Scope>qc_scope if qc_scope != NULL else None  # a reference of its own: the thread's is dropped
        qc_set_scope(<PyObject*>self)
        return before

    @staticmethod
    def leave(Scope before):
        """Make the scope that `enter` returned the scope of the calling thread again."""
        qc_set_scope(<PyObject*>before if before is not None else NULL)


cdef int scope_check(Scope own) except -1:
    cdef Scope scope = <Scope>qc_scope if qc_scope != NULL and own is not None else None
    while scope is not None:
        if scope is own:
            raise_error(CODE_PRECONDITION,
                "a function that makes elements for this iterator can't use the iterator itself: it would wait "
                "for what only it can make. Make an iterator of its own with iter(dataset)")
        scope = scope.parent
    return 0
