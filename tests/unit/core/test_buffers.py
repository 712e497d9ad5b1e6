"""Buffers that stay mapped for the next one who wants about that size."""

from __future__ import annotations

import os

import pytest
from helpers.process import run_python

load = pytest.importorskip("queuecore._core.testing.load", reason="no test hooks (QUEUECORE_TESTING=1)")


def mapped(address: int) -> bool:
    """Whether an address is part of this process's memory."""
    with open("/proc/self/maps", encoding="ascii") as file:
        for line in file:
            low, _, high = line.partition(" ")[0].partition("-")
            if int(low, 16) <= address < int(high, 16):
                return True
    return False


def test_the_next_one_of_about_that_size_gets_it_again():
    first = load.buffer_address(12 << 20)
    assert mapped(first)
    other = load.buffer_address(8 << 20)
    assert other != first
    assert load.buffer_address(12 << 20) == first
    assert load.buffer_address((12 << 20) - 1000) == first


def test_the_oldest_leave_when_there_are_too_many_bytes():
    old = load.buffer_address(30 << 20)
    load.buffer_address(28 << 20)
    assert mapped(old)
    load.buffer_address(32 << 20)
    assert not mapped(old)


def test_a_large_one_is_given_back_at_once():
    assert not mapped(load.buffer_address((64 << 20) + 4096))


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")  # from Python 3.12 on, where there are threads
def test_a_forked_child_shares_none_with_its_parent():
    parent = load.buffer_address(5 << 20)
    child = os.fork()
    if child == 0:
        os._exit(load.buffer_address(5 << 20) == parent)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_what_is_kept_goes_before_memory_is_refused():
    code = """
    import pathlib, resource
    from queuecore._core.testing import load
    load.buffer_address(40 << 20)
    used = int(pathlib.Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + (10 << 20),) * 2)
    load.buffer_address(30 << 20)
    try:
        load.buffer_address(60 << 20)
    except MemoryError:
        print("refused")
    """
    child = run_python(code)
    assert (child.stdout, child.stderr) == ("refused\n", "")
