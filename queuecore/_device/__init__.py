"""Arrays, kernels and staging of batches on devices."""
