"""Modules for tests and benchmarks. No wheel has them, and a build without QUEUECORE_TESTING compiles none."""
