"""Backends of the request engine, for tests that run with each."""

import pytest

from queuecore._core.io.uring import refusal

needs_rings = pytest.mark.skipif(refusal() != 0, reason="the kernel lends no ring: io_uring is forbidden here")
BACKENDS = ["threads", pytest.param("uring", marks=needs_rings)]
