"""Scopes: what belongs together of the functions that users write."""
cimport cython
from cpython.ref cimport PyObject
from queuecore._core.atoms.errors cimport CODE_PRECONDITION, raise_error
from queuecore._core.atoms.process cimport check_layout
from queuecore._core.atoms.platform cimport layout_hash

check_layout(layout_hash())

cdef extern from *:
    """
    // What the functions of the user's that this thread runs belong to; a reference.
    static thread_local PyObject* qc_scope = nullptr;
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
    MOST_NESTED = 16             # iterators within functions of iterators
    MOST_AGAIN = 3               # those of one function within each other


cdef PyObject* current_scope() noexcept:
    return qc_scope


@cython.final
cdef class Scope:
    """The scope of users' functions that make the elements of one iterator. Such a function can't wait for it.

    Parameters
    ----------
    inner : bool
        Whether the iterator belongs to another one, and was not opened by a function.
    node : object, optional
        Whose functions they are.

    Attributes
    ----------
    stopped : bool
        Whether nobody wants these elements any more: then the functions can open no further iterators.
    """
    def __init__(self, bint inner, node=None):
        cdef Scope scope
        cdef int again = 0
        self.node = node
        self.parent = scope = <Scope>qc_scope if qc_scope != NULL else None
        if scope is not None:
            self.depth = scope.depth + (not inner)
        while scope is not None:
            if scope.stopped:
                raise_error(CODE_PRECONDITION, "the iterator that this function makes elements for is closed")
            again += scope.node is node and node is not None
            scope = scope.parent
        # In several threads each level has several times as many as the one above it.
        if again > MOST_AGAIN or self.depth > MOST_NESTED:
            raise_error(CODE_PRECONDITION,
                f"iterators are nested {max(again, self.depth)} deep: a function iterates over a dataset that calls it again")

    def enter(self):
        """Say that this thread runs such functions from now on. Returns what was so before, for `leave`."""
        before = <Scope>qc_scope if qc_scope != NULL else None  # a reference of its own: the thread's goes
        qc_set_scope(<PyObject*>self)
        return before

    @staticmethod
    def leave(Scope before):
        """Say that it no longer does."""
        qc_set_scope(<PyObject*>before if before is not None else NULL)
