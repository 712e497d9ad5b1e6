# Executing: what happens without the turn. A unit reads, splits, and publishes what became whole.
from libc.stdint cimport int32_t
from queuecore._core.stream.pipe cimport Pipe

# What a worker of a Pipe does again and again: one unit (runtime.pxd's StepFn).
cdef int execute_step(void* context, int32_t worker) noexcept nogil
# The consumer runs a unit itself, as long as the page cache has the bytes. False: nothing was done.
cdef bint execute_help(Pipe* p) noexcept nogil
