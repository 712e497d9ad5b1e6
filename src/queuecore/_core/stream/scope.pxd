# Scopes: which iterator the functions of the user's that a thread runs belong to.
from cpython.ref cimport PyObject

# The scope of the calling thread, borrowed; or NULL. Under the GIL.
cdef PyObject* current_scope() noexcept


cdef class Scope:
    cdef Scope parent
    cdef object node
    cdef int depth            # of iterators that functions opened within functions
    cdef public bint stopped
