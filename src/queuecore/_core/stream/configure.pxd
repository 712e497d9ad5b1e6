# Configurations: a description becomes a plan, whose runs are pipes.
from queuecore._core.io.blocks cimport Blocks
from queuecore._core.stream.describe cimport Description, Keeper
from queuecore._core.stream.pipe cimport Pipe
from queuecore._core.io.sources cimport FileTable
from queuecore._core.stream.views cimport Views

# Fills in the plan, whose blocks are `frame`, and what its batches are seen as. All are empty before; what the plan owns, plan_clear
# frees, also after an error. Returns the table of its files, with one reference.
cdef FileTable* configure(Description d, Pipe* plan, Blocks* frame, Views views, Keeper keeper) except NULL
cdef void plan_clear(Pipe* plan) noexcept
