"""The Python that has TensorFlow, for tests that ask TensorFlow itself: `make peers` makes an environment with it."""

from __future__ import annotations

import importlib.util
import os
import sys

import pytest

PYTHON = os.environ.get("QUEUECORE_TENSORFLOW_PYTHON") or (
    sys.executable if importlib.util.find_spec("tensorflow") is not None else None
)

# For modules of which every test asks it.
ASKS_TENSORFLOW = [
    pytest.mark.peers,
    pytest.mark.skipif(PYTHON is None, reason="no TensorFlow here, nor QUEUECORE_TENSORFLOW_PYTHON: make peers"),
]


def asks_tensorflow(test):
    """Mark one test that asks it."""
    for mark in ASKS_TENSORFLOW:
        test = mark(test)
    return test
