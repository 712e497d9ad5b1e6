# Executing: the work that is done without the turn. A unit reads and splits records, and publishes the batches that
# became whole.
from libc.stdint cimport int32_t, int64_t
from queuecore._core.stream.pipe cimport Pipe

# Prepares a new pipe's engine, if it has one.
cdef void execute_init(Pipe* p) noexcept nogil
# Claims and runs one unit of a Pipe, or does a request of its engine; a worker calls it again and again (StepFn of
# runtime.pxd).
cdef int execute_step(void* context, int32_t worker) noexcept nogil
# Runs a unit in the consumer's thread, as long as the page cache has the bytes. Returns the ticks that it took; -1: no
# unit was finished.
cdef int64_t execute_help(Pipe* p) noexcept nogil
