# Planning: what happens under the turn. The next unit of work is claimed here, and given back when it has run.
from queuecore._core.stream.pipe cimport Pipe, Unit

cdef enum:
    CLAIM_UNIT = 0
    CLAIM_NOTHING = 1      # now
    CLAIM_STOP = 2

# These take the turn, for as long as planning takes and never while a disk works.
# A unit to be run; of what a helper can't run, none.
cdef int plan_claim(Pipe* p, bint helper, Unit** unit) noexcept nogil
# A unit that has run: what it held is free, what it brought is known.
cdef void plan_retire(Pipe* p, Unit* u) noexcept nogil
# A unit that a helper could not finish: a worker goes on with it.
cdef void plan_give_back(Pipe* p, Unit* u) noexcept nogil
