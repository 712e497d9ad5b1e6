# Configurations: a description becomes a plan, whose runs are pipes.
from queuecore._core.io.blocks cimport Blocks
from queuecore._core.stream.describe cimport Description, Keeper
from queuecore._core.stream.pipe cimport Pipe
from queuecore._core.io.sources cimport FileTable
from queuecore._core.stream.views cimport Views

# Fills in the plan, whose blocks are `frame`, and the views of its batches. All are empty before. plan_clear frees the
# memory that the plan owns, also after an error. Returns the table of its files, with one reference, which the caller
# owns.
cdef FileTable* configure(Description d, Pipe* plan, Blocks* frame, Views views, Keeper keeper) except NULL
cdef void plan_clear(Pipe* plan) noexcept
