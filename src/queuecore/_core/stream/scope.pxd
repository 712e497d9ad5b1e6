# Scopes: the iterator that the user's functions in a thread make elements for.
from cpython.ref cimport PyObject

# The scope of the calling thread, borrowed; or NULL. Under the GIL.
cdef PyObject* current_scope() noexcept


cdef class Scope:
    cdef Scope parent
    cdef object node          # a weak reference; None: the functions are no node's
    cdef int depth            # number of iterators around it, each opened by a function of the one before
    cdef public bint stopped


# Raises if the calling thread runs functions that make elements for the iterator with this scope; None: it has none.
cdef int scope_check(Scope own) except -1
