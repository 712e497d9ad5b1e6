"""What holds after every fault: nothing is left behind."""

import gc
import threading

import pytest
from helpers.process import open_descriptors, soon, thread_count


def _ours():
    return [one.name for one in threading.enumerate() if one.name.startswith("qc-")]


def _comes(condition, within=1.0):
    # What a test's own cycles keep is no leak; looking for them takes long, and is rarely needed.
    return soon(condition, 0.05) or (gc.collect() >= 0 and soon(condition, within))


@pytest.fixture
def nothing_is_left():
    """Look whether threads, Python's and native ones, and open files are as before."""
    assert _comes(lambda: not _ours(), 20)
    before, files = thread_count(), open_descriptors()
    yield
    assert _comes(lambda: not _ours()), _ours()
    assert _comes(lambda: thread_count() <= before)
    assert _comes(lambda: open_descriptors() <= files)
