# Page-locked memory of the host; some of it is kept when its user gives it back. Any thread, with or without the GIL.
#   I1  Page-locked memory isn't mapped in a forked child. A fork would otherwise copy it at once (the kernel can't
#       share pages that a device writes to or reads from), and the parent's next write could move it away from the
#       pages that the device knows. So the child neither reads nor writes there, and never unmaps it: other memory of
#       the child's may lie at that address.
from libc.stddef cimport size_t
from queuecore._core.device.driver cimport DeviceCore

# Returns page-aligned memory, on the device's node if there is room. NULL: *result says why; 0: there is no memory at
# all.
cdef void* pinned_take(DeviceCore* core, size_t nbytes, int* result) noexcept nogil
cdef void pinned_give(DeviceCore* core, void* p, size_t nbytes) noexcept nogil
# Frees the kept memory.
cdef void give_idle() noexcept nogil
