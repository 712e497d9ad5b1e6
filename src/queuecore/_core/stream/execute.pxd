# Executing: the work that is done without the turn. A unit reads and splits records, and publishes the batches that became whole.
from libc.stdint cimport int32_t
from queuecore._core.stream.pipe cimport Pipe

# Claims and runs one unit of a Pipe; a worker calls it again and again (StepFn of runtime.pxd).
cdef int execute_step(void* context, int32_t worker) noexcept nogil
# Runs a unit in the consumer's thread, as long as the page cache has the bytes. False: no unit was finished.
cdef bint execute_help(Pipe* p) noexcept nogil
