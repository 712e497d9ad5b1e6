"""Arrays and kernels of devices."""
