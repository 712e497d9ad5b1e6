# Claims: the work that is done under the turn. A worker claims the next unit here, and retires it when it has run.
from queuecore._core.stream.pipe cimport Pipe, Unit

cdef enum:
    CLAIM_UNIT = 0
    CLAIM_NOTHING = 1      # now
    CLAIM_STOP = 2
    CLAIM_FULL = 3         # nothing now, for want of room for another batch

# All three functions take the turn, never while a disk works.
# Claims a unit to be run; `helper`: only units that a consumer can run.
cdef int unit_claim(Pipe* p, bint helper, Unit** unit) noexcept nogil
# Retires a unit that has run: frees the rows and records that it held, and makes known the file or records that it
# brought.
cdef void unit_retire(Pipe* p, Unit* u) noexcept nogil
# Gives back a unit that a helper could not finish: a worker goes on with it.
cdef void unit_give_back(Pipe* p, Unit* u) noexcept nogil
