"""The device plane: the CUDA driver, memory on both sides, and batches on their way to a device."""
