"""The ground that all native code stands on: atomics, rings, slots, threads, waiting, random numbers, errors."""
