"""Python's allocator, which refuses one piece of memory."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import TypeVar

import pytest

T = TypeVar("T")


def call_without(n: int, call: Callable[[], T]) -> T:
    """Call it, and refuse the n-th piece of memory that it asks Python for.

    The garbage collector rests: it would take the refusal in place of the code under test, and only print it.
    """
    testcapi = pytest.importorskip("_testcapi")
    gc.disable()
    testcapi.set_nomemory(n, n + 1)
    try:
        return call()
    finally:
        testcapi.remove_mem_hooks()
        gc.enable()
