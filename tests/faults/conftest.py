"""What holds after every fault: nothing is left behind."""

import gc
import threading

import pytest
from helpers.process import open_descriptors, soon, thread_count


def _ours():
    return [one.name for one in threading.enumerate() if one.name.startswith("qc-")]


@pytest.fixture
def nothing_is_left():
    """Look whether threads, Python's and native ones, and open files are as before."""
    gc.collect()
    assert soon(lambda: not _ours(), 20)
    before, files = thread_count(), open_descriptors()
    yield
    gc.collect()
    assert soon(lambda: not _ours()), _ours()
    assert soon(lambda: thread_count() <= before)
    assert soon(lambda: open_descriptors() <= files)
