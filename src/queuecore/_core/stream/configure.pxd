# Configurations: a description becomes a plan, whose runs are pipes.
from queuecore._core.stream.describe cimport Description, Keeper
from queuecore._core.io.sources cimport FileTable
from queuecore._core.stream.views cimport Views

# Makes the plan, which the keeper owns from then on, and fills in the views of its batches, which are empty before.
# Returns the table of its files, with one reference, which the caller owns.
cdef FileTable* configure(Description d, Views views, Keeper keeper) except NULL
