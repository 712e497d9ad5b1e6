"""What a test of a fault may leave behind: nothing."""

from __future__ import annotations

import contextlib
import gc
import os
import pathlib
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from helpers.process import (
    AT_ONCE,
    PATIENCE,
    child_processes,
    mapped_files,
    open_descriptors,
    pipeline_threads,
    put_temporary_files,
    soon,
    thread_ids,
)


@contextlib.contextmanager
def nothing_left(folder: pathlib.Path) -> Iterator[None]:
    """Check that a test leaves threads, descriptors, child processes, mapped and temporary files as they were.

    What has to end gets time for it. `folder` is that of temporary files meanwhile, for this process and for those that
    it starts.
    """
    _comes(lambda: not pipeline_threads(), AT_ONCE)  # what tests before this one have left
    ours, threads, descriptors = pipeline_threads(), thread_ids(), open_descriptors()
    children, mapped = child_processes(), mapped_files()
    with pytest.MonkeyPatch.context() as patch:
        put_temporary_files(patch, folder)
        yield
    assert _comes(lambda: pipeline_threads() <= ours), pipeline_threads() - ours
    assert _comes(lambda: thread_ids() <= threads | _server()), list(map(_comm, thread_ids() - threads))
    assert _comes(lambda: open_descriptors() <= descriptors), (open_descriptors(), descriptors)
    assert _comes(lambda: child_processes() <= children), child_processes() - children
    assert _comes(lambda: mapped_files() <= mapped), mapped_files() - mapped
    assert os.listdir(folder) == []


@contextlib.contextmanager
def faults_end(syscalls: Any) -> Iterator[None]:
    """Let the faults of a test end with it, and check that its threads and descriptors do too."""
    before, descriptors = thread_ids(), open_descriptors()
    syscalls.reset_faults()
    yield
    syscalls.reset_faults()
    assert soon(lambda: thread_ids() <= before)
    assert soon(lambda: open_descriptors() <= descriptors)


def _comm(number: str) -> str:
    with contextlib.suppress(OSError):
        return pathlib.Path("/proc/self/task", number, "comm").read_text().strip()
    return "has ended"


def _server() -> set[str]:
    # Those of remote files that stay as long as the process: ours, and that in which fsspec's loop looks for hosts.
    return {
        str(thread.native_id)
        for thread in threading.enumerate()
        if thread.name == "qc-remote-0" or thread.name.startswith("asyncio_")
    }


def _comes(condition: Callable[[], bool], within: float = PATIENCE) -> bool:
    # What a test's own cycles keep is no leak; looking for them takes long, and is rarely needed.
    return soon(condition, 0.05) or (gc.collect() >= 0 and soon(condition, within))
